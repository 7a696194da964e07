//! When a log line is written, as determined by its format.

use weir_expr::{Alias, LogFormat};
use weir_model::{LogLine, Proxy};

/// When a proxy's line is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogTiming {
    /// All values of the line are known when the response begins. The line is then written immediately (manual, "option logasap"), so a
    /// client that has received a response is already logged.
    pub early: bool,
    /// The line is the default one, which does not contain response values, and can be written on arrival.
    pub on_arrival: bool,
    /// Rendering the line may change stick-table counters or variables. So the line is rendered even if no target accepts it.
    pub has_effects: bool,
}

impl LogTiming {
    /// The timing for a proxy's settings.
    pub fn of(config: &Proxy) -> Self {
        let (options, logging) = (&config.settings.options, &config.settings.logging);
        let structured = logging.structured_data.as_ref();
        let mut rare = logging.error_line.iter().chain(structured).map(|format| &**format);
        let LogLine::Format { format, .. } = &logging.line else {
            let on_arrival = !options.dont_log_normal;
            return LogTiming { on_arrival, has_effects: rare.any(has_effects), early: false };
        };
        let by_its_ending = options.dont_log_normal || options.log_separate_errors;
        LogTiming {
            on_arrival: false,
            has_effects: has_effects(format) || rare.any(has_effects),
            early: !by_its_ending
                && is_known_early(format)
                && structured.is_none_or(|format| is_known_early(format)),
        }
    }
}

fn is_known_early(format: &LogFormat) -> bool {
    format.aliases().all(is_alias_known_early)
        && format.expressions().all(|expr| !GROWS.contains(&expr.decl().name))
}

fn has_effects(format: &LogFormat) -> bool {
    let changes_counters = |fetch: &str| fetch.contains("_inc_gpc") || fetch.contains("_clr_gpc");
    format.expressions().any(|expr| changes_counters(expr.decl().name) || !expr.has_pure_converters())
}

/// Fetches with values that change until the stream ends.
const GROWS: &[&str] = &[
    "bytes_in",
    "bytes_out",
    "fc.timer.total",
    "req.bytes_in",
    "req.bytes_out",
    "res.bytes_in",
    "res.bytes_out",
    "res.timer.data",
    "txn.sess_term_state",
    "txn.timer.total",
    "txn.timer.user",
];

/// Whether an alias has its final value when the response begins. Timers, counters and numbers of connections are taken at the end, as
/// in HAProxy, even if known earlier.
fn is_alias_known_early(alias: Alias) -> bool {
    use Alias::*;
    match alias {
        AcceptDateUtc | AcceptDateLocal | AcceptTimestamp | AcceptDate | AcceptMillis | RequestDate
        | RequestDateUtc | RequestDateLocal | RequestCookie | ResponseCookie | Hostname | HttpMethod
        | HttpPath | HttpPathOnly | HttpQuery | HttpUri | HttpVersion | Status | Backend
        | BackendSourceIp | BackendSourcePort | ClientIp | ClientPort | Frontend | FrontendIp
        | FrontendPort | FrontendTransport | LogCounter | LogOrigin | RequestHeaders | RequestHeadersClf
        | ResponseHeaders | ResponseHeadersClf | Pid | Request | RequestCounter | Server | ServerIp
        | ServerPort | TlsCipher | TlsVersion => true,
        TimeActive
        | TimeConnect
        | TimeData
        | TimeHandshake
        | TimeIdle
        | TimeQuery
        | TimeRequest
        | TimeResponse
        | TimeTotal
        | TimeUser
        | TimeQueue
        | BytesRead
        | BytesUploaded
        | UniqueId
        | ActiveConnections
        | BackendConnections
        | BackendQueue
        | FrontendConnections
        | Retries
        | ServerConnections
        | ServerQueue
        | TerminationState
        | TerminationStateCookie => false,
    }
}
