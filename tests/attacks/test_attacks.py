"""Many hostile clients, servers and operators at a time. Other clients are served meanwhile, and memory stays bounded.

Each attack is a function; its docstring states the requirement. During an attack a well-behaved client keeps sending requests and must get every
response soon; the memory gained since the process was idle is divided by the number of attackers. The bounds are for memory held by design (a
buffer and its stream), not for speed: nothing here measures time except to notice a client that hangs.
"""
import os
import random
import re
import resource
import socket
import threading
import time

from attacks.http2 import send_without_end
from lib.origin import OK, Server, end_with_reset
from lib.program import Program, free_port, heard, readable, wait_until

CONFIGURATION = """
global
    nbthread 2
    maxconn {maxconn}
    stats socket {socket} mode 600 level admin
    {extra}
defaults
    mode http
    timeout connect 1s
    timeout client 2s
    timeout server 2s
    timeout http-request 1s
    timeout http-keep-alive 5s
    retries 0
frontend door
    bind 127.0.0.1:{door}
    default_backend good
frontend victim
    bind 127.0.0.1:{victim}
    default_backend good
backend good
    server s1 127.0.0.1:{origin}
listen lying
    bind 127.0.0.1:{lying}
    server s1 127.0.0.1:{liar}
listen raw
    mode tcp
    bind 127.0.0.1:{raw}
    server s1 127.0.0.1:{origin}
"""
NAMES = ("door", "victim", "lying", "raw")
BUFFER = 16384
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Scene:
    """weir between clients, a correct origin, and a misbehaving server with the test's `serve`."""

    def __init__(self, binary, folder, maxconn=3000, extra="", **options):
        self.ports = {name: free_port() for name in NAMES}
        self.socket = os.path.join(folder.path, "cli.sock")
        self.origin, self.liar = Server(answer_all), Server()
        text = CONFIGURATION.format(maxconn=maxconn, extra=extra, socket=self.socket, origin=self.origin.port, liar=self.liar.port, **self.ports)
        self.program = Program(binary, "-db", "-f", folder.file("a.cfg", text), **options)
        self.attackers = []

    def __enter__(self):
        self.program.__enter__()
        self.program.ready(self.ports["victim"])
        for _ in range(20):
            self.ask()
        time.sleep(0.1)
        self.rest = self.program.resident_kb()
        return self

    def __exit__(self, *arguments):
        for attacker in self.attackers:
            attacker.close()
        self.program.__exit__(*arguments)
        self.origin.close()
        self.liar.close()

    def ask(self):
        """Sends a request of a well-behaved client. It must be answered soon."""
        start = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.ports["victim"]), 5) as connection:
            connection.sendall(REQUEST)
            answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"ok"), answer
        assert time.monotonic() - start < 3, "a well-behaved client waited for three seconds"

    def attack(self, count, first=b"", name="door"):
        """Opens `count` connections that send the same bytes first."""
        for _ in range(count):
            attacker = socket.create_connection(("127.0.0.1", self.ports[name]), 5)
            attacker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if first:
                attacker.sendall(first)
            attacker.setblocking(False)
            self.attackers.append(attacker)
        return self.attackers[-count:]

    def each(self):
        """Bytes of resident memory beyond the state at rest, for each attacker."""
        return max(0, self.program.resident_kb() - self.rest) * 1024 / max(1, len(self.attackers))

    def is_well(self):
        """Checks that the program is alive and answers."""
        assert self.program.status(0) is None, f"it ended: {self.program.process.communicate()[0]}"
        for _ in range(5):
            self.ask()


def answer_all(connection):
    """An origin that answers each head at once, before the request's body."""
    held = b""
    while more := connection.recv(65536):
        held += more
        while b"\r\n\r\n" in held:
            held = held.split(b"\r\n\r\n", 1)[1]
            connection.sendall(OK)


def drip(attackers, byte):
    """Sends one byte from each client. Returns the number of open connections."""
    alive = 0
    for attacker in attackers:
        try:
            attacker.send(byte)
            alive += 1
        except BlockingIOError:
            alive += 1
        except OSError:
            pass
    return alive


def received(attacker, seconds=3.0):
    """Reads until EOF or timeout. Returns the bytes, and whether the connection was closed."""
    held, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if not readable([attacker], 0.1):
            continue
        try:
            more = attacker.recv(65536)
        except ConnectionError:
            return held, True
        if not more:
            return held, True
        held += more
    return held, False


def test_slow_request_headers_get_408_and_hold_at_most_a_buffer(binary, folder):
    """Request headers that arrive byte by byte get 408 after `timeout http-request`, although bytes keep arriving, and hold at most a buffer each."""
    with Scene(binary, folder) as scene:
        attackers = scene.attack(500, b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ")
        for _ in range(16):
            drip(attackers, b"a")
            scene.ask()
            time.sleep(0.1)
        assert scene.each() < 1.5 * BUFFER, scene.each()
        ends = [received(attacker, 1) for attacker in attackers[:50]]
        assert all(answer.startswith(b"HTTP/1.1 408 ") and closed for answer, closed in ends), ends[0]
        scene.is_well()


def test_slow_request_bodies_hold_little_memory(binary, folder):
    """A request body that arrives byte by byte is not subject to `timeout http-request`. Memory stays small, and a silent client is disconnected."""
    with Scene(binary, folder) as scene:
        attackers = scene.attack(300, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(10):
            drip(attackers, b"a")
            scene.ask()
            time.sleep(0.05)
        assert scene.each() < 2 * BUFFER, scene.each()
        assert all(received(attacker, 4)[1] for attacker in attackers[:20]), "silence did not end them"
        scene.is_well()


def test_clients_that_do_not_read_hold_at_most_two_buffers(binary, folder):
    """Unread answers stay in the kernel: weir holds at most two buffers per client."""
    with Scene(binary, folder) as scene:
        scene.liar.serve = send_without_end
        scene.attack(300, REQUEST, "lying")
        for _ in range(10):
            scene.ask()
            time.sleep(0.05)
        # The workers' shared memory adds some 10 kB to each of so few.
        assert scene.each() < 2.5 * BUFFER, scene.each()
        scene.is_well()


def test_10000_pipelined_requests_are_all_answered_in_bounded_memory(binary, folder):
    """10,000 pipelined requests on each of several connections: all answered, other clients do not wait, memory stays
    small."""
    with Scene(binary, folder) as scene:
        count = 10_000
        answers = {}

        def pipeline(number):
            with socket.create_connection(("127.0.0.1", scene.ports["door"]), 20) as connection:
                sender = threading.Thread(target=connection.sendall, args=(REQUEST * count,), daemon=True)
                sender.start()
                held = 0
                while held < len(OK) * count and (more := connection.recv(65536)):
                    held += len(more)
                answers[number] = held

        threads = [threading.Thread(target=pipeline, args=(number,), daemon=True) for number in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            scene.ask()
            time.sleep(0.05)
        assert set(answers.values()) == {len(OK) * count}, answers
        assert scene.program.resident_kb() - scene.rest < 2000, "it grew"
        scene.is_well()


def test_tiny_chunks_and_huge_chunk_extensions_do_not_fill_memory(binary, folder):
    """A body in chunks of one byte, and one with huge chunk extensions: forwarded or refused, never hoarded."""
    with Scene(binary, folder) as scene:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        for body in (b"1\r\na\r\n" * 50_000, b"1;" + b"e" * 1_000_000, b"0" * 1_000_000, b"1" * 100, b"0\r\n" + b"T: t\r\n" * 50_000):
            with socket.create_connection(("127.0.0.1", scene.ports["door"]), 5) as attacker:
                attacker.settimeout(3)
                try:
                    attacker.sendall(head + body)
                except OSError:
                    pass  # refused while it was still coming
            scene.ask()
        assert scene.program.resident_kb() - scene.rest < 2000, "it grew"
        scene.is_well()


def test_endless_request_headers_do_not_fill_memory(binary, folder):
    """Request headers larger than a buffer, in one field or in thousands, get 400 or 431 and a close, and hold at most a buffer."""
    with Scene(binary, folder) as scene:
        for filler in (b"X-A: " + b"a" * 1_000_000, b"a: b\r\n" * 100_000, b"\r\n" * 3, b" folded\r\n" * 50_000):
            with socket.create_connection(("127.0.0.1", scene.ports["door"]), 5) as attacker:
                try:
                    attacker.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + filler)
                except OSError:
                    pass
                attacker.setblocking(False)
                received(attacker, 2)
            scene.ask()
        assert scene.program.resident_kb() - scene.rest < 2000, "it grew"
        scene.is_well()


def test_random_bytes_at_every_listener_do_not_stop_the_service(binary, folder):
    """Random bytes, and requests with a byte changed, from a seed, at every listener: weir keeps running and serving."""
    with Scene(binary, folder) as scene:
        seed = random.Random(20261120)
        whole = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nCookie: a=b; c=d\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\n"
        for number in range(1500):
            if number % 3:
                text = bytearray(whole)
                for _ in range(seed.randint(1, 4)):
                    text[seed.randrange(len(text))] = seed.randrange(256)
            else:
                text = seed.randbytes(seed.randint(1, 300))
            with socket.create_connection(("127.0.0.1", scene.ports[seed.choice(("door", "raw"))]), 5) as attacker:
                attacker.sendall(text)
                if number % 2:
                    end_with_reset(attacker)
            if number % 100 == 0:
                scene.ask()
        scene.is_well()


def test_clients_that_reset_at_any_byte_leave_no_memory_or_connection(binary, folder):
    """Connections reset before, in or after a request leave no memory and no open connection."""
    with Scene(binary, folder) as scene:
        for number in range(2000):
            with socket.create_connection(("127.0.0.1", scene.ports["door"]), 5) as attacker:
                attacker.sendall(REQUEST[:number % (len(REQUEST) + 1)])
                end_with_reset(attacker)
        time.sleep(0.2)
        assert scene.program.resident_kb() - scene.rest < 2000, "it grew"
        assert wait_until(lambda: command(scene, "show info").split("CurrConns: ")[1].split("\n")[0] == "0"), "somebody is left"
        scene.is_well()


def command(scene, text):
    """The answer of the runtime API to a command."""
    with socket.socket(socket.AF_UNIX) as operator:
        operator.settimeout(3)
        operator.connect(scene.socket)
        operator.sendall(text.encode() + b"\n")
        held = b""
        while more := operator.recv(65536):
            held += more
        return held.decode("latin-1")


def test_connections_beyond_maxconn_wait_in_the_backlog(binary, folder):
    """With the process's `maxconn` taken, newcomers wait in the backlog and are served when a client leaves."""
    with Scene(binary, folder, maxconn=50) as scene:
        scene.attack(50)
        late = socket.create_connection(("127.0.0.1", scene.ports["door"]), 2)
        late.sendall(REQUEST)
        early = heard(late, 0.2)
        assert early == b"", f"served beyond maxconn: {early}"
        while scene.attackers:
            scene.attackers.pop().close()
        late.settimeout(3)
        assert late.recv(100).startswith(b"HTTP/1.1 200 ")
        late.close()
        scene.is_well()


def test_requests_are_served_again_after_descriptors_ran_out(binary, folder):
    """Without free descriptors, existing connections are served, and new ones as soon as descriptors are free again."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))

    with Scene(binary, folder, maxconn=20, extra="ulimit-n 80", preexec_fn=few) as scene:
        # The admin socket is outside maxconn: it takes the remaining descriptors.
        operators = []
        for _ in range(100):
            operator = socket.socket(socket.AF_UNIX)
            operator.setblocking(False)
            try:
                operator.connect(scene.socket)
            except OSError:
                pass
            operators.append(operator)
        scene.attack(15, b"GET / HT")
        time.sleep(0.3)
        for one in operators + scene.attackers:
            one.close()
        scene.attackers.clear()
        assert wait_until(lambda: answers(scene)), "no request is served any more"
        scene.is_well()


def answers(scene):
    try:
        scene.ask()
        return True
    except (OSError, AssertionError):
        return False


def test_endless_input_on_the_runtime_api_does_not_fill_memory(binary, folder):
    """Endless lines and payloads on the runtime API are refused, and other clients are served."""
    with Scene(binary, folder) as scene:
        for text in (b"a" * 1_000_000, b"show info;" * 100_000, b"add acl #0 <<\n" + b"x\n" * 500_000, bytes(range(256)) * 4000):
            with socket.socket(socket.AF_UNIX) as operator:
                operator.settimeout(2)
                operator.connect(scene.socket)
                try:
                    operator.sendall(text)
                    operator.recv(1000)
                except OSError:
                    pass
            scene.ask()
        assert "Name: " in command(scene, "show info")
        assert scene.program.resident_kb() - scene.rest < 6000, "it grew"
        scene.is_well()


LIES = {
    "endless response headers in one field": lambda c: [c.sendall(b"HTTP/1.1 200 OK\r\nX: "), *[c.sendall(b"x" * 10_000) for _ in range(100)]],
    "endless response header fields": lambda c: [c.sendall(b"HTTP/1.1 200 OK\r\n"), *[c.sendall(b"A: b\r\n" * 1000) for _ in range(100)]],
    "endless interim responses": lambda c: [c.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000) for _ in range(100)],
    "a huge chunk": lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc"),
    "an endless chunk extension": lambda c: [c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"), *[c.sendall(b"x" * 10_000) for _ in range(100)]],
    "endless trailers": lambda c: [c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"), *[c.sendall(b"T: t\r\n" * 1000) for _ in range(100)]],
    "Content-Length and Transfer-Encoding": lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a second response after the first": lambda c: c.sendall(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"),
    "silence": lambda c: time.sleep(3),
    "garbage": lambda c: c.sendall(bytes(range(256)) * 100),
    "a reset": end_with_reset,
    "nothing": lambda c: None,
}


def test_malformed_server_responses_do_not_reach_the_next_client(binary, folder):
    """Whatever a server sends, its client gets a response or a close, the next client gets its own response, and memory stays bounded."""
    with Scene(binary, folder) as scene:
        for name, lie in LIES.items():
            def tell(connection, lie=lie):
                connection.recv(65536)
                lie(connection)

            scene.liar.serve = tell
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", scene.ports["lying"]), 5) as client:
                    client.sendall(REQUEST)
                    client.setblocking(False)
                    answer, _ = received(client, 0.3)
                    assert b"poison" not in answer, name
            scene.ask()
        assert scene.program.resident_kb() - scene.rest < 3000, "it grew"
        scene.is_well()


def test_smuggled_requests_do_not_reach_the_server(binary, folder):
    """An ambiguous request is never forwarded with both meanings: the server sees one request, as weir understood it
    (RFC 9112, 6.3 and 11.2)."""
    seen = []

    def note(connection):
        while more := connection.recv(65536):
            seen.append(more)
            connection.sendall(OK)

    hidden = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
    size = str(len(hidden)).encode()
    cases = [
        b"Transfer-Encoding: chunked\r\nContent-Length: " + size + b"\r\n\r\n0\r\n\r\n" + hidden,
        b"Content-Length: 0\r\nContent-Length: " + size + b"\r\n\r\n" + hidden,
        b"Transfer-Encoding: xchunked\r\nContent-Length: " + size + b"\r\n\r\n" + hidden,
        b"Transfer-Encoding : chunked\r\nContent-Length: " + size + b"\r\n\r\n" + hidden,
        b"Transfer-Encoding:\x0bchunked\r\nContent-Length: " + size + b"\r\n\r\n" + hidden,
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
        b"Transfer-Encoding: identity\r\nContent-Length: " + size + b"\r\n\r\n" + hidden,
        b"Content-Length: 0, " + size + b"\r\n\r\n" + hidden,
        b"Content-Length: -" + size + b"\r\n\r\n" + hidden,
        b"Content-Length: 0x5\r\n\r\n" + hidden,
        b"X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
        b"X: y\nTransfer-Encoding: chunked\r\nContent-Length: " + size + b"\r\n\r\n0\r\n\r\n" + hidden,
        b"Transfer-Encoding: chunked\r\n\r\n0;\n\r\n\r\n" + hidden,
        b"Transfer-Encoding: chunked\r\n\r\n1\r\na0\r\n\r\n" + hidden,
    ]
    with Scene(binary, folder) as scene:
        scene.liar.serve = note
        for case in cases:
            seen.clear()
            with socket.create_connection(("127.0.0.1", scene.ports["lying"]), 5) as attacker:
                attacker.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + case)
                attacker.setblocking(False)
                received(attacker, 0.15)
            text = b"".join(seen)
            head = text.split(b"\r\n\r\n", 1)[0].lower()
            both = b"transfer-encoding" in head and b"content-length" in head
            assert not both, f"forwarded with two lengths: {case} as {text}"
            if b"/hidden" in text:
                # Then it is either a body with one declared length, or a complete second request.
                assert re.search(rb"content-length: ?" + size + rb"(\r\n|$)", head) or text.count(b"HTTP/1.1") == 2, f"{case} became {text}"
        scene.is_well()


SENDERS = {
    "an endless line": lambda n: b"<134>" + b"x" * 200_000,
    "lines that are too long": lambda n: (b"<134>" + b"x" * 17_000 + b"\n") * 10,
    "an octet count above the length of the message": lambda n: b"16000 <134>short",
    "an octet count beyond 64 bits": lambda n: b"99999999999999999999 <134>",
    "garbage": lambda n: random.Random(n).randbytes(50_000),
    "an endless octet count": lambda n: b"1" * 100_000,
    "endless structured data": lambda n: (b"<134>1 - - - - - [" + b"a=\"" * 3000 + b"\n") * 5,
    "newlines": lambda n: b"\n" * 100_000,
}


def test_malformed_syslog_messages_hold_at_most_a_buffer_per_sender(binary, folder):
    """Whatever syslog senders do, each holds at most a buffer. Web clients get their responses, and messages of correct senders are relayed."""
    port, count = free_port(), 40
    heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard.bind(("127.0.0.1", 0))
    heard.settimeout(5)
    relay = f"\nlog-forward f\n    bind 127.0.0.1:{port}\n    dgram-bind 127.0.0.1:{port}\n    maxconn {8 * count + 10}\n    timeout client 20s\n" \
            f"    log 127.0.0.1:{heard.getsockname()[1]} format raw local0 emerg\n"
    with Scene(binary, folder, extra=relay) as scene:
        for name, lie in SENDERS.items():
            for number in range(count):
                sender = socket.create_connection(("127.0.0.1", port), 5)
                sender.setblocking(False)
                try:
                    sender.send(lie(number))
                except OSError:
                    pass  # hung up on meanwhile
                scene.attackers.append(sender)
            scene.ask()
        drip(scene.attackers, b"7")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for size in (0, 1, 65_000):
                sender.sendto(b"<134>" + b"\xff" * size, ("127.0.0.1", port))
        scene.ask()
        assert scene.each() < BUFFER + 4096, f"{scene.each():.0f} bytes for each sender"
        with socket.create_connection(("127.0.0.1", port), 5) as sender:
            sender.sendall(b"<128>behaves\n")
            while heard.recv(70_000) != b"behaves\n":
                pass
        scene.is_well()
