//! The values of log format aliases (manual section 8.2.6).

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use weir_expr::context::CaptureSide;
use weir_expr::expr::script::text_of;
use weir_expr::{Alias, LogWriter, WallTime};

use crate::stream::Stream;
use crate::stream::log_record::LogState;
use crate::stream::request::RequestProgress;
use crate::stream::server_side::reached_address;

/// Writes the value of `alias`.
pub(crate) fn alias(stream: &mut Stream, alias: Alias, out: &mut LogWriter<'_>) {
    match alias {
        Alias::AcceptDateUtc
        | Alias::AcceptDateLocal
        | Alias::AcceptTimestamp
        | Alias::AcceptDate
        | Alias::AcceptMillis => {
            accept_date(stream, alias, out);
        }
        Alias::RequestDate | Alias::RequestDateUtc | Alias::RequestDateLocal => {
            request_date(stream, alias, out)
        }
        Alias::HttpMethod
        | Alias::HttpPath
        | Alias::HttpPathOnly
        | Alias::HttpQuery
        | Alias::HttpUri
        | Alias::HttpVersion
        | Alias::Request => request_line(stream, alias, out),
        Alias::TimeActive => time(stream, out, stream.timers.active()),
        Alias::TimeConnect => out.number(stream.timers.connecting()),
        Alias::TimeData if stream.backend.is_http() => out.number(stream.timers.data()),
        Alias::TimeData => out.number(stream.timers.streaming()),
        Alias::TimeHandshake => out.number(stream.timers.handshake()),
        Alias::TimeIdle => out.number(stream.timers.idle()),
        Alias::TimeQuery => out.number(stream.timers.total_request()),
        Alias::TimeRequest => out.number(stream.timers.receive()),
        Alias::TimeResponse => out.number(stream.timers.responding()),
        Alias::TimeTotal => time(stream, out, stream.timers.total()),
        Alias::TimeUser => time(stream, out, stream.timers.total_user()),
        Alias::TimeQueue => out.number(stream.timers.queue_wait()),
        Alias::BytesRead => early(stream, out, stream.logged_bytes() as i64),
        Alias::BytesUploaded => out.number(stream.bytes_in() as i64),
        // TCP streams and some HTTP streams lack a status and log -1. A connection without a stream logs 0, as in HAProxy.
        Alias::Status if stream.response.status == 0 => {
            out.number(if stream.is_for_connection() { 0 } else { -1 })
        }
        Alias::Status => out.number(i64::from(stream.response.status)),
        Alias::RequestCookie => captured(stream.captures.cookie(CaptureSide::Request), out),
        Alias::ResponseCookie => captured(stream.captures.cookie(CaptureSide::Response), out),
        Alias::RequestHeaders | Alias::RequestHeadersClf => {
            let declared = stream.frontend.config.captures.request.len();
            headers(stream, stream.captures.slots(CaptureSide::Request), declared, alias, out);
        }
        Alias::ResponseHeaders | Alias::ResponseHeadersClf => {
            let declared = stream.frontend.config.captures.response.len();
            headers(stream, stream.captures.slots(CaptureSide::Response), declared, alias, out);
        }
        Alias::Hostname => out.text(stream.frontend.instance().identity.hostname.as_bytes()),
        Alias::Pid => out.counter(i64::from(stream.frontend.instance().identity.process_id)),
        Alias::RequestCounter => out.counter(crate::process_counters::streams_before(stream.serial) as i64),
        Alias::LogCounter => out.counter(stream.frontend.frontend_counters.log_lines() as i64),
        Alias::LogOrigin => out.text(origin(stream)),
        Alias::UniqueId => out.text(stream.log_line().unique_id().unwrap_or_default()),
        Alias::TerminationState => out.raw(&stream.ending.letters()),
        Alias::TerminationStateCookie => {
            let [by, during] = stream.ending.letters();
            let [request, response] = crate::cookie::logged_letters(stream);
            out.raw(&[by, during, request, response]);
        }
        Alias::Retries => retries(stream, out),
        Alias::Frontend => out.text(stream.frontend.name().as_bytes()),
        // A TLS connection is marked with `~` (manual).
        Alias::FrontendTransport => match stream.client.tls() {
            None => out.text(stream.frontend.name().as_bytes()),
            Some(_) => out.text(format!("{}~", stream.frontend.name()).as_bytes()),
        },
        Alias::Backend => out.text(stream.backend.name().as_bytes()),
        Alias::Server => server_name(stream, out),
        Alias::TlsCipher => {
            let cipher = stream.client.tls().and_then(|facts| weir_tls::ciphers::name_of(facts.cipher?));
            text_or_missing(cipher, out);
        }
        Alias::TlsVersion => {
            let version = stream.client.tls().and_then(|facts| facts.version_name());
            text_or_missing(version, out);
        }
        Alias::ClientIp | Alias::ClientPort | Alias::FrontendIp | Alias::FrontendPort => {
            client_side(stream, alias, out);
        }
        Alias::BackendSourceIp => out.address(stream.own_address().and_then(|address| address.ip())),
        Alias::BackendSourcePort => out.port(stream.own_address().map(|address| address.port())),
        Alias::ServerIp => out.address(reached_address(stream).and_then(|address| address.ip())),
        Alias::ServerPort => out.port(reached_address(stream).map(|address| address.port())),
        Alias::ActiveConnections => out.number(i64::from(stream.frontend.instance().connections.inside())),
        Alias::FrontendConnections => out.number(i64::from(stream.frontend.connections.inside())),
        Alias::BackendConnections => {
            let sessions = stream.backend.backend.as_ref().map_or(0, |backend| backend.sessions());
            out.number(if stream.backend.has_begun() { i64::from(sessions) } else { 0 });
        }
        Alias::ServerConnections => {
            out.number(stream.server.lease.as_ref().map_or(0, |lease| i64::from(lease.server().served())));
        }
        Alias::ServerQueue => out.number(i64::from(stream.choice.queued.server)),
        Alias::BackendQueue => out.number(i64::from(stream.choice.queued.backend)),
    }
}

fn text_or_missing(text: Option<&str>, out: &mut LogWriter<'_>) {
    match text {
        Some(text) => out.text(text.as_bytes()),
        None => out.missing(),
    }
}

/// The client's and the destination's address and port. For a UNIX socket, the listener's number replaces the port.
fn client_side(stream: &Stream, alias: Alias, out: &mut LogWriter<'_>) {
    let is_client = matches!(alias, Alias::ClientIp | Alias::ClientPort);
    let address = if is_client { stream.source() } else { stream.destination() };
    let is_address = matches!(alias, Alias::ClientIp | Alias::FrontendIp);
    match (is_address, address.is_unix()) {
        (true, true) => out.text(b"unix"),
        (true, false) => out.address(address.ip()),
        (false, true) => out.counter(i64::from(stream.session.listener().id)),
        (false, false) => out.port(Some(address.port())),
    }
}

/// When the line is written: at the end, or earlier with the response or, in TCP mode, with the server connection (`option logasap`, or
/// all values are already known).
fn origin(stream: &Stream) -> &'static [u8] {
    match stream.log.state {
        LogState::Beginning if stream.speaks_http() => b"txn_response",
        LogState::Beginning => b"txn_connect",
        LogState::Due | LogState::Written | LogState::Unwanted => b"txn_close",
    }
}

/// Writes a time with a mark if it may not be final (manual, "option logasap"). As in HAProxy, the option alone sets the mark.
fn time(stream: &Stream, out: &mut LogWriter<'_>, value: i64) {
    early(stream, out, value);
}

fn early(stream: &Stream, out: &mut LogWriter<'_>, value: i64) {
    if stream.frontend.config.settings.options.log_asap {
        out.raw(b"+");
    }
    out.number(value);
}

fn captured(value: Option<&[u8]>, out: &mut LogWriter<'_>) {
    match value {
        Some(value) => out.encoded(value),
        None => out.missing(),
    }
}

fn headers(
    stream: &Stream,
    captured: &[Option<Box<[u8]>>],
    declared: usize,
    alias: Alias,
    out: &mut LogWriter<'_>,
) {
    // Without declared captures nothing is written, not even the braces. An invalid request does not have captures on either side.
    let is_refused = stream.request.progress == RequestProgress::Refused;
    let declared = if is_refused { 0 } else { declared };
    let values = (0..declared).map(|slot| captured.get(slot).and_then(Option::as_deref));
    match alias {
        Alias::RequestHeaders | Alias::ResponseHeaders => out.headers(values),
        _ => out.header_list(values),
    }
}

fn retries(stream: &Stream, out: &mut LogWriter<'_>) {
    if stream.choice.redispatched {
        out.raw(b"+");
    }
    out.number(i64::from(stream.attempts.retries));
}

fn server_name(stream: &Stream, out: &mut LogWriter<'_>) {
    if stream.look_at_server(|server| out.text(server.name().as_bytes())).is_none() {
        match stream.captures.service() {
            Some(name) => out.text(format!("<{}>", text_of(name)).as_bytes()),
            None => out.text(stream.response.service.logged()),
        }
    }
}

fn accept_date(stream: &Stream, alias: Alias, out: &mut LogWriter<'_>) {
    let micros = stream.began_wall_us();
    let time = crate::clock::wall_time(micros);
    match alias {
        Alias::AcceptTimestamp => out.counter((micros / 1_000_000) as i64),
        Alias::AcceptMillis => out.milliseconds(time.micros / 1000),
        Alias::AcceptDateUtc => utc_date(time, out),
        Alias::AcceptDateLocal => date(stream, time, b"%d/%b/%Y:%H:%M:%S %z", out),
        _ => date(stream, time, b"%d/%b/%Y:%H:%M:%S.%N", out),
    }
}

fn request_date(stream: &Stream, alias: Alias, out: &mut LogWriter<'_>) {
    let waited = weir_vocabulary::timers::whole_ms_us(stream.timers.first_byte);
    let time = crate::clock::wall_time(stream.began_wall_us() + waited);
    match alias {
        Alias::RequestDateUtc => utc_date(time, out),
        Alias::RequestDateLocal => date(stream, time, b"%d/%b/%Y:%H:%M:%S %z", out),
        _ => date(stream, time, b"%d/%b/%Y:%H:%M:%S.%N", out),
    }
}

fn utc_date(time: WallTime, out: &mut LogWriter<'_>) {
    let mut text = weir_expr::scratch::take();
    weir_expr::time::format(b"%d/%b/%Y:%H:%M:%S +0000", time, weir_expr::TimeZone::utc(), &mut text);
    out.raw(&text);
    weir_expr::scratch::give(text);
}

/// Writes a date in the local time zone. `%N` in `format` is three digits of milliseconds.
fn date(stream: &Stream, time: WallTime, format: &'static [u8], out: &mut LogWriter<'_>) {
    let (format, millis) = match format.strip_suffix(b"%N") {
        Some(rest) => (rest, true),
        None => (format, false),
    };
    DATE.with_borrow_mut(|date| {
        if date.second != time.seconds || date.format != format {
            **date = FormattedDate { second: time.seconds, format, text: std::mem::take(&mut date.text) };
            date.text.clear();
            weir_expr::time::format(
                format,
                time,
                &stream.frontend.instance().identity.time_zone,
                &mut date.text,
            );
        }
        if !millis {
            return out.raw(&date.text);
        }
        let length = date.text.len();
        let millis = time.micros / 1000;
        date.text.extend([
            b'0' + (millis / 100) as u8,
            b'0' + (millis / 10 % 10) as u8,
            b'0' + (millis % 10) as u8,
        ]);
        out.raw(&date.text);
        date.text.truncate(length);
    });
}

/// A cache of the last formatted date. Most lines of a log fall within one second, and formatting a date costs more than all the
/// numbers of a line.
struct FormattedDate {
    second: i64,
    format: &'static [u8],
    text: Vec<u8>,
}

thread_local! {
    static DATE: RefCell<ManuallyDrop<FormattedDate>> = const { RefCell::new(ManuallyDrop::new(FormattedDate { second: i64::MIN, format: b"", text: Vec::new() })) };
}

fn request_line(stream: &Stream, alias: Alias, out: &mut LogWriter<'_>) {
    if !stream.request.is_known() {
        return out.encoded(b"<BADREQ>");
    }
    // The line is not kept if no log format uses it. Then no response rule may use it either, so the request itself is still available.
    let kept = stream.entry.request_line();
    let mut unkept = Vec::new();
    if kept.is_empty() {
        stream.as_log_line().write_request_line(&mut unkept);
    }
    let line = if kept.is_empty() { &unkept } else { &*kept };
    let limit = stream.frontend.instance().limits.log_uri_length.saturating_sub(1);
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let method = parts.next().unwrap_or_default();
    let target = parts.next().unwrap_or_default();
    let version = parts.next().unwrap_or_default();
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(mark) => target.split_at(mark),
        None => (target, &b""[..]),
    };
    match alias {
        Alias::HttpMethod => out.encoded(method),
        Alias::HttpPath => out.encoded(path),
        // A missing query is logged as empty, not as a missing value. A target that is not a path has an empty path.
        Alias::HttpPathOnly if weir_http::uri::path(path).is_empty() => out.quoted_raw(b""),
        Alias::HttpQuery if query.is_empty() => out.quoted_raw(b""),
        Alias::HttpPathOnly => out.encoded(weir_http::uri::path(path)),
        Alias::HttpQuery => out.encoded(query),
        Alias::HttpUri => out.encoded(target),
        Alias::HttpVersion => out.encoded(version),
        _ => out.encoded(&line[..line.len().min(limit)]),
    }
}
