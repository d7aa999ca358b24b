/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * Tracepoints: typed events of a program. Declared once, in a header or above their use:
 *
 *	SPOOR_TRACEPOINT(server, request,
 *			 TP_PROTO(int fd, const char *path),
 *			 TP_ARGS(fd, path),
 *			 TP_FIELDS(spoor_int(int, fd, fd), spoor_string(path, path)))
 *
 * and in the code, in any function, one line:
 *
 *	spoor_trace(server, request, fd, path);
 *
 * Off, it costs an instruction that changes flags; its arguments are then not evaluated. trace_server_request(fd, path)
 * is the same as a function (its arguments are evaluated; `spoor ust list` tells the declaration's line; in C, gcc
 * before 14 and clang before 16 only warn of arguments of wrong types).
 * Fields, at most 32: see spoor/fields.h. Link with `pkg-config --libs spoor-ust`, or not at all: then sites stay off
 * until the library is preloaded. With SPOOR_DISABLE nothing is compiled but the types are checked.
 *
 * The declaration may be in many sources and objects, but it must be the same everywhere: a different one of the same
 * name in an object does not link. (Its values' expressions, and what labels are called, are not compared.)
 *
 * Callbacks, with the tracepoint's arguments behind `data`; async-signal-safety is theirs to have if sites are in
 * signal handlers:
 *
 *	int register_trace_server_request(void (*probe)(void *data, int fd, const char *path), void *data);
 *	int unregister_trace_server_request(void (*probe)(void *data, int fd, const char *path), void *data);
 *	void tracepoint_synchronize_unregister(void);
 *
 * return 0, or -EEXIST, -ENOMEM, -EPERM (there are sites, and in this process none can be switched on) and are not
 * registered, or -ENOENT, or -ENOSYS (no library). Unregistering needs no memory. After it, a probe may still run until
 * tracepoint_synchronize_unregister() has returned. All are safe to call from any thread, not from signal handlers. In
 * a probe nobody can wait until none runs: there they return -EDEADLK and do nothing, and
 * tracepoint_synchronize_unregister() returns at once. A probe has to return, or to end its thread (pthread_exit()):
 * after one that was left by longjmp() or an exception its thread is taken to be in it for ever, and waited for.
 */
#include "diagnostics.h"
#include "each.h"
#ifndef SPOOR_DISABLE
#include "fields.h"
#include "record.h"
#endif

#define TP_PROTO(...) __VA_ARGS__
#define TP_ARGS(...) __VA_ARGS__
#define TP_FIELDS(...) __VA_ARGS__

#define SPOOR_LEVEL_EMERG 0
#define SPOOR_LEVEL_ALERT 1
#define SPOOR_LEVEL_CRIT 2
#define SPOOR_LEVEL_ERR 3
#define SPOOR_LEVEL_WARNING 4
#define SPOOR_LEVEL_NOTICE 5
#define SPOOR_LEVEL_INFO 6
#define SPOOR_LEVEL_DEBUG 14

/* #proto here, as it is written: in C bool is a macro. */
#define SPOOR_TRACEPOINT(provider, name, proto, args, fields)                                                     \
	SPOOR_TRACEPOINT_SAID_(provider, name, SPOOR_LEVEL_INFO, #proto, SPOOR_P_(proto), SPOOR_P_(args),         \
			       SPOOR_P_(fields))
#define SPOOR_TRACEPOINT_LEVEL(provider, name, level, proto, args, fields)                                        \
	SPOOR_TRACEPOINT_SAID_(provider, name, level, #proto, SPOOR_P_(proto), SPOOR_P_(args), SPOOR_P_(fields))
#define SPOOR_P_(...) __VA_ARGS__
#define SPOOR_IGNORED_(i, x) (void)(x);

#ifndef SPOOR_WEAK_
#define SPOOR_WEAK_ __attribute__((weak)) /* absent libraries are NULL */
#endif
#ifdef __cplusplus
extern "C" {
#endif
struct spoor_desc;
/* The library's; absent they are NULL. probe: of the tracepoint's type. */
int spoor_probe_register(const struct spoor_desc *desc, const char *file, unsigned line, void (*probe)(void),
			 void *data) SPOOR_WEAK_;
int spoor_probe_unregister(const struct spoor_desc *desc, const char *file, unsigned line, void (*probe)(void),
			   void *data) SPOOR_WEAK_;
void spoor_probe_synchronize(void) SPOOR_WEAK_;
void spoor_thread_init(void) SPOOR_WEAK_;
#ifdef __cplusplus
}
#endif

static __inline__ __attribute__((unused)) void tracepoint_synchronize_unregister(void)
{
	if (spoor_probe_synchronize)
		spoor_probe_synchronize();
}

/*
 * For who makes threads by clone() without CLONE_SETTLS: before that, in the thread whose storage they get. Without the
 * library the call is nothing; the name alone is the library's function, or NULL.
 */
static __inline__ __attribute__((unused)) void spoor_thread_init_(void)
{
	if (spoor_thread_init)
		spoor_thread_init();
}
#define spoor_thread_init() spoor_thread_init_()

#define SPOOR_NO_LIBRARY_ (-38) /* -ENOSYS */

/*
 * `void *spoor_data_, int a, ...`; args tell whether there are any: a prototype of none is () or, as in the kernel,
 * (void).
 */
#define SPOOR_DATA_PROTO_(proto, ...) SPOOR_JOIN_(SPOOR_DATA_PROTO_, SPOOR_EMPTY_(__VA_ARGS__))(SPOOR_P_(proto))
#define SPOOR_DATA_PROTO_0(...) void *spoor_data_, __VA_ARGS__
#define SPOOR_DATA_PROTO_1(...) void *spoor_data_
#define SPOOR_DATA_ARGS_(...) SPOOR_JOIN_(SPOOR_DATA_ARGS_, SPOOR_EMPTY_(__VA_ARGS__))(__VA_ARGS__)
#define SPOOR_DATA_ARGS_0(...) spoor_probe_->data, __VA_ARGS__
#define SPOOR_DATA_ARGS_1(...) spoor_probe_->data
/* `void` for no arguments: C before C23 takes () for "any". */
#define SPOOR_PROTO_(...) SPOOR_JOIN_(SPOOR_PROTO_, SPOOR_EMPTY_(__VA_ARGS__))(__VA_ARGS__)
#define SPOOR_PROTO_0(...) __VA_ARGS__
#define SPOOR_PROTO_1(...) void

/* A probe of another type is an error: C only warns of pointers, but not where a union takes them. */
#ifdef __cplusplus
#define SPOOR_PROBE_TYPE_(symbol, proto, args) \
	typedef void (*spoor_probe_of_##symbol)(SPOOR_DATA_PROTO_(SPOOR_P_(proto), args));
#define SPOOR_PROBE_OF_(probe) ((void (*)(void))(probe))
#else
#define SPOOR_PROBE_TYPE_(symbol, proto, args)                                \
	typedef union {                                                       \
		void (*function)(SPOOR_DATA_PROTO_(SPOOR_P_(proto), args));   \
	} spoor_probe_of_##symbol __attribute__((transparent_union));
#define SPOOR_PROBE_OF_(probe) ((void (*)(void))(probe).function)
#endif

/* desc: an expression for the tracepoint's description. */
#define SPOOR_PROBES_(desc, symbol, proto, args)                                                                     \
	SPOOR_PROBE_TYPE_(symbol, SPOOR_P_(proto), SPOOR_P_(args))                                                   \
	static __inline__ __attribute__((unused)) int register_trace_##symbol(spoor_probe_of_##symbol probe,         \
									      void *data)                            \
	{                                                                                                            \
		if (!spoor_probe_register)                                                                           \
			return SPOOR_NO_LIBRARY_;                                                                    \
		return spoor_probe_register(desc, __FILE__, __LINE__, SPOOR_PROBE_OF_(probe), data);                 \
	}                                                                                                            \
	static __inline__ __attribute__((unused)) int unregister_trace_##symbol(spoor_probe_of_##symbol probe,       \
										void *data)                          \
	{                                                                                                            \
		if (!spoor_probe_unregister)                                                                         \
			return SPOOR_NO_LIBRARY_;                                                                    \
		return spoor_probe_unregister(desc, __FILE__, __LINE__, SPOOR_PROBE_OF_(probe), data);               \
	}

#ifdef SPOOR_DISABLE
#include "disabled.h"
#else

/*
 * A second, different declaration does not link. Each object has the declaration's words, in a section of strings with
 * the event's name, which linkers merge. Equal ones become one, at 0, since the section is not loaded. Of different
 * ones one is further on, and with what is added to its address it does not fit into its relocation's 32 bits.
 *
 * That is the same for all compilers, also if they optimize while they link: there are no symbols, for clang tells
 * linkers of these, but not of their groups; and of what it then makes lld takes no notice of groups. The one here is
 * for lld's -O0, which does not merge: it leaves the first of equal ones, unless they are of clang's -flto.
 *
 * SPOOR_WORDS_OF_(words) are literals as .ascii takes them, with their quotes: "server" ":" "request" ...
 */
#ifdef SPOOR_UNCHECKED_DECLARATIONS
#define SPOOR_DECLARED_(symbol, words)
#else
#define SPOOR_DECLARED_(symbol, words)                                                                     \
	__asm__(".pushsection .spoor_declaration_of_" symbol ",\"MS\",@progbits,1\n"                       \
		"771: .ascii " SPOOR_WORDS_OF_(words) " \"\\0\"\n"                                         \
		".popsection\n"                                                                            \
		".pushsection .spoor_different_declarations_of_" symbol                                    \
		",\"GR\",@progbits,\"spoor " words "\",comdat\n"                                           \
		".long 771b + 0xffffffff\n"                                                                \
		".popsection\n");
#endif

#define SPOOR_DESC_(provider, name, level, kind, fields)                                            \
	{ { sizeof(struct spoor_desc_##provider##__##name), SPOOR_PAD_(sizeof(#provider "\0" #name)), \
	    SPOOR_COUNT_(fields), kind, level, 0, 0 },                                               \
	  #provider "\0" #name, SPOOR_EACH_(SPOOR_I_, fields) }

/* The two parts of what cold code does, in a function that has the arguments and `spoor_tp_`. */
#define SPOOR_CALL_PROBES_(proto, args)                                                                             \
	if (__builtin_expect(SPOOR_LOAD_(spoor_tp_->probes) != NULL, 0)) {                                          \
		const struct spoor_probe *spoor_probe_ = SPOOR_LOAD_(spoor_tp_->ops)->probes_begin(spoor_tp_);      \
		for (; spoor_probe_->function; spoor_probe_++)                                                      \
			((void (*)(SPOOR_DATA_PROTO_(SPOOR_P_(proto), args)))spoor_probe_->function)(               \
				SPOOR_DATA_ARGS_(args));                                                            \
		SPOOR_LOAD_(spoor_tp_->ops)->probes_end();                                                          \
	}
#define SPOOR_RECORD_(size, writing)                                                                                \
	const size_t spoor_size_ = SPOOR_RECORD_SIZE_(size);                                                        \
	const struct spoor_handle spoor_h_ =                                                                        \
		SPOOR_LOAD_(spoor_tp_->reserve)(spoor_tp_, spoor_size_, __builtin_return_address(0));               \
	if (__builtin_expect(!spoor_h_.at, 0))                                                                      \
		return;                                                                                             \
	char *spoor_at_ = spoor_h_.at + SPOOR_RECORD_HEAD_;                                                         \
	writing (void)spoor_at_;                                                                                    \
	spoor_commit_(spoor_tp_, spoor_h_, spoor_size_);

#define SPOOR_TRACEPOINT_SAID_(provider, name, level, said, proto, args, fields)                                     \
	SPOOR_DECLARED_(#provider "__" #name,                                                                        \
			#provider ":" #name " " SPOOR_WORDS_OF_(level) " " said SPOOR_EACH_(SPOOR_Q_, fields))       \
	struct spoor_desc_##provider##__##name {                                                                     \
		struct spoor_desc d;                                                                                 \
		char names[SPOOR_PAD_(sizeof(#provider "\0" #name))];                                                \
		SPOOR_EACH_(SPOOR_T_, fields)                                                                        \
	} __attribute__((aligned(8)));                                                                               \
	SPOOR_CONSTANT_ struct spoor_desc_##provider##__##name                                                       \
		spoor_desc_of_##provider##__##name __attribute__((unused)) = SPOOR_DESC_(provider, name, level,      \
			SPOOR_DESC_TRACEPOINT, SPOOR_P_(fields));                                                    \
	static struct spoor_tracepoint spoor_tp_##provider##__##name __attribute__((unused));                        \
	SPOOR_STYLE_BEGIN_                                                                                           \
	SPOOR_STRICT_BEGIN_                                                                                          \
	static __attribute__((noinline, unused))                                                                     \
	SPOOR_UNWATCHED_ void spoor_emit_##provider##__##name(SPOOR_PROTO_(proto))                                   \
	{                                                                                                            \
		struct spoor_tracepoint *spoor_tp_ = &spoor_tp_##provider##__##name;                                 \
		SPOOR_CALL_PROBES_(SPOOR_P_(proto), SPOOR_P_(args))                                                  \
		SPOOR_EACH_(SPOOR_V_, fields)                                                                        \
		SPOOR_RECORD_(0 SPOOR_EACH_(SPOOR_S_, fields), SPOOR_EACH_(SPOOR_W_, fields))                        \
	}                                                                                                            \
	SPOOR_STRICT_END_                                                                                            \
	SPOOR_STYLE_END_                                                                                             \
	SPOOR_INLINE_ void trace_##provider##_##name(SPOOR_PROTO_(proto))                                            \
	{                                                                                                            \
		SPOOR_SITE_(spoor_tp_##provider##__##name, spoor_desc_of_##provider##__##name, __FILE__, on);        \
		return;                                                                                              \
	on:                                                                                                          \
		if (SPOOR_SITE_ON_(spoor_tp_##provider##__##name))                                                   \
			SPOOR_CALL_(spoor_emit_##provider##__##name(args));                                          \
	}                                                                                                            \
	SPOOR_PROBES_(&spoor_desc_of_##provider##__##name.d, provider##_##name, SPOOR_P_(proto), SPOOR_P_(args))

/* spoor_trace(provider, name, arguments...): pasted, the name is not expanded; and -Wpedantic wants one of "...". */
#define spoor_trace(provider, ...) SPOOR_TRACE_OF_(SPOOR_FIRST_(provider##__##__VA_ARGS__, ), SPOOR_REST_(__VA_ARGS__))
#define SPOOR_TRACE_OF_(event, ...) SPOOR_TRACE_(event, __VA_ARGS__)
#ifdef __cplusplus
#define SPOOR_TRACE_(event, ...)                                                                                    \
	do {                                                                                                        \
		SPOOR_SITE_CLASS_(spoor_tp_##event, spoor_desc_of_##event);                                         \
		if (spoor_site_here_::is_on_())                                                                     \
			SPOOR_CALL_(spoor_emit_##event(__VA_ARGS__));                                               \
	} while (0)
#else
#define SPOOR_TRACE_(event, ...)                                                                                    \
	do {                                                                                                        \
		__label__ spoor_on_, spoor_off_;                                                                    \
		SPOOR_OWN_BEGIN_                                                                                    \
		SPOOR_SITE_HERE_(spoor_tp_##event, spoor_desc_of_##event, spoor_on_);                               \
		goto spoor_off_;                                                                                    \
	spoor_on_:                                                                                                  \
		if (SPOOR_SITE_ON_(spoor_tp_##event)) {                                                             \
			SPOOR_STRICT_(SPOOR_CALL_(spoor_emit_##event(__VA_ARGS__)))                                 \
		}                                                                                                   \
	spoor_off_:;                                                                                                \
		SPOOR_OWN_END_                                                                                      \
	} while (0)
#endif

#include "declare.h"

#endif /* !SPOOR_DISABLE */
