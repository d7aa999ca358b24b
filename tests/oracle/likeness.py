# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a recording and `strace -ff -y -X raw` of two runs of the same deterministic command say the same.

Threads are matched by who created them, in order. Numbers that hang on chance belong together one by one: inode numbers
of pipes and sockets, ports that the kernel chose; process ids through the matching of threads. What strace shows of the
memory at an address is not compared. Calls that hang on scheduling are left out by name (CHANCE), on both sides."""
import re
import socket
from collections import Counter

import strace

CREATES = {"clone", "clone3", "fork", "vfork"}
PIDS = CREATES | {"wait4", "waitid", "getpid", "gettid", "getppid", "set_tid_address", "setsid", "getpgrp", "getpgid",
        "kill", "tgkill", "tkill"}
RESTARTS = {-512: "ERESTARTSYS", -513: "ERESTARTNOINTR", -514: "ERESTARTNOHAND", -516: "ERESTART_RESTARTBLOCK"}
CHANCE = {"futex", "sched_yield", "restart_syscall", "rt_sigreturn"}
RANDOM = re.compile(r"(?<=/\.git/)t\w{6}\b")  # git's name for a try
OWN_ORDER = set()  # strace shows these with other arguments, or in another order, than the kernel takes them
CLONE = {"child_stack": "newsp", "flags": "clone_flags", "parent_tid": "parent_tidptr", "tls": "tls",
         "child_tidptr": "child_tidptr"}  # strace's words, and the kernel's


# ---- the two sides in one form: (name, arguments, result) ----

def tree(threads, created):
    """{tid: name}, the root being "0" and its second child "0.1"."""
    children = {tid: created(calls) for tid, calls in threads.items()}
    born = {c for cs in children.values() for c in cs}
    (root,) = [t for t in threads if t not in born]
    names, todo = {}, [(root, "0")]
    while todo:
        tid, name = todo.pop()
        names[tid] = name
        todo += [(c, f"{name}.{i}") for i, c in enumerate(children.get(tid, []))]
    return names


def from_strace(threads):
    def created(calls):
        return [int(r) for name, _, r in calls if name in CREATES and r.isdigit() and r != "0"]
    names = tree(threads, created)
    return {names[t]: without_chance([(n, of_strace(n, a, names), strace_result(n, r, names), r) for n, a, r in calls])
            for t, calls in threads.items()}


def of_strace(name, args, names):
    """Its arguments; of a clone by the kernel's names."""
    if name == "clone":
        return {CLONE[word]: text for word, text in (a.split("=", 1) for a in args)}
    if name in PIDS and args and args[0].isdigit():
        return [known(int(args[0]), names), *args[1:]]
    return args


def strace_result(name, text, names):
    m = re.match(r"\? (ERESTART\w+)", text)
    if m:
        return m[1]
    if text.startswith("?"):
        return None
    m = re.match(r"-1 (E\w+)", text)
    if m:
        return m[1]
    value = int(text.split("<")[0].split()[0], 0)
    return known(value, names) if name in PIDS else value


def known(pid, names):
    return names.get(pid, "stranger" if pid else 0)


def from_spoor(recording):
    threads = recording.by_thread()

    def created(calls):
        return [c["ret"] for c in calls if c["event"] in CREATES and isinstance(c["ret"], int) and c["ret"] > 0]
    names = tree(threads, created)
    return {names[t]: without_chance([(c["event"], of_spoor(c, names), spoor_result(c, names), c.get("ret_fd"))
                                      for c in calls])
            for t, calls in threads.items()}


def of_spoor(call, names):
    first = next(iter(call["args"]), None)
    if call["event"] in PIDS - CREATES and isinstance(call["args"].get(first), int) and call["args"][first] > 0:
        return call["args"] | {first: known(call["args"][first], names)}
    return call["args"]


def spoor_result(call, names):
    if isinstance(call["ret"], str):
        return int(call["ret"], 16)
    if call["ret"] in RESTARTS:
        return RESTARTS[call["ret"]]
    if call["errno"]:
        return call["errno"]
    return known(call["ret"], names) if call["event"] in PIDS and call["ret"] is not None else call["ret"]


def without_chance(calls):
    """One time in twenty glibc has no luck with the clock, and asks for a random name; and a child may end while the
    next one is made, which the kernel then begins again, after a handler if there is one."""
    calls = [c for c in calls if c[0] not in CHANCE]
    unlucky = {i for i, c in enumerate(calls[:-1]) if c[0] == "getrandom" and RANDOM.search(str(calls[i + 1][1]))}
    unlucky |= {i for i, c in enumerate(calls[:-1]) if c[::2][:2] == (calls[i + 1][0], "ERESTARTNOINTR")}
    return [c for i, c in enumerate(calls) if i not in unlucky]


# ---- arguments ----

class Pairs:
    """Numbers of chance: those of the two runs belong together one by one."""

    def __init__(self):
        self.theirs, self.ours = {}, {}

    def match(self, ours, theirs):
        return self.theirs.setdefault(ours, theirs) == theirs and self.ours.setdefault(theirs, ours) == ours


class Likeness:
    """Of two runs' calls, of which it keeps what was counted."""

    def __init__(self):
        self.inodes, self.ports, self.counts = Pairs(), Pairs(), Counter()
        self.names = {None}

    def difference(self, name, ours, theirs):
        """What is not the same of two calls' arguments, or None."""
        if name in OWN_ORDER:
            return None
        theirs = theirs if isinstance(theirs, dict) else dict(zip(ours, theirs))
        for arg, value in ours.items():
            if arg in theirs and not self.same(value, theirs[arg]):
                return f"{arg}: Spoor {value!r}, strace {theirs[arg][:200]!r}"
        return None

    def same(self, value, text):
        if isinstance(value, dict) and "fd" in value:
            return self.same_descriptor(value, text)
        if isinstance(value, dict) and "family" in value:
            return self.same_address(value, text)
        if isinstance(value, dict) or text in (value, None):
            return True
        number = strace.number(text) if isinstance(text, str) else None
        if number is None:
            return self.same_text(value, text)
        if value is None:
            return True  # where no string could be read, strace shows the address
        if isinstance(value, str):
            if not value.startswith("0"):
                return False
            value = int(value, 16 if value.startswith("0x") else 8)
        self.counts["numbers"] += 1
        return (value - number) % 2**64 == 0

    def same_text(self, value, text):
        if isinstance(value, int):
            return text.startswith("[")  # a set of signals in its place
        if value is not None and value.startswith("0x"):
            self.counts["what lies there"] += 1
            return True
        if text.startswith('"'):
            self.counts["paths"] += 1
            return same_path(value, text)
        return value is None

    def same_descriptor(self, ours, text):
        theirs = strace.descriptor(text)
        if theirs is None or theirs[0] != ours["fd"]:
            return False
        self.counts["descriptors"] += 1
        path = theirs[1]
        if path is None:
            return "path" not in ours and "socket" not in ours
        if path.startswith("socket:"):
            return "socket" in ours and self.inodes.match(ours["socket"]["inode"], path)
        if "path" not in ours:
            return False
        if path.startswith("pipe:"):
            return (ours["kind"] == "pipe" and self.inodes.match(ours["path"], path) and
                    plain(ours["path"]) == plain(path))
        if ours["kind"] == "anonymous":
            return plain(path).strip("/").replace("anon_inode:", "") == plain(ours["path"]).replace("anon_inode:", "")
        return plain(ours["path"]) == plain(path)

    def same_port(self, family, ours, theirs):
        """A port of UDP may have the number of one of TCP: the programs have these of different families."""
        return ours == theirs if min(ours, theirs) < 1024 else self.ports.match((family, ours), (family, theirs))

    def same_address(self, ours, text):
        if not text.startswith("{"):
            return False
        family = getattr(socket, ours["family"]) if isinstance(ours["family"], str) else ours["family"]
        self.counts["addresses"] += 1
        if not re.match(f"{{sa_family={family:#x}\\b", text):
            return False
        if "data" in ours:
            return True
        if ours["family"] == "AF_UNIX" and ours["path"] is None:
            return text == f"{{sa_family={family:#x}}}"
        if ours["family"] == "AF_UNIX":
            m = re.search(r'sun_path=(@?)("(?:[^"\\]|\\.)*")', text)
            return bool(m) and m[1] + strace.unquote(m[2]).decode() == ours["path"]
        port, address = (strace.unquote(re.search(rf'_{word}=("(?:[^"\\]|\\.)*")', text)[1])
                         for word in ("port", "addr"))
        scope = re.search(r"sin6_scope_id=(\d+)", text)
        if ours.get("scope_id", 0) != (int(scope[1]) if scope else 0):
            return False
        return socket.inet_ntop(family, address) == ours["address"] and self.same_port(
            ours["family"], ours["port"], int.from_bytes(port, "big"))

    def same_socket(self, ours, text):
        """As `strace -yy` shows it: protocol, local and remote address. True if it shows no address."""
        m = re.fullmatch(r"(\w+)(?:-\w+)?:\[(.*)\]", text, re.S)
        kind, where = m[1], m[2]
        if kind not in KINDS_OF_SOCKETS or (ours["family"], ours["type"]) != KINDS_OF_SOCKETS[kind]:
            return ours["family"] == "AF_UNIX" == f"AF_{kind}" and self.same_name(ours["path"], where)
        if where.isdigit():
            return True
        self.counts["sockets' addresses"] += 1
        local, _, remote = where.partition("->")
        family = ours["family"]
        return self.same_end(family, ours["local"], local) and (ours["remote"] is None) == (not remote) and (
            not remote or self.same_end(family, ours["remote"], remote))

    def same_name(self, ours, where):
        """INODE[->PEER][,"PATH"]; Spoor gives one that has no name its peer's, which strace has shown before."""
        _, _, name = where.partition(",")
        if not name:
            return ours in self.names
        name = name[:1].replace('"', "") + strace.unquote(name.removeprefix("@")).decode()
        self.names.add(name)
        self.counts["sockets' names"] += 1
        return ours == name

    def same_end(self, family, ours, theirs):
        (ours, port), (theirs, their_port) = ours.rsplit(":", 1), theirs.rsplit(":", 1)
        return ours == theirs and self.same_port(family, int(port), int(their_port))


KINDS_OF_SOCKETS = {"TCP": ("AF_INET", "SOCK_STREAM"), "TCPv6": ("AF_INET6", "SOCK_STREAM"),
                    "UDP": ("AF_INET", "SOCK_DGRAM"), "UDPv6": ("AF_INET6", "SOCK_DGRAM")}


def plain(path):
    return RANDOM.sub("t", re.sub(r"\[\d+\]", "[N]", path))


def same_path(ours, text):
    theirs = strace.unquote(text)
    return ours is not None and plain(ours) == plain(theirs.decode(errors="surrogateescape"))


def in_pairs(ours, theirs, wrong):
    """(where, our call, their call) of all threads that made the same calls."""
    assert ours.keys() == theirs.keys(), (sorted(ours), sorted(theirs))
    for thread in sorted(ours):
        a, b = ours[thread], theirs[thread]
        names = [c[0] for c in a], [c[0] for c in b]
        if names[0] != names[1]:
            at = next((i for i, (x, y) in enumerate(zip(*names)) if x != y), min(map(len, names)))
            wrong.append(f"thread {thread}, call {at} of {len(a)} and {len(b)}: "
                         f"{a[at - 2:at + 3]} and {b[at - 2:at + 3]}")
            continue
        for i, (x, y) in enumerate(zip(a, b)):
            yield f"thread {thread}, call {i}: {x[0]}", x, y


def compare(ours, theirs):
    like, wrong = Likeness(), []
    for where, x, y in in_pairs(ours, theirs, wrong):
        like.counts["calls"] += 1
        if x[2] != y[2]:
            wrong.append(f"{where}: result: Spoor {x[2]!r}, strace {y[2]!r} {y[1]}"[:400])
        found = like.difference(x[0], x[1], y[1])
        if found:
            wrong.append(f"{where}: {found}")
        if "<" in y[3] and (not x[3] or not like.same_descriptor(x[3], y[3])):
            wrong.append(f"{where}: result: Spoor {x[3]}, strace {y[3]}")
    return like.counts, wrong


def compare_sockets(ours, theirs):
    """By what `strace -yy` shows of them."""
    like, wrong = Likeness(), []
    for where, x, y in in_pairs(ours, theirs, wrong):
        for value, text in [*zip(x[1].values(), y[1]), (x[3], y[3])]:
            if isinstance(value, dict) and "socket" in value:
                like.counts["sockets"] += 1
                if not like.same_socket(value["socket"], strace.descriptor(text)[1]):
                    wrong.append(f"{where}: Spoor {value}, strace {text}")
    return like.counts, wrong
