# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor daemon and spoor ust on real programs: found, switched, recorded."""
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import tracing
from daemons import PATIENCE, Daemon, behind, counters, daemon, in_a_row, listed, ticker  # noqa: F401
from fakeprogram import COMMAND, message
from processes import wait_for


def test_from_the_start(daemon, ticker):
    """A session that is there before the program: its first event is in."""
    daemon.ust("start", "-o", "t.spoor")
    p = daemon.program(ticker, 3, 1009)
    p.wait(20)
    assert "0 lost" in daemon.ust("end").stdout
    ticks = daemon.ticks()
    assert sorted(ticks) == [(p.pid, i) for i in range(3)]
    assert all(n == list(range(1009)) for n in ticks.values())


def test_start_up(daemon, ticker):
    """A session that records a program from its start, and a daemon that does not want it, add little to it."""
    tracing.check_start_up(ticker, dict(os.environ), {"no session": daemon.environment()})
    daemon.ust("start", "-o", "t.spoor")
    tracing.check_start_up(ticker, dict(os.environ), {"recorded": daemon.environment()})
    daemon.ust("end")
    assert len(daemon.ticks()) == tracing.STARTS


def test_list_of_all_programs(daemon, ticker):
    programs = [daemon.program(ticker, 1, 0, 500) for _ in range(2)]
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick", programs[0].pid)
    said = subprocess.run([daemon.build / "spoor", "ust", "list", "-a"], capture_output=True, text=True, check=True)
    sites = [line.split() for line in said.stdout.splitlines()]
    for p, state in zip(programs, ("on", "off")):
        (tick,) = [words for words in sites if words[0] == str(p.pid) and words[1].endswith("zoo:tick")]
        (rare,) = [words for words in sites if words[0] == str(p.pid) and words[1].endswith("zoo:rare")]
        assert tick[2] == state and rare[2] == "off"


def let_it_tick(counter, times):
    """So often from now on, whether that is recorded or not: a ticker of one thread, which has this counter."""
    end = behind(counter)[0] + times
    wait_for(lambda: behind(counter)[0] >= end)


def test_running_program_is_found(daemon, ticker):
    """A program without a session, and so without a thread, is switched on and off while it runs."""
    counter = counters(daemon.cwd / "counter", 1)
    p = daemon.program(ticker, 1, 0, 500, TICKER_COUNTER=counter)
    assert len(os.listdir(f"/proc/{p.pid}/task")) == 1
    assert listed(daemon, p.pid)["zoo:tick"]["state"] == "off"
    said = daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick", p.pid).stdout
    assert "1 program" in said
    sites = listed(daemon, p.pid)
    assert sites["zoo:tick"]["state"] == "on" and sites["zoo:rare"]["state"] == "off"
    assert sites["zoo:tick"]["how"] == "patched" and sites["zoo:tick"]["fields"] == "s32 thread, u64 n"
    assert sites["zoo:tick"]["file"].endswith("ust_ticker.c") and sites["zoo:rare"]["level"] == "debug"
    let_it_tick(counter, 100)
    assert "1 program, 1 site" in daemon.ust("enable", "zoo:rare", p.pid).stdout
    daemon.ust("disable", "zoo:tick", "-a")
    sites = listed(daemon, p.pid)
    assert sites["zoo:tick"]["state"] == "off" and sites["zoo:rare"]["state"] == "on"
    let_it_tick(counter, 100)
    assert f"{p.pid} ticker" in daemon.ust("status").stdout
    daemon.ust("stop", p.pid)
    assert listed(daemon, p.pid)["zoo:rare"]["state"] == "off"
    daemon.ust("end")
    events = daemon.events()
    ticks = [e["fields"]["n"] for e in events if e["event"] == "zoo:tick"]
    rare = [e["fields"]["n"] for e in events if e["event"] == "zoo:rare"]
    assert len(ticks) > 50 and in_a_row(ticks)
    assert len(rare) > 5 and rare == list(range(rare[0], rare[-1] + 1, 10))
    assert p.poll() is None


TITLED = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n), spoor_int(int, thread, 0)))
extern char **environ;

int main(int argc, char **argv)
{
	char **last = environ, *end;

	(void)argc;
	while (last[1])
		last++;
	end = *last + strlen(*last) + 1;
	environ = NULL;
	memset(argv[0], 0, (size_t)(end - argv[0]));
	strcpy(argv[0], "title");
	puts("ready");
	fflush(stdout);
	if (read(0, &end, 1) != 1)
		return 1;
	spoor_trace(zoo, tick, 1);
	return 0;
}
"""


def test_title_over_its_environment(daemon, tmp_path):
    """As servers write with setproctitle(): which recorder it obeys it knows itself."""
    (tmp_path / "titled.c").write_text(TITLED)
    p = daemon.program(tracing.build_program(tmp_path / "titled", tmp_path / "titled.c"), stdin=subprocess.PIPE)
    assert daemon.ust("start", "-o", "t.spoor", p.pid).stdout == "1 program, 1 site\n"
    p.communicate(b"x", timeout=30)
    daemon.ust("end")
    assert daemon.ticks() == {(p.pid, 0): [1]}


@pytest.mark.parametrize("name", ["link/ust.sock", "/./ust.sock", "d/../ust.sock", "mounted", "elsewhere/ust.sock"])
def test_other_names_of_its_socket(daemon, ticker, tmp_path, name):
    """Programs may know it through links and mounts; who is told of another one obeys that."""
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "elsewhere").mkdir()
    mounted = ["unshare", "--mount", "sh", "-c", f'mount --bind {tmp_path} /mnt && exec "$@"', "-"]
    socket_path = "/mnt/ust.sock" if name == "mounted" else f"{tmp_path}/{name}"
    counter = counters(tmp_path / "counter", 1)
    p = daemon.program(*(mounted if name == "mounted" else []), ticker, 1, 0, 1000, SPOOR_UST_SOCKET=socket_path,
                       TICKER_COUNTER=counter)
    run = daemon.ust("start", "-o", "t.spoor", p.pid, check=False)
    let_it_tick(counter, 2)  # the second one has begun since
    p.kill()
    p.wait()
    if name.startswith("elsewhere"):
        assert run.returncode == 1 and "obeys another recorder" in run.stderr
    else:
        assert run.stdout == "1 program, 2 sites\n", run.stderr
        assert daemon.ust("end").returncode == 0 and daemon.ticks()[p.pid, 0]


LEADERLESS = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n), spoor_int(int, thread, 0)))

static void *run(void *arg)
{
	char c;

	for (int n = 0; read(0, &c, 1) == 1; n++)
		spoor_trace(zoo, tick, n);
	return arg;
}

int main(void)
{
	pthread_t t;

	pthread_create(&t, NULL, run, NULL);
	puts("ready");
	fflush(stdout);
	pthread_exit(NULL);
}
"""


@pytest.mark.parametrize("again", [False, True], ids=["daemon", "next daemon"])
def test_main_has_ended_and_threads_go_on(daemon, tmp_path, again):
    """Such a process is a zombie to who looks at its first thread alone."""
    (tmp_path / "leaderless.c").write_text(LEADERLESS)
    program = tracing.build_program(tmp_path / "leaderless", tmp_path / "leaderless.c", "-pthread")
    p = daemon.program(program, stdin=subprocess.PIPE)
    wait_for(lambda: Path(f"/proc/{p.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    assert listed(daemon, p.pid)["zoo:tick"]["state"] == "off"
    assert daemon.ust("start", "-o", "t.spoor", p.pid).stdout == "1 program, 1 site\n"
    p.stdin.write(b"xxx")
    p.stdin.flush()
    wait_for(lambda: "3 events" in daemon.ust("status").stdout)
    if again:
        daemon.kill(signal.SIGKILL)
        daemon.start()
        wait_for(lambda: f"{p.pid} leaderless" in daemon.ust("status").stdout)
    p.communicate(b"xx", timeout=30)
    daemon.ust("end")
    assert daemon.ticks() == {(p.pid, 0): list(range(5))}


WANDERER = r"""
#include <stdio.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n), spoor_int(int, thread, 0)))

int main(void)
{
	char c;

	if (chdir("/"))
		return 1;
	puts("ready");
	fflush(stdout);
	for (int i = 0; read(0, &c, 1) == 1; i++)
		spoor_trace(zoo, tick, i);
	return 0;
}
"""


def test_socket_by_a_relative_name(build, tmp_path):
    """Both are told of it so where they begin; the program goes elsewhere, and the next daemon has it, too."""
    (tmp_path / "wanderer.c").write_text(WANDERER)
    program = tracing.build_program(tmp_path / "wanderer", tmp_path / "wanderer.c")
    d = Daemon(build, tmp_path)
    d.socket = Path("./ust.sock")
    p = d.start().program(program, stdin=subprocess.PIPE, SPOOR_UST_SOCKET="./ust.sock")
    try:
        d.ust("start", "-o", "t.spoor", p.pid)
        os.write(p.stdin.fileno(), b"x")
        d.kill()
        d.start()
        wait_for(lambda: f"{p.pid} wanderer" in d.ust("status").stdout)
        p.communicate(b"x", timeout=30)
        assert d.ust("end").stdout.startswith("2 events of 1 program, 0 lost")
    finally:
        p.kill()
        d.ust("end", check=False)
        d.kill(signal.SIGTERM)


def test_late_answer_is_no_end(daemon, ticker):
    """The daemon was too busy to answer when the program started: it is found later."""
    daemon.process.send_signal(signal.SIGSTOP)
    counter = counters(daemon.cwd / "counter", 1)
    p = daemon.program(ticker, 1, 0, 500, TICKER_COUNTER=counter)
    daemon.process.send_signal(signal.SIGCONT)
    time.sleep(0.2)
    assert "1 program" in daemon.ust("start", "-o", "t.spoor", p.pid).stdout
    let_it_tick(counter, 100)
    daemon.ust("end")
    assert len(daemon.ticks()[p.pid, 0]) > 50


def test_session_for_all_starts_whoever_is_silent(daemon, ticker):
    """Programs that are stopped do not keep a session for all from starting; they are named, and recorded later."""
    stopped = daemon.program(ticker, 1, 0, 500)
    stopped.send_signal(signal.SIGSTOP)
    said = daemon.ust("start", "-o", "t.spoor").stdout
    assert f"{stopped.pid}: it does not answer" in said and "0 programs, 0 sites; 1 other did not do it" in said, said
    said = daemon.ust("enable", "-a", "zoo:rare").stdout
    assert f"{stopped.pid}: it does not answer" in said, said
    run = daemon.ust("start", "-s", "one", "-o", "one.spoor", stopped.pid, check=False)
    assert run.returncode == 1 and "no process did it; the session is there" in run.stderr # it alone was asked
    run = daemon.ust("enable", "-s", "one", "zoo:tick", stopped.pid, check=False)
    assert run.returncode == 1 and "no process did it; rules stand all the same" in run.stderr, run.stderr
    daemon.ust("end", "-s", "one")
    new = daemon.program(ticker, 1, 101)
    new.wait(20)
    stopped.send_signal(signal.SIGCONT)
    wait_for(lambda: int(re.search(r"(\d+) events? of", daemon.ust("status").stdout)[1]) > 200) # 112 of the other one
    daemon.finish(stopped)
    daemon.ust("end")
    ticks = daemon.ticks()
    assert ticks[new.pid, 0] == list(range(101)) and in_a_row(ticks[stopped.pid, 0])


def test_all_are_counted(daemon, ticker):
    """Who runs already, for each of two that ask at the same time; and each of those that are silent is named."""
    running = [daemon.program(ticker, 1, 0, 100_000).pid for _ in range(80)]
    asking = [subprocess.Popen([daemon.build / "spoor", "ust", *words, "--socket", daemon.socket], cwd=daemon.cwd,
                               stdout=subprocess.PIPE, text=True)
              for words in (("start", "-o", "t.spoor"), ("start", "-s", "two", "-o", "two.spoor"))]
    for a in asking:
        assert a.communicate(timeout=PATIENCE)[0] == "80 programs, 160 sites\n"
    for p in running:
        os.kill(p, signal.SIGSTOP)
    daemon.kill(signal.SIGTERM)
    daemon.start()
    said = daemon.ust("start", "-s", "three", "-o", "three.spoor").stdout
    assert [p for p in running if f"{p}: it does not answer" not in said] == [] and "; 80 others did not" in said, said
    for p in running:
        os.kill(p, signal.SIGCONT)


def test_more_threads_than_packets(daemon, ticker):
    """Their events are there, and status says how many were dearer."""
    daemon.ust("start", "-o", "t.spoor", "--buffers", "64k")
    p = daemon.program(ticker, 64, 0, 2000)
    wait_for(lambda: re.search(rf"^{p.pid} ticker: .*, [1-9]\d* in shared packets", daemon.ust("status").stdout, re.M))


def test_first_event_in_a_handler(daemon, tmp_path):
    """Of a program that has used up the keys whose values a thread has room for."""
    program = tracing.build_program(tmp_path / "keys", "ust_keys.c")
    p = daemon.program(program, stdin=subprocess.PIPE)
    assert daemon.ust("start", "-o", "t.spoor", p.pid).stdout == "1 program, 1 site\n"
    assert p.communicate(b"g", timeout=20)[0] == b"nothing allocated\n"
    daemon.ust("end")
    assert daemon.ticks() == {(p.pid, 0): [0]}


def test_a_name_that_cannot_be_kept(daemon):
    """What the next daemon will not know of is said."""
    daemon.ust("start", "-o", os.fsdecode(b"t\xff.spoor"))
    daemon.ust("end")
    daemon.kill(signal.SIGTERM)
    assert "session 'default' does not survive this daemon" in daemon.process.stderr.read()


def test_names_that_no_site_has(daemon, ticker):
    """Who asks for what is not there is told where he sees what is; not who switches it off."""
    p = daemon.program(ticker, 1, 0, 500)
    none = "1 program, 0 sites: 'spoor ust list' shows which there are\n"
    assert daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tock", p.pid).stdout == none
    assert daemon.ust("enable", "zoo:rear", p.pid).stdout == none
    assert daemon.ust("disable", "zoo:tock", p.pid).stdout == "1 program, 0 sites\n"
    assert daemon.ust("enable", "zoo:tick", p.pid).stdout == "1 program, 1 site\n"
    assert daemon.ust("stop", p.pid).stdout == "1 program, 0 sites\n"


def test_levels_and_exclusions(daemon, ticker):
    daemon.ust("start", "-o", "t.spoor", "-l", "info")
    daemon.program(ticker, 1, 100).wait(20)
    daemon.ust("end")
    assert {e["event"] for e in daemon.events()} == {"zoo:tick"}
    daemon.ust("start", "-o", "u.spoor", "-e", "zoo:*", "-e", "!zoo:t*")
    daemon.program(ticker, 1, 100).wait(20)
    daemon.ust("end")
    assert {e["event"] for e in daemon.events("u.spoor")} == {"zoo:rare"}


@pytest.mark.parametrize("words", [[("start", "-o", "t.spoor", "-e", "!zoo:t*")],
                                   [("start", "-o", "t.spoor", "--", "!zoo:t*")],
                                   [("create", "-o", "t.spoor", "-e", "!zoo:t*"), ("start",)],
                                   [("create", "-o", "t.spoor"), ("enable", "-a", "-e", "!zoo:t*"), ("start",)],
                                   [("create", "-o", "t.spoor"), ("start", "-e", "!zoo:t*")],
                                   [("start", "-o", "t.spoor", *["-e", "!no:thing"] * 63, "-e", "!zoo:t*")]])
def test_all_but(daemon, ticker, words):
    """What a session is told first is not to be: then all else is."""
    for line in words:
        daemon.ust(*line)
    daemon.program(ticker, 1, 100).wait(20)
    daemon.ust("end")
    assert {e["event"] for e in daemon.events()} == {"zoo:rare"}


def test_too_many_rules_make_no_session(daemon, ticker):
    programs = [daemon.program(ticker, 1, 0, 500).pid for _ in range(17)]
    events = [word for i in range(64) for word in ("-e", f"zoo:t*{i}")]
    for verb in ("create", "start"):
        run = daemon.ust(verb, "-o", "t.spoor", *events, *programs, check=False)
        assert run.returncode == 1 and "more than 1024 rules" in run.stderr and run.stderr.count("\n") == 1
        assert not (daemon.cwd / "t.spoor").exists()
    daemon.ust("start", "-o", "t.spoor", *events, *programs[1:])


def test_children(daemon, ticker):
    """A child by fork is recorded on its own from its first event, with nothing preloaded for it."""
    daemon.ust("start", "-o", "t.spoor")
    p = daemon.program(ticker, 2, 1009, 0, "fork")
    p.wait(20)
    daemon.ust("end")
    ticks = daemon.ticks()
    assert sorted(t for _, t in ticks) == [0, 1, 100, 101]
    assert len({pid for pid, _ in ticks}) == 2
    assert all(n == list(range(1009)) for n in ticks.values())


def test_wrong_commands(daemon, ticker):
    for words, says in [(("enable", "x:y", "-a"), "no session"), (("start",), "-o NAME"), (("end",), "no session"),
                        (("start", "-o", "t.spoor", "--mode", "quick"), "discard"), (("stop", "-a"), "no session")]:
        run = daemon.ust(*words, check=False)
        assert run.returncode in (1, 2) and says in run.stderr, (words, run.stderr)
    daemon.ust("start", "-o", "t.spoor")
    again = daemon.ust("start", "-o", "u.spoor", check=False)
    assert again.returncode == 1 and "exists already" in again.stderr
    other = daemon.ust("start", "-s", "other", "-o", "t.spoor", check=False)
    assert other.returncode == 1 and "exists already" in other.stderr
    assert daemon.ust("end").returncode == 0
    daemon.kill(signal.SIGTERM)
    run = daemon.ust("status", check=False)
    assert run.returncode == 1 and "no daemon" in run.stderr
    daemon.start()


def test_second_daemon_is_refused(daemon, build, tmp_path):
    """At once: the keeper, which a second one would wait for, is not asked."""
    run = subprocess.run(["strace", "-f", "-e", "trace=connect", "-o", tmp_path / "log", build / "spoor", "daemon",
                          "--socket", daemon.socket], capture_output=True, text=True)
    assert run.returncode == 1 and "another recorder" in run.stderr
    assert ".keeper" not in (tmp_path / "log").read_text()
    daemon.ust("status")
    (tmp_path / "file").write_text("kept")
    run = subprocess.run([build / "spoor", "daemon", "--socket", tmp_path / "file"], capture_output=True, text=True)
    assert run.returncode == 1 and "not a socket" in run.stderr and (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("name", ["../x", ".x", "a b", "a/b", "x" * 65, "new\nline", "\x1b[31m"])
def test_names_of_sessions(daemon, name):
    run = daemon.ust("start", "-s", name, "-o", "t.spoor", check=False)
    assert run.returncode == 2 and "no name of a session" in run.stderr and run.stderr.count("\n") == 1
    assert daemon.ust("status").stdout == "no session\n"


def test_client_that_stops_reading(daemon, ticker):
    """The daemon does not wait for it, and others are served."""
    daemon.ust("start", "-o", "t.spoor")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(str(daemon.socket))
    s.setblocking(False)
    try:
        for _ in range(5000):
            s.send(message(COMMAND, b"status"))
    except BlockingIOError:
        pass
    daemon.program(ticker, 1, 500).wait(20)
    assert "session default" in daemon.ust("status").stdout
    daemon.ust("end")
    assert len(daemon.ticks()) == 1


def test_flight_recorder(daemon, ticker):
    """Overwriting: a snapshot has the last events, in a row, and the recording goes on."""
    daemon.ust("start", "-o", "t.spoor", "--mode", "overwrite", "--buffers", "256k")
    p = daemon.program(ticker, 1, 0, 10)
    time.sleep(1.5)
    assert daemon.ust("snapshot", "-o", "one.spoor").stdout == f"snapshot in {daemon.cwd}/one.spoor\n"
    time.sleep(0.3)
    daemon.ust("snapshot", "-o", "two.spoor")
    first, second = daemon.ticks("one.spoor")[p.pid, 0], daemon.ticks("two.spoor")[p.pid, 0]
    assert in_a_row(first) and in_a_row(second) and second[-1] > first[-1]
    taken = daemon.ust("snapshot", "-o", "two.spoor", check=False)
    assert taken.returncode == 1 and "exists already" in taken.stderr
    daemon.ust("end")
    last = daemon.ticks()[p.pid, 0]
    assert in_a_row(last) and last[-1] > second[-1]


def test_rotation_and_limit(daemon, ticker):
    daemon.ust("start", "-o", "t.spoor", "--max-size", "4M")
    for _ in range(10):  # of what one writes all but 4 MiB may be lost where the daemon gets no processor
        p = daemon.program(ticker, 2, 400000, 0)
        p.wait(30)
        wait_for(lambda: not daemon.lines(p.pid))
        if " segments dropped; " in daemon.ust("status").stdout:
            break
    else:
        pytest.fail("status has not told of dropped segments")
    said = daemon.ust("end").stdout
    size = sum(f.stat().st_size for f in (daemon.cwd / "t.spoor").rglob("*") if f.is_file())
    assert size <= 4 << 20
    for numbers in daemon.ticks().values():
        assert numbers == sorted(numbers)
    dropped = daemon.summary["dropped"]["segments"]
    told = int(re.search(r" lost, the oldest (\d+) segments dropped; ", said)[1])
    assert dropped > 0 and dropped - told in (0, 1), said  # the last words may need the room of one more


def test_many_programs(daemon, ticker):
    """A thousand at once, each on its own."""
    daemon.ust("start", "-o", "t.spoor", "--buffers", "64k")
    running = [subprocess.Popen([ticker, "1", "101", "5000"], env=daemon.environment(), stdout=subprocess.DEVNULL)
               for _ in range(1000)]
    for p in running:
        p.wait(60)
    assert ", 0 lost" in daemon.ust("end").stdout
    ticks = daemon.ticks()
    assert sorted(ticks) == sorted((p.pid, 0) for p in running)
    assert all(n == list(range(101)) for n in ticks.values())


LOADS = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
static void *load(void *plugin)
{
	for (;;)
		dlclose(dlopen(plugin, RTLD_NOW));
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	pthread_create(&thread, NULL, load, argv[argc - 1]);
	puts("ready");
	fflush(stdout);
	for (int n = 0;; n++) {
		spoor_trace(zoo, tick, n);
		usleep(10000);
	}
}
"""


def test_end_is_heard_while_objects_are_loaded(daemon, tmp_path):
    """By a program whose thread has the library's lock most of the time: it is called again, until it has read all."""
    (tmp_path / "loads.c").write_text(LOADS)
    program = tracing.build_program(tmp_path / "loads", tmp_path / "loads.c", "-ldl")
    p = daemon.program(program, tracing.build_program(tmp_path / "p.so", "ust_plugin.c", "-shared", "-fPIC"))
    for turn in range(40):
        daemon.ust("start", "-o", f"t{turn}.spoor", "--buffers", "256k")
        daemon.ust("end")
        wait_for(lambda: listed(daemon, p.pid)["zoo:tick"]["state"] == "off")
    for turn in range(20):
        script = f"{program} {tmp_path}/p.so >said{turn} & echo $!; until [ -s said{turn} ]; do sleep 0.1; done"
        run = subprocess.run([daemon.build / "spoor", "ust", "run", "-o", f"r{turn}.spoor", "--", "sh", "-c", script],
                             cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
        try:
            wait_for(lambda: listed(daemon, int(run.stdout))["zoo:tick"]["state"] == "off", 5)
        finally:
            os.kill(int(run.stdout), signal.SIGKILL)


def test_nobody_waits_for_a_session_that_is_over(daemon, ticker):
    """Threads that wait for room, as long as they may, hear no signal meanwhile."""
    p = daemon.program(ticker, 2, 0, 0)
    for turn in range(5):
        daemon.ust("start", "-o", f"t{turn}.spoor", "--buffers", "64k", "--mode", "block=60s")
        time.sleep(0.2)
        daemon.ust("end")
        wait_for(lambda: {site["state"] for site in listed(daemon, p.pid).values()} == {"off"})


@pytest.mark.parametrize("options", [[], ["--buffers", "64k"], ["--buffers", "64k", "--mode", "block"]], ids=" ".join)
def test_session_ends_under_load(daemon, ticker, options):
    """Sessions that come and go while threads run through the sites, or wait for room: the program does not notice."""
    p = daemon.program(ticker, 3, 0, 0)
    for turn in range(8):
        daemon.ust("start", "-o", f"t{turn}.spoor", *options)
        time.sleep(0.05)
        daemon.ust("end")
        assert p.poll() is None
        report = subprocess.run([daemon.build / "spoor", "report", f"t{turn}.spoor"], cwd=daemon.cwd, text=True,
                                capture_output=True)
        assert report.returncode == 0 and "zoo:tick" in report.stdout and "Damaged" not in report.stdout, report
