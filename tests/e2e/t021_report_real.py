# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor report on recordings of real programs: known counts at known lines, stripped, replaced, hung."""
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from processes import children, sleeps_in, wait_for

PROGRAM = r"""
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static inline __attribute__((always_inline)) void reads(int fd)
{
	char byte;
	if (read(fd, &byte, 1) < 0) /* LINE read */
		_exit(3);
}
__attribute__((noinline)) void work(int fd)
{
	for (int i = 0; i < 101; i++)
		reads(fd); /* LINE work */
	__asm__ volatile("");
}
__attribute__((noinline)) void failing(void)
{
	for (int i = 0; i < 53; i++)
		if (open("/nonexistent/\033[31mred", O_RDONLY) >= 0) /* LINE open */
			_exit(4);
	__asm__ volatile("");
}
__attribute__((noinline)) void *lock_both(void *p)
{
	pthread_mutex_t **m = p;
	pthread_mutex_lock(m[0]);
	usleep(100000);
	pthread_mutex_lock(m[1]); /* LINE lock */
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_mutex_t *ab[] = { &a, &b }, *ba[] = { &b, &a };
	pthread_t t;
	int fd = open("/dev/zero", O_RDONLY);
	work(fd);
	failing();
	if (argc > 1) {
		alarm(8);
		pthread_create(&t, NULL, lock_both, ab);
		lock_both(ba);
	}
	return 0;
}
"""
JIT = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 }; /* calls what it is given */
__attribute__((noinline)) void ask(void)
{
	syscall(SYS_getppid);
	__asm__ volatile("");
}
static int memory(const char *name)
{
	return name[0] == '/' ? open(name, O_RDWR | O_CREAT | O_EXCL, 0600) : memfd_create(name, 0);
}
int main(int argc, char **argv)
{
	int fd = argc > 3 ? memory(argv[3]) : -1;
	void *p = mmap((void *)0x20000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		       MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), fd, 0);
	char path[64];
	FILE *map;
	if (fd >= 0 && ftruncate(fd, 4096))
		return 1;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = fopen(path, "w");
	fprintf(map, "%lx 8 made_by_%s\n", (long)p, argv[1]);
	fclose(map);
	puts(path);
	memcpy(p, code, sizeof(code));
	for (int i = 0; i < atoi(argv[2]); i++) {
		((void (*)(void (*)(void)))p)(ask);
		if (i > 100)
			usleep(300); /* until rows are there each stack is copied, and is to find room */
	}
	return 0;
}
"""
LINES = {m: n for n, line in enumerate(PROGRAM.split("\n"), 1) for m in re.findall(r"/\* LINE (\w+) \*/", line)}


def record(spoor, name, *command):
    """The program may outlive the recording, so nothing is a pipe to wait for."""
    run = spoor("record", "-o", name, *command, timeout=60, capture_output=False, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
    assert run.returncode == 0
    return name


@pytest.fixture
def program(tmp_path):
    (tmp_path / "prog.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", "prog", "prog.c"], cwd=tmp_path, check=True, timeout=60)
    return tmp_path / "prog"


def rows(out):
    """(calls, errors, call, site) of the table."""
    found = re.findall(r"^ *([\d,]+) +(\d*) +[\d.]+ \w+ +[\d.]+ \w+ +[\d.]+ \w+  (\S+) +(.*)$", out, re.M)
    return [(int(c.replace(",", "")), int(e or 0), call, site) for c, e, call, site in found]


def test_counts_at_their_lines(spoor, program):
    trace = record(spoor, "t.spoor", "-m", "all", "-S", "32", "--", program)
    out = spoor("report", "--top", "0", trace).stdout
    print(out)
    got = {(call, site): (calls, errors) for calls, errors, call, site in rows(out)}
    reads = [v for (call, site), v in got.items() if call == "read" and f"prog.c:{LINES['read']}" in site]
    opens = [v for (call, site), v in got.items() if call == "openat" and f"prog.c:{LINES['open']}" in site]
    assert reads == [(101, 0)] and opens == [(53, 53)]
    assert any("reads" in site and "(inlined in work)" in site for _, site in got)


def test_json_filters_and_escapes(spoor, program):
    trace = record(spoor, "t.spoor", "-m", "all", "-S", "32", "--", program)
    failed = spoor("report", "--format", "json", "--errno", "ENOENT", "--function", "failing", trace).stdout
    *events, summary = [json.loads(line) for line in failed.split("\n")[:-1]]
    assert len(events) == summary["calls"] == 53
    for e in events:
        assert e["event"] == "openat" and e["args"]["filename"] == "/nonexistent/\033[31mred" and e["ret"] == -2
        assert any(f["function"] == "failing" and f["line"] == LINES["open"] for f in e["stack"])
    for e in (json.loads(x) for x in spoor("report", "-f", "json", "-e", "read", "--function", "work", trace)
              .stdout.split("\n")[:-2]):
        assert e["args"]["fd"]["fd"] == 3 and e["args"]["fd"]["path"] == "/dev/zero"
        names = [(f["function"], f["line"], f.get("inlined", False)) for f in e["stack"]]
        at = names.index(("reads", LINES["read"], True))
        assert names[at + 1] == ("work", LINES["work"], False)
    listing = spoor("report", "--events", "--failed", trace).stdout
    assert "\033" not in listing and '"/nonexistent/\\x1b[31mred"' in listing


ONE_ID = r"""
#include <unistd.h>
#include <sys/syscall.h>
__attribute__((noinline)) long FA(void)
{
	volatile char room[SZ];
	for (int i = 0; i < SZ; i += SZ / 4) room[i] = 1;
	return syscall(SYS_getppid) + room[0];
}
int main(void) { return FA() == 0; }
"""


def test_two_programs_of_one_build_id(spoor, tmp_path):
    """As ids given by hand can be: the debug file of one does not name the other's functions."""
    (tmp_path / "bi.c").write_text(ONE_ID)
    debug = tmp_path / "debug/.build-id/12/34567890abcdef1234567890abcdef12345678.debug"
    debug.parent.mkdir(parents=True)
    for name, size, function in ("one", 64, "alpha"), ("two", 4000, "beta"):
        subprocess.run(["gcc", "-g", "-O1", f"-DSZ={size}", f"-DFA={function}", "-o", name, "bi.c",
                        "-Wl,--build-id=0x1234567890abcdef1234567890abcdef12345678"], cwd=tmp_path, check=True)
    subprocess.run(["objcopy", "--only-keep-debug", "one", debug], cwd=tmp_path, check=True)
    subprocess.run(["strip", "one", "two"], cwd=tmp_path, check=True)
    for name, there in ("one", True), ("two", False):
        trace = record(spoor, f"{name}.spoor", "-m", "all", "-S", "32", "-e", "getppid", "--", tmp_path / name)
        shown = spoor("report", "--debug-root", tmp_path / "debug", trace).stdout
        assert ("alpha" in shown) == there and ("is of other code" in shown) != there, shown


def test_offsets_are_what_addr2line_takes(spoor, program):
    trace = record(spoor, "t.spoor", "-m", "all", "-S", "32", "--", program)
    out = spoor("report", "--format", "json", "-e", "read,openat", trace).stdout
    checked = 0
    frames = {(f["offset"], f["function"], f["line"]) for line in out.split("\n")[:-2]
              for f in json.loads(line)["stack"] if f["object"] == str(program) and f["line"] and not f.get("inlined")}
    for offset, function, line in frames:
        want = subprocess.run(["addr2line", "-f", "-i", "-e", program, hex(int(offset, 16) - 1)], capture_output=True,
                              text=True, check=True).stdout.split("\n")[-3:-1]
        assert (function, line) == (want[0], int(want[1].split(":")[1].split()[0]))
        checked += 1
    assert checked >= 3


def test_command_is_as_a_shell_takes_it(spoor, program):
    command = ["record", "-e", "!/^p(read|write)64$/", "-o", "t.spoor", "--", "sh", "-c", 'echo "$1" \\', "x", "it's"]
    assert spoor(*command).stdout == "it's \\\n"
    head = spoor("report", "t.spoor").stdout.splitlines()[0]
    assert shlex.split(head.partition(": ")[2]) == ["spoor", *command]


def test_hint_where_the_application_has_no_code(spoor, program):
    """Only there: nearly all of these calls are main's or beneath it."""
    assert "Hint:" not in spoor("report", record(spoor, "own.spoor", program)).stdout
    none = record(spoor, "none.spoor", "--app", "another", program)
    assert re.search(r"^Hint: .*--app", spoor("report", none).stdout, re.M)


def test_stripped_program(spoor, program):
    subprocess.run(["strip", program], check=True)
    trace = record(spoor, "t.spoor", "-m", "all", "-S", "32", "--", program)
    got = rows(spoor("report", "--top", "0", trace).stdout)
    sites = [site for calls, errors, call, site in got if call == "read" and calls == 101]
    assert len(sites) == 1 and re.fullmatch(r"prog\+0x[0-9a-f]+", sites[0])


def sections(image):
    """Of each section's name where its header lies in a 64-bit ELF file."""
    at, (n, names) = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<HH", image, 60)
    strings = struct.unpack_from("<Q", image, at + 64 * names + 24)[0]
    starts = {at + 64 * i: strings + struct.unpack_from("<I", image, at + 64 * i)[0] for i in range(n)}
    return {image[start:image.index(b"\0", start)].decode(): header for header, start in starts.items()}


BOMB = 64 << 20


@pytest.fixture(params=["compressed", "sparse"])
def bomb(program, request):
    """Of 50 kB on the disk, whose debugging information says that it is three times BOMB, all of the same bytes."""
    image = bytearray(program.read_bytes())
    packed = struct.pack("<IIQQ", 1, 0, BOMB, 1) + zlib.compress(bytes(BOMB), 9)
    sparse, end = request.param == "sparse", (len(image) + 4095) & ~4095
    for name in (".debug_info", ".debug_line", ".debug_str"):
        header = sections(image)[name]
        struct.pack_into("<Q", image, header + 8, 0 if sparse else 0x800)  # SHF_COMPRESSED
        struct.pack_into("<QQ", image, header + 24, end, BOMB if sparse else len(packed))
    program.write_bytes(image + bytes(end - len(image)) + (b"" if sparse else packed))
    if sparse:
        os.truncate(program, end + BOMB)
        os.chown(program, 65534, 65534)  # those of root are mapped
    return program


# What a process needed at most counts from before it executes: so its parent must need little.
MEASURED = """
import os, sys
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_debugging_information_that_is_a_bomb(spoor, build, bomb, tmp_path):
    trace = record(spoor, "t.spoor", "-m", "all", "-S", "32", "--", bomb)
    report = subprocess.run([sys.executable, "-c", MEASURED, build / "spoor", "report", "--top", "0",
                             tmp_path / trace], capture_output=True, text=True, check=True)
    text = report.stdout
    assert int(report.stderr) < BOMB >> 10
    assert f"Note: {bomb}: its debugging information would become too large in memory, and is not used" in text
    assert [c for c, e, call, site in rows(text) if call == "read" and site.startswith("work+0x")] == [101]


NAMED_ELSEWHERE = r"""
	.globl main
	.type main, @function
main:	mov $110, %%eax # getppid
	syscall
	xor %%eax, %%eax
	ret
.Lend:	.size main, . - main
	.section .debug_abbrev, "", @progbits
	.byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0 # a unit with code
	.byte 2, 0x2e, 0, 3 # a function, whose name is
	.uleb128 0x1f21 # DW_FORM_GNU_strp_alt
	.byte 0x11, 1, 0x12, 7, 0, 0, 0
	.section .debug_info, "", @progbits
	.long .Lafter - .Lbefore
.Lbefore:
	.short 4
	.long 0
	.byte 8, 1
	.quad main, .Lend - main
	.byte 2
	.long 0
	.quad main, .Lend - main
	.byte 0
.Lafter:
	.section .gnu_debugaltlink, "", @progbits
	.asciz "%s"
	.ascii "12345678901234567890"
	.section .note.GNU-stack, "", @progbits
"""


def test_supplementary_file_that_is_a_fifo(spoor, tmp_path):
    """libdw would look for it by itself, and wait until somebody writes into it."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "prog.s").write_text(NAMED_ELSEWHERE % (tmp_path / "fifo"))
    subprocess.run(["gcc", "-o", "prog", "prog.s"], cwd=tmp_path, check=True, timeout=60)
    trace = record(spoor, "t.spoor", "--", tmp_path / "prog")
    found = rows(spoor("report", "--top", "0", trace, timeout=20).stdout)
    assert [site.split()[0] for c, e, call, site in found if call == "getppid"] == ["main+0x7"]


def test_replaced_program(spoor, program):
    trace = record(spoor, "t.spoor", "-m", "all", "-S", "32", "--", program)
    data = bytearray(program.read_bytes())
    data[-1] ^= 1
    program.unlink()
    program.write_bytes(data)
    out = spoor("report", "--top", "0", trace).stdout
    assert out.count(f"Note: {program}: changed since the recording") == 1
    assert [c for c, e, call, site in rows(out) if call == "read" and site.startswith("prog+0x")] == [101]
    assert "prog.c:" not in out
    program.unlink()
    assert f"Note: {program}: cannot be read" in spoor("report", trace).stdout


def test_program_overwritten_in_place(spoor, program):
    """A large one, which is not read without need: its size and time are put back. That it has another link now, or
    other rights, is none of our business."""
    with program.open("ab") as f:
        f.write(bytes(3 << 20))
    trace = record(spoor, "t.spoor", "-m", "all", "-S", "32", "--", program)
    program.chmod(0o700)
    os.link(program, program.parent / "other")
    out = spoor("report", "--top", "0", trace).stdout
    assert "changed since" not in out and "prog.c:" in out
    st = program.stat()
    with program.open("r+b") as f:
        f.seek(-1, os.SEEK_END)
        f.write(b"x")
    os.utime(program, ns=(st.st_atime_ns, st.st_mtime_ns))
    out = spoor("report", "--top", "0", trace).stdout
    assert out.count(f"Note: {program}: changed since the recording") == 1 and "prog.c:" not in out


def test_programs_of_one_name_that_are_gone(spoor, program):
    """Each is an object of its own; that their file is not there is said once. (It is while rows are read.)"""
    script = "for i in 1 2 3; do cp prog gone; printf $i >>gone; ./gone; sleep 0.5; rm gone; done"
    trace = record(spoor, "t.spoor", "-m", "all", "-S", "32", "--", "sh", "-c", script)
    out = spoor("report", "--top", "0", trace).stdout
    assert out.count(f"Note: {program.parent}/gone: cannot be read") == 1


@pytest.fixture
def jit(tmp_path):
    """jit NAME CALLS [MEMFD|PATH]"""
    (tmp_path / "jit.c").write_text(JIT)
    subprocess.run(["gcc", "-O2", "-no-pie", "-o", "jit", "jit.c"], cwd=tmp_path, check=True, timeout=60)
    return tmp_path / "jit"


@pytest.mark.parametrize("calls", (7, 3001))  # the program has ended before its memory is looked at; or not
@pytest.mark.parametrize("memory", ("memfd", "shm", "file"))
def test_code_in_shared_memory(spoor, jit, memory, calls):
    """It is code made at run time there, too: no object that could be gone, and with the names of the map."""
    where = {"memfd": "pages", "shm": f"/dev/shm/pages-{os.getpid()}", "file": jit.parent / "pages"}[memory]
    try:
        run = spoor("record", "-o", "t.spoor", "-m", "lib", "-S", "20", "-e", "getppid", "--", jit, "dora", calls,
                    where)
    finally:
        if memory != "memfd":
            os.unlink(where)
    names = Path(run.stdout.strip())
    report = spoor("report", "--folded", "t.spoor")
    names.unlink()
    assert re.search(fr";made_by_dora;ask;.*getppid {calls}$", report.stdout, re.M), report.stdout
    assert f"Walks: complete {calls:,} (100 %)" in report.stderr and "Note:" not in report.stderr
    assert calls == 7 or not re.search(r"in the kernel 0 \(", report.stderr), report.stderr


def test_code_made_at_run_time_is_of_its_process(spoor, jit):
    """Equal stacks of several processes have one id, but what the code is called is each one's own."""
    script = "./jit warm 1; sleep 1; ./jit alice 7; ./jit bob 11; ./jit carol 13"  # rows are read meanwhile
    run = spoor("record", "-o", "t.spoor", "-m", "lib", "-S", "20", "-e", "getppid", "--app", "[anonymous]", "--",
                "setarch", "-R", "sh", "-c", script, timeout=60)
    maps = [Path(p) for p in run.stdout.split()]
    want = {"made_by_alice": 7, "made_by_bob": 11, "made_by_carol": 13}
    try:
        assert run.returncode == 0 and len(maps) == 4, run.stderr
        for by in ("process", "app", "all"):
            got = rows(spoor("report", "--by", by, "t.spoor").stdout)
            got = {site.split("+")[0]: calls for calls, _, _, site in got if site.startswith("made_by_")}
            assert {**got, "made_by_warm": 1} == {**want, "made_by_warm": 1}, by
        folded = spoor("report", "--folded", "t.spoor").stdout
        got = {name: int(calls) for name, calls in re.findall(r";(made_by_\w+);.*;getppid (\d+)$", folded, re.M)}
        assert {**got, "made_by_warm": 1} == {**want, "made_by_warm": 1}
    finally:
        for path in maps:
            path.unlink()


def test_blocked_threads(record, spoor, program):
    """Two threads, each with the lock that the other wants."""
    begin = time.monotonic()
    recording = record("-m", "all", "-S", "32", "--", program, "hang")
    (pid,) = wait_for(lambda: [p for p in children(recording.pid) if Path(f"/proc/{p}/comm").read_text() == "prog\n"])
    threads = Path(f"/proc/{pid}/task")
    wait_for(lambda: [sleeps_in(pid, 202, t.name) for t in threads.iterdir()] == [True, True])  # futex
    time.sleep(0.6)
    assert recording.stop() == 0
    most, trace = (time.monotonic() - begin) * 1e9, recording.trace
    out = spoor("report", "--blocked", trace).stdout
    print(out)
    blocked = [b for b in re.split(r"\n\n", out) if re.search(r"\]( thread \d+)?: for .* in futex\(", b)]
    assert len(blocked) == 2
    for b in blocked:
        assert "    on futex 0x" in b and "lock_both " in b and f"prog.c:{LINES['lock']}" in b
    as_json = [json.loads(x) for x in spoor("report", "--blocked", "-f", "json", trace).stdout.split("\n")[:-2]]
    locks = [e for e in as_json if any(f["function"] == "lock_both" for f in e["stack"])]
    assert len(locks) == 2 and all(6e8 <= e["so_far"] < most for e in locks)
