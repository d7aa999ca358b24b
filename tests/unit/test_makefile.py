# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make` hands on to Meson, shown by a dry run, and what it has Meson look for again."""
import os
import re
import subprocess

import pytest


@pytest.mark.parametrize("destdir, goes_to", [("dd", "{root}/dd"), ("/tmp/dd", "/tmp/dd"), ("", ""),
                                                ("a dd", "{root}/a dd"), ("/tmp/a dd", "/tmp/a dd")])
def test_destdir(source, build, destdir, goes_to):
    """Meson takes a relative one as of the build directory; whoever types it means this one."""
    run = subprocess.run(["make", "-n", "install", f"BUILD={build}", f"DESTDIR={destdir}"], cwd=source, text=True,
                         capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert re.findall(r'^DESTDIR="(.*)" meson install', run.stdout, re.M) == [goes_to.format(root=source)]


@pytest.mark.parametrize("prefix, goes_to", [("/opt", "/opt"), ("p", "{root}/p"), ("/", "/"), ("", "/"),
                                             ("/usr/lo cal", "/usr/lo cal"), ("lo cal", "{root}/lo cal")])
def test_prefix(source, build, tmp_path, prefix, goes_to):
    """An empty one is the root, as everywhere: when Meson is asked first, and when it installs."""
    for out, option in ((tmp_path / "none", r"^meson setup .*--prefix "), (build, "^meson configure .*-Dprefix=")):
        run = subprocess.run(["make", "-n", "install", f"BUILD={out}", f"PREFIX={prefix}"], cwd=source, text=True,
                             capture_output=True, timeout=60)
        assert run.returncode == 0, run.stderr
        assert re.findall(option + '"(.*?)"', run.stdout, re.M) == [goes_to.format(root=source)], run.stdout


def unit_tests(directory):
    run = subprocess.run(["meson", "test", "-C", directory, "--list", "--suite", "unit"], text=True,
                         capture_output=True, timeout=60)
    return run.stdout.splitlines()


def test_tests_need_not_be_wanted_at_first(source, tmp_path):
    """What tests need is installed after the demo has built: without it they fail, and then they are there."""
    known = tmp_path / "pkgconfig"
    known.mkdir()
    paths = subprocess.run(["pkg-config", "--variable", "pc_path", "pkg-config"], check=True, text=True,
                           capture_output=True).stdout.strip().split(":")
    for pc in (pc for path in reversed(paths) if os.path.isdir(path) for pc in os.scandir(path)):
        if pc.name != "cmocka.pc":
            (known / pc.name).unlink(missing_ok=True)
            (known / pc.name).symlink_to(pc.path)
    out = tmp_path / "build"
    subprocess.run(["meson", "setup", out, source], check=True, timeout=120, stdout=subprocess.DEVNULL,
                   env=os.environ | {"PKG_CONFIG_LIBDIR": str(known)})
    run = subprocess.run([source / "tests/run", out, "unit"], text=True, capture_output=True, timeout=120)
    assert run.returncode == 1 and run.stdout.endswith("\n0 passed, 1 failed\n") and "libcmocka-dev" in run.stdout
    for target in ("test", "check-loop", "bench"):
        dry = subprocess.run(["make", "-n", target, f"BUILD={out}"], cwd=source, text=True, capture_output=True,
                             check=True).stdout
        found = re.search(r"^meson setup --reconfigure \S+", dry, re.M)
        assert found and found.end() < dry.index("ninja -C")
    subprocess.run(found[0].split(), cwd=source, check=True, timeout=120, stdout=subprocess.DEVNULL)
    assert len(unit_tests(out)) > 30
