//! Filters on payload: order, holding back, replacing, framing, whatever pieces the bytes come in.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::filter::{More, Passed};

/// The events in order: which filter, and what.
type Journal = Rc<RefCell<Vec<String>>>;

/// A filter that lets pass what its function says, and records what it saw.
struct Scripted<F> {
    name: &'static str,
    journal: Journal,
    script: F,
    at_end: &'static [u8],
}

impl<F: FnMut(&[u8], More, Tick, &mut Vec<u8>) -> Passed> Filter for Scripted<F> {
    fn payload(&mut self, bytes: &[u8], more: More, now: Tick, out: &mut Vec<u8>) -> Passed {
        let passed = (self.script)(bytes, more, now, out);
        let text = String::from_utf8_lossy(bytes);
        self.journal.borrow_mut().push(format!("{} {text} {}", self.name, passed.count));
        passed
    }

    fn trailers(&mut self, trailers: &mut Trailers, _: Tick) {
        if !trailers.is_empty() {
            trailers.remove(b"gone");
            assert!(trailers.add(self.name.as_bytes(), b"1"));
        }
    }

    fn end(&mut self, _: Tick, out: &mut Vec<u8>) {
        self.journal.borrow_mut().push(format!("{} end", self.name));
        out.extend_from_slice(self.at_end);
    }
}

fn scripted<F: FnMut(&[u8], More, Tick, &mut Vec<u8>) -> Passed + 'static>(
    name: &'static str,
    journal: &Journal,
    script: F,
) -> Box<dyn Filter> {
    Box::new(Scripted { name, journal: Rc::clone(journal), script, at_end: b"" })
}

/// A transfer without connectors: the filters.
struct Bench {
    filtered: Filtered,
    journal: Journal,
    now: u64,
    sent: Vec<u8>,
}

const LIMIT: usize = 16;

impl Bench {
    fn new() -> Self {
        Bench { filtered: Filtered::new(LIMIT), journal: Journal::default(), now: 1000, sent: Vec::new() }
    }

    fn with(
        mut self,
        name: &'static str,
        script: impl FnMut(&[u8], More, Tick, &mut Vec<u8>) -> Passed + 'static,
    ) -> Self {
        self.filtered.chain.push(scripted(name, &self.journal, script));
        self
    }

    /// Offers pieces of these sizes, the last size for all further ones; waits where a filter says so. Returns the time that took, in ms.
    fn run(&mut self, payload: &[u8], sizes: &[usize]) -> u64 {
        let began = self.now;
        let (mut there, mut taken, mut turn) = (0, 0, 0);
        for _ in 0..10_000 {
            if there < payload.len() {
                there = (there + sizes[turn.min(sizes.len() - 1)]).min(payload.len());
                turn += 1;
            }
            let now = Tick::from_ms(self.now);
            let last = there == payload.len();
            taken += self.filtered.feed(&payload[taken..there], last, now);
            if last && taken == there {
                self.filtered.finish(now);
            }
            self.sent.append(&mut self.filtered.staged);
            if self.filtered.ended {
                return self.now - began;
            }
            let wake = self.filtered.chain.wake_at();
            if !wake.is_never() && wake > now {
                self.now = wake.as_ms();
            }
        }
        panic!("it does not end: {taken} of {} taken, {:?}", payload.len(), self.journal.borrow());
    }

    /// The payload at the sink.
    fn payload(&self) -> String {
        String::from_utf8_lossy(&self.sent).into_owned()
    }
}

fn all(bytes: &[u8], _: More, _: Tick, _: &mut Vec<u8>) -> Passed {
    Passed::all(bytes)
}

/// At most `most` bytes, then a wait.
fn slowly(most: usize, wait_ms: u64) -> impl FnMut(&[u8], More, Tick, &mut Vec<u8>) -> Passed {
    let mut next = Tick::from_ms(0);
    move |bytes, _, now, _| {
        if next > now {
            return Passed { count: 0, replaced: false, until: next };
        }
        let count = bytes.len().min(most);
        next = now.after(wait_ms);
        Passed { count, replaced: false, until: if count == bytes.len() { Tick::NEVER } else { next } }
    }
}

/// Only whole groups of `size` bytes, while more may come.
fn grouped(size: usize) -> impl FnMut(&[u8], More, Tick, &mut Vec<u8>) -> Passed {
    move |bytes, more, _, _| {
        let count = if more == More::Never { bytes.len() } else { bytes.len() / size * size };
        Passed { count, replaced: false, until: Tick::NEVER }
    }
}

/// Each letter twice, in capitals.
fn doubled(bytes: &[u8], _: More, _: Tick, out: &mut Vec<u8>) -> Passed {
    out.extend(bytes.iter().flat_map(|byte| [byte.to_ascii_uppercase(); 2]));
    Passed { replaced: true, ..Passed::all(bytes) }
}

const PAYLOAD: &str = "abcdefghijklmnopqrstuvwxyz0123456789";

/// Runs the same filters over the payload, cut at every place and into pieces of every size.
#[track_caller]
fn check(filters: impl Fn(Bench) -> Bench, want: &str) {
    let cuts = (1..=PAYLOAD.len()).map(|cut| vec![cut, PAYLOAD.len()]);
    for sizes in cuts.chain((1..=PAYLOAD.len()).map(|size| vec![size])) {
        let mut bench = filters(Bench::new());
        bench.filtered.trailers.append(b"Gone: 1\r\nStays: 2\r\n");
        bench.run(PAYLOAD.as_bytes(), &sizes);
        assert_eq!(bench.payload(), want, "{sizes:?}");
        let trailers = String::from_utf8_lossy(bench.filtered.trailers.as_bytes());
        assert!(trailers.starts_with("Stays: 2\r\n") && !trailers.contains("Gone"), "{trailers}");
    }
}

#[test]
fn what_filters_let_through_is_what_came() {
    check(|bench| bench.with("a", all), PAYLOAD);
    check(|bench| bench.with("a", all).with("b", all).with("c", all), PAYLOAD);
    check(|bench| bench.with("a", slowly(3, 10)), PAYLOAD);
    check(|bench| bench.with("a", slowly(7, 10)).with("b", slowly(2, 30)), PAYLOAD);
    check(|bench| bench.with("a", grouped(5)), PAYLOAD);
    check(|bench| bench.with("a", grouped(5)).with("b", grouped(7)).with("c", slowly(4, 1)), PAYLOAD);
    check(|bench| bench.with("a", slowly(4, 1)).with("b", grouped(9)), PAYLOAD);
    // A group that is larger than what is kept passes as it comes.
    check(|bench| bench.with("a", grouped(LIMIT + 1)), PAYLOAD);
}

#[test]
fn what_filters_replace_is_what_goes_on() {
    let want: String = PAYLOAD.to_uppercase().chars().flat_map(|letter| [letter, letter]).collect();
    check(|bench| bench.with("a", doubled), &want);
    check(|bench| bench.with("a", slowly(3, 5)).with("b", doubled).with("c", grouped(4)), &want);
    let nothing =
        |bytes: &[u8], _: More, _: Tick, _: &mut Vec<u8>| Passed { replaced: true, ..Passed::all(bytes) };
    check(move |bench| bench.with("a", doubled).with("b", nothing), "");
}

#[test]
fn filters_see_payload_in_their_order_and_only_what_those_before_let_through() {
    let mut bench = Bench::new().with("a", slowly(4, 10)).with("b", doubled).with("c", all);
    let took = bench.run(b"abcdef", &[100]);
    let seen = bench.journal.borrow().join(", ");
    let want = "a abcdef 4, b abcd 4, c AABBCCDD 8, a ef 2, b ef 2, c EEFF 4, a end, b end, c end";
    assert_eq!((seen.as_str(), took), (want, 10));
}

#[test]
fn what_a_filter_holds_back_stays_at_the_source() {
    let mut bench = Bench::new().with("a", slowly(4, 10)).with("b", all);
    let (first, later) = (Tick::from_ms(1000), Tick::from_ms(1009));
    assert_eq!(bench.filtered.feed(b"abcdefgh", false, first), 4);
    assert_eq!(bench.filtered.chain.wake_at(), Tick::from_ms(1010));
    assert_eq!(bench.filtered.feed(b"efgh", false, later), 0);
    assert_eq!(bench.filtered.staged, b"abcd");
    assert_eq!(bench.filtered.feed(b"efgh", false, Tick::from_ms(1010)), 4);
    assert_eq!((&bench.filtered.staged[..], bench.filtered.chain.wake_at()), (&b"abcdefgh"[..], Tick::NEVER));
}

#[test]
fn a_later_filter_that_holds_back_stops_those_before_it() {
    let mut bench = Bench::new().with("a", all).with("b", slowly(1, 1000));
    assert_eq!(bench.filtered.feed(b"abc", false, Tick::from_ms(5)), 3);
    for ms in [6, 7, 1004] {
        assert_eq!(bench.filtered.feed(b"defghi", false, Tick::from_ms(ms)), 0, "{ms}");
    }
    assert_eq!((bench.filtered.staged.as_slice(), bench.journal.borrow().len()), (&b"a"[..], 2));
    assert_eq!(bench.filtered.feed(b"", false, Tick::from_ms(1005)), 0);
    assert_eq!(bench.filtered.staged, b"ab");
}

#[test]
fn no_more_is_staged_than_a_piece() {
    let mut bench = Bench::new().with("a", all);
    let bytes = vec![b'x'; 100 * LIMIT];
    assert_eq!(bench.filtered.feed(&bytes, false, Tick::from_ms(5)), LIMIT);
    assert_eq!(bench.filtered.feed(&bytes, false, Tick::from_ms(5)), 0, "the sink has taken none");
}

#[test]
fn what_a_filter_adds_at_the_end_passes_those_behind_it() {
    let mut bench = Bench::new();
    let journal = Rc::clone(&bench.journal);
    let first = Scripted { name: "a", journal, script: all, at_end: b"xyz" };
    bench.filtered.chain.push(Box::new(first));
    let mut bench = bench.with("b", slowly(2, 10)).with("c", doubled);
    let took = bench.run(b"abc", &[100]);
    assert_eq!(bench.payload(), "AABBCCXXYYZZ");
    assert!(took >= 20, "{took}");
    assert_eq!(bench.journal.borrow().last().map(String::as_str), Some("c end"));
}

#[test]
fn a_filter_that_waits_for_what_does_not_come_stops_nothing() {
    let never = |bytes: &[u8], _: More, _: Tick, _: &mut Vec<u8>| Passed {
        count: 0,
        replaced: false,
        ..Passed::all(bytes)
    };
    check(move |bench| bench.with("a", never), PAYLOAD);
    check(move |bench| bench.with("a", all).with("b", never).with("c", never), PAYLOAD);
}

#[test]
fn another_body_begins_anew() {
    let mut bench = Bench::new().with("a", slowly(2, 1000));
    bench.filtered.feed(b"abcde", false, Tick::from_ms(5));
    bench.filtered.begin(&BodyFlow::tunnel());
    let mut bench = Bench { now: 5000, ..bench };
    assert!(!bench.filtered.is_done());
    bench.run(b"xyz", &[3]);
    assert_eq!(bench.payload(), "xyz");
    bench.filtered.begin(&BodyFlow::done());
    assert!(bench.filtered.is_done(), "there is nothing to pass");
}
