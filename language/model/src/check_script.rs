//! The dialogue of a check: `http-check` and `tcp-check` rules, and options for whole dialogues.

use std::sync::Arc;

use weir_expr::pattern::regex::Regex;
use weir_expr::{Expr, Location, LogFormat, SetCondition, VariableId};
use weir_fingerprint::Canonical;

use super::address::{Host, ServerAddress, ServerPort};
use super::protocol::Protocol;
use super::server::Server;

/// How the servers of a backend are checked.
#[derive(Clone, Debug, Default, Canonical)]
pub struct CheckScripts {
    /// Which option chose the dialogue.
    pub method: CheckMethod,
    /// `http-check` rules.
    pub http: CheckRuleList,
    /// Location of the section with `option httpchk`. A request in another section drops the request of the option.
    #[canonical(skip = "used while the section is read")]
    pub http_option: Option<Location>,
    /// `tcp-check` rules.
    pub tcp: CheckRuleList,
    /// `http-check disable-on-404`.
    pub disable_on_404: bool,
    /// `http-check send-state`.
    pub send_state: bool,
    /// `external-check command`: the program that runs the check.
    pub program: Option<Arc<str>>,
    /// `external-check path`: the `PATH` variable of that program.
    pub program_path: Option<Arc<str>>,
}

impl CheckScripts {
    /// Whether checks can speak this protocol (`check-proto`).
    pub fn can_speak(&self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::H1 | Protocol::H2 | Protocol::Fcgi => matches!(self.method, CheckMethod::Http(_)),
            Protocol::None => !matches!(self.method, CheckMethod::Http(_)),
            Protocol::Spop => false,
        }
    }

    /// Whether a rule connects over TLS, whatever the server's setting.
    pub fn connects_over_tls(&self) -> bool {
        self.connects().any(|connect| connect.tls)
    }

    /// The error for a server with a known check address but without a check port. None if a port is known or not needed.
    pub fn lack_of_port(&self, server: &Server) -> Option<String> {
        let said = &server.settings.check;
        // A unix socket has a path instead of a port, so a check at another address needs an explicit port.
        let (host, is_local) = match &server.address {
            ServerAddress::Inet { host, port: ServerPort::Fixed(0) | ServerPort::Mapped(_) } => (host, false),
            ServerAddress::Unix(_) | ServerAddress::Abstract { .. } => (said.address.as_ref()?, true),
            _ => return None,
        };
        // Only literal addresses count: a name may denote a service, and SRV records contain the port.
        let has_port = said.port.is_some_and(|port| port > 0);
        let is_program = matches!(self.method, CheckMethod::Program);
        let has_address = host.ip().is_some_and(|address| !address.is_unspecified());
        if !said.enabled || has_port || !has_address || is_program {
            return None;
        }
        let mut rules = self.connects().map(|connect| connect.port.is_some());
        let rest = match (rules.next(), rules.all(|has_port| has_port)) {
            (Some(true), true) => return None,
            (Some(true), false) => ", and a tcp_check rule 'connect' with no port information.",
            _ if is_local => ".",
            _ => " nor tcp_check rule 'connect' with port information.",
        };
        Some(format!("server '{}' has neither service port nor check port{rest}", server.name))
    }

    /// The rules that connect.
    fn connects(&self) -> impl Iterator<Item = &CheckConnect> {
        let rules: &[CheckRule] = match self.method {
            CheckMethod::Tcp => &self.tcp.rules,
            CheckMethod::Http(_) => &self.http.rules,
            CheckMethod::Connect | CheckMethod::Program | CheckMethod::Own(_) => &[],
        };
        rules.iter().filter_map(|rule| match &rule.action {
            CheckAction::Connect(connect) => Some(connect),
            _ => None,
        })
    }
}

/// A `healthcheck` section: how servers that name it are checked.
#[derive(Clone, Debug, Canonical)]
pub struct HealthCheck {
    pub name: Arc<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    pub scripts: Arc<CheckScripts>,
}

/// Rules, and their section: a proxy's own rules replace the rules of a `defaults` section.
#[derive(Clone, Debug, Default, Canonical)]
pub struct CheckRuleList {
    /// The rules, in order.
    pub rules: Arc<Vec<CheckRule>>,
    /// Where the section begins.
    #[canonical(skip = "used while the section is read")]
    pub section: Option<Location>,
    /// The number of lines.
    pub steps: u32,
}

/// The dialogue of a check.
#[derive(Clone, Debug, Default, Canonical)]
pub enum CheckMethod {
    /// Only a connection.
    #[default]
    Connect,
    /// `option tcp-check`: the `tcp-check` rules.
    Tcp,
    /// `option httpchk`: the `http-check` rules, and the request of the option itself.
    Http(Arc<HttpRequest>),
    /// `option external-check`: an external program.
    Program,
    /// The dialogue of another option, such as `option redis-check`.
    Own(Arc<Vec<CheckRule>>),
}

/// One rule.
#[derive(Clone, Debug, Canonical)]
pub struct CheckRule {
    /// The comment for the message when it fails.
    pub comment: Option<Arc<str>>,
    /// Number of the rule's line in the dialogue, from 1, including `comment` lines. 0 for an implicit rule.
    pub step: u32,
    pub action: CheckAction,
}

/// The action of a rule.
#[derive(Clone, Debug, Canonical)]
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
    SetVariable { name: VariableId, condition: SetCondition, value: Arc<Expr> },
    /// `set-var-fmt`.
    SetVariableFormat { name: VariableId, condition: SetCondition, value: Arc<LogFormat> },
    /// `unset-var`.
    UnsetVariable(VariableId),
}

/// `connect`: a new connection.
#[derive(Clone, Debug, Default, Canonical)]
pub struct CheckConnect {
    /// Whether a `connect` line exists; otherwise the connection is implicit.
    pub is_written: bool,
    /// `default`: use the connection settings of the `server` line, unless overridden here.
    pub by_default: bool,
    /// `port`.
    pub port: Option<CheckPort>,
    /// `addr`.
    pub address: Option<Host>,
    /// `send-proxy`.
    pub send_proxy: bool,
    /// `via-socks4`.
    pub via_socks4: bool,
    /// `linger`: close cleanly instead of with a reset.
    pub lingers: bool,
    /// `ssl`.
    pub tls: bool,
    /// `sni`: the server name to send.
    pub server_name: Option<Arc<str>>,
    /// `alpn`: the protocols to offer. None for the server's.
    pub protocols: Option<Arc<[Box<str>]>>,
    /// `proto`: the forced protocol.
    pub protocol: Option<Protocol>,
}

/// A port to connect to.
#[derive(Clone, Debug, Canonical)]
pub enum CheckPort {
    Fixed(u16),
    /// The result of an expression.
    Expression(Arc<Expr>),
}

/// A request. Missing parts have the manual's defaults.
#[derive(Clone, Debug, Default, Canonical)]
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

/// A text, fixed or made from a format.
#[derive(Clone, Debug, Canonical)]
pub enum CheckText {
    Fixed(Arc<[u8]>),
    Format(Arc<LogFormat>),
}

/// `expect`.
#[derive(Clone, Debug, Canonical)]
pub struct Expect {
    /// Whether a match is a failure (`!`).
    pub inverted: bool,
    pub what: Expected,
    /// `min-recv`: the number of received bytes before a match is tried. None if not set.
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
    /// An `expect` without options.
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

/// The statuses that `expect` can report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
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

/// The content to look for in the received bytes.
#[derive(Clone, Debug, Canonical)]
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
    /// The built-in match of an option such as `option ldap-check`.
    Own(OwnExpected),
}

/// Built-in matches of options. No rule can express them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum OwnExpected {
    MysqlGreeting,
    /// MySQL: the response to a login.
    MysqlAnswer,
    /// LDAP: the response to a bind.
    LdapBind,
    /// SMTP: a reply that begins with 2.
    SmtpReply,
    /// PostgreSQL: the response to a startup message.
    PostgresqlAnswer,
    /// Redis: the response to a ping.
    RedisPong,
    /// SPOP: the agent's hello.
    SpopHello,
}

/// `hdr`, `fhdr`.
#[derive(Clone, Debug, Canonical)]
pub struct HeaderMatch {
    /// The names to match.
    pub name: TextMatch,
    /// The values to match; none for any.
    pub value: Option<TextMatch>,
    /// `fhdr`: commas do not separate values.
    pub is_full: bool,
}

/// A text and how it is compared.
#[derive(Clone, Debug, Canonical)]
pub enum TextMatch {
    Equal(CheckText),
    Begin(CheckText),
    End(CheckText),
    Inside(CheckText),
    Regex(Arc<Regex>),
}
