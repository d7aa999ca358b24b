# SPDX-License-Identifier: GPL-2.0-or-later
"""Ways in which a process may be denied writing its code, or bpf(2): preexec_fn for subprocess, one or all_of()
several."""
import ctypes
import errno

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
SCMP_ACT_ALLOW, SCMP_CMP_MASKED_EQ, PROT_WRITE, PROT_EXEC, SHM_EXEC = 0x7FFF0000, 7, 2, 4, 0o100000
SCMP_ACT_EPERM, SCMP_ACT_KILL_PROCESS = 0x00050000 | errno.EPERM, 0x80000000
SYSCALLS = {"mmap": 9, "mprotect": 10, "shmat": 30, "bpf": 321, "pkey_mprotect": 329}


class ArgCmp(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def by_prctl():
    """PR_SET_MDWE, Linux 6.3."""
    assert LIBC.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) == 0


def filtered(rules, action=SCMP_ACT_EPERM):
    """What calls by name end in, where their arguments compare so."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    f = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(SCMP_ACT_ALLOW)))
    for name, *compare in rules:
        assert seccomp.seccomp_rule_add_array(f, ctypes.c_uint32(action), SYSCALLS[name],
                                              len(compare), (ArgCmp * len(compare))(*compare)) == 0
    assert seccomp.seccomp_load(f) == 0
    seccomp.seccomp_release(f)


def by_seccomp(action=SCMP_ACT_EPERM):
    """The filter that systemd makes of MemoryDenyWriteExecute=yes."""
    filtered(((name, ArgCmp(2, SCMP_CMP_MASKED_EQ, bits, bits)) for name, bits in (
        ("mmap", PROT_WRITE | PROT_EXEC), ("mprotect", PROT_EXEC), ("pkey_mprotect", PROT_EXEC), ("shmat", SHM_EXEC))),
        action)


def by_killing():
    """The same with SystemCallErrorNumber=kill."""
    by_seccomp(SCMP_ACT_KILL_PROCESS)


def no_bpf():
    """As a kernel that is locked down, or a container's filter, answers bpf(2)."""
    filtered([("bpf",)])


def without_proc():
    """A mount namespace that has no /proc, and so no /proc/self/mem."""
    assert LIBC.unshare(CLONE_NEWNS) == 0
    assert LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
    assert LIBC.mount(b"none", b"/proc", b"tmpfs", 0, None) == 0


def all_of(*denials):
    def deny():
        for d in denials:
            d()
    return deny
