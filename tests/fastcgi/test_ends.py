"""How a response fails: the states of END_REQUEST, deaths of the application in each state, time outs, and retries."""
import socket
import time

import pytest

from lib.fastcgi import (CANT_MPX_CONN, COMPLETE, OVERLOADED, STDOUT, UNKNOWN_ROLE, Application, close_at_once, ends_with, record, records,
                         reset_at_once)
from lib.fcgi_world import read_answer
from lib.program import wait_until

TYPE = b"Content-Type: a/b\r\n\r\n"
STATES = [pytest.param(COMPLETE, id="complete"), pytest.param(CANT_MPX_CONN, id="cant_mpx_conn"), pytest.param(OVERLOADED, id="overloaded"),
          pytest.param(UNKNOWN_ROLE, id="unknown_role"), pytest.param(9, id="an_unassigned_state")]


def verdict(world):
    """Status, flags and retries of the log line."""
    logged = world.logged()
    return logged.status, logged.flags, logged.retries


@pytest.mark.parametrize("state", STATES)
def test_an_end_before_the_head(build, state):
    world = build(Application(ends_with(state))).serve()
    assert world.ask("/x").status == 502 and verdict(world) == (502, "SH--", "0")
    assert int(world.stat("b", "s", "eresp")) >= 1 and world.stat("b", "BACKEND", "hrsp_5xx") == "1"


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("body", [b"", b"body"])
def test_an_end_after_the_head(build, state, body):
    """The response is there. Its end is that of the body, whatever the state says."""
    world = build(Application(ends_with(state, before=TYPE + body))).serve()
    answer = world.ask("/x")
    assert (answer.status, answer.body, answer.complete) == (200, body, True) and verdict(world) == (200, "----", "0")


@pytest.mark.parametrize("status", [1, 255])
def test_an_exit_status_without_output(build, status):
    world = build(Application(ends_with(COMPLETE, status=status))).serve()
    assert world.ask("/x").status == 502 and verdict(world) == (502, "SH--", "0")


# Deaths.

def after(data=None, reset=False, pause=0.0):
    """An answer of some bytes, made by a function of the request's id, before the connection ends."""
    def answer(talk, request):
        if data:
            talk.send(data(request.number))
        time.sleep(pause)
        (talk.reset if reset else talk.close)()
    return answer


def out(data):
    """A function of the request's id: a record of STDOUT."""
    return lambda number: records(STDOUT, number, data)


BEFORE_HEAD = [
    pytest.param(after(), id="close"), pytest.param(after(reset=True), id="reset"),
    pytest.param(after(lambda number: b"\1\6\0"), id="close_in_a_header"),
    pytest.param(after(lambda number: out(TYPE + b"body")(number)[:-6]), id="close_in_a_record"),
]


@pytest.mark.parametrize("answer", BEFORE_HEAD)
def test_death_before_the_head(build, answer):
    world = build(Application(answer)).serve()
    assert world.ask("/x").status == 502 and verdict(world) == (502, "SH--", "0")
    assert int(world.stat("b", "s", "eresp")) >= 1
    # The next request has a connection of its own.
    world.application.answer = TYPE + b"next"
    assert world.ask("/next").body == b"next"


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("data", [b"X: a\r\n", b"X: a", b"Status: 200\r\nX: a\r\n"])
def test_death_in_the_head(build, data, reset):
    world = build(Application(after(out(data), reset, 0.05))).serve(server_timeout="500ms")
    assert world.ask("/x").status in world.want({502}, {502, 504}, "unfinished head")
    assert world.logged().flags in world.want({"SH--"}, {"SH--", "sH--"}, "unfinished head")


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("head", [TYPE, b"Content-Length: 9\r\n\r\n"])
@pytest.mark.parametrize("body", [b"", b"body"])
def test_death_in_the_body_truncates_it(build, head, body, reset):
    world = build(Application(after(out(head + body), reset, 0.05))).serve()
    answer = world.ask("/x")
    assert (answer.status, answer.body, answer.complete) == (200, body, False)
    assert verdict(world) == (200, "SD--", "0")


@pytest.mark.parametrize("data", [
    pytest.param(out(b"Content-Length: 4\r\n\r\nbody"), id="the_length_is_there"),
    pytest.param(lambda number: out(TYPE + b"body")(number) + record(STDOUT, number), id="the_empty_stdout_is_there"),
])
def test_death_after_the_body_does_not_fail_the_response(build, data):
    world = build(Application(after(data))).serve()
    answer = world.ask("/x")
    assert (answer.status, answer.body, answer.complete) == (200, b"body", True) and verdict(world) == (200, "----", "0")


def test_a_silent_application_times_out(build):
    world = build(Application(lambda talk, request: talk.hang())).serve(server_timeout="300ms")
    assert world.ask("/x").status == 504 and verdict(world) == (504, "sH--", "0")


def test_a_time_out_in_the_body(build):
    world = build(Application(lambda talk, request: (talk.stdout(request, TYPE + b"body"), talk.hang())[1])).serve(server_timeout="300ms")
    answer = world.ask("/x")
    assert (answer.status, answer.complete) == (200, False) and verdict(world) == (200, "sD--", "0")


def test_a_time_out_aborts_the_request(build):
    """The application receives the abort, so that it can stop."""
    world = build(Application(lambda talk, request: talk.hang())).serve(server_timeout="300ms")
    world.ask("/x")
    assert wait_until(lambda: world.application.last.aborted or world.application.conversations[0].ending)


# Retries.

@pytest.fixture
def pair(build):
    """Starts two servers: the first misbehaves, the second is good. Returns the world."""
    goods = []

    def start(script, lines=""):
        goods.append(Application(TYPE + b"good"))
        application = Application(script=script) if script else Application()
        world = build(application)
        if not script:
            application.close()
        return world.serve(servers="server s {address} proto fcgi\n    server g " + goods[-1].address + " proto fcgi",
                           backend=f"balance first\n    retries 2\n    {lines}")
    yield start
    for good in goods:
        good.cut()


def refuse_overload(talk):
    """Answers each request with OVERLOADED."""
    while request := talk.next_request():
        talk.end(request, 0, OVERLOADED)


def close_after_request(talk):
    """Closes once a request is there."""
    talk.next_request()
    talk.close()


def fail(talk):
    """Answers each request with 500."""
    while request := talk.next_request():
        talk.reply(request, b"Status: 500\r\n\r\n")


def junk(talk):
    """Answers each request with bytes that are not a CGI response."""
    while request := talk.next_request():
        talk.reply(request, b"junk\r\n\r\n")


def test_a_refused_connection_is_redispatched(pair):
    world = pair(None, "option redispatch 1")
    assert world.ask("/x").body == b"good"


@pytest.mark.parametrize("script", [close_at_once, close_after_request, refuse_overload])
def test_without_retry_on_a_failed_request_is_not_repeated(pair, script):
    world = pair(script, "option redispatch 1")
    assert world.ask("/x").status == 502 and world.logged().flags == "SH--"


def test_a_reset_at_once_is_a_failed_request_or_connection(pair):
    """It may come while the connection opens."""
    world = pair(reset_at_once, "option redispatch 1")
    answer = world.ask("/x")
    assert answer.status == 502 or answer.body == b"good"


@pytest.mark.parametrize("script, words, status", [
    (close_at_once, "all-retryable-errors", 502), (close_at_once, "empty-response", 502), (close_after_request, "all-retryable-errors", 502),
    (close_after_request, "empty-response", 502), (refuse_overload, "all-retryable-errors", 502), (fail, "500", 500), (junk, "junk-response", 502)])
def test_retry_on(pair, script, words, status):
    world = pair(script, f"retry-on {words}")
    assert world.ask("/x").status == status and verdict(world)[0] == status
    assert len(world.application.conversations) == 3 or len(world.application.requests) == 3
    assert world.logged().retries == "2"


@pytest.mark.parametrize("script, words", [(close_after_request, "all-retryable-errors"), (refuse_overload, "all-retryable-errors"), (fail, "500"),
                                           (junk, "junk-response")])
def test_retry_on_another_server(pair, script, words):
    world = pair(script, f"retry-on {words}\n    option redispatch 1")
    assert world.ask("/x").body == b"good" and world.logged().retries == "+1"


def test_a_body_is_repeated_with_the_request(build):
    def answer(talk, request):
        if len(talk.application.requests) == 1:
            talk.close()
        return TYPE + request.body
    world = build(Application(answer)).serve(backend="retry-on all-retryable-errors")
    assert world.ask("/x", "Content-Length: 5", method="POST", body=b"hello").body == b"hello"
    assert [request.body for request in world.application.requests] == [b"hello", b"hello"]


def test_a_time_out_of_the_application_with_retry_on(build):
    def answer(talk, request):
        if len(talk.application.requests) == 1:
            talk.hang()
        return TYPE + b"second"
    world = build(Application(answer)).serve(backend="retry-on response-timeout", server_timeout="300ms")
    assert world.ask("/x").body == b"second"


def test_a_dead_server_is_503(build):
    world = build()
    world.application.close()
    world.serve(backend="retries 0")
    assert world.ask("/x").status == 503 and verdict(world) == (503, "SC--", "0")


def test_a_connection_that_died_while_idle_is_not_used(build):
    world = build().serve(backend="http-reuse always")
    assert world.ask("/1").status == 200
    for talk in world.application.conversations:
        talk.connection.shutdown(socket.SHUT_RDWR)
    time.sleep(0.1)
    assert world.ask("/2").status == 200


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_request_on_a_kept_connection_that_dies_under_it(build, method):
    """The application may have begun with it, so only a request with a method that allows it may be sent again (RFC 9110, 9.2.2)."""
    def script(talk):
        talk.reply(talk.next_request(), TYPE + b"one")
        if talk.next_request():
            talk.close()
    world = build(Application(script=script)).serve(backend="http-reuse always")
    with world.connect() as client:
        client.sendall(b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(client).body == b"one"
        client.sendall(f"{method} /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        status = read_answer(client).status
    repeats = method == "GET" and not world.differs("repeats on kept connections")
    assert status in ({0, 200, 502} if repeats else {0, 502})
    assert len(world.application.requests) <= (3 if repeats else 2)
