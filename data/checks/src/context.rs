//! The data for a check's expressions: the server, its answer, variables.

use std::net::SocketAddr;

use weir_backend::{Backend, Server};
use weir_expr::{
    Alias, Arg, Args, Context, Cursor, FetchIndex, Fetched, LogWriter, Lookup, ProcessFacts, SetCondition,
    TimeZone, Value, VariableId, VariableScope, VariableStore, WallTime,
};
use weir_http::Head;
use weir_mux::{Message, StreamConnector};
use weir_sys::socket;

use crate::process_view::ProcessView;
use crate::secured;

/// The context of one check.
pub(crate) struct CheckContext<'c> {
    pub(crate) view: &'c dyn ProcessView,
    pub(crate) backend: &'c Backend,
    pub(crate) server: &'c Server,
    /// Variables of the scopes `check` and `sess`: a check has no other session.
    variables: VariableStore,
    /// `unique-id`, once it was used.
    unique_id: Option<Vec<u8>>,
    /// What the check speaks over.
    pub(crate) connector: StreamConnector,
    /// What was received: bytes, or the body of an HTTP response.
    pub(crate) payload: Vec<u8>,
    /// The head of the response.
    pub(crate) response: Option<Message>,
}

impl<'c> CheckContext<'c> {
    pub(crate) fn new(view: &'c dyn ProcessView, backend: &'c Backend, server: &'c Server) -> Self {
        let (variables, payload) = (VariableStore::default(), Vec::new());
        let connector = StreamConnector::CLOSED;
        CheckContext { view, backend, server, variables, unique_id: None, connector, payload, response: None }
    }

    /// Its connector, for others; nothing is connected thereafter.
    pub(crate) fn take_connector(&mut self) -> StreamConnector {
        std::mem::replace(&mut self.connector, StreamConnector::CLOSED)
    }

    /// The unique identifier of the check, by the format of its backend.
    fn unique_id(&mut self) -> Option<&[u8]> {
        if self.unique_id.is_none() {
            let format = self.view.unique_id_format(self.backend)?;
            // A format that reads `unique-id` itself finds this value, not itself again.
            self.unique_id = Some(Vec::new());
            let mut id = Vec::new();
            format.render(self, &mut id);
            self.unique_id = Some(id);
        }
        self.unique_id.as_deref()
    }

    /// The address that the check connects from.
    fn source(&self) -> Option<SocketAddr> {
        self.connector.local_address()?.inet()
    }

    /// The address that the check is connected to.
    fn destination(&self) -> Option<SocketAddr> {
        self.connector.with_descriptor(|descriptor| socket::peer_address(descriptor).ok())??.inet()
    }

    /// A field of the response, the last one unless an occurrence is asked for.
    fn field<'a>(
        &'a self,
        args: &'a Args,
        find: impl FnOnce(&'a Head, &'a [u8], &'a [u8], i32) -> Option<&'a [u8]>,
    ) -> Option<Value<'a>> {
        let response = self.response.as_ref()?;
        let which = args.int(1).and_then(|which| i32::try_from(which).ok()).unwrap_or(-1);
        find(&response.head, response.bytes(), args.str(0)?, which).map(|value| Value::Str(value.into()))
    }

    fn status(&self) -> Option<i64> {
        self.response.as_ref().map(|response| i64::from(response.head.status()))
    }
}

impl Context for CheckContext<'_> {
    fn fetch<'a>(&'a mut self, fetch: FetchIndex, args: &'a Args, _: &mut Cursor) -> Fetched<'a> {
        let text = |text: &'a str| Some(Value::Str(text.as_bytes().into()));
        // Others were refused when the configuration was read, or are about a client: a check has none, and they have no value.
        let name = self.view.fetch_name(fetch).unwrap_or_default();
        if name == "unique-id" {
            return self.unique_id().map(|id| Value::Str(id.into())).into();
        }
        let value = match name {
            "be_id" => Some(Value::Int(self.backend.settings().id.into())),
            "be_name" => text(self.backend.name()),
            "bc_src" => self.source().map(|address| Value::from(address.ip())),
            "bc_src_port" => self.source().map(|address| Value::Int(address.port().into())),
            "bc_dst" => self.destination().map(|address| Value::from(address.ip())),
            "bc_dst_port" => self.destination().map(|address| Value::Int(address.port().into())),
            "srv_id" => Some(Value::Int(self.server.id().into())),
            "srv_name" => text(self.server.name()),
            "nbsrv" => {
                let named = match args.get(0) {
                    Arg::Reference(reference) => reference.name.as_deref(),
                    _ => None,
                };
                self.view.lookup(Lookup::UsableServers, named.unwrap_or(self.backend.name()).as_bytes())
            }
            "status" => self.status().map(Value::Int),
            "res.fhdr" => self.field(args, |head, raw, name, which| head.find_line(raw, name, which)),
            "res.hdr" => self.field(args, |head, raw, name, which| head.find(raw, name, which)),
            "res.body" => self.response.is_some().then_some(Value::Bin(self.payload.as_slice().into())),
            "res.len" => Some(Value::Int(i64::try_from(self.payload.len()).unwrap_or(i64::MAX))),
            "res.payload" => block(&self.payload, args).map(|bytes| Value::Bin(bytes.into())),
            name if name.starts_with("ssl_bc") => secured::value(self.connector.tls(), name),
            _ => None,
        };
        value.into()
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

    fn lookup(&mut self, lookup: Lookup, name: &[u8]) -> Option<Value<'static>> {
        self.view.lookup(lookup, name)
    }

    fn log_alias(&mut self, alias: Alias, out: &mut LogWriter<'_>) {
        match alias {
            Alias::Hostname => out.encoded(self.view.facts().hostname.as_bytes()),
            Alias::Pid => out.number(i64::from(self.view.facts().pid)),
            Alias::Backend => out.encoded(self.backend.name().as_bytes()),
            Alias::BackendSourceIp => out.address(self.source().map(|address| address.ip())),
            Alias::BackendSourcePort => out.port(self.source().map(|address| address.port())),
            Alias::ServerIp => out.address(self.destination().map(|address| address.ip())),
            Alias::ServerPort => out.port(self.destination().map(|address| address.port())),
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

/// `res.payload(<offset>,<length>)`; length 0 means everything received.
fn block<'p>(payload: &'p [u8], args: &Args) -> Option<&'p [u8]> {
    let offset = usize::try_from(args.int(0).unwrap_or(0)).ok()?;
    let length = usize::try_from(args.int(1).unwrap_or(0)).ok()?;
    let rest = payload.get(offset..)?;
    if length == 0 { Some(rest) } else { rest.get(..length) }
}
