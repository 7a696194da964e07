//! Lines that HAProxy 2.6 and later versions treat differently.

use std::time::Duration;

use crate::testing::{check, check_text};

/// Manual, 2.5.
#[test]
fn warns_about_text_after_a_time_unit() {
    let warning = |text: &str, character: char, used: &str| {
        format!(
            "W parsing [t.cfg:9] : unexpected character '{character}' after the timer value '{text}' of 'timeout client': \
             '{used}' is used. The units are us, ms, s, m, h and d."
        )
    };
    for (text, character, used, seconds) in [
        ("30sec", 'e', "30s", 30),
        ("15min", 'i', "15m", 900),
        ("1hour", 'o', "1h", 3600),
        ("2days", 'a', "2d", 172_800),
    ] {
        let outcome =
            check("frontend f", &format!("timeout client {text}"), &[&warning(text, character, used)]);
        let settings = &outcome.proxies.last().unwrap().settings;
        assert_eq!(settings.timeouts.client, Some(Duration::from_secs(seconds)), "{text}");
    }
    check(
        "frontend f",
        "timeout client 30S",
        &["A parsing [t.cfg:9] : unexpected character 'S' in 'timeout client'"],
    );
    check(
        "frontend f",
        "timeout client 10x",
        &["A parsing [t.cfg:9] : unexpected character 'x' in 'timeout client'"],
    );
}

/// Manual, 4.2, "timeout client".
#[test]
fn warns_about_small_timeouts_without_a_unit() {
    check(
        "frontend f",
        "timeout client 99",
        &["W parsing [t.cfg:9] : 'timeout client 99' in frontend 'f' is suspiciously small..."],
    );
    for fine in ["100", "99ms"] {
        check("frontend f", &format!("timeout client {fine}"), &[]);
    }
}

#[test]
fn reports_an_empty_argument_as_the_only_fault_of_its_line() {
    check(
        "frontend f",
        "http-request set-path \"\"",
        &[
            "A parsing [t.cfg:9]: argument number 2 at position 24 is empty and marks the end of the argument list...",
        ],
    );
}

/// Manual, 7.2: "or" may also be written in any case.
#[test]
fn the_or_operator_is_accepted_in_any_case() {
    for or in ["or", "OR", "Or", "oR", "||"] {
        check("frontend f", &format!("http-request deny if FALSE {or} TRUE"), &[]);
    }
    check(
        "frontend f",
        "http-request deny if TRUE ORR TRUE",
        &[
            "A parsing [t.cfg:9] : error detected while parsing an 'http-request deny' condition : no such ACL : 'ORR'.",
        ],
    );
}

#[test]
fn malformed_ipv4_addresses_are_rejected_instead_of_resolved() {
    let refused =
        |host: &str| format!("A parsing [t.cfg:9] : 'bind' : invalid address: '{host}' in '{host}:80'");
    for host in
        ["300.1.1.1", "1.2.3.4.5", "127.0.0.256", "a.1", "1.2.65536", "4294967296", "01.2.3.4", "1..2"]
    {
        check("frontend f", &format!("bind {host}:80"), &[&refused(host)]);
    }
    for host in ["127.1", "1.2.65535", "4294967295", "10.0.0.1", "a1", "1.a"] {
        check("frontend f", &format!("bind {host}:80"), &[]);
    }
    let outcome = check("frontend f", "bind 127.1:80", &[]);
    let bind = outcome.proxies.last().unwrap().binds.last().unwrap();
    assert!(format!("{:?}", bind.addresses).contains("127.0.0.1"), "{:?}", bind.addresses);
}

#[test]
fn an_unsupported_no_prefix_is_rejected_before_the_section_check() {
    check(
        "backend b",
        "no option tcplog",
        &["A parsing [t.cfg:8]: negation/default is not supported for option 'tcplog'."],
    );
    check(
        "backend b",
        "declare capture request len 5",
        &["A parsing [t.cfg:8] : 'declare' not allowed because backend 'b' has no frontend capability."],
    );
    check(
        "frontend f",
        "stats show-node ::1",
        &["A parsing [t.cfg:9] : 'stats show-node' invalid node name..."],
    );
}

/// Manual, 4.1: server-state-file-name may be in defaults.
#[test]
fn server_state_file_name_is_inherited_from_defaults() {
    let outcome = check_text(
        "defaults\n server-state-file-name x\nbackend b\nbackend c\n server-state-file-name\n",
        &[],
    );
    let names: Vec<_> = outcome.proxies.iter().map(|proxy| proxy.server_state_file.as_deref()).collect();
    assert_eq!(names, [Some("x"), None]);
}

/// HAProxy 3.2 warns as well.
#[test]
fn warns_about_proxy_settings_without_effect() {
    check(
        "listen l",
        "default_backend other ;; server s 127.0.0.1:80",
        &[
            "W In proxy 'l', the 'default_backend' rule always has precedence over the servers, which will never be used.",
        ],
    );
    check("listen l", "default_backend other", &[]);
    check(
        "frontend f",
        "log-format-sd %%",
        &["W log format ignored for frontend 'f' since it has no log address."],
    );
    check("frontend f", "log 127.0.0.1 local0 ;; log-format-sd %%", &[]);
    check(
        "frontend f",
        "option accept-invalid-http-request",
        &["W parsing [t.cfg:9]: option 'accept-invalid-http-request' is deprecated. please use 'option \
         accept-unsafe-violations-in-http-request' if absolutely needed."],
    );
    check("frontend f", "no option accept-invalid-http-request", &[]);
    let all = "retry-on conn-failure empty-response response-timeout";
    check("backend b", &format!("server s 127.0.0.1:80 tfo ;; {all}"), &[]);
    check(
        "backend b",
        "server s 127.0.0.1:80 tfo ;; retry-on conn-failure empty-response",
        &[
            "W [t.cfg:8] : 'server b/s' : server has tfo activated, the backend should be configured with at least...",
        ],
    );
}

#[test]
fn allow_0rtt_on_servers_has_an_effect_only_with_http_1() {
    check("backend b", "mode http ;; server s 127.0.0.1:443 ssl allow-0rtt alpn http/1.1", &[]);
    let never = "W [t.cfg:9] : 'server b/s' : 'allow-0rtt' has no effect here: ";
    let http2 = format!("{never}nothing is sent early where HTTP/2 may be spoken.");
    check("backend b", "mode http ;; server s 127.0.0.1:443 ssl allow-0rtt alpn h2,http/1.1", &[&http2]);
    check("backend b", "mode http ;; server s 127.0.0.1:443 ssl allow-0rtt proto h2", &[&http2]);
    let tcp = format!("{never}only HTTP requests are sent early.");
    check("backend b", "mode tcp ;; server s 127.0.0.1:443 ssl allow-0rtt", &[&tcp]);
}
