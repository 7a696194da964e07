//! A live `resolvers` section: its name servers, cached records and followers (servers that get their address from a name).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_backend::{Backend, BackendNews, ServerKey};
use weir_dns::{Answer, Name, RecordKind};
use weir_net::{PeerLink, TaskTurns};
use weir_sched::TaskKey;
use weir_sync::{Lock, LockLabel};
use weir_sys::Address;

use crate::course::ResolutionFailure;
use crate::followers::{self, AnswerEffects, FollowerLookup, NameFollower};
use crate::knowledge::{HoldTimes, Knowledge};
use crate::query_counters::{NameServerCounters, QueryCounter};

/// The settings of a `resolvers` section for its queries.
#[derive(Clone, Debug)]
pub struct SectionSettings {
    pub name: Arc<str>,
    /// The largest response in one datagram, in bytes.
    pub payload_size: u16,
    /// Number of query attempts before a resolution fails.
    pub retries: u32,
    /// The time between two resolutions of a name, in milliseconds.
    pub resolve_ms: u64,
    /// Timeout of a query, in milliseconds.
    pub retry_ms: u64,
    /// How long records stay valid.
    pub hold: HoldTimes,
}

/// The address families to query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    pub ipv4: bool,
    pub ipv6: bool,
    /// Query IPv6, but only while the system has an IPv6 route.
    pub ipv6_if_routed: bool,
}

/// A name server of a section, with its counters and connection limit.
#[derive(Debug)]
pub struct NameServer {
    pub name: Box<str>,
    pub address: SocketAddr,
    /// Whether the name server is queried over TCP.
    pub over_tcp: bool,
    /// How connections to the name server are opened.
    pub(crate) link: PeerLink,
    /// `maxconn`: limits the concurrent connections to the name server, if configured.
    pub(crate) connections: Option<TaskTurns>,
    pub counters: NameServerCounters,
    /// Until this time, queries are in lower case, because the name server does not preserve case.
    small_letters_until_ms: AtomicU64,
}

impl NameServer {
    /// A name server with at most `most_connections` concurrent connections, if given.
    #[must_use]
    pub fn new(name: &str, address: SocketAddr, over_tcp: bool, most_connections: Option<u32>) -> Self {
        NameServer {
            name: name.into(),
            address,
            over_tcp,
            link: PeerLink::to(Address::Inet(address)),
            connections: most_connections.map(TaskTurns::new),
            counters: NameServerCounters::default(),
            small_letters_until_ms: AtomicU64::new(0),
        }
    }

    /// Opens connections through `link`, for example with TLS (RFC 7858).
    #[must_use]
    pub fn through(self, link: PeerLink) -> Self {
        NameServer { link, ..self }
    }

    pub(crate) fn keeps_letters(&self, now_ms: u64) -> bool {
        now_ms >= self.small_letters_until_ms.load(Relaxed)
    }

    /// Records that a response did not preserve the case of the question.
    pub(crate) fn changes_letters(&self, now_ms: u64) {
        self.small_letters_until_ms.store(now_ms + SMALL_LETTERS_MS, Relaxed);
    }
}

/// How long queries are in lower case for a name server that does not preserve case, in milliseconds.
const SMALL_LETTERS_MS: u64 = 600_000;

/// A `resolvers` section, with the state of its resolutions.
pub struct ResolversSection {
    pub settings: SectionSettings,
    /// The name servers. All are queried concurrently.
    pub name_servers: Vec<NameServer>,
    pub(crate) families: Families,
    /// Limits the concurrent resolutions.
    pub(crate) turns: TaskTurns,
    state: Lock<SectionState>,
}

/// The names and followers of a section.
pub(crate) struct SectionState {
    names: HashMap<FollowerLookup, ResolvedName>,
    followers: Vec<NameFollower>,
}

/// A name with a task.
struct ResolvedName {
    known: Knowledge,
    keeper: TaskKey,
    /// Whether the task sleeps for the interval of a name with followers.
    is_followed: bool,
    /// Pending questions of `do-resolve`.
    questions: Vec<Arc<ResolveQuestion>>,
}

impl Default for ResolvedName {
    fn default() -> Self {
        ResolvedName {
            known: Knowledge::default(),
            keeper: TaskKey::NONE,
            is_followed: true,
            questions: Vec::new(),
        }
    }
}

/// A question of `do-resolve`, and the task that waits for the answer.
#[derive(Debug)]
pub struct ResolveQuestion {
    waiter: TaskKey,
    found: OnceLock<Option<IpAddr>>,
}

impl ResolveQuestion {
    /// The answer: an address, or `Some(None)` for a name without one. `None` while pending.
    #[must_use]
    pub fn answer(&self) -> Option<Option<IpAddr>> {
        self.found.get().copied()
    }
}

/// The result of a question.
pub(crate) enum QueryResult {
    /// The answer is known.
    Known(Option<IpAddr>),
    /// The name is being resolved.
    Later(Arc<ResolveQuestion>),
    /// The caller must start a task for the name.
    Begin(Arc<ResolveQuestion>),
}

/// The limit of names in a section, because clients may choose names.
const MOST_NAMES: usize = 10_000;

/// The limit of concurrent resolutions. Each uses one descriptor per name server.
const MOST_AT_ONCE: u32 = 64;

static SECTION: LockLabel = LockLabel::new("RESOLVERS");

/// Why a server's name was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameError {
    /// The server does not resolve its name through a section.
    NotResolved,
    /// The server's host comes from a service (SRV).
    FollowsService,
}

impl ResolversSection {
    /// A section that has sent no query yet.
    #[must_use]
    pub fn new(
        settings: SectionSettings,
        name_servers: Vec<NameServer>,
        families: Families,
        followers: Vec<NameFollower>,
    ) -> Self {
        let state = SectionState { names: HashMap::new(), followers };
        let turns = TaskTurns::new(MOST_AT_ONCE);
        ResolversSection { settings, name_servers, families, turns, state: Lock::new(state, &SECTION) }
    }

    /// The follower of a server in this section, if any.
    #[must_use]
    pub fn follower(&self, backend: &Arc<Backend>, server: ServerKey) -> Option<NameFollower> {
        self.state.lock().followers.iter().find(|follower| follower.is(backend, server)).cloned()
    }

    /// Makes a server follow another name. Returns the previous name, or `None` for a server of another section.
    pub(crate) fn rename(
        &self,
        backend: &Arc<Backend>,
        server: ServerKey,
        name: &Name,
    ) -> Option<Result<Option<Name>, RenameError>> {
        let mut state = self.state.lock();
        let follower = state.followers.iter_mut().find(|follower| follower.is(backend, server))?;
        if follower.service.is_some() {
            return Some(Err(RenameError::FollowsService));
        }
        Some(Ok(follower.name.replace(name.clone())))
    }

    /// Followed names without a task. The caller must start their tasks.
    pub(crate) fn unkept(&self) -> Vec<FollowerLookup> {
        let mut state = self.state.lock();
        let SectionState { names, followers, .. } = &mut *state;
        let mut found = Vec::new();
        for lookup in followers.iter().flat_map(NameFollower::wants) {
            match names.get_mut(&lookup) {
                None => {
                    names.insert(lookup.clone(), ResolvedName::default());
                    found.push(lookup);
                }
                // The task slept as for `do-resolve` only. A server needs an earlier wake-up.
                Some(entry) if !entry.is_followed => {
                    entry.is_followed = true;
                    weir_sched::wake(entry.keeper);
                }
                Some(_) => {}
            }
        }
        found
    }

    /// Updates the servers after a resolution. `by` is the name server that responded.
    pub(crate) fn conclude(
        &self,
        lookup: &FollowerLookup,
        outcome: Result<(Answer, usize), ResolutionFailure>,
        now_ms: u64,
    ) -> Vec<BackendNews> {
        let mut state = self.state.lock();
        let SectionState { names, followers, .. } = &mut *state;
        let Some(entry) = names.get_mut(lookup) else { return Vec::new() };
        let hold = &self.settings.hold;
        let server = outcome.as_ref().ok().and_then(|(_, server)| self.name_servers.get(*server));
        match outcome {
            Ok((answer, _)) => entry.known.learn(answer, hold, now_ms),
            Err(failure) => entry.known.fail(failure, hold, now_ms),
        }
        entry.known.forget(hold, now_ms);
        let address = preferred(&entry.known, lookup).filter(|_| entry.known.failure().is_none());
        for question in entry.questions.drain(..) {
            // This is the only place that sets the answer, so `set` succeeds.
            let _ = question.found.set(address);
            weir_sched::wake(question.waiter);
        }
        let by = server.map(|server| format!("{}/{}", self.settings.name, server.name));
        let followed = follow(followers, lookup, &entry.known, by.as_deref().unwrap_or("DNS cache"), now_ms);
        if let Some(server) = server
            && followed.updates > 0
        {
            server.counters.count(QueryCounter::Updates);
        }
        followed.news
    }

    /// Looks up a name for a task, which is woken when the answer is known.
    pub(crate) fn look_up(&self, lookup: &FollowerLookup, waiter: TaskKey, now_ms: u64) -> QueryResult {
        let mut state = self.state.lock();
        let question = Arc::new(ResolveQuestion { waiter, found: OnceLock::new() });
        if let Some(entry) = state.names.get_mut(lookup) {
            if entry.known.is_fresh(&self.settings.hold, now_ms) {
                return QueryResult::Known(preferred(&entry.known, lookup));
            }
            entry.questions.push(Arc::clone(&question));
            weir_sched::wake(entry.keeper);
            return QueryResult::Later(question);
        }
        if state.names.len() >= MOST_NAMES {
            return QueryResult::Known(None);
        }
        let entry = ResolvedName { questions: vec![Arc::clone(&question)], ..ResolvedName::default() };
        state.names.insert(lookup.clone(), entry);
        QueryResult::Begin(question)
    }

    /// Records that this task resolves a name.
    pub(crate) fn keep(&self, lookup: &FollowerLookup, keeper: TaskKey) {
        if let Some(entry) = self.state.lock().names.get_mut(lookup) {
            entry.keeper = keeper;
        }
    }

    /// When a name is resolved next. At once if a question is pending.
    pub(crate) fn rests_until(&self, lookup: &FollowerLookup, concluded_ms: u64) -> u64 {
        let mut state = self.state.lock();
        let SectionState { names, followers, .. } = &mut *state;
        let Some(entry) = names.get_mut(lookup) else { return concluded_ms };
        let is_followed = followers.iter().flat_map(NameFollower::wants).any(|other| other == *lookup);
        entry.is_followed = is_followed;
        match () {
            () if !entry.questions.is_empty() => concluded_ms,
            () if is_followed => concluded_ms + self.settings.resolve_ms,
            () if entry.known.holds() => concluded_ms + self.settings.hold.valid_ms,
            () => concluded_ms,
        }
    }

    /// Whether a name is still needed. If not, it is removed.
    pub(crate) fn is_kept(&self, lookup: &FollowerLookup) -> bool {
        let mut state = self.state.lock();
        let is_queried = state.names.get(lookup).is_some_and(|entry| !entry.questions.is_empty());
        let is_wanted =
            is_queried || state.followers.iter().flat_map(NameFollower::wants).any(|other| other == *lookup);
        if !is_wanted {
            state.names.remove(lookup);
        }
        is_wanted
    }
}

/// The address returned to `do-resolve`.
fn preferred(known: &Knowledge, lookup: &FollowerLookup) -> Option<IpAddr> {
    let is_preferred = |address: &IpAddr| address.is_ipv4() == (lookup.first == RecordKind::A);
    known.addresses().find(is_preferred).or_else(|| known.addresses().next())
}

fn follow(
    followers: &mut [NameFollower],
    lookup: &FollowerLookup,
    known: &Knowledge,
    by: &str,
    now_ms: u64,
) -> AnswerEffects {
    match lookup.first {
        RecordKind::Srv => followers::follow_services(followers, &lookup.name, known, now_ms),
        RecordKind::A | RecordKind::Aaaa => followers::follow_addresses(followers, lookup, known, by, now_ms),
    }
}

impl std::fmt::Debug for ResolversSection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Section").field("name", &self.settings.name).finish_non_exhaustive()
    }
}
