//! Fuzz targets: one function for each parser of untrusted bytes.
//!
//! Each function accepts any bytes and checks invariants: no panic, no read beyond the buffer, and the same result for
//! input in pieces. `tests/replay.rs` runs them over the corpora of `corpus/`, one folder a function, in every test
//! run. `libfuzzer/` (a workspace of its own, for the nightly compiler) calls the same functions:
//!
//! ```text
//! cargo +nightly fuzz run --fuzz-dir tools/fuzz/libfuzzer syslog_stream tools/fuzz/corpus/syslog_stream
//! ```
//!
//! An input that found a fault is added to the corpus, named after the fault. Begin with [`TARGETS`].

mod dns;
mod expression;
mod fcgi;
mod h1;
mod h2;
mod peers;
mod proxy;
mod records;
mod scripts;
mod spop;
mod syntax;
mod syslog;
mod tls;

pub use dns::dns_answer;
pub use expression::{condition, expression, log_format};
pub use fcgi::{application_records, cgi_head};
pub use h1::{chunked_body, request_head, response_head};
pub use h2::{client_frames, header_block};
pub use peers::{peer_hello, peer_messages};
pub use proxy::proxy_header;
pub use records::{client_hello, tls_records};
pub use scripts::script_calls;
pub use spop::{agent_frames, agent_payloads};
pub use syntax::{configuration, configuration_lines, preprocessor_condition};
pub use syslog::{syslog_message, syslog_relayed, syslog_stream};
pub use tls::{certificate_chain, revocation_list};

/// A fuzz target. Accepts any bytes.
pub type FuzzTarget = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    ("agent_frames", agent_frames),
    ("agent_payloads", agent_payloads),
    ("application_records", application_records),
    ("certificate_chain", certificate_chain),
    ("cgi_head", cgi_head),
    ("chunked_body", chunked_body),
    ("client_frames", client_frames),
    ("client_hello", client_hello),
    ("condition", condition),
    ("configuration", configuration),
    ("configuration_lines", configuration_lines),
    ("dns_answer", dns_answer),
    ("expression", expression),
    ("header_block", header_block),
    ("log_format", log_format),
    ("peer_hello", peer_hello),
    ("peer_messages", peer_messages),
    ("preprocessor_condition", preprocessor_condition),
    ("proxy_header", proxy_header),
    ("request_head", request_head),
    ("response_head", response_head),
    ("revocation_list", revocation_list),
    ("syslog_message", syslog_message),
    ("syslog_relayed", syslog_relayed),
    ("syslog_stream", syslog_stream),
    ("tls_records", tls_records),
];

/// Targets that run a whole process for each input, by the name of their corpus. Their corpora are replayed unchanged, beside random bytes.
pub const PROCESS_TARGETS: &[(&str, FuzzTarget)] = &[("script_calls", script_calls)];
