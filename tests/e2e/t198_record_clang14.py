# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's programs as clang 14 builds them, which is used where it is installed and 19 is not: the verifier takes
them, and they record and count what those of this build do."""
import json
import shutil
import subprocess

import counting
import pytest
from t220_stat_sites import counted_sites

COMMAND = ["/bin/ls", "-l", "/etc"]


@pytest.fixture(scope="module")
def other(source, tmp_path_factory):
    """A spoor whose kernel side clang 14 has built."""
    where = tmp_path_factory.mktemp("clang14")
    chosen = where / "native.ini"
    chosen.write_text(f"[binaries]\nclang-19 = '{shutil.which('clang-14')}'\n")
    subprocess.run(["meson", "setup", "--native-file", chosen, where / "build", source], check=True, timeout=120,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", where / "build", "spoor"], check=True, timeout=600, stdout=subprocess.DEVNULL)
    assert "clang-14" in (where / "build/build.ninja").read_text()
    return where / "build/spoor"


def recorded(program, trace, *options):
    """[(event, how its walk ended, its frames)] of COMMAND."""
    subprocess.run([program, "record", *options, "-o", trace, "--", *COMMAND], check=True, timeout=60,
                   capture_output=True)
    run = subprocess.run([program, "report", "--format", "json", trace], check=True, timeout=60, capture_output=True,
                         text=True)
    calls = [json.loads(line) for line in run.stdout.splitlines()]
    return [(c["event"], c.get("walk"), [(f["object"], f["offset"]) for f in c.get("stack") or ()]) for c in calls]


@pytest.mark.parametrize("options", [["-m", "all", "-S", "64"], []], ids=["all", "defaults"])
def test_same_stacks(build, other, tmp_path, options):
    ours = recorded(build / "spoor", tmp_path / "ours.spoor", *options)
    assert len(ours) > 100 and any(len(frames) > 3 for _, _, frames in ours)
    assert recorded(other, tmp_path / "theirs.spoor", *options) == ours


def counted(program, out, *options):
    """{call: (calls, errors)} of COMMAND; by site {(call, frames): calls}."""
    subprocess.run([program, "stat", "--format", "json", *options, "-o", out, "--", *COMMAND], check=True, timeout=60,
                   capture_output=True)
    (counters,) = counting.read(out)
    return counted_sites(counters.whole()) if options else counters.whole().returned()


@pytest.mark.parametrize("options", [[], ["--by", "site"]], ids=["calls", "sites"])
def test_same_counts(build, other, tmp_path, options):
    ours = counted(build / "spoor", tmp_path / "ours.json", *options)
    assert len(ours) > 10
    assert counted(other, tmp_path / "theirs.json", *options) == ours
