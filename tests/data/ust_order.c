/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Constructors and destructors of every priority that a program may have, each with an event: 0 to 6, in this order. */
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(order, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

static __attribute__((constructor(101))) void first(void)
{
	spoor_trace(order, step, 0);
}

static __attribute__((constructor(102))) void second(void)
{
	spoor_trace(order, step, 1);
}

static __attribute__((constructor)) void last(void)
{
	spoor_trace(order, step, 2);
}

static __attribute__((destructor)) void end_first(void)
{
	spoor_trace(order, step, 4);
}

static __attribute__((destructor(102))) void end_second(void)
{
	spoor_trace(order, step, 5);
}

static __attribute__((destructor(101))) void end_last(void)
{
	spoor_trace(order, step, 6);
}

int main(void)
{
	spoor_trace(order, step, 3);
	return 0;
}
