//! The data of expressions: a [`FetchView`] of a stream or health check, and the fetches that read it.
//!
//! A fetch is a row of [`fetch::FETCHES`]: a declaration, and a function that evaluates it on a view. Streams and checks implement
//! [`FetchView`] and share the rows, so a fetch means the same in both. Values that both sides need are also here: the timers of a
//! stream, facts about a closed connection, the tracked entries, the parameters of requests to FastCGI applications.
//!
//! The crate refuses to know how a stream or check proceeds: a view does not have phases, sends nothing and never waits. Rules,
//! actions and log lines belong to the stream. Begin with `view.rs`.

pub mod application;
pub mod fetch;
pub mod past;
pub mod timers;
pub mod tracked;
mod view;

pub use view::{
    Absent, AvailableBody, FetchView, MessageSide, Objects, ProxyFields, ServerConnection, StreamProgress,
    ViewedListener, ViewedProxy, server_by_name,
};
