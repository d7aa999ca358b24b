# SPDX-License-Identifier: GPL-2.0-or-later
"""Flight recorder: --snapshot-on, --set snapshot."""
import json
import os
import signal
import time

from processes import sleeps_in, tell, wait_for
from spinning import change, functions, let_it_tick, program, ticking  # noqa: F401 (fixtures)

NANOSLEEP = 230


def test_snapshot(ticking, read, change, tmp_path):
    recording = ticking("--snapshot-on", "SIGUSR2")
    for number in (1, 2):
        let_it_tick(recording.ticker, 400)
        if number == 1:
            recording.process.send_signal(signal.SIGUSR2)
        else:
            change(recording.trace, "snapshot")
        path = tmp_path / f"t.snapshot-{number}.spoor"
        assert number == 1 or path.exists()
        wait_for(lambda: f"snapshot in {path.name}" in recording.said())
        assert recording.process.poll() is None
        kept = read(path, ended=False)
        assert kept.count() > 50 and not kept.summary["damages"]
        assert all("outer" in functions(c) for c in kept.of("getppid"))
    assert recording.stop() == 0
    assert read(recording.trace).count() > kept.count()
    assert read(path, ended=False).count() == kept.count()


def test_snapshot_that_cannot_be(ticking, change):
    """Its name would be longer than any file's: who asks for it hears it, and so does who started the recording."""
    recording = ticking("--snapshot-on", "SIGUSR2", trace="x" * 240 + ".spoor")
    why = "no snapshot: " + "x" * 240
    assert why in change(recording.trace, "snapshot", refused=True) and why in recording.said()
    assert recording.stop() == 0


def test_snapshot_asked_for_while_one_is_taken(ticking, spoor, change, tmp_path):
    """What led to the last request is in a snapshot, too."""
    recording = ticking("--snapshot-on", "SIGUSR2")
    for _ in range(7):
        asked = time.time()
        let_it_tick(recording.ticker, 1)
        recording.process.send_signal(signal.SIGUSR2)
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
