/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/cfi_run.h"

#include <dwarf.h>
#include <errno.h>

#define MAX_REMEMBERED 32

enum { REG_RBX = 3, REG_RBP = 6, REG_RSP = 7, REG_RA = 16 };

struct machine {
	const struct cfi_cie *cie;
	const struct cfi_bases *bases;
	struct cfi_state now;
	uint64_t pc;
	bool changed; /* since the last row */
	bool keeps_rbx;
	unsigned int depth;
	struct cfi_state *remembered; /* MAX_REMEMBERED; apart, so that nobody clears it for every FDE */
};

static struct cfi_where *column(struct cfi_state *s, uint64_t reg)
{
	switch (reg) {
	case REG_RBP:
		return &s->rbp;
	case REG_RBX:
		return &s->rbx;
	case REG_RSP:
		return &s->rsp;
	case REG_RA:
		return &s->ra;
	default:
		return NULL; /* a walk does not need it */
	}
}

static void set_where(struct machine *m, uint64_t reg, struct cfi_where where)
{
	struct cfi_where *w = column(&m->now, reg);

	if (!w)
		return;
	*w = where;
	m->changed |= reg != REG_RBX || m->keeps_rbx;
}

static void set(struct machine *m, uint64_t reg, enum cfi_kind kind, int64_t value)
{
	set_where(m, reg, (struct cfi_where){ .kind = kind, .value = value });
}

static void set_expression(struct machine *m, uint64_t reg, enum cfi_kind kind, struct cursor *c)
{
	uint64_t size = cursor_uleb(c);
	const uint8_t *expr = cursor_skip(c, size);

	set_where(m, reg, (struct cfi_where){ .kind = kind, .expr = expr, .expr_size = size });
}

static void restore(struct machine *m, uint64_t reg)
{
	const struct cfi_where *w = column((struct cfi_state *)&m->cie->initial, reg);

	if (w)
		set_where(m, reg, *w);
}

/* Offsets of strangers may overflow: they wrap, as an unsigned product does. */
static int64_t factored(const struct machine *m, uint64_t n)
{
	return (uint64_t)m->cie->data_align * n;
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t off)
{
	m->now.cfa_reg = reg;
	m->now.cfa_off = off;
	m->now.cfa_expr = NULL;
	m->changed = true;
}

static void set_cfa_expression(struct machine *m, struct cursor *c)
{
	m->now.cfa_expr_size = cursor_uleb(c);
	m->now.cfa_expr = cursor_skip(c, m->now.cfa_expr_size);
	m->changed = true;
}

static int remember(struct machine *m)
{
	if (m->depth == MAX_REMEMBERED)
		return -EBADMSG;
	m->remembered[m->depth++] = m->now;
	return 0;
}

static int recall(struct machine *m)
{
	if (!m->depth)
		return -EBADMSG;
	m->now = m->remembered[--m->depth];
	m->changed = true;
	return 0;
}

static int run_extended(struct machine *m, uint8_t op, struct cursor *c)
{
	uint64_t reg;

	switch (op) {
	case DW_CFA_nop:
		return 0;
	case DW_CFA_set_loc:
		return spoor_cfi_pointer(c, m->cie->fde_encoding, m->bases, &m->pc);
	case DW_CFA_advance_loc1:
		m->pc += cursor_u8(c) * m->cie->code_align;
		return 0;
	case DW_CFA_advance_loc2:
		m->pc += cursor_u16(c) * m->cie->code_align;
		return 0;
	case DW_CFA_advance_loc4:
		m->pc += cursor_u32(c) * m->cie->code_align;
		return 0;
	case DW_CFA_offset_extended:
		reg = cursor_uleb(c);
		set(m, reg, CFI_OFFSET, factored(m, cursor_uleb(c)));
		return 0;
	case DW_CFA_offset_extended_sf:
		reg = cursor_uleb(c);
		set(m, reg, CFI_OFFSET, factored(m, cursor_sleb(c)));
		return 0;
	case DW_CFA_GNU_negative_offset_extended:
		reg = cursor_uleb(c);
		set(m, reg, CFI_OFFSET, -(uint64_t)factored(m, cursor_uleb(c)));
		return 0;
	case DW_CFA_val_offset:
		reg = cursor_uleb(c);
		set(m, reg, CFI_VAL_OFFSET, factored(m, cursor_uleb(c)));
		return 0;
	case DW_CFA_val_offset_sf:
		reg = cursor_uleb(c);
		set(m, reg, CFI_VAL_OFFSET, factored(m, cursor_sleb(c)));
		return 0;
	case DW_CFA_restore_extended:
		restore(m, cursor_uleb(c));
		return 0;
	case DW_CFA_undefined:
		set(m, cursor_uleb(c), CFI_UNDEFINED, 0);
		return 0;
	case DW_CFA_same_value:
		set(m, cursor_uleb(c), CFI_SAME, 0);
		return 0;
	case DW_CFA_register:
		reg = cursor_uleb(c);
		set(m, reg, CFI_REGISTER, cursor_uleb(c));
		return 0;
	case DW_CFA_remember_state:
		return remember(m);
	case DW_CFA_restore_state:
		return recall(m);
	case DW_CFA_def_cfa:
		reg = cursor_uleb(c);
		set_cfa(m, reg, cursor_uleb(c));
		return 0;
	case DW_CFA_def_cfa_sf:
		reg = cursor_uleb(c);
		set_cfa(m, reg, factored(m, cursor_sleb(c)));
		return 0;
	case DW_CFA_def_cfa_register:
		set_cfa(m, cursor_uleb(c), m->now.cfa_off);
		return 0;
	case DW_CFA_def_cfa_offset:
		set_cfa(m, m->now.cfa_reg, cursor_uleb(c));
		return 0;
	case DW_CFA_def_cfa_offset_sf:
		set_cfa(m, m->now.cfa_reg, factored(m, cursor_sleb(c)));
		return 0;
	case DW_CFA_def_cfa_expression:
		set_cfa_expression(m, c);
		return 0;
	case DW_CFA_expression:
		set_expression(m, cursor_uleb(c), CFI_EXPRESSION, c);
		return 0;
	case DW_CFA_val_expression:
		set_expression(m, cursor_uleb(c), CFI_VAL_EXPRESSION, c);
		return 0;
	case DW_CFA_GNU_args_size:
		cursor_uleb(c);
		return 0;
	default:
		return -EBADMSG;
	}
}

/* One instruction. -EBADMSG when it cannot be understood. */
static int run_one(struct machine *m, struct cursor *c)
{
	uint8_t op = cursor_u8(c), low = op & 0x3f;
	int r = 0;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		m->pc += low * m->cie->code_align;
		break;
	case DW_CFA_offset:
		set(m, low, CFI_OFFSET, factored(m, cursor_uleb(c)));
		break;
	case DW_CFA_restore:
		restore(m, low);
		break;
	default:
		r = run_extended(m, op, c);
	}
	return c->bad ? -EBADMSG : r;
}

static bool spend(__u64 *work)
{
	if (!*work)
		return false;
	--*work;
	return true;
}

int spoor_cfi_run_cie(struct cfi_cie *cie, struct cursor *c, const struct cfi_bases *bases, __u64 *work)
{
	struct cfi_state remembered[MAX_REMEMBERED];
	struct machine m = { .cie = cie, .bases = bases, .now = cie->initial, .remembered = remembered };

	while (cursor_left(c)) {
		if (!spend(work) || run_one(&m, c) < 0 || m.pc)
			return -EBADMSG;
	}
	cie->initial = m.now;
	return 0;
}

static int add_row(struct machine *m, uint64_t pc, struct rowset *rows)
{
	struct spoor_rule rule = { 0 };
	int r;

	if (!m->changed)
		return 0;
	m->changed = false;
	if (!spoor_cfi_rule(&m->now, m->cie->signal_frame, &rule))
		rows->n_unsupported++;
	if (m->keeps_rbx)
		spoor_cfi_keep_rbx(&m->now, &rule);
	r = spoor_rowset_rule(rows, &rule);
	return r < 0 ? r : spoor_rowset_add(rows, pc, r);
}

int spoor_cfi_run_fde(const struct cfi_cie *cie, uint64_t start, struct cursor *c, const struct cfi_bases *bases,
		      struct rowset *rows)
{
	struct cfi_state remembered[MAX_REMEMBERED];
	struct machine m = { .cie = cie, .bases = bases, .now = cie->initial, .pc = start, .changed = true,
			     .remembered = remembered, .keeps_rbx = rows->keeps_rbx };
	uint64_t pc;
	int r;

	while (cursor_left(c)) {
		pc = m.pc;
		if (!spend(&rows->work) || run_one(&m, c) < 0 || m.pc < pc) {
			rows->n_unsupported++;
			return spoor_rowset_add(rows, pc, 0);
		}
		if (m.pc == pc)
			continue;
		r = add_row(&m, pc, rows);
		if (r < 0)
			return r;
	}
	return add_row(&m, m.pc, rows);
}
