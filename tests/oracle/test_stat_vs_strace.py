# SPDX-License-Identifier: GPL-2.0-or-later
"""`spoor stat` counts calls and errors as `strace -c -f` does. (Calls that never return strace does not count.)"""
import re
import subprocess

import pytest

import counting

ROW = re.compile(r"^ *[\d.]+ +[\d.]+ +\d* +(\d+) +(\d+ )? *(\w+)$", re.M)

# Who waits for whom is chance; a stop is a restart more under strace, which loses calls of threads that execve ends.
# The sender of signals looks by preadv until they are due.
CHANCE = {"futex", "sched_yield", "restart_syscall", "pause", "preadv"}

PROGRAMS = {
    "true": ["/bin/true"],
    "cat": ["/bin/cat", "/etc/passwd", "/no/such/file"],
    "find": ["/usr/bin/find", "/etc/apt", "/no/such/place"],
    "sh": ["/bin/sh", "-c", "for i in 1 2 3; do /bin/echo $i; done; cd /nowhere; (cd /; /bin/true); exec /bin/true"],
    "sh, exec chain": ["/bin/sh", "-c", "exec /bin/sh -c 'exec /usr/bin/env -i /bin/sh -c \"exec /bin/ls /\"'"],
    "python": ["/usr/bin/python3", "-I", "-S", "-c",
               "import os\nfor i in range(97): os.getppid()\ntry: open('/nowhere')\nexcept OSError: pass"],
    "python, forks": ["/usr/bin/python3", "-I", "-S", "-c",
                      "import os\nfor i in range(5):\n p = os.fork()\n if not p: os.getppid(); os._exit(3)\n"
                      " os.waitpid(p, 0)"],
    "perl": ["/usr/bin/perl", "-e", "for (1..31) { -e '/nowhere' } system('/bin/true'); exit 2"],
    "tar": ["/bin/tar", "cf", "/dev/null", "/etc/apt"],
    "threads": ["counted", "threads", "7", "31"],
    "processes": ["counted", "processes", "7", "31"],
    "exec by a thread": ["counted", "exec", "1", "31"],
    "int 0x80": ["counted", "int80", "13", "17"],
    "errors": ["counted", "errors", "31", "17"],
    "restarts": ["counted", "restart", "5", "11"],
    "many calls": ["counted", "many", "60", "5"],
    "answered by seccomp": ["refused", "31"],
}


def strace(argv, out):
    subprocess.run(["strace", "-c", "-f", "-o", out, *argv], stdin=subprocess.DEVNULL, capture_output=True,
                   timeout=60, check=False)
    found = {}
    for calls, errors, name in ROW.findall(out.read_text()):
        if name != "total":  # one table for each way into the kernel
            old = found.get(name, (0, 0))
            found[name] = (old[0] + int(calls), old[1] + int(errors or 0))
    return found


def stat(build, argv, out):
    subprocess.run([build / "spoor", "stat", "--format", "json", "-o", out, "--", *argv], stdin=subprocess.DEVNULL,
                   capture_output=True, timeout=60, check=False)
    (c,) = counting.read(out)
    found = {}
    for (name, _), (calls, errors) in c.whole().returned().items():
        old = found.get(name, (0, 0))
        found[name] = (old[0] + calls, old[1] + errors)
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_counts(build, compiled, tmp_path, program):
    argv = [str(compiled(f"{a}.c")) if a in ("counted", "refused") else a for a in PROGRAMS[program]]
    theirs, ours = strace(argv, tmp_path / "strace"), stat(build, argv, tmp_path / "spoor")
    for name in CHANCE:
        theirs.pop(name, None)
        ours.pop(name, None)
    assert ours and ours == theirs
