# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder of programs that trace themselves, against programs made by hand: sound, broken, hostile."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from processes import wait_for

HERE = Path(__file__).resolve().parent


@pytest.fixture
def ust(build, tmp_path):
    """ust(code, ...) -> (CompletedProcess, [events]) of `spoor ust run` of Python code with fakeprogram at hand."""
    def run(code, *options, timeout=60, check=True):
        path = tmp_path / "program.py"
        path.write_text("import os, sys, time, signal, struct, random, threading\n"
                        f"sys.path.insert(0, {str(HERE)!r})\nfrom fakeprogram import *\n" + textwrap.dedent(code))
        out = tmp_path / "t.spoor"
        done = subprocess.run([build / "spoor", "ust", "run", "-o", out, *options, "--", sys.executable, path],
                              cwd=tmp_path, capture_output=True, text=True, timeout=timeout)
        if check:
            assert done.returncode == 0, done.stderr
        return done, events(build, out)
    return run


def events(build, path):
    run = subprocess.run([build / "spoor", "report", "--format", "json", path], capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert lines[-1]["ended"] is True and not lines[-1]["damages"], lines[-1]
    babel = subprocess.run(["babeltrace2", path], capture_output=True, text=True, timeout=60)
    assert babel.returncode == 0, babel.stderr
    found = [e for e in lines[:-1] if e["event"].startswith("fake:")]
    assert babel.stdout.count("fake:count") == len([e for e in found if e["event"] == "fake:count"])
    return found


def numbers(found):
    return [e["fields"]["n"] for e in found]


SOUND = """
    p = Program()
    session, rules = p.setup()
    assert rules == [(1, "*")] and session
    a = Arena()
    p.offer(a)
    a.open(0)
    for n in range(%d):
        a.event(0, n)
"""


def test_sound(ust):
    done, found = ust(SOUND % 101 + "\n    a.end()\n")
    assert numbers(found) == list(range(101))
    assert "101 events of 1 program, 0 lost" in done.stderr
    assert "crash" not in done.stderr


def test_killed(ust):
    """What was committed is there, what was not is not."""
    done, found = ust(SOUND % 101 + "\n    a.event(0, 7777, commit=False)\n    os.kill(os.getpid(), 9)\n", check=False)
    assert done.returncode == 137
    assert numbers(found) == list(range(101))
    assert "1 of them ended by a crash" in done.stderr


def test_packets_come_back(ust):
    """A full packet is given back to the program once it is written: many times what the arena holds."""
    _, found = ust("""
        p = Program()
        p.setup()
        a = Arena(packets=2, packet_size=4096)
        p.offer(a)
        n = 0
        for turn in range(60):
            i = turn % 2
            until = time.monotonic() + 20
            while a.state(i) != FREE:
                assert time.monotonic() < until
                time.sleep(0.001)
            a.open(i)
            for _ in range(100):
                a.event(i, n)
                n += 1
            a.owner(i, FULL)
        a.end()
    """)
    assert numbers(found) == list(range(6000))


def test_many_threads_few_files(ust, tmp_path):
    """A thousand threads that write at once: all is there, and there are no thousand files. The recorder stands still
    while they write: it takes them all at once then, and finds none between its stamp and its commit, a time that is
    a hundred times as long for writers made by hand, and what comes so late has no place in a file of many threads.
    """
    _, found = ust("""
        p = Program()
        p.setup()
        a = Arena(packets=1000, packet_size=4096)
        p.offer(a)
        for i in range(1000):
            a.open(i, 5000000 + i)
        for n in range(20):
            os.kill(os.getppid(), signal.SIGSTOP)
            for i in range(1000):
                a.event(i, n * 1000 + i)
            os.kill(os.getppid(), signal.SIGCONT)
        a.end()
    """)
    assert sorted(numbers(found)) == list(range(20000))
    assert len(list((tmp_path / "t.spoor").rglob("lane*"))) <= 64


GARBAGE = {
    "id": "a.event(0, 1, number=99)",
    "size": "a.event(0, 1); a.put(a.data + a.positions[0] - 32 + 10, '<H', 0)",
    "fields": "a.event(0, 1, body=b'abc')",
    "string": "a.event(0, 1, body=b'x' * 24)",
    "order": "a.event(0, 1, ts=5)",
    "future": "a.event(0, 1, ts=2**63)",
    "committed": "a.put(a.header(0) + 16, '<Q', 1 << 40)",
    "definitions": "a.put(a.USED, '<Q', 1 << 40)\na.event(0, 1, number=2)",
    "random": "a.map[a.data:a.data + 60000] = random.randbytes(60000); a.put(a.header(0) + 16, '<Q', 60000)",
    "headers": "a.map[a.headers:a.headers + 1024] = random.randbytes(1024)",
    "everything": "a.map[0:a.size] = random.randbytes(a.size)",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_harms_nobody_else(ust, build, tmp_path, what):
    """A program writes garbage into its own buffer: that is said, and another one of the same recorder is whole."""
    done, found = ust(f"""
        bad, good = Program(), None
        bad.setup()
        random.seed(7)
        a = Arena()
        bad.offer(a)
        a.open(0)
        for n in range(10):
            a.event(0, n, "bad")
        until = time.monotonic() + 20
        while not a.is_written(0):
            assert time.monotonic() < until
            time.sleep(0.001)
        if os.fork() == 0:
            good = Program()
            good.setup()
            b = Arena()
            good.offer(b)
            b.open(0)
            for n in range(500):
                b.event(0, n, "good")
                time.sleep(0.0005)
            b.end()
            os._exit(0)
        {GARBAGE[what].replace(chr(10), chr(10) + "        ")}
        os.wait()
        time.sleep(0.2)
    """)
    assert [e["fields"]["n"] for e in found if e["fields"]["who"] == "good"] == list(range(500))
    assert [e["fields"]["n"] for e in found if e["fields"]["who"] == "bad"][:10] == list(range(10))
    assert "made no sense" in done.stderr
    report = subprocess.run([build / "spoor", "report", tmp_path / "t.spoor"], capture_output=True, text=True)
    assert "what it hid is lost" in report.stdout and "Lost: nothing." not in report.stdout


def test_numbers_of_threads_that_are_made_up(ust):
    """Of a program that calls itself otherwise, as in a container, each is looked for among all its threads. That takes
    no time of others, and all events are there."""
    done, found = ust("""
        wait = threading.Event()
        threads = [threading.Thread(target=wait.wait, daemon=True) for _ in range(300)]
        for t in threads:
            t.start()
        p = Program()
        p.setup()
        a = Arena(packets=2, packet_size=1 << 20)
        a.put(56, "<I", 1)
        p.offer(a)
        a.open(0)
        for n in range(10007):
            a.tids[0] = 1000 + n
            a.event(0, n, "")
        time.sleep(0.5)
        other = Program()
        other.setup()
        a.end()
    """)
    assert numbers(found) == list(range(10007)) and len({e["tid"] for e in found}) == 10007


SENSELESS = {
    "fields": "*[field(f'f{i}', 1, 4) for i in range(257)]",
    "empty array": "field('none', 1, 4, shape=1, count=0)",
    "type": "field('strange', 9, 4)",
    "width": "field('wide', 1, 3)",
    "shape": "field('odd', 1, 4, shape=7)",
    "stack": "field('stack', 3, 8, flags=16, shape=2)",
}


@pytest.mark.parametrize("mode", [0, 1], ids=["discard", "overwrite"])
@pytest.mark.parametrize("what", SENSELESS)
def test_class_that_makes_no_sense(ust, build, tmp_path, what, mode):
    """Its own events are lost, each of them counted, with the reason; those around them are not."""
    done, found = ust(f"""
        p = Program()
        p.setup()
        a = Arena(mode={mode})
        a.define(event_class(2, "senseless", {SENSELESS[what]}))
        p.offer(a)
        a.open(0)
        for n in range(101):
            a.event(0, n)
            if n % 3 == 0:
                a.event(0, 7777, number=2)
        time.sleep(0.3)
        for n in range(13):
            a.event(0, 7777, number=2)
        a.end()
    """)
    lost = 34 + 13
    assert numbers(found) == list(range(101))
    assert f"101 events of 1 program, {lost} lost" in done.stderr and "made no sense into its own buffer" in done.stderr
    assert f"of what is lost, {lost} events have no description that makes sense" in done.stderr
    report = subprocess.run([build / "spoor", "report", tmp_path / "t.spoor"], capture_output=True, text=True)
    assert f"Lost: {lost} events have no description that makes sense" in report.stdout
    assert "overwritten" not in report.stdout and "buffer was full" not in report.stdout


HOSTILE = {
    "unsealed": "p = Program(); p.setup(); a = Arena(sealed=False); p.offer(a); os.ftruncate(a.fd, 0)",
    "no descriptor": "p = Program(); p.setup(); p.send(message(ARENA, bytes(24)))",
    "pipe": "p = Program(); p.setup(); a = Arena(); p.offer(a, os.pipe()[0])",
    "short": "p = Program(); p.send(b'x')",
    "empty": "p = Program(hello=False); p.sock.shutdown(1)",
    "magic": "p = Program(); p.setup(); p.send(message(DONE, bytes(248), magic=1))",
    "size": "p = Program(); p.setup(); p.send(message(DONE, bytes(248), size=7))",
    "type": "p = Program(); p.setup(); p.send(message(77, bytes(8)))",
    "huge": "p = Program(); p.setup(); p.send(message(DONE, bytes(60000)))",
    "hello twice": "p = Program(); p.setup(); p.hello()",
    "arena first": "p = Program(hello=False); p.offer(Arena())",
    "forked of nobody": "p = Program(flags=FORKED, n_arenas=1); p.session = 99; p.offer(Arena()); "
                        "assert p.receive()[0] == END",
    "forked, never comes": "p = Program(flags=FORKED, n_arenas=99)",
    "silent": "keep = [Program(hello=False) for _ in range(200)]",
    "never reads": "p = Program(); [p.send(message(DONE, bytes(248))) for _ in range(20000)]",
    "random": """
for _ in range(300):
    p = Program(hello=random.random() < 0.5)
    try:
        for _ in range(5):
            p.send(message(random.choice([1, 2, 3, 16, 17, 32, 33, 99]), random.randbytes(random.randrange(600))))
    except OSError:
        pass""",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_messages(ust, what):
    """Whoever breaks the protocol loses his connection; others go on."""
    lines = HOSTILE[what].strip().splitlines()
    done, found = ust("""
        random.seed(11)
        def hostile():
            """ + "\n            ".join(["keep = p = None"] + lines + ["return keep, p"]) + """
        kept = None
        try:
            kept = hostile()
        except OSError:
            pass
        q = Program()
        q.setup()
        b = Arena()
        q.offer(b)
        b.open(0)
        for n in range(100):
            b.event(0, n, "good")
        time.sleep(0.3)
        b.end()
    """)
    assert numbers(found) == list(range(100))


def test_buffers_of_huge_pages(ust):
    """Where none is left who reads them would die of SIGBUS: they are refused, and not for what there is just now."""
    done, found = ust("""
        p = Program()
        p.setup()
        fd = os.memfd_create("huge", os.MFD_HUGETLB | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, 4 << 20)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        p.offer(Arena(), fd)
        assert p.receive()[0] == 0
    """)
    assert not found and "it is of huge pages" in done.stderr


def test_wrong_versions_are_told(ust):
    done, found = ust("""
        for how in {"version": 1}, {"version": 4}, {"arena_version": 9}:
            p = Program(**how)
            kind, _, body = p.receive()
            assert kind == DONE and struct.unpack_from("<i", body)[0] == -71, (kind, body)
            assert b"version 3" in body
            assert p.receive()[0] == 0
    """)
    assert not found and done.stderr.count("of another version") == 3


@pytest.mark.parametrize("size", [0, 20, 100, 304, 400, 2000, 4080])
def test_other_versions_are_told_by_their_head(ust, size):
    """What else a HELLO of another version says, and how much, nobody knows."""
    done, found = ust(f"""
        for version in 1, 4:
            p = Program(hello=False)
            p.send(message(HELLO, random.randbytes({size}), version))
            kind, _, body = p.receive()
            assert kind == DONE and struct.unpack_from("<i", body)[0] == -71, (kind, body)
            assert b"version 3" in body
            assert p.receive()[0] == 0
    """)
    for version in 1, 4:
        assert f"(python3) has a libspoor-ust of another version ({version}): not traced" in done.stderr, done.stderr
    assert not found and "no event came" not in done.stderr
    assert "not recorded: the libspoor-ust there is not of this recorder's version" in done.stderr


def test_refusal_is_told(ust):
    """Why a program is not recorded it says itself: nothing that a terminal obeys."""
    done, found = ust("""
        p = Program()
        _, serial, _ = p.receive()
        p.done(serial, -27, b"no\\x1b[2J room")
        time.sleep(0.3)
    """)
    assert not found and "spoor: 1 program that came is not recorded: no" in done.stderr and "\x1b" not in done.stderr


def test_no_program_is_said(ust):
    done, found = ust("pass")
    assert "no event came" in done.stderr and not found


def test_exit_codes(ust, build, tmp_path):
    done, _ = ust("sys.exit(7)", check=False)
    assert done.returncode == 7
    run = subprocess.run([build / "spoor", "ust", "run", "-o", tmp_path / "t.spoor", "--", "true"], cwd=tmp_path,
                         capture_output=True, text=True)
    assert run.returncode == 125 and "exists already" in run.stderr
    run = subprocess.run([build / "spoor", "ust", "run", "--", "no-such-program"], cwd=tmp_path, capture_output=True,
                         text=True)
    assert run.returncode == 125 and "no-such-program" in run.stderr
    run = subprocess.run([build / "spoor", "ust", "run", "-o", tmp_path / "u.spoor", "--", "/bin/true"], cwd=tmp_path,
                         capture_output=True, text=True, env={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert run.returncode == 0 and not left_in(tmp_path)


def test_where_the_socket_is(build, tmp_path):
    """Where TMPDIR says, else XDG_RUNTIME_DIR, if a socket can have such a path and a program finds it anywhere."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        longest, too_long = (Path(folder) / ("a" * (n - len(folder) - 1)) for n in (75, 76))
        places = [Path(folder) / "short", longest, too_long, tmp_path / "relative"]
        for place in places:
            place.mkdir()
        short, absent = str(places[0]), f"{folder}/absent"
        cases = [({"TMPDIR": short}, short), ({"TMPDIR": short}, short),
                 ({"TMPDIR": longest, "XDG_RUNTIME_DIR": short}, longest),
                 ({"TMPDIR": too_long, "XDG_RUNTIME_DIR": short}, short), ({"XDG_RUNTIME_DIR": short}, short),
                 ({"TMPDIR": "relative"}, "/tmp"), ({"TMPDIR": absent}, "/tmp"), ({"TMPDIR": ""}, "/tmp"), ({}, "/tmp")]
        plain = {k: v for k, v in os.environ.items() if k not in ("TMPDIR", "XDG_RUNTIME_DIR")}
        for i, (env, place) in enumerate(cases):
            verb = ["ust", "run"] if i else ["record", "--ust"]
            run = subprocess.run([build / "spoor", *verb, "-o", f"{i}.spoor", "--", "sh", "-c",
                                  "echo $SPOOR_UST_SOCKET; ls -d $SPOOR_UST_SOCKET"], cwd=tmp_path,
                                 capture_output=True, text=True, env=plain | {k: str(v) for k, v in env.items()})
            said, there = run.stdout.splitlines()
            assert run.returncode == 0 and said == there
            assert re.fullmatch(re.escape(str(place)) + "/spoor-ust-[A-Za-z0-9]{6}/socket", said), (env, said)
            assert not os.path.exists(os.path.dirname(said))


def left_in(place):
    return list(place.glob("spoor-ust-*"))


def watchers_for(place):
    """The processes that would remove it."""
    found = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text() == "trace-watcher\n" and str(place).encode() in (comm.parent / "environ").read_bytes():
                found.append(int(comm.parent.name))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("verb", [["ust", "run"], ["record", "--ust"]], ids=" ".join)
def test_nothing_stays_after_sigkill(build, tmp_path, verb):
    """Not the socket's directory, nor who has removed it; what is left of both is gone with the next recorder."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))  # a path that is short, as a socket's must be
    env = os.environ | {"TMPDIR": str(place)}

    def killed(name, watcher_too):
        p = subprocess.Popen([build / "spoor", *verb, "-o", tmp_path / name, "--", "sh", "-c",
                              "echo $$; exec sleep 20"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
        command = int(p.stdout.readline())
        there, watchers = left_in(place), wait_for(lambda: watchers_for(place))  # it takes its name when it runs
        assert len(there) == len(watchers) == 1
        for pid in watchers * watcher_too + [p.pid, command]:
            os.kill(pid, signal.SIGKILL)
        p.wait()
        p.stdout.close()
        return there[0]

    killed("a.spoor", False)
    wait_for(lambda: not left_in(place) and not watchers_for(place))
    left = killed("b.spoor", True)
    wait_for(lambda: not watchers_for(place))
    assert left.exists()
    os.utime(left, (0, 0))
    assert killed("c.spoor", False) != left
    wait_for(lambda: not left_in(place) and not watchers_for(place))
    place.rmdir()
