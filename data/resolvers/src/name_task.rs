//! The life of a name: it is asked for, servers follow, it rests, and is asked for again.

use std::net::IpAddr;
use std::sync::Arc;

use weir_backend::{AdminState, Backend, Change, News, Reason, ServerKey};
use weir_dns::{Answer, Kind, Name};
use weir_sched::{Class, Kind as TaskKind, Tick, caught, now, sleep_until, wait};

use crate::course::{Course, Failure, Next};
use crate::exchange;
use crate::followers::{Follower, Wanted};
use crate::section::{Asked, Families, Question, Section};

/// All sections of a process.
pub struct Resolvers {
    sections: Vec<Section>,
    /// Hears what became of servers.
    tell: Box<dyn Fn(News) + Send + Sync>,
}

impl Resolvers {
    /// Sections that nobody started yet. `tell` hears what becomes of servers.
    #[must_use]
    pub fn new(sections: Vec<Section>, tell: Box<dyn Fn(News) + Send + Sync>) -> Self {
        Resolvers { sections, tell }
    }

    /// The sections, in the order of the configuration.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// What a server follows, if it follows anything.
    #[must_use]
    pub fn follower(&self, backend: &Arc<Backend>, server: ServerKey) -> Option<Follower> {
        self.sections.iter().find_map(|section| section.follower(backend, server))
    }

    /// Has a server follow another name from now on (`set server fqdn`). Gives the name that it followed before.
    ///
    /// # Errors
    /// When no section resolves the server.
    pub fn rename(
        &'static self,
        backend: &Arc<Backend>,
        server: ServerKey,
        name: &Name,
    ) -> Result<Option<Name>, NotResolved> {
        let found = self
            .sections
            .iter()
            .enumerate()
            .find_map(|(index, section)| Some((index, section.rename(backend, server, name)?)));
        let Some((index, former)) = found else { return Err(NotResolved) };
        let change = Change::Admin { set: AdminState::FQDN_CHANGED, clear: AdminState::READY };
        if let Ok(news) = backend.change_for(server, change, Reason::Operator, now().as_ms()) {
            (self.tell)(news);
        }
        // The tasks of a section run where its counters are written. A worker that is gone asks nobody any more.
        let home = index % weir_sched::worker_count().max(1);
        let _ = weir_sched::send_to(home, move || {
            if let Some(section) = self.sections.get(index) {
                self.keep_all(section);
            }
        });
        Ok(former)
    }

    /// Asks a section for the address of a name (`do-resolve`). The current task is woken once there is an answer.
    #[must_use]
    pub fn ask(&'static self, section: &str, name: Name, prefers_ipv4: bool) -> Reply {
        let found = self.sections.iter().position(|known| *known.settings.name == *section);
        let Some((index, section)) = found.and_then(|index| Some((index, self.sections.get(index)?))) else {
            return Reply::Known(None);
        };
        let wanted = Wanted { name, first: if prefers_ipv4 { Kind::A } else { Kind::Aaaa } };
        let settings = &section.settings;
        // Two questions a round, and some time in the queue.
        let limit_ms = settings.retry_ms.saturating_mul(2).saturating_mul(settings.retries.into()) + QUEUE_MS;
        match section.ask(&wanted, weir_sched::current(), now().as_ms()) {
            Asked::Known(address) => Reply::Known(address),
            Asked::Later(question) => Reply::Later { question, limit_ms },
            Asked::Begin(question) => {
                let home = index % weir_sched::worker_count().max(1);
                let begin = move || {
                    weir_sched::spawn(&NAME, Class::Normal, self.keep(section, wanted));
                };
                match weir_sched::send_to(home, begin) {
                    Ok(()) => Reply::Later { question, limit_ms },
                    Err(_) => Reply::Known(None),
                }
            }
        }
    }

    /// Starts what is to be asked on the current worker. To be called once on each.
    pub fn start(&'static self) {
        let (worker, workers) = (weir_sched::worker_index(), weir_sched::worker_count().max(1));
        for section in self.sections.iter().skip(worker).step_by(workers) {
            self.keep_all(section);
        }
    }

    /// Has tasks keep the names that servers of a section follow and nobody keeps.
    fn keep_all(&'static self, section: &'static Section) {
        for wanted in section.unkept() {
            weir_sched::spawn(&NAME, Class::Normal, self.keep(section, wanted));
        }
    }

    /// Asks for a name as long as somebody follows it.
    async fn keep(&'static self, section: &'static Section, wanted: Wanted) {
        section.keep(&wanted, weir_sched::current());
        while section.is_kept(&wanted) {
            // A panic ends one resolution, and not what keeps the name.
            let outcome = caught(in_turn(section, &wanted)).await.unwrap_or(Err(Failure::NotAsked));
            for news in section.conclude(&wanted, outcome, now().as_ms()) {
                (self.tell)(news);
            }
            self.keep_all(section);
            let concluded_ms = now().as_ms();
            while now().as_ms() < section.rests_until(&wanted, concluded_ms) {
                wait(Tick::from_ms(section.rests_until(&wanted, concluded_ms))).await;
            }
        }
    }
}

/// What comes of a question.
#[derive(Debug)]
pub enum Reply {
    /// The address, or none.
    Known(Option<IpAddr>),
    /// It is asked for.
    Later {
        /// Where the answer will be.
        question: Arc<Question>,
        /// How long it takes at most, in milliseconds.
        limit_ms: u64,
    },
}

/// How long a question may wait before name servers are asked, in milliseconds.
const QUEUE_MS: u64 = 5_000;

/// No section resolves the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotResolved;

impl std::fmt::Debug for Resolvers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Resolvers").field("sections", &self.sections).finish_non_exhaustive()
    }
}

/// Resolves a name when it is its turn.
async fn in_turn(section: &'static Section, wanted: &Wanted) -> Result<(Answer, usize), Failure> {
    // Without a deadline there is one.
    let _turn = section.turns.turn(Tick::NEVER).await;
    resolve(section, wanted).await
}

/// Resolves a name: the answer, and which name server gave it.
async fn resolve(section: &'static Section, wanted: &Wanted) -> Result<(Answer, usize), Failure> {
    let (first, other) = kinds(wanted.first, section.families, routes_ipv6);
    let mut course = Course::new(first, other, section.settings.retries);
    let mut kind = course.first();
    let mut round = now().after(section.settings.retry_ms);
    loop {
        let failure = match exchange::ask(section, &wanted.name, kind).await {
            Ok(found) => return Ok(found),
            Err(failure) => failure,
        };
        match course.failed(failure) {
            Next::Ask(next) => kind = next,
            Next::AskLater(next) => {
                sleep_until(round).await;
                kind = next;
                round = now().after(section.settings.retry_ms);
            }
            Next::Fail(failure) => return Err(failure),
        }
    }
}

/// What is asked for first, and then, where not all families are wanted.
fn kinds(first: Kind, families: Families, routes_ipv6: impl Fn() -> bool) -> (Kind, Option<Kind>) {
    let other = match first {
        Kind::A => Kind::Aaaa,
        Kind::Aaaa => Kind::A,
        Kind::Srv => return (Kind::Srv, None),
    };
    let ipv6 = families.ipv6 || (families.ipv6_if_routed && routes_ipv6());
    match (families.ipv4, ipv6) {
        (true, false) => (Kind::A, None),
        (false, true) => (Kind::Aaaa, None),
        _ => (first, Some(other)),
    }
}

/// Whether the system has a route for IPv6.
fn routes_ipv6() -> bool {
    // An address of a documentation network (RFC 3849): nothing is sent.
    let outside = std::net::SocketAddr::from((std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 53));
    weir_net::Datagram::to(outside).is_ok()
}

static NAME: TaskKind = TaskKind::new("resolution");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_that_are_not_wanted_are_not_asked_for() {
        let families = |ipv4, ipv6, ipv6_if_routed| Families { ipv4, ipv6, ipv6_if_routed };
        let of = |first, families, routed: bool| kinds(first, families, || routed);
        assert_eq!(of(Kind::A, families(true, true, false), false), (Kind::A, Some(Kind::Aaaa)));
        assert_eq!(of(Kind::Aaaa, families(true, true, false), false), (Kind::Aaaa, Some(Kind::A)));
        assert_eq!(of(Kind::Aaaa, families(true, false, false), true), (Kind::A, None));
        assert_eq!(of(Kind::A, families(false, true, false), true), (Kind::Aaaa, None));
        assert_eq!(of(Kind::Aaaa, families(true, false, true), false), (Kind::A, None));
        assert_eq!(of(Kind::Aaaa, families(true, false, true), true), (Kind::Aaaa, Some(Kind::A)));
        assert_eq!(of(Kind::Srv, families(true, false, false), true), (Kind::Srv, None));
    }
}
