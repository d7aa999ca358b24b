# SPDX-License-Identifier: GPL-2.0-or-later
"""What `strace -ff -y -v -X raw` wrote, read back: per thread a list of (call, arguments as texts, result text)."""
import re
import subprocess
from pathlib import Path

LINE = re.compile(r"(\w+)\((.*)\)\s+= (.*)$", re.S)
PATH = re.compile(r"<(?:[\w-]+:\[.*?\]|(?:/|\w+:)[^>]*)>")  # a > in a path is escaped
OPEN, CLOSE = "([{", ")]}"
CALM = ["/usr/bin/setarch", "-R"]  # no randomized addresses


def run(prefix, command, descriptors="-y", **how):
    """{tid: [(name, [argument], result)]}; with descriptors="-yy" sockets have their addresses instead of inodes."""
    subprocess.run([*CALM, "strace", "-ff", descriptors, "-v", "-X", "raw", "-s", "4096", "-o", prefix,
                    *map(str, command)], timeout=60, **how)
    prefix = Path(prefix)
    return {int(p.suffix[1:]): [x for x in map(parse, p.read_text(errors="surrogateescape").splitlines()) if x]
            for p in prefix.parent.glob(prefix.name + ".*")}


def parse(line):
    """None for signals and exits of threads."""
    if line.startswith(("---", "+++")):
        return None
    m = LINE.match(line)
    if not m:
        raise AssertionError(f"strace: {line[:300]}")
    return m[1], split(m[2]), m[3]


def split(text):
    """At commas that stand in no string, bracket, or <path>."""
    parts, depth, quoted, at, i = [], 0, False, 0, 0
    while i < len(text):
        c = text[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c == "<" and (path := PATH.match(text, i)):
            i = path.end() - 1
        elif c in OPEN:
            depth += 1
        elif c in CLOSE:
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[at:i].strip())
            at = i + 1
        i += 1
    return parts + [text[at:].strip()] if text else []


def unquote(text):
    """"..." as bytes; None if it is no string (an address, NULL)."""
    m = re.fullmatch(r'"(.*)"', text, re.S)
    if not m:
        return None
    return re.sub(rb"\\([0-7]{1,3}|x[0-9a-f]{2}|.)", unescape, m[1].encode(errors="surrogateescape"), flags=re.S)


def unescape(m):
    c = m[1]
    if c.isdigit():
        return bytes([int(c, 8)])
    if c[:1] == b"x":
        return bytes([int(c[1:], 16)])
    return {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}.get(c, c)


def number(text):
    """0x1|0x80 -> 0x81, 0644 -> 420, NULL -> 0; None if it is no number."""
    if text == "NULL":
        return 0
    if not re.fullmatch(r"\|?-?(0x[0-9a-f]+|\d+)(\|(0x[0-9a-f]+|\d+))*", text):
        return None
    value = 0
    for part in text.lstrip("|").split("|"):
        value |= int(part, 8 if re.fullmatch("0[0-7]+", part) else 0)
    return value


def descriptor(text):
    """3</a/b> -> (3, "/a/b"); -100</a> -> (-100, "/a"); -1 -> (-1, None); None if it is no descriptor."""
    m = re.fullmatch(r"(-?\d+)(?:<(.*)>)?((?:\(deleted\))?)", text, re.S)
    if not m:
        return None
    fd, path = int(m[1]), m[2]
    if path and path.startswith(("/", "\\")):
        path = unquote(f'"{path}"').decode(errors="surrogateescape")
    return fd, path
