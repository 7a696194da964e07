//! Messages a second through a ring, beside a buffer behind a mutex and a channel, all in one run.
//!
//! `cargo bench -p weir-sync --bench ring [-- [ms=5] [rounds=41] [writers=1,2,4,8,16] [queues=1,2,6,16] [length=100]
//! [work=format]]`. Every candidate keeps the newest messages in about a megabyte and loses the messages that an
//! attached reader does not take. Candidates take turns for a short time each, and the median of the rounds counts,
//! because the machine is shared. Writers are bound to processors in turn, as workers are. With `work=format` each
//! message is formatted first, as the line of a log is; without, writers do nothing but write. Compare ratios.

use std::collections::VecDeque;
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Condvar, Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use weir_sync::Ring;
use weir_sync::ring::{ReadEnd, ReaderWait, RingReader, Seek};

/// About as much as a busy proxy keeps of its logs.
const SIZE: usize = 1 << 20;

/// A reader checks for messages this often even without a wake.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Messages that a reader takes at a time where it locks others out meanwhile.
const BATCH: u64 = 64;

/// A buffer of messages that is measured.
trait Candidate: Send + Sync {
    fn write(&self, thread: usize, message: &[u8]) -> bool;
    /// A reader: each call reads for a while, sleeps when the buffer is empty, and returns how many messages it saw.
    fn reader(&self) -> Box<dyn FnMut() -> u64 + Send>;
}

struct OurRing(Arc<Ring>);

impl Candidate for OurRing {
    fn write(&self, thread: usize, message: &[u8]) -> bool {
        self.0.write(thread, &[message])
    }

    fn reader(&self) -> Box<dyn FnMut() -> u64 + Send> {
        let thread = Arc::new(OnceLock::<Thread>::new());
        let theirs = Arc::clone(&thread);
        let wake = move || {
            if let Some(thread) = theirs.get() {
                thread.unpark();
            }
        };
        let wait = ReaderWait::Woken(Box::new(wake));
        let mut reader: RingReader = self.0.attach(Seek::End, wait).expect("few readers");
        Box::new(move || {
            thread.get_or_init(std::thread::current);
            let mut count = 0;
            let progress = reader.read(|message| {
                black_box(message.first.first());
                count += 1;
                true
            });
            if progress == ReadEnd::End && reader.sleep() {
                std::thread::park_timeout(LONGEST_SLEEP);
            }
            count
        })
    }
}

/// The same messages in a buffer that is locked for each of them.
#[derive(Default)]
struct LockedBuffer(Arc<(Mutex<BoundedBuffer>, Condvar)>);

#[derive(Default)]
struct BoundedBuffer {
    bytes: VecDeque<u8>,
    /// The reader's position, counted from the first byte ever; `None` without a reader.
    reader: Option<u64>,
    sleeps: bool,
    /// How many bytes were ever dropped from the front.
    dropped: u64,
}

impl BoundedBuffer {
    fn first(&self) -> usize {
        let length: [u8; 4] = std::array::from_fn(|index| self.bytes[index]);
        4 + u32::from_ne_bytes(length) as usize
    }

    fn write(&mut self, message: &[u8]) -> bool {
        while self.bytes.len() + 4 + message.len() > SIZE {
            if self.reader.is_some_and(|reader| reader == self.dropped) {
                return false;
            }
            let first = self.first();
            self.bytes.drain(..first);
            self.dropped += first as u64;
        }
        self.bytes.extend((message.len() as u32).to_ne_bytes());
        self.bytes.extend(message);
        true
    }
}

impl Candidate for LockedBuffer {
    fn write(&self, _: usize, message: &[u8]) -> bool {
        let mut buffer = self.0.0.lock().expect("nobody panics");
        let kept = buffer.write(message);
        let wakes = kept && std::mem::take(&mut buffer.sleeps);
        drop(buffer);
        if wakes {
            self.0.1.notify_one();
        }
        kept
    }

    fn reader(&self) -> Box<dyn FnMut() -> u64 + Send> {
        let shared = Arc::clone(&self.0);
        {
            let mut buffer = shared.0.lock().expect("nobody panics");
            buffer.reader = Some(buffer.dropped + buffer.bytes.len() as u64);
        }
        Box::new(move || {
            let mut buffer = shared.0.lock().expect("nobody panics");
            let mut at = (buffer.reader.unwrap_or(0) - buffer.dropped) as usize;
            let mut count = 0;
            while at < buffer.bytes.len() && count < BATCH {
                let length: [u8; 4] = std::array::from_fn(|index| buffer.bytes[at + index]);
                black_box(buffer.bytes[at + 4]);
                at += 4 + u32::from_ne_bytes(length) as usize;
                count += 1;
            }
            buffer.reader = Some(buffer.dropped + at as u64);
            if count < BATCH {
                buffer.sleeps = true;
                drop(shared.1.wait_timeout(buffer, LONGEST_SLEEP));
            }
            count
        })
    }
}

/// A channel of messages, each a box of its own.
struct Channel {
    sender: Sender<Box<[u8]>>,
    receiver: Receiver<Box<[u8]>>,
    read: AtomicBool,
}

impl Channel {
    fn new(length: usize) -> Self {
        let (sender, receiver) = crossbeam_channel::bounded(SIZE / length.max(1));
        Self { sender, receiver, read: AtomicBool::new(false) }
    }
}

impl Candidate for Channel {
    fn write(&self, _: usize, message: &[u8]) -> bool {
        let mut message: Box<[u8]> = message.into();
        loop {
            match self.sender.try_send(message) {
                Ok(()) => return true,
                Err(TrySendError::Full(back)) if !self.read.load(Relaxed) => {
                    drop(self.receiver.try_recv());
                    message = back;
                }
                Err(_) => return false,
            }
        }
    }

    fn reader(&self) -> Box<dyn FnMut() -> u64 + Send> {
        self.read.store(true, Relaxed);
        let receiver = self.receiver.clone();
        Box::new(move || {
            let read = receiver.try_iter().take(BATCH as usize).map(black_box).count() as u64;
            if read < BATCH { read + u64::from(receiver.recv_timeout(LONGEST_SLEEP).is_ok()) } else { read }
        })
    }
}

/// The result of a run, in thousands of messages a second.
#[derive(Clone, Copy, Default)]
struct MessageRates {
    kept: u64,
    lost: u64,
    read: u64,
}

/// How a row is measured.
struct Workload {
    writers: usize,
    reads: bool,
    length: usize,
    /// Whether each message is formatted before it is written.
    formats: bool,
    time: Duration,
}

/// About as much work as a log line: numbers among words, `length` bytes in the end.
fn format(line: &mut Vec<u8>, length: usize, number: u64) {
    line.clear();
    let port = 1024 + number % 50_000;
    let times = [number % 7, number % 11, number % 13];
    let [queue, connect, response] = times;
    let _ = write!(
        line,
        "192.0.2.{}:{port} [{number}] www app/s{} 0/{queue}/{connect}/{response} 200 {} - - ---- ",
        number % 250,
        number % 9,
        number * 97 % 100_000,
    );
    line.resize(length, b'x');
}

fn measure(candidate: &dyn Candidate, row: &Workload) -> MessageRates {
    let [kept, lost, read] = [const { AtomicU64::new(0) }; 3];
    let over = AtomicBool::new(false);
    let start = Barrier::new(row.writers + 1);
    let processors = weir_sys::process::processors().unwrap_or_default();
    let fixed: Vec<u8> = (0..row.length).map(|index| b'a' + (index % 26) as u8).collect();
    // Fills the buffer first, so that its memory is allocated.
    for _ in 0..SIZE / row.length.max(1) {
        candidate.write(0, &fixed);
    }
    let mut elapsed = row.time;
    std::thread::scope(|scope| {
        for writer in 0..row.writers {
            let (kept, lost, over, start, fixed) = (&kept, &lost, &over, &start, &fixed);
            let processor = processors.get(writer % processors.len().max(1)).copied();
            scope.spawn(move || {
                if let Some(processor) = processor {
                    let _ = weir_sys::process::set_processors(&[processor]);
                }
                let mut line = fixed.clone();
                start.wait();
                let (mut ours, mut dropped) = (0, 0);
                while !over.load(Relaxed) {
                    for _ in 0..32 {
                        if row.formats {
                            format(&mut line, row.length, ours + dropped);
                        }
                        if candidate.write(writer, &line) { ours += 1 } else { dropped += 1 }
                    }
                }
                kept.fetch_add(ours, Relaxed);
                lost.fetch_add(dropped, Relaxed);
            });
        }
        if row.reads {
            let mut reader = candidate.reader();
            let (over, read) = (&over, &read);
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    read.fetch_add(reader(), Relaxed);
                }
            });
        }
        start.wait();
        let begin = Instant::now();
        std::thread::sleep(row.time);
        over.store(true, Relaxed);
        elapsed = begin.elapsed();
    });
    let rate = |count: AtomicU64| (count.into_inner() as f64 / elapsed.as_secs_f64() / 1000.0) as u64;
    MessageRates { kept: rate(kept), lost: rate(lost), read: rate(read) }
}

/// The median of the rounds, for each rate separately.
fn median(rounds: &[MessageRates]) -> MessageRates {
    let middle = |rate: fn(&MessageRates) -> u64| {
        let mut measured: Vec<u64> = rounds.iter().map(rate).collect();
        measured.sort_unstable();
        measured.get(measured.len() / 2).copied().unwrap_or(0)
    };
    MessageRates {
        kept: middle(|rates| rates.kept),
        lost: middle(|rates| rates.lost),
        read: middle(|rates| rates.read),
    }
}

/// A candidate's name, and a new one of it.
type Contestant = (String, Box<dyn Fn() -> Box<dyn Candidate>>);

fn contestants(queues: &[usize], length: usize) -> Vec<Contestant> {
    let mut all: Vec<Contestant> = vec![
        ("mutex".into(), Box::new(|| Box::new(LockedBuffer::default()))),
        ("channel".into(), Box::new(move || Box::new(Channel::new(length)))),
    ];
    for &queues in queues {
        let new = move || Box::new(OurRing(Ring::in_memory(SIZE, queues))) as Box<dyn Candidate>;
        all.push((format!("ring, {queues} q"), Box::new(new)));
    }
    all
}

fn main() {
    let (mut time, mut rounds) = (Duration::from_millis(5), 41);
    let (mut writers, mut queues) = (vec![1, 2, 4, 8, 16], vec![1, 2, 6, 16]);
    let (mut length, mut formats) = (100, false);
    let numbers =
        |text: &str| text.split(',').filter_map(|number| number.parse().ok()).collect::<Vec<usize>>();
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("ms", value)) => time = Duration::from_millis(value.parse().unwrap_or(5)),
            Some(("rounds", value)) => rounds = value.parse().unwrap_or(rounds),
            Some(("writers", value)) => writers = numbers(value),
            Some(("queues", value)) => queues = numbers(value),
            Some(("length", value)) => length = value.parse().unwrap_or(length),
            Some(("work", value)) => formats = value == "format",
            _ => {}
        }
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{length} byte messages, {processors} processors; thousands a second: kept, lost, read");
    println!(
        "{:>7} {:>6} {:>12} {:>8} {:>8} {:>8} {:>9}",
        "writers", "reader", "", "kept", "lost", "read", "/ mutex"
    );
    for &count in &writers {
        for reads in [false, true] {
            let row = Workload { writers: count, reads, length, formats, time };
            let contestants = contestants(&queues, length);
            let mut measured = vec![Vec::new(); contestants.len()];
            for _ in 0..rounds {
                for ((_, new), measured) in contestants.iter().zip(&mut measured) {
                    measured.push(measure(&*new(), &row));
                }
            }
            let middles: Vec<MessageRates> = measured.iter().map(|rounds| median(rounds)).collect();
            for ((name, _), rates) in contestants.iter().zip(&middles) {
                // Only messages kept count: dropping messages fast is not a gain.
                let ratio = rates.kept as f64 / middles[0].kept.max(1) as f64;
                println!(
                    "{count:>7} {:>6} {name:>12} {:>8} {:>8} {:>8} {ratio:>9.2}",
                    if reads { "yes" } else { "no" },
                    rates.kept,
                    rates.lost,
                    rates.read
                );
            }
        }
    }
}
