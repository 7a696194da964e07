//! The dictionary of names of a table. Entries store the number of a name.

use std::sync::{Arc, Mutex, PoisonError};

/// Names, each with its number from 1.
///
/// Names are never removed. There is one for each distinct server name so far, at most [`NumberedNames::MAX`].
#[derive(Debug, Default)]
pub(crate) struct NumberedNames(Mutex<Vec<Arc<str>>>);

impl NumberedNames {
    /// The limit of names. Further names get the number 0.
    pub(crate) const MAX: usize = 65_536;

    /// The number of a name. 0 if the dictionary is full.
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

    pub(crate) fn name(&self, number: u32) -> Option<Arc<str>> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get((number as usize).checked_sub(1)?).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_name_keeps_its_number() {
        let names = NumberedNames::default();
        let (first, second) = (names.number("a"), names.number("b"));
        assert_eq!((first, second, names.number("a")), (1, 2, 1));
        assert_eq!(names.name(2).as_deref(), Some("b"));
        assert_eq!((names.name(0), names.name(3)), (None, None));
    }
}
