//! The data for a check's expressions: server, response and variables.

use std::sync::Arc;

use weir_backend::{Backend, Server};
use weir_expr::{
    Alias, Args, Context, FetchCursor, FetchIndex, FetchResult, LogWriter, ObjectLookup, ProcessFacts,
    SetCondition, TimeZone, Value, VariableId, VariableScope, VariableStore, WallTime,
};
use weir_http::BodySize;
use weir_mux::{BodyFlow, Message, StreamConnector};
use weir_sys::Address;
use weir_tables::Table;
use weir_vocabulary::fetch::FETCHES;
use weir_vocabulary::{
    Absent, AvailableBody, FetchView, MessageSide, Objects, ServerConnection, ViewedProxy,
};

use crate::process_view::ProcessView;

pub(crate) struct CheckContext<'c> {
    pub(crate) view: &'c dyn ProcessView,
    pub(crate) backend: &'c Backend,
    pub(crate) server: &'c Arc<Server>,
    /// Variables of the scopes `check` and `sess`. The check is its own session.
    variables: VariableStore,
    /// `unique-id`. `None` before its first use.
    unique_id: Option<Vec<u8>>,
    /// The connection of the check, or a stream of it over HTTP/2 or FastCGI.
    pub(crate) connector: StreamConnector,
    /// Number of requests that the connection served before the check.
    pub(crate) earlier_requests: u32,
    /// The head of an HTTP response.
    pub(crate) response: Option<Message>,
    /// The response body, with the size from the head.
    pub(crate) body: Option<(BodyFlow, BodySize)>,
}

impl<'c> CheckContext<'c> {
    pub(crate) fn new(view: &'c dyn ProcessView, backend: &'c Backend, server: &'c Arc<Server>) -> Self {
        let variables = VariableStore::default();
        let connector = StreamConnector::CLOSED;
        CheckContext {
            view,
            backend,
            server,
            variables,
            unique_id: None,
            connector,
            earlier_requests: 0,
            response: None,
            body: None,
        }
    }

    /// The received bytes, or the inspected part of the body of an HTTP response.
    pub(crate) fn payload(&self) -> &[u8] {
        match &self.body {
            Some((body, _)) => body.waiting(&self.connector),
            None => self.connector.input(),
        }
    }

    /// Takes the connector out. The context is then without a connection.
    pub(crate) fn take_connector(&mut self) -> StreamConnector {
        std::mem::replace(&mut self.connector, StreamConnector::CLOSED)
    }
}

impl FetchView for CheckContext<'_> {
    fn objects(&self) -> &dyn Objects {
        self.view.objects()
    }

    fn backend(&self) -> Option<ViewedProxy<'_>> {
        self.view.objects().proxy(self.backend.settings().place)
    }

    fn server(&self) -> Option<Arc<Server>> {
        Some(Arc::clone(self.server))
    }

    fn server_connection(&self) -> Option<ServerConnection<'_>> {
        let connector = &self.connector;
        let is_connected = connector.connection().is_some() || connector.is_carried();
        let (reused, requests) = (self.earlier_requests > 0, self.earlier_requests.saturating_add(1));
        is_connected.then_some(ServerConnection { connector, reused, requests })
    }

    fn own_address(&self) -> Option<Address> {
        self.connector.local_address()
    }

    fn reached_address(&self) -> Option<Address> {
        self.connector.peer_address()
    }

    fn speaks_http(&self) -> bool {
        self.response.is_some()
    }

    fn side(&self, side: MessageSide) -> MessageSide {
        match side {
            MessageSide::Current => MessageSide::Response,
            side => side,
        }
    }

    fn is_known(&self, side: MessageSide) -> bool {
        self.side(side) == MessageSide::Response && self.response.is_some()
    }

    fn message(&mut self, side: MessageSide) -> Result<&Message, Absent> {
        match self.side(side) {
            MessageSide::Response => self.response.as_ref().ok_or(Absent::Missing),
            _ => Err(Absent::Missing),
        }
    }

    fn raw_input(&self, side: MessageSide) -> &[u8] {
        match self.side(side) {
            MessageSide::Response => self.connector.input(),
            _ => &[],
        }
    }

    fn response_body(&mut self) -> Result<AvailableBody<'_>, Absent> {
        let response = self.response.as_ref().ok_or(Absent::Missing)?;
        let (body, _) = self.body.as_mut().ok_or(Absent::Missing)?;
        if !body.inspect(&mut self.connector) {
            return Err(Absent::Missing);
        }
        let announced = response.head.content_length();
        Ok(AvailableBody { bytes: body.waiting(&self.connector), announced, grows: false })
    }

    fn table(&self, position: Option<u32>) -> Option<&Table> {
        let own = || self.backend()?.config.table;
        self.objects().table(position.or_else(own)?)
    }

    /// The unique ID by the `unique-id-format` of the backend, made at the first use.
    fn unique_id(&mut self) -> Option<&[u8]> {
        if self.unique_id.is_none() {
            let format = self.view.unique_id_format(self.backend)?;
            // A format that itself reads `unique-id` gets this empty value, which prevents recursion.
            self.unique_id = Some(Vec::new());
            let mut id = Vec::new();
            format.render(self, &mut id);
            self.unique_id = Some(id);
        }
        self.unique_id.as_deref()
    }
}

impl Context for CheckContext<'_> {
    fn fetch<'a>(
        &'a mut self,
        fetch: FetchIndex,
        args: &'a Args,
        cursor: &mut FetchCursor,
    ) -> FetchResult<'a> {
        match FETCHES.get(usize::from(fetch.0)) {
            Some(row) => (row.run)(self, args, cursor),
            None => FetchResult::Missing,
        }
    }

    fn variable(&mut self, variable: VariableId) -> Option<Value<'_>> {
        match variable.scope {
            VariableScope::Process => self.view.variable(variable),
            VariableScope::Session | VariableScope::Check => self.variables.get(variable),
            _ => None,
        }
    }

    fn set_variable(&mut self, variable: VariableId, value: Value<'_>, condition: SetCondition) -> bool {
        match variable.scope {
            VariableScope::Process => self.view.set_variable(variable, value.into_owned(), condition),
            VariableScope::Session | VariableScope::Check => {
                let used = self.variables.used();
                let room = self.view.variable_room(used);
                let is_set = self.variables.set_within(variable, value, condition, room);
                self.view.charge_variables(used, self.variables.used());
                is_set
            }
            _ => false,
        }
    }

    fn unset_variable(&mut self, variable: VariableId) -> bool {
        match variable.scope {
            VariableScope::Process => self.view.unset_variable(variable),
            VariableScope::Session | VariableScope::Check => {
                let used = self.variables.used();
                let was_set = self.variables.unset(variable);
                self.view.charge_variables(used, self.variables.used());
                was_set
            }
            _ => false,
        }
    }

    fn now(&self) -> WallTime {
        weir_sched::wall_time()
    }

    fn time_zone(&self) -> &TimeZone {
        self.view.time_zone()
    }

    fn random(&mut self) -> u64 {
        weir_sched::random()
    }

    fn process(&self) -> ProcessFacts<'_> {
        self.view.facts()
    }

    fn lookup(&mut self, lookup: ObjectLookup, name: &[u8]) -> Option<Value<'static>> {
        self.view.lookup(lookup, name)
    }

    fn log_alias(&mut self, alias: Alias, out: &mut LogWriter<'_>) {
        match alias {
            Alias::Hostname => out.encoded(self.view.facts().hostname.as_bytes()),
            Alias::Pid => out.number(i64::from(self.view.facts().pid)),
            Alias::Backend => out.encoded(self.backend.name().as_bytes()),
            Alias::BackendSourceIp => out.address(self.own_address().and_then(|address| address.ip())),
            Alias::BackendSourcePort => out.port(port_of(self.own_address())),
            Alias::ServerIp => out.address(self.reached_address().and_then(|address| address.ip())),
            Alias::ServerPort => out.port(port_of(self.reached_address())),
            Alias::UniqueId => match self.unique_id() {
                Some(id) => out.text(id),
                None => out.missing(),
            },
            Alias::Server => out.encoded(self.server.name().as_bytes()),
            _ => out.missing(),
        }
    }
}

impl Drop for CheckContext<'_> {
    fn drop(&mut self) {
        self.view.charge_variables(self.variables.used(), 0);
    }
}

fn port_of(address: Option<Address>) -> Option<u16> {
    address?.inet().map(|address| address.port())
}
