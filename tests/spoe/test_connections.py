"""Connections to agents: pooled, shared by pipelined exchanges, closed, checked and counted."""
import collections
import os
import re
import subprocess
import threading

import pytest

from lib.origin import end_with_reset
from lib.program import USR1, wait_until
from lib.spoe import field
from lib.spop import Agent, Value, backwards, hang_after_notify, hang_before_hello, set_var

SHOW = 'http-after-response set-header x "%[var(txn.v.error)]|%[var(txn.v.score)]"'


def echo(notify):
    """The path of the request, as the score."""
    return [set_var("txn", "score", notify.arguments["path"])]


def together(world, paths):
    """The field `x` of the answers to requests at the same time."""
    clients = [(path, world.connect()) for path in paths]
    for path, client in clients:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answers = []
    for _, client in clients:
        with client:
            answers.append(field(b"".join(iter(lambda: client.recv(65536), b"")), "x"))
    return answers


def test_a_connection_is_reused(build):
    world = build(Agent(echo))
    world.serve(frontend=SHOW)
    assert [field(world.ask(f"/{number}"), "x") for number in range(10)] == [f"|/{number}" for number in range(10)]
    assert len({frame.session for frame in world.agent.notifies}) == 1
    assert wait_until(lambda: world.stat("agents", "BACKEND", "reuse") in ("9", "10"))


@pytest.mark.parametrize("words", ["never", "safe", "aggressive", "always"])
def test_http_reuse_is_ignored(build, words):
    world = build(Agent(echo))
    world.serve(agents=f"http-reuse {words}")
    for _ in range(3):
        world.ask()
    assert len({frame.session for frame in world.agent.notifies}) == 1


def test_pipelined_exchanges_share_a_connection(build):
    world = build(Agent(echo, delay=0.1))
    world.serve(frontend=SHOW)
    world.ask("/first")
    paths = [f"/{number}" for number in range(15)]
    assert together(world, paths) == [f"|{path}" for path in paths]
    assert len({frame.session for frame in world.agent.notifies}) == 1
    assert len({frame.stream for frame in world.agent.notifies}) == 16


def test_acks_in_the_reverse_order(build):
    world = build(Agent(echo, backwards(10)))
    world.serve(frontend=SHOW)
    world.ask()
    paths = [f"/{number}" for number in range(10)]
    assert together(world, paths) == [f"|{path}" for path in paths]
    assert len({frame.session for frame in world.agent.notifies}) == 1


def test_many_exchanges_at_once(build):
    world = build(Agent(echo, delay=0.1))
    world.serve(frontend=SHOW)
    world.ask("/first")
    paths = [f"/{number}" for number in range(60)]
    assert together(world, paths) == [f"|{path}" for path in paths]


@pytest.mark.parametrize("items, lines", [({"capabilities": ""}, ""), ({"capabilities": None}, ""), ({}, "no option pipelining")])
def test_without_pipelining_a_connection_has_one_exchange(build, items, lines):
    world = build(Agent(echo, delay=0.1, items=items))
    world.serve(frontend=SHOW, agent_lines=lines)
    world.ask("/first")
    paths = [f"/{number}" for number in range(8)]
    assert together(world, paths) == [f"|{path}" for path in paths]
    counts = collections.Counter(frame.session for frame in world.agent.notifies)
    assert len(counts) >= 8 and max(counts.values()) <= 2
    # They come back to the pool.
    used = set(counts)
    world.ask("/last")
    assert world.agent.notifies[-1].session in used
    assert not lines or all(hello["capabilities"] == "" for hello in world.agent.hellos)


def test_without_pipelining_an_exchange_waits_for_a_connection_of_a_full_server(build):
    world = build(Agent(echo, delay=0.03, items={"capabilities": ""}))
    world.serve(frontend=SHOW, agent_words="maxconn 2")
    paths = [f"/{number}" for number in range(8)]
    assert together(world, paths) == [f"|{path}" for path in paths]
    assert len({frame.session for frame in world.agent.notifies}) <= 2


def test_maxconn_bounds_exchanges(build):
    inside, most, lock = [0], [0], threading.Lock()

    def act(notify):
        with lock:
            inside[0] -= 1
        return echo(notify)

    def script(talk):
        if talk.greet():
            while notify := talk.next_notify():
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                talk.answer(notify)
    world = build(Agent(act, script, delay=0.03))
    world.serve(frontend=SHOW, agent_words="maxconn 3")
    paths = [f"/{number}" for number in range(12)]
    assert together(world, paths) == [f"|{path}" for path in paths]
    assert most[0] <= 3


# Ends.

def test_a_close_between_exchanges_is_not_an_error(build):
    def once(talk):
        if talk.greet() and (notify := talk.next_notify()):
            talk.answer(notify)
    world = build(Agent(echo, once))
    world.serve(frontend=SHOW)
    for number in range(4):
        # The close is seen before the next exchange.
        wait_until(lambda: world.stat("agents", "a", "srv_icur") == "0", 1)
        assert field(world.ask(f"/{number}"), "x") == f"|/{number}"
    assert len({frame.session for frame in world.agent.notifies}) == 4


@pytest.mark.parametrize("code", [0, 2, 99])
def test_a_disconnect_between_exchanges_is_not_an_error(build, code):
    def once(talk):
        if talk.greet() and (notify := talk.next_notify()):
            talk.answer(notify)
            talk.disconnect(code, "idle")
            talk.hang()
    world = build(Agent(echo, once))
    world.serve(frontend=SHOW)
    for number in range(3):
        assert field(world.ask(f"/{number}"), "x") == f"|/{number}"
        # The agent's side ends too.
        talk = world.agent.conversations[-1]
        assert wait_until(lambda: talk.ending)


def test_a_new_agent_at_the_same_port(build):
    world = build(Agent(echo))
    world.serve(frontend=SHOW, agents="retries 0")
    assert field(world.ask("/1"), "x") == "|/1"
    world.agent.cut()
    assert wait_until(lambda: world.stat("agents", "a", "srv_icur") == "0")
    assert field(world.ask("/2"), "x") == "257|"
    world.agent.listen()
    assert field(world.ask("/3"), "x") == "|/3"


def test_a_failed_exchange_spares_the_others_of_its_connection(build):
    """Only the timeout of one ends, and the connection is used on."""
    def script(talk):
        if talk.greet():
            while notify := talk.next_notify():
                if notify.arguments["path"] != "/slow":
                    talk.ack(notify, *echo(notify))
    world = build(Agent(echo, script))
    world.serve(frontend=SHOW, timeout="200ms")
    world.ask("/first")
    assert together(world, ["/slow", "/a", "/b"]) == ["1|", "|/a", "|/b"]
    assert field(world.ask("/c"), "x") == "|/c"
    assert len({frame.session for frame in world.agent.notifies}) == 1


def test_a_disconnect_ends_all_exchanges_of_its_connection(build):
    def script(talk):
        if talk.greet():
            talk.answer(talk.next_notify())
            for _ in range(3):
                talk.next_notify()
            talk.disconnect(42, "no")
            talk.hang()
    world = build(Agent(echo, script))
    world.serve(frontend=SHOW)
    world.ask("/first")
    assert together(world, ["/a", "/b", "/c"]) == ["298|"] * 3


@pytest.mark.parametrize("place, backend, reset, differs", [
    ("frontend", "", True, "HAProxy does not notice the reset before a backend is chosen"), ("listen", "", True, "HAProxy often misses the reset"),
    ("listen", "option abortonclose", False, None)])
def test_a_client_that_leaves_ends_its_exchange(build, place, backend, reset, differs):
    """At once, without a log line; the connection is used on."""
    def script(talk):
        if talk.greet():
            talk.next_notify()
            while notify := talk.next_notify():
                talk.ack(notify, *echo(notify))
    world = build(Agent(echo, script), differs=differs)
    world.serve(place=place, backend=backend, frontend=SHOW, timeout="20s")
    client = world.connect()
    client.sendall(b"GET /gone HTTP/1.1\r\nHost: x\r\n\r\n")
    world.agent.wait_for(1)
    if reset:
        end_with_reset(client)
    client.close()
    assert wait_until(lambda: world.stat("agents", "a", "scur") == "0")
    assert field(world.ask("/next"), "x") == "|/next"
    world.log.wait_for("SPOE")
    assert len(world.log.lines) == 1
    assert {frame.session for frame in world.agent.notifies} == {world.agent.notifies[0].session}
    if reset:
        assert [request.path for request in world.origin.requests] == ["/next"]


def test_idle_connections_are_purged(build):
    world = build(Agent(echo))
    world.serve(agent_words="pool-purge-delay 50ms", frontend=SHOW)
    world.ask("/1")
    assert wait_until(lambda: world.agent.conversations[0].ending, 4)


def test_no_pool(build):
    world = build(Agent(echo))
    world.serve(agent_words="pool-max-conn 0", frontend=SHOW)
    for number in range(3):
        assert field(world.ask(f"/{number}"), "x") == f"|/{number}"
    assert wait_until(lambda: len([talk for talk in world.agent.conversations if talk.ending]) >= 3)


def test_a_soft_stop_waits_for_exchanges(build):
    world = build(Agent(echo, delay=0.2))
    world.serve(frontend=SHOW)
    with world.connect() as client:
        client.sendall(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        world.agent.wait_for(1)
        world.program.send(USR1)
        assert field(client.recv(65536), "x") == "|/a"
    assert world.program.status() == 0
    assert wait_until(lambda: all(talk.ending for talk in world.agent.conversations))


def test_a_soft_stop_sends_disconnect(build):
    world = build(Agent(echo), differs="HAProxy 3.2 resets idle connections without HAPROXY-DISCONNECT; 2.6 sent it")
    world.serve()
    world.ask()
    world.program.send(USR1)
    assert world.program.status() == 0
    assert wait_until(lambda: world.agent.disconnects) and world.agent.disconnects[0][0] == 0


# Checks.

@pytest.mark.parametrize("items", [{}, {"x": Value(10, None), "capabilities": ""}])
def test_spop_check(build, items):
    world = build(Agent(echo, items=items))
    world.serve(agents="option spop-check", agent_words="check inter 50ms")
    assert wait_until(lambda: world.stat("agents", "a", "check_status") == "L7OK")
    check = next(hello for hello in world.agent.hellos if hello.get("healthcheck"))
    assert list(check.items()) == [("supported-versions", "2.0"), ("max-frame-size", 16380), ("capabilities", ""), ("healthcheck", True)]
    assert world.agent.notifies == []


@pytest.mark.parametrize("script, status", [
    (lambda talk: talk.read_hello() and talk.disconnect(99, "no"), "L7RSP"),
    (lambda talk: talk.read_hello() and talk.hang(), "L7TOUT"),
    (lambda talk: talk.read_hello() and talk.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "L7RSP"),
    (lambda talk: talk.read_hello() and None, "L7RSP"),
])
def test_a_failed_check_takes_the_agent_down(build, script, status):
    world = build(Agent(script=script))
    world.serve(agents="option spop-check\n    timeout check 100ms", agent_words="check inter 50ms fall 1", frontend=SHOW)
    assert wait_until(lambda: world.stat("agents", "a", "status") == "DOWN")
    assert world.stat("agents", "a", "check_status") == status
    assert field(world.ask(), "x") == "257|"


# What operators see.

@pytest.mark.parametrize("mode", ["mode spop", "mode tcp"])
def test_statistics_of_the_backend(build, mode):
    world = build(Agent(echo))
    world.serve(agents_mode=mode)
    for _ in range(4):
        world.ask()
    for side in ("a", "BACKEND"):
        assert wait_until(lambda: world.stat("agents", side, "stot") == "4"), side
        assert world.stat("agents", side, "mode") == "spop"
        assert int(world.stat("agents", side, "bin")) > 4 * 10 and int(world.stat("agents", side, "econ")) == 0
    assert wait_until(lambda: world.stat("agents", "a", "scur") == "0")


def test_statistics_of_failures(build):
    world = build(Agent(script=lambda talk: talk.greet() and talk.next_notify()))
    world.serve()
    for _ in range(2):
        world.ask()
    assert wait_until(lambda: (world.stat("agents", "a", "eresp"), world.stat("agents", "a", "srv_abrt")) == ("2", "2"))


def test_the_backend_logs_no_traffic(build):
    world = build(Agent(echo))
    world.serve(agents=f"log 127.0.0.1:{world.log.port} local1\n    option tcplog")
    world.ask()
    world.log.wait_for("SPOE")
    assert all(" SPOE: " in line for line in world.log.raw)


def test_servers_are_chosen_for_each_exchange(build):
    with Agent(echo) as other:
        world = build(Agent(echo))
        world.serve(agents=f"balance roundrobin\n    server other 127.0.0.1:{other.port}", frontend=SHOW)
        for number in range(6):
            assert field(world.ask(f"/{number}"), "x") == f"|/{number}"
        assert (len(other.notifies), len(world.agent.notifies)) == (3, 3)


def test_dynamic_servers(build):
    with Agent(echo) as other:
        world = build(Agent(echo))
        world.serve(agents="balance roundrobin", frontend=SHOW)
        assert "registered" in world.command(f"add server agents/other 127.0.0.1:{other.port}")
        world.command("enable server agents/other")
        world.command("disable server agents/a")
        assert field(world.ask("/1"), "x") == "|/1"
        assert (len(other.notifies), len(world.agent.notifies)) == (1, 0)


def test_the_backend_of_an_agent_needs_a_known_mode(build):
    world = build()
    done = subprocess.run([world.binary, "-c", "-f", world.files(agents_mode="mode http")], capture_output=True, text=True, timeout=10)
    assert done.returncode == 1
    assert "backend 'agents' used by SPOE agent 'ag'" in done.stdout + done.stderr and "must use SPOP mode" in done.stdout + done.stderr


def test_exchanges_given_up_do_not_pile_up_connections(build):
    """The answer may still come, so that the connection is lost. It must not also wait for an agent that answers nothing."""
    world = build(Agent(script=hang_after_notify))
    world.serve(frontend="http-request return status 200", agent_lines="no option pipelining", timeout="20ms")
    counts = []
    for _ in range(20):
        world.ask()
        counts.append(len(os.listdir(f"/proc/{world.program.pid}/fd")))
    assert len(world.agent.notifies) == 20 and len({frame.session for frame in world.agent.notifies}) == 20
    assert max(counts) < counts[0] + 4


def test_first_connections_do_not_hold_slots_of_their_servers(build):
    silent = Agent(script=hang_before_hello)
    with silent:
        world = build(Agent(echo))
        world.serve(frontend=SHOW, agents="balance first\n    timeout queue 500ms", agent_words="maxconn 1",
                    sections=f"    server b 127.0.0.1:{silent.port} maxconn 1")
        # The first connection is opened to `a`, and found again, as `a` has a free slot.
        assert wait_until(lambda: [world.stat("agents", "a", column) for column in ("lbtot", "scur")] == ["2", "0"])
        assert [field(world.ask(f"/{number}"), "x") for number in range(3)] == ["|/0", "|/1", "|/2"]


def test_show_sess_has_the_exchange_on_its_connection(build):
    """The exchange is a stream beside the one that waits for it."""
    world = build(Agent(script=hang_after_notify))
    world.serve(timeout="2s")
    with world.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wait_until(lambda: world.agent.notifies)
        text = world.command("show sess all")
    if "mux=SPOP" in text:
        # HAProxy's form.
        return
    assert re.search(r"backend=agents\n.*\n.*\n.*\n  scb=\(fd=\d+ in=0\) mux=spop stream=1 answered=0 "
                     r"connection=\(exchanges=1 abandoned=0 begun=1 ready=1 places=100 out=0 leaving=0\)\n", text), text


def test_trace_spop(build):
    """The frames of an exchange, and their content."""
    world = build(Agent(echo), differs="its lines have another form")
    world.serve(frontend=SHOW)
    for words in ("sink buf0", "level developer", "verbosity complete", "start now"):
        assert not world.command(f"trace spop {words}").strip()
    assert field(world.ask("/path"), "x") == "|/path"
    text = world.command("show events buf0")
    names = iter(re.findall(r"\|spop\|\d\|(\w+)\] be=agents ", text))
    assert all(name in names for name in ("spop_strm_new", "tx_notify", "spop_conn_send", "spop_conn_recv", "rx_ack", "spop_strm_end")), text
    assert re.search(r"sent NOTIFY \[1\] length=\d+ \(exchanges=1 .*/path\"", text) and re.search(r"received ACK \[1\] length=\d+ .*/path\"", text)


def test_trace_spop_reports_failures(build):
    world = build(Agent(script=hang_after_notify), differs="its lines have another form")
    world.serve(timeout="50ms")
    for words in ("sink buf0", "level user", "start now"):
        world.command(f"trace spop {words}")
    world.ask("/path")
    assert wait_until(lambda: "spop_strm_err] be=agents [1] stream given up" in world.command("show events buf0"))


def traced(world):
    """Names of the events of `trace spop` in the sink."""
    return re.findall(r"\|spop\|\d\|(\w+)\] be=agents ", world.command("show events buf0"))


def trace(world, criterion):
    """Begins a trace that locks on this."""
    for words in ("sink buf0", "level developer", f"lock {criterion}", "start now"):
        assert not world.command(f"trace spop {words}").strip()


def test_trace_spop_locks_on_one_stream(build):
    """The first exchange, and no other one of its connection."""
    world = build(Agent(echo), differs="its lines have another form")
    world.serve(frontend=SHOW)
    world.ask("/0")
    trace(world, "spop_strm")
    assert [field(world.ask(f"/{number}"), "x") for number in (1, 2)] == ["|/1", "|/2"]
    assert traced(world) == ["spop_strm_new", "tx_notify", "rx_ack", "spop_strm_end"]
    assert len({frame.session for frame in world.agent.notifies}) == 1


def test_trace_spop_locks_on_one_connection(build):
    """The first connection that is used, until its end, and no later one."""
    world = build(Agent(script=hang_after_notify), differs="its lines have another form")
    world.serve(timeout="50ms", agent_lines="no option pipelining")
    trace(world, "connection")
    for number in (1, 2):
        world.ask(f"/{number}")
    assert len({frame.session for frame in world.agent.notifies}) == 2
    assert wait_until(lambda: "spop_conn_end" in traced(world))
    names = traced(world)
    assert [names.count(name) for name in ("spop_strm_new", "spop_conn_end")] == [1, 1], names
