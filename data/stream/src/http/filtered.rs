//! Passes the heads of a request and of its response to filters, and announces the bodies that they make.

use weir_containers::PooledFuture;
use weir_http::{BodySize, Version};
use weir_mux::LengthChange;

use super::bodies::no_server;
use super::messages::no_room;
use crate::counters::CountedEvent;
use crate::errors::MessageDirection;
use crate::stream::PhaseResult;
use crate::stream::phases::FilterPhase;

impl FilterPhase {
    /// Passes the request's head to its filters. They must see the body before it is sent, so the body is never sent with the head.
    #[inline]
    pub(super) async fn filter_request(&mut self) -> PhaseResult {
        match self.stream.request.body.is_filtered() {
            true => PooledFuture::new(self.filter_request_head()).await,
            false => Ok(()),
        }
    }

    #[cold]
    async fn filter_request_head(&mut self) -> PhaseResult {
        self.stream.request.message.detach(&mut self.stream.client);
        if !self.stream.request.body.inspect(&mut self.stream.client) {
            self.stream.trace_mut().trace_coding(MessageDirection::Request, false);
            return Err(self.stream.exchange_phase().malformed_request_body());
        }
        let size = BodySize::of_request(&self.stream.request.message.head);
        let change = self.pass_head(MessageDirection::Request).await?;
        let message = &mut self.stream.request.message;
        let stated = match change {
            LengthChange::Unknown => message.chunk(),
            LengthChange::To(length) => message.set_length(length),
            // A script may have changed the fields.
            LengthChange::None => message.restate(size),
        };
        stated.map_err(|_| no_room())
    }

    /// Passes the response's head to its filters. Returns the body size to announce.
    #[cold]
    pub(super) async fn filter_response(&mut self, size: BodySize) -> PhaseResult<BodySize> {
        let Some(upstream) = &mut self.stream.server.upstream else { return Err(no_server()) };
        self.stream.response.message.detach(&mut upstream.connector);
        self.stream.response.begin_body(&upstream.connector, size);
        // A body that arrived whole has a length. An invalid one is refused later.
        let _ = self.stream.response.body.inspect(&mut upstream.connector);
        let passed = self.pass_head(MessageDirection::Response).await;
        let change = passed.inspect_err(|_| self.stream.counts().count(CountedEvent::FailedResponse))?;
        match change {
            LengthChange::Unknown if size != BodySize::Tunnel => {}
            LengthChange::To(length) if size != BodySize::Tunnel => {
                self.stream.response.message.set_length(length).map_err(|_| no_room())?;
                return Ok(BodySize::of_length(length));
            }
            _ => {
                // A script may have changed the fields.
                self.stream.exchange_phase().restate_response(size).map_err(|_| no_room())?;
                return Ok(size);
            }
        }
        // For an HTTP/1.0 client, the end of the connection delimits the body.
        let chunks = self.stream.request.message.head.version() >= Version::HTTP_11;
        let stated = if chunks {
            self.stream.response.message.chunk()
        } else {
            self.stream.response.message.unframe()
        };
        stated.map_err(|_| no_room())?;
        Ok(BodySize::Unknown)
    }
}
