//! The configuration words that the stream crate declares.

use std::sync::OnceLock;

use super::action::ActionTable;
use super::filter::FilterTable;

/// The rows of actions and filters. Both are declared in the crate that runs them.
#[derive(Debug)]
pub struct StreamKeywords {
    /// The actions of rules.
    pub actions: &'static ActionTable,
    /// The filters on the messages of streams.
    pub filters: &'static FilterTable,
    /// The help text of the word `filter`.
    filter_help: OnceLock<String>,
}

impl StreamKeywords {
    /// Combines the tables.
    pub const fn new(actions: &'static ActionTable, filters: &'static FilterTable) -> Self {
        StreamKeywords { actions, filters, filter_help: OnceLock::new() }
    }

    /// The help text of the word `filter` with the names of the filters after `beginning`.
    pub(crate) fn filter_help(&self, beginning: &str) -> &str {
        self.filter_help.get_or_init(|| {
            let names = self.filters.rows().filter(|row| row.is_ready()).map(|row| row.name);
            format!("{beginning}: {}", names.collect::<Vec<_>>().join(", "))
        })
    }
}
