# SPDX-License-Identifier: GPL-2.0-or-later
"""--overhead: less of stacks where tracing takes more than it may."""
import contextlib
import ctypes
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from processes import wait_for
from spinning import change, program  # noqa: F401 (fixtures)


def test_overhead(record, start, program, spoor):
    """A program that does nothing but system calls is dear: call sites go, and the trace says so."""
    recording = record("-p", start(program, "busy").pid, "-m", "all", "-S", "64", "--overhead", "0.1")
    time.sleep(2.5)
    assert recording.stop() == 0
    said = spoor("report", "--events", "-e", "getuid", recording.trace).stdout
    steps = re.findall(r"overhead (\d+\.\d)% of 0\.1%: mode=(\S+) budget=(\d+)", said)
    assert steps, said
    budgets = [int(budget) for _, _, budget in steps]
    assert budgets[0] < 64 and budgets == sorted(budgets, reverse=True)


DEEP = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile unsigned work;
__attribute__((noinline)) static void deep(unsigned n, unsigned long way)
{
	if (!n)
		syscall(SYS_getppid);
	else if (way >> n % 6 & 1) /* from two places: 64 stacks in all */
		deep(n - 1, way);
	else
		deep(n - 1, way);
	__asm__ volatile("");
}
int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDWR) : -1;
	volatile unsigned long *done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (done == MAP_FAILED)
		return 1;
	for (;; ++*done) {
		for (int i = 0; i < 16000; i++)
			work++;
		deep(480, *done);
	}
}
"""


class Deep:
    """A program that computes and calls getppid in turn, as deep in its stack as S can be."""

    def __init__(self, start, program, done, nice):
        self.done = done
        done.write_bytes(bytes(8))
        self.pid = start("taskset", "-c", min(os.sched_getaffinity(0)), "nice", "-n", nice, program, done).pid
        wait_for(self.calls)

    def calls(self):
        return int.from_bytes(self.done.read_bytes(), "little")

    def cpu_time(self):
        return time.clock_gettime((~self.pid << 3) | 2)  # of another process: clock_getcpuclockid(3)


def run_time(recording):
    """Nanoseconds that its BPF programs have run while somebody asked the kernel to count."""
    found = {}
    for info in Path(f"/proc/{recording.pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            said = dict(re.findall(r"^(prog_id|run_time_ns):\t(\d+)$", info.read_text(), re.M))
            if "run_time_ns" in said:
                found[said["prog_id"]] = int(said["run_time_ns"])
    return sum(found.values())


def costs(recording, traced, other, seconds):
    """Per cent of the CPUs' time that tracing takes: as the kernel counts it; and as the program feels it, whose calls
    take longer than those of the other one, which has the same CPU and so is slow whenever that is."""
    def now():
        return [time.monotonic(), run_time(recording) / 1e9,
                *(x for p in (traced, other) for x in (p.cpu_time(), p.calls()))]
    before = now()
    time.sleep(seconds)
    wall, ran, cpu, calls, other_cpu, other_calls = (b - a for a, b in zip(before, now()))
    return [100 * t / (wall * os.cpu_count()) for t in (ran, cpu - calls * other_cpu / other_calls)]


@pytest.fixture
def counted_run_time():
    """The kernel counts BPF programs' run time (BPF_ENABLE_STATS of bpf(2)) until the test has ended."""
    fd = ctypes.CDLL(None).syscall(321, 32, ctypes.byref(ctypes.c_uint32()), 4)
    assert fd >= 0
    yield
    os.close(fd)


def test_overhead_is_held(record, start, spoor, change, counted_run_time, tmp_path):
    """Where lowering helps, tracing takes no more than the limit, which lies well below what it takes with all stacks
    and above what it takes with none (calls of others on this machine have a part in both). Not all stacks are given up
    for that. By what the recorder measures, and by what the program feels."""
    (tmp_path / "deep.c").write_text(DEEP)
    subprocess.run(["gcc", "-O2", "-fno-optimize-sibling-calls", "-o", "deep", "deep.c"], cwd=tmp_path, check=True,
                   timeout=60)
    # They go before what else the machine does, so that their shares of a CPU are much the same all the time.
    traced, other = (Deep(start, tmp_path / "deep", tmp_path / name, nice) for name, nice in
                     (("traced", -10), ("other", -5)))
    options = ["-p", traced.pid, "-e", "getppid", "-m", "all", "-S", "512"]
    recording = record(*options, trace="full.spoor")

    def unlimited():
        """Once the two are well apart: it may be that others do little but system calls for a while."""
        change(recording.trace, "mode=all")
        full = costs(recording, traced, other, 3)
        change(recording.trace, "mode=none")
        least = costs(recording, traced, other, 3)
        return full[0] > 2 * least[0] and (*full, least[0])

    full, full_felt, least = wait_for(unlimited, 60)
    assert recording.stop() == 0
    limit = round(least + 0.4 * (full - least), 1)
    recording = record(*options, "--overhead", limit)

    def steps():
        said = spoor("report", "--events", "-e", "getuid", recording.trace).stdout
        found = re.findall(r"overhead (\d+\.\d)% of (\d+\.\d)%: mode=(\S+) budget=(\d+)", said)
        return [(float(measured), float(of), mode, int(budget)) for measured, of, mode, budget in found]

    def settled():
        """For four seconds the recorder measured no more than the limit: it says so each time that it is more."""
        before = steps()
        time.sleep(4)
        return before and steps() == before

    wait_for(settled, 60)
    held, felt = costs(recording, traced, other, 5)
    assert recording.stop() == 0
    print(f"all stacks {full:.1f} %, felt {full_felt:.1f}; none {least:.1f}; of {limit} held {held:.1f}, felt "
          f"{felt:.1f}; {steps()}")
    assert "could not be held" not in recording.said()
    measured, of, _, budget = steps()[0]
    assert measured > of == limit and budget < 512 and steps()[-1][2] != "none"
    assert felt <= 1.25 * limit and felt < full_felt


def test_overhead_allows_more_again(record, start, program, spoor):
    """Once what was dear is over."""
    busy, calm = start(program, "busy"), start(program, "ticks")
    recording = record("-p", busy.pid, "-p", calm.pid, "-m", "all", "-S", "64", "--overhead", "3")

    def steps():
        """How much of stacks each step left."""
        said = spoor("report", "--events", "-e", "getuid", recording.trace).stdout
        found = re.findall(r"overhead \d+\.\d% of 3\.0%: mode=(\S+) budget=(\d+)", said)
        return [("none", "app", "all").index(mode) * 1000 + int(budget) for mode, budget in found]

    wait_for(steps, every=0.2)
    busy.kill()
    rises = lambda: any(a < b for a, b in zip(steps(), steps()[1:]))  # after ten calm seconds
    wait_for(rises, 60, 0.5)
    assert recording.stop() == 0 and steps()[0] < 2064


def test_overhead_that_cannot_be_held(record, start, program, spoor):
    """Where the calls alone cost more, the recorder and the trace say so, once."""
    recording = record("-p", start(program, "busy").pid, "-m", "none", "--overhead", "0.1")
    time.sleep(3.5)
    assert recording.stop() == 0
    (said,) = [line for line in recording.said().splitlines() if "could not be held" in line]
    found = re.fullmatch(r"spoor: --overhead 0\.1% could not be held: up to (\d+\.\d)% without any stack; .*", said)
    assert float(found[1]) > 0.1
    events = spoor("report", "--events", "-e", "getuid", recording.trace).stdout
    assert len(re.findall(r"overhead \d+\.\d% of 0\.1%: cannot be held, there is nothing to lower", events)) == 1


def test_overhead_of_calls_with_modes_of_their_own(record, start, program, spoor):
    """They go down with the others, to none at last."""
    recording = record("-p", start(program, "busy").pid, "-m", "app", "-S", "2", "-e", "getppid=all",
                       "--overhead", "0.1")
    wait_for(lambda: ": mode=none " in spoor("report", "--events", "-e", "getuid", recording.trace).stdout, every=0.2)
    lowered = f"@{time.time() + 0.1:.6f}"
    late = wait_for(lambda: "getppid" in (said := spoor("report", "--from", lowered, recording.trace).stdout.split(
        "\n", 1)[1]) and said, every=0.2)
    assert recording.stop() == 0
    assert "[no stack]" in late and "inner" not in late
