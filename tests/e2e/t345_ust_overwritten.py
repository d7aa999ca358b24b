# SPDX-License-Identifier: GPL-2.0-or-later
"""What newer events have overwritten, where that was asked for, is no loss: told apart, everywhere, to the event."""
import re
import signal
import subprocess
import time

import pytest
import tracing
from daemons import daemon, ticker  # noqa: F401
from processes import wait_for
from relaying import relay, sender  # noqa: F401

N = 100_000
ALL = N + N // 10  # a thread's, of ust_ticker
SUM = re.compile(r"(\d+) events? of \d+ programs?(?: in \S+)?, (\d+) lost(?:, (\d+) overwritten)?")


def said(text):
    """Events, lost, overwritten: as a line says it."""
    return tuple(int(n or 0) for n in SUM.search(text).groups())


def check_report(build, trace, there, lost, overwritten):
    told = subprocess.run([build / "spoor", "report", trace], capture_output=True, text=True, timeout=60).stdout
    assert re.search(rf"^User events: {there:,}, ", told, re.M), told
    assert re.search(rf"^Lost: {f'{lost:,} events ' if lost else 'nothing.'}", told, re.M), told
    assert bool(re.search(rf"^Overwritten: {overwritten:,} events, ", told, re.M)) == bool(overwritten), told


def check(build, trace, there, lost, overwritten):
    """The report and its JSON say the same; babeltrace2 warns of losses, and of nothing else."""
    check_report(build, trace, there, lost, overwritten)
    *_, summary = subprocess.run([build / "spoor", "report", "--format", "json", trace], capture_output=True, text=True,
                                 timeout=60).stdout.splitlines()
    assert f'"user_events":{there},' in summary
    assert f'"discarded":{lost},' in summary and f'"overwritten":{overwritten},' in summary
    babel = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, timeout=60)
    assert not babel.returncode and ("discarded" in babel.stderr) == bool(lost), babel.stderr


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL])
def test_flight_recorder(daemon, build, ticker, number):
    """Snapshot, status and end, of one daemon or of the one that comes next."""
    daemon.ust("start", "-o", "t.spoor", "--mode", "overwrite", "--buffers", "64k")
    daemon.program(ticker, 1, N).wait(20)
    wait_for(lambda: "overwritten" in daemon.ust("status").stdout and "ticker" not in daemon.ust("status").stdout)
    if number:
        daemon.kill(number)
        daemon.start()
    status = wait_for(lambda: re.search(r"so far: 0 events .*overwritten", daemon.ust("status").stdout))[0]
    daemon.ust("snapshot", "-o", "shot.spoor")
    there, lost, overwritten = said(daemon.ust("end").stdout)
    assert there > 1000 and lost == 0 and there + overwritten == ALL
    assert said(status)[1:] == (0, overwritten)
    for trace in "shot.spoor", "t.spoor":
        check(build, daemon.cwd / trace, there, lost, overwritten)


def test_of_a_program_that_runs(daemon, ticker):
    daemon.ust("start", "-o", "t.spoor", "--mode", "overwrite", "--buffers", "64k")
    p = daemon.program(ticker, 1, 0)
    line = wait_for(lambda: re.search(rf"^{p.pid} .*overwritten", daemon.ust("status").stdout, re.M))[0]
    assert re.fullmatch(rf"{p.pid} ticker: 0 events, 0 lost, \d+ overwritten", line)


TEXTS = """
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(big, text, TP_PROTO(const char *s), TP_ARGS(s), TP_FIELDS(spoor_string(s, s)))
int main(void)
{
	static char large[10000];
	for (int i = 0; i < 9999; i++)
		large[i] = 'x';
	for (int i = 0; i < 20011; i++)
		spoor_trace(big, text, i % 10 ? "small" : large);
	return 0;
}
"""


def test_some_lost_and_some_overwritten(build, tmp_path):
    """Every tenth event is larger than a packet, which no overwriting helps."""
    (tmp_path / "texts.c").write_text(TEXTS)
    tracing.build_program(tmp_path / "texts", tmp_path / "texts.c")
    run = subprocess.run([build / "spoor", "ust", "run", "--mode", "overwrite", "--buffers", "64k", "-o",
                          tmp_path / "t.spoor", "--", tmp_path / "texts"], capture_output=True, text=True, timeout=60)
    there, lost, overwritten = said(run.stderr)
    assert lost == 2002 and overwritten and there + overwritten == 20011 - 2002
    check(build, tmp_path / "t.spoor", there, lost, overwritten)


@pytest.mark.parametrize("turn", range(3))
def test_channel_beside_another(build, ticker, tmp_path, turn):
    """It is taken from while it is overwritten: an event is in the trace, or overwritten, and never both."""
    run = subprocess.run([build / "spoor", "ust", "run", "--channel", "a:mode=overwrite", "-e", "zoo:*", "--channel",
                          "b", "-e", "none:*", "--buffers", "128k", "-o", tmp_path / "t.spoor", "--", ticker, "2",
                          str(N)], capture_output=True, text=True, timeout=60)
    there, lost, overwritten = said(run.stderr)
    assert overwritten and there + lost + overwritten == 2 * ALL
    check(build, tmp_path / "t.spoor", there, lost, overwritten)


def test_channel_beside_another_over_daemons(daemon, build, ticker):
    daemon.ust("start", "-o", "t.spoor", "--channel", "a:mode=overwrite", "-e", "zoo:tick", "--channel", "b", "-e",
               "none:*", "--buffers", "128k")
    p = daemon.program(ticker, 1, 2_000_000)
    for _ in range(4):
        time.sleep(0.01)
        daemon.kill()
        daemon.start()
    p.wait(30)
    wait_for(lambda: "ticker" not in daemon.ust("status").stdout)
    there, lost, overwritten = said(daemon.ust("end").stdout)
    assert lost == 0 and there + overwritten == 2_000_000, there + overwritten - 2_000_000
    check_report(build, daemon.cwd / "t.spoor", there, lost, overwritten)


def overflow(d, ticker, number):
    """Programs that have ended have filled more than is kept for snapshots; the daemon ends, and another comes."""
    d.ust("start", "-o", "t.spoor", "--mode", "overwrite", "--buffers", "16M", "-e", "zoo:tick")
    for _ in range(7):
        d.program(ticker, 1, 600_000).wait(20)
        wait_for(lambda: "ticker" not in d.ust("status").stdout)
    before = said(d.ust("status").stdout)
    assert before[0]  # those of the first have gone into the trace
    d.kill(number)
    d.start()
    after = wait_for(lambda: (now := said(d.ust("status").stdout))[2] == before[2] and now)
    assert after == before
    there, lost, overwritten = said(d.ust("end").stdout)
    assert (lost, overwritten) == before[1:] and there + overwritten == 7 * 600_000
    return there, lost, overwritten


def test_gone_before_the_daemon_was_killed(daemon, build, ticker):
    check_report(build, daemon.cwd / "t.spoor", *overflow(daemon, ticker, signal.SIGKILL))


def test_gone_and_at_a_relay(relay, sender, build, ticker):  # noqa: F811
    counts = overflow(sender("host"), ticker, signal.SIGTERM)
    wait_for(lambda: "host/t.spoor (" in relay.said() and "complete" in relay.said())
    check_report(build, relay.directory / "host/t.spoor", *counts)


LARGE = """
#include <stdio.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(big, text, TP_PROTO(const char *s), TP_ARGS(s), TP_FIELDS(spoor_string(s, s)))
int main(void)
{
	static char large[10000];
	for (int i = 0; i < 9999; i++)
		large[i] = 'x';
	spoor_trace(big, text, "small");
	puts("ready");
	fflush(stdout);
	if (read(0, large, 1) < 0)
		return 1;
	for (int i = 0; i < 100; i++)
		spoor_trace(big, text, large);
	return 0;
}
"""


def test_lost_and_nothing_else(daemon, build, tmp_path):
    """What a program lost since its last event is told, also if the daemon is killed once the program has ended."""
    (tmp_path / "large.c").write_text(LARGE)
    tracing.build_program(tmp_path / "large", tmp_path / "large.c")
    daemon.ust("start", "-o", "t.spoor", "--buffers", "64k")
    p = daemon.program(tmp_path / "large", stdin=subprocess.PIPE)
    wait_for(lambda: said(daemon.ust("status").stdout)[0] == 1)
    p.communicate(b"x")
    wait_for(lambda: "large:" not in daemon.ust("status").stdout)
    daemon.kill()
    daemon.start()
    assert said(daemon.ust("end").stdout) == (1, 100, 0)
    check(build, daemon.cwd / "t.spoor", 1, 100, 0)
