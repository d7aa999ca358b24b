# SPDX-License-Identifier: GPL-2.0-or-later
"""Call stacks of user events: which objects they name, in every way in which a trace comes to be."""
import fcntl
import json
import mmap
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from random import Random

import pytest

import tracing
from fakeprogram import message
from t311_ust_control import daemon, library # noqa: F401 (fixtures)
from t314_ust_hostile_recorder import rule

FP = ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]
ALONE = {"SPOOR_UST_CONTEXT": "callstack", "SPOOR_UST_STACK": "all,64"} # without a recorder
OWN = ["inner", "middle", "outer"]


@pytest.fixture(scope="session")
def chain(tmp_path_factory):
    """The program, and plugins that are laid out alike."""
    out = tmp_path_factory.mktemp("chain")
    program = tracing.build_program(out / "chain", "ust_chain.c", *FP)
    for name in ("one", "two"):
        tracing.build_program(out / f"{name}.so", "ust_chain_plugin.c", *FP, f"-DNAME={name}", "-shared", "-fPIC")
    return program


@pytest.fixture
def events(spoor):
    def read(path, *options):
        run = spoor("report", "--format", "json", *options, path)
        assert run.returncode == 0, run.stderr
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        assert not lines[-1]["damages"], lines[-1]
        return [e for e in lines[:-1] if e["event"] == "chain:end"]
    return read


def functions(event):
    return [f.get("function") for f in event["stack"]]


def wanted(plugin):
    """Of an event: functions up to main, and the plugin's object."""
    return OWN + ([plugin, "call"] if plugin else [])


def check(event, plugin, chain):
    names = functions(event)
    n = len(wanted(plugin))
    assert names[:n] == wanted(plugin) and "main" in names, names
    assert [f["line"] > 0 and f["file"].endswith(".c") for f in event["stack"][:n]] == [True] * n
    objects = [f["object"] for f in event["stack"][:n]]
    assert objects == [str(chain)] * 3 + [str(chain.parent / f"{plugin}.so")] * (n - 3)


PLUGINS = ["one", "two", "one", "two"]


def arguments(chain):
    return [str(chain)] + [str(chain.parent / f"{p}.so") for p in PLUGINS]


def check_all(found, chain, times=1):
    assert [e["fields"]["n"] for e in found] == list(range(len(PLUGINS) + 1)) * times
    for e in found:
        check(e, ([None] + PLUGINS)[e["fields"]["n"]], chain)


def test_plugins_where_others_were(spoor, chain, events):
    """Four objects, of two files, one after another at the same address."""
    run = spoor("ust", "run", "--context", "ip", "--stack", "all,64", "-o", "t.spoor", "--", *arguments(chain))
    assert run.returncode == 0, run.stderr
    found = events("t.spoor")
    check_all(found, chain)
    for e in found:
        assert e["walk"] == e["context"]["callstack_status"]["name"]
        assert e["way"] == e["context"]["callstack_way"]["name"]
    text = spoor("report", "--events", "--stacks", "t.spoor").stdout
    assert text.count("> inner ") == 5 and "ust_chain_plugin.c:" in text


def test_they_are_at_one_address(build, chain, tmp_path):
    """Else the test before shows nothing. The definitions in the arena say where they were, and since when."""
    _, (trace,) = tracing.traced(build, tmp_path / "out", *arguments(chain), **ALONE)
    plugins = [o for o in trace.objects if o.path.endswith(("/one.so", "/two.so"))]
    assert [os.path.basename(o.path) for o in plugins] == [p + ".so" for p in PLUGINS]
    assert len({o.start for o in plugins}) == 1 and len({o.bias for o in plugins}) == 1
    assert sorted(o.since for o in plugins) == [o.since for o in plugins]
    own, = [o for o in trace.objects if o.path == str(chain)]
    assert own.since == 0 and own.flags == 1
    for o in [own, *plugins]:
        assert o.ino == os.stat(o.path).st_ino and o.size == os.stat(o.path).st_size and len(o.build_id) == 40


def test_recovered_without_the_program(spoor, build, chain, tmp_path, events):
    out = tmp_path / "alone"
    tracing.traced(build, out, *arguments(chain), **ALONE)
    run = spoor("ust", "recover", out, "-o", "t.spoor")
    assert run.returncode == 0, run.stderr
    check_all(events("t.spoor"), chain)


def test_the_same_as_babeltrace2(spoor, chain, events, tmp_path):
    """It shows status, way and id, and the stack of that id has the frames that we show."""
    spoor("ust", "run", "--stack", "all,64", "-o", "t.spoor", "--", *arguments(chain))
    run = subprocess.run(["babeltrace2", "t.spoor"], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    ids = [line.split("callstack = ")[1].split(" ")[0] for line in lines if " chain:end: " in line]
    assert len(ids) == 5 and len(set(ids)) == 3 # the same plugin's is the same stack
    for i, event in zip(ids, events("t.spoor"), strict=True):
        assert int(i) >> 31
        line, = [k for k in lines if " spoor:stack: " in k and f"id = {i}," in k]
        assert f"n = {len(event['stack'])}," in line
        assert all(f"offset = 0x{int(f['offset'], 16):X}," in line for f in event["stack"])
    assert all("callstack_status = ( " in k and "callstack_way = ( " in k for k in lines if " chain:end: " in k)


def test_packed(spoor, chain, events, tmp_path):
    """The objects are gone: what was packed tells their lines."""
    place = tmp_path / "place"
    shutil.copytree(chain.parent, place)
    moved = place / "chain"
    spoor("ust", "run", "--stack", "all,64", "-o", "t.spoor", "--", *arguments(moved))
    run = spoor("pack", "t.spoor")
    assert run.returncode == 0 and "two.so" in run.stdout + run.stderr, run
    shutil.rmtree(place)
    check_all(events("t.spoor"), moved)


def test_replaced_objects_are_not_believed(spoor, chain, tmp_path):
    place = tmp_path / "place"
    shutil.copytree(chain.parent, place)
    spoor("ust", "run", "--stack", "all,64", "-o", "t.spoor", "--", *arguments(place / "chain"))
    os.remove(place / "one.so")
    shutil.copy(place / "two.so", place / "one.so")
    run = spoor("report", "--events", "--stacks", "t.spoor")
    assert "one.so: changed since the recording" in run.stdout + run.stderr
    assert "> one.so+0x" in run.stdout and "> two " in run.stdout


def again(program):
    """Lets it go on to its second round."""
    program.stdin.write(b"\n")
    program.stdin.flush()
    assert program.wait(20) == 0


@pytest.fixture
def twice(daemon, chain):
    """A program that has done the first round of two under a session of the daemon."""
    daemon.ust("start", "-o", "t.spoor", "--stack", "all,64")
    return daemon.program(*arguments(chain), stdin=subprocess.PIPE, TWICE="1")


def test_in_every_segment(daemon, twice, chain, events):
    """A snapshot between the rounds begins a segment: each has what its events refer to."""
    daemon.ust("snapshot", "-o", "shot.spoor")
    check_all(events("shot.spoor"), chain)
    again(twice)
    daemon.ust("end")
    check_all(events("t.spoor"), chain, 2)


def test_a_recorder_that_goes_on(daemon, twice, chain, events):
    """Killed between the rounds: ids of the second one's stacks are not those of the first one's."""
    time.sleep(0.5)
    daemon.kill()
    daemon.start()
    again(twice)
    daemon.ust("end")
    check_all(events("t.spoor"), chain, 2)


def test_with_the_kernel_side(spoor, chain, events):
    """Both parts in one trace, each with its own numbers of stacks and objects."""
    run = spoor("record", "--ust", "--ust-context", "callstack", "-m", "all", "-S", "64", "-o", "t.spoor", "--",
                *arguments(chain))
    assert run.returncode == 0, run.stderr
    check_all(events("t.spoor"), chain)


# ---- walks, with backtrace() as oracle ----

def static(build, *flags):
    """Flags that link the library into the program."""
    return [*flags, "-Wl,--whole-archive", str(build / "src/agent/libspoor-ust.a"), "-Wl,--no-whole-archive",
            "-lurcu-bp", "-ldl"]


WAYS = {"default": [], "O0": ["-O0"], "O3": ["-O3"], "no-pie": ["-fno-pie", "-no-pie"],
        "frame-pointers": ["-fno-omit-frame-pointer"], "static": ["-static"], "static-pie": ["-static-pie"]}


@pytest.fixture(scope="session")
def walks(build, tmp_path_factory):
    """walks(way) -> the program, built so. Without frame pointers but where the way says otherwise."""
    out, made = tmp_path_factory.mktemp("walks"), {}
    tracing.build_program(out / "one.so", "ust_chain_plugin.c", "-fomit-frame-pointer", "-fno-optimize-sibling-calls",
                          "-DNAME=one", "-shared", "-fPIC")

    def get(way, compiler="g++"):
        if (way, compiler) not in made:
            flags = WAYS[way]
            if way.startswith("static"):
                flags = static(build, *flags)
            made[way, compiler] = tracing.build_program(out / f"{way}-{compiler}", "ust_walks.cc",
                                                        "-fomit-frame-pointer", *flags, compiler=compiler)
        return made[way, compiler]
    return get


def told(stdout):
    """What backtrace() said at each place: {n: [(object, offset)]}."""
    places = {}
    for line in stdout.splitlines():
        if line.startswith("at "):
            n, frames = line[3:].split(":", 1)
            assert int(n) not in places
            places[int(n)] = [tuple(f.rsplit("+", 1)) for f in frames.split()]
    return places


def run_walks(spoor, program, *options, plugin=True):
    arguments = [program.parent / "one.so"] if plugin else []
    run = spoor("ust", "run", *options, "-o", "t.spoor", "--", program, *arguments)
    assert run.returncode == 0 and run.stdout.endswith("done\n"), run.stderr
    report = spoor("report", "--format", "json", "t.spoor")
    events = [json.loads(line) for line in report.stdout.splitlines()[:-1]]
    return told(run.stdout), [e for e in events if "walks" in e["event"]]


def frames(event):
    return [(f["object"], f["offset"]) for f in event["stack"] if not f.get("inlined")]


@pytest.mark.parametrize("way, compiler", [(w, "g++") for w in WAYS] + [("default", "clang++"), ("O0", "clang++")])
def test_as_backtrace_says(spoor, walks, way, compiler):
    """Exceptions, signals over leaves, signal stacks, makecontext, threads, callbacks, forks, 600 frames."""
    is_static = way.startswith("static") # dlopen() is none of its things
    places, events = run_walks(spoor, walks(way, compiler), "--stack", "all,512", plugin=not is_static)
    walked = [e["fields"]["n"] for e in events]
    assert sorted(walked) == sorted(places) and len(walked) >= 28
    for e in events:
        n, found, oracle = e["fields"]["n"], frames(e), places[e["fields"]["n"]]
        if n == 400 and not is_static: # the plugin had come that moment
            assert e["way"] == "frame pointers"
            continue
        assert e["way"] == "rows", e
        if n == 600:
            assert e["walk"] == "budget" and len(found) == 512
            oracle = oracle[:512]
        elif n == 90: # the begin of a context has no caller, and says so or not
            assert e["walk"] in ("complete", "no rows")
        else:
            assert e["walk"] == "complete", e
        assert found[1:] == oracle[1:], (n, found, oracle)
        assert found[0][0] == oracle[0][0]
        assert e["stack"][0]["function"].split("::")[-1].split("(")[0] in ("at", "mark")


def limited(stack, limit):
    """The scope of mode lib and custom: so many of each object."""
    taken, left = [], {}
    for path, offset in stack:
        left.setdefault(path, limit(path))
        if left[path]:
            left[path] -= 1
            taken.append((path, offset))
    return taken


@pytest.mark.parametrize("options, scope, budget", [
    (["app"], "app", 1), (["app-all"], "app", 5), (["app-all,30"], "app", 30), (["lib"], "lib", 5),
    (["all,7"], "all", 7), (["custom,9", "--scope", "main=2,libc*=1,*=0"], "custom", 9),
    (["app-all,9", "--app", "libc.so*"], "libc", 9)])
def test_modes(spoor, walks, options, scope, budget):
    """What the stacks of mode all imply."""
    program = walks("default")
    places, events = run_walks(spoor, program, "--stack", *options, plugin=False)
    assert len(events) == len(places)
    wanted = {
        "app": lambda s: [f for f in s if f[0] == str(program)], "all": lambda s: s,
        "libc": lambda s: [f for f in s if "/libc.so" in f[0]], "lib": lambda s: limited(s, lambda p: 1),
        "custom": lambda s: limited(s, lambda p: 2 if p == str(program) else 1 if "/libc.so" in p else 0)}[scope]
    for e in events:
        n, oracle = e["fields"]["n"], places[e["fields"]["n"]]
        found = frames(e)
        if found and found[0][0] == str(program): # another line of the same function
            oracle[0] = found[0]
        expected = wanted(oracle)
        assert found == expected[:budget], (n, found, expected)
        if budget == 1:
            assert e["walk"] == "complete"
        elif len(expected) > budget:
            assert e["walk"] == "budget"
    names = {f["function"] for e in events for f in e["stack"]}
    assert names


def test_wrong_options(spoor):
    for words, why in ((["--stack", "most"], "most"), (["--stack", "all,0"], "behind the comma"),
                       (["--stack", "all,513"], "512"), (["--stack", "custom"], "--scope"),
                       (["--stack", "none"], "app-all"), (["--scope", "x"], "PATTERN=NUMBER"),
                       (["--scope", "main=1", "--stack", "all"], "--stack custom alone")):
        run = spoor("ust", "run", *words, "-o", "t.spoor", "--", "true")
        assert run.returncode == 2 and why in run.stderr, (words, run)
        assert len(run.stderr.splitlines()) == 1


# ---- a recorder that lies about rows ----

def definitions(fd):
    """Objects that the arena defines: [(start, end, bias)]."""
    with mmap.mmap(fd, 0) as m:
        used, at, found = struct.unpack_from("<Q", m, 192)[0], 4096, []
        end = at + used
        while at < end:
            size, kind, _ = struct.unpack_from("<IHH", m, at)
            if kind == 2:
                found.append(struct.unpack_from("<QQQ", m, at + 8))
            at += size
    return found


def random_rows(random, start, end, bias):
    """A table with a sound head, or nearly; its pages, rows and rules are anything."""
    n_pages, n_rules, n_rows = (end - start >> 16) + 1, random.randrange(1, 200), random.randrange(1, 4000)
    pages = b"".join(struct.pack("<II", *random.choice([(0, n_rows), (random.getrandbits(32), random.getrandbits(32)),
                                                        (random.randrange(n_rows), random.randrange(n_rows))]))
                     for _ in range(n_pages))
    rules = b"".join(struct.pack("<BBhi", random.choice([2, 2, 2, 3, 5, 6, 7, 8, random.getrandbits(8)]),
                                 random.choice([7, 0x17, 6, 0x16, random.getrandbits(8)]),
                                 random.randrange(-64, 64) * 8,
                                 random.choice([8, 16, 64, 4096, random.getrandbits(31), -random.getrandbits(31)]))
                     for _ in range(n_rules))
    rows = b"".join(struct.pack("<HH", i * 65536 // n_rows, random.choice([random.randrange(n_rules), 65535]))
                    for i in range(n_rows))
    size = 96 + len(pages) + len(rules) + len(rows)
    head = struct.pack("<8sIIQQQQQQIIIIIIII", b"SPOORROW", 7, 96, size, 0, 0, 0, 0, start - bias & ~0xffff, n_pages,
                       n_rules, n_rows, 0, 0, 0, 0, 0)
    data = bytearray(head + pages + rules + rows)
    if random.random() < 0.2:
        data[random.randrange(96)] ^= 1 << random.randrange(8)
    return data


def memfd_of(data, sealed=True):
    fd = os.memfd_create("rows", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(fd, data)
    if sealed:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return fd


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_a_liar(build, walks, tmp_path, seed):
    """Whatever the rows say, and whatever else comes in their place: the program does what it would have done."""
    program, made = walks("default"), Random(seed)
    path = tmp_path / "sock"
    channel = struct.pack("<32sIIIIIHHII", b"c", 0, 0, 1, 0, 32, 4, 512, 0, 0)

    def lie():
        peer, _ = server.accept()
        peer.recv(4096)
        peer.send(message(16, struct.pack("<IIQIIII", 3, 1, 0, 1, 1, 0, 1) + channel * 8))
        peer.send(rule())
        _, fds, _, _ = socket.recv_fds(peer, 4096, 1)
        for start, end, bias in definitions(fds[0]):
            rows = memfd_of(random_rows(made, start, end, bias), made.random() < 0.9)
            asked = message(24, struct.pack("<QQQIHH", start, end, bias, 1, made.randrange(2), made.randrange(9)))
            socket.send_fds(peer, [asked], [rows] if made.random() < 0.9 else [fds[0], rows])
            os.close(rows)
        kept.append((peer, fds))

    kept = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(path))
        server.listen(10)
        liar = threading.Thread(target=lie, daemon=True)
        liar.start()
        env = tracing.environment(build, None, SPOOR_UST_SOCKET=path)
        run = subprocess.run([program, program.parent / "one.so"], env=env, capture_output=True, text=True, timeout=50)
        liar.join(10)
    assert kept and run.returncode == 0 and run.stdout.endswith("done\n") and not run.stderr, run
    assert len(told(run.stdout)) >= 28


# ---- counters ----

def test_counters_as_getrusage_says(spoor, tmp_path):
    """Page faults and context switches of each thread, since its first event; and no descriptor stays behind."""
    program = tracing.build_program(tmp_path / "perf", "ust_perf.c")
    run = spoor("ust", "run", "--context", "perf:page-faults,perf:context-switches,perf:task-clock", "-o", "t.spoor",
                "--", program)
    assert run.returncode == 0, run.stderr
    *lines, left = run.stdout.splitlines()
    assert left == "left 3" # of the thread that runs
    report = spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[:-1]
    contexts = {e["fields"]["n"]: e["context"] for e in map(json.loads, report)}
    assert sum(n >= 1000 for n in contexts) == 2003
    said = {n: numbers for n, *numbers in (map(int, line.split()) for line in lines)}
    for first in (0, 100):
        base = contexts[first]
        for n in range(first + 1, first + 6):
            for name, i in (("perf_page_faults", 0), ("perf_context_switches", 1)):
                grown = contexts[n][name] - base[name]
                least, most = said[n][i] - said[first][i + 2], said[n][i + 2] - said[first][i]
                assert least <= grown <= most, (n, name, grown, least, most)
            assert contexts[n]["perf_task_clock"] > contexts[n - 1]["perf_task_clock"]
        assert contexts[first + 5]["perf_page_faults"] - base["perf_page_faults"] >= 15 * 257
        assert contexts[first + 5]["perf_context_switches"] - base["perf_context_switches"] >= 30


def test_counters_that_are_not_there(spoor, tmp_path):
    """Said once, and 0 then. A name that is none is a mistake."""
    program = tracing.build_program(tmp_path / "perf", "ust_perf.c")
    has_pmu = os.path.isdir("/sys/bus/event_source/devices/cpu")
    run = spoor("ust", "run", "--context", "perf:cycles", "-o", "t.spoor", "--", program)
    assert run.returncode == 0 and run.stderr.count("perf:cycles stays 0") == (not has_pmu), run.stderr
    report = spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[:-1]
    assert all((json.loads(line)["context"]["perf_cycles"] > 0) == has_pmu for line in report)
    run = spoor("ust", "run", "--context", "perf:beauty", "-o", "u.spoor", "--", program)
    assert run.returncode == 2 and "perf:page-faults" in run.stderr
