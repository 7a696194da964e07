"""Reports about a configuration without serving it: JSON, lint, explain, the dump."""
import glob
import json
import os
import re
import socket

from lib.origin import Origin, read_all
from lib.program import ROOT, Program, ask, free_port, log_socket, request, run, wait_until
from lib.tls import Authority, ask_over, connect
from master.support import Master

HEAD = "defaults\n    mode http\n    timeout client 1s\n    timeout server 1s\n    timeout connect 1s\n"
FRONTEND = "frontend f\n    bind 127.0.0.1:1\n"
BACKEND = "backend b\n    server s 127.0.0.1:2\n"


def test_json_findings_have_line_column_code_and_suggestion(binary, folder):
    """All findings of -c, including warnings after errors and faults outside the parser."""
    path = folder.file("a.cfg", HEAD + FRONTEND + "    maxcon 5\n    default_backend nobody\n" + "backend b\n    server s nowhere.invalid:1\n"
                       + "backend c\n    timeout server 0\n    server s 127.0.0.1:1\n")
    status, out, err = run(binary, "-c", "--format", "json", "-f", path)
    assert status == 1 and err == "", (status, err)
    said = json.loads(out)
    assert said["valid"] is False, said
    by_line = {each["line"]: each for each in said["diagnostics"]}
    assert by_line[8] == {"file": path, "line": 8, "column": 5, "end_column": 11, "code": "C101", "severity": "error",
                          "message": "unknown keyword 'maxcon' in 'frontend' section", "suggestion": "maxconn"}, by_line[8]
    assert by_line[9]["code"] == "C202" and by_line[9]["column"] == 21, by_line
    assert (by_line[11]["code"], by_line[11]["severity"]) == ("C601", "error"), by_line
    assert (by_line[12]["code"], by_line[12]["severity"]) == ("C401", "warning"), by_line
    for code in {each["code"] for each in said["diagnostics"]}:
        status, text, _ = run(binary, "explain", code)
        assert status == 0 and "Kind of problem: " in text, (code, text)


def test_check_with_format_json_has_the_exit_status_of_a_plain_check(binary, folder):
    cases = [(HEAD + FRONTEND + "    default_backend b\n" + BACKEND, (), True), (HEAD + BACKEND, (), False),
             (FRONTEND + "    nonsense\n", (), False), ("frontend f\n    mode http\n    bind 127.0.0.1:1\n", ("-dW",), False),
             (".alert mine\n", (), False)]
    for text, options, valid in cases:
        path = folder.file("a.cfg", text)
        status, out, _ = run(binary, "-c", "-f", path, "--format", "json", *options)
        assert status == run(binary, "-c", "-f", path, *options)[0], text
        assert json.loads(out)["valid"] is valid, out
    assert json.loads(out)["diagnostics"][0]["code"] == "C116", out
    status, out, err = run(binary, "-c", "-f", "/nowhere/a.cfg", "--format", "json")
    assert status == 1 and json.loads(out)["diagnostics"][0]["code"] == "C501", out
    for words in (["--format", "json", "-f", path], ["-c", "--format", "json"], ["-c", "--format", "xml", "-f", path]):
        assert run(binary, *words)[0] == 1, words


def test_the_option_dV_means_ssl_server_verify_none(binary, folder):
    """A server line with TLS has to name its trusted authorities; an explicit setting in the configuration wins."""
    for head, options, expected in (("", (), 1), ("", ("-dV",), 0), ("global\n    ssl-server-verify none\n", (), 0),
                                    ("global\n    ssl-server-verify required\n", ("-dV",), 1)):
        path = folder.file("a.cfg", head + HEAD + FRONTEND + "    default_backend b\nbackend b\n    server s 127.0.0.1:2 ssl\n")
        assert run(binary, "-c", "-f", path, *options)[0] == expected, (head, options)
        assert run(binary, "-c", "-f", path, "--format", "json", *options)[0] == expected, (head, options)


def found_by_lint(binary, path, *options):
    """The exit status, and the line and code of each finding."""
    status, out, err = run(binary, "lint", "-f", path, "--format", "json", *options)
    assert err == "", err
    return status, [(each.get("line"), each["code"]) for each in json.loads(out)["diagnostics"]]


def test_lint_finds_unreachable_rules(binary, folder):
    rules = ["use_backend b if a", "use_backend c if a", "use_backend c if { path / }", "use_backend c", "use_backend b if { path /x }"]
    text = HEAD + FRONTEND + "    acl a path /a\n" + "".join(f"    {rule}\n" for rule in rules) + BACKEND + BACKEND.replace("b\n", "c\n")
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (1, [(10, "C701"), (13, "C701")])
    # Lines in between may change the condition's result; a random test may differ each time.
    quiet = ["http-request deny if { var(txn.a) -m found }", "http-request set-var(txn.a) str(b)", "http-request deny if { var(txn.a) -m found }",
             "http-request deny if { rand(2) 0 }", "http-request deny if { rand(2) 0 }", "use_backend %[path]", "use_backend b"]
    text = HEAD + FRONTEND + "".join(f"    {rule}\n" for rule in quiet) + BACKEND
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (0, []), run(binary, "lint", "-f", folder.file("a.cfg", text))
    # TCP rules, about which the parser reports nothing, and HTTP rules, about which it does.
    text = HEAD + FRONTEND + "    tcp-request connection accept\n    tcp-request connection reject if { src 10.0.0.1 }\n"
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (1, [(9, "C701")])
    text = HEAD + FRONTEND + "    http-request deny\n    http-request set-var(txn.a) path\n"
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (1, [(9, "C305")])
    # A proxy's own rules come after those that it inherits.
    text = HEAD.replace("defaults", "defaults d") + "    http-request deny\n" + FRONTEND.replace("f\n", "f from d\n") + "    http-request return status 200\n"
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (1, [(9, "C701")])


def test_lint_finds_unused_acls_and_sections(binary, folder):
    acls = "    acl a path /a\n    acl b path /b\n    acl b path /b2\n    acl c path /c\n    acl d path /d\n    acl e acl(d)\n"
    text = HEAD + FRONTEND + acls + "    http-request deny if !a or { acl(!c) } e\n" + BACKEND
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (1, [(9, "C702"), (15, "C703")])
    status, out, _ = run(binary, "lint", "-f", folder.file("a.cfg", text))
    assert status == 1 and out.startswith(folder.file("a.cfg", text) + ":9:9: warning: nothing uses the ACL 'b'. [C702]\n"), out
    # A format may name any backend; a log target names one; one without servers has a table for others.
    text = HEAD + FRONTEND + "    use_backend %[path]\n" + BACKEND
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (0, [])
    text = HEAD + FRONTEND + "    log backend@l local0\n    option httplog\nbackend t\n    stick-table type ip size 1k\nbackend l\n    mode log\n    server s udp@127.0.0.1:514\n"
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (0, [])
    # A backend uses an application.
    app = "fcgi-app a\n    docroot /w\n"
    use = FRONTEND + "    default_backend b\n" + BACKEND + "    use-fcgi-app a\n    server php 127.0.0.1:3 proto fcgi\n"
    for text, found in ((app + use, []), (app.replace("app a", "app c") + app + use, [("fcgi-app c", "C721")])):
        assert lines_found(binary, folder, HEAD + text) == found, text
    # An engine sends to the backend of its agent.
    engine = folder.file("engine.conf", "spoe-agent a\n    messages m\n    option set-on-error e\n    timeout processing 1s\n    use-backend b\n"
                         "spoe-message m\n    event on-client-session\n")
    text = HEAD + FRONTEND + f"    filter spoe config {engine}\n    http-request deny if {{ var(txn.a.e) -m found }}\n" + BACKEND.replace("b\n", "b\n    mode spop\n", 1)
    assert found_by_lint(binary, folder.file("a.cfg", text)) == (0, [])


def test_diff_reports_changes_of_meaning_only(binary, folder):
    """A line for each object, and the exit status: 0 for equal, 1 for different, 2 for a fault, which is reported as -c does."""
    text = HEAD + FRONTEND + "    default_backend b\n" + BACKEND
    old = folder.file("old.cfg", text)
    same = folder.file("same.cfg", "# moved\n" + HEAD.replace("1s", "1000ms") + BACKEND + FRONTEND + "    default_backend b\n")
    assert run(binary, "diff", old, same) == (0, "", "")
    new = folder.file("new.cfg", text.replace("127.0.0.1:2", "127.0.0.1:2 weight 5") + "    server t 127.0.0.1:3\n")
    assert run(binary, "diff", old, new) == (1, f"{new}:9: changed backend b: order of servers\n{new}:10: changed server b/s: weight\n"
                                                f"{new}:11: added server b/t\n", "")
    wrong = folder.file("wrong.cfg", text + "    servr t 127.0.0.1:3\n")
    status, out, err = run(binary, "diff", old, wrong)
    assert (status, out) == (2, "") and f"parsing [{wrong}:11]" in err and "unknown keyword 'servr'" in err, (status, out, err)
    assert [run(binary, "diff", *words)[0] for words in ([], [old], [old, old, old], [old, "/nowhere"])] == [2, 2, 2, 2]
    # A folder, as -f takes it.
    os.mkdir(os.path.join(folder.path, "parts"))
    folder.file("parts/1.cfg", HEAD + BACKEND)
    folder.file("parts/2.cfg", FRONTEND + "    default_backend b\n")
    assert run(binary, "diff", old, os.path.join(folder.path, "parts")) == (0, "", "")


def lines_found(binary, folder, text):
    """The codes of the lines, by their text."""
    path = folder.file("a.cfg", text)
    lines = text.splitlines()
    return [(lines[line - 1].strip(), code) for line, code in found_by_lint(binary, path)[1]]


def test_lint_finds_conditions_that_never_hold(binary, folder):
    """Each condition as an `acl` line and in braces: the code of those that are found."""
    for condition, code in [
            ("path_beg admin", "C708"), ("path_beg -i admin", "C708"), ("path -m beg admin", "C708"), ("path admin/x", "C708"), ("path,lower admin", "C708"),
            ("path_beg /a b /c", "C708"), ("pathq -m str a?b", "C708"), ("path_beg -- admin", "C708"),
            ("path_beg /admin", None), ("path -i -m beg /admin", None), ("path_end admin", None), ("path_sub admin", None), ("path_dir admin", None),
            ("path,field(2,/) admin", None), ("path -m reg ^/admin", None), ("path -m found", None), ("url_beg http://a", None), ("path_beg -m sub admin", None),
            ("hdr(host) = a.example", "C707"), ("hdr(host) -i == a.example", "C707"), ("req.hdr(host) eq a.example", "C707"), ("path != /a", "C707"),
            ("method is GET", "C707"), ("ssl_fc_sni =~ a", "C707"),
            ("hdr(host) a.example b.example", None), ("hdr(host) =", None), ("hdr(host) '=' a", None), ("hdr_cnt(host) gt 1", None),
            ("hdr(host),length gt 1", None), ("hdr(x) -m int gt 1", None), ("req.hdr(x) -m len ge 5", None)]:
        for rule in (f"acl x {condition}", f"http-request deny if {{ {condition} }}", f"http-request deny if {{ src 10.0.0.1 }} !{{ {condition} }}"):
            text = HEAD + FRONTEND + f"    {rule}\n" + ("    http-request deny if x\n" if "acl" in rule else "")
            assert lines_found(binary, folder, text) == ([(rule, code)] if code else []), (rule, lines_found(binary, folder, text))


def test_lint_finds_counters_that_no_stick_table_stores(binary, folder):
    """Such counters read as 0, so a limit on them never applies."""
    tables = "backend t\n    stick-table type ip size 1k expire 1m store conn_cur,gpc(2),http_err_rate(10s)\n" \
             "backend u\n    stick-table type ip size 1k expire 1m store gpt0,http_req_rate(10s)\n"
    track = "http-request track-sc0 src table t"
    for first, test, code in [
            (track, "sc_http_req_rate(0) gt 1", "C709"), (track, "sc0_http_req_rate gt 1", "C709"), (track, "sc_http_req_cnt(0) gt 1", "C709"),
            (track, "sc_get_gpt0(0) gt 1", "C709"), (track, "sc_inc_gpc0(0,u) gt 1", "C709"), (track, "sc_kbytes_in(0) gt 1", "C709"),
            (track, "src_http_req_rate(t) gt 1", "C709"), (track, "src,table_http_req_rate(t) gt 1", "C709"), (track, "sc_gpc_rate(0,0) gt 1", "C709"),
            (track, "sc_http_req_rate(1) gt 1", "C710"), ("http-request set-var(txn.a) src", "sc_http_req_rate(0) gt 1", "C710"),
            (track, "sc_conn_cur(0) gt 1", None), (track, "sc_get_gpc0(0) gt 1", None), (track, "sc_get_gpc(1,0) gt 1", None), (track, "sc_http_err_rate(0) gt 1", None),
            (track, "sc_http_req_rate(0,u) gt 1", None), (track, "src_http_req_rate(u) gt 1", None), (track, "src,table_http_req_rate(u) gt 1", None),
            (track.replace("table t", "table u"), "sc_http_req_rate(0) gt 1", None), (track, "sc_tracked(0)", None)]:
        rule = f"http-request deny if {{ {test} }}"
        found = lines_found(binary, folder, HEAD + FRONTEND + f"    {first}\n    {rule}\n" + tables)
        assert found == ([(rule, code)] if code else []), (first, test, found)
    own = "    stick-table type ip size 1k expire 1m store conn_cur\n    http-request track-sc2 src\n"
    assert lines_found(binary, folder, HEAD + FRONTEND + own + "    http-request set-header x %[sc_conn_cur(2)]-%[sc_conn_rate(2)]\n") == [
        ("http-request set-header x %[sc_conn_cur(2)]-%[sc_conn_rate(2)]", "C709")]


def test_lint_finds_redirect_loops(binary, folder):
    site = Authority(folder).issue("one.example")
    os.chmod(site, 0o600)
    tls = f"    bind 127.0.0.1:3 ssl crt {site}\n"
    both, without = FRONTEND + tls, FRONTEND
    apart = FRONTEND.replace("f\n", "g\n").replace(":1", ":4") + tls + "    http-request return status 200\n" + FRONTEND
    for frontend, rule, found in [
            (both, "http-request redirect scheme https", True), (both, "redirect scheme https", True), (both, "redirect scheme https if { path_beg /a }", True),
            (both, "http-request redirect scheme https code 301 unless { path_beg /.well-known/acme-challenge/ }", True),
            (both, "http-request redirect prefix https://%[hdr(host)]", True), (without, "http-request redirect scheme https", True),
            (both, "http-request redirect scheme https unless { ssl_fc }", False), (both, "redirect scheme https if !{ ssl_fc }", False),
            (both, "redirect scheme https if { dst_port 80 }", False), (both, "redirect scheme https if secure", False),
            (without, "http-request redirect scheme https unless { hdr(x-forwarded-proto) https }", False), (apart, "redirect scheme https", False),
            (both, "http-request redirect location https://other.example/", False), (both, "redirect scheme http if { ssl_fc }", False)]:
        acl = "    acl secure ssl_fc\n" if rule.endswith("secure") else ""
        text = HEAD + frontend + acl + f"    {rule}\n"
        assert lines_found(binary, folder, text) == ([(rule, "C716")] if found else []), (frontend, rule, lines_found(binary, folder, text))


def test_lint_finds_unreachable_servers_and_backends_without_servers(binary, folder):
    """Backends without servers, servers at the listener's own address, sockets outside of the chroot, servers without a cookie value, addresses
    bound by two proxies."""
    chosen = HEAD + FRONTEND + "    default_backend b\n"
    for text, found in [
            (chosen + "backend b\n", [("backend b", "C711")]), (HEAD + "listen l\n    bind 127.0.0.1:1\n", [("listen l", "C711")]),
            (HEAD + FRONTEND + "backend b\n", [("backend b", "C711")]), (chosen + "backend b\n    http-request deny if { path / }\n", [("backend b", "C711")]),
            (chosen + "backend b\n    http-request return status 200\n", []), (chosen + "backend b\n    stats enable\n", []),
            (chosen + "backend b\n    redirect location /\n", []), (chosen + "backend b\n    errorfile 503 /dev/null\n", None),
            (chosen + "backend b\n    server s 127.0.0.1\n", [("server s 127.0.0.1", "C713")]),
            (chosen + "backend b\n    server s 127.0.0.1:1\n", [("server s 127.0.0.1:1", "C713")]),
            (chosen.replace("127.0.0.1:1", ":1") + "backend b\n    server s 127.0.0.1:+0\n", [("server s 127.0.0.1:+0", "C713")]),
            (chosen.replace("127.0.0.1:1", ":1-5") + "backend b\n    server s 127.0.0.1:3\n", [("server s 127.0.0.1:3", "C713")]),
            (chosen + "backend b\n    server s 127.0.0.1:+1\n", []), (chosen + "backend b\n    server s 192.0.2.1\n", []),
            (chosen + "backend b\n    server s 0.0.0.0\n", []),
            (chosen + "backend b\n    server s 127.0.0.1:9\n" + FRONTEND.replace("f\n", "g\n").replace(":1", ":9") + "    http-request return status 200\n", []),
            (chosen + "backend b\n    cookie C insert\n    server s 127.0.0.1:2\n    server t 127.0.0.1:3 cookie t\n", [("server s 127.0.0.1:2", "C712")]),
            (chosen + "backend b\n    cookie C prefix\n    server s 127.0.0.1:2\n", [("server s 127.0.0.1:2", "C712")]),
            (chosen + "backend b\n    cookie C insert\n    server s 127.0.0.1:2 cookie s\n    server t 127.0.0.1:3 backup\n", []),
            (chosen + "backend b\n    cookie C insert\n    dynamic-cookie-key x\n    cookie C insert dynamic\n    server s 127.0.0.1:2\n", None),
            ("global\n    chroot auto\n" + chosen + "backend b\n    server s /run/app.sock\n", [("server s /run/app.sock", "C714")]),
            ("global\n    chroot /var/empty\n" + chosen + "backend b\n    server s unix@/run/app.sock\n", [("server s unix@/run/app.sock", "C714")]),
            ("global\n    chroot auto\n" + chosen + "backend b\n    server s abns@app\n", []), (chosen + "backend b\n    server s /run/app.sock\n", []),
            (HEAD + FRONTEND + FRONTEND.replace("f\n", "g\n"), [("bind 127.0.0.1:1", "C715")]),
            (HEAD + FRONTEND.replace(":1", ":1-4") + FRONTEND.replace("f\n", "g\n").replace(":1", ":3"), [("bind 127.0.0.1:3", "C715")]),
            (HEAD + FRONTEND + FRONTEND.replace("f\n", "g\n").replace("127.0.0.1", "127.0.0.2"), [])]:
        hidden = {"C101", "C703", "C705"}
        lines = [(line, code) for line, code in lines_found(binary, folder, text) if code not in hidden]
        assert lines == found or (found is None and not {"C711", "C712"} & {code for _, code in lines}), (text, lines)


def test_lint_finds_log_sockets_without_a_daemon(binary, folder):
    path = os.path.join(folder.path, "dev-log")
    with log_socket(path):
        for target, found in ((path, False), (path + "2", True), (folder.file("plain"), True), ("127.0.0.1", False), ("stdout", False)):
            text = f"global\n    log {target} local0\n" + HEAD + FRONTEND + "    http-request return status 200\n"
            assert lines_found(binary, folder, text) == ([(f"log {target} local0", "C717")] if found else []), (target, lines_found(binary, folder, text))


def test_lint_finds_compressed_pages_that_may_reveal_secrets(binary, folder):
    """BREACH: pages over TLS, unless a rule decides about Accept-Encoding or no-transform."""
    site = Authority(folder).issue("one.example")
    os.chmod(site, 0o600)
    rule = "http-request del-header accept-encoding if { req.hdr(sec-fetch-site) -m str cross-site }"
    for lines, tls, found in (
            (["compression algo gzip"], True, 0),
            (["compression algo gzip"], False, None),
            (["compression algo-res br", "compression type text/css"], True, None),
            (["compression type application/", "compression algo gzip"], True, 1),
            (["compression algo identity"], True, None),
            (["compression algo-req gzip"], True, None),
            (["compression algo gzip", rule], True, None),
            (["compression algo gzip", "http-response set-header cache-control no-transform"], True, None)):
        bind = f"bind 127.0.0.1:1 ssl crt {site}" if tls else "bind 127.0.0.1:1"
        text = HEAD + f"frontend f\n    {bind}\n    default_backend b\nbackend b\n" + "".join(f"    {line}\n" for line in lines) + "    server s 127.0.0.1:2\n"
        want = [] if found is None else [(lines[found], "C719")]
        assert lines_found(binary, folder, text) == want, (lines, lines_found(binary, folder, text))
    defaults = HEAD + f"    compression algo gzip\nlisten l\n    bind 127.0.0.1:1 ssl crt {site}\n    server s 127.0.0.1:2\n"
    assert lines_found(binary, folder, defaults) == [("compression algo gzip", "C719")]


ENGINE = """[e]
spoe-agent waf
    messages check
    option var-prefix waf
    timeout processing 100ms
    use-backend agents
    {}
spoe-message check
    args path=path
    {}
"""


def test_lint_finds_engines_that_fail_open(binary, folder):
    """An error of the agent changes something only if a line reads the variable of set-on-error."""
    on_error, event = "option set-on-error error", "event on-frontend-http-request"
    rule = "http-request deny status 503 if { var(txn.waf.error) -m found }"
    for agent, message, line, found in (
            ("", event, rule, 1),
            (on_error, event, "", 1),
            (on_error, event, "log 127.0.0.1:514 local0\n    log-format %[var(txn.waf.error)]", 1),
            (on_error, event, rule.replace("error", "errors"), 1),
            (on_error, event, rule, 0),
            (on_error, event, "use_backend b if { var(txn.waf.error) -m int gt 0 }", 0),
            # Messages without an event are sent by rules.
            ("groups late\nspoe-group late\n    messages check", "", "http-request send-spoe-group e late", 1)):
        text = ENGINE.format(agent, message) if message else ENGINE.format(agent, message).replace("    messages check\n", "", 1)
        path = folder.file("engine.cfg", text)
        filter_line = f"filter spoe engine e config {path}"
        text = (HEAD + FRONTEND + f"    {filter_line}\n    {line}\n    default_backend b\n" + BACKEND
                + "backend agents\n    mode spop\n    server a 127.0.0.1:3\n")
        assert lines_found(binary, folder, text) == [(filter_line, "C720")] * found, (agent, line, lines_found(binary, folder, text))


def test_check_refuses_agents_where_clients_connect(binary, folder):
    agents = "    mode spop\n    server a 127.0.0.1:3\n"
    use = "frontend 'f' ({0}:6) tries to use incompatible spop backend 'b' ({0}:9)"
    for text, said in (
            (FRONTEND + "    mode spop\n", "[{0}:8] : 'mode spop' is for backends only."),
            ("listen f\n    bind 127.0.0.1:1\n" + agents, "proxy 'f' cannot have 'bind' lines: its servers are agents"),
            (FRONTEND + "    default_backend b\nbackend b\n" + agents, f"http {use} in a 'default_backend' rule (see 'mode')"),
            (FRONTEND + "    use_backend b if TRUE\nbackend b\n" + agents, f"http {use} in a 'use_backend' rule (see 'mode')"),
            (FRONTEND.replace("f\n", "f\n    mode tcp\n") + "    default_backend b\nbackend b\n" + agents,
             f"tcp {use} in a 'default_backend' rule (see 'mode')".replace(":9)", ":10)")),
            (FRONTEND + "    default_backend b\nbackend b\n    server s 127.0.0.1:2 proto spop\n", "MUX protocol 'spop' is not usable for server 's'"),
            (FRONTEND + "spoe-agent waf\n", "section 'spoe-agent' is not allowed in a configuration. It belongs in the file of an engine, named by "
                                            "'filter spoe engine <name> config <file>'")):
        path = folder.file("a.cfg", HEAD + text)
        status, out, err = run(binary, "-c", "-f", path)
        assert status == 1 and said.format(path) in out + err, (said.format(path), out + err)


def test_lint_finds_unknown_alpn_protocols(binary, folder):
    """ALPN names that HTTP proxies never negotiate; TCP proxies may have any protocol."""
    site = Authority(folder).issue("one.example")
    os.chmod(site, 0o600)
    for value, mode, found in (("h2;http/1.1", "http", 1), ("h2,http1.1", "http", 1), ("h2,http/1.1", "http", 0), ("mqtt", "tcp", 0), ("mqtt,h22", "http", 2)):
        for bind, server in ((f" ssl crt {site} alpn {value}", ""), ("", f" ssl verify none alpn {value}"), ("", f" check check-ssl verify none check-alpn {value}")):
            line = f"bind 127.0.0.1:1{bind}" if bind else f"server s 127.0.0.1:2{server}"
            text = HEAD.replace("http", mode) + f"listen l\n    bind 127.0.0.1:1{bind}\n    server s 127.0.0.1:2{server}\n"
            assert lines_found(binary, folder, text) == [(line, "C718")] * found, (value, lines_found(binary, folder, text))


def test_lint_finds_contradictory_timeouts(binary, folder):
    for place, line, expected in [("f", "timeout client-fin 2s", 1), ("f", "timeout client-fin 1s", 0), ("d", "timeout tunnel 500ms", 2),
                                  ("d", "timeout tunnel 1h", 0), ("b", "timeout server-fin 3s", 1), ("f", "option httpclose", 1)]:
        extra = {key: f"    {line}\n" if key == place else "" for key in "dfb"}
        text = HEAD + "    timeout http-keep-alive 1s\n" + extra["d"] + FRONTEND + "    default_backend b\n" + extra["f"] + BACKEND + extra["b"]
        status, found = found_by_lint(binary, folder.file("a.cfg", text))
        assert [code for _, code in found] == ["C704"] * expected and status == min(expected, 1), (line, found)
    for client, expected in (("1s", 0), ("2s", 1)):
        text = HEAD.replace("http", "tcp") + FRONTEND + f"    timeout client {client}\n    default_backend b\n" + BACKEND
        assert len(found_by_lint(binary, folder.file("a.cfg", text))[1]) == expected, client


def test_lint_finds_world_readable_secrets(binary, folder):
    socket = os.path.join(folder.path, "s")
    for mode, level, expected in (("660", "admin", []), ("666", "user", []), ("666", "admin", [(2, "C706")])):
        text = f"global\n    stats socket {socket} mode {mode} level {level}\n"
        assert found_by_lint(binary, folder.file("a.cfg", text))[1] == expected, (mode, level)
    path = folder.file("a.cfg", "userlist u\n    user a insecure-password b\n" + HEAD + FRONTEND + "    stats auth a:b\n")
    for mode, expected in ((0o644, [(2, "C705")]), (0o640, [])):
        os.chmod(path, mode)
        assert found_by_lint(binary, path)[1] == expected, oct(mode)
    site = Authority(folder).issue("one.example")
    path = folder.file("a.cfg", HEAD + f"frontend f\n    bind 127.0.0.1:1 ssl crt {site}\n")
    for mode, expected in ((0o644, [(7, "C705")]), (0o600, [])):
        os.chmod(site, mode)
        assert found_by_lint(binary, path)[1] == expected, oct(mode)
    # An unusable configuration is not examined further.
    path = folder.file("a.cfg", HEAD + f"frontend f\n    bind 127.0.0.1:1 ssl crt {folder.file('none.pem')}\n    acl a path /\n")
    assert found_by_lint(binary, path) == (2, [(7, "C502")]), found_by_lint(binary, path)
    assert run(binary, "lint")[0] == 2


def test_explain_shows_the_settings_that_a_line_inherits_and_replaces(binary, folder):
    text = ("defaults base\n    timeout client 5s\n    default-server inter 9s\n    errorfile 503 /dev/null\n    log 127.0.0.1:514 local0\n"
            "defaults web from base\n    mode http\n    timeout client 9s\n"
            "frontend f from web\n    bind 127.0.0.1:1 name x\n    timeout client 7s\n    log 127.0.0.1:515 local0\n    http-request deny if { path / }\n"
            "backend b from web\n    timeout server 1s\n    default-server weight 3\n    server s 127.0.0.1:2 check\n    no log\n"
            "frontend g from base\n    bind 127.0.0.1:3\n    timeout client 1s\n    timeout client 2s\n    nonsense\n")
    path = folder.file("a.cfg", text)

    def about(line):
        status, out, err = run(binary, "explain", "-f", path, str(line))
        assert status == 0, err
        return out.replace(path, "a.cfg")

    first = about(2)
    assert "a.cfg:2: timeout client 5s\n  in a.cfg:1: defaults base\n" in first, first
    assert "is replaced in a.cfg:9: frontend f from web, by a.cfg:11: timeout client 7s\n" in first, first
    assert "holds in" not in first and "Words of proxies: defaults, frontend, listen." in first, first
    assert "  holds in a.cfg:9: frontend f from web\n  holds in a.cfg:14: backend b from web\n" in about(7)
    assert "  replaces a.cfg:8: timeout client 9s\n" in about(11)
    assert "  comes after a.cfg:5: log 127.0.0.1:514 local0\n" in about(12)
    assert "  is replaced by a.cfg:22: timeout client 2s\n" in about(21)
    server = about(17)
    assert "begins with a.cfg:3: default-server inter 9s\n  begins with a.cfg:16: default-server weight 3\n" in server, server
    assert "\ncheck\n" in server and "\nserver <name>" in server, server
    assert "\ndeny" in about(13) and "\nname <name>" in about(10)
    whole = about(9)
    inherited = whole.split("says itself")[0]
    assert "a.cfg:7: mode http" in inherited and "errorfile 503" in inherited and "timeout client" not in inherited, whole
    assert "  inherits\n    a.cfg:4: errorfile 503 /dev/null\n    a.cfg:5: log" in whole and "default-server" not in whole, whole
    assert "514" not in about(14), about(14)
    # If several sections have a setting, the nearest one applies.
    frontend = folder.file("b.cfg", "defaults a\n    backlog 5\ndefaults b from a\n    backlog 6\nfrontend f from b\n    bind 127.0.0.1:1\n")
    whole = run(binary, "explain", "-f", frontend, "5")[1]
    assert "backlog 6" in whole and "backlog 5" not in whole, whole
    assert "error: unknown keyword 'nonsense'" in about(23) and "[C101]" in about(23)
    for number, why in ((99, "the file has 23 lines"), (0, "the file has 23 lines")):
        status, out, err = run(binary, "explain", "-f", path, str(number))
        assert status == 1 and why in err, err
    for words in (["-f", path, "99"], ["-f", path], ["-f", path, "x"], ["-f", "2"]):
        status, out, err = run(binary, "explain", *words)
        assert status == 1 and out == "" and err, (words, out)


def test_explain_describes_the_expressions_of_a_line(binary, folder):
    """The condition of the line, group by group; its fetches and converters; the ACLs, tables, rules and backends that it names."""
    text = (HEAD + "frontend f\n    bind 127.0.0.1:1\n    acl api path_beg /api\n    acl api path /v1\n    http-request track-sc0 src table t\n"
            "    http-request deny if { sc_http_req_rate(0) gt 10 } !api or LOCALHOST\n    http-request set-header X-Net %[src,ipmask(24)]-%ci\n"
            "    use_backend b unless { hdr(host) -i a.example }\n    http-request set-var(txn.a) path,lower\n    http-request set-header path x\n\n# a\n"
            "backend b\n    server s 127.0.0.1:2\nbackend t\n    stick-table type ip size 1k store http_req_rate(10s)\n")
    path = folder.file("a.cfg", text)

    def about(number):
        return run(binary, "explain", "-f", path, str(number))[1].replace(path, "a.cfg")

    deny = about(11)
    for part in ("if all of these hold:\n    sc_http_req_rate(0) gt 10\n      sc_http_req_rate: ", "\n    not api\n      a.cfg:8: acl api path_beg /api\n",
                 "      a.cfg:9: acl api path /v1\n", "  or this:\n    LOCALHOST\n",
                 "  names a.cfg:10: http-request track-sc0 src table t\n  names a.cfg:21: stick-table type ip"):
        assert part in deny, (part, deny)
    header = about(12)
    assert "src: " in header and "ipmask: " in header and "ci: " in header, header
    route = about(13)
    assert "unless this holds:\n    hdr(host) -i a.example\n" in route and "names a.cfg:18: backend b" in route, route
    assert "path: " in about(14) and "lower: " in about(14), about(14)
    assert "path: " not in about(15), about(15)
    assert "path_beg: " in about(8) and "names a.cfg:21: stick-table" in about(10), about(10)
    for number, why in ((16, "it is empty"), (17, "it is a comment")):
        status, _, err = run(binary, "explain", "-f", path, str(number))
        assert status == 1 and why in err, err


def test_the_dump_of_option_dC_is_an_equivalent_configuration(binary, folder):
    """The output of -dC is a valid configuration with the same output: quotes, escapes, variables, conditional blocks."""
    odd = ("global\n    setenv PORT 1\n    presetenv NAME 'a b'\n" + HEAD + "frontend f\n    bind \"127.0.0.1:${PORT}\"\n"
           "    http-request return status 200 content-type text/plain lf-string \"a\\\"b'c # %[path] \\\\ \\$x\"\n"
           "    http-request deny if { path -m reg '^/a\\.b #[\"]$' } { hdr(x) it\\'s\\ so }\n"
           "    .if defined(PATH)\n    http-request set-header A \"$NAME\"\n    .else\n    nonsense\n    .endif\n")
    paths = [folder.file("odd.cfg", odd)] + sorted(glob.glob(os.path.join(ROOT, "doc", "examples", "*.cfg")))
    assert len(paths) > 10, paths
    site = Authority(folder).issue("one.example")
    for path in paths:
        text = open(path).read().replace("user weir\n", "user daemon\n").replace("group weir\n", "group daemon\n")
        text = text.replace("config /etc/weir/", os.path.join("config " + ROOT, "doc", "examples", ""))
        path = folder.file("tried.cfg", text.replace("/etc/weir/site.pem", site))
        status, dump, err = run(binary, "-c", "-dC", "-q", "-f", path)
        assert (status, dump) == (0, ""), err
        status, dump, err = run(binary, "-c", "-dC", "-f", path)
        assert status == 0 and dump, err
        again = folder.file("again.cfg", dump)
        status, second, err = run(binary, "-c", "-dC", "-f", again)
        assert status == 0 and second == dump, (path, err, dump, second)


def test_configurations_of_the_manual_are_valid(binary, folder):
    """Each block of the hand-written pages that is marked as a configuration is valid and without findings of lint. The blocks marked as
    engines are the scopes of one file."""
    site, found = Authority(folder).issue("one.example"), 0
    os.chmod(site, 0o600)
    log = os.path.join(folder.path, "dev-log")
    daemon = log_socket(log)
    for page in sorted(glob.glob(os.path.join(ROOT, "doc", "manual", "src", "*.md"))):
        engines = folder.file("engines.conf", "".join(block.split("```")[0] for block in open(page).read().split("```spoe\n")[1:]))
        for block in open(page).read().split("```haproxy\n")[1:]:
            text = block.split("```")[0].replace("/etc/weir/site.pem", site).replace("config /etc/weir/engines.conf", f"config {engines}")
            text = text.replace("log /dev/log ", f"log {log} ")
            # The packages make this user and this group.
            text = text.replace("user weir\n", "user daemon\n").replace("group weir\n", "group daemon\n")
            path = folder.file("a.cfg", text)
            status, out, err = run(binary, "lint", "-f", path)
            assert status == 0, (page, out, err)
            found += 1
    daemon.close()
    assert found >= 5, found


RUNNING = """
global
    stats socket {folder}/admin.sock level admin
defaults
    mode http
    timeout connect 1s
    timeout client 5s
    timeout server 5s
frontend web
    bind 127.0.0.1:{port} ssl crt {site}
    tcp-request connection reject if {{ src -f virt@blocked }}
    http-request deny if {{ path,map({folder}/hosts.map) -m found }}
    http-request track-sc0 src table addresses
    default_backend app
backend app
    server app1 127.0.0.1:{port} weight 10
    server app2 127.0.0.1:{port}
backend addresses
    stick-table type ipv6 size 1k expire 10m store http_req_rate(10s)
"""
# Answers to a wrong command.
WRONG = ("Unknown command", "No such", "not found", "Unknown", "Invalid", "expects", "Permission denied", "Missing", "Require")


def test_commands_of_the_manual_are_answered(binary, folder):
    """Each command in the hand-written pages, on a worker's socket or a master's, in the order of the page."""
    site, port, found = Authority(folder).issue("one.example"), free_port(), 0
    folder.file("hosts.map", "")
    config = folder.file("a.cfg", RUNNING.format(folder=folder.path, port=port, site=site))
    with Master(binary, folder, config) as master:
        master.served()
        sockets = {"admin": f"{folder.path}/admin.sock", "master": master.socket}
        for page in sorted(glob.glob(os.path.join(ROOT, "doc", "manual", "src", "*.md"))):
            for command, door in re.findall(r'^ *echo "([^"]+)" \| socat - /run/weir/(\w+)\.sock', open(page).read(), re.M):
                command = command.replace("/etc/weir/site.pem", site).replace("/etc/weir/hosts.map", f"{folder.path}/hosts.map")
                answer = ask(sockets[door], command)
                assert not any(word in answer for word in WRONG if not answer.startswith("#")), (page, command, answer[:300])
                found += 1
    assert found > 20, found


def test_the_getting_started_page_works_as_written(binary, folder):
    """Both configurations of the page: without servers, with them, over TLS, from plain HTTP, and above the limit of requests."""
    page = open(os.path.join(ROOT, "doc", "manual", "src", "getting-started.md")).read()
    first, second = [block.split("```")[0] for block in page.split("```haproxy\n")[1:]]
    plain, port = free_port(), free_port()
    ports = [free_port(), free_port()]
    text = first.replace(":8080", f"127.0.0.1:{port}").replace(":8001", f":{ports[0]}").replace(":8002", f":{ports[1]}")
    with Program(binary, "-f", folder.file("first.cfg", text)) as program:
        program.ready(port)
        assert request(port).startswith(b"HTTP/1.1 503")
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
    with Origin(head + b"one") as one, Origin(head + b"two") as two:
        sites = [one, two]
        for index, site in enumerate(sites):
            text = text.replace(f"127.0.0.1:{ports[index]}", f"127.0.0.1:{site.port}")
        with Program(binary, "-f", folder.file("first.cfg", text)) as program:
            program.ready(port)
            assert wait_until(lambda: {body(port) for _ in range(8)} == {b"one", b"two"})
        certificate = Authority(folder).issue("one.example")
        os.chmod(certificate, 0o600)
        root = os.geteuid() == 0
        changes = {"bind :80": f"bind 127.0.0.1:{plain}", "bind :443": f"bind 127.0.0.1:{port}", "/etc/weir/site.pem": certificate, "/run/weir/admin.sock": f"{folder.path}/admin.sock",
                   "192.0.2.11:8080": f"127.0.0.1:{sites[0].port}", "192.0.2.12:8080": f"127.0.0.1:{sites[1].port}",
                   "user weir": "uid 65534" if root else "", "group weir": "gid 65534" if root else "", "chroot auto": "chroot auto" if root else ""}
        for before, after in changes.items():
            assert before in second, before
            second = second.replace(before, after)
        with Program(binary, "-f", folder.file("second.cfg", second)) as program:
            program.ready(port)
            answer = request(plain)
            assert answer.startswith(b"HTTP/1.1 301") and b"location: https://x/" in answer.lower(), answer
            with connect(port) as connection:
                answer = ask_over(connection)
            assert answer.startswith(b"HTTP/1.1 200") and b"Strict-Transport-Security: max-age=31536000" in answer and answer.endswith((b"one", b"two")), answer
            ask(f"{folder.path}/admin.sock", "disable server app/app1")
            with connect(port) as connection:
                assert ask_over(connection).endswith(b"two")
            statuses = [request(plain).split()[1] for _ in range(110)]
            assert statuses[0] == b"301" and statuses[-1] == b"301", "a redirection comes before the limit"
            with connect(port) as connection:
                text = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 110 + b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                answers = re.findall(rb"^HTTP/1\.1 (\d+)", ask_over(connection, text), re.M)
            assert answers[0] == b"200" and answers[-1] == b"429", answers


def body(port):
    """The body of the answer to a plain request."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return read_all(connection).rsplit(b"\r\n\r\n", 1)[-1]
