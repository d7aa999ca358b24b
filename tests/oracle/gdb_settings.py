# SPDX-License-Identifier: GPL-2.0-or-later
"""What gdb is told before it runs a program (inside gdb)."""
import gdb

SETTINGS = """
set pagination off
set confirm off
set auto-load off
set backtrace past-main on
set backtrace past-entry on
set backtrace limit unlimited
set print inferior-events off
set print thread-events off
set print frame-info location
set detach-on-fork on
set follow-fork-mode parent
set startup-with-shell on
set disable-randomization off
handle all nostop noprint pass
"""


def settle():
    for line in SETTINGS.strip().splitlines():
        gdb.execute(line, to_string=True)
