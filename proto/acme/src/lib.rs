//! ACME (RFC 8555), the protocol between a certificate authority and its customers, from the customer's side.
//!
//! ```text
//!   directory ─► nonce ─► account ─► order ─► authorizations ─► challenges ─► CSR ─► chain
//! ```
//! Beyond RFC 8555: TLS-ALPN challenges (RFC 8737), renewal information (RFC 9773), external accounts, profiles
//! (draft-aaron-acme-profiles), identifiers that are addresses (RFC 8738), and records that persist (draft-ietf-acme-dns-persist).
//!
//! The crate must not know sockets, files, clocks, names of the configuration, or how a challenge is answered. Everything that an
//! authority sends is checked and bounded.
//!
//! Begin with [`Ordering`], the engine of one certificate. [`AccountKey`] signs its requests, [`Challenge`] has the values that prove
//! control of a name, and [`renewal`] says when the next order is due.

pub mod account;
pub mod challenge;
pub mod documents;
pub mod identifier;
pub mod json;
pub mod jws;
pub mod ordering;
pub mod problem;
pub mod renewal;
pub mod testing;

pub use account::{AccountKey, KeyError};
pub use challenge::{Challenge, ChallengeKind};
pub use identifier::Identifier;
pub use json::Malformed;
pub use jws::{ExternalAccount, MacAlgorithm};
pub use ordering::{AcmeAnswer, AcmeRequest, Issued, OrderFailure, OrderPlan, OrderStep, Ordering};
pub use problem::AcmeProblem;
