"""Records as an application may send them: cut anywhere, padded, interleaved, of unknown types and ids, and not valid at all."""
import pytest

from lib.fastcgi import (ABORT, BEGIN, DATA, GET_VALUES, GET_VALUES_RESULT, PARAMS, STDERR, STDIN, STDOUT, UNKNOWN_TYPE, Application, end, record,
                         records, whole)

TYPE = b"Content-Type: a/b\r\n\r\n"


def sending(*pieces):
    """An answer of records made by functions of the request's id, or bytes; then the connection is read on."""
    def answer(talk, request):
        talk.open.pop(request.number, None)
        talk.send(b"".join(piece(request.number) if callable(piece) else piece for piece in pieces))
    return answer


BODY = [lambda number: whole(number, TYPE + b"body")]


def asked(build, answer, **places):
    """The world and the [`Answer`] to one request."""
    world = build(Application(answer)).serve(**places)
    return world, world.ask("/x")


def accepted(world, answer, body=b"body"):
    """The response was valid."""
    assert (answer.status, answer.body, answer.complete) == (200, body, True), answer.raw[:1000]
    assert world.logged().flags == "----"


@pytest.mark.parametrize("padding", [0, 1, 2, 7, 8, 9, 100, 254, 255])
@pytest.mark.parametrize("size", [1, 37, 65535])
def test_padding(build, size, padding):
    accepted(*asked(build, sending(lambda number: whole(number, TYPE + b"body" * 100, size, padding))), b"body" * 100)


def test_a_response_byte_by_byte(build):
    def answer(talk, request):
        talk.open.pop(request.number)
        talk.trickle(whole(request.number, TYPE + b"body", 3, 5))
    accepted(*asked(build, answer))


def test_a_response_cut_at_each_byte(build):
    def answer(talk, request):
        talk.open.pop(request.number)
        data, cut = whole(request.number, TYPE + b"body", 11, 3), int(request.params["QUERY_STRING"])
        talk.trickle(data, cut if cut > len(data) // 2 else max(cut, 1), 0.002 if cut > 8 else 0)
    world = build(Application(answer)).serve()
    for cut in range(1, len(whole(1, TYPE + b"body", 11, 3))):
        answer = world.ask(f"/x?{cut}")
        assert (answer.status, answer.body, answer.complete) == (200, b"body", True), cut


@pytest.mark.parametrize("size", [1, 2, 100, 16384, 65535])
def test_records_of_all_sizes(build, size):
    body = bytes(range(256)) * (20 if size < 100 else 4000)
    accepted(*asked(build, sending(lambda number: whole(number, TYPE + body, size))), body)


@pytest.mark.parametrize("pieces", [
    pytest.param([lambda number: record(77, number, b"abc")], id="an_unknown_type_of_the_request"),
    pytest.param([record(UNKNOWN_TYPE, 0, bytes([9]) + bytes(7))], id="unknown_type"),
    *[pytest.param([lambda number, kind=kind: record(kind, number, bytes(8))], id=f"kind_{kind}")
      for kind in (BEGIN, ABORT, PARAMS, STDIN, DATA, GET_VALUES, GET_VALUES_RESULT)],
    pytest.param([lambda number: record(STDOUT, number + 50, b"evil")], id="stdout_of_an_unknown_id"),
    pytest.param([lambda number: record(STDERR, number + 50, b"evil")], id="stderr_of_an_unknown_id"),
    pytest.param([lambda number: end(number + 50)], id="end_of_an_unknown_id"),
    pytest.param([lambda number: record(STDOUT, 65535, b"evil" * 10000)], id="many_bytes_of_an_unknown_id"),
    pytest.param([lambda number: record(STDERR, number, b"")], id="an_empty_stderr"),
    pytest.param([lambda number: record(STDERR, number, b"error\n")], id="stderr_that_is_not_logged"),
])
def test_records_without_effect(build, pieces):
    accepted(*asked(build, sending(*pieces, *BODY)))


@pytest.mark.parametrize("pieces", [
    pytest.param([lambda number: record(0, 0, b"abc")], id="type_0"),
    pytest.param([lambda number: record(STDOUT, 0, b"evil")], id="stdout_of_id_0"),
    pytest.param([lambda number: record(77, 0, b"abc")], id="an_unknown_management_type"),
])
def test_records_that_break_the_connection(build, pieces):
    world, answer = asked(build, sending(*pieces, *BODY))
    assert answer.status == 502 and world.logged().flags == "SH--"
    world.application.answer = TYPE + b"next"
    assert world.ask("/next").body == b"next"


def test_stdout_and_stderr_interleaved(build):
    def pieces(number):
        out, error = lambda data: record(STDOUT, number, data, 3), lambda data: record(STDERR, number, data, 5)
        return (error(b"1") + out(TYPE[:5]) + error(b"2") + out(TYPE[5:] + b"bo") + error(b"3") + error(b"4") + out(b"dy") + record(STDERR, number)
                + record(STDOUT, number) + error(b"late") + end(number))
    accepted(*asked(build, sending(pieces)))


def test_the_reserved_byte_is_ignored(build):
    accepted(*asked(build, sending(lambda number: record(STDOUT, number, TYPE + b"body", reserved=9) + record(STDOUT, number) + end(number))))


@pytest.mark.parametrize("ending", [
    pytest.param(lambda number: records(STDOUT, number, TYPE + b"body") + end(number), id="without_the_empty_stdout"),
    pytest.param(lambda number: records(STDOUT, number, TYPE + b"body") + record(STDOUT, number) * 2 + end(number), id="two_empty_stdouts"),
    pytest.param(lambda number: records(STDOUT, number, TYPE + b"body") + record(3, number, bytes(16)), id="a_long_end_request"),
    pytest.param(lambda number: whole(number, TYPE + b"body", padding=9), id="a_padded_end_request"),
    *[pytest.param(lambda number, status=status: whole(number, TYPE + b"body", status=status), id=f"application_status_{status}")
      for status in (1, 255, -1, 1 << 31)],
])
def test_ends_of_a_response(build, ending):
    accepted(*asked(build, sending(ending)))


@pytest.mark.parametrize("after", [pytest.param(lambda number: record(STDOUT, number, b"evil"), id="stdout"),
                                   pytest.param(lambda number: record(STDERR, number, b"evil"), id="stderr"),
                                   pytest.param(lambda number: end(number), id="end_request"),
                                   pytest.param(lambda number: whole(number, b"Status: 500\r\n\r\nevil"), id="a_second_response")])
def test_records_after_the_end_reach_no_other_request(build, after):
    """The ids of later requests on the connection must not be those of a request that has just ended."""
    def answer(talk, request):
        body = request.params["SCRIPT_NAME"].encode()
        talk.open.pop(request.number, None)
        talk.send(whole(request.number, TYPE + body) + after(request.number))
    world = build(Application(answer)).serve(backend="http-reuse always")
    for number in range(10):
        answer = world.ask(f"/{number}")
        assert (answer.status, answer.body) == (200, b"/%d" % number)


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_version_is_refused(build, version):
    def answer(talk, request):
        talk.open.pop(request.number)
        talk.send(record(STDOUT, request.number, TYPE + b"body", version=version) + end(request.number))
        talk.hang()
    _, answer = world, answer = asked(build, answer)
    assert answer.status == world.want(502, 200, "version")


def test_another_version_in_a_response_truncates_it(build):
    def answer(talk, request):
        talk.open.pop(request.number)
        talk.stdout(request, TYPE + b"bo")
        talk.send(record(STDOUT, request.number, b"dy", version=9))
        talk.hang()
    world, answer = asked(build, answer, server_timeout="500ms")
    assert answer.status == 200 and not answer.complete
    assert world.logged().flags in world.want({"SD--"}, {"sD--"}, "version")


def test_an_http_server_instead_of_an_application(build):
    def answer(talk, request):
        talk.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno")
        talk.hang()
    world, answer = asked(build, answer, server_timeout="500ms")
    assert answer.status == world.want(502, 504, "not FastCGI")


@pytest.mark.parametrize("size", [0, 3, 7])
def test_a_short_end_request_is_refused(build, size):
    world, answer = asked(build, sending(lambda number: record(3, number, bytes(size))))
    assert answer.status == 502 and world.logged().flags == "SH--"


def test_garbage_survives(build):
    """Random bytes, from a fixed seed, after half a response: the client gets an error or a truncated response, and the program goes on."""
    import random
    source = random.Random(7)

    def answer(talk, request):
        talk.open.pop(request.number, None)
        if request.params["SCRIPT_NAME"] == "/good":
            return TYPE + b"good"
        data = whole(request.number, TYPE + b"body" * 30, source.choice([1, 10, 1000]), source.choice([0, 3, 255]))
        cut = source.randrange(len(data))
        talk.send(data[:cut] + source.randbytes(source.choice([1, 8, 100, 5000])))
        talk.close()
    world = build(Application(answer)).serve(server_timeout="1s")
    for _ in range(60):
        answer = world.ask("/bad")
        assert answer.status in (200, 502, 504) and b"good" not in answer.body
        assert world.ask("/good").body == b"good"
