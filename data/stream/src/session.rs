//! A session: a client's connection, shared by its streams.
//!
//! State of a single stream is in its entry ([`crate::entry`]): there may be several streams on one connection.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use weir_backend::ServerKey;
use weir_expr::{SetCondition, Value, VariableId, VariableStore};
use weir_model::{CloseSpread, Protocol};
use weir_net::Connection;
use weir_sched::TaskKey;
use weir_sys::Address;

use crate::addresses::StreamAddresses;
use crate::admission::Admission;
use crate::clock::ClockReading;
use crate::instance::{Listener, ProxyRef};
use crate::upstream::OwnConnection;
use crate::variables::Charge;
use weir_vocabulary::ProxyFields;
use weir_vocabulary::tracked::TrackedEntries;

/// Facts about one client connection. Shared by its streams and by the list of the worker's connections.
///
/// Every idle client has a session, so rarely used state is in a separate allocation, [`Rare`].
pub struct ClientSession {
    /// The task that serves the connection.
    pub task: Cell<TaskKey>,
    /// When the connection was accepted.
    pub accepted: ClockReading,
    /// The client's address and the destination, after replacement by a PROXY header or a session rule.
    addresses: RefCell<StreamAddresses>,
    rare: RefCell<Option<Box<Rare>>>,
    /// The number of the connection's descriptor.
    pub descriptor: i32,
    /// The backend's index and the server of the last request. `u32::MAX` means no backend, which takes less
    /// space than an `Option`.
    last_server: Cell<(u32, ServerKey)>,
    /// Duration of the connection's handshakes (PROXY protocol), in milliseconds.
    pub handshake_ms: Cell<u32>,
    /// Requests begun on this connection.
    pub requests: Cell<u32>,
    /// The accepting frontend and listener. Counts the connection until dropped.
    pub(crate) admitted: Admission,
}

/// State that few sessions have.
#[derive(Default)]
struct Rare {
    /// The socket's own addresses. `None` until a PROXY header or a session rule replaces them.
    connection_addresses: Option<StreamAddresses>,
    /// Fields of a PROXY header besides the addresses.
    proxy_header: Option<ProxyFields>,
    /// Variables of scope `sess`.
    variables: VariableStore,
    variable_charge: Charge,
    /// A server connection that only this client may use.
    own_connection: Option<OwnConnection>,
    /// Stick-table entries tracked by `tcp-request connection` and `tcp-request session` rules.
    tracked: TrackedEntries,
    /// `Some` if the connection was accepted in TCP mode and switched to HTTP. The inner value is the HTTP version set by a rule, if any.
    upgraded: Option<Option<Protocol>>,
}

impl ClientSession {
    /// The proxy that accepted the connection.
    #[inline]
    pub fn frontend(&self) -> &ProxyRef {
        self.admitted.frontend()
    }

    /// The listener that accepted the connection.
    #[inline]
    pub fn listener(&self) -> &Listener {
        self.admitted.listener()
    }

    /// Whether the session's streams are HTTP requests: the frontend is in HTTP mode, or an HTTP backend was chosen.
    #[inline]
    pub fn speaks_http(&self) -> bool {
        self.frontend().is_http() || self.is_upgraded()
    }

    /// Whether a connection that was accepted in TCP mode continues in HTTP.
    #[inline]
    pub(crate) fn is_upgraded(&self) -> bool {
        self.rare.borrow().as_ref().is_some_and(|rare| rare.upgraded.is_some())
    }

    /// Switches the connection to HTTP, in version `protocol` if given. Called before the first request is read.
    #[cold]
    pub(crate) fn upgrade(&self, protocol: Option<Protocol>) {
        self.rare.borrow_mut().get_or_insert_default().upgraded = Some(protocol);
        self.requests.set(0);
    }

    /// The HTTP version that the listener or a rule forces from the first byte. `None` if neither does.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        let of_rule = self.rare.borrow().as_ref().and_then(|rare| rare.upgraded.flatten());
        of_rule.or(self.listener().bind.options.protocol)
    }

    /// A session for a connection just accepted from `source`. Without `destination`, the destination is the listener's address.
    pub(crate) fn new(
        admitted: Admission,
        source: Address,
        destination: Option<Address>,
        accepted: ClockReading,
        descriptor: i32,
    ) -> Rc<Self> {
        let addresses = match (destination, admitted.only_address()) {
            (Some(destination), _) => StreamAddresses::new(source, destination),
            (None, Some(address)) => StreamAddresses::of_listener(source, address),
            (None, None) => StreamAddresses::new(source.clone(), source),
        };
        Rc::new(ClientSession {
            task: Cell::new(TaskKey::NONE),
            accepted,
            addresses: RefCell::new(addresses),
            rare: RefCell::new(None),
            descriptor,
            last_server: Cell::new((u32::MAX, ServerKey::configured(0))),
            handshake_ms: Cell::new(0),
            requests: Cell::new(0),
            admitted,
        })
    }

    /// The client's address.
    pub fn source(&self) -> Ref<'_, Address> {
        Ref::map(self.addresses.borrow(), StreamAddresses::source)
    }

    /// The address that the client connected to.
    pub fn destination(&self) -> Ref<'_, Address> {
        Ref::map(self.addresses.borrow(), StreamAddresses::destination)
    }

    /// Both addresses, for a stream that needs its own copy.
    pub(crate) fn addresses(&self) -> StreamAddresses {
        self.addresses.borrow().clone()
    }

    /// The peer's address (`fc_src`), unchanged by a PROXY header.
    pub fn connection_source(&self) -> Ref<'_, Address> {
        Ref::map(self.own_addresses(), StreamAddresses::source)
    }

    /// The local address (`fc_dst`), unchanged by a PROXY header.
    pub fn connection_destination(&self) -> Ref<'_, Address> {
        Ref::map(self.own_addresses(), StreamAddresses::destination)
    }

    fn own_addresses(&self) -> Ref<'_, StreamAddresses> {
        self.rare(|rare| rare.connection_addresses.as_ref()).unwrap_or_else(|| self.addresses.borrow())
    }

    /// Sets the addresses from a PROXY header. The socket's own addresses stay available separately.
    pub fn replace_addresses(&self, source: Address, destination: Address) {
        let own = self.addresses.replace(StreamAddresses::new(source, destination));
        self.with_rare(|rare| _ = rare.connection_addresses.get_or_insert(own));
    }

    /// Replaces the source or destination of the connection itself (`tcp-request connection` rules).
    pub(crate) fn set_connection_address(&self, is_source: bool, address: Address) {
        self.addresses.borrow_mut().set(is_source, address);
    }

    /// Replaces the source or destination of the session (`tcp-request session` rules). The socket's own addresses stay available.
    pub(crate) fn set_address(&self, is_source: bool, address: Address) {
        self.with_rare(|rare| {
            let mut addresses = self.addresses.borrow_mut();
            rare.connection_addresses.get_or_insert_with(|| addresses.clone());
            addresses.set(is_source, address);
        });
    }

    /// Whether the client connection uses HTTP/2 from the first byte, by the listener's configuration or by ALPN.
    pub(crate) fn is_http2(&self, client: &Connection) -> bool {
        self.protocol() == Some(Protocol::H2)
            || client.tls().is_some_and(|facts| facts.protocol.as_deref() == Some(b"h2"))
    }

    /// Whether the connection closes after the current response because of a soft stop.
    #[inline]
    pub fn closes(&self) -> bool {
        let instance = self.frontend().instance();
        instance.is_stopping()
            && instance.closing.is_due(self.accepted.monotonic_us, weir_sched::now().as_ms())
    }

    /// Whether an idle connection closes because of a soft stop. A configured `close-spread-time` applies to idle connections too, even if
    /// another process accepts new ones.
    pub fn closes_idle(&self) -> bool {
        let instance = self.frontend().instance();
        let keeps = instance.closing.spread == CloseSpread::AtOnce
            && instance.keeps_quiet_clients.load(Ordering::Relaxed);
        !keeps && !self.frontend().config.settings.options.idle_close_on_response && self.closes()
    }

    /// The fields of a PROXY header besides the addresses. `None` without a header.
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

    /// Size of the variables of scope `sess`, in bytes.
    pub(crate) fn variable_bytes(&self) -> usize {
        self.rare.borrow().as_ref().map_or(0, |rare| rare.variables.used())
    }

    /// Calls `then` with the [`Charge`] and the size in bytes of the `sess` variables. Does nothing without rare state.
    pub(crate) fn charge_variables(&self, then: impl FnOnce(&mut Charge, usize)) {
        if let Some(rare) = self.rare.borrow_mut().as_deref_mut() {
            then(&mut rare.variable_charge, rare.variables.used());
        }
    }

    pub(crate) fn unset_variable(&self, variable: VariableId) -> bool {
        self.rare.borrow_mut().as_mut().is_some_and(|rare| rare.variables.unset(variable))
    }

    /// Whether the session may track stick-table entries. False means that it tracks none.
    #[inline]
    pub(crate) fn may_track(&self) -> bool {
        self.rare.borrow().is_some()
    }

    /// Calls `look` with the connection's tracked entries. `None` if the session certainly tracks none.
    pub(crate) fn look_at_tracked<R>(&self, look: impl FnOnce(&TrackedEntries) -> R) -> Option<R> {
        self.rare.borrow().as_ref().map(|rare| look(&rare.tracked))
    }

    /// Calls `then` to change the connection's tracked entries.
    pub(crate) fn with_tracked(&self, then: impl FnOnce(&mut TrackedEntries)) {
        self.with_rare(|rare| then(&mut rare.tracked));
    }

    /// Keeps a server connection for this client's next request.
    pub(crate) fn keep_own_connection(&self, own: OwnConnection) {
        let former = self.with_rare(|rare| rare.own_connection.replace(own));
        drop(former);
    }

    /// Drops the kept server connection if `is_unwanted` returns true for it. Returns whether a connection was dropped.
    pub(crate) fn drop_own_connection(&self, is_unwanted: impl FnOnce(&OwnConnection) -> bool) -> bool {
        let unwanted = self
            .rare
            .borrow_mut()
            .as_mut()
            .and_then(|rare| rare.own_connection.take_if(|own| is_unwanted(own)));
        unwanted.is_some()
    }

    /// Takes the server connection kept for this client.
    pub(crate) fn take_own_connection(&self) -> Option<OwnConnection> {
        self.rare.borrow_mut().as_mut()?.own_connection.take()
    }

    /// The backend's index and the server of the last request.
    pub(crate) fn last_server(&self) -> Option<(usize, ServerKey)> {
        let (backend, server) = self.last_server.get();
        (backend != u32::MAX).then_some((backend as usize, server))
    }

    /// Records the backend and server of a request.
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

// An idle client takes this much memory besides its task (`connection_task.rs`).
const _: () = assert!(size_of::<ClientSession>() <= 152);
