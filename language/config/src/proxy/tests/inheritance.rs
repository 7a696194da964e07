//! The settings that proxies inherit from `defaults` sections.

use crate::testing::actions::Deny;
use crate::testing::{check_text, read};
use weir_model::*;

#[test]
fn proxies_inherit_from_their_defaults_section() {
    let text = "defaults base\n mode http\n timeout client 5s\n retries 7\n option dontlognull\n log global\n \
                balance leastconn\n default-server maxconn 9\n stats uri /s\n\
                defaults more from base\n retries 8\n no option dontlognull\n\
                defaults\n timeout client 1s\n\
                backend a from base\n server s 1.1.1.1:1 weight 3\n\
                backend b from more\n stats hide-version\n\
                frontend c\n bind :1\n";
    let outcome = read(text);
    let [a, b, c] = &outcome.proxies[..] else { panic!("three proxies, not {:?}", outcome.messages) };
    assert_eq!((a.mode(), a.settings.retries, a.settings.options.dont_log_null), (Mode::Http, 7, true));
    assert_eq!((b.mode(), b.settings.retries, b.settings.options.dont_log_null), (Mode::Http, 8, false));
    assert_eq!(a.settings.balance.word.name, "leastconn");
    assert_eq!((a.servers[0].settings.maxconn, a.servers[0].settings.weight), (9, 3));
    assert!(!a.settings.stats.as_ref().unwrap().hide_version);
    assert!(b.settings.stats.as_ref().unwrap().hide_version);
    assert_eq!(b.settings.stats.as_ref().unwrap().uri(), "/s");
    // The anonymous section starts empty.
    assert_eq!((c.mode(), c.settings.retries), (Mode::Tcp, 3));
    assert_eq!(c.settings.timeouts.client, Some(std::time::Duration::from_secs(1)));
}

/// R29: parsers only read the defaults, so earlier proxies never change the defaults of later ones.
#[test]
fn r29_proxies_never_change_their_defaults_section() {
    let outcome = check_text(
        "defaults d\n mode http\n timeout client 5s\n errorfile 503 /dev/null\n log global\n stats uri /s\n\
         frontend a from d\n bind :1\n mode tcp\n timeout client 1s\n errorloc 503 http://x\n no log\n stats uri /t\n\
         frontend b from d\n bind :2\n",
        &["W 'stats' statement ignored for frontend 'a' as it requires HTTP mode."],
    );
    let b = &outcome.proxies[1];
    assert_eq!((b.mode(), b.settings.timeouts.client), (Mode::Http, Some(std::time::Duration::from_secs(5))));
    assert!(matches!(b.settings.errors.get(503), Some(ErrorReply::Message(_))));
    assert_eq!(b.settings.logging.targets.len(), 1);
    assert_eq!(b.settings.stats.as_ref().unwrap().uri(), "/s");
}

#[test]
fn rules_of_defaults_run_before_those_of_the_proxy() {
    let outcome = check_text(
        "defaults d\n mode http\n timeout client 1s\n acl a src 1.1.1.1\n http-request deny if a\n tcp-request inspect-delay 3s\n\
         frontend f from d\n bind :1\n http-request allow\n",
        &[],
    );
    let actions: Vec<_> = outcome.proxies[0]
        .rules(RulesetKind::HttpRequest)
        .map(|rule| (rule.action.arguments::<Deny>().is_some(), rule.at.line))
        .collect();
    assert_eq!(actions, [(true, 5), (false, 9)]);
    assert_eq!(outcome.proxies[0].tcp_request_inspect_delay(), Some(std::time::Duration::from_secs(3)));
}

#[test]
fn defaults_sections_with_rules_restrict_which_sections_may_inherit() {
    let rules = "defaults d\n mode http\n timeout client 1s\n http-request allow\n";
    check_text(
        &format!("{rules}listen l from d\n bind :1\n"),
        &[
            "A parsing [t.cfg:5]: a listen section cannot inherit from a defaults section defining TCP/HTTP rules.",
        ],
    );
    check_text(
        &format!("{rules}frontend f from d\n bind :1\nbackend b from d\n"),
        &[
            "A parsing [t.cfg:7]: frontends and backends cannot inherit from the same defaults section if it defines TCP/HTTP rules (defaults section at t.cfg:1).",
        ],
    );
    check_text(
        &format!("{rules}defaults e from d\n"),
        &[
            "A parsing [t.cfg:5]: a defaults section cannot inherit from a defaults section defining TCP/HTTP rules (defaults section at t.cfg:1).",
        ],
    );
    check_text(
        "defaults d\n tcp-response content accept\nfrontend f from d\n bind :1\n timeout client 1s\n",
        &[
            "A parsing [t.cfg:3]: a frontend section cannot inherit from a defaults section defining 'tcp-response content' rules (defaults section at t.cfg:1).",
        ],
    );
    check_text(
        "defaults d\n timeout connect 1s\n timeout server 1s\n tcp-request session accept\nbackend b from d\n",
        &[
            "A parsing [t.cfg:5]: a backend section cannot inherit from a defaults section defining 'tcp-request connection' or 'tcp-request session' rules (defaults section at t.cfg:1).",
        ],
    );
}
