# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of code of processes in containers: in files of their own root; of code that they make at run time, in
/tmp/perf-PID.map by their own pid."""
import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from processes import ready, tell

CALLS = 53
# At one address, as nothing but luck keeps two processes' code apart else.
PROGRAM = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* push %rbp; mov %rsp,%rbp; mov $39,%eax; syscall; pop %rbp; ret */
static const char code[] = "\x55\x48\x89\xe5\xb8\x27\0\0\0\x0f\x05\x5d\xc3";
int main(int argc, char **argv)
{
	int (*made)(void) = mmap((void *)0x7e0000000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	char path[64];
	FILE *map;
	memcpy((void *)made, code, sizeof(code));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = strcmp(argv[1], "nothing") ? fopen(path, "w") : NULL;
	if (map) {
		fprintf(map, "%lx %zx %s\n", (unsigned long)made, sizeof(code), argv[1]);
		fclose(map);
	}
	if (argc > 2) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	for (int i = 0; i < 53; i++)
		made();
	if (argc > 2) {
		puts("done");
		fflush(stdout);
		getchar();
	}
	return 0;
}
"""
CONTAINER = ["unshare", "--fork", "--kill-child", "--pid", "--mount-proc", "--propagation", "private", "sh", "-c"]


def as_pid(number, line):
    return f"echo {number - 1} > /proc/sys/kernel/ns_last_pid && {line}; :"


@pytest.fixture
def program(tmp_path):
    (tmp_path / "prog.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-static", "-o", "quokka", "prog.c"], cwd=tmp_path, check=True, timeout=60)
    return tmp_path / "quokka"


@pytest.fixture
def inner(start):
    """The pid that a process will have in a container. Out here it is of one that makes no code."""
    return start("sleep", "600").pid


@pytest.fixture
def shared(inner):
    """Its map in the /tmp of everybody."""
    path = Path(f"/tmp/perf-{inner}.map")
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


def names(trace):
    """Of the code from which getpid was called."""
    found = Counter(c["stack"][0]["function"] for c in trace.of("getpid") if len(c["stack"]) > 1 and
                    c["stack"][0]["object"] is None)
    assert found.total() == CALLS
    return set(found)


PLACES = {
    "mounts": ("mount -t tmpfs none /tmp", "./quokka"),
    "root": (":", "chroot root /quokka"),
    "links": (":", "chroot links /quokka"),  # its links lead to where they lead for it
}


@pytest.mark.parametrize("place", PLACES)
def test_in_a_tmp_of_its_own(spoor, record, start, read, program, tmp_path, inner, shared, place):
    """Found as long as the process lives; packed then, for ever and anywhere."""
    for name in ("root", "links"):
        (tmp_path / name / "elsewhere").mkdir(parents=True)
        shutil.copy(program, tmp_path / name)
    (tmp_path / "root/tmp").mkdir()
    (tmp_path / "links/tmp").symlink_to("/elsewhere")
    recording = record("-n", "quokka", "-e", "getpid", "-m", "all", "-S", "64")
    before, command = PLACES[place]
    process = start(*CONTAINER, f"{before} && {as_pid(inner, f'{command} made_inside wait')}")
    ready(process)
    assert not shared.exists()
    tell(process)
    ready(process, b"done")
    assert recording.stop() == 0
    assert names(read(recording.trace)) == {"made_inside"}
    shutil.copytree(recording.trace, tmp_path / "late.spoor")
    packed = spoor("pack", recording.trace)
    assert packed.returncode == 0 and f"/perf-{inner}.map: " in packed.stdout
    process.kill()
    process.wait()
    assert names(read(recording.trace)) == {"made_inside"}
    assert names(read(tmp_path / "late.spoor")) == {None}
    shared.write_text("garbage")
    assert names(read(recording.trace)) == {"made_inside"}


def test_in_the_tmp_of_all(spoor, read, program, tmp_path, inner, shared):
    """Found by the pid that the process saw itself, also when it has ended; but not one that is older than it."""
    shared.write_text("7e0000000000 100 made_before\n")
    os.utime(shared, (time.time() - 30,) * 2)
    for what, found in (("nothing", None), ("made_inside", "made_inside")):
        run = spoor("record", "-o", "t.spoor", "-m", "all", "-S", "64", "--", *CONTAINER,
                    as_pid(inner, f"./quokka {what}"))
        assert run.returncode == 0, run.stderr
        assert names(read(tmp_path / "t.spoor")) == {found}
        assert spoor("pack", "t.spoor").returncode == 0
        if found:
            shared.unlink()
            assert names(read(tmp_path / "t.spoor")) == {found}
        shutil.rmtree(tmp_path / "t.spoor")


def test_seen_from_within(build, read, program, tmp_path, inner, shared):
    """Recorded, reported and packed by a Spoor that is in the container."""
    line = (f"{build}/spoor record -o t.spoor -m all -S 64 -- sh -c '{as_pid(inner, './quokka made_inside')}' && "
            f"{build}/spoor report t.spoor -k --events && {build}/spoor pack t.spoor")
    run = subprocess.run([*CONTAINER, line], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("made_inside") == CALLS and f"{shared}: " in run.stdout
    shared.unlink()
    assert names(read(tmp_path / "t.spoor")) == {"made_inside"}


def test_of_another_with_that_number(spoor, start, read, program, tmp_path):
    """Who has the inner number here and makes code, too, is the one whom a map of that number is of."""
    other = ready(start(program, "made_outside", "wait"))
    try:
        run = spoor("record", "-o", "t.spoor", "-m", "all", "-S", "64", "--", *CONTAINER,
                    "mount -t tmpfs none /tmp && " + as_pid(other.pid, "./quokka made_inside"))
        os.utime(f"/tmp/perf-{other.pid}.map")
        assert run.returncode == 0, run.stderr
        assert names(read(tmp_path / "t.spoor")) == {None}
    finally:
        os.unlink(f"/tmp/perf-{other.pid}.map")


def start_as(pid, start, *command):
    """The kernel gives the number after ns_last_pid; None: somebody else was faster, and may have it for long."""
    for _ in range(20):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        process = start("sh", "-c", 'read go && exec "$@"', "sh", *command)
        if process.pid == pid:
            return process
        process.kill()
    return None


def recorded_and_followed(spoor, start, read, program, path):
    """A trace of a process, and one that has its number now."""
    for n in range(10):
        assert spoor("record", "-o", f"{n}.spoor", "-m", "all", "-S", "64", "--", program, "made_first").returncode == 0
        trace = read(path / f"{n}.spoor")
        pid = trace.calls[0]["pid"]
        assert names(trace) == {"made_first"}
        other = start_as(pid, start, program, "made_next", "wait")
        if other:
            return trace, other
        os.unlink(f"/tmp/perf-{pid}.map")
    pytest.fail("no number could be had again")


def test_of_the_next_with_that_number(spoor, start, read, program, tmp_path):
    """The map is of the one who has the number and makes code now, as long as it runs."""
    trace, other = recorded_and_followed(spoor, start, read, program, tmp_path)
    here = Path(f"/tmp/perf-{other.pid}.map")
    try:
        tell(other)
        ready(other)
        assert "made_next" in here.read_text()
        assert names(read(trace.path)) == {None}
    finally:
        here.unlink()


@pytest.mark.parametrize("place", ["root", "links", "mounts"])
def test_program_in_a_root_of_its_own(spoor, record, start, read, program, tmp_path, place):
    """Its file is no file of ours, or another; named as long as it runs, and for ever when it is packed."""
    recording = record("-n", "quokka", "-e", "getpid", "-m", "all", "-S", "64")
    inside = tmp_path / "inside"
    inside.mkdir()
    if place == "links":  # absolute ones lead to where they lead for it
        (inside / "elsewhere").mkdir()
        shutil.copy(program, inside / "elsewhere/quokka")
        (inside / "quokka").symlink_to("/elsewhere/quokka")
    else:
        shutil.copy(program, inside / "quokka")
    (inside / "tmp").mkdir()
    enter = {"mounts": "mount --bind inside /mnt && exec chroot /mnt"}.get(place, "exec chroot inside")
    process = start("unshare", "-m", "--propagation", "private", "sh", "-c", f"{enter} /quokka nothing wait")
    ready(process)
    tell(process)
    ready(process, b"done")
    assert recording.stop() == 0
    path = "/elsewhere/quokka" if place == "links" else "/quokka"
    assert not Path(path).exists()

    def named():
        calls = read(recording.trace).of("getpid")
        functions = {f["function"] for c in calls for f in c["stack"] if f["object"] == path}
        return len(calls) >= CALLS and "main" in functions and None not in functions

    assert named()
    assert spoor("pack", recording.trace).returncode == 0
    process.kill()
    process.wait()
    shutil.rmtree(inside)
    assert named()


def test_counted_by_site(build, start, program, tmp_path, inner, shared):
    """Nothing of it is to be found but through the process, which runs."""
    (tmp_path / "root/tmp").mkdir(parents=True)
    shutil.copy(program, tmp_path / "root/wombat")
    count = ["stat", "-n", "wombat", "--by", "site", "-m", "lib", "--format", "json", "-o", "counts.json"]
    counting = start(build / "spoor", *count, stderr=subprocess.PIPE)
    while b"counting" not in counting.stderr.readline():
        assert counting.poll() is None
    process = start(*CONTAINER, as_pid(inner, "chroot root /wombat made_inside wait"))
    ready(process)
    tell(process)
    ready(process, b"done")
    counting.send_signal(signal.SIGINT)
    assert counting.wait(30) == 0
    assert not Path("/wombat").exists() and not shared.exists()
    calls = [c for task in json.loads((tmp_path / "counts.json").read_text())["tasks"] for c in task["syscalls"]
             if c["name"] == "getpid"]
    found = {(s["stack"][0]["function"], s["stack"][1]["function"]): s["calls"] for c in calls for s in c["sites"]
             if s["calls"] == CALLS}
    assert found == {("made_inside", "main"): CALLS}


def test_ended_in_a_root_of_its_own(spoor, record, read, program, tmp_path):
    """A program that nobody else runs has ended before its file is looked for: found where its file system has it."""
    (tmp_path / "root").mkdir()
    shutil.move(program, tmp_path / "root")
    recording = record("-n", "quokka", "-e", "getpid", "-m", "all", "-S", "64")
    recording.process.send_signal(signal.SIGSTOP)
    subprocess.run(["chroot", tmp_path / "root", "/quokka", "nothing"], check=True, timeout=20)
    recording.process.send_signal(signal.SIGCONT)
    assert recording.stop() == 0
    calls = [c for c in read(recording.trace).of("getpid") if len(c["stack"]) > 1]
    assert len(calls) >= CALLS and {c["walk"] for c in calls} == {"complete"}
    assert {c["stack"][1]["function"] for c in calls[-CALLS:]} == {"main"}
    packed = spoor("pack", recording.trace)
    assert packed.returncode == 0 and "/quokka: " in packed.stdout, packed
    shutil.rmtree(tmp_path / "root")
    assert {c["stack"][1]["function"] for c in read(recording.trace).of("getpid")[-CALLS:]} == {"main"}


@pytest.mark.parametrize("after, walk", [("read go", "complete"), (":", "object gone")])
def test_ended_under_a_mount_of_others(record, start, read, program, tmp_path, after, walk):
    """Who is in its mount namespace yet leads to the file that it ran; when nobody is, that is gone."""
    (tmp_path / "its own").mkdir()
    mount = f"mount -t tmpfs none '{tmp_path}/its own' && cd '{tmp_path}/its own' && cp {program} ."
    recording = record("-n", "quokka", "-e", "getpid", "-m", "all", "-S", "64")
    container = start("unshare", "--mount", "sh", "-c", f"{mount} && echo ready && read go; ./quokka nothing; "
                      f"echo done; {after}")
    ready(container)
    recording.process.send_signal(signal.SIGSTOP)
    tell(container)
    ready(container, b"done")
    if walk != "complete":
        container.wait(20)
    recording.process.send_signal(signal.SIGCONT)
    assert recording.stop() == 0
    calls = [c for c in read(recording.trace).of("getpid") if c["way"] == "user"]
    assert len(calls) >= CALLS and {c["walk"] for c in calls} == {walk}


def test_another_file_of_its_numbers(record, start, read, program, tmp_path):
    """Of the same size and time, with the number that the first file of every tmpfs has: it is not taken for the one
    that ran, whose namespace is no more."""
    place = tmp_path / "its own"
    place.mkdir()
    mount = f"mount -t tmpfs none '{place}' && cp {program} '{place}' && touch -d @1 '{place}/quokka'"
    subprocess.run(["sh", "-c", mount], check=True)
    try:
        recording = record("-n", "quokka", "-e", "getpid", "-m", "all", "-S", "64")
        recording.process.send_signal(signal.SIGSTOP)
        subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                        f"umount '{place}'; {mount}; '{place}/quokka' nothing; :"], check=True)
        recording.process.send_signal(signal.SIGCONT)
        assert recording.stop() == 0
    finally:
        subprocess.run(["umount", place], check=True)
    calls = [c for c in read(recording.trace).of("getpid") if c["way"] == "user"]
    assert len(calls) >= CALLS and {c["walk"] for c in calls} == {"object gone"}


@pytest.mark.parametrize("how", ["cp", "cp --remove-destination"])
def test_written_over_since(record, start, read, program, tmp_path, how):
    """Of the same number, size and time, as in images whose files all bear one date: it may be another."""
    (tmp_path / "images").mkdir()
    set_up = f"cp {program} images && touch -d @1 images/quokka"
    subprocess.run(["sh", "-c", set_up], check=True, cwd=tmp_path)
    recording = record("-n", "quokka", "-e", "getpid", "-m", "all", "-S", "64")
    recording.process.send_signal(signal.SIGSTOP)
    subprocess.run(["sh", "-c", f"images/quokka nothing; {set_up.replace('cp', how, 1)}"], check=True, cwd=tmp_path)
    recording.process.send_signal(signal.SIGCONT)
    assert recording.stop() == 0
    calls = [c for c in read(recording.trace).of("getpid") if c["way"] == "user"]
    assert len(calls) >= CALLS and {c["walk"] for c in calls} == {"object gone"}


def test_file_that_is_mounted_alone(record, start, read, program, tmp_path):
    """As what is injected into containers: the mount's root is the file."""
    recording = record("-n", "quokka", "-e", "getpid", "-m", "all", "-S", "64")
    recording.process.send_signal(signal.SIGSTOP)
    (tmp_path / "disk").mkdir()
    (tmp_path / "file").touch()
    script = f"""mount -t tmpfs none disk && cp {program} disk && mount --bind disk/quokka file
    unshare --mount --propagation private sh -c 'umount file; disk/quokka nothing; :'; umount -l disk"""
    subprocess.run(["sh", "-c", script], check=True, cwd=tmp_path)
    try:
        recording.process.send_signal(signal.SIGCONT)
        assert recording.stop() == 0
    finally:
        subprocess.run(["umount", tmp_path / "file"], check=True)
    calls = [c for c in read(recording.trace).of("getpid") if c["way"] == "user"]
    assert len(calls) >= CALLS and {c["walk"] for c in calls} == {"complete"}
