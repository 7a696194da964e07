//! Differences of a table with the same name between two instances.

use weir_expr::table::DataType;

/// The difference of a peer's table to ours with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// The key types or lengths differ. The table is not shared.
    Keys,
    /// Only one instance has `aggregate`. The table is not shared.
    Aggregate,
    /// The periods of a rate differ. The rate is not learned, but the table's other data is.
    Period {
        /// The first such rate.
        data: DataType,
        /// The peer's period, in milliseconds.
        theirs_ms: u32,
        ours_ms: u32,
    },
    /// The instances store different data types. Only common types are shared.
    Data {
        /// The types that only the peer stores, one bit each.
        only_theirs: u32,
        /// The types that only this instance stores, one bit each.
        only_ours: u32,
    },
    /// An array is longer in one instance. Its excess elements are not shared.
    Elements {
        /// The first such array.
        data: DataType,
        /// The peer's number of elements.
        theirs: u16,
        ours: u16,
    },
}

impl Mismatch {
    /// The end of a message that begins with the peer's name.
    pub(crate) fn in_words(self, table: &str) -> String {
        match self {
            Mismatch::Keys => {
                format!("declares table '{table}' with keys of another type or length: it is not shared")
            }
            Mismatch::Aggregate => {
                format!(
                    "declares table '{table}' with 'aggregate' and this instance without, or the reverse: it is not shared"
                )
            }
            Mismatch::Period { data, theirs_ms, ours_ms } => format!(
                "counts '{}' of table '{table}' over {theirs_ms} ms, this instance over {ours_ms} ms: the rate is not shared",
                data.name()
            ),
            Mismatch::Data { only_theirs, only_ours } => {
                let says = [
                    (only_theirs, "stores what this instance does not: "),
                    (only_ours, "does not store what this instance does: "),
                ];
                let says = says.iter().filter(|(bits, _)| *bits != 0);
                let says: Vec<String> =
                    says.map(|(bits, what)| format!("{what}{}", names_of(*bits))).collect();
                format!("has another table '{table}': it {}; that is not shared", says.join(", and "))
            }
            Mismatch::Elements { data, theirs, ours } => format!(
                "has {theirs} elements of '{}' in table '{table}', this instance {ours}: the others are not shared",
                data.name()
            ),
        }
    }
}

fn names_of(bits: u32) -> String {
    let named = DataType::ALL.into_iter().filter(|data| bits & 1 << *data as u32 != 0);
    named.map(|data| format!("'{}'", data.name())).collect::<Vec<_>>().join(", ")
}
