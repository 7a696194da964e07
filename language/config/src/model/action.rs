//! Actions of rules. The rows in `rules/` parse these; `data/stream` runs them.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::pattern::PatternSet;
use weir_expr::pattern::regex::Regex;
use weir_expr::{Expr, LogFormat, SetCondition, VariableId};

use super::Protocol;
use super::log::Severity;
use super::reply::Reply;
use super::table::{CounterChange, Track};

/// One action with its arguments. Rare and large arguments are boxed, so that a rule stays small.
#[derive(Clone, Debug)]
pub enum Action {
    /// `accept` (tcp) or `allow` (http): no further rule of this set.
    Accept,
    /// `close`: the server side of a `tcp-response content` rule.
    Close,
    /// `reject`: close the connection without a response.
    Reject,
    /// `switch-mode http`: the connection goes on in HTTP, of this version if one is said. No further rule of this set.
    SwitchMode(Option<Protocol>),
    /// `silent-drop`: close without telling the peer.
    SilentDrop {
        /// `rst-ttl`: send a reset with this time to live, in hops.
        reset_ttl: Option<u8>,
    },
    /// `deny`.
    Deny(Box<Reply>),
    /// `tarpit`: like `deny`, after `timeout tarpit`.
    Tarpit(Box<Reply>),
    /// `return`.
    Return(Box<Reply>),
    /// `use-service`: a built-in service answers.
    UseService(Service),
    /// `redirect`.
    Redirect(Arc<Redirect>),
    /// `auth`: demand credentials unless the request has valid ones.
    Auth {
        /// The realm; none for the proxy's name.
        realm: Option<Box<str>>,
    },
    /// `add-header`, `set-header`, `replace-header`, `replace-value`, `del-header`.
    Header(Box<HeaderEdit>),
    /// `early-hint`: a header of a 103 response; those that follow each other share one.
    EarlyHint {
        /// The header's name.
        name: Box<str>,
        /// Its value.
        value: Box<LogFormat>,
    },
    /// `set-method`.
    SetMethod(Box<LogFormat>),
    /// `set-path`, `set-pathq`, `set-query`, `set-uri`.
    SetUri {
        /// Which part.
        part: UriPart,
        /// What it becomes.
        value: Box<LogFormat>,
    },
    /// `replace-path`, `replace-pathq`, `replace-uri`.
    ReplaceUri(Box<UriReplacement>),
    /// `normalize-uri`.
    NormalizeUri(UriNormalizer),
    /// `set-status`.
    SetStatus {
        /// The status.
        status: u16,
        /// The reason; none for the usual one.
        reason: Option<Box<str>>,
    },
    /// `set-src`, `set-src-port`, `set-dst`, `set-dst-port`.
    SetEndpoint {
        /// The address or port to change.
        endpoint: Endpoint,
        /// What it becomes.
        value: Arc<Expr>,
    },
    /// `set-var`.
    SetVariable {
        /// The variable.
        name: VariableId,
        /// When it is set.
        condition: SetCondition,
        /// What it becomes.
        value: Arc<Expr>,
    },
    /// `set-var-fmt`.
    SetVariableFormat {
        /// The variable.
        name: VariableId,
        /// When it is set.
        condition: SetCondition,
        /// What it becomes.
        value: Box<LogFormat>,
    },
    /// `do-resolve`.
    DoResolve(Box<DoResolve>),
    /// `unset-var`.
    UnsetVariable(VariableId),
    /// `add-acl`, `del-acl`, `del-map`, `set-map`.
    Pattern(Box<PatternEdit>),
    /// `capture`: keep a sample for the logs.
    Capture(Box<Capture>),
    /// `set-log-level`; none for `silent`.
    SetLogLevel(Option<Severity>),
    /// `set-nice`.
    SetNice(i16),
    /// `set-fc-tos`, `set-bc-tos` (and `set-tos`).
    SetTos {
        /// Towards whom.
        side: ConnectionSide,
        /// The value.
        value: Number,
    },
    /// `set-fc-mark`, `set-bc-mark` (and `set-mark`).
    SetMark {
        /// Towards whom.
        side: ConnectionSide,
        /// The value.
        value: Number,
    },
    /// `set-timeout`.
    SetTimeout {
        /// Which.
        timeout: TimeoutName,
        /// The value; an expression gives milliseconds.
        value: DelayOrExpression,
    },
    /// `set-retries`.
    SetRetries(Number),
    /// `set-priority-class`.
    SetPriorityClass(Arc<Expr>),
    /// `set-priority-offset`.
    SetPriorityOffset(Arc<Expr>),
    /// `set-bandwidth-limit`.
    SetBandwidthLimit(Box<BandwidthLimit>),
    /// `disable-l7-retry`.
    DisableL7Retry,
    /// `wait-for-body`.
    WaitForBody {
        /// How long at most.
        time: Duration,
        /// `at-least`: enough bytes; 0 for the whole body or a full buffer.
        at_least: u64,
    },
    /// `wait-for-handshake`.
    WaitForHandshake,
    /// `pause`; an expression gives milliseconds.
    Pause(DelayOrExpression),
    /// `strict-mode`: whether a failure of a later rule ends the transaction.
    StrictMode(bool),
    /// `do-log`: log now.
    DoLog,
    /// `track-sc0`, `track-sc1` and so on.
    Track(Box<Track>),
    /// `sc-inc-gpc`, `sc-add-gpc`, `sc-set-gpt` and their older forms.
    ChangeCounter(Box<CounterChange>),
    /// `expect-proxy layer4`: the connection begins with a PROXY protocol header.
    ExpectProxy,
}

impl Action {
    /// Whether the ruleset always ends with this action.
    pub fn is_final(&self) -> bool {
        matches!(self, Action::Redirect(redirect) if !redirect.ignore_empty)
            || matches!(
                self,
                Action::Accept
                    | Action::Close
                    | Action::Reject
                    | Action::SwitchMode(_)
                    | Action::SilentDrop { .. }
                    | Action::Deny(_)
                    | Action::Tarpit(_)
                    | Action::Return(_)
                    | Action::UseService(_)
                    | Action::Auth { .. }
            )
    }
}

/// The services of `use-service`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// `prometheus-exporter`.
    PrometheusExporter,
}

impl Service {
    /// All of them.
    pub const ALL: [Service; 1] = [Service::PrometheusExporter];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Service::PrometheusExporter => "prometheus-exporter",
        }
    }
}

/// Which connection an action is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionSide {
    /// The client's.
    Frontend,
    /// The server's.
    Backend,
}

/// An integer, known now or when the rule runs.
#[derive(Clone, Debug)]
pub enum Number {
    /// Known now.
    Fixed(u32),
    /// An expression that gives an integer.
    Expression(Arc<Expr>),
}

/// A delay, known now or when the rule runs.
#[derive(Clone, Debug)]
pub enum DelayOrExpression {
    /// Known now.
    Fixed(Duration),
    /// An expression that gives milliseconds.
    Expression(Arc<Expr>),
}

/// A size, known now or when the rule runs.
#[derive(Clone, Debug)]
pub enum SizeOrExpression {
    /// Known now.
    Fixed(u64),
    /// An expression that gives bytes.
    Expression(Arc<Expr>),
}

/// `set-bandwidth-limit <name> [limit <size>] [period <time>]`: missing values are those of the filter's line.
#[derive(Clone, Debug)]
pub struct BandwidthLimit {
    /// The filter's name.
    pub filter: Box<str>,
    /// Bytes per period.
    pub limit: Option<SizeOrExpression>,
    /// The period.
    pub period: Option<DelayOrExpression>,
}

/// A change to the header fields called `name`.
#[derive(Clone, Debug)]
pub struct HeaderEdit {
    /// The name.
    pub name: Box<str>,
    /// The change.
    pub edit: HeaderEditKind,
}

/// A change to header fields.
#[derive(Clone, Debug)]
pub enum HeaderEditKind {
    /// Add a field.
    Add(LogFormat),
    /// Replace all fields of that name by one.
    Set(LogFormat),
    /// Remove every field whose name matches.
    Delete(NameMatch),
    /// Replace in the whole value of each field.
    ReplaceField {
        /// What to look for.
        pattern: Arc<Regex>,
        /// What it becomes, with `\1` and so on for the groups.
        replacement: LogFormat,
    },
    /// Replace in each comma-separated value of each field.
    ReplaceValue {
        /// What to look for.
        pattern: Arc<Regex>,
        /// What it becomes.
        replacement: LogFormat,
    },
}

/// How `del-header` compares names (`-m`). The name is in [`HeaderEdit::name`].
#[derive(Clone, Debug)]
pub enum NameMatch {
    /// Equal, whatever the case.
    Exact,
    /// Begins with it.
    Prefix,
    /// Ends with it.
    Suffix,
    /// Contains it.
    Substring,
    /// Matches it.
    Regex(Arc<Regex>),
}

/// A part of the request's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriPart {
    /// The path.
    Path,
    /// The path and the query.
    PathAndQuery,
    /// The query.
    Query,
    /// All of it.
    Uri,
}

/// `replace-path`, `replace-pathq`, `replace-uri`.
#[derive(Clone, Debug)]
pub struct UriReplacement {
    /// In which part; never [`UriPart::Query`].
    pub part: UriPart,
    /// What to look for.
    pub pattern: Arc<Regex>,
    /// What it becomes, with `\1` and so on for the groups.
    pub replacement: LogFormat,
}

/// `normalize-uri`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriNormalizer {
    /// `fragment-encode`: `#` becomes `%23`.
    FragmentEncode,
    /// `fragment-strip`.
    FragmentStrip,
    /// `path-merge-slashes`.
    PathMergeSlashes,
    /// `path-strip-dot`.
    PathStripDot,
    /// `path-strip-dotdot`.
    PathStripDotDot {
        /// `full`: also at the beginning.
        full: bool,
    },
    /// `percent-decode-unreserved`.
    PercentDecodeUnreserved {
        /// `strict`: refuse invalid encodings.
        strict: bool,
    },
    /// `percent-to-uppercase`.
    PercentToUppercase {
        /// `strict`: refuse invalid encodings.
        strict: bool,
    },
    /// `query-sort-by-name`.
    QuerySortByName,
}

/// The client's or the destination's address or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The source address.
    Source,
    /// The source port.
    SourcePort,
    /// The destination address.
    Destination,
    /// The destination port.
    DestinationPort,
}

/// A change to an ACL's or a map's patterns.
#[derive(Clone, Debug)]
pub struct PatternEdit {
    /// The set of patterns of a file.
    pub set: Arc<PatternSet>,
    /// The key.
    pub key: LogFormat,
    /// The change.
    pub edit: PatternEditKind,
}

/// A change to a set of patterns.
#[derive(Clone, Debug)]
pub enum PatternEditKind {
    /// `add-acl`.
    AddAcl,
    /// `del-acl`.
    DeleteAcl,
    /// `del-map`.
    DeleteMap,
    /// `set-map`.
    SetMap {
        /// The new value.
        value: LogFormat,
    },
}

/// `capture <sample> { len <length> | id <id> }`.
#[derive(Clone, Debug)]
pub struct Capture {
    /// What to keep.
    pub value: Arc<Expr>,
    /// The position in the capture list of the request or the response, as declared by the frontend.
    pub slot: u32,
}

/// The timeouts that `set-timeout` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutName {
    /// `client`.
    Client,
    /// `connect`.
    Connect,
    /// `queue`.
    Queue,
    /// `server`.
    Server,
    /// `tarpit`.
    Tarpit,
    /// `tunnel`.
    Tunnel,
}

/// A redirection.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// How the location is made.
    pub kind: RedirectKind,
    /// The value: plain text in a `redirect` line, a format in a rule.
    pub value: LogFormat,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// `drop-query`.
    pub drop_query: bool,
    /// `keep-query`: `location` gets the request's query appended.
    pub keep_query: bool,
    /// `append-slash`: with `drop-query`, paths without a final slash get one.
    pub append_slash: bool,
    /// `ignore-empty`: do nothing if the location is empty.
    pub ignore_empty: bool,
    /// `set-cookie`, `set-cookie-fmt`, `clear-cookie`: a `set-cookie` header.
    pub cookie: Option<RedirectCookie>,
}

/// The value of the `set-cookie` header of a redirection.
#[derive(Clone, Debug)]
pub struct RedirectCookie {
    /// The name, with or without a value.
    pub format: LogFormat,
    /// The cookie's attributes.
    pub attributes: &'static str,
}

/// How a redirection's location is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectKind {
    /// The value itself.
    Location,
    /// The value, then the request's path and query.
    Prefix,
    /// The value as a scheme, then the host, then path and query.
    Scheme,
}

/// `do-resolve`: queries name servers for an address.
#[derive(Clone, Debug)]
pub struct DoResolve {
    /// The variable that gets the address.
    pub variable: VariableId,
    /// The section whose name servers are queried.
    pub section: Arc<str>,
    /// Whether IPv4 addresses are queried first.
    pub prefers_ipv4: bool,
    /// The name.
    pub name: Arc<Expr>,
}
