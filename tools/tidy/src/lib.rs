//! The rules of the house, as tests: rules that the compiler cannot check and a review forgets.
//!
//! `cargo test -p weir-tidy` reads every `Cargo.toml` through `cargo metadata` and every source file as text, and fails on
//! an edge between crates that does not point down, on a crate without its opening page, on unsafe code where it does not
//! belong, on a connection that is opened elsewhere than in its one place, on a circle of modules that grew, on a file that nothing compiles or that has grown past reading, on a name that says nothing, on a licence or a crate that `deny.toml`
//! does not let in, on a requirement of the scheduler that nothing proves, on a benchmark that measures other crates than are built, and on a README whose generated part is no longer what the rows say.
//!
//! Every rule is a function from a [`Workspace`] to a list of [`Fault`]s; it knows nothing of the other rules. It knows
//! weir's features only as [`rows`]. Begin with [`house`], which holds the map.

pub mod circles;
pub mod house;
pub mod licences;
pub mod locks;
pub mod proofs;
pub mod readme;
pub mod requirements;
pub mod rows;
pub mod text;
mod workspace;

pub use workspace::{Crate, Package, SourceFile, Workspace};

/// A broken rule: its place, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// A file (with a line, if a line is at fault) or a crate.
    pub place: String,
    /// What is wrong, in a sentence.
    pub why: String,
}

impl Fault {
    /// A fault at a place.
    pub fn new(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: place.into(), why: why.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.place, self.why)
    }
}
