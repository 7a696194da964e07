//! The source of files: parsing itself opens none.

use std::io;
use std::net::Ipv4Addr;

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

    /// The IPv4 address of a host name, which a pattern may contain instead of an address (manual, 7.1.6).
    fn address_of(&self, host: &str) -> Option<Ipv4Addr> {
        let _ = host;
        None
    }
}
