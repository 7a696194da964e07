//! All timeouts of streams: when each one runs, and which side is blamed when it expires.
//!
//! The first table lists single events. Their deadline is fixed: transferred bytes do not extend it. A stream waits for them with the
//! functions of [`While`], as it does for flows (below). Only a connection without a stream waits by itself: for a PROXY header and
//! between two requests.
//!
//! | awaited | timeout | starts at | on expiry |
//! |---|---|---|---|
//! | a PROXY header | `client-hs`, else `client` | the acceptance | closed, no request |
//! | a connection's first request | `http-request`, else `client` | the acceptance | 408, `cR` |
//! | a later request | `http-keep-alive`, else `http-request`, else `client` | the last response's end | closed silently |
//! | the rest of a head | `http-request`, else `client` | the acceptance, then its first byte | 408, `cR` |
//! | a body, for rules | the time of the rule, else `client` | the rule | 408, `cR` |
//! | a response's body, for rules | the time of the rule | the rule | 504, `sD` |
//! | more bytes, for rules | `inspect-delay` | the first rule | rules decide with the bytes received |
//! | more bytes of a channel, for a script | `inspect-delay` | the first rule | the script gets the bytes received |
//! | a slot | `queue`, else `connect` | entering the queue | 503, `sQ` |
//! | a connection | `connect` | the attempt | another attempt, or 503, `sC` |
//! | an agent's hello | `connect` and `server` | the connection | another attempt, or the exchange fails |
//! | an agent's answer | `server` | the messages | the exchange fails |
//! | the pause before a retry | one second, or `connect` if shorter | the failure | the retry starts |
//! | the end of a tarpit | `tarpit`, else `connect` | the rule | 500, `PT` |
//! | the end of a pause | the time of the rule | the rule | the stream continues |
//! | a client that reads the last bytes sent | two seconds | the end of the stream | closed |
//!
//! During a flow, both sides have a timeout at once ([`Deadlines`]). It runs only while the stream waits for that side to send or to
//! receive. A side that the stream does not wait for cannot time out:
//!
//! | while | `timeout client` runs while the client | `timeout server` runs while the server | restarted by | on expiry |
//! |---|---|---|---|---|
//! | waiting for the response's head | sends its body, or does not read an interim response | has the whole request, or does not read it | both: request bytes moved; client: interim response bytes sent | client: 408 or closed, `cH`; server: another attempt, or 504, `sH` |
//! | transferring bodies | sends its body, or does not read the response | has the whole request and still sends the response, or does not read the request | both: any bytes moved | `cD`, `sD`; `cL` once the server is done |
//! | sending a local reply | does not read the reply | never | reply bytes sent | `cD` |
//! | sending the bytes of a script in a rule of TCP | does not read them | never | bytes sent | closed, with the phase of the rule |
//! | bytes flow both ways (TCP, upgraded) | always: `tunnel`, else `client`; once a side has closed `client-fin` | always: `tunnel`, else `server`; then `server-fin` | bytes moved on either side of it, only received bytes with `option independent-streams` | `cD`, `sD` |
//!
//! A server may wait for the rest of the request, as weir does. The server timeout starts when the server has the whole request
//! (manual, "timeout server"), or when the client waits for the server's `100 Continue` (`Expect: 100-continue`).

use std::time::Duration;

use weir_fingerprint::Canonical;
use weir_model::Timeouts as Configured;
use weir_sched::Tick;

use crate::clock;
use crate::ending::By;

/// A timeout in whole milliseconds, or none.
///
/// A stream holds eight of these for its lifetime: four bytes each, where `Option<Duration>` takes sixteen. The configuration allows at
/// most 24 days, an expression at most 49.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Timeout(u32);

impl Timeout {
    /// No timeout.
    pub const NONE: Timeout = Timeout(u32::MAX);

    /// Rounds down to milliseconds. `None` gives [`Timeout::NONE`].
    pub fn of(duration: Option<Duration>) -> Self {
        let ms = |duration: Duration| u32::try_from(clock::milliseconds(duration)).unwrap_or(u32::MAX - 1);
        duration.map_or(Timeout::NONE, |duration| Timeout(ms(duration).min(u32::MAX - 1)))
    }

    /// The timeout as a duration. `None` without a timeout.
    pub fn duration(self) -> Option<Duration> {
        (self != Timeout::NONE).then(|| Duration::from_millis(u64::from(self.0)))
    }

    /// `self` if it is set, else `other`.
    #[inline]
    pub(crate) fn or(self, other: Timeout) -> Timeout {
        if self == Timeout::NONE { other } else { self }
    }

    /// The deadline of a timeout that starts at `begin`. [`Tick::NEVER`] without a timeout.
    #[inline]
    fn from(self, begin: Tick) -> Tick {
        if self == Timeout::NONE { Tick::NEVER } else { begin.after(u64::from(self.0)) }
    }
}

impl Default for Timeout {
    fn default() -> Self {
        Timeout::NONE
    }
}

impl std::fmt::Debug for Timeout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.duration().fmt(f)
    }
}

/// The timeouts in force, from the proxies and `set-timeout`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamTimeouts {
    /// `timeout client`.
    pub client: Timeout,
    /// `timeout server`.
    pub server: Timeout,
    /// `timeout connect`.
    pub connect: Timeout,
    /// `timeout queue`.
    pub queue: Timeout,
    /// `timeout tunnel`.
    pub tunnel: Timeout,
    /// `timeout tarpit`, else `connect`.
    pub tarpit: Timeout,
    /// `timeout client-fin`.
    pub client_fin: Timeout,
    /// `timeout server-fin`.
    pub server_fin: Timeout,
    /// A rule set `tunnel`. The backend's value is then ignored.
    tunnel_is_ruled: bool,
    /// A rule set `tarpit`. The backend's value is then ignored.
    tarpit_is_ruled: bool,
}

impl StreamTimeouts {
    /// Converts a proxy's configured timeouts to the compact form of streams.
    pub fn of_proxy(configured: &Configured) -> Self {
        StreamTimeouts {
            client: Timeout::of(configured.client),
            server: Timeout::of(configured.server),
            connect: Timeout::of(configured.connect),
            queue: Timeout::of(configured.queue),
            tunnel: Timeout::of(configured.tunnel),
            tarpit: Timeout::of(configured.tarpit.or(configured.connect)),
            client_fin: Timeout::of(configured.client_fin),
            server_fin: Timeout::of(configured.server_fin),
            tunnel_is_ruled: false,
            tarpit_is_ruled: false,
        }
    }

    /// Converts back to the form of a proxy's configuration.
    pub(crate) fn configured(&self) -> Configured {
        Configured {
            client: self.client.duration(),
            server: self.server.duration(),
            connect: self.connect.duration(),
            queue: self.queue.duration(),
            tunnel: self.tunnel.duration(),
            tarpit: self.tarpit.duration(),
            client_fin: self.client_fin.duration(),
            server_fin: self.server_fin.duration(),
            ..Configured::default()
        }
    }

    /// A frontend's timeouts, until a backend is chosen.
    #[inline]
    pub(crate) fn of_frontend(frontend: &StreamTimeouts) -> Self {
        let none = Timeout::NONE;
        StreamTimeouts { server: none, connect: none, queue: none, server_fin: none, ..*frontend }
    }

    /// Drops the server timeouts set by rules of a `listen` section, because the stream goes to another backend (manual, "set-timeout").
    pub(crate) fn leave_section(&mut self, frontend: &StreamTimeouts) {
        let StreamTimeouts { client, tarpit, tarpit_is_ruled, .. } = *self;
        *self = StreamTimeouts { client, tarpit, tarpit_is_ruled, ..StreamTimeouts::of_frontend(frontend) };
    }

    /// Adds the timeouts of the chosen backend. Its values of `tunnel` and `tarpit` win, unless a rule set them.
    pub(crate) fn enter_backend(&mut self, backend: &StreamTimeouts) {
        self.server = self.server.or(backend.server);
        self.connect = self.connect.or(backend.connect);
        self.queue = self.queue.or(backend.queue);
        self.server_fin = self.server_fin.or(backend.server_fin);
        if !self.tunnel_is_ruled {
            self.tunnel = backend.tunnel.or(self.tunnel);
        }
        if !self.tarpit_is_ruled {
            self.tarpit = backend.tarpit.or(self.tarpit);
        }
    }

    /// `set-timeout`. Zero disables the timeout.
    pub(crate) fn set_by_rule(&mut self, timeout: TimeoutName, value: Duration) {
        let value = Timeout::of(Some(value).filter(|value| !value.is_zero()));
        match timeout {
            TimeoutName::Client => self.client = value,
            TimeoutName::Connect => self.connect = value,
            TimeoutName::Queue => self.queue = value,
            TimeoutName::Server => self.server = value,
            TimeoutName::Tarpit => (self.tarpit, self.tarpit_is_ruled) = (value, true),
            TimeoutName::Tunnel => (self.tunnel, self.tunnel_is_ruled) = (value, true),
        }
    }
}

/// The timeouts that `set-timeout` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub(crate) enum TimeoutName {
    Client,
    Connect,
    Queue,
    Server,
    Tarpit,
    Tunnel,
}

/// The timeout of a client's handshakes.
pub(crate) fn handshake(configured: &Configured) -> Option<Duration> {
    configured.client_handshake.or(configured.client)
}

/// The timeout until the first byte of the next request, on a connection with `requests` earlier requests.
pub(crate) fn next_request(configured: &Configured, requests: u32) -> Option<Duration> {
    let waits_again = configured.http_keep_alive.filter(|_| requests > 0);
    waits_again.or(request_head(configured))
}

/// The timeout of a request's head.
fn request_head(configured: &Configured) -> Option<Duration> {
    configured.http_request.or(configured.client)
}

/// The phase of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum While {
    /// Waiting for the response's head. The request may still be sent.
    Response,
    /// Bodies flow, or a reply is sent.
    Bodies,
    /// Bytes flow both ways until a side closes.
    Tunnel,
    /// Like `Tunnel`, with `option independent-streams`.
    IndependentTunnel,
    /// A single event on one side, with a fixed deadline. The other side cannot time out.
    Once { client: Tick, server: Tick },
}

impl While {
    /// Waits for the rest of a request's head. The timeout of a connection's first request starts at `began`, that of later ones at `now`
    /// (the first byte).
    pub(crate) fn head(configured: &Configured, began: Tick, requests: u32, now: Tick) -> Self {
        let from = if requests == 0 { began } else { now };
        While::client(Timeout::of(request_head(configured)), from)
    }

    /// Waits for a request's body. `time` is the rule's own timeout, if set.
    pub(crate) fn body(timeouts: &StreamTimeouts, time: Option<Duration>, now: Tick) -> Self {
        While::client(Timeout::of(time).or(timeouts.client), now)
    }

    /// Waits for a response's body.
    pub(crate) fn response_body(time: Duration, now: Tick) -> Self {
        While::server(Timeout::of(Some(time)), now)
    }

    /// Waits for a slot of a server.
    pub(crate) fn slot(timeouts: &StreamTimeouts, now: Tick) -> Self {
        While::server(timeouts.queue.or(timeouts.connect), now)
    }

    /// Waits for a connection to a server.
    pub(crate) fn connection(timeouts: &StreamTimeouts, now: Tick) -> Self {
        While::server(timeouts.connect, now)
    }

    /// Waits for an agent's hello.
    pub(crate) fn greeting(timeouts: &StreamTimeouts, now: Tick) -> Self {
        let (connect, server) = (timeouts.connect.from(now), timeouts.server.from(now));
        While::Once { client: Tick::NEVER, server: connect.min(server) }
    }

    /// Waits for an agent's answer.
    pub(crate) fn acknowledgement(timeouts: &StreamTimeouts, now: Tick) -> Self {
        While::server(timeouts.server, now)
    }

    /// Waits for the end of a tarpit. Without a timeout it ends immediately.
    pub(crate) fn tarpit(timeouts: &StreamTimeouts, now: Tick) -> Self {
        While::pause(timeouts.tarpit.duration().unwrap_or_default(), now)
    }

    /// A pause, for which no side is blamed.
    pub(crate) fn pause(time: Duration, now: Tick) -> Self {
        While::client(Timeout::of(Some(time)), now)
    }

    /// Waits for more bytes until the deadline `at`.
    pub(crate) fn until(at: Tick) -> Self {
        While::Once { client: at, server: Tick::NEVER }
    }

    /// Waits for the client until `timeout` after `from`.
    pub(crate) fn client(timeout: Timeout, from: Tick) -> Self {
        While::Once { client: timeout.from(from), server: Tick::NEVER }
    }

    fn server(timeout: Timeout, from: Tick) -> Self {
        While::Once { client: Tick::NEVER, server: timeout.from(from) }
    }

    fn is_tunnel(self) -> bool {
        matches!(self, While::Tunnel | While::IndependentTunnel)
    }

    /// The transfers that restart the client's timeout, and those that restart the server's: the table above, as bits of [`SideBytes`].
    const fn renewals(self) -> (u8, u8) {
        use SideBytes as P;
        match self {
            While::Response => (P::FROM_CLIENT | P::TO_CLIENT | P::TO_SERVER, P::FROM_CLIENT | P::TO_SERVER),
            While::Bodies => (P::ANY, P::ANY),
            While::Tunnel => (P::FROM_CLIENT | P::TO_CLIENT, P::FROM_SERVER | P::TO_SERVER),
            While::IndependentTunnel => (P::FROM_CLIENT, P::FROM_SERVER),
            While::Once { .. } => (0, 0),
        }
    }
}

/// The events that a stream waits for, once no more bytes can be moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) client_sends: bool,
    /// The client receives pending bytes.
    pub(crate) client_takes: bool,
    pub(crate) server_sends: bool,
    /// The server receives pending bytes.
    pub(crate) server_takes: bool,
    /// A filter holds bytes back. Meanwhile neither side can time out.
    pub(crate) withheld: bool,
    /// Other tasks run first, although more bytes can be moved immediately.
    pub(crate) yields: bool,
}

impl Waits {
    /// For single events.
    pub(crate) const ONCE: Waits = Waits {
        client_sends: true,
        client_takes: false,
        server_sends: true,
        server_takes: false,
        withheld: false,
        yields: false,
    };
}

/// Byte counts on both sides of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SideBytes {
    pub(crate) from_client: u64,
    pub(crate) to_client: u64,
    pub(crate) from_server: u64,
    pub(crate) to_server: u64,
}

impl SideBytes {
    const FROM_CLIENT: u8 = 1;
    const TO_CLIENT: u8 = 2;
    const FROM_SERVER: u8 = 4;
    const TO_SERVER: u8 = 8;
    const ANY: u8 = 15;

    /// Which counts differ from `before`.
    #[inline]
    fn since(&self, before: &SideBytes) -> u8 {
        u8::from(self.from_client != before.from_client)
            | u8::from(self.to_client != before.to_client) << 1
            | u8::from(self.from_server != before.from_server) << 2
            | u8::from(self.to_server != before.to_server) << 3
    }
}

/// The deadline of each side.
#[derive(Debug)]
pub(crate) struct Deadlines {
    /// The transfers that restart the client's timeout, and those that restart the server's.
    renewals: (u8, u8),
    is_tunnel: bool,
    client: SideDeadline,
    server: SideDeadline,
    last: SideBytes,
}

#[derive(Clone, Copy, Debug)]
struct SideDeadline {
    timeout: Timeout,
    at: Tick,
}

impl SideDeadline {
    fn new(timeout: Timeout, now: Tick) -> Self {
        SideDeadline { timeout, at: timeout.from(now) }
    }

    fn until(at: Tick) -> Self {
        SideDeadline { timeout: Timeout::NONE, at }
    }

    #[inline]
    fn begin_anew(&mut self, now: Tick) {
        self.at = self.timeout.from(now);
    }

    /// Restarts with `timeout`, unless it is [`Timeout::NONE`].
    fn replace(&mut self, timeout: Timeout, now: Tick) {
        if timeout != Timeout::NONE {
            *self = SideDeadline::new(timeout, now);
        }
    }
}

impl Deadlines {
    /// Starts both timeouts at `now`. `progress` holds the byte counts so far.
    pub(crate) fn new(during: While, timeouts: &StreamTimeouts, progress: SideBytes, now: Tick) -> Self {
        // In a tunnel, `timeout tunnel` replaces the timeouts of both sides (manual, "timeout tunnel").
        let is_tunnel = during.is_tunnel();
        let tunnel = if is_tunnel { timeouts.tunnel } else { Timeout::NONE };
        let (client, server) = match during {
            While::Once { client, server } => (SideDeadline::until(client), SideDeadline::until(server)),
            _ => (
                SideDeadline::new(tunnel.or(timeouts.client), now),
                SideDeadline::new(tunnel.or(timeouts.server), now),
            ),
        };
        Deadlines { renewals: during.renewals(), is_tunnel, client, server, last: progress }
    }

    /// Updates the byte counts and restarts timeouts. Returns whether any bytes moved.
    #[inline]
    pub(crate) fn advance(&mut self, progress: SideBytes, now: Tick) -> bool {
        let moved = progress.since(&self.last);
        if moved == 0 {
            return false;
        }
        self.last = progress;
        let (client, server) = self.renewals;
        if moved & client != 0 {
            self.client.begin_anew(now);
        }
        if moved & server != 0 {
            self.server.begin_anew(now);
        }
        true
    }

    /// Restarts the timeouts of both sides. The fixed deadline of a single event stays.
    pub(crate) fn begin_anew(&mut self, now: Tick) {
        if self.renewals == (0, 0) {
            return;
        }
        self.client.begin_anew(now);
        self.server.begin_anew(now);
    }

    /// Starts the server's timeout: the server has received all that it needs to respond.
    pub(crate) fn server_begins(&mut self, now: Tick) {
        self.server.begin_anew(now);
    }

    /// Switches a tunnel to `client-fin` and `server-fin` after a half-close.
    pub(crate) fn half_closed(&mut self, timeouts: &StreamTimeouts, now: Tick) {
        self.client.replace(timeouts.client_fin, now);
        self.server.replace(timeouts.server_fin, now);
    }

    /// The side to blame if a side in `waits` has passed its deadline.
    #[inline]
    pub(crate) fn passed(&self, waits: &Waits, now: Tick) -> Option<By> {
        let late = |side: &SideDeadline, awaited: bool| awaited && side.at <= now;
        let client = late(&self.client, waits.client_sends || waits.client_takes);
        let server = late(&self.server, waits.server_sends || waits.server_takes);
        match (client, server) {
            (false, false) => None,
            (true, false) => Some(By::ClientTimeout),
            (false, true) => Some(By::ServerTimeout),
            // In a tunnel where both sides time out, the client is blamed.
            (true, true) if self.is_tunnel => Some(By::ClientTimeout),
            (true, true) => Some(By::ServerTimeout),
        }
    }

    /// The earliest deadline of the sides in `waits`.
    #[inline]
    pub(crate) fn next(&self, waits: &Waits) -> Tick {
        let of = |side: &SideDeadline, awaited: bool| if awaited { side.at } else { Tick::NEVER };
        let client = of(&self.client, waits.client_sends || waits.client_takes);
        client.min(of(&self.server, waits.server_sends || waits.server_takes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: u64 = 10_000;
    const TUNNEL: While = While::Tunnel;
    const INDEPENDENT: While = While::IndependentTunnel;

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    fn limit(ms: u64) -> Timeout {
        Timeout::of(Some(Duration::from_millis(ms)))
    }

    /// Client and server timeouts differ, so that tests show which one runs.
    fn timeouts() -> StreamTimeouts {
        StreamTimeouts { client: limit(100), server: limit(300), ..StreamTimeouts::default() }
    }

    #[test]
    fn backends_override_tunnel_and_tarpit_timeouts_unless_a_rule_set_them() {
        let backend = Configured { tunnel: ms(7), tarpit: ms(8), server: ms(9), ..Configured::default() };
        let backend = StreamTimeouts::of_proxy(&backend);
        let mut chosen = StreamTimeouts {
            tunnel: limit(1),
            tarpit: limit(2),
            server: limit(3),
            ..StreamTimeouts::default()
        };
        chosen.enter_backend(&backend);
        assert_eq!((chosen.tunnel, chosen.tarpit, chosen.server), (limit(7), limit(8), limit(3)));
        let mut ruled = StreamTimeouts::default();
        ruled.set_by_rule(TimeoutName::Tunnel, Duration::from_millis(4));
        ruled.set_by_rule(TimeoutName::Tarpit, Duration::ZERO);
        ruled.enter_backend(&backend);
        assert_eq!((ruled.tunnel, ruled.tarpit, ruled.server), (limit(4), Timeout::NONE, limit(9)));
    }

    #[test]
    fn server_timeouts_of_a_frontend_do_not_apply_in_its_backend() {
        let listen =
            StreamTimeouts::of_proxy(&Configured { tunnel: ms(6), tarpit: ms(5), ..Configured::default() });
        let backend =
            StreamTimeouts::of_proxy(&Configured { server: ms(9), queue: ms(8), ..Configured::default() });
        let mut chosen = StreamTimeouts::of_frontend(&listen);
        for name in [
            TimeoutName::Client,
            TimeoutName::Connect,
            TimeoutName::Queue,
            TimeoutName::Server,
            TimeoutName::Tarpit,
            TimeoutName::Tunnel,
        ] {
            chosen.set_by_rule(name, Duration::from_millis(1));
        }
        chosen.leave_section(&listen);
        chosen.enter_backend(&backend);
        assert_eq!((chosen.client, chosen.tarpit), (limit(1), limit(1)));
        assert_eq!((chosen.server, chosen.queue, chosen.tunnel), (limit(9), limit(8), limit(6)));
        assert_eq!(chosen.connect, Timeout::NONE);
    }

    fn waits(letters: &str) -> Waits {
        Waits {
            client_sends: letters.contains("cs"),
            client_takes: letters.contains("ct"),
            server_sends: letters.contains("ss"),
            server_takes: letters.contains("st"),
            withheld: false,
            yields: false,
        }
    }

    /// Parses transfers: `c>` from the client, `>c` to the client, `s>` from the server, `>s` to the server.
    fn moved(word: &str) -> SideBytes {
        let of = |way: &str| u64::from(word.contains(way));
        SideBytes { from_client: of("c>"), to_client: of(">c"), from_server: of("s>"), to_server: of(">s") }
    }

    /// Checks which side times out, and when, if bytes move 40 ms after the start and never again.
    #[track_caller]
    fn check(during: While, timeouts: &StreamTimeouts, moves: &str, awaits: &str, want: Option<(By, u64)>) {
        let at = |ms: u64| Tick::from_ms(T0 + ms);
        let mut deadlines = Deadlines::new(during, timeouts, SideBytes::default(), at(0));
        assert_eq!(deadlines.advance(moved(moves), at(40)), !moves.is_empty());
        let waits = waits(awaits);
        let next = deadlines.next(&waits);
        let Some((by, after)) = want else {
            assert_eq!((next, deadlines.passed(&waits, at(1 << 40))), (Tick::NEVER, None));
            return;
        };
        assert_eq!(next, at(after), "{during:?} {moves} {awaits}");
        assert_eq!(deadlines.passed(&waits, at(after - 1)), None);
        assert_eq!(deadlines.passed(&waits, at(after)), Some(by), "{during:?} {moves} {awaits}");
    }

    #[test]
    fn only_a_side_that_is_awaited_can_time_out() {
        let (client, server) = (By::ClientTimeout, By::ServerTimeout);
        for during in [While::Response, While::Bodies, TUNNEL, INDEPENDENT] {
            check(during, &timeouts(), "", "cs", Some((client, 100)));
            check(during, &timeouts(), "", "ct", Some((client, 100)));
            check(during, &timeouts(), "", "ss", Some((server, 300)));
            check(during, &timeouts(), "", "st", Some((server, 300)));
            check(during, &timeouts(), "", "cs ct ss st", Some((client, 100)));
            check(during, &timeouts(), "", "", None);
            check(during, &StreamTimeouts::default(), "", "cs ct ss st", None);
        }
    }

    #[test]
    fn transferred_bytes_restart_the_documented_timeouts() {
        // The client's timeout, then the server's: 100 and 300 ms, restarted at 40 or not.
        for (during, moves, client, server) in [
            (While::Response, "c>", 140, 340),
            (While::Response, ">s", 140, 340),
            (While::Response, ">c", 140, 300),
            (While::Response, "s>", 100, 300),
            (While::Bodies, "c>", 140, 340),
            (While::Bodies, ">s", 140, 340),
            (While::Bodies, ">c", 140, 340),
            (While::Bodies, "s>", 140, 340),
            (TUNNEL, "c>", 140, 300),
            (TUNNEL, ">c", 140, 300),
            (TUNNEL, "s>", 100, 340),
            (TUNNEL, ">s", 100, 340),
            (TUNNEL, "c> >s", 140, 340),
            (INDEPENDENT, "c>", 140, 300),
            (INDEPENDENT, ">c", 100, 300),
            (INDEPENDENT, "s>", 100, 340),
            (INDEPENDENT, ">s", 100, 300),
            (INDEPENDENT, "c> >s", 140, 300),
        ] {
            check(during, &timeouts(), moves, "cs", Some((By::ClientTimeout, client)));
            check(during, &timeouts(), moves, "ss", Some((By::ServerTimeout, server)));
        }
    }

    #[test]
    fn a_tunnel_timeout_is_attributed_to_the_client_first() {
        let timeouts = StreamTimeouts { tunnel: limit(500), ..timeouts() };
        check(TUNNEL, &timeouts, "", "cs ss", Some((By::ClientTimeout, 500)));
        check(TUNNEL, &timeouts, "", "ss", Some((By::ServerTimeout, 500)));
        check(While::Bodies, &timeouts, "", "cs", Some((By::ClientTimeout, 100)));
        let equal = StreamTimeouts { client: limit(200), server: limit(200), ..StreamTimeouts::default() };
        check(TUNNEL, &equal, "", "cs ss", Some((By::ClientTimeout, 200)));
        check(While::Bodies, &equal, "", "ct st", Some((By::ServerTimeout, 200)));
    }

    #[test]
    fn a_half_closed_tunnel_uses_client_fin_and_server_fin_timeouts() {
        let at = |ms: u64| Tick::from_ms(T0 + ms);
        for (client_fin, server_fin, want) in [
            (limit(20), limit(30), (60, 70)),
            (limit(20), Timeout::NONE, (60, 300)),
            (Timeout::NONE, limit(30), (100, 70)),
            (Timeout::NONE, Timeout::NONE, (100, 300)),
        ] {
            let timeouts = StreamTimeouts { client_fin, server_fin, ..timeouts() };
            let mut deadlines = Deadlines::new(TUNNEL, &timeouts, SideBytes::default(), at(0));
            deadlines.half_closed(&timeouts, at(40));
            assert_eq!(deadlines.next(&waits("cs")), at(want.0));
            assert_eq!(deadlines.next(&waits("st")), at(want.1));
        }
    }

    #[test]
    fn timeout_server_starts_when_the_request_is_sent() {
        let at = |ms: u64| Tick::from_ms(T0 + ms);
        let mut deadlines = Deadlines::new(While::Response, &timeouts(), SideBytes::default(), at(0));
        deadlines.server_begins(at(200));
        assert_eq!(deadlines.next(&waits("ss")), at(500));
    }

    #[test]
    fn each_single_wait_uses_its_documented_timeout() {
        let all = Configured {
            client: ms(1),
            http_request: ms(2),
            http_keep_alive: ms(3),
            client_handshake: ms(4),
            queue: ms(5),
            connect: ms(6),
            tarpit: ms(7),
            ..Configured::default()
        };
        let only_client = Configured { client: ms(1), ..Configured::default() };
        let no_keep_alive = Configured { http_keep_alive: None, ..all };
        assert_eq!((handshake(&all), handshake(&only_client)), (ms(4), ms(1)));
        for (configured, first, next) in
            [(&all, ms(2), ms(3)), (&no_keep_alive, ms(2), ms(2)), (&only_client, ms(1), ms(1))]
        {
            assert_eq!((next_request(configured, 0), next_request(configured, 1)), (first, next));
        }
        let now = Tick::from_ms(T0);
        let (client, server) = (By::ClientTimeout, By::ServerTimeout);
        let once = |during: While, want: Option<(By, u64)>| {
            check(during, &StreamTimeouts::default(), "", "cs ss", want);
            // Movements do not extend a fixed deadline.
            let mut deadlines = Deadlines::new(during, &timeouts(), SideBytes::default(), now);
            assert!(deadlines.advance(moved("c> >c s> >s"), Tick::from_ms(T0 + 40)));
            let at = want.map_or(Tick::NEVER, |(_, after)| Tick::from_ms(T0 + after));
            assert_eq!(deadlines.next(&Waits::ONCE), at);
        };
        let early = Tick::from_ms(T0 - 1);
        let until_now = Tick::from_ms(T0 + 1);
        assert_eq!(While::head(&all, early, 0, now), While::until(until_now), "from the acceptance");
        once(While::head(&all, early, 1, now), Some((client, 2)));
        once(While::head(&only_client, early, 1, now), Some((client, 1)));
        once(While::head(&Configured::default(), early, 0, now), None);
        let queue = |queue, connect| While::slot(&StreamTimeouts { queue, connect, ..timeouts() }, now);
        once(queue(limit(5), limit(6)), Some((server, 5)));
        once(queue(Timeout::NONE, limit(6)), Some((server, 6)));
        once(queue(Timeout::NONE, Timeout::NONE), None);
        let connect =
            |connect| While::connection(&StreamTimeouts { connect, queue: limit(5), ..timeouts() }, now);
        once(connect(limit(6)), Some((server, 6)));
        once(connect(Timeout::NONE), None);
        once(While::body(&timeouts(), ms(9), now), Some((client, 9)));
        once(While::body(&timeouts(), None, now), Some((client, 100)));
        once(While::response_body(Duration::from_millis(8), now), Some((server, 8)));
        let tarpit = |tarpit| While::tarpit(&StreamTimeouts { tarpit, ..timeouts() }, now);
        once(tarpit(limit(7)), Some((client, 7)));
        assert_eq!(tarpit(Timeout::NONE), While::until(now));
        once(While::pause(Duration::from_millis(9), now), Some((client, 9)));
        assert_eq!(StreamTimeouts::of_proxy(&all).tarpit, limit(7));
        assert_eq!(StreamTimeouts::of_proxy(&Configured { tarpit: None, ..all }).tarpit, limit(6));
    }

    #[test]
    fn stores_timeouts_in_whole_milliseconds() {
        assert_eq!((Timeout::of(None), Timeout::of(None).duration()), (Timeout::NONE, None));
        for shown in [0, 1, 5000, u64::from(u32::MAX) - 1] {
            assert_eq!(limit(shown).duration(), ms(shown));
        }
        let rounded = Timeout::of(Some(Duration::from_micros(1999)));
        assert_eq!(rounded, limit(1));
        for long in [Duration::from_millis(u64::from(u32::MAX)), Duration::MAX] {
            assert_eq!(Timeout::of(Some(long)), limit(u64::from(u32::MAX) - 1));
        }
        let frontend = StreamTimeouts {
            client: limit(1),
            server: limit(2),
            connect: limit(3),
            queue: limit(4),
            server_fin: limit(5),
            client_fin: limit(6),
            ..StreamTimeouts::default()
        };
        let begun = StreamTimeouts::of_frontend(&frontend);
        assert_eq!([begun.client, begun.client_fin], [limit(1), limit(6)]);
        assert_eq!([begun.server, begun.connect, begun.queue, begun.server_fin], [Timeout::NONE; 4]);
    }
}
