"""The scripts of doc/examples/lua with real traffic, each in both ways to load a script. See tests/language/test_examples.py."""
import base64
import hashlib
import hmac
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time

import pytest

from checks.test_mails import MailServer
from language.test_examples import EXAMPLES, configuration, get, trusting, web_server
from lib.origin import Origin, Server
from lib.program import ask, free_port, run, wait_until
from lib.tls import Authority
from scripts.test_services import exchange

LUA = os.path.join(EXAMPLES, "lua")
PLACE = "/etc/weir/lua/"


@pytest.fixture(params=["lua-load", "lua-load-per-thread"])
def example(request, binary, folder):
    """Makes the configuration of an example, with the script of doc/examples/lua, in each way to load it. `weir lint` finds nothing in it."""
    def configured(name, replaced):
        text = configuration(folder, f"lua/{name}.cfg", {PLACE: LUA + "/", **replaced})
        line = f"    lua-load-per-thread {LUA}/{name}.lua"
        assert text.count(line) == 1, text
        text = text.replace(line, line.replace("lua-load-per-thread", request.param)).replace("global\n", "global\n    nbthread 2\n", 1)
        status, out, errors = run(binary, "lint", "-f", folder.file("lint.cfg", text))
        assert status == 0, (out, errors)
        return text
    return configured


def behind(port, *servers):
    """The replacements of a frontend and of the servers behind it."""
    return {"bind :8080": f"bind 127.0.0.1:{port}", **to(servers)}


def to(servers):
    """The replacements of servers."""
    return {f"192.0.2.{11 + index}:8080": f"127.0.0.1:{server.port}" for index, server in enumerate(servers)}


def two_apps():
    """Two servers, and a function that returns the requests of a path which reached them."""
    servers = web_server(), web_server()
    return servers, lambda path: [request for server in servers for request in server.requests if request.path == path]


def site(authority):
    """A certificate with its key, which only its owner can read."""
    path = authority.issue("one.example")
    os.chmod(path, 0o600)
    return path


# Forward authentication.

def decide(request):
    """A service that knows one token."""
    fields, status, body = "", "401 Unauthorized", "who are you?"
    if request.field("authorization") == "Bearer good":
        fields, status, body = "Remote-User: john\r\nRemote-Groups: admins\r\nX-Internal: 1\r\n", "200 OK", ""
    elif request.field("cookie") == "a=1":
        fields, status, body = "Location: https://login.example/\r\nSet-Cookie: a=2\r\n", "302 Found", ""
    elif request.field("cookie") == "broken":
        status, body = "500 Oops", "secret trace"
    return f"HTTP/1.1 {status}\r\n{fields}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def test_forward_auth(folder, start, port, example):
    """A permission is kept and has the service's names; refusals reach the client; without the service nothing passes."""
    service, (apps, received) = Origin(decide), two_apps()
    text = example("forward-auth", {**behind(port, *apps), "http://192.0.2.83:9000/": f"http://127.0.0.1:{service.port}/"})
    start(text.replace("nbthread 2", "nbthread 1"), port)
    assert get(port, "/a")[::2] == (401, "who are you?")
    status, fields, _ = get(port, "/a", Cookie="a=1")
    assert (status, fields["location"], fields["set-cookie"]) == (302, "https://login.example/", "a=2")
    status, _, body = get(port, "/a", Cookie="broken")
    assert status == 503 and "secret" not in body
    assert not received("/a")
    for _ in range(3):
        assert get(port, "/a?b=c", Authorization="Bearer good", Remote_User="root", Remote_Email="root@example.com")[0] == 200
    served = received("/a?b=c")
    assert len(served) == 3 and {request.field("remote-user") for request in served} == {"john"}
    assert b"root" not in served[0].head and b"x-internal" not in served[0].head.lower() and served[0].field("remote-groups") == "admins"
    # Kept for the same request only.
    asked = [request for request in service.requests if request.field("authorization") == "Bearer good"]
    assert len(asked) == 1
    assert [asked[0].field(f"x-forwarded-{name}") for name in ("method", "host", "uri", "for")] == ["GET", "one.example", "/a?b=c", "127.0.0.1"]
    assert get(port, "/other", Authorization="Bearer good")[0] == 200
    assert get(port, "/a?b=c", Authorization="Bearer goo")[0] == 401
    service.cut()
    assert get(port, "/new", Authorization="Bearer good")[0] == 503
    # A kept permission ends.
    assert wait_until(lambda: get(port, "/a?b=c", Authorization="Bearer good")[0] == 503, 8)


# JSON web tokens.

def text_of(data):
    """Base64url without padding (RFC 7515)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Signs tokens with a key of its own."""

    def __init__(self, folder):
        self.private, self.public = os.path.join(folder.path, "issuer.key"), os.path.join(folder.path, "issuer.pem")
        subprocess.run(["openssl", "genrsa", "-out", self.private, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", self.private, "-pubout", "-out", self.public], check=True, capture_output=True)
        os.chmod(self.public, 0o644)

    def token(self, alg="RS256", **changes):
        """A valid token, except for these claims."""
        claims = {"sub": "john", "scope": "read write", "iss": "https://login.example.com", "aud": "shop-api", "exp": int(time.time()) + 60, **changes}
        claims = {name: value for name, value in claims.items() if value is not None}
        signed = f"{text_of(json.dumps({'alg': alg}).encode())}.{text_of(json.dumps(claims).encode())}"
        if alg == "RS256":
            proof = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.private], input=signed.encode(), check=True, capture_output=True).stdout
        elif alg == "HS256":
            proof = hmac.digest(open(self.public, "rb").read(), signed.encode(), "sha256")
        else:
            proof = b""
        return f"{signed}.{text_of(proof)}"


def test_jwt(folder, start, port, example):
    """Claims of valid tokens become headers, every fault has its reason."""
    issuer, (apps, received) = Issuer(folder), two_apps()
    start(example("jwt", {**behind(port, *apps), "/etc/weir/issuer.pem": issuer.public}), port)
    good = issuer.token()
    for token in (good, issuer.token(aud=["other", "shop-api"]), issuer.token(nbf=int(time.time()) - 5)):
        answer = get(port, "/a", Authorization=f"Bearer {token}", X_User="root", X_Scope="all")
        assert answer[0] == 200, answer
    assert [(request.field("x-user"), request.field("x-scope")) for request in received("/a")] == [("john", "read write")] * 3
    assert get(port, "/b", Authorization=f"Bearer {issuer.token(scope=None)}", X_Scope="all")[0] == 200
    assert received("/b")[0].field("x-scope") is None
    status, fields, body = get(port, "/bad")
    assert (status, fields["www-authenticate"], body) == (401, 'bearer realm="api"', "no token\n")
    now, middle = int(time.time()), len(good) // 2
    for token, reason in ((good[:-8] + "AAAAAAAA", "invalid signature"), (good[:middle] + ("A" if good[middle] != "A" else "B") + good[middle + 1:], None),
                          (issuer.token(alg="none"), "wrong algorithm"), (issuer.token(alg="HS256"), "wrong algorithm"), ("x", "wrong algorithm"),
                          (issuer.token(exp=now - 60), "expired"), (issuer.token(exp=None), "expired"), (issuer.token(nbf=now + 99), "not valid yet"),
                          (issuer.token(iss="https://evil.example"), "wrong issuer"), (issuer.token(aud="shop"), "wrong audience"),
                          (issuer.token(aud=["shop-api-2"]), "wrong audience"), (issuer.token(sub="a\r\nx-admin: 1"), "invalid claim")):
        status, fields, body = get(port, "/bad", Authorization=f"Bearer {token}")
        assert status == 401 and (reason is None or body == f"{reason}\n"), (token, body)
        assert f'error="invalid_token", error_description="{body.strip()}"' in fields["www-authenticate"]
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        client.sendall(f"GET /bad HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {good}\r\nAuthorization: Bearer x\r\nConnection: close\r\n\r\n".encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert not received("/bad")


# Cross-origin requests.

def test_cors(folder, start, port, example):
    """Preflights are answered here; only listed origins are permitted, also on error pages; caches keep origins apart."""
    apps, received = two_apps()
    for app in apps:
        app.answer = lambda request: (b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nVary: Accept\r\nContent-Length: 2\r\n\r\nok")
    origins = folder.file("origins.map", "https://shop.example.com GET, POST\n")
    start(example("cors", {**behind(port, *apps), "/etc/weir/origins.map": origins}), port)
    shop = {"Origin": "https://shop.example.com"}
    status, fields, _ = get(port, "/p", method="OPTIONS", Access_Control_Request_Method="POST", **shop)
    assert status == 204 and fields["access-control-allow-origin"] == "https://shop.example.com" and fields["access-control-allow-methods"] == "get, post"
    assert fields["access-control-max-age"] == "600" and not received("/p")
    status, fields, _ = get(port, "/p", method="OPTIONS", Access_Control_Request_Method="POST", Origin="https://evil.example")
    assert status == 204 and not [name for name in fields if name.startswith("access-control")] and not received("/p")
    assert get(port, "/o", method="OPTIONS", **shop)[0] == 200 and len(received("/o")) == 1
    raw = socket.create_connection(("127.0.0.1", port), 5)
    with raw:
        raw.sendall(b"GET /a HTTP/1.1\r\nHost: x\r\nOrigin: https://shop.example.com\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: raw.recv(65536), b"")).decode().lower()
    assert answer.count("access-control-allow-origin: ") == 1 and "access-control-allow-origin: https://shop.example.com\r\n" in answer
    assert "vary: accept\r\n" in answer and "vary: origin\r\n" in answer
    for fields in ({"Origin": "https://evil.example"}, {}):
        _, fields, _ = get(port, "/a", **fields)
        assert "access-control-allow-origin" not in fields and fields["vary"] == "origin"
    for app in apps:
        app.cut()
    status, fields, _ = get(port, "/a", **shop)
    assert status == 503 and fields["access-control-allow-origin"] == "https://shop.example.com"


# The challenge for browsers.

def solved(page):
    """The cookie that the script of a page makes."""
    ticket = re.search(r'ticket = "([^"]+)"', page)[1]
    zeros = re.search(r'zeros = "(0+)"', page)[1]
    return next(f"{ticket}.{n}" for n in range(1 << 20) if hashlib.sha256(f"{ticket}.{n}".encode()).hexdigest().startswith(zeros))


def test_bot_challenge(binary, folder, start, example):
    """Only the solution of its own ticket lets a client pass, for as long as it holds."""
    (apps, received), plain, secure, authority = two_apps(), free_port(), free_port(), Authority(folder)
    context = trusting(authority)
    key = folder.file("challenge.key", base64.b64encode(os.urandom(32)).decode() + "\n")
    changes = {**to(apps), "bind :80\n": f"bind 127.0.0.1:{plain}\n", "bind :443": f"bind 127.0.0.1:{secure}",
               "/etc/weir/site.pem": site(authority), "/etc/weir/challenge.key": key}
    start(example("bot-challenge", {**changes, ".key 3600": ".key 4"}), plain)
    ask_page = lambda path="/a", agent="Browser/1", **fields: get(secure, path, context=context, User_Agent=agent, **fields)
    assert get(plain, "/a")[0] == 301
    status, fields, page = ask_page()
    assert (status, fields["cache-control"]) == (403, "no-store") and "<script>" in page
    cookie = solved(page)
    assert ask_page(Cookie=f"a=b; challenge={cookie}")[0] == 200 and len(received("/a")) == 1
    ends, signature, number = cookie.split(".")
    other = "1" if signature[0] != "1" else "2"
    for bad in (f"{int(ends) + 9}.{signature}.{number}", f"{ends}.{other}{signature[1:]}.{number}", f"{ends}.{signature}.{int(number) + 1}", "", "x", f"{ends}.{signature}",
                f"{ends}.{signature}.{number}" + "0" * 100):
        assert ask_page("/bad", Cookie=f"challenge={bad}")[0] == 403, bad
    assert ask_page("/bad", agent="Other/2", Cookie=f"challenge={cookie}")[0] == 403
    # Nor does it hold for another address.
    with context.wrap_socket(socket.create_connection(("127.0.0.1", secure), 5, ("127.0.0.2", 0)), server_hostname="one.example") as client:
        client.sendall(f"GET /bad HTTP/1.1\r\nHost: x\r\nUser-Agent: Browser/1\r\nCookie: challenge={cookie}\r\n\r\n".encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 403 ")
    assert ask_page("/robots.txt")[0] == ask_page("/api/x")[0] == 200 and not received("/bad")
    assert wait_until(lambda: ask_page(Cookie=f"challenge={cookie}")[0] == 403, 8)
    code, out, errors = run(binary, "-c", "-f", folder.file("weir.cfg", open(os.path.join(folder.path, "weir.cfg")).read().replace(key, folder.file("short", "abc"))))
    assert code == 1 and "at least 30 bytes" in out + errors


# The ban list of an API.

def test_ban_api(folder, start, port, example):
    """The list of the API replaces the file's, and stays when the API fails or answers with something else."""
    apps, _ = two_apps()
    state = {"answer": b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"}
    api = Origin(lambda request: state["answer"])
    text = example("ban-api", {**behind(port, *apps), "http://192.0.2.86:8080/banned 10": f"http://127.0.0.1:{api.port}/banned 0.2",
                                             "/etc/weir/banned": folder.file("banned", "127.0.0.0/8\n")})
    ok = lambda body, length=None: f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n{body}".encode()

    def answered(answer):
        """Waits until the API has given an answer twice: the first one has been used then."""
        state["answer"], before = answer, len(api.requests)
        assert wait_until(lambda: len(api.requests) >= before + 2, 8)

    began = time.monotonic()
    start(text, port)
    assert get(port)[0] == 403
    answered(ok("192.0.2.0/24\n2001:db8::1\n"))
    assert get(port)[0] == 200
    answered(ok("192.0.2.0/24\r\n127.0.0.1\r\n"))
    assert get(port)[0] == 403
    # One thread asks.
    assert len(api.requests) <= (time.monotonic() - began) / 0.2 + 1
    for bad in (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", ok("192.0.2.1\n", 50), ok("<html>\n"), ok("/run/x\n"), ok("300.1.1.1\n"),
                b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n192.0.2.1\n", None):
        answered(bad)
        assert get(port)[0] == 403, bad
    answered(ok(""))
    assert get(port)[0] == 200


# JA4.

def test_ja4(folder, start, port, example):
    """The fingerprint is that of FoxIO's definition, reaches the application, and is denied by a map."""
    (apps, received), authority = two_apps(), Authority(folder)
    denied = folder.file("denied.map", "")
    admin = os.path.join(folder.path, "s")
    text = example("ja4", {"bind :8443": f"bind 127.0.0.1:{port}", "/etc/weir/site.pem": site(authority),
                                            "/etc/weir/denied-clients.map": denied, **to(apps)})
    start(text.replace("global\n", f"global\n    stats socket {admin} level admin\n", 1), port)
    context = trusting(authority)
    context.set_alpn_protocols(["http/1.1"])
    hello = client_hello(context)
    assert get(port, "/a", context=context, X_JA4="forged")[0] == 200
    assert received("/a")[0].field("x-ja4") == ja4_of(hello) and b"forged" not in received("/a")[0].head
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert get(port, "/b", context=context)[0] == 200
    second = received("/b")[0].field("x-ja4")
    assert second == ja4_of(client_hello(context)) and second.startswith("t12d")
    ask(admin, f"add map {denied} {second} scanner")
    assert get(port, "/c", context=context)[0] == 403
    assert get(port, "/d", context=trusting(authority))[0] == 200


def client_hello(context):
    """The bytes of the hello that a context sends, without the record's header."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="one.example").do_handshake()
    return outgoing.read()[5:]


def ja4_of(hello):
    """The fingerprint of a hello that offers one protocol, computed from the bytes (RFC 8446, 4.1.2)."""
    at = 38
    at += 1 + hello[at]
    size = int.from_bytes(hello[at:at + 2])
    ciphers = [hello[i:i + 2].hex() for i in range(at + 2, at + 2 + size, 2)]
    at += 2 + size
    at += 1 + hello[at] + 2
    extensions, protocol, versions, schemes = [], "00", [], []
    while at < len(hello):
        kind, size = int.from_bytes(hello[at:at + 2]), int.from_bytes(hello[at + 2:at + 4])
        data, at = hello[at + 4:at + 4 + size], at + 4 + size
        extensions.append(f"{kind:04x}")
        if kind == 16:
            protocol = chr(data[3]) + chr(data[2 + data[2]])
        elif kind == 43:
            versions = [int.from_bytes(data[i:i + 2]) for i in range(1, len(data), 2)]
        elif kind == 13:
            schemes = [data[i:i + 2].hex() for i in range(2, len(data), 2)]
    version = {0x304: "13", 0x303: "12"}[max(versions or [int.from_bytes(hello[4:6])])]
    short = lambda text: hashlib.sha256(text.encode()).hexdigest()[:12]
    rest = ",".join(sorted(set(extensions) - {"0000", "0010"}))
    return (f"t{version}{'d' if '0000' in extensions else 'i'}{len(ciphers):02}{len(extensions):02}{protocol}_{short(','.join(sorted(ciphers)))}"
            f"_{short(rest + '_' + ','.join(schemes))}")


# The API for operators.

def test_operator_api(binary, folder, start, port, example):
    """Without its token nothing is shown or changed. Weights and states change, and wrong ones have a reason."""
    (apps, received), operators, token = two_apps(), free_port(), os.urandom(32).hex()
    path = folder.file("operator.token", token + "\n")
    start(example("operator-api", {**behind(port, *apps), "bind 127.0.0.1:8404": f"bind 127.0.0.1:{operators}", "/etc/weir/operator.token": path}), port)

    def call(method, path, body="", token=token):
        answer = exchange(operators, f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        head, _, body = answer.partition("\r\n\r\n")
        return int(head.split()[1]), json.loads(body) if body else None

    def servers():
        status, shown = call("GET", "/servers")
        assert status == 200 and [backend["name"] for backend in shown["backends"]] == ["app"]
        return {server["name"]: (server["address"], server["state"], server["weight"]) for server in shown["backends"][0]["servers"]}

    address = [f"127.0.0.1:{app.port}" for app in apps]
    assert wait_until(lambda: servers() == {"app1": (address[0], "UP", 1), "app2": (address[1], "UP", 1)}), servers()
    for wrong in ("", token[:-1], token + "0", "x" * 64):
        assert call("GET", "/servers", token=wrong) == (401, {"error": "wrong token"})
        assert call("PUT", "/servers/app/app1/state", "maint", token=wrong)[0] == 401
    assert call("PUT", "/servers/app/app1/weight", "7") == (200, {}) and servers()["app1"][2] == 7
    assert call("PUT", "/servers/app/app2/state", "maint\n") == (200, {}) and servers()["app2"][1] == "MAINT"
    for number in range(6):
        assert get(port, f"/{number}")[2] == str(apps[0].port)
    assert call("PUT", "/servers/app/app2/state", "ready") == (200, {})
    assert wait_until(lambda: servers()["app2"][1] == "UP")
    for method, path, body, status in (("PUT", "/servers/app/app1/weight", "257", 400), ("PUT", "/servers/app/app1/weight", "x", 400), ("PUT", "/servers/app/app1/weight", "", 400),
                                       ("PUT", "/servers/app/app1/state", "set_addr", 400), ("PUT", "/servers/app/app1/state", "ready" * 1000, 400),
                                       ("PUT", "/servers/app/none/state", "ready", 404), ("PUT", "/servers/none/app1/state", "ready", 404),
                                       ("PUT", "/servers/app/app1/address", "ready", 404), ("GET", "/", "", 404), ("GET", "/servers/app/app1/state", "", 405),
                                       ("DELETE", "/servers", "", 405)):
        answer = call(method, path, body)
        assert answer[0] == status and answer[1]["error"], (method, path, answer)
    assert call("HEAD", "/servers") == (200, None)
    assert servers()["app1"] == (address[0], "UP", 7)


# SOCKS5.

def test_socks5(binary, folder, start, port, example):
    """Both directions flow at once to allowed networks; other requests get the reply of RFC 1928."""
    echo, other, web = Server(echo_back), Server(echo_back), web_server(Origin(host="127.0.0.2"))
    networks = folder.file("socks.map", f"127.0.0.1 {echo.port} 65535\n127.0.0.2/31 {web.port}\n::1 1\n")
    start(example("socks5", {"bind :1080": f"bind 127.0.0.1:{port}", "192.168.0.0/16": "127.0.0.0/8", "/etc/weir/socks.map": networks}), port)

    def talk(*parts, length):
        with socket.create_connection(("127.0.0.1", port), 5) as client:
            for part in parts:
                client.sendall(part)
                time.sleep(0.02)
            answer = b""
            while len(answer) < length and (more := client.recv(100)):
                answer += more
            return answer, client.recv(100)

    local = socket.inet_aton("127.0.0.1")
    wanted = lambda where: b"\5\1\0\1" + local + where.to_bytes(2)
    for bad, reply in ((wanted(other.port), b"\2"), (b"\5\1\0\1\x0a\0\0\1\0\x50", b"\2"), (b"\5\2\0\1" + local + b"\0\1", b"\7"), (b"\5\1\0\3\3abc\0\x50", b"\x08"),
                       (b"\5\1\0\4" + bytes(15) + b"\1\0\2", b"\2")):
        assert talk(b"\5\1\0", bad, length=12) == (b"\5\0\5" + reply + b"\0\1" + bytes(6), b""), bad
    assert talk(b"\5\1\2", length=2) == (b"\5\xff", b"")
    assert talk(b"\4\1\0\1", length=1) == (b"", b"")
    assert other.count == 0
    # The parts of a request may come in pieces, or together with the first data.
    for parts in ([bytes([byte]) for byte in b"\5\2\1\0" + wanted(echo.port)] + [b"data"], [b"\5\1\0" + wanted(echo.port) + b"data"]):
        with socket.create_connection(("127.0.0.1", port), 5) as client:
            for part in parts:
                client.sendall(part)
                time.sleep(0.01)
            answer = b""
            while not answer.endswith(b"data"):
                more = client.recv(100)
                assert more, answer
                answer += more
            assert answer == b"\5\0\5\0\0\1" + bytes(6) + b"data"
            # More than all buffers hold: the directions do not wait for each other.
            text = os.urandom(4 << 20)
            sender = threading.Thread(target=client.sendall, args=(text,))
            sender.start()
            back = b""
            while len(back) < len(text) and (more := client.recv(1 << 20)):
                back += more
            sender.join()
            assert back == text
            client.shutdown(socket.SHUT_WR)
            assert client.recv(100) == b"bye"
    for host, expected in (("127.0.0.2", (0, str(web.port).encode())), ("127.0.0.1", (97, b""))):
        done = subprocess.run(["curl", "-s", "--socks5", f"127.0.0.1:{port}", f"http://{host}:{web.port}/"], capture_output=True, timeout=10)
        assert (done.returncode, done.stdout) == expected, done


def echo_back(connection):
    """Echoes all bytes, and says goodbye at their end."""
    while more := connection.recv(65536):
        connection.sendall(more)
    connection.sendall(b"bye")


# Challenges of ACME.

def test_acme(folder, start, example):
    """Tokens of the folder are answered, also those that appear later; no path leads out of it; others are redirected."""
    (apps, _), plain, secure, authority = two_apps(), free_port(), free_port(), Authority(folder)
    context = trusting(authority)
    place = os.path.join(folder.path, "challenges")
    os.mkdir(place)
    folder.file("secret", "secret")
    os.mkdir(os.path.join(place, "sub"))
    folder.file("challenges/long", "x" * 1025)
    folder.file("challenges/a.b", "dot")
    folder.file("challenges/sub/in", "in")
    start(example("acme", {**to(apps), "bind :80\n": f"bind 127.0.0.1:{plain}\n", "bind :443": f"bind 127.0.0.1:{secure}", "/etc/weir/site.pem": site(authority),
                           "/var/lib/acme/.well-known/acme-challenge\n": place + "\n"}), plain)
    path = "/.well-known/acme-challenge/"
    token = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0"
    assert get(plain, path + token)[0] == 404
    folder.file(f"challenges/{token}", f"{token}.thumbprint")
    for port, trusted in ((plain, None), (secure, context)):
        assert get(port, path + token, context=trusted)[::2] == (200, f"{token}.thumbprint")
    assert get(plain, path + token + "?a=b")[0] == 200
    for bad in ("", "../secret", "..%2fsecret", "%2e%2e/secret", "sub/in", "sub/../../secret", "sub", "a.b", "long", "x" * 129, token + "%00", token + "/", "/" + place):
        status, _, body = get(plain, path + bad)
        assert (status, body) == (404, "no such challenge\n"), (bad, status, body)
    assert get(plain, "/a")[0] == 301 and get(secure, "/a", context=context)[0] == 200
    assert wait_until(lambda: get(plain, path + token)[0] == 429)


# A registry of services.

def consul(*servers, more=""):
    """The answer of Consul for these addresses."""
    return json.dumps([{"Node": {"Node": "caf\u00e9 \U0001F600", "Address": "192.0.2.200"}, "Checks": [{"Status": "passing", "Output": 'a "quoted"\n\\ text'}],
                        "Service": {"ID": "app", "Address": address, "Port": port, "Weights": {"Passing": 1.5e0, "Warning": -1}, "Meta": None, "Tags": [], "On": True}}
                       for address, port in servers])


def test_registry(folder, start, port, example):
    """Servers come and go with the answers, keep their slot, and stay when an answer is unusable."""
    apps = [web_server() for _ in range(3)]
    state = {"body": "[]", "status": "200 OK"}
    registry = Origin(lambda request: f"HTTP/1.1 {state['status']}\r\nConnection: close\r\nContent-Length: {len(state['body'])}\r\n\r\n{state['body']}".encode())
    admin = os.path.join(folder.path, "s")
    text = example("registry", {"bind :8080": f"bind 127.0.0.1:{port}", "http://192.0.2.87:8500/v1/health/service/app?passing 5": f"http://127.0.0.1:{registry.port}/v1/app?passing 0.2",
                                "192.0.2.11:8080 check": "127.0.0.1:1 check", "1-8": "1-3"})
    began = time.monotonic()
    start(text.replace("global\n", f"global\n    stats socket {admin} level admin\n", 1), port)

    def answered(body, status="200 OK"):
        """Waits until the script has used an answer of the registry."""
        state["body"], state["status"], before = body, status, len(registry.requests)
        assert wait_until(lambda: len(registry.requests) >= before + 2, 8)

    address = lambda app: ("127.0.0.1", app.port)
    served = lambda: {int(body) if status == 200 else status for status, _, body in (get(port) for _ in range(6))}
    slots = lambda: {line.split()[3]: int(line.split()[18]) for line in ask(admin, "show servers state app").splitlines() if " app" in line and line[0] in "123456789"}
    answered("[]")
    assert served() == {503}
    answered(consul(*map(address, apps[:2])))
    assert wait_until(lambda: served() == {apps[0].port, apps[1].port}), served()
    first = slots()
    kept = next(name for name, number in first.items() if number == apps[1].port)
    answered(consul(address(apps[2]), address(apps[1])))
    assert wait_until(lambda: served() == {apps[1].port, apps[2].port})
    assert slots()[kept] == apps[1].port
    for body, status in (("", "500 No"), (consul(address(apps[0])), "503 No"), ("[]", "200 OK"), ("[", "200 OK"), ("{}", "200 OK"), ("[1]", "200 OK"), (consul(("/run/x", 1)), "200 OK"),
                         (consul(("127.0.0.1", 0)), "200 OK"), (consul(("localhost", 80)), "200 OK"), (consul(("10.0.0.0/8", 80)), "200 OK"), (consul(("127.0.0.1", "1")), "200 OK"), (consul(address(apps[0])) + "x", "200 OK"), ("[" * 10000, "200 OK"),
                         (consul(address(apps[0]))[:-1], "200 OK")):
        answered(body, status)
        assert served() == {apps[1].port, apps[2].port}, (body, status)
    answered(consul(*map(address, apps)))
    assert wait_until(lambda: served() == {app.port for app in apps})
    answered(consul(address(apps[1])))
    assert wait_until(lambda: served() == {apps[1].port})
    # An address that no server takes leaves the slot in maintenance.
    answered(consul(address(apps[1]), ("1.2.3", apps[0].port)))
    assert served() == {apps[1].port}
    # One thread asks.
    assert len(registry.requests) <= (time.monotonic() - began) / 0.2 + 1
    registry.cut()
    assert served() == {apps[1].port}


DECODED = [
    ('{"n": 7, "a": [1, -2.5, 1e3, true, false, null, "x"], "b": {}}', "1 -2.5 1000.0 true false nil x"), (r'{"n": 2, "a": ["\u00e9\ud83d\ude00\n\/\\\"", "\u007f"]}', "é😀\n/\\\" \x7f"),
    *((f'{{"a": [{bad}]}}', None) for bad in ("01", "1.", ".5", "+1", "1e", "tru", "nul", "truex", "'a'", '"a', '"\\x"', '"\\ud800"', '"\\udc00"', '"\\u12"', '"\n"', "1,", ",1", "1 2", "{1:2}", '{"a" 1}')),
    ("", None), ("{} x", None), ("[" * 51 + "]" * 51, None),
]


def test_the_decoder_of_json(folder, start, port):
    """Values of all kinds, and texts that are not valid."""
    cases = "".join(f"[==[{text}]==], " for text, _ in DECODED)
    script = folder.file("cases.lua", f"""
local json = require("json")
core.register_service("cases", "http", function(applet)
    local shown = {{}}
    for _, text in ipairs {{ {cases} }} do
        local value, reason = json.decode(text)
        local parts = {{}}
        for i = 1, value and value.n or 0 do parts[i] = tostring(value.a[i]) end
        shown[#shown + 1] = value and table.concat(parts, " ") or "invalid" .. (reason:find(" expected at %d+$") and "" or reason)
    end
    applet:start_response()
    applet:send(table.concat(shown, "\\1"))
end)""")
    start(f"""
global
    lua-prepend-path {LUA}/?.lua
    tune.lua.bool-sample-conversion normal
    lua-load {script}
defaults
    mode http
    timeout connect 1s
    timeout client 5s
    timeout server 5s
frontend f
    bind 127.0.0.1:{port}
    http-request use-service lua.cases
""", port)
    done = subprocess.run(["curl", "-s", f"http://127.0.0.1:{port}/"], capture_output=True, timeout=10)
    assert done.stdout.decode().split("\1") == [expected or "invalid" for _, expected in DECODED]


# Mails about servers.

def test_mail(start, port, example):
    """All mail servers get a mail of each change, also where one of them is dead or silent. The built-in mails stay away."""
    (apps, _), first, second = two_apps(), MailServer(), MailServer()
    text = example("mail", {**behind(port, *apps), "192.0.2.25:25": f"127.0.0.1:{first.port}", "192.0.2.26:25": f"127.0.0.1:{second.port}", "mail 10s": "mail 1s"})
    start(text.replace(" check\n", " check inter 1s fall 1 rise 1\n"), port)
    apps[0].statuses["/health"] = 503
    for server in (first, second):
        server.wait_for("Server app/app1 is DOWN")
    mail = next(mail for mail in first.mails if "app/app1 is DOWN" in mail)
    expected = "HELO proxy.example.com\r\nMAIL FROM:<weir@example.com>\r\nRCPT TO:<operators@example.com>\r\nDATA\r\n" \
        r"From: weir@example.com\r\nTo: operators@example.com\r\nSubject: \[weir\] Server app/app1 is DOWN\r\n" \
        r"Date: (Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000\r\n\r\n" \
        r"Server app/app1 is DOWN\.\r\n\r\nBefore: UP\r\n(Cause: [^\r\n]+\r\n)?Check: Layer7 wrong status, code 503\r\nDuration: \d+ ms\r\n\.\r\nQUIT\r\n"
    assert re.fullmatch(expected, mail), mail
    second.cut()
    apps[0].statuses["/health"] = 200
    first.wait_for("Server app/app1 is UP")
    second.serve = lambda connection: connection.recv(1)
    second.listen()
    apps[1].statuses["/health"] = 503
    first.wait_for("Server app/app2 is DOWN")
    assert not any("HAProxy" in mail for mail in first.mails + second.mails)


def test_every_example_has_a_test_and_a_script():
    """Each configuration of the folder is tested, and has its script."""
    source = open(__file__).read()
    names = {name.removesuffix(".cfg") for name in os.listdir(LUA) if name.endswith(".cfg")}
    assert len(names) == 11 and {name.removesuffix(".lua") for name in os.listdir(LUA) if name.endswith(".lua")} == names | {"json"}
    assert [name for name in names if f'example("{name}"' not in source] == []
