"""Which events and groups reach an agent, in which order, and the arguments of their messages (HAProxy's doc/SPOE.txt, 2.3 and 3.3)."""
import ipaddress
import subprocess

import pytest

from lib.origin import OK, Origin
from lib.program import wait_until
from lib.spoe import CHECK, CONFIGURATION, FILTER, ask_again, field, message
from lib.spop import NOTIFY, Agent, Value, set_var

EVENTS = ["client-session", "frontend-tcp-request", "frontend-http-request", "backend-tcp-request", "backend-http-request", "server-session",
          "tcp-response", "http-response"]
# A message of the name of each event.
ALL = "\n".join(message(event, f"on-{event}", "n=str(x)") for event in EVENTS)
REQUEST, HTTP = "client-session frontend-tcp-request frontend-http-request", " ".join(EVENTS)
TO_BACKEND = f"{REQUEST} backend-tcp-request backend-http-request"
TO_SERVER = f"{TO_BACKEND} server-session tcp-response"
BACKEND = "backend-tcp-request backend-http-request server-session tcp-response http-response"
LISTEN = ("client-session frontend-tcp-request+backend-tcp-request frontend-http-request+backend-http-request server-session tcp-response "
          "http-response")
TCP = "client-session frontend-tcp-request backend-tcp-request server-session tcp-response"


def twice(words):
    """Each word twice."""
    return " ".join(f"{word} {word}" for word in words.split())


def unavailable(count):
    """An answer of an origin that is unavailable for this number of requests."""
    left = [b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"] * count
    return lambda request: left.pop() if left else OK


def case(name, want, status=200, requests=1, origin=None, raw=None, differs=None, **places):
    """The events of requests on one connection. `want` is the name of the message of each NOTIFY; those of one frame with `+`."""
    return pytest.param(dict(locals()), id=name)


CASES = [
    # Where the filter is.
    case("a_frontend", HTTP),
    case("a_backend", BACKEND, place="backend"),
    case("a_listen_section", LISTEN, place="listen"),
    case("a_frontend_and_its_backend", f"{REQUEST} {twice(BACKEND)}", place="both"),
    case("each_request_of_a_connection", f"{HTTP} {HTTP}", requests=2),
    case("each_request_of_a_connection_of_a_backend", f"{BACKEND} {BACKEND}", requests=2, place="backend"),
    case("tcp_frontend", TCP, mode="tcp"),
    case("tcp_backend", "backend-tcp-request server-session tcp-response", mode="tcp", place="backend"),
    case("tcp_listen_section", TCP.replace(" backend", "+backend"), mode="tcp", place="listen"),
    # Streams that end early.
    case("a_return_rule", REQUEST, frontend="http-request return status 200"),
    case("a_deny_rule", REQUEST, status=403, frontend="http-request deny"),
    case("a_redirect", REQUEST, status=302, frontend="http-request redirect location /x"),
    case("a_deny_rule_of_the_backend", TO_BACKEND, status=403, backend="http-request deny"),
    case("a_rejected_connection", "", status=None, frontend="tcp-request connection reject"),
    case("a_rejected_session", "", status=None, frontend="tcp-request session reject"),
    case("rejected_content", "client-session frontend-tcp-request", status=None, frontend="tcp-request content reject"),
    case("no_server", TO_BACKEND, status=503, server="disabled"),
    case("a_server_that_closes", TO_SERVER, status=502, origin=lambda request: None),
    case("a_rejected_response", TO_SERVER, status=None, backend="tcp-response content reject"),
    case("a_denied_response", HTTP, status=502, backend="http-response deny"),
    case("a_bad_request", "", status=400, raw=b"GET / x HTTP/1.1\r\nHost: x\r\n\r\n"),
    # Events happen once per stream.
    case("a_repeated_request", HTTP, origin=unavailable(2), backend="retry-on 503\n    retries 3"),
    case("a_redispatch", HTTP, backend="option redispatch 1\n    retries 3\n    balance first\n    server dead 127.0.0.1:1 id 1"),
    case("an_interim_response", HTTP, status=103,
         origin=lambda request: b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK),
    # Messages.
    case("messages_of_one_event_in_one_frame", "c+a+b", messages="messages c a\n    messages b",
         engine="\n".join(message(name, "on-frontend-http-request", "path") for name in "abc")),
    case("false_conditions", "a+b+c a", requests=2,
         engine="\n".join([message("a", "on-frontend-http-request"), message("b", "on-frontend-http-request", condition="if { path /0 }"),
                           message("c", "on-frontend-http-request", condition="unless { path /1 }")])),
    case("all_conditions_false", "", engine=message("a", "on-frontend-http-request", condition="if { path /no }")),
    case("an_acl_of_the_message", "a", requests=2,
         engine="spoe-message a\n    acl first path /0\n    event on-frontend-http-request if first"),
    case("the_last_event_line_counts", "a backend-http-request", messages="messages a backend-http-request",
         engine="spoe-message a\n    event on-http-response\n    event on-frontend-http-request\n"
                + message("backend-http-request", "on-backend-http-request")),
]


@pytest.mark.parametrize("expected", CASES)
def test_events(build, expected):
    world = build(origin=Origin(expected["origin"]) if expected["origin"] else None, differs=expected["differs"])
    world.serve(**{"engine": ALL, **expected["places"]})
    with world.connect() as client:
        for number in range(expected["requests"]):
            try:
                if expected["raw"]:
                    client.sendall(expected["raw"])
                    head = client.recv(1000)
                else:
                    head = ask_again(client, f"/{number}")
            except ConnectionError:
                head = b""
    assert (int(head.split()[1]) if head else None) == expected["status"]
    want = expected["want"].split()
    wait_until(lambda: len(world.agent.notifies) >= len(want))
    assert ["+".join(frame.names) for frame in world.agent.notifies] == want


@pytest.mark.parametrize("expected", CASES[:4])
def test_each_notify_has_a_log_line(build, expected):
    world = build()
    world.serve(**{"engine": ALL, **expected["places"]})
    world.ask()
    frames = [words.split("+")[0] for words in expected["want"].split()]
    assert wait_until(lambda: len(world.log.lines) >= len(frames)), world.log.lines
    # In order, and the message of a `listen` section's backend goes with the event of its frontend.
    assert [line.split("on-")[1].split(">")[0] for line in world.log.lines] == frames


def test_events_of_http2(build):
    world = build()
    world.serve(ALL, bind2="proto h2")
    done = subprocess.run(["curl", "-s", "--http2-prior-knowledge", f"http://127.0.0.1:{world.port2}/"], capture_output=True, timeout=5)
    assert done.stdout == b"ok"
    assert world.agent.messages == EVENTS


def test_an_event_comes_before_the_rules_of_its_ruleset(build):
    world = build(Agent(lambda notify: [set_var("txn", "last", notify.names[0])]))
    world.serve(ALL, frontend="""
    tcp-request inspect-delay 1s
    tcp-request content set-var(txn.a) var(txn.v.last)
    tcp-request content accept
    http-request set-var(txn.b) var(txn.v.last)
    http-after-response set-header x "%[var(txn.a)] %[var(txn.b)] %[var(txn.c)] %[var(txn.d)] %[var(txn.e)] %[var(txn.f)]"
    """, backend="""
    tcp-request content set-var(txn.c) var(txn.v.last)
    http-request set-var(txn.d) var(txn.v.last)
    tcp-response content set-var(txn.e) var(txn.v.last)
    http-response set-var(txn.f) var(txn.v.last)
    """)
    assert field(world.ask(), "x").split() == [event for event in EVENTS if event not in ("client-session", "server-session")]


def test_a_session_rule_comes_before_the_first_event(build):
    world = build()
    world.serve(message("m", "on-client-session", "seen=var(sess.seen)"), frontend="tcp-request session set-var(sess.seen) int(1)")
    world.ask()
    assert world.agent.notifies[0].arguments == {"seen": 1}


@pytest.mark.parametrize("first, second", [("e", "e2"), ("e2", "e")])
def test_engines_run_in_the_order_of_their_filters(build, first, second):
    world = build(Agent(lambda notify: [set_var("txn", "s", notify.names[0])]))
    engine = "\n".join(f"[{scope}]\nspoe-agent {name}\n    messages {scope}\n    timeout processing 1s\n    use-backend agents\n"
                       + message(scope, "on-frontend-http-request", f"other=var(txn.{other}.s)") for scope, name, other in
                       [("e", "a1", "a2"), ("e2", "a2", "a1")]) + "\n"
    filters = "".join(FILTER.replace("engine e ", f"engine {name} ") for name in (first, second))
    world.serve("", engine_text=engine, text=CONFIGURATION.replace(FILTER, filters))
    world.ask()
    assert [(frame.names, frame.arguments) for frame in world.agent.notifies] == [([first], {"other": None}), ([second], {"other": first})]


# Frames.

def test_the_frames_of_a_connection(build):
    world = build()
    world.serve()
    with world.connect() as client:
        for number in range(3):
            ask_again(client, f"/{number}")
    hello = next(frame for frame in world.agent.frames if frame.kind == 1)
    assert (hello.stream, hello.frame, hello.flags) == (0, 0, 1)
    assert list(hello.items)[:3] == ["supported-versions", "max-frame-size", "capabilities"]
    assert (hello.items["supported-versions"], hello.items["max-frame-size"], hello.items["capabilities"]) == ("2.0", 16380, "pipelining")
    assert len(hello.items["engine-id"]) == 36
    frames = world.agent.of_kind(NOTIFY)
    assert [(frame.flags, frame.arguments["path"]) for frame in frames] == [(1, f"/{number}") for number in range(3)]
    # No identifier is used twice on a connection.
    assert len({(frame.session, frame.stream, frame.frame) for frame in frames}) == 3


def test_the_engine_keeps_its_identifier(build):
    world = build(Agent(items={"capabilities": ""}, delay=0.05))
    world.serve(agents="option http-server-close")
    clients = [world.connect() for _ in range(3)]
    for client in clients:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    for client in clients:
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        client.close()
    hellos = world.agent.hellos
    assert len(hellos) >= 3 and len({hello["engine-id"] for hello in hellos}) == 1


ARGUMENTS = [
    ("bool(true)", Value("bool", True)), ("bool(false)", Value("bool", False)), ("int(7)", Value("int64", 7)), ("int(-5)", Value("int64", -5)),
    ("int(5000000000)", Value("int64", 5000000000)), ("src", Value("ipv4", ipaddress.IPv4Address("127.0.0.1"))),
    ("str(2001:db8::1),ipmask(32,128)", Value("ipv6", ipaddress.IPv6Address("2001:db8::1"))), ("path", Value("string", "/a")),
    ("method", Value("string", "GET")), ("req.ver", Value("string", "1.1")), ("path,length", Value("int64", 2)), ("str()", Value("string", "")),
    ("str(YWJj),b64dec", Value("binary", b"abc")), ("req.hdr(nope)", Value("null", None)), ("var(txn.nope)", Value("null", None)),
    ("req.hdrs", Value("string", "host: shop.test\r\n\r\n")), ("req.hdr_cnt(host)", Value("int64", 1)), ("req.body", Value("binary", b"")), ("req.hdrs_bin", Value("binary", b"\x04host\tshop.test\0\0")),
]


def test_arguments_keep_their_types(build):
    world = build()
    world.serve(message("m", "on-frontend-http-request", " ".join(f"a{at}={text}" for at, (text, _) in enumerate(ARGUMENTS))))
    with world.connect() as client:
        ask_again(client, "/a")
    [(_, arguments)] = world.agent.notifies[0].messages
    assert [(ARGUMENTS[int(name[1:])][0], value) for name, value in arguments] == ARGUMENTS


def test_names_of_arguments(build):
    world = build()
    world.serve(message("m", "on-frontend-http-request", "path b=path b=method x.y-z=str(1)"))
    world.ask("/a")
    [(_, arguments)] = world.agent.notifies[0].messages
    assert [(name, value.value) for name, value in arguments] == [("", "/a"), ("b", "/a"), ("b", "GET"), ("x.y-z", "1")]


# Groups.

GROUP = message("g", "", "n=var(txn.n)") + "\nspoe-group gr\n    messages g"
SEND = "send-spoe-group e gr"


def group(name, want, engine=GROUP, differs=None, messages="", **places):
    """The arguments `n` of the messages that a group sends."""
    return pytest.param(dict(locals()), id=name)


GROUPS = [
    group("http_request", [1], frontend=f"http-request set-var(txn.n) int(1)\n    http-request {SEND}"),
    group("http_request_twice", [1, 2], frontend=f"http-request set-var(txn.n) int(1)\n    http-request {SEND}\n    http-request set-var(txn.n) int(2)\n"
                                                 f"    http-request {SEND}"),
    group("http_response", [None], frontend=f"http-response {SEND}"),
    group("tcp_request_content", [None], frontend=f"tcp-request inspect-delay 2s\n    tcp-request content {SEND}"),
    group("tcp_response_content", [None], place="both", backend=f"tcp-response inspect-delay 2s\n    tcp-response content {SEND}"),
    group("tcp_request_content_of_tcp", [None], mode="tcp", frontend=f"tcp-request inspect-delay 2s\n    tcp-request content {SEND}"),
    group("tcp_request_content_without_a_delay", [None], frontend=f"tcp-request content {SEND}",
          differs="HAProxy does not wait without inspect-delay: error 4, and the engine is off"),
    group("tcp_response_content_without_a_delay", [None], place="both", backend=f"tcp-response content {SEND}",
          differs="HAProxy does not wait without inspect-delay: error 4, and the engine is off"),
    group("a_frontend_and_its_backend", [1, 2], place="both", frontend=f"http-request set-var(txn.n) int(1)\n    http-request {SEND}",
          backend=f"http-request set-var(txn.n) int(2)\n    http-request {SEND}"),
    group("a_rule_that_does_not_match", [], frontend=f"http-request {SEND} if {{ path /no }}"),
    group("a_message_with_a_false_condition", [], frontend=f"http-request {SEND}",
          engine="spoe-message g\n    event on-frontend-http-request if { path /no }\nspoe-group gr\n    messages g"),
    group("two_messages_in_the_order_of_the_group", ["2+1"], frontend=f"http-request {SEND}",
          engine=message("g1", "", "n=str(1)") + "\n" + message("g2", "", "n=str(2)") + "\nspoe-group gr\n    messages g2 g1"),
    group("a_message_of_an_event_too", ["1", "1"], frontend=f"http-request {SEND}", messages="messages g",
          engine=message("g", "on-frontend-http-request", "n=str(1)") + "\nspoe-group gr\n    messages g"),
]


@pytest.mark.parametrize("expected", GROUPS)
def test_groups(build, expected):
    world = build(Agent(lambda notify: []), differs=expected["differs"])
    world.serve(expected["engine"], messages=expected["messages"], agent_lines="groups gr", **expected["places"])
    world.ask()
    sent = [[value.value for _, arguments in frame.messages for _, value in arguments] for frame in world.agent.notifies]
    assert ["+".join(values) if len(values) > 1 else values[0] for values in sent] == expected["want"]
    assert wait_until(lambda: len(world.log.lines) == len(sent)), world.log.lines
    assert all(line.startswith("SPOE: [ag] <GROUP:gr> sid=") for line in world.log.lines[1 if expected["messages"] else 0:])


def test_a_group_sets_variables_before_the_next_rule(build):
    world = build(Agent(lambda notify: [set_var("txn", "score", 7)]))
    world.serve(GROUP, agent_lines="groups gr", frontend=f"http-request {SEND}\n    http-request deny status 429 if {{ var(txn.v.score) -m int 7 }}")
    assert world.ask().startswith(b"HTTP/1.1 429 ")


@pytest.mark.parametrize("engine, rule, text", [
    (GROUP, "http-request send-spoe-group e nope", "Proxy 'f': unable to find SPOE group 'nope' into SPOE engine 'e' configuration"),
    (GROUP, "http-request send-spoe-group nope gr", "Proxy 'f': unable to find SPOE engine 'nope' used by the send-spoe-group 'gr'"),
    (GROUP, "http-request send-spoe-group e", "expects 2 arguments: <engine-id> <group-id>"),
    # HAProxy counts the arguments. weir misses a condition after them.
    (GROUP, "http-request send-spoe-group e gr x", ("expects 2 arguments: <engine-id> <group-id>", "expects either 'if' or 'unless'")),
    (GROUP, f"tcp-request connection {SEND}", "'tcp-request connection' expects"),
    (GROUP, f"http-after-response {SEND}", "'http-after-response' expects"),
    (GROUP.replace("var(txn.n)", "path"), f"http-response {SEND}", "Invalid SPOE message 'g' used by SPOE group 'gr'"),
])
def test_faults_of_send_spoe_group(build, engine, rule, text):
    world = build()
    path = world.files(engine, agent_lines="groups gr", frontend=rule, messages="")
    done = subprocess.run([world.binary, "-c", "-f", path], capture_output=True, text=True, timeout=10)
    texts = (text,) if isinstance(text, str) else text
    assert done.returncode == 1 and any(text in done.stdout + done.stderr for text in texts), done.stderr


# Bodies.

BODY = message("m", "on-frontend-http-request", "b=req.body n=req.body_len s=req.body_size")


def send(world, size):
    """Sends a body of this size that ends with E."""
    return world.ask("/", f"Content-Length: {size}", method="POST", body=b"x" * (size - 1) + b"E")


@pytest.mark.parametrize("place", ["option http-buffer-request", "http-request wait-for-body time 2s"])
@pytest.mark.parametrize("size", [5, 14000])
def test_a_body_that_was_waited_for(build, size, place):
    world = build()
    event = "on-frontend-http-request" if place.startswith("option") else "on-backend-http-request"
    world.serve(BODY.replace("on-frontend-http-request", event), frontend=place)
    assert send(world, size).startswith(b"HTTP/1.1 200 ")
    assert world.agent.notifies[0].arguments == {"b": b"x" * (size - 1) + b"E", "n": size, "s": size}


def test_a_chunked_body_is_decoded(build):
    world = build()
    world.serve(BODY, frontend="option http-buffer-request")
    world.ask("/", "Transfer-Encoding: chunked", method="POST", body=b"5\r\nhello\r\n3\r\nabc\r\n0\r\n\r\n")
    assert world.agent.notifies[0].arguments == {"b": b"helloabc", "n": 8, "s": 8}


def test_the_beginning_of_a_body_larger_than_a_buffer(build):
    world = build()
    world.serve(BODY, frontend="option http-buffer-request")
    assert send(world, 20000).startswith(b"HTTP/1.1 200 ")
    arguments = world.agent.notifies[0].arguments
    assert 14000 < len(arguments["b"]) == arguments["n"] < 16384 and arguments["s"] == 20000
    assert set(arguments["b"]) == set(b"x")


def test_the_body_of_a_response(build):
    world = build()
    world.serve(message("g", "", "b=res.body") + "\nspoe-group gr\n    messages g", agent_lines="groups gr",
                frontend=f"http-response wait-for-body time 2s\n    http-response {SEND}")
    world.ask()
    assert world.agent.notifies[0].arguments == {"b": b"ok"}


def test_a_request_without_messages_needs_no_agent(build):
    world = build()
    world.agent.cut()
    world.serve(CHECK.replace("on-frontend-http-request", "on-frontend-http-request if { path /no }"))
    assert world.ask().startswith(b"HTTP/1.1 200 ")
