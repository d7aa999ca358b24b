# SPDX-License-Identifier: GPL-2.0-or-later
"""That walks went worse than they may is told of, file by file."""
from types import SimpleNamespace

import pytest
import walks

GOOD = {"test": "tests/e2e/t100_x.py::test_y", "total": 10000, "surprised": 40, "user": 900, "done": 10000,
        "hits": 9000, "misses": 100}


@pytest.mark.parametrize("worse, said", [({}, None), ({"surprised": 60}, "ended by surprise"),
                                         ({"user": 1500}, "left to user space"), ({"user": 1300}, None),
                                         ({"hits": 90}, None),
                                         ({"hits": 900, "misses": 1000}, "found in the cache")], ids=str)
def test_worse_walks_are_told(monkeypatch, worse, said):
    monkeypatch.setattr(walks, "SEEN", [SimpleNamespace(**GOOD | worse)])
    found = list(walks.regressed())
    assert len(found) == bool(said) and all(line.startswith("t100_x.py: ") and said in line for line in found)
