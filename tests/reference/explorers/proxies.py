"""Random proxies: rules, options and logs of HTTP frontends and backends, asked in random bytes."""
from reference.explorers import Case, maybe, messages, quoted, some, term, values

ACLS = ("path /a", "path_beg /a", "path_end .html", "path_reg ^/[ab]", "path -m sub answer", "method GET", "method POST PUT", "req.hdr(x-a) 1", "req.hdr(x-a) -m found", "hdr_cnt(x-a) gt 1", "hdr(host) -i h.example", "hdr_beg(host) h.", "query -m found", "url_param(a) 1",
        "req.ver 1.0", "http_first_req", "always_true", "always_false", "req.cook(a) -m found", "src 127.0.0.0/8", "ssl_fc", "req.hdr(user-agent) -m sub curl", "var(txn.a) -m found", "var(req.b) -m str x", "req.body_len gt 0", "http_auth(users)", "req.hdr_ip(x-ip) 10.0.0.0/8", "HTTP", "METH_POST", "LOCALHOST",
        "HTTP_1.1", "HTTP_URL_SLASH", "HTTP_CONTENT", "METH_HEAD", "REQ_CONTENT", "TRUE", "WAIT_END", "nbsrv(s) ge 1", "path,length gt 3", "str(a),strcmp(txn.a) 0")
ANSWER_ACLS = ("status 200", "status 300:399", "status ge 400", "res.hdr(x-a) -m found", "res.hdr(set-cookie) -m sub a=", "res.hdr_cnt(x-a) gt 0", "always_true", "always_false", "var(txn.a) -m found", "res.ver 1.0", "capture.req.method GET", "srv_id 1", "res.hdr(content-type) -m beg text", "var(res.c) -m found")
NAMES = ("x-a", "x-b", "x-c", "x-new", "X-Upper", "cookie", "user-agent", "accept", "host", "via", "x-forwarded-for", "cache-control", "te", "trailer", "range")
ANSWER_NAMES = ("x-a", "x-b", "server", "set-cookie", "cache-control", "location", "x-new", "etag", "date", "vary", "content-type")
# Not the names of all fields: 2.6 keeps `connection` to itself. Nor fields that say where a message ends: those have exchanges (framing).
FETCHES = ("path", "url", "query", "method", "req.hdr(x-a)", "req.hdr(x-b,1)", "req.fhdr(x-c)", "req.cook(a)", "req.hdr(host)", "src", "req.ver", "url_param(a)", "req.hdr_cnt(x-a)", "var(txn.a)", "var(req.b)", "capture.req.hdr(0)", "unique-id", "fe_name", "pathq", "base", "req.body", "req.body_len",
           "http_auth_user", "http_first_req", "capture.req.uri", "txn.status", "dst_port,mul(0)", "req.hdrs,length,mul(0)")
ANSWER_FETCHES = ("status", "res.hdr(x-a)", "res.fhdr(set-cookie)", "res.hdr(location)", "res.ver", "res.cook(a)", "var(txn.a)", "var(res.c)", "capture.req.uri", "capture.req.method", "capture.res.hdr(0)", "be_name", "srv_name", "fe_name", "srv_id", "res.hdr_cnt(x-a)", "capture.req.hdr(0)", "unique-id", "src")
TEXTS = ("x", "a b", "%%", "1", "", "a,b", "v=\\\"q\\\"", "/p?q", "é")
NORMALIZERS = ("fragment-strip", "fragment-encode", "path-merge-slashes", "path-strip-dot", "path-strip-dotdot", "path-strip-dotdot full", "percent-decode-unreserved", "percent-to-uppercase", "percent-to-uppercase strict", "query-sort-by-name")
# Not the counter of lines: it counts those of the other exchanges too.
ALIASES = ("%ci", "%HM", "%HP", "%HQ", "%HU", "%HV", "%ST", "%b", "%f", "%s", "%ft", "%tsc", "%ts", "%CC", "%CS", "%hr", "%hs", "%hrl", "%hsl", "%r", "%{+Q}r", "%{+Q}hr", "%fi", "%ID", "%{+X}ST", "%{+E}HU", "%rc", "%bq", "%sq", "%{+Q}CC", "%si", "%bi", "%HPO", "%sl", "%{+Q}HM")


def when(chance, acls, probability=0.5):
    """A condition, or none."""
    if not maybe(chance, probability):
        return ""
    terms = [term(chance, acls) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    joined = terms[0] + "".join(chance.choice((" ", " ", " || ", " or ")) + term for term in terms[1:])
    return f" {chance.choice(('if', 'if', 'unless'))} {joined}"


def text(chance, fetches):
    """A log-format string."""
    parts = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        if maybe(chance, 0.5):
            fetch = chance.choice(fetches)
            parts.append("%[" + fetch + chance.choice(("", "", "", ",lower", ",length", ",field(1,a)", ",regsub(a,b,g)")) + "]" if "mul" not in fetch else f"%[{fetch}]")
        else:
            parts.append(chance.choice(TEXTS))
    return '"' + "".join(parts) + '"'


def edit(chance, names, fetches):
    """A rule that edits fields."""
    name = chance.choice(names)
    return chance.choice((
        lambda: f"set-header {name} {text(chance, fetches)}",
        lambda: f"add-header {name} {text(chance, fetches)}",
        lambda: f"del-header {name}",
        lambda: f"del-header {chance.choice(('x- -m beg', 'er -m end', 'ook -m sub', '^x-[ab]$ -m reg', 'x-a -m str'))}",
        lambda: f"replace-header {name} {chance.choice(QUOTED)} {chance.choice(REPLACEMENTS)}",
        lambda: f"replace-value {name} {chance.choice(QUOTED)} {chance.choice(REPLACEMENTS)}",
        lambda: f"set-var({chance.choice(('txn.a', 'req.b', 'sess.d', 'proc.e') if names is NAMES else ('txn.a', 'res.c', 'sess.d'))}) {chance.choice(fetches)}",
        lambda: f"set-var-fmt(txn.a) {text(chance, fetches)}",
        lambda: "unset-var(txn.a)",
    ))()


QUOTED = ("(.*)", "a", "^(.)", "\"([^,]*),(.*)\"", "1", ".*=.*", "(x)?(y)?", "\"[a-z]+\"", "$")
REPLACEMENTS = ("x", "\\1", "<\\0>", "\"\\2,\\1\"", "%[path]", "\"\"", "\"a b\"", "\\9", "%%")


def answered(chance):
    """A rule's own response."""
    status = chance.choice(("200", "201", "204", "301", "400", "401", "403", "404", "410", "429", "500", "503"))
    return chance.choice((
        f"status {status}", f"status {status} content-type text/plain string \"hello\"", f"status {status} content-type text/plain lf-string \"%[path] %[method]\"", f"status {status} hdr x-r \"%[path]\" hdr x-s two",
        f"status {chance.choice(('403', '404', '503'))} default-errorfiles", f"status {status} content-type text/x file @folder@/body.txt", f"status {status} content-type text/x lf-file @folder@/body.lf", "status 503 errorfile @folder@/503.http", "errorfiles mine status 404", "content-type text/plain string ok",
        f"status {status} content-type text/x string \"\"", f"status {status} content-type text/x file @folder@/empty.txt"))


def redirect(chance):
    """A redirect."""
    kind = chance.choice(("location /l", "location \"/l?%[query]\"", "prefix /p", "prefix http://r.example", "scheme https", "prefix /", "location \"%[req.hdr(x-a)]\"", "prefix \"%[req.hdr(x-none)]\""))
    code = chance.choice(("", " code 301", " code 303", " code 307", " code 308"))
    more = " ".join(some(chance, ("drop-query", "append-slash"), 2)) if "prefix" in kind else ""
    cookie = chance.choice(("", "", "", " set-cookie A=b", " clear-cookie A=", " clear-cookie A", " ignore-empty"))
    return f"redirect {kind}{code} {more}{cookie}"


def request_rule(chance):
    """A rule on requests."""
    kind = chance.random()
    if kind < 0.5:
        return "http-request " + edit(chance, NAMES, FETCHES) + when(chance, ACLS)
    if kind < 0.75:
        return "http-request " + chance.choice((
            lambda: f"set-path {text(chance, FETCHES)}", lambda: f"set-query {text(chance, FETCHES)}", lambda: f"set-pathq {text(chance, FETCHES)}", lambda: f"set-uri {chance.choice(('/u?v', 'http://u.example/v', text(chance, FETCHES)))}",
            lambda: f"replace-path {chance.choice(QUOTED)} {chance.choice(REPLACEMENTS)}", lambda: f"replace-pathq {chance.choice(QUOTED)} {chance.choice(REPLACEMENTS)}", lambda: f"replace-uri {chance.choice(QUOTED)} {chance.choice(REPLACEMENTS)}",
            lambda: f"set-method {chance.choice(('PUT', 'GET', 'POST', 'FOO', 'HEAD'))}", lambda: f"normalize-uri {chance.choice(NORMALIZERS)}", lambda: "capture req.hdr(x-b) len 5", lambda: "capture path id 0", lambda: "set-log-level " + chance.choice(("err", "silent", "debug")),
            lambda: "set-src req.hdr_ip(x-ip)", lambda: "set-dst req.hdr_ip(x-ip)", lambda: "wait-for-body time 50ms" + chance.choice(("", " at-least 3")), lambda: "early-hint Link " + text(chance, FETCHES), lambda: "disable-l7-retry", lambda: "set-nice 5", lambda: "set-tos 4", lambda: "strict-mode " + chance.choice(("on", "off")),
            lambda: "set-dst-port int(7)", lambda: "set-priority-class int(3)", lambda: "set-timeout server 200ms", lambda: "set-mark 1"))() + when(chance, ACLS, 0.7)
    return "http-request " + chance.choice((
        lambda: "deny" + chance.choice(("", " deny_status 400", " deny_status 429", " " + answered(chance))), lambda: "return " + answered(chance), lambda: redirect(chance), lambda: "reject", lambda: "allow", lambda: "auth" + chance.choice(("", " realm \"r q\"")), lambda: "tarpit" + chance.choice(("", " deny_status 429")),
        lambda: "silent-drop"))() + when(chance, ("path /a", "method PUT", "req.hdr(x-a) 1", "req.ver 1.0", "req.cook(a) 1", "path /A/B", "url_param(a) 1", "req.hdr(x-num) 42"), 0.99)


def answer_rule(chance, word):
    """A rule on responses."""
    kind = chance.random()
    if kind < 0.7:
        return f"{word} " + edit(chance, ANSWER_NAMES, ANSWER_FETCHES) + when(chance, ANSWER_ACLS)
    if kind < 0.85 or word == "http-after-response":
        return f"{word} " + chance.choice((
            lambda: f"set-status {chance.choice(('404', '418', '503', '207'))}" + chance.choice(("", " reason \"my reason\"")), lambda: "strict-mode on", lambda: "allow", lambda: "set-var(res.c) res.hdr(x-a)",
            *((lambda: "capture res.hdr(x-a) id 0", lambda: "wait-for-body time 50ms", lambda: "set-log-level err", lambda: "set-nice 3") if word == "http-response" else ())))() + when(chance, ANSWER_ACLS, 0.7)
    return f"{word} " + chance.choice((
        lambda: "deny" + chance.choice(("", " deny_status 500", " " + answered(chance).replace("[path]", "[status]").replace("[method]", "[status]"))), lambda: "return " + answered(chance).replace("[path]", "[status]").replace("[method]", "[status]"),
        lambda: "redirect " + chance.choice(("location /r", "prefix /p code 307", "scheme https"))))() + when(chance, ("status 500", "res.hdr(x-a) 1", "res.hdr(x-num) 12", "status 404", "capture.req.method PUT"), 0.99)


def raw_rule(chance):
    """A rule on connections and on bytes."""
    return chance.choice((
        "tcp-request connection accept if { src 127.0.0.1 }", "tcp-request connection set-var(sess.d) src", "tcp-request session set-var(sess.d) int(4)", "tcp-request session accept", "tcp-request inspect-delay 30ms", "tcp-request content accept if HTTP", "tcp-request content accept if WAIT_END",
        "tcp-request content reject if { req.len 0 }", "tcp-request content set-var(txn.a) req.len,mul(0)", "tcp-request content capture req.payload(0,3) len 3", "tcp-request content reject if { path /A/B }", "tcp-request content set-var(txn.a) path", "tcp-request content accept if { method GET }",
        "tcp-request session reject if { src 10.0.0.0/8 }", "tcp-request content set-src req.hdr_ip(x-ip) if HTTP"))


# Not the status of bad requests: 2.6 has its own messages for those, whatever is configured.
FRONTEND_OPTIONS = ("option forwardfor", "option forwardfor except 127.0.0.0/8", "option forwardfor if-none", "option forwardfor header X-Client", "option httpclose", "option http-server-close", "no option httpclose", "option http-buffer-request", "option dontlognull", "option logasap", "option dontlog-normal", "option log-separate-errors", "option http-use-proxy-header",
                    "option originalto", "option http-ignore-probes", "option accept-invalid-http-request", "option h1-case-adjust-bogus-client", "monitor-uri /a", "option http-keep-alive", "option contstats", "option socket-stats", "option tcp-smart-accept", "option nolinger", "option independent-streams", "option http-no-delay", "option idle-close-on-response",
                    "errorfile 403 @folder@/503.http", "errorfile 404 /dev/null", "http-error status 403 content-type text/plain lf-string \"denied %[path]\"", "errorloc302 403 http://e.example/", "errorfiles mine 403 404",
                    "unique-id-format %{+X}o\\ %ci-%[path,length]", "unique-id-header X-Unique", "monitor fail if { path /fail }", "option http-restrict-req-hdr-names reject", "option http-restrict-req-hdr-names delete", "declare capture request len 8", "declare capture response len 8")
BACKEND_OPTIONS = ("option httpclose", "option http-server-close", "option forwardfor", "option forwardfor if-none", "option http-keep-alive", "option prefer-last-server", "http-reuse never", "http-reuse safe", "http-reuse always", "http-reuse aggressive", "option http-buffer-request", "option abortonclose", "option accept-invalid-http-response", "option redispatch", "retries 1", "retries 0",
                   "retry-on all-retryable-errors", "retry-on 503 500 empty-response", "retry-on none", "cookie SID insert", "cookie SID insert indirect nocache", "cookie SID insert preserve httponly secure", "cookie SID prefix", "cookie SID rewrite", "cookie SID insert postonly domain .x.example", "cookie SID insert maxidle 10m attr SameSite=None", "option checkcache", "option originalto",
                   "option h1-case-adjust-bogus-server", "option http-pretend-keepalive", "errorfile 503 @folder@/503.http", "http-error status 502 content-type text/plain string gone", "errorfile 502 /dev/null", "http-send-name-header X-Server", "option http-no-delay", "option allbackups", "option independent-streams", "errorloc 503 /sorry", "option http-restrict-req-hdr-names preserve")
SERVER_WORDS = ("cookie s1", "maxconn 5", "weight 10", "send-proxy-v2 disabled", "redir http://redir.example", "backup", "cookie s2 weight 5", "disabled", "pool-max-conn 0", "pool-low-conn 2", "id 77", "max-reuse 1")
FILES = values.FILES | {
    "body.txt": "a body\n", "body.lf": "path %[capture.req.uri] %%\n", "empty.txt": "",
    "503.http": "HTTP/1.1 503 Mine\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nX-File: yes\r\n\r\nmine\n",
    "404.http": "HTTP/1.0 404 Not Mine\r\nContent-Type: text/plain\r\n\r\nnot mine\n",
}


def log(chance):
    """The log settings of a frontend."""
    kind = chance.random()
    if kind < 0.5:
        return "option httplog"
    if kind < 0.6:
        return "option tcplog"
    if kind < 0.65:
        return "option httplog clf"
    return "log-format " + quoted("%ci:%cp = " + " ".join(chance.choice(ALIASES) for _ in range(8)))


def frontend(chance, number):
    """A frontend with its backend."""
    lines = [f"frontend f{number}", f"    bind 127.0.0.1:@f{number}@", f"    {log(chance)}"]
    lines += [f"    {line}" for line in some(chance, FRONTEND_OPTIONS, 5)]
    # Rules name them by their number.
    lines += ["    capture request header X-A len 10", "    capture response header X-A len 4"]
    if maybe(chance, 0.5):
        lines.append("    capture cookie a= len 9")
    lines += [f"    {raw_rule(chance)}" for _ in range(chance.choice((0, 0, 0, 1, 2)))]
    lines += [f"    {request_rule(chance)}" for _ in range(chance.randint(0, 7))]
    lines += [f"    {answer_rule(chance, 'http-response')}" for _ in range(chance.choice((0, 0, 1, 2, 3)))]
    lines += [f"    {answer_rule(chance, 'http-after-response')}" for _ in range(chance.choice((0, 0, 0, 1, 2)))]
    if maybe(chance, 0.15):
        lines.append(f"    use_backend s{when(chance, ACLS, 1)}")
    lines += [f"    default_backend b{number}", f"backend b{number}"]
    lines += [f"    {line}" for line in some(chance, BACKEND_OPTIONS, 4)]
    lines += [f"    {request_rule(chance)}" for _ in range(chance.choice((0, 0, 1, 2, 3)))]
    lines += [f"    {answer_rule(chance, 'http-response')}" for _ in range(chance.choice((0, 1, 2, 3)))]
    lines += [f"    {answer_rule(chance, 'http-after-response')}" for _ in range(chance.choice((0, 0, 0, 1)))]
    lines.append("    server one 127.0.0.1:@s1@ " + (chance.choice(SERVER_WORDS) if maybe(chance, 0.4) else ""))
    if maybe(chance, 0.2):
        lines.append("    server two 127.0.0.1:@s1@ backup")
    return "\n".join(lines)


def case(chance):
    """Some proxies and a hundred exchanges."""
    count = 5
    text = """
global
    log 127.0.0.1:@log@ local0
    nbthread 1
    h1-case-adjust x-a X-A
    expose-experimental-directives
defaults
    mode http
    log global
    timeout connect 300ms
    timeout client 300ms
    timeout server 300ms
    timeout http-request 250ms
    timeout http-keep-alive 60ms
    timeout tarpit 50ms
http-errors mine
    errorfile 403 @folder@/503.http
    errorfile 404 @folder@/404.http
    errorfile 503 @folder@/503.http
userlist users
    user u1 insecure-password p1
backend s
    server s1 127.0.0.1:@s1@
""" + "\n".join(frontend(chance, number) for number in range(count)) + "\n"
    answers = {}
    exchanges = {f"e{number}": (f"f{number % count}", messages.exchange(chance, f"e{number}", answers)) for number in range(100)}
    return Case(text, exchanges, FILES, answers)
