# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/bootstrap before a package manager that only says what it was asked: what is missing, and only that, is
installed, lists are updated only when needed, sudo is used by those who are not root, no service starts."""
import os
import subprocess

import pytest

ALL_MODES = ("build", "demo", "test", "bench")

FAKES = {
    # What is installed and what the archive has are lines of files.
    "dpkg-query": 'for p; do :; done; grep -qx "$p" "$FAKE/installed" && printf installed || exit 1',
    "apt-cache": '''for p; do :; done
        [ -e "$FAKE/lists" ] && grep -qx "$p" "$FAKE/archive" && echo "Package: $p"
        exit 0''',
    "apt-get": '''echo "apt-get $*" >>"$FAKE/log"
        case $1 in
        update) touch "$FAKE/lists"; rm -f "$FAKE/stale" ;;
        install) [ ! -e "$FAKE/stale" ] || exit 100 ;;
        esac''',
    "id": 'cat "$FAKE/uid"',
    "sudo": '''echo "sudo $1 $2" >>"$FAKE/log"
        case $1 in
        sh | rm | update-rc.d) ;;
        env) shift; exec env "$@" ;;
        *) exec "$@" ;;
        esac''',
}


@pytest.fixture
def machine(source, tmp_path):
    """A machine with everything installed, whose package lists are there, used by somebody with sudo."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in FAKES.items():
        (programs / name).write_text("#!/bin/sh\n" + text + "\n")
        (programs / name).chmod(0o755)
    for name in ("sh", "env", "grep", "tr", "cat", "touch", "rm"):
        (programs / name).symlink_to(f"/bin/{name}")

    class Machine:
        path = tmp_path

        def list(self, mode):
            return self.run("--list", mode).stdout.split()

        def run(self, *args):
            (tmp_path / "log").write_text("")
            return subprocess.run(["/bin/sh", source / "scripts/bootstrap", *args], capture_output=True, text=True,
                                  env={"PATH": str(programs), "FAKE": str(tmp_path)})

        def log(self):
            return (tmp_path / "log").read_text().splitlines()

        def installs(self):
            return [l.split() for l in self.log() if l.startswith("apt-get install")]

        def remove(self, *packages):
            left = [p for p in (tmp_path / "installed").read_text().split() if p not in packages]
            (tmp_path / "installed").write_text("\n".join(left) + "\n")

    machine = Machine()
    (tmp_path / "uid").write_text("1000\n")
    (tmp_path / "lists").touch()
    names = {n for mode in ALL_MODES for entry in machine.list(mode) for n in entry.split("|")}
    for name in ("installed", "archive"):
        (tmp_path / name).write_text("\n".join(sorted(names)) + "\n")
    return machine


@pytest.mark.parametrize("mode", ALL_MODES)
def test_nothing_missing_nothing_done(machine, mode):
    run = machine.run(mode)
    assert run.returncode == 0 and not run.stdout and not run.stderr and not machine.log()


def test_only_what_is_missing(machine):
    machine.remove("gdb", "make")
    assert machine.run("build").returncode == 0
    assert [i[-1] for i in machine.installs()] == ["make"] and "gdb" not in machine.installs()[0]
    assert machine.run("test").returncode == 0
    assert {"gdb", "make"} <= set(machine.installs()[0])
    assert "apt-get update -q" not in machine.log()
    assert "--no-install-recommends" in machine.installs()[0] and "-y" in machine.installs()[0]


def test_lists_are_updated_when_there_are_none(machine):
    machine.remove("make")
    (machine.path / "lists").unlink()
    assert machine.run("build").returncode == 0
    assert [l for l in machine.log() if l.startswith("apt-get")][0] == "apt-get update -q"
    assert len(machine.installs()) == 1


def test_lists_are_updated_when_stale(machine):
    machine.remove("make")
    (machine.path / "stale").touch()
    assert machine.run("build").returncode == 0
    asked = [l.split()[1] for l in machine.log() if l.startswith("apt-get")]
    assert asked == ["install", "update", "install"]


def test_alternatives(machine):
    machine.remove("clang-19")
    assert machine.run("--missing", "build").stdout == "clang-19|clang-14\n", "14 is there, but 19 can be had"
    assert machine.run("build").returncode == 0 and machine.installs()[0][-1] == "clang-19"
    archive = (machine.path / "archive").read_text().replace("clang-19\n", "")
    (machine.path / "archive").write_text(archive)
    assert not machine.run("--missing", "build").stdout, "14 does where 19 cannot be had"
    machine.remove("clang-14")
    assert machine.run("build").returncode == 0 and machine.installs()[0][-1] == "clang-14"


def test_unknown_to_the_archive(machine):
    machine.remove("bpftool")
    (machine.path / "archive").write_text("make\n")
    run = machine.run("build")
    assert run.returncode == 1 and "do not know: bpftool" in run.stderr and not machine.installs()


def test_no_service_starts(machine):
    machine.remove("apache2")
    assert machine.run("demo").returncode == 0
    log = machine.log()
    install = next(i for i, l in enumerate(log) if l.startswith("apt-get install"))
    if os.path.exists("/usr/sbin/policy-rc.d"):
        assert "sudo sh -c" not in log
    else:
        assert log.index("sudo sh -c") < install < log.index("sudo rm -f")


def test_neither_root_nor_sudo(machine):
    machine.remove("make")
    (machine.path / "bin/sudo").unlink()
    run = machine.run("build")
    assert run.returncode == 1 and "apt-get install" in run.stderr and "make" in run.stderr


def test_unknown_mode(machine):
    run = machine.run("frob")
    assert run.returncode == 1 and "unknown mode 'frob'" in run.stderr


def test_this_machine_has_all_for_tests(source):
    run = subprocess.run([source / "scripts/bootstrap", "--missing", "test"], capture_output=True, text=True)
    assert run.returncode == 0 and not run.stdout, "run scripts/bootstrap test"
