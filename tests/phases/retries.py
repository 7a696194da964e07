"""A server's connection breaks before its answer: whether the request is retried, and the client's view (manual,
"retries", "retry-on", "http-reuse")."""
from phases import case

HINT = r":HTTP/1.1\x20103\x20Early\x20Hints\r\nLink:\x20a\r\n\r\n"
# A server's behaviour on a reused connection, and the words of `retry-on` that allow a retry.
_ENDS = {"closed": "close", "reset": "rst", "byte": "first close", "cut": "cut close", "junk": "junk close"}


def _reused(retries, on, method, name):
    """A connection that was used before breaks: nothing is sent twice that an operator did not allow or that changes something."""
    text = {"get": "GET", "delete": "DELETE", "post": "POST"}[method]
    came = name not in ("closed", "reset")
    body = {"post": "post ten"}.get(method, method)
    again = retries and method == "get" and not came and on != "none"
    if again:
        ended = ("200 2 200 2 FIN", f"GET {text} | {text} FIN", "200 ---- 0 s 51 / 200 ---- 1 s 51")
    elif came:
        ended = ("200 2 502 FIN", f"GET {text}", "200 ---- 0 s 51 / 502 PH-- 0 s 209")
    else:
        # The client knows that a connection may close between two requests, and decides itself.
        ended = ("200 2 FIN", f"GET {text}", "200 ---- 0 s 51")
    return case(f"reused_{retries}_{on}_{method}_{name}".replace("-", "_"), f"retries {retries}; retry-on {on}; http-reuse always",
                f"head ok head {_ENDS[name]} | head ok fin rest", f"get answer {body} answer rest", *ended)


def _fresh(on, method, name):
    """A connection of the request's own breaks."""
    came = name not in ("closed", "reset")
    text = {"get": "GET", "delete": "DELETE"}[method]
    wanted = {"empty-response": not came, "junk-response": came}.get(on, False)
    if wanted:
        ended = ("200 2 FIN", f"{text} | {text} FIN", "200 ---- 1 s 51")
    else:
        ended = ("502 FIN", text, f"502 {'PH' if came else 'SH'}-- 0 s 209")
    return case(f"fresh_{on}_{method}_{name}".replace("-", "_"), f"retries 1; retry-on {on}",
                f"head {_ENDS[name]} | head ok fin rest", f"{method} answer rest", *ended)


CASES = [
    _reused(retries, on, method, name)
    for retries, on in ((0, "conn-failure"), (1, "conn-failure"), (1, "none"))
    for method in ("get", "delete", "post") for name in _ENDS
] + [
    _fresh(on, method, name)
    for on in ("none", "conn-failure", "empty-response", "junk-response") for method in ("get", "delete") for name in _ENDS
] + [
    case("late_response_retried", "retries 1; retry-on response-timeout; timeout server 200ms", "head rest | head ok fin rest", "get answer rest",
         "200 2 FIN", "GET FIN | GET FIN", "200 ---- 1 s 51", 0.2),
    case("late_response_not_retried", "retries 1; timeout server 200ms", "head rest | head ok fin rest", "get answer rest",
         "504 FIN", "GET FIN", "504 sH-- 0 s 198", 0.2),
] + [
    # A client that received the hint sees the beginning of the response; an HTTP/1.0 client does not receive hints.
    case(f"hinted_{method}_{name}_not_retried", "retries 1; retry-on all-retryable-errors", f"head {HINT} {end} | head ok fin rest",
         f"{method} answer rest", f"103 {status} FIN", method.upper(), f"{status} {code}-- 0 s {size}")
    for method in ("get", "delete")
    for name, end, status, code, size in (("closed", "close", 502, "SH", 257), ("junk", "junk close", 502, "PH", 257))
] + [
    case("hinted_status_not_retried", "retries 1; retry-on 503", f"head {HINT} :HTTP/1.1\\x20503\\x20No\\r\\nContent-Length:\\x202\\r\\n\\r\\nno fin rest | head ok fin rest",
         "delete answer rest", "103 503 FIN", "DELETE FIN", "503 ---- 0 s 99"),
    case("hinted_version_1_0_retried", "retries 1; retry-on all-retryable-errors", f"head {HINT} close | head ok fin rest",
         ":GET\\x20/\\x20HTTP/1.0\\r\\n\\r\\n answer rest", "200 2 FIN", "GET | GET FIN", "200 ---- 1 s 99"),
    case("hinted_on_a_used_connection", "retries 1; http-reuse always", f"head ok head {HINT} close | head ok fin rest",
         "get answer get answer rest", "200 2 103 502 FIN", "GET GET", "200 ---- 0 s 51 / 502 SH-- 0 s 257"),
    case("refused", "server s @closed@; timeout connect 100ms", "head", "get answer rest", "503 FIN", "", "503 SC-- 1 s 217", 0.1),
    case("refused_none", "server s @closed@; retry-on none", "head", "get answer rest", "503 FIN", "", "503 SC-- 0 s 217"),
]
