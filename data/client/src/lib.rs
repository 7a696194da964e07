//! Requests of the process itself: an HTTP client, for OCSP and for operators (manual, "HTTPClient tuning").
//!
//! ```text
//!   Url ──► an address: written there, or asked of name servers ──► connected [TLS] ──► request ──► head, body ──► Answer
//!                └──────────────────┴─────────────────┴───────────────┴─────────┴──► Failure; tried again where nothing came
//! ```
//! Each request has a connection of its own, over HTTP/1. A connection is opened, secured and read where those of traffic are. All
//! that a server may make of an exchange is bounded: how long it takes, how much is kept of it.
//!
//! The crate refuses to know what is asked and why, proxies, rules and logs. Begin with [`Client::ask`].

#![forbid(unsafe_code)]

mod answer;
mod client;
mod exchange;
mod url;

pub use answer::{Answer, Failure};
pub use client::{Client, Naming, Outcome, Request, Settings};
pub use url::Url;
