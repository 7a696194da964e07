//! Stick-tables: what is stored and counted by key (manual, section 11).
//!
//! A [`Table`] is declared once ([`Declaration`]): the type of its keys, how many entries fit, how long one lives, which
//! data each has. It is cut into shards, each with its own lock, index and entries, so that workers that count different
//! keys do not meet. An entry is a run of 32-bit words in its shard: its links, its key, and what the declaration
//! stores, nothing else ([`Layout`]). Who tracks an entry holds an [`EntryKey`]: a tracked entry neither expires nor gives
//! way to another. A lock is held for one look at one entry, never while anything is waited for.
//!
//! Nothing here is done all at once: an index grows by one bucket with each entry that comes, entries expire in small
//! steps, and a dump looks at a few entries at a time.
//!
//! A table that is shared with other instances notes which entries changed ([`Table::tell`]), one bit each; what others tell comes in by
//! [`Table::learn`]. Nothing here knows how they talk.
//!
//! The crate refuses to know streams, servers, sockets and the clock: time comes in as an argument, in milliseconds.
//! Begin with `table.rs`, then `shard.rs` and `row.rs`.

mod ages;
mod answer;
mod changes;
#[cfg(test)]
mod fixture;
mod index;
mod key;
mod layout;
mod names;
mod rate;
mod row;
mod shard;
mod slots;
mod table;

pub use weir_expr::table::{DataType, Declaration, KeyType, ServerKeyKind, Stored, TableQuestion};

pub use answer::Answer;
pub use key::Key;
pub use layout::Layout;
pub use rate::RateParts;
pub use row::Row;
pub use table::{Cursor, EntryKey, Position, Removed, Table};
