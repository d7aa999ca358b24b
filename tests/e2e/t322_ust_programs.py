# SPDX-License-Identifier: GPL-2.0-or-later
"""What programs do to a tracer: threads, processes, signals, objects that come and go, sudden death."""
import ctypes
import json
import mmap
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter

import arenas
import pytest
import tracing
from daemons import ticker  # noqa: F401
from processes import wait_for


@pytest.fixture(scope="module")
def actor(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("actor") / "ust_actor", "ust_actor.c")


@pytest.fixture
def run(build, actor, tmp_path):
    """run("threads", 100) -> (stdout, [Arena])"""
    def go(*args, code=0, **env):
        done, traces = tracing.traced(build, tmp_path / "out", actor, *args, **env)
        assert done.returncode == code, done.stderr
        return done.stdout, traces
    return go


def numbers(trace, event="actor:step"):
    return [e.values["n"] for e in trace.events if e.name == event]


def lost(traces):
    return sum(t.lost() for t in traces)


@pytest.mark.parametrize("what", [("threads", 10007, 3), ("abrupt", 503), ("count", 200003)], ids=str)
def test_threads(run, what):
    out, traces = run(*what)
    tracing.check_promises(out, traces)
    trace, = traces
    assert not lost(traces) and trace.path.stat().st_size < 5 << 20


@pytest.mark.parametrize("how", [{}, {"SPOOR_UST_FILTER": "n >= 0"}], ids=["as it is", "filtered"])
def test_memory_of_threads_that_come_and_go(run, how):
    """What one has used the next one gets, beside the buffers, too."""
    kb = [int(re.search(r"^Anonymous: *(\d+) kB", run("threads", n, 3, ACTOR_TELLS=1, **how)[0], re.M)[1])
          for n in (500, 10000)]
    assert kb[1] - kb[0] < 1 << 10, kb


@pytest.mark.parametrize("how", [{}, {"SPOOR_UST_FILTER": "n >= 0"}], ids=["as it is", "filtered"])
@pytest.mark.parametrize("repeat", [1, 2, 3])
def test_ten_thousand_threads_at_once(run, how, repeat):
    """Far more than there are packets: most write into the shared one, in turn."""
    out, traces = run("crowd", 10007, **how)
    tracing.check_promises(out, traces)
    channel, = traces[0].channels
    assert not lost(traces) and channel["shared"] > 19000
    assert len({e.tid for e in traces[0].events}) == 10007
    assert traces[0].path.stat().st_size < 5 << 20


def test_small_buffers(run):
    out, traces = run("threads", 1009, 7, SPOOR_UST_BUFFERS="64K")
    tracing.check_promises(out, traces)
    assert traces[0].path.stat().st_size < 400 << 10


def test_cancelled_threads(run):
    out, traces = run("cancel", 53)
    tracing.check_promises(out, traces, again=53)
    assert not lost(traces)


def test_fork(run):
    _, traces = run("fork", 7)
    parent, child, grandchild = traces
    assert numbers(parent) == list(range(14))
    assert numbers(child) == list(range(1000, 1007)) and numbers(grandchild) == list(range(2000, 2007))
    assert len({t.pid for t in traces}) == 3
    assert all({e.tid for e in t.events} == {t.pid} and t.state == arenas.ENDED for t in traces)


def test_clone(run):
    """A child that no handler of pthread_atfork has seen."""
    _, traces = run("clone", 7)
    assert [numbers(t) for t in traces] == [list(range(14)), list(range(1000, 1007))]
    assert traces[1].state == arenas.LIVE  # it did not go through exit()


def test_probes_in_children(build, tmp_path):
    """Made while a thread is in a probe, or waits for one: with readers and locks of threads that they have not."""
    program = tracing.build_program(tmp_path / "fork_probes", "ust_fork_probes.c")
    ways = ["probe", "probe waited for", "fork", "fork twice", "signals blocked", "clone", "clone locked",
            "signals blocked locked", "fork locked"]
    done, _ = tracing.traced(build, tmp_path / "out", program, timeout=30)
    assert done.returncode == 0 and done.stdout.splitlines() == [f"{way} ended" for way in ways], done


def test_probes_come_and_go_beside_many_that_fork(build, tmp_path):
    program = tracing.build_program(tmp_path / "fork_storm", "ust_fork_storm.c")
    done, _ = tracing.traced(build, tmp_path / "out", program, timeout=30, SPOOR_UST_EVENTS="none:*")
    assert done.returncode == 0 and done.stdout == "ended\n", done


def test_vfork(run):
    _, traces = run("vfork", 7)
    assert [numbers(t) for t in traces] == [list(range(15)), list(range(5))]


def test_exec(run):
    _, traces = run("exec", 2)
    assert [numbers(t) for t in traces] == [[5000, 5001, 5002]] * 2 + [list(range(5))]
    assert len({t.pid for t in traces}) == 1 and len({t.path for t in traces}) == 3


def test_a_daemon_closes_what_it_does_not_know(run, tmp_path):
    victim = tmp_path / "victim"
    _, traces = run("daemon", victim, 100003)
    deadline = time.monotonic() + 20
    while len(traces) < 2 or len(numbers(traces[1])) < 100003:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        traces = arenas.arenas(tmp_path / "out")
    assert numbers(traces[0]) == list(range(10)) and numbers(traces[1]) == list(range(10, 100013))
    assert victim.stat().st_size == 0


def test_nested_handlers(run):
    """Two signals in a storm, one handler over the other over half-written events."""
    out, traces = run("nested", 300007)
    tracing.check_promises(out, traces)
    assert not lost(traces)
    assert {p.level for p in traces[0].packets} >= {0, 1}


@pytest.mark.parametrize("stack", ["longjmp", "longjmp-alternate"])
def test_left_by_siglongjmp(run, stack):
    out, traces = run(stack, 1000003)
    jumps = int(out.split("jumps ")[1])
    assert jumps > 50
    tracing.check_promises(out, traces, again=jumps)
    assert not lost(traces)


@pytest.fixture(scope="module")
def sharing(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("sharing") / "ust_sharing", "ust_sharing.c")


def test_threads_that_share_their_storage(build, sharing, tmp_path):
    run, traces = tracing.traced(build, tmp_path / "out", sharing, 1)
    tracing.check_promises(run.stdout, traces, lost=lost(traces))  # where the machine is busy some are


@pytest.mark.parametrize("how", ["alone", "recorded"])
def test_threads_that_share_their_storage_and_do_not_say_so(build, spoor, sharing, tmp_path, how):
    """Their packets may hold anything, of which the trace tells. Others' are exact, and readers have no trouble."""
    trace = tmp_path / "t.spoor"
    if how == "alone":
        done = subprocess.run([sharing], env=tracing.environment(build, tmp_path / "out"), timeout=60)
        assert done.returncode == 0
        assert spoor("ust", "recover", "-o", trace, tmp_path / "out").returncode == 0
    else:
        assert spoor("ust", "run", "--buffers", "64M", "-o", trace, "--", sharing).returncode == 0
    run = spoor("report", "--format", "json", trace)
    assert run.returncode == 0, run.stderr
    *events, summary = map(json.loads, run.stdout.splitlines())
    program, = summary["programs"]
    assert not summary["damages"] and (program["state"] == "damaged") == (program["malformed"] > 0)
    others = Counter(e["fields"]["n"] for e in events if e.get("event") == "sharing:bystander")
    assert others == Counter(range(2 * 100003))
    babel = subprocess.run(["babeltrace2", "-o", "dummy", trace], capture_output=True, text=True, timeout=60)
    assert babel.returncode == 0, babel.stderr


def test_modes(run):
    """Without room on disk: exactly what is missing is counted; the flight recorder has the last."""
    n = 200003
    _, (trace,) = run("count", n, SPOOR_UST_MAX_SIZE="4M", SPOOR_UST_BUFFERS="64K")
    got = numbers(trace)
    assert 0 < len(got) < n and got == list(range(len(got))) and lost([trace]) == n - len(got)


def test_flight_recorder(run):
    n = 200003
    _, (trace,) = run("count", n, SPOOR_UST_MODE="overwrite", SPOOR_UST_BUFFERS="256K")
    got = numbers(trace)
    assert got == list(range(n - len(got), n)) and len(got) > 1000
    assert trace.channels[0]["overwritten"] == n - len(got) and not lost([trace])


def test_blocking_is_bounded(build, actor, tmp_path):
    """For a second in all; while nobody makes room no later event waits."""
    n = 200003
    env = tracing.environment(build, tmp_path / "out", SPOOR_UST_MODE="block=200ms", SPOOR_UST_BUFFERS="64K",
                              SPOOR_UST_MAX_SIZE="4M")
    began = time.monotonic()
    subprocess.run([actor, "count", str(n)], env=env, check=True, timeout=100)
    assert 1 <= time.monotonic() - began < 5  # 200 s and more if each waited
    trace = arenas.arena(tmp_path / "out")
    got = numbers(trace)
    assert len(got) + lost([trace]) == n and lost([trace]) > 1000


@pytest.mark.parametrize("count", [1, 3])
def test_objects_come_and_go(build, tmp_path, count):
    host = tracing.build_program(tmp_path / "host", "ust_host.c", "-rdynamic", "-ldl")
    plugins = [tracing.build_program(tmp_path / f"plugin{i}.so", "ust_plugin.c", "-shared", "-fPIC")
               for i in range(count)]
    done, (trace,) = tracing.traced(build, tmp_path / "out", host, 211, *plugins)
    assert done.returncode == 0, done.stderr
    assert numbers(trace, "host:round") == list(range(211))
    expected = [n for i in range(211) for _ in range(count) for n in (-1, i, -2)]
    assert numbers(trace, "plugin:work") == expected
    assert numbers(trace, "marker:plugin_mark") == [i for i in range(211) for _ in range(count)]
    # Many objects, often: one class each.
    assert len(trace.classes) == 3


def test_a_child_loads_objects(build, tmp_path):
    """Before it has written an event: what it defines is its own, not its parent's."""
    host = tracing.build_program(tmp_path / "host", "ust_host.c", "-rdynamic", "-ldl")
    plugin = tracing.build_program(tmp_path / "plugin.so", "ust_plugin.c", "-shared", "-fPIC")
    done, traces = tracing.traced(build, tmp_path / "out", host, "fork", plugin)
    assert done.returncode == 0, done.stderr
    parent, child = traces
    assert numbers(parent, "host:round") == [100, 101] and {c.name for c in parent.classes.values()} == {"host:round"}
    assert numbers(child, "plugin:work") == [-1, 7, -2] and numbers(child, "marker:plugin_mark") == [7]


def killed(build, actor, out, rounds, seed):
    """At a random moment after a program's first event, each fourth time after it was executed."""
    rng = random.Random(seed)
    for i in range(rounds):
        where = out / str(i)
        p = subprocess.Popen([actor, "count", "100000000"], env=tracing.environment(build, where))
        wait_for(lambda: i % 4 == 0 or arenas.has_begun(where), every=0.0002)
        time.sleep(rng.uniform(0, 0.005))
        p.send_signal(signal.SIGKILL)
        p.wait()
        yield where


def test_killed_at_random_moments(build, actor, tmp_path):
    """Whatever was committed is there, once: an unbroken row from 0 on, however long."""
    lengths, n = [], 0
    (tmp_path / "out").mkdir()
    for where in killed(build, actor, tmp_path / "out", 30, 4):
        for trace in arenas.arenas(where):
            got = numbers(trace)
            assert got == list(range(len(got)))
            assert trace.state in (arenas.LIVE, arenas.MAKING)
            lengths.append(len(got))
            n += 1
        subprocess.run(["rm", "-rf", where], check=True)
    assert n >= 20 and max(lengths) > 10000


def test_killed_a_thousand_times(build, actor, tmp_path):
    """A flight recorder's packets are overwritten under the knife: what is there is whole, in a row, and of the end,
    and what is not there is counted."""
    rng, recovered = random.Random(7), 0
    env = tracing.environment(build, tmp_path / "out", SPOOR_UST_MODE="overwrite", SPOOR_UST_BUFFERS="64K")
    for i in range(1000):
        p = subprocess.Popen([actor, "count", "100000000"], env=env)
        wait_for(lambda: i % 4 == 0 or arenas.has_begun(tmp_path / "out"), every=0.0002)
        time.sleep(rng.uniform(0, 0.003))
        p.kill()
        p.wait()
        for trace in arenas.arenas(tmp_path / "out"):
            got = numbers(trace)
            assert got == list(range(got[0], got[0] + len(got))) if got else True
            assert not got or trace.channels[0]["overwritten"] + trace.lost() == got[0]
            recovered += bool(got)
        for path in (tmp_path / "out").iterdir():
            path.unlink()
    assert recovered > 500


@pytest.mark.parametrize("how, most, behind", [
    ({}, 400, 30), ({"SPOOR_UST_MODE": "overwrite"}, 400, 30), ({"SPOOR_UST_CONTEXT": "procname,cpu"}, 1500, 30),
    ({"SPOOR_UST_FILTER": "n >= 0"}, 1500, 100)], ids=str)  # one with a filter is copied, and its copy is ended then
def test_killed_after_each_instruction(build, spoor, tmp_path, how, most, behind):
    """Of the event's path: the event is there from the commit on, whole, and nothing else ever is."""
    program = tracing.build_program(tmp_path / "step", "ust_step.c")
    seen = []
    for n in range(0, most):
        out = tmp_path / f"out{n}"
        done = subprocess.run([program, str(n)], env=tracing.environment(build, out, **how), capture_output=True,
                              text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        trace, = [t for t in arenas.arenas(out) if t.events]
        got = [(e.values["n"], e.values["s"]) for e in trace.events]
        before = [(i, "before it") for i in range(3)]
        assert got in (before, before + [(3, "seventeen letters")]), (n, got)
        seen.append(len(got) == 4)
        if n % 31 == 0 or seen[-2:] == [False, True]:
            run = spoor("ust", "recover", "-o", f"{n}.spoor", out)
            assert run.returncode == 0 and run.stdout.startswith(f"{len(got)} events of 2 programs"), run
        subprocess.run(["rm", "-rf", out], check=True)
        if done.stdout == "through\n":
            break
    assert done.stdout == "through\n" and n > 50
    first = seen.index(True)
    assert all(seen[first:]) and first > 30 and len(seen) - first < behind


@pytest.mark.parametrize("switches, threads, every", [(100000, 1, 200), (100000, 3, 2000)])
def test_patched_under_fire(build, tmp_path, switches, threads, every):
    # ust_fire.c calls what is no name outside of the library.
    archive = ["-Wl,--whole-archive", build / "src/agent/libspoor-ust-parts.a", "-Wl,--no-whole-archive", "-lurcu-bp"]
    program = tracing.build_program(tmp_path / "fire", "ust_fire.c", *archive)
    done, (trace,) = tracing.traced(build, tmp_path / "out", program, switches, threads, every, preload=False,
                                    timeout=600, SPOOR_UST_MODE="overwrite")
    assert done.returncode == 0, done.stdout
    _, checked, _, evaluated = done.stdout.split()
    assert int(checked) == (switches // every * 2 + 1) * threads
    # Arguments that are evaluated while it is just being switched off make no event.
    assert len(trace.events) + trace.channels[0]["overwritten"] + trace.lost() <= int(evaluated)
    by_thread = [[e.values["n"] for e in trace.events if e.tid == tid] for tid in {e.tid for e in trace.events}]
    # Since it was switched on last no number is missing.
    assert sum(numbers[-1] for numbers in by_thread) == int(evaluated)
    for numbers in by_thread:
        assert numbers == sorted(set(numbers)) and numbers[-12:] == list(range(numbers[-12], numbers[-1] + 1))


def test_without_the_library_flags_are_off(tmp_path):
    program = tracing.build_program(tmp_path / "types", "ust_types.c", "-DSPOOR_FLAG_SITES")
    assert subprocess.run([program], timeout=10, capture_output=True).returncode == 0


def test_strangers_do_not_trace_setuid_programs(build, actor, tmp_path):
    """The library is linked in, as the loader itself refuses to preload."""
    flags = ["-Wl,--no-as-needed", f"-L{build}/src/agent", "-lspoor-ust", f"-Wl,-rpath,{build}/src/agent"]
    program = tracing.build_program(tmp_path / "setuid", "ust_actor.c", *flags)
    out = tmp_path / "out"
    out.mkdir(mode=0o777)
    os.chmod(out, 0o777)
    os.chmod(tmp_path, 0o755)
    env = tracing.environment(build, out, preload=False)
    command = ["setpriv", "--reuid=65534", "--clear-groups", program, "count", "5"]
    program.chmod(0o4755)
    reachable = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "test", "-x", program]).returncode == 0
    if not reachable:
        place = tmp_path.parent.parent.parent  # pytest's directories are its user's alone
        program = tracing.build_program(place / f"setuid-{os.getpid()}", "ust_actor.c", *flags)
        program.chmod(0o4755)
        command[3] = program
    try:
        _, (own,) = tracing.traced(build, tmp_path / "own", program, "count", "5", preload=False)
        assert len(own.events) == 5  # root is no stranger to it
        assert subprocess.run([str(c) for c in command], env=env, timeout=10).returncode == 0
        assert not list(out.iterdir())
    finally:
        program.unlink()


@pytest.mark.parametrize("directory", ["missing", "file", "full"])
def test_nowhere_to_write(build, actor, tmp_path, directory):
    """The program is none the worse."""
    out = tmp_path / "out"
    if directory == "file":
        out.write_text("")
    elif directory == "full":
        out.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "none", out], check=True)
    try:
        env = tracing.environment(build, None, SPOOR_UST_OUTPUT=out)
        done = subprocess.run([actor, "threads", "500", "200"], env=env, capture_output=True, timeout=60, text=True)
        assert done.returncode == 0 and done.stdout == "recorded actor:step 0 100000\n"
        if directory == "full":
            trace = arenas.arena(out)
            got = sorted(numbers(trace))
            assert 0 < len(got) < 100000 and len(got) + trace.lost() == 100000
    finally:
        if directory == "full":
            subprocess.run(["umount", out], check=True)


def test_start_up(build, ticker):
    """What the library adds to a program that records nothing, and to one that does. In memory, as with a recorder: a
    file system that writes back may make the begin of a file wait."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as out:
        tracing.check_start_up(ticker, tracing.environment(build, None, preload=False), {
            "preloaded": tracing.environment(build, None), "alone": tracing.environment(build, out)})


def test_files_are_not_read_ahead(build, actor, tmp_path):
    """Without a daemon, on disk: only what was written of the buffers is in the cache; no more is waited for."""
    subprocess.run([actor, "count", "7"], env=tracing.environment(build, tmp_path / "out"), check=True, timeout=60)
    path, = (tmp_path / "out").glob("*.arena")
    size = path.stat().st_size
    with open(path, "r+b") as f, mmap.mmap(f.fileno(), size) as m:
        held = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
        there = ctypes.addressof(anchor := ctypes.c_char.from_buffer(m))
        assert not ctypes.CDLL(None, use_errno=True).mincore(ctypes.c_void_p(there), ctypes.c_size_t(size), held)
        del anchor
    assert 4 < sum(h & 1 for h in held) < size // mmap.PAGESIZE / 8


def test_without_sites_no_memory(build, tmp_path):
    """Until an object comes that has some, here by dlopen; then it is recorded from its first event."""
    (tmp_path / "none.c").write_text("#include <dlfcn.h>\nint main(int c, char **v)\n"
                                     "{ return c > 1 && !dlopen(v[1], RTLD_NOW); }\n")
    subprocess.run(["gcc", "-o", tmp_path / "none", tmp_path / "none.c"], check=True)
    done, traces = tracing.traced(build, tmp_path / "out", tmp_path / "none")
    assert done.returncode == 0 and not traces
    plugin = tracing.build_program(tmp_path / "plugin.so", "ust_plugin.c", "-shared", "-fPIC")
    done, (trace,) = tracing.traced(build, tmp_path / "out", tmp_path / "none", plugin)
    assert done.returncode == 0 and numbers(trace, "plugin:work")[0] == -1


def test_without_sites_no_memory_for_a_recorder(spoor, build, tmp_path):
    """The same with a recorder: it maps nothing of a program that has nothing to say."""
    def run(name, *command):
        done = spoor("ust", "run", "-o", name, "--", *command)
        assert done.returncode == 0, done.stderr
        return done
    assert "spoor-ust" not in run("a.spoor", "cat", "/proc/self/maps").stdout.replace("libspoor-ust", "")
    (tmp_path / "none.c").write_text("#include <dlfcn.h>\nint main(int c, char **v)\n"
                                     "{ return c > 1 && !dlopen(v[1], RTLD_NOW); }\n")
    subprocess.run(["gcc", "-o", tmp_path / "none", tmp_path / "none.c"], check=True)
    plugin = tracing.build_program(tmp_path / "plugin.so", "ust_plugin.c", "-shared", "-fPIC")
    run("b.spoor", tmp_path / "none", plugin)
    assert "plugin:work" in spoor("report", "--events", "b.spoor").stdout
