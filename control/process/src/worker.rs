//! The socket pair between a worker and its master.
//!
//! To connect, either side passes one end of a new pair over the socket pair. The connection is then a session of the runtime API.
//! The worker uses one to report that it is ready. The master forwards commands of operators. The next worker fetches the listening
//! sockets. When the master exits, the worker stops.

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
    /// The worker's end of the socket pair.
    pub channel: OwnedFd,
    /// The master's end of the socket pair with the currently serving worker, from which to fetch the listening sockets.
    pub former: Option<OwnedFd>,
    /// The null device, which replaces the standard streams once the worker serves. `None` in the foreground.
    pub background: Option<NullDevice>,
}

impl WorkerLink {
    /// The process from which to fetch the listening sockets. `None` without a serving worker.
    pub fn giver(&self) -> Option<Giver<'_>> {
        self.former.as_ref().map(Giver::Channel)
    }

    /// The address of the socket pair in the list of runtime API sockets.
    pub fn address(&self) -> String {
        format!("sockpair@{}", self.channel.as_raw_fd())
    }

    /// The socket pair as a runtime API socket.
    pub fn socket(&self, global: &Global) -> CliSocket {
        CliSocket::from(CliSettings {
            address: self.address(),
            // The master lowers this to its client's level.
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
/// Minimum idle timeout of sessions with the master, and time limit for a report to it. So a hanging master is disconnected.
const LEAST_TIMEOUT: Duration = Duration::from_secs(10);
