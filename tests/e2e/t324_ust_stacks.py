# SPDX-License-Identifier: GPL-2.0-or-later
"""Call stacks of user events: which objects they name, in every way in which a trace comes to be."""
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from itertools import count
from pathlib import Path

import pytest

import tracing
from processes import NOBODY, children, wait_for
from daemons import daemon, keeper_pid, ticker  # noqa: F401 (fixtures)

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


@pytest.mark.parametrize("build_id", ["sha1", "none"])
def test_plugins_that_take_turns_for_long(spoor, chain, events, tmp_path, build_id):
    """Each time that one comes to where the other was it is told anew: 1,600 times."""
    for name in ("one", "two"):
        tracing.build_program(tmp_path / f"{name}.so", "ust_chain_plugin.c", *FP, f"-DNAME={name}", "-shared", "-fPIC",
                              f"-Wl,--build-id={build_id}")
    plugins = [str(tmp_path / f"{p}.so") for p in PLUGINS * 400]
    run = spoor("ust", "run", "--stack", "all,64", "-o", "t.spoor", "--", chain, *plugins)
    assert run.returncode == 0 and ", 0 lost" in run.stderr, run.stderr
    found = {e["fields"]["n"]: {f.get("object") for f in e["stack"][3:5]} for e in events("t.spoor")}
    assert len(found) == 1601
    wrong = [n for n, plugin in enumerate(plugins, 1) if found[n] != {plugin}]
    assert not wrong, (len(wrong), wrong[:3], found[wrong[0]])


NOWHERE = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(chain, end, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
static void handler(int n, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;

	spoor_trace(chain, end, n);
	r[REG_RIP] = *(greg_t *)r[REG_RSP]; /* as if it had returned */
	r[REG_RSP] += 8;
}
__attribute__((noinline, noclone)) void call(void (*f)(void));
void call(void (*f)(void)) { f(); __asm__ volatile(""); }
int main(void)
{
	struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &a, NULL);
	for (int i = 0; i < 100; i++, usleep(10000))
		call(NULL);
	return 0;
}
"""


def test_a_call_through_a_null_pointer(spoor, tmp_path, events):
    """From the handler, as crash reporters do it; more than once, so that what is remembered serves."""
    (tmp_path / "x.c").write_text(NOWHERE)
    subprocess.run(["gcc", "-O2", "-g", f"-I{tracing.INCLUDE}", "-o", "x", "x.c"], cwd=tmp_path, check=True)
    run = spoor("ust", "run", "--stack", "all,64", "-o", "t.spoor", "--", tmp_path / "x")
    assert run.returncode == 0, run.stderr
    found = events("t.spoor")
    assert len(found) == 100
    assert found[-1]["walk"] == "complete" and found[-1]["way"] == "rows"
    names = functions(found[-1])
    assert names[:2] == ["handler", "__restore_rt"] and names[2] is None and names[3:5] == ["call", "main"], names


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


LOOKS = """for i in 1 2 3 4 5 6 7 8; do "$0"; done
ps --no-headers --ppid $PPID -o comm,euid
for p in $(pgrep -P $PPID spoor-rows); do echo shares $(grep -c '^[^ ]* ...s ' /proc/$p/maps); done
grep -hs CapPrm /proc/$PPID/task/*/status || true""" # some that open files have ended by then


def test_rows_with_the_kernel_side(spoor, chain, events):
    """There is no cache through which the kernel side's row compiler would help: the other one works, too. Both are
    nobody's, share no memory, and no thread has kept what that took. (The first may not have waited long enough.)"""
    run = spoor("record", "--ust", "--ust-context", "callstack", "-m", "all", "-S", "64", "-o", "t.spoor", "--",
                "sh", "-c", LOOKS, chain, env=os.environ | {"SPOOR_CACHE_DIR": "/proc/none"})
    assert run.returncode == 0, run.stderr
    found = events("t.spoor")
    assert len(found) == 8 and found[-1]["way"] == "rows" and found[-1]["walk"] == "complete", found[-1]
    check(found[-1], None, chain)
    lines = [line.split() for line in run.stdout.splitlines()]
    assert lines.count(["spoor-rows", "65534"]) == 2 and not lines.count(["spoor-rows", "0"]), run.stdout
    assert [k[1] for k in lines if k[0] == "shares"] == ["0"] * 2, run.stdout
    sys_nice = 1 << 23  # of the thread that loads at once
    assert len({int(k[1], 16) & ~sys_nice for k in lines if k[0] == "CapPrm:"}) == 1, run.stdout


@pytest.fixture
def row_server(daemon, ticker, tmp_path, monkeypatch): # noqa: F811
    """The process, of a daemon whose session has walked a program; it has nothing to do any more."""
    def found():
        return [p for p in children(daemon.process.pid) if Path(f"/proc/{p}/comm").read_text() == "spoor-rows\n"]

    cache = tmp_path / "cache"
    daemon.kill()
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(cache))
    daemon.start()
    daemon.ust("start", "--stack", "all,64", "-o", "t.spoor")
    maps = Path(f"/proc/{daemon.program(ticker, 1, 0, 1000).pid}/maps").read_text()
    files = set(re.findall(r" r-xp .* (/.*)$", maps, re.M))
    wait_for(lambda: len(list(cache.glob("[!.]*"))) == len(files))
    return found()[0]


def test_rows_are_asked_for_again(daemon, row_server, ticker, tmp_path): # noqa: F811
    """Files, which rows are, may not be written for a while: what is walked without is said, once, and the program has
    its rows in a later session."""
    def ways(name, pid):
        return [e["way"] for e in daemon.events(name) if e["pid"] == pid]

    def copy(name):
        path = tmp_path / name
        path.write_bytes(ticker.read_bytes() + name.encode()) # another content, as rows go
        path.chmod(0o755)
        return daemon.program(path, 1, 0, 1000)

    def limit_files(size):
        subprocess.run([*NOBODY, "prlimit", f"--pid={row_server}", f"--fsize={size}"], check=True)

    def in_another_session():
        name = f"t{next(numbers)}.spoor"
        daemon.ust("start", "--stack", "all,64", "-o", name)
        time.sleep(0.3)
        daemon.ust("end")
        return ways(name, one.pid)[-1:] == ["rows"]

    limit_files("0:")
    one, numbers = copy("one"), count()
    assert select.select([daemon.process.stderr], [], [], 20)[0], "nothing was said"
    said = daemon.process.stderr.readline()
    assert "no unwind rows" in said and said.endswith("/one\n"), said
    copy("two")
    daemon.ust("end")
    assert set(ways("t.spoor", one.pid)) == {"frame pointers"}
    limit_files("unlimited:")
    wait_for(in_another_session, 60)
    daemon.kill(signal.SIGTERM)
    assert "unwind rows" not in daemon.process.stderr.read()


def test_helpers_have_no_buffers(daemon, ticker):  # noqa: F811
    """What a daemon has forked maps no buffers of programs: it would keep their memory, and look like one of them."""
    def helpers(keeper=None):
        return {Path(f"/proc/{pid}/comm").read_text(): Path(f"/proc/{pid}/maps").read_text()
                for pid in [keeper or os.getpid(), *children(daemon.process.pid)]}

    def another(keeper):
        now = keeper_pid(f"{daemon.socket}.keeper")
        return now if now != keeper else None

    daemon.ust("start", "-o", "t.spoor", "--context", "callstack")
    daemon.program(ticker, 1, 0, 500)
    wait_for(lambda: "spoor-rows\n" in helpers())
    keeper = another(None)
    os.kill(keeper, signal.SIGKILL)
    found = helpers(wait_for(lambda: another(keeper)))
    assert {"spoor-rows\n", "trace-keeper\n"} <= set(found)
    assert not any("memfd:spoor-ust" in maps for maps in found.values())
    assert "1 program, " in (said := daemon.ust("enable", "zoo:*", "-a").stdout) and "not do it" not in said


def test_chosen_by_name(spoor, chain, events):
    """Stacks of those events that are asked for."""
    spoor("ust", "run", "--stack", "all,64", "-o", "t.spoor", "--", *arguments(chain))
    check_all(events("t.spoor", "--event", "chain:*"), chain)
    assert not events("t.spoor", "--event", "other:*,chain:begin")
    text = spoor("report", "--events", "--stacks", "--event", "chain:end", "t.spoor").stdout
    assert text.count("> inner ") == 5
    assert "> inner " not in spoor("report", "--events", "--stacks", "--event", "chain:begin", "t.spoor").stdout


def test_followed(daemon, twice, chain, build, tmp_path, ends_with_the_test):
    """The stacks of the first round are shown before there is a second one."""
    with open(tmp_path / "followed", "w") as out:
        reader = ends_with_the_test(subprocess.Popen([build / "spoor", "report", "--follow", "--format", "json",
                                                      tmp_path / "t.spoor"], stdout=out))

    def found():
        text = (tmp_path / "followed").read_text()
        lines = [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]
        return [e for e in lines if e.get("event") == "chain:end"]
    wait_for(lambda: len(found()) >= 5, 60)
    check_all(found(), chain)
    again(twice)
    daemon.ust("end")
    assert reader.wait(60) == 0
    check_all(found(), chain, 2)


def places(program):
    """Begin and end of its functions, by name."""
    said = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True, timeout=20).stdout
    return {name: (int(at, 16), int(at, 16) + int(size, 16))
            for at, size, name in re.findall(r"^(\w+) (\w+) [Tt] (\w+)$", said, re.M)}


@pytest.mark.parametrize("compiler", ["gcc", "gcc -O0", "clang", "g++", "clang++ -O1"])
@pytest.mark.parametrize("more", [{}, {"SPOOR_UST_FILTER": "n >= 0"}, {"SPOOR_UST_CONTEXT": "ip,callstack"}],
                         ids=["alone", "filtered", "with_stacks"])
def test_where_a_site_is(build, tmp_path, compiler, more):
    """The function that has it, also where nobody has rows to walk its helper by, and frames no pointers."""
    program = tracing.build_program(tmp_path / "places", "ust_places.c", "-fomit-frame-pointer", "-no-pie", "-fno-pie",
                                    compiler=compiler)
    _, (trace,) = tracing.traced(build, tmp_path / "out", program, **{"SPOOR_UST_CONTEXT": "ip"} | more)
    functions = places(program)
    assert len(trace.events) == 50
    for e in trace.events:
        begin, end = functions[text_of(e.values["s"])]
        assert begin < e.values["ip"] <= end
        if "callstack" in e.values:
            assert any(begin < f & ~0xffff800000000000 <= end for f in e.values["callstack"]), e.values


def text_of(value):
    return value.decode() if isinstance(value, bytes) else value
