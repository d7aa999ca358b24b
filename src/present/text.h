/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Bytes of traced programs on their way to a terminal or into JSON. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Escaped for a terminal, without quotes. */
void spoor_put_text(FILE *out, const char *s, size_t len);
void spoor_put_string(FILE *out, const char *s); /* NULL: nothing */
/* The same of what is nobody's quotation: backslash and quote as they are. */
void spoor_put_line(FILE *out, const char *s);
/* A JSON string with its quotes; NULL: null. */
void spoor_put_json_bytes(FILE *out, const char *s, size_t len);
void spoor_put_json_string(FILE *out, const char *s);
/* "12,345" */
void spoor_format_count(uint64_t n, char *buf, size_t size);
