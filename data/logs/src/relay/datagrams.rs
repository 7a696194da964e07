//! Messages over datagram sockets, one each.

use std::sync::Arc;

use weir_containers::Buffer;
use weir_net::AcceptorState;
use weir_sched::{Descriptor, Tick, sleep_until, wait, yield_now};
use weir_sys::{Errno, socket};

use super::delivery::Sender;
use super::{Relay, Relays};

/// Receives from `descriptor` until the process stops, including datagrams that have arrived by then. One task reads a
/// socket, so messages of one sender keep their order.
pub async fn receive_datagrams(relays: Arc<Relays>, relay: Arc<Relay>, descriptor: Descriptor) {
    descriptor.set_owner(weir_sched::current());
    loop {
        let halt = receive_some(&relays, &relay, &descriptor);
        if relays.state() == AcceptorState::Stopped && halt != ReceiveHalt::Batch {
            // The next process has the socket too: it stays open there when it is closed here, and so would its
            // registration in this poller.
            drop(descriptor.into_fd());
            return;
        }
        match halt {
            ReceiveHalt::Batch => yield_now().await,
            ReceiveHalt::Drained => _ = wait(Tick::NEVER).await,
            ReceiveHalt::Trouble => sleep_until(weir_sched::now().after(RETRY_MS)).await,
        }
    }
}

/// Why receiving stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveHalt {
    Drained,
    /// Other tasks run first.
    Batch,
    /// A temporary error, such as a lack of memory.
    Trouble,
}

fn receive_some(relays: &Relays, relay: &Relay, descriptor: &Descriptor) -> ReceiveHalt {
    // The buffer is held for this turn only: no datagram is kept longer.
    let Ok(mut buffer) = Buffer::take() else { return ReceiveHalt::Trouble };
    for _ in 0..BATCH {
        match socket::receive_from(descriptor, buffer.space()) {
            Ok((length, from)) => {
                buffer.fill(length);
                relay.deliver(relays, &buffer, Sender::of(&from));
                buffer.clear();
            }
            Err(Errno::AGAIN) => {
                descriptor.clear_readable();
                return ReceiveHalt::Drained;
            }
            // The network reported something about an earlier datagram.
            Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(_) => return ReceiveHalt::Trouble,
        }
    }
    ReceiveHalt::Batch
}

/// How many datagrams are received in one turn.
const BATCH: usize = 64;
/// How long to wait after an error.
const RETRY_MS: u64 = 10;
