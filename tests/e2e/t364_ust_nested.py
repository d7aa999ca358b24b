# SPDX-License-Identifier: GPL-2.0-or-later
"""Signal handlers over half-written events, as deep as programs can have them: no event is lost for that."""
import json
import re
import signal
import subprocess
from collections import Counter

import pytest
import tracing
from daemons import daemon  # noqa: F401 (fixture)

HOW = {"plain": {}, "filter": {"SPOOR_UST_FILTER": "n >= 0"}, "contexts": {"SPOOR_UST_CONTEXT": "*"},
       "both": {"SPOOR_UST_FILTER": "n >= 0", "SPOOR_UST_CONTEXT": "*"}, "small": {"SPOOR_UST_BUFFERS": "64K"},
       "overwrite": {"SPOOR_UST_MODE": "overwrite", "SPOOR_UST_BUFFERS": "256K"},
       "block": {"SPOOR_UST_MODE": "block", "SPOOR_UST_BUFFERS": "64K"}, "clock": {"SPOOR_UST_CLOCK": "monotonic"}}
LEFT, CHILD = 1000000, 2000000  # as in ust_deep.c
FORKED = 1000000  # as in ust_interrupted.c


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("bin") / "deep", "ust_deep.c")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("bin") / "interrupted", "ust_interrupted.c")


def numbers(trace, name="deep:step"):
    return [e.values["n"] for e in trace.events if e.name == name]


def run_deep(build, deep, out, mode, depth, rounds, **how):
    run, traces = tracing.traced(build, out, deep, mode, depth, rounds, **how)
    assert run.returncode == 0, run
    tracing.check_promises(run.stdout, traces[:1])
    assert not any(t.lost() for t in traces)
    for e in traces[0].events:
        assert e.values["bytes"] == [e.values["n"] % 251] * 24
    return traces


def in_order(depth, rounds, in_place):
    """The outermost ones are stamped when they are begun, all others when they are complete, the innermost first."""
    one = [*range(in_place), *range(depth - 1, in_place - 1, -1)]
    return [i * depth + n for i in range(rounds) for n in one]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("mode, depth, rounds", [("signals", 40, 3), ("again", 500, 2), ("onstack", 100, 2)])
def test_each_event_is_there(build, deep, tmp_path, mode, depth, rounds, how):
    """Once, whole, in order; and of a thread's buffers no more are taken than by handlers that are not deep."""
    trace, = run_deep(build, deep, tmp_path / "out", mode, depth, rounds, **HOW[how])
    in_place = 0 if "SPOOR_UST_FILTER" in HOW[how] else 3
    assert numbers(trace) == in_order(depth, rounds, in_place)
    assert sum(p.tid == trace.pid and p.state == 1 for p in trace.packets) <= 4
    assert {p.level for p in trace.packets} == ({0, 1, 2, 3} if in_place else {0})
    assert not trace.channels[0]["shared"] and not trace.channels[0]["overwritten"]


@pytest.mark.parametrize("how", ["plain", "both"])
def test_left_by_siglongjmp(build, deep, tmp_path, how):
    trace, = run_deep(build, deep, tmp_path / "out", "left", 50, 3, **HOW[how])
    assert not [n for n in numbers(trace) if n >= LEFT]


@pytest.mark.parametrize("how", ["plain", "contexts", "both"])
def test_fork_in_the_innermost_handler(build, deep, tmp_path, how):
    """What its parent had half written the child does not complete."""
    _, child = run_deep(build, deep, tmp_path / "out", "fork", 50, 1, **HOW[how])
    assert numbers(child) == [CHILD, CHILD + 1]


@pytest.mark.parametrize("how", ["plain", "filter", "contexts", "both", "overwrite"])
def test_fork_and_go_on_late(build, deep, tmp_path, how):
    """Children go on in what their parent had half written when it has other events there: these stay as they are."""
    small = {"SPOOR_UST_BUFFERS": "1M" if how == "overwrite" else "64K", "SPOOR_UST_PACKET": "4K"}
    run, traces = tracing.traced(build, tmp_path / "out", deep, "late", 4, 20, **HOW[how] | small)
    assert run.returncode == 0, run
    tracing.check_promises(run.stdout, traces[:1])
    assert not any(t.lost() for t in traces) and len(traces) == 21
    assert all(e.values["bytes"] == [e.values["n"] % 251] * 24 for e in traces[0].events)
    assert all(numbers(child) == [CHILD] for child in traces[1:])


@pytest.mark.parametrize("how", ["plain", "both"])
def test_threads_that_come_and_go(build, deep, tmp_path, how):
    """Every other one ends within its innermost handler. What one has used the next one gets."""
    trace, = run_deep(build, deep, tmp_path / "out", "threads", 60, 101, **HOW[how])
    assert len(numbers(trace)) == 6060 and len(trace.packets) < 30 and not trace.channels[0]["shared"]


@pytest.mark.parametrize("how, instructions", [
    ({}, (40, 130, 3)), (HOW["filter"], (70, 230, 5)), (HOW["contexts"], (50, 500, 25)),
    ({"SPOOR_UST_CONTEXT": "callstack"}, (100, 500, 16))], ids=["plain", "filter", "contexts", "callstack"])
def test_interrupted_anywhere(build, interrupted, tmp_path, how, instructions):
    """31 signals, the next one always some instructions after the one before, also in the library's code."""
    run, traces = tracing.traced(build, tmp_path / "out", interrupted, *instructions, **how)
    assert run.returncode == 0, run
    tracing.check_promises(run.stdout, traces)
    assert not any(t.lost() for t in traces) and int(run.stdout.split("deepest ")[1]) == 31
    events = [e for t in traces for e in t.events]
    assert all(e.values["s"] == "seventeen letters" for e in events)
    lost = 6  # enum spoor_walk_status: there was nothing to walk with
    assert not [e for e in events if e.values.get("callstack_status") == lost]


@pytest.mark.parametrize("how", [{}, HOW["filter"], {"SPOOR_UST_CONTEXT": "vpid"}, HOW["contexts"]],
                         ids=["plain", "filter", "context", "contexts"])
def test_fork_anywhere(build, interrupted, tmp_path, how):
    """By a handler; the child goes on there: it lives, records on, and of its parent's events each is there once."""
    run, traces = tracing.traced(build, tmp_path / "out", interrupted, 15, 400, 1, "fork", SPOOR_UST_BUFFERS="64K",
                                 **how)
    assert run.returncode == 0, run
    _, parent, *forked = traces
    tracing.check_promises(run.stdout, [parent])
    assert not any(t.lost() for t in traces)
    assert all(e.values["s"] == "seventeen letters" for t in traces for e in t.events)
    seen = [numbers(child, "interrupted:step") for child in forked]
    assert len(seen) > 80 and all(n[-1] == FORKED and FORKED not in n[:-1] for n in seen)


def test_recorded_and_read(daemon, deep):  # noqa: F811
    """By a daemon, in two sessions that want different things of it; both are read by babeltrace2."""
    daemon.ust("start", "-s", "a", "-o", "a.spoor", "--context", "callstack", "--stack", "all,64")
    daemon.ust("start", "-s", "b", "-o", "b.spoor", "-e", "deep:step", "--filter", "n >= 500")
    run = subprocess.run([deep, "signals", "40", "25"], env=daemon.environment(), capture_output=True, timeout=60)
    assert run.returncode == 0, run
    daemon.ust("end", "-s", "a"), daemon.ust("end", "-s", "b")
    for name, expect in ("a.spoor", range(1000)), ("b.spoor", range(500, 1000)):
        told = subprocess.run([daemon.build / "spoor", "report", "--format", "json", name], cwd=daemon.cwd, text=True,
                              capture_output=True, check=True)
        *events, summary = map(json.loads, told.stdout.splitlines())
        found = [e["fields"]["n"] for e in events if e["event"] == "deep:step"]
        assert Counter(found) == Counter(expect) and not summary["discarded"] and not summary["damages"]
        babel = subprocess.run(["babeltrace2", name], cwd=daemon.cwd, text=True, capture_output=True, check=True)
        assert [*map(int, re.findall(r"deep:step:.*? n = (\d+)", babel.stdout))] == found


def test_recorded_in_place_and_by_drafts(daemon, deep):  # noqa: F811
    """Of one program some events have a filter, and others, over which they are begun, have none."""
    daemon.ust("start", "-o", "t.spoor", "-e", "deep:step")
    daemon.ust("enable", "deep:other", "-a", "--filter", "n >= 0")
    run = subprocess.run([deep, "both", "60", "10"], env=daemon.environment(), capture_output=True, timeout=60)
    assert run.returncode == 0, run
    daemon.ust("end")
    daemon.events()
    assert daemon.summary["user_events"] == 600 and not daemon.summary["discarded"]


@pytest.mark.parametrize("how", [[], ["--filter", "n >= 0"], ["--context", "vtid"]], ids=["", "filter", "context"])
def test_without_room(daemon, deep, how):  # noqa: F811
    """What there is no room for is counted, each event of them once: the recorder takes nothing meanwhile."""
    daemon.ust("start", "-o", "t.spoor", "--buffers", "64k", *how)
    daemon.process.send_signal(signal.SIGSTOP)
    run = subprocess.run([deep, "again", "1501", "1"], env=daemon.environment(), capture_output=True, timeout=60)
    daemon.process.send_signal(signal.SIGCONT)
    assert run.returncode == 0, run
    daemon.ust("end")
    daemon.events()
    there, lost = daemon.summary["user_events"], daemon.summary["discarded"]
    assert there > 500 and lost > 200 and there + lost == 1501


def test_faults_without_room(daemon, deep):  # noqa: F811
    """Reading what an event is to have may fault, and the program's handler make it good: also in threads that find
    no packet of their own, whose events go to a shared one, and where there is no room at all."""
    daemon.ust("start", "-o", "t.spoor", "--buffers", "64k")
    begun = 0
    for takes in True, False:
        daemon.process.send_signal(signal.SIGCONT if takes else signal.SIGSTOP)
        run = subprocess.run([deep, "again", "2", "5000"], env=daemon.environment(), capture_output=True, timeout=60)
        daemon.process.send_signal(signal.SIGCONT)
        assert run.returncode == 0, run
        begun += int(run.stdout.split()[-1])
    daemon.ust("end")
    daemon.events()
    there, lost = daemon.summary["user_events"], daemon.summary["discarded"]
    assert there > 1000 and lost > 1000 and there + lost == begun


LEAVE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(deep, step, TP_PROTO(long n, const char *from), TP_ARGS(n, from),
		 TP_FIELDS(spoor_int(long, n, n), spoor_array(char, from, from, 4)))
static const char *page;
static __thread sigjmp_buf out;
static pthread_barrier_t all;
static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}
static void *leave(void *n)
{
	spoor_trace(deep, step, (long)n, "here");
	pthread_barrier_wait(&all);
	if (!sigsetjmp(out, 1))
		spoor_trace(deep, step, 1000, page);
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all);
	spoor_trace(deep, step, 100 + (long)n, "here");
	return NULL;
}
/* With main()'s thread-local storage, so without packets of its own. */
static volatile int shares = 1;
static int share(void *arg)
{
	(void)arg;
	if (spoor_thread_init)
		spoor_thread_init();
	for (long n = 200; n < 300; n++)
		spoor_trace(deep, step, n, "here");
	syscall(SYS_exit, 0);
	return 0;
}
int main(void)
{
	const int thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	static char stack[65536] __attribute__((aligned(16)));
	struct sigaction a = { .sa_handler = on_fault };
	pthread_t t[60];

	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &a, NULL);
	pthread_barrier_init(&all, NULL, 61);
	for (long i = 0; i < 60; i++)
		pthread_create(&t[i], NULL, leave, (void *)i);
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all);
	if (clone(share, stack + sizeof(stack), thread | CLONE_CHILD_CLEARTID, NULL, NULL, NULL, &shares) < 0)
		return 1;
	while (shares)
		usleep(1000);
	pthread_barrier_wait(&all);
	for (int i = 0; i < 60; i++)
		pthread_join(t[i], NULL);
	puts("recorded deep:step 0 60\\nrecorded deep:step 100 160\\nrecorded deep:step 200 300");
	return 0;
}
"""


@pytest.mark.parametrize("how", [{}, {"SPOOR_UST_FILTER": "n >= 0"}], ids=["", "filter"])
def test_left_by_more_threads_than_have_packets(build, tmp_path, how):
    """What they leave lies about until they write again, or end; each can write, and be mended, all the same. So can
    one who has nothing but the drafts in common."""
    (tmp_path / "leave.c").write_text(LEAVE)
    program = tracing.build_program(tmp_path / "leave", tmp_path / "leave.c")
    small = {"SPOOR_UST_BUFFERS": "64K", "SPOOR_UST_PACKET": "4K"}
    run, traces = tracing.traced(build, tmp_path / "out", program, **small, **how)
    assert run.returncode == 0, run
    tracing.check_promises(run.stdout, traces)
    assert not any(t.lost() for t in traces)
