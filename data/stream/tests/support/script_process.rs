//! The process that scripts of tests see: without proxies.

use weir_expr::{Value, VariableId};
use weir_scripts::{
    CertificateField, ListedProxies, MailSettings, ProxyChange, ProxyFacts, ScriptProcess, ScriptServer,
    ServerFacts, ServerRequest, ServerRequestError, StatsVisit,
};

/// A process without proxies.
pub(crate) struct NoProcess;

impl ScriptProcess for NoProcess {
    fn replace_certificate(&self, _: &str, _: &[(CertificateField, String)]) -> Result<(), Option<String>> {
        Err(None)
    }

    fn variable(&self, _: VariableId) -> Option<Value<'static>> {
        None
    }

    fn info(&self, _: StatsVisit<'_>) {}

    fn proxy_number(&self, _: ListedProxies, _: &str) -> Option<u32> {
        None
    }

    fn proxy_numbers(&self, _: ListedProxies) -> Vec<u32> {
        Vec::new()
    }

    fn proxy(&self, _: u32) -> Option<ProxyFacts> {
        None
    }

    fn usable_servers(&self, _: u32) -> [u32; 2] {
        [0; 2]
    }

    fn change_proxy(&self, _: u32, _: ProxyChange) {}

    fn proxy_statistics(&self, _: u32, _: StatsVisit<'_>) {}

    fn table(&self, _: u32) -> Option<&weir_tables::Table> {
        None
    }

    fn table_clock_ms(&self) -> u64 {
        weir_sched::now().as_ms()
    }

    fn mail_settings(&self, _: u32) -> Option<MailSettings> {
        None
    }

    fn listeners(&self, _: u32) -> Vec<Box<str>> {
        Vec::new()
    }

    fn listener_statistics(&self, _: u32, _: usize, _: StatsVisit<'_>) {}

    fn server_key(&self, _: u32, _: &str) -> Option<ScriptServer> {
        None
    }

    fn server_keys(&self, _: u32) -> Vec<ScriptServer> {
        Vec::new()
    }

    fn server(&self, _: ScriptServer) -> Option<ServerFacts> {
        None
    }

    fn tracked(&self, _: ScriptServer) -> Option<ScriptServer> {
        None
    }

    fn trackers(&self, _: ScriptServer) -> Vec<ScriptServer> {
        Vec::new()
    }

    fn change_server(
        &self,
        _: ScriptServer,
        _: ServerRequest<'_>,
    ) -> Result<Option<String>, ServerRequestError> {
        Err(ServerRequestError::Gone)
    }

    fn server_statistics(&self, _: ScriptServer, _: StatsVisit<'_>) -> bool {
        false
    }
}
