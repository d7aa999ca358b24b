/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * numbered FILE THREADS: each thread numbers its calls, by the offset of an lseek(2) that fails: THREAD << 40 | N.
 * FILE is memory that outlives all: for each thread, the number of its last call that has ended, 64 bytes apart.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 64
#define PAUSE 16000 /* turns of a loop: some 200,000 calls a second */

static volatile unsigned long (*ended)[8];

static void *number(void *arg)
{
	unsigned long thread = (unsigned long)arg;

	for (unsigned long n = 1;; n++) {
		lseek(-1, (off_t)(thread << 40 | n), SEEK_SET);
		ended[thread][0] = n;
		for (int i = 0; i < PAUSE; i++)
			__asm__ volatile("");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int fd = argc == 3 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
	pthread_t id;

	if (fd < 0 || ftruncate(fd, MOST * sizeof(*ended)))
		return 1;
	ended = mmap(NULL, MOST * sizeof(*ended), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ended == MAP_FAILED)
		return 1;
	for (unsigned long i = 0; i < MOST && i < strtoul(argv[2], NULL, 10); i++)
		pthread_create(&id, NULL, number, (void *)i);
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
