# SPDX-License-Identifier: GPL-2.0-or-later
"""Stacks of eight kilobytes, as signal handlers (SIGSTKSZ) and coroutines have: what the library does there fits."""
import subprocess

import pytest
import tracing
from daemons import daemon  # noqa: F401 (fixture)

SOURCE = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <spoor/marker.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(small, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

#define SIZE 8192
static ucontext_t before, inside;
static char line[4096];

/* What lies below it cannot be written. */
static char *stack(void)
{
	char *p = mmap(NULL, SIZE + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(p, 4096, PROT_NONE);
	return p + 4096;
}

static void step(int n)
{
	spoor_trace(small, step, n);
	trace_mark(small_mark, "n %d of %s", n, "many");
}

static void wait_for_a_byte(void)
{
	while (read(0, line, 1) < 0)
		;
}

/* Called by SIGURG meanwhile; then it forks, and fills packets. */
static void on_the_coroutine(void)
{
	int i, status = 0;

	wait_for_a_byte();
	for (i = 0; i < 5000; i++)
		step(i);
	if (!fork()) {
		step(-1);
		_exit(0);
	}
	wait(&status);
	if (status)
		_exit(2);
}

int main(int argc, char **argv)
{
	stack_t alternate = { .ss_sp = stack(), .ss_size = SIZE };

	if (!strcmp(argv[argc - 1], "handler")) {
		if (sigaltstack(&alternate, NULL))
			return 3;
		puts("ready");
		fflush(stdout);
		wait_for_a_byte();
		for (int i = 0; i < 5000; i++)
			step(i);
		return 0;
	}
	setvbuf(stdout, line, _IOFBF, sizeof(line));
	puts("ready");
	fflush(stdout);
	getcontext(&inside);
	inside.uc_stack.ss_sp = stack();
	inside.uc_stack.ss_size = SIZE;
	inside.uc_link = &before;
	makecontext(&inside, on_the_coroutine, 0);
	return swapcontext(&before, &inside);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    where = tmp_path_factory.mktemp("small")
    (where / "small.c").write_text(SOURCE)
    return tracing.build_program(where / "small", where / "small.c")


@pytest.mark.parametrize("options", [[], ["--stack", "all,64"], ["--filter", "n < 5000"]], ids=["", "stack", "filter"])
@pytest.mark.parametrize("where, steps", [("handler", 5000), ("coroutine", 5001)])
def test_called_on_a_small_stack(daemon, program, where, steps, options):  # noqa: F811
    """A session begins while the program runs, which is told by a signal."""
    p = daemon.program(program, where, stdin=subprocess.PIPE)
    assert daemon.ust("start", "-o", "t.spoor", "--buffers", "8M", *options, p.pid).stdout == "1 program, 2 sites\n"
    p.communicate(b"x", timeout=30)
    assert p.returncode == 0
    daemon.ust("end")
    daemon.events()
    assert daemon.summary["user_events"] == 2 * steps and daemon.summary["discarded"] == 0


def test_alone_on_a_small_stack(build, spoor, program, tmp_path):
    """Packets are written out there."""
    env = tracing.environment(build, tmp_path / "alone", SPOOR_UST_BUFFERS="64k")
    run = subprocess.run([program, "coroutine"], env=env, input=b"x", capture_output=True, timeout=30)
    assert run.returncode == 0, run
    assert spoor("ust", "recover", "-o", "t.spoor", "alone").stdout.startswith("10002 events of 2 programs")


@pytest.mark.parametrize("thread", [[], ["thread"]], ids=["first", "thread"])
@pytest.mark.parametrize("where", ["coroutine", "signal"])
def test_memory_about_a_stack_is_freed(build, tmp_path, where, thread):
    """Where rows are not there, a walk follows rbp: what was once there to be read may be no more."""
    program = tracing.build_program(tmp_path / "freed", "ust_freed.c", "-O2", "-fno-omit-frame-pointer")
    run, (trace, *_) = tracing.traced(build, tmp_path / "out", program, where, *thread, SPOOR_UST_CONTEXT="callstack")
    assert run.returncode == 0, run
    assert [e.values["n"] for e in trace.events] == [0, 1, 2]
