//! Listeners: one for each port of each address of each `bind` line.

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
            // Positions count from 1, as in the statistics of sockets without a name.
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

/// A line for each port of each address of a line.
pub(super) fn single(bind: &Bind) -> Vec<Bind> {
    let addresses = bind.addresses.iter().flat_map(single_ports);
    addresses.map(|address| Bind { addresses: vec![address], ..bind.clone() }).collect()
}

/// An address with a range of ports, as one address for each.
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
