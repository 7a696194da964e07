//! Finding an entry by its key: a hash table that grows by one bucket at a time (linear hashing, W. Litwin, 1980).
//!
//! Entries of a bucket are a chain through the entries themselves. There are about as many buckets as entries, so a bucket
//! costs four bytes an entry, and no growth ever looks at more than one chain.

/// The first entry of each bucket.
#[derive(Debug, Default)]
pub(crate) struct Index {
    blocks: Vec<Box<[u32]>>,
    /// How many buckets there are.
    buckets: u32,
}

/// Buckets of a block.
const BLOCK: u32 = 256;
/// A new index has so many buckets: a power of two.
const FIRST: u32 = 16;

impl Index {
    /// The bucket of a hash.
    #[inline]
    pub fn bucket(&self, hash: u32) -> u32 {
        // Buckets below the split are those of the next power of two already.
        let above = self.buckets.next_power_of_two();
        let bucket = hash & (above - 1);
        if bucket < self.buckets { bucket } else { bucket & (above / 2 - 1) }
    }

    /// Whether an index with so many entries needs another bucket.
    pub fn is_full(&self, entries: u32) -> bool {
        entries >= self.buckets
    }

    /// Adds a bucket; says which one has to be divided between itself and the new one.
    pub fn grow(&mut self) -> Option<u32> {
        if self.buckets == 0 {
            self.blocks.push(vec![0; BLOCK as usize].into_boxed_slice());
            self.buckets = FIRST;
            return None;
        }
        let new = self.buckets;
        if new == self.blocks.len() as u32 * BLOCK {
            self.blocks.push(vec![0; BLOCK as usize].into_boxed_slice());
        }
        self.buckets += 1;
        // The highest bit tells the new one from the one that it comes from.
        Some(new & !(1 << new.ilog2()))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Index::default();
    }

    /// The first entry of a bucket, plus 1; 0 for none.
    #[inline]
    pub fn first(&self, bucket: u32) -> u32 {
        match self.blocks.get((bucket / BLOCK) as usize) {
            Some(block) => block[(bucket % BLOCK) as usize],
            None => 0,
        }
    }

    /// Replaces it.
    #[inline]
    pub fn set_first(&mut self, bucket: u32, entry: u32) {
        self.blocks[(bucket / BLOCK) as usize][(bucket % BLOCK) as usize] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_bucket_takes_from_one_other_only() {
        let mut index = Index::default();
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
}
