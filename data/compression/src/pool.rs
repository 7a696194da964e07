//! The encoders of a worker, and the bound on the memory of all workers.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_model::CompressionTuning;

use crate::encoder::{EncoderFormat, EncoderState, footprint};

/// The memory of all encoders of the process (`maxzlibmem`).
#[derive(Debug)]
pub struct EncoderMemory {
    /// Bytes. 0 for no limit.
    limit: usize,
    used: AtomicUsize,
}

impl EncoderMemory {
    /// Memory of at most `limit` bytes. 0 for no limit.
    pub fn new(limit: usize) -> EncoderMemory {
        EncoderMemory { limit, used: AtomicUsize::new(0) }
    }

    /// The limit in bytes. 0 for no limit.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes of all encoders, in use or spare.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.limit == 0 || self.used() + bytes <= self.limit
    }

    /// Takes these bytes, unless they exceed the limit.
    fn reserve(&self, bytes: usize) -> bool {
        let add = |used: usize| {
            let sum = used + bytes;
            (self.limit == 0 || sum <= self.limit).then_some(sum)
        };
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The encoders of a worker. It keeps a few for the next bodies, so that most bodies write no memory that workers share.
pub struct EncoderPool {
    tuning: CompressionTuning,
    memory: Arc<EncoderMemory>,
    /// Encoders for the next body with the bytes of each, the most recently used last.
    spare: RefCell<Vec<(EncoderState, usize)>>,
}

impl EncoderPool {
    /// An empty pool.
    pub fn new(tuning: CompressionTuning, memory: Arc<EncoderMemory>) -> Rc<EncoderPool> {
        Rc::new(EncoderPool { tuning, memory, spare: RefCell::default() })
    }

    /// The settings of its encoders.
    pub fn tuning(&self) -> &CompressionTuning {
        &self.tuning
    }

    /// Whether more than half of the memory is used, so that bodies that pause give their encoders back.
    pub(crate) fn is_scarce(&self) -> bool {
        let EncoderMemory { limit, .. } = *self.memory;
        limit > 0 && (self.memory.used() - self.spare_bytes()) * 2 > limit
    }

    /// Whether an encoder of this format is available now.
    pub(crate) fn has_room(&self, format: EncoderFormat, level: u8) -> bool {
        let needed = footprint(format, level, &self.tuning);
        self.memory.has_room(needed.saturating_sub(self.spare_bytes()))
    }

    fn spare_bytes(&self) -> usize {
        self.spare.borrow().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Takes an encoder for a new body, or a new part of a deflated body. `None` if the limit is reached.
    pub(crate) fn take(self: &Rc<Self>, format: EncoderFormat, level: u8) -> Option<PooledEncoder> {
        let bytes = footprint(format, level, &self.tuning);
        let mut spare = self.spare.borrow_mut();
        let fits = |(encoder, size): &(EncoderState, usize)| encoder.format() == format && *size == bytes;
        while let Some(at) = spare.iter().rposition(fits) {
            let (mut encoder, _) = spare.remove(at);
            if encoder.reset(level) {
                return Some(PooledEncoder { encoder: Some(encoder), bytes, pool: Rc::clone(self) });
            }
            self.memory.release(bytes);
        }
        while !self.memory.reserve(bytes) {
            if spare.is_empty() {
                return None;
            }
            let (_, size) = spare.remove(0);
            self.memory.release(size);
        }
        match EncoderState::new(format, level, &self.tuning) {
            Ok(encoder) => Some(PooledEncoder { encoder: Some(encoder), bytes, pool: Rc::clone(self) }),
            Err(_) => {
                self.memory.release(bytes);
                None
            }
        }
    }

    fn give_back(&self, encoder: EncoderState, bytes: usize) {
        let mut spare = self.spare.borrow_mut();
        // Other workers can use the rest.
        let is_affordable = self.memory.limit == 0 || self.memory.used() * 2 <= self.memory.limit;
        if encoder.is_reusable() && is_affordable && spare.len() < MOST_SPARE {
            spare.push((encoder, bytes));
        } else {
            self.memory.release(bytes);
        }
    }
}

impl Drop for EncoderPool {
    fn drop(&mut self) {
        self.memory.release(self.spare_bytes());
    }
}

impl fmt::Debug for EncoderPool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "EncoderPool({:?})", self.memory)
    }
}

/// The limit of unused encoders. A body that arrives whole needs one only for microseconds.
const MOST_SPARE: usize = 4;

/// An encoder in use. Returns to its pool when dropped.
pub(crate) struct PooledEncoder {
    /// `None` only while it is dropped.
    encoder: Option<EncoderState>,
    bytes: usize,
    pool: Rc<EncoderPool>,
}

impl PooledEncoder {
    pub(crate) fn encoder(&mut self) -> Option<&mut EncoderState> {
        self.encoder.as_mut()
    }
}

impl Drop for PooledEncoder {
    fn drop(&mut self) {
        if let Some(encoder) = self.encoder.take() {
            self.pool.give_back(encoder, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuning() -> CompressionTuning {
        CompressionTuning::default()
    }

    fn size(format: EncoderFormat) -> usize {
        footprint(format, 1, &tuning())
    }

    fn pool(limit: usize) -> (Rc<EncoderPool>, Arc<EncoderMemory>) {
        let memory = Arc::new(EncoderMemory::new(limit));
        (EncoderPool::new(tuning(), Arc::clone(&memory)), memory)
    }

    #[test]
    fn the_limit_is_never_exceeded() {
        let (pool, memory) = pool(3 * size(EncoderFormat::Deflate));
        let other = EncoderPool::new(tuning(), Arc::clone(&memory));
        let mut taken: Vec<_> = (0..2).map(|_| pool.take(EncoderFormat::Deflate, 1)).collect();
        taken.extend((0..3).map(|_| other.take(EncoderFormat::Deflate, 1)));
        assert_eq!(taken.iter().flatten().count(), 3);
        assert!(!pool.has_room(EncoderFormat::Deflate, 1));
        assert_eq!(memory.used(), 3 * size(EncoderFormat::Deflate));
        drop(taken);
        assert!(pool.has_room(EncoderFormat::Deflate, 1) && other.has_room(EncoderFormat::Deflate, 1));
        drop((pool, other));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn spare_encoders_make_room_for_other_formats() {
        let (pool, memory) = pool(800_000);
        drop(pool.take(EncoderFormat::Deflate, 1));
        assert_eq!(memory.used(), size(EncoderFormat::Deflate));
        assert!(pool.has_room(EncoderFormat::Zstd, 1));
        let taken = pool.take(EncoderFormat::Zstd, 1);
        assert!(taken.is_some());
        assert_eq!(memory.used(), size(EncoderFormat::Zstd));
        drop(taken);
        assert_eq!(memory.used(), 0, "more than half of the limit is not kept");
    }

    #[test]
    fn few_encoders_are_kept_spare() {
        let (pool, memory) = pool(0);
        drop((0..100).map(|_| pool.take(EncoderFormat::Deflate, 1)).collect::<Vec<_>>());
        assert_eq!(memory.used(), MOST_SPARE * size(EncoderFormat::Deflate));
    }

    #[test]
    fn memory_is_scarce_from_half_of_its_limit() {
        let (pool, _memory) = pool(4 * size(EncoderFormat::Deflate));
        let mut taken: Vec<_> = (0..2).map(|_| pool.take(EncoderFormat::Deflate, 1)).collect();
        assert!(!pool.is_scarce());
        taken.push(pool.take(EncoderFormat::Deflate, 1));
        assert!(pool.is_scarce());
        taken.clear();
        assert!(!pool.is_scarce(), "spare encoders are available");
    }
}
