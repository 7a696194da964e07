//! Descriptors: readiness, owners, and moving between workers.

use std::net::Ipv4Addr;
use weir_containers::Buffer;
use weir_sched::{
    Class, Descriptor, ReceiveResult, Runtime, RuntimeSettings, SendResult, Tick, Wakeup, WorkKind, current,
    now, simulate, spawn, wait, yield_now,
};
use weir_sys::splice::Pipe;
use weir_sys::{Address, AddressFamily, Errno, option, socket};

static KIND: WorkKind = WorkKind::new("test");

fn run<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    simulate::run(1, future).expect("a worker").expect("an end")
}

fn pair() -> (Descriptor, Descriptor) {
    let (near, far) = socket::stream_pair().expect("a pair");
    (Descriptor::register(near).expect("registers"), Descriptor::register(far).expect("registers"))
}

fn buffer() -> Buffer {
    Buffer::take().expect("no limit is set")
}

#[test]
fn splicing_reports_a_full_pipe_only_if_it_has_bytes() {
    run(async {
        let (near, far) = pair();
        let mut pipe = Pipe::new(4096).expect("a pipe");
        assert_eq!(near.splice_into(&mut pipe, 100), Ok(ReceiveResult::Blocked));
        assert!(!near.is_readable());
        assert_eq!(far.send(b"hello", false), Ok(SendResult::Bytes(5)));
        assert_eq!(near.splice_into(&mut pipe, 100), Ok(ReceiveResult::Bytes(5)));
        assert_eq!(near.splice_into(&mut pipe, 100), Ok(ReceiveResult::Full));
    });
}

#[test]
fn received_bytes_wake_the_descriptor_owner() {
    run(async {
        let (near, far) = pair();
        near.set_owner(current());
        let mut received = buffer();
        assert_eq!(near.receive(&mut received), Ok(ReceiveResult::Blocked));
        assert!(!near.is_readable() && near.is_writable());
        spawn(&KIND, Class::Normal, async move {
            assert_eq!(far.send(b"hello", false), Ok(SendResult::Bytes(5)));
            wait(Tick::NEVER).await;
        });
        assert_eq!(wait(now().after(1000)).await, Wakeup::Event);
        assert!(near.is_readable());
        assert_eq!(near.receive(&mut received), Ok(ReceiveResult::Bytes(5)));
        assert_eq!(&received[..], b"hello");
        assert!(!near.is_readable(), "a short receive drained the socket");
    });
}

#[test]
fn known_readiness_does_not_wake_the_descriptor_owner_again() {
    run(async {
        let (near, far) = pair();
        near.set_owner(current());
        // A fresh descriptor counts as ready for everything, so its first events add nothing.
        far.send(b"x", false).expect("room");
        assert_eq!(wait(now().after(10)).await, Wakeup::Deadline);
        assert_eq!(near.receive(&mut buffer()), Ok(ReceiveResult::Bytes(1)));
        far.send(b"x", false).expect("room");
        assert_eq!(wait(now().after(10)).await, Wakeup::Event);
        // Unread bytes are known: more of them change nothing.
        far.send(b"x", false).expect("room");
        assert_eq!(wait(now().after(10)).await, Wakeup::Deadline);
    });
}

#[test]
fn eof_is_reported_after_the_last_bytes() {
    run(async {
        let (near, far) = pair();
        near.set_owner(current());
        assert_eq!(near.receive(&mut buffer()), Ok(ReceiveResult::Blocked));
        far.send(b"last", false).expect("room");
        drop(far);
        assert_eq!(wait(now().after(10)).await, Wakeup::Event);
        assert!(near.peer_closed());
        assert_eq!(near.receive(&mut buffer()), Ok(ReceiveResult::Bytes(4)));
        assert!(near.is_readable(), "a short receive is not the end when the end was announced");
        assert_eq!(near.receive(&mut buffer()), Ok(ReceiveResult::End));
    });
}

/// A complete send leaves the descriptor writable: no event would come to make it so.
#[test]
fn a_complete_send_leaves_the_descriptor_writable() {
    run(async {
        let (near, _far) = pair();
        assert_eq!((near.send(b"abc", true), near.is_writable()), (Ok(SendResult::Bytes(3)), true));
    });
}

#[test]
fn a_full_socket_blocks_until_it_is_read() {
    run(async {
        let (near, far) = pair();
        near.set_owner(current());
        let bytes = vec![0; 1 << 16];
        let mut sent = 0;
        // Bytes that the kernel still moves to the far end make room again: it is full when no event comes any more.
        loop {
            while let SendResult::Bytes(count) = near.send(&bytes, true).expect("the pair lives") {
                sent += count;
            }
            assert!(!near.is_writable());
            if wait(now().after(10)).await == Wakeup::Deadline {
                break;
            }
        }
        let mut space = vec![0; 1 << 16];
        while sent > 0 {
            match far.receive_into(&mut space).expect("the pair lives") {
                ReceiveResult::Bytes(count) => sent -= count,
                other => panic!("{other:?} with {sent} bytes left"),
            }
        }
        assert_eq!(wait(now().after(10)).await, Wakeup::Event);
        assert!(near.is_writable());
    });
}

#[test]
fn receive_distinguishes_a_full_buffer_from_eof() {
    run(async {
        let (near, far) = pair();
        far.send(b"abcdef", false).expect("room");
        let mut small = Buffer::with_capacity(4);
        assert_eq!(near.receive(&mut small), Ok(ReceiveResult::Bytes(4)));
        assert_eq!(near.receive(&mut small), Ok(ReceiveResult::Full));
        assert!(near.is_readable());
    });
}

#[test]
fn events_of_a_closed_descriptor_do_not_reach_its_successor() {
    run(async {
        let (near, far) = pair();
        assert_eq!(near.receive(&mut buffer()), Ok(ReceiveResult::Blocked));
        far.send(b"x", false).expect("room");
        // The event waits in the poller while the slot gets a new descriptor; a duplicate keeps the old one open.
        let duplicate = weir_sys::process::duplicate(&near).expect("a duplicate");
        drop(near);
        let (again, _far) = pair();
        again.set_owner(current());
        assert_eq!(again.receive(&mut buffer()), Ok(ReceiveResult::Blocked));
        assert_eq!(wait(now().after(10)).await, Wakeup::Deadline);
        assert!(!again.is_readable());
        drop(duplicate);
    });
}

#[test]
fn a_descriptor_connects_or_reports_econnrefused() {
    run(async {
        let listening = socket::stream(AddressFamily::Inet).expect("a socket");
        socket::bind(&listening, &Address::from((Ipv4Addr::LOCALHOST, 0))).expect("any port");
        socket::listen(&listening, 8).expect("bound");
        let address = socket::local_address(&listening).expect("bound");
        let listener = Descriptor::register(listening).expect("registers");
        listener.set_owner(current());
        assert!(listener.accept().expect("listens").is_none());

        let connect =
            || Descriptor::connect(socket::stream(AddressFamily::Inet).expect("a socket"), &address);
        let client = connect().expect("starts");
        client.set_owner(current());
        let (accepted, peer) = loop {
            match listener.accept().expect("listens") {
                Some(accepted) => break accepted,
                None => assert_eq!(wait(now().after(1000)).await, Wakeup::Event),
            }
        };
        assert_eq!(socket::local_address(&client), Ok(peer));
        while !client.finish_connect().expect("accepted") {
            assert_eq!(wait(now().after(1000)).await, Wakeup::Event);
        }
        option::set_no_delay(&accepted, true).expect("TCP");

        drop(listener.into_fd());
        let refused = connect().expect("starts");
        refused.set_owner(current());
        let result = loop {
            match refused.finish_connect() {
                Ok(false) => assert_eq!(wait(now().after(1000)).await, Wakeup::Event),
                result => break result,
            }
        };
        assert_eq!(result, Err(Errno::CONNREFUSED));
    });
}

#[test]
fn a_descriptor_and_its_events_move_to_another_worker() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let settings = RuntimeSettings { threads: 2, ..RuntimeSettings::default() };
    let runtime = Runtime::start(&settings, move |index| {
        if index != 0 {
            return;
        }
        let sender = sender.clone();
        spawn(&KIND, Class::Normal, async move {
            let (near, far) = pair();
            near.set_owner(current());
            assert_eq!(near.receive(&mut buffer()), Ok(ReceiveResult::Blocked));
            let moved = near.into_fd();
            let elsewhere = move || {
                let near = Descriptor::register(moved).expect("registers");
                spawn(&KIND, Class::Normal, async move {
                    near.set_owner(current());
                    let mut received = buffer();
                    while near.receive(&mut received) == Ok(ReceiveResult::Blocked) {
                        wait(Tick::NEVER).await;
                    }
                    sender.send((weir_sched::worker_index(), received.to_vec())).expect("the test listens");
                });
            };
            weir_sched::send_to(1, elsewhere).expect("the worker lives");
            yield_now().await;
            far.send(b"followed", false).expect("room");
            wait(Tick::NEVER).await;
        });
    })
    .expect("two threads");
    assert_eq!(receiver.recv(), Ok((1, b"followed".to_vec())));
    runtime.stop();
    assert_eq!(runtime.join(), Ok(()));
}
