//! Pages for optional data. They count against the memory limit (`-m`), and leave a quarter of it for running work.

use std::ops::{Deref, DerefMut};

use crate::shortage;

/// Zeroed words in separate pages, counted as memory of the process.
#[derive(Debug, Default)]
pub struct Pages {
    words: weir_sys::memory::Pages,
    /// Whether the bytes were charged on creation. False if the limit was set later.
    is_charged: bool,
}

impl Pages {
    /// Allocates `words` words. `None`, counted as a failure, if memory is short, if more than three quarters of the
    /// limit (`-m`) would be used, or if the kernel refuses the mapping.
    pub fn new(words: usize) -> Option<Self> {
        let bytes = i64::try_from(size_of::<u32>().checked_mul(words)?).ok()?;
        let pages = match shortage::leaves_room(bytes) {
            true => weir_sys::memory::Pages::new(words),
            false => None,
        };
        let Some(words) = pages else {
            shortage::count_refusal();
            return None;
        };
        let is_charged = shortage::is_limited();
        if is_charged {
            shortage::charge(bytes);
        }
        Some(Self { words, is_charged })
    }
}

impl Deref for Pages {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        &self.words
    }
}

impl DerefMut for Pages {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.is_charged {
            // The conversion cannot overflow, since the same size was charged before.
            shortage::charge(-(self.words.bytes() as i64));
        }
    }
}
