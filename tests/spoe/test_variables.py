"""Variables that an agent sets: types, scopes, names, prefixes and guards (HAProxy's doc/SPOE.txt, 2.2 and 3.4)."""
import ipaddress
import subprocess

import pytest

from lib.spoe import CHECK, ask_again, field, message
from lib.spop import SCOPES, Agent, Value, set_var, unset_var

# The field `x` of an answer shows an expression.
SHOW = 'http-after-response set-header x "{}"'


def agent(*actions):
    """An agent that answers each NOTIFY with these actions."""
    return Agent(lambda notify: list(actions))


VALUES = [
    (Value("null", None), "", "0"), (Value("bool", True), "1", "1"), (Value("bool", False), "0", "1"), (Value("int32", 7), "7", "1"),
    (Value("int32", -7), "-7", "1"), (Value("uint32", 2**32 - 1), "4294967295", "1"), (Value("int64", 2**62), str(2**62), "1"),
    (Value("int64", -2**63), str(-2**63), "1"), (Value("uint64", 7), "7", "1"), (Value("uint64", 2**63 + 1), str(1 - 2**63), "1"),
    (Value("ipv4", ipaddress.IPv4Address("10.1.2.3")), "10.1.2.3", "1"), (Value("ipv6", ipaddress.IPv6Address("2001:db8::1")), "2001:db8::1", "1"),
    (Value("string", "plain text"), "plain text", "1"), (Value("string", ""), "", "1"), (Value("binary", b"\xffab"), "\xffab", "1"),
    (Value("binary", b""), "", "1"), (Value("string", "x" * 3000), "x" * 3000, "1"), (Value("string", "a\r\nb"), "a%0D%0Ab", "1"),
    # 64 bits are read whatever the type's width.
    (Value("int32", 2**40 + 3), str(2**40 + 3), "1"),
]


@pytest.mark.parametrize("value, text, found", VALUES, ids=lambda value: str(value)[:40] if isinstance(value, Value) else "")
def test_values(build, value, text, found):
    world = build(agent(set_var("txn", "s", value)))
    world.serve(frontend=SHOW.format("[%[var(txn.v.s)]]") + '\n    http-after-response set-header y "%[var(txn.v.s),length]"'
                "\n    http-after-response set-header found 1 if { var(txn.v.s) -m found }")
    head = world.ask()
    assert (field(head, "x"), field(head, "found") or "0") == (f"[{text}]", found)


# Where a variable is seen that an event sets: in http-request rules, in http-response rules, after them.
SEEN = [
    ("proc", "client-session", "5 5 5"), ("proc", "server-session", "- 5 5"), ("proc", "http-response", "- 5 5"),
    ("sess", "client-session", "5 5 5"), ("sess", "frontend-http-request", "5 5 5"), ("sess", "http-response", "- 5 5"),
    ("txn", "client-session", "5 5 5"), ("txn", "frontend-tcp-request", "5 5 5"), ("txn", "frontend-http-request", "5 5 5"),
    ("txn", "server-session", "- 5 5"), ("txn", "tcp-response", "- 5 5"), ("txn", "http-response", "- 5 5"),
    ("req", "client-session", "5 - -"), ("req", "frontend-tcp-request", "5 - -"), ("req", "frontend-http-request", "5 - -"),
    ("req", "server-session", "- - -"), ("req", "tcp-response", "- - -"), ("req", "http-response", "- - -"),
    ("res", "client-session", "- - -"), ("res", "frontend-http-request", "- - -"), ("res", "server-session", "- 5 5"),
    ("res", "tcp-response", "- 5 5"), ("res", "http-response", "- 5 5"),
]


@pytest.mark.parametrize("scope, event, want", SEEN)
def test_scopes(build, scope, event, want):
    world = build(agent(set_var(scope, "s", 5)))
    name = f"{scope}.v.s"
    world.serve(message("m", f"on-{event}"), frontend=f"""
    http-request set-var(txn.first) str(-)
    http-request set-var(txn.first) var({name}) if {{ var({name}) -m found }}
    http-response set-var(txn.second) str(-)
    http-response set-var(txn.second) var({name}) if {{ var({name}) -m found }}
    http-after-response set-var(txn.third) str(-)
    http-after-response set-var(txn.third) var({name}) if {{ var({name}) -m found }}
    {SHOW.format("%[var(txn.first)] %[var(txn.second)] %[var(txn.third)]")}""")
    assert field(world.ask(), "x") == want


@pytest.mark.parametrize("scope, want", [("proc", ["/0", "/0"]), ("sess", ["/0", "/0"]), ("txn", ["/0", "-"])])
def test_a_variable_in_the_next_request_of_the_connection(build, scope, want):
    world = build(Agent(lambda notify: [set_var(scope, "s", "/0")] if notify.arguments["path"] == "/0" else []))
    world.serve(frontend=f"http-after-response set-header x - unless {{ var({scope}.v.s) -m found }}\n"
                         f"    http-after-response set-header x %[var({scope}.v.s)] if {{ var({scope}.v.s) -m found }}")
    with world.connect() as client:
        assert [field(ask_again(client, path), "x") for path in ("/0", "/1")] == want


@pytest.mark.parametrize("scope", SCOPES)
def test_unset(build, scope):
    event = "on-http-response" if scope == "res" else "on-frontend-http-request"
    rule = "http-response" if scope == "res" else "http-request"
    world = build(agent(set_var(scope, "s", 1), set_var(scope, "t", 1), unset_var(scope, "s"), unset_var(scope, "never")))
    world.serve(message("m", event), frontend=f"{rule} set-var(txn.s) bool(1) if {{ var({scope}.v.s) -m found }}\n"
                f"    {rule} set-var(txn.t) bool(1) if {{ var({scope}.v.t) -m found }}\n    {SHOW.format('%[var(txn.s)]|%[var(txn.t)]')}")
    assert field(world.ask(), "x") == "|1"


# HAProxy applies the actions before a malformed one, and counts the exchange as successful. In weir it fails: a garbled verdict must be
# visible.
GARBLED = 260


@pytest.mark.parametrize("actions, want, status", [
    ([set_var("txn", "s", 1), set_var("txn", "s", "b")], "b", 0),
    ([set_var("txn", "s", 1), set_var("txn", "s", None)], "", 0),
    ([set_var("txn", "s", 1), set_var("txn", "S", 2)], "1", 0),
    # Names that are not valid are skipped.
    ([set_var("txn", "", 1), set_var("txn", "a-b/", 1), set_var("txn", "s", 3)], "3", 0),
    ([], "", 0),
    # A malformed action ends the list.
    ([set_var("txn", "s", 1), set_var(5, "s", 2), set_var("txn", "s", 3)], "1", GARBLED),
    ([set_var("txn", "s", 1), b"\x03\x01\x02\x01x", set_var("txn", "s", 3)], "1", GARBLED),
    ([set_var("txn", "s", 1), set_var("txn", "s", 2)[:-1]], "1", GARBLED),
    ([set_var("txn", "s", 1), b"\x01\x02\x02\x01s\x04\x02"], "1", GARBLED),
    ([set_var("txn", "s", 1), set_var("txn", "s", Value(10, None))], "1", GARBLED),
    ([b"\xff\xff\xff\xff"], "", GARBLED),
])
def test_lists_of_actions(build, actions, want, status):
    world = build(agent(*actions), differs="HAProxy does not count a malformed action as an error" if status else None)
    world.serve(frontend=SHOW.format("[%[var(txn.v.s)]]%[var(txn.v.error)]"))
    assert field(world.ask(), "x") == f"[{want}]{status or ''}"
    assert world.log.wait_for(f" st={status} ")


@pytest.mark.parametrize("name", ["a.b", "A_b", "1", "a..b", ".a", "_", "x" * 50])
def test_names(build, name):
    world = build(agent(set_var("txn", name, 5)))
    world.serve(frontend=SHOW.format(f"%[var(txn.v.{name})]"))
    assert field(world.ask(), "x") == "5"


def test_an_agent_overwrites_a_variable_of_a_rule(build):
    world = build(agent(set_var("txn", "s", 1)))
    world.serve(frontend=f"tcp-request session set-var(sess.other) int(1)\n    tcp-request content set-var(txn.v.s) int(9)\n    {SHOW.format('%[var(txn.v.s)]')}")
    assert field(world.ask(), "x") == "1"


# Process-wide variables exist if the configuration names them.

@pytest.mark.parametrize("lines, frontend, found", [
    ("", "", False), ("option force-set-var", "", True), ("register-var-names other s", "", True), ("register-var-names other", "", False),
    ("", SHOW.format("%[var(proc.v.s)]"), True), ("", SHOW.format("%[var(txn.v.s)]"), False), ("", SHOW.format("%[var(proc.s)]"), False),
])
def test_process_variables(build, lines, frontend, found):
    world = build(agent(set_var("proc", "s", 5)))
    world.serve(agent_lines=lines, frontend=frontend)
    world.ask()
    assert ("value=<5>" in world.command("get var proc.v.s")) == found


def test_a_process_variable_of_a_message(build):
    world = build(agent(set_var("proc", "s", 5)))
    world.serve(message("m", "on-frontend-http-request", "s=var(proc.v.s)"))
    world.ask()
    world.ask()
    assert [frame.arguments["s"] for frame in world.agent.notifies] == [None, 5]


# Prefixes.

NAMED = """[e]
spoe-agent {name}
    messages check
    timeout processing 1s
    use-backend agents
    {lines}
""" + CHECK + "\n"


@pytest.mark.parametrize("name, lines, variable", [("ag", "", "txn.ag.s"), ("a.b", "", "txn.a.b.s"), ("my-agent", "option var-prefix my", "txn.my.s"),
                                                   ("ag", "option var-prefix a.b_C1", "txn.a.b_C1.s")])
def test_prefixes(build, name, lines, variable):
    world = build(agent(set_var("txn", "s", 5)))
    world.serve(engine_text=NAMED.format(name=name, lines=lines), frontend=SHOW.format(f"%[var({variable})]"))
    assert field(world.ask(), "x") == "5"


@pytest.mark.parametrize("name, lines, text", [
    ("my-agent", "", "Invalid variable prefix 'my-agent' for SPOE agent 'my-agent'"),
    ("a/b", "", "character '/' is not permitted in 'spoe-agent' name 'a/b'."),
    ("ag", "option var-prefix a-b", "'option var-prefix' only supports [a-zA-Z0-9_.] chars."),
    ("ag", "option set-on-error a-b", "'option set-on-error' only supports [a-zA-Z0-9_.] chars."),
    ("ag", "register-var-names a-b", "failed to register variable ag.a-b"),
])
def test_faults_of_names(build, name, lines, text):
    world = build()
    path = world.files(engine_text=NAMED.format(name=name, lines=lines))
    done = subprocess.run([world.binary, "-c", "-f", path], capture_output=True, text=True, timeout=10)
    assert done.returncode == 1 and text in done.stdout + done.stderr


def test_times(build):
    world = build(Agent(delay=0.05))
    world.serve("\n".join([message("a", "on-frontend-http-request"), message("b", "on-http-response")]),
                agent_lines="option set-process-time pt\n    option set-total-time tt", frontend=SHOW.format("%[var(txn.v.pt)] %[var(txn.v.tt)]"))
    process, total = map(int, field(world.ask(), "x").split())
    assert 45 <= process < total and 90 <= total < 5000


# The backend of the agents.

def test_rules_of_the_backend_see_the_stream(build):
    world = build()
    world.serve(frontend=f"http-request set-var(txn.q) str(late)\n    tcp-request content set-var(txn.q) str(early)\n    {SHOW.format('%[var(proc.seen)]')}",
                agents="tcp-request content set-var(proc.seen) var(ptxn.q)")
    assert field(world.ask(), "x") == "early"


def test_rules_of_the_backend_choose_the_agent(build):
    with Agent() as other:
        world = build()
        world.serve(frontend="tcp-request content set-var(txn.q) str(yes)",
                    agents=f"use-server other if {{ var(ptxn.q) -m found }}\n    server other 127.0.0.1:{other.port}")
        world.ask()
        assert (len(other.notifies), len(world.agent.notifies)) == (1, 0)
