# SPDX-License-Identifier: GPL-2.0-or-later
"""More programs than a recorder may have descriptors for at first."""
import ctypes
import os
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest
import tracing
from daemons import daemon, keeper_pid, ticker  # noqa: F401
from processes import wait_for
from relaying import relay  # noqa: F401

CROWD = "ulimit -n > limit; for i in $(seq 60); do {} 1 100 5000 > /dev/null & done; wait"
LACKS = ("spoor daemon: what programs leave that end while no daemon is there is lost: no connection to a process that "
         "holds it: this recorder may open no more files (ulimit -n)\n")
AGAIN = "spoor daemon: there is a process again that holds what programs leave while no daemon is there; "


@pytest.mark.parametrize("verb", [["ust", "run"], ["record", "--ust", "-e", "getppid"]], ids=lambda v: v[0])
def test_soft_limit_is_no_limit(build, ticker, tmp_path, verb):  # noqa: F811
    """Programs beyond it are recorded like the others, and have the limit that they would have had."""
    run = subprocess.run(["prlimit", "--nofile=64:", build / "spoor", *verb, "-o", "t.spoor", "--", "sh", "-c",
                          CROWD.format(ticker)], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and "6600 " in run.stderr and "events of 60 programs, 0 lost" in run.stderr, run
    assert (tmp_path / "limit").read_text() == "64\n"


def test_hard_limit_is_told_of(build, ticker, tmp_path):  # noqa: F811
    command = f"for i in $(seq 60); do {ticker} 1 0 5000 > /dev/null & done; wait"
    run = subprocess.Popen(["prlimit", "--nofile=64:64", build / "spoor", "ust", "run", "-o", "t.spoor", "--", "sh",
                            "-c", command], cwd=tmp_path, stderr=open(tmp_path / "said", "w"), start_new_session=True)
    try:
        said = wait_for(lambda: [line for line in (tmp_path / "said").read_text().splitlines() if "no more" in line])
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait(60)
    assert said == ["spoor ust: this recorder may open no more files (ulimit -n): what programs write that come now is "
                    "lost, unless some end before them"]


def test_recover_of_many(spoor, build, ticker, tmp_path):  # noqa: F811
    """What a program has spilled stays open while it is read."""
    env = tracing.environment(build, tmp_path / "alone", SPOOR_UST_BUFFERS="64K", SPOOR_UST_MODE="block=10s")
    for _ in range(73):
        subprocess.run([ticker, "1", "4000"], env=env, check=True, stdout=subprocess.DEVNULL, timeout=60)
    assert len(list((tmp_path / "alone").glob("*.spill"))) == 73
    run = subprocess.run(["prlimit", "--nofile=64:", build / "spoor", "ust", "recover", "-o", "t.spoor", "alone"],
                         cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.stdout == f"{73 * 4400} events of 73 programs in t.spoor\n" and not run.stderr, run


def shrunk(path):
    """A buffer of which most is empty: with as much room as it has taken, and no more. And where its events are."""
    b = path.read_bytes()
    defs, _, headers, data = struct.unpack_from("<4Q", b, 104)
    used = (struct.unpack_from("<Q", b, 192)[0] + 127) // 128 * 128
    size, first, n = struct.unpack_from("<3I", b, 1024 + 36)
    (i, committed), = ((i, c) for i in range(n) if (c := struct.unpack_from("<Q", b, headers + 128 * i + 16)[0]))
    assert not first and n == struct.unpack_from("<I", b, 96)[0]
    small = bytearray(b[:4096] + b[defs:defs + used] + b[headers + 128 * i:][:128] + b[data + size * i:][:size])
    struct.pack_into("<Q", small, 16, len(small))
    struct.pack_into("<I", small, 60, 2)  # its stamps will be ns
    struct.pack_into("<I", small, 96, 1)
    struct.pack_into("<4Q", small, 104, 4096, used, 4096 + used, 4096 + used + 128)
    struct.pack_into("<I", small, 1024 + 44, 1)
    at, events = len(small) - size, []
    while at < len(small) - size + committed:
        events.append(at)
        at += struct.unpack_from("<H", small, at + 10)[0] * 4
    return small, events


def test_recover_of_thousands(spoor, build, ticker, tmp_path):  # noqa: F811
    """One container after another, the first process of each: four times as many take four times as long."""
    subprocess.run([ticker, "1", "10"], env=tracing.environment(build, tmp_path / "one", SPOOR_UST_BUFFERS="64K"),
                   check=True, stdout=subprocess.DEVNULL, timeout=60)
    arena, events = shrunk(*(tmp_path / "one").glob("*.arena"))
    made, = struct.unpack_from("<Q", arena, 72)
    took = []
    for n in (2000, 8000):
        (tmp_path / str(n)).mkdir()
        for i in range(n):
            struct.pack_into("<Q", arena, 24, i)  # its UUID
            struct.pack_into("<Q", arena, 72, made + 10**6 * i)
            for k, at in enumerate(events):
                struct.pack_into("<Q", arena, at, made + 10**6 * i + k)
            (tmp_path / str(n) / f"{i}.arena").write_bytes(arena)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = spoor("ust", "recover", "-o", f"{n}.spoor", str(n))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run.stdout.startswith(f"{n * 11} events of {n} programs in "), run
        took.append(after.ru_utime - before.ru_utime)
    assert took[1] < 12 * took[0], took


def without_descriptors(process, clients, log):
    """How often it tries in a second to take in who connects, and cannot."""
    limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir(f"/proc/{process.pid}/fd"))) + 1
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used, limits[1]))
    for c, address in clients:
        c.connect(address)
    tracer = subprocess.Popen(["strace", "-q", "-e", "trace=accept4", "-o", log, "-p", str(process.pid)])
    wait_for(lambda: "EMFILE" in log.read_text() if log.exists() else False)
    time.sleep(1)
    tracer.terminate()
    tracer.wait(20)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
    return log.read_text().count("EMFILE")


def test_daemon_waits_for_descriptors(daemon, tmp_path):  # noqa: F811
    """It is not busy with who cannot come in, and takes them in once it can."""
    clients = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(40)]
    tries = without_descriptors(daemon.process, [(c, str(daemon.socket)) for c in clients], tmp_path / "log")
    assert 1 <= tries < 300, tries
    assert "no session" in daemon.ust("status").stdout


def test_no_descriptor_for_the_keeper(daemon):  # noqa: F811
    """It says what it lacks, and not that no process can be started."""
    pid = daemon.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    os.kill(keeper_pid(f"{daemon.socket}.keeper"), signal.SIGKILL)
    said = daemon.process.stderr.readline()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    assert said == LACKS
    assert "no session" in daemon.ust("status").stdout


def said_after(daemon):
    """What it says until it is killed."""
    daemon.kill()
    return daemon.process.stderr.readlines()


def begin_and_end(daemon, ticker, i):
    assert daemon.program(ticker, 1, 4, TICKER_FIRST=str(i)).wait(60) == 0


def test_descriptor_for_the_keeper_later(daemon, ticker):  # noqa: F811
    """It tries again, says so once each, and programs have somewhere to wait again."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    os.kill(keeper_pid(f"{daemon.socket}.keeper"), signal.SIGKILL)
    time.sleep(2.5)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, limits)
    said = [daemon.process.stderr.readline() for _ in range(3)]
    assert said[0] == LACKS and "has ended" in said[1] and said[2].startswith(AGAIN), said
    begin_and_end(daemon, ticker, 0)
    assert said_after(daemon) == []
    begin_and_end(daemon, ticker, 1)
    daemon.start()
    assert daemon.ust("end").stdout.startswith("8 events of 2 programs, 0 lost")


def exchange(one, other):
    """So that at no time there is nothing."""
    assert not ctypes.CDLL(None).renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)


def test_keeper_that_is_not_found_at_first(daemon, ticker):  # noqa: F811
    """What it holds of programs that waited is taken later."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.kill()
    begin_and_end(daemon, ticker, 0)
    place, away = daemon.cwd / "ust.sock.keeper", daemon.cwd / "away"
    place.rename(away)
    place.mkdir()
    daemon.start()
    assert "no connection to a process that holds it: Address" in daemon.said[-1]
    assert "1 session goes on" in daemon.process.stderr.readline()
    assert "ready at" in daemon.process.stderr.readline()
    time.sleep(1.5)
    exchange(away, place)
    assert daemon.process.stderr.readline().startswith(AGAIN)
    begin_and_end(daemon, ticker, 1)
    assert daemon.ust("end").stdout.startswith("8 events of 2 programs, 0 lost")
    assert said_after(daemon) == []


def test_relay_waits_for_descriptors(relay, tmp_path):  # noqa: F811
    clients = [socket.socket() for _ in range(40)]
    tries = without_descriptors(relay.process, [(c, ("127.0.0.1", relay.port)) for c in clients], tmp_path / "log")
    assert 1 <= tries < 300, tries
    wait_for(lambda: len(os.listdir(f"/proc/{relay.process.pid}/fd")) > 40)
    assert relay.said().count("may open no more files") == 1


STREAMS = r"""
#include <stdio.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(streams, at, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

int main(void)
{
	int there = 0;

	for (int i = 0; i < 100; i++) {
		there += write(1, "to a standard stream\n", 21) > 0;
		there += write(2, "to a standard stream\n", 21) > 0;
		spoor_trace(streams, at, i);
	}
	return there;
}
"""


@pytest.mark.parametrize("limit", [100, 1024])
def test_standard_streams_that_are_closed(daemon, tmp_path, limit):  # noqa: F811
    """What a program writes to them does not get to the recorder, nor into buffers, also where numbers are few."""
    (tmp_path / "streams.c").write_text(STREAMS)
    program = tracing.build_program(tmp_path / "streams", tmp_path / "streams.c")
    daemon.ust("start", "-o", "t.spoor")
    run = subprocess.run(f"ulimit -n {limit}; exec {program} <&- >&- 2>&-", shell=True, env=daemon.environment(),
                         timeout=60)
    assert run.returncode == 0
    assert daemon.ust("end").stdout.startswith("100 events of 1 program, 0 lost")


GENERATIONS = r"""
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
static int buffers(void)
{
	char path[300], file[300] = "";
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	int n = 0;
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		memset(file, 0, sizeof(file));
		if (readlink(path, file, sizeof(file) - 1) > 0)
			n += strstr(file, "memfd:spoor-ust") || strstr(file, ".arena") || strstr(file, ".spill");
	}
	closedir(d);
	return n;
}
int main(void)
{
	int generation = 0;
	for (int i = 0; i < 3000; i++)
		spoor_trace(zoo, tick, i);
	for (; generation < 5 && !fork(); generation++)
		for (int i = 0; i < 3000; i++)
			spoor_trace(zoo, tick, i);
	while (wait(NULL) > 0)
		;
	if (generation == 5)
		printf("%d\n", buffers());
}
"""


@pytest.mark.parametrize("how", ["ust run", "without a daemon"])
def test_children_do_not_hold_the_buffers_of_their_ancestors(spoor, build, tmp_path, how):
    """Else memory and disk stay until the last child ends, and each has one descriptor more than its parent."""
    (tmp_path / "g.c").write_text(GENERATIONS)
    program = tracing.build_program(tmp_path / "g", tmp_path / "g.c")
    if how == "ust run":
        run = spoor("ust", "run", "-o", "t.spoor", "--", program)
        assert run.stdout == "1\n", run
    else:
        env = tracing.environment(build, tmp_path / "alone", SPOOR_UST_BUFFERS="64K", SPOOR_UST_MODE="block=10s")
        run = subprocess.run([program], env=env, capture_output=True, text=True, timeout=60)
        assert run.stdout == "1\n", run
        run = spoor("ust", "recover", "-o", "t.spoor", "alone")
    assert "18000 events of 6 programs" in (run.stderr + run.stdout).replace(",", ""), run
