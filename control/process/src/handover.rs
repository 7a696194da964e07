//! Passes listening sockets between processes, in the format of HAProxy's runtime API.
//!
//! ```text
//!   requests                               gives
//!    │ ── "_getsocks\n" ───────────────────► │
//!    │ ◄──────────── how many, a C integer ── │
//!    │ ◄── records, and as many descriptors ─ │   at most 252 at a time
//!    │ ── how many came before, likewise ───► │   then the next ones
//!    │ ◄─────────────────────────────── "\n" ─ │
//! ```
//!
//! A record contains the length and name of the network namespace, the length and name of the interface, and a C integer of
//! options. The options are 0 here, because the receiver reads each socket's options from the kernel.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use weir_net::{Connection, HandedOver, ReceiveOutcome};
use weir_sched::{Tick, wait};
use weir_sys::{Errno, pass, socket};

use crate::listening::ListeningSockets;

/// The process from which to fetch listening sockets.
#[derive(Debug)]
pub enum Giver<'g> {
    /// A process with the runtime API at this path (`-x`).
    Path(&'g Path),
    /// A worker, over the socket pair that it shares with its master.
    Channel(&'g OwnedFd),
}

/// Fetches the listening sockets of a process. The error is a message for operators.
pub fn take(giver: &Giver<'_>) -> Result<Vec<HandedOver>, String> {
    try_take(giver).map_err(|error| {
        let text = weir_sys::error_text(error);
        match giver {
            Giver::Path(path) => {
                format!("Failed to get the sockets from the old process at {}: {text}", path.display())
            }
            Giver::Channel(_) => format!("Failed to get the sockets from the old worker: {text}"),
        }
    })
}

fn try_take(giver: &Giver<'_>) -> io::Result<Vec<HandedOver>> {
    let mut stream = match giver {
        Giver::Path(path) => UnixStream::connect(path)?,
        Giver::Channel(channel) => knock(channel)?,
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"_getsocks\n")?;
    let mut number = [0; 4];
    stream.read_exact(&mut number)?;
    let total = i32::from_ne_bytes(number);
    let total = usize::try_from(total).ok().filter(|&total| total <= MOST_SOCKETS).ok_or_else(refused)?;
    let (mut sockets, mut received) = (Vec::new(), 0);
    let mut space = vec![0; pass::MOST_DESCRIPTORS * LONGEST_RECORD];
    while received < total {
        let (length, descriptors) = pass::receive_descriptors(&stream, &mut space)?;
        if descriptors.is_empty() {
            return Err(refused());
        }
        let before = received as i32;
        received += descriptors.len();
        let mut records = &space[..length];
        for descriptor in descriptors {
            let interface = record(&mut records).ok_or_else(refused)?;
            // Sockets no longer in the listening state are dropped.
            sockets.extend(HandedOver::new(descriptor, interface));
        }
        // The other side reads this only before a further batch.
        let _ = stream.write_all(&before.to_ne_bytes());
    }
    Ok(sockets)
}

/// Opens a connection over a socket pair, by passing one end of a new pair through it.
pub fn knock(channel: &OwnedFd) -> io::Result<UnixStream> {
    let (near, far) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    pass::send_descriptors(channel, b"c", &[far.as_fd()])?;
    Ok(near)
}

/// Parses the interface of the next record.
fn record(records: &mut &[u8]) -> Option<Option<Box<str>>> {
    let mut name = || {
        let (&length, rest) = records.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(length))?;
        *records = rest;
        std::str::from_utf8(name).ok()
    };
    // The namespace is ignored: weir does not create sockets in other namespaces.
    let _namespace = name()?;
    let interface = name()?;
    let interface = (!interface.is_empty()).then(|| interface.into());
    *records = records.get(4..)?;
    Some(interface)
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it did not answer with sockets")
}

/// Passes all listening sockets to a client of the runtime API. `None` if the client disconnected or did not read in time.
pub async fn give(listening: &ListeningSockets, client: &mut Connection) -> Option<()> {
    let mut sockets = listening.all().ok()?;
    sockets.truncate(MOST_SOCKETS);
    let deadline = weir_sched::now().after(PATIENCE.as_millis() as u64);
    let total = i32::try_from(sockets.len()).ok()?;
    pass_on(client, &total.to_ne_bytes(), &[], deadline).await?;
    let mut batches = sockets.chunks(BATCH).peekable();
    while let Some(batch) = batches.next() {
        let mut records = Vec::new();
        for (_, interface) in batch {
            let interface = interface.as_deref().unwrap_or_default().as_bytes();
            records.extend_from_slice(&[0, interface.len() as u8]);
            records.extend_from_slice(interface);
            records.extend_from_slice(&0_i32.to_ne_bytes());
        }
        let descriptors: Vec<_> = batch.iter().map(|(socket, _)| socket.as_fd()).collect();
        pass_on(client, &records, &descriptors, deadline).await?;
        if batches.peek().is_some() {
            acknowledgement(client, deadline).await?;
        }
    }
    Some(())
}

async fn pass_on(
    client: &Connection,
    mut bytes: &[u8],
    mut descriptors: &[std::os::fd::BorrowedFd<'_>],
    deadline: Tick,
) -> Option<()> {
    while !bytes.is_empty() {
        let sent = match descriptors {
            [] => socket::send(client.descriptor(), bytes, false),
            some => pass::send_descriptors(client.descriptor(), bytes, some),
        };
        match sent {
            Ok(count) => (bytes, descriptors) = (&bytes[count..], &[]),
            Err(Errno::AGAIN) if weir_sched::now() < deadline => {
                client.descriptor().clear_writable();
                wait(deadline).await;
            }
            Err(_) => return None,
        }
    }
    Some(())
}

/// Waits until the client has acknowledged a batch. `None` on failure or at the deadline.
async fn acknowledgement(client: &mut Connection, deadline: Tick) -> Option<()> {
    while client.input().len() < 4 {
        match client.receive(4) {
            ReceiveOutcome::Bytes(_) => {}
            ReceiveOutcome::Nothing if weir_sched::now() < deadline => {
                wait(deadline).await;
            }
            _ => return None,
        }
    }
    client.consume(4);
    Some(())
}

/// Time limit for the other process's replies.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of sockets per message, as in HAProxy.
const BATCH: usize = 252;
/// Maximum size of a record, in bytes: the names of namespace and interface, their lengths, and the options.
const LONGEST_RECORD: usize = 2 * 256 + 4;
/// Maximum number of received sockets: more than any configuration has.
const MOST_SOCKETS: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_socket_records_and_rejects_truncated_ones() {
        let mut bytes = &b"\0\x02lo\x05\0\0\0\x01n\0\0\0\0\0"[..];
        assert_eq!(record(&mut bytes), Some(Some("lo".into())));
        assert_eq!(record(&mut bytes), Some(None));
        assert_eq!(record(&mut bytes), None);
        assert_eq!(record(&mut &b"\0\x09lo"[..]), None);
        assert_eq!(record(&mut &b"\0\x02lo\0\0\0"[..]), None);
    }

    #[test]
    fn a_handover_answer_without_sockets_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a new path");
        for answer in [&b""[..], b"Permission denied\n\n", b"\xff\xff\xff\xff", b"\x02\0\0\0x"] {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut client, _) = listener.accept().expect("a client");
                    let _ = client.read(&mut [0; 32]);
                    let _ = client.write_all(answer);
                });
                let fault = take(&Giver::Path(&path)).expect_err("it gives nothing");
                assert!(fault.starts_with("Failed to get the sockets from the old process at"), "{fault}");
            });
        }
        assert!(take(&Giver::Path(&folder.path().join("nobody"))).is_err());
    }
}
