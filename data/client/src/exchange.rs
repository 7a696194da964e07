//! One request and its response over one connection.

use weir_http::{BodySize, Method};
use weir_mux::{BodyFlow, HeadOptions, Message, ReadHead, StreamConnector};
use weir_net::{Connection, ReceiveOutcome};
use weir_sched::{Tick, now, wait};

use crate::answer::{HttpAnswer, RequestFailure};

/// Sends a request and reads the response, in at most `limit` bytes.
pub(crate) async fn hold(
    connection: Connection,
    method: Method,
    request: &[u8],
    limit: usize,
    deadline: Tick,
) -> Result<HttpAnswer, RequestFailure> {
    let mut exchange = ClientStream { connector: StreamConnector::own(connection), limit, deadline };
    exchange.send(request).await?;
    let mut head = Message::new(MOST_FIELDS);
    exchange.read_head(&mut head).await?;
    let size = BodySize::of_response(&head.head, method);
    let body = BodyFlow::behind(&exchange.connector, &head.head, size);
    let body = exchange.read_body(body).await?;
    Ok(HttpAnswer { head, body })
}

struct ClientStream {
    connector: StreamConnector,
    limit: usize,
    deadline: Tick,
}

impl ClientStream {
    async fn send(&mut self, request: &[u8]) -> Result<(), RequestFailure> {
        let Some(connection) = self.connector.connection_mut() else { return Err(RequestFailure::Cut) };
        match connection.send_all(request, self.deadline).await {
            Some(()) => Ok(()),
            None => Err(connection.fault().map_or(RequestFailure::NoAnswerInTime, RequestFailure::Broken)),
        }
    }

    /// Reads the head of the final response. Interim responses (1xx) are skipped.
    async fn read_head(&mut self, head: &mut Message) -> Result<(), RequestFailure> {
        for _ in 0..MOST_INTERIM {
            self.read_one_head(head).await?;
            head.detach(&mut self.connector);
            if !(100..200).contains(&head.head.status()) {
                return Ok(());
            }
            head.clear();
        }
        Err(RequestFailure::Malformed)
    }

    async fn read_one_head(&mut self, head: &mut Message) -> Result<(), RequestFailure> {
        loop {
            match head.read_response(&mut self.connector, &HeadOptions::default(), self.limit) {
                ReadHead::Complete => return Ok(()),
                ReadHead::Incomplete => self.rest().await?,
                ReadHead::Failed(fault) => return Err(RequestFailure::Broken(fault)),
                ReadHead::Ended => return Err(RequestFailure::Cut),
                ReadHead::StartLineTooLarge | ReadHead::TooLarge => return Err(RequestFailure::TooLarge),
                ReadHead::Invalid(_) => return Err(RequestFailure::Malformed),
            }
        }
    }

    /// Waits for the complete body, which stays in the receive buffer and so never exceeds it.
    async fn read_body(&mut self, mut body: BodyFlow) -> Result<Vec<u8>, RequestFailure> {
        loop {
            if !body.inspect(&mut self.connector) {
                return Err(RequestFailure::Malformed);
            }
            let ends_by_closing = body.ends_with_source() && self.connector.ended();
            if body.is_complete() || ends_by_closing {
                return Ok(body.waiting(&self.connector).to_vec());
            }
            match self.connector.receive(self.limit) {
                ReceiveOutcome::Bytes(_) => {}
                ReceiveOutcome::Nothing => self.rest().await?,
                ReceiveOutcome::End if body.ends_with_source() => {}
                ReceiveOutcome::End => return Err(RequestFailure::Cut),
                ReceiveOutcome::Full => return Err(RequestFailure::TooLarge),
                ReceiveOutcome::Failed(fault) => return Err(RequestFailure::Broken(fault)),
            }
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
/// Maximum number of heads, including the final one. With more, the exchange fails.
const MOST_INTERIM: usize = 8;
