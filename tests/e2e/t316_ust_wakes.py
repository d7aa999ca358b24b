# SPDX-License-Identifier: GPL-2.0-or-later
"""When a program wakes its recorder: not for each packet, but before it has none left."""
import mmap
import socket
import struct
import subprocess

import tracing
from daemons import ticker  # noqa: F401
from processes import wait_for
from t314_ust_hostile_recorder import kick, rule, session_setup

CHANNEL, WAKE, CONSUMER_WAITS = 1024, 320, 324 # offsets in an arena: agent/core/arena.h


def arena_of(server, program):
    """What the program shares with a recorder that asks for all events."""
    peer, _ = server.accept()
    peer.settimeout(20)
    peer.recv(4096)
    peer.send(session_setup(buffers=1 << 16, packet=4096))
    peer.send(rule())
    kick(program)
    _, fds, _, _ = socket.recv_fds(peer, 4096, 1)
    with open(fds[0], "r+b") as f:
        return peer, mmap.mmap(f.fileno(), 0)


def number(arena, offset, form="<I"):
    return struct.unpack_from(form, arena, offset)[0]


def test_few_free_packets(build, ticker, tmp_path, ends_with_the_test):  # noqa: F811
    """A recorder that takes nothing: silence for a quarter of the packets, then a call for each."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(tmp_path / "sock"))
        server.listen(1)
        env = tracing.environment(build, None, SPOOR_UST_SOCKET=tmp_path / "sock")
        program = ends_with_the_test(subprocess.Popen([ticker, "1", "0", "1000"], env=env, stdout=subprocess.DEVNULL))
        peer, arena = arena_of(server, program)
        struct.pack_into("<I", arena, CONSUMER_WAITS, 1)
        own = number(arena, CHANNEL + 44) - number(arena, CHANNEL + 48)
        assert own >= 8
        silent = own // 4
        full = wait_for(lambda: number(arena, WAKE) and number(arena, CHANNEL + 112))
        assert full > silent
        wait_for(lambda: number(arena, CHANNEL + 64, "<Q"), 60) # it loses events: all are full, the shared ones too
        program.kill()
        program.wait()
        peer.close()
    assert 0 < number(arena, WAKE) <= number(arena, CHANNEL + 112) - silent
