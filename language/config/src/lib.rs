//! The parser of configurations: turns a file into the model.
//!
//! Lines come from `weir-syntax`, expressions from `weir-expr`. This crate knows the keywords. Each keyword is a row (name, arguments,
//! sections, help, example, reader) next to the code that it drives, and each row fills a field of the model (`weir-model`). All faults
//! of a file are collected as diagnostics with exact spans. A word of the language that weir does not implement yet is an error, never
//! ignored. The rows of actions, of filters and of fetches come from the crates that run them.
//!
//! It refuses to know sockets, clocks, threads and the process. Files come through a loader, other crates resolve names at start, and
//! nothing here handles traffic. Begin with [`parse`], which returns a [`weir_model::Config`].

mod added;
pub mod address;
pub mod bind;
pub mod features;
pub mod files;
pub mod numbers;
mod peers;
pub mod proxy;
pub mod rows;
pub mod rules;
pub mod server;
pub mod vocabulary;
pub mod words;

mod crt_store;
mod discovery;
mod document;
mod draft;
mod engine_files;
mod error_file;
mod expressions;
#[cfg(test)]
mod fingerprint_tests;
mod global;
mod http_errors;
mod log_forward;
mod mailers;
mod reply;
mod resolvers;
mod resources;
mod ring;
pub mod scripts;
mod sections;
mod source;
mod table;
#[cfg(test)]
mod testing;
mod tls_words;
mod traces;
mod userlist;
mod world;

pub use added::added_server;
pub use bind::tls::{CrtListLine, parse_crt_list_line};
pub use discovery::{Discovery, discover};
pub use document::{ConfigOutcome, Inputs, parse};
pub use draft::stream_keywords::StreamKeywords;
pub use resources::Resources;
pub use sections::is_section;
pub use server::added_server_words;
