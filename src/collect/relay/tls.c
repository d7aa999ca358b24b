/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

/* The first error of a file that cannot be read is the system's; of one that makes no sense, the last says most. */
static int wrong(struct spoor_error *e, const char *file, const char *what)
{
	unsigned long first = ERR_peek_error(), last = ERR_peek_last_error();
	const char *why = last ? ERR_reason_error_string(last) : NULL;

	ERR_clear_error();
	if (ERR_SYSTEM_ERROR(first))
		return spoor_fail(e, EINVAL, "%s: cannot be read: %s", file, strerror(ERR_GET_REASON(first)));
	return spoor_fail(e, EINVAL, "%s: %s: %s", file, what, why ? why : "it makes no sense");
}

/* Nobody is there to be asked; OpenSSL would ask a terminal, twice, and wait. */
static int no_passphrase(char *buf, int size, int writing, void *asked)
{
	(void)buf;
	(void)size;
	(void)writing;
	*(bool *)asked = true;
	return 0;
}

static int wrong_key(struct spoor_error *e, const char *file, bool encrypted)
{
	bool another = ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509;

	if (encrypted) {
		ERR_clear_error();
		return spoor_fail(e, EINVAL, "%s: the key has a passphrase: give one without (openssl pkey -in FILE)",
				  file);
	}
	return wrong(e, file, another ? "not the certificate's key" : "no key");
}

static int load_key(SSL_CTX *c, const char *file, struct spoor_error *e)
{
	bool encrypted = false;
	int r = 0;

	SSL_CTX_set_default_passwd_cb(c, no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(c, &encrypted);
	if (SSL_CTX_use_PrivateKey_file(c, file, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(c) != 1)
		r = wrong_key(e, file, encrypted);
	SSL_CTX_set_default_passwd_cb_userdata(c, NULL);
	return r;
}

static int load(SSL_CTX *c, const struct spoor_tls_files *f, struct spoor_error *e)
{
	if (!f->ca || !f->cert)
		return spoor_fail(e, EINVAL, "tls needs certificates: a CA's, one's own and its key (PEM files)");
	ERR_clear_error();
	if (SSL_CTX_load_verify_locations(c, f->ca, NULL) != 1)
		return wrong(e, f->ca, "no certificate of a CA");
	if (SSL_CTX_use_certificate_chain_file(c, f->cert) != 1)
		return wrong(e, f->cert, "no certificate");
	return load_key(c, f->key ? f->key : f->cert, e);
}

int spoor_tls_new(const struct spoor_tls_files *f, bool server, SSL_CTX **ret, struct spoor_error *e)
{
	SSL_CTX *c = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
	int r;

	if (!c)
		return spoor_fail(e, ENOMEM, "out of memory");
	SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
	/* Messages have sizes: that a connection ends early needs no second way to be seen. */
	SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(c, 0);
	SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				    SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_verify(c, SSL_VERIFY_PEER | (server ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
	r = load(c, f, e);
	if (r) {
		SSL_CTX_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

/* What we were told by an alert, of which most say something else. */
static bool is_about_certificate(unsigned long code)
{
	switch (ERR_GET_REASON(code)) {
	case SSL_R_SSLV3_ALERT_NO_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
	case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
	case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
		return true;
	}
	return false;
}

void spoor_tls_reason(SSL *ssl, char *text, size_t size)
{
	unsigned long code = ERR_peek_error();
	long verify = SSL_get_verify_result(ssl);
	const char *why = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	if (verify != X509_V_OK)
		snprintf(text, size, "the other side's certificate: %s", X509_verify_cert_error_string(verify));
	else if (why && is_about_certificate(code))
		snprintf(text, size, "the other side refused our certificate (%s)", why);
	else if (why && ERR_GET_REASON(code) == SSL_R_SSLV3_ALERT_BAD_RECORD_MAC)
		snprintf(text, size, "what we sent was damaged on the way (%s)", why);
	else if (why && ERR_GET_REASON(code) == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC)
		snprintf(text, size, "what the other side sent was damaged on the way (%s)", why);
	else if (why && strstr(why, "alert"))
		snprintf(text, size, "the other side ended the connection (%s)", why);
	else if (why && strstr(why, "wrong version number"))
		snprintf(text, size, "the other side does not speak TLS");
	else
		snprintf(text, size, "TLS failed: %s", why ? why : "the connection was closed");
}
