# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs inside gdb (gdb -x gdb_stops.py PROGRAM): stops the program at the entry of system calls while spoor records
it, and writes what gdb sees at each stop to $STOPS_OUT, a pickle of dicts.

Both look at the same process: gdb's stop comes before the kernel's tracepoint of the same entry, with the same
registers.
When the thread was let go is noted, so that the thread's first event after that time is this entry. What arbitration
needs (registers, the bytes of the stack, mappings) is kept as well."""

import os
import pickle
import re
import subprocess
import sys
import time

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__))) # gdb does not
from gdb_settings import settle

OUT, TRACE, SPOOR = os.environ["STOPS_OUT"], os.environ["STOPS_TRACE"], os.environ["STOPS_SPOOR"]
COUNT, EVERY = int(os.environ["STOPS_COUNT"]), int(os.environ.get("STOPS_EVERY", "1"))
SKIP = int(os.environ.get("STOPS_SKIP", "0"))
STDIN, STDOUT = os.environ.get("STOPS_STDIN", "/dev/null"), os.environ["STOPS_STDOUT"]
DEADLINE = time.monotonic() + float(os.environ.get("STOPS_SECONDS", "60"))
STACK_BYTES = 1 << 18
DWARF_REGS = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()
ARGS = "rdi rsi rdx r10 r8 r9".split()


def wait_until_recording(spoor):
    """It says so once everything is attached."""
    while spoor.poll() is None:
        with open(TRACE + ".err") as f:
            if "recording into" in f.read():
                return
        time.sleep(0.01)


def maps_of(pid, known=[None, None]):
    with open(f"/proc/{pid}/maps") as f:
        text = f.read()
    if text != known[0]:
        known[:] = [text, [m for m in (parse_map(line) for line in text.splitlines()) if m]]
    return known[1]


def parse_map(line):
    m = re.match(r"(\w+)-(\w+) (\S+) (\w+) \S+ \d+ *(.*)", line)
    return (int(m[1], 16), int(m[2], 16), m[3], int(m[4], 16), m[5]) if m else None


def backtrace():
    frames, why, f = [], None, gdb.newest_frame()
    while f is not None:
        try:
            frames.append((f.pc(), f.type()))
            older = f.older()
            if older is None:
                why = gdb.frame_stop_reason_string(f.unwind_stop_reason())
        except gdb.error as e:
            why, older = str(e), None
        f = older
    return frames, why


def stack_bytes(inferior, maps, sp):
    for start, end, *_ in maps:
        if start <= sp < end:
            begin = max(start, sp - 256)
            return begin, bytes(inferior.read_memory(begin, min(end - begin, STACK_BYTES)))
    return sp, b""


def snapshot(inferior):
    frame = gdb.newest_frame()
    regs = {r: int(frame.read_register(r)) & (1 << 64) - 1 for r in DWARF_REGS}
    maps = maps_of(inferior.pid)
    frames, why = backtrace()
    begin, data = stack_bytes(inferior, maps, regs["rsp"])
    return {"pid": inferior.pid, "tid": gdb.selected_thread().ptid[1], "nr": int(frame.read_register("orig_rax")),
            "args": [int(frame.read_register(r)) & (1 << 64) - 1 for r in ARGS], "regs": [regs[r] for r in DWARF_REGS],
            "maps": maps, "frames": frames, "why": why, "stack_at": begin, "stack": data}


ENOSYS = (1 << 64) - 38
in_call = {}


def resume():
    """Lets the program go to its next stop: "entry" or "exit" of a call; None when it has ended. At entry rax holds
    -ENOSYS, which a call might also return: then it matters that the thread was in a call."""
    gdb.execute("continue", to_string=True)
    thread = gdb.selected_thread()
    if gdb.selected_inferior().pid == 0 or thread is None:
        return None
    tid = thread.ptid[1]
    rax = int(gdb.newest_frame().read_register("rax")) & (1 << 64) - 1
    in_call[tid] = rax == ENOSYS and not in_call.get(tid)
    return "entry" if in_call[tid] else "exit"


def run():
    settle()
    gdb.execute(f"starti {os.environ['STOPS_ARGS']} < {STDIN} > {STDOUT} 2>&1", to_string=True)
    inferior = gdb.selected_inferior()
    spoor = subprocess.Popen([SPOOR, "record", "-m", "all", "-S", "512", "-o", TRACE, "-p", str(inferior.pid)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(TRACE + ".err", "w"))
    stops, entries, let_go = [], 0, None
    try:
        wait_until_recording(spoor)
        gdb.execute("catch syscall", to_string=True)
        while len(stops) < COUNT and time.monotonic() < DEADLINE:
            let_go = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            if stops and stops[-1].get("resumed") is None:
                stops[-1]["resumed"] = let_go
            stop = resume()
            if stop is None:
                break
            if stop != "entry":
                continue
            entries += 1
            if entries > SKIP and (entries - SKIP) % EVERY == 0:
                stops.append(snapshot(inferior))
        if stops and stops[-1].get("resumed") is None:
            stops.pop()  # it was never let go, so it is no event
        if inferior.pid:
            gdb.execute("kill", to_string=True)
    finally:
        with open(OUT, "wb") as f:
            pickle.dump({"stops": stops, "entries": entries}, f)
        try:
            spoor.wait(10)
        except subprocess.TimeoutExpired:
            spoor.terminate()
            spoor.wait(10)


run()
