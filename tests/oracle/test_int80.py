# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls by `int $0x80`, made by a 64-bit program with all its pointers below 4 GB, against strace's account."""
import re
import subprocess
from collections import Counter

import pytest

import likeness
import strace
from recording import SPOOR, record

PROGRAM = r"""
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char *low;
static long call(long nr, long a, long b, long c, long d, long e)
{
	long ret;
	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
			 : "memory", "r8", "r9", "r10", "r11");
	return ret;
}
static long text(const char *s, int slot)
{
	return (long)strcpy(low + 256 * slot, s);
}
int main(void)
{
	long fd;
	low = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (low == MAP_FAILED)
		return 1;
	getppid();                                                       /* not by int 0x80 */
	for (int i = 0; i < 7; i++)
		call(64, 0, 0, 0, 0, 0);                                 /* getppid */
	fd = call(5, text("/etc/passwd", 0), 0, 0, 0, 0);                /* open */
	call(19, fd, -3, 2, 0, 0);                                       /* lseek from the end */
	call(19, fd, 5, 0, 0, 0);
	call(140, fd, 0, 7, (long)low + 4096, 0);                        /* _llseek */
	call(3, fd, (long)low + 4096, 11, 0, 0);                         /* read */
	call(180, fd, (long)low + 4096, 13, 17, 0);                      /* pread64 */
	call(41, fd, 0, 0, 0, 0);                                        /* dup */
	call(63, fd, 50, 0, 0, 0);                                       /* dup2 */
	call(6, 50, 0, 0, 0, 0);                                         /* close */
	call(55, fd, 0, 60, 0, 0);                                       /* fcntl: F_DUPFD */
	call(221, fd, 1030, 60, 0, 0);                                   /* fcntl64: F_DUPFD_CLOEXEC */
	call(221, fd, 3, 0, 0, 0);                                       /* F_GETFL */
	call(6, fd, 0, 0, 0, 0);
	call(6, -1, 0, 0, 0, 0);                                         /* EBADF */
	call(295, -100, text("/nonexistent/file", 1), 0, 0, 0);          /* openat: ENOENT */
	call(5, 1, 0, 0, 0, 0);                                          /* EFAULT */
	call(39, text("made", 2), 0750, 0, 0, 0);                        /* mkdir */
	call(38, text("made", 3), text("moved", 4), 0, 0, 0);            /* rename */
	call(83, text("target", 5), text("moved/link", 6), 0, 0, 0);     /* symlink */
	call(85, text("moved/link", 7), (long)low + 4096, 100, 0, 0);    /* readlink */
	call(195, text("moved", 8), (long)low + 4096, 0, 0, 0);          /* stat64 */
	call(10, text("moved/link", 9), 0, 0, 0, 0);                     /* unlink */
	call(40, text("moved", 10), 0, 0, 0, 0);                         /* rmdir */
	call(12, text("/usr", 11), 0, 0, 0, 0);                          /* chdir */
	call(33, text("lib", 12), 4, 0, 0, 0);                           /* access */
	call(199, 0, 0, 0, 0, 0);                                        /* getuid32 */
	call(192, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);  /* mmap2 */
	call(4, -1, (long)low, 3, 0, 0);                                 /* write: EBADF */
	getppid();
	return 0;
}
"""
BY_INT80 = PROGRAM.count("call(") - 1 + 6  # one is the definition, one stands in a loop of seven
SOME = {"getppid", "open", "_llseek", "pread64", "stat64", "getuid32", "mmap2"}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("int80")
    (folder / "int80.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-w", "-o", "int80", "int80.c"], cwd=folder, check=True, timeout=60)
    return folder / "int80"


def test_like_strace(program, tmp_path, monkeypatch):
    monkeypatch.setattr(likeness, "OWN_ORDER", likeness.OWN_ORDER | {"_llseek"})  # strace joins the offset's halves
    (tmp_path / "w").mkdir()
    how = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=tmp_path / "w",
               env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    theirs = likeness.from_strace(strace.run(tmp_path / "st", [program], stderr=subprocess.DEVNULL, **how))
    recording = record(tmp_path / "t.spoor", "-m", "app", "--", program, prefix=strace.CALM, **how)
    counts, wrong = likeness.compare(likeness.from_spoor(recording), theirs)
    assert not wrong and counts["calls"] > 60, wrong
    recording.check()
    compat = [c for c in recording.calls if c.get("abi") == "i386"]
    assert len(compat) == BY_INT80 and SOME <= {c["event"] for c in compat}
    (seek,) = [c for c in compat if c["event"] == "_llseek"]
    assert (seek["args"]["offset_high"], seek["args"]["offset_low"], seek["args"]["whence"]) == (0, 7, 0)
    assert [c.get("abi") for c in recording.calls if c["event"] == "getppid"] == [None] + ["i386"] * 7 + [None]


def test_marked_in_the_listing(program, tmp_path):
    """By the name that the trace has for them, so that the same number of the other ABI is not taken for it."""
    (tmp_path / "w").mkdir()
    record(tmp_path / "t.spoor", "--", program, cwd=tmp_path / "w")
    out = subprocess.run([SPOOR, "report", "--events", tmp_path / "t.spoor"], capture_output=True, text=True,
                         check=True, timeout=60).stdout
    names = re.findall(r"^\[\d+\] \S+ (\w+)\(", out, re.M)
    assert names.count("i386_getppid") == 7 and names.count("getppid") == 2
    assert sum(n.startswith("i386_") for n in names) == BY_INT80
    assert 'i386_open("/etc/passwd", 0, 0) = 3</etc/passwd> <' in out


NARROW = r"""
static unsigned vdso;
__attribute__((noinline)) void directly(void) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(64) : "memory"); }
__attribute__((noinline)) void by_vdso(void)
{
	int r;
	__asm__ volatile("call *%1" : "=a"(r) : "m"(vdso), "a"(64) : "memory");
}
void begin(unsigned *sp)
{
	unsigned *p = sp + sp[0] + 2;
	while (*p++)
		;
	for (; p[0]; p += 2)
		if (p[0] == 32)
			vdso = p[1];
	for (int i = 0; i < 53; i++)
		directly(), by_vdso();
	__asm__ volatile("int $0x80" : : "a"(1), "b"(0));
}
__asm__(".globl _start\n_start: mov %esp, %eax\npush %eax\ncall begin\n");
"""


@pytest.mark.parametrize("unwind", ["cfi", "fp", "scan"])
def test_programs_of_32_bits(tmp_path, unwind, monkeypatch):
    """Their frames are of another kind: a walk says that it knows no more than the innermost one."""
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "narrow.c").write_text(NARROW)
    subprocess.run(["gcc", "-m32", "-O1", "-fno-pie", "-no-pie", "-nostdlib", "-static", "-fno-stack-protector",
                    "-fno-omit-frame-pointer", "-o", "narrow", "narrow.c"], cwd=tmp_path, check=True, timeout=60)
    recording = record(tmp_path / "t.spoor", "-m", "all", "-S", "64", "--unwind", unwind, "--", tmp_path / "narrow")
    calls = [c for c in recording.calls if c["event"] == "getppid"]
    assert len(calls) == 106 and {(c["walk"], len(c["stack"])) for c in calls} == {("no rows", 1)}
    objects = Counter(c["stack"][0]["object"] for c in calls)
    assert objects == {str(tmp_path / "narrow"): 53, None: 53}
