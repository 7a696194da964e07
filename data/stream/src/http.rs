//! HTTP/1: a connection carries exchanges one after the other, and its own task runs each of them inline.
//!
//! A connection's life is in `life.rs`; [`Exchange::run`] is one request's. The phases are in the files below, in their
//! order: `request`, `rules` (shared with TCP), `route`, `server` (shared with TCP), `messages`, `bodies`, `finish`.

mod bodies;
mod finish;
mod forwarded;
mod guards;
mod messages;
mod request;
mod response;
mod route;

use weir_containers::PoolBox;
use weir_net::Connection;

use crate::ending::{By, During, Ending};
use crate::exchange::{Exchange, Phase, Stop};
use crate::life::Waited;

impl Exchange {
    /// Runs the exchange; the connection comes back if it can carry another one.
    ///
    /// It comes in a box: an async function keeps what it is given by value twice, and again in those that it calls.
    pub(crate) async fn run(mut exchange: PoolBox<Exchange>, waited: Waited) -> Option<Connection> {
        exchange.begin_view();
        let frontend = exchange.frontend;
        exchange.attach_filters(frontend);
        let outcome = match exchange.process(waited).await {
            Ok(()) => Ok(()),
            Err(stop) => exchange.answer(stop).await,
        };
        if let Err(ending) = outcome {
            exchange.facts.keep_client = false;
            if exchange.ending.is_normal() {
                exchange.ending = ending;
            }
        }
        let again = exchange.finish().await;
        if again { PoolBox::into_inner(exchange).into_client() } else { None }
    }

    async fn process(&mut self, waited: Waited) -> Phase {
        self.read_request(waited).await?;
        self.frontend_phase().await?;
        self.route()?;
        self.backend_phase().await?;
        self.forward().await
    }

    /// Fails when an administrator killed the stream. A client that waits for a server is told that there is none.
    pub fn check_alive(&self) -> Phase {
        if !self.session.killed.get() {
            return Ok(());
        }
        let waits = self.facts.have_request && !self.facts.response_started;
        Err(match self.phase {
            During::Headers if waits => Stop::error(502, By::Killed, self.phase),
            During::Queue | During::Connect if waits => Stop::error(503, By::Killed, self.phase),
            _ => Stop::Close(Ending::new(By::Killed, self.phase)),
        })
    }

    /// Sends what a stopped stream has to say.
    async fn answer(&mut self, stop: Stop) -> Result<(), Ending> {
        let ending = stop.ending();
        // Whatever the server still has to say, nobody reads it.
        self.facts.keep_server = false;
        match stop {
            Stop::Close(_) => return Err(ending),
            Stop::Error(status, _) => self.prepare_error(status),
            Stop::Reply(_) => {}
        }
        self.ending = ending;
        if self.facts.response_started {
            return Err(ending);
        }
        self.send_reply().await
    }
}
