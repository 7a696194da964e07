//! The environment variables that a configuration sees. They are a value, not the environment of the process.
//!
//! The caller fills it from the process once. `setenv` and similar words change it line by line, and child processes get the
//! result. Names and values are bytes, as in the kernel.

use std::collections::BTreeMap;

/// Variables by name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Environment {
    /// No variables at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a variable. `None` if it is not set; an empty value counts as set.
    pub fn value(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.variables.get(name.as_ref()).map(Vec::as_slice)
    }

    /// Sets a variable, replacing its value.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.variables.insert(name.as_ref().to_vec(), value.as_ref().to_vec());
    }

    /// Sets a variable unless it is set, even to an empty value.
    pub fn set_if_absent(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.variables.entry(name.as_ref().to_vec()).or_insert_with(|| value.as_ref().to_vec());
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) {
        self.variables.remove(name.as_ref());
    }

    /// Removes every variable for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        self.variables.retain(|name, _| keep(name));
    }

    /// All variables in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.variables.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }
}

impl<N: Into<Vec<u8>>, V: Into<Vec<u8>>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self { variables: pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_if_absent_does_not_overwrite_an_empty_value() {
        let mut environment = Environment::from_iter([("A", "")]);
        environment.set_if_absent("A", "x");
        environment.set_if_absent("B", "y");
        assert_eq!(environment.value("A"), Some(&b""[..]));
        assert_eq!(environment.value("B"), Some(&b"y"[..]));
        environment.retain(|name| name == b"A");
        assert_eq!(environment.value("B"), None);
    }
}
