//! Which entries of a shard changed since each audience was told: sets of slots.
//!
//! ```text
//!  an entry changes ──► fresh ──(somebody looks)──► a set for each audience ──► told ──► acknowledged
//!                                                             ▲                  │
//!                                                             └──────────────────┘ the connection broke
//! ```
//!
//! A change costs one bit, whoever the audience is and however often an entry changes before it is told. A slot whose entry went
//! meanwhile is passed over; one that has another entry by now tells of that one, which changed, too.

/// The changes of a shard.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    fresh: Slots,
    /// What each audience was not told.
    untold: Vec<Slots>,
}

/// A set of slots.
#[derive(Debug, Default)]
struct Slots {
    words: Vec<u64>,
    /// How many words may have bits: those behind them have none.
    used: usize,
}

impl Changes {
    /// For so many audiences.
    pub fn new(audiences: usize) -> Changes {
        Changes { fresh: Slots::default(), untold: (0..audiences).map(|_| Slots::default()).collect() }
    }

    /// An entry changed; true for the first one since somebody looked.
    #[inline]
    pub fn mark(&mut self, slot: u32) -> bool {
        let is_first = self.fresh.used == 0;
        self.fresh.insert(slot);
        is_first
    }

    /// Shows `then` at most `budget` slots that an audience was not told: they count as told. Whether there are more.
    pub fn take(&mut self, audience: usize, budget: usize, mut then: impl FnMut(u32)) -> bool {
        self.distribute();
        let Some(untold) = self.untold.get_mut(audience) else { return false };
        for _ in 0..budget {
            let Some(slot) = untold.pop() else { return false };
            then(slot);
        }
        untold.used > 0
    }

    /// An audience was not told after all.
    pub fn give_back(&mut self, audience: usize, slot: u32) {
        if let Some(untold) = self.untold.get_mut(audience) {
            untold.insert(slot);
        }
    }

    /// No audience needs to be told of what changed so far.
    pub fn forget(&mut self, audience: usize) {
        self.distribute();
        if let Some(untold) = self.untold.get_mut(audience) {
            untold.words[..untold.used].fill(0);
            untold.used = 0;
        }
    }

    /// What changed is news for every audience.
    fn distribute(&mut self) {
        if self.fresh.used == 0 {
            return;
        }
        for untold in &mut self.untold {
            untold.add(&self.fresh);
        }
        self.fresh.words[..self.fresh.used].fill(0);
        self.fresh.used = 0;
    }
}

impl Slots {
    #[inline]
    fn insert(&mut self, slot: u32) {
        let word = (slot / 64) as usize;
        if word >= self.used {
            self.grow(word + 1);
        }
        self.words[word] |= 1 << (slot % 64);
    }

    #[cold]
    fn grow(&mut self, words: usize) {
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
        self.used = words;
    }

    fn add(&mut self, other: &Slots) {
        if other.used > self.used {
            self.grow(other.used);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words[..other.used]) {
            *word |= more;
        }
    }

    /// Takes one of the slots.
    fn pop(&mut self) -> Option<u32> {
        while let Some(last) = self.used.checked_sub(1) {
            let word = &mut self.words[last];
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(last as u32 * 64 + bit);
            }
            self.used = last;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(changes: &mut Changes, audience: usize, budget: usize) -> (Vec<u32>, bool) {
        let mut slots = Vec::new();
        let more = changes.take(audience, budget, |slot| slots.push(slot));
        slots.sort_unstable();
        (slots, more)
    }

    #[test]
    fn each_audience_is_told_once_however_often_an_entry_changes() {
        let mut changes = Changes::new(2);
        let firsts = [3, 200, 3, 64].map(|slot| changes.mark(slot));
        assert_eq!(firsts, [true, false, false, false]);
        assert_eq!(told(&mut changes, 0, 10), (vec![3, 64, 200], false));
        assert_eq!(told(&mut changes, 0, 10), (vec![], false));
        assert!(changes.mark(3), "somebody looked");
        assert_eq!(told(&mut changes, 1, 10), (vec![3, 64, 200], false));
        assert_eq!(told(&mut changes, 0, 10), (vec![3], false));
    }

    #[test]
    fn a_budget_is_kept() {
        let mut changes = Changes::new(1);
        for slot in 0..100 {
            changes.mark(slot);
        }
        let (first, more) = told(&mut changes, 0, 60);
        assert_eq!((first.len(), more), (60, true));
        let (rest, more) = told(&mut changes, 0, 60);
        assert_eq!((rest.len(), more), (40, false));
    }

    #[test]
    fn what_is_given_back_is_told_again() {
        let mut changes = Changes::new(2);
        changes.mark(7);
        told(&mut changes, 0, 1);
        changes.give_back(0, 7);
        assert_eq!(told(&mut changes, 0, 1).0, [7]);
        changes.forget(1);
        assert_eq!(told(&mut changes, 1, 1).0, [0; 0]);
    }
}
