//! One stream: request, choose, connect, response, ending.
//!
//! A client's connection is accepted ([`listener_handler`]) and served by one task ([`connection_task`]). The task runs the
//! connection's rules ([`accept`]), then streams one after the other ([`http`]) or a single one ([`tcp`]). A stream is one struct,
//! [`stream::Stream`]. Its phases are methods in the files named after them. Its ending is a value ([`ending::Ending`]), which is also
//! the termination code in the log.
//! Modules import downwards. At the bottom are the parts of a stream (`session`, [`entry`], [`upstream`], [`reply`], [`deadlines`],
//! [`ending`], [`instance`]), above them the stream, then its phases, and at the top the task that runs them (`connection_task`).
//! Imports are acyclic, which tidy checks. A stream has a connector on each side (`weir-mux`).
//! All waits of a stream are in one loop (`drive.rs`), with the timeouts of one table ([`deadlines`]).
//!
//! The crate does not depend on the syntax of the configuration, the readers of statistics, or the startup of the process. It gets an
//! [`instance::Instance`] and serves it. Begin with `connection_task.rs`, then `http.rs`, `stream.rs`, then the phases in `http/`.

pub mod accept;
pub mod actions;
mod addresses;
mod admission;
mod answers;
mod caching;
mod captures;
mod check_variables;
mod clock;
pub mod closing;
mod connection_task;
mod context;
mod cookie;
mod counters;
pub mod deadlines;
mod drive;
pub mod ending;
pub mod entry;
pub mod errors;
mod fastcgi;
mod filtering;
mod filters;
mod holding;
pub mod http;
mod http2_counters;
pub mod instance;
pub mod keepalive;
mod limited_body;
pub mod listener_handler;
pub mod log;
mod log_timing;
mod multiplexed;
mod passwords;
pub mod process_counters;
mod proxy_header;
pub mod recycle;
mod refusals;
mod relay;
mod reply;
mod reservation;
mod rules;
pub mod server;
pub mod session;
mod silence;
pub mod spoe;
mod statistics;
pub mod stream;
mod subrequest;
mod tcp;
#[cfg(test)]
mod testing;
pub mod timeline;
pub mod trace;
mod tracking;
pub mod upstream;
pub mod variables;
mod view;
pub mod worker;

/// The configuration keywords that this crate declares: actions and filters.
pub static KEYWORDS: weir_config::StreamKeywords =
    weir_config::StreamKeywords::new(&actions::ACTIONS, &filters::FILTERS);
