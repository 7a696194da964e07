//! TLS sessions as engines: bytes in, bytes out.
//!
//! A [`TlsSession`] takes bytes from the wire and returns bytes for the wire. rustls with aws-lc-rs runs the handshake.
//! After it, records are encrypted and decrypted here (`record.rs`), without copying. [`verify`] checks certificates of
//! peers, with OpenSSL's codes.
//!
//! The crate must not know files, sockets, tasks and clocks: the time comes with the settings of a session, random
//! numbers from the cryptographic library. Sessions share only settings that are made before the first session. rustls
//! callbacks (keys, checks, signatures) do not know their session. Their results are stored in a thread-local, and the
//! session that made the call takes them before it returns. Begin with `session.rs`, then `traffic.rs`.

mod capture;
pub mod cipher_names;
pub mod ciphers;
mod early;
mod early_client;
mod early_refused;
pub mod failure;
mod heavy;
mod identity;
mod key_schedule;
mod pump;
mod record;
#[cfg(test)]
mod rfc8448;
mod secp521r1;
mod secrets;
pub mod session;
mod traffic;
mod traffic_keys;
pub mod verify;

pub use capture::{HelloCapture, HelloList, is_grease, set_capture};
pub use failure::{Alert, SessionFailure, Why};
pub use heavy::guarded;
pub use identity::{SessionIdentity, keep_identities, note_stored};
pub use key_schedule::with_our_schedule;
pub use record::{HEADER, MAX_CONTENT, MAX_OVERHEAD, MAX_RECORD, announced};
pub use secrets::{Randoms, Secret, Secrets, keep_keys};
pub use session::{ChooseServer, Facts, HandshakeProgress, OwnCertificate, SessionSetup, TlsSession};
pub use traffic::OpenOutcome;
pub use verify::{VerifyCodes, VerifyMode};

pub use rustls;
