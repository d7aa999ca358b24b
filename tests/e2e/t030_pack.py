# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor pack: a trace keeps its functions and lines without the files that they came from."""
import fcntl
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAM = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) void work(int fd)
{
	char byte;
	for (int i = 0; i < 101; i++)
		if (read(fd, &byte, 1) < 0) /* LINE read */
			_exit(3);
	__asm__ volatile("");
}
/* push %rbp; mov %rsp,%rbp; mov $39,%eax; syscall; pop %rbp; ret */
static const char code[] = "\x55\x48\x89\xe5\xb8\x27\0\0\0\x0f\x05\x5d\xc3";
static void just_in_time(void)
{
	char path[64];
	int (*made)(void) = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *map;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = fopen(path, "w");
	/* What was there before has a line still. */
	fprintf(map, "%lx %x gone\n", (unsigned long)made, 64);
	for (int i = 0; i < 5000; i++)
		fprintf(map, "%lx %zx gone\n", (unsigned long)made, sizeof(code));
	fprintf(map, "%lx %zx quokka_made\n", (unsigned long)made, sizeof(code));
	fclose(map);
	memcpy((void *)made, code, sizeof(code));
	for (int i = 0; i < 53; i++)
		made();
}
int main(int argc, char **argv)
{
	struct timespec t;
	work(open("/dev/zero", O_RDONLY));
	for (int i = 0; i < 29; i++)
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* by the vDSO, which asks the kernel */
	if (argc > 1)
		just_in_time();
	return 0;
}
"""
LINE = next(n for n, line in enumerate(PROGRAM.split("\n"), 1) if "LINE read" in line)
LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"


@pytest.fixture
def program(tmp_path):
    (tmp_path / "prog.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-g", "-o", "prog", "prog.c"], cwd=tmp_path, check=True, timeout=60)
    return tmp_path / "prog"


@pytest.fixture
def recorded(spoor, tmp_path):
    def run(program, *args):
        run = spoor("record", "-o", "t.spoor", "-m", "all", "-S", "32", "--", program, *args)
        assert run.returncode == 0, run.stderr
        return tmp_path / "t.spoor"
    return run


def pack(spoor, trace, *args):
    run = spoor("pack", "--format", "json", *args, trace)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def states(items):
    return {(os.path.basename(i["path"]), i["kind"]): i["state"] for i in items}


def report(spoor, trace, *args):
    """(events, notes)"""
    run = spoor("report", "--format", "json", *args, trace)
    assert run.returncode == 0, run.stderr
    *events, summary = [json.loads(line) for line in run.stdout.splitlines()]
    return events, summary["notes"]


def reads(events):
    """How many calls of read stand at the program's line."""
    return sum(e["event"] == "read" and any(f["function"] == "work" and f["line"] == LINE for f in e["stack"])
               for e in events)


def stored(trace, path, kind="object"):
    """The file in the trace of what came from path."""
    files = json.loads((trace / "manifest").read_text())["parts"][0]["files"]
    name = next(f["name"] for f in files if f["path"] == str(path) and f["kind"] == kind)
    return next(p for p in (trace / "objects" / name, trace / "objects" / f"{name}.zst") if p.exists())


def flip(path, at=None):
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    path.write_bytes(data)


def test_without_the_program(spoor, program, recorded, tmp_path):
    trace = recorded(program)
    before, notes = report(spoor, trace)
    assert reads(before) == 101 and not notes
    items = pack(spoor, trace)
    assert states(items)["prog", "object"] == "packed" and set(states(items).values()) == {"packed"}
    assert all(i["stored"] <= i["size"] for i in items)
    program.unlink()
    assert report(spoor, trace) == (before, [])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copytree(trace, elsewhere / "copy.spoor")
    shutil.rmtree(trace)
    assert report(spoor, elsewhere / "copy.spoor") == (before, [])
    host = next(p for p in (elsewhere / "copy.spoor").iterdir() if p.is_dir() and p.name != "objects")
    assert report(spoor, host)[0] == before  # a part of it finds them, too


def test_babeltrace2_reads_it(spoor, program, recorded):
    trace = recorded(program)
    pack(spoor, trace)
    subprocess.run(["babeltrace2", "-o", "dummy", trace], check=True, timeout=60)


def test_the_lines_of_libraries(spoor, program, recorded):
    """Separate debugging files are in the trace, not looked for on the machine that reads."""
    trace = recorded(program)
    before, _ = report(spoor, trace)
    assert [f for e in before for f in e["stack"] or [] if f["object"] == LIBC and f["file"]]
    bare, _ = report(spoor, trace, "--debug-root", "/nonexistent")
    assert not [f for e in bare for f in e["stack"] or [] if f["object"] == LIBC and f["file"]]
    assert ("libc.so.6", "debug") in states(pack(spoor, trace))
    assert report(spoor, trace, "--debug-root", "/nonexistent") == (before, [])


def test_vdso(spoor, program, recorded):
    trace = recorded(program)
    assert states(pack(spoor, trace))["[vdso]", "object"] == "packed"
    events, notes = report(spoor, trace)
    calls = [e for e in events if e["event"] == "clock_gettime"]
    assert sum("[vdso]" in [f["object"] for f in e["stack"]] for e in calls) == 29 and not notes


def test_just_in_time(spoor, program, recorded):
    """A map that anybody may write (umask 0), has lost its begin (it was emptied while it was written), and grows."""
    trace = recorded(program, "jit")
    pid = report(spoor, trace)[0][0]["pid"]
    made = Path(f"/tmp/perf-{pid}.map")
    text = made.read_bytes()
    try:
        made.chmod(0o666)
        for so_far, state in ((b"", "packed"), (b"", "already"), (b"\0" * 99 + text, "packed"), (text, "already")):
            made.write_bytes(so_far)
            assert states(pack(spoor, trace))[made.name, "jit"] == state
    finally:
        made.unlink()
    events, _ = report(spoor, trace)
    assert sum(e["event"] == "getpid" and e["stack"][0]["function"] == "quokka_made" for e in events) == 53


def made(events):
    """What the code is called that was made at run time."""
    return {e["stack"][0]["function"] for e in events if e["event"] == "getpid" and e["stack"][0]["object"] is None}


def test_just_in_time_on_another_machine(build, spoor, program, recorded, tmp_path):
    """There a map of that number is of anybody; here, too, after the next boot."""
    trace = recorded(program, "jit")
    events, _ = report(spoor, trace)
    here = Path(f"/tmp/perf-{events[0]['pid']}.map")
    (tmp_path / "boot_id").write_text("01234567-89ab-4cde-8f01-23456789abcd\n")

    def there():
        script = f"mount --bind {tmp_path}/boot_id /proc/sys/kernel/random/boot_id && exec \"$@\""
        command = ["unshare", "-m", "sh", "-c", script, "sh", build / "spoor", "report", "-f", "json", trace]
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return made(map(json.loads, run.stdout.splitlines()[:-1]))
    try:
        assert made(events) == {"quokka_made"} and there() == {None}
        pack(spoor, trace)
    finally:
        here.unlink()
    assert there() == {"quokka_made"}


def test_again(spoor, program, recorded):
    trace = recorded(program)
    pack(spoor, trace)
    files = {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in (trace / "objects").iterdir()}
    manifest = (trace / "manifest").read_text()
    program.unlink()  # what is in already needs no source
    assert set(states(pack(spoor, trace)).values()) == {"already"}
    assert {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in (trace / "objects").iterdir()} == files
    assert (trace / "manifest").read_text() == manifest


@pytest.mark.parametrize("how", ["replaced", "gone"])
def test_not_what_was_recorded(spoor, program, recorded, how):
    trace = recorded(program)
    program.unlink()
    if how == "replaced":
        (program.parent / "prog.c").write_text(PROGRAM.replace("101", "102"))
        subprocess.run(["gcc", "-O1", "-g", "-o", "prog", "prog.c"], cwd=program.parent, check=True, timeout=60)
    items = states(pack(spoor, trace))
    assert items.pop(("prog", "object")) == {"replaced": "changed", "gone": "unreadable"}[how]
    assert ("prog", "debug") not in items and set(items.values()) == {"packed"}
    text = spoor("pack", trace).stdout
    assert f"{program}: not packed: " in text and "1 could not be packed" in text
    events, notes = report(spoor, trace)
    assert reads(events) == 0 and any(n.startswith(f"{program}: ") for n in notes)


@pytest.mark.parametrize("where", ["begin", "middle", "cut", "empty", "link", "gone", "other"])
def test_damaged_object(spoor, program, recorded, where):
    trace = recorded(program)
    pack(spoor, trace)
    file, libc = stored(trace, program), stored(trace, LIBC)
    saved, whole = program.read_bytes(), file.read_bytes()
    said = f"{program}: what was packed of it is damaged or missing"
    program.unlink()
    if where in ("begin", "middle"):
        flip(file, 0 if where == "begin" else None)
    elif where == "cut":
        file.write_bytes(whole[:-10])
    elif where == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()
        if where == "link":
            file.symlink_to("/dev/zero")
        elif where == "other":
            shutil.copy(libc, file)
    events, notes = report(spoor, trace)
    assert reads(events) == 0 and said in notes
    program.write_bytes(saved)  # its own file is as good, and packing mends it
    events, notes = report(spoor, trace)
    assert reads(events) == 101 and notes == [said]
    assert states(pack(spoor, trace))["prog", "object"] == "packed"
    program.unlink()
    events, notes = report(spoor, trace)
    assert reads(events) == 101 and not notes
    assert not file.is_symlink() and file.read_bytes() == whole


def test_damaged_debugging_file(spoor, program, recorded):
    trace = recorded(program)
    pack(spoor, trace)
    flip(stored(trace, LIBC, "debug"))
    assert report(spoor, trace)[1] == [
        f"{LIBC}: what was packed of its debugging information is damaged or missing"]


def test_without_manifest(spoor, program, recorded):
    """An object proves itself; but nothing can be listed."""
    trace = recorded(program)
    pack(spoor, trace)
    (trace / "manifest").unlink()
    program.unlink()
    assert reads(report(spoor, trace)[0]) == 101
    run = spoor("pack", trace)
    assert run.returncode == 1 and "manifest is missing or damaged" in run.stderr


def test_two_at_once(spoor, program, recorded):
    trace = recorded(program)
    pack(spoor, trace)
    for place, said in ((trace, "is being written"), (trace / "objects", "somebody else packs")):
        fd = os.open(place, os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        run = spoor("pack", trace)
        os.close(fd)
        assert run.returncode == 1 and said in run.stderr


def test_no_space(spoor, program, recorded, tmp_path):
    """What does not fit is not there in part; what was packed before is listed."""
    trace = recorded(program)
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "spoor-test", small], check=True)
    try:
        shutil.copytree(trace, small / "t.spoor")
        run = spoor("pack", small / "t.spoor")
        assert run.returncode == 1 and "No space left on device" in run.stderr
        assert not list((small / "t.spoor").glob("**/*.new"))
        events, notes = report(spoor, small / "t.spoor")
        assert reads(events) == 101 and not notes
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


@pytest.mark.parametrize("args, code, said", [([], 2, "which trace?"), (["a", "b"], 2, "'b' is one too many"),
                                              (["--frob", "a"], 2, "wrong option '--frob'"),
                                              (["-f", "xml", "a"], 2, "there is no 'xml'"),
                                              (["/nonexistent.spoor"], 1, "No such file"), (["/proc/self"], 1, "")])
def test_misuse(spoor, args, code, said):
    run = spoor("pack", *args)
    assert run.returncode == code and said in run.stderr and run.stderr.count("\n") == 1 and not run.stdout


def test_text(spoor, program, recorded):
    out = spoor("pack", recorded(program)).stdout
    assert re.search(rf"^{program}: [\d.]+ kB in [\d.]+ kB$", out, re.M)
    assert re.search(r"^\S*libc.so.6 \(its debugging file\): [\d.]+ MB in [\d.]+ MB$", out, re.M)
    assert re.search(r"^Packed into \S+: \d+ files, [\d.]+ MB in [\d.]+ MB; 0 were in already; 0 could not be packed.$",
                     out, re.M)
