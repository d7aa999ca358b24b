# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that have ended, or whose daemon has, before the one could hear the other."""
import os
import re
import signal
import socket
import subprocess
import time

import pytest
import tracing

from daemons import daemon, in_a_row, keeper_pid, ticker  # noqa: F401
from fakeprogram import COMMAND, Arena, Program, message
from processes import children, tell, wait_for


def recorded(daemon):
    return int(re.search(r"(\d+) events? of", daemon.ust("status").stdout)[1])


def by_thread(daemon, name="t.spoor"):
    return {thread: n for (_, thread), n in daemon.ticks(name).items()}


def test_other_pid_namespace_beside_a_rule(daemon, ticker):
    """What a session wants of one process keeps nobody out who does not know his own number and ended at once."""
    one = daemon.program(ticker, 1, 0, 500)
    daemon.ust("start", "-s", "one", "-o", "one.spoor", one.pid)
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.ust("disable", "*", one.pid)
    daemon.process.send_signal(signal.SIGSTOP)
    for i in range(1, 11):
        daemon.program("unshare", "--pid", "--fork", ticker, 1, 4, TICKER_FIRST=str(i)).wait(20)
    daemon.process.send_signal(signal.SIGCONT)
    assert ", 0 lost" in daemon.ust("end").stdout
    ticks = by_thread(daemon)
    ticks.pop(0, None) # of `one`, before it was disabled
    assert ticks == {i: list(range(4)) for i in range(1, 11)}


def test_ended_between_commands(daemon, ticker):
    """What a program has read of the sessions is not so any more when the daemon gets to it, and it has ended."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.process.send_signal(signal.SIGSTOP)
    commands = []
    for i in range(3):
        daemon.program(ticker, 1, 4, TICKER_FIRST=str(i)).wait(20)
        commands.append(subprocess.Popen([daemon.build / "spoor", "ust", "enable", "--socket", daemon.socket, f"x:{i}",
                                          "-a"], stdout=subprocess.DEVNULL))
        time.sleep(0.1) # mostly it waits for the daemon then; if not, the programs came without it between them
    daemon.process.send_signal(signal.SIGCONT)
    assert [c.wait(20) for c in commands] == [0, 0, 0]
    assert ", 0 lost" in daemon.ust("end").stdout
    assert by_thread(daemon) == {i: list(range(4)) for i in range(3)}


def test_end_behind_another_command(daemon, ticker):
    """Who came before `end` was asked for is in, however the daemon comes to the one and the other."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.process.send_signal(signal.SIGSTOP)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.connect(str(daemon.socket))
        other.send(message(COMMAND, b"status"))
        for i in range(3):
            daemon.program(ticker, 1, 4, TICKER_FIRST=str(i)).wait(20)
        end = subprocess.Popen([daemon.build / "spoor", "ust", "end", "--socket", daemon.socket], text=True,
                               stdout=subprocess.PIPE)
        time.sleep(0.1) # until it has asked
        daemon.process.send_signal(signal.SIGCONT)
        assert end.communicate(timeout=20)[0].startswith("12 events of 3 programs, 0 lost")
    assert by_thread(daemon) == {i: list(range(4)) for i in range(3)}


def test_end_before_the_keeper_answers(daemon, ticker):
    """Whom it has let in, and gives the daemon later than that waits for, is in."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    tracer = subprocess.Popen(["strace", "-o", "/dev/null", "-e", "trace=accept4", "-e",
                               "inject=accept4:delay_exit=300000:when=1", "-p", str(keeper)], stderr=subprocess.PIPE,
                              text=True)
    assert "attached" in tracer.stderr.readline()
    daemon.program(ticker, 1, 4).wait(20)
    assert daemon.ust("end").stdout.startswith("4 events of 1 program, 0 lost")
    tracer.terminate()
    tracer.communicate(timeout=20)


def test_keeper_that_does_not_answer(daemon):
    """It is waited for once, not by each command: programs would wait as long."""
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    os.kill(keeper, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        for _ in range(20):
            daemon.ust("status")
        assert time.monotonic() - begun < 20 * .2
    finally:
        os.kill(keeper, signal.SIGCONT)


def test_stopped_daemon_that_is_told_to_end(daemon, ticker):
    """Who had ended when it was told, and it had heard of none of them yet, is there, in all sessions."""
    daemon.ust("start", "-s", "a", "-o", "a.spoor", "-e", "zoo:tick")
    daemon.ust("start", "-s", "b", "-o", "b.spoor", "-e", "zoo:tick")
    daemon.process.send_signal(signal.SIGSTOP)
    for i in range(100):
        daemon.program(ticker, 1, 4, TICKER_FIRST=str(i)).wait(20)
    daemon.process.send_signal(signal.SIGTERM)
    daemon.kill(signal.SIGCONT)
    daemon.start()
    for name in "ab":
        assert ", 0 lost" in daemon.ust("end", "-s", name).stdout
        assert by_thread(daemon, f"{name}.spoor") == {i: list(range(4)) for i in range(100)}


def test_end_with_unread_messages(daemon):
    """Whoever ends before it has read what it was told: what it said itself still holds."""
    daemon.ust("start", "-o", "t.spoor")
    program = Program(str(daemon.socket))
    program.setup()
    daemon.ust("enable", "x:*", "-a")  # it reads none of this
    daemon.process.send_signal(signal.SIGSTOP)
    arena = Arena()
    program.offer(arena)
    arena.open(0)
    for n in range(50):
        arena.event(0, n)
    arena.end()
    program.sock.close()
    daemon.process.send_signal(signal.SIGCONT)
    assert daemon.ust("end").stdout.startswith("50 events of 1 program, 0 lost")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("parent_ends", [False, True])
def test_children_of_one_process_over_daemons(daemon, ticker, number, parent_ends):
    """A child of a process that alone is recorded goes on with the next daemon, also when the parent is no more."""
    p = daemon.program(ticker, 1, 0, 500, "fork", stdin=subprocess.PIPE, TICKER_WAITS="1")
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick", p.pid)
    p.stdin.write(b"x")
    p.stdin.close()
    child, = wait_for(lambda: children(p.pid))
    try:
        wait_for(lambda: f"{child} ticker" in daemon.ust("status").stdout)
        if parent_ends:
            daemon.finish(p)
        for _ in range(2):
            daemon.kill(number)
            daemon.start()
            wait_for(lambda: f"{child} ticker" in daemon.ust("status").stdout)
        before = recorded(daemon)
        wait_for(lambda: recorded(daemon) > before + 50)
    finally:
        os.kill(child, signal.SIGKILL)
    wait_for(lambda: f"{child} ticker" not in daemon.ust("status").stdout)
    p.kill()
    assert ", 0 lost" in daemon.ust("end").stdout
    numbers = by_thread(daemon)[100]
    assert numbers[0] == 0 and in_a_row(numbers)


@pytest.mark.parametrize("event, before, said", [("mi:typo", "status", ("enable", "zoo:tick", "-a")),
                                                 ("zoo:tick", "stop -a", ("start",))], ids=["enable", "start"])
def test_child_hears_what_is_said_after_fork(daemon, ticker, event, before, said):
    """It has not come before, since it had nothing to record; what its process is told alone is not the child's."""
    daemon.ust("start", "-e", event, "-o", "t.spoor")
    p = daemon.program(ticker, 1, 0, 500, "fork", stdin=subprocess.PIPE, TICKER_WAITS="1")
    wait_for(lambda: f"{p.pid} ticker" in daemon.ust("status").stdout)
    daemon.ust(*before.split())
    p.stdin.write(b"x")
    p.stdin.close()
    child, = wait_for(lambda: children(p.pid))
    try:
        daemon.ust("enable", "zoo:rare", p.pid)
        assert f"{child} ticker" not in daemon.ust("status").stdout
        assert re.match("2 programs, [23] sites", daemon.ust(*said).stdout)
        wait_for(lambda: re.search(f"{child} ticker: [1-9][0-9]+ events, 0 lost, reached", daemon.ust("status").stdout))
    finally:
        os.kill(child, signal.SIGKILL)
    wait_for(lambda: f"{child} ticker" not in daemon.ust("status").stdout)
    daemon.finish(p)
    assert ", 0 lost" in daemon.ust("end").stdout
    for thread in (0, 100):
        assert in_a_row(by_thread(daemon)[thread])
    assert {e["pid"] for e in daemon.events() if e["event"] == "zoo:rare"} == {p.pid}


FORKS = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "spoor/tracepoint.h"

SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int thread, unsigned long n), TP_ARGS(thread, n),
		 TP_FIELDS(spoor_int(int, thread, thread), spoor_int(unsigned long, n, n)))

int main(int argc, char **argv)
{
	sigset_t urgent;
	int i;

	(void)argv;
	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	if (argc > 1)
		sigprocmask(SIG_BLOCK, &urgent, NULL);
	puts("ready");
	fflush(stdout);
	if (argc > 1)
		getchar();
	for (i = 1; i <= 47 && fork(); i++)
		usleep(1000);
	if (i > 47 && puts("forked"))
		fflush(stdout);
	else
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigprocmask(SIG_UNBLOCK, &urgent, NULL);
	for (unsigned long n = 0;; n++) {
		spoor_trace(zoo, tick, i, n);
		usleep(5000);
	}
}
"""


def are_recorded(daemon, *pids):
    status = daemon.ust("status").stdout
    return all(re.search(f"^{pid} forks: [1-9]", status, re.M) for pid in pids)


@pytest.fixture
def forks(tmp_path):
    (tmp_path / "forks.c").write_text(FORKS)
    return tracing.build_program(tmp_path / "forks", tmp_path / "forks.c")


def test_forked_before_its_parent_hears(daemon, forks):
    """And after the daemon had looked for programs: who asks for events has them of such children, too."""
    daemon.ust("start", "-o", "t.spoor", "-e", "mi:typo")
    p = daemon.program(forks, "late", stdin=subprocess.PIPE)
    with subprocess.Popen([daemon.build / "spoor", "ust", "enable", "--socket", daemon.socket, "zoo:tick", "-a"],
                          stdout=subprocess.PIPE):
        wait_for(lambda: "enabled zoo:tick in all" in daemon.ust("status").stdout)
        p.stdin.write(b"x")
        p.stdin.flush()
    assert p.stdout.readline() == b"forked\n"
    wait_for(lambda: are_recorded(daemon, p.pid, *children(p.pid)))


def test_enabled_while_it_forks(daemon, forks):
    """Each child is told, whether it was forked before its parent was, or while that was on its way to it."""
    for i in range(3):
        daemon.ust("start", "-o", f"{i}.spoor", "-e", "mi:typo")
        p = daemon.program(forks)
        time.sleep(0.01 * (i + 1))
        daemon.ust("enable", "zoo:tick", "-a")
        assert p.stdout.readline() == b"forked\n"
        here = [p.pid, *children(p.pid)]
        assert len(here) == 48
        wait_for(lambda: are_recorded(daemon, *here))
        daemon.finish(p)
        daemon.ust("end")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_begun_while_no_daemon_was_there(daemon, ticker, number):
    """Who waited for the next daemon has missed nothing, as little as who was there before, or came later."""
    def begin(first):
        return daemon.program(ticker, 1, 0, 500, TICKER_FIRST=str(first))

    def wait_for_all(*sessions):
        for p in programs:
            wait_for(lambda: all(f"{p.pid} ticker" in daemon.ust("status", "-s", s).stdout for s in sessions))
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    programs = [begin(0)]
    wait_for_all("default")
    daemon.kill(number)
    programs += [begin(1), begin(2)]
    daemon.start()
    wait_for_all("default")
    programs += [begin(3)]
    daemon.ust("start", "-s", "new", "-o", "new.spoor", "-e", "zoo:tick")
    wait_for_all("default", "new")
    for p in programs:
        daemon.finish(p)
    if number == signal.SIGTERM:
        daemon.kill(number)
        daemon.start()
    said = daemon.ust("end").stdout
    assert said.startswith(f"{sum(map(len, by_thread(daemon).values()))} events of 4 programs, 0 lost")
    assert "late" not in said and daemon.summary["programs_late"] == 0
    assert all(in_a_row(n) and n[0] == 0 for n in by_thread(daemon).values())
    assert "late" not in daemon.ust("end", "-s", "new").stdout


CLOSES = r"""
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "spoor/tracepoint.h"

SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int thread, unsigned long n), TP_ARGS(thread, n),
		 TP_FIELDS(spoor_int(int, thread, thread), spoor_int(unsigned long, n, n)))

int main(void)
{
	struct pollfd more = { .events = POLLIN };
	struct stat st;
	char byte;

	for (unsigned long n = 0;; n++) {
		spoor_trace(zoo, tick, 0, n);
		if (n == 10 && puts("ready"))
			fflush(stdout);
		if (poll(&more, 1, 1) > 0 && read(0, &byte, 1) == 1) {
			for (int fd = 3; fd < 1024; fd++)
				if (!fstat(fd, &st) && S_ISSOCK(st.st_mode))
					close(fd);
			puts("closed");
			fflush(stdout);
		}
	}
}
"""


def test_comes_again(daemon, tmp_path):
    """It has closed its connection, and not its buffers, and is called: what it writes then is there once, too."""
    (tmp_path / "closes.c").write_text(CLOSES)
    program = tracing.build_program(tmp_path / "closes", tmp_path / "closes.c")
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    p = daemon.program(program, stdin=subprocess.PIPE)
    wait_for(lambda: daemon.line(p.pid))
    for _ in range(2):
        tell(p, b"x")
        assert p.stdout.readline() == b"closed\n"
        assert daemon.ust("enable", "-a", "zoo:none").stdout.startswith("1 program, ")
        before = recorded(daemon)
        wait_for(lambda: recorded(daemon) > before + 20)
        assert "joined" not in daemon.line(p.pid) and len(daemon.lines(p.pid)) == 1
    daemon.finish(p)
    assert "events of 1 program, 0 lost" in daemon.ust("end").stdout
    numbers = by_thread(daemon)[0]
    assert numbers[0] == 0 and in_a_row(numbers)
