//! The pages, in the order of their digits.

use crate::model::row::Kind;

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

    /// The rows that it lists.
    pub(crate) fn kinds(self) -> &'static [Kind] {
        match self {
            Page::Frontends => &[Kind::Frontend],
            Page::Backends => &[Kind::Backend],
            Page::Servers => &[Kind::Server],
            Page::Errors => &[Kind::Frontend, Kind::Backend, Kind::Server],
            Page::Overview | Page::Sessions => &[],
        }
    }
}
