# SPDX-License-Identifier: GPL-2.0-or-later
"""Holds the dependency arrows of docs/architecture.md: which folder of src/ may include which."""
import re

import pytest

# "analyze, present -> object", "unwind -> {object, base}" and so on, with base served to all. Chains are transitive.
MAY_USE = {
    "base": set(),
    "object": {"base"},
    "unwind": {"object", "base"},
    "trace": {"base"},
    "collect": {"trace", "unwind", "object", "base"},
    "analyze": {"trace", "object", "base"},
    "present": {"analyze", "trace", "object", "base"},
    "cmd": {"present", "analyze", "collect", "trace", "unwind", "object", "base"},
    # It must link into anybody's program: what programs include, records and rows, no library of ours.
    "agent": {"spoor"},
}
# Layouts that both sides of a boundary share; they include nothing of Spoor's but each other.
LAYOUTS = {"trace/record.h", "trace/syscalls.h", "unwind/row.h", "unwind/row_layout.h", "unwind/walk_core.h",
           "unwind/walk_state.h", "agent/core/arena.h", "agent/control/protocol.h", "agent/ust/state.h",
           "agent/ust/filter_core.h", "agent/ust/limits.h"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)


def files(source):
    return sorted(p for p in (source / "src").rglob("*") if p.suffix in (".c", ".h") and p.is_file())


def folder(path):
    return path.split("/")[0]


def allowed(user, used):
    if folder(used) in ("spoor", "ust"):  # include/: what programs are built with
        return folder(user) == "agent"
    return folder(used) == folder(user) or folder(used) in MAY_USE[folder(user)] or used in LAYOUTS


def includes(source):
    for path in files(source):
        name = str(path.relative_to(source / "src"))
        for used in INCLUDE.findall(path.read_text(encoding="utf-8")):
            yield name, used


def test_the_table_is_the_documented_one(source):
    text = " ".join((source / "docs/architecture.md").read_text(encoding="utf-8").split())
    assert "`cmd -> present -> analyze -> trace -> base`" in text
    assert "`cmd -> collect -> {trace, unwind, object, base}`" in text
    assert "`analyze, present -> object`" in text and "`unwind -> {object, base}`" in text


def test_every_folder_is_in_the_table(source):
    assert {p.name for p in (source / "src").iterdir() if p.is_dir()} <= set(MAY_USE)


def test_arrows(source):
    found = list(includes(source))
    assert found, "no #include was found: is this test looking at the right place?"
    wrong = [f"src/{user} includes {used}" for user, used in found if not allowed(user, used)]
    assert not wrong, "\n".join(wrong)


def test_includes_name_their_folder(source):
    """From src/ on, so that a reader and this test know what is meant; generated headers too."""
    wrong = [f"src/{user} includes {used}" for user, used in includes(source) if "/" not in used or ".." in used]
    assert not wrong, "\n".join(wrong)


def test_layouts_stand_alone(source):
    inner = [(user, used) for user, used in includes(source) if user in LAYOUTS]
    assert {used for _, used in inner} <= LAYOUTS, inner


def test_nobody_uses_cmd(source):
    assert not [user for user, used in includes(source) if folder(used) == "cmd" and folder(user) != "cmd"]


def test_no_circle_of_headers(source):
    graph = {}
    for user, used in includes(source):
        if user.endswith(".h"):
            graph.setdefault(user, []).append(used)

    def visit(header, path):
        assert header not in path, "circle: " + " -> ".join([*path, header])
        for used in graph.get(header, []):
            visit(used, [*path, header])
    for header in graph:
        visit(header, [])


@pytest.mark.parametrize("user, used, right", [
    ("cmd/record.c", "collect/session/session.h", True), ("trace/writer.c", "unwind/rows.h", False),
    ("base/error.c", "trace/writer.h", False), ("analyze/x.c", "present/y.h", False),
    ("trace/a.c", "unwind/row.h", True),
])
def test_this_test(user, used, right):
    assert allowed(user, used) == right
