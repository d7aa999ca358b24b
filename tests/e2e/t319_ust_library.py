# SPDX-License-Identifier: GPL-2.0-or-later
"""The library itself: what its hot path is made of, its thread, its probes, and what `make install` gives."""
import errno
import os
import re
import subprocess
from pathlib import Path

import arenas
import pytest
import tracing
from daemons import daemon, ticker  # noqa: F401
from processes import wait_for

SLOW = {"reserve_slow"}  # where a packet changes hands


def instructions(path, function):
    """Those of the function alone; none of what the compiler has put elsewhere because it is rarely run."""
    run = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", path], text=True,
                         capture_output=True, check=True)
    found = re.findall(r"^ +[0-9a-f]+:\t(.*?) *$", run.stdout, re.M)
    assert found, run.stdout
    return [re.sub(r" *#.*", "", i) for i in found]


def check_hot(path, function, may_call=frozenset()):
    """No locked instruction, no system call, nothing of libc or of other libraries. Returns the calls by pointer."""
    pointers = 0
    for i in instructions(path, function):
        name = i.split()[0]
        assert name not in ("lock", "syscall", "mfence", "cpuid"), (function, i)
        assert not (name.startswith("xchg") and "(" in i), (function, i)  # which locks without saying so
        target = re.search(r"<([^>+]+)", i) if re.match(r"call|j", name) else None
        if target:
            assert target[1].split(".")[0] in {function, *may_call}, (function, i)
        elif name.startswith("call"):
            pointers += 1
    return pointers


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_nothing_is_locked_on_the_hot_path(build, tmp_path, kind):
    path = tracing.agent(build)
    if kind == "static":
        archive = ["-Wl,--whole-archive", build / "src/agent/libspoor-ust.a", "-Wl,--no-whole-archive", "-lurcu-bp"]
        path = tracing.build_program(tmp_path / "actor", "ust_actor.c", *archive)
    assert not check_hot(path, "reserve_tsc", SLOW)


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_nothing_is_called_where_events_are_written(tmp_path, compiler):
    """But, by pointers: reserve, and for probes and what is not written at once three more."""
    path = tracing.build_program(tmp_path / "actor", "ust_clock.c", compiler=compiler)
    names = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.split()
    emit, = (n for n in names if "spoor_emit_zoo__clock" in n and "." not in n)
    assert 1 <= check_hot(path, emit) <= 5


WITHOUT_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


def threads(pid):
    """[(name, mask of blocked signals)], sorted. A thread has its maker's name until it gives itself another."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
        found.append((status["Name"], int(status["SigBlk"], 16)))
    return sorted(found)


def test_one_thread_at_most(daemon, ticker):  # noqa: F811
    """However many sessions come and go; it has all signals blocked, and the program's own has none."""
    none = daemon.program(*WITHOUT_CAPABILITIES, ticker, 1, 0, 500)
    assert threads(none.pid) == [("ticker", 0)]
    daemon.ust("start", "-o", "t.spoor")
    p = daemon.program(*WITHOUT_CAPABILITIES, ticker, 1, 0, 500)
    # KILL and STOP cannot be blocked, and libc keeps 32 and 33, for pthread_cancel() and setuid().
    listening = [("spoor-ust", (2**64 - 1) & ~(1 << 8 | 1 << 18 | 3 << 31)), ("ticker", 0)]
    wait_for(lambda: threads(p.pid) == listening)
    for turn in range(3):
        daemon.ust("start", "-s", f"s{turn}", "-o", f"s{turn}.spoor")
        assert threads(p.pid) == listening and len(threads(none.pid)) == 1
    for turn in range(3):
        daemon.ust("end", "-s", f"s{turn}")
    daemon.ust("end")
    assert len(threads(p.pid)) <= 2 and p.poll() is None


@pytest.mark.parametrize("sanitize", [[], ["-fsanitize=address", "-fno-omit-frame-pointer"]], ids=["bare", "address"])
def test_data_of_probes_is_not_used_after_a_synchronize(build, tmp_path, sanitize):
    """Threads run through the sites all the while."""
    linked = ["-Wl,--no-as-needed", tracing.agent(build), f"-Wl,-rpath,{build}/src/agent"]
    program = tracing.build_program(tmp_path / "probes", "ust_probes.c", *sanitize, *linked)
    run = subprocess.run([program, "40", "3"], capture_output=True, text=True, timeout=90)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout.split()[1]) >= 40 * 2 * 3


WITHIN = r"""
#include <pthread.h>
#include <stdio.h>
#include <spoor/marker.h>
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(within, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

static void ends(void *data, int n) { (void)data; (void)n; pthread_exit(NULL); }
static void other(void *data, int n) { (void)n; ++*(int *)data; }
static int calls;

static void try_all(void)
{
	printf("%d %d ", register_trace_within_step(ends, NULL), unregister_trace_within_step(other, &calls));
	tracepoint_synchronize_unregister();
	printf("%d %d ", marker_probe_register("m", NULL, NULL, NULL), marker_probe_unregister("m", NULL, NULL));
	marker_synchronize_unregister();
}

static void tries(void *data, int n) { (void)data; (void)n; try_all(); }
static void mark_tries(void *data, void *call_data, const char *format, va_list *args)
{
	(void)data; (void)call_data; (void)format; (void)args;
	try_all();
}

static void *thread(void *arg)
{
	spoor_trace(within, step, 2);
	printf("not reached\n");
	return arg;
}

int main(void)
{
	pthread_t t;

	if (register_trace_within_step(other, &calls) || register_trace_within_step(tries, NULL) ||
	    marker_probe_register("within_mark", NULL, mark_tries, NULL))
		return 1;
	spoor_trace(within, step, 1);
	trace_mark(within_mark, "n %d", 1);
	if (unregister_trace_within_step(tries, NULL) || marker_probe_unregister("within_mark", mark_tries, NULL) ||
	    register_trace_within_step(ends, NULL))
		return 1;
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
	if (unregister_trace_within_step(ends, NULL) || unregister_trace_within_step(other, &calls))
		return 1;
	tracepoint_synchronize_unregister();
	printf("calls %d\n", calls);
	return 0;
}
"""


def test_registering_in_a_probe_is_refused(build, tmp_path):
    """It would wait for itself; a probe that ends its thread is waited for by nobody."""
    (tmp_path / "within.c").write_text(WITHIN)
    linked = ["-Wl,--no-as-needed", tracing.agent(build), f"-Wl,-rpath,{build}/src/agent"]
    program = tracing.build_program(tmp_path / "within", tmp_path / "within.c", *linked)
    run = subprocess.run([program], capture_output=True, text=True, timeout=30)
    deadlocks = 2 * 4 * [str(-errno.EDEADLK)]
    assert run.returncode == 0 and run.stdout.split() == [*deadlocks, "calls", "2"], run.stdout


NO_MEMORY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <spoor/marker.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(memory, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
extern void *__libc_calloc(size_t n, size_t size);
static long left = -1; /* until there is none */
static int stays, goes;

void *calloc(size_t n, size_t size)
{
	if (!left)
		return NULL;
	left -= left > 0;
	return __libc_calloc(n, size);
}

static void probe(void *data, int n) { ++*(int *)data; (void)n; }
static void mark(void *data, void *call_data, const char *format, va_list *args)
{
	(void)call_data; (void)format; (void)args;
	++*(int *)data;
}
static int add_step(void) { return register_trace_memory_step(probe, &goes); }
static int drop_step(void) { return unregister_trace_memory_step(probe, &goes); }
static int add_mark(void) { return marker_probe_register("memory_mark", NULL, mark, &goes); }
static int drop_mark(void) { return marker_probe_unregister("memory_mark", mark, &goes); }

static void sites(const char *what, int said)
{
	left = -1;
	stays = goes = 0;
	for (int i = 0; i < 2; i++)
		spoor_trace(memory, step, i);
	trace_mark(memory_mark, "n %d", 1);
	trace_mark(memory_mark, "m %d", 1);
	printf("%s %d %d %d\n", what, said, stays, goes);
}

static void try(int (*add)(void), int (*drop)(void))
{
	int said = -1;

	for (int n = 0; said; n++) {
		left = n;
		said = add();
		sites("add", said);
	}
	left = 0;
	sites("drop", drop());
	sites("add", add());
	sites("drop", drop());
}

int main(void)
{
	if (register_trace_memory_step(probe, &stays) || marker_probe_register("memory_mark", NULL, mark, &stays))
		return 1;
	try(add_step, drop_step);
	try(add_mark, drop_mark);
	return 0;
}
"""


def test_a_probe_without_memory(build, tmp_path):
    """It is registered for all sites or, as its caller is told, for none. One that goes does so without memory."""
    (tmp_path / "memory.c").write_text(NO_MEMORY)
    linked = ["-Wl,--no-as-needed", tracing.agent(build), f"-Wl,-rpath,{build}/src/agent"]
    program = tracing.build_program(tmp_path / "memory", tmp_path / "memory.c", "-fno-builtin", *linked)
    run = subprocess.run([program], capture_output=True, text=True, timeout=30)
    fails, goes = f"add {-errno.ENOMEM} 4 0", ["add 0 4 2", "drop 0 4 0"]
    assert run.stdout.splitlines() == [*2 * [fails], *2 * goes, *3 * [fails], *2 * goes], run


@pytest.fixture(scope="module")
def installed(build, tmp_path_factory):
    """Where `make install` with a DESTDIR has put it, and pkg-config for it."""
    root = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], check=True, timeout=120,
                   env=os.environ | {"DESTDIR": str(root)}, stdout=subprocess.DEVNULL)
    where, = root.rglob("spoor-ust.pc")

    def flags(*more):
        env = os.environ | {"PKG_CONFIG_PATH": str(where.parent), "PKG_CONFIG_SYSROOT_DIR": str(root)}
        return subprocess.run(["pkg-config", "--cflags", "--libs", *more], env=env, capture_output=True, text=True,
                              check=True).stdout.split()
    flags.libraries = where.parent.parent
    return flags


LTTNG = """
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "provider.h"
int main(void) { for (int i = 0; i < 101; i++) lttng_ust_tracepoint(mine, event, i); return 0; }
"""
PROVIDER = """
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER mine
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./provider.h"
#if !defined(PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PROVIDER_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(mine, event, LTTNG_UST_TP_ARGS(int, n),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, n, n)))
#endif
#include <lttng/tracepoint-event.h>
"""
PLAIN = """
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(mine, event, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
int main(void) { for (int i = 0; i < 101; i++) spoor_trace(mine, event, i); return 0; }
"""


@pytest.mark.parametrize("package, source", [("spoor-ust", PLAIN), ("spoor-lttng-ust", LTTNG)])
@pytest.mark.parametrize("static", [[], ["--static"]], ids=["shared", "static"])
def test_installed(installed, build, tmp_path, package, source, static):
    """Programs are built by what pkg-config says alone, and run with the installed library, or without any."""
    (tmp_path / "mine.c").write_text(source)
    (tmp_path / "provider.h").write_text(PROVIDER)
    words = installed(*static, package)
    assert not any(str(build) in w or str(tracing.INCLUDE) in w for w in words)
    subprocess.run(["gcc", "-O2", "-I.", "-o", "mine", "mine.c", *(["-static"] if static else []), *words],
                   cwd=tmp_path, check=True, timeout=60)
    env = tracing.environment(build, tmp_path / "out", preload=False)
    if not static:
        env["LD_LIBRARY_PATH"] = str(installed.libraries)
    assert subprocess.run([tmp_path / "mine"], env=env, timeout=20).returncode == 0
    assert [e.values for e in arenas.arena(tmp_path / "out").events] == [{"n": i} for i in range(101)]
