//! Samples, converters, patterns, ACLs, variables and log-format strings.
//!
//! The engine behind `%[...]`, `acl ...`, `if ...` and `map(...)`. It knows no socket, no clock and no stream. Input at run time comes
//! through [`Context`]. Input during the parsing of a configuration comes through [`ExpressionScope`].
//!
//! Begin with [`Expr`] (a fetch and its converters), then [`Condition`] (the words after `if`), then [`LogFormat`]. The rows, one per
//! keyword, are in [`internal::FETCHES`] and [`converters::CONVERTERS`]. The fetches of layers 4 to 7 are declared next to the code
//! that evaluates them, and enter the [`Registry`] from there.

pub mod acl;
pub mod alias;
pub mod args;
pub mod bound;
pub mod chain;
pub mod context;
pub mod converters;
pub mod docs;
pub mod error;
pub mod expr;
pub mod fetch;
pub mod format;
pub mod internal;
pub mod literal;
mod loader;
mod location;
pub mod pattern;
pub mod sample;
pub mod scope;
pub mod scratch;
mod script_names;
pub mod table;
pub mod time;
mod token_keys;
pub mod variables;
pub mod writer;
pub mod x509_errors;

mod condition;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod manual;
#[cfg(test)]
mod testing;

pub use acl::{Acl, AclTable, Truth};
pub use alias::Alias;
pub use args::{Arg, ArgKind, ArgSpec, Args, Reference};
pub use chain::Chain;
pub use condition::{Condition, Suspension};
pub use context::{Context, FetchCursor, FetchResult, ObjectLookup, ProcessFacts};
pub use error::ParseError;
pub use expr::Expr;
pub use fetch::{EvaluationPoint, EvaluationPoints, Fetch, FetchDecl, FetchIndex, Needs, Registry};
pub use format::LogFormat;
pub use loader::Loader;
pub use location::Location;
pub use pattern::{PatternSet, PatternStore};
pub use sample::{Sample, SampleFlags, SampleType, Value};
pub use scope::{ExpressionScope, Warnings};
pub use script_names::{ScriptName, ScriptNames};
pub use time::{TimeZone, WallTime};
pub use token_keys::TokenKeys;
pub use variables::{SetCondition, VariableId, VariableNames, VariableScope, VariableStore};
pub use writer::{FormatOptions, LogWriter};
