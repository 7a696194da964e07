"""Which messages `compression` compresses, and what changes in their heads: one row per condition of the manual (4.2, "compression algo").

`--haproxy` runs the rows with the reference program, but for rows with a reason: a deliberate difference.
"""
import gzip
import re
import socket
import zlib

import pytest

from lib.origin import Origin
from lib.program import Folder, Program, free_port

PAGE = b"<p>hello compressible world</p>" * 200
HTML = "Content-Type: text/html"
GZIP = "Accept-Encoding: gzip"
BOTH = "compression algo gzip deflate"
TYPED = "compression algo gzip\n  compression type text/html text/plain"
SMALL = "compression algo gzip\n  compression minsize-res 1k"
REQUEST = "compression algo-req gzip\n  compression direction request"
# The head of a compressed response, behind the rest of its fields.
PACKED = "content-encoding: gzip; vary: accept-encoding; chunked"


def case(name, want, fields=(GZIP,), answer=(HTML,), words="compression algo gzip", frontend="", status="200 OK", body=PAGE, method="GET",
         version="1.1", chunked=False, server=None, differs=None):
    """One exchange. `want` is the client's view: fields of interest, the decoded body if it is not the origin's. `server` is the origin's
    view of the request."""
    return pytest.param(dict(locals()), id=name)


CASES = [
    case("a_client_that_accepts_gzip", PACKED, server="accept-encoding: gzip"),
    case("a_client_without_accept_encoding", "", fields=()),
    case("an_http_1.0_client", "", version="1.0"),
    case("a_head_request", "", method="HEAD"),
    *[case(f"status_{status}", PACKED if status in (200, 201, 202, 203) else "", status=f"{status} X",
           body=b"" if status in (204, 304) else PAGE) for status in (200, 201, 202, 203, 204, 205, 206, 301, 304, 404, 500)],
    # Accept-Encoding.
    *[case(f"accept_encoding_{value or 'empty'}", f"content-encoding: {coding}; vary: accept-encoding; chunked" if coding else "",
           fields=(f"Accept-Encoding: {value}",), words=BOTH, differs=differs) for value, coding, differs in [
        ("gzip;q=0", None, None), ("*", "gzip", "gzip before deflate"), ("gzip;q=0, *", "deflate", None), ("identity;q=0", None, None),
        ("*;q=0", None, None), ("gzip;q=0.001", "gzip", None), ("GZIP", "gzip", None), ("gzip;q=0.5, deflate", "deflate", None),
        ("deflate, gzip;q=0.9", "deflate", None), ("x-gzip", None, None), ("gzip ; q=1", "gzip", None), ("gzip;q=abc", "gzip", None),
        ("br, gzip", "gzip", None), ("", None, None), ("deflate, gzip", "gzip", "gzip before deflate"),
        ("identity, gzip;q=0.5", None, "a preferred identity is respected"), ("x," * 4000 + "gzip", "gzip", None)]],
    case("accept_encoding_on_two_lines", PACKED, fields=("Accept-Encoding: br", GZIP)),
    # The response.
    case("a_response_with_a_coding", "content-encoding: br", answer=(HTML, "Content-Encoding: br")),
    case("no_transform", "cache-control: max-age=3, no-transform", answer=(HTML, "Cache-Control: max-age=3, no-transform")),
    case("a_strong_tag", 'content-encoding: gzip; etag: w/"a"; vary: accept-encoding; chunked', answer=(HTML, 'ETag: "a"')),
    case("a_weak_tag", 'content-encoding: gzip; etag: w/"a"; vary: accept-encoding; chunked', answer=(HTML, 'ETag: W/"a"')),
    case("an_invalid_tag", "etag: a", answer=(HTML, "ETag: a")),
    case("two_tags", 'etag: "a"; etag: "b"', answer=(HTML, 'ETag: "a"', 'ETag: "b"')),
    case("another_vary", "content-encoding: gzip; vary: origin,accept-encoding; chunked", answer=(HTML, "Vary: Origin")),
    case("vary_of_accept_encoding", PACKED, answer=(HTML, "Vary: Accept-Encoding")),
    case("vary_of_everything", "content-encoding: gzip; vary: *; chunked", answer=(HTML, "Vary: *"), differs="'*' covers every field"),
    case("accept_ranges", PACKED, answer=(HTML, "Accept-Ranges: bytes"), differs="ranges of compressed bytes are not available"),
    case("digests", PACKED, answer=(HTML, "Content-MD5: x", "Digest: x", "Content-Digest: x", "Repr-Digest: x"),
         differs="digests are of the bytes before"),
    case("a_chunked_body", PACKED, chunked=True),
    case("a_body_that_ends_with_the_connection", "", chunked=None),
    case("an_empty_body", "length: 0", body=b""),
    case("a_body_of_one_byte", PACKED, body=b"x"),
    case("a_body_below_minsize", "length: 1023", words=SMALL, body=b"x" * 1023),
    case("a_body_of_minsize", PACKED, words=SMALL, body=b"x" * 1024),
    case("a_small_chunked_body_that_arrived_whole", "chunked", words=SMALL, body=b"x" * 100, chunked=True),
    # Media types.
    *[case(f"type_{value}", PACKED if packed else "", words=words, answer=(f"Content-Type: {value}",) if value else (), differs=differs)
      for words, value, packed, differs in [
          (TYPED, "text/html; charset=utf-8", True, None), (TYPED, "TEXT/HTML", True, None), (TYPED, "text/html,text/plain", True, None),
          (TYPED, "text/plain", True, None), (TYPED, "image/png", False, None), (TYPED, None, False, None),
          (TYPED, "application/grpc", False, None), ("compression algo gzip", "image/png", True, None),
          ("compression algo gzip", "multipart/mixed", False, None), ("compression algo gzip", None, True, None),
          ("compression algo gzip", "application/grpc", False, "gRPC compresses its messages itself"),
          ("compression algo gzip", "application/grpc-web", True, None)]],
    # The request.
    case("a_range_request", "", fields=(GZIP, "Range: bytes=0-5"), differs="a client of ranges gets the bytes of the server"),
    case("mozilla_4", "", fields=(GZIP, "User-Agent: Mozilla/4.0 (compatible)")),
    case("internet_explorer_6_sp2", PACKED, fields=(GZIP, "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)")),
    case("internet_explorer_7", PACKED, fields=(GZIP, "User-Agent: Mozilla/4.0 (compatible; MSIE 7.0)")),
    case("a_rule_that_deletes_accept_encoding", "", words="compression algo gzip\n  http-request del-header accept-encoding", server=""),
    case("a_rule_that_sets_a_coding", "content-encoding: br", words="compression algo gzip\n  http-response set-header content-encoding br",
         differs="HAProxy compresses in spite of the rule"),
    # Words.
    case("offload", PACKED, words="compression algo gzip\n  compression offload", server=""),
    case("offload_without_a_coding", "", fields=("Accept-Encoding: br",), words="compression algo gzip\n  compression offload",
         server="accept-encoding: br"),
    case("identity_alone", "vary: accept-encoding; chunked", fields=(), words="compression algo identity"),
    case("identity_beside_gzip", PACKED, words="compression algo identity gzip"),
    case("algo_res", PACKED, words="compression algo-res gzip"),
    case("type_without_algo", "", words="compression type text/html"),
    case("direction_request_leaves_responses", "", words="compression algo gzip\n  compression direction request"),
    case("the_frontends_algorithm", PACKED, words="", frontend="compression algo gzip"),
    case("the_backends_algorithm_first", "content-encoding: deflate; vary: accept-encoding; chunked", words="compression algo deflate",
         frontend="compression algo gzip", fields=("Accept-Encoding: gzip, deflate",)),
    case("no_algorithm_in_common_with_the_backend", "", words="compression algo deflate", frontend="compression algo gzip"),
    case("the_frontends_types", "", words="compression algo gzip", frontend="compression algo gzip\n  compression type text/plain"),
    case("the_backends_types", "", words="compression type text/plain", frontend="compression algo gzip"),
    case("the_frontends_minsize", "", words="compression algo gzip", frontend="compression algo gzip\n  compression minsize-res 100k"),
    case("the_backends_minsize", "", words="compression minsize-res 100k", frontend="compression algo gzip"),
    # Requests.
    case("a_request", "", fields=(HTML,), method="POST", words=REQUEST, server="chunked; content-encoding: gzip; content-type: text/html"),
    case("a_request_without_direction", "", fields=(HTML,), method="POST", words="compression algo-req gzip",
         server="content-type: text/html; length: 2000"),
    case("a_request_and_a_response", "content-encoding: deflate; vary: accept-encoding; chunked", method="POST",
         fields=(HTML, "Accept-Encoding: deflate"),
         words="compression algo-req gzip\n  compression algo-res deflate\n  compression direction both",
         server="accept-encoding: deflate; chunked; content-encoding: gzip; content-type: text/html"),
    case("a_request_of_another_type", "", fields=(HTML,), method="POST", words=REQUEST + "\n  compression type-req text/plain",
         server="content-type: text/html; length: 2000"),
    case("a_request_with_a_coding", "", fields=(HTML, "Content-Encoding: br"), method="POST", words=REQUEST,
         server="content-encoding: br; content-type: text/html; length: 2000"),
    case("a_request_below_minsize", "", fields=(HTML,), method="POST", words=REQUEST + "\n  compression minsize-req 2001",
         server="content-type: text/html; length: 2000"),
    # Weakened tags that come back.
    case("if_match_gets_the_strong_tag", PACKED, fields=(GZIP, 'If-Match: W/"a"'), server='accept-encoding: gzip; if-match: "a"',
         differs="HAProxy sends the weak tag, which never matches"),
    case("if_none_match_gets_both_tags", 'etag: w/"a"; vary: accept-encoding', fields=(GZIP, 'If-None-Match: W/"a"'), status="304 X", body=b"",
         answer=('ETag: "a"',), server='accept-encoding: gzip; if-none-match: w/"a", "a"', differs="for servers that compare strings"),
]


def view(head, names):
    """The fields of a head with one of these names, sorted, in lower case; the framing as one word."""
    fields = []
    for line in head.decode("latin-1").lower().split("\r\n")[1:]:
        name, _, value = line.partition(": ")
        if name == "transfer-encoding":
            fields.append(value)
        elif name == "content-length":
            fields.append(f"length: {value}")
        elif name in names:
            fields.append(line)
    return fields


def unchunk(body):
    """The payload of a chunked body."""
    payload = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        if not (count := int(size, 16)):
            return payload
        payload, body = payload + body[:count], body[count + 2:]
    raise AssertionError("the body does not end")


def decode(head, body):
    """The plain body of a whole message."""
    head = head.lower()
    if b"\r\ntransfer-encoding: chunked" in head:
        body = unchunk(body)
    coding = re.search(rb"\r\ncontent-encoding: (\S+)", head)
    if coding and coding[1] == b"gzip":
        return gzip.decompress(body)
    if coding and coding[1] == b"deflate":
        return zlib.decompress(body)
    return body


def respond(expected):
    """The origin's answer of a case."""
    head = f"HTTP/1.1 {expected['status']}\r\n" + "".join(f"{field}\r\n" for field in expected["answer"])
    body = b"" if expected["method"] == "HEAD" else expected["body"]
    if expected["chunked"]:
        return f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    if expected["chunked"] is None:
        return f"{head}Connection: close\r\n\r\n".encode() + body
    if expected["status"][:3] in ("204", "304"):
        return f"{head}\r\n".encode()
    return f"{head}Content-Length: {len(expected['body'])}\r\n\r\n".encode() + body


CONFIGURATION = """
global
  maxconn 100
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend f
  bind 127.0.0.1:{port}
  {frontend}
  default_backend b
backend b
  {words}
  server s 127.0.0.1:{origin}
"""


@pytest.mark.parametrize("expected", CASES)
def test_a_message_is_compressed_by_the_conditions_of_the_manual(request, binary, expected):
    haproxy = request.config.getoption("haproxy")
    if haproxy and expected["differs"]:
        pytest.skip(expected["differs"])
    port = free_port()
    with Folder() as folder, Origin(respond(expected)) as origin:
        text = CONFIGURATION.format(port=port, origin=origin.port, words=expected["words"], frontend=expected["frontend"])
        with Program(haproxy or binary, "-db", "-f", folder.file("weir.cfg", text)) as program:
            program.ready(port)
            body = b"y" * 2000 if expected["method"] == "POST" else b""
            fields = ["Host: x", *expected["fields"], "Connection: close", *([f"Content-Length: {len(body)}"] if body else [])]
            head = f"{expected['method']} / HTTP/{expected['version']}\r\n" + "".join(f"{field}\r\n" for field in fields) + "\r\n"
            with socket.create_connection(("127.0.0.1", port), 5) as client:
                client.sendall(head.encode() + body)
                answer = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, packed = answer.partition(b"\r\n\r\n")
    names = ("content-encoding", "vary", "etag", "accept-ranges", "cache-control", "digest", "content-digest", "repr-digest", "content-md5")
    seen = view(head, names)
    wanted = expected["want"].split("; ") if expected["want"] else []
    if not any(field.startswith("length") for field in wanted):
        seen = [field for field in seen if not field.startswith("length")]
    assert sorted(seen) == sorted(wanted)
    assert decode(head, packed) == (b"" if expected["method"] == "HEAD" else expected["body"])
    if expected["server"] is not None:
        [received] = origin.requests
        names = ("accept-encoding", "content-encoding", "content-type", "if-match", "if-none-match")
        assert "; ".join(sorted(view(received.head, names))) == expected["server"]
        assert decode(received.head, received.body) == body
