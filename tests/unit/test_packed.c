/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files packed into a trace: what goes in comes out, or it is said that it does not. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

#include "trace/packed.h"

struct fixture {
	char dir[64];
	struct spoor_error e;
	struct spoor_packed *p;
};

static void write_manifest(const struct fixture *f, const char *text)
{
	char path[96];
	FILE *out;

	snprintf(path, sizeof(path), "%s/manifest", f->dir);
	out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/spoor-test-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	write_manifest(f, "{\"format\": \"spoor-trace\", \"parts\": [{\"type\": \"other\"}]}");
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char cmd[128];

	spoor_packed_close(f->p);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", f->dir);
	assert_int_equal(system(cmd), 0);
	free(f);
	return 0;
}

static void begin(struct fixture *f)
{
	if (spoor_packed_begin(f->dir, &f->p, &f->e) < 0)
		fail_msg("%s", f->e.text);
}

static void end(struct fixture *f)
{
	assert_int_equal(spoor_packed_save(f->p, &f->e), 0);
	spoor_packed_close(f->p);
	f->p = NULL;
}

static int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("content", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	return fd;
}

/* Returns how many bytes it takes in the trace. */
static uint64_t add(struct fixture *f, const struct spoor_packed_name *name, const void *bytes, size_t len)
{
	uint64_t size, stored;
	int fd = file_of(bytes, len);

	if (spoor_packed_add(f->p, name, fd, NULL, "/a\xff", &size, &stored, &f->e) < 0)
		fail_msg("%s", f->e.text);
	assert_int_equal(size, len);
	close(fd);
	return stored;
}

/* What get() says after opening anew; the content must be these bytes if it says 0. */
static int get(struct fixture *f, const struct spoor_packed_name *name, const void *bytes, size_t len)
{
	struct spoor_packed *p;
	uint64_t hash[2];
	struct stat st;
	void *found;
	int fd, r;

	assert_int_equal(spoor_packed_open(f->dir, &p), 0);
	r = spoor_packed_get(p, name, &fd, hash);
	spoor_packed_close(p);
	if (r < 0)
		return r;
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, len);
	found = malloc(len + 1);
	assert_int_equal(pread(fd, found, len, 0), len);
	assert_memory_equal(found, bytes, len);
	free(found);
	close(fd);
	return 0;
}

static void noise(uint8_t *buf, size_t len)
{
	uint64_t x = 88172645463325252; /* xorshift64: Marsaglia 2003 */

	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		buf[i] = x;
	}
}

static int exists(const struct fixture *f, const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/objects/%s", f->dir, name);
	return access(path, F_OK) == 0;
}

#define ONE "0000000000000002000000000000000a"
static const struct spoor_packed_name object = { SPOOR_PACKED_OBJECT, { 10, 2 }, 0 },
				      debug = { SPOOR_PACKED_DEBUG, { 10, 2 }, 0 },
				      supplement = { SPOOR_PACKED_SUPPLEMENT, { 10, 2 }, 0 },
				      jit = { .kind = SPOOR_PACKED_JIT, .pid = 4294967295u };

static void test_in_and_out(void **state)
{
	struct fixture *f = *state;
	uint8_t *big = malloc(3000000);
	char text[4000];

	memset(text, 'x', sizeof(text));
	for (int i = 0; i < 4000; i += 8)
		text[i] = i;
	noise(big, 3000000);
	begin(f);
	assert_true(add(f, &object, text, sizeof(text)) < sizeof(text));
	assert_int_equal(add(f, &debug, big, 3000000), 3000000);
	assert_int_equal(add(f, &supplement, "", 0), 0);
	assert_int_equal(add(f, &jit, "a", 1), 1);
	end(f);
	assert_true(exists(f, ONE ".zst") && !exists(f, ONE));
	assert_true(exists(f, ONE ".debug") && exists(f, ONE ".supplement") && exists(f, "perf-4294967295.map"));
	assert_int_equal(get(f, &object, text, sizeof(text)), 0);
	assert_int_equal(get(f, &debug, big, 3000000), 0);
	assert_int_equal(get(f, &supplement, "", 0), 0);
	assert_int_equal(get(f, &jit, "a", 1), 0);
	assert_int_equal(get(f, &(struct spoor_packed_name){ SPOOR_PACKED_OBJECT, { 2, 10 }, 0 }, "", 0), -ENOENT);
	begin(f); /* replaced by what cannot be compressed, and back */
	add(f, &object, big, 5000);
	assert_true(!exists(f, ONE ".zst") && exists(f, ONE));
	add(f, &debug, text, sizeof(text));
	assert_true(!exists(f, ONE ".debug") && exists(f, ONE ".debug.zst"));
	end(f);
	assert_int_equal(get(f, &object, big, 5000), 0);
	assert_int_equal(get(f, &debug, text, sizeof(text)), 0);
	assert_int_equal(get(f, &jit, "a", 1), 0);
	free(big);
}

/* What a reader would refuse to unpack is not compressed. */
static void test_zeros(void **state)
{
	struct fixture *f = *state;
	uint8_t *zeros = calloc(1, 20 << 20);

	begin(f);
	assert_int_equal(add(f, &object, zeros, 20 << 20), 20 << 20);
	end(f);
	assert_int_equal(get(f, &object, zeros, 20 << 20), 0);
	free(zeros);
}

static void test_not_as_expected(void **state)
{
	struct fixture *f = *state;
	uint64_t size = 77, stored;
	int fd = file_of("abc", 3);

	begin(f);
	assert_int_equal(spoor_packed_add(f->p, &object, fd, object.hash, "/a", &size, &stored, &f->e), -ESTALE);
	assert_int_equal(size, 77);
	close(fd);
	end(f);
	assert_false(exists(f, ""));
	assert_int_equal(get(f, &object, "", 0), -ENOENT);
}

static const char sample[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
			     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/* A bit that means nothing to zstd does no harm: then the content is the same. Returns 1 if it did harm. */
static int harmed(struct fixture *f, const char *path, const uint8_t *whole, size_t at, int bit)
{
	uint8_t byte = whole[at] ^ 1 << bit;
	int fd = open(path, O_WRONLY), r;

	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	r = get(f, &object, sample, sizeof(sample));
	assert_true(r == 0 || r == -EBADMSG);
	assert_int_equal(pwrite(fd, whole + at, 1, at), 1);
	close(fd);
	return r < 0;
}

/* Every byte, every length. */
static void test_damage(void **state)
{
	struct fixture *f = *state;
	uint8_t whole[512];
	char path[160];
	ssize_t len;
	int fd, n_harmed = 0;

	begin(f);
	add(f, &object, sample, sizeof(sample));
	end(f);
	snprintf(path, sizeof(path), "%s/objects/" ONE ".zst", f->dir);
	fd = open(path, O_RDONLY);
	len = read(fd, whole, sizeof(whole));
	close(fd);
	assert_in_range(len, 10, sizeof(sample) - 1);
	for (ssize_t at = 0; at < len * 8; at++)
		n_harmed += harmed(f, path, whole, at / 8, at % 8);
	assert_in_range(n_harmed, len * 8 * 3 / 4, len * 8);
	assert_int_equal(get(f, &object, sample, sizeof(sample)), 0);
	for (ssize_t n = len; n-- > 0;) {
		assert_int_equal(truncate(path, n), 0);
		assert_int_equal(get(f, &object, "", 0), -EBADMSG);
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(get(f, &object, "", 0), -EBADMSG); /* listed and not there */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(get(f, &object, "", 0), -EBADMSG);
}

/* What unpacks to much more than its size is not unpacked. */
static void test_bomb(void **state)
{
	struct fixture *f = *state;
	size_t len = 300 << 20, size = ZSTD_compressBound(len);
	void *zeros = calloc(1, len), *packed = malloc(size);
	char path[160];
	FILE *out;

	size = ZSTD_compress(packed, size, zeros, len, 3);
	assert_false(ZSTD_isError(size));
	assert_in_range(size, 100, 100000);
	begin(f);
	add(f, &object, sample, sizeof(sample));
	end(f);
	snprintf(path, sizeof(path), "%s/objects/" ONE ".zst", f->dir);
	out = fopen(path, "w");
	assert_non_null(out);
	assert_int_equal(fwrite(packed, 1, size, out), size);
	fclose(out);
	assert_int_equal(get(f, &object, "", 0), -EBADMSG);
	write_manifest(f, "{}"); /* also if it would have to prove itself */
	assert_int_equal(get(f, &object, "", 0), -EBADMSG);
	free(zeros);
	free(packed);
}

#define PART(files) "{\"parts\":[{\"type\":\"objects\",\"files\":[" files "]}]}"
static void test_odd_manifests(void **state)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{",
		"7",
		"{\"parts\":7}",
		"{\"parts\":[7,{\"type\":8},{\"type\":\"objects\"}]}",
		PART("7,{},{\"name\":9},{\"name\":\"../../x\",\"hash\":\"\"}"),
	};
	static const char *const hashes[] = { "",
					      "0",
					      "0x00000000000000000000000000000a",
					      "-000000000000001000000000000000a",
					      "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
					      "0000000000000000 000000000000000a" };
	struct fixture *f = *state;
	char text[256];

	for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		write_manifest(f, texts[i]);
		assert_int_equal(get(f, &object, "", 0), -ENOENT);
		assert_int_equal(get(f, &jit, "", 0), -ENOENT);
	}
	write_manifest(f, "[]");
	assert_int_equal(spoor_packed_begin(f->dir, &f->p, &f->e), -EBADMSG);
	write_manifest(f, texts[5]);
	begin(f);
	add(f, &jit, "abc", 3);
	end(f);
	assert_int_equal(get(f, &jit, "abc", 3), 0);
	for (unsigned i = 0; i < sizeof(hashes) / sizeof(*hashes); i++) {
		snprintf(text, sizeof(text), PART("{\"name\":\"perf-4294967295.map\",\"hash\":\"%s\"}"), hashes[i]);
		write_manifest(f, text);
		assert_int_equal(get(f, &jit, "abc", 3), -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_in_and_out, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zeros, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_as_expected, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bomb, setup, teardown),
		cmocka_unit_test_setup_teardown(test_odd_manifests, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
