//! Fetches as rows, and the registry that finds them by name.

use hashbrown::HashMap;

use weir_syntax::did_you_mean;

use crate::args::{ArgSpec, ArgsCheck};
use crate::internal;
use crate::pattern::MatchMethod;
use crate::sample::SampleType;
use crate::script_names::ScriptName;

pub(crate) mod known;

/// The declaration of a fetch, without the function that evaluates it.
#[derive(Debug, Clone, Copy)]
pub struct FetchDecl {
    pub name: &'static str,
    pub args: ArgSpec,
    /// The type of the result.
    pub output: SampleType,
    /// The points where the fetch is valid.
    pub valid: EvaluationPoints,
    /// The sources of information that the fetch needs.
    pub needs: Needs,
    /// Checks the parsed arguments. It may replace them by a prepared form.
    pub check: Option<ArgsCheck>,
    /// The help text in one line.
    pub help: &'static str,
}

impl FetchDecl {
    /// A fetch without arguments, valid everywhere. The builders below set the rest.
    pub const fn new(name: &'static str, output: SampleType, help: &'static str) -> Self {
        FetchDecl {
            name,
            args: ArgSpec::NONE,
            output,
            valid: EvaluationPoints::ALL,
            needs: Needs::INTERNAL,
            check: None,
            help,
        }
    }

    /// With arguments.
    #[must_use]
    pub const fn args(mut self, args: ArgSpec) -> Self {
        self.args = args;
        self
    }

    /// Valid in the points of a 22 character mask (see [`EvaluationPoints::from_mask`]).
    #[must_use]
    pub const fn valid(mut self, mask: &str) -> Self {
        self.valid = EvaluationPoints::from_mask(mask);
        self
    }

    /// With the sources of information that the fetch needs.
    #[must_use]
    pub const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// With a check of the arguments.
    #[must_use]
    pub const fn check(mut self, check: ArgsCheck) -> Self {
        self.check = Some(check);
        self
    }

    /// Whether the fetch reads the raw bytes of a connection, which HTTP mode does not keep.
    pub fn needs_bytes(&self) -> bool {
        // `req.proto_http` and similar fetches do not need the bytes.
        self.needs.intersects(Needs::L6_REQUEST.or(Needs::L6_RESPONSE)) && !self.name.ends_with("proto_http")
    }
}

/// A declaration with the function that evaluates the fetch. `R` is a function pointer type of the evaluating crate.
#[derive(Debug, Clone, Copy)]
pub struct Fetch<R> {
    pub decl: FetchDecl,
    pub run: R,
}

/// The points where an expression can be written, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvaluationPoint {
    /// Frontend `tcp-request connection`.
    FrontendConnection,
    /// Frontend `tcp-request session`.
    FrontendSession,
    /// Frontend `tcp-request content`.
    FrontendRequestContent,
    /// Frontend `http-request`, headers known.
    FrontendRequestHeader,
    /// Frontend `http-request`, body known.
    FrontendRequestBody,
    /// `use_backend`.
    FrontendUseBackend,
    /// Backend `tcp-request content`.
    BackendRequestContent,
    /// Backend `http-request`, headers known.
    BackendRequestHeader,
    /// Backend `http-request`, body known.
    BackendRequestBody,
    /// `use-server`, `balance`, `stick match`.
    BackendSetServer,
    /// A server was chosen: its `source`, `sni`, `pool-conn-name` and `set-proxy-v2-tlv-fmt`.
    ServerSource,
    /// Backend `tcp-response content`.
    BackendResponseContent,
    /// Backend `http-response`, headers known.
    BackendResponseHeader,
    /// Backend `http-response`, body known.
    BackendResponseBody,
    /// `stick store-request`, `stick store-response`.
    BackendStore,
    /// Frontend `tcp-response content`.
    FrontendResponseContent,
    /// Frontend `http-response`, headers known.
    FrontendResponseHeader,
    /// Frontend `http-response`, body known.
    FrontendResponseBody,
    Log,
    /// `tcp-check` and `http-check`.
    Check,
    ConfigParser,
    /// The command line interface.
    CliParser,
}

impl EvaluationPoint {
    /// Every point, in the order of the columns of documentation dumps.
    pub const ALL: [EvaluationPoint; 22] = [
        EvaluationPoint::FrontendConnection,
        EvaluationPoint::FrontendSession,
        EvaluationPoint::FrontendRequestContent,
        EvaluationPoint::FrontendRequestHeader,
        EvaluationPoint::FrontendRequestBody,
        EvaluationPoint::FrontendUseBackend,
        EvaluationPoint::BackendRequestContent,
        EvaluationPoint::BackendRequestHeader,
        EvaluationPoint::BackendRequestBody,
        EvaluationPoint::BackendSetServer,
        EvaluationPoint::ServerSource,
        EvaluationPoint::BackendResponseContent,
        EvaluationPoint::BackendResponseHeader,
        EvaluationPoint::BackendResponseBody,
        EvaluationPoint::BackendStore,
        EvaluationPoint::FrontendResponseContent,
        EvaluationPoint::FrontendResponseHeader,
        EvaluationPoint::FrontendResponseBody,
        EvaluationPoint::Log,
        EvaluationPoint::Check,
        EvaluationPoint::ConfigParser,
        EvaluationPoint::CliParser,
    ];

    /// The name of the point in errors and documentation dumps.
    pub const fn name(self) -> &'static str {
        match self {
            EvaluationPoint::FrontendConnection => "frontend tcp-request connection rule",
            EvaluationPoint::FrontendSession => "frontend tcp-request session rule",
            EvaluationPoint::FrontendRequestContent => "frontend tcp-request content rule",
            EvaluationPoint::FrontendRequestHeader => "frontend http-request header rule",
            EvaluationPoint::FrontendRequestBody => "frontend http-request body rule",
            EvaluationPoint::FrontendUseBackend => "frontend use-backend rule",
            EvaluationPoint::BackendRequestContent => "backend tcp-request content rule",
            EvaluationPoint::BackendRequestHeader => "backend http-request header rule",
            EvaluationPoint::BackendRequestBody => "backend http-request body rule",
            EvaluationPoint::BackendSetServer => "backend use-server, balance or stick-match rule",
            EvaluationPoint::ServerSource => "server source selection",
            EvaluationPoint::BackendResponseContent => "backend tcp-response content rule",
            EvaluationPoint::BackendResponseHeader => "backend http-response header rule",
            EvaluationPoint::BackendResponseBody => "backend http-response body rule",
            EvaluationPoint::BackendStore => "backend stick-store rule",
            EvaluationPoint::FrontendResponseContent => "frontend tcp-response content rule",
            EvaluationPoint::FrontendResponseHeader => "frontend http-response header rule",
            EvaluationPoint::FrontendResponseBody => "frontend http-response body rule",
            EvaluationPoint::Log => "logs",
            EvaluationPoint::Check => "backend tcp-check rule",
            EvaluationPoint::ConfigParser => "configuration parser",
            EvaluationPoint::CliParser => "CLI parser",
        }
    }
}

/// A set of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EvaluationPoints(u32);

impl EvaluationPoints {
    /// No point.
    pub const NONE: EvaluationPoints = EvaluationPoints(0);
    /// Every point.
    pub const ALL: EvaluationPoints = EvaluationPoints((1 << 22) - 1);

    /// The set with this point only.
    pub const fn only(point: EvaluationPoint) -> EvaluationPoints {
        EvaluationPoints(1 << point as u32)
    }

    /// The union of both sets.
    #[must_use]
    pub const fn or(self, other: EvaluationPoints) -> EvaluationPoints {
        EvaluationPoints(self.0 | other.0)
    }

    /// The set without this point.
    #[must_use]
    pub const fn without(self, point: EvaluationPoint) -> EvaluationPoints {
        EvaluationPoints(self.0 & !(1 << point as u32))
    }

    /// True if the point is in the set.
    pub const fn contains(self, point: EvaluationPoint) -> bool {
        self.0 & (1 << point as u32) != 0
    }

    /// True if the sets have a point in common.
    pub const fn intersects(self, other: EvaluationPoints) -> bool {
        self.0 & other.0 != 0
    }

    /// The set of a mask of 22 characters, `Y` or `.`, in the order of [`EvaluationPoint::ALL`]. Spaces are skipped.
    pub const fn from_mask(mask: &str) -> EvaluationPoints {
        let bytes = mask.as_bytes();
        let mut set = 0;
        let mut bit = 0;
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == b'Y' {
                set |= 1 << bit;
            }
            if bytes[at] != b' ' {
                bit += 1;
            }
            at += 1;
        }
        assert!(bit == 22, "a mask names 22 points");
        EvaluationPoints(set)
    }
}

impl From<EvaluationPoint> for EvaluationPoints {
    fn from(point: EvaluationPoint) -> Self {
        EvaluationPoints::only(point)
    }
}

impl std::ops::BitOr for EvaluationPoints {
    type Output = EvaluationPoints;
    fn bitor(self, other: EvaluationPoints) -> EvaluationPoints {
        self.or(other)
    }
}

/// The sources of information that a fetch needs, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs(u32);

impl Needs {
    /// Data of the process itself.
    pub const INTERNAL: Needs = Needs(1);
    /// The listener.
    pub const LISTENER: Needs = Needs(1 << 1);
    /// The frontend.
    pub const FRONTEND: Needs = Needs(1 << 2);
    /// The client's connection, layer 4.
    pub const L4_CLIENT: Needs = Needs(1 << 3);
    /// The client's session, layer 5.
    pub const L5_CLIENT: Needs = Needs(1 << 4);
    /// A tracked counter.
    pub const TRACKED: Needs = Needs(1 << 5);
    /// The request buffer, layer 6.
    pub const L6_REQUEST: Needs = Needs(1 << 6);
    /// Facts about the HTTP request that are kept after its headers (method, captures).
    pub const HTTP_REQUEST_META: Needs = Needs(1 << 7);
    /// The HTTP request headers, not available after they were sent.
    pub const HTTP_REQUEST: Needs = Needs(1 << 8);
    /// The HTTP request body.
    pub const HTTP_REQUEST_BODY: Needs = Needs(1 << 9);
    /// The backend.
    pub const BACKEND: Needs = Needs(1 << 10);
    /// The server.
    pub const SERVER: Needs = Needs(1 << 11);
    /// The server's connection, layer 4.
    pub const L4_SERVER: Needs = Needs(1 << 12);
    /// The server's session, layer 5.
    pub const L5_SERVER: Needs = Needs(1 << 13);
    /// The response buffer, layer 6.
    pub const L6_RESPONSE: Needs = Needs(1 << 14);
    /// Facts about the HTTP response that are kept after its headers (status, captures).
    pub const HTTP_RESPONSE_META: Needs = Needs(1 << 15);
    /// The HTTP response headers, not available after they were sent.
    pub const HTTP_RESPONSE: Needs = Needs(1 << 16);
    /// The HTTP response body.
    pub const HTTP_RESPONSE_BODY: Needs = Needs(1 << 17);
    /// Statistics of the whole stream.
    pub const FINAL: Needs = Needs(1 << 18);

    /// The union of both sets.
    #[must_use]
    pub const fn or(self, other: Needs) -> Needs {
        Needs(self.0 | other.0)
    }

    /// True if the sets have an element in common.
    pub const fn intersects(self, other: Needs) -> bool {
        self.0 & other.0 != 0
    }

    /// The names of the sources, as errors list them.
    pub fn names(self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for (bit, name) in Self::NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                names.push(name);
            }
        }
        names.join(",")
    }

    const NAMES: [&'static str; 19] = [
        "internal state",
        "listener",
        "frontend",
        "client address",
        "client-side connection",
        "track counters",
        "request buffer",
        "HTTP request",
        "HTTP request headers",
        "HTTP request body",
        "backend",
        "server",
        "server address",
        "server-side connection",
        "response buffer",
        "HTTP response",
        "HTTP response headers",
        "HTTP response body",
        "session statistics",
    ];

    /// Whether the fetch works only in HTTP mode.
    pub const fn is_http(self) -> bool {
        self.intersects(Needs(
            Needs::HTTP_REQUEST.0
                | Needs::HTTP_REQUEST_META.0
                | Needs::HTTP_REQUEST_BODY.0
                | Needs::HTTP_RESPONSE.0
                | Needs::HTTP_RESPONSE_META.0
                | Needs::HTTP_RESPONSE_BODY.0,
        ))
    }
}

/// The index of a fetch in the table that was given to [`Registry::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FetchIndex(pub u16);

/// The names of all fetches of the language, sorted, including those that are not implemented.
pub fn names() -> &'static [&'static str] {
    known::NAMES
}

/// The code that evaluates a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchAnswer {
    /// A row of [`internal::FETCHES`].
    Internal(u16),
    Context(FetchIndex),
    /// A function of a script.
    Script(ScriptName),
}

/// A keyword of ACLs only: a fetch with an implied match method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AclKeyword {
    pub name: &'static str,
    /// The fetch of the keyword.
    pub fetch: &'static str,
    pub method: MatchMethod,
    /// Whether integers may be written as two numbers with a dot between (`3.1`), for versions.
    pub dotted: bool,
}

/// All fetches, found by name.
#[derive(Debug, Default)]
pub struct Registry {
    fetches: HashMap<&'static str, (FetchAnswer, &'static FetchDecl)>,
    acl_keywords: HashMap<&'static str, AclKeyword>,
}

impl Registry {
    /// The internal fetches, and those that the context evaluates. A [`FetchIndex`] is a position in `fetches`.
    pub fn new(fetches: impl IntoIterator<Item = &'static FetchDecl>) -> Self {
        let mut registry = Registry::default();
        for (index, row) in internal::FETCHES.iter().enumerate() {
            registry.fetches.insert(row.decl.name, (FetchAnswer::Internal(index as u16), &row.decl));
        }
        for (index, decl) in fetches.into_iter().enumerate() {
            registry.fetches.insert(decl.name, (FetchAnswer::Context(FetchIndex(index as u16)), decl));
        }
        for keyword in crate::acl::keywords::keywords() {
            registry.acl_keywords.insert(keyword.name, keyword);
        }
        registry
    }

    /// The declaration of a fetch.
    pub fn fetch(&self, name: &str) -> Option<&'static FetchDecl> {
        self.fetches.get(name).map(|(_, decl)| *decl)
    }

    pub(crate) fn answer(&self, name: &str) -> Option<(FetchAnswer, &'static FetchDecl)> {
        self.fetches.get(name).copied()
    }

    /// The ACL keyword with this name, if its fetch exists.
    pub fn acl_keyword(&self, name: &str) -> Option<AclKeyword> {
        self.acl_keywords.get(name).copied()
    }

    /// The known fetch closest to `name`.
    pub fn closest_fetch(&self, name: &str) -> Option<&'static str> {
        did_you_mean(name, self.fetches.keys().copied())
    }

    /// The known fetch or ACL keyword closest to `name`.
    pub fn closest_criterion(&self, name: &str) -> Option<&'static str> {
        did_you_mean(name, self.fetches.keys().chain(self.acl_keywords.keys()).copied())
    }

    /// Every fetch, by name.
    pub fn fetches(&self) -> Vec<&'static FetchDecl> {
        let mut list: Vec<_> = self.fetches.values().map(|(_, decl)| *decl).collect();
        list.sort_by_key(|decl| decl.name);
        list
    }

    /// Every ACL keyword with an existing fetch, by name.
    pub fn acl_keywords(&self) -> Vec<AclKeyword> {
        let mut list: Vec<_> =
            self.acl_keywords.values().filter(|row| self.fetches.contains_key(row.fetch)).copied().collect();
        list.sort_by_key(|row| row.name);
        list
    }
}
