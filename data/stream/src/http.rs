//! HTTP/1: a connection carries exchanges one after the other, and its own task runs each of them inline.
//!
//! Read top-down: [`serve`] is a connection's life, [`Exchange::run`] one request's. The phases are in the files below,
//! in their order: `request`, `rules` (shared with TCP), `route`, `server` (shared with TCP), `messages`, `finish`.

mod finish;
mod guards;
mod messages;
mod request;
mod response;
mod route;

use std::rc::Rc;

use weir_containers::PooledFuture;
use weir_net::Connection;
use weir_sched::wait;

use crate::clock;
use crate::ending::{By, During, Ending};
use crate::exchange::{Exchange, Phase, Stop};
use crate::session::Session;

/// Serves a client until its connection ends.
///
/// Between requests only this small future lives; the large one of an exchange exists while a request does.
pub async fn serve(mut client: Connection, session: Rc<Session>) {
    let mut began_us = session.accepted.monotonic_us;
    loop {
        let waited = await_bytes(&client, &session).await;
        if session.requests.get() > 0 && !matches!(waited, Waited::Bytes) {
            return;
        }
        let exchange = PooledFuture::new(Exchange::new(Rc::clone(&session), client, began_us).run(waited));
        match exchange.await {
            Some(next) => client = next,
            None => return,
        }
        began_us = weir_sched::now_us();
    }
}

/// How the wait for a request's first byte ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// There is something to read, or the end.
    Bytes,
    /// Nothing came in time.
    TimedOut,
    /// An administrator or a soft stop ended the connection.
    Stopped,
}

async fn await_bytes(client: &Connection, session: &Session) -> Waited {
    let timeouts = &session.frontend.config.settings.timeouts;
    let timeout = match session.requests.get() {
        0 => timeouts.http_request.or(timeouts.client),
        _ => timeouts.http_keep_alive.or(timeouts.http_request).or(timeouts.client),
    };
    let deadline = clock::after_some(timeout);
    loop {
        if !client.input().is_empty() || client.descriptor().is_readable() {
            return Waited::Bytes;
        }
        if session.killed.get() {
            return Waited::Stopped;
        }
        if session.requests.get() > 0 && session.frontend.site().closes_idle(session.frontend) {
            // The poller may not have told yet: a request that was begun before the stop is served.
            let begun = weir_sys::socket::peek(client.descriptor(), &mut [0]).is_ok_and(|bytes| bytes > 0);
            return if begun { Waited::Bytes } else { Waited::Stopped };
        }
        if clock::passed(deadline) {
            return Waited::TimedOut;
        }
        wait(deadline).await;
    }
}

impl Exchange {
    /// Runs the exchange; the connection comes back if it can carry another one.
    async fn run(mut self, waited: Waited) -> Option<Connection> {
        self.begin_view();
        let outcome = match self.process(waited).await {
            Ok(()) => Ok(()),
            Err(stop) => self.answer(stop).await,
        };
        if let Err(ending) = outcome {
            self.facts.keep_client = false;
            if self.ending.is_normal() {
                self.ending = ending;
            }
        }
        self.finish().await
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
