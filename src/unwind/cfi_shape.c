/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which of our rules says the same as a row of call frame information. docs/unwinding.md has the survey behind it. */
#include <dwarf.h>

#include "unwind/cfi.h"
#include "unwind/cursor.h"

enum { REG_RBX = 3, REG_RBP = 6, REG_RSP = 7, REG_LAST = 15 };

#define RA_AT (-8)

static bool fits16(int64_t v)
{
	return v >= INT16_MIN && v <= INT16_MAX;
}

static bool fits32(int64_t v)
{
	return v >= INT32_MIN && v <= INT32_MAX;
}

static __s32 two_offsets(int64_t low, int64_t high)
{
	return (uint32_t)(uint16_t)low | (uint32_t)(uint16_t)high << 16;
}

/* DW_OP_bregN or DW_OP_bregx of a general register. */
static bool breg(struct cursor *c, uint64_t *ret_reg, int64_t *ret_off)
{
	uint8_t op = cursor_u8(c);

	if (op >= DW_OP_breg0 && op <= DW_OP_breg0 + REG_LAST)
		*ret_reg = op - DW_OP_breg0;
	else if (op == DW_OP_bregx)
		*ret_reg = cursor_uleb(c);
	else
		return false;
	*ret_off = cursor_sleb(c);
	return !c->bad && *ret_reg <= REG_LAST;
}

/* What may follow a dereference: nothing, or an addition. */
static bool addend(struct cursor *c, int64_t *ret)
{
	uint8_t op;

	*ret = 0;
	if (!cursor_left(c))
		return true;
	op = cursor_u8(c);
	if (op == DW_OP_plus_uconst) {
		*ret = cursor_uleb(c);
		return !c->bad && !cursor_left(c);
	}
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31)
		*ret = op - DW_OP_lit0;
	else if (op == DW_OP_consts)
		*ret = cursor_sleb(c);
	else if (op == DW_OP_constu)
		*ret = cursor_uleb(c);
	else
		return false;
	return cursor_u8(c) == DW_OP_plus && !c->bad && !cursor_left(c);
}

/* CFA = *(reg + a) + b */
static bool deref(struct cursor c, struct spoor_rule *rule)
{
	uint64_t reg;
	int64_t a, b;

	if (!breg(&c, &reg, &a) || cursor_u8(&c) != DW_OP_deref || !addend(&c, &b) || !fits16(a) || !fits16(b))
		return false;
	rule->op = SPOOR_RULE_DEREF;
	rule->reg_rbp = reg;
	rule->cfa_off = two_offsets(a, b);
	return true;
}

/* CFA = reg + a, written as an expression */
static bool plain(struct cursor c, struct spoor_rule *rule)
{
	uint64_t reg;
	int64_t a;

	if (!breg(&c, &reg, &a) || cursor_left(&c) || !fits32(a))
		return false;
	rule->op = SPOOR_RULE_CFA;
	rule->reg_rbp = reg;
	rule->cfa_off = a;
	return true;
}

/* rsp + 8 + ((rip & 15) >= K) * 8, which linkers write for procedure linkage tables. */
static bool plt(struct cursor c, struct spoor_rule *rule)
{
	static const uint8_t head[] = { DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and };
	static const uint8_t tail[] = { DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus };
	const uint8_t *at;
	uint8_t k;

	at = cursor_skip(&c, sizeof(head));
	if (!at || memcmp(at, head, sizeof(head)))
		return false;
	k = cursor_u8(&c);
	at = cursor_skip(&c, sizeof(tail));
	if (!at || memcmp(at, tail, sizeof(tail)) || cursor_left(&c) || k < DW_OP_lit0 || k > DW_OP_lit16)
		return false;
	rule->op = SPOOR_RULE_PLT;
	rule->reg_rbp = REG_RSP;
	rule->cfa_off = k - DW_OP_lit0;
	return true;
}

/* The C library's restorer: CFA = *(rsp + offset of rsp in ucontext). */
static bool is_ucontext(const struct spoor_rule *rule)
{
	return rule->op == SPOOR_RULE_DEREF && rule->reg_rbp == REG_RSP && rule->cfa_off == two_offsets(160, 0);
}

static bool cfa_rule(const struct cfi_state *s, struct spoor_rule *rule)
{
	struct cursor c;

	if (s->cfa_expr) {
		c = (struct cursor){ s->cfa_expr, s->cfa_expr + s->cfa_expr_size, false };
		return plain(c, rule) || deref(c, rule) || plt(c, rule);
	}
	if (s->cfa_reg > REG_LAST || !fits32(s->cfa_off))
		return false;
	rule->op = SPOOR_RULE_CFA;
	rule->reg_rbp = s->cfa_reg;
	rule->cfa_off = s->cfa_off;
	return true;
}

static bool ra_rule(const struct cfi_where *ra, struct spoor_rule *rule)
{
	bool simple = rule->op == SPOOR_RULE_CFA && fits16(rule->cfa_off);

	if (ra->kind == CFI_OFFSET && ra->value == RA_AT)
		return true;
	if (ra->kind == CFI_OFFSET && simple && fits16(ra->value)) {
		rule->op = SPOOR_RULE_RA_OFF;
		rule->cfa_off = two_offsets(rule->cfa_off, ra->value);
		return true;
	}
	if (ra->kind == CFI_REGISTER && simple && ra->value >= 0 && ra->value <= REG_LAST) {
		rule->op = SPOOR_RULE_RA_REG;
		rule->cfa_off = two_offsets(rule->cfa_off, ra->value);
		return true;
	}
	return false;
}

/* rbp saved at a register plus an offset, as functions that realign their stack say. */
static bool rbp_at_register(const struct cfi_where *rbp, struct spoor_rule *rule)
{
	struct cursor c = { rbp->expr, rbp->expr + rbp->expr_size, false };
	uint64_t reg;
	int64_t off;

	if (!breg(&c, &reg, &off) || cursor_left(&c) || !fits16(off))
		return false;
	if (reg == REG_RBP)
		rule->reg_rbp |= SPOOR_RBP_AT_RBP << 4;
	else if (reg == rule->reg_rbp)
		rule->reg_rbp |= SPOOR_RBP_AT_REG << 4;
	else
		return false;
	rule->rbp_off = off;
	return true;
}

static void rbp_rule(const struct cfi_where *rbp, struct spoor_rule *rule)
{
	if (rbp->kind == CFI_SAME || (rbp->kind == CFI_REGISTER && rbp->value == REG_RBP))
		return;
	if (rbp->kind == CFI_OFFSET && fits16(rbp->value)) {
		rule->reg_rbp |= SPOOR_RBP_AT_CFA << 4;
		rule->rbp_off = rbp->value;
		return;
	}
	if (rbp->kind == CFI_EXPRESSION && rbp_at_register(rbp, rule))
		return;
	rule->reg_rbp |= SPOOR_RBP_UNDEF << 4;
}

/* How far the caller's rsp lies above the CFA, which by the psABI is the same. False: somewhere else altogether. */
static bool rsp_shift(const struct cfi_where *rsp, const struct spoor_rule *rule, int64_t *ret)
{
	struct cursor c;
	uint64_t reg;
	int64_t off;

	*ret = 0;
	if (rsp->kind == CFI_SAME)
		return true;
	if (rsp->kind == CFI_VAL_OFFSET) {
		*ret = rsp->value;
		return fits32(rsp->value);
	}
	if (rsp->kind != CFI_VAL_EXPRESSION || rule->op != SPOOR_RULE_CFA)
		return false;
	c = (struct cursor){ rsp->expr, rsp->expr + rsp->expr_size, false };
	if (!breg(&c, &reg, &off) || cursor_left(&c) || reg != rule->reg_rbp || !fits32(off))
		return false;
	*ret = off - rule->cfa_off;
	return true;
}

static bool shift_where(struct cfi_where *where, int64_t by)
{
	return where->kind != CFI_OFFSET || !__builtin_sub_overflow(where->value, by, &where->value);
}

/*
 * GHC's StgRun names as its CFA where rsp is, and the caller's rsp far above it. A walk wants the CFA to be the
 * caller's rsp: what is saved relative to the one is then so relative to the other.
 */
static bool move_cfa(struct cfi_state *s, struct spoor_rule *rule)
{
	int64_t by;

	if (!rsp_shift(&s->rsp, rule, &by))
		return false;
	if (!by)
		return true;
	if (rule->op != SPOOR_RULE_CFA || !fits32(rule->cfa_off + by) || !shift_where(&s->ra, by) ||
	    !shift_where(&s->rbp, by))
		return false;
	rule->cfa_off += by;
	return true;
}

void spoor_cfi_keep_rbx(const struct cfi_state *s, struct spoor_rule *rule)
{
	const int64_t most = 1 << 23;
	const __u8 reg = rule->reg_rbp & 15, how = rule->reg_rbp >> 4;
	int64_t below = 0;

	if (rule->op != SPOOR_RULE_CFA || (reg != REG_RBX && reg != REG_RBP && reg != REG_RSP) ||
	    how > SPOOR_RBP_AT_CFA || rule->cfa_off < -most || rule->cfa_off >= most)
		return;
	if (s->rbx.kind == CFI_OFFSET && s->rbx.value < 0 && fits16(s->rbx.value))
		below = -s->rbx.value;
	else if (s->rbx.kind != CFI_SAME)
		return;
	if (below & 7 || below >> 3 > UINT8_MAX)
		return;
	rule->op = SPOOR_RULE_RBX;
	rule->cfa_off = (uint32_t)(below >> 3) << 24 | ((uint32_t)rule->cfa_off & 0xffffff);
}

bool spoor_cfi_rule(const struct cfi_state *state, bool signal_frame, struct spoor_rule *ret)
{
	struct spoor_rule rule = { 0 };
	struct cfi_state s = *state;

	if (s.ra.kind == CFI_UNDEFINED) {
		*ret = (struct spoor_rule){ .op = SPOOR_RULE_END, .reg_rbp = REG_RSP };
		return true;
	}
	if (!cfa_rule(&s, &rule))
		return false;
	if (signal_frame && is_ucontext(&rule)) {
		*ret = (struct spoor_rule){ .op = SPOOR_RULE_SIGNAL, .reg_rbp = REG_RSP };
		return true;
	}
	if (!move_cfa(&s, &rule) || !ra_rule(&s.ra, &rule))
		return false;
	rbp_rule(&s.rbp, &rule);
	*ret = rule;
	return true;
}
