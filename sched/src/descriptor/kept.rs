//! Disconnected sockets kept for the next connection, still registered and with their options set.
//!
//! ```text
//!   a connection that its owner is done with ── keep: reset ──► one of a few that are kept ── connect_kept ──► a connection
//! ```
//!
//! Short exchanges save the system calls to make, register and close a socket. A disconnected socket keeps its options, but
//! not its address, port and error.

use std::cell::RefCell;

use weir_sys::{Address, AddressFamily, Result, socket};

use super::{Descriptor, DescriptorTable, SIMULATED, WRITABLE, network};
use crate::key::TaskKey;
use crate::worker::Worker;

/// The kept sockets of one worker, by address family.
#[derive(Debug)]
pub(super) struct DescriptorCache([RefCell<Vec<Descriptor>>; 2]);

impl DescriptorCache {
    pub(super) const fn new() -> Self {
        DescriptorCache([RefCell::new(Vec::new()), RefCell::new(Vec::new())])
    }

    fn of(&self, family: AddressFamily) -> &RefCell<Vec<Descriptor>> {
        &self.0[usize::from(family == AddressFamily::Inet6)]
    }
}

impl Descriptor {
    /// Closes a TCP connection over IP with a reset. Keeps its socket for [`connect_kept`](Self::connect_kept), up to a limit.
    pub fn keep(self, family: AddressFamily) {
        let Some(worker) = Worker::try_current().filter(|worker| worker.descriptors.has(&self.entry.0))
        else {
            return;
        };
        let kept = worker.descriptors.kept.of(family);
        if self.entry.has(SIMULATED) || kept.borrow().len() >= MOST_KEPT || socket::disconnect(&self).is_err()
        {
            return;
        }
        // The poller reports the reset; no task needs that event.
        self.set_owner(TaskKey::NONE);
        kept.borrow_mut().push(self);
    }

    /// Starts to connect a kept socket. Returns it and whether the connection is already established. `None` without a
    /// kept socket. All kept sockets must have been created with the same options. The descriptor starts as unreadable.
    /// An event reports the first bytes.
    pub fn connect_kept(address: &Address) -> Option<Result<(Self, bool)>> {
        if network().is_some() {
            return None;
        }
        let descriptor = Worker::try_current()?.descriptors.kept.of(address.family()).borrow_mut().pop()?;
        let begun = descriptor.connect_anew(address);
        Some(begun.map(|stands| (descriptor, stands)))
    }

    fn connect_anew(&self, address: &Address) -> Result<bool> {
        // The known readiness belongs to the former connection. Later events of the poller set it anew.
        self.entry.0.known.set(0);
        let stands = socket::connect(self, address)? || socket::connect_again(self, address)?;
        if stands {
            self.entry.set(WRITABLE);
        }
        Ok(stands)
    }
}

impl DescriptorTable {
    /// Closes the kept sockets when the worker ends.
    pub(crate) fn close_kept(&self) {
        for kept in &self.kept.0 {
            // Dropping a kept socket frees its slot in the table.
            drop(kept.take());
        }
    }
}

/// Kept sockets per worker and address family. Covers some thousand exchanges per second of some milliseconds each.
const MOST_KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::fd::AsRawFd;

    use super::super::{ConnectStart, ReceiveResult, SendResult};
    use super::*;
    use crate::{current, now, wait};

    fn listen() -> (TcpListener, Address) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = Address::Inet(listener.local_addr().expect("bound"));
        (listener, address)
    }

    fn fresh(address: &Address) -> Descriptor {
        let socket = Descriptor::stream_socket(AddressFamily::Inet).expect("a socket");
        match Descriptor::connect_now(socket, address).expect("a listener") {
            ConnectStart::Stands(socket) => Descriptor::register(socket).expect("a place"),
            ConnectStart::Awaited(descriptor) => descriptor,
        }
    }

    /// Sends a question and receives its answer, with no try before the poller spoke.
    async fn exchange(descriptor: &Descriptor, question: &[u8]) -> Vec<u8> {
        descriptor.set_owner(current());
        assert_eq!(descriptor.send(question, false).expect("stands"), SendResult::Bytes(question.len()));
        descriptor.clear_readable();
        let mut answer = [0; 64];
        let deadline = now().after(5000);
        while !descriptor.is_readable() {
            assert!(now() < deadline, "no event for the answer");
            wait(deadline).await;
        }
        match descriptor.receive_into(&mut answer).expect("an answer") {
            ReceiveResult::Bytes(count) => answer[..count].to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Answers each connection's question with its number and the question, and closes it if its number is odd.
    fn serve(listener: TcpListener, count: usize) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for number in 0..count {
                let (mut connection, _) = listener.accept().expect("a connection");
                let mut question = [0; 64];
                let length = connection.read(&mut question).expect("a question");
                let answer = format!("{number} {}", String::from_utf8_lossy(&question[..length]));
                connection.write_all(answer.as_bytes()).expect("taken");
                if number % 2 == 0 {
                    open.push(connection);
                }
            }
        })
    }

    #[test]
    fn a_reused_socket_reports_the_events_of_each_connection() {
        let (listener, address) = listen();
        let server = serve(listener, 20);
        crate::run(async move {
            let first = fresh(&address);
            let number = first.descriptor.as_raw_fd();
            assert_eq!(exchange(&first, b"question 0").await, b"0 question 0");
            first.keep(AddressFamily::Inet);
            for turn in 1..20 {
                let (again, stands) =
                    Descriptor::connect_kept(&address).expect("one is kept").expect("a listener");
                assert!(stands, "the peer is on this machine");
                assert_eq!(again.descriptor.as_raw_fd(), number);
                assert!(!again.has_error() && !again.is_hung_up() && !again.peer_closed());
                let question = format!("question {turn}");
                let answer = exchange(&again, question.as_bytes()).await;
                assert_eq!(answer, format!("{turn} {question}").into_bytes());
                again.keep(AddressFamily::Inet);
            }
            assert!(
                Descriptor::connect_kept(&Address::Inet((std::net::Ipv6Addr::LOCALHOST, 1).into())).is_none()
            );
        })
        .expect("a worker");
        server.join().expect("it served all");
    }

    #[test]
    fn a_worker_keeps_few_sockets_and_closes_them_when_it_ends() {
        let (listener, address) = listen();
        let again = address.clone();
        crate::run(async move {
            let many: Vec<_> = (0..MOST_KEPT + 3).map(|_| fresh(&address)).collect();
            many.into_iter().for_each(|descriptor| descriptor.keep(AddressFamily::Inet));
            let kept = || Worker::current().descriptors.kept.of(AddressFamily::Inet).borrow().len();
            assert_eq!(kept(), MOST_KEPT);
            drop(listener);
            let refused = Descriptor::connect_kept(&address).expect("one is kept");
            assert!(refused.is_err(), "nobody listens any more");
            assert_eq!(kept(), MOST_KEPT - 1);
        })
        .expect("a worker");
        crate::run(async move { assert!(Descriptor::connect_kept(&again).is_none()) }).expect("another");
    }
}
