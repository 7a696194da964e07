"""What programs and people are told of a configuration that is not served: JSON, lint, explain, the dump. Run by tests/process.py."""
import glob
import http.server
import json
import os
import re
import socket
import threading

from masters.support import Master
from program import Program, ask, free_port, request, run, wait_until
from tls import Authority, ask_over, connect

HEAD = "defaults\n    mode http\n    timeout client 1s\n    timeout server 1s\n    timeout connect 1s\n"
FRONTEND = "frontend f\n    bind 127.0.0.1:1\n"
BACKEND = "backend b\n    server s 127.0.0.1:2\n"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def json_names_place_code_and_suggestion(binary, folder):
    """All that -c finds, warnings behind errors and what no parser sees included."""
    path = folder.file("a.cfg", HEAD + FRONTEND + "    maxcon 5\n    default_backend nobody\n" + "backend b\n    server s nowhere.invalid:1\n"
                       + "backend c\n    timeout server 0\n    server s 127.0.0.1:1\n")
    status, out, err = run(binary, "-c", "--format", "json", "-f", path)
    assert status == 1 and err == "", (status, err)
    said = json.loads(out)
    assert said["valid"] is False, said
    by_line = {each["line"]: each for each in said["diagnostics"]}
    assert by_line[8] == {"file": path, "line": 8, "column": 5, "end_column": 11, "code": "C101", "severity": "error",
                          "message": "unknown keyword 'maxcon' in 'frontend' section", "suggestion": "maxconn"}, by_line[8]
    assert by_line[9]["code"] == "C202" and by_line[9]["column"] == 21, by_line
    assert (by_line[11]["code"], by_line[11]["severity"]) == ("C601", "error"), by_line
    assert (by_line[12]["code"], by_line[12]["severity"]) == ("C401", "warning"), by_line
    for code in {each["code"] for each in said["diagnostics"]}:
        status, text, _ = run(binary, "explain", code)
        assert status == 0 and "Kind of problem: " in text, (code, text)


def json_has_the_exit_status_of_c(binary, folder):
    cases = [(HEAD + FRONTEND + "    default_backend b\n" + BACKEND, (), True), (HEAD + BACKEND, (), False),
             (FRONTEND + "    nonsense\n", (), False), ("frontend f\n    mode http\n    bind 127.0.0.1:1\n", ("-dW",), False),
             (".alert mine\n", (), False)]
    for text, options, valid in cases:
        path = folder.file("a.cfg", text)
        status, out, _ = run(binary, "-c", "-f", path, "--format", "json", *options)
        assert status == run(binary, "-c", "-f", path, *options)[0], text
        assert json.loads(out)["valid"] is valid, out
    assert json.loads(out)["diagnostics"][0]["code"] == "C116", out
    status, out, err = run(binary, "-c", "-f", "/nowhere/a.cfg", "--format", "json")
    assert status == 1 and json.loads(out)["diagnostics"][0]["code"] == "C501", out
    for words in (["--format", "json", "-f", path], ["-c", "--format", "json"], ["-c", "--format", "xml", "-f", path]):
        assert run(binary, *words)[0] == 1, words


def the_option_dV_means_ssl_server_verify_none(binary, folder):
    """A server with TLS has to say whom it trusts; what the configuration says of it counts."""
    for head, options, expected in (("", (), 1), ("", ("-dV",), 0), ("global\n    ssl-server-verify none\n", (), 0),
                                    ("global\n    ssl-server-verify required\n", ("-dV",), 1)):
        path = folder.file("a.cfg", head + HEAD + FRONTEND + "    default_backend b\nbackend b\n    server s 127.0.0.1:2 ssl\n")
        assert run(binary, "-c", "-f", path, *options)[0] == expected, (head, options)
        assert run(binary, "-c", "-f", path, "--format", "json", *options)[0] == expected, (head, options)


def found_by_lint(binary, path, *options):
    """The exit status, and the line and code of each finding."""
    status, out, err = run(binary, "lint", "-f", path, "--format", "json", *options)
    assert err == "", err
    return status, [(each.get("line"), each["code"]) for each in json.loads(out)["diagnostics"]]


def lint_finds_rules_that_are_never_reached(binary, folder):
    rules = ["use_backend b if a", "use_backend c if a", "use_backend c if { path / }", "use_backend c", "use_backend b if { path /x }"]
    text = HEAD + FRONTEND + "    acl a path /a\n" + "".join(f"    {rule}\n" for rule in rules) + BACKEND + BACKEND.replace("b\n", "c\n")
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (1, [(10, "C701"), (13, "C701")])
    # What stands between may change what is tested; a test by chance has no memory.
    quiet = ["http-request deny if { var(txn.a) -m found }", "http-request set-var(txn.a) str(b)", "http-request deny if { var(txn.a) -m found }",
             "http-request deny if { rand(2) 0 }", "http-request deny if { rand(2) 0 }", "use_backend %[path]", "use_backend b"]
    text = HEAD + FRONTEND + "".join(f"    {rule}\n" for rule in quiet) + BACKEND
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (0, []), run(binary, "lint", "-f", folder.file("a.cfg", text))
    # Rules of TCP, of which parsing says nothing, and of HTTP, of which it does.
    text = HEAD + FRONTEND + "    tcp-request connection accept\n    tcp-request connection reject if { src 10.0.0.1 }\n"
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (1, [(9, "C701")])
    text = HEAD + FRONTEND + "    http-request deny\n    http-request set-var(txn.a) path\n"
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (1, [(9, "C305")])
    # A proxy's own rules come after those that it inherits.
    text = HEAD.replace("defaults", "defaults d") + "    http-request deny\n" + FRONTEND.replace("f\n", "f from d\n") + "    http-request return status 200\n"
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (1, [(9, "C701")])


def lint_finds_what_nothing_uses(binary, folder):
    acls = "    acl a path /a\n    acl b path /b\n    acl b path b\n    acl c path /c\n    acl d path /d\n    acl e acl(d)\n"
    text = HEAD + FRONTEND + acls + "    http-request deny if !a or { acl(!c) } e\n" + BACKEND
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (1, [(9, "C702"), (15, "C703")])
    status, out, _ = run(binary, "lint", "-f", folder.file("a.cfg", text))
    assert status == 1 and out.startswith(folder.file("a.cfg", text) + ":9:9: warning: nothing uses the ACL 'b'. [C702]\n"), out
    # A format may name any backend; a log target names one; one without servers has a table for others.
    text = HEAD + FRONTEND + "    use_backend %[path]\n" + BACKEND
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (0, [])
    text = HEAD + FRONTEND + "    log backend@l local0\n    option httplog\nbackend t\n    stick-table type ip size 1k\nbackend l\n    mode log\n    server s udp@127.0.0.1:514\n"
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (0, [])


def lint_finds_timeouts_that_contradict(binary, folder):
    for place, line, expected in [("f", "timeout client-fin 2s", 1), ("f", "timeout client-fin 1s", 0), ("d", "timeout tunnel 500ms", 2),
                                  ("d", "timeout tunnel 1h", 0), ("b", "timeout server-fin 3s", 1), ("f", "option httpclose", 1)]:
        extra = {key: f"    {line}\n" if key == place else "" for key in "dfb"}
        text = HEAD + "    timeout http-keep-alive 1s\n" + extra["d"] + FRONTEND + "    default_backend b\n" + extra["f"] + BACKEND + extra["b"]
        status, found = found_by_lint(binary, folder.file("a.cfg", text))
        assert [code for _, code in found] == ["C704"] * expected and status == min(expected, 1), (line, found)
    for client, expected in (("1s", 0), ("2s", 1)):
        text = HEAD.replace("http", "tcp") + FRONTEND + f"    timeout client {client}\n    default_backend b\n" + BACKEND
        assert len(found_by_lint(binary, folder.file("a.cfg", text))[1]) == expected, client


def lint_finds_secrets_that_all_can_read(binary, folder):
    socket = os.path.join(folder.path, "s")
    for mode, level, expected in (("660", "admin", []), ("666", "user", []), ("666", "admin", [(2, "C706")])):
        text = f"global\n    stats socket {socket} mode {mode} level {level}\n"
        assert found_by_lint(binary, folder.file("a.cfg", text))[1] == expected, (mode, level)
    path = folder.file("a.cfg", "userlist u\n    user a insecure-password b\n" + HEAD + FRONTEND + "    stats auth a:b\n")
    for mode, expected in ((0o644, [(2, "C705")]), (0o640, [])):
        os.chmod(path, mode)
        assert found_by_lint(binary, path)[1] == expected, oct(mode)
    site = Authority(folder).issue("one.example")
    path = folder.file("a.cfg", HEAD + f"frontend f\n    bind 127.0.0.1:1 ssl crt {site}\n")
    for mode, expected in ((0o644, [(7, "C705")]), (0o600, [])):
        os.chmod(site, mode)
        assert found_by_lint(binary, path)[1] == expected, oct(mode)
    # A configuration that cannot be used is not looked at any further.
    path = folder.file("a.cfg", HEAD + f"frontend f\n    bind 127.0.0.1:1 ssl crt {folder.file('none.pem')}\n    acl a path /\n")
    assert found_by_lint(binary, path) == (2, [(7, "C502")]), found_by_lint(binary, path)
    assert run(binary, "lint")[0] == 2


def explain_tells_what_a_line_inherits_and_replaces(binary, folder):
    text = ("defaults base\n    timeout client 5s\n    default-server inter 9s\n    errorfile 503 /dev/null\n    log 127.0.0.1:514 local0\n"
            "defaults web from base\n    mode http\n    timeout client 9s\n"
            "frontend f from web\n    bind 127.0.0.1:1 name x\n    timeout client 7s\n    log 127.0.0.1:515 local0\n    http-request deny if { path / }\n"
            "backend b from web\n    timeout server 1s\n    default-server weight 3\n    server s 127.0.0.1:2 check\n    no log\n"
            "frontend g from base\n    bind 127.0.0.1:3\n    timeout client 1s\n    timeout client 2s\n    nonsense\n")
    path = folder.file("a.cfg", text)

    def about(line):
        status, out, err = run(binary, "explain", "-f", path, str(line))
        assert status == 0, err
        return out.replace(path, "a.cfg")

    first = about(2)
    assert "a.cfg:2: timeout client 5s\n  in a.cfg:1: defaults base\n" in first, first
    assert "is replaced in a.cfg:9: frontend f from web, by a.cfg:11: timeout client 7s\n" in first, first
    assert "holds in" not in first and "Words of proxies: defaults, frontend, listen." in first, first
    assert "  holds in a.cfg:9: frontend f from web\n  holds in a.cfg:14: backend b from web\n" in about(7)
    assert "  replaces a.cfg:8: timeout client 9s\n" in about(11)
    assert "  comes after a.cfg:5: log 127.0.0.1:514 local0\n" in about(12)
    assert "  is replaced by a.cfg:22: timeout client 2s\n" in about(21)
    server = about(17)
    assert "begins with a.cfg:3: default-server inter 9s\n  begins with a.cfg:16: default-server weight 3\n" in server, server
    assert "\ncheck\n" in server and "\nserver <name>" in server, server
    assert "\ndeny" in about(13) and "\nname <name>" in about(10)
    whole = about(9)
    inherited = whole.split("says itself")[0]
    assert "a.cfg:7: mode http" in inherited and "errorfile 503" in inherited and "timeout client" not in inherited, whole
    assert "  inherits\n    a.cfg:4: errorfile 503 /dev/null\n    a.cfg:5: log" in whole and "default-server" not in whole, whole
    assert "514" not in about(14), about(14)
    # Of several sections that say something, the nearest counts.
    frontend = folder.file("b.cfg", "defaults a\n    backlog 5\ndefaults b from a\n    backlog 6\nfrontend f from b\n    bind 127.0.0.1:1\n")
    whole = run(binary, "explain", "-f", frontend, "5")[1]
    assert "backlog 6" in whole and "backlog 5" not in whole, whole
    assert "error: unknown keyword 'nonsense'" in about(23) and "[C101]" in about(23)
    for words in (["-f", path, "99"], ["-f", path], ["-f", path, "x"], ["-f", "2"]):
        status, out, err = run(binary, "explain", *words)
        assert status == 1 and out == "" and err, (words, out)


def the_dump_is_a_configuration_that_says_the_same(binary, folder):
    """-dC, read again, is valid and gives itself: quotes, escapes, variables, conditional blocks."""
    odd = ("global\n    setenv PORT 1\n    presetenv NAME 'a b'\n" + HEAD + "frontend f\n    bind \"127.0.0.1:${PORT}\"\n"
           "    http-request return status 200 content-type text/plain lf-string \"a\\\"b'c # %[path] \\\\ \\$x\"\n"
           "    http-request deny if { path -m reg '^/a\\.b #[\"]$' } { hdr(x) it\\'s\\ so }\n"
           "    .if defined(PATH)\n    http-request set-header A \"$NAME\"\n    .else\n    nonsense\n    .endif\n")
    paths = [folder.file("odd.cfg", odd)] + sorted(glob.glob(os.path.join(ROOT, "doc", "examples", "*.cfg")))
    assert len(paths) > 10, paths
    site = Authority(folder).issue("one.example")
    for path in paths:
        text = open(path).read().replace("user weir\n", "user daemon\n").replace("group weir\n", "group daemon\n")
        path = folder.file("tried.cfg", text.replace("/etc/weir/site.pem", site))
        status, dump, err = run(binary, "-c", "-dC", "-q", "-f", path)
        assert (status, dump) == (0, ""), err
        status, dump, err = run(binary, "-c", "-dC", "-f", path)
        assert status == 0 and dump, err
        again = folder.file("again.cfg", dump)
        status, second, err = run(binary, "-c", "-dC", "-f", again)
        assert status == 0 and second == dump, (path, err, dump, second)


def configurations_of_the_manual_are_valid(binary, folder):
    """Each block of the hand-written pages that is marked as a configuration; lint has nothing to say of it either."""
    site, found = Authority(folder).issue("one.example"), 0
    os.chmod(site, 0o600)
    for page in sorted(glob.glob(os.path.join(ROOT, "doc", "manual", "src", "*.md"))):
        for block in open(page).read().split("```haproxy\n")[1:]:
            text = block.split("```")[0].replace("/etc/weir/site.pem", site)
            # The packages make this user and this group.
            text = text.replace("user weir\n", "user daemon\n").replace("group weir\n", "group daemon\n")
            path = folder.file("a.cfg", text)
            status, out, err = run(binary, "lint", "-f", path)
            assert status == 0, (page, out, err)
            found += 1
    assert found >= 5, found


RUNNING = """
global
    stats socket {folder}/admin.sock level admin
defaults
    mode http
    timeout connect 1s
    timeout client 5s
    timeout server 5s
frontend web
    bind 127.0.0.1:{port} ssl crt {site}
    tcp-request connection reject if {{ src -f virt@blocked }}
    http-request deny if {{ path,map({folder}/hosts.map) -m found }}
    http-request track-sc0 src table addresses
    default_backend app
backend app
    server app1 127.0.0.1:{port} weight 10
    server app2 127.0.0.1:{port}
backend addresses
    stick-table type ipv6 size 1k expire 10m store http_req_rate(10s)
"""
# What an operator is told who asked wrongly.
WRONG = ("Unknown command", "No such", "not found", "Unknown", "Invalid", "expects", "Permission denied", "Missing", "Require")


def commands_of_the_manual_are_answered(binary, folder):
    """Each line of the hand-written pages that asks a socket: one of a worker or of a master, in the order of the page."""
    site, port, found = Authority(folder).issue("one.example"), free_port(), 0
    folder.file("hosts.map", "")
    config = folder.file("a.cfg", RUNNING.format(folder=folder.path, port=port, site=site))
    with Master(binary, folder, config) as master:
        master.served()
        sockets = {"admin": f"{folder.path}/admin.sock", "master": master.socket}
        for page in sorted(glob.glob(os.path.join(ROOT, "doc", "manual", "src", "*.md"))):
            for command, door in re.findall(r'^ *echo "([^"]+)" \| socat - /run/weir/(\w+)\.sock', open(page).read(), re.M):
                command = command.replace("/etc/weir/site.pem", site).replace("/etc/weir/hosts.map", f"{folder.path}/hosts.map")
                answer = ask(sockets[door], command)
                assert not any(word in answer for word in WRONG if not answer.startswith("#")), (page, command, answer[:300])
                found += 1
    assert found > 20, found


class Site:
    """A web server whose pages are one word."""

    def __init__(self, word):
        class Page(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(word)))
                self.end_headers()
                self.wfile.write(word)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        # Checks hang up before they have read everything.
        self.server.handle_error = lambda *_: None
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def getting_started_does_what_it_says(binary, folder):
    """Both configurations of the page: without servers, with them, over TLS, from plain HTTP, and above the limit of requests."""
    page = open(os.path.join(ROOT, "doc", "manual", "src", "getting-started.md")).read()
    first, second = [block.split("```")[0] for block in page.split("```haproxy\n")[1:]]
    plain, port = free_port(), free_port()
    ports = [free_port(), free_port()]
    text = first.replace(":8080", f"127.0.0.1:{port}").replace(":8001", f":{ports[0]}").replace(":8002", f":{ports[1]}")
    with Program(binary, "-f", folder.file("first.cfg", text)) as program:
        program.ready(port)
        assert request(port).startswith(b"HTTP/1.1 503")
    sites = [Site(b"one"), Site(b"two")]
    try:
        for index, site in enumerate(sites):
            text = text.replace(f"127.0.0.1:{ports[index]}", f"127.0.0.1:{site.port}")
        with Program(binary, "-f", folder.file("first.cfg", text)) as program:
            program.ready(port)
            assert wait_until(lambda: {body(port) for _ in range(8)} == {b"one", b"two"})
        certificate = Authority(folder).issue("one.example")
        os.chmod(certificate, 0o600)
        root = os.geteuid() == 0
        changes = {"bind :80": f"bind 127.0.0.1:{plain}", "bind :443": f"bind 127.0.0.1:{port}", "/etc/weir/site.pem": certificate, "/run/weir/admin.sock": f"{folder.path}/admin.sock",
                   "192.0.2.11:8080": f"127.0.0.1:{sites[0].port}", "192.0.2.12:8080": f"127.0.0.1:{sites[1].port}",
                   "user weir": "uid 65534" if root else "", "group weir": "gid 65534" if root else "", "chroot auto": "chroot auto" if root else ""}
        for before, after in changes.items():
            assert before in second, before
            second = second.replace(before, after)
        with Program(binary, "-f", folder.file("second.cfg", second)) as program:
            program.ready(port)
            answer = request(plain)
            assert answer.startswith(b"HTTP/1.1 301") and b"location: https://x/" in answer.lower(), answer
            with connect(port) as connection:
                answer = ask_over(connection)
            assert answer.startswith(b"HTTP/1.1 200") and b"Strict-Transport-Security: max-age=31536000" in answer and answer.endswith((b"one", b"two")), answer
            ask(f"{folder.path}/admin.sock", "disable server app/app1")
            with connect(port) as connection:
                assert ask_over(connection).endswith(b"two")
            statuses = [request(plain).split()[1] for _ in range(110)]
            assert statuses[0] == b"301" and statuses[-1] == b"301", "a redirection comes before the limit"
            with connect(port) as connection:
                text = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 110 + b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                answers = re.findall(rb"^HTTP/1\.1 (\d+)", ask_over(connection, text), re.M)
            assert answers[0] == b"200" and answers[-1] == b"429", answers
    finally:
        for site in sites:
            site.close()


def body(port):
    """What a plain request is answered with."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65536), b"")).rsplit(b"\r\n\r\n", 1)[-1]
