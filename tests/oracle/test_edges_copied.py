# SPDX-License-Identifier: GPL-2.0-or-later
"""The hard cases again, with user memory copied by the kernel's helper, as where it cannot be read in place."""
import pytest

import edges
from test_edges import *  # noqa: F403
from test_edges_mapped import *  # noqa: F403
from test_edges_memory import *  # noqa: F403


@pytest.fixture(autouse=True)
def copied(monkeypatch):
    made = []

    def record(*args, **how):
        made.append(edges_record(*args, **how))
        return made[-1]

    edges_record = edges.record
    monkeypatch.setenv("SPOOR_USER_MEMORY", "copy")
    monkeypatch.setattr(edges, "record", record)
    yield
    assert all(r.counters["memory_in_place"] == 0 for r in made)
