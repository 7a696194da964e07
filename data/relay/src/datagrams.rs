//! Messages over datagram sockets, one each.

use weir_containers::Buffer;
use weir_net::AcceptorState;
use weir_sched::{Descriptor, Tick, sleep_until, wait, yield_now};
use weir_sys::{Errno, socket};

use crate::delivery::Sender;
use crate::{Relay, Relays};

/// Receives from `descriptor` until the process leaves; what has arrived by then is still delivered. One task reads a
/// socket, so messages of one sender leave in the order in which they came.
pub async fn receive_datagrams(relays: &'static Relays, relay: &'static Relay, descriptor: Descriptor) {
    descriptor.set_owner(weir_sched::current());
    loop {
        let halt = receive_some(relays, relay, &descriptor);
        if relays.state() == AcceptorState::Stopped && halt != Halt::Batch {
            // The next process has the socket too: closed here it stays open there, and so would its place in this poller.
            drop(descriptor.into_fd());
            return;
        }
        match halt {
            Halt::Batch => yield_now().await,
            Halt::Drained => _ = wait(Tick::NEVER).await,
            Halt::Trouble => sleep_until(weir_sched::now().after(RETRY_MS)).await,
        }
    }
}

/// Why receiving made a halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    /// Nothing waits.
    Drained,
    /// Others have their turn first.
    Batch,
    /// There is no memory, or something else that may pass.
    Trouble,
}

fn receive_some(relays: &Relays, relay: &Relay, descriptor: &Descriptor) -> Halt {
    // Held for this turn only: nothing of a datagram is left afterwards.
    let Ok(mut buffer) = Buffer::take() else { return Halt::Trouble };
    for _ in 0..BATCH {
        match socket::receive_from(descriptor, buffer.space()) {
            Ok((length, from)) => {
                buffer.fill(length);
                relay.deliver(relays, &buffer, Sender::of(&from));
                buffer.clear();
            }
            Err(Errno::AGAIN) => {
                descriptor.clear_readable();
                return Halt::Drained;
            }
            // The network reported something about an earlier datagram.
            Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(_) => return Halt::Trouble,
        }
    }
    Halt::Batch
}

/// How many datagrams are received in one turn.
const BATCH: usize = 64;
/// How long to wait when there is trouble.
const RETRY_MS: u64 = 10;
