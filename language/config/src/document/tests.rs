//! Whole files: order of sections, allowed repetitions, locations of faults. Also helpers for other tests.

use crate::testing::scripts::TestScripts;
use std::io;

use super::*;
use weir_syntax::StaticFeatures;

/// A [`ConfigOutcome`] with diagnostics as classic messages.
pub(crate) struct ReadResult {
    pub config: Config,
    pub environment: Environment,
    pub messages: Vec<String>,
}

/// Files for tests: `/dev/null`, `*.http` with a response that contains its name, and `text:...` with the lines in its name, separated
/// by semicolons.
struct DocumentFiles;

impl Loader for DocumentFiles {}

impl weir_syntax::Files for DocumentFiles {
    fn read(&self, path: &str, _: u64) -> io::Result<Vec<u8>> {
        match path {
            "/dev/null" => Ok(Vec::new()),
            _ if path.ends_with(".http") => {
                Ok(format!("HTTP/1.0 500 x\r\ncontent-length: {}\r\n\r\n{path}", path.len()).into_bytes())
            }
            _ => {
                let text = path.strip_prefix("text:").ok_or(io::ErrorKind::NotFound)?;
                Ok(text.replace(';', "\n").into_bytes())
            }
        }
    }
}

/// 2.1, "ordering matters": `log global` stands for the targets of the `global` sections above, at its position among the other lines.
#[test]
fn log_global_inserts_the_targets_above_at_its_position() {
    let global = |name: &str| format!("global\n log {name} local0\n");
    let check = |text: &str, expected: &[&str]| {
        let proxies = parse_text(text).config.proxies;
        let targets = proxies.last().expect("a frontend").settings.logging.targets.iter();
        let found: Vec<String> = targets.map(|target| format!("{:?}", target.address)).collect();
        let expected: Vec<String> = expected.iter().map(|name| format!("Unix({name:?})")).collect();
        assert_eq!(found, expected, "{text}");
    };
    let (one, two) = (global("/1"), global("/2"));
    check(&format!("{one}frontend f\n log /3 local0\n log global\n log /4 local0\n"), &["/3", "/1", "/4"]);
    check(&format!("{one}defaults\n log /3 local0\nfrontend f\n log global\n"), &["/3", "/1"]);
    check(&format!("{one}defaults\n log global\nfrontend f\n log /3 local0\n log global\n"), &["/1", "/3"]);
    check(&format!("{one}defaults\n log global\n{two}frontend f\n"), &["/1"]);
    check(&format!("{one}defaults\n log global\n{two}frontend f\n log global\n"), &["/1", "/2"]);
    check(&format!("{one}frontend f\n log global\n{two}"), &["/1"]);
    check(&format!("{one}frontend f\n log global\n no log\n log /3 local0\n"), &["/3"]);
}

/// Reads one file called `test.cfg`.
pub(crate) fn parse_text(text: &str) -> ReadResult {
    parse_with(text, Environment::new())
}

/// Reads one file called `test.cfg` with an environment.
pub(crate) fn parse_with(text: &str, environment: Environment) -> ReadResult {
    parse_files(&[("test.cfg", text)], environment)
}

fn parse_files(files: &[(&str, &str)], environment: Environment) -> ReadResult {
    let mut sources = SourceMap::new();
    for (name, text) in files {
        sources.add(*name, text.as_bytes().to_vec());
    }
    let inputs = Inputs {
        sources: &sources,
        loader: &DocumentFiles,
        registry: &Registry::new([]),
        keywords: &crate::testing::KEYWORDS,
        patterns: &PatternStore::new(),
        token_keys: &TokenKeys::new(),
        variables: &VariableNames::new(),
        scripts: &TestScripts,
        conditions: &StaticFeatures::default(),
    };
    let ConfigOutcome { config, environment, diagnostics } = parse(inputs, environment);
    let messages = diagnostics.iter().map(|diagnostic| diagnostic.classic_message(&sources)).collect();
    ReadResult { config, environment, messages }
}

/// Reads a configuration and checks that exactly these messages are reported.
#[track_caller]
pub(crate) fn check(text: &str, messages: &[&str]) {
    assert_eq!(parse_text(text).messages, messages, "{text}");
}

#[test]
fn rejects_keywords_outside_of_sections() {
    check(
        "foo bar\nglobl\n",
        &[
            "parsing [test.cfg:1]: unknown keyword 'foo' out of section.",
            "parsing [test.cfg:2]: unknown keyword 'globl' out of section; did you mean 'global' maybe ?",
        ],
    );
}

#[test]
fn every_file_begins_outside_of_sections() {
    let read = parse_files(&[("a.cfg", "global\n"), ("b.cfg", "maxconn 10\n")], Environment::new());
    assert_eq!(read.messages, ["parsing [b.cfg:1]: unknown keyword 'maxconn' out of section."]);
}

#[test]
fn reports_an_unimplemented_section_once() {
    check(
        "log-profile p\n log-tag a\n foo\nglobal\n maxcon\nprogram x\n command y\n",
        &[
            "parsing [test.cfg:1] : section 'log-profile' is not implemented yet",
            "parsing [test.cfg:5] : unknown keyword 'maxcon' in 'global' section; did you mean 'maxconn' maybe ?",
            "parsing [test.cfg:6] : section 'program' is not supported any more; let the service manager start \
             other programs",
        ],
    );
}

#[test]
fn parses_userlists_and_reports_errors() {
    let read = parse_text("userlist u\n user a insecure-password b\nuserlist v\n");
    assert!(read.messages.is_empty(), "{:?}", read.messages);
    assert!(read.config.userlist("u").unwrap().authenticate("a", b"b"));
    assert!(read.config.userlist("w").is_none());
    check(
        "userlist\nuserlist u\nuserlist u\n user x\nuserlist v w\nuserlist a/b\n",
        &[
            "parsing [test.cfg:1]: 'userlist' expects <name> as arguments.",
            "parsing [test.cfg:3]: ignoring duplicated userlist 'u'.",
            "parsing [test.cfg:5] : 'userlist' cannot handle unexpected argument 'w'.",
            "parsing [test.cfg:6]: character '/' is not permitted in 'userlist' name 'a/b'.",
        ],
    );
}

#[test]
fn parses_http_errors_sections_and_reports_errors() {
    check("http-errors x\n errorfile 500 e.http\n errorfile 404 /dev/null\n", &[]);
    check(
        "http-errors x\n errorfile\n errorfile 500\n errorfile 500 /nosuch\n errorfile 99 /dev/null\n foo\n\
         http-errors x\nhttp-errors\n",
        &[
            "parsing [test.cfg:2] : errorfile: expects <status_code> and <file> as arguments.",
            "parsing [test.cfg:3] : errorfile: expects <status_code> and <file> as arguments.",
            "parsing [test.cfg:4] : errorfile : error opening file '/nosuch': entity not found.",
            "parsing [test.cfg:5] : errorfile : status code '99' not handled.",
            "parsing [test.cfg:6] : unknown keyword 'foo' in 'http-errors' section",
            "parsing [test.cfg:7]: http-errors section 'x' already exists (declared at test.cfg:1).",
            "parsing [test.cfg:8] : missing name for http-errors section.",
        ],
    );
}

#[test]
fn expands_the_section_name_in_messages() {
    check(
        ".notice \"<$.SECTION\"\nglobal\n.notice \"$.SECTION\"\nuserlist u\n.notice \"$.SECTION\"\n",
        &["parsing [test.cfg:1]: '<'.", "parsing [test.cfg:3]: 'global'.", "parsing [test.cfg:5]: 'u'."],
    );
}

#[test]
fn reports_a_refused_section_once_despite_references_to_it() {
    let http = "mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n";
    check(
        &format!(
            "userlist u x\nring r x\nhttp-errors e x\ndefaults\n {http} log ring@r local0\n log ring@s local0\n\
             frontend f\n bind :1\n errorfiles e 404\n errorfiles g\n"
        ),
        &[
            "parsing [test.cfg:1] : 'userlist' cannot handle unexpected argument 'x'.",
            "parsing [test.cfg:2] : 'ring' cannot handle unexpected argument 'x'.",
            "parsing [test.cfg:3] : 'http-errors' cannot handle unexpected argument 'x'.",
            "parsing [test.cfg:10] : log : unknown ring 's'",
            "frontend 'f': unknown http-errors section 'g' (at test.cfg:14).",
        ],
    );
}

#[test]
fn skips_a_section_with_an_empty_name() {
    check(
        "frontend \"$NAME\"\n bind nonsense\n foo\nglobal\n",
        &[
            "parsing [test.cfg:1]: argument number 1 at position 10 is empty and marks the end of the argument list:\n  \
             frontend \"$NAME\"\n           ^",
        ],
    );
}

/// The registry of these tests knows no fetch: only messages about groups matter.
#[test]
fn rejects_acls_with_unknown_userlist_groups() {
    let invalid = |lines: &str| -> Vec<String> {
        let text =
            format!("frontend f\n bind :1\n{lines}\nuserlist u\n group g\n user a password x groups g\n");
        let of_groups = |message: &String| message.contains("invalid group");
        parse_text(&text).messages.into_iter().filter(of_groups).collect()
    };
    assert_eq!(invalid(" acl x http_auth_group(u) g"), [""; 0]);
    assert_eq!(invalid(" acl x http_auth_group(u) -i g"), [""; 0]);
    assert_eq!(invalid(" acl x http_auth_group(nobody) h"), [""; 0]);
    assert_eq!(invalid(" acl x http_auth_group(u) -f groups.txt"), [""; 0]);
    assert_eq!(
        invalid(" http-request deny if { http_auth_group(u) g h } other\n acl x http_auth_group(u) i"),
        [
            "parsing [test.cfg:3] : acl http_auth_group(): invalid group 'h'.",
            "parsing [test.cfg:4] : acl http_auth_group(): invalid group 'i'.",
        ]
    );
}

#[test]
fn bind_thread_sets_require_existing_threads() {
    let text = |threads: &str| {
        format!(
            "global\n nbthread 2\nfrontend f\n mode http\n timeout client 1s\n bind :1 thread {threads}\n"
        )
    };
    for threads in ["1", "2", "1-2", "2-9", "all", "odd", "even", "1/2", "3,1"] {
        check(&text(threads), &[]);
    }
    for threads in ["3", "3-64", "1/3"] {
        check(
            &text(threads),
            &[
                "frontend 'f': 'thread' directive only references non-existing threads in 'bind :1' at [test.cfg:6].",
            ],
        );
    }
}

#[test]
fn rejects_arguments_of_a_global_line() {
    check(
        "global x\n maxconn 1\n",
        &["parsing [test.cfg:1] : 'global' cannot handle unexpected argument 'x'."],
    );
}

#[test]
fn removes_unused_mailers_sections() {
    let uses = "listen l\n bind :80\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n \
                email-alert mailers a\n email-alert from a\n email-alert to b\n";
    check(
        &format!("mailers a\nmailers b\n mailer m 127.0.0.1:25\n{uses}"),
        &["Removing incomplete section 'mailers b'."],
    );
}
