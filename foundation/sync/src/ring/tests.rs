use super::*;
use crate::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn ring(size: usize) -> Arc<Ring> {
    Ring::in_memory(size + HEADER, DEFAULT_QUEUES)
}

fn all(reader: &mut RingReader) -> Vec<String> {
    let mut found = Vec::new();
    reader.read(|message| {
        let mut bytes = Vec::new();
        message.append_to(&mut bytes);
        found.push(String::from_utf8(bytes).expect("tests write text"));
        true
    });
    found
}

fn dump(ring: &Arc<Ring>) -> Vec<String> {
    all(&mut ring.attach(Seek::Oldest, ReaderWait::No).expect("few readers"))
}

/// Checks the invariants between writes: messages from head to tail, none busy, as many readers as there are.
fn check_invariants(ring: &Ring) {
    let storage = &ring.storage;
    let (mut at, tail) = (storage.head(), storage.tail(Relaxed));
    let mut readers = 0;
    loop {
        let tag = storage.tag(at).load(Relaxed);
        assert_ne!(tag, BUSY);
        readers += usize::from(tag);
        if storage.add(at, 1) == tail {
            break;
        }
        let (length, bytes) = storage.length_at(at).expect("a message");
        at = storage.add(at, 1 + bytes + length);
    }
    assert_eq!(readers, ring.readers());
}

#[test]
fn each_reader_gets_every_message_since_it_attached() {
    let ring = ring(1024);
    let mut early = ring.attach(Seek::Oldest, ReaderWait::No).unwrap();
    assert!(ring.write(0, &[b"one"]));
    let mut late = ring.attach(Seek::End, ReaderWait::No).unwrap();
    assert!(ring.write(1, &[b"t", b"", b"wo"]) && ring.write(2, &[]));
    assert_eq!(all(&mut early), ["one", "two", ""]);
    assert_eq!(all(&mut late), ["two", ""]);
    assert_eq!(dump(&ring), ["one", "two", ""]);
    assert_eq!(all(&mut early), [""; 0]);
    check_invariants(&ring);
}

#[test]
fn a_full_ring_drops_the_oldest_messages_or_new_ones_if_a_reader_is_slow() {
    let ring = ring(400);
    for number in 0..1000 {
        assert!(ring.write(0, &[format!("message {number}").as_bytes()]));
    }
    let kept = dump(&ring);
    assert_eq!(kept.last().unwrap(), "message 999");
    assert!((20..40).contains(&kept.len()), "{}", kept.len());
    let mut slow = ring.attach(Seek::Oldest, ReaderWait::No).unwrap();
    let written = (1000..2000).filter(|n| ring.write(0, &[format!("message {n}").as_bytes()])).count();
    assert!(written < 2 && ring.dropped() == 1000 - written as u64, "{written}");
    assert_eq!(all(&mut slow)[..kept.len() - 1], kept[..kept.len() - 1]);
    assert!(ring.write(0, &[b"there is room again"]));
    assert_eq!(all(&mut slow), ["there is room again"]);
    drop(slow);
    check_invariants(&ring);
}

#[test]
fn messages_larger_than_the_ring_are_dropped() {
    let ring = ring(400);
    assert!(ring.write(0, &[b"kept"]));
    assert!(!ring.write(0, &[&[b'x'; 400]]));
    assert!(!ring.write(0, &[&[b'x'; 10_000]]));
    assert_eq!((dump(&ring), ring.dropped()), (vec!["kept".to_owned()], 2));
    // Around it are tags, a length and the byte that stays free.
    assert!((384..400).contains(&ring.longest()), "{}", ring.longest());
    let longest = vec![b'y'; ring.longest()];
    assert!(ring.write(0, &[&longest]));
    assert_eq!(dump(&ring).last().map(String::len), Some(ring.longest()));
    check_invariants(&ring);
}

/// A thread is preempted in the middle of a copy. Other writers fill the ring, wait briefly for it, then drop messages.
/// Afterwards writing continues, and readers see the late message.
#[test]
fn an_unfinished_copy_only_loses_messages() {
    let ring = ring(400);
    let mut end = ring.storage.try_lock().unwrap();
    let late = ring.reserve(4, &mut end, false).ok().unwrap();
    ring.storage.unlock(end);
    let kept = (0..100).filter(|_| ring.write(1, &[b"another message"])).count();
    assert!((10..40).contains(&kept) && ring.dropped() == 100 - kept as u64, "{kept}");
    ring.copy(late, [&b"late"[..]].into_iter());
    assert_eq!(dump(&ring)[0], "late");
    assert!(ring.write(1, &[b"the oldest went"]));
    assert_eq!(dump(&ring).last().unwrap(), "the oldest went");
    assert_eq!(ring.dropped(), 100 - kept as u64);
    check_invariants(&ring);
}

/// A reader releases messages that it has read now and then, and all of them before it sleeps.
#[test]
fn a_sleeping_reader_releases_all_messages() {
    let ring = ring(1000);
    let mut reader = ring.attach(Seek::Oldest, ReaderWait::Woken(Box::new(|| {}))).unwrap();
    assert!(ring.write(0, &[b"a"]));
    assert_eq!(all(&mut reader), ["a"]);
    assert!(reader.sleep());
    assert!(ring.write(0, &[&vec![b'y'; ring.longest()]]), "the whole ring is free");
    assert_eq!(all(&mut reader).len(), 1);
    check_invariants(&ring);
}

#[test]
fn r97_multi_line_messages_stay_whole() {
    let ring = ring(1024);
    ring.write(0, &[b"{\n  \"a\": 1\n}"]);
    ring.write(0, &[b"plain"]);
    assert_eq!(dump(&ring), ["{\n  \"a\": 1\n}", "plain"]);
}

#[test]
fn r98_r99_a_writers_queue_is_its_thread_number_modulo_the_queue_count() {
    assert_eq!(Ring::in_memory(4096, DEFAULT_QUEUES).queues(), 6);
    assert_eq!(Ring::in_memory(4096, 0).queues(), 1);
    assert_eq!(Ring::in_memory(4096, 1000).queues(), MOST_QUEUES);
    let ring = Ring::in_memory(4096, 3);
    for thread in 0..100 {
        assert!(ring.write(thread, &[b"x"]), "any number of threads finds a queue");
        assert!(std::ptr::eq(ring.queue_of(thread), &*ring.queues[thread % 3]), "thread {thread}");
    }
}

/// R98, R99: a writer that finds the tail locked waits in the queue of its number. The holder of the tail serves one whole
/// queue. Writers in other queues keep waiting.
#[test]
fn r98_r99_blocked_writers_wait_in_the_queue_of_their_thread_number() {
    const WRITERS: usize = 7;
    const QUEUES: usize = 3;
    let ring = Ring::in_memory(65_536, QUEUES);
    let length = |queue: &Queue| {
        let (mut count, mut next) = (0, queue.newest.load(Acquire));
        while !next.is_null() {
            count += 1;
            // SAFETY: the tail is held, so no waiter is served, and the waiters stay in their queues.
            next = unsafe { &*next }.following();
        }
        count
    };
    let tail = ring.storage.try_lock().expect("nobody writes");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let ring = &ring;
            scope.spawn(move || assert!(ring.write(writer, &[b"x"])));
        }
        let lengths = || -> Vec<usize> { ring.queues.iter().map(|queue| length(queue)).collect() };
        let until = Instant::now() + Duration::from_secs(20);
        while lengths().iter().sum::<usize>() < WRITERS && Instant::now() < until {
            std::thread::yield_now();
        }
        let found = lengths();
        ring.storage.unlock(tail);
        assert_eq!(found, [3, 2, 2]);
    });
    assert_eq!(dump(&ring).len(), WRITERS);
}

#[test]
fn r105_the_topmost_bit_of_the_tail_is_the_lock() {
    assert_eq!(LOCKED, 1 << (usize::BITS - 1));
    let ring = ring(1024);
    let tail = ring.storage.try_lock().unwrap();
    assert_eq!(ring.storage.tail_cell().load(Relaxed), tail | LOCKED);
    assert_eq!(ring.storage.tail(Relaxed), tail, "readers see through it");
    assert!(ring.storage.try_lock().is_none());
    ring.storage.unlock(tail);
    assert!(ring.storage.try_lock().is_some());
    ring.storage.unlock(tail);
}

#[test]
fn r107_head_tail_and_area_are_on_separate_cache_lines() {
    let ring = ring(1024);
    let line = |cell: &AtomicUsize| std::ptr::from_ref(cell) as usize / 64;
    let (tail, head) = (line(ring.storage.tail_cell()), line(ring.storage.head_cell()));
    let area = std::ptr::from_ref(ring.storage.tag(0)) as usize / 64;
    assert_eq!((head - tail, area - head), (1, 1));
    assert_eq!(std::ptr::from_ref(ring.storage.tail_cell()) as usize % 64, 0);
}

#[test]
fn r112_a_ring_reports_whether_a_file_backs_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    let mapped = Ring::in_file(&path, 16_384, 6).unwrap();
    let allocated = Ring::in_memory(16_384, 6);
    assert!(mapped.is_file() && !allocated.is_file());
    assert_eq!((mapped.size(), allocated.size()), (16_384 - HEADER, 16_384 - HEADER));
    assert!(mapped.write(0, &[b"stays"]) && allocated.write(0, &[b"goes"]));
    drop((mapped, allocated));
    assert!(std::fs::read(&path).unwrap().windows(5).any(|window| window == b"stays"));
}

#[test]
fn a_ring_size_that_cannot_be_allocated_gives_none() {
    for size in [usize::MAX, usize::MAX - 63, isize::MAX as usize, isize::MAX as usize - 63, 1 << 60] {
        assert!(Ring::try_in_memory(size, 1).is_none(), "{size}");
    }
    assert!(Ring::try_in_memory(0, 1).is_some());
}

#[test]
fn the_smallest_ring_has_room_for_a_message() {
    let folder = tempfile::tempdir().unwrap();
    for ring in [Ring::in_memory(0, 1), Ring::in_file(&folder.path().join("ring"), 0, 1).unwrap()] {
        assert!(ring.write(0, &[b"sixteen bytes..."]));
        check_invariants(&ring);
    }
}

#[test]
fn r113_a_reader_above_the_limit_is_refused() {
    let ring = ring(1024);
    ring.write(0, &[b"x"]);
    let readers: Vec<_> =
        (0..MOST_READERS).map(|_| ring.attach(Seek::Oldest, ReaderWait::No).unwrap()).collect();
    assert_eq!(MOST_READERS, 254);
    assert_eq!(ring.attach(Seek::End, ReaderWait::No).err(), Some(TooManyReaders));
    check_invariants(&ring);
    drop(readers);
    assert!(ring.attach(Seek::End, ReaderWait::No).is_ok());
    check_invariants(&ring);
}

#[test]
fn r115_attach_arguments_set_the_start_position_and_waiting() {
    let ring = ring(1024);
    ring.write(0, &[b"old"]);
    let (sender, receiver) = mpsc::channel();
    let wake = move || sender.send(()).expect("the test listens");
    let mut waiting = ring.attach(Seek::End, ReaderWait::Woken(Box::new(wake))).unwrap();
    let mut plain = ring.attach(Seek::End, ReaderWait::No).unwrap();
    assert!(waiting.sleep() && plain.sleep());
    ring.write(0, &[b"new"]);
    assert_eq!(receiver.try_recv(), Ok(()));
    assert!(!waiting.sleep(), "there is something to read");
    assert_eq!((all(&mut waiting), all(&mut plain)), (vec!["new".to_owned()], vec!["new".to_owned()]));
    ring.write(0, &[b"newer"]);
    assert!(receiver.try_recv().is_err(), "who does not sleep is not woken");
}

#[test]
fn a_reader_may_stop_and_continue_later() {
    let ring = ring(1024);
    for number in 0..5 {
        ring.write(0, &[format!("{number}").as_bytes()]);
    }
    let mut reader = ring.attach(Seek::Oldest, ReaderWait::No).unwrap();
    let mut room = 2;
    let progress = reader.read(|_| {
        room -= 1;
        room >= 0
    });
    assert_eq!(progress, ReadEnd::Stopped);
    assert_eq!(all(&mut reader), ["2", "3", "4"]);
}

/// Number of messages per writer in the stress test.
const STRESS: u64 = if cfg!(debug_assertions) { 30_000 } else { 100_000 };

/// R103, R104: every reader sees the messages of each writer in order and whole, none twice, while readers come and go;
/// all others were dropped and counted. R101: the last message reaches a sleeping reader. R102: no thread stalls.
#[test]
fn concurrent_readers_see_each_writers_sequence_numbers_in_order() {
    const WRITERS: usize = 4;
    const READERS: usize = 3;
    let ring = Ring::in_memory(16_384, 2);
    let finished = AtomicBool::new(false);
    let written: [AtomicU64; WRITERS] = Default::default();
    let stalls = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let thread = Arc::new(std::sync::Mutex::new(None::<std::thread::Thread>));
                let theirs = Arc::clone(&thread);
                let wake = move || {
                    if let Some(thread) = &*theirs.lock().expect("nobody panics") {
                        thread.unpark();
                    }
                };
                let mut reader = ring.attach(Seek::Oldest, ReaderWait::Woken(Box::new(wake))).unwrap();
                let finished = &finished;
                scope.spawn(move || {
                    *thread.lock().expect("nobody panics") = Some(std::thread::current());
                    let (mut last, mut count) = ([None::<u64>; WRITERS], 0_u64);
                    loop {
                        let over = finished.load(SeqCst);
                        let progress = reader.read(|message| {
                            let mut bytes = Vec::new();
                            message.append_to(&mut bytes);
                            let text = String::from_utf8(bytes).expect("tests write text");
                            let mut words = text.split(' ');
                            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
                            let (writer, sequence) =
                                (number().expect("a writer"), number().expect("a number"));
                            let filling = words.next().expect("some filling");
                            assert!(filling.bytes().all(|byte| byte == b'a' + writer as u8), "{text}");
                            assert_eq!(filling.len() as u64, sequence % 400);
                            let before = last[writer as usize].replace(sequence);
                            assert!(before.is_none_or(|before| before < sequence), "{before:?} {text}");
                            count += 1;
                            true
                        });
                        if progress == ReadEnd::End && over {
                            return (last, count);
                        }
                        if progress == ReadEnd::End && reader.sleep() && !finished.load(SeqCst) {
                            std::thread::park_timeout(Duration::from_secs(20));
                        }
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (ring, written, stalls) = (&ring, &written[writer], &stalls);
                scope.spawn(move || {
                    let mut watch = StallWatch::new();
                    for sequence in 0..STRESS {
                        let filling = vec![b'a' + writer as u8; (sequence % 400) as usize];
                        let prefix = format!("{writer} {sequence} ");
                        let mut kept = watch.measure(|| ring.write(writer, &[prefix.as_bytes(), &filling]));
                        // The last message must not be dropped.
                        while !kept && sequence + 1 == STRESS {
                            std::thread::yield_now();
                            kept = ring.write(writer, &[prefix.as_bytes(), &filling]);
                        }
                        if kept {
                            written.fetch_add(1, Relaxed);
                        }
                        if sequence % 1000 == 0 {
                            stalls.fetch_add(watch.stalls(), Relaxed);
                            drop(ring.attach(Seek::Oldest, ReaderWait::No));
                        }
                    }
                    stalls.fetch_add(watch.stalls(), Relaxed);
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        finished.store(true, SeqCst);
        for reader in readers {
            reader.thread().unpark();
            let (last, count) = reader.join().unwrap();
            assert_eq!(last, [Some(STRESS - 1); WRITERS]);
            // The readers were there from the beginning, so nothing was recycled before they saw it.
            assert_eq!(count, written.iter().map(|count| count.load(Relaxed)).sum::<u64>());
        }
    });
    check_invariants(&ring);
    let kept: u64 = written.iter().map(|count| count.load(Relaxed)).sum();
    assert!(kept + ring.dropped() >= WRITERS as u64 * STRESS);
    assert_eq!(stalls.load(Relaxed), 0, "writes that computed or slept for long");
}

/// Detects stalled writes, which sleep for [`StallWatch::LONG_NS`] or compute for half of it. Waiting for a CPU on a busy
/// machine does not count.
struct StallWatch {
    since: Instant,
    cpu_ns: u64,
    queued_ns: u64,
    longest: Duration,
    computing: u64,
}

impl StallWatch {
    /// The default of `warn-blocked-traffic-after`, in nanoseconds.
    const LONG_NS: u64 = 100_000_000;

    fn new() -> Self {
        StallWatch {
            since: Instant::now(),
            cpu_ns: weir_sys::time::thread_cpu_ns(),
            queued_ns: queued_ns(),
            longest: Duration::ZERO,
            computing: 0,
        }
    }

    fn measure<R>(&mut self, write: impl FnOnce() -> R) -> R {
        let (began, cpu_ns) = (Instant::now(), weir_sys::time::thread_cpu_ns());
        let result = write();
        self.longest = self.longest.max(began.elapsed());
        self.computing += u64::from(weir_sys::time::thread_cpu_ns() - cpu_ns >= Self::LONG_NS / 2);
        result
    }

    /// Number of stalls since the last call.
    fn stalls(&mut self) -> u64 {
        let (last, long) = (std::mem::replace(self, Self::new()), Duration::from_nanos(Self::LONG_NS));
        let ran = Duration::from_nanos(self.cpu_ns - last.cpu_ns + (self.queued_ns - last.queued_ns));
        let slept = self.since.duration_since(last.since).saturating_sub(ran);
        last.computing + u64::from(last.longest >= long && slept >= long)
    }
}

/// Total time that this thread waited for a CPU. The maximum value if the kernel does not report it.
fn queued_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let now = || weir_sys::time::monotonic_ns();
    schedstat.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(now)
}

/// The watch of the stress test detects a stall of 100 ms, the default of `warn-blocked-traffic-after`. The value is repeated
/// here so that a weaker bound fails.
#[test]
fn r102_the_stall_watch_detects_a_stall_of_100_ms() {
    #[track_caller]
    fn check(sleep_ms: u64, compute_ms: u64, is_stall: bool) {
        let mut watch = StallWatch::new();
        watch.measure(|| {
            let end = weir_sys::time::thread_cpu_ns() + compute_ms * 1_000_000;
            while weir_sys::time::thread_cpu_ns() < end {}
            std::thread::park_timeout(Duration::from_millis(sleep_ms));
        });
        // Preemption may split one stall into two.
        let seen = watch.stalls();
        assert_eq!(seen > 0, is_stall, "slept {sleep_ms} ms, computed {compute_ms} ms: {seen} stalls");
    }
    check(0, 0, false);
    check(105, 0, true);
    check(0, 55, true);
}

/// R100: only one writer at a time wakes readers.
#[test]
fn r100_only_one_writer_at_a_time_wakes_readers() {
    let ring = Ring::in_memory(65_536, 6);
    let inside = Arc::new(AtomicUsize::new(0));
    let calls = Arc::new(AtomicUsize::new(0));
    let mut readers: Vec<_> = (0..8)
        .map(|_| {
            let (inside, calls) = (Arc::clone(&inside), Arc::clone(&calls));
            let wake = move || {
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two wake at a time");
                calls.fetch_add(1, SeqCst);
                std::thread::yield_now();
                inside.fetch_sub(1, SeqCst);
            };
            ring.attach(Seek::End, ReaderWait::Woken(Box::new(wake))).unwrap()
        })
        .collect();
    let finished = AtomicBool::new(false);
    assert!(readers.iter_mut().all(RingReader::sleep));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let ring = &ring;
                // Some may be dropped: all readers are read by one thread here.
                scope.spawn(move || (0..2000).filter(|_| ring.write(writer, &[b"message"])).count())
            })
            .collect();
        scope.spawn(|| {
            while !finished.load(SeqCst) {
                for reader in &mut readers {
                    reader.read(|_| true);
                    reader.sleep();
                }
            }
        });
        let kept: usize = writers.into_iter().map(|writer| writer.join().unwrap_or(0)).sum();
        finished.store(true, SeqCst);
        assert_eq!(kept as u64 + ring.dropped(), 8000);
    });
    assert!(calls.load(SeqCst) > 0);
}

proptest::proptest! {
    /// For any messages in any parts, a ring of any size keeps the newest ones complete and in order.
    #[test]
    fn a_ring_of_any_size_keeps_the_newest_messages(
        size in 400usize..2000,
        lengths in proptest::collection::vec((0usize..700, 1usize..9), 1..60),
    ) {
        let ring = ring(size);
        let mut expected = Vec::new();
        for (index, &(length, pieces)) in lengths.iter().enumerate() {
            let text = vec![b'a' + (index % 26) as u8; length];
            let parts: Vec<&[u8]> = text.chunks(length.div_ceil(pieces).max(1)).collect();
            if ring.write(index, &parts) {
                expected.push(String::from_utf8(text).unwrap());
            } else {
                proptest::prop_assert!(length > ring.longest());
            }
        }
        check_invariants(&ring);
        let found = dump(&ring);
        proptest::prop_assert!(expected.ends_with(&found));
        proptest::prop_assert!(found.len() == expected.len() || !found.is_empty());
    }
}

#[test]
fn the_spin_policy_checks_less_often_while_no_message_arrives() {
    let mut watch = super::waiting::SpinPolicy::default();
    let watched = |watch: &mut super::waiting::SpinPolicy, came| {
        let looks = std::cell::Cell::new(0);
        let seen = watch.until(|| {
            looks.set(looks.get() + 1);
            came
        });
        assert_eq!(seen, came && looks.get() > 0);
        looks.get() > 0
    };
    let mut between = |came, times| -> Vec<usize> {
        let watches: Vec<usize> = (0..times).filter(|_| watched(&mut watch, came)).collect();
        watches.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    assert_eq!(between(false, 2000), [2, 4, 8, 16, 32, 64, 128, 256, 256, 256, 256, 256, 256]);
    assert!(between(true, 1000).ends_with(&[1, 1, 1]), "what came is waited for again");
}
