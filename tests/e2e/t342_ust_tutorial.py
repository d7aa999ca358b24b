# SPDX-License-Identifier: GPL-2.0-or-later
"""The tutorial, done word for word: what it says that comes, comes."""
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def blocks(text):
    """Indented blocks of a page: [(the last words before it, its lines)]."""
    found, before = [], ""
    for part in re.split(r"((?:^(?: {4}.*)?\n)+)", text, flags=re.M):
        if part.lstrip("\n").startswith("    "):
            found.append((before, [line[4:] for line in part.strip("\n").split("\n")]))
        elif part.strip():
            before = part.strip().split("\n")[-1]
    return found


def commands(lines):
    """[(command, [lines that come])]"""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


DIFFERS = [  # from run to run: times, addresses, numbers of processes, of sockets, per second; places; the machine
    (r"^Recorded on .*, Linux [^,]*", "Recorded"), (r"0x[0-9a-f]+", "ADDRESS"), (r"\d\d:\d\d:\d\d\.\d+", "TIME"),
    (r"within [\d.]+ m?s", "within"), (r"<\d+\.\d+>", "<TOOK>"), (r"UNIX:\[\d+", "UNIX:["), (r"\[\d+\]", "[PID]"),
    (r"[\d.]+ +greeter:greeted ", "RATE greeter:greeted "), (r"in /\S*/", "in "), (r" +", " "),
]


def same(lines):
    for pattern, instead in DIFFERS:
        lines = [re.sub(pattern, instead, line.rstrip()) for line in lines]
    return [line for line in lines if line and " Killed " not in line]  # bash tells of it sooner or later


def test_tutorial(build, tmp_path):
    text = (ROOT / "docs/tutorial-ust.md").read_text()
    shell, done = [], []
    for before, lines in blocks(text):
        name = re.search(r"`([\w.-]+)`:$", before)
        if name:
            (tmp_path / name[1]).write_text("\n".join(lines) + "\n")
        else:
            done += commands(lines)
    added = [line for line in (tmp_path / "ten-lines.patch").read_text().splitlines()[2:] if line.startswith("+")]
    assert len(added) == 10
    for i, (command, _) in enumerate(done):
        shell.append(f"echo '@@ {i}'\n{command}\n")
    # In a place of its own: the daemon's is the machine's.
    script = "mount -t tmpfs none /run && cd \"$1\" && set +m\n" + "".join(shell)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SPOOR", "XDG"))}
    env |= {"PATH": f"{build}:{env['PATH']}", "PKG_CONFIG_PATH": str(build / "meson-uninstalled"),
            "LD_LIBRARY_PATH": str(build / "src/agent"), "SPOOR_UST_LIBRARY": str(build / "src/agent/libspoor-ust.so")}
    walls = ["unshare", "--mount", "--propagation", "private"]
    run = subprocess.run([*walls, "timeout", "90", "bash", "-c", script, "bash", tmp_path], env=env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
    came = dict(re.findall(r"^@@ (\d+)\n(.*?)(?=^@@ \d+\n|\Z)", run.stdout, re.M | re.S))
    for i, (command, expected) in enumerate(done):
        assert same(came[str(i)].splitlines()) == same(expected), (command, run.stdout)
