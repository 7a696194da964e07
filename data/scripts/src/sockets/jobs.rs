//! The waits for sockets.

use std::sync::Arc;
use std::time::Duration;

use weir_lua::{LuaStack, Misuse};
use weir_net::{Connection, ReceiveOutcome, SendOutcome, shortage};
use weir_sched::Tick;
use weir_sys::Address;
use weir_tls::LiveUpstream;

use super::{ScriptSocket, SocketNumber, SocketUse};
use crate::wait::{ScriptJob, after};

/// The state of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    Waits,
    /// There is more to do, after other tasks.
    Again,
    Done,
    /// The socket was closed, its connection failed, or its time is over.
    Over,
    TooLarge,
    /// The memory of the process is short.
    NoMemory,
}

/// The end of a wait without progress.
#[derive(Debug)]
struct IdleDeadline {
    timeout: Option<Duration>,
    at: Tick,
}

impl IdleDeadline {
    fn new(timeout: Option<Duration>) -> Self {
        IdleDeadline { timeout, at: timeout.map_or(Tick::NEVER, after) }
    }

    /// When to go on after an attempt. `None` if the wait has ended, also by the deadline.
    fn next(&mut self, state: &mut JobState, progressed: bool) -> Option<Tick> {
        if progressed {
            *self = IdleDeadline::new(self.timeout);
        }
        match *state {
            JobState::Waits if self.at <= weir_sched::now() => *state = JobState::Over,
            JobState::Waits => {}
            JobState::Again => weir_sched::wake(weir_sched::current()),
            JobState::Done | JobState::Over | JobState::TooLarge | JobState::NoMemory => {}
        }
        matches!(state, JobState::Waits | JobState::Again).then_some(self.at)
    }
}

/// `connect`, `connect_ssl`.
pub(crate) struct ConnectJob {
    usage: SocketUse,
    /// The address, until the attempt began.
    address: Option<Address>,
    tls: Option<Arc<LiveUpstream>>,
    deadline: Tick,
    is_connected: bool,
}

impl ConnectJob {
    pub(crate) fn new(number: SocketNumber, address: Address, tls: Option<Arc<LiveUpstream>>) -> Self {
        let (usage, address) = (SocketUse::new(number), Some(address));
        ConnectJob { usage, address, tls, deadline: Tick::NEVER, is_connected: false }
    }
}

impl ScriptJob for ConnectJob {
    fn advance(&mut self) -> Option<Tick> {
        let address = self.address.take();
        if address.is_some() {
            self.deadline = after(CONNECT_TIME);
        }
        let (tls, deadline) = (&self.tls, self.deadline);
        let advanced = self.usage.attempt(|socket| {
            if let Some(address) = address {
                socket.begin(address, tls.as_ref());
            }
            let advanced = socket.advance();
            if advanced.is_none() && deadline <= weir_sched::now() {
                socket.fail();
                return Some(false);
            }
            advanced
        });
        match advanced {
            Some(None) => return Some(deadline),
            Some(Some(is_connected)) => self.is_connected = is_connected,
            None => {}
        }
        None
    }

    fn finish(self: Box<Self>, stack: &LuaStack<'_>) -> Result<(), Misuse> {
        if self.is_connected {
            stack.push_integer(1);
        } else {
            stack.push_nil();
            stack.push_bytes(b"Can't connect");
        }
        Ok(())
    }
}

impl Drop for ConnectJob {
    fn drop(&mut self) {
        // Nothing else goes on with an attempt.
        if !self.is_connected && self.address.is_none() {
            let _ = super::with(self.usage.number, ScriptSocket::fail);
        }
    }
}

/// How much `receive` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivePattern {
    /// A line. Its end is dropped.
    Line,
    /// So many bytes.
    Exactly(usize),
    /// Everything up to the end.
    All,
}

/// `receive`.
pub(crate) struct ReceiveJob {
    usage: SocketUse,
    gathered: GatheredBytes,
    prefix: Vec<u8>,
    deadline: Option<IdleDeadline>,
    state: JobState,
}

/// The number of bytes taken, and whether the pattern is complete; or the end of the wait.
type TakenBytes = Result<(usize, bool), JobState>;

/// The bytes of a `receive` so far.
#[derive(Debug)]
struct GatheredBytes {
    pattern: ReceivePattern,
    bytes: Vec<u8>,
    limit: usize,
}

impl GatheredBytes {
    /// Takes bytes of the input. Returns their number, and whether the pattern is complete.
    ///
    /// # Errors
    /// There are too many, or no room for them.
    fn take(&mut self, input: &[u8]) -> TakenBytes {
        let (kept, dropped, is_complete) = match self.pattern {
            ReceivePattern::Line => match input.iter().position(|byte| *byte == b'\n') {
                Some(position) => (position, 1, true),
                None => (input.len(), 0, false),
            },
            ReceivePattern::Exactly(count) => {
                let kept = input.len().min(count - self.bytes.len());
                (kept, 0, self.bytes.len() + kept == count)
            }
            ReceivePattern::All => (input.len(), 0, false),
        };
        if self.bytes.len() + kept > self.limit {
            return Err(JobState::TooLarge);
        }
        if !shortage::make_room(&mut self.bytes, kept) {
            return Err(JobState::NoMemory);
        }
        self.bytes.extend_from_slice(&input[..kept]);
        if is_complete && self.pattern == ReceivePattern::Line {
            self.bytes.pop_if(|byte| *byte == b'\r');
        }
        Ok((kept + dropped, is_complete))
    }

    /// Receives what there is.
    fn receive(&mut self, connection: &mut Connection) -> JobState {
        for _ in 0..ROUNDS {
            if !connection.input().is_empty() {
                let (taken, is_complete) = match self.take(connection.input()) {
                    Ok(taken) => taken,
                    Err(refused) => return refused,
                };
                connection.consume(taken);
                if is_complete {
                    // The rest may stay for long.
                    connection.shrink_input();
                    return JobState::Done;
                }
            }
            match connection.receive(usize::MAX) {
                ReceiveOutcome::Bytes(_) => {}
                ReceiveOutcome::Nothing => return JobState::Waits,
                ReceiveOutcome::End | ReceiveOutcome::Full | ReceiveOutcome::Failed(_) => {
                    return JobState::Over;
                }
            }
        }
        JobState::Again
    }
}

impl ReceiveJob {
    /// `limit`: the most bytes.
    pub(crate) fn new(number: SocketNumber, pattern: ReceivePattern, prefix: Vec<u8>, limit: usize) -> Self {
        let gathered = GatheredBytes { pattern, bytes: Vec::new(), limit };
        ReceiveJob { usage: SocketUse::new(number), gathered, prefix, deadline: None, state: JobState::Waits }
    }
}

impl ScriptJob for ReceiveJob {
    fn advance(&mut self) -> Option<Tick> {
        let before = self.gathered.bytes.len();
        let (gathered, deadline) = (&mut self.gathered, &mut self.deadline);
        let received = self.usage.attempt(|socket| {
            deadline.get_or_insert_with(|| IdleDeadline::new(socket.timeout));
            socket.connection().map(|connection| gathered.receive(connection))
        });
        self.state = received.flatten().unwrap_or(JobState::Over);
        let progressed = self.gathered.bytes.len() > before;
        self.deadline.as_mut()?.next(&mut self.state, progressed)
    }

    fn finish(self: Box<Self>, stack: &LuaStack<'_>) -> Result<(), Misuse> {
        let GatheredBytes { bytes, limit, .. } = &self.gathered;
        match self.state {
            JobState::TooLarge => {
                return Err(Misuse::text(format!("receive: more than {limit} bytes")));
            }
            JobState::NoMemory => return Err(Misuse::text("not enough memory")),
            // A part counts like the whole, as in HAProxy.
            JobState::Over if bytes.is_empty() => {
                stack.push_nil();
                stack.push_bytes(CLOSED);
            }
            _ if self.prefix.is_empty() => stack.push_bytes(bytes),
            _ => stack.push_bytes(&[&self.prefix[..], bytes].concat()),
        }
        Ok(())
    }
}

/// `send`.
pub(crate) struct SendJob {
    usage: SocketUse,
    bytes: Vec<u8>,
    sent: usize,
    deadline: Option<IdleDeadline>,
    state: JobState,
}

impl SendJob {
    pub(crate) fn new(number: SocketNumber, bytes: Vec<u8>) -> Self {
        SendJob { usage: SocketUse::new(number), bytes, sent: 0, deadline: None, state: JobState::Waits }
    }
}

/// Sends the next bytes. Returns their number.
fn send(connection: &mut Connection, bytes: &[u8]) -> (usize, JobState) {
    let piece = &bytes[..bytes.len().min(SEND_PIECE)];
    let sent = match connection.send(piece, false) {
        SendOutcome::All => piece.len(),
        SendOutcome::Part(count) => count,
        SendOutcome::Failed(_) => return (0, JobState::Over),
    };
    let state = match sent == piece.len() {
        true if sent < bytes.len() => JobState::Again,
        true if !connection.has_pending() => JobState::Done,
        _ => JobState::Waits,
    };
    (sent, state)
}

impl ScriptJob for SendJob {
    fn advance(&mut self) -> Option<Tick> {
        let (bytes, deadline) = (&self.bytes[self.sent..], &mut self.deadline);
        let sent = self.usage.attempt(|socket| {
            deadline.get_or_insert_with(|| IdleDeadline::new(socket.timeout));
            socket.connection().map(|connection| send(connection, bytes))
        });
        let (sent, state) = sent.flatten().unwrap_or((0, JobState::Over));
        self.sent += sent;
        self.state = state;
        self.deadline.as_mut()?.next(&mut self.state, sent > 0)
    }

    fn finish(self: Box<Self>, stack: &LuaStack<'_>) -> Result<(), Misuse> {
        stack.push_integer(if self.state == JobState::Done { self.sent as i64 } else { -1 });
        Ok(())
    }
}

/// The result of a socket that is closed.
pub(crate) const CLOSED: &[u8] = b"connection closed.";
/// How long connecting may take, with its handshake.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// After so many receives, other tasks run.
const ROUNDS: u32 = 8;
/// After so many bytes were sent, other tasks run.
const SEND_PIECE: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(pattern: ReceivePattern, pieces: &[&str]) -> (String, Vec<TakenBytes>) {
        let mut gathered = GatheredBytes { pattern, bytes: Vec::new(), limit: 10 };
        let taken = pieces.iter().map(|piece| gathered.take(piece.as_bytes())).collect();
        (String::from_utf8(gathered.bytes).expect("ASCII"), taken)
    }

    #[test]
    fn a_line_loses_its_end_also_in_pieces() {
        let line = |pieces| gather(ReceivePattern::Line, pieces);
        assert_eq!(line(&["one\r\ntwo"]), ("one".into(), vec![Ok((5, true))]));
        assert_eq!(line(&["a\r", "\nb"]), ("a".into(), vec![Ok((2, false)), Ok((1, true))]));
        assert_eq!(line(&["a\r\r\n"]), ("a\r".into(), vec![Ok((4, true))]));
        assert_eq!(line(&["\n"]), (String::new(), vec![Ok((1, true))]));
    }

    #[test]
    fn a_size_takes_so_many_bytes() {
        let taken = gather(ReceivePattern::Exactly(5), &["abc", "defg"]);
        assert_eq!(taken, ("abcde".into(), vec![Ok((3, false)), Ok((2, true))]));
    }

    #[test]
    fn the_gathered_bytes_are_bounded() {
        for pattern in [ReceivePattern::Line, ReceivePattern::All, ReceivePattern::Exactly(100)] {
            assert_eq!(
                gather(pattern, &["abcdef", "ghijkl"]).1,
                [Ok((6, false)), Err(JobState::TooLarge)],
                "{pattern:?}"
            );
        }
    }
}
