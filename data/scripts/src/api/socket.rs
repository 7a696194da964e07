//! `Socket`: a connection of a script (`core.tcp`).

use std::time::Duration;

use weir_lua::{LuaKind, LuaReference, Misuse};
use weir_sys::Address;

use super::{ApiCall, ApiMember, ApiResult};
use crate::network::{self, most_received};
use crate::sockets::{self, CLOSED, ConnectJob, NoSocket, OtherWorker, ReceiveJob, ReceivePattern};
use crate::sockets::{MOST_SOCKETS, ScriptSocket, SendJob, SocketNumber};
use crate::wait::ScriptWait;
use crate::world::{ScriptState, World};

const METHODS: &[ApiMember] = &[
    ("close", close),
    ("connect", |call| connect(call, false)),
    ("connect_ssl", connect_ssl),
    ("getpeername", |call| name(call, "getpeername", ScriptSocket::peer)),
    ("getsockname", |call| name(call, "getsockname", ScriptSocket::local)),
    ("receive", receive),
    ("send", send),
    // For compatibility, as in the manual.
    ("setoption", |call| call.results(0)),
    ("settimeout", settimeout),
];

/// The metatable.
pub(super) fn class(state: &mut ScriptState) -> LuaReference {
    let class = super::class(state, "Socket", METHODS);
    state.with_stack(|stack| {
        stack.push_reference(class);
        stack.push_function::<World>(collect, 0);
        stack.set_field(b"__gc");
    });
    class
}

/// `core.tcp()`. Nothing before the process serves, as in HAProxy.
pub(super) fn new(call: &ApiCall<'_>) -> ApiResult {
    let opened = match sockets::open() {
        Err(NoSocket::TooMany) => {
            // Those without an object may only wait to be collected.
            call.collect();
            sockets::open()
        }
        opened => opened,
    };
    match opened {
        Ok(number) => {
            call.push_object(call.host().classes().socket, number.for_object(), 0);
            call.results(1)
        }
        Err(NoSocket::NoWorker) => call.results(0),
        Err(NoSocket::TooMany) => {
            Err(Misuse::text(format!("core.tcp: the thread has {MOST_SOCKETS} sockets already")))
        }
    }
}

/// The object's end.
fn collect(call: &ApiCall<'_>) -> ApiResult {
    if let Ok(number) = number(call) {
        sockets::discard(number);
    }
    call.results(0)
}

fn number(call: &ApiCall<'_>) -> Result<SocketNumber, Misuse> {
    let number = call.object(1, call.host().classes().socket);
    number.map(SocketNumber::of_object).ok_or_else(|| call.wrong_kind(1, "Socket"))
}

/// Calls `act` with the socket of the object. `None` if it was closed.
fn with<R>(
    call: &ApiCall<'_>,
    function: &str,
    act: impl FnOnce(&mut ScriptSocket) -> R,
) -> Result<Option<R>, Misuse> {
    sockets::with(number(call)?, act)
        .map_err(|OtherWorker| Misuse::text(format!("{function}: cannot use socket on other thread")))
}

fn expect_count(call: &ApiCall<'_>, count: i32, text: &'static str) -> Result<(), Misuse> {
    if call.count() == count { Ok(()) } else { Err(Misuse::text(text)) }
}

/// `connect(address [, port])`.
fn connect(call: &ApiCall<'_>, secures: bool) -> ApiResult {
    if call.count() < 2 {
        return Err(Misuse::text("connect: need at least 2 arguments"));
    }
    let socket = number(call)?;
    let text = String::from_utf8_lossy(call.expect_bytes(2)?);
    let port = if call.count() > 2 { Some(call.expect_integer(3)?) } else { None };
    let address = peer(&text, port)?;
    match with(call, "connect", |socket| socket.is_new())? {
        None => {
            call.push_nil();
            return call.results(1);
        }
        Some(false) => return Err(Misuse::text("connect: connect already performed\n")),
        Some(true) => {}
    }
    let tls = call.host().network.get().and_then(|network| network.tls.clone());
    match address {
        Some(address) if !secures => {
            call.wait(ScriptWait::Job(Box::new(ConnectJob::new(socket, address, None))))
        }
        Some(address) if tls.is_some() => {
            call.wait(ScriptWait::Job(Box::new(ConnectJob::new(socket, address, tls))))
        }
        _ => {
            call.push_nil();
            call.push_bytes(b"Can't connect");
            call.results(2)
        }
    }
}

/// The address of the far end. `None` if its port is out of range.
fn peer(text: &str, port: Option<i64>) -> Result<Option<Address>, Misuse> {
    // A port in an argument stands behind a colon, so that a text with a port of its own is an error.
    let (shown, parsed) = match port {
        Some(port) => (format!("{text}:"), format!("{text}:{}", u16::try_from(port).unwrap_or(0))),
        None => (text.to_owned(), text.to_owned()),
    };
    let Some(address) = network::address(&parsed) else {
        return Err(Misuse::text(format!("connect: cannot parse destination address '{shown}'")));
    };
    let is_missing = match port {
        Some(port) => port == -1,
        None => address.inet().is_some_and(|inet| inet.port() == 0),
    };
    if is_missing && !address.is_unix() {
        return Err(Misuse::text("connect: port missing"));
    }
    let is_in_range = port.is_none_or(|port| u16::try_from(port).is_ok());
    Ok(Some(address).filter(|_| is_in_range))
}

fn connect_ssl(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 3, "'connect_ssl' needs 3 arguments")?;
    connect(call, true)
}

/// `receive([pattern [, prefix]])`.
fn receive(call: &ApiCall<'_>) -> ApiResult {
    if !(1..=3).contains(&call.count()) {
        return Err(Misuse::text("The 'receive' function requires between 1 and 3 arguments."));
    }
    let socket = number(call)?;
    let prefix = match call.kind(3) {
        LuaKind::None => Vec::new(),
        LuaKind::String => call.expect_bytes(3)?.to_vec(),
        _ => return Err(Misuse::text("Expect a 'string' for the prefix")),
    };
    let pattern = pattern(call, prefix.len())?;
    let Some(true) = with(call, "receive", ScriptSocket::is_connected)? else {
        call.push_nil();
        call.push_bytes(CLOSED);
        return call.results(2);
    };
    if pattern == ReceivePattern::Exactly(0) {
        call.push_bytes(&prefix);
        return call.results(1);
    }
    let limit = most_received(&call.host().settings);
    call.wait(ScriptWait::Job(Box::new(ReceiveJob::new(socket, pattern, prefix, limit))))
}

/// The pattern in argument 2. As in LuaSocket, a number includes the prefix. Other types are a line, as in HAProxy.
fn pattern(call: &ApiCall<'_>, prefix: usize) -> Result<ReceivePattern, Misuse> {
    let is_number = matches!(call.kind(2), LuaKind::Integer | LuaKind::Float | LuaKind::String);
    if is_number && call.number(2).is_some() {
        let count =
            usize::try_from(call.integer(2).unwrap_or(0)).map_err(|_| Misuse::text("Unsupported size."))?;
        return Ok(ReceivePattern::Exactly(count.saturating_sub(prefix)));
    }
    match (call.kind(2), call.bytes(2)) {
        (LuaKind::String, Some(b"*a")) => Ok(ReceivePattern::All),
        (LuaKind::String, Some(pattern)) if pattern != b"*l" => Err(Misuse::text("Unsupported pattern.")),
        _ => Ok(ReceivePattern::Line),
    }
}

/// `send(data [, start [, end]])`.
fn send(call: &ApiCall<'_>) -> ApiResult {
    if !(2..=4).contains(&call.count()) {
        return Err(Misuse::text("'send' needs between 2 and 4 arguments"));
    }
    let socket = number(call)?;
    let bytes = call.expect_bytes(2)?;
    let bound = |index: i32, usual: i64| match call.count() >= index {
        true => call.expect_integer(index),
        false => Ok(usual),
    };
    let bytes = part(bytes, bound(3, 1)?, bound(4, -1)?).to_vec();
    let Some(true) = with(call, "send", ScriptSocket::is_connected)? else {
        call.push_integer(-1);
        return call.results(1);
    };
    if bytes.is_empty() {
        call.push_integer(0);
        return call.results(1);
    }
    call.wait(ScriptWait::Job(Box::new(SendJob::new(socket, bytes))))
}

/// The bytes from one position to another, as `string.sub` counts them.
fn part(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    let length = bytes.len() as i64;
    let from_start = |position: i64| {
        if position < 0 { length.saturating_add(position).saturating_add(1) } else { position }
    };
    let (start, end) = (from_start(start).max(1), from_start(end).min(length));
    if start > end { &[] } else { &bytes[start as usize - 1..end as usize] }
}

fn close(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 1, "'close' needs 1 arguments")?;
    with(call, "close", |_| ())?;
    sockets::close(number(call)?);
    call.results(0)
}

/// The address of one end, as one text.
fn name(
    call: &ApiCall<'_>,
    function: &'static str,
    address: fn(&mut ScriptSocket) -> Option<Address>,
) -> ApiResult {
    if call.count() != 1 {
        return Err(Misuse::text(format!("'{function}' needs 1 arguments")));
    }
    match with(call, function, address)?.flatten() {
        Some(address) if address.is_unix() => call.push_bytes(b"unix"),
        Some(address) => call.push_bytes(address.to_string().as_bytes()),
        None => call.push_nil(),
    }
    call.results(1)
}

/// `settimeout(seconds)`.
fn settimeout(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2, "'settimeout' needs 2 arguments")?;
    let seconds = call.number(2).ok_or_else(|| call.wrong_kind(2, "number"))?;
    if seconds < 0.0 {
        return Err(Misuse::text("settimeout: cannot set negatives values"));
    }
    if seconds * 1000.0 > f64::from(i32::MAX) {
        return Err(Misuse::text("settimeout: cannot set values larger than 2147483647 ms"));
    }
    // Not a number counts as 0.
    let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let Some(()) = with(call, "settimeout", |socket| socket.timeout = Some(timeout))? else {
        return Err(Misuse::text("socket: not yet initialised, you can't set timeouts."));
    };
    call.push_integer(1);
    call.results(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_as_in_lua() {
        let sub = |start, end| String::from_utf8_lossy(part(b"hello", start, end)).into_owned();
        let cases = [
            (1, -1, "hello"),
            (2, 3, "el"),
            (-3, -2, "ll"),
            (0, 2, "he"),
            (-9, 1, "h"),
            (4, 2, ""),
            (10, -1, ""),
            (2, 99, "ello"),
            (i64::MIN, i64::MAX, "hello"),
            (i64::MAX, i64::MIN, ""),
        ];
        for (start, end, expected) in cases {
            assert_eq!(sub(start, end), expected, "{start} {end}");
        }
        assert_eq!(part(b"", 1, -1), b"");
    }

    #[test]
    fn addresses_need_a_port() {
        let shown = |text: &str, port| match peer(text, port) {
            Ok(Some(address)) => address.to_string(),
            Ok(None) => "out of range".to_owned(),
            Err(Misuse::Text(text)) => text.into_owned(),
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(shown("127.0.0.1", Some(80)), "127.0.0.1:80");
        assert_eq!(shown("127.0.0.1:80", None), "127.0.0.1:80");
        assert_eq!(shown("::1", Some(80)), "::1:80");
        assert_eq!(shown("/run/x", None), "/run/x");
        for (port, expected) in [
            (None, "connect: port missing"),
            (Some(-1), "connect: port missing"),
            (Some(65536), "out of range"),
        ] {
            assert_eq!(shown("127.0.0.1", port), expected);
        }
        for (text, port, expected) in [
            ("127.0.0.1:80", Some(80), "127.0.0.1:80:"),
            ("localhost", Some(80), "localhost:"),
            ("", None, ""),
        ] {
            assert_eq!(shown(text, port), format!("connect: cannot parse destination address '{expected}'"));
        }
    }
}
