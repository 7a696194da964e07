//! Waiting for descriptors: epoll, and an eventfd that wakes it.

use crate::{Errno, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, poll};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

pub use rustix::event::epoll::EventFlags as Readiness;

/// An epoll instance with a buffer for the events of one wait.
#[derive(Debug)]
pub struct Epoll {
    instance: OwnedFd,
    events: Box<[MaybeUninit<epoll::Event>]>,
}

impl Epoll {
    /// An instance that returns at most `most_events` per wait (`tune.maxpollevents`).
    pub fn new(most_events: usize) -> Result<Self> {
        let instance = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { instance, events: vec![MaybeUninit::uninit(); most_events.max(1)].into_boxed_slice() })
    }

    /// Watches `descriptor` for all events, edge-triggered, until it is closed. Events contain `token`.
    pub fn watch(&self, descriptor: impl AsFd, token: u64) -> Result<()> {
        epoll::add(&self.instance, descriptor, epoll::EventData::new_u64(token), EVERYTHING)
    }

    /// Watches a listening socket shared by several instances, edge-triggered. A connection wakes one waiting instance
    /// instead of all (`EPOLLEXCLUSIVE`).
    pub fn watch_shared(&self, descriptor: impl AsFd, token: u64) -> Result<()> {
        epoll::add(&self.instance, descriptor, epoll::EventData::new_u64(token), ONE_OF_SEVERAL)
    }

    /// Watches `descriptor` for reading, level-triggered. It is reported while it is readable.
    pub fn watch_level(&self, descriptor: impl AsFd, token: u64) -> Result<()> {
        epoll::add(&self.instance, descriptor, epoll::EventData::new_u64(token), Readiness::IN)
    }

    /// Stops watching `descriptor`.
    pub fn forget(&self, descriptor: impl AsFd) -> Result<()> {
        epoll::delete(&self.instance, descriptor)
    }

    /// Waits up to `timeout_ms` for events (`None`: without limit), and passes each with its token to `receive`.
    /// Returns their count, 0 if interrupted by a signal.
    pub fn wait(
        &mut self,
        timeout_ms: Option<u64>,
        mut receive: impl FnMut(u64, Readiness),
    ) -> Result<usize> {
        let timeout = timeout_ms.map(|timeout| Timespec {
            tv_sec: (timeout / 1000) as i64,
            tv_nsec: (timeout % 1000 * 1_000_000) as _,
        });
        let (events, _) = match epoll::wait(&self.instance, &mut self.events[..], timeout.as_ref()) {
            Ok(events) => events,
            Err(Errno::INTR) => return Ok(0),
            Err(error) => return Err(error),
        };
        for event in &*events {
            let (token, flags) = (event.data, event.flags);
            receive(token.u64(), flags);
        }
        Ok(events.len())
    }
}

/// An eventfd that makes a waiting epoll return.
#[derive(Debug)]
pub struct Wakener {
    counter: OwnedFd,
}

impl Wakener {
    /// A counter at zero.
    pub fn new() -> Result<Self> {
        let counter = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { counter })
    }

    /// Makes the counter readable. Callable from any thread.
    pub fn wake(&self) {
        // Fails only if the counter is at its maximum, and therefore readable.
        let _ = rustix::io::write(&self.counter, &1_u64.to_ne_bytes());
    }

    /// Resets the counter to zero.
    pub fn reset(&self) {
        // Fails only if the counter is already zero.
        let _ = rustix::io::read(&self.counter, &mut [0_u8; 8]);
    }
}

impl AsFd for Wakener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.counter.as_fd()
    }
}

const EVERYTHING: Readiness =
    Readiness::IN.union(Readiness::OUT).union(Readiness::RDHUP).union(Readiness::ET);

/// Waits up to `milliseconds` until a descriptor is writable. False on timeout. Only for threads that may block.
pub fn wait_writable(descriptor: impl AsFd, milliseconds: u32) -> Result<bool> {
    wait_for(descriptor, PollFlags::OUT, milliseconds)
}

/// Waits up to `milliseconds` until a descriptor is readable or its peer has closed. False on timeout. Only for threads that may block.
pub fn wait_readable(descriptor: impl AsFd, milliseconds: u32) -> Result<bool> {
    wait_for(descriptor, PollFlags::IN, milliseconds)
}

fn wait_for(descriptor: impl AsFd, event: PollFlags, milliseconds: u32) -> Result<bool> {
    let limit = Timespec {
        tv_sec: i64::from(milliseconds / 1000),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    };
    let ready = poll(&mut [PollFd::new(&descriptor, event)], Some(&limit))?;
    Ok(ready > 0)
}

/// The kernel rejects `RDHUP` together with `EXCLUSIVE`. It always reports `ERR` and `HUP`.
const ONE_OF_SEVERAL: Readiness = Readiness::IN.union(Readiness::ET).union(Readiness::EXCLUSIVE);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket;

    fn events(epoll: &mut Epoll) -> Vec<(u64, Readiness)> {
        let mut events = Vec::new();
        epoll.wait(Some(0), |token, readiness| events.push((token, readiness))).expect("waits");
        events
    }

    #[test]
    fn an_epoll_edge_is_reported_once() {
        let mut epoll = Epoll::new(8).expect("an instance");
        let (near, far) = socket::stream_pair().expect("a pair");
        epoll.watch(&near, 7).expect("new");
        assert_eq!(events(&mut epoll), [(7, Readiness::OUT)]);
        assert_eq!(events(&mut epoll), []);
        socket::send(&far, b"x", false).expect("room");
        assert_eq!(events(&mut epoll), [(7, Readiness::IN | Readiness::OUT)]);
        assert_eq!(events(&mut epoll), []);
        drop(far);
        assert!(events(&mut epoll)[0].1.contains(Readiness::RDHUP | Readiness::HUP));
        epoll.forget(&near).expect("watched");
    }

    #[test]
    fn a_new_connection_is_reported_to_one_of_several_epolls() {
        let listener = socket::stream(crate::AddressFamily::Inet).expect("a socket");
        socket::bind(&listener, &(std::net::Ipv4Addr::LOCALHOST, 0).into()).expect("any port is free");
        socket::listen(&listener, 8).expect("bound");
        let address = socket::local_address(&listener).expect("bound");
        let mut epolls = [Epoll::new(8).expect("an instance"), Epoll::new(8).expect("an instance")];
        for epoll in &epolls {
            epoll.watch_shared(&listener, 1).expect("new");
        }
        // No instance waits in this test, so the kernel may report to both; at least one report must come.
        let client = socket::stream(crate::AddressFamily::Inet).expect("a socket");
        socket::connect(&client, &address).expect("starts");
        let reported: usize = epolls.iter_mut().map(|epoll| events(epoll).len()).sum();
        assert!(reported >= 1);
    }

    #[test]
    fn a_wakener_wakes_epoll_until_it_is_reset() {
        let mut epoll = Epoll::new(8).expect("an instance");
        let wakener = Wakener::new().expect("a counter");
        epoll.watch_level(&wakener, 1).expect("new");
        wakener.wake();
        wakener.wake();
        assert_eq!(events(&mut epoll).len(), 1);
        assert_eq!(events(&mut epoll).len(), 1);
        wakener.reset();
        assert_eq!(events(&mut epoll), []);
    }
}
