/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct spoor_lookup {
	struct spoor_endpoint of;
	atomic_int users; /* who asks, and the thread */
	atomic_bool answered;
	int fd, r; /* once it is answered: what getaddrinfo() returned */
	struct addrinfo *all;
};

static void drop(struct spoor_lookup *l)
{
	if (atomic_fetch_sub(&l->users, 1) > 1)
		return;
	if (l->all)
		freeaddrinfo(l->all);
	close(l->fd);
	free(l);
}

static void *look_up(void *lookup)
{
	struct spoor_lookup *l = lookup;
	/* An address needs no network to be one: loopback is there without any. */
	const bool is_number = l->of.host[0] >= '0' && l->of.host[0] <= '9';
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = is_number ? 0 : AI_ADDRCONFIG };

	l->r = getaddrinfo(l->of.host, l->of.port, &hints, &l->all);
	atomic_store(&l->answered, true);
	eventfd_write(l->fd, 1);
	drop(l);
	return NULL;
}

int spoor_lookup_begin(const struct spoor_endpoint *of, struct spoor_lookup **ret)
{
	struct spoor_lookup *l = calloc(1, sizeof(*l));
	pthread_t thread;
	int r;

	if (!l)
		return -ENOMEM;
	l->of = *of;
	l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = l->fd < 0 ? errno : 0;
	atomic_init(&l->users, 2);
	if (!r)
		r = pthread_create(&thread, NULL, look_up, l);
	if (r) {
		if (l->fd >= 0)
			close(l->fd);
		free(l);
		return -r;
	}
	pthread_detach(thread);
	*ret = l;
	return 0;
}

int spoor_lookup_fd(const struct spoor_lookup *l)
{
	return l->fd;
}

bool spoor_lookup_answered(const struct spoor_lookup *l, int *ret, const struct addrinfo **addresses)
{
	if (!atomic_load(&l->answered))
		return false;
	*ret = l->r;
	*addresses = l->all;
	return true;
}

void spoor_lookup_free(struct spoor_lookup *l)
{
	if (l)
		drop(l);
}
