//! TLS certificates and settings, and their selection for a session.
//!
//! [`ListenerCertificates`] is the state of a TLS listener: certificates by name, with the settings of each ([`TlsSettings`]).
//! [`UpstreamTls`] is the state of a server. Both are published versions: a session uses the version that is current when it
//! begins. The session engine is in `proto/tls-session` and is re-exported here, so that users of TLS import one crate.
//!
//! The crate refuses to know sockets, tasks and timeouts (`data/net` has those), and the language (`data/assemble` makes
//! [`TlsSettings`] from a configuration). Begin with `listener.rs`, then `settings.rs`.

pub mod certificate;
pub mod describe;
mod entry;
pub mod forge;
pub mod inspect;
pub mod issuers;
pub mod library;
pub mod listener;
pub mod ocsp;
pub mod openssl;
pub mod passphrase;
pub mod pem;
pub mod resumption;
pub mod settings;
mod signatures;
pub mod ticket_keys;
pub mod upstream;
pub mod views;

pub use certificate::{Certificate, CertificateLoader, CertificateParts, CertificatePaths, cannot_open};
pub use entry::{CertificateScope, ListenerCertificate};
pub use listener::{ListenerCertificates, LiveListener};
pub use settings::{Base, ListenerSettings, TlsSettings};
pub use upstream::{LiveUpstream, UpstreamTls, host_name};
pub use weir_tls_session::{
    Alert, ChooseServer, Facts, HEADER, HandshakeProgress, HelloCapture, HelloList, MAX_CONTENT,
    MAX_OVERHEAD, MAX_RECORD, OpenOutcome, OwnCertificate, Randoms, Secret, Secrets, SessionFailure,
    SessionIdentity, SessionSetup, TlsSession, VerifyCodes, VerifyMode, Why, announced, cipher_names,
    ciphers, is_grease, keep_identities, keep_keys, set_capture, verify,
};

/// The current time, for checking certificates.
pub mod clock {
    pub use rustls::pki_types::UnixTime;
    pub use rustls::time_provider::TimeProvider;
}

pub use rustls;
