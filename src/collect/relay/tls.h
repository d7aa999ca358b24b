/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Certificates of either side. Both sides show one and check the other's against the CA; a sender also checks that the
 * relay's is of the host that it wanted. TLS 1.2 and later. Used by several threads.
 */
#include <stdbool.h>

#include <openssl/ssl.h>

#include "base/error.h"

struct spoor_tls_files {
	const char *ca, *cert, *key; /* PEM; key NULL: in cert */
};

/* -EINVAL: a file is missing or is none. SSL_CTX_free() *ret. */
int spoor_tls_new(const struct spoor_tls_files *f, bool server, SSL_CTX **ret, struct spoor_error *e);
/* Why a handshake or a transfer failed: one line. */
void spoor_tls_reason(SSL *ssl, char *text, size_t size);
