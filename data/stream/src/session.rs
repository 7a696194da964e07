//! A client's connection as the streams on it see it: who, from where, to where, since when.

use std::cell::{Cell, Ref, RefCell};
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
    /// The client's address and the one that it connected to, as the session knows them.
    addresses: RefCell<Addresses>,
    /// The same of the connection itself, once a PROXY header or a session's rule replaced them.
    connection_addresses: RefCell<Option<Box<Addresses>>>,
    /// The same of the current stream, once its rules replaced them.
    stream_addresses: RefCell<Option<Box<Addresses>>>,
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
    /// A server connection that nobody but this client may use.
    pub own_connection: RefCell<Option<Box<crate::server::idle::OwnConnection>>>,
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
            addresses: RefCell::new(Addresses { source, destination }),
            connection_addresses: RefCell::new(None),
            stream_addresses: RefCell::new(None),
            proxy_header: RefCell::new(None),
            variables: RefCell::default(),
            view,
            killed: Cell::new(false),
            last_server: Cell::new(None),
            own_connection: RefCell::new(None),
            requests: Cell::new(0),
        })
    }

    /// The client's address: the stream's, if a rule set one, else the session's.
    pub fn source(&self) -> Ref<'_, Address> {
        Ref::map(self.current_addresses(), |addresses| &addresses.source)
    }

    /// Where the client connected to: the stream's, if a rule set one, else the session's.
    pub fn destination(&self) -> Ref<'_, Address> {
        Ref::map(self.current_addresses(), |addresses| &addresses.destination)
    }

    /// The peer's address (`fc_src`), whatever a PROXY header said.
    pub fn connection_source(&self) -> Ref<'_, Address> {
        Ref::map(self.own_addresses(), |addresses| &addresses.source)
    }

    /// The local address (`fc_dst`), whatever a PROXY header said.
    pub fn connection_destination(&self) -> Ref<'_, Address> {
        Ref::map(self.own_addresses(), |addresses| &addresses.destination)
    }

    fn current_addresses(&self) -> Ref<'_, Addresses> {
        Ref::filter_map(self.stream_addresses.borrow(), |stream| stream.as_deref())
            .unwrap_or_else(|_| self.addresses.borrow())
    }

    fn own_addresses(&self) -> Ref<'_, Addresses> {
        Ref::filter_map(self.connection_addresses.borrow(), |own| own.as_deref())
            .unwrap_or_else(|_| self.addresses.borrow())
    }

    /// A PROXY header told whose connection it is; the connection's own addresses are kept apart.
    pub fn replace_addresses(&self, source: Address, destination: Address) {
        let own = self.addresses.replace(Addresses { source, destination });
        let mut kept = self.connection_addresses.borrow_mut();
        if kept.is_none() {
            *kept = Some(Box::new(own));
        }
    }

    /// Replaces one address at one level.
    pub(crate) fn set_address(&self, level: AddressLevel, is_source: bool, address: Address) {
        let put = |addresses: &mut Addresses| match is_source {
            true => addresses.source = address,
            false => addresses.destination = address,
        };
        match level {
            AddressLevel::Connection => put(&mut self.addresses.borrow_mut()),
            AddressLevel::Session => {
                let mut own = self.connection_addresses.borrow_mut();
                let mut addresses = self.addresses.borrow_mut();
                own.get_or_insert_with(|| Box::new(addresses.clone()));
                put(&mut addresses);
            }
            AddressLevel::Stream => {
                let mut stream = self.stream_addresses.borrow_mut();
                put(stream.get_or_insert_with(|| Box::new(self.addresses.borrow().clone())));
            }
        }
    }

    /// A new stream begins: it sees the session's addresses again.
    pub(crate) fn forget_stream_addresses(&self) {
        *self.stream_addresses.borrow_mut() = None;
    }
}

/// Both ends of a connection, as somebody told them.
#[derive(Clone, Debug)]
struct Addresses {
    source: Address,
    destination: Address,
}

/// What a rule that replaces an address changes it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressLevel {
    /// The connection, and all that follows (`tcp-request connection`).
    Connection,
    /// The session (`tcp-request session`).
    Session,
    /// One stream (content and HTTP rules).
    Stream,
}
