# SPDX-License-Identifier: GPL-2.0-or-later
"""What happens at the edges of rings, paths and lives: buffers that run full, targets that run on while the recording
ends, programs too short for their rows, paths of any depth, files of another mount namespace, busy machines."""
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from processes import wait_for

BUSY = """import os, sys
f = os.open('/etc/hostname', 0)
os.mkdir(sys.argv[1])
while True:
    os.access('/nowhere/at/all', 0), os.fstat(f), os.getppid()
"""


def test_rings_that_run_full(spoor, record, read):
    """What finds no room is counted, to the last event; the rest reads as if nothing had happened."""
    def run(times, *options):
        lines = f"[os.access('/nowhere/%d' % (i % 7), 0) for i in range({times})]"
        script = f"import os\nfor i in range(5):\n    os.fork() or ({lines}, os._exit(0))\nfor i in range(5): os.wait()"
        recording = record("-e", "access", "-m", "app", *options, "--", "/usr/bin/python3", "-c", script, start=False,
                           trace=f"{times}.spoor")
        assert recording.wait(120) == 0
        return read(recording.trace)
    others = run(0).whole().summary["calls"]  # what else the interpreter looks for
    trace = run(30000, "--buffers", "256K")
    calls = [c for c in trace.calls if c["event"] == "access" and "/nowhere/" in str(c["args"])]
    assert 0 < len(calls) <= 150000 and not trace.summary["damages"]
    assert trace.summary["calls"] + trace.summary["discarded"] == 150000 + others
    for c in calls:
        assert c["ret"] == -2 and c["errno"] == "ENOENT" and c["args"]["filename"].startswith("/nowhere/")


def test_targets_run_on_while_the_recording_ends(record, read, start, tmp_path):
    """Each trace is whole, in babeltrace2 too: no call is described while it changes."""
    busy = tmp_path / "busy"
    target = start("/usr/bin/python3", "-c", BUSY, busy)
    wait_for(busy.exists)
    for i in range(4):
        recording = record("-p", target.pid, "--duration", "60ms", trace=f"t{i}.spoor", start=False)
        assert recording.wait() == 0
        trace = read(recording.trace).whole()
        assert {c["event"] for c in trace.calls} <= {"access", "newfstatat", "getppid", "fstat"}
        assert all(c["ret"] in (0, -2, None, os.getpid()) for c in trace.calls)


def test_short_programs_have_stacks(spoor, record, read, tmp_path, monkeypatch):
    """The first calls of programs never seen before, rows compiled while they run."""
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(tmp_path / "cache"))
    command = "for i in 1 2 3; do perl -MPOSIX -MStorable -e1; git --version; ls /; gcc --version; done"
    recording = record("--", "sh", "-c", command, start=False)
    assert recording.wait() == 0
    summary = read(recording.trace).summary
    lost = summary["walks"]["lost"] + summary["walks"].get("none", 0)
    print(summary["walks"], summary["ways"])
    assert lost <= 0.02 * summary["calls"]
    assert summary.get("no_stack", 0) <= 2  # the execve with which it begins


SECRETIVE = r"""#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static void __attribute__((noinline)) ask(volatile char *secret)
{
	secret[0]++;
	syscall(SYS_getegid);
	__asm__ volatile("");
}
int main(void)
{
	volatile char secret[64];
	for (int i = 0; i < 64; i++)
		secret[i] = "quokka"[i % 6] ^ 0x20; /* nowhere in the file */
	for (int i = 0; i < 500; i++) {
		secret[0] = 'Q';
		secret[0]--;
		ask(secret);
	}
	return 0;
}
"""


def test_copied_stacks_are_not_kept(record, read, tmp_path, monkeypatch):
    """Of code that nobody has met the kernel hands stacks out: what lies on them is in no file of the trace."""
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "secretive.c").write_text(SECRETIVE)
    subprocess.run(["gcc", "-O1", "-o", "secretive", "secretive.c"], cwd=tmp_path, check=True)
    secret = b"QUOKKAQUOKKA"
    assert secret not in (tmp_path / "secretive").read_bytes()
    recording = record("-m", "all", "-S", "64", "-e", "getegid", "-n", "secretive")
    recording.process.send_signal(signal.SIGSTOP)
    assert subprocess.run([tmp_path / "secretive"]).returncode == 0
    recording.process.send_signal(signal.SIGCONT)
    assert recording.stop() == 0
    assert read(recording.trace).summary["ways"]["user"] > 0
    files = [p for folder in (recording.trace, tmp_path / "cache") for p in folder.rglob("*") if p.is_file()]
    assert len(files) > 3 and not [p for p in files if secret in p.read_bytes()]


UNTOUCHED = r"""#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
/* Pages of the file that nobody has touched, one for each call. */
static char *page(int fd, int n)
{
	char *at = mmap(NULL, 1 << 18, PROT_READ, MAP_PRIVATE, fd, n << 18);
	madvise(at, 1 << 18, MADV_RANDOM);
	return at;
}
int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDONLY), s = socket(AF_UNIX, SOCK_STREAM, 0), ends[2];
	char *arguments[] = { "true", NULL };
	if (argc != 2 || pipe(ends))
		return 2;
	syscall(SYS_openat, AT_FDCWD, page(fd, 0), O_RDONLY);
	syscall(SYS_connect, s, page(fd, 1), 20);
	syscall(SYS_write, ends[1], page(fd, 2), 5);
	syscall(SYS_execve, page(fd, 3), arguments, NULL);
	syscall(SYS_execve, page(fd, 4), arguments, NULL);
	return 1;
}
"""


def test_arguments_that_are_not_there_at_entry(record, read, tmp_path):
    """Their pages come as the kernel reads them: they are read when the call ends, and of execve while it goes on."""
    (tmp_path / "untouched.c").write_text(UNTOUCHED)
    subprocess.run(["gcc", "-O1", "-o", "untouched", "untouched.c"], cwd=tmp_path, check=True)
    pages = [b"/nowhere/to/be/opened", (1).to_bytes(2, "little") + b"/nowhere/to/go", b"prime", b"/nowhere/to/run",
             b"/usr/bin/true"]
    (tmp_path / "pages").write_bytes(b"".join(p.ljust(1 << 18, b"\0") for p in pages))
    recording = record("-s", "16", "-e", "openat,connect,write,execve", "--", tmp_path / "untouched",
                       tmp_path / "pages", start=False)
    assert recording.wait() == 0
    trace = read(recording.trace).whole()
    ours = "/nowhere/", "prime", "/usr/bin/true"
    late = [c for c in trace.calls if c.get("read_at_exit") and any(word in str(c["args"]) for word in ours)]
    print(late)
    opened, connected, written, failed, executed = late
    assert opened["args"]["filename"] == "/nowhere/to/be/opened" and opened["errno"] == "ENOENT"
    assert "/nowhere/to/go" in str(connected["args"]) and connected["errno"] == "ENOENT"
    assert written["args"]["buf"]["bytes"] == "prime" and written["ret"] == 5
    assert failed["args"]["filename"] == "/nowhere/to/run" and failed["errno"] == "ENOENT"
    assert executed["args"]["filename"] == "/usr/bin/true" and executed["ret"] == 0
    assert not any(c.get("unreadable") for c in trace.calls)


def test_stacks_that_found_no_room(record, read, tmp_path, monkeypatch):
    """Of code that nobody has met, while nobody reads: said, and counted as walked by nobody."""
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "mark.c").write_text("""#include <sys/syscall.h>
#include <unistd.h>
static int __attribute__((noinline)) deep(int n)
{
	int r = n ? deep(n - 1) + 1 : (int)syscall(SYS_getegid);
	__asm__ volatile("");
	return r;
}
int main(void)
{
	int s = 0;
	for (int i = 0; i < 3001; i++) s += deep(i % 41);
	return s == 1;
}
""")
    subprocess.run(["gcc", "-O1", "-o", "quokka", "mark.c"], cwd=tmp_path, check=True)
    recording = record("-m", "all", "-S", "64", "-e", "getegid", "-n", "quokka", "--buffers", "1M")
    recording.process.send_signal(signal.SIGSTOP)
    assert subprocess.run([tmp_path / "quokka"]).returncode == 0
    recording.process.send_signal(signal.SIGCONT)
    assert recording.stop() == 0
    summary = read(recording.trace).summary
    lost, = map(int, re.findall(r"spoor: (\d+) stacks were lost: ", recording.said()))
    assert lost and lost == summary["walks"]["lost"]
    assert sum(summary["ways"].values()) == sum(summary["walks"].values()) - lost


def test_more_objects_than_there_is_room_for(record, read, tmp_path):
    """Each a file that is mapped as code once. It is said, and what was met before is walked through as ever."""
    (tmp_path / "many.c").write_text("""#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
	for (int i = 0; i < 33001; i++) {
		int fd = memfd_create("part", 0);
		if (ftruncate(fd, 4096)) return 1;
		munmap(mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0), 4096);
		close(fd);
	}
	syscall(SYS_getegid);
	return 0;
}
""")
    subprocess.run(["gcc", "-O1", "-o", "many", "many.c"], cwd=tmp_path, check=True)
    recording = record("-m", "all", "-S", "64", "-e", "getegid", "--", tmp_path / "many", start=False)
    assert recording.wait(120) == 0
    assert "more than 32766 programs and libraries" in recording.said()
    call, = read(recording.trace).calls
    assert call["walk"] == "complete" and "main" in {f["function"] for f in call["stack"]}


def test_a_stack_of_many_objects(record, read, tmp_path, monkeypatch):
    """Each has its one call site, whoever walks: here user space, since nobody has met them."""
    monkeypatch.setenv("SPOOR_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "part.c").write_text("void NEXT(void);\nvoid THIS(void);\n"
                                     "void THIS(void) { NEXT(); __asm__ volatile(\"\"); }\n")
    (tmp_path / "main.c").write_text("#include <sys/syscall.h>\n#include <unistd.h>\nvoid f0(void);\nvoid f70(void);\n"
                                     "void f70(void) { syscall(SYS_getegid); __asm__ volatile(\"\"); }\n"
                                     "int main(void) { f0(); __asm__ volatile(\"\"); return 0; }\n")
    for i in range(70):
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", f"-DTHIS=f{i}", f"-DNEXT=f{i + 1}", "-o", f"lib{i}.so",
                        "part.c"], cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-O1", "-rdynamic", "-o", "quokka", "main.c", *(f"./lib{i}.so" for i in range(70))],
                   cwd=tmp_path, check=True)
    recording = record("-m", "lib", "-S", "512", "-e", "getegid", "-n", "quokka")
    recording.process.send_signal(signal.SIGSTOP)
    assert subprocess.run([tmp_path / "quokka"], cwd=tmp_path).returncode == 0
    recording.process.send_signal(signal.SIGCONT)
    assert recording.stop() == 0
    call, = read(recording.trace).calls
    assert call["walk"] == "complete" and call["way"] == "user"
    names = [f["function"] for f in call["stack"]]
    assert {f"f{i}" for i in range(70)} <= set(names) and len(names) == len({f["object"] for f in call["stack"]})


@pytest.mark.parametrize("how", ["far", "round", "back"])
def test_stacks_without_end(record, read, compiled, how):
    """Who is recorded makes them: a walk looks at so much of one, and in time, since nothing else runs there then."""
    recording = record("-m", "all", "-S", "512", "-e", "getegid", "--", compiled("endless.c"), how, start=False)
    assert recording.wait() == 0
    calls = read(recording.trace).calls
    assert len(calls) == 20 and {(c["walk"], c["way"]) for c in calls} == {("guessed", "kernel")}
    assert min(c["dur"] for c in calls) < 30_000_000


@pytest.mark.parametrize("how", ["many", "shared"])
def test_code_that_nobody_has_met(record, read, compiled, tmp_path, how):
    """Stacks that user space unwinds: of a process with more mappings than are described at once, and of one for which
    another one, that has the same memory, maps libraries."""
    (tmp_path / "mark.c").write_text("#include <sys/syscall.h>\n#include <unistd.h>\n"
                                     "void mark(void) { syscall(SYS_getppid); __asm__ volatile(\"\"); }\n")
    libraries = [tmp_path / f"{i}.so" for i in range(5)]
    for i, library in enumerate(libraries):  # of no content that anybody has rows of
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"-Wl,--build-id=0x{i + 1:02x}{os.urandom(19).hex()}", "-o",
                        library, "mark.c"], cwd=tmp_path, check=True)
    recording = record("-m", "all", "-S", "32", "-e", "getppid", "--", compiled("new_code.c"), how, *libraries,
                       start=False)
    assert recording.wait() == 0
    calls = read(recording.trace).whole(surprised=0).calls
    seen = [[f["function"] for f in c["stack"]][1:3] for c in calls]
    assert seen == [["mark", "call"]] * 55


@pytest.mark.parametrize("depth", [700, 2300])
def test_deep_directories(record, read, tmp_path, depth):
    """A descriptor's path is whole, or says that it is not."""
    script = ("import os, sys\nfor i in range(%d): os.mkdir('e'); os.chdir('e')\n"
              "os.fsync(os.open('f', os.O_CREAT | os.O_WRONLY))\n" % depth)
    recording = record("-e", "fsync", "--", "/usr/bin/python3", "-c", script, start=False)
    assert recording.wait() == 0
    subprocess.run(["rm", "-rf", "e"], cwd=tmp_path, check=True)
    call, = [c for c in read(recording.trace).calls if c["event"] == "fsync"]
    path = call["args"]["fd"]["path"] if isinstance(call["args"]["fd"], dict) else str(call["args"]["fd"])
    whole = str(tmp_path) + "/e" * depth + "/f"
    if len(whole) < 4080:
        assert whole in path
    else:
        assert "..." in path and whole not in path and "/e" * 2000 + "/f" in path


def objects(trace, name):
    """The definitions of objects by this name, in their order: (hash, build-id)."""
    run = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, errors="replace", check=True)
    lines = [line for line in run.stdout.splitlines() if " spoor:object: " in line and f'/{name}"' in line]
    return [(int(re.search(r"hash_lo = (\w+)", line)[1], 0),
             bytes(int(b, 0) for b in re.findall(r"\[\d+\] = (\w+)", line.partition("build_id = ")[2])).hex())
            for line in lines]


@pytest.mark.parametrize("rotate", [(), ("--rotate", "200ms")])
@pytest.mark.parametrize("mode", ["all", "app-all"])
def test_a_file_of_another_mount_namespace(spoor, record, read, tmp_path, mode, rotate):
    """It cannot be opened once its process has gone and it has another name; while another has it mapped, it can: from
    then on the same walk, made over and over, has frames of it."""
    script = ("mount -t tmpfs none mnt && cp /bin/dash mnt/quokka && : > mounted; until [ -e begin ]; do sleep 0.02; "
              "done; for i in 1 2 3 4 5 6; do mnt/quokka -c :; done; mv mnt/quokka mnt/other; : > gone; "
              "until [ -e go ]; do sleep 0.02; done; mv mnt/other mnt/quokka; "
              "mnt/quokka -c 'i=0 d=/; while [ $i -lt 600 ]; do cd $d; i=$((i+1)); "
              "if [ $i = 300 ]; then d=/tmp; sleep 1; fi; done'")
    (tmp_path / "mnt").mkdir()
    recording = record("-m", mode, "-S", "64", *rotate, "--", "unshare", "-m", "--propagation", "private", "sh", "-c",
                       script, start=False)
    wait_for((tmp_path / "mounted").exists)
    recording.process.send_signal(signal.SIGSTOP)
    (tmp_path / "begin").touch()
    wait_for((tmp_path / "gone").exists)
    recording.process.send_signal(signal.SIGCONT)

    def was_looked_for():
        """In vain: the trace says so as soon as that is known."""
        lines = spoor("report", "-f", "json", recording.trace).stdout.splitlines()
        return any(e.get("comm") == "quokka" and e.get("walk") == "object gone" for e in map(json.loads, lines))
    wait_for(was_looked_for, every=0.1)
    (tmp_path / "go").touch()
    assert recording.wait() == 0
    calls = read(recording.trace).calls
    late = [c for c in calls if c["event"] == "chdir" and "/tmp" in str(c["args"])]
    assert len(late) == 300 and {c["walk"] for c in late} == {"complete"}
    mine = [[f for f in c["stack"] if f["object"] and f["object"].endswith("/mnt/quokka")] for c in late]
    assert min(map(len, mine)) >= 3 and len({len(m) for m in mine}) == 1
    early = [c for c in calls if c["comm"] == "quokka" and c not in late]
    assert "object gone" in {c["walk"] for c in early}  # what was seen without it stays so
    assert not [f for c in early if c["walk"] == "object gone" for f in c["stack"] if "quokka" in str(f["object"])]
    notes = subprocess.run(["readelf", "-n", "/bin/dash"], capture_output=True, text=True, check=True).stdout
    content, build_id = objects(recording.trace, "quokka")[-1]
    assert content and build_id.startswith(re.search(r"Build ID: (\w+)", notes)[1])


@pytest.mark.parametrize("verb", ["record", "stat"])
def test_begins_on_a_busy_machine(build, start, tmp_path, verb):
    """While the kernel verifies, Spoor has ten times others' share; the command has the nice level that was given."""
    process = start("nice", "-n", "3", build / "spoor", verb, "-o", "out", "--", "nice")
    levels = set()

    def ended():
        if (at := Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split())[0] == "Z":
            return True
        levels.add(int(at[16]))
        return False

    wait_for(ended, 60)
    assert process.stdout.read() == b"3\n"
    assert min(levels) == -7, levels
