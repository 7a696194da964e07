//! Opens all sockets before any change to another process, then takes over paths and addresses.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use weir_assemble::{LivePeers, LiveTls, RingFiles};
use weir_model::Global;
use weir_net::HandedOver;
use weir_observe::CliSocket;
use weir_observe::messages::Messages;
use weir_sys::signal;

use super::built::{BuiltProcess, ProcessParts};
use super::{Former, Outside, ProcessOptions, StartFault, Startup};
use crate::handover::{self, Giver};
use crate::listening::{ListenContext, ListeningSockets, Predecessor, SocketOwner};
use crate::process::PidFile;
use crate::worker::WorkerLink;

/// A process with open sockets. A start that fails up to here has not changed anything of another process.
pub(super) struct BoundProcess {
    start: Startup,
    parts: ProcessParts,
    peers: LivePeers,
    pid_file: Option<PidFile>,
    listening: ListeningSockets,
    takeover: Takeover,
    ring_files: RingFiles,
    outside: Outside,
}

/// A process that owns its addresses and files. The former processes are stopping.
pub(super) struct SettledProcess {
    pub start: Startup,
    pub parts: ProcessParts,
    pub peers: LivePeers,
    pub listening: ListeningSockets,
    pub outside: Outside,
}

impl BuiltProcess {
    /// Opens the listening sockets, or fetches them from a former process.
    pub(super) fn bind(self) -> Result<BoundProcess, StartFault> {
        let BuiltProcess { mut start, mut parts, peers, ring_files, outside } = self;
        let pid_file = start.pid_file()?;
        let gave = handed_over(&mut start.invocation, start.link.as_ref(), start.messages);
        let has_predecessor =
            !start.invocation.former.processes.is_empty() || (start.link.is_some() && !gave.is_empty());
        let messages = start.messages;
        let report = |text: &str| messages.warning(text);
        let peers = peers.publish(&parts.instance, has_predecessor, report, &parts.record.log_tag);
        let takeover = Takeover::new(std::mem::take(&mut start.invocation.former));
        let context = ListenContext {
            global: &start.global,
            workers: start.workers,
            reuse_port: !start.invocation.no_reuse_port && !start.global.no_reuse_port,
            resolver: &start.resolver(),
            messages,
        };
        let listening =
            ListeningSockets::open(&parts.instance, &parts.relays, &peers, &context, gave, &takeover);
        let listening = listening.ok_or(None)?;
        listening.name_listeners(&mut parts.instance);
        let of_operators = cli_sockets(&listening, &start.global, parts.record.tls());
        let of_master = start.link.as_ref().map(|link| link.socket(&start.global));
        parts.record.cli_sockets = of_operators.into_iter().chain(of_master).map(Arc::new).collect();
        start.check(&listening)?;
        Ok(BoundProcess { start, parts, peers, pid_file, listening, takeover, ring_files, outside })
    }
}

impl BoundProcess {
    /// Takes over paths and addresses from other processes. Steps that can fail come first.
    pub(super) fn settle(self) -> Result<SettledProcess, StartFault> {
        // The takeover is dropped last: a former process listens again only after this one closed its sockets.
        let BoundProcess { takeover, start, parts, peers, pid_file, mut listening, ring_files, outside } =
            self;
        pid_file.map(|file| file.write()).transpose().map_err(Some)?;
        listening.put_in_place(start.messages).ok_or(None)?;
        ring_files.put_in_place(|text| start.messages.warning(text));
        takeover.finish();
        Ok(SettledProcess { start, parts, peers, listening, outside })
    }
}

impl Startup {
    /// The pid file. `None` if this process does not write one: in master mode, the master writes its own number.
    fn pid_file(&self) -> Result<Option<PidFile>, StartFault> {
        let path = self.invocation.pid_file.as_ref().or(self.global.pidfile.as_ref());
        let path = path.filter(|_| self.link.is_none());
        path.map(|path| PidFile::check(path)).transpose().map_err(Some)
    }

    /// Checks that there is a listener, and that the memory suffices.
    fn check(&self, listening: &ListeningSockets) -> Result<(), StartFault> {
        if listening.all_sockets().is_empty() {
            return Err(Some(
                "[weir.main()] No enabled listener found (check for 'bind' directives) ! Exiting.".to_owned(),
            ));
        }
        match self.invocation.memory_mb.filter(|_| weir_memory::shortage::is_short()) {
            Some(limit) => Err(Some(format!(
                "[weir.main()] {limit} MB of memory ('-m') are not enough for this configuration."
            ))),
            None => Ok(()),
        }
    }
}

/// The listening sockets passed to this process. If a former process passes none, the start continues: its addresses can be shared,
/// or it releases them on request.
fn handed_over(
    invocation: &mut ProcessOptions,
    link: Option<&WorkerLink>,
    messages: &Messages,
) -> Vec<HandedOver> {
    let activated = std::mem::take(&mut invocation.activated);
    let mut sockets: Vec<_> =
        activated.into_iter().flat_map(|socket| HandedOver::new(socket, None)).collect();
    let path = invocation.take_over.as_deref();
    if path == Some(Path::new("/dev/null")) {
        // `-x /dev/null` disables the transfer (manual, "-x").
        return sockets;
    }
    for giver in path.map(Giver::Path).into_iter().chain(link.and_then(WorkerLink::giver)) {
        match handover::take(&giver) {
            Ok(more) => sockets.extend(more),
            Err(fault) => messages.warning(fault),
        }
    }
    sockets
}

/// The sockets of the runtime API, in the order of the listeners.
fn cli_sockets(listening: &ListeningSockets, global: &Global, tls: Option<&LiveTls>) -> Vec<CliSocket> {
    let of_operators =
        listening.all_sockets().iter().filter_map(|listener_sockets| match &listener_sockets.owner {
            SocketOwner::Operator(line) => {
                Some(CliSocket::new(&global.sockets[*line], global, &listener_sockets.address, tls))
            }
            SocketOwner::Frontend { .. } | SocketOwner::Relay(_) | SocketOwner::Peers(_) => None,
        });
    of_operators.collect()
}

/// The processes to replace, during startup. If startup fails, the processes that released their addresses get the signal to
/// resume.
struct Takeover {
    former: Former,
    /// Whether they were asked to release their addresses.
    released: Cell<bool>,
}

impl Takeover {
    fn new(former: Former) -> Self {
        Takeover { former, released: Cell::new(false) }
    }

    /// Signals the former processes to stop. This process has the addresses now.
    fn finish(self) {
        self.released.set(false);
        self.former.send_signal(if self.former.at_once { signal::SIGTERM } else { signal::SIGUSR1 });
    }
}

impl Predecessor for Takeover {
    fn release(&self) -> bool {
        self.released.set(true);
        self.former.send_signal(signal::SIGTTOU)
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        if self.released.get() {
            self.former.send_signal(signal::SIGTTIN);
        }
    }
}
