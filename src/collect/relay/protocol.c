/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/protocol.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "trace/writer.h"

#define OP_MOST sizeof(struct spoor_relay_op)

/* What each message can have: at least, at most. */
static const struct {
	uint32_t least, most;
} sizes[SPOOR_RELAY_TYPE_MAX] = {
	[SPOOR_RELAY_HELLO] = { sizeof(struct spoor_relay_hello), sizeof(struct spoor_relay_hello) },
	[SPOOR_RELAY_WELCOME] = { sizeof(struct spoor_relay_welcome), sizeof(struct spoor_relay_welcome) },
	[SPOOR_RELAY_REFUSE] = { sizeof(struct spoor_relay_refuse), sizeof(struct spoor_relay_refuse) },
	[SPOOR_RELAY_WAIT] = { sizeof(struct spoor_relay_refuse), sizeof(struct spoor_relay_refuse) },
	[SPOOR_RELAY_DIGEST] = { sizeof(struct spoor_relay_digest),
				 sizeof(struct spoor_relay_digest) + SPOOR_RELAY_DATA },
	[SPOOR_RELAY_ACK] = { sizeof(struct spoor_relay_head), sizeof(struct spoor_relay_head) },
	[SPOOR_RELAY_PING] = { sizeof(struct spoor_relay_head), sizeof(struct spoor_relay_head) },
	[SPOOR_RELAY_PONG] = { sizeof(struct spoor_relay_head), sizeof(struct spoor_relay_head) },
	[SPOOR_RELAY_SEGMENT] = { OP_MOST, OP_MOST },
	[SPOOR_RELAY_METADATA] = { OP_MOST, SPOOR_RELAY_MOST },
	[SPOOR_RELAY_READY] = { OP_MOST, OP_MOST },
	[SPOOR_RELAY_PACKET] = { OP_MOST + 1, SPOOR_RELAY_MOST },
	[SPOOR_RELAY_MANIFEST] = { OP_MOST + 1, SPOOR_RELAY_MOST },
	[SPOOR_RELAY_DROP] = { OP_MOST, OP_MOST },
	[SPOOR_RELAY_END] = { OP_MOST, OP_MOST },
};

/* HELLO and WELCOME of other versions may be longer or shorter, up to here: they are there to be told apart. */
#define GREETING_LEAST offsetof(struct spoor_relay_hello, kind)
#define GREETING_MOST 4096

static bool is_greeting(unsigned type)
{
	return type >= SPOOR_RELAY_HELLO && type <= SPOOR_RELAY_REFUSE;
}

int spoor_relay_size(const void *head)
{
	struct spoor_relay_head h;

	memcpy(&h, head, sizeof(h));
	if (h.type >= SPOOR_RELAY_TYPE_MAX || !sizes[h.type].least || h.zero)
		return -EBADMSG;
	if (is_greeting(h.type))
		return h.size < GREETING_LEAST || h.size > GREETING_MOST ? -EBADMSG : (int)h.size;
	return h.size < sizes[h.type].least || h.size > sizes[h.type].most ? -EBADMSG : (int)h.size;
}

static bool is_text(const char *text, size_t size)
{
	return memchr(text, 0, size) != NULL;
}

static int check_greeting(const void *message, size_t size)
{
	const struct spoor_relay_hello *hello = message;
	const struct spoor_relay_welcome *welcome = message;
	const struct spoor_relay_refuse *refuse = message;

	if (memcmp(hello->magic, SPOOR_RELAY_MAGIC, sizeof(hello->magic)))
		return -EBADMSG;
	if (hello->head.type != SPOOR_RELAY_REFUSE && hello->version != SPOOR_RELAY_VERSION)
		return -EPROTO;
	if (size != sizes[hello->head.type].least)
		return -EBADMSG;
	switch (hello->head.type) {
	case SPOOR_RELAY_HELLO:
		if (hello->kind < SPOOR_RELAY_BEGIN || hello->kind > SPOOR_RELAY_RESUME || !hello->parts ||
		    hello->parts > 3 || hello->zero)
			return -EBADMSG;
		return spoor_relay_is_name(hello->host, sizeof(hello->host)) &&
				       spoor_relay_is_name(hello->name, sizeof(hello->name)) ?
			       0 :
			       -EBADMSG;
	case SPOOR_RELAY_WELCOME:
		return spoor_relay_is_name(welcome->name, sizeof(welcome->name)) ? 0 : -EBADMSG;
	default:
		return is_text(refuse->text, sizeof(refuse->text)) ? 0 : -EBADMSG;
	}
}

int spoor_relay_check(const void *message, size_t size)
{
	const struct spoor_relay_head *h = message;
	const struct spoor_relay_refuse *wait = message;

	if (size < sizeof(*h) || spoor_relay_size(h) != (int)size)
		return -EBADMSG;
	if (is_greeting(h->type))
		return check_greeting(message, size);
	if (h->type >= SPOOR_RELAY_SEGMENT)
		return h->number ? 0 : -EBADMSG;
	if (h->type == SPOOR_RELAY_WAIT)
		return is_text(wait->text, sizeof(wait->text)) ? 0 : -EBADMSG;
	return 0;
}

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
	       c == '_';
}

int spoor_relay_is_name(const char *name, size_t max)
{
	size_t n = 0;

	while (n < max && is_plain(name[n]))
		n++;
	return n && n < max && !name[n] && name[0] != '.';
}

void spoor_relay_make_name(const char *from, char *to, size_t max)
{
	size_t n = 0;

	for (; *from && n + 1 < max; from++, n++)
		to[n] = is_plain(*from) && (n || *from != '.') ? *from : '_';
	if (!n)
		to[n++] = '_';
	to[n] = '\0';
}

void spoor_relay_make_host(const char *from, char to[SPOOR_RELAY_HOST])
{
	char name[SPOOR_RELAY_HOST];

	spoor_relay_make_name(from, name, sizeof(name));
	spoor_host_directory(name, to, SPOOR_RELAY_HOST);
}
