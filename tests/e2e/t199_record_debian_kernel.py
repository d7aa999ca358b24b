# SPDX-License-Identifier: GPL-2.0-or-later
"""On Debian 12's own kernel, which knows less than newer ones (its verifier, too): booted by qemu, all in memory, with
bash as its init."""
import json
import shutil
import subprocess
from pathlib import Path

import pytest

import tracing
from recordings import steps_of

PROGRAMS = ["bash", "cat", "date", "mkdir", "mount", "mv", "sleep", "tail", "umount"]
DIRECTORIES = ["proc", "sys", "dev", "tmp", "root", "var/cache"]
INIT = """#!/bin/bash
export PATH=/bin HOME=/root
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
cd /tmp
mkdir deep
echo one > deep/file
say() { echo; echo "== $1"; cat; echo; }
spoor check | say check
spoor record -m all -S 64 -o run.spoor -- bash -c 'cat < deep/file; mv deep depth; cat < depth/file' 2>&1 | say record
spoor report --format json run.spoor | say trace
sleep 1000 &
spoor record -p $! --duration 1s -o hung.spoor 2>&1 | say record
spoor report --blocked --format json hung.spoor | say blocked
spoor stat -- cat depth/file 2>&1 | say stat
spoor stat --by site -- cat depth/file 2>&1 | say sites
mount -t securityfs none /sys/kernel/security
echo integrity >/sys/kernel/security/lockdown
echo 'ticker 1 0 20000 >/dev/null & sleep 0.5; date -s "+1 hour"; sleep 0.5
echo +20 >/sys/class/rtc/rtc0/wakealarm; echo mem >/sys/power/state; sleep 0.5
kill $!' >clocks
spoor record --ust --rotate 200ms -o clocks.spoor -- bash clocks 2>&1 | say record
spoor report --format json clocks.spoor | say clocks
cat clocks.spoor/manifest | say manifest
echo confidentiality >/sys/kernel/security/lockdown
spoor check --format json | say locked
for verb in "record -o no.spoor" stat; do spoor $verb -- cat depth/file 2>&1; echo "code $?"; done | say refused
umount /sys/kernel/security
spoor check --format json | say "locked, not told of"
echo == end
echo o > /proc/sysrq-trigger
sleep 100
"""


def libraries(program):
    """Those that it is linked with, and its loader."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [word for line in out.splitlines() for word in line.split() if word.startswith("/")]


def archive(files):
    """As the kernel unpacks it (buffer-format.rst, "newc"): {path: (mode, bytes)}."""
    out = bytearray()
    for number, (path, (mode, data)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        name = path.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
        out += b"070701" + b"".join(b"%08x" % f for f in fields) + name
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def root_of(build, ticker):
    files = {}

    def add(path, mode, data):
        for parent in reversed(Path(path).parents[:-1]):
            files.setdefault(str(parent), (0o40755, b""))
        files[path] = (mode, data)

    for directory in DIRECTORIES:
        add(directory, 0o40755, b"")
    add("init", 0o100755, INIT.encode())
    for program in [str(build / "spoor"), ticker, build / "src/agent/libspoor-ust.so",
                    *map(shutil.which, PROGRAMS)]:
        add("bin/" + Path(program).name, 0o100755, Path(program).read_bytes())
        for library in libraries(program):
            add(library.lstrip("/"), 0o100755, Path(library).read_bytes())
    return archive(files)


def has_downloaded(directory):
    """Whether the archive has the package that the machine's lists name."""
    depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True).stdout
    package = next((line.split()[-1] for line in depends.splitlines() if "Depends: linux-image-" in line), None)
    return package and subprocess.run(["apt-get", "-q", "download", package], cwd=directory).returncode == 0


def debian_kernel(directory):
    """The image of the kernel that Debian's cloud machines have, unpacked here, not installed."""
    if not has_downloaded(directory):
        subprocess.run(["apt-get", "-q", "update"])  # the archive keeps none that newer lists do not name
        if not has_downloaded(directory):
            pytest.skip("the archive's kernel cannot be had")
    subprocess.run(["dpkg", "-x", *directory.glob("linux-image-*.deb"), directory], check=True)
    return next((directory / "boot").glob("vmlinuz-*"))


@pytest.fixture(scope="module")
def said(build, tmp_path_factory):
    """What each part of INIT said, line by line."""
    directory = tmp_path_factory.mktemp("kernel")
    kernel = debian_kernel(directory)
    root = directory / "root"
    root.write_bytes(root_of(build, tracing.build_program(directory / "ticker", "ust_ticker.c")))
    run = subprocess.run(
        ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "1500", "-nographic", "-no-reboot", "-net", "none",
         "-kernel", kernel, "-initrd", root, "-append", "console=ttyS0 rdinit=/init panic=-1 loglevel=0"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=600)
    parts, name = {}, None
    for line in run.stdout.replace("\r", "").splitlines():
        if line.startswith("== "):
            name = line[3:]
        if name and line:
            parts.setdefault(name, []).append(line)
    assert "end" in parts, run.stdout[-3000:] + run.stderr
    return parts


def events(lines):
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_check_says_what_is_true(said):
    assert "Recording is possible here." in said["check"]
    assert not [line for line in said["record"] if "refuse" in line or "cannot" in line]


def test_stacks_are_walked_to_their_ends(said):
    """But for those of programs that end before Spoor has looked at their files."""
    summary = events(said["trace"])[-1]
    assert summary["calls"] > 200 and summary["discarded"] == 0
    assert summary["no_stack"] == 1  # the execve that began it
    assert summary["walks"]["complete"] >= 0.9 * sum(summary["walks"].values())


def test_descriptors_are_known_and_called_as_they_are_then(said):
    read = [e["args"]["fd"].get("path") for e in events(said["trace"])
            if e["event"] == "read" and e["comm"] == "cat" and e["args"]["fd"]["fd"] == 0]
    assert read == ["/tmp/deep/file"] * 2 + ["/tmp/depth/file"] * 2
    assert {e["args"]["dfd"]["path"] for e in events(said["trace"])
            if e["event"] == "openat" and e["args"]["dfd"]["fd"] == -100} == {"/tmp"}


def test_what_hangs_is_told_of_with_its_stack(said):
    (call,) = [e for e in events(said["blocked"]) if e["event"] == "clock_nanosleep"]
    assert call["comm"] == "sleep" and call["walk"] == "complete" and len(call["stack"]) > 2


def test_calls_are_counted_by_call_and_by_site(said):
    reads = [line.split() for line in said["stat"] if " read " in line]
    assert len(reads) == 1 and int(reads[0][3]) >= 3
    assert [line for line in said["sites"] if " read " in line and "cat+0x" in line]


def test_clock_is_set_and_the_machine_sleeps(said):
    """While it is recorded, on a kernel that is locked down for integrity. (t150 has more of clocks, faked.)"""
    manifest = json.loads("".join(said["manifest"][1:]))
    (slept,) = steps_of(manifest["clocks"], "boottime")
    assert 1 <= slept <= 21 and steps_of(manifest["clocks"], "realtime") == [3600, slept]
    *calls, summary = events(said["clocks"])
    times = [float(c["ts"]) for c in calls]
    assert times == sorted(times) and times[-1] - times[0] < 1000 and summary["calls"] > 200
    assert [c["ret"] for c in calls if c["event"] == "clock_settime"] == [0]
    (sleep,) = [c for c in calls if c["event"] == "write" and c["args"]["fd"].get("path") == "/sys/power/state"]
    assert sleep["ret"] == 4 and sleep["dur"] < slept * 10**9


def test_programs_own_events_over_that(said):
    """Each tick stands between its thread's sleeps, by the kernel's stamps; the machine's sleep is between no two."""
    manifest = json.loads("".join(said["manifest"][1:]))
    (slept,) = steps_of(manifest["clocks"], "boottime")
    own = [e for e in events(said["clocks"])[:-1]
           if e["comm"] == "ticker" and e["event"] in ("zoo:tick", "clock_nanosleep")]
    ticks = own[::2]
    assert {e["event"] for e in ticks} == {"zoo:tick"} and {e["event"] for e in own[1::2]} == {"clock_nanosleep"}
    assert [e["fields"]["n"] for e in ticks] == list(range(len(ticks))) and len(ticks) > 20
    times = [float(e["ts"]) for e in ticks]
    assert max(b - a for a, b in zip(times, times[1:])) < slept


@pytest.mark.parametrize("part, words", [("locked", "[confidentiality]"),
                                         ("locked, not told of", "bpf_probe_read_kernel is refused")])
def test_check_tells_of_a_locked_down_kernel(said, part, words):
    found = {c["check"]: c for c in events(said[part])}
    assert found["lockdown"]["state"] == "no" and words in found["lockdown"]["detail"]
    assert "lockdown=integrity" in found["lockdown"]["advice"]
    assert {c["advice"] for c in found.values() if c["state"] == "no"} == {found["lockdown"]["advice"], "see lockdown"}


def test_locked_down_kernel_refuses(said):
    _, *lines = said["refused"]
    assert lines[1::2] == ["code 125"] * 2
    for verb, line in zip(("record", "stat"), lines[::2]):
        assert line.startswith(f"spoor {verb}: this kernel is locked down (none integrity [confidentiality]): ")
