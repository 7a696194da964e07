"""Calls of gRPC through weir, by the real library on both ends: `grpcio`."""
import os
import socket
import subprocess
import threading
from concurrent import futures

import grpc
from lib.program import Program, ask, free_port, wait_until

CONFIGURATION = """
global
    stats socket {cli} level admin
    {extra}
defaults
    mode http
    log {log} local0
    log-format "%ST %ts %[var(txn.path)] %[fs.aborted] %[bs.aborted]"
    timeout connect 2s
    timeout client 5s
    timeout server 5s
frontend fe
    bind 127.0.0.1:{port} {bind}
    http-request set-var(txn.path) path
    default_backend be
backend be
    server s 127.0.0.1:{server} proto h2
"""


class Service:
    """A server with one method of each kind. Messages are bytes."""

    def __init__(self):
        self.ended = {}
        handlers = {
            "Echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
            "Many": grpc.unary_stream_rpc_method_handler(self.many),
            "Count": grpc.stream_unary_rpc_method_handler(self.count),
            "Talk": grpc.stream_stream_rpc_method_handler(self.talk),
            "Hang": grpc.unary_stream_rpc_method_handler(self.hang),
        }
        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=80), options=SIZES)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("weir.Test", handlers),))
        self.port = self.server.add_insecure_port("127.0.0.1:0")

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()

    @staticmethod
    def echo(request, context):
        asked = dict(context.invocation_metadata())
        context.send_initial_metadata((("first", asked.get("asked", "-")), ("data-bin", b"\x00\xff")))
        context.set_trailing_metadata((("last", str(len(request))),))
        return request

    @staticmethod
    def fail(request, context):
        context.set_trailing_metadata((("why", "because"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "no such thing: ü")

    @staticmethod
    def many(request, context):
        count, size = (int(number) for number in request.split())
        context.set_trailing_metadata((("last", str(count)),))
        return (bytes([at % 256]) * size for at in range(count))

    @staticmethod
    def count(requests, context):
        return str(sum(len(request) for request in requests)).encode()

    @staticmethod
    def talk(requests, context):
        for request in requests:
            yield request[::-1]
        context.set_trailing_metadata((("last", "bye"),))

    def hang(self, request, context):
        ended = self.ended[request] = threading.Event()
        context.add_callback(ended.set)
        yield b"begun"
        ended.wait(10)


SIZES = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class World:
    """The service, weir before it, and a channel through that."""

    def __init__(self, binary, folder, bind="proto h2", extra="", credentials=None):
        self.service, self.port = Service(), free_port()
        self.cli, self.log_path = os.path.join(folder.path, "cli"), os.path.join(folder.path, "log")
        self.log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.log.bind(self.log_path)
        self.log.settimeout(5)
        text = CONFIGURATION.format(cli=self.cli, log=self.log_path, port=self.port, server=self.service.port, bind=bind, extra=extra)
        self.program = Program(binary, "-f", folder.file("a.cfg", text))
        self.credentials = credentials

    def __enter__(self):
        self.service.__enter__()
        self.program.__enter__()
        self.program.ready(self.port)
        if self.credentials:
            self.channel = grpc.secure_channel(f"localhost:{self.port}", self.credentials, options=SIZES)
        else:
            self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", options=SIZES)
        return self

    def __exit__(self, *_):
        self.channel.close()
        self.program.__exit__()
        self.service.__exit__()
        self.log.close()

    def method(self, kind, name):
        """A method to call: bytes in, bytes out."""
        return getattr(self.channel, kind)(f"/weir.Test/{name}")

    def logged(self):
        """The next line of the log, without its header."""
        return self.log.recv(2000).decode().split(": ", 1)[1].strip()

    def connections(self):
        """Connections that calls came over: all but the one that found out whether anybody listens."""
        return self.figure("h2_total_connections") - 1

    def figure(self, name, kind="fe 1"):
        """A counter of the frontend, or of an object that `show stat` takes."""
        text = ask(self.cli, f"show stat {kind} -1 typed")
        return next(int(line.rsplit(":", 1)[1]) for line in text.splitlines() if f".{name}." in line)


def test_grpc_unary_calls_carry_metadata_and_messages_of_any_size(binary, folder):
    """Metadata first and last, text and bytes; empty and large messages."""
    with World(binary, folder) as world:
        for size in (0, 1, 16_384, 5_000_000):
            answer, call = world.method("unary_unary", "Echo").with_call(b"x" * size, metadata=(("asked", "this"),), timeout=20)
            assert answer == b"x" * size, size
            first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
            assert (first["first"], first["data-bin"]) == ("this", b"\x00\xff"), first
            assert last["last"] == str(size) and call.code() is grpc.StatusCode.OK, last
            assert world.logged() == "200 -- /weir.Test/Echo 0 0"


def test_grpc_error_statuses_arrive_in_trailers_or_headers(binary, folder):
    """An error status arrives in trailers, or in a head alone; unknown methods fail."""
    with World(binary, folder) as world:
        for name, code, words in (("Fail", grpc.StatusCode.NOT_FOUND, "no such thing: ü"),
                                  ("Nothing", grpc.StatusCode.UNIMPLEMENTED, "Method not found!")):
            try:
                world.method("unary_unary", name)(b"", timeout=5)
                raise AssertionError(f"{name} succeeds")
            except grpc.RpcError as error:
                assert (error.code(), error.details()) == (code, words), error
                assert name != "Fail" or dict(error.trailing_metadata())["why"] == "because"
            line = world.logged()
            assert line == f"200 -- /weir.Test/{name} 0 0", line


def test_grpc_response_streams_arrive_complete_and_in_order(binary, folder):
    """All messages arrive, in their order, whatever their size."""
    with World(binary, folder) as world:
        for count, size in ((0, 0), (1, 0), (1000, 10), (20, 300_000)):
            call = world.method("unary_stream", "Many")(f"{count} {size}".encode(), timeout=20)
            answers = list(call)
            assert answers == [bytes([at % 256]) * size for at in range(count)], (count, size, len(answers))
            assert dict(call.trailing_metadata())["last"] == str(count)


def test_grpc_request_streams_arrive_complete(binary, folder):
    """The response arrives after the last message of the request."""
    with World(binary, folder) as world:
        for count, size in ((0, 0), (1000, 10), (20, 300_000)):
            answer = world.method("stream_unary", "Count")(iter([b"x" * size] * count), timeout=20)
            assert answer == str(count * size).encode(), (count, size, answer)


def test_grpc_bidirectional_streams_are_not_held_back(binary, folder):
    """Each answer comes before the next request is sent: nothing is held back."""
    with World(binary, folder) as world:
        answered = threading.Semaphore(1)

        def requests():
            for at in range(100):
                assert answered.acquire(timeout=5), "an answer is held back"
                yield str(at).encode() * (1 + at % 7 * 1000)

        call = world.method("stream_stream", "Talk")(requests(), timeout=20)
        for at, answer in enumerate(call):
            assert answer == (str(at).encode() * (1 + at % 7 * 1000))[::-1], at
            answered.release()
        assert at == 99 and dict(call.trailing_metadata())["last"] == "bye"


def test_cancelled_and_expired_grpc_calls_end_at_the_server(binary, folder):
    """A call that its client cancels, or that exceeds its deadline, ends at the server, and others continue on the same
    connections."""
    with World(binary, folder) as world:
        hang = world.method("unary_stream", "Hang")
        call = hang(b"given up", timeout=20)
        assert next(call) == b"begun"
        call.cancel()
        assert wait_until(lambda: world.service.ended[b"given up"].is_set()), "the server does not learn of it"
        line = world.logged()
        assert line == "200 CD /weir.Test/Hang 1 0", line
        late = hang(b"late", timeout=0.5)
        assert next(late) == b"begun"
        try:
            next(late)
            raise AssertionError("it goes on")
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED, error
        assert wait_until(lambda: world.service.ended[b"late"].is_set()), "the server does not learn of it"
        # The server has the deadline, too (grpc-timeout), and may be the first to end the call.
        line, resets = world.logged(), 2
        if line == "200 -- /weir.Test/Hang 0 0":
            resets = world.figure("h2_rst_stream_rcvd")
        else:
            assert line == "200 CD /weir.Test/Hang 1 0", line
        assert world.method("unary_unary", "Echo")(b"still", timeout=5) == b"still"
        assert world.figure("h2_rst_stream_rcvd") == resets in (1, 2) and world.connections() == 1
        assert world.figure("h2_total_connections", "be 2") == 1
        assert wait_until(lambda: world.figure("h2_backend_open_streams") == 0)


def test_sixty_concurrent_grpc_calls_share_one_connection(binary, folder):
    """Sixty calls of all kinds at a time on one connection."""
    with World(binary, folder) as world:
        unary_call, talk = world.method("unary_unary", "Echo"), world.method("stream_stream", "Talk")

        def one(at):
            message = bytes([at]) * (at * 5000)
            if at % 2:
                return unary_call(message, timeout=20) == message
            return list(talk(iter([message] * 5), timeout=20)) == [message] * 5

        with futures.ThreadPoolExecutor(60) as pool:
            assert all(pool.map(one, range(60)))
        assert world.connections() == 1


def test_grpc_calls_over_tls(binary, folder):
    """The client offers only `h2` by ALPN."""
    key, certificate = os.path.join(folder.path, "key"), os.path.join(folder.path, "certificate")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out",
                    certificate, "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                   check=True, capture_output=True)
    with open(key) as one, open(certificate) as other:
        both = folder.file("site.pem", one.read() + other.read())
    with open(certificate, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    with World(binary, folder, f"ssl crt {both} alpn h2,http/1.1", credentials=credentials) as world:
        assert world.method("unary_unary", "Echo")(b"x" * 100_000, timeout=20) == b"x" * 100_000
        assert len(list(world.method("unary_stream", "Many")(b"50 2000", timeout=20))) == 50


def test_a_grpc_call_fails_when_its_server_stops(binary, folder):
    """A call fails with a status when its server goes away."""
    with World(binary, folder) as world:
        call = world.method("unary_stream", "Hang")(b"left", timeout=20)
        assert next(call) == b"begun"
        world.service.server.stop(None).wait()
        try:
            next(call)
            raise AssertionError("it goes on")
        except grpc.RpcError as error:
            assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL,
                                    grpc.StatusCode.UNKNOWN), error
        line = world.logged()
        # The library ends the call itself, or its connection ends.
        assert line.startswith(("200 SD /weir.Test/Hang 0 ", "200 -- /weir.Test/Hang 0 ")), line
