//! The HTTP client of the process, for OCSP, scripts and operators (manual, "HTTPClient tuning").
//!
//! ```text
//!   Url ──► address: literal, or by DNS ──► connected [TLS] ──► request ──► head, body ──► Answer
//!              └──────────────────┴───────────────────────┴────────────────┴─────────┴──► Failure; retried if not sent
//! ```
//! Each request has its own HTTP/1 connection. Connect, TLS and parsing use the same code as traffic. The time and the memory that
//! a server can cost are bounded.
//!
//! The crate refuses to know the purpose of requests, proxies, rules and logs. Begin with [`Client::send`].

#![forbid(unsafe_code)]

mod answer;
mod client;
mod exchange;
mod fields;
mod url;

pub use answer::{HttpAnswer, RequestFailure};
pub use client::{Client, ClientSettings, HostResolution, Request, RequestOutcome, RequestRoute};
pub use exchange::{AnswerLimits, ByteBudget};
pub use fields::{InvalidField, RequestFields};
pub use url::{Url, UrlFault};
