# SPDX-License-Identifier: GPL-2.0-or-later
"""SIGURG, by which programs are called: whom it gets to, and that it stays the program's own, too."""
import os
import re
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import pytest

import tracing
from daemons import PATIENCE, daemon, open_place  # noqa: F401
from processes import children, sleeps_in, tell, wait_for
from t314_ust_hostile_recorder import kick
from t346_ust_waiting import traced

READ, PAUSE = 0, 34


def test_child_by_vfork(daemon, tmp_path):  # noqa: F811
    """It is called, too, and does nothing in its parent's memory, which has other files at its numbers."""
    p = daemon.program(tracing.build_program(tmp_path / "vforks", "ust_vforks.c"), stdin=subprocess.PIPE)
    tell(p)
    child, = wait_for(lambda: children(p.pid))
    wait_for(lambda: sleeps_in(child, PAUSE))
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    assert p.stdout.readline() == b"back\n"
    tell(p)
    assert p.wait(PATIENCE) == 0
    assert daemon.ust("end").stdout.startswith("101 events of 1 program, 0 lost")
    assert {e["pid"] for e in daemon.events()} == {p.pid}


def test_child_by_vfork_of_a_child(daemon, tmp_path):  # noqa: F811
    """What it writes before its parent has buffers is lost, and counted; those that it made would end with it."""
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c")
    daemon.ust("start", "-o", "t.spoor")
    assert subprocess.run([program, "forked-vfork"], env=daemon.environment(), timeout=PATIENCE).returncode == 0
    assert daemon.ust("end").stdout.startswith("8 events of 2 programs, 4 lost")
    said = subprocess.run(["babeltrace2", daemon.cwd / "t.spoor"], stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert sorted(map(int, re.findall(r" n = (\d+)", said.stdout))) == [0, 1, 2, 20, 21, 22, 23, 24], said


@pytest.fixture
def urgent(build, daemon, tmp_path):  # noqa: F811
    """A program that handles SIGURG since before the library did, which is within it."""
    tracing.build_program(tmp_path / "liburgent.so", "ust_urgent.c", "-shared", "-fPIC", "-DLIBRARY")
    archive = ["-Wl,--whole-archive", build / "src/agent/libspoor-ust.a", "-Wl,--no-whole-archive", "-lurcu-bp",
               "-rdynamic"]
    program = tracing.build_program(tmp_path / "urgent", "ust_urgent.c", *archive, f"-L{tmp_path}", "-lurgent",
                                    f"-Wl,-rpath,{tmp_path}", "-ldl")
    plugin = tracing.build_program(tmp_path / "p.so", "ust_plugin.c", "-shared", "-fPIC")
    return lambda: daemon.program(program, plugin, preload=False, stdin=subprocess.PIPE)


def ask(program, letter):
    tell(program, letter)
    assert program.stdout.readline() == b"done\n"


def handled(program):
    """How many, and how many of these were not its own."""
    program.stdin.close()
    *_, last = program.stdout.read().splitlines()
    assert program.wait(PATIENCE) == 0
    return tuple(map(int, last.split()))


def test_signals_of_a_program_that_is_called(daemon, urgent):  # noqa: F811
    """It has each of its own, and none of those that are for the library."""
    p = urgent()
    for turn in range(3):
        tell(p, b"s")
        for n in range(4):
            daemon.ust("start", "-o", f"t{turn}-{n}.spoor", "-e", "zoo:tick")
            daemon.ust("end")
        assert p.stdout.readline() == b"done\n"
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    ask(p, b"r")
    assert daemon.ust("end").stdout.startswith("1 event of 1 program")
    assert handled(p) == (1500, 0)


def test_signal_of_a_program_that_is_called_again(daemon, urgent, tmp_path):  # noqa: F811
    """Whom the library's lock was not free for is called again by who had it. That and his own are one signal."""
    daemon.ust("start", "-o", "t.spoor")
    p = urgent()
    tracer = traced(p.pid, "-f", "-o", tmp_path / "calls", "-e", "trace=pwrite64", "-e",
                    "inject=pwrite64:delay_enter=60000000:when=1")
    tell(p, b"l")
    wait_for(lambda: "pwrite64" in (tmp_path / "calls").read_text())
    kick(p)
    status = Path(f"/proc/{p.pid}/status")
    wait_for(lambda: sleeps_in(p.pid, READ) and "ShdPnd:\t0000000000000000" in status.read_text())
    ask(p, b"b")
    tracer.terminate()
    tracer.communicate(timeout=PATIENCE)
    assert p.stdout.readline() == b"loaded\n"
    ask(p, b"u")
    assert handled(p) == (1, 0)


@pytest.fixture
def reset(daemon, tmp_path):  # noqa: F811
    program = tracing.build_program(tmp_path / "reset", "ust_reset.c")
    return lambda how, **more: daemon.program(program, how, stdin=subprocess.PIPE, **more)


RESET = "SIGURG was taken from it"


@pytest.mark.parametrize("how", ["default", "ignore"])
def test_who_took_it_away_is_told_of(daemon, reset, how):  # noqa: F811
    """As PostgreSQL does: by commands for all, and for it alone, by status and by end. Each is counted once."""
    one, other = reset(how), reset(how)
    elsewhere = reset(how, SPOOR_UST_SOCKET="/nowhere"), reset(how, SPOOR_UST_OUTPUT=str(daemon.cwd))
    run = daemon.ust("start", "-o", "t.spoor", one.pid, check=False)
    assert run.returncode == 1 and run.stderr == f"spoor ust: {one.pid}: {RESET}\n"
    for words in ("start", "-o", "t.spoor"), ("enable", "zoo:*", "-a"):
        said = daemon.ust(*words).stdout
        assert all(f"{p.pid}: {RESET}\n" in said for p in (one, other)) and "2 others did not do it" in said, said
        assert not any(line.startswith(f"{p.pid}:") for p in elsewhere for line in said.splitlines()), said
    assert f"{one.pid}: {RESET}\n" in daemon.ust("enable", "zoo:*", one.pid, check=False).stdout
    line = f"2 programs that ran already are not recorded: {RESET}\n"
    assert f"  {line}" in daemon.ust("status").stdout
    said = daemon.ust("end").stdout
    assert said.startswith("0 events of 0 programs") and line in said and "no program with sites" not in said, said
    daemon.events()
    assert daemon.summary["programs_not_recorded"] == 2


CAP_NET_RAW = 13


def give_rights(program, by):
    program.chmod(0o4755 if by == "setuid" else 0o755)
    if by == "capability":  # struct vfs_cap_data: revision 2, effective; permitted, inheritable
        os.setxattr(program, "security.capability", struct.pack("<5I", 0x02000001, 1 << CAP_NET_RAW, 0, 0, 0))


@pytest.mark.parametrize("by", ["setuid", "capability"])
def test_who_was_given_rights_is_not_told_of(daemon, open_place, by):  # noqa: F811
    """It obeys the machine's recorder alone, whatever its environment names; who has no more rights obeys that."""
    shutil.copy(tracing.agent(daemon.build), open_place)
    plain = tracing.build_program(open_place / "reset", "ust_reset.c", "-Wl,--no-as-needed",
                                  open_place / "libspoor-ust.so.0", f"-Wl,-rpath,{open_place}")
    secure = Path(shutil.copy(plain, open_place / "secure"))
    give_rights(secure, by)
    one, other = (daemon.program("setpriv", "--reuid=12345", "--clear-groups", program, preload=False,
                                 stdin=subprocess.PIPE) for program in (plain, secure))
    said = daemon.ust("start", "-o", "t.spoor").stdout
    assert f"{one.pid}: {RESET}\n" in said and f"{other.pid}:" not in said and "1 other did not do it" in said, said
    run = daemon.ust("enable", "zoo:*", other.pid, check=False)
    assert run.returncode == 1 and f"{other.pid}: it obeys another recorder" in run.stderr + run.stdout, run
    assert f"1 program that ran already is not recorded: {RESET}\n" in daemon.ust("end").stdout


def test_very_many_that_took_it_away(daemon, reset):  # noqa: F811
    """Some are named, all are counted."""
    all_of_them = [reset("default").pid for _ in range(23)]
    said = daemon.ust("start", "-o", "t.spoor").stdout
    assert said.count(RESET) == 16 and "and 7 more that no signal reaches\n" in said, said
    assert "23 others did not do it" in said
    assert daemon.ust("enable", "zoo:*", *all_of_them, check=False).stdout.count(RESET) == 23
    assert f"23 programs that ran already are not recorded: {RESET}\n" in daemon.ust("end").stdout


def test_who_blocks_it_is_told_of_until_he_comes(daemon, reset):  # noqa: F811
    p = reset("block")
    said = daemon.ust("start", "-o", "t.spoor").stdout
    assert f"{p.pid}: it does not answer: is SIGURG blocked there?\n" in said
    assert "  1 program that ran already is not recorded: it blocks SIGURG\n" in daemon.ust("status").stdout
    daemon.kill(signal.SIGTERM)
    daemon.start()
    assert "  1 program that ran already is not recorded: it blocks SIGURG\n" in daemon.ust("status").stdout
    tell(p)
    wait_for(lambda: daemon.line(p.pid))
    assert "not recorded" not in daemon.ust("status").stdout
    assert "not recorded" not in daemon.ust("end").stdout


def test_who_is_about_to_execute_is_not_accused(daemon, tmp_path):  # noqa: F811
    """A child of posix_spawn() handles no signal until it has executed, and its parent's library is in it."""
    p = daemon.program(tracing.build_program(tmp_path / "spawns", "ust_spawns.c"), stdin=subprocess.PIPE)
    daemon.ust("start", "-o", "t.spoor")
    for _ in range(30):
        assert RESET not in daemon.ust("enable", "zoo:*", "-a").stdout
    assert "not recorded" not in daemon.ust("status").stdout
    p.kill()
    assert "not recorded" not in daemon.ust("end").stdout
