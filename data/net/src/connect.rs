//! Opening connections: one implementation for all callers.
//!
//! ```text
//!              a socket, its options, where it       the peer took it       the proxy said yes
//!              comes from, how packets are marked
//!  ConnectPlan ──────begin──────► Connecting: awaits the peer ──► [the SOCKS4 proxy] ──► sends the greeting ──► [TLS], stands
//!                │                              │                        │                         │               │
//!                ▼                              └────────► Fault ◄───────┴─────────────────────────┴───────────────┘
//!          Fault: no descriptor, no such source           TimedOut, or the error of `look`
//! ```
//!
//! The order is that of the manual: source address, interface, mark, TCP options, SOCKS4, PROXY header (the greeting, which the
//! caller provides), TLS.
//!
//! The module does not depend on the purpose of the connection: no proxies, rules, retries or counters. At each wake-up
//! it calls the caller's check ([`Connecting::stand`]), so that a client abort or an operator can end the attempt.

mod kept;
mod options;
mod probe;
mod socks4;
mod source;

use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use weir_sched::{ConnectStart, Descriptor, Tick, now, wait};
use weir_sys::{Address, AddressFamily, Errno, option, socket};
use weir_tls::{Facts, TlsSession};

pub use kept::keep;
pub use options::{ConnectOptions, SocketSizes};
pub use probe::Probe;
pub use source::{ConnectionSource, OwnedSource, SourceAddress};

use crate::connection::{Companion, Connection, SendOutcome};
use crate::fault::ConnectionFault;
use socks4::Handshake;

/// The settings of a connection to be opened.
#[derive(Clone, Debug)]
pub struct ConnectPlan<'p> {
    pub target: ConnectTarget,
    /// The SOCKS4 proxy to connect through (manual, "socks4"). The socket's peer is then the proxy.
    pub socks4: Option<SocketAddr>,
    pub source: ConnectionSource<'p>,
    /// The mark of its packets, for netfilter and routing.
    pub mark: Option<u32>,
    /// The type of service or traffic class of its packets.
    pub tos: Option<u8>,
    pub options: ConnectOptions,
}

/// The destination of a connection.
#[derive(Clone, Debug)]
pub enum ConnectTarget {
    Address(Address),
    /// The process at the far end of this inherited socket pair. It is passed one end of a new pair (`sockpair@`).
    Pair(i32),
}

/// Bytes sent before anything else: a PROXY header.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greeting<'g> {
    /// The bytes. Often empty.
    pub bytes: &'g [u8],
    /// Whether more data follows at once and may travel in the same packet.
    pub more: bool,
}

/// Why a connection could not be established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    Failed(ConnectionFault),
    /// The deadline passed.
    TimedOut,
}

impl From<ConnectionFault> for ConnectError {
    fn from(fault: ConnectionFault) -> Self {
        ConnectError::Failed(fault)
    }
}

impl ConnectPlan<'_> {
    /// A plan with default settings.
    pub fn to(target: ConnectTarget) -> Self {
        ConnectPlan {
            target,
            socks4: None,
            source: ConnectionSource::default(),
            mark: None,
            tos: None,
            options: ConnectOptions::default(),
        }
    }

    /// Creates the socket and starts to connect it. Its events wake the current task.
    ///
    /// # Errors
    /// A [`ConnectionFault`] that [is a lack of room](ConnectionFault::is_lack_of_room) may go away: the plan can be tried again.
    pub fn begin(&self) -> Result<Connecting, ConnectionFault> {
        self.begin_by(|socket, peer| Descriptor::connect(socket, peer).map(ConnectStart::Awaited))
    }

    /// [`begin`](Self::begin) for nearby peers. If the peer answers at once, the connection is established immediately.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin), and the peer's refusal.
    pub fn begin_now(&self) -> Result<Connecting, ConnectionFault> {
        self.begin_by(Descriptor::connect_now)
    }

    fn begin_by(
        &self,
        connect: impl FnOnce(OwnedFd, &Address) -> weir_sys::Result<ConnectStart>,
    ) -> Result<Connecting, ConnectionFault> {
        if crate::shortage::is_exhausted() {
            crate::shortage::count_refusal();
            return Err(ConnectionFault::Shortage);
        }
        let connect_to = |peer| Ok::<_, ConnectionFault>(connect(self.open(peer)?, peer)?);
        let (begun, awaits) = match (&self.target, self.socks4) {
            (ConnectTarget::Pair(number), None) => {
                let pair = weir_sys::process::duplicate_number(*number)?;
                let end = Descriptor::register(weir_sys::pass::pass_connection(pair)?)?;
                (ConnectStart::Awaited(end), GreetingEvent::Peer(None))
            }
            (ConnectTarget::Address(target), None) => (connect_to(target)?, GreetingEvent::Peer(None)),
            (ConnectTarget::Address(Address::Inet(target)), Some(proxy)) => {
                // SOCKS4 only has IPv4 addresses.
                let SocketAddr::V4(target) = target else { return Err(Errno::AFNOSUPPORT.into()) };
                (connect_to(&Address::Inet(proxy))?, GreetingEvent::Peer(Some(*target)))
            }
            (_, Some(_)) => return Err(Errno::AFNOSUPPORT.into()),
        };
        Connecting::of(begun, awaits)
    }

    /// A socket that is ready to be connected to `peer`.
    fn open(&self, peer: &Address) -> Result<OwnedFd, ConnectionFault> {
        let family = peer.family();
        let socket = self.socket(family)?;
        self.options.sizes.apply(&socket);
        if peer.is_unix() {
            return Ok(socket);
        }
        self.source.bind(&socket, family)?;
        // Marks need a capability, without which weir refuses to start (`privileges.rs` in control/process).
        if let Some(mark) = self.mark {
            let _ = option::set_mark(&socket, mark);
        }
        if let Some(tos) = self.tos {
            let _ = option::set_tos(&socket, family, tos);
        }
        self.options.apply(&socket);
        Ok(socket)
    }

    /// Falls back to a TCP socket on a kernel without MPTCP, as MPTCP itself does with a TCP-only peer (RFC 8684, 3.7).
    fn socket(&self, family: AddressFamily) -> weir_sys::Result<OwnedFd> {
        if self.options.multipath && family != AddressFamily::Unix {
            match Descriptor::multipath_socket(family) {
                Err(error) if socket::lacks_multipath(error) => {}
                made => return made,
            }
        }
        Descriptor::stream_socket(family)
    }
}

/// A connection that is being established. Dropping it cancels the attempt.
#[derive(Debug)]
pub struct Connecting {
    connection: Connection,
    awaits: GreetingEvent,
}

/// The event that must precede the greeting.
#[derive(Debug)]
enum GreetingEvent {
    /// The socket connects. With an address, the peer is a SOCKS4 proxy that must then connect there.
    Peer(Option<SocketAddrV4>),
    /// The SOCKS4 proxy replies.
    Proxy(Handshake),
    Nothing,
}

impl Connecting {
    /// Registers the socket: its events wake the current task.
    fn of(begun: ConnectStart, awaits: GreetingEvent) -> Result<Self, ConnectionFault> {
        let (descriptor, awaits) = match (begun, awaits) {
            (ConnectStart::Awaited(descriptor), awaits) => (descriptor, awaits),
            // An established connection cannot have a connect error.
            (ConnectStart::Stands(socket), GreetingEvent::Peer(None)) => {
                (registered(socket)?, GreetingEvent::Nothing)
            }
            (ConnectStart::Stands(socket), awaits) => (registered(socket)?, awaits),
        };
        descriptor.set_owner(weir_sched::current());
        Ok(Connecting { connection: Connection::privileged(descriptor), awaits })
    }

    /// Returns once the connection is established and the greeting was sent. Calls `look` before each wait. An error of
    /// `look` ends the attempt. After an error [`into_connection`](Self::into_connection) still returns the connection.
    ///
    /// # Errors
    /// The connection failed, `deadline` passed, or `look` returned an error.
    pub async fn stand<E: From<ConnectError>>(
        &mut self,
        greeting: Greeting<'_>,
        deadline: Tick,
        mut look: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        while !self.advance(greeting).map_err(ConnectError::Failed)? {
            look()?;
            if deadline <= now() {
                return Err(ConnectError::TimedOut.into());
            }
            wait(deadline).await;
        }
        Ok(())
    }

    /// Continues as far as possible without blocking. True once the connection is established and the greeting was sent. For
    /// callers that also wait for other events.
    ///
    /// # Errors
    /// The fault of the connection.
    pub fn advance(&mut self, greeting: Greeting<'_>) -> Result<bool, ConnectionFault> {
        let stands = self.connects()?;
        if stands {
            self.greet(greeting)?;
        }
        Ok(stands)
    }

    /// Begins the TLS handshake on an established connection.
    pub fn begin_tls(&mut self, session: TlsSession) {
        self.connection.begin_tls(session);
    }

    /// Continues the handshake as far as possible without blocking. True once it is complete.
    ///
    /// # Errors
    /// The fault of the connection.
    pub fn advance_tls(&mut self) -> Result<bool, ConnectionFault> {
        self.connection.advance_tls().map_err(ConnectionFault::Tls)
    }

    /// The parameters of the TLS session.
    pub fn tls(&self) -> Option<&Facts> {
        self.connection.tls()
    }

    /// Ends the handshake, complete or cancelled.
    pub fn end_tls(&mut self) {
        self.connection.end_tls();
    }

    /// Gives the connection a companion.
    pub fn accompany(&mut self, companion: Companion) {
        self.connection.accompany(companion);
    }

    /// The connection. Established if [`stand`](Self::stand) succeeded.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// The socket's descriptor, open before the connection is established.
    pub fn descriptor(&self) -> &Descriptor {
        self.connection.descriptor()
    }

    /// Whether the connection is established.
    fn connects(&mut self) -> Result<bool, ConnectionFault> {
        loop {
            match &mut self.awaits {
                GreetingEvent::Peer(by_proxy) => {
                    if !self.connection.descriptor().finish_connect()? {
                        return Ok(false);
                    }
                    self.awaits = match by_proxy {
                        Some(target) => GreetingEvent::Proxy(Handshake::new(*target)),
                        None => GreetingEvent::Nothing,
                    };
                }
                GreetingEvent::Proxy(handshake) => {
                    if !handshake.advance(self.connection.descriptor())? {
                        return Ok(false);
                    }
                    self.awaits = GreetingEvent::Nothing;
                }
                GreetingEvent::Nothing => return Ok(true),
            }
        }
    }

    /// Sends the greeting. The part that does not fit is queued before later data.
    fn greet(&mut self, greeting: Greeting<'_>) -> Result<(), ConnectionFault> {
        if greeting.bytes.is_empty() {
            return Ok(());
        }
        match self.connection.send_head(greeting.bytes, greeting.more) {
            SendOutcome::Failed(fault) => Err(fault),
            SendOutcome::All | SendOutcome::Part(_) => Ok(()),
        }
    }
}

/// Registers an established connection as not readable. The poller reports any data that the peer already sent, which is rare.
fn registered(socket: OwnedFd) -> weir_sys::Result<Descriptor> {
    let descriptor = Descriptor::register(socket)?;
    descriptor.clear_readable();
    Ok(descriptor)
}

#[cfg(test)]
mod tests;
