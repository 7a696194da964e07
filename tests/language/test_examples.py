"""The configurations of doc/examples with real traffic: unchanged except for addresses, identity and check intervals.


Each check lists its replacements, and every replaced text has to be in the file: so an example cannot drift away from
its check.
"""
import os
import re
import socket
import ssl
import subprocess
import time

from ecosystem.support import of_the_manual, replaced
from lib.http2 import ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, FramePeer, field, frame
from lib.origin import Origin, Request, Server, read_head, switching
from lib.program import ROOT, Program, ask, free_port, log_socket, run, wait_until
from lib.tls import Authority, SecureServer, ask_over

EXAMPLES = os.path.join(ROOT, "doc", "examples")


def configuration(folder, name, replaced):
    """The text of an example in which every key of `replaced` became its value. A check may not take longer than its interval,
    and on a busy machine a handshake of TLS takes its time."""
    text = open(os.path.join(EXAMPLES, name)).read()
    replaced = {"    user weir\n": "", "    group weir\n": "", **replaced}
    if "No 'chroot'" not in text:
        replaced["    chroot auto\n"] = ""
    if "/dev/log" in text:
        replaced["log /dev/log local0"] = "log 127.0.0.1:9 local0"
    if "/run/weir/admin.sock" in text:
        replaced["/run/weir/admin.sock"] = os.path.join(folder.path, "admin.sock")
    for old, new in replaced.items():
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new)
    assert "192.0.2." not in text, text
    return re.sub(r"inter \ds", "inter 300ms", text)


def with_engines(text):
    """A configuration with the paths of the engines that lie beside the examples."""
    return re.sub(r"config /etc/weir/(?=\S+\.conf$)", f"config {EXAMPLES}/", text, flags=re.M)


def web_server(server=None):
    """A server that answers each request with its own port; its `statuses` are those of paths."""
    server = server or Origin()
    server.statuses = {}

    def answer(request):
        body = str(server.port)
        closes = "Connection: close\r\n" if request.field("connection") == "close" else ""
        return f"HTTP/1.1 {server.statuses.get(request.path, 200)} X\r\n{closes}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    server.answer = answer
    return server


class LineServer(Server):
    """Sends its port, then echoes every line."""

    def serve(self, connection):
        connection.sendall(f"{self.port}\n".encode())
        while line := connection.recv(1000):
            connection.sendall(line)


def get(port, path="/", method="GET", context=None, **fields):
    """One request on a connection of its own: the status, the fields, the body."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        if context:
            connection = context.wrap_socket(connection, server_hostname="one.example")
        extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        answer = ask_over(connection, f"{method} {path} HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n{extra}\r\n".encode())
        connection.close()
    if b"\r\n\r\n" not in answer:
        raise ConnectionError("closed without a response")
    head, body = answer.decode().split("\r\n\r\n", 1)
    start, *lines = head.split("\r\n")
    return int(start.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


def trusting(authority):
    return ssl.create_default_context(cafile=authority.certificate)


def session(port):
    """A TCP session with a line server: the connection, and which server it is."""
    connection = socket.create_connection(("127.0.0.1", port), 5)
    file = connection.makefile("rb")
    return connection, file.readline().decode().strip()


def leads_to(port, origin, seconds=8):
    """Whether new sessions come to a server, sooner or later."""
    def comes():
        connection, who = session(port)
        connection.close()
        return who == str(origin.port)
    return wait_until(comes, seconds)


def test_example_web_site(folder, start):
    """http redirects to https; browsers are instructed to stay there; a cookie keeps the server; a failing server is
    avoided; 429."""
    one, two, plain, secure = web_server(), web_server(), free_port(), free_port()
    authority = Authority(folder)
    context = trusting(authority)
    text = configuration(folder, "web-site.cfg", {
        "bind :80\n": f"bind 127.0.0.1:{plain}\n", "bind :443": f"bind 127.0.0.1:{secure}", "/etc/weir/site.pem": authority.issue("one.example"),
        "192.0.2.11:8080": f"127.0.0.1:{one.port}", "192.0.2.12:8080": f"127.0.0.1:{two.port}"})
    start(text, plain)
    status, fields, _ = get(plain, "/x")
    assert (status, fields["location"]) == (301, "https://one.example/x"), (status, fields)
    status, fields, who = get(secure, "/", context=context, X_Forwarded_For="6.6.6.6")
    assert status == 200 and fields["strict-transport-security"] == "max-age=31536000", fields
    served = one if who == str(one.port) else two
    told = next(request.head.decode().lower() for request in served.requests if (request.method, request.path) == ("GET", "/")).split("\r\n")
    assert "x-forwarded-for: 127.0.0.1" in told and "x-forwarded-proto: https" in told and not any("6.6.6.6" in line for line in told), told
    cookie = fields["set-cookie"].split(";")[0]
    for _ in range(6):
        assert get(secure, "/", context=context, Cookie=cookie.upper().replace("APP", "app"))[2] == who
    served.cut()
    other = two if served is one else one
    assert get(secure, "/", context=context, Cookie=cookie.upper().replace("APP", "app"))[2] == str(other.port)
    said = subprocess.run(["curl", "-s", "-k", "--http2", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", f"https://127.0.0.1:{secure}/"],
                          capture_output=True, text=True, timeout=10).stdout
    assert said == "2 200", said
    statuses = [get(plain, "/")[0] for _ in range(20)] + [get(secure, "/", context=context)[0] for _ in range(100)]
    assert statuses[0] == 301 and statuses[-1] == 429, statuses


def test_example_api_limits(folder, port, start):
    """Keys are counted separately, large bodies and unknown methods are refused before they reach a server."""
    one, two = web_server(), web_server()
    text = configuration(folder, "api-limits.cfg", {"bind :8080": f"bind 127.0.0.1:{port}", "192.0.2.21:9000": f"127.0.0.1:{one.port}",
                                                    "192.0.2.22:9000": f"127.0.0.1:{two.port}"})
    start(text, port)
    assert get(port)[0] == 401
    assert get(port, method="TRACE", X_Api_Key="a")[0] == 405
    assert get(port, method="POST", X_Api_Key="a", Content_Length=1048577)[0] == 413
    assert one.heads == two.heads == 0, (one.requests, two.requests)
    answers = [get(port, X_Api_Key="k") for _ in range(22)]
    assert [status for status, _, _ in answers[:20]] == [200] * 20, answers
    status, fields, body = answers[-1]
    assert (status, fields["retry-after"], body) == (429, "10", '{"error":"too many requests"}'), answers[-1]
    assert get(port, X_Api_Key="other")[0] == 200
    assert {body for _, _, body in answers[:20]} == {str(one.port), str(two.port)}


def test_example_tcp_databases(folder, port, start):
    """All sessions come to the first server; when it fails they end and new ones come to the second, and later back."""
    one, two = LineServer(), LineServer()
    text = configuration(folder, "tcp-databases.cfg", {"bind :3306": f"bind 127.0.0.1:{port}", "192.0.2.31:3306": f"127.0.0.1:{one.port}",
                                                       "192.0.2.32:3306": f"127.0.0.1:{two.port}"})
    start(text, port)
    connection, who = session(port)
    assert who == str(one.port)
    connection.sendall(b"select 1\n")
    assert connection.recv(100) == b"select 1\n"
    one.cut()
    assert connection.recv(100) == b""
    assert leads_to(port, two)
    one.listen()
    assert leads_to(port, one)


def test_example_postgresql_patroni(folder, start):
    """Patroni's answers select the server of each port; a session with the former primary ends when the roles change."""
    databases, apis = [LineServer(), LineServer()], [web_server(), web_server()]

    def roles(primary):
        for index, api in enumerate(apis):
            api.statuses = {"/primary": 200 if index == primary else 503, "/replica": 503 if index == primary else 200}

    roles(0)
    ports, replaced = [free_port(), free_port()], {}
    # Each of the two has a port of its own here: on one machine both cannot have 8008.
    replaced = {"bind :5000": f"bind 127.0.0.1:{ports[0]}", "bind :5001": f"bind 127.0.0.1:{ports[1]}", "check port 8008": "check"}
    for number, (database, api) in enumerate(zip(databases, apis), 1):
        replaced[f"192.0.2.4{number}:5432"] = f"127.0.0.1:{database.port} port {api.port}"
    text = configuration(folder, "postgresql-patroni.cfg", replaced)
    start(text, ports[0])
    assert leads_to(ports[0], databases[0]) and leads_to(ports[1], databases[1])
    assert any((request.method, request.path) == ("OPTIONS", "/primary") for request in apis[0].requests)
    # Before their first checks both may be chosen.
    assert wait_until(lambda: any(request.path == "/primary" for request in apis[1].requests))
    assert wait_until(lambda: {session(ports[0])[1] for _ in range(8)} == {str(databases[0].port)})
    connection, who = session(ports[0])
    assert who == str(databases[0].port), who
    roles(1)
    assert connection.recv(100) == b""
    assert leads_to(ports[0], databases[1]) and leads_to(ports[1], databases[0])


class RedisServer(Server):
    """The Redis commands of the check, and GET."""

    def __init__(self, role):
        self.role, self.seen = role, []
        super().__init__()

    def serve(self, connection):
        for line in connection.makefile("rb"):
            word = line.strip().decode().lower()
            info = f"role:{self.role}\r\n"
            answers = {"ping": "+PONG\r\n", "info replication": f"${len(info)}\r\n{info}\r\n", "quit": "+OK\r\n", "get who": f"+{self.port}\r\n"}
            connection.sendall(answers.get(word, "-ERR\r\n").encode())
            self.seen.append(word)


def test_example_redis(folder, port, start):
    """Clients reach the server that reports the role of master, also after the roles changed."""
    one, two = RedisServer("slave"), RedisServer("master")
    text = configuration(folder, "redis.cfg", {"bind :6379": f"bind 127.0.0.1:{port}", "192.0.2.51:6379": f"127.0.0.1:{one.port}",
                                               "192.0.2.52:6379": f"127.0.0.1:{two.port}"})

    def who():
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"GET who\r\n")
            return connection.recv(100).decode().strip("+\r\n")

    start(text, port)
    for expected, (one.role, two.role) in ((two, ("slave", "master")), (one, ("master", "slave"))):
        # It takes two failures to lose a server that was up from the start.
        assert wait_until(lambda: {who() for _ in range(12)} == {str(expected.port)}, 8), who()
    assert "info replication" in one.seen and "quit" in one.seen, one.seen[:5]


class Broker(Server):
    """A server of MQTT that acknowledges CONNECT."""

    def __init__(self):
        self.seen = []
        super().__init__()

    def serve(self, connection):
        # A probe of the port sends nothing.
        if packet := connection.recv(1000):
            self.seen.append(packet)
            connection.sendall(b"\x20\x02\x00\x00")
            connection.recv(1000)


def mqtt_connect(name):
    payload = b"\x00\x04MQTT\x04\x02\x00\x3c" + len(name).to_bytes(2, "big") + name.encode()
    return bytes([0x10, len(payload)]) + payload


def test_example_mqtt(folder, port, start):
    """A client returns to its broker; traffic other than MQTT reaches no broker."""
    one, two = Broker(), Broker()
    text = configuration(folder, "mqtt.cfg", {"bind :1883": f"bind 127.0.0.1:{port}", "192.0.2.61:1883": f"127.0.0.1:{one.port}",
                                              "192.0.2.62:1883": f"127.0.0.1:{two.port}"})

    def connects(name):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(mqtt_connect(name))
            assert connection.recv(100) == b"\x20\x02\x00\x00"

    start(text, port)
    names = [f"client-{number}" for number in range(6)]
    for name in names * 4:
        connects(name)
    for name in names:
        counts = [sum(packet == mqtt_connect(name) for packet in origin.seen) for origin in (one, two)]
        assert sorted(counts) == [0, 4], (name, counts)
    assert one.seen and two.seen
    before = len(one.seen) + len(two.seen)
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        try:
            assert connection.recv(100) == b""
        except ConnectionResetError:
            pass  # as good
    assert len(one.seen) + len(two.seen) == before


def chat_server(connection):
    """Upgrades, then echoes all data."""
    if found := read_head(connection):
        connection.sendall(switching(Request(*found, connection=1)))
        while data := connection.recv(1000):
            connection.sendall(data)


def test_example_websocket(folder, port, start):
    """An upgraded connection outlives 'timeout server', and pages are served beside it."""
    chats, pages = [Server(chat_server), Server(chat_server)], [web_server(), web_server()]
    replaced = {"bind :8080": f"bind 127.0.0.1:{port}", "timeout client 30s": "timeout client 1s", "timeout server 30s": "timeout server 1s"}
    for number, (chat, page) in enumerate(zip(chats, pages), 1):
        replaced[f"192.0.2.7{number}:8000"], replaced[f"192.0.2.7{number}:8001"] = f"127.0.0.1:{chat.port}", f"127.0.0.1:{page.port}"
    text = configuration(folder, "websocket.cfg", replaced)
    start(text, port)
    upgraded = []
    for _ in range(2):
        connection = socket.create_connection(("127.0.0.1", port), 5)
        connection.sendall(b"GET /chat HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        head, _ = read_head(connection)
        assert head.split()[1] == b"101" and b"\r\nsec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=" in head.lower(), head
        upgraded.append(connection)
    assert {get(port)[2] for _ in range(4)} == {str(page.port) for page in pages}
    time.sleep(1.5)  # longer than 'timeout client' and 'timeout server'
    for connection in upgraded:
        connection.sendall(b"\x81\x85\x01\x02\x03\x04ikomn")
        assert connection.recv(100) == b"\x81\x85\x01\x02\x03\x04ikomn"


class GrpcPeer(FramePeer):
    """Answers each call with the same message and a status in trailers."""

    def serve(self, calls):
        """Notes the stream of each call in `calls`."""
        self.h2()
        while True:
            kind, flags, stream, payload = self.next_frame()
            if kind == HEADERS:
                calls.append(stream)
            if kind == PING and not flags & ACK:
                self.send(frame(PING, ACK, 0, payload))
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                self.send(frame(HEADERS, END_HEADERS, stream, b"\x88" + field("content-type", "application/grpc")))
                self.send(frame(DATA, 0, stream, b"\0\0\0\0\5hello"))
                self.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, field("grpc-status", "0")))


def test_example_grpc(folder, start):
    """Calls are shared among the servers; trailers arrive; unknown services are answered without a server."""
    calls = [], []
    origins = [Server(lambda connection, noted=noted: GrpcPeer(connection).serve(noted)) for noted in calls]
    clear, secure, authority = free_port(), free_port(), Authority(folder)
    text = configuration(folder, "grpc.cfg", {
        "bind :50051": f"bind 127.0.0.1:{clear}", "bind :50052": f"bind 127.0.0.1:{secure}", "/etc/weir/site.pem": authority.issue("one.example"),
        "192.0.2.81:50051": f"127.0.0.1:{origins[0].port}", "192.0.2.82:50051": f"127.0.0.1:{origins[1].port}"})
    message = folder.file("message", "\0\0\0\0\0")

    def call(url, *body):
        return subprocess.run(["curl", "-s", "-k", "-i", "--http2-prior-knowledge", "-H", "content-type: application/grpc", "-H", "te: trailers",
                               "-X", "POST", *body, url], capture_output=True, timeout=10).stdout.decode(errors="replace")

    start(text, clear, secure)
    said = "".join(call(f"http://127.0.0.1:{clear}/shop.Cart/Add", "--data-binary", f"@{message}") for _ in range(6))
    assert said.count("hello") == 6 and said.count("grpc-status: 0") == 6, said
    assert all(calls), calls
    assert call(f"https://127.0.0.1:{secure}/shop.Cart/Add", "--data-binary", f"@{message}").count("grpc-status: 0") == 1
    before = sum(map(len, calls))
    # Without a body: curl 7.88 waits for ever if the answer of any server ends before the upload.
    assert "grpc-status: 12" in call(f"http://127.0.0.1:{clear}/other.Service/Call")
    assert sum(map(len, calls)) == before


def test_example_kubernetes_api(folder, port, start):
    """TLS passes through unread; a server that is not ready gets no connections, and its existing ones end."""
    authority = Authority(folder)
    site = authority.issue("one.example")
    one, two = web_server(SecureServer(site)), web_server(SecureServer(site))
    text = configuration(folder, "kubernetes-api.cfg", {"bind :6443": f"bind 127.0.0.1:{port}", "192.0.2.91:6443": f"127.0.0.1:{one.port}",
                                                        "192.0.2.92:6443": f"127.0.0.1:{two.port}"})
    trusted = trusting(authority)

    def served():
        try:
            return {get(port, "/api", context=trusted)[2] for _ in range(4)}
        except OSError:
            return set()  # its server has just gone

    start(text, port)
    assert wait_until(lambda: served() == {str(one.port), str(two.port)}, 8)
    one.statuses = {"/readyz": 500}
    assert wait_until(lambda: served() == {str(two.port)}, 8)
    one.statuses = {}
    assert wait_until(lambda: len(served()) == 2, 8)
    assert any(request.head.startswith(b"GET /readyz HTTP/1.1") for request in one.requests)


def test_example_syslog_relay(folder, port, start):
    """Messages over UDP and TCP arrive in order over one connection, each with its length before it."""
    seen = []

    def collect(connection):
        while data := connection.recv(65536):
            seen.append(data)

    target = Server(collect)
    text = configuration(folder, "syslog-relay.cfg", {"dgram-bind :514": f"dgram-bind 127.0.0.1:{port}", "    bind :514": f"    bind 127.0.0.1:{port}",
                                                      "192.0.2.100:601": f"127.0.0.1:{target.port}"})
    start(text, port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"<134>1 2026-11-23T12:00:00Z host app 1 - - over udp", ("127.0.0.1", port))
    with socket.create_connection(("127.0.0.1", port), 5) as sender:
        sender.sendall(b"<134>1 2026-11-23T12:00:01Z host app 1 - - over tcp\n")
        assert wait_until(lambda: b"over udp" in b"".join(seen) and b"over tcp" in b"".join(seen)), seen
    text = b"".join(seen)
    while text:
        length, text = text.split(b" ", 1)
        assert text[:1] == b"<", text
        text = text[int(length):]
    assert "over tcp" in ask(os.path.join(folder.path, "admin.sock"), "show events central")


def test_authelia(folder, start):
    """Authelia's answers of its endpoint for proxies: 302 to the portal for a page, 401 for a script, 200 with the user's names."""
    def authelia(request):
        if request.path != "/api/authz/forward-auth":
            return b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nportal"
        original = f"{request.field('x-forwarded-proto')}://{request.field('x-forwarded-host')}{request.field('x-forwarded-uri')}"
        if request.field("cookie") == "authelia_session=good":
            return (b"HTTP/1.1 200 OK\r\nRemote-User: john\r\nRemote-Groups: admins,dev\r\nRemote-Name: John\r\nRemote-Email: j@example.com\r\n"
                    b"Set-Cookie: authelia_session=good; Path=/\r\nContent-Length: 6\r\n\r\n200 OK")
        if "text/html" not in (request.field("accept") or ""):
            return b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"Authorization Required\"\r\nContent-Length: 16\r\n\r\n401 Unauthorized"
        return (f"HTTP/1.1 302 Found\r\nLocation: https://auth.example.com/?rd={original}&rm={request.field('x-forwarded-method')}\r\n"
                "Content-Type: text/html\r\nContent-Length: 5\r\n\r\nFound").encode()
    portal, app, other, plain, secure = Origin(authelia), web_server(), web_server(), free_port(), free_port()
    authority = Authority(folder)
    context = trusting(authority)
    text = configuration(folder, "authelia.cfg", {
        "bind :80\n": f"bind 127.0.0.1:{plain}\n", "bind :443": f"bind 127.0.0.1:{secure}", "/etc/weir/site.pem": authority.issue("one.example"),
        "192.0.2.81:9091": f"127.0.0.1:{portal.port}", "192.0.2.11:8080": f"127.0.0.1:{app.port}", "192.0.2.12:8080": f"127.0.0.1:{other.port}",
        "auth.example.com": "portal.example"})
    start(text, plain)
    received = lambda: [request for request in app.requests + other.requests if request.path == "/secret?a=b"]
    status, fields, body = get(secure, "/secret?a=b", context=context, Accept="text/html", Remote_User="root")
    assert (status, body) == (302, "Found")
    assert fields["location"] == "https://auth.example.com/?rd=https://one.example/secret?a=b&rm=get"
    status, fields, body = get(secure, "/secret?a=b", context=context)
    assert (status, body, fields["www-authenticate"]) == (401, "401 Unauthorized", 'basic realm="authorization required"')
    assert not received()
    status, fields, _ = get(secure, "/secret?a=b", context=context, Cookie="authelia_session=good", Remote_User="root", Remote_Groups="root")
    assert (status, fields["set-cookie"]) == (200, "authelia_session=good; path=/")
    names = [received()[0].field(name) for name in ("remote-user", "remote-groups", "remote-name", "remote-email")]
    assert names == ["john", "admins,dev", "John", "j@example.com"] and b"root" not in received()[0].head
    decided = [request for request in portal.requests if request.path == "/api/authz/forward-auth"]
    assert decided[-1].field("x-forwarded-for") == "127.0.0.1" and decided[-1].field("host") == "one.example"
    portal.cut()
    assert get(secure, "/secret?a=b", context=context, Cookie="authelia_session=good")[0] == 503


def test_oauth2_proxy(folder, start):
    """oauth2-proxy's answers: 401 without a session, 202 with the names and a renewed cookie, 403 for a stranger."""
    def proxy(request):
        if request.path != "/oauth2/auth":
            return b"HTTP/1.1 302 Found\r\nLocation: https://login.example/authorize\r\nContent-Length: 0\r\n\r\n"
        status, fields = {"_oauth2_proxy=good": ("202 Accepted", "X-Auth-Request-User: 7\r\nX-Auth-Request-Email: j@example.com\r\nGap-Auth: j@example.com\r\n"
                                                 "Set-Cookie: _oauth2_proxy=new; Path=/; HttpOnly\r\n"),
                          "_oauth2_proxy=stranger": ("403 Forbidden", "")}.get(request.field("cookie"), ("401 Unauthorized", ""))
        return f"HTTP/1.1 {status}\r\n{fields}Content-Length: 0\r\n\r\n".encode()
    oauth2, app, other, plain, secure = Origin(proxy), web_server(), web_server(), free_port(), free_port()
    authority = Authority(folder)
    context = trusting(authority)
    text = configuration(folder, "oauth2-proxy.cfg", {
        "bind :80\n": f"bind 127.0.0.1:{plain}\n", "bind :443": f"bind 127.0.0.1:{secure}", "/etc/weir/site.pem": authority.issue("one.example"),
        "192.0.2.82:4180": f"127.0.0.1:{oauth2.port}", "192.0.2.11:8080": f"127.0.0.1:{app.port}", "192.0.2.12:8080": f"127.0.0.1:{other.port}"})
    start(text, plain)
    received = lambda: [request for request in app.requests + other.requests if request.path == "/page"]
    status, fields, _ = get(secure, "/page", context=context, X_Auth_Request_User="1")
    assert (status, fields["location"]) == (302, "/oauth2/start?rd=https%3a%2f%2fone.example%2fpage") or fields["location"].startswith("/oauth2/start?rd="), fields
    assert get(secure, "/page", context=context, Cookie="_oauth2_proxy=stranger")[0] == 403
    assert get(secure, "/oauth2/start?rd=/page", context=context)[0] == 302
    assert not received()
    status, fields, _ = get(secure, "/page", context=context, Cookie="_oauth2_proxy=good", X_Auth_Request_User="1", X_Auth_Request_Email="root@example.com")
    assert (status, fields["set-cookie"]) == (200, "_oauth2_proxy=new; path=/; httponly")
    assert [received()[0].field(name) for name in ("x-auth-request-user", "x-auth-request-email")] == ["7", "j@example.com"]
    assert b"root@" not in received()[0].head
    oauth2.cut()
    assert get(secure, "/page", context=context, Cookie="_oauth2_proxy=good")[0] == 503


def test_a_service_that_decides(folder, port, start):
    """Its refusals reach callers with their body, tokens do not reach the mirror, and without the service there is a 503."""
    def decide(request):
        status, fields, body = {"Bearer good": ("200 OK", "X-Tenant: acme\r\nX-Scopes: read write\r\n", ""),
                                "Bearer weak": ("403 Forbidden", "Content-Type: application/json\r\n", '{"error":"scope"}')}.get(
            request.field("authorization"), ("401 Unauthorized", "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n", ""))
        if request.path == "/healthz":
            status, fields, body = "200 OK", "", ""
        return f"HTTP/1.1 {status}\r\n{fields}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    one, two, app, other, coming = Origin(decide), Origin(decide), web_server(), web_server(), web_server()
    text = configuration(folder, "auth-service.cfg", {
        "bind :8080": f"bind 127.0.0.1:{port}", "192.0.2.83:9000": f"127.0.0.1:{one.port}", "192.0.2.84:9000": f"127.0.0.1:{two.port}",
        "192.0.2.85:9000": f"127.0.0.1:{coming.port}", "192.0.2.11:9000": f"127.0.0.1:{app.port}", "192.0.2.12:9000": f"127.0.0.1:{other.port}",
        "sample 10%": "sample 100%"})
    start(text, port)
    asked = lambda: [request for server in (one, two) for request in server.requests if request.path != "/healthz"]
    assert get(port, "/items")[::2] == (401, '{"error":"no token"}') and not asked()
    status, fields, body = get(port, "/items", Authorization="Bearer weak")
    assert (status, body, fields["content-type"]) == (403, '{"error":"scope"}', "application/json")
    assert get(port, "/items", Authorization="Bearer bad")[0] == 401
    assert get(port, "/items?a", Authorization="Bearer good", X_Tenant="other")[0] == 200
    served, = [request for request in app.requests + other.requests if request.path == "/items?a"]
    assert [served.field(name) for name in ("x-tenant", "x-scopes", "authorization")] == ["acme", "read write", "Bearer good"]
    assert {(request.path, request.field("x-resource")) for request in asked()} == {("/v1/decision", "/items")}
    assert wait_until(lambda: coming.requests)
    assert [coming.requests[0].field(name) for name in ("x-tenant", "authorization")] == ["acme", None]
    one.cut(), two.cut()
    assert wait_until(lambda: get(port, "/items", Authorization="Bearer good")[0] == 503)


def test_certbot_recipe_of_the_manual(binary, folder):
    """weir starts with an empty certificate folder, the authority reaches certbot, and clients on HTTPS are not redirected."""
    place, plain, secure = os.path.join(folder.path, "certificates"), free_port(), free_port()
    os.mkdir(place)
    recipe = next(text for text in of_the_manual("certbot", "text") if "use_backend" in text)
    certbot, app, authority = web_server(), web_server(), Authority(folder)
    text = replaced(recipe, {"bind :80\n": f"bind 127.0.0.1:{plain}\n", "bind :443 ": f"bind 127.0.0.1:{secure} ", "127.0.0.1:8402": f"127.0.0.1:{certbot.port}",
                             "/etc/weir/certificates/": place + "/"})
    text = f"defaults\n    mode http\n    timeout connect 2s\n    timeout client 9s\n    timeout server 9s\n{text}backend app\n    server s 127.0.0.1:{app.port}\n"
    path, challenge = folder.file("a.cfg", text), "/.well-known/acme-challenge/x"
    status, out, err = run(binary, "lint", "-f", path)
    assert "C716" not in out and "has 'strict-sni' and no certificate" in out, (status, out, err)
    with Program(binary, "-f", path) as program:
        program.ready(plain)
        assert get(plain, challenge)[2] == str(certbot.port)
        status, fields, _ = get(plain, "/a")
        assert (status, fields["location"]) == (302, "https://one.example/a"), (status, fields)
    # Without the word, the message names it.
    status, out, err = run(binary, "-c", "-f", folder.file("b.cfg", text.replace(" strict-sni", "")))
    assert status == 1 and f"there is no certificate in '{place}/' yet" in out + err and "'strict-sni'" in out + err, (out, err)
    os.rename(authority.issue("one.example"), os.path.join(place, "one.example.pem"))
    with Program(binary, "-f", path) as program:
        program.ready(plain)
        assert get(secure, "/a", context=trusting(authority))[0::2] == (200, str(app.port))
        assert get(secure, challenge, context=trusting(authority))[2] == get(plain, challenge)[2] == str(certbot.port)


def test_every_example_has_a_test_and_passes_lint(binary, folder):
    """No example has a secret, an unreachable rule or another finding of lint."""
    site = Authority(folder).issue("one.example")
    os.chmod(site, 0o600)
    # Those of SPOE and FastCGI are in the folders of their protocols.
    source = "".join(open(path).read() for path in [__file__, *(os.path.join(ROOT, "tests", folder, "test_examples.py") for folder in ("spoe", "fastcgi"))])
    names = sorted(name for name in os.listdir(EXAMPLES) if name.endswith(".cfg"))
    assert len(names) == 16, names
    log = os.path.join(folder.path, "dev-log")
    daemon = log_socket(log)
    for name in names:
        assert f'configuration(folder, "{name}"' in source, name
        text = with_engines(open(os.path.join(EXAMPLES, name)).read())
        path = folder.file(name, text.replace("log /dev/log ", f"log {log} ").replace("user weir\n", "user daemon\n").replace("group weir\n", "group daemon\n").replace("/etc/weir/site.pem", site))
        status, out, err = run(binary, "lint", "-f", path)
        assert status == 0, (name, out, err)
    daemon.close()
