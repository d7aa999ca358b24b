/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The call frame instructions of one CIE or FDE: the machine of DWARF 5 section 6.4.2. Input is untrusted. */
#include "unwind/cfi.h"
#include "unwind/cursor.h"

/* A pointer in one of the encodings of .eh_frame needs to know what it may be relative to. */
struct cfi_bases {
	const struct spoor_elf_view *elf;
	const uint8_t *bytes; /* lies at vaddr */
	uint64_t vaddr;
	uint64_t data; /* DW_EH_PE_datarel */
	uint64_t function;
};

/* Returns 0, or -EBADMSG: truncated, or an encoding that x86-64 has not. */
int spoor_cfi_pointer(struct cursor *c, uint8_t encoding, const struct cfi_bases *bases, uint64_t *ret);

struct cfi_cie {
	uint64_t offset; /* within the section: its name */
	uint64_t code_align;
	int64_t data_align;
	uint8_t fde_encoding, lsda_encoding;
	bool has_augmentation, signal_frame;
	bool usable; /* false: damaged, or of an ABI we do not know */
	struct cfi_state initial;
};

/* Runs a CIE's instructions, which may not advance, on cie->initial. 0 or -EBADMSG. */
int spoor_cfi_run_cie(struct cfi_cie *cie, struct cursor *instructions, const struct cfi_bases *bases, __u64 *work);
/*
 * Runs an FDE's instructions and adds its rows to the range opened last. What follows an instruction that cannot be
 * understood gets no rule. 0 or -ENOMEM.
 */
int spoor_cfi_run_fde(const struct cfi_cie *cie, uint64_t start, struct cursor *instructions,
		      const struct cfi_bases *bases, struct rowset *rows);
