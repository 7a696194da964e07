//! The simulated network gives the guarantees of a kernel, and no others. One side is a descriptor, as the product uses it,
//! the other a script.

use std::net::Ipv4Addr;
use weir_sched::simulate::network::{self, Conditions, SimulatedNetwork, SimulatedPeer, UnfinishedReason};
use weir_sched::{Class, Descriptor, ReceiveResult, SendResult, Tick, WorkKind, current, now, spawn, wait};
use weir_sys::splice::Pipe;
use weir_sys::{Address, AddressFamily, Errno, option};

static KIND: WorkKind = WorkKind::new("test");

fn address(port: u16) -> Address {
    Address::from((Ipv4Addr::LOCALHOST, port))
}

/// Everything is cut, little fits, and much is late.
fn rough() -> Conditions {
    Conditions { window: 300, cuts: 2, short_sends: 3, spurious: 10, latency_us: 5_000, ..Conditions::CALM }
}

#[track_caller]
fn run<T: 'static, F: Future<Output = T> + 'static>(
    seed: u64,
    conditions: Conditions,
    main: impl FnOnce(SimulatedNetwork) -> F,
) -> T {
    let run = network::run(seed, conditions, main).expect("a worker");
    run.outcome.unwrap_or_else(|why| panic!("seed {seed}: {why:?}"))
}

/// A connection from a script to a descriptor that was accepted.
async fn pair(network: &SimulatedNetwork) -> (SimulatedPeer, Descriptor) {
    let listener =
        Descriptor::register(network.listener(&address(80)).expect("nobody is there")).expect("a place");
    listener.set_owner(current());
    let client = network.connect(&address(1000), &address(80));
    loop {
        if let Some((accepted, from)) = listener.accept().expect("it listens") {
            assert_eq!(from, address(1000));
            let server = Descriptor::register(accepted).expect("a place");
            server.set_owner(current());
            return (client, server);
        }
        wait(Tick::NEVER).await;
    }
}

/// A connection from a descriptor to a script that accepted it.
async fn opposite_pair(network: &SimulatedNetwork) -> (Descriptor, SimulatedPeer) {
    let service = network.listen(&address(81)).expect("nobody is there");
    let client = connect(81).expect("it begins");
    client.set_owner(current());
    let peer = service.accept().await;
    while !client.finish_connect().expect("it is answered") {
        wait(Tick::NEVER).await;
    }
    (client, peer)
}

fn connect(port: u16) -> Result<Descriptor, Errno> {
    Descriptor::connect(Descriptor::stream_socket(AddressFamily::Inet)?, &address(port))
}

async fn receive(descriptor: &Descriptor, space: &mut [u8]) -> Result<ReceiveResult, Errno> {
    loop {
        match descriptor.receive_into(space)? {
            ReceiveResult::Blocked => {}
            other => return Ok(other),
        }
        assert!(!descriptor.is_readable(), "what is blocked is not readable");
        wait(Tick::NEVER).await;
    }
}

async fn send(descriptor: &Descriptor, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match descriptor.send(bytes, false).expect("the connection lives") {
            SendResult::Bytes(count) => bytes = &bytes[count..],
            SendResult::Blocked => _ = wait(Tick::NEVER).await,
        }
    }
}

#[test]
fn simulated_bytes_keep_their_order_under_cuts_and_delays() {
    for seed in 0..50 {
        run(seed, rough(), |network| async move {
            let (client, server) = pair(&network).await;
            let bytes: Vec<u8> = (0..3_000_u32).map(|number| (number * 7 / 3) as u8).collect();
            let expected = bytes.clone();
            let main = current();
            spawn(&KIND, Class::Normal, async move {
                client.send(&bytes).await.expect("the connection lives");
                client.finish();
                let mut back = Vec::new();
                loop {
                    let some = client.receive(100).await.expect("the connection lives");
                    if some.is_empty() {
                        break;
                    }
                    back.extend(some);
                }
                assert_eq!(back, bytes);
                weir_sched::wake(main);
            });
            let mut came = Vec::new();
            let mut space = [0; 128];
            while let ReceiveResult::Bytes(count) =
                receive(&server, &mut space).await.expect("the connection lives")
            {
                came.extend_from_slice(&space[..count]);
            }
            assert!(server.peer_closed() && !server.is_hung_up());
            assert_eq!(came, expected);
            send(&server, &came).await;
            server.shutdown_write().expect("it was not said before");
            while network.held() > 1 && !server.is_hung_up() {
                wait(Tick::NEVER).await;
            }
        });
    }
}

#[test]
fn a_simulated_sender_blocks_while_the_window_is_full() {
    run(1, Conditions { window: 1000, ..Conditions::CALM }, |network| async move {
        let (client, server) = pair(&network).await;
        assert_eq!(server.send(&[7; 5000], false), Ok(SendResult::Bytes(1000)));
        assert_eq!((server.send(&[7; 5000], false), server.is_writable()), (Ok(SendResult::Blocked), false));
        assert_ne!(wait(now().after(60_000)).await, weir_sched::Wakeup::Event, "nothing was received");
        assert_eq!(client.receive(400).await.map(|bytes| bytes.len()), Ok(400));
        wait(now().after(1000)).await;
        assert!(!server.is_writable(), "little room is no news");
        assert_eq!(client.receive(600).await.map(|bytes| bytes.len()), Ok(600));
        wait(now().after(1000)).await;
        assert!(server.is_writable());
    });
}

#[test]
fn closing_with_unread_bytes_resets_the_connection() {
    run(1, Conditions::CALM, |network| async move {
        let (client, server) = pair(&network).await;
        client.send(b"unread").await.expect("the connection lives");
        server.clear_readable();
        wait(Tick::NEVER).await;
        drop(server);
        assert_eq!(client.receive(10).await, Err(Errno::CONNRESET));
        assert_eq!(client.send(b"more").await, Err(Errno::PIPE));
    });
}

#[test]
fn sending_to_a_closed_peer_causes_a_reset() {
    run(1, Conditions::CALM, |network| async move {
        let (server, client) = opposite_pair(&network).await;
        drop(client);
        let mut space = [0; 8];
        assert_eq!(receive(&server, &mut space).await, Ok(ReceiveResult::End));
        assert_eq!(server.send(b"late", false), Ok(SendResult::Bytes(4)));
        while !server.has_error() {
            wait(Tick::NEVER).await;
        }
        // It had closed its sending direction.
        assert_eq!(server.send(b"later", false), Err(Errno::PIPE));
        assert!(server.is_hung_up());
    });
}

#[test]
fn bytes_received_before_a_reset_remain_readable() {
    run(1, Conditions::CALM, |network| async move {
        let (server, client) = opposite_pair(&network).await;
        client.send(b"last words").await.expect("the connection lives");
        server.clear_readable();
        wait(Tick::NEVER).await;
        client.reset();
        while !server.has_error() {
            wait(Tick::NEVER).await;
        }
        let mut space = [0; 100];
        assert_eq!(server.receive_into(&mut space), Ok(ReceiveResult::Bytes(10)));
        assert_eq!(server.receive_into(&mut space), Err(Errno::CONNRESET));
        assert_eq!(server.receive_into(&mut space), Ok(ReceiveResult::End));
    });
}

#[test]
fn closing_a_no_linger_socket_resets_the_connection() {
    run(1, Conditions::CALM, |network| async move {
        let (server, client) = opposite_pair(&network).await;
        option::set_no_linger(&server).expect("it is a socket");
        drop(server);
        assert_eq!(client.receive(10).await, Err(Errno::CONNRESET));
    });
}

#[test]
fn a_simulated_connect_succeeds_is_refused_or_stays_unanswered() {
    run(1, Conditions::CALM, |network| async move {
        let refused = connect(82).expect("it begins");
        refused.set_owner(current());
        assert_eq!(refused.finish_connect(), Ok(false));
        wait(Tick::NEVER).await;
        assert_eq!(refused.finish_connect(), Err(Errno::CONNREFUSED));
        let silent = network.listen(&address(83)).expect("nobody is there");
        silent.answer(false);
        let waiting = connect(83).expect("it begins");
        waiting.set_owner(current());
        let began = now();
        wait(Tick::NEVER).await;
        assert_eq!(waiting.finish_connect(), Err(Errno::TIMEDOUT));
        assert!(now().since(began) > 120_000);
        assert_eq!(network.connect(&address(5), &address(84)).connected().await, Err(Errno::CONNREFUSED));
        let (_, client) = opposite_pair(&network).await;
        assert_eq!(client.connected().await, Ok(()));
    });
}

#[test]
fn a_vanished_peer_never_answers_again() {
    run(1, Conditions { window: 100, ..Conditions::CALM }, |network| async move {
        let (server, client) = opposite_pair(&network).await;
        client.vanish();
        assert_eq!(server.send(&[1; 200], false), Ok(SendResult::Bytes(100)));
        assert_ne!(wait(now().after(3_000_000)).await, weir_sched::Wakeup::Event);
        assert_eq!(server.send(&[1; 200], false), Ok(SendResult::Blocked));
    });
}

#[test]
fn an_unregistered_connection_is_closed_with_its_descriptor() {
    run(1, Conditions::CALM, |network| async move {
        let listener = Descriptor::register(network.listener(&address(80)).expect("nobody is there"));
        let listener = listener.expect("a place");
        listener.set_owner(current());
        assert!(listener.accept().expect("it listens").is_none());
        let client = network.connect(&address(1000), &address(80));
        wait(Tick::NEVER).await;
        let accepted = listener.accept().expect("it listens").expect("it is reported");
        assert_eq!(network.held(), 2);
        drop(accepted);
        assert_eq!(client.receive(10).await, Ok(Vec::new()));
        assert_eq!(network.held(), 1);
        drop(listener);
        assert_eq!(network.held(), 0);
        assert_eq!(network.connect(&address(1000), &address(80)).connected().await, Err(Errno::CONNREFUSED));
    });
}

#[test]
fn connect_and_accept_fail_without_free_descriptors() {
    run(1, Conditions { descriptors: 2, ..Conditions::CALM }, |network| async move {
        let service = network.listen(&address(81)).expect("nobody is there");
        let held = [connect(81).expect("the first"), connect(81).expect("the second")];
        assert_eq!(connect(81).err(), Some(Errno::MFILE));
        drop(held);
        let again = connect(81).expect("there is room again");
        again.set_owner(current());
        while !again.finish_connect().expect("it is answered") {
            wait(Tick::NEVER).await;
        }
        // A descriptor that is taken out stays open, and counts.
        let taken = again.into_fd();
        assert_eq!(network.held(), 1);
        let back = Descriptor::register(taken).expect("a place");
        back.set_owner(current());
        send(&back, b"x").await;
        let mut last = service.accept().await;
        // The two that were dropped before they were established come first.
        while last.receive(1).await != Ok(b"x".to_vec()) {
            last = service.accept().await;
        }
    });
}

#[test]
fn simulated_bytes_are_spliced_through_pipes() {
    for seed in 0..20 {
        // There is room for all of it, because the script receives nothing before it sent everything.
        run(seed, Conditions { window: 4000, ..rough() }, |network| async move {
            let (server, client) = opposite_pair(&network).await;
            let bytes: Vec<u8> = (0..2_000_u32).map(|number| (number * 11 / 7) as u8).collect();
            let expected = bytes.clone();
            spawn(&KIND, Class::Normal, async move {
                client.send(&bytes).await.expect("the connection lives");
                let mut back = Vec::new();
                while back.len() < bytes.len() {
                    back.extend(client.receive(1000).await.expect("the connection lives"));
                }
                assert_eq!(back, bytes);
            });
            let mut pipe = Pipe::new(4096).expect("a pipe");
            let mut moved = 0;
            while moved < expected.len() || pipe.held() > 0 {
                let received = server.splice_into(&mut pipe, 512).expect("the connection lives");
                if let ReceiveResult::Bytes(count) = received {
                    moved += count;
                }
                let held = pipe.held();
                if held > 0 {
                    server.splice_from(&mut pipe, false).expect("the connection lives");
                }
                if !matches!(received, ReceiveResult::Bytes(_)) && pipe.held() == held {
                    wait(Tick::NEVER).await;
                }
            }
            assert_eq!(server.peek(&mut [0]), Ok(ReceiveResult::Blocked));
        });
    }
}

#[test]
fn a_stuck_or_too_long_simulation_ends_with_its_reason() {
    let stuck = network::run(1, Conditions::CALM, |network| async move {
        let (_client, server) = pair(&network).await;
        receive(&server, &mut [0; 8]).await
    });
    assert_eq!(stuck.expect("a worker").outcome, Err(UnfinishedReason::Stuck));
    let long = network::run(1, Conditions { limit_ms: 5_000, ..Conditions::CALM }, |_| async {
        loop {
            wait(now().after(1)).await;
        }
    });
    let long = long.expect("a worker");
    assert_eq!((long.outcome, long.took_ms), (Err::<(), _>(UnfinishedReason::TooLong), 5_001));
}

/// D12: the same seed is the same run, for any descriptor numbers from the kernel.
#[test]
fn the_same_seed_gives_an_identical_network_simulation() {
    let digest = |seed| {
        let run = network::run(seed, rough(), |network| async move {
            let (client, server) = pair(&network).await;
            spawn(&KIND, Class::Normal, async move {
                let _ = client.send(&[5; 4000]).await;
            });
            let mut space = [0; 100];
            while let ReceiveResult::Bytes(_) =
                receive(&server, &mut space).await.expect("the connection lives")
            {}
        });
        run.expect("a worker").digest
    };
    let digests: Vec<u64> = (0..20).map(digest).collect();
    let _moved = std::os::unix::net::UnixStream::pair().expect("a pair");
    assert_eq!(digests, (0..20).map(digest).collect::<Vec<_>>());
    let mut different = digests.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), digests.len(), "and another seed is another run");
}
