//! DNS messages: writing questions, reading answers (RFC 1035, 2782, 3596, 6891).
//!
//! ```text
//! Question + identifier ──► write ──► bytes ──► a name server ──► bytes ──► Answer::read ──► addresses, services
//!                                                                              │
//!                                                                  Refusal: not an answer to this question
//! ```
//!
//! An answer may be forged. So a message is used only if its identifier and its question match the query, letter by
//! letter: the letters' case is random (draft-vixie-dnsext-dns0x20), which makes an answer harder to guess. The work
//! for a message is bounded by its length, a 16-bit number: a pointer in a name leads backwards only, a name has 255
//! bytes at most, and a chain of aliases has [`answer::MOST_ALIASES`] links at most.
//!
//! The crate must not know sockets, clocks, caches and retries. Begin with [`Question`], then [`Answer`].

pub mod answer;
pub mod name;
pub mod question;
mod reader;

pub use answer::{Answer, AnswerRefusal, ResponseCode, ServiceLocation};
pub use name::{Name, NameError};
pub use question::{Question, RecordKind};
