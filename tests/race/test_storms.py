# SPDX-License-Identifier: GPL-2.0-or-later
"""fork, vfork, exec, exit and dlopen storms: every mark that was made is in the trace. `make check-loop` repeats."""
import signal
import subprocess
import time

import pytest

LIBRARY = "#include <sys/syscall.h>\n#include <unistd.h>\nvoid mark(void) { syscall(SYS_getppid); }\n"
# A cache of rows that are used some ten times by a process that ends then is of less use.
STORM = {"surprised": 0.0005, "user": 0.05, "hits": 0.25}
CALLS = ("-e", "getppid,execve,exit_group")


@pytest.fixture
def library(tmp_path):
    (tmp_path / "mark.c").write_text(LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", "mark.so", "mark.c"], cwd=tmp_path, check=True)
    return tmp_path / "mark.so"


@pytest.mark.parametrize("threads", [1, 4, 16])
def test_every_mark(spoor, read, compiled, library, tmp_path, threads):
    run = spoor("record", "-o", "t.spoor", *CALLS, "--", compiled("storm.c"), threads, 2, library)
    assert run.returncode == 0
    trace = read(tmp_path / "t.spoor", babeltrace=threads == 4).whole(**STORM)
    assert trace.count() == int(run.stdout)
    assert not set(trace.walks.status) & {"unreadable", "truncated"}


def test_every_mark_of_everything(spoor, read, compiled, library, tmp_path):
    """All system calls, all stacks, segments."""
    run = spoor("record", "-o", "t.spoor", "-m", "all", "-S", "32", "--rotate", "300ms", "--",
                compiled("storm.c"), 4, 2, library)
    assert run.returncode == 0
    assert read(tmp_path / "t.spoor", babeltrace=False).whole(**STORM).count() == int(run.stdout)


@pytest.mark.parametrize("threads", [2, 8])
def test_attach_in_the_midst(record, read, start, compiled, library, threads):
    """-p --follow from the midst on: whoever was born and died meanwhile has all its marks; ends are seen."""
    target = start(compiled("storm.c"), threads, 0, library)
    time.sleep(0.5)
    recording = record("-p", target.pid, "--follow", *CALLS)
    time.sleep(2)
    target.send_signal(signal.SIGTERM)
    assert recording.wait(30) == 0
    made = int(target.stdout.read())
    trace = read(recording.trace, babeltrace=False).whole(**STORM)
    marks = trace.marks()
    children = [n for pid, n in marks.items() if pid != target.pid]
    assert len(children) > 50 and 0 < trace.count() <= made
    partial = [n for n in children if n not in (2, 3)]
    assert len(partial) <= threads, partial  # those that were under way at attach


def test_many_recordings_one_after_another(record, read, start, compiled, library, nothing_attached):
    target = start(compiled("storm.c"), 4, 0, library)
    last = None
    for lap in range(5):
        last = record("-n", "storm", *CALLS, trace=f"{lap}.spoor")
        time.sleep(0.2)
        assert last.stop() == 0
        trace = read(last.trace, babeltrace=False)
        # Who is met in the midst of an execve may have another program's memory by the time his stack is walked.
        met = [c for c in trace.of("execve", walk="object gone") if not c.get("start_exact", True)]
        trace.whole(**STORM, explained=len(met))
    target.send_signal(signal.SIGTERM)
    assert target.wait(30) == 0
    nothing_attached(last)
