//! Several instances over a simulated network: start orders, failures and protocol errors.

mod together;

use std::sync::Arc;

use weir_expr::Value;
use weir_expr::table::{DataType, Declaration, KeyType, ServerKeyKind, Stored};
use weir_net::PeerLink;
use weir_peers::{Peer, PeerAcceptor, PeersSection, SharedTable};
use weir_sched::simulate::network::{self, Conditions, SimulatedNetwork};
use weir_sched::{Class, Descriptor, WorkKind, now, sleep_until};
use weir_sys::Address;
use weir_tables::{Key, Table};

/// Runs a test as the first task of a worker.
#[track_caller]
fn simulate<F: Future<Output = ()> + 'static>(
    seed: u64,
    conditions: Conditions,
    test: impl FnOnce(SimulatedNetwork) -> F + 'static,
) {
    let run = network::run(seed, conditions, test);
    assert_eq!(run.expect("a worker").outcome, Ok(()), "seed {seed}");
}

/// A network with latency and fragmented data.
const SLOW: Conditions = Conditions { cuts: 3, latency_us: 2000, ..Conditions::CALM };
/// A network with latency, fragmented data and broken connections.
const ROUGH: Conditions =
    Conditions { cuts: 4, short_sends: 4, spurious: 10, resets: 30, latency_us: 5000, ..Conditions::CALM };

const NAMES: [&str; 3] = ["A", "B", "C"];

fn address(name: &str) -> Address {
    let last = NAMES.iter().position(|known| *known == name).expect("a name") as u8 + 1;
    Address::Inet(([10, 0, 0, last], 1024).into())
}

fn declaration() -> Declaration {
    Declaration {
        name: "t".into(),
        key: KeyType::Ipv4,
        size: 10_000,
        expire_ms: 600_000,
        no_purge: false,
        bytes_rate_factor: 1,
        server_key: ServerKeyKind::Name,
        stored: vec![Stored { data: DataType::Gpc0, elements: 1, period_ms: 0 }],
    }
}

#[derive(Clone, Copy)]
struct Instance {
    section: &'static Arc<PeersSection>,
    table: &'static Arc<Table>,
}

impl Instance {
    /// An instance with this name that is not started yet.
    fn new(name: &str, has_predecessor: bool) -> Instance {
        Instance::of_table(name, has_predecessor, Table::shared(declaration(), NAMES.len() - 1))
    }

    fn of_table(name: &str, has_predecessor: bool, table: Table) -> Instance {
        let table: &'static Arc<Table> = Box::leak(Box::new(Arc::new(table)));
        let others = NAMES.iter().filter(|other| **other != name);
        let peers = others.map(|other| Peer::new(other, PeerLink::to(address(other)))).collect();
        let tables = vec![SharedTable::new(Arc::clone(table), "t", false, None)];
        let mut section = PeersSection::new("fleet", name, tables, peers);
        section.own_link = Some(PeerLink::to(address(name)));
        section.has_predecessor = has_predecessor;
        Instance { section: Box::leak(Box::new(Arc::new(section))), table }
    }

    fn start(self, network: &SimulatedNetwork) -> Instance {
        static ACCEPT: WorkKind = WorkKind::new("accept");
        let listener = network.listener(&address(&self.section.local)).expect("a free address");
        let listener = Descriptor::register(listener).expect("a place in the poller");
        weir_sched::spawn(
            &ACCEPT,
            Class::Urgent,
            weir_net::listener::accept(
                listener,
                PeerAcceptor { section: Arc::clone(self.section), tls: None, accept_proxy: false },
                10,
            ),
        );
        self.section.start();
        self
    }

    fn count(self, number: u32, count: u64) {
        let stored = self.table.store(&key(number), now().as_ms(), |row| row.set(DataType::Gpc0, 0, count));
        assert_eq!(stored, Some(true));
    }

    fn counted(self, number: u32) -> Option<u64> {
        self.table.look(&key(number), now().as_ms(), |row| row.get(DataType::Gpc0, 0)).flatten()
    }
}

fn key(number: u32) -> Key {
    Key::of(Value::Ipv4(number.into()), KeyType::Ipv4).expect("an address")
}

async fn pass(milliseconds: u64) {
    sleep_until(now().after(milliseconds)).await;
}

#[test]
fn counts_of_one_instance_reach_all_peers() {
    for seed in 0..10 {
        simulate(seed, SLOW, |network| async move {
            let fleet = NAMES.map(|name| Instance::new(name, false).start(&network));
            pass(10_000).await;
            (0..1000).for_each(|number| fleet[number as usize % 3].count(number, u64::from(number) + 1));
            pass(1_000).await;
            for instance in fleet {
                let counted =
                    (0..1000).filter(|number| instance.counted(*number) == Some(u64::from(*number) + 1));
                assert_eq!(counted.count(), 1000, "{}", instance.section.local);
            }
        });
    }
}

#[test]
fn instances_started_together_learn_from_each_other() {
    for seed in 0..50 {
        simulate(seed, SLOW, move |network| async move {
            let fleet = NAMES.map(|name| Instance::new(name, false));
            fleet[seed as usize % 3].count(1, 7);
            for instance in fleet {
                instance.start(&network);
            }
            pass(1_000).await;
            for instance in fleet {
                assert_eq!(instance.counted(1), Some(7), "{}", instance.section.local);
            }
        });
    }
}

#[test]
fn an_instance_started_later_learns_all_entries() {
    simulate(1, Conditions::CALM, |network| async move {
        let [a, b] = ["A", "B"].map(|name| Instance::new(name, false).start(&network));
        (0..1000).for_each(|number| a.count(number, 7));
        pass(20_000).await;
        assert_eq!(b.table.used(), 1000);
        let c = Instance::new("C", false).start(&network);
        pass(5_000).await;
        assert_eq!(c.table.used(), 1000);
        assert_eq!(c.counted(999), Some(7));
    });
}

#[test]
fn all_instances_agree_after_many_connection_failures() {
    for seed in 0..30 {
        simulate(seed, ROUGH, move |network| async move {
            let fleet = NAMES.map(|name| Instance::new(name, false).start(&network));
            for round in 1..=40 {
                // Each entry is changed by one instance only, because the last update wins.
                (0..300).for_each(|number| fleet[number as usize % 3].count(number, round));
                pass(network.random(800)).await;
            }
            network.change(|conditions| conditions.resets = 0);
            pass(30_000).await;
            for instance in fleet {
                let old = (0..300).filter(|number| instance.counted(*number) != Some(40));
                assert_eq!(old.count(), 0, "{}, seed {seed}", instance.section.local);
            }
        });
    }
}

#[test]
fn the_old_process_sends_all_entries_to_its_successor_first() {
    simulate(1, Conditions::CALM, |network| async move {
        let old = Instance::new("A", false);
        old.section.start();
        // By then the instance has stopped waiting for peers to learn from.
        pass(6_000).await;
        (0..3000).for_each(|number| old.count(number, 5));
        let new = Instance::new("A", true).start(&network);
        pass(100).await;
        assert_eq!(new.table.used(), 0);
        old.section.stop();
        let before = now();
        old.section.teach_successor().await;
        assert_eq!(new.table.used(), 3000);
        assert!(now().since(before) < 1000, "it does not wait for anything");
        // No resync is requested from the other peers.
        let stranger = network.listen(&address("B")).expect("a free address");
        let peer = stranger.accept().await;
        let hello = peer.receive(100).await.expect("a hello");
        assert!(hello.starts_with(b"HAProxyS 2.1\nB\nA "), "{hello:?}");
        peer.send(b"200\n").await.expect("it listens");
        assert_eq!(peer.receive(100).await.expect("a heartbeat"), [0, 4]);
    });
}

#[test]
fn a_stopping_process_without_a_successor_does_not_wait() {
    simulate(1, Conditions::CALM, |_| async move {
        let old = Instance::new("A", false);
        old.section.stop();
        let before = now();
        old.section.teach_successor().await;
        assert!(now().since(before) < 1000);
    });
}

/// The reply of an instance to an unknown peer that sends these bytes, until it closes or stops sending.
async fn answer(network: &SimulatedNetwork, said: &[u8]) -> Vec<u8> {
    let peer = network.connect(&Address::Inet(([10, 0, 0, 9], 5).into()), &address("A"));
    peer.connected().await.expect("it listens");
    peer.send(said).await.expect("it listens");
    let mut heard = Vec::new();
    while let Ok(more) = peer.receive(1000).await {
        if more.is_empty() {
            break;
        }
        heard.extend(more);
    }
    heard
}

#[test]
fn invalid_peer_hellos_get_a_status_code() {
    simulate(1, Conditions::CALM, |network| async move {
        Instance::new("A", false).start(&network);
        let status =
            async |said: &str| String::from_utf8(answer(&network, said.as_bytes()).await).expect("text");
        assert_eq!(status("HAProxyS 2.1\nA\nX 1 1\n").await, "504\n");
        assert_eq!(status("HAProxyS 2.1\nX\nB 1 1\n").await, "503\n");
        assert_eq!(status("HAProxyS 3.0\nA\nB 1 1\n").await, "502\n");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n").await, "501\n");
    });
}

#[test]
fn peer_sessions_end_on_malformed_messages_or_silence() {
    simulate(1, Conditions::CALM, |network| async move {
        let a = Instance::new("A", false).start(&network);
        let hello = b"HAProxyS 2.1\nA\nB 1 1\n";
        let with = |more: &[u8]| [&hello[..], more].concat();
        // The resync request, then an invalid message.
        assert_eq!(answer(&network, &with(&[10, 128, 1, 0])).await, b"200\n\x01\x00");
        assert_eq!(answer(&network, &with(&[10, 128, 255, 255, 255, 255, 127])).await, b"200\n\x01\x01");
        let before = now();
        // An incomplete message.
        let heard = answer(&network, &with(&[10, 128, 200, 1, 2, 3])).await;
        assert!((5000..6000).contains(&now().since(before)), "{}", now().since(before));
        assert!(heard.starts_with(b"200\n"), "{heard:?}");
        // The instance sends heartbeats meanwhile.
        assert!(heard.ends_with(&[0, 4]), "{heard:?}");
        assert!(!a.section.peers[0].is_connected());
        let before = now();
        assert_eq!(answer(&network, b"HAProxyS 2.1\n").await, b"");
        assert!((5000..6000).contains(&now().since(before)));
    });
}

#[test]
fn the_later_of_two_connections_of_a_peer_is_kept() {
    simulate(1, Conditions::CALM, |network| async move {
        let a = Instance::new("A", false).start(&network);
        let connect = async || {
            let peer = network.connect(&Address::Inet(([10, 0, 0, 2], 5).into()), &address("A"));
            peer.connected().await.expect("it listens");
            peer.send(b"HAProxyS 2.1\nA\nB 1 1\n").await.expect("it listens");
            assert_eq!(peer.receive(4).await.expect("a status"), b"200\n");
            peer
        };
        let first = connect().await;
        let second = connect().await;
        while let Ok(more) = first.receive(100).await {
            if more.is_empty() {
                break;
            }
        }
        assert!(a.section.peers[0].is_connected());
        a.count(1, 1);
        let mut heard = Vec::new();
        while !heard.windows(2).any(|two| two == [10, 128]) {
            heard.extend(second.receive(100).await.expect("it receives changes"));
        }
    });
}
