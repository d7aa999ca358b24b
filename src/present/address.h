/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Socket addresses and what descriptors refer to, as text and as JSON. */
#include <stdio.h>

#include "trace/reader.h"

/* A sockaddr's bytes as the kernel read them: {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("1.2.3.4")} */
void spoor_put_sockaddr(FILE *out, const uint8_t *bytes, size_t len);
void spoor_put_sockaddr_json(FILE *out, const uint8_t *bytes, size_t len);

/* What a descriptor refers to: </etc/passwd>, <TCP:[127.0.0.1:80->127.0.0.1:4711]>; nothing if unknown. */
void spoor_put_file(FILE *out, const struct spoor_segment *segment, uint32_t file);
/* Members after "fd": `,"path":...,"kind":...` or `,"socket":{...}`; nothing if unknown. */
void spoor_put_file_json(FILE *out, const struct spoor_segment *segment, uint32_t file);
