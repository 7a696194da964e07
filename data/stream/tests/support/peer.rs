//! One end of a connection that the script plays: a client or a server.

use weir_net::{Connection, ReceiveOutcome, SendOutcome};
use weir_sched::{Descriptor, Tick, Wakeup, current, now, wait};
use weir_sys::{Address, Errno, option, socket};

use super::PATIENCE_MS;

/// A connection, and the bytes received on it so far.
pub(crate) struct Peer {
    connection: Connection,
    /// Timeout of each wait, in milliseconds.
    patience_ms: u64,
}

impl Peer {
    /// A peer over an open connection.
    pub(crate) fn new(descriptor: Descriptor) -> Peer {
        descriptor.set_owner(current());
        // Otherwise the kernel may delay a small piece in real time, and virtual time does not wait for that.
        option::set_no_delay(&descriptor, true).expect("a TCP socket");
        Peer { connection: Connection::new(descriptor), patience_ms: PATIENCE_MS }
    }

    /// Connects, without waiting until the far end accepts.
    pub(crate) fn connect(address: &Address) -> Peer {
        let socket = socket::stream(address.family()).expect("a socket");
        let descriptor = Descriptor::connect(socket, address).expect("the kernel connects");
        Peer::new(descriptor)
    }

    /// Waits until the kernel has connected.
    pub(crate) async fn connected(&mut self) {
        self.own();
        while !self.connection.descriptor().is_writable() {
            self.wait().await;
        }
    }

    /// The local address.
    pub(crate) fn address(&self) -> Address {
        socket::local_address(self.connection.descriptor()).expect("it is connected")
    }

    /// The address of the far end.
    pub(crate) fn peer_address(&self) -> Address {
        socket::peer_address(self.connection.descriptor()).expect("it is connected")
    }

    /// Makes the kernel's buffers small, so that the sender notices soon that the far end does not read.
    pub(crate) fn make_narrow(&self) {
        option::set_receive_buffer(self.connection.descriptor(), 4096).expect("a socket");
        option::set_send_buffer(self.connection.descriptor(), 4096).expect("a socket");
    }

    /// Sends all bytes.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> impl Future<Output = ()> + '_ {
        let bytes = bytes.as_ref().to_vec();
        async move { assert!(self.try_send(&bytes).await, "the connection broke") }
    }

    /// Sends all bytes. False if the connection breaks.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.own();
        let mut done = 0;
        while done < bytes.len() {
            match self.connection.send(&bytes[done..], false) {
                SendOutcome::All => return true,
                SendOutcome::Part(count) => done += count,
                SendOutcome::Failed(_) => return false,
            }
            if done < bytes.len() {
                self.wait().await;
            }
        }
        true
    }

    /// Sends as many bytes as fit now. Returns their number.
    pub(crate) fn send_some(&mut self, bytes: &[u8]) -> usize {
        self.try_some(bytes).expect("the connection lives")
    }

    /// Sends as many bytes as fit now. Returns their number, or `None` if the connection is broken.
    pub(crate) fn try_some(&mut self, bytes: &[u8]) -> Option<usize> {
        self.own();
        match self.connection.send(bytes, false) {
            SendOutcome::All => Some(bytes.len()),
            SendOutcome::Part(count) => Some(count),
            SendOutcome::Failed(_) => None,
        }
    }

    /// Reads exactly the expected bytes.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: impl AsRef<[u8]>) -> impl Future<Output = ()> + '_ {
        let expected = expected.as_ref().to_vec();
        let caller = std::panic::Location::caller();
        async move {
            let came = self.read(expected.len()).await;
            assert!(
                came == expected,
                "at {caller}:\n--- came\n{}\n--- instead of\n{}",
                beginning(&came),
                beginning(&expected)
            );
        }
    }

    /// Reads a head, up to its empty line.
    pub(crate) async fn head(&mut self) -> String {
        loop {
            let input = self.connection.input();
            if let Some(end) = input.windows(4).position(|part| part == b"\r\n\r\n") {
                let head = shown(&input[..end + 4]);
                self.connection.consume(end + 4);
                return head;
            }
            if !self.more().await {
                return format!("[closed]{}", shown(self.connection.input()));
            }
        }
    }

    /// Reads `length` bytes, or fewer if the connection ends.
    pub(crate) async fn read(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let taken = self.connection.input().len().min(length - bytes.len());
            bytes.extend_from_slice(&self.connection.input()[..taken]);
            self.connection.consume(taken);
            if bytes.len() == length || !self.more().await {
                return bytes;
            }
        }
    }

    /// Reads at most `most` of the bytes that are available now.
    pub(crate) async fn read_now(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let taken = self.connection.input().len().min(most - bytes.len());
            bytes.extend_from_slice(&self.connection.input()[..taken]);
            self.connection.consume(taken);
            self.own();
            if bytes.len() == most || !matches!(self.connection.receive_bulk(), ReceiveOutcome::Bytes(_)) {
                return bytes;
            }
        }
    }

    /// Reads until the far end closes.
    pub(crate) async fn rest(&mut self) -> String {
        shown(&self.rest_raw().await)
    }

    /// Reads until the far end closes.
    pub(crate) async fn rest_raw(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            bytes.extend_from_slice(self.connection.input());
            let length = self.connection.input().len();
            self.connection.consume(length);
            if !self.more().await {
                return bytes;
            }
        }
    }

    /// Waits until the far end closes. It must send nothing before.
    #[track_caller]
    pub(crate) fn closed(&mut self) -> impl Future<Output = ()> + '_ {
        let caller = std::panic::Location::caller();
        async move {
            let rest = self.rest().await;
            assert!(rest.is_empty(), "at {caller}: {rest} came before the end");
        }
    }

    /// Whether the far end reset the connection.
    pub(crate) fn was_reset(&self) -> bool {
        self.connection.fault() == Some(Errno::CONNRESET.into())
    }

    /// Whether nothing has arrived and the far end has not closed.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.connection.input().is_empty() && self.connection.receive(usize::MAX) == ReceiveOutcome::Nothing
    }

    /// Shuts down the sending side.
    pub(crate) fn finish(&mut self) {
        self.connection.shut_write();
    }

    /// Resets the connection.
    pub(crate) fn abort(self) {
        option::set_no_linger(self.connection.descriptor()).expect("a socket");
    }

    /// Reads one request without a body and answers it. False if the far end closed.
    pub(crate) async fn serve(&mut self, answer: &dyn Fn(&str) -> Vec<u8>) -> bool {
        self.patience_ms = u64::MAX;
        let head = self.head().await;
        !head.starts_with("[closed]") && self.try_send(&answer(&head)).await
    }

    /// Receives more. False if the far end closed.
    async fn more(&mut self) -> bool {
        self.own();
        loop {
            match self.connection.receive_bulk() {
                ReceiveOutcome::Bytes(_) => return true,
                ReceiveOutcome::Nothing => self.wait().await,
                ReceiveOutcome::End | ReceiveOutcome::Failed(_) => return false,
                ReceiveOutcome::Full => panic!("more came than a script holds"),
            }
        }
    }

    async fn wait(&self) {
        let deadline = match self.patience_ms {
            u64::MAX => Tick::NEVER,
            patience => now().after(patience),
        };
        assert_ne!(wait(deadline).await, Wakeup::Deadline, "the far end is silent");
    }

    fn own(&self) {
        self.connection.descriptor().set_owner(current());
    }
}

/// The first bytes, for a failure message.
fn beginning(bytes: &[u8]) -> String {
    match bytes.get(..SHOWN) {
        Some(part) => format!("{}... ({} bytes)", shown(part), bytes.len()),
        None => shown(bytes),
    }
}

const SHOWN: usize = 600;

/// Bytes as text.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
