# SPDX-License-Identifier: GPL-2.0-or-later
"""A small program whose call stacks are known, recorded; and --set."""
import subprocess

import pytest

from processes import status, wait_for

SPIN = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
static volatile int hits;
__attribute__((noinline)) void inner(void)
{
	syscall(SYS_getppid); /* LINE inner */
	__asm__ volatile("");
}
__attribute__((noinline)) void outer(void)
{
	inner(); /* LINE outer */
	__asm__ volatile("");
}
__attribute__((noinline)) static void on_alarm(int sig)
{
	(void)sig;
	inner();
	hits++;
}
/* Its first instruction is where it is interrupted nearly always: one byte earlier lies another function. */
__asm__(".text\n.globl before\n.type before,@function\nbefore: .cfi_startproc\n"
	"ret\n.cfi_endproc\n.size before,.-before\n"
	".globl spinning\n.type spinning,@function\nspinning: .cfi_startproc\n"
	"jmp spinning\n.cfi_endproc\n.size spinning,.-spinning\n");
void spinning(void);
static void again(int sig)
{
	on_alarm(sig);
	if (hits == 20)
		_exit(0);
}
static void forever(int us)
{
	for (;; us ? usleep(us) : 0)
		outer();
}
static void moves(void)
{
	char b[64];
	int fds[2];
	if (pipe(fds) || write(fds[1], "0123456789abcdefghijklmnopqrstuvwxyz", 36) != 36 || read(fds[0], b, 64) != 36)
		_exit(3);
}
int main(int argc, char **argv)
{
	struct itimerval t = { { 0, 5000 }, { 0, 5000 } };
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "busy"))
		forever(0);
	if (!strcmp(what, "ticks"))
		forever(500);
	if (!strcmp(what, "moves"))
		moves();
	if (!strcmp(what, "signal")) {
		signal(SIGALRM, again);
		setitimer(ITIMER_REAL, &t, NULL);
		spinning();
	}
	for (int i = 0; i < 50; i++)
		outer();
	return 0;
}
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spin")
    (folder / "spin.c").write_text(SPIN)
    subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-o", "spin", "spin.c"], cwd=folder, check=True,
                   timeout=60)
    return folder / "spin"


@pytest.fixture
def change(spoor):
    """change(recording, "mode=app", ...) succeeds without a word; with refused=True fails with one line: this."""
    def run(trace, *settings, refused=False):
        done = spoor("record", *[w for s in settings for w in ("--set", s)], trace)
        assert done.stdout == ""
        if not refused:
            assert (done.returncode, done.stderr) == (0, "")
            return ""
        assert done.returncode == 1 and done.stderr.startswith("spoor record: "), done
        assert done.stderr.count("\n") == 1
        return done.stderr
    return run


def functions(event):
    return [f["function"] for f in event["stack"]]


@pytest.fixture
def ticking(start, program, record):
    """A recording of a program that calls getppid two thousand times a second at most."""
    def run(*options, **more):
        ticker = start(program, "ticks").pid
        recording = record("-p", ticker, "-e", "getppid", *options, **more)
        recording.ticker = ticker
        return recording
    return run


def let_it_tick(ticker, times):
    """So many whole calls from now on: between two of its sleeps lies one. (The first may have been on its way.)"""
    def slept():
        return int(status(ticker, "voluntary_ctxt_switches"))
    end = slept() + 1 + times
    wait_for(lambda: slept() >= end, every=0.001)
