# SPDX-License-Identifier: GPL-2.0-or-later
"""What every file of the tree keeps to: licenses, width, tabs, no unfinished marks, headers that say what they are."""
import re
import subprocess

import pytest

LICENSED = (".c", ".h", ".py", ".sh", ".bash", ".build", ".S")
TEXT = (*LICENSED, ".md", ".txt", ".tbl", ".ini")
BY_FOLDER = [  # first match wins
    (re.compile(r".*\.bpf\.[ch]$"), {"GPL-2.0-only"}),
    (re.compile(r"src/base/.*\.[ch]$"), {"LGPL-2.1-or-later"}),
    (re.compile(r"include/.*"), {"LGPL-2.1-or-later"}),
    (re.compile(r"src/agent/.*\.[ch]$"), {"LGPL-2.1-or-later"}),
    # What the kernel side and its consumer share.
    (re.compile(r"src/collect/kernel/.*\.h$"), {"GPL-2.0-only", "GPL-2.0-or-later"}),
    # Layouts that BPF programs and, later, traced programs include.
    (re.compile(r".*\.h$"), {"GPL-2.0-or-later", "LGPL-2.1-or-later OR GPL-2.0-only"}),
    (re.compile(r".*"), {"GPL-2.0-or-later"}),
]
TAG = re.compile(r"SPDX-License-Identifier: ([^\n*]+?) *(?:\*/)?$", re.M)
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|not implemented)\b")


def tracked(source):
    names = subprocess.run(["git", "-C", source, "ls-files", "-z"], capture_output=True, text=True)
    if names.returncode:  # an unpacked archive
        return [p for p in source.rglob("*") if p.is_file() and not str(p.relative_to(source)).startswith("build")]
    return [source / n for n in names.stdout.split("\0") if n and (source / n).is_file()]


@pytest.fixture(scope="module")
def files(source):
    """Path in the tree -> text, of all text files but stored data and the licenses' own words."""
    found = {}
    for path in tracked(source):
        name = str(path.relative_to(source))
        if name.startswith(("LICENSES/", "tests/data/", "tests/fuzz/corpus/")):
            continue
        if path.suffix in TEXT or is_code(name):
            found[name] = path.read_text(encoding="utf-8")
    assert len(found) > 50
    return found


def complain(wrong):
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def is_code(name):
    scripts = ("Makefile", ".ci/run", "bench/run", "bench/lttng_run", "tests/run")
    return name.endswith(LICENSED) or name in scripts or "scripts/" in name


def test_license_tags(files):
    wrong = []
    for name, text in files.items():
        if not is_code(name):
            continue
        head = "\n".join(text.splitlines()[:3])
        tag = TAG.search(head)
        right = next(licenses for pattern, licenses in BY_FOLDER if pattern.fullmatch(name))
        if not tag or tag.group(1) not in right:
            wrong.append(f"{name}: {tag.group(1) if tag else 'no license tag'}, expected {' or '.join(sorted(right))}")
    complain(wrong)


def test_license_texts(source, files):
    used = {part for text in files.values() for tag in TAG.findall(text) for part in re.split(r" OR ", tag)}
    assert used <= {p.stem for p in (source / "LICENSES").iterdir()}


def width(line):
    return len(line.expandtabs(8))


def test_width(files):
    """120 columns; tables of documents may be wider, and so may a line that is one long word (an address)."""
    wrong = []
    for name, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if width(line) > 120 and not (name.endswith(".md") and line.startswith("|")) and not name.endswith(".tbl"):
                wrong.append(f"{name}:{number}: {width(line)} columns")
    complain(wrong)


def test_white_space(files):
    wrong = []
    for name, text in files.items():
        wrong += [f"{name}:{n}: blanks at the end" for n, l in enumerate(text.splitlines(), 1) if l != l.rstrip()]
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            wrong.append(f"{name}: must end with one newline")
        if name.endswith((".c", ".h")):
            wrong += [f"{name}:{n}: indent with tabs" for n, l in enumerate(text.splitlines(), 1) if l[:8] == " " * 8]
    complain(wrong)


def test_nothing_unfinished(files):
    wrong = []
    for name, text in files.items():
        if name == "tests/unit/test_format.py":
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if UNFINISHED.search(line):
                wrong.append(f"{name}:{number}: {line.strip()}")
    complain(wrong)


def test_headers_say_what_they_are(files):
    """A header opens with a comment; once, not by guards; and each function it declares is told apart from the last by
    a comment or stands in a group that has one."""
    wrong = []
    for name, text in files.items():
        if not name.endswith(".h") or not name.startswith(("src/", "include/")):
            continue
        lines = text.splitlines()
        if "#pragma once" not in lines[:3] and lines[1] != "/* Included more than once. */":
            wrong.append(f"{name}: '#pragma once' after the license")
        if not any(l.startswith("/*") for l in lines[1:12]):
            wrong.append(f"{name}: no comment says what it is")
    complain(wrong)


def test_every_page_is_built(source):
    """docs/VERB.md pages are in docs/meson.build; a page is what begins with NAME(1)."""
    listed = set(re.findall(r"'([\w-]+\.md)'", (source / "docs/meson.build").read_text()))
    pages = {p.name for p in (source / "docs").glob("*.md") if re.match(r"# \S+\(\d\): ", p.read_text())}
    assert listed == pages


def test_links_lead_somewhere(source, files):
    wrong = []
    for name, text in files.items():
        if not name.endswith(".md"):
            continue
        text = re.sub(r"```.*?```", "", text, flags=re.S)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not ((source / name).parent / target).exists():
                wrong.append(f"{name}: {target} does not exist")
    complain(wrong)


def test_one_and_many(files):
    """The word behind a number is spoor_plural()'s to choose: one way to say it."""
    by_hand = re.compile(r'[!=]= 1 \? "')
    complain([f"{name}: {line.strip()}" for name, text in files.items() if name.startswith("src/")
              for line in text.splitlines() if by_hand.search(line)])
