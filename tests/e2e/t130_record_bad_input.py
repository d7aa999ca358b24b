# SPDX-License-Identifier: GPL-2.0-or-later
"""Bad input to spoor record: an exit code and one line that says what, why, and what to do."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from processes import NOBODY, ready, sleeps_in, wait_for


def refused(run, code, *words):
    """One line, with these words, and nothing on stdout."""
    assert run.returncode == code, run.stderr
    assert run.stdout == "" and re.fullmatch(r"spoor( record)?: [^\n]+\n", run.stderr), run.stderr
    for word in words:
        assert word in run.stderr, run.stderr


USAGE = [
    ((), "nothing to record"),
    (("-p", "0"), "not a process id"),
    (("-p", "-3"), "not a process id"),
    (("-p", "12x"), "not a process id"),
    (("-p", ""), "not a process id"),
    (("-p", "99999999999"), "not a process id"),
    (("-p", "1") * 257, "more than 256 processes"),
    (("-n", ""), "-n"),
    (("-n", "x") * 17, "more than 16 names"),
    (("-n", "/usr/bin/ls"), "without a path"),
    (("-n", "a" * 64), "longer"),
    (("-n", "a\\"), "follows the last"),
    (("-m", "fast", "--", "true"), "fast"),
    (("-m", "", "--", "true"), "no mode"),
    (("-m", "custom", "--", "true"), "--scope"),
    (("-e", "%file=custom", "--", "true"), "--scope"),
    (("-e", "openat,all=custom", "--", "true"), "--scope"),
    (("--set", "pause", "--duration", "3s", "x.spoor"), "--duration"),
    (("-m", "app", "--set", "pause", "x.spoor"), "--mode"),
    (("--set", "pause", "-p", "1"), "--pid"),
    (("--scope", "libc", "--", "true"), "libc"),
    (("--scope", "main=3", "-m", "app", "--", "true"), "--scope"),
    (("-m", "app", "--scope", "main=3", "--", "true"), "--scope does not go with -m app"),
    (("-m", "all", "--scope", "main=3", "-e", "openat=app", "--", "true"), "--scope does not go with -m all"),
    (("-S", "0", "--", "true"), "-S 0"),
    (("-S", "100000", "--", "true"), "-S"),
    (("-S", "x", "--", "true"), "-S"),
    (("-S", "+5", "--", "true"), "-S +5"),
    (("-p", " 1"), "not a process id"),
    (("-p", "1 2"), "of several each has a -p"),
    (("-p", "1", "2"), "'2' is a command: that does not go with -p, -n (one for each)"),
    (("-e", "opennat", "--", "true"), "opennat"),
    (("-e", "%nothing", "--", "true"), "%nothing"),
    (("-e", "/[/", "--", "true"), "/[/"),
    (("-e", "", "--", "true"), "-e"),
    (("-e", "openat=fast", "--", "true"), "fast"),
    (("--unwind", "magic", "--", "true"), "magic"),
    (("--duration", "soon", "--", "true"), "soon"),
    (("--duration", "0s", "--", "true"), "0s"),
    (("--duration", "-1s", "--", "true"), "-1s"),
    (("--duration", "18446744073s", "--", "true"), "--duration 18446744073s: longer than 292 years"),
    (("--duration", "9223372037s", "--", "true"), "longer than 292 years"),
    *((("--overhead", wrong, "--", "true"), f"--overhead {wrong}: per cent")
      for wrong in (" 5", "+5", "-5", "0x5", "1e1", "nan", ".", "1.2.3", "5%%", "101", "0.01")),
    (("--max-size", "1K", "--", "true"), "a size of at least 4M"),
    (("--max-size", "much", "--", "true"), "much"),
    (("--max-size", "8M", "--rotate", "5M", "--", "true"), "two segments"),
    (("--rotate", "0s", "--", "true"), "--rotate"),
    (("--rotate", "12parsecs", "--", "true"), "--rotate"),
    (("--buffers", "1", "--", "true"), "--buffers"),
    (("--buffers", "100G", "--", "true"), "--buffers"),
    (("-o", "", "--", "true"), "-o"),
    (("--cgroup", "", "-o", "x"), "--cgroup"),
    (("--app", "", "--", "true"), "--app"),
    (("-p", "1", "--", "true"), "does not go with"),
    (("-n", "x", "--", "true"), "does not go with"),
    (("-a", "--", "true"), "does not go with"),
    (("--cgroup", "/x", "--", "true"), "does not go with"),
    (("-a", "-p", "1"), "does not go with"),
    (("-a", "-n", "x"), "does not go with"),
    (("--cgroup", "/x", "-p", "1"), "does not go with"),
    (("--cgroup", "/x", "-n", "x"), "does not go with"),
    (("--no-follow", "-n", "x"), "--no-follow"),
    (("--nonsense", "--", "true"), "wrong option '--nonsense'; 'spoor record -h'"),
    (("--non\x1b[2Jsense",), "wrong option '--non"),
    (("-Z",), "wrong option '-Z'"),
    (("-xa", "--", "true"), "wrong option '-x'"),
    (("-ax", "--", "true"), "wrong option '-x'"),
    (("--ust", "-aé", "--", "true"), "wrong option '-\\xc3'"),
    (("--help=1",), "wrong option '--help=1'"),
    (("-p",), "missing after '-p'"),
    (("-ap",), "missing after '-p'"),
    (("--duration",), "missing after '--duration'"),
    (("--all=1",), "wrong option '--all=1'"),
    (("-e", "!all", "--", "true"), "leaves no system call"),
    (("-e", "%file,!%file", "--", "true"), "leaves no system call"),
    (("--snapshot-on", "SIGINT", "--", "true"), "another use"),
    (("--snapshot-on", "TERM", "--", "true"), "another use"),
    (("--snapshot-on", "SIGSEGV", "--", "true"), "another use"),
    (("--snapshot-on", "SIGKILL", "--", "true"), "another use"),
    (("--snapshot-on", "2", "--", "true"), "a signal such as"),
]


@pytest.mark.parametrize("args, word", USAGE, ids=[" ".join(a)[:40] or "none" for a, _ in USAGE])
def test_usage(spoor, tmp_path, args, word):
    refused(spoor("record", *args), 2, word)
    assert not list(tmp_path.glob("*.spoor"))


def test_long_setting(spoor, record, start, actor):
    """What cannot be sent at once is refused as such."""
    recording = record("-p", start(actor(), "sleep").pid)
    long = "e=" + "openat," * 599 + "openat2"
    refused(spoor("record", "--set", long, recording.trace), 1, "4202", "too long", "4096")
    assert recording.stop() == 0


@pytest.mark.parametrize("command, word", [("no-such-command", "no such command"), ("./no-such", "no such command"),
                                           ("", "no such command"), ("/etc", "not an executable"),
                                           ("/etc/passwd", "not an executable"), ("./broken", "./broken: cannot"),
                                           ("./orphan", "./orphan: cannot execute: the interpreter")])
def test_command(spoor, tmp_path, command, word):
    """As with env and nohup nothing was run, so it is 125: the command's codes are its own."""
    for name, content in (("broken", b"\x7fELF and no more"), ("orphan", b"#!/nonexistent/interpreter\n")):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o755)
    refused(spoor("record", "-o", "t.spoor", "--", command), 125, word)


def test_no_such_pid(spoor, tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    refused(spoor("record", "-o", "t.spoor", "-p", gone.pid), 1, f"-p {gone.pid}: no such process")
    assert not (tmp_path / "t.spoor").exists()


def test_no_such_name(spoor, read, tmp_path):
    """One may come yet: it is said that none is there, and what was recorded is nothing."""
    run = spoor("record", "-o", "t.spoor", "-n", f"absent{os.getpid()}", "--duration", "300ms")
    assert run.returncode == 0 and ", 0 threads so far; " in run.stderr and ": 0 events, 0 lost; " in run.stderr
    trace = read(tmp_path / "t.spoor").whole()
    assert not trace.calls and "No call of the trace fits" in spoor("report", trace.path).stdout


def test_zombie(spoor, tmp_path):
    """It has ended, although it still has its number; nothing would ever come of it."""
    zombie = subprocess.Popen(["true"])
    wait_for(lambda: "\nState:\tZ" in Path(f"/proc/{zombie.pid}/status").read_text())
    refused(spoor("record", "-o", "t.spoor", "-p", zombie.pid), 1, f"-p {zombie.pid}", "has ended", "zombie")
    assert not (tmp_path / "t.spoor").exists()
    zombie.wait()


def test_ended_before_it_was_attached_to(spoor, start, at_directory, tmp_path):
    """The directory is made a while before; what of it was never recorded does not stay."""
    brief = start("sh", "-c", "until [ -d t.spoor ]; do :; done")
    meanwhile = at_directory(f"until grep -q State:.Z /proc/{brief.pid}/status; do :; done")
    refused(spoor("record", "-o", "t.spoor", "-p", brief.pid, env=meanwhile), 1, f"-p {brief.pid}", "ended before")
    assert not (tmp_path / "t.spoor").exists()


def test_spoor_itself(build):
    refused(subprocess.run(["sh", "-c", f"exec {build}/spoor record -o t.spoor -p $$"], capture_output=True, text=True,
                           timeout=30), 1, "Spoor itself")


def test_few_descriptors(build, tmp_path):
    """Wherever they run out: nothing waits for a command that will not run. The limit that can be raised is raised."""
    said, limit, run = set(), 16, None
    while not run or run.returncode:
        run = subprocess.run(["prlimit", f"--nofile={limit}", build / "spoor", "record", "-o", f"{limit}.spoor", "--",
                              "true"], cwd=tmp_path, capture_output=True, text=True, timeout=30)
        if run.returncode:
            refused(run, 125, "Too many open files", "; allow more (ulimit -n)")
            said.add(run.stderr)
        limit += 3
    assert len(said) > 3 and limit < 200, said
    run = subprocess.run(["prlimit", "--nofile=40:4096", build / "spoor", "record", "-o", "t.spoor", "--", "sh", "-c",
                          "ulimit -n"], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert run.returncode == 0 and run.stdout == "40\n", run


@pytest.mark.parametrize("verb", ["record", "stat"])
def test_time_namespace(build, tmp_path, verb):
    """The kernel's events bear the machine's time, and what is said of them would be off by the namespace's."""
    run = subprocess.run(["unshare", "-T", "--monotonic", "100000", "--fork", build / "spoor", verb, "-o", "t", "--",
                          "true"], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert run.returncode == 125 and run.stderr.count("\n") == 1 and "is in a time namespace" in run.stderr, run
    check = subprocess.run(["unshare", "-T", "--monotonic", "100000", "--fork", build / "spoor", "check"],
                           capture_output=True, text=True, timeout=30)
    assert check.returncode == 1 and re.search(r"no .*clocks .*in a time namespace", check.stdout), check


@pytest.mark.parametrize("verb", ["record", "stat", "ust run", "daemon", "relay"])
def test_signals_that_cannot_be_waited_for(build, tmp_path, verb):
    """Who could not be ended does not begin."""
    rest = {"daemon": ["--socket", "s.sock"], "relay": ["-o", "r"]}.get(verb, ["-o", "t", "--", "true"])
    run = subprocess.run(["strace", "-f", "-o", "/dev/null", "-e", "inject=signalfd4:error=EPERM", build / "spoor",
                          *verb.split(), *rest], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert run.returncode in (1, 125) and run.stdout == "", run
    assert re.fullmatch(r"spoor [a-z]+: cannot wait for signals \(signalfd\): Operation not permitted\n", run.stderr)


def test_thread_id(spoor, start, actor):
    process = start(actor(), "serve")
    process.stdout.readline()
    tid = next(int(t) for t in os.listdir(f"/proc/{process.pid}/task") if int(t) != process.pid)
    refused(spoor("record", "-o", "t.spoor", "-p", tid), 1, "thread", "pid")


def test_kernel_thread(spoor):
    """Nothing of it could ever be recorded."""
    refused(spoor("record", "-o", "t.spoor", "-p", 2, "--duration", "1s"), 1, "kernel thread")


def test_no_such_cgroup(spoor, tmp_path):
    refused(spoor("record", "-o", "t.spoor", "--cgroup", "/nonexistent"), 1, "no such cgroup")
    refused(spoor("record", "-o", "t.spoor", "--cgroup", tmp_path), 1, "not a cgroup v2")
    for line in Path("/proc/mounts").read_text().splitlines():
        if line.split()[2] == "cgroup":
            refused(spoor("record", "-o", "t.spoor", "--cgroup", line.split()[1]), 1, "not a cgroup v2")


def test_output_exists(spoor, tmp_path):
    for make in (Path.mkdir, Path.touch):
        path = tmp_path / f"{make.__name__}.spoor"
        make(path)
        refused(spoor("record", "-o", path, "--", "true"), 125, "exists")
        refused(spoor("record", "-o", path, "-p", os.getpid()), 1, "exists")
    assert path.read_bytes() == b""


def test_unwritable_directory(spoor, tmp_path):
    refused(spoor("record", "-o", "/proc/t.spoor", "--", "true"), 125, "/proc/t.spoor")
    refused(spoor("record", "-o", "no/such/t.spoor", "--", "true"), 125, "no/such/t.spoor")
    (tmp_path / "ran").unlink(missing_ok=True)
    spoor("record", "-o", "no/t.spoor", "--", "touch", tmp_path / "ran")
    assert not (tmp_path / "ran").exists()  # the command did not run


@pytest.fixture
def as_nobody(anywhere):
    """Runs spoor as nobody, with these options of setpriv besides."""
    def run(*setpriv, what=("--", "true")):
        return subprocess.run([*NOBODY, *setpriv, anywhere / "spoor", "record", "-o", "t.spoor", *what],
                              capture_output=True, text=True, cwd=anywhere, timeout=60)
    return run


def test_missing_privilege(as_nobody):
    refused(as_nobody(), 125, "CAP_BPF", "CAP_PERFMON", "root")


def test_missing_one_capability(as_nobody):
    """Names the one that is missing."""
    caps = "+bpf,+sys_ptrace,+dac_read_search"
    run = as_nobody(f"--inh-caps={caps}", f"--ambient-caps={caps}")
    refused(run, 125, "CAP_PERFMON")
    assert "CAP_BPF" not in run.stderr


def test_missing_capability_of_an_option(as_nobody):
    """A limit that could not be held is not promised."""
    caps = "+bpf,+perfmon,+sys_ptrace,+dac_read_search"
    refused(as_nobody(f"--inh-caps={caps}", f"--ambient-caps={caps}", what=("--overhead", "5", "--", "true")), 125,
            "--overhead", "CAP_SYS_ADMIN")


def test_enough_capabilities(as_nobody):
    """No root needed."""
    caps = "+bpf,+perfmon,+sys_ptrace,+dac_read_search"
    run = as_nobody(f"--inh-caps={caps}", f"--ambient-caps={caps}")
    assert run.returncode == 0 and " 0 lost" in run.stderr, run.stderr


def test_cache_of_a_new_user(anywhere):
    """Who has no ~/.cache yet has one then."""
    home, caps = anywhere / "home", "+bpf,+perfmon"
    home.mkdir()
    home.chmod(0o777)
    run = subprocess.run([*NOBODY, f"--inh-caps={caps}", f"--ambient-caps={caps}", "env", "-u", "SPOOR_CACHE_DIR",
                          f"HOME={home}", anywhere / "spoor", "record", "-o", "t.spoor", "--", "true"], cwd=anywhere,
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert list((home / ".cache/spoor").iterdir())


def test_hung_program_of_our_own(as_nobody, anywhere, spoor, start):
    """What it has mapped is not ours to open by the mapping, but by its name: its stack is whole."""
    target = start(*NOBODY, "sleep", "60")
    wait_for(lambda: sleeps_in(target.pid, 230))
    caps = "+bpf,+perfmon"
    run = as_nobody(f"--inh-caps={caps}", f"--ambient-caps={caps}",
                    what=("-p", str(target.pid), "-m", "all", "-S", "64", "--duration", "300ms"))
    assert run.returncode == 0, run.stderr
    blocked = spoor("report", "--blocked", "-f", "json", anywhere / "t.spoor").stdout.splitlines()
    call = next(e for e in map(json.loads, blocked) if e["event"] == "clock_nanosleep")
    assert call["walk"] == "complete" and "sleep" in {Path(f["object"]).name for f in call["stack"]}


@pytest.mark.parametrize("how", ["-n", "-p", "--all"])
def test_missing_ptrace(as_nobody, start, actor, how):
    """Others' processes are recorded as far as that goes, and it is said what is missing."""
    program = actor(f"quokka{os.getpid() % 10**6}")
    target = start(program, "sleep")
    assert target.stdout.readline() == b"ready\n"
    caps = "+bpf,+perfmon"
    who = {"-n": (program.name,), "-p": (str(target.pid),), "--all": ()}[how]
    run = as_nobody(f"--inh-caps={caps}", f"--ambient-caps={caps}",
                    what=(how, *who, "--duration", "200ms"))
    said, ready, *_ = run.stderr.splitlines()
    assert run.returncode == 0 and " cannot be looked into (CAP_SYS_PTRACE is missing); " in said
    assert how == "--all" or " 1 thread so far" in ready
    assert how != "-p" or " 1 process cannot" in said


def test_missing_ptrace_of_the_same_user(build, start, actor, tmp_path):
    """Who has a capability that we lack is closed to us, too."""
    target = ready(start(actor(), "sleep"))
    run = subprocess.run(["setpriv", "--bounding-set=-sys_ptrace", build / "spoor", "record", "-o", "t.spoor",
                          "-p", str(target.pid), "--duration", "200ms"], cwd=tmp_path, capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == 0
    assert run.stderr.startswith("spoor: 1 process cannot be looked into (CAP_SYS_PTRACE is missing); ")


@pytest.mark.parametrize("verb", ["record", "stat"])
def test_program_that_may_not_be_read(anywhere, verb):
    """It may be executed: its calls are recorded, and it is said why they stand at no line."""
    program, caps = shutil.copy("/usr/bin/true", anywhere / "secret"), "+bpf,+perfmon"
    program.chmod(0o711)
    what = {"record": ("record", "-o", "t.spoor"), "stat": ("stat", "--by", "site", "-o", "out")}[verb]
    run = subprocess.run([*NOBODY, f"--inh-caps={caps}", f"--ambient-caps={caps}", anywhere / "spoor", *what, "--",
                          program], cwd=anywhere, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0
    assert "spoor: 1 program or library may not be read (CAP_DAC_READ_SEARCH is missing): walks end" in run.stderr


def test_own_processes_need_no_ptrace(as_nobody):
    caps = "+bpf,+perfmon"
    run = as_nobody(f"--inh-caps={caps}", f"--ambient-caps={caps}")
    assert run.returncode == 0 and " 0 lost" in run.stderr and "PTRACE" not in run.stderr
