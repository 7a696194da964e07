//! Clients of the runtime API, for `show sess`.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::{Rc, Weak};

use weir_cli::target::{SessionFilter, SessionView};
use weir_net::Connection;
use weir_sched::TaskKey;
use weir_sys::Address;

use super::{LiveProcess, names, now_ms};
use crate::CliSettings;

/// A client, registered on its worker until it is dropped.
pub struct Operator {
    /// Identifier, from the same sequence as stream identifiers.
    id: u64,
    task: TaskKey,
    protocol: &'static str,
    source: String,
    since_ms: u64,
    calls: Cell<u64>,
    descriptor: i32,
}

impl Operator {
    /// Registers the client of the current task on this worker.
    pub fn enlist(
        live: &LiveProcess,
        settings: &CliSettings,
        peer: &Address,
        client: &Connection,
    ) -> Rc<Self> {
        let sockets = &live.record.cli_sockets;
        // Numbered from 1, like listeners. The socket pair of the master is not among the configured sockets.
        let number = sockets.iter().position(|socket| std::ptr::eq(&socket.settings, settings));
        let operator = Rc::new(Operator {
            id: weir_stream::worker::next_serial(),
            task: weir_sched::current(),
            protocol: names::protocol(peer),
            source: match peer {
                Address::Inet(_) => peer.to_string(),
                _ => format!("unix:{}", number.map_or(0, |number| number + 1)),
            },
            since_ms: now_ms(),
            calls: Cell::new(0),
            descriptor: client.descriptor().as_fd().as_raw_fd(),
        });
        OPERATORS.with_borrow_mut(|operators| {
            operators.retain(|operator| operator.strong_count() > 0);
            operators.push(Rc::downgrade(&operator));
        });
        operator
    }

    /// Counts a run of the client's session.
    pub fn count_call(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    fn view(&self) -> SessionView {
        SessionView {
            id: self.id,
            number: self.id,
            protocol: self.protocol,
            source: Some(self.source.clone()),
            frontend: "GLOBAL".to_owned(),
            backend: None,
            server: None,
            worker: weir_sched::worker_index() as u32 + 1,
            age_ms: now_ms().saturating_sub(self.since_ms),
            calls: self.calls.get(),
            client_fd: Some(self.descriptor),
            server_fd: None,
            request_waiting: 0,
            response_waiting: 0,
            expires_ms: weir_sched::deadline(self.task).map(|at| at.since(weir_sched::now())),
            retries: 0,
            request_line: None,
            streams: [None, None],
            phase: "command",
        }
    }
}

/// This worker's clients that match the filter, connected by `until_ms`, and have identifiers above `after`. A filter by frontend,
/// backend or server matches none.
pub(super) fn wanted(filter: &SessionFilter, until_ms: u64, after: u64) -> Vec<SessionView> {
    if filter.frontend.is_some() || filter.backend.is_some() || filter.server.is_some() {
        return Vec::new();
    }
    let wants = |operator: &Rc<Operator>| {
        operator.id > after
            && operator.since_ms <= until_ms
            && filter.id.is_none_or(|wanted| wanted == operator.id)
            && filter.older_ms.is_none_or(|age_ms| until_ms - operator.since_ms >= age_ms)
    };
    here().iter().filter(|operator| wants(operator)).map(|operator| operator.view()).collect()
}

/// Kills the client with this identifier. False if it is not on this worker.
pub(super) fn end(id: u64) -> bool {
    let found = here().into_iter().find(|operator| operator.id == id);
    found.is_some_and(|operator| {
        weir_sched::kill(operator.task);
        true
    })
}

fn here() -> Vec<Rc<Operator>> {
    OPERATORS.with_borrow(|operators| operators.iter().filter_map(Weak::upgrade).collect())
}

thread_local! {
    /// Bounded by the limit of runtime API connections, plus those closed since the last new client.
    static OPERATORS: RefCell<ManuallyDrop<Vec<Weak<Operator>>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}
