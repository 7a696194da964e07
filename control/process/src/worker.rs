//! A worker and its master: the pair of sockets between them.
//!
//! Either side connects to the other by passing one end of a new pair over it; the connection is then a session of the
//! runtime API, in both directions. The worker reports on it that it is ready; the master forwards operators' commands;
//! the next worker fetches the listening sockets. When the master is gone, the worker leaves.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use weir_cli::{Level, SeverityOutput};
use weir_model::Global;
use weir_net::{Connection, Permit};
use weir_observe::{CliSettings, CliSocket, LiveProcess};
use weir_sched::{Class, Descriptor, Tick, WorkKind, wait};
use weir_sys::process::NullDevice;
use weir_sys::{Address, Errno, pass};

use crate::cli_server::converse;
use crate::handover::{self, Giver};
use crate::lifecycle::Lifecycle;

/// A worker's link to its master.
#[derive(Debug)]
pub struct WorkerLink {
    /// The worker's end of the pair.
    pub channel: OwnedFd,
    /// The master's end of the pair with the currently serving worker, to take the listening sockets from.
    pub former: Option<OwnedFd>,
    /// The null device for the standard streams once it serves, when it goes to the background with its master.
    pub background: Option<NullDevice>,
}

impl WorkerLink {
    /// The process that can pass the listening sockets.
    pub fn giver(&self) -> Option<Giver<'_>> {
        self.former.as_ref().map(Giver::Channel)
    }

    /// The channel's address among the sockets of the runtime API.
    pub fn address(&self) -> String {
        format!("sockpair@{}", self.channel.as_raw_fd())
    }

    /// The channel as a socket of the runtime API.
    pub fn socket(&self, global: &Global) -> CliSocket {
        CliSocket::from(CliSettings {
            address: self.address(),
            // The master lowers it to the level of its own client.
            level: Level::Admin,
            severity_output: SeverityOutput::None,
            timeout: global.stats_timeout.max(LEAST_TIMEOUT),
            connections: None,
            longest_line: global.tuning.buffer_size as usize,
            longest_payload: weir_observe::record::LONGEST_PAYLOAD,
            exposes_listeners: true,
        })
    }

    /// Reports to the master that this worker serves (R119).
    pub fn ready(&self) -> std::io::Result<()> {
        let mut master = handover::knock(&self.channel)?;
        master.set_write_timeout(Some(LEAST_TIMEOUT))?;
        writeln!(master, "_send_status READY {}", weir_sys::process::id())
    }
}

/// Serves sessions from the master, on the current worker thread, until the master is gone.
pub fn attend(
    live: LiveProcess,
    lifecycle: Arc<Lifecycle>,
    socket: Arc<CliSocket>,
    channel: OwnedFd,
) -> weir_sys::Result<()> {
    let channel = Descriptor::register(channel)?;
    weir_sched::spawn(&CHANNEL, Class::Urgent, async move {
        channel.set_owner(weir_sched::current());
        loop {
            match pass::receive_descriptors(&channel, &mut [0; 64]) {
                Ok((0, _)) => break,
                Ok((_, clients)) => {
                    clients.into_iter().for_each(|client| admit(live.clone(), &lifecycle, &socket, client))
                }
                Err(Errno::AGAIN | Errno::INTR) => {
                    channel.clear_readable();
                    wait(Tick::NEVER).await;
                }
                Err(_) => break,
            }
        }
        lifecycle.messages.warning("The master is gone: this worker leaves after its last connection.");
        lifecycle.leave();
    });
    Ok(())
}

fn admit(live: LiveProcess, lifecycle: &Arc<Lifecycle>, socket: &Arc<CliSocket>, client: OwnedFd) {
    let (socket, lifecycle) = (Arc::clone(socket), Arc::clone(lifecycle));
    let place = Permit::enter(Arc::clone(&live.record.cli_connections), u32::MAX);
    weir_sched::spawn(&SESSION, Class::Urgent, async move {
        let _counted = place;
        if let Ok(descriptor) = Descriptor::register(client) {
            descriptor.set_owner(weir_sched::current());
            let client = Connection::of_operator(descriptor);
            converse(live, &lifecycle.listening, &socket.settings, client, &Address::Unnamed).await;
        }
    });
}

static CHANNEL: WorkKind = WorkKind::new("channel of the master");
static SESSION: WorkKind = WorkKind::new("cli session of the master");
/// The shortest idle timeout of the master's sessions, and the time limit of a report to it: a master that hangs is left.
const LEAST_TIMEOUT: Duration = Duration::from_secs(10);
