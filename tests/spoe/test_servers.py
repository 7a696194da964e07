"""Agents are servers like others: TLS, dynamic servers, outlier ejection, PROXY headers, addresses of every kind."""
import contextlib
import os
import ssl

import pytest

from lib.program import free_port, wait_until
from lib.spoe import field
from lib.spop import Agent, set_var
from lib.tls import Authority

SHOW = 'http-request return status 200 hdr x "%[var(txn.v.error)]|%[var(txn.v.s)]"'


def named(name, **options):
    """An agent that answers with its name."""
    return Agent(lambda notify: [set_var("txn", "s", name)], **options)


class SecureAgent(Agent):
    """An agent behind TLS. `names` has the server names that clients asked for."""

    def __init__(self, certificate, act):
        self.context, self.names = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), []
        self.context.load_cert_chain(certificate)
        self.context.sni_callback = lambda connection, name, context: self.names.append(name)
        super().__init__(act)

    def serve(self, connection):
        with contextlib.suppress(OSError):
            super().serve(self.context.wrap_socket(connection, server_side=True))


def test_agents_over_tls(build):
    world = build()
    authority = Authority(world.folder)
    world.agent = SecureAgent(authority.issue("agent.test"), lambda notify: [set_var("txn", "s", "secret")])
    words = f"ssl ca-file {authority.certificate} verify required sni str(agent.test) verifyhost agent.test"
    world.serve(agent_words=words, frontend=SHOW)
    for _ in range(3):
        assert field(world.ask(), "x") == "|secret"
    assert set(world.agent.names) == {"agent.test"} and len(world.agent.hellos) < 3


def test_an_agent_with_an_untrusted_certificate(build):
    world = build()
    authority = Authority(world.folder)
    world.agent = SecureAgent(authority.issue("agent.test"), lambda notify: [set_var("txn", "s", "secret")])
    stranger = Authority(world.folder, "stranger")
    world.serve(agents="retries 0", agent_words=f"ssl ca-file {stranger.certificate} verify required", frontend=SHOW)
    assert field(world.ask(), "x") == "257|"
    assert not world.agent.notifies


def test_servers_come_and_go(build):
    world = build(named("first"))
    # Without an address that changes with the request, only some algorithms take servers at run time.
    world.serve(agents="balance roundrobin", frontend=SHOW, timeout="2s")
    assert field(world.ask(), "x") == "|first"
    with named("second") as second:
        assert "registered" in world.command(f"add server agents/other 127.0.0.1:{second.port}")
        world.command("enable server agents/other")
        world.command("set server agents/a state maint")
        assert [field(world.ask(), "x") for _ in range(3)] == ["|second"] * 3
        world.command("set server agents/a state ready")
        world.command("set server agents/other state maint")
        assert [field(world.ask(), "x") for _ in range(3)] == ["|first"] * 3
        assert wait_until(lambda: "deleted" in world.command("del server agents/other"))
        assert field(world.ask(), "x") == "|first"


def test_an_agent_moves(build):
    world = build(named("first"))
    world.serve(frontend=SHOW)
    assert field(world.ask(), "x") == "|first"
    with named("second") as second:
        world.command(f"set server agents/a addr 127.0.0.1 port {second.port}")
        assert field(world.ask(), "x") == "|second"


def test_an_agent_that_fails_is_marked_down(build):
    silent = Agent(script=lambda talk: talk.greet() and talk.next_notify())
    with silent:
        world = build(named("good"), differs="HAProxy 3.2 counts a connection as a success, also for layer 7")
        watched = "check inter 60s observe layer7 error-limit 3 on-error mark-down"
        world.serve(agents=f"balance roundrobin\n    retries 0\n    server bad 127.0.0.1:{silent.port} {watched}", frontend=SHOW)
        seen = [field(world.ask(), "x") for _ in range(20)]
        assert 3 <= seen.count("257|") <= 5 and seen[-8:] == ["|good"] * 8
        assert world.stat("agents", "bad", "status") == "DOWN"


def test_outlier_ejection_of_an_agent(build):
    silent = Agent(script=lambda talk: talk.greet() and talk.next_notify())
    with silent:
        world = build(named("good"), differs="HAProxy has no outlier ejection")
        world.serve(agents=f"balance roundrobin\n    retries 0\n    outlier-ejection errors 3\n    server bad 127.0.0.1:{silent.port}", frontend=SHOW)
        seen = [field(world.ask(), "x") for _ in range(20)]
        assert 3 <= seen.count("257|") <= 5 and seen[-8:] == ["|good"] * 8
        assert world.stat("agents", "bad", "ejections") == "1"


def test_a_request_is_not_routed_to_agents(build):
    world = build(named("first"), differs="HAProxy sends the request there")
    world.serve(frontend="use_backend %[hdr(to)]")
    assert b"200" in world.ask("/", "To: nowhere").split(b"\r\n")[0]
    assert b"200" in world.ask("/", "To: agents").split(b"\r\n")[0]
    assert len(world.origin.requests) == 2


@pytest.mark.parametrize("kind", ["unix", "abns"])
def test_agents_on_unix_sockets(build, kind):
    world = build(named("local"))
    relay = f"{world.folder.path}/agent.sock" if kind == "unix" else f"agent-{free_port()}"
    address = f"{kind}@{relay}" if kind == "abns" else relay
    # Another proxy of the same process accepts there.
    section = f"listen relay\n    mode tcp\n    bind {kind}@{relay}\n    server a 127.0.0.1:{world.agent.port}"
    world.serve(agent=address, sections=section, frontend=SHOW)
    assert [field(world.ask(), "x") for _ in range(3)] == ["|local"] * 3
