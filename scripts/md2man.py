#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns the verb pages of docs/ into man pages, the text of `spoor help`, and bash completion.

    md2man.py --man OUT PAGE.md        roff (man macros)
    md2man.py --text OUT PAGE.md       plain text, 80 columns
    md2man.py --c OUT PAGE.md...       C source with the text of all pages
    md2man.py --bash OUT PAGE.md...    bash completion

The subset of markdown: `# NAME(1): summary` first, `##` and `###` headings, paragraphs, lists ("- `term`: text" or
"- text", continued by indentation), tables, text indented by four columns or fenced (kept as it is), `code`,
**bold**, *italic*, [text](target) (the text is kept).
"""
import re
import sys
import textwrap
from pathlib import Path

WIDTH = 80
TERM = re.compile(r"^((?:`[^`]+`(?:, | or )?)+)(?:: *(.*))?$", re.S)


class Page:
    def __init__(self, path):
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        match = re.match(r"# (\S+)\((\d)\): (.+)", lines[0]) if lines else None
        if not match:
            raise SystemExit(f"{path}:1: expected '# NAME(SECTION): summary'")
        self.name, self.section, self.summary = match.groups()
        self.verb = self.name.removeprefix("spoor-")
        self.blocks = list(parse(lines[1:], path))

    def options(self):
        """All options of the page, in order: (names, argument or None)."""
        found = []
        for kind, value in self.blocks:
            match = TERM.match(value) if kind == "item" else None
            spelled = re.findall(r"`([^`]+)`", match.group(1)) if match else []
            # `-o DIR`, `--output DIR`, `--set A=B`; `--folded[=UNIT]` takes nothing that stands after a blank.
            names = [re.split(r"[ \[=]", s)[0] for s in spelled if s.startswith("-") and s not in ("-", "--")]
            if names:
                argument = next((s.split(None, 1)[1] for s in spelled if " " in s), None)
                found.append((names, argument, match.group(2) or ""))
        return found

    def words(self):
        """What the synopsis has behind the verb: `run`, `create|start`, `end | snapshot`."""
        synopsis = next((value for kind, value in self.blocks if kind == "verbatim"), [])
        found = (re.match(rf"spoor {self.verb} ([a-z]+(?: ?\| ?[a-z]+)*)(?= |$)", line) for line in synopsis)
        return [word for match in found if match for word in re.split(r" ?\| ?", match.group(1))]


def parse(lines, path):
    """Yields (kind, value); kind: heading, subheading, paragraph, item, verbatim, table."""
    i = 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif line.startswith("```"):
            end = next((j for j in range(i + 1, len(lines)) if lines[j].startswith("```")), None)
            if end is None:
                raise SystemExit(f"{path}:{i + 2}: fence without an end")
            yield "verbatim", lines[i + 1:end]
            i = end + 1
        elif line.startswith("    "):
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            yield "verbatim", "\n".join(l[4:] for l in lines[i:end]).rstrip().splitlines()
            i = end
        elif line.startswith("#"):
            marks, _, words = line.partition(" ")
            yield ("heading" if len(marks) == 2 else "subheading"), words.strip()
            i += 1
        elif line.startswith("|"):
            end = i
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            yield "table", [cells(l) for l in lines[i:end] if not re.fullmatch(r"[|:\- ]+", l)]
            i = end
        else:
            item = line.startswith("- ")
            text = [line[2:] if item else line]
            i += 1
            while i < len(lines) and lines[i].strip() and not lines[i].startswith(("- ", "#", "|", "```")):
                text.append(lines[i].strip())
                i += 1
            yield ("item" if item else "paragraph"), " ".join(text)


def cells(line):
    return [plain(c.strip()) for c in re.split(r"(?<!\\)\|", line.strip()[1:-1])]


def table_lines(rows):
    widths = [max(len(r[c]) if c < len(r) else 0 for r in rows) for c in range(max(map(len, rows)))]
    return ["  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in rows]


def spans(text):
    """Splits inline markup: yields (font, text); font: R, B or I."""
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    for piece in re.split(r"(`[^`]+`|\*\*[^*]+\*\*|(?<![*\w])\*[^*\s][^*]*\*(?!\w))", text):
        if piece.startswith("`") and len(piece) > 2:
            yield "B", piece[1:-1]
        elif piece.startswith("**") and len(piece) > 4:
            yield "B", piece[2:-2]
        elif piece.startswith("*") and piece.endswith("*") and len(piece) > 2:
            yield "I", piece[1:-1]
        elif piece:
            yield "R", piece


def plain(text):
    return "".join(t for _, t in spans(text)).replace("\\|", "|")


# roff

def escape(text):
    text = text.replace("\\|", "|").replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return text.replace("^", "\\(ha").replace("~", "\\(ti")


def inline(text):
    out = "".join(escape(t) if f == "R" else f"\\f{f}{escape(t)}\\fR" for f, t in spans(text))
    return "\\&" + out if out.startswith((".", "\\(aq")) else out


def verbatim_roff(lines):
    return [".PP", ".RS 4", ".nf", *[("\\&" + escape(l)) if l else "" for l in lines], ".fi", ".RE"]


def to_man(page):
    out = ['.\\" Generated from docs/ by scripts/md2man.py.',
           f'.TH "{page.name.upper()}" "{page.section}" "" "Spoor" "Spoor"', ".nh", ".ad l", ".SH NAME",
           f"{escape(page.name)} \\- {inline(page.summary)}"]
    for kind, value in page.blocks:
        if kind == "heading":
            out.append(f".SH {escape(value.upper())}")
        elif kind == "subheading":
            out.append(f".SS {escape(value)}")
        elif kind == "verbatim":
            out += verbatim_roff(value)
        elif kind == "table":
            out += verbatim_roff(table_lines(value))
        elif kind == "item" and TERM.match(value):
            term, text = TERM.match(value).groups()
            out += [".TP", inline(term), inline(text or "")]
        elif kind == "item":
            out += [".IP \\(bu 2", inline(value)]
        else:
            out += [".PP", inline(value)]
    return "\n".join(out) + "\n"


# text

def wrap(text, indent, first=None):
    first = indent if first is None else first
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def to_text(page):
    out = ["NAME", *wrap(f"{page.name} - {plain(page.summary)}", "    ")]
    for kind, value in page.blocks:
        if kind == "heading":
            out += ["", value.upper()]
            continue
        if out[-1] and out[-1][0] == " ":
            out.append("")
        if kind == "subheading":
            out.append("  " + value)
        elif kind == "verbatim":
            out += [("        " + l).rstrip() for l in value]
        elif kind == "table":
            out += ["    " + l for l in table_lines(value)]
        elif kind == "item" and TERM.match(value):
            term, text = TERM.match(value).groups()
            out.append("    " + plain(term))
            out += wrap(plain(text or ""), "        ")
        elif kind == "item":
            out += wrap(plain(value), "      ", "    - ")
        else:
            out += wrap(plain(value), "    ")
    return "\n".join(out) + "\n"


# C

def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def to_c(pages):
    out = ["/* SPDX-License-Identifier: GPL-2.0-or-later */", "/* Generated from docs/ by scripts/md2man.py. */",
           '#include "cmd/cmd.h"', "", "const struct spoor_page spoor_pages[] = {"]
    for page in pages:
        out.append(f"\t{{ {c_string(page.verb)},")
        out += [f"\t  {c_string(line)} \"\\n\"" for line in to_text(page).splitlines()]
        out[-1] += " },"
    out += ["};", "const size_t spoor_pages_n = sizeof(spoor_pages) / sizeof(*spoor_pages);"]
    return "\n".join(out) + "\n"


# bash

KINDS = {"DIR": "@dir", "TRACE": "@dir", "PATH": "@file", "FILE": "@file", "PID": "@pid"}
LISTED = ("FORMAT", "MODE", "WAY", "GROUP", "KEY", "UNIT")


def choices(names, argument, text):
    """What can follow an option: its words, or a kind of thing by its metavariable."""
    if "|" in argument and argument.islower():
        return " ".join(argument.split("|"))
    word = re.split(r"[,=\[ ]", argument)[0]
    if word in LISTED:  # the words that its first clause lists, or those that are explained behind a colon each
        text = re.sub(r" ?\([^)]*\)", "", text)
        listed = re.findall(r"`([a-z][a-z0-9-]*)`", re.split(r"[:;.] ", text)[0])
        return " ".join(listed if len(listed) > 1 else re.findall(r"`([a-z][a-z0-9-]*)`:", text)) or "@any"
    if word == "EXPR":
        return " ".join(re.findall(r"%[a-z]+", text)) or "@any"
    if "--name" in names:
        return "@comm"
    return KINDS.get(word, "@any")


def to_bash(pages):
    template = (Path(__file__).parent.parent / "completions" / "spoor.bash").read_text(encoding="utf-8")
    verbs, options, arguments, words = ["help", "version"], [], [], []
    for page in pages:
        if page.verb != "spoor":
            verbs.append(page.verb)
        names = [n for spelled, _, _ in page.options() for n in spelled]
        options.append(f"\t[{page.verb}]='{' '.join(names)}'")
        if page.words():
            words.append(f"\t[{page.verb}]='{' '.join(page.words())}'")
        for spelled, argument, text in page.options():
            if argument:
                what = choices(spelled, argument, text)
                arguments += [f"\t[{page.verb} {n}]='{what}'" for n in spelled]
    return (template.replace("@VERBS@", " ".join(sorted(verbs))).replace("@OPTIONS@", "\n".join(options))
            .replace("@ARGUMENTS@", "\n".join(arguments)).replace("@WORDS@", "\n".join(words)))


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("--man", "--text", "--c", "--bash"):
        raise SystemExit(__doc__)
    mode, out, pages = sys.argv[1], sys.argv[2], [Page(p) for p in sys.argv[3:]]
    text = {"--man": lambda: to_man(pages[0]), "--text": lambda: to_text(pages[0]), "--c": lambda: to_c(pages),
            "--bash": lambda: to_bash(pages)}[mode]()
    Path(out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
