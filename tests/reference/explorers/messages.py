"""Raw requests and answers: most are in order, some are odd in one place."""
import re

from reference.explorers import maybe, some

METHODS = ["GET"] * 8 + ["POST"] * 5 + ["HEAD"] * 3 + ["PUT", "DELETE", "OPTIONS", "PATCH", "BREW", "TRACE", "CONNECT"]
TARGETS = ("/", "/a", "/a/b.html", "/a/./b", "/a/../b", "//a//b", "/%61%2f", "/a%zz", "/A/B", "/long/" + "p" * 60, "/a;x=1", "/~a")
QUERIES = ("", "", "?", "?a=1", "?b=2&a=1&b=3", "?a=%20x&c", "?x=/y?z", "?a=1#f", "??", "?&&a", "?c=a+b")
# Each is one field of a request, or several.
FIELDS = ("X-A: 1", "X-A: 2, 3", "x-a:4", "X-B:   spaced   ", "X-B:", "X-C: a,b;q=1, \"c,d\"", "Cookie: a=1; b=2", "Cookie: SID=s2; c=\"q\"", "Cookie: SID=s1~x;a=b",
          "Cookie: a", "User-Agent: curl/7.1", "Accept: */*", "Accept-Encoding: gzip, br;q=0", "Accept-Language: de;q=0.5, en", "X-Forwarded-For: 10.1.1.1", "X-Forwarded-For: 10.1.1.1, 2001:db8::1",
          "X-Ip: 10.1.2.3", "X-Num: 42", "X-Num: -7", "Authorization: Basic dTE6cDE=", "Authorization: Bearer a.b.c", "Range: bytes=0-1", "If-None-Match: \"x\"", "Referer: http://r.example/a?b",
          "Cache-Control: no-cache", "Pragma: no-cache", "Via: 1.1 x", "X-Long: " + "l" * 300, "X-Quote: a\"b\\c]", "Forwarded: for=1.2.3.4;proto=https, for=\"[::1]:80\"", "Max-Forwards: 3", "Origin: null")
CONNECTIONS = ("keep-alive", "close", "Keep-Alive, X-B", "upgrade", "x-a", "close, x-b", "te", "TE, close", "", "CLOSE")
HOSTS = ("h.example", "h.example", "h.example", "H.Example:80", "h.example:8080", "127.0.0.1", "[::1]:80")
ODD_FIELDS = ("X-Odd : 1", " X-Odd: 1", "X-Odd", "X Odd: 1", "X-Odd: \x01", "X-Odd: a\x00b", "X-Odd: \xe9", "X(Odd): 1", ": 1", "X-Odd: 1\r\n folded", "Host: other", "Host: h.example", "Content-Length: 3", "Content-Length: x",
              "Content-Length: 5, 5", "Content-Length: 1, 2", "Content-Length: +5", "Content-Length:", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, chunked",
              "Transfer-Encoding: x-chunked", "Transfer-Encoding:\tchunked", "Transfer-Encoding: identity", "Transfer-Encoding: Chunked", "Expect: 100-continue", "Expect: nonsense", "Upgrade: x", "Connection: upgrade\r\nUpgrade: x", "Proxy-Connection: close", "TE: trailers",
              "Connection: TE\r\nTE: trailers, gzip", "Trailer: X-T", "Keep-Alive: timeout=5", "HTTP2-Settings: AAA\r\nUpgrade: h2c\r\nConnection: upgrade, http2-settings")
VERSIONS = ("HTTP/1.0", "HTTP/1.0", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.1 ", "HTTP/0.9", "HTTP/1", "")
STATUSES = ["200 OK"] * 10 + ["201 Created", "204 No Content", "206 Partial", "301 Moved", "304 Not Modified", "401 No", "404 Not Found", "404", "404 ", "500 Oops", "503 Busy", "205 Reset", "299 Odd", "425 Early", "599 Last"]
ANSWER_FIELDS = ("Server: o", "Set-Cookie: a=1; path=/", "Set-Cookie: SID=x; path=/; HttpOnly", "Set-Cookie: b=2", "Cache-Control: private", "Cache-Control: no-cache=\"set-cookie\"", "Cache-Control: max-age=5, public", "X-A: 1", "X-A: 2,3",
                 "x-b:4", "X-C:  s  ", "X-D:", "Content-Type: text/plain", "Content-Type: text/html; charset=x", "Location: http://h.example/l", "Location: /l?a=b", "ETag: \"x\"", "Date: Thu, 01 Jan 1970 00:00:00 GMT", "WWW-Authenticate: Basic realm=x",
                 "Connection: keep-alive", "Connection: close", "Connection: x-a", "Keep-Alive: timeout=5", "X-Num: 12", "Vary: Accept-Encoding", "X-Long: " + "l" * 200, "Upgrade: x")
ODD_ANSWERS = ("X-Odd : 1", " X-Odd: 1", "X-Odd", "X Odd: 1", "X-Odd: \x01", "X-Odd: a\x00b", "X-Odd: \xe9", "X-Odd: 1\r\n folded", "Content-Length: 5", "Content-Length: x", "Content-Length: 2, 2", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip",
               "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: identity", "Content-Length:")
ANSWER_VERSIONS = ("HTTP/1.0", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1")
INTERIM = ("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.1 102 Processing\r\nX-A: 1\r\n\r\n", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")


def content(chance):
    """Some bytes."""
    return "".join(chance.choice(("x", "hello", "a=1&b=2", '{"a":1}', "\r\n", "GET / HTTP/1.1\r\n", "\x00\xff", "y" * 50)) for _ in range(chance.randint(0, 4)))


def chunked(chance, text, odd=False):
    """The text in chunks, without line ends and hexadecimal digits: these mark the chunks."""
    made, rest = "", re.sub("[0-9a-fA-F]", "z", text.replace("\r\n", "--"))
    while rest:
        size = chance.randint(1, len(rest))
        digits = chance.choice(("%x", "%X", "%04x")) % size
        extension = chance.choice((";a=b", ";a", "; x=\"y\"", " ")) if maybe(chance, 0.1) else ""
        made += f"{digits}{extension}\r\n{rest[:size]}\r\n"
        rest = rest[size:]
    made += chance.choice(("0", "0", "0", "000", "0;last")) + "\r\n"
    if maybe(chance, 0.2):
        made += chance.choice(("X-T: 1\r\n", "X-T: 1\r\nX-U: 2\r\n", "X-T:\r\n"))
    made += "\r\n"
    if odd and made:
        place = chance.randrange(len(made))
        made = made[:place] + chance.choice(("", "\r", "\n", "g", "-", "0x", "fffffffffffffffff", "\x00")) + made[place + chance.randint(0, 1):]
    return made


def answer(chance, head_only):
    """A response, and whether the server closes the connection after it."""
    odd = maybe(chance, 0.08)
    version = chance.choice(ANSWER_VERSIONS) if odd and maybe(chance, 0.3) else "HTTP/1.1"
    status = chance.choice(STATUSES)
    fields, end = some(chance, ANSWER_FIELDS, 4), maybe(chance, 0.15)
    body = content(chance)
    bare = status[:3] in ("204", "304")
    kind = chance.choice(("length", "length", "length", "chunks", "end", "nothing"))
    text = ""
    if kind == "length":
        fields.append(f"Content-Length: {len(body) + (chance.choice((-1, 1, 5)) if odd and maybe(chance, 0.3) and len(body) > 0 else 0)}")
        text = body
    elif kind == "chunks":
        fields.append("Transfer-Encoding: chunked")
        text = chunked(chance, body, odd and maybe(chance, 0.4))
    elif kind == "end":
        text, end = body, True
    elif not bare:
        fields.append("Content-Length: 0")
    if (bare or head_only) and not (odd and maybe(chance, 0.2)):
        text = ""
    if odd and maybe(chance, 0.4):
        fields.insert(chance.randint(0, len(fields)), chance.choice(ODD_ANSWERS))
    chance.shuffle(fields)
    if maybe(chance, 0.04):
        text += chance.choice(("more", "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    made = f"{version} {status}\r\n" + "".join(f"{field}\r\n" for field in fields) + "\r\n" + text
    if maybe(chance, 0.08):
        made = chance.choice(INTERIM) * chance.randint(1, 2) + made
    if maybe(chance, 0.03):
        made, end = made[:chance.randrange(len(made))], True
    return made, end


def target(chance, method, name, answers):
    """A request target: an answer of its own, one of the origin's, or an echo."""
    if method == "CONNECT":
        return chance.choice(("h.example:443", "h.example:80", "h.example", "/x"))
    kind = chance.random()
    if kind < 0.55:
        key = f"{name}-{len(answers)}"
        answers[key] = answer(chance, method == "HEAD")
        path = f"/answer/{key}"
    elif kind < 0.65:
        path = chance.choice(("/close", "/bye", "/cuthead", "/cutbody", "/cutchunk", "/status/204", "/status/500", "/len/10", "/trailers", "/hints", "/upgrade", "/nonsense", "/twolengths", "/linefeeds"))
    else:
        path = chance.choice(TARGETS)
    path += chance.choice(QUERIES)
    shape = chance.random()
    if shape < 0.03:
        return "http://a.example" + path
    if shape < 0.04:
        return chance.choice(("*", "x", "HTTP://A.EXAMPLE/b", "http://a.example:80/b", "http://a.example", "?x", "/a b", "/\xe9", "/\x01", "", "/a#f", "/#"))
    return path


def request(chance, name, last, answers):
    """One request that carries the name of its exchange."""
    odd = maybe(chance, 0.1)
    method = chance.choice(METHODS)
    version = chance.choice(VERSIONS) if odd and maybe(chance, 0.4) else "HTTP/1.1"
    fields = [f"X-Id: {name}", *some(chance, FIELDS, 6)]
    if not (odd and maybe(chance, 0.2)):
        fields.insert(chance.randint(0, 1), f"Host: {chance.choice(HOSTS)}")
    if maybe(chance, 0.25):
        # Bytes after the last request may turn the connection's end into a reset, and lose the answer.
        fields.append(f"Connection: {chance.choice([token for token in CONNECTIONS if last or 'close' not in token.lower()])}")
    elif last and maybe(chance, 0.6):
        fields.append("Connection: close")
    if odd and maybe(chance, 0.5):
        fields.insert(chance.randint(0, len(fields)), chance.choice(ODD_FIELDS))
    text = ""
    if method in ("POST", "PUT", "PATCH") or maybe(chance, 0.06):
        body = content(chance)
        kind = chance.random()
        if kind < 0.6:
            fields.append(f"Content-Length: {len(body)}")
            text = body
        elif kind < 0.95:
            fields.append("Transfer-Encoding: chunked")
            text = chunked(chance, body, odd and maybe(chance, 0.4))
        if maybe(chance, 0.08):
            fields.append("Expect: 100-continue")
    blank = chance.choice(("  ", "\t", "")) if odd and maybe(chance, 0.05) else " "
    head = f"{method}{blank}{target(chance, method, name, answers)} {version}\r\n" + "".join(f"{field}\r\n" for field in fields) + "\r\n"
    if odd and maybe(chance, 0.1):
        head = chance.choice((head.replace("\r\n", "\n"), "\r\n" + head, "\n" + head, "\x00" + head, head.replace("\r\n", "\r", 1)))
    return head + text


def pieces(chance, text):
    """The text cut at random offsets. It may be truncated, and the client may half-close."""
    aborted = maybe(chance, 0.04)
    if aborted:
        text = text[:chance.randrange(len(text))]
    cuts = sorted(chance.randrange(len(text) + 1) for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 4))))
    made = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)]) if start < end]
    # An end that follows at once is a race between the two sides.
    return made + ([0.05, None] if aborted or maybe(chance, 0.04) else [])


def exchange(chance, name, answers):
    """Some requests on one connection, in pieces."""
    count = chance.choice((1, 1, 1, 2, 2, 3))
    return pieces(chance, "".join(request(chance, name, number == count - 1, answers) for number in range(count)))
