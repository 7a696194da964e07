//! Connects to the leased server: reuses an idle connection if `http-reuse` allows it, else opens a new one.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use weir_backend::{ConnectionKeys, ConnectionParts, ReuseScope, ServerAddress};
use weir_containers::PooledFuture;
use weir_expr::scratch::Scratch;
use weir_model::{Protocol, RetryOn, SendProxy, ServerSettings, ServerTls};
use weir_mux::StreamConnector;
use weir_mux::trace::TracedStream;
use weir_net::{ConnectTarget, Connecting, Connection, ConnectionFault, Greeting};
use weir_sys::Address;

use super::retry::AttemptFailure;
use super::shared::FirstUse;
use super::{agents, applications, idle, pending, shared};
use crate::counters::CountedEvent;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During};
use crate::fastcgi;
use crate::instance::KnownServer;
use crate::recycle::Loan;
use crate::stream::engines;
use crate::stream::phases::ServerPhase;
use crate::stream::rule_state::{RefusingOption, StoppedBy};
use crate::stream::server_side::PacketMarks;
use crate::stream::{Stream, StreamError};
use crate::upstream::Upstream;
use weir_vocabulary::past::PastConnection;

/// Why a connection could not be established.
#[derive(Debug)]
pub enum ServerConnectError {
    /// The attempt failed. A retry is possible.
    Failed(AttemptFailure),
    Stop(StreamError),
}

impl ServerConnectError {
    fn fault(&self) -> Option<ConnectionFault> {
        match self {
            ServerConnectError::Failed(AttemptFailure::Refused(fault)) => *fault,
            _ => None,
        }
    }
}

impl From<StreamError> for ServerConnectError {
    fn from(stop: StreamError) -> Self {
        ServerConnectError::Stop(stop)
    }
}

impl From<ConnectionFault> for ServerConnectError {
    fn from(fault: ConnectionFault) -> Self {
        ServerConnectError::Failed(AttemptFailure::Refused(Some(fault)))
    }
}

impl ServerPhase {
    /// Gets a connection to the leased server: an idle one that may carry this request (the client's own, this worker's, or another
    /// worker's), or a new one.
    pub(super) async fn connect(&mut self) -> Result<(), ServerConnectError> {
        if self.stream.attached.is_none() || !engines::is_warming(&self.stream) {
            self.stream.counts().count_server_session();
        }
        if fastcgi::needs_length(&self.stream) && self.carriage() == Carriage::Application {
            return Err(refuse_unknown_length(&mut self.stream).into());
        }
        let identity = self.connection_identity();
        let is_exchange = self.stream.backend.is_spop();
        if (self.stream.request.is_known() || is_exchange) && !self.stream.attempts.fresh_connection_only {
            let scope = self.take_idle_connection(identity.key);
            if self.stream.server.upstream.is_none()
                && !is_exchange
                && let Some(scope) = scope
                && self.stream.frontend.instance().process_counters.len() > 1
            {
                self.stream.server.upstream =
                    PooledFuture::new(idle::take_over(&self.stream, identity.key, scope)).await;
            }
        }
        let carriage = self.carriage();
        if self.stream.server.upstream.is_none() && shares_new_connections(&self.stream, carriage) {
            PooledFuture::new(self.join_connection(carriage, identity.key, identity.private)).await?;
        }
        self.stream.attempts.on_reused_connection = self.stream.server.upstream.is_some();
        self.stream.trace().trace_connection(self.stream.attempts.on_reused_connection);
        if self.stream.attempts.on_reused_connection {
            self.stream.counts().count(CountedEvent::Reuse);
        } else {
            self.stream.server.upstream =
                Some(PooledFuture::new(self.connect_anew(carriage, identity)).await?);
        }
        let serial = self.stream.trace().serial();
        if let Some(upstream) = &mut self.stream.server.upstream {
            upstream.connector.identify(serial);
        }
        if self.stream.server.upstream.as_ref().is_some_and(|upstream| upstream.connector.shared().is_some())
            && self.upgrades_protocol()
        {
            PooledFuture::new(self.await_consent()).await?;
        }
        Ok(())
    }

    /// How the leased server's connections carry streams, as far as the configuration says. Known without a look at the server once the
    /// stream has a connection.
    fn carriage(&self) -> Carriage {
        if self.stream.server.upstream.is_some() {
            return Carriage::Negotiated;
        }
        if self.stream.backend.is_spop() {
            return Carriage::Agent;
        }
        let forced = self.known_server().and_then(|known| known.settings.protocol);
        match forced {
            Some(Protocol::H2) if self.stream.backend.is_http() => Carriage::Http2,
            Some(Protocol::Fcgi) => Carriage::Application,
            _ => Carriage::Negotiated,
        }
    }

    /// Joins a connection that is being established, if this request may share it. If it cannot carry another stream, the request opens its
    /// own connection.
    async fn join_connection(
        &mut self,
        carriage: Carriage,
        key: u64,
        private: bool,
    ) -> Result<(), ServerConnectError> {
        let may_share = !private
            && !self.stream.attempts.fresh_connection_only
            && self.websocket_protocol().is_none()
            && idle::usable(&self.stream) == Some(ReuseScope::Any);
        let server = self.stream.server.lease.as_ref().map(|lease| lease.server().key());
        let (true, Some(server)) = (may_share, server) else { return Ok(()) };
        let Some(number) = pending::join(self.stream.backend.index, server, key) else { return Ok(()) };
        // An agent that accepts and says nothing must not hold up all exchanges: after a moment each opens its own connection.
        let during = match carriage == Carriage::Agent {
            true => While::pause(PATIENCE, weir_sched::now()),
            false => While::connection(&self.stream.timeouts, weir_sched::now()),
        };
        self.stream
            .drive(
                during,
                |stream, _| {
                    if pending::is_there(number) {
                        return Ok(DriveStep::Done(()));
                    }
                    if stream.client_left() {
                        return Err(StreamError::close(By::Client, During::Connect).into());
                    }
                    Ok(DriveStep::Wait(Waits::ONCE))
                },
                |stream, _, _| match stream.backend.is_spop() {
                    true => Ok(()),
                    false => Err(ServerConnectError::Failed(AttemptFailure::ConnectTimeout)),
                },
            )
            .await?;
        self.stream.server.upstream = shared::take(&self.stream, key, ReuseScope::Any);
        Ok(())
    }

    /// Takes an idle connection of this worker. Without one, returns the scope for connections of other workers.
    fn take_idle_connection(&mut self, key: u64) -> Option<ReuseScope> {
        self.stream.server.upstream = idle::take_own(&self.stream, key);
        if self.stream.server.upstream.is_some() {
            return None;
        }
        let scope = idle::usable(&self.stream)?;
        self.stream.server.upstream =
            idle::take(&self.stream, key, scope).or_else(|| match self.websocket_protocol() {
                Some(Protocol::H1) => None,
                _ => shared::take(&self.stream, key, scope),
            });
        Some(scope)
    }

    /// The properties that two requests must share to use the same connection (manual, "http-reuse").
    fn connection_identity(&mut self) -> ConnectionTraits {
        let known = self.known_server();
        let settings = known.as_ref().map(|known| &known.settings);
        let transparent = self.stream.backend.is_transparent();
        let marks = self.stream.server.marks();
        let says_something = |settings: &ServerSettings| {
            settings.send_proxy.is_some() || settings.pool_connection_name.is_some() || settings.tls.is_some()
        };
        if !transparent
            && self.source_said(known.as_ref()).is_none()
            && !settings.is_some_and(says_something)
            && marks == PacketMarks::default()
            && !self.destination_varies()
        {
            let (header, key) = (crate::recycle::bytes(), engines::connection_key(&self.stream));
            return ConnectionTraits { key, private: false, header, server_name: None };
        }
        special_identity(&mut self.stream, transparent, marks)
    }

    /// The SNI for the server: the value of `sni`, else the request's host.
    fn server_name(&mut self, tls: &ServerTls) -> Option<Scratch> {
        self.server_tls()?;
        if let Some(name) = &tls.server_name {
            return self.stream.evaluate_string(name);
        }
        if tls.no_automatic_name || !self.stream.backend.is_http() {
            return None;
        }
        let message = &self.stream.request.message;
        let host = message.head.find(message.bytes(), b"host", 1)?;
        weir_tls::host_name(host).map(Scratch::copied)
    }

    fn destination_varies(&self) -> bool {
        self.stream.server.lease.as_ref().is_some_and(|lease| lease.server().destination_varies())
    }

    async fn connect_anew(
        &mut self,
        carriage: Carriage,
        identity: ConnectionTraits,
    ) -> Result<Upstream, ServerConnectError> {
        let place = match idle::strict_server(&self.stream) {
            Some(server) => Some(PooledFuture::new(idle::place(server)).await?),
            None => None,
        };
        let mut connecting = self.begin_to_connect().await?;
        if let Some(place) = place {
            connecting.accompany(place);
        }
        self.stream.counts().count(CountedEvent::Connect);
        idle::opened(&self.stream, connecting.descriptor());
        let in_use = idle::begin_use(&self.stream);
        let ConnectionTraits { key, private, header, server_name } = identity;
        let required = self.websocket_protocol();
        let on_its_way = self.announces(carriage, required, key, private);
        // In TCP mode the server may speak first, so the PROXY header must not wait for more bytes.
        let more = self.stream.backend.is_http() || !self.stream.client.input().is_empty();
        let greeting = Greeting { bytes: &header, more };
        let tls = self.server_tls();
        let may_be_early =
            tls.is_some() && carriage == Carriage::Negotiated && self.may_be_sent_early(required);
        let (mut first, mut secures) = (true, false);
        let stands = self
            .stream
            .drive(
                While::connection(&self.stream.timeouts, weir_sched::now()),
                |stream, _| {
                    if !secures && connecting.advance(greeting)? {
                        let Some(tls) = &tls else { return Ok(DriveStep::Done(())) };
                        let name = server_name.as_ref().map(|name| name.as_slice());
                        let session = if may_be_early {
                            tls.early_session(name)
                        } else {
                            tls.session(name, required.map(alpn_of))
                        };
                        connecting.begin_tls(session.map_err(ConnectionFault::Tls)?);
                        secures = true;
                    }
                    if secures {
                        let made = connecting.advance_tls();
                        if !matches!(made, Ok(false)) {
                            stream.counts().count_server_handshake(made.ok().and(connecting.tls()));
                        }
                        if made? {
                            return Ok(DriveStep::Done(()));
                        }
                    }
                    // Most connections are established at the second check. A client that has sent everything and then FIN still gets a
                    // response.
                    if !std::mem::take(&mut first) && stream.client_left() {
                        return Err(StreamError::close(By::Client, During::Connect).into());
                    }
                    Ok(DriveStep::Wait(Waits::ONCE))
                },
                |_, _, _| Err(ServerConnectError::Failed(AttemptFailure::ConnectTimeout)),
            )
            .await;
        connecting.end_tls();
        let connection = connecting.into_connection();
        let first = FirstUse { key, private, in_use };
        if stands.is_ok() && matches!(carriage, Carriage::Agent | Carriage::Application) {
            let begun = match carriage {
                Carriage::Agent => {
                    PooledFuture::new(agents::greet(&mut self.stream, connection, first)).await
                }
                _ => PooledFuture::new(applications::begin(&mut self.stream, connection, first)).await,
            };
            drop(on_its_way);
            return begun;
        }
        if stands.is_ok() && self.speaks_http2(required, &connection) {
            return Ok(shared::open(&self.stream, connection, first));
        }
        self.stream.attempts.sent_early = stands.is_ok() && connection.tls().is_some_and(|facts| facts.early);
        let connector = StreamConnector::own(connection);
        if let Err(error) = stands {
            let past = PastConnection::of(&connector, false, false);
            self.stream.server.keep_facts(PastConnection { fault: past.fault.or(error.fault()), ..past });
            return Err(error);
        }
        Ok(Upstream { connector, ..first.upstream() })
    }

    /// Whether the request may be sent as early data, which an attacker can replay (manual, "allow-0rtt" of servers). Allowed if the
    /// client's own request was early data, or if it may be retried and its method is safe (RFC 8470, 4). Never with a body.
    fn may_be_sent_early(&self, required: Option<Protocol>) -> bool {
        if !self.stream.request.is_known()
            || !self.stream.request.body.is_done()
            || self.stream.attempts.early_refused
        {
            return false;
        }
        let retried = || {
            self.stream.backend.config.settings.retry_on.contains(RetryOn::EARLY_DATA_REJECTED)
                && self.stream.request.message.head.method().is_safe()
                && self.stream.attempts.are_left()
                && self.stream.attempts.replay.is_possible()
        };
        required.is_none() && (self.stream.as_inspection().is_early() || retried())
    }

    /// Whether an established connection uses HTTP/2. `required` is the version that this request requires.
    fn speaks_http2(&self, required: Option<Protocol>, connection: &Connection) -> bool {
        let said = || self.known_server().and_then(|known| known.settings.protocol);
        self.stream.backend.is_http() && shared::is_negotiated(required.or_else(said), connection)
    }

    /// Lets other streams join a connection that is being established.
    fn announces(
        &self,
        carriage: Carriage,
        required: Option<Protocol>,
        key: u64,
        private: bool,
    ) -> Option<pending::OnItsWay> {
        if private || required.is_some() || !shares_new_connections(&self.stream, carriage) {
            return None;
        }
        let server = self.stream.server.lease.as_ref()?.server().key();
        let places = match carriage {
            Carriage::Agent => engines::places(&self.stream),
            Carriage::Application => applications::places(&self.stream),
            _ => self.stream.frontend.instance().limits.h2_server.concurrent_streams,
        };
        let places = places.saturating_sub(1);
        Some(pending::OnItsWay::begin(self.stream.backend.index, server, key, places))
    }

    /// Starts to connect. If descriptors or memory are short, an idle connection is closed first.
    async fn begin_to_connect(&mut self) -> Result<Connecting, ServerConnectError> {
        let target = self.target().ok_or(ServerConnectError::Failed(AttemptFailure::Refused(None)))?;
        let known = self.known_server();
        let plan = self.connect_plan(known.as_ref(), target);
        for _ in 0..ATTEMPTS {
            match plan.begin() {
                Err(fault) if fault.is_lack_of_room() => {}
                begun => return Ok(begun?),
            }
            // Another task may take the freed descriptor first.
            idle::make_room().await;
        }
        Ok(plan.begin()?)
    }

    /// The target of the connection: the server's address, or an inherited socket pair on which the server accepts connections.
    fn target(&self) -> Option<ConnectTarget> {
        let pair = |address: &ServerAddress| match address {
            ServerAddress::Pair(number) => Some(*number),
            _ => None,
        };
        match self.stream.look_at_server(|server| server.look_at_address(pair)).flatten() {
            Some(number) => Some(ConnectTarget::Pair(number)),
            None => self.server_address().map(ConnectTarget::Address),
        }
    }

    /// The leased server's address for this stream. The port may depend on the client's.
    pub(crate) fn server_address(&self) -> Option<Address> {
        if self.stream.backend.is_transparent() {
            return Some(self.stream.destination().clone());
        }
        self.stream
            .look_at_server(|server| server.look_at_address(|address| self.address_for_client(address)))?
    }

    fn address_for_client(&self, address: &ServerAddress) -> Option<Address> {
        let destination = self.stream.destination();
        Some(match address {
            ServerAddress::Inet { ip, port } => {
                let ip = (*ip)?;
                let same_as_client = destination.ip().filter(|_| ip.is_unspecified());
                // Port 0, like a missing port, means the client's destination port (manual, 5.2, `server`).
                let port = port.for_client(destination.port())?;
                Address::Inet(SocketAddr::new(same_as_client.unwrap_or(ip), port))
            }
            ServerAddress::Unix(path) => Address::Unix(path.clone()),
            ServerAddress::Abstract(name) => Address::Abstract(name.clone().into()),
            ServerAddress::Pair(_) => Address::Unnamed,
        })
    }

    /// The TLS settings of the leased server.
    pub(super) fn server_tls(&self) -> Option<Arc<weir_tls::LiveUpstream>> {
        let key = self.stream.server.lease.as_ref()?.server().key();
        self.stream.backend.server_tls(key).filter(|tls| tls.carries_traffic())
    }

    fn write_proxy_header(&mut self, send_proxy: SendProxy, header: &mut Vec<u8>) {
        match send_proxy {
            SendProxy::V1 => crate::proxy_header::write_v1(&self.stream, header),
            SendProxy::V2 => crate::proxy_header::write_v2(&mut self.stream, header),
        }
    }

    /// The settings of the leased server.
    pub(crate) fn known_server(&self) -> Option<KnownServer<'_>> {
        self.stream.backend.known_server(self.stream.server.lease.as_ref()?.server().key())
    }
}

/// Whether streams may wait for a connection that is being established, because it will carry several.
fn shares_new_connections(stream: &Stream, carriage: Carriage) -> bool {
    match carriage {
        Carriage::Agent | Carriage::Http2 => true,
        Carriage::Application => applications::places(stream) > 1,
        Carriage::Negotiated => false,
    }
}

/// The result for a body of unknown length that exceeds a buffer.
#[cold]
fn refuse_unknown_length(stream: &mut Stream) -> StreamError {
    stream.counts().count_bad_request();
    stream.rules.stopped_by = StoppedBy::Option(RefusingOption::ApplicationBody);
    StreamError::error(411, By::Proxy, During::Connect)
}

/// How a server's connections carry streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carriage {
    /// One stream at a time, or HTTP/2 if TLS negotiates it.
    Negotiated,
    Http2,
    /// Exchanges with an agent (SPOP).
    Agent,
    /// Requests to an application (FastCGI).
    Application,
}

/// The properties of a connection that uses at least one of them.
fn special_identity(stream: &mut Stream, transparent: bool, marks: PacketMarks) -> ConnectionTraits {
    let backend = stream.backend.proxy().clone();
    let server = stream.server.lease.as_ref().map(|lease| lease.server().key());
    let known = server.and_then(|server| backend.known_server(server));
    let settings = known.as_ref().map(|known| &known.settings);
    let (source, follows_client) = stream.as_server_phase().source_of_client(known.as_ref());
    let mut header = crate::recycle::bytes();
    if let Some(send_proxy) = settings.and_then(|settings| settings.send_proxy) {
        stream.server_phase().write_proxy_header(send_proxy, &mut header);
    }
    let tls = settings.and_then(|settings| settings.tls.as_deref());
    let server_name = tls.and_then(|tls| stream.server_phase().server_name(tls));
    let name = settings
        .and_then(|settings| settings.pool_connection_name.as_ref())
        .and_then(|name| stream.evaluate_string(name));
    let destination = if transparent || stream.as_server_phase().destination_varies() {
        stream.as_server_phase().server_address().and_then(|address| address.inet())
    } else {
        None
    };
    let parts = ConnectionParts {
        source,
        destination,
        announced: Some(&header[..]).filter(|header| !header.is_empty()),
        // `pool-conn-name` replaces the SNI in the key.
        server_name: server_name.as_ref().filter(|_| name.is_none()).map(|name| name.as_slice()),
        name: name.as_ref().map(|name| name.as_slice()),
        marks: (marks != PacketMarks::default()).then_some((marks.mark, marks.tos)),
    };
    // Connections of exchanges differ by their engine, too.
    let key = match parts == ConnectionParts::default() {
        true => engines::connection_key(stream),
        false => KEYS.key(&parts) ^ engines::connection_key(stream),
    };
    // A connection bound to the client's address is private to that client. A connection that announces a client (PROXY header) may carry
    // any request with the same announcement.
    let private = transparent || follows_client;
    ConnectionTraits { key, private, header, server_name }
}

/// Generates the reuse keys from the connection properties that requests determine.
static KEYS: LazyLock<ConnectionKeys> = LazyLock::new(ConnectionKeys::default);

/// The reuse key of the connections that a health check may use. `name` is the check's connection name. Requests set theirs with
/// `pool-conn-name`, else with the SNI.
pub fn key_of_check(server: &ServerSettings, name: Option<&[u8]>) -> u64 {
    let sends_name = server.tls.as_ref().is_some_and(|tls| tls.enabled && tls.server_name.is_some())
        && server.pool_connection_name.is_none();
    let parts = ConnectionParts {
        server_name: name.filter(|_| sends_name),
        name: name.filter(|_| !sends_name),
        ..ConnectionParts::default()
    };
    KEYS.key(&parts)
}

/// The ALPN identifier of an HTTP version.
fn alpn_of(protocol: Protocol) -> &'static [u8] {
    if protocol == Protocol::H2 { b"h2" } else { b"http/1.1" }
}

/// How long an exchange waits for a connection that another one opens.
const PATIENCE: Duration = Duration::from_millis(50);

/// Maximum number of idle connections closed to make room for a new one.
const ATTEMPTS: usize = 3;

/// The properties that distinguish connections to one server.
struct ConnectionTraits {
    /// The reuse key. 0 if the connection does not depend on the request.
    key: u64,
    /// Whether only this client may use the connection.
    private: bool,
    /// The PROXY header for a new connection. Empty for none.
    header: Loan<Vec<u8>>,
    server_name: Option<Scratch>,
}
