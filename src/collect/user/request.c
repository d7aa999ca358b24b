/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Clients' commands, and the answers of programs that they wait for. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.h"
#include "base/strings.h"
#include "base/time.h"
#include "collect/user/hub_internal.h"
#include "collect/user/urgent.h"

#define PATIENCE_NS SPOOR_NS_PER_SEC
#define MOST_WAIT_MS 500 /* for a client to read, in all */
#define GREET_NS (300 * 1000000ULL)

/* What is many lines does not fit into a socket at once. */
static bool send_in_time(struct spoor_hub_request *q, const void *m, size_t size)
{
	struct pollfd f = { .fd = q->client->sock.fd, .events = POLLOUT };

	while (send(f.fd, m, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		uint64_t before = spoor_now_monotonic();

		if (errno != EAGAIN || q->waited >= MOST_WAIT_MS)
			return false;
		poll(&f, 1, (int)(MOST_WAIT_MS - q->waited));
		q->waited += 1 + (spoor_now_monotonic() - before) / 1000000;
	}
	return true;
}

static void send_text(struct spoor_hub_request *q, const char *text, bool last)
{
	_Alignas(8) char buf[SPOOR_CONTROL_MAX_SIZE];
	struct spoor_control_text *m = (void *)buf;
	size_t n = strlen(text), room = sizeof(buf) - sizeof(*m);

	if (!q->client || q->client->sock.fd < 0)
		return;
	n = n < room ? n : room;
	*m = (struct spoor_control_text){
		.head = { SPOOR_CONTROL_MAGIC, SPOOR_CONTROL_VERSION, SPOOR_CONTROL_TEXT, sizeof(*m) + n, q->serial },
		.last = last,
		.result = last ? q->result : 0,
	};
	memcpy(m->text, text, n);
	/* A client that does not read what it asked for gets no more of it: its loss, of which it hears. */
	if (!send_in_time(q, m, m->head.size)) {
		shutdown(q->client->sock.fd, SHUT_WR);
		q->client = NULL;
	}
}

void spoor_hub_answer(struct spoor_hub_request *q, const char *text)
{
	if (q)
		send_text(q, text, false);
}

/* "2 programs, 6 sites; 1 other did not do it". */
static void sum_up(const struct spoor_hub_request *q, char *to, size_t size)
{
	unsigned did = q->programs - q->refused;
	const char *advice = q->enables && did && !q->sum ? ": 'spoor ust list' shows which there are" : "";
	char others[64] = "";

	snprintf(to, size, "%s", q->text);
	if (q->result || !q->programs)
		return;
	if (q->refused)
		snprintf(others, sizeof(others), "; %u %s did not do it", q->refused,
			 spoor_plural(q->refused, "other", "others"));
	snprintf(to, size, "%s%s%u %s, %ld %s%s%s%s%s", q->text, q->text[0] ? "; " : "", did,
		 spoor_plural(did, "program", "programs"), (long)q->sum, spoor_plural(q->sum, "site", "sites"), advice,
		 others, q->noted == q->concerned && q->noted ? "; " : "", q->noted == q->concerned ? q->note : "");
}

void spoor_request_free(struct spoor_hub_request *q)
{
	free(q->expected);
	free(q);
}

static void finish(struct spoor_hub *h, struct spoor_hub_request *q)
{
	struct spoor_hub_request **at = &h->requests;
	char text[sizeof(q->text) + sizeof(q->note) + 128];

	while (*at && *at != q)
		at = &(*at)->next;
	if (*at)
		*at = q->next;
	if (!q->result && q->refused && q->refused == q->programs && !q->stands) {
		q->result = -EIO;
		if (!q->text[0])
			snprintf(q->text, sizeof(q->text), "no process did it%s",
				 q->begins  ? "; the session is there all the same: 'spoor ust end' ends it" :
				 q->enables ? "; rules stand all the same: 'spoor ust disable' takes them back" :
					      "");
	}
	sum_up(q, text, sizeof(text));
	send_text(q, text, true);
	spoor_request_free(q);
}

void spoor_hub_stands(struct spoor_hub_request *q)
{
	q->stands = true;
}

void spoor_hub_enables(struct spoor_hub_request *q)
{
	q->enables = true;
}

void spoor_hub_begins(struct spoor_hub_request *q)
{
	q->begins = true;
}

void spoor_hub_result(struct spoor_hub_request *q, int result, const char *text)
{
	q->answered = true;
	q->result = result;
	snprintf(q->text, sizeof(q->text), "%s", text);
}

static bool all_have_answered(const struct spoor_hub_request *q)
{
	return q->answered && !q->awaited && !q->n_expected;
}

static bool is_complete(const struct spoor_hub_request *q)
{
	return all_have_answered(q) && !q->again && !q->greets;
}

void spoor_hub_greet_relay(struct spoor_hub *h, const struct spoor_ust_session *s, struct spoor_hub_request *q)
{
	spoor_hub_hurry(h);
	q->greets = s->id;
	q->greet_by = spoor_now_monotonic() + GREET_NS;
}

/* The session goes on without its relay, until that is there; who starts it is told. */
static void greet(struct spoor_hub *h, struct spoor_hub_request *q, uint64_t now)
{
	struct spoor_ust_session *s = h->sessions;
	struct spoor_error e = { "" };
	char text[640];

	while (s && s->id != q->greets)
		s = s->next;
	if (s && spoor_sender_welcome(s->sender, 0, &e) == -ETIMEDOUT && now < q->greet_by)
		return;
	q->greets = 0;
	if (!e.text[0])
		return;
	snprintf(text, sizeof(text), "the relay does not take it yet: %s", e.text);
	send_text(q, text, false);
}

void spoor_request_done(struct spoor_hub_request *q, uint32_t pid, int result, const char *text)
{
	char line[400];

	if (!q)
		return;
	q->programs++;
	q->refused += result < 0;
	q->sum += result > 0 ? result : 0;
	q->concerned += result > 0;
	if (result >= 0 && !*text)
		return;
	snprintf(line, sizeof(line), "%u: %s", pid, *text ? text : strerror(-result));
	send_text(q, line, false);
}

void spoor_request_expect(struct spoor_hub_request *q, uint32_t pid)
{
	uint32_t *grown = q ? reallocarray(q->expected, q->n_expected + 1, sizeof(*grown)) : NULL;

	if (!grown)
		return;
	q->expected = grown;
	q->expected[q->n_expected++] = pid;
}

void spoor_request_note(struct spoor_hub_request *q, int result, const char *text)
{
	spoor_request_done(q, 0, result, "");
	if (!q || result <= 0 || !*text)
		return;
	q->noted++;
	snprintf(q->note, sizeof(q->note), "%s", text);
}

static uint32_t *find_expected(const struct spoor_hub_request *q, const struct hub_program *p)
{
	for (unsigned i = 0; i < q->n_expected; i++)
		if (q->expected[i] == (uint32_t)p->cred.pid)
			return &q->expected[i];
	return NULL;
}

bool spoor_request_expects(const struct spoor_hub_request *q, const struct hub_program *p)
{
	return find_expected(q, p);
}

struct spoor_hub_request *spoor_request_for(struct spoor_hub *h, const struct hub_program *p,
					    const struct spoor_ust_session *s)
{
	struct spoor_hub_request *q = h->requests;

	while (q && (q->session != s || !spoor_request_expects(q, p)))
		q = q->next;
	return q;
}

static bool has_come(struct spoor_hub_request *q, const struct hub_program *p)
{
	uint32_t *at = find_expected(q, p);

	if (at)
		*at = q->expected[--q->n_expected];
	return at;
}

void spoor_requests_came(struct spoor_hub *h, const struct hub_program *p)
{
	for (struct spoor_hub_request *q = h->requests; q; q = q->next)
		has_come(q, p);
}

void spoor_requests_refused(struct spoor_hub *h, const struct hub_program *p, int error, const char *why)
{
	for (struct spoor_hub_request *q = h->requests; q; q = q->next)
		if (has_come(q, p))
			spoor_request_done(q, p->cred.pid, error, why);
}

static void give_up(struct spoor_hub *h, struct spoor_hub_request *q)
{
	char line[128];

	for (unsigned i = 0; i < q->n_expected; i++) {
		snprintf(line, sizeof(line), "%u: it does not answer: is SIGURG blocked there?", q->expected[i]);
		send_text(q, line, false);
		q->refused++;
		q->programs++;
		if (spoor_urgent_find_taker(q->expected[i]) == SPOOR_URGENT_BLOCKED)
			spoor_unreached_note(h, q, q->expected[i], SPOOR_URGENT_IS_BLOCKED);
	}
	q->n_expected = 0;
	for (struct hub_program *p = h->first; p; p = p->next)
		for (size_t i = 0; i < p->n_awaited;) {
			if (p->awaited[i].request != q) {
				i++;
				continue;
			}
			p->awaited[i] = p->awaited[--p->n_awaited];
			q->awaited--;
			spoor_request_done(q, p->cred.pid, -ETIMEDOUT, "it does not answer; what was asked stands");
		}
}

void spoor_requests_wait_longer(struct spoor_hub *h, uint64_t ns)
{
	for (struct spoor_hub_request *q = h->requests; q; q = q->next)
		q->deadline += ns;
}

/* Who ended before it came may have forked others in time, which nobody has called. */
static void forget_ended(struct spoor_hub *h, struct spoor_hub_request *q)
{
	for (unsigned i = 0; i < q->n_expected;) {
		uint32_t pid = q->expected[i];

		if (spoor_process_start(pid)) {
			i++;
			continue;
		}
		q->expected[i] = q->expected[--q->n_expected];
		if (!q->looks) {
			spoor_request_done(q, pid, -ESRCH, "it has ended");
			continue;
		}
		q->again = true;
		spoor_hub_hurry(h);
	}
}

/* A child of one that had not heard of it yet, and which was forked after the last look. */
static void look_again(struct spoor_hub *h, struct spoor_hub_request *q, uint64_t now)
{
	q->again = false;
	q->looks--;
	spoor_kick_all(h, now < q->deadline ? q : NULL);
}

void spoor_requests_tick(struct spoor_hub *h, uint64_t now)
{
	for (struct spoor_hub_request *q = h->requests, *next; q; q = next) {
		next = q->next;
		forget_ended(h, q);
		if (now >= q->deadline)
			give_up(h, q);
		if (q->greets)
			greet(h, q, now);
		if (q->again && all_have_answered(q))
			look_again(h, q, now);
		if (is_complete(q))
			finish(h, q);
	}
}

bool spoor_requests_have(const struct spoor_hub *h, const struct hub_program *client)
{
	const struct spoor_hub_request *q = h->requests;

	while (q && q->client != client)
		q = q->next;
	return q;
}

void spoor_requests_forget(struct spoor_hub *h, struct hub_program *client)
{
	for (struct spoor_hub_request *q = h->requests; q; q = q->next)
		if (q->client == client)
			q->client = NULL;
}

static bool may_command(const struct hub_program *p)
{
	return p->cred.uid == geteuid() || !p->cred.uid;
}

static void carry_out(struct spoor_hub *h, struct spoor_hub_request *q, const char *text, size_t len)
{
	spoor_hub_catch_up(h, q->client);
	h->o.command(h->o.ctx, h, text, len, q);
	spoor_hub_publish(h);
}

void spoor_request_refuse(struct hub_program *client, uint32_t serial, int error, const char *why)
{
	/* Everybody can ask for this, as often as he likes: nobody is waited for to read it. */
	struct spoor_hub_request q = { .client = client, .serial = serial, .result = error, .waited = MOST_WAIT_MS };

	send_text(&q, why, true);
}

int spoor_request_command(struct hub_program *client, const struct spoor_control_head *m, size_t size)
{
	struct spoor_hub *h = client->hub;
	struct spoor_hub_request *q;
	char text[SPOOR_CONTROL_MAX_SIZE + 1];
	size_t len = size - sizeof(*m);

	if (!may_command(client)) {
		spoor_request_refuse(client, m->serial, -EPERM, "only the recorder's user and root may give commands");
		return -EPERM;
	}
	q = calloc(1, sizeof(*q));
	if (!q)
		return 0;
	q->client = client;
	q->serial = m->serial;
	q->deadline = spoor_now_monotonic() + PATIENCE_NS;
	q->next = h->requests;
	h->requests = q;
	memcpy(text, (const char *)m + sizeof(*m), len);
	text[len] = '\0';
	carry_out(h, q, text, len);
	if (is_complete(q))
		finish(h, q);
	return 0;
}
