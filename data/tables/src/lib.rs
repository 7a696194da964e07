//! Stick-tables: data stored and counted by key (manual, section 11).
//!
//! A [`Table`] is declared once ([`Declaration`]): key type, number of entries, expiry and stored data types. It is split
//! into shards, each with its own lock, index and entries, so workers that count different keys do not contend. An entry
//! is a run of 32-bit words in its shard: links, key and declared data ([`EntryLayout`]). An [`EntryKey`] refers to a
//! tracked entry, which neither expires nor is purged. A shard's lock is held for one access to one entry, never during a
//! wait.
//!
//! No operation costs time proportional to the table. The index grows by one bucket with each new entry and shrinks by at
//! most two with each removed one, entries expire in small steps, and a dump reads a few entries at a time. Entries are
//! stored in blocks of pages. An empty block is returned to the system, and new entries fill the lowest blocks first.
//!
//! A table that is shared with other instances records the changed entries ([`Table::send_changes`]), one bit each. Changes
//! of other instances are applied with [`Table::learn`]. The protocol between instances is not part of this crate.
//!
//! A table may also be aggregated with other instances ([`Table::aggregate`]). Each entry then has a share for each
//! instance ([`Share`]), and reading a count or a rate returns the sum.
//!
//! The crate refuses to know streams, servers, sockets and the clock: time comes in as an argument, in milliseconds.
//! Begin with `table.rs`, then `shard.rs` and `row.rs`.

mod ages;
mod answer;
mod changes;
mod due;
mod filter;
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
pub use filter::{Comparison, EntryFilter, MAX_FILTERS};
pub use key::Key;
pub use layout::EntryLayout;
pub use rate::RateParts;
pub use row::LockedEntry;
pub use shares::{Share, ShareValue};
pub use table::{EntryKey, EntryPosition, Removal, Table, TableCursor};
