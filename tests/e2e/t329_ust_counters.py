# SPDX-License-Identifier: GPL-2.0-or-later
"""Contexts of the kernel's and the processor's counters."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import tracing
from daemons import daemon, open_place as place  # noqa: F401


def test_counters_as_getrusage_says(spoor, tmp_path):
    """Page faults and context switches of each thread, since its first event; and no descriptor stays behind."""
    program = tracing.build_program(tmp_path / "perf", "ust_perf.c")
    run = spoor("ust", "run", "--context", "perf:page-faults,perf:context-switches,perf:task-clock", "-o", "t.spoor",
                "--", program)
    assert run.returncode == 0, run.stderr
    *lines, left = run.stdout.splitlines()
    assert left == "left 3" # of the thread that runs
    report = spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[:-1]
    contexts = {e["fields"]["n"]: e["context"] for e in map(json.loads, report)}
    assert sum(n >= 1000 for n in contexts) == 2003
    said = {n: numbers for n, *numbers in (map(int, line.split()) for line in lines)}
    for first in (0, 100):
        base = contexts[first]
        for n in range(first + 1, first + 6):
            for name, i in (("perf_page_faults", 0), ("perf_context_switches", 1)):
                grown = contexts[n][name] - base[name]
                least, most = said[n][i] - said[first][i + 2], said[n][i + 2] - said[first][i]
                assert least <= grown <= most, (n, name, grown, least, most)
            assert contexts[n]["perf_task_clock"] > contexts[n - 1]["perf_task_clock"]
        assert contexts[first + 5]["perf_page_faults"] - base["perf_page_faults"] >= 15 * 257
        assert contexts[first + 5]["perf_context_switches"] - base["perf_context_switches"] >= 30


def test_counters_that_are_not_there(spoor, tmp_path):
    """Said once, and 0 then. A name that is none is a mistake."""
    program = tracing.build_program(tmp_path / "perf", "ust_perf.c")
    has_pmu = os.path.isdir("/sys/bus/event_source/devices/cpu")
    run = spoor("ust", "run", "--context", "perf:cycles", "-o", "t.spoor", "--", program)
    assert run.returncode == 0 and run.stderr.count("perf:cycles stays 0") == (not has_pmu), run.stderr
    report = spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[:-1]
    assert all((json.loads(line)["context"]["perf_cycles"] > 0) == has_pmu for line in report)
    run = spoor("ust", "run", "--context", "perf:beauty", "-o", "u.spoor", "--", program)
    assert run.returncode == 2 and "perf:page-faults" in run.stderr


def test_counters_of_the_kernel(build, place):  # noqa: F811
    """Who may count the program alone is told of those that happen in the kernel, and of no others."""
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    for file in build / "spoor", tracing.agent(build):
        shutil.copy(file, place)
    program = tracing.build_program(place / "perf", "ust_perf.c")
    env = os.environ | {"HOME": str(place), "SPOOR_UST_LIBRARY": str(place / "libspoor-ust.so.0"),
                        "TMPDIR": str(place)}
    said = {}
    for user in 0, 12345:
        contexts = "perf:page-faults,perf:context-switches,perf:cpu-migrations"
        run = subprocess.run([place / "spoor", "ust", "run", "--context", contexts, "-o", place / f"{user}.spoor", "--",
                              program], env=env, user=user, group=user, extra_groups=[], capture_output=True, text=True,
                             cwd=place, timeout=60)
        assert run.returncode == 0, run.stderr
        said[user] = set(re.findall(r"perf:([a-z-]+) stays 0: not permitted", run.stderr))
    assert not said[0] and said[12345] == ({"context-switches", "cpu-migrations"} if paranoid >= 2 else set())


def test_counters_that_a_program_cannot_have(spoor, build, place, tmp_path):  # noqa: F811
    """Though its recorder can: that is said at the end, whoever records it, also where nobody does."""
    shutil.copy(tracing.agent(build), place)
    program = tracing.build_program(place / "perf", "ust_perf.c")
    command = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", program]
    contexts = "perf:page-faults,perf:cpu-migrations"
    denied = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) >= 2
    env = os.environ | {"SPOOR_UST_LIBRARY": str(place / "libspoor-ust.so.0")}
    run = spoor("ust", "run", "--context", contexts, "-o", "t.spoor", "--", *command, env=env)
    out = place / "out"
    out.mkdir()
    os.chown(out, 12345, 12345)
    alone = {"LD_PRELOAD": str(place / "libspoor-ust.so.0"), "SPOOR_UST_OUTPUT": str(out),
             "SPOOR_UST_CONTEXT": contexts}
    assert subprocess.run(command, env=os.environ | alone, stdout=subprocess.DEVNULL, timeout=60).returncode == 0
    recovered = spoor("ust", "recover", out, "-o", "u.spoor")
    for by in run, recovered:
        assert by.returncode == 0, by.stderr
        said = [line for line in by.stderr.splitlines() if "0 in some events" in line]
        assert len(said) == denied and all(" perf:cpu-migrations: " in line for line in said), by.stderr
    for trace in "t.spoor", "u.spoor":
        assert ("1 counter (perf:NAME) is 0 in some events" in spoor("report", trace).stdout) == denied
        summary = spoor("report", "--format", "json", trace).stdout.splitlines()[-1]
        assert json.loads(summary)["uncounted"] == denied


def test_the_daemon_tells_of_counters(daemon, tmp_path):  # noqa: F811
    (tmp_path / "closer.c").write_text(CLOSER)
    program = tracing.build_program(tmp_path / "closer", tmp_path / "closer.c")
    daemon.ust("start", "--context", "perf:page-faults,perf:task-clock,vpid", "-o", "t.spoor")
    assert subprocess.run([program], env=daemon.environment(True), stdout=subprocess.DEVNULL).returncode == 0
    assert "\nperf:task-clock, perf:page-faults: 0 in some events" in daemon.ust("end").stdout


CLOSER = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(closer, at, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
static int to_main[2], to_thread[2];

static void *thread(void *unused)
{
	char c = 0;

	spoor_trace(closer, at, 1);
	if (write(to_main[1], &c, 1) != 1 || read(to_thread[0], &c, 1) != 1)
		return unused;
	spoor_trace(closer, at, 3);
	return NULL;
}

/* All counters are closed, and their numbers sockets' with eight bytes to be read: how many have them no more? */
int main(void)
{
	int pairs[300][2], i, k, bad = 0;
	char text[16] = "12345678";
	pthread_t t;

	if (pipe(to_main) || pipe(to_thread))
		return 1;
	spoor_trace(closer, at, 0);
	pthread_create(&t, NULL, thread, NULL);
	if (read(to_main[0], text + 9, 1) != 1)
		return 1;
	closefrom(to_thread[1] + 1);
	for (i = 0; i < 300; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pairs[i]) || write(pairs[i][0], text, 8) != 8 ||
		    write(pairs[i][1], text, 8) != 8)
			return 1;
	spoor_trace(closer, at, 2);
	if (write(to_thread[1], text, 1) != 1)
		return 1;
	pthread_join(t, NULL);
	if (!fork()) {
		spoor_trace(closer, at, 4);
		_exit(0);
	}
	wait(NULL); /* the recording ends with us */
	for (i = 0; i < 300; i++)
		for (k = 0; k < 2; k++)
			bad += read(pairs[i][k], text, 16) != 8;
	printf("%d bad\n", bad);
	return 0;
}
"""


def test_counters_that_the_program_closes(spoor, tmp_path):
    """What has their numbers then is the program's: it is neither read nor closed."""
    (tmp_path / "closer.c").write_text(CLOSER)
    program = tracing.build_program(tmp_path / "closer", tmp_path / "closer.c")
    run = spoor("ust", "run", "--context", "perf:page-faults,perf:task-clock", "-o", "t.spoor", "--", program)
    assert run.returncode == 0 and run.stdout == "0 bad\n", (run.stdout, run.stderr)
    report = spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[:-1]
    clocks = {e["fields"]["n"]: e["context"]["perf_task_clock"] for e in map(json.loads, report)}
    assert sorted(clocks) == [0, 1, 2, 3, 4] and clocks[0] and not clocks[2]
