/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Texts that were made once and are needed again, by two numbers. Bounded: what has no room is made again. */
#include <stddef.h>
#include <stdint.h>

struct spoor_texts;

/* NULL: out of memory; the others take NULL as a store that holds nothing. */
struct spoor_texts *spoor_texts_new(void);
void spoor_texts_free(struct spoor_texts *t);
/* Borrowed until free(); NULL if it is not there. */
const char *spoor_texts_get(const struct spoor_texts *t, uint32_t a, uint32_t b);
/* Takes over text (malloc()ed, size bytes; NULL is fine). */
void spoor_texts_put(struct spoor_texts *t, uint32_t a, uint32_t b, char *text, size_t size);
