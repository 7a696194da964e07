//! Filters that need their stream: nothing reaches them meanwhile, and nothing passes them.

use std::cell::{Cell, RefCell};

use super::*;

/// Asks the stream about each head, about each group of bytes, and at the end. It passes the bytes once it was answered.
#[derive(Default)]
struct Asking {
    state: Rc<AskingState>,
    held: Vec<u8>,
    passed_head: bool,
    has_ended: bool,
}

#[derive(Default)]
struct AskingState {
    asks: Cell<bool>,
    asked: Cell<u32>,
    wakes_at: Cell<Option<Tick>>,
}

impl Asking {
    fn ask(&self) {
        self.state.asks.set(true);
        self.state.asked.set(self.state.asked.get() + 1);
    }
}

impl Filter for Asking {
    fn head(&mut self, _: &mut Message, _: &HeadContext<'_>) -> Result<LengthChange, Failed> {
        if !std::mem::replace(&mut self.passed_head, true) {
            self.ask();
        }
        Ok(LengthChange::To(7))
    }

    fn payload(
        &mut self,
        bytes: &[u8],
        _: More,
        now: Tick,
        out: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        assert!(!self.state.asks.get(), "it waits");
        let written = out.write(&self.held);
        self.held.drain(..written);
        let is_due = self.state.wakes_at.get().is_some_and(|at| at <= now);
        if is_due {
            self.state.wakes_at.set(None);
        }
        if !bytes.is_empty() || is_due {
            self.held.extend_from_slice(bytes);
            self.ask();
        }
        Ok(Passed { count: bytes.len(), replaced: true, until: Tick::NEVER })
    }

    fn end(&mut self, _: Tick, _: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.ask();
            return Ok(false);
        }
        Ok(true)
    }

    fn awaits_stream(&self) -> bool {
        self.state.asks.get()
    }

    fn wakes_at(&self) -> Tick {
        self.state.wakes_at.get().unwrap_or(Tick::NEVER)
    }
}

/// A bench. Its second filter asks.
fn asking() -> (Bench, Rc<AskingState>) {
    let state = Rc::<AskingState>::default();
    let mut bench = Bench::new().with("first", all);
    bench.filtered.chain.push(Box::new(Asking { state: Rc::clone(&state), ..Asking::default() }));
    (bench.with("last", all), state)
}

fn feed(bench: &mut Bench, bytes: &[u8], last: bool) -> usize {
    bench.filtered.feed(bytes, last, Tick::from_ms(bench.now)).expect("no filter fails")
}

#[test]
fn a_filter_that_asks_holds_everything_up() {
    let (mut bench, state) = asking();
    assert_eq!(feed(&mut bench, b"abc", false), 3);
    assert!(state.asks.get() && bench.filtered.chain.awaits_stream());
    assert!(bench.filtered.chain.wake_at().is_never(), "time does not help");
    assert_eq!(feed(&mut bench, b"de", true), 0, "nothing is taken");
    bench.filtered.finish(Tick::from_ms(bench.now)).expect("no filter fails");
    assert!(bench.filtered.staged.is_empty() && !bench.filtered.ended);
    state.asks.set(false);
    assert_eq!(bench.filtered.chain.wake_at(), Tick::from_ms(0), "it goes on at once");
    assert_eq!(feed(&mut bench, b"de", true), 2);
    assert_eq!((bench.filtered.staged.as_slice(), state.asked.get()), (&b"abc"[..], 2));
    state.asks.set(false);
    assert_eq!(feed(&mut bench, b"", true), 0);
    bench.filtered.finish(Tick::from_ms(bench.now)).expect("no filter fails");
    assert_eq!(bench.filtered.staged, b"abcde");
    assert!(!bench.filtered.ended && state.asks.get(), "it asks at the end, too");
    bench.filtered.finish(Tick::from_ms(bench.now)).expect("no filter fails");
    assert!(!bench.filtered.ended);
    state.asks.set(false);
    bench.filtered.finish(Tick::from_ms(bench.now)).expect("no filter fails");
    assert!(bench.filtered.ended);
    assert!(bench.journal.borrow().ends_with(&["last end".to_owned()]), "{:?}", bench.journal.borrow());
}

#[test]
fn a_filter_that_accepts_more_is_woken_without_bytes() {
    let (mut bench, state) = asking();
    feed(&mut bench, b"abc", false);
    state.asks.set(false);
    state.wakes_at.set(Some(Tick::from_ms(bench.now + 20)));
    feed(&mut bench, b"", false);
    assert_eq!(bench.filtered.staged, b"abc");
    let chain = &bench.filtered.chain;
    assert_eq!((chain.wakes_at(), chain.wake_at()), (Tick::from_ms(bench.now + 20), Tick::NEVER));
    assert!(bench.filtered.wake_at().is_never(), "its output waits for the sink");
    bench.filtered.staged.clear();
    assert_eq!(bench.filtered.wake_at(), Tick::from_ms(bench.now + 20));
    assert_eq!(state.asked.get(), 1, "not before its time");
    bench.now += 20;
    feed(&mut bench, b"", false);
    assert_eq!(state.asked.get(), 2);
    assert!(bench.filtered.chain.wakes_at().is_never());
}

#[test]
fn the_filter_behind_one_that_asks_gets_the_end_with_the_last_bytes() {
    let (state, seen) = (Rc::<AskingState>::default(), Rc::<RefCell<Vec<(Vec<u8>, More)>>>::default());
    let mut bench = Bench::new();
    bench.filtered.chain.push(Box::new(Asking { state: Rc::clone(&state), ..Asking::default() }));
    let calls = Rc::clone(&seen);
    let mut bench = bench.with("next", move |bytes: &[u8], more, _, _: &mut FilterOutput<'_>| {
        calls.borrow_mut().push((bytes.to_vec(), more));
        Passed::all(bytes)
    });
    for (bytes, last) in [(&b"abc"[..], false), (b"", false), (b"de", true), (b"", true)] {
        feed(&mut bench, bytes, last);
        state.asks.set(false);
    }
    assert_eq!(*seen.borrow(), [(b"abc".to_vec(), More::Comes), (b"de".to_vec(), More::Never)]);
}

/// Changes the length of each body, and notes the one before.
struct Measuring {
    before: Rc<Cell<Option<u64>>>,
    change: LengthChange,
}

impl Filter for Measuring {
    fn head(&mut self, _: &mut Message, context: &HeadContext<'_>) -> Result<LengthChange, Failed> {
        self.before.set(context.length);
        Ok(self.change)
    }
}

#[test]
fn later_filters_see_the_length_that_earlier_ones_left() {
    use LengthChange::{None, To, Unknown};
    for (change, seen) in [(None, Some(5)), (To(7), Some(7)), (Unknown, Option::None)] {
        let (mut bench, before) = (Bench::new(), Rc::new(Cell::new(Option::None)));
        for change in [change, None] {
            bench.filtered.chain.push(Box::new(Measuring { before: Rc::clone(&before), change }));
        }
        let (mut message, now) = (Message::new(10), Tick::from_ms(bench.now));
        let context = HeadContext { request: Option::None, length: Some(5), is_delimited: true, now };
        assert_eq!(bench.filtered.chain.head(&mut message, &context, false), Ok(HeadPassage::Passed(change)));
        assert_eq!(before.get(), seen);
    }
}

#[test]
fn a_head_waits_at_the_filter_that_asks() {
    let (mut bench, state) = asking();
    let mut message = Message::new(10);
    let context =
        HeadContext { request: None, length: None, is_delimited: true, now: Tick::from_ms(bench.now) };
    let mut pass = |is_whole| bench.filtered.chain.head(&mut message, &context, is_whole);
    assert_eq!(pass(true), Ok(HeadPassage::AwaitsStream));
    state.asks.set(false);
    // A message that ends with its head asks at its end, too. It cannot get a body.
    assert_eq!((pass(true), state.asked.get()), (Ok(HeadPassage::AwaitsStream), 2));
    state.asks.set(false);
    assert_eq!((pass(true), state.asked.get()), (Ok(HeadPassage::Passed(LengthChange::None)), 2));
    bench.filtered.chain.begin();
    let context =
        HeadContext { request: None, length: None, is_delimited: true, now: Tick::from_ms(bench.now) };
    let passed = bench.filtered.chain.head(&mut message, &context, false);
    assert_eq!(passed, Ok(HeadPassage::Passed(LengthChange::To(7))));
}

#[test]
fn later_filters_change_the_length_that_earlier_ones_left() {
    use LengthChange::{None, To, Unknown};
    for (one, next, both) in [
        (None, None, None),
        (None, To(3), To(3)),
        (Unknown, None, Unknown),
        (To(3), None, To(3)),
        (To(3), Unknown, Unknown),
        (Unknown, To(5), To(5)),
        (To(3), To(5), To(5)),
    ] {
        assert_eq!(one.and(next), both, "{one:?}, {next:?}");
    }
}
