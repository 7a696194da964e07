//! Log lines about changes of servers.
//!
//! [`Backend::change_for`](crate::Backend::change_for) and [`Backend::report`](crate::Backend::report) return them. They are
//! made under the backend's lock, so their numbers are consistent. Their wording is HAProxy's, because log processors match
//! it.

use std::sync::{Arc, Weak};

use crate::event::{ServerEvent, ServerEventKind};
use crate::health::{CheckFinding, CheckKind, CheckResult, ServerCheck};
use crate::server::Server;
use crate::server::state::{AdminState, OperationalState};
use crate::server_key::ServerKey;

/// How urgent a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The last server of a backend is gone.
    Emergency,
    /// A server is down.
    Alert,
    /// A server is up, or drains.
    Notice,
}

/// One line for the logs of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendNotice {
    /// The backend's index among the proxies.
    pub proxy: usize,
    /// How urgent the line is.
    pub urgency: Urgency,
    /// The level of the mail about the change. `None` sends no mail.
    pub mail: Option<MailLevel>,
    pub text: String,
}

/// How urgent a mail is, the most urgent first (manual, "email-alert level").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailLevel {
    /// A server is down.
    Alert,
    /// A server that took no visitors is down, or a server is up or drains.
    Notice,
    /// The result of a check changed.
    Info,
}

/// A server that went up or down.
#[derive(Clone, Debug)]
pub struct Passage {
    /// The index of the server's backend among the proxies.
    pub proxy: usize,
    pub server: Arc<Server>,
    /// Whether the server is up now.
    pub is_up: bool,
}

/// The result of a change: log lines, and servers that went up or down. Includes the first servers that track the changed one.
#[derive(Debug, Default)]
pub struct BackendNews {
    /// The log lines, in order.
    pub notices: Vec<BackendNotice>,
    /// The servers that went up or down.
    pub passages: Vec<Passage>,
    /// The events of servers, in order.
    pub events: Vec<ServerEvent>,
    /// When ejected servers return. Servers that return at the same time share an entry.
    pub ejections: Vec<EjectionEnd>,
    /// When to compute the members of a large backend that has a watcher. One entry for each batch of changes.
    pub batches: Vec<BatchEnd>,
    /// Servers that track changed ones and are not updated yet. Continue with the first entry until the list is empty.
    pub later: Vec<Followers>,
}

/// When to call [`Backend::settle`](crate::Backend::settle).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    /// The backend's index among the proxies.
    pub proxy: usize,
    /// The time on the caller's clock, in milliseconds.
    pub at_ms: u64,
}

/// When to call [`Backend::end_ejections`](crate::Backend::end_ejections).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EjectionEnd {
    /// The backend's index among the proxies.
    pub proxy: usize,
    /// The time on the caller's clock, in milliseconds.
    pub at_ms: u64,
}

/// Tracking servers that have yet to copy the state of the tracked server, their leader. Continue after other tasks ran.
/// At most one `Followers` exists for each leader. After it is dropped, the leader's next change makes a new one for all
/// followers that were not updated.
#[derive(Debug)]
pub struct Followers {
    backend: Weak<dyn Leader>,
    leader: ServerKey,
    /// While a task holds this, other tasks do not continue the pass.
    held: Arc<()>,
}

/// A backend with servers that others track.
pub(crate) trait Leader: Send + Sync {
    /// Updates the next followers of a server. [`BackendNews::later`] has the rest.
    fn go_on(&self, leader: ServerKey, now_ms: u64) -> BackendNews;
}

impl Followers {
    pub(crate) fn new(backend: Weak<dyn Leader>, leader: ServerKey, held: Arc<()>) -> Self {
        Self { backend, leader, held }
    }

    /// Updates the next followers. [`BackendNews::later`] has the rest.
    #[must_use]
    pub fn go_on(self, now_ms: u64) -> BackendNews {
        let Self { backend, leader, held } = self;
        // The next task that finds remaining followers may continue.
        drop(held);
        backend.upgrade().map(|backend| backend.go_on(leader, now_ms)).unwrap_or_default()
    }
}

impl BackendNews {
    /// Appends `more`.
    pub fn extend(&mut self, more: BackendNews) {
        self.notices.extend(more.notices);
        self.passages.extend(more.passages);
        self.events.extend(more.events);
        self.ejections.extend(more.ejections);
        self.batches.extend(more.batches);
        self.later.extend(more.later);
    }
}

/// Why a server changed.
#[derive(Clone, Debug)]
pub enum Reason {
    Operator,
    Found(CheckFinding),
    /// A check with a finding that is already logged.
    Said,
    /// The server tracks the server with this name.
    Follows(String),
    /// The server's name, given here, resolves again.
    Resolves(String),
    /// The server's name does not resolve, for this reason.
    Unresolved(&'static str),
    /// Ejected as an outlier. The text is logged after the server's name.
    Ejected(String),
    /// The server's ejection is over.
    TakenBack,
}

impl Reason {
    /// The text after "is DOWN".
    fn of_health(&self) -> String {
        match self {
            Reason::Operator => ", changed from CLI".to_owned(),
            Reason::Found(finding) => finding.reason(),
            Reason::Said
            | Reason::Resolves(_)
            | Reason::Unresolved(_)
            | Reason::Ejected(_)
            | Reason::TakenBack => String::new(),
            Reason::Follows(_) => self.via(),
        }
    }

    /// The cause in events of the administrative state. Empty for commands, as in HAProxy.
    fn of_admin_event(&self) -> String {
        match self {
            Reason::Unresolved(why) => (*why).to_owned(),
            Reason::Resolves(host) => format!("'{host}' resolves again"),
            _ => String::new(),
        }
    }

    /// The cause in events of the operational state. Empty for checks, which have a report.
    fn of_state_event(&self) -> String {
        match self {
            Reason::Operator => "changed from CLI".to_owned(),
            Reason::Ejected(text) => text.clone(),
            _ => String::new(),
        }
    }

    /// ` via b/s` if the server tracks another.
    fn via(&self) -> String {
        match self {
            Reason::Follows(name) => format!(" via {name}"),
            _ => String::new(),
        }
    }
}

/// The state of a server and its backend at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) admin: AdminState,
    pub(crate) operational: OperationalState,
    /// Requests that wait for the server.
    pub(crate) queued: u32,
    /// Usable servers that are not backups.
    pub(crate) active: u32,
    pub(crate) backup: u32,
}

/// The state of a server before and after a change.
pub(crate) struct Transition<'t> {
    /// The index of the backend among the proxies.
    pub(crate) proxy: usize,
    pub(crate) backend: &'t str,
    /// Whether the backend is a `listen` section.
    pub(crate) is_listen: bool,
    pub(crate) server: &'t Server,
    pub(crate) before: Situation,
    pub(crate) after: Situation,
    /// Requests in the backend's queue now.
    pub(crate) waiting: u32,
    pub(crate) reason: &'t Reason,
}

impl Situation {
    fn usable(&self) -> u32 {
        self.active + self.backup
    }

    fn server_counts(&self, what: &str) -> String {
        let on_backup = if self.active == 0 && self.backup > 0 { " Running on backup." } else { "" };
        format!("{} active and {} backup servers {what}.{on_backup}", self.active, self.backup)
    }
}

impl Transition<'_> {
    /// The events of the change, the administrative one first.
    pub(crate) fn events(&self) -> impl Iterator<Item = ServerEventKind> + use<> {
        let (before, after, reason) = (&self.before, &self.after, self.reason);
        let requeued = before.queued.saturating_sub(after.queued);
        let is_administrative = before.admin != after.admin;
        let admin = is_administrative.then(|| ServerEventKind::Admin {
            old: before.admin,
            new: after.admin,
            cause: reason.of_admin_event(),
            requeued,
        });
        let state = (before.operational != after.operational).then(|| ServerEventKind::State {
            old: before.operational,
            new: after.operational,
            is_administrative,
            cause: if is_administrative { reason.of_admin_event() } else { reason.of_state_event() },
            check: None,
            requeued,
        });
        admin.into_iter().chain(state)
    }

    /// The log lines of the change.
    pub(crate) fn lines(&self) -> Vec<BackendNotice> {
        let mut lines: Vec<_> = self.of_ejection().or_else(|| self.of_admin()).into_iter().collect();
        if lines.is_empty() {
            lines.extend(self.of_health());
        } else if matches!(self.reason, Reason::Resolves(_)) {
            let (backend, server) = (self.backend, self.server.name());
            let text =
                format!("Server {backend}/{server} administratively READY thanks to valid DNS answer.");
            lines.push((Urgency::Notice, text));
        }
        let mut lines: Vec<_> =
            lines.into_iter().map(|(urgency, text)| (urgency, self.mail(), text)).collect();
        if self.before.usable() > 0 && self.after.usable() == 0 {
            let kind = if self.is_listen { "proxy" } else { "backend" };
            let text = format!("{kind} {} has no server available!", self.backend);
            lines.push((Urgency::Emergency, None, text));
        }
        let notice = |(urgency, mail, text)| BackendNotice { proxy: self.proxy, urgency, mail, text };
        lines.into_iter().map(notice).collect()
    }

    /// The level of the mail about the server's own change.
    fn mail(&self) -> Option<MailLevel> {
        let is_down = |situation: &Situation| situation.operational == OperationalState::Stopped;
        if self.after.admin.is_maintenance() || !is_down(&self.after) {
            return Some(MailLevel::Notice);
        }
        // A server that was already down sends no second alert.
        (!is_down(&self.before)).then_some(MailLevel::Alert)
    }

    fn name(&self) -> String {
        let backup = if self.server.settings().backup { "Backup " } else { "" };
        format!("{backup}Server {}/{}", self.backend, self.server.name())
    }

    /// The text about the rest of the backend when the server leaves.
    fn left(&self) -> String {
        let requeued = self.before.queued.saturating_sub(self.after.queued);
        format!(
            "{} {} sessions active, {requeued} requeued, {} remaining in queue.",
            self.after.server_counts("left"),
            self.server.served(),
            self.waiting
        )
    }

    /// The text about the backend when the server is available.
    fn online(&self) -> String {
        let requeued = self.before.queued.saturating_sub(self.after.queued);
        format!(
            "{} {requeued} sessions requeued, {} total in queue.",
            self.after.server_counts("online"),
            self.waiting
        )
    }

    fn of_ejection(&self) -> Option<(Urgency, String)> {
        let name = self.name();
        match self.reason {
            Reason::Ejected(text) => Some((Urgency::Alert, format!("{name} {text}. {}", self.left()))),
            Reason::TakenBack => {
                Some((Urgency::Notice, format!("{name} is back from its ejection. {}", self.online())))
            }
            _ => None,
        }
    }

    fn of_health(&self) -> Option<(Urgency, String)> {
        let (was, is) = (self.before.operational, self.after.operational);
        if was == is {
            return None;
        }
        let (name, reason) = (self.name(), self.reason.of_health());
        Some(match is {
            OperationalState::Stopped => {
                // A server that was already out of balancing does not count as lost.
                let was_leaving = was == OperationalState::Stopping || self.before.admin.is_drain();
                let urgency = if was_leaving { Urgency::Notice } else { Urgency::Alert };
                (urgency, format!("{name} is DOWN{reason}. {}", self.left()))
            }
            OperationalState::Stopping => {
                (Urgency::Notice, format!("{name} is stopping{reason}. {}", self.online()))
            }
            OperationalState::Running if was == OperationalState::Starting => return None,
            OperationalState::Starting | OperationalState::Running => {
                (Urgency::Notice, format!("{name} is UP{reason}. {}", self.online()))
            }
        })
    }

    /// The line for a server that leaves or returns to service because of name resolution.
    fn of_resolution(&self, was_out: bool, is: (bool, bool)) -> Option<(Urgency, String)> {
        let name = self.name();
        match (self.reason, was_out, is) {
            (Reason::Resolves(host), true, (false, drains)) => {
                let is_up = self.after.operational != OperationalState::Stopped;
                let word = if is_up { "UP" } else { "DOWN" };
                let wish = if drains { "DRAIN" } else { "READY" };
                Some((Urgency::Notice, format!("{name} ('{host}') is {word}/{wish} (resolves again).")))
            }
            (Reason::Unresolved(why), false, (true, _)) => {
                let text = format!("{name} is going DOWN for maintenance ({why}). {}", self.left());
                Some((Urgency::Alert, text))
            }
            _ => None,
        }
    }

    fn of_admin(&self) -> Option<(Urgency, String)> {
        let (name, via) = (self.name(), self.reason.via());
        let was = (self.before.admin.is_maintenance(), self.before.admin.is_drain());
        let is = (self.after.admin.is_maintenance(), self.after.admin.is_drain());
        let is_up = self.after.operational != OperationalState::Stopped;
        let word = if is_up { "UP" } else { "DOWN" };
        let forced = if via.is_empty() { "forced " } else { "" };
        if let Some(line) = self.of_resolution(was.0, is) {
            return Some(line);
        }
        Some(match (was, is) {
            ((false, _), (true, _)) if self.before.operational == OperationalState::Stopped => {
                (Urgency::Notice, format!("{name} was DOWN and now enters maintenance{via}."))
            }
            ((false, draining), (true, _)) => {
                let urgency = if draining { Urgency::Notice } else { Urgency::Alert };
                (urgency, format!("{name} is going DOWN for maintenance{via}. {}", self.left()))
            }
            ((true, _), (false, true)) => {
                (Urgency::Notice, format!("{name} is {word}/DRAIN (leaving {forced}maintenance)."))
            }
            ((true, _), (false, false)) => {
                (Urgency::Notice, format!("{name} is {word}/READY (leaving {forced}maintenance)."))
            }
            ((false, false), (false, true)) => {
                let rest = if is_up { self.online() } else { self.left() };
                (Urgency::Notice, format!("{name} enters drain state{via}. {rest}"))
            }
            ((false, true), (false, false)) => {
                (Urgency::Notice, format!("{name} is {word} (leaving {forced}drain)."))
            }
            _ => return None,
        })
    }
}

/// The line of `option log-health-checks` for a check.
pub(crate) fn check_line(
    backend: &str,
    server: &Server,
    kind: CheckKind,
    check: &ServerCheck,
    finding: &CheckFinding,
) -> String {
    let what = match kind {
        CheckKind::Health => "Health",
        CheckKind::Agent => "Agent",
    };
    let backup = if server.settings().backup { "backup " } else { "" };
    let outcome = match finding.result() {
        CheckResult::Passed => "succeeded",
        CheckResult::ConditionallyPassed => "conditionally succeeded",
        _ => "failed",
    };
    let (step, steps, is_up) = check.progress();
    let word = match is_up {
        true if server.user_weight() == 0 => "DRAIN",
        true => "UP",
        false => "DOWN",
    };
    let (name, reason) = (server.name(), finding.reason());
    format!(
        "{what} check for {backup}server {backend}/{name} {outcome}{reason}, status: {step}/{steps} {word}."
    )
}
