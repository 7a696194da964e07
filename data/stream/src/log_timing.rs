//! What a log format asks for decides when its line is written.

use weir_config::model::{LogLine, Proxy};
use weir_expr::{Alias, LogFormat};

/// When a proxy's line is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogTiming {
    /// All that the line says is known when the response begins. Then it is written at once (manual, "option
    /// logasap"), and who gets a response can count on its line being there.
    pub early: bool,
}

impl LogTiming {
    /// What a proxy's settings ask for.
    pub fn of(config: &Proxy) -> Self {
        let LogLine::Format { format, .. } = &config.settings.logging.line else {
            return LogTiming::default();
        };
        let structured = config.settings.logging.structured_data.as_ref();
        let options = &config.settings.options;
        let by_its_ending = options.dont_log_normal || options.log_separate_errors;
        LogTiming {
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

/// Fetches that change until the stream ends.
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

/// Whether an alias stands for something that nothing changes once the response begins. Timers, counters and numbers
/// of connections belong to the end, as in the reference program, even those that could be told before.
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
