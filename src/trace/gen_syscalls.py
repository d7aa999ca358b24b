#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns src/trace/syscalls.tbl into C: gen_syscalls.py TABLE OUTPUT. The table's head documents its format."""

import re
import sys

I386_BASE, MAX_ID = 512, 1024

CLASSES = ("file", "network", "process", "desc", "memory", "signal", "ipc")
RESULTS = {"-": "0", "long": "SPOOR_SYSCALL_RET_LONG", "ptr": "SPOOR_SYSCALL_RET_PTR | SPOOR_SYSCALL_RET_LONG",
           "fd": "SPOOR_SYSCALL_RET_FD", "noreturn": "SPOOR_SYSCALL_NORETURN"}
MAX_OTHERS = 4  # SPOOR_RET_OTHERS
KINDS = {
    "int": "INT", "uint": "UINT", "hex": "HEX", "oct": "OCT", "ptr": "PTR", "fd": "FD", "dirfd": "DIRFD",
    "path": "PATH", "sockaddr": "SOCKADDR_IN", "peer": "SOCKADDR_OUT", "in": "BUF_IN", "out": "BUF_OUT",
    "pid": "PID", "signal": "SIGNAL",
}
POINTER_KINDS = {"path", "sockaddr", "peer", "in", "out"}
WITH_LENGTH = {"sockaddr", "in", "out"}
NARROW_KINDS = {"fd", "dirfd", "pid", "signal"}

# Type -> (width in bytes, default kind). Anything with a "*" is (8, ptr).
TYPES = {
    "int": (4, "int"), "__s32": (4, "int"), "clockid_t": (4, "int"), "timer_t": (4, "int"), "key_t": (4, "int"),
    "key_serial_t": (4, "int"), "mqd_t": (4, "int"), "rwf_t": (4, "int"),
    "unsigned": (4, "uint"), "unsigned int": (4, "uint"), "u32": (4, "uint"), "__u32": (4, "uint"),
    "uid_t": (4, "uint"), "gid_t": (4, "uint"), "qid_t": (4, "uint"), "enum landlock_rule_type": (4, "uint"),
    "old_sigset_t": (8, "hex"),
    "pid_t": (4, "pid"), "umode_t": (4, "oct"),
    "long": (8, "int"), "off_t": (8, "int"), "loff_t": (8, "int"),
    "unsigned long": (8, "uint"), "size_t": (8, "uint"), "u64": (8, "uint"), "__u64": (8, "uint"),
    "aio_context_t": (8, "hex"),
    "cap_user_header_t": (8, "ptr"), "cap_user_data_t": (8, "ptr"), "__sighandler_t": (8, "ptr"),
}


class TableError(Exception):
    pass


def parse_arg(text):
    """'const char *buf:out' -> (type, name, kind, width)"""
    decl, _, kind = text.partition(":")
    match = re.fullmatch(r"(.*?[ *])(\w+)", decl)
    if not match:
        raise TableError(f"'{text}': not a declaration")
    ctype, name = match[1].strip(), match[2]
    if "*" not in ctype and ctype not in TYPES:
        raise TableError(f"'{text}': unknown type")
    width, default = (8, "ptr") if "*" in ctype else TYPES[ctype]
    kind = kind or default
    if kind not in KINDS:
        raise TableError(f"'{text}': unknown kind")
    if kind in POINTER_KINDS and "*" not in ctype:
        raise TableError(f"'{text}': not a pointer")
    if kind in NARROW_KINDS:
        width = 4
    return ctype, name, kind, width


def check_args(args):
    kinds = [kind for _, _, kind, _ in args]
    if len(args) > 6:
        raise TableError("more than six arguments")
    for group, limit in (({"path"}, 2), ({"fd", "dirfd"}, 2), ({"in", "out"}, 1), ({"sockaddr", "peer"}, 1)):
        if sum(kind in group for kind in kinds) > limit:
            raise TableError(f"more than {limit} of {'/'.join(sorted(group))}")
    for kind, following in zip(kinds, kinds[1:] + [None]):
        if kind in WITH_LENGTH and following not in ("int", "uint"):
            raise TableError(f"no length follows the {kind} argument")
        if kind == "peer" and following != "ptr":
            raise TableError("no address of a length follows the peer argument")


def parse_when(text, args):
    """'cmd=0,1030' -> (position, values below 64 as bits, [other values], bits)"""
    match = re.fullmatch(r"(\w+)(=|&)([\w,]+)", text)
    names = [name for _, name, _, _ in args]
    if not match or match[1] not in names:
        raise TableError(f"'{text}': not a condition")
    values = [int(value, 0) for value in match[3].split(",")]
    others = [value for value in values if value >= 64]
    if len(others) > MAX_OTHERS or match[2] == "&" and len(values) > 1:
        raise TableError(f"'{text}': too many values")
    if match[2] == "&":
        return names.index(match[1]), 0, values * MAX_OTHERS, values[0]
    below = sum(1 << value for value in values if value < 64)
    return names.index(match[1]), below, (others + values[:1] * MAX_OTHERS)[:MAX_OTHERS], 0


def parse_line(line):
    fields = line.split(None, 5)
    if len(fields) != 6:
        raise TableError("six columns expected")
    x64, i386, name, classes, result, args = fields
    numbers = tuple(None if number == "-" else int(number) for number in (x64, i386))
    if any(number is not None and not 0 <= number < I386_BASE for number in numbers):
        raise TableError("number out of range")
    classes = [] if classes == "-" else classes.split(",")
    result, _, when = result.partition(":")
    if not set(classes) <= set(CLASSES) or result not in RESULTS:
        raise TableError("unknown class or result")
    args = [] if args.strip() == "void" else [parse_arg(arg.strip()) for arg in args.split(",")]
    check_args(args)
    if when and result != "fd":
        raise TableError("a condition of something else than a descriptor")
    return numbers, name, classes, (result, parse_when(when, args) if when else None), args


def read_table(path):
    """-> {event id: (name, classes, (result, when), args)}"""
    calls, names = {}, {}
    with open(path, encoding="ascii") as table:
        for number, line in enumerate(table, 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                (x64, i386), name, classes, result, args = parse_line(line)
                for base, nr in ((0, x64), (I386_BASE, i386)):
                    if nr is None:
                        continue
                    if base + nr in calls or (base, name) in names:
                        raise TableError(f"{name} {nr}: defined twice")
                    names[base, name] = nr
                    width = None if base == 0 else 4
                    calls[base + nr] = name, classes, result, [(t, n, k, width or w) for t, n, k, w in args]
            except (TableError, ValueError) as error:
                sys.exit(f"{path}:{number}: {error}")
    return calls


def c_when(when):
    if not when:
        return ""
    at, below, others, bits = when
    values = ", ".join(f"{value:#x}" for value in others)
    return f", &(const struct spoor_ret_when){{ {below:#x}ull, {{ {values} }}, {bits:#x}, {at} }}"


def c_call(event, call):
    name, classes, (result, when), args = call
    class_bits = " | ".join(f"SPOOR_CLASS_{c.upper()}" for c in classes) or "0"
    lines = [f'\t[{event}] = {{ "{name}", {len(args)}, {RESULTS[result]}, {class_bits}']
    if args:
        lines[0] += ", {"
        lines += [f'\t\t{{ "{n}", "{t}", SPOOR_ARG_{KINDS[k]}, {w} }},' for t, n, k, w in args]
        lines.append("\t}" + c_when(when) + " },")
    else:
        lines[0] += " },"
    return "\n".join(lines)


def c_names(symbol, calls, first, end):
    events = sorted((e for e in calls if first <= e < end), key=lambda event: calls[event][0].encode())
    body = "\n".join(f'\t{{ "{calls[event][0]}", {event} }},' for event in events)
    array = f"const struct spoor_syscall_name {symbol}[] = {{\n{body}\n}};"
    return f"{array}\nconst unsigned {symbol}_count = {len(events)};\n"


def main():
    table, output = sys.argv[1:]
    calls = read_table(table)
    parts = [
        "/* SPDX-License-Identifier: GPL-2.0-or-later */",
        "/* Generated by gen_syscalls.py from syscalls.tbl: edit that. */",
        '#include "trace/syscalls_table.h"\n',
        f"const struct spoor_syscall_info spoor_syscall_table[{MAX_ID}] = {{",
        "\n".join(c_call(event, calls[event]) for event in sorted(calls)),
        "};\n",
        "/* By name, in strcmp() order. */",
        c_names("spoor_syscall_names", calls, 0, I386_BASE),
        c_names("spoor_syscall_names_i386", calls, I386_BASE, MAX_ID),
    ]
    with open(output, "w", encoding="ascii") as out:
        out.write("\n".join(parts))


if __name__ == "__main__":
    main()
