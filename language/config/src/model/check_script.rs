//! What a check says and expects: `http-check` and `tcp-check` rules, and the options that stand for whole dialogues.

use std::sync::Arc;

use weir_expr::pattern::regex::Regex;
use weir_expr::{Expr, Location, LogFormat, SetCondition, VariableId};

use super::address::Host;
use super::server::Protocol;

/// How the servers of a backend are checked.
#[derive(Clone, Debug, Default)]
pub struct CheckScripts {
    /// Which option chose the dialogue.
    pub method: CheckMethod,
    /// `http-check` rules.
    pub http: CheckRuleList,
    /// `tcp-check` rules.
    pub tcp: CheckRuleList,
    /// `http-check disable-on-404`.
    pub disable_on_404: bool,
    /// `http-check send-state`.
    pub send_state: bool,
    /// `external-check command`: the program that checks.
    pub program: Option<Arc<str>>,
    /// `external-check path`: what `PATH` is for it.
    pub program_path: Option<Arc<str>>,
}

impl CheckScripts {
    /// Whether checks can speak this protocol (`check-proto`).
    pub fn can_speak(&self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::H1 => matches!(self.method, CheckMethod::Http(_)),
            Protocol::None => !matches!(self.method, CheckMethod::Http(_)),
            Protocol::H2 => false,
        }
    }

    /// Whether a rule connects by TLS, whatever the server does.
    pub fn connects_over_tls(&self) -> bool {
        let rules = match self.method {
            CheckMethod::Tcp => &self.tcp.rules,
            CheckMethod::Http(_) => &self.http.rules,
            CheckMethod::Connect | CheckMethod::Program | CheckMethod::Own(_) => return false,
        };
        rules.iter().any(|rule| matches!(&rule.action, CheckAction::Connect(connect) if connect.tls))
    }
}

/// A `healthcheck` section: how servers that name it are checked.
#[derive(Clone, Debug)]
pub struct HealthCheck {
    /// Its name.
    pub name: Arc<str>,
    /// Where it begins.
    pub at: Location,
    /// What it says.
    pub scripts: Arc<CheckScripts>,
}

/// Rules, and the section that they were written in: those of a `defaults` section give way to a proxy's own.
#[derive(Clone, Debug, Default)]
pub struct CheckRuleList {
    /// In their order.
    pub rules: Arc<Vec<CheckRule>>,
    /// Where the section begins.
    pub section: Option<Location>,
    /// How many lines there were.
    pub steps: u32,
}

/// Which dialogue a check holds.
#[derive(Clone, Debug, Default)]
pub enum CheckMethod {
    /// It connects.
    #[default]
    Connect,
    /// `option tcp-check`: the `tcp-check` rules.
    Tcp,
    /// `option httpchk`: the `http-check` rules, and what the option itself says of the request.
    Http(Arc<HttpRequest>),
    /// `option external-check`: a program of the operator's.
    Program,
    /// Another option: a dialogue of its own.
    Own(Arc<Vec<CheckRule>>),
}

/// One rule.
#[derive(Clone, Debug)]
pub struct CheckRule {
    /// What is told when it fails.
    pub comment: Option<Arc<str>>,
    /// Which line of the dialogue it is, from 1, `comment` lines counted; 0 for what nobody wrote.
    pub step: u32,
    /// What it does.
    pub action: CheckAction,
}

/// What a rule does.
#[derive(Clone, Debug)]
pub enum CheckAction {
    /// `connect`.
    Connect(CheckConnect),
    /// `send`, `send-binary`: these bytes.
    Send(Arc<[u8]>),
    /// `send-lf`: a text.
    SendFormat(Arc<LogFormat>),
    /// `send-binary-lf`: hexadecimal digits.
    SendHexFormat(Arc<LogFormat>),
    /// `http-check send`.
    SendHttp(Arc<HttpRequest>),
    /// `expect`.
    Expect(Arc<Expect>),
    /// `set-var`.
    SetVariable {
        /// Which.
        name: VariableId,
        /// Whether.
        condition: SetCondition,
        /// To what.
        value: Arc<Expr>,
    },
    /// `set-var-fmt`.
    SetVariableFormat {
        /// Which.
        name: VariableId,
        /// Whether.
        condition: SetCondition,
        /// To what.
        value: Arc<LogFormat>,
    },
    /// `unset-var`.
    UnsetVariable(VariableId),
}

/// `connect`: a new connection.
#[derive(Clone, Debug, Default)]
pub struct CheckConnect {
    /// Whether a line says so, and not nothing else.
    pub is_written: bool,
    /// `default`: the server's own way of connecting, where nothing else is said.
    pub by_default: bool,
    /// `port`.
    pub port: Option<CheckPort>,
    /// `addr`.
    pub address: Option<Host>,
    /// `send-proxy`.
    pub send_proxy: bool,
    /// `via-socks4`.
    pub via_socks4: bool,
    /// `linger`: closes in order, does not reset.
    pub lingers: bool,
    /// `ssl`.
    pub tls: bool,
    /// `sni`: the name that is asked for.
    pub server_name: Option<Arc<str>>,
    /// `alpn`: what may be agreed on; none for what the server has.
    pub protocols: Option<Arc<[Box<str>]>>,
}

/// A port to connect to.
#[derive(Clone, Debug)]
pub enum CheckPort {
    /// This one.
    Fixed(u16),
    /// What an expression gives.
    Expression(Arc<Expr>),
}

/// A request, as far as it is said. What is not said has the manual's defaults.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    /// `meth`.
    pub method: Option<Arc<[u8]>>,
    /// `uri`, `uri-lf`.
    pub uri: Option<CheckText>,
    /// `ver`.
    pub version: Option<Arc<[u8]>>,
    /// `hdr`, in order. Names are in lower case.
    pub headers: Vec<(Arc<[u8]>, LogFormat)>,
    /// `body`, `body-lf`.
    pub body: Option<CheckText>,
}

/// A text, or what makes one.
#[derive(Clone, Debug)]
pub enum CheckText {
    /// As it is.
    Fixed(Arc<[u8]>),
    /// A format.
    Format(Arc<LogFormat>),
}

/// `expect`.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Whether a match is a failure (`!`).
    pub inverted: bool,
    /// What is looked for.
    pub what: Expected,
    /// `min-recv`: bytes without which nothing is concluded; none for nothing said.
    pub min_receive: Option<u32>,
    /// `ok-status`.
    pub ok_status: Option<ExpectStatus>,
    /// `error-status`.
    pub error_status: Option<ExpectStatus>,
    /// `tout-status`.
    pub timeout_status: Option<ExpectStatus>,
    /// `on-success`.
    pub on_success: Option<Arc<LogFormat>>,
    /// `on-error`.
    pub on_error: Option<Arc<LogFormat>>,
    /// `status-code`.
    pub status_code: Option<Arc<Expr>>,
}

impl Expect {
    /// One of which nothing more is said.
    pub fn plain(what: Expected) -> Self {
        Expect {
            inverted: false,
            what,
            min_receive: None,
            ok_status: None,
            error_status: None,
            timeout_status: None,
            on_success: None,
            on_error: None,
            status_code: None,
        }
    }
}

/// Whether a check can answer a fetch: one that asks nothing of a stream, or one of these.
pub fn is_check_fetch(name: &str) -> bool {
    const ANSWERED: [&str; 11] = [
        "be_id",
        "be_name",
        "nbsrv",
        "res.body",
        "res.fhdr",
        "res.hdr",
        "res.len",
        "res.payload",
        "srv_id",
        "srv_name",
        "status",
    ];
    ANSWERED.contains(&name) || weir_expr::internal::FETCHES.iter().any(|fetch| fetch.decl.name == name)
}

/// The outcomes that `expect` can be told to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectStatus {
    /// `L4OK`.
    L4Ok,
    /// `L6OK`.
    L6Ok,
    /// `L7OK`.
    L7Ok,
    /// `L7OKC`.
    L7OkConditional,
    /// `L4CON`.
    L4Connection,
    /// `L6RSP`.
    L6Response,
    /// `L7RSP`.
    L7Response,
    /// `L7STS`.
    L7Status,
    /// `L4TOUT`.
    L4Timeout,
    /// `L6TOUT`.
    L6Timeout,
    /// `L7TOUT`.
    L7Timeout,
}

/// What is looked for in what came.
#[derive(Clone, Debug)]
pub enum Expected {
    /// `string`: these bytes, anywhere.
    Text(Arc<[u8]>),
    /// `binary`: these bytes, anywhere.
    Binary(Arc<[u8]>),
    /// `string-lf`.
    TextFormat(Arc<LogFormat>),
    /// `binary-lf`.
    HexFormat(Arc<LogFormat>),
    /// `rstring`.
    Regex(Arc<Regex>),
    /// `rbinary`: against hexadecimal digits.
    HexRegex(Arc<Regex>),
    /// `status`: any of these ranges.
    Status(Arc<[(u32, u32)]>),
    /// `rstatus`.
    StatusRegex(Arc<Regex>),
    /// `hdr`, `fhdr`.
    Header(Arc<HeaderMatch>),
    /// What an option of its own looks for.
    Own(OwnExpected),
}

/// What the dialogues that options stand for look for, which no rule could say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnExpected {
    /// MySQL's first packet.
    MysqlGreeting,
    /// MySQL's answer to a name.
    MysqlAnswer,
    /// LDAP's answer to a bind.
    LdapBind,
    /// SMTP: a reply that begins with 2.
    SmtpReply,
    /// PostgreSQL's answer to a startup message.
    PostgresqlAnswer,
    /// Redis's answer to a ping.
    RedisPong,
    /// SPOP: the agent's hello.
    SpopHello,
}

/// `hdr`, `fhdr`.
#[derive(Clone, Debug)]
pub struct HeaderMatch {
    /// The names that are meant.
    pub name: TextMatch,
    /// The values that are meant; none for any.
    pub value: Option<TextMatch>,
    /// `fhdr`: commas separate nothing.
    pub is_full: bool,
}

/// A text and how it is compared.
#[derive(Clone, Debug)]
pub enum TextMatch {
    /// Equal.
    Equal(CheckText),
    /// At the beginning.
    Begin(CheckText),
    /// At the end.
    End(CheckText),
    /// Anywhere.
    Inside(CheckText),
    /// A regular expression.
    Regex(Arc<Regex>),
}
