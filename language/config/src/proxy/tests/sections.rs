//! Section lines, and the identifiers of proxies.

use crate::testing::{check, check_text, read};

#[test]
fn reports_errors_in_section_names_and_ids() {
    check_text(
        "frontend a/b\n bind :1\n timeout client 1s\n",
        &["A parsing [t.cfg:1] : character '/' is not permitted in 'frontend' name 'a/b'."],
    );
    check_text(
        "frontend\n bind :1\n timeout client 1s\n",
        &["A parsing [t.cfg:1] : 'frontend' expects an <id> argument"],
    );
    check_text(
        "backend y from nope\n",
        &["A parsing [t.cfg:1] : defaults section 'nope' not found for backend 'y'."],
    );
    check_text(
        "listen y 192.0.2.1:80\n bind :1\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n",
        &["A parsing [t.cfg:1] : 'listen' takes no address: write 'bind 192.0.2.1:80' on a line of its own."],
    );
    check_text("backend y z\n", &["A parsing [t.cfg:1] : 'backend' cannot handle unexpected argument 'z'."]);
    check_text(
        "defaults d\ndefaults d\nbackend y from d\n",
        &[
            "A parsing [t.cfg:3] : ambiguous defaults section name 'd' referenced by backend 'y' exists at least at t.cfg:1 and t.cfg:2.",
        ],
    );
    check_text(
        "defaults d\nbackend a from d\nbackend b\n",
        &["W parsing [t.cfg:3] : defaults section 'd' (declared at t.cfg:1) is explicitly referenced..."],
    );
    check_text(
        "backend a\nbackend a\n",
        &["A parsing [t.cfg:2]: backend 'a' has the same name as backend 'a' declared at t.cfg:1."],
    );
    check_text(
        "frontend a\n bind :1\n timeout client 1s\nbackend a\n",
        &[
            "W parsing [t.cfg:4]: backend 'a' has the same name as frontend 'a' declared at t.cfg:1. HAProxy 3.3 and later refuse this.",
        ],
    );
    check_text(
        "backend a\n id 3\nbackend b\n id 3\n",
        &["A parsing [t.cfg:3]: backend b reuses same custom id as backend a (declared at t.cfg:1)."],
    );
}

#[test]
fn proxies_and_servers_get_haproxys_ids() {
    let outcome = check_text("backend a\nbackend b\n id 2\nbackend c\n", &[]);
    assert_eq!(outcome.proxies.iter().map(|proxy| proxy.id).collect::<Vec<_>>(), [3, 2, 5]);
    let outcome = check("backend b", "server-template s 1-3 example.com:80 ;; server x 1.1.1.1:80 id 2", &[]);
    let ids: Vec<_> = outcome.proxies[1].servers.iter().map(|server| (&*server.name, server.id)).collect();
    assert_eq!(ids, [("s1", 1), ("s2", 3), ("s3", 4), ("x", 2)]);
    let lines = "server x 1.1.1.1 ;; server y 1.1.1.1 id 1 ;; server z 1.1.1.1 ;; server w 1.1.1.1 id 9 ;; server v 1.1.1.1";
    let outcome = check("backend b", lines, &[]);
    let ids: Vec<_> = outcome.proxies[1].servers.iter().map(|server| server.id).collect();
    assert_eq!(ids, [2, 1, 4, 9, 6]);
}

#[test]
fn server_template_numbers_begin_at_the_start_of_the_range() {
    for (range, expected) in [("2", ["s1", "s2"]), ("0-1", ["s0", "s1"]), ("10-11", ["s10", "s11"])] {
        let outcome = check("backend b", &format!("server-template s {range} example.com:80"), &[]);
        let names = outcome.proxies[1].servers.iter().map(|server| &*server.name);
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn guids_are_unique() {
    let text = "backend a\n guid x\n server s 1.1.1.1 guid y\nbackend b\n server s 1.1.1.1 guid y\n server t 1.1.1.1 guid x\n";
    let messages = read(text).messages;
    let about = |word: &str| messages.iter().filter(|message| message.contains(word)).count();
    assert_eq!(
        (about("'guid' : 'y' is already that of server 'a/s'"), about("'guid' : 'x' is already")),
        (1, 1)
    );
}
