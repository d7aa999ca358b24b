/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included more than once. */
#pragma GCC system_header
/*
 * First pass: descriptions. In a function that nobody calls each field is a constant, and a pair of offsets in a table:
 * to the field, and to the table of its labels (0: none); two 0 end the table. Labels are a table of one offset each.
 * The table is written by the assembler, because fields have no commas between them.
 */
#define SPOOR_LTTNG_TABLE_(symbol) \
	__asm__ volatile(".pushsection spoor_fields,\"a\",@progbits\n" \
			 "	.balign 4\n" \
			 "	.globl " symbol "\n" \
			 "	.hidden " symbol "\n" \
			 symbol ":\n" \
			 ".popsection\n");
#define SPOOR_LTTNG_TABLE_END_() \
	__asm__ volatile(".pushsection spoor_fields,\"a\",@progbits\n	.long 0, 0\n.popsection\n");

#define SPOOR_LTTNG_FIELD_(item, type, shape, bytes, base, flags, count, labels) \
	{ \
		static const struct { \
			struct spoor_desc_field d; \
			char n[SPOOR_PAD_(sizeof(#item))]; \
		} spoor_field_ __attribute__((aligned(8))) = { \
			{ (uint32_t)(sizeof(struct spoor_desc_field) + SPOOR_PAD_(sizeof(#item))), type, shape, bytes, \
			  base, flags, 0, count, 0, 0 }, \
			#item \
		}; \
		__asm__ volatile(".pushsection spoor_fields,\"a\",@progbits\n" \
				 "	.long %c0 - ., " labels "\n" \
				 ".popsection\n" \
				 : \
				 : "i"(&spoor_field_)); \
	}
#define SPOOR_LTTNG_TEXT_FLAG_(type, flags) (sizeof(type) == 1 ? (flags) : (flags) & ~2)

#define SPOOR_LTTNG_INTEGER_(type, item, src, base, flags) \
	SPOOR_LTTNG_FIELD_(item, 1, 0, sizeof(type), base, SPOOR_LTTNG_SIGNED_(type) | (flags), 0, "0")
#define SPOOR_LTTNG_FLOAT_(type, item, src) \
	SPOOR_LTTNG_FIELD_(item, 2, 0, sizeof(type) > 8 ? 8 : sizeof(type), 10, 1, 0, "0")
#define SPOOR_LTTNG_STRING_(item, src) SPOOR_LTTNG_FIELD_(item, 4, 0, 1, 10, 0, 0, "0")
#define SPOOR_LTTNG_ARRAY_(type, item, src, count, base, flags) \
	SPOOR_LTTNG_FIELD_(item, 1, 1, sizeof(type), base, \
			   SPOOR_LTTNG_SIGNED_(type) | SPOOR_LTTNG_TEXT_FLAG_(type, flags), \
			   (uint16_t)SPOOR_LTTNG_COUNT_(type, count), "0")
#define SPOOR_LTTNG_SEQUENCE_(type, item, src, ltype, n, base, flags) \
	SPOOR_LTTNG_FIELD_(item, 1, 2, sizeof(type), base, \
			   SPOOR_LTTNG_SIGNED_(type) | SPOOR_LTTNG_TEXT_FLAG_(type, flags), 0, "0")
#define SPOOR_LTTNG_ENUM_(provider, name, type, item, src) \
	SPOOR_LTTNG_FIELD_(item, 5, 0, sizeof(type), 10, SPOOR_LTTNG_SIGNED_(type), 0, \
			   "spoor_labels_" #provider "___" #name " - .")
#define SPOOR_LTTNG_UNUSED_(src)

/* An empty range stands for "one more than the last". */
#define SPOOR_LTTNG_LABEL_(s, from, to) \
	{ \
		static const struct { \
			int64_t low, high; \
			uint16_t size; \
			char n[SPOOR_PAD_(18 + sizeof(s)) - 18]; \
		} spoor_label_ __attribute__((aligned(8))) = { \
			(int64_t)(from), (int64_t)(to), (uint16_t)SPOOR_PAD_(18 + sizeof(s)), s \
		}; \
		__asm__ volatile(".pushsection spoor_fields,\"a\",@progbits\n" \
				 "	.long %c0 - .\n" \
				 ".popsection\n" \
				 : \
				 : "i"(&spoor_label_)); \
	}
#define lttng_ust_field_enum_value(s, value) SPOOR_LTTNG_LABEL_(s, value, value)
#define lttng_ust_field_enum_range(s, from, to) SPOOR_LTTNG_LABEL_(s, from, to)
#define lttng_ust_field_enum_auto(s) SPOOR_LTTNG_LABEL_(s, INT64_MAX, INT64_MIN)

#define SPOOR_LTTNG_LABELS_(provider, name, values) \
	static __attribute__((used, noinline)) void spoor_lttng_labels_##provider##___##name(void) \
	{ \
		SPOOR_LTTNG_TABLE_("spoor_labels_" #provider "___" #name) \
		values SPOOR_LTTNG_TABLE_END_() \
	}
#define SPOOR_LTTNG_CLASS_(provider, name, args, fields) \
	static __attribute__((used, noinline)) void spoor_lttng_fields_##provider##___##name(void) \
	{ \
		SPOOR_LTTNG_TABLE_("spoor_fields_" #provider "___" #name) \
		fields SPOOR_LTTNG_TABLE_END_() \
	}
#define SPOOR_LTTNG_INSTANCE_(template_provider, template_name, provider, name, args)
#define SPOOR_LTTNG_LEVEL_(provider, name, level)
