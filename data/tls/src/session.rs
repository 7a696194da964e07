//! One side of a TLS connection, as an engine: bytes of the wire in, bytes for the wire out.
//!
//! ```text
//!   Hello ──────► Handshake ──────► Traffic
//!     │ a client's    │ rustls          │ records: see `traffic.rs`
//!     │ hello is      │                 │
//!     │ awaited       │                 │
//!     └──────────────┴─────────────────┴─────► Failed
//! ```
//!
//! It owns no socket, no buffer of the wire and no clock: whoever drives it keeps the bytes that were not used, sends what is
//! to leave, and gives up when it lasts too long.

use std::fmt;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{CipherSuite, ClientConfig, HandshakeKind, NamedGroup, ProtocolVersion, ServerConfig};
use weir_client_hello::{ClientHello, Unread};

use crate::failure::{Alert, Failure, Why};
use crate::record;
use crate::traffic::{Keys, Opened, Traffic};
use crate::verify::Verifier;
use rustls::server::danger::ClientCertVerifier;

/// Chooses how a client is served by what its hello says.
pub trait ChooseServer: Send + Sync + fmt::Debug {
    /// The settings for this client, and which certificate they use.
    ///
    /// # Errors
    /// When nobody serves the name that it wants.
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Chosen, Failure>;
}

/// How a client is served.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// All that rustls has to know.
    pub config: Arc<ServerConfig>,
    /// The certificate, for those who ask about it later.
    pub certificate: Option<Arc<crate::certificate::Certificate>>,
    /// Who checks the client's certificate, where somebody does.
    pub verifier: Option<Arc<Verifier>>,
}

/// One side of a connection.
pub struct Session {
    state: State,
    facts: Box<Facts>,
}

enum State {
    Hello(Arc<dyn ChooseServer>),
    Server(Box<ServerHandshake>),
    Client(Box<UnbufferedClientConnection>),
    Traffic(Box<Traffic>),
    Failed(Failure),
}

/// The handshake of a server.
struct ServerHandshake {
    connection: UnbufferedServerConnection,
    config: Arc<ServerConfig>,
    verifier: Option<Arc<Verifier>>,
}

impl ServerHandshake {
    /// Checks the certificate that a client showed when the session began that goes on now: lists of what is revoked, authorities and
    /// the time may be others since, and rules ask what was found.
    fn check_again(&self, certificates: &[CertificateDer<'_>]) -> Result<(), Failure> {
        let (Some(verifier), Some((own, sent))) = (&self.verifier, certificates.split_first()) else {
            return Ok(());
        };
        let now = self.config.time_provider.current_time().ok_or(Failure::INTERNAL)?;
        verifier.verify_client_cert(own, sent, now).map_err(|error| Failure::from_rustls(&error))?;
        Ok(())
    }
}

/// What was agreed on.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The version.
    pub version: Option<ProtocolVersion>,
    /// The cipher suite.
    pub cipher: Option<CipherSuite>,
    /// The group of the key exchange.
    pub group: Option<NamedGroup>,
    /// The application protocol.
    pub protocol: Option<Box<[u8]>>,
    /// The name that the client asked for.
    pub server_name: Option<Box<str>>,
    /// An earlier session went on.
    pub resumed: bool,
    /// What the peer showed, its own certificate first.
    pub peer_certificates: Vec<CertificateDer<'static>>,
    /// The certificate that this side showed, of a server.
    pub certificate: Option<Arc<crate::certificate::Certificate>>,
    /// How the peer's certificate was found, when it was looked at.
    pub verified: Option<crate::verify::Verified>,
    /// Why there is no session.
    pub failure: Option<Failure>,
}

/// How far a handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes have to come.
    More,
    /// It is over.
    Established,
}

impl Session {
    /// The side of a server, whose settings depend on the client's hello.
    pub fn server(chooser: Arc<dyn ChooseServer>) -> Session {
        Session { state: State::Hello(chooser), facts: Box::default() }
    }

    /// The side of a client.
    ///
    /// # Errors
    /// When the settings contradict each other.
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Session, Failure> {
        let connection =
            UnbufferedClientConnection::new(config, name).map_err(|error| Failure::from_rustls(&error))?;
        Ok(Session { state: State::Client(Box::new(connection)), facts: Box::default() })
    }

    /// The session if it is that of a server, whose clients were let in; that of a client fails, since there are too many sessions
    /// (`maxsslconn`).
    #[must_use]
    pub fn refused_to_begin(mut self) -> Session {
        if let State::Client(_) = self.state {
            self.state = State::Failed(Failure::because(Why::TooMany));
        }
        self
    }

    /// Remembers the name that the server is asked for.
    pub(crate) fn note_name(&mut self, name: &str) {
        self.facts.server_name = Some(name.to_ascii_lowercase().into());
    }

    /// What was agreed on.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether what is awaited takes as long as a hundred small requests once it comes: a client's hello asks for a signature, a
    /// server's answer for the check of one.
    pub fn awaits_heavy_work(&self) -> bool {
        matches!(self.state, State::Hello(_) | State::Client(_))
    }

    /// Goes on with the handshake: how many bytes at the front of `wire` are used up, and how far it is. What is to leave is added
    /// to `answer`, also when it fails.
    ///
    /// # Errors
    /// When there will be no session.
    pub fn shake(&mut self, wire: &mut [u8], answer: &mut Vec<u8>) -> (usize, Result<Progress, Failure>) {
        let mut used = 0;
        let result = self.shake_on(wire, &mut used, answer);
        if let Err(failure) = result {
            self.facts.failure = Some(failure);
            self.state = State::Failed(failure);
        }
        (used, result)
    }

    fn shake_on(
        &mut self,
        wire: &mut [u8],
        used: &mut usize,
        answer: &mut Vec<u8>,
    ) -> Result<Progress, Failure> {
        if let State::Hello(chooser) = &self.state {
            let Some(server) = begin(&**chooser, wire, &mut self.facts, answer)? else {
                return Ok(Progress::More);
            };
            self.state = State::Server(Box::new(server));
        }
        let mut plain = Vec::new();
        let pumped = match &mut self.state {
            State::Server(server) => pump(&mut server.connection, wire, used, answer, &mut plain),
            State::Client(client) => pump(&mut **client, wire, used, answer, &mut plain),
            State::Traffic(_) => return Ok(Progress::Established),
            State::Failed(failure) => return Err(*failure),
            State::Hello(_) => return Ok(Progress::More),
        };
        let verified = crate::verify::take_verified();
        if verified.is_some() {
            self.facts.verified = verified;
        }
        let ended = pumped?;
        let handshaking = match &self.state {
            State::Server(server) => server.connection.is_handshaking(),
            State::Client(client) => client.is_handshaking(),
            _ => false,
        };
        // A message that goes on in another record was decrypted in part: rustls has to see its end.
        let whole = record::announced(&wire[*used..]).is_some_and(|length| wire.len() - *used >= length);
        if handshaking || (whole && !ended) {
            return Ok(Progress::More);
        }
        self.establish(&plain, ended)
    }

    fn establish(&mut self, plain: &[u8], ended: bool) -> Result<Progress, Failure> {
        let state = std::mem::replace(&mut self.state, State::Failed(Failure::INTERNAL));
        let split = match state {
            State::Server(server) => {
                self.facts.note(&server.connection);
                if self.facts.resumed {
                    let checked = server.check_again(&self.facts.peer_certificates);
                    self.facts.verified = crate::verify::take_verified();
                    checked?;
                }
                let split = server.connection.dangerous_into_kernel_connection();
                split.map(|(secrets, keys)| (secrets, Keys::Server(keys)))
            }
            State::Client(client) => {
                self.facts.note(&client);
                client.dangerous_into_kernel_connection().map(|(secrets, keys)| (secrets, Keys::Client(keys)))
            }
            _ => return Err(Failure::INTERNAL),
        };
        let (secrets, keys) = split.map_err(|error| Failure::from_rustls(&error))?;
        let mut traffic = Box::new(Traffic::new(&secrets, keys)?);
        traffic.hold(plain);
        if ended {
            traffic.set_ended();
        }
        self.state = State::Traffic(traffic);
        Ok(Progress::Established)
    }

    /// Decrypts from the front of `wire` into `room`; what the peer is to be told is added to `answer`.
    pub fn open(&mut self, wire: &[u8], room: &mut [u8], answer: &mut Vec<u8>) -> Opened {
        match &mut self.state {
            State::Traffic(traffic) => traffic.open(wire, room, answer),
            State::Failed(failure) => Opened { failure: Some(*failure), ..Opened::default() },
            _ => Opened { failure: Some(Failure::INTERNAL), ..Opened::default() },
        }
    }

    /// Whether [`open`](Self::open) has something to tell without another byte of the wire: content that nobody took yet, the end, or why
    /// the session broke.
    pub fn is_holding(&self) -> bool {
        matches!(&self.state, State::Traffic(traffic) if traffic.is_holding())
    }

    /// Encrypts from the front of `bytes` to the front of `out`: how many bytes were taken and how many written. What is added to
    /// `answer` leaves before them.
    ///
    /// # Errors
    /// When the session is broken or closed.
    pub fn seal(
        &mut self,
        bytes: &[u8],
        out: &mut [u8],
        largest: usize,
        answer: &mut Vec<u8>,
    ) -> Result<(usize, usize), Failure> {
        match &mut self.state {
            State::Traffic(traffic) => traffic.seal(bytes, out, largest, answer),
            State::Failed(failure) => Err(*failure),
            _ => Err(Failure::INTERNAL),
        }
    }

    /// Says that nothing more is sent.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if let State::Traffic(traffic) = &mut self.state {
            traffic.close(out);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Hello(_) => "hello",
            State::Server(_) | State::Client(_) => "handshake",
            State::Traffic(_) => "traffic",
            State::Failed(_) => "failed",
        };
        f.debug_struct("Session").field("state", &state).finish_non_exhaustive()
    }
}

impl Facts {
    /// How the version that was agreed on is called.
    pub fn version_name(&self) -> Option<&'static str> {
        match self.version? {
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            _ => None,
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

/// Begins the handshake of a server, once the client's whole hello is there; none before.
fn begin(
    chooser: &dyn ChooseServer,
    wire: &[u8],
    facts: &mut Facts,
    answer: &mut Vec<u8>,
) -> Result<Option<ServerHandshake>, Failure> {
    let refuse = |failure: Failure, answer: &mut Vec<u8>| {
        if let Some(alert) = failure.alert {
            answer.extend_from_slice(&[21, 3, 3, 0, 2, 2, alert.into()]);
        }
        failure
    };
    let message = match weir_client_hello::read(wire) {
        Ok(message) => message,
        Err(Unread::TooShort) if wire.len() < MAX_HELLO => return Ok(None),
        Err(Unread::TooShort) => return Err(refuse(Failure::of(Alert::IllegalParameter), answer)),
        Err(Unread::NotTls) => return Err(refuse(other_protocol(wire), answer)),
    };
    if message.kind != weir_client_hello::CLIENT_HELLO {
        return Err(refuse(Failure::of(Alert::UnexpectedMessage), answer));
    }
    let Some(hello) = ClientHello::parse(&message.body) else {
        return Err(refuse(Failure::of(Alert::DecodeError), answer));
    };
    // Who speaks nothing newer says so here, and rustls would look at its ciphers first.
    if hello.version < [3, 3] && hello.extension(SUPPORTED_VERSIONS).is_none() {
        let failure = Failure { why: Why::Version, alert: Some(Alert::ProtocolVersion) };
        return Err(refuse(failure, answer));
    }
    facts.server_name = hello
        .server_name()
        .and_then(|name| std::str::from_utf8(name).ok())
        .map(|name| name.to_ascii_lowercase().into());
    let chosen = chooser.choose(&hello).map_err(|failure| refuse(failure, answer))?;
    facts.certificate = chosen.certificate;
    let config = if offers_others_only(&hello, &chosen.config) {
        let mut config = ServerConfig::clone(&chosen.config);
        config.alpn_protocols.clear();
        Arc::new(config)
    } else {
        chosen.config
    };
    let connection =
        UnbufferedServerConnection::new(Arc::clone(&config)).map_err(|error| Failure::from_rustls(&error))?;
    Ok(Some(ServerHandshake { connection, config, verifier: chosen.verifier }))
}

/// Whether a client offers application protocols that nobody here speaks, and no other: as with OpenSSL, nothing is agreed on then,
/// where RFC 7301 (3.2) would have the handshake fail.
fn offers_others_only(hello: &ClientHello<'_>, config: &ServerConfig) -> bool {
    let mut offered = hello.application_protocols().peekable();
    let is_spoken = |name: &[u8]| config.alpn_protocols.iter().any(|own| own == name);
    offered.peek().is_some() && !offered.any(is_spoken)
}

/// What speaks where a hello should be. Who speaks TLS is told what is wrong with it.
fn other_protocol(wire: &[u8]) -> Failure {
    const METHODS: [&[u8]; 6] = [b"GET ", b"POST", b"HEAD", b"PUT ", b"CONN", b"OPTI"];
    if let [_, 3, 0..=4, rest @ ..] = wire {
        let is_too_long = matches!(rest, [high, low, ..] if u16::from_be_bytes([*high, *low]) > MAX_FRAGMENT);
        let alert = if is_too_long { Alert::RecordOverflow } else { Alert::UnexpectedMessage };
        return Failure { why: Why::NotTls, alert: Some(alert) };
    }
    let http = METHODS.iter().any(|method| wire.starts_with(method));
    Failure::because(if http { Why::PlainHttp } else { Why::NotTls })
}

/// Either side's handshake, which differ in a type only.
trait Engine {
    type Data;
    fn process<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn has_to_say(&self) -> bool;
}

impl Engine for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(wire)
    }
    fn has_to_say(&self) -> bool {
        self.wants_write()
    }
}

impl Engine for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(wire)
    }
    fn has_to_say(&self) -> bool {
        self.wants_write()
    }
}

/// Lets rustls work until it needs more bytes or is done; whether the peer has ended the session. What came for the reader
/// already is added to `plain`.
fn pump<E: Engine>(
    engine: &mut E,
    wire: &mut [u8],
    used: &mut usize,
    answer: &mut Vec<u8>,
    plain: &mut Vec<u8>,
) -> Result<bool, Failure> {
    let mut ended = false;
    loop {
        let UnbufferedStatus { discard, state } = engine.process(&mut wire[*used..]);
        *used += discard;
        match state {
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, answer)?,
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(|error| Failure::from_rustls(&error))?;
                    plain.extend_from_slice(record.payload);
                    *used += record.discard;
                }
            }
            Ok(ConnectionState::PeerClosed) => ended = true,
            Ok(_) => return Ok(ended),
            Err(error) => {
                let told = tell(engine, &mut wire[*used..], answer);
                let failure = Failure::from_rustls(&error);
                return Err(Failure { alert: failure.alert.or(told), ..failure });
            }
        }
    }
}

fn encode<D>(mut data: EncodeTlsData<'_, D>, answer: &mut Vec<u8>) -> Result<(), Failure> {
    let start = answer.len();
    loop {
        match data.encode(&mut answer[start..]) {
            Ok(written) => {
                answer.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(size)) => answer.resize(start + size.required_size, 0),
            Err(EncodeError::AlreadyEncoded) => return Err(Failure::INTERNAL),
        }
    }
}

/// Adds the alert that a failed handshake ends with; which one, if it is in clear. The engine is shown what it did not use, which it
/// leaves alone as long as it has something to say.
fn tell(engine: &mut impl Engine, wire: &mut [u8], answer: &mut Vec<u8>) -> Option<Alert> {
    let start = answer.len();
    while engine.has_to_say() {
        let Ok(ConnectionState::EncodeTlsData(data)) = engine.process(wire).state else { break };
        encode(data, answer).ok()?;
    }
    match answer[start..] {
        [21, _, _, 0, 2, _, code] => Some(Alert::from(code)),
        _ => None,
    }
}

/// What a record may carry in clear (RFC 8446, 5.1).
const MAX_FRAGMENT: u16 = 1 << 14;
/// The extension that lists versions, since TLS 1.3.
const SUPPORTED_VERSIONS: u16 = 43;
/// How long a client's hello may be: large ones carry keys of new kinds and padding.
const MAX_HELLO: usize = 1 << 16;
