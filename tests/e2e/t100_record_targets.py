# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor record's targets: who is in is exact, whoever comes, goes, or becomes something else."""
import ctypes
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from processes import children, go, has_ended, ready, status, tell, wait_for

MARKS = ("-e", "getppid,execve,exit_group")


# ---- -- CMD ----

def test_command_and_all_its_descendants(spoor, actor, read, start, tmp_path):
    """fork, vfork, clone and clone3 inherit; a bystander of the same name does not come in."""
    program = actor()
    other = start(program, "storm", "300", "3")
    assert spoor("record", "-o", "t.spoor", "--", program, "family").returncode == 0
    assert other.wait(20) == 0
    trace = read(tmp_path / "t.spoor").whole()
    assert sorted(trace.marks().values()) == [5, 13, 17, 23, 11 + 19]
    assert other.pid not in trace.pids() and len(trace.pids()) == 5


def test_command_from_its_first_event(spoor, actor, read, tmp_path):
    """The first event is the command's own execve, the next the first call of the new image."""
    assert spoor("record", "-o", "t.spoor", "--", actor(), "marks", "7").returncode == 0
    calls = read(tmp_path / "t.spoor").calls
    assert calls[0]["event"] == "execve" and calls[0]["args"]["filename"].endswith("/actor") and calls[0]["ret"] == 0
    assert calls[1]["event"] == "brk" and calls[-1]["event"] == "exit_group"


def test_no_follow(spoor, actor, read, tmp_path):
    assert spoor("record", "-o", "t.spoor", "--no-follow", "--", actor(), "family").returncode == 0
    trace = read(tmp_path / "t.spoor")
    assert list(trace.marks().values()) == [11 + 19] and len(trace.pids()) == 1  # its threads are itself


def test_command_that_is_a_script(spoor, actor, read, tmp_path):
    """With #! and without; the rows of its shell are there before it begins, by the name that it has anywhere else."""
    for head in ("#!/bin/sh\n", ""):
        script = tmp_path / f"script{len(head)}"
        script.write_text(f"{head}{actor()} marks 7\n{actor()} marks 11\n")
        script.chmod(0o755)
        assert spoor("record", "-o", f"{script.name}.spoor", "--", script).returncode == 0
        trace = read(tmp_path / f"{script.name}.spoor")
        assert sorted(trace.marks().values()) == [1, 7, 11]  # dash asks once
        assert {e["way"] for e in trace.calls if e["pid"] == trace.calls[0]["pid"] and e["walk"]} == {"kernel"}
        objects = {f["object"] for e in trace.calls for f in e["stack"]}
        assert os.path.realpath("/bin/sh") in objects and "/bin/sh" not in objects


def test_pipeline_of_real_programs(spoor, read, tmp_path):
    command = "ls -l /usr/bin | sort | md5sum >/dev/null; find /etc -maxdepth 1 -type f -exec cat {} + >/dev/null"
    assert spoor("record", "-o", "t.spoor", "--", "sh", "-c", command).returncode == 0
    trace = read(tmp_path / "t.spoor").whole()
    names = {e["args"]["filename"].rpartition("/")[2] for e in trace.of("execve", ret=0)}
    assert names == {"sh", "ls", "sort", "md5sum", "find", "cat"}
    want = {os.fsdecode(p) for p in Path("/etc").iterdir() if p.is_file() and not p.is_symlink()}
    assert want <= {e["args"]["filename"] for e in trace.of("openat", comm="cat")}


# ---- -p PID ----

def test_pid_all_threads(record, read, start, actor):
    """All its threads; not its children; it ends by itself when the target is gone."""
    target, other = (ready(start(actor(), "serve")) for _ in range(2))
    recording = record("-p", target.pid)
    go(target)
    go(other)
    assert recording.wait() == 0
    trace = read(recording.trace).whole()
    assert trace.marks() == {target.pid: 4 * 101} and trace.pids() == {target.pid}
    assert len({e["tid"] for e in trace.of("getppid")}) == 4


def test_pid_follow_and_repeated(record, read, start, actor):
    a, b, other = (ready(start(actor(), "serve")) for _ in range(3))
    recording = record("-p", a.pid, "--follow", "-p", b.pid)
    go(a)
    go(other)
    assert recording.process.poll() is None  # b is still there
    go(b)
    assert recording.wait() == 0
    trace = read(recording.trace).whole()
    assert trace.marks()[a.pid] == trace.marks()[b.pid] == 4 * 101
    assert sorted(trace.marks().values()) == [31, 31, 404, 404] and other.pid not in trace.pids()


def test_pid_that_becomes_another_program(record, read, start, actor):
    """-p is the process, whatever it executes, by a thread that is not the leader too."""
    program = actor()
    for kind in ("become", "thread-become"):
        shell = start("sh", "-c", f"read x; exec {program} {kind} 7 {program} marks 11")
        recording = record("-p", shell.pid, trace=f"{kind}.spoor")
        tell(shell)
        assert recording.wait() == 0
        trace = read(recording.trace).whole()
        assert trace.marks() == {shell.pid: 18} and trace.pids() == {shell.pid}
        assert trace.count("execve", ret=0) == 2


def test_pid_and_its_name(record, read, start, actor, tmp_path):
    """Who is in by both stays in where its name alone would take it out."""
    shutil.copy("/bin/dash", tmp_path / "wombat")
    shell = start(tmp_path / "wombat", "-c", f"read x; {actor()} marks 3; exec {actor()} marks 11")
    recording = record("-n", "wombat", "-p", shell.pid)
    tell(shell)
    assert shell.wait(20) == 0 and recording.stop() == 0
    trace = read(recording.trace).whole()
    assert trace.marks()[shell.pid] == 11 and trace.count("execve", pid=shell.pid, ret=0) == 1


def test_pid_that_comes_under_the_name(record, read, start, actor):
    """From then on its children are in, too, as of any process of that name."""
    shell = start("sh", "-c", f"read x; {actor('numbat')} marks 3; exec {actor('quokka')} family")
    recording = record("-p", shell.pid, "-n", "quokka", *MARKS)
    tell(shell)
    assert shell.wait(20) == 0 and recording.stop() == 0
    trace = read(recording.trace).whole()
    assert sorted(trace.marks().values()) == [5, 13, 17, 23, 11 + 19]


@pytest.mark.parametrize("follow", [False, True])
def test_pid_that_loses_the_name(record, read, start, actor, tmp_path, follow):
    """It stays in; its children from then on are in with --follow alone."""
    shutil.copy("/bin/dash", tmp_path / "wombat")
    script = f"read x; exec sh -c 'read y; {actor()} marks 11; {actor()} marks 7; exit'"
    shell = start(tmp_path / "wombat", "-c", script)
    recording = record("-n", "wombat", "-p", shell.pid, *(["--follow"] if follow else []), *MARKS)
    tell(shell)
    wait_for(lambda: Path(f"/proc/{shell.pid}/comm").read_text() == "sh\n")
    tell(shell)
    assert shell.wait(20) == 0 and recording.stop() == 0
    trace = read(recording.trace).whole()
    marks = [n for pid, n in trace.marks().items() if pid != shell.pid]
    assert sorted(marks) == ([7, 11] if follow else []) and trace.count("exit_group", pid=shell.pid) == 1


FLICKER = r"""
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	for (int i = 0; i < 300; i++)
		getppid();
	execl(argv[2], argv[2], argv[2], argv[1], (char *)0);
	return 1;
}
"""


def test_name_that_comes_and_goes_while_it_attaches(record, read, start, tmp_path):
    """Processes that execute all the time: none of those of another name is in."""
    source = tmp_path / "flicker.c"
    source.write_text(FLICKER)
    for name in "quokka", "numbat":
        subprocess.run(["gcc", "-O1", "-o", tmp_path / name, source], check=True)
    for _ in range(8):
        start(tmp_path / "quokka", tmp_path / "quokka", tmp_path / "numbat")
    for lap in range(5):
        recording = record("-n", "quokka", "-e", "getppid", "-m", "none", "--duration", "30ms", start=False,
                           trace=f"{lap}.spoor")
        assert recording.wait() == 0
        assert {e["comm"] for e in read(recording.trace).of("getppid")} == {"quokka"}


@pytest.mark.parametrize("target", ["-p $!", "-n quokka"])
def test_child_of_who_became_spoor(build, read, actor, start, tmp_path, target):
    """A shell's, that has executed Spoor since: it is none of Spoor's helpers."""
    child = f"until [ -e go ]; do sleep 0.1; done; exec {actor('quokka')} marks 101"
    shell = f"sh -c '{child}' & echo $!; exec {build}/spoor record -o t.spoor {target}"
    spoor = start("sh", "-c", shell, stderr=subprocess.PIPE)
    born = int(spoor.stdout.readline())
    while b"recording into" not in spoor.stderr.readline():
        assert spoor.poll() is None
    (tmp_path / "go").touch()
    wait_for(lambda: has_ended(born), 20)
    if "-n" in target:
        spoor.terminate()
    assert spoor.wait(20) == 0
    assert read(tmp_path / "t.spoor").whole().marks() == {born: 101}


# ---- -n NAME ----

def test_name_running_and_later(record, read, start, actor):
    quokka, numbat = actor("quokka"), actor("numbat")
    running, other = ready(start(quokka, "serve")), ready(start(numbat, "serve"))
    recording = record("-n", "quok*")
    later = ready(start(quokka, "serve"))
    for process in (running, other, later):
        go(process)
    assert subprocess.run([numbat, "marks", "3"]).returncode == 0
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    assert trace.marks()[running.pid] == trace.marks()[later.pid] == 404
    assert sorted(trace.marks().values()) == [31, 31, 404, 404] and other.pid not in trace.pids()
    assert {e["comm"] for e in trace.calls} == {"quokka"}


def test_name_repeated_and_question_mark(record, read, actor):
    names = ["quokka", "quolla", "numbat", "wombat"]
    recording = record("-n", "quo?k?", "-n", "*bat", *MARKS)
    for name in names:
        subprocess.run([actor(name), "marks", "7"], check=True)
    assert recording.stop() == 0
    trace = read(recording.trace)
    assert {e["comm"] for e in trace.of("getppid")} == {"quokka", "numbat", "wombat"} and trace.count() == 21


def test_name_with_sets_and_long(record, read, actor, start):
    """As in glob(7), and more of a name than a comm holds; running ones and later ones."""
    names = ["quokka1", "quokka2", "quokkax", "a-rather-long-name-of-an-executable-file-that-a-comm-does-not-hold"]
    long, running = names[3], ready(start(actor("quokka2"), "serve"))
    recording = record("-n", "quokk[!b-z][2-9]", "-n", f"{long[:40]}*[d]", *MARKS)
    for name in names:
        subprocess.run([actor(name), "marks", "7"], check=True)
    go(running)
    assert recording.stop() == 0
    trace = read(recording.trace)
    assert {e["comm"] for e in trace.of("getppid")} == {"quokka2", long[:15]} and trace.count() == 404 + 31 + 14
    recording = record("-n", long[:63], *MARKS, trace="u.spoor")
    subprocess.run([actor(long[:63]), "marks", "7"], check=True)
    subprocess.run([actor(long), "marks", "7"], check=True)
    assert recording.stop() == 0
    assert read(recording.trace).count() == 7


def test_long_name_of_a_link_and_of_a_script(record, read, actor, start, tmp_path):
    """Running ones, whose comm was cut, as later ones; not those whose names only begin so, nor who is cut alike and
    was told another name."""
    begin = "a-name-that-a-comm-cannot-hold"
    script = tmp_path / f"{begin}-script"
    script.write_text("#!/bin/sh -u\nread x\n: </dev/null\n")
    script.chmod(0o755)
    for name in "link", "other":
        (tmp_path / f"{begin}-{name}").symlink_to(actor())
    links = {name: [start(tmp_path / f"{begin}-{name}", "serve")] for name in ("link", "other")}
    scripts, told = [start(script)], start("bash", "-c", f"exec -a quokka {tmp_path}/{begin}-link serve")
    for process in (*links["link"], *links["other"], told):
        ready(process)
    wait_for(lambda: Path(f"/proc/{scripts[0].pid}/comm").read_text() == begin[:15] + "\n")
    recording = record("-n", f"{begin}-[!o]*")
    links["link"].append(ready(start(tmp_path / f"{begin}-link", "serve")))
    scripts.append(start(script))
    for process in (*links["link"], *links["other"], told):
        go(process)
    for process in scripts:
        tell(process)
        assert process.wait(20) == 0
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    assert trace.pids() & {p.pid for p in (*links["other"], told)} == set()
    assert [trace.marks()[p.pid] for p in links["link"]] == [404, 404]
    assert {p.pid for p in scripts} == {e["pid"] for e in trace.of("openat") if e["args"]["filename"] == "/dev/null"}


def test_name_of_what_was_replaced(record, read, actor, start):
    """As by an update: a running instance's executable has no name any more, but had one."""
    name = "a-name-that-a-comm-does-not-hold"
    running = ready(start(actor(name), "serve"))
    actor(name).unlink()
    recording = record("-n", name, *MARKS)
    go(running)
    assert recording.stop() == 0
    assert read(recording.trace).marks()[running.pid] == 404


def test_exec_into_the_name(spoor, record, read, actor, start):
    """A shell becomes the program: in with that execve, of which the path is known, then from its first call; nothing
    of the shell."""
    quokka = actor("quokka")
    recording = record("-n", "quokka")
    shell = start("sh", "-c", f": </dev/null; : </dev/zero; exec {quokka} marks 13")
    assert shell.wait(20) == 0
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    calls = trace.of(pid=shell.pid)
    assert calls[0]["event"] == "execve" and calls[0]["ret"] == 0
    assert calls[0]["args"] == {"filename": str(quokka), "argv": None, "envp": None}
    assert f'execve("{quokka}", ?, ?) = 0 <' in spoor("report", "--events", recording.trace).stdout
    assert calls[1]["event"] == "brk" and trace.count() == 13 and trace.pids() == {shell.pid}
    assert {e["comm"] for e in calls} == {"quokka"}


BY_DESCRIPTOR = """
import ctypes, os, sys
directory, name, how = sys.argv[1:]
fd = os.open(directory + "/" + name if how == "file" else directory, os.O_RDONLY)
os.set_inheritable(fd, True)
if how == "file":
    os.execve(fd, [name, "marks", "13"], os.environ)
argv = (ctypes.c_char_p * 4)(name.encode(), b"marks", b"13", None)
ctypes.CDLL(None).syscall(322, fd, name.encode(), argv, None, 0)
"""


@pytest.mark.parametrize("how", ["file", "directory"])
def test_execveat_into_the_name(spoor, record, read, counting_under_way, actor, start, tmp_path, how):
    """The call is what it is called, for -e too. The path is that which the kernel makes of descriptor and name."""
    quokka = actor("quokka")
    recordings = [record("-n", "quokka", trace="all.spoor"), record("-n", "quokka", "-e", "execveat", trace="at.spoor"),
                  record("-n", "quokka", "-e", "execve", trace="execve.spoor")]
    stat = counting_under_way("-n", "quokka")
    process = start("/usr/bin/python3", "-c", BY_DESCRIPTOR, tmp_path, "quokka", how)
    assert process.wait(20) == 0
    assert [r.stop() for r in [*recordings, stat]] == [0] * 4
    whole, at, execve = (read(r.trace).whole() for r in recordings)
    path = "/dev/fd/3" + ("/quokka" if how == "directory" else "")
    for trace in whole, at:
        call = trace.calls[0]
        assert call["event"] == "execveat" and call["ret"] == 0 and call["pid"] == process.pid
        assert call["args"] == {"fd": None, "filename": path, "argv": None, "envp": None, "flags": None}
    assert f'execveat(?, "{path}", ?, ?, ?) = 0 <' in spoor("report", "--events", whole.path).stdout
    assert whole.count() == 13 and whole.calls[1]["event"] == "brk"
    assert len(at.calls) == 1 and not execve.calls
    (c,) = stat.counters()
    assert c.whole().of("execveat") == 1 and ("execve", None) not in c.returned()


def test_exec_out_of_the_name(record, read, actor, start):
    """The execve belongs to the old image when it begins: it is the last that is seen."""
    quokka, numbat = actor("quokka"), actor("numbat")
    recording = record("-n", "quokka")
    for kind in ("become", "thread-become"):
        out = start(quokka, kind, "7", numbat, "marks", "11")
        back = start(quokka, kind, "7", numbat, "become", "11", quokka, "marks", "5")
        assert out.wait(20) == back.wait(20) == 0
        assert out.pid and back.pid
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    assert sorted(trace.marks().values()) == [7, 7, 12, 12]
    for pid, marks in trace.marks().items():
        calls = trace.of("execve", pid=pid)
        execs = [e["args"]["filename"].rpartition("/")[2] for e in calls]
        assert [e["args"]["argv"] is None for e in calls] == [name == "quokka" for name in execs]
        assert execs == (["quokka", "numbat"] if marks == 7 else ["quokka", "numbat", "quokka"])
        if marks == 7:
            assert trace.of(pid=pid)[-1]["event"] == "execve"


def test_failed_exec_changes_nothing(record, read, actor, start):
    quokka = actor("quokka")
    recording = record("-n", "quokka")
    assert start(quokka, "become", "7", "/nonexistent/numbat").wait(20) == 127
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    assert trace.count() == 7 and [e["errno"] for e in trace.of("execve")] == [None, "ENOENT"]
    assert trace.of()[-1]["event"] == "exit_group"


def test_name_of_a_script(record, read, actor, start, tmp_path):
    """A script's comm is its name, running or later; what it starts is not."""
    script = tmp_path / "bilby"
    script.write_text(f"#!/bin/sh\nread x\n: </dev/null\n{actor('numbat')} marks 3\n:\n")
    script.chmod(0o755)
    running = start(script)
    wait_for(lambda: Path(f"/proc/{running.pid}/comm").read_text() == "bilby\n")
    recording = record("-n", "bilby")
    later = start(script)
    for process in (running, later):
        tell(process)
        assert process.wait(20) == 0
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    assert {running.pid, later.pid} <= trace.pids() and trace.count(comm="numbat") == 0
    for pid in (running.pid, later.pid):
        assert [e["args"]["filename"] for e in trace.of("openat", pid=pid) if e["args"]["filename"] == "/dev/null"]
    assert "numbat" not in {e["comm"] for e in trace.calls}


# ---- --cgroup PATH ----

def move(process, group):
    (group / "cgroup.procs").write_text(str(process.pid))


def test_cgroup(record, read, start, actor, cgroups, cgroup):
    """Members at the start, of groups below too, whoever moves in, until it moves out, and their children."""
    program = actor()
    member, inner, comer, leaver, other = (ready(start(program, "serve")) for _ in range(5))
    move(member, cgroup)
    move(inner, cgroup / "inner")
    move(leaver, cgroup)
    recording = record("--cgroup", cgroup)
    move(comer, cgroup)
    move(leaver, cgroups)
    time.sleep(0.3)  # a move takes in a process's threads one by one, for lack of memory some a little later
    for process in (member, inner, comer, leaver, other):
        go(process)
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    for process in (member, inner, comer):
        assert trace.marks()[process.pid] == 404
    assert sorted(trace.marks().values()) == [31] * 3 + [404] * 3
    assert other.pid not in trace.pids() and not trace.count("read", pid=leaver.pid, ret=1)
    assert {e["unfinished"] for e in trace.of("futex", pid=comer.pid) if "unfinished" in e} <= {"before"}


def test_default_name_of_a_cgroup(spoor, cgroup, tmp_path):
    """Is its own one's, and can be typed."""
    odd = cgroup / "inner/a *é"
    odd.mkdir()
    try:
        for path, name in ((f"{cgroup}/inner//", "inner"), (odd, "a__é")):
            run = spoor("record", "--cgroup", path, "--duration", "50ms")
            assert run.returncode == 0 and len(list(tmp_path.glob(f"spoor-*-{name}.spoor"))) == 1, run.stderr
    finally:
        odd.rmdir()


def by_namespace(cgroup, at):
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))
    assert ctypes.CDLL(None).unshare(0x02020000) == 0  # CLONE_NEWCGROUP | CLONE_NEWNS
    subprocess.run(["mount", "-t", "cgroup2", "none", at], check=True)


def by_mount(cgroup, at):
    assert ctypes.CDLL(None).unshare(0x00020000) == 0
    subprocess.run(["mount", "--bind", cgroup, at], check=True)


@pytest.mark.parametrize("hide", [by_namespace, by_mount])
def test_cgroup_whose_parents_are_not_seen(record, read, start, actor, cgroup, tmp_path, hide):
    at = tmp_path / "at"
    at.mkdir()
    member, other = (ready(start(actor(), "serve")) for _ in range(2))
    move(member, cgroup / "inner")
    recording = record("--cgroup", at / "inner", preexec_fn=lambda: hide(cgroup, at))
    for process in member, other:
        go(process)
    assert recording.stop() == 0
    assert sorted(read(recording.trace).whole().marks().values()) == [31, 404]


def test_who_leaves_has_not_ended(spoor, record, start, cgroups, cgroup):
    """Nor is the call in which it left still under way: here the write that moves it."""
    recording = record("--cgroup", cgroup)
    script = f"echo ready; read x; echo $$ > {cgroups}/cgroup.procs; exit 3"
    leavers = [ready(start("sh", "-c", script)) for _ in range(3)]
    for leaver in leavers:
        move(leaver, cgroup)
    time.sleep(0.3)  # as above: for lack of memory some come in a little later
    for leaver in leavers:
        tell(leaver)
    assert [leaver.wait(20) for leaver in leavers] == [3] * 3
    assert recording.stop() == 0
    assert spoor("report", "--blocked", recording.trace).stdout.startswith("0 calls were in flight")
    lines = spoor("report", "--events", recording.trace).stdout.splitlines()
    for leaver in leavers:
        mine = [line for line in lines if line.startswith(f"[{leaver.pid}]")]
        assert mine[-1].endswith("--- left the recording ---")
        assert not [line for line in mine if "exited with" in line]
        assert sum("cgroup.procs>" in line and "its thread left the recording" in line for line in mine) == 1


def test_moved_to_and_fro(record, read, start, actor, cgroups, cgroup):
    """Threads that run or sleep while they are moved: none is left out. Each time their mappings have to be learned."""
    comers = [ready(start(actor(), "serve")) for _ in range(10)]
    recording = record("--cgroup", cgroup)
    for i in range(41):
        for comer in comers:
            move(comer, cgroups if i & 1 else cgroup)
    time.sleep(0.3)
    for comer in comers:
        go(comer)
    assert recording.stop() == 0
    assert "not recorded" not in recording.said()
    marks = read(recording.trace).whole(user=0.3).marks()
    assert [marks[comer.pid] for comer in comers] == [404] * 10


def test_calls_in_which_a_comer_sleeps(spoor, record, start, actor, cgroup):
    """Whoever is moved in while it is blocked is seen blocked."""
    comer = ready(start(actor(), "serve"))
    recording = record("--cgroup", cgroup)
    move(comer, cgroup)
    time.sleep(0.3)
    assert recording.stop() == 0
    out = spoor("report", "--blocked", recording.trace).stdout
    assert out.count(" in futex(") == 4 and out.count(" in read(") == 1


def test_calls_in_which_a_leaver_sleeps(record, read, start, actor, cgroups, cgroup):
    """They are told of once, as begun before, though they began as little in the recording as they end there."""
    leaver = ready(start(actor(), "serve"))
    recording = record("--cgroup", cgroup)
    move(leaver, cgroup)
    time.sleep(0.3)
    move(leaver, cgroups)
    assert recording.stop() == 0
    calls = read(recording.trace).of(pid=leaver.pid)
    assert sorted(c["event"] for c in calls) == ["futex"] * 4 + ["read"]
    assert all(c["unfinished"] == "left" and c["start_exact"] is False for c in calls)


def test_move_in_another_hierarchy(record, read, start, actor, cgroup):
    """Only its place in the unified hierarchy counts."""
    other = next((Path(f[1]) for f in (line.split() for line in Path("/proc/mounts").read_text().splitlines())
                  if f[2] == "cgroup" and "pids" in f[3].split(",")), None)
    if not other:
        pytest.skip("none but version 2 is mounted: nothing to confuse it with")
    elsewhere = other / cgroup.name
    elsewhere.mkdir()
    try:
        member = ready(start(actor(), "serve"))
        move(member, cgroup)
        recording = record("--cgroup", cgroup)
        move(member, elsewhere)
        go(member)
        assert recording.stop() == 0
        assert read(recording.trace).marks()[member.pid] == 404
    finally:
        elsewhere.rmdir()


def test_born_into_a_cgroup(record, read, compiled, cgroups, cgroup):
    """clone3(CLONE_INTO_CGROUP) in both directions."""
    program = compiled("into_cgroup.c")
    recording = record("--cgroup", cgroup)
    subprocess.run([program, cgroup, "7"], check=True, timeout=20)
    command = f"echo $$ > {cgroup}/cgroup.procs; exec {program} {cgroups} 11"
    subprocess.run(["sh", "-c", command], check=True, timeout=20)
    assert recording.stop() == 0
    assert list(read(recording.trace).whole().marks().values()) == [7]


# ---- -a ----

def test_everything(record, read, actor, start):
    recording = record("-a", *MARKS)
    process = start(actor(), "family")
    assert process.wait(20) == 0
    assert recording.stop() == 0
    trace = read(recording.trace)
    ours = [n for pid, n in trace.marks().items() if {e["comm"] for e in trace.of("getppid", pid=pid)} == {"actor"}]
    assert sorted(ours) == [5, 13, 17, 23, 30] and recording.pid not in trace.pids()


def helpers_in(trace, recording, helpers):
    """Of Spoor's own processes those that are in a trace: itself, its children, and theirs."""
    text = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=True, timeout=60).stdout
    born = re.findall(r"spoor:thread: .*?tid = (\d+), flags = \w+ }, { pid = (\d+), ppid = (\d+),", text)
    assert born
    return {int(pid) for _, pid, ppid in born if {int(pid), int(ppid)} & ({recording.pid} | helpers)}


def test_helpers_are_not_recorded(record, start, actor, cgroup, tmp_path, monkeypatch):
    """The row compiler, which is there when recording begins, and its workers, which are forked later."""
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(tmp_path / "cache"))  # empty: there is something to compile
    for target in (("-a",), ("--cgroup", cgroup)):
        recording = record(*target, trace=f"{target[0]}.spoor",
                           preexec_fn=lambda: (cgroup / "cgroup.procs").write_text(str(os.getpid())))
        helpers = set(children(recording.pid))
        member = ready(start(actor(f"quokka{target[0]}"), "serve"))
        move(member, cgroup)
        go(member)
        time.sleep(0.3)
        assert recording.stop() == 0
        assert helpers and helpers_in(recording.trace, recording, helpers) == set()


# ---- identities ----

def reuse(pid, command):
    """Runs command with that pid if it is free: the kernel gives the next after ns_last_pid."""
    for _ in range(200):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        process = subprocess.Popen(command)
        process.wait(20)
        if process.pid == pid:
            return
    pytest.fail(f"pid {pid} could not be had again")


def test_reused_pid_is_a_bystander(record, read, start, actor):
    target, keeper = (ready(start(actor(), "sleep")) for _ in range(2))
    recording = record("-p", target.pid, "-p", keeper.pid)
    go(target)
    reuse(target.pid, [actor("numbat"), "marks", "7"])
    go(keeper)
    assert recording.wait() == 0
    trace = read(recording.trace).whole()
    assert trace.marks() == {target.pid: 1, keeper.pid: 1} and {e["comm"] for e in trace.calls} == {"actor"}


def test_reused_pid_is_another_process(record, read, start, actor):
    recording = record("-n", "quokka", "-n", "numbat")
    first = start(actor("quokka"), "marks", "5")
    assert first.wait(20) == 0
    reuse(first.pid, [actor("numbat"), "marks", "7"])
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    assert trace.count("getppid", pid=first.pid, comm="quokka") == 5
    assert trace.count("getppid", pid=first.pid, comm="numbat") == 7


def test_thousands_of_processes(spoor, actor, read, tmp_path):
    run = spoor("record", "-o", "t.spoor", *MARKS, "--", actor(), "storm", "2000", "4")
    assert run.returncode == 0
    trace = read(tmp_path / "t.spoor").whole()
    marks = list(trace.marks().values())
    assert sum(marks) == 6000 and trace.count("execve", ret=0) == 501 and trace.count("exit_group") == 2001


def test_start_and_stop_in_the_midst(record, read, start, actor):
    """Whoever was seen from execve to exit is there with every call."""
    storms = [start(actor("quokka"), "storm", "100000", "1") for _ in range(2)]

    def waits():
        """How often they have slept: once for each child, more or less."""
        return sum(int(status(s.pid, "voluntary_ctxt_switches")) for s in storms)
    for lap in range(3):
        recording = record("-n", "quokka", *MARKS, trace=f"{lap}.spoor")
        begin = waits()
        time.sleep(0.3)
        wait_for(lambda: waits() > begin + 60)
        assert recording.process.poll() is None and recording.stop() == 0
        trace = read(recording.trace).whole()
        begun = {e["pid"] for e in trace.of("execve") if e["ret"] == 0}
        whole = begun & {e["pid"] for e in trace.of("exit_group")} - {s.pid for s in storms}
        assert len(whole) > 20
        marks = trace.marks()
        assert {pid: n for pid, n in marks.items() if pid in whole and n != 3} == {}
    for s in storms:
        s.kill()
