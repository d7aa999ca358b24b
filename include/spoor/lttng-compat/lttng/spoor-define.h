/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included more than once. */
#pragma GCC system_header
/*
 * Fifth, sixth and seventh pass, in one function that nobody calls: each event has the default level, but in an inner
 * block the one that it was given; there its definition (struct spoor_definition) and its entry of spoor_sites are.
 */
#define SPOOR_LTTNG_LABELS_(provider, name, values)
#define SPOOR_LTTNG_CLASS_(provider, name, args, fields) (void)spoor_lttng_provider_is_##provider;
#if SPOOR_LTTNG_PASS_ == 5
#define SPOOR_LTTNG_INSTANCE_(template_provider, template_name, provider, name, args) \
	enum { spoor_level_##provider##___##name = LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE };
#define SPOOR_LTTNG_LEVEL_(provider, name, level)
#elif SPOOR_LTTNG_PASS_ == 6
#define SPOOR_LTTNG_INSTANCE_(template_provider, template_name, provider, name, args)
#define SPOOR_LTTNG_LEVEL_(provider, name, level) enum { spoor_level_##provider##___##name = (level) };
#else
#define SPOOR_LTTNG_LEVEL_(provider, name, level)
#define SPOOR_LTTNG_INSTANCE_(template_provider, template_name, provider, name, args) \
	(void)spoor_lttng_provider_is_##provider; \
	{ \
		SPOOR_LTTNG_DESC_(spoor_desc_, (uint8_t)spoor_level_##provider##___##name, \
				  SPOOR_LTTNG_TEXT_(provider, name, SPOOR_LTTNG_P_(args))) \
		__asm__ volatile(".pushsection spoor_definitions,\"a\",@progbits\n" \
				 "	.balign 4\n" \
				 "773:	.long %c1 - ., spoor_fields_" #template_provider "___" #template_name \
				 " - ., %c2 - .\n" \
				 ".popsection\n" \
				 ".pushsection spoor_sites,\"aR?\",@progbits\n" \
				 "	.balign 4\n" \
				 "	.long 0, %c0 - ., 773b - ., %c3 - ., %c4, 2\n" \
				 ".popsection\n" \
				 : \
				 : "i"(&spoor_lttng_tp_##provider##___##name), "i"(&spoor_desc_), \
				   "i"(spoor_lttng_record_##provider##___##name), "i"(__FILE__), "i"(__LINE__)); \
	}
#endif
