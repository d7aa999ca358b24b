# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs on overlay file systems, as containers have them: what is mapped is a file of a layer, with other numbers
than fstat(2) knows. Stacks, paths and names are as anywhere, from the first call on, attached to and remote."""
import subprocess
from collections import Counter

import pytest

from processes import sleeps_in, wait_for

PAUSE = 34
PROGRAM = r"""
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
NOINLINE void ask(void) { syscall(SYS_getppid); __asm__ volatile(""); }
NOINLINE void again(void) { ask(); __asm__ volatile(""); }
NOINLINE void hang(void) { pause(); __asm__ volatile(""); }
int main(int argc, char **argv)
{
	for (int i = 0; i < 101; i++)
		again();
	if (argc > 1) {
		puts("ready");
		fflush(stdout);
		getchar();
		for (int i = 0; i < 13; i++)
			again();
		hang();
	}
	return 0;
}
"""
# The lower layer is on the disk. "other": the upper one is not, so numbers of files are made up. "same": all on one
# file system, where a file that was copied up keeps the number that it had below.
MOUNTS = {
    "other": "mount -t tmpfs none up && mkdir up/u up/w && mount -t overlay none -o lowerdir=low,upperdir=up/u,"
             "workdir=up/w top",
    "upper": "mount -t tmpfs none up && mkdir up/u up/w && mount -t overlay none -o lowerdir=low,upperdir=up/u,"
             "workdir=up/w top && cp top/quokka top/x && mv top/x top/quokka",
    "same": "mkdir up/u up/w && mount -t overlay none -o lowerdir=low,upperdir=up/u,workdir=up/w top && "
            "chmod 700 top/quokka",
}


@pytest.fixture(params=MOUNTS)
def inside(request, tmp_path):
    """What runs a shell's line where the overlay is mounted on top/, with a program of its own content in it."""
    for name in ("low", "up", "top"):
        (tmp_path / name).mkdir()
    (tmp_path / "x.c").write_text(PROGRAM + f"char content[] = \"{tmp_path}\";\n")
    subprocess.run(["gcc", "-O1", "-g", "-o", "low/quokka", "x.c"], cwd=tmp_path, check=True, timeout=60)
    return lambda line: ["unshare", "-m", "--propagation", "private", "sh", "-c", f"{MOUNTS[request.param]} && {line}"]


def own_frames(call, path):
    """As the machine has them: without inlined functions."""
    return [f for f in call["stack"] if f["object"] == path and not f.get("inlined")]


def check(calls, path, count):
    """Each stack is complete, and its frames are of the file where the program has it."""
    seen = Counter()
    for c in calls:
        seen[c["walk"], len(own_frames(c, path))] += 1
    assert seen == {("complete", 4): count}, (seen, calls[0]["stack"])  # ask again main _start


@pytest.mark.parametrize("cached", [True, False])
def test_from_the_first_call(inside, build, read, tmp_path, monkeypatch, cached):
    """The rows of what will run are there before it runs."""
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(tmp_path / "cache"))
    command = f"{build}/spoor record -m all -S 32 -o t.spoor -- top/quokka"
    if cached:
        command += " && rm -r t.spoor && " + command
    subprocess.run(inside(command), cwd=tmp_path, check=True, timeout=60)
    calls = read(tmp_path / "t.spoor").whole(surprised=0).calls
    check([c for c in calls if c["event"] == "getppid"], str(tmp_path / "top/quokka"), 101)
    assert {c["way"] for c in calls if c["walk"]} == {"kernel"}


def test_attached(inside, start, record, read, tmp_path):
    """Calls to come, and those in which it sleeps, whose stacks are read from outside."""
    target = start(*inside("exec top/quokka wait"))
    assert target.stdout.readline() == b"ready\n"
    recording = record("-m", "all", "-S", "32", "-p", target.pid)
    target.stdin.write(b"\n")
    target.stdin.flush()
    wait_for(lambda: sleeps_in(target.pid, PAUSE))
    assert recording.stop() == 0
    path = str(tmp_path / "top/quokka")
    calls = read(recording.trace).whole(surprised=0).calls
    check([c for c in calls if c["event"] == "getppid"], path, 13)
    for name, least in (("read", 2), ("pause", 3)):  # main _start; hang main _start
        (call,) = [c for c in calls if c["event"] == name]
        assert call["walk"] == "complete" and len(own_frames(call, path)) == least, call
