/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What has a scope that nothing may jump into. */
#pragma once
#ifdef __cplusplus
struct guard {
	int n;

	~guard() { n = 0; }
};
#define GUARD(name) guard name = { 1 }
#else
static inline void end_guard(int *guard)
{
	*guard = 0;
}
#define GUARD(name) __attribute__((cleanup(end_guard), unused)) int name = 1
#endif
