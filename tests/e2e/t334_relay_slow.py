# SPDX-License-Identifier: GPL-2.0-or-later
"""A network that takes less than is recorded, or nothing: memory is bounded, what is lost is counted and told once."""
import json
import re
import signal
import subprocess
import time
from collections import deque

import pytest

from daemons import ticker  # noqa: F401 (fixtures)
from processes import wait_for
from relaying import finish, proxy, relay, rss_kb, sender, there  # noqa: F401 (fixtures)


def is_all_there_or_counted(s, relay, total):
    """Every event is in the trace once, or is one that a program lost; returns those that are lost."""
    ticks = there(s, relay)
    for numbers in ticks.values():
        assert numbers == sorted(set(numbers))
    assert s.summary["ended"] is True
    lost = sum(p["lost"] for p in s.summary["programs"])
    assert s.summary["discarded"] == lost and sum(map(len, ticks.values())) + lost == total, (s.summary, lost)
    return lost


def test_slow_network(relay, sender, proxy, ticker, build):  # noqa: F811
    """Much more than the network takes: memory is bounded, what is written and what is counted is all there was."""
    p = proxy(rate=300_000)
    s = sender("slow", p.url, "--relay-memory", "2M")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "1M")
    before = rss_kb(s.process.pid)
    count = 400_000
    programs = [s.program(ticker, 2, count) for _ in range(2)]
    for program in programs:
        program.wait(60)
    status = s.status()
    assert " wait; " in status and " events discarded meanwhile" in status
    p.rate = None
    wait_for(lambda: not any(s.lines(program.pid) for program in programs), 60)
    finish(s, relay)
    assert rss_kb(s.process.pid) - before < 32 << 10
    lost = is_all_there_or_counted(s, relay, 4 * count)
    assert 0 < s.summary["relay"]["discarded"] <= lost
    report = subprocess.run([build / "spoor", "report", relay.directory / "slow/t.spoor"], capture_output=True,
                            text=True).stdout
    (said,) = re.findall(r"^Network: ([\d,]+) events were discarded while the relay was behind; ", report, re.M)
    assert int(said.replace(",", "")) == s.summary["relay"]["discarded"]


def test_large_buffers(relay, sender, proxy, ticker):  # noqa: F811
    """They hold what the network does not take, --relay-memory of it is on the way; all that a program has written by
    its end is there, or counted, however many rounds that takes."""
    p = proxy()
    s = sender("slow", p.url, "--relay-memory", "1M")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "64M")
    before = rss_kb(s.process.pid, "RssAnon")
    p.holds = (0, 1)
    s.program(ticker, 1, 400_009).wait(60)
    for _ in range(20):  # rounds
        s.status()
    assert rss_kb(s.process.pid, "RssAnon") - before < 6 << 10
    p.holds = ()
    said = finish(s, relay)
    there, lost = map(int, re.search(r"(\d+) events of 1 program, (\d+) lost", said).groups())
    assert there + lost == 400_009 and there > 40_000, said


@pytest.mark.parametrize("n_programs", [1, 3])
def test_end_while_it_waits(relay, sender, proxy, ticker, n_programs):  # noqa: F811
    """The network takes next to nothing when a session ends: the trace ends in order, what is not in it is counted."""
    p = proxy(rate=20_000)
    s = sender("slow", p.url, "--relay-memory", "1M")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "4M")
    programs = [s.program(ticker, 2, 100_000) for _ in range(n_programs)]
    for program in programs:
        program.wait(60)
    said = s.end()
    p.rate = None
    wait_for(lambda: "slow/t.spoor (" in relay.said() and "complete" in relay.said())
    lost = is_all_there_or_counted(s, relay, n_programs * 200_000)
    refused = s.summary["lost_writing"]
    assert lost > 0 and "waiting for the relay" in said and f", {refused} events found no room" in said, said
    assert f"{n_programs * 200_000 - lost} events of {n_programs} program" in said and f", {lost} lost" in said, said


@pytest.mark.parametrize("options", [[], ["--max-size", "8M"]])
def test_old_losses_are_told_once(relay, sender, ticker, build, options):  # noqa: F811
    """What a program lost long ago, before much that others wrote, is not told again by the daemon's successor."""
    s = sender("host", None, "--relay-memory", "1M")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "2M", *options)
    first = s.program(ticker, 1, 0)
    # Its packets full, a program writes into those that all share, which costs it as much time as a daemon that is
    # quick (all of it in memory) needs to take what it writes: then nothing is lost for minutes.
    s.process.send_signal(signal.SIGSTOP)
    time.sleep(1)
    s.process.send_signal(signal.SIGCONT)
    wait_for(lambda: re.search(rf"{first.pid} ticker: .* [1-9]\d* lost", s.status()), 120, found=s.found)
    first.send_signal(signal.SIGSTOP)
    segments = relay.directory / "host/t.spoor/host/ust"
    program = s.program(ticker, 1, 0)
    if options:
        wait_for(lambda: min(segments.glob("seg-*"), default=segments).name > "seg-000009", 240, found=s.found)
    else:
        wait_for(lambda: sum(f.stat().st_size for f in segments.glob("*/lane*")) > 64 << 20, 240,
                 found=s.found)
    s.finish(program)
    s.kill()
    s.start()
    s.ust("stop", "-a")  # it has room for no more than its buffer has
    first.send_signal(signal.SIGCONT)
    wait_for(lambda: f"{first.pid} ticker" in s.status())
    s.finish(first)
    finish(s, relay)
    reader = subprocess.Popen([build / "spoor", "report", "--format", "json", relay.directory / "host/t.spoor"],
                              stdout=subprocess.PIPE)
    (last,) = deque(reader.stdout, 1)
    summary = json.loads(last)
    assert reader.wait() == 0 and summary["discarded"] == sum(p["lost"] for p in summary["programs"])
