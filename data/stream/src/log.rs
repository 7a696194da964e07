//! The log line of a stream: the time, the level, and the values of its aliases.

use std::cell::RefCell;
use std::sync::Arc;

use weir_events::logger::LONGEST_LENGTH;
use weir_events::{Level, LogMessage, LogSink, Logger, WallTime};
use weir_model::{LogLine, Severity};

use crate::ending::{By, During};
use crate::recycle::Loan;
use crate::stream::Stream;
use crate::stream::log_record::LogState;
use crate::stream::phases::StreamLog;

mod alias;

pub use crate::log_timing::LogTiming;
pub(crate) use alias::alias;

thread_local! {
    static LOGGER: RefCell<Option<Logger>> = const { RefCell::new(None) };
}

/// Sets the worker's logger.
pub fn install(logger: Logger) {
    LOGGER.set(Some(logger));
}

/// The syslog level of a configured severity.
pub fn level(severity: Severity) -> Level {
    Level::ALL[severity as usize]
}

impl StreamLog {
    /// Writes the line of a stream that ended, unless an option prevents it.
    pub(crate) fn log_end(&mut self) {
        if self.has_line() && !self.has_nothing_to_log() {
            self.write_log_line();
        }
    }

    /// Writes the default line, which is due when a connection (TCP) or a request (HTTP) has arrived (manual, section 8.2.1).
    #[inline]
    pub(crate) fn log_arrival(&mut self) {
        if self.stream.frontend.log_timing.on_arrival && self.has_line() {
            self.write_log_line();
            self.stream.log.state = LogState::Written;
        }
    }

    /// Whether the line is the default one and the request never arrived.
    fn has_nothing_to_log(&self) -> bool {
        let logging = &self.stream.frontend.config.settings.logging;
        matches!(logging.line, LogLine::Connect)
            && logging.error_line.is_none()
            && self.stream.speaks_http()
            && !self.stream.request.is_known()
    }

    /// Writes the line at the start of the response: with `option logasap`, or because all values are already known.
    pub(crate) fn log_early(&mut self) {
        if (self.stream.frontend.config.settings.options.log_asap || self.stream.frontend.log_timing.early)
            && self.has_line()
        {
            self.write_log_line();
            self.stream.log.state = LogState::Written;
        }
    }

    /// Whether a line is due now. With `option dontlog-normal` a normal stream does not log, but it may still fail.
    fn has_line(&self) -> bool {
        self.stream.log.is_due()
            && !self.stream.frontend.log_sinks.is_empty()
            && (!self.stream.frontend.config.settings.options.dont_log_normal || self.is_worth_logging())
    }

    /// `do-log`: writes an additional line now.
    pub(crate) fn log_now(&mut self) {
        if !self.stream.frontend.log_sinks.is_empty() {
            self.write_log_line();
        }
    }

    /// Whether the line is written despite `option dontlog-normal`: errors, retries, redispatches, server errors.
    fn is_worth_logging(&self) -> bool {
        self.stream.ending.is_error()
            || self.stream.attempts.retries > 0
            || self.stream.choice.redispatched
            || self.stream.response.status >= 500
    }

    fn level(&self) -> Option<Level> {
        match self.stream.log.level {
            Some(chosen) => chosen,
            None if self.stream.frontend.config.settings.options.log_separate_errors
                && self.is_worth_logging() =>
            {
                Some(Level::Error)
            }
            None => Some(Level::Info),
        }
    }

    /// Sends the line to the targets that accept it. It is rendered for the first of them, so a line suppressed by sampling or levels costs
    /// nothing.
    fn write_log_line(&mut self) {
        let Some(level) = self.level() else { return };
        let frontend = self.stream.frontend.clone();
        let mut rendered = None;
        for sink in frontend.log_sinks.iter().filter(|sink| sink.admits(level)) {
            let RenderedLine { text, structured_data, time } =
                rendered.get_or_insert_with(|| RenderedLine::of(&mut self.stream));
            let message = LogMessage { level, tag: &frontend.log_tag, structured_data, text };
            with_logger(|logger| logger.send_admitted(sink, *time, &message));
        }
        if rendered.is_none() && frontend.log_timing.has_effects {
            RenderedLine::of(&mut self.stream);
        }
        frontend.frontend_counters.log_line(weir_sched::worker_index());
    }

    /// Logs a connection that closed before its first stream, with the error `what` of its PROXY header. The format is `error-log-format`,
    /// else the one in section 8.2.5 of the manual. `option dontlognull` skips connections that sent nothing.
    pub(crate) fn log_refused_handshake(&mut self, what: &str) {
        let frontend = self.stream.frontend.clone();
        let sent_nothing = !self.stream.client.connection().is_some_and(weir_net::Connection::was_heard);
        if frontend.log_sinks.is_empty() || frontend.config.settings.options.dont_log_null && sent_nothing {
            return;
        }
        let logging = &frontend.config.settings.logging;
        let mut line = crate::recycle::bytes();
        match &logging.error_line {
            Some(format) => format.render_within(LONGEST_LENGTH, &mut self.stream, &mut line),
            None => self.render_refusal(what, &mut line),
        }
        let separate = frontend.config.settings.options.log_separate_errors;
        let level = if separate { Level::Error } else { Level::Info };
        send(&frontend, &LogMessage { level, tag: &frontend.log_tag, structured_data: b"", text: &line });
    }

    fn render_refusal(&self, what: &str, line: &mut Vec<u8>) {
        use std::io::Write as _;
        let mut date = weir_expr::scratch::take();
        let time = crate::clock::wall_time(self.stream.session.accepted.wall_us);
        weir_expr::time::format(
            b"%d/%b/%Y:%H:%M:%S",
            time,
            &self.stream.frontend.instance().identity.time_zone,
            &mut date,
        );
        let date = String::from_utf8_lossy(&date);
        let (source, listener) = (self.stream.source(), self.stream.session.listener());
        let millis = time.micros / 1000;
        let frontend = self.stream.frontend.name();
        // Writing to memory does not fail.
        let _ = match &listener.bind.name {
            Some(name) => write!(line, "{source} [{date}.{millis:03}] {frontend}/{name}: {what}"),
            None => write!(line, "{source} [{date}.{millis:03}] {frontend}/{}: {what}", listener.id),
        };
    }

    fn render_connect_line(&mut self, line: &mut Vec<u8>) {
        use std::io::Write as _;
        let source = self.stream.source();
        let destination = self.stream.destination();
        let mode = if self.stream.speaks_http() { "HTTP" } else { "TCP" };
        // Writing to memory does not fail.
        let _ =
            write!(line, "Connect from {source} to {destination} ({}/{mode})", self.stream.frontend.name());
    }
}

/// A rendered line, without the headers of its targets.
struct RenderedLine {
    text: Loan<Vec<u8>>,
    structured_data: Loan<Vec<u8>>,
    time: WallTime,
}

impl RenderedLine {
    fn of(stream: &mut Stream) -> RenderedLine {
        let frontend = stream.frontend.clone();
        let logging = &frontend.config.settings.logging;
        let failed_early =
            !stream.request.is_known() && stream.ending.is_error() && stream.ending.during == During::Request;
        let mut text = crate::recycle::bytes();
        match (&logging.line, &logging.error_line) {
            (_, Some(format)) if failed_early && stream.ending.by != By::Nobody => {
                format.render_within(LONGEST_LENGTH, stream, &mut text)
            }
            (LogLine::Format { format, .. }, _) => format.render_within(LONGEST_LENGTH, stream, &mut text),
            (LogLine::Connect, _) => stream.log_line().render_connect_line(&mut text),
        }
        let mut structured_data = crate::recycle::bytes();
        if let Some(format) = &logging.structured_data {
            format.render_within(LONGEST_LENGTH, stream, &mut structured_data);
        }
        RenderedLine { text, structured_data, time: weir_sched::wall_time() }
    }
}

/// Logs a message about a proxy to the proxy's targets.
pub fn announce(proxy: &crate::instance::Proxy, level: Level, text: &[u8]) {
    send(proxy, &LogMessage { level, tag: &proxy.log_tag, structured_data: b"", text });
}

/// Sends a line that is not about a proxy to log targets.
pub fn send_line(sinks: &[Arc<LogSink>], tag: &[u8], level: Level, text: &[u8]) {
    send_to(sinks, &LogMessage { level, tag, structured_data: b"", text });
}

/// Sends one message to every target of a proxy.
pub(crate) fn send(proxy: &crate::instance::Proxy, message: &LogMessage<'_>) {
    send_to(&proxy.log_sinks, message);
}

fn send_to(sinks: &[Arc<LogSink>], message: &LogMessage<'_>) {
    let time = weir_sched::wall_time();
    with_logger(|logger| {
        for sink in sinks {
            logger.send(sink, time, message);
        }
    });
}

/// Calls `use_it` with the worker's logger. Does nothing without one.
fn with_logger<R>(use_it: impl FnOnce(&mut Logger) -> R) {
    LOGGER.with_borrow_mut(|logger| {
        logger.as_mut().map(use_it);
    });
}
