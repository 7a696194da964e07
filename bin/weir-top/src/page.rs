//! The pages, in the order of their digit keys.

use crate::model::row::RowKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    Overview,
    Frontends,
    Backends,
    Servers,
    Errors,
    Sessions,
}

impl Page {
    pub(crate) const ALL: [Page; 6] =
        [Page::Overview, Page::Frontends, Page::Backends, Page::Servers, Page::Errors, Page::Sessions];

    pub(crate) fn name(self) -> &'static str {
        ["overview", "frontends", "backends", "servers", "errors", "sessions"][self as usize]
    }

    pub(crate) fn title(self) -> &'static str {
        ["Overview", "Frontends", "Backends", "Servers", "Errors", "Sessions"][self as usize]
    }

    /// The kinds of rows on the page.
    pub(crate) fn kinds(self) -> &'static [RowKind] {
        match self {
            Page::Frontends => &[RowKind::Frontend],
            Page::Backends => &[RowKind::Backend],
            Page::Servers => &[RowKind::Server],
            Page::Errors => &[RowKind::Frontend, RowKind::Backend, RowKind::Server],
            Page::Overview | Page::Sessions => &[],
        }
    }
}
