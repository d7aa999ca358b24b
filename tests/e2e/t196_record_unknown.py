# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls that the table has no name for, as a kernel newer than Spoor may have them: with number, arguments and
result, for babeltrace2 too."""
import re
import subprocess

NUMBERS = (400, 511, 999)  # between known ones, the last of the table, beyond it
PROGRAM = f"""
import ctypes
for n in {NUMBERS}:
    ctypes.CDLL(None).syscall(n, 1, 2, 3, 4, 5, 6)
"""


def test_unknown_numbers(spoor, read, tmp_path):
    trace = tmp_path / "t.spoor"
    assert spoor("record", "-o", trace, "--", "/usr/bin/python3", "-I", "-S", "-c", PROGRAM).returncode == 0
    found = read(trace)
    assert found.summary["undecodable"] == 0
    for n in NUMBERS:
        (call,) = found.of(f"syscall_{n}")
        assert list(call["args"].values()) == ["0x1", "0x2", "0x3", "0x4", "0x5", "0x6"]
        assert call["errno"] == "ENOSYS" and call["walk"] in ("complete", "budget") and call["stack"]
    subprocess.run(["babeltrace2", "-o", "dummy", trace], check=True, timeout=60)
    for *how, expected in [("-e", "syscall_999", [999]), ("-e", "syscall_511,syscall_999", [511, 999]),
                           ("-e", "/syscall_/", [400, 511, 999]), ("-e", "syscall_400,getpid", [400]),
                           ("-e", "i386_syscall_999", []), ("-e", "syscall_998", []),
                           ("-e", "all,!/syscall_/", []), ("-e", "syscall_511,syscall_999,!syscall_511", [999])]:
        shown = spoor("report", "--events", *how, trace).stdout
        assert [int(n) for n in re.findall(r" syscall_(\d+)\(", shown)] == expected, (how, shown)
        table = spoor("report", *how, trace).stdout
        assert {int(n) for n in re.findall(r"\bsyscall_(\d+)\b", table)} == set(expected), (how, table)
    for wrong in "syscall_1", "syscall_", "syscall_9999999999", "!syscall_999", "/^syscall_9/":
        assert spoor("report", "-e", wrong, trace).returncode == 2


def test_unknown_numbers_alone(spoor, read, tmp_path):
    """They are recorded all or none."""
    program = "/usr/bin/python3", "-I", "-S", "-c", PROGRAM
    assert spoor("record", "-e", "/syscall_/", "-o", "t.spoor", "--", *program).returncode == 0
    assert [e["event"] for e in read(tmp_path / "t.spoor").calls] == [f"syscall_{n}" for n in NUMBERS]
    run = spoor("record", "-e", "syscall_999", "-o", "none.spoor", "--", "true")
    assert run.returncode == 2 and "/syscall_/" in run.stderr


INT80 = r"""
int main(void)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(100000), "b"(1), "c"(2), "d"(3), "S"(4), "D"(5)
			 : "memory", "r8", "r9", "r10", "r11");
	return ret != -38;
}
"""


def test_unknown_number_by_int80(spoor, read, tmp_path):
    """Its arguments are where such calls have them."""
    (tmp_path / "c.c").write_text(INT80)
    subprocess.run(["gcc", "-O1", "-o", "c", "c.c"], cwd=tmp_path, check=True)
    assert spoor("record", "-o", "t.spoor", "--", tmp_path / "c").returncode == 0
    (call,) = [e for e in read(tmp_path / "t.spoor").calls if "100000" in e["event"]]
    assert "i386_syscall_100000(" in spoor("report", "--events", "-e", "i386_syscall_100000", "t.spoor").stdout
    assert list(call["args"].values())[:5] == ["0x1", "0x2", "0x3", "0x4", "0x5"] and call["errno"] == "ENOSYS"
