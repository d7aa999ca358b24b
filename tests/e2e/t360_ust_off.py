# SPDX-License-Identifier: GPL-2.0-or-later
"""Sites are off when the last session that wanted them is over, whichever daemons died before that."""
import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import tracing
from daemons import PATIENCE, daemon, in_a_row, listed, ticker  # noqa: F401
from fakeprogram import RULE, SETUP, Arena, Program
from processes import children, tell, wait_for
from t310_ust_hub import watchers_for
from t311_ust_control import LOADS
from t314_ust_hostile_recorder import kick
from t319_ust_library import WITHOUT_CAPABILITIES, threads
from t346_ust_waiting import session_id, traced

FORKS = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
static volatile int stays = 1;
static void closes(int sig)
{
	(void)sig;
	close_range(3, 1023, 0);
}
int main(int argc, char **argv)
{
	if (argc > 1 && (chroot(argv[1]) || chdir("/")))
		return 1;
	signal(SIGUSR1, closes);
	if (fork()) {
		puts("ready");
		fflush(stdout);
	} else {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	while (stays)
		pause();
	spoor_trace(zoo, tick, 1);
}
"""


def tick(daemon, pid):
    return listed(daemon, pid)["zoo:tick"]["state"]


def line_of(daemon, pid, session="default"):
    lines = daemon.ust("status", "-s", session).stdout.splitlines()
    return next((line for line in lines if line.startswith(f"{pid} ")), "")


def end_tracer(tracer):
    tracer.terminate()
    tracer.communicate(timeout=PATIENCE)


def goes_off(daemon, pid):
    wait_for(lambda: tick(daemon, pid) == "off")


@pytest.fixture
def forks(tmp_path):
    (tmp_path / "forks.c").write_text(FORKS)
    return tracing.build_program(tmp_path / "forks", tmp_path / "forks.c")


def test_child_that_wrote_nothing(daemon, forks):
    """No daemon has heard of it when its session ends, and at once the daemon, too."""
    daemon.ust("start", "-o", "t.spoor")
    p = daemon.program(forks)
    child, = children(p.pid)
    assert tick(daemon, child) == "on"
    daemon.ust("end")
    daemon.kill(signal.SIGTERM)
    for pid in p.pid, child:
        goes_off(daemon, pid)


def test_child_that_has_heard_is_not_called_again(daemon, forks, tmp_path):
    """By a daemon that it does not know, for sessions that it was never in."""
    daemon.ust("start", "-o", "t.spoor")
    p = daemon.program(forks)
    child, = children(p.pid)
    daemon.ust("end")
    goes_off(daemon, child)
    daemon.kill(signal.SIGTERM)
    daemon.start()
    time.sleep(0.5)
    tracer = traced(child, "-o", tmp_path / "calls", "-e", "trace=none")
    daemon.ust("start", "-s", "s", "-o", "s.spoor", p.pid)
    daemon.ust("end", "-s", "s")
    time.sleep(0.5)
    end_tracer(tracer)
    assert "SIGURG" not in (tmp_path / "calls").read_text()


@contextmanager
def recorder_of(daemon, how, script, **options):
    """A recorder of that script, which says a program's number, and the program: that it is ready."""
    run = subprocess.Popen([daemon.build / "spoor", *how.split(), "-o", "t.spoor", "--", "sh", "-c", script], text=True,
                           cwd=daemon.cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options)
    pid = int(run.stdout.readline())
    try:
        assert run.stdout.readline() == "ready\n" and tick(daemon, pid) == "on"
        yield run, pid
    finally:
        os.kill(pid, signal.SIGKILL)
        run.kill()
        run.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("how", ["ust run", "record --ust"])
def test_recorder_of_one_command_is_killed(daemon, forks, tmp_path, how, elsewhere):
    """Its directory is removed then: nobody comes whom the program and its child could wait for, wherever they are."""
    prison = tmp_path / "prison"
    prison.mkdir()
    with recorder_of(daemon, how, f"echo $$; exec {forks} {prison if elsewhere else ''}") as (run, pid):
        both = pid, *children(pid)
        run.kill()
        for p in both:
            goes_off(daemon, p)


@pytest.mark.parametrize("how", ["called", "not called", "closes"])
def test_recorder_of_one_command_is_killed_beyond_a_mount(daemon, forks, tmp_path, how):
    """A program with a listener, and its child without, see another directory there: that alone says nothing, nor that
    the program has closed its connection. That the recorder ended it does, and that what is left of that calls."""
    place = tmp_path / "place"
    place.mkdir()
    begin = f"{' '.join(WITHOUT_CAPABILITIES)} {forks} >said & echo $!; while [ ! -s said ]; do sleep 0.1; done"
    enter = "exec unshare --mount --propagation private sh -c " \
            f"'{begin}; mount -t tmpfs none {place}; cat said; wait'"
    env = os.environ | {"TMPDIR": str(place)}
    with recorder_of(daemon, "ust run", enter, env=env) as (run, pid):
        wait_for(lambda: "spoor-ust" in dict(threads(pid)))
        assert list(place.glob("spoor-ust-*"))
        if how == "closes":
            os.kill(pid, signal.SIGUSR1)
        time.sleep(1.5)  # it looks for another one each second
        both = pid, *children(pid)
        assert {tick(daemon, p) for p in both} == {"on"}
        for watcher in watchers_for(place) if how == "not called" else []:
            os.kill(watcher, signal.SIGKILL)
        run.kill()
        for p in both if how != "not called" else [pid]:
            goes_off(daemon, p)


@pytest.mark.parametrize("how", ["ust run", "record --ust"])
def test_child_that_wrote_nothing_of_a_command_that_has_ended(daemon, forks, how):
    script = f"{forks} >said 2>&1 & echo $!; while [ ! -s said ]; do sleep 0.1; done"
    run = subprocess.run([daemon.build / "spoor", *how.split(), "-o", "t.spoor", "--", "sh", "-c", script], text=True,
                         cwd=daemon.cwd, stdout=subprocess.PIPE, timeout=PATIENCE)
    pid = int(run.stdout)
    try:
        for p in pid, *children(pid):
            goes_off(daemon, p)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_daemon_that_begins_while_its_program_is_busy(daemon, tmp_path):
    """It is called while another of its threads, which loads an object, has the library's lock."""
    (tmp_path / "loads.c").write_text(LOADS)
    program = tracing.build_program(tmp_path / "loads", tmp_path / "loads.c", "-ldl")
    daemon.ust("start", "-o", "t.spoor")
    p = daemon.program(program, tracing.build_program(tmp_path / "p.so", "ust_plugin.c", "-shared", "-fPIC"))
    wait_for(lambda: line_of(daemon, p.pid))
    daemon.kill()
    tracer = traced(p.pid, "-f", "-o", tmp_path / "calls", "-e", "trace=pwrite64", "-e",
                    "inject=pwrite64:delay_enter=2500000:when=2")
    wait_for(lambda: "pwrite64" in (tmp_path / "calls").read_text())
    daemon.start()
    wait_for(lambda: line_of(daemon, p.pid))
    end_tracer(tracer)
    daemon.ust("end")
    goes_off(daemon, p.pid)


def lose_session(daemon, lost):
    if lost == "state":
        Path(f"{daemon.socket}.state").unlink()
    else:
        shutil.rmtree(daemon.cwd / "place")


@pytest.fixture(params=["state", "trace"])
def lost(request, daemon):
    """What a daemon that begins has lost of the session: all that was kept of it, or its trace's place."""
    (daemon.cwd / "place").mkdir()
    daemon.ust("start", "-o", "place/t.spoor", "-e", "zoo:tick")
    return request.param


def test_daemon_that_has_lost_the_session(daemon, ticker, lost):
    p = daemon.program(ticker, 1, 0, 1000)
    wait_for(lambda: line_of(daemon, p.pid))
    daemon.kill()
    lose_session(daemon, lost)
    assert tick(daemon, p.pid) == "on"
    daemon.start()
    goes_off(daemon, p.pid)


def test_daemon_that_has_lost_what_a_program_is_in_that_waits(daemon, lost):
    """The daemon before has told it a session, and was killed before it had heard that this is done."""
    p = Program(str(daemon.socket))
    assert [p.receive()[0] for _ in range(2)] == [SETUP, RULE]
    p.session = session_id(daemon)
    p.offer(Arena())
    wait_for(lambda: " 0 events, 0 lost" in line_of(daemon, os.getpid()))
    daemon.kill()
    lose_session(daemon, lost)
    daemon.start()
    assert p.receive()[0] == 0  # it is to come again


@pytest.fixture(params=[False, True], ids=["called", "listens"])
def left(request, daemon, ticker):
    """A program, without a listener and with one, that was recorded when its daemon was killed."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    p = daemon.program(*(WITHOUT_CAPABILITIES if request.param else []), ticker, 1, 0, 1000)
    wait_for(lambda: line_of(daemon, p.pid))
    daemon.kill()
    return p


def test_program_that_was_stopped_when_its_session_ended(daemon, left):
    """It never came to the daemon that ended it, and goes on when that is gone."""
    left.send_signal(signal.SIGSTOP)
    daemon.start()
    daemon.ust("end")
    daemon.kill(signal.SIGTERM)
    assert tick(daemon, left.pid) == "on"
    left.send_signal(signal.SIGCONT)
    goes_off(daemon, left.pid)


def test_program_that_goes_on_while_its_session_waits(daemon, left):
    """Nobody is there then, but its session is: it loses nothing."""
    kick(left)
    time.sleep(0.5)
    assert tick(daemon, left.pid) == "on"
    daemon.start()
    wait_for(lambda: line_of(daemon, left.pid))
    daemon.ust("end")
    numbers = daemon.ticks()[left.pid, 0]
    assert numbers[0] == 0 and in_a_row(numbers)


def test_new_buffers_for_a_daemon_that_is_gone(daemon, ticker, tmp_path):
    """They wait for the next one, which says all that holds: no session that it does not know goes on."""
    p = daemon.program(ticker, 1, 0, 1000)
    for s, event in ("lost", "zoo:rare"), ("stays", "zoo:tick"):
        daemon.ust("start", "-s", s, "-o", f"{s}.spoor", "-e", event)
        wait_for(lambda s=s: line_of(daemon, p.pid, s))
        p.send_signal(signal.SIGSTOP)  # of the second it hears when the daemon is gone
    daemon.kill()
    state = tmp_path / "ust.sock.state"
    kept = json.loads(state.read_text())
    kept["sessions"] = [s for s in kept["sessions"] if s["name"] == "stays"]
    state.write_text(json.dumps(kept))
    p.send_signal(signal.SIGCONT)
    wait_for(lambda: tick(daemon, p.pid) == "on")
    daemon.start()
    wait_for(lambda: listed(daemon, p.pid)["zoo:rare"]["state"] == "off")
    wait_for(lambda: line_of(daemon, p.pid, "stays"))
    assert tick(daemon, p.pid) == "on"


def test_socket_that_is_full(daemon, ticker):
    """What it does not take, of a session that begins, a rule, a command or an end, the program comes again for."""
    p = daemon.program(ticker, 1, 0, 1000)
    daemon.ust("start", "-s", "first", "-o", "first.spoor", "-e", "zoo:none")
    for words, state in [("start -s s -o s.spoor -e zoo:tick", "on"), ("disable -a -s s zoo:tick", "off"),
                         ("enable -a -s s zoo:tick", "on"), ("stop -a -s s", "off"), ("start -s s", "on"),
                         ("end -s s", "off")]:
        wait_for(lambda: line_of(daemon, p.pid, "first"))
        tracer = traced(daemon.process.pid, "-o", "/dev/null", "-e", "trace=sendto", "-e",
                        "inject=sendto:error=EAGAIN:when=1")
        daemon.ust(*words.split())
        end_tracer(tracer)
        wait_for(lambda state=state: tick(daemon, p.pid) == state)


def test_child_half_of_whose_sessions_a_daemon_has_heard(daemon, ticker, tmp_path):
    """It is in them by its parent alone; the daemon is killed between what it offers for the one and the other."""
    p = daemon.program(ticker, 1, 0, 500, "fork", stdin=subprocess.PIPE, TICKER_WAITS="1")
    for s in "ab":
        daemon.ust("start", "-s", s, "-o", f"{s}.spoor", "-e", "zoo:tick", p.pid)
    tracer = traced(p.pid, "-f", "-o", tmp_path / "calls", "-e", "trace=sendmsg", "-e",
                    "inject=sendmsg:delay_enter=1500000:when=3")
    tell(p, b"x")
    child, = wait_for(lambda: children(p.pid))
    try:
        wait_for(lambda: (tmp_path / "calls").read_text().count("\n") >= 2)
        time.sleep(0.3)
        daemon.kill()
        wait_for(lambda: (tmp_path / "calls").read_text().count("\n") >= 3)
        end_tracer(tracer)
        daemon.start()
        for s in "ab":
            wait_for(lambda s=s: line_of(daemon, child, s))
    finally:
        os.kill(child, signal.SIGKILL)
