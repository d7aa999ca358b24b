# SPDX-License-Identifier: GPL-2.0-or-later
"""Side by side: Spoor, the floor programs and its peers at the same work, in turns. See README.md."""

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time

import bars
import tables
import tools
from measure import Failed, busy_share, end_all, first_line, foreign_bpf, text_of
from scenarios import FIGURE_6, Settings, all_scenarios
from ust import ust_scenarios

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "RESULTS.md")
STATS = "/proc/sys/kernel/bpf_stats_enabled"
TRACEFS = "/sys/kernel/tracing"


def say(text):
    print(text, file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument("spoor", help="the program to measure, build/spoor")
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help="which ones; default: all (see --list)")
    parser.add_argument("--scenario", action="append", default=[], metavar="NAME", help="the same, repeatable")
    parser.add_argument("--tool", action="append", default=[], metavar="TEXT",
                        help="only contestants whose name contains TEXT (natives and floors always run)")
    parser.add_argument("--quick", action="store_true", help="a few seconds for each contestant, two rounds")
    parser.add_argument("--rounds", type=int, help="instead of the scenario's own number")
    parser.add_argument("--seconds", type=float, help="of each run of a server (60, with --quick 3)")
    parser.add_argument("--programs", metavar="DIR", help="where floor and getppid are; default: built beside spoor")
    parser.add_argument("--bpf-stats", action="store_true", help="count time in BPF programs (this costs time itself)")
    parser.add_argument("--save", action="store_true", help="replace these sections in bench/RESULTS.md")
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    return parser.parse_intermixed_args()


def programs_beside(spoor):
    """Built on demand: nothing but the benchmark needs them."""
    build = os.path.dirname(os.path.abspath(spoor))
    done = subprocess.run(["ninja", "-C", build, "bench-programs"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"cannot build the workloads: {done.stdout.strip().splitlines()[-1:]} {done.stderr.strip()}")
    return os.path.join(build, "bench")


def version_of(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "none"
    return first_line(done.stdout or done.stderr)


def machine(spoor):
    """Without this no number means anything."""
    cpu = re.search(r"model name\s*:\s*(.*)", text_of("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s+(\d+)", text_of("/proc/meminfo"))
    system = re.search(r'PRETTY_NAME="(.*)"', text_of("/etc/os-release"))
    flaws = [os.path.basename(p) + ": " + text_of(p).strip() for p in sorted(
        os.path.join("/sys/devices/system/cpu/vulnerabilities", n)
        for n in os.listdir("/sys/devices/system/cpu/vulnerabilities")) if "Not affected" not in text_of(p)]
    versions = {
        "spoor": version_of(spoor, "--version"), "bpftrace": version_of("bpftrace", "--version"),
        "perf": version_of("perf", "--version"), "strace": version_of("strace", "--version"),
        "apache2": version_of("/usr/sbin/apache2", "-v"), "redis": version_of("redis-server", "--version"),
        "mariadb": version_of("/usr/sbin/mariadbd", "--version"), "python3": platform.python_version(),
        "lttng": version_of("lttng", "--version"), "babeltrace2": version_of("babeltrace2", "--version"),
    }
    return "\n".join(map(tables.item, [
        f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} CPUs, {int(memory[1]) >> 20} GiB; "
        f"Linux {platform.release()}; {system[1] if system else ''}",
        f"mitigations: {'; '.join(flaws) or 'none'}",
        "; ".join(f"{k}: {v}" for k, v in versions.items()),
        f"{time.strftime('%Y-%m-%d')}, load {text_of('/proc/loadavg').split()[0]}",
    ]))


def chosen(scenario, options):
    """The cases to run. A peer that is not installed is said once and left out."""
    cases, absent = [], {}
    for case in scenario.cases:
        need = tools.missing(case.tool)
        if need:
            absent[case.label] = f"{need} is not installed"
        elif case.tool.kind in ("native", "floor") or not options.tool or any(t in case.label for t in options.tool):
            cases.append(case)
    return cases, absent


def look_around():
    """What would make the next run say something about others."""
    busy, programs = busy_share(), foreign_bpf()
    found = [f"{busy:.0f} % busy"] if busy > 10 else []
    return ", ".join(found + ([f"{programs} foreign BPF programs"] if programs else []))


def measure(scenario, options, settings):
    cases, absent = chosen(scenario, options)
    result = tables.Result(scenario, failed=absent)
    try:
        run_rounds(result, cases, options, settings)
    finally:
        if hasattr(scenario.run, "close"):
            scenario.run.close()
    return result


def run_rounds(result, cases, options, settings):
    scenario = result.scenario
    rounds = options.rounds or (2 if options.quick else scenario.rounds)
    for i in range(rounds):
        runs = {}
        for case in cases:
            if case.label in result.failed:
                continue
            say(f"{scenario.name} {i + 1}/{rounds}: {case.label}")
            disturbance = look_around()
            if disturbance:
                result.disturbed[case.label] = disturbance
            try:
                runs[case.label] = scenario.run(case, settings)
            except Failed as e:
                result.failed[case.label] = str(e)
                say(f"    no result: {e}")
        result.rounds.append(runs)


def save(sections, about):
    """
    Each section keeps the machine it was measured on: they need not be of one day. What stands before the first is
    written by hand.
    """
    first, *parts = re.split(r"^(?=## )", text_of(RESULTS), flags=re.M)
    kept = {part.split("\n", 1)[0].split(":")[0]: part for part in parts}
    for section in sections:
        head, body = section.split("\n", 1)
        kept[head.split(":")[0]] = f"{head}\n{body.rstrip()}\n\n{about}\n\n"
    with open(RESULTS, "w", encoding="utf-8") as f:
        f.write((first or "# Results of `make bench`\n\nHow to read them: [README.md](README.md).\n\n") +
                "".join(kept.values()).rstrip() + "\n")
    say(f"saved in {RESULTS}")


class Prepared:
    """Trace events must be mounted for bpftrace, and BPF statistics be off but where they are asked for."""

    def __init__(self, options):
        self.options = options
        self.mounted = False

    def __enter__(self):
        if os.geteuid():
            say("not root: most contestants will fail")
        if not os.path.exists(f"{TRACEFS}/events") and not os.geteuid():
            self.mounted = subprocess.run(["mount", "-t", "tracefs", "none", TRACEFS], check=False).returncode == 0
        self.stats = text_of(STATS).strip()
        self.set_stats("1" if self.options.bpf_stats else "0")
        return self

    @staticmethod
    def set_stats(value):
        try:
            with open(STATS, "w", encoding="ascii") as f:
                f.write(value)
        except OSError:
            pass

    def __exit__(self, *_):
        end_all()
        if self.stats:
            self.set_stats(self.stats)
        if self.mounted:
            subprocess.run(["umount", TRACEFS], check=False)


def main():
    options = arguments()
    scenarios = all_scenarios() + ust_scenarios()
    if options.list:
        for scenario in scenarios:
            print(f"{scenario.name:10} {scenario.title}")
        return 0
    names = options.names + options.scenario
    unknown = set(names) - {s.name for s in scenarios}
    if unknown:
        say(f"bench: no scenario named {', '.join(sorted(unknown))}; there are: {', '.join(s.name for s in scenarios)}")
        return 2
    try:
        programs = options.programs or programs_beside(options.spoor)
    except Failed as e:
        say(f"bench: {e}")
        return 1
    cache = os.path.join(os.path.dirname(os.path.abspath(programs)), "bench-cache")
    settings = Settings(os.path.abspath(options.spoor), os.path.abspath(programs), cache, options.quick,
                        options.seconds)
    # Both unwind the stack, so that everything that was started is ended. (In the background SIGINT would be ignored.)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    about = machine(settings.spoor)
    print(about + "\n", flush=True)
    results, sections = {}, []
    with Prepared(options):
        for scenario in scenarios:
            if names and scenario.name not in names:
                continue
            results[scenario.name] = measure(scenario, options, settings)
            sections.append(tables.report(results[scenario.name]))
            print(sections[-1], flush=True)
    for extra in (tables.figure_6(results, FIGURE_6), bars.table(results)):
        if extra:
            print(extra, flush=True)
        # What a few scenarios say about the bars must not stand in place of what all of them said.
        if extra and not names:
            sections.append(extra)
    if options.save:
        save(sections, about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
