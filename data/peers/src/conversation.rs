//! A session over a connection: the greeting, then messages both ways until a side times out, closes, or has a newer session.
//!
//! ```text
//!  [connect ─► hello ─► status] ─┐
//!                                ├─► converse: receive, answer, request, send, beat, wait ─► end
//!  [accept ─► hello ─► status] ──┘
//! ```

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_net::{Connection, PeerLink, ReceiveOutcome, SendOutcome};
use weir_peers_protocol::{Hello, HelloStatus};
use weir_sched::{Class, Tick, WorkKind, now, sleep_until, wait, yield_now};

use crate::section::{Peer, PeersSection};
use crate::session::{ControlMessage, PeerSession};
use crate::view::{LinkState, LinkStatus};

/// The timeout of a greeting, in milliseconds.
pub(crate) const GREETING_MS: u64 = 5_000;
/// A peer that sends nothing for this time counts as dead, in milliseconds.
const SILENCE_MS: u64 = 5_000;
/// A heartbeat is sent after this time without other messages, in milliseconds.
const HEARTBEAT_MS: u64 = 3_000;
/// The shortest delay before a reconnect, in milliseconds. A random time is added, so two peers do not
/// collide each time (`doc/peers.txt`).
const RECONNECT_MS: u64 = 50;
const RECONNECT_SPREAD_MS: u64 = 2_000;
/// How often an idle connector tests whether to connect, in milliseconds.
const LOOK_MS: u64 = 500;
/// How long changes are batched before they are sent, in milliseconds.
const TOGETHER_MS: u64 = 2;
/// Limit of the output queue, in bytes. No messages are added above it.
const MOST_WAITING: usize = 64 * 1024;
/// Connection attempts to the successor process, which may not listen yet.
const ATTEMPTS: usize = 3;

static CONNECTOR: WorkKind = WorkKind::new("peer connector");
static TEACHER: WorkKind = WorkKind::new("peer teacher");

/// The other side of a session.
#[derive(Clone, Copy)]
pub(crate) enum Partner {
    /// A peer, by index.
    Peer(usize),
    /// The previous process of this instance, which sends its tables.
    Predecessor,
    /// The successor process of this instance, which receives the tables.
    Successor,
}

impl PeersSection {
    /// Starts connecting to peers. Call it once, on one worker.
    pub fn start(self: &Arc<Self>) {
        for shared in &*self.tables {
            // A weak reference, because tables outlive sections.
            let section = Arc::downgrade(self);
            shared.table.on_change(move || {
                if let Some(section) = section.upgrade() {
                    section.wake();
                }
            });
        }
        self.learning(|_, _| ());
        for position in 0..self.peers.len() {
            weir_sched::spawn(&CONNECTOR, Class::Bulk, Arc::clone(self).keep_connected(position));
        }
    }

    async fn keep_connected(self: Arc<Self>, position: usize) {
        let Some(peer) = self.peers.get(position) else { return };
        while !self.is_stopping() {
            if peer.is_connected() || self.learning(|learning, now| learning.awaits_local(now)) {
                sleep_until(now().after(LOOK_MS)).await;
                continue;
            }
            peer.note(|link| {
                (link.state, link.reconnect_at) = (LinkState::Connecting, None);
                link.attempts += 1;
            });
            let greeted = || {
                if !peer.is_connected() {
                    peer.note(|link| link.state = LinkState::Greeting);
                }
            };
            let connected = self.connect(&peer.link, &peer.name, greeted).await;
            // If the peer opened a session meanwhile, that session is kept.
            if !peer.is_connected() {
                match connected {
                    Ok(connection) => self.converse(connection, Partner::Peer(position), true).await,
                    Err(state) => peer.note(|link| link.state = state),
                }
            }
            let pause = RECONNECT_MS + weir_sched::random() % RECONNECT_SPREAD_MS;
            let next = now().after(pause);
            peer.note(|link| link.reconnect_at = Some(next));
            sleep_until(next).await;
        }
    }

    /// Connects to a peer, sends the greeting, calls `greeted` and waits for the status. The error is the resulting link state.
    async fn connect(
        &self,
        link: &PeerLink,
        name: &str,
        greeted: impl Fn(),
    ) -> Result<Connection, LinkState> {
        let deadline = now().after(GREETING_MS);
        let hello =
            Hello { minor: 1, remote: name.into(), local: (*self.local).into(), process: std::process::id() };
        let opened = link.open(hello.to_text().as_bytes(), deadline).await;
        let mut connection = opened.map_err(|_| LinkState::Unreachable)?;
        greeted();
        loop {
            if let Some((status, length)) = HelloStatus::read(connection.input()) {
                connection.consume(length);
                return match status {
                    HelloStatus::Succeeded => Ok(connection),
                    refused => Err(LinkState::Refused(refused.code())),
                };
            }
            receive_some(&mut connection, deadline).await.ok_or(LinkState::Greeting)?;
        }
    }

    /// Stops, and makes worker 0 send all tables to the successor ([`teach_successor`](Self::teach_successor)). From any worker.
    pub fn leave(self: &Arc<Self>) {
        self.stop();
        self.set_teaching(true);
        let section = Arc::clone(self);
        let begun = weir_sched::send_to(0, || {
            weir_sched::spawn(&TEACHER, Class::Bulk, async move {
                section.teach_successor().await;
                section.set_teaching(false);
            });
        });
        if begun.is_err() {
            self.set_teaching(false);
        }
    }

    /// Sends all tables to the successor process of this instance. Returns after it has confirmed them, or if it does
    /// not exist.
    pub async fn teach_successor(&self) {
        let Some(link) = &self.own_link else { return };
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                sleep_until(now().after(RECONNECT_MS)).await;
            }
            if let Ok(connection) = self.connect(link, &self.local, || ()).await {
                return self.converse(connection, Partner::Successor, true).await;
            }
        }
    }

    /// Runs a session until it ends. `is_own`: this instance opened it.
    pub(crate) async fn converse(&self, connection: Connection, partner: Partner, is_own: bool) {
        let position = match partner {
            Partner::Peer(position) => Some(position),
            Partner::Predecessor | Partner::Successor => None,
        };
        let peer = position.and_then(|position| self.peers.get(position));
        let name = peer.map_or(&self.local, |peer| &peer.name);
        let session =
            PeerSession::new(Arc::clone(&self.tables), position).named(&format!("{}/{name}", self.name));
        let session = match peer.and_then(|peer| peer.shard) {
            Some(shard) => session.of_part(shard, self.shards),
            None => session,
        };
        let session = Arc::new(Mutex::new(session));
        let is_first = peer.is_none_or(|peer| peer.sessions.load(Relaxed) == 0);
        let number = peer.map(|peer| peer.claim(&session, is_own, now()));
        let mut out = Vec::new();
        lock(&session).begin(is_first, &mut out);
        let mut conversation = PeerConversation {
            section: self,
            partner,
            peer: peer.zip(number),
            connection,
            session,
            out,
            sent: 0,
            heard_at: now(),
            said_at: now(),
            send_at: now(),
            is_over: false,
        };
        conversation.run(position).await;
        conversation.session().end();
        if let (Some(peer), Some(number)) = (peer, number) {
            peer.release(number);
        }
        if !matches!(partner, Partner::Successor) {
            self.learning(|learning, now| learning.lost(position, now));
            self.wake();
        }
    }
}

/// A session and its connection.
struct PeerConversation<'s> {
    section: &'s PeersSection,
    partner: Partner,
    /// The peer, and the number of this session.
    peer: Option<(&'s Peer, u64)>,
    connection: Connection,
    /// Shared, because the runtime API reads it from any worker.
    session: Arc<Mutex<PeerSession>>,
    /// The output queue. Its first `sent` bytes are already sent.
    out: Vec<u8>,
    sent: usize,
    heard_at: Tick,
    said_at: Tick,
    /// The next time to send changes.
    send_at: Tick,
    /// Whether the successor has confirmed all tables.
    is_over: bool,
}

impl PeerConversation<'_> {
    fn session(&self) -> MutexGuard<'_, PeerSession> {
        lock(&self.session)
    }

    fn note(&self, change: impl FnOnce(&mut LinkStatus)) {
        if let Some((peer, number)) = self.peer
            && peer.is_current(number)
        {
            peer.note(change);
        }
    }

    async fn run(&mut self, position: Option<usize>) {
        if matches!(self.partner, Partner::Successor) {
            self.session().teach();
        }
        // Processes bytes that arrived with the greeting.
        self.take_input();
        loop {
            let Some(more_came) = self.hear(position) else { return };
            if self.is_over() {
                return;
            }
            if position.is_some_and(|position| {
                self.section.learning(|learning, now| learning.request_lesson(position, now))
            }) {
                lock(&self.session).request_all(&mut self.out);
            }
            let more_to_say = self.say();
            if !self.send() {
                return;
            }
            let now = now();
            if now >= self.heard_at.after(SILENCE_MS) {
                self.note(|link| link.silences += 1);
                return;
            }
            let heartbeat_at = self.said_at.after(HEARTBEAT_MS);
            self.note(|link| {
                link.turns += 1;
                link.heartbeat_at = Some(heartbeat_at);
            });
            if more_came || (more_to_say && self.out.is_empty()) {
                yield_now().await;
                continue;
            }
            let mut until = self.heard_at.after(SILENCE_MS).min(heartbeat_at);
            if self.send_at > now {
                until = until.min(self.send_at);
            }
            // Sums are sent once our own resync is complete.
            if let Some(learned_at) = self.section.resync_until().filter(|at| *at > now) {
                until = until.min(learned_at);
            }
            wait(until).await;
        }
    }

    fn is_over(&self) -> bool {
        let is_replaced = self.peer.is_some_and(|(peer, number)| !peer.is_current(number));
        let leaves = self.section.is_stopping() && !matches!(self.partner, Partner::Successor);
        self.is_over || is_replaced || leaves
    }

    /// Processes a limited number of received messages. True if there are more. `None` at the end of the session.
    fn hear(&mut self, position: Option<usize>) -> Option<bool> {
        let received = if self.session().has_room() {
            self.connection.receive(usize::MAX)
        } else {
            ReceiveOutcome::Nothing
        };
        match received {
            ReceiveOutcome::Bytes(_) => {
                self.heard_at = now();
                self.take_input();
            }
            ReceiveOutcome::Nothing => {}
            ReceiveOutcome::End | ReceiveOutcome::Full | ReceiveOutcome::Failed(_) => return None,
        }
        let mut is_over = false;
        let is_learning =
            position.is_none() || self.section.learning(|learning, now| !learning.is_complete(now));
        let mut session = lock(&self.session);
        session.set_learning(is_learning);
        let received_entries = session.received_entries();
        let result = session.receive(now().as_ms(), &mut self.out, |heard| {
            is_over |= heard == ControlMessage::Confirmed;
            self.section.hear(position, heard);
        });
        let is_taught = session.received_entries() != received_entries;
        drop(session);
        if let Some(position) = position
            && is_taught
        {
            self.section.learning(|learning, now| learning.entries_received(position, now));
        }
        self.is_over |= is_over && matches!(self.partner, Partner::Successor);
        if result.is_err() {
            self.note(|link| link.protocol_errors += 1);
            // Sends as much of the error message as the socket accepts.
            self.send();
        }
        result.ok()
    }

    fn take_input(&mut self) {
        let input = self.connection.input();
        let length = input.len();
        lock(&self.session).hold(input);
        self.connection.consume(length);
    }

    /// Queues updates or a heartbeat. True if more can be queued at once.
    fn say(&mut self) -> bool {
        let now = now();
        let is_full = self.out.len() - self.sent >= MOST_WAITING;
        let mut more = false;
        if !is_full && now >= self.send_at {
            let is_complete = self.section.learning(|learning, now| learning.is_complete(now));
            let before = self.out.len();
            let budget = self.section.updates_at_once;
            more = lock(&self.session).produce(budget, is_complete, now.as_ms(), &mut self.out);
            if !more && self.out.len() > before {
                self.send_at = now.after(TOGETHER_MS);
            }
        }
        if self.out.is_empty() && now >= self.said_at.after(HEARTBEAT_MS) {
            lock(&self.session).beat(&mut self.out);
        }
        more
    }

    /// Sends as much as the socket accepts. False if the connection is broken.
    fn send(&mut self) -> bool {
        if self.out.is_empty() {
            return true;
        }
        match self.connection.send(&self.out[self.sent..], false) {
            SendOutcome::All => {
                self.out.clear();
                self.sent = 0;
                self.said_at = now();
            }
            SendOutcome::Part(count) => {
                self.sent += count;
                if count > 0 {
                    self.said_at = now();
                }
            }
            SendOutcome::Failed(_) => return false,
        }
        true
    }
}

fn lock(session: &Mutex<PeerSession>) -> MutexGuard<'_, PeerSession> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for more bytes. `None` if the connection was closed or the deadline passed.
pub(crate) async fn receive_some(connection: &mut Connection, deadline: Tick) -> Option<()> {
    loop {
        match connection.receive(usize::MAX) {
            ReceiveOutcome::Bytes(_) => return Some(()),
            ReceiveOutcome::Nothing => {}
            ReceiveOutcome::End | ReceiveOutcome::Full | ReceiveOutcome::Failed(_) => return None,
        }
        if now() >= deadline {
            return None;
        }
        wait(deadline).await;
    }
}
