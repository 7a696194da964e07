"""STDERR of applications: `log-stderr`, its format, long lines and floods."""
import time

import pytest

from lib.fastcgi import Application
from lib.log import LogServer

TYPE = b"Content-Type: a/b\r\n\r\n"


@pytest.fixture
def errors():
    with LogServer() as made:
        yield made


def saying(*texts):
    """An answer with these records of STDERR before its body."""
    def answer(talk, request):
        for text in texts:
            talk.stderr(request, text)
        return TYPE + b"body"
    return answer


def serve(build, errors, *texts, words="local1", answer=None, **places):
    """A world that logs STDERR to `errors`."""
    return build(Application(answer or saying(*texts))).serve(app=f"log-stderr 127.0.0.1:{errors.port} {words}", **places)


def test_a_line(build, errors):
    world = serve(build, errors, b"PHP message: oh\n")
    assert world.ask("/x").body == b"body"
    line = errors.wait_for("PHP message: oh")
    # local1 is 17, err is 3; the tag is the application's name.
    assert line.startswith("<139>") and f" app[{world.program.pid}]: PHP message: oh" in line
    assert len(errors.raw) == 1


def test_several_lines_of_a_record(build, errors):
    world = serve(build, errors, b"one\ntwo\r\nthree")
    world.ask("/x")
    errors.wait_for("three")
    assert errors.lines == world.want(["one", "two", "three"], ["one.two..three"], "lines")


def test_records_in_any_order(build, errors):
    def answer(talk, request):
        talk.stdout(request, TYPE[:3])
        talk.stderr(request, b"first\n")
        talk.stdout(request, TYPE[3:] + b"bo")
        talk.stderr(request, b"second\n")
        talk.stdout(request, b"dy")
        talk.stderr(request, b"third\n")
        talk.end(request)
    world = serve(build, errors, answer=answer)
    assert world.ask("/x").body == b"body"
    errors.wait_for("third")
    assert [line.rstrip(".") for line in errors.lines] == ["first", "second", "third"]


def test_stderr_without_a_response(build, errors):
    def answer(talk, request):
        talk.stderr(request, b"Primary script unknown\n")
        talk.end(request)
    world = serve(build, errors, answer=answer)
    assert world.ask("/x").status == 502 and world.logged().flags == "SH--"
    errors.wait_for("Primary script unknown")


@pytest.mark.parametrize("words, priority", [("local3", 155), ("local0 warning", 131), ("user debug", 11), ("local1 debug warning", 140)])
def test_facility_and_level(build, errors, words, priority):
    world = serve(build, errors, b"oh\n", words=words)
    world.ask("/x")
    assert errors.wait_for("oh").startswith(f"<{priority}>")


def test_a_level_that_excludes_errors(build, errors):
    world = serve(build, errors, b"oh\n", words="local1 emerg")
    assert world.ask("/x").status == 200
    world.logged()
    assert not errors.raw


@pytest.mark.parametrize("format, pattern", [("rfc5424", r"^<139>1 \S+ \S+ app \d+ - - oh"), ("rfc3164", r"^<139>\w{3} [ \d]\d \S+ \S+ app\[\d+\]: oh"),
                                             ("raw", r"^oh"), ("short", r"^<3>oh")])
def test_formats(build, errors, format, pattern):
    world = serve(build, errors, b"oh\n", words=f"format {format} local1")
    world.ask("/x")
    errors.wait_for(pattern)


def test_global(build, errors):
    world = build(Application(saying(b"oh\n"))).serve(app="log-stderr global", global_lines=f"log 127.0.0.1:{errors.port} local2")
    world.ask("/x")
    assert errors.wait_for("oh").startswith("<147>")


def test_by_default_nothing_is_logged(build, errors):
    world = build(Application(saying(b"oh\n"))).serve(global_lines=f"log 127.0.0.1:{errors.port} local2")
    assert world.ask("/x").body == b"body"
    world.logged()
    assert not any("oh" in line for line in errors.raw + world.log.raw)


def test_control_characters_do_not_forge_lines(build, errors):
    world = serve(build, errors, b"a\0b\x01c\x1b[2Jd\x7fe\xffg <13>forged")
    world.ask("/x")
    line = errors.wait_for("forged")
    assert not any(ord(character) < 32 or ord(character) == 127 for character in line)


@pytest.mark.parametrize("size", [100, 1000, 5000, 65000])
def test_long_lines_fit_into_messages(build, errors, size):
    world = serve(build, errors, b"L" * size + b"\n")
    assert world.ask("/x").body == b"body"
    errors.wait_for("LLL")
    time.sleep(0.1)
    assert all(len(line) <= 1024 for line in errors.raw)
    assert "L" * min(size, 900) in errors.raw[0]


def test_len(build, errors):
    world = serve(build, errors, b"L" * 3000 + b"\n", words="len 4096 local1")
    world.ask("/x")
    assert "L" * 3000 in errors.wait_for("LLL")


def test_a_line_in_two_records(build, errors):
    """Records are not lines: either half, or the whole line, is logged; nothing is lost."""
    world = serve(build, errors, b"begin ", b"end\n")
    world.ask("/x")
    errors.wait_for("end")
    assert "begin" in " ".join(errors.lines)


def test_a_flood_is_bounded(build, errors):
    """20 MB of errors: the response arrives, and memory stays."""
    def answer(talk, request):
        line = b"flood " * 200 + b"\n"
        for _ in range(20_000_000 // 60_000):
            talk.stderr(request, line * 49)
        return TYPE + b"body"
    world = serve(build, errors, answer=answer, server_timeout="20s")
    before = world.program.resident_kb()
    began = time.monotonic()
    assert world.ask("/x").body == b"body"
    assert time.monotonic() - began < 15
    assert world.program.resident_kb() - before < 8000
    assert world.ask("/x").status == 200


def test_a_log_server_that_does_not_listen(build):
    with LogServer() as gone:
        port = gone.port
    world = build(Application(saying(b"oh\n" * 1000))).serve(app=f"log-stderr 127.0.0.1:{port} local1")
    assert [world.ask("/x").status for _ in range(3)] == [200] * 3


def test_a_log_socket(build):
    with LogServer(path=(world := build(Application(saying(b"oh\n")))).folder.path + "/log") as errors:
        world.serve(app=f"log-stderr {world.folder.path}/log local1")
        world.ask("/x")
        errors.wait_for("oh")
