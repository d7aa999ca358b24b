# SPDX-License-Identifier: GPL-2.0-or-later
"""A hung program: attached to after the fact, recorded from the start, and when something is killed meanwhile."""
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from processes import children, ready, sleeps_in, state, tell, wait_for

WORKER = ["thread_mutex_lock", "process_socket", "worker_thread"]
LISTENER = ["thread_cond_wait", "queue_info_wait_for_idler", "listener_thread"]


@pytest.fixture
def blocked(spoor):
    """{functions of the application, innermost first: event} of the threads that `report --blocked` shows in futex."""
    def show(trace, exact=None):
        text = spoor("report", "--blocked", trace)
        print(text.stdout)
        assert text.returncode == 0 and text.stdout.count(" in futex(") >= 2
        if exact is not None:
            assert all(("at least" in line) != exact for line in text.stdout.splitlines() if " in futex(" in line)
        lines = spoor("report", "--blocked", "-f", "json", trace).stdout.split("\n")[:-2]
        found = {}
        for e in map(json.loads, lines):
            if e["event"] == "futex":
                names = [f["function"] for f in e["stack"] if f["object"] and f["object"].endswith("/deadlock")]
                found[tuple(names)] = e
        return found
    return show


def check(found, pid, before, least):
    """Both threads with their stacks, in futex, since `least` seconds."""
    for names in (WORKER, LISTENER):
        assert tuple(names) in found, list(found)
        e = found[tuple(names)]
        assert e["pid"] == pid and e["tid"] != pid and e["args"]["uaddr"].startswith("0x")
        assert e["walk"] == "complete"
        assert (e["unfinished"] == "before") == before
        assert least * 1e9 <= e["so_far"] < 60e9
    wait, lock = found[tuple(LISTENER)], found[tuple(WORKER)]
    assert wait["args"]["uaddr"] != lock["args"]["uaddr"]


def test_without_a_frame_of_the_application(record, spoor, start):
    """That is said where its stack would be."""
    idle = start("sleep", "60")
    wait_for(lambda: sleeps_in(idle.pid, 230))
    recording = record("--app", "another", "-p", idle.pid)
    assert recording.stop() == 0
    said = spoor("report", "--blocked", recording.trace).stdout
    assert re.search(r" in clock_nanosleep\(.*\n      \[no application frame\]\n", said), said


def test_stopped_behind_a_call(record, spoor, start):
    """Its call has ended, though its number is still there; who is stopped in one that begins again is in it."""
    busy, idle = start("cat", "/dev/zero", stdout=subprocess.DEVNULL), start("sleep", "60")
    wait_for(lambda: sleeps_in(idle.pid, 230))
    for process in busy, idle:
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "T")
    recording = record("-p", busy.pid, "-p", idle.pid)
    assert recording.stop() == 0
    said = spoor("report", "--blocked", recording.trace).stdout
    assert "clock_nanosleep(" in said and not re.search(rf"^\S*\[{busy.pid}\]", said, re.M), said


def target_of(recording):
    """Its command: Spoor has helpers as well."""
    (pid,) = [p for p in children(recording.pid) if Path(f"/proc/{p}/comm").read_text() == "deadlock\n"]
    return pid


@pytest.fixture
def hung(start, compiled):
    process = start(compiled("deadlock.c"))
    ready(process, b"hung")
    return process


def test_attached_after_the_fact(record, read, spoor, blocked, hung):
    """Each call that began before is marked; it has lasted at least since the thread last ran, also in flame graphs."""
    time.sleep(0.5)
    recording = record("-p", hung.pid, "-m", "all", "-S", "16")
    time.sleep(0.3)
    assert recording.stop() == 0 and hung.poll() is None
    check(blocked(recording.trace), hung.pid, True, 0.7)
    read(recording.trace).whole()
    *calls, _ = map(json.loads, spoor("report", "-f", "json", recording.trace).stdout.splitlines())
    folded = spoor("report", "--folded=time", recording.trace).stdout.splitlines()
    lasted = sum(c.get("so_far") or c["dur"] or 0 for c in calls)
    assert sum(int(line.rsplit(None, 1)[1]) for line in folded) == lasted


def test_program_that_is_killed(record, read, spoor, blocked, hung):
    """By whoever finds that it hangs: the kernel ends its calls then, and what they waited for is told all the same."""
    recording = record("-p", hung.pid)
    time.sleep(0.3)
    hung.kill()
    assert recording.wait() == 0
    found = blocked(recording.trace)
    assert {e["unfinished"] for e in found.values()} == {"killed"}
    check(found, hung.pid, False, 0.2)
    summary = read(recording.trace).summary
    assert summary["unfinished"] == 0 and not summary["discarded"]
    said = spoor("report", "--blocked", recording.trace).stdout
    assert said.count(", until it was killed, in futex(") == len(found)
    assert re.search(r"^0 calls were in flight at the end, and \d were until their threads were killed\.$", said, re.M)


JOINERS = r"""
#include <pthread.h>
#include <unistd.h>
static void *joins(void *thread)
{
	if (thread)
		pthread_join((pthread_t)thread, 0);
	pause();
	return 0;
}
int main(void)
{
	pthread_t thread = 0;

	for (int i = 0; i < 12; i++)
		pthread_create(&thread, 0, joins, (void *)thread);
	joins((void *)thread);
}
"""


def test_killed_with_whom_they_wait_for(record, read, spoor, start, tmp_path):
    """Whose end one waits for may end before it of the same signal: the call succeeds then, though nobody sees it."""
    (tmp_path / "c.c").write_text(JOINERS)
    subprocess.run(["gcc", "-w", "-o", "c", "c.c", "-lpthread"], cwd=tmp_path, check=True)
    ended = Counter()
    for i in range(10):
        hung = start(tmp_path / "c")
        threads = Path(f"/proc/{hung.pid}/task")
        wait_for(lambda: [sum(sleeps_in(t.name, nr) for t in threads.iterdir()) for nr in (34, 202)] == [1, 12])
        tids = {int(t.name) for t in threads.iterdir()}
        recording = record("-p", hung.pid, trace=f"{i}.spoor")
        hung.kill()
        assert recording.wait() == 0
        *lines, _ = spoor("report", "--blocked", "-f", "json", recording.trace).stdout.splitlines()
        found = {e["tid"]: e for e in map(json.loads, lines)}
        assert found.keys() == tids and {e["unfinished"] for e in found.values()} == {"killed"}
        trace = read(recording.trace).whole()
        assert len(trace.calls) == 13 and trace.summary["unfinished"] == 0
        ended.update(e["errno"] for e in trace.calls)
    assert ended[None], "none was woken by another's end"


def test_interrupted_and_gone_on(record, spoor, start, tmp_path):
    """A call that a signal ended is none of those if its thread did anything after it."""
    (tmp_path / "p.py").write_text("import os, signal\n"
                                   "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
                                   "os.write(1, b'ready\\n')\nsignal.pause()\nos.write(1, b'gone on\\n')\n"
                                   "while True:\n    pass\n")
    process = start("python3", tmp_path / "p.py", stdout=subprocess.PIPE)
    ready(process, b"ready")
    wait_for(lambda: sleeps_in(process.pid, 34))
    recording = record("-p", process.pid)
    process.send_signal(signal.SIGUSR1)
    ready(process, b"gone on")
    process.kill()
    assert recording.wait() == 0
    said = spoor("report", "--blocked", recording.trace).stdout
    assert "pause(" not in said and "0 calls were in flight at the end.\n" in said, said


LONG = "a-directory-so-long-that-a-path-in-it-has-more-than-sixty-four-bytes"
WAITING = f"""
import os, socket, sys, threading
def reads(path):
    os.close(os.open(path, os.O_RDONLY))
def links(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind("{LONG}/socket")
listener.listen(0)
first = socket.socket(socket.AF_UNIX)
first.connect("{LONG}/socket")
os.mkfifo("fifo"), os.mkfifo("{LONG}/fifo")
for f, path in ((reads, "fifo"), (reads, "{LONG}/fifo"), (links, "{LONG}/socket")):
    threading.Thread(target=f, args=(path,)).start()
sys.stdin.read(1)
for path in ("fifo", "{LONG}/fifo"):
    os.close(os.open(path, os.O_WRONLY))
listener.accept(), listener.accept()
"""


def test_what_a_hung_call_points_to(record, read, start, tmp_path):
    """A path and an address are read of the sleeping thread, so that it is known what it waits for; once the calls have
    ended they say the same."""
    (tmp_path / LONG).mkdir()
    target = start("/usr/bin/python3", "-c", WAITING)
    calls = {257: 2, 42: 1, 0: 1}  # openat, connect, read
    wait_for(lambda: Counter(Path(f"/proc/{target.pid}/task/{t.name}/syscall").read_text().split()[0] for t in
                             Path(f"/proc/{target.pid}/task").iterdir()) == {str(k): n for k, n in calls.items()})
    said = Counter({("openat", "fifo"): 1, ("openat", f"{LONG}/fifo"): 1, ("connect", f"{LONG}/socket"): 1})

    def points_to(trace, **of):
        return Counter((c["event"], c["args"].get("filename") or c["args"]["uservaddr"]["path"]) for c in trace.calls
                       if c["event"] in ("openat", "connect") and all(c.get(k) == v for k, v in of.items()))
    recording = record("-p", target.pid)
    assert recording.stop() == 0
    assert points_to(read(recording.trace), unfinished="before") == said
    recording = record("-p", target.pid, trace="u.spoor")
    tell(target, b"g")
    assert recording.wait() == 0
    assert points_to(read(recording.trace), start_exact=False) == said


WAITERS = """
import os, signal, subprocess, sys, threading
child = subprocess.Popen(["sleep", "60"]).pid
group = subprocess.Popen(["sleep", "60"], process_group=0).pid
fd = os.pidfd_open(child)
for wait in (lambda: os.waitid(os.P_PID, child, os.WEXITED), lambda: os.waitid(os.P_PGID, group, os.WEXITED),
             lambda: os.waitid(os.P_ALL, 0, os.WEXITED), lambda: os.waitid(os.P_PIDFD, fd, os.WEXITED),
             lambda: os.waitpid(child, 0), lambda: os.waitpid(-1, 0), lambda: os.waitpid(0, 0),
             lambda: os.waitpid(-group, 0)):
    threading.Thread(target=wait, daemon=True).start()
print(child, group, fd, flush=True)
sys.stdin.read(1)
os.kill(child, signal.SIGKILL), os.kill(group, signal.SIGKILL)
os._exit(0)
"""


def test_whose_end_is_waited_for(record, spoor, start):
    target = start("/usr/bin/python3", "-c", WAITERS)
    child, group, fd = map(int, target.stdout.readline().split())
    waits = lambda: Counter(t.joinpath("syscall").read_text().split()[0]
                            for t in Path(f"/proc/{target.pid}/task").iterdir())
    wait_for(lambda: waits() == {"247": 4, "61": 4, "0": 1})
    recording = record("-p", target.pid)
    assert recording.stop() == 0
    said = re.findall(r" in (wait\w+)\(.*\n    on (.*)", spoor("report", "--blocked", recording.trace).stdout)
    both = [f"process {child}", f"a child of process group {group}", "any child"]
    assert sorted(said) == sorted([("waitid", s) for s in both + [f"the process of descriptor {fd}"]] +
                                  [("wait4", s) for s in both + ["a child of its own process group"]])
    tell(target, b"g")
    assert target.wait(20) == 0


@pytest.mark.parametrize("copy", [False, True])
def test_buffer_that_is_not_there_yet(record, read, start, monkeypatch, copy):
    """What a call will write is not said to be unreadable where it is met; with -s it is kept when the call ends."""
    if copy:
        monkeypatch.setenv("SPOOR_USER_MEMORY", "copy")
    for n, payload in enumerate(((), ("-s", "32"))):
        target = start("head", "-c", "5")
        wait_for(lambda: sleeps_in(target.pid, 0))
        recording = record("-p", target.pid, *payload, trace=f"{n}.spoor")
        met = record("-p", target.pid, *payload, trace=f"{n}-met.spoor")
        assert met.stop() == 0
        (call,) = read(met.trace).of("read", unfinished="before")
        assert "unreadable" not in call
        tell(target, b"prime")
        assert target.wait(20) == 0 and recording.wait() == 0
        (call,) = read(recording.trace).of("read", start_exact=False)
        assert "unreadable" not in call and "read_at_exit" not in call and call["ret"] == 5
        assert not payload or call["args"]["buf"]["bytes"] == "prime"


LEFT = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *sleeps(void *code)
{
	((void (*)(void))code)();
	return NULL;
}
int main(void)
{
	static const unsigned char pauses[] = { 0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xc3 };
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t;
	memcpy(code, pauses, sizeof(pauses));
	pthread_create(&t, NULL, sleeps, code);
	puts("begun");
	fflush(stdout);
	if (getchar() == EOF || munmap(code, 4096))
		return 1;
	puts("gone");
	fflush(stdout);
	return getchar() == EOF;
}
"""


def test_code_that_is_gone(record, read, start, tmp_path):
    """What a thread sleeps in is looked at a little after it was met: what mapped its code may be gone by then, as when
    an execve was under way. Its stack says that, not that the code had no unwind rows."""
    (tmp_path / "left.c").write_text(LEFT)
    subprocess.run(["gcc", "-pthread", "-o", "left", "left.c"], cwd=tmp_path, check=True, timeout=60)
    target = ready(start(tmp_path / "left"), b"begun")
    wait_for(lambda: any(sleeps_in(target.pid, 34, t.name) for t in Path(f"/proc/{target.pid}/task").iterdir()))
    tell(target)
    ready(target, b"gone")
    recording = record("-p", target.pid, "-m", "all")
    assert recording.stop() == 0
    (call,) = read(recording.trace).of("pause")
    assert (call["walk"], call["stack"], call["unfinished"]) == ("object gone", [], "before")


WORKS_FIRST = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { PART = 64 << 20, PARTS = 24 };
int main(void)
{
	int memory = memfd_create("part", 0), fault = syscall(SYS_userfaultfd, O_CLOEXEC);
	const size_t all = (size_t)PART * PARTS;
	char *at = mmap(NULL, all + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register end = { { (unsigned long)at + all, 4096 }, UFFDIO_REGISTER_MODE_MISSING };
	if (ftruncate(memory, PART) || ioctl(fault, UFFDIO_API, &api) || ioctl(fault, UFFDIO_REGISTER, &end))
		return 1;
	for (int i = 0; i < PARTS; i++)
		mmap(at + (size_t)PART * i, PART, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0);
	puts("begun");
	fflush(stdout);
	return read(open("/dev/urandom", O_RDONLY), at, all + 4096) > 0;
}
"""


def test_call_that_worked_before_it_hung(record, read, start, tmp_path):
    """At attach the thread is at work in the call, for seconds; then it waits for a page that never comes."""
    (tmp_path / "works.c").write_text(WORKS_FIRST)
    subprocess.run(["gcc", "-O1", "-o", "works", "works.c"], cwd=tmp_path, check=True, timeout=60)
    target = ready(start(tmp_path / "works"), b"begun")
    recording = record("-p", target.pid, "-m", "all", "-S", "64")
    wait_for(lambda: sleeps_in(target.pid, 0), seconds=300)  # 1.6 GB of random bytes, on any machine
    assert recording.stop() == 0
    (call,) = read(recording.trace).of("read")
    assert call["unfinished"] == "before" and call["args"]["fd"]["path"] == "/dev/urandom"
    assert call["walk"] == "complete" and "main" in [f["function"] for f in call["stack"]]


WAITS_FOR_MANY = """
import ctypes, sys
class Waiter(ctypes.Structure):
    _fields_ = [("val", ctypes.c_uint64), ("uaddr", ctypes.c_uint64), ("flags", ctypes.c_uint64)]
words = (ctypes.c_uint32 * 3)()
waiters = (Waiter * 3)(*[(0, ctypes.addressof(words) + 4 * i, 2) for i in range(3)])
print(hex(ctypes.addressof(waiters)), flush=True)
ctypes.CDLL(None).syscall(449, waiters, 3, 0, None, 0)
"""


def test_many_futexes_at_once(spoor, record, start):
    """What is waited for is not at the address of their list."""
    target = start("/usr/bin/python3", "-c", WAITS_FOR_MANY)
    listed = target.stdout.readline().decode().strip()
    wait_for(lambda: sleeps_in(target.pid, 449))
    recording = record("-p", target.pid)
    assert recording.stop() == 0
    text = spoor("report", "--blocked", recording.trace).stdout
    assert f"    on 3 futexes, listed at {listed}\n" in text and "on futex" not in text


def test_its_end_is_seen(spoor, record, read, start, actor):
    """A call that began before and ends keeps the mark: it took at least the time that is shown."""
    target = start(actor(), "serve")
    ready(target)
    time.sleep(0.3)
    recording = record("-p", target.pid)
    tell(target, b"g")
    assert recording.wait() == 0
    trace = read(recording.trace).whole()
    marked = [e for e in trace.calls if e.get("start_exact") is False]
    assert {(e["event"], e["tid"] == target.pid) for e in marked} == {("read", True), ("futex", False)}
    assert len(marked) == 5 and len({e["tid"] for e in marked}) == 5 and "unfinished" not in str(marked)
    assert all(e["dur"] >= 0.3e9 for e in marked) and trace.summary["began_before"] == 5
    events = spoor("report", "--events", recording.trace).stdout
    assert len(re.findall(r"read\(0.*\) = 1 <began before, at least \d+\.\d{6}>", events)) == 1
    assert events.count("<began before") == 5
    assert "Began before they were recorded: 5 of these calls" in spoor("report", recording.trace).stdout


def test_attached_with_defaults_by_name(record, blocked, hung, spoor):
    recording = record("-n", "deadlock")
    assert recording.stop() == 0
    check(blocked(recording.trace), hung.pid, True, 0)
    out = spoor("report", "--blocked", recording.trace).stdout
    assert len(re.findall(r"deadlock.c:\d+", out)) >= 6


@pytest.mark.parametrize("stopped", [False, True])
def test_recorded_from_the_start(record, read, blocked, compiled, stopped):
    """Also of one that is stopped at the end, as by a debugger: that ended its calls, but they are to begin again."""
    recording = record("-m", "all", "-S", "16", "--", compiled("deadlock.c"), stdout=subprocess.PIPE)
    ready(recording.process, b"hung")
    time.sleep(0.5)
    pid = target_of(recording)
    if stopped:
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: {state(pid, int(t.name)) for t in Path(f"/proc/{pid}/task").iterdir()} == {"T"})
        time.sleep(0.2)
    assert recording.stop() == 0
    check(blocked(recording.trace, exact=True), pid, False, 0.7 if stopped else 0.5)
    trace = read(recording.trace).whole()
    assert stopped or all(e["start_exact"] for e in trace.of("futex") if "unfinished" in e)
    subprocess.run(["kill", "-9", str(pid)], check=True)


@pytest.mark.parametrize("attach", [True, False])
def test_target_is_killed_later(record, read, start, compiled, attach):
    """SIGKILL ends the calls; that they hung, and where, was written when they went to sleep."""
    target = start(compiled("deadlock.c"), *([] if attach else ["wait"]))
    if attach:
        ready(target, b"hung")
    recording = record("-p", target.pid, "-m", "all", "-S", "16")
    if not attach:
        tell(target)
        ready(target, b"hung")
    target.kill()
    assert recording.wait() == 0
    trace = read(recording.trace).whole()
    stacks = [[f["function"] for f in e["stack"] if f["object"] and f["object"].endswith("/deadlock")]
              for e in trace.of("futex") if e.get("unfinished") or e["errno"] == "ERESTARTSYS"]
    assert WORKER in stacks and LISTENER in stacks


@pytest.mark.parametrize("attach", [True, False])
def test_spoor_is_killed(record, read, blocked, start, compiled, nothing_attached, attach):
    """The trace of a killed recording reads and shows what hung; the target does not notice."""
    target = start(compiled("deadlock.c"), *([] if attach else ["wait"]))
    if attach:
        ready(target, b"hung")
    recording = record("-p", target.pid, "-m", "all", "-S", "16")
    if not attach:
        tell(target)
        ready(target, b"hung")
    recording.kill()
    check(blocked(recording.trace, exact=False), target.pid, attach, 0)
    assert read(recording.trace, ended=False).summary["ended"] is False
    nothing_attached(recording)
    assert target.poll() is None


FATAL_EXEC = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *execute(void *p)
{
	usleep(20000);
	execl("./killer", "killer", (char *)0);
	return p;
}
/* A program whose first segment cannot be mapped: who executes it is killed when the old image is gone. */
int main(void)
{
	char *elf = calloc(1, 4096), *ph;
	int fd = open("/bin/true", O_RDONLY);
	pthread_t t;

	if (read(fd, elf, 4096) != 4096)
		return 1;
	ph = elf + *(long *)(elf + 32);
	for (int i = 0; i < *(short *)(elf + 56); i++, ph += 56)
		if (*(int *)ph == 1) {
			*(long *)(ph + 16) = 0x7ffffffff000;
			*(long *)(ph + 40) = 0x10000;
		}
	*(short *)(elf + 16) = 2;
	fd = open("killer", O_CREAT | O_TRUNC | O_RDWR, 0755);
	if (write(fd, elf, 4096) != 4096)
		return 1;
	close(fd);
	pthread_create(&t, 0, execute, 0);
	pause();
}
"""


def test_thread_that_execve_kills(spoor, read, tmp_path):
    """Its call began under another tid, and ended under its process's: it is one."""
    (tmp_path / "c.c").write_text(FATAL_EXEC)
    subprocess.run(["gcc", "-w", "-o", "c", "c.c", "-lpthread"], cwd=tmp_path, check=True)
    assert spoor("record", "-m", "none", "-o", "t.spoor", "--", "./c").returncode == 128 + signal.SIGSEGV
    assert len(read(tmp_path / "t.spoor").of("execve")) == 2
    assert "killer" not in spoor("report", "--blocked", "t.spoor").stdout


HELD = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
static int fds[2];
static void *reads(void *p)
{
	char c;
	read(fds[0], &c, 1);
	return p;
}
/* A debugger that holds a thread on the way to its end, out of a call: by a signal, or an execve in another one. */
int main(int argc, char **argv)
{
	int executes = argc > 1, status;
	pthread_t t;
	pid_t pid, held;

	pipe(fds);
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		if (!executes)
			reads(NULL);
		pthread_create(&t, NULL, reads, NULL);
		usleep(200000);
		execl("/bin/true", "true", (char *)0);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXIT);
	ptrace(PTRACE_CONT, pid, 0, 0);
	if (!executes) {
		usleep(200000);
		kill(pid, SIGTERM);
	}
	while ((held = waitpid(-1, &status, __WALL)) > 0 && status >> 8 != (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
		int s = WSTOPSIG(status);

		ptrace(PTRACE_CONT, held, 0, s == SIGTRAP || s == SIGSTOP ? 0 : s);
	}
	printf("%d\n", pid);
	fflush(stdout);
	read(0, &status, 1);
	kill(pid, SIGKILL);
	return 0;
}
"""


@pytest.mark.parametrize("attach", [True, False])
def test_held_by_a_debugger_while_it_dies(record, spoor, start, tmp_path, attach):
    """Its call ends, and does not begin again."""
    (tmp_path / "held.c").write_text(HELD)
    subprocess.run(["gcc", "-w", "-o", "held", "held.c", "-lpthread"], cwd=tmp_path, check=True)
    if attach:
        target = start(tmp_path / "held")
        recording = record("-p", target.stdout.readline().decode().strip())
    else:
        recording = record("--", tmp_path / "held", "executes", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        target = recording.process
        target.stdout.readline()
    assert recording.stop() == 0
    tell(target)
    said = spoor("report", "--blocked", recording.trace).stdout
    assert not re.search(r" in read\((?!0\b|0<)", said), said


def test_leader_that_execve_supersedes(spoor, read, actor, tmp_path):
    """As with strace: the leader did not exit, another thread took its place by execve."""
    run = spoor("record", "-o", "t.spoor", "--", actor(), "thread-become", "7", actor(), "marks", "11")
    assert run.returncode == 0
    listed = spoor("report", "--events", "t.spoor").stdout
    (pid,) = read(tmp_path / "t.spoor").pids()
    ((tid, thread),) = re.findall(r"^\[(\d+)\] \S+ \+\+\+ superseded by execve in thread (\d+) \+\+\+$", listed, re.M)
    assert int(tid) == pid != int(thread) and f"[{thread}] " in listed
    assert listed.count("+++ exited with ") == 1
    for option, of in ("--pid", pid), ("--tid", pid), ("--tid", thread):
        chosen = spoor("report", "--events", option, of, "t.spoor").stdout
        assert chosen.count("+++ exited with ") == (of == pid)
