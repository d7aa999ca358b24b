# SPDX-License-Identifier: GPL-2.0-or-later
"""Segments, limits, full disks, vanished directories, SIGKILL: what was written stays readable, the target goes on."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from processes import children, go, ready, wait_for
from recordings import STEPPING_CLOCK, segments, steps_of

STORM = ("-e", "getppid,execve,exit_group")


def alone(segment):
    """babeltrace2 reads it from its first packet to its last."""
    run = subprocess.run(["babeltrace2", "-o", "dummy", segment], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return segment


def dangling(segment, may_be_empty=False):
    """Ids that events of this segment refer to and that nothing defines in it."""
    run = subprocess.run(["babeltrace2", segment], capture_output=True, text=True, errors="replace", check=True,
                         timeout=60)
    stacks, files, used, used_files, aliases = {0}, {0}, set(), set(), {}
    for line in run.stdout.splitlines():
        if " spoor:stack: " in line:
            stacks.add(int(re.search(r"\bid = (\d+)", line)[1]))
        elif " spoor:stack_alias: " in line:
            aliases.update([map(int, re.search(r"\bid = (\d+), stack = (\d+)", line).groups())])
        elif " spoor:file: " in line or " spoor:socket: " in line:
            files.add(int(re.search(r"\bid = (\d+)", line)[1]))
        elif found := re.search(r"\bpid = \d+, stack = (\d+)", line):
            used.add(int(found[1]))
            for group in re.findall(r"files = \{ ([^}]*) \}", line):
                used_files |= {int(n) for n in re.findall(r"= (\d+)", group)}
    assert used - {0} or may_be_empty
    assert set(aliases.values()) <= stacks
    return used - stacks - aliases.keys(), used_files - files


def bytes_on_disk(trace):
    """At one moment: what goes meanwhile must not count beside what comes then. Metadata is one file of many names."""
    before, sizes = set(trace.glob("*/kernel/*")), {}
    for top, _, files in os.walk(trace):
        for name in files:
            try:
                st = os.stat(os.path.join(top, name))
            except FileNotFoundError:
                continue
            sizes[st.st_ino] = st.st_size
    gone = before - set(trace.glob("*/kernel/*"))
    return bytes_on_disk(trace) if gone else sum(sizes.values())


def test_rotation_by_time(spoor, record, read, start, actor):
    target = start(actor(), "storm", "1000000", "3")
    recording = record("-p", target.pid, "--follow", "--rotate", "500ms")
    wait_for(lambda: len(segments(recording.trace)) >= 5)
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    assert len(segments(recording.trace)) >= 5
    for segment in segments(recording.trace):
        assert dangling(alone(segment)) == (set(), set())
    marks = list(trace.marks().values())  # whoever was there from begin to end: every call is in some segment
    assert marks.count(3) > 50 and len(marks) - marks.count(3) <= 4


def test_rotation_by_size(spoor, record, read, start, actor):
    target = start(actor(), "storm", "1000000", "100")
    recording = record("-p", target.pid, "--follow", "--rotate", "1M")
    wait_for(lambda: len(segments(recording.trace)) >= 3)
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    assert len(segments(recording.trace)) >= 3
    for segment in segments(recording.trace):
        assert dangling(alone(segment)) == (set(), set())
        assert sum(f.stat().st_size for f in segment.iterdir()) < 8 << 20
    assert trace.summary["calls"] > 10000


def test_call_that_began_before_the_first_segment(spoor, record, start, actor):
    """That its time is but a bound is told by the segment in which it ends, alone."""
    target, busy = ready(start(actor(), "sleep")), start(actor(), "storm", "1000000", "3")
    recording = record("-p", target.pid, "-p", busy.pid, "--follow", "--rotate", "200ms")
    wait_for(lambda: len(segments(recording.trace)) >= 4)
    go(target)
    assert recording.stop() == 0

    def ended(path):
        run = spoor("report", "-f", "json", "-e", "read", "-p", target.pid, path)
        return [e for e in map(json.loads, run.stdout.splitlines()[:-1]) if e["dur"] is not None]
    alone = [e for s in segments(recording.trace) for e in ended(s)]
    assert alone == ended(recording.trace) and alone[0]["start_exact"] is False


def test_live_trace_with_rotation(record, start, actor):
    """Another reader takes it at any time, as of when it looks."""
    target = start(actor(), "storm", "1000000", "3")
    # babeltrace2 takes up to a tenth of a second for each segment: fewer must come meanwhile than it reads.
    recording = record("-p", target.pid, "--follow", "--rotate", "600ms", "-e", "exit_group")
    for n in range(1, 8):
        wait_for(lambda: len(segments(recording.trace)) > n)
        alone(recording.trace)
    assert recording.stop() == 0


def test_max_size(spoor, record, read, start, actor):
    """The oldest segments go, whole; what is left reads; it never takes more."""
    target = start(actor(), "storm", "1000000", "100")
    recording = record("-p", target.pid, "--follow", "--max-size", "4M")
    until, most = time.monotonic() + 60, 0
    while min((int(s.name[4:]) for s in segments(recording.trace)), default=0) < 4 and time.monotonic() < until:
        most = max(most, bytes_on_disk(recording.trace))
    assert recording.stop() == 0
    assert 1 << 20 < max(most, bytes_on_disk(recording.trace)) <= 4 << 20
    manifest = json.loads((recording.trace / "manifest").read_text())
    part = manifest["hosts"][0]["parts"][0]
    assert part["dropped"]["segments"] >= 1 and part["dropped"]["bytes"] > 0
    assert part["segments"][0]["number"] > 1
    *whole, last = segments(recording.trace)
    assert dangling(alone(last), may_be_empty=True) == (set(), set())
    for segment in whole:
        assert dangling(alone(segment)) == (set(), set())
    assert read(recording.trace).summary["dropped"] == part["dropped"]
    out = spoor("report", recording.trace).stdout
    assert "Lost: nothing" not in out
    told = int(re.search(r" lost, the oldest (\d+) segments? dropped; ", recording.said())[1])
    assert part["dropped"]["segments"] - told in (0, 1)  # the last words may need the room of one more
    assert f"Dropped: the oldest {part['dropped']['segments']:,} segments, {part['dropped']['bytes']:,} bytes," in out


PIPES = r"""
#include <fcntl.h>
#include <unistd.h>
int main(void)
{
	int fds[2];
	while (!pipe(fds)) {
		fcntl(fds[0], F_GETFD);
		close(fds[0]);
		close(fds[1]);
	}
	return 1;
}
"""


def test_memory_of_a_recorder_that_stays(record, start, tmp_path):
    """What only segments of the past were told of is let go: each pipe is another file."""
    (tmp_path / "pipes.c").write_text(PIPES)
    subprocess.run(["gcc", "-O2", "-o", "pipes", "pipes.c"], cwd=tmp_path, check=True, timeout=60)
    recording = record("-p", start(tmp_path / "pipes").pid, "-m", "none", "-e", "fcntl", "--max-size", "16M")

    def begun():
        return max((int(s.name[4:]) for s in segments(recording.trace)), default=0)

    def memory():
        return int(re.search(r"RssAnon:\s*(\d+) kB", Path(f"/proc/{recording.pid}/status").read_text())[1])
    wait_for(lambda: begun() >= 6, 60)
    before = memory()
    wait_for(lambda: begun() >= 36, 60)
    assert memory() - before < 16 << 10
    assert recording.stop() == 0


def begun(trace):
    return max((int(s.name[4:]) for s in segments(trace)), default=0)


def test_segments_are_not_full_as_they_begin(record, start, actor):
    """What each is told of 9,000 sleeping threads is more than it may have: it counts for none."""
    recording = record("-p", ready(start(actor(), "many", "9000")).pid, "--max-size", "4M")
    wait_for(lambda: begun(recording.trace))
    time.sleep(3)
    assert begun(recording.trace) < 3
    assert recording.stop() == 0


def test_hangs_of_more_than_a_segment(spoor, record, start, actor):
    """All of them are in what is left if the recorder is killed, however often that was told of them anew."""
    many = ready(start(actor(), "many", "9000"))
    recording = record("-p", many.pid, "-p", start(actor(), "storm", "1000000", "100").pid, "--follow", "--max-size",
                       "6M")
    wait_for(lambda: begun(recording.trace) >= 6, 60)
    assert bytes_on_disk(recording.trace) <= 6 << 20
    recording.kill()
    *hung, summary = map(json.loads, spoor("report", "-f", "json", "-p", many.pid, recording.trace).stdout.splitlines())
    assert len({e["tid"] for e in hung}) == 9001, (recording.said(), summary["dropped"], summary["discarded"])
    assert summary["dropped"]["segments"] >= 3 and "no room" not in recording.said()


def test_hangs_told_slowly(spoor, record, start, actor):
    """A segment is not ended before it was told of all, which takes several turns of small buffers."""
    many = ready(start(actor(), "many", "20000"))
    recording = record("-p", many.pid, "-p", start(actor(), "storm", "1000000", "100").pid, "--follow", "--max-size",
                       "14M", "--buffers", "256K", "--rotate", "20ms", start=False)
    wait_for(lambda: "recording into" in recording.said(), 60)
    wait_for(lambda: begun(recording.trace) >= 24, 180)
    recording.kill()
    *hung, summary = map(json.loads, spoor("report", "-f", "json", "-p", many.pid, recording.trace).stdout.splitlines())
    assert len({e["tid"] for e in hung}) == 20001, (recording.said(), summary["dropped"], summary["discarded"])
    assert summary["dropped"]["segments"] >= 10


def record_with_a_step(spoor, tmp_path, step, slept):
    """The machine's clocks are set, or stand still while it sleeps, as it is recorded: for Spoor alone. The clocks that
    the manifest has."""
    source = STEPPING_CLOCK.replace("STEPPED", str(tmp_path / "stepped"))
    (tmp_path / "clock.c").write_text(source.replace("STEP;", f"{step};").replace("SLEPT", str(int(slept))))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "clock.so", "clock.c"], cwd=tmp_path, check=True, timeout=60)
    run = spoor("record", "-o", "t.spoor", "--rotate", "200ms", "--", "sh", "-c",
                "sleep 0.7; env -u LD_PRELOAD touch stepped; sleep 0.7; :",
                env=os.environ | {"LD_PRELOAD": str(tmp_path / "clock.so"), "ASAN_OPTIONS": "verify_asan_link_order=0"})
    assert run.returncode == 0, run.stderr
    manifest = json.loads((tmp_path / "t.spoor/manifest").read_text())
    assert len(manifest["clocks"]) > 3
    first = manifest["clocks"][0]
    assert abs(first["realtime"] - first["monotonic"] - manifest["epoch_offset"]) < 10**9
    return manifest["clocks"]


@pytest.mark.parametrize("step", [-3600, 7200])
def test_clock_is_set(spoor, read, tmp_path, step):
    """Times are those of the clock as it was at the begin, in order; the manifest tells of the step."""
    before = time.time()
    clocks = record_with_a_step(spoor, tmp_path, step, slept=False)
    assert steps_of(clocks, "realtime") == [step] and not steps_of(clocks, "boottime")
    times = [float(e["ts"]) for e in read(tmp_path / "t.spoor").whole().calls]
    assert times == sorted(times) and before <= times[0] and times[-1] <= time.time()


def test_machine_sleeps(spoor, read, tmp_path):
    """Time that was slept through is in no duration; the manifest tells of it."""
    clocks = record_with_a_step(spoor, tmp_path, 5000, slept=True)
    assert steps_of(clocks, "realtime") == [5000] == steps_of(clocks, "boottime")
    calls = read(tmp_path / "t.spoor").whole().calls
    assert calls and max(c["dur"] or 0 for c in calls) < 5 * 10**9


def private_disk(script, tmp_path, size="2m"):
    """Runs a shell script in a mount namespace of its own with a small disk on ./disk; it ends with the namespace."""
    (tmp_path / "disk").mkdir(exist_ok=True)
    command = f"mount -t tmpfs -o size={size} none disk && {script}"
    return subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", command], cwd=tmp_path,
                          capture_output=True, text=True, timeout=60)


def spoors_in(folder, build):
    """Processes of ours that work there: only they can hold what is attached."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = {os.readlink(process / name) for name in ("exe", "cwd")}
        except OSError:
            continue
        if links == {str(build / "spoor"), str(folder)}:
            found.append(process.name)
    return found


@pytest.mark.parametrize("inodes", [13, 14])
def test_no_more_files(build, tmp_path, inodes):
    """A segment that cannot begin ends the recording at once; the target goes on."""
    busy = "import os, time\nfor i in range(750_000):\n if i % 50 == 0: time.sleep(.001)\n os.getppid()"
    script = (f"taskset -c {min(os.sched_getaffinity(0))} python3 -c '{busy}' & "
              f"{build}/spoor record --max-size 4M -o disk/t.spoor -p $!; "
              "echo code $?; kill $!; wait $!; echo killed $?")
    began = time.monotonic()
    run = private_disk(script, tmp_path, f"30m,nr_inodes={inodes}")
    assert run.stdout == "code 1\nkilled 143\n" and run.stderr.count("No space left") == 1, run
    assert time.monotonic() - began < 9


def test_full_disk(spoor, build, read, actor, tmp_path):
    """The target's output and code are its own; what fitted is readable; it is said once."""
    program = actor(f"filler{os.getpid() % 10**8}")
    script = (f"{build}/spoor record -o disk/t.spoor -- sh -c '{program} storm 10000 100; echo out; exit 7'; "
              f"echo code $?; "
              f"for i in 1 2 3 4 5 6 7 8 9 10; "
              f"do pgrep -x {program.name} >/dev/null || break; sleep 1; done; sleep 0.5; "
              f"cp -r disk/t.spoor kept.spoor")
    run = private_disk(script, tmp_path)
    assert "out\n" in run.stdout and "code 125\n" in run.stdout, run
    assert run.stderr.count("No space left") == 1
    lost = int(re.search(r"(\d+) lost;", run.stderr)[1])
    trace = read(tmp_path / "kept.spoor", ended=False)
    assert trace.summary["calls"] > 1000 and trace.summary["ended"] is False
    in_flight = int(re.search(r"(\d+) events", run.stderr)[1]) - trace.summary["calls"]
    assert 0 <= in_flight < lost / 10
    assert trace.summary["discarded"] == lost and 0 < trace.summary["lost_writing"] <= lost
    out = spoor("report", tmp_path / "kept.spoor").stdout
    assert sum(int(n.replace(",", "")) for n in re.findall(r"^Lost: ([\d,]+) events ", out, re.M)) == lost
    assert "Lost: nothing" not in out and "The recording was cut off" in out
    wait_for(lambda: not spoors_in(tmp_path, build))


def lost_of(run):
    return int(re.search(r"(\d+) lost;", run.stderr)[1])


def test_no_file_more(spoor, build, read, tmp_path):
    """A disk that has room, but not for one file more: the report knows what was lost, as the recorder does."""
    loop = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; sleep 0.1; done"
    run = private_disk(f"mount -o remount,nr_inodes=14,size=50m disk && {build}/spoor record -o disk/t.spoor --rotate "
                       f"300ms -- sh -c '{loop}'; echo code $?; cp -r disk/t.spoor kept.spoor", tmp_path)
    assert run.stdout == "code 125\n" and run.stderr.count("No space left") == 1, run
    trace = read(tmp_path / "kept.spoor", ended=False)
    assert trace.summary["discarded"] == lost_of(run) > 0 < trace.summary["lost_writing"]
    assert "Lost: nothing" not in spoor("report", tmp_path / "kept.spoor").stdout


@pytest.mark.skipif(not shutil.which("mkfs.btrfs"), reason="needs mkfs.btrfs")
def test_disk_quota(spoor, build, read, tmp_path):
    """As a full disk, although beyond it not even what was written in part can be taken back just so."""
    loop = ("i=0; for n in 20000 40000 60000; do while [ $i -lt $n ]; do cd /; i=$((i+1)); done; sleep 0.5; done")
    (tmp_path / "quota").mkdir()
    script = (f"truncate -s 150M image && mkfs.btrfs -q -M image && mount -o loop image quota && "
              f"btrfs -q quota enable quota && btrfs -q subvolume create quota/sub && "
              f"btrfs qgroup limit 1500K quota/sub && {build}/spoor record -o quota/sub/t.spoor -- sh -c '{loop}'; "
              f"echo code $?; cp -r quota/sub/t.spoor kept.spoor; umount quota")
    run = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script], cwd=tmp_path,
                         capture_output=True, text=True, timeout=60)
    assert run.stdout.endswith("code 125\n"), run
    assert run.stderr.count("quota exceeded") == 1 and "raise the quota" in run.stderr, run
    trace = read(tmp_path / "kept.spoor", ended=False)
    assert trace.summary["discarded"] == lost_of(run) > 1000 < trace.summary["lost_writing"]
    out = spoor("report", tmp_path / "kept.spoor").stdout
    assert "Damaged" not in out and "Lost: nothing" not in out and "disk or quota" in out


def test_disk_that_is_full_from_the_start(build, actor, tmp_path):
    run = private_disk(f"dd if=/dev/zero of=disk/x bs=1k count=4000 2>/dev/null; {build}/spoor record "
                       f"-o disk/t.spoor -- touch ran; echo code $?", tmp_path)
    assert "code 125\n" in run.stdout and "space" in run.stderr.lower()


@pytest.mark.parametrize("size", ["4k", "64k", "80k", "96k"])
def test_disk_too_small_to_begin(build, actor, tmp_path, size):
    """Nothing is left of it, so the next try is told the same."""
    again = f"{build}/spoor record -o disk/t.spoor -- true; ls -A disk;"
    run = private_disk(f"chmod 755 disk; {again * 2}", tmp_path, size)
    assert run.stdout == "" and len(run.stderr.splitlines()) == 2, run
    assert run.stderr.count("No space left") == 2


def test_file_size_limit(spoor, read, tmp_path):
    """As a full disk; the command keeps its own limit's signal, and its ignoring of it."""
    loop = "for n in 300 30000; do i=0; while [ $i -lt $n ]; do cd /; i=$((i+1)); done; sleep 0.5; done;"
    for trap, status in (("", signal.SIGXFSZ + 128), ("trap '' XFSZ; ", 1)):
        big = "dd if=/dev/zero of=big bs=1k count=1000 2>/dev/null; echo dd $?"
        run = spoor("record", "-o", f"{status}.spoor", "--", "sh", "-c", f"cd {tmp_path}; {trap}{big}; {loop} exit 7",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400 << 10, 400 << 10)))
        assert run.returncode == 125 and run.stdout == f"dd {status}\n", run
        assert run.stderr.count("File too large") == 1 and "ulimit -f" in run.stderr
        assert int(re.search(r"(\d+) lost;", run.stderr)[1]) > 1000
        assert read(tmp_path / f"{status}.spoor", ended=False).count("chdir") >= 300
        out = spoor("report", f"{status}.spoor").stdout
        assert "could not be written: a full disk or quota, a limit on file sizes," in out


def remove(trace):
    """With what is made in it meanwhile."""
    while trace.exists():
        shutil.rmtree(trace, ignore_errors=True)


def test_vanished_directory(record, start, actor, tmp_path, nothing_attached):
    target = start(actor(), "storm", "1000000", "3")
    recording = record("-p", target.pid, "--follow")
    remove(recording.trace)
    assert recording.wait(10) == 1
    lines = recording.said().splitlines()
    assert any("t.spoor" in line and ("vanished" in line or "gone" in line or "removed" in line or "No such" in line)
               for line in lines), lines
    assert target.poll() is None
    nothing_attached(recording)


def test_vanished_directory_of_a_command(record, actor, tmp_path):
    """The command runs to its end."""
    recording = record("--", "sh", "-c", f"{actor()} storm 2000 3; echo done > finished", stdout=subprocess.DEVNULL)
    remove(recording.trace)
    assert recording.wait(20) == 125
    wait_for(lambda: (tmp_path / "finished").exists() and (tmp_path / "finished").read_text() == "done\n")


@pytest.mark.parametrize("rotate", [(), ("--rotate", "300ms")])
def test_killed(spoor, record, read, actor, tmp_path, nothing_attached, rotate):
    """SIGKILL of spoor: the command's output and end are its own, the trace reads. (t155 has what is in it.)"""
    recording = record(*rotate, "--", "sh", "-c", f"{actor()} storm 20000 3; echo $? > code; exit 7",
                       stdout=subprocess.DEVNULL)
    (shell,) = wait_for(lambda: [p for p in children(recording.pid) if os.readlink(f"/proc/{p}/exe").endswith("/dash")])
    time.sleep(1)
    recording.kill()
    trace = read(recording.trace, ended=False)
    assert trace.summary["ended"] is False and trace.count() > 100
    assert trace.summary["discarded"] == 0
    nothing_attached(recording)
    wait_for(lambda: not os.path.exists(f"/proc/{shell}"), seconds=300)  # 20,000 forks, on any machine
    assert (tmp_path / "code").read_text() == "0\n"
    run = spoor("repair", recording.trace)
    assert run.returncode == 0 and run.stdout.startswith("Nothing to repair"), run


def test_two_recordings_at_once(record, read, start, actor):
    """They do not see each other, nor disturb each other's counts."""
    target = start(actor(), "serve")
    ready(target)
    recordings = [record("-p", target.pid, trace=f"{i}.spoor") for i in range(3)]
    assert go(target) == 0
    for recording in recordings:
        assert recording.wait() == 0
        assert read(recording.trace).whole().marks() == {target.pid: 404}


def test_trace_of_its_own_user_only(spoor, tmp_path):
    assert spoor("record", "-o", "t.spoor", "--", "true").returncode == 0
    assert os.stat(tmp_path / "t.spoor").st_mode & 0o777 == 0o700
    assert all(os.stat(f).st_mode & 0o777 == 0o600 for f in (tmp_path / "t.spoor").rglob("*") if f.is_file())
