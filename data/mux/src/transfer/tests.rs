//! Filters on payload: order, holding back, replacing, framing, for any split of the bytes.

use std::cell::RefCell;
use std::rc::Rc;

use weir_sched::simulate::network::{SimulatedNetwork, SimulatedPeer};
use weir_sched::sleep_until;

use super::*;
use crate::body::tests::{arrived, pair, run};
use crate::filter::{FilterOutput, HeadContext, More, Passed};

mod asking;

/// The events in order, each with its filter.
type Journal = Rc<RefCell<Vec<String>>>;

/// A filter that passes the output of its function, and records its input.
struct ScriptedFilter<F> {
    name: &'static str,
    journal: Journal,
    script: F,
    at_end: &'static [u8],
}

impl<F: FnMut(&[u8], More, Tick, &mut FilterOutput<'_>) -> Passed> Filter for ScriptedFilter<F> {
    fn payload(
        &mut self,
        bytes: &[u8],
        more: More,
        now: Tick,
        out: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        let passed = (self.script)(bytes, more, now, out);
        let text = String::from_utf8_lossy(bytes);
        self.journal.borrow_mut().push(format!("{} {text} {}", self.name, passed.count));
        Ok(passed)
    }

    fn idle(&mut self, _: Tick, _: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        self.journal.borrow_mut().push(format!("{} idle", self.name));
        Ok(true)
    }

    fn restart(&mut self) {
        self.journal.borrow_mut().push(format!("{} restart", self.name));
    }

    fn trailers(&mut self, trailers: &mut Trailers, _: Tick) {
        if !trailers.is_empty() {
            trailers.remove(b"gone");
            assert!(trailers.add(self.name.as_bytes(), b"1"));
        }
    }

    fn end(&mut self, _: Tick, out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        self.journal.borrow_mut().push(format!("{} end", self.name));
        out.write(self.at_end);
        Ok(true)
    }
}

fn scripted<F: FnMut(&[u8], More, Tick, &mut FilterOutput<'_>) -> Passed + 'static>(
    name: &'static str,
    journal: &Journal,
    script: F,
) -> Box<dyn Filter> {
    Box::new(ScriptedFilter { name, journal: Rc::clone(journal), script, at_end: b"" })
}

/// The filters of a transfer, without connectors.
struct Bench {
    filtered: FilteredBytes,
    journal: Journal,
    now: u64,
    sent: Vec<u8>,
}

const LIMIT: usize = 16;

impl Bench {
    fn new() -> Self {
        Bench {
            filtered: FilteredBytes::new(LIMIT),
            journal: Journal::default(),
            now: 1000,
            sent: Vec::new(),
        }
    }

    fn with(
        mut self,
        name: &'static str,
        script: impl FnMut(&[u8], More, Tick, &mut FilterOutput<'_>) -> Passed + 'static,
    ) -> Self {
        self.filtered.chain.push(scripted(name, &self.journal, script));
        self
    }

    /// Offers pieces of these sizes, the last size for all further ones; waits when a filter does. Returns the time in
    /// ms.
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
            taken += self.filtered.feed(&payload[taken..there], last, now).expect("no filter fails");
            // A spurious wake-up changes nothing.
            taken += self.filtered.feed(&payload[taken..there], last, now).expect("no filter fails");
            if last && taken == there {
                self.filtered.finish(now).expect("no filter fails");
            }
            self.sent.append(&mut self.filtered.staged);
            let held = self.filtered.chain.held();
            assert!(held.iter().all(|held| *held <= 2 * LIMIT), "a filter's room: {held:?}");
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

fn all(bytes: &[u8], _: More, _: Tick, _: &mut FilterOutput<'_>) -> Passed {
    Passed::all(bytes)
}

/// Passes at most `most` bytes, then waits.
fn slowly(most: usize, wait_ms: u64) -> impl FnMut(&[u8], More, Tick, &mut FilterOutput<'_>) -> Passed {
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

/// Passes only whole groups of `size` bytes, while more may arrive.
fn grouped(size: usize) -> impl FnMut(&[u8], More, Tick, &mut FilterOutput<'_>) -> Passed {
    move |bytes, more, _, _| {
        let count = if more == More::Never { bytes.len() } else { bytes.len() / size * size };
        Passed { count, replaced: false, until: Tick::NEVER }
    }
}

/// Outputs each letter twice, in capitals.
fn doubled(bytes: &[u8], _: More, _: Tick, out: &mut FilterOutput<'_>) -> Passed {
    let count = bytes.len().min(out.room() / 2);
    let twice = bytes[..count].iter().flat_map(|byte| [byte.to_ascii_uppercase(); 2]);
    out.write(&twice.collect::<Vec<u8>>());
    let until = if count == bytes.len() { Tick::NEVER } else { Tick::from_ms(0) };
    Passed { count, replaced: true, until }
}

const PAYLOAD: &str = "abcdefghijklmnopqrstuvwxyz0123456789";

/// Runs the same filters over the payload, split at every position and into pieces of every size.
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
fn a_filter_added_first_sees_the_unchanged_bytes() {
    let replace = |bytes: &[u8], _: More, _: Tick, out: &mut FilterOutput<'_>| {
        out.write(b"x");
        Passed { replaced: true, ..Passed::all(bytes) }
    };
    let mut bench = Bench::new().with("late", replace);
    let pass = scripted("first", &bench.journal, |bytes, _, _, _| Passed::all(bytes));
    bench.filtered.chain.push_first(pass);
    bench.run(b"abc", &[3]);
    assert_eq!((bench.sent.as_slice(), bench.journal.borrow()[0].as_str()), (&b"x"[..], "first abc 3"));
}

#[test]
fn filters_that_only_delay_keep_the_payload_unchanged() {
    check(|bench| bench.with("a", all), PAYLOAD);
    check(|bench| bench.with("a", all).with("b", all).with("c", all), PAYLOAD);
    check(|bench| bench.with("a", slowly(3, 10)), PAYLOAD);
    check(|bench| bench.with("a", slowly(7, 10)).with("b", slowly(2, 30)), PAYLOAD);
    check(|bench| bench.with("a", grouped(5)), PAYLOAD);
    check(|bench| bench.with("a", grouped(5)).with("b", grouped(7)).with("c", slowly(4, 1)), PAYLOAD);
    check(|bench| bench.with("a", slowly(4, 1)).with("b", grouped(9)), PAYLOAD);
    // A group above the limit of held bytes passes ungrouped.
    check(|bench| bench.with("a", grouped(LIMIT + 1)), PAYLOAD);
}

#[test]
fn later_filters_and_the_sink_receive_replaced_payload() {
    let want: String = PAYLOAD.to_uppercase().chars().flat_map(|letter| [letter, letter]).collect();
    check(|bench| bench.with("a", doubled), &want);
    check(|bench| bench.with("a", slowly(3, 5)).with("b", doubled).with("c", grouped(4)), &want);
    let nothing = |bytes: &[u8], _: More, _: Tick, _: &mut FilterOutput<'_>| Passed {
        replaced: true,
        ..Passed::all(bytes)
    };
    check(move |bench| bench.with("a", doubled).with("b", nothing), "");
}

#[test]
fn each_filter_sees_payload_passed_by_the_earlier_filters_in_order() {
    let mut bench = Bench::new().with("a", slowly(4, 10)).with("b", doubled).with("c", all);
    let took = bench.run(b"abcdef", &[100]);
    let seen = bench.journal.borrow().join(", ");
    let want = "a abcdef 4, b abcd 4, c AABBCCDD 8, a ef 2, b ef 2, c EEFF 4, a end, b end, c end";
    assert_eq!((seen.as_str(), took), (want, 10));
}

#[test]
fn bytes_that_a_filter_holds_stay_at_the_source() {
    let mut bench = Bench::new().with("a", slowly(4, 10)).with("b", all);
    let (first, later) = (Tick::from_ms(1000), Tick::from_ms(1009));
    assert_eq!(bench.filtered.feed(b"abcdefgh", false, first), Ok(4));
    assert_eq!(bench.filtered.chain.wake_at(), Tick::from_ms(1010));
    assert_eq!(bench.filtered.feed(b"efgh", false, later), Ok(0));
    assert_eq!(bench.filtered.staged, b"abcd");
    assert_eq!(bench.filtered.feed(b"efgh", false, Tick::from_ms(1010)), Ok(4));
    assert_eq!((&bench.filtered.staged[..], bench.filtered.chain.wake_at()), (&b"abcdefgh"[..], Tick::NEVER));
}

#[test]
fn a_filter_that_holds_bytes_stops_the_earlier_filters() {
    let mut bench = Bench::new().with("a", all).with("b", slowly(1, 1000));
    assert_eq!(bench.filtered.feed(b"abc", false, Tick::from_ms(5)), Ok(3));
    for ms in [6, 7, 1004] {
        assert_eq!(bench.filtered.feed(b"defghi", false, Tick::from_ms(ms)), Ok(0), "{ms}");
    }
    assert_eq!((bench.filtered.staged.as_slice(), bench.journal.borrow().len()), (&b"a"[..], 2));
    assert_eq!(bench.filtered.feed(b"", false, Tick::from_ms(1005)), Ok(0));
    assert_eq!(bench.filtered.staged, b"ab");
}

#[test]
fn at_most_one_piece_is_staged_for_the_sink() {
    let mut bench = Bench::new().with("a", all);
    let bytes = vec![b'x'; 100 * LIMIT];
    assert_eq!(bench.filtered.feed(&bytes, false, Tick::from_ms(5)), Ok(LIMIT));
    assert_eq!(bench.filtered.feed(&bytes, false, Tick::from_ms(5)), Ok(0), "the sink has taken none");
}

#[test]
fn bytes_that_a_filter_adds_at_eof_pass_the_later_filters() {
    let mut bench = Bench::new();
    let journal = Rc::clone(&bench.journal);
    let first = ScriptedFilter { name: "a", journal, script: all, at_end: b"xyz" };
    bench.filtered.chain.push(Box::new(first));
    let mut bench = bench.with("b", slowly(2, 10)).with("c", doubled);
    let took = bench.run(b"abc", &[100]);
    assert_eq!(bench.payload(), "AABBCCXXYYZZ");
    assert!(took >= 20, "{took}");
    assert_eq!(bench.journal.borrow().last().map(String::as_str), Some("c end"));
}

#[test]
fn a_filter_waiting_for_more_data_does_not_hold_the_body_at_eof() {
    let never = |bytes: &[u8], _: More, _: Tick, _: &mut FilterOutput<'_>| Passed {
        count: 0,
        replaced: false,
        ..Passed::all(bytes)
    };
    check(move |bench| bench.with("a", never), PAYLOAD);
    check(move |bench| bench.with("a", all).with("b", never).with("c", never), PAYLOAD);
}

#[test]
fn filters_restart_with_the_next_body() {
    let mut bench = Bench::new().with("a", slowly(2, 1000));
    bench.filtered.feed(b"abcde", false, Tick::from_ms(5)).expect("it passes");
    bench.filtered.begin(&BodyFlow::tunnel());
    let mut bench = Bench { now: 5000, ..bench };
    assert!(!bench.filtered.is_done());
    bench.run(b"xyz", &[3]);
    assert_eq!(bench.payload(), "xyz");
    bench.filtered.begin(&BodyFlow::done());
    assert!(bench.filtered.is_done(), "there is nothing to pass");
}

/// Outputs `left` bytes during the calls named `at`, as many per call as fit.
struct Eager {
    journal: Journal,
    left: usize,
    at: &'static str,
    kept: Vec<u8>,
}

impl Eager {
    fn put(&mut self, at: &str, out: &mut FilterOutput<'_>) -> bool {
        if self.at != at {
            return true;
        }
        self.journal.borrow_mut().push(format!("{at} {}", out.room()));
        let bytes = vec![b'+'; self.left];
        self.left -= out.write(&bytes);
        self.left == 0
    }
}

impl Filter for Eager {
    fn payload(
        &mut self,
        bytes: &[u8],
        _: More,
        now: Tick,
        out: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        self.kept.extend_from_slice(bytes);
        if self.put("payload", out) {
            let count = out.write(&self.kept);
            self.kept.drain(..count);
        }
        let until = if self.left == 0 || self.at != "payload" { Tick::NEVER } else { now };
        Ok(Passed {
            replaced: true,
            until: if self.kept.is_empty() { until } else { now },
            ..Passed::all(bytes)
        })
    }

    fn idle(&mut self, _: Tick, out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        Ok(self.put("idle", out))
    }

    fn end(&mut self, _: Tick, out: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        Ok(self.put("end", out))
    }
}

#[test]
fn filter_output_is_limited_in_each_call() {
    for at in ["payload", "end"] {
        let mut bench = Bench::new();
        let journal = Rc::clone(&bench.journal);
        bench.filtered.chain.push(Box::new(Eager { journal, left: 100 * LIMIT, at, kept: Vec::new() }));
        let mut bench = bench.with("slow", slowly(1, 1)).with("last", all);
        // Another body follows. No state of the first one remains.
        bench.run(b"abc", &[1]);
        assert_eq!((bench.sent.len(), bench.payload().trim_matches('+')), (100 * LIMIT + 3, "abc"), "{at}");
        let calls = bench.journal.borrow().iter().filter(|line| line.starts_with(at)).count();
        assert!((100..=110).contains(&calls), "{at}: {calls} calls");
    }
}

#[test]
fn a_filter_that_announces_output_without_any_fails() {
    /// Announces more output forever, without any.
    struct Empty;
    impl Filter for Empty {
        fn idle(&mut self, _: Tick, _: &mut FilterOutput<'_>) -> Result<bool, Failed> {
            Ok(false)
        }
        fn end(&mut self, _: Tick, _: &mut FilterOutput<'_>) -> Result<bool, Failed> {
            Ok(false)
        }
    }
    let mut bench = Bench::new();
    bench.filtered.chain.push(Box::new(Empty));
    let (now, mut out) = (Tick::from_ms(5), Vec::new());
    assert_eq!(bench.filtered.feed(b"abc", false, now), Ok(3));
    assert_eq!(bench.filtered.chain.idle(now, &mut out), Err(Failed));
    assert_eq!(bench.filtered.finish(now), Err(Failed));
}

#[test]
fn a_filter_call_without_effect_is_repeated_only_at_the_next_tick() {
    let nothing = |_: &[u8], _: More, now: Tick, _: &mut FilterOutput<'_>| Passed {
        count: 0,
        replaced: false,
        until: now,
    };
    let mut bench = Bench::new().with("a", nothing);
    for ms in [5, 6, 7] {
        assert_eq!(bench.filtered.feed(b"abc", false, Tick::from_ms(ms)), Ok(0));
        assert_eq!(bench.filtered.chain.wake_at(), Tick::from_ms(ms + 1));
    }
    assert_eq!(bench.journal.borrow().len(), 3);
}

#[test]
fn filters_are_notified_of_a_pause_once() {
    let mut bench = Bench::new().with("a", all);
    let journal = Rc::clone(&bench.journal);
    bench.filtered.chain.push(Box::new(Eager { journal, left: LIMIT + 1, at: "idle", kept: Vec::new() }));
    let mut bench = bench.with("b", all);
    let (now, mut out) = (Tick::from_ms(5), Vec::new());
    bench.filtered.chain.idle(now, &mut out).expect("nothing fails");
    assert!(bench.journal.borrow().is_empty(), "nothing was seen");
    assert_eq!(bench.filtered.feed(b"xy", false, now), Ok(2));
    bench.journal.borrow_mut().clear();
    for _ in 0..3 {
        bench.filtered.chain.idle(now, &mut out).expect("nothing fails");
    }
    let journal = bench.journal.borrow().join(", ");
    let want = "a idle, idle 16, b ++++++++++++++++ 16, idle 16, b + 1, b idle";
    assert_eq!((journal.as_str(), out.len()), (want, LIMIT + 1));
}

/// Fails in one of its calls.
struct Failing(&'static str);

impl Failing {
    fn call<T>(&self, name: &str, value: T) -> Result<T, Failed> {
        if self.0 == name { Err(Failed) } else { Ok(value) }
    }
}

impl Filter for Failing {
    fn head(&mut self, _: &mut Message, context: &HeadContext<'_>) -> Result<LengthChange, Failed> {
        self.call(if context.request.is_some() { "answer" } else { "head" }, LengthChange::None)
    }

    fn payload(
        &mut self,
        bytes: &[u8],
        _: More,
        _: Tick,
        _: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        self.call("payload", Passed::all(bytes))
    }

    fn idle(&mut self, _: Tick, _: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        self.call("idle", true)
    }

    fn end(&mut self, _: Tick, _: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        self.call("end", true)
    }
}

/// A transfer with this filter between two connections. The far end of the source sent `bytes`.
async fn filtered_pair(
    network: &SimulatedNetwork,
    bytes: &[u8],
    filter: Box<dyn Filter>,
) -> (Transfer, [StreamConnector; 2], [SimulatedPeer; 2]) {
    let ((source, from), (sink, far)) = (pair(network, 80).await, pair(network, 81).await);
    from.send(bytes).await.expect("it stands");
    sleep_until(weir_sched::now().after(50)).await;
    let mut transfer = Transfer::done();
    transfer.begin(BodyFlow::tunnel());
    transfer.add(Box::new(Slow), LIMIT);
    transfer.add(filter, LIMIT);
    (transfer, [source, sink], [from, far])
}

/// Has a position in the order, and ignores payload.
struct Slow;
impl Filter for Slow {}

#[test]
fn a_filter_failure_ends_the_transfer() {
    run(|network| async move {
        for name in ["payload", "idle", "end"] {
            let failing = Box::new(Failing(name));
            let (mut transfer, [mut source, mut sink], [from, _far]) =
                filtered_pair(&network, b"abc", failing).await;
            if name == "end" {
                from.finish();
                sleep_until(weir_sched::now().after(50)).await;
            }
            assert_eq!(transfer.advance(&mut source, &mut sink), FlowState::Refused, "{name}");
        }
        let mut message = Message::new(10);
        for (name, request) in [("head", None), ("answer", Some(Message::new(10)))] {
            let mut transfer = Transfer::done();
            transfer.add(Box::new(Failing(name)), LIMIT);
            assert_eq!(transfer.head(&mut message, request.as_ref()), Err(Failed), "{name}");
        }
    });
}

/// Ignores every body.
struct Ignoring;
impl Filter for Ignoring {
    fn ignores_body(&self) -> bool {
        true
    }
}

#[test]
fn filters_are_removed_if_all_of_them_ignore_the_body() {
    for others in [false, true] {
        let mut transfer = Transfer::done();
        transfer.begin(BodyFlow::tunnel());
        transfer.add(Box::new(Ignoring), LIMIT);
        if others {
            transfer.add(Box::new(Slow), LIMIT);
        }
        assert!(transfer.is_filtered());
        assert_eq!(transfer.head(&mut Message::new(10), None), Ok(HeadPassage::Passed(LengthChange::None)));
        assert_eq!(transfer.is_filtered(), others);
    }
}

#[test]
fn a_resent_body_passes_restarted_filters() {
    run(|network| async move {
        let journal = Journal::default();
        let filter = scripted("a", &journal, slowly(2, 10));
        let (mut transfer, [mut source, mut sink], [_from, far]) =
            filtered_pair(&network, b"NEXT", filter).await;
        let mut head = Head::new();
        head.note(weir_http::HeadFlags::CHUNKED);
        let kept = Rc::new(KeptBody::new(b"abcde".to_vec(), b"Gone: 1\r\nT: 2\r\n".to_vec()));
        for _ in 0..2 {
            transfer.repeat(&kept);
            transfer.aim(&sink, &head);
            assert!(!transfer.is_done());
            let mut pauses = 0;
            while transfer.advance(&mut source, &mut sink) != FlowState::Done {
                assert!(!transfer.wake_at().is_never());
                sleep_until(transfer.wake_at()).await;
                pauses += 1;
            }
            assert!(transfer.is_done() && pauses >= 2, "{pauses}");
        }
        assert!(source.input().is_empty(), "the client's next bytes are not looked at");
        sink.shut_write();
        let once = "2\r\nab\r\n2\r\ncd\r\n1\r\ne\r\n0\r\nT: 2\r\na: 1\r\n\r\n";
        assert_eq!(arrived(&far).await, once.repeat(2));
        assert_eq!(journal.borrow().iter().filter(|line| *line == "a restart").count(), 2);
    });
}
