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
