# SPDX-License-Identifier: GPL-2.0-or-later
"""The pages of docs/ as man pages, text and bash completion: scripts/md2man.py and completions/spoor.bash."""
import re
import subprocess
import sys

import pytest

PAGE = """# spoor-frob(1): a page for the test of it

## Synopsis

    spoor frob [-o DIR] FILE...

## Description

Says `code`, **bold**, *italic*, [a link](target.md), 2*3*4, C:\\new, and .TH at a line's start; it isn't -- much.

```
$ spoor frob | less
.SH is text here
```

| a | b |
|---|---|
| one `x` | two |

## Options

- `-o`, `--output DIR`: where to. A long explanation that goes on and on until it has to be wrapped, because eighty
  columns are not enough for it.
- `-f`, `--format text|json`: how.
- `-m`, `--mode MODE`: one of `app`, `app-all`, `all`.
- `--set A=B`: anything.
- `--folded[=UNIT]`: lines.
- `-h`, `--help`: this.
- A plain item.

## Examples

    spoor frob -o x y
"""


@pytest.fixture
def convert(source, tmp_path):
    def run(mode, *pages):
        paths = []
        for i, text in enumerate(pages or [PAGE]):
            paths.append(tmp_path / f"page{i}.md")
            paths[-1].write_text(text)
        out = tmp_path / "out"
        done = subprocess.run([sys.executable, source / "scripts/md2man.py", mode, out, *paths], capture_output=True,
                              text=True)
        return out.read_text() if not done.returncode else done.stderr
    return run


def pages(source):
    return [p for p in sorted((source / "docs").glob("*.md")) if re.match(r"# \S+\(\d\): ", p.read_text())]


def roff(text):
    """What a reader sees, and what groff complains about."""
    done = subprocess.run(["groff", "-man", "-ww", "-Tascii", "-P-cbou", "-rLL=78n"], input=text, capture_output=True,
                          text=True)
    return done.stdout, done.stderr


def test_man(convert):
    shown, complaints = roff(convert("--man"))
    assert not complaints
    assert "spoor-frob - a page for the test of it" in shown
    assert "2*3*4, C:\\new, and .TH at a line's start; it isn't -- much." in re.sub(r"\s+", " ", shown)
    assert "a link, " in shown and "target.md" not in shown
    assert "$ spoor frob | less\n" in shown and ".SH is text here" in shown
    assert "-o, --output DIR\n" in shown and "`" not in shown


def test_text(convert):
    text = convert("--text")
    assert text.startswith("NAME\n    spoor-frob - a page for the test of it\n\nSYNOPSIS\n")
    assert "\nOPTIONS\n    -o, --output DIR\n        where to. A long" in text
    assert "    a      b\n    one x  two\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_every_page_of_docs(source, convert):
    assert pages(source)
    for page in pages(source):
        shown, complaints = roff(convert("--man", page.read_text()))
        assert not complaints, f"{page.name}: {complaints}"
        headings = re.findall(r"^## (.+)$", page.read_text(), re.M)
        assert {"Synopsis", "Options", "Exit status", "Examples"} <= set(headings), page.name
        assert "Overhead" in headings or page.stem == "spoor", page.name
        for heading in headings:
            assert re.search(f"^{heading.upper()}$", shown, re.M), f"{page.name}: {heading}"


def test_all_verbs_are_listed(source, build):
    """As the program itself lists them."""
    told = subprocess.run([build / "spoor", "--help"], capture_output=True, text=True, check=True).stdout
    section = (source / "docs/spoor.md").read_text().partition("## Verbs")[2].partition("\n## ")[0]
    assert set(re.findall(r"^- `(\w+)`: ", section, re.M)) == set(re.findall(r"^  (\w+) ", told, re.M))


@pytest.mark.parametrize("page, said", [("", "expected '# NAME"), ("# spoor(1)\n", "expected '# NAME"),
                                        ("# a(1): b\n\n```\nx\n", "fence without an end")])
def test_bad_page(convert, page, said):
    assert said in convert("--man", page)


def complete(script, words):
    """What bash offers for the last word."""
    program = f"""
        compopt() {{ :; }}
        source "$1"
        COMP_WORDS=("${{@:2}}")
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _spoor
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", program, "bash", script, *words], capture_output=True, text=True)
    assert not done.stderr
    return set(done.stdout.split())


def test_completion(convert, tmp_path):
    convert("--bash")
    script = tmp_path / "out"
    assert complete(script, ["spoor", ""]) >= {"frob", "help", "version", "--help"}
    assert complete(script, ["spoor", "fr"]) == {"frob"}
    assert complete(script, ["spoor", "help", "f"]) == {"frob"}
    assert complete(script, ["spoor", "frob", "--"]) == {"--output", "--format", "--mode", "--set", "--folded",
                                                       "--help", "--"}
    assert complete(script, ["spoor", "frob", "-f", ""]) == {"text", "json"}
    assert complete(script, ["spoor", "frob", "--mode", "app"]) == {"app", "app-all"}
    assert complete(script, ["spoor", "frob", "--set", "x"]) == set()
    assert "/usr" in complete(script, ["spoor", "frob", "-o", "/us"])
    assert "/usr" in complete(script, ["spoor", "frob", "/us"])
    assert "ls" in complete(script, ["spoor", "frob", "--", "ls"])


def test_installed_completion(source, build):
    script = build / "docs/spoor"
    modes = {"app", "app-all", "lib", "all", "custom", "none"}
    assert complete(script, ["spoor", "record", "-m", ""]) == modes
    assert complete(script, ["spoor", "record", "--mode", "a"]) == {"app", "app-all", "all"}
    assert complete(script, ["spoor", "record", "--unwind", ""]) == {"cfi", "fp", "scan"}
    classes = {"%file", "%network", "%process", "%desc", "%memory", "%signal", "%ipc"}
    assert complete(script, ["spoor", "record", "-e", "%"]) == classes
    assert complete(script, ["spoor", "report", "--syscall", ""]) == classes
    assert complete(script, ["spoor", "report", "--sort", ""]) == {"time", "calls", "errors", "max"}
    assert complete(script, ["spoor", "report", "-f", ""]) == {"text", "json"}
    assert "--format" in complete(script, ["spoor", "check", "--f"])
    assert complete(script, ["spoor", "ust", ""]) == {"run", "list", "create", "start", "enable", "disable", "stop",
                                                      "status", "end", "snapshot", "recover"}
    assert complete(script, ["spoor", "ust", "run", "--mode", ""]) == {"discard", "overwrite", "block"}
    assert complete(script, ["spoor", "ust", "list", "--format", ""]) == {"text", "json"}
    assert complete(script, ["spoor", "record", "--rotate", ""]) == set()
    verbs = {p.stem for p in pages(source)} - {"spoor"}
    assert complete(script, ["spoor", ""]) >= verbs
