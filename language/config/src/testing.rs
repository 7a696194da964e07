//! Helpers for tests of proxy sections: a few fetches, a few files, and a driver for the proxy sections alone.

pub(crate) mod actions;
pub(crate) mod filters;
pub(crate) mod scripts;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use weir_expr::{
    ArgKind, ArgSpec, FetchDecl, Loader, Needs, PatternStore, Registry, SampleType, ScriptNames, TokenKeys,
    VariableNames,
};
use weir_syntax::{DiagnosticSeverity, Diagnostics, Environment, LineReader, SourceMap, StaticFeatures};

use crate::StreamKeywords;
use crate::proxy::application::section::ApplicationSection;
use crate::proxy::{OtherSections, ProxyParser};
use crate::resources::Resources;
use crate::testing::scripts::TestScripts;
use weir_model::{
    ErrorMessage, ErrorReplies, ErrorReply, Facility, LogAddress, LogTarget, Proxy, Severity as LogSeverity,
};

/// The actions and the filters of the tests.
pub(crate) static KEYWORDS: StreamKeywords = StreamKeywords::new(&actions::ACTIONS, &filters::FILTERS);

/// The files that the tests can read.
pub(crate) struct TestFiles(HashMap<&'static str, &'static [u8]>);

impl Loader for TestFiles {
    fn scripts(&self) -> Option<&dyn ScriptNames> {
        Some(&TestScripts)
    }
}

impl weir_syntax::Files for TestFiles {
    fn read(&self, path: &str, _: u64) -> io::Result<Vec<u8>> {
        let bytes = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(bytes.to_vec())
    }
}

const REQUESTS: &str = "..YYYYYYYY............";
const RESPONSES: &str = "...........YYYYYYY....";
const CHOSEN: &str = "......YYYYYYYYYYYYYY..";
const ONE_STRING: ArgSpec = ArgSpec::new(0, &[ArgKind::Str]);

pub(crate) static FETCHES: &[FetchDecl] = &[
    FetchDecl::new("src", SampleType::Ipv4, "client").needs(Needs::L4_CLIENT),
    FetchDecl::new("fc_err", SampleType::Int, "error of the client's connection").needs(Needs::L4_CLIENT),
    FetchDecl::new("ssl_fc_err", SampleType::Int, "error of the handshake").needs(Needs::L5_CLIENT),
    FetchDecl::new("ssl_c_err", SampleType::Int, "fault of the certificate").needs(Needs::L5_CLIENT),
    FetchDecl::new("ssl_c_ca_err", SampleType::Int, "fault of its issuer").needs(Needs::L5_CLIENT),
    FetchDecl::new("ssl_fc_is_resumed", SampleType::Bool, "resumption").needs(Needs::L5_CLIENT),
    FetchDecl::new("ssl_fc_sni", SampleType::Str, "server name").needs(Needs::L5_CLIENT),
    FetchDecl::new("dst", SampleType::Ipv4, "destination").needs(Needs::L4_CLIENT),
    FetchDecl::new("req.len", SampleType::Int, "length").valid(REQUESTS).needs(Needs::L6_REQUEST),
    FetchDecl::new("path", SampleType::Str, "path").valid(REQUESTS).needs(Needs::HTTP_REQUEST),
    FetchDecl::new("req.body", SampleType::Bin, "body").valid(REQUESTS).needs(Needs::HTTP_REQUEST_BODY),
    FetchDecl::new("req.hdr", SampleType::Str, "header")
        .args(ONE_STRING)
        .valid(REQUESTS)
        .needs(Needs::HTTP_REQUEST),
    FetchDecl::new("hdr", SampleType::Str, "header")
        .args(ONE_STRING)
        .valid(REQUESTS)
        .needs(Needs::HTTP_REQUEST),
    FetchDecl::new("res.hdr", SampleType::Str, "header")
        .args(ONE_STRING)
        .valid(RESPONSES)
        .needs(Needs::HTTP_RESPONSE),
    FetchDecl::new("be_name", SampleType::Str, "backend").valid(CHOSEN),
    FetchDecl::new("fe_name", SampleType::Str, "frontend"),
    FetchDecl::new("be_conn", SampleType::Int, "connections").args(ArgSpec::new(0, &[ArgKind::Backend])),
    FetchDecl::new("fe_conn", SampleType::Int, "connections").args(ArgSpec::new(0, &[ArgKind::Frontend])),
    FetchDecl::new("srv_conn", SampleType::Int, "connections").args(ArgSpec::new(1, &[ArgKind::Server])),
    FetchDecl::new("http_auth", SampleType::Bool, "known user").args(ArgSpec::new(1, &[ArgKind::UserList])),
];

/// The result of parsing proxy sections.
pub(crate) struct SectionsOutcome {
    pub proxies: Vec<Proxy>,
    /// The diagnostics in classic form, each after the first letter of its severity.
    pub messages: Vec<String>,
    /// The words under the caret of each diagnostic with a location.
    pub marked: Vec<String>,
}

/// Parses `text`, which contains only proxy sections. The file name is `t.cfg`.
pub(crate) fn read(text: &str) -> SectionsOutcome {
    let registry = Registry::new(FETCHES);
    let (patterns, token_keys, variables) = (PatternStore::new(), TokenKeys::new(), VariableNames::new());
    let files = TestFiles(HashMap::from([
        ("503.http", &b"HTTP/1.0 503 Down\r\nconnection: close\r\n\r\ndown"[..]),
        ("bad.http", &b"not a response"[..]),
        ("body.txt", &b"hello"[..]),
        ("format.txt", &b"hello %[src]"[..]),
    ]));
    let resources = Resources {
        registry: &registry,
        patterns: &patterns,
        token_keys: &token_keys,
        variables: &variables,
        scripts: &TestScripts,
        loader: &files,
    };
    let mut sources = SourceMap::new();
    sources.add("t.cfg", text.as_bytes().to_vec());
    let mut diagnostics = Diagnostics::new();
    let mut reader = LineReader::new(&sources);
    let mut parser = ProxyParser::new(resources, &KEYWORDS);
    let global_logs = [Arc::new(LogTarget {
        at: None,
        address: LogAddress::Descriptor(1),
        length_max: 1024,
        header: None,
        sampling: None,
        facility: Facility::from_name("local0").expect("a facility"),
        level: LogSeverity::Debug,
        minimum_level: LogSeverity::Emergency,
    })];
    let conditions = StaticFeatures { features: &[], enabled: &[], tls: None };
    while let Some(line) = reader.next_line(&Environment::new(), &conditions, &mut diagnostics) {
        if line.is_cut() {
            continue;
        }
        if ProxyParser::SECTIONS.contains(&line.text(0)) {
            parser.end_section(&global_logs, &mut diagnostics);
            parser.begin(&line, "t.cfg", &mut diagnostics);
        } else {
            parser.line(&line, "t.cfg", &mut diagnostics);
        }
        line.take_remarks().into_iter().for_each(|remark| diagnostics.push(remark));
    }
    let mut pages = ErrorReplies::default();
    let message = ErrorMessage { path: "p".into(), response: None };
    pages.set(503, ErrorReply::Message(Arc::new(message)));
    let pages = Arc::new(pages);
    let context = OtherSections {
        userlist: &|name| (name == "users").then_some(0),
        http_errors: &|name| (name == "pages").then(|| pages.clone()),
        peer_tables: &[],
        has_peers: &|_| false,
        has_health_check: &|name| name == "web",
        health_scripts: &|_| None,
        applications: &[ApplicationSection::example("php")],
        is_refused_application: &|_| false,
        has_mailers: &|name| name == "staff",
        has_description: false,
        external_checks: true,
        may_create_processes: true,
        first_proxy_id: 2,
    };
    parser.end_section(&global_logs, &mut diagnostics);
    let (proxies, _) = parser.finish(&context, &mut diagnostics);
    let shown = diagnostics.iter().filter(|diagnostic| diagnostic.severity != DiagnosticSeverity::Diag);
    let messages = shown.clone().map(|diagnostic| {
        let letter = match diagnostic.severity {
            DiagnosticSeverity::Alert => "A",
            DiagnosticSeverity::Warning => "W",
            _ => "N",
        };
        format!("{letter} {}", diagnostic.classic_message(&sources))
    });
    let marked = shown.clone().filter_map(|diagnostic| {
        let span = diagnostic.span?;
        let (line, _) = sources.get(span.file)?.line(span.line)?;
        let marked = line.get(span.start as usize..span.end as usize)?;
        Some(String::from_utf8_lossy(marked).into_owned())
    });
    SectionsOutcome { proxies, messages: messages.collect(), marked: marked.collect() }
}

/// Parses `lines` (separated by ` ;; `) in a section that begins with `section`, after a named `defaults` section in HTTP mode, and checks
/// all messages in order. A `...` at the end of an expected message matches any rest.
#[track_caller]
pub(crate) fn check(section: &str, lines: &str, expected: &[&str]) -> SectionsOutcome {
    let mut text = String::from(
        "defaults d\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\nbackend other\n",
    );
    text.push_str(&format!("{section} from d\n"));
    if section.starts_with("frontend") || section.starts_with("listen") {
        text.push_str(" bind :9999\n");
    }
    for line in lines.split(" ;; ") {
        text.push_str(&format!(" {line}\n"));
    }
    let outcome = read(&text);
    check_messages(lines, &outcome.messages, expected);
    outcome
}

#[track_caller]
fn check_messages(what: &str, messages: &[String], expected: &[&str]) {
    let matches = messages.len() == expected.len()
        && messages.iter().zip(expected).all(|(message, expected)| match expected.strip_suffix("...") {
            Some(beginning) => message.starts_with(beginning),
            None => message == expected,
        });
    assert!(matches, "{what}:\n  said {messages:#?}\n  not {expected:#?}");
}

/// Parses a whole configuration and checks the messages.
#[track_caller]
pub(crate) fn check_text(text: &str, expected: &[&str]) -> SectionsOutcome {
    let outcome = read(text);
    check_messages(text, &outcome.messages, expected);
    outcome
}
