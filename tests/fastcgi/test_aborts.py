"""Clients that leave: the application receives ABORT_REQUEST or the end of its connection, and no connection stays occupied."""
import threading
import time

import pytest

from lib.fastcgi import ABORT, STDIN, Application
from lib.fcgi_world import CONFIGURATION, read_answer
from lib.origin import end_with_reset
from lib.program import wait_until

TYPE = b"Content-Type: a/b\r\n\r\n"
SHARED = {"backend": "option abortonclose\n    http-reuse always", "app": "option mpxs-conns\n    option max-reqs 10"}
# A backend of HTTP servers.
HTTP = CONFIGURATION.replace("use-fcgi-app app", "")


def polite(talk):
    """Answers requests, but /hang never and /part half. An aborted request is ended, as the specification says (5.4)."""
    while record := talk.read():
        request = talk.open.get(record.request)
        if record.kind == ABORT and request:
            talk.end(request)
        elif request and record.kind == STDIN and not record.content:
            if request.params["SCRIPT_NAME"] == "/part":
                talk.stdout(request, TYPE + b"part")
            elif request.params["SCRIPT_NAME"] != "/hang":
                talk.reply(request, TYPE + b"fine")


def leave(world, path, reset=False, method="GET", more=b""):
    """A client that sends a request, waits for it to arrive, and leaves."""
    count = len(world.application.requests)
    client = world.connect()
    client.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\n".encode() + more + b"\r\n")
    request = world.application.wait_for(count + 1)[-1]
    assert wait_until(lambda: request.started)
    if path == "/part":
        client.settimeout(5)
        data = b""
        while b"part" not in data:
            data += client.recv(1000)
    if reset:
        end_with_reset(client)
    client.close()
    return request


def told(world, request, seconds=3):
    """Whether the application learnt that the client has left."""
    return wait_until(lambda: request.aborted or world.application.conversations[request.connection - 1].ending is not None, seconds)


@pytest.mark.parametrize("path, reset", [("/hang", False), ("/hang", True), ("/part", True)])
@pytest.mark.parametrize("keep", ["", "no option keep-conn"])
def test_the_application_receives_the_abort(build, path, reset, keep):
    world = build(Application(script=polite)).serve(backend="option abortonclose", app=keep)
    request = leave(world, path, reset)
    assert told(world, request, 0.5 if world.haproxy else 3) or (not keep and world.differs("abort"))
    assert wait_until(lambda: world.requests_logged(), 3)
    logged = world.logged()
    if path == "/part":
        assert (logged.status, logged.flags) == (200, "CD--")
    else:
        assert logged.status == 400 and logged.flags in world.want({"CH--"}, {"CH--", "CD--"}, "reset before the head")


def test_without_abortonclose_a_request_goes_on(build):
    """A half-closed client may still read."""
    world = build(Application(lambda talk, request: time.sleep(0.3) or TYPE + b"fine")).serve(backend="no option abortonclose")
    with world.connect() as client:
        client.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        client.shutdown(1)
        assert read_answer(client).body == b"fine"


def test_others_of_the_connection_go_on(build):
    """On a connection with several requests an abort ends one of them."""
    world = build(Application(script=polite)).serve(**SHARED)
    world.ask("/warm")
    leaving = leave(world, "/hang")
    told_of_it = told(world, leaving, 0.5 if world.haproxy else 3)
    assert told_of_it == world.want(True, False, "abort")
    assert world.ask("/next").body == b"fine"
    assert all(not request.aborted for request in world.application.requests if request is not leaving)


def test_a_request_does_not_wait_behind_one_that_was_given_up(build):
    """An application with one request at a time: php-fpm."""
    def script(talk):
        while request := talk.next_request():
            if request.params["SCRIPT_NAME"] == "/hang":
                talk.hang()
            talk.reply(request, TYPE + b"fine")
    world = build(Application(script=script)).serve(backend="option abortonclose\n    http-reuse always", server_timeout="1s")
    world.ask("/warm")
    leave(world, "/hang")
    time.sleep(0.2)
    began = time.monotonic()
    status = world.ask("/next").status
    assert status in world.want({200}, {200, 504, 0}, "abort")
    assert world.haproxy or time.monotonic() - began < 0.8


def test_an_upload_that_ends_early(build):
    """An application must not take half a body for a whole one."""
    world = build(Application(script=polite)).serve(backend="option abortonclose")
    client = world.connect()
    client.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"b" * 50000)
    assert wait_until(lambda: world.application.requests)
    request = world.application.last
    end_with_reset(client)
    client.close()
    assert told(world, request)
    assert not request.complete
    assert world.params("/next")["SCRIPT_NAME"] == "/next"


def test_a_connection_is_used_again_after_an_abort_that_was_answered(build):
    world = build(Application(script=polite)).serve(**SHARED)
    world.ask("/warm")
    for _ in range(5):
        leave(world, "/hang")
        time.sleep(0.05)
    assert world.ask("/next").body == b"fine"
    assert len(world.application.conversations) <= 6


def test_many_aborts_under_load(build):
    """Clients leave at random while others are served; each of these gets its own answer."""
    def answer(talk, request):
        time.sleep(0.01)
        return TYPE + request.params["SCRIPT_NAME"].encode()
    world = build(Application(answer, concurrent=True)).serve(**SHARED)
    wrong = []

    def client(number):
        for turn in range(20):
            path = f"/{number}-{turn}"
            if turn % 3 == 0:
                with world.connect() as connection:
                    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                    time.sleep(0.001 * (number % 12))
            else:
                answer = world.ask(path)
                if answer.body != path.encode():
                    wrong.append((path, answer.raw[:200]))
    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("framing", [b"Content-Length: 10\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"])
@pytest.mark.parametrize("places", [
    pytest.param({}, id="fastcgi"),
    pytest.param({"text": HTTP, "servers": "server h 127.0.0.1:1", "backend": "option http-buffer-request"}, id="http_buffer_request"),
    pytest.param({"text": HTTP, "servers": "server h 127.0.0.1:1", "frontend": "http-request wait-for-body time 2s"}, id="wait_for_body")])
def test_a_client_that_leaves_while_its_body_is_awaited(build, reset, framing, places):
    """It aborts its transfer, however it leaves. The request is not invalid."""
    world = build().serve(**places)
    with world.connect() as client:
        client.sendall(b"POST /up HTTP/1.1\r\nHost: x\r\n" + framing)
        time.sleep(0.1)
        if reset:
            end_with_reset(client)
    line = world.logged()
    assert (line.server, line.status, line.flags) == ("b/<NOSRV>", 400, "CR--")
    assert (world.stat("f", "FRONTEND", "ereq"), world.stat("b", "BACKEND", "cli_abrt")) == ("0", "1")
    assert not world.application.requests
