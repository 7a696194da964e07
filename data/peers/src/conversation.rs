//! A session over a connection: greeting, then messages both ways until somebody is silent for too long, leaves or is replaced.
//!
//! ```text
//!  [connect ─► hello ─► status] ─┐
//!                                ├─► converse: receive, answer, ask, tell, beat, wait ─► end
//!  [accept ─► hello ─► status] ──┘
//! ```

use std::os::fd::OwnedFd;

use weir_net::{
    Acceptor, AcceptorState, ConnectError, ConnectPlan, Connection, ConnectionLimit, Greeting, Permit,
    Received, Sent, Target,
};
use weir_peer_messages::{Hello, Status};
use weir_sched::{Class, Descriptor, Kind, Tick, now, sleep_until, wait, yield_now};
use weir_sys::{Address, Errno};

use crate::section::{Peer, Section};
use crate::session::{Heard, Session};

/// A greeting takes no longer.
const GREETING_MS: u64 = 5_000;
/// Who is silent for so long is gone.
const SILENCE_MS: u64 = 5_000;
/// Who has nothing to say for so long says that it is there.
const HEARTBEAT_MS: u64 = 3_000;
/// Before a peer is connected to again: at random, so that two do not meet each time (`doc/peers.txt`).
const RECONNECT_MS: u64 = 50;
const RECONNECT_SPREAD_MS: u64 = 2_000;
/// How long a connector that has nothing to do waits.
const LOOK_MS: u64 = 500;
/// What changes within this time is told together.
const TOGETHER_MS: u64 = 2;
/// Nothing more is told while so many bytes wait to leave.
const MOST_WAITING: usize = 64 * 1024;
/// The next process may need a moment until it listens; after so many attempts there is none.
const ATTEMPTS: usize = 3;

static CONNECTOR: Kind = Kind::new("peer connector");
static TEACHER: Kind = Kind::new("peer teacher");
static SESSION: Kind = Kind::new("peer session");

/// Who is at the other end.
#[derive(Clone, Copy)]
enum Partner {
    /// A peer, by position.
    Peer(usize),
    /// The former process of this instance, which teaches us.
    Predecessor,
    /// The next process of this instance, which we teach.
    Successor,
}

impl Section {
    /// Begins to connect to peers. To be called once, on one worker.
    pub fn start(&'static self) {
        for shared in &self.tables {
            shared.table.on_change(|| self.wake());
        }
        self.learning(|_, _| ());
        for (position, peer) in self.peers.iter().enumerate() {
            weir_sched::spawn(&CONNECTOR, Class::Bulk, self.keep_connected(position, peer));
        }
    }

    async fn keep_connected(&'static self, position: usize, peer: &'static Peer) {
        while !self.is_stopping() {
            if peer.is_connected() || self.learning(|learning, now| learning.awaits_local(now)) {
                sleep_until(now().after(LOOK_MS)).await;
                continue;
            }
            if let Some(connection) = self.connect(&peer.address, &peer.name).await
                // Whoever connected to us meanwhile has the session.
                && !peer.is_connected()
            {
                self.converse(connection, Partner::Peer(position)).await;
            }
            let pause = RECONNECT_MS + weir_sched::random() % RECONNECT_SPREAD_MS;
            sleep_until(now().after(pause)).await;
        }
    }

    /// A connection to a peer that wants to talk to us.
    async fn connect(&self, address: &Address, name: &str) -> Option<Connection> {
        let deadline = now().after(GREETING_MS);
        let plan = ConnectPlan::to(Target::Address(address.clone()));
        let hello =
            Hello { minor: 1, remote: name.into(), local: (*self.local).into(), process: std::process::id() };
        let greeting = hello.to_text();
        let greeting = Greeting { bytes: greeting.as_bytes(), more: false };
        let mut connecting = plan.begin().ok()?;
        connecting.stand(greeting, deadline, || Ok::<(), ConnectError>(())).await.ok()?;
        let mut connection = connecting.into_connection();
        loop {
            if let Some((status, length)) = Status::read(connection.input()) {
                connection.consume(length);
                return (status == Status::Succeeded).then_some(connection);
            }
            receive_some(&mut connection, deadline).await?;
        }
    }

    /// Stops, and teaches the next process on worker 0 as [`teach_successor`](Self::teach_successor) does. From any worker.
    pub fn leave(&'static self) {
        self.stop();
        self.set_teaching(true);
        let begun = weir_sched::send_to(0, || {
            weir_sched::spawn(&TEACHER, Class::Bulk, async {
                self.teach_successor().await;
                self.set_teaching(false);
            });
        });
        if begun.is_err() {
            self.set_teaching(false);
        }
    }

    /// Tells the next process of this instance everything. Returns once it has it, or if there is none.
    pub async fn teach_successor(&'static self) {
        let Some(address) = &self.own_address else { return };
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                sleep_until(now().after(RECONNECT_MS)).await;
            }
            if let Some(connection) = self.connect(address, &self.local).await {
                return self.converse(connection, Partner::Successor).await;
            }
        }
    }

    /// Greets whoever connected.
    async fn answer(&'static self, mut connection: Connection) {
        let deadline = now().after(GREETING_MS);
        let partner = loop {
            match Hello::read(connection.input()) {
                Ok(None) => {}
                Ok(Some((hello, length))) => {
                    connection.consume(length);
                    break self.partner(&hello);
                }
                Err(status) => break Err(status),
            }
            if receive_some(&mut connection, deadline).await.is_none() {
                return;
            }
        };
        let status = partner.err().unwrap_or(Status::Succeeded);
        let line = format!("{}\n", status.code());
        if connection.send_all(line.as_bytes(), deadline).await.is_some()
            && let Ok(partner) = partner
        {
            self.converse(connection, partner).await;
        }
    }

    /// Who says this hello.
    fn partner(&self, hello: &Hello) -> Result<Partner, Status> {
        if *hello.remote != *self.local {
            return Err(Status::NotMe);
        }
        if self.is_stopping() {
            return Err(Status::TryAgain);
        }
        if *hello.local == *self.local {
            return Ok(Partner::Predecessor);
        }
        let position = self.peers.iter().position(|peer| *peer.name == *hello.local);
        position.map(Partner::Peer).ok_or(Status::UnknownPeer)
    }

    /// Talks until it is over.
    async fn converse(&'static self, connection: Connection, partner: Partner) {
        let position = match partner {
            Partner::Peer(position) => Some(position),
            Partner::Predecessor | Partner::Successor => None,
        };
        let peer = position.and_then(|position| self.peers.get(position));
        let number = peer.map(Peer::claim);
        let mut conversation = Conversation {
            section: self,
            partner,
            peer: peer.zip(number),
            connection,
            session: Session::new(&self.tables, position),
            out: Vec::new(),
            sent: 0,
            heard_at: now(),
            said_at: now(),
            tell_at: now(),
            is_over: false,
        };
        conversation.run(position).await;
        conversation.session.end();
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
struct Conversation {
    section: &'static Section,
    partner: Partner,
    /// The peer, and the number of this session.
    peer: Option<(&'static Peer, u64)>,
    connection: Connection,
    session: Session,
    /// What is to be sent, and how much of it was.
    out: Vec<u8>,
    sent: usize,
    heard_at: Tick,
    said_at: Tick,
    /// When changes are told again.
    tell_at: Tick,
    /// The lesson for the next process arrived.
    is_over: bool,
}

impl Conversation {
    async fn run(&mut self, position: Option<usize>) {
        if matches!(self.partner, Partner::Successor) {
            self.session.teach();
        }
        // What came with the greeting.
        self.take_input();
        loop {
            let Some(more_came) = self.hear(position) else { return };
            if self.is_over() {
                return;
            }
            if position
                .is_some_and(|position| self.section.learning(|learning, now| learning.ask(position, now)))
            {
                self.session.ask(&mut self.out);
            }
            let more_to_say = self.say();
            if !self.send() {
                return;
            }
            let now = now();
            if now >= self.heard_at.after(SILENCE_MS) {
                return;
            }
            if more_came || (more_to_say && self.out.is_empty()) {
                yield_now().await;
                continue;
            }
            let mut until = self.heard_at.after(SILENCE_MS).min(self.said_at.after(HEARTBEAT_MS));
            if self.tell_at > now {
                until = until.min(self.tell_at);
            }
            wait(until).await;
        }
    }

    fn is_over(&self) -> bool {
        let is_replaced = self.peer.is_some_and(|(peer, number)| !peer.is_current(number));
        let leaves = self.section.is_stopping() && !matches!(self.partner, Partner::Successor);
        self.is_over || is_replaced || leaves
    }

    /// Reads what came: a limited number of messages, and whether there are more. None when nothing will come any more.
    fn hear(&mut self, position: Option<usize>) -> Option<bool> {
        let received =
            if self.session.has_room() { self.connection.receive(usize::MAX) } else { Received::Nothing };
        match received {
            Received::Bytes(_) => {
                self.heard_at = now();
                self.take_input();
            }
            Received::Nothing => {}
            Received::End | Received::Full | Received::Failed(_) => return None,
        }
        let mut is_over = false;
        let told = self.session.told();
        let result = self.session.receive(now().as_ms(), &mut self.out, |heard| {
            is_over |= heard == Heard::Confirmed;
            self.section.hear(position, heard);
        });
        if let Some(position) = position
            && self.session.told() != told
        {
            self.section.learning(|learning, now| learning.told(position, now));
        }
        self.is_over |= is_over && matches!(self.partner, Partner::Successor);
        if result.is_err() {
            // Why is said as far as the socket takes it.
            self.send();
        }
        result.ok()
    }

    fn take_input(&mut self) {
        let input = self.connection.input();
        let length = input.len();
        self.session.hold(input);
        self.connection.consume(length);
    }

    /// Adds what there is to tell, or a sign of life. True if there is more to tell at once.
    fn say(&mut self) -> bool {
        let now = now();
        let is_full = self.out.len() - self.sent >= MOST_WAITING;
        let mut more = false;
        if !is_full && now >= self.tell_at {
            let is_complete = self.section.learning(|learning, now| learning.is_complete(now));
            let before = self.out.len();
            let budget = self.section.updates_at_once;
            more = self.session.produce(budget, is_complete, now.as_ms(), &mut self.out);
            if !more && self.out.len() > before {
                self.tell_at = now.after(TOGETHER_MS);
            }
        }
        if self.out.is_empty() && now >= self.said_at.after(HEARTBEAT_MS) {
            self.session.beat(&mut self.out);
        }
        more
    }

    /// Sends what the socket takes. False if the connection is broken.
    fn send(&mut self) -> bool {
        if self.out.is_empty() {
            return true;
        }
        match self.connection.send(&self.out[self.sent..], false) {
            Sent::All => {
                self.out.clear();
                self.sent = 0;
                self.said_at = now();
            }
            Sent::Part(count) => {
                self.sent += count;
                if count > 0 {
                    self.said_at = now();
                }
            }
            Sent::Failed(_) => return false,
        }
        true
    }
}

/// Waits for more bytes. None when there will be none.
async fn receive_some(connection: &mut Connection, deadline: Tick) -> Option<()> {
    loop {
        match connection.receive(usize::MAX) {
            Received::Bytes(_) => return Some(()),
            Received::Nothing => {}
            Received::End | Received::Full | Received::Failed(_) => return None,
        }
        if now() >= deadline {
            return None;
        }
        wait(deadline).await;
    }
}

/// The way in for peers.
#[derive(Debug, Clone, Copy)]
pub struct PeerAcceptor(pub &'static Section);

impl Acceptor for PeerAcceptor {
    type Ticket = Permit;

    fn state(&self) -> AcceptorState {
        if self.0.is_stopping() { AcceptorState::Stopped } else { AcceptorState::Open }
    }

    fn too_fast(&self) -> Option<Tick> {
        None
    }

    fn admit(&self) -> Result<Permit, &'static ConnectionLimit> {
        self.0.connections.enter(self.0.most_connections()).ok_or(&self.0.connections)
    }

    fn give_way(&self) {
        self.0.connections.offer();
    }

    fn enter(&self, ticket: Permit, socket: OwnedFd, _: Address) {
        let section = self.0;
        weir_sched::spawn(&SESSION, Class::Bulk, async move {
            let _counted = ticket;
            if let Ok(descriptor) = Descriptor::register(socket) {
                descriptor.set_owner(weir_sched::current());
                section.answer(Connection::new(descriptor)).await;
            }
        });
    }

    /// Peers come again.
    fn exhausted(&self, _: Errno) {}
}
