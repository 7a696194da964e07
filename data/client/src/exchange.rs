//! One request and its response over one connection.

use std::fmt;

use weir_http::{BodySize, Method};
use weir_mux::{BodyFlow, FlowState, HeadOptions, Message, ReadHead, StreamConnector};
use weir_net::{Connection, SendOutcome, shortage};
use weir_sched::{Tick, now, wait};

use crate::answer::{HttpAnswer, RequestFailure};

/// The bounds of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerLimits {
    /// The largest body, in bytes.
    pub bytes: usize,
    /// The timeout in milliseconds, from the end of connect and handshake.
    pub timeout_ms: u64,
    /// Whether the timeout begins anew whenever the server takes or sends bytes.
    pub is_idle_timeout: bool,
    /// Whether a response counts that ends before its body is whole.
    pub accepts_part: bool,
}

impl AnswerLimits {
    /// A whole response with a body of at most `bytes`, within `timeout_ms`.
    pub fn within(bytes: usize, timeout_ms: u64) -> Self {
        AnswerLimits { bytes, timeout_ms, is_idle_timeout: false, accepts_part: false }
    }
}

/// Memory that several requests share.
pub trait ByteBudget: fmt::Debug {
    /// Takes so many bytes more. False if they are not to be had.
    fn grow(&self, bytes: usize) -> bool;
}

/// Sends a request, its head and its body, and reads the response.
pub(crate) async fn hold(
    connection: Connection,
    method: Method,
    (request_head, request_body): (&[u8], &[u8]),
    limits: AnswerLimits,
    budget: Option<&dyn ByteBudget>,
) -> Result<HttpAnswer, RequestFailure> {
    let deadline = now().after(limits.timeout_ms);
    let connector = StreamConnector::own(connection);
    let mut exchange = ClientStream { connector, limits, budget, deadline, interim: 0 };
    let mut head = Message::new(MOST_FIELDS);
    if !exchange.send(request_head, &mut head).await? && !exchange.send(request_body, &mut head).await? {
        exchange.read_head(&mut head).await?;
    }
    let size = BodySize::of_response(&head.head, method);
    let flow = BodyFlow::behind(&exchange.connector, &head.head, size);
    let mut body = Vec::new();
    match exchange.read_body(flow, &mut body).await {
        Ok(()) => {}
        Err(failure) if limits.accepts_part && failure.is_of_server() => {}
        Err(failure) => return Err(failure),
    }
    Ok(HttpAnswer { head, body })
}

struct ClientStream<'r> {
    connector: StreamConnector,
    limits: AnswerLimits,
    budget: Option<&'r dyn ByteBudget>,
    deadline: Tick,
    /// Interim responses so far.
    interim: usize,
}

impl ClientStream<'_> {
    /// Sends bytes of the request. True once the head of the response is there. The rest is not sent then.
    async fn send(&mut self, mut bytes: &[u8], head: &mut Message) -> Result<bool, RequestFailure> {
        loop {
            let Some(connection) = self.connector.connection_mut() else { return Err(RequestFailure::Cut) };
            match connection.send(bytes, false) {
                SendOutcome::All => bytes = &[],
                SendOutcome::Part(0) => {}
                SendOutcome::Part(count) => {
                    bytes = &bytes[count..];
                    self.note_progress();
                }
                // The response may have arrived before the connection broke.
                SendOutcome::Failed(fault) => {
                    return match self.read_head(head).await {
                        Err(RequestFailure::Cut) => Err(RequestFailure::Broken(fault)),
                        read => read.map(|()| true),
                    };
                }
            }
            if bytes.is_empty() && !self.connector.has_pending() {
                return Ok(false);
            }
            if self.has_head(head)? {
                return Ok(true);
            }
            self.rest().await?;
        }
    }

    /// Reads the head of the final response.
    async fn read_head(&mut self, head: &mut Message) -> Result<(), RequestFailure> {
        while !self.has_head(head)? {
            self.rest().await?;
        }
        Ok(())
    }

    /// Whether the head of the final response is there. Interim responses (1xx) are skipped.
    fn has_head(&mut self, head: &mut Message) -> Result<bool, RequestFailure> {
        loop {
            match head.read_response(&mut self.connector, &HeadOptions::default(), usize::MAX) {
                ReadHead::Complete => {}
                ReadHead::Incomplete => return Ok(false),
                ReadHead::Failed(fault) => return Err(RequestFailure::Broken(fault)),
                ReadHead::Ended => return Err(RequestFailure::Cut),
                ReadHead::StartLineTooLarge | ReadHead::TooLarge => return Err(RequestFailure::TooLarge),
                ReadHead::Invalid(_) => return Err(RequestFailure::Malformed),
            }
            head.detach(&mut self.connector);
            self.note_progress();
            if !(100..200).contains(&head.head.status()) {
                return Ok(true);
            }
            head.clear();
            self.interim += 1;
            if self.interim >= MOST_INTERIM {
                return Err(RequestFailure::Malformed);
            }
        }
    }

    /// Reads the body, which is whole only without an error.
    async fn read_body(&mut self, mut flow: BodyFlow, body: &mut Vec<u8>) -> Result<(), RequestFailure> {
        let (limit, budget) = (self.limits.bytes, self.budget);
        let admits = |bytes| budget.is_none_or(|budget| budget.grow(bytes));
        let mut refused = None;
        loop {
            let before = body.len();
            let state = flow.read(&mut self.connector, &mut |piece| {
                if limit - body.len() < piece.len() {
                    refused = Some(RequestFailure::TooLarge);
                } else if !admits(piece.len()) || !shortage::make_room(body, piece.len()) {
                    refused = Some(RequestFailure::NoMemory);
                }
                if refused.is_none() {
                    body.extend_from_slice(piece);
                }
            });
            if let Some(failure) = refused {
                return Err(failure);
            }
            if body.len() > before {
                self.note_progress();
            }
            match state {
                FlowState::Done => return Ok(()),
                FlowState::Yield => weir_sched::yield_now().await,
                FlowState::Truncated => return Err(RequestFailure::Cut),
                FlowState::Failed(_, fault) => return Err(RequestFailure::Broken(fault)),
                FlowState::Malformed | FlowState::Refused => return Err(RequestFailure::Malformed),
                FlowState::AwaitSource | FlowState::AwaitSink | FlowState::Withheld => self.rest().await?,
            }
        }
    }

    /// The server took or sent bytes.
    fn note_progress(&mut self) {
        if self.limits.is_idle_timeout {
            self.deadline = now().after(self.limits.timeout_ms);
        }
    }

    /// Waits for an event of the connection, until the deadline at most.
    async fn rest(&self) -> Result<(), RequestFailure> {
        if self.deadline <= now() {
            return Err(RequestFailure::NoAnswerInTime);
        }
        wait(self.deadline).await;
        Ok(())
    }
}

/// The most fields of a response.
const MOST_FIELDS: u16 = 100;
/// Maximum number of interim responses. With more, the exchange fails.
const MOST_INTERIM: usize = 8;
