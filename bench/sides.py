"""The programs that are measured side by side: how each is started, and the costs of each so far.

Every side serves the same listeners on ports of its own, with one thread pinned to CPU 0; load and origin run on CPU 1.
weir and HAProxy read the same configuration file.
"""
import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
WORK = tempfile.mkdtemp(prefix="bench.")
atexit.register(shutil.rmtree, WORK, ignore_errors=True)

CONFIGURATION = """
global
    nbthread {threads}
    maxconn 7500
    stats socket {work}/{name}.sock mode 600 level admin
    {tuning}
ring kept
    format rfc3164
    maxlen 1200
    size 1048576
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    http-reuse always
listen http
    bind 127.0.0.1:{http}
    server s1 127.0.0.1:{origin}
listen tcp
    mode tcp
    bind 127.0.0.1:{tcp}
    server s1 127.0.0.1:{origin}
listen tcp-splice
    mode tcp
    option splice-auto
    bind 127.0.0.1:{splice}
    server s1 127.0.0.1:{origin}
listen log-ring
    bind 127.0.0.1:{ring}
    option httplog
    log ring@kept local0
    server s1 127.0.0.1:{origin}
listen log-udp
    bind 127.0.0.1:{udp}
    option httplog
    log 127.0.0.1:{log} local0
    server s1 127.0.0.1:{origin}
listen answer
    bind 127.0.0.1:{answer}
    http-request return status 200 content-type text/plain lf-string "hello"
listen track
    bind 127.0.0.1:{track}
    stick-table type ip size 100k expire 10m store http_req_rate(10s),gpc0
    http-request track-sc0 src
    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000000 }}
    server s1 127.0.0.1:{origin}
listen tracks
    bind 127.0.0.1:{tracks}
    stick-table type integer size 2m expire 10m store http_req_rate(10s),gpc0
    http-request track-sc0 rand(1000000)
    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000000 }}
    server s1 127.0.0.1:{origin}
listen h2c
    bind 127.0.0.1:{h2c} proto h2
    server s1 127.0.0.1:{origin}
listen h2h2
    bind 127.0.0.1:{h2h2} proto h2
    server s1 127.0.0.1:{h2c} proto h2
"""

NGINX = """
worker_processes {threads}; daemon off; pid {work}/{name}.pid; error_log {work}/{name}.err;
worker_rlimit_nofile 20000;
{modules}
events {{ worker_connections 9000; }}
http {{
 access_log off; keepalive_requests 100000000; sendfile on; tcp_nodelay on;
 proxy_temp_path {work}/pt; client_body_temp_path {work}/cb; fastcgi_temp_path {work}/f; uwsgi_temp_path {work}/u; scgi_temp_path {work}/s;
 upstream o {{ server 127.0.0.1:{origin}; keepalive 1024; keepalive_requests 100000000; }}
 server {{ listen 127.0.0.1:{http}; location / {{ proxy_pass http://o; proxy_http_version 1.1; proxy_set_header Connection ""; }} }}
 server {{ listen 127.0.0.1:{h2c} http2; location / {{ proxy_pass http://o; proxy_http_version 1.1; proxy_set_header Connection ""; client_max_body_size 0; proxy_request_buffering off; }} }}
 server {{ listen 127.0.0.1:{answer}; location / {{ default_type text/plain; return 200 "hello"; }} }}
}}
"""

LISTENERS = ("http", "tcp", "splice", "answer", "ring", "udp", "track", "tracks", "h2c", "h2h2")


# The sink of log lines: a socket that is never read, so the kernel drops lines beyond its buffer.
LOG = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
LOG.bind(("127.0.0.1", 0))


def free_ports(count):
    """Ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def wait_port(port, seconds=10):
    """Waits until something listens."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


def compiled(name):
    """The path of one of this folder's C programs, built into the work folder."""
    path = os.path.join(WORK, name)
    if not os.path.exists(path):
        subprocess.run(["cc", "-O2", "-pthread", f"{HERE}/{name}.c", "-o", path], check=True)
    return path


def descendants(pid):
    """A process and all below it."""
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        try:
            for task in os.listdir(f"/proc/{current}/task"):
                todo += [int(child) for child in open(f"/proc/{current}/task/{task}/children").read().split()]
        except OSError:
            pass
    return found


class Origin:
    """The server behind every side."""

    def __init__(self):
        self.port = free_ports(1)[0]
        self.process = subprocess.Popen(["taskset", "-c", "1", compiled("origin"), str(self.port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(self.stop)
        wait_port(self.port)

    def stop(self):
        """Ends it."""
        self.process.kill()
        self.process.wait()


class Side:
    """One running program: `weir`, `haproxy` (both by configuration), `nginx`, `floor` or `floor-splice`."""

    def __init__(self, name, program, origin, threads=1, tuning="", beside=None):
        """With `beside`, another process for the same listeners."""
        self.name, self.program = name, program
        self.ports = beside.ports if beside else dict(zip(LISTENERS, free_ports(len(LISTENERS))))
        number = f"{threads}-beside" if beside else threads
        values = dict(name=f"{name}-{number}", work=WORK, threads=threads, origin=origin.port, log=LOG.getsockname()[1], modules="",
                      tuning=tuning, **self.ports)
        path = f"{WORK}/{name}-{number}.cfg"
        if name == "nginx":
            command = [program, "-c", path, "-p", WORK]
            text = NGINX
        elif name.startswith("floor"):
            command = [program, str(self.ports["http"]), str(origin.port)] + (["splice"] if name.endswith("splice") else [])
            self.ports = dict.fromkeys(LISTENERS, self.ports["http"])
            text = ""
        else:
            command = [program, "-db", "-f", path]
            text = CONFIGURATION
        with open(path, "w") as file:
            file.write(text.format(**values))
        self.log = open(f"{WORK}/{name}-{number}.log", "wb")
        cpus = "1" if beside else "0" if threads == 1 else f"0-{threads - 1}"
        self.process = subprocess.Popen(["taskset", "-c", cpus] + command, stdout=self.log, stderr=self.log)
        atexit.register(self.stop)
        if not wait_port(self.ports["http"]):
            sys.exit(f"{name} did not start: {self.last_words()}")

    def stop(self):
        """Ends it and its children."""
        for pid in descendants(self.process.pid):
            try:
                os.kill(pid, 9)
            except OSError:
                pass
        self.process.wait()

    def last_words(self):
        """The end of its output, for the report of a failure."""
        with open(self.log.name, errors="replace") as file:
            return f"exit status {self.process.poll()}\n" + file.read()[-2000:]

    def cpu_seconds(self):
        """User and system time so far."""
        user = system = 0
        for pid in descendants(self.process.pid):
            try:
                fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            user, system = user + int(fields[11]), system + int(fields[12])
        return user / TICKS_PER_SECOND, system / TICKS_PER_SECOND

    def resident_kb(self):
        """Resident memory."""
        return sum(int(line.split()[1]) for pid in descendants(self.process.pid)
                   for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS"))


def peers(names):
    """The installed peers among the names, by name."""
    found = {}
    for name in names:
        path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if path:
            found[name] = path
        else:
            print(f"{name} is not installed: its column is left out", file=sys.stderr)
    return found
