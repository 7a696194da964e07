//! Every interleaving of small cases. The area is tiny, so that writers try to recycle messages held by readers.

use super::*;
use loom::sync::atomic::AtomicUsize as Count;
use loom::thread;

fn ring(size: usize) -> Arc<Ring> {
    Arc::new(Ring::over(Storage::allocate(size).expect("memory"), 1))
}

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(test);
}

fn read(reader: &mut RingReader) -> Vec<u8> {
    let mut found = Vec::new();
    reader.read(|message| {
        message.append_to(&mut found);
        true
    });
    found
}

/// Two writers; one may serve the other (R98): both messages arrive, whole, and each thread's in order.
#[test]
fn two_concurrent_writers_lose_no_messages() {
    model(|| {
        let ring = ring(16);
        let other = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                assert!(ring.write(0, &[b"a"]));
            })
        };
        assert!(ring.write(0, &[b"b"]));
        other.join().unwrap();
        let found = read(&mut ring.attach(Seek::Oldest, ReaderWait::No).unwrap());
        assert!(found == b"ab" || found == b"ba", "{found:?}");
    });
}

/// Two writers in a ring with room for one message: each finds the other's in the way, copied or not. Every lost
/// message is counted, and every other is whole.
#[test]
fn two_writers_in_a_ring_for_one_message_keep_or_count_each_message() {
    model(|| {
        let ring = ring(5);
        let other = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.write(0, &[b"a"]))
        };
        let kept = ring.write(0, &[b"b"]);
        let theirs = other.join().unwrap();
        assert_eq!(u64::from(kept) + u64::from(theirs) + ring.dropped(), 2);
        let found = read(&mut ring.attach(Seek::Oldest, ReaderWait::No).unwrap());
        assert!((kept && found == b"b") || (theirs && found == b"a"), "{found:?} {kept} {theirs}");
    });
}

/// A reader beside a writer that recycles (R103): the reader gets whole messages in order, whatever was dropped.
#[test]
fn a_reader_sees_whole_messages_while_a_writer_recycles() {
    // Room for two messages, and for one, overwritten by the next but one.
    [9, 7].into_iter().for_each(a_reader_beside_a_writer);
}

fn a_reader_beside_a_writer(size: usize) {
    model(move || {
        let ring = ring(size);
        assert!(ring.write(0, &[b"a"]));
        let other = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || [&b"b"[..], b"c"].map(|text| ring.write(0, &[text])))
        };
        let mut reader = ring.attach(Seek::Oldest, ReaderWait::No).unwrap();
        let mut found = read(&mut reader);
        let kept = other.join().unwrap();
        found.extend(read(&mut reader));
        assert!(found.is_sorted(), "{found:?}");
        // From where the reader began, everything that was kept was read.
        for (text, kept) in [(b'b', kept[0]), (b'c', kept[1])] {
            let begun = found.first().is_none_or(|first| *first > text);
            assert!(found.contains(&text) || !kept || begun, "{found:?} {kept:?}");
        }
        drop(reader);
        assert_eq!(ring.readers(), 0);
    });
}

/// A reader that sleeps is woken by a message (R101), however the two steps of both are interleaved.
#[test]
fn a_sleeping_reader_is_woken_by_each_message() {
    model(|| {
        let ring = ring(16);
        let woken = Arc::new(Count::new(0));
        let mut reader = {
            let woken = Arc::clone(&woken);
            let wake = move || {
                woken.fetch_add(1, Ordering::SeqCst);
            };
            ring.attach(Seek::End, ReaderWait::Woken(Box::new(wake))).unwrap()
        };
        let other = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || assert!(ring.write(0, &[b"a"])))
        };
        let asleep = reader.sleep();
        other.join().unwrap();
        assert!(!asleep || woken.load(Ordering::SeqCst) == 1, "asleep beside a message");
        assert_eq!(read(&mut reader), b"a");
    });
}

/// Two writers and a sleeper that goes back to sleep after each message (R100, R101): one writer leaves the waking to
/// the other, and the sleeper is still woken for the second message.
#[test]
fn a_waking_writer_also_wakes_for_a_concurrent_writers_message() {
    model(|| {
        let wakeup = Arc::new(SleepingReaders::new());
        let messages = Arc::new(Count::new(0));
        let woken = Arc::new(Count::new(0));
        let sleeper = {
            let woken = Arc::clone(&woken);
            let wake = move || {
                woken.fetch_add(1, Ordering::SeqCst);
            };
            wakeup.enlist(Box::new(wake))
        };
        wakeup.mark_asleep(&sleeper);
        let other = {
            let (wakeup, messages) = (Arc::clone(&wakeup), Arc::clone(&messages));
            thread::spawn(move || {
                messages.fetch_add(1, Ordering::SeqCst);
                wakeup.deliver();
            })
        };
        // The reader's part: woken once, it takes the message and goes to sleep again.
        let mut asleep = true;
        if woken.load(Ordering::SeqCst) == 1 {
            let taken = messages.swap(0, Ordering::SeqCst);
            assert_eq!(taken, 1);
            wakeup.mark_asleep(&sleeper);
            asleep = messages.load(Ordering::SeqCst) == 0;
        }
        messages.fetch_add(1, Ordering::SeqCst);
        wakeup.deliver();
        other.join().unwrap();
        // The reader slept when the second message was written, so it was woken again.
        let woken_before = usize::from(messages.load(Ordering::SeqCst) == 1);
        assert!(!asleep || woken.load(Ordering::SeqCst) > woken_before, "asleep beside a message");
        wakeup.strike(&sleeper);
    });
}

/// A reader that attaches during a delivery holds the mark briefly. The sleeping reader is still woken (R100, R101).
#[test]
fn a_reader_that_attaches_does_not_suppress_a_wake_up() {
    model(|| {
        let wakeup = Arc::new(SleepingReaders::new());
        let woken = Arc::new(Count::new(0));
        let sleeper = {
            let woken = Arc::clone(&woken);
            let wake = move || {
                woken.fetch_add(1, Ordering::SeqCst);
            };
            wakeup.enlist(Box::new(wake))
        };
        wakeup.mark_asleep(&sleeper);
        let writer = {
            let wakeup = Arc::clone(&wakeup);
            thread::spawn(move || wakeup.deliver())
        };
        let other = wakeup.enlist(Box::new(|| {}));
        writer.join().unwrap();
        assert!(woken.load(Ordering::SeqCst) >= 1, "asleep beside a message");
        wakeup.strike(&other);
        wakeup.strike(&sleeper);
    });
}
