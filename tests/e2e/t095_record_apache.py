# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor record -n apache2, then apachectl start: a server whose processes come and go all the time, with every one of
them from its first call on, and none of the shell that starts it. Its access log and its master say who there was."""
import os
import signal
import socket
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from processes import wait_for

REQUESTS = 3001
CLIENTS = 8
EACH = 53  # connections of a worker's life
MODULES = "/usr/lib/apache2/modules"
CONFIGURATION = f"""
ServerRoot {{home}}
ServerName 127.0.0.1
Listen 127.0.0.1:{{port}}
PidFile {{home}}/apache2.pid
DefaultRuntimeDir {{home}}
Mutex file:{{home}} default
ErrorLog {{home}}/error.log
User www-data
Group www-data
LoadModule mpm_prefork_module {MODULES}/mod_mpm_prefork.so
LoadModule authz_core_module {MODULES}/mod_authz_core.so
LoadModule mime_module {MODULES}/mod_mime.so
LoadModule dir_module {MODULES}/mod_dir.so
TypesConfig /etc/mime.types
StartServers 8
MinSpareServers 8
MaxSpareServers 12
MaxRequestWorkers 24
MaxConnectionsPerChild {EACH}
KeepAlive off
DocumentRoot {{home}}/www
DirectoryIndex index.html
LogFormat "%{{{{pid}}}}P %>s" who
CustomLog {{home}}/access.log who
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Apache:
    """By apachectl, with a configuration of its own."""

    def __init__(self, home):
        self.home, self.port = home, free_port()
        (home / "www").mkdir(parents=True)
        (home / "www/index.html").write_text("<html><body><h1>It works</h1></body></html>\n")
        (home / "apache2.conf").write_text(CONFIGURATION.format(home=home, port=self.port))
        (home / "envvars").write_text(f"export APACHE_PID_FILE={home}/apache2.pid APACHE_RUN_DIR={home} LANG=C "
                                      f"APACHE_LOCK_DIR={home}\n")

    def apachectl(self, verb):
        how = dict(os.environ, APACHE_CONFDIR=str(self.home), APACHE_ENVVARS=str(self.home / "envvars"),
                   APACHE_STARTED_BY_SYSTEMD="1")  # else it hands over to systemctl where that is
        with open(self.home / "said", "w") as said:
            shell = subprocess.Popen(["/usr/sbin/apachectl", verb], env=how, stdout=said, stderr=said)
            assert shell.wait(20) == 0, self.log("said")
        return shell.pid

    def log(self, name):
        return (self.home / name).read_text().splitlines()

    def master(self):
        path = self.home / "apache2.pid"
        return int(path.read_text()) if path.exists() and path.read_text() else None

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as s:
                s.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return b"It works" in b"".join(iter(lambda: s.recv(4096), b""))
        except OSError:
            return False


@pytest.fixture
def apache(tmp_path):
    for directory in [tmp_path, *list(tmp_path.parents)[:3]]:  # the workers change their user
        directory.chmod(directory.stat().st_mode | 0o055)
    server = Apache(tmp_path / "apache")
    yield server
    pid = server.master()
    if pid:
        os.killpg(os.getpgid(pid), signal.SIGKILL)


def first_calls(trace):
    """{pid: its first call}: processes of one thread, whose calls end in the order in which they begin. Who is told to
    end while it is born comes back from the signal's handler first."""
    first = {}
    for e in sorted(trace.calls, key=lambda e: e["ts"]):
        if e["event"] != "rt_sigreturn":
            first.setdefault(e["pid"], e)
    return first


def running():
    """Processes of servers that run already: they are recorded, too."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text() == "apache2\n":
                found.add(int(entry.name))
        except OSError:
            pass
    return found


def leave_out(trace, pids):
    """Those processes, and what they made."""
    for e in sorted(trace.of("clone"), key=lambda e: e["ts"]):
        if e["pid"] in pids:
            pids.add(e["ret"])
    trace.calls = [e for e in trace.calls if e["pid"] not in pids]


def test_workers_come_and_go(record, read, apache):
    recording = record("-n", "apache2", "-m", "all", "-S", "64")
    strangers = running()
    apache.apachectl("start")
    wait_for(apache.answers, every=0.05)
    master = apache.master()
    url = f"http://127.0.0.1:{apache.port}/index.html"
    subprocess.run(["ab", "-q", "-n", str(REQUESTS), "-c", str(CLIENTS), url], check=True, timeout=60,
                   capture_output=True)
    apache.apachectl("stop")
    wait_for(lambda: not os.path.exists(f"/proc/{master}"))
    assert recording.stop() == 0
    trace = read(recording.trace).whole()
    leave_out(trace, strangers)

    # Every worker that the master made is in, from its first call to its last; so are the masters of both starts.
    calls = first_calls(trace)
    first = {pid: e["event"] for pid, e in calls.items()}
    born = {e["ret"] for e in trace.of("clone", pid=master) if e["ret"] > 0}
    assert len(born) > REQUESTS / EACH and {first[pid] for pid in born} == {"set_robust_list"}
    others = trace.pids() - born
    assert len(others) == 3 and sorted(first[pid] for pid in others) == ["execve", "execve", "set_robust_list"]
    assert first[master] == "set_robust_list"
    assert Counter(e["pid"] for e in trace.of("exit_group")) == Counter(trace.pids())
    assert {e["comm"] for e in trace.calls} == {"apache2"}  # the shell stays out

    # Each request that the log tells of was read, and written down, by who answered it; but one that a worker had just
    # read when it was told to end. ab opens connections too many, on which it may ask before it ends, or not.
    served = Counter(int(line.split()[0]) for line in apache.log("access.log"))
    accepted = Counter(e["pid"] for e in trace.of("accept4") if e["ret"] >= 0)
    asked = [e for e in trace.of("read") if e["ret"] > 0 and "socket" in e["args"]["fd"]]
    noted = [e for e in trace.of("write") if e["args"]["fd"].get("path") == str(apache.home / "access.log")]
    assert Counter(e["pid"] for e in noted) == served and served.total() >= REQUESTS + 1
    last = {e["pid"]: e["event"] for e in sorted(asked + noted, key=lambda e: e["ts"])}
    cut = Counter(pid for pid, event in last.items() if event == "read")
    assert Counter(e["pid"] for e in asked) == served + cut
    assert 0 <= accepted.total() - served.total() <= CLIENTS
    assert list(accepted.values()).count(EACH) > REQUESTS / EACH / 2

    # Who comes when the programs are known is walked in the kernel from its first call on.
    begin = min(float(e["ts"]) for e in calls.values())
    late = {pid for pid in born if float(calls[pid]["ts"]) > begin + 1}
    ways = Counter(e["way"] for e in trace.calls if e["pid"] in late and e["walk"])
    print(f"{len(born)} workers, {len(late)} late ones: {dict(ways)}")
    assert len(late) >= 5 and ways["kernel"] >= 0.999 * ways.total()
    walks = trace.walks
    assert walks.total >= 0.999 * len(trace.calls) and walks.surprised == 0
    assert walks.user <= 0.02 * walks.done and walks.hit_rate() >= 0.97
