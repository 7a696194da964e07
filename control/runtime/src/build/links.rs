//! Builds links: connections of the process itself that lines with the words of servers describe.

use std::sync::{Arc, OnceLock};

use weir_config::model::{self, ServerSettings};
use weir_net::{Link, LinkTls};
use weir_stream::server::plan;
use weir_sys::Address;

use super::TlsBuilder;
use super::rings::ForwardTls;

/// How a peer or a name server will be connected to.
#[derive(Debug)]
pub(super) struct PlannedLink {
    /// Its name in messages.
    subject: String,
    at: model::Location,
    pub(super) address: Address,
    pub(super) settings: Arc<ServerSettings>,
    tls: OnceLock<ForwardTls>,
}

impl PlannedLink {
    pub(super) fn new(
        subject: String,
        at: &model::Location,
        address: Address,
        settings: &Arc<ServerSettings>,
    ) -> PlannedLink {
        let (at, settings) = (at.clone(), Arc::clone(settings));
        PlannedLink { subject, at, address, settings, tls: OnceLock::new() }
    }

    /// Builds the TLS settings, and records their faults.
    pub(super) fn secure(&self, tls: &mut TlsBuilder) {
        if let Some(made) = tls.log_server(self.subject.clone(), &self.settings, &self.at) {
            let _ = self.tls.set(made);
        }
    }

    /// Makes it live.
    pub(super) fn publish(self) -> Link {
        let settings = &*self.settings;
        let mut link = Link::to(self.address);
        link.socks4 = plan::socks4(settings);
        let source = settings.source.as_deref().map(|said| plan::source(said, 0)).unwrap_or_default();
        link.source = source.into();
        link.options = plan::options(Some(settings), None, false);
        link.header = crate::forward::header(settings).unwrap_or_default().into();
        let tls = self.tls.into_inner();
        link.tls = tls.map(|ForwardTls { upstream, server_name }| LinkTls { upstream, server_name });
        link
    }
}
