//! Opening connections: one implementation for whoever needs one.
//!
//! ```text
//!              a socket, its options, where it       the peer took it       the proxy said yes
//!              comes from, how packets are marked
//!  ConnectPlan ──────begin──────► Connecting: awaits the peer ──► [the SOCKS4 proxy] ──► sends the greeting ──► [TLS], stands
//!                │                              │                        │                         │               │
//!                ▼                              └────────► Fault ◄───────┴─────────────────────────┴───────────────┘
//!          Fault: no descriptor, no such source           TimedOut, or what the caller found when it looked
//! ```
//!
//! The order is that of the manual: source address, interface, mark, TCP options, SOCKS4, PROXY header (the greeting, which the
//! caller writes), TLS.
//!
//! The module refuses to know why the connection is wanted: nothing of proxies, rules, retries or counters. Whoever waits is
//! asked at each wake-up whether to go on ([`Connecting::stand`]), so that a client that leaves or an operator ends the attempt.

mod options;
mod socks4;
mod source;

use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use weir_sched::{Descriptor, Tick, now, wait};
use weir_sys::{Address, Errno, option};
use weir_tls::Session;

pub use options::{ConnectOptions, SocketSizes};
pub use source::{Source, SourceAddress};

use crate::connection::{Connection, Sent};
use crate::fault::Fault;
use socks4::Handshake;

/// What a connection shall be, before there is a socket.
#[derive(Clone, Debug)]
pub struct ConnectPlan<'p> {
    /// Where it goes.
    pub target: Target,
    /// The SOCKS4 proxy that connects for us (manual, "socks4"): the socket's own peer.
    pub socks4: Option<SocketAddr>,
    /// Where it comes from.
    pub source: Source<'p>,
    /// The mark of its packets, for netfilter and routing.
    pub mark: Option<u32>,
    /// The type of service or traffic class of its packets.
    pub tos: Option<u8>,
    /// What the kernel is told of the socket.
    pub options: ConnectOptions,
}

/// Where a connection goes.
#[derive(Clone, Debug)]
pub enum Target {
    /// To an address.
    Address(Address),
    /// To whoever holds the far end of this inherited pair of sockets: it is passed one end of a new pair (`sockpair@`).
    Pair(i32),
}

/// What is sent before anybody else may use the connection: a PROXY header.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greeting<'g> {
    /// Often none.
    pub bytes: &'g [u8],
    /// More will be sent at once, and may travel in the same packet.
    pub more: bool,
}

/// Why a connection does not stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// It failed.
    Failed(Fault),
    /// The deadline is over.
    TimedOut,
}

impl From<Fault> for ConnectError {
    fn from(fault: Fault) -> Self {
        ConnectError::Failed(fault)
    }
}

impl ConnectPlan<'_> {
    /// A plan of which nothing more is said.
    pub fn to(target: Target) -> Self {
        ConnectPlan {
            target,
            socks4: None,
            source: Source::default(),
            mark: None,
            tos: None,
            options: ConnectOptions::default(),
        }
    }

    /// Makes the socket and starts to connect it. Events wake the current task.
    ///
    /// # Errors
    /// A [`Fault`] that [is a lack of descriptors](Fault::is_lack_of_descriptors) may go away: the plan can be tried again.
    pub fn begin(&self) -> Result<Connecting, Fault> {
        let (descriptor, awaits) = match (&self.target, self.socks4) {
            (Target::Pair(number), None) => {
                let pair = weir_sys::process::duplicate_number(*number)?;
                (Descriptor::register(weir_sys::pass::pass_connection(pair)?)?, Awaits::Peer(None))
            }
            (Target::Address(target), None) => (self.connect_to(target)?, Awaits::Peer(None)),
            (Target::Address(Address::Inet(target)), Some(proxy)) => {
                // The protocol has no words for any other address.
                let SocketAddr::V4(target) = target else { return Err(Errno::AFNOSUPPORT.into()) };
                (self.connect_to(&Address::Inet(proxy))?, Awaits::Peer(Some(*target)))
            }
            (_, Some(_)) => return Err(Errno::AFNOSUPPORT.into()),
        };
        descriptor.set_owner(weir_sched::current());
        Ok(Connecting { connection: Connection::new(descriptor), awaits })
    }

    fn connect_to(&self, peer: &Address) -> Result<Descriptor, Fault> {
        Ok(Descriptor::connect(self.open(peer)?, peer)?)
    }

    /// A socket that is ready to be connected to `peer`.
    fn open(&self, peer: &Address) -> Result<OwnedFd, Fault> {
        let family = peer.family();
        let socket = Descriptor::stream_socket(family)?;
        self.options.sizes.apply(&socket);
        if peer.is_unix() {
            return Ok(socket);
        }
        self.source.bind(&socket, family)?;
        // Marks need a privilege. Whoever asked for them was told at the start if it is missing.
        if let Some(mark) = self.mark {
            let _ = option::set_mark(&socket, mark);
        }
        if let Some(tos) = self.tos {
            let _ = option::set_tos(&socket, family, tos);
        }
        self.options.apply(&socket);
        Ok(socket)
    }
}

/// A connection that is being made. Dropping it gives it up.
#[derive(Debug)]
pub struct Connecting {
    connection: Connection,
    awaits: Awaits,
}

/// What is missing before the greeting may be sent.
#[derive(Debug)]
enum Awaits {
    /// The peer, which is asked to connect to that address if there is one.
    Peer(Option<SocketAddrV4>),
    /// The SOCKS4 proxy's answer.
    Proxy(Handshake),
    /// Nothing.
    Nothing,
}

impl Connecting {
    /// Returns once the connection stands and the greeting is on its way. Before each time that it waits it calls `look`, whose
    /// error ends the attempt. After an error [`into_connection`](Self::into_connection) still gives what there is.
    ///
    /// # Errors
    /// What failed, that `deadline` is over, or what `look` says.
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

    /// Goes as far as possible without waiting; true once the connection stands and the greeting is on its way. For those who wait
    /// for more than this.
    ///
    /// # Errors
    /// What failed.
    pub fn advance(&mut self, greeting: Greeting<'_>) -> Result<bool, Fault> {
        let stands = self.connects()?;
        if stands {
            self.greet(greeting)?;
        }
        Ok(stands)
    }

    /// Begins the handshake of TLS on a connection that stands. Until [`end_tls`](Self::end_tls) the current task is heavy work.
    pub fn begin_tls(&mut self, session: Session) {
        self.connection.begin_tls(session);
    }

    /// Goes on with the handshake as far as possible without waiting; true once it is made.
    ///
    /// # Errors
    /// What failed.
    pub fn advance_tls(&mut self) -> Result<bool, Fault> {
        self.connection.advance_tls().map_err(|failure| Fault::Tls(failure.why))
    }

    /// The handshake is made, or given up.
    pub fn end_tls(&mut self) {
        self.connection.end_tls();
    }

    /// The connection: one that stands, after [`stand`](Self::stand) said so.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// The descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        self.connection.descriptor()
    }

    /// Whether nothing is missing any more.
    fn connects(&mut self) -> Result<bool, Fault> {
        loop {
            match &mut self.awaits {
                Awaits::Peer(by_proxy) => {
                    if !self.connection.descriptor().finish_connect()? {
                        return Ok(false);
                    }
                    self.awaits = match by_proxy {
                        Some(target) => Awaits::Proxy(Handshake::new(*target)),
                        None => Awaits::Nothing,
                    };
                }
                Awaits::Proxy(handshake) => {
                    if !handshake.advance(self.connection.descriptor())? {
                        return Ok(false);
                    }
                    self.awaits = Awaits::Nothing;
                }
                Awaits::Nothing => return Ok(true),
            }
        }
    }

    /// What does not fit leaves before anything that is sent later.
    fn greet(&mut self, greeting: Greeting<'_>) -> Result<(), Fault> {
        if greeting.bytes.is_empty() {
            return Ok(());
        }
        match self.connection.send_head(greeting.bytes, greeting.more) {
            Sent::Failed(fault) => Err(fault),
            Sent::All | Sent::Part(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
