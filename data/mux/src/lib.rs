//! Splits a connection into streams. Parses and serializes heads and bodies.
//!
//! A stream holds two [`StreamConnector`]s: a connection of its own (HTTP/1, TCP), a stream of a connection that carries several
//! ([`SharedStream`], HTTP/2), or a service of this process. A [`Message`] reads and writes a head through a connector, and settles the
//! framing of the body and the persistence of the connection. A [`BodyFlow`] moves a body from one connector to the other, in its original
//! framing or as payload (`way.rs`), and never holds more than one buffer of it. They drive the pure engines of `weir-h1` and `weir-h2`,
//! which the crates above do not use. A call never blocks: it returns the reason to wait, and the caller sleeps.
//!
//! A [`Transfer`] is a [`BodyFlow`] with its filters or its pipe.
//!
//! An [`AgentStream`] carries the payloads of one exchange with an agent (SPOP), through the engine of a connection in `weir-spop`. The
//! crates above write and read the payloads.
//!
//! An [`ApplicationStream`] carries one request to a FastCGI application, through the engine in `weir-fcgi`: its parameters in place of the
//! head, and the body and the response as over HTTP.
//!
//! The crate refuses to know proxies, rules, servers and timeouts. Begin with `connector.rs`, then `message.rs` and `body.rs`.

pub mod agent;
pub mod application;
pub mod body;
pub mod carrier;
pub mod connector;
mod ends;
pub mod filter;
pub mod message;
pub mod multiplexer;
pub mod persistence;
pub mod pipes;
pub mod progress;
mod ready;
#[cfg(test)]
mod scripted_peer;
pub mod served;
pub mod service;
mod spliced;
pub mod trailers;
pub mod transfer;
mod way;

pub use agent::{AgentMultiplexer, AgentStream};
pub use application::{ApplicationMultiplexer, ApplicationStream};
pub use body::{BodyFlow, FlowSide, FlowState, KeptBody};
pub use carrier::CarrierRef;
pub use connector::StreamConnector;
pub use filter::{
    Failed, Filter, FilterChain, FilterOutput, HeadContext, HeadPassage, LengthChange, More, Passed,
};
pub use message::{HeadError, HeadErrorKind, HeadOptions, Message, ReadHead};
pub use multiplexer::{Multiplexer, OwnerHandle, Pace, SharedStream, TurnEnd, take_freed, trace, trim};
pub use persistence::ConnectionMode;
pub use pipes::Pipes;
pub use progress::{BodyDelta, BodyProgress};
pub use served::{GreetingProgress, ServedConnection};
pub use service::{BodyProducer, LocalService, ProducerStep};
pub use trailers::Trailers;
pub use transfer::Transfer;
pub use weir_h2::frame::FrameKind;
pub use weir_h2::{ConnectionLimits, ConnectionTally, ErrorCode};

/// Whether a chunked body may begin with these bytes. Checked before any of the body is forwarded.
pub fn may_begin_chunks(bytes: &[u8]) -> bool {
    weir_h1::ChunkDecoder::may_begin(bytes)
}

/// Whether these bytes are a prefix of the HTTP/2 client preface, or begin with it.
pub fn is_preface(bytes: &[u8]) -> bool {
    weir_h2::frame::is_preface(bytes)
}
