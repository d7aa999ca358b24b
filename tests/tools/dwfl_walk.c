/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arbiter where Spoor and gdb see different stacks: libdw's unwinder, on what was kept of a stopped thread.
 *
 * Standard input, a request:
 *   module ADDRESS PATH        lowest address at which an object is mapped (repeated)
 *   regs R0..R15 PC            hex, in DWARF's order
 *   stack ADDRESS FILE         the bytes at ADDRESS are FILE's
 *   walk                       prints "ADDRESS EXACT" for each frame, innermost first, then "end REASON"
 */
#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_REGS 17

struct subject {
	Dwarf_Word regs[N_REGS];
	uint64_t stack_at;
	uint8_t *stack;
	size_t stack_len;
	Dwfl *dwfl;
};

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread)
{
	if (*thread)
		return 0;
	*thread = arg;
	return 1;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *ret, void *arg)
{
	const struct subject *s = arg;
	Dwfl_Module *module;
	Dwarf_Addr bias;
	Elf_Data *data;
	Elf_Scn *scn;

	if (addr >= s->stack_at && addr - s->stack_at + 8 <= s->stack_len) {
		memcpy(ret, s->stack + (addr - s->stack_at), 8);
		return true;
	}
	/* Code is read too, to know a signal's trampoline. */
	module = dwfl_addrmodule(dwfl, addr);
	scn = module ? dwfl_module_address_section(module, &addr, &bias) : NULL;
	data = scn ? elf_rawdata(scn, NULL) : NULL;
	if (!data || addr + 8 > data->d_size)
		return false;
	memcpy(ret, (uint8_t *)data->d_buf + addr, 8);
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct subject *s = arg;

	dwfl_thread_state_register_pc(thread, s->regs[16]);
	return dwfl_thread_state_registers(thread, 0, N_REGS, s->regs);
}

static int print_frame(Dwfl_Frame *frame, void *arg)
{
	unsigned *n = arg;
	Dwarf_Addr pc;
	bool exact;

	if (!dwfl_frame_pc(frame, &pc, &exact) || ++*n > 4096)
		return DWARF_CB_ABORT;
	printf("%#" PRIx64 " %d\n", (uint64_t)pc, exact);
	return DWARF_CB_OK;
}

static int find_elf(Dwfl_Module *m, void **u, const char *name, Dwarf_Addr base, char **file, Elf **elf)
{
	return -1;
}

static const Dwfl_Callbacks callbacks = { .find_elf = find_elf, .find_debuginfo = dwfl_standard_find_debuginfo };
static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.memory_read = memory_read,
	.set_initial_registers = set_registers,
};

static void take_module(struct subject *s, uint64_t at, const char *path)
{
	/* base: what is added to the object's addresses, whose first page is mapped at `at`. */
	if (!dwfl_report_elf(s->dwfl, path, path, -1, at, false))
		printf("# %s: %s\n", path, dwfl_errmsg(-1));
}

static void take_stack(struct subject *s, uint64_t at, const char *path)
{
	FILE *f = fopen(path, "re");

	s->stack = calloc(1, 1 << 20);
	s->stack_at = at;
	s->stack_len = f && s->stack ? fread(s->stack, 1, 1 << 20, f) : 0;
	if (f)
		fclose(f);
}

static void take_regs(struct subject *s, const char *text)
{
	char *end;

	for (int i = 0; i < N_REGS; i++, text = end)
		s->regs[i] = strtoull(text, &end, 16);
}

static void walk(struct subject *s)
{
	unsigned n = 0;

	dwfl_report_end(s->dwfl, NULL, NULL);
	if (!dwfl_attach_state(s->dwfl, NULL, 1, &thread_callbacks, s)) {
		printf("end cannot attach: %s\n", dwfl_errmsg(-1));
		return;
	}
	printf("end %s\n", dwfl_getthread_frames(s->dwfl, 1, print_frame, &n) ? dwfl_errmsg(-1) : "outermost");
}

int main(void)
{
	struct subject s = { .dwfl = dwfl_begin(&callbacks) };
	char line[4096], path[4096];
	uint64_t at;

	if (!s.dwfl)
		return 1;
	dwfl_report_begin(s.dwfl);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "module %" SCNx64 " %4095[^\n]", &at, path) == 2)
			take_module(&s, at, path);
		else if (sscanf(line, "stack %" SCNx64 " %4095[^\n]", &at, path) == 2)
			take_stack(&s, at, path);
		else if (!strncmp(line, "regs ", 5))
			take_regs(&s, line + 5);
		else if (!strcmp(line, "walk\n"))
			walk(&s);
	}
	dwfl_end(s.dwfl);
	free(s.stack);
	return 0;
}
