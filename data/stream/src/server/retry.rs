//! When an attempt on a server failed: try again, where, or give up.

use std::time::Duration;

use weir_backend::Observation;
use weir_backend::retry::{self, NextAttempt};
use weir_config::model::RetryOn;
use weir_net::Fault;

use crate::counters::Event;
use crate::deadlines::{Waits, While};
use crate::drive::Step;
use crate::ending::{By, During};
use crate::stream::log_record::LogState;
use crate::stream::{Phase, Stream, StreamError};

/// Why an attempt on a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection was refused, or cannot be made.
    Refused(Option<Fault>),
    /// The connection was not there in time.
    ConnectTimeout,
    /// It closed before the first byte of a response.
    Empty,
    /// It was broken already: nothing of the request left.
    Unsent(Fault),
    /// The server did not look at the request (RFC 9113, 8.7): it may be sent again, whatever it asks for.
    Unprocessed,
    /// It broke while the request was sent, before the first byte of a response.
    Aborted(Fault),
    /// It closed in the middle of a head.
    Cut,
    /// What came was no response.
    Junk,
    /// The response's head does not fit the buffer.
    TooLarge,
    /// No response in time.
    TimedOut,
    /// A response with a status that `retry-on` lists.
    Status(u16),
}

impl Failure {
    /// What it shows of the server to who observes traffic, if anything.
    fn observation(self) -> Option<Observation> {
        Some(match self {
            Failure::Refused(Some(fault)) if fault.is_ours() => return None,
            Failure::Refused(_) | Failure::ConnectTimeout => Observation::NotConnected,
            Failure::Empty | Failure::Unsent(_) | Failure::Unprocessed | Failure::Aborted(_) => {
                Observation::BrokenConnection
            }
            Failure::Cut | Failure::Junk | Failure::TooLarge => Observation::WrongResponse,
            Failure::TimedOut => Observation::NoResponse,
            // Its status was looked at already.
            Failure::Status(_) => return None,
        })
    }

    /// Whether the connection itself failed: nothing of the request reached the server.
    pub fn is_connection(self) -> bool {
        matches!(self, Failure::Refused(_) | Failure::ConnectTimeout)
    }

    fn retry_on(self) -> RetryOn {
        match self {
            Failure::Refused(_) | Failure::ConnectTimeout => RetryOn::CONNECTION_FAILURE,
            Failure::Empty | Failure::Unsent(_) | Failure::Unprocessed | Failure::Aborted(_) => {
                RetryOn::EMPTY_RESPONSE
            }
            Failure::Cut | Failure::Junk | Failure::TooLarge => RetryOn::JUNK_RESPONSE,
            Failure::TimedOut => RetryOn::RESPONSE_TIMEOUT,
            Failure::Status(status) => RetryOn::status(status),
        }
    }

    /// What the client gets when nothing helped.
    fn stop(self) -> StreamError {
        match self {
            Failure::Refused(Some(fault)) if fault.is_ours() => {
                StreamError::error(503, By::Resource, During::Connect)
            }
            Failure::Refused(_) => StreamError::error(503, By::Server, During::Connect),
            Failure::ConnectTimeout => StreamError::error(503, By::ServerTimeout, During::Connect),
            Failure::Empty | Failure::Unsent(_) | Failure::Unprocessed | Failure::Aborted(_) => {
                StreamError::error(502, By::Server, During::Headers)
            }
            Failure::Cut | Failure::Junk | Failure::TooLarge => {
                StreamError::error(502, By::Proxy, During::Headers)
            }
            Failure::TimedOut => StreamError::error(504, By::ServerTimeout, During::Headers),
            Failure::Status(status) => StreamError::error(status, By::Server, During::Headers),
        }
    }
}

/// Whether `retry-on` asks for another attempt after a response with this status.
pub fn status_retries(stream: &Stream, status: u16) -> bool {
    let retry_on = stream.backend.config.settings.retry_on;
    retry_on.contains_status(status) && stream.may_replay() && stream.attempts.are_left()
}

impl Stream {
    /// Whether the request can be sent once more.
    fn may_replay(&self) -> bool {
        self.attempts.replay.is_possible() && !self.attempts.interim_forwarded && !self.response.is_leaving()
    }

    /// Whether the request is sent again, and its client hears nothing of it, in whatever way an idle connection fails it: the
    /// server has just closed it, or nothing comes because it expired somewhere on the path.
    pub(super) fn outlives_idle_connection(&self) -> bool {
        const WAYS: [RetryOn; 3] =
            [RetryOn::CONNECTION_FAILURE, RetryOn::EMPTY_RESPONSE, RetryOn::RESPONSE_TIMEOUT];
        let retry_on = self.backend.config.settings.retry_on;
        self.attempts.are_left() && self.may_replay() && WAYS.into_iter().all(|way| retry_on.contains(way))
    }

    /// After a failed attempt: returns to try again, or says how the stream ends.
    pub(crate) async fn retry_after(&mut self, failure: Failure) -> Phase {
        self.trace_failure(failure);
        // The server may close a connection that was used before just as the next request leaves. What did not leave is no
        // second request; what did is sent again only if it changes nothing and retries are allowed.
        let reused = std::mem::take(&mut self.attempts.on_reused_connection)
            && matches!(
                failure,
                Failure::Empty | Failure::Unsent(_) | Failure::Unprocessed | Failure::Aborted(_)
            );
        if reused && self.may_replay() {
            if matches!(failure, Failure::Unsent(_) | Failure::Unprocessed) {
                self.attempts.fresh_connection_only = true;
                return Ok(());
            }
            let settings = &self.backend.config.settings;
            let allowed = self.attempts.are_left() && settings.retry_on.contains(RetryOn::CONNECTION_FAILURE);
            if allowed && self.request.message.head.method().is_safe() {
                self.attempts.fresh_connection_only = true;
                self.count_retry();
                self.count(Event::Retry);
                return Ok(());
            }
        }
        self.observe(failure.observation());
        // What one idle connection did to it, the others might do as well.
        self.attempts.fresh_connection_only |= reused;
        let wanted = failure == Failure::Unprocessed
            || self.backend.config.settings.retry_on.contains(failure.retry_on());
        let possible = failure.is_connection() || self.may_replay();
        let next = if wanted && possible { self.next_attempt(failure) } else { NextAttempt::GiveUp };
        match next {
            // Whoever asks on a connection that was used before knows that it may close, and whether to ask again.
            NextAttempt::GiveUp if reused && self.session.requests.get() > 1 => {
                self.log.state = LogState::Unwanted;
                self.count(Event::FailedResponse);
                return Err(StreamError::close(By::Server, During::Headers));
            }
            NextAttempt::GiveUp => return Err(self.give_up(failure)),
            NextAttempt::Again { wait_ms } => {
                self.count_retry_of_answer(failure);
                self.count_retry();
                self.count(Event::Retry);
                self.turn_around(Duration::from_millis(wait_ms)).await?;
            }
            NextAttempt::Elsewhere => {
                self.count_retry_of_answer(failure);
                self.count_retry();
                let avoid = self.server.lease.as_ref().map(|lease| lease.server().key());
                self.count(Event::Redispatch);
                self.server.lease = None;
                self.choice.choose_freely();
                self.assign_avoiding(avoid).await?;
                let chosen = self.server.lease.as_ref().map(|lease| lease.server().key());
                self.choice.redispatched |= chosen != avoid;
            }
        }
        Ok(())
    }

    /// A request that is sent again because of its answer is one retry, and connecting for it another one or a redispatch.
    fn count_retry_of_answer(&self, failure: Failure) {
        if !failure.is_connection() {
            self.count(Event::Retry);
        }
    }

    fn next_attempt(&self, failure: Failure) -> NextAttempt {
        let backend = self.backend.servers();
        let status = backend.status(weir_sched::now().as_ms());
        // One that is down and was wanted all the same is not among those that can be chosen, but was one to try.
        let wanted_though_down = self.server.lease.as_ref().is_some_and(|lease| !lease.server().is_up());
        let usable = if status.active > 0 { status.active } else { status.backup };
        retry::after_failure(
            backend.settings(),
            &retry::Failure {
                retries_made: self.attempts.retries,
                retries_allowed: self.attempts.allowed(),
                designated: !self.choice.designation.is_free(),
                forced: self.choice.designation.is_forced(),
                usable_servers: usable + u32::from(wanted_though_down),
                refused: matches!(failure, Failure::Refused(_)),
                connect_timeout_ms: self
                    .timeouts
                    .connect
                    .and_then(|timeout| u64::try_from(timeout.as_millis()).ok()),
            },
        )
    }

    /// Waits before the same server is tried again: it may be restarting (manual, `retries`).
    async fn turn_around(&mut self, pause: Duration) -> Phase {
        if pause.is_zero() {
            return Ok(());
        }
        self.drive(
            While::pause(pause, weir_sched::now()),
            |stream, _| match stream.client_left() {
                // Nobody tries again for a client that is gone already.
                true => Err(StreamError::close(By::Client, During::Connect)),
                false => Ok(Step::Wait(Waits::ONCE)),
            },
            |_, _, _| Ok(()),
        )
        .await
    }

    fn give_up(&mut self, failure: Failure) -> StreamError {
        let stop = failure.stop();
        match failure {
            Failure::Refused(_) | Failure::ConnectTimeout => self.count(Event::FailedConnection),
            Failure::Status(_) => {}
            _ => self.count(Event::FailedResponse),
        }
        stop
    }
}
