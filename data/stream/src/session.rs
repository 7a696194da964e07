//! A client's connection as the streams on it see it: who, from where, to where, since when.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use weir_backend::ServerKey;
use weir_expr::{SetCondition, Value, VariableId, VariableStore};
use weir_sched::TaskKey;
use weir_sys::Address;

use crate::clock::Moment;
use crate::instance::{Listener, Proxy};
use crate::listener_handler::Admitted;
use crate::server::idle::OwnConnection;
use crate::variables::Charge;

/// Facts about one client connection. Shared by the streams on it and by the list that `show sess` walks.
///
/// Every idle client has one: what few clients need is kept apart, in [`Rare`].
pub struct Session {
    /// The proxy that accepted it.
    pub frontend: &'static Proxy,
    /// The listener that accepted it.
    pub listener: &'static Listener,
    /// The task that serves it.
    pub task: Cell<TaskKey>,
    /// When it was accepted.
    pub accepted: Moment,
    /// The client's address and the one that it connected to, as the session knows them.
    addresses: RefCell<Addresses>,
    rare: RefCell<Option<Box<Rare>>>,
    /// What the current stream is at, for `show sess`.
    pub view: StreamView,
    /// The backend's index and the server of the last request.
    /// With `u32::MAX` for no backend, which takes less room than an `Option`.
    last_server: Cell<(u32, ServerKey)>,
    /// How long its handshakes (PROXY protocol) took, in milliseconds.
    pub handshake_ms: Cell<u32>,
    /// Requests begun on this connection.
    pub requests: Cell<u32>,
    /// Set by `shutdown session`: the stream ends at its next step, or is killed.
    pub killed: Cell<bool>,
    /// The connection counts as long as this lives.
    _admitted: Admitted,
}

/// What few sessions have.
#[derive(Default)]
struct Rare {
    /// The addresses of the connection itself, once a PROXY header or a session's rule replaced them.
    connection_addresses: Option<Addresses>,
    /// Those of the current stream, once its rules replaced them.
    stream_addresses: Option<Addresses>,
    /// What a PROXY header carried beside the addresses.
    proxy_header: Option<ProxyFields>,
    /// Variables of scope `sess`.
    variables: VariableStore,
    variable_charge: Charge,
    /// A server connection that nobody but this client may use.
    own_connection: Option<OwnConnection>,
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
    /// The backend's index in the instance, or `u32::MAX`.
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
    pub calls: Cell<u32>,
}

impl Session {
    /// A session for a connection just accepted from `source`; `destination` is none when it is the listener's address.
    pub(crate) fn new(
        admitted: Admitted,
        source: Address,
        destination: Option<Address>,
        accepted: Moment,
    ) -> Rc<Self> {
        let listener = admitted.listener();
        let view = StreamView::default();
        view.backend.set(u32::MAX);
        view.server.set(u32::MAX);
        view.server_descriptor.set(-1);
        let destination = match (destination, listener.only_address()) {
            (Some(destination), _) => Destination::Own(Box::new(destination)),
            (None, Some(address)) => Destination::Listener(address),
            (None, None) => Destination::Own(Box::new(source.clone())),
        };
        Rc::new(Session {
            frontend: listener.proxy(),
            listener,
            task: Cell::new(TaskKey::NONE),
            accepted,
            addresses: RefCell::new(Addresses { source, destination }),
            rare: RefCell::new(None),
            view,
            last_server: Cell::new((u32::MAX, ServerKey::configured(0))),
            handshake_ms: Cell::new(0),
            requests: Cell::new(0),
            killed: Cell::new(false),
            _admitted: admitted,
        })
    }

    /// The client's address: the stream's, if a rule set one, else the session's.
    pub fn source(&self) -> Ref<'_, Address> {
        Ref::map(self.current_addresses(), |addresses| &addresses.source)
    }

    /// Where the client connected to: the stream's, if a rule set one, else the session's.
    pub fn destination(&self) -> Ref<'_, Address> {
        Ref::map(self.current_addresses(), |addresses| addresses.destination.get())
    }

    /// The peer's address (`fc_src`), whatever a PROXY header said.
    pub fn connection_source(&self) -> Ref<'_, Address> {
        Ref::map(self.own_addresses(), |addresses| &addresses.source)
    }

    /// The local address (`fc_dst`), whatever a PROXY header said.
    pub fn connection_destination(&self) -> Ref<'_, Address> {
        Ref::map(self.own_addresses(), |addresses| addresses.destination.get())
    }

    fn current_addresses(&self) -> Ref<'_, Addresses> {
        self.rare(|rare| rare.stream_addresses.as_ref()).unwrap_or_else(|| self.addresses.borrow())
    }

    fn own_addresses(&self) -> Ref<'_, Addresses> {
        self.rare(|rare| rare.connection_addresses.as_ref()).unwrap_or_else(|| self.addresses.borrow())
    }

    /// A PROXY header told whose connection it is; the connection's own addresses are kept apart.
    pub fn replace_addresses(&self, source: Address, destination: Address) {
        let destination = Destination::Own(Box::new(destination));
        let own = self.addresses.replace(Addresses { source, destination });
        self.with_rare(|rare| _ = rare.connection_addresses.get_or_insert(own));
    }

    /// Replaces one address at one level.
    pub(crate) fn set_address(&self, level: AddressLevel, is_source: bool, address: Address) {
        let put = |addresses: &mut Addresses| match is_source {
            true => addresses.source = address,
            false => addresses.destination = Destination::Own(Box::new(address)),
        };
        match level {
            AddressLevel::Connection => put(&mut self.addresses.borrow_mut()),
            AddressLevel::Session => self.with_rare(|rare| {
                let mut addresses = self.addresses.borrow_mut();
                rare.connection_addresses.get_or_insert_with(|| addresses.clone());
                put(&mut addresses);
            }),
            AddressLevel::Stream => self.with_rare(|rare| {
                put(rare.stream_addresses.get_or_insert_with(|| self.addresses.borrow().clone()));
            }),
        }
    }

    /// A new stream begins: it sees the session's addresses again.
    pub(crate) fn forget_stream_addresses(&self) {
        if let Some(rare) = &mut *self.rare.borrow_mut() {
            rare.stream_addresses = None;
        }
    }

    /// What a PROXY header carried beside the addresses; none without a header.
    pub fn proxy_header(&self) -> Option<Ref<'_, ProxyFields>> {
        self.rare(|rare| rare.proxy_header.as_ref())
    }

    pub(crate) fn keep_proxy_header(&self, fields: ProxyFields) {
        self.with_rare(|rare| rare.proxy_header = Some(fields));
    }

    /// The value of a variable of scope `sess`.
    pub(crate) fn variable(&self, variable: VariableId) -> Option<Value<'static>> {
        self.rare.borrow().as_ref()?.variables.get(variable).map(Value::into_owned)
    }

    /// Sets a variable of scope `sess`: see [`VariableStore::set_within`].
    pub(crate) fn set_variable(
        &self,
        variable: VariableId,
        value: Value<'_>,
        when: SetCondition,
        room: usize,
    ) -> bool {
        self.with_rare(|rare| rare.variables.set_within(variable, value, when, room))
    }

    /// How many bytes the variables of scope `sess` take.
    pub(crate) fn variable_bytes(&self) -> usize {
        self.rare.borrow().as_ref().map_or(0, |rare| rare.variables.used())
    }

    /// Shows `then` what these bytes are charged to, if there are any.
    pub(crate) fn charge_variables(&self, then: impl FnOnce(&mut Charge, usize)) {
        if let Some(rare) = self.rare.borrow_mut().as_deref_mut() {
            then(&mut rare.variable_charge, rare.variables.used());
        }
    }

    pub(crate) fn unset_variable(&self, variable: VariableId) -> bool {
        self.rare.borrow_mut().as_mut().is_some_and(|rare| rare.variables.unset(variable))
    }

    /// Keeps a server connection for this client's next request.
    pub(crate) fn keep_own_connection(&self, own: OwnConnection) {
        let former = self.with_rare(|rare| rare.own_connection.replace(own));
        drop(former);
    }

    /// Drops the server connection that was kept, if it is an unwanted one.
    pub(crate) fn drop_own_connection(&self, is_unwanted: impl FnOnce(&OwnConnection) -> bool) {
        let unwanted = self
            .rare
            .borrow_mut()
            .as_mut()
            .and_then(|rare| rare.own_connection.take_if(|own| is_unwanted(own)));
        drop(unwanted);
    }

    /// Closes the server connection that was kept; false when there is none.
    pub(crate) fn give_up_own_connection(&self) -> bool {
        self.take_own_connection().is_some()
    }

    /// The server connection that was kept.
    pub(crate) fn take_own_connection(&self) -> Option<OwnConnection> {
        self.rare.borrow_mut().as_mut()?.own_connection.take()
    }

    /// The backend's index and the server of the last request.
    pub(crate) fn last_server(&self) -> Option<(usize, ServerKey)> {
        let (backend, server) = self.last_server.get();
        (backend != u32::MAX).then_some((backend as usize, server))
    }

    /// Notes where a request goes.
    pub(crate) fn note_server(&self, backend: usize, server: ServerKey) {
        self.last_server.set((backend as u32, server));
    }

    fn rare<T>(&self, look: impl FnOnce(&Rare) -> Option<&T>) -> Option<Ref<'_, T>> {
        Ref::filter_map(self.rare.borrow(), |rare| rare.as_deref().and_then(look)).ok()
    }

    fn with_rare<R>(&self, then: impl FnOnce(&mut Rare) -> R) -> R {
        then(self.rare.borrow_mut().get_or_insert_default())
    }
}

/// Both ends of a connection, as somebody told them.
#[derive(Clone, Debug)]
struct Addresses {
    source: Address,
    destination: Destination,
}

/// Where a client connected to: for most where the listener listens, which need not be kept for each.
#[derive(Clone, Debug)]
enum Destination {
    Listener(&'static Address),
    Own(Box<Address>),
}

impl Destination {
    fn get(&self) -> &Address {
        match self {
            Destination::Listener(address) => address,
            Destination::Own(address) => address,
        }
    }
}

// An idle client's share, beside `connection_task.rs`.
const _: () = assert!(size_of::<Session>() <= 192);

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
