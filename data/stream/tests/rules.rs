//! The effects of rules and options on forwarded requests and responses.

mod support;

use support::{HTTP, plain, plain_tcp, run};

const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// The server may need more of the request to respond: inspecting its response must not hold back the client's bytes.
#[test]
fn a_request_passes_while_the_response_is_inspected() {
    let rules = "tcp-response inspect-delay 5s\n \
        acl two_bytes res.payload(0,2) -m found\n tcp-response content reject unless two_bytes\n \
        tcp-response content set-var(res.first) res.payload(0,2)\n \
        acl starts_well var(res.first) -m str ok\n tcp-response content reject unless starts_well";
    run(plain_tcp(rules), |world| async move {
        let mut client = world.client();
        client.send("one").await;
        let mut server = world.accept("s1").await;
        server.expect("one").await;
        client.send("two").await;
        server.expect("two").await;
        server.send("o").await;
        assert!(client.is_quiet());
        server.send("k then").await;
        client.expect("ok then").await;
        client.finish();
        server.closed().await;
        server.finish();
        client.closed().await;
        world.check_idle().await;
    });
}

/// `http-error` with the default message for a status means the built-in one.
#[test]
fn an_error_message_may_be_the_default_one() {
    let text = format!(
        "{HTTP}frontend front\n bind 127.0.0.1:1\n http-error status 403 default-errorfiles\n \
         http-request deny\n"
    );
    run(text, |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        client.finish();
        let reply = client.rest().await;
        assert!(reply.starts_with("HTTP/1.1 403 Forbidden\r\ncontent-length: 93\r\n"), "{reply}");
    });
}

#[test]
fn a_strict_normalizer_refuses_a_broken_target() {
    let rules = "http-request normalize-uri percent-to-uppercase strict";
    let text = format!("global\n expose-experimental-directives\n{}", plain(rules));
    run(text, |world| async move {
        let mut client = world.client();
        client.send("GET /%zz HTTP/1.1\r\nhost: x\r\n\r\n").await;
        client.finish();
        let reply = client.rest().await;
        assert!(reply.starts_with("HTTP/1.1 400 Bad request\r\n"), "{reply}");
    });
}

#[test]
fn local_responses_omit_empty_fields() {
    let text = format!(
        "{HTTP}frontend front\n bind 127.0.0.1:1\n \
         http-request return status 200 hdr x-none %[req.hdr(none)] hdr x-host %[req.hdr(host)]\n"
    );
    run(text, |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        client.expect("HTTP/1.1 200 OK\r\nx-host: x\r\ncontent-length: 0\r\n\r\n").await;
    });
}

#[test]
fn a_fragment_passes_only_where_a_rule_says_what_becomes_of_it() {
    let text = |rule: &str| format!("global\n expose-experimental-directives\n{}", plain(rule));
    run(text("http-request normalize-uri fragment-encode"), |world| async move {
        let mut client = world.client();
        client.send("GET /a#b HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.expect("GET /a%23b HTTP/1.1\r\nhost: x\r\n\r\n").await;
    });
    run(text("http-request normalize-uri path-strip-dot"), |world| async move {
        let mut client = world.client();
        client.send("GET /a#b HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let reply = client.rest().await;
        assert!(reply.starts_with("HTTP/1.1 400 Bad request\r\n"), "{reply}");
    });
}

#[test]
fn monitor_uri_matches_any_form_of_the_target() {
    let text = format!(
        "{HTTP}frontend path\n bind 127.0.0.1:1\n monitor-uri /up\n\
         frontend whole\n bind 127.0.0.1:1\n monitor-uri http://x/up\n"
    );
    run(text, |world| async move {
        for (frontend, target, status) in [
            ("path", "/up", 200),
            ("path", "http://x/up", 200),
            ("path", "/Up", 503),
            ("path", "/up?", 503),
            ("whole", "http://x/up", 200),
            ("whole", "/up", 503),
        ] {
            let mut client = world.client_of(frontend);
            client.send(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
            let head = client.head().await;
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{frontend} {target} {head}");
        }
    });
}

/// Responses that rules make have response variables too.
#[test]
fn rules_on_any_response_have_its_variables() {
    let text = format!(
        "{HTTP}frontend front\n bind 127.0.0.1:1\n http-request set-var(req.a) str(before)\n \
         http-request return status 204\n http-after-response set-var(res.a) status\n \
         http-after-response set-header a <%[var(req.a)]%[var(res.a)]>\n"
    );
    run(text, |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let head = client.head().await;
        assert!(head.contains("\r\na: <204>\r\n"), "{head}");
    });
}

#[test]
fn a_new_target_names_its_host() {
    let rules = "acl moved path /moved\n acl relative path /relative\n acl pathless url y/z\n \
        http-request set-uri http://y:81/z if moved\n http-request set-uri y/z if relative\n \
        http-request set-path /whole if pathless";
    run(plain(rules), |world| async move {
        let mut client = world.client();
        client.send("GET /moved HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.expect("GET http://y:81/z HTTP/1.1\r\nhost: y:81\r\n\r\n").await;
        server.send("HTTP/1.1 204 No Content\r\n\r\n").await;
        client.head().await;
        client.send("GET /relative HTTP/1.1\r\nhost: x\r\n\r\n").await;
        server.expect("GET /whole HTTP/1.1\r\nhost: y\r\n\r\n").await;
    });
}

/// A rule that fails ends the request, or is skipped in lenient mode.
#[test]
fn a_head_that_outgrows_its_buffer_fails_its_rule() {
    let value = "v".repeat(60);
    let text = |mode: &str| {
        let rules = format!(
            "option http-buffer-request\n http-request strict-mode {mode}\n \
             http-request set-header x-one {value}\n http-request set-header x-two {value}"
        );
        format!("global\n tune.bufsize 2048\n tune.maxrewrite 128\n{}", plain(&rules))
    };
    let request = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2000\r\n\r\n{}", "b".repeat(2000));
    let strict = request.clone();
    run(text("on"), |world| async move {
        let mut client = world.client();
        client.send(strict).await;
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 500 Internal Server Error\r\n"), "{head}");
    });
    run(text("off"), |world| async move {
        let mut client = world.client();
        client.send(request).await;
        let head = world.accept("s1").await.head().await;
        assert!(head.contains("x-one: v") && !head.contains("x-two"), "{head}");
    });
}

/// Compares with the results of HAProxy 2.6 for the same messages.
#[test]
fn req_len_and_res_len_match_the_reference() {
    let rules = "option http-buffer-request\n http-request set-header l %[req.len]\n http-response set-header l %[res.len]";
    run(plain(rules), |world| async move {
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.expect("GET / HTTP/1.1\r\nHost: a\r\nl: 38\r\n\r\n").await;
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Srv: A\r\n\r\nok").await;
        client.expect("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Srv: A\r\nl: 57\r\n\r\nok").await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789").await;
        server.expect("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nl: 65\r\n\r\n0123456789").await;
    });
}

/// A line without values of the end is written before the response is sent.
#[test]
fn a_log_line_is_written_once_all_is_known() {
    let lines = "log-format \"%r %s %hr\"\n http-request capture req.hdr(host) len 9";
    run(plain(lines), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await;
        client.head().await;
        assert_eq!(world.log().await, "GET / HTTP/1.1 s1 {x}");
        server.send("123456789").await;
        client.expect("123456789").await;
        client.finish();
        client.closed().await;
        assert!(world.is_quiet());
    });
}

/// When the line is written another stream has the connection to the server, but its source address is still known.
#[test]
fn a_log_line_says_where_the_server_was_connected_from() {
    run(plain("log-format \"%bi %[bc_src] %B %lc\""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send("HTTP/1.1 204 No Content\r\n\r\n").await;
        client.head().await;
        assert_eq!(world.log().await, "127.0.0.1 127.0.0.1 42 0");
        client.finish();
        client.closed().await;
    });
}

/// Checks the header `x` of the response to a request with these rules, under these limits: the contents of each variable.
#[track_caller]
fn check_variables(limits: &str, rules: &str, expected: &'static str) {
    let text = format!(
        "global\n{limits}\n{}",
        plain(&format!(
            "{rules}\n http-request return status 200 hdr x [%[var(sess.a)],%[var(txn.a)],%[var(req.a)]]"
        ))
    );
    run(text, move |world| async move {
        for _ in 0..3 {
            let mut client = world.client();
            client.send("GET / HTTP/1.1\r\nconnection: close\r\n\r\n").await;
            let response = client.rest().await;
            assert!(response.contains(&format!("x: {expected}\r\n")), "{response}");
        }
        world.check_idle().await;
        assert_eq!(world.instance.variable_bytes.load(std::sync::atomic::Ordering::Relaxed), 0);
    });
}

#[test]
fn variables_take_no_more_than_they_may() {
    let text = "x".repeat(200);
    let set = |scopes: &[&str]| {
        let rules = scopes.iter().map(|scope| format!(" http-request set-var({scope}.a) str({text})\n"));
        rules.collect::<String>()
    };
    let all = &set(&["req", "txn", "sess"]);
    let x = Box::leak(text.clone().into_boxed_str()) as &str;
    let shown = |sess: bool, txn: bool, req: bool| -> &'static str {
        let one = |there: bool| if there { x } else { "" };
        format!("[{},{},{}]", one(sess), one(txn), one(req)).leak()
    };
    check_variables("", all, shown(true, true, true));
    check_variables(" tune.vars.reqres-max-size 100", all, shown(true, true, false));
    // Wider scopes include the bytes of narrower ones.
    check_variables(" tune.vars.txn-max-size 300", all, shown(true, false, true));
    check_variables(" tune.vars.sess-max-size 300", all, shown(false, false, true));
    check_variables(" tune.vars.sess-max-size 300", &set(&["sess", "txn", "req"]), shown(true, false, false));
    check_variables(" tune.vars.proc-max-size 300", all, shown(false, false, true));
    check_variables(" tune.vars.global-max-size 300", &set(&["txn", "req"]), shown(false, true, false));
    // Unsetting a variable makes room.
    let instead = format!("{} http-request unset-var(req.a)\n{}", set(&["req"]), set(&["txn"]));
    check_variables(" tune.vars.proc-max-size 400", &instead, shown(false, true, false));
}

/// Rules on content start over with every piece: data that was missing at first is seen later.
#[test]
fn content_rules_begin_anew_with_more_data() {
    let rules = "tcp-request inspect-delay 5s\n tcp-request content set-var(txn.first) req.payload(0,1)\n \
        tcp-request content accept if { req.len gt 3 }\n tcp-request content reject\n \
        log-format \"%[var(txn.first)]\"";
    run(plain_tcp(rules), |world| async move {
        let mut client = world.client();
        client.send("a").await;
        assert!(world.origin("s1").is_untouched());
        client.send("bcd").await;
        let mut server = world.accept("s1").await;
        server.expect("abcd").await;
        assert_eq!(world.log().await, "a");
        server.finish();
        client.finish();
        client.closed().await;
    });
}

/// Rules also match a request in absolute form (RFC 9112, 3.2.2).
#[test]
fn a_target_follows_the_host_that_a_rule_gives() {
    fn check(rule: &str, request: &'static str, expected: &'static str) {
        run(plain(rule), move |world| async move {
            let mut client = world.client();
            client.send(request).await;
            let mut server = world.accept("s1").await;
            server.expect(expected).await;
        });
    }
    let absolute = "GET http://a.example/x?y HTTP/1.1\r\nhost: a.example\r\n\r\n";
    let connect = "CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\n\r\n";
    let expected = "GET http://b.example/x?y HTTP/1.1\r\nhost: b.example\r\n\r\n";
    check("http-request set-header host b.example", absolute, expected);
    check("http-request replace-header Host a.example b.example", absolute, expected);
    check("http-request replace-value host ^a b.example", absolute, expected);
    let expected = "GET http://a.example/x?y HTTP/1.1\r\n\r\n";
    check("http-request del-header host", absolute, expected);
    let expected = "CONNECT b.example:443 HTTP/1.1\r\nhost: b.example\r\n\r\n";
    check("http-request set-header host b.example", connect, expected);
    let expected = "CONNECT b.example:99 HTTP/1.1\r\nhost: b.example:99\r\n\r\n";
    check("http-request set-header host b.example:99", connect, expected);
    let origin = "GET /x HTTP/1.1\r\nhost: a\r\n\r\n";
    check("http-request set-header host \"b c\"", origin, "GET /x HTTP/1.1\r\nhost: b c\r\n\r\n");
}

/// Editing a field cannot create another request line.
#[test]
fn a_host_that_is_invalid_in_a_target_fails_the_request() {
    for host in ["b c", "b/c", "u@b", ""] {
        run(plain(&format!("http-request set-header host \"{host}%[var(txn.none)]\"")), |world| async move {
            let mut client = world.client();
            client.send("GET http://a.example/x HTTP/1.1\r\nhost: a.example\r\n\r\n").await;
            let reply = client.rest().await;
            assert!(reply.starts_with("HTTP/1.1 500 "), "{reply}");
        });
    }
}

/// `redir` of a server applies to clients that used GET or HEAD, whatever method rules set.
#[test]
fn a_server_redirects_by_the_method_of_the_client() {
    let text = |method: &str| {
        format!(
            "{HTTP}listen front\n bind 127.0.0.1:1\n http-request set-method {method}\n \
             server s1 {{s1}} redir http://r.example\n"
        )
    };
    run(text("FOO"), |world| async move {
        let mut client = world.client();
        client.send("GET /a HTTP/1.1\r\nhost: x\r\n\r\n").await;
        client.finish();
        let reply = client.rest().await;
        assert!(reply.starts_with("HTTP/1.1 302 Found\r\n"), "{reply}");
        assert!(reply.contains("location: http://r.example/a\r\n"), "{reply}");
    });
    run(text("GET"), |world| async move {
        let mut client = world.client();
        client.send("FOO /a HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.expect("GET /a HTTP/1.1\r\nhost: x\r\n\r\n").await;
    });
}
