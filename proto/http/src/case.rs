//! Field names in the case that a non-conforming peer requires (`h1-case-adjust`).

use std::collections::BTreeMap;

/// A map from a field name, in any case, to its required spelling.
#[derive(Clone, Debug, Default)]
pub struct CaseMap {
    names: BTreeMap<Box<[u8]>, Box<[u8]>>,
    longest: usize,
}

impl CaseMap {
    /// The longest name that can be adjusted; longer ones are written unchanged.
    pub const MAX_NAME: usize = 128;

    /// Adds the required spelling of a name. `false` if the map has it already or it is too long.
    pub fn insert(&mut self, name: &[u8]) -> bool {
        if name.len() > CaseMap::MAX_NAME {
            return false;
        }
        self.longest = self.longest.max(name.len());
        self.names.insert(name.to_ascii_lowercase().into(), name.into()).is_none()
    }

    /// The required spelling of a name, if it is in the map.
    pub fn look_up(&self, name: &[u8]) -> Option<&[u8]> {
        if name.len() > self.longest {
            return None;
        }
        let mut lower = [0u8; CaseMap::MAX_NAME];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.names.get(&*lower).map(|adjusted| &**adjusted)
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_are_looked_up_in_any_case() {
        let mut map = CaseMap::default();
        assert!(map.insert(b"Content-LENGTH"));
        assert!(!map.insert(b"content-length"));
        assert_eq!(map.look_up(b"content-Length"), Some(&b"content-length"[..]));
        assert_eq!(map.look_up(b"content-type"), None);
        assert_eq!(map.look_up(&[b'a'; 4096]), None);
    }
}
