#!/usr/bin/env python3
"""CPU of requests to a FastCGI responder, beside HAProxy and nginx: `bench/fastcgi.py [rounds [seconds]]`.

The responder in C (fcgi_responder.c) answers at once, over connections that stay open. The figures are CPU time of the proxy for one
request, with one thread each. Rounds are interleaved, and the table shows medians. `WEIR` and `HAPROXY` and `NGINX` name other programs.
"""
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEIR = os.environ.get("WEIR", os.path.join(ROOT, "target/release/weir"))
HAPROXY = os.environ.get("HAPROXY", "haproxy")
NGINX_PROGRAM = os.environ.get("NGINX", "nginx")

HAPROXY_FILE = """
global
    nbthread 1
    maxconn 1000
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    http-reuse always
listen all
    bind 127.0.0.1:{port}
    use-fcgi-app app
    server s 127.0.0.1:{origin} proto fcgi
fcgi-app app
    docroot /srv/www
    index index.php
"""
# The parameters of Debian's fastcgi_params and of the manual of HAProxy.
NGINX_FILE = """
worker_processes 1;
daemon off;
pid {work}/nginx.pid;
error_log /dev/null;
events {{ worker_connections 512; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {work}; proxy_temp_path {work}; fastcgi_temp_path {work}; uwsgi_temp_path {work}; scgi_temp_path {work};
    upstream origin {{ server 127.0.0.1:{origin}; keepalive 64; keepalive_requests 100000000; }}
    server {{
        listen 127.0.0.1:{port};
        root /srv/www;
        index index.php;
        location / {{
            fastcgi_pass origin;
            fastcgi_keep_conn on;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param SCRIPT_NAME $fastcgi_script_name;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param DOCUMENT_URI $document_uri;
            fastcgi_param DOCUMENT_ROOT $document_root;
            fastcgi_param SERVER_PROTOCOL $server_protocol;
            fastcgi_param REQUEST_SCHEME $scheme;
            fastcgi_param HTTPS $https if_not_empty;
            fastcgi_param GATEWAY_INTERFACE CGI/1.1;
            fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
            fastcgi_param REMOTE_ADDR $remote_addr;
            fastcgi_param REMOTE_PORT $remote_port;
            fastcgi_param SERVER_ADDR $server_addr;
            fastcgi_param SERVER_PORT $server_port;
            fastcgi_param SERVER_NAME $server_name;
        }}
    }}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_port(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nothing listens on {port}")


def descendants(pid):
    """The process and all that it started."""
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()
    return [pid] + [one for child in children for one in descendants(int(child))]


def cpu(pids):
    """CPU time of the processes in microseconds."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total * 1e6 / os.sysconf("SC_CLK_TCK")


def start(command, port):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await_port(port)
    return process


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    with tempfile.TemporaryDirectory() as work:
        responder = f"{work}/responder"
        subprocess.run(["cc", "-O2", "-pthread", "-o", responder, os.path.join(ROOT, "bench/fcgi_responder.c")], check=True)
        origin, started, sides = free_port(), [], []
        started.append(start([responder, str(origin)], origin))
        for name, program, text in (("weir", WEIR, HAPROXY_FILE), ("HAProxy", HAPROXY, HAPROXY_FILE), ("nginx", NGINX_PROGRAM, NGINX_FILE)):
            port = free_port()
            path = f"{work}/{name}.cfg"
            with open(path, "w") as file:
                file.write(text.format(port=port, origin=origin, work=work))
            command = [program, "-c", path] if name == "nginx" else [program, "-f", path]
            process = start(command, port)
            started.append(process)
            sides.append((name, port, descendants(process.pid)))
        results = {name: [] for name, _, _ in sides}
        try:
            for _ in range(rounds):
                for name, port, pids in sides:
                    before = cpu(pids)
                    load = ["wrk", "-t1", "-c16", f"-d{seconds}s", f"http://127.0.0.1:{port}/index.php?a=b"]
                    text = subprocess.run(load, capture_output=True, text=True).stdout
                    if "Non-2xx" in text or "Socket errors" in text:
                        raise SystemExit(f"{name}: {text}")
                    requests = int(re.search(r"(\d+) requests in", text)[1])
                    results[name].append((cpu(pids) - before) / requests)
        finally:
            for process in started:
                process.send_signal(signal.SIGTERM)
    own = statistics.median(results["weir"])
    for name, costs in results.items():
        cost = statistics.median(costs)
        print(f"{name:8} {cost:6.2f} us of CPU for a request; weir / {name} = {own / cost:.2f}")


if __name__ == "__main__":
    main()
