//! Stick-tables: data stored and counted by key (manual, section 11).
//!
//! A [`Table`] is declared once ([`Declaration`]): the type of its keys, how many entries fit, how long one lives, which
//! data each has. It is split into shards, each with its own lock, index and entries, so that workers that count different
//! keys do not contend. An entry is a run of 32-bit words in its shard: its links, its key, and the declared data, nothing
//! else ([`EntryLayout`]). An [`EntryKey`] refers to a tracked entry, which neither expires nor is purged. A lock is held for
//! one access to one entry, never during a wait.
//!
//! No operation is proportional to the table: an index grows by one bucket with each new entry and shrinks by two with each that goes,
//! entries expire in small steps, and a dump looks at a few entries at a time. Entries lie in blocks of pages; one that no entry is in
//! any more goes back to the system, whatever is in others, and new entries fill the first blocks first.
//!
//! A table that is shared with other instances records the changed entries ([`Table::send_changes`]), one bit each; changes of
//! others are added with [`Table::learn`]. The protocol between instances is not part of this crate.
//!
//! A table may also count together with other instances ([`Table::aggregate`]): then each entry has a share for each of
//! them ([`Share`]), and reading a count or a rate returns the sum.
//!
//! The crate refuses to know streams, servers, sockets and the clock: time comes in as an argument, in milliseconds.
//! Begin with `table.rs`, then `shard.rs` and `row.rs`.

mod ages;
mod answer;
mod changes;
mod due;
#[cfg(test)]
mod fixture;
mod index;
mod key;
mod layout;
mod names;
mod rate;
mod row;
mod shard;
mod shares;
mod slots;
mod table;

pub use weir_expr::table::{DataType, Declaration, KeyType, ServerKeyKind, Stored, TableQuestion};

pub use answer::TableAnswer;
pub use key::Key;
pub use layout::EntryLayout;
pub use rate::RateParts;
pub use row::LockedEntry;
pub use shares::{Share, ShareValue};
pub use table::{EntryKey, EntryPosition, Removal, Table, TableCursor};
