//! The half of a script's filter inside the transfer.
//!
//! It copies the payload for the script, and requests a call. The stream makes the call and reports its outcome. Then the bytes that the
//! script let pass go on. It holds at most a buffer.

use std::cell::RefCell;
use std::rc::Rc;

use weir_http::HeadFlags;
use weir_mux::{Failed, Filter, FilterOutput, HeadContext, LengthChange, Message, More, Passed};
use weir_sched::Tick;
use weir_scripts::{EndChange, FilterResult, FilteredPayload, NewLength};

/// A call that the transfer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterAsk {
    Headers,
    Payload,
    /// `http_end`.
    End,
}

/// The calls about a channel that do not come from its transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Analysis {
    #[default]
    Awaited,
    Begun,
    Ended,
}

/// One direction of a script's filter.
#[derive(Debug)]
pub(super) struct FilterMailbox {
    http: bool,
    pub asks: Option<FilterAsk>,
    pub analysis: Analysis,
    /// The bytes that the script has not let pass, behind those that it has.
    pub payload: FilteredPayload,
    /// Whether the filter registered for the payload.
    pub wants_payload: bool,
    /// When the script wants to be called again (`filter.wake_time`).
    wake: Tick,
    /// The script let bytes pass and kept others, so it is called again.
    goes_on: bool,
    passed_head: bool,
    /// The script saw the end of the payload.
    saw_end: bool,
    /// `http_end` was called.
    has_ended: bool,
    /// The script set an end. The bytes behind it are dropped.
    is_cut: bool,
    failed: bool,
    length: LengthChange,
    /// The length that the head announces.
    announced: Option<u64>,
    put_out: u64,
    replay: Replay,
}

/// The memory for a retry: a body that passed once is not shown to the script again.
#[derive(Debug, Default)]
struct Replay {
    /// The output so far. `None` if it was too long to be kept.
    output: Option<Vec<u8>>,
    /// How many bytes the script got.
    received: u64,
    /// How many bytes of a repeated body are dropped, because the script got them before.
    skip: u64,
}

/// A script keeps bytes, and nothing will wake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitsInVain;

impl FilterMailbox {
    /// A mailbox for up to `limit` bytes.
    pub(super) fn new(http: bool, limit: usize) -> Self {
        FilterMailbox {
            http,
            asks: None,
            analysis: Analysis::Awaited,
            payload: FilteredPayload::new(limit),
            wants_payload: false,
            wake: Tick::NEVER,
            goes_on: false,
            passed_head: false,
            saw_end: false,
            has_ended: false,
            is_cut: false,
            failed: false,
            length: LengthChange::None,
            announced: None,
            put_out: 0,
            replay: Replay { output: Some(Vec::new()), ..Replay::default() },
        }
    }

    /// Removes the filter from the stream: everything passes.
    pub(super) fn leave(&mut self) {
        (self.asks, self.wants_payload, self.passed_head) = (None, false, true);
        self.analysis = Analysis::Ended;
    }

    /// The call failed, and the message with it.
    pub(super) fn fail(&mut self) {
        (self.asks, self.failed) = (None, true);
    }

    /// Ends the call of `http_headers`, with the length that the script set.
    pub(super) fn end_headers(&mut self, length: Option<NewLength>) {
        (self.asks, self.passed_head) = (None, true);
        self.length = match length {
            None => LengthChange::None,
            Some(NewLength::Unknown) => LengthChange::Unknown,
            Some(NewLength::Known(length)) => LengthChange::To(length),
        };
    }

    /// Ends the call of `http_end`.
    pub(super) fn end_message(&mut self) {
        (self.asks, self.has_ended) = (None, true);
    }

    /// Ends a call about the payload, that wants another one at `wake`.
    ///
    /// # Errors
    /// If the script waits for bytes that cannot arrive.
    pub(super) fn end_payload(&mut self, result: FilterResult, wake: Tick) -> Result<(), WaitsInVain> {
        self.asks = None;
        self.wake = wake;
        self.saw_end |= self.payload.ends();
        match result {
            // The script said nothing about the bytes.
            FilterResult::Absent | FilterResult::Nothing => self.payload.forward_all(),
            // So many more. 0 is `filter.WAIT`.
            FilterResult::Value(Some(count)) => self.payload.forward(usize::try_from(count).unwrap_or(0)),
            FilterResult::Value(None) | FilterResult::Failed => {}
        }
        self.is_cut |= self.payload.end_change() == EndChange::Here;
        let keeps = self.keeps();
        self.goes_on = !self.payload.incoming().is_empty() && self.payload.outgoing() > 0;
        if !keeps && self.saw_end {
            // There is nothing left to do.
            self.wake = Tick::NEVER;
        }
        let is_last = self.payload.is_full() || (self.payload.ends() && self.saw_end);
        match keeps && !self.goes_on && !self.is_cut && is_last && wake.is_never() {
            true => Err(WaitsInVain),
            false => Ok(()),
        }
    }

    /// Whether the script keeps bytes, or the end behind them.
    fn keeps(&self) -> bool {
        !self.payload.incoming().is_empty() || self.payload.end_change() == EndChange::Held
    }

    /// Writes the bytes that passed. Returns whether there were any.
    fn flush(&mut self, out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        let count = self.payload.outgoing().min(out.room());
        if count == 0 {
            return Ok(false);
        }
        self.count_output(count)?;
        let bytes = &self.payload.passed()[..count];
        match &mut self.replay.output {
            Some(output) if output.len() + count <= self.payload.limit() => output.extend_from_slice(bytes),
            output => *output = None,
        }
        out.write(bytes);
        drop(self.payload.take(count));
        Ok(true)
    }

    /// Counts bytes for the next filter, which must not be more than the head announced.
    fn count_output(&mut self, count: usize) -> Result<(), Failed> {
        self.put_out += count as u64;
        match self.announced {
            Some(length) if self.put_out > length => Err(Failed),
            _ => Ok(()),
        }
    }

    fn is_due(&self, now: Tick) -> bool {
        self.goes_on || self.wake <= now
    }

    fn ask(&mut self, ask: FilterAsk) {
        (self.wake, self.goes_on) = (Tick::NEVER, false);
        self.asks = Some(ask);
    }

    fn payload(
        &mut self,
        bytes: &[u8],
        more: More,
        now: Tick,
        out: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        if self.failed {
            return Err(Failed);
        }
        let skipped = bytes.len().min(usize::try_from(self.replay.skip).unwrap_or(usize::MAX));
        self.replay.skip -= skipped as u64;
        let bytes = &bytes[skipped..];
        if !self.wants_payload {
            self.payload.forward_all();
        }
        let has_written = self.flush(out)?;
        if self.payload.outgoing() > 0 {
            return Ok(Passed { count: skipped, replaced: true, until: now });
        }
        if self.is_cut {
            return Ok(Passed { count: skipped + bytes.len(), replaced: true, until: Tick::NEVER });
        }
        if !self.wants_payload {
            return self.pass(bytes, skipped, has_written, now, out);
        }
        let count = self.payload.receive(bytes);
        self.replay.received += count as u64;
        if more == More::Never && count == bytes.len() {
            self.payload.note_end();
        }
        if count > 0 || self.is_due(now) {
            self.ask(FilterAsk::Payload);
        }
        // Nothing else will wake the filter.
        let is_last = self.payload.is_full() || self.payload.ends();
        let until = if self.asks.is_none() && is_last { self.wake } else { Tick::NEVER };
        Ok(Passed { count: skipped + count, replaced: true, until })
    }

    /// Passes bytes that the script does not want.
    fn pass(
        &mut self,
        bytes: &[u8],
        skipped: usize,
        has_written: bool,
        now: Tick,
        out: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        if !has_written && skipped == 0 {
            self.count_output(bytes.len())?;
            return Ok(Passed::all(bytes));
        }
        let count = out.write(bytes);
        self.count_output(count)?;
        let until = if count < bytes.len() { now } else { Tick::NEVER };
        Ok(Passed { count: skipped + count, replaced: true, until })
    }

    fn end(&mut self, now: Tick, out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        if self.failed {
            return Err(Failed);
        }
        if !self.wants_payload {
            self.payload.forward_all();
        }
        self.flush(out)?;
        if self.payload.outgoing() > 0 {
            return Ok(false);
        }
        if self.wants_payload && !self.ends_payload(now) {
            return Ok(false);
        }
        if self.wants_payload && self.http && !self.has_ended {
            self.ask(FilterAsk::End);
            return Ok(false);
        }
        if self.announced.is_some_and(|length| self.put_out != length) {
            return Err(Failed);
        }
        Ok(true)
    }

    /// Whether the script has seen the end of the payload, and keeps nothing. Otherwise it gets a call.
    fn ends_payload(&mut self, now: Tick) -> bool {
        if self.is_cut {
            return true;
        }
        self.payload.note_end();
        let keeps = self.keeps();
        // A message without a body is not shown, and the end of a connection only if bytes wait for it.
        let is_new = !self.saw_end && (keeps || self.http && self.replay.received > 0);
        if is_new || keeps && self.is_due(now) {
            self.ask(FilterAsk::Payload);
        }
        !is_new && !keeps
    }

    /// Begins again, for the same body and another server.
    fn restart(&mut self) {
        if self.replay.received == 0 {
            return;
        }
        match self.replay.output.take() {
            Some(output) => {
                self.payload.put_back(&output);
                self.replay.output = Some(Vec::new());
                self.put_out = 0;
                self.replay.skip = self.replay.received;
            }
            None => self.failed = true,
        }
    }
}

/// A mailbox as a filter of the transfer.
pub(super) struct MailboxFilter(pub Rc<RefCell<FilterMailbox>>);

impl Filter for MailboxFilter {
    fn head(&mut self, head: &mut Message, context: &HeadContext<'_>) -> Result<LengthChange, Failed> {
        let mut mailbox = self.0.borrow_mut();
        if mailbox.failed {
            return Err(Failed);
        }
        if !mailbox.passed_head {
            mailbox.ask(FilterAsk::Headers);
            return Ok(LengthChange::None);
        }
        let is_announced = head.head.flags().contains(HeadFlags::HAS_CONTENT_LENGTH);
        mailbox.announced = match mailbox.length {
            LengthChange::None => context.length.filter(|_| is_announced && mailbox.wants_payload),
            LengthChange::Unknown => None,
            LengthChange::To(length) => Some(length),
        };
        Ok(mailbox.length)
    }

    fn ignores_body(&self) -> bool {
        let mailbox = self.0.borrow();
        !mailbox.wants_payload && mailbox.length == LengthChange::None
    }

    fn payload(
        &mut self,
        bytes: &[u8],
        more: More,
        now: Tick,
        out: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        self.0.borrow_mut().payload(bytes, more, now, out)
    }

    fn end(&mut self, now: Tick, out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        self.0.borrow_mut().end(now, out)
    }

    fn restart(&mut self) {
        self.0.borrow_mut().restart();
    }

    fn awaits_stream(&self) -> bool {
        self.0.borrow().asks.is_some()
    }

    fn wakes_at(&self) -> Tick {
        let mailbox = self.0.borrow();
        match (mailbox.asks, mailbox.goes_on) {
            (Some(_), _) => Tick::NEVER,
            (None, true) => Tick::from_ms(0),
            (None, false) => mailbox.wake,
        }
    }
}

#[cfg(test)]
mod tests;
