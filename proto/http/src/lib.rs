//! HTTP semantics, independent of the version: methods, statuses, heads as bytes with an index, edits as an overlay.
//!
//! A message head is the received bytes and an index over them ([`Head`]). Reading needs both. Edits are stored in an
//! arena and never change the received bytes. Only an edited head is serialized again. Other heads are forwarded
//! verbatim, with the peer's letter case and field order.
//!
//! This crate knows the semantics of HTTP, whatever its version. It does not know how an HTTP/1 message is parsed from
//! a byte stream (`weir-h1` does), nor sockets, clocks or configuration. Begin with [`Head`], then [`uri`].

pub mod auth;
pub mod authority;
pub mod body;
pub mod case;
pub mod cookie;
pub mod flags;
pub mod head;
pub mod message;
pub mod method;
pub mod name;
pub mod normalize;
pub mod pages;
pub mod percent;
pub mod query;
pub mod span;
pub mod status;
pub mod uri;
pub mod values;
pub mod version;

pub use body::BodySize;
pub use case::CaseMap;
pub use flags::HeadFlags;
pub use head::{Field, Head, Kind, NoRoom, TooManyFields, ValueEdit, received_lines};
pub use method::Method;
pub use name::{KnownName, is_token};
pub use span::MessageSpan;
pub use version::Version;
