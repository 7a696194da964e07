//! SPOP 2.0, the protocol between a load balancer and its agents (HAProxy's `doc/SPOE.txt` 1.2, section 3; beyond it,
//! the frames of HAProxy 3.2).
//!
//! The balancer opens a connection and both sides say HELLO. From then on it sends NOTIFY frames with messages, and the
//! agent answers each with an ACK frame, which carries actions on variables. Either side ends with DISCONNECT.
//!
//! The crate must not know sockets, clocks, streams or variables. Each received length is checked against a limit before
//! it is used, and payloads are borrowed from the input.
//!
//! Begin with [`AgentConnection`], the balancer's end of one connection. [`MessageWriter`] makes the payload of a NOTIFY
//! frame, and [`AgentActions`] reads that of an ACK frame.

pub mod action;
pub mod connection;
pub mod data;
pub mod frame;
pub mod hello;
pub mod message;
pub mod status;
pub mod testing;

pub use action::{ActionScope, AgentAction, AgentActions};
pub use connection::{AgentConnection, AgentEvent, NotifyError};
pub use data::{MalformedPayload, TypedData};
pub use frame::{FrameError, SpopFrame, SpopFrameKind};
pub use hello::{AgentHello, AgentLimits};
pub use message::{MessageWriter, TooManyArguments};
pub use status::StatusCode;
