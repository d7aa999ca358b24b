/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct spoor_hub_result;
struct spoor_ust_apart;
struct spoor_user_damaged;

/* The words of `spoor ust`: each is int spoor_ust_cmd_X(argc, argv) with argv[0] the word; it returns the exit code. */

int spoor_ust_cmd_run(int argc, char **argv);
int spoor_ust_cmd_list(int argc, char **argv);
int spoor_ust_cmd_control(int argc, char **argv); /* start, stop, end, enable, disable, status, snapshot */
int spoor_ust_cmd_recover(int argc, char **argv);

/* One line on standard error, fit for a terminal. */
void spoor_ust_say(const char *text);
/* "0 lost", "0 lost, 198528 overwritten" */
const char *spoor_ust_losses(uint64_t lost, uint64_t overwritten, char *to, size_t size);
/* ", the oldest 41 segments dropped"; "": none were */
const char *spoor_ust_dropped(unsigned segments, char *to, size_t size);
/* "1472 events of 1 program, 0 lost; 0.1 MB" */
const char *spoor_ust_sum(const struct spoor_hub_result *r, char *to, size_t size);
/* "cat[12] wrote what made no sense into its own buffer, in 3 places; ..." */
const char *spoor_ust_damaged(const struct spoor_user_damaged *d, char *to, size_t size);
const char *spoor_ust_undescribed(uint64_t n, char *to, size_t size);
/* "perf:cycles: 0 in some events, ...": counters that could not be had, as bits of contexts. */
const char *spoor_ust_uncounted(uint32_t contexts, char *to, size_t size);
/* The same as a line on standard error, if there are any. */
void spoor_ust_say_uncounted(uint32_t contexts);
void spoor_ust_say_damaged(const struct spoor_user_damaged *d);
void spoor_ust_say_undescribed(uint64_t n); /* 0: nothing */
/* "1 program that came is not recorded: WHY" */
const char *spoor_ust_not_recorded(const struct spoor_ust_apart *a, char *to, size_t size);
/* The same as a line on standard error, if there are any. */
void spoor_ust_say_not_recorded(const struct spoor_ust_apart *a);
/* What is to be said of a recording of a command beside its sum: lines on standard error. */
void spoor_ust_say_end(const struct spoor_hub_result *result);
/* Why there is no event although programs came. */
const char *spoor_ust_for_nothing(const struct spoor_hub_result *r, char *to, size_t size);
