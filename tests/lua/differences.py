"""Rows where weir deliberately differs from HAProxy 3.2, and rows that HAProxy itself does not repeat. `differences.json` has more of them: by
their reason, the lines of each row."""
import json
import os

SAYS_NOTHING = "HAProxy does not say what it expected"
NO_USERDATA = "the element 0 is the userdata of HAProxy, and fields are listed, too"
AT_ONCE = "HAProxy changes the address a moment later"

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


# The row's key, what weir does (the lines of the observation), and the reason. A key that ends with `[pre-3.1-bug]` is for that value of
# tune.lua.bool-sample-conversion only.
DIFFERENCES = {
    "channel: data: another object": (["error: row:1: bad argument #1 to 'data' (Channel expected, got table)"], "the error names the expected class"),
    "channel: data: nothing sent": (["nil"], "the manual defines nil, and HAProxy 3.2 returns it unless the call is the last one of a function"),
    "channel: data of the response in a request": (["nil"], "as above; a response cannot arrive before there is a server, so weir does not wait for it"),
    "channel: response: data of the request": (["nil"], "as above"),
    **{key: ([f"error: row:1: bad argument {argument}"], SAYS_NOTHING) for key, argument in {
        "regex: case: nil": "#2 to 'new' (boolean expected, got nil)", "regex: case: a number": "#2 to 'new' (boolean expected, got number)",
        'regex: new("a")': "#2 to 'new' (boolean expected, got no value)", "core: concat: with a dot": "#1 to 'add' (Concat expected, got string)",
        "sticktables: info: with a dot": "#1 to 'info' (StickTable expected, got no value)",
        "proxies: listener: get_stats with a dot": "#1 to 'get_stats' (Listener expected, got no value)",
    }.items()},
    **{f"proxies: {row}": ([f"false, \"bad argument #1 to '?' ({expected} expected, got table)\""], SAYS_NOTHING) for row, expected in {
        "proxy: get_cap with another object": "Proxy", "proxy: get_stats with another object": "Proxy", "proxy: pause with another object": "Proxy",
        "server: get_weight of another object": "Server", "server: set_maint of another object": "Server",
    }.items()},
    "regex: match: an unused group": (['true, {[1]="ab", [3]="b"}'], "HAProxy ends the table at a group that took no part"),
    "regex: a long text": (["true"], "HAProxy does not search texts of more than a buffer"),
    "events: subscription: members": (['{unsub="function"}'], NO_USERDATA),
    "queues: members": (['"alarm pop pop_wait push size"'], NO_USERDATA),
    "proxies: proxy: members": (
        ['"get_cap get_mailers get_mode get_name get_srv_act get_srv_bck get_stats get_uuid listeners name pause resume servers shut_bcksess stktable stop uuid"'], NO_USERDATA),
    "proxies: server: members": (
        ['"agent_disable agent_enable agent_force_down agent_force_up check_disable check_enable check_force_down check_force_nolb check_force_up event_sub get_addr get_cur_sess '
         'get_maxconn get_name get_pend_conn get_proxy get_puid get_rid get_stats get_trackers get_weight is_backup is_draining is_dynamic name puid set_addr set_drain set_maint '
         'set_maxconn set_ready set_weight shut_sess tracking"'], NO_USERDATA),
    "patterns: members": (['{__index="function", __name="string", __tostring="function"}'], "an object needs no finalizer"),
    "patterns: add: without a value": (['nil, "A map needs a value, an ACL takes none."'], "a map cannot look up an entry without a value"),
    **{f"maps: Map.new({file}, Map._str)": ([f"error: row:1: 'new': failed to open pattern file <{path}> (No such file or directory)."], "the reason, too")
       for file, path in (("'/none.map'", "/none.map"), ("5", "5"))},
    "maps: set_map: a new key": (['0, "n"'], "HAProxy has no converter here that uses a file of the configuration"),
    "core: get_info in body": (["error: row:1: the process is not there while the configuration is read"], "its numbers are known later"),
    "core: get_var in the body": (["error: row:1: the process is not there while the configuration is read"], "variables are set once the configuration has been read"),
    "proxies: server: set_maxconn('-1')": (['{[1]=true, [2]="Invalid maxconn value."}, 0'], "HAProxy takes it for 4294967295"),
    "proxies: server: set_addr('127.0.0.7', 100000)": (['{[1]=true, [2]="problem converting port \'100000\' to an int"}, "127.0.0.6:DEAD"'], "HAProxy cuts it to 16 bits"),
    **{f"proxies: server: set_addr({arguments})": ([f'{{[1]=true, [2]="{said}"}}, "{address}"'], AT_ONCE) for arguments, said, address in (
        ("'127.0.0.7'", "IP changed from '127.0.0.6' to '127.0.0.7' by 'Lua script'", "127.0.0.7:DEAD"),
        ("'127.0.0.7', 80", "IP changed from '127.0.0.6' to '127.0.0.7', port changed from 'DEAD' to '80' by 'Lua script'", "127.0.0.7:80"),
        ("'127.0.0.7', '81'", "IP changed from '127.0.0.6' to '127.0.0.7', port changed from 'DEAD' to '81' by 'Lua script'", "127.0.0.7:81"),
        ("'x'", "Invalid addr 'x'", "127.0.0.6:DEAD"),
        ("'::1', 80", "IP changed from '127.0.0.6' to '::1', port changed from 'DEAD' to '80' by 'Lua script'", "::1:80"),
    )},
    "proxies: server: set_addr(nil)": (['{[1]=false, [2]="bad argument #2 to \'?\' (string expected, got nil)"}, "127.0.0.6:DEAD"'], AT_ONCE),
    "proxies: listener: get_stats": (['"f", "plain", "OPEN", 3'], "HAProxy 3.2 returns the statistics of the object before"),
    "core: rfc850_date: Tuesday, 19-Jan-38 03:14:08 GMT": (["2147483648"], "HAProxy cuts the seconds to 32 bits"),
    "core: parse_addr '\"localhost\"'": (['"nil"'], "a name is not an address; HAProxy looks it up and blocks meanwhile"),
    "core: concat: tostring": (['"HAProxy class Concat"'], "as for all other classes"),
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

HELP = r"\n  usage\n  help [<command>]                        : list all commands, or those that look like this one\n  prompt [help | n | i | p | timed ]*     : keep the connection open after " \
    r"a command, with a prompt\n  quit                                    : close the connection\n\n"
UNKNOWN = "client: Unknown command: '{}', but maybe one of the following ones is a better match:" + HELP.replace("{", "{{").replace("}", "}}")
DIFFERENCES.update({
    "cli: help": (["client: The following commands are valid at this level:" + HELP], "weir has texts of its own for its commands"),
    **{f"cli: {row}": ([UNKNOWN.format(word)], "as above") for row, word in {"an abbreviated command": "show", "one command of many": "lua"}.items()},
    "cli: five words": (["client: ran\\n"], "HAProxy takes five words, and does not find the command"),
    "cli: the longest of two": (["client: long\\n"], "HAProxy takes the first one, and for its own commands the longest"),
    "cli: register_cli {}, 'usage', function() end": (["error: row:1: bad argument #1 to 'register_cli' (1st argument must be a table with at least one word)"],
                                                     "a command without words cannot be called"),
})

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "differences.json")) as file:
    for reason, lines in json.load(file).items():
        DIFFERENCES.update({row: (shown, reason) for row, shown in lines.items()})

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
