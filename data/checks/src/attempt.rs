//! One check's way to its server.

use weir_backend::{Check, CheckStatus, Finding, Server};
use weir_config::model::CheckConnect;
use weir_net::{ConnectError, Connection, Fault, Greeting};
use weir_proxy::{Addresses, Command, Transport, V2};
use weir_sched::{Tick, now};
use weir_sys::{Errno, socket};
use weir_tls::Why;

use crate::plan::{CheckPlan, CheckTls, Dial, Greets};
use crate::process_view::ProcessView;

/// One check of a server.
pub(crate) struct Attempt<'a> {
    pub(crate) plan: &'a CheckPlan,
    pub(crate) server: &'a Server,
    pub(crate) check: &'a Check,
    pub(crate) view: &'a dyn ProcessView,
    began: Tick,
    interval_ms: u64,
}

impl<'a> Attempt<'a> {
    /// One that begins now.
    pub(crate) fn new(
        plan: &'a CheckPlan,
        server: &'a Server,
        check: &'a Check,
        view: &'a dyn ProcessView,
    ) -> Self {
        Attempt { plan, server, check, view, began: now(), interval_ms: plan.intervals.of(check) }
    }
}

impl Attempt<'_> {
    /// Connects as the plan says, and a rule, within the time that the manual gives ("timeout check"). `host` is the name of what will be
    /// asked for: TLS asks for it if nothing else is said.
    pub(crate) async fn connect(
        &self,
        said: &CheckConnect,
        port: Option<u16>,
        host: Option<&[u8]>,
    ) -> Result<Connection, Finding> {
        let dial = self.dial(said, port);
        let target = dial.target(self.server).ok_or_else(|| Finding::new(CheckStatus::Unknown))?;
        let connect_plan = dial.connect_plan(target, weir_sched::random() as u32);
        let deadline = self.connect_deadline();
        let mut connecting = connect_plan.begin().map_err(not_begun)?;
        match connecting.stand(Greeting::default(), deadline, || Ok(())).await {
            Ok(()) => {}
            Err(ConnectError::Failed(fault)) => return Err(no_connection(fault)),
            Err(ConnectError::TimedOut) => return Err(Finding::new(CheckStatus::L4Timeout)),
        }
        let mut connection = connecting.into_connection();
        greet(dial.greets, &mut connection, deadline).await?;
        if let Some(tls) = &dial.tls {
            let name = tls.server_name.as_deref().map(str::as_bytes).or(host.filter(|_| tls.takes_host));
            secure(tls, name, &mut connection, deadline).await?;
        }
        Ok(connection)
    }

    /// Whether an operator had the check go elsewhere (`set server check-addr`).
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.check.record().redirection.is_some()
    }

    /// When a connection that begins now must stand.
    pub(crate) fn connect_deadline(&self) -> Tick {
        match (self.plan.timings.check_ms, self.plan.timings.connect_ms) {
            (Some(_), Some(connect_ms)) => now().after(connect_ms.min(self.interval_ms)),
            _ => self.began.after(self.interval_ms),
        }
    }

    /// When an answer must have come on a connection that stands since now.
    pub(crate) fn answer_deadline(&self) -> Tick {
        match self.plan.timings.check_ms {
            Some(check_ms) => now().after(check_ms),
            None => self.began.after(self.interval_ms),
        }
    }

    /// How a rule connects: the plan's own way, unless the rule says something else.
    fn dial(&self, said: &CheckConnect, port: Option<u16>) -> Dial {
        let mut dial = Dial::clone(&self.plan.dial);
        if let Some(elsewhere) = &self.check.record().redirection {
            dial.address = elsewhere.address.or(dial.address);
            dial.port = elsewhere.port.or(dial.port);
        }
        if said.is_written {
            dial.address = said.address.as_ref().and_then(weir_config::model::Host::ip).or(dial.address);
            dial.port = port.or(dial.port);
            if !said.by_default {
                dial.greets = Greets::No;
                dial.socks4 = None;
            }
            if let Some(tls) = &mut dial.tls {
                apply(said, tls);
            }
            if said.send_proxy {
                dial.greets = match self.plan.dial.greets {
                    Greets::V2 => Greets::V2,
                    Greets::No | Greets::V1 => Greets::V1,
                };
            }
            if said.via_socks4 {
                dial.socks4 = self.plan.dial.server_socks4;
            }
        }
        if said.lingers {
            dial.options.no_linger = false;
        }
        dial.tls = dial.tls.filter(|tls| tls.is_usual);
        dial
    }
}

/// What a rule says of TLS.
fn apply(said: &CheckConnect, tls: &mut CheckTls) {
    if !said.by_default {
        *tls = CheckTls { is_usual: false, server_name: None, protocols: None, ..tls.clone() };
    }
    tls.is_usual |= said.tls;
    tls.server_name = said.server_name.clone().or(tls.server_name.take());
    tls.protocols = said.protocols.clone().or(tls.protocols.take());
}

/// Makes the handshake of TLS.
async fn secure(
    tls: &CheckTls,
    name: Option<&[u8]>,
    connection: &mut Connection,
    deadline: Tick,
) -> Result<(), Finding> {
    let failed =
        |detail: &'static str| Finding { detail: detail.into(), ..Finding::new(CheckStatus::L6Response) };
    let session = tls.upstream.check_session(name, tls.protocols.as_deref());
    let session = session.map_err(|_| failed("Invalid name for SNI"))?;
    let Err(failure) = connection.shake_hands(session, deadline).await else { return Ok(()) };
    Err(match failure.why {
        Why::TimedOut => Finding::new(CheckStatus::L6Timeout),
        Why::WrongName if name.is_some() => {
            failed("Server presented an SSL certificate different from the expected one")
        }
        Why::WrongName => failed("Server presented an SSL certificate different from the configured one"),
        _ => failed("SSL handshake failure"),
    })
}

/// That a connection stands, and all that is below what is said over it.
pub(crate) fn stands(connection: &Connection) -> CheckStatus {
    if connection.is_plain() { CheckStatus::L4Ok } else { CheckStatus::L6Ok }
}

/// Sends the PROXY header.
async fn greet(greets: Greets, connection: &mut Connection, deadline: Tick) -> Result<(), Finding> {
    let mut header = Vec::new();
    match greets {
        Greets::No => return Ok(()),
        Greets::V1 => weir_proxy::write_v1(ends(connection), &mut header),
        Greets::V2 => {
            let local = V2 {
                command: Command::Local,
                transport: Transport::Unspecified,
                addresses: Addresses::Unknown,
                tlvs: &[],
                checksum: false,
            };
            // Nothing in it is long.
            let _ = weir_proxy::write_v2(&local, &mut header);
        }
    }
    match connection.send_all(&header, deadline).await {
        Some(()) => Ok(()),
        None => Err(connection.fault().map_or_else(|| Finding::new(CheckStatus::L4Timeout), no_connection)),
    }
}

fn ends(connection: &Connection) -> Addresses<'static> {
    let descriptor = connection.descriptor();
    let near = socket::local_address(descriptor).ok().and_then(|address| address.inet());
    let far = socket::peer_address(descriptor).ok().and_then(|address| address.inet());
    match (near, far) {
        (Some(source), Some(destination)) => Addresses::Inet { source, destination },
        _ => Addresses::Unknown,
    }
}

/// What a connection that does not stand says of the server: nothing, when it is our own fault.
fn no_connection(fault: Fault) -> Finding {
    let is_ours = fault.is_lack_of_descriptors() || fault == Fault::Shortage;
    let status = match fault {
        _ if is_ours => CheckStatus::SocketError,
        Fault::Io(Errno::TIMEDOUT) => CheckStatus::L4Timeout,
        _ => CheckStatus::L4Connection,
    };
    Finding { detail: in_words(fault).into(), inconclusive: is_ours, ..Finding::new(status) }
}

/// What a connection that could not even begin says of the server.
fn not_begun(fault: Fault) -> Finding {
    let finding = no_connection(fault);
    let detail = match fault {
        Fault::Io(Errno::CONNREFUSED) => return finding,
        Fault::Io(Errno::ADDRNOTAVAIL) => format!("Can't bind to source address ({})", in_words(fault)),
        Fault::Io(_) => format!("General socket error ({})", in_words(fault)),
        _ => return finding,
    };
    Finding { detail: detail.into(), ..finding }
}

/// A fault as the system's messages have it, without its number.
pub(crate) fn in_words(fault: Fault) -> String {
    let text = fault.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
