//! The objects of a process own each other without a cycle.

use super::*;
use crate::observe::fixture;

static MESSAGES: Messages = Messages::new();

/// Fails if objects of the state own each other in a cycle.
#[test]
fn dropping_the_last_reference_frees_the_state() {
    let text = "global\n localpeer A\n log ring@r local0\nring r\n size 32768\n server s 127.0.0.1:1\n\
                resolvers r\n nameserver n 127.0.0.1:53\npeers p\n peer A 127.0.0.1:1\n peer B 127.0.0.1:2\n\
                log-forward l\n bind 127.0.0.1:1\n log ring@r local0\n\
                defaults\n mode http\n timeout connect 1s\n timeout server 1s\n timeout client 1s\n\
                frontend f\n bind 127.0.0.1:1\n stats enable\n default_backend b\n\
                backend b\n stick-table type ip size 1 peers p\n server s 127.0.0.1:1 check\n\
                server t a.test:1 track s resolvers r init-addr none\n\
                backend c\n mode log\n server s 127.0.0.1:1\n server t udp@127.0.0.1:1\n";
    let done = weir_sched::run(async move {
        let live = fixture::live(text);
        let (instance, record) = (&live.instance, &live.record);
        let config = fixture::config(text).expect("a configuration");
        let resolver = SystemResolver::default();
        let relays = fixture::relays(text, &resolver).expect("a configuration");
        let peers = build::peers(&config, &resolver).expect("addresses");
        let peers = peers.publish(instance, false, &MESSAGES, &record.log_tag);
        let _ = record.lifecycle.set(Arc::new(Lifecycle {
            instance: Arc::clone(instance),
            listening: Listening::default(),
            messages: &MESSAGES,
            hard_stop_after: None,
            grace: None,
            forwards: record.events.forwards.clone(),
            operators: Arc::clone(&record.cli_connections),
            relays,
            peers,
            operator_acceptors: Mutex::default(),
            ended_by: AtomicI32::new(0),
        }));
        build::follow(instance);
        let parts = Observers {
            sections: &config.resolvers,
            name_servers: build::name_servers(&config, &resolver).expect("addresses"),
            families: config.global.accepted_families,
            states: &SavedStates::default(),
            client: ClientPlan::new(&config, &resolver).expect("defaults"),
        };
        observe_servers(&live, parts);
        let (instance, record) = (Arc::downgrade(instance), Arc::downgrade(record));
        drop(live);
        assert_eq!((instance.strong_count(), record.strong_count()), (0, 0));
    });
    assert_eq!(done, Ok(Some(())));
}
