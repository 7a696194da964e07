//! TLS sessions as engines, and the certificates that they show.
//!
//! A [`Session`] takes bytes of the wire and gives bytes for the wire; rustls with aws-lc-rs makes its handshake, and once that
//! is over records are encrypted and decrypted here (`record.rs`), where nobody has to copy them. A [`Listener`] is what a
//! TLS listener knows: certificates by name, with the settings of each ([`Settings`]).
//!
//! The crate refuses to know sockets, tasks and timeouts (`data/net` has those), and the language (`control/runtime` makes
//! [`Settings`] from a configuration). Begin with `session.rs`, then `listener.rs`.

pub mod certificate;
pub mod ciphers;
pub mod describe;
mod entry;
pub mod failure;
pub mod forge;
pub mod inspect;
pub mod listener;
pub mod ocsp;
pub mod openssl;
pub mod pem;
mod record;
pub mod resumption;
pub mod session;
pub mod settings;
mod signatures;
pub mod ticket_keys;
mod traffic;
pub mod upstream;
pub mod verify;

pub use certificate::{Certificate, Files, Loader, Parts};
pub use entry::{Entry, Part};
pub use failure::{Alert, Failure, Why};
pub use listener::{Listener, LiveListener};
pub use record::{HEADER, MAX_CONTENT, MAX_OVERHEAD, MAX_RECORD, announced};
pub use session::{ChooseServer, Chosen, Facts, Progress, Session};
pub use settings::{Base, ServerSettings, Settings};
pub use traffic::Opened;
pub use upstream::{LiveUpstream, Upstream, host_name};
pub use verify::{Verified, VerifyMode};

/// What time it is, for who checks certificates.
pub mod clock {
    pub use rustls::pki_types::UnixTime;
    pub use rustls::time_provider::TimeProvider;
}

pub use rustls;
