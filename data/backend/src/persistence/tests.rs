//! Results of HAProxy 2.6 for the same requests and responses.

use std::time::Duration;

use super::*;

const NOW: u64 = 1_795_182_572; // awBP7

/// Servers a and b have the cookies A and B. d has D and is down. n does not have a cookie.
fn find(value: &str) -> Option<(ServerKey, bool)> {
    match value {
        "A" => Some((ServerKey::configured(0), true)),
        "B" => Some((ServerKey::configured(1), true)),
        "D" => Some((ServerKey::configured(3), false)),
        _ => None,
    }
}

fn insert() -> CookiePersistence {
    cookie(CookieMode::Insert)
}

/// The cookie without any option.
fn cookie(mode: CookieMode) -> CookiePersistence {
    CookiePersistence { name: "S".into(), mode, ..Default::default() }
}

struct Passage<'a> {
    cookie: &'a str,
    /// The cookie of the server that responds if the request's cookie designates none.
    balanced_to: Option<&'a str>,
    provided: Option<&'a str>,
    post: bool,
    other_designation: bool,
    stays: bool,
}

const PASSAGE: Passage<'_> = Passage {
    cookie: "",
    balanced_to: Some("B"),
    provided: None,
    post: false,
    other_designation: false,
    stays: false,
};

fn rules(settings: &CookiePersistence) -> CookieRules {
    CookieRules::new(&Arc::new(settings.clone()))
}

/// Runs one exchange: the letters, the edit of the server's own cookie, the added cookie.
fn run(settings: &CookiePersistence, passage: &Passage<'_>) -> String {
    let settings = rules(settings);
    let headers = (!passage.cookie.is_empty()).then_some(passage.cookie.as_bytes());
    let mut presented = settings.examine(headers, NOW, passage.stays, find);
    if passage.other_designation {
        presented = presented.unused();
    }
    let server_cookie = match presented.server {
        Some(key) if key == ServerKey::configured(0) => Some("A"),
        Some(key) if key == ServerKey::configured(3) => Some("D"),
        Some(_) => Some("B"),
        None => passage.balanced_to,
    };
    let facts = ResponseFacts {
        server_cookie,
        designated: presented.server.is_some() || passage.other_designation,
        post: passage.post,
        provided: passage.provided.is_some_and(|header| settings.is_set_by(header.as_bytes())),
        wall_seconds: NOW,
    };
    let plan = settings.plan_response(&presented, &facts);
    let (third, fourth) = settings.letters(&presented, Some(&plan));
    let mut seen = format!("{third}{fourth}");
    if let Some(header) = passage.provided {
        match settings.edit_response(&plan, header.as_bytes()) {
            CookieEdit::Keep => seen += &format!(" {header}"),
            CookieEdit::Remove => {}
            CookieEdit::Replace(value) => seen += &format!(" {}", String::from_utf8_lossy(&value)),
        }
    }
    if let Some(value) = &plan.set_cookie {
        seen += &format!(" {value}");
    }
    if plan.private {
        seen += " private";
    }
    seen
}

#[track_caller]
fn check(settings: &CookiePersistence, cookie: &str, expected: &str) {
    assert_eq!(run(settings, &Passage { cookie, ..PASSAGE }), expected, "{cookie}");
}

#[test]
fn insert_mode_sets_the_cookie_if_it_is_missing_or_invalid() {
    let settings = insert();
    check(&settings, "", "NI S=B; path=/");
    check(&settings, "S=A", "VN");
    check(&settings, "S=Z", "II S=B; path=/");
    check(&settings, "S=", "II S=B; path=/");
    check(&settings, "x=1; S=B; y=2", "VN");
    check(&settings, "S=\"A\"", "II S=B; path=/");
    check(&settings, "S=A; S=B", "VN");
    check(&settings, "S=Z; S=A", "VN");
    check(&settings, "s=A", "NI S=B; path=/");
    check(&settings, "S=D", "DI S=B; path=/");
    check(&settings, "S=A|ZZZZZ|ZZZZZ", "VU S=A; path=/");
    check(&settings, "S=A|x", "VN");
    assert_eq!(run(&settings, &Passage { cookie: "S=D", stays: true, ..PASSAGE }), "DN");
}

#[test]
fn an_inserted_cookie_has_the_configured_attributes() {
    let settings = CookiePersistence {
        no_cache: true,
        http_only: true,
        secure: true,
        domains: vec![".foo.com".into(), ".bar.com".into()],
        attributes: vec!["SameSite=Lax".into()],
        ..insert()
    };
    let expected = "NI S=B; path=/; domain=.foo.com; domain=.bar.com; HttpOnly; Secure; SameSite=Lax private";
    check(&settings, "", expected);
    check(&settings, "S=A", "VN");
}

#[test]
fn maxidle_and_maxlife_expire_and_renew_the_cookie() {
    let idle = CookiePersistence { max_idle: Duration::from_secs(1_800), ..insert() };
    check(&idle, "", "NI S=B|awBP7; path=/");
    check(&idle, "S=A", "VU S=A|awBP7; path=/");
    check(&idle, "S=A|awBP7", "VN");
    check(&idle, "S=A|awBP6", "VU S=A|awBP7; path=/");
    check(&idle, "S=A|awBP8", "VN");
    check(&idle, "S=A|AAAAA", "VU S=A|awBP7; path=/");
    check(&idle, "S=A|ZZZZZ", "EI S=B|awBP7; path=/");
    check(&idle, "S=A|zzzzz", "EI S=B|awBP7; path=/");
    let life = CookiePersistence { max_life: Duration::from_secs(28_800), ..insert() };
    check(&life, "", "NI S=B|awBP7|awBP7; path=/");
    check(&life, "S=A|awBPA|awBPA", "VU S=A|awBP7|awBPA; path=/");
    check(&life, "S=A|awBPA", "VU S=A|awBP7|awBP7; path=/");
    check(&life, "S=A|awBP7|zzzzz", "OI S=B|awBP7|awBP7; path=/");
    let both = CookiePersistence {
        max_idle: Duration::from_secs(1_800),
        max_life: Duration::from_secs(28_800),
        ..insert()
    };
    check(&both, "S=A|awBPA|awBCL", "VU S=A|awBP7|awBCL; path=/");
    check(&both, "S=A||awBPA", "VU S=A|awBP7|awBPA; path=/");
    check(&both, "S=A|ZZZZZ|AAAAA", "EI S=B|awBP7|awBP7; path=/");
    check(&both, "S=A|AAAAA|ZZZZZ", "OI S=B|awBP7|awBP7; path=/");
}

#[test]
fn postonly_sets_cookies_for_posts_only() {
    let settings = CookiePersistence { post_only: true, ..insert() };
    check(&settings, "", "NN");
    check(&settings, "S=A", "VN");
    assert_eq!(run(&settings, &Passage { post: true, ..PASSAGE }), "NI S=B; path=/");
}

#[test]
fn a_server_without_a_cookie_value_expires_the_cookie_of_the_client() {
    let balanced = |cookie| Passage { cookie, balanced_to: None, ..PASSAGE };
    let void = "S=; Expires=Thu, 01-Jan-1970 00:00:01 GMT; path=/";
    assert_eq!(run(&insert(), &balanced("")), format!("NI {void}"));
    assert_eq!(run(&insert(), &balanced("S=Z")), format!("II {void}"));
}

#[test]
fn a_set_cookie_of_the_server_is_kept_rewritten_or_prefixed() {
    #[track_caller]
    fn check(settings: &CookiePersistence, cookie: &str, expected: &str) {
        let passage = Passage { cookie, provided: Some("S=foo; path=/"), ..PASSAGE };
        assert_eq!(run(settings, &passage), expected, "{cookie}");
    }
    check(&insert(), "", "NI S=B; path=/");
    check(&insert(), "S=A", "VD");
    let preserve = CookiePersistence { preserve: true, ..insert() };
    check(&preserve, "", "NP S=foo; path=/");
    check(&preserve, "S=A", "VP S=foo; path=/");
    let rewrite = cookie(CookieMode::Rewrite);
    check(&rewrite, "", "NR S=B; path=/");
    check(&rewrite, "S=A", "VR S=A; path=/");
    check(&rewrite, "S=Z", "IR S=B; path=/");
    let prefix = cookie(CookieMode::Prefix);
    check(&prefix, "", "NR S=B~foo; path=/");
    check(&prefix, "S=A~val", "VR S=A~foo; path=/");
    check(&cookie(CookieMode::Passive), "S=A", "-- S=foo; path=/");
    let odd = Passage { provided: Some("S = \"bar\" ;secure"), ..PASSAGE };
    assert_eq!(run(&rewrite, &odd), "NR S=B ;secure");
    assert_eq!(run(&prefix, &odd), "NR S=B~bar ;secure");
    let other = Passage { provided: Some("T=1"), ..PASSAGE };
    assert_eq!(run(&rewrite, &other), "NN T=1");
    let nameless = Passage { provided: Some("S=foo"), balanced_to: None, ..PASSAGE };
    assert_eq!(run(&rewrite, &nameless), "NP S=foo");
}

#[test]
fn no_cookie_is_set_if_another_rule_chose_the_server() {
    let ruled = |cookie| Passage { cookie, other_designation: true, ..PASSAGE };
    assert_eq!(run(&insert(), &ruled("")), "NN");
    assert_eq!(run(&insert(), &ruled("S=A")), "UN");
    assert_eq!(run(&insert(), &ruled("S=Z")), "UN");
}

#[test]
fn after_a_redispatch_the_cookie_names_a_downed_server() {
    let presented = rules(&insert()).examine([&b"S=A"[..]], NOW, false, find).redispatched();
    assert_eq!((presented.state, presented.server), (PresentedState::Down, None));
}

#[test]
fn removes_the_persistence_cookie_or_prefix_from_requests() {
    let indirect = CookiePersistence { indirect: true, ..insert() };
    assert_eq!(rules(&indirect).edit_request(b"S=A"), CookieEdit::Remove);
    assert_eq!(rules(&insert()).edit_request(b"S=A"), CookieEdit::Keep);
    let prefix = cookie(CookieMode::Prefix);
    assert_eq!(rules(&prefix).edit_request(b"S=A~v"), CookieEdit::Replace(b"S=v".to_vec()));
}

#[test]
fn a_dynamic_cookie_is_derived_from_the_server_address_and_key() {
    let settings = DynamicCookies { enabled: true, key: Some("foo".into()) };
    let address = ServerAddress::from("127.0.0.1:56423".parse::<std::net::SocketAddr>().unwrap());
    assert_eq!(settings.of(&address).as_deref(), Some("b5a7ac530ee14e81"));
    assert_eq!(settings.of(&ServerAddress::UNKNOWN), None);
    assert_eq!(DynamicCookies { enabled: false, ..settings.clone() }.of(&address), None);
    assert_eq!(DynamicCookies { key: None, ..settings }.of(&address), None);
}
