"""The class Channel, in TCP and in HTTP."""
from lua.rows import Row

NAMES = ("append", "data", "dup", "forward", "get", "get_in_len", "get_out_len", "getline", "input", "insert", "is_full", "is_resp", "line", "may_recv", "output",
         "prepend", "remove", "send", "set")
# Calls with arguments that HAProxy accepts.
CALLS = {"append": "'x'", "prepend": "'x'", "send": "'x'", "set": "'x'", "insert": "'x'", "forward": "1", "data": "", "line": "", "remove": ""}
SENT = b"first\nsecond\nthird"
PEER = (("read", 3), b"answer\nmore\n", "shut", "eof")


def tcp(name, code, want=None, place="tcp-req", see=(), **options):
    """A row with three lines from the client, and two from the server."""
    options = dict(dict(sent=SENT, peer=PEER), **options)
    return Row(name, code, want, place=place, see=see, **options)


def wait(code):
    """Code that first waits for all 18 bytes of the request."""
    return f"(function() txn.req:data(0, 18) {code} end)()"


PASSED = ("client", "peer")

ROWS = [
    tcp("class", "tostring(txn.req), tostring(txn.res)"),
    tcp("members", "(function() local n = {} for k in pairs(getmetatable(txn.req).__index) do n[#n + 1] = k end table.sort(n) return table.concat(n, ' ') end)()"),
    # In HTTP most calls are forbidden.
    *(Row(f"{channel}:{name} in HTTP", f"txn.{channel}:{name}({CALLS.get(name, '')})") for channel in ("req", "res") for name in NAMES),
    *(Row(f"{channel}:{name} in a response of HTTP", f"txn.{channel}:{name}({CALLS.get(name, '')})", place="http-res")
      for channel in ("req", "res") for name in ("data", "input", "output", "is_full", "is_resp", "may_recv")),
    *(Row(f"req:{name} in a fetch of HTTP", f"txn.req:{name}({CALLS.get(name, '')})", place="fetch") for name in ("data", "input", "is_resp")),

    # Reading.
    tcp("data", wait("return txn.req:data()"), '"first\\nsecond\\nthird"'),
    tcp("data: offset", wait("return txn.req:data(6)"), '"second\\nthird"'),
    tcp("data: offset and length", wait("return txn.req:data(6, 6)"), '"second"'),
    tcp("data: negative offset", wait("return txn.req:data(-5)"), '"third"'),
    tcp("data: negative offset and length", wait("return txn.req:data(-5, 2)"), '"th"'),
    tcp("data: offset at the end", wait("return txn.req:data(18)")),
    tcp("data: offset beyond the end", wait("return txn.req:data(19)")),
    tcp("data: offset far beyond the start", wait("return txn.req:data(-19)")),
    tcp("data: length 0", wait("return txn.req:data(0, 0)")),
    tcp("data: length -1", wait("return txn.req:data(0, -1)"), '"first\\nsecond\\nthird"'),
    tcp("data: length -2", wait("return txn.req:data(0, -2)")),
    tcp("data: longer than what comes", "txn.req:data(0, 100)"),
    tcp("data: a text as offset", wait("return txn.req:data('x')")),
    tcp("data: a digit as offset", wait("return txn.req:data('6')")),
    tcp("data: three arguments", wait("return txn.req:data(0, 1, 2)")),
    tcp("data: nil", wait("return txn.req:data(nil)")),
    tcp("data: not removed", wait("return txn.req:data(0, 5), txn.req:data(0, 5)"), '"first", "first"'),
    tcp("data: nothing sent", "txn.req:data()", sent=b""),
    tcp("data: with a dot", wait("return txn.req.data(txn.req, 0, 5)"), '"first"'),
    tcp("data: another object", wait("return txn.req.data(txn, 0, 5)")),
    tcp("line", wait("return txn.req:line()"), '"first\\n"'),
    tcp("line: offset", wait("return txn.req:line(6)"), '"second\\n"'),
    tcp("line: offset and length", wait("return txn.req:line(6, 3)"), '"sec"'),
    tcp("line: without end", wait("return txn.req:line(13)"), '"third"'),
    tcp("line: negative offset", wait("return txn.req:line(-5)"), '"third"'),
    tcp("line: not removed", wait("return txn.req:line(), txn.req:line()"), '"first\\n", "first\\n"'),
    tcp("line: offset beyond the end", wait("return txn.req:line(50)")),
    tcp("line: a text", wait("return txn.req:line('x')")),
    tcp("dup", wait("return txn.req:dup()"), '"first\\nsecond\\nthird"'),
    tcp("get", wait("return txn.req:get(), txn.req:input()"), '"first\\nsecond\\nthird", 0', see=("peer",)),
    tcp("getline", wait("return txn.req:getline(), txn.req:getline(), txn.req:getline()"), '"first\\n", "second\\n", "third"', see=()),
    tcp("getline: after the end", wait("return txn.req:getline(), txn.req:getline(), txn.req:getline(), txn.req:getline()")),
    tcp("getline: waits for the line", "txn.req:getline()", '"first\\n"'),
    tcp("getline: an argument", "txn.req:getline(5)"),
    tcp("input", wait("return txn.req:input()"), "18"),
    tcp("get_in_len", wait("return txn.req:get_in_len()"), "18"),
    tcp("output", wait("return txn.req:output()"), "0"),
    tcp("get_out_len", wait("return txn.req:get_out_len()"), "0"),
    tcp("is_full", wait("return txn.req:is_full()"), "false"),
    tcp("is_resp", "txn.req:is_resp(), txn.res:is_resp()", "false, true"),
    tcp("may_recv after the end", wait("return txn.req:may_recv()")),
    tcp("may_recv before the end", "txn.req:may_recv()", shut=False, sent=b"x\n"),
    tcp("may_recv of the response", "txn.res:may_recv()"),
    *(tcp(f"{name}: an argument", wait(f"return txn.req:{name}(1)")) for name in ("input", "output", "is_full", "is_resp", "may_recv")),
    tcp("data of the response in a request", "txn.res:data()"),
    tcp("input of the response in a request", "txn.res:input(), txn.res:output()"),

    # Changing.
    tcp("append", wait("return txn.req:append('!')"), ['1', "client: answer\\nmore\\n", "peer: first\\nsecond\\nthird!"], see=PASSED,
        manual="At the end of incoming data; HAProxy 3.2 and 2.6 insert at the front."),
    tcp("prepend", wait("return txn.req:prepend('zero\\n')"), ['5', "client: answer\\nmore\\n", "peer: zero\\nfirst\\nsecond\\nthird"], see=PASSED),
    tcp("insert", wait("return txn.req:insert('>')"), ['1', "client: answer\\nmore\\n", "peer: >first\\nsecond\\nthird"], see=PASSED),
    tcp("insert: offset", wait("return txn.req:insert('>', 6)"), ['1', "client: answer\\nmore\\n", "peer: first\\n>second\\nthird"], see=PASSED),
    tcp("insert: negative offset", wait("return txn.req:insert('>', -5)"), ['1', "client: answer\\nmore\\n", "peer: first\\nsecond\\n>third"], see=PASSED),
    tcp("insert: offset beyond the end", wait("return txn.req:insert('>', 50)"), see=PASSED),
    tcp("insert: offset before the start", wait("return txn.req:insert('>', -50)"), see=PASSED),
    tcp("insert: an empty text", wait("return txn.req:insert('')"), see=PASSED),
    tcp("insert: a number", wait("return txn.req:insert(5)"), see=PASSED),
    tcp("insert: nil", wait("return txn.req:insert(nil)")),
    tcp("insert: binary", wait("return txn.req:insert('\\0\\255')"), see=PASSED),
    tcp("insert: too much", wait("return txn.req:insert(string.rep('x', 20000))"), see=("client",)),
    tcp("insert: nearly a buffer", wait("return txn.req:insert(string.rep('x', 15000))"), see=("client",)),
    tcp("remove", wait("return txn.req:remove()"), see=()),
    tcp("remove: offset", wait("return txn.req:remove(6)"), ['12', "client: answer\\nmore\\n", "peer: first\\n"], see=PASSED),
    tcp("remove: offset and length", wait("return txn.req:remove(0, 6)"), ['6', "client: answer\\nmore\\n", "peer: second\\nthird"], see=PASSED),
    tcp("remove: negative offset", wait("return txn.req:remove(-5)"), ['5', "client: answer\\nmore\\n", "peer: first\\nsecond\\n"], see=PASSED),
    tcp("remove: too long", wait("return txn.req:remove(6, 100)"), see=PASSED),
    tcp("remove: length 0", wait("return txn.req:remove(0, 0)"), see=PASSED),
    tcp("remove: length -1", wait("return txn.req:remove(0, -1)")),
    tcp("remove: offset beyond the end", wait("return txn.req:remove(50)"), see=PASSED),
    tcp("set", wait("return txn.req:set('other')"), ['5', "client: answer\\nmore\\n", "peer: other"], see=PASSED),
    tcp("set: offset", wait("return txn.req:set('2', 6)"), ['1', "client: answer\\nmore\\n", "peer: first\\n2"], see=PASSED),
    tcp("set: offset and length", wait("return txn.req:set('2', 6, 6)"), ['1', "client: answer\\nmore\\n", "peer: first\\n2\\nthird"], see=PASSED),
    tcp("set: negative offset", wait("return txn.req:set('3rd', -5)"), ['3', "client: answer\\nmore\\n", "peer: first\\nsecond\\n3rd"], see=PASSED),
    tcp("set: offset beyond the end", wait("return txn.req:set('x', 50)"), see=PASSED),
    tcp("set: too much", wait("return txn.req:set(string.rep('x', 20000))"), see=("client",)),
    tcp("set: without a text", wait("return txn.req:set()")),
    tcp("send", wait("return txn.req:send('now\\n')"), ['4', "client: answer\\nmore\\n", "peer: now\\nfirst\\nsecond\\nthird"], see=PASSED),
    tcp("send: to the client", "txn.res:send('hello\\n')", ['6', "client: hello\\nanswer\\nmore\\n", "peer: first\\nsecond\\nthird"], see=PASSED),
    tcp("send: more than a buffer to the client", "txn.res:send(string.rep('x', 100000))", ["100000", f"client: {'x' * 300}...100014 characters"], see=("client",),
        manual="It yields until all is sent; HAProxy returns fewer bytes, a number that depends on the client."),
    tcp("send: without a text", "txn.res:send()"),
    tcp("send: a table", "txn.res:send({})"),
    tcp("forward", wait("return txn.req:forward(6), txn.req:input(), txn.req:data()"), ['6, 12, "second\\nthird"', "client: answer\\nmore\\n", "peer: first\\nsecond\\nthird"],
        see=PASSED),
    tcp("forward: more than there is", wait("return txn.req:forward(100)")),
    tcp("forward: 0", wait("return txn.req:forward(0)"), see=PASSED),
    tcp("forward: negative", wait("return txn.req:forward(-1)")),
    tcp("forward: without a length", wait("return txn.req:forward()")),
    tcp("forward, then insert", wait("txn.req:forward(6) return txn.req:insert('>')"), ['1', "client: answer\\nmore\\n", "peer: first\\n>second\\nthird"], see=PASSED),
    tcp("append to the response before the server", "txn.res:append('early\\n')", see=PASSED),

    # The response.
    tcp("response: data", "txn.res:data(0, 12)", '"answer\\nmore\\n"', place="tcp-res"),
    tcp("response: line", "txn.res:line(0, 12)", '"answer\\n"', place="tcp-res"),
    tcp("response: set", "(function() txn.res:data(0, 12) return txn.res:set('replaced\\n') end)()", ["9", "client: replaced\\n", "peer: first\\nsecond\\nthird"],
        place="tcp-res", see=PASSED),
    tcp("response: prepend", "(function() txn.res:data(0, 12) return txn.res:prepend('>') end)()", ["1", "client: >answer\\nmore\\n", "peer: first\\nsecond\\nthird"],
        place="tcp-res", see=PASSED),
    tcp("response: send", "(function() txn.res:data(0, 12) return txn.res:send('>') end)()", ["1", "client: >answer\\nmore\\n", "peer: first\\nsecond\\nthird"],
        place="tcp-res", see=PASSED),
    tcp("response: remove", "(function() txn.res:data(0, 12) return txn.res:remove(0, 7) end)()", ["7", "client: more\\n", "peer: first\\nsecond\\nthird"],
        place="tcp-res", see=PASSED),
    tcp("response: may_recv", "(function() txn.res:data(0, 12) return txn.res:is_resp(), txn.req:input() end)()", place="tcp-res"),
    tcp("response: data of the request", "txn.req:data()", place="tcp-res"),
    tcp("response: longer than what comes", "txn.res:data(0, 100)", place="tcp-res"),
]
