# SPDX-License-Identifier: GPL-2.0-or-later
"""What happens to programs and recorders on bad days: clocks that jump, limits, no memory, no rights, full disks, names
that collide, walls between namespaces. The program does what it would have done; what is missing is said."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter, defaultdict

import pytest
import tracing
from daemons import ticker  # noqa: F401
from processes import wait_for
from recordings import STEPPING_CLOCK, steps_of, user_events


@pytest.fixture
def daemon(spoor, start, build, tmp_path):
    """daemon("start", "-o", "t.spoor") -> CompletedProcess, of a daemon at tmp_path/sock."""
    place = tmp_path / "sock"
    with open(tmp_path / "daemon.err", "wb") as err:
        process = start(build / "spoor", "daemon", "--socket", place, stderr=err)
    wait_for(lambda: "ready" in (tmp_path / "daemon.err").read_text())
    yield lambda verb, *words: spoor("ust", verb, "--socket", place, *words)
    process.terminate()
    process.wait(20)


def numbers(events, name="zoo:tick"):
    return [e["fields"]["n"] for e in events if e["event"] == name]


# ---- clocks ----

@pytest.mark.parametrize("step, slept", [(-7200, False), (7200, False), (5000, True)], ids=["back", "forth", "sleep"])
def test_clocks_jump(spoor, ticker, tmp_path, step, slept):
    """The wall clock is set, or the machine sleeps, for Spoor alone: stamps stay in order and of the clock as it was at
    the begin, no event is lost, and the manifest tells of the step."""
    source = STEPPING_CLOCK.replace("STEPPED", str(tmp_path / "stepped"))
    (tmp_path / "clock.c").write_text(source.replace("STEP;", f"{step};").replace("SLEPT", str(int(slept))))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "clock.so", "clock.c"], cwd=tmp_path, check=True, timeout=60)
    before = time.time()
    run = spoor("ust", "run", "-o", "t.spoor", "--rotate", "300ms", "--", "sh", "-c",
                f"{ticker} 1 400 2000 & sleep 0.3; env -u LD_PRELOAD touch stepped; wait",
                env=os.environ | {"LD_PRELOAD": str(tmp_path / "clock.so"), "ASAN_OPTIONS": "verify_asan_link_order=0"})
    assert run.returncode == 0 and " 0 lost" in run.stderr, run.stderr
    clocks = json.loads((tmp_path / "t.spoor/manifest").read_text())["clocks"]
    assert steps_of(clocks, "realtime") == [step] and steps_of(clocks, "boottime") == ([step] if slept else [])
    events = user_events(spoor, tmp_path / "t.spoor")
    assert numbers(events) == list(range(400))
    times = [float(e["ts"]) for e in events]
    assert times == sorted(times) and before <= times[0] and times[-1] <= time.time()


# While there is a file `asleep` CLOCK_MONOTONIC stands still, and the TSC goes on.
SLEEPING_CLOCK = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	static long long since, slept;
	long long now;
	int asleep = clock == CLOCK_MONOTONIC && !access("PLACE/asleep", F_OK);
	if (syscall(SYS_clock_gettime, clock, ts) || clock != CLOCK_MONOTONIC)
		return 0;
	now = ts->tv_sec * 1000000000LL + ts->tv_nsec;
	if (asleep)
		since = since ? since : now;
	else if (since) {
		slept += now - since;
		since = 0;
	}
	now = (since ? since : now) - slept;
	ts->tv_sec = now / 1000000000;
	ts->tv_nsec = now % 1000000000;
	return 0;
}
"""


def test_machine_that_sleeps(spoor, ticker, tmp_path):
    """As long as everything else: no event is lost, or of the future, and the time between them is what went by."""
    (tmp_path / "clock.c").write_text(SLEEPING_CLOCK.replace("PLACE", str(tmp_path)))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "clock.so", "clock.c"], cwd=tmp_path, check=True, timeout=60)
    before = time.monotonic()
    run = spoor("ust", "run", "-o", "t.spoor", "--", "sh", "-c", f"{ticker} 1 400 2000 & sleep 0.4; kill -STOP $!; "
                "sleep 0.2; touch asleep; sleep 4; rm asleep; kill -CONT $!; wait",
                env=os.environ | {"LD_PRELOAD": str(tmp_path / "clock.so"), "ASAN_OPTIONS": "verify_asan_link_order=0"})
    awake = time.monotonic() - before - 3  # 4, but for when each first looks at the clock
    assert run.returncode == 0 and " 0 lost" in run.stderr and "no sense" not in run.stderr, run.stderr
    events = [e for e in user_events(spoor, tmp_path / "t.spoor") if e["event"] == "zoo:tick"]
    assert numbers(events) == list(range(400))
    times = [float(e["ts"]) for e in events]
    assert times == sorted(times) and times[-1] - times[0] < awake


# ---- limits and memory ----

LIMITS = {
    "files of 8 KiB": (resource.RLIMIT_FSIZE, 8192),
    "no file at all": (resource.RLIMIT_FSIZE, 0),
    "64 descriptors": (resource.RLIMIT_NOFILE, 64),
    "little address space": (resource.RLIMIT_AS, 6 << 20),
    "no locked memory": (resource.RLIMIT_MEMLOCK, 0),
}


@pytest.mark.parametrize("alone", [False, True], ids=["recorder", "alone"])
@pytest.mark.parametrize("what", LIMITS)
def test_limits(spoor, build, ticker, tmp_path, what, alone):
    """What a program may not have, its tracer does without. The program is none the worse."""
    which, value = LIMITS[what]

    def limit():
        resource.setrlimit(which, (value, value))
    program = ["sh", "-c", f"ulimit -c 0; exec {ticker} 1 1000"]
    plain = subprocess.run(program, capture_output=True, preexec_fn=limit, timeout=20)
    env = tracing.environment(build, tmp_path / "alone")
    if alone:
        run = subprocess.run(program, env=env, capture_output=True, preexec_fn=limit, timeout=20)
    else:
        name = {resource.RLIMIT_FSIZE: "fsize", resource.RLIMIT_NOFILE: "nofile", resource.RLIMIT_AS: "as",
                resource.RLIMIT_MEMLOCK: "memlock"}[which]
        run = spoor("ust", "run", "-o", "t.spoor", "--", "prlimit", f"--{name}={value}:{value}", *program, text=False)
    assert (run.returncode, run.stdout) == (plain.returncode, plain.stdout), run


@pytest.mark.parametrize("size", [0, 400 << 10])
def test_file_size_limit(spoor, ticker, tmp_path, size):
    """The recorder's own (ulimit -f) is as a full disk to it; the command goes on, and what was written is there.
    A packet that finds no room is lost as a whole, and a smaller one that comes before the end may find some. Up to
    where that was, each event that is missing is counted, and each other one is there once, in order."""
    command = "sh", "-c", f"ulimit -f unlimited; {ticker} 1 30000 10 && echo done"
    run = spoor("ust", "run", "-o", "t.spoor", "--", *command,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY)))
    assert run.returncode == 125 and run.stderr.count("File too large") == 1, run
    if size:
        assert run.stdout == "ready\ndone\n" and "raise the limit (ulimit -f)" in run.stderr, run
        written, lost = map(int, re.search(r"(\d+) events? of 1 program, ([1-9]\d*) lost", run.stderr).groups())
        *events, summary = map(json.loads, spoor("report", "-f", "json", "t.spoor").stdout.splitlines())
        assert len(events) == written and not summary["ended"] and not summary["damages"]
        done = [(name, n) for n in range(30000) for name in (["zoo:tick"] if n % 10 else ["zoo:tick", "zoo:rare"])]
        place = {event: i for i, event in enumerate(done)}
        there = [place[e["event"], e["fields"]["n"]] for e in events]
        assert there[0] == 0 and there == sorted(set(there)) and there[-1] < written + lost <= len(done)
        assert summary["discarded"] == lost == summary["lost_writing"]


GIVES_UP_ROOT = """
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
int main(void)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct caps[2] = { { 1 << CAP_SETGID, 1 << CAP_SETGID, 0 } };
	gid_t groups[] = { 12346 };

	spoor_trace(zoo, tick, 0);
	prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
	if (setresuid(12345, 12345, 12345) || syscall(SYS_capset, &head, caps) || setgroups(1, groups) || setgid(12346))
		return 1;
	spoor_trace(zoo, tick, 1);
	printf("%d %d\\n", getuid(), getgid());
}
"""


def test_program_that_gives_up_root(spoor, tmp_path):
    """And keeps a capability, as servers do: libc ends it if a thread of ours may not what it may."""
    (tmp_path / "server.c").write_text(GIVES_UP_ROOT)
    tracing.build_program(tmp_path / "server", tmp_path / "server.c")
    run = spoor("ust", "run", "-o", "t.spoor", "--", "./server")
    assert run.returncode == 0 and run.stdout == "12345 12346\n", run
    assert numbers(user_events(spoor, tmp_path / "t.spoor")) == [0, 1]


def test_memory_of_a_cgroup(spoor, ticker, memory_group, tmp_path):
    """In a group whose memory they do not fit into, buffers take what is written, not what they may."""
    run = spoor("ust", "run", "--buffers", "64M", "-o", "t.spoor", "--", "sh", "-c",
                f"echo $$ > {memory_group(8 << 20)}/cgroup.procs && exec {ticker} 2 20000 1")
    assert run.returncode == 0 and run.stdout == "ready\n", run
    assert len(numbers(user_events(spoor, tmp_path / "t.spoor"))) == 40000


# ---- places and names ----

def test_unwritable_places(spoor, daemon, ticker, tmp_path):
    """A line that names the place, and nothing is begun."""
    (tmp_path / "file").write_text("")
    for place in "/proc/t.spoor", tmp_path / "missing/t.spoor", tmp_path / "file/t.spoor":
        done = daemon("start", "-o", place)
        assert done.returncode == 1 and str(place) in done.stderr and done.stderr.count("\n") == 1, done
        assert "no session" in daemon("end").stderr
    assert daemon("start", "-o", tmp_path / "t.spoor").returncode == 0
    for place in "/proc/s.spoor", tmp_path / "missing/s.spoor", tmp_path / "t.spoor":
        done = daemon("snapshot", "-o", place)
        assert done.returncode == 1 and str(place) in done.stderr, done
    assert daemon("end").returncode == 0
    done = spoor("daemon", "--socket", tmp_path / "missing/sock")
    assert done.returncode == 1 and "missing/sock" in done.stderr
    done = spoor("daemon", "--socket", tmp_path / "file")
    assert done.returncode == 1 and str(tmp_path / "file") in done.stderr and (tmp_path / "file").exists()
    long = tmp_path / ("x" * 120)
    done = spoor("daemon", "--socket", long)
    assert done.returncode == 1 and "too long" in done.stderr


ONE_NAME = """
#include <stdio.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(TYPE value), TP_ARGS(value), TP_FIELDS(WHAT))
int main(void)
{
	for (int i = 0; i < 100; i++)
		spoor_trace(zoo, tick, VALUE);
}
"""


def test_one_name_for_different_events(spoor, tmp_path):
    """Programs that declare one name differently are in one trace, each with its own fields, for babeltrace2 too."""
    kinds = {"number": ("int", "spoor_int(int, value, value)", "i"),
             "text": ("const char *", "spoor_string(value, value)", '"text"'),
             "other": ("double", "spoor_float(double, other, value)", "i / 2.0")}
    for name, (kind, field, value) in kinds.items():
        source = ONE_NAME.replace("TYPE", kind).replace("WHAT", field).replace("VALUE", value)
        (tmp_path / f"{name}.c").write_text(source)
        tracing.build_program(tmp_path / name, tmp_path / f"{name}.c")
    run = spoor("ust", "run", "-o", "t.spoor", "--", "sh", "-c", "./number & ./text & ./other & ./number & wait")
    assert run.returncode == 0, run.stderr
    found = [tuple(e["fields"].items())[0] for e in user_events(spoor, tmp_path / "t.spoor")]
    count = Counter(found)
    assert all(count["value", i] == 2 and count["other", i / 2] == 1 for i in range(100))
    assert count["value", "text"] == 100 and count.total() == 400
    babel = subprocess.run(["babeltrace2", tmp_path / "t.spoor"], capture_output=True, text=True, timeout=60)
    assert babel.returncode == 0 and babel.stdout.count("zoo:tick") == 400, babel.stderr
    assert babel.stdout.count('value = "text"') == 100 and babel.stdout.count("other = ") == 100


# ---- segments ----

@pytest.mark.parametrize("how", ["daemon", "run"])
@pytest.mark.parametrize("rotate", ["1M", "400ms"])
def test_rotation(request, spoor, build, ticker, tmp_path, how, rotate):
    """By size and by time: each segment is read alone by babeltrace2, and all of them hold all events once."""
    ticks, pause = (40000, 1) if rotate == "1M" else (400, 4000)
    if how == "run":
        assert spoor("ust", "run", "-o", "t.spoor", "--rotate", rotate, "--", ticker, 2, ticks, pause).returncode == 0
    else:
        daemon = request.getfixturevalue("daemon")
        assert daemon("start", "-o", tmp_path / "t.spoor", "--rotate", rotate).returncode == 0
        env = tracing.environment(build, None, SPOOR_UST_SOCKET=tmp_path / "sock")
        subprocess.run([ticker, "2", str(ticks), str(pause)], env=env, check=True, stdout=subprocess.DEVNULL)
        assert " 0 lost" in daemon("end").stdout
    segments = sorted((tmp_path / "t.spoor").glob("*/ust/seg-*"))
    assert len(segments) > 2
    seen = Counter()
    for segment in segments:
        babel = subprocess.run(["babeltrace2", segment], capture_output=True, text=True, timeout=60)
        assert babel.returncode == 0, (segment, babel.stderr)
        seen["tick"] += babel.stdout.count("zoo:tick")
        seen["rare"] += babel.stdout.count("zoo:rare")
    assert seen == {"tick": 2 * ticks, "rare": 2 * ticks // 10}
    events = user_events(spoor, tmp_path / "t.spoor")
    for thread in 0, 1:
        mine = [e for e in events if e["event"] == "zoo:tick" and e["fields"]["thread"] == thread]
        assert numbers(mine) == list(range(ticks))


# ---- crowds ----

def shmem():
    return int(next(line.split()[1] for line in open("/proc/meminfo", encoding="ascii") if line.startswith("Shmem:")))


def test_many_programs_with_default_buffers(daemon, build, spoor, ticker, tmp_path):
    """A thousand at once that write little: of their 4 MiB each, what they use is there."""
    assert daemon("start", "-o", tmp_path / "t.spoor").returncode == 0
    env = tracing.environment(build, None, SPOOR_UST_SOCKET=tmp_path / "sock")
    before = shmem()
    running = [subprocess.Popen([ticker, "1", "9999", "30000"], env=env, stdout=subprocess.PIPE) for _ in range(1000)]
    for p in running:
        assert p.stdout.readline() == b"ready\n"
        p.stdout.close()
    wait_for(lambda: daemon("status").stdout.count(" ticker") >= 1000, 200, 0.2)
    kib = (shmem() - before) / 1000
    for p in running:
        p.send_signal(signal.SIGKILL)
        p.wait()
    print(f"{kib:.0f} KiB a program")
    assert kib < 512
    wait_for(lambda: " ticker" not in daemon("status").stdout, 60, 0.2)
    assert ", 0 lost" in daemon("end").stdout
    per_program = Counter(e["pid"] for e in user_events(spoor, tmp_path / "t.spoor") if e["event"] == "zoo:tick")
    assert sorted(per_program) == sorted(p.pid for p in running) and min(per_program.values()) > 0


# ---- walls ----

WALLS = {
    "pid and mount": ["--pid", "--mount", "--mount-proc"],
    "user, pid and mount": ["--user", "--map-root-user", "--pid", "--mount", "--mount-proc"],
    "ipc, net and uts": ["--ipc", "--net", "--uts"],
}


@pytest.mark.parametrize("wall", WALLS)
def test_socket_in_a_container(daemon, build, spoor, ticker, tmp_path, wall):
    """The directory of the daemon's socket, the program and the library, mounted at other places: it works, under the
    host's numbers."""
    assert daemon("start", "-o", tmp_path / "t.spoor").returncode == 0
    inner = tmp_path / "inner"
    inner.mkdir()
    mounts = ""
    if "--mount" in WALLS[wall]:
        mounts = (f"mount --make-rprivate / && mount --bind {tmp_path} /mnt && mount -t tmpfs none {inner} && "
                  f"mkdir {inner}/s && touch {inner}/l {inner}/p && "
                  f"mount --bind /mnt {inner}/s && mount --bind {tracing.agent(build)} {inner}/l && "
                  f"mount --bind {ticker} {inner}/p && ")
        s, l, p = inner / "s/sock", inner / "l", inner / "p"
    else:
        s, l, p = tmp_path / "sock", tracing.agent(build), ticker
    run = subprocess.run(["unshare", "--fork", *WALLS[wall], "sh", "-c",
                          f"{mounts} exec env SPOOR_UST_SOCKET={s} LD_PRELOAD={l} {p} 2 211"],
                         capture_output=True, text=True, timeout=30)
    assert run.returncode == 0 and run.stdout == "ready\n", run
    assert ", 0 lost" in daemon("end").stdout
    events = user_events(spoor, tmp_path / "t.spoor")
    assert sorted(numbers(events)) == sorted([*range(211)] * 2)
    assert {e["pid"] for e in events}.isdisjoint({1, 2, 3}) and len({e["pid"] for e in events}) == 1


@pytest.mark.parametrize("mode", ["discard", "overwrite"])
def test_threads_of_containers_that_have_ended(daemon, build, spoor, ticker, tmp_path, mode):
    """Each container calls its threads 1, 2, 3. Whose is whose is known also when there is nobody left to be asked."""
    assert daemon("start", "-o", tmp_path / "t.spoor", "--mode", mode).returncode == 0
    env = tracing.environment(build, None, SPOOR_UST_SOCKET=tmp_path / "sock")
    running = [subprocess.Popen(["unshare", "--fork", "--pid", ticker, "3", "101"], env=env, stdout=subprocess.DEVNULL)
               for _ in range(6)]
    assert not any(p.wait(30) for p in running)
    assert ", 0 lost" in daemon("end").stdout
    found, tids = defaultdict(list), {}
    for e in user_events(spoor, tmp_path / "t.spoor"):
        if e["event"] == "zoo:tick":
            found[e["pid"], e["fields"]["thread"]].append(e["fields"]["n"])
            tids.setdefault((e["pid"], e["fields"]["thread"]), set()).add(e["tid"])
    assert len(found) == 18 and all(n == list(range(101)) for n in found.values()), list(found)
    assert len({tid for of_one in tids.values() for tid in of_one}) == 18 and all(len(t) == 1 for t in tids.values())
    assert all(tids[pid, 0] == {pid} for pid, _ in found)


def test_threads_of_containers_over_segments(daemon, build, spoor, ticker, tmp_path):
    """A thread has the number that the host gave it, also where its last events are in a segment that began when it had
    ended."""
    assert daemon("start", "-o", tmp_path / "t.spoor", "--rotate", "1ms").returncode == 0
    env = tracing.environment(build, None, SPOOR_UST_SOCKET=tmp_path / "sock")
    running = [subprocess.Popen(["unshare", "--fork", "--pid", ticker, "3", str(150 + 10 * i), "5000"], env=env,
                                stdout=subprocess.DEVNULL) for i in range(4)]
    assert not any(p.wait(30) for p in running)
    assert ", 0 lost" in daemon("end").stdout
    assert len(list(tmp_path.glob("t.spoor/*/ust/seg-*"))) > 3
    tids = defaultdict(set)
    for e in user_events(spoor, tmp_path / "t.spoor"):
        if e["event"] == "zoo:tick":
            tids[e["pid"], e["fields"]["thread"]].add(e["tid"])
    assert len(tids) == 12 and all(len(t) == 1 for t in tids.values()), dict(tids)


def test_socket_that_may_not_be_used(daemon, build, ticker, tmp_path):
    """By its permissions, as a container's user sees it: the program runs on, and `end` says that nobody came."""
    assert daemon("start", "-o", tmp_path / "t.spoor").returncode == 0
    (tmp_path / "sock").chmod(0o600)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        shutil.copy(ticker, f"{place}/ticker")
        shutil.copy(tracing.agent(build), f"{place}/library.so")
        env = {"SPOOR_UST_SOCKET": str(tmp_path / "sock"), "LD_PRELOAD": f"{place}/library.so"}
        run = subprocess.run([f"{place}/ticker", "1", "10"], env=env, user=12345, group=12345, extra_groups=[],
                             capture_output=True, text=True, timeout=20)
    assert run.returncode == 0 and run.stdout == "ready\n", run
    assert "no program with sites came" in daemon("end").stdout


@pytest.mark.parametrize("name", ["with a space", "a:colon"])
def test_library_at_a_place_that_cannot_be_preloaded(spoor, build, ticker, tmp_path, name):
    """Its path would be taken for several: that is said, once and not by the loader, and the command runs."""
    (tmp_path / name).mkdir()
    library = shutil.copy(tracing.agent(build), tmp_path / name / "libspoor-ust.so")
    run = spoor("ust", "run", "-o", "t.spoor", "--", "sh", "-c", f"{ticker} 1 10; {ticker} 1 10",
                env=os.environ | {"SPOOR_UST_LIBRARY": library})
    assert run.returncode == 0 and run.stdout == "ready\n" * 2 and "ld.so" not in run.stderr, run.stderr
    assert run.stderr.count(str(library)) == 1 and "only programs that are linked with it are traced" in run.stderr


def test_missing_library(spoor, build, ticker, tmp_path):
    """Said before the command runs; and again when nothing came."""
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "spoor").write_bytes((build / "spoor").read_bytes())
    (alone / "spoor").chmod(0o755)
    run = subprocess.run([alone / "spoor", "ust", "run", "-o", "t.spoor", "--", ticker, "1", "10"], cwd=tmp_path,
                         capture_output=True, text=True, timeout=20)
    assert "libspoor-ust" in run.stderr and "no event came" in run.stderr, run


def test_more_kinds_of_events_than_can_be_defined(build, spoor, tmp_path):
    """What there are no numbers for is lost, by the event, and said; what there are numbers for has room."""
    n, most = 9000, 8191
    source = tmp_path / "many.c"
    with open(source, "w", encoding="ascii") as out:
        out.write('#include <spoor/tracepoint.h>\n')
        for i in range(n):
            out.write(f"SPOOR_TRACEPOINT(many, e{i}, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))\n")
        out.write("int main(void)\n{\n")
        for i in range(n):
            out.write(f"\tspoor_trace(many, e{i}, {i});\n")
        out.write("}\n")
    subprocess.run(["gcc", "-w", f"-I{tracing.INCLUDE}", "-o", tmp_path / "many", source], check=True, timeout=200)
    run = spoor("ust", "run", "-o", "t.spoor", "--", tmp_path / "many")
    assert f"{most} events of 1 program, {n - most} lost" in run.stderr
    run = spoor("ust", "run", "--filter", "n < 8500", "-o", "u.spoor", "--", tmp_path / "many")
    assert f"{most} events of 1 program, {8500 - most} lost" in run.stderr
    _, (trace,) = tracing.traced(build, tmp_path / "out", tmp_path / "many")
    assert len(trace.events) == most and trace.lost() == n - most
