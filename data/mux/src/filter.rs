//! Filters: they inspect passing messages, and may delay, change or refuse them.
//!
//! A [`Filter`] is one filter on one direction of one stream. It is pure: bytes and time come in as arguments, and its
//! decision is the return value. A [`FilterChain`] passes the payload through its filters in order. Each gets the output
//! of the previous one. A filter that ignores payload also has a position in the order, and costs a call:
//!
//! ```text
//!   payload ─► filter ─► held ─► filter ─► held ─► filter ─► out
//!              bytes that a filter holds back until a time stay in front of it: at the source, or in the
//!              buffer before the filter. If it waits for more bytes, they are kept for it, up to a limit.
//! ```
//!
//! Memory is bounded. A filter outputs a limited number of bytes per call ([`FilterOutput`]), and the chain accepts no
//! more payload while a filter holds bytes back.

use std::cell::RefCell;
use std::fmt;
use std::mem::ManuallyDrop;

use weir_sched::Tick;

use crate::message::Message;
use crate::trailers::Trailers;

/// One filter on one direction of a stream. Each error ends the stream.
pub trait Filter {
    /// Called before a head is sent. Returns how the filter will change the body's length.
    fn head(&mut self, _head: &mut Message, _context: &HeadContext<'_>) -> Result<LengthChange, Failed> {
        Ok(LengthChange::None)
    }

    /// Whether the filter ignores the body behind the head that it just got, with its trailers and its end. If all filters do, the body
    /// is forwarded as without filters.
    fn ignores_body(&self) -> bool {
        false
    }

    /// Filters payload. The bytes in `out` replace it only if the result has `replaced` set.
    fn payload(
        &mut self,
        bytes: &[u8],
        _more: More,
        _now: Tick,
        _out: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        Ok(Passed::all(bytes))
    }

    /// Called when no more payload is available now. A filter that collects bytes writes them to `out`. False if they did
    /// not all fit.
    fn idle(&mut self, _now: Tick, _out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        Ok(true)
    }

    /// Filters the trailers after the payload. They may be empty.
    fn trailers(&mut self, _trailers: &mut Trailers, _now: Tick) {}

    /// Called after all payload. The filter may write its last bytes to `out`. False if they did not all fit.
    fn end(&mut self, _now: Tick, _out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        Ok(true)
    }

    /// Resets the filter's body state. The same body follows again after the same head, for another server.
    fn restart(&mut self) {}

    /// Whether the filter needs its stream before it goes on. It gets nothing meanwhile, and then the rest: the same head again, no
    /// bytes after payload, or another [`Filter::end`].
    fn awaits_stream(&self) -> bool {
        false
    }

    /// When the filter wants to be called without bytes, although it accepts more. [`Tick::NEVER`] for never.
    fn wakes_at(&self) -> Tick {
        Tick::NEVER
    }
}

/// How a filter changes the length of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LengthChange {
    #[default]
    None,
    /// To one that is not known yet.
    Unknown,
    /// To this one.
    To(u64),
}

impl LengthChange {
    /// The change by both of two filters.
    pub(crate) fn and(self, next: LengthChange) -> LengthChange {
        if next == LengthChange::None { self } else { next }
    }
}

/// The facts that a filter gets with a head.
#[derive(Clone, Copy)]
pub struct HeadContext<'m> {
    /// The request of a response, as edited by rules.
    pub request: Option<&'m Message>,
    /// Size of the payload, if it is announced or if all of it was received, as previous filters change it. 0 for a message without a body.
    pub length: Option<u64>,
    /// Whether the message marks the end of the body. Otherwise the body ends with the connection, or is a tunnel.
    pub is_delimited: bool,
    pub now: Tick,
}

/// The progress of a head through the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadPassage {
    /// It has passed all filters, which will change the body's length so.
    Passed(LengthChange),
    /// A filter needs the stream ([`Filter::awaits_stream`]). Pass the head again after that.
    AwaitsStream,
}

/// A filter failed, so the message cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// The output of a filter, bounded for each call.
pub struct FilterOutput<'o> {
    bytes: &'o mut Vec<u8>,
    limit: usize,
    spent_us: u32,
}

impl<'o> FilterOutput<'o> {
    /// An output of up to `limit` bytes into an empty vector.
    pub fn new(bytes: &'o mut Vec<u8>, limit: usize) -> Self {
        FilterOutput { bytes, limit, spent_us: 0 }
    }

    /// Adds an estimate of the CPU time that the filter used, in microseconds. After half a millisecond other tasks run. Most filters use
    /// too little to count.
    pub fn spend(&mut self, microseconds: u32) {
        self.spent_us = self.spent_us.saturating_add(microseconds);
    }

    /// Bytes that still fit.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len())
    }

    /// Lets `write` fill the room from its front. It returns the number of bytes that it wrote.
    pub fn fill_with<E>(&mut self, write: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<(), E> {
        let length = self.bytes.len();
        self.bytes.resize(self.limit.max(length), 0);
        let written = write(&mut self.bytes[length..]);
        let added = *written.as_ref().unwrap_or(&0);
        self.bytes.truncate(length + added);
        written.map(|_| ())
    }

    /// Appends as many of these bytes as fit, and returns their number.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.bytes.extend_from_slice(&bytes[..taken]);
        taken
    }
}

/// Whether more payload follows the bytes passed to a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    Comes,
    /// The buffer is full. More may follow, but only after these bytes have passed.
    Full,
    Never,
}

/// A filter's decision about its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Bytes at the front that the filter has processed.
    pub count: usize,
    /// Whether the output replaces these bytes.
    pub replaced: bool,
    /// When to call the filter again, with the rest, or without bytes for more output. [`Tick::NEVER`] for when more payload arrives.
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
    stages: Vec<FilterStage>,
    /// Maximum bytes that each filter gets and outputs in one call, and that are held for it.
    limit: usize,
    /// The CPU time of this turn, as estimated by the filters.
    spent_us: u32,
    /// The filters that the head has passed, while a later one needs the stream.
    head: PassedHead,
}

/// How far a head has come.
#[derive(Clone, Copy, Default)]
struct PassedHead {
    stages: usize,
    length: LengthChange,
}

struct FilterStage {
    filter: Box<dyn Filter>,
    /// Bytes that passed the previous stage, but not this one.
    held: Vec<u8>,
    /// Until when nothing is offered to the filter.
    until: Tick,
    /// The filter has more output, so it is called at `until` even without input.
    puts_out_more: bool,
    /// The filter got bytes since the last [`Filter::idle`].
    is_fresh: bool,
    /// The filter needed its stream when it was last called.
    asked: bool,
    /// The filter took the last bytes of the body, with [`More::Never`].
    has_last: bool,
    life: Life,
}

/// The progress of a filter in its body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Payload,
    /// The filter was notified of the end, and has more output.
    Ending,
    Ended,
}

impl FilterStage {
    fn new(filter: Box<dyn Filter>) -> Self {
        FilterStage {
            filter,
            held: Vec::new(),
            until: Tick::NEVER,
            puts_out_more: false,
            is_fresh: false,
            asked: false,
            has_last: false,
            life: Life::Payload,
        }
    }

    /// Whether the stage accepts no bytes now.
    fn is_stuck(&self) -> bool {
        self.asked || !self.until.is_never()
    }

    fn begin(&mut self) {
        self.held.clear();
        self.until = Tick::NEVER;
        self.puts_out_more = false;
        self.is_fresh = false;
        self.asked = false;
        self.has_last = false;
        self.life = Life::Payload;
    }
}

impl FilterChain {
    /// A chain without filters. Each filter will get up to `limit` bytes per call.
    pub fn new(limit: usize) -> Self {
        FilterChain { stages: Vec::new(), limit, spent_us: 0, head: PassedHead::default() }
    }

    /// Adds a filter after the others.
    pub fn push(&mut self, filter: Box<dyn Filter>) {
        self.stages.push(FilterStage::new(filter));
    }

    /// Adds a filter before the others.
    pub fn push_first(&mut self, filter: Box<dyn Filter>) {
        self.stages.insert(0, FilterStage::new(filter));
    }

    /// Starts another body.
    pub fn begin(&mut self) {
        self.stages.iter_mut().for_each(FilterStage::begin);
        self.head = PassedHead::default();
    }

    /// Begins to count the CPU time of the filters.
    pub(crate) fn begin_turn(&mut self) {
        self.spent_us = 0;
    }

    /// The CPU time since [`begin_turn`](Self::begin_turn), as estimated by the filters, in microseconds.
    pub(crate) fn spent_us(&self) -> u32 {
        self.spent_us
    }

    /// Restarts the filters for the body that [`FilterChain::begin`] started, because it is the previous body again.
    pub fn restart(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.filter.restart());
    }

    /// Passes the head to all filters, from the one that needed the stream on. `is_whole` for a message that ends with its head.
    pub fn head(
        &mut self,
        head: &mut Message,
        context: &HeadContext<'_>,
        is_whole: bool,
    ) -> Result<HeadPassage, Failed> {
        let PassedHead { stages, mut length } = std::mem::take(&mut self.head);
        for (at, stage) in self.stages.iter_mut().enumerate().skip(stages) {
            let expected = match length {
                LengthChange::None => context.length,
                LengthChange::Unknown => None,
                LengthChange::To(length) => Some(length),
            };
            let change = stage.filter.head(head, &HeadContext { length: expected, ..*context })?;
            if stage.filter.awaits_stream() {
                self.head = PassedHead { stages: at, length };
                return Ok(HeadPassage::AwaitsStream);
            }
            length = length.and(change);
        }
        if !is_whole {
            return Ok(HeadPassage::Passed(length));
        }
        // Filters cannot add a body.
        if !self.end(&mut Trailers::default(), context.now, &mut Vec::new())? && self.awaits_stream() {
            self.head = PassedHead { stages: self.stages.len(), length };
            return Ok(HeadPassage::AwaitsStream);
        }
        Ok(HeadPassage::Passed(LengthChange::None))
    }

    /// Whether a filter needs the stream.
    pub fn awaits_stream(&self) -> bool {
        self.stages.iter().any(|stage| stage.filter.awaits_stream())
    }

    /// Whether all filters ignore the body.
    pub fn ignores_body(&self) -> bool {
        self.stages.iter().all(|stage| stage.filter.ignores_body())
    }

    /// Offers payload, the last of the body if `last`. Returns the number of bytes taken. Appends the filtered bytes to `out`.
    pub fn offer(&mut self, bytes: &[u8], last: bool, now: Tick, out: &mut Vec<u8>) -> Result<usize, Failed> {
        self.resume(now, out)?;
        if bytes.is_empty() || self.is_blocked(0) {
            return Ok(0);
        }
        self.show(0, bytes, last, now, out)
    }

    /// Notifies the filters once that no more payload is available now.
    pub fn idle(&mut self, now: Tick, out: &mut Vec<u8>) -> Result<(), Failed> {
        for at in 0..self.stages.len() {
            let is_blocked = self.is_blocked(at + 1);
            let stage = &mut self.stages[at];
            if stage.life != Life::Payload || !stage.is_fresh || is_blocked {
                continue;
            }
            let mut added = OutputBlock::take();
            let output = &mut FilterOutput::new(&mut added.0, self.limit);
            let is_all = stage.filter.idle(now, output)?;
            self.spent_us = self.spent_us.saturating_add(output.spent_us);
            goes_on(is_all, &added.0)?;
            stage.is_fresh = !is_all;
            self.pass_on(at, &added.0, false, now, out)?;
            if !is_all {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Call after the last payload. Passes the held bytes on, and signals the end to the filters in order. False as
    /// long as a filter holds bytes back or has more output.
    pub fn end(&mut self, trailers: &mut Trailers, now: Tick, out: &mut Vec<u8>) -> Result<bool, Failed> {
        self.resume(now, out)?;
        let limit = self.limit;
        for at in 0..self.stages.len() {
            if !self.stages[at].held.is_empty() && !self.is_blocked(at) {
                self.show(at, b"", true, now, out)?;
            }
            if !self.stages[at].held.is_empty() || self.is_blocked(at) {
                return Ok(false);
            }
            let stage = &mut self.stages[at];
            if stage.life == Life::Payload {
                stage.filter.trailers(trailers, now);
                stage.life = Life::Ending;
            }
            if stage.life == Life::Ending {
                let mut added = OutputBlock::take();
                let output = &mut FilterOutput::new(&mut added.0, limit);
                let is_all = stage.filter.end(now, output)?;
                self.spent_us = self.spent_us.saturating_add(output.spent_us);
                stage.asked = stage.filter.awaits_stream();
                stage.until = if is_all { Tick::NEVER } else { stage.filter.wakes_at() };
                goes_on(is_all || stage.is_stuck(), &added.0)?;
                if is_all {
                    stage.life = Life::Ended;
                }
                self.pass_on(at, &added.0, false, now, out)?;
                if !is_all {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// When to call a filter again. [`Tick::NEVER`] if none holds bytes back. One that does stops all previous filters.
    pub fn wake_at(&self) -> Tick {
        let stuck = self.stages.iter().rev().find(|stage| stage.is_stuck());
        match stuck {
            // The stream is done with it.
            Some(stage) if stage.asked && !stage.filter.awaits_stream() => Tick::from_ms(0),
            Some(stage) if !stage.asked => stage.until,
            _ => Tick::NEVER,
        }
    }

    /// When a filter that accepts more wants to be called.
    pub fn wakes_at(&self) -> Tick {
        let times = self.stages.iter().filter(|stage| stage.life == Life::Payload);
        times.map(|stage| stage.filter.wakes_at()).min().unwrap_or(Tick::NEVER)
    }

    /// Whether the filter at this position or a later one accepts nothing now.
    fn is_blocked(&self, at: usize) -> bool {
        self.stages[at..].iter().any(FilterStage::is_stuck)
    }

    /// Resumes filters that are due, from the last to the first. Stops at a filter that holds bytes back.
    fn resume(&mut self, now: Tick, out: &mut Vec<u8>) -> Result<(), Failed> {
        for at in (0..self.stages.len()).rev() {
            let stage = &mut self.stages[at];
            if !stage.is_stuck() {
                if stage.life == Life::Payload && stage.filter.wakes_at() <= now {
                    self.show(at, b"", false, now, out)?;
                }
                continue;
            }
            let goes_on = std::mem::take(&mut stage.asked);
            if goes_on && stage.filter.awaits_stream() {
                stage.asked = true;
                return Ok(());
            }
            if !goes_on && stage.until > now {
                return Ok(());
            }
            stage.until = Tick::NEVER;
            if stage.life != Life::Payload || stage.held.is_empty() && !stage.puts_out_more && !goes_on {
                continue;
            }
            // A filter that its stream called learns the end with the output of that call, so that the next filter gets both at once.
            let last =
                stage.has_last || at > 0 && self.stages[..at].iter().all(|stage| stage.life == Life::Ended);
            self.show(at, b"", last, now, out)?;
            if self.is_blocked(at) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Calls the filter at this position with its held bytes and the new ones, and passes its output on. Returns the
    /// number of new bytes taken.
    fn show(
        &mut self,
        at: usize,
        bytes: &[u8],
        last: bool,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<usize, Failed> {
        let limit = self.limit;
        let Some(stage) = self.stages.get_mut(at) else {
            out.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        let mut held = std::mem::take(&mut stage.held);
        let kept = bytes.len().min(limit.saturating_sub(held.len()));
        let is_held = !held.is_empty();
        if is_held {
            held.extend_from_slice(&bytes[..kept]);
        }
        let shown = if is_held { &held[..] } else { &bytes[..kept] };
        let shown = &shown[..shown.len().min(limit)];
        let last = last && kept == bytes.len() && shown.len() >= held.len();
        let more = match last {
            true => More::Never,
            false if shown.len() >= limit => More::Full,
            false => More::Comes,
        };
        stage.is_fresh = true;
        let mut replacement = OutputBlock::take();
        let output = &mut FilterOutput::new(&mut replacement.0, limit);
        let passed = stage.filter.payload(shown, more, now, output)?;
        self.spent_us = self.spent_us.saturating_add(output.spent_us);
        // A filter that needs the stream has all that it waits for.
        let passed = match stage.filter.awaits_stream() {
            true => passed,
            false => passed.settled(shown, more, now, &replacement.0),
        };
        let count = passed.count;
        stage.until = passed.until;
        stage.has_last |= last && count == shown.len();
        stage.asked = stage.filter.awaits_stream();
        stage.puts_out_more = count == shown.len() && !passed.until.is_never();
        let on = if passed.replaced { &replacement.0[..] } else { &shown[..count] };
        let ends = last && count == shown.len() && !stage.is_stuck();
        self.pass_on(at, on, ends, now, out)?;
        let stage = &mut self.stages[at];
        if is_held {
            held.drain(..count);
            // The filter never gets more than `limit` bytes in a call.
            if held.len() >= limit && !stage.is_stuck() {
                stage.until = now;
            }
            stage.held = held;
            return Ok(kept);
        }
        if count < shown.len() && passed.until.is_never() {
            stage.held.extend_from_slice(&shown[count..]);
            return Ok(kept);
        }
        Ok(count)
    }

    /// Passes bytes to the next stage, which holds those that its filter does not take.
    fn pass_on(
        &mut self,
        at: usize,
        bytes: &[u8],
        last: bool,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<(), Failed> {
        if bytes.is_empty() {
            return Ok(());
        }
        let was_stuck = self.stages.get(at + 1).is_some_and(FilterStage::is_stuck);
        let taken = if was_stuck { 0 } else { self.show(at + 1, bytes, last, now, out)? };
        if let Some(next) = self.stages.get_mut(at + 1)
            && taken < bytes.len()
        {
            next.held.extend_from_slice(&bytes[taken..]);
            if !next.is_stuck() {
                next.until = now;
            }
        }
        Ok(())
    }
}

impl Passed {
    /// The decision, corrected. If a filter waits for more bytes than can arrive, all pass. The chain does not call a filter
    /// twice in a millisecond without progress.
    fn settled(mut self, shown: &[u8], more: More, now: Tick, put_out: &[u8]) -> Passed {
        self.count = self.count.min(shown.len());
        let is_moving = self.count > 0 || (self.replaced && !put_out.is_empty());
        if more != More::Comes && self.until.is_never() && self.count < shown.len() {
            if !is_moving {
                // The bytes that the filter waits for will not arrive.
                return Passed::all(shown);
            }
            if more == More::Never {
                self.until = now;
            }
        }
        if self.until <= now && !is_moving {
            self.until = now.after(1);
        }
        self
    }
}

/// An output buffer of a filter, from the worker's free list. One for each filter of a chain.
struct OutputBlock(Vec<u8>);

thread_local! {
    static SPARE: RefCell<ManuallyDrop<Vec<Vec<u8>>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

impl OutputBlock {
    fn take() -> OutputBlock {
        OutputBlock(SPARE.with_borrow_mut(|spare| spare.pop()).unwrap_or_default())
    }
}

impl Drop for OutputBlock {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0);
        bytes.clear();
        if bytes.capacity() > 0 {
            SPARE.with_borrow_mut(|spare| spare.push(bytes));
        }
    }
}

/// Fails if an unfinished call produced no output, because it would be repeated forever.
fn goes_on(is_all: bool, put_out: &[u8]) -> Result<(), Failed> {
    if is_all || !put_out.is_empty() { Ok(()) } else { Err(Failed) }
}

#[cfg(test)]
impl FilterChain {
    /// Bytes held for each filter.
    pub(crate) fn held(&self) -> Vec<usize> {
        self.stages.iter().map(|stage| stage.held.len()).collect()
    }
}

impl fmt::Debug for FilterChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterChain").field("filters", &self.stages.len()).finish_non_exhaustive()
    }
}
