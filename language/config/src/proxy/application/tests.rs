//! FastCGI applications: the meaning of their sections, and the diagnostics about them and their users.

use crate::scripts::NoScripts;
use std::sync::Arc;

use weir_expr::{ArgKind, PatternStore, Registry, TokenKeys, VariableNames};
use weir_syntax::{Diagnostics, Environment, NoFiles, SourceMap, StaticFeatures};

use crate::testing::{FETCHES, KEYWORDS};
use crate::{ConfigOutcome, Inputs, parse};
use weir_model::{Config, FcgiApplication, Protocol, Proxy};

struct ReadConfig {
    config: Config,
    diagnostics: Diagnostics,
    sources: SourceMap,
}

impl ReadConfig {
    fn messages(&self) -> Vec<String> {
        self.diagnostics.iter().map(|diagnostic| diagnostic.classic_message(&self.sources)).collect()
    }

    /// The words under the caret of the first diagnostic.
    fn marked(&self) -> String {
        let span = self.diagnostics.iter().next().and_then(|first| first.span).expect("a location");
        let (line, _) = self.sources.get(span.file).and_then(|file| file.line(span.line)).expect("a line");
        String::from_utf8_lossy(&line[span.start as usize..span.end as usize]).into_owned()
    }

    fn proxy(&self, name: &str) -> &Proxy {
        self.config.proxies.iter().find(|proxy| &*proxy.name == name).expect("a proxy")
    }
}

fn read(text: &str) -> ReadConfig {
    let mut sources = SourceMap::new();
    sources.add("c.cfg", text.as_bytes().to_vec());
    let inputs = Inputs {
        sources: &sources,
        loader: &NoFiles,
        registry: &Registry::new(FETCHES),
        keywords: &KEYWORDS,
        patterns: &PatternStore::new(),
        token_keys: &TokenKeys::new(),
        variables: &VariableNames::new(),
        scripts: &NoScripts,
        conditions: &StaticFeatures::default(),
    };
    let ConfigOutcome { config, diagnostics, .. } = parse(inputs, Environment::new());
    ReadConfig { config, diagnostics, sources }
}

const DEFAULTS: &str = "defaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n";

/// The lines, separated by ` ;; `, of an application `a` with a docroot. Line 8 is the first.
fn application(lines: &str) -> ReadConfig {
    read(&format!("{DEFAULTS}fcgi-app a\n docroot /w\n {}\n", lines.replace(" ;; ", "\n ")))
}

/// The lines of a backend `b` below two applications, `a` and `other`. Line 11 is the first.
fn backend(lines: &str) -> ReadConfig {
    let lines = lines.replace(" ;; ", "\n ");
    read(&format!("{DEFAULTS}fcgi-app a\n docroot /w\nfcgi-app other\n docroot /w\nbackend b\n {lines}\n"))
}

#[track_caller]
fn check(read: &ReadConfig, expected: &[&str]) {
    assert_eq!(read.messages(), expected);
}

const SERVER: &str = "server s 127.0.0.1:9000 proto fcgi";

#[test]
fn reads_every_line_of_an_application() {
    let read = read(
        "global\n log 127.0.0.1:514 local0\nfcgi-app php\n docroot /first\n docroot /var/www\n index index.php\n \
         path-info ^(/.+\\.php)(/.*)?$\n acl local src 127.0.0.0/8\n pass-header Authorization\n \
         pass-header X-A if local !TRUE\n set-param REDIRECT_STATUS 200\n set-param A \"%[path] b\" unless local\n \
         log-stderr global\n log-stderr 127.0.0.1:515 len 2000 format rfc5424 sample 1:2 local1 err notice\n \
         option get-values\n no option keep-conn\n option mpxs-conns\n option max-reqs 50\n",
    );
    check(&read, &[]);
    let [application] = &read.config.applications[..] else { panic!("one application") };
    assert_eq!((&*application.name, &*application.docroot), ("php", "/var/www"));
    assert_eq!(application.at.line, 3);
    assert_eq!(application.index.as_deref(), Some("index.php"));
    let pattern = application.path_info.as_ref().expect("a pattern");
    let mut groups = pattern.groups();
    assert_eq!(pattern.captures(b"/a.php/b", 0, &mut groups), Some(0..8));
    assert_eq!((groups.range(1), groups.range(2)), (Some(0..6), Some(6..8)));
    let headers: Vec<_> =
        application.pass_headers.iter().map(|line| (&*line.name, line.condition.is_some())).collect();
    assert_eq!(headers, [(&b"authorization"[..], false), (b"x-a", true)]);
    let parameters: Vec<_> = application
        .parameters
        .iter()
        .map(|line| (&*line.name, line.value.text(), line.condition.is_some()))
        .collect();
    assert_eq!(parameters, [("REDIRECT_STATUS", "200", false), ("A", "%[path] b", true)]);
    assert_eq!(application.log_targets.len(), 2);
    assert!(application.get_values && !application.keeps_connections && application.multiplexes);
    assert_eq!(application.max_requests, 50);
}

#[test]
fn an_application_has_the_manuals_defaults() {
    let read = application("");
    check(&read, &[]);
    let FcgiApplication {
        index, path_info, get_values, keeps_connections, max_requests, multiplexes, ..
    } = &*read.config.applications[0];
    assert!(index.is_none() && path_info.is_none());
    assert_eq!((*get_values, *keeps_connections, *max_requests, *multiplexes), (false, true, 1, false));
    assert!(read.config.applications[0].log_targets.is_empty());
}

#[test]
fn no_and_default_set_options_back() {
    let read = application(
        "option get-values ;; no option get-values ;; option mpxs-conns ;; default option mpxs-conns ;; \
         no option keep-conn ;; default option keep-conn",
    );
    check(&read, &[]);
    let application = &read.config.applications[0];
    assert!(!application.get_values && !application.multiplexes && application.keeps_connections);
}

#[test]
fn errors_of_the_section_line_have_haproxys_messages() {
    let app = "fcgi-app a\n docroot /w\n";
    check(&read(" fcgi-app\n"), &["parsing [c.cfg:1]: 'fcgi-app' expects <name> as argument."]);
    check(
        &read("fcgi-app a b\n docroot\n"),
        &["parsing [c.cfg:1] : 'fcgi-app' cannot handle unexpected argument 'b'."],
    );
    check(
        &read("fcgi-app a/b\n"),
        &["parsing [c.cfg:1]: character '/' is not permitted in 'fcgi-app' name 'a/b'."],
    );
    check(
        &read(&format!("{app}{app}")),
        &["parsing [c.cfg:3]: fcgi-app section 'a' has the same name as another one declared at c.cfg:1."],
    );
    check(&read("fcgi-app a\n index x\n"), &["fcgi-app 'a': no docroot configured."]);
}

#[test]
fn errors_of_lines_name_the_expected_words() {
    for (line, message) in [
        ("docroot", "'docroot' expects <path> as argument."),
        ("docroot /a /b", "'docroot' cannot handle unexpected argument '/b'."),
        ("index", "'index' expects <filename> as argument."),
        ("index a b", "'index' cannot handle unexpected argument 'b'."),
        ("path-info", "'path-info' expects <regex> as argument."),
        (
            "path-info (",
            "'path-info' : regex '(' is invalid (error=missing closing parenthesis, erroffset=1).",
        ),
        ("path-info ^(a) b", "'path-info' cannot handle unexpected argument 'b'."),
        ("pass-header", "'pass-header' expects <name> as arguments."),
        (
            "pass-header X foo",
            "'pass-header X' expects either 'if' or 'unless' followed by a condition but found 'foo'.",
        ),
        (
            "pass-header X if nope",
            "error detected while parsing a 'pass-header X' condition : no such ACL : 'nope'.",
        ),
        ("set-param X", "'set-param' expects <name> and <value> as arguments."),
        (
            "set-param X a b",
            "'set-param X' expects either 'if' or 'unless' followed by a condition but found 'b'.",
        ),
        (
            "set-param X a if later ;; acl later path /x",
            "error detected while parsing a 'set-param X' condition : no such ACL : 'later'.",
        ),
        ("acl a/b path /x", "character '/' is not permitted in acl name 'a/b'."),
        ("log-stderr", "log-stderr : expects <address> and <facility> or global as arguments"),
        ("log-stderr global x", "log-stderr : unknown log facility 'x'"),
        ("log-stderr 127.0.0.1:514 nope", "log-stderr : unknown log facility 'nope'"),
        ("log-stderr ring@nope local0", "log : unknown ring 'nope'"),
        ("log-stderr backend@nope local0", "log : unknown backend 'nope'"),
        ("option nope", "unknown option 'nope'."),
        ("option keep-con", "unknown option 'keep-con'; did you mean 'keep-conn' maybe ?"),
        ("option get-values x", "'option get-values' cannot handle unexpected argument 'x'."),
        ("option max-reqs", "'option max-reqs' expects an integer argument."),
        ("option max-reqs abc", "'option max-reqs' expects an integer argument, which 'abc' is not."),
        ("option max-reqs 0", "'option max-reqs' : invalid value '0', allowed range is 1..2147483647."),
        ("option max-reqs 5 6", "'option max-reqs' cannot handle unexpected argument '6'."),
        ("docrot /x", "unknown keyword 'docrot' in 'fcgi-app' section; did you mean 'docroot' maybe ?"),
        (
            "use-fcgi-app a",
            "unknown keyword 'use-fcgi-app' in 'fcgi-app' section; did you mean 'fcgi-app' maybe ?",
        ),
    ] {
        check(&application(line), &[&format!("parsing [c.cfg:8] : {message}")]);
    }
    for (line, message) in [
        ("option", "'option' expects an option name."),
        ("no option max-reqs 5", "negation/default is not supported for option 'max-reqs'."),
        ("no docroot", "negation/default is supported for options only."),
        ("default index x", "negation/default is supported for options only."),
    ] {
        check(&application(line), &[&format!("parsing [c.cfg:8]: {message}")]);
    }
}

#[test]
fn values_are_evaluated_with_the_requests_of_the_backend() {
    let read = application("set-param X %[res.hdr(a)]");
    let messages = read.messages();
    assert!(messages.len() == 1 && messages[0].contains("'set-param X' : "), "{messages:?}");
    assert!(messages[0].contains("res.hdr"), "{messages:?}");
    check(&application("set-param X %[path]%[be_name]%[src]%ci"), &[]);
    check(
        &application("set-param X %[req.len]"),
        &["parsing [c.cfg:8] : L6 sample fetch <req.len> ignored in HTTP log-format string."],
    );
}

#[test]
fn requests_without_multiplexing_make_their_limit_useless() {
    let ignored = "fcgi-app 'a': multiplexing not supported, ignore the option 'max-reqs'.";
    check(&application("option max-reqs 5"), &[ignored]);
    check(&application("option max-reqs 5 ;; option mpxs-conns ;; no option mpxs-conns"), &[ignored]);
    check(&application("option max-reqs 1"), &[]);
    check(&application("option max-reqs 5 ;; option mpxs-conns"), &[]);
    check(&application("option max-reqs 5 ;; option get-values"), &[]);
}

#[test]
fn acls_are_private_to_an_application() {
    let backend = "backend b\n acl of-proxy path /x\n http-request deny if of-app\n";
    let text = format!(
        "{DEFAULTS}{backend}fcgi-app a\n docroot /w\n acl of-app path /x\n set-param A a if of-proxy\nfcgi-app c\n docroot /w\n \
         set-param A a if of-app\n"
    );
    let messages = read(&text).messages();
    let lines: Vec<bool> = [(8, "of-app"), (12, "of-proxy"), (15, "of-app")]
        .into_iter()
        .zip(&messages)
        .map(|((line, acl), message)| {
            message.starts_with(&format!("parsing [c.cfg:{line}] "))
                && message.ends_with(&format!("no such ACL : '{acl}'."))
        })
        .collect();
    assert_eq!(lines, [true; 3], "{messages:?}");
    assert_eq!(messages.len(), 3, "{messages:?}");
}

/// HAProxy 3.2 never resolves these names: it accepts unknown ones, and crashes when it evaluates a value with any.
#[test]
fn names_in_expressions_are_resolved() {
    let read = application(
        "set-param A %[be_conn(b)] ;; acl known http_auth(u) ;; set-param B a if known\nuserlist u\nbackend b",
    );
    check(&read, &[]);
    let mut targets = Vec::new();
    read.config.applications[0].visit_references(&mut |reference| {
        targets.push((reference.kind, reference.target()));
    });
    assert_eq!(targets, [(ArgKind::Backend, Some((0, 0))), (ArgKind::UserList, Some((0, 0)))]);
    for (line, message) in [
        (
            "set-param A %[be_conn(nope)]",
            "unable to find backend 'nope' referenced by an expression in fcgi-app 'a'.",
        ),
        (
            "pass-header A if { http_auth(nope) }",
            "unable to find userlist 'nope' referenced by an expression in fcgi-app 'a'.",
        ),
        (
            "acl x srv_conn(b/nope) 1",
            "unable to find server 'b/nope' referenced by an expression in fcgi-app 'a'.",
        ),
    ] {
        check(&application(line), &[&format!("parsing [c.cfg:8]: {message}")]);
    }
}

#[test]
fn lists_of_users_in_applications_are_used_outside_of_rules() {
    let read = read(&format!(
        "{DEFAULTS}userlist u\nfcgi-app a\n docroot /w\n pass-header A if {{ http_auth(u) }}\nbackend b\n use-fcgi-app a\n {SERVER}\n"
    ));
    check(&read, &[]);
    assert_eq!(&*read.proxy("b").used_userlists().outside_of_rules, [0]);
}

#[test]
fn a_backend_shares_its_application() {
    for lines in [
        format!("use-fcgi-app a ;; {SERVER}"),
        format!("use-fcgi-app a ;; use-fcgi-app a ;; {SERVER}"),
        format!("filter fcgi-app a ;; {SERVER}"),
        format!("filter fcgi-app a ;; use-fcgi-app a ;; filter fcgi-app a ;; {SERVER}"),
        "use-fcgi-app a ;; default-server proto fcgi ;; server s 127.0.0.1:1".to_owned(),
        format!("use-fcgi-app a ;; server t 127.0.0.1:1 ;; {SERVER}"),
    ] {
        let read = backend(&lines);
        check(&read, &[]);
        let application = read.proxy("b").settings.application.as_ref().expect("an application");
        assert!(Arc::ptr_eq(application, &read.config.applications[0]), "{lines}");
        let servers = &read.proxy("b").servers;
        assert_eq!(servers.last().expect("a server").settings.protocol, Some(Protocol::Fcgi));
    }
    let later = read(&format!("{DEFAULTS}backend b\n use-fcgi-app a\n {SERVER}\nfcgi-app a\n docroot /w\n"));
    check(&later, &[]);
    assert!(later.proxy("b").settings.application.is_some());
}

#[test]
fn errors_of_users_name_the_application() {
    for (lines, marked, message) in [
        (format!("use-fcgi-app nope ;; {SERVER}"), "nope", "proxy 'b' : fcgi-app 'nope' not found."),
        (
            format!("filter fcgi-app othre ;; {SERVER}"),
            "othre",
            "proxy 'b' : fcgi-app 'othre' not found; did you mean 'other' maybe ?",
        ),
        (
            format!("filter fcgi-app other ;; use-fcgi-app a ;; {SERVER}"),
            "other",
            "proxy 'b' : only one fcgi-app supported per backend.",
        ),
        (
            "use-fcgi-app a ;; server s 127.0.0.1:1".to_owned(),
            "a",
            "proxy 'b': FCGI app configured but no FCGI server found.",
        ),
        (
            "mode tcp ;; use-fcgi-app a ;; server s 127.0.0.1:1".to_owned(),
            "a",
            "proxy 'b': FCGI application cannot be used in non-HTTP mode.",
        ),
        (SERVER.to_owned(), "backend b", "proxy 'b': FCGI server 's' without a configured FCGI app."),
        (
            format!("use-fcgi-app a ;; filter trace ;; {SERVER}"),
            "a",
            "proxy 'b': require an explicit filter declaration to use the fcgi-app 'a'.",
        ),
    ] {
        let read = backend(&lines);
        check(&read, &[message]);
        assert_eq!(read.marked(), marked, "{lines}");
    }
    for (lines, message) in [
        (format!("use-fcgi-app ;; {SERVER}"), "'use-fcgi-app' expects <name> as argument"),
        (format!("use-fcgi-app a b ;; {SERVER}"), "'use-fcgi-app' : 'b' is ignored."),
        (format!("filter fcgi-app ;; {SERVER}"), "'filter' : fcgi-app : expects a <name> argument"),
        (format!("filter fcgi-app a b ;; {SERVER}"), "'filter fcgi-app' : unknown keyword 'b'."),
    ] {
        check(&backend(&lines), &[&format!("parsing [c.cfg:11] : {message}")]);
    }
    check(
        &backend(&format!("use-fcgi-app a ;; use-fcgi-app other ;; {SERVER}")),
        &["parsing [c.cfg:12] : 'use-fcgi-app' : only one fcgi-app supported per backend"],
    );
}

#[test]
fn a_refused_application_is_reported_once() {
    check(
        &read(&format!("{DEFAULTS}fcgi-app a b\n docroot /w\nbackend b\n use-fcgi-app a\n {SERVER}\n")),
        &["parsing [c.cfg:6] : 'fcgi-app' cannot handle unexpected argument 'b'."],
    );
    check(
        &backend("use-fcgi-app a ;; server s 127.0.0.1:1 proto fcgi nope"),
        &["[c.cfg:12] : 'server b/s' : unknown keyword 'nope'"],
    );
}

#[test]
fn filters_but_compression_need_a_place_for_the_application() {
    check(&backend(&format!("use-fcgi-app a ;; filter compression ;; {SERVER}")), &[]);
    check(&backend(&format!("use-fcgi-app a ;; compression algo gzip ;; {SERVER}")), &[]);
    check(&backend(&format!("use-fcgi-app a ;; filter trace ;; filter fcgi-app a ;; {SERVER}")), &[]);
    let read = backend(&format!("use-fcgi-app a ;; filter fcgi-app a ;; compression algo gzip ;; {SERVER}"));
    check(&read, &[]);
    let names: Vec<_> = read.proxy("b").filters.iter().map(|filter| filter.keyword).collect();
    assert_eq!(names, ["fcgi-app", "compression"]);
    check(
        &backend(&format!(
            "use-fcgi-app a ;; filter fcgi-app a ;; filter trace ;; compression algo gzip ;; {SERVER}"
        )),
        &["backend 'b': require an explicit filter declaration to use HTTP compression"],
    );
}

#[test]
fn only_backends_in_http_mode_use_applications() {
    let frontend =
        |lines: &str| read(&format!("{DEFAULTS}fcgi-app a\n docroot /w\nfrontend f\n bind :1\n {lines}\n"));
    let said = frontend("use-fcgi-app a").messages();
    let refused = "parsing [c.cfg:10] : 'use-fcgi-app' not allowed because frontend 'f' ";
    assert!(said.len() == 1 && said[0].starts_with(refused), "{said:?}");
    check(&frontend("filter fcgi-app a"), &["proxy 'f': FCGI app configured but no FCGI server found."]);
    check(
        &read(&format!("{DEFAULTS} use-fcgi-app a\n")),
        &["parsing [c.cfg:6] : 'use-fcgi-app' not allowed in 'defaults' section."],
    );
    check(
        &backend(&format!("mode tcp ;; {SERVER}")),
        &["backend 'b' : MUX protocol 'fcgi' is not usable for server 's' at [c.cfg:12]."],
    );
    let bind = frontend("bind :2 proto fcgi").messages();
    assert!(
        bind.len() == 1 && bind[0].ends_with("'proto' : 'fcgi' is for servers in 'mode http' only."),
        "{bind:?}"
    );
}

/// As in HAProxy, a disabled backend may name an unknown application, but needs one for its servers.
#[test]
fn a_disabled_backend_only_needs_a_name() {
    check(&backend(&format!("disabled ;; use-fcgi-app nope ;; {SERVER}")), &[]);
    check(
        &backend(&format!("disabled ;; {SERVER}")),
        &["proxy 'b': FCGI server 's' without a configured FCGI app."],
    );
}

#[test]
fn only_http_checks_speak_fastcgi() {
    for lines in [
        "option httpchk ;; server s 127.0.0.1:1 proto fcgi check",
        "option httpchk ;; server s 127.0.0.1:1 proto fcgi check check-proto fcgi",
        "option httpchk ;; http-check connect proto fcgi ;; server s 127.0.0.1:1 proto fcgi check check-proto h1",
        "server s 127.0.0.1:1 proto fcgi check",
        "option httpchk ;; server s 127.0.0.1:1 proto fcgi",
        "option httpchk ;; server s 127.0.0.1:1 proto fcgi check check-proto h1",
        "option httpchk ;; http-check connect proto h1 ;; server s 127.0.0.1:1 proto fcgi check",
    ] {
        check(&backend(&format!("use-fcgi-app a ;; {lines}")), &[]);
    }
    check(
        &backend("use-fcgi-app a ;; server s 127.0.0.1:1 proto fcgi check check-proto fcgi"),
        &["config: backend 'b': server 's' uses an incompatible MUX protocol for the selected check type"],
    );
    check(
        &backend(
            "use-fcgi-app a ;; option tcp-check ;; tcp-check connect proto fcgi ;; server s 127.0.0.1:1 proto fcgi",
        ),
        &["parsing [c.cfg:13] : 'tcp-check connect' : 'proto' : invalid MUX protocol 'fcgi' for tcp-check."],
    );
}
