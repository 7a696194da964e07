//! The index by key: a hash table that grows and shrinks by one bucket at a time (linear hashing, W. Litwin, 1980).
//!
//! The entries of a bucket form a chain, with the links in the entries. Each [`IndexLink`] holds the hash of the next entry
//! and whether the chain continues after it. So a search for a missing key and the split of a chain of one entry usually
//! read no entry, which would cost a cache miss. There are about as many buckets as entries, at most twice as many. A
//! bucket has eight bytes. Growth by one bucket reads only one chain.

use weir_memory::Pages;

/// The first entry of each bucket.
#[derive(Debug, Default)]
pub(crate) struct BucketIndex {
    /// The link of each bucket, as two words: entry and hash.
    blocks: Vec<Pages>,
    /// Blocks without buckets, to be reused or [freed](Self::spare).
    spare: Vec<Pages>,
    /// The number of buckets.
    buckets: u32,
}

/// A link to an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IndexLink {
    /// The entry's slot plus 1. 0 for none.
    pub entry: u32,
    /// The lower bits of the entry's hash, and the bit [`LEADS_ON`].
    pub hash: u32,
}

/// The chain may continue after the link's entry. Without this bit the entry is the last one.
const LEADS_ON: u32 = 1 << 31;

impl IndexLink {
    /// The bits of a hash in a link. A shard never has more buckets than they distinguish.
    pub(crate) const HASH: u32 = !LEADS_ON;

    /// A link to an entry that precedes the entry of `next`.
    pub(crate) fn to(slot: u32, hash: u32, next: IndexLink) -> IndexLink {
        let leads_on = if next.entry == 0 { 0 } else { LEADS_ON };
        IndexLink { entry: slot + 1, hash: hash & !LEADS_ON | leads_on }
    }

    /// The entry's slot. `None` at the end.
    #[inline]
    pub(crate) fn slot(self) -> Option<u32> {
        self.entry.checked_sub(1)
    }

    /// Whether the entry may have this hash.
    #[inline]
    pub(crate) fn may_be(self, hash: u32) -> bool {
        (self.hash ^ hash) & !LEADS_ON == 0
    }

    /// Whether the chain may continue after the entry.
    #[inline]
    pub(crate) fn leads_on(self) -> bool {
        self.hash & LEADS_ON != 0
    }
}

/// Number of buckets per block. A block fills whole pages.
const BLOCK: u32 = 1024;
/// The number of buckets of a new index: a power of two.
const FIRST: u32 = 16;

impl BucketIndex {
    #[inline]
    pub(crate) fn bucket(&self, hash: u32) -> u32 {
        // Buckets below the split already belong to the next power of two.
        let above = self.buckets.next_power_of_two();
        let bucket = hash & (above - 1);
        if bucket < self.buckets { bucket } else { bucket & (above / 2 - 1) }
    }

    /// Whether an index with this many entries needs another bucket.
    pub(crate) fn is_full(&self, entries: u32) -> bool {
        entries >= self.buckets
    }

    /// Whether the index has at least one bucket.
    pub(crate) fn has_buckets(&self) -> bool {
        self.buckets > 0
    }

    /// Adds a bucket and returns the bucket to split between itself and the new one. `None` without memory: chains then
    /// become longer.
    pub(crate) fn grow(&mut self) -> Option<u32> {
        if self.buckets == 0 {
            self.add_block()?;
            self.buckets = FIRST;
            return None;
        }
        let new = self.buckets;
        if new == self.blocks.len() as u32 * BLOCK {
            self.add_block()?;
        }
        self.buckets += 1;
        // The highest bit distinguishes the new bucket from the bucket to split.
        Some(new & !(1 << new.ilog2()))
    }

    fn add_block(&mut self) -> Option<()> {
        let block = match self.spare.pop() {
            Some(mut block) => {
                block.fill(0);
                block
            }
            None => Pages::new(BLOCK as usize * 2)?,
        };
        self.blocks.push(block);
        Some(())
    }

    /// Whether an index with this many entries has more buckets than it needs.
    pub(crate) fn is_large(&self, entries: u32) -> bool {
        self.buckets > FIRST && self.buckets / 2 > entries
    }

    /// Removes the last bucket. Returns the bucket that its entries now belong to and a link to the first of them. A block
    /// without buckets becomes spare.
    pub(crate) fn shrink(&mut self) -> (u32, IndexLink) {
        let last = self.buckets - 1;
        let first = self.first(last);
        self.set_first(last, IndexLink::default());
        self.buckets = last;
        if last.is_multiple_of(BLOCK) {
            self.spare.extend(self.blocks.pop());
        }
        (last & !(1 << last.ilog2()), first)
    }

    /// Removes all buckets.
    pub(crate) fn clear(&mut self) {
        self.spare.append(&mut self.blocks);
        self.buckets = 0;
    }

    /// Whether unused blocks can be freed.
    pub(crate) fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Takes at most `blocks` unused blocks, for the caller to free.
    pub(crate) fn spare(&mut self, blocks: usize) -> Vec<Pages> {
        self.spare.split_off(self.spare.len().saturating_sub(blocks))
    }

    /// The link to the first entry of a bucket.
    #[inline]
    pub(crate) fn first(&self, bucket: u32) -> IndexLink {
        let at = (bucket % BLOCK) as usize * 2;
        match self.blocks.get((bucket / BLOCK) as usize).map(|block| &block[at..at + 2]) {
            Some(&[entry, hash]) => IndexLink { entry, hash },
            _ => IndexLink::default(),
        }
    }

    /// Sets the first entry of a bucket.
    #[inline]
    pub(crate) fn set_first(&mut self, bucket: u32, link: IndexLink) {
        let at = (bucket % BLOCK) as usize * 2;
        let words = &mut self.blocks[(bucket / BLOCK) as usize][at..at + 2];
        (words[0], words[1]) = (link.entry, link.hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_bucket_takes_entries_from_a_single_bucket() {
        let mut index = BucketIndex::default();
        assert_eq!(index.grow(), None);
        for _ in 0..1000 {
            let before: Vec<u32> = (0..5000).map(|hash| index.bucket(hash)).collect();
            let divided = index.grow().expect("not the first");
            let new = index.buckets - 1;
            for (hash, before) in before.into_iter().enumerate() {
                let now = index.bucket(hash as u32);
                assert!(now == before || (now == new && before == divided), "{hash}: {before} -> {now}");
                assert!(now < index.buckets);
            }
        }
    }

    #[test]
    fn removing_the_last_bucket_returns_its_entries_to_their_origin() {
        let mut index = BucketIndex::default();
        index.grow();
        let divided: Vec<u32> = (0..3000).filter_map(|_| index.grow()).collect();
        for into in divided.into_iter().rev() {
            let before: Vec<u32> = (0..5000).map(|hash| index.bucket(hash)).collect();
            assert_eq!(index.shrink(), (into, IndexLink::default()));
            for (hash, before) in before.into_iter().enumerate() {
                let now = index.bucket(hash as u32);
                assert_eq!(now, if before == index.buckets { into } else { before }, "{hash}");
            }
        }
        assert_eq!((index.buckets, index.spare.len(), index.blocks.len()), (FIRST, 2, 1));
    }
}
