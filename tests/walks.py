# SPDX-License-Identifier: GPL-2.0-or-later
"""How the walks of every trace that a test reads went: told at the end, test file by test file (conftest.py)."""
import json
import os
from pathlib import Path

EXPECTED = ("complete", "budget")
UNTIL_KNOWN = 400  # walks that may be left to user space while the rows of a recording's programs are made


class Walks:
    """Of one trace: by status, by where they were done, and how often a row was found in the cache."""

    def __init__(self, summary, trace):
        try:
            counters = json.loads((Path(trace) / "manifest").read_text()).get("counters", {})
        except OSError:
            counters = {}
        self.test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
        self.trace = Path(trace).name
        self.status = {k: n for k, n in summary["walks"].items() if n}
        self.total = sum(self.status.values())
        self.surprised = self.total - sum(self.status.get(k, 0) for k in EXPECTED)
        self.user = summary["ways"]["user"]
        self.done = sum(summary["ways"].values())
        self.hits, self.misses = (counters.get(f"row_cache_{k}", 0) for k in ("hits", "misses"))

    def hold(self, surprised=0.002, user=None, hits=0.6, explained=0):
        """Fails where walks ended by surprise, where user space had to do what the kernel can, or where rows that were
        used before were not at hand. (user: the share that may be its; or some at the begin, and half of the rest: on a
        busy machine it takes time until rows are made. That all is the kernel's then, test_steady.py holds. explained:
        surprises of which the test knows the reason, each.)"""
        said = f"{self.trace}: {self.status}, in user space {self.user}, row cache hits {100 * self.hit_rate():.2f} %"
        assert not self.status.get("lost"), said
        assert self.surprised <= surprised * self.total + explained, said
        assert self.user <= (UNTIL_KNOWN + 0.5 * self.done if user is None else user * self.done), said
        assert self.hits + self.misses < 1000 or self.hit_rate() >= hits, said

    def hit_rate(self):
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 1.0


SEEN = []


def seen(summary, trace):
    """Notes them for the summary."""
    SEEN.append(Walks(summary, trace))
    return SEEN[-1]


# Of all walks of a file's tests: the share that may end by surprise, the share that may be left to user space beyond
# UNTIL_KNOWN of each trace, the share of rows that have to be at hand. More where the tests are about just that.
LIMITS = (0.005, 0.1, 0.5)
LIMITS_OF = {
    "t120_record_hung.py": (0.01, 0.1, 0.5),  # a program that was removed
    "t140_record_bad_days.py": (0.015, 0.1, 0.5),  # memory that is not there
    "t155_record_killed.py": (0.005, 0.8, 0),  # Spoor is killed before it has made many rows
    "t160_record_settings.py": (0.35, 0.1, 0.5),  # no room for rows; walks by --unwind scan
    "t170_record_limits.py": (0.25, 0.1, 0.5),  # rings that run full
    "t177_report_container.py": (0.15, 0.8, 0.5),  # containers that were removed
    "test_edges.py": (0.02, 0.1, 0.5), "test_edges_copied.py": (0.05, 0.1, 0.5),  # code without rows
    "test_edges_memory.py": (0.25, 0.1, 0.5),
    "test_int80.py": (0.8, 0.1, 0.4),  # programs of 32 bits
    "test_storms.py": (0.005, 0.1, 0.25),  # programs that nobody has met
}

NOT_JUDGED = "t190_record_equal_stacks.py"  # how many walks user space gets, and loses, is what its tests count


def share(part, whole):
    return f"{100 * part / whole:.2f} %" if whole else "-"


def by_file():
    files = {}
    for walks in SEEN:
        files.setdefault(Path(walks.test.split("::")[0]).name, []).append(walks)
    return sorted(files.items())


def regressed():
    """A line for each test file of which all walks together went worse than they may."""
    for name, all_of in by_file():
        if name == NOT_JUDGED:
            continue
        surprised, user, hits = LIMITS_OF.get(name, LIMITS)
        total, done, found = (sum(getattr(w, what) for w in all_of) for what in ("total", "done", "hits"))
        looks = found + sum(w.misses for w in all_of)
        if sum(w.surprised for w in all_of) > surprised * total + 1:
            yield f"{name}: more walks than {100 * surprised:g} % ended by surprise"
        if sum(max(0, w.user - UNTIL_KNOWN) for w in all_of) > user * done:
            yield f"{name}: more walks than {100 * user:g} % were left to user space"
        if looks >= 1000 and found < hits * looks:
            yield f"{name}: fewer rows than {100 * hits:g} % were found in the cache"


def lines():
    """One a test file."""
    for name, all_of in by_file():
        total, done = sum(w.total for w in all_of), sum(w.done for w in all_of)
        status = {}
        for walks in all_of:
            for k, n in walks.status.items():
                status[k] = status.get(k, 0) + n
        how = ", ".join(f"{k} {share(n, total)}" for k, n in sorted(status.items(), key=lambda x: -x[1]))
        hits = sum(w.hits for w in all_of)
        yield (f"{name}: {total} walks in {len(all_of)} traces: {how or '-'}; in user space "
               f"{share(sum(w.user for w in all_of), done)}; row cache hits "
               f"{share(hits, hits + sum(w.misses for w in all_of))}")
