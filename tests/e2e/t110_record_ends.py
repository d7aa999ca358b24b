# SPDX-License-Identifier: GPL-2.0-or-later
"""However a recording ends, there is a proper trace, and an exit code that says what happened."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from processes import children, ready, wait_for


@pytest.mark.parametrize("command, code", [("true", 0), ("exit 42", 42), ("exit 125", 125), ("kill -9 $$", 137),
                                           ("kill -SEGV $$", 139), ("exit 255", 255)])
def test_exit_code_of_the_command(spoor, read, tmp_path, command, code):
    run = spoor("record", "-o", "t.spoor", "--", "sh", "-c", command)
    assert run.returncode == code and re.fullmatch(r"spoor: .*\n", run.stderr)
    read(tmp_path / "t.spoor").whole()


@pytest.mark.parametrize("verb", [("record", "-o", "t.spoor"), ("stat",), ("ust", "run", "-o", "t.spoor")], ids=str)
def test_started_by_who_ignores_the_end_of_children(spoor, tmp_path, verb):
    """Then ended children vanish by themselves. Spoor sees the command end all the same, which has from whoever started
    Spoor what is ignored and blocked."""
    def begin():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

    run = spoor(*verb, "--", "grep", "-E", "SigIgn|SigBlk", "/proc/self/status", preexec_fn=begin)
    assert run.returncode == 0, run.stderr
    blocked, ignored = (int(word, 16) for word in run.stdout.split()[1::2])
    assert blocked == 1 << signal.SIGUSR1 - 1 and ignored >> signal.SIGCHLD - 1 & 1


@pytest.mark.parametrize("ignored", [False, True], ids=["default", "ignored"])
@pytest.mark.parametrize("verb", [("record", "-o", "t.spoor"), ("stat",), ("stat", "--interval", "20ms"),
                                  ("ust", "run", "-o", "t.spoor")], ids=" ".join)
def test_nobody_reads_what_is_said(spoor, verb, ignored):
    """The command's end is told all the same. SIGPIPE does to it what it would do without Spoor."""
    ours, theirs = os.pipe()
    os.close(ours)
    run = spoor(*verb, "--", "sh", "-c", "grep SigIgn /proc/self/status; sleep 0.2; exit 7", stderr=theirs,
                stdout=subprocess.PIPE, capture_output=False, restore_signals=not ignored)
    os.close(theirs)
    assert run.returncode == 7
    assert int(run.stdout.split()[1], 16) >> signal.SIGPIPE - 1 & 1 == ignored


def test_reader_of_what_is_said_leaves(record, read, start, actor, tmp_path):
    """`spoor record ... 2>&1 | head -n 1`"""
    ours, theirs = os.pipe()
    recording = record("-p", ready(start(actor(), "sleep")).pid, "--snapshot-on", "SIGUSR2", stderr=theirs)
    os.close(theirs)
    assert b"recording into t.spoor" in os.read(ours, 4096)
    os.close(ours)
    for number in (1, 2):
        recording.process.send_signal(signal.SIGUSR2)
        wait_for(lambda: (tmp_path / f"t.snapshot-{number}.spoor/manifest").exists())
    assert recording.stop() == 0
    read(recording.trace).whole()


def test_nohup(record, read, start, actor):
    recording = record("-p", ready(start(actor(), "sleep")).pid,
                       preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    recording.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert recording.process.poll() is None and recording.stop() == 0
    read(recording.trace).whole()


def test_command_as_the_shell_finds_it(spoor, tmp_path):
    """An empty entry of PATH is the working directory; what has no #! is run by sh, with all its arguments."""
    script = tmp_path / "count"
    script.write_text("echo $# $1 ${200}\n")
    script.chmod(0o755)
    for i, path in enumerate((":/usr/bin", "/usr/bin:", "/usr/bin::/bin", "")):
        run = spoor("record", "-o", f"t{i}.spoor", "--", "count", *range(1, 201), env={"PATH": path})
        assert (run.returncode, run.stdout) == (0, "200 1 200\n"), run.stderr


def test_last_line_and_untouched_streams(spoor, tmp_path):
    """The command has its own stdin, stdout and stderr; Spoor says one line at the end, to stderr."""
    run = spoor("record", "-o", "t.spoor", "--", "sh", "-c", "tr a-z A-Z; echo err >&2", input="abc\n")
    assert run.stdout == "ABC\n"
    err, line = run.stderr.splitlines()
    assert err == "err"
    assert re.fullmatch(r"spoor: \d+ events?, 0 lost; \d+ stacks? walked in the kernel, \d+ in user space; "
                        r"[\d.]+ MB in t\.spoor; own cost .* user, .* system", line)


def test_default_output_name(spoor, read, tmp_path):
    assert spoor("record", "--", "/bin/true").returncode == 0
    assert spoor("record", "-n", "quok*a", "--duration", "100ms").returncode == 0
    names = sorted(p.name for p in tmp_path.glob("*.spoor"))
    assert len(names) == 2
    for name, what in zip(names, ["quok_a", "true"] if "quok" in names[0] else ["true", "quok_a"]):
        assert re.fullmatch(r"spoor-\d{4}-?\d\d-?\d\d.*-" + what + r"\.spoor", name)
        read(tmp_path / name)


@pytest.mark.parametrize("verb", [["record"], ["ust", "run"]], ids=" ".join)
def test_default_name_of_a_command_with_any_name(spoor, tmp_path, verb):
    """It can be shown on a terminal and typed, and nothing else is said either."""
    command = tmp_path / "a\x1b[2Jb\n\u202ec d\udcff*é"
    command.symlink_to("/bin/true")
    run = spoor(*verb, "--", command, errors="surrogateescape")
    made, = list(tmp_path.rglob("*.spoor"))
    assert run.returncode == 0 and made.name.endswith("-a__2Jb__c_d__é.spoor"), made
    assert made.name in run.stderr and not re.search(r"[^\n -~é]", run.stderr), run.stderr


def test_name_that_a_terminal_would_obey(spoor, record, start, actor):
    """It is the user's, or a script's that took it from somewhere."""
    recording = record("-p", ready(start(actor(), "sleep")).pid, "--snapshot-on", "SIGUSR2",
                       trace="a\x1b[2J\u202e\n\\b.spoor")
    recording.process.send_signal(signal.SIGUSR2)
    wait_for(lambda: "snapshot in" in recording.said())
    assert recording.stop() == 0
    said = recording.said() + spoor("record", "-o", recording.trace.name, "--", "true").stderr
    name = r"a\x1b[2J\xe2\x80\xae\n\b"
    assert not re.search(r"[^\n -~]", said) and said.count("\n") == 4, said
    for words in ("recording into {}.spoor,", "snapshot in {}.snapshot-1.spoor\n", " in {}.spoor;", ": {}.spoor: "):
        assert words.format(name) in said


def test_default_name_twice_in_a_second(spoor, tmp_path):
    for _ in range(3):
        assert spoor("record", "--", "true").returncode == 0
    assert len(list(tmp_path.glob("*.spoor"))) == 3


def test_duration(spoor, record, read, start, actor, tmp_path):
    target = ready(start(actor(), "sleep"))
    recording = record("-p", target.pid, "--duration", "700ms", start=False)
    assert recording.wait() == 0
    clocks = json.loads((recording.trace / "manifest").read_text())["clocks"]
    opened, attached, *_, ended = (c["monotonic"] / 1e9 for c in clocks)
    assert ended - opened >= 0.7 and ended - attached < 5
    read(recording.trace)
    assert target.poll() is None
    dozer = actor(f"dozer{os.getpid() % 10**9}")
    run = spoor("record", "-o", "c.spoor", "--duration", "3s", "--", dozer, "sleep", stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, capture_output=False)
    assert run.returncode == 0  # the command goes on
    left = subprocess.run(["pgrep", "-x", dozer.name], capture_output=True, text=True).stdout.split()
    assert len(left) == 1
    os.kill(int(left[0]), signal.SIGKILL)
    assert [e["unfinished"] for e in read(tmp_path / "c.spoor").of("pause")] == ["end"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals(record, read, start, actor, number):
    target = ready(start(actor(), "sleep"))
    recording = record("-p", target.pid)
    assert recording.stop(number) == 0
    assert target.poll() is None
    trace = read(recording.trace).whole()
    assert [e["event"] for e in trace.calls] == ["read"] and "unfinished" in trace.calls[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_leaves_the_command_alone(record, read, actor, tmp_path, number):
    recording = record("--", actor(), "sleep", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ready(recording.process)
    assert recording.stop(number) == 0
    recording.process.stdin.write(b"g")  # it lives and answers
    recording.process.stdin.close()
    assert recording.process.stdout.read() == b""
    read(recording.trace).whole()


def test_ctrl_c_reaches_the_command_too(record, read, actor):
    """On a terminal both get SIGINT; the command dies of it, and its end is told."""
    recording = record("--", actor(), "sleep", stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a shell's & ignores it
    ready(recording.process)
    os.killpg(recording.pid, signal.SIGINT)
    assert recording.wait() == 128 + signal.SIGINT
    read(recording.trace)


HOLD = """import os, time
os.sched_setaffinity(0, {%d})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print("ready", flush=True)
until = time.monotonic() + 0.7
while time.monotonic() < until: pass"""


@pytest.mark.parametrize("verb", [["record", "-o", "t.spoor"], ["stat"], ["ust", "run", "-o", "t.spoor"]], ids=str)
def test_ctrl_c_reaches_a_command_that_does_not_get_to_run(build, start, actor, verb):
    """Its processor is another's when the signal comes. It ends of it once it runs, and that is told."""
    cpu = max(os.sched_getaffinity(0))
    program = start(build / "spoor", *verb, "--", "taskset", "-c", cpu, actor(), "sleep", start_new_session=True,
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    ready(program)
    ready(start("/usr/bin/python3", "-c", HOLD % cpu))
    os.killpg(program.pid, signal.SIGINT)
    assert program.wait(20) == 128 + signal.SIGINT


def test_target_gone(record, read, start, actor):
    targets = [ready(start(actor(), "sleep")) for _ in range(2)]
    recording = record("-p", targets[0].pid, "-p", targets[1].pid)
    targets[0].kill()
    targets[0].wait()
    time.sleep(0.6)
    assert recording.process.poll() is None
    targets[1].kill()
    assert recording.wait() == 0
    trace = read(recording.trace)
    assert {e["pid"] for e in trace.of("read", errno="ERESTARTSYS")} == {t.pid for t in targets}


def test_name_goes_on_without_anybody(record, read, actor):
    recording = record("-n", "quokka")
    for _ in range(2):
        subprocess.run([actor("quokka"), "marks", "3"], check=True)
        time.sleep(0.5)
        assert recording.process.poll() is None
    assert recording.stop() == 0
    assert read(recording.trace).count() == 6


def test_nothing_stays(record, read, start, actor, nothing_attached):
    target = ready(start(actor(), "sleep"))
    recording = record("-p", target.pid)
    helpers = children(recording.pid)
    assert recording.stop() == 0
    nothing_attached(recording)
    assert helpers and not [c for c in helpers if os.path.exists(f"/proc/{c}")]


KEPT = {"bpf", "perfmon", "sys_ptrace", "dac_read_search", "checkpoint_restore", "kill"}
BITS = {"dac_read_search": 2, "kill": 5, "sys_ptrace": 19, "sys_admin": 21, "sys_nice": 23, "perfmon": 38, "bpf": 39,
        "checkpoint_restore": 40}


@pytest.mark.parametrize("options, more", [((), set()), (("--overhead", "50"), {"sys_admin"})],
                         ids=["plain", "overhead"])
def test_capabilities_are_given_up(record, start, actor, options, more):
    """By every thread, once it is attached; what is left is what recording needs. The loader may be in a hurry."""
    recording = record("-p", ready(start(actor(), "sleep")).pid, *options)
    allowed = sum(1 << BITS[name] for name in KEPT | more)
    held = {}
    for thread in Path(f"/proc/{recording.pid}/task").iterdir():
        with suppress(OSError):  # one that opens a file for the loader ends by itself
            held[thread.name] = re.findall(r"^Cap(?:Prm|Eff|Inh):\t(\w+)$", (thread / "status").read_text(), re.M)
    assert len(held) >= 2
    for tid, sets in held.items():
        own = allowed | (1 << BITS["sys_nice"]) * (int(tid) != recording.pid)
        assert len(sets) == 3 and not any(int(caps, 16) & ~own for caps in sets), held
    assert recording.stop() == 0


def test_row_compiler_that_stands_still(record, start, actor):
    """It is another user's, and killed all the same."""
    recording = record("-p", ready(start(actor(), "sleep")).pid)
    compiler = wait_for(lambda: recording.helpers().get("spoor-rows"))
    os.kill(compiler, signal.SIGSTOP)
    assert recording.stop() == 0 and not Path(f"/proc/{compiler}").exists()


def on_a_terminal(argv, cwd, enough=None):
    """What a program writes to a terminal of its own, and its exit code. Once that matches `enough`, it gets SIGINT."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execv(argv[0], [str(a) for a in argv])
    said = b""
    while True:
        try:
            said += os.read(terminal, 4096)
        except OSError:  # the last one who had it open has gone
            break
        if enough and re.search(enough, said):
            os.kill(pid, signal.SIGINT)
            enough = None
    os.close(terminal)
    return said.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_command_has_the_terminal(build, tmp_path):
    """Its prompt stands as it was written: nothing is drawn over it while it waits."""
    command = ["sh", "-c", "printf Password:; sleep 1.5; echo yes"]
    said, code = on_a_terminal([build / "spoor", "record", "-o", "t.spoor", "--", *command], tmp_path)
    assert code == 0 and said.startswith("Password:yes\r\nspoor: ")
    assert "\x1b" not in said and said.count("\r") == said.count("\n") == 2


def test_progress_on_a_terminal(build, start, actor, tmp_path):
    """A recording that has the terminal for itself shows that it lives, in one line that is gone in the end."""
    target = start(actor(), "sleep")
    argv = [build / "spoor", "record", "-o", "t.spoor", "-p", target.pid, "--duration", "60s"]
    said, code = on_a_terminal(argv, tmp_path, rb" lost  .* lost  ")
    drawn = said.split("\r\n")
    assert code == 0 and "recording into t.spoor" in drawn[0] and len(drawn) == 3 and drawn[2] == ""
    parts = drawn[1].split("\r")
    assert len([p for p in parts if re.fullmatch(r"\d+s  \d+ events?  0 lost  \d+\.\d MB \x1b\[K", p)]) >= 2
    assert parts[-1].startswith("\x1b[Kspoor: ")


def told(recording):
    """What the last line says: (events, lost)."""
    return tuple(map(int, re.search(r"^spoor: (\d+) events?, (\d+) lost;", recording.said(), re.M).groups()))


def in_report(trace):
    return trace.summary["calls"] + trace.summary["unfinished"], trace.summary["discarded"]


@pytest.mark.parametrize("what", [("family",), ("storm", "200", "3"), ("thread-become", "11", "/bin/true")])
def test_last_line_of_a_command(record, read, actor, what):
    """A call counts once, whether it slept, ended with its thread, or not at all."""
    recording = record("--", actor(), *what, start=False)
    assert recording.wait() == 0
    trace = read(recording.trace).whole()
    assert told(recording) == in_report(trace)


@pytest.mark.parametrize("what", [("serve",), ("storm", "1000000", "3"), ("marks", "1000000000")])
def test_last_line_of_an_attached_one(record, read, start, actor, what):
    """It goes on when the recording ends: what began before, sleeps, or is in flight then is one call each."""
    target = start(actor(), *what)
    if what[0] == "serve":
        ready(target)
    recording = record("-p", target.pid, "--follow")
    time.sleep(0.1)
    assert recording.stop() == 0
    trace = read(recording.trace, babeltrace=False)
    if trace.summary["discarded"] == 0:
        assert told(recording) == in_report(trace)
    assert told(recording)[1] == trace.summary["discarded"]
    assert what[0] != "serve" or told(recording) == (5, 0)


def test_last_line_of_a_lossy_one(record, read, start, actor):
    """Of each CPU's smallest buffer most is lost; both say how much, and of what was kept."""
    target = start(actor(), "marks", "1000000000")
    recording = record("-p", target.pid, "--buffers", "256k", "-m", "none")
    recording.process.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    recording.process.send_signal(signal.SIGCONT)
    assert recording.stop() == 0
    trace = read(recording.trace, babeltrace=False)
    assert told(recording)[1] > 1000
    assert told(recording)[1] == trace.summary["discarded"]
    assert abs(told(recording)[0] - in_report(trace)[0]) <= 1  # one whose end was lost may have been seen under way


@pytest.fixture
def interrupted(record, at_directory):
    """interrupted(2, "-p", 1) -> Recording that gets this signal when it has just made its trace's directory."""
    return lambda number, *what: record(*what, start=False, env=at_directory(f"kill -{number:d} $PPID"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_while_it_starts(interrupted, read, tmp_path, number):
    """Nobody has to wait until it is under way: a whole trace, or none and no command."""
    recording = interrupted(number, "-n", "quokka")
    assert recording.wait() == 0
    read(recording.trace)
    shutil.rmtree(recording.trace)
    recording = interrupted(number, "--", "touch", "ran")
    assert recording.wait() == 125 and not recording.trace.exists() and not (tmp_path / "ran").exists()
    assert recording.said() == "spoor record: ended by a signal before the command began\n"


def test_snapshot_while_it_starts(interrupted, read, tmp_path):
    recording = interrupted(signal.SIGUSR2, "-n", "quokka", "--snapshot-on", "SIGUSR2")
    wait_for(lambda: "snapshot in" in recording.said())
    assert recording.stop() == 0
    read(recording.trace)
    assert len(list(tmp_path.glob("*.snapshot-*.spoor"))) == 1
