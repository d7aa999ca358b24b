/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sites before, in and behind scopes that nothing may jump into, in functions that have a switch or goto. Each line
 * that is passed is printed, and is the value of its events.
 */
#include <stdio.h>

#include <spoor/marker.h>
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(scopes, point, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

#define SITES()                                       \
	do {                                          \
		printf("%d\n", __LINE__);             \
		spoor_trace(scopes, point, __LINE__); \
		trace_mark(scoped, "n %d", __LINE__); \
		spoor_log("n %d", __LINE__);          \
		trace_scopes_point(__LINE__);         \
	} while (0)

static int ended;

#ifdef __cplusplus
struct guard {
	~guard() { ended++; }
};
#define GUARD(name) guard name

static void tried(int n)
{
	try {
		SITES();
		if (n)
			throw n;
		SITES();
	} catch (int) {
		SITES();
	}
	switch (n) {
	default:
		SITES();
	}
}

/* What is called from one place: a site of a template is one for each of its types. */
template <class T> struct of {
	GUARD(member);
	of()
	{
		SITES();
	}
	~of()
	{
		GUARD(inner);
		if (sizeof(T) == 1)
			goto out;
		SITES();
out:
		SITES();
	}
};

static void in_lambdas(int n)
{
	GUARD(outer);
	auto site = [&]() {
		GUARD(inner);
		switch (n) {
		case 0: {
			GUARD(innermost);
			SITES();
			break;
		}
		default:
			SITES();
		}
	};

	SITES();
	site();
}

static void others(int n)
{
	of<int> some;

	tried(n);
	in_lambdas(n);
}
#else
static void end(const int *guard)
{
	ended += !!guard;
}
#define GUARD(name) __attribute__((cleanup(end), unused)) int name = 0

static int others(int n)
{
	SITES();
	if (n > 2)
		goto out;
	{
		char array[n + 1];

		SITES();
		array[n] = 0;
		n += array[n];
	}
	SITES();
out:
	return n;
}
#endif

static void switched(int n)
{
	GUARD(outer);

	SITES();
	switch (n) {
	case 1: {
		GUARD(inner);
		SITES();
		break;
	}
	default:
		SITES();
	}
	SITES();
}

static void gone_to(int n)
{
	SITES();
	if (n)
		goto out;
	{
		GUARD(inner);
		SITES();
	}
out:
	SITES();
}

int main(void)
{
	int n;

	for (n = 0; n < 2; n++) {
		switched(n);
		gone_to(n);
		others(n);
	}
	return ended < 3;
}
