//! Filters: they inspect passing messages, and may delay, change or refuse them.
//!
//! A [`Filter`] is one filter on one direction of one stream. It is pure: bytes and time come in as arguments, and its
//! decision is the return value. A [`FilterChain`] passes the payload through its filters in their order; each sees the
//! output of those before it. A filter without interest in payload has its place in the order, too, and costs a call:
//!
//! ```text
//!   payload ─► filter ─► held ─► filter ─► held ─► filter ─► out
//!              bytes that a filter holds back until a time stay in front of it: at the source, or in the
//!              buffer before the filter. If it waits for more bytes, they are kept for it, up to a limit.
//! ```
//!
//! Memory is bounded: a filter puts out a limited number of bytes in a call ([`FilterOutput`]), and the chain does not
//! accept more while a filter holds some back.

use std::cell::RefCell;
use std::fmt;
use std::mem::ManuallyDrop;

use weir_sched::Tick;

use crate::message::Message;
use crate::trailers::Trailers;

/// One filter on one direction of a stream. Each error ends the stream.
pub trait Filter {
    /// A head is about to leave, before its body. A response's filter also gets the `request`, with the changes of its rules. True if
    /// the filter may change the body's length.
    fn head(&mut self, _head: &mut Message, _request: Option<&Message>, _now: Tick) -> Result<bool, Failed> {
        Ok(false)
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

    /// More payload is not available now. A filter that collects bytes puts them into `out`; false if they did not all
    /// fit.
    fn idle(&mut self, _now: Tick, _out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        Ok(true)
    }

    /// Filters the trailers after the payload. They may be empty.
    fn trailers(&mut self, _trailers: &mut Trailers, _now: Tick) {}

    /// All payload has passed. The filter may put its last bytes into `out`; false if they did not all fit.
    fn end(&mut self, _now: Tick, _out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        Ok(true)
    }

    /// Restarts the same body after the same head, for another server. The filter forgets the body.
    fn restart(&mut self) {}
}

/// A filter could not do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// Where a filter puts bytes: a bounded number in each call.
pub struct FilterOutput<'o> {
    bytes: &'o mut Vec<u8>,
    limit: usize,
}

impl<'o> FilterOutput<'o> {
    /// Puts up to `limit` bytes into an empty vector.
    pub fn new(bytes: &'o mut Vec<u8>, limit: usize) -> Self {
        FilterOutput { bytes, limit }
    }

    /// How many bytes it still takes.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes.len())
    }

    /// Takes the first of these bytes, as many as there is room for, and returns their number.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.bytes.extend_from_slice(&bytes[..taken]);
        taken
    }
}

/// Whether more payload follows the bytes that a filter sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    Comes,
    /// More may come, but only after these bytes have passed: the buffer is full.
    Full,
    Never,
}

/// A filter's decision about the payload that it saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// How many bytes at the front the filter is done with.
    pub count: usize,
    /// Whether the output replaces these bytes.
    pub replaced: bool,
    /// When the filter wants to be called again, with the rest, or without bytes to put out more. [`Tick::NEVER`]: when more has come.
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
    /// How many bytes each filter is offered and puts out at once, and how many are kept for it.
    limit: usize,
}

struct FilterStage {
    filter: Box<dyn Filter>,
    /// Bytes that passed the stage before, but not this one.
    held: Vec<u8>,
    /// Until when nothing is offered to the filter.
    until: Tick,
    /// It is called then even if there is nothing to see, because it has more to put out.
    puts_out_more: bool,
    /// It saw bytes since the last pause.
    is_fresh: bool,
    life: Life,
}

/// How far a filter is with its body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Payload,
    /// It saw the end, and puts out more.
    Ending,
    Ended,
}

impl FilterStage {
    /// Whether it takes no bytes now.
    fn is_stuck(&self) -> bool {
        !self.until.is_never()
    }

    fn begin(&mut self) {
        self.held.clear();
        self.until = Tick::NEVER;
        self.puts_out_more = false;
        self.is_fresh = false;
        self.life = Life::Payload;
    }
}

impl FilterChain {
    /// No filters. Each is offered up to `limit` bytes at once.
    pub fn new(limit: usize) -> Self {
        FilterChain { stages: Vec::new(), limit }
    }

    /// Adds a filter after the others.
    pub fn push(&mut self, filter: Box<dyn Filter>) {
        self.stages.push(FilterStage {
            filter,
            held: Vec::new(),
            until: Tick::NEVER,
            puts_out_more: false,
            is_fresh: false,
            life: Life::Payload,
        });
    }

    /// Starts another body.
    pub fn begin(&mut self) {
        self.stages.iter_mut().for_each(FilterStage::begin);
    }

    /// Has the filters forget the body that [`FilterChain::begin`] started, because it is the former one again.
    pub fn restart(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.filter.restart());
    }

    /// Passes the head to all filters; true if one of them may change the body's length.
    pub fn head(&mut self, head: &mut Message, request: Option<&Message>, now: Tick) -> Result<bool, Failed> {
        let mut resizes = false;
        for stage in &mut self.stages {
            resizes |= stage.filter.head(head, request, now)?;
        }
        Ok(resizes)
    }

    /// Offers payload, the last if `last`; returns how much of it was taken. Appends the filtered bytes to `out`.
    pub fn offer(&mut self, bytes: &[u8], last: bool, now: Tick, out: &mut Vec<u8>) -> Result<usize, Failed> {
        self.resume(now, out)?;
        if bytes.is_empty() || self.is_blocked(0) {
            return Ok(0);
        }
        self.show(0, bytes, last, now, out)
    }

    /// Notifies the filters once that nothing more is available at this moment.
    pub fn idle(&mut self, now: Tick, out: &mut Vec<u8>) -> Result<(), Failed> {
        for at in 0..self.stages.len() {
            let is_blocked = self.is_blocked(at + 1);
            let stage = &mut self.stages[at];
            if stage.life != Life::Payload || !stage.is_fresh || is_blocked {
                continue;
            }
            let mut added = OutputBlock::take();
            let is_all = stage.filter.idle(now, &mut FilterOutput::new(&mut added.0, self.limit))?;
            goes_on(is_all, &added.0)?;
            stage.is_fresh = !is_all;
            self.pass_on(at, &added.0, false, now, out)?;
            if !is_all {
                return Ok(());
            }
        }
        Ok(())
    }

    /// After the last payload: passes the held bytes on, and signals the end to the filters in their order. False as
    /// long as one of them holds bytes back, or has more to put out.
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
                let is_all = stage.filter.end(now, &mut FilterOutput::new(&mut added.0, limit))?;
                goes_on(is_all, &added.0)?;
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

    /// When a filter wants to be called again; never if none holds bytes back. One that holds them back stops those before it.
    pub fn wake_at(&self) -> Tick {
        self.stages.iter().rev().find(|stage| stage.is_stuck()).map_or(Tick::NEVER, |stage| stage.until)
    }

    /// Whether this filter or one behind it takes nothing now.
    fn is_blocked(&self, at: usize) -> bool {
        self.stages[at..].iter().any(FilterStage::is_stuck)
    }

    /// Resumes the filters at their time, from the last to the first, as far as nothing behind them holds bytes back.
    fn resume(&mut self, now: Tick, out: &mut Vec<u8>) -> Result<(), Failed> {
        for at in (0..self.stages.len()).rev() {
            let stage = &mut self.stages[at];
            if !stage.is_stuck() {
                continue;
            }
            if stage.until > now {
                return Ok(());
            }
            stage.until = Tick::NEVER;
            if stage.held.is_empty() && !stage.puts_out_more {
                continue;
            }
            let last = self.stages[..at].iter().all(|stage| stage.life == Life::Ended) && at > 0;
            self.show(at, b"", last, now, out)?;
            if self.is_blocked(at) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Calls the filter at this position with its held bytes and the new ones, and passes its output on; returns how
    /// many of the new ones were taken.
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
        let passed = passed.settled(shown, more, now, &replacement.0);
        let count = passed.count;
        stage.until = passed.until;
        stage.puts_out_more = count == shown.len() && !passed.until.is_never();
        let on = if passed.replaced { &replacement.0[..] } else { &shown[..count] };
        let ends = last && count == shown.len() && passed.until.is_never();
        self.pass_on(at, on, ends, now, out)?;
        let stage = &mut self.stages[at];
        if is_held {
            held.drain(..count);
            // No call shows it more than this.
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

    /// Passes bytes to the next stage. The bytes that it does not take wait in front of it.
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
    /// The decision within its limits. A filter that waits for more than there can be lets all pass, and the chain does not call a
    /// filter twice in a millisecond without effect.
    fn settled(mut self, shown: &[u8], more: More, now: Tick, put_out: &[u8]) -> Passed {
        self.count = self.count.min(shown.len());
        let is_moving = self.count > 0 || (self.replaced && !put_out.is_empty());
        if more != More::Comes && self.until.is_never() && self.count < shown.len() {
            if !is_moving {
                // The bytes that it waits for will not come.
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

/// A worker's spare memory for the output of filters, one block for each filter of a chain.
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

/// A call that is to be repeated has put something out, else it would be repeated for ever.
fn goes_on(is_all: bool, put_out: &[u8]) -> Result<(), Failed> {
    if is_all || !put_out.is_empty() { Ok(()) } else { Err(Failed) }
}

#[cfg(test)]
impl FilterChain {
    /// How many bytes wait in front of each filter.
    pub(crate) fn held(&self) -> Vec<usize> {
        self.stages.iter().map(|stage| stage.held.len()).collect()
    }
}

impl fmt::Debug for FilterChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterChain").field("filters", &self.stages.len()).finish_non_exhaustive()
    }
}
