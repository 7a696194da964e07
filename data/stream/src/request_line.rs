//! Request lines that outlive their messages, where the log and `show sess show-uri` find them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;

use weir_containers::{Key, Slab};

use crate::recycle::{FIRST_CAPACITY, KEPT, KEPT_LARGE, LARGE};

thread_local! {
    /// The lines that streams of this worker keep, with the streams' numbers.
    static LINES: RefCell<Slab<(u64, Rc<Vec<u8>>)>> = const { RefCell::new(Slab::new()) };
    /// Those that streams gave back: nobody else has them.
    static UNUSED: RefCell<Vec<Rc<Vec<u8>>>> = const { RefCell::new(Vec::new()) };
}

/// A stream's request line, empty if it keeps none. The worker's list shares it, until it is given back with the stream.
#[derive(Debug, Default)]
pub struct RequestLine(Option<(Key, Rc<Vec<u8>>)>);

impl RequestLine {
    /// Keeps what `write` appends, for the stream with this number, in place of what was kept.
    pub(crate) fn keep(&mut self, stream: u64, write: impl FnOnce(&mut Vec<u8>)) {
        self.forget();
        let unused = UNUSED.with_borrow_mut(Vec::pop);
        let mut line = unused.unwrap_or_else(|| Rc::new(Vec::with_capacity(FIRST_CAPACITY)));
        if let Some(line) = Rc::get_mut(&mut line) {
            line.clear();
            write(line);
        }
        let key = LINES.with_borrow_mut(|lines| lines.insert((stream, Rc::clone(&line))));
        self.0 = Some((key, line));
    }

    fn forget(&mut self) {
        let Some((key, line)) = self.0.take() else { return };
        LINES.with_borrow_mut(|lines| lines.remove(key));
        UNUSED.with_borrow_mut(|unused| {
            let most = if line.capacity() > LARGE { KEPT_LARGE } else { KEPT };
            if unused.len() < most {
                unused.push(line);
            }
        });
    }
}

impl Deref for RequestLine {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |(_, line)| line)
    }
}

impl Drop for RequestLine {
    fn drop(&mut self) {
        self.forget();
    }
}

/// The request lines that streams of this worker keep now, by the number of the stream. It looks at all of them.
pub fn all_of_worker() -> HashMap<u64, Rc<Vec<u8>>> {
    LINES.with_borrow(|lines| lines.iter().map(|(_, (stream, line))| (*stream, Rc::clone(line))).collect())
}

/// Gives what the worker keeps back to the allocator.
pub(crate) fn trim() {
    UNUSED.take();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(stream: u64, text: &[u8]) -> RequestLine {
        let mut line = RequestLine::default();
        line.keep(stream, |line| line.extend_from_slice(text));
        line
    }

    #[test]
    fn a_line_is_found_by_its_stream_as_long_as_it_is_kept() {
        assert!(RequestLine::default().is_empty());
        let (first, mut second) = (kept(7, b"GET / HTTP/1.1"), kept(8, b"GET /other HTTP/1.1"));
        assert_eq!((&*first, &*second), (&b"GET / HTTP/1.1"[..], &b"GET /other HTTP/1.1"[..]));
        assert_eq!(**all_of_worker()[&7], *b"GET / HTTP/1.1");
        second.keep(8, |line| line.extend_from_slice(b"GET /changed HTTP/1.1"));
        assert_eq!(all_of_worker().len(), 2);
        assert_eq!(**all_of_worker()[&8], *b"GET /changed HTTP/1.1");
        drop(second);
        assert_eq!(all_of_worker().into_keys().collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn the_memory_of_a_line_is_used_again() {
        let place = kept(1, b"GET / HTTP/1.1").as_ptr();
        let again = kept(2, b"PUT / HTTP/1.1");
        assert_eq!((again.as_ptr(), &*again), (place, &b"PUT / HTTP/1.1"[..]));
        drop(again);
        trim();
        assert_eq!(UNUSED.with_borrow(Vec::len), 0);
    }

    #[test]
    fn a_burst_of_long_ones_leaves_few_behind() {
        let many: Vec<_> = (0..200).map(|stream| kept(stream, &[b'x'; LARGE + 1])).collect();
        drop(many);
        assert_eq!(UNUSED.with_borrow(Vec::len), KEPT_LARGE);
        let many: Vec<_> = (0..2 * KEPT as u64).map(|stream| kept(stream, b"x")).collect();
        drop(many);
        assert_eq!(UNUSED.with_borrow(Vec::len), KEPT);
    }
}
