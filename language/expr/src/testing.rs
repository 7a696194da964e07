//! Helpers for the tests of this crate: a scope over files in memory, and a context with a fetch that has several
//! values.

use std::io;
use std::sync::LazyLock;

use weir_syntax::{Files, MemoryFiles};

use crate::args::{ArgKind, ArgSpec, Args};
use crate::context::{
    CaptureSide, Context, DetachedContext, FetchCursor, FetchResult, ObjectLookup, ProcessFacts,
};
use crate::fetch::{FetchDecl, FetchIndex, Needs};
use crate::location::Location;
use crate::sample::{Sample, SampleFlags, SampleType, Value};
use crate::time::{TimeZone, WallTime};
use crate::variables::{SetCondition, VariableId};
use crate::{
    AclTable, Alias, Chain, Condition, EvaluationPoints, Expr, ExpressionScope, FormatOptions, Loader,
    LogFormat, LogWriter, ParseError, PatternStore, Registry, TokenKeys, VariableNames, Warnings,
};

/// Fetches of the test context: `list(a;b)` has one value for each part, `later` has not arrived, `growing` may still change, `srv_id` is
/// only valid in responses.
pub(crate) static FETCHES: [FetchDecl; 6] = [
    FetchDecl::new("req.hdr", SampleType::Str, "Each part of the argument")
        .args(ArgSpec::new(1, &[ArgKind::Str])),
    FetchDecl::new("req.len", SampleType::Int, "Has not arrived"),
    FetchDecl::new("path", SampleType::Str, "May still change"),
    FetchDecl::new("res.hdr", SampleType::Str, "Only in responses")
        .valid("...........YYYYYYY.Y..")
        .needs(Needs::HTTP_RESPONSE),
    FetchDecl::new("be_conn", SampleType::Int, "Names an object").args(ArgSpec::new(1, &[ArgKind::Backend])),
    FetchDecl::new("method", SampleType::Method, "The method"),
];

#[derive(Debug)]
pub(crate) struct Fixture {
    pub registry: Registry,
    pub patterns: PatternStore,
    pub token_keys: TokenKeys,
    pub variables: VariableNames,
    pub acls: AclTable,
    pub warnings: Warnings,
    pub files: Surroundings,
    pub at: Location,
}

/// Files in memory, a variable and a host.
#[derive(Debug, Default)]
pub(crate) struct Surroundings(MemoryFiles);

impl Files for Surroundings {
    fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        self.0.read(path, limit)
    }
}

impl Loader for Surroundings {
    fn environment(&self, name: &str) -> Option<String> {
        (name == "HOME").then(|| "/root".into())
    }

    fn address_of(&self, host: &str) -> Option<std::net::Ipv4Addr> {
        (host == "localhost").then_some(std::net::Ipv4Addr::LOCALHOST)
    }
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture {
            registry: Registry::new(&FETCHES),
            patterns: PatternStore::new(),
            token_keys: TokenKeys::new(),
            variables: VariableNames::new(),
            acls: AclTable::new(),
            warnings: Warnings::new(),
            files: Surroundings::default(),
            at: Location::new("test.cfg".into(), 7),
        }
    }

    pub(crate) fn file(mut self, name: &str, content: &str) -> Fixture {
        self.files.0.insert(name, content);
        self
    }

    pub(crate) fn scope(&self) -> ExpressionScope<'_> {
        ExpressionScope {
            registry: &self.registry,
            patterns: &self.patterns,
            token_keys: &self.token_keys,
            variables: &self.variables,
            acls: Some(&self.acls),
            loader: &self.files,
            points: EvaluationPoints::ALL,
            warnings: &self.warnings,
            at: &self.at,
        }
    }

    pub(crate) fn parse(&self, text: &str) -> Result<Expr, ParseError> {
        Expr::parse_text(text.as_bytes(), &self.scope())
    }

    pub(crate) fn chain(&self, text: &str) -> Result<Chain, ParseError> {
        Chain::parse(&[text.as_bytes()], 0, &self.scope())
    }

    /// The result of an expression as text: unprintable bytes are escaped, a missing value is `-`.
    pub(crate) fn eval(&self, text: &str) -> String {
        self.eval_in(text, &mut TestContext::default())
    }

    /// Like `eval`, in an existing context.
    pub(crate) fn eval_in(&self, text: &str, context: &mut TestContext) -> String {
        match self.parse(text) {
            Ok(expr) => match self.sealed(&expr).evaluate_str(context) {
                FetchResult::Sample(sample) => {
                    sample.value.bytes().unwrap_or_default().escape_ascii().to_string()
                }
                FetchResult::Missing => "-".into(),
                FetchResult::Later => "later".into(),
            },
            Err(error) => format!("error: {}", error.message),
        }
    }

    fn sealed<'e>(&self, expr: &'e Expr) -> &'e Expr {
        self.acls.seal();
        expr
    }

    pub(crate) fn condition(&self, text: &str) -> Result<Condition, ParseError> {
        let words: Vec<&[u8]> = text.split_ascii_whitespace().map(str::as_bytes).collect();
        Condition::parse(&words, 0, &self.scope())
    }

    pub(crate) fn render(&self, text: &str, options: FormatOptions) -> String {
        match LogFormat::parse(text.as_bytes(), options, &self.scope()) {
            Ok(format) => {
                let mut out = Vec::new();
                format.render(&mut TestContext::default(), &mut out);
                out.escape_ascii().to_string()
            }
            Err(error) => format!("error: {}", error.message),
        }
    }
}

#[derive(Debug)]
pub(crate) struct TestContext {
    pub detached: DetachedContext<'static>,
    pub captured: Vec<Vec<u8>>,
    pub debugged: Vec<String>,
}

impl Default for TestContext {
    fn default() -> Self {
        let process = ProcessFacts {
            hostname: "host",
            pid: 300,
            thread: 1,
            thread_group: 1,
            ..ProcessFacts::default()
        };
        let now = WallTime { seconds: 1_700_000_000, micros: 123_456 };
        let detached = DetachedContext { process, now, ..DetachedContext::default() };
        TestContext { detached, captured: Vec::new(), debugged: Vec::new() }
    }
}

impl Context for TestContext {
    /// UTC, with the name of a local time zone.
    fn time_zone(&self) -> &TimeZone {
        static LOCAL: LazyLock<TimeZone> = LazyLock::new(TimeZone::default);
        &LOCAL
    }

    fn fetch<'c>(
        &'c mut self,
        fetch: FetchIndex,
        args: &'c Args,
        cursor: &mut FetchCursor,
    ) -> FetchResult<'c> {
        match FETCHES[usize::from(fetch.0)].name {
            "req.hdr" => {
                let parts: Vec<&[u8]> = args.str(0).unwrap_or_default().split(|byte| *byte == b';').collect();
                let index = if cursor.iterating { cursor.position[0] } else { parts.len() - 1 };
                cursor.position[0] += 1;
                cursor.more = cursor.iterating && index + 1 < parts.len();
                FetchResult::value(Value::str(parts[index]))
            }
            "req.len" => FetchResult::Later,
            "path" => FetchResult::Sample(Sample::new(Value::str(b"/path")).with(SampleFlags::MAY_CHANGE)),
            "be_conn" => FetchResult::from(
                args.reference(0).and_then(|r| r.target()).map(|(n, _)| Value::Int(n.into())),
            ),
            "method" => FetchResult::value(Value::method(b"GET")),
            _ => FetchResult::Missing,
        }
    }

    fn variable(&mut self, variable: VariableId) -> Option<Value<'_>> {
        self.detached.variable(variable)
    }

    fn set_variable(&mut self, variable: VariableId, value: Value<'_>, condition: SetCondition) -> bool {
        self.detached.set_variable(variable, value, condition)
    }

    fn unset_variable(&mut self, variable: VariableId) -> bool {
        self.detached.unset_variable(variable)
    }

    fn now(&self) -> WallTime {
        self.detached.now()
    }

    fn random(&mut self) -> u64 {
        self.detached.random()
    }

    fn process(&self) -> ProcessFacts<'_> {
        self.detached.process()
    }

    fn lookup(&mut self, lookup: ObjectLookup, name: &[u8]) -> Option<Value<'static>> {
        match (lookup, name) {
            (ObjectLookup::UsableServers, b"backend") => Some(Value::Int(3)),
            (ObjectLookup::ServerQueue, b"backend/server") => Some(Value::Int(2)),
            (ObjectLookup::ServerIsUp, b"backend/server") => Some(Value::Bool(true)),
            (ObjectLookup::FrontendExists, name) => Some(Value::Bool(name == b"frontend")),
            _ => None,
        }
    }

    fn capture(&mut self, _: CaptureSide, slot: usize, value: &[u8]) -> bool {
        self.captured.push(value.to_vec());
        slot < 2
    }

    fn debug(&mut self, destination: &str, line: &[u8]) {
        self.debugged.push(format!("{destination} {}", line.escape_ascii()));
    }

    fn log_alias(&mut self, alias: Alias, out: &mut LogWriter<'_>) {
        match alias {
            Alias::ClientIp => out.address(Some([127, 0, 0, 1].into())),
            Alias::ClientPort => out.port(Some(49402)),
            Alias::Pid => out.counter(300),
            Alias::Status => out.number(200),
            Alias::Retries => out.raw(b"+1"),
            Alias::AcceptDate => out.raw(b"14/Nov/2023:22:13:20.123"),
            Alias::Frontend => out.text(b"f"),
            Alias::Request => out.encoded(b"GET /p]\"\\\xe9 HTTP/1.1"),
            Alias::RequestHeaders => out.headers([Some(&b"a{|}b"[..]), None].into_iter()),
            Alias::ResponseHeaders => out.headers(std::iter::empty()),
            Alias::RequestHeadersClf => out.header_list([Some(&b"three"[..]), None].into_iter()),
            _ => out.missing(),
        }
    }
}
