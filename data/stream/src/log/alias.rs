//! What each alias of a log format stands for (manual section 8.2.6).

use std::cell::RefCell;

use weir_expr::{Alias, LogWriter, WallTime};

use crate::exchange::Exchange;

/// Writes the value of `alias`.
pub(crate) fn alias(exchange: &mut Exchange, alias: Alias, out: &mut LogWriter<'_>) {
    match alias {
        Alias::AcceptDateUtc
        | Alias::AcceptDateLocal
        | Alias::AcceptTimestamp
        | Alias::AcceptDate
        | Alias::AcceptMillis => {
            accept_date(exchange, alias, out);
        }
        Alias::RequestDate | Alias::RequestDateUtc | Alias::RequestDateLocal => {
            request_date(exchange, alias, out)
        }
        Alias::HttpMethod
        | Alias::HttpPath
        | Alias::HttpPathOnly
        | Alias::HttpQuery
        | Alias::HttpUri
        | Alias::HttpVersion
        | Alias::Request => request_line(exchange, alias, out),
        Alias::TimeActive => time(exchange, out, exchange.timers.active()),
        Alias::TimeConnect => out.number(exchange.timers.connecting()),
        Alias::TimeData if exchange.backend.is_http() => out.number(exchange.timers.data()),
        Alias::TimeData => out.number(exchange.timers.streaming()),
        Alias::TimeHandshake => out.number(exchange.timers.handshake()),
        Alias::TimeIdle => out.number(exchange.timers.idle()),
        Alias::TimeQuery => out.number(exchange.timers.total_request()),
        Alias::TimeRequest => out.number(exchange.timers.receive()),
        Alias::TimeResponse => out.number(exchange.timers.responding()),
        Alias::TimeTotal => time(exchange, out, exchange.timers.total()),
        Alias::TimeUser => time(exchange, out, exchange.timers.total_user()),
        Alias::TimeQueue => out.number(exchange.timers.queue_wait()),
        Alias::BytesRead => early(exchange, out, exchange.logged_bytes() as i64),
        Alias::BytesUploaded => out.number(exchange.bytes_in() as i64),
        // There is none in TCP mode, and in HTTP mode not always.
        Alias::Status if exchange.status == 0 => out.number(-1),
        Alias::Status => out.number(i64::from(exchange.status)),
        Alias::RequestCookie => captured(exchange.captures.request_cookie.as_deref(), out),
        Alias::ResponseCookie => captured(exchange.captures.response_cookie.as_deref(), out),
        Alias::RequestHeaders | Alias::RequestHeadersClf => {
            let declared = exchange.frontend.config.captures.request.len();
            headers(exchange, &exchange.captures.request, declared, alias, out);
        }
        Alias::ResponseHeaders | Alias::ResponseHeadersClf => {
            let declared = exchange.frontend.config.captures.response.len();
            headers(exchange, &exchange.captures.response, declared, alias, out);
        }
        Alias::Hostname => out.text(exchange.site.identity.hostname.as_bytes()),
        Alias::Pid => out.counter(i64::from(exchange.site.identity.process_id)),
        Alias::RequestCounter => out.counter(crate::worker::streams_before(exchange.serial) as i64),
        Alias::LogCounter => out.counter(exchange.frontend.frontend_figures.log_lines() as i64),
        Alias::LogOrigin => out.text(if exchange.facts.logged { b"txn_response" } else { b"txn_close" }),
        Alias::UniqueId => out.text(exchange.unique_id.as_deref().unwrap_or_default()),
        Alias::TerminationState => out.raw(&exchange.ending.letters()),
        Alias::TerminationStateCookie => {
            let [by, during] = exchange.ending.letters();
            let [request, response] = crate::cookie::logged_letters(exchange);
            out.raw(&[by, during, request, response]);
        }
        Alias::Retries => retries(exchange, out),
        Alias::Frontend | Alias::FrontendTransport => out.text(exchange.frontend.name().as_bytes()),
        Alias::Backend => out.text(exchange.backend.name().as_bytes()),
        Alias::Server => server_name(exchange, out),
        Alias::TlsCipher | Alias::TlsVersion => out.missing(),
        _ => places(exchange, alias, out),
    }
}

/// Addresses, and how many connections and waiting requests there are.
fn places(exchange: &Exchange, alias: Alias, out: &mut LogWriter<'_>) {
    let source = exchange.session.source();
    let destination = exchange.session.destination();
    match alias {
        Alias::ClientIp if source.is_unix() => out.text(b"unix"),
        Alias::ClientIp => out.address(source.ip()),
        Alias::ClientPort if source.is_unix() => out.counter(i64::from(exchange.session.listener.id)),
        Alias::ClientPort => out.port(Some(source.port())),
        Alias::FrontendIp if destination.is_unix() => out.text(b"unix"),
        Alias::FrontendIp => out.address(destination.ip()),
        Alias::FrontendPort if destination.is_unix() => out.counter(i64::from(exchange.session.listener.id)),
        Alias::FrontendPort => out.port(Some(destination.port())),
        Alias::BackendSourceIp => out.address(exchange.own_address().and_then(|address| address.ip())),
        Alias::BackendSourcePort => out.port(exchange.own_address().map(|address| address.port())),
        Alias::ServerIp => out.address(exchange.server_address().and_then(|address| address.ip())),
        Alias::ServerPort => out.port(exchange.server_address().map(|address| address.port())),
        Alias::ActiveConnections => out.number(i64::from(exchange.site.connections.inside())),
        Alias::FrontendConnections => out.number(i64::from(exchange.frontend.connections.inside())),
        Alias::BackendConnections => {
            let sessions = exchange.backend.backend.as_ref().map_or(0, |backend| backend.sessions());
            out.number(if exchange.backend_entered { i64::from(sessions) } else { 0 });
        }
        Alias::ServerConnections => {
            out.number(exchange.lease.as_ref().map_or(0, |lease| i64::from(lease.server().served())));
        }
        Alias::ServerQueue => out.number(i64::from(exchange.queued.server)),
        Alias::BackendQueue => out.number(i64::from(exchange.queued.backend)),
        _ => out.missing(),
    }
}

/// A total that need not be the final one is marked (manual, "option logasap"), like in the reference program whenever the
/// option is there.
fn time(exchange: &Exchange, out: &mut LogWriter<'_>, value: i64) {
    early(exchange, out, value);
}

fn early(exchange: &Exchange, out: &mut LogWriter<'_>, value: i64) {
    if exchange.frontend.config.settings.options.log_asap {
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
    exchange: &Exchange,
    captured: &[Option<Box<[u8]>>],
    declared: usize,
    alias: Alias,
    out: &mut LogWriter<'_>,
) {
    // Nothing declared, nothing written: not even the braces. Of a request that was not understood nothing was ever
    // captured, on neither side.
    let declared = if exchange.captures.bad_request { 0 } else { declared };
    let values = (0..declared).map(|slot| captured.get(slot).and_then(Option::as_deref));
    match alias {
        Alias::RequestHeaders | Alias::ResponseHeaders => out.headers(values),
        _ => out.header_list(values),
    }
}

fn retries(exchange: &Exchange, out: &mut LogWriter<'_>) {
    if exchange.redispatched {
        out.raw(b"+");
    }
    out.number(i64::from(exchange.retries));
}

fn server_name(exchange: &Exchange, out: &mut LogWriter<'_>) {
    if exchange.look_at_server(|server| out.text(server.name().as_bytes())).is_none() {
        out.text(if exchange.facts.local { b"<STATS>" } else { b"<NOSRV>" });
    }
}

fn accept_date(exchange: &Exchange, alias: Alias, out: &mut LogWriter<'_>) {
    let micros = exchange.began_wall_us();
    let time = crate::clock::wall_time(micros);
    match alias {
        Alias::AcceptTimestamp => out.counter((micros / 1_000_000) as i64),
        Alias::AcceptMillis => out.milliseconds(time.micros / 1000),
        Alias::AcceptDateUtc => utc_date(time, out),
        Alias::AcceptDateLocal => date(exchange, time, b"%d/%b/%Y:%H:%M:%S %z", out),
        _ => date(exchange, time, b"%d/%b/%Y:%H:%M:%S.%N", out),
    }
}

fn request_date(exchange: &Exchange, alias: Alias, out: &mut LogWriter<'_>) {
    let waited = u64::from(exchange.timers.first_byte.unwrap_or(0)) * 1000;
    let time = crate::clock::wall_time(exchange.began_wall_us() + waited);
    match alias {
        Alias::RequestDateUtc => utc_date(time, out),
        Alias::RequestDateLocal => date(exchange, time, b"%d/%b/%Y:%H:%M:%S %z", out),
        _ => date(exchange, time, b"%d/%b/%Y:%H:%M:%S.%N", out),
    }
}

fn utc_date(time: WallTime, out: &mut LogWriter<'_>) {
    let mut text = weir_expr::scratch::take();
    weir_expr::time::format(b"%d/%b/%Y:%H:%M:%S +0000", time, weir_expr::TimeZone::utc(), &mut text);
    out.raw(&text);
    weir_expr::scratch::give(text);
}

/// A date of the local zone; `%N` in `format` is three digits of milliseconds.
fn date(exchange: &Exchange, time: WallTime, format: &'static [u8], out: &mut LogWriter<'_>) {
    let (format, millis) = match format.strip_suffix(b"%N") {
        Some(rest) => (rest, true),
        None => (format, false),
    };
    DATE.with_borrow_mut(|date| {
        if date.second != time.seconds || date.format != format {
            *date = Date { second: time.seconds, format, text: std::mem::take(&mut date.text) };
            date.text.clear();
            weir_expr::time::format(format, time, &exchange.site.identity.time_zone, &mut date.text);
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

/// The date that was written last: most lines of a log fall into one second, and turning it into a date costs more than
/// all of a line's numbers.
struct Date {
    second: i64,
    format: &'static [u8],
    text: Vec<u8>,
}

thread_local! {
    static DATE: RefCell<Date> = const { RefCell::new(Date { second: i64::MIN, format: b"", text: Vec::new() }) };
}

fn request_line(exchange: &Exchange, alias: Alias, out: &mut LogWriter<'_>) {
    if !exchange.facts.have_request {
        return out.encoded(b"<BADREQ>");
    }
    // Nobody logs it, and no rule on responses may ask: then it is the request's, which is still there.
    let mut unkept = Vec::new();
    let line = match exchange.request_line.is_empty() {
        true => {
            exchange.write_request_line(&mut unkept);
            &unkept
        }
        false => &*exchange.request_line,
    };
    let limit = exchange.site.limits.log_uri_length.saturating_sub(1);
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
        Alias::HttpPathOnly => out.encoded(weir_http::uri::path(path)),
        // Without a query there is an empty one, which is nothing missing.
        Alias::HttpQuery if query.is_empty() => out.quoted_raw(b""),
        Alias::HttpQuery => out.encoded(query),
        Alias::HttpUri => out.encoded(target),
        Alias::HttpVersion => out.encoded(version),
        _ => out.encoded(&line[..line.len().min(limit)]),
    }
}
