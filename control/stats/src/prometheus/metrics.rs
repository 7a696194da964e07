//! The dictionary of metrics: the field, name and scopes of each.
//!
//! Fields that are never set do not have a row here. They are zero in `show stat`, where columns must keep their
//! positions; as a
//! metric it would be a false measurement.

use super::request::Scope;
use crate::fields::Field;
use crate::info::InfoField;
use crate::name_server::{COUNTERS, NameServerCounter};

/// One metric.
#[derive(Debug)]
pub(super) struct Metric {
    /// Its name after `haproxy_<scope>_`. Consecutive metrics with the same name differ in their label.
    pub name: &'static str,
    /// A sum of [`Scope::mask`].
    pub scopes: u8,
    /// The source of its values.
    pub values: Values,
    /// Which objects have it.
    pub presence: Presence,
    /// A label of its own: name and value.
    pub label: (&'static str, &'static str),
    /// Its description, if that differs from the field's.
    help: &'static str,
}

/// The source of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// A field of the process.
    Process(InfoField),
    /// A text of the process: it becomes a label of this name, and the value is 1.
    ProcessText(InfoField, &'static str),
    /// A field of an object.
    Number(Field),
    /// A time in milliseconds, written in seconds.
    Seconds(Field),
    /// `status`: one value for each state, 1 for the current one.
    Status,
    /// `check_status`: the same for the result of the last check.
    CheckStatus,
    /// How many servers of a backend are in each state.
    ServersByStatus,
    /// How many servers of a backend have each result of the last check.
    ServersByCheckStatus,
    /// The limit of a stick-table's entries.
    TableSize,
    /// The number of its entries.
    TableUsed,
    /// Its entries that others took the place of.
    TableEvicted,
    /// Entries that were refused for lack of room.
    TableRefused,
    /// A counter of a name server, by its index.
    NameServer(usize),
    /// The distribution of a phase's durations, by its index in [`crate::latency::PHASES`].
    Latency(usize),
}

/// Which objects have a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// All; an unknown value is `NaN`.
    Always,
    /// Servers that are checked.
    Checked,
    /// Objects in `mode http`.
    Http,
}

impl Metric {
    const fn new(name: &'static str, scopes: u8, values: Values) -> Self {
        Metric { name, scopes, values, presence: Presence::Always, label: ("", ""), help: "" }
    }

    const fn checked(self) -> Self {
        Metric { presence: Presence::Checked, ..self }
    }

    const fn http(self) -> Self {
        Metric { presence: Presence::Http, ..self }
    }

    const fn help(self, help: &'static str) -> Self {
        Metric { help, ..self }
    }

    /// The metrics of a scope, in the order in which they are written.
    pub(super) fn of(scope: Scope) -> impl Iterator<Item = &'static Metric> {
        [METRICS, EXTRA, HISTOGRAMS]
            .into_iter()
            .flatten()
            .filter(move |metric| metric.scopes & scope.mask() != 0)
    }

    /// Whether a [`MetricSample`](super::samples::MetricSample) holds its value for an object.
    pub(super) fn has_samples(&self) -> bool {
        matches!(self.values, Values::Number(_) | Values::Seconds(_) | Values::Status | Values::CheckStatus)
    }

    /// Its description.
    pub(super) fn description(&self) -> &'static str {
        match self.values {
            _ if !self.help.is_empty() => self.help,
            Values::Process(field) | Values::ProcessText(field, _) => field.decl().description,
            Values::Number(field) | Values::Seconds(field) => field.decl().description,
            Values::Status | Values::CheckStatus => Field::Status.decl().description,
            Values::ServersByStatus => Field::AggServerStatus.decl().description,
            Values::ServersByCheckStatus => Field::AggCheckStatus.decl().description,
            Values::TableSize
            | Values::TableUsed
            | Values::TableEvicted
            | Values::TableRefused
            | Values::NameServer(_)
            | Values::Latency(_) => "",
        }
    }

    /// The name of its field in `show stat` or `show info`.
    pub(super) fn field(&self) -> Option<&'static str> {
        match self.values {
            Values::Process(field) | Values::ProcessText(field, _) => Some(field.decl().name),
            Values::Number(field) | Values::Seconds(field) => Some(field.decl().name),
            Values::Status => Some(Field::Status.decl().name),
            Values::CheckStatus => Some(Field::CheckStatus.decl().name),
            Values::ServersByStatus => Some(Field::AggServerStatus.decl().name),
            Values::ServersByCheckStatus => Some(Field::AggCheckStatus.decl().name),
            Values::TableSize
            | Values::TableUsed
            | Values::TableEvicted
            | Values::TableRefused
            | Values::NameServer(_)
            | Values::Latency(_) => None,
        }
    }

    /// The type: `counter` for fields that only grow, as their name says, and as in HAProxy for all counters of protocol engines.
    pub(super) fn type_word(&self) -> &'static str {
        if matches!(self.values, Values::Latency(_)) {
            return "histogram";
        }
        let by_name = self.name.ends_with("_total") || self.name == "total_warnings";
        if by_name || self.is_extra() { "counter" } else { "gauge" }
    }

    /// Whether it is only shown with `extra-counters`.
    pub(super) fn is_extra(&self) -> bool {
        self.label.0 == MODULE
    }
}

/// The label of counters of protocol engines.
const MODULE: &str = "mod";

/// The states in which frontends and backends can be.
pub(super) const PROXY_STATES: &[&str] = &["DOWN", "UP"];

/// The states in which listeners can be.
pub(super) const LISTENER_STATES: &[&str] = &["WAITING", "OPEN", "FULL"];

/// The states in which servers can be.
pub(super) const SERVER_STATES: &[&str] = &["DOWN", "UP", "MAINT", "DRAIN", "NOLB"];

/// The results of a check (management manual, `check_status`).
pub(super) const CHECK_STATES: &[&str] = &[
    "HANA", "SOCKERR", "L4OK", "L4TOUT", "L4CON", "L6OK", "L6TOUT", "L6RSP", "L7TOUT", "L7RSP", "L7OK",
    "L7OKC", "L7STS", "PROCERR", "PROCTOUT", "PROCOK",
];

const G: u8 = Scope::Global.mask();
const F: u8 = Scope::Frontend.mask();
const L: u8 = Scope::Listener.mask();
const B: u8 = Scope::Backend.mask();
const S: u8 = Scope::Server.mask();
const T: u8 = Scope::StickTable.mask();
const R: u8 = Scope::Resolver.mask();

const fn process(name: &'static str, field: InfoField) -> Metric {
    Metric::new(name, G, Values::Process(field))
}

const fn text(name: &'static str, field: InfoField, label: &'static str) -> Metric {
    Metric::new(name, G, Values::ProcessText(field, label))
}

const fn number(name: &'static str, scopes: u8, field: Field) -> Metric {
    Metric::new(name, scopes, Values::Number(field))
}

const fn seconds(name: &'static str, scopes: u8, field: Field, help: &'static str) -> Metric {
    Metric::new(name, scopes, Values::Seconds(field)).help(help)
}

const fn responses(class: &'static str, field: Field) -> Metric {
    let metric = number("http_responses_total", F | B | S, field).http();
    Metric { label: ("code", class), ..metric }
        .help("HTTP responses by class of status since the worker process started")
}

const fn http1(name: &'static str, scopes: u8, field: Field) -> Metric {
    Metric { label: (MODULE, "h1"), ..number(name, scopes, field) }
}

const fn http2(name: &'static str, field: Field) -> Metric {
    Metric { label: (MODULE, "h2"), ..number(name, F | B, field) }
}

const fn tls(name: &'static str, field: Field) -> Metric {
    Metric { label: (MODULE, "ssl"), ..number(name, F | L | B | S, field) }
}

const fn name_server(position: usize) -> Metric {
    let NameServerCounter { name, help, .. } = COUNTERS[position];
    Metric::new(name, R, Values::NameServer(position)).help(help)
}

const STATUS: &str = "1 for the state that the object is in, 0 for the others";

const METRICS: &[Metric] = &[
    process("nbthread", InfoField::Nbthread),
    process("nbproc", InfoField::Nbproc),
    process("relative_process_id", InfoField::ProcessNum),
    process("uptime_seconds", InfoField::UptimeSec),
    process("pool_failures_total", InfoField::PoolFailed),
    process("max_fds", InfoField::UlimitN),
    process("max_sockets", InfoField::Maxsock),
    process("max_connections", InfoField::Maxconn),
    process("hard_max_connections", InfoField::HardMaxconn),
    process("current_connections", InfoField::CurrConns),
    process("connections_total", InfoField::CumConns),
    process("requests_total", InfoField::CumReq),
    process("max_ssl_connections", InfoField::MaxSslConns),
    process("current_ssl_connections", InfoField::CurrSslConns),
    process("ssl_connections_total", InfoField::CumSslConns),
    process("max_pipes", InfoField::Maxpipes),
    process("current_connection_rate", InfoField::ConnRate),
    process("limit_connection_rate", InfoField::ConnRateLimit),
    process("max_connection_rate", InfoField::MaxConnRate),
    process("current_session_rate", InfoField::SessRate),
    process("limit_session_rate", InfoField::SessRateLimit),
    process("max_session_rate", InfoField::MaxSessRate),
    process("current_ssl_rate", InfoField::SslRate),
    process("limit_ssl_rate", InfoField::SslRateLimit),
    process("max_ssl_rate", InfoField::MaxSslRate),
    process("current_frontend_ssl_key_rate", InfoField::SslFrontendKeyRate),
    process("max_frontend_ssl_key_rate", InfoField::SslFrontendMaxKeyRate),
    process("frontend_ssl_reuse", InfoField::SslFrontendSessionReusePct),
    process("ssl_cache_lookups_total", InfoField::SslCacheLookups),
    process("ssl_cache_misses_total", InfoField::SslCacheMisses),
    process("current_tasks", InfoField::Tasks),
    process("current_run_queue", InfoField::RunQueue),
    process("idle_time_percent", InfoField::IdlePct),
    text("node", InfoField::Node, "node"),
    text("description", InfoField::Description, DESCRIPTION),
    process("stopping", InfoField::Stopping),
    process("jobs", InfoField::Jobs),
    process("listeners", InfoField::Listeners),
    process("dropped_logs_total", InfoField::DroppedLogs),
    process("bytes_out_total", InfoField::TotalBytesOut),
    process("spliced_bytes_out_total", InfoField::TotalSplicedBytesOut),
    process("bytes_out_rate", InfoField::BytesOutRate),
    process("recv_logs_total", InfoField::CumRecvLogs),
    text("build_info", InfoField::BuildInfo, "version"),
    process("max_memory_bytes", InfoField::MemmaxBytes),
    process("pool_allocated_bytes", InfoField::PoolAllocBytes),
    process("pool_used_bytes", InfoField::PoolUsedBytes),
    process("start_time_seconds", InfoField::StartTimeSec),
    process("total_warnings", InfoField::TotalWarnings),
    number("current_queue", B | S, Field::Qcur),
    number("max_queue", B | S, Field::Qmax),
    number("current_sessions", F | L | B | S, Field::Scur),
    number("max_sessions", F | L | B | S, Field::Smax),
    number("limit_sessions", F | L | B | S, Field::Slim),
    number("sessions_total", F | L | B | S, Field::Stot),
    number("bytes_in_total", F | L | B | S, Field::Bin),
    number("bytes_out_total", F | L | B | S, Field::Bout),
    number("requests_denied_total", F | L | B, Field::Dreq),
    number("responses_denied_total", F | L | B | S, Field::Dresp),
    number("request_errors_total", F | L, Field::Ereq),
    number("connection_errors_total", B | S, Field::Econ),
    number("response_errors_total", B | S, Field::Eresp),
    number("retry_warnings_total", B | S, Field::Wretr),
    number("redispatch_warnings_total", B | S, Field::Wredis),
    Metric::new("status", F | L | B | S, Values::Status).help(STATUS),
    number("weight", B | S, Field::Weight),
    number("active_servers", B, Field::Act),
    number("active", S, Field::Act).help("Whether the server is an active one"),
    number("backup_servers", B, Field::Bck),
    number("backup", S, Field::Bck).help("Whether the server is a backup"),
    number("check_failures_total", S, Field::Chkfail),
    number("check_up_down_total", B | S, Field::Chkdown),
    number("check_last_change_seconds", B | S, Field::Lastchg),
    number("downtime_seconds_total", B | S, Field::Downtime),
    number("queue_limit", S, Field::Qlimit),
    number("current_throttle", S, Field::Throttle),
    number("loadbalanced_total", B | S, Field::Lbtot),
    number("current_session_rate", F | B | S, Field::Rate),
    number("limit_session_rate", F, Field::RateLim),
    number("max_session_rate", F | B | S, Field::RateMax),
    Metric::new("check_status", S, Values::CheckStatus)
        .help("1 for the result of the last health check, 0 for the others")
        .checked(),
    number("check_code", S, Field::CheckCode).checked(),
    seconds("check_duration_seconds", S, Field::CheckDuration, "How long the last health check took")
        .checked(),
    responses("1xx", Field::Hrsp1xx),
    responses("2xx", Field::Hrsp2xx),
    responses("3xx", Field::Hrsp3xx),
    responses("4xx", Field::Hrsp4xx),
    responses("5xx", Field::Hrsp5xx),
    responses("other", Field::HrspOther),
    number("http_requests_rate_max", F, Field::ReqRateMax).http(),
    number("http_requests_total", F | B | S, Field::ReqTot).http(),
    number("client_aborts_total", B | S, Field::CliAbrt),
    number("server_aborts_total", B | S, Field::SrvAbrt),
    number("http_comp_bytes_in_total", F | B, Field::CompIn).http(),
    number("http_comp_bytes_out_total", F | B, Field::CompOut).http(),
    number("http_comp_bytes_bypassed_total", F | B, Field::CompByp).http(),
    number("http_comp_responses_total", F | B, Field::CompRsp).http(),
    number("last_session_seconds", B | S, Field::Lastsess),
    seconds(
        "queue_time_average_seconds",
        B | S,
        Field::Qtime,
        "Time in the queue, on average of the last 1024",
    ),
    seconds(
        "connect_time_average_seconds",
        B | S,
        Field::Ctime,
        "Time to connect, on average of the last 1024",
    ),
    seconds(
        "response_time_average_seconds",
        B | S,
        Field::Rtime,
        "Time to the server's response, on average of the last 1024",
    ),
    seconds("total_time_average_seconds", B | S, Field::Ttime, "Time in all, on average of the last 1024"),
    number("connections_rate_max", F, Field::ConnRateMax),
    number("connections_total", F, Field::ConnTot),
    number("intercepted_requests_total", F, Field::Intercepted).http(),
    number("denied_connections_total", F | L, Field::Dcon),
    number("denied_sessions_total", F | L, Field::Dses),
    number("failed_header_rewriting_total", F | L | B | S, Field::Wrew),
    number("connection_attempts_total", B | S, Field::Connect),
    number("connection_reuses_total", B | S, Field::Reuse),
    number("http_cache_lookups_total", F | B, Field::CacheLookups).http(),
    number("http_cache_hits_total", F | B, Field::CacheHits).http(),
    number("idle_connections_current", S, Field::SrvIcur),
    number("idle_connections_limit", S, Field::SrcIlim),
    seconds("max_queue_time_seconds", B | S, Field::QtimeMax, "Longest time in the queue"),
    seconds("max_connect_time_seconds", B | S, Field::CtimeMax, "Longest time to connect"),
    seconds("max_response_time_seconds", B | S, Field::RtimeMax, "Longest time to the server's response"),
    seconds("max_total_time_seconds", B | S, Field::TtimeMax, "Longest time in all"),
    number("internal_errors_total", F | L | B | S, Field::Eint),
    number("unsafe_idle_connections_current", S, Field::IdleConnCur),
    number("safe_idle_connections_current", S, Field::SafeConnCur),
    number("used_connections_current", S, Field::UsedConnCur),
    number("need_connections_current", S, Field::NeedConnEst),
    number("uweight", B | S, Field::Uweight),
    Metric::new("agg_server_status", B, Values::ServersByStatus),
    // The older name of the previous metric, which dashboards still use.
    Metric::new("agg_server_check_status", B, Values::ServersByStatus),
    Metric::new("agg_check_status", B, Values::ServersByCheckStatus),
    Metric::new("size", T, Values::TableSize).help("How many entries the stick-table may have"),
    Metric::new("used", T, Values::TableUsed).help("How many entries the stick-table has"),
    // Of ours.
    Metric::new("evicted_total", T, Values::TableEvicted)
        .help("Entries of the stick-table replaced by others"),
    Metric::new("refused_total", T, Values::TableRefused)
        .help("Entries that the stick-table refused for lack of room"),
    name_server(0),
    name_server(1),
    name_server(2),
    name_server(3),
    name_server(4),
    name_server(5),
    name_server(6),
    name_server(7),
    name_server(8),
    name_server(9),
    name_server(10),
    name_server(11),
    name_server(12),
    name_server(13),
    name_server(14),
];

/// Counters of protocol engines.
const EXTRA: &[Metric] = &[
    tls("ssl_sess", Field::SslSess),
    tls("ssl_reused_sess", Field::SslReusedSess),
    tls("ssl_failed_handshake", Field::SslFailedHandshake),
    tls("ssl_ocsp_staple", Field::SslOcspStaple),
    tls("ssl_failed_ocsp_staple", Field::SslFailedOcspStaple),
    http2("h2_headers_rcvd", Field::H2HeadersRcvd),
    http2("h2_data_rcvd", Field::H2DataRcvd),
    http2("h2_settings_rcvd", Field::H2SettingsRcvd),
    http2("h2_rst_stream_rcvd", Field::H2RstStreamRcvd),
    http2("h2_goaway_rcvd", Field::H2GoawayRcvd),
    http2("h2_detected_conn_protocol_errors", Field::H2DetectedConnProtocolErrors),
    http2("h2_detected_strm_protocol_errors", Field::H2DetectedStrmProtocolErrors),
    http2("h2_rst_stream_resp", Field::H2RstStreamResp),
    http2("h2_goaway_resp", Field::H2GoawayResp),
    http2("h2_open_connections", Field::H2OpenConnections),
    http2("h2_backend_open_streams", Field::H2BackendOpenStreams),
    http2("h2_total_connections", Field::H2TotalConnections),
    http2("h2_backend_total_streams", Field::H2BackendTotalStreams),
    http1("h1_open_connections", F | B, Field::H1OpenConnections),
    http1("h1_open_streams", B, Field::H1OpenStreams),
    http1("h1_total_connections", F | B, Field::H1TotalConnections),
    http1("h1_total_streams", F | B, Field::H1TotalStreams),
    http1("h1_bytes_in", F | B, Field::H1BytesIn),
    http1("h1_bytes_out", F | B, Field::H1BytesOut),
    http1("h1_spliced_bytes_in", F | B, Field::H1SplicedBytesIn),
    http1("h1_spliced_bytes_out", F | B, Field::H1SplicedBytesOut),
];

/// Distributions of durations of ended streams: HAProxy has averages only.
const HISTOGRAMS: &[Metric] = &[
    Metric::new("queue_duration_seconds", F | B | S, Values::Latency(0)).help("Time spent in queues"),
    Metric::new("connect_duration_seconds", F | B | S, Values::Latency(1))
        .help("Time spent connecting to a server"),
    Metric::new("response_duration_seconds", F | B | S, Values::Latency(2))
        .help("Time from the connection to the head of the response"),
    Metric::new("total_duration_seconds", F | B | S, Values::Latency(3))
        .help("Time from the first byte of the request, or from the connection in TCP mode, to the end"),
];

/// The label with a section's `description`.
pub(super) const DESCRIPTION: &str = "desc";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::fields::Kind;

    fn kinds(scopes: u8) -> impl Iterator<Item = Kind> {
        [(F, Kind::Frontend), (B, Kind::Backend), (S, Kind::Server), (L, Kind::Listener)]
            .into_iter()
            .filter(move |row| scopes & row.0 != 0)
            .map(|row| row.1)
    }

    #[test]
    fn objects_have_the_fields_of_their_metrics() {
        for metric in METRICS.iter().chain(EXTRA).chain(HISTOGRAMS) {
            if let Values::Number(field) | Values::Seconds(field) = metric.values {
                assert!(kinds(metric.scopes).count() > 0, "{}", metric.name);
                for kind in kinds(metric.scopes) {
                    assert!(field.applies_to(kind), "{} of {kind:?}", metric.name);
                }
            }
            assert!(!metric.description().is_empty(), "{}", metric.name);
        }
    }

    #[test]
    fn names_and_labels_are_unique_and_equal_names_are_adjacent() {
        for scope in Scope::ALL {
            let (mut rows, mut names, mut last) = (HashSet::new(), HashSet::new(), "");
            for metric in Metric::of(scope) {
                assert!(rows.insert((metric.name, metric.label)), "{}", metric.name);
                assert!(metric.name == last || names.insert(metric.name), "{} stands twice", metric.name);
                last = metric.name;
            }
            assert!(!rows.is_empty(), "{scope:?}");
        }
    }
}
