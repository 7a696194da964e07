//! The `option` switches of a proxy, and the arguments that some of them take.

use std::sync::Arc;

use weir_expr::Expr;
use weir_fingerprint::Canonical;

use super::address::IpNetwork;

/// Every `option` that a proxy can switch. All are inherited from `defaults`.
#[derive(Clone, Debug, Default, PartialEq, Canonical)]
pub struct Options {
    /// `abortonclose`: abort the request of a client that closed its connection.
    pub abort_on_close: Switch,
    /// `accept-unsafe-violations-in-http-request`.
    pub accept_unsafe_request: bool,
    /// `accept-unsafe-violations-in-http-response`.
    pub accept_unsafe_response: bool,
    /// `h1-case-adjust-bogus-client`: write header names to clients as `h1-case-adjust` says.
    pub adjust_case_for_client: bool,
    /// `h1-case-adjust-bogus-server`: write header names to servers as `h1-case-adjust` says.
    pub adjust_case_for_server: bool,
    /// `allbackups`: balance over all backup servers, not just the first.
    pub all_backups: bool,
    /// `checkcache`: refuse cacheable responses that set cookies.
    pub check_cache: bool,
    /// `clitcpka` (and `tcpka`): TCP keep-alive towards clients.
    pub client_keep_alive: bool,
    /// `srvtcpka` (and `tcpka`): TCP keep-alive towards servers.
    pub server_keep_alive: bool,
    /// `contstats`: count bytes while they flow, not when the stream ends.
    pub continuous_statistics: bool,
    /// `dontlog-normal`: log errors only.
    pub dont_log_normal: bool,
    /// `dontlognull`: do not log connections that sent nothing.
    pub dont_log_null: bool,
    /// `http-buffer-request`: wait for the body, or a full buffer, before the rules run.
    pub http_buffer_request: bool,
    /// `http-drop-request-trailers`.
    pub http_drop_request_trailers: bool,
    /// `http-drop-response-trailers`.
    pub http_drop_response_trailers: bool,
    /// `http-ignore-probes`: neither log nor answer connections that close or time out without a request.
    pub http_ignore_probes: bool,
    /// `http-no-delay`: send segments at once instead of filling them.
    pub http_no_delay: bool,
    /// `http-pretend-keepalive`: hide from the server that the connection will close.
    pub http_pretend_keep_alive: bool,
    /// `http-use-proxy-header`: use the non-standard `Proxy-Connection` header.
    pub http_use_proxy_header: bool,
    /// `http-restrict-req-hdr-names`: what to do with names outside letters, digits and hyphens.
    pub restrict_header_names: Option<RestrictHeaderNames>,
    /// `disable-h2-upgrade`: no upgrade from HTTP/1 to HTTP/2.
    pub disable_h2_upgrade: bool,
    /// `idle-close-on-response`: on a soft stop, idle client connections are closed after a last response.
    pub idle_close_on_response: bool,
    /// `independent-streams`: bytes in one direction do not refresh the other direction's timeout.
    pub independent_streams: bool,
    /// `log-health-checks`: every change of a health check's result is logged.
    pub log_health_checks: bool,
    /// `log-separate-errors`: errors are logged at level `err`.
    pub log_separate_errors: bool,
    /// `logasap`: write the log line after the response's headers, not at the end of the stream.
    pub log_asap: bool,
    /// `nolinger`: reset connections on closing.
    pub no_linger: bool,
    /// `persist`: follow the cookie even to a server that is down.
    pub persist: bool,
    /// `prefer-last-server`: stay on the server of the connection's last request.
    pub prefer_last_server: bool,
    /// `redispatch`: which retries may choose another server.
    pub redispatch: Redispatch,
    /// `socket-stats`: statistics for each listener.
    pub socket_statistics: bool,
    /// `splice-auto`, `splice-request`, `splice-response`.
    pub splice: Splice,
    /// `tcp-smart-accept`: delay the acknowledgement of the client's data until a response is sent.
    pub tcp_smart_accept: Option<bool>,
    /// `tcp-smart-connect`: do not send the handshake's last acknowledgement alone.
    pub tcp_smart_connect: bool,
    /// `transparent`: connect to the client's original destination.
    pub transparent: bool,
    /// `forwardfor`.
    pub forward_for: Option<Arc<ForwardFor>>,
    /// `originalto`.
    pub original_to: Option<Arc<OriginalTo>>,
    /// `forwarded`.
    pub forwarded: Option<Arc<Forwarded>>,
    /// `http-keep-alive`, `http-server-close`, `httpclose`. None if not set (keep-alive).
    pub connection_mode: Option<ConnectionMode>,
    /// `http-reuse`, which is not spelled `option` but belongs here.
    pub reuse: Reuse,
}

/// A switch with a default that depends on the mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum Switch {
    /// Not set.
    #[default]
    Unset,
    /// `option ...`.
    On,
    /// `no option ...`.
    Off,
}

impl Switch {
    /// The setting, or `default` when not set.
    pub fn or(self, default: bool) -> bool {
        match self {
            Switch::Unset => default,
            Switch::On => true,
            Switch::Off => false,
        }
    }
}

/// Handling of the connections at the end of a message. The modes of frontend and backend combine: the later
/// variant wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Canonical)]
pub enum ConnectionMode {
    /// Both connections stay open.
    #[default]
    KeepAlive,
    /// The server's connection closes, the client's stays open.
    ServerClose,
    Close,
}

/// When a request may use a connection that another client opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum Reuse {
    Never,
    /// Not for the first request of a client connection.
    #[default]
    Safe,
    /// Also for a first request, if the server connection was reused before.
    Aggressive,
    Always,
}

/// Which retries may choose another server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum Redispatch {
    /// Only retries of requests without persistence.
    #[default]
    Off,
    /// Each nth retry: `redispatch 3`.
    Every(u32),
    /// Only the nth retry from the end: `redispatch -1` is the last one.
    FromLast(u32),
}

/// When bytes are forwarded inside the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct Splice {
    /// Splice when it is worthwhile, in both directions.
    pub auto: bool,
    /// Splice from client to server.
    pub request: bool,
    /// Splice from server to client.
    pub response: bool,
}

/// Handling of headers with characters other than letters, digits and hyphens in their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum RestrictHeaderNames {
    Preserve,
    Delete,
    Reject,
}

/// `option forwardfor`: add the client's address.
#[derive(Clone, Debug, PartialEq, Canonical)]
pub struct ForwardFor {
    pub header: Box<str>,
    /// Clients for which nothing is added.
    pub except: Option<IpNetwork>,
    /// Add nothing if the request has the header already.
    pub if_none: bool,
}

/// `option forwarded`: the client-side parts of the `Forwarded` field (RFC 7239).
#[derive(Debug, Default, Canonical)]
pub struct Forwarded {
    /// The protocol that the client speaks.
    pub proto: bool,
    /// The host that the client requested.
    pub host: Option<ForwardedValue>,
    /// The address that the client connected to.
    pub by: Option<ForwardedValue>,
    /// The port that the client connected to. Ignored without `by`.
    pub by_port: Option<ForwardedValue>,
    pub source: Option<ForwardedValue>,
    /// The client's port. Ignored without `for`.
    pub source_port: Option<ForwardedValue>,
}

/// The source of a parameter's value.
#[derive(Debug, Canonical)]
pub enum ForwardedValue {
    /// The value of the request or of its connection.
    Own,
    Expression(Arc<Expr>),
}

/// Expressions cannot be compared, so an option equals only itself.
impl PartialEq for Forwarded {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Forwarded {
    /// The expressions.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let values = [&self.host, &self.by, &self.by_port, &self.source, &self.source_port];
        values.into_iter().flatten().filter_map(|value| match value {
            ForwardedValue::Own => None,
            ForwardedValue::Expression(expression) => Some(&**expression),
        })
    }
}

/// `option originalto`: add the address that the client connected to.
#[derive(Clone, Debug, PartialEq, Canonical)]
pub struct OriginalTo {
    pub header: Box<str>,
    /// Destinations for which nothing is added.
    pub except: Option<IpNetwork>,
}
