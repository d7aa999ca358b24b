# SPDX-License-Identifier: GPL-2.0-or-later
"""A pseudo-terminal and what is on its screen, for tests of the live screen."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

SEQUENCE = re.compile(rb"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Screen:
    """As much of a terminal as is used: places, erasing, the other screen. Anything else is an error."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.modes = {"7": True, "25": True, "1049": False}
        self.clear()
        self.row = self.column = 0

    def clear(self):
        self.cells = [[" "] * 400 for _ in range(self.rows + 50)]

    def feed(self, data):
        at = 0
        while at < len(data):
            byte = data[at]
            if byte == 0x1b:
                match = SEQUENCE.match(data, at)
                assert match, data[at:at + 20]
                self.sequence(match[1], match[2].decode(), match[3])
                at = match.end()
            elif byte in b"\r\n" or byte == 0x18:
                at += 1
            else:
                length = 1 if byte < 0x80 else 2 if byte < 0xe0 else 3
                text = data[at:at + length].decode()
                assert text >= " " and text != "\x7f"
                self.cells[self.row][self.column] = text
                self.column += 1
                at += length

    def sequence(self, private, parameters, final):
        if private:
            assert final in b"hl" and parameters in self.modes
            self.modes[parameters] = final == b"h"
        elif final == b"H":
            self.row, self.column = (int(p) - 1 for p in parameters.split(";"))
            assert self.row < self.rows
        elif final == b"J":
            assert parameters == "2"
            self.clear()
        elif final == b"K":
            self.cells[self.row][self.column:] = [" "] * (400 - self.column)
        else:
            assert final == b"m", (parameters, final)

    def lines(self):
        return ["".join(cells).rstrip() for cells in self.cells[:self.rows]]


class Terminal:
    def __init__(self, program, *args, rows=24, columns=100, env=None):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.raw = b""
        self.screen = Screen(rows, columns)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):  # jobs in the background ignore them
                signal.signal(number, signal.SIG_DFL)
        env = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "ASAN_OPTIONS": "handle_segv=0",
               **(env or {})}
        self.process = subprocess.Popen([program, *map(str, args)], stdin=slave, stdout=slave, stderr=slave, env=env,
                                        preexec_fn=own_terminal)

    def read(self, seconds=0.0):
        """What comes until nothing has come for so long, or something for a second."""
        data, end = b"", time.monotonic() + 1
        while time.monotonic() < end and select.select([self.master], [], [], seconds)[0]:
            try:
                data += os.read(self.master, 65536)
            except OSError:
                break
        self.raw += data
        return data

    def until(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.read(0.05)
            cut = text.rfind(b"closed:")
            self.screen.feed(text if cut < 0 else text[:cut])
            if condition(self.screen.lines()):
                return self.screen.lines()
        pytest.fail("the screen did not come to this:\n" + "\n".join(self.screen.lines()), pytrace=False)

    def press(self, keys):
        os.write(self.master, keys)

    def resize(self, rows, columns):
        self.screen.rows, self.screen.columns = rows, columns
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def finish(self, seconds=10):
        code = self.process.wait(seconds)
        data = self.read(0.1)
        return code, data

    def restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


LEAVE = b"\x1b[?7h\x1b[?25h\x1b[?1049l"
