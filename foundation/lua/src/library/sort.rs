//! `table.sort`: the quicksort of `ltablib.c`.

use mlua_sys as ffi;

use super::tables::{READ, WRITE, length_of};
use crate::frame::{CallFrame, functions};
use crate::limits::Steps;

functions! {
    pub(super) fn sort(frame) {
        let length = length_of(frame, READ | WRITE);
        if length > 1 {
            let Ok(length) = i32::try_from(length) else { frame.raise_argument_text(1, c"array too big") };
            if !frame.is_missing(2) {
                frame.check_kind(2, ffi::LUA_TFUNCTION);
            }
            frame.set_top(2);
            let order = Order { frame, has_function: frame.kind(2) == ffi::LUA_TFUNCTION };
            let mut steps = Steps::new(*frame);
            order.sort(&mut steps, 1, i64::from(length));
        }
        0
    }
}

/// An order of elements: that of a function at index 2, or that of `<`.
#[derive(Clone, Copy)]
struct Order {
    frame: CallFrame,
    has_function: bool,
}

impl Order {
    /// Whether the value at `one` is less than that at `other`, which are negative indices.
    fn is_less(self, steps: &mut Steps<'_>, one: i32, other: i32) -> bool {
        self.frame.step(steps);
        if !self.has_function {
            return self.frame.compare(one, other, ffi::LUA_OPLT);
        }
        self.frame.push_value(2);
        self.frame.push_value(one - 1);
        self.frame.push_value(other - 2);
        self.frame.call_function(2, 1);
        let is_less = self.frame.boolean(-1);
        self.frame.pop(1);
        is_less
    }

    /// Sets two elements to the values at the top of the stack.
    fn set_both(self, one: i64, other: i64) {
        self.frame.set_indexed(1, one);
        self.frame.set_indexed(1, other);
    }

    fn sort(self, steps: &mut Steps<'_>, mut low: i64, mut high: i64) {
        let mut random = 0;
        while low < high {
            self.order_ends(steps, low, high);
            if high - low == 1 {
                return;
            }
            let pivot = pivot(low, high, random);
            self.order_pivot(steps, low, pivot, high);
            if high - low == 2 {
                return;
            }
            self.frame.push_indexed(1, pivot);
            self.frame.push_value(-1);
            self.frame.push_indexed(1, high - 1);
            self.set_both(pivot, high - 1);
            let middle = self.partition(steps, low, high);
            // The smaller part by a call, so that calls nest no deeper than the logarithm of the length.
            let smaller = if middle - low < high - middle {
                self.sort(steps, low, middle - 1);
                let size = middle - low;
                low = middle + 1;
                size
            } else {
                self.sort(steps, middle + 1, high);
                let size = high - middle;
                high = middle - 1;
                size
            };
            if (high - low) / 128 > smaller {
                random = weir_sys::time::monotonic_ns() >> 4 | 1;
            }
        }
    }

    fn order_ends(self, steps: &mut Steps<'_>, low: i64, high: i64) {
        self.frame.push_indexed(1, low);
        self.frame.push_indexed(1, high);
        self.set_both_if_less(steps, (-1, -2), low, high);
    }

    fn order_pivot(self, steps: &mut Steps<'_>, low: i64, pivot: i64, high: i64) {
        self.frame.push_indexed(1, pivot);
        self.frame.push_indexed(1, low);
        if self.is_less(steps, -2, -1) {
            self.set_both(pivot, low);
            return;
        }
        self.frame.pop(1);
        self.frame.push_indexed(1, high);
        self.set_both_if_less(steps, (-1, -2), pivot, high);
    }

    /// Swaps two elements, with their values at the top of the stack, if one is less than the other.
    fn set_both_if_less(self, steps: &mut Steps<'_>, (one, other): (i32, i32), low: i64, high: i64) {
        if self.is_less(steps, one, other) {
            self.set_both(low, high);
        } else {
            self.frame.pop(2);
        }
    }

    /// Splits the elements by the pivot, which is at the top of the stack and at `high - 1`. Returns its place, and removes it from the stack.
    fn partition(self, steps: &mut Steps<'_>, low: i64, high: i64) -> i64 {
        let (mut up, mut down) = (low, high - 1);
        loop {
            up += 1;
            self.frame.push_indexed(1, up);
            while self.is_less(steps, -1, -2) {
                if up == high - 1 {
                    self.raise_invalid();
                }
                self.frame.pop(1);
                up += 1;
                self.frame.push_indexed(1, up);
            }
            down -= 1;
            self.frame.push_indexed(1, down);
            while self.is_less(steps, -3, -1) {
                if down < up {
                    self.raise_invalid();
                }
                self.frame.pop(1);
                down -= 1;
                self.frame.push_indexed(1, down);
            }
            if down < up {
                self.frame.pop(1);
                self.set_both(high - 1, up);
                return up;
            }
            self.set_both(up, down);
        }
    }

    fn raise_invalid(self) -> ! {
        self.frame.raise_text(c"invalid order function for sorting", c"", 0)
    }
}

/// An element of the middle half, a random one for large parts that were split badly before.
fn pivot(low: i64, high: i64, random: u64) -> i64 {
    if high - low < 100 || random == 0 {
        return low + (high - low) / 2;
    }
    let quarter = (high - low) / 4;
    low + quarter + (random % (quarter as u64 * 2)) as i64
}
