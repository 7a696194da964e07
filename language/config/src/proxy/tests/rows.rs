//! Every keyword: its example is read, it has a help text, and no line makes the parser panic.

use proptest::prelude::*;

use crate::bind::BIND_OPTIONS;
use crate::draft::{BACKEND, DraftSection, FRONTEND, LISTEN, NAMED_DEFAULTS, Sections};
use crate::proxy::PROXY_KEYWORDS;
use crate::proxy::options::OPTIONS;
use crate::rows::{Handler, Row, Table};
use crate::server::SERVER_OPTIONS;
use crate::testing::actions::ACTIONS;
use crate::testing::filters::FILTERS;
use crate::testing::{check, read};
use weir_model::*;

/// Checks that a line is read without any message.
#[track_caller]
fn check_quiet(section: &str, line: &str) {
    let outcome = read(&format!(
        "defaults d\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n log global\n\
         backend other\n{section}\n {line}\n"
    ));
    let messages: Vec<_> =
        outcome.messages.iter().filter(|message| !message.contains("has no 'bind' directive")).collect();
    assert!(messages.is_empty(), "{section}: {line}: {messages:#?}");
}

fn section_for(sections: Sections) -> &'static str {
    match sections {
        _ if sections.contains(LISTEN) => "listen l",
        _ if sections.contains(FRONTEND) => "frontend f",
        _ if sections.contains(BACKEND) => "backend b",
        _ => "defaults e",
    }
}

#[test]
fn the_example_of_every_proxy_keyword_is_accepted() {
    for row in PROXY_KEYWORDS.rows() {
        let Handler::Ready(reader) = row.handler else { continue };
        // Some keywords need earlier lines.
        let before = match row.name.split(' ').next() {
            Some("filter-sequence") => "filter trace\n ",
            Some("stick") => "stick-table type ipv4 size 1\n ",
            Some("http-check") => "option httpchk\n ",
            Some("tcp-check") => "option tcp-check\n ",
            Some("use-fcgi-app") => "server s 127.0.0.1:80 proto fcgi\n ",
            Some("external-check") => {
                "option external-check\n external-check path /bin\n external-check command true\n "
            }
            // One of these lines alone is ignored.
            Some("email-alert") => "email-alert mailers staff\n email-alert from a\n email-alert to b\n ",
            _ => "",
        };
        let space = if row.arguments.starts_with('(') { "" } else { " " };
        check_quiet(section_for(reader.sections), &format!("{before}{}{space}{}", row.name, row.example));
        if reader.sections.contains(NAMED_DEFAULTS) {
            check_quiet("defaults e", &format!("{} {}", row.name, row.example));
        }
    }
    // The old names of two options cause warnings.
    for row in OPTIONS.rows().filter(|row| !row.name.starts_with("accept-invalid-")) {
        let Handler::Ready(reader) = row.handler else { continue };
        let before = match row.name {
            "external-check" => "external-check command /bin/true\n ",
            _ => "",
        };
        let section = section_for(reader.sections);
        check_quiet(section, &format!("{before}option {} {}", row.name, row.example));
    }
    // Words without effect cause a warning.
    let is_without_effect = |help: &str| help.starts_with("accepted for compatibility, no effect");
    for row in BIND_OPTIONS.rows().filter(|row| row.is_ready() && !is_without_effect(row.help)) {
        check_quiet("listen l", &format!("bind :80 {} {}", row.name, row.example));
    }
    // One word is valid only after another word. The other is for peers and causes a warning elsewhere.
    let elsewhere = ["usesrc", "shard"];
    for row in SERVER_OPTIONS.rows().filter(|row| row.is_ready() && !elsewhere.contains(&row.name)) {
        if is_without_effect(row.help) {
            continue;
        }
        let space = if row.arguments.starts_with('(') { "" } else { " " };
        let section = match row.name {
            "log-bufsize" => "backend b\n mode log",
            "track" => "listen l\n server tracked 127.0.0.1:81 check",
            "tfo" => "backend b\n retry-on conn-failure empty-response response-timeout",
            _ => "backend b",
        };
        check_quiet(section, &format!("server s 127.0.0.1:80 {}{space}{}", row.name, row.example));
    }
}

#[test]
fn every_proxy_keyword_has_a_unique_name_and_a_help_text() {
    fn check<F>(table: &Table<F>) {
        let mut names = std::collections::HashSet::new();
        for row in table.rows() {
            let Row { name, help, .. } = row;
            assert!(!help.is_empty(), "{name} lacks a help text");
            assert!(names.insert(name), "{name} is there twice");
        }
    }
    check(&PROXY_KEYWORDS);
    check(&OPTIONS);
    check(&BIND_OPTIONS);
    check(&SERVER_OPTIONS);
}

#[test]
fn rejects_proxy_keywords_that_are_not_implemented_yet() {
    let not_yet = |word: &str| format!("A parsing [t.cfg:9] : '{word}' is not implemented yet");
    check("listen l", "mode haterm", &[&not_yet("mode haterm")]);
    check(
        "listen l",
        "server s 127.0.0.1:80 namespace blue",
        &["A [t.cfg:9] : 'server l/s' : 'namespace' is not implemented yet"],
    );
    check(
        "listen l",
        "bind :80 ssl crt x ech y guid-prefix z",
        &[
            "A parsing [t.cfg:9] : 'bind :80' in section 'listen' : 'ech' is not implemented yet",
            "A parsing [t.cfg:9] : 'bind :80' in section 'listen' : 'guid-prefix' is not implemented yet",
        ],
    );
    check(
        "listen l",
        "bind :80 ssl crt x force-tlsv10",
        &[
            "A parsing [t.cfg:9] : 'bind :80' in section 'listen' : 'force-tlsv10' : TLSv1.0 is not supported: TLSv1.2 and TLSv1.3 are",
        ],
    );
}

#[test]
fn no_and_default_prefixes_change_only_the_named_option() {
    let outcome = check(
        "listen l",
        "option httpclose ;; no option http-server-close ;; option abortonclose ;; default option abortonclose",
        &[],
    );
    let options = &outcome.proxies[1].settings.options;
    assert_eq!(
        (options.connection_mode, options.abort_on_close),
        (Some(ConnectionMode::Close), Switch::Unset)
    );
    assert!(DraftSection::Defaults { named: true }.is_defaults());
}

/// Words that keywords react to, and some that they do not.
fn word() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = PROXY_KEYWORDS
        .rows()
        .flat_map(|row| row.name.split(' ').chain(row.example.split(' ')))
        .chain(OPTIONS.rows().map(|row| row.name))
        .chain(BIND_OPTIONS.rows().map(|row| row.name))
        .chain(SERVER_OPTIONS.rows().map(|row| row.name))
        .chain(ACTIONS.rows().flat_map(|row| [row.name, row.example]))
        .chain(FILTERS.rows().flat_map(|row| [row.name, row.example]))
        .chain([
            "no",
            "default",
            "option",
            "if",
            "unless",
            "{",
            "}",
            "0",
            "-1",
            "99999999999",
            "''",
            "a",
            "%[src]",
            "%",
        ])
        .collect();
    prop_oneof![4 => proptest::sample::select(names).prop_map(str::to_owned), 1 => "[ -~]{0,12}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_proxy_lines_never_make_the_parser_panic(
        lines in proptest::collection::vec((0..4usize, proptest::collection::vec(word(), 1..8)), 1..12)
    ) {
        let mut text = String::from("defaults d\n mode http\nlisten l\n bind :80\n server s 1.1.1.1:80\n");
        for (section, words) in lines {
            if words.len() == 7 {
                let keyword = crate::proxy::ProxyParser::SECTIONS[section];
                text.push_str(&format!("{keyword} x{section}\n"));
            }
            text.push_str(&words.join(" "));
            text.push('\n');
        }
        read(&text);
    }
}

/// The messages are those of HAProxy 3.2.
#[test]
fn functions_of_scripts_stand_where_they_were_registered() {
    check("listen l", "http-request lua.act a if TRUE", &[]);
    check("listen l", "http-request set-header a %[lua.f(a,b),lua.c(c),add(1)]", &[]);
    check("listen l", "http-request deny if { lua.f x }", &[]);
    let found = |line: &str| read(&format!("listen l\n bind :1\n{line}\n")).messages.join("\n");
    assert!(
        found("http-request lua.act")
            .contains("while parsing 'http-request lua.act' rule : expect 1 arguments")
    );
    assert!(found("http-request lua.nothing").contains("but got 'lua.nothing'"));
    assert!(found("http-response lua.act a").contains("but got 'lua.act'"), "it is registered for requests");
    assert!(found("http-request set-header a %[lua.no]").contains("unknown fetch method 'lua.no'"));
    assert!(found("http-request set-header a %[path,lua.no]").contains("unknown converter 'lua.no'"));
    let many = "http-request set-header a %[lua.f(a,b,c,d,e,f,g,h,i,j,k,l,m)]";
    assert!(found(many).contains("fetch method 'lua.f' : "));
}
