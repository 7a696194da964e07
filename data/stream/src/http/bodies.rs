//! Moves the bodies of a request and its response, both at the same time.

use weir_containers::PooledFuture;
use weir_mux::{FlowSide, FlowState};
use weir_net::ConnectionFault;

use crate::counters::CountedEvent;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During, Ending};
use crate::errors::MessageDirection;
use crate::stream::phases::BodyPhase;
use crate::stream::{PhaseResult, StreamError};

/// Maximum bytes of an unwanted body to read and drop so that the connection can be reused. Beyond that, a new connection is cheaper.
pub(super) const MAX_UNWANTED: u64 = 1024 * 1024;

impl BodyPhase {
    /// Moves both bodies to their ends. The response may end first. The server then still receives the rest of the request while it reads.
    pub(super) async fn exchange_bodies(&mut self) -> PhaseResult {
        // Most bodies are complete and are sent without waiting.
        let DriveStep::Wait(waits) = self.move_bodies()? else { return Ok(()) };
        PooledFuture::new(self.stream.drive_on(
            While::Bodies,
            Some(waits),
            |stream, _| stream.body_phase().move_bodies(),
            |stream, by, waits| stream.body_phase().body_is_late(by, waits),
        ))
        .await
    }

    /// Moves as many bytes as possible without waiting.
    fn move_bodies(&mut self) -> PhaseResult<DriveStep<()>> {
        let unwanted = self.stream.response.unwanted.is_some();
        let down = if unwanted { self.move_without_body() } else { self.move_response_body() };
        let Some(down) = down else { return Err(no_server()) };
        match down {
            FlowState::Done if self.stream.request.body.is_done() => return Ok(DriveStep::Done(())),
            FlowState::Done if self.stream.request.upload_refused => {
                self.response_left();
                self.stream.counts().count(CountedEvent::FailedResponse);
                self.stream.counts().count(CountedEvent::ServerAbort);
                // The client has its response and may send other requests, after the rest of this one.
                self.stream.ending = Ending::new(By::Server, During::Last);
                return Ok(DriveStep::Done(()));
            }
            FlowState::Done => self.response_left(),
            FlowState::AwaitSource | FlowState::AwaitSink | FlowState::Yield | FlowState::Withheld => {}
            FlowState::Failed(_, ConnectionFault::Shortage) => {
                return Err(StreamError::close(By::Resource, During::Data));
            }
            FlowState::Malformed => {
                self.stream.counts().count(CountedEvent::FailedResponse);
                return Err(StreamError::close(By::Proxy, During::Data));
            }
            FlowState::Refused => {
                self.stream.counts().count(CountedEvent::FailedResponse);
                return Err(StreamError::close(By::Internal, During::Data));
            }
            FlowState::Truncated | FlowState::Failed(FlowSide::Source, _) => {
                self.stream.counts().count(CountedEvent::FailedResponse);
                self.stream.counts().count(CountedEvent::ServerAbort);
                return Err(StreamError::close(By::Server, During::Data));
            }
            FlowState::Failed(FlowSide::Sink, _) => {
                self.stream.counts().count(CountedEvent::ClientAbort);
                return Err(StreamError::close(By::Client, During::Data));
            }
        }
        let during = self.stream.phase;
        let mut waits = Waits {
            client_takes: down == FlowState::AwaitSink,
            withheld: down == FlowState::Withheld,
            yields: down == FlowState::Yield,
            ..Waits::default()
        };
        if self.stream.request.flows() {
            match self.move_request_body().ok_or_else(no_server)? {
                FlowState::AwaitSource => waits.client_sends = true,
                FlowState::AwaitSink => waits.server_takes = true,
                FlowState::Withheld => waits.withheld = true,
                FlowState::Yield => waits.yields = true,
                FlowState::Failed(_, ConnectionFault::Shortage) => {
                    return Err(StreamError::close(By::Resource, During::Data));
                }
                FlowState::Truncated | FlowState::Failed(FlowSide::Source, _) => {
                    self.stream.counts().count(CountedEvent::ClientAbort);
                    return Err(StreamError::close(By::Client, during));
                }
                FlowState::Malformed => {
                    self.stream.counts().count_bad_request();
                    return Err(StreamError::close(By::Proxy, during));
                }
                FlowState::Refused => return Err(StreamError::close(By::Internal, during)),
                // The server is already responding and does not read the rest.
                FlowState::Failed(FlowSide::Sink, _) => return self.bodies_without_upload(),
                FlowState::Done if down == FlowState::Done => return Ok(DriveStep::Done(())),
                FlowState::Done => {}
            }
        }
        // A server may wait for the rest of the request, as weir does. Its timeout does not run meanwhile.
        waits.server_sends = down == FlowState::AwaitSource && !waits.client_sends;
        // A server that has closed does not read the rest of the request.
        if down == FlowState::Done && self.stream.server.is_broken() {
            return self.bodies_without_upload();
        }
        // Detects a reset by a client with a slow body. A half-closed client still receives. If both sides are closed, unread bytes may
        // precede the reset, which is detected after them.
        if self.stream.client.is_broken() && !self.stream.client.shut() {
            self.stream.counts().count(CountedEvent::ClientAbort);
            return Err(StreamError::close(By::Client, during));
        }
        Ok(DriveStep::Wait(waits))
    }

    /// Stops the upload and continues with the response only.
    fn bodies_without_upload(&mut self) -> PhaseResult<DriveStep<()>> {
        self.refuse_upload();
        self.move_bodies()
    }

    /// Sends a response without its body, which must not reach the client, and reads and drops the body. On a shared client connection the
    /// response ends after the drop, so that the server connection is idle when the client sees END_STREAM. On an HTTP/1 client connection
    /// the next request waits anyway, and the head may precede the body in the buffer.
    #[cold]
    fn move_without_body(&mut self) -> Option<FlowState> {
        if self.stream.client.shared().is_some() {
            return self.drop_unwanted_body().or_else(|| self.move_response_body());
        }
        match self.move_response_body()? {
            FlowState::Done => Some(self.drop_unwanted_body().unwrap_or(FlowState::Done)),
            flow => Some(flow),
        }
    }

    /// Reads and drops the unwanted body. `None` once done. If this fails, times out or exceeds [`MAX_UNWANTED`], the only effect is that
    /// the server connection is not reused.
    #[cold]
    fn drop_unwanted_body(&mut self) -> Option<FlowState> {
        // A client connection that closes after this response does not wait for the drop.
        let client_stays = self.stream.client.shared().is_some() || self.stream.reusable.client;
        if client_stays
            && self.stream.reusable.server
            && !self.stream.client.is_broken()
            && let (Some(unwanted), Some(upstream)) =
                (&mut self.stream.response.unwanted, &mut self.stream.server.upstream)
        {
            let flow = unwanted.read(&mut upstream.connector, &mut |_| {});
            if matches!(flow, FlowState::AwaitSource | FlowState::Yield) && unwanted.payload() <= MAX_UNWANTED
            {
                return Some(flow);
            }
            self.stream.reusable.server = flow == FlowState::Done;
        } else {
            self.stream.reusable.server = false;
        }
        self.stream.response.unwanted = None;
        None
    }

    fn body_is_late(&mut self, by: By, _: &Waits) -> PhaseResult {
        if self.stream.response.unwanted.take().is_some() && self.stream.request.body.is_done() {
            self.stream.reusable.server = false;
            return self.move_bodies().map(|_| ());
        }
        if by == By::ClientTimeout {
            self.stream.counts().count(CountedEvent::ClientAbort);
            return Err(StreamError::close(by, self.stream.phase));
        }
        self.stream.counts().count(CountedEvent::ServerAbort);
        Err(StreamError::close(by, During::Data))
    }

    /// The response was sent completely, but the request was not.
    fn response_left(&mut self) {
        if self.stream.phase == During::Last {
            return;
        }
        self.stream.enter(During::Last);
        // Only the end of the connection delimits this body for the client.
        if self.stream.response.body.ends_by_closing() {
            self.stream.client.shut_write();
        }
    }

    /// Records that the server does not read more of the request. The end of the stream drops the rest of the body.
    pub(super) fn refuse_upload(&mut self) {
        self.stream.request.upload_refused = true;
        self.stream.reusable.server = false;
    }

    /// Moves as much of the request's body as possible. `None` without a server.
    pub(super) fn move_request_body(&mut self) -> Option<FlowState> {
        let upstream = self.stream.server.upstream.as_mut()?;
        let flow = self.stream.request.body.advance(&mut self.stream.client, &mut upstream.connector);
        self.stream.trace_mut().trace_body(MessageDirection::Request, flow);
        if !flow.is_over() {
            self.stream.relay_phase().allow_pipe(MessageDirection::Request);
        }
        Some(flow)
    }

    /// Moves as much of the response's body as possible. `None` without a server.
    fn move_response_body(&mut self) -> Option<FlowState> {
        let upstream = self.stream.server.upstream.as_mut()?;
        let flow = self.stream.response.body.advance(&mut upstream.connector, &mut self.stream.client);
        self.stream.trace_mut().trace_body(MessageDirection::Response, flow);
        if !flow.is_over() {
            self.stream.relay_phase().allow_pipe(MessageDirection::Response);
        }
        Some(flow)
    }
}

/// The internal error of a body transfer without a server.
pub(super) fn no_server() -> StreamError {
    StreamError::close(By::Internal, During::Data)
}
