# SPDX-License-Identifier: GPL-2.0-or-later
"""What must not compile or link, and what compiles without a warning."""
import re
import shutil
import subprocess

import arenas
import pytest
import tracing

HEADER = """
#include <spoor/tracepoint.h>
#include <spoor/marker.h>
SPOOR_TRACEPOINT(t, e, TP_PROTO(int n, const char *s), TP_ARGS(n, s),
		 TP_FIELDS(spoor_int(int, n, n), spoor_string(s, s)))
DECLARE_TRACE(first, TP_PROTO(int n, const char *s), TP_ARGS(n, s));
DEFINE_TRACE(first);
static void probe(void *data, int n, const char *s) { (void)data; (void)n; (void)s; }
static void wrong_probe(void *data, const char *s) { (void)data; (void)s; }
struct some { int x; };
"""
WRONG = {
    "too few": "spoor_trace(t, e, 1);",
    "too many": 'spoor_trace(t, e, 1, "s", 2);',
    "pointer for integer": 'spoor_trace(t, e, "1", "s");',
    "integer for pointer": "spoor_trace(t, e, 1, 17);",
    "other pointer": "int x = 0; spoor_trace(t, e, 1, &x);",
    "structure": 'struct some x = { 1 }; spoor_trace(t, e, x, "s");',
    "no such tracepoint": "spoor_trace(t, other, 1);",
    "probe": "register_trace_t_e(wrong_probe, 0);",
    "first form, too few": "trace_first(1);",
    "first form, structure": 'struct some x = { 1 }; trace_first(x, "s");',
    "first form, integer for pointer": "trace_first(1, 17);",
    "first form, probe": "register_trace_first(wrong_probe, 0);",
    "format": 'trace_mark(m, "n %d", "s");',
    "format of log": 'spoor_log("n %s", 1);',
    "format, too few": 'spoor_log("n %s %d", "s");',
}
RIGHT = """spoor_trace(t, e, 1, "s"); trace_first(1, "s"); register_trace_t_e(probe, 0); trace_mark(m, "n %d", 1);
           (void)wrong_probe;"""


def compiles(tmp_path, compiler, body, *flags):
    source = tmp_path / ("x.cc" if "++" in compiler else "x.c")
    source.write_text(HEADER + "int main(void) { " + body + " return 0; }\n")
    run = subprocess.run([*compiler.split(), f"-I{tracing.INCLUDE}", "-c", "-o", tmp_path / "x.o", source, *flags],
                         capture_output=True, text=True, timeout=60)
    return run.returncode == 0, run.stderr


@pytest.mark.parametrize("disabled", [[], ["-DSPOOR_DISABLE"]], ids=["on", "disabled"])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_wrong_types_do_not_compile(tmp_path, compiler, disabled):
    assert compiles(tmp_path, compiler, RIGHT, "-Wall", "-Werror", *disabled)[0]
    for what, body in WRONG.items():
        # A format is checked as printf's is, the first form's arguments as a function's are: in C by warnings.
        how = ["-Werror=format"] if "format" in what else ["-Werror"] if "first form" in what else []
        assert not compiles(tmp_path, compiler, body, *how, *disabled)[0], what


@pytest.mark.parametrize("compiler", [
    "gcc -std=c89", "gcc -std=c99 -pedantic", "gcc -std=gnu17 -pedantic", "clang -std=c89", "clang -std=c11 -pedantic",
    "g++ -std=c++11 -pedantic", "clang++ -std=c++17 -pedantic"])
def test_pedantic_programs(tmp_path, compiler):
    """What is GNU's own is in the headers, and not for the program to be warned of."""
    good, said = compiles(tmp_path, compiler, RIGHT, "-Wall", "-Wextra", "-Wshadow", "-Werror")
    assert good, said


@pytest.mark.parametrize("compiler", ["g++", "g++ -std=c++20 -DSPOOR_DISABLE", "clang++ -std=c++11"])
def test_included_as_c(tmp_path, compiler):
    """As many a C++ program includes its C headers, some of which then have tracepoints."""
    old = "DECLARE_TRACE(old, TP_PROTO(const char *s), TP_ARGS(s));\nDEFINE_TRACE(old);\n"
    (tmp_path / "x.cc").write_text(f'extern "C" {{\n{HEADER}\n{old}}}\nint main() {{ {RIGHT} trace_old("s"); }}\n')
    tracing.build_program(tmp_path / "x", tmp_path / "x.cc", compiler=compiler)


STRICT = ("-Wall -Wextra -pedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wundef -Wredundant-decls "
          "-Wpointer-arith -Wformat=2 -Wdouble-promotion -Wmissing-declarations").split()
STRICT_C = "-Wstrict-prototypes -Wwrite-strings -Wdeclaration-after-statement".split()
STRICT_CXX = "-Wold-style-cast -Wzero-as-null-pointer-constant -Wextra-semi".split()
STRICT_BY = [c for c in ["gcc -std=c99", "gcc -std=c2x", "clang -std=c99", "clang -std=c17", "clang-19 -std=c11",
                         "g++ -std=c++11 -Wuseless-cast", "g++ -std=c++20 -Wlogical-op", "clang++ -std=c++17",
                         "clang++-19 -std=c++20"] if shutil.which(c.split()[0])]


@pytest.mark.parametrize("way", ["-O2", "-O0", "-DSPOOR_DISABLE"])
@pytest.mark.parametrize("compiler", STRICT_BY)
def test_strict_programs(build, tmp_path, compiler, way):
    """No warning that a program asks for is ours; a pointer is what it is whatever its qualifiers."""
    more = STRICT_CXX if "++" in compiler.split()[0] else STRICT_C
    program = tracing.build_program(tmp_path / "strict", "ust_strict.c", *STRICT, *more, way,
                                    compiler=f"{compiler} -Wno-unused-command-line-argument")
    if "DISABLE" in way:
        assert subprocess.run([program], timeout=60).returncode == 0
        return
    run, (trace,) = tracing.traced(build, tmp_path / "out", program, 1)
    found = {e.name: e.values for e in trace.events}
    qualified = found["trace:strict_qualified"]
    assert run.returncode == 0 and len(trace.events) == (15 if "++" in compiler.split()[0] else 16)
    assert [qualified[name] for name in "rcnf"] == ["text", "const", -7, 1.5]
    assert all(isinstance(qualified[name], int) for name in "iv")
    old = found["trace:strict_old"]
    assert (old["s"], old["d"], old["u"]) == ("text", 2.5, 200) and len(old["pair"]) == 8


SHORT = """
#include <spoor/tracepoint.h>
DECLARE_TRACE(short_text, TP_PROTO(const char *s), TP_ARGS(s));
DEFINE_TRACE(short_text);
int main(void) { trace_short_text("str"); return 0; }
"""


@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3 -pedantic", "-Os -pedantic -DSPOOR_DISABLE"])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_short_literals(tmp_path, compiler, level):
    """What is copied of a text of any length is no reason to warn of one that the compiler can see."""
    source = tmp_path / ("x.cc" if "++" in compiler else "x.c")
    source.write_text(SHORT)
    tracing.build_program(tmp_path / "x", source, *level.split(), "-Wall", "-Wextra", "-Werror", compiler=compiler)


@pytest.mark.parametrize("compiler, says", [
    ("g++ -std=c++98", "need -std=c++11"), ("clang++ -std=gnu++98", "need -std=c++11"), ("gcc -mno-sse", "need SSE2"),
    ("gcc -mcmodel=large", "large code model"), ("g++ -mcmodel=large -fPIC", "large code model")])
def test_what_cannot_be_says_so(tmp_path, compiler, says):
    """In the first line; with SPOOR_DISABLE the same program compiles."""
    good, said = compiles(tmp_path, compiler, RIGHT)
    first = next(line for line in said.splitlines() if "error" in line)
    assert not good and "spoor: " in first and says in first, said
    assert compiles(tmp_path, compiler, RIGHT, "-DSPOOR_DISABLE")[0]


OTHER = HEADER.replace("int n, const char *s", "long n, const char *s")


FIELDS = {
    "string of a number": ("int n", "spoor_string(n, n)"),
    "number of a string": ("const char *n", "spoor_int(int, n, n)"),
    "number of a structure": ("struct some n", "spoor_int(int, n, n)"),
    "sequence of others": ("const long *n", "spoor_sequence(int, n, n, 3)"),
    "float as an integer": ("float n", "spoor_int(float, n, n)"),
    "integer as a float": ("int n", "spoor_float(int, n, n)"),
    "long double": ("long double n", "spoor_float(long double, n, n)"),
    **{f"{t} as a float or double": (f"{t} n", f"spoor_float({t}, n, n)")
       for t in ("_Float16", "__bf16", "_Decimal32", "_Decimal64", "const _Decimal64", "_Decimal128")},
    "wider than 64 bits": ("__int128 n", "spoor_hex(__int128, n, n)"),
    "array of floats": ("const float *n", "spoor_array(float, n, n, 3)"),
    "sequence of doubles": ("const double *n", "spoor_sequence_hex(double, n, n, 3)"),
    "enumeration of floats": ("float n", 'spoor_enum(float, n, n, spoor_label("a", 1))'),
    "array of none": ("const int *n", "spoor_array(int, n, n, 0)"),
    "array of less": ("const int *n", "spoor_array(int, n, n, -1)"),
    "array of many": ("const char *n", "spoor_array(char, n, n, 65536)"),
    "array of very many": ("const char *n", "spoor_array_hex(char, n, n, sizeof(int) - 5)"),
    "array of none in hexadecimal": ("const int *n", "spoor_array_hex(int, n, n, 0U)"),
    "array of some": ("const int *n", "spoor_array(int, n, n, later)"),
    "label that comes later": ("int n", 'spoor_enum(int, n, n, spoor_label("a", later))'),
    "range that comes later": ("int n", 'spoor_enum(int, n, n, spoor_range("a", 1, later + 1))'),
}
CONSTANT = """
#include <spoor/marker.h>
#include <spoor/tracepoint.h>
enum plain { RED, BLUE = 7 };
enum below { BELOW = -3 };
SPOOR_TRACEPOINT_LEVEL(t, e, SPOOR_LEVEL_DEBUG, TP_PROTO(int n, const char *s, enum plain p), TP_ARGS(n, s, p),
		 TP_FIELDS(spoor_array(char, a, s, 1), spoor_array(short, b, (const short *)0, 2 * BLUE),
			   spoor_array_hex(int, c, (const int *)0, sizeof(long)), spoor_array(char, d, s, 65535),
			   spoor_enum(enum plain, p, p, spoor_label("red", RED), spoor_range("blue", BLUE, 0x9UL)),
			   spoor_enum(enum below, q, BELOW, spoor_label("below", BELOW)), spoor_int(enum plain, r, p),
			   spoor_hex(unsigned, u, 3U), spoor_float(double, f, n)))
DECLARE_TRACE(old, TP_PROTO(enum plain p, enum below b, float f), TP_ARGS(p, b, f));
DEFINE_TRACE(old);
int main(void)
{
	spoor_trace(t, e, 1, "s", BLUE);
	trace_old(BLUE, BELOW, 1);
	spoor_log_level(SPOOR_LEVEL_DEBUG, "n %d", 1);
	return 0;
}
"""
BY_ALL = [f"{c} -std={std}" for c, stds in {
    "gcc": ("c99", "c17"), "clang": ("c99", "c17"), "clang-19": ("c17",),
    "g++": ("c++11", "c++14", "c++17", "c++20"), "clang++": ("c++11", "c++14", "c++17", "c++20"),
    "clang++-19": ("c++11", "c++23")}.items() if shutil.which(c) for std in stds]


@pytest.mark.parametrize("compiler", BY_ALL)
def test_what_is_not_constant_does_not_compile(tmp_path, compiler):
    """A site has its description before any code runs: nothing is computed for it, also in C++."""
    def compiles(text):
        (tmp_path / "x.c").write_text(text)
        return subprocess.run([*compiler.split(), "-x", "c++" if "++" in compiler else "c", "-Wall", "-Wextra",
                               "-Werror", "-pedantic", f"-I{tracing.INCLUDE}", "-c", "-o", tmp_path / "x.o",
                               tmp_path / "x.c"], capture_output=True, text=True, timeout=60)
    assert not compiles(CONSTANT).stderr
    later = "extern int later;\n" + CONSTANT
    for what in ("1), spoor_array(short", "RED), spoor_range", "0x9UL", "SPOOR_LEVEL_DEBUG, TP_PROTO",
                 'SPOOR_LEVEL_DEBUG, "n %d"'):
        assert CONSTANT.count(what) == 1
        run = compiles(later.replace(what, re.sub(r"^\w+", "later", what)))
        assert run.returncode == 1 and "error" in run.stderr, what


@pytest.mark.parametrize("compiler", [c for c in ("gcc", "clang", "clang-19", "g++", "clang++", "clang++-19")
                                      if shutil.which(c)])
def test_fields_of_wrong_types_do_not_compile(tmp_path, compiler):
    for what, (parameter, field) in FIELDS.items():
        (tmp_path / "x.c").write_text(
            "#include <spoor/tracepoint.h>\nstruct some { int x; };\nextern int later;\n"
            f"SPOOR_TRACEPOINT(t, e, TP_PROTO({parameter}), TP_ARGS(n), TP_FIELDS({field}))\n")
        run = subprocess.run([compiler, "-x", "c++" if "++" in compiler else "c", f"-I{tracing.INCLUDE}", "-c", "-o",
                              "/dev/null", tmp_path / "x.c"], capture_output=True, text=True, timeout=60)
        assert run.returncode == 1 and "error" in run.stderr, what


def many(n):
    """Fields, labels, arguments of the first form."""
    def each(text):
        return ", ".join(text.replace("#", str(i)) for i in range(n))
    one = "SPOOR_TRACEPOINT(t, e, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS("
    return (one + each("spoor_int(int, f#, n)") + "))",
            one + f'spoor_enum(int, n, n, {each("""spoor_label("l#", #)""")})))',
            f"DECLARE_TRACE(t, TP_PROTO({each('int a#')}), TP_ARGS({each('a#')}));")


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_more_than_32_do_not_compile(tmp_path, compiler):
    def compiled(declaration):
        source = tmp_path / ("x.cc" if "++" in compiler else "x.c")
        source.write_text(f"#include <spoor/tracepoint.h>\n{declaration}\n")
        return subprocess.run([compiler, f"-I{tracing.INCLUDE}", "-c", "-o", "/dev/null", source], capture_output=True,
                              text=True, timeout=60)
    for n in 32, 33, 34, 65:
        for declaration in many(n):
            run = compiled(declaration)
            if n == 32:
                assert run.returncode == 0, run.stderr
                continue
            first = next(line for line in run.stderr.splitlines() if "error" in line)
            assert run.returncode != 0 and "spoor: more than 32" in first


WAYS_OF_TWO = ["gcc", "gcc -flto", "gcc -fuse-ld=gold", "clang", "clang -Wl,--gc-sections", "clang -fuse-ld=lld",
               "clang -fuse-ld=gold", "clang -flto", "clang -flto=thin", "clang -fuse-ld=lld -flto",
               "clang -fuse-ld=lld -flto=thin", "clang -fno-integrated-as", "clang++ -fuse-ld=lld -flto"]


LEVEL = HEADER.replace("TRACEPOINT(t, e,", "TRACEPOINT_LEVEL(t, e, SPOOR_LEVEL_ERR,")
USE_OF_TWO = "{ spoor_trace(t, e, 1, 0); (void)probe; (void)wrong_probe; "


@pytest.mark.parametrize("way", WAYS_OF_TWO)
def test_a_different_declaration_does_not_link(tmp_path, way):
    def link(first, second):
        (tmp_path / "a.c").write_text(first + "void f(void); void f(void) " + USE_OF_TWO + "}")
        (tmp_path / "b.c").write_text(second + "void f(void); int main(void) " + USE_OF_TWO + " f(); return 0; }")
        return subprocess.run([*way.split(), "-w", "-O2", f"-I{tracing.INCLUDE}", "-o", tmp_path / "x",
                               tmp_path / "a.c", tmp_path / "b.c"], capture_output=True, text=True, timeout=60)
    right = link(HEADER, HEADER)
    assert right.returncode == 0, right.stderr
    for second in OTHER, LEVEL:
        wrong = link(HEADER, second)
        assert wrong.returncode != 0 and "different_declarations_of_t__e" in wrong.stderr, wrong.stderr
    assert link(HEADER, LEVEL.replace("LEVEL_ERR", "LEVEL_INFO")).returncode == 0


# What assemblers do not read alike in names.
LETTERS = r"""
SPOOR_TRACEPOINT(t, letter, TP_PROTO(char c), TP_ARGS(c), TP_FIELDS(
    spoor_enum(char, c, c, spoor_label("quote", '\''), spoor_label("newline", '\n'), spoor_label("back", '\\'))))
"""
BY_ALL = ["gcc", "gcc -shared", "gcc -static", "gcc -Wl,--gc-sections", "gcc -fuse-ld=gold -Wl,--gc-sections,--icf=all",
          "gcc -fuse-ld=lld -Wl,--gc-sections,--icf=all", "clang -fuse-ld=lld"]
BY_GCC = ["gcc -flto", "gcc -flto -fuse-ld=gold"]
BY_CLANG = ["clang -flto", "clang -flto -fuse-ld=gold", "clang -flto -fuse-ld=lld"]
# Two compilers, and who links what they make.
TWO_COMPILERS = [
    *[(f"{one} {o}", f"{two} {p}", BY_ALL) for one in ("gcc", "g++") for two in ("clang", "clang++")
      for o, p in (("-O0", "-O2"), ("-O2", "-O0"))],
    ("gcc -fno-pic", "clang -fPIC", ["gcc -no-pie"]), ("gcc -fPIC", "clang -fno-pic", ["clang -no-pie"]),
    ("gcc", "clang -fno-integrated-as", BY_ALL), ("clang", "clang++ -fno-integrated-as", BY_ALL),
    ("g++", "gcc -std=c99", BY_ALL), ("clang -std=c11", "clang++ -std=c++11", BY_ALL),
    *[(one, two, BY_ALL) for one, two in (("gcc", "clang-19"), ("clang", "clang++-19")) if shutil.which(two)],
    ("gcc -flto", "clang", BY_GCC), ("g++ -flto", "clang++", BY_GCC), ("gcc -flto", "gcc", BY_GCC),
    *[(one, f"clang {lto}", BY_CLANG) for one in ("gcc", "g++", "clang") for lto in ("-flto", "-flto=thin")],
]


def two_objects(tmp_path, one, two, first, second):
    """The first has main()."""
    objects = []
    for compiler, text, body in ((one, first, "int main(void) " + USE_OF_TWO + " f(); return 0; }"),
                                 (two, second, "FUNCTION void f(void) " + USE_OF_TWO + "}")):
        number = len(objects)
        source = tmp_path / f"{number}.{'cc' if '++' in compiler else 'c'}"
        function = 'extern "C"' if "++" in compiler else "extern"
        source.write_text(text + f"\n#define FUNCTION {function}\nFUNCTION void f(void);\n" + body)
        objects.append(tmp_path / f"{number}.o")
        name, *more = compiler.split()
        subprocess.run([name, "-fPIC", "-O2", *more, "-w", f"-I{tracing.INCLUDE}", "-c", "-o", objects[-1], source],
                       check=True, timeout=60)
    return objects


@pytest.mark.parametrize("one, two, by", TWO_COMPILERS, ids=[f"{one}, {two}" for one, two, _ in TWO_COMPILERS])
def test_declarations_of_two_compilers(tmp_path, one, two, by):
    """Equal ones link, whichever object is first; different ones do not."""
    def link(linker, objects):
        return subprocess.run([*linker.split(), "-o", tmp_path / "x", *objects], capture_output=True, text=True,
                              timeout=60)
    same = two_objects(tmp_path, one, two, HEADER + LETTERS, HEADER + LETTERS)
    for linker in by:
        for objects in same, same[::-1]:
            right = link(linker, objects)
            assert right.returncode == 0, (linker, right.stderr)
    for other in OTHER, LEVEL:
        different = two_objects(tmp_path, one, two, HEADER + LETTERS, other + LETTERS)
        for linker in by:
            for objects in different, different[::-1]:
                wrong = link(linker, objects)
                assert wrong.returncode != 0 and "different_declarations_of_t__e" in wrong.stderr, (linker, wrong)


# The declaration above: written otherwise, or as it is.
PROTO, FIELD = "TP_PROTO(int n, const char *s)", "spoor_int(int, n, n)"
OTHERWISE = [(PROTO, "TP_PROTO( int n, const char *s )"), (PROTO, "TP_PROTO(int n,const char *s)"),
             (PROTO, "TP_PROTO(int n, const char* s)"), (PROTO, "TP_PROTO(NUMBER n, const char *s)"),
             (FIELD, "spoor_int(signed int, n, n)"), (FIELD, "spoor_int(int, m, n)"), (FIELD, "spoor_hex(int, n, n)")]
ALIKE = [(PROTO, " TP_PROTO(int  n, /* as it is */\n const char *s) "), (FIELD, "spoor_int( int ,n, n )"),
         (FIELD, "spoor_int(NUMBER, n, n)"), (FIELD, "spoor_int(int, n, n + 1)")]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_how_declarations_are_written(tmp_path, compiler):
    for text, instead in OTHERWISE + ALIKE:
        other = "#define NUMBER int\n" + HEADER.replace(text, instead, 1)
        objects = two_objects(tmp_path, compiler, "g++", HEADER, other)
        run = subprocess.run([compiler, "-o", tmp_path / "x", *objects], capture_output=True, text=True, timeout=60)
        assert ("different_declarations_of_t__e" in run.stderr) == ((text, instead) in OTHERWISE), (instead, run.stderr)


# In which gcc and clang have other words for a value, and which assemblers refuse.
ODD = """#include <limits.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(t, odd, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(
    spoor_enum(int, n, n, spoor_label("least", INT_MIN), spoor_label("quote", '"'), spoor_label("nul", '\\0'))))
"""


def test_declarations_that_are_not_compared(tmp_path):
    unchecked = "#define SPOOR_UNCHECKED_DECLARATIONS\n"
    objects = two_objects(tmp_path, "gcc", "clang", unchecked + HEADER + ODD, unchecked + OTHER + ODD)
    subprocess.run(["gcc", "-o", tmp_path / "x", *objects], check=True, timeout=60)


# In C bool is a macro.
SHARED = """#include <stdbool.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(t, e, TP_PROTO(bool on, const bool *all), TP_ARGS(on, all),
                 TP_FIELDS(spoor_int(bool, on, on), spoor_array(bool, all, all, 2)))
DECLARE_TRACE(old, TP_PROTO(bool on), TP_ARGS(on));
DEFINE_TRACE(old);
static const bool both[2] = {true, false};
#define USE { spoor_trace(t, e, 1, both); trace_old(0); }
"""


# The last links, which what is compiled for link-time optimization is for.
@pytest.mark.parametrize("compilers", [
    "gcc, g++", "clang, clang++", "gcc -flto, g++ -flto", "clang -flto, clang++ -flto -fuse-ld=lld", "gcc, clang++",
    "clang, g++", "clang, g++ -flto", "gcc, clang++ -flto", "gcc, clang++ -flto -fuse-ld=lld",
    "gcc, clang++ -flto=thin -fuse-ld=lld", "clang, clang++ -flto -fuse-ld=gold"])
def test_c_and_cxx_share_a_declaration(build, tmp_path, compilers):
    """Each event of theirs is recorded once."""
    (tmp_path / "a.c").write_text(SHARED + "void f(void); void f(void) USE")
    (tmp_path / "b.cc").write_text(SHARED + 'extern "C" void f(void); int main() { USE f(); return 0; }')
    c, cxx = (compiler.split() for compiler in compilers.split(", "))
    include = f"-I{tracing.INCLUDE}"
    subprocess.run([*c, include, "-c", "-o", tmp_path / "a.o", tmp_path / "a.c"], check=True, timeout=60)
    subprocess.run([*cxx, include, "-o", tmp_path / "x", tmp_path / "a.o", tmp_path / "b.cc"], check=True, timeout=60)
    tracing.traced(build, tmp_path / "out", tmp_path / "x")
    assert [e.values for e in arenas.arena(tmp_path / "out").events] == 2 * [{"on": 1, "all": [1, 0]}, {"on": 0}]


def test_the_same_twice_in_one_source_does_not_compile(tmp_path):
    twice = HEADER.replace("static void probe", "SPOOR_TRACEPOINT(t, e, TP_PROTO(long n), TP_ARGS(n), TP_FIELDS())\n"
                           "static void probe")
    (tmp_path / "x.c").write_text(twice + "int main(void) { return 0; }")
    assert subprocess.run(["gcc", f"-I{tracing.INCLUDE}", "-c", "-o", "/dev/null", tmp_path / "x.c"],
                          capture_output=True).returncode != 0
