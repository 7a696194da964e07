//! Decides after a failed attempt whether to retry, and on which server.

use std::time::Duration;

use weir_backend::Observation;
use weir_backend::retry::{self, NextAttempt};
use weir_model::RetryOn;
use weir_net::ConnectionFault;

use super::idle;
use crate::counters::CountedEvent;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During};
use crate::stream::log_record::LogState;
use crate::stream::phases::ServerPhase;
use crate::stream::{PhaseResult, Stream, StreamError};
use crate::upstream::Upstream;

/// Why an attempt on a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    /// The connection was refused or could not be opened.
    Refused(Option<ConnectionFault>),
    /// The connection was not established in time.
    ConnectTimeout,
    /// The server closed the connection before the first byte of a response.
    Empty,
    /// The connection was already broken. No byte of the request was sent.
    Unsent(ConnectionFault),
    /// The server did not process the request (RFC 9113, 8.7): it may be retried, whatever its method.
    Unprocessed,
    /// The connection broke while the request was sent, before the first byte of a response.
    Aborted(ConnectionFault),
    /// The server closed the connection in the middle of a response head.
    Cut,
    /// The response was invalid.
    Junk,
    /// The response's head does not fit the buffer.
    TooLarge,
    /// No response in time.
    TimedOut,
    /// The request was sent as early data, and the handshake failed or the server answered 425.
    TooEarly,
    /// A response with a status that `retry-on` lists.
    Status(u16),
}

impl AttemptFailure {
    /// The observation to report for the server. `None` if the failure is already observed or not the server's.
    fn observation(self) -> Option<Observation> {
        Some(match self {
            AttemptFailure::Refused(Some(fault)) if fault.is_ours() => return None,
            AttemptFailure::Refused(_) | AttemptFailure::ConnectTimeout => Observation::NotConnected,
            AttemptFailure::Empty
            | AttemptFailure::Unsent(_)
            | AttemptFailure::Unprocessed
            | AttemptFailure::Aborted(_) => Observation::BrokenConnection,
            AttemptFailure::Cut | AttemptFailure::Junk | AttemptFailure::TooLarge => {
                Observation::WrongResponse
            }
            AttemptFailure::TimedOut => Observation::NoResponse,
            AttemptFailure::TooEarly => return None,
            // The status was observed when the response arrived.
            AttemptFailure::Status(_) => return None,
        })
    }

    /// Whether the connection could not be established, so that no byte of the request reached the server.
    pub fn is_connection(self) -> bool {
        matches!(self, AttemptFailure::Refused(_) | AttemptFailure::ConnectTimeout)
    }

    fn retry_on(self) -> RetryOn {
        match self {
            AttemptFailure::Refused(_) | AttemptFailure::ConnectTimeout => RetryOn::CONNECTION_FAILURE,
            AttemptFailure::Empty
            | AttemptFailure::Unsent(_)
            | AttemptFailure::Unprocessed
            | AttemptFailure::Aborted(_) => RetryOn::EMPTY_RESPONSE,
            AttemptFailure::Cut | AttemptFailure::Junk | AttemptFailure::TooLarge => RetryOn::JUNK_RESPONSE,
            AttemptFailure::TimedOut => RetryOn::RESPONSE_TIMEOUT,
            AttemptFailure::TooEarly => RetryOn::EARLY_DATA_REJECTED,
            AttemptFailure::Status(status) => RetryOn::status(status),
        }
    }

    /// The client's response after the last attempt.
    fn stop(self) -> StreamError {
        match self {
            AttemptFailure::Refused(Some(fault)) if fault.is_ours() => {
                StreamError::error(503, By::Resource, During::Connect)
            }
            AttemptFailure::Refused(_) => StreamError::error(503, By::Server, During::Connect),
            AttemptFailure::ConnectTimeout => StreamError::error(503, By::ServerTimeout, During::Connect),
            AttemptFailure::TooEarly => StreamError::error(503, By::Server, During::Connect),
            AttemptFailure::Empty
            | AttemptFailure::Unsent(_)
            | AttemptFailure::Unprocessed
            | AttemptFailure::Aborted(_) => StreamError::error(502, By::Server, During::Headers),
            AttemptFailure::Cut | AttemptFailure::Junk | AttemptFailure::TooLarge => {
                StreamError::error(502, By::Proxy, During::Headers)
            }
            AttemptFailure::TimedOut => StreamError::error(504, By::ServerTimeout, During::Headers),
            AttemptFailure::Status(status) => StreamError::error(status, By::Server, During::Headers),
        }
    }
}

/// Whether `retry-on` allows another attempt after a response with this status.
pub fn status_retries(stream: &Stream, status: u16) -> bool {
    let retry_on = stream.backend.config.settings.retry_on;
    retry_on.contains_status(status) && stream.as_server_phase().may_replay() && stream.attempts.are_left()
}

/// Whether a 425 was caused by weir's own early data. Such a 425 must not reach the client, because the client's request was not early
/// data (RFC 8470, 5.2).
pub fn was_too_early(stream: &Stream, status: u16) -> bool {
    let (bytes, head) = (stream.request.message.bytes(), &stream.request.message.head);
    let retry_on = stream.backend.config.settings.retry_on;
    status == 425
        && stream.attempts.sent_early
        && retry_on.contains(RetryOn::EARLY_DATA_REJECTED)
        && !head.has(bytes, b"early-data")
        && stream.as_server_phase().may_replay()
        && stream.attempts.are_left()
}

impl ServerPhase {
    /// Maps the failure of a request sent as early data. Before the end of the handshake, it is a failure of the early data.
    pub(crate) fn failure_of_early(&mut self, failure: AttemptFailure) -> AttemptFailure {
        let is_early = |upstream: &Upstream| upstream.connector.tls().is_some_and(|facts| facts.early);
        let open = self.stream.server.upstream.as_ref().is_some_and(is_early);
        let failed = match failure {
            AttemptFailure::TooEarly => true,
            AttemptFailure::Empty | AttemptFailure::Unsent(_) | AttemptFailure::Aborted(_) => open,
            _ => false,
        };
        self.stream.attempts.early_refused |= failed;
        if failed { AttemptFailure::TooEarly } else { failure }
    }

    /// Whether the request can be sent again.
    fn may_replay(&self) -> bool {
        self.stream.attempts.replay.is_possible()
            && !self.stream.attempts.interim_forwarded
            && !self.stream.response.is_leaving()
    }

    /// Whether any failure of an idle connection can be retried unnoticed by the client: the server has just closed the connection, or
    /// packets are lost because it expired on a device in the path.
    pub(super) fn outlives_idle_connection(&self) -> bool {
        const WAYS: [RetryOn; 3] =
            [RetryOn::CONNECTION_FAILURE, RetryOn::EMPTY_RESPONSE, RetryOn::RESPONSE_TIMEOUT];
        let retry_on = self.stream.backend.config.settings.retry_on;
        self.stream.attempts.are_left()
            && self.may_replay()
            && WAYS.into_iter().all(|way| retry_on.contains(way))
    }

    /// Handles a failed attempt. Returns `Ok` to retry, else the ending of the stream.
    pub(crate) async fn retry_after(&mut self, failure: AttemptFailure) -> PhaseResult {
        self.stream.trace().trace_failure(failure);
        // The server may close a reused connection at the moment the next request is sent. A retry of an unsent request does not count. A sent
        // request is retried only if it is idempotent and retries are allowed.
        let reused = std::mem::take(&mut self.stream.attempts.on_reused_connection)
            && matches!(
                failure,
                AttemptFailure::Empty
                    | AttemptFailure::Unsent(_)
                    | AttemptFailure::Unprocessed
                    | AttemptFailure::Aborted(_)
            );
        if reused && self.may_replay() {
            if matches!(failure, AttemptFailure::Unsent(_) | AttemptFailure::Unprocessed) {
                self.stream.attempts.fresh_connection_only = true;
                return Ok(());
            }
            let settings = &self.stream.backend.config.settings;
            let allowed =
                self.stream.attempts.are_left() && settings.retry_on.contains(RetryOn::CONNECTION_FAILURE);
            if allowed && self.stream.request.message.head.method().is_safe() {
                self.stream.attempts.fresh_connection_only = true;
                self.stream.count_retry();
                self.stream.counts().count(CountedEvent::Retry);
                return Ok(());
            }
        }
        self.observe(failure.observation());
        // Other idle connections might fail in the same way.
        self.stream.attempts.fresh_connection_only |= reused;
        let wanted = failure == AttemptFailure::Unprocessed
            || self.stream.backend.config.settings.retry_on.contains(failure.retry_on());
        let possible = failure.is_connection() || self.may_replay();
        let next = if wanted && possible { self.next_attempt(failure) } else { NextAttempt::GiveUp };
        match next {
            // A client expects that a reused connection may close, and can retry by itself.
            NextAttempt::GiveUp
                if reused
                    && self.stream.session.requests.get() > 1
                    && self.leaves_retry_to_client(failure) =>
            {
                self.stream.log.state = LogState::Unwanted;
                self.stream.counts().count(CountedEvent::FailedResponse);
                return Err(StreamError::close(By::Server, During::Headers));
            }
            NextAttempt::GiveUp => return Err(self.give_up(failure)),
            NextAttempt::Again { wait_ms } => {
                self.count_retry_of_answer(failure);
                self.stream.count_retry();
                self.stream.counts().count(CountedEvent::Retry);
                self.turn_around(Duration::from_millis(wait_ms)).await?;
            }
            NextAttempt::Elsewhere => {
                self.count_retry_of_answer(failure);
                self.stream.count_retry();
                choose_again(&mut self.stream).await?;
            }
        }
        Ok(())
    }

    /// Whether to leave the retry to the client, signalled only by closing the connection. In HTTP/2 the signal is an error code (RFC 9113,
    /// 8.7) after which clients retry any method. So it is sent only for safe methods, or if no server processed the request.
    fn leaves_retry_to_client(&mut self, failure: AttemptFailure) -> bool {
        if self.stream.client.shared().is_none() {
            return true;
        }
        let was_unseen = matches!(failure, AttemptFailure::Unsent(_) | AttemptFailure::Unprocessed);
        let is_harmless = was_unseen || self.stream.request.message.head.method().is_safe();
        if is_harmless {
            self.stream.client.refuse();
        }
        is_harmless
    }

    /// Counts a retry that the response caused as one retry. The new connection counts as another retry or as a redispatch.
    fn count_retry_of_answer(&self, failure: AttemptFailure) {
        if !failure.is_connection() {
            self.stream.counts().count(CountedEvent::Retry);
        }
    }

    fn next_attempt(&self, failure: AttemptFailure) -> NextAttempt {
        let backend = self.stream.backend.servers();
        let [active, backup] = backend.usable_by_kind();
        // A server that is down but was used for persistence does not count as usable, although it was tried.
        let wanted_though_down =
            self.stream.server.lease.as_ref().is_some_and(|lease| !lease.server().is_up());
        let usable = if active > 0 { active } else { backup };
        retry::after_failure(
            backend.settings(),
            &retry::FailedAttempt {
                retries_made: self.stream.attempts.retries,
                retries_allowed: self.stream.attempts.allowed(),
                designated: !self.stream.choice.designation.is_free(),
                forced: self.stream.choice.designation.is_forced(),
                usable_servers: usable + u32::from(wanted_though_down),
                refused: matches!(failure, AttemptFailure::Refused(_)),
                connect_timeout_ms: self.stream.timeouts.connect.duration().map(crate::clock::milliseconds),
            },
        )
    }

    /// Waits before a retry on the same server, because it may be restarting (manual, `retries`).
    async fn turn_around(&mut self, pause: Duration) -> PhaseResult {
        if pause.is_zero() {
            return Ok(());
        }
        self.stream
            .drive(
                While::pause(pause, weir_sched::now()),
                |stream, _| match stream.client_left() {
                    // No retry if the client has aborted.
                    true => Err(StreamError::close(By::Client, During::Connect)),
                    false => Ok(DriveStep::Wait(Waits::ONCE)),
                },
                |_, _, _| Ok(()),
            )
            .await
    }

    fn give_up(&mut self, failure: AttemptFailure) -> StreamError {
        let stop = failure.stop();
        match failure {
            AttemptFailure::Refused(_) | AttemptFailure::ConnectTimeout | AttemptFailure::TooEarly => {
                self.stream.counts().count(CountedEvent::FailedConnection);
            }
            AttemptFailure::Status(_) => {}
            _ => self.stream.counts().count(CountedEvent::FailedResponse),
        }
        stop
    }
}

/// Chooses a server after a failed attempt, preferably another one. The same one again is a retry of it, any other one a redispatch.
async fn choose_again(stream: &mut Stream) -> PhaseResult {
    let avoid = idle::leased_key(stream);
    stream.server.lease = None;
    stream.choice.choose_freely();
    // A slot from a queue is a redispatch, too.
    let before = std::mem::take(&mut stream.choice.redispatched);
    let assigned = stream.choice_phase().assign_avoiding(avoid).await;
    let is_redispatch = stream.choice.redispatched || idle::leased_key(stream) != avoid;
    stream.choice.redispatched = before || is_redispatch;
    match is_redispatch {
        true => stream.counts().count_redispatch_from(avoid),
        false => stream.counts().count(CountedEvent::Retry),
    }
    assigned
}
