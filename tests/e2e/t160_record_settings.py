# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that change what is recorded: --set, --overhead, --snapshot-on, -s, --row-memory, --unwind."""
import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from processes import children, lingering, sleeps_in, status, tell, wait_for

SPIN = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
static volatile int hits;
__attribute__((noinline)) void inner(void)
{
	syscall(SYS_getppid); /* LINE inner */
	__asm__ volatile("");
}
__attribute__((noinline)) void outer(void)
{
	inner(); /* LINE outer */
	__asm__ volatile("");
}
__attribute__((noinline)) static void on_alarm(int sig)
{
	(void)sig;
	inner();
	hits++;
}
/* Its first instruction is where it is interrupted nearly always: one byte earlier lies another function. */
__asm__(".text\n.globl before\n.type before,@function\nbefore: .cfi_startproc\n"
	"ret\n.cfi_endproc\n.size before,.-before\n"
	".globl spinning\n.type spinning,@function\nspinning: .cfi_startproc\n"
	"jmp spinning\n.cfi_endproc\n.size spinning,.-spinning\n");
void spinning(void);
static void again(int sig)
{
	on_alarm(sig);
	if (hits == 20)
		_exit(0);
}
static void forever(int us)
{
	for (;; us ? usleep(us) : 0)
		outer();
}
static void moves(void)
{
	char b[64];
	int fds[2];
	if (pipe(fds) || write(fds[1], "0123456789abcdefghijklmnopqrstuvwxyz", 36) != 36 || read(fds[0], b, 64) != 36)
		_exit(3);
}
int main(int argc, char **argv)
{
	struct itimerval t = { { 0, 5000 }, { 0, 5000 } };
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "busy"))
		forever(0);
	if (!strcmp(what, "ticks"))
		forever(500);
	if (!strcmp(what, "moves"))
		moves();
	if (!strcmp(what, "signal")) {
		signal(SIGALRM, again);
		setitimer(ITIMER_REAL, &t, NULL);
		spinning();
	}
	for (int i = 0; i < 50; i++)
		outer();
	return 0;
}
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spin")
    (folder / "spin.c").write_text(SPIN)
    subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-o", "spin", "spin.c"], cwd=folder, check=True,
                   timeout=60)
    return folder / "spin"


@pytest.fixture
def change(spoor):
    """change(recording, "mode=app", ...) succeeds without a word; with refused=True fails with one line: this."""
    def run(trace, *settings, refused=False):
        done = spoor("record", *[w for s in settings for w in ("--set", s)], trace)
        assert done.stdout == ""
        if not refused:
            assert (done.returncode, done.stderr) == (0, "")
            return ""
        assert done.returncode == 1 and done.stderr.startswith("spoor record: "), done
        assert done.stderr.count("\n") == 1
        return done.stderr
    return run


def configs(trace):
    """What the trace says of its settings, in order: (ns, text), by babeltrace2."""
    run = subprocess.run(["babeltrace2", "--clock-seconds", trace], capture_output=True, text=True, errors="replace",
                         check=True, timeout=60)
    found = re.findall(r"^\[(\d+)\.(\d{9})\].* spoor:config: .*?\btext = \"(.*?)\", padding", run.stdout, re.M)
    return [(int(s) * 10**9 + int(ns), text) for s, ns, text in found]


def functions(event):
    return [f["function"] for f in event["stack"]]


def frames(event):
    return {(f["object"], f["offset"]) for f in event["stack"]}


@pytest.fixture
def ticking(start, program, record):
    """A recording of a program that calls getppid two thousand times a second at most."""
    def run(*options):
        ticker = start(program, "ticks").pid
        recording = record("-p", ticker, "-e", "getppid", *options)
        recording.ticker = ticker
        return recording
    return run


def let_it_tick(ticker, times):
    """So many whole calls from now on: between two of its sleeps lies one. (The first may have been on its way.)"""
    def slept():
        return int(status(ticker, "voluntary_ctxt_switches"))
    end = slept() + 1 + times
    wait_for(lambda: slept() >= end, every=0.001)


def test_mode_and_budget(ticking, change, read):
    recording = ticking("-m", "all", "-S", "16")
    time.sleep(0.3)
    change(recording.trace, "mode=app", "budget=2")
    time.sleep(0.3)
    change(recording.trace, "mode=all")
    time.sleep(0.3)
    assert recording.stop() == 0
    calls = read(recording.trace).whole().of("getppid")
    shapes = [tuple(functions(c)) for c in calls]
    changes = [s for i, s in enumerate(shapes) if i == 0 or shapes[i - 1] != s]
    assert changes[0][:3] == ("syscall", "inner", "outer") and "main" in changes[0]
    assert ("inner",) in changes[1:] and changes[-1] == ("syscall", "inner")
    assert [text for _, text in configs(recording.trace)] == ["mode=app", "budget=2", "mode=all"]


def test_pause_and_resume(ticking, change, read):
    recording = ticking()
    time.sleep(0.2)
    change(recording.trace, "pause")
    paused = time.time()
    time.sleep(0.5)
    resumed = time.time()
    change(recording.trace, "resume")
    time.sleep(0.2)
    assert recording.stop() == 0
    times = [float(c["ts"]) for c in read(recording.trace).whole().calls]
    assert not [t for t in times if paused + 0.02 < t < resumed - 0.02]
    assert min(times) < paused and max(times) > resumed
    assert [text for _, text in configs(recording.trace)] == ["pause", "resume"]


WAIT4, NANOSLEEP, OPENAT = 61, 230, 257
SETTINGS = {"paused": ((), ("pause",), ("resume", "budget=64")),
            "not chosen": (("-e", "getegid"), (), ("e=getegid,wait4,clock_nanosleep,openat", "e=all"))}


@pytest.fixture
def begun(record, change, start, read, tmp_path):
    """begun(which, script, call...) -> a recording, a shell and it with its children. Its read was met at attach; it
    and they came to sleep in these calls while none was recorded, which then were let in, twice."""
    def run(which, script, *asleep):
        options, before, after = SETTINGS[which]
        os.mkfifo(tmp_path / "fifo")
        shell = start("/bin/sh", "-c", script)
        wait_for(lambda: sleeps_in(shell.pid, 0))
        recording = record("-p", shell.pid, "--follow", "-m", "all", "-S", "64", *options)
        for setting in before:
            change(recording.trace, setting)
        tell(shell)
        threads = wait_for(lambda: len(found := [shell.pid, *children(shell.pid)]) == len(asleep) and found)
        for pid, call in zip(threads, asleep):
            wait_for(lambda: sleeps_in(pid, call))
        time.sleep(0.2)
        change(recording.trace, *after)
        return recording, shell, threads
    return run


def let_in(trace, event, pid, program):
    """The one event of this call: that began before, with its stack."""
    (call,) = [c for c in trace.of(event, pid=pid) if c["errno"] != "ECHILD"]
    assert call["start_exact"] is False and call["walk"] == "complete" and call["way"] == "user"
    assert [f["object"].rsplit("/")[-1] for f in call["stack"]][::len(call["stack"]) - 1] == ["libc.so.6", program]
    assert (call["dur"] or call["so_far"]) >= 0.1e9
    return call


@pytest.mark.parametrize("which", SETTINGS)
def test_calls_that_began_before_are_blocked(begun, read, spoor, which):
    recording, shell, threads = begun(which, "read line; sleep 1000; :", WAIT4, NANOSLEEP)
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    assert let_in(trace, "wait4", shell.pid, "dash")["unfinished"] == "before"
    assert let_in(trace, "clock_nanosleep", threads[1], "sleep")["unfinished"] == "before"
    blocked = spoor("report", "--blocked", "-f", "json", recording.trace).stdout.splitlines()[:-1]
    assert sorted((e["pid"], e["event"]) for e in map(json.loads, blocked)) == sorted(
        zip(threads, ("wait4", "clock_nanosleep")))
    os.kill(threads[1], signal.SIGKILL)


@pytest.mark.parametrize("which", SETTINGS)
def test_calls_that_began_before_end(begun, read, which):
    recording, shell, threads = begun(which, "read line; sleep 1000; exit 3", WAIT4, NANOSLEEP)
    os.kill(threads[1], signal.SIGTERM)
    assert recording.wait() == 0
    trace = read(recording.trace).whole()
    assert let_in(trace, "wait4", shell.pid, "dash")["ret"] == threads[1]
    assert let_in(trace, "clock_nanosleep", threads[1], "sleep")["errno"] == "ERESTART_RESTARTBLOCK"
    assert trace.summary["began_before"] == 2 + (which == "paused")
    assert [c["event"] for c in trace.calls if "unfinished" in c] == ["exit_group"]


@pytest.mark.parametrize("which", SETTINGS)
def test_what_a_call_that_began_before_points_to(begun, read, tmp_path, which):
    recording, shell, threads = begun(which, "read line; read line <fifo; :", OPENAT)
    (tmp_path / "fifo").write_text("line\n")
    assert recording.wait() == 0
    call = let_in(read(recording.trace).whole(), "openat", shell.pid, "dash")
    assert call["args"]["filename"] == "fifo" and call["ret_fd"]["path"] == f"{tmp_path}/fifo"


def test_calls(record, change, start, program, read):
    recording = record("-p", start(program, "ticks").pid)
    time.sleep(0.2)
    change(recording.trace, "e=clock_nanosleep")
    changed = time.time()
    time.sleep(0.2)
    assert recording.stop() == 0
    calls = read(recording.trace).whole().calls
    assert {c["event"] for c in calls} == {"getppid", "clock_nanosleep"}
    assert {c["event"] for c in calls if float(c["ts"]) > changed + 0.02} == {"clock_nanosleep"}
    assert [text for _, text in configs(recording.trace)] == ["e=clock_nanosleep"]


def test_refused(ticking, change, spoor, tmp_path):
    """What is wrong changes nothing, and says why in one line. What no recording would take is misuse."""
    recording = ticking()
    for wrong in ("mode=most", "mode=", "budget=0", "budget=513", "budget=-1", "budget=2x", "e=no_such_call", "pauses",
                  "colour=red", "e=%nosuch", "e=!all"):
        for trace in recording.trace, tmp_path / "nowhere.spoor":
            done = spoor("record", "--set", "pause", "--set", wrong, trace)
            assert done.returncode == 2 and done.stdout == "", done
            assert done.stderr.startswith("spoor record: ") and "nowhere" not in done.stderr, done
    for wrong in ("snapshot", "mode=custom", "e=%file=custom", "e=all=custom"):
        said = change(recording.trace, wrong, refused=True)
        assert "no recording" not in said and "did not answer" not in said, (wrong, said)
    assert recording.stop() == 0
    assert configs(recording.trace) == []
    assert "no recording" in change(recording.trace, "mode=app", refused=True)
    assert "No such file" in change(tmp_path / "nowhere.spoor", "mode=app", refused=True)
    for misused in (("mode=app",), ("", recording.trace)):
        assert spoor("record", "--set", *misused).returncode == 2


@contextlib.contextmanager
def stranger_says(recording, times):
    """Another user, who may give no commands, with descriptors that take long to be closed. The recorder is stopped."""
    st = recording.trace.stat()
    recording.process.send_signal(signal.SIGSTOP)
    with contextlib.ExitStack() as stack:
        for _ in range(times):
            fd, end = map(stack.enter_context, lingering())
            s = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            os.seteuid(12345)
            try:
                s.connect(f"\0spoor-record-{st.st_dev:x}-{st.st_ino:x}")
            finally:
                os.seteuid(0)
            socket.send_fds(s, [b"mode=app"], [fd.fileno()])
            fd.close()
        yield


def test_stranger_whose_socket_lingers(ticking, change):
    """What he has sent is closed unread: nobody waits for that."""
    recording = ticking()
    with stranger_says(recording, 1):
        recording.process.send_signal(signal.SIGCONT)
        change(recording.trace, "mode=app")
    assert recording.stop() == 0


def test_refused_to_strangers(ticking, build):
    """They are told why each time, whether the answer or their command comes first."""
    recording = ticking()
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
              "--ambient-caps=+dac_read_search"]
    for _ in range(10):
        done = subprocess.run([*nobody, build / "spoor", "record", "--set", "pause", recording.trace],
                              capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stderr) == (
            1, "spoor record: only the user who records and root may give commands\n")
    assert recording.stop() == 0
    assert configs(recording.trace) == []


def test_strangers_whose_sockets_linger_at_the_end(ticking):
    """One is let in, the others are not any more."""
    recording = ticking()
    with stranger_says(recording, 4):
        recording.process.send_signal(signal.SIGINT)
        recording.process.send_signal(signal.SIGCONT)
        assert recording.wait(60) == 0


def test_stranger_in_the_recordings_place(spoor, tmp_path):
    """Who takes its name gets no commands, and is not taken for it."""
    (tmp_path / "t.spoor").mkdir()
    st = (tmp_path / "t.spoor").stat()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.bind(f"\0spoor-record-{st.st_dev:x}-{st.st_ino:x}")
        os.seteuid(12345)
        try:
            s.listen()
        finally:
            os.seteuid(0)
        run = spoor("record", "--set", "pause", "t.spoor")
        assert run.returncode == 1 and "another user than the trace's owner" in run.stderr, run.stderr


def test_custom_with_a_scope(ticking, change, read):
    """Where the recording has limits to take from, a setting may change to them."""
    recording = ticking("--scope", "main=1")
    change(recording.trace, "mode=app", "mode=custom", "e=getppid=custom")
    time.sleep(0.3)
    assert recording.stop() == 0
    assert functions(read(recording.trace).of("getppid")[-1]) == ["inner"]


def test_modes_of_calls(record, start, program, change, read):
    """Each call is walked as is said of it, the others as the recording is; and as is said later on."""
    recording = record("-p", start(program, "ticks").pid, "-m", "app-all", "-e", "getppid=all",
                       "-e", "clock_nanosleep=app")
    time.sleep(0.6)
    change(recording.trace, "e=getppid=none,clock_nanosleep")
    time.sleep(0.6)
    assert recording.stop() == 0
    trace = read(recording.trace)
    parents, sleeps = (trace.of(call)[1:] for call in ("getppid", "clock_nanosleep"))  # the first may be under way
    before = [c for c in parents if c["stack"]]
    assert len(before) > 20 and len(parents) - len(before) > 20
    assert not any(c["stack"] for c in parents[len(before):])
    for c in before:
        assert functions(c)[:3] == ["syscall", "inner", "outer"] and {"main", "__libc_start_main"} & set(functions(c))
    changed = next(i for i, c in enumerate(sleeps) if len(frames(c)) > 1)
    assert changed > 20 and len(sleeps) - changed > 20
    for i, c in enumerate(sleeps):
        assert {f["object"] for f in c["stack"]} == {str(program)} and len(frames(c)) == (1 if i < changed else 2)


def test_all_settings_or_none(ticking, change, spoor):
    recording = ticking()
    for wrong, why in ("budget=nine", "budget=nine"), ("e=!all", "leaves no system call"):
        done = spoor("record", *[w for s in ("mode=none", "pause", wrong) for w in ("--set", s)], recording.trace)
        assert done.returncode == 2 and why in done.stderr, done
    assert "without --scope" in change(recording.trace, "mode=none", "pause", "mode=custom", refused=True)
    assert "without --scope" in change(recording.trace, "budget=7", "e=all=custom", refused=True)
    change(recording.trace, "budget=3", "mode=app")
    assert recording.stop() == 0
    assert [text for _, text in configs(recording.trace)][-2:] == ["budget=3", "mode=app"]
    assert not any("pause" in text or "none" in text or "7" in text for _, text in configs(recording.trace))


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


def test_snapshot(ticking, read, change, tmp_path):
    recording = ticking("--snapshot-on", "SIGUSR2")
    for number in (1, 2):
        let_it_tick(recording.ticker, 400)
        if number == 1:
            recording.process.send_signal(signal.SIGUSR2)
        else:
            change(recording.trace, "snapshot")
        path = tmp_path / f"t.snapshot-{number}.spoor"
        wait_for(lambda: f"snapshot in {path.name}" in recording.said())
        assert recording.process.poll() is None
        kept = read(path, ended=False)
        assert kept.count() > 50 and not kept.summary["damages"]
        assert all("outer" in functions(c) for c in kept.of("getppid"))
    assert recording.stop() == 0
    assert read(recording.trace).count() > kept.count()
    assert read(path, ended=False).count() == kept.count()


def test_snapshot_asked_for_while_one_is_taken(ticking, spoor, change, tmp_path):
    """What led to the last request is in a snapshot, too."""
    recording = ticking("--snapshot-on", "SIGUSR2")
    for _ in range(7):
        asked = time.time()
        let_it_tick(recording.ticker, 1)
        change(recording.trace, "snapshot")

    def has_all():
        newest = f"t.snapshot-{recording.said().count('snapshot in')}.spoor"
        run = spoor("report", "-f", "json", tmp_path / newest)
        return run.returncode == 0 and float(json.loads(run.stdout.splitlines()[-2])["ts"]) >= asked
    wait_for(has_all, every=0.1)
    assert recording.stop() == 0


def dropped(trace):
    """How many segments were."""
    (part,) = json.loads((trace / "manifest").read_text())["hosts"][0]["parts"]
    return part["dropped"]["segments"]


def test_hangs_of_long_ago(record, start, program, spoor):
    """One of before, and one that began in a segment that was dropped long ago: in every snapshot, and in what is left
    if the recorder is killed."""
    sleeper, cat = start("sleep", "1000"), start("cat")
    wait_for(lambda: sleeps_in(sleeper.pid, NANOSLEEP) and sleeps_in(cat.pid, 0))
    recording = record("-p", sleeper.pid, "-p", cat.pid, "-p", start(program, "busy").pid, "-m", "all", "-S", "64",
                       "--snapshot-on", "SIGUSR2", "--max-size", "16M")
    tell(cat)
    wait_for(lambda: dropped(recording.trace) > 12, 60)
    recording.process.send_signal(signal.SIGUSR2)
    wait_for(lambda: "snapshot in t.snapshot-1.spoor" in recording.said())
    wait_for(lambda: dropped(recording.trace) > 24, 60)
    recording.kill()
    for trace in ("t.snapshot-1.spoor", "t.spoor"):
        run = spoor("report", "-f", "json", "-p", f"{sleeper.pid},{cat.pid}", trace)
        slept, hung = sorted(map(json.loads, run.stdout.splitlines()[:-1]), key=lambda e: e["event"])
        assert (slept["event"], slept["unfinished"], slept["comm"]) == ("clock_nanosleep", "before", "sleep")
        assert (hung["event"], hung["unfinished"], hung["start_exact"]) == ("read", "sleep", True)
        assert hung["args"]["fd"]["path"].startswith("pipe:") and hung["so_far"] > 0.1e9
        for call in (slept, hung):
            assert call["walk"] == "complete" and len(call["stack"]) > 3


def test_snapshot_in_a_directory_of_somebody_else(record, start, program, tmp_path):
    """As root who records in a user's home: what has given up its capabilities could not write there."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    os.chown(home, 65534, 65534)
    recording = record("-p", start(program, "ticks").pid, "--snapshot-on", "SIGUSR2", trace="home/t.spoor")
    recording.process.send_signal(signal.SIGUSR2)
    wait_for(lambda: "snapshot" in recording.said())
    assert "snapshot in home/t.snapshot-1.spoor\n" in recording.said() and recording.stop() == 0


def test_snapshot_beside_a_trace_with_a_slash(record, start, program, tmp_path):
    recording = record("-p", start(program, "ticks").pid, "--snapshot-on", "SIGUSR2", trace="t.spoor//")
    recording.process.send_signal(signal.SIGUSR2)
    wait_for(lambda: "snapshot in t.snapshot-1.spoor\n" in recording.said())
    assert recording.stop() == 0 and " in t.spoor; " in recording.said()
    assert {p.name for p in tmp_path.glob("*.spoor")} == {"t.spoor", "t.snapshot-1.spoor"}
    assert not list(recording.trace.glob(".*"))


def test_payload(spoor, program, read, tmp_path):
    text = "0123456789abcdefghijklmnopqrstuvwxyz"
    for options, kept in ((("-s", "16"), text[:16]), (("-s", "100"), text), ((), None)):
        name = f"t{len(kept or '')}.spoor"
        assert spoor("record", *options, "-e", "read,write", "-o", name, "--", program, "moves").returncode == 0
        trace = read(tmp_path / name)
        calls = [c for c in trace.whole().calls if c["ret"] == 36]
        assert [c["event"] for c in calls] == ["write", "read"]
        for call in calls:
            buf = call["args"]["buf"]
            assert (buf.get("bytes") if isinstance(buf, dict) else None) == kept
            assert bool(call.get("truncated")) == (kept == text[:16])


def test_row_memory(record, start, program, read):
    """libc's rows do not fit: said once, and a walk that comes there ends."""
    recording = record("-p", start(program, "ticks").pid, "-m", "all", "-S", "32", "--row-memory", "64k")
    time.sleep(0.7)
    assert recording.stop() == 0
    said = re.findall(r"the unwind rows of \d+ objects? did not fit: .* give more --row-memory", recording.said())
    assert len(said) == recording.said().count("did not fit") == 1
    trace = read(recording.trace).whole(surprised=1)
    assert trace.summary["walks"]["no rows"] > 100


def test_unwind(record, program, read):
    """By frame pointers libc's syscall() hides who called it; a scan finds at least that one."""
    found = {}
    for way in ("cfi", "fp", "scan"):
        recording = record("-e", "getppid", "-m", "all", "-S", "64", "--unwind", way, "--", program,
                           trace=f"{way}.spoor", start=False)
        assert recording.wait() == 0
        found[way] = read(recording.trace).whole(surprised=way != "cfi").of("getppid")
        assert len(found[way]) == 50
    cfi = found["cfi"][-1]
    assert functions(cfi)[:4] == ["syscall", "inner", "outer", "main"] and cfi["walk"] == "complete"
    site = [(f["object"], f["offset"]) for f in cfi["stack"] if f["function"] == "inner"][0]
    assert all(site in frames(c) for c in found["scan"])
    assert all("outer" in functions(c) for c in found["fp"])


def test_interrupted(record, program, read, spoor):
    """Beneath a signal handler lies who was interrupted, here at a function's first byte, and the trampoline's name."""
    recording = record("-e", "getppid", "-m", "all", "-S", "64", "--", program, "signal", start=False)
    assert recording.wait() == 0
    calls = read(recording.trace).whole().of("getppid")
    assert len(calls) == 20
    for call in calls:
        assert functions(call)[:7] == ["syscall", "inner", "on_alarm", "again", "__restore_rt", "spinning", "main"]
    listing = spoor("report", "--events", "-k", recording.trace).stdout
    assert listing.count(" spinning+0 ") == 20 and "before" not in listing
