//! Messages over datagram sockets, one per datagram.

use std::sync::Arc;

use weir_containers::Buffer;
use weir_net::AcceptorState;
use weir_sched::{Descriptor, Tick, sleep_until, wait, yield_now};
use weir_sys::{Errno, socket};

use super::delivery::Sender;
use super::{Relay, Relays};

/// Receives from `descriptor` until the process stops, including datagrams received before then. A socket has a single reading
/// task, so messages of one sender keep their order.
pub async fn receive_datagrams(relays: Arc<Relays>, relay: Arc<Relay>, descriptor: Descriptor) {
    descriptor.set_owner(weir_sched::current());
    loop {
        let halt = receive_some(&relays, &relay, &descriptor);
        if relays.state() == AcceptorState::Stopped && halt != ReceiveHalt::Batch {
            // The next process shares the socket. Closing it here would not remove it from this poller, so it is unregistered
            // first.
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
    // The buffer is held only until this function returns.
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

/// The limit of datagrams received before other tasks run.
const BATCH: usize = 64;
/// The pause after an error, in milliseconds.
const RETRY_MS: u64 = 10;
