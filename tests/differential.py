#!/usr/bin/env python3
"""The same configuration and the same bytes to the packaged haproxy and to weir: what clients, servers and logs see is compared.

  differential.py --bin target/release/weir [--only REGEX] [--reference haproxy] [--show]

An exchange is raw bytes, sent in the pieces that it is written in, so nothing here understands HTTP better than the
programs under test. The origin answers what the path asks for and can echo the request that reached it. Times, ports and
process numbers are taken out before the comparison. A difference that is meant carries its reason (`DIFFERENT`).
"""
import argparse
import concurrent.futures
import difflib
import os
import re
import shutil
import socket
import sys
import threading
import time

from program import Folder, Program, free_port

CONFIGURATION = """
global
    log 127.0.0.1:{log} local0
    nbthread 1
    tune.bufsize 16384
defaults
    mode http
    log global
    option httplog
    timeout connect 300ms
    timeout client 400ms
    timeout server 300ms
    timeout http-request 300ms
    retries 1
frontend plain
    bind 127.0.0.1:{plain}
    default_backend origin
frontend closing
    bind 127.0.0.1:{closing}
    option httpclose
    default_backend origin
frontend serverclose
    bind 127.0.0.1:{serverclose}
    option http-server-close
    option forwardfor
    default_backend origin
frontend rules
    bind 127.0.0.1:{rules}
    capture request header Host len 20
    capture response header Server len 20
    acl is_post method POST
    http-request deny if {{ path /deny }}
    http-request deny deny_status 429 hdr x-why limits if {{ path /many }}
    http-request redirect location /new code 301 if {{ path /moved }}
    http-request redirect prefix http://other.example if {{ path_beg /prefix }}
    http-request redirect scheme https code 308 if {{ path /scheme }}
    http-request return status 200 content-type text/plain lf-string "%[method] %[path] %[query] %[req.hdr(x-a)] %[req.fhdr(x-a)] %[req.hdr_cnt(x-a)]" if {{ path_beg /say }}
    http-request set-path /echo%[path] if {{ path_beg /rewrite }}
    http-request replace-header X-Edit (.*)b(.*) \\1-\\2
    http-request add-header X-Added "one two"
    http-request del-header X-Gone
    http-request set-header X-Posted yes if is_post
    http-request set-var(txn.u) url,lower
    http-response set-header X-Url %[var(txn.u)]
    http-response del-header Server if {{ res.hdr(x-strip) -m found }}
    http-response set-status 299 reason "As it was" if {{ status 298 }}
    default_backend origin
frontend small
    bind 127.0.0.1:{small}
    http-request return status 200
    monitor-uri /alive
    errorfile 403 /dev/null
    errorloc 404 /lost
backend origin
    server s1 127.0.0.1:{origin}
frontend nobody
    bind 127.0.0.1:{nobody}
    default_backend refused
backend refused
    server s0 127.0.0.1:{closed}
listen raw
    mode tcp
    option tcplog
    bind 127.0.0.1:{raw}
    server s1 127.0.0.1:{origin}
listen rejecting
    mode tcp
    option tcplog
    bind 127.0.0.1:{rejecting}
    tcp-request inspect-delay 200ms
    tcp-request content accept if HTTP
    tcp-request content reject
    server s1 127.0.0.1:{origin}
"""
LISTENERS = ("plain", "closing", "serverclose", "rules", "small", "nobody", "raw", "rejecting")

H = "Host: x\r\n"
# name: (listener, the pieces to send); a piece None half-closes, a number waits that many seconds.
EXCHANGES = {
    "get": ("plain", ["GET /len/5 HTTP/1.1\r\n" + H + "\r\n"]),
    "what the server sees": ("plain", ["GET /echo?q=1 HTTP/1.1\r\nhOsT: X.example\r\nX-Order: 1\r\nAccept: */*\r\nX-ORDER:2  \r\n\r\n"]),
    "fragment": ("plain", ["GET /echo#f HTTP/1.1\r\n" + H + "\r\n"]),
    "keep-alive": ("plain", ["GET /len/1 HTTP/1.1\r\n" + H + "\r\n", 0.05, "GET /len/2 HTTP/1.1\r\n" + H + "\r\n"]),
    "pipeline": ("plain", ["GET /len/1 HTTP/1.1\r\n" + H + "\r\nGET /len/2 HTTP/1.1\r\n" + H + "\r\nGET /len/3 HTTP/1.1\r\n" + H + "\r\n"]),
    "connection close": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "Connection: close\r\n\r\n"]),
    "connection tokens": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "Connection: keep-alive, x-hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\r\n"]),
    "http/1.0": ("plain", ["GET /echo HTTP/1.0\r\n\r\n"]),
    "http/1.0 keep-alive": ("plain", ["GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"]),
    "http/1.0 with a chunked answer": ("plain", ["GET /chunked HTTP/1.0\r\n\r\n"]),
    "post": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 5\r\n\r\nhello"]),
    "post in pieces": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Le", "ngth: 5\r\n\r", "\nhe", "llo"]),
    "post chunked": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]),
    "post chunked with trailers": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nX-T: 1\r\n\r\n"]),
    "chunked answer": ("plain", ["GET /chunked HTTP/1.1\r\n" + H + "\r\n"]),
    "chunked answer with trailers": ("plain", ["GET /trailers HTTP/1.1\r\n" + H + "\r\n"]),
    "answer until close": ("plain", ["GET /close HTTP/1.1\r\n" + H + "\r\n"]),
    "head": ("plain", ["HEAD /len/5 HTTP/1.1\r\n" + H + "\r\n", 0.05, "GET /len/1 HTTP/1.1\r\n" + H + "\r\n"]),
    "204": ("plain", ["GET /status/204 HTTP/1.1\r\n" + H + "\r\n", 0.05, "GET /len/1 HTTP/1.1\r\n" + H + "\r\n"]),
    "304": ("plain", ["GET /status/304 HTTP/1.1\r\n" + H + "\r\n", 0.05, "GET /len/1 HTTP/1.1\r\n" + H + "\r\n"]),
    "100-continue": ("plain", ["POST /continue HTTP/1.1\r\n" + H + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", 0.05, "ok"]),
    "103": ("plain", ["GET /hints HTTP/1.1\r\n" + H + "\r\n"]),
    "upgrade": ("plain", ["GET /upgrade HTTP/1.1\r\n" + H + "Connection: upgrade\r\nUpgrade: x\r\n\r\n", 0.05, "ping"]),
    "connect": ("plain", ["CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", 0.05, "ping"]),
    "absolute": ("plain", ["GET http://a.example/echo HTTP/1.1\r\nHost: a.example\r\n\r\n"]),
    "absolute with default port": ("plain", ["GET http://a.example:80/echo HTTP/1.1\r\nHost: a.example:80\r\n\r\n"]),
    "absolute and another host": ("plain", ["GET http://a.example/echo HTTP/1.1\r\nHost: b.example\r\n\r\n"]),
    "options *": ("plain", ["OPTIONS * HTTP/1.1\r\n" + H + "\r\n"]),
    "odd method": ("plain", ["BREW /echo HTTP/1.1\r\n" + H + "\r\n"]),
    "leading empty lines": ("plain", ["\r\n\r\nGET /echo HTTP/1.1\r\n" + H + "\r\n"]),
    "bare line feeds": ("plain", ["GET /echo HTTP/1.1\nHost: x\n\n"]),
    "no host": ("plain", ["GET /echo HTTP/1.1\r\n\r\n"]),
    "two hosts": ("plain", ["GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"]),
    "the same host twice": ("plain", ["GET /echo HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"]),
    "space before colon": ("plain", ["GET /echo HTTP/1.1\r\nHost : x\r\n\r\n"]),
    "space in name": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "A B: x\r\n\r\n"]),
    "empty name": ("plain", ["GET /echo HTTP/1.1\r\n" + H + ": x\r\n\r\n"]),
    "folded line": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "A: b\r\n c\r\n\r\n"]),
    "bare cr": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "A: b\rc\r\n\r\n"]),
    "two lengths": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"]),
    "the same length twice": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab"]),
    "a list of the same length": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 2, 2\r\n\r\nab"]),
    "signed length": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: +2\r\n\r\nab"]),
    "empty length": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length:\r\n\r\n"]),
    "length and chunks": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]),
    "chunked twice": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"]),
    "unknown coding": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: gzip\r\n\r\n"]),
    "bad chunk size": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"]),
    "huge chunk size": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n"]),
    "chunk without its end": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n2\r\nxyXX0\r\n\r\n"]),
    "version 1.2": ("plain", ["GET /echo HTTP/1.2\r\n" + H + "\r\n"]),
    "version 2.0": ("plain", ["GET /echo HTTP/2.0\r\n" + H + "\r\n"]),
    "version nonsense": ("plain", ["GET /echo HTTX/1.1\r\n" + H + "\r\n"]),
    "no version": ("plain", ["GET /echo\r\n\r\n"]),
    "control in uri": ("plain", ["GET /ec\x01ho HTTP/1.1\r\n" + H + "\r\n"]),
    "eight bits in uri": ("plain", ["GET /ec\xe9ho HTTP/1.1\r\n" + H + "\r\n"]),
    "garbage": ("plain", ["\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]),
    "head too large": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "A: " + "a" * 20000 + "\r\n\r\n"]),
    "too many headers": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "".join(f"A{i}: b\r\n" for i in range(150)) + "\r\n"]),
    "large uri": ("plain", ["GET /len/1?" + "u" * 5000 + " HTTP/1.1\r\n" + H + "\r\n"]),
    "nothing at all": ("plain", [None]),
    "leaves in the request": ("plain", ["GET /echo HT", None]),
    "request that never ends": ("plain", ["GET /echo HT", 0.4]),
    "leaves in the body": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 10\r\n\r\nab", None]),
    "half close after the request": ("plain", ["GET /len/5 HTTP/1.1\r\n" + H + "\r\n", None]),
    "no answer": ("plain", ["GET /silent HTTP/1.1\r\n" + H + "\r\n"]),
    "server closes": ("plain", ["GET /bye HTTP/1.1\r\n" + H + "\r\n"]),
    "server speaks nonsense": ("plain", ["GET /nonsense HTTP/1.1\r\n" + H + "\r\n"]),
    "answer cut in the head": ("plain", ["GET /cuthead HTTP/1.1\r\n" + H + "\r\n"]),
    "answer cut in the body": ("plain", ["GET /cutbody HTTP/1.1\r\n" + H + "\r\n"]),
    "answer cut in a chunk": ("plain", ["GET /cutchunk HTTP/1.1\r\n" + H + "\r\n"]),
    "answer that stalls": ("plain", ["GET /stall HTTP/1.1\r\n" + H + "\r\n"]),
    "answer with two lengths": ("plain", ["GET /twolengths HTTP/1.1\r\n" + H + "\r\n"]),
    "answer with bare line feeds": ("plain", ["GET /linefeeds HTTP/1.1\r\n" + H + "\r\n"]),
    "answer without a reason": ("plain", ["GET /noreason HTTP/1.1\r\n" + H + "\r\n"]),
    "httpclose": ("closing", ["GET /echo HTTP/1.1\r\n" + H + "\r\n"]),
    "http-server-close": ("serverclose", ["GET /echo HTTP/1.1\r\n" + H + "\r\n", 0.05, "GET /len/1 HTTP/1.1\r\n" + H + "\r\n"]),
    "deny": ("rules", ["GET /deny HTTP/1.1\r\n" + H + "\r\n"]),
    "deny with status": ("rules", ["GET /many HTTP/1.1\r\n" + H + "\r\n"]),
    "redirect location": ("rules", ["GET /moved HTTP/1.1\r\n" + H + "\r\n"]),
    "redirect prefix": ("rules", ["GET /prefix/a?b=c HTTP/1.1\r\n" + H + "\r\n"]),
    "redirect scheme": ("rules", ["GET /scheme HTTP/1.1\r\nHost: h.example\r\n\r\n"]),
    "return": ("rules", ["POST /say/it?a=b HTTP/1.1\r\n" + H + "X-A: 1, 2\r\nX-A: 3\r\nContent-Length: 0\r\n\r\n"]),
    "edits": ("rules", ["POST /rewrite/a?b HTTP/1.1\r\n" + H + "X-Edit: abc\r\nX-Gone: 1\r\nx-gone: 2\r\nContent-Length: 2\r\n\r\nhi"]),
    "edited answer": ("rules", ["GET /strip HTTP/1.1\r\n" + H + "\r\n"]),
    "status changed": ("rules", ["GET /status/298 HTTP/1.1\r\n" + H + "\r\n"]),
    "captures": ("rules", ["GET /len/1 HTTP/1.1\r\nHost: a-very-long-name.example.com\r\n\r\n"]),
    "monitor": ("small", ["GET /alive HTTP/1.1\r\n" + H + "\r\n"]),
    "empty answer": ("small", ["GET / HTTP/1.1\r\n" + H + "\r\n"]),
    "body that nobody wants": ("small", ["POST / HTTP/1.1\r\n" + H + "Content-Length: 3\r\n\r\nabc", 0.05, "GET / HTTP/1.1\r\n" + H + "\r\n"]),
    "refused": ("nobody", ["GET / HTTP/1.1\r\n" + H + "\r\n"]),
    "tcp": ("raw", ["GET /len/5 HTTP/1.0\r\n\r\n"]),
    "tcp nothing": ("raw", [None]),
    "tcp idle": ("raw", [0.6]),
    "tcp half close": ("raw", ["GET /len/5 HTTP/1.1\r\n" + H + "\r\n", None]),
    "tcp content accepted": ("rejecting", ["GET /le", "n/5 HTTP/1.0\r\n\r\n"]),
    "tcp content rejected": ("rejecting", ["\x00\x01\x02\x03"]),
}

# name: why weir is meant to differ from the packaged 2.6 (the reference is 3.5).
DIFFERENT = {
    "answer cut in a chunk": "chunks are forwarded as they come, not cut anew: the part of one that came is never made whole",
    "connection tokens": "a head that nothing edits is forwarded as it came, `keep-alive` included",
}


class Origin:
    """Answers what the path asks for."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        """One thread a connection."""
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        """Requests until somebody closes."""
        with connection:
            connection.settimeout(5)
            held = b""
            try:
                while True:
                    while b"\r\n\r\n" not in held:
                        more = connection.recv(65536)
                        if not more:
                            return
                        held += more
                    head, held = held.split(b"\r\n\r\n", 1)
                    body, held = self.body(connection, head, held)
                    path = head.split(b" ", 2)[1].decode("latin-1").removeprefix("http://a.example").removeprefix(":80")
                    if not self.answer(connection, path, head, body, held):
                        return
            except OSError:
                return

    @staticmethod
    def body(connection, head, held):
        """The request's body as it came, and what follows it."""
        length = re.search(rb"^content-length: *(\d+)", head, re.M | re.I)
        if re.search(rb"^transfer-encoding: *chunked", head, re.M | re.I):
            while not re.search(rb"(^|\r\n)0\r\n(.+\r\n)*\r\n", held):
                more = connection.recv(65536)
                if not more:
                    raise OSError
                held += more
            end = re.search(rb"(^|\r\n)0\r\n(.+\r\n)*\r\n", held).end()
            return held[:end], held[end:]
        size = int(length.group(1)) if length else 0
        if re.search(rb"^expect: *100-continue", head, re.M | re.I):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(held) < size:
            more = connection.recv(65536)
            if not more:
                raise OSError
            held += more
        return held[:size], held[size:]

    @staticmethod
    def answer(connection, path, head, body, held):
        """Sends the answer; whether the connection lives on."""
        send = lambda text: connection.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))  # noqa: E731
        kind = path.split("?")[0].split("/")[1] if path.startswith("/") else ""
        if head.startswith(b"CONNECT"):
            kind = "upgrade"
            send("HTTP/1.1 200 OK\r\n\r\n")
        fixed = {
            "chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n10\r\nghijklmnopqrstuv\r\n0\r\n\r\n",
            "trailers": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\nX-T: 1\r\n\r\n",
            "hints": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "continue": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "strip": "HTTP/1.1 200 OK\r\nServer: o\r\nX-Strip: 1\r\nContent-Length: 2\r\n\r\nok",
            "linefeeds": "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
            "noreason": "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
            "twolengths": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        }
        ending = {
            "close": "HTTP/1.1 200 OK\r\n\r\nuntil the end",
            "bye": "",
            "nonsense": "this is no answer\r\n\r\n",
            "cuthead": "HTTP/1.1 200 OK\r\nContent-",
            "cutbody": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
            "cutchunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nxyz",
        }
        if kind in fixed:
            send(fixed[kind])
            return True
        if kind in ending:
            send(ending[kind])
            return False
        if kind == "len":
            size = int(path.split("?")[0].split("/")[2])
            send(f"HTTP/1.1 200 OK\r\nServer: o\r\nContent-Length: {size}\r\n\r\n" + ("" if head.startswith(b"HEAD") else "x" * size))
        elif kind == "status":
            status = int(path.split("/")[2])
            send(f"HTTP/1.1 {status} As asked\r\nX-Kind: status\r\n" + ("\r\n" if status in (204, 304) else "Content-Length: 0\r\n\r\n"))
        elif kind in ("silent", "stall"):
            send("" if kind == "silent" else "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
            time.sleep(1)
            return False
        elif kind == "upgrade":
            if head.startswith(b"GET"):
                send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
            while len(held) < 4:
                more = connection.recv(100)
                if not more:
                    return False
                held += more
            send("pong " + held.decode())
            return False
        else:
            echo = head + b"\r\n\r\n" + body
            send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(echo) + (b"" if head.startswith(b"HEAD") else echo))
        return True


class Logs:
    """Collects the lines of one program, by the client port that they name."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.lines = {}
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        """Until the socket closes."""
        while True:
            try:
                line = self.socket.recv(65536).decode("latin-1")
            except OSError:
                return
            found = re.search(r"127\.0\.0\.1:(\d+) \[", line)
            if found:
                self.lines.setdefault(int(found.group(1)), []).append(line)


def exchange(port, pieces):
    """Sends the pieces and reads until the end or silence; everything received, how it ended, and our port."""
    with socket.create_connection(("127.0.0.1", port), 2) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own = connection.getsockname()[1]
        received, end = b"", "open"
        try:
            for number, piece in enumerate(pieces):
                if piece is None:
                    connection.shutdown(socket.SHUT_WR)
                elif isinstance(piece, float):
                    time.sleep(piece)
                else:
                    if number:
                        time.sleep(0.02)
                    connection.sendall(piece.encode("latin-1"))
            connection.settimeout(0.9)
            while True:
                more = connection.recv(65536)
                if not more:
                    end = "closed"
                    break
                received += more
        except TimeoutError:
            pass
        except ConnectionError:
            end = "closed"  # by a reset or in order: which of them depends on timing
    return received, end, own


def observe(binary, names, folder, label):
    """What clients and logs see of each exchange."""
    origin, logs = Origin(), Logs()
    ports = {name: free_port() for name in LISTENERS}
    text = CONFIGURATION.format(origin=origin.port, log=logs.port, closed=free_port(), **ports)
    with Program(binary, "-db", "-f", folder.file(f"{label}.cfg", text)) as program:
        program.ready(ports["plain"])

        def one(name):
            listener, pieces = EXCHANGES[name]
            return exchange(ports[listener], pieces)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            seen = dict(zip(names, pool.map(one, names)))
        time.sleep(0.5)
        if program.status(0) is not None:
            sys.exit(f"{label} ended: {program.process.communicate()[0]}")
    numbers = [own for _, _, own in seen.values()] + list(ports.values())
    return {name: view(received, end, logs.lines.get(own, []), numbers) for name, (received, end, own) in seen.items()}


def view(received, end, lines, ports):
    """What is compared: the bytes with the freedoms that both programs have taken out of them, how it ended, the log.

    The case of field names, the blanks around values and the cut of chunks are such freedoms: HAProxy writes every message
    anew in lower case, weir forwards what came. So are the bytes in an HTTP log line: HAProxy counts those of its own
    representation, weir those on the wire.
    """
    text = received.decode("latin-1")
    text = re.sub(r"^([A-Za-z][-A-Za-z0-9]*):[ \t]*(.*?)[ \t]*(\r?)$", lambda m: f"{m[1].lower()}: {m[2]}{m[3]}", text, flags=re.M)
    # Where among the fields `connection` stands.
    text = re.sub(r"^(connection: .*\r\n)((?:[-a-z0-9]+: .*\r\n)+)", r"\2\1", text, flags=re.M)
    # An echo's length follows those freedoms.
    if "chunked" in text or re.search(r"^(GET|HEAD|POST|BREW|OPTIONS|CONNECT) \S+ HTTP/1", text, re.M):
        text = re.sub(r"^content-length: \d\d+(?=\r)", "content-length: N", text, flags=re.M)
    if "chunked" in text:
        text = re.sub(r"(?:\r\n)?^([0-9a-fA-F]+)(;.*)?\r\n(?!\r\n)", lambda m: "" if int(m[1], 16) else "\r\n0\r\n", text, flags=re.M)
    for number in ports:
        text = text.replace(f":{number}", ":PORT")
    text = text.replace("\r\n", "\\r\\n\n")
    return (text + f"\n[{end}]\n" + "".join(f"log: {plain(line)}\n" for line in lines)).splitlines()


def plain(line):
    """A log line without what differs from run to run; of the timers only what is absent stays."""
    line = line.rstrip("\n")
    line = re.sub(r"^<(\d+)>.*?\[\d+\]: 127\.0\.0\.1:\d+ \[[^]]*\]", r"<\1>", line)
    line = re.sub(r"(?<=\S/\S)(\S* )([-+]?\d+(?:/[-+]?\d+)+)(?= )", lambda m: m[1] + re.sub(r"(?<![-\d])\d+", "N", m[2]), line, count=1)
    line = re.sub(r" \d+/\d+/\d+/\d+/(\+?\d+) \d+/\d+(?= |$)", r" N/N/N/N/\1 N/N", line)
    return re.sub(r"(?<= \d{3}) \d+(?= - - )", " N", line)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--reference", default="haproxy")
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true", help="print what the reference does")
    options = parser.parse_args()
    names = [name for name in EXCHANGES if re.search(options.only, name)]
    reference = shutil.which(options.reference, path=os.environ["PATH"] + ":/usr/sbin")
    with Folder() as folder:
        expected = {name: [seen] for name, seen in observe(reference, names, folder, "reference").items()}
        found = observe(os.path.abspath(options.bin), names, folder, "found")
        # What differs may differ by timing only: the reference has several goes, and so have we.
        for _ in range(3):
            again = [name for name in names if found[name] not in expected[name]]
            if again:
                for name, seen in observe(reference, again, folder, "reference").items():
                    expected[name].append(seen)
                found.update(observe(os.path.abspath(options.bin), again, folder, "found"))
    failed = 0
    for name in names:
        if options.show:
            print(f"=== {name}\n" + "\n".join(expected[name][0]))
        same = found[name] in expected[name]
        if same and name in DIFFERENT:
            print(f"SAME  {name}: no longer differs ({DIFFERENT[name]}); take it off the list")
            failed += 1
        elif not same and name not in DIFFERENT:
            failed += 1
            print(f"DIFFERS  {name}")
            print("\n".join(list(difflib.unified_diff(expected[name][0], found[name], "reference", "weir", lineterm="", n=0))[2:])[:3000])
    print(f"differential: {len(names) - failed} of {len(names)} exchanges as meant ({len(DIFFERENT)} meant to differ)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
