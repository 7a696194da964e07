"""The messages of each kind of failed check, and of each answer of an agent, word by word.

The words are those of HAProxy 3.2.26, as it printed them beside weir; those of a refused connection are from 3.5. OURS
has weir's deviations with their reasons, OLDER those of 2.6. The table holds for the program given and, where it is
installed, for the packaged HAProxy 2.6.
"""
import contextlib
import csv
import io
import os
import re
import socket
import subprocess
import time

from checks.support import Scene
from lib.needs import installed
from lib.origin import Server, end_with_reset
from lib.program import wait_until


def says(text, first=True, stays=0.0):
    """A server that sends this after receiving data, or at once, and closes later."""
    def serve(connection):
        if first:
            connection.recv(2000)
        connection.sendall(text)
        time.sleep(stays)
    return serve


def resets(connection):
    """A server that receives data and resets the connection."""
    connection.recv(2000)
    end_with_reset(connection)


def http(status, reason=" Fine", body=b"hello"):
    """A server with this HTTP response."""
    return says(f"HTTP/1.1 {status}{reason}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


def silent(connection):
    """A silent server."""
    time.sleep(20)


def gone(connection):
    """A server that closes connections at once."""


OK, REFUSES, FULL = http(200), "127.0.0.1:1", "full"
CHECK, EXPECT, TCP, SEND = "option httpchk", "option httpchk\n    http-check expect ", "option tcp-check\n    ", "option tcp-check\n    tcp-check send PING\n    "
REFUSED, REFUSED_BY = "Connection refused", "ECONNREFUSED returned by OS (Connection refused)"
RESET = "ECONNRESET returned by OS (Connection reset by peer)"
AT_FIRST = " at initial connection step of tcp-check"
# Lines of the backend; the server, and words of its line; its row in `show stat`: check_status, check_code, last_chk.
CHECKS = {
    "connects": ("", OK, "", ("L4OK", "", "")),
    "refused": ("", REFUSES, "", ("L4CON", "", REFUSED_BY)),
    "no-answer": ("", FULL, "", ("L4TOUT", "", "")),
    "no-route": ("", "255.255.255.255:80", "", ("L4CON", "", "General socket error (Network is unreachable)")),
    "no-source": ("", OK, "source 192.0.2.1", ("L4CON", "", "Can't bind to source address (Cannot assign requested address)")),
    "no-socket": ("", "/nonexistent.sock", "", ("SOCKERR", "", "General socket error (No such file or directory)")),
    "http": (CHECK, OK, "", ("L7OK", "200", "")),
    "http-refused": (CHECK, REFUSES, "", ("L4CON", "", REFUSED_BY)),
    "http-no-answer": (CHECK, FULL, "", ("L4TOUT", "", "")),
    "http-silent": (CHECK, silent, "", ("L7TOUT", "", "")),
    "http-gone": (CHECK, resets, "", ("SOCKERR", "", RESET)),
    "http-500": (CHECK, http(500, " Oops"), "", ("L7STS", "500", "Oops")),
    "http-301": (CHECK, http(301, " Moved"), "", ("L7OK", "301", "")),
    "http-404": (CHECK + "\n    http-check disable-on-404", http(404, " Away"), "", ("L7OKC", "404", "")),
    "http-no-reason": (CHECK, http(503, ""), "", ("L7STS", "503", "TCPCHK did not match content(status codes) at step 2")),
    "http-garbage": (CHECK, says(b"garbage\r\n\r\n"), "", ("SOCKERR", "", "")),
    "http-half": (CHECK, says(b"HTTP/1.1 200 OK\r\nConte"), "", ("SOCKERR", "", "")),
    "http-half-silent": (CHECK, says(b"HTTP/1.1 200 OK\r\nConte", stays=20), "", ("L7TOUT", "", "")),
    "http-interim": (CHECK, says(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "", ("L7STS", "100", "Continue")),
    "status": (EXPECT + "status 201", OK, "", ("L7STS", "200", "Fine")),
    "status-not": (EXPECT + "! status 200", OK, "", ("L7STS", "200", "Fine")),
    "status-comment": (EXPECT + "comment \"my words\" status 201", OK, "", ("L7STS", "200", "Fine comment: my words")),
    "status-no-reason": (EXPECT + "comment cc status 201", http(200, ""), "", ("L7STS", "200", "TCPCHK did not match content(status codes) at step 1 comment: cc")),
    "rstatus-no-reason": (EXPECT + "rstatus 3", http(200, ""), "", ("L7STS", "200", "TCPCHK did not match content (regex) at step 1")),
    "header": (EXPECT + "hdr name x value y", OK, "", ("L7STS", "200", "Fine")),
    "header-no-reason": (EXPECT + "hdr name x value y", http(200, ""), "", ("L7STS", "200", "TCPCHK did not match content (header pattern) at step 1")),
    "body": (EXPECT + "string hello", OK, "", ("L7OK", "200", "")),
    "body-other": (EXPECT + "string other", OK, "", ("L7RSP", "", "HTTP content check did not match")),
    "body-unwanted": (EXPECT + "! string hello", OK, "", ("L7RSP", "", "HTTP check matched unwanted content")),
    "body-none": (EXPECT + "comment cc rstring hello", http(200, body=b""), "", ("L7RSP", "", "HTTP content check could not find a response body comment: cc")),
    "body-none-not": (EXPECT + "! string hello", http(200, body=b""), "", ("L7RSP", "", "HTTP content check could not find a response body")),
    "on-error": (EXPECT + "status 201 on-error \"bad %[status]\" error-status L7RSP", OK, "", ("L7RSP", "", "bad 200")),
    "on-success": (EXPECT + "status 200 on-success \"good %[status]\" ok-status L7OKC status-code int(9)", OK, "", ("L7OKC", "9", "good 200")),
    "tcp": (TCP, OK, "", ("L4OK", "", "")),
    "tcp-refused": (TCP, REFUSES, "", ("L4CON", "", REFUSED + AT_FIRST)),
    "tcp-rule-refused": (TCP + "tcp-check expect string x", REFUSES, "", ("L4CON", "", REFUSED + AT_FIRST)),
    "tcp-connect": (TCP + "tcp-check connect", OK, "", ("L4OK", "", "(tcp-check)")),
    "tcp-connect-refused": (TCP + "tcp-check connect port 1 comment \"my port\"", OK, "", ("L4CON", "", REFUSED + " at step 1 of tcp-check (connect port 1) comment: 'my port'")),
    "tcp-send": (SEND, OK, "", ("L7OK", "0", "(tcp-check)")),
    "tcp-other": (SEND + "tcp-check comment pong\n    tcp-check expect string x", says(b"hello"), "", ("L7RSP", "", "TCPCHK did not match content 'x' at step 3 comment: pong")),
    "tcp-unwanted": (SEND + "tcp-check expect ! string h", says(b"hello"), "", ("L7RSP", "", "TCPCHK matched unwanted content 'h' at step 2")),
    "tcp-regex": (SEND + "tcp-check expect rstring x+", says(b"hello"), "", ("L7RSP", "", "TCPCHK did not match content (regex) at step 2")),
    "tcp-binary": (SEND + "tcp-check expect binary 4142", says(b"hello"), "", ("L7RSP", "", "TCPCHK did not match content (binary) at step 2")),
    "tcp-rbinary": (SEND + "tcp-check expect rbinary 4142", says(b"hello"), "", ("L7RSP", "", "TCPCHK did not match content (binary regex) at step 2")),
    "tcp-format": (SEND + "tcp-check expect string-lf %[str(zz)]", says(b"hello"), "", ("L7RSP", "", "TCPCHK did not match content (log-format string) at step 2")),
    "tcp-silent": (TCP + "tcp-check expect string x comment waiting", silent, "", ("L7TOUT", "", "at step 1 of tcp-check (expect string 'x') comment: 'waiting'")),
    "tcp-min-recv": (SEND + "tcp-check expect min-recv 40 string q", says(b"abc", stays=20), "", ("L7TOUT", "", "at step 2 of tcp-check (expect string 'q')")),
    "tcp-gone": (TCP + "tcp-check expect comment cc string x", gone, "", ("L7RSP", "", "TCPCHK got an empty response at step 1 comment: cc")),
    "tcp-reset": (SEND + "tcp-check expect string x", resets, "", ("SOCKERR", "", RESET + " at step 2 of tcp-check (expect string 'x')")),
    "tls-silent": ("", silent, "ssl verify none", ("L6TOUT", "", "")),
    "tls-rule-silent": (TCP + "tcp-check connect ssl", silent, "ssl verify none", ("L6TOUT", "", "at step 1 of tcp-check (connect)")),
    "tls-tcp-silent": (TCP + "tcp-check expect string x", silent, "ssl verify none", ("L6TOUT", "", "at initial connection step of tcp-check")),
    "tcp-no-answer": (TCP + "tcp-check expect string x", FULL, "", ("L4TOUT", "", "at initial connection step of tcp-check")),
    "tls-garbage": ("", says(b"no TLS at all", stays=0.2), "ssl verify none", ("L6RSP", "", "SSL handshake failure")),
    "smtp-refuses": ("option smtpchk", says(b"500 no\r\n", False, 1), "", ("L7STS", "500", "no")),
    "smtp-garbage": ("option smtpchk", says(b"hello\r\n", False, 1), "", ("L7RSP", "", "hello")),
    "smtp-gone": ("option smtpchk", gone, "", ("L7RSP", "", "")),
    "smtp-digit": ("option smtpchk", says(b"2", False, 0.2), "", ("L7RSP", "", "2")),
    "smtp-half": ("option smtpchk", says(b"220-hi\r\n", False, 0.2), "", ("L7RSP", "", "220-hi")),
    "redis-refuses": ("option redis-check", says(b"-ERR no\r\n"), "", ("L7STS", "0", "-ERR no")),
    "redis": ("option redis-check", says(b"+PONG\r\n"), "", ("L7OK", "0", "Redis server is ok")),
    "mysql-garbage": ("option mysql-check", says(b"garbage here", False, 0.2), "", ("L7RSP", "", "")),
    "mysql-refuses": ("option mysql-check", says(b"\x17\0\0\0\xff\x10\x04Too many connections", False, 0.2), "", ("L7STS", "1040", "Too many connections")),
    "mysql-nothing": ("option mysql-check", says(b"\0\0\0\0", False, 0.2), "", ("L7OK", "0", "")),
    "pgsql-garbage": ("option pgsql-check user x", says(b"z"), "", ("L7STS", "0", "PostgreSQL unknown error")),
    "pgsql-half": ("option pgsql-check user x", says(b"Ezz"), "", ("L7RSP", "", "")),
    "pgsql-refuses": ("option pgsql-check user x", says(b"E\0\0\0\x20SFATAL\0Mgo away\0\0"), "", ("L7RSP", "", "FATAL")),
    "ldap-garbage": ("option ldap-check", says(b"nonsense at all"), "", ("L7RSP", "", "Not LDAPv3 protocol")),
    "spop-garbage": ("option spop-check", says(b"\0\0\0\x04abcd"), "", ("L7RSP", "", "invalid frame received")),
    "hello": ("option ssl-hello-chk", says(b"\x16\3\0\0\2\2\x28"), "", ("L6OK", "", "")),
    "hello-garbage": ("option ssl-hello-chk", says(b"zzzz"), "", ("L6RSP", "", "")),
    "hello-silent": ("option ssl-hello-chk", silent, "", ("L6TOUT", "", "")),
    "program": ("option external-check\n    external-check command {0}", OK, "", ("PROCOK", "0", "")),
    "program-fails": ("option external-check\n    external-check command {3}", OK, "", ("PROCERR", "3", "")),
    "program-killed": ("option external-check\n    external-check command {9}", OK, "", ("PROCERR", "4294967295", "")),
    "program-slow": ("option external-check\n    external-check command {sleep}", OK, "", ("PROCTOUT", "0", "")),
    "program-none": ("option external-check\n    external-check command /nonexistent", OK, "", ("PROCERR", "255", "")),
}
# An agent's answer; `show stat`'s status, weight, slim, agent_status, agent_code, last_agt.
NOTHING = ("no check", "100", "", "CHECKED", "", "")
WELL, DOWN = ("no check", "100", "", "L7OK", "0"), ("DOWN (agent)", "100", "", "L7STS", "0")


def told(text):
    """The row of an agent's answer that changes nothing, with its message."""
    return (*NOTHING[:5], text)


def warns(text):
    """The same for a known word with an invalid number."""
    return told(f"agent warns : {text}")


AGENTS = {
    "up": (*WELL, "via agent : up"),
    "UP": (*WELL, "via agent : UP"),
    "   up   ": (*WELL, "via agent : up"),
    "up # well": (*WELL, "via agent : up (well)"),
    "up a b": (*WELL, "via agent : up (a)"),
    "up garbage # why": (*WELL, "via agent : up (garbage)"),
    "down up": (*WELL, "via agent : up"),
    "down": (*DOWN, "via agent : down"),
    "up down": (*DOWN, "via agent : down"),
    "down # because": (*DOWN, "via agent : down (because)"),
    "down garbage": (*DOWN, "via agent : down (garbage)"),
    "fail # x y": (*DOWN, "via agent : fail (x y)"),
    "stopped # night": (*DOWN, "via agent : stopped (night)"),
    # The manual has "fail".
    "failed": told("agent reports an error : failed"),
    "down: why": told("agent reports an error : down:"),
    "garbage": told("agent reports an error : garbage"),
    "# only words": NOTHING,
    "ready": NOTHING,
    "drain": ("DRAIN (agent)", "100", "", "CHECKED", "", ""),
    "drain up": ("DRAIN (agent)", "100", "", "L7OK", "0", "via agent : up"),
    "maint": ("MAINT", "100", "", "CHECKED", "", ""),
    "maint down # wow": ("MAINT", "100", "", "L7STS", "0", "via agent : down (wow)"),
    "ready up 50%": ("no check", "50", "", "L7OK", "0", "via agent : up"),
    "50%": ("no check", "50", "", *NOTHING[3:]),
    "0%": ("no check", "0", "", *NOTHING[3:]),
    "150%": ("no check", "150", "", *NOTHING[3:]),
    "1000%": ("no check", "256", "", *NOTHING[3:]),
    "-5%": told("agent reports an error : -5%"),
    "5x%": warns("Trailing garbage in weight string"),
    "weight:7": ("no check", "7", "", *NOTHING[3:]),
    "WEIGHT:5": ("no check", "5", "", *NOTHING[3:]),
    "weight:300": warns("Absolute weight can only be between 0 and 256 inclusive."),
    "weight:x": warns("Empty weight string empty or preceded by garbage"),
    "weight:": warns("Require <weight> or <weight%>."),
    "weight:5%x": warns("Trailing garbage in weight string"),
    "maxconn:30": ("no check", "100", "30", *NOTHING[3:]),
    "MAXCONN:5": ("no check", "100", "5", *NOTHING[3:]),
    "maxconn:x": warns("maxconn string empty or preceded by garbage"),
    "maxconn:": warns("Require <maxconn>."),
    "maxconn:5x": warns("Trailing garbage in maxconn string"),
    "maxconn:-5": ("no check", "100", "4294967291", *NOTHING[3:]),
    "up,10%,maxconn:9": ("no check", "10", "9", "L7OK", "0", "via agent : up"),
    "down 50% maxconn:3 # all": ("DOWN (agent)", "50", "3", "L7STS", "0", "via agent : down (all)"),
}
# Deviations of weir.
OURS = {
    # An interim response does not count (RFC 9110, 15.2).
    "http-interim": ("L7OK", "200", ""),
    # Silence is not a greeting.
    "mysql-nothing": ("L7RSP", "", "MySQL handshake packet not understood"),
    # The operator learns the reason.
    "program-killed": ("PROCERR", "4294967295", "Killed"),
    "program-none": ("PROCERR", "255", "cannot be executed: No such file or directory"),
    # A limit set by mistake.
    "maxconn:-5": warns("Invalid maxconn value."),
}
# Deviations of HAProxy 2.6.
PLAIN_RESET = "Connection reset by peer"
OLDER = {
    "http-gone": ("SOCKERR", "", PLAIN_RESET),
    "http-no-reason": ("L7STS", "503", ""),
    "status-no-reason": ("L7STS", "200", "comment: cc"),
    "rstatus-no-reason": ("L7STS", "200", ""),
    "header-no-reason": ("L7STS", "200", ""),
    "http-garbage": ("L7RSP", "", ""),
    "http-half": ("L7RSP", "", ""),
    "tcp-gone": ("L7RSP", "", "TCPCHK got an empty response at step 1 comment: 'cc'"),
    "tcp-reset": ("SOCKERR", "", PLAIN_RESET + " at step 2 of tcp-check (expect string 'x')"),
    "smtp-gone": ("L7RSP", "", "TCPCHK got an empty response at step 2"),
    **{name: (*row[3][:2], REFUSED) for name, row in CHECKS.items() if row[3][2] == REFUSED_BY},
    **{word: told(f"agent reports an error : {word}") for word in AGENTS if word.lower().startswith("weight:")},
}

# HAProxy may have the text of another system call's error.
UNSTEADY = ("no-source",)


@contextlib.contextmanager
def full_listener():
    """The address of a socket with a full queue: connections stay unanswered."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(listener.getsockname())
        yield "127.0.0.1:%d" % listener.getsockname()[1]


def test_check_results_have_the_messages_of_haproxy(binary, folder):
    """`show stat`, and the line of `option log-health-checks`, which has the same words."""
    for program, others in programs(binary):
        checks = {name: row for name, row in CHECKS.items() if program == binary or name not in UNSTEADY}
        with full_listener() as full, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as log:
            log.bind(("127.0.0.1", 0))
            log.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            sections = "".join(backend(name, row, full, folder, log.getsockname()[1]) for name, row in checks.items())
            extra = "external-check\n    insecure-fork-wanted"
            with Scene(program, folder, sections, extra, name=f"words{len(others)}.cfg") as scene:
                expected = {(name, "s"): others.get(name, row[3]) for name, row in checks.items()}
                hold(scene, ("check_status", "check_code", "last_chk"), expected)
                lines = logged(log)
            for name, row in checks.items():
                status, code, text = others.get(name, row[3])
                info = f', info: " ?{re.escape(text)}"' if text else "(, info: .*)?"
                code = ", code: -?[0-9]+" if code else ""
                pattern = f"Health check for server {name}/s (succeeded|failed|conditionally succeeded), reason: [A-Z][a-z0-9 ]+{code}{info}, check duration: [0-9]+ms, status: [01]/1 (UP|DOWN)[.]$"
                assert any(re.search(pattern, line) for line in lines), (program, name, pattern, [line for line in lines if f"server {name}/" in line])


def test_agent_answers_have_the_messages_of_haproxy(binary, folder):
    """All words of the manual, alone and combined, and garbage."""
    server = Server(OK)
    for program, others in programs(binary):
        sections = "backend b\n    timeout check 400ms\n" + "\n".join(
            f"    server s{number} 127.0.0.1:{server.port} weight 100 agent-check agent-port {Server(says(text.encode() + chr(10).encode(), False)).port} agent-inter 200ms rise 1 fall 1"
            for number, text in enumerate(AGENTS)) + "\n"
        columns = ("status", "weight", "slim", "agent_status", "agent_code", "last_agt")
        with Scene(program, folder, sections, name=f"agents{len(others)}.cfg") as scene:
            hold(scene, columns, {("b", f"s{number}"): others.get(text, row) for number, (text, row) in enumerate(AGENTS.items())})


def programs(binary):
    """The program to test, and the packaged HAProxy, each with its deviations."""
    version = subprocess.run([installed("haproxy"), "-v"], capture_output=True, text=True, check=False).stdout
    yield binary, OURS
    if "version 2.6" in version:
        yield installed("haproxy"), OLDER


def backend(name, row, full, folder, log):
    """The section of a row."""
    lines, server, words, _ = row
    place = server if isinstance(server, str) else f"127.0.0.1:{Server(server).port}"
    for found in re.findall(r"\{(\w+)\}", lines):
        ends = {"9": "kill -9 $$", "sleep": "/bin/sleep 20"}.get(found, f"exit {found}")
        path = folder.file(f"program{found}.sh", f"#!/bin/sh\n{ends}\n")
        os.chmod(path, 0o755)
        lines = lines.replace("{%s}" % found, path)
    return f"""
backend {name}
    mode {"http" if "http" in lines else "tcp"}
    log 127.0.0.1:{log} local0
    option log-health-checks
    timeout connect 500ms
    timeout check 600ms
    {lines}
    server s {place.replace(FULL, full)} check inter 700ms rise 1 fall 1 {words}
"""


def hold(scene, columns, expected):
    """Waits for the expected values of servers, by backend and name. HAProxy may end a text with a line end, and omits
    the last check's message while the next one runs."""
    def others():
        rows = csv.DictReader(io.StringIO(scene.ask("show stat").removeprefix("# ")))
        found = {(row["pxname"], row["svname"]): tuple(row[column].removeprefix("* ").strip() for column in columns) for row in rows}
        return {place: (found.get(place), row) for place, row in expected.items() if found.get(place) != row}
    assert wait_until(lambda: not others(), 8), others()


def logged(log):
    """All log lines received."""
    log.settimeout(0.2)
    lines = []
    with contextlib.suppress(TimeoutError):
        while True:
            lines.append(log.recv(4096).decode(errors="replace").strip())
    return lines
