//! The functions of `string` that search. They follow `lstrlib.c`.

use std::mem::MaybeUninit;

use mlua_sys as ffi;

use super::matcher::{Captured, Matcher, PatternFault};
use crate::frame::{CallFrame, StringBuffer, functions};
use crate::limits::Steps;
use crate::raw::RawState;

functions! {
    pub(super) fn find(frame) { search(frame, true) }

    pub(super) fn r#match(frame) { search(frame, false) }

    pub(super) fn gmatch(frame) {
        let subject = frame.check_bytes(1);
        frame.check_bytes(2);
        let start = start_of(frame, subject.len()).min(subject.len() + 1);
        frame.set_top(2);
        frame.push_integer(start as i64);
        frame.push_integer(NO_MATCH);
        frame.push_function(next_match, 4);
        1
    }

    /// The iterator of `gmatch`. Its values: subject, pattern, the place to go on at, the end of the last match.
    fn next_match(frame) {
        let (Some(subject), Some(pattern)) =
            (frame.bytes(RawState::upvalue(1)), frame.bytes(RawState::upvalue(2)))
        else {
            return 0;
        };
        let place = |position| frame.integer(RawState::upvalue(position)).unwrap_or(NO_MATCH);
        let mut matcher = Matcher::new(subject, pattern, Steps::new(*frame));
        let from = usize::try_from(place(3)).unwrap_or(0);
        let matched = matcher.search(from, subject.len(), usize::try_from(place(4)).ok());
        if let Some((start, end)) = matched.unwrap_or_else(|fault| fault.raise(frame, matcher.steps())) {
            frame.push_integer(end as i64);
            frame.copy(-1, RawState::upvalue(3));
            frame.copy(-1, RawState::upvalue(4));
            frame.pop(1);
            return push_captures(frame, &matcher, Some((start, end)));
        }
        0
    }

    pub(super) fn gsub(frame) {
        let subject = frame.check_bytes(1);
        let pattern = frame.check_bytes(2);
        let kind = frame.kind(3);
        let most = frame.optional_integer(4, subject.len() as i64 + 1);
        if !matches!(kind, ffi::LUA_TNUMBER | ffi::LUA_TSTRING | ffi::LUA_TFUNCTION | ffi::LUA_TTABLE) {
            frame.raise_kind(3, c"string/function/table");
        }
        if matches!(kind, ffi::LUA_TNUMBER | ffi::LUA_TSTRING) {
            // A number becomes a string here, before the buffer needs the top of the stack.
            frame.check_bytes(3);
        }
        let mut place = MaybeUninit::uninit();
        replace(frame, subject, pattern, most, StringBuffer::new(frame, &mut place))
    }
}

/// The end of the last match before the first one.
const NO_MATCH: i64 = -1;

/// The place to start at, from 0: the third argument, a position from 1 or from the end. Beyond the length for one behind the end.
fn start_of(frame: CallFrame, length: usize) -> usize {
    match frame.optional_integer(3, 1) {
        0 => 0,
        position @ 1.. => usize::try_from(position - 1).unwrap_or(usize::MAX),
        position => length.saturating_sub(usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX)),
    }
}

fn search(frame: CallFrame, is_find: bool) -> i32 {
    let subject = frame.check_bytes(1);
    let pattern = frame.check_bytes(2);
    let start = start_of(frame, subject.len());
    let Some(rest) = subject.get(start..) else {
        frame.push_nil();
        return 1;
    };
    if is_find && (frame.boolean(4) || !pattern.iter().any(|byte| SPECIALS.contains(byte))) {
        return push_plain(frame, start, rest, pattern);
    }
    let anchored = pattern.strip_prefix(b"^");
    let mut matcher = Matcher::new(subject, anchored.unwrap_or(pattern), Steps::new(*frame));
    let last = if anchored.is_some() { start } else { subject.len() };
    let matched = matcher.search(start, last, None);
    match matched.unwrap_or_else(|fault| fault.raise(frame, matcher.steps())) {
        Some(whole) if !is_find => push_captures(frame, &matcher, Some(whole)),
        Some((start, end)) => {
            frame.push_integer(start as i64 + 1);
            frame.push_integer(end as i64);
            push_captures(frame, &matcher, None) + 2
        }
        None => {
            frame.push_nil();
            1
        }
    }
}

/// Bytes that make a text a pattern.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// Searches a text, in linear time.
fn push_plain(frame: CallFrame, start: usize, rest: &[u8], text: &[u8]) -> i32 {
    match memchr::memmem::find(rest, text) {
        Some(at) => {
            frame.push_integer((start + at) as i64 + 1);
            frame.push_integer((start + at + text.len()) as i64);
            2
        }
        None => {
            frame.push_nil();
            1
        }
    }
}

/// Pushes all captures, or the whole match for a pattern without captures.
fn push_captures(frame: CallFrame, matcher: &Matcher<'_>, whole: Option<(usize, usize)>) -> i32 {
    let count = matcher.count(whole.is_some());
    frame.check_stack(count as i32, c"too many captures");
    for index in 0..count {
        push_capture(frame, matcher, index, whole.unwrap_or_default());
    }
    count as i32
}

fn push_capture(frame: CallFrame, matcher: &Matcher<'_>, index: usize, (start, end): (usize, usize)) {
    match captured(frame, matcher, index, (start, end)) {
        Captured::Bytes(bytes) => frame.push_bytes(bytes),
        Captured::Position(position) => frame.push_integer(position),
    }
}

fn captured<'m>(
    frame: CallFrame,
    matcher: &Matcher<'m>,
    index: usize,
    (start, end): (usize, usize),
) -> Captured<'m> {
    let captured: Result<_, PatternFault> = matcher.capture(index, start, end);
    captured.unwrap_or_else(|fault| fault.raise(frame, matcher.steps()))
}

fn replace(
    frame: CallFrame,
    subject: &'static [u8],
    pattern: &'static [u8],
    most: i64,
    mut result: StringBuffer<'_>,
) -> i32 {
    let anchored = pattern.strip_prefix(b"^");
    let mut matcher = Matcher::new(subject, anchored.unwrap_or(pattern), Steps::new(*frame));
    // Bytes of the subject from `copied` on are not in the result yet. The last match ended there, too.
    let (mut copied, mut last, mut count, mut is_changed) = (0, None, 0, false);
    while count < most {
        let to = if anchored.is_some() { 0 } else { subject.len() };
        let matched = matcher.search(copied, to, last);
        let Some((start, end)) = matched.unwrap_or_else(|fault| fault.raise(frame, matcher.steps())) else {
            break;
        };
        count += 1;
        result.add(subject.get(copied..start).unwrap_or_default());
        is_changed |= add_replacement(frame, &matcher, &mut result, (start, end));
        copied = end;
        last = Some(end);
        if anchored.is_some() {
            break;
        }
    }
    if is_changed {
        result.add(subject.get(copied..).unwrap_or_default());
        result.push(0);
    } else {
        frame.push_value(1);
    }
    frame.push_integer(count);
    2
}

/// Adds the replacement of a match. False if the match stays.
fn add_replacement(
    frame: CallFrame,
    matcher: &Matcher<'_>,
    result: &mut StringBuffer<'_>,
    whole: (usize, usize),
) -> bool {
    match frame.kind(3) {
        ffi::LUA_TFUNCTION => {
            frame.push_value(3);
            let count = push_captures(frame, matcher, Some(whole));
            frame.call_function(count, 1);
        }
        ffi::LUA_TTABLE => {
            push_capture(frame, matcher, 0, whole);
            frame.index_by_top(3);
        }
        _ => {
            add_template(frame, matcher, result, whole);
            return true;
        }
    }
    if !frame.boolean(-1) {
        frame.pop(1);
        result.add(matcher.whole(whole));
        return false;
    }
    if !matches!(frame.kind(-1), ffi::LUA_TNUMBER | ffi::LUA_TSTRING) {
        let name = frame.kind_name(frame.kind(-1));
        frame.raise_text(c"invalid replacement value (a %s)", name, 0);
    }
    result.add_top();
    true
}

/// Adds a text with references to captures (`%1`).
fn add_template(
    frame: CallFrame,
    matcher: &Matcher<'_>,
    result: &mut StringBuffer<'_>,
    whole: (usize, usize),
) {
    let mut rest = frame.bytes(3).unwrap_or_default();
    while let Some(at) = memchr::memchr(b'%', rest) {
        let (text, reference) = rest.split_at(at);
        result.add(text);
        match reference.get(1).copied() {
            Some(b'%') => result.add(b"%"),
            Some(b'0') => result.add(matcher.whole(whole)),
            Some(digit @ b'1'..=b'9') => match captured(frame, matcher, usize::from(digit - b'1'), whole) {
                Captured::Bytes(bytes) => result.add(bytes),
                Captured::Position(position) => {
                    frame.push_integer(position);
                    result.add_top();
                }
            },
            _ => frame.raise_text(c"invalid use of '%%' in replacement string", c"", 0),
        }
        rest = reference.get(2..).unwrap_or_default();
    }
    result.add(rest);
}
