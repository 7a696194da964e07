//! A live `peers` section: its peers and its state.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_net::ConnectionLimit;
use weir_net::PeerLink;
use weir_sched::{TaskKey, Tick, now};

use crate::learning::Learning;
use crate::session::{ControlMessage, PeerSession};
use crate::shared_table::SharedTable;
use crate::view::{LearnState, LinkState, LinkStatus, ListenerEvent, SessionView};

/// A live `peers` section: the shared tables, and the sessions with the other instances.
pub struct PeersSection {
    pub name: Box<str>,
    /// The position of this instance's own line: the index of the peer on the next line.
    pub local_position: usize,
    /// The name of this instance.
    pub local: Box<str>,
    /// How a stopping process connects to its successor. `None` if unknown.
    pub own_link: Option<PeerLink>,
    pub tables: Arc<[SharedTable]>,
    /// The other instances. A peer's index is also its audience number in the tables.
    pub peers: Vec<Peer>,
    /// `shards`: the number of key partitions. A peer may get only one partition.
    pub shards: u32,
    /// `tune.peers.max-updates-at-once`: entries sent in one scheduling round.
    pub updates_at_once: usize,
    /// Whether a previous process can send its tables to this one.
    pub has_predecessor: bool,
    /// Callback for messages to operators.
    pub report: SectionReport,
    /// Callback for events of connections from peers.
    pub log: ListenerLog,
    /// The number of connections from peers now, its maximum, and the tasks that wait for room.
    pub connections: Arc<ConnectionLimit>,
    learning: Mutex<Option<Learning>>,
    stopping: AtomicBool,
    teaching: AtomicBool,
}

/// Callback for messages to operators.
type SectionReport = Box<dyn Fn(&str) + Send + Sync>;
/// Callback for events of connections from peers.
type ListenerLog = Box<dyn Fn(&ListenerEvent<'_>) + Send + Sync>;

/// Another instance.
#[derive(Debug)]
pub struct Peer {
    pub name: Box<str>,
    /// How to connect to the peer.
    pub link: PeerLink,
    /// `shard`: the key partition that the peer gets, from 1. `None` for all keys.
    pub shard: Option<u32>,
    pub sessions: AtomicU64,
    current: Mutex<CurrentSession>,
}

/// The session with a peer. There is at most one at a time.
#[derive(Debug, Default)]
struct CurrentSession {
    /// The number of the latest session. A session with another number must close.
    number: u64,
    /// The task of the session, while one exists.
    task: Option<TaskKey>,
    /// The current session, or the last one.
    session: Option<Arc<Mutex<PeerSession>>>,
    /// Whether this instance opened the session.
    is_own: bool,
    link: LinkStatus,
}

impl Peer {
    /// A peer without a session so far.
    pub fn new(name: &str, link: PeerLink) -> Peer {
        Peer { name: name.into(), link, shard: None, sessions: AtomicU64::new(0), current: Mutex::default() }
    }

    /// Whether a session exists.
    pub fn is_connected(&self) -> bool {
        self.current().task.is_some()
    }

    /// The counters of the peer.
    pub fn link(&self) -> LinkStatus {
        self.current().link
    }

    /// The progress of the current or last session. `None` before the first. Names are copied only if `with_names`.
    pub fn session_view(&self, with_names: bool) -> Option<SessionView> {
        let session = self.current().session.clone()?;
        let view = session.lock().unwrap_or_else(PoisonError::into_inner).view(with_names);
        Some(view)
    }

    /// Updates the counters.
    pub(crate) fn note(&self, change: impl FnOnce(&mut LinkStatus)) {
        change(&mut self.current().link);
    }

    /// Whether this instance is opening a session, or has just opened one.
    pub(crate) fn has_fresh_own(&self, now: Tick) -> bool {
        let current = self.current();
        let link = &current.link;
        match link.state {
            LinkState::Greeting => true,
            LinkState::Established => {
                current.is_own && link.greeted_at.is_some_and(|at| now < at.after(CROSSING_MS))
            }
            _ => false,
        }
    }

    /// Makes this session the current one, run by the current task. Wakes the task of the previous session. `is_own`: this
    /// instance opened it. Returns the session's number.
    pub(crate) fn claim(&self, session: &Arc<Mutex<PeerSession>>, is_own: bool, now: Tick) -> u64 {
        let (number, former) = {
            let mut current = self.current();
            current.number += 1;
            current.session = Some(Arc::clone(session));
            current.is_own = is_own;
            let link = &mut current.link;
            (link.state, link.greeted_at, link.turns) = (LinkState::Established, Some(now), 0);
            let former = current.task.replace(weir_sched::current());
            current.link.collisions += u64::from(former.is_some());
            (current.number, former)
        };
        self.sessions.fetch_add(1, Relaxed);
        if let Some(former) = former {
            weir_sched::wake(former);
        }
        number
    }

    /// Whether this session number is still the latest.
    pub(crate) fn is_current(&self, number: u64) -> bool {
        self.current().number == number
    }

    /// Records the end of the session with this number.
    pub(crate) fn release(&self, number: u64) {
        let mut current = self.current();
        if current.number == number {
            current.task = None;
            current.link.state = LinkState::Lost;
            current.link.heartbeat_at = None;
        }
    }

    fn current(&self) -> MutexGuard<'_, CurrentSession> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PeersSection {
    /// A section without sessions.
    pub fn new(name: &str, local: &str, tables: Vec<SharedTable>, peers: Vec<Peer>) -> PeersSection {
        let names = |table: SharedTable| table.of_members(local, peers.iter().map(|peer| peer.name.clone()));
        let tables = tables.into_iter().map(names).collect();
        PeersSection {
            name: name.into(),
            local_position: 0,
            local: local.into(),
            own_link: None,
            tables,
            peers,
            shards: 0,
            updates_at_once: UPDATES_AT_ONCE,
            has_predecessor: false,
            report: Box::new(|_| ()),
            log: Box::new(|_| ()),
            connections: Arc::default(),
            learning: Mutex::default(),
            stopping: AtomicBool::new(false),
            teaching: AtomicBool::new(false),
        }
    }

    /// Ends all sessions and prevents new ones. Wakes the sessions' tasks.
    pub fn stop(&self) {
        self.stopping.store(true, SeqCst);
        self.wake();
    }

    /// Whether the section was stopped.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    /// Whether the successor process still needs the tables. This process stays alive until then.
    pub fn is_teaching(&self) -> bool {
        self.teaching.load(SeqCst)
    }

    pub(crate) fn set_teaching(&self, teaching: bool) {
        self.teaching.store(teaching, SeqCst);
    }

    /// Wakes the tasks of all sessions.
    pub(crate) fn wake(&self) {
        for peer in &self.peers {
            let task = peer.current().task;
            if let Some(task) = task {
                weir_sched::wake(task);
            }
        }
    }

    /// The deadline of the current step of the resync. `None` without one, such as after the resync.
    pub fn resync_until(&self) -> Option<Tick> {
        self.learning.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.ends_at()
    }

    /// The number of peers with a session or an attempt to connect, and the number with a session.
    pub fn links(&self) -> (usize, usize) {
        self.peers.iter().fold((0, 0), |(active, connected), peer| match peer.link().state {
            LinkState::Established => (active + 1, connected + 1),
            LinkState::Connecting | LinkState::Greeting => (active + 1, connected),
            LinkState::None | LinkState::Unreachable | LinkState::Refused(_) | LinkState::Lost => {
                (active, connected)
            }
        })
    }

    /// The state of learning from a peer, by its index.
    pub fn learn_state(&self, peer: usize) -> LearnState {
        let learning = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        learning.as_ref().map_or(LearnState::NotAssigned, |learning| learning.of(peer))
    }

    /// The limit of incoming connections. Each peer may have an old and a new connection.
    pub(crate) fn most_connections(&self) -> u32 {
        (self.peers.len() as u32 + 1) * 4
    }

    pub(crate) fn learning<R>(&self, look: impl FnOnce(&mut Learning, Tick) -> R) -> R {
        let now = now();
        let mut learning = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        look(learning.get_or_insert_with(|| Learning::new(self.has_predecessor, now)), now)
    }

    /// Handles a peer's control message. `None` is the previous process.
    pub(crate) fn hear(&self, who: Option<usize>, heard: ControlMessage) {
        match heard {
            ControlMessage::Finished => {
                self.learning(|learning, now| learning.taught(who, true, now));
                // Sums were held back until the resync was complete. They may be sent now.
                self.wake();
            }
            ControlMessage::Partial => {
                self.learning(|learning, now| learning.taught(who, false, now));
                self.wake();
            }
            ControlMessage::OtherTable { table, mismatch } => {
                let table = self.tables.get(table).map_or("", |shared| &*shared.name);
                self.say(who, &mismatch.in_words(table));
            }
            ControlMessage::Refused(_) => self.say(who, "refused a message of ours"),
            ControlMessage::Confirmed => {}
        }
    }

    fn say(&self, who: Option<usize>, what: &str) {
        let name = who.and_then(|who| self.peers.get(who)).map_or(&self.local, |peer| &peer.name);
        (self.report)(&format!("peers '{}', peer '{name}' {what}.", self.name));
    }
}

/// Longest transit time of a greeting that crosses ours, in milliseconds.
const CROSSING_MS: u64 = 1_000;
/// The default number of entries sent in one scheduling round (manual, "tune.peers.max-updates-at-once").
pub const UPDATES_AT_ONCE: usize = 200;

impl std::fmt::Debug for PeersSection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PeersSection { name, local, peers, tables, .. } = self;
        let mut shown = formatter.debug_struct("Section");
        shown.field("name", name).field("local", local).field("peers", peers).field("tables", tables);
        shown.finish_non_exhaustive()
    }
}
