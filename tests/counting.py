# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of `spoor stat` share: its JSON read back and checked for what always holds."""
import json
from collections import Counter

FIELDS = ("calls", "errors", "seconds", "blocked_seconds", "in_flight", "unreturned")


def unfinished(call):
    return sum((call.get(k) or {}).get("calls", 0) for k in ("in_flight", "unreturned", "left"))


def check(call):
    """Calls, errors, times, errnos and histogram are from one moment."""
    assert sum(call["histogram"]) == call["calls"], call
    assert call["errors"] <= call["calls"], call
    assert call["entered"] == call["calls"] + unfinished(call), call
    assert sum(call["errnos"].values()) == call["errors"], call
    if "blocked_seconds" in call:
        assert call["blocked_seconds"] <= call["seconds"], call  # t200 knows how much of it
    if call["calls"]:
        low, high = call["min_ns"], call["max_ns"]
        used = [i for i, n in enumerate(call["histogram"]) if n]
        assert low <= high and low.bit_length() - 1 == used[0] and high.bit_length() - 1 == used[-1], call
        assert low * call["calls"] <= round(call["seconds"] * 1e9) <= high * call["calls"], call


class Counters:
    """One object of `spoor stat --format json`."""

    def __init__(self, line):
        self.all = json.loads(line)
        self.tasks = self.all["tasks"]
        for task in self.tasks:
            for call in task["syscalls"]:
                for part in call.get("sites", [call]):
                    check(part)

    def of(self, name, key="calls", abi=None):
        """The sum of a field over all tasks; what has not returned counts as a call."""
        found = [c for t in self.tasks for c in t["syscalls"] if c["name"] == name and c.get("abi") == abi]
        return sum(c[key] for c in found) + (sum(map(unfinished, found)) if key == "calls" else 0)

    def returned(self):
        """{name: (calls, errors)} of what has returned."""
        calls, errors = Counter(), Counter()
        for task in self.tasks:
            for call in task["syscalls"]:
                name = (call["name"], call.get("abi"))
                calls[name] += call["calls"]
                errors[name] += call["errors"]
        return {k: (calls[k], errors[k]) for k in calls if calls[k]}

    def threads(self):
        return sum(t["threads"] for t in self.tasks)

    def whole(self):
        assert self.all["lost_threads"] == 0 and self.all["lost_calls"] == 0
        return self


def total(objects, name):
    """The sum of what the objects, one print after the other, say has returned."""
    return sum(o.returned().get((name, None), (0, 0))[0] for o in objects)


def read(path):
    """All objects in a file."""
    return [Counters(line) for line in path.read_text().splitlines()]
