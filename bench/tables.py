# SPDX-License-Identifier: GPL-2.0-or-later
"""From runs to numbers, and from numbers to Markdown."""

import dataclasses
import statistics
import textwrap

MB = 1 << 20


def item(text):
    """One item of a list, within 120 columns."""
    return textwrap.fill("- " + text, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


PAPER = {  # Figure 6 of the Uscope paper: loss of performance against native, in per cent (its text: "under", "up to")
    "apache": {"1-1": "< 0.8", "2-3": "< 0.8", "2-5": "< 0.8", "3-5": "5.6"},
    "mariadb": {"1-1": "< 3.3", "2-3": "< 3.3", "2-5": "< 3.3", "3-5": "< 3.3"},
    "cpu": {"1-1": "<= 1.3", "2-3": "<= 1.3", "2-5": "<= 1.3", "3-5": "<= 1.3"},
}
PAPER_WORK = {"apache": "Apache + ab", "mariadb": "MySQL", "cpu": "NBench (ours: python3, xz, openssl)"}


@dataclasses.dataclass
class Result:
    """All runs of a scenario. `rounds[i]` maps a case's label to its run in round i: pairs lie beside each other."""
    scenario: object
    rounds: list = dataclasses.field(default_factory=list)
    failed: dict = dataclasses.field(default_factory=dict)
    disturbed: dict = dataclasses.field(default_factory=dict)  # label -> what else went on before one of its runs

    def case(self, label):
        return next((c for c in self.scenario.cases if c.label == label), None)

    def runs(self, label):
        return [r[label] for r in self.rounds if label in r]

    def median(self, label, attribute="value"):
        known = [getattr(r, attribute) for r in self.runs(label) if getattr(r, attribute) is not None]
        return statistics.median(known) if known else None

    def pairs(self, label, other):
        return [(r[label].value, r[other].value) for r in self.rounds if label in r and other in r]

    def ratio(self, label, other):
        pairs = self.pairs(label, other)
        known = [a / b for a, b in pairs if b]
        return statistics.median(known) if known else None

    def added(self, label):
        """What the tool adds to the native run of the same round, in the scenario's unit."""
        case = self.case(label)
        pairs = self.pairs(label, case.native) if case else []
        return statistics.median(a - b for a, b in pairs) if pairs else None

    def loss(self, label):
        """Per cent of the native performance that is gone, whichever way the unit goes."""
        ratio = self.ratio(label, self.case(label).native) if self.case(label) else None
        if ratio is None:
            return None
        return (1 - ratio) * 100 if self.scenario.better == "higher" else (1 - 1 / ratio) * 100

    def times_floor(self, label):
        """How often what the floor costs: for times what they add, else what they take away."""
        case = self.case(label)
        if not case.floor or case.tool.kind == "native":
            return None
        cost = self.added if self.scenario.better == "lower" else self.loss
        mine, floor = cost(label), cost(case.floor)
        return mine / floor if mine is not None and floor and floor > 0 else None

    def noise(self):
        """{variant: per cent by which two equal native runs of a round differ: median, most}."""
        found = {}
        for case in self.scenario.cases:
            first = case.again or (case.native if case.tool.name == "native again" else None)
            apart = [abs(a / b - 1) * 100 for a, b in self.pairs(case.label, first) if b]
            if apart:
                found[first] = (statistics.median(apart), max(apart))
        return found


def number(value, digits=1):
    if value is None:
        return ""
    return f"{value:,.{digits}f}"


def digits_of(value):
    return 0 if value is None or abs(value) >= 1000 else 1 if abs(value) >= 10 else 3


def per_ten_million(seconds, events):
    # Clock ticks are 10 ms: what a short run says about 10 million events is noise.
    return seconds / events * 1e7 if seconds is not None and events and events >= 100000 else None


def columns(result):
    """[(head, function of a label)]; a column without a single entry is left out."""
    value_digits = digits_of(result.median(result.scenario.cases[0].label))
    adds = result.scenario.unit.startswith(("ns", "ms"))

    def low_high(label):
        values = [r.value for r in result.runs(label)]
        return f"{number(min(values), value_digits)} .. {number(max(values), value_digits)}"

    def not_native(cell):
        return lambda label: "" if result.case(label).label == result.case(label).native else cell(label)

    def rate(attribute):
        return lambda label: number(per_ten_million(result.median(label, attribute), result.median(label, "events")), 2)

    def size(attribute):
        def cell(label):
            value = result.median(label, attribute)
            return "" if value is None else number(value / MB)
        return cell

    def events_an_op(label):
        runs = [r for r in result.runs(label) if r.events and r.ops]
        return number(statistics.median(r.events / r.ops for r in runs), 3) if runs else ""

    def bytes_an_event(label):
        trace, events = result.median(label, "trace"), result.median(label, "events")
        return number(trace / events) if trace and events else ""

    def ratio_to(other):
        return lambda label: number(result.ratio(label, getattr(result.case(label), other)), 2)

    compared = [(head, ratio_to(other)) for head, other in result.scenario.ratios] or [
        ("added", not_native(lambda label: number(result.added(label)) if adds else "")),
        ("x native", not_native(lambda label: number(result.ratio(label, result.case(label).native), 3))),
        ("loss %", not_native(lambda label: "" if adds else number(result.loss(label), 2))),
        ("x floor", lambda label: number(result.times_floor(label), 2)),
    ]
    return [
        (f"{result.scenario.unit}", lambda label: number(result.median(label), value_digits)),
        ("min .. max", low_high),
        *compared,
        ("events", lambda label: number(result.median(label, "events"), 0)),
        ("events/op", events_an_op),
        ("lost", lambda label: number(result.median(label, "lost"), 0)),
        ("user s/10M", rate("user")),
        ("sys s/10M", rate("system")),
        ("RSS MB", size("rss")),
        ("BPF MB", size("bpf")),
        ("B/event", bytes_an_event),
    ]


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def table(result):
    labels = [c.label for c in result.scenario.cases if result.runs(c.label)]
    if not labels:
        return "No contestant gave a result."
    cells = [(head, [cell(label) for label in labels]) for head, cell in columns(result)]
    cells = [("", labels)] + [(head, column) for head, column in cells if any(column)]
    return markdown([head for head, _ in cells], list(zip(*[column for _, column in cells])))


def bpf_programs(result):
    """With --bpf-stats: what a run of each BPF program takes."""
    rows = []
    for case in result.scenario.cases:
        for program, (count, ns) in sorted((result.runs(case.label) or [None])[-1].bpf_ns.items()) \
                if result.runs(case.label) else []:
            rows.append((case.label, program, number(count, 0), number(ns / count)))
    return markdown(["case", "program", "runs", "ns a run"], rows) if rows else ""


def last_words(result):
    """How Spoor itself ended its last recording of each case: losses, walks, cost."""
    return [(case.label, result.runs(case.label)[-1].said) for case in result.scenario.cases
            if result.runs(case.label) and result.runs(case.label)[-1].said]


def report(result):
    """The section of one scenario."""
    parts = [f"## {result.scenario.name}: {result.scenario.title}"]
    if result.scenario.about:
        parts.append(textwrap.fill(result.scenario.about, 118, break_long_words=False, break_on_hyphens=False))
    parts.append(table(result))
    notes = [f"A/A noise ({native}): median {a:.2f} %, at most {b:.2f} %" for native, (a, b) in result.noise().items()]
    notes.append(f"{len(result.rounds)} interleaved rounds; medians; ratios are medians of the rounds' pairs")
    notes += [f"no result from {label}: {why}" for label, why in result.failed.items()]
    notes += [f"{label} said: {said}" for label, said in last_words(result)]
    if result.disturbed:
        notes.append("**disturbed**: " + "; ".join(f"{label}: {what}" for label, what in result.disturbed.items()))
    parts.append("\n".join(map(item, notes)))
    parts.append(bpf_programs(result))
    return "\n\n".join(p for p in parts if p) + "\n"


def paper_row(results, name, label):
    result = results.get(name)
    if not result:
        return None
    if name != "cpu":
        return result.loss(label)
    losses = [result.loss(c.label) for c in result.scenario.cases if c.label.startswith(label + ", ")]
    losses = [x for x in losses if x is not None]
    return max(losses) if losses else None


def figure_6(results, modes):
    """The paper's Figure 6 as losses, ours beside it; bpftrace stands where SystemTap stood, which took no stacks."""
    rows = []
    for name, published in PAPER.items():
        if name not in results:
            continue
        beside = [(f"Uscope {mode}", published[mode], tool.name) for mode, tool in modes.items()]
        beside += [("Stap", "(figure only)", "bpftrace count"), ("", "", "bpftrace ustack(5)")]
        for row, its_loss, label in beside:
            loss = paper_row(results, name, label)
            rows.append((PAPER_WORK[name], row, its_loss, label, "" if loss is None else number(loss, 2)))
    if not rows:
        return ""
    head = ["the paper's work", "the paper's row", "its loss %", "here", "loss % here"]
    return ("## The rows of Figure 6\n\nThe paper had other hardware, kernels and loads: its column says "
            "what was published, not what it "
            "would be here.\nOf pure CPU the worst of the three programs counts.\n\n" + markdown(head, rows) + "\n")
