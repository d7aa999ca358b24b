# SPDX-License-Identifier: GPL-2.0-or-later
"""Targets that other tools hold, that die in every way, that are huge, and files that were made to break readers.

Clocks that are set, and a machine that sleeps, are in t150_record_files.py.
"""
import json
import os
import shutil
import signal
import subprocess
from collections import Counter

import pytest

from processes import ready, tell, wait_for


# ---- under other tracers ----

def test_under_strace(record, read, start, actor, tmp_path):
    """Both see the same; strace goes on."""
    target = start("strace", "-f", "-e", "trace=getppid", "-o", tmp_path / "strace.out", actor(), "serve")
    ready(target)
    pid = int(subprocess.run(["pgrep", "-P", str(target.pid)], capture_output=True, text=True, check=True).stdout)
    recording = record("-p", pid, "--follow")
    tell(target, b"g")
    assert target.wait(30) == 0 and recording.wait() == 0
    trace = read(recording.trace).whole()
    assert trace.count() == 404 + 31
    assert (tmp_path / "strace.out").read_text().count("getppid(") == 435


def test_strace_as_the_command(spoor, read, actor, tmp_path):
    strace = ["strace", "-f", "-e", "trace=getppid", "-o", "strace.out"]
    run = spoor("record", "-o", "t.spoor", "--", *strace, actor(), "family")
    assert run.returncode == 0
    assert read(tmp_path / "t.spoor").whole().count(comm="actor") == 88
    assert (tmp_path / "strace.out").read_text().count("getppid(") == 88


def test_under_gdb(record, read, start, actor, tmp_path):
    """Attached to by gdb, stopped, recorded, continued: its calls are all there, and gdb's commands work."""
    target = ready(start(actor(), "serve"))
    gdb = start("gdb", "-q", "-nx", "-p", target.pid, stderr=subprocess.DEVNULL)
    tell(gdb, b"set confirm off\nprintf \"stopped\\n\"\n")
    while b"stopped" not in gdb.stdout.readline():
        pass
    recording = record("-p", target.pid)
    tell(target, b"g")
    tell(gdb, b"break getppid\ndetach\nquit\n")
    assert gdb.wait(30) == 0 and target.wait(30) == 0 and recording.wait() == 0
    assert read(recording.trace).whole().marks() == {target.pid: 404}


# ---- dying ----

def test_exits_at_once(spoor, read, build, tmp_path):
    """The shortest program there is: no library, one call."""
    (tmp_path / "short.S").write_text(".globl _start\n_start: mov $231,%eax\nxor %edi,%edi\nsyscall\n")
    subprocess.run(["gcc", "-nostdlib", "-static", "-o", "short", "short.S"], cwd=tmp_path, check=True)
    for lap in range(10):
        assert spoor("record", "-o", f"{lap}.spoor", "--", tmp_path / "short").returncode == 0
        trace = read(tmp_path / f"{lap}.spoor", babeltrace=lap == 0).whole()
        assert [e["event"] for e in trace.calls] == ["execve", "exit_group"]


def test_crashes(spoor, read, actor, tmp_path):
    run = spoor("record", "-o", "t.spoor", "--", actor(), "crash")
    assert run.returncode == 128 + signal.SIGSEGV
    trace = read(tmp_path / "t.spoor").whole()
    assert trace.count() == 7
    out = spoor("report", "--events", tmp_path / "t.spoor").stdout
    assert "SIGSEGV" in out


def test_runs_out_of_memory(spoor, read, actor, tmp_path):
    """Its own limit: mmap fails, it says so, it ends."""
    run = spoor("record", "-o", "t.spoor", "--", "prlimit", f"--as={64 << 20}", actor(), "eat")
    assert run.returncode == 5
    trace = read(tmp_path / "t.spoor").whole()
    assert trace.of("mmap", comm="actor")[-1]["errno"] == "ENOMEM"


def test_oom_killed(spoor, read, actor, memory_group, tmp_path):
    """By the kernel, in a memory cgroup."""
    command = f"echo $$ > {memory_group(32 << 20)}/cgroup.procs; exec {actor()} eat"
    run = spoor("record", "-o", "t.spoor", "--", "sh", "-c", command)
    assert run.returncode == 128 + signal.SIGKILL
    trace = read(tmp_path / "t.spoor").whole()
    assert trace.count("mmap", comm="actor") >= 24
    assert "SIGKILL" in spoor("report", "--events", tmp_path / "t.spoor").stdout


def test_setuid_program(build, read, spoor, tmp_path):
    """A user's shell executes a setuid program: it is recorded on, and runs with its privileges, as without us."""
    shutil.copy("/usr/bin/id", tmp_path / "setuid-id")
    os.chmod(tmp_path / "setuid-id", 0o4755)
    for part in [tmp_path, *tmp_path.parents][:-2]:
        os.chmod(part, os.stat(part).st_mode | 0o055)
    command = f"setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '{tmp_path}/setuid-id -un; id -un'"
    run = spoor("record", "-o", "t.spoor", "--", "sh", "-c", command)
    assert run.returncode == 0 and run.stdout == "root\nnobody\n"
    trace = read(tmp_path / "t.spoor").whole()
    assert trace.count("geteuid", comm="setuid-id", ret=0) and trace.count("geteuid", comm="id", ret=65534)
    assert os.stat(tmp_path / "t.spoor").st_mode & 0o777 == 0o700
    for path in (tmp_path / "t.spoor").rglob("*"):
        assert os.stat(path).st_mode & 0o077 == 0 or path.is_dir()


# ---- huge ----

def test_ten_thousand_threads(spoor, record, read, start, actor):
    target = ready(start(actor(), "many", "10000"))
    recording = record("-p", target.pid)
    tell(target, b"g")
    assert target.wait(60) == 0 and recording.wait() == 0
    trace = read(recording.trace, babeltrace=False).whole(user=0.2)
    assert trace.marks() == {target.pid: 10000}
    assert len({e["tid"] for e in trace.of("getppid")}) == 10000
    assert "were not recorded" not in recording.said()


@pytest.mark.parametrize("buffers", [(), ("--buffers", "256k")], ids=["default", "small"])
def test_ten_thousand_threads_are_blocked(spoor, record, start, actor, buffers):
    """All at once, and each with its stack, although their process has twenty thousand mappings, and whatever room the
    buffers have."""
    target = ready(start(actor(), "many", "10000"))
    recording = record("-p", target.pid, "-m", "all", "-S", "32", *buffers)
    assert recording.stop() == 0
    assert " 0 lost; " in recording.said()
    run = spoor("report", "--blocked", "-f", "json", recording.trace)
    assert run.stdout.count('"event":"futex"') == 10000 and run.stdout.count('"event":"read"') == 1
    events = [json.loads(line) for line in run.stdout.splitlines()]
    walks = Counter(e.get("walk") for e in events if e["event"] == "futex")
    assert walks["complete"] >= 9900, walks
    whole = [e for e in events if e["event"] == "futex" and e["walk"] == "complete"]
    assert all("behind_gate" in [f["function"] for f in e["stack"]] for e in whole)


@pytest.mark.parametrize("by_name", [False, True])
def test_leader_has_ended(spoor, record, start, tmp_path, by_name):
    """The process lives on in its threads, which alone show its mappings and its memory."""
    (tmp_path / "headless.c").write_text("""#include <pthread.h>
#include <unistd.h>
__attribute__((noinline)) static void hang(void) { pause(); __asm__ volatile(""); }
static void *thread(void *arg) { hang(); return arg; }
int main(void) { pthread_t t; for (int i = 0; i < 3; i++) pthread_create(&t, NULL, thread, NULL);
 write(1, "ready\\n", 6); pthread_exit(NULL); }
""")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", "headless", "headless.c"], cwd=tmp_path, check=True)
    target = ready(start(tmp_path / "headless"))
    wait_for(lambda: open(f"/proc/{target.pid}/maps").read() == "")
    recording = record(*(["-n", "headless"] if by_name else ["-p", target.pid]), "-m", "all", "-S", "32")
    assert recording.stop() == 0
    run = spoor("report", "--blocked", "-f", "json", recording.trace)
    events = [e for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "pause"]
    assert len(events) == 3 and {e["walk"] for e in events} == {"complete"}
    assert all({"hang", "thread"} <= {f["function"] for f in e["stack"]} for e in events)


def test_ten_thousand_threads_are_born(spoor, read, actor, tmp_path):
    run = spoor("record", "-o", "t.spoor", "--", actor(), "many", "10000", input="g")
    assert run.returncode == 0 and "not recorded" not in run.stderr
    trace = read(tmp_path / "t.spoor", babeltrace=False).whole()
    assert trace.count() == 10000


# ---- hostile files ----

def copy_with(program, path, section, data):
    """A copy of program whose section is replaced."""
    (path.parent / "section").write_bytes(data)
    subprocess.run(["objcopy", "--update-section", f"{section}={path.parent / 'section'}", program, path], check=True,
                   capture_output=True)
    return path


def section_of(program, section, tmp_path):
    out = tmp_path / "dump"
    subprocess.run(["objcopy", "-O", "binary", "--set-section-flags", f"{section}=alloc", "-j", section, program, out],
                   check=True)
    return bytearray(out.read_bytes())


BROKEN = {
    "zeros": lambda d: bytes(len(d)),
    "ones": lambda d: b"\xff" * len(d),
    "endless-cie": lambda d: bytes([0x14, 0, 0, 0, 0, 0, 0, 0, 1]) + b"zRRRRRRRRRRRRRRRRRRRRRRR" + bytes(d[32:]),
    "self-reference": lambda d: (b"\x10\x00\x00\x00\x04\x00\x00\x00" * (len(d) // 8 + 1))[:len(d)],
    "advance-only": lambda d: bytes(d[:24]) + b"\x04\xff\xff\xff\xff" * ((len(d) - 24) // 5),
    "expressions": lambda d: bytes(d[:24]) + b"\x0f\xff\xff\xff\xff\x0f" * ((len(d) - 24) // 6),
    "half": lambda d: bytes(d[:len(d) // 2]) + bytes(len(d) - len(d) // 2),
    "noise": lambda d: bytes((b * 167 + i * 59 + 13) & 255 for i, b in enumerate(d)),
}


WHOLE = ["syscall", "marks", "main"]
CUT = {"no rows", "unreadable", "truncated"}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_eh_frame(spoor, read, compiled, tmp_path, kind):
    """The events are exact; a stack is right as far as it goes, and where it is cut, its status says so."""
    program = compiled("actor.c")
    data = section_of(program, ".eh_frame", tmp_path)
    bad = copy_with(program, tmp_path / f"bad-{kind}", ".eh_frame", BROKEN[kind](data)[:len(data)])
    run = spoor("record", "-o", "t.spoor", "-m", "all", "-S", "32", "--", bad, "marks", "101")
    assert run.returncode == 0
    trace = read(tmp_path / "t.spoor").whole(surprised=0.8)  # all but the loader's calls
    assert trace.count() == 101
    for e in trace.of("getppid"):
        names = [f["function"] for f in e["stack"]]
        assert names[:2] == WHOLE[:2] and (names[:3] == WHOLE[:3] if e["walk"] == "complete" else e["walk"] in CUT), e
    assert {e["walk"] for e in trace.of() if e["event"] not in ("execve", "getppid", "exit_group")} == {"complete"}


def test_absent_eh_frame(spoor, read, compiled, tmp_path):
    """Frame pointers, where there are any, lead to main all the same."""
    program, bare = compiled("actor.c", "-fno-omit-frame-pointer"), tmp_path / "bare"
    subprocess.run(["objcopy", "-R", ".eh_frame", "-R", ".eh_frame_hdr", program, bare], check=True,
                   capture_output=True)
    assert spoor("record", "-o", "t.spoor", "-m", "all", "-S", "32", "--", bare, "marks", "101").returncode == 0
    trace = read(tmp_path / "t.spoor").whole()
    assert trace.count() == 101
    for e in trace.of("getppid"):
        assert e["walk"] == "complete" and [f["function"] for f in e["stack"]][:3] == WHOLE


def test_huge_eh_frame(spoor, read, tmp_path):
    """Hundreds of thousands of rows."""
    lines = [f".p2align 4; f{i}: .cfi_startproc; push %rbx; .cfi_adjust_cfa_offset 8; pop %rbx; "
             f".cfi_adjust_cfa_offset -8; ret; .cfi_endproc" for i in range(100000)]
    (tmp_path / "huge.s").write_text("\n".join([".text", *lines, '.section .note.GNU-stack,"",@progbits', ""]))
    (tmp_path / "main.c").write_text("#include <unistd.h>\n#include <sys/syscall.h>\n"
                                     "int main(void) { for (int i = 0; i < 101; i++) syscall(SYS_getppid); }\n")
    subprocess.run(["gcc", "-O1", "-o", "huge", "main.c", "huge.s"], cwd=tmp_path, check=True)
    assert spoor("record", "-o", "t.spoor", "-m", "all", "-S", "32", "--", tmp_path / "huge").returncode == 0
    trace = read(tmp_path / "t.spoor").whole()
    assert trace.count() == 101 and {e["walk"] for e in trace.of("getppid")} == {"complete"}


def test_damaged_headers(spoor, read, compiled, tmp_path):
    """Section headers that lie: the kernel does not need them, nor may we. Nothing has a name then."""
    def stacks(name, program):
        run = spoor("record", "-o", f"{name}.spoor", "-m", "all", "-S", "32", "--", program, "marks", "101")
        assert run.returncode == 0
        marks = read(tmp_path / f"{name}.spoor").whole().of("getppid")
        assert len(marks) == 101 and {e["walk"] for e in marks} == {"complete"}
        return {tuple((f["object"].replace(str(program), "it"), f["offset"]) for f in e["stack"]) for e in marks}
    whole = stacks("whole", compiled("actor.c"))
    assert len(whole) == 1
    data = bytearray(compiled("actor.c").read_bytes())
    for name, at, value in (("shoff", 0x28, b"\xf0\xff\xff\xff\xff\xff\xff\x7f"), ("shnum", 0x3c, b"\xff\xff"),
                            ("shstrndx", 0x3e, b"\xfe\xff"), ("shentsize", 0x3a, b"\x01\x00")):
        bad = tmp_path / f"bad-{name}"
        bad.write_bytes(bytes(data[:at]) + value + bytes(data[at + len(value):]))
        bad.chmod(0o755)
        assert stacks(name, bad) == whole


def test_same_build_id_and_other_content(spoor, read, tmp_path):
    """The frame sizes differ, so one's rows are wrong for the other; names differ as well."""
    source = """#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
__attribute__((noinline)) void NAME(void) { volatile char frame[SIZE]; memset((char *)frame, 1, SIZE);
 for (int i = 0; i < 101; i++) syscall(SYS_getppid); frame[0]++; }
int main(void) { NAME(); return 0; }
"""
    (tmp_path / "same.c").write_text(source)
    flags = ["-O1", "-g", "-fno-stack-protector", f"-Wl,--build-id=0x{'5a' * 20}"]
    for name, size in (("small", 16), ("large", 4096)):
        subprocess.run(["gcc", *flags, f"-DNAME={name}", f"-DSIZE={size}", "-o", name, "same.c"], cwd=tmp_path,
                       check=True)
    for order in (("small", "large"), ("large", "small")):
        command = " ".join(f"./{n};" for n in order * 2)
        trace_name = f"{order[0]}.spoor"
        assert spoor("record", "-o", trace_name, "-m", "all", "-S", "32", "--", "sh", "-c", command).returncode == 0
        trace = read(tmp_path / trace_name).whole()
        for name in order:
            events = trace.of("getppid", comm=name)
            assert len(events) == 202
            for e in events:
                names = [f["function"] for f in e["stack"]]
                assert e["walk"] == "complete" and names[names.index(name):][:2] == [name, "main"]


def test_program_replaced_while_it_runs(record, read, start, actor, tmp_path):
    """Its file is another one by the time it is looked at: the running one is what counts."""
    program = actor("quokka")
    target = ready(start(program, "serve"))
    program.unlink()
    shutil.copy("/bin/ls", program)
    recording = record("-p", target.pid)
    tell(target, b"g")
    assert recording.wait() == 0
    trace = read(recording.trace).whole()
    assert trace.marks() == {target.pid: 404}
    assert {e["walk"] for e in trace.of("getppid")} <= {"complete", "budget"}


def test_module_replaced_while_it_runs(record, read, start, tmp_path):
    """It is the application's own by the name that it had."""
    (tmp_path / "mod_x.c").write_text("#include <unistd.h>\nvoid work(void) { getppid(); __asm__ volatile(\"\"); }\n")
    (tmp_path / "host.c").write_text("void work(void);\n#include <stdio.h>\nint main(void) { puts(\"ready\");\n"
                                     "fflush(stdout); getchar(); for (int i = 0; i < 97; i++) work(); }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "mod_x.so", "mod_x.c"], cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-o", "host", "host.c", "./mod_x.so"], cwd=tmp_path, check=True)
    target = ready(start(tmp_path / "host"))
    (tmp_path / "mod_x.so").unlink()
    shutil.copy("/bin/ls", tmp_path / "mod_x.so")
    recording = record("-p", target.pid, "--app", "mod_*.so")
    tell(target, b"g")
    assert recording.wait() == 0
    stacks = [[f["object"] for f in c["stack"]] for c in read(recording.trace).whole().of("getppid")]
    assert stacks == [[str(tmp_path / "mod_x.so")]] * 97
