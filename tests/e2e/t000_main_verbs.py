# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor itself: the verbs, their pages, and what is said about a wrong one."""
import re
import subprocess

import pytest


def verbs(spoor):
    return re.findall(r"^  (\w+)  ", spoor("--help").stdout, re.M)


def test_without_verb(spoor):
    run = spoor()
    assert run.returncode == 2 and not run.stdout and "usage: spoor VERB" in run.stderr


def test_help_of_help(spoor):
    short = spoor("help", "-h")
    assert short.returncode == 0 and short.stdout.startswith("SYNOPSIS\n") and "spoor help VERB" in short.stdout
    assert spoor("help", "--help").stdout == short.stdout


def test_help_lists_verbs(spoor):
    assert {"check", "help", "version"} <= set(verbs(spoor))
    assert spoor("-h").stdout == spoor("--help").stdout


def test_every_verb_has_a_page(spoor):
    for verb in set(verbs(spoor)) - {"help", "version"}:
        page = spoor("help", verb)
        assert page.returncode == 0 and page.stdout.startswith("NAME\n    spoor-" + verb)
        assert "\nEXAMPLES\n" in page.stdout and "\nEXIT STATUS\n" in page.stdout
        short = spoor(verb, "-h")
        assert short.returncode == 0 and short.stdout.startswith("SYNOPSIS\n") and "EXAMPLES" in short.stdout
        assert spoor(verb, "--help").stdout == short.stdout
        assert "above)" not in short.stdout  # there is nothing


def test_summaries_agree(spoor):
    """The line in `spoor --help` is the page's title."""
    listed = dict(re.findall(r"^  (\w+) +(.*)$", spoor("--help").stdout, re.M))
    for verb in set(verbs(spoor)) - {"help", "version"}:
        title = re.sub(r"\s+", " ", spoor("help", verb).stdout.split("\n\n")[0].split(" - ", 1)[1])
        assert listed[verb] == title


@pytest.mark.parametrize("word, said", [
    ("chekc", "did you mean 'spoor check'?"), ("hlep", "did you mean 'spoor help'?"),
    ("frobnicate", "'spoor --help' lists them"), ("\033[31m", "\\x1b[31m"), ("", "there is no verb ''"),
])
def test_unknown_verb(spoor, word, said):
    run = spoor(word)
    assert run.returncode == 2 and not run.stdout
    assert said in run.stderr and len(run.stderr.splitlines()) == 1


def test_unknown_page(spoor):
    run = spoor("help", "frobnicate")
    assert run.returncode == 2 and "no page" in run.stderr


@pytest.mark.parametrize("args", [["help"], ["help", "record"], ["--help"], ["check"], ["check", "-f", "json"],
                                  ["--version"], ["version"], ["report", "-h"]], ids=" ".join)
def test_full_disk(spoor, args):
    with open("/dev/full", "w") as full:
        run = spoor(*args, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert run.returncode == 1
    assert re.fullmatch("spoor: cannot write to standard output(: No space left on device)?\n", run.stderr)


def test_version(spoor):
    assert re.fullmatch(r"spoor \d+\.\d+\.\d+\n", spoor("version").stdout)
    assert spoor("--version").stdout == spoor("version").stdout


HOSTILE = "a\x1b[2J\nb"


@pytest.mark.parametrize("args", [("stat", "-o", f"file/{HOSTILE}", "--", "true"), ("stat", "--", HOSTILE),
                                  ("stat", "--cgroup", HOSTILE), ("report", HOSTILE), ("pack", HOSTILE),
                                  ("repair", HOSTILE), ("record", "-o", f"file/{HOSTILE}", "--", "true"),
                                  ("daemon", "--socket", f"file/{HOSTILE}"), ("help", HOSTILE), (HOSTILE,),
                                  ("relay", "--listen", HOSTILE, "-o", "relayed"), ("ust", "list", HOSTILE)],
                         ids=lambda args: "-".join(args)[:12].replace(HOSTILE, "name"))
def test_names_in_errors(spoor, tmp_path, args):
    """A line on a terminal that names something does what no name says."""
    (tmp_path / "file").touch()
    run = spoor(*args)
    assert run.returncode and run.stdout == "" and run.stderr.count("\n") == 1, run
    assert "a\\x1b[2J\\nb" in run.stderr and "\x1b" not in run.stderr, run
