# SPDX-License-Identifier: GPL-2.0-or-later
"""The live screen of spoor stat, driven through a pseudo-terminal by a program that feeds it made-up counters."""
import os
import re
import signal
import subprocess
import termios
import time

import pytest

from processes import children, state, wait_for
from terminal import LEAVE, Screen, Terminal


@pytest.fixture
def start(build):
    opened = []

    def run(*args, **how):
        opened.append(Terminal(build / "tests/tools/stat_watch", *args, **how))
        return opened[-1]
    yield run
    for terminal in opened:
        terminal.close()


def rows(lines):
    return [line for line in lines[3:-1] if line]


def test_what_is_shown(start):
    terminal = start(100)
    lines = terminal.until(lambda l: "the last" in l[0])
    assert terminal.screen.modes == {"7": False, "25": False, "1049": True}
    assert "60 threads" in lines[0] and "62370 calls/s" in lines[0]
    assert lines[1].startswith("application, by time, 2 rows")
    assert lines[2].split() == ["%", "time", "seconds", "usecs/call", "calls", "errors", "syscall", "max"]
    assert [r.split()[3:5] for r in rows(lines)] == [["60540", "getppid"], ["1830", "read"]]
    assert lines[-1].startswith("q)uit")
    assert sum(float(r.split()[0]) for r in rows(lines)) == 100


def test_keys(start):
    terminal = start(60000)
    terminal.until(lambda l: len(rows(l)) == 3)
    terminal.press(b"c")
    assert "getppid" in rows(terminal.until(lambda l: "by calls" in l[1]))[0]
    terminal.press(b"n")
    lines = terminal.until(lambda l: "by name" in l[1])
    assert [r.split()[4] for r in rows(lines)] == ["getppid", "read", "write"]
    terminal.press(b"m")
    assert "write" in rows(terminal.until(lambda l: "by max" in l[1]))[0]
    terminal.press(b"e")
    terminal.until(lambda l: "by errors" in l[1])
    terminal.press(b"l")
    lines = terminal.until(lambda l: l[1].startswith("processes, by errors, 18 rows"))
    assert "process" in lines[2] and "4000 main" in "\n".join(lines)
    terminal.press(b"lt")
    lines = terminal.until(lambda l: l[1].startswith("threads, by time, 180 rows"))
    assert len(rows(lines)) == 20
    assert "4000:4000 main" in "\n".join(lines)
    terminal.press(b"s")
    assert "call site" in terminal.until(lambda l: "evil" in l[3])[2]
    terminal.press(b"s d ")
    terminal.until(lambda l: "paused" not in l[1] and "evil" not in l[3])


def test_scrolling(start):
    terminal = start(60000)
    terminal.press(b"ll")
    first = rows(terminal.until(lambda l: l[1].startswith("threads")))
    terminal.press(b"\x1b")  # a sequence in pieces
    time.sleep(0.05)
    terminal.press(b"[B")
    second = rows(terminal.until(lambda l: "from row 2 on" in l[1]))
    assert second[:-1] == first[1:]
    terminal.press(b"\x1b[6~")
    terminal.until(lambda l: "from row 21 on" in l[1])
    terminal.press(b"\x1b[F")
    terminal.until(lambda l: "from row 161 on" in l[1])
    terminal.press(b"\x1bOB")
    terminal.until(lambda l: "from row 161 on" in l[1])
    terminal.press(b"\x1b[B\x1b[5~\x1b[A")
    terminal.until(lambda l: "from row 141 on" in l[1])
    terminal.press(b"\x1b[H")
    again = rows(terminal.until(lambda l: "from row" not in l[1]))
    assert [r.split() for r in again] == [r.split() for r in first]  # columns have become wider meanwhile


def test_names_are_escaped(start):
    terminal = start(60000, rows=200)
    terminal.press(b"lls")
    text = "\n".join(terminal.until(lambda l: l[1].startswith("threads") and "evil" in "\n".join(l)))
    assert "\\x1b[31mred" in text and "wor\\nker" in text and "\\xff\\xfe" in text and "naïve" in text
    assert "\\x1b]0;evil\\x07" in text


def test_not_utf8(start):
    terminal = start(60000, rows=80, env={"LC_ALL": "C"})
    terminal.press(b"ll")
    assert "na\\xc3\\xafve" in "\n".join(terminal.until(lambda l: l[1].startswith("threads")))
    assert terminal.raw.isascii()


def test_few_bytes(start):
    """Over a slow line: a refresh writes what changed, a fraction of the screen."""
    terminal = start(200, rows=50)
    terminal.press(b"ll")
    terminal.until(lambda l: l[1].startswith("threads") and "the last" in l[0])
    terminal.read(0.5)
    terminal.raw = b""
    wait_for(lambda: terminal.read(0.1) is not None and terminal.raw.count(b"\x1b[1;") >= 10)
    refreshes = terminal.raw.count(b"\x1b[1;")
    assert len(terminal.raw) / refreshes < 300


def test_resize(start):
    terminal = start(60000)
    terminal.press(b"ll")
    terminal.until(lambda l: len(rows(l)) == 20)
    terminal.resize(40, 60)
    lines = terminal.until(lambda l: len(rows(l)) == 36 and l[-1].startswith("q)uit"))
    assert max(map(len, lines)) <= 60
    for size in (1, 1), (2, 5), (4, 300), (24, 80):
        terminal.resize(*size)
        time.sleep(0.1)
    terminal.until(lambda l: len(rows(l)) == 20 and l[-1].startswith("q)uit"))


def test_somebody_else_wrote_on_it(start):
    terminal = start(60000)
    before = terminal.until(lambda l: len(rows(l)) == 3)
    terminal.screen.cells[5][5] = "?"
    terminal.press(b"\x0c")
    assert terminal.until(lambda l: "?" not in l[5]) == before


@pytest.mark.parametrize("how", ["quit", "enough", "exit"])
def test_ways_out(start, how):
    terminal = start(*{"quit": (60000,), "enough": (50, 3), "exit": (50, 3, "exit")}[how])
    if how == "quit":
        terminal.until(lambda l: len(rows(l)) == 3)
        terminal.press(b"q")
    code, data = terminal.finish()
    assert code == (3 if how == "exit" else 0)
    assert LEAVE in data and terminal.restored()
    if how != "exit":
        assert data.endswith(f"closed: {how}\r\n".encode())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV,
                                    signal.SIGABRT], ids=lambda s: s.name)
def test_killed(start, number):
    terminal = start(60000)
    terminal.until(lambda l: len(rows(l)) == 3)
    terminal.process.send_signal(number)
    code, data = terminal.finish()
    assert code == -number
    assert LEAVE in data and terminal.restored()


def test_ctrl_c(start):
    terminal = start(60000)
    terminal.until(lambda l: len(rows(l)) == 3)
    terminal.press(b"\x03")
    code, _ = terminal.finish()
    assert code == -signal.SIGINT and terminal.restored()


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP], ids=lambda s: s.name)
def test_stopped_and_continued(build, number):
    """In a process group that is not an orphan, as a shell's job."""
    terminal = Terminal("/bin/sh", "-c", f"set -m; {build}/tests/tools/stat_watch 60000; echo ended $?; "
                        "read line; fg >/dev/null; echo at last $?")
    try:
        terminal.until(lambda l: len(rows(l)) == 3)
        (pid,) = children(terminal.process.pid)
        os.kill(pid, number)
        wait_for(lambda: state(pid) == "T")
        data = terminal.read(0.3)
        if number == signal.SIGTSTP:
            assert LEAVE in data
            assert termios.tcgetattr(terminal.slave)[3] & termios.ICANON
        terminal.screen = Screen(24, 100)
        before = len(terminal.raw)
        terminal.press(b"\n")
        wait_for(lambda: terminal.read(0.05) is not None and b"\x1b[?1049h" in terminal.raw[before:])
        data = terminal.raw[before:]
        terminal.screen.feed(data[data.index(b"\x1b[?1049h"):])
        assert len(rows(terminal.until(lambda l: l[-1].startswith("q)uit")))) == 3
        assert not termios.tcgetattr(terminal.slave)[3] & termios.ICANON
        terminal.press(b"q")
        _, data = terminal.finish()
        assert LEAVE in data and b"at last 0" in data and termios.tcgetattr(terminal.slave)[3] & termios.ICANON
    finally:
        terminal.close()


def test_terminal_that_hangs_up(start):
    terminal = start(100)
    terminal.until(lambda l: "the last" in l[0])
    os.close(terminal.master)
    try:
        assert terminal.process.wait(10) in (0, -signal.SIGHUP)
    finally:
        terminal.master = os.open("/dev/null", os.O_RDONLY)


def test_terminal_that_takes_nothing(start):
    """Nobody reads: refreshes are given up, and it still ends when told to."""
    terminal = start(1, rows=200, columns=300)
    terminal.press(b"ll")
    time.sleep(1.5)
    for _ in range(20):
        terminal.press(b"c")
        terminal.press(b"t")
    time.sleep(0.5)
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.process.wait(10) == -signal.SIGTERM
    assert terminal.restored()


@pytest.mark.parametrize("term", ["dumb", "", None])
def test_no_terminal(build, term):
    env = {k: v for k, v in os.environ.items() if k != "TERM"}
    if term is not None:
        env["TERM"] = term
    done = subprocess.run([build / "tests/tools/stat_watch", "100", "1"], capture_output=True, text=True, env=env,
                          start_new_session=True, stdin=subprocess.DEVNULL, timeout=10)
    assert done.returncode == 1 and not done.stdout
    assert re.fullmatch(r"stat_watch: cannot watch: .*; use --interval\n", done.stderr)


def test_no_controlling_terminal(build):
    done = subprocess.run([build / "tests/tools/stat_watch", "100", "1"], capture_output=True, text=True,
                          env={**os.environ, "TERM": "xterm"}, start_new_session=True, stdin=subprocess.DEVNULL,
                          timeout=10)
    assert done.returncode == 1
    assert "there is no terminal (/dev/tty: No such device or address)" in done.stderr
