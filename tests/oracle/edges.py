# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs whose own functions say what a stack has to be: how they are built, recorded, and asked. Every call of
interest is getppid(), which nothing else makes."""
import subprocess
from collections import Counter

from recording import record

HEAD = r"""
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
#define KEEP __asm__ volatile("")
NOINLINE void ask(void)
{
	syscall(SYS_getppid);
	KEEP;
}
"""


def build(tmp_path, name, source, *flags, libs=(), compiler="gcc"):
    (tmp_path / f"{name}.c").write_text(HEAD + source)
    subprocess.run([compiler, "-O2", "-g1", "-o", name, f"{name}.c", *flags, *libs], cwd=tmp_path, check=True,
                   timeout=60)
    return tmp_path / name


def functions(call):
    """Names, innermost first, without inlined ones: symbols of the program's own are what is looked for."""
    return [f["function"] for f in call["stack"] if not f.get("inlined")]


def asked(recording):
    return [c for c in recording.calls if c["event"] == "getppid"]


def names_of(recording, own):
    """How often each sequence of the program's own functions was seen in a getppid; every walk must be complete."""
    for c in asked(recording):
        assert c["walk"] == "complete", (c["walk"], functions(c))
    return Counter(tuple(n for n in functions(c) if n in own) for c in asked(recording))


def run(tmp_path, program, *args, options=("-m", "all", "-S", "512"), **bars):
    recording = record(tmp_path / f"{program.name}.spoor", *options, "--", program, *args)
    recording.check(**bars)
    return recording


LATE = r"""
__asm__( /* their rows come late, since there are many */
	".text\n.rept 100000\n.cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\n.skip 14, 0x90\npop %rbx\n"
	".cfi_def_cfa_offset 8\nret\n.cfi_endproc\n.endr\n");
"""


def late(tmp_path, monkeypatch, program, *args):
    """A recording in which the program's rows are not there when it begins."""
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(tmp_path / "cache"))
    recording = record(tmp_path / "late.spoor", "-m", "all", "-S", "64", "--", "env", program, *args)
    assert any(c["way"] == "user" for c in asked(recording))
    return recording
