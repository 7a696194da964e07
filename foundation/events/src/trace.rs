//! Traces: what a layer does, told as it does it, to whoever wants to know.
//!
//! A [`Source`] is a row next to the code that it watches: its name, its events, how much it can tell. A trace point asks
//! [`Source::is_active`] first, which is one load of a word that nobody writes and one branch that is never taken while
//! nothing is traced; all else is behind it.
//!
//! ```text
//!               start now                    an event of `stop`, stop now
//!   stopped ───────────────────► running ────────────────────────────────► stopped
//!      │                         ▲     │
//!      │ an event for `start`    │     │ an event of `pause`: the lock is dropped
//!      └─────────► waiting ──────┘◄────┘
//!                           an event of `start`: the lock is taken
//! ```
//! A source may also follow another one: whatever its own state, it tells of what the other one stuck to, as long as that
//! one runs.
//!
//! [`commands`] is the language in which operators and configurations speak about them.

pub mod commands;

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_sync::Published;

use crate::calendar::{DateCache, WallTime, utc};
use crate::sink::Sink;
use crate::syslog::LogFormat;

/// One kind of thing that a source tells of.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Its name in commands.
    pub name: &'static str,
    /// What it means, in one line.
    pub help: &'static str,
}

/// How important what is told is; higher levels tell all that lower ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Errors.
    Error,
    /// What users of the proxy understand.
    User,
    /// Messages of protocols.
    Proto,
    /// Changes of internal states.
    State,
    /// Bytes on their way.
    Data,
    /// Everything.
    Developer,
}

impl Level {
    /// All levels with their names and what each adds.
    pub const ALL: [(Level, &'static str, &'static str); 6] = [
        (Level::Error, "error", "report errors"),
        (Level::User, "user", "also information useful to the end user"),
        (Level::Proto, "proto", "also protocol-level updates"),
        (Level::State, "state", "also report internal state changes"),
        (Level::Data, "data", "also report data transfers"),
        (Level::Developer, "developer", "also report information useful only to the developer"),
    ];
}

/// How much is told of what is reported.
pub const VERBOSITIES: [(&str, &str); 6] = [
    ("quiet", "only report basic information with no decoding"),
    ("clean", "only user-friendly stuff, generally suitable for level \"user\""),
    ("minimal", "report only states and flags, no real decoding"),
    ("simple", "add request/response status line or state of buffers when available"),
    ("advanced", "add header fields or frame decoding when available"),
    ("complete", "add full data dump when available"),
];

/// What a trace may stick to, with its name in commands.
pub const CRITERIA: [(&str, &str); 9] = [
    ("backend", "lock on the backend that started the trace"),
    ("connection", "lock on the connection that started the trace"),
    ("frontend", "lock on the frontend that started the trace"),
    ("listener", "lock on the listener that started the trace"),
    ("nothing", "do not lock on anything"),
    ("server", "lock on the server that started the trace"),
    ("session", "lock on the session that started the trace"),
    ("stream", "lock on the stream that started the trace"),
    ("thread", "lock on the thread that started the trace"),
];

/// The one that sticks to nothing.
const NOTHING: u8 = 4;

/// What an event is about: numbers that a trace can stick to, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The backend.
    pub backend: u64,
    /// The client's connection.
    pub connection: u64,
    /// The frontend.
    pub frontend: u64,
    /// The listener that accepted the connection.
    pub listener: u64,
    /// The server.
    pub server: u64,
    /// The session; the same number as the connection's while a connection has one session.
    pub session: u64,
    /// The stream.
    pub stream: u64,
    /// The worker, from 1.
    pub thread: u64,
}

impl About {
    fn by(&self, criterion: u8) -> u64 {
        let numbers = [
            self.backend,
            self.connection,
            self.frontend,
            self.listener,
            0,
            self.server,
            self.session,
            self.stream,
            self.thread,
        ];
        numbers.get(usize::from(criterion)).copied().unwrap_or(0)
    }
}

/// What is told: which of a source's events, how important, about what, when.
#[derive(Clone, Copy, Debug)]
pub struct Happening {
    /// The position of the event among those of its source.
    pub event: usize,
    /// How important it is.
    pub level: Level,
    /// What it is about.
    pub about: About,
    /// When it was.
    pub time: WallTime,
}

/// Something that can be traced.
#[derive(Debug)]
pub struct Source {
    /// Its name in commands.
    pub name: &'static str,
    /// What it is, in one line.
    pub help: &'static str,
    /// What it tells of, at most 64 kinds; a trace point names them by their position.
    pub events: &'static [Event],
    /// A [`State`], and whether the source follows another one.
    state: AtomicU8,
    level: AtomicU8,
    verbosity: AtomicU8,
    criterion: AtomicU8,
    /// The number that it stuck to; 0 for none yet.
    locked: AtomicU64,
    report: AtomicU64,
    start: AtomicU64,
    pause: AtomicU64,
    stop: AtomicU64,
    sink: OnceLock<Published<Option<Arc<Sink>>>>,
    followed: OnceLock<Published<Option<&'static Source>>>,
}

/// The bit of a source's state that says that it follows another one.
const FOLLOWS: u8 = 1 << 7;

/// Whether a source tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Not at all.
    Stopped,
    /// Once an event starts it.
    Waiting,
    /// Now.
    Running,
}

impl Source {
    /// A source that tells nothing yet.
    pub const fn new(name: &'static str, help: &'static str, events: &'static [Event]) -> Self {
        assert!(events.len() <= 64, "events are bits of a word");
        Source {
            name,
            help,
            events,
            state: AtomicU8::new(State::Stopped as u8),
            level: AtomicU8::new(Level::User as u8),
            verbosity: AtomicU8::new(1),
            criterion: AtomicU8::new(NOTHING),
            locked: AtomicU64::new(0),
            report: AtomicU64::new(u64::MAX),
            start: AtomicU64::new(0),
            pause: AtomicU64::new(0),
            stop: AtomicU64::new(0),
            sink: OnceLock::new(),
            followed: OnceLock::new(),
        }
    }

    /// Whether anything may come of a trace point.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        self.state.load(Relaxed) != State::Stopped as u8
    }

    /// Whether it tells.
    pub fn state(&self) -> State {
        match self.state.load(Relaxed) & !FOLLOWS {
            1 => State::Waiting,
            2 => State::Running,
            _ => State::Stopped,
        }
    }

    fn set_state(&self, state: State) {
        self.locked.store(0, Relaxed);
        self.enter(state);
    }

    fn enter(&self, state: State) {
        // Nothing is in the way of a change in between: whoever makes one decides as if it came later.
        let _ = self.state.fetch_update(Relaxed, Relaxed, |now| Some((now & FOLLOWS) | state as u8));
    }

    /// From now on it also tells of what `followed` sticks to.
    fn follow(&self, followed: Option<&'static Source>) {
        self.followed.get_or_init(|| Published::new(None)).publish(followed);
        if followed.is_some() {
            self.state.fetch_or(FOLLOWS, Relaxed);
        } else {
            self.state.fetch_and(!FOLLOWS, Relaxed);
        }
    }

    /// The one that it follows.
    fn followed(&self) -> Option<&'static Source> {
        **self.followed.get()?.load()
    }

    fn sink(&self) -> &Published<Option<Arc<Sink>>> {
        self.sink.get_or_init(|| Published::new(None))
    }

    /// A trace point that was reached while the source is active. `tell` appends the text, at most as much as the verbosity
    /// (an index of [`VERBOSITIES`]) asks for.
    #[cold]
    pub fn tell(&self, what: &Happening, tell: impl FnOnce(u8, &mut Vec<u8>)) {
        let (bit, about) = (1_u64 << (what.event & 63), &what.about);
        if self.state() == State::Waiting && self.start.load(Relaxed) & bit != 0 {
            self.enter(State::Running);
        }
        let runs = self.state() == State::Running && self.sticks_to(about);
        if !runs && !self.followed().is_some_and(|followed| followed.is_at(about)) {
            return;
        }
        if self.report.load(Relaxed) & bit != 0 && what.level as u8 <= self.level.load(Relaxed) {
            self.write(what, tell);
        }
        // What the source does for another one changes nothing about itself.
        if !runs {
            return;
        }
        if self.stop.load(Relaxed) & bit != 0 {
            self.set_state(State::Stopped);
        } else if self.pause.load(Relaxed) & bit != 0 {
            self.set_state(State::Waiting);
        }
    }

    /// Whether it runs and stuck to what an event is about.
    fn is_at(&self, about: &About) -> bool {
        let locked = self.locked.load(Relaxed);
        self.state() == State::Running && locked != 0 && about.by(self.criterion.load(Relaxed)) == locked
    }

    /// Whether an event is about what the trace stuck to; the first one decides what that is.
    fn sticks_to(&self, about: &About) -> bool {
        let criterion = self.criterion.load(Relaxed);
        if criterion == NOTHING {
            return true;
        }
        let number = about.by(criterion);
        match self.locked.load(Relaxed) {
            // Of several threads at a time, one wins.
            0 if number != 0 => self.locked.compare_exchange(0, number, Relaxed, Relaxed).is_ok(),
            0 => false,
            locked => locked == number,
        }
    }

    fn write(&self, what: &Happening, tell: impl FnOnce(u8, &mut Vec<u8>)) {
        let sink = self.sink().load();
        let Some(sink) = sink.as_ref() else { return };
        LINE.with_borrow_mut(|both| {
            let (dates, line) = &mut **both;
            line.clear();
            if matches!(sink.format, LogFormat::Timed | LogFormat::Iso) {
                if sink.format == LogFormat::Timed {
                    line.extend_from_slice(b"<0>");
                }
                dates.write_iso(what.time, line);
                line.push(b' ');
            }
            let name = self.events.get(what.event).map_or("?", |event| event.name);
            let head = format!("[{:02}|{}|{}|{name}] ", what.about.thread, self.name, what.level as u8);
            line.extend_from_slice(head.as_bytes());
            tell(self.verbosity.load(Relaxed), line);
            sink.write(what.about.thread as usize, line);
        });
    }
}

thread_local! {
    /// The dates of this second, and room for a line.
    static LINE: RefCell<ManuallyDrop<(DateCache, Vec<u8>)>> = RefCell::new(ManuallyDrop::new((DateCache::new(utc()), Vec::new())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sync::Ring;
    use weir_sync::ring::{Seek, Wait};

    const EVENTS: &[Event] = &[
        Event { name: "new", help: "it begins" },
        Event { name: "work", help: "it goes on" },
        Event { name: "end", help: "it ends" },
    ];

    /// A source of its own for each test, and where it tells.
    fn source() -> (&'static Source, Arc<Ring>) {
        let source = Box::leak(Box::new(Source::new("thing", "a thing", EVENTS)));
        let ring = Ring::in_memory(16_384, 1);
        let sink = Sink::ring("r", "r", LogFormat::Raw, 1024, Arc::clone(&ring));
        source.sink().publish(Some(Arc::new(sink)));
        (source, ring)
    }

    fn reach(source: &Source, event: usize, session: u64) {
        if source.is_active() {
            let about = About { session, thread: 1, ..About::default() };
            let what = Happening { event, level: Level::User, about, time: WallTime::default() };
            source.tell(&what, |verbosity, line| {
                line.extend_from_slice(format!("session {session} verbosity {verbosity}").as_bytes());
            });
        }
    }

    fn told(ring: &Arc<Ring>) -> Vec<String> {
        let mut lines = Vec::new();
        ring.attach(Seek::Oldest, Wait::No).unwrap().read(|message| {
            let mut bytes = Vec::new();
            message.append_to(&mut bytes);
            lines.push(String::from_utf8(bytes).unwrap());
            true
        });
        lines
    }

    #[test]
    fn nothing_is_told_until_it_is_started() {
        let (source, ring) = source();
        reach(source, 0, 1);
        assert!(!source.is_active() && told(&ring).is_empty());
        source.set_state(State::Running);
        reach(source, 0, 1);
        assert_eq!(told(&ring), ["[01|thing|1|new] session 1 verbosity 1"]);
    }

    #[test]
    fn events_start_pause_and_stop() {
        let (source, ring) = source();
        source.start.store(1, Relaxed);
        source.pause.store(1 << 2, Relaxed);
        source.criterion.store(6, Relaxed);
        source.set_state(State::Waiting);
        reach(source, 1, 7);
        // From its beginning to its end, one session at a time; others are not told.
        for (event, session) in
            [(0, 7), (0, 8), (1, 8), (1, 7), (2, 8), (2, 7), (1, 7), (0, 9), (1, 7), (2, 9)]
        {
            reach(source, event, session);
        }
        let sessions: Vec<_> =
            told(&ring).iter().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            sessions,
            [
                "[01|thing|1|new] session 7",
                "[01|thing|1|work] session 7",
                "[01|thing|1|end] session 7",
                "[01|thing|1|new] session 9",
                "[01|thing|1|end] session 9",
            ]
        );
        source.stop.store(1, Relaxed);
        reach(source, 0, 3);
        assert_eq!(source.state(), State::Stopped);
    }

    #[test]
    fn a_follower_tells_of_what_the_other_stuck_to() {
        let ((leader, _), (follower, ring)) = (source(), source());
        follower.follow(Some(leader));
        assert!(follower.is_active() && follower.state() == State::Stopped);
        let told = || {
            told(&ring).iter().map(|line| line.split(' ').nth(2).unwrap_or("").to_owned()).collect::<Vec<_>>()
        };
        // One that runs but sticks to nothing leads nowhere, one that sticks to something only to that.
        leader.set_state(State::Running);
        reach(leader, 0, 7);
        reach(follower, 1, 7);
        assert!(told().is_empty());
        leader.criterion.store(6, Relaxed);
        [7, 8, 7].iter().for_each(|session| reach(leader, 0, *session));
        [7, 8, 7].iter().for_each(|session| reach(follower, 1, *session));
        assert_eq!(told(), ["7", "7"]);
        // The follower's own events change nothing about the leader, nor its own state.
        follower.stop.store(u64::MAX, Relaxed);
        reach(follower, 1, 7);
        assert_eq!((told().len(), follower.state(), leader.state()), (3, State::Stopped, State::Running));
        leader.set_state(State::Stopped);
        reach(follower, 1, 7);
        assert_eq!(told().len(), 3);
        follower.follow(None);
        assert!(!follower.is_active());
    }

    #[test]
    fn who_follows_runs_by_itself_too() {
        let ((leader, _), (follower, ring)) = (source(), source());
        follower.follow(Some(leader));
        follower.set_state(State::Running);
        reach(follower, 1, 7);
        assert_eq!((told(&ring).len(), follower.state()), (1, State::Running));
        follower.set_state(State::Stopped);
        assert!(follower.is_active());
    }

    #[test]
    fn levels_and_events_choose_what_is_reported() {
        let (source, ring) = source();
        source.set_state(State::Running);
        source.report.store(1, Relaxed);
        reach(source, 1, 1);
        source.report.store(u64::MAX, Relaxed);
        source.level.store(Level::Error as u8, Relaxed);
        reach(source, 1, 1);
        assert!(told(&ring).is_empty());
    }
}
