# SPDX-License-Identifier: GPL-2.0-or-later
"""What a descriptor is called when it is used, as /proc says it at that time: mounts moved, directories renamed far
above, abstract names with zeros within. And numbers that name no descriptor."""
import fcntl
import subprocess
import sys

PLACES = """
import ctypes, fcntl, os, sys
libc = ctypes.CDLL(None, use_errno=True)
PRIVATE, BIND, MOVE = 1 << 14 | 1 << 18, 1 << 12, 1 << 13

def check(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def mount(source, target, flags=0, kind=None):
    check(libc.mount(source, target, kind, flags, None))

def look(fd):
    fcntl.fcntl(fd, fcntl.F_GETSIG)
    print(os.readlink(f'/proc/self/fd/{fd}'))

os.chdir(sys.argv[1])
check(libc.unshare(0x20000))
mount(b'none', b'/', PRIVATE)
deep = 'deep' + '/d' * 40
for d in 'one/inner', 'two', deep, 'bound', 'bound-to':
    os.makedirs(d)
mount(b'none', b'one/inner', kind=b'tmpfs')
os.mkdir('one/inner/x')
inner = os.open('one/inner/x/f', os.O_CREAT | os.O_RDWR)
look(inner)
mount(b'one/inner', b'two', MOVE)
look(inner)
mount(b'two', b'one/inner', MOVE)
os.rename('one', 'won')
look(inner)
look(os.open('won/inner/x/f', os.O_RDWR))
os.close(os.open('bound/f', os.O_CREAT | os.O_RDWR))
mount(b'bound', b'bound-to', BIND)
bound = os.open('bound-to/f', os.O_RDONLY)
look(bound)
mount(b'bound-to', b'two', MOVE)
look(bound)
below = os.open(deep + '/f', os.O_CREAT | os.O_RDWR)
look(below)
os.rename('deep', 'depth')
look(below)
os.rename('depth/d', 'depth/e')
look(below)
"""
ABSTRACT = """
import fcntl, os, socket
for name in b'plain', b'of\\0spoor\\0', b'spoor'.ljust(107, b'\\0'), b's' * 107:
    s = socket.socket(socket.AF_UNIX)
    s.bind(b'\\0' + name)
    fcntl.fcntl(s, fcntl.F_GETSIG)
    inode = str(os.fstat(s.fileno()).st_ino)
    print(*(line.split()[7] for line in open('/proc/net/unix') if line.split()[6] == inode))
"""
NONE = """
import ctypes
syscall = ctypes.CDLL(None).syscall
READ, OPENAT, ENTER, REGISTER = 0, 257, 426, 427
syscall(READ, -100, 0, 0)
syscall(OPENAT, -100, b'/', 0)
syscall(ENTER, 0, 0, 0, 1 << 4, 0, 0)
syscall(ENTER, 0, 0, 0, 0, 0, 0)
syscall(REGISTER, 0, ctypes.c_uint(1 << 31), 0, 0)
syscall(REGISTER, 0, 0, 0, 0)
"""


def run(spoor, read, tmp_path, calls, script, *args):
    done = spoor("record", "-o", "t.spoor", "-m", "app", "-e", calls, "--", sys.executable, "-I", "-S", "-c", script,
                 *args, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), read(tmp_path / "t.spoor").whole().calls


def looks(calls):
    return [c for c in calls if c["args"]["cmd"] == fcntl.F_GETSIG]


def test_places_that_are_moved(spoor, read, tmp_path):
    said, calls = run(spoor, read, tmp_path, "fcntl", PLACES, tmp_path)
    assert len(said) == 9 and len(set(said)) == 8
    assert [c["args"]["fd"]["path"] for c in looks(calls)] == said


def test_abstract_names(spoor, read, tmp_path):
    said, calls = run(spoor, read, tmp_path, "fcntl", ABSTRACT)
    assert len(said) == 4 and said[1] == "@of@spoor@"
    assert [c["args"]["fd"]["socket"]["path"] for c in looks(calls)] == said


def test_numbers_that_are_no_descriptors(spoor, read, tmp_path):
    _, calls = run(spoor, read, tmp_path, "read,openat,io_uring_enter,io_uring_register", NONE)
    first = [next(iter(c["args"].values())) for c in calls][-6:]
    assert [(fd["fd"], fd.get("path")) for fd in first] == [
        (-100, None), (-100, str(tmp_path)), (0, None), (0, "/dev/null"), (0, None), (0, "/dev/null")]
    listing = spoor("report", "--events", "t.spoor").stdout
    assert " read(-100, NULL, 0) = -1 EBADF" in listing and f" openat(AT_FDCWD<{tmp_path}>" in listing
