//! The mailbox behind a chain, for any split of the bytes.

use weir_mux::FilterChain;
use weir_scripts::FilterResult::{self, Nothing, Value};

use super::*;

const LIMIT: usize = 16;

/// A mailbox in a chain, and the function of a script that answers its calls.
struct Bench {
    mailbox: Rc<RefCell<FilterMailbox>>,
    chain: FilterChain,
    now: u64,
    out: Vec<u8>,
    calls: Vec<String>,
}

impl Bench {
    fn new() -> Self {
        let mailbox = Rc::new(RefCell::new(FilterMailbox::new(true, LIMIT)));
        mailbox.borrow_mut().wants_payload = true;
        let mut chain = FilterChain::new(LIMIT);
        chain.push(Box::new(MailboxFilter(Rc::clone(&mailbox))));
        Bench { mailbox, chain, now: 1_000, out: Vec::new(), calls: Vec::new() }
    }

    /// Answers the call that the mailbox requests. Returns whether there was one.
    fn answer(
        &mut self,
        script: &mut impl FnMut(&mut FilteredPayload) -> (FilterResult, Option<u64>),
    ) -> bool {
        let mut mailbox = self.mailbox.borrow_mut();
        match mailbox.asks {
            None => return false,
            Some(FilterAsk::Headers) => mailbox.end_headers(None),
            Some(FilterAsk::End) => {
                self.calls.push("end".to_owned());
                mailbox.end_message();
            }
            Some(FilterAsk::Payload) => {
                let end = if mailbox.payload.has_end() { "|" } else { "" };
                self.calls.push(format!("{}{end}", String::from_utf8_lossy(mailbox.payload.incoming())));
                let (result, wake_ms) = script(&mut mailbox.payload);
                let wake = wake_ms.map_or(Tick::NEVER, |ms| Tick::from_ms(self.now + ms));
                if mailbox.end_payload(result, wake).is_err() {
                    mailbox.fail();
                }
            }
        }
        true
    }

    /// Offers pieces of this size. `ends_late` if the end is only known after the last byte. Returns whether the message ended.
    fn run(
        &mut self,
        payload: &[u8],
        size: usize,
        ends_late: bool,
        mut script: impl FnMut(&mut FilteredPayload) -> (FilterResult, Option<u64>),
    ) -> Result<(), Failed> {
        let (mut there, mut taken) = (0, 0);
        for _ in 0..10_000 {
            there = payload.len().min(there + size);
            let now = Tick::from_ms(self.now);
            let is_last = there == payload.len();
            taken += self.chain.offer(&payload[taken..there], is_last && !ends_late, now, &mut self.out)?;
            if self.answer(&mut script) {
                continue;
            }
            let trailers = &mut weir_mux::Trailers::default();
            if is_last && taken == there && self.chain.end(trailers, now, &mut self.out)? {
                return Ok(());
            }
            if !self.answer(&mut script) {
                let wake = self.chain.wake_at().min(self.chain.wakes_at());
                if !wake.is_never() {
                    self.now = self.now.max(wake.as_ms());
                }
            }
        }
        self.calls.truncate(20);
        panic!("it does not end: {:?}, {:?}", self.calls, self.mailbox);
    }
}

const PAYLOAD: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// Runs the same script over the payload, in pieces of every size and with both kinds of end.
#[track_caller]
fn check(script: fn(&mut FilteredPayload) -> (FilterResult, Option<u64>), want: &[u8]) {
    for size in 1..=PAYLOAD.len() {
        for ends_late in [false, true] {
            let mut bench = Bench::new();
            assert_eq!(bench.run(PAYLOAD, size, ends_late, script), Ok(()), "{size}");
            assert_eq!(
                String::from_utf8_lossy(&bench.out),
                String::from_utf8_lossy(want),
                "{size}, {ends_late}"
            );
            assert_eq!(bench.calls.last().map(String::as_str), Some("end"));
            let ends = bench.calls.iter().filter(|call| call.ends_with('|')).count();
            assert!(ends >= 1, "the script sees the end: {:?}", bench.calls);
        }
    }
}

#[test]
fn a_script_that_returns_nothing_lets_all_pass() {
    check(|_| (Nothing, None), PAYLOAD);
}

#[test]
fn a_script_lets_a_number_of_bytes_pass() {
    check(|_| (Value(Some(1)), None), PAYLOAD);
    check(
        |payload| {
            payload.forward(2);
            (Value(Some(1)), None)
        },
        PAYLOAD,
    );
}

#[test]
fn a_script_that_waits_for_a_time_is_called_again() {
    let mut calls = 0;
    let mut bench = Bench::new();
    let slow = move |payload: &mut FilteredPayload| {
        calls += 1;
        if calls % 2 == 1 && !payload.incoming().is_empty() {
            return (Value(Some(0)), Some(10));
        }
        (Nothing, None)
    };
    assert_eq!(bench.run(b"abcdef", 6, false, slow), Ok(()));
    assert_eq!((bench.out.as_slice(), bench.now), (&b"abcdef"[..], 1_010));
    assert_eq!(bench.calls, ["abcdef|", "abcdef|", "end"]);
}

#[test]
fn more_bytes_wake_a_script_that_waits_for_a_time() {
    let mut bench = Bench::new();
    let script = |payload: &mut FilteredPayload| match payload.incoming().len() {
        0..4 => (Value(Some(0)), Some(1_000)),
        _ => (Nothing, None),
    };
    assert_eq!(bench.run(b"abcd", 2, false, script), Ok(()));
    assert_eq!((bench.calls, bench.now), (vec!["ab".to_owned(), "abcd|".into(), "end".into()], 1_000));
}

#[test]
fn a_script_that_waits_for_more_gets_it_up_to_a_buffer() {
    for (length, ends) in [(LIMIT - 1, true), (LIMIT, false), (3 * LIMIT, false)] {
        for ends_late in [false, true] {
            let mut bench = Bench::new();
            let payload = vec![b'x'; length];
            let until_end = |payload: &mut FilteredPayload| match payload.has_end() {
                true => (Nothing, None),
                false => (Value(Some(0)), None),
            };
            let ended = bench.run(&payload, 5, ends_late, until_end);
            // A body that fills the buffer may still end with it, if that is known.
            let ends = ends || length == LIMIT && !ends_late;
            assert_eq!(ended.is_ok(), ends, "{length}, {ends_late}");
            assert_eq!(bench.out.len(), if ends { length } else { 0 });
        }
    }
}

#[test]
fn a_script_that_waits_although_nothing_can_come_fails() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(b"abc", 3, false, |_| (Value(Some(0)), None)), Err(Failed));
    assert!(bench.out.is_empty());
}

#[test]
fn the_output_has_the_announced_length() {
    for (announced, add, fits) in [(3, "", true), (3, "d", false), (4, "d", true), (5, "d", false)] {
        let mut bench = Bench::new();
        bench.mailbox.borrow_mut().announced = Some(announced);
        let ended = bench.run(b"abc", 3, false, |payload| {
            if !payload.incoming().is_empty() {
                assert!(payload.replace(3..3, add.as_bytes()));
            }
            (Nothing, None)
        });
        assert_eq!(ended.is_ok(), fits, "{announced} {add}");
    }
}

#[test]
fn a_script_ends_a_message_early() {
    let mut bench = Bench::new();
    let cut = |payload: &mut FilteredPayload| {
        payload.forward(2);
        payload.set_end(true);
        (Value(Some(0)), None)
    };
    assert_eq!(bench.run(PAYLOAD, 5, false, cut), Ok(()));
    assert_eq!((bench.out.as_slice(), bench.calls), (&b"ab"[..], vec!["abcde".to_owned(), "end".into()]));
}

#[test]
fn a_script_holds_the_end_back() {
    let mut bench = Bench::new();
    let mut calls = 0;
    let late = move |payload: &mut FilteredPayload| {
        calls += 1;
        payload.set_end(calls > 2);
        if calls == 3 {
            assert!(payload.replace(0..0, b"!"));
        }
        (Nothing, Some(50))
    };
    assert_eq!(bench.run(b"abc", 3, false, late), Ok(()));
    assert_eq!((bench.out.as_slice(), bench.now), (&b"abc!"[..], 1_100));
}

#[test]
fn a_filter_that_leaves_lets_the_rest_pass() {
    let mut bench = Bench::new();
    let now = Tick::from_ms(bench.now);
    assert_eq!(bench.chain.offer(b"abc", false, now, &mut bench.out), Ok(3));
    assert!(bench.answer(&mut |_| (Value(Some(0)), None)));
    bench.mailbox.borrow_mut().wants_payload = false;
    assert_eq!(bench.chain.offer(b"def", false, now, &mut bench.out), Ok(3));
    let trailers = &mut weir_mux::Trailers::default();
    assert_eq!(bench.chain.end(trailers, now, &mut bench.out), Ok(true));
    assert_eq!(bench.out, b"abcdef");
}

/// A retry at each point of the body: the script sees each byte once, and the second server gets the bytes for the first one.
#[test]
fn a_repeated_body_is_not_shown_again() {
    let upper = |payload: &mut FilteredPayload| {
        let bytes = payload.incoming().to_ascii_uppercase();
        assert!(payload.replace(0..bytes.len(), &bytes));
        (Nothing, None)
    };
    for before in 0..=LIMIT {
        let mut bench = Bench::new();
        let payload = &PAYLOAD[..LIMIT];
        let now = Tick::from_ms(bench.now);
        if before > 0 {
            assert_eq!(bench.chain.offer(&payload[..before], false, now, &mut bench.out), Ok(before));
            bench.answer(&mut { upper });
            bench.chain.offer(b"", false, now, &mut bench.out).expect("it goes on");
            assert_eq!(bench.out.len(), before);
        }
        bench.out.clear();
        bench.chain.begin();
        bench.chain.restart();
        assert_eq!(bench.run(payload, 5, false, upper), Ok(()), "{before}");
        assert_eq!(bench.out, payload.to_ascii_uppercase(), "{before}");
        let seen: String = bench.calls.iter().filter(|call| *call != "end").map(String::as_str).collect();
        assert_eq!(seen.replace('|', "").as_bytes(), payload, "{before}");
    }
}

#[test]
fn a_body_that_became_too_long_cannot_be_repeated() {
    let mut bench = Bench::new();
    let double = |payload: &mut FilteredPayload| {
        let bytes = payload.incoming().to_vec();
        assert!(payload.replace(0..0, &bytes));
        (Nothing, None)
    };
    assert_eq!(bench.run(&PAYLOAD[..LIMIT], 4, false, double), Ok(()));
    bench.chain.begin();
    bench.chain.restart();
    assert_eq!(bench.run(&PAYLOAD[..LIMIT], 4, false, double), Err(Failed));
}
