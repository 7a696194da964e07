//! What the parser of an expression may use: names, files and the place it is written at.

use std::cell::RefCell;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::acl::AclTable;
use crate::error::ParseError;
use crate::fetch::{Places, Registry};
use crate::pattern::PatternStore;
use crate::variables::VariableNames;

/// Reads the files that the configuration names (maps, ACL files).
pub trait Loader {
    /// The bytes of a file.
    fn load(&self, path: &str) -> io::Result<Vec<u8>>;

    /// The bytes of a file of at most `limit` bytes. A larger one is an error, before all of it is in memory.
    fn load_at_most(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        let bytes = self.load(path)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} bytes")));
        }
        Ok(bytes)
    }

    /// The value of an environment variable, as it was when the process started.
    fn environment(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// The IPv4 address of a host name, which may stand for a plain address in a pattern (manual, 7.1.6).
    fn address_of(&self, host: &str) -> Option<Ipv4Addr> {
        let _ = host;
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
    /// What is unusual but legal goes here.
    pub warnings: &'s Warnings,
    /// The configuration file, for the descriptions in `show acl`.
    pub file: &'s str,
    /// The line in it.
    pub line: usize,
}

impl Scope<'_> {
    /// Where the expression is written, as `file:line`.
    pub fn place(&self) -> Arc<str> {
        format!("{}:{}", self.file, self.line).into()
    }
}

/// What the parser found unusual, with the words it is about.
#[derive(Debug, Default)]
pub struct Warnings(RefCell<Vec<ParseError>>);

impl Warnings {
    /// None yet.
    pub fn new() -> Warnings {
        Warnings::default()
    }

    /// Adds one.
    pub fn push(&self, warning: ParseError) {
        self.0.borrow_mut().push(warning);
    }

    /// Takes them all.
    pub fn take(&self) -> Vec<ParseError> {
        self.0.take()
    }
}
