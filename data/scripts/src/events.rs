//! Events that scripts subscribe to (`core.event_sub`).
//!
//! ```text
//!   a change of a server or a map ──► publish ──► the queue of each subscription ──► its task: the handler, one event after the other
//! ```
//! Publishing takes locks for a moment, and never runs Lua. A queue that is full drops events; the handler's task reports their number.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_expr::pattern::PatternEvent;
use weir_sched::TaskKey;

use crate::process::ScriptServer;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    ServerAdd,
    ServerDelete,
    ServerAddress,
    ServerUp,
    ServerDown,
    ServerState,
    ServerAdmin,
    ServerCheck,
    Pattern(PatternEvent),
}

/// A set of types: a bit for each position in the table of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventKinds(u32);

impl EventKind {
    const NAMES: [(&'static str, EventKind); 13] = [
        ("SERVER_ADD", EventKind::ServerAdd),
        ("SERVER_DEL", EventKind::ServerDelete),
        ("SERVER_INETADDR", EventKind::ServerAddress),
        ("SERVER_UP", EventKind::ServerUp),
        ("SERVER_DOWN", EventKind::ServerDown),
        ("SERVER_STATE", EventKind::ServerState),
        ("SERVER_ADMIN", EventKind::ServerAdmin),
        ("SERVER_CHECK", EventKind::ServerCheck),
        ("PAT_REF_ADD", EventKind::Pattern(PatternEvent::Added)),
        ("PAT_REF_DEL", EventKind::Pattern(PatternEvent::Deleted)),
        ("PAT_REF_SET", EventKind::Pattern(PatternEvent::Changed)),
        ("PAT_REF_COMMIT", EventKind::Pattern(PatternEvent::Committed)),
        ("PAT_REF_CLEAR", EventKind::Pattern(PatternEvent::Cleared)),
    ];

    /// The name in scripts.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

impl EventKinds {
    /// The set of one type.
    fn of(kind: EventKind) -> EventKinds {
        let position = EventKind::NAMES.iter().position(|(_, known)| *known == kind);
        EventKinds(position.map_or(0, |position| 1 << position))
    }

    /// The types with a name, or of a family (`SERVER`, `PAT_REF`). `None` if the name is unknown.
    pub(crate) fn of_name(name: &[u8]) -> Option<EventKinds> {
        let bits = |is_one: &dyn Fn(&str) -> bool| {
            let names = EventKind::NAMES.iter().filter(|(known, _)| is_one(known));
            names.fold(0, |bits, (_, kind)| bits | EventKinds::of(*kind).0)
        };
        let found = match name {
            b"SERVER" => bits(&|known| known.starts_with("SERVER_")),
            b"PAT_REF" => bits(&|known| known.starts_with("PAT_REF_")),
            _ => bits(&|known| known.as_bytes() == name),
        };
        (found != 0).then_some(EventKinds(found))
    }

    pub(crate) fn with(self, other: EventKinds) -> EventKinds {
        EventKinds(self.0 | other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn contains(self, others: EventKinds) -> bool {
        self.0 & others.0 == others.0
    }
}

/// An event of a server.
#[derive(Clone, Debug)]
pub struct ScriptEvent {
    pub kind: EventKind,
    pub data: Arc<ServerEventData>,
}

/// The data of an event of a server. Events of one change share them.
#[derive(Clone, Debug)]
pub struct ServerEventData {
    pub server: ScriptServer,
    pub name: String,
    pub id: u32,
    pub revision: u32,
    pub proxy_name: Arc<str>,
    pub proxy_id: u32,
    pub detail: EventDetail,
}

/// Further data about the change of a server.
#[derive(Clone, Debug)]
pub enum EventDetail {
    None,
    Check(CheckDetail),
    State {
        is_administrative: bool,
        check: Option<CheckDetail>,
        cause: String,
        new: &'static str,
        old: &'static str,
        requeued: u32,
    },
    Admin {
        cause: String,
        new: AdminFlags,
        old: AdminFlags,
        requeued: u32,
    },
}

/// The result of a check.
#[derive(Clone, Debug)]
pub struct CheckDetail {
    pub result: &'static str,
    pub is_agent: bool,
    pub duration_ms: u64,
    /// The short name of the status, its description, and the code of the response.
    pub status: &'static str,
    pub description: &'static str,
    pub code: Option<i32>,
    pub level: u32,
    pub rise: u32,
    pub fall: u32,
}

/// The reasons for maintenance and drain mode, by their names.
pub type AdminFlags = Box<[(&'static str, bool); 8]>;

/// An event in a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueuedEvent {
    pub kind: EventKind,
    /// `None` for events of patterns.
    pub data: Option<Arc<ServerEventData>>,
    /// The time of the event, in seconds of the wall clock.
    pub at_s: i64,
}

/// The object of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSubject {
    /// All servers. As in HAProxy, patterns have subscriptions of their own.
    Servers,
    Server(ScriptServer),
    /// The set of patterns with this number.
    Patterns(u32),
}

/// A subscription: its events wait here for its task.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub number: i64,
    subject: EventSubject,
    kinds: EventKinds,
    queue: Mutex<EventQueue>,
}

#[derive(Debug, Default)]
struct EventQueue {
    events: VecDeque<QueuedEvent>,
    dropped: u64,
    /// No further events come: the script unsubscribed, or the server was deleted.
    has_ended: bool,
    /// The task of the handler, once it runs.
    task: Option<TaskKey>,
}

/// The next work of a subscription's task.
#[derive(Debug)]
pub(crate) enum NextEvent {
    Event(QueuedEvent),
    /// So many events were dropped.
    Dropped(u64),
    Wait,
    Ended,
}

impl Subscription {
    /// The next event, for the current task.
    pub(crate) fn next(&self) -> NextEvent {
        let mut queue = lock(&self.queue);
        queue.task = Some(weir_sched::current());
        match queue.events.pop_front() {
            Some(event) => NextEvent::Event(event),
            None if queue.dropped > 0 => NextEvent::Dropped(std::mem::take(&mut queue.dropped)),
            None if queue.has_ended => NextEvent::Ended,
            None => NextEvent::Wait,
        }
    }

    fn wants(&self, subject: EventSubject, kind: EventKinds) -> bool {
        let is_watched = match (self.subject, subject) {
            (EventSubject::Servers, EventSubject::Server(_)) => true,
            (own, other) => own == other,
        };
        is_watched && self.kinds.contains(kind)
    }

    fn add(&self, event: &QueuedEvent) -> Option<TaskKey> {
        let mut queue = lock(&self.queue);
        if queue.has_ended {
            return None;
        }
        if queue.events.len() >= MOST_EVENTS {
            queue.dropped += 1;
            return None;
        }
        queue.events.push_back(event.clone());
        queue.task
    }

    /// Ends the subscription. `drops` also the events that wait.
    fn end(&self, drops: bool) -> Option<TaskKey> {
        let mut queue = lock(&self.queue);
        queue.has_ended = true;
        if drops {
            queue.events.clear();
            queue.dropped = 0;
        }
        queue.task
    }
}

/// The subscriptions of all states.
#[derive(Debug, Default)]
pub struct Subscriptions {
    all: Mutex<Vec<Arc<Subscription>>>,
    /// Their number, to be read without the lock.
    count: AtomicUsize,
    last: AtomicI64,
}

impl Subscriptions {
    /// Whether nothing is subscribed.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a subscription. `None` if there are too many.
    pub(crate) fn add(&self, subject: EventSubject, kinds: EventKinds) -> Option<Arc<Subscription>> {
        let mut all = lock(&self.all);
        if all.len() >= MOST_SUBSCRIPTIONS {
            return None;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let subscription = Arc::new(Subscription { number, subject, kinds, queue: Mutex::default() });
        all.push(Arc::clone(&subscription));
        self.count.store(all.len(), Ordering::Relaxed);
        Some(subscription)
    }

    /// Ends the subscription with this number. Nothing happens if it has ended.
    pub(crate) fn end(&self, number: i64) {
        self.end_where(true, |subscription| subscription.number == number);
    }

    /// Ends subscriptions, and wakes their tasks.
    fn end_where(&self, drops: bool, is_one: impl Fn(&Subscription) -> bool) {
        let mut tasks = Vec::new();
        {
            let mut all = lock(&self.all);
            all.retain(|subscription| {
                let ends = is_one(subscription);
                if ends {
                    tasks.extend(subscription.end(drops));
                }
                !ends
            });
            self.count.store(all.len(), Ordering::Relaxed);
        }
        tasks.into_iter().for_each(weir_sched::wake);
    }

    /// Passes an event of a server to its subscriptions. Those of a server that was deleted end behind it.
    pub fn publish(&self, event: &ScriptEvent) {
        if self.is_empty() {
            return;
        }
        let subject = EventSubject::Server(event.data.server);
        self.publish_to(subject, event.kind, Some(Arc::clone(&event.data)));
        if event.kind == EventKind::ServerDelete {
            self.end_where(false, |subscription| subscription.subject == subject);
        }
    }

    /// Passes a change of the set of patterns with this number.
    pub(crate) fn publish_patterns(&self, number: u32, event: PatternEvent) {
        if !self.is_empty() {
            self.publish_to(EventSubject::Patterns(number), EventKind::Pattern(event), None);
        }
    }

    fn publish_to(&self, subject: EventSubject, kind: EventKind, data: Option<Arc<ServerEventData>>) {
        let event = QueuedEvent { kind, data, at_s: (weir_sched::wall_us() / 1_000_000) as i64 };
        let kind = EventKinds::of(kind);
        let tasks: Vec<TaskKey> = {
            let all = lock(&self.all);
            let wanted = all.iter().filter(|subscription| subscription.wants(subject, kind));
            wanted.filter_map(|subscription| subscription.add(&event)).collect()
        };
        tasks.into_iter().for_each(weir_sched::wake);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most events that wait for one handler.
const MOST_EVENTS: usize = 1_000;
/// The most subscriptions of a process.
const MOST_SUBSCRIPTIONS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, key: u64) -> ScriptEvent {
        let server = ScriptServer { proxy: 1, key };
        let data = ServerEventData {
            server,
            name: format!("s{key}"),
            id: 1,
            revision: 0,
            proxy_name: "b".into(),
            proxy_id: 2,
            detail: EventDetail::None,
        };
        ScriptEvent { kind, data: Arc::new(data) }
    }

    fn kinds(names: &[&str]) -> EventKinds {
        names.iter().fold(EventKinds::default(), |kinds, name| {
            kinds.with(EventKinds::of_name(name.as_bytes()).expect("a known name"))
        })
    }

    fn waiting(subscription: &Subscription) -> Vec<&'static str> {
        lock(&subscription.queue).events.iter().map(|event| event.kind.name()).collect()
    }

    #[test]
    fn families_have_all_their_events() {
        let has = |set: EventKinds, kind| set.contains(EventKinds::of(kind));
        let server = kinds(&["SERVER"]);
        assert!(has(server, EventKind::ServerCheck) && has(server, EventKind::ServerAdd));
        assert!(!has(server, EventKind::Pattern(PatternEvent::Added)));
        let patterns = kinds(&["PAT_REF"]);
        assert!(has(patterns, EventKind::Pattern(PatternEvent::Cleared)));
        assert!(!has(patterns, EventKind::ServerUp));
        for unknown in ["", "SERVER_", "server_up", "PAT_REF_NONE"] {
            assert_eq!(EventKinds::of_name(unknown.as_bytes()), None, "{unknown}");
        }
    }

    #[test]
    fn events_reach_the_subscriptions_of_their_subject() {
        let all = Subscriptions::default();
        let one = EventSubject::Server(ScriptServer { proxy: 1, key: 7 });
        let every = all.add(EventSubject::Servers, kinds(&["SERVER_UP", "SERVER_DEL"])).unwrap();
        let single = all.add(one, kinds(&["SERVER"])).unwrap();
        let map = all.add(EventSubject::Patterns(3), kinds(&["PAT_REF_ADD"])).unwrap();
        all.publish(&event(EventKind::ServerUp, 7));
        all.publish(&event(EventKind::ServerUp, 8));
        all.publish(&event(EventKind::ServerDown, 7));
        all.publish_patterns(3, PatternEvent::Added);
        all.publish_patterns(3, PatternEvent::Deleted);
        all.publish_patterns(4, PatternEvent::Added);
        assert_eq!(waiting(&every), ["SERVER_UP", "SERVER_UP"]);
        assert_eq!(waiting(&single), ["SERVER_UP", "SERVER_DOWN"]);
        assert_eq!(waiting(&map), ["PAT_REF_ADD"]);
    }

    #[test]
    fn the_subscriptions_of_a_deleted_server_end_behind_its_last_event() {
        let all = Subscriptions::default();
        let one = EventSubject::Server(ScriptServer { proxy: 1, key: 7 });
        let single = all.add(one, kinds(&["SERVER_DEL"])).unwrap();
        all.publish(&event(EventKind::ServerDelete, 7));
        assert!(all.is_empty() && lock(&single.queue).has_ended);
        assert_eq!(waiting(&single), ["SERVER_DEL"]);
        // A server that takes its place is another one.
        all.publish(&event(EventKind::ServerDelete, 7));
        assert_eq!(waiting(&single), ["SERVER_DEL"]);
    }

    #[test]
    fn queues_and_subscriptions_are_bounded() {
        let all = Subscriptions::default();
        let every = all.add(EventSubject::Servers, kinds(&["SERVER"])).unwrap();
        (0..MOST_EVENTS + 5).for_each(|_| all.publish(&event(EventKind::ServerUp, 1)));
        assert_eq!((waiting(&every).len(), lock(&every.queue).dropped), (MOST_EVENTS, 5));
        (1..MOST_SUBSCRIPTIONS)
            .for_each(|_| assert!(all.add(EventSubject::Servers, kinds(&["SERVER"])).is_some()));
        assert!(all.add(EventSubject::Servers, kinds(&["SERVER"])).is_none());
        all.end(every.number);
        assert!(waiting(&every).is_empty() && all.add(EventSubject::Servers, kinds(&["SERVER"])).is_some());
    }
}
