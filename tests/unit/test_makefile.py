# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make` hands on to Meson, shown by a dry run."""
import re
import subprocess

import pytest


@pytest.mark.parametrize("destdir, goes_to", [("dd", "{root}/dd"), ("/tmp/dd", "/tmp/dd"), ("", "")])
def test_destdir(source, build, destdir, goes_to):
    """Meson takes a relative one as of the build directory; whoever types it means this one."""
    run = subprocess.run(["make", "-n", "install", f"BUILD={build}", f"DESTDIR={destdir}"], cwd=source, text=True,
                         capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert re.findall(r'^DESTDIR="(.*)" meson install', run.stdout, re.M) == [goes_to.format(root=source)]
