//! Storage of a shard's entries: runs of words in blocks, so growth copies nothing. An empty block is returned to the
//! system, regardless of other blocks.

use weir_memory::Pages;

use crate::index::IndexLink;
use crate::layout::header;

/// Slots for entries of one size.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    blocks: Vec<SlotBlock>,
    /// Blocks with memory and free slots.
    roomy: BlockSet,
    bare: BlockSet,
    /// Memory of empty blocks, to be reused or [freed](Self::spare).
    spare: Vec<Pages>,
    /// Log2 of the number of slots per block.
    bits: u32,
    #[cfg(test)]
    pub looks: Looks,
}

/// A block of consecutive slots.
#[derive(Debug, Default)]
struct SlotBlock {
    /// The words of the slots. Empty while the block holds no entry.
    words: Pages,
    /// The number of entries in the block.
    used: u32,
    /// The head of the list of freed slots: slot plus 1, 0 for none.
    free: u32,
    /// The number of slots, from the first on, that were ever used.
    fresh: u32,
}

/// A set of block numbers.
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

    /// The lowest block number. A word stands for tens of thousands of slots, so the scan is cheap.
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

/// How often slots were accessed during one lock of their shard: the current lock, and the maximum.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Looks {
    now: std::cell::Cell<u32>,
    longest: std::cell::Cell<u32>,
}

#[cfg(test)]
impl Looks {
    /// Starts the count for a new lock of the shard.
    pub(crate) fn begin(&self) {
        self.longest.set(self.longest());
        self.now.set(0);
    }

    fn count(&self) {
        self.now.set(self.now.get() + 1);
    }

    /// The maximum so far.
    pub(crate) fn longest(&self) -> u32 {
        self.now.get().max(self.longest.get())
    }
}

/// Approximate number of words per block. With an IPv4 key and one rate, a block has 1024 entries and fills whole pages.
const BLOCK_WORDS: usize = 16 * 1024;
/// The limit of slots. The number of an entry has 26 bits for its slot.
const MOST_SLOTS: usize = 1 << 26;
/// Maximum number of trailing blocks without memory that are dropped with each removed entry.
const FORGOTTEN_AT_ONCE: usize = 64;

impl Slots {
    /// Takes a zeroed slot for an entry of `stride` words. `None` if memory is short.
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

    /// Allocates memory for a block without memory. Returns the block's number.
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

    /// Frees a slot. Returns whether its block's memory became spare.
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

    /// Takes at most `blocks` blocks of unused memory, for the caller to free.
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

    /// The number of slots with allocated memory.
    #[cfg(test)]
    pub(crate) fn with_memory(&self) -> usize {
        let blocks = self.blocks.iter().filter(|block| !block.words.is_empty()).count();
        (blocks + self.spare.len()) << self.bits
    }

    /// The block of a slot, and the offset of the slot's words in it.
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

    /// The words of a slot, mutable.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32, stride: usize) -> &mut [u32] {
        #[cfg(test)]
        self.looks.count();
        let (block, from) = self.place(slot, stride);
        &mut self.blocks[block].words[from..from + stride]
    }

    /// The link to the next entry in the bucket's chain.
    #[inline]
    pub(crate) fn next(&self, slot: u32, stride: usize) -> IndexLink {
        let words = self.get(slot, stride);
        IndexLink { entry: words[header::NEXT], hash: words[header::NEXT_HASH] }
    }

    /// Replaces the link to the next entry.
    #[inline]
    pub(crate) fn set_next(&mut self, slot: u32, stride: usize, link: IndexLink) {
        let words = self.get_mut(slot, stride);
        (words[header::NEXT], words[header::NEXT_HASH]) = (link.entry, link.hash);
    }

    /// The generation of a slot. 0 if it is free or does not exist.
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
    fn slots_beyond_the_maximum_number_are_refused() {
        let mut slots = Slots::default();
        let first = slots.take(STRIDE).expect("memory");
        // All other slot numbers belong to full blocks.
        let blocks = MOST_SLOTS >> slots.bits;
        slots.roomy.remove(0);
        slots.blocks.resize_with(blocks, SlotBlock::default);
        assert_eq!(slots.take(STRIDE), None);
        slots.bare.insert(blocks - 1);
        let last = slots.take(STRIDE).expect("a block of no entries");
        assert_eq!((first, last as usize >> slots.bits), (0, blocks - 1));
    }

    #[test]
    fn all_memory_of_empty_slot_blocks_is_freed() {
        let mut slots = Slots::default();
        let taken: Vec<u32> = (0..50_000).filter_map(|_| slots.take(STRIDE)).collect();
        assert!(taken.len() == 50_000 && slots.blocks.len() > 40);
        taken.into_iter().for_each(|slot| _ = slots.give(slot, STRIDE));
        while !slots.spare(10).is_empty() {}
        assert_eq!((slots.len(), slots.blocks.capacity()), (0, 0));
    }
}
