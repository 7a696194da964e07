"""Rows where weir deliberately differs from HAProxy 3.2, and rows that HAProxy itself does not repeat."""

HELLO = '{body="hello", headers={["content-length"]={[0]="5"}, ["server-says"]={[0]="hello"}, ["x-list"]={[0]="a, b", [1]="c"}}, reason="OK", status=200}'
LATE = '{body="<html><body><h1>504 Gateway Time-out</h1>\\nThe server didn\'t respond in time.\\n</body></html>\\n", headers={["cache-control"]={[0]="no-cache"}, ' \
    '["content-length"]={[0]="92"}, ["content-type"]={[0]="text/html"}}, reason="Gateway Time-out", status=504}'
SMUGGLED = "HAProxy sends it as it is, which lets a script's input end the field or the request line"
LENGTH = "the length is known, and more servers take it than take chunks"
CLASS = "the message has the class"


def sent(method="GET", path="/", length="", body=""):
    """The answer of the origin, and the request that it got."""
    length = f"\\ncontent-length: {length}" if length else ""
    return [HELLO, f"server: {method} {path} HTTP/1.1\\naccept: */*{length}\\nhost: 127.0.0.1:ORIGIN\\nuser-agent: HAProxy\\n\\n{body}"]


# The row's key, what weir does (the lines of the observation), and the reason.
DIFFERENCES = {
    "sockets: connect with a dot": (["error: row:1: bad argument #1 to 'connect' (Socket expected, got string)"], CLASS),
    "sockets: return s:receive(3, 'prefix ')": (['"prefix "'], "a number includes the prefix, as in LuaSocket, and HAProxy reads all bytes where the prefix is longer"),
    "errors: self: core.httpclient().get, {}, {}": (['false, "bad argument #1 to \'?\' (HTTPClient expected, got table)"'], CLASS),
    "httpclient: get {url = URL .. '/path#fragment'}": (sent(path="/path"), "a fragment is not part of a request"),
    "httpclient: get {url = URL .. '/a b'}": (["error: row:1: Can't generate the HTTP request", "server: nothing"], SMUGGLED),
    "httpclient: get {url = URL, headers = {x = {'a\\r\\ny: z'}}}": (
        ["error: row:1: invalid parameter in 'headers', 'x': the value of a header has a control character", "server: nothing"], SMUGGLED),
    "httpclient: get {url = URL, headers = {[1] = {'a'}}}": (
        ["error: row:1: invalid parameter in 'headers', the name of a header must be a string", "server: nothing"], "the message of HAProxy is that of an iteration that it broke"),
    "httpclient: get {url = URL, headers = {connection = {'close'}}}": (sent(), "the field is always sent, and hidden from the rows"),
    "httpclient: get {url = URL, timeout = -1}": ([LATE, "server: nothing"], "a time that has passed sends nothing"),
    **{f"httpclient: {method} {{url = URL, body = 'text'}}": (sent(method.upper(), length=4, body="text"), LENGTH) for method in ("get", "put", "post", "delete")},
    **{f"httpclient: post {{url = URL, headers = {{{field}}}, body = 'text'}}": (sent("POST", length=4, body="text"), LENGTH)
       for field in ("['content-length'] = {'2'}", "['transfer-encoding'] = {'chunked'}")},
    "httpclient: post {url = URL, body = '\\0\\255'}": (sent("POST", length=2, body="\\x00\\xff"), LENGTH),
}

# Rows with an observation that differs from run to run with HAProxy, each with its reason. They run, but are not compared with the record.
UNSTABLE = {
    "filters: TCP: the response": "2.6 may lose the answer",
    "filters: TCP: data": "2.6 may call with an empty buffer",
    "channel: may_recv after the end": "the end of the client may not have been read yet",
    "patterns: add_bulk: an array": "HAProxy 3.2 may end with a wrong argument",
    "patterns: add_bulk: not a table": "as above",
    "httpclient: get {url = URL, timeout = -1}": "the timeout may end at once",
    "httpclient: get {url = URL, timeout = 0}": "as above",
    "sockets: receive: timeout with a part": "the script is resumed late or never",
    "sockets: receive: after a timeout": "as above",
    "sockets: settimeout(0), then receive": "nothing may have arrived yet",
    "channel: send: more than a buffer to the client": "the number of bytes depends on the client",
    "core: coroutine.yield outside a coroutine": "the script is resumed only by another event of the stream",
}
