"""Services: the classes AppletHTTP and AppletTCP."""
from lua.rows import Row, request

START = "applet:set_status(200) applet:start_response() "
END = " applet:set_status(200) applet:start_response()"


def http(name, code, want=None, see=("client",), **options):
    return Row(name, code, want, place="http-service", see=see, **dict(dict(raw=True), **options))


def value(name, code, want=None, see=(), **options):
    """A row with a value; the response is empty."""
    return http(name, f"show((function() {code} end)()){END}", want, see, **options)


HALF_CLOSED = "HAProxy 3.2 does not pass the end of a half-closed client to the service: it waits, or ends the stream. 2.6 does as the manual says."


def tcp(name, code, want=None, see=("client",), **options):
    return Row(name, code, want, place="tcp-service", see=see, **dict(dict(raw=True, sent=b"first\nsecond\nthird"), **options))


POST = request("POST", "/path?q=1", "X-One: 1", body=b"line one\nline two\nrest")
CHUNKED = request("POST", "/", "Transfer-Encoding: chunked", body=b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", length=False)

ROWS = [
    # AppletHTTP: its members.
    value("class", "return tostring(applet)"),
    value("members", "local n = {} for k, v in pairs(applet) do n[k] = type(v) end return n"),
    value("method", "return applet.method", '"GET"'),
    value("method: POST", "return applet.method", '"POST"', sent=POST),
    value("method: an own one", "return applet.method", '"BREW"', sent=request("BREW")),
    value("version", "return applet.version"),
    value("version: HTTP/1.0", "return applet.version", sent=request(version="1.0")),
    value("path", "return applet.path", '"/path"'),
    value("path: encoded", "return applet.path", sent=request(path="/a%20b/../c")),
    value("path: an absolute URI", "return applet.path", sent=request(path="http://shop.test/x?y")),
    value("path: the asterisk", "return applet.path, applet.qs", sent=request("OPTIONS", "*")),
    value("qs", "return applet.qs", '"q=1&r=2"'),
    value("qs: none", "return applet.qs", sent=request(path="/x")),
    value("qs: empty", "return applet.qs", sent=request(path="/x?")),
    value("qs: two question marks", "return applet.qs", sent=request(path="/x?a?b")),
    value("length", "return applet.length", "22", sent=POST),
    value("length: no body", "return applet.length"),
    value("length: chunked", "return applet.length", sent=CHUNKED),
    value("length: zero", "return applet.length", sent=request("POST", "/", "Content-Length: 0")),
    value("headers", "return applet.headers", sent=POST),
    value("headers: index 0", 'return applet.headers["x-two"][0], applet.headers["x-two"][1]', '"a", "b"'),
    value("headers: a rule's changes", 'return applet.headers["x-frontend"]', '{[0]="1"}'),
    value("headers: an unknown one", 'return applet.headers["none"]', "nil"),
    *(value(f"attribute {name}", f"return type(applet.{name})", '"table"') for name in ("c", "sc", "f", "sf", "headers")),
    value("attribute response", "return applet.response"),
    value("attribute that does not exist", "return applet.nothing"),
    value("attributes can be changed", "applet.path = '/x' return applet.path"),

    # Reading.
    value("receive", "return applet:receive()", '"line one\\nline two\\nrest"', sent=POST),
    value("receive: size", "return applet:receive(8), applet:receive(1), applet:receive()", '"line one", "\\n", "line two\\nrest"', sent=POST),
    value("receive: more than there is", "return applet:receive(100)", '"line one\\nline two\\nrest"', sent=POST),
    value("receive: after the end", "applet:receive() return applet:receive()", '""', sent=POST),
    value("receive: no body", "return applet:receive()", '""'),
    value("receive: size without a body", "return applet:receive(10)", '""'),
    value("receive: chunked", "return applet:receive()", '"hello world"', sent=CHUNKED),
    value("receive: chunked with sizes", "return applet:receive(3), applet:receive(5), applet:receive()", '"hel", "lo wo", "rld"', sent=CHUNKED),
    value("receive: 0", "return applet:receive(0)", sent=POST),
    value("receive: -1", "return applet:receive(-1)", sent=POST),
    value("receive: -5", "return applet:receive(-5)", sent=POST),
    value("receive: a text", "return pcall(applet.receive, applet, 'x')", sent=POST),
    value("receive: nil", "return pcall(applet.receive, applet, nil)", sent=POST),
    value("receive: a fraction", "return pcall(applet.receive, applet, 1.5)", sent=POST),
    value("receive: two arguments", "return pcall(applet.receive, applet, 1, 2)", sent=POST),
    value("receive: 100 kB", "return #applet:receive()", "100000", sent=request("POST", "/", body=b"x" * 100000)),
    value("receive: binary", "return applet:receive()", '"\\x00\\xff"', sent=request("POST", "/", body=b"\0\xff")),
    value("receive: 100-continue", "return applet:receive()", see=("client",), sent=request("POST", "/", "Expect: 100-continue", body=b"abc")),
    value("getline", "return applet:getline(), applet:getline(), applet:getline()", '"line one\\n", "line two\\n", "rest"', sent=POST),
    value("getline: after the end", "applet:receive() return applet:getline()", '""', sent=POST),
    value("getline: no body", "return applet:getline()", '""'),
    value("getline: a long line", "return #applet:getline()", "50000", sent=request("POST", "/", body=b"x" * 50000)),
    value("getline: an argument", "return pcall(applet.getline, applet, 5)", sent=POST),
    value("getline, then receive", "return applet:getline(), applet:receive()", '"line one\\n", "line two\\nrest"', sent=POST),

    # Answering.
    http("empty", ""),
    http("without start_response", "applet:set_status(204)"),
    http("only start_response", "applet:start_response()"),
    http("status and start", "applet:set_status(404) applet:start_response()"),
    http("a body with its length", "applet:set_status(200) applet:add_header('content-length', 5) applet:start_response() applet:send('hello')"),
    http("a body without length", "applet:set_status(200) applet:start_response() applet:send('hel') applet:send('lo')"),
    http("the example of the manual", 'local response = "Hello World !" applet:set_status(200) applet:add_header("content-length", string.len(response)) '
         'applet:add_header("content-type", "text/plain") applet:start_response() applet:send(response)'),
    http("HTTP/1.0 without length", "applet:set_status(200) applet:start_response() applet:send('hello')", sent=request(version="1.0")),
    http("HEAD", "applet:set_status(200) applet:add_header('content-length', 5) applet:start_response() applet:send('hello')", sent=request("HEAD")),
    http("status 204 with a body", "applet:set_status(204) applet:start_response() applet:send('hello')"),
    http("a shorter body than its length", "applet:set_status(200) applet:add_header('content-length', 10) applet:start_response() applet:send('hello')"),
    http("a longer body than its length", "applet:set_status(200) applet:add_header('content-length', 3) applet:start_response() applet:send('hello')"),
    http("a length that is not a number", "applet:set_status(200) applet:add_header('content-length', 'x') applet:start_response() applet:send('hello')"),
    http("two lengths", "applet:set_status(200) applet:add_header('content-length', '5') applet:add_header('content-length', '5') applet:start_response() applet:send('hello')"),
    http("transfer-encoding chunked", "applet:set_status(200) applet:add_header('transfer-encoding', 'chunked') applet:start_response() applet:send('hello')"),
    http("send before start", "applet:set_status(200) show(pcall(applet.send, applet, 'x')) applet:start_response()", see=("client",)),
    http("start twice", START + "show(pcall(applet.start_response, applet))"),
    http("header after start", START + "show(pcall(applet.add_header, applet, 'x', 'y'))"),
    http("status after start", START + "show(pcall(applet.set_status, applet, 404))"),
    http("send returns", START + "show(applet:send('hello'))"),
    http("send nothing", START + "show(applet:send(''))"),
    http("send a number", START + "show(applet:send(12))"),
    http("send binary", "applet:set_status(200) applet:add_header('content-length', 2) applet:start_response() applet:send('\\0\\255')"),
    http("send 100 kB", "applet:set_status(200) applet:add_header('content-length', 100000) applet:start_response() applet:send(string.rep('x', 100000))"),
    http("send 100 kB without length", START + "applet:send(string.rep('x', 100000))", see=()),
    *(http(f"send({arguments})", START + f"show(pcall(applet.send, applet{arguments}))", see=()) for arguments in ("", ", nil", ", {}", ", true", ", 'a', 'b'")),
    *(http(f"set_status({arguments})", f"show(pcall(applet.set_status, applet, {arguments})) applet:start_response()") for arguments in (
        "200", "100", "103", "99", "101", "204", "304", "299", "599", "600", "999", "0", "-1", "'404'", "'x'", "404.0", "404.5", "404, 'Own'", "404, ''", "404, 5", "404, nil", "nil",
        "404, 'a', 'b'", "404, 'a\\r\\nx: y'")),
    http("set_status without argument", "show(pcall(applet.set_status, applet)) applet:start_response()"),
    http("set_status twice", "applet:set_status(404) applet:set_status(201, 'Second') applet:start_response()"),
    http("add_header", "applet:set_status(200) applet:add_header('x', 'a') applet:add_header('x', 'b') applet:add_header('X-Upper', 'c') applet:start_response()"),
    *(http(f"add_header({arguments})", f"show(pcall(applet.add_header, applet, {arguments})) applet:set_status(200) applet:start_response()") for arguments in (
        "'x', 'a'", "'x', 5", "'x', 1.5", "5, 'x'", "'x', nil", "'x', {}", "'x'", "nil, 'x'", "'x', 'a', 'b'", "'', 'a'", "'a b', 'c'", "'x', 'a\\r\\ny: z'", "'connection', 'close'",
        "'date', 'x'", "'x', string.rep('v', 20000)", "'x', '\\255'", "'x', 'a\\0b'")),
    http("the response table", "applet:set_status(404, 'Own') applet:add_header('X', 'a') show(applet.response) applet:start_response()", see=()),
    http("fails before the response", "error('broken')", see=("client", "log")),
    http("fails after the response began", START + "applet:send('half') error('broken')", see=("client", "log")),
    http("fails with a table", "error({})", see=("client", "log")),
    http("sleeps", "core.msleep(5) applet:set_status(200) applet:start_response()"),
    http("yields between sends", START + "applet:send('a') core.yield() applet:send('b')"),
    http("core.done", START + "core.done() show('after')"),
    http("returns a value", "applet:set_status(201) applet:start_response() return 5"),
    http("the next request of the connection", "applet:set_status(200) applet:add_header('content-length', #applet.path) applet:start_response() applet:send(applet.path)",
         sent=request(path="/1").replace(b"Connection: close\r\n", b"") + request(path="/2")),
    http("a body unread", "applet:set_status(200) applet:start_response()", sent=POST),
    http("the rules of the response run", "applet:set_status(200) applet:start_response()", frontend="http-response set-header from-rule 1 {if}"),

    # Private data and variables.
    value("get_priv: nothing", "return applet:get_priv()", "nil"),
    value("priv", "applet:set_priv({5}) return applet:get_priv()", "{[1]=5}", manual="HAProxy returns nil."),
    value("set_priv: no argument", "return pcall(applet.set_priv, applet)"),
    value("set_var", "return applet:set_var('txn.value', 5), applet:get_var('txn.value')", "true, 5"),
    value("set_var: a rule's", "return applet:get_var('txn.known')", '"known"'),
    value("set_var: ifexist", "return applet:set_var('proc.not_there', 5, true)", "false"),
    value("set_var: true", "applet:set_var('txn.value', true) return applet:get_var('txn.value')", both=True),
    value("unset_var", "applet:set_var('txn.value', 5) return applet:unset_var('txn.value'), applet:get_var('txn.value')"),
    value("get_var: no argument", "return pcall(applet.get_var, applet)"),
    value("set_var: no value", "return pcall(applet.set_var, applet, 'txn.x')"),
    value("get_var of a boolean", "return applet.f:ssl_fc(), applet.sf:ssl_fc()", both=True),

    # Registration.
    *(Row(f"register_service {arguments}", f"core.register_service({arguments})", place="body") for arguments in (
        "", '"s"', '"s", "http"', '"s1", "http", function() end', '"s2", "udp", function() end', '"s3", "HTTP", function() end', '"s4", "tcp", "text"', '"s5", "tcp", nil',
        '5, "tcp", function() end', '"s6", "tcp", function() end, 1', '"s7", nil, function() end')),
    Row("register_service twice", 'core.register_service("twice", "http", function() end)', place="body", registration='core.register_service("twice", "http", function() end)'),
    *(Row(f"register_service in {place}", 'core.register_service("late", "http", function() end)', place=place) for place in ("init", "http-req", "http-service")),

    # AppletTCP.
    tcp("TCP: class", "show(tostring(applet))", see=()),
    tcp("TCP: members", "local n = {} for k, v in pairs(applet) do n[k] = type(v) end show(n)", see=()),
    tcp("TCP: methods", "local n = {} for k in pairs(getmetatable(applet).__index) do n[#n + 1] = k end table.sort(n) show(table.concat(n, ' '))", see=()),
    tcp("TCP: the example of the manual", 'applet:send("hello world\\n")', ["client: hello world\\n"]),
    tcp("TCP: getline", "show(applet:getline(), applet:getline(), applet:getline())", ['"first\\n", "second\\n", "third"'], see=()),
    tcp("TCP: getline after the end", "applet:receive() show(applet:getline())", ['""'], see=(), manual=HALF_CLOSED),
    tcp("TCP: getline with an argument", "show(pcall(applet.getline, applet, 1))", see=()),
    tcp("TCP: receive", "show(applet:receive())", ['"first\\nsecond\\nthird"'], see=(), manual=HALF_CLOSED),
    tcp("TCP: receive with sizes", "show(applet:receive(5), applet:receive(1), applet:receive(100))", ['"first", "\\n", "second\\nthird"'], see=(), manual=HALF_CLOSED),
    tcp("TCP: receive after the end", "applet:receive() show(applet:receive())", ['""'], see=(), manual=HALF_CLOSED),
    tcp("TCP: receive nothing", "show(applet:receive())", ['""'], see=(), sent=b"", manual=HALF_CLOSED),
    tcp("TCP: try_receive", "core.msleep(50) show(applet:try_receive())", see=(), since="3.2", manual="Not in the text of the manual that was at hand."),
    tcp("TCP: try_receive with a size", "core.msleep(50) show(applet:try_receive(5), applet:try_receive(100), applet:try_receive(5))", see=(), since="3.2"),
    tcp("TCP: receive with a timeout that ends", "show(applet:receive(100, 50))", see=("log",), since="3.2", shut=False),
    *(tcp(f"TCP: receive({argument})", f"show(pcall(applet.receive, applet, {argument}))", see=()) for argument in ("0", "'3'", "'x'", "nil", "1.5", "1, 2")),
    tcp("TCP: receive waits for the size", "show(applet:receive(18))", ['"first\\nsecond\\nthird"'], see=()),
    tcp("TCP: receive with a timeout", "show(applet:receive(18, 1000))", see=("log",), since="3.2"),
    tcp("TCP: receive 100 kB", "show(#applet:receive())", ["100000"], see=(), sent=b"x" * 100000, manual=HALF_CLOSED),
    tcp("TCP: send returns", "show(applet:send('hello'))"),
    tcp("TCP: send an empty text", "show(applet:send(''))"),
    tcp("TCP: send a number", "show(applet:send(5))"),
    tcp("TCP: send 100 kB", "show(applet:send(string.rep('x', 100000)))"),
    *(tcp(f"TCP: send({arguments})", f"show(pcall(applet.send, applet{arguments}))", see=()) for arguments in ("", ", nil", ", {}", ", 'a', 'b'")),
    tcp("TCP: echo", "while true do local l = applet:getline() if l == '' then break end applet:send('> ' .. l) end", ["client: > first\\n> second\\n> third"]),
    tcp("TCP: priv", "applet:set_priv(5) show(applet:get_priv())", ["5"], see=(), manual="HAProxy returns nil."),
    tcp("TCP: priv: nothing", "show(applet:get_priv())", ["nil"], see=()),
    tcp("TCP: variables", "show(applet:set_var('txn.value', 5), applet:get_var('txn.value'), applet:unset_var('txn.value'), applet:get_var('txn.value'))", see=()),
    tcp("TCP: fails", "error('broken')", see=("client", "log")),
    tcp("TCP: fails after data", "applet:send('half') error('broken')", see=("client", "log")),
    tcp("TCP: sleeps", "core.msleep(5) applet:send('after')", ["client: after"]),
    tcp("TCP: core.done", "applet:send('a') core.done() applet:send('b')", ["client: a"]),
    tcp("TCP: two services in turn", "applet:send('again')", sent=[b"x", b"y"]),
]
