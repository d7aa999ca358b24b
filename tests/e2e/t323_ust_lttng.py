# SPDX-License-Identifier: GPL-2.0-or-later
"""Providers of LTTng-UST, unchanged, on Spoor. The oracle: the same program, built for and recorded by LTTng-UST."""
import json
import re
import shutil
import subprocess

import lttng
import pytest
import tracing

SOURCES = ["types.c", "types_tp.c", "types_more.c"]
COMPILERS = ["gcc", "gcc -O0", "gcc -std=gnu99 -fno-pie -no-pie", "clang", "clang -O0", "g++ -std=c++11", "g++ -O0",
             "clang++ -std=c++17", "clang++ -O0", "gcc -flto", "gcc -ffunction-sections -Wl,--gc-sections",
             "clang -fuse-ld=lld -flto -ffunction-sections -Wl,--gc-sections", "clang++ -fuse-ld=lld -flto=thin",
             "gcc -DSPOOR_FLAG_SITES"]


def compile_to(out, compiler, sources, *flags):
    """A program or (by flags) what else of sources in tests/data/lttng. The language is the compiler's."""
    command = compiler.split()
    language = "c++" if "++" in command[0] else "c"
    lttng.run([*command[:1], "-O2", "-g", "-Wall", "-Wextra", "-Werror", *command[1:], "-x", language, "-I.",
               *[lttng.DATA / s for s in sources], "-x", "none", "-o", out, *flags], cwd=lttng.DATA)
    return out


@pytest.fixture(scope="module")
def ours(build):
    return lttng.flags(build, "--cflags"), lttng.flags(build, "--libs")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """What LTTng records of types.c, its provider in the program: (events, output)."""
    where = tmp_path_factory.mktemp("theirs")
    program = compile_to(where / "types", "gcc", SOURCES, "-llttng-ust", "-ldl")
    said = lttng.record_lttng(where / "trace", program)
    return lttng.events(where / "trace"), said


def check(found, theirs, said):
    assert said == theirs[1]
    lttng.same(found, theirs[0])


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_provider_in_the_program(build, tmp_path, ours, theirs, compiler):
    program = compile_to(tmp_path / "types", compiler, SOURCES, *ours[0], *ours[1],
                         "-ldl")
    said = lttng.record_spoor(build, tmp_path / "t.spoor", program)
    check(lttng.events(tmp_path / "t.spoor"), theirs, said)


def test_without_the_library(build, tmp_path, ours, theirs):
    """No event, no argument evaluated; preloaded, which `run` does, it is recorded."""
    program = compile_to(tmp_path / "types", "gcc", SOURCES, *ours[0], "-ldl")
    assert subprocess.run([program], capture_output=True, text=True, timeout=10).stdout == "evaluated 0\n"
    said = lttng.record_spoor(build, tmp_path / "t.spoor", program)
    check(lttng.events(tmp_path / "t.spoor"), theirs, said)


def test_disabled(tmp_path, ours):
    """Nothing is compiled but the types are checked."""
    program = compile_to(tmp_path / "types", "gcc", SOURCES, *ours[0], "-DSPOOR_DISABLE", "-ldl")
    assert subprocess.run([program], capture_output=True, text=True, timeout=10).stdout == "evaluated 0\n"
    assert "spoor" not in lttng.run(["readelf", "-SW", program]).stdout


def provider(tmp_path, ours, name="libtypes_tp.so", source="types_tp.c"):
    return compile_to(tmp_path / name, "gcc", [source], "-shared", "-fPIC", *ours[0])


def test_the_provider_in_a_library(build, tmp_path, ours, theirs):
    library = provider(tmp_path, ours)
    program = compile_to(tmp_path / "types", "gcc", ["types.c", "types_more.c"], *ours[0], *ours[1], library, "-ldl",
                         f"-Wl,-rpath,{tmp_path}")
    said = lttng.record_spoor(build, tmp_path / "t.spoor", program)
    check(lttng.events(tmp_path / "t.spoor"), theirs, said)


def test_the_provider_in_an_archive(build, tmp_path, ours, theirs):
    """Drawn in by TRACEPOINT_DEFINE; without it the program does not link, as with LTTng-UST."""
    one = compile_to(tmp_path / "types_tp.o", "gcc", ["types_tp.c"], "-c", *ours[0])
    lttng.run(["ar", "rc", tmp_path / "libtypes_tp.a", one])
    program = compile_to(tmp_path / "types", "gcc", ["types.c", "types_more.c"], *ours[0], tmp_path / "libtypes_tp.a",
                         "-ldl")
    said = lttng.record_spoor(build, tmp_path / "t.spoor", program)
    check(lttng.events(tmp_path / "t.spoor"), theirs, said)
    with pytest.raises(AssertionError, match="spoor_lttng_provider_of_types"):
        compile_to(tmp_path / "none", "gcc", ["types.c", "types_more.c"], *ours[0], "-ldl")


@pytest.fixture
def dynamic(tmp_path, ours):
    """A program that has no provider."""
    return compile_to(tmp_path / "types", "gcc", ["types.c", "types_more.c"], "-DDYNAMIC", *ours[0], *ours[1], "-ldl")


def test_no_provider(build, tmp_path, dynamic):
    """Listed all the same; its arguments are what is known."""
    env = {"SPOOR_UST_EVENTS": "*"}
    done, traces = tracing.traced(build, tmp_path / "out", dynamic, **env)
    assert done.stdout == "evaluated 0\n" and not [e for t in traces for e in t.events]
    listed = lttng.run([build / "spoor", "ust", "list", dynamic]).stdout.splitlines()
    assert any(line.startswith("types:first tracepoint patched") and "(int, a, long, b)" in line for line in listed)


def test_the_provider_preloaded(build, tmp_path, ours, theirs, dynamic):
    library = provider(tmp_path, ours)
    said = lttng.record_spoor(build, tmp_path / "t.spoor", "env", f"LD_PRELOAD={library}", dynamic)
    check(lttng.events(tmp_path / "t.spoor"), theirs, said)


def test_the_provider_comes_goes_and_comes(build, tmp_path, ours, theirs, dynamic):
    """Also while it is not there: then nothing is recorded or evaluated."""
    library = provider(tmp_path, ours)
    said = lttng.record_spoor(build, tmp_path / "t.spoor", dynamic, library, "again")
    assert said == "evaluated 2\nevaluated 2\nevaluated 4\n"
    lttng.same(lttng.events(tmp_path / "t.spoor"), theirs[0] * 2)


def test_the_provider_goes_under_fire(build, tmp_path, ours):
    """Nobody is in its code when it is unmapped, and who was on his way to it finds it ready when it is there again."""
    program = compile_to(tmp_path / "fire", "gcc", ["fire.c"], "-D_GNU_SOURCE", "-pthread", *ours[0], *ours[1], "-ldl")
    for n in range(6):
        trace = tmp_path / f"{n}.spoor"
        said = lttng.record_spoor(build, trace, program, provider(tmp_path, ours), options=["--mode=overwrite"])
        assert said == "done\n" and {e.name for e in lttng.events(trace)} == {"types:first", "types:others"}


def test_two_objects_with_the_same_provider(build, tmp_path, ours, theirs):
    """LTTng-UST takes only one; here each records its own."""
    lib = compile_to(tmp_path / "libmore.so", "gcc", ["types_tp.c", "types_more.c"], "-shared", "-fPIC", *ours[0])
    program = compile_to(tmp_path / "types", "gcc", ["types.c", "types_tp.c"], *ours[0], *ours[1], lib, "-ldl",
                         f"-Wl,-rpath,{tmp_path}")
    said = lttng.record_spoor(build, tmp_path / "t.spoor", program)
    check(lttng.events(tmp_path / "t.spoor"), theirs, said)


def test_the_list_of_a_file(build, tmp_path, ours):
    program = compile_to(tmp_path / "types", "gcc", SOURCES, *ours[0], "-ldl")
    listed = lttng.run([build / "spoor", "ust", "list", program]).stdout
    assert "types:second tracepoint patched emerg (s32 a, s64 b) " in listed
    assert "(s32[] i, s32 hex[] hex, u16[] net, u16 hex[] net_hex, char[] text, s64[] none)" in listed
    assert "(s32[3] i, s32 hex[3] hex, u16[2] net, u16 hex[2] net_hex, char[5] text, u8[2] bytes, " in listed


# In C bool is a macro.
MIXED = """#include <stdbool.h>
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(mixed, e, LTTNG_UST_TP_ARGS(bool, on, const bool *, two),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, on, on)
                                               lttng_ust_field_array(bool, two, two, 2)))
"""
GUARDED = "#undef LTTNG_UST_TRACEPOINT_PROVIDER\n#define LTTNG_UST_TRACEPOINT_PROVIDER mixed\n" \
    '#undef LTTNG_UST_TRACEPOINT_INCLUDE\n#define LTTNG_UST_TRACEPOINT_INCLUDE "./mixed_tp.h"\n' \
    "#if !defined(MIXED_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)\n#define MIXED_H\n" \
    f"{MIXED}#endif\n#include <lttng/tracepoint-event.h>\n"
SITE = "{ static const bool two[2] = {true, false}; lttng_ust_tracepoint(mixed, e, %d, two); }\n"


def mixed(where, cflags, libs):
    """The provider and a site in C, another site in C++."""
    where.mkdir()
    (where / "mixed_tp.h").write_text(GUARDED)
    (where / "a.c").write_text("#define LTTNG_UST_TRACEPOINT_CREATE_PROBES\n#define LTTNG_UST_TRACEPOINT_DEFINE\n"
                               '#include "mixed_tp.h"\nvoid f(void); void f(void) ' + SITE % 1)
    (where / "b.cc").write_text('#include "mixed_tp.h"\nextern "C" void f(void); int main() { f(); ' + SITE % 0 + "}")
    lttng.run(["gcc", "-I.", *cflags, "-c", "-o", "a.o", "a.c"], cwd=where)
    lttng.run(["g++", "-I.", *cflags, "-o", "mixed", "b.cc", "a.o", *libs, "-ldl"], cwd=where)
    return where / "mixed"


def test_a_provider_in_c_and_a_site_in_cxx(build, tmp_path, ours):
    lttng.record_lttng(tmp_path / "theirs.trace", mixed(tmp_path / "theirs", [], ["-llttng-ust"]))
    lttng.record_spoor(build, tmp_path / "t.spoor", mixed(tmp_path / "ours", *ours))
    theirs = lttng.events(tmp_path / "theirs.trace")
    assert len(theirs) == 2
    lttng.same(lttng.events(tmp_path / "t.spoor"), theirs)


REFUSED = GUARDED.replace(MIXED, """#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT_CLASS(mixed, c, LTTNG_UST_TP_ARGS(const char *, s),
                                 LTTNG_UST_TP_FIELDS(lttng_ust_field_string(s, s)))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(mixed, c, mixed, e, LTTNG_UST_TP_ARGS(const char *, s))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(mixed, c, mixed, other, LTTNG_UST_TP_ARGS(int *, n))
""")
REFUSES = """#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "mixed_tp.h"
int main()
{
    int n = 1;
    lttng_ust_tracepoint(mixed, e, "first");
    lttng_ust_tracepoint(mixed, other, &n);
    lttng_ust_tracepoint(mixed, e, "last");
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++ -O0"])
def test_an_instance_whose_arguments_cannot_be_its_class(build, tmp_path, ours, compiler):
    """It compiles in C++, as libcamera has some, and LTTng-UST refuses it; here its events are counted."""
    (tmp_path / "mixed_tp.h").write_text(REFUSED)
    (tmp_path / "main.cc").write_text(REFUSES)
    for out, how in ("theirs", ["-llttng-ust"]), ("ours", [*ours[0], *ours[1]]):
        lttng.run([*compiler.split(), "-Wall", "-Wextra", "-Werror", "-I.", "-o", out, "main.cc", *how, "-ldl"],
                  cwd=tmp_path)
    lttng.record_lttng(tmp_path / "theirs.trace", tmp_path / "theirs")
    done = lttng.run([build / "spoor", "ust", "run", "-o", tmp_path / "t.spoor", "--", tmp_path / "ours"])
    assert "2 events of 1 program, 1 lost" in done.stderr
    lttng.same(lttng.events(tmp_path / "t.spoor"), lttng.events(tmp_path / "theirs.trace"))


def test_off_a_site_is_one_instruction(tmp_path, ours):
    """That loads nothing and does not branch."""
    (tmp_path / "off.c").write_text('#include "types_tp.h"\nint f(int n, long m);\nint f(int n, long m)\n{\n'
                                    "\tlttng_ust_tracepoint(types, first, n, m);\n"
                                    "\tif (lttng_ust_tracepoint_enabled(types, second))\n"
                                    "\t\tlttng_ust_do_tracepoint(types, second, n, m);\n\treturn n;\n}\n")
    for compiler in ("gcc", "clang", "g++", "clang++"):
        compile_to(tmp_path / "off.o", compiler, [tmp_path / "off.c"], "-c", f"-I{lttng.DATA}", *ours[0])
        code = lttng.run(["objdump", "-d", "--no-show-raw-insn", tmp_path / "off.o"]).stdout
        lines = code[code.index("<_Z1fil>:" if "++" in compiler else "<f>:"):].split("\n\n")[0].splitlines()[1:]
        body = [line.split("\t", 1)[1].strip() for line in lines]
        straight = body[:next(i for i, line in enumerate(body) if line.startswith("ret"))]
        assert sum(line.startswith("test ") for line in straight) == 2, straight
        assert not [line for line in straight if line.startswith(("j", "call")) or "(%rip)" in line], straight


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    where = tmp_path_factory.mktemp("old")
    program = compile_to(where / "old", "gcc", ["old.c", "old_tp.c"], "-llttng-ust", "-ldl")
    lttng.record_lttng(where / "trace", program)
    return lttng.events(where / "trace")


@pytest.mark.parametrize("compiler", ["gcc", "gcc -O0", "g++ -std=c++11", "clang", "clang++ -O0"])
def test_older_names(build, tmp_path, ours, old, compiler):
    """And two providers in one source, tracef, tracelog."""
    program = compile_to(tmp_path / "old", compiler, ["old.c", "old_tp.c"], *ours[0], *ours[1])
    lttng.record_spoor(build, tmp_path / "t.spoor", program)
    lttng.same(lttng.events(tmp_path / "t.spoor"), old)


def test_older_names_can_be_refused(tmp_path, ours):
    for source, refused in (("old_tp.c", True), ("types_tp.c", False)):
        done = subprocess.run(["gcc", "-DLTTNG_UST_COMPAT_API_VERSION=1", "-I.", *ours[0], "-c", source, "-o",
                               tmp_path / "x.o"], cwd=lttng.DATA, capture_output=True, timeout=60)
        assert (done.returncode != 0) == refused


HEADER = """
#include "types_tp.h"
struct other { int x; };
int main(void) { struct other s = { 0 }; (void)s; %s return 0; }
"""
WRONG = ["lttng_ust_tracepoint(types, first, 1);", "lttng_ust_tracepoint(types, first, 1, 2, 3);",
         "lttng_ust_tracepoint(types, first, s, 2);", "lttng_ust_tracepoint(types, nothing, 1);",
         "lttng_ust_tracepoint(types, absent, 1);", "lttng_ust_tracepoint(absent, first, 1, 2);",
         "lttng_ust_tracepoint(types, others, 1, 2, 3, 4);", 'lttng_ust_tracepoint(types, first, "1", 2);',
         "(void)lttng_ust_tracepoint_enabled(types, absent);", "lttng_ust_do_tracepoint(types, first, 1);"]


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_what_does_not_compile(tmp_path, ours, compiler):
    """The same as with LTTng-UST: with -Werror wrong arguments are errors for both."""
    def compiles(body, flags):
        source = tmp_path / ("x.cc" if "++" in compiler else "x.c")
        source.write_text(HEADER % body)
        return subprocess.run([compiler, "-Wall", "-Werror", f"-I{lttng.DATA}", *flags, "-c", "-o", tmp_path / "x.o",
                               source], capture_output=True, timeout=60).returncode == 0
    for how in (ours[0], [*ours[0], "-DSPOOR_DISABLE"], []):
        assert compiles('lttng_ust_tracepoint(types, others, 1, 2, "s", 4);', how)
        for body in WRONG:
            assert not compiles(body, how), (body, how)


@pytest.mark.parametrize("wrong, instead", [
    ("LTTNG_UST_TRACEPOINT_EVENT(types, unwritten", "LTTNG_UST_TRACEPOINT_EVENT(other, unwritten"),
    ("lttng_ust_field_integer(int, written, a)", "lttng_ust_field_integer(int, written, absent)"),
    ("lttng_ust_field_string(s, s)", "lttng_ust_field_string(s, 1.5)"),
    ("pair, types, first, LTTNG_UST_TP_ARGS(int, a, long, b)", "pair, types, first, LTTNG_UST_TP_ARGS(int, a)"),
])
def test_wrong_providers_do_not_compile(tmp_path, ours, wrong, instead):
    text = (lttng.DATA / "types_tp.h").read_text()
    assert wrong in text
    (tmp_path / "types_tp.h").write_text(text.replace(wrong, instead))
    for name in ("types_tp.c", "types_point.h"):
        shutil.copy(lttng.DATA / name, tmp_path)
    assert subprocess.run(["gcc", "-c", "-I.", *ours[0], "types_tp.c"], cwd=tmp_path,
                          capture_output=True).returncode != 0


ENUMERATION = """
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER en
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./en_tp.h"
#if !defined(EN_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define EN_TP_H
#include <lttng/tracepoint.h>
#include <stdint.h>
LTTNG_UST_TRACEPOINT_ENUM(en, state, LTTNG_UST_TP_ENUM_VALUES(
	%s))
LTTNG_UST_TRACEPOINT_EVENT(en, named, LTTNG_UST_TP_ARGS(int, n), LTTNG_UST_TP_FIELDS(
	lttng_ust_field_enum(en, state, %s, n, n)))
LTTNG_UST_TRACEPOINT_EVENT(en, plain, LTTNG_UST_TP_ARGS(int, n), LTTNG_UST_TP_FIELDS(
	lttng_ust_field_integer(int, n, n)))
#endif
#include <lttng/tracepoint-event.h>
"""
ENUMERATED = """
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "en_tp.h"
int main(void)
{
	for (int i = -1; i < 3; i++) {
		lttng_ust_tracepoint(en, named, i);
		lttng_ust_tracepoint(en, plain, i);
	}
	return 0;
}
"""


def enumerated(where, flags, labels, of):
    """A program with an enumeration of these labels."""
    values = "\n\t".join(f'lttng_ust_field_enum_value("{name}", {value})' for name, value in labels)
    (where / "en_tp.h").write_text(ENUMERATION % (values, of))
    (where / "en.c").write_text(ENUMERATED)
    lttng.run(["gcc", "-I.", *flags[0], "en.c", "-o", "en", *flags[1]], cwd=where)
    return where / "en"


def test_labels_that_their_type_cannot_hold(build, spoor, tmp_path, ours):
    """LTTng's own trace has the events, too, but for no value the name."""
    program = enumerated(tmp_path, ours, [("UNKNOWN", -1), ("ZERO", 0), ("ONE", 1)], "uint8_t")
    lttng.record_spoor(build, tmp_path / "t.spoor", program)
    assert [fields[0][1][-2:] for _, _, fields in lttng.events(tmp_path / "t.spoor")[::2]] == [
        (n, [("ONE", [(1, 1)]), ("UNKNOWN", [(255, 255)]), ("ZERO", [(0, 0)])]) for n in (255, 0, 1, 2)]
    assert "en:named n=UNKNOWN(255)" in spoor("report", "--events", "t.spoor").stdout


def test_many_labels(build, spoor, tmp_path, ours):
    """As many as 64 kB hold; the events of what has more are lost, and counted."""
    for n, said in ((1009, "8 events of 1 program, 0 lost"), (3001, "4 events of 1 program, 4 lost")):
        where = tmp_path / str(n)
        where.mkdir()
        program = enumerated(where, ours, [(f"A_VALUE_NUMBER_{i}", i) for i in range(n)], "int")
        assert said in spoor("ust", "run", "-o", where / "t.spoor", "--", program).stderr
        found = [e for e in lttng.events(where / "t.spoor") if e.name == "en:named"]
        assert [len(fields[0][1][-1]) for _, _, fields in found] == [n] * (4 if n == 1009 else 0)


# ---- the examples of LTTng-UST itself, where its package has them ----

def example(tmp_path, name):
    """A copy to build in for LTTng-UST, and one for Spoor."""
    for way in ("theirs", "ours"):
        shutil.copytree(lttng.EXAMPLES / name, tmp_path / way)
    return tmp_path / "theirs", tmp_path / "ours"


def make(where, *options, cflags=(), libs=(), targets=()):
    """Its own Makefile, with our flags for the compiler and the linker."""
    lttng.run(["make", *targets, f"CPPFLAGS={' '.join(cflags)}", f"LDFLAGS={' '.join(libs)}", *options], cwd=where)


ENDLESS = ["timeout", "--preserve-status", "3"]  # what goes on for minutes is ended by SIGTERM


@pytest.mark.parametrize("name, command, preload", [
    ("demo", ["./demo"], "lttng-ust-provider-ust-tests-demo.so lttng-ust-provider-ust-tests-demo3.so"),
    ("demo-tracef", ["./demo-tracef"], ""), ("demo-tracef", ["./demo-vtracef"], ""),
    ("demo-tracelog", ["./demo-tracelog"], ""), ("demo-tracelog", ["./demo-vtracelog"], ""),
    ("hello-static-lib", ENDLESS + ["./hello"], ""), ("gen-tp", ENDLESS + ["./sample"], ""),
    ("easy-ust", ENDLESS + ["./sample"], ""),
])
def test_examples(build, tmp_path, ours, name, command, preload):
    theirs, mine = example(tmp_path, name)
    generator = ["PYTHON=/usr/bin/python3", "LTTNG_GEN_TP_PATH=/usr/bin/"]
    make(theirs, *generator)
    make(mine, *generator, cflags=ours[0], libs=ours[1])
    (tmp_path / "run").write_text("cd $1; LD_PRELOAD=$2; export LD_PRELOAD; shift 2; \"$@\" || [ $? = 143 ]\n")

    def preloaded(where):
        return ["sh", tmp_path / "run", where, " ".join(str(where / p) for p in preload.split()), *command]
    lttng.record_lttng(tmp_path / "trace", *preloaded(theirs))
    lttng.record_spoor(build, tmp_path / "t.spoor", *preloaded(mine))
    expected, found = lttng.events(tmp_path / "trace"), lttng.events(tmp_path / "t.spoor")
    if "timeout" in command:
        n = min(len(expected), len(found))
        assert n > 100
        expected, found = expected[:n], found[:n]
    lttng.same(found, expected)


def test_example_of_libraries_in_cxx(build, tmp_path, ours):
    """As its CMakeLists.txt says: sites in two libraries, their provider in a third."""
    ways = zip(example(tmp_path, "cmake-multiple-shared-libraries"), (["-llttng-ust", "-ldl"], [*ours[0], *ours[1]]))
    for where, how in ways:
        rpath = f"-Wl,-rpath,{where}"
        for name, needs in (("tracepoint-provider", []), ("aligner-lib", ["-ltracepoint-provider"]),
                            ("tester-lib", ["-ltracepoint-provider"])):
            lttng.run(["g++", "-O2", "-fPIC", "-shared", "-I.", "-L.", rpath, "-o", f"lib{name}.so", f"{name}.cpp",
                       *needs, *how], cwd=where)
        lttng.run(["g++", "-O2", "-I.", "-L.", rpath, "-o", "tester", "tester.cpp", "-ltester-lib", "-laligner-lib",
                   "-ltracepoint-provider", *how], cwd=where)
    lttng.record_lttng(tmp_path / "trace", tmp_path / "theirs" / "tester")
    lttng.record_spoor(build, tmp_path / "t.spoor", tmp_path / "ours" / "tester")
    lttng.same(lttng.events(tmp_path / "t.spoor"), lttng.events(tmp_path / "trace"))


PLACES = ["place_many", "place_few", "place_do", "place_tracef", "place_tracelog", "place_vtracelog"]


@pytest.mark.parametrize("where", ["program", "library"])
@pytest.mark.parametrize("compiler", ["gcc", "gcc -O0", "clang"])
def test_where_a_site_is(build, spoor, tmp_path, ours, where, compiler):
    """In the program's own function, not in what the header makes of a tracepoint; without frame pointers, and nobody
    has rows. With rows call stacks begin there, too."""
    program = compile_to(tmp_path / "places", f"{compiler} -no-pie -fno-pie -fomit-frame-pointer",
                         ["places.c"] + ["places_tp.c"] * (where == "program"), *ours[0], *ours[1], "-ldl",
                         *([provider(tmp_path, ours, source="places_tp.c"), f"-Wl,-rpath,{tmp_path}"]
                           if where == "library" else []))
    said = lttng.run(["nm", "-S", program]).stdout
    code = [(int(at, 16), int(size, 16), name.split(".")[0])
            for at, size, name in re.findall(r"^(\w+) (\w+) [Tt] (\S+)$", said, re.M)]
    _, (trace,) = tracing.traced(build, tmp_path / "out", program, SPOOR_UST_CONTEXT="ip")
    found = [name for e in trace.events for begin, size, name in code if begin < e.values["ip"] <= begin + size]
    assert found == PLACES * 3
    run = spoor("ust", "run", "--stack", "all,16", "-o", "t.spoor", "--", program)
    assert run.returncode == 0, run.stderr
    events = [json.loads(line) for line in spoor("report", "-f", "json", "t.spoor").stdout.splitlines()[:-1]]
    assert [e["stack"][0]["function"].split(".")[0] for e in events if "stack" in e] == PLACES * 3
