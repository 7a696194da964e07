//! Storage of a shard's entries: runs of words in blocks that are allocated one by one, so that growing copies nothing.

use crate::index::Link;
use crate::layout::header;

/// Slots for entries of one size.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    blocks: Vec<Box<[u32]>>,
    /// Blocks without entries, to be used again or [given back](Self::trim).
    spare: Vec<Box<[u32]>>,
    /// The first free slot, plus 1.
    free: u32,
    /// Slots from this one on were never used.
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
            let block = match self.spare.pop() {
                Some(mut block) => {
                    block.fill(0);
                    block
                }
                None => vec![0; stride * BLOCK as usize].into_boxed_slice(),
            };
            self.blocks.push(block);
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

    /// No slot is used. Memory is kept: to give much back at once takes long.
    pub fn clear(&mut self) {
        self.spare.append(&mut self.blocks);
        (self.free, self.fresh) = (0, 0);
    }

    /// Gives memory back that is not needed: at most so many blocks; how many those were.
    pub fn trim(&mut self, blocks: usize) -> usize {
        let kept = self.spare.len().saturating_sub(blocks);
        self.spare.drain(kept..).count()
    }

    /// The number of slots, used or not.
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

    /// The way to the next entry of an entry's bucket.
    #[inline]
    pub fn next(&self, slot: u32, stride: usize) -> Link {
        let words = self.get(slot, stride);
        Link { entry: words[header::NEXT], hash: words[header::NEXT_HASH] }
    }

    /// Replaces it.
    #[inline]
    pub fn set_next(&mut self, slot: u32, stride: usize, link: Link) {
        let words = self.get_mut(slot, stride);
        (words[header::NEXT], words[header::NEXT_HASH]) = (link.entry, link.hash);
    }

    /// The generation of a slot; 0 if it is free or does not exist.
    #[inline]
    pub fn generation(&self, slot: u32, stride: usize) -> u32 {
        if slot < self.fresh { self.get(slot, stride)[header::GENERATION] } else { 0 }
    }
}
