//! Writes log lines to descriptors shared with other processes: standard output, pipes, files, stream sockets.
//!
//! Such a descriptor may block, and O_NONBLOCK would affect every process that shares it. So each descriptor has a
//! thread that may block, with a bounded queue. If the reader of the descriptor is slow or dead, the queue fills up and
//! further lines are dropped and counted. Workers never block.
//!
//! ```text
//! worker ── a free buffer, filled ──► full queue ──► writer thread ──► write(2)
//!    ▲                                                    │
//!    └──────────────── free queue ◄── the empty buffer ───┘
//! ```
//!
//! Buffers are reused, so a steady stream of lines does not allocate. Queued lines are written together, up to
//! `PIPE_BUF` bytes, which the kernel never interleaves with other writers. A line is never split between two writes.
//!
//! A line after an idle period wakes the thread and is written at once. Under load the thread sleeps for [`REST`] after each
//! write, so a busy proxy needs one write for many lines, without wake-ups:
//!
//! ```text
//! asleep ── a line: the worker wakes the thread ──► writing ── soon after the last write ──► resting
//!    ▲                                               │  ▲                                      │
//!    └──────────── the queue is empty ───────────────┘  └─────────────── lines ────────────────┘
//! ```

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use weir_sync::Doorbell;
use weir_sys::{Errno, poll, socket};

use crate::outage::Outage;

/// Maximum number of queued lines per descriptor: some 40 ms of a very busy proxy, at most 4 MB with the default line length.
pub const QUEUE_LINES: usize = 4096;

/// `PIPE_BUF` on Linux. A write of up to this size to a pipe is atomic (POSIX).
const ATOMIC_WRITE: usize = 4096;

/// Maximum wait. An idle writer checks its queue this often even without a wake-up.
const IDLE: Duration = Duration::from_secs(1);

/// Sleep between two writes under load, and so the maximum delay of a line. Meanwhile the queue takes up to [`QUEUE_LINES`] lines.
const REST: Duration = Duration::from_millis(1);

/// Handle of a writer thread and its queue. Dropping it ends the thread once the queue is empty.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<WriterQueue>,
    thread: Thread,
}

#[derive(Debug)]
struct WriterQueue {
    full: ArrayQueue<Vec<u8>>,
    free: ArrayQueue<Vec<u8>>,
    /// Rung by a worker that queues a line while the thread is asleep.
    bell: Doorbell,
    closing: AtomicBool,
    /// Lines queued by all workers.
    queued: AtomicU64,
    /// Lines dequeued, whether written or lost. Written only by the thread.
    finished: AtomicU64,
    /// Lines dequeued but not written because of an error. Written only by the thread.
    lost: AtomicU64,
    /// The name of the descriptor in reports.
    name: String,
    outage: Outage,
}

impl Writer {
    /// Starts a thread that writes to `descriptor`. Call it in the process that will log: threads do not survive a fork.
    /// Reports call the descriptor `name`.
    pub fn start(descriptor: OwnedFd, name: String) -> io::Result<Self> {
        let shared = Arc::new(WriterQueue {
            full: ArrayQueue::new(QUEUE_LINES),
            free: ArrayQueue::new(QUEUE_LINES),
            bell: Doorbell::new(),
            closing: AtomicBool::new(false),
            queued: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            name,
            outage: Outage::default(),
        });
        let theirs = Arc::clone(&shared);
        let thread = weir_sys::thread::start(c"log-writer", move || run(&theirs, &descriptor))?;
        Ok(Self { shared, thread })
    }

    /// Queues one line including its newline. False if the queue is full and the line was dropped. Never blocks.
    #[must_use]
    pub fn push(&self, line: &[u8]) -> bool {
        let shared = &*self.shared;
        if shared.full.is_full() {
            return false;
        }
        let mut buffer = shared.free.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(line);
        // Count before the push, so that `flush` never sees more lines finished than queued.
        shared.queued.fetch_add(1, Ordering::Relaxed);
        if let Err(buffer) = shared.full.push(buffer) {
            shared.queued.fetch_sub(1, Ordering::Relaxed);
            let _ = shared.free.push(buffer);
            return false;
        }
        self.wake();
        true
    }

    /// Number of lines queued but not written because of an error.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Waits up to `limit` until all lines queued so far are written. False on timeout. For process exit, never for a worker.
    pub fn flush(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let goal = self.shared.queued.load(Ordering::Relaxed);
        loop {
            if self.shared.finished.load(Ordering::Acquire) >= goal {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            self.wake();
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn wake(&self) {
        if self.shared.bell.must_ring() {
            self.thread.unpark();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.wake();
    }
}

fn run(shared: &WriterQueue, descriptor: &OwnedFd) {
    let mut batch = Vec::with_capacity(ATOMIC_WRITE);
    let mut next: Option<Vec<u8>> = None;
    // A full disk may accept only a part of a line. Then a newline is written before the next line.
    let mut torn = false;
    let mut pace = WritePace::default();
    loop {
        batch.clear();
        let lines = fill(shared, &mut batch, &mut next);
        if lines == 0 {
            if shared.closing.load(Ordering::Acquire) && shared.full.is_empty() {
                return;
            }
            park(shared);
            continue;
        }
        if torn {
            torn = write_all(shared, descriptor, b"\n").is_err();
        }
        match write_all(shared, descriptor, &batch) {
            Ok(()) => {
                torn = false;
                shared.outage.end();
            }
            Err(RefusedWrite { written, error }) => {
                let taken = &batch[..written];
                let whole = taken.iter().filter(|byte| **byte == b'\n').count() as u64;
                torn = taken.last().map_or(torn, |last| *last != b'\n');
                shared.lost.store(shared.lost.load(Ordering::Relaxed) + lines - whole, Ordering::Relaxed);
                shared.outage.begin(&shared.name, error);
            }
        }
        shared.finished.store(shared.finished.load(Ordering::Relaxed) + lines, Ordering::Release);
        // Do not sleep if lines remain that did not fit into this write.
        if pace.is_busy(Instant::now()) && next.is_none() {
            thread::sleep(REST);
        }
    }
}

/// Decides whether the thread rests after a write.
#[derive(Debug, Default)]
struct WritePace {
    last_write: Option<Instant>,
}

impl WritePace {
    /// Notes a write. True if the previous one was at most twice [`REST`] ago.
    fn is_busy(&mut self, now: Instant) -> bool {
        let last = self.last_write.replace(now);
        last.is_some_and(|last| now.duration_since(last) <= 2 * REST)
    }
}

/// A failed write.
struct RefusedWrite {
    /// Bytes written before the error.
    written: usize,
    error: Errno,
}

/// Moves whole lines from the queue into the batch, up to [`ATOMIC_WRITE`] bytes, but at least one line. Returns their
/// number. The first line that does not fit is stored in `next`.
fn fill(shared: &WriterQueue, batch: &mut Vec<u8>, next: &mut Option<Vec<u8>>) -> u64 {
    let mut lines = 0;
    while let Some(line) = next.take().or_else(|| shared.full.pop()) {
        if lines > 0 && batch.len() + line.len() > ATOMIC_WRITE {
            *next = Some(line);
            break;
        }
        batch.extend_from_slice(&line);
        lines += 1;
        let _ = shared.free.push(line);
    }
    lines
}

fn park(shared: &WriterQueue) {
    shared.bell.mark_asleep();
    if shared.full.is_empty() && !shared.closing.load(Ordering::Acquire) {
        thread::park_timeout(IDLE);
    }
    shared.bell.mark_awake();
}

/// Writes all bytes, and waits while the descriptor would block. Returns the first permanent error.
fn write_all(shared: &WriterQueue, descriptor: &OwnedFd, bytes: &[u8]) -> Result<(), RefusedWrite> {
    let mut written = 0;
    while written < bytes.len() {
        match socket::write(descriptor, &bytes[written..]) {
            Ok(0) => return Err(RefusedWrite { written, error: Errno::IO }),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            // Another process set O_NONBLOCK on the shared descriptor. Wait like a blocking write.
            Err(Errno::AGAIN) if !shared.closing.load(Ordering::Acquire) => {
                let _ = poll::wait_writable(descriptor, IDLE.as_millis() as u32);
            }
            Err(error) => return Err(RefusedWrite { written, error }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn written_lines_arrive_complete_and_in_order() {
        let (mut reader, writer_end) = UnixStream::pair().unwrap();
        let writer = Writer::start(writer_end.into(), "fd@9".into()).unwrap();
        let mut expected = String::new();
        for number in 0..500 {
            let line = format!("line {number}\n");
            assert!(writer.push(line.as_bytes()));
            expected += &line;
        }
        drop(writer);
        let mut found = String::new();
        reader.read_to_string(&mut found).unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn writes_in_quick_succession_count_as_busy() {
        let (mut pace, start) = (WritePace::default(), Instant::now());
        let mut is_busy = |ms| pace.is_busy(start + Duration::from_millis(ms));
        assert_eq!([0, 1, 3, 9, 10].map(&mut is_busy), [false, true, true, false, true]);
    }

    /// Consecutive lines share writes. Three writes in a row include at least one rest.
    #[test]
    fn the_writer_thread_rests_between_writes_while_lines_arrive() {
        let (reader, writer_end) = UnixDatagram::pair().unwrap();
        let writer = Writer::start(writer_end.into(), "fd@9".into()).unwrap();
        let write = |_| {
            let start = Instant::now();
            assert!(writer.push(b"a line\n"));
            assert_eq!(reader.recv(&mut [0; 100]).unwrap(), 7, "one datagram is one write");
            (start, Instant::now())
        };
        let times: Vec<_> = (0..100).map(write).collect();
        assert!(times.windows(3).all(|three| three[2].1 - three[0].0 >= REST));
    }

    #[test]
    fn a_stalled_reader_loses_lines_without_delaying_the_sender() {
        let (mut reader, writer_end) = UnixStream::pair().unwrap();
        let writer = Writer::start(writer_end.into(), "fd@9".into()).unwrap();
        let line = [b'x'; 1024];
        // The socket buffers some hundred kilobytes, the queue 4,096 lines. Without a reader, a bounded number fits.
        let taken = (0..20_000).filter(|_| writer.push(&line)).count();
        assert!((QUEUE_LINES..20_000).contains(&taken), "{taken}");
        assert!(!writer.flush(Duration::from_millis(5)));
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all.len()
        });
        assert!(writer.flush(LONG));
        drop(writer);
        assert_eq!(reading.join().unwrap(), taken * line.len());
    }

    #[test]
    fn lines_to_a_closed_reader_are_counted_as_lost() {
        let (reader, writer_end) = UnixStream::pair().unwrap();
        drop(reader);
        let writer = Writer::start(writer_end.into(), "fd@9".into()).unwrap();
        assert!(writer.push(b"into the void\n"));
        assert!(writer.flush(LONG));
        assert_eq!(writer.lost(), 1);
    }

    #[test]
    fn a_non_blocking_descriptor_receives_every_accepted_line() {
        let (mut reader, writer_end) = UnixStream::pair().unwrap();
        writer_end.set_nonblocking(true).unwrap();
        let writer = Writer::start(writer_end.into(), "fd@9".into()).unwrap();
        let taken = (0..2_000).filter(|_| writer.push(&[b'y'; 1000])).count();
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all.len()
        });
        assert!(writer.flush(LONG));
        drop(writer);
        assert_eq!(reading.join().unwrap(), taken * 1000);
    }
}
