# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs with LTTng-UST's tracepoints: built for LTTng-UST and for Spoor, recorded by both, and what babeltrace2's
library reads of either."""
import os
import subprocess
from collections import namedtuple
from pathlib import Path

import bt2
import tracing

DATA = tracing.DATA / "lttng"
EXAMPLES = Path("/usr/share/doc/liblttng-ust-dev/examples")
Event = namedtuple("Event", "name level fields")

# LTTng's daemons are alone in namespaces of their own, and end with them.
RECORD = """
set -e
mkdir -p /run/lttng
mount -t tmpfs none /run/lttng
mount -t tmpfs none /dev/shm
lttng-sessiond --no-kernel --quiet --background
lttng -q create t -o "$0"
lttng -q enable-channel -u --subbuf-size 1M c
lttng -q enable-event -u -c c -a
lttng -q start
"$@"
lttng -q stop
lttng -q destroy
"""


def flags(build, *what, package="spoor-lttng-ust"):
    env = os.environ | {"PKG_CONFIG_PATH": str(build / "meson-uninstalled")}
    run = subprocess.run(["pkg-config", *what, package], env=env, capture_output=True, text=True, check=True)
    return run.stdout.split()


def run(command, **how):
    done = subprocess.run([str(c) for c in command], **{"capture_output": True, "text": True, "timeout": 120} | how)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done


def record_lttng(out, *command, **env):
    """What the command says. Its events: events(out)."""
    home = out.with_name(out.name + "-home")
    home.mkdir()
    env = {k: v for k, v in os.environ.items() if not k.startswith("LTTNG")} | env
    env |= {"LTTNG_HOME": str(home), "LTTNG_UST_REGISTER_TIMEOUT": "20000"}
    return run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", RECORD, out,
                *command], env=env).stdout


def record_spoor(build, out, *command, options=(), **env):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SPOOR_UST")} | env
    return run([build / "spoor", "ust", "run", *options, "-o", out, "--", *command], env=env).stdout


def show(field):
    """Type, base and value; of enumerations the labels, too."""
    if isinstance(field, bt2._EnumerationFieldConst):
        labels = sorted((str(m.label), sorted((r.lower, r.upper) for r in m.ranges)) for m in field.cls.values())
        return "enumeration", field.cls.field_value_range, int(field), labels
    if isinstance(field, bt2._IntegerFieldConst):
        kind = "signed" if isinstance(field, bt2._SignedIntegerFieldConst) else "unsigned"
        return kind, field.cls.field_value_range, field.cls.preferred_display_base, int(field)
    if isinstance(field, bt2._RealFieldConst):
        return type(field.cls).__name__, float(field)
    if isinstance(field, bt2._StringFieldConst):
        return "string", str(field)
    return type(field.cls).__name__, [show(f) for f in field]


def is_own(name, group):
    """The number of elements of a sequence, which Spoor calls x_length and LTTng _x_length; Spoor's padding."""
    of = name.removeprefix("_").removesuffix("_length")
    return name == "padding" or (name.endswith("_length") and of in group and
                                 isinstance(group[of], (bt2._DynamicArrayFieldConst, bt2._StringFieldConst)))


def events(trace, most=2000):
    """Of the program's own events, in order; no more than the first of them, for this reader is slow."""
    found = []
    for message in bt2.TraceCollectionMessageIterator(str(trace)):
        if not isinstance(message, bt2._EventMessageConst):
            continue
        event = message.event
        if event.name.startswith(("spoor:", "lttng_ust_statedump:", "lttng_ust_lib:")):
            continue
        fields = event.payload_field or {}
        found.append(Event(event.name, event.cls.log_level,
                           [(name, show(f)) for name, f in fields.items() if not is_own(name, fields)]))
        if len(found) == most:
            break
    return found


def same(ours, theirs):
    """Event by event, field by field."""
    for i, (a, b) in enumerate(zip(ours, theirs)):
        assert a == b, i
    assert len(ours) == len(theirs) > 0
