"""The intended differences, each with its reason.

A row matches a configuration and the data sent, and removes the difference from both views. The rest has to be the
same. A `pair` returns the same view twice if this is the only difference. A row without a change excuses the whole
exchange: it is for behaviour that neither program promises. The configuration is that of the proxies on the path.
"""
import re
from dataclasses import dataclass
from typing import Callable, Optional


@dataclass
class Row:
    """One difference: its reason, patterns of the configuration and of the data sent, and its removal.

    `change` maps a view to another one, `pair` maps the expected view and weir's."""

    why: str
    configured: str = ""
    sent: str = ""
    change: Optional[Callable] = None
    pair: Optional[Callable] = None
    # The only version that differs so; else each that is older than the manual.
    version: str = ""

    def applies(self, configuration, sent, version):
        """Whether the row matches this exchange."""
        if self.version not in ("", version):
            return False
        return re.search(self.configured, configuration, re.M) and re.search(self.sent, sent, re.M | re.I)

    def without(self, expected, found):
        """The two views without the difference."""
        if self.pair:
            return self.pair(expected, found)
        return self.change(expected), self.change(found)


FIELD = re.compile(r"[-!#$%&'*+.^_`|~a-z0-9]+: ?.*\\r\\n$")


def heads(view, change):
    """The view with the fields of each head changed, given the line before them."""
    made, head = [], []
    for line in view:
        if FIELD.match(line):
            head.append(line)
        else:
            made += change(head, made[-1] if made else "") + [line] if head else [line]
            head = []
    return made + head


def connection_tokens(head, start):
    """The fields with the tokens of `connection` one by one, without the redundant ones: HTTP/1.1 connections persist
    by default, HTTP/1.0 connections close."""
    plain = [field for field in head if not field.startswith("connection:")]
    text = ",".join(field[11:-4] for field in head if field.startswith("connection:"))
    needless = {"", "keep-alive"} if "HTTP/1.1" in start else {"", "close"} if "HTTP/1.0" in start else {""}
    # 2.6 leaves the rest of a token behind where it takes out the first of several.
    tokens = sorted({re.sub(r"^x-bp-alive$", "x-b", token.strip().lower()) for token in text.split(",")} - needless)
    return [f"connection: {token}\\r\\n" for token in tokens] + plain


def no_upgrade(view):
    """The view without the `connection: close` that weir sends to the server after a request with an upgrade in its
    `connection` field."""
    return heads(view, lambda head, _: [field for field in head if field != "connection: close\\r\\n"] if "connection: upgrade\\r\\n" in head else head)


def last_said(expected, found):
    """weir marks a request as the last for its server if its length is given in two ways, or in one that HTTP/1.0 does
    not know: returns weir's view twice."""
    said = [number for number, line in enumerate(found) if line.startswith("to server ")]
    plain = list(found)
    for start in reversed(said):
        end = next((number for number in range(start, len(plain)) if plain[number] == "\\r\\n"), start)
        if any(line.lower() == "transfer-encoding: chunked\\r\\n" for line in plain[start:end]):
            plain[start:end] = [line for line in plain[start:end] if line != "connection: close\\r\\n"]
    return (found, found) if expected == plain else (expected, found)


def client_part(view):
    """The client's part of the view, and the rest, beginning with the connection's end."""
    end = next((number for number, line in enumerate(view) if line in ("[open]", "[closed]")), len(view))
    return view[:end], view[end:]


def answered_early(expected, found):
    """The reference closes after its own answer to a request with a body: returns the expected view twice."""
    (theirs, rest), (ours, _) = client_part(expected), client_part(found)
    plain = [line for line in theirs if line != "connection: close\\r\\n"]
    if len(plain) == len(theirs) or len(ours) < len(plain):
        return expected, found
    if ours[:len(plain) - 1] != plain[:-1] or "connection: close\\r\\n" in ours[:len(plain)]:
        return expected, found
    logged = [line for line in rest if line.startswith("log:")]
    if [line for line in found[len(ours):] if line.startswith("log:")][:len(logged)] != logged:
        return expected, found
    return expected, expected


def answers(view):
    """The answers that the client got, each from its status line on, and the rest from how the connection ended on."""
    client, rest = client_part(view)
    texts = re.split(r"(?=HTTP/1\.\d \d{3} )", "\n".join(client))
    return [text.split("\n") for text in texts if text], rest


def lengths_of_made_statuses(expected, found):
    """Answers differ only in having a length, and a rule made their status: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    for their, our in zip(theirs, ours):
        plain = [[line for line in answer if not re.match(r"content-length: |transfer-encoding: chunked|0\\r\\n$|(\\r\\n)?$", line)] for answer in (their, our)]
        if their != our and plain[0] == plain[1] and re.search(r" (207|404|418|503) ", our[0]) and framed(our, our_rest):
            their[:] = our
    return (found, found) if (theirs, rest) == (ours, our_rest) else (expected, found)


def closing_said(expected, found):
    """Both close, and only weir announces it: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    if len(theirs) != len(ours) or not ours or rest[:1] != ["[closed]"]:
        return expected, found
    plain = [line for line in ours[-1] if line != "connection: close\\r\\n"]
    return (found, found) if theirs == [*ours[:-1], plain] and rest == our_rest else (expected, found)


def framed(answer, rest):
    """Whether an answer declares its end in exactly one way."""
    said = [line for line in answer if re.match("content-length: |transfer-encoding: chunked", line)]
    return len(said) == 1 or not said and rest[:1] == ["[closed]"]


def shown_though_rejected(expected, found):
    """weir logs a request rejected before the HTTP rules, and the reference logs a bad request."""
    bad = lambda their: re.search(r' -1 0 .*PR-- .*"<BADREQ>"$', their) or re.search(r"^log: .* -1 .*<BADREQ>", their)
    shown = [their if bad(their) and re.fullmatch(re.escape(their).replace("<BADREQ>", r"[^\s\"]*( [^\"]*)?"), our) else our
             for their, our in zip(expected, found)]
    return (found, found) if len(expected) == len(found) and shown == expected else (expected, found)


# An error message for a 502 that is not the built-in one.
OWN_502 = r"(errorfile|errorloc\d*|http-error status) 502|errorfiles"


def nul_from_a_server(expected, found):
    """weir sends 502 instead of an answer with a NUL in a field: returns weir's view twice."""
    (theirs, _), (ours, _) = answers(expected), answers(found)
    for their, our in zip(theirs, ours):
        if their != our:
            return (found, found) if any("a\0b" in line for line in their) and our[0].startswith("HTTP/1.1 502 ") else (expected, found)
    return expected, found


def captured_cookies(expected, found):
    """weir logs a cookie, and the reference does not: copies weir's log lines into the expected view."""
    def same(their, our):
        # The two slots stand before the termination code.
        slots = re.search(r"^(.* (?:\d{3}|-1) \S+ )(\S+) (\S+)( [-A-Za-z]{4} .*)$", our)
        logged = slots and [(slots[1], slots[4]), *((slot, ) for slot in slots.groups()[1:3])]
        if not logged or not any(slot[0].startswith("a=") for slot in logged[1:]):
            return False
        (before, after), *cookies = logged
        return any(their == f"{before}{' '.join(told)}{after}" for told in
                   [[slot if kept or not slot.startswith("a=") else "-" for (slot, ), kept in zip(cookies, keeps)] for keeps in ((0, 0), (0, 1), (1, 0))])

    made = [our if their.startswith("log: ") and same(their, our) else their for their, our in zip(expected, found)]
    return made + expected[len(made):], found


def cut_chunk(view):
    """The view without the end of line that the reference program puts behind the part of a chunk that came."""
    end = next((number for number, line in enumerate(view) if line == "[closed]"), 0)
    if end < 2 or view[end - 1] != "" or "transfer-encoding: chunked\\r\\n" not in view or view[end - 2] in ("\\r\\n", "0\\r\\n"):
        return view
    return view[:end - 2] + [view[end - 2].removesuffix("\\r\\n")] + view[end:]


def headers_in_pieces(expected, found):
    """The reference takes the first part of a PROXY header for a truncated one: returns weir's view twice."""
    cut = any(re.search(": (Truncated PROXY protocol header received|Received an unhandled protocol in the PROXY protocol header)$", line) for line in expected)
    return (found, found) if cut else (expected, found)


def nothing_more_passes(expected, found):
    """The client got a prefix of the reference's answer, or all of it, and the servers got the same: returns weir's
    view twice."""
    (theirs, rest), (ours, our_rest) = client_part(expected), client_part(found)
    begins = "\n".join(theirs).startswith("\n".join(ours))
    return (found, found) if begins and servers_part(rest)[1] == servers_part(our_rest)[1] else (expected, found)


def said_of_a_header(view):
    """The view without the log lines of a connection with an invalid PROXY header, or with one that lacks addresses."""
    return [line for line in view if not re.match(r"log: <\d+> f\d/1: ", line)]


def refused_tunnel(expected, found):
    """weir closes after a tunnel refused by a rule, and the reference keeps reading."""
    (theirs, rest), (ours, our_rest) = client_part(expected), client_part(found)
    plain = [line for line in ours if line != "connection: close\\r\\n"]
    if len(plain) == len(ours) or our_rest[:1] != ["[closed]"] or len(plain) > len(theirs):
        return expected, found
    logs, our_logs = servers_part(rest)[0], servers_part(our_rest)[0]
    if plain[:-1] != theirs[:len(plain) - 1] or not theirs[len(plain) - 1].startswith(plain[-1]) or our_logs != logs[:len(our_logs)]:
        return expected, found
    return found, found


def told_the_length(expected, found):
    """The reference ends a message of version 1.0 by closing, and weir gives its length and keeps the connection:
    returns the expected view twice."""
    (theirs, rest), (ours, _) = client_part(expected), client_part(found)
    added = ("content-length: ", "connection: keep-alive\\r\\n", "connection: close\\r\\n")
    plain = [line for line in ours if not line.startswith(added)]
    before = [line for line in theirs if not line.startswith(added)]
    if not any(line.endswith("HTTP/1.0 404 Not Mine\\r\\n") for line in theirs) or plain[:len(before) - 1] != before[:-1] or not plain[len(before) - 1].startswith(before[-1]):
        return expected, found
    logged = [line for line in rest if line.startswith("log:")]
    if [line for line in found[len(ours):] if line.startswith("log:")][:len(logged)] != logged:
        return expected, found
    return expected, expected


def blocked(expected, found, status_line="HTTP/1.1 502 Bad Gateway"):
    """weir sends 502 instead of an answer that sets a cookie, or instead of an error with that answer's status: returns
    weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    for their, our in zip(theirs, ours):
        if our[0].startswith(status_line) and any(re.match("set-cookie: |<html><body><h1>", line) for line in their):
            their[:] = our
    for number, (their, our) in enumerate(zip(rest, our_rest)):
        if their.startswith("log:") and re.search(r" 502 .* PH", our):
            rest[number] = our
    return (found, found) if (theirs, rest) == (ours, our_rest) else (expected, found)


def servers_part(rest):
    """The log lines, and each of the requests that reached a server."""
    logs = [line for line in rest if line.startswith("log:")]
    text = "\n".join(line for line in rest[1:] if not line.startswith("log:"))
    return logs, [part.strip() for part in re.split(r"^(?=to server )", text, flags=re.M) if part.strip()]


def server_failure_answered(expected, found, times, status_line=r"HTTP/1\.1 502 Bad Gateway\\r\\n"):
    """The reference closes, and weir sends 502 after `times` attempts: returns weir's view twice. An empty status line
    stands for a silent message."""
    (theirs, rest), (ours, our_rest) = client_part(expected), client_part(found)
    (logs, sent), (our_logs, our_sent) = servers_part(rest), servers_part(our_rest)
    place = len(theirs) - 1
    if ours[:place] != theirs[:place] or place >= len(ours) or not re.fullmatch(re.escape(theirs[place]) + status_line, ours[place]):
        return expected, found
    if our_logs[:len(logs)] != logs:
        return expected, found
    # The reference never read the requests after this one: each further log line is one further answer.
    more = [answer[0] for answer in answers(found)[0] if not re.search(r"HTTP/1\.1 1\d\d ", answer[0])]
    known = [answer[0] for answer in answers(expected)[0] if not re.search(r"HTTP/1\.1 1\d\d ", answer[0])]
    if status_line.endswith("Gateway\\\\r\\\\n") and len(our_logs) - len(logs) > len(more) - len(known):
        return expected, found
    # A format of its own need not have any of this, and the line may have been the same early on.
    told = all(re.search(r" 502 .* SH| SH ", line) or not re.search(r" N/N/N/N/", line) for line in our_logs[len(logs):len(logs) + 1])
    # weir answers and continues: the reference never read the requests after this one.
    asked = sent and our_sent[:len(sent) + times - 1] == sent + sent[-1:] * (times - 1)
    return (found, found) if asked and told else (expected, found)


def met_expectations(view):
    """The view without the confirmation of an expectation, and without the expectation that goes on unconfirmed."""
    made = []
    for line in view:
        if line == "\\r\\n" and made and made[-1].endswith("HTTP/1.1 100 Continue\\r\\n"):
            made.pop()
        elif line != "expect: 100-continue\\r\\n":
            made.append(line)
    return made


def reason_phrases(expected, found):
    """The reference adds a reason phrase to an answer without one: removes it from the expected view."""
    same = lambda their, our: re.fullmatch(r"HTTP/1\.\d \d{3} \\r\\n", our) and re.fullmatch(re.escape(our[:-4]) + r"[A-Z][-A-Za-z ']+\\r\\n", their)
    made = [our if same(their, our) else their for their, our in zip(expected, found)]
    return made + expected[len(made):], found


def kept_tokens(view):
    """The view without the `connection` tokens that 3.2 removes from a request: `close` and `keep-alive` beside another
    token, and `upgrade` without an `upgrade` field."""
    def plain(head, _):
        made = []
        for field in head:
            tokens = [token.strip() for token in field[11:-4].split(",")] if field.startswith("connection:") else []
            others = [token for token in tokens if token.lower() not in ("close", "keep-alive", "upgrade")]
            offered = any(other.startswith("upgrade:") for other in head)
            if others and len(others) < len(tokens):
                made.append("connection: " + ", ".join(others) + "\\r\\n")
            elif offered or [token.lower() for token in tokens] != ["upgrade"]:
                made.append(field)
        return made
    return heads(view, plain)


CLOSE = "connection: close\\r\\n"


def last_of_its_connection(expected, found):
    """weir ends a connection after an answer and announces this to the client and to the server, while the reference
    keeps it: returns weir's view twice. All answers, requests and log lines up to there are the same, and none
    announces an end earlier."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    plain = lambda lines: [line for line in lines if line != CLOSE]
    (logs, sent), (our_logs, our_sent) = servers_part(rest), servers_part(our_rest)
    if not ours or len(ours) > len(theirs) or our_rest[:1] != ["[closed]"] or our_logs != logs[:len(our_logs)] or len(our_sent) > len(sent):
        return expected, found
    # In the view, the last answer is followed by the end of line before the connection's end.
    last, their_last = "\n".join(plain(ours[-1])).rstrip("\n"), "\n".join(plain(theirs[len(ours) - 1])).rstrip("\n")
    same = ours[:-1] == theirs[:len(ours) - 1] and last == their_last and CLOSE in ours[-1]
    requests = [(our.split("\n"), their.split("\n")) for our, their in zip(our_sent, sent)]
    told = all(our == their or number == len(requests) and plain(our) == plain(their) for number, (our, their) in enumerate(requests, 1))
    return (found, found) if same and told else (expected, found)


def last_tunnel(expected, found):
    """weir marks a CONNECT as the last request for its server, and the reference does not: returns weir's view twice."""
    at = [number for number, line in enumerate(found) if line == CLOSE]
    starts = [max((place for place in range(number) if found[place].startswith("to server ")), default=-1) for number in at]
    tunnels = {number for number, start in zip(at, starts) if start >= 0 and found[start + 1].lower().startswith("connect ")}
    return (found, found) if expected == [line for number, line in enumerate(found) if number not in tunnels] else (expected, found)


def refused_connect(expected, found):
    """weir answers a CONNECT with 400, and the reference forwards it to a server: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    (logs, sent), (our_logs, our_sent) = servers_part(rest), servers_part(our_rest)
    asked = len(sent) > len(our_sent) and sent[:len(our_sent)] == our_sent and re.match(r"to server \S+\nconnect ", sent[len(our_sent)], re.I)
    refused = ours and ours[-1][0].startswith("HTTP/1.1 400 ") and CLOSE in ours[-1] and ours[:-1] == theirs[:len(ours) - 1] and our_rest[:1] == ["[closed]"]
    return (found, found) if asked and refused and our_logs[:-1] == logs[:max(len(our_logs) - 1, 0)] else (expected, found)


def left_a_tarpit(expected, found):
    """The client leaves a tarpit: weir closes, and the reference still answers. Returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    logs, our_logs = servers_part(rest)[0], servers_part(our_rest)[0]
    if len(theirs) != len(ours) + 1 or "\n".join(theirs[0][:1]) == "" or rest[:1] != ["[closed]"] or our_rest[:1] != ["[closed]"]:
        return expected, found
    same = [[line for line in answer if line] for answer in theirs[:-1]] == [[line for line in answer if line] for answer in ours]
    # The abandoned request is logged last; a custom format may lack the termination code.
    told = len(logs) == len(our_logs) and logs[:-1] == our_logs[:-1] and (not logs or logs == our_logs or " PT" not in logs[-1] or " CT" in our_logs[-1])
    return (found, found) if same and told and servers_part(rest)[1] == servers_part(our_rest)[1] else (expected, found)


def unfinished_head_refused(expected, found):
    """The reference answers an unfinished head with 400, and weir waits for the rest: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    same = theirs[-1:] and theirs[-1][0].startswith("HTTP/1.1 400 ") and [line for answer in theirs[:-1] for line in answer if line] == [line for answer in ours for line in answer if line]
    waits = our_rest[:1] == ["[open]"] and rest[:1] == ["[closed]"] and servers_part(rest)[1] == servers_part(our_rest)[1]
    # weir has not logged the unfinished request yet.
    told = servers_part(our_rest)[0] == servers_part(rest)[0][:len(servers_part(our_rest)[0])]
    return (found, found) if same and waits and told else (expected, found)


def bad_request_answered(expected, found):
    """weir answers 400, and the reference closes silently, or resets so that some of its answer is lost: returns weir's
    view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    if not ours or not ours[-1][0].startswith("HTTP/1.1 400 ") or CLOSE not in ours[-1] or rest != our_rest or rest[:1] != ["[closed]"]:
        return expected, found
    theirs, before, whole = ("\n".join(line for answer in lines for line in answer if line) for lines in (theirs, ours[:-1], ours))
    return (found, found) if theirs.startswith(before) and whole.startswith(theirs) else (expected, found)


def no_body_for_head(expected, found):
    """The last answer is a 400, and weir leaves out its body: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    if len(theirs) != len(ours) or not ours or not ours[-1][0].startswith("HTTP/1.1 400 ") or (theirs[:-1], rest) != (ours[:-1], our_rest):
        return expected, found
    head, end = ours[-1], ours[-1].index("\\r\\n") + 1 if "\\r\\n" in ours[-1] else 0
    body = [line for line in theirs[-1][end:] if line]
    same = end and theirs[-1][:end] == head[:end] and not any(head[end:]) and body[:1] == ["<html><body><h1>400 Bad request</h1>"]
    return (found, found) if same else (expected, found)


def asked_once_more(expected, found):
    """The server got the last request once for each of weir's retries, and fewer times from the reference: returns
    weir's view twice."""
    (theirs, rest), (ours, our_rest) = client_part(expected), client_part(found)
    (logs, sent), (our_logs, our_sent) = servers_part(rest), servers_part(our_rest)
    again = len(sent) >= 3 and our_sent[:len(sent)] == sent and set(our_sent[len(sent):]) <= set(sent[-1:])
    count = lambda lines: [re.sub(r"(?<= N/N/N/N/)\d(?= )", "N", line) for line in lines]
    return (found, found) if theirs == ours and again and len(our_sent) == len(sent) + 1 and count(logs) == count(our_logs) else (expected, found)


def late_in_its_body(expected, found):
    """weir answers 408 to a client with a late body, and 2.6 answers 504: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    if not ours or not theirs or not theirs[-1][0].startswith("HTTP/1.1 504 ") or not ours[-1][0].startswith("HTTP/1.1 408 "):
        return expected, found
    same = lambda their, our: their == our or (their, our) == ("504", "408") or their[:2] == "sH" and our == "cH" + their[2:]
    lines = len(rest) == len(our_rest) and all(
        their == our or their.startswith("log:") and len(their.split(" ")) == len(our.split(" ")) and all(map(same, their.split(" "), our.split(" ")))
        for their, our in zip(rest, our_rest))
    return (found, found) if theirs[:-1] == ours[:-1] and lines else (expected, found)


def left_in_its_body(expected, found):
    """The client leaves within its body: weir logs a bad request, and 2.6 logs an aborted transfer. Returns weir's view
    twice."""
    (theirs, rest), (ours, our_rest) = client_part(expected), client_part(found)
    same = lambda their, our: their == our or (their, our) in (("-1", "400"), ("0", "N")) or their[:2] == "CD" and our == "CH" + their[2:]
    lines = len(rest) == len(our_rest) and all(
        their == our or their.startswith("log:") and len(their.split(" ")) == len(our.split(" ")) and all(map(same, their.split(" "), our.split(" ")))
        for their, our in zip(rest, our_rest))
    told = our_answers_a_400(theirs, ours) if theirs != ours else True
    return (found, found) if told and lines else (expected, found)


def our_answers_a_400(theirs, ours):
    """Whether the client got the reference's answers, followed by a 400."""
    answered = lambda lines: [line for line in lines if line]
    plain, more = answered(ours)[:len(answered(theirs))], answered(ours)[len(answered(theirs)):]
    return plain == answered(theirs) and more[:1] == ["HTTP/1.1 400 Bad request\\r\\n"] and CLOSE in more and sum(line.startswith("HTTP/1.") for line in more) == 1


def refused_asterisk(expected, found):
    """weir answers a request for an asterisk with 400 instead of forwarding it: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    sent, our_sent = servers_part(rest)[1], servers_part(our_rest)[1]
    refused = ours and ours[-1][0].startswith("HTTP/1.1 400 ") and CLOSE in ours[-1] and ours[:-1] == theirs[:len(ours) - 1] and our_rest[:1] == ["[closed]"]
    asked = len(sent) > len(our_sent) and sent[:len(our_sent)] == our_sent and re.match(r"to server \S+\n[A-Z]+ \* ", sent[len(our_sent)])
    return (found, found) if refused and (asked or sent == our_sent == []) else (expected, found)


def redirected_to_nothing(expected, found):
    """The reference redirects to the empty value of an expression, and weir skips the rule: returns weir's view twice,
    if the answers before are the same."""
    (theirs, _), (ours, _) = answers(expected), answers(found)
    at = next((number for number, (their, our) in enumerate(zip(theirs, ours)) if their != our), None)
    redirected = at is not None and re.match(r"HTTP/1\.1 30[12378] ", theirs[at][0]) and any(line.startswith("location: ") for line in theirs[at])
    return (found, found) if redirected and not re.match(r"HTTP/1\.1 30[12378] ", ours[at][0]) else (expected, found)


def cut_in_its_head(expected, found):
    """2.6 closes after a part of a head, without an answer, and weir sends 502 and continues: returns weir's view
    twice."""
    (theirs, rest), (ours, our_rest) = client_part(expected), client_part(found)
    place = len(theirs) - 1
    (logs, sent), (our_logs, our_sent) = servers_part(rest), servers_part(our_rest)
    told = ours[:place] == theirs[:place] and place < len(ours) and ours[place].startswith(theirs[place] + "HTTP/1.1 502 ")
    # The line has the termination code of a refusal by the proxy; a custom format may lack it.
    line = our_logs[len(logs):len(logs) + 1]
    # 2.6 may log that the client left, which it made leave.
    blamed = logs and len(our_logs) >= len(logs) and " CH " in logs[-1] and " PH " in our_logs[len(logs) - 1]
    same = our_logs[:len(logs)] == logs or blamed and our_logs[:len(logs) - 1] == logs[:-1]
    junk = same and all(blamed or " PH" in one or not re.search(r" N/N/N/N/", one) for one in line)
    return (found, found) if told and junk and rest[:1] == ["[closed]"] and our_sent[:len(sent)] == sent else (expected, found)


def asked_again(expected, found):
    """2.6 retries after a part of a head, and both answer 502: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    (logs, sent), (our_logs, our_sent) = servers_part(rest), servers_part(our_rest)
    plain = lambda lines: [re.sub(r" N/N/N/N/\d ", " N/N/N/N/N ", re.sub(r" SH(?=\S\S | )", " PH", line)) for line in lines]
    same = theirs == ours and plain(logs) == plain(our_logs) and list(dict.fromkeys(sent)) == list(dict.fromkeys(our_sent))
    return (found, found) if same else (expected, found)


def waited_out(expected, found):
    """2.6 leaves its client without an answer until the timeout, and weir sends 502: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    logs, our_logs = servers_part(rest)[0], servers_part(our_rest)[0]
    waits = not any(answer[0] for answer in theirs) and rest[:1] == ["[open]"] and [line for line in logs if re.search(r" 504 .* sH", line)] == logs
    told = len(ours) == 1 and ours[0][0].startswith("HTTP/1.1 502 ") and len(our_logs) == 1 and re.search(r" 502 .* PH", our_logs[0])
    return (found, found) if waits and told else (expected, found)


# Appended to the data sent if the client half-closes.
LEAVES = "\n[the client leaves]"


def left_meanwhile(expected, found):
    """weir answers 400 to a client that left during its answer, and the reference answers: returns weir's view twice,
    if the answers before are the same."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    at = len(ours) - 1
    (logs, sent), (our_logs, our_sent) = servers_part(rest), servers_part(our_rest)
    told = 0 <= at < len(theirs) and ours[:at] == theirs[:at] and ours[at][0].startswith("HTTP/1.1 400 ") and CLOSE in ours[at]
    line = our_logs[at:at + 1]
    left = our_logs[:at] == logs[:at] and all(" CH" in one or " 400 " not in one for one in line) and len(our_sent) <= len(sent)
    return (found, found) if told and left and our_rest[:1] == ["[closed]"] else (expected, found)


def reset_tunnel(expected, found):
    """weir logs a reset by a tunnel's server, and the reference logs an orderly end: returns weir's view twice."""
    def ended(line):
        return re.sub(r"^(log: )<131>", r"\1<134>", re.sub(r" SD(?=\S\S | )", " --", line))
    same = len(expected) == len(found) and all(their == our or our.startswith("log: ") and ended(our) == ended(their) for their, our in zip(expected, found))
    return (found, found) if same else (expected, found)


def port_of_a_tunnel(view):
    """The view without the port that a CONNECT has when a rule gave it another host; it looks like a field."""
    return [re.sub(r"^connect (\S+?):? ?(\d+)? HTTP/1\.1(?=\\r\\n$)", r"CONNECT \1 HTTP/1.1", line, flags=re.I) for line in view]


def no_host_of_a_target(expected, found):
    """weir answers 500 to a rule that makes an invalid host for a target, and the reference sends a request line with
    more words: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    refused = ours and ours[-1][0].startswith("HTTP/1.1 500 ") and ours[:-1] == theirs[:len(ours) - 1] and len(ours) <= len(theirs) + 1
    sent, our_sent = servers_part(rest)[1], servers_part(our_rest)[1]
    return (found, found) if refused and our_sent == sent[:len(our_sent)] else (expected, found)


def empty_bodies_declared(expected, found):
    """Answers differ only in how they declare an empty body: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    plain = lambda answer: [line for line in answer if not re.match(r"content-length: 0\\r|transfer-encoding: chunked|0\\r\\n$|(\\r\\n)?$", line)]
    same = [plain(answer) for answer in theirs] == [plain(answer) for answer in ours] and all(framed(answer, our_rest) for answer in ours)
    return (found, found) if same and rest == our_rest else (expected, found)


def shown_status(expected, found):
    """weir shows the status that a rule answers, and the reference shows nothing: returns weir's view twice."""
    shown = [re.sub(r"^(\d{3}) \1$", " ", line) for line in found]
    lengths = lambda view: [line for line in view if not line.startswith("content-length: ")]
    return (found, found) if lengths(shown) == lengths(expected) else (expected, found)


def blocked_in_silence(expected, found):
    """weir closes instead of sending an answer with a cacheable cookie, because the message for that is silent: returns
    weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    (logs, sent), (our_logs, our_sent) = servers_part(rest), servers_part(our_rest)
    at = len([answer for answer in ours if answer[0]])
    cookie = at < len(theirs) and ours[:at] == theirs[:at] and any(line.startswith("set-cookie: ") for line in theirs[at])
    told = our_logs[:at] == logs[:at] and re.search(r" 502 .* PH", "".join(our_logs[at:at + 1])) and our_rest[:1] == ["[closed]"]
    return (found, found) if cookie and told and our_sent == sent[:len(our_sent)] else (expected, found)


def refused_after_connect(expected, found):
    """2.6 closes in silence, and weir answers 400: returns weir's view twice."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    told = ours and ours[-1][0].startswith("HTTP/1.1 400 ") and CLOSE in ours[-1] and ours[:-1] == [answer for answer in theirs if answer[0]]
    return (found, found) if told and rest[:1] == our_rest[:1] == ["[closed]"] and servers_part(rest)[1] == servers_part(our_rest)[1] else (expected, found)


def coded_for_head(expected, found):
    """2.6 refuses an answer to HEAD for the codings of an absent body, and weir forwards it as chunked."""
    (theirs, rest), (ours, our_rest) = answers(expected), answers(found)
    at = next((number for number, (their, our) in enumerate(zip(theirs, ours)) if their != our), None)
    odd = at is not None and theirs[at][0].startswith("HTTP/1.1 502 ") and "transfer-encoding: chunked\\r\\n" in ours[at]
    return (found, found) if odd and servers_part(rest)[1] == servers_part(our_rest)[1] else (expected, found)


def as_one_point_nought(view):
    """The view of an exchange in which weir takes a version without a minor number for 1.0 and adds `connection` fields
    accordingly."""
    return heads([re.sub(r"HTTP/1(?=[\"\\])", "HTTP/1.0", line) for line in view], lambda head, _: [field for field in head if not field.startswith("connection: ")])


def alike(expected, found):
    """The two views with lengths that only one of them hides hidden in both: an echo's are, with all others beside it."""
    if any("content-length: N\\r\\n" in view for view in (expected, found)):
        return tuple([re.sub(r"^content-length: \d\d+(?=\\r\\n$)", "content-length: N", line) for line in view] for view in (expected, found))
    return expected, found


ROWS = (
    Row("a part of a head is a junk response, not none (manual, \"retry-on\")", version="2.6", change=lambda view: [re.sub(r" SH(?=\S\S | )", " PH", line) if line.startswith("log: ") and (" 502 " in line or not re.search(r" N \d{3} (N|\d+) | \d{3} N - ", line)) else line for line in view]),
    Row("an answer without a phrase goes on without one", version="3.2", pair=reason_phrases),
    Row("the tokens of a request's Connection are forwarded unchanged, including those that 3.2 removes beside others", sent="^connection:.*(,|upgrade)", version="3.2", change=kept_tokens),
    Row("an empty query keeps its place between two blanks in 2.6 only", configured=r"log-format.* %HQ( |'|$)", version="2.6", change=lambda view: [re.sub("  +", " ", line) if line.startswith("log: ") else line for line in view]),
    Row("a PROXY header may come in pieces", configured="accept-proxy|expect-proxy", sent=r"^PROXY (TCP|UNKNOWN)|QUIT", pair=headers_in_pieces),
    Row("a PROXY header outside the specification is refused: 2.6 takes a port modulo 65536", configured="accept-proxy|expect-proxy", sent="^PROXY TCP4 .* (70000|-1) "),
    Row("an incomplete request is a bad request, as in 3.2", sent=r"^(content-length: *[1-9]|transfer-encoding)", version="2.6", pair=left_in_its_body),
    Row("faults of a PROXY header are logged in other words", configured="accept-proxy|expect-proxy", change=said_of_a_header),
    Row("a rule that closes or rejects lets nothing more pass", configured="tcp-response content (close|reject)", pair=nothing_more_passes),
    Row("a NUL in a field is refused: RFC 9112 does not have it", sent="a\\x00b"),
    Row("the order of fields of different names (RFC 9110, 5.3)", change=lambda view: heads(view, lambda head, _: sorted(head, key=lambda field: field.split(":")[0]))),
    Row("the tokens of Connection are forwarded unchanged, unless another is needed", change=lambda view: heads(view, connection_tokens)),
    Row("an answer that a rule denies took its time all the same (manual, 8.4, \"Tr\")", configured="http-response (deny|return)", version="2.6", change=lambda view: [re.sub(r"(?<= N/N/N/)-1(?=/N \d{3} .* [PL]H)", "N", line) for line in view]),
    Row("what only a setting tolerates is the last of its connections", configured="option accept-(invalid|unsafe)", sent=r"^[A-Z]+ (\S*#|http:)", pair=last_of_its_connection),
    Row("a request that is answered before its body is there is the last of its connection: 3.2 reads on", sent=r"^(content-length: *[1-9]|transfer-encoding)", version="3.2", pair=last_of_its_connection),
    Row("what only a setting tolerates is the last of its connections, a tunnel too", configured="option accept-(invalid|unsafe)", sent="^CONNECT", pair=last_tunnel),
    Row("a CONNECT that announces content is refused (RFC 9110, 9.3.6): 3.2 takes it for bytes of the tunnel", sent=r"^CONNECT [^\r\n]*\r\n([^\r\n]+\r\n)*?transfer-encoding:", version="3.2", pair=refused_connect),
    Row("only OPTIONS may have an asterisk (RFC 9112, 3.2.4): newer versions refuse the others", sent=r"^(?!OPTIONS )[A-Z]+ \* ", version="2.6", pair=refused_asterisk),
    Row("what ignores an empty result does so with a prefix, too (manual, \"redirect\")", configured="redirect (prefix|scheme) .*ignore-empty", pair=redirected_to_nothing),
    Row("a part of a head is a junk response, and no race that a client settles (manual, \"retry-on\")", version="2.6", pair=cut_in_its_head),
    Row("a HEAD that is refused gets no body either (RFC 9110, 9.3.2)", sent="^HEAD", pair=no_body_for_head),
    Row("an unsolicited 101 is retried as often as any junk: 3.2 stops at the second time", configured="retry-on all-retryable-errors", version="3.2", pair=asked_once_more),
    Row("the server's time begins when it has the request: 2.6 blames it for a client that is late", sent=r"^(content-length: *[1-9]|transfer-encoding)", version="2.6", pair=late_in_its_body),
    Row("a bad request gets a 400: 3.2 closes silently, or resets the connection with unread bytes", version="3.2", pair=bad_request_answered),
    Row("a client that leaves a tarpit gets nothing more (manual, 8.5, \"CT\")", configured="tarpit", pair=left_a_tarpit),
    Row("a head is parsed once complete: 3.2 refuses its invalid first line before", version="3.2", pair=unfinished_head_refused),
    Row("the last chunk is forwarded unchanged", change=lambda view: [re.sub(r"^0+(;.*)?(?=\\r\\n$)", "0", line) for line in view] if "transfer-encoding: chunked\\r\\n" in view else view),
    Row("the length of an echo in an answer to HEAD", sent="^HEAD", change=lambda view: [re.sub(r"^content-length: \d\d+(?=\\r\\n$)", "content-length: N", line) for line in view]),
    Row("the logged cookie state of an answer that never arrived", change=lambda view: [re.sub(r"(?<= PH[NIDVEO])[-NIDPURFC](?= )", "N", line) for line in view]),
    Row("a cookie is captured before rules answer or change it", configured="capture cookie", pair=captured_cookies),
    Row("2.6 counts the bytes of its own form of a message", configured="option tcplog", change=lambda view: [re.sub(r"^(log: .* [-N]\S*/\+?N) \+?\d+ ", r"\1 N ", line) for line in view]),
    Row("a status set by a rule does not keep the length of the former one", configured="set-status", pair=lengths_of_made_statuses),
    Row("a connection lives on after its request was sent to another server", configured=" redir ", pair=answered_early),
    Row("a refusal that ends its connection announces it after an upgrade request, too (RFC 9112, 9.6)", sent="^connection:.*upgrade", pair=closing_said),
    Row("a request that names an upgrade without an offer is a plain one: its connection ends by the options", configured="option http-server-close|option httpclose", sent="^connection:.*upgrade", change=no_upgrade),
    Row("a doubtful request is marked as the last for its server (RFC 9112, 6.1)", sent="^transfer-encoding", pair=last_said),
    Row("a request rejected as bytes is logged unchanged", configured="tcp-request content reject", pair=shown_though_rejected),
    Row("a cookie that a cache may keep is blocked, as the manual says, and with 502: 2.6 wants a validator, and answers with the status that it blocks", configured="option checkcache", pair=blocked),
    Row("a cookie that a cache may keep is blocked with the message for a 502", configured=rf"option checkcache(.|\n)*{OWN_502}|({OWN_502})(.|\n)*option checkcache", pair=lambda expected, found: blocked(expected, found, "HTTP/1.1 ")),
    Row("a request that fails on a reused connection is retried if allowed: a second failure is not a race, and gets 502", pair=lambda expected, found: server_failure_answered(expected, found, 2)),
    Row("a failure on a fresh connection is not a race, and gets 502", configured="option http-server-close|option httpclose", pair=lambda expected, found: server_failure_answered(expected, found, 1)),
    Row("a failure that is not a race gets the message for a 502", configured=OWN_502, pair=lambda expected, found: server_failure_answered(expected, found, 2, r"(HTTP/1\.1 .*)?")),
    Row("a failure on a fresh connection, not a race, gets the message for a 502", configured=rf"({OWN_502})(.|\n)*option http(-server-)?close|option http(-server-)?close(.|\n)*({OWN_502})", pair=lambda expected, found: server_failure_answered(expected, found, 1, r"(HTTP/1\.1 .*)?")),
    Row("an expectation is not confirmed once the body is there (RFC 9110, 10.1.1)", configured="option http-buffer-request|wait-for-body", sent="^expect: *100-continue", change=met_expectations),
    Row("a tunnel refused by a rule ends its connection", configured="http-response|http-after-response", sent="^CONNECT|^connection:.*upgrade", pair=refused_tunnel),
    Row("a message of a file that does not say its length gets one, and the connection lives on", configured="errorfiles mine", pair=told_the_length),
    Row("an early hint does not set the status, and its bytes do not count as the answer's", configured="early-hint", change=lambda view: [re.sub(r"^(log: .*) 0 \d+ (\S+ \S+ (CD|PR)-- )", r"\1 -1 0 \2", line) for line in view]),
    Row("a cut chunk", change=cut_chunk),
    Row("a NUL in a field of an answer is refused: RFC 9112 does not have it", pair=nul_from_a_server),
    Row("a connection lives on when the body of a request that weir answers itself is wholly there", sent=r"^(content-length: *[1-9]|transfer-encoding)", pair=answered_early),
    Row("since 3.3 `option abortonclose` is on in HTTP mode unless it is switched off", sent=re.escape(LEAVES), pair=left_meanwhile),
    Row("a CONNECT keeps its port when a rule gives it another host (RFC 9110, 9.3.6)", configured=r"-(header|value) host ", sent="^CONNECT", change=port_of_a_tunnel),
    Row("a reset of a tunnel is logged as one (manual, 8.5, \"SD\"): HAProxy logs an orderly end if it reads that first", sent=r"^CONNECT [^\r\n]+\r\n([^\r\n]+\r\n)*\r\n.", pair=reset_tunnel),
    Row("an invalid host does not become part of a target: no edit makes another request line", configured=r"(set|add|replace)-(header|value) host ", sent=r"^CONNECT|^[A-Z]+ http:", pair=no_host_of_a_target),
    Row("a response to HEAD, made by a rule from another method, declares its empty body in another way", configured="set-method HEAD", pair=empty_bodies_declared),
    Row("a rule's answer may show the status that it replaces: HAProxy has forgotten it", configured=r"http-response (return|deny) .*%\[status\]", pair=shown_status),
    Row("a cookie that a cache may keep is blocked with the message for a 502, silence too", configured=r"option checkcache(.|\n)*errorfile 502 /dev/null|errorfile 502 /dev/null(.|\n)*option checkcache", pair=blocked_in_silence),
    Row("a bad request after a CONNECT for a path gets a 400, as in 3.2", version="2.6", sent="^CONNECT /", pair=refused_after_connect),
    # tests/rules/method.vtc shows the method after a change, as each rule sees it.
    Row("`method` is the method set by a rule (manual, \"method\"): HAProxy keeps the original one if it knows it", configured=r"http-request set-method (.|\n)*(\{ method |METH_|%\[method)"),
    Row("a line 'cookie' says all of it: HAProxy keeps attributes of a line before it in the same section", configured=r"^ *cookie .* attr (.|\n)*?^ *cookie ", change=lambda view: [re.sub("; SameSite=None", "", line) if line.startswith("set-cookie: SID=") else line for line in view]),
    Row("a CONNECT needs a host and a port (RFC 9112, 3.2.3): 3.2 accepts neither a path nor a URL or an asterisk, whatever is tolerated", configured="option accept-(invalid|unsafe)", sent=r"^CONNECT (/|\*|[a-z]+:/)", version="2.6", pair=refused_connect),
    Row("an answer to HEAD lacks a body, so its codings do not matter: 3.2 accepts it, too", version="2.6", sent="^HEAD", pair=coded_for_head),
    Row("a version without its minor number, which only a setting tolerates, is 1.0", configured="option accept-(invalid|unsafe)", sent=r"^[A-Z]+ \S+ HTTP/1\r?$", change=as_one_point_nought),
    Row("2.6 takes a part of a head for no answer, and asks again", version="2.6", sent="/cuthead", pair=asked_again),
    Row("2.6 drops an unsolicited 101 and waits out its timeout; 3.2 answers 502, too", version="2.6", sent="^HEAD /answer", pair=waited_out),
)

# Lines that one program refuses: the line, the messages, and the reason for the difference.
REFUSALS = (
    (r'set-var-fmt\(.*\) ""', "only weir .*is empty and marks the end", "3.4 and later refuse empty arguments"),
    (r'string ""', "only haproxy .*expects <str>", "an empty text is a text"),
    (r"status 204 .* file ", "only haproxy", "a file with unsent content is allowed"),
    (r"set-timeout", "only haproxy .*has no backend capability", "a frontend sets it for the backend that it chooses"),
    (r"-m bool", "only weir .*'bool' cannot be used with", "an address is not a boolean"),
    (r' ""( |$)', "only haproxy .*expects exactly", "an empty text is a text"),
    # tests/rules/method.vtc has it.
    (r"'(meth\(\w+\))'", "only haproxy .*matching method must be specified", "a method is matched as a method by default"),
    (r"'[\w.]+(\([^)]*\))?,.* -m ", "only haproxy .*matching method .* cannot be used with fetch", "patterns match the converters' output, not the fetched value"),
    (r"map_\w*_ip\(|map_ip_ip\(", "only haproxy .*cannot be applied", "an address out of a map can be used as one"),
)

# Values of expressions: the rule, the lines of the reference and of weir, and the reason for the difference.
VALUES = (
    (r"jwt_\w+_query(?!\()", "", "2.6 gives nothing without a path, whatever its manual says"),
    (r"(hdrs_bin|payload\(\d,\d\)|bin\(00ff10\)),map_", "", "2.6 looks a value up as far as its first zero byte"),
    (r"port_only", r"^-x-\w+: (.*\d.*)\n\+x-\w+: (?!\1)", "an invalid number is not a port; 2.6 takes its leading digits"),
    (r"(add|sub)\(", r"^-x-\w+: .*922337203685477580[78]", "2.6 takes a difference of two numbers below and above nought for an overflow"),
    (r"ub64dec", r"^-x-\w+: \[([0-9A-F]*)[0-9A-F]+\]\n\+x-\w+: \[\1\]", "2.6 decodes the signs of padding as if they were data"),
    (r"\bword\(", r"^-x-\w+: \[[^\]]+\](\\r\\n)?\n\+x-\w+: \[\]", "a missing word has no value, as in 3.2; 2.6 finds an empty one"),
    (r"http_auth_bearer\(", "", "a field without a token gives no value; 2.6 finds an empty one"),
    (r"http_date\(\d+,[um]s\)", "", "2.6 shows fractions of seconds without their noughts"),
    (r"fix_is_valid|mqtt_is_valid", "", "2.6 gives nothing instead of false for other messages"),
    (r"_ip\(x-", "", "RFC 7239 writes an IPv6 address with its port in brackets"),
)


def value(rule, shown):
    """The reason why a rule may write a different value; None if the difference is not intended."""
    return next((why for pattern, said, why in VALUES if re.search(pattern, rule) and re.search(said, shown)), None)


def refusal(line, what):
    """The reason why only one program may refuse a line; None if that is not intended."""
    return next((why for pattern, said, why in REFUSALS if re.search(pattern, line) and re.search(said, what)), None)


def reasons(configuration, sent, expected, found, version):
    """The reasons why weir's view may differ from every expected view; None if a difference is not intended."""
    for view in expected:
        used = []
        view, now = alike(view, found)
        for row in ROWS:
            if not row.applies(configuration, sent, version):
                continue
            if not row.change and not row.pair:
                return {row.why: 1}
            before = (view, now)
            view, now = row.without(view, now)
            if before != (view, now):
                used.append(row.why)
            if view == now:
                return dict.fromkeys(used, 1)
    return None
