//! Traces of the peers protocol (`trace peers`).
//!
//! While tracing is off, each function costs a single branch.

use std::io::Write as _;

use weir_events::trace::{About, TraceEventKind, TraceLevel, TraceReport, TraceSource};
use weir_peers_protocol::{Control, PeerMessage, SessionFault};

/// The trace source of the peers protocol.
pub static PEERS: TraceSource = TraceSource::new(
    "peers",
    "Peers protocol",
    &[
        TraceEventKind { name: "updtmsg", help: "update message received" },
        TraceEventKind { name: "ackmsg", help: "ack message received" },
        TraceEventKind { name: "swtcmsg", help: "switch message received" },
        TraceEventKind { name: "defmsg", help: "definition message received" },
        TraceEventKind { name: "ctrlmsg", help: "control message sent/received" },
        TraceEventKind { name: "sessrl", help: "peer session releasing" },
        TraceEventKind { name: "protoerr", help: "protocol error" },
    ],
);

const UPDATE: usize = 0;
const ACKNOWLEDGEMENT: usize = 1;
const SWITCH: usize = 2;
const DEFINITION: usize = 3;
const CONTROL: usize = 4;
const RELEASE: usize = 5;
const PROTOCOL_ERROR: usize = 6;

/// Traces a message from the peer `who`.
#[inline]
pub(crate) fn came(who: &str, message: &PeerMessage<'_>) {
    if PEERS.is_active() {
        trace_message(who, message);
    }
}

#[cold]
fn trace_message(who: &str, message: &PeerMessage<'_>) {
    match message {
        PeerMessage::Update(update) => {
            let number = update.number.map_or_else(|| "next".to_owned(), |number| number.to_string());
            let length = update.body.len();
            trace(UPDATE, TraceLevel::Proto, format_args!("{who} : update {number}, {length} bytes"));
        }
        PeerMessage::Acknowledgement { table, update } => {
            trace(
                ACKNOWLEDGEMENT,
                TraceLevel::Proto,
                format_args!("{who} : table {table} up to update {update}"),
            );
        }
        PeerMessage::Switch(table) => trace(SWITCH, TraceLevel::Proto, format_args!("{who} : table {table}")),
        PeerMessage::Definition(definition) => {
            let name = String::from_utf8_lossy(definition.name);
            trace(DEFINITION, TraceLevel::Proto, format_args!("{who} : table {} is '{name}'", definition.id));
        }
        PeerMessage::Control(control) => {
            trace(CONTROL, TraceLevel::Proto, format_args!("{who} : {} received", name_of(*control)));
        }
        PeerMessage::Error(fault) => trace_fault(who, *fault, "said by the peer"),
        PeerMessage::Unknown => {}
    }
}

/// Traces a control message to the peer `who`.
#[inline]
pub(crate) fn said(who: &str, control: Control) {
    if PEERS.is_active() {
        trace(CONTROL, TraceLevel::Proto, format_args!("{who} : {} sent", name_of(control)));
    }
}

/// Traces an invalid message from the peer `who`.
#[inline]
pub(crate) fn refused(who: &str, fault: SessionFault) {
    if PEERS.is_active() {
        trace_fault(who, fault, "in what came");
    }
}

/// Traces the end of the session with the peer `who`.
#[inline]
pub(crate) fn released(who: &str) {
    if PEERS.is_active() {
        trace(RELEASE, TraceLevel::User, format_args!("{who} : session released"));
    }
}

fn trace_fault(who: &str, fault: SessionFault, place: &str) {
    trace(PROTOCOL_ERROR, TraceLevel::Error, format_args!("{who} : {fault:?} {place}"));
}

fn name_of(control: Control) -> &'static str {
    match control {
        Control::ResyncRequest => "resync request",
        Control::ResyncFinished => "resync finished",
        Control::ResyncPartial => "resync partial",
        Control::ResyncConfirm => "resync confirm",
        Control::Heartbeat => "heartbeat",
        Control::CountsTogether => "counts together",
        Control::WantsShares => "wants shares",
    }
}

fn trace(event: usize, level: TraceLevel, text: std::fmt::Arguments<'_>) {
    let about = About { thread: weir_sched::worker_index() as u64 + 1, ..About::default() };
    let time = weir_sched::wall_time();
    PEERS.trace(&TraceReport { event, level, about, also: 0, time }, |_, line| {
        // Writing to memory does not fail.
        let _ = line.write_fmt(text);
    });
}
