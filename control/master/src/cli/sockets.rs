//! The sockets of the master CLI (`-S`).

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_cli::{Level, SeverityOutput};
use weir_model::Bind;
use weir_net::{
    Acceptor, AcceptorState, ConnectionLimit, HandedOver, ListeningSocket, Opener, Permit, PlacedSocket,
    Placement, listener,
};
use weir_observe::messages::Messages;
use weir_observe::record::{CliSettings, CliSocket, LONGEST_PAYLOAD, spelled};
use weir_process::listening::open_apart;
use weir_sched::{Class, Descriptor, Tick, WorkKind};
use weir_sys::{Address, Errno, process};

use super::{CliClient, LONGEST_LINE, SILENCE_MS};
use crate::master::Master;

/// All sockets of the master CLI (`-S`), and the state of their paths.
#[derive(Default)]
pub struct MasterSockets {
    list: Vec<MasterSocket>,
    /// UNIX sockets at temporary paths, because another master still owns the final paths.
    waiting: RefCell<Vec<Placement>>,
    /// The paths taken before the first worker serves.
    placed: RefCell<Vec<PlacedSocket>>,
    /// Keeps inherited sockets (`fd@`) open for the next execution.
    _opener: Option<Opener>,
}

/// One socket of the master CLI.
pub struct MasterSocket {
    opened: ListeningSocket,
    client: CliClient,
}

impl MasterSockets {
    /// Opens the sockets of `-S`. In a reload, uses the sockets of the former execution. `None` if one cannot be opened. The error
    /// has been logged.
    ///
    /// A path without a listener is taken immediately. A path of another master is taken by [`MasterSockets::put_in_place`].
    pub fn open(binds: &[Bind], carried: Option<Vec<OwnedFd>>, messages: &Messages) -> Option<Self> {
        let first = carried.is_none();
        let carried = carried.unwrap_or_default();
        let mut opener = Opener::new();
        opener.adopt(carried.into_iter().flat_map(|socket| HandedOver::new(socket, None)).collect());
        let (mut list, mut placements) = (Vec::new(), Vec::new());
        for bind in binds {
            let client = |address| CliClient {
                address,
                level: match bind.options.level {
                    Some(weir_model::Level::User) => Level::User,
                    Some(weir_model::Level::Operator) => Level::Operator,
                    Some(weir_model::Level::Admin) | None => Level::Admin,
                },
                severity_output: match bind.options.severity_output {
                    weir_model::SeverityOutput::None => SeverityOutput::None,
                    weir_model::SeverityOutput::Number => SeverityOutput::Number,
                    weir_model::SeverityOutput::String => SeverityOutput::Text,
                },
                worker: None,
            };
            for mut opened in open_apart(&mut opener, bind, messages)? {
                placements.extend(opened.take_placement());
                let client = client(spelled(&opened.address));
                list.push(MasterSocket { opened, client });
            }
        }
        let (now, later): (Vec<_>, Vec<_>) =
            placements.into_iter().partition(|placement| !first || !placement.is_taken());
        let sockets = MasterSockets {
            list,
            waiting: RefCell::default(),
            placed: RefCell::default(),
            _opener: Some(opener),
        };
        sockets.place(now).map_err(|text| messages.alert(text)).ok()?;
        if !first {
            sockets.placed.take();
        }
        sockets.waiting.replace(later);
        Some(sockets)
    }

    /// The first worker serves: takes the paths from another master and keeps all paths. The error is a message for operators.
    pub fn put_in_place(&self) -> Result<(), String> {
        let placed = self.place(self.waiting.take());
        if placed.is_ok() {
            self.placed.take();
        }
        placed
    }

    /// The first worker failed: removes the paths created by this start.
    pub fn withdraw(&self) {
        self.waiting.take();
        self.placed.take().into_iter().for_each(PlacedSocket::withdraw);
    }

    /// In a worker: forgets the paths without removing them, because they belong to the master.
    pub(crate) fn leave_to_the_master(&mut self) {
        self.waiting.take().into_iter().for_each(std::mem::forget);
        self.placed.take();
    }

    fn place(&self, placements: Vec<Placement>) -> Result<(), String> {
        for placement in placements {
            let placed = placement
                .put_in_place()
                .map_err(|error| format!("Binding [{placement}] for proxy MASTER: {error}"))?;
            self.placed.borrow_mut().push(placed);
        }
        Ok(())
    }

    /// The sockets, in the order of their `-S` options.
    pub fn list(&self) -> &[MasterSocket] {
        &self.list
    }

    /// The addresses of the sockets in configuration syntax (`HAPROXY_MASTER_CLI`).
    pub fn spelling(&self) -> String {
        let all: Vec<&str> = self.list.iter().map(MasterSocket::spelling).collect();
        all.join(";")
    }
}

impl Drop for MasterSockets {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl MasterSocket {
    /// The address of the socket in configuration syntax.
    pub fn spelling(&self) -> &str {
        &self.client.address
    }

    /// The access level of the socket.
    pub fn level(&self) -> Level {
        self.client.level
    }

    /// The socket as shown by commands of the runtime API.
    pub(crate) fn as_operators_see_it(&self) -> CliSocket {
        CliSocket::from(CliSettings {
            address: self.client.address.clone(),
            level: self.client.level,
            severity_output: self.client.severity_output,
            timeout: Duration::from_millis(SILENCE_MS),
            connections: Some(MOST_CLIENTS),
            longest_line: LONGEST_LINE,
            longest_payload: LONGEST_PAYLOAD,
            exposes_listeners: false,
        })
    }

    /// A duplicate for the next execution. `None` for an inherited socket, which keeps its descriptor number.
    pub(crate) fn to_keep(&self) -> Option<OwnedFd> {
        (!self.opened.inherited).then(|| process::duplicate(&self.opened.socket).ok())?
    }

    /// Starts accepting clients.
    pub(crate) fn open(&self, master: &Rc<Master>, position: usize) -> weir_sys::Result<()> {
        let descriptor = process::duplicate(&self.opened.socket).and_then(Descriptor::register)?;
        let acceptor = MasterAcceptor { master: master.clone(), position, gate: Arc::default() };
        weir_sched::spawn(&ACCEPT, Class::Urgent, listener::accept(descriptor, acceptor, BATCH));
        Ok(())
    }
}

struct MasterAcceptor {
    master: Rc<Master>,
    position: usize,
    gate: Arc<ConnectionLimit>,
}

impl Acceptor for MasterAcceptor {
    fn is_for_operators(&self) -> bool {
        true
    }

    type Ticket = Permit;

    fn state(&self) -> AcceptorState {
        AcceptorState::Open
    }

    fn too_fast(&self) -> Option<Tick> {
        None
    }

    fn admit(&self) -> Result<Permit, &ConnectionLimit> {
        Permit::enter(Arc::clone(&self.gate), MOST_CLIENTS).ok_or(&*self.gate)
    }

    fn give_way(&self) {
        self.gate.offer();
    }

    fn enter(&self, place: Permit, socket: OwnedFd, _: Address) {
        let client = self.master.sockets.list()[self.position].client.clone();
        self.master.clone().hear(client, socket, Some(place));
    }

    /// Clients wait in the backlog until descriptors are free again.
    fn exhausted(&self, _: Errno) {}
}

static ACCEPT: WorkKind = WorkKind::new("master cli accept");
/// Maximum number of clients accepted per round.
const BATCH: u32 = 4;
/// Maximum number of concurrent clients per socket.
const MOST_CLIENTS: u32 = 1000;
