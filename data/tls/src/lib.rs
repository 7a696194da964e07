//! TLS sessions as engines, and their certificates.
//!
//! A [`Session`] takes bytes from the wire and returns bytes for the wire; rustls with aws-lc-rs makes its handshake, and after
//! that records are encrypted and decrypted here (`record.rs`), without copying. A [`Listener`] is the state of a TLS listener:
//! certificates by name, with the settings of each ([`Settings`]).
//!
//! The crate refuses to know sockets, tasks and timeouts (`data/net` has those), and the language (`control/runtime` makes
//! [`Settings`] from a configuration). Begin with `session.rs`, then `listener.rs`.

mod capture;
pub mod certificate;
pub mod cipher_names;
pub mod ciphers;
pub mod describe;
mod early;
mod early_client;
mod early_refused;
mod entry;
pub mod failure;
pub mod forge;
mod heavy;
mod identity;
pub mod inspect;
pub mod issuers;
mod key_schedule;
pub mod library;
pub mod listener;
pub mod ocsp;
pub mod openssl;
pub mod passphrase;
pub mod pem;
mod pump;
mod record;
pub mod resumption;
#[cfg(test)]
mod rfc8448;
mod secp521r1;
mod secrets;
pub mod session;
pub mod settings;
mod signatures;
pub mod ticket_keys;
mod traffic;
mod traffic_keys;
pub mod upstream;
pub mod verify;

pub use capture::{Capture, Listed, is_grease, set_capture};
pub use certificate::{Certificate, CertificatePaths, Loader, Parts, cannot_open};
pub use entry::{Entry, Part};
pub use failure::{Alert, Failure, Why};
pub use identity::{Identity, keep_identities};
pub use listener::{Listener, LiveListener};
pub use record::{HEADER, MAX_CONTENT, MAX_OVERHEAD, MAX_RECORD, announced};
pub use secrets::{Randoms, Secret, Secrets, keep_keys};
pub use session::{ChooseServer, Chosen, Facts, Progress, Session};
pub use settings::{Base, ListenerSettings, Settings};
pub use traffic::Opened;
pub use upstream::{LiveUpstream, Upstream, host_name};
pub use verify::{Verified, VerifyMode};

/// The current time, for checking certificates.
pub mod clock {
    pub use rustls::pki_types::UnixTime;
    pub use rustls::time_provider::TimeProvider;
}

pub use rustls;
