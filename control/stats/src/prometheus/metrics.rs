//! The dictionary of metrics: the field, name and scopes of each.
//!
//! Fields that are never set do not have a row here. `show stat` prints them as zero, because its columns must keep their
//! positions. As a metric, that zero would be a false measurement.

use super::request::MetricScope;
use crate::fields::StatsField;
use crate::info::InfoField;
use crate::name_server::{COUNTERS, NameServerCounter};

#[derive(Debug)]
pub(super) struct Metric {
    /// The name after `haproxy_<scope>_`. Consecutive metrics with the same name differ by label.
    pub name: &'static str,
    /// The scopes with this metric, as a sum of [`MetricScope::mask`].
    pub scopes: u8,
    /// The source of the values.
    pub values: MetricValues,
    /// The objects with this metric.
    pub presence: MetricPresence,
    /// An additional label: name and value.
    pub label: (&'static str, &'static str),
    /// The help text, if it differs from the field's description.
    help: &'static str,
}

/// The source of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricValues {
    /// A field of `show info`.
    Process(InfoField),
    /// A text field of `show info`. The text becomes the value of this label. The sample is 1.
    ProcessText(InfoField, &'static str),
    /// A field of `show stat`.
    Number(StatsField),
    /// A field in milliseconds, converted to seconds.
    Seconds(StatsField),
    /// `status`: one sample per state. The current state has the value 1.
    Status,
    /// `check_status`: one sample per check result. The last result has the value 1.
    CheckStatus,
    /// Number of servers of a backend in each state.
    ServersByStatus,
    /// Number of servers of a backend with each check result.
    ServersByCheckStatus,
    /// Maximum number of entries of a stick-table.
    TableSize,
    /// Number of entries of a stick-table.
    TableUsed,
    /// Number of stick-table entries evicted to make room for others.
    TableEvicted,
    /// Number of stick-table entries refused because the table was full.
    TableRefused,
    /// A counter of a name server, by its index in the dictionary of name server counters.
    NameServer(usize),
    /// The latency histogram of a phase, by its index in [`crate::latency::PHASES`].
    Latency(usize),
}

/// The objects with a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricPresence {
    /// All objects. An unknown value is `NaN`.
    Always,
    /// Servers with checks.
    Checked,
    /// Objects in `mode http`.
    Http,
}

impl Metric {
    const fn new(name: &'static str, scopes: u8, values: MetricValues) -> Self {
        Metric { name, scopes, values, presence: MetricPresence::Always, label: ("", ""), help: "" }
    }

    const fn checked(self) -> Self {
        Metric { presence: MetricPresence::Checked, ..self }
    }

    const fn http(self) -> Self {
        Metric { presence: MetricPresence::Http, ..self }
    }

    const fn help(self, help: &'static str) -> Self {
        Metric { help, ..self }
    }

    /// The metrics of a scope, in output order.
    pub(super) fn of(scope: MetricScope) -> impl Iterator<Item = &'static Metric> {
        [METRICS, EXTRA, HISTOGRAMS]
            .into_iter()
            .flatten()
            .filter(move |metric| metric.scopes & scope.mask() != 0)
    }

    /// Whether the metric's value for one object is a [`MetricSample`](super::samples::MetricSample).
    pub(super) fn has_samples(&self) -> bool {
        matches!(
            self.values,
            MetricValues::Number(_)
                | MetricValues::Seconds(_)
                | MetricValues::Status
                | MetricValues::CheckStatus
        )
    }

    /// The help text.
    pub(super) fn description(&self) -> &'static str {
        match self.values {
            _ if !self.help.is_empty() => self.help,
            MetricValues::Process(field) | MetricValues::ProcessText(field, _) => field.decl().description,
            MetricValues::Number(field) | MetricValues::Seconds(field) => field.decl().description,
            MetricValues::Status | MetricValues::CheckStatus => StatsField::Status.decl().description,
            MetricValues::ServersByStatus => StatsField::AggServerStatus.decl().description,
            MetricValues::ServersByCheckStatus => StatsField::AggCheckStatus.decl().description,
            MetricValues::TableSize
            | MetricValues::TableUsed
            | MetricValues::TableEvicted
            | MetricValues::TableRefused
            | MetricValues::NameServer(_)
            | MetricValues::Latency(_) => "",
        }
    }

    /// The name of the metric's field in `show stat` or `show info`.
    pub(super) fn field(&self) -> Option<&'static str> {
        match self.values {
            MetricValues::Process(field) | MetricValues::ProcessText(field, _) => Some(field.decl().name),
            MetricValues::Number(field) | MetricValues::Seconds(field) => Some(field.decl().name),
            MetricValues::Status => Some(StatsField::Status.decl().name),
            MetricValues::CheckStatus => Some(StatsField::CheckStatus.decl().name),
            MetricValues::ServersByStatus => Some(StatsField::AggServerStatus.decl().name),
            MetricValues::ServersByCheckStatus => Some(StatsField::AggCheckStatus.decl().name),
            MetricValues::TableSize
            | MetricValues::TableUsed
            | MetricValues::TableEvicted
            | MetricValues::TableRefused
            | MetricValues::NameServer(_)
            | MetricValues::Latency(_) => None,
        }
    }

    /// The metric type: `counter` for fields that their name marks as totals and, as in HAProxy, for all protocol counters.
    pub(super) fn type_word(&self) -> &'static str {
        if matches!(self.values, MetricValues::Latency(_)) {
            return "histogram";
        }
        let by_name = self.name.ends_with("_total") || self.name == "total_warnings";
        if by_name || self.is_extra() { "counter" } else { "gauge" }
    }

    /// Whether the metric requires `extra-counters`.
    pub(super) fn is_extra(&self) -> bool {
        self.label.0 == MODULE
    }
}

/// The label name of protocol counters.
const MODULE: &str = "mod";

/// The possible states of frontends and backends.
pub(super) const PROXY_STATES: &[&str] = &["DOWN", "UP"];

/// The possible states of listeners.
pub(super) const LISTENER_STATES: &[&str] = &["WAITING", "OPEN", "FULL"];

/// The possible states of servers.
pub(super) const SERVER_STATES: &[&str] = &["DOWN", "UP", "MAINT", "DRAIN", "NOLB"];

/// The possible check results (management manual, `check_status`).
pub(super) const CHECK_STATES: &[&str] = &[
    "HANA", "SOCKERR", "L4OK", "L4TOUT", "L4CON", "L6OK", "L6TOUT", "L6RSP", "L7TOUT", "L7RSP", "L7OK",
    "L7OKC", "L7STS", "PROCERR", "PROCTOUT", "PROCOK",
];

const G: u8 = MetricScope::Global.mask();
const F: u8 = MetricScope::Frontend.mask();
const L: u8 = MetricScope::Listener.mask();
const B: u8 = MetricScope::Backend.mask();
const S: u8 = MetricScope::Server.mask();
const T: u8 = MetricScope::StickTable.mask();
const R: u8 = MetricScope::Resolver.mask();

const fn process(name: &'static str, field: InfoField) -> Metric {
    Metric::new(name, G, MetricValues::Process(field))
}

const fn text(name: &'static str, field: InfoField, label: &'static str) -> Metric {
    Metric::new(name, G, MetricValues::ProcessText(field, label))
}

const fn number(name: &'static str, scopes: u8, field: StatsField) -> Metric {
    Metric::new(name, scopes, MetricValues::Number(field))
}

const fn seconds(name: &'static str, scopes: u8, field: StatsField, help: &'static str) -> Metric {
    Metric::new(name, scopes, MetricValues::Seconds(field)).help(help)
}

const fn responses(class: &'static str, field: StatsField) -> Metric {
    let metric = number("http_responses_total", F | B | S, field).http();
    Metric { label: ("code", class), ..metric }
        .help("HTTP responses by class of status since the worker process started")
}

const fn http1(name: &'static str, scopes: u8, field: StatsField) -> Metric {
    Metric { label: (MODULE, "h1"), ..number(name, scopes, field) }
}

const fn http2(name: &'static str, field: StatsField) -> Metric {
    Metric { label: (MODULE, "h2"), ..number(name, F | B, field) }
}

const fn tls(name: &'static str, field: StatsField) -> Metric {
    Metric { label: (MODULE, "ssl"), ..number(name, F | L | B | S, field) }
}

const fn name_server(position: usize) -> Metric {
    let NameServerCounter { name, help, .. } = COUNTERS[position];
    Metric::new(name, R, MetricValues::NameServer(position)).help(help)
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
    process("http_comp_bytes_in_total", InfoField::CompressBpsIn),
    process("http_comp_bytes_out_total", InfoField::CompressBpsOut),
    process("limit_http_comp", InfoField::CompressBpsRateLim),
    process("current_zlib_memory", InfoField::ZlibMemUsage),
    process("max_zlib_memory", InfoField::MaxZlibMemUsage),
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
    number("current_queue", B | S, StatsField::Qcur),
    number("max_queue", B | S, StatsField::Qmax),
    number("current_sessions", F | L | B | S, StatsField::Scur),
    number("max_sessions", F | L | B | S, StatsField::Smax),
    number("limit_sessions", F | L | B | S, StatsField::Slim),
    number("sessions_total", F | L | B | S, StatsField::Stot),
    number("bytes_in_total", F | L | B | S, StatsField::Bin),
    number("bytes_out_total", F | L | B | S, StatsField::Bout),
    number("requests_denied_total", F | L | B, StatsField::Dreq),
    number("responses_denied_total", F | L | B | S, StatsField::Dresp),
    number("request_errors_total", F | L, StatsField::Ereq),
    number("connection_errors_total", B | S, StatsField::Econ),
    number("response_errors_total", B | S, StatsField::Eresp),
    number("retry_warnings_total", B | S, StatsField::Wretr),
    number("redispatch_warnings_total", B | S, StatsField::Wredis),
    Metric::new("status", F | L | B | S, MetricValues::Status).help(STATUS),
    number("weight", B | S, StatsField::Weight),
    number("active_servers", B, StatsField::Act),
    number("active", S, StatsField::Act).help("Whether the server is an active one"),
    number("backup_servers", B, StatsField::Bck),
    number("backup", S, StatsField::Bck).help("Whether the server is a backup"),
    number("check_failures_total", S, StatsField::Chkfail),
    number("check_up_down_total", B | S, StatsField::Chkdown),
    number("check_last_change_seconds", B | S, StatsField::Lastchg),
    number("downtime_seconds_total", B | S, StatsField::Downtime),
    number("queue_limit", S, StatsField::Qlimit),
    number("current_throttle", S, StatsField::Throttle),
    number("loadbalanced_total", B | S, StatsField::Lbtot),
    number("current_session_rate", F | B | S, StatsField::Rate),
    number("limit_session_rate", F, StatsField::RateLim),
    number("max_session_rate", F | B | S, StatsField::RateMax),
    Metric::new("check_status", S, MetricValues::CheckStatus)
        .help("1 for the result of the last health check, 0 for the others")
        .checked(),
    number("check_code", S, StatsField::CheckCode).checked(),
    seconds("check_duration_seconds", S, StatsField::CheckDuration, "How long the last health check took")
        .checked(),
    responses("1xx", StatsField::Hrsp1xx),
    responses("2xx", StatsField::Hrsp2xx),
    responses("3xx", StatsField::Hrsp3xx),
    responses("4xx", StatsField::Hrsp4xx),
    responses("5xx", StatsField::Hrsp5xx),
    responses("other", StatsField::HrspOther),
    number("http_requests_rate_max", F, StatsField::ReqRateMax).http(),
    number("http_requests_total", F | B | S, StatsField::ReqTot).http(),
    number("client_aborts_total", B | S, StatsField::CliAbrt),
    number("server_aborts_total", B | S, StatsField::SrvAbrt),
    number("http_comp_bytes_in_total", F | B, StatsField::CompIn).http(),
    number("http_comp_bytes_out_total", F | B, StatsField::CompOut).http(),
    number("http_comp_bytes_bypassed_total", F | B, StatsField::CompByp).http(),
    number("http_comp_responses_total", F | B, StatsField::CompRsp).http(),
    number("last_session_seconds", B | S, StatsField::Lastsess),
    seconds(
        "queue_time_average_seconds",
        B | S,
        StatsField::Qtime,
        "Time in the queue, on average of the last 1024",
    ),
    seconds(
        "connect_time_average_seconds",
        B | S,
        StatsField::Ctime,
        "Time to connect, on average of the last 1024",
    ),
    seconds(
        "response_time_average_seconds",
        B | S,
        StatsField::Rtime,
        "Time to the server's response, on average of the last 1024",
    ),
    seconds(
        "total_time_average_seconds",
        B | S,
        StatsField::Ttime,
        "Time in all, on average of the last 1024",
    ),
    number("connections_rate_max", F, StatsField::ConnRateMax),
    number("connections_total", F, StatsField::ConnTot),
    number("intercepted_requests_total", F, StatsField::Intercepted).http(),
    number("denied_connections_total", F | L, StatsField::Dcon),
    number("denied_sessions_total", F | L, StatsField::Dses),
    number("failed_header_rewriting_total", F | L | B | S, StatsField::Wrew),
    number("connection_attempts_total", B | S, StatsField::Connect),
    number("connection_reuses_total", B | S, StatsField::Reuse),
    number("http_cache_lookups_total", F | B, StatsField::CacheLookups).http(),
    number("http_cache_hits_total", F | B, StatsField::CacheHits).http(),
    number("idle_connections_current", S, StatsField::SrvIcur),
    number("idle_connections_limit", S, StatsField::SrcIlim),
    seconds("max_queue_time_seconds", B | S, StatsField::QtimeMax, "Longest time in the queue"),
    seconds("max_connect_time_seconds", B | S, StatsField::CtimeMax, "Longest time to connect"),
    seconds(
        "max_response_time_seconds",
        B | S,
        StatsField::RtimeMax,
        "Longest time to the server's response",
    ),
    seconds("max_total_time_seconds", B | S, StatsField::TtimeMax, "Longest time in all"),
    number("internal_errors_total", F | L | B | S, StatsField::Eint),
    number("unsafe_idle_connections_current", S, StatsField::IdleConnCur),
    number("safe_idle_connections_current", S, StatsField::SafeConnCur),
    number("used_connections_current", S, StatsField::UsedConnCur),
    number("need_connections_current", S, StatsField::NeedConnEst),
    number("uweight", B | S, StatsField::Uweight),
    Metric::new("agg_server_status", B, MetricValues::ServersByStatus),
    // The older name of the previous metric, which dashboards still use.
    Metric::new("agg_server_check_status", B, MetricValues::ServersByStatus),
    Metric::new("agg_check_status", B, MetricValues::ServersByCheckStatus),
    Metric::new("size", T, MetricValues::TableSize).help("How many entries the stick-table may have"),
    Metric::new("used", T, MetricValues::TableUsed).help("How many entries the stick-table has"),
    // Not in HAProxy.
    Metric::new("evicted_total", T, MetricValues::TableEvicted)
        .help("Entries of the stick-table replaced by others"),
    Metric::new("refused_total", T, MetricValues::TableRefused)
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

/// Protocol counters.
const EXTRA: &[Metric] = &[
    tls("ssl_sess", StatsField::SslSess),
    tls("ssl_reused_sess", StatsField::SslReusedSess),
    tls("ssl_failed_handshake", StatsField::SslFailedHandshake),
    tls("ssl_ocsp_staple", StatsField::SslOcspStaple),
    tls("ssl_failed_ocsp_staple", StatsField::SslFailedOcspStaple),
    http2("h2_headers_rcvd", StatsField::H2HeadersRcvd),
    http2("h2_data_rcvd", StatsField::H2DataRcvd),
    http2("h2_settings_rcvd", StatsField::H2SettingsRcvd),
    http2("h2_rst_stream_rcvd", StatsField::H2RstStreamRcvd),
    http2("h2_goaway_rcvd", StatsField::H2GoawayRcvd),
    http2("h2_detected_conn_protocol_errors", StatsField::H2DetectedConnProtocolErrors),
    http2("h2_detected_strm_protocol_errors", StatsField::H2DetectedStrmProtocolErrors),
    http2("h2_rst_stream_resp", StatsField::H2RstStreamResp),
    http2("h2_goaway_resp", StatsField::H2GoawayResp),
    http2("h2_open_connections", StatsField::H2OpenConnections),
    http2("h2_backend_open_streams", StatsField::H2BackendOpenStreams),
    http2("h2_total_connections", StatsField::H2TotalConnections),
    http2("h2_backend_total_streams", StatsField::H2BackendTotalStreams),
    http1("h1_open_connections", F | B, StatsField::H1OpenConnections),
    http1("h1_open_streams", B, StatsField::H1OpenStreams),
    http1("h1_total_connections", F | B, StatsField::H1TotalConnections),
    http1("h1_total_streams", F | B, StatsField::H1TotalStreams),
    http1("h1_bytes_in", F | B, StatsField::H1BytesIn),
    http1("h1_bytes_out", F | B, StatsField::H1BytesOut),
    http1("h1_spliced_bytes_in", F | B, StatsField::H1SplicedBytesIn),
    http1("h1_spliced_bytes_out", F | B, StatsField::H1SplicedBytesOut),
];

/// Latency histograms of ended streams. HAProxy only has averages.
const HISTOGRAMS: &[Metric] = &[
    Metric::new("queue_duration_seconds", F | B | S, MetricValues::Latency(0)).help("Time spent in queues"),
    Metric::new("connect_duration_seconds", F | B | S, MetricValues::Latency(1))
        .help("Time spent connecting to a server"),
    Metric::new("response_duration_seconds", F | B | S, MetricValues::Latency(2))
        .help("Time from the connection to the head of the response"),
    Metric::new("total_duration_seconds", F | B | S, MetricValues::Latency(3))
        .help("Time from the first byte of the request, or from the connection in TCP mode, to the end"),
];

/// The name of the label for a section's `description`.
pub(super) const DESCRIPTION: &str = "desc";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::fields::StatsObject;

    fn kinds(scopes: u8) -> impl Iterator<Item = StatsObject> {
        [
            (F, StatsObject::Frontend),
            (B, StatsObject::Backend),
            (S, StatsObject::Server),
            (L, StatsObject::Listener),
        ]
        .into_iter()
        .filter(move |row| scopes & row.0 != 0)
        .map(|row| row.1)
    }

    #[test]
    fn every_metric_has_a_field_that_applies_to_its_scopes() {
        for metric in METRICS.iter().chain(EXTRA).chain(HISTOGRAMS) {
            if let MetricValues::Number(field) | MetricValues::Seconds(field) = metric.values {
                assert!(kinds(metric.scopes).count() > 0, "{}", metric.name);
                for kind in kinds(metric.scopes) {
                    assert!(field.applies_to(kind), "{} of {kind:?}", metric.name);
                }
            }
            assert!(!metric.description().is_empty(), "{}", metric.name);
        }
    }

    #[test]
    fn metrics_are_unique_by_name_and_label_and_grouped_by_name() {
        for scope in MetricScope::ALL {
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
