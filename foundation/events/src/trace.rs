//! Traces: a layer reports its events to a sink as they happen.
//!
//! A [`TraceSource`] is a `static` next to the traced code, with name, events and state. A trace point first checks
//! [`TraceSource::is_active`]. While tracing is off, this is one load of a word that does not change and one branch that
//! is not taken.
//!
//! ```text
//!               start now                    an event of `stop`, stop now
//!   stopped ───────────────────► running ────────────────────────────────► stopped
//!      │                         ▲     │
//!      │ an event for `start`    │     │ an event of `pause`: the lock is dropped
//!      └─────────► waiting ──────┘◄────┘
//!                           an event of `start`: the lock is taken
//! ```
//! A source may also follow another source. In any state, it reports events of the object that the followed source is
//! locked on, while the followed source is running.
//!
//! [`commands`] parses the `trace` commands of the runtime API and the configuration.

pub mod commands;

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_formats::WallTime;
use weir_sync::VersionCell;

use crate::calendar::{DateCache, utc};
use crate::sink::Sink;
use crate::syslog::SyslogFormat;

/// One kind of event that a source reports.
#[derive(Clone, Copy, Debug)]
pub struct TraceEventKind {
    /// Name in commands.
    pub name: &'static str,
    /// Its meaning, in one line.
    pub help: &'static str,
}

/// Level of a report. Each level includes all lower levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum TraceLevel {
    Error,
    /// Information for users of the proxy.
    User,
    Proto,
    /// Changes of internal states.
    State,
    /// Transfers of data.
    Data,
    Developer,
}

impl TraceLevel {
    /// All levels with their names and help texts.
    pub const ALL: [(TraceLevel, &'static str, &'static str); 6] = [
        (TraceLevel::Error, "error", "report errors"),
        (TraceLevel::User, "user", "also information useful to the end user"),
        (TraceLevel::Proto, "proto", "also protocol-level updates"),
        (TraceLevel::State, "state", "also report internal state changes"),
        (TraceLevel::Data, "data", "also report data transfers"),
        (TraceLevel::Developer, "developer", "also report information useful only to the developer"),
    ];
}

/// Verbosity levels with their help texts.
pub const VERBOSITIES: [(&str, &str); 6] = [
    ("quiet", "only report basic information with no decoding"),
    ("clean", "only user-friendly stuff, generally suitable for level \"user\""),
    ("minimal", "report only states and flags, no real decoding"),
    ("simple", "add request/response status line or state of buffers when available"),
    ("advanced", "add header fields or frame decoding when available"),
    ("complete", "add full data dump when available"),
];

/// Objects that a trace may lock on: name in commands, help text. Streams are the last, because a source
/// may name them itself ([`TraceSource::with_streams`]).
const CRITERIA: [(&str, &str); 9] = [
    ("backend", "lock on the backend that started the trace"),
    ("connection", "lock on the connection that started the trace"),
    ("frontend", "lock on the frontend that started the trace"),
    ("listener", "lock on the listener that started the trace"),
    ("nothing", "do not lock on anything"),
    ("server", "lock on the server that started the trace"),
    ("session", "lock on the session that started the trace"),
    ("thread", "lock on the thread that started the trace"),
    ("stream", "lock on the stream that started the trace"),
];

/// The index of the criterion that locks on streams.
const STREAM: usize = 8;

/// The index of the criterion that locks on nothing.
const NOTHING: u8 = 4;

/// The identifiers of the objects involved in an event, for locking. 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub backend: u64,
    pub connection: u64,
    pub frontend: u64,
    /// The listener that accepted the connection.
    pub listener: u64,
    pub server: u64,
    /// The session. Equals `connection` while a connection has one session.
    pub session: u64,
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
            self.thread,
            self.stream,
        ];
        numbers.get(usize::from(criterion)).copied().unwrap_or(0)
    }
}

/// One report: event, level, objects and time.
#[derive(Clone, Copy, Debug)]
pub struct TraceReport {
    /// Index of the event in [`TraceSource::events`].
    pub event: usize,
    /// Bit mask of further events that the report counts as, by index. The line contains only the name of `event`.
    pub also: u64,
    /// How important it is.
    pub level: TraceLevel,
    pub about: About,
    pub time: WallTime,
}

/// A source of trace events.
#[derive(Debug)]
pub struct TraceSource {
    /// Name in commands.
    pub name: &'static str,
    /// Its description, in one line.
    pub help: &'static str,
    /// The events of the source, at most 64. Trace points use their index.
    pub events: &'static [TraceEventKind],
    /// Objects that the trace may lock on: names in commands, help texts.
    criteria: [(&'static str, &'static str); 9],
    /// A [`TraceState`] and the bit [`FOLLOWS`].
    state: AtomicU8,
    level: AtomicU8,
    verbosity: AtomicU8,
    criterion: AtomicU8,
    /// Identifier of the object that the trace is locked on. 0 before the first event.
    locked: AtomicU64,
    report: AtomicU64,
    start: AtomicU64,
    pause: AtomicU64,
    stop: AtomicU64,
    sink: OnceLock<VersionCell<Option<Arc<Sink>>>>,
    followed: OnceLock<VersionCell<Option<&'static TraceSource>>>,
}

/// Bit of the state: the source follows another source.
const FOLLOWS: u8 = 1 << 7;

/// The state of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TraceState {
    Stopped,
    /// Waits for an event of `start`.
    Waiting,
    Running,
}

impl TraceSource {
    /// A source with tracing off.
    pub const fn new(name: &'static str, help: &'static str, events: &'static [TraceEventKind]) -> Self {
        assert!(events.len() <= 64, "events are bits of a word");
        TraceSource {
            name,
            help,
            events,
            criteria: CRITERIA,
            state: AtomicU8::new(TraceState::Stopped as u8),
            level: AtomicU8::new(TraceLevel::User as u8),
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

    /// Names the criterion that locks on a stream of the source, as in `trace h2 lock h2s`. Its number is [`About::stream`], so that a source
    /// of another layer can follow it.
    pub const fn with_streams(mut self, name: &'static str, help: &'static str) -> Self {
        self.criteria[STREAM] = (name, help);
        self
    }

    /// Whether a trace point may have to report.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        self.state.load(Relaxed) != TraceState::Stopped as u8
    }

    /// The state of the source.
    pub fn state(&self) -> TraceState {
        match self.state.load(Relaxed) & !FOLLOWS {
            1 => TraceState::Waiting,
            2 => TraceState::Running,
            _ => TraceState::Stopped,
        }
    }

    fn set_state(&self, state: TraceState) {
        self.locked.store(0, Relaxed);
        self.enter(state);
    }

    fn enter(&self, state: TraceState) {
        // A concurrent change has the same result as a later one.
        let _ = self.state.fetch_update(Relaxed, Relaxed, |now| Some((now & FOLLOWS) | state as u8));
    }

    /// Follows `followed`: also reports events of the object that it is locked on. `None` stops following.
    fn follow(&self, followed: Option<&'static TraceSource>) {
        self.followed.get_or_init(|| VersionCell::new(None)).publish(followed);
        if followed.is_some() {
            self.state.fetch_or(FOLLOWS, Relaxed);
        } else {
            self.state.fetch_and(!FOLLOWS, Relaxed);
        }
    }

    fn followed(&self) -> Option<&'static TraceSource> {
        **self.followed.get()?.load()
    }

    fn sink(&self) -> &VersionCell<Option<Arc<Sink>>> {
        self.sink.get_or_init(|| VersionCell::new(None))
    }

    /// Handles a trace point of an active source. `write_text` receives the verbosity (an index of [`VERBOSITIES`]) and
    /// appends the text to the line.
    #[cold]
    pub fn trace(&self, what: &TraceReport, write_text: impl FnOnce(u8, &mut Vec<u8>)) {
        let (bit, about) = ((1_u64 << (what.event & 63)) | what.also, &what.about);
        if self.state() == TraceState::Waiting && self.start.load(Relaxed) & bit != 0 {
            self.enter(TraceState::Running);
        }
        let runs = self.state() == TraceState::Running && self.sticks_to(about);
        if !runs && !self.followed().is_some_and(|followed| followed.is_at(about)) {
            return;
        }
        if self.report.load(Relaxed) & bit != 0 && what.level as u8 <= self.level.load(Relaxed) {
            self.write(what, write_text);
        }
        // A report on behalf of a followed source does not change the source's own state.
        if !runs {
            return;
        }
        if self.stop.load(Relaxed) & bit != 0 {
            self.set_state(TraceState::Stopped);
        } else if self.pause.load(Relaxed) & bit != 0 {
            self.set_state(TraceState::Waiting);
        }
    }

    /// Whether the source is running and locked on an object of the event.
    fn is_at(&self, about: &About) -> bool {
        let locked = self.locked.load(Relaxed);
        self.state() == TraceState::Running && locked != 0 && about.by(self.criterion.load(Relaxed)) == locked
    }

    /// Whether the event involves the object that the trace is locked on. The first event with such an object locks on it.
    fn sticks_to(&self, about: &About) -> bool {
        let criterion = self.criterion.load(Relaxed);
        if criterion == NOTHING {
            return true;
        }
        let number = about.by(criterion);
        match self.locked.load(Relaxed) {
            // If several threads race, one wins.
            0 if number != 0 => self.locked.compare_exchange(0, number, Relaxed, Relaxed).is_ok(),
            0 => false,
            locked => locked == number,
        }
    }

    fn write(&self, what: &TraceReport, write_text: impl FnOnce(u8, &mut Vec<u8>)) {
        let sink = self.sink().load();
        let Some(sink) = sink.as_ref() else { return };
        LINE.with_borrow_mut(|both| {
            let (dates, line) = &mut **both;
            line.clear();
            if matches!(sink.format, SyslogFormat::Timed | SyslogFormat::Iso) {
                if sink.format == SyslogFormat::Timed {
                    line.extend_from_slice(b"<0>");
                }
                dates.write_iso(what.time, line);
                line.push(b' ');
            }
            let name = self.events.get(what.event).map_or("?", |event| event.name);
            let head = format!("[{:02}|{}|{}|{name}] ", what.about.thread, self.name, what.level as u8);
            line.extend_from_slice(head.as_bytes());
            write_text(self.verbosity.load(Relaxed), line);
            sink.write(what.about.thread as usize, line);
        });
    }
}

thread_local! {
    /// The cached date strings, and a line buffer.
    static LINE: RefCell<ManuallyDrop<(DateCache, Vec<u8>)>> = RefCell::new(ManuallyDrop::new((DateCache::new(utc()), Vec::new())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sync::Ring;
    use weir_sync::ring::{ReaderWait, Seek};

    const EVENTS: &[TraceEventKind] = &[
        TraceEventKind { name: "new", help: "it begins" },
        TraceEventKind { name: "work", help: "it goes on" },
        TraceEventKind { name: "end", help: "it ends" },
    ];

    /// A separate source for each test, and its ring.
    fn source() -> (&'static TraceSource, Arc<Ring>) {
        let source = Box::leak(Box::new(TraceSource::new("thing", "a thing", EVENTS)));
        let ring = Ring::in_memory(16_384, 1);
        let sink = Sink::ring("r", "r", SyslogFormat::Raw, 1024, Arc::clone(&ring));
        source.sink().publish(Some(Arc::new(sink)));
        (source, ring)
    }

    fn reach(source: &TraceSource, event: usize, session: u64) {
        if source.is_active() {
            let about = About { session, thread: 1, ..About::default() };
            let what =
                TraceReport { event, also: 0, level: TraceLevel::User, about, time: WallTime::default() };
            source.trace(&what, |verbosity, line| {
                line.extend_from_slice(format!("session {session} verbosity {verbosity}").as_bytes());
            });
        }
    }

    fn traced(ring: &Arc<Ring>) -> Vec<String> {
        let mut lines = Vec::new();
        ring.attach(Seek::Oldest, ReaderWait::No).unwrap().read(|message| {
            let mut bytes = Vec::new();
            message.append_to(&mut bytes);
            lines.push(String::from_utf8(bytes).unwrap());
            true
        });
        lines
    }

    #[test]
    fn a_trace_source_reports_nothing_before_it_is_started() {
        let (source, ring) = source();
        reach(source, 0, 1);
        assert!(!source.is_active() && traced(&ring).is_empty());
        source.set_state(TraceState::Running);
        reach(source, 0, 1);
        assert_eq!(traced(&ring), ["[01|thing|1|new] session 1 verbosity 1"]);
    }

    #[test]
    fn events_start_pause_and_stop_a_trace() {
        let (source, ring) = source();
        source.start.store(1, Relaxed);
        source.pause.store(1 << 2, Relaxed);
        source.criterion.store(6, Relaxed);
        source.set_state(TraceState::Waiting);
        reach(source, 1, 7);
        // Reports one session at a time from start to end, and no others.
        for (event, session) in
            [(0, 7), (0, 8), (1, 8), (1, 7), (2, 8), (2, 7), (1, 7), (0, 9), (1, 7), (2, 9)]
        {
            reach(source, event, session);
        }
        let sessions: Vec<_> =
            traced(&ring).iter().map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
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
        assert_eq!(source.state(), TraceState::Stopped);
    }

    #[test]
    fn a_following_source_reports_the_object_its_leader_locked_on() {
        let ((leader, _), (follower, ring)) = (source(), source());
        follower.follow(Some(leader));
        assert!(follower.is_active() && follower.state() == TraceState::Stopped);
        let numbers = || {
            traced(&ring)
                .iter()
                .map(|line| line.split(' ').nth(2).unwrap_or("").to_owned())
                .collect::<Vec<_>>()
        };
        // Without a lock of the followed source, nothing is reported. With a lock, only events of its object are.
        leader.set_state(TraceState::Running);
        reach(leader, 0, 7);
        reach(follower, 1, 7);
        assert!(numbers().is_empty());
        leader.criterion.store(6, Relaxed);
        [7, 8, 7].iter().for_each(|session| reach(leader, 0, *session));
        [7, 8, 7].iter().for_each(|session| reach(follower, 1, *session));
        assert_eq!(numbers(), ["7", "7"]);
        // Events of the follower change neither the followed source nor its own state.
        follower.stop.store(u64::MAX, Relaxed);
        reach(follower, 1, 7);
        assert_eq!(
            (numbers().len(), follower.state(), leader.state()),
            (3, TraceState::Stopped, TraceState::Running)
        );
        leader.set_state(TraceState::Stopped);
        reach(follower, 1, 7);
        assert_eq!(numbers().len(), 3);
        follower.follow(None);
        assert!(!follower.is_active());
    }

    #[test]
    fn a_following_trace_source_can_also_run_by_itself() {
        let ((leader, _), (follower, ring)) = (source(), source());
        follower.follow(Some(leader));
        follower.set_state(TraceState::Running);
        reach(follower, 1, 7);
        assert_eq!((traced(&ring).len(), follower.state()), (1, TraceState::Running));
        follower.set_state(TraceState::Stopped);
        assert!(follower.is_active());
    }

    #[test]
    fn levels_and_event_masks_filter_trace_reports() {
        let (source, ring) = source();
        source.set_state(TraceState::Running);
        source.report.store(1, Relaxed);
        reach(source, 1, 1);
        source.report.store(u64::MAX, Relaxed);
        source.level.store(TraceLevel::Error as u8, Relaxed);
        reach(source, 1, 1);
        assert!(traced(&ring).is_empty());
    }
}
