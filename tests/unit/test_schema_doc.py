# SPDX-License-Identifier: GPL-2.0-or-later
"""What docs/formats/ says of tables and versions is what the sources say: its table of events is src/trace/schema.def.

Run by hand with --write, it puts the table into the document: tests/unit/test_schema_doc.py BUILD --write
"""
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = "docs/formats/trace.md"
PLACE = re.compile(r"(<!-- schema begin -->\n).*?(<!-- schema end -->)", re.S)


def table(build):
    return subprocess.run([Path(build) / "tests/tools/trace_dump", "--schema"], check=True, capture_output=True,
                          text=True).stdout


def with_table(text, build):
    return PLACE.sub(lambda m: f"{m[1]}\n{table(build)}\n{m[2]}", text)


def test_document_is_up_to_date(source, build):
    text = (source / DOCUMENT).read_text()
    assert PLACE.search(text)
    assert with_table(text, build) == text


@pytest.mark.parametrize("page, said, header, constant", [
    ("trace", r'`"spoor-trace"`, (\d+):', "src/trace/schema.h", "SPOOR_TRACE_VERSION"),
    ("relay", r"Version (\d+)\.", "src/collect/relay/protocol.h", "SPOOR_RELAY_VERSION"),
    ("ust-control", r"Version (\d+)\.", "src/agent/control/protocol.h", "SPOOR_CONTROL_VERSION"),
    ("ust-memory", r"version (\d+)\.", "src/agent/core/arena.h", "SPOOR_ARENA_VERSION"),
])
def test_versions(source, page, said, header, constant):
    is_ = re.search(rf"#define {constant} (\d+)", (source / header).read_text())[1]
    assert re.search(said, (source / f"docs/formats/{page}.md").read_text())[1] == is_


if __name__ == "__main__" and sys.argv[2:] == ["--write"]:
    path = Path(__file__).resolve().parents[2] / DOCUMENT
    path.write_text(with_table(path.read_text(), sys.argv[1]))
