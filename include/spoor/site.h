/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * A site: the place in a program's code where an event is. This header is the contract between programs and whoever
 * switches their sites; programs include spoor/tracepoint.h or spoor/marker.h.
 *
 *      off:  a9 imm32   test $imm32, %eax    (changes flags only)
 *      on:   e9 imm32   jmp  cold code       (the same imm32)
 *
 * One byte differs, so one store switches a site while other threads run through it; the five bytes lie within eight
 * aligned ones, which processors fetch at once. Nobody ever calls from a site: that would write the red zone.
 *
 * Each site has an entry in the section spoor_sites, with offsets relative to themselves, so that nothing is to be
 * relocated. Each object (executable, shared object) has one ELF note that tells where its entries are, found through
 * PT_NOTE in memory or in the file: whoever has only the file can list its sites, and a preloaded library finds them
 * although no code of the program knows of it.
 *
 *   .note.spoor:  namesz 6, descsz 16, type 1, "Spoor\0", pad to 4;
 *                 u32 version, i32 to the first entry, i32 to the end of entries (each from its own address), u32 0
 *
 * x86-64 only. C (C89 or newer; without warnings of -pedantic from C99 on) and C++ (C++11 or newer), gcc and
 * clang; gcc not in the large code model.
 */
#if !defined(__x86_64__) || defined(__ILP32__)
#error "spoor: sites are for x86-64 only; define SPOOR_DISABLE elsewhere"
#elif defined(__cplusplus) && __cplusplus < 201103L
#error "spoor: sites in C++ need -std=c++11 or newer; define SPOOR_DISABLE for older"
#elif defined(__code_model_large__) && !defined(__clang__)
#error "spoor: gcc has no sites in the large code model; take clang, -mcmodel=medium or define SPOOR_DISABLE"
#elif !defined(__SSE2__)
#error "spoor: sites need SSE2; define SPOOR_DISABLE where it is switched off"
#endif
#include <stddef.h>
#include <stdint.h>

#ifndef SPOOR_WEAK_
#define SPOOR_WEAK_ __attribute__((weak)) /* absent libraries are NULL */
#endif

/* Whatever the program has in force: the library has the same structures, and clang no atomic stores to packed ones. */
#pragma pack(push, 8)

#define SPOOR_SITE_VERSION 1
#define SPOOR_NOTE_SITES 1

#ifdef __cplusplus
extern "C" {
#endif

enum spoor_site_flag {
	SPOOR_SITE_FLAG = 1, /* built with SPOOR_FLAG_SITES: is compiled in as a jump, its cold code asks `enabled` */
	SPOOR_SITE_DEFINITION = 2, /* no site: `desc` is to a struct spoor_definition; its tracepoint is to be set up */
};

/* An entry of spoor_sites. 0 in `code`: not a site. */
struct spoor_site {
	int32_t code;       /* to the five bytes */
	int32_t tracepoint; /* to its struct spoor_tracepoint */
	int32_t desc;       /* to its struct spoor_desc */
	int32_t file;       /* to a string */
	uint32_t line;
	uint32_t flags;
};

#define SPOOR_SITE_TARGET(entry, member) ((uintptr_t)&(entry)->member + (uintptr_t)(intptr_t)(entry)->member)

/* ELSEWHERE: a tracepoint whose fields are in the definition of the same provider, name and format (its arguments). */
enum spoor_desc_kind {
	SPOOR_DESC_TRACEPOINT = 0,
	SPOOR_DESC_MARKER = 1,
	SPOOR_DESC_LOG = 2,
	SPOOR_DESC_ELSEWHERE = 3,
};

/*
 * What an event is: constant, without pointers, 8-aligned. Fields are in the form of definitions in shared memory
 * (src/agent/core/arena.h); those of markers are in the format, those of ELSEWHERE in its definition.
 *
 *   +-------------------+---------------------------------------------+-------+------------+
 *   | struct spoor_desc | provider\0 name\0 (others: format\0)        | to 8  | fields ... |
 *   +-------------------+---------------------------------------------+-------+------------+
 */
struct spoor_desc {
	uint32_t size;      /* bytes, all of it */
	uint16_t text_size; /* of the names, the padding included */
	uint16_t n_fields;
	uint8_t kind; /* enum spoor_desc_kind */
	uint8_t level;
	uint16_t reserved;
	uint32_t reserved2;
};

/* A description is there before any code runs, or does not compile: sites refer to it. C has nothing else. */
#ifdef __cplusplus
#define SPOOR_CONSTANT_ static constexpr
#else
#define SPOOR_CONSTANT_ static const
#endif

struct spoor_desc_field { /* struct spoor_def_field of shared memory; then name\0, to 8, labels */
	uint32_t size;
	uint8_t type, shape, bytes, base;
	uint8_t flags, reserved;
	uint16_t count, n_labels, reserved2;
};

/*
 * What a provider (lttng-compat) says of an event: offsets, each from its own address. fields: a table of pairs of
 * offsets, to a struct spoor_desc_field without labels and to a table of offsets of labels (0: none), until two 0;
 * labels end with 0, too. A label whose low is above its high is one more than the one before it.
 */
struct spoor_definition {
	int32_t desc;   /* to a struct spoor_desc, ELSEWHERE, with the level */
	int32_t fields;
	int32_t record; /* to the function that takes where the site is, and the arguments */
};

/*
 * Recording, as the cold code sees it. A producer belongs to one thread; the rest of it is the library's.
 * `at` of a handle: where the record is to be written, NULL: not at all. `producer`: whose it is; NULL: commit by call.
 * `site` of reserve(): where cold code returns to, which is where the site is.
 */
struct spoor_producer {
	char *at;
	char *end;
	uintptr_t busy;
	char *begin;
	uint64_t *committed;
};

struct spoor_handle {
	char *at;
	struct spoor_producer *producer;
};

struct spoor_probe {
	void (*function)(void);
	void *data;
};

struct spoor_tracepoint;

struct spoor_ops {
	void (*commit)(struct spoor_tracepoint *tp, char *at, size_t size);
	/* The probes of tp until a NULL function; what they are stays valid until probes_end. */
	const struct spoor_probe *(*probes_begin)(struct spoor_tracepoint *tp);
	void (*probes_end)(void);
	/* A marker's event: its arguments as its format says. */
	void (*mark)(struct spoor_tracepoint *tp, const char *format, ...);
	/* What records tp's events where no definition is linked in; NULL: none is loaded. Valid until probes_end. */
	void (*(*elsewhere)(struct spoor_tracepoint *tp))(void);
};

/*
 * What the library writes while programs run. Compilers make two instructions of an atomic load and its use, where one
 * is enough; ThreadSanitizer is told what it is. But in tests of ours it does not look into functions that write
 * events: what hands buffers from thread to thread is the library, which is not instrumented.
 */
#if defined(__SANITIZE_THREAD__)
#define SPOOR_TSAN_
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SPOOR_TSAN_
#endif
#endif
#ifdef SPOOR_TSAN_
#define SPOOR_LOAD_(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#else
#define SPOOR_LOAD_(x) (x)
#endif
#ifndef SPOOR_UNWATCHED_
#ifdef SPOOR_TSAN_
#define SPOOR_UNWATCHED_ __attribute__((no_sanitize_thread, no_instrument_function))
#else
#define SPOOR_UNWATCHED_ __attribute__((no_instrument_function))
#endif
#endif

/* One in each compilation unit that has sites of a tracepoint; all 0 and never read while the library is absent. */
struct spoor_tracepoint {
	struct spoor_handle (*reserve)(struct spoor_tracepoint *tp, size_t size, const void *site);
	const struct spoor_ops *ops;
	const void *probes; /* not NULL: there are some */
	uint16_t id;        /* in the arena */
	uint16_t slot;      /* bytes from a thread's first producer to the one of this channel */
	uint8_t enabled;
	uint8_t reserved[3];
	void *agent; /* the library's own */
};

/* A call that does not become a jump: call stacks of events begin in the function that has the site. */
#define SPOOR_CALL_(call)             \
	do {                          \
		call;                 \
		__asm__ volatile(""); \
	} while (0)

/* Called when an object comes and goes, if the library is there. note: its .note.spoor. */
void spoor_ust_object_in(const void *note) SPOOR_WEAK_;
void spoor_ust_object_out(const void *note) SPOOR_WEAK_;

#if !defined(SPOOR_DISABLE) && !defined(SPOOR_DISABLE_SITES_)

extern const char spoor_object_note_[] __attribute__((visibility("hidden")));

__attribute__((weak, visibility("hidden"), used, no_instrument_function)) void spoor_object_begin_(void)
{
	if (spoor_ust_object_in)
		spoor_ust_object_in(spoor_object_note_);
}

__attribute__((weak, visibility("hidden"), used, no_instrument_function)) void spoor_object_end_(void)
{
	if (spoor_ust_object_out)
		spoor_ust_object_out(spoor_object_note_);
}

/*
 * Once an object: link-time optimization joins compilation units into one assembler file, hence .ifndef; lld does not
 * know of the group there, hence .weak. clang would tell linkers of a weak symbol, but not of its group: beside objects
 * that are not optimized so they would take the note for there and drop it, or leave it out, at which clang aborts.
 * Hence a directive that it overlooks (GNU as, for gcc and -fno-integrated-as, does not know that).
 */
__asm__(".ifndef spoor_object_note_\n"
	".pushsection .note.spoor,\"aG\",@note,spoor_object_,comdat\n"
	"	.balign 4\n"
	".ifdef .gasversion.\n"
	"	.weak spoor_object_note_\n"
	".else\n"
	"	.weak_reference spoor_object_note_\n"
	".endif\n"
	"	.hidden spoor_object_note_\n"
	"	.type spoor_object_note_, @object\n"
	"spoor_object_note_:\n"
	"	.long 6, 16, 1\n"
	"	.asciz \"Spoor\"\n"
	"	.balign 4\n"
	"	.long 1\n"
	"	.long __start_spoor_sites - .\n"
	"	.long __stop_spoor_sites - .\n"
	"	.long 0\n"
	"	.size spoor_object_note_, . - spoor_object_note_\n"
	".popsection\n"
	".hidden __start_spoor_sites\n"
	".hidden __stop_spoor_sites\n"
	".pushsection spoor_sites,\"aG\",@progbits,spoor_object_,comdat\n"
	"	.balign 4\n"
	"	.long 0, 0, 0, 0, 0, 0\n"
	".popsection\n"
	".pushsection .init_array,\"awG\",@init_array,spoor_object_,comdat\n"
	"	.balign 8\n"
	"	.quad spoor_object_begin_\n"
	".popsection\n"
	".pushsection .fini_array,\"awG\",@fini_array,spoor_object_,comdat\n"
	"	.balign 8\n"
	"	.quad spoor_object_end_\n"
	".popsection\n"
	".endif\n");

#ifdef SPOOR_FLAG_SITES
#define SPOOR_SITE_OPCODE_ "0xe9"
#define SPOOR_SITE_FLAGS_ SPOOR_SITE_FLAG
#define SPOOR_SITE_ON_(tp) __builtin_expect(SPOOR_LOAD_((tp).enabled), 0)
#else
#define SPOOR_SITE_OPCODE_ "0xa9"
#define SPOOR_SITE_FLAGS_ 0
#define SPOOR_SITE_ON_(tp) 1
#endif

/*
 * The site itself: goes to `to` when switched on. The entry joins the group of the code that it is in ("?"), so that
 * inline functions, of which the linker keeps one, keep theirs.
 */
#define SPOOR_SITE_TEXT_(to)                                                                              \
	".p2align 3,,4\n"                                                                                 \
	"771: .byte " SPOOR_SITE_OPCODE_ "\n"                                                             \
	"	.long " to " - 772f\n"                                                                    \
	"772:\n"                                                                                          \
	".pushsection spoor_sites,\"aR?\",@progbits\n"                                                    \
	"	.balign 4\n"                                                                              \
	"	.long 771b - ., %c[spoor_tp_] - ., %c[spoor_desc_] - ., %c[spoor_file_] - .\n"            \
	"	.long %c[spoor_line_], %c[spoor_flags_]\n"                                                \
	".popsection\n"
#define SPOOR_SITE_OPERANDS_(tp, desc, file, line)                                                        \
	[spoor_tp_] "i"(tp), [spoor_desc_] "i"(desc), [spoor_file_] "i"(file), [spoor_line_] "i"(line),   \
		[spoor_flags_] "i"(SPOOR_SITE_FLAGS_)
#define SPOOR_SITE_(tp, desc, file, on)                                                                   \
	__asm__ goto(SPOOR_SITE_TEXT_("%l[" #on "]")                                                      \
		     :                                                                                    \
		     : SPOOR_SITE_OPERANDS_(&(tp), &(desc), file, __LINE__)                               \
		     : "cc"                                                                               \
		     : on)

/*
 * A site among a program's own code. clang before 17 takes each label of a function for a target of each asm goto in
 * it, and refuses those that lead past a destructor or into the scope of an array of variable length. So there it has
 * a function of its own: in C++, for any compiler, that of a class, since lambdas' bodies are looked into as well; in C
 * one for all, which must be inlined for the site's operands to be constants. That is not so without optimization: then
 * the site jumps to where it ends anyway, with the carry flag set, which the instruction that it is when off clears.
 */
#ifdef __cplusplus
/* Its variables are the object's own, also if the function around it is inline in other objects, too. */
#ifdef __clang__
#define SPOOR_SITE_STRUCT_ struct
#define SPOOR_SITE_FUNCTION_ static __inline__ __attribute__((always_inline, internal_linkage, no_instrument_function))
#else
#define SPOOR_SITE_STRUCT_ struct __attribute__((visibility("hidden")))
#define SPOOR_SITE_FUNCTION_ static __inline__ __attribute__((always_inline, no_instrument_function))
#endif
#define SPOOR_SITE_CLASS_(tp, desc)                                                                       \
	SPOOR_SITE_STRUCT_ spoor_site_here_ {                                                             \
		SPOOR_SITE_FUNCTION_ bool is_on_()                                                         \
		{                                                                                         \
			SPOOR_SITE_(tp, desc, __FILE__, on);                                              \
			return false;                                                                     \
		on:                                                                                       \
			return SPOOR_SITE_ON_(tp);                                                        \
		}                                                                                         \
	}
#elif !defined(__clang__) || __clang_major__ >= 17
#define SPOOR_SITE_HERE_(tp, desc, on) SPOOR_SITE_(tp, desc, __FILE__, on)
#elif defined(__OPTIMIZE__)
static __inline__ __attribute__((always_inline, unused, no_instrument_function)) int
spoor_site_is_on_(const struct spoor_tracepoint *tp, const void *desc, const char *file, int line)
{
	__asm__ goto(SPOOR_SITE_TEXT_("%l[on]") : : SPOOR_SITE_OPERANDS_(tp, desc, file, line) : "cc" : on);
	return 0;
on:
	return 1;
}
#define SPOOR_SITE_HERE_(tp, desc, on)                                                                    \
	do {                                                                                              \
		if (__builtin_expect(spoor_site_is_on_(&(tp), &(desc), __FILE__, __LINE__), 0))           \
			goto on;                                                                          \
	} while (0)
#else
#define SPOOR_SITE_HERE_(tp, desc, on)                                                                    \
	do {                                                                                              \
		int spoor_carry_;                                                                         \
		__asm__ volatile("stc\n" SPOOR_SITE_TEXT_("772f")                                         \
				 : "=@ccc"(spoor_carry_)                                                  \
				 : SPOOR_SITE_OPERANDS_(&(tp), &(desc), __FILE__, __LINE__));             \
		if (spoor_carry_)                                                                         \
			goto on;                                                                          \
	} while (0)
#endif

#endif /* !SPOOR_DISABLE */

#pragma pack(pop)

#ifdef __cplusplus
}
#endif
