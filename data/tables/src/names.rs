//! The dictionary of a table: entries store numbers of names.

use std::sync::{Arc, Mutex, PoisonError};

/// Names, each with its number from 1.
///
/// Names are never removed: there are as many as servers were ever named, at most [`NumberedNames::MAX`].
#[derive(Debug, Default)]
pub(crate) struct NumberedNames(Mutex<Vec<Arc<str>>>);

impl NumberedNames {
    /// The limit of names; further ones get the number 0.
    pub(crate) const MAX: usize = 65_536;

    /// The number of a name; 0 if the table of names is full.
    pub(crate) fn number(&self, name: &str) -> u32 {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = names.iter().position(|known| **known == *name);
        let position = found.or_else(|| {
            (names.len() < NumberedNames::MAX).then(|| {
                names.push(name.into());
                names.len() - 1
            })
        });
        position.map_or(0, |position| position as u32 + 1)
    }

    /// The name of that number.
    pub(crate) fn name(&self, number: u32) -> Option<Arc<str>> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get((number as usize).checked_sub(1)?).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let names = NumberedNames::default();
        let (first, second) = (names.number("a"), names.number("b"));
        assert_eq!((first, second, names.number("a")), (1, 2, 1));
        assert_eq!(names.name(2).as_deref(), Some("b"));
        assert_eq!((names.name(0), names.name(3)), (None, None));
    }
}
