/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * What tracef and tracelog have in common: one text field, made by vsnprintf only where the event is recorded. Short
 * texts are made on the stack; longer ones twice, for their length and then in their place, since memory is not to be
 * had from a signal handler. Of texts, 32,767 bytes are kept.
 */
#include <errno.h>
#include <stdarg.h>

#include <lttng/tracepoint.h>

#ifndef SPOOR_DISABLE
#define SPOOR_LTTNG_SHORT_ 512

struct spoor_lttng_place_ {
	const char *file, *function;
	int line;
};

SPOOR_INLINE_ char *spoor_lttng_put_place_(char *at, const struct spoor_lttng_place_ *place, size_t file,
					   size_t function)
{
	__builtin_memcpy(at, &place->line, 4);
	at = spoor_put_string_(at + 4, place->file, file);
	return spoor_put_string_(at, place->function, function);
}

static __attribute__((noinline, unused, format(printf, 4, 0))) SPOOR_UNWATCHED_ void
spoor_lttng_text_(struct spoor_tracepoint *tp, const void *spoor_site_, const struct spoor_lttng_place_ *place,
		  const char *format, va_list args)
{
	const size_t file = place ? spoor_string_length_(place->file) : 0;
	const size_t function = place ? spoor_string_length_(place->function) : 0;
	const size_t head = place ? 4 + file + 1 + function + 1 : 0;
	char text[SPOOR_LTTNG_SHORT_], *at;
	struct spoor_handle h;
	int saved = errno, r;
	size_t n, size;
	va_list copy;

	va_copy(copy, args);
	r = vsnprintf(text, sizeof(text), format, copy);
	va_end(copy);
	n = r < 0 ? 0 : (size_t)r < SPOOR_STRING_MAX_ ? (size_t)r : SPOOR_STRING_MAX_;
	if (n >= sizeof(text) && (SPOOR_RECORD_HEAD_ + head + 2 + n) % 8 == 0)
		n++; /* where vsnprintf ends with its NUL: in the text, as padding would be none */
	size = SPOOR_RECORD_SIZE_(head + 2 + n);
	h = tp->reserve(tp, size, spoor_site_);
	if (h.at) {
		const uint16_t count = (uint16_t)n;

		at = h.at + SPOOR_RECORD_HEAD_;
		if (place)
			at = spoor_lttng_put_place_(at, place, file, function);
		__builtin_memcpy(at, &count, 2);
		if (n < sizeof(text)) {
			spoor_copy_(at + 2, text, n);
		} else {
			__builtin_memset(at + 2, 0, n);
			errno = saved; /* for %m */
			vsnprintf(at + 2, n + ((size_t)(at + 2 + n - h.at) % 8 != 0), format, args);
		}
		spoor_commit_(tp, h, size);
	}
	errno = saved;
}
#endif
