/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * How cold code writes an event: reserve (the one call), fields, commit (plain stores). All of it is async-signal-safe
 * and calls nothing of libc. Not for programs to use by themselves.
 */
#include <emmintrin.h>

#include "site.h"

#define SPOOR_RECORD_HEAD_ 16
#define SPOOR_RECORD_SIZE_(body) (((size_t)(body) + SPOOR_RECORD_HEAD_ + 7) & ~(size_t)7)
#define SPOOR_STRING_MAX_ 32767
#define SPOOR_INLINE_ static __inline__ __attribute__((always_inline, unused, no_instrument_function))
/* What reads bytes beside those that are meant. */
#ifdef __clang__
#define SPOOR_ANY_BYTES_ __attribute__((no_sanitize_address, no_sanitize_memory, no_instrument_function, unused))
#else
#define SPOOR_ANY_BYTES_ __attribute__((no_sanitize_address, no_instrument_function, unused))
#endif
/* Keeps compilers from warning that we read beyond an array that they know, within its aligned 16 bytes. */
#define SPOOR_UNKNOWN_(pointer) __asm__("" : "+r"(pointer))
#define SPOOR_BARRIER_() __asm__ volatile("" ::: "memory")

/*
 * Makes the event part of the trace: the store to `committed` is the moment. What is needed for it is loaded first,
 * and that the producer is still where the record was reserved is asked last: a handler that interrupts this may fork
 * (which wipes the producer in the child) or leave by siglongjmp and let the next event take the record back.
 */
SPOOR_INLINE_ void spoor_commit_(struct spoor_tracepoint *tp, struct spoor_handle h, size_t size)
{
	struct spoor_producer *p = h.producer;
	char *next = h.at + size;
	volatile uint64_t *committed;
	uint64_t bytes;

	if (__builtin_expect(!p, 0)) {
		SPOOR_LOAD_(tp->ops)->commit(tp, h.at, size);
		return;
	}
	SPOOR_BARRIER_();
	committed = p->committed;
	bytes = (uint64_t)(next - p->begin);
	SPOOR_BARRIER_();
	if (__builtin_expect(*(char *volatile *)&p->at != h.at, 0))
		return;
	__atomic_store_n(committed, bytes, __ATOMIC_RELAXED); /* others look whether there is room behind it */
	SPOOR_BARRIER_();
	p->at = next;
	SPOOR_BARRIER_();
	__atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE); /* that memory may be another session's from here on */
}

/* At most SPOOR_STRING_MAX_. Reads aligned 16 bytes at a time, which stay within the string's pages. */
SPOOR_ANY_BYTES_ SPOOR_UNWATCHED_ static __inline__ size_t spoor_string_length_(const char *s)
{
	const __m128i zero = _mm_setzero_si128();
	const char *at = (const char *)((uintptr_t)s & ~(uintptr_t)15);
	unsigned skip = (unsigned)((uintptr_t)s & 15);
	unsigned mask;
	size_t n;

	SPOOR_UNKNOWN_(at);
	SPOOR_UNKNOWN_(s);
	mask = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(*(const __m128i *)at, zero)) >> skip;
	if (mask)
		return (size_t)__builtin_ctz(mask);
	for (n = 16 - skip; n < SPOOR_STRING_MAX_; n += 16) {
		mask = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(*(const __m128i *)(s + n), zero));
		if (mask) {
			n += (size_t)__builtin_ctz(mask);
			return n < SPOOR_STRING_MAX_ ? n : SPOOR_STRING_MAX_;
		}
	}
	return SPOOR_STRING_MAX_;
}

/* The string that a pointer at `p` points to. */
SPOOR_INLINE_ const char *spoor_string_at_(const void *p)
{
	const char *s;

	__builtin_memcpy(&s, p, sizeof(s));
	return s ? s : "(null)";
}

SPOOR_INLINE_ int spoor_any_nul_(__m128i bytes)
{
	return _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128())) != 0;
}

/* A piece is loaded once, and what is looked at is what is stored: the compiler is kept from loading it again. */
SPOOR_INLINE_ __m128i spoor_copy_16_(char *to, const char *from)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)from);

	__asm__("" : "+x"(bytes));
	_mm_storeu_si128((__m128i *)to, bytes);
	return bytes;
}

/*
 * memcpy for short pieces, without a call; the ends of the pieces of 16, 8, 4 may overlap. Returns whether there is a
 * NUL among what was copied (or was, in what overlaps), for which `from` is not read again: others may write there.
 */
SPOOR_INLINE_ int spoor_copy_(char *to, const char *from, size_t n)
{
	int any = 0;
	size_t i;

	SPOOR_UNKNOWN_(from); /* of a short literal the compiler would warn of what is copied of longer texts alone */
	if (n >= 16) {
		__m128i least = spoor_copy_16_(to, from);

		for (i = 16; i + 16 <= n; i += 16)
			least = _mm_min_epu8(least, spoor_copy_16_(to + i, from + i));
		return spoor_any_nul_(_mm_min_epu8(least, spoor_copy_16_(to + n - 16, from + n - 16)));
	}
	if (n >= 8) {
		uint64_t a, b;

		__builtin_memcpy(&a, from, 8);
		__builtin_memcpy(&b, from + n - 8, 8);
		SPOOR_UNKNOWN_(a);
		SPOOR_UNKNOWN_(b);
		__builtin_memcpy(to, &a, 8);
		__builtin_memcpy(to + n - 8, &b, 8);
		return spoor_any_nul_(_mm_set_epi64x((long long)b, (long long)a));
	}
	if (n >= 4) {
		uint32_t a, b;

		__builtin_memcpy(&a, from, 4);
		__builtin_memcpy(&b, from + n - 4, 4);
		SPOOR_UNKNOWN_(a);
		SPOOR_UNKNOWN_(b);
		__builtin_memcpy(to, &a, 4);
		__builtin_memcpy(to + n - 4, &b, 4);
		return spoor_any_nul_(_mm_set_epi32((int)b, (int)a, (int)b, (int)a));
	}
	for (i = 0; i < n; i++) {
		int byte = from[i];

		SPOOR_UNKNOWN_(byte);
		to[i] = (char)byte;
		any |= !byte;
	}
	return any;
}

/* As LTTng does: what was a string up to here has been cut short while it was recorded. */
static __attribute__((noinline, cold, unused)) SPOOR_UNWATCHED_ void spoor_fill_string_(char *at, size_t n)
{
	size_t i;

	for (i = 0; i < n && at[i]; i++)
		;
	for (; i < n; i++)
		at[i] = '#';
}

/* Just n bytes and a NUL, whatever has become of the string: a reader finds the next field by its NUL. */
SPOOR_INLINE_ char *spoor_put_string_(char *at, const char *s, size_t n)
{
	if (__builtin_expect(spoor_copy_(at, s, n), 0))
		spoor_fill_string_(at, n);
	at[n] = 0;
	return at + n + 1;
}

/* None if it is negative, or was. It is looked at after it was loaded, once: others may write to where it came from. */
SPOOR_INLINE_ uint16_t spoor_count_(uint64_t count, size_t most)
{
	if (!__builtin_constant_p(count))
		SPOOR_UNKNOWN_(count);
	if (count > INT32_MAX)
		return 0;
	return (uint16_t)(count < most ? count : most);
}

SPOOR_INLINE_ char *spoor_put_sequence_(char *at, const void *from, uint16_t count, size_t bytes)
{
	__builtin_memcpy(at, &count, 2);
	spoor_copy_(at + 2, (const char *)from, bytes);
	return at + 2 + bytes;
}
