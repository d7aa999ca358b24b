# SPDX-License-Identifier: GPL-2.0-or-later
"""`spoor stat --watch` of real targets on a pseudo-terminal: keys, resizing, and the terminal put back at the end."""
import re
import signal
import subprocess

import pytest

from processes import ready
from terminal import LEAVE, Terminal

BUSY = "import os, time\nprint('ready', flush=True)\nwhile True:\n os.getppid()\n os.getuid()\n time.sleep(0.002)"


@pytest.fixture
def busy(start):
    target = start("/usr/bin/python3", "-I", "-S", "-c", BUSY)
    return ready(target)


@pytest.fixture
def watch(build):
    opened = []

    def run(*args, **how):
        opened.append(Terminal(build / "spoor", "stat", "--watch", "--interval", "200ms", *args, **how))
        return opened[-1]
    yield run
    for terminal in opened:
        terminal.close()


def ended(terminal, code=0):
    """Ends with that code, the terminal is as it was, and the final table follows."""
    got, data = terminal.finish(20)
    assert got == code and LEAVE in data and terminal.restored(), (got, data)
    table = data[data.rindex(LEAVE) + len(LEAVE):].decode()
    assert "Task: " in table and re.search(r"^100\.00 .* total ", table, re.M), table
    return table


def test_keys_and_size(watch, busy):
    terminal = watch("-p", busy.pid, columns=140)
    lines = terminal.until(lambda l: "the last" in l[0] and any("getppid" in x for x in l))
    assert terminal.screen.modes == {"7": False, "25": False, "1049": True}
    assert lines[1].startswith("application, by time") and lines[-1].startswith("q)uit")
    assert lines[0].rstrip().endswith(" 1 thread")
    terminal.press(b"n")
    lines = terminal.until(lambda l: "by name" in l[1])
    names = [x.split()[4] for x in lines[3:-1] if x]
    assert {"getppid", "getuid"} <= set(names)
    terminal.press(b"cl")
    lines = terminal.until(lambda l: l[1].startswith("processes, by calls"))
    assert any(f"{busy.pid} python3" in x for x in lines)
    terminal.press(b"l")
    terminal.until(lambda l: l[1].startswith("threads") and any(f"{busy.pid}:{busy.pid} python3" in x for x in l))
    terminal.press(b"d")
    terminal.until(lambda l: "since the begin" in l[0])
    terminal.resize(12, 60)
    lines = terminal.until(lambda l: len(l) == 12 and l[-1].startswith("q)uit"))
    assert max(map(len, lines)) <= 60
    terminal.press(b"q")
    assert " getppid " in ended(terminal)
    assert busy.poll() is None


@pytest.mark.parametrize("how", ["ctrl-c", "SIGTERM", "SIGHUP"])
def test_told_to_end(watch, busy, how):
    terminal = watch("-p", busy.pid)
    terminal.until(lambda l: any("getppid" in x for x in l))
    if how == "ctrl-c":
        terminal.press(b"\x03")
    else:
        terminal.process.send_signal(getattr(signal, how))
    ended(terminal)


def test_sites(watch, busy):
    terminal = watch("--by", "site", "-p", busy.pid, columns=200)
    terminal.until(lambda l: "call site" in l[2] and any(re.search("getppid.*(python3|:[0-9]+)", x) for x in l))
    terminal.press(b"s")
    terminal.until(lambda l: "call site" not in l[2] and any("getppid" in x for x in l))
    terminal.press(b"q")
    assert "call site" in ended(terminal)


def test_command(watch):
    """It ends with the command, and as the command did."""
    terminal = watch("--", "sh", "-c", "sleep 1; exit 5")
    terminal.until(lambda l: any("clock_nanosleep" in x and "1 in flight" in x for x in l))
    assert "exit_group" in ended(terminal, 5)


def test_no_terminal(build):
    done = subprocess.run([build / "spoor", "stat", "--watch", "--", "true"], capture_output=True, text=True,
                          start_new_session=True, stdin=subprocess.DEVNULL, timeout=20, check=False)
    assert done.returncode == 125 and "use --interval" in done.stderr and done.stderr.count("\n") == 1
