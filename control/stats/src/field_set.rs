//! A set of fields.

use crate::fields::{FIELD_COUNT, Field};

/// The fields of a [`Row`](crate::Row) that its reader needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet([u64; FIELD_COUNT.div_ceil(64)]);

impl FieldSet {
    /// These fields.
    pub const fn of(fields: &[Field]) -> Self {
        let mut set = Self([0; FIELD_COUNT.div_ceil(64)]);
        let mut place = 0;
        while place < fields.len() {
            set = set.with(fields[place]);
            place += 1;
        }
        set
    }

    /// These fields and one more.
    pub const fn with(mut self, field: Field) -> Self {
        self.0[field as usize / 64] |= 1 << (field as usize % 64);
        self
    }

    /// Whether a field is in the set.
    #[inline]
    pub const fn contains(&self, field: Field) -> bool {
        self.0[field as usize / 64] & 1 << (field as usize % 64) != 0
    }

    /// Whether a field is in both sets.
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(own, other)| own & other != 0)
    }

    /// The fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = Field> {
        let words = self.0.into_iter().enumerate();
        words.flat_map(|(word, mut bits)| {
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(Field::ALL[word * 64 + bit])
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_its_fields_and_no_others() {
        let last = Field::ALL[FIELD_COUNT - 1];
        let set = FieldSet::of(&[last, Field::Pxname, Field::Ttime]).with(Field::Svname);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Field::Pxname, Field::Svname, Field::Ttime, last]);
        assert!(Field::ALL.iter().all(|field| set.contains(*field) == set.iter().any(|of| of == *field)));
        assert!(set.meets(&FieldSet::of(&[last])) && !set.meets(&FieldSet::of(&[Field::Rtime])));
    }
}
