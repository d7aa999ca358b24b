/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * paths CALLS SEED: two threads call getpgid(n) from stacks that n's bits, from the highest on, spell as calls of zero()
 * and one(). Where n % 7 == 0 there are 90 frames of deep() beneath, more than a remembered walk has room for; where
 * n % 5 == 0 one of aligned(), whose frame address is calculated from a saved register. Every other n is one of a few.
 */
#include <alloca.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone, noipa))

static volatile int sink;

static NOINLINE void follow(unsigned n, unsigned bit);

static NOINLINE void zero(unsigned n, unsigned bit)
{
	follow(n, bit);
	sink++;
}

static NOINLINE void one(unsigned n, unsigned bit)
{
	char *p = alloca(16 + n % 64);

	memset(p, n, 16);
	follow(n, bit);
	sink += p[3];
}

static NOINLINE void follow(unsigned n, unsigned bit)
{
	if (bit == 1)
		syscall(SYS_getpgid, n);
	else if (n & bit >> 1)
		one(n, bit >> 1);
	else
		zero(n, bit >> 1);
	sink++;
}

static NOINLINE void begin(unsigned n)
{
	unsigned bit = 1u << (31 - __builtin_clz(n));

	follow(n, bit);
	sink++;
}

static NOINLINE void aligned(unsigned n)
{
	char space[256] __attribute__((aligned(128)));
	char *more = alloca(n % 128 + 8);

	memset(space, n, sizeof(space));
	memset(more, n, 8);
	begin(n);
	sink += space[n & 255] + more[2];
}

static NOINLINE void deep(unsigned n, int frames)
{
	if (frames)
		deep(n, frames - 1);
	else if (n % 5)
		begin(n);
	else
		aligned(n);
	sink++;
}

static long calls;

static void *work(void *seed)
{
	unsigned state = (unsigned)(long)seed;

	for (long i = 0; i < calls; i++) {
		unsigned n = 32 + rand_r(&state) % (i & 1 ? 65536 - 32 : 300);

		if (n % 7 == 0)
			deep(n, 90);
		else if (n % 5 == 0)
			aligned(n);
		else
			begin(n);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t other;
	long seed = argc > 2 ? atol(argv[2]) : 1;

	calls = argc > 1 ? atol(argv[1]) : 1000;
	pthread_create(&other, NULL, work, (void *)(seed + 1));
	work((void *)seed);
	return pthread_join(other, NULL);
}
