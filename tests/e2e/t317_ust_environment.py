# SPDX-License-Identifier: GPL-2.0-or-later
"""The variables that record without a daemon: what they say, and what is said of those that say nothing."""
import json
import subprocess

import pytest
import tracing
from daemons import daemon, open_place  # noqa: F401 (fixtures)


@pytest.fixture(scope="module")
def actor(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("actor") / "ust_actor", "ust_actor.c")


@pytest.mark.parametrize("name, value, says", [
    ("MODE", "bogus", "discard is taken"), ("MODE", "block=", "discard is taken"), ("MODE", "block=5x", "discard is"),
    ("BUFFERS", "xx", "4M is taken"), ("BUFFERS", "5Q", "4M is taken"), ("BUFFERS", "9" * 30, "4M is taken"),
    ("CONTEXT", "vpid,nosuch", "left out"), ("CONTEXT", "vpid,perf:nosuch", "left out"), ("STACK", "custom", "left"),
    ("STACK", "app,0", "left out"), ("STACK", "app,9999", "left out"), ("MAX_SIZE", "zz", "no limit"),
    ("MAX_SIZE", "1k", "; 4M is taken"), ("MAX_SIZE", "8m", "no limit"), ("MAX_SIZE", "99999999T", "no limit"),
    ("BUFFERS", "1", "4M is taken"), ("BUFFERS", "63k", "4M is taken"), ("BUFFERS", "3G", "4M is taken"),
    ("MODE", "block=61s", "discard is taken"), ("MODE", "block=0", "discard is taken"),
    ("EVENT", "actor:none", "=actor:none: there is no such variable; it is left out"),
    ("MODES", "overwrite", "left out"),
    ("CLOCK", "sundial", "processor's clock"), ("MODE", "a\x1b[31mb\n", "=a?[31mb?:"),
])
def test_wrong_values_are_said(build, actor, tmp_path, name, value, says):
    """In one line, whatever is in them; the program runs, and the rest of what was asked for holds."""
    run, (trace,) = tracing.traced(build, tmp_path / "out", actor, "count", 101, **{f"SPOOR_UST_{name}": value})
    assert run.returncode == 0 and run.stdout == "recorded actor:step 0 101\n"
    assert run.stderr.startswith(f"spoor-ust: SPOOR_UST_{name}=") and run.stderr.count("\n") == 1, run.stderr
    assert says in run.stderr and len(trace.events) == 101
    assert ("vpid" in trace.events[0].values) == ("vpid" in value)


@pytest.mark.parametrize("name, value, says", [
    ("FILTER", "n ==", "nothing is recorded"), ("FILTER", "n " * 250, "longer than 499"),
    ("EVENTS", "actor:s*,step", "such as server:request"), ("OUTPUT", "/nonexistent", "no such"),
    ("OUTPUT", "/dev/null", "not a directory"),
])
def test_what_cannot_be_is_said(build, actor, tmp_path, name, value, says):
    run, traces = tracing.traced(build, tmp_path / "out", actor, "count", 101, **{f"SPOOR_UST_{name}": value})
    assert run.returncode == 0 and run.stdout == "recorded actor:step 0 101\n" and not traces
    assert run.stderr.startswith("spoor-ust: ") and run.stderr.count("\n") == 1 and says in run.stderr, run.stderr


def test_who_records_alone_has_no_recorder(daemon, actor, tmp_path):  # noqa: F811
    """Whatever else is said of where one is."""
    daemon.ust("start", "-o", "t.spoor")
    _, (trace,) = tracing.traced(daemon.build, tmp_path / "out", actor, "count", 101, SPOOR_UST_SOCKET=daemon.socket)
    assert len(trace.events) == 101
    assert daemon.ust("end").stdout.startswith("0 events of 0 programs")


@pytest.mark.parametrize("name, value, mode, block_us", [
    ("MODE", "discard", 0, 0), ("MODE", "overwrite", 1, 0), ("MODE", "block", 2, 100000),
    ("MODE", "block=1s", 2, 1000000), ("MODE", "block=250us", 2, 250), ("MODE", "block=90m", 0, None),
    ("MODE", "block=60s", 2, 60000000), ("MODE", "block=1m", 2, 60000000),
])
def test_modes(build, actor, tmp_path, name, value, mode, block_us):
    _, (trace,) = tracing.traced(build, tmp_path / "out", actor, "count", 5, **{f"SPOOR_UST_{name}": value})
    channel, = trace.channels
    assert channel["mode"] == mode and (block_us is None or channel["block_us"] == block_us)


def test_right_values_say_nothing(build, actor, tmp_path):
    run, (trace,) = tracing.traced(build, tmp_path / "out", actor, "count", 101, SPOOR_UST_BUFFERS="2M",
                                   SPOOR_UST_EVENTS="*,!actor:n*,", SPOOR_UST_CONTEXT="v*,!vtid",
                                   SPOOR_UST_STACK="all,7", SPOOR_UST_MAX_SIZE="1G", SPOOR_UST_FILTER="n < 50")
    assert not run.stderr and len(trace.events) == 50
    assert set(trace.events[0].values) == {"n", "what", "vpid", "callstack", "callstack_status", "callstack_way",
                                           "reserved"}


@pytest.mark.parametrize("name, value", [
    ("BUFFERS", "1k"), ("BUFFERS", "63k"), ("BUFFERS", "3G"), ("BUFFERS", "8m"), ("MAX_SIZE", "1k"),
    ("MAX_SIZE", "4194303"), ("MODE", "block=61s"), ("MODE", "block=0us"), ("MODE", "never"), ("FILTER", "n " * 250),
    ("FILTER", "n =="),
])
def test_options_say_the_same(build, actor, tmp_path, name, value):
    """What `spoor ust run` refuses is no value of the variable, for the same reason in the same words."""
    option = f"--{name.lower().replace('_', '-')}"
    refused = subprocess.run([build / "spoor", "ust", "run", option, value, "--", "true"], capture_output=True,
                             text=True, cwd=tmp_path)
    why = refused.stderr.split(f"{option} {value}: ")[-1].split(f"{option}: ")[-1].split(" at '")[0].strip()
    run, _ = tracing.traced(build, tmp_path / "out", actor, "count", 5, **{f"SPOOR_UST_{name}": value})
    assert refused.returncode == 2 and f": {why}; " in run.stderr, (refused.stderr, run.stderr)


@pytest.fixture(scope="module")
def gives_up(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("gives_up") / "gives_up", "ust_gives_up.c")


def recovered(build, tmp_path):
    """What `recover` says, the report, and its summary."""
    run = subprocess.run([build / "spoor", "ust", "recover", "-o", tmp_path / "t.spoor", tmp_path / "out"],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    text, lines = (subprocess.run([build / "spoor", "report", *words, tmp_path / "t.spoor"], capture_output=True,
                                  text=True, check=True).stdout for words in ([], ["--format", "json"]))
    return run.stdout + run.stderr, text, json.loads(lines.splitlines()[-1])


def test_children_that_may_not_write(build, gives_up, tmp_path):
    """It is said once, and what they lost is told as theirs: no buffer was full."""
    (tmp_path / "out").mkdir(mode=0o755)
    run, _ = tracing.traced(build, tmp_path / "out", gives_up)
    assert run.returncode == 0
    assert run.stderr == (f"spoor-ust: SPOOR_UST_OUTPUT={str(tmp_path / 'out')[:100]}: may not be written; "
                          "child processes for which that is so are not recorded\n")
    said, text, summary = recovered(build, tmp_path)
    assert "1 event of 1 program" in said and "3 child processes could have no buffers" in said
    assert "Lost: 30 events were of child processes that could have no buffers of their own." in text
    assert "a buffer was full" not in text and "Not recorded: 3 programs" in text
    assert (summary["discarded"], summary["lost_child"], summary["programs_not_recorded"]) == (30, 30, 3)


def test_children_that_may_write(build, gives_up, open_place):  # noqa: F811
    (open_place / "out").mkdir()
    (open_place / "out").chmod(0o1777)
    run, traces = tracing.traced(build, open_place / "out", gives_up)
    assert run.returncode == 0 and not run.stderr
    assert sorted(len(t.events) for t in traces) == [1, 10, 10, 10]


@pytest.mark.parametrize("mode, says", [("r+", False), ("a", True)])
def test_nothing_is_written_over(build, gives_up, tmp_path, mode, says):
    """A file that a program has opened in standard error's place is not ours, unless it is a log."""
    (tmp_path / "out").mkdir(mode=0o755)
    file = tmp_path / "file"
    file.write_text("precious")
    run, _ = tracing.traced(build, tmp_path / "out", gives_up, file, mode)
    assert run.returncode == 0 and not run.stderr
    assert file.read_text().startswith("precious" + "spoor-ust: " * says)
    assert (len(file.read_text()) > len("precious")) == says
