//! Objects with generational keys. A stale key is detected.

/// Key of one object of a [`Slab`]. Stale after the removal of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlabKey {
    slot: u32,
    generation: u32,
}

impl SlabKey {
    /// Index in the slab. Reused by other objects with another generation.
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// Number of reuses of the slot before this object.
    pub fn generation(self) -> u32 {
        self.generation
    }

    /// The key as one word, for the kernel to return with an event.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// The inverse of [`SlabKey::to_bits`]. Arbitrary bits may form a stale key or the key of any object.
    pub fn from_bits(bits: u64) -> Self {
        Self { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A collection with constant-time insertion, look-up and removal by [`SlabKey`].
#[derive(Debug, Clone)]
pub struct Slab<T> {
    slots: Vec<SlabSlot<T>>,
    first_free: u32,
    length: u32,
}

#[derive(Debug, Clone)]
struct SlabSlot<T> {
    generation: u32,
    state: SlotState<T>,
}

#[derive(Debug, Clone)]
enum SlotState<T> {
    Used(T),
    Free { next: u32 },
}

impl<T> Slab<T> {
    /// A slab without objects.
    pub const fn new() -> Self {
        Self { slots: Vec::new(), first_free: NONE, length: 0 }
    }

    /// Stores `value` and returns its key.
    ///
    /// # Panics
    /// At 2^32 - 1 live objects, far beyond the capacity of memory.
    pub fn insert(&mut self, value: T) -> SlabKey {
        self.insert_with(|_| value)
    }

    /// Stores the value returned by `make`, which receives the new key.
    pub fn insert_with(&mut self, make: impl FnOnce(SlabKey) -> T) -> SlabKey {
        if self.first_free == NONE {
            assert!(self.slots.len() < NONE as usize, "the slab is full");
            self.slots.push(SlabSlot { generation: 0, state: SlotState::Free { next: NONE } });
            self.first_free = self.slots.len() as u32 - 1;
        }
        let slot = self.first_free;
        let key = SlabKey { slot, generation: self.slots[slot as usize].generation };
        let value = make(key);
        let entry = &mut self.slots[slot as usize];
        if let SlotState::Free { next } = entry.state {
            self.first_free = next;
        }
        entry.state = SlotState::Used(value);
        self.length += 1;
        key
    }

    /// The object of `key`. `None` if it was removed.
    #[inline]
    pub fn get(&self, key: SlabKey) -> Option<&T> {
        match self.slots.get(key.slot as usize) {
            Some(SlabSlot { generation, state: SlotState::Used(value) }) if *generation == key.generation => {
                Some(value)
            }
            _ => None,
        }
    }

    /// Exclusive access to the object of `key`. `None` if it was removed.
    #[inline]
    pub fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        match self.slots.get_mut(key.slot as usize) {
            Some(SlabSlot { generation, state: SlotState::Used(value) }) if *generation == key.generation => {
                Some(value)
            }
            _ => None,
        }
    }

    /// Removes and returns the object of `key`. All copies of the key become stale.
    pub fn remove(&mut self, key: SlabKey) -> Option<T> {
        self.get(key)?;
        let entry = &mut self.slots[key.slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        let state = std::mem::replace(&mut entry.state, SlotState::Free { next: self.first_free });
        self.first_free = key.slot;
        self.length -= 1;
        match state {
            SlotState::Used(value) => Some(value),
            SlotState::Free { .. } => None,
        }
    }

    /// Number of live objects.
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether the slab is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Every live object with its key, in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, entry)| match &entry.state {
            SlotState::Used(value) => {
                Some((SlabKey { slot: slot as u32, generation: entry.generation }, value))
            }
            SlotState::Free { .. } => None,
        })
    }

    /// Exclusive access to every live object, in slot order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (SlabKey, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, entry)| match &mut entry.state {
            SlotState::Used(value) => {
                Some((SlabKey { slot: slot as u32, generation: entry.generation }, value))
            }
            SlotState::Free { .. } => None,
        })
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_key_of_a_removed_slab_entry_finds_nothing() {
        let mut slab = Slab::new();
        let old = slab.insert("old");
        assert_eq!(slab.remove(old), Some("old"));
        let new = slab.insert("new");
        assert_eq!(new.slot(), old.slot());
        assert_eq!((slab.get(old), slab.get(new)), (None, Some(&"new")));
        assert_eq!(slab.remove(old), None);
        assert_eq!(SlabKey::from_bits(new.to_bits()), new);
    }

    #[derive(Debug, Clone)]
    enum SlabOperation {
        Insert(u8),
        Remove(usize),
        Change(usize, u8),
    }

    fn step() -> impl Strategy<Value = SlabOperation> {
        prop_oneof![
            any::<u8>().prop_map(SlabOperation::Insert),
            any::<usize>().prop_map(SlabOperation::Remove),
            (any::<usize>(), any::<u8>()).prop_map(|(at, value)| SlabOperation::Change(at, value)),
        ]
    }

    proptest! {
        #[test]
        fn the_slab_behaves_like_a_map(steps in prop::collection::vec(step(), 0..200)) {
            let mut slab = Slab::new();
            let mut model = HashMap::new();
            let mut keys: Vec<SlabKey> = Vec::new();
            for step in steps {
                match step {
                    SlabOperation::Insert(value) => {
                        let key = slab.insert(value);
                        prop_assert!(model.insert(key, value).is_none());
                        keys.push(key);
                    }
                    SlabOperation::Remove(at) if !keys.is_empty() => {
                        let key = keys[at % keys.len()];
                        prop_assert_eq!(slab.remove(key), model.remove(&key));
                    }
                    SlabOperation::Change(at, value) if !keys.is_empty() => {
                        let key = keys[at % keys.len()];
                        prop_assert_eq!(slab.get(key), model.get(&key));
                        if let Some(held) = slab.get_mut(key) {
                            *held = value;
                            model.insert(key, value);
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(slab.len(), model.len());
                prop_assert_eq!(slab.iter().map(|(key, value)| (key, *value)).collect::<HashMap<_, _>>(), model.clone());
            }
        }
    }
}
