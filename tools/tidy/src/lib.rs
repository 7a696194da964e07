//! Project rules as tests: rules that the compiler does not check and a reviewer may miss.
//!
//! `cargo test -p weir-tidy` reads every `Cargo.toml` through `cargo metadata` and every source file as text. It fails on
//!
//! * a dependency between crates that points up or sideways ([`house`]), a drawing that differs from Cargo's dependencies
//!   ([`drawing`]), a larger cycle of modules ([`circles`]);
//! * unsafe code or a connection outside its folder, a crate without an opening page, a file that is too long or not compiled,
//!   an empty name ([`text`]);
//! * a licence or a crate that `deny.toml` rejects ([`licences`]), a benchmark of other versions than are built ([`locks`]);
//! * a requirement without a proof ([`proofs`]), a row without help ([`rows`]), a README that differs from the rows ([`readme`]);
//! * a count that rose ([`ratchet`]): indirect English ([`english`]), methods of one type ([`methods`]), type names that crates
//!   share ([`names`]).
//!
//! Every rule is a function from a [`Workspace`] to a list of [`BrokenRule`]s, independent of the other rules. It knows
//! weir's features only as [`rows`]. Begin with [`house`], which contains the map of crates.

pub mod circles;
mod declarations;
pub mod drawing;
pub mod english;
pub mod findings;
pub mod house;
pub mod licences;
pub mod locks;
pub mod methods;
pub mod names;
pub mod proofs;
pub mod ratchet;
pub mod readme;
pub mod requirements;
pub mod rows;
pub mod text;
mod workspace;

pub use workspace::{Crate, Package, SourceFile, Workspace};

/// A broken rule: its place and a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRule {
    /// A file (with a line, if a line is at fault) or a crate.
    pub place: String,
    /// The fault, in a sentence.
    pub why: String,
}

impl BrokenRule {
    /// A fault at a place.
    pub fn new(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: place.into(), why: why.into() }
    }
}

impl std::fmt::Display for BrokenRule {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.place, self.why)
    }
}
