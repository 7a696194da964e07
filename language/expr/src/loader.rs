//! The interface to files and names during parsing: the parser itself opens no file and reads no environment.

use std::net::Ipv4Addr;

use weir_syntax::{Files, MemoryFiles, NoFiles};

use crate::script_names::ScriptNames;

/// The files that a configuration names (maps, ACL files), the environment, and host names.
pub trait Loader: Files {
    /// The value of an environment variable at startup.
    fn environment(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// The functions of scripts that expressions may call.
    fn scripts(&self) -> Option<&dyn ScriptNames> {
        None
    }

    /// The IPv4 address of a host name. A pattern may contain a host name instead of an address (manual, 7.1.6).
    fn address_of(&self, host: &str) -> Option<Ipv4Addr> {
        let _ = host;
        None
    }
}

impl Loader for NoFiles {}

impl Loader for MemoryFiles {}
