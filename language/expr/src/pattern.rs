//! Patterns: the values that ACLs and maps compare samples with.
//!
//! A [`PatternSet`] is a list of entries from a file or from the words of one ACL line. It has a [`PatternIndex`] for each combination of
//! method and case, built so that lookups do not slow down as the list grows. The runtime API changes sets while workers read them.
//! Readers take no lock: they see either the old or the new published state.

mod cache;
mod delimited;
mod discarded;
mod duplicates;
mod entries;
mod entry;
mod file;
mod index;
mod net;
mod parsed;
mod prefix;
pub mod regex;
mod regexes;
mod segment;
mod set;
mod store;
#[cfg(test)]
mod tests;
mod uses;
mod watcher;

pub use cache::{MAX_CACHE_SIZE, set_cache_size};
pub use discarded::{any_discarded, free_some};
pub use entry::{PatternEntry, counts};
pub use file::{FileEntry, acl_entries, map_entries};
pub use index::{PatternIndex, PatternMatch};
pub use parsed::AddressInNetwork;
pub use set::{LookupReport, PatternSet, Selector, SetError, ValueCheck, take_untidy};
pub use store::PatternStore;
pub use watcher::{PatternEvent, PatternWatcher};

pub(crate) use parsed::{ComparablePattern, IntOperator, undot};

use weir_fingerprint::Canonical;

use crate::sample::SampleType;

/// How a sample is compared with patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Canonical)]
pub enum MatchMethod {
    /// A sample exists.
    Found,
    /// The sample is true.
    Bool,
    /// The sample is in a range of integers.
    Int,
    Ip,
    /// Equal bytes. The pattern is hexadecimal.
    Bin,
    /// The length is in a range.
    Len,
    Str,
    Beg,
    Sub,
    Dir,
    /// A part between dots, colons, slashes and question marks.
    Dom,
    End,
    Reg,
}

impl MatchMethod {
    /// Every method.
    pub const ALL: [MatchMethod; 13] = [
        MatchMethod::Found,
        MatchMethod::Bool,
        MatchMethod::Int,
        MatchMethod::Ip,
        MatchMethod::Bin,
        MatchMethod::Len,
        MatchMethod::Str,
        MatchMethod::Beg,
        MatchMethod::Sub,
        MatchMethod::Dir,
        MatchMethod::Dom,
        MatchMethod::End,
        MatchMethod::Reg,
    ];

    /// The word after `-m`.
    pub const fn name(self) -> &'static str {
        match self {
            MatchMethod::Found => "found",
            MatchMethod::Bool => "bool",
            MatchMethod::Int => "int",
            MatchMethod::Ip => "ip",
            MatchMethod::Bin => "bin",
            MatchMethod::Len => "len",
            MatchMethod::Str => "str",
            MatchMethod::Beg => "beg",
            MatchMethod::Sub => "sub",
            MatchMethod::Dir => "dir",
            MatchMethod::Dom => "dom",
            MatchMethod::End => "end",
            MatchMethod::Reg => "reg",
        }
    }

    /// The method with this name.
    pub fn parse(name: &str) -> Option<MatchMethod> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// The default method for samples of a type. None for binaries and unknown types.
    pub const fn default_for(output: SampleType) -> Option<MatchMethod> {
        match output {
            SampleType::Bool => Some(MatchMethod::Bool),
            SampleType::Int => Some(MatchMethod::Int),
            SampleType::Addr | SampleType::Ipv4 | SampleType::Ipv6 => Some(MatchMethod::Ip),
            SampleType::Str | SampleType::Method => Some(MatchMethod::Str),
            SampleType::Bin | SampleType::Any | SampleType::Same => None,
        }
    }

    /// The type that samples are cast to before they are compared.
    pub const fn input(self) -> SampleType {
        match self {
            MatchMethod::Found => SampleType::Any,
            MatchMethod::Bool => SampleType::Bool,
            MatchMethod::Int => SampleType::Int,
            MatchMethod::Ip => SampleType::Addr,
            MatchMethod::Bin => SampleType::Bin,
            _ => SampleType::Str,
        }
    }

    /// Whether the method compares patterns. Other methods ignore them.
    pub const fn takes_patterns(self) -> bool {
        !matches!(self, MatchMethod::Found | MatchMethod::Bool)
    }

    /// Whether the most specific of several matching entries wins. With other methods, the first one wins.
    const fn prefers_finest(self) -> bool {
        matches!(self, MatchMethod::Beg | MatchMethod::Ip)
    }
}
