//! Functions of `table` that loop over ranges of a script. They follow `ltablib.c`.

use std::mem::MaybeUninit;

use mlua_sys as ffi;

use super::{Replacements, sort};
use crate::frame::{CallFrame, StringBuffer, functions};
use crate::limits::Steps;

pub(super) const FUNCTIONS: Replacements =
    &[("insert", insert), ("remove", remove), ("move", r#move), ("concat", concat), ("sort", sort::sort)];

functions! {
    fn insert(frame) {
        let end = length_of(frame, READ | WRITE).wrapping_add(1);
        let position = match frame.top() {
            2 => end,
            3 => {
                let position = frame.check_integer(2);
                if (position as u64).wrapping_sub(1) >= end as u64 {
                    frame.raise_argument_text(2, c"position out of bounds");
                }
                let mut steps = Steps::new(*frame);
                let mut index = end;
                while index > position {
                    frame.push_indexed(1, index - 1);
                    frame.set_indexed(1, index);
                    index -= 1;
                    frame.step(&mut steps);
                }
                position
            }
            _ => frame.raise_text(c"wrong number of arguments to 'insert'", c"", 0),
        };
        frame.set_indexed(1, position);
        0
    }

    fn remove(frame) {
        let size = length_of(frame, READ | WRITE);
        let mut position = frame.optional_integer(2, size);
        if position != size && (position as u64).wrapping_sub(1) > size as u64 {
            frame.raise_argument_text(2, c"position out of bounds");
        }
        frame.push_indexed(1, position);
        let mut steps = Steps::new(*frame);
        while position < size {
            frame.push_indexed(1, position + 1);
            frame.set_indexed(1, position);
            position += 1;
            frame.step(&mut steps);
        }
        frame.push_nil();
        frame.set_indexed(1, position);
        1
    }

    fn r#move(frame) {
        let first = frame.check_integer(2);
        let last = frame.check_integer(3);
        let to = frame.check_integer(4);
        let target = if frame.is_missing(5) { 1 } else { 5 };
        check_table(frame, 1, READ);
        check_table(frame, target, WRITE);
        if last >= first {
            if first <= 0 && last >= i64::MAX.wrapping_add(first) {
                frame.raise_argument_text(3, c"too many elements to move");
            }
            let count = last - first + 1;
            if to > i64::MAX - count + 1 {
                frame.raise_argument_text(4, c"destination wrap around");
            }
            let is_upward = to > last || to <= first || (target != 1 && !frame.compare(1, target, ffi::LUA_OPEQ));
            let mut steps = Steps::new(*frame);
            for step in 0..count {
                let index = if is_upward { step } else { count - 1 - step };
                frame.push_indexed(1, first + index);
                frame.set_indexed(target, to + index);
                frame.step(&mut steps);
            }
        }
        frame.push_value(target);
        1
    }

    fn concat(frame) {
        let length = length_of(frame, READ);
        let separator = frame.optional_bytes(2);
        let first = frame.optional_integer(3, 1);
        let last = frame.optional_integer(4, length);
        let mut place = MaybeUninit::uninit();
        let mut result = StringBuffer::new(frame, &mut place);
        let mut steps = Steps::new(*frame);
        let mut index = first;
        while index < last {
            add_element(frame, &mut result, index);
            result.add(separator);
            index += 1;
            frame.step(&mut steps);
        }
        if index == last {
            add_element(frame, &mut result, index);
        }
        result.push(0);
        1
    }
}

fn add_element(frame: CallFrame, result: &mut StringBuffer<'_>, index: i64) {
    frame.push_indexed(1, index);
    if !matches!(frame.kind(-1), ffi::LUA_TNUMBER | ffi::LUA_TSTRING) {
        let name = frame.kind_name(frame.kind(-1));
        frame.raise_text(c"invalid value (%s) at index %I in table for 'concat'", name, index);
    }
    result.add_top();
}

/// The accesses that a function needs, for values with metamethods in place of tables.
pub(super) const READ: u8 = 1;
pub(super) const WRITE: u8 = 2;
const LENGTH: u8 = 4;

/// The length of the first argument, by metamethods.
pub(super) fn length_of(frame: CallFrame, accesses: u8) -> i64 {
    check_table(frame, 1, accesses | LENGTH);
    frame.measured(1)
}

/// An argument is a table, or has the metamethods of the accesses.
fn check_table(frame: CallFrame, argument: i32, accesses: u8) {
    if frame.kind(argument) == ffi::LUA_TTABLE {
        return;
    }
    let top = frame.top();
    let has =
        |access: u8, name: &std::ffi::CStr| accesses & access == 0 || frame.push_metafield(argument, name);
    let is_like_table = has(READ, c"__index") && has(WRITE, c"__newindex") && has(LENGTH, c"__len");
    frame.set_top(top);
    if !is_like_table {
        frame.check_kind(argument, ffi::LUA_TTABLE);
    }
}
