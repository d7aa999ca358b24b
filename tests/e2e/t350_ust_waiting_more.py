# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs while no daemon is there: as many as can wait, those of others, buffers; and who becomes another process."""
import shutil
import signal
import subprocess

import pytest
import tracing

from daemons import Daemon, daemon, end_keeper, keeper_pid, open_place, ticker  # noqa: F401
from processes import NOBODY, ready, sleeps_in, tell, wait_for

BECOMES = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, thread, 0), spoor_int(int, n, n)))
static void ten(int n)
{
	for (int end = n + 10; n < end; n++)
		spoor_trace(zoo, tick, n);
}
int main(int argc, char **argv)
{
	char how = *argv[1];
	if (how == 'a') { /* after exec */
		ten(20);
	} else {
		ten(0);
		puts("ready");
		fflush(stdout);
		getchar();
		ten(10);
		if (how == 'e')
			execl(argv[0], argv[0], "after", argv[2], NULL);
		else if (daemon(1, 1))
			return 1;
		for (int fd = 3; how == 'd' && fd < 1024; fd++)
			close(fd);
		ten(20);
	}
	puts("done");
	fflush(stdout);
	while (argc > 2)
		pause();
}
"""


@pytest.fixture(scope="module")
def becomes(tmp_path_factory):
    place = tmp_path_factory.mktemp("becomes")
    (place / "becomes.c").write_text(BECOMES)
    return tracing.build_program(place / "becomes", place / "becomes.c", "-D_GNU_SOURCE", "-Wno-unused-parameter")


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
@pytest.mark.parametrize("how", [["exec"], ["exec", "stays"], ["daemon"]], ids="-".join)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_becomes_another_while_no_daemon_is_there(daemon, becomes, number, how, known):
    """By execve() or daemon(), of a program that a daemon knew or none: what it wrote before and after, once."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    if not known:
        daemon.kill(number)
    p = daemon.program(becomes, *how, stdin=subprocess.PIPE)
    if known:
        wait_for(lambda: f"{p.pid} becomes" in daemon.ust("status").stdout)
        daemon.kill(number)
    tell(p, b"x")
    ready(p, b"done")
    daemon.start()
    said = daemon.ust("end").stdout
    assert "30 events of 2 programs, 0 lost" in said, said
    assert sorted(e["fields"]["n"] for e in daemon.events()) == list(range(30))


MOST_OF_OTHERS = 1024
MORE = 13
POLL = 7  # the system call


def start_after_keeper(daemon):
    """Whom the keeper has not let in, or turned away, yet when a daemon comes, that one lets in."""
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    wait_for(lambda: sleeps_in(keeper, POLL))
    daemon.start()


def test_more_of_another_user_than_can_wait(build, ticker, open_place):
    """Each is there, or counted and said; nobody else is kept out."""
    shutil.copy(tracing.agent(build), open_place)
    shutil.copy(ticker, open_place / "ticker")
    daemon = Daemon(build, open_place).start()
    try:
        env = daemon.environment() | {"LD_PRELOAD": str(open_place / "libspoor-ust.so.0")}
        daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "64k")
        daemon.kill()
        n = MOST_OF_OTHERS + MORE
        loop = "i=0; while [ $i -lt %d ]; do TICKER_FIRST=$i ./ticker 1 1 || exit 1; i=$((i+1)); done" % n
        subprocess.run([*NOBODY, "sh", "-c", loop], cwd=open_place, env=env, stdout=subprocess.DEVNULL, check=True)
        subprocess.run(["./ticker", "1", "1"], cwd=open_place, env=env | {"TICKER_FIRST": str(n)}, check=True)
        start_after_keeper(daemon)
        said = daemon.ust("end").stdout
        assert {t for _, t in daemon.ticks()} == {*range(MOST_OF_OTHERS), n}
        assert daemon.summary["programs_turned_away"] == MORE and f"{MORE} programs found no room" in said
    finally:
        daemon.kill()
        end_keeper(f"{daemon.socket}.keeper")


@pytest.fixture(scope="module")
def actor(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("actor") / "ust_actor", "ust_actor.c")


def test_more_buffers_than_can_wait(daemon, actor):
    """Two programs with a megabyte for each of 270 threads: those that come then are turned away, and counted. With
    the next daemon there is room again."""
    daemon.ust("start", "-o", "t.spoor", "-e", "actor:step", "--buffers", "400M", "--packet", "1M")
    for threads, away in [(270, 270, 1, 1), 2], [(1,), 0]:
        daemon.kill()
        for n in threads:
            subprocess.run([actor, "crowd", str(n)], env=daemon.environment(), cwd=daemon.cwd, check=True,
                           stdout=subprocess.DEVNULL)
        start_after_keeper(daemon)
        assert any(f"{away} programs came while no daemon was there" in line for line in daemon.said) == (away > 0)
    said = daemon.ust("end").stdout
    assert "1082 events of 3 programs, 0 lost" in said and "2 programs found no room" in said
