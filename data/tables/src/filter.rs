//! Conditions on the data of entries, for listings.

use weir_expr::table::DataType;

use crate::row::LockedEntry;

/// A condition on an entry's data.
#[derive(Clone, Copy, Debug)]
pub struct EntryFilter {
    pub data: DataType,
    /// The index in an array. 0 for other data.
    pub element: u16,
    pub comparison: Comparison,
    pub value: i64,
}

/// A comparison of the data with a value.
pub type Comparison = fn(&i64, &i64) -> bool;

/// Maximum number of filters of one listing.
pub const MAX_FILTERS: usize = 4;

impl EntryFilter {
    /// The comparison of an operator: `eq`, `ne`, `le`, `ge`, `lt`, `gt`.
    pub fn comparison(word: &str) -> Option<Comparison> {
        Some(match word {
            "eq" => i64::eq,
            "ne" => i64::ne,
            "le" => i64::le,
            "ge" => i64::ge,
            "lt" => i64::lt,
            "gt" => i64::gt,
            _ => return None,
        })
    }

    /// Whether an entry has the data.
    pub fn holds(&self, row: &LockedEntry<'_>) -> bool {
        let value = row.get(self.data, self.element).unwrap_or_default();
        (self.comparison)(&i64::try_from(value).unwrap_or(i64::MAX), &self.value)
    }
}
