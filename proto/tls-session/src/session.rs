//! One side of a TLS connection, as an engine: bytes from the wire in, bytes for the wire out.
//!
//! ```text
//!   Hello ──────► Handshake ──────────────────► Traffic
//!     │ a client's    │ rustls  └──► Early ───────► │ records: see `traffic.rs`
//!     │ hello is      │               │ a client's early data may be
//!     │ awaited       │               │ read, ours be sent: see
//!     │               │               │ `early.rs`, `early_client.rs`
//!     └──────────────┴───────────────┴─────────────┴─────► Failed
//! ```
//! The session owns no socket, wire buffer or clock. The caller keeps unused input, sends the output and enforces deadlines.

use std::fmt;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::{CipherSuite, ClientConfig, HandshakeKind, NamedGroup, ProtocolVersion, ServerConfig};
use weir_client_hello::{ClientHello, Unread};

use crate::capture::HelloCapture;
use crate::early::{self, Early};
use crate::early_client::{self, EarlyClient};
use crate::early_refused::{self, EARLY_DATA, EarlyDataSkipper};
use crate::failure::{Alert, SessionFailure, Why};
use crate::heavy::{self, Cost};
use crate::identity::SessionIdentity;
use crate::pump::{PumpEnd, pump};
use crate::record;
use crate::secrets::{self, Randoms, Secrets};
use crate::traffic::{Keys, OpenOutcome, Traffic};
use crate::traffic_keys::{self, TrafficKeys};
use crate::verify::Verifier;
use rustls::server::danger::ClientCertVerifier;

/// Selects the TLS settings for a client from its ClientHello.
pub trait ChooseServer: Send + Sync + fmt::Debug {
    /// Returns the rustls settings, the certificate and the client verifier for this ClientHello.
    ///
    /// # Errors
    /// When the client's SNI does not match any certificate.
    fn choose(&self, hello: &ClientHello<'_>) -> Result<SessionSetup, SessionFailure>;
}

/// The TLS settings selected for one client.
#[derive(Clone, Debug)]
pub struct SessionSetup {
    /// The settings for rustls.
    pub config: Arc<ServerConfig>,
    /// The server certificate, kept for queries during the session.
    pub certificate: Option<Arc<dyn OwnCertificate>>,
    /// Verifier of the client certificate. `None` if the certificate is not checked.
    pub verifier: Option<Arc<Verifier>>,
}

/// The certificate of a TLS server, with the data that its sessions need.
pub trait OwnCertificate: Send + Sync + fmt::Debug {
    /// The certificate itself.
    fn own(&self) -> &CertificateDer<'static>;
    /// The path of the certificate file.
    fn path(&self) -> &str;
    /// Expiry of the OCSP response, in seconds since 1970. `None` without a response.
    fn good_until(&self) -> Option<u64>;
}

/// One side of a TLS connection: a [`server`](TlsSession::server) or a [`client`](TlsSession::client).
pub struct TlsSession {
    state: SessionState,
    facts: Box<Facts>,
    /// Whether the next step may compute for long, because the last one returned [`HandshakeProgress::Computes`].
    has_turn: bool,
}

enum SessionState {
    Hello(Arc<dyn ChooseServer>),
    Server(Box<ServerHandshake>),
    Client(Box<UnbufferedClientConnection>),
    /// The ClientHello is not sent yet. Early data may follow it.
    ClientHello(Box<UnbufferedClientConnection>),
    ClientEarly(Box<EarlyClient>),
    Early(Box<(ServerHandshake, Early)>),
    Traffic(Box<Traffic>),
    Failed(SessionFailure),
}

struct ServerHandshake {
    connection: UnbufferedServerConnection,
    config: Arc<ServerConfig>,
    verifier: Option<Arc<Verifier>>,
    /// Whether the client's first hello was answered.
    has_answered: bool,
    /// End offset in the input of a ClientHello with the `early_data` extension. `None` once rustls has read the hello.
    announces: Option<usize>,
    refused: Option<EarlyDataSkipper>,
    /// The derived traffic keys.
    keys: Option<Box<TrafficKeys>>,
}

impl ServerHandshake {
    fn cost(&self, wire: &[u8]) -> Cost {
        match self.has_answered {
            true => heavy::of_client(wire, &self.connection, self.verifier.is_some()),
            false => Cost::Long,
        }
    }

    /// Skips the records of rejected early data in `wire`.
    fn skip_refused(&mut self, wire: &[u8], used: &mut usize) {
        if self.refused.as_mut().is_some_and(|refused| refused.skip(wire, used)) {
            self.refused = None;
        }
    }

    /// Runs rustls on the input; see [`pump`].
    fn pump(
        &mut self,
        wire: &mut [u8],
        used: &mut usize,
        answer: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        early: &mut bool,
    ) -> Result<PumpEnd, SessionFailure> {
        if let Some(end) = self.announces {
            let said = answer.len();
            pump(&mut self.connection, &mut wire[..end], used, answer, plain, early)?;
            self.announces = None;
            self.refused = EarlyDataSkipper::of(&self.connection, &answer[said..]);
            self.skip_refused(wire, used);
        }
        pump(&mut self.connection, wire, used, answer, plain, early)
    }

    /// Checks the client certificate of a resumed session again: revocation lists, authorities and the time may have changed, and
    /// rules use the result.
    fn check_again(&self, certificates: &[CertificateDer<'_>]) -> Result<(), SessionFailure> {
        let (Some(verifier), Some((own, sent))) = (&self.verifier, certificates.split_first()) else {
            return Ok(());
        };
        let now = self.config.time_provider.current_time().ok_or(SessionFailure::INTERNAL)?;
        verifier.verify_client_cert(own, sent, now).map_err(|error| SessionFailure::from_rustls(&error))?;
        Ok(())
    }
}

/// Parameters of a session.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub version: Option<ProtocolVersion>,
    pub cipher: Option<CipherSuite>,
    /// The group of the key exchange.
    pub group: Option<NamedGroup>,
    pub protocol: Option<Box<[u8]>>,
    /// SNI of the ClientHello: as received on the server side, as sent (in lower case) on the client side.
    pub server_name: Option<Box<str>>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Server side: the received data are early data and may be a replay, because the handshake is not complete. Client
    /// side: early data were sent, and the handshake is not complete.
    pub early: bool,
    /// Whether early data were received.
    pub early_received: bool,
    /// The certificates that the peer sent, the leaf first.
    pub peer_certificates: Vec<CertificateDer<'static>>,
    /// The certificate of this side. `None` on the client side.
    pub certificate: Option<Arc<dyn OwnCertificate>>,
    /// The result of checking the peer's certificate, if it was checked.
    pub verified: Option<crate::verify::VerifyCodes>,
    /// Root CA of the peer's chain. `None` unless the chain was verified without a fault.
    pub root: Option<Arc<CertificateDer<'static>>>,
    /// Whether a valid OCSP response is stapled; `None` if the client did not request one or none is configured.
    pub stapled: Option<bool>,
    /// The capture of the client's hello.
    pub hello: Option<Box<HelloCapture>>,
    /// The randoms of both sides.
    pub randoms: Randoms,
    /// The keys, where they are kept.
    pub secrets: Option<Box<Secrets>>,
    /// The identity of the session, if it is kept.
    pub(crate) identity: Option<Box<SessionIdentity>>,
    /// Why the session failed.
    pub failure: Option<SessionFailure>,
}

impl Facts {
    fn begin(is_server: bool) -> Box<Facts> {
        Box::new(Facts { identity: SessionIdentity::begin(is_server), ..Facts::default() })
    }

    /// Stores the result of a certificate check on this thread, if there was one since the last call.
    fn note_check(&mut self) {
        if let Some((verified, root)) = crate::verify::take_verified() {
            (self.verified, self.root) = (Some(verified), root);
        }
    }
}

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeProgress {
    /// More bytes are needed.
    More,
    /// The next call, with the input received so far, computes as long as a hundred small requests take.
    Computes,
    /// The handshake is complete.
    Established,
}

impl TlsSession {
    /// A server session. `chooser` selects its settings from the ClientHello.
    pub fn server(chooser: Arc<dyn ChooseServer>) -> TlsSession {
        TlsSession { state: SessionState::Hello(chooser), facts: Facts::begin(true), has_turn: false }
    }

    /// A client session to the server `name`.
    ///
    /// # Errors
    /// When the settings contradict each other.
    pub fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<TlsSession, SessionFailure> {
        let may_be_early = config.enable_early_data;
        let connection = UnbufferedClientConnection::new(config, name)
            .map_err(|error| SessionFailure::from_rustls(&error))?;
        let state = if may_be_early { SessionState::ClientHello } else { SessionState::Client };
        Ok(TlsSession { state: state(Box::new(connection)), facts: Facts::begin(false), has_turn: false })
    }

    /// Handles a session above the limit `maxsslconn`. A server session is returned unchanged, because its client is
    /// already admitted. A client session fails.
    #[must_use]
    pub fn refused_to_begin(mut self) -> TlsSession {
        if let SessionState::Client(_) | SessionState::ClientHello(_) = self.state {
            self.state = SessionState::Failed(SessionFailure::because(Why::TooMany));
        }
        self
    }

    /// Records the SNI sent to the server.
    pub fn note_name(&mut self, name: &str) {
        self.facts.server_name = Some(name.to_ascii_lowercase().into());
    }

    /// The parameters of the session.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Continues the handshake. Returns the number of bytes used from the front of `wire`, and the progress. Output for
    /// the peer is appended to `answer`, also on failure.
    ///
    /// # Errors
    /// When the session cannot be established.
    pub fn shake(
        &mut self,
        wire: &mut [u8],
        answer: &mut Vec<u8>,
    ) -> (usize, Result<HandshakeProgress, SessionFailure>) {
        let mut used = 0;
        let said = answer.len();
        self.facts.note_random(wire);
        let came = self.facts.identity.as_ref().map_or_else(Vec::new, |identity| identity.input(wire));
        let mut keys = match &mut self.state {
            SessionState::Server(server) => server.keys.take(),
            _ => None,
        };
        let result = traffic_keys::with_kept(&mut keys, || self.shake_on(wire, &mut used, answer));
        if let SessionState::Server(server) = &mut self.state {
            server.keys = keys;
        }
        self.facts.note_random(&answer[said..]);
        secrets::take_logged(&mut self.facts.secrets);
        if let Some(identity) = &mut self.facts.identity {
            identity.take_step(&came, &answer[said..], wire.len() - used);
        }
        if let Err(failure) = result {
            self.facts.failure = Some(failure);
            self.state = SessionState::Failed(failure);
        }
        (used, result)
    }

    fn shake_on(
        &mut self,
        wire: &mut [u8],
        used: &mut usize,
        answer: &mut Vec<u8>,
    ) -> Result<HandshakeProgress, SessionFailure> {
        let has_turn = std::mem::take(&mut self.has_turn);
        if let SessionState::Hello(chooser) = &self.state {
            match begin(&**chooser, wire, has_turn, &mut self.facts, answer)? {
                HelloOutcome::TooShort => return Ok(HandshakeProgress::More),
                HelloOutcome::Signs => return Ok(self.request_turn()),
                HelloOutcome::Handshake(server) => self.state = SessionState::Server(server),
            }
        }
        if let SessionState::ClientHello(_) = self.state
            && self.begin_client(answer)?
        {
            return Ok(HandshakeProgress::Established);
        }
        if let SessionState::Server(server) = &mut self.state {
            server.skip_refused(wire, used);
        }
        let cost = match &self.state {
            _ if has_turn => Cost::Short,
            SessionState::Server(server) => server.cost(&wire[*used..]),
            SessionState::Client(client) => heavy::of_server(wire, client),
            _ => Cost::Short,
        };
        if cost == Cost::Long {
            return Ok(self.request_turn());
        }
        let mut plain = Vec::new();
        let pumped = match &mut self.state {
            SessionState::Server(server) => {
                let early = &mut self.facts.early_received;
                server.has_answered = true;
                server.pump(wire, used, answer, &mut plain, early)
            }
            SessionState::Client(client) => pump(&mut **client, wire, used, answer, &mut plain, &mut false),
            SessionState::Traffic(_) | SessionState::Early(_) | SessionState::ClientEarly(_) => {
                return Ok(HandshakeProgress::Established);
            }
            SessionState::Failed(failure) => return Err(*failure),
            SessionState::Hello(_) | SessionState::ClientHello(_) => return Ok(HandshakeProgress::More),
        };
        self.facts.note_check();
        let pumped = pumped?;
        if !plain.is_empty()
            && matches!(&self.state, SessionState::Server(server) if server.connection.is_handshaking())
        {
            return self.serve_early(plain);
        }
        let handshaking = match &self.state {
            SessionState::Server(server) => server.connection.is_handshaking(),
            SessionState::Client(client) => client.is_handshaking(),
            _ => false,
        };
        // If a message spans records, rustls has decrypted a part of it and still needs the rest.
        let whole = record::announced(&wire[*used..]).is_some_and(|length| wire.len() - *used >= length);
        if handshaking || (whole && pumped == PumpEnd::Blocked) {
            return Ok(HandshakeProgress::More);
        }
        self.establish(&plain, pumped == PumpEnd::Ended)
    }

    fn request_turn(&mut self) -> HandshakeProgress {
        self.has_turn = true;
        HandshakeProgress::Computes
    }

    /// Writes the ClientHello to `answer`. Returns whether early data may follow it.
    fn begin_client(&mut self, answer: &mut Vec<u8>) -> Result<bool, SessionFailure> {
        let state = std::mem::replace(&mut self.state, SessionState::Failed(SessionFailure::INTERNAL));
        let SessionState::ClientHello(mut client) = state else { return Err(SessionFailure::INTERNAL) };
        let is_early = early_client::begin(&mut client, answer)?;
        self.state = if is_early {
            // Early data require a resumed session. Whether the server accepts the resumption is known later.
            (self.facts.early, self.facts.resumed) = (true, true);
            SessionState::ClientEarly(Box::new(EarlyClient::new(*client)))
        } else {
            SessionState::Client(client)
        };
        Ok(is_early)
    }

    /// Enters the state `Early`: early data of the client were received, and its handshake is not complete.
    fn serve_early(&mut self, plain: Vec<u8>) -> Result<HandshakeProgress, SessionFailure> {
        let state = std::mem::replace(&mut self.state, SessionState::Failed(SessionFailure::INTERNAL));
        let SessionState::Server(server) = state else { return Err(SessionFailure::INTERNAL) };
        self.note_client(&server)?;
        self.facts.early = true;
        if let Some(identity) = &mut self.facts.identity {
            identity.take_noted();
            identity.take_early();
        }
        self.state = SessionState::Early(Box::new((*server, Early::new(plain))));
        Ok(HandshakeProgress::Established)
    }

    /// Records the parameters of a client's session. Checks the client certificate again if the session was resumed.
    fn note_client(&mut self, server: &ServerHandshake) -> Result<(), SessionFailure> {
        self.facts.note(&server.connection);
        if !self.facts.resumed {
            return Ok(());
        }
        let checked = server.check_again(&self.facts.peer_certificates);
        self.facts.note_check();
        checked
    }

    fn establish(&mut self, plain: &[u8], ended: bool) -> Result<HandshakeProgress, SessionFailure> {
        let state = std::mem::replace(&mut self.state, SessionState::Failed(SessionFailure::INTERNAL));
        let split = match state {
            SessionState::Early(early) => {
                self.facts.early = false;
                let split = early.0.connection.dangerous_into_kernel_connection();
                split.map(|(secrets, keys)| (secrets, Keys::Server(keys)))
            }
            SessionState::Server(server) => {
                self.note_client(&server)?;
                let split = server.connection.dangerous_into_kernel_connection();
                split.map(|(secrets, keys)| (secrets, Keys::Server(keys)))
            }
            SessionState::Client(client) => {
                self.facts.note(&client);
                client.dangerous_into_kernel_connection().map(|(secrets, keys)| (secrets, Keys::Client(keys)))
            }
            _ => return Err(SessionFailure::INTERNAL),
        };
        let (secrets, keys) = split.map_err(|error| SessionFailure::from_rustls(&error))?;
        let mut traffic = Box::new(Traffic::new(&secrets, keys)?);
        traffic.hold(plain);
        if ended {
            traffic.set_ended();
        }
        self.state = SessionState::Traffic(traffic);
        Ok(HandshakeProgress::Established)
    }

    /// Decrypts from the front of `wire` into `room`; output for the peer is appended to `answer`.
    pub fn open(&mut self, wire: &[u8], room: &mut [u8], answer: &mut Vec<u8>) -> OpenOutcome {
        match &mut self.state {
            SessionState::Traffic(traffic) => {
                let opened = traffic.open(wire, room, answer);
                if let Some(ticket) = traffic.take_ticket() {
                    self.facts.note_ticket(&ticket);
                }
                opened
            }
            SessionState::Early(_) => self.open_early(wire, room, answer),
            SessionState::ClientEarly(_) => self.open_early_client(wire, room, answer),
            SessionState::Failed(failure) => {
                OpenOutcome { failure: Some(*failure), ..OpenOutcome::default() }
            }
            _ => OpenOutcome { failure: Some(SessionFailure::INTERNAL), ..OpenOutcome::default() },
        }
    }

    /// [`open`](Self::open) in the state `Early`: the input may contain the rest of the client's handshake.
    #[cold]
    fn open_early(&mut self, wire: &[u8], room: &mut [u8], answer: &mut Vec<u8>) -> OpenOutcome {
        let SessionState::Early(early) = &mut self.state else { return OpenOutcome::default() };
        let (server, data) = &mut **early;
        let filled = data.give(room);
        if filled > 0 {
            return OpenOutcome { filled, ..OpenOutcome::default() };
        }
        let (used, stepped) = data.take(&mut server.connection, wire, answer);
        let handshaking = server.connection.is_handshaking();
        secrets::take_logged(&mut self.facts.secrets);
        if let Some(identity) = &mut self.facts.identity {
            identity.take_noted();
        }
        let settled = match stepped {
            Ok(_) if handshaking => {
                return OpenOutcome { used, filled: data.give(room), ..OpenOutcome::default() };
            }
            Ok(ended) => {
                let plain = data.rest();
                self.establish(&plain, ended)
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = settled {
            self.facts.failure = Some(failure);
            self.state = SessionState::Failed(failure);
            return OpenOutcome { used, failure: Some(failure), ..OpenOutcome::default() };
        }
        let opened = self.open(&wire[used..], room, answer);
        OpenOutcome { used: used + opened.used, ..opened }
    }

    /// [`open`](Self::open) in the state `ClientEarly`: the input is the rest of the server's handshake.
    #[cold]
    fn open_early_client(&mut self, wire: &[u8], room: &mut [u8], answer: &mut Vec<u8>) -> OpenOutcome {
        let said = answer.len();
        self.facts.note_random(wire);
        let settled = self.settle_early_client(wire, answer);
        self.facts.note_random(&answer[said..]);
        secrets::take_logged(&mut self.facts.secrets);
        if let Some(identity) = &mut self.facts.identity {
            identity.take_noted();
        }
        let unused = match settled {
            Ok(None) => return OpenOutcome { used: wire.len(), ..OpenOutcome::default() },
            Ok(Some(unused)) => unused,
            Err(failure) => {
                self.facts.failure = Some(failure);
                self.state = SessionState::Failed(failure);
                return OpenOutcome { used: wire.len(), failure: Some(failure), ..OpenOutcome::default() };
            }
        };
        let used = wire.len().saturating_sub(unused);
        let opened = self.open(&wire[used..], room, answer);
        OpenOutcome { used: used + opened.used, ..opened }
    }

    /// Continues the handshake; `None` until it is complete. Then sends the early data that the server rejected, and
    /// returns the number of unused bytes at the end of `wire`.
    fn settle_early_client(
        &mut self,
        wire: &[u8],
        answer: &mut Vec<u8>,
    ) -> Result<Option<usize>, SessionFailure> {
        let SessionState::ClientEarly(early) = &mut self.state else { return Err(SessionFailure::INTERNAL) };
        let taken = early.take(wire, answer);
        self.facts.note_check();
        if !taken? {
            return Ok(None);
        }
        let state = std::mem::replace(&mut self.state, SessionState::Failed(SessionFailure::INTERNAL));
        let SessionState::ClientEarly(early) = state else { return Err(SessionFailure::INTERNAL) };
        let settled = early.settle();
        self.state = SessionState::Client(Box::new(settled.connection));
        self.establish(&settled.plain, settled.has_ended)?;
        self.facts.early = false;
        let SessionState::Traffic(traffic) = &mut self.state else { return Err(SessionFailure::INTERNAL) };
        let mut unsent = &settled.unsent[..];
        while !unsent.is_empty() {
            let count = unsent.len().min(record::MAX_CONTENT);
            let mut out = vec![0; count + record::MAX_OVERHEAD];
            let (taken, written) = traffic.seal(&unsent[..count], &mut out, count, answer)?;
            answer.extend_from_slice(&out[..written]);
            unsent = &unsent[taken.max(1)..];
        }
        Ok(Some(settled.unused))
    }

    /// Whether [`open`](Self::open) has a result without further input: buffered plaintext, the end of the data, or a failure.
    pub fn is_holding(&self) -> bool {
        match &self.state {
            SessionState::Traffic(traffic) => traffic.is_holding(),
            SessionState::Early(early) => early.1.is_holding(),
            _ => false,
        }
    }

    /// Encrypts bytes from the front of `bytes` into `out`. Returns the numbers of bytes taken and written. Send the
    /// bytes appended to `answer` before those in `out`.
    ///
    /// # Errors
    /// When the session is broken or closed.
    pub fn seal(
        &mut self,
        bytes: &[u8],
        out: &mut [u8],
        largest: usize,
        answer: &mut Vec<u8>,
    ) -> Result<(usize, usize), SessionFailure> {
        match &mut self.state {
            SessionState::Traffic(traffic) => traffic.seal(bytes, out, largest, answer),
            SessionState::Early(early) => early::seal(&mut early.0.connection, bytes, out, largest, answer),
            SessionState::ClientEarly(early) => early.seal(bytes, out, largest),
            SessionState::Failed(failure) => Err(*failure),
            _ => Err(SessionFailure::INTERNAL),
        }
    }

    /// Whether the output at the end of the handshake is only session tickets, which the client does not wait for. True
    /// for a TLS 1.3 server. Before TLS 1.3, the client waits for the output.
    pub fn says_tickets_only(&self) -> bool {
        matches!(&self.state, SessionState::Traffic(traffic) if traffic.is_server13())
    }

    /// Writes `close_notify`.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        match &mut self.state {
            SessionState::Traffic(traffic) => traffic.close(out),
            SessionState::Early(early) => early::close(&mut early.0.connection, out),
            _ => {}
        }
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            SessionState::Hello(_) => "hello",
            SessionState::Server(_) | SessionState::Client(_) | SessionState::ClientHello(_) => "handshake",
            SessionState::Early(_) | SessionState::ClientEarly(_) => "early",
            SessionState::Traffic(_) => "traffic",
            SessionState::Failed(_) => "failed",
        };
        f.debug_struct("Session").field("state", &state).finish_non_exhaustive()
    }
}

impl Facts {
    /// The name of the TLS version, such as `TLSv1.3`.
    pub fn version_name(&self) -> Option<&'static str> {
        match self.version? {
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            _ => None,
        }
    }

    /// The session ID. `None` if it is empty, before the session is established or early data are read, and unless
    /// sessions [keep](crate::keep_identities) it. The same holds for the next two methods.
    pub fn session_id(&self) -> Option<&[u8]> {
        self.identified(|identity, is_tls13| identity.id(is_tls13, self.resumed))
    }

    /// The main secret of TLS 1.2; in TLS 1.3 the resumption key of the newest ticket, if one was issued.
    pub fn session_key(&self) -> Option<&[u8]> {
        self.identified(|identity, is_tls13| identity.key(is_tls13, self.resumed))
    }

    /// The channel binding of the session (`tls-unique`, RFC 5929, 3).
    pub fn unique_id(&self) -> Option<&[u8]> {
        self.identified(|identity, is_tls13| identity.unique_id(is_tls13, self.resumed))
    }

    fn identified<'f>(
        &'f self,
        part: impl FnOnce(&'f SessionIdentity, bool) -> &'f [u8],
    ) -> Option<&'f [u8]> {
        let (identity, version) = (self.identity.as_deref()?, self.version?);
        Some(part(identity, version == ProtocolVersion::TLSv1_3)).filter(|bytes| !bytes.is_empty())
    }

    #[cold]
    fn note_ticket(&mut self, ticket: &[u8]) {
        if let Some(identity) = &mut self.identity {
            identity.take_ticket13(ticket);
        }
    }

    fn note_random(&mut self, records: &[u8]) {
        if !self.randoms.are_known() {
            self.randoms.note(records);
        }
    }

    fn note(&mut self, common: &rustls::CommonState) {
        self.version = common.protocol_version();
        self.cipher = common.negotiated_cipher_suite().map(|suite| suite.suite());
        self.group = common.negotiated_key_exchange_group().map(|group| group.name());
        self.protocol = common.alpn_protocol().map(Box::from);
        self.resumed = common.handshake_kind() == Some(HandshakeKind::Resumed);
        self.peer_certificates =
            common.peer_certificates().map(<[CertificateDer<'static>]>::to_vec).unwrap_or_default();
    }
}

/// The result of reading a ClientHello ([`begin`]).
enum HelloOutcome {
    /// The ClientHello is incomplete.
    TooShort,
    /// A certificate must be generated and signed first (`generate-certificates`), which computes long.
    Signs,
    Handshake(Box<ServerHandshake>),
}

/// Begins the handshake of a server, once the client's hello is complete.
fn begin(
    chooser: &dyn ChooseServer,
    wire: &[u8],
    has_turn: bool,
    facts: &mut Facts,
    answer: &mut Vec<u8>,
) -> Result<HelloOutcome, SessionFailure> {
    let refuse = |failure: SessionFailure, answer: &mut Vec<u8>| {
        if let Some(alert) = failure.alert {
            answer.extend_from_slice(&[21, 3, 3, 0, 2, 2, alert.into()]);
        }
        failure
    };
    let message = match weir_client_hello::read(wire) {
        Ok(message) => message,
        Err(Unread::TooShort) if wire.len() < MAX_HELLO => return Ok(HelloOutcome::TooShort),
        Err(Unread::TooShort) => return Err(refuse(SessionFailure::of(Alert::IllegalParameter), answer)),
        Err(Unread::NotTls) => return Err(refuse(other_protocol(wire), answer)),
    };
    if message.kind != weir_client_hello::CLIENT_HELLO {
        return Err(refuse(SessionFailure::of(Alert::UnexpectedMessage), answer));
    }
    let Some(hello) = ClientHello::parse(&message.body) else {
        return Err(refuse(SessionFailure::of(Alert::DecodeError), answer));
    };
    // A client without newer versions is refused here, because rustls would check its ciphers first.
    if hello.version < [3, 3] && hello.extension(SUPPORTED_VERSIONS).is_none() {
        let failure = SessionFailure { why: Why::Version, alert: Some(Alert::ProtocolVersion) };
        return Err(refuse(failure, answer));
    }
    facts.server_name = hello.server_name().and_then(|name| std::str::from_utf8(name).ok()).map(Into::into);
    facts.hello = HelloCapture::of(&hello);
    let choice = if has_turn {
        Some(chooser.choose(&hello))
    } else {
        heavy::without_signature(|| chooser.choose(&hello))
    };
    let Some(choice) = choice else { return Ok(HelloOutcome::Signs) };
    let chosen = choice.map_err(|failure| refuse(failure, answer))?;
    facts.stapled = hello.extension(STATUS_REQUEST).and_then(|_| is_stapled(&chosen));
    facts.certificate = chosen.certificate;
    let mut config = chosen.config;
    if offers_others_only(&hello, &config) {
        Arc::make_mut(&mut config).alpn_protocols.clear();
    }
    if config.send_tls13_tickets > 1 && config.max_early_data_size == 0 && may_resume(&hello, &config) {
        // A resumed session gets one ticket to replace the one that it used, as with OpenSSL (manual of
        // `SSL_CTX_set_num_tickets`). With early data, a client may get its response and close before the tickets
        // arrive, and would lose one ticket each time.
        Arc::make_mut(&mut config).send_tls13_tickets = 1;
    }
    let announces = hello.extension(EARLY_DATA).is_some().then(|| hello_end(wire, message.body.len()));
    let config = if announces.is_some() { early_refused::with_refusal_log(&config) } else { config };
    let connection = UnbufferedServerConnection::new(Arc::clone(&config))
        .map_err(|error| SessionFailure::from_rustls(&error))?;
    let verifier = chosen.verifier;
    let handshake = ServerHandshake {
        connection,
        config,
        verifier,
        has_answered: false,
        announces,
        refused: None,
        keys: None,
    };
    Ok(HelloOutcome::Handshake(Box::new(handshake)))
}

/// Whether a client offers a session that may be resumed. The ticket is then decrypted twice, a small cost compared with a handshake.
fn may_resume(hello: &ClientHello<'_>, config: &ServerConfig) -> bool {
    let is_good = |ticket: &[u8]| !config.ticketer.enabled() || config.ticketer.decrypt(ticket).is_some();
    if hello.offers_version([3, 4]) && hello.offered_sessions().any(is_good) {
        return true;
    }
    match hello.session_ticket() {
        Some(ticket) if !ticket.is_empty() => is_good(ticket),
        _ => !hello.session.is_empty() && !hello.offers_version([3, 4]) && config.session_storage.can_cache(),
    }
}

/// Offset in `wire` behind the records of a ClientHello with a body of `body` bytes.
fn hello_end(wire: &[u8], body: usize) -> usize {
    let (mut end, mut left) = (0, body + MESSAGE_HEADER);
    while left > 0 {
        let Some(length) = record::announced(&wire[end..]) else { break };
        left = left.saturating_sub(length - record::HEADER);
        end += length;
    }
    end.min(wire.len())
}

/// Whether the OCSP response of a certificate can be stapled; `None` without a response.
fn is_stapled(chosen: &SessionSetup) -> Option<bool> {
    let good_until = chosen.certificate.as_ref()?.good_until()?;
    let now = chosen.config.time_provider.current_time()?;
    Some(now.as_secs() <= good_until)
}

/// Whether a client offers only application protocols that are not configured. As with OpenSSL, none is then selected,
/// although RFC 7301 (3.2) requires the handshake to fail.
fn offers_others_only(hello: &ClientHello<'_>, config: &ServerConfig) -> bool {
    let mut offered = hello.application_protocols().peekable();
    let is_spoken = |name: &[u8]| config.alpn_protocols.iter().any(|own| own == name);
    offered.peek().is_some() && !offered.any(is_spoken)
}

/// The failure for input that is not a hello. A peer that speaks TLS gets an alert.
fn other_protocol(wire: &[u8]) -> SessionFailure {
    const METHODS: [&[u8]; 6] = [b"GET ", b"POST", b"HEAD", b"PUT ", b"CONN", b"OPTI"];
    if let [_, 3, 0..=4, rest @ ..] = wire {
        let is_too_long = matches!(rest, [high, low, ..] if u16::from_be_bytes([*high, *low]) > MAX_FRAGMENT);
        let alert = if is_too_long { Alert::RecordOverflow } else { Alert::UnexpectedMessage };
        return SessionFailure { why: Why::NotTls, alert: Some(alert) };
    }
    let http = METHODS.iter().any(|method| wire.starts_with(method));
    SessionFailure::because(if http { Why::PlainHttp } else { Why::NotTls })
}

/// Length of a handshake message header in bytes (RFC 8446, 4).
const MESSAGE_HEADER: usize = 4;
/// The size limit of an unencrypted record (RFC 8446, 5.1).
const MAX_FRAGMENT: u16 = 1 << 14;
/// The extension that requests an OCSP response (RFC 6066, 8).
const STATUS_REQUEST: u16 = 5;
/// The extension `supported_versions` (RFC 8446, 4.2.1).
const SUPPORTED_VERSIONS: u16 = 43;
/// Size limit of a ClientHello in bytes. Large ones carry post-quantum key shares and padding.
const MAX_HELLO: usize = 1 << 16;
