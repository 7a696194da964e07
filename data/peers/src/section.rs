//! A `peers` section while it is live: who there is, and what is known of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_net::ConnectionLimit;
use weir_sched::{TaskKey, Tick, now};
use weir_sys::Address;

use crate::learning::Learning;
use crate::session::Heard;
use crate::shared_table::SharedTable;

/// A `peers` section.
pub struct Section {
    /// Its name.
    pub name: Box<str>,
    /// What this instance is called.
    pub local: Box<str>,
    /// Where peers connect to it: where a process that leaves finds the next one. None if that is not known.
    pub own_address: Option<Address>,
    /// The tables that are shared.
    pub tables: Vec<SharedTable>,
    /// The other instances. The position of each is the audience of the tables that it is.
    pub peers: Vec<Peer>,
    /// `tune.peers.max-updates-at-once`: entries that are told in one turn.
    pub updates_at_once: usize,
    /// A former process is there to teach this one.
    pub has_predecessor: bool,
    /// Hears what operators should know.
    pub report: Report,
    /// Connections of peers to this instance.
    pub connections: ConnectionLimit,
    learning: Mutex<Option<Learning>>,
    stopping: AtomicBool,
    teaching: AtomicBool,
}

/// Hears what operators should know.
type Report = Box<dyn Fn(&str) + Send + Sync>;

/// Another instance.
#[derive(Debug)]
pub struct Peer {
    /// Its name.
    pub name: Box<str>,
    /// Where it is.
    pub address: Address,
    /// Sessions so far.
    pub sessions: AtomicU64,
    current: Mutex<Current>,
}

/// The session with a peer: there is one at most.
#[derive(Debug, Default)]
struct Current {
    /// The number of the session that came last. Whoever has another one is over.
    number: u64,
    /// The task of it; none while there is none.
    task: Option<TaskKey>,
}

impl Peer {
    /// An instance that nobody talked to.
    pub fn new(name: &str, address: Address) -> Peer {
        Peer { name: name.into(), address, sessions: AtomicU64::new(0), current: Mutex::default() }
    }

    /// Whether there is a session.
    pub fn is_connected(&self) -> bool {
        self.current().task.is_some()
    }

    /// The current task has the session from now on; whoever had it hears of that. Its number.
    pub(crate) fn claim(&self) -> u64 {
        let (number, former) = {
            let mut current = self.current();
            current.number += 1;
            (current.number, current.task.replace(weir_sched::current()))
        };
        self.sessions.fetch_add(1, Relaxed);
        if let Some(former) = former {
            weir_sched::wake(former);
        }
        number
    }

    /// Whether the session of that number goes on.
    pub(crate) fn is_current(&self, number: u64) -> bool {
        self.current().number == number
    }

    /// The session of that number is over.
    pub(crate) fn release(&self, number: u64) {
        let mut current = self.current();
        if current.number == number {
            current.task = None;
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Section {
    /// A section in which nothing has happened.
    pub fn new(name: &str, local: &str, tables: Vec<SharedTable>, peers: Vec<Peer>) -> Section {
        Section {
            name: name.into(),
            local: local.into(),
            own_address: None,
            tables,
            peers,
            updates_at_once: UPDATES_AT_ONCE,
            has_predecessor: false,
            report: Box::new(|_| ()),
            connections: ConnectionLimit::new(),
            learning: Mutex::default(),
            stopping: AtomicBool::new(false),
            teaching: AtomicBool::new(false),
        }
    }

    /// No session goes on, none begins. Whoever has one hears of that.
    pub fn stop(&self) {
        self.stopping.store(true, SeqCst);
        self.wake();
    }

    /// Whether the process leaves.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    /// Whether the next process is still to be taught: this one stays until then.
    pub fn is_teaching(&self) -> bool {
        self.teaching.load(SeqCst)
    }

    pub(crate) fn set_teaching(&self, teaching: bool) {
        self.teaching.store(teaching, SeqCst);
    }

    /// Lets every session look at what there is to do.
    pub(crate) fn wake(&self) {
        for peer in &self.peers {
            let task = peer.current().task;
            if let Some(task) = task {
                weir_sched::wake(task);
            }
        }
    }

    /// How connections to us are limited: each peer may have an old one and a new one.
    pub(crate) fn most_connections(&self) -> u32 {
        (self.peers.len() as u32 + 1) * 4
    }

    pub(crate) fn learning<R>(&self, look: impl FnOnce(&mut Learning, Tick) -> R) -> R {
        let now = now();
        let mut learning = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        look(learning.get_or_insert_with(|| Learning::new(self.has_predecessor, now)), now)
    }

    /// A peer said something that is not about entries; none is the former process.
    pub(crate) fn hear(&self, who: Option<usize>, heard: Heard) {
        match heard {
            Heard::Finished => self.learning(|learning, now| learning.taught(who, true, now)),
            Heard::Partial => {
                self.learning(|learning, now| learning.taught(who, false, now));
                self.wake();
            }
            Heard::OtherTable => {
                self.say(who, "has a table of a name of ours with other keys: it is not shared")
            }
            Heard::Refused(_) => self.say(who, "does not understand what it was told"),
            Heard::Confirmed => {}
        }
    }

    fn say(&self, who: Option<usize>, what: &str) {
        let name = who.and_then(|who| self.peers.get(who)).map_or(&self.local, |peer| &peer.name);
        (self.report)(&format!("peers '{}', peer '{name}' {what}.", self.name));
    }
}

/// Entries that are told in one turn until somebody says (manual, "tune.peers.max-updates-at-once").
pub const UPDATES_AT_ONCE: usize = 200;

impl std::fmt::Debug for Section {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Section { name, local, peers, tables, .. } = self;
        let mut shown = formatter.debug_struct("Section");
        shown.field("name", name).field("local", local).field("peers", peers).field("tables", tables);
        shown.finish_non_exhaustive()
    }
}
