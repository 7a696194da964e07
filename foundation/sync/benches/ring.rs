//! Messages a second through a ring, beside a buffer behind a mutex and a channel, all in one run.
//!
//! `cargo bench -p weir-sync --bench ring [-- [ms=300] [writers=1,2,4,8,16] [queues=1,2,6,16] [length=200]]`. Every
//! candidate keeps the newest messages in about a megabyte and loses what a reader that is there does not take. The
//! figures are of one machine at one time: ratios count.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use weir_sync::Ring;
use weir_sync::ring::{RingReader, Seek, Wait};

/// About what a busy proxy keeps of its logs.
const SIZE: usize = 1 << 20;

/// What is measured.
trait Candidate: Sync {
    /// Writes one message.
    fn write(&self, thread: usize, message: &[u8]) -> bool;
    /// What reads for a while: returns how many messages it saw.
    fn reader(&self) -> Box<dyn FnMut() -> u64 + Send>;
}

struct OurRing(Arc<Ring>);

impl Candidate for OurRing {
    fn write(&self, thread: usize, message: &[u8]) -> bool {
        self.0.write(thread, &[message])
    }

    fn reader(&self) -> Box<dyn FnMut() -> u64 + Send> {
        let mut reader: RingReader = self.0.attach(Seek::End, Wait::No).expect("few readers");
        Box::new(move || {
            let mut count = 0;
            reader.read(|message| {
                black_box(message.first.first());
                count += 1;
                true
            });
            count
        })
    }
}

/// The same messages in a buffer that is locked for each of them.
#[derive(Default)]
struct Locked(Arc<Mutex<Buffer>>);

#[derive(Default)]
struct Buffer {
    bytes: VecDeque<u8>,
    /// Where the reader is, counted from the first byte ever; none without a reader.
    reader: Option<u64>,
    /// How many bytes were ever dropped from the front.
    dropped: u64,
}

impl Buffer {
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

impl Candidate for Locked {
    fn write(&self, _: usize, message: &[u8]) -> bool {
        self.0.lock().expect("nobody panics").write(message)
    }

    fn reader(&self) -> Box<dyn FnMut() -> u64 + Send> {
        let buffer = Arc::clone(&self.0);
        {
            let mut buffer = buffer.lock().expect("nobody panics");
            buffer.reader = Some(buffer.dropped + buffer.bytes.len() as u64);
        }
        Box::new(move || {
            let mut buffer = buffer.lock().expect("nobody panics");
            let mut at = (buffer.reader.unwrap_or(0) - buffer.dropped) as usize;
            let mut count = 0;
            while at < buffer.bytes.len() && count < 64 {
                let length: [u8; 4] = std::array::from_fn(|index| buffer.bytes[at + index]);
                black_box(buffer.bytes[at + 4]);
                at += 4 + u32::from_ne_bytes(length) as usize;
                count += 1;
            }
            buffer.reader = Some(buffer.dropped + at as u64);
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
        Box::new(move || receiver.try_iter().take(64).map(black_box).count() as u64)
    }
}

/// What a run gives, in thousands of messages a second.
struct Rates {
    kept: u64,
    lost: u64,
    read: u64,
}

fn measure(candidate: &dyn Candidate, writers: usize, reads: bool, length: usize, time: Duration) -> Rates {
    let (kept, lost, read) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let over = AtomicBool::new(false);
    let start = Barrier::new(writers + 1);
    let message: Vec<u8> = (0..length).map(|index| b'a' + (index % 26) as u8).collect();
    let mut elapsed = time;
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (kept, lost, over, start, message) = (&kept, &lost, &over, &start, &message);
            scope.spawn(move || {
                start.wait();
                let (mut ours, mut dropped) = (0, 0);
                while !over.load(Relaxed) {
                    for _ in 0..32 {
                        if candidate.write(writer, message) { ours += 1 } else { dropped += 1 }
                    }
                }
                kept.fetch_add(ours, Relaxed);
                lost.fetch_add(dropped, Relaxed);
            });
        }
        if reads {
            let mut reader = candidate.reader();
            let (over, read) = (&over, &read);
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    let seen = reader();
                    read.fetch_add(seen, Relaxed);
                    if seen == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        start.wait();
        let begin = Instant::now();
        std::thread::sleep(time);
        over.store(true, Relaxed);
        elapsed = begin.elapsed();
    });
    let rate = |count: AtomicU64| (count.into_inner() as f64 / elapsed.as_secs_f64() / 1000.0) as u64;
    Rates { kept: rate(kept), lost: rate(lost), read: rate(read) }
}

fn main() {
    let mut time = Duration::from_millis(300);
    let (mut writers, mut queues, mut length) = (vec![1, 2, 4, 8, 16], vec![1, 2, 6, 16], 200);
    let numbers =
        |text: &str| text.split(',').filter_map(|number| number.parse().ok()).collect::<Vec<usize>>();
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("ms", value)) => time = Duration::from_millis(value.parse().unwrap_or(300)),
            Some(("writers", value)) => writers = numbers(value),
            Some(("queues", value)) => queues = numbers(value),
            Some(("length", value)) => length = value.parse().unwrap_or(length),
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
            let mutex = measure(&Locked::default(), count, reads, length, time);
            let show = |name: &str, rates: &Rates| {
                // What was kept counts; with a reader, which is slower than any writer here, what was tried.
                let done = |rates: &Rates| if reads { rates.kept + rates.lost } else { rates.kept };
                let ratio = done(rates) as f64 / done(&mutex).max(1) as f64;
                println!(
                    "{count:>7} {:>6} {name:>12} {:>8} {:>8} {:>8} {ratio:>9.2}",
                    if reads { "yes" } else { "no" },
                    rates.kept,
                    rates.lost,
                    rates.read
                );
            };
            show("mutex", &mutex);
            show("channel", &measure(&Channel::new(length), count, reads, length, time));
            for &queues in &queues {
                let ring = OurRing(Ring::in_memory(SIZE, queues));
                show(&format!("ring, {queues} q"), &measure(&ring, count, reads, length, time));
            }
        }
    }
}
