# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that change what is recorded: --set, -s, --row-memory, --unwind."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from processes import children, lingering, sleeps_in, tell, wait_for
from spinning import change, functions, program, ticking  # noqa: F401 (fixtures)


def configs(trace):
    """What the trace says of its settings, in order: (ns, text), by babeltrace2."""
    run = subprocess.run(["babeltrace2", "--clock-seconds", trace], capture_output=True, text=True, errors="replace",
                         check=True, timeout=60)
    found = re.findall(r"^\[(\d+)\.(\d{9})\].* spoor:config: .*?\btext = \"(.*?)\", padding", run.stdout, re.M)
    return [(int(s) * 10**9 + int(ns), text) for s, ns, text in found]


def frames(event):
    return {(f["object"], f["offset"]) for f in event["stack"]}


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


@pytest.mark.parametrize("payload", [4, 64])
def test_what_was_cut(spoor, read, tmp_path, payload):
    """Of a call's arguments those are marked that were cut, whatever became of the others."""
    names = "symlink", "readlink", "rename", "write"
    script = ("import os; os.symlink('t' * 1000, 'short'); os.symlink('quokkas', 'link'); os.readlink('link'); "
              "os.readlink('/' * 1000 + os.path.abspath('link')); os.rename('short', './' + '/' * 1000 + 'new'); "
              "os.write(1, b'wombats')")
    assert spoor("record", "-s", payload, "-e", ",".join(names), "-o", "t.spoor", "--", "/usr/bin/python3", "-c",
                 script).returncode == 0
    listed = spoor("report", "--events", "t.spoor").stdout
    shown = [[name, *re.findall(r'"[^"]*"[.]*', args)]
             for name, args in re.findall(rf" ({'|'.join(names)})\((.*)\) = ", listed)]
    many = "/" * 895
    quokkas, wombats = ('"quok"...', '"womb"...') if payload == 4 else ('"quokkas"', '"wombats"')
    begin = next(i for i, call in enumerate(shown) if call[0] == "symlink")  # python3 asks before for links of its own
    assert shown[begin:begin + 6] == [
        ["symlink", f'"{"t" * 895}"...', '"short"'], ["symlink", '"quokkas"', '"link"'],
        ["readlink", '"link"', quokkas], ["readlink", f'"{many}"...', quokkas],
        ["rename", '"short"', f'".{many[1:]}"...'], ["write", wombats]]
    calls = [c for c in read(tmp_path / "t.spoor").whole().calls if c["event"] in names][-6:]
    assert [bool(c.get("truncated")) for c in calls] == [True, False, payload == 4, True, True, payload == 4]


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
