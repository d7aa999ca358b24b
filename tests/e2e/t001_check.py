# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor check: what it says, how it exits, and that it leaves nothing behind."""
import json
import shutil
import subprocess
import time

import pytest

from denials import no_bpf

ALWAYS_NEEDED = {"cap_bpf", "cap_perfmon", "btf", "sys_enter", "sys_exit", "fork", "exec", "exit", "task_storage",
                 "buffers", "walk", "iter_task"}


def results(output):
    return {r["check"]: r for r in map(json.loads, output.splitlines())}


@pytest.fixture
def without(build, tmp_path):
    """Runs `spoor check -f json` without some capabilities, or as nobody."""
    program = tmp_path / "spoor"
    shutil.copy(build / "spoor", program)

    def run(*setpriv):
        return subprocess.run(["setpriv", *setpriv, program, "check", "-f", "json"], capture_output=True, text=True,
                              cwd="/", timeout=60)
    yield run


def test_everything_works_here(spoor):
    run = spoor("check", "--format", "json")
    found = results(run.stdout)
    assert run.returncode == 0, run.stdout
    assert not run.stderr
    assert {name for name in ALWAYS_NEEDED if found[name]["state"] != "ok"} == set()
    assert all(set(r) == {"check", "state", "detail", "advice"} for r in found.values())
    assert all((r["advice"] is None) == (r["state"] == "ok") for r in found.values())


def test_text_and_json_agree(spoor):
    found = results(spoor("check", "-f", "json").stdout)
    lines = spoor("check").stdout.splitlines()
    assert lines.pop() == "Recording is possible here."
    assert [tuple(l.split()[:2]) for l in lines] == [(r["state"], name) for name, r in found.items()]


def test_nobody_is_told_which_capability_is_missing(without, tmp_path):
    for directory in [tmp_path, *list(tmp_path.parents)[:3]]:
        directory.chmod(directory.stat().st_mode | 0o055)
    run = without("--reuid=65534", "--regid=65534", "--clear-groups")
    found = results(run.stdout)
    assert run.returncode == 1
    assert found["cap_bpf"]["state"] == found["sys_enter"]["state"] == found["walk"]["state"] == "no"
    assert "cap_bpf" in found["sys_enter"]["advice"]
    assert found["processes"]["state"] == "limited" and "CAP_SYS_PTRACE" in found["processes"]["advice"]


def test_one_capability_less(without):
    found = results(without("--bounding-set", "-sys_ptrace").stdout)
    assert {name for name, r in found.items() if r["state"] != "ok"} == {"cap_sys_ptrace", "processes"}
    run = without("--bounding-set", "-perfmon,-sys_admin")
    assert run.returncode == 1 and results(run.stdout)["cap_perfmon"]["state"] == "no"


def test_bpf_and_perfmon_are_enough(without):
    """No CAP_SYS_ADMIN: recording must be possible with what the documentation names."""
    run = without("--bounding-set", "-sys_admin")
    assert run.returncode == 0, run.stdout


@pytest.fixture
def elsewhere(build, tmp_path):
    """Runs spoor where some directories of /sys hold what the test says: {directory: {file: text}}."""
    def run(sys, *args, **how):
        script = "".join(f"mount -t tmpfs none {at}; " + "".join(f"echo '{text}' >{at}/{name}; "
                                                                 for name, text in files.items())
                         for at, files in sys.items())
        return subprocess.run(["unshare", "-m", "sh", "-ec", script + 'exec "$@"', "sh", build / "spoor", *args],
                              capture_output=True, text=True, cwd=tmp_path, timeout=60, **how)
    yield run


@pytest.mark.parametrize("verb", [["record", "-o", "t.spoor"], ["stat"]], ids=" ".join)
def test_no_proc(elsewhere, tmp_path, verb):
    """Nothing else is missing, and nothing else is said to be."""
    no_proc = {"/proc": {}}
    found = results(elsewhere(no_proc, "check", "-f", "json").stdout)
    assert found["proc"]["state"] == "no" and "mount -t proc" in found["proc"]["advice"]
    assert found["cap_bpf"]["state"] == found["cap_perfmon"]["state"] == "ok"
    for target, code in (("--", "true"), 125), (("-p", "1"), 1), (("-n", "x"), 1):
        run = elsewhere(no_proc, *verb, *target)
        assert run.returncode == code and run.stderr.count("\n") == 1
        assert ": /proc is not mounted" in run.stderr and "mount -t proc proc /proc" in run.stderr
    assert not (tmp_path / "t.spoor").exists()


NO_BTF = {"/sys/kernel/btf": {}}
LOCKED = {"/sys/kernel/security": {"lockdown": "none integrity [confidentiality]"}}


@pytest.mark.parametrize("without", [NO_BTF, {"/sys/kernel/btf": {"vmlinux": ""}},
                                     {"/sys/kernel/btf": {"vmlinux": "this is none"}}], ids=["none", "empty", "other"])
def test_kernel_without_btf(elsewhere, tmp_path, without):
    found = results(elsewhere(without, "check", "-f", "json").stdout)
    assert found["btf"]["state"] == "no" and "CONFIG_DEBUG_INFO_BTF=y" in found["btf"]["advice"]
    assert found["sys_enter"]["state"] == "no" and found["sys_enter"]["advice"] == "see btf"
    run = elsewhere(without, "record", "-o", "t.spoor", "--", "true")
    assert run.returncode == 125 and run.stderr.count("\n") == 1 and not (tmp_path / "t.spoor").exists()
    assert "no BTF" in run.stderr and "CONFIG_DEBUG_INFO_BTF=y" in run.stderr


def test_kernel_locked_down(elsewhere):
    """Whatever it refuses then (here, for want of such a kernel: it has no BTF), the reason is told."""
    run = elsewhere(LOCKED, "check", "-f", "json")
    lockdown = results(run.stdout)["lockdown"]
    assert run.returncode == 1 and lockdown["state"] == "no"
    assert "[confidentiality]" in lockdown["detail"] and "lockdown=integrity" in lockdown["advice"]
    run = elsewhere(NO_BTF | LOCKED, "record", "--", "true")
    assert run.returncode == 125 and run.stderr.count("\n") == 1
    assert "locked down" in run.stderr and "lockdown=integrity" in run.stderr


VERBS = {"record": (["record", "-o", "t.spoor", "-p"], 1), "record a command": (["record", "-o", "t.spoor", "--"], 125),
         "stat": (["stat", "-p"], 1), "stat by site": (["stat", "--by", "site", "-p"], 1)}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("line, locked, advice", [
    ("none integrity [confidentiality]", True, "boot with lockdown=integrity or lockdown=none"),
    ("none [integrity] confidentiality", True, "boot with lockdown=none"),
    ("[none] integrity confidentiality", False, "run spoor outside of it"),
])
def test_bpf_refused(elsewhere, start, actor, tmp_path, verb, line, locked, advice):
    """To root, who has all capabilities: one line says who refuses it and what to do. Nothing is begun."""
    args, code = VERBS[verb]
    target = [actor(), "marks", "3"] if args[-1] == "--" else [start(actor(), "sleep").pid]
    run = elsewhere({"/sys/kernel/security": {"lockdown": line}}, *args, *map(str, target), preexec_fn=no_bpf)
    assert run.returncode == code and not run.stdout and run.stderr.count("\n") == 1
    assert (f"locked down ({line})" in run.stderr) == locked and advice in run.stderr and "CAP_" not in run.stderr
    assert not (tmp_path / "t.spoor").exists()


def test_check_tells_of_integrity(elsewhere):
    """It does not matter to Linux, but where bpf(2) is refused it may be the reason."""
    run = elsewhere({"/sys/kernel/security": {"lockdown": "none [integrity] confidentiality"}}, "check", "-f", "json",
                    preexec_fn=no_bpf)
    found = results(run.stdout)
    assert run.returncode == 1 and found["lockdown"]["state"] == "ok"
    assert all("boot with lockdown=none" in found[name]["advice"] for name in ("sys_enter", "walk", "iter_task"))


@pytest.mark.parametrize("line", ["none [integrity] confidentiality", "[none] integrity confidentiality"])
def test_lockdown_that_does_not_matter(elsewhere, line):
    run = elsewhere({"/sys/kernel/security": {"lockdown": line}}, "check", "-f", "json")
    assert run.returncode == 0
    assert (results(run.stdout)["lockdown"]["state"], results(run.stdout)["lockdown"]["detail"]) == ("ok", line)


def test_nothing_stays_loaded(spoor):
    spoor("check")
    # Programs are freed after an RCU grace period.
    for _ in range(50):
        if "check_" not in subprocess.run(["/usr/sbin/bpftool", "prog", "list"], capture_output=True, text=True).stdout:
            return
        time.sleep(0.1)
    pytest.fail("programs of spoor check are still loaded")


@pytest.mark.parametrize("args", [["-x"], ["extra"], ["--format", "yaml"], ["--format"]])
def test_misuse(spoor, args):
    run = spoor("check", *args)
    assert run.returncode == 2 and "spoor check" in run.stderr and not run.stdout
