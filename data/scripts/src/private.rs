//! The private data of streams (`txn:set_priv`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_lua::LuaReference;

/// The private data of the streams in one state, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct PrivateData {
    values: RefCell<HashMap<i64, LuaReference>>,
    ended: Arc<EndedStreams>,
}

/// Streams with private data that have ended, on any thread.
#[derive(Debug, Default)]
struct EndedStreams {
    any: AtomicBool,
    numbers: Mutex<Vec<i64>>,
}

/// The end of a stream with private data: the stream holds it.
struct StreamGuard {
    number: i64,
    ended: Arc<EndedStreams>,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.ended.numbers.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        self.ended.any.store(true, Ordering::Release);
    }
}

impl PrivateData {
    /// The data of a stream.
    pub(crate) fn find(&self, number: i64) -> Option<LuaReference> {
        self.values.borrow().get(&number).copied()
    }

    /// Sets the data of a stream. Returns the value before. For the first value, also returns an object that the stream holds to its end.
    pub(crate) fn set(
        &self,
        number: i64,
        value: LuaReference,
    ) -> (Option<LuaReference>, Option<Box<dyn std::any::Any>>) {
        let before = self.values.borrow_mut().insert(number, value);
        let guard =
            || Box::new(StreamGuard { number, ended: Arc::clone(&self.ended) }) as Box<dyn std::any::Any>;
        (before, before.is_none().then(guard))
    }

    /// Takes the data of streams that have ended.
    pub(crate) fn take_ended(&self) -> Vec<LuaReference> {
        if !self.ended.any.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let numbers = std::mem::take(&mut *self.ended.numbers.lock().unwrap_or_else(PoisonError::into_inner));
        let mut values = self.values.borrow_mut();
        numbers.iter().filter_map(|number| values.remove(number)).collect()
    }
}
