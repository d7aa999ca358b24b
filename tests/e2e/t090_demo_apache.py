# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/demo-apache: the README's first command after its installing and building, with the program under test."""
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest


def homes(directory):
    return list(Path(directory).glob("spoor-demo.*"))


def processes_of(directory):
    """Processes whose environment or command line names the demo's own directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            comm = (entry / "comm").read_text().strip()
        except OSError:
            continue
        if f"{directory}/spoor-demo.".encode() in text:
            found.append((entry.name, comm))
    return found


@pytest.fixture
def demo(source, build, tmp_path):
    """Starts the demo, with a program whose path the shell must not take apart."""
    work = tmp_path / "work"
    work.mkdir()
    # Apache's workers change their user and must reach their documents.
    for directory in [work, tmp_path, *list(tmp_path.parents)[:3]]:
        directory.chmod(directory.stat().st_mode | 0o055)
    place = tmp_path / "it's built here"
    place.mkdir()
    shutil.copy(build / "spoor", place)

    def start():
        return subprocess.Popen([source / "scripts/demo-apache", place / "spoor"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                env=dict(os.environ, TMPDIR=str(work)), cwd=work)
    start.work = work
    start.traces = lambda: list(place.glob("demo-*.spoor"))
    return start


def await_nothing_left(work, seconds):
    until = time.monotonic() + seconds
    while (homes(work) or processes_of(work)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not homes(work) and not processes_of(work)


def works_as_printed(text, here):
    """What to type next, from where we are."""
    lines = [line for line in text.splitlines()[1:] if not line.startswith("  #")]
    assert len(lines) == 5
    for line in lines:
        line = line.replace("| less", "| head -n 1")
        done = subprocess.run(["sh", "-c", line], cwd=here, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout and "spoor report:" not in done.stderr, (line, done.stderr)


def test_demo(demo):
    run = demo()
    out, _ = run.communicate(timeout=120)
    assert run.returncode == 0, out
    await_nothing_left(demo.work, 1)
    assert len(re.findall(r"^  ab .* (\d+)\.\d+ requests a second$", out, re.M)) == 3
    assert len(demo.traces()) == 1
    events = re.search(r"^spoor: (\d+) events, (\d+) lost", out, re.M)
    assert events and int(events.group(1)) > 10000 and events.group(2) == "0", out
    works_as_printed(out[out.index("What to type next:"):], demo.work)
    report = out[out.index("spoor report"):]
    assert "apache2" in report and re.search(r"\baccept4?\b", report) and re.search(r"\bwritev?\b", report), report


@pytest.mark.parametrize("kill, how", [(os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM),
                                       (os.kill, signal.SIGKILL), (os.killpg, signal.SIGKILL)])
def test_nothing_is_left_when_it_is_killed(demo, kill, how):
    """A terminal's Ctrl-C and a time limit are for its process group."""
    run = demo()
    until = time.monotonic() + 60
    while not any(comm == "ab" for _, comm in processes_of(demo.work)) and time.monotonic() < until:
        assert run.poll() is None, run.communicate()[0]
        time.sleep(0.05)
    kill(run.pid, how)
    run.wait(timeout=60)
    await_nothing_left(demo.work, 30)
