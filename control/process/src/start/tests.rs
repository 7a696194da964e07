//! The objects of a process do not own each other in a cycle.

use weir_assemble::{ClientPlan, SystemResolver};
use weir_observe::ProcessRecord;

use super::built::{ProcessParts, Resolution};
use super::*;
use crate::fixture;
use crate::lifecycle::Lifecycle;
use crate::listening::ListeningSockets;

static MESSAGES: Messages = Messages::new();

/// Fails if objects of the state own each other in a cycle.
#[test]
fn dropping_the_last_reference_frees_the_process_state() {
    let text = "global\n localpeer A\n log ring@r local0\nring r\n size 32768\n server s 127.0.0.1:1\n\
                resolvers r\n nameserver n 127.0.0.1:53\npeers p\n peer A 127.0.0.1:1\n peer B 127.0.0.1:2\n\
                log-forward l\n bind 127.0.0.1:1\n log ring@r local0\n\
                defaults\n mode http\n timeout connect 1s\n timeout server 1s\n timeout client 1s\n\
                frontend f\n bind 127.0.0.1:1\n stats enable\n default_backend b\n\
                backend b\n stick-table type ip size 1 peers p\n server s 127.0.0.1:1 check\n\
                server t a.test:1 track s resolvers r init-addr none\n\
                backend c\n mode log\n server s 127.0.0.1:1\n server t udp@127.0.0.1:1\n";
    let done = weir_sched::run(async move {
        let (record, config) = fixture::read(text).expect("a configuration");
        let resolver = SystemResolver::default();
        let mut peers = weir_assemble::peers(&config, &resolver).expect("addresses");
        let mut name_servers = weir_assemble::name_servers(&config, &resolver).expect("addresses");
        let client = ClientPlan::new(&config, &resolver).expect("defaults");
        let (global, sections) = (config.global.clone(), config.resolvers.clone());
        let options = fixture::options(&record.events, &resolver, false);
        let relays = weir_assemble::relays(&config, &options).expect("targets");
        let built = weir_assemble::instance(config, options, &mut peers, &mut name_servers).expect("names");
        record.events.attach(&built.instance).expect("sources");
        let relays = relays.publish(&built.instance, &built.tls);
        let peers = peers.publish(&built.instance, false, |text| MESSAGES.warning(text), &record.log_tag);
        let record = ProcessRecord { tls: Some(built.tls), log_sinks: built.log_sinks, ..record };
        let resolution = Resolution { sections, name_servers, states: SavedStates::default() };
        let parts = ProcessParts { instance: built.instance, record, relays, resolution, client };
        let (live, lifecycle) = parts.live(peers, global.accepted_families, |served| {
            Lifecycle::new(served, ListeningSockets::default(), &global, &MESSAGES)
        });
        drop(lifecycle);
        let (instance, record) = (Arc::downgrade(&live.instance), Arc::downgrade(&live.record));
        drop(live);
        assert_eq!((instance.strong_count(), record.strong_count()), (0, 0));
    });
    assert_eq!(done, Ok(Some(())));
}
