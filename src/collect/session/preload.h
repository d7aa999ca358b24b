/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Loads the rows of what processes have mapped, or will map when they start. */
#include <sys/types.h>

#include "collect/session/objects.h"

/* What a process has mapped. A leader that has ended shows no mappings, though its threads have them. */
void spoor_preload_process(pid_t pid, struct spoor_objects *objects);
/* What this program will map at its start. */
void spoor_preload_command(const char *path, struct spoor_objects *objects);
/* A program that may start later: the one of this very name that a shell would find, sbin included. */
void spoor_preload_name(const char *name, struct spoor_objects *objects);
