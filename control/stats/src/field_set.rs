//! A set of fields.

use crate::fields::{FIELD_COUNT, StatsField};

/// A set of [`StatsRow`](crate::StatsRow) fields to fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet([u64; FIELD_COUNT.div_ceil(64)]);

impl FieldSet {
    /// The set of these fields.
    pub const fn of(fields: &[StatsField]) -> Self {
        let mut set = Self([0; FIELD_COUNT.div_ceil(64)]);
        let mut place = 0;
        while place < fields.len() {
            set = set.with(fields[place]);
            place += 1;
        }
        set
    }

    /// The set with this field added.
    pub const fn with(mut self, field: StatsField) -> Self {
        self.0[field as usize / 64] |= 1 << (field as usize % 64);
        self
    }

    /// Whether a field is in the set.
    #[inline]
    pub const fn contains(&self, field: StatsField) -> bool {
        self.0[field as usize / 64] & 1 << (field as usize % 64) != 0
    }

    /// Whether the two sets have a common field.
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(own, other)| own & other != 0)
    }

    /// The fields in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = StatsField> {
        let words = self.0.into_iter().enumerate();
        words.flat_map(|(word, mut bits)| {
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(StatsField::ALL[word * 64 + bit])
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_set_contains_exactly_its_fields() {
        let last = StatsField::ALL[FIELD_COUNT - 1];
        let set = FieldSet::of(&[last, StatsField::Pxname, StatsField::Ttime]).with(StatsField::Svname);
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [StatsField::Pxname, StatsField::Svname, StatsField::Ttime, last]
        );
        assert!(
            StatsField::ALL.iter().all(|field| set.contains(*field) == set.iter().any(|of| of == *field))
        );
        assert!(set.meets(&FieldSet::of(&[last])) && !set.meets(&FieldSet::of(&[StatsField::Rtime])));
    }
}
