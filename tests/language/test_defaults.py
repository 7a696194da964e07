"""Defaults that the manual gives as sentences, checked against the program's behaviour without the setting.

Each check lists its words with their sentences from `weir explain`; a changed sentence fails like a changed behaviour.
"""
import os
import re
import socket
import time

from lib.needs import installed
from lib.origin import Origin, Server, read_all
from lib.program import ROOT, Program, ask, free_port, request, run, wait_until


def told(binary, sentences):
    """Fails unless `explain` shows the default of each word as the given sentence."""
    for word, sentence in sentences.items():
        out = run(binary, "explain", *word.split())[1]
        found = re.findall(r"^ +Default: (.*)$", out, re.M)
        assert sentence in found, (word, sentence, found)


def served(folder, port, frontend, backend="", defaults="", extra="", connect="2s", client="2s"):
    """The path of a configuration: a frontend, and a backend of one server."""
    return folder.file("a.cfg", f"global\n    stats socket {folder.path}/cli level admin\n    {extra}\n"
                       f"defaults\n    mode http\n    timeout connect {connect}\n    timeout client {client}\n    timeout server 2s\n    {defaults}\n"
                       f"frontend web\n    bind 127.0.0.1:{port}\n    {frontend}\n    default_backend app\nbackend app\n    {backend}\n")


def status(answer):
    return int(answer.split(b" ", 2)[1])


def get(port, path, **options):
    return request(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), **options)


def test_http_actions_have_the_documented_defaults(binary, folder, port, origin):
    """The status of each answer, the realm, and a return without a body."""
    told(binary, {"deny": "status 403 for a request, 502 for a response", "redirect": "code 302", "tarpit": "status 500", "return": "status 200, without a body",
                  "auth": "the realm is the name of the proxy", "timeout tarpit": "that of timeout connect"})
    rules = ["deny if { path /deny }", "redirect location /x if { path /redirect }", "tarpit if { path /tarpit }", "return if { path /return }",
             "auth if { path /auth }"]
    path = served(folder, port, "\n    ".join(f"http-request {rule}" for rule in rules) + "\n    http-response deny if { capture.req.uri /late }",
                  f"server s 127.0.0.1:{origin.port}", connect="400ms")
    with Program(binary, "-f", path) as program:
        program.ready(port)
        assert [status(get(port, name)) for name in ("/deny", "/redirect", "/return", "/late", "/other")] == [403, 302, 200, 502, 200]
        assert b"content-length: 0\r\n" in get(port, "/return").lower()
        assert b'realm="web"' in get(port, "/auth").lower(), get(port, "/auth")
        began = time.monotonic()
        assert status(get(port, "/tarpit")) == 500 and 0.35 < time.monotonic() - began < 1.5


def test_the_statistics_page_has_the_documented_defaults(binary, folder, port):
    """Its path, its realm, every proxy on it, and no refresh."""
    told(binary, {"stats uri": "/haproxy?stats", "stats realm": "HAProxy Statistics", "stats scope": "every proxy", "stats refresh": "none: the page does not reload"})
    with Program(binary, "-f", served(folder, port, "stats enable\n    stats auth a:b")) as program:
        program.ready(port)
        asked = get(port, "/haproxy?stats")
        assert status(asked) == 401 and b'realm="HAProxy Statistics"' in asked, asked
        assert status(get(port, "/other")) == 503
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"GET /haproxy?stats HTTP/1.0\r\nAuthorization: Basic YTpi\r\n\r\n")
            page = read_all(connection)
        assert status(page) == 200 and b">app<" in page and b">web<" in page and b'http-equiv="refresh"' not in page.lower(), page[:500]


def test_timeouts_have_the_documented_defaults(binary, folder):
    """An unset timeout has the value of another one: for the request, for the next request, in the queue."""
    told(binary, {"timeout http-request": "that of timeout client", "timeout queue": "that of timeout connect",
                  "timeout http-keep-alive": "that of timeout http-request, else of timeout client", "default_backend": "none: in a frontend, a request that no use_backend takes gets 503"})

    def closed_after(port, text, answers=0):
        """How long it takes until the program hangs up, after it has answered so often."""
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(text)
            for _ in range(answers):
                assert b"200" in connection.recv(65536)
            began = time.monotonic()
            while connection.recv(65536):
                pass
            return time.monotonic() - began
    for defaults, client, first, second in (("", "500ms", 0.5, 0.5), ("timeout http-request 900ms", "5s", 0.9, 0.9),
                                            ("timeout http-request 900ms\n    timeout http-keep-alive 300ms", "5s", 0.9, 0.3)):
        port = free_port()
        with Program(binary, "-f", served(folder, port, "http-request return status 200", defaults=defaults, client=client)) as program:
            program.ready(port)
            for text, answers, expected in ((b"GET / HT", 0, first), (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1, second)):
                took = closed_after(port, text, answers)
                assert expected - 0.1 < took < expected + 1, (defaults, text, took, expected)
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        path = served(folder, port, "", f"server s 127.0.0.1:{silent.getsockname()[1]} maxconn 1", connect="600ms")
        with Program(binary, "-f", path) as program:
            program.ready(port)
            with socket.create_connection(("127.0.0.1", port)) as holder:
                holder.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert wait_until(lambda: re.search(r"^app,s,0,0,1,", ask(f"{folder.path}/cli", "show stat"), re.M))
                began = time.monotonic()
                assert status(get(port, "/")) == 503 and 0.5 < time.monotonic() - began < 1.6


def test_checks_and_servers_have_the_documented_defaults(binary, folder, port):
    """The check's request, the accepted statuses, the initial state, the agent's interval, the numbers of servers."""
    told(binary, {"http-check expect": "a status from 200 to 399", "http-check send": "what option httpchk says: OPTIONS / by HTTP/1.0", "init-state": "up",
                  "agent-inter": "2s", "addr": "the address of the server", "id": "the lowest number that is free"})
    answers = {200: "L7OK", 302: "L7OK", 399: "L7OK", 400: "L7STS", 500: "L7STS"}
    origins = {code: Origin(f"HTTP/1.0 {code} x\r\nConnection: close\r\n\r\n".encode()) for code in answers}
    times = []

    def say_up(connection):
        times.append(time.monotonic())
        connection.sendall(b"up\n")

    agent = Server(say_up)
    lines = ["option httpchk"] + [f"server s{code} 127.0.0.1:{origin.port} check inter 300ms" for code, origin in origins.items()]
    lines += [f"server other 127.0.0.1:1 id 2 agent-check agent-port {agent.port}", "server late 127.0.0.1:1 check inter 60s"]
    with Program(binary, "-f", served(folder, port, "", "\n    ".join(lines))) as program:
        program.ready(port)

        def column(name):
            head, *rows = ask(f"{folder.path}/cli", "show stat").lstrip("# ").splitlines()
            at = head.split(",").index(name)
            return {row.split(",")[1]: row.split(",")[at] for row in rows if row.startswith("app,")}
        # Before anything was checked it is up.
        assert column("status")["late"].startswith("UP"), column("status")
        assert wait_until(lambda: {code: column("check_status")[f"s{code}"].removeprefix("* ") for code in answers} == answers, 10), column("check_status")
        assert {request.head.split(b"\r\n")[0] for request in origins[200].requests} == {b"OPTIONS / HTTP/1.0"}, origins[200].requests
        assert [column("sid")[name] for name in ("s200", "s302", "other", "s399")] == ["1", "3", "2", "4"], column("sid")
        assert wait_until(lambda: len(times) >= 3, 10)
        gaps = [later - earlier for earlier, later in zip(times, times[1:])]
        assert all(1.8 < gap < 2.6 for gap in gaps), gaps
    for server in (*origins.values(), agent):
        server.close()


def test_global_settings_have_the_documented_defaults(binary, folder, port, origin):
    """Threads, names, limits, the tag of log lines, the rights of operators, underscores in header names."""
    told(binary, {"nbthread": "one for each processor that the process may use", "node": "the host name", "log-tag": "haproxy", "level": "operator",
                  "maxpipes": "a quarter of maxconn where a proxy splices, else none", "maxconn": "that of the process",
                  "http-restrict-req-hdr-names": "preserve"})
    operators = os.path.join(folder.path, "operators")
    log = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    log.bind(("127.0.0.1", 0))
    log.settimeout(5)
    for splice, pipes in (("", "0"), ("option splice-auto", "100")):
        path = served(folder, port, f"log 127.0.0.1:{log.getsockname()[1]} local0\n    {splice}", f"server s 127.0.0.1:{origin.port}",
                      extra=f"maxconn 400\n    stats socket {operators}")
        origin.requests.clear()
        with Program(binary, "-f", path) as program:
            program.ready(port)
            info = dict(line.split(": ", 1) for line in ask(f"{folder.path}/cli", "show info").splitlines() if ": " in line)
            assert info["Nbthread"] == str(min(len(os.sched_getaffinity(0)), 64)) and info["node"] == socket.gethostname(), info
            assert (info["Maxconn"], info["Maxpipes"]) == ("400", pipes), info
            assert ",400," in next(line for line in ask(f"{folder.path}/cli", "show stat").splitlines() if line.startswith("web,FRONTEND"))
            # Operators see errors and may not change servers.
            assert "ermission denied" in ask(operators, "disable server app/s") and "ermission denied" not in ask(operators, "show errors")
            request(port, b"GET / HTTP/1.1\r\nHost: x\r\nAn_Odd_Name: 1\r\n\r\n")
            assert [b"An_Odd_Name: 1" in request.head for request in origin.requests] == [True], origin.requests
            assert re.match(rb"<134>\w{3} [ \d]\d [\d:]{8} haproxy\[\d+\]: ", log.recv(4096))
    log.close()


def test_statistics_marked_as_weir_only_are_absent_in_haproxy(binary, folder):
    """The reference page marks them; HAProxy lacks all of them. HAPROXY=... selects another program; 3.2 lacks no
    others."""
    reference = installed(os.environ.get("HAPROXY", "haproxy"))
    page = os.path.join(ROOT, "doc", "manual", "src", "reference", "statistics.md")
    sections = re.split(r"^## ", open(page).read(), flags=re.M)
    marked = {text.split("\n", 1)[0].strip("`") for text in sections if "3.2 does not have it" in text}
    names = []
    for program in (reference, binary):
        port = free_port()
        with Program(program, "-f", served(folder, port, "", "server s 127.0.0.1:1")) as running:
            running.ready(port)
            # HAProxy may listen on the port first.
            assert wait_until(lambda: os.path.exists(f"{folder.path}/cli"))
            info = {line.split(":")[0] for line in ask(f"{folder.path}/cli", "show info").splitlines() if ":" in line}
            names.append(info | set(ask(f"{folder.path}/cli", "show stat").splitlines()[0].lstrip("# ").split(",")))
        os.remove(f"{folder.path}/cli")
    theirs, ours = names
    assert len(marked) > 10 and marked <= ours - theirs, marked - (ours - theirs)
    if " 3.2" in run(reference, "-v")[1]:
        assert ours - theirs == marked, (ours - theirs) ^ marked


def test_statuses_occur_for_the_reasons_given_by_explain(binary, folder, port):
    """Each status that `explain` lists is sent for the reason given there."""
    dead = free_port()
    with Origin(b"nonsense\r\n\r\n") as wrong, socket.create_server(("127.0.0.1", 0)) as silent:
        frontend = ("timeout http-request 400ms\n    http-request auth if { path /401 } or METH_CONNECT\n    http-request deny if { path /403 }\n    http-request tarpit if { path /500 }\n"
                    "    use_backend wrong if { path /502 }\n    use_backend silent if { path /504 }")
        others = (f"backend wrong\n    server s 127.0.0.1:{wrong.port}\nbackend silent\n    timeout server 300ms\n    server s 127.0.0.1:{silent.getsockname()[1]}\n"
                  f"frontend proxy\n    bind 127.0.0.1:{dead}\n    option http-use-proxy-header\n    http-request auth unless {{ http_auth(users) }}\n"
                  "    http-request return status 200\nuserlist users\n    user a insecure-password b\n")
        path = served(folder, port, frontend, "retries 0\n" + others, defaults="timeout tarpit 200ms")
        line, end = "GET {} HTTP/1.1\r\n", "Host: x\r\n\r\n"
        cases = {400: "GET / HTTP/1.1\r\nA B: c\r\n\r\n", 408: "GET / HT", 413: "GET / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx",
                 422: "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 503: line.format("/503") + end,
                 **{code: line.format(f"/{code}") + end for code in (401, 403, 500, 502, 504)}}
        with Program(binary, "-f", path) as program:
            program.ready(port)
            for code, text in cases.items():
                assert status(request(port, text.encode())) == code, (code, text)
                assert f"{code}\n  Status of a response" in run(binary, "explain", str(code))[1], code
            # A proxy requests the same field that it then reads.
            for target, code, asked, given in (("http://x/", 407, "proxy-authenticate", "Proxy-Authorization"), ("/", 401, "www-authenticate", "Authorization")):
                head = f"GET {target} HTTP/1.1\r\nHost: x\r\n"
                answer = request(dead, (head + "\r\n").encode())
                assert status(answer) == code and f'\n{asked}: basic realm="proxy"'.encode() in answer.lower(), answer
                assert status(request(dead, f"{head}{given}: Basic YTpi\r\n\r\n".encode())) == 200, target
            # Without the option it does not act as a proxy, whatever the method.
            assert status(request(port, b"CONNECT x:401 HTTP/1.1\r\nHost: x:401\r\n\r\n")) == 401
    every = [str(code) for code in range(100, 600) if "weir itself answers" in run(binary, "explain", str(code))[1]]
    assert every == [str(code) for code in sorted([*cases, 407])], every
