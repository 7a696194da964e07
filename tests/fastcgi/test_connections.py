"""Connections to applications: kept, closed, shared by several requests, and their limits by configuration and GET_VALUES."""
import re
import threading
import time

import pytest

from lib.fastcgi import (CANT_MPX_CONN, GET_VALUES_RESULT, STDOUT, UNKNOWN_TYPE, Application, Conversation, end, pairs, record)
from lib.fcgi_world import read_answer
from lib.program import wait_until

TYPE = b"Content-Type: a/b\r\n\r\n"
ALWAYS = "http-reuse always"


def echo(talk, request):
    """The path of the request."""
    return TYPE + request.params["SCRIPT_NAME"].encode()


def slow(talk, request):
    """The path of the request, after a while."""
    time.sleep(0.2)
    return echo(talk, request)


class Most:
    """An answer that counts how many requests a connection had at once."""

    def __init__(self, seconds=0.2):
        self.seconds, self.most, self.lock = seconds, 0, threading.Lock()
        self.inside = {}

    def __call__(self, talk, request):
        with self.lock:
            self.inside[talk.number] = self.inside.get(talk.number, 0) + 1
            self.most = max(self.most, self.inside[talk.number])
        time.sleep(self.seconds)
        with self.lock:
            self.inside[talk.number] -= 1
        return echo(talk, request)


def together(world, count):
    """Status and body of requests at the same time, by path."""
    found = {}

    def one(number):
        answer = world.ask(f"/{number}")
        found[number] = (answer.status, answer.body)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def own(count):
    """What [`together`] returns where each request gets its own answer."""
    return {number: (200, b"/%d" % number) for number in range(count)}


# keep-conn.

def test_a_connection_is_kept(build):
    world = build(Application(echo)).serve(backend=ALWAYS)
    for number in range(6):
        assert world.ask(f"/{number}").body == b"/%d" % number
    requests = world.application.requests
    assert {request.connection for request in requests} == {1} and {request.flags for request in requests} == {1}
    # An id is not used again at once: records that come late do not belong to another request.
    numbers = [request.number for request in requests]
    assert 0 not in numbers and all(one != other for one, other in zip(numbers, numbers[1:]))


def test_a_client_that_stays_uses_its_connection_again(build):
    """http-reuse safe: only the first request of a client needs a connection of its own."""
    world = build(Application(echo)).serve()
    with world.connect() as client:
        for number in range(5):
            client.sendall(f"GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert read_answer(client).body == b"/%d" % number
    assert len(world.application.conversations) == 1


def test_http_reuse_never(build):
    world = build(Application(echo)).serve(backend="http-reuse never")
    for number in range(4):
        world.ask(f"/{number}")
    assert len(world.application.conversations) == 4


@pytest.mark.parametrize("app", ["option keep-conn", "option mpxs-conns\n    option max-reqs 50"])
def test_http_reuse_never_keeps_a_connection_for_its_client(build, app):
    world = build(Application(slow, concurrent=True)).serve(backend="http-reuse never", app=app)
    clients = [world.connect() for _ in range(5)]
    for number in range(3):
        for client in clients:
            client.sendall(f"GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert [read_answer(client).body for client in clients] == [b"/%d" % number] * 5
    conversations = world.application.conversations
    assert len(conversations) == 5 and not any(talk.ending for talk in conversations)
    for client in clients:
        client.close()
    assert wait_until(lambda: all(talk.ending for talk in conversations), 3)


@pytest.mark.parametrize("app", ["option keep-conn", "no option keep-conn"])
def test_http_reuse_never_leaves_no_idle_connection_in_the_only_worker(build, app):
    """An application that serves one connection at a time, like a pool of php-fpm with one child."""
    worker = threading.Lock()

    def script(talk):
        with worker:
            Conversation.serve(talk)
    world = build(Application(echo, script)).serve(backend="http-reuse never", app=app, server="maxconn 1", server_timeout="2s")
    for number in range(3):
        with world.connect() as client:
            for path in (b"/%d" % number, b"/again"):
                client.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
                assert read_answer(client).body == path


def test_without_keep_conn_each_request_has_a_connection(build):
    world = build(Application(echo)).serve(backend=ALWAYS, app="no option keep-conn")
    for number in range(4):
        assert world.ask(f"/{number}").body == b"/%d" % number
    assert [(request.connection, request.flags) for request in world.application.requests] == [(number, 0) for number in (1, 2, 3, 4)]


def test_without_keep_conn_weir_closes_where_the_application_does_not(build):
    def answer(talk, request):
        request.flags |= 256 | 1
        return echo(talk, request)
    world = build(Application(answer)).serve(backend=ALWAYS, app="no option keep-conn")
    for number in range(3):
        assert world.ask(f"/{number}").status == 200
    assert len(world.application.conversations) == 3
    assert wait_until(lambda: all(talk.ending for talk in world.application.conversations))


def test_an_application_that_closes_although_it_should_not(build):
    world = build(Application(lambda talk, request: (talk.reply(request, echo(talk, request)), talk.close()))).serve(backend=ALWAYS)
    for number in range(5):
        assert world.ask(f"/{number}").body == b"/%d" % number
        time.sleep(0.02)


@pytest.mark.parametrize("app", ["option keep-conn", "option mpxs-conns\n    option max-reqs 4"])
def test_a_connection_counts_once(build, app):
    world = build(Application(echo)).serve(backend=ALWAYS, app=app)
    for number in range(3):
        world.ask(f"/{number}")
    assert len(world.application.conversations) == 1
    names, row = (line.lstrip("# ").split() for line in world.command("show servers conn b").splitlines()[:2])
    values = dict(zip(names, row))
    assert (values["used_max"], values["need_est"]) == ("1", "1")


# Several requests of one connection.

def test_by_default_a_connection_has_one_request_at_a_time(build):
    most = Most()
    world = build(Application(most, concurrent=True)).serve(backend=ALWAYS)
    assert together(world, 6) == own(6) and most.most == 1


def test_multiplexing_needs_max_reqs(build):
    most = Most()
    world = build(Application(most, concurrent=True)).serve(backend=ALWAYS, app="option mpxs-conns")
    assert together(world, 6) == own(6) and most.most == 1


def test_multiplexing(build):
    most = Most()
    world = build(Application(most, concurrent=True)).serve(backend=ALWAYS, app="option mpxs-conns\n    option max-reqs 4")
    world.ask("/warm")
    assert together(world, 8) == own(8)
    assert 1 < most.most <= 4 and len(world.application.conversations) < 8


def test_multiplexing_keeps_to_one_client_by_default(build):
    """http-reuse safe: a slow reader would hold up other clients."""
    most = Most()
    world = build(Application(most, concurrent=True)).serve(app="option mpxs-conns\n    option max-reqs 4")
    assert together(world, 6) == own(6) and most.most == 1


def test_interleaved_responses_of_one_connection(build):
    """Two responses with records that alternate, byte by byte."""
    ready, lock = [], threading.Lock()

    def script(talk):
        while request := talk.next_request():
            if request.params["SCRIPT_NAME"] == "/warm":
                talk.reply(request, TYPE)
                continue
            ready.append(request)
            if len(ready) == 3:
                texts = [TYPE + one.params["SCRIPT_NAME"].encode() * 300 for one in ready]
                for at in range(0, max(map(len, texts)), 7):
                    talk.send(b"".join(record(STDOUT, one.number, text[at:at + 7], at % 5) for one, text in zip(ready, texts) if text[at:at + 7]))
                for one in reversed(ready):
                    talk.end(one)
    world = build(Application(script=script)).serve(backend=ALWAYS, app="option mpxs-conns\n    option max-reqs 10")
    world.ask("/warm")
    assert together(world, 3) == {number: (200, b"/%d" % number * 300) for number in range(3)}


def test_bodies_of_one_connection(build):
    world = build(Application(lambda talk, request: TYPE + str(sum(request.body)).encode(), concurrent=True))
    world.serve(backend=ALWAYS, app="option mpxs-conns\n    option max-reqs 10")
    world.ask("/warm")
    found = {}

    def upload(number):
        found[number] = world.ask("/up", "Content-Length: 200000", method="POST", body=bytes([number]) * 200_000).body
    threads = [threading.Thread(target=upload, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: str(number * 200_000).encode() for number in range(6)}


def test_a_slow_reader_does_not_stop_others_of_its_connection_for_ever(build):
    """Head-of-line blocking is allowed; a deadlock is not."""
    def answer(talk, request):
        return TYPE + b"b" * (3_000_000 if request.params["SCRIPT_NAME"] == "/large" else 3)
    world = build(Application(answer, concurrent=True)).serve(backend=ALWAYS, app="option mpxs-conns\n    option max-reqs 10")
    world.ask("/warm")
    with world.connect() as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        time.sleep(0.2)
        other = threading.Thread(target=world.ask, args=("/small",))
        other.start()
        time.sleep(0.2)
        assert len(read_answer(client, seconds=10).body) == 3_000_000
        other.join(10)
        assert not other.is_alive()


def test_many_requests_of_one_connection(build):
    """Ids are 16 bits."""
    world = build(Application(echo)).serve(backend=ALWAYS)
    with world.connect() as client:
        for batch in range(0, 3000, 100):
            for number in range(batch, batch + 100):
                client.sendall(f"GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                assert read_answer(client).body == b"/%d" % number
    assert len(world.application.conversations) < 5


def test_an_application_that_refuses_to_multiplex(build):
    """Each client gets an answer."""
    def answer(talk, request):
        if len(talk.open) > 1:
            return talk.end(request, 0, CANT_MPX_CONN)
        time.sleep(0.2)
        return echo(talk, request)
    world = build(Application(answer, concurrent=True)).serve(backend=ALWAYS, app="option mpxs-conns\n    option max-reqs 4")
    world.ask("/warm")
    statuses = {status for status, _ in together(world, 6).values()}
    assert 200 in statuses and statuses <= world.want({200, 502}, {200, 502, 0}, "multiplexing refused")


def test_pool_max_conn_and_maxconn(build):
    most = Most(0.05)
    world = build(Application(most, concurrent=True)).serve(backend=ALWAYS, server="maxconn 2 pool-max-conn 1")
    assert together(world, 8) == own(8)
    assert max(len({request.connection for request in world.application.requests}), 0) <= 8
    assert wait_until(lambda: sum(talk.ending is None for talk in world.application.conversations) <= 2)


# GET_VALUES.

GET_VALUES = {"backend": ALWAYS, "app": "option get-values", "server_timeout": "1s"}


@pytest.mark.parametrize("values, most", [
    ({"FCGI_MPXS_CONNS": "1", "FCGI_MAX_REQS": "3"}, 3), ({"FCGI_MPXS_CONNS": "0", "FCGI_MAX_REQS": "3"}, 1), ({"FCGI_MPXS_CONNS": "1"}, 1),
    ({"FCGI_MAX_REQS": "5"}, 1), ({}, 1), ({"FOO": "1"}, 1), ({"FCGI_MPXS_CONNS": "yes", "FCGI_MAX_REQS": "abc"}, 1),
    ({"FCGI_MPXS_CONNS": "", "FCGI_MAX_REQS": ""}, 1), ({"FCGI_MPXS_CONNS": "1", "FCGI_MAX_REQS": "0"}, 1),
    ({"FCGI_MAX_CONNS": "1", "FCGI_MAX_REQS": "2", "FCGI_MPXS_CONNS": "1", "OTHER": "x" * 200}, 2),
    ({"FCGI_MPXS_CONNS": "1", "FCGI_MAX_REQS": "99999999999999999999"}, 8), ({"FCGI_MPXS_CONNS": "1", "FCGI_MAX_REQS": "-1"}, 8)])
def test_values(build, values, most):
    """The answer limits the requests of a connection. What cannot be read leaves one request at a time, or many where it is too large."""
    answer = Most()
    world = build(Application(answer, concurrent=True, values=values)).serve(**GET_VALUES)
    world.ask("/warm")
    assert together(world, 8) == own(8) and answer.most <= most
    assert world.application.conversations[0].asked == [["FCGI_MAX_REQS", "FCGI_MPXS_CONNS"]]


def test_values_are_not_asked_for_by_default(build):
    world = build().serve()
    world.ask("/x")
    assert not world.application.conversations[0].asked


def test_values_with_padding_and_in_pieces(build):
    def values(talk):
        talk.trickle(record(GET_VALUES_RESULT, 0, pairs({"FCGI_MPXS_CONNS": "1", "FCGI_MAX_REQS": "3"}), 200), 3)
    most = Most()
    world = build(Application(most, concurrent=True, values=values)).serve(**GET_VALUES)
    world.ask("/warm")
    assert together(world, 6) == own(6) and most.most <= 3


def test_values_override_max_reqs(build):
    most = Most()
    world = build(Application(most, concurrent=True, values={"FCGI_MPXS_CONNS": "1", "FCGI_MAX_REQS": "2"}))
    world.serve(backend=ALWAYS, app="option get-values\n    option mpxs-conns\n    option max-reqs 10")
    world.ask("/warm")
    assert together(world, 6) == own(6) and most.most <= world.want(2, 10, "values in time")


@pytest.mark.parametrize("data", [
    pytest.param(record(UNKNOWN_TYPE, 0, bytes([9]) + bytes(7)), id="unknown_type"),
    pytest.param(record(GET_VALUES_RESULT, 0), id="an_empty_result"),
    pytest.param(record(GET_VALUES_RESULT, 0, pairs({"FCGI_MPXS_CONNS": "1"})) * 2, id="two_results")])
def test_answers_to_get_values_that_say_nothing(build, data):
    world = build(Application(echo, values=lambda talk: talk.send(data))).serve(**GET_VALUES)
    assert world.ask("/x").body == b"/x"


@pytest.mark.parametrize("data", [
    pytest.param(record(GET_VALUES_RESULT, 0, b"\xff\xff\xff\xff\xff"), id="a_length_above_the_record"),
    pytest.param(record(GET_VALUES_RESULT, 0, b"\x05\x7fabc"), id="a_cut_pair"),
    pytest.param(end(5), id="the_end_of_an_unknown_request")])
def test_broken_answers_to_get_values(build, data):
    world = build(Application(echo, values=lambda talk: talk.send(data))).serve(**{**GET_VALUES, "backend": "retries 0"})
    assert world.ask("/x").status in world.want({200, 502, 503}, {503}, "values")


@pytest.mark.parametrize("end_connection", [lambda talk: talk.close(), lambda talk: talk.reset()])
def test_an_application_that_closes_on_get_values(build, end_connection):
    """Some do. The option is not for them."""
    world = build(Application(echo, values=end_connection)).serve(**{**GET_VALUES, "backend": "retries 0"})
    assert world.ask("/x").status in (502, 503)


def test_silence_on_get_values_is_a_connection_that_times_out(build):
    world = build(Application(echo, values=None)).serve(**{**GET_VALUES, "backend": "retries 0\n    timeout connect 300ms"})
    began = time.monotonic()
    assert world.ask("/x").status in world.want({502, 503, 504}, {503}, "values")
    assert time.monotonic() - began < 4


# Runtime API.

def held(build, **places):
    """A world with a request, the beginning of its response, and a function that ends it."""
    gate = threading.Event()

    def answer(talk, request):
        talk.stdout(request, TYPE + b"half")
        gate.wait(5)
        return b""
    world = build(Application(answer, concurrent=True)).serve(**places)
    asking = threading.Thread(target=world.ask, args=("/x",))
    asking.start()
    world.application.wait_for(1)

    def end():
        gate.set()
        asking.join()
    return world, end


def test_show_sess_has_the_request_on_its_connection(build):
    world, end = held(build)
    assert wait_until(lambda: re.search(r"mux=fcgi", world.command("show sess all"), re.I))
    text = world.command("show sess all")
    if not world.haproxy:
        assert re.search(r"scb=\(fd=\d+ in=0\) mux=fcgi stream=1 in=0 output_ended=0 ended=0 waits=none "
                         r"connection=\(requests=1 draining=0 ended=0 out=0 direct=1 withheld=0 leaving=0\)\n", text), text
    end()


def test_bs_debug_str_names_the_connection(build):
    world = build().serve(frontend='http-after-response set-header x "%[bs.debug_str(3)]|%[bs.id]"', backend=ALWAYS)
    if world.haproxy:
        return
    shown = [world.ask("/x").field("x") for _ in range(2)]
    assert re.fullmatch(r"stream=1 ended=\d in=\d+ out=0 complete=0 body_ended=1 mux=fcgi requests=1 .*leaving=0\|1", shown[0]), shown


def test_trace_fcgi(build):
    """All records of a request, their general events, and their content."""
    world = build(Application(TYPE + b"hello", values={"FCGI_MPXS_CONNS": "0"}))
    world.serve(backend=ALWAYS, app="option get-values")
    if world.haproxy:
        return
    for words in ("sink buf0", "level developer", "verbosity complete", "start now"):
        assert not world.command(f"trace fcgi {words}").strip()
    assert world.ask("/x", "Content-Length: 5", method="POST", body=b"body!").status == 200
    lines = []

    def is_over():
        lines[:] = re.findall(r"\|fcgi\|(.*)\n", world.command("show events buf0"))
        return any("END_REQUEST" in line for line in lines)
    assert wait_until(is_over)
    names = [re.match(r"\d\|(\w+)\] be=b ", line)[1] for line in lines]
    want = ["fconn_new", "tx_get_values", "fconn_send", "fconn_recv", "rx_get_values", "fstrm_new", "tx_begin_request", "tx_params", "tx_stding",
            "fconn_send", "fconn_recv", "rx_stdout", "rx_stdout", "rx_end_req"]
    rest = iter(names)
    assert all(name in rest for name in want), names
    text = "\n".join(lines)
    for part in ("sent STDIN [1] length=5 end ", 'payload="body!"', "received STDOUT [1] length=0 end", "END_REQUEST [1] exit=0 state=RequestComplete",
                 "(requests=1 draining=0 ", 'payload="Content-Type: a/b', "received the limits: requests=1 "):
        assert part in text, text
    # An event counts as the general one, too.
    world.command("trace fcgi event none")
    world.command("trace fcgi event +rx_eoi")
    assert world.ask("/y").status == 200
    assert wait_until(lambda: len(re.findall(r"rx_stdout\] .* length=0 end", world.command("show events buf0"))) == 2)
    assert world.command("show events buf0").count("fcgi|2|tx_params") == 1


def test_trace_fcgi_reports_failures(build):
    world = build(Application(lambda talk, request: talk.reset())).serve()
    if world.haproxy:
        return
    for words in ("sink buf0", "level error", "start now"):
        world.command(f"trace fcgi {words}")
    assert world.ask("/x").status == 502
    assert re.search(r"fcgi\|0\|fconn_err\] be=b connection failed: ", world.command("show events buf0"))


def traced(world):
    """Names and texts of the events of `trace fcgi` in the sink."""
    return re.findall(r"\|fcgi\|\d\|(\w+)\] be=b (.*)\n", world.command("show events buf0"))


def trace(world, *words):
    """Begins a trace of all levels."""
    for line in (*words, "fcgi sink buf0", "fcgi level developer"):
        assert not world.command(f"trace {line}").strip()


def test_trace_fcgi_locks_on_one_stream(build):
    """The stream of the first request, and no other one of its connection."""
    world = build(Application(echo)).serve(backend=ALWAYS, app="option keep-conn")
    if world.haproxy:
        return
    assert world.ask("/0").status == 200
    trace(world, "fcgi lock fstrm", "fcgi start now")
    assert [world.ask(f"/{number}").status for number in (1, 2)] == [200, 200]
    assert wait_until(lambda: traced(world)[-1:] and traced(world)[-1][0] == "fstrm_end")
    names = [name for name, _ in traced(world)]
    assert names[0] == "fstrm_new" and {"tx_begin_request", "tx_params", "rx_stdout", "rx_end_req"} < set(names), names
    assert names.count("fstrm_new") == names.count("fstrm_end") == 1 and not any(name.startswith("fconn") for name in names), names
    assert len(world.application.conversations) == 1


def test_trace_fcgi_follows_the_stream_that_another_trace_locks_on(build):
    world = build(Application(echo)).serve(backend=ALWAYS, app="option keep-conn")
    if world.haproxy:
        return
    trace(world, "stream lock stream", "stream start now", "fcgi follow stream")
    assert [world.ask(f"/{number}").status for number in (1, 2)] == [200, 200]
    assert wait_until(lambda: "fstrm_end" in dict(traced(world)))
    assert [name for name, _ in traced(world)].count("fstrm_new") == 1


def test_trace_fcgi_locks_on_one_connection(build):
    """The first connection until its end, and no later one."""
    world = build(Application(echo)).serve(app="no option keep-conn")
    if world.haproxy:
        return
    trace(world, "fcgi lock connection", "fcgi start now")
    assert [world.ask(f"/{number}").status for number in (1, 2)] == [200, 200]
    assert wait_until(lambda: "fconn_end" in dict(traced(world)))
    names = [name for name, _ in traced(world)]
    assert [names.count(name) for name in ("fconn_new", "fstrm_new", "fconn_end")] == [1, 1, 1], names
