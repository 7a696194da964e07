//! Lua scripts: the states of a process, the functions that scripts register, and the API that they see.
//!
//! ```text
//!   lua-load ───────────► one state for all workers, behind a lock that is held while Lua runs, never while it waits
//!   lua-load-per-thread ► a state for each worker
//!
//!   an action, a service, a task, a handler, a command ──► ScriptRun: a coroutine, which may wait ───┐
//!   a fetch, a converter ───────────────────────────────► Scripts: a call, which cannot wait ────────┼─► a state ──► ScriptTarget:
//!   a filter ───────────────────────────────────────────► FilterInstance: callbacks, without waits ──┘                  the stream
//! ```
//!
//! Begin with [`Scripts`]: the configuration's parser loads scripts into it, and streams call their functions through it. A script never holds
//! a stream: its objects are numbers, and each call checks that the stream of the run has this number. A wait of a script is a value
//! ([`ScriptWait`]): the stream does it, so a stream that ends takes its waits with it.
//!
//! A task that finds the shared state in use waits for its [`Turn`]. Expressions cannot wait, so their rule reserves the state before it
//! evaluates them ([`Scripts::reserve`]). Elsewhere they try for a moment, then fail.
//!
//! Operators reach scripts by commands ([`WorkerCommands`]) and see their costs ([`ScriptCosts`]). Changes of servers and maps reach the
//! handlers of scripts through queues ([`Subscriptions`]).
//!
//! The specification is the Lua API of HAProxy (`doc/lua-api`); a member that is missing raises an error with its name.

mod alarms;
mod api;
mod busy;
mod calls;
mod cells;
mod channel;
mod commands;
mod declare;
mod events;
mod filter_turn;
mod filters;
mod held;
mod logger;
mod measure;
mod message;
mod network;
mod private;
mod process;
mod registry;
mod requests;
mod resources;
mod run;
mod scripts;
mod sockets;
mod state_filters;
mod target;
mod turns;
mod wait;
mod world;

// The client of a [`ScriptNetwork`].
pub use weir_client::{Client, ClientSettings};
pub use weir_lua::{CostKind, CostLine, ScriptCosts};

pub use calls::release_reservation;
pub use channel::{ChannelCall, ChannelRead, ReadLength, ReadUnit};
pub use commands::WorkerCommands;
pub use events::{
    AdminFlags, CheckDetail, EventDetail, EventKind, ScriptEvent, ServerEventData, Subscriptions,
};
pub use filter_turn::{EndChange, FilterTurn, FilteredPayload, NewLength};
pub use filters::{FilterCallback, FilterInstance, FilterMade, FilterOutcome, FilterResult};
pub use message::{ChannelState, ScriptSide};
pub use network::ScriptNetwork;
pub use process::{
    CertificateField, ListedProxies, MailSettings, ProcessLink, ProxyChange, ProxyFacts, ScriptProcess,
    ScriptServer, ServerFacts, ServerRequest, ServerRequestError, StatsValue, StatsVisit,
};
pub use registry::{FunctionKind, ScriptCommand};
pub use resources::ScriptResources;
pub use run::{ScriptResult, ScriptRun, ScriptStep};
pub use scripts::{ScriptFailure, Scripts};
pub use target::{RequestLinePart, ScriptChannels, ScriptTarget, StreamSetting, VisitAll};
pub use turns::Turn;
pub use wait::{ReceiveAmount, ScriptJob, ScriptReply, ScriptWait};
