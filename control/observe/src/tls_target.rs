//! Implements the runtime API's operations on certificates, CA files and lists.

use weir_cli::target::{
    Later, ListLine, ListRefusal, OcspEntry, OcspRefusal, OcspUpdate, OcspView, ServedName, TicketKeyFile,
    TicketKeyRefusal, TlsFileKind, TlsFileName, TlsFileView, TlsRefusal, TlsTarget,
};

use super::{LiveTarget, ocsp_updates};
use weir_assemble::LiveTls;

impl LiveTarget {
    /// The TLS objects. `None` in a process without traffic.
    fn tls(&self) -> Option<&LiveTls> {
        self.live.record.tls()
    }
}

impl TlsTarget for LiveTarget {
    fn tls_files(&self, kind: TlsFileKind) -> (Option<TlsFileName>, Vec<TlsFileName>) {
        self.tls().map(|tls| tls.files(kind)).unwrap_or_default()
    }

    fn tls_file(&self, kind: TlsFileKind, name: &str, pending: bool) -> Option<TlsFileView> {
        self.tls()?.file(kind, name, pending)
    }

    fn certificate_pem(&self, name: &str, pending: bool) -> Option<String> {
        self.tls()?.pem(name, pending)
    }

    fn new_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        self.tls().map_or(Err(TlsRefusal::Unknown), |tls| tls.create(kind, name))
    }

    fn set_tls_file(
        &mut self,
        kind: TlsFileKind,
        name: &str,
        text: &str,
        add: bool,
    ) -> Result<bool, TlsRefusal> {
        self.tls().map_or(Err(TlsRefusal::Unknown), |tls| tls.set(kind, name, text, add))
    }

    fn commit_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<usize, TlsRefusal> {
        self.tls().map_or(Err(TlsRefusal::Idle), |tls| tls.commit(kind, name))
    }

    fn abort_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        self.tls().map_or(Err(TlsRefusal::Idle), |tls| tls.abort(kind, name))
    }

    fn delete_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        self.tls().map_or(Err(TlsRefusal::Unknown), |tls| tls.delete(kind, name))
    }

    fn certificate_lists(&self) -> Vec<String> {
        self.tls().map(LiveTls::lists).unwrap_or_default()
    }

    fn certificate_list(&self, name: &str) -> Option<Vec<ListLine>> {
        self.tls()?.list(name)
    }

    fn add_list_line(&mut self, list: &str, line: &str) -> Result<String, ListRefusal> {
        self.tls().map_or(Err(ListRefusal::UnknownList), |tls| tls.add_line(list, line))
    }

    fn delete_list_line(
        &mut self,
        list: &str,
        certificate: &str,
        number: Option<usize>,
    ) -> Result<(), ListRefusal> {
        self.tls().map_or(Err(ListRefusal::UnknownList), |tls| tls.delete_line(list, certificate, number))
    }

    fn ocsp_responses(&self) -> Vec<OcspEntry> {
        self.tls().map(LiveTls::responses).unwrap_or_default()
    }

    fn ocsp_response(&self, name: &str, pending: bool) -> Option<OcspView> {
        self.tls()?.response(name, pending)
    }

    fn set_ocsp_response(&mut self, text: &str) -> Result<(), OcspRefusal> {
        let none = || OcspRefusal::Unfit("there are no certificates.".to_owned());
        self.tls().ok_or_else(none)?.set_response(text)
    }

    fn ocsp_updates(&self) -> Vec<OcspUpdate> {
        let record = &self.live.record;
        record
            .ocsp_updates
            .as_ref()
            .zip(record.tls())
            .map(|(updates, tls)| updates.list(tls))
            .unwrap_or_default()
    }

    fn update_ocsp(&mut self, certificate: &str) -> Result<Box<dyn Later>, String> {
        ocsp_updates::update_now(&self.live, certificate, self.task)
    }

    fn request(&mut self, method: &str, url: &str) -> Result<Box<dyn Later>, String> {
        ocsp_updates::request_now(&self.live, method, url, self.task)
    }

    fn ticket_keys(&self) -> Vec<TicketKeyFile> {
        self.tls().map(LiveTls::ticket_keys).unwrap_or_default()
    }

    fn push_ticket_key(&mut self, file: &str, key: &str) -> Result<(), TicketKeyRefusal> {
        self.tls().map_or(Err(TicketKeyRefusal::UnknownFile), |tls| tls.push_ticket_key(file, key))
    }

    fn served_names(&self, frontend: Option<&str>, ending_before: Option<i64>) -> Option<Vec<ServedName>> {
        if let Some(name) = frontend {
            let proxies = &self.live.instance.proxies;
            proxies.iter().find(|proxy| proxy.config.is_frontend() && *proxy.config.name == *name)?;
        }
        Some(self.tls().map(|tls| tls.names(frontend, ending_before)).unwrap_or_default())
    }
}
