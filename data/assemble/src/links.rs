//! Builds links: outgoing connections of the process, configured with the keywords of `server` lines.

use std::sync::Arc;

use weir_logs::forward::ForwardLine;
use weir_model::{SendProxy, ServerSettings, TcpKeepAlive};
use weir_net::{LinkTls, PeerLink};
use weir_proxy_protocol::{ClientAddresses, HeaderCommand, Transport, V2};
use weir_stream::server::plan;
use weir_sys::Address;

use super::TlsBuilder;

/// A planned connection to a peer or a name server.
#[derive(Debug)]
pub(super) struct PlannedLink {
    /// The name of the peer or name server in messages.
    subject: String,
    at: weir_model::Location,
    pub(super) address: Address,
    pub(super) settings: Arc<ServerSettings>,
    tls: Option<LinkTls>,
}

impl PlannedLink {
    pub(super) fn new(
        subject: String,
        at: &weir_model::Location,
        address: Address,
        settings: &Arc<ServerSettings>,
    ) -> PlannedLink {
        let (at, settings) = (at.clone(), Arc::clone(settings));
        PlannedLink { subject, at, address, settings, tls: None }
    }

    /// Builds the TLS settings and records their faults.
    pub(super) fn secure(&mut self, tls: &mut TlsBuilder) {
        self.tls = tls.log_server(self.subject.clone(), &self.settings, &self.at);
    }

    /// Creates the live link.
    pub(super) fn publish(self) -> PeerLink {
        let settings = &*self.settings;
        let mut link = PeerLink::to(self.address);
        link.socks4 = plan::socks4(settings);
        let source = settings.source.as_deref().map(|said| plan::source(said, 0)).unwrap_or_default();
        link.source = source.into();
        link.options = plan::options(Some(settings), None, false);
        link.header = header(settings);
        link.tls = self.tls;
        link
    }
}

/// The connection settings of a log server. All host names are already resolved.
pub(super) fn line(
    settings: &ServerSettings,
    keep_alive: Option<&TcpKeepAlive>,
    no_linger: bool,
) -> ForwardLine {
    let source = settings.source.as_deref().map(|said| plan::source(said, 0)).unwrap_or_default();
    ForwardLine {
        socks4: plan::socks4(settings),
        source: source.into(),
        options: plan::options(Some(settings), keep_alive, no_linger),
        header: header(settings),
        framing: settings.framing,
        ..ForwardLine::default()
    }
}

/// The PROXY protocol header without a client (UNKNOWN or LOCAL). Empty if not configured.
fn header(settings: &ServerSettings) -> Box<[u8]> {
    let mut header = Vec::new();
    match settings.send_proxy {
        None => {}
        Some(SendProxy::V1) => weir_proxy_protocol::write_v1(ClientAddresses::Unknown, &mut header),
        Some(SendProxy::V2) => {
            let checksum = settings.proxy_v2.as_ref().is_some_and(|header| header.crc32c);
            let local = V2 {
                command: HeaderCommand::Local,
                transport: Transport::Unspecified,
                addresses: ClientAddresses::Unknown,
                tlvs: &[],
                checksum,
            };
            // Writing fails only for oversized TLVs.
            let _ = weir_proxy_protocol::write_v2(&local, &mut header);
        }
    }
    header.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_without_a_client_sends_an_unknown_or_local_proxy_header() {
        let of = |send_proxy| header(&ServerSettings { send_proxy, ..ServerSettings::default() });
        assert!(of(None).is_empty());
        assert_eq!(*of(Some(SendProxy::V1)), *b"PROXY UNKNOWN\r\n");
        let v2 = of(Some(SendProxy::V2));
        let header = weir_proxy_protocol::parse(&v2).expect("a header").expect("all of it");
        assert_eq!(
            (header.command, header.addresses, header.length),
            (HeaderCommand::Local, ClientAddresses::Unknown, v2.len())
        );
    }
}
