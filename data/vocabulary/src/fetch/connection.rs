//! The connections to client and server: addresses, PROXY header fields, kernel metrics, byte counts.

use weir_expr::Needs;
use weir_expr::SampleType::{Addr, Bool, Int, Str};
use weir_expr::{
    Arg, ArgKind, ArgSpec, Args, ExpressionScope, FetchCursor, FetchDecl, FetchResult, SampleType,
};
use weir_model::Mode;
use weir_mux::{Multiplexer, SharedStream, StreamConnector};
use weir_net::ConnectionFault;
use weir_proxy_protocol::tlv;
use weir_sys::tcp_info::TcpInfo;
use weir_sys::{Address, Errno};
use weir_tls::Why;

use super::access::of_stream;
use super::local::is_local;
use super::values::{amount, copied, gauge, ip, number, port, text, truth};
use super::{FetchRow, row, valid};
use crate::view::FetchView;

const fn client(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::CLIENT).needs(Needs::L4_CLIENT)
}

const fn server(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::ANSWERED).needs(Needs::L4_SERVER)
}

const fn stream(name: &'static str, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, Int, help).valid(valid::STREAM).needs(Needs::L4_CLIENT)
}

const fn choice(name: &'static str, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, Int, help).valid(valid::CHOICE).needs(Needs::L4_SERVER)
}

/// The unit of a time. Default: `ms`.
const UNIT: ArgSpec = ArgSpec::new(0, &[ArgKind::Str]);

pub(super) const ROWS: &[FetchRow] = &[
    row(client("src", Addr, "The client's address, as far as it is known"), |view, _, _| {
        ip(view.source().as_ref())
    }),
    row(client("src_port", Int, "The client's port"), |view, _, _| port(view.source().as_ref())),
    row(client("src_is_local", Bool, "Whether the client's address is one of this host"), |view, _, _| {
        local(view.source())
    }),
    row(client("dst", Addr, "The address that the client connected to"), |view, _, _| {
        ip(view.destination().as_ref())
    }),
    row(client("dst_port", Int, "The port that the client connected to"), |view, _, _| {
        port(view.destination().as_ref())
    }),
    row(
        client("dst_is_local", Bool, "Whether the client connected to an address of this host"),
        |view, _, _| local(view.destination()),
    ),
    row(
        FetchDecl::new("dst_conn", Int, "Connections of the listener")
            .valid(valid::FRONTEND)
            .needs(Needs::LISTENER),
        |view, _, _| {
            view.listener().map_or(FetchResult::Missing, |listener| gauge(listener.connections.inside()))
        },
    ),
    row(client("fc_src", Addr, "The address that the client's connection came from"), |view, _, _| {
        ip(view.connection_source().as_ref())
    }),
    row(client("fc_src_port", Int, "The port that the client's connection came from"), |view, _, _| {
        port(view.connection_source().as_ref())
    }),
    row(
        client("fc_src_is_local", Bool, "Whether the client's connection came from this host"),
        |view, _, _| local(view.connection_source()),
    ),
    row(client("fc_dst", Addr, "The address that the client's connection went to"), |view, _, _| {
        ip(view.connection_destination().as_ref())
    }),
    row(client("fc_dst_port", Int, "The port that the client's connection went to"), |view, _, _| {
        port(view.connection_destination().as_ref())
    }),
    row(
        client("fc_dst_is_local", Bool, "Whether the client's connection went to an address of this host"),
        |view, _, _| local(view.connection_destination()),
    ),
    row(client("fc_http_major", Int, "The HTTP version spoken with the client: 1 or 2"), |view, _, _| {
        of_client(view, |client| number(if client.shared().is_some() { 2 } else { 1 }))
    }),
    row(client("internal.strm.is_htx", Bool, "Whether the stream is in HTTP"), |view, _, _| {
        truth(view.speaks_http())
    }),
    row(client("fc_nb_streams", Int, "Streams on the client's connection now"), |view, _, _| {
        of_client(view, |client| {
            number(multiplexer(client).map_or(1, |multiplexer| multiplexer.live() as u32))
        })
    }),
    row(
        FetchDecl::new("fc_settings_streams_limit", Int, "The most streams on the client's connection")
            .valid(valid::SESSION)
            .needs(Needs::L5_CLIENT),
        |view, _, _| {
            of_client(view, |client| number(multiplexer(client).map_or(1, Multiplexer::most_streams)))
        },
    ),
    row(
        client("fc_glitches", Int, "Small violations of its protocol on the client's connection"),
        |view, _, _| of_client(view, |client| number(multiplexer(client).map_or(0, Multiplexer::glitches))),
    ),
    row(client("fc_err", Int, "The error of the client's connection, 0 for none"), |view, _, _| {
        of_client(view, |client| number(error_of(client.fault_of_connection()).id))
    }),
    row(client("fc_err_str", Str, "The error of the client's connection in words"), |view, _, _| {
        of_client(view, |client| text(error_of(client.fault_of_connection()).message))
    }),
    row(client("fc_err_name", Str, "The error of the client's connection as one word"), |view, _, _| {
        of_client(view, |client| text(error_of(client.fault_of_connection()).name))
    }),
    row(
        client("fc_rcvd_proxy", Bool, "Whether the client's connection began with a PROXY header"),
        |view, _, _| truth(view.proxy_fields().is_some()),
    ),
    row(client("fc_pp_authority", Str, "The authority that a PROXY header carried"), |view, _, _| {
        header_field(view, tlv::AUTHORITY, &mut FetchCursor::single())
    }),
    row(client("fc_pp_unique_id", Str, "The unique identifier that a PROXY header carried"), |view, _, _| {
        header_field(view, tlv::UNIQUE_ID, &mut FetchCursor::single())
    }),
    row(
        FetchDecl::new("fc_pp_tlv", Str, "A field that a PROXY header carried, by its number or name")
            .args(ArgSpec::new(1, &[ArgKind::Str]))
            .valid(valid::SESSION)
            .needs(Needs::L5_CLIENT)
            .check(check_field_kind),
        |view, args, cursor| {
            let kind = args.int(0).and_then(|kind| u8::try_from(kind).ok());
            kind.map_or(FetchResult::Missing, |kind| header_field(view, kind, cursor))
        },
    ),
    row(time("fc_rtt", "The client's smoothed round trip time, in ms or us"), |view, args, _| {
        client_info(view, |info| in_unit(info.rtt_us, args))
    }),
    row(time("fc_rttvar", "The deviation of the client's round trip time, in ms or us"), |view, args, _| {
        client_info(view, |info| in_unit(info.rtt_variance_us, args))
    }),
    row(
        client("fc_unacked", Int, "Segments to the client that are not acknowledged").args(UNIT),
        |view, _, _| client_info(view, |info| info.unacked),
    ),
    row(
        client("fc_sacked", Int, "Segments to the client that are acknowledged out of order").args(UNIT),
        |view, _, _| client_info(view, |info| info.sacked),
    ),
    row(client("fc_lost", Int, "Segments to the client that seem lost").args(UNIT), |view, _, _| {
        client_info(view, |info| info.lost)
    }),
    row(
        client("fc_retrans", Int, "Segments to the client that are being sent again").args(UNIT),
        |view, _, _| client_info(view, |info| info.retransmits),
    ),
    row(
        client("fc_reordering", Int, "How far segments to the client get out of order").args(UNIT),
        |view, _, _| client_info(view, |info| info.reordering),
    ),
    row(
        time("bc_rtt", "The server's smoothed round trip time, in ms or us").needs(Needs::L4_SERVER),
        |view, args, _| server_info(view, |info| in_unit(info.rtt_us, args)),
    ),
    row(
        time("bc_rttvar", "The deviation of the server's round trip time, in ms or us")
            .needs(Needs::L4_SERVER),
        |view, args, _| server_info(view, |info| in_unit(info.rtt_variance_us, args)),
    ),
    row(server("bc_dst", Addr, "The address of the server that was connected to"), |view, _, _| {
        ip(view.reached_address().as_ref())
    }),
    row(server("bc_dst_port", Int, "The port of the server that was connected to"), |view, _, _| {
        port(view.reached_address().as_ref())
    }),
    row(server("bc_src", Addr, "The address that the server was connected to from"), |view, _, _| {
        ip(view.own_address().as_ref())
    }),
    row(server("bc_src_port", Int, "The port that the server was connected to from"), |view, _, _| {
        port(view.own_address().as_ref())
    }),
    row(server("bc_http_major", Int, "The HTTP version spoken with the server: 1 or 2"), |view, _, _| {
        if_spoken_to(view, || number(if spoke_http2(view) { 2 } else { 1 }))
    }),
    row(server("bc_nb_streams", Int, "Streams on the server's connection now"), |view, _, _| {
        if_connected(view, |_, _| number(server_shares(view, |shared| shared.live() as u32).unwrap_or(1)))
    }),
    row(
        server("bc_settings_streams_limit", Int, "The most streams on the server's connection"),
        |view, _, _| {
            let limit = server_shares(view, |shared| shared.stream_limit());
            if_connected(view, |_, _| number(limit.unwrap_or(1)))
        },
    ),
    row(
        server("bc_glitches", Int, "Small violations of its protocol on the server's connection"),
        |view, _, _| {
            let glitches = server_shares(view, |shared| shared.glitches());
            if_connected(view, |_, _| number(glitches.unwrap_or(0)))
        },
    ),
    row(
        server("bc_reused", Bool, "Whether the server's connection served other requests before"),
        |view, _, _| match if_connected(view, |reused, _| truth(reused)) {
            // False without a connection.
            FetchResult::Missing => truth(false),
            found => found,
        },
    ),
    row(server("bc_err", Int, "The error of the server's connection, 0 for none"), |view, _, _| {
        server_error(view, |error| number(error.id))
    }),
    row(server("bc_err_str", Str, "The error of the server's connection in words"), |view, _, _| {
        server_error(view, |error| text(error.message))
    }),
    row(server("bc_err_name", Str, "The error of the server's connection as one word"), |view, _, _| {
        server_error(view, |error| text(error.name))
    }),
    row(
        server("bc_be_queue", Int, "Requests that left the backend's queue before this one"),
        |view, _, _| of_stream(view, |stream| number(stream.queued.backend)),
    ),
    row(
        server("bc_srv_queue", Int, "Requests that left the server's queue before this one"),
        |view, _, _| of_stream(view, |stream| number(stream.queued.server)),
    ),
    row(stream("bytes_in", "Bytes from the client"), |view, _, _| {
        of_stream(view, |stream| gauge(amount(stream.bytes_in)))
    }),
    row(choice("bytes_out", "Bytes from the server"), |view, _, _| {
        of_stream(view, |stream| gauge(amount(from_server(view, stream.bytes_out + stream.bytes_saved))))
    }),
    row(stream("req.bytes_in", "Bytes from the client"), |view, _, _| {
        of_stream(view, |stream| gauge(amount(stream.bytes_in)))
    }),
    row(stream("req.bytes_out", "Bytes to the server"), |view, _, _| {
        of_stream(view, |stream| gauge(amount(to_server(view, stream.bytes_in))))
    }),
    row(choice("res.bytes_in", "Bytes from the server"), |view, _, _| {
        of_stream(view, |stream| gauge(amount(from_server(view, stream.bytes_out + stream.bytes_saved))))
    }),
    row(choice("res.bytes_out", "Bytes to the client"), |view, _, _| {
        of_stream(view, |stream| gauge(amount(stream.bytes_out)))
    }),
];

const fn time(name: &'static str, help: &'static str) -> FetchDecl {
    client(name, Int, help).args(UNIT).check(check_unit)
}

fn check_unit(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.str(0) {
        None | Some(b"" | b"ms" | b"us") => Ok(()),
        Some(unit) => Err(format!("unknown unit '{}' (expects 'ms' or 'us')", String::from_utf8_lossy(unit))),
    }
}

fn in_unit(microseconds: u32, args: &Args) -> u32 {
    if args.str(0) == Some(b"us") { microseconds } else { microseconds / 1000 }
}

fn client_info<'c>(view: &dyn FetchView, metric: impl FnOnce(TcpInfo) -> u32) -> FetchResult<'c> {
    view.client().and_then(StreamConnector::tcp_info).map_or(FetchResult::Missing, |info| gauge(metric(info)))
}

fn server_info<'c>(view: &dyn FetchView, metric: impl FnOnce(TcpInfo) -> u32) -> FetchResult<'c> {
    let Some(server) = view.server_connection() else { return FetchResult::Missing };
    server.connector.tcp_info().map_or(FetchResult::Missing, |info| gauge(metric(info)))
}

/// Evaluates a fetch about the client's connection. Missing without one.
fn of_client<'c>(
    view: &dyn FetchView,
    then: impl FnOnce(&StreamConnector) -> FetchResult<'c>,
) -> FetchResult<'c> {
    view.client().map_or(FetchResult::Missing, then)
}

/// The multiplexer of the client's connection, if it can carry several streams.
fn multiplexer(client: &StreamConnector) -> Option<&Multiplexer> {
    client.shared().map(SharedStream::multiplexer)
}

/// Whether an address belongs to this host.
fn local<'c>(address: Option<Address>) -> FetchResult<'c> {
    address.map_or(FetchResult::Missing, |address| truth(is_local(&address)))
}

/// Evaluates a fetch about the server's current or last connection. `then` receives whether it was reused, and its fault. The last
/// connection counts only if it was established, or if a SOCKS4 proxy refused it.
fn if_connected<'c>(
    view: &dyn FetchView,
    then: impl FnOnce(bool, Option<ConnectionFault>) -> FetchResult<'c>,
) -> FetchResult<'c> {
    match (view.server_connection(), view.past_connection()) {
        (Some(server), _) => then(server.reused, server.connector.fault_of_connection()),
        (None, Some(past)) if past.stood || past.fault.is_some_and(ConnectionFault::is_of_proxy) => {
            then(past.reused, past.fault)
        }
        _ => FetchResult::Missing,
    }
}

/// Evaluates a fetch about the error of the server's current or last connection, including a failed connect.
fn server_error<'c>(
    view: &dyn FetchView,
    then: impl FnOnce(ConnectionError) -> FetchResult<'c>,
) -> FetchResult<'c> {
    let failed = match (view.server_connection(), view.past_connection()) {
        (Some(server), _) => server.connector.fault_of_connection(),
        (None, past) => past.and_then(|past| past.fault),
    };
    match failed {
        Some(ConnectionFault::Tls(failure)) => then(error_of_server_tls(failure.why)),
        Some(fault) => then(error_of(Some(fault))),
        None => if_connected(view, |_, _| then(error_of(None))),
    }
}

/// A metric of the server's connection. `None` unless it can carry several streams.
fn server_shares(view: &dyn FetchView, metric: impl FnOnce(&Multiplexer) -> u32) -> Option<u32> {
    let shared = view.server_connection()?.connector.shared()?;
    Some(metric(shared.multiplexer()))
}

/// Whether the server's current or last connection used HTTP/2.
fn spoke_http2(view: &dyn FetchView) -> bool {
    match (view.server_connection(), view.past_connection()) {
        (Some(server), _) => server.connector.shared().is_some(),
        (None, Some(past)) => past.http2,
        (None, None) => false,
    }
}

/// Evaluates a fetch about HTTP to a server, if a connect was tried. A response is not needed.
fn if_spoken_to<'c>(view: &dyn FetchView, then: impl FnOnce() -> FetchResult<'c>) -> FetchResult<'c> {
    let tried = view.server_connection().is_some() || view.past_connection().is_some();
    let is_http = view.backend().is_some_and(|backend| backend.config.settings.mode == Mode::Http);
    if tried && is_http { then() } else { FetchResult::Missing }
}

/// The error of a fault. Success without one. The numbers are the manual's (`fc_err_str`).
const fn error_of(fault: Option<ConnectionFault>) -> ConnectionError {
    match fault {
        None => ConnectionError { id: 0, name: b"", message: b"Success" },
        Some(ConnectionFault::SocksAborted) => ConnectionError {
            id: 40,
            name: b"SOCKS4_RECV",
            message: b"SOCKS4 Proxy read error during handshake",
        },
        Some(ConnectionFault::SocksRefused(_)) => {
            ConnectionError { id: 41, name: b"SOCKS4_DENY", message: b"SOCKS4 Proxy deny the request" }
        }
        Some(ConnectionFault::Tls(failure)) => error_of_tls(failure.why),
        Some(ConnectionFault::Io(errno)) => error_of_system(errno),
        Some(_) => SOCKET_ERROR,
    }
}

/// The numbers of HAProxy 3.5, each one above its number in 3.2.
const fn error_of_system(errno: Errno) -> ConnectionError {
    match errno {
        Errno::CONNREFUSED => {
            ConnectionError { id: 47, name: b"EREFUSED", message: b"ECONNREFUSED returned by OS" }
        }
        Errno::CONNRESET => {
            ConnectionError { id: 48, name: b"ERESET", message: b"ECONNRESET returned by OS" }
        }
        Errno::NETUNREACH => {
            ConnectionError { id: 49, name: b"EUNREACH", message: b"ENETUNREACH returned by OS" }
        }
        Errno::PIPE => ConnectionError { id: 57, name: b"EPIPE", message: b"EPIPE returned by OS" },
        _ => SOCKET_ERROR,
    }
}

const fn error_of_tls(why: Why) -> ConnectionError {
    match why {
        Why::Closed => {
            ConnectionError { id: 24, name: b"SSL_EMPTY", message: b"Connection closed during SSL handshake" }
        }
        Why::TimedOut => {
            ConnectionError { id: 26, name: b"SSL_TIMEOUT", message: b"Timeout during SSL handshake" }
        }
        Why::Untrusted => ConnectionError {
            id: 30,
            name: b"SSL_CA_FAIL",
            message: b"SSL client CA chain cannot be verified",
        },
        Why::Certificate => {
            ConnectionError { id: 31, name: b"SSL_CRT_FAIL", message: b"SSL client certificate not trusted" }
        }
        _ => ConnectionError { id: 34, name: b"SSL_HANDSHAKE", message: b"SSL handshake failure" },
    }
}

/// Errors 30 and 31 are about client certificates, so an untrusted server has the general error.
const fn error_of_server_tls(why: Why) -> ConnectionError {
    match why {
        Why::WrongHost => ConnectionError {
            id: 32,
            name: b"SSL_MISMATCH",
            message: b"Server presented an SSL certificate different from the configured one",
        },
        Why::WrongName => ConnectionError {
            id: 33,
            name: b"SSL_MISMATCH_SNI",
            message: b"Server presented an SSL certificate different from the expected one",
        },
        Why::Untrusted | Why::Certificate => error_of_tls(Why::Misbehaved),
        why => error_of_tls(why),
    }
}

const SOCKET_ERROR: ConnectionError =
    ConnectionError { id: 6, name: b"SOCK_ERR", message: b"General socket error" };

/// A row of the manual's table (`fc_err_str`).
struct ConnectionError {
    id: u32,
    name: &'static [u8],
    message: &'static [u8],
}

/// Bytes received from the client and already forwarded: those in the receive buffer do not count.
fn to_server(view: &dyn FetchView, from_client: u64) -> u64 {
    from_client.saturating_sub(view.client().map_or(0, |client| client.input().len()) as u64)
}

/// Bytes sent to the client, plus those received from the server and still in the receive buffer.
fn from_server(view: &dyn FetchView, to_client: u64) -> u64 {
    let waiting = view.server_connection().map_or(0, |server| server.connector.input().len());
    to_client + waiting as u64
}

/// A PROXY header field of this type: the first one, or each in turn for the `cursor` of an ACL.
fn header_field<'c>(view: &dyn FetchView, kind: u8, cursor: &mut FetchCursor) -> FetchResult<'c> {
    let header = view.proxy_fields();
    let fields = header.as_ref().map_or(&[][..], |header| &header.fields);
    let rest = fields.iter().enumerate().skip(cursor.position[0]);
    let Some((position, (_, value))) = rest.into_iter().find(|(_, (found, _))| *found == kind) else {
        return FetchResult::Missing;
    };
    if cursor.iterating {
        cursor.position[0] = position + 1;
        cursor.more = true;
    }
    copied(value)
}

/// Field names as in the PROXY protocol specification, without `PP2_TYPE_`. `CRC32` is from the manual.
const FIELD_NAMES: [(&str, u8); 13] = [
    ("ALPN", tlv::ALPN),
    ("AUTHORITY", tlv::AUTHORITY),
    ("CRC32", tlv::CRC32C),
    ("CRC32C", tlv::CRC32C),
    ("NOOP", tlv::NOOP),
    ("UNIQUE_ID", tlv::UNIQUE_ID),
    ("SSL", tlv::SSL),
    ("SSL_VERSION", tlv::SSL_VERSION),
    ("SSL_CN", tlv::SSL_CN),
    ("SSL_CIPHER", tlv::SSL_CIPHER),
    ("SSL_SIG_ALG", tlv::SSL_SIGNATURE_ALGORITHM),
    ("SSL_KEY_ALG", tlv::SSL_KEY_ALGORITHM),
    ("NETNS", tlv::NETNS),
];

fn check_field_kind(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let word = String::from_utf8_lossy(args.str(0).unwrap_or_default()).into_owned();
    let kind = field_kind(&word)
        .ok_or_else(|| format!("unknown field '{word}' (expects a number from 0 to 255, or a name)"))?;
    args.set(0, Arg::Int(kind.into()));
    Ok(())
}

fn field_kind(word: &str) -> Option<u8> {
    if let Some((_, kind)) = FIELD_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        return Some(*kind);
    }
    match word.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_proxy_protocol_tlv_types_by_number_and_name() {
        for (word, expected) in [
            ("AUTHORITY", Some(2)),
            ("authority", Some(2)),
            ("CRC32", Some(3)),
            ("CRC32C", Some(3)),
            ("NOOP", Some(4)),
            ("NETNS", Some(0x30)),
            ("NOBODY", None),
            ("0xE2", Some(0xe2)),
            ("5", Some(5)),
            ("256", None),
            ("", None),
        ] {
            assert_eq!(field_kind(word), expected, "{word}");
        }
    }
}
