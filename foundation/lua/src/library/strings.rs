//! Functions of `string`.

use std::mem::MaybeUninit;

use super::{Replacements, patterns};
use crate::frame::{CallFrame, StringBuffer, functions};
use crate::limits::Steps;

pub(super) const FUNCTIONS: Replacements = &[
    ("find", patterns::find),
    ("match", patterns::r#match),
    ("gmatch", patterns::gmatch),
    ("gsub", patterns::gsub),
    ("rep", rep),
];

functions! {
    fn rep(frame) {
        let text = frame.check_bytes(1);
        let count = frame.check_integer(2);
        let separator = frame.optional_bytes(3);
        let Some(count) = u64::try_from(count).ok().filter(|count| *count > 0) else {
            frame.push_bytes(b"");
            return 1;
        };
        let unit = text.len() + separator.len();
        match (unit as u64).checked_mul(count).and_then(|total| usize::try_from(total).ok()) {
            Some(total) if total <= MAX_LENGTH => push_repeated(frame, text, separator, total - separator.len()),
            _ => frame.raise_text(c"resulting string too large", c"", 0),
        }
    }
}

/// The longest string, in bytes: that of Lua's own function.
const MAX_LENGTH: usize = i32::MAX as usize;

/// Pushes `length` bytes of a text and a separator in turn.
fn push_repeated(frame: CallFrame, text: &[u8], separator: &[u8], length: usize) -> i32 {
    let mut place = MaybeUninit::uninit();
    let mut result = StringBuffer::new(frame, &mut place);
    let room = result.room(length);
    let mut done = write(room, 0, text, length);
    done += write(room, done, separator, length);
    let unit = done.max(1);
    let chunk = (CHUNK / unit).max(1) * unit;
    let mut steps = Steps::new(*frame);
    while done < length {
        // The written bytes repeat each `unit` bytes. Copies double them, up to a chunk.
        let count = done.min(chunk).min(length - done);
        // SAFETY: the room has `length` bytes, and `done` is less.
        let target = unsafe { room.add(done) };
        // SAFETY: the first `done` bytes are written, and `count` more fit. `count` is at most `done`, so the parts do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(room, target, count) };
        done += count;
        for _ in 0..STEPS_OF_CHUNK {
            frame.step(&mut steps);
        }
    }
    result.push(length);
    1
}

/// Writes bytes at `at`, as many as there is room for. Returns their number.
fn write(room: *mut u8, at: usize, bytes: &[u8], length: usize) -> usize {
    let count = bytes.len().min(length - at);
    // SAFETY: the room has `length` bytes, and `at` is at most that.
    let target = unsafe { room.add(at) };
    // SAFETY: `count` bytes fit. They come from another string.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, count) };
    count
}

/// Bytes that are copied at once.
const CHUNK: usize = 256 << 10;
/// The steps that a chunk counts for.
const STEPS_OF_CHUNK: u32 = 100;
