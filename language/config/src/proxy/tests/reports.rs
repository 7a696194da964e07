//! Each fault is reported once: all faults of a line, without consequences of another fault.

use crate::testing::{check, check_text};

#[test]
fn all_unknown_keywords_of_a_line_are_reported() {
    let server = |word: &str| format!("A [t.cfg:9] : 'server l/s' : unknown keyword '{word}'");
    let not_yet = |word: &str| format!("A [t.cfg:9] : 'server l/s' : '{word}' is not implemented yet");
    check(
        "listen l",
        "server s 127.0.0.1:80 foo 5 bar baz weight 3 quux",
        &[&server("foo"), &server("bar"), &server("baz"), &server("quux")],
    );
    // The arguments of unimplemented words are not checked.
    check(
        "listen l",
        "server s 127.0.0.1:80 cc reno namespace blue tcp-md5sig x weight 3",
        &[&not_yet("cc"), &not_yet("namespace"), &not_yet("tcp-md5sig")],
    );
    check(
        "listen l",
        "server s 127.0.0.1:80 quux weight x nonsense",
        &[
            &server("quux"),
            "A [t.cfg:9] : 'server l/s' : 'weight' expects an integer argument, which 'x' is not.",
        ],
    );
    let bind = |word: &str| {
        format!("A parsing [t.cfg:9] : 'bind :80' in section 'listen': unknown keyword '{word}'")
    };
    check("listen l", "bind :80 foo /x bar name a quux", &[&bind("foo"), &bind("bar"), &bind("quux")]);
}

#[test]
fn warns_about_or_rejects_unsupported_tls_features() {
    let npn = |line: u32, alpn: &str| {
        format!(
            "W parsing [t.cfg:{line}] : 'npn' is never negotiated: clients and servers of TLSv1.3 have ALPN instead. Write 'alpn {alpn}'."
        )
    };
    check("listen l", "bind :80 ktls off npn h2", &[&npn(9, "h2")]);
    let renegotiate = "W parsing [t.cfg:9] : 'renegotiate' has no effect: renegotiation requests of servers are refused, and TLSv1.3 does not support them. Remove it.";
    check(
        "listen l",
        "server s 127.0.0.1:80 renegotiate no-renegotiate ktls off npn h2",
        &[renegotiate, &npn(9, "h2")],
    );
    check(
        "listen l",
        "server s 127.0.0.1:80 ktls on",
        &[
            "A [t.cfg:9] : 'server l/s' : 'ktls' : TLS in the kernel is not used: records are encrypted without a copy. Write 'ktls off', or remove it.",
        ],
    );
}

#[test]
fn reports_a_refused_declaration_once_despite_references_to_it() {
    check(
        "listen l",
        "use-server s if TRUE ;; server s 127.0.0.1:80 quux",
        &["A [t.cfg:10] : 'server l/s' : unknown keyword 'quux'"],
    );
    check(
        "listen l",
        "acl a nonsense ;; http-request deny if a ;; http-request deny if !a ;; http-request deny if b",
        &[
            "A parsing [t.cfg:9] : error detected while parsing ACL 'a' : unknown fetch method 'nonsense' in ACL expression...",
            "A parsing [t.cfg:12] : error detected while parsing an 'http-request deny' condition : no such ACL : 'b'.",
        ],
    );
    check_text(
        "frontend f\n timeout client 1s\n bind :1\n default_backend b/c\nbackend b/c\n",
        &["A parsing [t.cfg:5] : character '/' is not permitted in 'backend' name 'b/c'."],
    );
}
