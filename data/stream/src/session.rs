//! A client's connection as the streams on it see it: who, from where, to where, since when.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use weir_expr::VariableStore;
use weir_sched::TaskKey;
use weir_sys::Address;

use crate::clock::Moment;
use crate::site::{Listener, Proxy};

/// Facts about one client connection. Shared by the streams on it and by the list that `show sess` walks.
pub struct Session {
    /// The proxy that accepted it.
    pub frontend: &'static Proxy,
    /// The listener that accepted it.
    pub listener: &'static Listener,
    /// The task that serves it.
    pub task: Cell<TaskKey>,
    /// When it was accepted.
    pub accepted: Moment,
    /// How long its handshakes (PROXY protocol) took, in milliseconds.
    pub handshake_ms: Cell<u32>,
    /// The client's address: the peer's, or what a PROXY header or `set-src` said.
    pub source: RefCell<Address>,
    /// Where the client connected to, or what a PROXY header or `set-dst` said.
    pub destination: RefCell<Address>,
    /// The addresses of the connection itself, when `source` and `destination` were replaced.
    pub original: RefCell<Option<Box<(Address, Address)>>>,
    /// What a PROXY header carried beside the addresses.
    pub proxy_header: RefCell<Option<Box<ProxyFields>>>,
    /// Variables of scope `sess`.
    pub variables: RefCell<VariableStore>,
    /// `tcp-request` rules changed it: `set-nice`, marks... and what the current stream is at, for `show sess`.
    pub view: StreamView,
    /// Set by `shutdown session`: the stream ends at its next step.
    pub killed: Cell<bool>,
    /// The backend and the server of the last request.
    pub last_server: Cell<Option<(usize, weir_backend::ServerKey)>>,
    /// Requests begun on this connection.
    pub requests: Cell<u32>,
}

/// What a PROXY protocol header carried beside the addresses.
#[derive(Debug, Default)]
pub struct ProxyFields {
    /// The type-length-value fields, in order.
    pub fields: Vec<(u8, Box<[u8]>)>,
}

/// What `show sess` shows of the stream in progress. Written by plain stores, read by the same worker.
#[derive(Debug, Default)]
pub struct StreamView {
    /// The stream's number, 0 when none is in progress.
    pub id: Cell<u64>,
    /// When it began, in milliseconds of the worker's clock.
    pub since_ms: Cell<u64>,
    /// The backend's index in the site, or `u32::MAX`.
    pub backend: Cell<u32>,
    /// The server's key in the backend, or `u32::MAX`.
    pub server: Cell<u32>,
    /// The phase it is in.
    pub phase: Cell<crate::ending::During>,
    /// The client's descriptor number.
    pub client_descriptor: Cell<i32>,
    /// The server's descriptor number, or -1.
    pub server_descriptor: Cell<i32>,
    /// How often it was resumed.
    pub calls: Cell<u64>,
}

impl Session {
    /// A session for a connection just accepted.
    pub fn new(
        listener: &'static Listener,
        source: Address,
        destination: Address,
        accepted: Moment,
    ) -> Rc<Self> {
        let view = StreamView::default();
        view.backend.set(u32::MAX);
        view.server.set(u32::MAX);
        view.server_descriptor.set(-1);
        Rc::new(Session {
            frontend: listener.proxy(),
            listener,
            task: Cell::new(TaskKey::NONE),
            accepted,
            handshake_ms: Cell::new(0),
            source: RefCell::new(source),
            destination: RefCell::new(destination),
            original: RefCell::new(None),
            proxy_header: RefCell::new(None),
            variables: RefCell::default(),
            view,
            killed: Cell::new(false),
            last_server: Cell::new(None),
            requests: Cell::new(0),
        })
    }
}
