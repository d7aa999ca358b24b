# SPDX-License-Identifier: GPL-2.0-or-later
"""src/object against addr2line (binutils) and eu-addr2line (elfutils), on thousands of addresses of real objects.

With DWARF every frame (inlined ones too) must have addr2line's function, file and line; where the two reference tools
disagree with each other, agreeing with either is right. With symbols alone the symbol's address must be the same:
of several names of one address each tool shows the one it likes."""

import os
import random
import re
import subprocess

import pytest

from recording import BUILD

TOOL = BUILD / "tests/tools/symbolize"

C_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
static inline __attribute__((always_inline)) int leaf(int x) { volatile int y = x * 3; return y + rand(); }
static inline __attribute__((always_inline)) int middle(int x)
{
	int s = 0;
	for (int i = 0; i < x; i++) {
		int k = i * x;
		s += leaf(k);
	}
	return s;
}
__attribute__((noinline)) int outer(int x)
{
	if (x > 3) {
		int q = x;
		return middle(q) + leaf(x);
	}
	abort();
}
static __attribute__((noinline)) int part(int *p, int n)
{
	int s = 0;
	for (int i = 0; i < n; i++) {
		if (p[i] < 0) {
			fprintf(stderr, "neg %d\n", i);
			exit(1);
		}
		s += middle(p[i]);
	}
	return s;
}
int main(int argc, char **argv)
{
	int a[3] = { argc, 2, 3 };
	printf("%d\n", outer(argc + 4) + part(a, 3));
	return 0;
}
"""

CXX_PROGRAM = r"""
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
namespace ns {
template <typename T> struct Box {
	std::vector<T> all;
	void add(const T &x) { all.push_back(x); }
	virtual ~Box() {}
	virtual T sum() const { T s{}; for (auto &y : all) s = s + y; return s; }
};
namespace {
int hidden(int x)
{
	struct Local { static __attribute__((noinline)) int f(int z) { return z * rand(); } };
	return Local::f(x) + 1;
}
__attribute__((noinline)) int hidden2(std::function<int(int)> f, int x) { return f(x) + hidden(x); }
}
struct A {
	A() { std::cout << "A"; }
	~A() { std::cout << "~A"; }
	int operator()(int x) const { return x; }
	operator bool() const { return true; }
};
}
int main(int argc, char **argv)
{
	ns::Box<std::string> b;
	ns::Box<int> c;
	ns::A a;
	for (int i = 0; i < argc + 3; i++) {
		b.add(std::to_string(i));
		c.add(i);
	}
	std::map<std::string, int> m;
	m[b.sum()] = c.sum();
	std::vector<int> v(c.all);
	std::sort(v.begin(), v.end(), [](int x, int y) { return x > y; });
	std::cout << m.begin()->first << ns::hidden2([&](int z) { return z + argc; }, v[0]) << a(3) << (a ? 1 : 2)
		  << std::make_shared<ns::A>()->operator()(1) << "\n";
	try {
		throw std::runtime_error("x");
	} catch (std::exception &e) {
		std::cout << e.what();
	}
}
"""


def text_ranges(path):
    """Executable sections that hold functions (not PLTs): (address, size)."""
    out = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"\] (\.\S+)\s+PROGBITS\s+(\w+)\s+\w+\s+(\w+)\s+\w+\s+AX", out)
    return [(int(addr, 16), int(size, 16)) for name, addr, size in found if not name.startswith(".plt")]


def addresses(path, count, seed=4711):
    ranges = text_ranges(path)
    total = sum(size for _, size in ranges)
    rng = random.Random(seed)
    chosen = set()
    for at in (rng.randrange(total) for _ in range(count)) if total > count else range(total):
        for addr, size in ranges:
            if at < size:
                chosen.add(addr + at)
                break
            at -= size
    return sorted(chosen)


def spoor(path, addrs):
    """[[(function, file, line, inlined, offset)]]: innermost first, one list an address."""
    out = subprocess.run([TOOL, path], input="".join(f"{a:x}\n" for a in addrs), capture_output=True, text=True,
                         check=True, timeout=300).stdout.split("\n")[:-1]
    assert len(out) == len(addrs)
    result = []
    for line in out:
        frames = [f.split("\x1f") for f in line.split("\x1e")] if line else []
        result.append([(f[0], f[1], int(f[2]), int(f[3]), int(f[4], 16)) for f in frames])
    return result


def plain(name):
    """A demangled name without its parameters, template arguments and return type, which the tools show differently."""
    name = re.sub(r"\[clone [^]]*\]", "", name)
    name = name.replace("(anonymous namespace)", "{anonymous}").replace("operator()", "operator{}")
    name = re.sub(r"\[abi:\w+\]", "", name)
    name = re.sub(r"operator(<=>|<<=|>>=|<<|>>|<=|>=|->\*|->|<|>)", lambda m: "operator" +
                  "".join(f"#{ord(c):x}" for c in m.group(1)), name)
    while True:
        shorter = re.sub(r"<[^<>()]*>", "", re.sub(r"\([^()<>]*\)( const)?", "", name))
        shorter = re.sub(r"\([^()]*\)( const)?", "", shorter) if shorter == name else shorter
        if shorter == name:
            break
        name = shorter
    name = re.sub(r"operator (\w+)", r"operator~\1", name.replace("{lambda#", "{lambda_"))
    return name.strip().split(" ")[-1].split("::")[-1].split(".")[0].removeprefix("__GI_")


def frames_of(lines):
    """addr2line -a -f -i output -> [[(function, basename, line)]]"""
    result = []
    for line in lines:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            result.append([])
            name = None
        elif name is None:
            name = line
        else:
            where = re.sub(r" \(discriminator \d+\)| \(inlined by\)", "", line)
            file, number = re.match(r"(.*?):(\d+|\?)(?::\d+)?$", where).groups()
            result[-1].append((plain(name.split(" inlined at ")[0]), os.path.basename(file),
                               0 if number == "?" else int(number)))
            name = None
    return result


def reference(tool, path, addrs):
    out = subprocess.run([tool, "-a", "-f", "-i", "-C", "-e", path], input="".join(f"{a:#x}\n" for a in addrs),
                         capture_output=True, text=True, timeout=300).stdout.splitlines()
    result = frames_of(out)
    assert len(result) == len(addrs)
    return result


def compare_lines(path, addrs, minimum_lines):
    ours = [[(plain(f[0]), os.path.basename(f[1]), f[2]) for f in frames] for frames in spoor(path, addrs)]
    gnu, elfutils = reference("addr2line", path, addrs), reference("eu-addr2line", path, addrs)
    wrong, with_line, inlined = [], 0, 0
    for addr, mine, a, b in zip(addrs, ours, gnu, elfutils):
        if b[0][0] == "??" and not (mine and mine[0][0]) or b[0][1] == "??" and not (mine and mine[0][2]):
            continue  # padding between functions, or code without DWARF: addr2line shows what stands before
        with_line += 1
        inlined += len(mine) > 1
        if mine not in (a, b) and not mixed(mine, a, b):
            wrong.append((hex(addr), mine, a, b))
    print(f"{path}: {len(addrs)} addresses, {with_line} with lines, {inlined} inlined, {len(wrong)} differ")
    assert with_line >= minimum_lines
    return wrong, with_line, inlined


def mixed(mine, a, b):
    """Each frame as one of the two has it, if they agree on the number of frames."""
    if len(mine) != len(a) or len(mine) != len(b):
        return False
    return all(m[0] in (x[0], y[0]) and m[1:] in (x[1:], y[1:]) for m, x, y in zip(mine, a, b))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    (folder / "p.c").write_text(C_PROGRAM)
    (folder / "p.cc").write_text(CXX_PROGRAM)

    def build(name, *command):
        subprocess.run([*command, "-o", name], cwd=folder, check=True, timeout=120)
        return folder / name

    return {
        "c-dwarf5": build("c5", "gcc", "-O2", "-gdwarf-5", "p.c"),
        "c-dwarf4": build("c4", "gcc", "-O2", "-gdwarf-4", "p.c"),
        "c-O0": build("c0", "gcc", "-O0", "-g", "p.c"),
        "c-clang": build("cc", "clang-14", "-O2", "-gdwarf-4", "p.c"),
        "c-clang-dwarf5": build("cc5", "clang-14", "-O2", "-gdwarf-5", "p.c"),
        "c-compressed": build("cz", "gcc", "-O2", "-g", "-gz=zlib", "p.c"),
        "cxx": build("cxx", "g++", "-O2", "-g", "p.cc"),
        "cxx-O1": build("cxx1", "g++", "-O1", "-g", "p.cc"),
        "folder": folder,
    }


@pytest.mark.parametrize("name", ["c-dwarf5", "c-dwarf4", "c-O0", "c-clang", "c-compressed", "cxx", "cxx-O1"])
def test_lines_of_programs(programs, name):
    path = programs[name]
    wrong, _, inlined = compare_lines(path, addresses(path, 4000), 50)
    assert not wrong, wrong[:10]
    assert inlined > 20 or name == "c-O0"


def test_ranges_and_lines_of_clang_dwarf5(programs):
    """Neither tool reads such units if they have no .debug_aranges: compared with DWARF 4 of the same code."""
    addrs = addresses(programs["c-clang"], 4000)
    assert spoor(programs["c-clang-dwarf5"], addrs) == spoor(programs["c-clang"], addrs)


def test_lines_of_a_debug_file_by_build_id():
    """libc6-dbg: a separate, dwz-free file; glibc's assembly has lines but no functions."""
    path = "/lib/x86_64-linux-gnu/libc.so.6"
    wrong, with_line, _ = compare_lines(path, addresses(path, 4000), 3000)
    assert not wrong, wrong[:10]


IN_FUNCTIONS = r"""
#include <unistd.h>
namespace shop {
__attribute__((noinline)) int order(int n)
{
	struct Counter { int n; int next() { return n + getppid(); } } counter = { n };
	auto ask = [&](int x) { return x + getppid(); };
	if (n > 1) {
		auto again = [&](int x) { return x + ask(x) + getpid(); };
		n += again(n);
	}
	return counter.next() + ask(n);
}
}
int main(int argc, char **argv) { return shop::order(argc); }
"""


def test_names_in_functions(programs):
    """What a function declares in itself is called after it, inlined or not; by addr2line, operator() alone."""
    path = programs["folder"] / "in_functions"
    for level in ("-O0", "-O2"):
        subprocess.run(["g++", level, "-g", "-o", path, "-x", "c++", "-"], input=IN_FUNCTIONS, text=True, check=True,
                       timeout=60)
        names = {re.sub(r"\(int\)(#\d)?", "", f[0]) for frames in spoor(path, addresses(path, 4000)) for f in frames}
        want = {"shop::order", "shop::order::{lambda}::operator()", "shop::order::Counter::next"}
        assert names >= want and not any("unnamed" in name for name in names), names


def test_dwz(programs):
    """Two programs whose common DWARF was moved to a supplementary file."""
    folder = programs["folder"]
    for name in ("one", "two"):
        subprocess.run(["cp", programs["cxx"], folder / name], check=True)
    subprocess.run(["dwz", "-m", "common.debug", "one", "two"], cwd=folder, check=True)
    sections = subprocess.run(["readelf", "-SW", folder / "one"], capture_output=True, text=True).stdout
    assert ".gnu_debugaltlink" in sections
    addrs = addresses(programs["cxx"], 3000)
    assert spoor(folder / "one", addrs) == spoor(programs["cxx"], addrs)


def strip(folder, source, name, *args):
    subprocess.run(["objcopy", *args, source, folder / name], check=True)
    return folder / name


def test_debuglink_with_crc(programs):
    folder, whole = programs["folder"], programs["c-dwarf5"]
    strip(folder, whole, "linked.debug", "--only-keep-debug", "--remove-section=.note.gnu.build-id")
    strip(folder, whole, "bare", "--strip-all", "--remove-section=.note.gnu.build-id")
    subprocess.run(["objcopy", "--add-gnu-debuglink=linked.debug", "bare", "linked"], cwd=folder, check=True)
    addrs = addresses(whole, 2000)
    assert spoor(folder / "linked", addrs) == spoor(whole, addrs)
    with open(folder / "linked.debug", "ab") as f:
        f.write(b"x")  # the CRC no longer holds: not believed
    assert spoor(folder / "linked", addrs) != spoor(whole, addrs)


def test_minidebug(programs):
    """.gnu_debugdata as GDB's manual makes it: symbols that are not in .dynsym, packed by xz."""
    folder, whole = programs["folder"], programs["c-dwarf5"]
    strip(folder, whole, "mini.debug", "--only-keep-debug", "--strip-debug", "--remove-section=.comment")
    subprocess.run(["xz", "-kf", "mini.debug"], cwd=folder, check=True)
    strip(folder, whole, "stripped", "--strip-all")
    subprocess.run(["objcopy", "--add-section", ".gnu_debugdata=mini.debug.xz", "stripped", "mini"], cwd=folder,
                   check=True)
    symbols = subprocess.run(["nm", whole], capture_output=True, text=True).stdout
    part = int(re.search(r"(\w+) t part\.constprop", symbols).group(1), 16)
    assert spoor(folder / "mini", [part + 3]) == [[("part.constprop.0", "", 0, 0, 3)]]
    assert spoor(folder / "stripped", [part + 3]) == [[]]


def symbol_reference(path, addrs):
    """eu-addr2line -S: 'name+0xoffset' -> symbol's address, or None."""
    out = subprocess.run(["eu-addr2line", "-S", "-e", path], input="".join(f"{a:#x}\n" for a in addrs),
                         capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()[::2]
    result = []
    for addr, line in zip(addrs, out):
        offset = re.search(r"\+0x([0-9a-f]+)", line)
        if line.startswith(("??", "(")) or re.match(r"0x|\(", line):
            result.append(None)
        else:
            result.append(addr - (int(offset.group(1), 16) if offset else 0))
    return result


def sized_symbols(path):
    out = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True).stdout
    return {int(a, 16): int(s, 0) for a, s in
            re.findall(r"\d+: (\w{16})\s+(\w+) (?:FUNC|IFUNC)\s+\w+\s+\w+\s+(?:\[.*?\]\s+)?\d+ \S", out)}


@pytest.mark.parametrize("path", ["/bin/bash", "/usr/bin/python3", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
                                  "/usr/sbin/apache2", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"])
def test_symbols_of_stripped_programs(path):
    path = os.path.realpath(path)
    sized = sized_symbols(path)
    starts = random.Random(17).sample(sorted(sized), min(1500, len(sized)))
    addrs = sorted(set(addresses(path, 2000)) | {s for s in starts} | {s + max(sized[s], 1) // 2 for s in starts})
    differ, named = [], 0
    for addr, frames, want in zip(addrs, spoor(path, addrs), symbol_reference(path, addrs)):
        got = addr - frames[0][4] if frames and frames[0][0] else None
        named += got is not None
        covered = want is not None and want in sized and addr < want + max(sized[want], 1)
        if covered and got != want or not covered and got is not None and got in sized and sized[got]:
            if not (got in sized and addr < got + sized[got]):
                differ.append((hex(addr), frames, want and hex(want)))
    print(f"{path}: {len(addrs)} addresses, {named} named, {len(differ)} differ")
    assert named > 500
    assert not differ, differ[:10]


@pytest.mark.parametrize("path", ["/bin/bash", "/usr/bin/python3", "/usr/sbin/apache2"])
def test_plt_entries_as_objdump(path):
    path = os.path.realpath(path)
    out = subprocess.run(["objdump", "-d", "-j", ".plt", "-j", ".plt.got", path], capture_output=True,
                         text=True).stdout
    want = {int(a, 16): n.split("@")[0] + "@plt" for a, n in re.findall(r"^(\w{16}) <(.*)@plt>:$", out, re.M)}
    assert len(want) > 20
    got = dict(zip(want, (f[0][0] if f else None for f in spoor(path, list(want)))))
    assert got == want
