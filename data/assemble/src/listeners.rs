//! Listeners: one per port and address of each `bind` line.

use std::sync::Arc;

use weir_backend::counters::ListenerCounters;
use weir_model::{Bind, ListenAddress};
use weir_net::ConnectionLimit;
use weir_stream::instance::Listener;
use weir_tls::ChooseServer;

use super::TlsBuilder;

/// The listeners of a frontend, in the order of its `bind` lines.
pub(super) fn listeners(config: &weir_model::Proxy, workers: usize, tls: &mut TlsBuilder) -> Vec<Listener> {
    let mut made: Vec<Listener> = Vec::new();
    tls.declare_certificates(config);
    for bind in &config.binds {
        let mut next_id = bind.id;
        let tls = tls.listener(&config.name, bind, config.mode() == weir_model::Mode::Http);
        for address in bind.addresses.iter().flat_map(single_ports) {
            let id = next_id.unwrap_or_else(|| lowest_free(&made));
            next_id = next_id.map(|id| id + 1);
            // The default name counts from 1, as in HAProxy's statistics.
            let name = bind.name.clone().unwrap_or_else(|| format!("sock-{}", made.len() + 1).into());
            made.push(Listener {
                bind: Bind { addresses: vec![address], ..bind.clone() },
                name,
                id,
                address: None,
                counters: ListenerCounters::new(workers),
                connections: ConnectionLimit::new(),
                tls: tls.clone().map(|listener| listener as Arc<dyn ChooseServer>),
            });
        }
    }
    made
}

/// The listener of sub-requests.
pub(super) fn without_socket(at: weir_model::Location, workers: usize) -> Listener {
    let options = weir_model::BindOptions::default();
    let bind = Bind { at, spelling: "".into(), addresses: Vec::new(), name: None, id: None, options };
    Listener {
        bind,
        name: "".into(),
        id: 0,
        address: None,
        counters: ListenerCounters::new(workers),
        connections: ConnectionLimit::new(),
        tls: None,
    }
}

/// Splits a `bind` line into lines with a single address and port.
pub(super) fn single(bind: &Bind) -> Vec<Bind> {
    let addresses = bind.addresses.iter().flat_map(single_ports);
    addresses.map(|address| Bind { addresses: vec![address], ..bind.clone() }).collect()
}

/// Splits an address with a port range into addresses with a single port.
fn single_ports(address: &ListenAddress) -> Vec<ListenAddress> {
    match address {
        ListenAddress::Inet { host, first_port, last_port, multipath } => (*first_port..=*last_port)
            .map(|port| ListenAddress::Inet {
                host: host.clone(),
                first_port: port,
                last_port: port,
                multipath: *multipath,
            })
            .collect(),
        other => vec![other.clone()],
    }
}

fn lowest_free(made: &[Listener]) -> u32 {
    (1..).find(|id| made.iter().all(|listener| listener.id != *id)).unwrap_or(u32::MAX)
}
