//! The phases of a stream, and the parts that all phases use, as borrowed handles.
//!
//! ```text
//!  TCP:   TcpPhase ── content rules, backend ─► ServerPhase ─► RelayPhase ─► end
//!            └─ the rest is HTTP (`switch-mode`, an HTTP backend) ─► RequestPhase
//!
//!  HTTP:  RequestPhase ──► ServerPhase ──► ExchangePhase ──► EndPhase ──► the connection's next stream
//!           │  ▲ rules        ▲  │            │ │ │
//!           │  └ inspection   │  │            │ │ └─ 101, CONNECT ─► RelayPhase (tunnel) ─► EndPhase
//!           │                 │  │            │ └─── 1xx: forwarded, the final response is still awaited
//!           │                 │  │            └───── refused, lost, `retry-on`, 425: back to ServerPhase
//!           │                 │  └─ redispatch: another server, inside the phase
//!           └─────────────────┴──┴─ deny, return, redirect, errors, statistics ─► ReplyPhase ─► EndPhase
//! ```
//!
//! A retry is a loop in [`ExchangePhase`] around [`ServerPhase`]. The upload and the response flow at the same time, both in
//! [`ExchangePhase`]. A local reply may follow any phase up to the head of the response.
//!
//! A handle is a reference to the stream, typed as that phase. Making one is a cast. The methods of a handle are in the file of its
//! phase. A handle gives access to the whole stream, because each phase evaluates expressions, counts and traces, and these read all
//! parts. Read-only handles borrow the stream shared: [`StreamTrace`], [`StreamCounts`].

use ref_cast::RefCast;

use crate::stream::Stream;

/// Declares handles, and the methods of [`Stream`] that return them.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident: $exclusive:ident $(, $shared:ident)?;)*) => {
        $(
            $(#[$doc])*
            #[derive(RefCast)]
            #[repr(transparent)]
            pub struct $name {
                pub(crate) stream: Stream,
            }
        )*

        impl Stream {
            $(
                #[doc = concat!("The stream as [`", stringify!($name), "`].")]
                #[inline(always)]
                pub(crate) fn $exclusive(&mut self) -> &mut $name {
                    $name::ref_cast_mut(self)
                }

                $(
                    #[doc = concat!("The stream as [`", stringify!($name), "`], to look at.")]
                    #[inline(always)]
                    pub(crate) fn $shared(&self) -> &$name {
                        $name::ref_cast(self)
                    }
                )?
            )*
        }
    };
}

handles! {
    /// Receives a request and runs its rules: `http/request.rs`, `http/route.rs`, `http/guards.rs`.
    RequestPhase: request_phase;
    /// Content inspection, and the waits of rules for more of a message: `rules/content.rs`.
    InspectionPhase: inspection, as_inspection;
    /// Asks agents about the stream: `spoe.rs`.
    EnginePhase: engine_phase;
    /// Reaches a server: connects to it, with retries: `server.rs` and most files below it.
    ServerPhase: server_phase, as_server_phase;
    /// Chooses the server, and waits in its queue: `server/assign.rs`.
    ChoicePhase: choice_phase, as_choice_phase;
    /// Sends the request and awaits the response: `http/messages.rs`, `http/websocket.rs`, `http/forwarded.rs`.
    ExchangePhase: exchange_phase, as_exchange_phase;
    /// Sends a request of the process itself and reads its answer: `http/subrequest.rs`.
    SubrequestPhase: subrequest_phase;
    /// Passes messages through filters, and calls those of scripts: `filters/script/calls.rs`, `filtering.rs`.
    FilterPhase: filter_phase, as_filter_phase;
    /// Runs the rules on the response: `http/response.rs`.
    ResponsePhase: response_phase, as_response_phase;
    /// Moves the bodies: `http/bodies.rs`.
    BodyPhase: body_phase;
    /// Responds in place of a server: `answers.rs`, `statistics.rs`.
    ReplyPhase: reply_phase;
    /// Relays bytes both ways: `relay.rs`.
    RelayPhase: relay_phase;
    /// A connection in TCP mode: `tcp.rs`.
    TcpPhase: tcp_phase;
    /// Ends a request and its connections: `http/finish.rs`.
    EndPhase: end_phase;
    /// Trace events: `trace.rs`.
    StreamTrace: trace_mut, trace;
    /// Counters of all objects involved in a stream: `counters.rs`.
    StreamCounts: counts_mut, counts;
    /// Stick-tables of rules: `tracking.rs`, `tracking/sticking.rs`.
    StreamTables: tracking_mut, tracking;
    /// The log line, the timeline, and captures for both: `log.rs`, `captures.rs`, `timeline.rs`.
    StreamLog: log_line, as_log_line;
}
