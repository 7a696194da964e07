//! DNS messages: questions as they are asked, answers as they come (RFC 1035, 2782, 3596, 6891).
//!
//! ```text
//! Question + identifier ──► write ──► bytes ──► a name server ──► bytes ──► Answer::read ──► addresses, services
//!                                                                              │
//!                                                                  Refusal: not an answer to this question
//! ```
//!
//! Anybody may send an answer. So nothing of a message is believed before its identifier and its question are those that were
//! asked, letter by letter: the letters' case is random (draft-vixie-dnsext-dns0x20), which makes an answer harder to guess. The work that a message
//! asks for is bounded by its length, which two bytes count: a pointer of a name leads backwards only, a name has 255 bytes at most, and
//! a chain of aliases has [`answer::MOST_ALIASES`] links at most.
//!
//! The crate refuses to know sockets, clocks, caches and retries. Begin with [`Question`], then [`Answer`].

pub mod answer;
pub mod name;
pub mod question;
mod reader;

pub use answer::{Answer, Refusal, ResponseCode, Service};
pub use name::{Name, NameError};
pub use question::{Kind, Question};
