//! Connections to agents at the two ends of a process: opened before the first exchange, and dismissed before the exit.

use weir_containers::RcRef;
use weir_sched::{Class, WorkKind};

use super::{AgentEngine, exchange};
use crate::instance::{Instance, LocalInstance, ProxyRef, WorkerInstance};

/// Opens a connection to each server of each agent, in tasks of their own. Called when a worker starts, so also after a reload. A server
/// that does not answer is left to its first exchange.
pub fn warm_up(instance: &LocalInstance) {
    for index in 0..instance.proxies.len() {
        let Some(proxy) = ProxyRef::at(instance, index) else { continue };
        for position in 0..proxy.engines.len() {
            let Some(engine) = proxy.find_part(|proxy| proxy.engines.get(position)) else { continue };
            let servers =
                instance.proxies.get(engine.backend).map_or(0, |backend| backend.config.servers.len());
            weir_sched::spawn(&WARMING, Class::Bulk, open(proxy.clone(), engine, servers.min(MOST)));
        }
    }
}

/// Each child is ended at once, so that it does not hold a slot of its server. Algorithms that take turns choose another server each time.
/// Others may choose one again, and find its connection.
async fn open(proxy: ProxyRef, engine: RcRef<WorkerInstance, AgentEngine>, servers: usize) {
    for _ in 0..servers {
        if let Some(child) = exchange::open(&proxy, &engine).await {
            exchange::close(child);
        }
    }
}

/// Closes this worker's idle connections to agents, with a DISCONNECT each.
pub fn dismiss_agents(instance: &Instance) {
    for proxy in instance.proxies.iter().filter(|proxy| proxy.is_spop()) {
        crate::server::idle::forget_all(proxy);
    }
}

/// The number of open connections to agents, over all workers.
pub fn open_agents(instance: &Instance) -> u64 {
    instance.process_counters.iter().map(|counters| counters.agent_connections.value()).sum()
}

static WARMING: WorkKind = WorkKind::new("first connections to agents");
/// Servers of one agent that get a connection before the first exchange.
const MOST: usize = 16;
