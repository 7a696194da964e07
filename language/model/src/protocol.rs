//! Protocols that lines force.

use weir_fingerprint::Canonical;

/// A protocol forced by `proto`, on a server or a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum Protocol {
    /// `h1`.
    H1,
    /// `h2`; of listeners only.
    H2,
    /// `none`: bytes, whatever the mode.
    None,
    /// `spop`; of servers in `mode spop` only.
    Spop,
    /// `fcgi`; of servers in `mode http` only. Their backend names the application.
    Fcgi,
}
