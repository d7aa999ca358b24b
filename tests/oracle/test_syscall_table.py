# SPDX-License-Identifier: GPL-2.0-or-later
"""src/trace/syscalls.tbl against the running kernel: tracefs (names and types of arguments), BTF (the same, and those
of i386), numbers by doing the calls that libseccomp is too old to know, and strace (classes)."""

import ctypes
import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(os.environ.get("SPOOR_SOURCE", Path(__file__).resolve().parents[2]))
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "src/trace"))
import gen_syscalls  # noqa: E402

I386 = gen_syscalls.I386_BASE
TABLE = gen_syscalls.read_table(SOURCE / "src/trace/syscalls.tbl")
BY_NAME = {call[0]: nr for nr, call in TABLE.items() if nr < I386}

# The kernel names its functions differently from the calls.
KERNEL_NAMES = {"stat": "newstat", "lstat": "newlstat", "fstat": "newfstat", "uname": "newuname",
                "umount2": "umount", "sendfile": "sendfile64"}
# On x86-64, in tracefs only if the kernel was built for it; and those that no kernel has any more.
OPTIONAL = {"finit_module", "init_module", "delete_module", "kexec_load", "kexec_file_load", "map_shadow_stack",
            "uselib", "lookup_dcookie", "uprobe", "uretprobe"}
NOT_IMPLEMENTED = {"_sysctl", "afs_syscall", "create_module", "epoll_ctl_old", "epoll_wait_old", "get_kernel_syms",
                   "get_thread_area", "getpmsg", "nfsservctl", "putpmsg", "query_module", "security",
                   "set_thread_area", "tuxcall", "vserver"}
# x86-64 calls added since 6.1, so that an older kernel is right without them.
NEWEST = 450
LIBSECCOMP_LAST = 456
LIBSECCOMP_GAPS = {"uretprobe", "uprobe"}


def plain(ctype):
    """Types as the table writes them: 'const' of the value itself and blanks between asterisks say nothing."""
    ctype = re.sub(r"\s*\*\s*", "*", ctype.strip())
    ctype = re.sub(r"\*const$", "*", ctype)
    ctype = re.sub(r"^(const )+", "const ", ctype)
    return ctype if "*" in ctype else ctype.removeprefix("const ")


# ---- in a mount namespace of its own: tracefs, left when the helper ends

def tracefs_run(function):
    """Runs one of the functions below in a child with a private tracefs; its result comes back as JSON."""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__, function]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def dump_formats(root):
    formats = {}
    for event in (root / "events/syscalls").glob("sys_enter_*"):
        fields = re.findall(r"\tfield:([^;]*?)\s*(\w+);", (event / "format").read_text())
        first = [name for _, name in fields].index("__syscall_nr") + 1
        # Newer kernels append copies of string arguments, as "__data_loc char[] NAME_val".
        arguments = [field for field in fields[first:] if not field[0].startswith("__data_loc")]
        formats[event.name.removeprefix("sys_enter_")] = arguments
    return formats


def call_newest(root):
    """Which tracepoints fire for the numbers beyond libseccomp, called with zeros (all fail or do nothing)."""
    instance = root / "instances" / f"spoor-test-{os.getpid()}"
    instance.mkdir()
    libc, newest = ctypes.CDLL(None), sorted(nr for nr in TABLE if LIBSECCOMP_LAST < nr < I386)
    events = [instance / f"events/syscalls/sys_enter_{TABLE[nr][0]}/enable" for nr in newest]
    events = [event for event in events if event.exists()]
    try:
        (instance / "set_event_pid").write_text(str(os.getpid()))
        for event in events:
            event.write_text("1")
        for nr in newest:
            libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(0)] * 6)
        for event in events:
            event.write_text("0")
        return re.findall(r": sys_(\w+)\(", (instance / "trace").read_text())
    finally:
        instance.rmdir()


def child(function):
    root = Path("/sys/kernel/tracing")
    if not (root / "events").is_dir():
        subprocess.run(["mount", "-t", "tracefs", "nodev", root], check=True)
    json.dump({"formats": dump_formats, "newest": call_newest}[function](root), sys.stdout)


@pytest.fixture(scope="module")
def formats():
    return tracefs_run("formats")


def test_arguments_equal_tracefs(formats):
    wrong = []
    for name, nr in BY_NAME.items():
        kernel = formats.get(KERNEL_NAMES.get(name, name))
        if kernel is None:
            continue
        ours = [(plain(ctype), arg) for ctype, arg, _, _ in TABLE[nr][3]]
        theirs = [(plain(ctype), arg) for ctype, arg in kernel]
        if ours != theirs:
            wrong.append((name, ours, theirs))
    assert not wrong


def test_every_call_of_the_kernel_is_known(formats):
    ours = {KERNEL_NAMES.get(name, name) for name in BY_NAME}
    i386 = {call[0] for nr, call in TABLE.items() if nr >= I386}
    assert set(formats) - ours - i386 - {"oldumount"} == set()


def test_every_call_without_tracepoint_is_explained(formats):
    release = tuple(int(n) for n in re.findall(r"\d+", platform.release())[:2])
    absent = {name for name in BY_NAME if KERNEL_NAMES.get(name, name) not in formats}
    if release < (6, 18):
        absent -= {name for name, nr in BY_NAME.items() if nr > NEWEST}
    assert absent - OPTIONAL - NOT_IMPLEMENTED == set()


def test_newest_numbers(formats):
    newest = [TABLE[nr][0] for nr in sorted(TABLE) if LIBSECCOMP_LAST < nr < I386]
    assert tracefs_run("newest") == [name for name in newest if name in formats]


# ---- BTF

def btf_functions():
    """{function: [argument names]} of the system calls that the compiler did not inline."""
    dump = subprocess.run(["bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "raw"],
                          capture_output=True, text=True, check=True, timeout=120).stdout
    protos, functions, current = {}, {}, None
    for line in dump.splitlines():
        if match := re.match(r"\[(\d+)\] (\w+) '(.*?)'(?: type_id=(\d+))?", line):
            current = protos.setdefault(match[1], []) if match[2] == "FUNC_PROTO" else None
            if match[2] == "FUNC":
                functions[match[3]] = match[4]
        elif current is not None and (match := re.match(r"\t'(.*?)' type_id=", line)):
            current.append(match[1])
    return {name: protos[proto] for name, proto in functions.items() if re.match(r"__do_(compat_)?sys_", name)}


def test_arguments_equal_btf():
    functions, compared, wrong = btf_functions(), 0, []
    for nr, (name, _, _, args) in TABLE.items():
        if nr < I386:
            function = f"__do_sys_{KERNEL_NAMES.get(name, name)}"
        else:
            function = f"__do_compat_sys_ia32_{name}"
        theirs = functions.get(function)
        if theirs is None:
            continue
        compared += 1
        theirs = [] if theirs == ["__unused"] else theirs
        if theirs != [arg for _, arg, _, _ in args]:
            wrong.append((name, args, theirs))
    assert not wrong
    assert compared >= 50


# ---- strace

PROBE = r"""
import ctypes, signal, struct, sys
# A filter that refuses everything but exit_group(0x7777): strace sees the entry of every call, none is done.
code = [(0x20, 0, 0, 0), (0x15, 0, 3, 231), (0x20, 0, 0, 16), (0x15, 0, 1, 0x7777),
        (6, 0, 0, 0x7fff0000), (6, 0, 0, 0x50026)]
libc = ctypes.CDLL(None)
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in code))
class Fprog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
fprog = Fprog(len(code), ctypes.addressof(program))
numbers = [ctypes.c_long(int(n)) for n in sys.argv[1].split(",")]
zero, end = ctypes.c_long(0), ctypes.c_long(0x7777)
arguments = [(n, zero, zero, zero, zero, zero, zero) for n in numbers]
function, last = libc.syscall, ctypes.c_long(231)
libc.prctl(38, 1, 0, 0, 0)
libc.syscall(317, 1, 0, ctypes.byref(fprog))
for call in arguments:
    function(*call)
function(last, end)
"""


@pytest.mark.parametrize("name", gen_syscalls.CLASSES)
def test_classes_equal_strace(name):
    """Up to what strace 6.1 knows. It counts socketcall's and ipc's calls one by one, so i386 is not compared."""
    tried = [nr for nr in sorted(TABLE) if nr <= NEWEST]
    tried = [nr for nr in tried if TABLE[nr][0] not in LIBSECCOMP_GAPS]
    command = ["strace", "-qq", "-e", f"trace=%{name}", "-e", "signal=none", sys.executable, "-S", "-c", PROBE,
               ",".join(map(str, tried))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0x77, done.stderr[-2000:]
    theirs = {m[1] for m in re.finditer(r"^(\w+)\(.*ENOSYS", done.stderr, re.MULTILINE)}
    ours = {TABLE[nr][0] for nr in tried if name in TABLE[nr][1]}
    assert ours == theirs


if __name__ == "__main__":
    signal.alarm(100)
    child(sys.argv[1])
