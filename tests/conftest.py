# SPDX-License-Identifier: GPL-2.0-or-later
"""What every Python test can ask for. tests/run sets SPOOR_BUILD; run by hand, it is ./build."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SPOOR_BUILD", ROOT / "build"))
sys.dont_write_bytecode = True


@pytest.fixture(scope="session")
def source():
    """The root of the source tree."""
    return ROOT


@pytest.fixture(scope="session")
def build():
    """The build directory."""
    return BUILD


@pytest.fixture
def spoor(tmp_path):
    """Runs spoor in a directory of its own: spoor("check", "-f", "json") -> CompletedProcess with text output."""
    def run(*args, timeout=60, **how):
        how = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": timeout} | how
        return subprocess.run([BUILD / "spoor", *map(str, args)], **how)
    return run
