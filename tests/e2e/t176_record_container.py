# SPDX-License-Identifier: GPL-2.0-or-later
"""Spoor within a pid namespace, as in a container that may trace; and programs in one, seen from without."""
import re
import shutil
import subprocess
from collections import Counter

from processes import children

CONTAINER = ["unshare", "--fork", "--pid", "--mount-proc", "--propagation", "private"]
SCRIPT = "import os\nfor i in range(%d): os.getppid()\nos.fork() or os._exit(0)\nos.wait()"


def inside(line, cwd):
    done = subprocess.run([*CONTAINER, "sh", "-c", line], cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done


def test_command(build, read, tmp_path):
    """From its first event on, with all its children."""
    inside(f"{build}/spoor record -m all -S 64 -o t.spoor -- /usr/bin/python3 -S -c '{SCRIPT % 101}'", tmp_path)
    trace = read(tmp_path / "t.spoor").whole()
    assert trace.calls[0]["event"] == "execve" and trace.count() == 101 and len(trace.pids()) == 2
    assert {c["walk"] for c in trace.of("getppid")} == {"complete"}


def test_pid_and_name(build, read, tmp_path):
    """By the ids of the container, of which events have the host's; what is mapped and what sleeps is found by them."""
    shutil.copy("/usr/bin/sleep", tmp_path / "quokka")
    for target in ("-p $!", "-n quokka"):
        inside("./quokka 60 & while [ $(cat /proc/$!/comm) != quokka ]; do sleep 0.05; done; sleep 0.1; "
               f"{build}/spoor record -m all -S 64 -o t.spoor --duration 300ms {target} && kill $!", tmp_path)
        (call,) = read(tmp_path / "t.spoor").calls
        assert call["event"] == "clock_nanosleep" and call["unfinished"] == "before" and call["walk"] == "complete"
        assert [f["object"] for f in call["stack"]].count(str(tmp_path / "quokka")) >= 3
        shutil.rmtree(tmp_path / "t.spoor")


def test_itself_is_not_recorded(build, start, read, tmp_path):
    """It knows itself there, too, and its helpers."""
    trace = tmp_path / "t.spoor"
    begun = start(*CONTAINER, f"{build}/spoor", "record", "-a", "-e", "prctl,execve,wait4,nanosleep", "-o", trace,
                  "--duration", "500ms")
    pids = {begun.pid}
    while begun.poll() is None:
        pids |= {child for pid in pids for child in children_of(pid)}
    pids.remove(begun.pid)
    assert begun.returncode == 0 and len(pids) > 2 and not pids & read(trace).pids()


def children_of(pid):
    try:
        return children(pid)
    except OSError:
        return []  # it has ended


def test_ids_in_the_container(spoor, tmp_path):
    """A thread's definition says which id it has there."""
    run = spoor("record", "-o", "t.spoor", "--", *CONTAINER, "sh", "-c", "echo $$; sh -c 'echo $$'; :")
    assert run.returncode == 0 and run.stdout == "1\n2\n"
    text = subprocess.run(["babeltrace2", tmp_path / "t.spoor"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"spoor:thread: .*? tid = (\d+).*? vtid = (\d+)", text)
    assert {vtid for _, vtid in found if int(vtid) < 3} == {"1", "2"}
    assert all(tid == vtid or int(vtid) in (1, 2) for tid, vtid in found) and Counter(v for _, v in found)["0"] == 0
