# SPDX-License-Identifier: GPL-2.0-or-later
"""Several sessions, several channels and filters on one program at once, each as if it were alone."""
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
import tracing
from daemons import PATIENCE, behind, counters, daemon, in_a_row, listed, ticker  # noqa: F401
from processes import tell, wait_for

TURNS = 10 * int(os.environ.get("SPOOR_TEST_KILLS", "12"))


def of(events, name):
    return [e["fields"]["n"] for e in events if e["event"] == name]


def ended(daemon, p):
    wait_for(lambda: not daemon.lines(p.pid))


def test_each_is_alone(daemon, ticker):
    """Other events, contexts, modes; one begins and ends while the other goes on."""
    daemon.ust("start", "-s", "one", "-o", "one.spoor", "-e", "zoo:tick")
    counter = counters(daemon.cwd / "counter", 2)
    p = daemon.program(ticker, 2, 0, 100, TICKER_COUNTER=counter)
    time.sleep(0.2)
    said = daemon.ust("start", "-s", "two", "-o", "two.spoor", "--context", "vtid,ip", "--mode", "block").stdout
    assert "1 program, 2 sites" in said
    time.sleep(0.2)
    daemon.ust("stop", "-s", "two", "-a")
    at = behind(counter)
    wait_for(lambda: all(n > before + 101 for n, before in zip(behind(counter), at)))
    daemon.ust("start", "-s", "two")
    time.sleep(0.2)
    assert ", 0 lost" in daemon.ust("end", "-s", "two").stdout
    time.sleep(0.2)
    p.kill()
    p.wait()
    ended(daemon, p)
    assert ", 0 lost" in daemon.ust("end", "-s", "one").stdout
    one = daemon.ticks("one.spoor")
    assert sorted(one) == [(p.pid, 0), (p.pid, 1)]
    assert all(n[0] == 0 and in_a_row(n) for n in one.values())
    two = daemon.ticks("two.spoor")
    assert sorted(two) == sorted(one)
    for who, numbers in two.items():
        gaps = [b - a for a, b in zip(numbers, numbers[1:]) if b != a + 1]
        assert len(gaps) == 1 and gaps[0] > 100 and numbers[-1] < one[who][-1]
    events = daemon.events("two.spoor")
    assert {e["event"] for e in events} == {"zoo:tick", "zoo:rare"}
    assert {e["event"] for e in daemon.events("one.spoor")} == {"zoo:tick"}
    assert all(e["context"]["vtid"] and e["context"]["ip"] for e in events), events[0]


def test_from_the_start(daemon, ticker):
    """Two that are there before the program: both have its first event, and its last."""
    daemon.ust("start", "-s", "a", "-o", "a.spoor")
    daemon.ust("start", "-s", "b", "-o", "b.spoor", "-e", "zoo:rare")
    p = daemon.program(ticker, 3, 1009)
    p.wait(20)
    assert ", 0 lost" in daemon.ust("end", "-s", "a").stdout
    assert ", 0 lost" in daemon.ust("end", "-s", "b").stdout
    assert all(n == list(range(1009)) for n in daemon.ticks("a.spoor").values())
    assert Counter(of(daemon.events("b.spoor"), "zoo:rare")) == {n: 3 for n in range(0, 1009, 10)}
    assert Counter(of(daemon.events("a.spoor"), "zoo:rare")) == {n: 3 for n in range(0, 1009, 10)}


def test_children(daemon, ticker):
    """A child is in all sessions of its parent, and in one that begins later."""
    daemon.ust("start", "-s", "a", "-o", "a.spoor")
    daemon.ust("start", "-s", "b", "-o", "b.spoor", "-e", "zoo:tick")
    counter = counters(daemon.cwd / "counter", 101)  # of thread 0, and of the child's, 100
    p = daemon.program(ticker, 1, 3000, 1000, "fork", TICKER_COUNTER=counter)
    wait_for(lambda: min(behind(counter)[::100]) > 100)
    daemon.ust("start", "-s", "c", "-o", "c.spoor", "-e", "zoo:rare")
    since = max(behind(counter))
    assert since < 2900
    p.wait(PATIENCE)
    for name in "ab":
        daemon.ust("end", "-s", name)
        ticks = daemon.ticks(f"{name}.spoor")
        assert sorted(t for _, t in ticks) == [0, 100] and len({pid for pid, _ in ticks}) == 2
        assert all(n == list(range(3000)) for n in ticks.values())
    daemon.ust("end", "-s", "c")
    rare = daemon.events("c.spoor")
    assert len({e["pid"] for e in rare}) == 2
    assert {n: k for n, k in Counter(of(rare, "zoo:rare")).items() if n >= since} == {
        n: 2 for n in range(-(-since // 10) * 10, 3000, 10)}


def test_daemon_killed(daemon, ticker):
    """SIGKILL of the daemon at random moments: both sessions go on, each with every event once."""
    daemon.ust("start", "-s", "a", "-o", "a.spoor")
    daemon.ust("start", "-s", "b", "-o", "b.spoor", "-e", "zoo:tick", "--context", "vtid")
    p = daemon.program(ticker, 2, 0, 100)
    random.seed(3)
    for _ in range(5):
        time.sleep(random.uniform(0.0, 0.15))
        daemon.kill()
        daemon.start()
    wait_for(lambda: daemon.ust("status").stdout.count(f"{p.pid} ticker") == 2)
    p.kill()
    p.wait()
    ended(daemon, p)
    for name in "ab":
        assert ", 0 lost" in daemon.ust("end", "-s", name).stdout
        ticks = daemon.ticks(f"{name}.spoor")
        assert sorted(ticks) == [(p.pid, 0), (p.pid, 1)]
        assert all(n[0] == 0 and in_a_row(n) for n in ticks.values())


def test_as_many_as_there_can_be(daemon, ticker):
    """Eight at once; the ninth is told that it cannot have the program, and nothing happens to the others."""
    p = daemon.program(ticker, 1, 0, 500)
    for i in range(8):
        assert "1 program" in daemon.ust("start", "-s", f"s{i}", "-o", f"s{i}.spoor", "-e", "zoo:tick").stdout
    run = daemon.ust("start", "-s", "s8", "-o", "s8.spoor", check=False)
    assert "as many sessions and channels record it as can at once" in run.stdout + run.stderr
    daemon.ust("end", "-s", "s3")
    daemon.ust("end", "-s", "s8")
    assert "1 program, 1 site" in daemon.ust("start", "-s", "s9", "-o", "s9.spoor", "-e", "zoo:tick").stdout
    time.sleep(0.3)
    p.kill()
    p.wait()
    ended(daemon, p)
    for i in (0, 1, 2, 4, 5, 6, 7, 9):
        daemon.ust("end", "-s", f"s{i}")
        numbers, = daemon.ticks(f"s{i}.spoor").values()
        assert in_a_row(numbers) and len(numbers) > 100


def held(pid):
    """Descriptors, mappings, and MB of addresses of a process."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    status = Path(f"/proc/{pid}/status").read_text()
    size = int(status.split("VmSize:")[1].split()[0])
    return len(os.listdir(f"/proc/{pid}/fd")), len(maps), size // 1024


def test_sessions_destroyed_under_load(daemon, ticker):
    """Hundreds come and go while threads run through the sites: a session beside them has every event exactly once."""
    daemon.ust("start", "-s", "stays", "-o", "stays.spoor", "-e", "zoo:tick", "--buffers", "64M", "--mode", "block=10s")
    p = daemon.program(ticker, 3, 0, 5)
    # In the sessions that go, alone, at full speed: before it is out of the one that stays it writes nothing. It has
    # what CPU commands and daemon leave, which else take most of their time to get at one.
    other = daemon.program(ticker, 2, 0, 0, stdin=subprocess.PIPE, TICKER_WAITS="1")
    os.setpriority(os.PRIO_PROCESS, other.pid, 10)
    daemon.ust("disable", "-s", "stays", "*", other.pid)
    tell(other)

    def turn(i):
        how = [["--mode", "overwrite"], ["--context", "vtid"], ["--filter", "n % 2"], []][i % 4]
        how = ["--filter", "thread == 1"] if "%" in str(how) else how
        daemon.ust("start", "-s", "goes", "-o", "goes.spoor", "--buffers", "256k", *how)
        if i % 8 == 5:
            daemon.ust("enable", "-s", "goes", "zoo:rare", p.pid)
        daemon.ust("end", "-s", "goes")
        shutil.rmtree(daemon.cwd / "goes.spoor")
        assert p.poll() is None and other.poll() is None and daemon.process.poll() is None
    for i in range(20):
        turn(i)
    before = held(p.pid), held(other.pid), held(daemon.process.pid)
    for i in range(20, 20 + TURNS):
        turn(i)
    after = held(p.pid), held(other.pid), held(daemon.process.pid)
    for old, new in zip(before, after):
        assert new[0] <= old[0] + 2 and new[1] <= old[1] + 12 and new[2] <= old[2] + 64, (before, after)
    p.kill()
    p.wait()
    ended(daemon, p)
    assert ", 0 lost" in daemon.ust("end", "-s", "stays").stdout
    ticks = daemon.ticks("stays.spoor")
    assert sorted(ticks) == [(p.pid, i) for i in range(3)]
    assert all(n[0] == 0 and in_a_row(n) for n in ticks.values())


def test_filter_is_applied_in_the_program(daemon, ticker):
    """What does not pass costs no room: of a million events hardly any are kept, and none is lost."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--filter", "n >= 499990", "--buffers", "64k")
    p = daemon.program(ticker, 2, 500000, 0)
    p.wait(30)
    assert "20 events of 1 program, 0 lost" in daemon.ust("end").stdout
    assert [len(n) for n in daemon.ticks().values()] == [10, 10]
    assert sorted(of(daemon.events(), "zoo:tick")) == sorted(list(range(499990, 500000)) * 2)


def test_filter_of_one_session(daemon, ticker):
    daemon.ust("start", "-s", "all", "-o", "all.spoor")
    daemon.ust("start", "-s", "some", "-o", "some.spoor", "--filter", 'thread == 1 || what == "one*" && n < 55')
    p = daemon.program(ticker, 2, 1009)
    p.wait(20)
    daemon.ust("end", "-s", "all")
    daemon.ust("end", "-s", "some")
    assert sorted(len(n) for n in daemon.ticks("all.spoor").values()) == [1009, 1009]
    some = daemon.events("some.spoor")
    assert of(some, "zoo:tick") == list(range(1009))
    assert {e["fields"]["thread"] for e in some if e["event"] == "zoo:tick"} == {1}
    assert sorted(of(some, "zoo:rare")) == sorted(list(range(0, 55, 10)) * 2)


def test_filter_that_nobody_has_fields_for(daemon, ticker):
    """A bad expression is one line; a field that none of the events has is said."""
    p = daemon.program(ticker, 1, 0, 500)
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:rare")
    run = daemon.ust("enable", "zoo:tick", "--filter", "n ==", "-a", check=False)
    assert run.returncode == 2 and len(run.stderr.splitlines()) == 1 and "--filter" in run.stderr
    said = daemon.ust("enable", "zoo:tick", "--filter", "fdd == 3", p.pid).stdout
    assert "1 program, 1 site" in said and "no event of 'zoo:tick' has a field 'fdd'" in said
    said = daemon.ust("enable", "zoo:*", "--filter", 'what == "x"', "-a").stdout
    assert "field" not in said
    said = daemon.ust("enable", "zoo:tick", "--filter", "vtid == 3", "-a").stdout
    assert "field" not in said


def test_bad_start_leaves_nothing(daemon):
    run = daemon.ust("start", "-o", "t.spoor", "--filter", "(", check=False)
    assert run.returncode == 2 and "--filter" in run.stderr
    assert daemon.ust("status").stdout == "no session\n" and not (daemon.cwd / "t.spoor").exists()


def test_ends_without_exit(daemon, build, tmp_path):
    """_exit() is an end in order; a signal is a crash."""
    source = tmp_path / "end.c"
    source.write_text("""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, last, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
int main(int argc, char **argv)
{
	puts("ready");
	fflush(stdout);
	spoor_trace(zoo, last, argc);
	if (argv[1][0] == '_')
		_exit(3);
	if (argv[1][0] == 'k')
		raise(SIGKILL);
	if (argv[1][0] == 's')
		raise(SIGSEGV);
	return 0;
}
""")
    tracing.build_program(tmp_path / "end", source)
    daemon.ust("start", "-o", "t.spoor")
    for how in "_exit", "kill", "segv", "return":
        daemon.program(tmp_path / "end", how).wait(10)
    time.sleep(0.3)
    daemon.ust("end")
    assert len(daemon.events()) == 4
    states = Counter(p["state"] for p in daemon.summary["programs"])
    assert states == {"ended": 2, "crashed": 2}, daemon.summary["programs"]


def test_flight_recorder_has_who_has_ended(daemon, ticker):
    """A program that ended is in the snapshots that follow."""
    daemon.ust("start", "-o", "t.spoor", "--mode", "overwrite", "--buffers", "256k")
    p = daemon.program(ticker, 1, 1009)
    p.wait(20)
    q = daemon.program(ticker, 1, 0, 200)
    for name in "one.spoor", "two.spoor":
        time.sleep(0.2)
        daemon.ust("snapshot", "-o", name)
        ticks = daemon.ticks(name)
        assert ticks[p.pid, 0] == list(range(1009)) and in_a_row(ticks[q.pid, 0])
    daemon.ust("end")
    assert daemon.ticks()[p.pid, 0] == list(range(1009))


def test_status_says_what_events_carry(daemon):
    """Counters, and of call stacks which, whose and how deep."""
    daemon.ust("create", "-o", "t.spoor", "--channel", "a:context=vpid+perf:page-faults+perf:cpu-clock",
               "--channel", "b", "--stack", "lib", "--channel", "c", "--stack", "all,64", "--channel", "d",
               "--app", "*/ticker")
    status = daemon.ust("status").stdout
    assert "channel a: discard, vpid, perf:cpu-clock, perf:page-faults\n" in status
    assert "channel b: discard, callstack, stack lib,5\n" in status
    assert "channel c: discard, callstack, stack all,64\n" in status
    assert "channel d: discard\n" in status and "call stacks: app */ticker\n" in status


def test_channels(daemon, ticker):
    """Each with its own mode and contexts; an event that is put into two is written into both."""
    daemon.ust("create", "-o", "t.spoor", "--channel", "fast:packet=16k,context=vtid", "--channel",
               "slow:mode=block=1s,share=2", "-e", "zoo:tick")
    assert "stopped" in daemon.ust("status").stdout
    run = daemon.ust("enable", "--channel", "none", "zoo:*", "-a", check=False)
    assert run.returncode == 1 and "no channel 'none'" in run.stderr
    daemon.ust("enable", "--channel", "fast", "zoo:*", "--filter", "n < 500", "-a")
    daemon.ust("start")
    p = daemon.program(ticker, 1, 1009, 100)
    status = daemon.ust("status").stdout
    assert "channel fast: discard, packets of 16384 bytes, vtid\n" in status
    assert "channel slow: block 1000000 us, share 2" in status
    assert "enabled slow/zoo:tick in all programs" in status
    assert "enabled fast/zoo:* in all programs if n < 500" in status
    p.wait(20)
    daemon.ust("end")
    events = daemon.events()
    assert Counter(of(events, "zoo:tick")) == {n: 2 if n < 500 else 1 for n in range(1009)}
    assert Counter(of(events, "zoo:rare")) == {n: 1 for n in range(0, 500, 10)}
    fast = [e["fields"]["n"] for e in events if "vtid" in e.get("context", {}) and e["event"] == "zoo:tick"]
    assert fast == list(range(500))


def test_status_says_what_was_typed(daemon):
    """Quotes and backslashes of a filter are not escaped once more; what a terminal would obey is."""
    typed = r'what == "say \"it\" \\ *" && n < 500'
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:*", "--filter", typed)
    assert f"  enabled zoo:* in all programs if {typed}\n" in daemon.ust("status").stdout
    daemon.ust("enable", "zoo:rare", "-a", "--filter", 'what == "\x1b[31m"')
    assert r'zoo:rare in all programs if what == "\x1b[31m"' in daemon.ust("status").stdout
    daemon.ust("enable", "zoo:*", "-a", "-l", "warning")
    daemon.ust("enable", "x:*", "-a", "-l", "9", "--filter", "n < 5")
    said = daemon.ust("status").stdout
    assert "  enabled zoo:* up to warning in all programs\n" in said
    assert "  enabled x:* up to 9 in all programs if n < 5\n" in said


def channels(daemon, pid):
    """In which channels the events of a process are, by `spoor ust list`."""
    sites = listed(daemon, pid)
    assert all((s["state"] == "on") == ("channels" in s) for s in sites.values())
    return {name: sites[name].get("channels") for name in ("zoo:tick", "zoo:rare")}


def test_disabled_in_all_channels(daemon, ticker):
    p = daemon.program(ticker, 1, 0, 200)
    daemon.ust("start", "-o", "t.spoor", "--channel", "a", "-e", "zoo:*", "--channel", "b", "-e", "zoo:*")
    assert channels(daemon, p.pid) == {"zoo:tick": "a,b", "zoo:rare": "a,b"}
    daemon.ust("disable", "--channel", "a", "zoo:rare", "-a")
    assert channels(daemon, p.pid) == {"zoo:tick": "a,b", "zoo:rare": "b"}
    time.sleep(0.1)
    daemon.ust("disable", "zoo:tick", p.pid)
    assert channels(daemon, p.pid) == {"zoo:tick": None, "zoo:rare": "b"}
    time.sleep(0.1)
    daemon.ust("end")
    ticks, rare = Counter(of(daemon.events(), "zoo:tick")), Counter(of(daemon.events(), "zoo:rare"))
    assert set(ticks.values()) == {2} and rare[max(rare)] == 1 and max(rare) > max(ticks)


def test_words_that_say_nothing_are_refused(daemon, ticker):
    daemon.ust("start", "-o", "t.spoor")
    for words, says, code in [
            (("end", "slow"), "takes no such word", 2), (("status", "x:y"), "takes no such word", 2),
            (("end", "1"), "whole session", 2), (("snapshot", "-o", "s.spoor", "1"), "whole session", 2),
            (("enable", "12x", "-a"), "neither a process nor an event", 2),
            (("start", "99999999999"), "neither a process nor an event", 2),
            (("start", "ticker"), "neither a process nor an event", 2),
            (("start", "--", "-1"), "neither a process nor an event", 2),
            (("enable", "!!zoo:*", "-a"), "neither a process nor an event", 2),
            (("enable", "-e", "tick", "-a"), "a name such as", 2), (("enable", "-e", "!", "-a"), "a name such as", 2),
            (("enable", "x:y", "-o", "s", "-a"), "--output says nothing of 'enable'", 2),
            (("enable", "x:y", "--buffers", "1M", "-a"), "--buffers says", 2),
            (("disable", "x:y", "-l", "info", "-a"), "--level says", 2),
            (("stop", "-e", "x:y", "-a"), "--event says", 2),
            (("end", "-a"), "--all says", 2), (("snapshot", "-o", "s", "--rotate", "1s"), "--rotate says", 2),
            (("start", "--mode", "block"), "exists already", 1), (("start", "--buffers", "1M"), "exists already", 1),
            (("start", "--context", "cpu"), "exists already", 1), (("start", "--rotate", "1s"), "exists already", 1),
            (("enable", "zoo:*", "4194303"), "there is none", 1)]:
        run = daemon.ust(*words, check=False)
        assert run.returncode == code and says in run.stderr and run.stderr.count("\n") == 1, (words, run)
    assert daemon.ust("status").stdout.splitlines()[0].startswith("session default: recording")


def test_counts_after_another_daemon(daemon, ticker):
    """What daemons before it have written is counted, once."""
    daemon.ust("start", "-o", "t.spoor")
    daemon.program(ticker, 1, 1009).wait(20)
    wait_for(lambda: "ticker" not in daemon.ust("status").stdout)
    for _ in range(2):
        daemon.kill()
        daemon.start()
        assert "1110 events of 1 program, 0 lost" in daemon.ust("status").stdout
    said = daemon.ust("end").stdout
    assert said.startswith("1110 events of 1 program, 0 lost") and "no program with sites came" not in said
    assert Counter(of(daemon.events(), "zoo:tick")) == {n: 1 for n in range(1009)}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_counts_of_who_goes_on(daemon, ticker, number):
    """Of programs that outlive daemons, and lose events: all that the trace has is what `end` says."""
    daemon.ust("start", "-o", "t.spoor", "--buffers", "64k")
    programs = [daemon.program(ticker, 2, 400_000, 0) for _ in range(2)]
    for _ in range(3):
        time.sleep(0.03)
        daemon.kill(number)
        daemon.start()
    for p in programs:
        p.wait(60)
    wait_for(lambda: "ticker" not in daemon.ust("status").stdout)
    said = daemon.ust("end").stdout
    events = len(daemon.events())
    lost = 2 * 2 * 440_000 - events
    assert lost and said.startswith(f"{events} events of 2 programs, {lost} lost")


def test_rules_end_with_their_process(daemon, ticker):
    """Whoever gets its number later is not recorded; the session that has lost its last rule enables nothing."""
    daemon.ust("create", "-o", "t.spoor")
    first = daemon.program(ticker, 1, 0, 500)
    daemon.ust("start", "-e", "zoo:*", first.pid)
    wait_for(lambda: re.search(f"{first.pid} ticker: [1-9]", daemon.ust("status").stdout))
    first.kill()
    first.wait()
    wait_for(lambda: "enabled" not in daemon.ust("status").stdout)
    second = with_number(daemon, first.pid, ticker, 1, 0, 500)
    daemon.ust("start")
    other = daemon.program(ticker, 1, 100)
    other.wait(20)
    daemon.kill()
    daemon.start()
    daemon.ust("start")
    assert listed(daemon, second.pid)["zoo:tick"]["state"] == "off"
    assert "0 lost" in daemon.ust("end").stdout
    assert list(daemon.ticks()) == [(first.pid, 0)] and in_a_row(daemon.ticks()[first.pid, 0])


def test_rule_of_a_number_that_another_has(daemon, ticker):
    """At once, before anybody looked whether the first one is there."""
    first = daemon.program(ticker, 1, 0, 500)
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:*", first.pid)
    daemon.process.send_signal(signal.SIGSTOP)
    first.kill()
    first.wait()
    second = with_number(daemon, first.pid, ticker, 1, 0, 500)
    daemon.process.send_signal(signal.SIGCONT)
    wait_for(lambda: "enabled" not in daemon.ust("status").stdout)
    assert listed(daemon, second.pid)["zoo:tick"]["state"] == "off"
    daemon.ust("end")
    numbers = daemon.ticks()[first.pid, 0]
    assert in_a_row(numbers)


def with_number(daemon, pid, *argv):
    """A program that gets this pid. What began in the clock tick of another of that number is the same to all."""
    time.sleep(2 / os.sysconf("SC_CLK_TCK"))
    for _ in range(200):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        p = daemon.program(*argv)
        if p.pid == pid:
            return p
        p.kill()
        p.wait()
    pytest.skip("another process took the number each time")


def test_directory_of_one_session_is_gone(daemon, ticker, tmp_path):
    """The daemon starts all the same, says it, and the others go on."""
    (tmp_path / "gone").mkdir()
    daemon.ust("start", "-s", "lost", "-o", "gone/t.spoor")
    daemon.ust("start", "-o", "t.spoor")
    p = daemon.program(ticker, 1, 0, 100)
    daemon.kill(signal.SIGTERM)
    shutil.rmtree(tmp_path / "gone")
    daemon.start()
    wait_for(lambda: f"{p.pid} ticker" in daemon.ust("status").stdout)
    assert "session lost" not in daemon.ust("status").stdout
    p.kill()
    p.wait()
    ended(daemon, p)
    daemon.ust("end")
    assert in_a_row(daemon.ticks()[p.pid, 0])
