# SPDX-License-Identifier: GPL-2.0-or-later
"""Real servers with a private configuration on loopback, and the load for each: started, measured, ended."""

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time

from measure import Failed, children_of, first_line, text_of
from tools import Target


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def call(argv, timeout, env=None):
    """stdout of a command that must succeed."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, **(env or {})}, check=False)
    except FileNotFoundError as e:
        raise Failed(f"{argv[0]} is not installed") from e
    except subprocess.TimeoutExpired as e:
        raise Failed(f"{argv[0]} did not end in {timeout:.0f} s") from e
    if done.returncode:
        raise Failed(f"{argv[0]}: exit code {done.returncode}: {first_line(done.stderr or done.stdout)}")
    return done.stdout


def number(pattern, text):
    found = re.search(pattern, text)
    if not found:
        raise Failed(f"the load printed no result: {first_line(text)}")
    return float(found[1])


def wait_until(true, what, timeout=30):
    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            raise Failed(f"{what} did not happen in {timeout} s")
        time.sleep(0.05)


def gone(pid):
    """Ended, also when a zombie is left because we are its parent."""
    return not os.path.exists(f"/proc/{pid}") or re.search(r"^State:\s+Z", text_of(f"/proc/{pid}/status"), re.M)


def listening(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Server:
    unit, better = "requests/s", "higher"
    needs = []
    comm = None

    def __init__(self, ctx):
        self.ctx = ctx
        self.dir = ctx.scratch.file(type(self).__name__)
        self.pid = None
        absent = [p for p in self.needs if not shutil.which(p, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
        if absent:
            raise Failed(f"{', '.join(absent)} not installed")
        os.makedirs(self.dir, exist_ok=True)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def target(self):
        return Target(self.pid, [self.pid, *children_of(self.pid)], self.comm)

    def stop(self):
        """By pid, its children with it: TERM, and KILL for what does not listen."""
        if not self.pid or gone(self.pid):
            return
        pids = [self.pid, *children_of(self.pid)]
        os.kill(self.pid, signal.SIGTERM)
        try:
            wait_until(lambda: all(map(gone, pids)), "the server's end", 15)
        except Failed:
            for pid in pids:
                if not gone(pid):
                    os.kill(pid, signal.SIGKILL)
        self.reaped()

    def reaped(self):
        pass


class Apache(Server):
    """Debian's prefork defaults and logging, through apachectl, as the demo does; a page of Debian's default size."""

    needs = ["apachectl", "apache2", "ab"]
    comm = "apache2"
    page = 10701

    def start(self):
        self.port = free_port()
        os.chmod(self.dir, 0o755)
        with open(f"{self.dir}/index.html", "w", encoding="ascii") as f:
            f.write("spoor\n" * (self.page // 6) + "." * (self.page % 6))
        with open(f"{self.dir}/envvars", "w", encoding="ascii") as f:
            f.write(f"export APACHE_ARGUMENTS='-d {self.dir} -f {self.dir}/apache2.conf'\n")
        with open(f"{self.dir}/apache2.conf", "w", encoding="ascii") as f:
            f.write(self.configuration())
        call(["apachectl", "start"], 30, {"APACHE_CONFDIR": self.dir, "APACHE_ENVVARS": f"{self.dir}/envvars"})
        wait_until(lambda: os.path.exists(f"{self.dir}/pid") and listening(self.port), "Apache's start")
        self.pid = int(text_of(f"{self.dir}/pid"))
        self.load(1)

    def configuration(self):
        modules = ["mpm_prefork", "authz_core", "dir", "mime"]
        load = "".join(f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so\n" for m in modules)
        return load + f"""
ServerName localhost
Listen 127.0.0.1:{self.port}
PidFile {self.dir}/pid
ErrorLog {self.dir}/error.log
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
CustomLog {self.dir}/access.log combined
TypesConfig /etc/mime.types
User {"www-data" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name}
Group www-data
DocumentRoot {self.dir}
<Directory {self.dir}>
Require all granted
</Directory>
StartServers 5
MinSpareServers 5
MaxSpareServers 10
MaxRequestWorkers 150
MaxConnectionsPerChild 0
"""

    def load(self, seconds, slow=1):
        out = call(["ab", "-q", "-c", "32", "-t", f"{seconds:.0f}", "-n", f"{60000 * seconds:.0f}",
                    f"http://127.0.0.1:{self.port}/index.html"], seconds * 3 + 60)
        failed = number(r"Failed requests:\s+(\d+)", out)
        if failed:
            raise Failed(f"{failed:.0f} requests failed")
        return number(r"Requests per second:\s+([\d.]+)", out), int(number(r"Complete requests:\s+(\d+)", out))


class Redis(Server):
    """GET without persistence, 50 clients: read, write and epoll_wait from one thread."""

    needs = ["redis-server", "redis-benchmark"]

    def start(self):
        self.port = free_port()
        with open(f"{self.dir}/log", "wb") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no",
                 "--dir", self.dir], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = self.process.pid
        wait_until(lambda: listening(self.port), "redis-server's start")
        self.load(0.5)

    def load(self, seconds, slow=1):
        # redis-benchmark knows no time, only a number: what it does natively in about so many seconds.
        n = max(1000, int(100000 * seconds / slow))
        out = call(["redis-benchmark", "-h", "127.0.0.1", "-p", str(self.port), "-t", "get", "-n", str(n), "-c", "50",
                    "--csv"], seconds * 60 + 120)
        return number(r'"GET","([\d.]+)"', out), n

    def reaped(self):
        self.process.wait()


class MariaDB(Server):
    """sysbench's read-only transactions over a socket, on tables that are prepared for each run and then only read."""

    needs = ["mariadbd", "mariadb-install-db", "sysbench", "mariadb"]
    unit = "transactions/s"

    def start(self):
        fresh = not os.path.isdir(f"{self.dir}/data/mysql")
        if fresh:
            call(["mariadb-install-db", "--no-defaults", f"--datadir={self.dir}/data", "--skip-test-db",
                  "--auth-root-authentication-method=normal", f"--user={self.user()}"], 120)
        with open(f"{self.dir}/log", "wb") as log:
            self.process = subprocess.Popen(
                ["/usr/sbin/mariadbd", "--no-defaults", f"--datadir={self.dir}/data", f"--socket={self.dir}/socket",
                 "--skip-networking", f"--pid-file={self.dir}/pid", f"--user={self.user()}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = self.process.pid
        wait_until(self.answers, "mariadbd's start", 60)
        if fresh:
            call(["mariadb", "--no-defaults", f"--socket={self.dir}/socket", "-u", "root", "-e",
                  "create database sbtest"], 30)
            self.sysbench("prepare", [], 300)
        self.load(1)

    @staticmethod
    def user():
        return pwd.getpwuid(os.getuid()).pw_name

    def answers(self):
        if self.process.poll() is not None:
            raise Failed(f"mariadbd ended: {text_of(self.dir + '/log').strip().splitlines()[-1:]}")
        try:
            call(["mariadb", "--no-defaults", f"--socket={self.dir}/socket", "-u", "root", "-e", "select 1"], 10)
        except Failed:
            return False
        return True

    def sysbench(self, what, options, timeout):
        return call(["sysbench", "oltp_read_only", "--db-driver=mysql", f"--mysql-socket={self.dir}/socket",
                     "--mysql-user=root", "--tables=4", "--table-size=10000", "--threads=4", "--rand-seed=1009",
                     *options, what], timeout)

    def load(self, seconds, slow=1):
        out = self.sysbench("run", [f"--time={max(1, round(seconds))}", "--db-ps-mode=disable"], seconds * 3 + 60)
        return number(r"transactions:\s+\d+\s+\(([\d.]+) per sec", out), int(number(r"transactions:\s+(\d+)", out))

    def reaped(self):
        self.process.wait()


SERVERS = {"apache": Apache, "redis": Redis, "mariadb": MariaDB}


# A real package to build, and a bundled one where there is no archive.

def write_synthetic(directory, files=60):
    """`files` C files with a few hundred lines of headers each, and a Makefile: gcc, as, collect2 and ld for each."""
    os.makedirs(directory, exist_ok=True)
    headers = ["errno", "fcntl", "pthread", "regex", "signal", "stdio", "stdlib", "string", "sys/socket", "time",
               "unistd", "wchar"]
    for i in range(files):
        with open(f"{directory}/unit{i}.c", "w", encoding="ascii") as f:
            f.writelines(f"#include <{h}.h>\n" for h in headers)
            for j in range(30):
                f.write(f"int f{i}_{j}(int n) {{ int s = {j}; while (n-- > 0) s = s * 31 + printf(\"%d\", n ^ s);"
                        f" return s; }}\n")
    names = " ".join(f"unit{i}.so" for i in range(files))
    with open(f"{directory}/Makefile", "w", encoding="ascii") as f:
        f.write(f"all: {names}\n%.so: %.c\n\tgcc -O2 -fPIC -shared -o $@ $<\nclean:\n\trm -f {names}\n")


def storm_source(cache):
    """(directory, what it is): ready for `make -j2` after `make clean`."""
    os.makedirs(cache, exist_ok=True)
    directory = f"{cache}/hello"
    fetch = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scripts/debian-source")
    try:
        if not os.path.exists(f"{directory}/Makefile"):
            call([fetch, cache, "hello"], 300)
            call(["sh", "-c", 'cd "$1" && ./configure -q', "sh", directory], 300, {"FORCE_UNSAFE_CONFIGURE": "1"})
        return directory, "GNU hello"
    except Failed:
        write_synthetic(f"{cache}/synthetic")
        return f"{cache}/synthetic", "60 bundled C files (no source archive to be had)"
