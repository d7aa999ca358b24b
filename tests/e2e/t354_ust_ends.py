# SPDX-License-Identifier: GPL-2.0-or-later
"""How programs ended that nobody saw: by themselves, without exit(), or by a crash."""
import json
import subprocess
from collections import Counter

import pytest

import tracing

BY_ITSELF = {"_exit": 3, "_Exit": 3, "quick_exit": 3, "thread": 3, "failed-exited": 3, "execl": 0, "execlp": 0,
             "execle": 0, "execv": 0, "execve": 0, "execvp": 0, "execvpe": 0, "fexecve": 0, "execveat": 0}
WAYS = {way: (code, Counter(ended=1)) for way, code in BY_ITSELF.items()} | {
    "kill": (-9, Counter(crashed=1)), "abort": (-6, Counter(crashed=1)),
    "quick-abort": (-6, Counter(crashed=1)), "failed-killed": (-9, Counter(crashed=1)),
    "children-killed": (-9, Counter(crashed=1)), "child-killed": (-11, Counter(crashed=1, ended=1)),
    "daemon": (0, Counter(ended=2))}


@pytest.fixture(scope="module")
def linked(build, tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("ends") / "ends", "ust_ends.c", "-Wl,--no-as-needed",
                                 tracing.agent(build), f"-Wl,-rpath,{build}/src/agent")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("ends") / "ends", "ust_ends.c")


def recovered(spoor, directory):
    run = spoor("ust", "recover", directory, "-o", "t.spoor")
    assert run.returncode == 0, run.stderr
    summary = json.loads(spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[-1])
    return run.stdout, Counter(p["state"] for p in summary["programs"])


@pytest.mark.parametrize("preload", [False, True], ids=["linked", "preloaded"])
@pytest.mark.parametrize("way", WAYS)
def test_without_a_recorder(spoor, build, linked, bare, tmp_path, way, preload):
    code, expected = WAYS[way]
    run, _ = tracing.traced(build, tmp_path / "alone", bare if preload else linked, way, preload=preload)
    assert run.returncode == code, run
    said, states = recovered(spoor, "alone")
    assert states == expected
    assert f"; {expected['crashed']} ended by a crash\n" in said if expected["crashed"] else "ended by" not in said
    assert ("Crashed: ends[" in spoor("report", "t.spoor").stdout) == bool(expected["crashed"])


@pytest.mark.parametrize("way", ["_exit", "kill", "execl"])
def test_linked_statically(spoor, build, tmp_path, way):
    """libc's own functions are called there: which it was cannot be known, and is not said."""
    program = tracing.build_program(tmp_path / "ends", "ust_ends.c", "-Wl,--whole-archive",
                                    build / "src/agent/libspoor-ust.a", "-Wl,--no-whole-archive", "-lurcu-bp")
    tracing.traced(build, tmp_path / "alone", program, way, preload=False)
    said, states = recovered(spoor, "alone")
    assert states == Counter({"without exit()": 1})
    assert "; 1 ended by a crash, or by _exit() or execve()\n" in said
    assert "Ended without exit(), by a crash or not: ends[" in spoor("report", "t.spoor").stdout


def test_executes_what_is_traced_too(spoor, build, tmp_path):
    """The buffers of one process, one of each program that it was: while the last one runs, and when it was killed."""
    actor = tracing.build_program(tmp_path / "ust_actor", "ust_actor.c")
    tracing.traced(build, tmp_path / "alone", actor, "exec", 3)
    said, states = recovered(spoor, "alone")
    assert set(states) == {"ended"} and states["ended"] > 1 and "ended by" not in said


@pytest.mark.parametrize("way", ["_exit", "kill"])
def test_no_pie(spoor, build, tmp_path, way):
    """What the program takes for _exit()'s address is a place of its own then."""
    source = tmp_path / "ends.c"
    source.write_text((tracing.DATA / "ust_ends.c").read_text() + "void (*volatile address)(int) = _exit;\n")
    program = tracing.build_program(tmp_path / "ends", source, "-no-pie", "-fno-pie")
    tracing.traced(build, tmp_path / "alone", program, way)
    assert recovered(spoor, "alone")[1] == Counter({"kill": "crashed", "_exit": "ended"}[w] for w in [way])


def test_go(spoor, build, tmp_path):
    """Which ends by system calls of its own, and whose linker leaves a note: what ends so is not called a crash."""
    source = tmp_path / "ends.c"
    source.write_text((tracing.DATA / "ust_ends.c").read_text() +
                      '__asm__(".pushsection .note.go.buildid,\\"a\\",@note\\n.balign 4\\n.long 4, 4, 4\\n"\n'
                      '\t".asciz \\"Go\\"\\n.balign 4\\n.long 7\\n.popsection\\n");\n')
    program = tracing.build_program(tmp_path / "ends", source)
    tracing.traced(build, tmp_path / "alone", program, "kill")
    assert recovered(spoor, "alone")[1] == Counter({"without exit()": 1})


FILTERED = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define MAY(nr) BPF_JUMP(BPF_JMP + BPF_JEQ + BPF_K, nr, 0, 1), BPF_STMT(BPF_RET + BPF_K, SECCOMP_RET_ALLOW)
int main(int argc, char **argv)
{
	static struct sock_filter may[] = { BPF_STMT(BPF_LD + BPF_W + BPF_ABS, offsetof(struct seccomp_data, nr)),
		MAY(SYS_exit_group), MAY(SYS_execve), BPF_STMT(BPF_RET + BPF_K, SECCOMP_RET_KILL_PROCESS) };
	struct sock_fprog all = { sizeof(may) / sizeof(*may), may };
	(void)argc;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
	if (execv("/nonexistent", argv) != -1 || argv[1][0] == '_')
		_exit(3);
	return 3;
}
"""


@pytest.mark.parametrize("end", ["_exit", "return"])
def test_that_may_make_few_system_calls(build, tmp_path, end):
    """The library, in a program of which it records nothing, makes none of its own at the end."""
    (tmp_path / "filtered.c").write_text(FILTERED)
    program = tracing.build_program(tmp_path / "filtered", tmp_path / "filtered.c")
    assert tracing.traced(build, tmp_path / "alone", program, end)[0].returncode == 3


@pytest.mark.parametrize("how", ["before", "behind", "preloaded"])
def test_others_names(build, tmp_path, how):
    """Of an archive, and a library, that have functions and variables of such names: they have what is their own."""
    (tmp_path / "own.c").write_text("int daemon = 7;\nint take(void);\nint take(void) { return daemon++; }\n")
    (tmp_path / "part.c").write_text("int execvpe(const char *s);\nint execvpe(const char *s) { return *s; }\n")
    (tmp_path / "main.c").write_text("int take(void);\nint execvpe(const char *s);\n"
                                     "int main(void) { return take() + take() + execvpe(\"A\"); }\n")
    own = tracing.build_program(tmp_path / "libown.so", tmp_path / "own.c", "-shared", "-fPIC")
    subprocess.run(["gcc", "-c", "-fno-builtin", "part.c"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rcs", "part.a", "part.o"], cwd=tmp_path, check=True)
    rest = [own, tmp_path / "part.a", f"-Wl,-rpath,{tmp_path}", f"-Wl,-rpath,{build}/src/agent"]
    ours = ["-Wl,--no-as-needed", tracing.agent(build)]
    flags = {"before": [*ours, *rest], "behind": [*rest, *ours], "preloaded": rest}[how]
    program = tracing.build_program(tmp_path / "program", tmp_path / "main.c", *flags)
    run, _ = tracing.traced(build, tmp_path / "alone", program, preload=how == "preloaded")
    assert run.returncode == 7 + 8 + ord("A")


@pytest.mark.parametrize("scope", ["RTLD_NOW", "RTLD_NOW | RTLD_DEEPBIND"])
@pytest.mark.parametrize("end", ["_exit(3)", "kill(getpid(), 9)", "exit(3)"])
def test_loaded_later(spoor, build, tmp_path, end, scope):
    """The library of a plugin comes behind libc, whose functions the program has then."""
    (tmp_path / "plugin.c").write_text("#include <spoor/tracepoint.h>\nSPOOR_TRACEPOINT(ends, plugin, TP_PROTO(int n), "
                                       "TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))\n"
                                       "void act(void) { spoor_trace(ends, plugin, 7); }\n")
    tracing.build_program(tmp_path / "plugin.so", tmp_path / "plugin.c", "-shared", "-fPIC", "-Wl,--no-as-needed",
                          tracing.agent(build), f"-Wl,-rpath,{build}/src/agent")
    (tmp_path / "host.c").write_text("#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <signal.h>\n"
                                     "#include <stdlib.h>\n#include <unistd.h>\n"
                                     "int main(int c, char **v)\n{\n\t(void)c;\n"
                                     f"\t((void (*)(void))dlsym(dlopen(v[1], {scope}), \"act\"))();\n"
                                     f"\t{end};\n}}\n")
    host = tracing.build_program(tmp_path / "host", tmp_path / "host.c")
    tracing.traced(build, tmp_path / "alone", host, tmp_path / "plugin.so", preload=False)
    said, states = recovered(spoor, "alone")
    assert said.startswith("1 event of 1 program")
    assert states == Counter({"ended" if end == "exit(3)" else "without exit()": 1})
