"""Passwords with a costly hash, which must not hold up a worker. Run by tests/process.py."""
import base64
import os
import select
import socket
import struct

from program import Program, ask, free_port, request, wait_until

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
    http-request auth unless {{ http_auth(users) }}
    http-request deny unless {{ http_auth_group(users) staff }}
    http-request return status 200
"""


def credentials(path, user, password):
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {pair}\r\nConnection: close\r\n\r\n".encode()


def status(port, path, user, password):
    try:
        return request(port, credentials(path, user, password), 20)[9:12].decode()
    except ConnectionError:
        return ""


def written(folder, port):
    path = os.path.join(folder.path, "stats")
    text = CONFIGURATION.format(stats=path, port=port, secret=SECRET, endless=ENDLESS, endless_too=ENDLESS.replace("999999999", "1000"))
    return folder.file("a.cfg", text), path


def costly_passwords_are_verified_in_conditions(binary, folder):
    """Right and wrong ones, in several rules of one request and in rules on content."""
    port = free_port()
    config, _ = written(folder, port)
    with Program(binary, "-db", "-f", config) as program:
        program.ready(port)
        for path, user, password, expected in (
                ("/", "known", "secret", "200"), ("/", "known", "wrong", "401"), ("/", "absent", "secret", "401"),
                ("/", "known", "x" * 300, "401"), ("/early", "known", "secret", "200"), ("/early", "known", "wrong", ""),
                ("/either", "known", "secret", "202"), ("/either", "other", "secret", "202"), ("/either", "known", "wrong", "401"),
                ("/variable", "known", "secret", "203"), ("/variable", "known", "wrong", "401")):
            assert status(port, path, user, password) == expected, (path, user, password)


def suspended_conditions_count_once(binary, folder):
    """A condition that waited for a password goes on behind the tests that it made before, also within a named ACL."""
    port = free_port()
    config, _ = written(folder, port)
    with Program(binary, "-db", "-f", config) as program:
        program.ready(port)
        for expected in (b"2", b"4"):
            answer = request(port, credentials("/once", "known", "secret"), 20)
            assert answer.startswith(b"HTTP/1.1 299") and b"count: " + expected + b"\r\n" in answer, answer


def costly_passwords_do_not_delay_other_requests(binary, folder):
    """One worker answers other clients while it computes hashes, and drops those of clients that are gone."""
    port = free_port()
    config, path = written(folder, port)
    with Program(binary, "-db", "-f", config) as program:
        program.ready(port)
        waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        for client in waiting:
            client.sendall(credentials("/", "slow", "wrong"))
        for _ in range(20):
            assert status(port, "/public", "slow", "wrong") == "204"
            assert status(port, "/", "known", "secret") == "200"
        assert select.select(waiting, [], [], 0)[0] == [], "a hash of minutes was computed"
        for client in waiting:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        assert wait_until(lambda: "\nCurrConns: 0\n" in ask(path, "show info"))
