"""The class Socket."""
from lua.rows import Row

PARTIAL = "nil, the reason, and the partial result. HAProxy returns the partial result as if it were complete."
NAMES = "The manual allows host names. HAProxy 3.2 and 2.6 only parse addresses, or know names of /etc/hosts without a port of its own."
INDEX = "The index of the last byte that was sent, as in LuaSocket. HAProxy returns the number of bytes."
STUCK = "`timeout` with the partial result. HAProxy 3.2 does not wake the script, even after the peer closed."

LINES = (b"one\r\ntwo\nthree", "shut", "eof")


def open_(code, want=None, name=None, see=(), **options):
    """A row with a socket `s` that is connected to the peer."""
    return Row(name or code, f"(function() local s = core.tcp() s:settimeout(1) s:connect('127.0.0.1', settings.peer) {code} end)()", want, see=see,
               **dict(dict(peer=LINES), **options))


def connect(arguments, want=None, name=None, **options):
    """A row with the results of connect, and the bytes that are read then."""
    return Row(name or f"connect({arguments})", f"(function() local s = core.tcp() s:settimeout(1) local r = table.pack(s:connect({arguments})) r.n = nil "
               "if r[1] then r.line = s:receive() end return r end)()", want, **dict(dict(peer=LINES), **options))


ROWS = [
    Row("class", "type(core.tcp()), tostring(core.tcp())"),
    Row("members", "(function() local n = {} for k in pairs(getmetatable(core.tcp()).__index) do n[#n + 1] = k end table.sort(n) return table.concat(n, ' ') end)()"),
    Row("core.tcp with an argument", "type(core.tcp(1))"),
    *(Row(f"core.tcp in {place}", "type(core.tcp())", place=place) for place in ("body", "init", "task", "fetch", "converter", "http-service", "http-res", "tcp-service")),
    *(Row(f"a socket used in {place}", "(function() local s = core.tcp() s:connect('127.0.0.1', settings.peer) return s:receive() end)()", place=place, peer=LINES)
      for place in ("task", "http-service", "http-res", "tcp-req")),
    *(Row(f"connect in {place}", "core.tcp():connect('127.0.0.1', settings.peer)", place=place, raw=True, peer=LINES, see=("log",)) for place in ("fetch", "converter")),

    # connect.
    connect("'127.0.0.1', settings.peer", '{[1]=1, line="one"}'),
    connect("'127.0.0.1:' .. settings.peer", '{[1]=1, line="one"}'),
    connect("'localhost', settings.peer", '{[1]=1, line="one"}', manual=NAMES),
    connect("'ipv4@127.0.0.1', settings.peer", '{[1]=1, line="one"}'),
    connect("'ipv4@127.0.0.1:' .. settings.peer", '{[1]=1, line="one"}'),
    connect("'::ffff:127.0.0.1', settings.peer"),
    connect("'[::1]:' .. settings.peer"),
    connect("settings.unix", '{[1]=1, line="one"}'),
    connect("'unix@' .. settings.unix", '{[1]=1, line="one"}'),
    connect("'unix@/none'"),
    connect("'abns@none'"),
    connect("'127.0.0.1', settings.dead"),
    connect("'127.0.0.1', tostring(settings.peer)"),
    *(connect(arguments) for arguments in ("'127.0.0.1'", "'127.0.0.1', 0", "'127.0.0.1', 65536", "'127.0.0.1', -1", "'127.0.0.1', 'x'", "'127.0.0.1', nil", "'no such host', 80",
                                           "'no.such.host.test', 80", "''", "", "nil", "5, 80", "{}, 80", "'127.0.0.1:80', 80", "'127.0.0.1', 80.5", "'127.0.0.1', 1, 2, 3", "'*', 80", "'fd@x'")),
    Row("connect twice", "(function() local s = core.tcp() s:connect('127.0.0.1', settings.peer) return pcall(s.connect, s, '127.0.0.1', settings.peer) end)()", peer=LINES),
    Row("connect refused", "core.tcp():connect('127.0.0.1', settings.dead)"),
    Row("connect with a dot", "core.tcp().connect('127.0.0.1', settings.peer)"),

    # receive: patterns.
    open_("return s:receive()", '"one"', name="receive: default"),
    open_("return s:receive('*l')", '"one"'),
    open_("return s:receive('*a')", '"one\\r\\ntwo\\nthree"'),
    open_("return s:receive(5)", '"one\\r\\n"'),
    open_("return s:receive('5')"),
    open_("return s:receive(0)"),
    open_("return s:receive(-1)"),
    open_("return pcall(s.receive, s, '*n')"),
    open_("return pcall(s.receive, s, 'l')"),
    open_("return pcall(s.receive, s, 'a')"),
    open_("return pcall(s.receive, s, nil)"),
    open_("return pcall(s.receive, s, true)"),
    open_("return pcall(s.receive, s, {})"),
    open_("return pcall(s.receive, s, 1.5)"),
    open_("return pcall(s.receive, s, '*l', 'p', 1)"),
    open_("return s:receive(), s:receive('*l'), s:receive('*a')", '"one", "two", "three"', name="receive: line, line, all"),
    open_("s:receive() s:receive() return s:receive()", 'nil, "closed", "three"', name="receive: a line without end", manual=PARTIAL),
    open_("return s:receive(100)", 'nil, "closed", "one\\r\\ntwo\\nthree"', name="receive: fewer bytes than asked for", manual=PARTIAL),
    open_("s:receive('*a') return s:receive('*a')", name="receive: all after the end"),
    open_("s:receive('*a') return s:receive()", name="receive: a line after the end"),
    open_("s:receive('*a') return s:receive(1)", name="receive: a byte after the end"),
    open_("return s:receive('*l', 'prefix ')", '"prefix one"'),
    open_("return s:receive(3, 'prefix ')"),
    open_("return s:receive('*a', 'prefix ')", '"prefix one\\r\\ntwo\\nthree"'),
    open_("return s:receive(100, 'prefix ')", name="receive: a prefix of a partial result"),
    open_("return s:receive('*l', 5)"),
    open_("return s:receive(), s:receive(), s:receive()", name="receive: carriage returns", peer=(b"a\r\r\nb\rc\n\n", "shut", "eof")),
    open_("return s:receive(), s:receive(3)", name="receive: binary", peer=(b"\0\xff\n\0\1\2", "shut", "eof")),
    open_("return #s:receive('*a')", "300000", name="receive: 300 kB", peer=(b"x" * 300000, "shut", "eof")),
    open_("return #s:receive(200000)", "200000", name="receive: 200,000 bytes", peer=(b"x" * 300000, "shut", "eof")),
    open_("return #s:receive()", "100000", name="receive: a line of 100 kB", peer=(b"x" * 100000 + b"\n", "shut", "eof"), manual="HAProxy 3.2 waits without end for a line that is longer than its buffer."),
    open_("return s:receive()", '"slow"', name="receive: in two parts", peer=(b"sl", ("sleep", 0.05), b"ow\n", "eof")),
    open_("s:settimeout(0.2) return s:receive()", 'nil, "timeout", "part"', name="receive: timeout with a part", peer=(b"part", "hang"), manual=STUCK),
    open_("s:settimeout(0.2) return s:receive()", name="receive: timeout without data", peer=("hang",)),
    open_("s:settimeout(0.2) return s:receive(10)", name="receive: timeout of a number", peer=(b"part", "hang")),
    open_("s:settimeout(0.2) return s:receive('*a')", name="receive: timeout of all", peer=(b"part", "hang")),
    open_("s:settimeout(0.2) s:receive() return s:receive()", name="receive: after a timeout", peer=(b"part", "hang"), manual=STUCK),
    open_("return s:receive()", name="receive: closed at once", peer=()),
    open_("return s:receive()", name="receive: reset", peer=("reset",)),
    Row("receive: not connected", "core.tcp():receive()"),
    Row("receive: not connected, all", "core.tcp():receive('*a')"),

    # send.
    open_("return s:send('hello\\n')", ["6", "peer: hello\\n"], peer=("line",), see=("peer",)),
    open_("return s:send('hello', 2)", ["5", "peer: ello"], peer=(("read", 4),), see=("peer",), manual=INDEX),
    open_("return s:send('hello', 2, 3)", ["3", "peer: el"], peer=(("read", 2),), see=("peer",), manual=INDEX),
    open_("return s:send('hello', -2)", peer=(("read", 2),), see=("peer",)),
    open_("return s:send('hello', -3, -2)", peer=(("read", 2),), see=("peer",)),
    open_("return s:send('hello', 4, 2)"),
    open_("return s:send('hello', 10)"),
    open_("return s:send('')"),
    open_("return s:send(5)", peer=(("read", 1),), see=("peer",)),
    open_("return s:send('\\0\\255')", peer=(("read", 2),), see=("peer",)),
    open_("return pcall(s.send, s)"),
    open_("return pcall(s.send, s, nil)"),
    open_("return pcall(s.send, s, {})"),
    open_("return pcall(s.send, s, 'x', 'y')"),
    open_("return pcall(s.send, s, 'x', 1, 1, 1)"),
    open_("return s:send(string.rep('x', 300000)), s:receive()", '300000, "done"', name="send: 300 kB", peer=(("read", 300000), b"done\n")),
    open_("s:send('a\\n') s:send('b\\n') return s:receive()", ['"answer"', "peer: a\\nb\\n"], name="send: two, then receive", peer=("line", "line", b"answer\n"), see=("peer",)),
    open_("s:receive('*a') core.msleep(20) return s:send('x')", name="send: after the peer closed", peer=(b"x",)),
    Row("send: not connected", "core.tcp():send('x')"),

    # The rest.
    open_("return s:close()"),
    open_("s:close() return s:close()", name="close twice"),
    open_("s:close() return pcall(s.receive, s)", name="receive after close"),
    open_("s:close() return pcall(s.send, s, 'x')", name="send after close"),
    open_("s:close() return pcall(s.connect, s, '127.0.0.1', settings.peer)", name="connect after close"),
    open_("s:send('last\\n') s:close()", ["nothing", "peer: last\\n"], name="close flushes", peer=("eof",), see=("peer",)),
    open_("return s:close(1)"),
    Row("close: not connected", "core.tcp():close()"),
    open_("return s:getpeername()"),
    open_("return select('#', s:getpeername())", name="getpeername: number of values"),
    open_("return (s:getsockname():gsub('%d+$', 'PORT'))", '"127.0.0.1:PORT"', name="getsockname"),
    open_("return s:getpeername(1)"),
    open_("s:close() return s:getpeername()", name="getpeername after close"),
    Row("getpeername: not connected", "core.tcp():getpeername()"),
    Row("getsockname: not connected", "core.tcp():getsockname()"),
    Row("getpeername of a UNIX socket", "(function() local s = core.tcp() s:connect(settings.unix) return s:getpeername() end)()", peer=LINES),
    open_("return s:setoption('keepalive', true)"),
    open_("return s:setoption()"),
    *(open_(f"return s:settimeout({value})") for value in ("1", "0", "0.5", "'1'", "100000", "1, 'b'")),
    *(open_(f"return pcall(s.settimeout, s, {value})") for value in ("-1", "nil", "'x'", "{}", "1e30", "0/0")),
    open_("return pcall(s.settimeout, s)"),
    open_("return s:settimeout(0), s:receive()", '1, "one"', name="settimeout(0), then receive", manual="What has arrived is returned."),
    open_("return pcall(s.bind, s, '127.0.0.1')", name="bind"),
    open_("return s.accept, s.listen, s.shutdown, s.sendall", name="members of LuaSocket that are missing"),
    Row("a socket kept for the next request", "if not kept_socket then kept_socket = core.tcp() kept_socket:connect('127.0.0.1', settings.peer) show(kept_socket:receive()) else "
        "show(pcall(kept_socket.receive, kept_socket)) end", raw=True, sent=[b"GET /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"] * 2, peer=(b"one\ntwo\n", "eof")),
    Row("an unused socket is collected", "(function() for i = 1, 50 do core.tcp() end collectgarbage() return true end)()", "true"),

    # TLS.
    Row("connect_ssl", "(function() local s = core.tcp() s:settimeout(2) local r = s:connect_ssl('127.0.0.1', settings.tls) return r, s:receive() end)()", '1, "one"', peer=LINES),
    Row("connect_ssl: address with port", "(function() local s = core.tcp() s:settimeout(2) return s:connect_ssl('127.0.0.1:' .. settings.tls) end)()", peer=LINES),
    Row("connect_ssl: send", "(function() local s = core.tcp() s:settimeout(2) s:connect_ssl('127.0.0.1', settings.tls) s:send('hello\\n') return s:receive() end)()",
        ['"answer"', "peer: hello\\n"], peer=("line", b"answer\n"), see=("peer",)),
    Row("connect_ssl: to a peer without TLS", "(function() local s = core.tcp() s:settimeout(1) local r = table.pack(s:connect_ssl('127.0.0.1', settings.peer)) r.n = nil return r end)()", peer=LINES),
    Row("connect_ssl: refused", "core.tcp():connect_ssl('127.0.0.1', settings.dead)"),
    Row("connect_ssl: without arguments", "core.tcp():connect_ssl()"),
    Row("connect_ssl: a host name", "(function() local s = core.tcp() s:settimeout(2) return s:connect_ssl('localhost', settings.tls) end)()", peer=LINES),
]
