/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/executable.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define MAX_SCRIPTS 4 /* whose interpreter is a script: as the kernel has it */
#define MAX_PHDRS 64
#define MAX_DYN 512

static int read_phdrs(int fd, Elf64_Ehdr *eh, Elf64_Phdr *ph)
{
	int n;

	if (pread(fd, eh, sizeof(*eh), 0) != sizeof(*eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG) ||
	    eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_phentsize != sizeof(*ph))
		return 0;
	n = eh->e_phnum < MAX_PHDRS ? eh->e_phnum : MAX_PHDRS;
	return pread(fd, ph, n * sizeof(*ph), eh->e_phoff) == (ssize_t)(n * sizeof(*ph)) ? n : 0;
}

bool spoor_object_is_executable(int fd)
{
	Elf64_Phdr ph[MAX_PHDRS];
	Elf64_Dyn dyn[MAX_DYN];
	Elf64_Ehdr eh;
	int n = read_phdrs(fd, &eh, ph);

	if (!n)
		return false;
	if (eh.e_type == ET_EXEC)
		return true;
	for (int i = 0; i < n; i++) {
		ssize_t got;

		if (ph[i].p_type != PT_DYNAMIC)
			continue;
		got = pread(fd, dyn, ph[i].p_filesz < sizeof(dyn) ? ph[i].p_filesz : sizeof(dyn), ph[i].p_offset);
		for (ssize_t d = 0; d < got / (ssize_t)sizeof(dyn[0]) && dyn[d].d_tag != DT_NULL; d++)
			if (dyn[d].d_tag == DT_FLAGS_1)
				return dyn[d].d_un.d_val & DF_1_PIE;
	}
	return false;
}

void spoor_object_interpreter(int fd, char *ret, int size)
{
	Elf64_Phdr ph[MAX_PHDRS];
	Elf64_Ehdr eh;
	int n = read_phdrs(fd, &eh, ph);

	ret[0] = 0;
	for (int i = 0; i < n; i++) {
		ssize_t got;

		if (ph[i].p_type != PT_INTERP)
			continue;
		got = pread(fd, ret, ph[i].p_filesz < (unsigned)size ? ph[i].p_filesz : (unsigned)size - 1,
			    ph[i].p_offset);
		ret[got > 0 ? got : 0] = 0;
		return;
	}
}

void spoor_object_script(int fd, char *ret, int size)
{
	ssize_t n = pread(fd, ret, size - 1, 0), begin = 2;

	ret[n > 0 ? n : 0] = 0;
	if (strncmp(ret, "#!", 2)) {
		snprintf(ret, size, "%s", n < 0 || !strncmp(ret, ELFMAG, SELFMAG) ? "" : "/bin/sh");
		return;
	}
	begin += strspn(ret + begin, " \t");
	n = strcspn(ret + begin, " \t\n");
	memmove(ret, ret + begin, n);
	ret[n] = 0;
	if (!n)
		snprintf(ret, size, "/bin/sh");
}

void spoor_object_loader(const char *path, char *ret, int size)
{
	char script[PATH_MAX];

	ret[0] = 0;
	for (int i = 0; i <= MAX_SCRIPTS; i++) {
		_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

		if (fd < 0)
			return;
		spoor_object_script(fd, script, sizeof(script));
		if (!script[0]) {
			spoor_object_interpreter(fd, ret, size);
			return;
		}
		path = script;
	}
}
