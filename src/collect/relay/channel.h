/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A non-blocking connection, plain or TLS. Not thread-safe. */
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct spoor_channel {
	int fd;
	SSL *ssl;       /* NULL: plain */
	bool open;      /* connected, and hands have been shaken */
	bool wants_out; /* it goes on when something can be sent */
	char why[256];  /* what failed, after -EPROTO */
};

/* Takes fd. name: whose certificate it must be (a sender); NULL: we are the relay. -ENOMEM: fd is closed. */
int spoor_channel_init(struct spoor_channel *c, int fd, SSL_CTX *tls, const char *name);
void spoor_channel_close(struct spoor_channel *c);
/* 0: open; -EAGAIN: not yet; others: it failed. */
int spoor_channel_open(struct spoor_channel *c);
/* Bytes; 0: the other side closed it; -EAGAIN. */
ssize_t spoor_channel_read(struct spoor_channel *c, void *buf, size_t len);
ssize_t spoor_channel_write(struct spoor_channel *c, const void *buf, size_t len);
/* The other side's certificate: SHA-256 in hex; "-" without TLS. size: at least 65. */
void spoor_channel_peer(const struct spoor_channel *c, char *text, size_t size);
