//! The half of a script's filter beside the stream: it calls the functions of the script.

use std::rc::Rc;

use weir_containers::PooledFuture;
use weir_mux::{Failed, HeadPassage, LengthChange};
use weir_sched::Tick;
use weir_scripts::{
    FilterCallback, FilterMade, FilterOutcome, FilterResult, FilterTurn, NewLength, ScriptSide, Turn,
};

use super::mailbox::{Analysis, FilterAsk, FilterMailbox};
use super::{ObjectStage, ScriptAttachment, ScriptedFilter};
use crate::clock;
use crate::drive::{DriveStep, drive_withheld, waits_until};
use crate::ending::{By, During};
use crate::errors::MessageDirection;
use crate::stream::attached::Attached;
use crate::stream::phases::FilterPhase;
use crate::stream::{PhaseResult, Stream, StreamError};

/// How a call about a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallProgress {
    Done,
    /// Try again at this time, or once something woke the task.
    Again(Tick),
    /// The message is refused.
    Failed,
}

/// The calls that a channel begins and ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnalysisCall {
    Begin,
    End,
}

impl FilterPhase {
    /// Whether the stream has filters of scripts.
    #[inline]
    pub(crate) fn has_scripts(&self) -> bool {
        self.stream.attached.as_ref().is_some_and(|attached| attached.has_script_filters)
    }

    /// Begins the analysis of a channel, for the filters of scripts that did not begin it before (`start_analyze`).
    #[inline]
    pub(crate) async fn begin_analysis(&mut self, direction: MessageDirection) -> PhaseResult {
        if !self.has_scripts() {
            return Ok(());
        }
        PooledFuture::new(self.analyze(direction, AnalysisCall::Begin)).await
    }

    /// Ends the analysis of both channels, where it began (`end_analyze`).
    #[cold]
    pub(crate) async fn end_analysis(&mut self) {
        for direction in [MessageDirection::Request, MessageDirection::Response] {
            // An error has been reported, and there is nothing left to refuse.
            let _ = self.analyze(direction, AnalysisCall::End).await;
        }
    }

    /// Makes a call about a channel to each filter, and waits for those that are held up.
    async fn analyze(&mut self, direction: MessageDirection, call: AnalysisCall) -> PhaseResult {
        let side = side_of(direction);
        self.call_until_done(direction, move |stream| {
            call_each(stream, |filter, stream| filter.analyze(stream, side, call))
        })
        .await
    }

    /// Passes the head of a message to the filters. Returns how they change the length of its body.
    #[cold]
    pub(crate) async fn pass_head(&mut self, direction: MessageDirection) -> PhaseResult<LengthChange> {
        loop {
            let progress = match direction {
                MessageDirection::Request => {
                    self.stream.request.body.head(&mut self.stream.request.message, None)
                }
                MessageDirection::Response => self
                    .stream
                    .response
                    .body
                    .head(&mut self.stream.response.message, Some(&self.stream.request.message)),
            };
            match progress {
                Ok(HeadPassage::Passed(change)) => return Ok(change),
                Ok(HeadPassage::AwaitsStream) => {
                    self.call_until_done(direction, |stream| stream.filter_phase().answer_all(direction))
                        .await?;
                }
                Err(Failed) => return Err(StreamError::error(500, By::Internal, During::Headers)),
            }
        }
    }

    /// Makes the calls that a transfer waits for. Returns when to go on: `None` if it can go on now.
    #[cold]
    pub(crate) fn consult(&mut self) -> PhaseResult<Option<Tick>> {
        let mut wake = None;
        for direction in [MessageDirection::Request, MessageDirection::Response] {
            match self.answer_all(direction)? {
                CallProgress::Done => {}
                CallProgress::Again(at) => wake = Some(wake.map_or(at, |wake: Tick| wake.min(at))),
                CallProgress::Failed => return Err(self.refusal(direction)),
            }
        }
        Ok(wake)
    }

    /// Whether a transfer waits for calls to filters.
    #[inline]
    pub(crate) fn awaits_calls(&self) -> bool {
        self.has_scripts()
            && (self.stream.request.body.awaits_stream() || self.stream.response.body.awaits_stream())
    }

    fn answer_all(&mut self, direction: MessageDirection) -> PhaseResult<CallProgress> {
        let side = side_of(direction);
        call_each(&mut self.stream, |filter, stream| filter.answer(stream, side))
    }

    /// Repeats `call` until it is done.
    async fn call_until_done(
        &mut self,
        direction: MessageDirection,
        mut call: impl FnMut(&mut Stream) -> PhaseResult<CallProgress>,
    ) -> PhaseResult {
        drive_withheld(&mut self.stream, |stream| match call(stream)? {
            CallProgress::Done => Ok(DriveStep::Done(())),
            CallProgress::Failed => Err(stream.as_filter_phase().refusal(direction)),
            CallProgress::Again(at) => waits_until(stream, at, stream.phase).map(DriveStep::Wait),
        })
        .await
    }

    /// The end of a stream, after a filter refused a message.
    fn refusal(&self, direction: MessageDirection) -> StreamError {
        let during = self.stream.phase;
        match direction {
            _ if !self.stream.speaks_http() || self.stream.response.is_leaving() => {
                StreamError::close(By::Proxy, during)
            }
            MessageDirection::Request => {
                let during = if self.stream.server.upstream.is_some() { during } else { During::Request };
                StreamError::error(400, By::Proxy, during)
            }
            MessageDirection::Response => StreamError::error(502, By::Proxy, During::Headers),
        }
    }
}

fn side_of(direction: MessageDirection) -> ScriptSide {
    match direction {
        MessageDirection::Request => ScriptSide::Request,
        MessageDirection::Response => ScriptSide::Response,
    }
}

/// Makes a call to each filter of a script, up to the first one that is not done.
fn call_each(
    stream: &mut Stream,
    call: impl Fn(&ScriptedFilter, &mut Stream) -> PhaseResult<CallProgress>,
) -> PhaseResult<CallProgress> {
    for at in 0.. {
        let Some(filter) = script_filter(stream, at) else { break };
        match call(&filter, stream)? {
            CallProgress::Done => {}
            other => return Ok(other),
        }
    }
    Ok(CallProgress::Done)
}

/// The stream's filter of a script at this position among them.
fn script_filter(stream: &Stream, at: usize) -> Option<Rc<ScriptedFilter>> {
    let attached = stream.attached.as_ref()?;
    attached.every::<ScriptAttachment>().nth(at).map(|attachment| Rc::clone(&attachment.0))
}

impl ScriptedFilter {
    /// Makes the object of the stream.
    fn make(&self, stream: &mut Stream) -> PhaseResult<CallProgress> {
        if self.stage.get() != ObjectStage::New {
            return Ok(CallProgress::Done);
        }
        let Some(made) = self.instance.borrow_mut().make(stream) else { return Ok(busy()) };
        match made {
            FilterMade::Ready => self.stage.set(ObjectStage::Made),
            FilterMade::Ignored => self.leave(),
            FilterMade::Failed => {
                self.leave();
                return Err(StreamError::error(500, By::Internal, During::Request));
            }
        }
        Ok(CallProgress::Done)
    }

    fn leave(&self) {
        self.stage.set(ObjectStage::Ignored);
        self.halves.iter().for_each(|half| half.borrow_mut().leave());
    }

    /// The call that begins or ends a channel.
    fn analyze(
        &self,
        stream: &mut Stream,
        side: ScriptSide,
        call: AnalysisCall,
    ) -> PhaseResult<CallProgress> {
        let (before, after, callback) = match call {
            AnalysisCall::Begin => (Analysis::Awaited, Analysis::Begun, FilterCallback::StartAnalyze),
            AnalysisCall::End => (Analysis::Begun, Analysis::Ended, FilterCallback::EndAnalyze),
        };
        if self.half(side).borrow().analysis != before {
            return Ok(CallProgress::Done);
        }
        if call == AnalysisCall::Begin {
            match self.make(stream)? {
                CallProgress::Done => {}
                other => return Ok(other),
            }
            if self.stage.get() == ObjectStage::Ignored {
                return Ok(CallProgress::Done);
            }
        }
        let (outcome, _) = self.call(stream, callback, FilterTurn::new(side));
        let Some(outcome) = outcome else { return Ok(busy()) };
        let progress = progress_of(outcome);
        if !matches!(progress, CallProgress::Again(_)) || call == AnalysisCall::End {
            self.half(side).borrow_mut().analysis = after;
        }
        Ok(progress)
    }

    /// Makes the call that the mailbox of a side requests.
    fn answer(&self, stream: &mut Stream, side: ScriptSide) -> PhaseResult<CallProgress> {
        let half = self.half(side);
        let Some(ask) = half.borrow().asks else { return Ok(CallProgress::Done) };
        let mut turn = FilterTurn::new(side);
        let callback = match ask {
            FilterAsk::Headers => {
                turn.sees_head = true;
                FilterCallback::HttpHeaders
            }
            FilterAsk::End => FilterCallback::HttpEnd,
            FilterAsk::Payload if stream.speaks_http() => FilterCallback::HttpPayload,
            FilterAsk::Payload => FilterCallback::TcpPayload,
        };
        if ask == FilterAsk::Payload {
            turn.payload = Some(std::mem::take(&mut half.borrow_mut().payload));
        }
        let (outcome, turn) = self.call(stream, callback, turn);
        let mut mailbox = half.borrow_mut();
        if let Some(payload) = turn.payload {
            mailbox.payload = payload;
        }
        let Some(outcome) = outcome else { return Ok(busy()) };
        Ok(self.settle(&mut mailbox, ask, outcome, turn.length, callback, stream))
    }

    /// Tells the mailbox how its call ended.
    fn settle(
        &self,
        mailbox: &mut FilterMailbox,
        ask: FilterAsk,
        outcome: FilterOutcome,
        length: Option<NewLength>,
        callback: FilterCallback,
        stream: &mut Stream,
    ) -> CallProgress {
        let progress = progress_of(outcome);
        match (ask, progress) {
            (_, CallProgress::Failed) => mailbox.fail(),
            (FilterAsk::Payload, _) => {
                let wake = outcome.wake_ms.map_or(Tick::NEVER, clock::after_ms);
                if mailbox.end_payload(outcome.result, wake).is_err() {
                    mailbox.fail();
                    self.instance.borrow().report_vain_wait(callback, stream);
                    return CallProgress::Failed;
                }
                return CallProgress::Done;
            }
            (_, CallProgress::Again(_)) => {}
            (FilterAsk::Headers, _) => mailbox.end_headers(length),
            (FilterAsk::End, _) => mailbox.end_message(),
        }
        progress
    }

    /// Calls a function with a turn. Gives the turn back. No outcome while another thread has the state.
    fn call(
        &self,
        stream: &mut Stream,
        callback: FilterCallback,
        turn: FilterTurn,
    ) -> (Option<FilterOutcome>, FilterTurn) {
        let side = turn.side;
        Attached::of_stream(stream).turn = Some(Box::new(turn));
        let outcome = self.instance.borrow_mut().call(callback, side, stream);
        let turn = Attached::of_stream(stream).turn.take();
        let turn = turn.map_or_else(|| FilterTurn::new(side), |turn| *turn);
        if let Some(outcome) = &outcome {
            for (half, registered) in self.halves.iter().zip(outcome.registered) {
                if let Some(wants) = registered {
                    half.borrow_mut().wants_payload = wants;
                }
            }
        }
        (outcome, turn)
    }
}

/// The effect of a call that is not about payload.
fn progress_of(outcome: FilterOutcome) -> CallProgress {
    match outcome.result {
        FilterResult::Value(Some(WAIT)) => {
            CallProgress::Again(clock::after_ms(outcome.wake_ms.unwrap_or(WITHOUT_WAKE_MS)))
        }
        FilterResult::Value(Some(ERROR)) | FilterResult::Failed => CallProgress::Failed,
        _ => CallProgress::Done,
    }
}

/// Another thread has the state: the task is woken for its turn.
fn busy() -> CallProgress {
    CallProgress::Again(Turn::retry_at())
}

/// `filter.WAIT`.
const WAIT: i64 = 0;
/// `filter.ERROR`.
const ERROR: i64 = -1;
/// When a filter that waits without `filter.wake_time` is called again, in milliseconds.
const WITHOUT_WAKE_MS: u64 = 1_000;
