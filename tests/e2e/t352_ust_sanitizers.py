# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that are built with sanitizers, whose runtimes stand between them and libc: they run, nothing is reported of
them, and every event is there. The library itself is never built so (t325_ust_races.py does it, to watch it)."""
import re
import subprocess

import pytest
import tracing
from daemons import daemon, in_a_row  # noqa: F401
from processes import wait_for

WAYS = [("gcc", "address"), ("gcc", "address,undefined"), ("gcc", "thread"), ("gcc", "leak"),
        ("clang", "address"), ("clang", "thread"), ("clang", "memory"), ("clang", "undefined"), ("clang", "leak")]


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: "-".join(way).replace(",", "-"))
def sanitized(request, tmp_path_factory):
    compiler, sanitizer = request.param
    return tracing.build_program(tmp_path_factory.mktemp("bin") / "ticker", "ust_ticker.c", f"-fsanitize={sanitizer}",
                                 "-fno-sanitize-recover=all", compiler=compiler)


def numbers(events, thread):
    return [e["fields"]["n"] for e in events if e["event"] == "zoo:tick" and e["fields"]["thread"] == thread]


@pytest.mark.parametrize("through", [[], ["sh", "-c", '"$@"; exit $?', "sh"]], ids=["command", "shell"])
def test_run(build, daemon, sanitized, tmp_path, through):
    """Threads that come after others use their buffers, a child its own; strings end wherever they do."""
    run = subprocess.run([build / "spoor", "ust", "run", "-o", "t.spoor", "--", *through, sanitized, "4", "2003", "0",
                          "fork"], capture_output=True, text=True, cwd=tmp_path, timeout=100)
    said = [line for line in run.stderr.splitlines() if not line.startswith("spoor: ")]
    assert run.returncode == 0 and not said, run
    events = daemon.events()
    threads = {e["fields"]["thread"] for e in events if e["event"] == "zoo:tick"}
    assert len(threads) == 8
    for thread in threads:
        assert numbers(events, thread) == list(range(2003))


def test_found(daemon, sanitized):
    """One that runs already is reached: its handler of ours is there, though installed before the runtime began."""
    p = daemon.program(sanitized, 2, 0, 500, ASAN_OPTIONS="verify_asan_link_order=0")
    assert daemon.ust("start", "-o", "t.spoor", p.pid).stdout.startswith("1 program, 2 sites")
    wait_for(lambda: re.search(r"\d{3} events", daemon.ust("status").stdout))
    daemon.ust("end")
    assert p.poll() is None
    events = daemon.events()
    assert all(len(numbers(events, t)) > 10 and in_a_row(numbers(events, t)) for t in (0, 1))


def test_types_of_functions(build, tmp_path):
    """-fsanitize=function, from clang 17 on part of undefined, tells of calls of what has other parameters."""
    linked = ["-Wl,--no-as-needed", tracing.agent(build), f"-Wl,-rpath,{build}/src/agent"]
    program = tracing.build_program(tmp_path / "strict", "ust_strict.c", "-fsanitize=undefined,function",
                                    "-fno-sanitize-recover=all", *linked, compiler="clang++")
    run = subprocess.run([program, "probes"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and not run.stderr, run


def test_beside_a_string(build, tmp_path):
    """Bytes behind a string's end, which are read with it, need not have been written."""
    (tmp_path / "strings.c").write_text("""
#include <stdio.h>
#include "spoor/tracepoint.h"
SPOOR_TRACEPOINT(zoo, name, TP_PROTO(const char *s), TP_ARGS(s), TP_FIELDS(spoor_string(s, s)))
int main(void)
{
	char s[64];
	for (int i = 0; i < 1000; i++) {
		snprintf(s, sizeof(s), "%.*s%d", i % 50, "12345678901234567890123456789012345678901234567890", i);
		spoor_trace(zoo, name, s);
	}
	return 0;
}
""")
    program = tracing.build_program(tmp_path / "strings", tmp_path / "strings.c", "-fsanitize=memory", compiler="clang")
    run, [arena] = tracing.traced(build, tmp_path / "out", program)
    assert run.returncode == 0 and not run.stderr, run.stderr
    digits = "1234567890" * 5
    assert [e.values["s"] for e in arena.events] == [digits[:i % 50] + str(i) for i in range(1000)]


PROBES = r"""
#include <pthread.h>
#include <stdlib.h>
#include "spoor/tracepoint.h"
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
static int done;

static void probe(void *data, int n)
{
	__atomic_fetch_add((long *)data, n, __ATOMIC_RELAXED);
	BODY;
}

static void *run(void *arg)
{
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
		spoor_trace(zoo, tick, 1 + (arg != NULL));
	return NULL;
}

int main(void)
{
	pthread_t t[2];
	long sum = 0;

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, run, i ? &t : NULL);
	for (int i = 0; i < 300 || !sum; i++) {
		long *data = calloc(3, sizeof(*data));

		data[1] = data[2] = i;
		if (register_trace_zoo_tick(probe, data))
			return 2;
		sched_yield();
		if (unregister_trace_zoo_tick(probe, data))
			return 3;
		tracepoint_synchronize_unregister();
		sum += data[0] + data[1] - data[2];
		free(data);
	}
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	return !sum;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("races", [False, True], ids=["right", "wrong"])
def test_data_of_probes(build, tmp_path, compiler, races):
    """ThreadSanitizer knows that data is handed to probes and back; what probes do to each other it still reports, if
    not in one run then in the next."""
    body = "((long *)data)[1]++" if races else "(void)*(volatile long *)&((long *)data)[1 + n % 2]"
    (tmp_path / "probes.c").write_text(PROBES.replace("BODY", body))
    program = tracing.build_program(tmp_path / "probes", tmp_path / "probes.c", "-fsanitize=thread", compiler=compiler)
    for _ in range(8):
        run = subprocess.run([program], env=tracing.environment(build, None), capture_output=True, text=True,
                             timeout=100)
        if run.returncode or not races:
            break
    if races:
        assert run.returncode == 66 and "in probe" in run.stderr, run
    else:
        assert run.returncode == 0 and not run.stderr, run


IN_TURN = r"""
#include <pthread.h>
#include "spoor/marker.h"
static void probe(void *data, void *call_data, const char *format, va_list *args)
{
	(void)data; (void)call_data; (void)format; (void)args;
}

static void *run(void *data)
{
	for (int i = 0; i < 20; i++)
		if (marker_probe_register("m", NULL, probe, data) || marker_probe_unregister("m", probe, data))
			return data;
	return NULL;
}

int main(void)
{
	pthread_t t[2];
	void *failed[2];

	trace_mark(m, "n %d", 1);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, run, &failed[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], &failed[i]);
	return failed[0] || failed[1];
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_threads_that_register_probes(build, tmp_path, compiler):
    """Nothing is said of what the library keeps of them."""
    (tmp_path / "turn.c").write_text(IN_TURN)
    program = tracing.build_program(tmp_path / "turn", tmp_path / "turn.c", "-fsanitize=thread", compiler=compiler)
    run = subprocess.run([program], env=tracing.environment(build, None), capture_output=True, text=True, timeout=100)
    assert run.returncode == 0 and not run.stderr, run
