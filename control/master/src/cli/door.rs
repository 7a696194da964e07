//! Where the master's command line is reached: the sockets of `-S`.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use weir_cli::outcome::{Level, SeverityOutput};
use weir_config::model::{self, Bind};
use weir_net::{Door, DoorState, Gate, HandedOver, Opened, Opener, Place, listener};
use weir_runtime::listening::open_apart;
use weir_runtime::messages::Messages;
use weir_runtime::observe::record::{CliSettings, CliSocket, LONGEST_PAYLOAD, spelled};
use weir_sched::{Class, Descriptor, Kind, Tick};
use weir_sys::{Address, Errno, process};

use super::{Client, LONGEST_LINE, SILENCE_MS};
use crate::master::Master;

/// All of them.
#[derive(Default)]
pub struct Entrances {
    list: Vec<Entrance>,
    /// Sockets that somebody else made (`fd@`) stay open for the next execution.
    _opener: Option<Opener>,
}

/// One socket.
pub struct Entrance {
    opened: Opened,
    client: Client,
}

impl Entrances {
    /// Opens the sockets of `-S`, or uses those of the former execution. `None` when one cannot be opened; that was said.
    pub fn open(binds: &[Bind], carried: Vec<OwnedFd>, messages: &Messages) -> Option<Self> {
        let mut opener = Opener::new();
        opener.adopt(carried.into_iter().flat_map(|socket| HandedOver::new(socket, None)).collect());
        let mut list = Vec::new();
        for bind in binds {
            let client = |address| Client {
                address,
                level: match bind.options.level {
                    Some(model::Level::User) => Level::User,
                    Some(model::Level::Operator) => Level::Operator,
                    Some(model::Level::Admin) | None => Level::Admin,
                },
                severity_output: match bind.options.severity_output {
                    model::SeverityOutput::None => SeverityOutput::None,
                    model::SeverityOutput::Number => SeverityOutput::Number,
                    model::SeverityOutput::String => SeverityOutput::Text,
                },
                worker: None,
            };
            for opened in open_apart(&mut opener, bind, messages)? {
                let client = client(spelled(&opened.address));
                list.push(Entrance { opened, client });
            }
        }
        Some(Entrances { list, _opener: Some(opener) })
    }

    /// Each socket.
    pub fn list(&self) -> &[Entrance] {
        &self.list
    }

    /// How a configuration would write them (`HAPROXY_MASTER_CLI`).
    pub fn spelling(&self) -> String {
        let all: Vec<&str> = self.list.iter().map(Entrance::spelling).collect();
        all.join(";")
    }
}

impl Entrance {
    /// As a configuration would write it.
    pub fn spelling(&self) -> &str {
        &self.client.address
    }

    /// What its clients may do.
    pub fn level(&self) -> Level {
        self.client.level
    }

    /// As one of the sockets of the runtime API.
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

    /// The socket, if the next execution has to have it: one that somebody else made is inherited by its number.
    pub(crate) fn to_keep(&self) -> Option<OwnedFd> {
        (!self.opened.inherited).then(|| process::duplicate(&self.opened.socket).ok())?
    }

    /// Starts to accept.
    pub(crate) fn open(&self, master: &Rc<Master>, position: usize) -> weir_sys::Result<()> {
        let descriptor = process::duplicate(&self.opened.socket).and_then(Descriptor::register)?;
        let door = MasterDoor { master: master.clone(), position, gate: Box::leak(Box::default()) };
        weir_sched::spawn(&ACCEPT, Class::Urgent, listener::accept(descriptor, door, BATCH));
        Ok(())
    }
}

struct MasterDoor {
    master: Rc<Master>,
    position: usize,
    gate: &'static Gate,
}

impl Door for MasterDoor {
    type Ticket = Place;

    fn state(&self) -> DoorState {
        DoorState::Open
    }

    fn too_fast(&self) -> Option<Tick> {
        None
    }

    fn admit(&self) -> Result<Place, &'static Gate> {
        self.gate.enter(MOST_CLIENTS).ok_or(self.gate)
    }

    fn give_way(&self) {
        self.gate.offer();
    }

    fn enter(&self, place: Place, socket: OwnedFd, _: Address) {
        let client = self.master.entrances.list()[self.position].client.clone();
        self.master.clone().hear(client, socket, Some(place));
    }

    /// Clients wait in the kernel's queue until there are descriptors again.
    fn exhausted(&self, _: Errno) {}
}

static ACCEPT: Kind = Kind::new("master cli accept");
/// How many are accepted in one turn.
const BATCH: u32 = 4;
/// How many operators may speak through one socket at once.
const MOST_CLIENTS: u32 = 1000;
