/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a hostile recorder sends to a program that it traces, over a real socket. Input: a list of deeds, each a byte
 * and what it takes behind it; what is missing is 0. The library begins as in any program, finds the socket by its
 * environment variable, and has sites here that its rules switch. Whatever came, at an input's end all sessions are
 * ended by messages: then nothing may be on, and no descriptor more be open than before.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/control/connection.h"
#include "agent/control/control.h"
#include "agent/control/messages.h"
#include "agent/core/object_table.h"
#include "agent/core/perf.h"
#include "agent/ust/filter.h"
#include "agent/ust/filter_core.h"
#include "agent/ust/limits.h"
#include "agent/ust/rules.h"
#include "unwind/row_layout.h"

#include <spoor/marker.h>
#include <spoor/tracepoint.h>

#define MOST_DEEDS 200
#define MOST_FILTERS 1000 /* other than the known ones: the library keeps each for ever */
#define MOST_BLOCK_US 200 /* what is asked for is waited: a run takes no longer */
#define MOST_FDS 6
#define N(array) (sizeof(array) / sizeof(*(array)))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

/* ---- the program ---- */

SPOOR_TRACEPOINT(fuzz, number, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
SPOOR_TRACEPOINT_LEVEL(fuzz, text, SPOOR_LEVEL_DEBUG, TP_PROTO(const char *s, int n), TP_ARGS(s, n),
		       TP_FIELDS(spoor_string(s, s), spoor_text(t, s, n)))
SPOOR_TRACEPOINT_LEVEL(other, many, SPOOR_LEVEL_ERR, TP_PROTO(const long *a, int n), TP_ARGS(a, n),
		       TP_FIELDS(spoor_sequence(long, q, a, n), spoor_float(double, f, n)))

static unsigned evaluated; /* arguments: one for each event */

static __attribute__((noinline)) void fire(unsigned n)
{
	static const long many[600] = { 1, -1 };

	while (n--) {
		spoor_trace(fuzz, number, (int)evaluated++);
		spoor_trace(fuzz, text, "some text", (int)(evaluated++ % 9));
		spoor_trace(other, many, many, (int)(evaluated++ % N(many)));
		trace_mark(fuzz_mark, "n %d s %s", (int)evaluated++, "some");
		spoor_log("%u were evaluated", evaluated++);
	}
}

/* ---- what a deed takes ---- */

static const uint8_t *in;
static size_t in_left;

static uint8_t take(void)
{
	if (!in_left)
		return 0;
	in_left--;
	return *in++;
}

static uint32_t take16(void)
{
	uint32_t low = take();

	return low | (uint32_t)take() << 8;
}

/* ---- the recorder: its socket ---- */

static struct sockaddr_un place = { .sun_family = AF_UNIX };
static int listening = -1, peer = -1;

static void remove_place(void)
{
	unlink(place.sun_path);
}

/* Before the library's own, which is of the same priority and linked behind it: it is to find the socket. */
static void prepare(void)
{
	snprintf(place.sun_path, sizeof(place.sun_path), "/tmp/spoor-fuzz-messages-%d", getpid());
	setenv(SPOOR_CONTROL_VARIABLE, place.sun_path, 1);
	listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	check(listening >= 0 && !bind(listening, (struct sockaddr *)&place, sizeof(place)) && !listen(listening, 64));
}
static void (*prepare_entry)(void) __attribute__((section(".init_array.00000"), used)) = prepare;

/* One at a time: the program has come anew. */
static void let_in(void)
{
	int fd;

	while ((fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (peer >= 0)
			close(peer);
		peer = fd;
	}
}

static void hang_up(void)
{
	if (peer >= 0)
		close(peer);
	peer = -1;
}

/* It cannot be made smaller, and is not larger than a program may be asked to have. */
static void check_arena(int fd)
{
	struct stat st;

	check(!fstat(fd, &st) && (uint64_t)st.st_size < UST_MOST_BUFFERS + (128 << 20));
	check(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
}

/* Closes what came with it. Returns how many. */
static int close_passed(struct msghdr *msg)
{
	struct cmsghdr *c;
	int n = 0, fd;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		check(c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(fd)));
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		check_arena(fd);
		close(fd);
		n++;
	}
	return n;
}

/* What the program says has its form, whatever it was told. */
static bool hear_one(void)
{
	union {
		struct spoor_control_head head;
		struct spoor_control_done done;
		char all[SPOOR_CONTROL_MAX_SIZE];
	} m;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
	struct iovec iov = { &m, sizeof(m) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	ssize_t n = recvmsg(peer, &msg, MSG_CMSG_CLOEXEC);
	int passed;

	if (n <= 0)
		return false;
	passed = close_passed(&msg);
	check((size_t)n >= sizeof(m.head) && m.head.magic == SPOOR_CONTROL_MAGIC && m.head.size == n);
	check(m.head.version == SPOOR_CONTROL_VERSION && passed == (m.head.type == SPOOR_CONTROL_ARENA));
	if (m.head.type == SPOOR_CONTROL_DONE)
		check(n == sizeof(m.done) && memchr(m.done.text, 0, sizeof(m.done.text)));
	else if (m.head.type == SPOOR_CONTROL_HELLO)
		check(n == sizeof(struct spoor_control_hello));
	else
		check(m.head.type == SPOOR_CONTROL_ARENA && n == sizeof(struct spoor_control_arena));
	return true;
}

static void hear(void)
{
	let_in();
	while (peer >= 0 && hear_one())
		;
}

/* As the listener does it, as a kick does it, or as an event does that waits for rows. Who has no connection comes. */
static void serve(unsigned how)
{
	bool connected;

	check(!spoor_agent_lock(true));
	connected = connection_fd() >= 0 || connection_open(how & 1 ? SPOOR_HELLO_KICKED : 0, 0) >= 0;
	check(connected);
	if (how % 3 == 0)
		messages_serve();
	else if (how % 3 == 1)
		messages_serve_all(0);
	spoor_agent_unlock();
	if (how % 3 == 2)
		spoor_control_look();
	hear();
}

static bool send_to_program(const void *data, size_t size, const int *fds, size_t n_fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(MOST_FDS * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)data, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c = (struct cmsghdr *)control;

	if (n_fds) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	return sendmsg(peer, &msg, MSG_NOSIGNAL) >= 0 || errno != EAGAIN;
}

/* ---- the recorder: its messages ---- */

union message {
	struct spoor_control_head head;
	struct spoor_control_setup setup;
	struct spoor_control_rule rule;
	struct spoor_control_record record;
	struct spoor_control_end end;
	struct spoor_control_rows rows;
	uint8_t all[SPOOR_CONTROL_MAX_SIZE];
};

static uint32_t named[MOST_DEEDS]; /* sessions of SETUPs, to be ended */
static unsigned n_named;
static bool by_board; /* messages come from the board */
static struct {
	bool wanted;
	uint32_t at, cut;
	uint8_t value;
} damage; /* of the next message */

static bool is_known(const char *filter);

/* The library keeps filters for ever, and waits as long as it is told. */
static void tame(union message *m, size_t size)
{
	static unsigned n_filters;
	struct filter f;
	const char *at;
	unsigned i;

	if (m->head.type == SPOOR_CONTROL_SETUP && size == sizeof(m->setup)) {
		named[n_named++] = m->setup.session;
		for (i = 0; i < SPOOR_ARENA_MAX_CHANNELS; i++)
			if (m->setup.channels[i].block_us <= UST_MOST_BLOCK_US) /* more is refused */
				m->setup.channels[i].block_us %= MOST_BLOCK_US;
	}
	if (m->head.type != SPOOR_CONTROL_RULE || size != sizeof(m->rule))
		return;
	m->rule.filter[sizeof(m->rule.filter) - 1] = '\0';
	if (!is_known(m->rule.filter) && !filter_parse(m->rule.filter, &f, &at) && n_filters++ >= MOST_FILTERS)
		m->rule.filter[0] = '\0';
}

/* The board's reader lets nothing through but whole messages of these types. */
static bool may_be_on_board(const union message *m, size_t size)
{
	switch (m->head.type) {
	case SPOOR_CONTROL_SETUP:
		return m->setup.session && size == sizeof(m->setup);
	case SPOOR_CONTROL_RULE:
		return size == sizeof(m->rule);
	case SPOOR_CONTROL_RECORD:
		return size == sizeof(m->record);
	}
	return false;
}

static void take_from_board(const union message *m)
{
	check(!spoor_agent_lock(true));
	messages_take(&m->head);
	spoor_agent_unlock();
	hear();
}

static void send_with(union message *m, unsigned type, size_t size, const int *fds, size_t n_fds)
{
	uint32_t of = m->head.serial, serial = take();

	m->head = (struct spoor_control_head){ SPOOR_CONTROL_MAGIC, SPOOR_CONTROL_VERSION, (uint16_t)type,
					       (uint32_t)size, of ? of : serial };
	if (damage.wanted) {
		m->all[damage.at % size] = damage.value;
		if (damage.cut)
			size = damage.cut % (size + 1);
	}
	tame(m, size);
	if (by_board && !damage.wanted && may_be_on_board(m, size))
		take_from_board(m);
	else if (peer >= 0 && !send_to_program(m, size, fds, n_fds)) {
		serve(0); /* it has not room for more */
		if (peer >= 0)
			send_to_program(m, size, fds, n_fds);
	}
	damage.wanted = false;
}

static uint32_t take_session(void)
{
	return take() % 12;
}

static void take_channel(struct spoor_control_channel *c)
{
	static const uint32_t packets[] = { 0, 4096, 8192, 4096, 65536, 1 << 20, 4095, 12288, 2 << 20, 0xffffffff };
	unsigned budget;

	memset(c->name, 'a' + take() % 3, sizeof(c->name));
	c->mode = take() % 4;
	c->packet_size = packets[take() % N(packets)];
	c->share = take() % 5;
	c->block_us = take();
	c->contexts = take16() | (uint32_t)take() << 16;
	c->stack_mode = take() % 7;
	budget = take();
	c->stack_budget = budget == 255 ? 0xffff : (uint16_t)budget;
}

static void deed_setup(void)
{
	static const uint64_t buffers[] = { 65536,
					    65536,
					    32768,
					    1 << 18,
					    1 << 20,
					    0,
					    8191,
					    1,
					    UST_MOST_BUFFERS,
					    8ULL << 40,
					    UST_MOST_BUFFERS + 1,
					    1ULL << 62,
					    UINT64_MAX };
	union message m = { .setup = { .flags = take() } };
	unsigned i;

	m.setup.n_rules = take() % 8;
	if (m.setup.n_rules == 7)
		m.setup.n_rules = UINT32_MAX;
	m.setup.buffers = buffers[take() % N(buffers)];
	m.setup.n_channels = take() % 10;
	m.setup.session = take_session();
	m.setup.left = take() % 4;
	m.setup.answers = take() % 2;
	m.setup.change = take();
	for (i = 0; i < m.setup.n_channels && i < SPOOR_ARENA_MAX_CHANNELS; i++)
		take_channel(&m.setup.channels[i]);
	send_with(&m, SPOOR_CONTROL_SETUP, sizeof(m.setup), NULL, 0);
}

static const char *const patterns[] = { "*",       "fuzz:*",     "fuzz:number",      "fuzz:text",       "other:*",
					"!fuzz:*", "log:*",      "marker:fuzz_mark", "?uzz:n*,other:*", "nothing:*",
					"",        ",,!,*a*b*c*" };
static const char *const filters[] = { "",
				       "",
				       "n > 3",
				       "n < 100 && n != 7",
				       "s == \"some*\"",
				       "missing == 1",
				       "n >",
				       "(((n > 1) || q[0] == 1))",
				       "callstack == 1",
				       "vpid > 0",
				       "procname == \"fuzz*\"",
				       "\"" };

static bool is_known(const char *filter)
{
	unsigned i;

	for (i = 0; i < N(filters); i++)
		if (!strcmp(filter, filters[i]))
			return true;
	return false;
}

/* One that is known, or what the input says. */
static void take_text(char *to, size_t size, const char *const *known, size_t n_known)
{
	size_t which = take(), i, n;

	if (which < 200) {
		strcpy(to, known[which % n_known]);
		return;
	}
	n = which == 255 ? size : (which - 200) % size;
	for (i = 0; i < n; i++)
		to[i] = (char)(in_left ? take() : '*');
}

static void deed_rule(void)
{
	union message m = { .rule = { .session = take_session() } };

	m.rule.enable = take() % 4 != 3;
	m.rule.channels = take();
	m.rule.level = take();
	m.rule.kind = take() % 6;
	m.rule.change = take();
	take_text(m.rule.pattern, sizeof(m.rule.pattern), patterns, N(patterns));
	take_text(m.rule.filter, sizeof(m.rule.filter), filters, N(filters));
	send_with(&m, SPOOR_CONTROL_RULE, sizeof(m.rule), NULL, 0);
}

static void deed_record(void)
{
	union message m = { .record = { .session = take_session() } };

	m.record.on = take() % 2;
	m.record.change = take();
	send_with(&m, SPOOR_CONTROL_RECORD, sizeof(m.record), NULL, 0);
}

static void send_end(uint32_t session)
{
	union message m = { .end = { .session = session } };

	send_with(&m, SPOOR_CONTROL_END, sizeof(m.end), NULL, 0);
}

static void deed_end(void)
{
	send_end(take_session());
}

/* ---- the recorder: rows ---- */

static void put(int fd, const void *data, size_t size)
{
	check(write(fd, data, size) == (ssize_t)size);
}

/* Rows for all of the object's code, of rules that are the input's. */
static void write_rows(int fd, const struct code_object *o)
{
	struct spoor_row_file f = { .magic = SPOOR_ROW_FILE_MAGIC,
				    .version = SPOOR_ROW_FILE_VERSION,
				    .header_size = sizeof(f) };
	struct spoor_row_page page = { .first = take() % 4 };
	uint32_t i;

	f.text_base = o->start - o->bias;
	f.n_pages = (uint32_t)((o->end - o->start) >> SPOOR_TEXT_PAGE_SHIFT) % 64 + 1;
	f.n_rules = take() % 6;
	f.n_rows = take() % 20;
	page.count = take() % 24;
	put(fd, &f, sizeof(f));
	for (i = 0; i < f.n_pages; i++)
		put(fd, &page, sizeof(page));
	for (i = 0; i < f.n_rules; i++) {
		struct spoor_rule r = { .op = take() % 13 };

		r.reg_rbp = take();
		r.rbp_off = (int16_t)take16();
		r.cfa_off = (int32_t)take16();
		r.cfa_off |= (int32_t)(take16() << 16);
		put(fd, &r, sizeof(r));
	}
	for (i = 0; i < f.n_rows; i++) {
		struct spoor_row r = { .pc = (uint16_t)(i ? take16() : 0) };

		r.rule = take() % 8;
		put(fd, &r, sizeof(r));
	}
}

enum { FILE_NONE, FILE_ROWS, FILE_OPEN, FILE_GARBAGE, FILE_DEVICE, FILE_SEVERAL, FILE_MANY, FILE_DAMAGED, FILE_KINDS };

/* -1: none. */
static int make_file(unsigned kind, const struct code_object *o)
{
	uint8_t bytes[200];
	unsigned i;
	int fd;

	if (kind == FILE_NONE)
		return -1;
	if (kind == FILE_DEVICE)
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	fd = memfd_create("rows", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	check(fd >= 0);
	if (kind == FILE_GARBAGE) {
		for (i = 0; i < sizeof(bytes); i++)
			bytes[i] = take();
		put(fd, bytes, sizeof(bytes));
	} else {
		write_rows(fd, o);
	}
	if (kind == FILE_DAMAGED) {
		*bytes = take();
		check(pwrite(fd, bytes, 1, take() % sizeof(struct spoor_row_file)) == 1);
	}
	if (kind != FILE_OPEN)
		check(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE));
	return fd;
}

static void deed_rows(void)
{
	union message m = { .rows = { .session = take_session() } };
	unsigned which = take(), kind = take() % FILE_KINDS, i, n;
	const struct code_object *o = &code_objects[which % n_code_objects];
	int fds[MOST_FDS], fd = make_file(kind, o);

	m.rows.app = take();
	m.rows.limit = take();
	if (which < 200) {
		m.head.serial = code_object_number(o);
		m.rows.start = o->start;
		m.rows.end = o->end;
		m.rows.bias = o->bias;
	} else if (which < 228) {
		m.rows.start = take16();
	}
	for (i = 0; i < MOST_FDS; i++)
		fds[i] = fd;
	n = kind == FILE_SEVERAL ? 3 : kind == FILE_MANY ? MOST_FDS : fd >= 0;
	send_with(&m, SPOOR_CONTROL_ROWS, sizeof(m.rows), fds, n);
	if (fd >= 0)
		close(fd);
}

/* ---- the recorder: what has no sense ---- */

static void deed_nonsense(void)
{
	static const size_t sizes[] = { 0, 1, 15, 16, 17, 272, 784, 4096, 4097, 20000 };
	static union message m;
	static uint8_t large[20000];
	unsigned type = take();
	size_t size = sizes[take() % N(sizes)];
	int fd = take() % 2 ? listening : -1;

	if (type < 64 && size >= sizeof(m.head) && size <= sizeof(m))
		send_with(&m, type, size, &fd, fd >= 0);
	else if (peer >= 0)
		send_to_program(large, size, &fd, fd >= 0);
}

static void deed_damage(void)
{
	damage.wanted = true;
	damage.at = take16();
	damage.value = take();
	damage.cut = take() % 4 ? 0 : take16();
}

static void deed_serve(void)
{
	serve(take());
}

static void deed_fire(void)
{
	fire(take() % 12);
}

static void deed_hang_up(void)
{
	hang_up();
	if (take() % 2)
		serve(take());
}

static void deed_board(void)
{
	by_board = !by_board;
}

/* It reads no more: what the program sends then fails. */
static void deed_deaf(void)
{
	if (peer >= 0)
		shutdown(peer, SHUT_RD);
}

static void (*const deeds[])(void) = { deed_setup, deed_rule,   deed_record,   deed_end,     deed_rows,  deed_serve,
				       deed_fire,  deed_damage, deed_nonsense, deed_hang_up, deed_board, deed_deaf };

/* ---- from one input to the next ---- */

/* Rows are kept for ever, and a thread's counters until it ends. */
static void forget_rows(void)
{
	uint32_t i;

	for (i = 0; i < n_code_objects; i++) {
		struct code_object *o = &code_objects[i];
		struct spoor_row_table *t = &o->table;

		if (o->rows == CODE_ROWS_THERE)
			munmap((char *)t->pages - sizeof(struct spoor_row_file),
			       sizeof(struct spoor_row_file) + t->n_pages * sizeof(*t->pages) +
				       t->n_rules * sizeof(*t->rules) + t->n_rows * sizeof(*t->rows));
		o->rows = CODE_ROWS_AWAITED;
	}
	code_new_epoch();
	perf_close(block);
}

static void check_nothing_is_left(void)
{
	unsigned before = evaluated, i;

	check(!spoor_agent_any() && !rules_any());
	for (i = 0; i < SPOOR_OUTPUTS; i++)
		check(!outputs[i].used && !rules_recording(i));
	for (i = 0; i < SPOOR_SLOTS; i++)
		check(!slots[i].output && !slots[i].users);
	fire(1);
	check(evaluated == before);
}

/* Over a connection of its own, so that nothing of the input is before that: the old one is seen to end first. */
static void end_all(void)
{
	hang_up();
	by_board = damage.wanted = false;
	in_left = 0;
	serve(0);
	serve(0);
	while (n_named)
		send_end(named[--n_named]);
	serve(0);
	forget_rows();
	check_nothing_is_left();
}

static unsigned count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	check(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void begin(void)
{
	check(connection_is_private()); /* else it may have found the machine's own recorder */
	atexit(remove_place);
	end_all();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned n, descriptors;

	if (peer < 0)
		begin();
	descriptors = count_descriptors();
	in = data;
	in_left = size;
	for (n = 0; in_left && n < MOST_DEEDS; n++)
		deeds[take() % N(deeds)]();
	end_all();
	check(count_descriptors() == descriptors);
	return 0;
}
