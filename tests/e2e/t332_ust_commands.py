# SPDX-License-Identifier: GPL-2.0-or-later
"""What commands to a daemon say, and leave, when things are not as they should be."""
import signal
import subprocess

import pytest

from daemons import daemon, library, ticker  # noqa: F401


def test_failed_start_leaves_no_session(daemon, tmp_path):
    """A PID that is nobody's, and one without the library: the corrected command is as if it were the first."""
    with subprocess.Popen(["sleep", "60"]) as sleeper, subprocess.Popen(["true"]) as ended:
        ended.wait()
        for pid, why in (ended.pid, "there is none"), (sleeper.pid, "libspoor-ust is not in it"):
            run = daemon.ust("start", "-o", "t.spoor", pid, check=False)
            assert run.returncode == 1 and why in run.stderr, run
            assert daemon.ust("status").stdout == "no session\n" and not (tmp_path / "t.spoor").exists()
        sleeper.kill()
    daemon.ust("start", "-o", "t.spoor")


def test_status_of_one_session(daemon):
    for name in "one", "two":
        daemon.ust("create", "-s", name, "-o", f"{name}.spoor")
    said = daemon.ust("status", "-s", "two").stdout
    assert "session two" in said and "session one" not in said
    assert daemon.ust("status").stdout.count("session ") == 2
    run = daemon.ust("status", "-s", "three", check=False)
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and "three" in run.stderr and not run.stdout


@pytest.mark.parametrize("what", [["-e", "mi:typo"], ["--filter", "nosuch == 3"]])
def test_programs_that_came_for_nothing(daemon, ticker, what):
    daemon.ust("start", "-o", "t.spoor", *what)
    daemon.finish(daemon.program(ticker, 1, 0, 100))
    said = daemon.ust("end").stdout
    assert "1 program came, and no event" in said and "no program came" not in said


def test_daemon_that_is_stopped(daemon):
    daemon.process.send_signal(signal.SIGSTOP)
    run = daemon.ust("status", check=False)
    daemon.process.send_signal(signal.SIGCONT)
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and "does not answer" in run.stderr


def test_ninth_session_of_who_comes_later(daemon, ticker):
    for i in range(9):
        daemon.ust("start", "-s", f"s{i}", "-o", f"s{i}.spoor", "-e", "zoo:tick")
    daemon.finish(daemon.program(ticker, 1, 0, 100))
    for i in range(9):
        assert ("as many sessions as can" in daemon.ust("status", "-s", f"s{i}").stdout) == (i == 8)
    said = daemon.ust("end", "-s", "s8").stdout
    assert "as many sessions as can" in said and "no program came" not in said
