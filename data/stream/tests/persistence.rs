//! Server selection by `use-server` rules, cookies, and the forms of `persist`, and its log. All expectations are
//! results of HAProxy 2.6 with the same configuration and requests.

mod support;

use std::rc::Rc;

use support::{HTTP, TCP, World, run};

/// Two servers that answer with their names and the cookies that they got, `s2` being down.
fn backend_configuration(lines: &str) -> String {
    format!(
        "{HTTP} log-format \"%b/%s %ST %tsc\"\n retries 2\nfrontend front\n bind 127.0.0.1:1\n \
        http-request deny if {{ path /front-deny }}\n default_backend back\n\
        backend back\n balance roundrobin\n{lines}\n \
        server s1 {{s1}} cookie c1\n server s2 {{s2}} cookie c2 disabled\n server gone {{closed}} cookie c3\n"
    )
}

/// Serves `answer`, then the request's cookies, from an origin.
fn answer(world: &World, name: &'static str) {
    let origin: Rc<support::Origin> = world.origin(name);
    support::answer_with(origin, move |request| {
        let cookies: Vec<&str> = request.lines().filter(|line| line.starts_with("cookie:")).collect();
        let body = format!("{name} {}", cookies.join("|"));
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
}

/// Sends a request with these fields (`path` first). Checks that the response contains `expected`, and the log line.
#[track_caller]
fn check(lines: &str, cases: &'static [(&'static str, &'static str, &'static str)]) {
    run(backend_configuration(lines), move |world| async move {
        answer(&world, "s1");
        answer(&world, "s2");
        for (fields, expected, log) in cases {
            let mut client = world.client();
            let (path, fields) = fields.split_once(' ').unwrap_or((fields, ""));
            let fields: String =
                fields.split(", ").filter(|f| !f.is_empty()).map(|f| format!("{f}\r\n")).collect();
            client.send(format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{fields}\r\n")).await;
            let response = client.rest().await;
            assert!(response.ends_with(expected), "{path} {fields}: {response}");
            assert_eq!(world.log().await, *log, "{path} {fields}");
        }
    });
}

#[test]
fn use_server_rules_override_cookies() {
    check(
        "cookie S insert indirect\n use-server s1 if { path /one }\n use-server s2 if { path /two }",
        &[
            ("/one cookie: S=c1", "s1 ", "back/s1 200 --UN"),
            ("/one cookie: S=c2; a=b", "s1 cookie: a=b", "back/s1 200 --UN"),
            ("/one", "s1 ", "back/s1 200 --NN"),
            // A rule does not choose a server that is down, so the cookie is used.
            ("/two cookie: S=c1", "s1 ", "back/s1 200 --VN"),
            ("/ cookie: S=c1", "s1 ", "back/s1 200 --VN"),
            ("/ cookie: S=c2", "s1 ", "back/s1 200 --DI"),
        ],
    );
    check(
        "cookie S prefix\n use-server s1 if { path /one }",
        &[("/one cookie: S=c2~abc", "s1 cookie: S=abc", "back/s1 200 --UN")],
    );
}

#[test]
fn persist_and_force_persist_use_servers_that_are_down() {
    check(
        "cookie S insert indirect\n option persist\n use-server s2 if { path /two }",
        &[
            ("/two", "s2 ", "back/s2 200 --NN"),
            ("/two cookie: S=c1", "s2 ", "back/s2 200 --UN"),
            ("/ cookie: S=c2", "s2 ", "back/s2 200 --DN"),
        ],
    );
    check(
        "cookie S insert indirect\n force-persist if { hdr(y) f }\n ignore-persist if { hdr(y) i }\n \
        use-server s2 if { path /two }",
        &[
            ("/two", "s1 ", "back/s1 200 --NI"),
            ("/two y: f", "s2 ", "back/s2 200 --NN"),
            ("/two y: f, cookie: S=c1", "s2 ", "back/s2 200 --UN"),
            ("/ y: f, cookie: S=c2", "s2 ", "back/s2 200 --DN"),
        ],
    );
}

#[test]
fn a_server_forced_by_persistence_is_never_redispatched() {
    check(
        "cookie S insert indirect\n option redispatch 1\n force-persist if { hdr(y) f }\n \
        use-server gone if { path /gone }",
        &[
            ("/ cookie: S=c3", "s1 ", "back/s1 200 --DI"),
            ("/gone cookie: S=c1", "s1 ", "back/s1 200 --UI"),
            ("/ y: f, cookie: S=c3", "</html>\n", "back/gone 503 SCVN"),
        ],
    );
    // Nor is a server that is down the only one to try.
    check(
        "cookie S insert indirect\n option redispatch 1\n option persist\n use-server gone if { path /gone }\n \
        server off {closed} cookie c4 disabled",
        &[("/ cookie: S=c4", "s1 ", "back/s1 200 --DI")],
    );
}

#[test]
fn the_cookie_state_is_logged_for_every_ending() {
    check(
        "cookie S insert\n http-request deny if { path /deny }\n http-request return if { path /return }\n \
        http-request auth if { path /auth }\n http-response deny if { res.hdr(content-length) 3 }",
        &[
            ("/front-deny cookie: S=c1", "</html>\n", "front/<NOSRV> 403 PR--"),
            ("/deny", "</html>\n", "back/<NOSRV> 403 PRNN"),
            ("/deny cookie: S=c1", "</html>\n", "back/s1 403 PRVN"),
            ("/return cookie: S=c1", "\r\n\r\n", "back/<NOSRV> 200 LRNN"),
            ("/auth", "</html>\n", "back/<NOSRV> 401 LRNN"),
            ("/", "</html>\n", "back/s1 502 PHNN"),
            ("/ cookie: S=c1", "s1 cookie: S=c1", "back/s1 200 --VN"),
        ],
    );
    check(
        "cookie S\n http-request deny if { path /deny }",
        &[("/deny", "</html>\n", "back/<NOSRV> 403 PR--")],
    );
}

#[test]
fn http_response_rules_do_not_see_the_inserted_cookie() {
    check(
        "cookie S insert\n http-response set-header x %[res.fhdr(set-cookie)]\n \
        http-after-response set-header y %[res.fhdr(set-cookie)]",
        &[(
            "/",
            "x: \r\nset-cookie: S=c1; path=/\r\ny: S=c1; path=/\r\nconnection: close\r\n\r\ns1 ",
            "back/s1 200 --NI",
        )],
    );
}

/// The first RDP packet, with a cookie.
fn rdp_packet(cookie: &str) -> Vec<u8> {
    let line = format!("Cookie: {cookie}\r\n");
    let length = u8::try_from(11 + line.len()).expect("a short cookie");
    [&[3, 0, 0, length, length - 5, 0xe0, 0, 0, 0, 0, 0], line.as_bytes()].concat()
}

#[test]
fn persist_rdp_cookie_returns_to_the_server_of_the_token() {
    let text = format!(
        "{TCP}listen front\n bind 127.0.0.1:1\n balance roundrobin\n persist rdp-cookie\n \
        tcp-request inspect-delay 5s\n tcp-request content accept if {{ req.rdp_cookie -m found }}\n \
        server s1 {{s1}}\n server s2 {{s2}}\n"
    );
    run(text, |world| async move {
        for name in ["s2", "s2", "s1", "s2"] {
            let port = world.origin(name).address().port();
            let token = format!("msts={}.{}.0000", u32::from_le_bytes([127, 0, 0, 1]), port.swap_bytes());
            let packet = rdp_packet(&token);
            let mut client = world.client();
            client.send(&packet).await;
            let mut server = world.accept(name).await;
            server.expect(&packet).await;
        }
    });
}

#[test]
fn balance_rdp_cookie_hashes_the_user() {
    let text = format!(
        "{TCP}listen front\n bind 127.0.0.1:1\n balance rdp-cookie(mstshash)\n \
        tcp-request inspect-delay 5s\n tcp-request content accept if {{ req.rdp_cookie -m found }}\n \
        log-format %s\n server s1 {{s1}}\n server s2 {{s2}}\n"
    );
    run(text, |world| async move {
        let mut seen = std::collections::BTreeSet::new();
        for user in 0..8 {
            let mut names = Vec::new();
            for _ in 0..2 {
                let mut client = world.client();
                client.send(rdp_packet(&format!("mstshash=user{user}"))).await;
                client.finish();
                client.abort();
                names.push(world.log().await);
            }
            assert_eq!(names[0], names[1], "user{user}");
            seen.insert(names.remove(0));
        }
        assert_eq!(seen.len(), 2, "all users are on {seen:?}");
    });
}
