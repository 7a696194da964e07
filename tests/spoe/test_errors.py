"""How an exchange fails: the variable of `set-on-error`, the log line, the time, and the effect on later events (HAProxy's
doc/SPOE.txt, 2.2, 3.5 and 4). A row is one behaviour of the agent or one configuration.

Where HAProxy waits for `timeout processing` although it has reset the connection, the row is marked and weir fails at once.
"""
import re
import threading
import time

import pytest

from lib.program import wait_until
from lib.spoe import CHECK, ask_again, field, message
from lib.spop import (ACK, AGENT_DISCONNECT, Agent, Conversation, Frame, Value, ack_twice, ack_with, close_after_hello, close_at_once,
                      disconnect_after_notify, disconnect_at_hello, half_ack, half_hello, half_hello_and_close, hang_after_notify, hang_before_hello,
                      hello_of, hello_then, hello_with, notify_then, pairs, reset_at_once, set_var, split_ack, split_hello)

SCORE = set_var("txn", "score", 7)
SHOW = 'http-after-response set-header x "%[var(txn.v.error)]|%[var(txn.v.score)]"'
# A message of each of three events.
THREE = "\n".join([message("first", "on-frontend-http-request", "path=path"), message("second", "on-backend-http-request"),
                   message("third", "on-http-response")])
WAITS = "HAProxy resets the connection, but its exchange waits for timeout processing"
RACE = "HAProxy misses about one end in thirty on a busy machine, and its exchange waits for timeout processing"
STUCK = "HAProxy ignores the frame, keeps the connection, and later exchanges on it time out too"


def row(name, script, st, timeout="10s", disconnect=None, differs=None, agent=None, **places):
    """One way to fail. `st` is the status of the log line and the variable, or a set of those allowed. Without a `timeout` it
    happens at once. `disconnect` is the code of the HAPROXY-DISCONNECT that the agent receives."""
    places.setdefault("agents", "retries 0")
    return pytest.param(dict(locals()), id=name)


def frame_then_hang(data):
    """Answers the first NOTIFY with these bytes."""
    return hello_then(lambda talk, notify: (talk.send(data), talk.hang()))


def disconnect_of(items):
    """Answers the first NOTIFY with a DISCONNECT of these items, and keeps the connection."""
    return frame_then_hang(Frame(AGENT_DISCONNECT, pairs(items)))


def code(number):
    """The item of this code."""
    return Value("uint32", number)


# SPOP errors have 256 added.
ERRORS = [
    # Before AGENT-HELLO.
    row("refused", None, 257),
    row("closes_without_reading", close_at_once, 257),
    row("resets_without_reading", reset_at_once, 257),
    row("closes_after_hello", close_after_hello, 257),
    row("hangs_before_hello", hang_before_hello, 1, timeout="200ms"),
    row("half_hello", half_hello, 1, timeout="200ms"),
    row("half_hello_and_close", half_hello_and_close, {257, 260}),
    *[row(f"disconnect_{number}_at_hello", disconnect_at_hello(number), {260, 256 + number}) for number in (1, 3, 99, 1000)],
    row("hello_timeout_of_the_server", hang_before_hello, 257, agents="retries 0\n    timeout connect 100ms\n    timeout server 100ms"),
    # AGENT-HELLO.
    row("hello_without_version", hello_of({"version": None}), {257, 261}, disconnect=5),
    row("hello_of_version_1", hello_of({"version": "1.0"}), {257, 264}, disconnect=8),
    row("hello_of_version_2.1", hello_of({"version": "2.1"}), {257, 264}, disconnect=8),
    row("hello_of_version_3", hello_of({"version": "3.0"}), {257, 264}, disconnect=8),
    row("hello_of_a_version_without_minor", hello_of({"version": "2"}), {257, 260}, disconnect=4),
    row("hello_of_a_version_that_is_a_number", hello_of({"version": 2}), {257, 260}, disconnect=4),
    row("hello_of_small_frames", hello_of({"max-frame-size": code(255)}), {257, 265}, disconnect=9),
    row("hello_of_frames_larger_than_offered", hello_of({"max-frame-size": code(16381)}), {257, 265}, disconnect=9),
    row("hello_of_a_size_that_is_a_string", hello_of({"max-frame-size": "1000"}), {257, 260}, disconnect=4),
    row("hello_of_garbage", hello_with(payload=b"\xff\xff\xff"), {257, 260}, disconnect=4),
    row("hello_without_items", hello_with(payload=b""), {257, 261}, disconnect=5),
    row("hello_with_a_stream", hello_with(stream=1), 260),
    row("hello_with_a_frame", hello_with(frame=1), 260),
    row("hello_without_fin", hello_with(flags=0), {260, 266}),
    row("an_ack_before_hello", hello_with(kind=ACK), 260),
    row("an_unknown_frame_before_hello", hello_with(kind=55), 260),
    # After NOTIFY.
    row("closes_after_notify", hello_then(lambda talk, notify: None), 257),
    row("resets_after_notify", hello_then(lambda talk, notify: talk.reset()), 257, differs=RACE),
    row("half_ack_and_close", hello_then(half_ack), 257),
    row("half_ack", hello_then(lambda talk, notify: (half_ack(talk, notify), talk.hang())), 1, timeout="200ms"),
    row("hangs_after_notify", hang_after_notify, 1, timeout="200ms"),
    row("timeout_of_the_server", hang_after_notify, 257, agents="timeout server 200ms"),
    row("no_processing_timeout", hang_after_notify, 257, timeout="0", agents="timeout server 200ms"),
    *[row(f"disconnect_{number}", disconnect_after_notify(number), 256 + (number or 1)) for number in (0, 1, 3, 13, 42, 99, 100, 1000)],
    row("disconnect_and_close", disconnect_after_notify(42, close=True), 298, differs=RACE),
    row("disconnect_without_code", disconnect_of({"message": "no"}), 257),
    row("disconnect_without_items", disconnect_of({}), 257),
    # ACK.
    row("ack_of_another_stream", ack_with(SCORE, stream=99), {260, 268}, differs=WAITS),
    row("ack_of_another_frame", ack_with(SCORE, frame=99), {260, 268}, differs=WAITS),
    row("ack_of_stream_0", ack_with(SCORE, stream=0), {260, 268}, differs=WAITS),
    row("ack_of_frame_0", ack_with(SCORE, frame=0), {260, 268}, differs=WAITS),
    row("ack_without_fin", ack_with(SCORE, flags=0), {260, 266}, differs=WAITS),
    row("a_frame_of_2_gigabytes", frame_then_hang(b"\x7f\xff\xff\xff" + bytes(100)), {259, 260}, differs=WAITS),
    row("a_frame_above_the_negotiated_size", hello_then(lambda talk, notify: (talk.ack(notify, *[set_var("txn", "s", "x" * 90)] * 4), talk.hang())),
        {259, 260}, agent={"items": {"max-frame-size": code(256)}}, differs=WAITS),
    row("a_frame_of_no_bytes", frame_then_hang(b"\0\0\0\0"), 260, differs=STUCK),
    row("a_frame_of_three_bytes", frame_then_hang(b"\0\0\0\3abc"), 260, differs=STUCK),
    row("a_frame_of_one_byte_too_many", frame_then_hang(b"\0\0\x3f\xfd" + bytes(16381)), {259, 260}, differs=STUCK),
    # Messages.
    row("a_message_above_max-frame-size", Conversation.serve, 3, agent_lines="max-frame-size 256", engine=message("m", "on-frontend-http-request",
        f"a=str({'x' * 300})")),
    row("a_message_above_the_agents_size", Conversation.serve, 259, agent={"items": {"max-frame-size": code(256)}},
        engine=message("m", "on-frontend-http-request", f"a=str({'x' * 300})")),
    # The backend.
    row("no_server", Conversation.serve, 257, agent_words="disabled"),
    row("no_server_in_the_queue", Conversation.serve, 257, agent_words="disabled", agents="timeout queue 100ms"),
    row("a_reject_rule_of_the_backend", Conversation.serve, 257, agents="tcp-request content reject"),
    row("a_reject_rule_for_the_response", Conversation.serve, 257, agents="tcp-response content reject"),
]


@pytest.mark.parametrize("expected", ERRORS)
def test_failures(build, expected):
    world = build(Agent(script=expected["script"], **(expected["agent"] or {})), differs=expected["differs"])
    if expected["script"] is None:
        world.agent.cut()
    world.serve(**{"engine": CHECK, "timeout": expected["timeout"], "frontend": SHOW, **expected["places"]})
    began = time.monotonic()
    head = world.ask()
    elapsed = time.monotonic() - began
    assert head.startswith(b"HTTP/1.1 200 ")
    allowed = expected["st"] if isinstance(expected["st"], set) else {expected["st"]}
    error, score = field(head, "x").split("|")
    assert error.isdigit() and int(error) in allowed and not score
    # The request goes on at once, or when the timeout ends.
    assert (0.19 if allowed == {1} else 0) <= elapsed < 4
    raw = world.log.wait_for("SPOE")
    assert raw.startswith("<132>")
    assert re.fullmatch(rf"SPOE: \[ag\] <EVENT:on-frontend-http-request> sid=\d+ st={error} \d+ 1/1", world.log.lines[0])
    if expected["disconnect"] is not None:
        assert wait_until(lambda: world.agent.disconnects) and world.agent.disconnects[0][0] == expected["disconnect"]


def answered(name, script=None, want="|7", differs=None, agent=None, **places):
    """One behaviour that is not an error."""
    return pytest.param(dict(locals()), id=name)


HARMLESS = [
    answered("plain"),
    answered("hello_without_size", agent={"items": {"max-frame-size": None}}),
    answered("hello_without_capabilities", agent={"items": {"capabilities": None}}),
    answered("hello_of_unknown_capabilities", agent={"items": {"capabilities": "async, foo ,pipelining"}}),
    answered("hello_of_a_version_between_spaces", agent={"items": {"version": " 2.0 "}}),
    answered("hello_of_unknown_items", agent={"items": {"x": 1, "y": "z"}}),
    answered("hello_of_items_of_unassigned_types", agent={"items": {"x": Value(10, None), "y": Value(0xff, None)}}),
    answered("hello_of_small_frames", agent={"items": {"max-frame-size": code(256)}}),
    answered("hello_of_a_signed_size", agent={"items": {"max-frame-size": Value("int32", 1000)}}),
    answered("hello_split_at_every_byte", split_hello),
    answered("ack_split_at_every_byte", notify_then(split_ack)),
    answered("ack_twice", ack_twice),
    answered("ack_without_actions", ack_with(), want="|"),
    answered("ack_with_abort", ack_with(SCORE, flags=3)),
    answered("ack_with_reserved_flags", ack_with(SCORE, flags=0xffff0001)),
    answered("an_unknown_frame_before_ack", notify_then(lambda talk, notify: (talk.send(Frame(200, b"abc", notify.stream, notify.frame)),
                                                                              talk.ack(notify, SCORE)))),
    answered("a_second_hello_before_ack", notify_then(lambda talk, notify: (talk.send(talk.agent.hello({})), talk.ack(notify, SCORE)))),
    answered("a_slow_agent", agent={"delay": 0.1}),
    answered("a_frame_of_the_largest_size", agent={"items": {"max-frame-size": code(256)}},
             engine=message("m", "on-frontend-http-request", f"b=str({'x' * 240})")),
    answered("a_server_that_refuses_before_another", agents="option redispatch 1\n    retries 3\n    balance first\n    server dead 127.0.0.1:1 id 1"),
]


@pytest.mark.parametrize("expected", HARMLESS)
def test_these_are_not_errors(build, expected):
    world = build(Agent(lambda notify: [SCORE], expected["script"], **(expected["agent"] or {})), differs=expected["differs"])
    world.serve(**{"engine": CHECK, "timeout": "10s", "frontend": SHOW, **expected["places"]})
    with world.connect() as client:
        assert [field(ask_again(client, f"/{number}"), "x") for number in range(2)] == [expected["want"]] * 2
    assert world.log.wait_for("SPOE").startswith("<133>")
    assert re.fullmatch(r"SPOE: \[ag\] <EVENT:on-frontend-http-request> sid=\d+ st=0 \d+ 0/1", world.log.lines[0])


# After an error.

def fail_first(talk):
    """The first connection closes after NOTIFY; the others serve."""
    if talk.number > 1:
        talk.serve()
    elif talk.greet():
        talk.next_notify()


def fail_each(talk):
    """Each connection closes after NOTIFY."""
    if talk.greet():
        talk.next_notify()


def test_an_error_turns_the_engine_off_for_the_transaction(build):
    world = build(Agent(lambda notify: [SCORE], fail_first))
    world.serve(THREE, frontend=SHOW)
    with world.connect() as client:
        assert field(ask_again(client), "x") == "257|"
        assert world.agent.messages == ["first"]
        assert field(ask_again(client), "x") == "|7"
    assert world.agent.messages == ["first", "first", "second", "third"]
    assert wait_until(lambda: len(world.log.lines) == 4), world.log.lines


def test_an_error_turns_groups_off_too(build):
    world = build(Agent(script=fail_each))
    world.serve(message("g", "", "path=path") + "\nspoe-group gr\n    messages g\n" + THREE, agent_lines="groups gr",
                frontend=f"http-request send-spoe-group e gr\n    {SHOW}", messages="messages first third")
    assert field(world.ask(), "x") == "257|"
    assert world.agent.messages == ["first"]


def test_a_group_that_fails_turns_events_off(build):
    world = build(Agent(script=fail_each))
    world.serve(message("g", "", "path=path") + "\nspoe-group gr\n    messages g\n" + THREE, agent_lines="groups gr",
                frontend=f"http-request send-spoe-group e gr\n    http-request send-spoe-group e gr\n    {SHOW}", messages="messages second third")
    assert field(world.ask(), "x") == "257|"
    assert world.agent.messages == ["g"]
    line = world.log.wait_for("GROUP")
    assert re.search(r"SPOE: \[ag\] <GROUP:gr> sid=\d+ st=257 \d+ 1/1$", line)


def test_continue_on_error(build):
    world = build(Agent(lambda notify: [SCORE], fail_first))
    world.serve(THREE, agent_lines="option continue-on-error", frontend=SHOW)
    # The variable keeps the last error of the transaction.
    assert field(world.ask(), "x") == "257|7"
    assert world.agent.messages == ["first", "second", "third"]
    assert wait_until(lambda: len(world.log.lines) == 3)
    assert [re.search(r"on-(\S+)> sid=\d+ (st=\d+)", line).groups() for line in world.log.lines] == [
        ("frontend-http-request", "st=257"), ("backend-http-request", "st=0"), ("http-response", "st=0")]


def test_continue_on_error_with_errors_only(build):
    world = build(Agent(script=fail_each))
    world.serve(THREE, agent_lines="option continue-on-error", frontend=SHOW)
    assert field(world.ask(), "x") == "257|"
    assert world.agent.messages == ["first", "second", "third"]
    assert wait_until(lambda: len(world.log.lines) == 3) and re.search(r" 3/3$", world.log.lines[2])


def test_an_error_in_tcp_mode_turns_the_engine_off_for_the_session(build):
    world = build(Agent(script=fail_each))
    world.serve("\n".join(message(name, f"on-{name}") for name in ("client-session", "frontend-tcp-request", "server-session")), mode="tcp",
                frontend="tcp-request content reject if { var(txn.v.error) -m int 257 }")
    with world.connect() as client:
        assert client.recv(1) == b""
    assert world.agent.messages == ["client-session"]


def test_a_deny_rule_of_the_error(build):
    world = build(Agent(script=hang_after_notify))
    world.serve(timeout="100ms", frontend="http-request deny status 503 if { var(txn.v.error) -m int gt 0 }")
    assert world.ask().startswith(b"HTTP/1.1 503 ")


def test_an_ack_after_the_timeout_is_dropped(build):
    late = threading.Event()

    def script(talk):
        if talk.greet():
            first = talk.next_notify()
            late.wait(5)
            talk.ack(first, SCORE)
            while notify := talk.next_notify():
                talk.ack(notify, set_var("txn", "score", 8))
    world = build(Agent(script=script))
    world.serve(timeout="150ms", frontend=SHOW)
    with world.connect() as client:
        assert field(ask_again(client), "x") == "1|"
        late.set()
        assert field(ask_again(client), "x") == "|8"


def test_a_connection_without_hello_serves_no_exchange(build):
    # Both connections that may be opened at the start hang.
    world = build(Agent(lambda notify: [SCORE], lambda talk: hang_before_hello(talk) if talk.number <= 2 else talk.serve()))
    world.serve(timeout="150ms", frontend=SHOW)
    answers = [field(world.ask(), "x") for _ in range(5)]
    assert set(answers) <= {"1|", "|7"} and answers[-2:] == ["|7"] * 2, answers


def test_times_of_a_failure(build):
    world = build(Agent(script=hang_after_notify))
    world.serve(timeout="100ms", agent_lines="option set-process-time pt\n    option set-total-time tt",
                frontend='http-after-response set-header x "%[var(txn.v.pt)] %[var(txn.v.tt)]"')
    process, total = map(int, field(world.ask(), "x").split())
    assert 95 <= process == total < 3000
    assert int(re.search(r"st=1 (\d+) ", world.log.wait_for("SPOE"))[1]) in range(95, 3000)


# Logs.

def test_dontlog_normal(build):
    world = build(Agent(script=lambda talk: talk.serve() if talk.number == 1 else None))
    world.serve(agent_lines="option dontlog-normal", agents="retries 0", frontend=SHOW)
    assert field(world.ask(), "x") == "|"
    world.agent.cut()
    assert field(world.ask(), "x") == "257|"
    assert re.search(r" st=257 \d+ \d/2$", world.log.wait_for("SPOE"))
    assert len(world.log.lines) == 1


@pytest.mark.parametrize("lines, want", [
    ("log 127.0.0.1:{port} local0", ["<133>"]), ("log 127.0.0.1:{port} local3 warning", []), ("log 127.0.0.1:{port} local3 notice warning", ["<157>"]),
    ("log global", ["<149>"]), ("", []), ("log 127.0.0.1:{port} local3\n    log 127.0.0.1:{port} local4", ["<157>", "<165>"]),
    ("log 127.0.0.1:{port} local0\n    no log", []),
])
def test_loggers(build, lines, want):
    world = build()
    world.serve(log=lines.format(port=world.log.port), global_lines=f"log 127.0.0.1:{world.log.port} local2", frontend=SHOW)
    world.ask()
    wait_until(lambda: len(world.log.raw) >= len(want), 2 if want else 0.2)
    assert [line[:5] for line in world.log.raw if "SPOE" in line] == want


def test_the_counters_of_the_log_line(build):
    world = build(differs="HAProxy counts each stream that ends as an error")
    world.serve()
    for _ in range(3):
        world.ask()
    assert wait_until(lambda: len(world.log.lines) == 3)
    assert [line.split()[-1] for line in world.log.lines] == ["0/1", "0/2", "0/3"]


# Queues.

def test_an_exchange_waits_in_the_queue_of_its_server(build):
    world = build(Agent(lambda notify: [SCORE], delay=0.05))
    world.serve(agent_words="maxconn 1", frontend=SHOW)
    answers = together(world, 5)
    assert answers == ["|7"] * 5


def test_the_processing_timeout_covers_the_queue(build):
    world = build(Agent(script=hang_after_notify))
    world.serve(agent_words="maxconn 1", timeout="150ms", frontend=SHOW)
    began = time.monotonic()
    assert together(world, 3) == ["1|"] * 3
    assert time.monotonic() - began < 3


def test_the_queue_timeout_of_the_backend(build):
    world = build(Agent(lambda notify: [SCORE], delay=0.25))
    world.serve(agent_words="maxconn 1", agents="timeout queue 50ms", frontend=SHOW)
    assert sorted(together(world, 3)) == ["257|", "257|", "|7"]


def together(world, count):
    """The field `x` of the answers to requests at the same time."""
    clients = [world.connect() for _ in range(count)]
    for client in clients:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    heads = []
    for client in clients:
        with client:
            heads.append(b"".join(iter(lambda: client.recv(65536), b"")))
    return [field(head, "x") for head in heads]
