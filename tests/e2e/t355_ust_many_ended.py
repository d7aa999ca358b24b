# SPDX-License-Identifier: GPL-2.0-or-later
"""What many programs leave that wrote at the same time and have ended: all of it is in the trace."""
import re
import subprocess

import pytest
import tracing
from daemons import daemon  # noqa: F401
from processes import wait_for
from relaying import proxy, relay, sender  # noqa: F401

# Its children write once, wait for each other, and write the rest: their runs lie in the same time, all of them.
CROWD = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(crowd, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
int main(int argc, char **argv)
{
	int all[2], each[2], children = argc > 2 ? atoi(argv[1]) : 0, count = children ? atoi(argv[2]) : 0;
	char c;

	if (pipe(all) || pipe(each))
		return 1;
	for (int i = 0; i < children; i++) {
		if (fork())
			continue;
		close(all[1]);
		spoor_trace(crowd, step, 0);
		if (write(each[1], "x", 1) != 1 || read(all[0], &c, 1))
			_exit(1);
		for (int n = 1; n < count; n++)
			spoor_trace(crowd, step, n);
		exit(0);
	}
	for (int i = 0; i < children; i++)
		if (read(each[0], &c, 1) != 1)
			return 1;
	close(all[1]);
	while (wait(NULL) > 0)
		;
	puts("ready");
	return 0;
}
"""


@pytest.fixture(scope="session")
def crowd(tmp_path_factory):
    path = tmp_path_factory.mktemp("bin")
    (path / "crowd.c").write_text(CROWD)
    return tracing.build_program(path / "crowd", path / "crowd.c")


def check(build, trace, said, children, count):
    """As `end` said, and as the trace has it."""
    assert re.search(rf"^{children * count} events of {children} programs, 0 lost", said, re.M), said
    told = subprocess.run([build / "spoor", "report", trace], capture_output=True, text=True, timeout=60).stdout
    assert re.search(rf"^User events: {children * count:,}, ", told, re.M), told
    assert re.search(r"^Lost: nothing\.", told, re.M), told


# With 30,000 events each they are more than a flight recorder keeps for snapshots.
@pytest.mark.parametrize("count", [100, 30_000])
def test_in_a_flight_recorder(daemon, build, crowd, count):
    daemon.ust("start", "-o", "t.spoor", "--mode", "overwrite")
    daemon.program(crowd, 120, count).wait(60)
    wait_for(lambda: "crowd" not in daemon.ust("status").stdout)
    check(build, daemon.cwd / "t.spoor", daemon.ust("end").stdout, 120, count)


def test_much_more_than_a_flight_recorder_keeps(daemon, crowd):
    daemon.ust("start", "-o", "t.spoor", "--mode", "overwrite")
    daemon.program(crowd, 200, 60_000).wait(60)
    assert daemon.ust("end").stdout.startswith("12000000 events of 200 programs, 0 lost")


def test_in_a_flight_recorder_that_is_killed(daemon, build, crowd):
    daemon.ust("start", "-o", "t.spoor", "--mode", "overwrite")
    daemon.program(crowd, 120, 30_000).wait(60)
    wait_for(lambda: "crowd" not in daemon.ust("status").stdout)
    daemon.kill()
    daemon.start()
    check(build, daemon.cwd / "t.spoor", daemon.ust("end").stdout, 120, 30_000)


# Of the second and third ones the first have to make room. The relay is slow, and the daemon is killed meanwhile.
@pytest.mark.parametrize("children, count, mode, memory", [(40, 100, "discard", "64M"), (14, 100, "discard", "1M"),
                                                           (120, 30_000, "overwrite", "64M")])
def test_before_the_relay_has_it(build, relay, sender, proxy, crowd, children, count, mode, memory):  # noqa: F811
    between = proxy()
    s = sender("host", between.url, "--relay-memory", memory)
    s.ust("start", "-o", "t.spoor", "--mode", mode)
    between.holds = (0, 1)
    s.program(crowd, children, count).wait(20)
    taken = f"{children * count}" if mode == "discard" else r"[1-9]\d{5}\d*"
    wait_for(lambda: re.search(rf"so far: {taken} events", s.status()))
    s.kill()
    between.cut()
    between.holds = ()
    s.start()
    said = s.end()
    wait_for(lambda: "host/t.spoor (" in relay.said() and "complete" in relay.said())
    check(build, relay.directory / "host/t.spoor", said, children, count)
