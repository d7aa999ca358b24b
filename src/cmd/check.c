/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/cmd.h"

int spoor_cmd_check(int argc, char **argv)
{
	return SPOOR_EXIT_OK;
}
