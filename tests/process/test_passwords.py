"""Passwords with an expensive hash, which must not block a worker."""
import base64
import socket
import time

from lib.origin import end_with_reset
from lib.program import ask, free_port, readable, request, wait_until

# The rounds take minutes; no password matches.
ENDLESS = "$6$rounds=999999999$abc$" + "." * 86
SECRET = "$6$abc$IdWKNKTJEb8LxY7CGg8YBXlvtfZzFw7Mp/r6niK9YB2mdvgY..TKjv1T..8RadRt2qvUHYRLr/TsVArtr91iR1"
CONFIGURATION = """
global
    nbthread 1
    stats socket {stats} mode 600 level admin
userlist users
    group staff users known
    user known password {secret}
    user slow password {endless}
userlist others
    user known password {endless_too}
    user other password {secret}
backend t
    stick-table type ip size 10 store gpc0
defaults
    mode http
    timeout connect 2s
    timeout client 20s
    timeout server 20s
listen l
    bind 127.0.0.1:{port}
    tcp-request inspect-delay 5s
    tcp-request content accept if {{ path /early }} {{ http_auth(users) }}
    tcp-request content reject if {{ path /early }}
    http-request return status 204 if {{ path /public }}
    http-request return status 202 if {{ path /either }} {{ http_auth(others) }} or {{ path /either }} {{ http_auth(users) }}
    http-request track-sc0 src table t if {{ path /once }}
    acl counted sc0_inc_gpc0 lt 0
    acl counted http_auth(users)
    http-request return status 299 hdr count %[sc0_get_gpc0] if {{ path /once }} {{ sc0_inc_gpc0 gt 0 }} counted
    http-request set-var(txn.known) http_auth(users) if {{ path /variable }}
    http-request return status 203 if {{ var(txn.known) -m bool }}
    http-request return status 206 hdr known %[http_auth(users)] if {{ path /header }}
    http-request return status 207 content-type text/plain lf-string "%[http_auth(users)] %[http_auth(others)]" if {{ path /body }}
    http-request set-var-fmt(txn.text) "%[http_auth(users)]" if {{ path /format }}
    http-request return status 208 if {{ path /format }} {{ var(txn.text) -m str 1 }}
    http-request auth unless {{ http_auth(users) }}
    http-request deny unless {{ http_auth_group(users) staff }}
    http-request return status 200
frontend routes
    bind 127.0.0.1:{routes}
    log 127.0.0.1:{log} local0
    option dontlognull
    log-format "%HP %s"
    unique-id-format %[http_auth(users)]
    http-error status 403 content-type text/plain lf-string "%[http_auth(users)]"
    acl knows http_auth(users)
    http-request deny if {{ path /denied }}
    http-request return status 204 if {{ path /public }}
    http-request return status 205 hdr id %[unique-id] if {{ path /id }}
    redirect location /redirected if {{ path /redirect }} knows
    use_backend known if {{ path /route }} knows
    use_backend %[http_auth(users),iif(named,other)] if {{ path /named }}
    default_backend other
backend known
    http-request return status 220
backend named
    http-request return status 221
backend other
    stick-table type string size 10
    stats enable
    stats uri /stats
    stats http-request auth unless {{ http_auth(users) }}
    redirect location /redirected-by-backend if {{ path /late }} {{ http_auth(users) }}
    use-server a if {{ http_auth(users) }}
    balance first
    retries 0
    server b 127.0.0.1:1
    server a 127.0.0.1:1
"""


def credentials(path, user, password):
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {pair}\r\nConnection: close\r\n\r\n".encode()


def status(port, path, user, password):
    try:
        return request(port, credentials(path, user, password), 20)[9:12].decode()
    except ConnectionError:
        return ""


def configuration(folder, port, routes=None, log=1, endless_too=ENDLESS.replace("999999999", "1000")):
    """The text of a configuration with these ports."""
    return CONFIGURATION.format(stats=f"{folder.path}/stats", port=port, routes=routes or free_port(), log=log, secret=SECRET, endless=ENDLESS,
                                endless_too=endless_too)


def test_expensive_password_hashes_are_verified_in_conditions(start, folder, port):
    """Right and wrong ones, in several rules of one request and in rules on content."""
    start(configuration(folder, port), port)
    for path, user, password, expected in (
            ("/", "known", "secret", "200"), ("/", "known", "wrong", "401"), ("/", "absent", "secret", "401"),
            ("/", "known", "x" * 300, "401"), ("/early", "known", "secret", "200"), ("/early", "known", "wrong", ""),
            ("/either", "known", "secret", "202"), ("/either", "other", "secret", "202"), ("/either", "known", "wrong", "401"),
            ("/variable", "known", "secret", "203"), ("/variable", "known", "wrong", "401")):
        assert status(port, path, user, password) == expected, (path, user, password)


def test_expensive_password_hashes_are_verified_in_formats_and_backend_choices(start, folder, port, heard):
    """Rules that cannot wait for a hash find its result: arguments of actions, bodies, redirects, the choice of a
    backend and a server, the statistics page, unique IDs, error pages."""
    routes = free_port()
    start(configuration(folder, port, routes, heard.getsockname()[1]), port, routes)
    assert b"\r\nknown: 1\r\n" in request(port, credentials("/header", "known", "secret"), 20)
    assert b"\r\nknown: 0\r\n" in request(port, credentials("/header", "known", "wrong"), 20)
    assert request(port, credentials("/body", "known", "secret"), 20).endswith(b"\r\n\r\n1 0")
    assert request(port, credentials("/body", "known", "wrong"), 20).endswith(b"\r\n\r\n0 0")
    assert status(port, "/format", "known", "secret") == "208"
    assert status(port, "/format", "known", "wrong") == "401"
    for path, password, expected, server in (
            ("/public", "secret", "204", "<NOSRV>"), ("/public", "wrong", "204", "<NOSRV>"), ("/denied", "secret", "403", "<NOSRV>"),
            ("/redirect", "secret", "302", "<NOSRV>"), ("/route", "secret", "220", "<NOSRV>"), ("/named", "secret", "221", "<NOSRV>"),
            ("/late", "secret", "302", "<NOSRV>"), ("/elsewhere", "secret", "503", "a"),
            ("/elsewhere", "wrong", "503", "b"), ("/stats", "secret", "200", "<STATS>"), ("/stats", "wrong", "401", "<STATS>")):
        assert status(routes, path, "known", password) == expected, (path, password)
        text = heard.recv(4096).decode()
        assert text.strip().endswith(f"{path} {server}"), (path, password, text)
    assert b"\r\nid: 1\r\n" in request(routes, credentials("/id", "known", "secret"), 20)
    assert b"\r\nid: 0\r\n" in request(routes, credentials("/id", "known", "wrong"), 20)
    assert request(routes, credentials("/denied", "known", "secret"), 20).endswith(b"\r\n\r\n1")
    assert request(routes, credentials("/denied", "known", "wrong"), 20).endswith(b"\r\n\r\n0")


def test_a_condition_suspended_for_a_password_hash_runs_its_earlier_tests_once(start, folder, port):
    """A condition resumes after its password hash without repeating the tests before it, also within a named ACL."""
    start(configuration(folder, port), port)
    for expected in (b"2", b"4"):
        answer = request(port, credentials("/once", "known", "secret"), 20)
        assert answer.startswith(b"HTTP/1.1 299") and b"count: " + expected + b"\r\n" in answer, answer


def test_expensive_password_hashes_do_not_delay_other_requests(start, folder, port):
    """One worker answers other clients while it computes hashes, and drops the hashes of disconnected clients, in every place that needs a hash."""
    routes = free_port()
    start(configuration(folder, port, routes), port, routes)
    places = [(port, target) for target in ("/", "/header", "/body", "/format", "/variable")]
    places += [(routes, target) for target in ("/public", "/id", "/denied", "/redirect", "/route", "/named", "/late", "/stats", "/elsewhere")]
    waiting = [socket.create_connection(("127.0.0.1", place)) for place, _ in places]
    for client, (_, target) in zip(waiting, places):
        client.sendall(credentials(target, "slow", "wrong"))
    for _ in range(8):
        assert status(port, "/public", "slow", "wrong") == "204"
        assert status(port, "/", "known", "secret") == "200"
    assert readable(waiting, 0) == [], "a hash of minutes was computed"
    for client in waiting:
        end_with_reset(client)
        client.close()
    assert wait_until(lambda: "\nCurrConns: 0\n" in ask(f"{folder.path}/stats", "show info"))


def test_expensive_password_hashes_stop_when_their_client_closes(start, folder, port):
    """A hash ends when its client sends FIN, and at the latest after `timeout client`."""
    text = configuration(folder, port, endless_too=ENDLESS)
    start(text.replace("timeout client 20s", "timeout client 2s"), port)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as leaves, socket.create_connection(("127.0.0.1", port)) as stays:
        for client in (leaves, stays):
            client.sendall(credentials("/", "slow", "wrong"))
            client.settimeout(10)
        leaves.shutdown(socket.SHUT_WR)
        while leaves.recv(4096):
            pass
        assert time.monotonic() - began < 1.5, "the client that left was kept"
        assert readable([stays], 0) == []
        while stays.recv(4096):
            pass
        assert 1.8 < time.monotonic() - began < 6
    assert wait_until(lambda: "\nCurrConns: 0\n" in ask(f"{folder.path}/stats", "show info"))
