//! HTTP/1: a connection carries exchanges one after the other, and its own task runs each of them inline.
//!
//! A connection's task is in `connection_task.rs`. [`Stream::run`] handles one request. The phases are in the files below `http/`.

mod bodies;
mod filtered;
mod finish;
mod forwarded;
mod guards;
mod messages;
pub(crate) mod request;
mod response;
mod route;
mod subrequest;
mod websocket;

use weir_containers::PoolBox;
use weir_net::Connection;

use crate::ending::{During, Ending};
use crate::errors::MessageDirection;
use crate::stream::{PhaseResult, ProxySide, Stream, StreamError};

/// How the wait for a request's first byte ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstByteWait {
    /// Bytes or EOF can be read.
    Bytes,
    /// Nothing arrived in time.
    TimedOut,
    /// A soft stop ended the connection.
    Stopped,
}

impl Stream {
    /// Runs the stream in the current task. Returns the client connection if it can carry another stream.
    ///
    /// The stream is boxed: otherwise each future in the chain of awaits would store a copy of it.
    #[expect(clippy::manual_async_fn, reason = "an async function stores its arguments twice")]
    pub fn run(
        mut stream: PoolBox<Stream>,
        waited: FirstByteWait,
    ) -> impl Future<Output = Option<Connection>> {
        async move {
            if !stream.began_in_tcp {
                stream.begin_view();
                stream.attach_filters(ProxySide::Frontend);
            }
            let outcome = match stream.process(waited).await {
                Ok(()) => Ok(()),
                Err(stop) => stream.answer(stop).await,
            };
            if let Err(ending) = outcome {
                stream.reusable.client = false;
                if stream.ending.is_normal() {
                    stream.ending = ending;
                }
            }
            let again = stream.end_phase().finish().await;
            if again { stream.take_client() } else { None }
        }
    }

    #[expect(clippy::manual_async_fn, reason = "an async function stores its arguments twice")]
    fn process(&mut self, waited: FirstByteWait) -> impl Future<Output = PhaseResult> {
        async move {
            self.request_phase().read_request(waited).await?;
            self.filter_phase().begin_analysis(MessageDirection::Request).await?;
            self.request_phase().frontend_phase().await?;
            self.request_phase().route_in_turn().await?;
            self.filter_phase().begin_analysis(MessageDirection::Request).await?;
            self.request_phase().backend_phase().await?;
            self.exchange_phase().forward().await
        }
    }

    /// Fails if an administrator or a state change of the server has killed the stream. The client gets a 503 during queue or connect, and
    /// a 502 while the response is awaited.
    pub fn check_alive(&self) -> PhaseResult {
        let Some(by) = self.entry.killed_by() else { return Ok(()) };
        let waits = self.request.is_known() && !self.response.is_leaving();
        Err(match self.phase {
            During::Headers if waits => StreamError::error(502, by, self.phase),
            During::Queue | During::Connect if waits => StreamError::error(503, by, self.phase),
            _ => StreamError::Close(Ending::new(by, self.phase)),
        })
    }

    /// Sends the reply of a stopped stream.
    async fn answer(&mut self, stop: StreamError) -> Result<(), Ending> {
        let ending = stop.ending();
        // The rest of the server's response stays unread, so the connection cannot be reused.
        self.reusable.server = false;
        match stop {
            StreamError::Close(_) => return Err(ending),
            StreamError::Error(status, _) => self.reply_phase().prepare_error(status),
            StreamError::Reply(_) => {}
            StreamError::Answered(_) => {
                self.ending = ending;
                return Ok(());
            }
        }
        self.ending = ending;
        if self.response.is_leaving() {
            return Err(ending);
        }
        self.reply_phase().send_reply().await
    }
}
