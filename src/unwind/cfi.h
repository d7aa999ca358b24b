/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Call frame information: CIEs, FDEs and their instructions -> unwind rules.
 *
 * Source: DWARF 5 section 6.4; LSB 5.0 Core, chapter 10.6 (.eh_frame, pointer encodings, augmentations); GNU
 * extensions as in the binutils and gcc manuals. Input is untrusted.
 */
#include "unwind/elf_view.h"
#include "unwind/rowset.h"

/* How a register of the caller is found. */
enum cfi_kind {
	CFI_SAME,       /* also: nothing said; by the psABI such a register is as it was */
	CFI_UNDEFINED,
	CFI_OFFSET,     /* saved at CFA + value */
	CFI_VAL_OFFSET, /* is CFA + value */
	CFI_REGISTER,   /* is in register `value` */
	CFI_EXPRESSION, /* saved where the expression says */
	CFI_VAL_EXPRESSION,
};

struct cfi_where {
	enum cfi_kind kind;
	int64_t value;
	const uint8_t *expr;
	size_t expr_size;
};

/* One row of the table that CFI describes, as far as a walk needs it. */
struct cfi_state {
	uint64_t cfa_reg;
	int64_t cfa_off;
	const uint8_t *cfa_expr; /* not NULL: instead of register and offset */
	size_t cfa_expr_size;
	struct cfi_where rbp, rbx, rsp, ra;
};

/*
 * The rule of a state. Returns false when it has a shape that no rule can express; *ret is then left alone. A frame
 * whose rbp alone cannot be expressed still has a rule (SPOOR_RBP_UNDEF).
 */
bool spoor_cfi_rule(const struct cfi_state *s, bool signal_frame, struct spoor_rule *ret);

/* The same rule, which also says where rbx is, if it can. */
void spoor_cfi_keep_rbx(const struct cfi_state *s, struct spoor_rule *rule);

struct cfi_section {
	struct spoor_view_range bytes;
	bool eh_frame;        /* else .debug_frame */
	bool ends_with_zero;  /* size unknown: a zero length ends it */
	uint64_t data_base;   /* for DW_EH_PE_datarel */
};

/*
 * Adds the ranges and rows of every FDE. Returns 0; -EBADMSG when not one record could be read or the file asks for
 * work out of proportion to its size; -ENOMEM. Damage after the first records ends the reading without an error.
 */
int spoor_cfi_read(const struct spoor_elf_view *elf, const struct cfi_section *section, struct rowset *rows);
