"""The walk through the manual's fetches and log formats: the value of each, at which moment, with which arguments.

  PYTHONPATH=tests python3 -m fetches.walk --bin target/trial/weir --haproxy PROGRAM     prints the tables with both programs' results

*.tsv has a line for each case: the section of the manual, the place of the rule that evaluates it, the message that it
is evaluated on (MESSAGES in messages.py), the expression, and the result: `~` is an absent value, `error` a fault of
the configuration, `warning` before a value a complaint about the line. Where HAProxy 3.2 differs, two more columns
have its result and the reason.
"""
import argparse
import concurrent.futures
import os
import re
import socket
import time

from fetches.messages import COMMON, FILES, MESSAGES
from lib.origin import Origin, Server
from lib.program import Folder, Program, free_port, run

TABLES = os.path.dirname(os.path.abspath(__file__))

# The rule of each place: `{n}` is the number of the case, `{what}` its expression.
RULES = {
    "connection": "tcp-request connection set-var(sess.v{n}) {what}",
    "session": "tcp-request session set-var(sess.v{n}) {what}",
    "content": "tcp-request content set-var(sess.v{n}) {what}",
    "request": "http-request set-var(sess.v{n}) {what}",
    "condition": "http-request set-var(sess.v{n}) str(yes) if {what}",
    "content-condition": "tcp-request content set-var(sess.v{n}) str(yes) if {what}",
    "string": "http-request set-var-fmt(sess.v{n}) {what}",
    "backend": "http-request set-var(sess.v{n}) {what}",
    "backend-content": "tcp-request content set-var(sess.v{n}) {what}",
    "tcp-response": "tcp-response content set-var(sess.v{n}) {what}",
    "response": "http-response set-var(sess.v{n}) {what}",
    "response-condition": "http-response set-var(sess.v{n}) str(yes) if {what}",
    "after": "http-after-response set-var(sess.v{n}) {what}",
    "line": "{what}",
    "backend-line": "{what}",
    "section": "{what}",
    "peers": "{what}",
}
IN_BACKEND = ("backend", "backend-content", "tcp-response", "response", "response-condition", "backend-line")
# Cases that are whole lines of the configuration: their value is absent, and the cases after them show their effect.
LINES = ("line", "backend-line", "section", "peers")


class Case:
    """One line of a table."""

    def __init__(self, line, file, number):
        parts = line.split("\t")
        if len(parts) not in (4, 5, 7):
            raise ValueError(f"{file}:{number}: a case has 5 columns, or 7: {line}")
        self.section, self.place, self.message, self.what = parts[:4]
        self.expected = parts[4] if len(parts) > 4 else None
        self.reference, self.why = parts[5:] if len(parts) == 7 else (self.expected, "")
        self.where = f"{file}:{number}"
        if self.message not in MESSAGES or (self.place not in RULES and self.place not in ("log", "body")):
            raise ValueError(f"{self.where}: no such place or message: {line}")
        if len(parts) == 7 and (self.reference == self.expected or not self.why):
            raise ValueError(f"{self.where}: a difference that is none needs no reason, and every other one does")


def cases():
    """Every case of the tables, numbered from 0."""
    found = []
    for name in sorted(os.listdir(TABLES)):
        if name.endswith(".tsv"):
            with open(os.path.join(TABLES, name)) as file:
                for number, line in enumerate(file.read().splitlines(), 1):
                    if line and not line.startswith("#"):
                        found.append(Case(line, name, number))
    for number, case in enumerate(found):
        case.number = number
    return found


def quoted(text):
    """One word of a configuration line that holds any text."""
    return "'" + text.replace("'", "'\\''") + "'"


def sections(name, message, chosen, ports):
    """The frontend and the backend of a message with the rules of its cases, as pairs of a line and its case."""
    mode = message.mode
    front = [(f"frontend {name}", None), (f"    mode {mode}", None), (f"    bind 127.0.0.1:{ports[name]} name b-{name} {message.bind}", None)]
    front += [(f"    {line}", None) for line in message.frontend]
    back = [(f"backend b-{name}", None), (f"    mode {mode}", None), *((f"    {line}", None) for line in message.backend)]
    if message.response is not None:
        back.append((f"    server s-{name} 127.0.0.1:{ports['s-' + name]}", None))
    for place in RULES:
        for number, case in chosen:
            if case.place == place:
                what = case.what if "condition" in place or place in LINES else quoted(case.what)
                if place == "peers":
                    back += [(f"peers own-{number}", None), ("    shards 2", None), (f"    {what}", case)]
                    continue
                if place == "section":
                    back += [(f"backend own-{number}", None), ("    mode http", None), (f"    {what}", case)]
                    continue
                (back if place in IN_BACKEND else front).append((f"    {RULES[place].format(n=number, what=what)}", case))
    shown = "".join(f"<<{number}>>" + (case.what if case.place == "log" else f"%{{+Q}}[var(sess.v{number},~)]")
                    for number, case in chosen if case.place != "body")
    front.append((f"    log-format {quoted(shown + '<<>>')}", None))
    for number, case in chosen:
        if case.place == "body":
            front.append((f"    http-request return status 200 content-type text/plain lf-string {quoted(case.what)} if {{ path /{number} }}", case))
    front.append((f"    default_backend b-{name}", None))
    return front + back


def judged(binary, numbered, folder, label):
    """A program's verdict on the line of each case: empty, `warning` or `error`. Repeats the check without faulty
    lines, because some faults are reported only once the rest is valid."""
    verdicts = {}
    while more := judged_once(binary, [pair for pair in numbered if verdicts.get(pair[1]) != "error"], folder, label):
        verdicts.update(more)
        if "error" not in more.values():
            break
    return verdicts


def judged_once(binary, numbered, folder, label):
    """The verdicts of one check."""
    lines = [(line, None) for line in COMMON.format(log=1).splitlines()]
    for name, message in MESSAGES.items():
        rules = [(number, case) for number, case in numbered if case.message == name and case.place != "log"]
        lines += sections(name, message, rules, {name: 1, f"s-{name}": 1})
    for number, case in numbered:
        if case.place == "log":
            lines += [(f"frontend log-{number}", None), (f"    mode {MESSAGES[case.message].mode}", None), ("    bind 127.0.0.1:1", None),
                      (f"    log-format {quoted(case.what)}", case)]
    path = folder.file(f"{label}-check.cfg", "\n".join(line for line, _ in lines) + "\n")
    status, out, err = run(binary, "-c", "-f", path, seconds=60)
    verdicts = {}
    for kind, said in re.findall(r"^\[(ALERT|WARNING)\](.*?)(?=^\[|\Z)", out + err, re.M | re.S):
        places = re.findall(re.escape(path) + r":(\d+)", said)
        for where in places + re.findall(r"\d+", "".join(re.findall(r"first at lines ([\d, ]+)", said))):
            case = lines[int(where) - 1][1]
            if case and (kind == "ALERT" or case not in verdicts):
                verdicts[case] = "error" if kind == "ALERT" else "warning"
    if status and "error" not in verdicts.values():
        # A missing reference may be reported for the proxy only: such lines are checked one by one.
        alone = [pair for pair in numbered if pair[1].place in LINES]
        if len(numbered) == 1:
            return dict.fromkeys((case for _, case in alone), "error")
        verdicts.update(found for pair in alone for found in judged_once(binary, [pair], folder, label).items())
        if "error" not in verdicts.values():
            raise AssertionError(f"{label}: the fault is in no case:\n{out}{err}")
    return verdicts


def server_of(message):
    """A server that answers each request, or all received bytes in TCP mode, with the message's response."""
    if message.mode == "http":
        return Origin(message.response)

    def answer(connection):
        while connection.recv(65536):
            connection.sendall(message.response)
    return Server(answer)


def asked(port, pieces):
    """Sends a message in its pieces. Returns the response up to EOF or silence, and the local port."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        for piece in pieces:
            if isinstance(piece, float):
                time.sleep(piece)
            else:
                connection.sendall(piece)
        answer = b""
        connection.settimeout(5)
        try:
            while more := connection.recv(65536):
                answer += more
                head, ends, body = answer.partition(b"\r\n\r\n")
                length = re.search(rb"^content-length: *(\d+)", head, re.M | re.I)
                if ends and length and len(body) >= int(length[1]):
                    break
        except OSError:
            pass
        return answer, connection.getsockname()[1]


def told(receiver, count):
    """The values in log lines, by case. Waits for `count` of them or for silence."""
    receiver.settimeout(3)
    values = {}
    try:
        while len(values) < count:
            line = receiver.recv(70_000).decode("latin-1")
            values.update((int(number), value(shown)) for number, shown in re.findall(r"<<(\d+)>>(.*?)(?=<<\d*>>)", line, re.S))
    except TimeoutError:
        pass
    return values


def masked(shown, named):
    """Replaces the numbers that differ between runs by names, in all notations."""
    for name, port in named.items():
        for spelling in (f"{port}", f"{port:04X}", f"19{port:04X}"):
            shown = re.sub(r"(?<![0-9A-Fa-f])" + spelling + r"(?![0-9A-Fa-f])" if port else r"(?!)", name, shown)
    return shown


def value(text, quotes=True):
    """A value in the form of the tables, without surrounding quotes."""
    text = text[1:-1] if quotes and len(text) > 1 and text[0] == text[-1] == '"' else text
    return re.sub(r"[\x00-\x1f\x7f-\xff]", lambda found: f"\\x{ord(found[0]):02x}", text) or "(empty)"


def evaluated(binary, numbered, folder, label):
    """A program's value for each case without an error."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
    receiver.bind(("127.0.0.1", 0))
    ports, servers, text = {}, [], COMMON.format(log=receiver.getsockname()[1])
    used = [name for name in MESSAGES if any(case.message == name for _, case in numbered)]
    for name in used:
        message = MESSAGES[name]
        ports[name] = free_port()
        if message.response is not None:
            servers.append(server_of(message))
            ports[f"s-{name}"] = servers[-1].port
        chosen = [(number, case) for number, case in numbered if case.message == name]
        text += "\n".join(line for line, _ in sections(name, message, chosen, ports)) + "\n"
    for name, content in FILES.items():
        folder.file(name, content)
    ready, found = free_port(), {}
    text += f"frontend ready\n    bind 127.0.0.1:{ready}\n    no log\n"
    with Program(binary, "-db", "-f", folder.file(f"{label}.cfg", text), cwd=folder.path) as program:
        program.ready(ready)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            own = dict(zip(used, pool.map(lambda name: asked(ports[name], MESSAGES[name].pieces)[1], used)))
        cases_of = dict(numbered)
        for number, shown in told(receiver, sum(case.place != "body" for _, case in numbered)).items():
            name = cases_of[number].message
            found[number] = masked(shown, {"CLIENTPORT": own[name], "PORT": ports[name], "SERVERPORT": ports.get(f"s-{name}", 0)})
        for number, case in numbered:
            if case.place == "body":
                message = MESSAGES[case.message].pieces[0].replace(b" / ", b" /%d " % number, 1)
                body = asked(ports[case.message], [message])[0].partition(b"\r\n\r\n")[2]
                found[number] = value(body.decode("latin-1"), quotes=False)
    receiver.close()
    for server in servers:
        server.close()
    return found


def observe(binary, every):
    """A program's result for every case."""
    with Folder() as folder:
        numbered = [(case.number, case) for case in every]
        verdicts = judged(binary, numbered, folder, "walk")
        # A program without peers needs no section of peers, and its listener would need a port.
        good = [(number, case) for number, case in numbered if verdicts.get(case) != "error" and case.place != "peers"]
        values = evaluated(binary, good, folder, "walk") if good else {}
    made = []
    for number, case in numbered:
        verdict = verdicts.get(case)
        found = "~" if case.place == "peers" else values.get(number, "(not logged)")
        made.append("error" if verdict == "error" else f"warning {found}" if verdict else found)
    return made


def reference(haproxy, every):
    """The reference program's result for every case. Cases that crash it are not run."""
    chosen = [case for case in every if case.reference != "crash"]
    seen = dict(zip(chosen, observe(haproxy, chosen)))
    return [seen.get(case, "crash") for case in every]


def main():
    """Prints the tables with the results of both programs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--haproxy", required=True)
    options = parser.parse_args()
    every = cases()
    theirs = reference(options.haproxy, every)
    for case, found, seen in zip(every, observe(options.bin, every), theirs):
        columns = [case.section, case.place, case.message, case.what, found]
        print("\t".join(columns + ([seen, case.why or "?"] if found != seen else [])))


if __name__ == "__main__":
    main()
