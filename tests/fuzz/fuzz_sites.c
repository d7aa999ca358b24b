/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files whose sites are listed: input is an ELF file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <stdio.h>
#include <unistd.h>

#include "collect/user/sites.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t seen;

static void see(void *ctx, const struct spoor_site_info *s)
{
	seen += strlen(s->provider) + strlen(s->name) + strlen(s->fields) + strlen(s->file) + strlen(s->object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct spoor_error e = { "" };
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (spoor_sites_of_file(path, see, NULL, &e) < 0 && !*e.text)
		abort();
	close(fd);
	return 0;
}
