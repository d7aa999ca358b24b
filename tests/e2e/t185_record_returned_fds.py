# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls that return a descriptor in some uses only: what it is of is told then, and no number passes for one."""
import subprocess

import pytest

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/nsfs.h>
#include <linux/seccomp.h>
#include <pty.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <asm/ioctls.h>
int main(void)
{
	struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog filter = { 1, &allow };
	struct landlock_ruleset_attr rules = { .handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE };
	union bpf_attr map = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1 };
	int fd = open("/etc/passwd", O_RDONLY), ns = open("/proc/self/ns/net", O_RDONLY);
	int tty = open("/dev/ptmx", O_RDWR | O_NOCTTY), no = 0, map_fd;
	unsigned key = 0;
	char value[8] = "";

	fcntl(fd, F_DUPFD, 100);
	fcntl(fd, F_DUPFD_CLOEXEC, 100);
	fcntl(fd, F_GETFD); /* 0, and that is the terminal or so */
	fcntl(fd, F_GETFL);
	fcntl(77, F_DUPFD, 0);
	ioctl(tty, TIOCSPTLCK, &no);
	ioctl(tty, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	ioctl(ns, NS_GET_USERNS);
	ioctl(ns, NS_GET_NSTYPE); /* 0x40000000 */
	map_fd = syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map));
	map = (union bpf_attr){ .map_fd = map_fd, .key = (long)&key, .value = (long)value };
	syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &map, sizeof(map)); /* 0 */
	syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
	syscall(SYS_landlock_create_ruleset, 0, 0, LANDLOCK_CREATE_RULESET_VERSION); /* a small number */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter); /* 0 */
	syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
	return 0;
}
"""
EXPECTED = [  # path of what is returned; None: a number, or an error
    ("fcntl", "/etc/passwd"), ("fcntl", "/etc/passwd"), ("fcntl", None), ("fcntl", None), ("fcntl", None),
    ("ioctl", None), ("ioctl", "/dev/pts/"), ("ioctl", "user:["), ("ioctl", None), ("bpf", "bpf-map"), ("bpf", None),
    ("landlock_create_ruleset", "[landlock-ruleset]"), ("landlock_create_ruleset", None), ("seccomp", None),
    ("seccomp", "seccomp notify"),
]


@pytest.fixture
def program(tmp_path):
    subprocess.run(["gcc", "-O1", "-w", "-o", tmp_path / "quokka", "-x", "c", "-"], input=PROGRAM, text=True,
                   check=True, timeout=60)
    return tmp_path / "quokka"


def test_returned_descriptors(spoor, record, read, program):
    recording = record("-e", "fcntl,ioctl,bpf,landlock_create_ruleset,seccomp", "--", program, start=False)
    assert recording.wait() == 0
    calls = read(recording.trace).whole().calls
    seen = [(c["event"], c.get("ret_fd", {}).get("path")) for c in calls]
    assert len(seen) == len(EXPECTED) and all(
        a == b and (y is None if x is None else y is not None and x in y)
        for (a, x), (b, y) in zip(EXPECTED, seen)), seen
    assert all(c["ret_fd"]["fd"] == c["ret"] for c in calls if "ret_fd" in c)
    listing = spoor("report", "--events", recording.trace).stdout
    assert "= 100</etc/passwd>" in listing
    numbers = [line for line in listing.splitlines() if " ioctl(" in line and "0xb703" in line]
    assert len(numbers) == 1 and numbers[0].rstrip().split("= ")[-1].split()[0].isdigit()


MOUNTS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int root = open("/", O_RDONLY), fs, tree, file;

	fs = syscall(SYS_fsopen, "tmpfs", 0);
	syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	syscall(SYS_fsmount, fs, 0, 0);
	tree = syscall(SYS_open_tree, AT_FDCWD, argv[1], OPEN_TREE_CLONE);
	openat(tree, "below", O_RDONLY | O_CREAT, 0600);
	file = syscall(SYS_open_tree, tree, "below", OPEN_TREE_CLONE);
	chroot(argv[1]);
	chdir("/");
	dup(root);
	return file < 0;
}
"""


def test_mounts_that_are_nowhere(record, read, tmp_path):
    """The root of one is a directory called /, as /proc has it, and so is what lies above the process's own."""
    subprocess.run(["gcc", "-O1", "-o", tmp_path / "quokka", "-x", "c", "-"], input=MOUNTS, text=True, check=True,
                   timeout=60)
    (tmp_path / "tree").mkdir()
    recording = record("-e", "fsmount,open_tree,openat,dup", "--", tmp_path / "quokka", tmp_path / "tree", start=False)
    assert recording.wait() == 0
    calls = [c for c in read(recording.trace).whole().calls
             if c["event"] != "openat" or "below" in c["args"]["filename"]]
    assert [(c["event"], c["ret_fd"]["path"], c["ret_fd"]["kind"]) for c in calls] == [
        ("fsmount", "/", "directory"), ("open_tree", "/", "directory"), ("openat", "/below", "file"),
        ("open_tree", "/", "file"), ("dup", "/", "directory")]
