"""The examples with agents and real traffic: doc/examples/ban-list.cfg with its agent, and waf.cfg with a scripted agent.

Coraza itself is in test_coraza.py.
"""
import contextlib
import os
import signal
import socket
import sys

import pytest

from language.test_examples import EXAMPLES, configuration, get, trusting, web_server, with_engines
from lib.program import Program, connects, free_port, wait_until
from lib.spop import Agent, close_at_once, hang_after_notify, hello_then, set_var
from lib.tls import Authority

AGENT = os.path.join(EXAMPLES, "ban-list-agent.py")


# The ban list.

class BanList:
    """The agent in a process of its own."""

    def __init__(self, folder):
        self.folder, self.port, self.program = folder, free_port(), None

    def start(self, banned="", **options):
        listed = self.folder.file("banned", banned)
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self.program = Program(sys.executable, AGENT, "--listen", f"127.0.0.1:{self.port}", "--file", listed, *words).__enter__()
        assert wait_until(lambda: connects(self.port)), "the agent does not listen"

    def ban(self, text):
        """Writes the file, and makes the agent read it."""
        self.folder.file("banned", text)
        self.program.send(signal.SIGHUP)

    def stop(self):
        if self.program:
            self.program.__exit__()
            self.program = None


@pytest.fixture
def bans(folder):
    made = BanList(folder)
    yield made
    made.stop()


def serve_ban_list(folder, start, bans, **changes):
    """Starts weir with the example. Returns a function that sends a request over TLS and returns its status."""
    plain, secure, app, other = free_port(), free_port(), web_server(), web_server()
    authority = Authority(folder)
    context = trusting(authority)
    text = with_engines(configuration(folder, "ban-list.cfg", {
        "bind :80\n": f"bind 127.0.0.1:{plain}\n", "bind :443": f"bind 127.0.0.1:{secure}", "/etc/weir/site.pem": authority.issue("one.example"),
        "127.0.0.1:12345": f"127.0.0.1:{bans.port}", "192.0.2.11:8080": f"127.0.0.1:{app.port}", "192.0.2.12:8080": f"127.0.0.1:{other.port}",
        **changes}))
    start(text)
    assert wait_until(lambda: connects(secure))
    return lambda: get(secure, context=context)[0]


def test_example_ban_list(folder, start, bans):
    """An operator bans and pardons addresses while the agent runs; a mistake in the file changes nothing."""
    bans.start("# none\n")
    status = serve_ban_list(folder, start, bans)
    assert wait_until(lambda: status() == 200)
    for text, want in [("127.0.0.1\n", 403), ("192.0.2.1\n", 200), ("127.0.0.0/8  # all of it\n", 403)]:
        bans.ban(text)
        assert wait_until(lambda: status() == want), text
    bans.ban("127.0.0\n")
    assert [status() for _ in range(5)] == [403] * 5
    bans.ban("")
    assert wait_until(lambda: status() == 200)


def test_example_ban_list_counts_requests(folder, start, bans):
    """An address above the limit is banned. When the ban and the window have ended, it counts anew."""
    bans.start(limit=5, window=60)
    status = serve_ban_list(folder, start, bans)
    assert [status() for _ in range(7)] == [200] * 5 + [403] * 2
    bans.stop()
    bans.start(limit=5, window=2, ban=0.1)
    assert wait_until(lambda: status() == 403) and wait_until(lambda: status() == 200)


def test_example_ban_list_fails_closed(folder, start, bans):
    bans.start()
    status = serve_ban_list(folder, start, bans)
    assert wait_until(lambda: status() == 200)
    bans.stop()
    assert [status() for _ in range(3)] == [503] * 3
    bans.start()
    assert wait_until(lambda: status() == 200)
    bans.program.send(signal.SIGSTOP)
    assert status() == 503
    bans.program.send(signal.SIGCONT)
    assert wait_until(lambda: status() == 200)


def test_example_ban_list_fails_open_by_choice(folder, start, bans):
    bans.start("127.0.0.1\n")
    status = serve_ban_list(folder, start, bans, **{"http-request deny deny_status 503 if": "http-request set-log-level warning if"})
    assert wait_until(lambda: status() == 403)
    bans.stop()
    assert wait_until(lambda: status() == 200)


def test_example_ban_list_ends_without_an_error(folder, start, bans):
    """SIGTERM: idle connections end with DISCONNECT, and the next agent serves the next request."""
    bans.start()
    status = serve_ban_list(folder, start, bans)
    assert wait_until(lambda: status() == 200)
    bans.program.send(signal.SIGTERM)
    assert bans.program.status() == 0
    bans.program = None
    bans.start()
    assert wait_until(lambda: status() == 200)


# The WAF.

def text_of(value):
    return value.decode() if isinstance(value, bytes) else value


def judge(notify):
    """The verdict that the path or the body names: `/deny`, `evil`."""
    values = notify.arguments
    if notify.names == ["coraza-res"]:
        return [set_var("txn", "action", "deny" if b"secret" in (values["body"] or b"") else "allow")]
    action = text_of(values["path"]).strip("/").partition("-")[0] or "allow"
    if b"evil" in (values["body"] or b""):
        action = "deny"
    more = [set_var("txn", "data", "https://login.example/")] if action == "redirect" else []
    return {"error": [set_var("txn", "error", 7)], "silent": []}.get(action, [set_var("txn", "action", action), *more])


def serve_waf(folder, start, agent, app=None, **changes):
    """Starts weir with the example. Returns a function that sends a request over TLS and returns its status, fields and body."""
    secure, app = free_port(), app or web_server()
    authority = Authority(folder)
    changes = {"bind :443": f"bind 127.0.0.1:{secure}", "/etc/weir/site.pem": authority.issue("one.example"),
               "192.0.2.86:9000": f"127.0.0.1:{agent.port}", "192.0.2.87:9000": f"127.0.0.1:{agent.port}",
               "192.0.2.11:8080": f"127.0.0.1:{app.port}", "192.0.2.12:8080": f"127.0.0.1:{app.port}", **changes}
    start(with_engines(configuration(folder, "waf.cfg", changes)))
    assert wait_until(lambda: connects(secure))
    context = trusting(authority)

    def ask(path="/", body=b"", chunked=False):
        if not body:
            return get(secure, path, context=context)
        return post(secure, context, path, body, chunked)
    return ask


def post(port, context, path, body, chunked):
    """The status of the response to a POST, as a list. None if the connection ended without one."""
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    if chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with socket.create_connection(("127.0.0.1", port), 5) as plain, context.wrap_socket(plain, server_hostname="one.example") as connection:
        answer = b""
        with contextlib.suppress(OSError):
            connection.sendall(f"POST {path} HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n{framing}\r\n\r\n".encode() + body)
        with contextlib.suppress(OSError):
            while more := connection.recv(65536):
                answer += more
    return [int(answer.split()[1]) if answer else None]


def test_example_waf(folder, start):
    """Every verdict, and every answer without one."""
    with Agent(judge) as agent:
        app = web_server()
        ask = serve_waf(folder, start, agent, app)
        assert wait_until(lambda: ask()[0] == 200)
        assert ask("/deny")[0] == 403
        status, fields, _ = ask("/redirect")
        assert (status, fields["location"]) == (302, "https://login.example/")
        # Without privileges the connection closes, with them it only falls silent.
        with pytest.raises((ConnectionError, TimeoutError)):
            ask("/drop")
        assert [ask(path)[0] for path in ("/error", "/silent", "/unknown")] == [503] * 3
        assert ask("/allow", b"good")[0] == 200 and ask("/allow", b"evil")[0] == 403
        assert ask("/allow", b"good", chunked=True)[0] == 200 and ask("/allow", b"evil", chunked=True)[0] == 403
        app.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret"
        assert ask()[0] == 403
        assert {request.path for request in app.requests} <= {"/", "/allow"}


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("size", [12_100, 16_384, 200_000])
def test_example_waf_refuses_bodies_that_exceed_the_buffer(folder, start, size, chunked):
    """The attack stands behind the part that the agent would see."""
    with Agent(judge) as agent:
        app = web_server()
        ask = serve_waf(folder, start, agent, app)
        assert wait_until(lambda: ask("/allow", b"good" * 2_500, chunked)[0] == 200)
        # A reset may destroy the response on its way.
        assert ask("/allow", b"x" * size + b"evil", chunked)[0] in (413, None)
        assert sum(request.method == "POST" for request in app.requests) == 1


@pytest.mark.parametrize("script", [close_at_once, hang_after_notify, hello_then(lambda talk, notify: talk.send(b"\0\0\0\x09garbage!!"))],
                         ids=["gone", "slow", "lying"])
def test_example_waf_fails_closed(folder, start, script):
    with Agent(script=script) as agent:
        app = web_server()
        # Without checks, which would take the agent down.
        ask = serve_waf(folder, start, agent, app, **{" check inter 2s maxconn 100": ""})
        assert [ask()[0] for _ in range(2)] == [503] * 2
        assert not app.requests
