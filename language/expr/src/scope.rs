//! What the parser of an expression may use: names, files and the place it is written at.

use std::io;

use crate::acl::AclTable;
use crate::fetch::{Places, Registry};
use crate::pattern::PatternStore;
use crate::variables::VariableNames;

/// Reads the files that the configuration names (maps, ACL files).
pub trait Loader {
    /// The bytes of a file.
    fn load(&self, path: &str) -> io::Result<Vec<u8>>;

    /// The value of an environment variable, as it was when the process started.
    fn environment(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

/// Everything an expression may refer to while it is parsed.
#[derive(Clone, Copy)]
pub struct Scope<'s> {
    /// The known fetches and ACL keywords.
    pub registry: &'s Registry,
    /// The maps and ACL files, shared by name.
    pub patterns: &'s PatternStore,
    /// The interned names of variables.
    pub variables: &'s VariableNames,
    /// The ACLs of the proxy, where there are any.
    pub acls: Option<&'s AclTable>,
    /// Where files come from.
    pub loader: &'s dyn Loader,
    /// Where the expression is written: a fetch must be valid in at least one of these places.
    pub places: Places,
    /// The configuration file, for the descriptions in `show acl`.
    pub file: &'s str,
    /// The line in it.
    pub line: usize,
}
