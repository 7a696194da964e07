//! The connection of one check to its server.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use weir_backend::{CheckFinding, CheckStatus, Server, ServerCheck};
use weir_model::{CheckConnect, Protocol};
use weir_net::{ConnectError, ConnectPlan, Connecting, Connection, ConnectionFault, Greeting, Probe};
use weir_sched::{Tick, now, now_us};
use weir_sys::{AddressFamily, Errno};
use weir_tls::Why;

use crate::context::CheckContext;
use crate::http2::Http2Bounds;
use crate::plan::{CheckPlan, CheckTls, Dial, Greets};
use crate::process_view::ProcessView;
use crate::proxy_header;
use crate::schedule::{MOST_LATE_MS, deadline};

/// One check of a server.
pub(crate) struct Attempt<'a> {
    pub(crate) plan: &'a CheckPlan,
    pub(crate) server: &'a Arc<Server>,
    pub(crate) check: &'a ServerCheck,
    pub(crate) view: &'a dyn ProcessView,
    /// Start of the check, in microseconds on the clock of ticks.
    began_us: u64,
    interval_ms: u64,
    /// The deadline of the current step.
    due: Cell<Tick>,
    /// The connection that is closed after the report.
    held: RefCell<Option<(SocketReuse, Connection)>>,
}

/// The connection that a check needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionRequest<'w> {
    /// The options of the rule.
    pub(crate) said: &'w CheckConnect,
    /// The port of the rule.
    pub(crate) port: Option<u16>,
    /// The host of the following requests. Used as SNI unless the settings have one.
    pub(crate) host: Option<&'w [u8]>,
    /// Whether the connection is for HTTP/1, HTTP/2 or FastCGI.
    pub(crate) is_http: bool,
    /// Whether the check sends first.
    pub(crate) speaks_first: bool,
}

impl<'w> ConnectionRequest<'w> {
    /// A connection with only these options, to a server that sends first.
    pub(crate) fn usual(said: &'w CheckConnect) -> Self {
        ConnectionRequest { said, port: None, host: None, is_http: false, speaks_first: false }
    }
}

/// An established connection.
#[derive(Debug)]
pub(crate) struct CheckConnection {
    pub(crate) connection: Connection,
    pub(crate) protocol: CheckProtocol,
    /// Whether the connection's socket can be reused afterwards.
    pub(crate) socket: SocketReuse,
}

/// The protocol of a check's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CheckProtocol {
    /// HTTP/1, or the bytes of rules.
    Bytes,
    /// HTTP/2, with these limits.
    Http2(Http2Bounds),
    /// FastCGI.
    Application,
}

/// The address family of a socket that can be reused for another connection. `None` if it cannot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SocketReuse(Option<AddressFamily>);

impl SocketReuse {
    /// Closes the connection. Keeps its socket if it can be reused.
    pub(crate) fn end(self, connection: Connection) {
        if let Some(family) = self.0 {
            weir_net::keep(connection, family);
        }
    }
}

impl<'a> Attempt<'a> {
    /// An attempt that begins now.
    pub(crate) fn new(
        plan: &'a CheckPlan,
        server: &'a Arc<Server>,
        check: &'a ServerCheck,
        view: &'a dyn ProcessView,
    ) -> Self {
        let (began_us, interval_ms, due) = (now_us(), plan.intervals.of(check), Cell::new(Tick::NEVER));
        Attempt { plan, server, check, view, began_us, interval_ms, due, held: RefCell::default() }
    }
}

impl Attempt<'_> {
    /// Connects with the settings of the plan and the rule, within the limits in the manual ("timeout check").
    pub(crate) async fn connect(
        &self,
        wanted: ConnectionRequest<'_>,
    ) -> Result<CheckConnection, CheckFinding> {
        let dial = self.dial(wanted.said, wanted.port);
        let deadline = self.connect_deadline();
        let mut plan = self.connect_plan(&dial)?;
        let speaks_first = wanted.speaks_first || dial.greets != Greets::No || dial.tls.is_some();
        // If the server sends first, acknowledge at once, because the server waits for the end of the handshake.
        plan.options.delays_acknowledgement &= speaks_first;
        // A connection that traffic may reuse is opened like a traffic connection and is not closed with a reset.
        let family = plan.kept_family().filter(|_| dial.tls.is_none() && self.plan.reuse.is_none());
        let begun = if family.is_some() { plan.begin_kept() } else { plan.begin_now() };
        let mut connection = stand(begun.map_err(not_begun)?, deadline).await?;
        self.greet(&dial, &mut connection, deadline).await?;
        if let Some(tls) = &dial.tls {
            // An explicit `connect` rule uses a configured name or no SNI, never the request's host (manual, "check-sni-auto").
            let host = wanted.host.filter(|_| tls.takes_host && !wanted.said.is_written);
            let name = tls.server_name.as_deref().map(str::as_bytes).or(host);
            let http2 = wanted.is_http && !matches!(dial.protocol, Some(Protocol::H1 | Protocol::Fcgi));
            secure((tls, http2), name, &mut connection, deadline).await?;
        }
        let agrees_on_http2 = connection.tls().is_some_and(|facts| facts.protocol.as_deref() == Some(b"h2"));
        let protocol = match dial.protocol {
            _ if !wanted.is_http => CheckProtocol::Bytes,
            Some(Protocol::Fcgi) => CheckProtocol::Application,
            Some(Protocol::H2) => CheckProtocol::Http2(dial.http2),
            None if agrees_on_http2 => CheckProtocol::Http2(dial.http2),
            _ => CheckProtocol::Bytes,
        };
        Ok(CheckConnection { connection, protocol, socket: SocketReuse(family) })
    }

    /// Sends the PROXY header, if there is one.
    async fn greet(
        &self,
        dial: &Dial,
        connection: &mut Connection,
        deadline: Tick,
    ) -> Result<(), CheckFinding> {
        if dial.greets == Greets::No {
            return Ok(());
        }
        let mut context = CheckContext::new(self.view, &self.plan.backend, self.server);
        let header = proxy_header::header(dial, connection, &mut context);
        match connection.send_all(&header, deadline).await {
            Some(()) => Ok(()),
            None => Err(connection
                .fault()
                .map_or_else(|| CheckFinding::new(CheckStatus::L4Timeout), no_connection)),
        }
    }

    /// The check without a dialogue: only tests whether the server accepts connections.
    pub(crate) async fn probe(&self) -> Result<CheckStatus, CheckFinding> {
        let said = CheckConnect::default();
        let dial = self.dial(&said, None);
        if dial.greets != Greets::No || dial.tls.is_some() {
            let mut connection = self.connect(ConnectionRequest::usual(&said)).await?.connection;
            connection.say_goodbye();
            let status = stands(connection.tls().is_some());
            self.hold(SocketReuse::default(), connection);
            return Ok(status);
        }
        let deadline = self.connect_deadline();
        if let Probe::Awaited(connecting) = self.connect_plan(&dial)?.probe().map_err(not_begun)? {
            let connection = stand(connecting, deadline).await?;
            self.hold(SocketReuse::default(), connection);
        }
        Ok(CheckStatus::L4Ok)
    }

    /// Keeps a finished connection open until the finding is reported. A server or agent that sees the end of its connection
    /// can rely on the new state.
    pub(crate) fn hold(&self, socket: SocketReuse, connection: Connection) {
        *self.held.borrow_mut() = Some((socket, connection));
    }

    fn connect_plan<'d>(&self, dial: &'d Dial) -> Result<ConnectPlan<'d>, CheckFinding> {
        let target = dial.target(self.server).ok_or_else(|| CheckFinding::new(CheckStatus::Unknown))?;
        Ok(dial.connect_plan(target, weir_sched::random() as u32))
    }

    /// Whether an operator redirected the check (`set server check-addr`).
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.check.record().redirection.is_some()
    }

    /// Whether this process woke much later than planned, because it or the machine was suspended or starved of CPU. The
    /// server is then not at fault.
    pub(crate) fn is_late(&self) -> bool {
        now().since(self.due.get()) > MOST_LATE_MS
    }

    /// Sets the deadline of the current step.
    pub(crate) fn expect_by(&self, due: Tick) {
        self.due.set(due);
    }

    /// The deadline of a connect that begins now.
    pub(crate) fn connect_deadline(&self) -> Tick {
        let due = match (self.plan.timings.check_ms, self.plan.timings.connect_ms) {
            (Some(_), Some(connect_ms)) => deadline(now_us(), connect_ms.min(self.interval_ms)),
            _ => deadline(self.began_us, self.interval_ms),
        };
        self.expect_by(due);
        due
    }

    /// The deadline for a response on a connection established now.
    pub(crate) fn answer_deadline(&self) -> Tick {
        let due = match self.plan.timings.check_ms {
            Some(check_ms) => deadline(now_us(), check_ms),
            None => deadline(self.began_us, self.interval_ms),
        };
        self.expect_by(due);
        due
    }

    /// The connection settings of a rule, with those of the plan as defaults.
    fn dial(&self, said: &CheckConnect, port: Option<u16>) -> Cow<'_, Dial> {
        let usual = &*self.plan.dial;
        let is_usual = !said.is_written
            && !said.lingers
            && usual.tls.as_ref().is_none_or(|tls| tls.is_usual)
            && self.check.record().redirection.is_none();
        if is_usual { Cow::Borrowed(usual) } else { Cow::Owned(self.special_dial(said, port)) }
    }

    fn special_dial(&self, said: &CheckConnect, port: Option<u16>) -> Dial {
        let mut dial = Dial::clone(&self.plan.dial);
        if let Some(elsewhere) = &self.check.record().redirection {
            dial.address = elsewhere.address.or(dial.address);
            dial.port = elsewhere.port.or(dial.port);
        }
        if said.is_written {
            dial.address = said.address.as_ref().and_then(weir_model::Host::ip).or(dial.address);
            dial.port = port.or(dial.port);
            if !said.by_default {
                dial.greets = Greets::No;
                dial.socks4 = None;
                dial.protocol = None;
            }
            dial.protocol = said.protocol.or(dial.protocol);
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

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some((socket, connection)) = self.held.take() {
            socket.end(connection);
        }
    }
}

/// Waits for a connection that was begun.
async fn stand(mut connecting: Connecting, deadline: Tick) -> Result<Connection, CheckFinding> {
    match connecting.stand(Greeting::default(), deadline, || Ok(())).await {
        Ok(()) => Ok(connecting.into_connection()),
        Err(ConnectError::Failed(fault)) => Err(no_connection(fault)),
        Err(ConnectError::TimedOut) => Err(CheckFinding::new(CheckStatus::L4Timeout)),
    }
}

/// Applies a rule's TLS settings.
fn apply(said: &CheckConnect, tls: &mut CheckTls) {
    if !said.by_default {
        *tls = CheckTls { is_usual: false, server_name: None, protocols: None, ..tls.clone() };
    }
    tls.is_usual |= said.tls;
    tls.server_name = said.server_name.clone().or(tls.server_name.take());
    tls.protocols = said.protocols.clone().or(tls.protocols.take());
}

/// Makes the TLS handshake.
async fn secure(
    (tls, http2): (&CheckTls, bool),
    name: Option<&[u8]>,
    connection: &mut Connection,
    deadline: Tick,
) -> Result<(), CheckFinding> {
    let failed = |detail: &'static str| CheckFinding {
        detail: detail.into(),
        ..CheckFinding::new(CheckStatus::L6Response)
    };
    let session = tls.upstream.check_session(name, tls.protocols.as_deref(), http2);
    let session = session.map_err(|_| failed("Invalid name for SNI"))?;
    let Err(failure) = connection.shake_hands(session, deadline).await else { return Ok(()) };
    Err(match failure.why {
        Why::TimedOut => CheckFinding::new(CheckStatus::L6Timeout),
        Why::WrongName => failed("Server presented an SSL certificate different from the expected one"),
        Why::WrongHost => failed("Server presented an SSL certificate different from the configured one"),
        _ => failed("SSL handshake failure"),
    })
}

/// The status of an established connection: layer 4, or layer 6 with TLS.
pub(crate) fn stands(is_secured: bool) -> CheckStatus {
    if is_secured { CheckStatus::L6Ok } else { CheckStatus::L4Ok }
}

/// The finding of a connection that was not established. Inconclusive if the cause is this process.
fn no_connection(fault: ConnectionFault) -> CheckFinding {
    let is_ours = fault.is_lack_of_descriptors() || fault == ConnectionFault::Shortage;
    let status = match fault {
        _ if is_ours => CheckStatus::SocketError,
        ConnectionFault::Io(Errno::TIMEDOUT) => CheckStatus::L4Timeout,
        _ => CheckStatus::L4Connection,
    };
    let is_refused = fault == ConnectionFault::Io(Errno::CONNREFUSED);
    CheckFinding {
        detail: fault.to_string().into(),
        is_refused,
        inconclusive: is_ours,
        ..CheckFinding::new(status)
    }
}

/// The finding of the connection that a check opens without a rule. With `tcp-check` the text names that step. Otherwise
/// the system's error name precedes a refusal, as in 3.5. The packaged suite expects the short text in steps of
/// `tcp-check`.
pub(crate) fn at_first(finding: CheckFinding, is_tcp_check: bool) -> CheckFinding {
    if !is_tcp_check && finding.is_refused {
        let detail = format!("ECONNREFUSED returned by OS ({})", finding.detail);
        return CheckFinding { detail: detail.into(), ..finding };
    }
    if !is_tcp_check || finding.status == CheckStatus::Unknown {
        return finding;
    }
    let detail = format!("{} at initial connection step of tcp-check", finding.detail);
    CheckFinding { detail: detail.into(), ..finding }
}

/// The finding of a connection that could not even be started.
fn not_begun(fault: ConnectionFault) -> CheckFinding {
    let finding = no_connection(fault);
    let detail = match fault {
        ConnectionFault::Io(Errno::CONNREFUSED) => return finding,
        ConnectionFault::Io(Errno::ADDRNOTAVAIL) => format!("Can't bind to source address ({fault})"),
        ConnectionFault::Io(_) => format!("General socket error ({fault})"),
        _ => return finding,
    };
    // A missing UNIX socket is a socket error according to the manual.
    let is_absent = fault == ConnectionFault::Io(Errno::NOENT);
    let status = if is_absent { CheckStatus::SocketError } else { finding.status };
    CheckFinding { status, detail: detail.into(), ..finding }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timeout of one millisecond lasts a full millisecond, regardless of the start within a tick.
    #[test]
    fn a_check_timeout_lasts_at_least_its_full_length() {
        let shortest = weir_sched::run(async {
            // An idle worker would sleep for a millisecond in any case.
            static OTHER: weir_sched::WorkKind = weir_sched::WorkKind::new("other work");
            weir_sched::spawn(&OTHER, weir_sched::Class::Normal, async {
                loop {
                    weir_sched::yield_now().await;
                }
            });
            let mut shortest = u64::MAX;
            for phase in 0..20 {
                while !(phase * 50..phase * 50 + 50).contains(&(now_us() % 1_000)) {
                    weir_sched::yield_now().await;
                }
                let began = now_us();
                weir_sched::sleep_until(deadline(now_us(), 1)).await;
                shortest = shortest.min(now_us() - began);
            }
            shortest
        });
        let shortest = shortest.expect("a worker").expect("it ends");
        assert!(shortest >= 1_000, "{shortest} us");
    }
}
