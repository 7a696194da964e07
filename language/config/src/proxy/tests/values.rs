//! Values in lines arrive in the model.

use crate::testing::check;
use weir_model::*;

#[test]
fn cookies_of_redirects_have_the_path_of_the_whole_site() {
    for (keyword, expected) in [
        ("set-cookie", "; path=/;"),
        ("set-cookie-fmt", "; path=/;"),
        ("clear-cookie", "; path=/; Max-Age=0;"),
    ] {
        let outcome = check("listen l", &format!("redirect prefix / {keyword} a=1"), &[]);
        let cookie = outcome.proxies[1].redirects[0].redirect.cookie.as_ref().expect("a cookie");
        assert_eq!(cookie.attributes, expected, "{keyword}");
    }
}

#[test]
fn keyword_values_are_stored_in_the_model() {
    let outcome = check(
        "listen l",
        "cookie SRV insert indirect nocache maxidle 30m ;; retry-on conn-failure 503 ;; option redispatch 2 ;; \
         hash-type consistent ;; source 10.0.0.1:1000-2000 interface eth0 ;; option splice-auto ;; http-reuse always ;; \
         server s 10.0.0.2:+80 weight 0 backup source 10.0.0.3 send-proxy-v2 proxy-v2-options crc32c minconn 5 ;; \
         capture request header Host len 10 ;; option http-server-close ;; \
         redirect prefix /a%20b code 301 drop-query set-cookie a=1 if TRUE",
        &[],
    );
    let proxy = &outcome.proxies[1];
    let settings = &proxy.settings;
    let cookie = settings.cookie.as_ref().unwrap();
    assert_eq!((cookie.mode, cookie.indirect, cookie.no_cache), (CookieMode::Insert, true, true));
    assert_eq!(cookie.max_idle, std::time::Duration::from_secs(1800));
    assert!(settings.retry_on.contains_status(503) && settings.retry_on.needs_replay());
    assert_eq!(settings.options.redispatch, Redispatch::Every(2));
    assert_eq!((settings.hash_type.method, settings.hash_type.avalanche), (HashMethod::Consistent, true));
    assert_eq!(settings.source.as_ref().unwrap().last_port, 2000);
    assert_eq!(settings.options.reuse, Reuse::Always);
    assert_eq!(settings.options.connection_mode, Some(ConnectionMode::ServerClose));
    let server = &proxy.servers[0];
    assert!(matches!(server.address, ServerAddress::Inet { port: ServerPort::Mapped(80), .. }));
    assert_eq!((server.settings.weight, server.settings.backup, server.settings.maxconn), (0, true, 5));
    assert_eq!(server.settings.send_proxy, Some(SendProxy::V2));
    assert!(server.settings.proxy_v2.as_ref().unwrap().crc32c);
    assert_eq!(proxy.captures.request.len(), 1);
    let redirect = &proxy.redirects[0].redirect;
    assert_eq!(redirect.value.constant(), Some(&b"/a%20b"[..]));
    assert_eq!((redirect.status, redirect.drop_query), (301, true));
    let cookie = redirect.cookie.as_ref().unwrap();
    assert_eq!((cookie.format.constant(), cookie.attributes), (Some(&b"a=1"[..]), "; path=/;"));
}

#[test]
fn parses_option_forwarded() {
    let outcome = check("backend b", "option forwarded", &[]);
    let forwarded = outcome.proxies[1].settings.options.forwarded.clone().expect("it is set");
    assert!(
        forwarded.proto && forwarded.source.is_some() && forwarded.by.is_none() && forwarded.host.is_none()
    );
    let outcome = check("backend b", "option forwarded host-expr src by for-expr src for_port", &[]);
    let forwarded = outcome.proxies[1].settings.options.forwarded.clone().expect("it is set");
    assert_eq!(
        (forwarded.proto, forwarded.expressions().count(), forwarded.source_port.is_some()),
        (false, 2, true)
    );
    let off = check("backend b", "option forwarded ;; no option forwarded", &[]);
    assert!(off.proxies[1].settings.options.forwarded.is_none());
}

#[test]
fn a_repeated_stats_auth_user_keeps_the_first_password() {
    let outcome = check(
        "backend b",
        "mode http ;; stats auth a:1 ;; stats auth b:2 ;; stats auth a:3",
        &["W parsing [t.cfg:11] : 'stats auth' : ignoring duplicated user 'a'."],
    );
    let users = &outcome.proxies.last().expect("a backend").settings.stats.as_ref().expect("a page").users;
    assert_eq!(format!("{users:?}"), r#"[("a", "1"), ("b", "2")]"#);
}
