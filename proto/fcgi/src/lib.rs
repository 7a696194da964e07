//! FastCGI 1.0, the protocol between a web server and its applications, as the web server speaks it (the FastCGI
//! specification; RFC 3875 for parameters and response heads).
//!
//! A request is a BEGIN_REQUEST record, its parameters (PARAMS) and its body (STDIN). The application answers with STDOUT and
//! STDERR, and ends the request with END_REQUEST. Requests of one connection may overlap if the application allows it.
//! The only role is Responder.
//!
//! The crate must not know sockets, clocks, streams, configurations or regular expressions. Content is never buffered:
//! it is passed on as it arrives, borrowed from the input.
//!
//! Begin with [`FcgiConnection`], the web server's end of one connection. [`Params`] makes the parameters of a request,
//! [`ScriptPaths`] derives its paths, [`CgiHead`] and [`write_http`] make an HTTP/1.1 head of the front of STDOUT.

#![forbid(unsafe_code)]

pub mod connection;
pub mod params;
pub mod record;
pub mod response;
pub mod script;
pub mod testing;

pub use connection::{ConnectionOptions, FcgiConnection, FcgiEvent, FcgiFault};
pub use params::{MalformedPairs, Pairs, Params, pairs};
pub use record::{FcgiRecordKind, ProtocolStatus, RecordHeader};
pub use response::{CgiFacts, CgiFault, CgiHead, CgiProgress, write_http};
pub use script::{PathCaptures, ScriptPaths, forbids_path_info};
