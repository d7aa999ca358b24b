/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The compiler of unwind rows on handmade objects, and the pages that it fills. */
#include "rows_fixture.h"

#include "unwind/rowset.h"

static void expect(const struct spoor_rows *rows, __u64 offset, int op, int reg, int rbp, int rbp_off, __s32 cfa_off)
{
	const struct spoor_rule *r = spoor_row_lookup(&rows->table, TEXT + offset);

	if (r->op != op || r->reg_rbp != (reg | rbp << 4) || r->rbp_off != rbp_off || r->cfa_off != cfa_off)
		fail_msg("at +0x%llx: op %d reg %d rbp %d%+d off 0x%x", offset, r->op, r->reg_rbp & 15,
			 r->reg_rbp >> 4, r->rbp_off, r->cfa_off);
}

static void expect_none(const struct spoor_rows *rows, __u64 offset)
{
	expect(rows, offset, SPOOR_RULE_NONE, 0, 0, 0, 0);
}

static void test_plain_frames(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows rows = compile("cfa_push_rbp");

	assert_int_equal(rows.source, SPOOR_ROWS_EH_FRAME);
	assert_int_equal(rows.n_fdes, 1);
	assert_int_equal(rows.n_unsupported, 0);
	expect(&rows, 0, SPOOR_RULE_CFA, RSP, SPOOR_RBP_SAME, 0, 8);
	expect(&rows, 1, SPOOR_RULE_CFA, RSP, SPOOR_RBP_AT_CFA, -16, 16);
	expect(&rows, 4, SPOOR_RULE_CFA, RBP, SPOOR_RBP_AT_CFA, -16, 16);
	expect(&rows, 0x7f, SPOOR_RULE_CFA, RBP, SPOOR_RBP_AT_CFA, -16, 16);
	expect_none(&rows, 0x80);
	expect_none(&rows, -1);
	expect_none(&rows, 0x123456789);
}

static void test_remembered_state_includes_the_cfa(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows rows = compile("cfa_remember");

	expect(&rows, 4, SPOOR_RULE_CFA, RSP, 0, 0, 48);
	expect(&rows, 0xc, SPOOR_RULE_CFA, RSP, 0, 0, 8);
	expect(&rows, 0xd, SPOOR_RULE_CFA, RSP, 0, 0, 64);
}

static void test_shapes(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows realign = compile("cfa_realign"), plt = compile("cfa_plt"),
						     end = compile("cfa_outermost"), reg = compile("cfa_ra_register"),
						     off = compile("cfa_ra_offset"), sig = compile("signal");

	expect(&realign, 5, SPOOR_RULE_CFA, R10, SPOOR_RBP_SAME, 0, 0);
	expect(&realign, 0xe, SPOOR_RULE_CFA, R10, SPOOR_RBP_AT_RBP, 0, 0);
	expect(&realign, 0x10, SPOOR_RULE_DEREF, RBP, SPOOR_RBP_AT_RBP, 0, 0xfff8);
	expect(&plt, 0x10, SPOOR_RULE_PLT, RSP, 0, 0, 11);
	expect(&end, 0, SPOOR_RULE_END, RSP, 0, 0, 0);
	expect(&reg, 1, SPOOR_RULE_RA_REG, RSP, 0, 0, RDI << 16);
	expect(&off, 1, SPOOR_RULE_RA_OFF, RSP, 0, 0, 0xfff00020);
	expect(&sig, 0x40, SPOOR_RULE_SIGNAL, RSP, 0, 0, 0);
}

static void test_what_cannot_be_understood_has_no_rule(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows unknown = compile("cfa_unknown"), cut = compile("cfa_cut");

	expect(&unknown, 0, SPOOR_RULE_CFA, RSP, 0, 0, 8);
	expect_none(&unknown, 1);
	assert_int_equal(unknown.n_unsupported, 1);
	expect(&cut, 0, SPOOR_RULE_CFA, RSP, 0, 0, 8);
	expect_none(&cut, 1);
}

static void test_augmentations_and_sources_agree(void **state)
{
	static const char *const names[] = { "all", "both", "debug_frame", "debug_frame_zlib", "debug_frame_zstd",
		"zdebug_frame", "no_sections", "personality", "plain", "unknown_letter" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		_cleanup_(spoor_rows_free) struct spoor_rows rows = compile(names[i]);

		assert_int_equal(rows.table.n_rows, 37);
		expect(&rows, 4, SPOOR_RULE_CFA, RBP, SPOOR_RBP_AT_CFA, -16, 16);
		expect_none(&rows, 0x90);
		expect(&rows, 0x104, SPOOR_RULE_CFA, RSP, 0, 0, 48);
	}
}

static void test_compressed_debug_frame_is_hostile(void **state)
{
	static const char *const names[] = { "debug_frame_zlib", "debug_frame_zstd", "zdebug_frame" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct spoor_rows rows = { .n_fdes = 7 };
		char path[4096];
		size_t size;
		char *image;

		path_of(path, sizeof(path), names[i]);
		image = map(path, &size);
		image[64 + 3 * 56 + 8] ^= 0x40; /* of its size: more than it has, or than anything has */
		assert_int_equal(spoor_rows_compile(image, size, &rows, NULL), -EBADMSG);
		image[64 + 3 * 56 + 8] ^= 0x40;
		image[64 + 3 * 56] ^= 0x40; /* another way of packing, or none */
		assert_int_equal(spoor_rows_compile(image, size, &rows, NULL), -EBADMSG);
		assert_int_equal(rows.n_fdes, 7);
		munmap(image, size);
	}
}

static void test_go(void **state)
{
	static const char *const names[] = { "go_16",        "go_18",     "go_20",              "go_searched",
					     "go_relocated", "go_module", "go_module_relocated" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		_cleanup_(spoor_rows_free) struct spoor_rows rows = compile(names[i]);

		assert_int_equal(rows.source, SPOOR_ROWS_GOPCLNTAB);
		expect(&rows, 0, SPOOR_RULE_CFA, RSP, 0, 0, 8);
		expect(&rows, 4, SPOOR_RULE_CFA, RSP, SPOOR_RBP_AT_CFA, -16, 24);
		expect(&rows, 0x70, SPOOR_RULE_CFA, RSP, 0, 0, 8);
		expect(&rows, 0x80, SPOOR_RULE_END, RSP, 0, 0, 0);
		expect(&rows, 0x180, SPOOR_RULE_CFA, RSP, 0, 0, 8);
		expect(&rows, 0x184, SPOOR_RULE_CFA, RSP, 0, 0, 24); /* rbp is its caller's until it is saved */
		expect(&rows, 0x18d, SPOOR_RULE_CFA, RSP, 0, 0, 24);
		expect(&rows, 0x18e, SPOOR_RULE_CFA, RSP, SPOOR_RBP_AT_CFA, -16, 24);
		expect(&rows, 0x200, SPOOR_RULE_INJECTED, RSP, 0, 0, 8);
		expect(&rows, 0x204, SPOOR_RULE_INJECTED, RSP, SPOOR_RBP_AT_CFA, -16, 24);
		expect(&rows, 0x284, SPOOR_RULE_END, RSP, 0, 0, 0);
		expect_none(&rows, 0x300);
	}
}

static void test_errors(void **state)
{
	struct spoor_rows rows = { .n_fdes = 7 };
	struct spoor_error e;
	char path[4096];
	size_t size;
	char *image;

	assert_int_equal(spoor_rows_compile("", 0, &rows, &e), -ENOEXEC);
	assert_int_equal(spoor_rows_compile("\177ELF", 4, &rows, NULL), -ENOEXEC);
	path_of(path, sizeof(path), "no_information");
	image = map(path, &size);
	assert_int_equal(spoor_rows_compile(image, size, &rows, &e), -ENODATA);
	image[18] = 3; /* i386 */
	assert_int_equal(spoor_rows_compile(image, size, &rows, &e), -ENOEXEC);
	munmap(image, size);
	path_of(path, sizeof(path), "go_uncertain");
	image = map(path, &size);
	assert_int_equal(spoor_rows_compile(image, size, &rows, &e), -ENODATA);
	assert_int_equal(rows.n_fdes, 7);
	munmap(image, size);
}

static void add_range(struct rowset *s, __u32 start, __u32 end, int off)
{
	struct spoor_rule rule = { .op = SPOOR_RULE_CFA, .reg_rbp = RSP, .cfa_off = off };

	assert_int_equal(spoor_rowset_open(s, start, end), 0);
	assert_int_equal(spoor_rowset_add(s, start, spoor_rowset_rule(s, &rule)), 0);
}

static void finish(struct rowset *s, struct spoor_rows *ret)
{
	*ret = (struct spoor_rows){ 0 };
	assert_int_equal(spoor_rowset_table(s, ret), 0);
	spoor_rowset_free(s);
}

static int cfa_at(const struct spoor_rows *rows, __u64 vaddr)
{
	return spoor_row_lookup(&rows->table, vaddr)->cfa_off;
}

static void test_later_start_wins_and_settled_ranges_stay(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows rows;
	struct rowset s;

	assert_int_equal(spoor_rowset_init(&s, 0x1000, 0x50000, 1000), 0);
	add_range(&s, 0x3000, 0x4000, 16);
	add_range(&s, 0x1000, 0x2000, 8);
	add_range(&s, 0x3800, 0x3900, 24);
	assert_int_equal(spoor_rowset_settle(&s, 0), 0);
	add_range(&s, 0x1800, 0x5000, 32);
	assert_int_equal(spoor_rowset_settle(&s, s.n_ranges - 1), 0);
	finish(&s, &rows);
	assert_int_equal(cfa_at(&rows, 0xfff), 0);
	assert_int_equal(cfa_at(&rows, 0x1fff), 8);
	assert_int_equal(cfa_at(&rows, 0x2000), 32);
	assert_int_equal(cfa_at(&rows, 0x37ff), 16);
	assert_int_equal(cfa_at(&rows, 0x3800), 24);
	assert_int_equal(cfa_at(&rows, 0x3900), 32);
	assert_int_equal(cfa_at(&rows, 0x4fff), 32);
	assert_int_equal(cfa_at(&rows, 0x5000), 0);
}

static void test_pages_begin_with_the_rule_in_effect(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows rows;
	struct rowset s;
	__u32 i;

	assert_int_equal(spoor_rowset_init(&s, 0x1000, 0x70000, 1000), 0);
	add_range(&s, 0x8000, 0x28000, 16);
	add_range(&s, 0x50000, 0x50010, 24);
	assert_int_equal(spoor_rowset_settle(&s, 0), 0);
	finish(&s, &rows);
	assert_int_equal(rows.table.n_pages, 7);
	for (i = 0; i < rows.table.n_pages; i++)
		if (rows.table.pages[i].count)
			assert_int_equal(rows.table.rows[rows.table.pages[i].first].pc, 0);
	assert_int_equal(rows.table.pages[1].count, 1);
	assert_int_equal(rows.table.pages[3].count, 0);
	assert_int_equal(rows.table.pages[5].count, 2);
	assert_int_equal(cfa_at(&rows, 0x1ffff), 16);
	assert_int_equal(cfa_at(&rows, 0x28000), 0);
	assert_int_equal(cfa_at(&rows, 0x50000), 24);
	assert_int_equal(cfa_at(&rows, 0x50010), 0);
}

static void test_a_page_with_too_many_rows_is_left_out(void **state)
{
	_cleanup_(spoor_rows_free) struct spoor_rows rows;
	struct rowset s;
	__u32 i;

	assert_int_equal(spoor_rowset_init(&s, 0, 0x20000, 1000), 0);
	for (i = 0; i <= SPOOR_TEXT_PAGE_MAX_ROWS; i++)
		add_range(&s, 2 * i, 2 * i + 2, 8 + 8 * (i & 1));
	add_range(&s, 0x10000, 0x10010, 24);
	assert_int_equal(spoor_rowset_settle(&s, 0), 0);
	finish(&s, &rows);
	assert_int_equal(rows.table.pages[0].count, 0);
	assert_int_equal(cfa_at(&rows, 0x10000), 24);
	assert_true(rows.n_unsupported > SPOOR_TEXT_PAGE_MAX_ROWS);
}

static void test_identity(void **state)
{
	_cleanup_(spoor_closep) int fd = open(LIBC, O_RDONLY | O_CLOEXEC);
	struct spoor_object_identity a, b, other = { .size = 7 };
	_cleanup_(spoor_closep) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	uint64_t vaddr;
	size_t size;
	void *image;

	assert_int_equal(spoor_object_identify(fd, &a, NULL), 0);
	image = map(LIBC, &size);
	assert_int_equal(spoor_object_identify_mem(image, size, &b), 0);
	munmap(image, size);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_int_equal(a.size, size);
	assert_int_equal(a.is_elf, 1);
	assert_int_equal(a.build_id_len, 20);
	assert_int_equal(a.n_loads, 1);
	assert_int_equal(spoor_object_vaddr(&a, a.loads[0].offset + 16, &vaddr), 0);
	assert_int_equal(vaddr, a.loads[0].vaddr + 16);
	assert_int_equal(spoor_object_vaddr(&a, a.loads[0].offset + a.loads[0].filesz, &vaddr), -ENOENT);
	assert_int_equal(spoor_object_vaddr(&a, 0, &vaddr), -ENOENT);

	assert_int_equal(spoor_object_identify(null, &other, NULL), -EINVAL);
	assert_int_equal(other.size, 7);
	spoor_object_identify_mem("no", 2, &other);
	assert_int_equal(other.is_elf, 0);
}

static void test_an_object_too_large_is_refused(void **state)
{
	char path[] = "/tmp/spoor-test-large-XXXXXX";
	_cleanup_(spoor_closep) int fd = mkstemp(path);
	struct spoor_object_identity id;

	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(ftruncate(fd, ((off_t)4 << 30) + 1), 0);
	assert_int_equal(spoor_object_identify(fd, &id, NULL), -EFBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_frames),
		cmocka_unit_test(test_remembered_state_includes_the_cfa),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_what_cannot_be_understood_has_no_rule),
		cmocka_unit_test(test_augmentations_and_sources_agree),
		cmocka_unit_test(test_compressed_debug_frame_is_hostile),
		cmocka_unit_test(test_go),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_later_start_wins_and_settled_ranges_stay),
		cmocka_unit_test(test_pages_begin_with_the_rule_in_effect),
		cmocka_unit_test(test_a_page_with_too_many_rows_is_left_out),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_an_object_too_large_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
