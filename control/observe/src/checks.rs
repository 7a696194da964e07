//! The process, as seen by health checks.

use std::sync::Arc;

use weir_backend::{Backend, BackendNews, Server};
use weir_checks::{ApplicationConnection, IdleConnection, ProcessView};
use weir_expr::{LogFormat, ObjectLookup, ProcessFacts, SetCondition, TimeZone, Value, VariableId};
use weir_net::Connection;
use weir_stream::instance::Instance;
use weir_vocabulary::Objects;

use super::WeakLive;

/// The process, as seen by its health checks.
pub struct CheckedProcess {
    instance: Arc<Instance>,
    live: WeakLive,
}

impl CheckedProcess {
    /// The process with this instance and state.
    pub fn new(instance: &Arc<Instance>, live: WeakLive) -> Self {
        CheckedProcess { instance: Arc::clone(instance), live }
    }
}

impl ProcessView for CheckedProcess {
    fn news(&self, news: BackendNews) {
        self.live.report(news);
    }

    fn take_idle(&self, backend: &Backend, server: &Server, key: u64) -> Option<IdleConnection> {
        let proxy = self.instance.proxies.get(backend.settings().place)?;
        let (connection, requests) = weir_stream::server::idle::take_for_check(proxy, server, key)?;
        Some(IdleConnection { connection, requests })
    }

    fn keep_idle(&self, backend: &Backend, server: &Server, key: u64, idle: IdleConnection) {
        if let Some(proxy) = self.instance.proxies.get(backend.settings().place) {
            let connection = (idle.connection, idle.requests);
            weir_stream::server::idle::keep_of_check(proxy, server, key, connection);
        }
    }

    fn connect_application(
        &self,
        backend: &Backend,
        connection: Connection,
    ) -> Option<ApplicationConnection> {
        let proxy = self.instance.proxies.get(backend.settings().place)?;
        let application = proxy.application.as_ref()?;
        let connection = weir_stream::server::applications::connect_check(application, connection);
        Some(ApplicationConnection { connection, application: Arc::clone(&application.config) })
    }

    fn node(&self) -> &str {
        &self.instance.identity.node
    }

    fn objects(&self) -> &dyn Objects {
        &*self.instance
    }

    fn unique_id_format(&self, backend: &Backend) -> Option<Arc<LogFormat>> {
        let proxy = self.instance.proxies.get(backend.settings().place)?;
        proxy.config.settings.unique_id_format.clone()
    }

    fn facts(&self) -> ProcessFacts<'_> {
        self.instance.facts()
    }

    fn time_zone(&self) -> &TimeZone {
        &self.instance.identity.time_zone
    }

    fn lookup(&self, lookup: ObjectLookup, name: &[u8]) -> Option<Value<'static>> {
        // A check does not belong to a frontend, so use the first proxy for the lookup.
        let proxy = self.instance.proxies.first()?;
        self.instance.lookup(proxy, lookup, name)
    }

    fn variable(&self, variable: VariableId) -> Option<Value<'static>> {
        self.instance.variables().get(variable).map(Value::into_owned)
    }

    fn set_variable(&self, variable: VariableId, value: Value<'static>, condition: SetCondition) -> bool {
        self.instance.variables_mut().set(variable, value, condition)
    }

    fn unset_variable(&self, variable: VariableId) -> bool {
        self.instance.variables_mut().unset(variable)
    }

    fn variable_room(&self, own: usize) -> usize {
        self.instance.variable_room_of_check(own)
    }

    fn charge_variables(&self, from: usize, to: usize) {
        self.instance.charge_variables_of_check(from, to);
    }
}
