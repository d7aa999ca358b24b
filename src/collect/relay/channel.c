/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "collect/relay/tls.h"

static bool is_address(const char *name)
{
	struct in6_addr any;

	return inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1;
}

static int expect(SSL *ssl, const char *name)
{
	if (is_address(name))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

int spoor_channel_init(struct spoor_channel *c, int fd, SSL_CTX *tls, const char *name)
{
	/* Who connects speaks first: he waits until he can, and not for a word of the other side. */
	*c = (struct spoor_channel){ .fd = fd, .wants_out = tls && name };
	if (!tls)
		return 0;
	c->ssl = SSL_new(tls);
	if (!c->ssl || SSL_set_fd(c->ssl, fd) != 1 || (name && !expect(c->ssl, name))) {
		spoor_channel_close(c);
		return -ENOMEM;
	}
	if (name)
		SSL_set_connect_state(c->ssl);
	else
		SSL_set_accept_state(c->ssl);
	return 0;
}

void spoor_channel_close(struct spoor_channel *c)
{
	SSL_free(c->ssl);
	if (c->fd >= 0)
		close(c->fd);
	*c = (struct spoor_channel){ .fd = -1 };
}

/* Of a call that did not succeed. */
static int failed(struct spoor_channel *c, int r)
{
	int err = errno;

	switch (SSL_get_error(c->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		c->wants_out = false;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		c->wants_out = true;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		if (!ERR_peek_error() && SSL_get_verify_result(c->ssl) == X509_V_OK)
			return err && r < 0 ? -err : -ECONNRESET;
		break;
	}
	spoor_tls_reason(c->ssl, c->why, sizeof(c->why));
	return -EPROTO;
}

static int connected(const struct spoor_channel *c)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -errno;
	return -err;
}

int spoor_channel_open(struct spoor_channel *c)
{
	int r;

	if (c->open)
		return 0;
	r = connected(c);
	if (r)
		return r;
	if (c->ssl) {
		ERR_clear_error();
		errno = 0;
		r = SSL_do_handshake(c->ssl);
		if (r != 1) {
			r = failed(c, r);
			return r ? r : -ECONNRESET;
		}
	}
	c->open = true;
	c->wants_out = false;
	return 0;
}

ssize_t spoor_channel_read(struct spoor_channel *c, void *buf, size_t len)
{
	ssize_t n;

	if (c->ssl) {
		ERR_clear_error();
		errno = 0;
		n = SSL_read(c->ssl, buf, (int)len);
		return n > 0 ? n : failed(c, (int)n);
	}
	n = recv(c->fd, buf, len, MSG_DONTWAIT);
	return n >= 0 ? n : errno == EINTR ? -EAGAIN : -errno;
}

ssize_t spoor_channel_write(struct spoor_channel *c, const void *buf, size_t len)
{
	ssize_t n;

	c->wants_out = false;
	if (c->ssl) {
		ERR_clear_error();
		errno = 0;
		n = SSL_write(c->ssl, buf, (int)len);
		if (n > 0)
			return n;
		n = failed(c, (int)n);
		return n ? n : -EPIPE;
	}
	n = send(c->fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0)
		return n;
	c->wants_out = errno == EAGAIN;
	return errno == EINTR ? -EAGAIN : -errno;
}

void spoor_channel_peer(const struct spoor_channel *c, char *text, size_t size)
{
	X509 *cert = c->ssl ? SSL_get1_peer_certificate(c->ssl) : NULL;
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	snprintf(text, size, "-");
	if (!cert)
		return;
	if (X509_digest(cert, EVP_sha256(), digest, &n) == 1)
		for (unsigned i = 0; i < n && 2 * i + 2 < size; i++)
			snprintf(text + 2 * i, size - 2 * i, "%02x", digest[i]);
	X509_free(cert);
}
