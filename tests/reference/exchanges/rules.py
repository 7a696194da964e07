"""Rules on requests and responses."""
from reference.exchanges import COMMON, answer, answered, get, only, post

CONFIGURATION = COMMON + r"""    timeout tarpit 50ms
frontend redirects
    bind 127.0.0.1:@redirects@
    http-request redirect location /l code 301 if { path /301 }
    http-request redirect location /l code 302 if { path /302 }
    http-request redirect location /l code 303 if { path /303 }
    http-request redirect location /l code 307 if { path /307 }
    http-request redirect location /l code 308 if { path /308 }
    http-request redirect location "%[path,regsub(^/fmt,/x)]?%[query]" if { path_beg /fmt }
    http-request redirect prefix /p drop-query if { path_beg /dropq }
    http-request redirect prefix /p append-slash if { path_beg /slash }
    http-request redirect prefix /p drop-query append-slash if { path_beg /both }
    http-request redirect prefix / if { path_beg /root }
    http-request set-path , if { req.hdr(x-no-path) -m found }
    http-request redirect prefix http://h.example if { req.hdr(x-no-path) 1 }
    http-request redirect scheme https if { req.hdr(x-no-path) 2 }
    http-request redirect prefix http://h.example code 307 set-cookie A=b if { path /setc }
    http-request redirect location / clear-cookie A= if { path /clearc }
    http-request redirect location / clear-cookie B if { path /clearb }
    http-request redirect scheme https if { path /https }
    http-request redirect scheme "%[req.hdr(x-scheme)]" code 301 if { path_beg /lfs }
    http-request redirect location "%[req.hdr(missing)]" ignore-empty if { path /empty }
    http-request redirect location "%[req.hdr(missing)]" if { path /empty2 }
    redirect location /classic if { path /classic }
    redirect prefix /e unless { path_beg /e }
    default_backend origin
frontend vanishing
    bind 127.0.0.1:@vanishing@
    option tcp-smart-accept
    http-request silent-drop
frontend returns
    bind 127.0.0.1:@returns@
    http-request return status 200 content-type "text/html" string "<b>x</b>" if { path /string }
    http-request return status 404 if { path /404 }
    http-request return status 418 content-type "text/plain" string "tea" if { path /418 }
    http-request return status 200 content-type text/x file @folder@/body.txt if { path /file }
    http-request return status 200 content-type text/x lf-file @folder@/body.lf if { path /lffile }
    http-request return status 200 content-type text/x lf-string "%[path]%%%[method]" hdr x-a "%[path]" hdr x-b two if { path /lf }
    http-request return status 503 errorfile @folder@/503.http if { path /errorfile }
    http-request return status 200 default-errorfiles if { path /default }
    http-request return status 403 default-errorfiles if { path /default403 }
    http-request return errorfiles mine status 404 if { path /mine }
    http-request return status 404 errorfile @folder@/odd.http if { path /odd }
    http-request return content-type text/plain string ok if { path /nostatus }
    http-request return status 201 hdr Location /made if { path /201 }
    http-request return status 204 if { path /204 }
    http-request deny deny_status 400 if { path /d400 }
    http-request deny deny_status 401 if { path /d401 }
    http-request deny deny_status 404 if { path /d404 }
    http-request deny deny_status 405 if { path /d405 }
    http-request deny deny_status 408 if { path /d408 }
    http-request deny deny_status 410 if { path /d410 }
    http-request deny deny_status 413 if { path /d413 }
    http-request deny deny_status 425 if { path /d425 }
    http-request deny deny_status 429 if { path /d429 }
    http-request deny deny_status 500 if { path /d500 }
    http-request deny deny_status 501 if { path /d501 }
    http-request deny deny_status 502 if { path /d502 }
    http-request deny deny_status 503 if { path /d503 }
    http-request deny deny_status 504 if { path /d504 }
    http-request deny deny_status 421 if { path /d421 }
    http-request tarpit deny_status 422 if { path /tarpit422 }
    http-request deny status 403 if { path /empty403 }
    http-request deny status 418 if { path /empty418 }
    http-request tarpit status 429 if { path /emptytarpit }
    http-request deny status 403 content-type text/plain lf-string "no %[path]" if { path /dlf }
    http-request tarpit if { path /tarpit }
    http-request tarpit deny_status 429 if { path /tarpit429 }
    http-request reject if { path /reject }
    http-request silent-drop if { path /drop }
    http-request auth realm "My realm" if { path /auth } ! { http_auth(users) }
    http-request auth if { path /auth2 } ! { http_auth_group(users) g1 }
    http-request allow if { path /echo }
    http-request deny if { path /after }
    default_backend origin
frontend edits
    bind 127.0.0.1:@edits@
    http-request set-method PUT if { path /m }
    http-request set-uri /echo?a=b if { path /uri }
    http-request set-uri http://h.example/echo?a=b if { path /absuri }
    http-request set-path /echo if { path /path }
    http-request set-pathq /echo?n=1 if { path /pathq }
    http-request set-query "q=%[path]" if { path /query }
    http-request set-query "%[req.hdr(missing)]" if { path /noquery }
    http-request replace-path /rp/(.*) /\1 if { path_beg /rp/ }
    http-request replace-pathq (.*)\?x=(.*) \1?y=\2 if { path_beg /rpq }
    http-request replace-uri ^/ru(.*) /echo\1 if { path_beg /ru }
    http-request replace-value x-list ^(a|b)$ <\1> if { path /rv }
    http-request replace-header x-list (.*),(.*) \2;\1 if { path /rh }
    http-request set-header x-one 1 if { path /sh }
    http-request set-header x-list "%[req.hdr(x-list)]-%[req.hdr_cnt(x-list)]" if { path /sh2 }
    http-request add-header x-list more if { path /ah }
    http-request del-header x- -m beg if { path /dhb }
    http-request del-header -two -m end if { path /dhe }
    http-request del-header st -m sub if { path /dhs }
    http-request del-header ^x-(one|two)$ -m reg if { path /dhr }
    http-request del-header x-list if { path /dh }
    http-request early-hint Link "</style.css>; rel=preload" if { path /hint }
    http-request early-hint Link "</b.css>" if { path /hint }
    http-request set-header host other.example if { path /host }
    http-request del-header host if { path /nohost }
    http-request set-var(txn.a) path,length
    http-request set-var(txn.b) str(x),concat(-,txn.a,-)
    http-request set-var-fmt(txn.c) "%[path] %[var(txn.b)]"
    http-request unset-var(txn.a) if { path /unset }
    http-request set-header x-vars "%[var(txn.a)]|%[var(txn.b)]|%[var(txn.c)]" if { path_beg /vars /unset }
    http-request wait-for-body time 100ms if { path /wait }
    http-request set-header x-body "%[req.body,hex]|%[req.body_len]|%[req.body_size]" if { path /wait }
    http-request set-log-level silent if { path /silent }
    http-request set-log-level err if { path /err }
    http-request set-src hdr(x-src) if { path /src }
    http-request set-dst hdr(x-src) if { path /src }
    http-request set-src-port int(7) if { path /src }
    http-request set-header x-src "%[src]:%[src_port] %[dst]:%[dst_port]" if { path /src }
    http-request set-header x-cond 1 if { path /cond } { hdr(x-list) -m found } || { path /cond2 }
    http-request set-header x-not 1 if { path /cond } !{ hdr(x-list) -m found }
    default_backend origin
frontend pathless
    bind 127.0.0.1:@pathless@
    http-request set-path p if { req.hdr(x-do) set }
    http-request replace-path ^/(.*) \1 if { req.hdr(x-do) strip }
    http-request replace-path (.*) /n\1 if { req.hdr(x-do) replace }
    http-request replace-pathq (.*) /n\1 if { req.hdr(x-do) replaceq }
    http-request set-query z=1 if { req.hdr(x-do) query }
    http-request set-header x-said "%[url]|%[path]|%[pathq]|%[query]|%[url_param(a)]|%[base]"
    http-request deny deny_status 403 if { url_param(a) 1 }
    default_backend bytes
backend bytes
    server s1 127.0.0.1:@bytes@
backend elsewhere
    server s1 127.0.0.1:@bytes@ redir http://img.example
frontend sent
    bind 127.0.0.1:@sent@
    http-request replace-path ^/(.*) \1 if { req.hdr(x-do) strip }
    default_backend elsewhere
frontend tarpit
    bind 127.0.0.1:@tarpit@
    timeout tarpit 100ms
    http-request tarpit deny_status 429
frontend responses
    bind 127.0.0.1:@responses@
    http-request set-var(txn.path) path
    http-response set-header x-path "%[var(txn.path)]"
    http-response add-header x-list new
    http-response del-header x-gone
    http-response replace-header x-rep (a)(b) \2\1
    http-response replace-value x-list b B
    http-response set-status 202 if { res.hdr(x-do) status }
    http-response set-status 404 reason "Not at home" if { res.hdr(x-do) reason }
    http-response deny if { res.hdr(x-do) deny }
    http-response deny deny_status 429 if { res.hdr(x-do) deny429 }
    http-response redirect location /else if { res.hdr(x-do) redirect }
    http-response return status 200 content-type text/plain string mine if { res.hdr(x-do) return }
    http-response allow if { res.hdr(x-do) allow }
    http-response set-header x-late 1
    http-response set-header x-status "%[status] %[res.ver] %[res.hdr_cnt(x-list)] %[res.hdrs_bin,length]" if { res.hdr(x-do) fetch }
    http-response cache-use-nothing if FALSE
    http-after-response set-header x-after "%[status]"
    http-after-response del-header x-before
    http-after-response set-status 299 if { res.hdr(x-do) after }
    http-after-response add-header set-cookie a=b if { res.hdr(x-do) cookie }
    default_backend origin
frontend after
    bind 127.0.0.1:@after@
    http-request deny if { path /deny }
    http-request redirect location /x if { path /redirect }
    http-request return status 200 content-type text/plain string hi if { path /return }
    http-after-response set-header x-after "%[status] %[res.hdr(location)]"
    http-after-response strict-mode on
    default_backend nothing
backend nothing
frontend controls
    bind 127.0.0.1:@controls@
    capture request header Host len 20
    capture response header Server len 20
    http-request set-var-fmt(txn.all) "%[url_param(a),url_dec]%{+Q}[url_param(b)]%{+E}[url_param(b),url_dec]%{+Q,+X}ci%{+Q}[url_param(n)]-"
    http-request return status 200 content-type a/b lf-string "%[url_param(a),url_dec]%{+Q}[url_param(b)]%{+E}[url_param(b),url_dec]%{+Q,+X}ci%{+Q}[url_param(n)]-" hdr x-h "%[url_param(a),url_dec]%{+Q}[url_param(b)]%{+E}[url_param(b),url_dec]%{+Q,+X}ci%{+Q}[url_param(n)]-" if { path /return }
    http-request return status 200 content-type text/x lf-file @folder@/controls.lf if { path /file }
    http-request return status 200 content-type a/b lf-string "%[url_param(n)]" hdr x-h %[url_param(n)] if { path /nothing }
    http-request deny deny_status 403 hdr x-h "%[url_param(a),url_dec]" if { path /deny }
    http-request redirect location "/%[url_param(a),url_dec]%{+Q}[url_param(b)]" if { path /redirect }
    http-request redirect location / set-cookie "a=%[url_param(b)]" if { path /cookie }
    http-request set-uri "/u%[url_param(a),url_dec]%{+Q}[url_param(b)]" if { path /uri }
    http-request set-query "%[url_param(a),url_dec]%{+Q}[url_param(b)]" if { path /query }
    http-request replace-uri (.*) "\\1&%[url_param(a),url_dec]%{+Q}[url_param(b)]" if { path /ruri }
    http-request replace-path (.*) "\\1&%[url_param(a),url_dec]%{+Q}[url_param(b)]" if { path /rpath }
    http-request set-header x-s "%[url_param(a),url_dec]%{+Q}[url_param(b)]%{+E}[url_param(b),url_dec]%{+Q,+X}ci%{+Q}[url_param(n)]-" if { path /fields }
    http-request add-header x-a "%[url_param(a),url_dec]" if { path /fields }
    http-request replace-header x-old .* "%[url_param(a),url_dec]%{+Q}[url_param(b)]%{+E}[url_param(b),url_dec]%{+Q,+X}ci%{+Q}[url_param(n)]-" if { path /fields }
    http-request replace-value x-list b "%[url_param(a),url_dec]%{+Q}[url_param(b)]" if { path /fields }
    http-response set-header x-r "%[var(txn.all)]"
    http-response replace-header server .* "%[var(txn.all)]"
    http-after-response add-header x-after "%[var(txn.all)]"
    default_backend origin
userlist users
    group g1 users u1
    user u1 insecure-password p1
    user u2 insecure-password p2
http-errors mine
    errorfile 404 @folder@/404.http
    errorfile 503 @folder@/503.http
backend origin
    server s1 127.0.0.1:@origin@
""".replace("    http-response cache-use-nothing if FALSE\n", "")

FILES = {
    "body.txt": "the body\n",
    "body.lf": "path %[path] method %[method]\n",
    "controls.lf": "a %[url_param(a),url_dec]\nb %{+Q}[url_param(b)]\n",
    "404.http": "HTTP/1.1 404 Gone Fishing\r\nX-Mine: 1\r\nContent-Type: text/plain\r\n\r\nmine\n",
    "odd.http": "\r\nHTTP/2.0   404\nX-Folded: a\r\n b\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nbody",
    "503.http": "HTTP/1.0 503 Not Now\r\nCache-Control: no-cache\r\n\r\nnot now\n",
}

BASIC = "Authorization: Basic "

EXCHANGES = {f"redirect {path}": ("redirects", get(path)) for path in (
    "/301", "/302", "/303", "/307", "/308", "/fmt/a?b=c", "/fmt", "/dropq/a?b=c", "/slash", "/slash?a=b", "/slash/", "/both?x=y",
    "/root?x=y", "/root", "/setc", "/clearc", "/clearb", "/https", "/https?a=b", "/empty", "/empty2", "/classic", "/other?q", "/echo")}
EXCHANGES |= {
    "redirect to a scheme from a field": ("redirects", get("/lfs?a", "X-Scheme: ftp", host="h.example:8080")),
    "redirect of a CONNECT": ("redirects", "CONNECT h.example:80 HTTP/1.1\r\nHost: h.example\r\n\r\n"),
    "redirect of a HEAD": ("redirects", get("/301", method="HEAD")),
    "redirect of a post": ("redirects", post("/301", "hello") + get("/302")),
    "redirect and close": ("redirects", get("/301", "Connection: close")),
    **{f"redirect of what is no path any more, {number}": ("redirects", get("/a?b=c", f"X-No-Path: {number}")) for number in "12"},
    "redirect of an absolute target": ("redirects", get("http://x/dropq/a?b=c")),
    "redirect of an absolute target to https": ("redirects", get("http://x/https?b=c")),
    "redirect of version 1.0": ("redirects", "GET /301 HTTP/1.0\r\n\r\n"),
    "redirects in a row": ("redirects", get("/301") + get("/302") + get("/303")),
}
EXCHANGES |= {f"return {path}": ("returns", get(path)) for path in (
    "/string", "/404", "/418", "/file", "/lffile", "/lf", "/errorfile", "/default", "/default403", "/mine", "/odd", "/nostatus", "/201", "/204",
    "/d400", "/d401", "/d404", "/d405", "/d408", "/d410", "/d413", "/d425", "/d429", "/d500", "/d501", "/d502", "/d503", "/d504", "/d421", "/empty403", "/empty418", "/emptytarpit", "/tarpit422", "/dlf", "/tarpit",
    "/tarpit429", "/reject", "/auth", "/auth2", "/echo", "/after")}
EXCHANGES |= {
    "return to HEAD": ("returns", get("/string", method="HEAD") + get("/404")),
    "deny to HEAD": ("returns", get("/d404", method="HEAD") + get("/404")),
    "deny with a body": ("returns", post("/d404", "hello") + get("/404")),
    "deny and close": ("returns", get("/d404", "Connection: close") + get("/404")),
    "silent drop": ("returns", [get("/drop"), 0.1]), "silent drop of what is acknowledged late": ("vanishing", [get("/drop"), 0.1]),
    "authorized": ("returns", get("/auth", BASIC + "dTE6cDE=")),
    "badly authorized": ("returns", get("/auth", BASIC + "dTE6cDI=")),
    "authorization nonsense": ("returns", get("/auth", BASIC + "%%%")),
    "authorized in a group": ("returns", get("/auth2", BASIC + "dTE6cDE=")),
    "authorized out of the group": ("returns", get("/auth2", BASIC + "dTI6cDI=")),
    "authorized by a proxy": ("returns", get("http://x/auth", "Proxy-Authorization: Basic dTE6cDE=")),
}
LISTS = ("X-List: a, b", "X-List: c", "X-One: 1", "X-Two: 2", "Stamp: s", "X-Tw: 3")
EXCHANGES |= {f"edit {path}": ("edits", get(path, *LISTS)) for path in (
    "/uri", "/absuri", "/path?z", "/pathq?z", "/query?z", "/noquery?z", "/rp/a?b", "/rpq/a?x=1", "/ru/b?c", "/rv", "/rh", "/sh", "/sh2", "/ah", "/dhb",
    "/dhe", "/dhs", "/dhr", "/dh", "/hint", "/host", "/nohost", "/vars", "/unset", "/cond", "/cond2", "/silent", "/err", "/m")}
EXCHANGES |= {
    "edit without the list": ("edits", get("/cond")),
    "wait for a body": ("edits", [post("/wait", "hello")[:-3], 0.02, "llo"]),
    "wait for a chunked body": ("edits", get("/wait", "Transfer-Encoding: chunked", method="POST") + "3\r\nabc\r\n0\r\n\r\n"),
    "wait for a body that does not come": ("edits", [post("/wait", "hello")[:-3], 0.2, "llo"]),
    "addresses set": ("edits", get("/src", "X-Src: 10.1.2.3")),
    "addresses set to six": ("edits", get("/src", "X-Src: 2001:db8::1")),
    "addresses not set": ("edits", get("/src", "X-Src: nonsense")),
    "edit of an absolute target": ("edits", get("http://x/path?z")),
    "query of an absolute target": ("edits", get("http://x/query?z")),
    "query without a path": ("edits", get("http://x")),
}
# Rules cannot replace the path of a target without one; the query is found after any change to the path.
_PATHLESS = {"CONNECT": ("CONNECT h:80", "h:80"), "a star": ("OPTIONS *", "a.example"), "no path": ("GET http://a.example", "a.example"),
             "a path": ("GET /d?b=2&a=3", "a.example"), "a denied path": ("GET /d?b=2&a=1", "a.example")}
EXCHANGES |= {f"{do} of {what}": ("pathless", f"{line} HTTP/1.1\r\nHost: {host}\r\nX-Do: {do}\r\nConnection: close\r\n\r\n")
              for what, (line, host) in _PATHLESS.items() for do in ("set", "strip", "replace", "replaceq", "query", "nothing")}
EXCHANGES |= {f"sent to another server, strip of {path}": ("sent", get(path, "X-Do: strip", "Connection: close")) for path in ("/", "/d", "/d?a=1")}
EXCHANGES |= {"tarpitted": ("tarpit", get("/", "Connection: close")), "tarpitted and gone": ("tarpit", [get("/"), 0.03, None])}
EXCHANGES |= {f"response {what}": ("responses", get(answer(f"X-Do: {what}", "X-List: a, b", "X-Gone: 1", "X-Rep: ab", "X-Before: 1"))) for what in (
    "nothing", "status", "reason", "deny", "deny429", "redirect", "return", "allow", "fetch", "after", "cookie")}
EXCHANGES |= {
    "response to HEAD": ("responses", get(answered("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Do: fetch\r\n\r\n"), method="HEAD")),
    "response to HEAD replaced": ("responses", get(answered("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Do: return\r\n\r\n"), method="HEAD")),
    "after a refusal": ("after", get("/deny")),
    "after a redirect": ("after", get("/redirect")),
    "after a return": ("after", get("/return")),
    "after no server": ("after", get("/")),
    "after a bad request": ("after", "GET / HTTP/1.1\r\nBad Name: x\r\n\r\n"),
    "after a timeout": ("after", ["GET / HT", 0.35]),
}
EXCHANGES |= {f"controls in {path}": ("controls", get(f"{path}?a=x%0d%0ay%7f%01z%e9&b=q%22%5c%5dr", "X-Old: o", "X-List: a, b")) for path in (
    "/return", "/file", "/nothing", "/deny", "/redirect", "/cookie", "/uri", "/query", "/ruri", "/rpath", "/fields", "/strip")}
EXCHANGES |= {
    "captures of a bad request": ("controls", "BREW /\xe9 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "captures of a bad request after a good one": ("controls", get("/nothing") + "GET / HTTP/1.1\r\nBad Name: x\r\n\r\n"),
}

EMPTY = "an empty path is a slash (RFC 9110, 4.2.3): rules and servers see no other name of it"
TIME = "a response that a rule replaces was there: its time is logged, as the manual says"
DIFFERENT = {
    **dict.fromkeys(("response deny", "response deny429", "response redirect", "response return", "response to HEAD replaced"), only("2.6", TIME)),
    **dict.fromkeys(("return /d405", "return /d501"), only("2.6", "the texts of 3.x")),
    **{f"{what} of CONNECT": only("2.6", "a tunnel's answer does not have a length (RFC 9110, 9.3.6)") for what in ("set", "strip", "replace", "replaceq", "query", "nothing")},
    "return /204": only("3.2", "a 204 does not have a length (RFC 9110, 8.6)"),
    "controls in /return": only("2.6", "values in a body may be quoted, as in 3.2"),
    "controls in /file": only("2.6", "values in a body may be quoted, as in 3.2"),
    "strip of no path": EMPTY,
    **dict.fromkeys(("query without a path", "replace of no path", "replaceq of no path", "query of no path", "nothing of no path"), only("2.6", EMPTY)),
    "redirect of a post": only("2.6", "an unused body is read, and the connection persists"),
    "return /odd": only("2.6", "a status without a reason gets the usual one, as in 3.x"),
    "return /errorfile": "a message without a length gets one, and the connection lives on",
    "return /mine": "a message without a length gets one, and the connection lives on",
    "set of no path": "an absolute target stays one",
    "tarpitted and gone": "a client that leaves is released at once: CT in the manual",
    "edit /hint": "hints in a row share a response, whatever their conditions",
}
