# SPDX-License-Identifier: GPL-2.0-or-later
"""A recorder that takes nothing: when a program wakes it, and which packets it is left."""
import mmap
import socket
import struct
import subprocess

import pytest

import tracing
from daemons import ticker  # noqa: F401
from fakeprogram import FULL
from processes import wait_for
from t314_ust_hostile_recorder import rule, session_setup

CHANNEL, WAKE, CONSUMER_WAITS = 1024, 320, 324 # offsets in an arena: agent/core/arena.h


def arena_of(server):
    """What the program shares with a recorder that asks for all events."""
    peer, _ = server.accept()
    peer.recv(4096)
    peer.send(session_setup(buffers=1 << 16, packet=4096))
    peer.send(rule())
    _, fds, _, _ = socket.recv_fds(peer, 4096, 1)
    with open(fds[0], "r+b") as f:
        return peer, mmap.mmap(f.fileno(), 0)


def number(arena, offset, form="<I"):
    return struct.unpack_from(form, arena, offset)[0]


@pytest.fixture
def recorded(build, tmp_path, ends_with_the_test):
    """recorded(program, ...) -> (the process, its arena)"""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(str(tmp_path / "sock"))
    server.listen(1)
    kept = []

    def start(*command):
        env = tracing.environment(build, None, SPOOR_UST_SOCKET=tmp_path / "sock")
        program = ends_with_the_test(subprocess.Popen(list(map(str, command)), env=env, stdout=subprocess.DEVNULL))
        peer, arena = arena_of(server)
        kept.append(peer)
        struct.pack_into("<I", arena, CONSUMER_WAITS, 1)
        return program, arena
    with server:
        yield start


def test_few_free_packets(recorded, ticker):  # noqa: F811
    """Silence for a quarter of the packets, then a call for each."""
    program, arena = recorded(ticker, 1, 0, 1000)
    own = number(arena, CHANNEL + 44) - number(arena, CHANNEL + 48)
    assert own >= 8
    silent = own // 4
    full = wait_for(lambda: number(arena, WAKE) and number(arena, CHANNEL + 112))
    assert full > silent
    wait_for(lambda: number(arena, CHANNEL + 64, "<Q"), 60) # it loses events: all are full, the shared ones too
    program.kill()
    program.wait()
    assert 0 < number(arena, WAKE) <= number(arena, CHANNEL + 112) - silent


def test_filled_to_the_last_byte(recorded, tmp_path):
    """By a thread that then ended: nobody has use for such a packet, so it is the recorder's."""
    actor = tracing.build_program(tmp_path / "actor", "ust_actor.c")
    program, arena = recorded(actor, "threads", 60, 4096 // 32) # fifty at once, and then ten that look for room
    assert program.wait(30) == 0
    headers, shared, packets = number(arena, 120, "<Q"), number(arena, CHANNEL + 48), number(arena, CHANNEL + 44)
    own = [struct.unpack_from("<QQQ", arena, headers + 64 * i) for i in range(shared, packets)]
    assert {(owner >> 32 & 15, committed) for owner, _, committed in own} == {(FULL, 4096)}
