# SPDX-License-Identifier: GPL-2.0-or-later
"""babeltrace2 and Spoor's reader agree about hostile but valid user events, event by event and field by field."""
import os
import re
import shutil
import struct

import bt2
import pytest

from t001_trace_babeltrace import call_fields, is_length, own_fields, strings, text, times, unstale

SCENARIOS = ["types", "names", "long", "many", "lanes", "both", "rotate", "strings"]


@pytest.fixture
def generate(generated_by):
    return generated_by("user_gen")


# ---- babeltrace2's reading in trace_dump's form ----

def number(field):
    if isinstance(field, bt2._RealFieldConst):
        return "#%x" % struct.unpack("<Q", struct.pack("<d", float(field)))
    return str(int(field))


def value(field):
    if isinstance(field, bt2._StringFieldConst):
        return text(field)
    if isinstance(field, bt2._ArrayFieldConst):
        return ",".join(number(f) for f in field)
    if isinstance(field, bt2._EnumerationFieldConst):
        return number(field) + label(field)
    return number(field)


def label(field):
    """bt2's own field.labels ends in an assertion where there is none."""
    names = [m.label for m in field.cls.values() if any(r.lower <= int(field) <= r.upper for r in m.ranges)]
    return ":" + text(names[0].replace("?", '"')) if names else ""


def is_length_of_sequence(key, group):
    return is_length(key, group) and not isinstance(group[key[:-len("_length")]], bt2._IntegerFieldConst)


def user_fields(event):
    payload = event.payload_field
    context = event.specific_context_field or payload.get("context") or {}
    for prefix, group in (("context.", context), ("", payload)):
        for key, field in group.items():
            if key == "padding" or is_length_of_sequence(key, group) or isinstance(field, bt2._StructureFieldConst):
                continue
            yield f"{prefix}{key}={value(field)}"


def fields_of(event):
    if event.cls.id >= 2048:
        return user_fields(event)
    if event.name.startswith("spoor:"):
        return own_fields(event.name, event.payload_field)
    return (f for f in call_fields(event.payload_field) if not f.startswith("padding."))


def line(msg):
    event = msg.event
    context, packet = event.common_context_field, event.packet.context_field
    name = text(event.name) if event.cls.id >= 2048 else event.name
    return (f"{msg.default_clock_snapshot.ns_from_origin} cpu={int(packet['cpu_id']) if 'cpu_id' in packet else -1} "
            f"flags={int(context['flags'])} size4={int(context['size4'])} tid={int(context['tid'])} {name} "
            f"{' '.join(fields_of(event))}").rstrip()


def oracle(trace):
    return [line(msg) for msg in bt2.TraceCollectionMessageIterator(str(trace))
            if type(msg) is bt2._EventMessageConst]


def ours(tool, trace):
    run = tool("trace_dump", trace)
    return [l.rstrip() for l in run.stdout.splitlines()], run.stderr.splitlines()


def agree(tool, trace, ignore=lambda l: l):
    expected, (lines, notes) = oracle(trace), ours(tool, trace)
    assert times(lines) == sorted(times(lines))
    assert times(expected) == times(lines)
    seen = strings(expected)
    for a, b in zip(sorted(map(ignore, expected)), sorted(map(ignore, lines))):
        assert a == b or unstale(a, b, seen) == b
    return lines, notes


def values_alone(line):
    """CTF cannot take these names: the values alone, and the event's name without what is not plain."""
    if "spoor:class" in line:
        return line
    head, name, rest = re.match(r'(.* tid=\d+) ("(?:[^"])*"|\S+)(.*)', line).groups()
    return head + re.sub(r'\\x..|\?', "?", name) + str(re.findall(r"=(-?\d[\d,-]*|)(?= |$)", rest))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_agree(scenario, generate, tool):
    lines, notes = agree(tool, generate(scenario, *(["20000"] if scenario == "strings" else [])),
                         values_alone if scenario == "names" else lambda l: l)
    assert len(lines) > 10
    assert not [n for n in notes if n.startswith("damage")]
    if scenario == "types":
        assert [l for l in lines if ':"BLUE' in l] and [l for l in lines if ':"lowest"' in l]
    if scenario == "both":
        kinds = [l.split(" ")[5] for l in lines]
        assert kinds.count("getpid") == 500 and kinds.count('"both:string"') == 2000
        assert {a + b for a, b in zip(kinds, kinds[1:])} >= {'getpid"both:string"', '"both:string"getpid'}


# ---- segments ----

def segments(trace, part="*"):
    return sorted(trace.glob(f"*/{part}/seg-*"))


def test_each_segment_reads_alone(generate, tool):
    trace = generate("rotate")
    assert len(segments(trace, "ust")) == len(segments(trace, "kernel")) == 21
    whole, _ = ours(tool, trace)
    parts = []
    for segment in segments(trace):
        lines, notes = agree(tool, segment)
        assert not [n for n in notes if n.startswith("damage")]
        parts += lines
    assert sorted(parts) == sorted(whole)


def test_both_parts_drop_the_same_segments(generate, tool):
    trace = generate("rotate", 500000)
    names = [[s.name for s in segments(trace, part)] for part in ("kernel", "ust")]
    assert names[0] == names[1] == [f"seg-{i:06}" for i in range(22 - len(names[0]), 22)] and 1 < len(names[0]) < 21
    _, notes = agree(tool, trace)
    assert not [n for n in notes if n.startswith("damage")]
    files = {f.stat().st_ino: f.stat().st_size for f in trace.rglob("*") if f.is_file()}
    assert sum(files.values()) < 500000


def test_a_missing_segment_of_one_part_is_said(generate, tool):
    trace = generate("rotate")
    shutil.rmtree(segments(trace, "ust")[7])
    _, notes = agree(tool, trace)
    assert [n for n in notes if n.startswith("damage")] == \
        [f"damage: {trace}/manifest: offset 0: ust: segment 8 is not there"]


def test_snapshot_of_both_parts(generate, tool, tmp_path):
    whole = generate("snapshot", tmp_path / "taken.spoor")
    taken = tmp_path / "taken.spoor"
    assert [len(segments(taken, p)) for p in ("kernel", "ust")] == [10, 10]
    lines, notes = agree(tool, taken)
    assert not [n for n in notes if n.startswith("damage")]
    expected = []
    for s in segments(whole)[:10] + segments(whole, "ust")[:10]:
        expected += ours(tool, s)[0]
    assert sorted(lines) == sorted(expected)


def test_metadata_of_a_closed_segment_stays(generate):
    """Classes that come later are not in it, though segments share it as long as it is the same text."""
    trace = generate("rotate")
    text_of = [(s / "metadata").read_text() for s in segments(trace, "ust")]
    for i, t in enumerate(text_of):
        assert t.count('name = "rotate:') == min(i + 1, 20) and text_of[-1].startswith(t)


def test_without_manifest(generate, tool):
    trace = generate("both")
    before, _ = ours(tool, trace)
    (trace / "manifest").unlink()
    after, notes = ours(tool, trace)
    assert after == before and any("manifest" in n for n in notes)


# ---- what is damaged ----

def user_stream(trace):
    return max(trace.glob("*/ust/seg-*/lane*"), key=lambda f: f.stat().st_size)


def test_torn_packet(generate, tool):
    trace = generate("lanes")
    stream = user_stream(trace)
    os.truncate(stream, stream.stat().st_size - 12)
    with pytest.raises(Exception):
        oracle(trace)
    before, notes = ours(tool, trace)
    assert [n for n in notes if "the file ends in this packet" in n]
    tool("trace_dump", "-r", trace)
    after, notes = agree(tool, trace)
    assert [n for n in notes if n.startswith("damage")] == \
        [n for n in notes if re.search(r"segment 1: \d+ bytes of its streams are not there$", n)] != []
    assert set(after) <= set(before)


def test_undefined_class_ends_its_packet(generate, tool):
    trace = generate("both")
    whole, _ = ours(tool, trace)
    stream = user_stream(trace)
    data = bytearray(stream.read_bytes())
    data[88 + 8:88 + 10] = struct.pack("<H", 3000)
    stream.write_bytes(data)
    lines, notes = ours(tool, trace)
    assert [n for n in notes if n.endswith(f"{stream}: offset 88: an event's class is not defined")]
    assert 0 < len(lines) < len(whole) and set(lines) < set(whole)


def test_damaged_class(generate, tool):
    """A definition that makes no sense is told of; its events are lost, others are not."""
    trace = generate("types")
    defs = next(trace.glob("*/ust/seg-*/defs"))
    data = defs.read_bytes()
    assert data.count(b"ints:widths") == 12
    at = data.index(b"ints:widths\0a.c\0")
    defs.write_bytes(data[:at] + b"ints:widths\0a.c\xff" + data[at + 16:])
    _, notes = ours(tool, trace)
    assert len([n for n in notes if "a definition of a class of events makes no sense" in n]) == 1
    assert [n for n in notes if "an event's class is not defined" in n]
