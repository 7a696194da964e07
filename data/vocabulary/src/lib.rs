//! The data of expressions: a [`FetchView`] of a stream or of a health check, and the fetches that read it.
//!
//! A fetch is a row of [`fetch::FETCHES`]: a declaration, and a function of a view. Streams and checks implement [`FetchView`] and run
//! the same rows, so a fetch means the same for both. Values that both sides need are here: the timers of a stream, the
//! facts about a closed connection, the entries that it tracks.
//!
//! It refuses to know how a stream or a check proceeds: a view is without phases, sends nothing and never waits. Rules, actions and
//! log lines are the stream's. Begin with `view.rs`.

pub mod fetch;
pub mod past;
pub mod timers;
pub mod tracked;
mod view;

pub use view::{
    Absent, AvailableBody, FetchView, MessageSide, Objects, ProxyFields, ServerConnection, StreamProgress,
    ViewedListener, ViewedProxy, server_by_name,
};
