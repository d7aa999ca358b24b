/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A small trace whose every event is known, and reports of it; its application is the very program of the test. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <link.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "object/identity.h"
#include "present/present.h"
#include "trace/syscalls.h"
#include "trace/writer.h"

#define TID 4711
#define T0 5000000000ULL

enum {
	OBJ_APP = 10,
	OBJ_LIB,
	OBJ_GONE,
	STACK_SITE = 20,
	STACK_TWIN, /* equal to it */
	STACK_LIB,
	STACK_GONE,
	STACK_JIT,
	FILE_PASSWD = 30,
	FILE_SOCKET,
	FILE_CWD
};

static char folder[] = "/tmp/spoor-report-XXXXXX", path[4096];
static char app[4096];

/* The call sites: addresses just behind this function's first instructions. The test defines it. */
void site_of_calls(void);

static uint64_t address(void *function)
{
	struct link_map *map;
	Dl_info info;

	assert_true(dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP));
	return (uint64_t)function - map->l_addr + 2;
}

/* ---- writing ---- */

static struct spoor_writer *writer;
static _Alignas(8) uint8_t events[65536], buf[8192];
static size_t n_events;
static uint64_t first_ts, last_ts;

static void seal(void *event, size_t len)
{
	struct spoor_event_header *h = event;

	memset((char *)event + len, 0, -len & 3);
	h->size4 = SPOOR_SIZE4(len);
}

static void emit(void *event)
{
	struct spoor_event_header *h = event;

	if (!n_events)
		first_ts = h->ts;
	last_ts = h->ts;
	memcpy(events + n_events, h, spoor_event_size(h));
	n_events += spoor_event_size(h);
}

static void define(void *event, size_t len)
{
	seal(event, len);
	assert_int_equal(spoor_writer_define(writer, event), 0);
}

struct data {
	uint64_t args[6];
	uint32_t files[6], ret_file;
	const char *paths[6];
	const void *bytes;
	uint16_t len;
};

static size_t put(uint8_t *to, size_t at, const void *from, size_t len)
{
	memcpy(to + at, from, len);
	return at + len;
}

static size_t put_data(uint8_t *to, unsigned id, const struct data *d)
{
	const struct spoor_syscall_info *info = spoor_syscall_info(id);
	size_t at = 0;

	for (unsigned i = 0; i < info->n_args; i++)
		at = put(to, at, &d->args[i], info->args[i].width);
	for (unsigned i = 0; i < info->n_args; i++)
		if (info->args[i].kind == SPOOR_ARG_FD || info->args[i].kind == SPOOR_ARG_DIRFD)
			at = put(to, at, &d->files[i], 4);
	if (info->flags & SPOOR_SYSCALL_RET_FD)
		at = put(to, at, &d->ret_file, 4);
	for (unsigned i = 0; i < info->n_args; i++)
		if (info->args[i].kind == SPOOR_ARG_PATH)
			at = put(to, at, d->paths[i] ?: "", strlen(d->paths[i] ?: "") + 1);
	for (unsigned i = 0; i < info->n_args; i++) {
		if (info->args[i].kind == SPOOR_ARG_SOCKADDR_IN || info->args[i].kind == SPOOR_ARG_SOCKADDR_OUT) {
			at = put(to, at, &d->len, 2);
			at = put(to, at, d->bytes, d->len);
		}
	}
	return at;
}

static void call(const char *name, uint64_t ts, uint64_t dur, int64_t ret, uint32_t stack, struct data d)
{
	int id = spoor_syscall_by_name(name);
	struct spoor_syscall *s = (void *)buf;

	assert_true(id >= 0);
	*s = (struct spoor_syscall){ .h = { .ts = T0 + ts, .id = (uint16_t)id, .tid = TID },
				     .pid = TID,
				     .stack = stack,
				     .dur = dur };
	if (spoor_syscall_fixed((unsigned)id) == SPOOR_SYSCALL_FIXED)
		s->ret = (int32_t)ret;
	else
		s->ret_long = ret;
	seal(s, spoor_syscall_fixed((unsigned)id) +
			put_data((uint8_t *)s + spoor_syscall_fixed((unsigned)id), (unsigned)id, &d));
	emit(s);
}

static void pending(const char *name, uint64_t ts, uint64_t start, unsigned why, uint32_t tid, uint32_t stack,
		    struct data d)
{
	int id = spoor_syscall_by_name(name);
	struct spoor_pending *p = (void *)buf;

	*p = (struct spoor_pending){ .h = { .ts = T0 + ts, .id = SPOOR_EV_PENDING, .tid = tid },
				     .pid = TID,
				     .stack = stack,
				     .start = T0 + start,
				     .nr = (uint16_t)id,
				     .why = (uint8_t)why,
				     .exact = 1 };
	p->len = (uint16_t)put_data(p->data, (unsigned)id, &d);
	seal(p, sizeof(*p) + p->len);
	emit(p);
}

static void define_object(uint32_t id, uint32_t flags, const char *name)
{
	struct spoor_object *o = (void *)buf;
	struct spoor_object_identity identity;
	struct stat st = {};
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	*o = (struct spoor_object){ .h = { .ts = T0, .id = SPOOR_EV_OBJECT }, .id = id, .flags = flags };
	if (fd >= 0 && fstat(fd, &st) == 0 && spoor_object_identify(fd, &identity, NULL) == 0) {
		o->hash_lo = identity.hash[0];
		o->hash_hi = identity.hash[1];
		o->size = (uint64_t)st.st_size;
		o->mtime = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
		close(fd);
	}
	strcpy(o->path, name);
	define(o, sizeof(*o) + strlen(name) + 1);
}

static void define_stack(uint32_t id, unsigned status, unsigned way, uint64_t inner, uint64_t outer)
{
	struct spoor_stack *s = (void *)buf;

	*s = (struct spoor_stack){ .h = { .ts = T0, .id = SPOOR_EV_STACK },
				   .id = id,
				   .status = (uint8_t)status,
				   .way = (uint8_t)way,
				   .n = (uint16_t)(1 + !!outer) };
	s->frames[0] = inner;
	s->frames[1] = outer;
	define(s, sizeof(*s) + 8 * s->n);
}

static void define_file(uint32_t id, unsigned kind, const char *name)
{
	struct spoor_file *f = (void *)buf;

	*f = (struct spoor_file){ .h = { .ts = T0, .id = SPOOR_EV_FILE }, .id = id, .kind = (uint8_t)kind };
	strcpy(f->path, name);
	define(f, sizeof(*f) + strlen(name) + 1);
}

static void define_all(void)
{
	struct spoor_socket *s = (void *)buf;
	struct spoor_thread *t = (void *)buf;

	*t = (struct spoor_thread){
		.h = { .ts = T0, .id = SPOOR_EV_THREAD, .tid = TID }, .pid = TID, .start = T0 - 5, .comm = "work\033[1m"
	};
	define(t, sizeof(*t));
	define_object(OBJ_APP, SPOOR_OBJECT_APP, app);
	define_object(OBJ_LIB, 0, "/lib/x86_64-linux-gnu/libc.so.6");
	define_object(OBJ_GONE, SPOOR_OBJECT_APP, "/nonexistent/plugin.so");
	define_stack(STACK_SITE, SPOOR_WALK_COMPLETE, SPOOR_WAY_KERNEL, SPOOR_FRAME(OBJ_LIB, 0x10),
		     SPOOR_FRAME(OBJ_APP, address(site_of_calls)));
	define_stack(STACK_TWIN, SPOOR_WALK_COMPLETE, SPOOR_WAY_KERNEL, SPOOR_FRAME(OBJ_LIB, 0x10),
		     SPOOR_FRAME(OBJ_APP, address(site_of_calls)));
	define_stack(STACK_LIB, SPOOR_WALK_NO_ROWS, SPOOR_WAY_USER, SPOOR_FRAME(OBJ_LIB, 0x10), 0);
	define_stack(STACK_GONE, SPOOR_WALK_BUDGET, SPOOR_WAY_KERNEL, SPOOR_FRAME(OBJ_GONE, 0x1234), 0);
	define_stack(STACK_JIT, SPOOR_WALK_COMPLETE, SPOOR_WAY_KERNEL, SPOOR_FRAME(0, 0x7f0000001010), 0);
	define_file(FILE_PASSWD, SPOOR_FILE_REG, "/etc/\xff\"passwd");
	define_file(FILE_CWD, SPOOR_FILE_DIR, "/home");
	*s = (struct spoor_socket){ .h = { .ts = T0, .id = SPOOR_EV_SOCKET },
				    .id = FILE_SOCKET,
				    .family = AF_INET,
				    .type = SOCK_STREAM,
				    .protocol = IPPROTO_TCP,
				    .lport = 80,
				    .rport = 999,
				    .ino = 5,
				    .laddr = { 127, 0, 0, 1 },
				    .raddr = { 10, 0, 0, 2 } };
	define(s, sizeof(*s) + 1);
}

static void emit_all(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(443), .sin_addr = { htonl(0x7f000002) } };
	struct {
		struct spoor_thread_exit t;
		uint8_t room[8];
	} x = { .t = { .h = { .ts = T0 + 900000, .id = SPOOR_EV_THREAD_EXIT, .tid = TID + 1 },
		       .pid = TID,
		       .code = SIGKILL } };

	call("openat", 1000, 500, 3, STACK_SITE,
	     (struct data){ .args = { (uint64_t)AT_FDCWD, 0x1000, 0x80000, 0644 },
			    .files = { FILE_CWD },
			    .paths = { NULL, "x\n\"\x80" },
			    .ret_file = FILE_PASSWD });
	for (int i = 0; i < 7; i++)
		call("read", 2000 + 1000 * (uint64_t)i, 100 + (uint64_t)i, i < 5 ? 10 : -EAGAIN,
		     i % 2 ? STACK_TWIN : STACK_SITE,
		     (struct data){ .args = { 3, 0x2000, 10 }, .files = { FILE_PASSWD } });
	call("connect", 20000, 2000, -EINPROGRESS, STACK_LIB,
	     (struct data){ .args = { 5, 0x3000, 16 }, .files = { FILE_SOCKET }, .bytes = &to, .len = sizeof(to) });
	call("close", 30000, 3, 0, STACK_GONE, (struct data){ .args = { 5 } });
	call("getpid", 31000, 1, TID, STACK_JIT, (struct data){});
	call("mmap", 32000, 1, 0x7f0012345000, 0, (struct data){ .args = { 0, 4096, 3, 0x22, (uint64_t)-1 } });
	call("nanosleep", 40000, 5000, -512, 99, (struct data){ .args = { 0x10 } });
	pending("futex", 50000, 45000, SPOOR_PENDING_SLEEP, TID, STACK_SITE, (struct data){ .args = { 0xabc0 } });
	pending("exit", 800000, 800000, SPOOR_PENDING_DEATH, TID + 1, STACK_SITE, (struct data){});
	seal(&x, sizeof(x.t));
	emit(&x);
}

static inline int write_trace(void **state)
{
	struct spoor_writer_options o = { .path = path, .command = "test", .mode = "all", .n_cpus = 1 };
	struct spoor_error e = {};
	struct iovec span;
	FILE *map;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/t.spoor", folder);
	assert_true(readlink("/proc/self/exe", app, sizeof(app) - 1) > 0);
	if (spoor_writer_open(&o, &writer, &e) < 0)
		fail_msg("%s", e.text);
	define_all();
	emit_all();
	span = (struct iovec){ events, n_events };
	assert_int_equal(spoor_writer_packet(writer, 0, 0, &span, 1, first_ts, last_ts, 3, &e), 0);
	assert_int_equal(spoor_writer_close(writer, &e), 0);

	snprintf((char *)buf, sizeof(buf), "%s/perf-%d.map", folder, TID);
	map = fopen((char *)buf, "w");
	fputs("garbage\n7f0000001000 20 jit;compiled\n7f0000002000 zz bad\n", map);
	fclose(map);
	return 0;
}

static inline int remove_trace(void **state)
{
	snprintf((char *)buf, sizeof(buf), "rm -rf %s", folder);
	return system((char *)buf);
}

/* ---- reading ---- */

typedef int form_fn(struct spoor_view *v, struct spoor_error *e);

static char *report_with(form_fn *form, struct spoor_view v, struct spoor_select *select)
{
	struct spoor_select all = {};
	struct spoor_error e = {};
	char *text = NULL;
	size_t size;

	assert_int_equal(spoor_trace_open(path, &v.trace, &e), 0);
	assert_int_equal(spoor_symbolizer_new(NULL, folder, &v.symbols), 0);
	spoor_symbolizer_use_trace(v.symbols, spoor_trace_info(v.trace));
	v.select = select ?: &all;
	v.out = open_memstream(&text, &size);
	assert_int_equal(form(&v, &e), 0);
	fclose(v.out);
	spoor_symbolizer_free(v.symbols);
	spoor_trace_close(v.trace);
	spoor_select_done(&all);
	if (getenv("SPOOR_SHOW"))
		fputs(text, stderr);
	return text;
}

static inline char *report(form_fn *form)
{
	return report_with(form, (struct spoor_view){}, NULL);
}

static inline void has(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("'%s' is not in:\n%s", what, text);
}

static inline void has_not(const char *text, const char *what)
{
	if (strstr(text, what))
		fail_msg("'%s' is in:\n%s", what, text);
}
