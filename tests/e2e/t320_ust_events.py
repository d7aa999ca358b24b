# SPDX-License-Identifier: GPL-2.0-or-later
"""What tracepoints and markers record, by whichever compiler, and what their probes are called with."""
import json
import os
import struct
import subprocess

import arenas
import bt2
import pytest
import tracing

COMPILERS = ["gcc", "gcc -O0 -std=gnu11", "clang", "g++ -std=c++11", "g++ -O0", "clang++ -std=c++17", "clang++ -O0"]
PROBED = """0
-17
0
0
probe one 1 7
probe two 1 7
marker one myint 43 mystring probed
0
probe two 2 7
-2
0
0
nothing one
"""


@pytest.fixture(scope="module", params=COMPILERS)
def trace(request, build, tmp_path_factory):
    where = tmp_path_factory.mktemp("types")
    program = tracing.build_program(where / "types", "ust_types.c", compiler=request.param)
    run, traces = tracing.traced(build, where / "out", program)
    assert run.returncode == 0 and run.stdout == PROBED, run.stderr
    return traces[0]


def values(trace, event):
    return [e.values for e in trace.events if e.name == event]


def of(trace, name):
    return [c for c in trace.classes.values() if c.name == name]


def test_integers(trace):
    assert values(trace, "types:integers") == [dict(
        a=-1, b=255, c=-2, d=65535, e=-3, f=7, g=-2**63, h=2**64 - 1, i=ord("x"), j=1, k=-4)]
    c, = of(trace, "types:integers")
    assert [(f.bytes, f.base, f.flags & arenas.SIGNED) for f in c.fields] == [
        (1, 10, 1), (1, 10, 0), (2, 10, 1), (2, 16, 0), (4, 8, 1), (4, 2, 0), (8, 10, 1), (8, 16, 0), (1, 10, 1),
        (1, 10, 0), (8, 10, 1)]


def test_others(trace):
    assert values(trace, "types:others") == [
        dict(f=1.5, d=-0.1, p=4096, s="string", array=[-1, 2, 3], sequence=[-1, 2, 3, 4], text=b"st", c=5),
        dict(f=0, d=0, p=0, s="(null)", array=[-1, 2, 3], sequence=[], text=b"", c=-1)]
    c, = of(trace, "types:others")
    assert c.level == 14
    assert [f.type for f in c.fields] == [arenas.FLOAT, arenas.FLOAT, arenas.POINTER, arenas.STRING, arenas.INT,
                                          arenas.INT, arenas.INT, arenas.ENUM]
    assert c.fields[-1].labels == [(0, 0, "red"), (4, 6, "green"), (-1, -1, "blue")]


def test_a_negative_count_is_none(build, tmp_path):
    """As of what read() returned: nothing behind the pointer is read."""
    source = tmp_path / "negative.c"
    source.write_text("""
#include <stdint.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(n, e, TP_PROTO(const char *p, long n), TP_ARGS(p, n), TP_FIELDS(
	spoor_text(text, p, n), spoor_sequence(short, shorts, (const short *)p, (int)n),
	spoor_text(same, p, (uint32_t)n)))
int main(void) { spoor_trace(n, e, (const char *)16, -1); spoor_trace(n, e, \"ab\", 1); return 0; }
""")
    for compiler in ("gcc", "clang++ -O0"):
        program = tracing.build_program(tmp_path / "negative", source, compiler=compiler)
        run, (trace,) = tracing.traced(build, tmp_path / compiler.split()[0], program)
        assert run.returncode == 0
        assert values(trace, "n:e") == [dict(text=b"", shorts=[], same=b""),
                                        dict(text=b"a", shorts=[int.from_bytes(b"ab", "little")], same=b"a")]


def test_a_count_is_evaluated_once(build, tmp_path):
    """Here it is negative the second time, as another thread may make it; with NULL it is not evaluated."""
    source = tmp_path / "once.c"
    source.write_text("""
#include <spoor/tracepoint.h>
static int asked;
static int count(void) { return asked++ % 2 ? -1 : 3; }
SPOOR_TRACEPOINT(n, text, TP_PROTO(const char *p), TP_ARGS(p), TP_FIELDS(spoor_text(text, p, count())))
SPOOR_TRACEPOINT(n, shorts, TP_PROTO(const short *p), TP_ARGS(p), TP_FIELDS(
	spoor_sequence(short, shorts, p, count()), spoor_sequence_hex(short, hex, p, count())))
int main(void)
{
	short four[4] = { 1, 2, 3, 4 };

	spoor_trace(n, text, "four");
	spoor_trace(n, text, NULL);
	spoor_trace(n, text, "four");
	spoor_trace(n, shorts, four);
	return asked;
}
""")
    for compiler in ("gcc", "clang++ -O0"):
        program = tracing.build_program(tmp_path / "once", source, compiler=compiler)
        run, (trace,) = tracing.traced(build, tmp_path / compiler.split()[0], program)
        assert run.returncode == 4
        assert [v["text"] for v in values(trace, "n:text")] == [b"fou", b"", b""]
        assert values(trace, "n:shorts") == [dict(shorts=[1, 2, 3], hex=[])]


def test_arrays_of_nothing(build, tmp_path):
    """NULL is zeroes, or empty: the program goes on as without the event."""
    source = tmp_path / "nothing.c"
    source.write_text("""
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(n, e, TP_PROTO(const short *p), TP_ARGS(p), TP_FIELDS(
	spoor_array(short, shorts, p, 3), spoor_array_hex(short, hex, p, 2), spoor_sequence(short, some, p, 2)))
int main(void) { short three[3] = { 1, 2, 3 }; spoor_trace(n, e, NULL); spoor_trace(n, e, three); return 0; }
""")
    for compiler in ("gcc", "clang++ -O0"):
        program = tracing.build_program(tmp_path / "nothing", source, compiler=compiler)
        run, (trace,) = tracing.traced(build, tmp_path / compiler.split()[0], program)
        assert run.returncode == 0
        assert values(trace, "n:e") == [dict(shorts=[0, 0, 0], hex=[0, 0], some=[]),
                                        dict(shorts=[1, 2, 3], hex=[1, 2], some=[1, 2])]


def test_long_doubles_of_the_old_form(build, tmp_path):
    """The bytes of its value, and not those behind them, which are whatever lay there."""
    source = tmp_path / "long.c"
    source.write_text("""
#include <spoor/tracepoint.h>
DECLARE_TRACE(precise, TP_PROTO(long double x, const long double y, int n), TP_ARGS(x, y, n));
DEFINE_TRACE(precise);
int main(void) { trace_precise(1.5L, -2, 7); return 0; }
""")
    for compiler in ("gcc", "gcc -O0 -std=gnu99", "clang", "g++ -O0 -std=c++11", "clang++ -O0"):
        program = tracing.build_program(tmp_path / "long", source, compiler=compiler)
        run, (trace,) = tracing.traced(build, tmp_path / compiler.replace(" ", ""), program)
        assert run.returncode == 0
        assert values(trace, "trace:precise") == [dict(x=[0] * 7 + [0xc0, 0xff, 0x3f], y=[0] * 7 + [0x80, 0, 0xc0],
                                                       n=7)]


def test_numbers_of_other_formats_in_the_old_form(build, tmp_path):
    """What is neither an integer nor a float or double is the bytes that it is of, and no number that it is not."""
    source = tmp_path / "other.c"
    source.write_text("""
#include <spoor/tracepoint.h>
#if defined(__clang__) || defined(__cplusplus)
typedef float other;
#else
typedef _Float32 other; /* another type than float */
#endif
DECLARE_TRACE(others, TP_PROTO(float _Complex f, double _Complex d, other o, float r, int n), TP_ARGS(f, d, o, r, n));
DEFINE_TRACE(others);
int main(void)
{
	float _Complex f;
	double _Complex d;

	__real__ f = __real__ d = 1.5;
	__imag__ f = __imag__ d = -2;
	trace_others(f, d, 1.5, 1.5, 7);
	return 0;
}
""")
    for compiler in ("gcc", "gcc -O0 -std=gnu99", "clang", "g++ -O0 -std=gnu++11", "clang++ -O0"):
        program = tracing.build_program(tmp_path / "other", source, compiler=compiler)
        run, (trace,) = tracing.traced(build, tmp_path / compiler.replace(" ", ""), program)
        assert run.returncode == 0
        o = list(struct.pack("<f", 1.5)) if compiler.startswith("gcc") else 1.5
        assert values(trace, "trace:others") == [dict(f=list(struct.pack("<2f", 1.5, -2)),
                                                      d=list(struct.pack("<2d", 1.5, -2)), o=o, r=1.5, n=7)]


SHORTENED = """
#include <string.h>
#include <spoor/tracepoint.h>
static char text[64];
static int shorten(int at) { text[at] = 0; return at; }
SPOOR_TRACEPOINT(n, e, TP_PROTO(int at), TP_ARGS(at), TP_FIELDS(
	spoor_string(s, text), spoor_int(int, at, shorten(at)), spoor_int(int, n, 7)))
int main(void)
{
	for (int n = 0; n < 43; n++) {
		for (int at = 0; at <= n; at++) {
			memset(text, 0, sizeof(text));
			memset(text, 'x', (size_t)n);
			spoor_trace(n, e, at);
		}
	}
	return 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "gcc -O0", "clang -O3", "g++", "clang++ -O0"])
def test_a_string_shortened_while_it_is_recorded(build, tmp_path, compiler):
    """By a field's value here; else by a thread or a signal handler. It keeps the length that was reserved for it, and
    what was reserved for what is behind it is that."""
    (tmp_path / "shortened.c").write_text(SHORTENED)
    program = tracing.build_program(tmp_path / "shortened", tmp_path / "shortened.c", compiler=compiler)
    run, (trace,) = tracing.traced(build, tmp_path / "out", program)
    assert run.returncode == 0
    assert values(trace, "n:e") == [dict(s="x" * at + "#" * (n - at), at=at, n=7)
                                    for n in range(43) for at in range(n + 1)]


RACED = """
#include <pthread.h>
#include <string.h>
#include <spoor/marker.h>
#include <spoor/tracepoint.h>
DECLARE_TRACE(raced, TP_PROTO(const char *s, unsigned n), TP_ARGS(s, n));
DEFINE_TRACE(raced);
static char text[128];
static int stop;
static void *flip(void *arg)
{
	volatile char *at = text + 50;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		*at = 0;
		*at = 'x';
	}
	return arg;
}
int main(void)
{
	pthread_t thread;

	memset(text, 'x', 100);
	pthread_create(&thread, NULL, flip, NULL);
	for (int i = 0; i < 30011; i++) {
		trace_raced(text, 0xdeadbeef);
		trace_mark(raced, "s %s n %u", text, 0xdeadbeef);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	return pthread_join(thread, NULL);
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang++"])
def test_a_string_shortened_by_a_thread(build, tmp_path, compiler):
    """Of the first form, and of markers, whose values are taken by the library."""
    (tmp_path / "raced.c").write_text(RACED)
    program = tracing.build_program(tmp_path / "raced", tmp_path / "raced.c", compiler=compiler)
    run, (trace,) = tracing.traced(build, tmp_path / "out", program)
    assert run.returncode == 0
    for event in "trace:raced", "marker:raced":
        found = values(trace, event)
        assert len(found) == 30011 and {v["n"] for v in found} == {0xdeadbeef}, event
        assert {v["s"] for v in found} <= {"x" * 50, "x" * 100, "x" * 50 + "#" * 50}


NAMED = """
#include <stdio.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(n, e, TP_PROTO(int data, const char *probe), TP_ARGS(data, probe), TP_FIELDS(
	spoor_int(int, data, data), spoor_string(probe, probe)))
DECLARE_TRACE(named, TP_PROTO(int data, const char *probe), TP_ARGS(data, probe));
DEFINE_TRACE(named);
static void probed(void *mine, int data, const char *probe) { printf("%s %d %s\\n", (char *)mine, data, probe); }
static char mine[] = "mine";
int main(void)
{
	register_trace_n_e(probed, mine);
	register_trace_named(probed, mine);
	spoor_trace(n, e, 7, "seven");
	trace_named(11, "eleven");
	return 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_arguments_called_as_those_of_probes(build, tmp_path, compiler):
    (tmp_path / "named.c").write_text(NAMED)
    program = tracing.build_program(tmp_path / "named", tmp_path / "named.c", compiler=compiler)
    run, (trace,) = tracing.traced(build, tmp_path / "out", program)
    assert run.stdout == "mine 7 seven\nmine 11 eleven\n"
    assert values(trace, "n:e") == [dict(data=7, probe="seven")]
    assert values(trace, "trace:named") == [dict(data=11, probe="eleven")]
    tracing.build_program(tmp_path / "off", tmp_path / "named.c", "-DSPOOR_DISABLE", compiler=compiler)


GLOBALS = """
#include <spoor/tracepoint.h>
static int v_depth = 1234, c_depth = 4, a_depth = 6, m_depth = 1, v_q = 3;
static const char *p_name = "pname", *v_name = "vname";
static const short v_shorts[] = { 1, 2, 3 }, *p_shorts = v_shorts;
SPOOR_TRACEPOINT(n, e, TP_PROTO(int depth), TP_ARGS(depth), TP_FIELDS(
	spoor_int(int, depth, v_depth), spoor_hex(int, c, c_depth), spoor_string(name, p_name),
	spoor_string(v_name, v_name), spoor_array(short, shorts, v_shorts, 2), spoor_pointer(p, &a_depth),
	spoor_sequence(short, q, p_shorts, v_q), spoor_sequence(short, c_q, p_shorts, m_depth),
	spoor_text(text, p_name, c_depth), spoor_enum(int, v_depth, v_depth, spoor_label("most", 1234))))
DECLARE_TRACE(both, TP_PROTO(int depth, int v_depth, int c_depth), TP_ARGS(depth, v_depth, c_depth));
DEFINE_TRACE(both);
int main(void)
{
	spoor_trace(n, e, 7);
	trace_both(1, 2, 3);
	return 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang -O0", "g++", "clang++"])
def test_fields_of_variables_of_any_name(build, tmp_path, compiler):
    """What the macros' own are called is not a name that a program's have."""
    (tmp_path / "globals.c").write_text(GLOBALS)
    program = tracing.build_program(tmp_path / "globals", tmp_path / "globals.c", compiler=compiler)
    _, (trace,) = tracing.traced(build, tmp_path / "out", program)
    found, = values(trace, "n:e")
    assert found.pop("p")
    assert found == dict(depth=1234, c=4, name="pname", v_name="vname", shorts=[1, 2], q=[1, 2, 3], c_q=[1],
                         text=b"pnam", v_depth=1234)
    assert values(trace, "trace:both") == [dict(depth=1, v_depth=2, c_depth=3)]


def test_inline_functions_and_loops(trace):
    assert len(values(trace, "types:none")) == 9
    assert [v["n"] for v in values(trace, "marker:inlined")] == list(range(8))


def test_the_first_form(trace):
    found = values(trace, "trace:subsys_eventname")
    assert [v["firstarg"] for v in found] == [1, 1, 2]
    c, = of(trace, "trace:subsys_eventname")
    assert [(f.name, f.type, f.bytes) for f in c.fields] == [("firstarg", arenas.INT, 4), ("p", arenas.POINTER, 8)]
    assert len({v["p"] for v in found}) == 1 and found[0]["p"]


def test_markers(trace):
    assert values(trace, "marker:hinted") == [dict(size=4, port=80, ratio=0.5, who="ab", c=b"x", x=255, plain=3)]
    assert values(trace, "marker:widened") == [dict(u=4000000000, x=0xdeadbeef, hh=200, d=-3)]
    assert values(trace, "marker:numbered") == [{}]  # its format is not understood: it is not silent for that
    sizes = {f.name: f.bytes for f in of(trace, "marker:hinted")[0].fields}
    assert sizes["size"] == 1 and sizes["port"] == 2
    # Markers of one name and several formats are several classes.
    formats = {c.format for c in of(trace, "marker:subsystem_event")}
    assert formats == {"myint %d mystring %s", "other %d"}
    assert [v for v in values(trace, "marker:subsystem_event") if "myint" in v] == [
        dict(myint=42, mystring="forty-two"), dict(myint=43, mystring="probed"), dict(myint=45, mystring="not probed")]


def test_logs(trace):
    log, = [c for c in trace.classes.values() if c.name.startswith("log:")]
    assert log.name.endswith(f"ust_types.c:{log.line}") and log.format == "%d%% of %s"
    assert [list(e.values.values()) for e in trace.events if e.name == log.name] == [[99, "all"]]


OTHERS_OF_PRINTF = """
#include <errno.h>
#include <stdio.h>
#include <wchar.h>
#include <spoor/marker.h>
static void probe(void *data, void *call_data, const char *format, va_list *args)
{
	(void)data;
	(void)call_data;
	vprintf(format, *args);
	errno = EBUSY;
}
static const char *name(void) { errno = ENOENT; return "none"; }
int main(void)
{
	int n;

	marker_probe_register("probed", NULL, probe, NULL);
	marker_probe_register("probed", "errno %m, n %d: %m\\n", probe, &n);
	errno = EPERM;
	trace_mark(probed, "errno %m, n %d: %m\\n", errno);
	trace_mark(wide, "was %d, %lc last %lc", errno, (wint_t)0x20ac, (wint_t)0x1f600);
	spoor_log("cannot open %s: %m", name());
	return 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang -O0", "g++"])
def test_errno_and_wide_characters(build, spoor, tmp_path, compiler):
    """errno is what printf would have found, also after probes, of which none changes it for others."""
    (tmp_path / "others.c").write_text(OTHERS_OF_PRINTF)
    program = tracing.build_program(tmp_path / "others", tmp_path / "others.c", compiler=compiler)
    run, (trace,) = tracing.traced(build, tmp_path / "out", program)
    assert run.stdout == "errno Operation not permitted, n 1: Operation not permitted\n" * 2
    assert [e.values for e in trace.events] == [dict(errno=1, n=1, errno_3=1), dict(was=1, arg2=0x20ac, last=0x1f600),
                                                dict(open="none", errno=2)]
    spoor("ust", "run", "-e", "*:wide", "-e", "log:*", "-o", "t.spoor", "--", program)
    wide, log = spoor("report", "--events", "t.spoor").stdout.splitlines()[:2]
    assert wide.endswith("marker:wide was=1 arg2=0x20ac last=0x1f600") and log.endswith(' open="none" errno=2')
    told = subprocess.run(["babeltrace2", tmp_path / "t.spoor"], capture_output=True, text=True, check=True).stdout
    assert 'open = "none", errno = 2' in told


def test_places(trace):
    """gcc takes a statement's first line, clang its last."""
    source = (tracing.DATA / "ust_types.c").read_text().splitlines()
    c, = of(trace, "marker:hinted")
    assert c.file.endswith("ust_types.c") and "hinted" in "".join(source[c.line - 2:c.line])
    c, = of(trace, "types:integers")
    assert "spoor_trace(types, integers" in source[c.line - 1]


def test_events_by_name(build, tmp_path):
    program = tracing.build_program(tmp_path / "types", "ust_types.c")
    for wanted, names in (("types:*", {"types:integers", "types:others", "types:none", "types:nothing"}),
                          ("*:none,marker:h?nted", {"types:none", "marker:hinted"}), ("no*", set())):
        _, (trace,) = tracing.traced(build, tmp_path / wanted.replace("*", "x"), program, SPOOR_UST_EVENTS=wanted)
        assert {e.name for e in trace.events} == names


def test_contexts(build, tmp_path):
    program = tracing.build_program(tmp_path / "types", "ust_types.c")
    run, (trace,) = tracing.traced(build, tmp_path / "out", program, SPOOR_UST_CONTEXT="*")
    assert run.stdout == PROBED
    for e in trace.events:
        assert e.values["vpid"] == trace.pid and e.values["vtid"] == e.tid == trace.pid
        assert e.values["callstack"][0] == e.values["ip"]
        assert e.values["procname"].rstrip(b"\0") == b"types" and e.values["cpu"] < 4096 and e.values["ip"]
    assert [v["a"] for v in values(trace, "types:integers")] == [-1]
    assert all(f.flags & arenas.CONTEXT for f in of(trace, "types:none")[0].fields)


def test_call_stacks(build, tmp_path):
    """By frame pointers: as addr2line names them. Without them there is the site, and that the walk did not get far."""
    source = tmp_path / "chain.c"
    source.write_text("""
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(chain, end, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
__attribute__((noinline)) int inner(int n) { spoor_trace(chain, end, n); return n + 1; }
__attribute__((noinline)) int middle(int n) { return inner(n) + 1; }
__attribute__((noinline)) int outer(int n) { return middle(n) + 1; }
int main(void) { return outer(1) != 4; }
""")
    for flags, least in ((["-fno-omit-frame-pointer", "-no-pie", "-fno-pie"], 5), (["-fno-omit-frame-pointer"], 5),
                         (["-fomit-frame-pointer"], 1)):
        program = tracing.build_program(tmp_path / "chain", source, *flags)
        _, (trace,) = tracing.traced(build, tmp_path / "".join(flags), program, SPOOR_UST_CONTEXT="callstack",
                                     SPOOR_UST_STACK="all,64")
        found, = values(trace, "chain:end")
        assert found["n"] == 1 and len(found["callstack"]) >= least
        own, = [o for o in trace.objects if o.path == str(program)]
        addresses = [a - own.bias for a in found["callstack"] if own.start <= a < own.end]
        names = subprocess.run(["addr2line", "-f", "-e", program, *[hex(a - 1) for a in addresses]],
                               capture_output=True, text=True, check=True).stdout.split("\n")[0::2]
        if least > 1:
            assert names[:4] == ["inner", "middle", "outer", "main"]
        else:
            assert names[0] in ("inner", "spoor_emit_chain__end")


def test_without_the_library_nothing_is_there(build, tmp_path):
    program = tracing.build_program(tmp_path / "types", "ust_types.c")
    run, traces = tracing.traced(build, tmp_path / "out", program, preload=False)
    assert run.returncode == 0 and run.stdout == "-38\n" * 8 and not traces


def test_disabled_nothing_is_compiled(tmp_path):
    program = tracing.build_program(tmp_path / "types", "ust_types.c", "-DSPOOR_DISABLE")
    sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    assert "spoor" not in sections
    assert subprocess.run([program], capture_output=True, text=True, timeout=10).stdout == "-38\n" * 8


THREAD_INIT = """
#include <spoor/tracepoint.h>
int main(int argc, char **argv)
{
	void (*volatile init)(void) = spoor_thread_init;

	(void)argv;
	spoor_thread_init();
	if (argc > 0 && spoor_thread_init) /* as was to be asked once */
		spoor_thread_init();
	if (init)
		init();
	return 0;
}
"""


LIBRARY = """
#include <stdio.h>
void spoor_thread_init(void);
void spoor_thread_init(void) { puts("called"); }
"""


@pytest.mark.parametrize("way", ["", "-O0", "-static", "-flto", "-fPIC", "-DSPOOR_DISABLE", "-DSPOOR_DISABLE -O0"])
@pytest.mark.parametrize("compiler", ["gcc -pedantic", "g++ -pedantic", "clang -pedantic", "clang++ -pedantic"])
def test_storage_of_threads_without_the_library(tmp_path, compiler, way):
    """The call is nothing without the library, and the library's where there is one."""
    (tmp_path / "init.c").write_text(THREAD_INIT)
    (tmp_path / "library.c").write_text(LIBRARY)
    library = tracing.build_program(tmp_path / "library.so", tmp_path / "library.c", "-shared", "-fPIC")
    made = tracing.build_program(tmp_path / "library.o", tmp_path / "library.c", "-c")
    for more, preload, calls in [([], "", 0), ([made], "", 3), *([] if way == "-static" else [([], library, 3)])]:
        program = tracing.build_program(tmp_path / "init", tmp_path / "init.c", *way.split(), *more, compiler=compiler)
        run = subprocess.run([program], env=os.environ | {"LD_PRELOAD": str(preload)}, capture_output=True, text=True,
                             timeout=10)
        assert run.returncode == 0 and run.stdout == "called\n" * calls


@pytest.mark.parametrize("expression, kept", [
    ("n < 10", range(10)), ("n == 3 || n == 0x10", [3, 16]), ("!(n >= 2)", [0, 1]), ("n", range(1, 101)),
    ("n > 97 && what == \"count\"", [98, 99, 100]), ("what == \"c*t\" && n < 2", [0, 1]), ("what != \"c?unt\"", []),
    ("what < \"d\" && n==1", [1]), ("n < 1.5", [0, 1]), ("absent == 1", []), ("absent != 1", []), ("what == 3", []),
    ("!absent && n <= 0", [0]), ("n < -1", []), ("vpid > 1 && n < 2", [0, 1]),
])
def test_filters(build, tmp_path, expression, kept):
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c")
    context = {"SPOOR_UST_CONTEXT": "vpid"} if "vpid" in expression else {}
    _, (trace,) = tracing.traced(build, tmp_path / "out", program, "count", 101, SPOOR_UST_FILTER=expression, **context)
    assert [e.values["n"] for e in trace.events] == list(kept)


LABELS = """
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(x, y, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(
	spoor_enum(unsigned char, a, (unsigned char)n, spoor_label("m1", -1), spoor_label("300", 300)),
	spoor_enum(unsigned, b, (unsigned)n, spoor_label("m1", -1), spoor_range("low", 0, 50)),
	spoor_enum(signed char, c, (signed char)n, spoor_label("m1", 255)),
	spoor_enum(int, d, n, spoor_label("m1", 0xffffffffu), spoor_range("none", 9, 8))))
SPOOR_TRACEPOINT(x, z, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
int main(void)
{
	int i;

	for (i = -1; i < 46; i++) {
		spoor_trace(x, y, i);
		spoor_trace(x, z, i);
	}
	return 0;
}
"""


def test_labels_that_their_type_cannot_hold(build, spoor, tmp_path):
    """They are of what a cast makes of them, and of nothing if that is no value; no event is lost for it."""
    source = tmp_path / "labels.c"
    source.write_text(LABELS)
    program = tracing.build_program(tmp_path / "labels", source)
    assert "94 events of 1 program, 0 lost" in spoor("ust", "run", "-o", "t.spoor", "--", program).stderr
    told = [json.loads(line) for line in spoor("report", "--format", "json", "t.spoor").stdout.splitlines()]
    assert not told[-1]["damages"]
    assert [e["fields"]["n"] for e in told if e.get("event") == "x:z"] == list(range(-1, 46))
    fields = [e["fields"] for e in told if e.get("event") == "x:y"]
    assert [{k: v["name"] for k, v in f.items()} for f in (fields[0], fields[10], fields[45])] == [
        dict(a="m1", b="m1", c="m1", d="m1"), dict(a=None, b="low", c=None, d=None),
        dict(a="300", b="low", c=None, d=None)]
    _, (trace,) = tracing.traced(build, tmp_path / "out", program, SPOOR_UST_FILTER=
                                 'a == "m1" && b == "m1" && c == "m1" && d == "m1" || a == "300" || d == "none"')
    assert [v["d"] for v in values(trace, "x:y")] == [-1, 44]


SPOKEN = r"""
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(x, y, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_enum(int, n, n, spoor_label("q\"uo\\te", 0),
	spoor_label("\xc3\xa9 %s", 1), spoor_label("\\n", 2), spoor_label("a\n\x7f\xc2\x9b\xff", 3))))

int main(void)
{
	for (int i = 0; i < 4; i++)
		spoor_trace(x, y, i);
	return 0;
}
"""


def test_labels_of_any_characters(spoor, tmp_path):
    """Readers of CTF have them as they are, but for what would be none, or be obeyed."""
    source = tmp_path / "spoken.c"
    source.write_text(SPOKEN)
    spoor("ust", "run", "-o", "t.spoor", "--", tracing.build_program(tmp_path / "spoken", source))
    labels = [str(*m.event.payload_field["n"].labels) for m in bt2.TraceCollectionMessageIterator(
        str(tmp_path / "t.spoor")) if type(m) is bt2._EventMessageConst and m.event.name == "x:y"]
    assert labels == ["q\"uo\\te", "\u00e9 %s", "\\n", "a????"]
    told = [json.loads(line) for line in spoor("report", "--format", "json", "t.spoor").stdout.splitlines()]
    assert [e["fields"]["n"]["name"] for e in told[:4]] == [*labels[:3], "a\n\x7f\x9b\udcff"]


def test_descriptions_that_are_too_large(build, spoor, tmp_path):
    """Of 64 kB there is room for one; what is larger is lost by the event, also where a filter asks for its fields."""
    def labelled(name, size):
        labels = ", ".join(f'spoor_label("{i:0{size}}", {i})' for i in range(32))
        return (f"SPOOR_TRACEPOINT(d, {name}, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(\n"
                f"\tspoor_enum(int, n, n, {labels})))\n")
    marks = "\n".join(f'trace_mark({name}, "{"x" * size} n %d", i);' for name, size in (
        ("long", 5003), ("longer", 60013), ("longest", 70001)))
    source = tmp_path / "large.c"
    source.write_text("#include <spoor/marker.h>\n#include <spoor/tracepoint.h>\n" + labelled("large", 1499) +
                      labelled("larger", 2503) + f"""
int main(void)
{{
	int i;

	for (i = 0; i < 11; i++) {{
		spoor_trace(d, large, i);
		spoor_trace(d, larger, i);
		{marks}
	}}
	return 0;
}}
""")
    program = tracing.build_program(tmp_path / "large", source, "-Wno-overflow")
    assert "33 events of 1 program, 22 lost" in spoor("ust", "run", "-o", "t.spoor", "--", program).stderr
    report = [json.loads(line) for line in spoor("report", "--format", "json", "t.spoor").stdout.splitlines()]
    assert not report[-1]["damages"]
    assert [(e["event"], e["fields"]["n"]) for e in report[:-1] if e.get("fields", {}).get("n") in (
        7, {"value": 7, "name": f"{7:01499}"})] == [("d:large", {"value": 7, "name": f"{7:01499}"}),
                                                    ("marker:long", 7), ("marker:longer", 7)]
    run = spoor("ust", "run", "--filter", "n == 5", "-o", "u.spoor", "--", program)
    assert "3 events of 1 program, 22 lost" in run.stderr
    assert {line.split()[0] for line in spoor("ust", "list", program).stdout.splitlines()} == {
        "d:large", "d:larger", "marker:long", "marker:longer", "marker:longest"}


@pytest.mark.parametrize("expression", ["n ==", "(n", "n = 3", "\"unended", "n == 3 x", "&& n", "9" * 30, "(" * 500,
                                        "n ||" * 200 + "n"])
def test_wrong_filters_record_nothing(build, tmp_path, expression):
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c")
    done, traces = tracing.traced(build, tmp_path / "out", program, "count", 101, SPOOR_UST_FILTER=expression)
    assert done.returncode == 0 and not [e for t in traces for e in t.events]


def test_filters_of_the_shared_packet(build, tmp_path):
    program = tracing.build_program(tmp_path / "actor", "ust_actor.c")
    done, (trace,) = tracing.traced(build, tmp_path / "out", program, "crowd", 503, SPOOR_UST_FILTER="n < 500")
    assert sorted(e.values["n"] for e in trace.events) == list(range(500)) and not trace.lost()
