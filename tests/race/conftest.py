# SPDX-License-Identifier: GPL-2.0-or-later
"""The fixtures of the end-to-end tests."""
import importlib.util
import sys
from pathlib import Path

_path = Path(__file__).resolve().parent.parent / "e2e/conftest.py"
sys.path.insert(0, str(_path.parent))  # what it imports
_spec = importlib.util.spec_from_file_location("e2e_conftest", _path)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
globals().update({k: v for k, v in vars(_module).items() if not k.startswith("__")})
