# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs inside gdb (gdb -x gdb_user_stops.py --args PROGRAM ...): stops at each call of tell(n, ...), and writes what
gdb sees of its callers to $STOPS_OUT: a pickle of {n: (mappings, [(pc, kind of frame, name)])}, innermost first."""
import os
import pickle
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__))) # gdb does not
from gdb_settings import settle


def mappings(pid):
    """[(start, end, permissions, offset, path)]"""
    with open(f"/proc/{pid}/maps") as f:
        lines = [line.split(None, 5) for line in f.read().splitlines()]
    return [(*(int(a, 16) for a in line[0].split("-")), line[1], int(line[2], 16), line[5] if len(line) > 5 else "")
            for line in lines]


def callers():
    found, frame = [], gdb.newest_frame().older()
    while frame is not None:
        found.append((frame.pc(), frame.type(), frame.name()))
        try:
            frame = frame.older()
        except gdb.error:
            break
    return found


def run():
    settle()
    gdb.execute("starti", to_string=True) # its addresses are known from here on
    gdb.execute("break *'(anonymous namespace)::tell'", to_string=True)
    tell = int(gdb.parse_and_eval("(long)&'(anonymous namespace)::tell'"))
    gdb.execute("continue", to_string=True)
    stops = {}
    while gdb.selected_inferior().pid:
        frame = gdb.newest_frame()
        if frame.pc() != tell: # a trap of the program's own
            gdb.execute("signal SIGTRAP", to_string=True)
            continue
        stops[int(frame.read_register("rdi")) & 0xffffffff] = (mappings(gdb.selected_inferior().pid), callers())
        gdb.execute("continue", to_string=True)
    with open(os.environ["STOPS_OUT"], "wb") as f:
        pickle.dump(stops, f)


run()
