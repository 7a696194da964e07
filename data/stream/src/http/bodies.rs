//! The bodies of a request and of its response, which move at the same time.

use weir_containers::PooledFuture;
use weir_mux::{Flow, Side};
use weir_net::Fault;

use crate::counters::Event;
use crate::deadlines::{Waits, While};
use crate::drive::Step;
use crate::ending::{By, During};
use crate::errors::Direction;
use crate::stream::{Phase, Stream, StreamError};

impl Stream {
    /// Moves both bodies to their ends. The response's may end first: the server gets the rest of the request as long as it takes it.
    pub(super) async fn exchange_bodies(&mut self) -> Phase {
        // Most bodies are complete and leave at once, without waiting.
        let Step::Wait(waits) = self.move_bodies()? else { return Ok(()) };
        PooledFuture::new(self.drive_on(
            While::Bodies,
            Some(waits),
            |stream, _| stream.move_bodies(),
            Stream::body_is_late,
        ))
        .await
    }

    /// Moves what can be moved now.
    fn move_bodies(&mut self) -> Phase<Step<()>> {
        let Some(down) = self.move_response_body() else { return Err(no_server()) };
        match down {
            Flow::Done if self.request.body.is_done() => return Ok(Step::Done(())),
            Flow::Done if self.request.upload_refused => {
                self.count(Event::FailedResponse);
                self.count_server_abort();
                return Err(StreamError::close(By::Server, During::Data));
            }
            Flow::Done => self.response_left(),
            Flow::AwaitSource | Flow::AwaitSink | Flow::Yield | Flow::Withheld => {}
            Flow::Failed(_, Fault::Shortage) => return Err(StreamError::close(By::Resource, During::Data)),
            Flow::Malformed => {
                self.count(Event::FailedResponse);
                return Err(StreamError::close(By::Proxy, During::Data));
            }
            Flow::Truncated | Flow::Failed(Side::Source, _) => {
                self.count(Event::FailedResponse);
                self.count_server_abort();
                return Err(StreamError::close(By::Server, During::Data));
            }
            Flow::Failed(Side::Sink, _) => {
                self.count_client_abort();
                return Err(StreamError::close(By::Client, During::Data));
            }
        }
        let during = self.phase;
        let mut waits = Waits {
            client_takes: down == Flow::AwaitSink,
            withheld: down == Flow::Withheld,
            yields: down == Flow::Yield,
            ..Waits::default()
        };
        if self.request.flows() {
            match self.move_request_body().ok_or_else(no_server)? {
                Flow::AwaitSource => waits.client_sends = true,
                Flow::AwaitSink => waits.server_takes = true,
                Flow::Withheld => waits.withheld = true,
                Flow::Yield => waits.yields = true,
                Flow::Failed(_, Fault::Shortage) => {
                    return Err(StreamError::close(By::Resource, During::Data));
                }
                Flow::Truncated | Flow::Failed(Side::Source, _) => {
                    self.count_client_abort();
                    return Err(StreamError::close(By::Client, during));
                }
                Flow::Malformed => {
                    self.count_bad_request();
                    return Err(StreamError::close(By::Proxy, during));
                }
                // The server already answers, and does not want the rest.
                Flow::Failed(Side::Sink, _) => return self.bodies_without_upload(),
                Flow::Done if down == Flow::Done => return Ok(Step::Done(())),
                Flow::Done => {}
            }
        }
        // A server that does not have the whole request may wait for it, as we do.
        waits.server_sends = down == Flow::AwaitSource && !waits.client_sends;
        // A server that closed takes no more of the request.
        if down == Flow::Done && self.server.is_broken() {
            return self.bodies_without_upload();
        }
        // A client that resets while its body is slow is noticed here; a half-closed client still receives. Once both sides
        // are closed, there may still be bytes to read: the end is noticed after them.
        if self.client.is_broken() && !self.client.shut() {
            self.count_client_abort();
            return Err(StreamError::close(By::Client, during));
        }
        Ok(Step::Wait(waits))
    }

    /// Continues with the response only.
    fn bodies_without_upload(&mut self) -> Phase<Step<()>> {
        self.refuse_upload();
        self.move_bodies()
    }

    fn body_is_late(&mut self, by: By, _: &Waits) -> Phase {
        if by == By::ClientTimeout {
            self.count_client_abort();
            return Err(StreamError::close(by, self.phase));
        }
        self.count_server_abort();
        Err(StreamError::close(by, During::Data))
    }

    /// The response was sent completely, the request not yet.
    fn response_left(&mut self) {
        if self.phase == During::Last {
            return;
        }
        self.enter(During::Last);
        // The client knows the end of this body only by the connection's end.
        if self.response.body.ends_with_source() {
            self.client.shut_write();
        }
    }

    /// The server takes no more of the request. The rest that the client sends must not be parsed as the next request.
    pub(super) fn refuse_upload(&mut self) {
        self.request.upload_refused = true;
        self.reusable.give_up();
    }

    /// Moves what can be moved of the request's body; none without a server.
    pub(super) fn move_request_body(&mut self) -> Option<Flow> {
        let upstream = self.server.upstream.as_mut()?;
        let flow = self.request.body.advance(&mut self.client, &mut upstream.connector);
        self.trace_body(Direction::Request, flow);
        Some(flow)
    }

    /// The same for the response's.
    fn move_response_body(&mut self) -> Option<Flow> {
        let upstream = self.server.upstream.as_mut()?;
        let flow = self.response.body.advance(&mut upstream.connector, &mut self.client);
        self.trace_body(Direction::Response, flow);
        Some(flow)
    }

    pub(super) fn count_client_abort(&self) {
        self.count(Event::ClientAbort);
    }

    pub(super) fn count_server_abort(&self) {
        self.count(Event::ServerAbort);
    }
}

/// Bodies move although there is no server: an internal error.
pub(super) fn no_server() -> StreamError {
    StreamError::close(By::Internal, During::Data)
}
