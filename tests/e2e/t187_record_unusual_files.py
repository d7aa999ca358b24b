# SPDX-License-Identifier: GPL-2.0-or-later
"""ELF files laid out as few are."""
import struct
import subprocess

import pytest

SECTIONS = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
#define IN(section_name) __attribute__((noipa, section(section_name)))
static volatile long sum;
IN(".hot") void hot(void)
{
	sum += syscall(SYS_getppid);
}
IN(".cold") void cold(void)
{
	hot();
	sum++;
}
int main(void)
{
	cold();
	return 0;
}
"""
DF_1_PIE, DT_FLAGS_1, PT_DYNAMIC = 0x08000000, 0x6ffffffb, 2


def built(folder, *flags):
    (folder / "p.c").write_text(SECTIONS)
    subprocess.run(["gcc", "-O2", "-o", "p", "p.c", *flags], cwd=folder, check=True, timeout=60)
    return folder / "p"


@pytest.mark.parametrize("kind", ["-no-pie", "-pie"])
def test_code_of_two_segments_in_one_page_of_the_file(record, read, tmp_path, kind):
    at = "-Wl,--section-start=.hot=0x10000100,--section-start=.cold=0x10200200"
    program = built(tmp_path, kind, at)
    recording = record("-m", "all", "-S", "16", "-e", "getppid", "--", program, start=False)
    assert recording.wait() == 0
    (call,) = read(recording.trace).whole(surprised=True).of("getppid")
    assert [f["function"] for f in call["stack"]][:4] == ["syscall", "hot", "cold", "main"]
    assert all(f["offset"].startswith(at) for f, at in zip(call["stack"][1:], ("0x100001", "0x102002")))
    assert call["walk"] == "complete"


def without_flag(path):
    """Clears DF_1_PIE, by which a position-independent program is told from a library; some linkers never set it."""
    elf = bytearray(path.read_bytes())
    headers, = struct.unpack_from("<Q", elf, 32)
    for i in range(struct.unpack_from("<H", elf, 56)[0]):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", elf, headers + 56 * i)
        for at in range(offset, offset + size, 16) if kind == PT_DYNAMIC else ():
            tag, value = struct.unpack_from("<QQ", elf, at)
            if tag == DT_FLAGS_1:
                struct.pack_into("<Q", elf, at + 8, value & ~DF_1_PIE)
    path.write_bytes(elf)


def test_command_that_does_not_say_that_it_is_a_program(record, read, spoor, tmp_path):
    program = built(tmp_path)
    without_flag(program)
    recording = record("-e", "getppid", "--", program, start=False)
    assert recording.wait() == 0
    (call,) = read(recording.trace).whole(surprised=True).of("getppid")
    assert [f["function"] for f in call["stack"]][:3] == ["hot", "cold", "main"]
    assert "[no application frame]" not in spoor("report", recording.trace).stdout
