"""Compressed bodies as clients and servers see them: every algorithm, parts of a stream that pauses, ends that break, limits, counters."""
import contextlib
import gzip
import os
import re
import socket
import statistics
import subprocess
import threading
import time
import zlib

import pytest

from lib.http2 import FramePeer
from lib.origin import Origin, Server, end_with_reset, read_head
from lib.program import ask, free_port, wait_until
from test_conditions import decode, unchunk

CONFIGURATION = """
global
  maxconn 4000
  stats socket {folder}/stats level admin
  {extra}
defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend f
  bind 127.0.0.1:{port}
  bind 127.0.0.1:{h2} proto h2
  log 127.0.0.1:{log} local0
  log-format "%B comp=%[res.comp] algo=%[res.comp_algo]"
  {frontend}
  default_backend b
backend b
  {words}
  server s 127.0.0.1:{origin}
"""


@pytest.fixture
def proxy(start, folder, log):
    """Starts weir between two ports for clients (HTTP/1 and HTTP/2) and an origin. Returns the ports."""
    def started(origin, words, extra="", frontend=""):
        port, h2 = free_port(), free_port()
        start(CONFIGURATION.format(folder=folder.path, port=port, h2=h2, origin=origin, words=words, extra=extra, frontend=frontend,
                                   log=log.port), port, h2)
        return port, h2
    return started


def text(size):
    """A text that compresses like a page."""
    words = b"the quick brown fox jumps over a lazy dog while servers answer requests of clients".split()
    return b" ".join(words[(at * at // 7 + at // 13) % len(words)] for at in range(size // 5))[:size]


def okay(body, more=""):
    """A whole HTML page."""
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def curl(url, *options):
    """The body that curl decodes, and the bytes that it received."""
    done = subprocess.run(["curl", "-sS", "--max-time", "20", "-o", "-", "-w", "%{stderr}%{size_download}", *options, url],
                          capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout, int(done.stderr)


@pytest.mark.parametrize("level", [1, 2, 5, 9])
@pytest.mark.parametrize("algorithm", ["gzip", "deflate", "br", "zstd"])
def test_curl_decodes_every_algorithm_and_level_over_http1_and_http2(proxy, algorithm, level):
    bodies = {f"/{size}": text(size) for size in (1, 1000, 16_384, 300_000)}
    bodies["/noise"] = os.urandom(100_000)
    with Origin(lambda request: okay(bodies[request.path])) as origin:
        port, h2 = proxy(origin.port, f"compression algo {algorithm}", f"tune.comp.maxlevel {level}")
        accept = ("--compressed", "-H", f"accept-encoding: {algorithm}")
        for path, body in bodies.items():
            for url, options in ((f"http://127.0.0.1:{port}{path}", ()), (f"http://127.0.0.1:{h2}{path}", ("--http2-prior-knowledge",))):
                plain, received = curl(url, *accept, *options)
                assert plain == body, path
                if path == "/noise":
                    assert received <= len(body) + len(body) // 1000 + 64
                elif len(body) > 1000:
                    assert received < len(body) / 2


def test_levels_make_pages_smaller(proxy):
    body, sizes = text(200_000), []
    for level in (1, 2, 6):
        with Origin(okay(body)) as origin:
            port, _ = proxy(origin.port, "compression algo gzip", f"tune.comp.maxlevel {level}")
            sizes.append(curl(f"http://127.0.0.1:{port}/", "--compressed", "-H", "accept-encoding: gzip")[1])
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3, sizes


class Paused(Server):
    """Sends the head of an endless stream on each connection, then a part whenever its semaphore in `parts` is released."""

    def __init__(self, fields=b"Content-Type: text/event-stream\r\n"):
        self.fields, self.parts, self.sent = fields, [], []
        super().__init__()

    def serve(self, connection):
        read_head(connection)
        part = threading.Semaphore(0)
        self.parts.append(part)
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + self.fields + b"Transfer-Encoding: chunked\r\n\r\n")
        for number in range(1000):
            if not part.acquire(timeout=20):
                return
            event = b"data: event number %d with some text\n\n" % number
            self.sent.append((event, time.monotonic()))
            connection.sendall(b"%x\r\n%s\r\n" % (len(event), event))


def decoder(algorithm):
    """A function that decodes the next bytes of a body."""
    if algorithm == "gzip":
        return zlib.decompressobj(31).decompress
    if algorithm == "deflate":
        return zlib.decompressobj().decompress
    command = {"br": None, "zstd": ["zstd", "-d", "-c", "--no-check"]}[algorithm]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    def decode_more(data):
        process.stdin.write(data)
        time.sleep(0.05)
        os.set_blocking(process.stdout.fileno(), False)
        return process.stdout.read() or b""
    return decode_more


def read_chunk(connection, held):
    """The next chunk of a body, and the bytes after it."""
    while True:
        line, found, rest = held.partition(b"\r\n")
        if found and len(rest) >= int(line, 16) + 2:
            return rest[:int(line, 16)], rest[int(line, 16) + 2:]
        more = connection.recv(65536)
        assert more, "the body ended"
        held += more


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_each_part_of_a_paused_stream_reaches_the_client_before_the_next(proxy, algorithm):
    with Paused() as origin:
        port, _ = proxy(origin.port, f"compression algo {algorithm}\n  compression minsize-res 100k")
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {algorithm}\r\n\r\n".encode())
            head, held = read_head(client)
            assert b"content-encoding: " + algorithm.encode() in head.lower()
            decode_more, delays = decoder(algorithm), []
            for number in range(50):
                origin.parts[0].release()
                seen = b""
                while not seen.endswith(b"\n\n"):
                    chunk, held = read_chunk(client, held)
                    seen += decode_more(chunk)
                event, sent = origin.sent[number]
                delays.append(time.monotonic() - sent)
                assert seen == event
    # 5 ms are wanted; other tests may run on the same processors.
    assert statistics.median(delays) < 0.005, delays


def test_a_part_of_a_paused_stream_reaches_an_http2_client(proxy):
    with Paused() as origin:
        _, h2 = proxy(origin.port, "compression algo gzip")
        curl_process = subprocess.Popen(["curl", "-sSN", "--http2-prior-knowledge", "--compressed", "--max-time", "20", f"http://127.0.0.1:{h2}/"],
                                        stdout=subprocess.PIPE)
        try:
            assert wait_until(lambda: origin.parts)
            for number in range(5):
                origin.parts[0].release()
                line = curl_process.stdout.readline() + curl_process.stdout.readline()
                assert line == b"data: event number %d with some text\n\n" % number
        finally:
            curl_process.kill()
            curl_process.wait()


@pytest.mark.parametrize("framing", ["chunked", "length"])
@pytest.mark.parametrize("algorithm", ["gzip", "deflate", "zstd", "br"])
def test_a_response_cut_by_its_server_does_not_end_validly(proxy, algorithm, framing):
    part = text(50_000)

    def cut(connection):
        read_head(connection)
        if framing == "chunked":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(part), part))
        else:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + part)
        time.sleep(0.1)

    with Server(cut) as origin:
        port, h2 = proxy(origin.port, f"compression algo {algorithm}")
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {algorithm}\r\n\r\n".encode())
            head, held = read_head(client)
            body = held + b"".join(iter(lambda: client.recv(65536), b""))
        assert b"chunked" in head.lower()
        assert not body.endswith(b"0\r\n\r\n")
        if algorithm == "gzip":
            payload = b"".join(part for part in re.split(rb"(?:^|\r\n)[0-9a-f]+\r\n", body))
            with pytest.raises((EOFError, zlib.error, gzip.BadGzipFile)):
                gzip.decompress(payload)
        done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-o", os.devnull, "-H", f"accept-encoding: {algorithm}",
                               f"http://127.0.0.1:{h2}/"], capture_output=True, timeout=20)
        assert done.returncode != 0, "HTTP/2 ends the stream with an error"


def test_trailers_pass_behind_a_compressed_body(proxy):
    answer = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 42\r\nContent-Digest: sha-256=:x:\r\n\r\n")
    with Origin(answer) as origin:
        port, _ = proxy(origin.port, "compression algo gzip")
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n")
            received = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    body, _, trailers = body.partition(b"\r\n0\r\n")
    assert gzip.decompress(unchunk(body + b"\r\n0\r\n\r\n")) == b"hello"
    assert trailers.lower() == b"x-sum: 42\r\n\r\n"


def values(folder, command, *names):
    """Values of `show info`, or of the row of a backend."""
    shown = dict(line.split(": ", 1) for line in ask(f"{folder.path}/stats", command).splitlines() if ": " in line)
    return [int(shown[name]) for name in names]


def row(folder, proxy, service):
    """A row of `show stat`."""
    lines = ask(f"{folder.path}/stats", "show stat").splitlines()
    names = lines[0][2:].split(",")
    rows = [dict(zip(names, line.split(","))) for line in lines[1:] if line]
    return next(row for row in rows if (row["pxname"], row["svname"]) == (proxy, service))


def logged_bytes(log, pattern):
    return int(re.search(r"(\d+) comp=", log.wait_for(pattern))[1])


def test_counters_logs_and_tables_show_the_bytes_before_and_after_compression(proxy, folder, log):
    """`comp_in` and `comp_out` are the difference. Other counters, tables and `%B` count the bytes of the server, as with HAProxy."""
    body = text(100_000)
    with Origin(okay(body)) as origin:
        port, _ = proxy(origin.port, "compression algo gzip",
                        frontend="stick-table type ip size 10 store bytes_out_cnt\n  http-request track-sc0 src")
        _, received = curl(f"http://127.0.0.1:{port}/", "--compressed", "-H", "accept-encoding: gzip")
        [rate_in, rate_out, sent] = values(folder, "show info", "CompressBpsIn", "CompressBpsOut", "TotalBytesOut")
        logged = [logged_bytes(log, "comp=1 algo=gzip")]
        compressed = row(folder, "f", "FRONTEND")
        table = ask(f"{folder.path}/stats", "show table f")
        curl(f"http://127.0.0.1:{port}/")
        logged.append(logged_bytes(log, r"[1-9]\d+ comp=0 algo=-"))
        plain = row(folder, "f", "FRONTEND")
    assert 0 < rate_in <= len(body) and 0 < rate_out <= received < len(body) / 2
    assert len(body) < logged[0] == logged[1] < len(body) + 200
    for service in ("FRONTEND", "BACKEND"):
        counters = row(folder, "f" if service == "FRONTEND" else "b", service)
        assert counters["comp_in"] == str(len(body)) and counters["comp_rsp"] == "1" and counters["comp_byp"] == "0"
        # curl counts neither chunk sizes nor the head.
        assert int(counters["comp_out"]) == received
    assert len(body) < int(compressed["bout"]) < len(body) + 1000  # with the probes of the ports
    assert len(body) < int(plain["bout"]) - int(compressed["bout"]) < len(body) + 1000
    assert len(body) < int(re.search(r"bytes_out_cnt=(\d+)", table)[1]) < len(body) + 200
    assert received < sent < len(body) / 2


def test_a_page_of_statistics_and_the_exporter_are_compressed(start, folder):
    port = free_port()
    start(f"""
global
  maxconn 100
defaults
  mode http
  timeout client 5s
  compression algo gzip
listen l
  bind 127.0.0.1:{port}
  stats uri /stats
  http-request use-service prometheus-exporter if {{ path /metrics }}
""", port)
    for path in ("/stats", "/metrics"):
        plain, received = curl(f"http://127.0.0.1:{port}{path}", "--compressed", "-H", "accept-encoding: gzip")
        assert received * 2 < len(plain)


def test_streams_beyond_maxzlibmem_are_not_compressed_and_counted(proxy, folder):
    with Paused() as origin:
        port, _ = proxy(origin.port, "compression algo zstd", "nbthread 1\n  maxzlibmem 2")
        with contextlib.ExitStack() as clients:
            codings = []
            for _ in range(12):
                client = clients.enter_context(socket.create_connection(("127.0.0.1", port), 10))
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: zstd\r\n\r\n")
                head, held = read_head(client)
                codings.append(b"content-encoding: zstd" in head.lower())
                # With its first part the stream takes its encoder.
                origin.parts[-1].release()
                read_chunk(client, held)
                [used, limit] = values(folder, "show info", "ZlibMemUsage", "MaxZlibMemUsage")
                assert used <= limit == 2 << 20
            assert codings == [True] * 3 + [False] * 9
            assert int(row(folder, "b", "BACKEND")["comp_byp"]) > 9 * 20
        wait_until(lambda: row(folder, "f", "FRONTEND")["scur"] == "0")
    assert wait_until(lambda: values(folder, "show info", "ZlibMemUsage")[0] <= 4 * 600_000)


def test_paused_gzip_streams_share_the_encoders(proxy, folder):
    """A deflated body goes on with another encoder after a flush, so a stream that pauses holds none while memory is scarce."""
    with Paused() as origin:
        port, _ = proxy(origin.port, "compression algo gzip", "nbthread 1\n  maxzlibmem 2")
        with contextlib.ExitStack() as stack:
            clients = []
            for _ in range(40):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
                head, held = read_head(client)
                assert b"content-encoding: gzip" in head.lower()
                origin.parts[-1].release()
                decode_more = decoder("gzip")
                chunk, held = read_chunk(client, held)
                seen = decode_more(chunk)
                while not seen.endswith(b"\n\n"):
                    chunk, held = read_chunk(client, held)
                    seen += decode_more(chunk)
                clients.append(client)
                [used, limit] = values(folder, "show info", "ZlibMemUsage", "MaxZlibMemUsage")
                assert used <= limit


def test_responses_are_not_compressed_above_maxcomprate(proxy, folder):
    body = text(100_000)
    with Origin(okay(body)) as origin:
        port, _ = proxy(origin.port, "compression algo gzip", "maxcomprate 50")
        url, accept = f"http://127.0.0.1:{port}/", ("--compressed", "-H", "accept-encoding: gzip")
        sizes = [curl(url, *accept)[1] for _ in range(3)]
        assert sizes[0] < len(body) / 2 and len(body) in sizes
        assert int(row(folder, "b", "BACKEND")["comp_byp"]) >= len(body)
        ask(f"{folder.path}/stats", "set rate-limit http-compression global 0")
        assert curl(url, *accept)[1] < len(body) / 2


def test_a_compressed_request_is_sent_again_to_another_server(start, folder):
    """The first server closes after the request (`retry-on empty-response`): the second gets the same body, encoded anew."""
    port, seen, body = free_port(), [], text(9_000)

    def close(connection):
        head, held = read_head(connection)
        while b"\r\n0\r\n\r\n" not in held:
            held += connection.recv(65536)
        seen.append(head)

    with Server(close) as broken, Origin(b"HTTP/1.1 204 No Content\r\n\r\n") as origin:
        start(f"""
global
  maxconn 100
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
  retries 3
  option redispatch 1
  retry-on empty-response
listen l
  bind 127.0.0.1:{port}
  filter comp-req
  compression algo-req gzip
  balance first
  server a 127.0.0.1:{broken.port}
  server b 127.0.0.1:{origin.port} backup
  use-server b if {{ nbsrv lt 1 }}
  server c 127.0.0.1:{origin.port}
""", port)
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            answer = client.recv(65536)
        assert answer.startswith(b"HTTP/1.1 204"), answer
        [request] = origin.requests
        assert len(seen) == 1 and b"content-encoding: gzip" in seen[0].lower()
        assert request.field("content-encoding") == "gzip"
        assert decode(request.head, request.body) == body


@pytest.mark.parametrize("algorithm", ["gzip", "deflate", "br", "zstd"])
def test_an_aborted_download_does_not_change_the_next_response(proxy, algorithm):
    """An encoder that stopped within a block must not serve another body."""
    bodies = {"/long": text(3_000_000), "/page": text(30_000), "/noise": os.urandom(60_000)}
    with Origin(lambda request: okay(bodies[request.path])) as origin:
        port, _ = proxy(origin.port, f"compression algo {algorithm}", "nbthread 1")
        for round in range(10):
            with socket.create_connection(("127.0.0.1", port), 10) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.sendall(f"GET /long HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {algorithm}\r\n\r\n".encode())
                client.recv(2000)
                end_with_reset(client)
            for path in ("/page", "/noise"):
                assert curl(f"http://127.0.0.1:{port}{path}", "--compressed", "-H", f"accept-encoding: {algorithm}")[0] == bodies[path], round


@pytest.mark.parametrize("accept, spliced", [("gzip", False), ("br", True)])
def test_a_response_that_is_not_compressed_is_spliced(proxy, folder, accept, spliced):
    """The filter leaves a body that it does not compress. Otherwise `compression` would copy every image."""
    body = os.urandom(3_000_000)
    with Origin(okay(body)) as origin:
        port, _ = proxy(origin.port, "option splice-response\n  compression algo gzip")
        plain, _ = curl(f"http://127.0.0.1:{port}/", "--compressed", "-H", f"accept-encoding: {accept}")
        assert plain == body
        [count] = values(folder, "show info", "TotalSplicedBytesOut")
        assert (count > 2_000_000) == spliced


def test_a_long_response_changes_its_level_at_a_limit(proxy, folder):
    """Above `maxcomprate` a response that has begun goes on at lower levels, and is whole."""
    body = text(8_000_000)
    with Origin(okay(body)) as origin:
        port, _ = proxy(origin.port, "compression algo gzip", "tune.comp.maxlevel 6\n  maxcomprate 1000")
        sizes = []
        for limit in (None, 0):
            if limit is not None:
                ask(f"{folder.path}/stats", f"set rate-limit http-compression global {limit}")
            plain, received = curl(f"http://127.0.0.1:{port}/", "--compressed", "-H", "accept-encoding: gzip")
            assert plain == body
            sizes.append(received)
        assert sizes[0] > sizes[1] * 1.05, sizes


@pytest.mark.parametrize("order, limited", [("bwlim-out,comp-res", True), ("comp-res,bwlim-out", False)])
def test_filter_sequence_decides_whether_the_limit_counts_compressed_bytes(start, folder, order, limited):
    """60 kB at 40 kB/s take more than a second before compression, and far less behind it."""
    port, body = free_port(), b"x" * 60_000
    with Origin(okay(body)) as origin:
        start(f"""
global
  maxconn 100
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
listen l
  bind 127.0.0.1:{port}
  filter bwlim-out slow default-limit 40k default-period 1s
  filter comp-res
  filter-sequence response {order}
  compression algo gzip
  http-response set-bandwidth-limit slow
  server s 127.0.0.1:{origin.port}
""", port)
        began = time.monotonic()
        plain, _ = curl(f"http://127.0.0.1:{port}/", "--compressed", "-H", "accept-encoding: gzip")
        assert plain == body
        assert (time.monotonic() - began > 1) == limited
