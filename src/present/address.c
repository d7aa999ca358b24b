/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "present/address.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "present/text.h"

static const char *family_name(unsigned family)
{
	switch (family) {
	case AF_UNSPEC:
		return "AF_UNSPEC";
	case AF_UNIX:
		return "AF_UNIX";
	case AF_INET:
		return "AF_INET";
	case AF_INET6:
		return "AF_INET6";
	case AF_NETLINK:
		return "AF_NETLINK";
	case AF_PACKET:
		return "AF_PACKET";
	case AF_VSOCK:
		return "AF_VSOCK";
	case AF_BLUETOOTH:
		return "AF_BLUETOOTH";
	case AF_ALG:
		return "AF_ALG";
	}
	return NULL;
}

static const char *type_name(unsigned type)
{
	static const char *const names[] = { [SOCK_STREAM] = "SOCK_STREAM",
					     [SOCK_DGRAM] = "SOCK_DGRAM",
					     [SOCK_RAW] = "SOCK_RAW",
					     [SOCK_RDM] = "SOCK_RDM",
					     [SOCK_SEQPACKET] = "SOCK_SEQPACKET" };

	return type < sizeof(names) / sizeof(*names) ? names[type] : NULL;
}

static void put_family(FILE *out, unsigned family, int json)
{
	const char *name = family_name(family);

	if (name)
		fprintf(out, json ? "\"%s\"" : "%s", name);
	else
		fprintf(out, "%u", family);
}

static void put_hex(FILE *out, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		fprintf(out, "%02x", bytes[i]);
}

/* sun_path: a name, "@..." for an abstract one, nothing for an unnamed socket. */
static size_t unix_name(const uint8_t *bytes, size_t len, char name[sizeof(struct sockaddr_un) + 1])
{
	size_t n = len - offsetof(struct sockaddr_un, sun_path);

	if (len <= offsetof(struct sockaddr_un, sun_path))
		return 0;
	if (n > sizeof(((struct sockaddr_un *)0)->sun_path))
		n = sizeof(((struct sockaddr_un *)0)->sun_path);
	memcpy(name, bytes + offsetof(struct sockaddr_un, sun_path), n);
	if (name[0])
		return strnlen(name, n);
	name[0] = '@';
	return n;
}

/* Address and port of AF_INET and AF_INET6; 0 if it is neither. */
static int inet_parts(const uint8_t *bytes, size_t len, char address[INET6_ADDRSTRLEN], unsigned *ret_port)
{
	uint16_t family, port;

	if (len < 8)
		return 0;
	memcpy(&family, bytes, 2);
	memcpy(&port, bytes + 2, 2);
	*ret_port = ntohs(port);
	if (family == AF_INET)
		return inet_ntop(AF_INET, bytes + 4, address, INET6_ADDRSTRLEN) != NULL;
	return family == AF_INET6 && len >= 24 && inet_ntop(AF_INET6, bytes + 8, address, INET6_ADDRSTRLEN);
}

/* Of AF_INET6: the interface that a link-local address is on; 0: none. */
static uint32_t inet6_scope(const uint8_t *bytes, size_t len)
{
	uint32_t scope = 0;

	if (len >= offsetof(struct sockaddr_in6, sin6_scope_id) + sizeof(scope))
		memcpy(&scope, bytes + offsetof(struct sockaddr_in6, sin6_scope_id), sizeof(scope));
	return scope;
}

void spoor_put_sockaddr(FILE *out, const uint8_t *bytes, size_t len)
{
	char address[INET6_ADDRSTRLEN], name[sizeof(struct sockaddr_un) + 1];
	uint16_t family;
	unsigned port;

	if (len < 2) {
		fputs("{}", out);
		return;
	}
	memcpy(&family, bytes, 2);
	fputs("{sa_family=", out);
	put_family(out, family, 0);
	if (inet_parts(bytes, len, address, &port) && family == AF_INET) {
		fprintf(out, ", sin_port=htons(%u), sin_addr=inet_addr(\"%s\")", port, address);
	} else if (inet_parts(bytes, len, address, &port)) {
		fprintf(out, ", sin6_port=htons(%u), sin6_addr=inet_pton(\"%s\")", port, address);
		if (inet6_scope(bytes, len))
			fprintf(out, ", sin6_scope_id=%" PRIu32, inet6_scope(bytes, len));
	} else if (family == AF_UNIX && len > 2) {
		fputs(", sun_path=\"", out);
		spoor_put_text(out, name, unix_name(bytes, len, name));
		fputc('"', out);
	} else if (len > 2) {
		fputs(", sa_data=0x", out);
		put_hex(out, bytes + 2, len - 2);
	}
	fputc('}', out);
}

void spoor_put_sockaddr_json(FILE *out, const uint8_t *bytes, size_t len)
{
	char address[INET6_ADDRSTRLEN], name[sizeof(struct sockaddr_un) + 1];
	uint16_t family;
	unsigned port;

	if (len < 2) {
		fputs("{}", out);
		return;
	}
	memcpy(&family, bytes, 2);
	fputs("{\"family\":", out);
	put_family(out, family, 1);
	if (inet_parts(bytes, len, address, &port)) {
		fprintf(out, ",\"address\":\"%s\",\"port\":%u", address, port);
		if (family == AF_INET6 && inet6_scope(bytes, len))
			fprintf(out, ",\"scope_id\":%" PRIu32, inet6_scope(bytes, len));
	} else if (family == AF_UNIX && len == 2) {
		fputs(",\"path\":null", out);
	} else if (family == AF_UNIX) {
		fputs(",\"path\":", out);
		spoor_put_json_bytes(out, name, unix_name(bytes, len, name));
	} else {
		fputs(",\"data\":\"", out);
		put_hex(out, bytes + 2, len - 2);
		fputc('"', out);
	}
	fputc('}', out);
}

/* ---- descriptors ---- */

/* The socket that def defines, or NULL; a short one at length in *wide, which has no path. */
static const struct spoor_socket *socket_of(const struct spoor_event_header *def, struct spoor_socket *wide)
{
	const struct spoor_socket4 *s = (const void *)def;

	if (def->id == SPOOR_EV_SOCKET)
		return (const void *)def;
	if (def->id != SPOOR_EV_SOCKET4)
		return NULL;
	*wide = (struct spoor_socket){ .family = AF_INET,
				       .type = s->type,
				       .protocol = s->protocol,
				       .state = s->state,
				       .lport = s->lport,
				       .rport = s->rport,
				       .ino = s->ino };
	memcpy(wide->laddr, s->laddr, sizeof(s->laddr));
	memcpy(wide->raddr, s->raddr, sizeof(s->raddr));
	return wide;
}

static void format_end(const struct spoor_socket *s, const uint8_t *address, unsigned port, char *buf, size_t size)
{
	char text[INET6_ADDRSTRLEN] = "?";

	inet_ntop(s->family, address, text, sizeof(text));
	snprintf(buf, size, s->family == AF_INET6 ? "[%s]:%u" : "%s:%u", text, port);
}

static int is_connected(const struct spoor_socket *s)
{
	static const uint8_t none[16];

	return s->rport || memcmp(s->raddr, none, sizeof(none)) != 0;
}

static void put_inet_socket(FILE *out, const struct spoor_socket *s)
{
	const char *name = s->protocol == IPPROTO_TCP || s->type == SOCK_STREAM ? "TCP" :
			   s->protocol == IPPROTO_UDP || s->type == SOCK_DGRAM  ? "UDP" :
										  "RAW";
	char local[80], remote[80];

	format_end(s, s->laddr, s->lport, local, sizeof(local));
	format_end(s, s->raddr, s->rport, remote, sizeof(remote));
	fprintf(out, "<%s%s:[%s%s%s]>", name, s->family == AF_INET6 ? "v6" : "", local, is_connected(s) ? "->" : "",
		is_connected(s) ? remote : "");
}

static void put_socket(FILE *out, const struct spoor_socket *s)
{
	if (s->family == AF_INET || s->family == AF_INET6) {
		put_inet_socket(out, s);
		return;
	}
	fputc('<', out);
	if (s->family == AF_UNIX)
		fputs("UNIX", out);
	else
		put_family(out, s->family, 0);
	fprintf(out, ":[%" PRIu64, (uint64_t)s->ino);
	if (s->path[0]) {
		fputs(",\"", out);
		spoor_put_string(out, s->path);
		fputc('"', out);
	}
	fputs("]>", out);
}

/* A pipe has no path, a namespace its kind alone: as in /proc, the inode tells them apart. buf is used for such. */
static const char *name_of(const struct spoor_file *file, char *buf, size_t size)
{
	int pipe = file->kind == SPOOR_FILE_FIFO && !file->path[0];

	if (!pipe && file->kind != SPOOR_FILE_NS)
		return file->path;
	snprintf(buf, size, "%.24s:[%" PRIu64 "]", pipe ? "pipe" : file->path, (uint64_t)file->ino);
	return buf;
}

void spoor_put_file(FILE *out, const struct spoor_segment *segment, uint32_t id)
{
	const struct spoor_event_header *def = id ? spoor_segment_file(segment, id) : NULL;
	const struct spoor_socket *s;
	struct spoor_socket wide;
	char buf[64];

	if (!def)
		return;
	s = socket_of(def, &wide);
	if (s) {
		put_socket(out, s);
		return;
	}
	fputc('<', out);
	spoor_put_string(out, name_of((const void *)def, buf, sizeof(buf)));
	fputc('>', out);
}

static void put_socket_json(FILE *out, const struct spoor_socket *s)
{
	char end[80];

	fputs(",\"socket\":{\"family\":", out);
	put_family(out, s->family, 1);
	if (type_name(s->type))
		fprintf(out, ",\"type\":\"%s\"", type_name(s->type));
	else
		fprintf(out, ",\"type\":%u", s->type);
	fprintf(out, ",\"protocol\":%u,\"state\":%u,\"inode\":%" PRIu64, s->protocol, s->state, (uint64_t)s->ino);
	if (s->family == AF_INET || s->family == AF_INET6) {
		format_end(s, s->laddr, s->lport, end, sizeof(end));
		fprintf(out, ",\"local\":\"%s\"", end);
		format_end(s, s->raddr, s->rport, end, sizeof(end));
		fprintf(out, is_connected(s) ? ",\"remote\":\"%s\"" : ",\"remote\":null", end);
	}
	if (s->family == AF_UNIX) {
		fputs(",\"path\":", out);
		spoor_put_json_string(out, s->path[0] ? s->path : NULL);
	}
	fputc('}', out);
}

static const char *kind_name(unsigned kind)
{
	static const char *const names[] = { [SPOOR_FILE_REG] = "file",
					     [SPOOR_FILE_DIR] = "directory",
					     [SPOOR_FILE_CHR] = "character device",
					     [SPOOR_FILE_BLK] = "block device",
					     [SPOOR_FILE_FIFO] = "pipe",
					     [SPOOR_FILE_LNK] = "link",
					     [SPOOR_FILE_ANON] = "anonymous",
					     [SPOOR_FILE_NS] = "namespace",
					     [SPOOR_FILE_SOCK] = "socket" };

	return kind < sizeof(names) / sizeof(*names) ? names[kind] : NULL;
}

void spoor_put_file_json(FILE *out, const struct spoor_segment *segment, uint32_t id)
{
	const struct spoor_event_header *def = id ? spoor_segment_file(segment, id) : NULL;
	const struct spoor_file *file = (const void *)def;
	const struct spoor_socket *s;
	struct spoor_socket wide;
	char buf[64];

	if (!def)
		return;
	s = socket_of(def, &wide);
	if (s) {
		put_socket_json(out, s);
		return;
	}
	fputs(",\"path\":", out);
	spoor_put_json_string(out, name_of(file, buf, sizeof(buf)));
	fputs(",\"kind\":", out);
	spoor_put_json_string(out, kind_name(file->kind));
}
