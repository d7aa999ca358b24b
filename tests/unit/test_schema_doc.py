# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of Spoor's own events in docs/formats/trace.md is what src/trace/schema.def says.

Run by hand with --write, it puts the table into the document: tests/unit/test_schema_doc.py BUILD --write
"""
import re
import subprocess
import sys
from pathlib import Path

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


if __name__ == "__main__" and sys.argv[2:] == ["--write"]:
    path = Path(__file__).resolve().parents[2] / DOCUMENT
    path.write_text(with_table(path.read_text(), sys.argv[1]))
