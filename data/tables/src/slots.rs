//! The entries of a shard: runs of words in blocks that are taken one by one, so that growing copies nothing.

use crate::layout::header;

/// Room for entries of one size.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    blocks: Vec<Box<[u32]>>,
    /// The first free slot, plus 1.
    free: u32,
    /// Slots that were never used lie behind this one.
    fresh: u32,
}

/// How many entries a block holds.
const BLOCK: u32 = 64;

impl Slots {
    /// Takes a slot for an entry of `stride` words; it holds zeros.
    pub fn take(&mut self, stride: usize) -> u32 {
        if let Some(slot) = self.free.checked_sub(1) {
            let words = self.get_mut(slot, stride);
            let next = words[header::NEXT];
            words.fill(0);
            self.free = next;
            return slot;
        }
        let slot = self.fresh;
        if slot == self.blocks.len() as u32 * BLOCK {
            self.blocks.push(vec![0; stride * BLOCK as usize].into_boxed_slice());
        }
        self.fresh += 1;
        slot
    }

    /// Gives a slot back.
    pub fn give(&mut self, slot: u32, stride: usize) {
        let next = self.free;
        let words = self.get_mut(slot, stride);
        words[header::GENERATION] = 0;
        words[header::NEXT] = next;
        self.free = slot + 1;
    }

    /// Gives all memory back: no slot is used.
    pub fn clear(&mut self) {
        *self = Slots::default();
    }

    /// How many slots there are, used or not.
    pub fn len(&self) -> u32 {
        self.fresh
    }

    /// The words of a slot.
    #[inline]
    pub fn get(&self, slot: u32, stride: usize) -> &[u32] {
        let from = (slot % BLOCK) as usize * stride;
        &self.blocks[(slot / BLOCK) as usize][from..from + stride]
    }

    /// The words of a slot, to change.
    #[inline]
    pub fn get_mut(&mut self, slot: u32, stride: usize) -> &mut [u32] {
        let from = (slot % BLOCK) as usize * stride;
        &mut self.blocks[(slot / BLOCK) as usize][from..from + stride]
    }

    /// The generation of a slot; 0 if it is free or does not exist.
    #[inline]
    pub fn generation(&self, slot: u32, stride: usize) -> u32 {
        if slot < self.fresh { self.get(slot, stride)[header::GENERATION] } else { 0 }
    }
}
