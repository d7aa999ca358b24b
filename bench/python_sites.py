# SPDX-License-Identifier: GPL-2.0-or-later
"""python_sites.py SECONDS: os.getppid from 20 to 35 C frames of the interpreter, by 97 different ways.

A Python function that calls another needs no C frame; a builtin that calls back does. Prints ns a call, as
getppid does.
"""

import functools
import os
import random
import re
import statistics
import sys
import time

WAYS = [
    lambda f: max((0,), key=lambda _: f()),
    lambda f: sorted((0,), key=lambda _: f()),
    lambda f: next(map(lambda _: f(), (0,))),
    lambda f: functools.reduce(lambda a, _: f(), (0, 0)),
    lambda f: re.sub("x", lambda _: str(f()), "x"),
    lambda f: functools.partial(f)(),
    lambda f: any(f() for _ in (0,)),
    lambda f: [0].sort(key=lambda _: f()),
    lambda f: list(filter(lambda _: f(), (0,))),
    lambda f: sum(f() for _ in (0,)),
    lambda f: next(iter(lambda: f() * 0, 0), None),
]


def build(rng):
    """One callback, or two within each other."""
    f = functools.partial(rng.choice(WAYS), os.getppid)
    return functools.partial(rng.choice(WAYS), f) if rng.randrange(2) else f


def main():
    rng = random.Random(1009)
    calls = [build(rng) for _ in range(97)]
    end = time.perf_counter() + float(sys.argv[1])
    batches = []
    while len(batches) < 3 or time.perf_counter() < end:
        begin = time.perf_counter_ns()
        for _ in range(5):
            for call in calls:
                call()
        batches.append((time.perf_counter_ns() - begin) / (5 * len(calls)))
    print(f"python: min {min(batches):.1f} median {statistics.median(batches):.1f} ns, "
          f"{len(batches) * 5 * len(calls)} calls")


main()
