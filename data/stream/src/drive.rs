//! The only loop in which a stream waits: for a request's head, a slot, a connection, the end of a tarpit, and during the transfer of a
//! response, bodies, a tunnel or a reply.
//!
//! Each step moves as many bytes as possible. This module handles waits, timeouts and shutdowns by an administrator in
//! the same way for all steps. [`crate::deadlines`] lists the timeout of each wait.
//!
//! Rare waits are boxed (`PooledFuture`). An async function reserves space for everything that it may await, and that space is copied
//! when the function is called.

use weir_sched::{Tick, wait, yield_now};

use crate::clock;
use crate::deadlines::{Deadlines, SideBytes, Waits, While};
use crate::ending::{By, During};
use crate::holding::QUIET;
use crate::stream::{PhaseResult, Stream, StreamError};

/// The result of a step, after everything possible was moved.
pub(crate) enum DriveStep<T> {
    /// The operation is complete.
    Done(T),
    /// The operation continues after one of these events.
    Wait(Waits),
}

/// Runs a `step` that waits for something other than the peers ([`waits_until`]). Neither side can time out meanwhile.
pub(crate) async fn drive_withheld<T>(
    stream: &mut Stream,
    mut step: impl FnMut(&mut Stream) -> PhaseResult<DriveStep<T>>,
) -> PhaseResult<T> {
    let ended = stream
        .drive(
            While::Bodies,
            |stream, _| step(stream),
            |stream, by, _| Err(StreamError::close(by, stream.phase)),
        )
        .await;
    stream.response.body.resume_at(None);
    ended
}

/// A wait until a time, or until something wakes the task. Neither side can time out meanwhile.
pub(crate) fn waits_until(stream: &mut Stream, at: Tick, during: During) -> PhaseResult<Waits> {
    if stream.client.is_broken() {
        return Err(StreamError::close(By::Client, during));
    }
    stream.hold_little();
    stream.response.body.resume_at(Some(at));
    Ok(Waits { withheld: true, ..Waits::default() })
}

impl Stream {
    /// Runs `step` until it is done, fails, or a side times out. Then `late` determines the result.
    #[inline]
    pub(crate) fn drive<T, E: From<StreamError>>(
        &mut self,
        during: While,
        step: impl FnMut(&mut Stream, &mut Deadlines) -> Result<DriveStep<T>, E>,
        late: fn(&mut Stream, By, &Waits) -> Result<T, E>,
    ) -> impl Future<Output = Result<T, E>> {
        self.drive_on(during, None, step, late)
    }

    /// Like [`Stream::drive`], after a first step with the result `first`.
    ///
    /// The future is a block. An async function would store its arguments twice for the whole wait.
    #[inline]
    pub(crate) fn drive_on<T, E: From<StreamError>>(
        &mut self,
        during: While,
        mut first: Option<Waits>,
        mut step: impl FnMut(&mut Stream, &mut Deadlines) -> Result<DriveStep<T>, E>,
        late: fn(&mut Stream, By, &Waits) -> Result<T, E>,
    ) -> impl Future<Output = Result<T, E>> {
        let mut deadlines = Deadlines::new(during, &self.timeouts, self.progress(), weir_sched::now());
        let mut withheld = false;
        async move {
            loop {
                let waits = match first.take() {
                    Some(waits) => waits,
                    None => match step(self, &mut deadlines)? {
                        DriveStep::Done(result) => return Ok(result),
                        DriveStep::Wait(waits) => waits,
                    },
                };
                // A stream that was already killed keeps the first cause.
                if !matches!(self.ending.by, By::Killed | By::Down | By::Up) {
                    self.check_alive()?;
                }
                let now = weir_sched::now();
                if deadlines.advance(self.progress(), now) {
                    self.counts_mut().count_bytes_if_continuous();
                }
                let mut wake = Tick::NEVER;
                if self.as_filter_phase().awaits_calls() {
                    match self.filter_phase().consult()? {
                        Some(at) => wake = at,
                        None => {
                            yield_now().await;
                            self.entry.resumed();
                            continue;
                        }
                    }
                }
                let is_withheld = std::mem::replace(&mut withheld, waits.withheld) || waits.withheld;
                if is_withheld {
                    deadlines.begin_anew(now);
                }
                if is_withheld || self.as_filter_phase().has_scripts() {
                    wake = wake.min(self.filters_wake_at());
                }
                if let Some(by) = deadlines.passed(&waits, now) {
                    return late(self, by, &waits);
                }
                // Others run before a filter that is due.
                if waits.yields || clock::passed(wake) {
                    yield_now().await;
                    self.entry.resumed();
                    continue;
                }
                let deadline = deadlines.next(&waits).min(wake);
                let quiet = self.begin_wait();
                wait(deadline.min(quiet)).await;
                self.entry.resumed();
                if clock::passed(quiet) {
                    self.hold_less();
                }
            }
        }
    }

    /// The current byte counts.
    #[inline]
    pub(crate) fn progress(&self) -> SideBytes {
        let server = self.server.bytes();
        SideBytes {
            from_client: self.client.received(),
            to_client: self.client.sent(),
            from_server: server.0,
            to_server: server.1,
        }
    }

    /// Begins a wait for peers. Returns the time when the buffers shrink if the peers are quiet until then.
    #[inline]
    fn begin_wait(&mut self) -> Tick {
        self.scratch.reset();
        if self.has_slack() { clock::after(QUIET) } else { Tick::NEVER }
    }
}
