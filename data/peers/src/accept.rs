//! Connections from peers to this instance: accept, TLS, greeting and log.
//!
//! ```text
//!            PROXY header    TLS         hello           status
//! accepted ──────────────► ──────► ─────────────► known ────────► converse ─► end
//!     │                                  │
//!     └── any of them is missing or late ┴─► one log line, closed
//! ```

use std::os::fd::OwnedFd;
use std::sync::Arc;

use weir_net::{Acceptor, AcceptorState, Connection, ConnectionLimit, Permit, proxy_header};
use weir_peers_protocol::{Hello, HelloStatus};
use weir_sched::{Class, Descriptor, Tick, WorkKind, now};
use weir_sys::{Address, Errno, option};
use weir_tls::{ChooseServer, openssl};

use crate::conversation::{GREETING_MS, Partner, receive_some};
use crate::section::PeersSection;
use crate::view::ListenerEvent;

static SESSION: WorkKind = WorkKind::new("peer session");

/// Accepts connections of peers.
#[derive(Clone)]
pub struct PeerAcceptor {
    /// The section that the peers connect to.
    pub section: Arc<PeersSection>,
    /// The TLS settings of the listener, if it has TLS.
    pub tls: Option<Arc<dyn ChooseServer>>,
    /// `accept-proxy`: connections begin with a PROXY header, which has the peer's address.
    pub accept_proxy: bool,
}

impl Acceptor for PeerAcceptor {
    type Ticket = Permit;

    fn state(&self) -> AcceptorState {
        if self.section.is_stopping() { AcceptorState::Stopped } else { AcceptorState::Open }
    }

    fn too_fast(&self) -> Option<Tick> {
        None
    }

    fn admit(&self) -> Result<Permit, &ConnectionLimit> {
        let limit = &self.section.connections;
        Permit::enter(Arc::clone(limit), self.section.most_connections()).ok_or(&**limit)
    }

    fn give_way(&self) {
        self.section.connections.offer();
    }

    fn enter(&self, ticket: Permit, socket: OwnedFd, mut source: Address) {
        let acceptor = self.clone();
        // Messages are already batched into large writes. With Nagle's algorithm, updates would wait up to 40 ms for
        // an acknowledgement.
        let _ = option::set_no_delay(&socket, true);
        weir_sched::spawn(&SESSION, Class::Bulk, async move {
            let _counted = ticket;
            if let Ok(descriptor) = Descriptor::register(socket) {
                descriptor.set_owner(weir_sched::current());
                if let Err(what) = acceptor.serve(Connection::privileged(descriptor), &mut source).await {
                    (acceptor.section.log)(&ListenerEvent { source: &source, is_error: true, what: &what });
                }
            }
        });
    }

    /// Ignored, because peers reconnect.
    fn exhausted(&self, _: Errno) {}
}

impl PeerAcceptor {
    /// Serves a peer until its session ends. `source` is set to the address in the PROXY header, if there is one.
    ///
    /// # Errors
    /// The log text for a connection without a session.
    async fn serve(&self, mut connection: Connection, source: &mut Address) -> Result<(), String> {
        let (section, deadline) = (&self.section, now().after(GREETING_MS));
        if self.accept_proxy {
            let announced = proxy_header::read(&mut connection, deadline, proxy_header::client).await?;
            *source = announced.unwrap_or_else(|| source.clone());
        }
        if let Some(chooser) = &self.tls {
            let session = weir_tls::TlsSession::server(Arc::clone(chooser));
            connection.shake_hands(session, deadline).await.map_err(openssl::in_words)?;
        }
        let partner = section.greeted(&mut connection, deadline).await?;
        let status = partner.err().unwrap_or(HelloStatus::Succeeded);
        let line = format!("{}\n", status.code());
        let answered = connection.send_all(line.as_bytes(), deadline).await;
        let partner = partner.map_err(|status| format!("greeting refused with status {}", status.code()))?;
        answered.ok_or("connection closed before the answer to the greeting")?;
        let who = section.name_of(partner);
        let log = |what: &str| (section.log)(&ListenerEvent { source, is_error: false, what });
        log(&format!("{who} connected"));
        section.converse(connection, partner, false).await;
        log(&format!("{who} disconnected"));
        Ok(())
    }
}

impl PeersSection {
    /// Waits for the greeting of a peer. Returns the peer, or the status to refuse it with.
    ///
    /// # Errors
    /// The log text if no greeting arrives before the deadline.
    async fn greeted(
        &self,
        connection: &mut Connection,
        deadline: Tick,
    ) -> Result<Result<Partner, HelloStatus>, &'static str> {
        loop {
            match Hello::read(connection.input()) {
                Ok(None) => {}
                Ok(Some((hello, length))) => {
                    connection.consume(length);
                    return Ok(self.partner(&hello));
                }
                Err(status) => return Ok(Err(status)),
            }
            if receive_some(connection, deadline).await.is_none() {
                return Err(match now() >= deadline {
                    true => "timeout while waiting for the greeting",
                    false => "connection closed while waiting for the greeting",
                });
            }
        }
    }

    /// The sender of this hello, or the status to refuse it with.
    fn partner(&self, hello: &Hello) -> Result<Partner, HelloStatus> {
        if *hello.remote != *self.local {
            return Err(HelloStatus::NotMe);
        }
        if self.is_stopping() {
            return Err(HelloStatus::TryAgain);
        }
        if *hello.local == *self.local {
            return Ok(Partner::Predecessor);
        }
        let position = self.peers.iter().position(|peer| *peer.name == *hello.local);
        let position = position.ok_or(HelloStatus::UnknownPeer)?;
        // If both sides open a session at the same time, both must close the same one. The session opened by the side with the
        // lesser name stays.
        if *self.local < *hello.local && self.peers[position].has_fresh_own(now()) {
            return Err(HelloStatus::TryAgain);
        }
        Ok(Partner::Peer(position))
    }

    fn name_of(&self, partner: Partner) -> String {
        match partner {
            Partner::Peer(position) => {
                format!("peer '{}'", self.peers.get(position).map_or("", |peer| &peer.name))
            }
            Partner::Predecessor => "the former process".to_owned(),
            Partner::Successor => "the next process".to_owned(),
        }
    }
}
