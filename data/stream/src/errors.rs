//! Messages that were refused, kept for `show errors`: the last one of each proxy and direction.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_h1::HeadError;
use weir_sys::Address;

use crate::exchange::Exchange;

/// The last refused messages of the process.
#[derive(Debug, Default)]
pub struct Refused {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: u64,
    last: BTreeMap<(usize, Direction), RefusedMessage>,
}

/// Which message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// A client's.
    Request,
    /// A server's.
    Response,
}

/// A refused message.
#[derive(Clone, Debug)]
pub struct RefusedMessage {
    /// How many were refused before it.
    pub number: u64,
    /// When, in microseconds since the epoch.
    pub at_us: u64,
    /// Which message.
    pub direction: Direction,
    /// The frontend's index.
    pub frontend: usize,
    /// The backend's index, if one was chosen.
    pub backend: Option<usize>,
    /// The server's name, if there was one.
    pub server: Option<Box<str>>,
    /// The client.
    pub source: Address,
    /// The stream's number.
    pub stream: u64,
    /// What was wrong.
    pub error: HeadError,
    /// The bytes, as far as they were there.
    pub bytes: Box<[u8]>,
}

impl Refused {
    /// How many were refused since the start.
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// The first that is kept at this place or behind it, and its place: two for each proxy, the first for requests.
    pub fn next(&self, place: usize) -> Option<(usize, RefusedMessage)> {
        let direction = if place.is_multiple_of(2) { Direction::Request } else { Direction::Response };
        let state = self.lock();
        let (&(proxy, direction), message) = state.last.range((place / 2, direction)..).next()?;
        Some((proxy * 2 + direction as usize, message.clone()))
    }

    fn keep(&self, proxy: usize, mut message: RefusedMessage) {
        let mut state = self.lock();
        message.number = state.total;
        state.total += 1;
        state.last.insert((proxy, message.direction), message);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a refused request.
#[cold]
pub(crate) fn keep_request(exchange: &Exchange, error: HeadError) {
    let message = describe(exchange, Direction::Request, error, exchange.client.input());
    exchange.site.refused.keep(exchange.frontend.index, message);
}

/// Keeps a refused response.
#[cold]
pub(crate) fn keep_response(exchange: &Exchange, error: HeadError) {
    let Some(upstream) = &exchange.server else { return };
    let message = describe(exchange, Direction::Response, error, upstream.connection.input());
    exchange.site.refused.keep(exchange.backend.index, message);
}

fn describe(exchange: &Exchange, direction: Direction, error: HeadError, bytes: &[u8]) -> RefusedMessage {
    RefusedMessage {
        number: 0,
        at_us: weir_sched::wall_us(),
        direction,
        frontend: exchange.frontend.index,
        backend: exchange.backend_entered.then_some(exchange.backend.index),
        server: exchange.lease.as_ref().map(|lease| lease.server().name().into()),
        source: exchange.session.source().clone(),
        stream: exchange.serial,
        error,
        bytes: bytes.into(),
    }
}
