//! Storage of a shard's entries: runs of words in blocks, so that growing copies nothing. A block that no entry is in is given back
//! to the system, whatever other blocks hold.

use weir_memory::Pages;

use crate::index::IndexLink;
use crate::layout::header;

/// Slots for entries of one size.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    blocks: Vec<SlotBlock>,
    /// Blocks with memory that have free slots.
    roomy: BlockSet,
    bare: BlockSet,
    /// Memory that no entry is in, to be used again or [given back](Self::spare).
    spare: Vec<Pages>,
    /// A block has two to the power of this many slots.
    bits: u32,
    #[cfg(test)]
    pub looks: Looks,
}

/// Slots of neighbouring numbers.
#[derive(Debug, Default)]
struct SlotBlock {
    /// Their words; none while no entry is in it.
    words: Pages,
    /// The number of entries.
    used: u32,
    /// The first slot that was given back, plus 1.
    free: u32,
    /// How many slots were used so far: the first ones.
    fresh: u32,
}

/// A set of the numbers of blocks.
#[derive(Debug, Default)]
struct BlockSet {
    words: Vec<u64>,
    /// Words before this one are 0.
    from: usize,
}

impl BlockSet {
    fn insert(&mut self, number: usize) {
        let word = number / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (number % 64);
        self.from = self.from.min(word);
    }

    fn remove(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    /// The lowest one. A word stands for tens of thousands of slots, so that looking at some costs nothing.
    fn first(&mut self) -> Option<usize> {
        while let Some(word) = self.words.get(self.from) {
            if *word != 0 {
                return Some(self.from * 64 + word.trailing_zeros() as usize);
            }
            self.from += 1;
        }
        None
    }
}

/// How often slots were looked at while their shard was locked: now, and at most.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Looks {
    now: std::cell::Cell<u32>,
    longest: std::cell::Cell<u32>,
}

#[cfg(test)]
impl Looks {
    /// The shard is locked.
    pub(crate) fn begin(&self) {
        self.longest.set(self.longest());
        self.now.set(0);
    }

    fn count(&self) {
        self.now.set(self.now.get() + 1);
    }

    /// The most so far.
    pub(crate) fn longest(&self) -> u32 {
        self.now.get().max(self.longest.get())
    }
}

/// A block has about as many words as this: of entries of an address and a rate it has 1024, whole pages.
const BLOCK_WORDS: usize = 16 * 1024;
/// So many slots have numbers: the number of an entry has 26 bits for its slot.
const MOST_SLOTS: usize = 1 << 26;
/// So many blocks without memory at the end are forgotten at most with each entry that is removed.
const FORGOTTEN_AT_ONCE: usize = 64;

impl Slots {
    /// Takes a slot for an entry of `stride` words; it holds zeros. `None` without memory for one.
    pub(crate) fn take(&mut self, stride: usize) -> Option<u32> {
        if self.blocks.is_empty() {
            self.bits = (BLOCK_WORDS / stride).max(1).ilog2();
        }
        let number = match self.roomy.first() {
            Some(number) => number,
            None => self.add_memory(stride)?,
        };
        let (bits, block) = (self.bits, &mut self.blocks[number]);
        block.used += 1;
        if block.used == 1 << bits {
            self.roomy.remove(number);
        }
        let block = &mut self.blocks[number];
        let Some(slot) = block.free.checked_sub(1) else {
            block.fresh += 1;
            return Some(((number as u32) << bits) + block.fresh - 1);
        };
        let words = self.get_mut(slot, stride);
        let next = words[header::NEXT];
        words.fill(0);
        self.blocks[number].free = next;
        Some(slot)
    }

    /// Allocates memory for a block without it; the result is the block's number.
    fn add_memory(&mut self, stride: usize) -> Option<usize> {
        let bare = self.bare.first();
        if bare.is_none() && self.blocks.len() >= MOST_SLOTS >> self.bits {
            return None;
        }
        let words = match self.spare.pop() {
            Some(mut words) => {
                words.fill(0);
                words
            }
            None => Pages::new(stride << self.bits)?,
        };
        let block = SlotBlock { words, ..SlotBlock::default() };
        let number = match bare {
            Some(number) => {
                self.bare.remove(number);
                self.blocks[number] = block;
                number
            }
            None => {
                self.blocks.push(block);
                self.blocks.len() - 1
            }
        };
        self.roomy.insert(number);
        Some(number)
    }

    /// Gives a slot back; whether there is memory to give back now.
    pub(crate) fn give(&mut self, slot: u32, stride: usize) -> bool {
        let number = (slot >> self.bits) as usize;
        let next = self.blocks[number].free;
        let words = self.get_mut(slot, stride);
        words[header::GENERATION] = 0;
        words[header::NEXT] = next;
        let block = &mut self.blocks[number];
        block.free = slot + 1;
        block.used -= 1;
        if block.used > 0 {
            self.roomy.insert(number);
            return false;
        }
        self.spare.push(std::mem::take(block).words);
        self.roomy.remove(number);
        self.bare.insert(number);
        for _ in 0..FORGOTTEN_AT_ONCE {
            let Some(last) = self.blocks.len().checked_sub(1) else { break };
            if !self.blocks[last].words.is_empty() {
                break;
            }
            self.blocks.pop();
            self.bare.remove(last);
        }
        true
    }

    /// Memory that is not needed: at most so many blocks.
    pub(crate) fn spare(&mut self, blocks: usize) -> Vec<Pages> {
        if self.blocks.capacity() / 4 > self.blocks.len() {
            self.blocks.shrink_to(self.blocks.len() * 2);
        }
        self.spare.split_off(self.spare.len().saturating_sub(blocks))
    }

    /// The number of slots, used or not.
    pub(crate) fn len(&self) -> u32 {
        match self.blocks.split_last() {
            Some((last, before)) => ((before.len() as u32) << self.bits) + last.fresh,
            None => 0,
        }
    }

    /// How many slots have memory.
    #[cfg(test)]
    pub(crate) fn with_memory(&self) -> usize {
        let blocks = self.blocks.iter().filter(|block| !block.words.is_empty()).count();
        (blocks + self.spare.len()) << self.bits
    }

    /// Where a slot's words begin in its block.
    #[inline]
    fn place(&self, slot: u32, stride: usize) -> (usize, usize) {
        let inside = slot & ((1 << self.bits) - 1);
        ((slot >> self.bits) as usize, inside as usize * stride)
    }

    /// The words of a slot.
    #[inline]
    pub(crate) fn get(&self, slot: u32, stride: usize) -> &[u32] {
        #[cfg(test)]
        self.looks.count();
        let (block, from) = self.place(slot, stride);
        &self.blocks[block].words[from..from + stride]
    }

    /// The words of a slot, to change.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32, stride: usize) -> &mut [u32] {
        #[cfg(test)]
        self.looks.count();
        let (block, from) = self.place(slot, stride);
        &mut self.blocks[block].words[from..from + stride]
    }

    /// The way to the next entry of an entry's bucket.
    #[inline]
    pub(crate) fn next(&self, slot: u32, stride: usize) -> IndexLink {
        let words = self.get(slot, stride);
        IndexLink { entry: words[header::NEXT], hash: words[header::NEXT_HASH] }
    }

    /// Replaces it.
    #[inline]
    pub(crate) fn set_next(&mut self, slot: u32, stride: usize, link: IndexLink) {
        let words = self.get_mut(slot, stride);
        (words[header::NEXT], words[header::NEXT_HASH]) = (link.entry, link.hash);
    }

    /// The generation of a slot; 0 if it is free or does not exist.
    #[inline]
    pub(crate) fn generation(&self, slot: u32, stride: usize) -> u32 {
        #[cfg(test)]
        self.looks.count();
        let (block, from) = self.place(slot, stride);
        let words = self.blocks.get(block).and_then(|block| block.words.get(from + header::GENERATION));
        words.copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIDE: usize = 16;

    #[test]
    fn refuses_slots_beyond_the_largest_number() {
        let mut slots = Slots::default();
        let first = slots.take(STRIDE).expect("memory");
        // All other numbers belong to blocks that are full.
        let blocks = MOST_SLOTS >> slots.bits;
        slots.roomy.remove(0);
        slots.blocks.resize_with(blocks, SlotBlock::default);
        assert_eq!(slots.take(STRIDE), None);
        slots.bare.insert(blocks - 1);
        let last = slots.take(STRIDE).expect("a block of no entries");
        assert_eq!((first, last as usize >> slots.bits), (0, blocks - 1));
    }

    #[test]
    fn frees_all_memory_of_empty_blocks() {
        let mut slots = Slots::default();
        let taken: Vec<u32> = (0..50_000).filter_map(|_| slots.take(STRIDE)).collect();
        assert!(taken.len() == 50_000 && slots.blocks.len() > 40);
        taken.into_iter().for_each(|slot| _ = slots.give(slot, STRIDE));
        while !slots.spare(10).is_empty() {}
        assert_eq!((slots.len(), slots.blocks.capacity()), (0, 0));
    }
}
