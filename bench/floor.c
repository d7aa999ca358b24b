// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * floor MODE -- CMD...                    run CMD under a floor program; the exit code is CMD's
 * floor MODE -p PID --duration SECONDS    or watch PID and its children; without --duration until SIGINT or SIGTERM
 *
 * A floor program is the least anybody can do who watches system calls with BPF (floors/): what Spoor costs is measured
 * against it in the same run. In mode `empty` nobody is watched: CMD is a bystander.
 */
#include <errno.h>
#include <getopt.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "counters.skel.h"
#include "empty.skel.h"
#include "record.skel.h"

#define RECORD_BYTES 72			/* 64 and the ring buffer's header of 8 */
#define POLL_NS (5 * 1000 * 1000)	/* 64 MiB fill in more than 100 ms at 10 million records a second */

struct mode {
	const char *name;
	const void *(*bytes)(size_t *ret_size);
	bool watches;
};

static const struct mode modes[] = {
	{ "empty",    empty_bpf__elf_bytes,    false },
	{ "counters", counters_bpf__elf_bytes, true  },
	{ "record",   record_bpf__elf_bytes,   true  },
};

struct ring {
	uint64_t *consumer;	/* ours */
	uint64_t *producer;	/* the kernel's */
};

struct floor {
	const struct mode *mode;
	struct bpf_object *object;
	struct bpf_link *seed;
	struct bpf_link *sum_up;
	struct ring ring;
	uint64_t records;
};

static volatile sig_atomic_t stopped;

static void on_stop(int sig)
{
	stopped = 1;
}

static int usage(void)
{
	fprintf(stderr, "usage: floor empty|counters|record -- CMD...\n"
			"       floor empty|counters|record -p PID [--duration SECONDS]\n");
	return 2;
}

static int fail(const char *what, int error)
{
	fprintf(stderr, "floor: %s: %s\n", what, strerror(error < 0 ? -error : error));
	return -1;
}

static const struct mode *find_mode(const char *name)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(modes[i].name, name))
			return &modes[i];
	return NULL;
}

static struct bpf_map *find_section(struct floor *floor, const char *section)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, floor->object)
		if (strstr(bpf_map__name(map), section))
			return map;
	return NULL;
}

/* The programs' only variables are `events` and `lost` (floor.bpf.h). */
static int read_counters(struct floor *floor, uint64_t ret_counters[2])
{
	struct bpf_map *map = find_section(floor, ".bss");
	uint32_t key = 0;

	if (!map || bpf_map__value_size(map) != 2 * sizeof(uint64_t))
		return -EINVAL;
	return bpf_map_lookup_elem(bpf_map__fd(map), &key, ret_counters);
}

/* And their only constant is `target_tgid`. */
static int set_target(struct floor *floor, pid_t pid)
{
	struct bpf_map *map = find_section(floor, ".rodata");
	int target = floor->mode->watches ? pid : 0;

	if (!map)
		return -ENOENT;
	return bpf_map__set_initial_value(map, &target, sizeof(target));
}

static int map_ring(struct floor *floor)
{
	struct bpf_map *map = bpf_object__find_map_by_name(floor->object, "records");
	long page = sysconf(_SC_PAGESIZE);
	int fd;

	if (!map)
		return 0;
	fd = bpf_map__fd(map);
	floor->ring.consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (floor->ring.consumer == MAP_FAILED)
		return -errno;
	floor->ring.producer = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, page);
	if (floor->ring.producer == MAP_FAILED)
		return -errno;
	return 0;
}

/* Forgetting a record is moving the consumer's position behind it. */
static void drain(struct floor *floor)
{
	uint64_t produced;

	if (!floor->ring.producer)
		return;
	produced = __atomic_load_n(floor->ring.producer, __ATOMIC_ACQUIRE);
	floor->records = produced / RECORD_BYTES;
	__atomic_store_n(floor->ring.consumer, produced, __ATOMIC_RELEASE);
}

static int run_iterator(struct bpf_link *link)
{
	char buf[64];
	ssize_t n;
	int fd;

	if (!link)
		return 0;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0)
		return -errno;
	do
		n = read(fd, buf, sizeof(buf));
	while (n > 0 || (n < 0 && errno == EAGAIN));
	close(fd);
	return n < 0 ? -EIO : 0;
}

static int attach(struct floor *floor)
{
	struct bpf_program *program;
	struct bpf_link *link;

	bpf_object__for_each_program(program, floor->object) {
		link = bpf_program__attach(program);
		if (!link)
			return -errno;
		if (!strcmp(bpf_program__name(program), "seed"))
			floor->seed = link;
		if (!strcmp(bpf_program__name(program), "sum_up"))
			floor->sum_up = link;
	}
	/* Last, so that no thread is started between the look around and the following. */
	return run_iterator(floor->seed);
}

static int start(struct floor *floor, pid_t pid)
{
	const void *bytes;
	size_t size;
	int r;

	bytes = floor->mode->bytes(&size);
	floor->object = bpf_object__open_mem(bytes, size, NULL);
	if (!floor->object)
		return fail("cannot open the program", errno);
	r = set_target(floor, pid);
	if (r < 0)
		return fail("cannot set the target", r);
	r = bpf_object__load(floor->object);
	if (r < 0)
		return fail("cannot load the program (root? BTF?)", r);
	r = map_ring(floor);
	if (r < 0)
		return fail("cannot map the ring buffer", r);
	r = attach(floor);
	if (r < 0)
		return fail("cannot attach", r);
	return 0;
}

static void finish(struct floor *floor)
{
	uint64_t counters[2];

	drain(floor);
	if (run_iterator(floor->sum_up) < 0 || read_counters(floor, counters) < 0)
		fail("cannot sum up", EIO);
	else
		fprintf(stderr, "floor: %llu events, %llu lost\n",
			(unsigned long long)(floor->ring.producer ? floor->records : counters[0]),
			(unsigned long long)counters[1]);
	bpf_object__close(floor->object);
}

static void nap(void)
{
	struct timespec ts = { .tv_nsec = POLL_NS };

	nanosleep(&ts, NULL);
}

/* The child waits until everything is attached: its first system call after exec is seen. */
static pid_t spawn(char **argv, int *ret_go)
{
	int go[2];
	char byte;
	pid_t pid;

	if (pipe(go) < 0)
		return -1;
	pid = fork();
	if (pid != 0) {
		close(go[0]);
		*ret_go = go[1];
		return pid;
	}
	close(go[1]);
	if (read(go[0], &byte, 1) != 1)
		_exit(125);
	close(go[0]);
	signal(SIGINT, SIG_DFL);
	execvp(argv[0], argv);
	fprintf(stderr, "floor: cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

static int run_command(struct floor *floor, char **argv)
{
	int go, status;
	pid_t pid;

	pid = spawn(argv, &go);
	if (pid < 0)
		return fail("cannot start the command", errno), 125;
	if (start(floor, pid) < 0)
		return 125;
	if (write(go, "", 1) != 1)
		return fail("cannot start the command", errno), 125;
	close(go);
	if (floor->ring.producer) {
		while (waitpid(pid, &status, WNOHANG) == 0) {
			drain(floor);
			nap();
		}
	} else if (waitpid(pid, &status, 0) < 0) {
		return fail("cannot wait for the command", errno), 125;
	}
	finish(floor);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int watch(struct floor *floor, pid_t pid, double seconds)
{
	struct timespec now, begin;

	if (start(floor, pid) < 0)
		return 125;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (!stopped) {
		drain(floor);
		nap();
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (seconds > 0 && (now.tv_sec - begin.tv_sec) + (now.tv_nsec - begin.tv_nsec) / 1e9 >= seconds)
			break;
	}
	finish(floor);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "duration", required_argument, NULL, 'd' },
		{ },
	};
	struct sigaction on_end = { .sa_handler = on_stop };
	struct floor floor = { };
	double seconds = 0;
	pid_t pid = 0;
	int c;

	if (argc < 3)
		return usage();
	floor.mode = find_mode(argv[1]);
	if (!floor.mode)
		return usage();
	optind = 2;
	while ((c = getopt_long(argc, argv, "+p:d:", options, NULL)) != -1) {
		if (c == 'p')
			pid = atoi(optarg);
		else if (c == 'd')
			seconds = atof(optarg);
		else
			return usage();
	}
	if ((pid > 0) == (optind < argc))
		return usage();
	if (pid <= 0) {
		signal(SIGINT, SIG_IGN);
		return run_command(&floor, argv + optind);
	}
	sigaction(SIGINT, &on_end, NULL);
	sigaction(SIGTERM, &on_end, NULL);
	return watch(&floor, pid, seconds);
}
