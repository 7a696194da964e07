//! A `resolvers` section, live: who is asked, what is known, and who follows.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_backend::{Backend, News, ServerKey};
use weir_dns::{Answer, Kind, Name};
use weir_net::Turns;
use weir_sched::TaskKey;
use weir_sync::{Lock, LockLabel};

use crate::course::Failure;
use crate::figures::{Figure, NameServerFigures};
use crate::followers::{self, Followed, Follower, Wanted};
use crate::knowledge::{HoldTimes, Knowledge};

/// How a section's name servers are asked.
#[derive(Clone, Debug)]
pub struct SectionSettings {
    /// Its name.
    pub name: Arc<str>,
    /// The largest answer in one datagram, in bytes.
    pub payload_size: u16,
    /// How often a question is asked before it failed.
    pub retries: u32,
    /// From one resolution of a name to the next, in milliseconds.
    pub resolve_ms: u64,
    /// How long an answer is waited for, in milliseconds.
    pub retry_ms: u64,
    /// How long what was known holds.
    pub hold: HoldTimes,
}

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
    /// IPv6 only while the system has a route for it.
    pub ipv6_if_routed: bool,
}

/// A name server.
#[derive(Debug)]
pub struct NameServer {
    /// Its name.
    pub name: Box<str>,
    /// Where it is.
    pub address: SocketAddr,
    /// It is asked over connections.
    pub over_tcp: bool,
    /// `maxconn`: how many connections there are at once, where that is bounded.
    pub(crate) connections: Option<Turns>,
    /// What is counted of it.
    pub figures: NameServerFigures,
    /// Until when it is asked in small letters, because it does not keep them.
    small_letters_until_ms: AtomicU64,
}

impl NameServer {
    /// One that was not asked yet. At most `most_connections` lead to it at once, if that is said.
    #[must_use]
    pub fn new(name: &str, address: SocketAddr, over_tcp: bool, most_connections: Option<u32>) -> Self {
        NameServer {
            name: name.into(),
            address,
            over_tcp,
            connections: most_connections.map(Turns::new),
            figures: NameServerFigures::default(),
            small_letters_until_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn keeps_letters(&self, now_ms: u64) -> bool {
        now_ms >= self.small_letters_until_ms.load(Relaxed)
    }

    /// It answered in other letters than those of the question.
    pub(crate) fn changes_letters(&self, now_ms: u64) {
        self.small_letters_until_ms.store(now_ms + SMALL_LETTERS_MS, Relaxed);
    }
}

/// So long a name server that does not keep letters is asked in small ones.
const SMALL_LETTERS_MS: u64 = 600_000;

/// A section.
pub struct Section {
    /// How it asks.
    pub settings: SectionSettings,
    /// Whom it asks, all at once.
    pub name_servers: Vec<NameServer>,
    pub(crate) families: Families,
    /// Resolutions that go on.
    pub(crate) turns: Turns,
    state: Lock<State>,
}

/// What a section knows.
pub(crate) struct State {
    names: HashMap<Wanted, Entry>,
    followers: Vec<Follower>,
}

/// A name that a task keeps.
struct Entry {
    known: Knowledge,
    /// The task.
    keeper: TaskKey,
    /// It rests as one that servers follow.
    is_followed: bool,
    /// Who asks for himself and waits.
    askers: Vec<Arc<Question>>,
}

impl Default for Entry {
    fn default() -> Self {
        Entry { known: Knowledge::default(), keeper: TaskKey::NONE, is_followed: true, askers: Vec::new() }
    }
}

/// A question of somebody who waits for its answer.
#[derive(Debug)]
pub struct Question {
    asker: TaskKey,
    found: OnceLock<Option<IpAddr>>,
}

impl Question {
    /// The answer, once there is one: the address, or none.
    #[must_use]
    pub fn answer(&self) -> Option<Option<IpAddr>> {
        self.found.get().copied()
    }
}

/// What comes of a question.
pub(crate) enum Asked {
    /// It is known.
    Known(Option<IpAddr>),
    /// It is being asked for.
    Later(Arc<Question>),
    /// It is to be asked for: the caller has a task keep the name.
    Begin(Arc<Question>),
}

/// So many names are kept at the same time: clients may choose them.
const MOST_NAMES: usize = 10_000;

/// So many names are resolved at the same time; each holds a descriptor a name server.
const MOST_AT_ONCE: u32 = 64;

static SECTION: LockLabel = LockLabel::new("RESOLVERS");

impl Section {
    /// A section that asks nobody yet.
    #[must_use]
    pub fn new(
        settings: SectionSettings,
        name_servers: Vec<NameServer>,
        families: Families,
        followers: Vec<Follower>,
    ) -> Self {
        let state = State { names: HashMap::new(), followers };
        let turns = Turns::new(MOST_AT_ONCE);
        Section { settings, name_servers, families, turns, state: Lock::new(state, &SECTION) }
    }

    /// What a server follows here, if it does.
    #[must_use]
    pub fn follower(&self, backend: &Arc<Backend>, server: ServerKey) -> Option<Follower> {
        self.state.lock().followers.iter().find(|follower| follower.is(backend, server)).cloned()
    }

    /// Has a server follow another name; gives the one that it followed, or nothing when it follows none here.
    pub(crate) fn rename(
        &self,
        backend: &Arc<Backend>,
        server: ServerKey,
        name: &Name,
    ) -> Option<Option<Name>> {
        let mut state = self.state.lock();
        let follower = state.followers.iter_mut().find(|follower| follower.is(backend, server))?;
        follower.is_given = false;
        Some(follower.name.replace(name.clone()))
    }

    /// The names that servers follow and nobody keeps yet; from now on the caller does.
    pub(crate) fn unkept(&self) -> Vec<Wanted> {
        let mut state = self.state.lock();
        let State { names, followers, .. } = &mut *state;
        let mut found = Vec::new();
        for wanted in followers.iter().flat_map(Follower::wants) {
            match names.get_mut(&wanted) {
                None => {
                    names.insert(wanted.clone(), Entry::default());
                    found.push(wanted);
                }
                // It rested for those who ask for themselves; a server does not wait that long.
                Some(entry) if !entry.is_followed => {
                    entry.is_followed = true;
                    weir_sched::wake(entry.keeper);
                }
                Some(_) => {}
            }
        }
        found
    }

    /// A resolution of a name is over: servers follow. `by` is the name server that answered.
    pub(crate) fn conclude(
        &self,
        wanted: &Wanted,
        outcome: Result<(Answer, usize), Failure>,
        now_ms: u64,
    ) -> Vec<News> {
        let mut state = self.state.lock();
        let State { names, followers, .. } = &mut *state;
        let Some(entry) = names.get_mut(wanted) else { return Vec::new() };
        let hold = &self.settings.hold;
        let server = outcome.as_ref().ok().and_then(|(_, server)| self.name_servers.get(*server));
        match outcome {
            Ok((answer, _)) => entry.known.learn(answer, hold, now_ms),
            Err(failure) => entry.known.fail(failure, hold, now_ms),
        }
        entry.known.forget(hold, now_ms);
        let address = preferred(&entry.known, wanted).filter(|_| entry.known.failure().is_none());
        for question in entry.askers.drain(..) {
            // Nobody else answers it.
            let _ = question.found.set(address);
            weir_sched::wake(question.asker);
        }
        let by = server.map(|server| format!("{}/{}", self.settings.name, server.name));
        let followed = follow(followers, wanted, &entry.known, by.as_deref().unwrap_or("DNS cache"), now_ms);
        if let Some(server) = server
            && followed.updates > 0
        {
            server.figures.count(Figure::Updates);
        }
        followed.news
    }

    /// Asks for a name for a task, which is woken once there is an answer.
    pub(crate) fn ask(&self, wanted: &Wanted, asker: TaskKey, now_ms: u64) -> Asked {
        let mut state = self.state.lock();
        let question = Arc::new(Question { asker, found: OnceLock::new() });
        if let Some(entry) = state.names.get_mut(wanted) {
            if entry.known.is_fresh(&self.settings.hold, now_ms) {
                return Asked::Known(preferred(&entry.known, wanted));
            }
            entry.askers.push(Arc::clone(&question));
            weir_sched::wake(entry.keeper);
            return Asked::Later(question);
        }
        if state.names.len() >= MOST_NAMES {
            return Asked::Known(None);
        }
        let entry = Entry { askers: vec![Arc::clone(&question)], ..Entry::default() };
        state.names.insert(wanted.clone(), entry);
        Asked::Begin(question)
    }

    /// From now on this task keeps a name.
    pub(crate) fn keep(&self, wanted: &Wanted, keeper: TaskKey) {
        if let Some(entry) = self.state.lock().names.get_mut(wanted) {
            entry.keeper = keeper;
        }
    }

    /// Until when a name rests; not at all when somebody waits for it.
    pub(crate) fn rests_until(&self, wanted: &Wanted, concluded_ms: u64) -> u64 {
        let mut state = self.state.lock();
        let State { names, followers, .. } = &mut *state;
        let Some(entry) = names.get_mut(wanted) else { return concluded_ms };
        let is_followed = followers.iter().flat_map(Follower::wants).any(|other| other == *wanted);
        entry.is_followed = is_followed;
        match () {
            () if !entry.askers.is_empty() => concluded_ms,
            () if is_followed => concluded_ms + self.settings.resolve_ms,
            () if entry.known.holds() => concluded_ms + self.settings.hold.valid_ms,
            () => concluded_ms,
        }
    }

    /// Whether somebody still follows a name. If nobody does it is forgotten.
    pub(crate) fn is_kept(&self, wanted: &Wanted) -> bool {
        let mut state = self.state.lock();
        let is_asked = state.names.get(wanted).is_some_and(|entry| !entry.askers.is_empty());
        let is_wanted =
            is_asked || state.followers.iter().flat_map(Follower::wants).any(|other| other == *wanted);
        if !is_wanted {
            state.names.remove(wanted);
        }
        is_wanted
    }
}

/// The address that whoever asks for himself gets.
fn preferred(known: &Knowledge, wanted: &Wanted) -> Option<IpAddr> {
    let is_preferred = |address: &IpAddr| address.is_ipv4() == (wanted.first == Kind::A);
    known.addresses().find(is_preferred).or_else(|| known.addresses().next())
}

fn follow(followers: &mut [Follower], wanted: &Wanted, known: &Knowledge, by: &str, now_ms: u64) -> Followed {
    match wanted.first {
        Kind::Srv => followers::follow_services(followers, &wanted.name, known, now_ms),
        Kind::A | Kind::Aaaa => followers::follow_addresses(followers, wanted, known, by, now_ms),
    }
}

impl std::fmt::Debug for Section {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Section").field("name", &self.settings.name).finish_non_exhaustive()
    }
}
