//! Filters: they look at messages that pass, and may delay or change them.
//!
//! A [`Filter`] is one filter on one direction of one stream. It is pure: bytes and time come in as arguments, and its
//! decision is the return value. A [`FilterChain`] passes the payload through its filters in their order; each sees what
//! those before it let through:
//!
//! ```text
//!   payload ─► filter ─► held ─► filter ─► held ─► filter ─► out
//!              what a filter holds back until a moment stays with whoever offers it: at the source, or
//!              in the buffer before the filter. What it wants more of is kept for it, up to a limit.
//! ```

use std::fmt;

use weir_sched::Tick;

use crate::message::Message;
use crate::trailers::Trailers;

/// One filter on one direction of a stream.
pub trait Filter {
    /// A head is about to leave, before its body. True if the filter may change the body's length.
    fn head(&mut self, _head: &mut Message, _now: Tick) -> bool {
        false
    }

    /// Payload is to pass. What is put into `out` counts only if the result says so.
    fn payload(&mut self, bytes: &[u8], more: More, now: Tick, out: &mut Vec<u8>) -> Passed;

    /// The trailers after the payload, empty where there are none.
    fn trailers(&mut self, _trailers: &mut Trailers, _now: Tick) {}

    /// All payload has passed. What is put into `out` is sent after it.
    fn end(&mut self, _now: Tick, _out: &mut Vec<u8>) {}
}

/// Whether more payload follows the bytes that a filter sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// More may come.
    Comes,
    /// More may come, but only after these bytes have passed: the buffer is full.
    Full,
    /// No more comes.
    Never,
}

/// A filter's decision about the payload that it saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// How many bytes at the front the filter is done with.
    pub count: usize,
    /// Whether these bytes are replaced by what was put into `out`.
    pub replaced: bool,
    /// When the filter wants to see the rest again; [`Tick::NEVER`] means when more has come.
    pub until: Tick,
}

impl Passed {
    /// All bytes pass.
    pub fn all(bytes: &[u8]) -> Self {
        Passed { count: bytes.len(), replaced: false, until: Tick::NEVER }
    }
}

/// The filters of one direction, in their order.
pub struct FilterChain {
    stages: Vec<Stage>,
    /// How many bytes each stage keeps for its filter at most, and offers at once.
    limit: usize,
}

struct Stage {
    filter: Box<dyn Filter>,
    /// Bytes that passed the stage before, but not this one.
    held: Vec<u8>,
    /// Until when the filter holds its bytes back.
    until: Tick,
    /// Whether its filter saw the end.
    ended: bool,
}

impl FilterChain {
    /// No filters. For filters that want more bytes at once, up to `limit` bytes each are kept.
    pub fn new(limit: usize) -> Self {
        FilterChain { stages: Vec::new(), limit }
    }

    /// Adds a filter after the others.
    pub fn push(&mut self, filter: Box<dyn Filter>) {
        self.stages.push(Stage { filter, held: Vec::new(), until: Tick::NEVER, ended: false });
    }

    /// Starts another body.
    pub fn restart(&mut self) {
        for stage in &mut self.stages {
            stage.held.clear();
            stage.until = Tick::NEVER;
            stage.ended = false;
        }
    }

    /// Passes the head to all filters; true if one of them may change the body's length.
    pub fn head(&mut self, head: &mut Message, now: Tick) -> bool {
        self.stages.iter_mut().fold(false, |resizes, stage| stage.filter.head(head, now) | resizes)
    }

    /// Offers payload, the last if `last`; returns how much of it was taken. What passed all filters is in `out`.
    pub fn offer(&mut self, bytes: &[u8], last: bool, now: Tick, out: &mut Vec<u8>) -> usize {
        self.resume(now, out);
        let stuck = |stage: &Stage| !stage.until.is_never();
        if bytes.is_empty() || self.stages.iter().any(stuck) {
            return 0;
        }
        self.show(0, bytes, last, now, out)
    }

    /// After the last payload: passes on what is still held, and signals the end to the filters in their order. False as
    /// long as one of them holds bytes back.
    pub fn end(&mut self, trailers: &mut Trailers, now: Tick, out: &mut Vec<u8>) -> bool {
        self.resume(now, out);
        for at in 0..self.stages.len() {
            if !self.stages[at].held.is_empty() && self.stages[at].until.is_never() {
                self.show(at, b"", true, now, out);
            }
            let stage = &mut self.stages[at];
            if !stage.held.is_empty() {
                return false;
            }
            if !std::mem::replace(&mut stage.ended, true) {
                stage.filter.trailers(trailers, now);
                let mut added = Vec::new();
                stage.filter.end(now, &mut added);
                self.pass_on(at, &added, false, now, out);
            }
        }
        true
    }

    /// When a filter wants to be called again; never if none holds bytes back.
    pub fn wake_at(&self) -> Tick {
        self.stages.iter().map(|stage| stage.until).min().unwrap_or(Tick::NEVER)
    }

    /// Resumes the filters whose time has come, the last of them first: what it lets through makes room for the others.
    fn resume(&mut self, now: Tick, out: &mut Vec<u8>) {
        for at in (0..self.stages.len()).rev() {
            let stage = &mut self.stages[at];
            if stage.until > now {
                continue;
            }
            stage.until = Tick::NEVER;
            if !stage.held.is_empty() {
                let last = self.stages[..at].iter().all(|stage| stage.ended) && at > 0;
                self.show(at, b"", last, now, out);
            }
        }
    }

    /// Calls the filter at this place with its held bytes and the new ones, and passes on what it lets through; returns
    /// how many of the new ones were taken.
    fn show(&mut self, at: usize, bytes: &[u8], last: bool, now: Tick, out: &mut Vec<u8>) -> usize {
        let limit = self.limit;
        let Some(stage) = self.stages.get_mut(at) else {
            out.extend_from_slice(bytes);
            return bytes.len();
        };
        let mut held = std::mem::take(&mut stage.held);
        let kept = match held.is_empty() {
            true => bytes.len().min(limit),
            false => bytes.len().min(limit.saturating_sub(held.len())),
        };
        if !held.is_empty() {
            held.extend_from_slice(&bytes[..kept]);
        }
        let shown = if held.is_empty() { &bytes[..kept] } else { &held[..] };
        let last = last && kept == bytes.len();
        let more = match last {
            true => More::Never,
            false if shown.len() >= limit => More::Full,
            false => More::Comes,
        };
        let mut replacement = Vec::new();
        let mut passed = stage.filter.payload(shown, more, now, &mut replacement);
        // What it waits for will not come.
        if passed.count == 0 && passed.until.is_never() && more != More::Comes {
            passed = Passed::all(shown);
        }
        let count = passed.count.min(shown.len());
        let all = count == shown.len();
        let until = match (all, more) {
            (true, _) => Tick::NEVER,
            (false, More::Never) if passed.until.is_never() => now,
            (false, _) => passed.until,
        };
        stage.until = until;
        let waits = !all && until.is_never();
        let on = if passed.replaced { &replacement[..] } else { &shown[..count] };
        self.pass_on(at, on, last && all, now, out);
        if !held.is_empty() {
            held.drain(..count);
            self.stages[at].held = held;
            return kept;
        }
        if waits {
            self.stages[at].held.extend_from_slice(&bytes[count..kept]);
            return kept;
        }
        count
    }

    /// Passes bytes to the next stage. What that stage does not take waits in front of it.
    fn pass_on(&mut self, at: usize, bytes: &[u8], last: bool, now: Tick, out: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let taken = self.show(at + 1, bytes, last, now, out);
        if let Some(next) = self.stages.get_mut(at + 1) {
            next.held.extend_from_slice(&bytes[taken..]);
        }
    }
}

impl fmt::Debug for FilterChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterChain").field("filters", &self.stages.len()).finish_non_exhaustive()
    }
}
