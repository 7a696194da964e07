"""Sends the same bytes to haproxy and to weir with the same configuration; compares the views of clients, servers and
logs.

An exchange is raw bytes, sent in the pieces that it is written in, so nothing here understands HTTP better than the
programs under test. The origin sends the answer named by the path and can echo the request that reached it. Times,
ports and process numbers are taken out before the comparison. An intended difference carries its reason (`DIFFERENT`),
which may hold for one version of haproxy only. The folder `exchanges` has the exchanges, one file a subject; its opening
page explains their format.
"""
import concurrent.futures
import contextlib
import dataclasses
import difflib
import errno
import os
import re
import shutil
import socket
import threading
import time

from lib.origin import Server
from lib.program import Folder, Program, free_port, readable, run
from reference import exchanges

# Placeholders that are not ports of listeners.
SERVERS = ("origin", "deaf", "bytes", "s1", "s2", "s3", "s4", "closed", "log", "folder")


class Origin(Server):
    """Sends the answer named by the path."""

    def __init__(self, name="", answers=None):
        self.name = name
        # It does not know transfer codings, like some HTTP/1.0 servers, and skips lines that are not request lines.
        self.deaf = name == "deaf"
        # The answers that a path names: the bytes, and whether it closes behind them.
        self.answers = answers or {}
        # The requests that were whole, by the exchange that they name as theirs.
        self.received = {}
        super().__init__()

    def note(self, head, body):
        """Records a request that contains the name of its exchange."""
        exchange = re.search(rb"^x-id: *(\S+)", head, re.M | re.I)
        if exchange:
            self.received.setdefault(exchange[1].decode("latin-1"), []).append((head + b"\r\n\r\n" + body).decode("latin-1"))

    def serve(self, connection):
        """Serves requests until one side closes."""
        connection.settimeout(5)
        held = b""
        # Requests that cannot be understood end the connection.
        with contextlib.suppress(IndexError, ValueError, KeyError):
            while True:
                while b"\r\n\r\n" not in held:
                    more = connection.recv(65536)
                    if not more:
                        return
                    held += more
                head, held = held.split(b"\r\n\r\n", 1)
                if self.deaf:
                    head = re.sub(rb"\A(?:(?![A-Z]+ \S+ HTTP/)[^\n]*\n)*", b"", head)
                    if not head:
                        continue
                body, held = self.body(connection, head, held)
                self.note(head, body)
                path = head.split(b" ", 2)[1].decode("latin-1").removeprefix("http://a.example").removeprefix(":80")
                if not self.answer(connection, path, head, body, held) or (self.deaf and not self.stays(head)):
                    return

    @staticmethod
    def stays(head):
        """Whether the connection persists after this request, by the request's fields."""
        said = b",".join(re.findall(rb"^connection:(.*)", head, re.M | re.I)).lower()
        return b"close" not in said and (b"HTTP/1.1" in head.split(b"\n")[0] or b"keep-alive" in said)

    def body(self, connection, head, held):
        """The request's body, undecoded, and the bytes after it."""
        length = re.search(rb"^content-length: *(\d+)", head, re.M | re.I)
        if not self.deaf and re.search(rb"^transfer-encoding:[ \t]*chunked", head, re.M | re.I):
            last = rb"(^|\r\n)0+(;.*)?\r\n(.+\r\n)*\r\n"
            while not re.search(last, held):
                more = connection.recv(65536)
                if not more:
                    raise OSError
                held += more
            end = re.search(last, held).end()
            return held[:end], held[end:]
        size = int(length.group(1)) if length else 0
        if re.search(rb"^expect: *100-continue", head, re.M | re.I):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(held) < size:
            more = connection.recv(65536)
            if not more:
                raise OSError
            held += more
        return held[:size], held[size:]

    def answer(self, connection, path, head, body, held):
        """Sends the response. Returns whether the connection stays open."""
        send = lambda text: connection.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
        kind = path.split("?")[0].split("/")[1] if path.startswith("/") else ""
        if head.startswith(b"CONNECT refused"):
            chunked = head.startswith(b"CONNECT refused-in-chunks")
            send("HTTP/1.1 403 No\r\n" + ("Transfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n" if chunked else "Content-Length: 2\r\n\r\nno"))
            return True
        if head.startswith(b"CONNECT"):
            kind = "upgrade"
            send("HTTP/1.1 200 OK\r\n\r\n")
        fixed = {
            "chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n10\r\nghijklmnopqrstuv\r\n0\r\n\r\n",
            "trailers": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\nX-T: 1\r\n\r\n",
            "hints": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "continue": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "strip": "HTTP/1.1 200 OK\r\nServer: o\r\nX-Strip: 1\r\nContent-Length: 2\r\n\r\nok",
            "linefeeds": "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
            "noreason": "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
            "twolengths": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        }
        ending = {
            "close": "HTTP/1.1 200 OK\r\n\r\nuntil the end",
            "bye": "",
            "nonsense": "this is no answer\r\n\r\n",
            "cuthead": "HTTP/1.1 200 OK\r\nContent-",
            "cutbody": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
            "cutchunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nxyz",
        }
        if kind in fixed:
            send(fixed[kind])
            return True
        if kind in ending:
            send(ending[kind])
            return False
        if kind == "answer":
            text, end = self.answers[path.split("?")[0].split("/")[2]]
            send(text)
            return not end
        if kind in ("raw", "end"):
            send(bytes.fromhex(path.split("?")[0].split("/")[2]))
            return kind == "raw"
        if kind == "who":
            send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(self.name)}\r\n\r\n{self.name}")
        elif kind == "len":
            size = int(path.split("?")[0].split("/")[2])
            send(f"HTTP/1.1 200 OK\r\nServer: o\r\nContent-Length: {size}\r\n\r\n" + ("" if head.startswith(b"HEAD") else "x" * size))
        elif kind == "status":
            status = int(path.split("?")[0].split("/")[2])
            send(f"HTTP/1.1 {status} As asked\r\nX-Kind: status\r\n" + ("\r\n" if status in (204, 304) else "Content-Length: 0\r\n\r\n"))
        elif kind in ("silent", "stall"):
            send("" if kind == "silent" else "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
            time.sleep(1)
            return False
        elif kind == "upgrade":
            if head.startswith(b"GET"):
                send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
            while len(held) < 4:
                more = connection.recv(100)
                if not more:
                    return False
                held += more
            send("pong " + held.decode())
            return False
        else:
            echo = head + b"\r\n\r\n" + body
            send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(echo) + (b"" if head.startswith(b"HEAD") else echo))
        return True


class Bytes(Server):
    """Answers with the bytes received, escaped, once the client pauses."""

    def serve(self, connection):
        """Reads until the client is silent, then answers once."""
        held = b""
        connection.settimeout(0.1)
        with contextlib.suppress(TimeoutError):
            while more := connection.recv(65536):
                held += more
        # The ports of a binary PROXY header.
        held = re.sub(rb"(?<=(?:\x7f\0\0\x01|\x0a\x07\x07\x07)\x7f\0\0\x01)....", b"PORT", held, flags=re.S)
        body = repr(held).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


class Logs:
    """Collects the lines of one program, by the client port that they name."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.lines = {}
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        """Receives until the socket is closed."""
        while True:
            try:
                line = self.socket.recv(65536).decode("latin-1")
            except OSError:
                return
            found = re.search(r"127\.0\.0\.1:(\d+) [=\[]", line)
            if found:
                self.lines.setdefault(int(found.group(1)), []).append(line)


def exchange(port, pieces, logs):
    """Sends the pieces and reads up to EOF or silence. Returns the bytes received, the kind of close, our port, and the
    number of earlier log lines with that port, which another exchange may have used."""
    # From a port that stays unused by others for some time: it identifies the log lines.
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    connection.settimeout(2)
    try:
        connection.bind(("127.0.0.1", free_port()))
        connection.connect(("127.0.0.1", port))
    except ConnectionError:
        connection.close()
        return b"", "closed", port, 0  # refused by a rule before we even knew that it was accepted, or the program has ended
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own = connection.getsockname()[1]
        past = len(logs.lines.get(own, []))
        received, end = b"", "open"
        try:
            send_pieces(connection, pieces)
        except OSError:
            pass  # it is closed already; what came before can still be read
        try:
            connection.settimeout(0.9)
            while True:
                more = connection.recv(65536)
                if not more:
                    end = "closed"
                    break
                received += more
        except TimeoutError:
            pass
        except OSError as error:
            # Reset or orderly close depends on timing, and on the first event noticed.
            if not isinstance(error, ConnectionError) and error.errno != errno.ENOTCONN:
                raise
            end = "closed"
    return received, end, own, past


def send_pieces(connection, pieces):
    """Sends one piece at a time: text verbatim, None half-closes, a number waits that many seconds."""
    for number, piece in enumerate(pieces):
        if piece is None:
            connection.shutdown(socket.SHUT_WR)
        elif isinstance(piece, float):
            time.sleep(piece)
        else:
            if number:
                time.sleep(0.02)
            connection.sendall(piece.encode("latin-1"))


def observe(subject, binary, names, folder, label):
    """The views of clients and logs for each exchange of a subject."""
    answers = getattr(subject, "ANSWERS", {})
    origin, logs = Origin(answers=answers), Logs()
    origins = [origin]
    # The folder of the configuration, the same for both programs, so that paths in messages match.
    servers = {"origin": origin.port, "log": logs.port, "closed": free_port(), "folder": folder.path}
    listeners = {}

    def place(match):
        name = match[1]
        if name == "bytes":
            servers.setdefault(name, Bytes().port)
        elif re.fullmatch(r"s\d|deaf", name):
            if name not in servers:
                origins.append(Origin(name, answers))
                servers[name] = origins[-1].port
        return str(servers[name] if name in servers else listeners.setdefault(name, free_port()))

    text = re.sub(r"@(\w+)@", place, subject.CONFIGURATION)
    for name, content in getattr(subject, "FILES", {}).items():
        folder.file(name, content)
    with Program(binary, "-db", "-f", folder.file(f"{label}.cfg", text)) as program:
        for port in listeners.values():
            program.ready(port)

        def one(name):
            listener, pieces = subject.EXCHANGES[name]
            pieces = [pieces] if isinstance(pieces, str) else pieces
            pieces = [p.replace("%FOLDER%", folder.path) if isinstance(p, str) else p for p in pieces]
            return exchange(listeners[listener], pieces, logs)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            seen = dict(zip(names, pool.map(one, names)))
        # Wait for the log lines of the last exchanges.
        time.sleep(0.5 if len(names) > 1 else 0.2)
        if program.status(0) is not None:
            raise AssertionError(f"{label} ended with {program.status(0)}: {program.process.communicate()[0]}")
    numbers = [own for _, _, own, _ in seen.values()] + list(listeners.values())
    numbers += [port for port in servers.values() if isinstance(port, int)]
    plain = getattr(subject, "plain", str)
    views = {name: view(plain(received.decode("latin-1")), end, logs.lines.get(own, [])[past:], numbers)
             for name, (received, end, own, past) in seen.items()}
    if getattr(subject, "RECORD", False):
        for name, (_, _, own, _) in seen.items():
            views[name] += arrived(origins, name, [own, *numbers])
    return views


def arrived(origins, name, ports):
    """The requests of an exchange received by each server."""
    lines = []
    for origin in origins:
        for text in origin.received.get(name, []):
            lines += [f"to server {origin.name}"] + view(text, "received", [], ports)
    return lines


def observe_messages(subject, binary, names, folder, label):
    """The messages that each target of a log-forward section receives."""
    ports = {"datagrams": free_port(), "stream": free_port()}
    targets = []
    for _ in subject.TARGETS:
        targets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        targets[-1].bind(("127.0.0.1", 0))
    text = re.sub(r"@(\w+)@", lambda match: str(ports[match[1]]), subject.SECTION) + kept(subject, binary, folder)
    text = "global\n    nbthread 1\n" + text
    text += "".join(f"    log 127.0.0.1:{t.getsockname()[1]} {words}\n" for t, words in zip(targets, subject.TARGETS))
    seen = {}
    with Program(binary, "-db", "-f", folder.file(f"{label}.cfg", text)) as program:
        program.ready(ports["stream"])
        for name in names:
            way, message = subject.EXCHANGES[name]
            send_message(ports[way], way, message.encode("latin-1"))
            seen[name] = [f"{words}: {today(line)}" for words, lines in zip(subject.TARGETS, gather(targets, way)) for line in lines]
        if program.status(0) is not None:
            raise AssertionError(f"{label} ended: {program.process.communicate()[0]}")
    for target in targets:
        target.close()
    return seen


def kept(subject, binary, folder):
    """The section's additional lines, if the program knows them."""
    path = folder.file(f"kept-{os.path.basename(binary)}.cfg", subject.SECTION.replace("@datagrams@", "1").replace("@stream@", "2") + subject.KEEP)
    said = run(binary, "-c", "-f", path, seconds=30)[2]
    return "" if "option" in said else subject.KEEP


def send_message(port, way, message):
    """Sends a datagram, or sends over a connection, which is closed after the peer closed it or had time to read."""
    if way == "datagrams":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(message, ("127.0.0.1", port))
        return
    with socket.create_connection(("127.0.0.1", port), 2) as sender:
        try:
            sender.sendall(message)
            sender.shutdown(socket.SHUT_WR)
            sender.settimeout(0.25)
            sender.recv(1)
        except OSError:
            pass


def gather(targets, way):
    """The lines received by each socket, once all are silent. A datagram always yields some."""
    lines = [[] for _ in targets]
    patience = 0.5 if way == "datagrams" else 0.05
    while ready := readable(targets, patience):
        patience = 0.03
        for target in ready:
            lines[targets.index(target)].append(target.recv(70_000))
    return lines


def today(line):
    """A line without the date of now."""
    line = re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[-+]\d\d:\d\d(?<!05\.007181\+00:00)", "TODAY", line.decode("latin-1"))
    now = time.time()
    for then in (now, now - 1, now - 2, now - 3):
        line = line.replace(time.strftime("%b %e %H:%M:%S", time.localtime(then)), "TODAY")
    return repr(line)


def view(text, end, lines, ports):
    """The view to compare: the bytes without the differences that both programs are free to make, the way it ended, the
    log.

    The case of field names, the blanks around values and the cut of chunks are such freedoms: HAProxy writes every
    message anew in lower case, weir forwards it unchanged. So are the bytes in an HTTP log line: HAProxy counts those
    of its own representation, weir those on the wire.
    """
    text = re.sub(r"^([A-Za-z][-!#$%&'*+.^_`|~A-Za-z0-9 \x00()]*?):[ \t]*(.*?)[ \t]*(\r?)$", lambda m: f"{m[1].lower()}: {m[2]}{m[3]}", text, flags=re.M)
    # The same inside an answer of the server that shows bytes.
    text = re.sub(r"(?<=\\r\\n)([A-Z][-A-Za-z]*): ", lambda m: m[0].lower(), text)
    # Where among the fields `connection` stands.
    text = re.sub(r"^(connection: .*\r\n)((?:[-a-z0-9]+: .*\r\n)+)", r"\2\1", text, flags=re.M)
    # The length of an echo varies with these differences.
    if "chunked" in text or re.search(r"^[A-Z]+ .*HTTP/1", text, re.M):
        text = re.sub(r"^content-length: \d\d+(?=\r)", "content-length: N", text, flags=re.M)
    if "chunked" in text:
        text = re.sub(r"(?:\r\n)?^([0-9a-fA-F]+)(;.*)?\r\n(?!\r\n)", lambda m: "" if int(m[1], 16) else "\r\n0\r\n", text, flags=re.M)
    # Digits of a port also occur inside hexadecimal digests: those stay unchanged.
    without_ports = lambda text: re.sub(r"(?<![0-9A-Fa-f])(" + "|".join(map(str, ports)) + r")(?![0-9A-Fa-f])", "PORT", text)
    text = without_ports(text).replace("\r\n", "\\r\\n\n")
    return (text + f"\n[{end}]\n" + "".join(f"log: {without_ports(plain(line))}\n" for line in lines)).splitlines()


def plain(line):
    """A log line without the parts that differ from run to run. Of the timers, only absent ones stay."""
    line = line.rstrip("\n")
    line = re.sub(r"^<(\d+)>.*?\[\d+\]: 127\.0\.0\.1:\d+ (?:=|\[[^]]*\])", r"<\1>", line)
    line = re.sub(r"(?<=\S/\S)(\S* )([-+]?\d+(?:/[-+]?\d+)+)(?= )", lambda m: m[1] + re.sub(r"(?<![-\d])\d+", "N", m[2]), line, count=1)
    line = re.sub(r" \d+/\d+/\d+/\d+/(\+?\d+) \d+/\d+(?= |$)", r" N/N/N/N/\1 N/N", line)
    return re.sub(r"(?<= \d{3}) \+?\d+(?= \S+ \S+ [-A-Za-z]{4} )", " N", line)


def taken(subject, options):
    """The subject without configuration lines refused by the reference program, and those lines."""
    refused = []
    with Folder() as folder:
        for name, content in getattr(subject, "FILES", {}).items():
            folder.file(name, content)
        for _ in range(20):
            text = re.sub(r"@(\w+)@", lambda match: folder.path if match[1] == "folder" else "1", subject.CONFIGURATION)
            status, _, said = run(options.reference, "-c", "-f", folder.file("taken.cfg", text), seconds=30)
            numbers = {int(number) for number in re.findall(r"^\[ALERT\].*?\[" + re.escape(folder.path) + r"/taken\.cfg:(\d+)\]", said, re.M)}
            if not status or not numbers:
                break
            lines = subject.CONFIGURATION.split("\n")
            refused += [lines[number - 1].strip() for number in sorted(numbers)]
            subject.CONFIGURATION = "\n".join(line for number, line in enumerate(lines, 1) if number not in numbers)
    return refused


def compare(subject, names, options, label):
    """Sends the exchanges of a subject to both programs. Returns the reference's views, one per attempt, and weir's view."""
    with Folder() as folder:
        def both(chosen):
            look = observe_messages if hasattr(subject, "TARGETS") else observe
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                reference = pool.submit(look, subject, options.reference, chosen, folder, f"{label}-reference")
                found = pool.submit(look, subject, options.bin, chosen, folder, f"{label}-weir")
                return reference.result(), found.result()

        first, found = both(names)
        expected = {name: [seen] for name, seen in first.items()}
        # A difference may be a matter of timing: both programs get several attempts.
        different = exchanges.meant(subject, options.version)
        # The compared part of a view.
        shown = getattr(subject, "shown", lambda view: view)
        same = lambda name: shown(found[name]) in map(shown, expected[name])
        for _ in range(3):
            again = [n for n in names if not same(n) and n not in different]
            if again:
                more, retried = both(again)
                for name in again:
                    expected[name].append(more[name])
                found.update(retried)
        # An intended difference may vanish by timing: the list may drop it only if both agree every time.
        for _ in range(3):
            again = [n for n in names if same(n) and n in different]
            if again:
                more, retried = both(again)
                expected.update({name: [more[name]] for name in again})
                found.update(retried)
    return expected, found


def check_configuration(subject, name, options, folder, number):
    """Each program's verdict on a configuration: whether it accepts it, and the lines of its alerts."""
    path = folder.file(f"{number}.cfg")
    with open(path, "w", newline="") as file:
        file.write(subject.CONFIGURATIONS[name])
    views = []
    for binary in (options.reference, options.bin):
        status, _, said = run(binary, "-c", "-f", path, seconds=30)
        if binary == options.bin and status == 1 and "is not implemented yet" in said:
            return [views[0], views[0], said]
        lines = re.findall(r"^\[ALERT\] .*?\[" + re.escape(path) + r":(\d+)\]", said, re.M)
        views.append([f"exit status {status}, alerts for the lines {' '.join(sorted(set(lines), key=int))}"])
    return [*views, said]


def compare_configurations(subject, names, options):
    """The same as [`compare`] for configurations that are only checked."""
    with Folder() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = pool.map(lambda pair: check_configuration(subject, pair[1], options, folder, pair[0]), enumerate(names))
        views = dict(zip(names, seen))
    return {name: [view[0]] for name, view in views.items()}, {name: view[1] for name, view in views.items()}


def version(reference):
    """The branch of a haproxy: `2.6`."""
    _, said, complaint = run(reference, "-v", seconds=30)
    return re.search(r"version (\d+\.\d+)", said + complaint)[1]


def fault(subject, place, expected, found, excuse):
    """The fault of an exchange. Empty if both programs behave alike, or the difference is intended."""
    complaint = getattr(subject, "never", lambda view: None)(found)
    if complaint:
        return f"NEVER  {place}: {complaint}\n" + "\n".join(found)[:3000]
    shown = getattr(subject, "shown", lambda view: view)
    same = shown(found) in map(shown, expected)
    if same and excuse:
        return f"SAME  {place}: no longer differs ({excuse}); take it off the list"
    if not same and not excuse:
        lines = difflib.unified_diff(shown(expected[0]), shown(found), "reference", "weir", lineterm="", n=0)
        return f"DIFFERS  {place}\n" + "\n".join(list(lines)[2:])[:3000]
    return ""


@dataclasses.dataclass
class Programs:
    """The programs that are compared: their paths, and the branch of the reference program."""
    bin: str
    reference: str
    version: str


def programs(binary, haproxy="haproxy"):
    """weir, and a haproxy found like in the PATH of a root shell."""
    path = shutil.which(haproxy, path=os.environ["PATH"] + ":/usr/sbin")
    return Programs(os.path.abspath(binary), path, version(path))


def names_of(subject):
    """The names of a subject's exchanges, or of its configurations."""
    return list(getattr(subject, "CONFIGURATIONS", None) or subject.EXCHANGES)


def faults_of(subject, names, both):
    """The fault of each of some exchanges; empty where the programs do as meant. Sends all of them to one process of each program."""
    if hasattr(subject, "CONFIGURATIONS"):
        expected, found = compare_configurations(subject, names, both)
    else:
        if hasattr(subject, "CONFIGURATION"):
            taken(subject, both)
        expected, found = compare(subject, names, both, subject.__name__.rpartition(".")[2])
    different = exchanges.meant(subject, both.version)
    return {name: fault(subject, name, expected[name], found[name], different.get(name)) for name in names}
