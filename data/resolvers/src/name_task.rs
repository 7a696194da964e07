//! The task of a name: it resolves the name, updates the servers, sleeps, and repeats.

use std::net::IpAddr;
use std::sync::Arc;

use weir_backend::{AdminState, Backend, BackendNews, Reason, ServerChange, ServerKey};
use weir_dns::{Answer, Name, RecordKind};
use weir_sched::{Class, Tick, WorkKind, caught, now, sleep_until, wait};

use crate::course::{Course, CourseStep, ResolutionFailure};
use crate::exchange;
use crate::followers::{FollowerLookup, NameFollower};
use crate::section::{Families, QueryResult, RenameError, ResolveQuestion, ResolversSection};

/// All sections of a process.
pub struct Resolvers {
    sections: Vec<Arc<ResolversSection>>,
    /// Callback for changes of servers.
    report: Box<dyn Fn(BackendNews) + Send + Sync>,
}

impl Resolvers {
    /// Sections that are not started yet. `report` receives the changes of servers.
    #[must_use]
    pub fn new(sections: Vec<ResolversSection>, report: Box<dyn Fn(BackendNews) + Send + Sync>) -> Self {
        Resolvers { sections: sections.into_iter().map(Arc::new).collect(), report }
    }

    /// The sections, in the order of the configuration.
    #[must_use]
    pub fn sections(&self) -> &[Arc<ResolversSection>] {
        &self.sections
    }

    /// The follower of a server, if the server follows a name.
    #[must_use]
    pub fn follower(&self, backend: &Arc<Backend>, server: ServerKey) -> Option<NameFollower> {
        self.sections.iter().find_map(|section| section.follower(backend, server))
    }

    /// Makes a server follow another name (`set server fqdn`). Returns the previous name.
    ///
    /// # Errors
    /// If no section resolves the server, or its host comes from a service.
    pub fn rename(
        self: &Arc<Self>,
        backend: &Arc<Backend>,
        server: ServerKey,
        name: &Name,
    ) -> Result<Option<Name>, RenameError> {
        let found = self
            .sections
            .iter()
            .enumerate()
            .find_map(|(index, section)| Some((index, section.rename(backend, server, name)?)));
        let (index, former) = found.ok_or(RenameError::NotResolved)?;
        let former = former?;
        let change = ServerChange::Admin { set: AdminState::FQDN_CHANGED, clear: AdminState::READY };
        if let Ok(news) = backend.change_for(server, change, Reason::Operator, now().as_ms()) {
            (self.report)(news);
        }
        // The tasks of a section run on the worker that writes its counters. If that worker has ended, nothing is
        // queried.
        let home = index % weir_sched::worker_count().max(1);
        let resolvers = Arc::clone(self);
        let _ = weir_sched::send_to(home, move || {
            if let Some(section) = resolvers.sections.get(index) {
                resolvers.keep_all(section);
            }
        });
        Ok(former)
    }

    /// Resolves a name in a section (`do-resolve`). The current task is woken when the answer is known.
    #[must_use]
    pub fn look_up(self: &Arc<Self>, section: &str, name: Name, prefers_ipv4: bool) -> ResolveReply {
        let found = self.sections.iter().position(|known| *known.settings.name == *section);
        let Some((index, section)) = found.and_then(|index| Some((index, self.sections.get(index)?))) else {
            return ResolveReply::Known(None);
        };
        let lookup =
            FollowerLookup { name, first: if prefers_ipv4 { RecordKind::A } else { RecordKind::Aaaa } };
        let settings = &section.settings;
        // Two queries per round, plus time in the queue.
        let limit_ms = settings.retry_ms.saturating_mul(2).saturating_mul(settings.retries.into()) + QUEUE_MS;
        match section.look_up(&lookup, weir_sched::current(), now().as_ms()) {
            QueryResult::Known(address) => ResolveReply::Known(address),
            QueryResult::Later(question) => ResolveReply::Later { question, limit_ms },
            QueryResult::Begin(question) => {
                let home = index % weir_sched::worker_count().max(1);
                let (resolvers, section) = (Arc::clone(self), Arc::clone(section));
                let begin = move || {
                    weir_sched::spawn(&NAME, Class::Normal, resolvers.keep(section, lookup));
                };
                match weir_sched::send_to(home, begin) {
                    Ok(()) => ResolveReply::Later { question, limit_ms },
                    Err(_) => ResolveReply::Known(None),
                }
            }
        }
    }

    /// Starts the tasks of the sections of the current worker. Call it once on each worker.
    pub fn start(self: &Arc<Self>) {
        let (worker, workers) = (weir_sched::worker_index(), weir_sched::worker_count().max(1));
        for section in self.sections.iter().skip(worker).step_by(workers) {
            self.keep_all(section);
        }
    }

    /// Starts tasks for the followed names of a section that lack one.
    fn keep_all(self: &Arc<Self>, section: &Arc<ResolversSection>) {
        for lookup in section.unkept() {
            weir_sched::spawn(&NAME, Class::Normal, Arc::clone(self).keep(Arc::clone(section), lookup));
        }
    }

    /// Resolves a name repeatedly while it is needed.
    async fn keep(self: Arc<Self>, section: Arc<ResolversSection>, lookup: FollowerLookup) {
        section.keep(&lookup, weir_sched::current());
        while section.is_kept(&lookup) {
            // A panic ends one resolution, not the task.
            let outcome = caught(in_turn(&section, &lookup)).await.unwrap_or(Err(ResolutionFailure::NotSent));
            for news in section.conclude(&lookup, outcome, now().as_ms()) {
                (self.report)(news);
            }
            self.keep_all(&section);
            let concluded_ms = now().as_ms();
            while now().as_ms() < section.rests_until(&lookup, concluded_ms) {
                wait(Tick::from_ms(section.rests_until(&lookup, concluded_ms))).await;
            }
        }
    }
}

/// The result of a question.
#[derive(Debug)]
pub enum ResolveReply {
    /// The answer is known: an address or none.
    Known(Option<IpAddr>),
    /// The name is being resolved.
    Later {
        /// The pending question, which receives the answer.
        question: Arc<ResolveQuestion>,
        /// The longest wait for the answer, in milliseconds.
        limit_ms: u64,
    },
}

/// Longest time of a query in the queue before it is sent, in milliseconds.
const QUEUE_MS: u64 = 5_000;

impl std::fmt::Debug for Resolvers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Resolvers").field("sections", &self.sections).finish_non_exhaustive()
    }
}

/// Waits for a turn and resolves a name.
async fn in_turn(
    section: &Arc<ResolversSection>,
    lookup: &FollowerLookup,
) -> Result<(Answer, usize), ResolutionFailure> {
    // Always `Some`, because the wait does not have a deadline.
    let _turn = section.turns.turn(Tick::NEVER).await;
    resolve(section, lookup).await
}

/// Resolves a name. Returns the answer and the index of its name server.
async fn resolve(
    section: &Arc<ResolversSection>,
    lookup: &FollowerLookup,
) -> Result<(Answer, usize), ResolutionFailure> {
    let (first, other) = kinds(lookup.first, section.families, routes_ipv6);
    let mut course = Course::new(first, other, section.settings.retries);
    let mut kind = course.first();
    let mut round = now().after(section.settings.retry_ms);
    loop {
        let failure = match exchange::query(section, &lookup.name, kind).await {
            Ok(found) => return Ok(found),
            Err(failure) => failure,
        };
        match course.failed(failure) {
            CourseStep::Query(next) => kind = next,
            CourseStep::QueryLater(next) => {
                sleep_until(round).await;
                kind = next;
                round = now().after(section.settings.retry_ms);
            }
            CourseStep::Fail(failure) => return Err(failure),
        }
    }
}

/// The record types to query, first and second, restricted to the configured families.
fn kinds(
    first: RecordKind,
    families: Families,
    routes_ipv6: impl Fn() -> bool,
) -> (RecordKind, Option<RecordKind>) {
    let other = match first {
        RecordKind::A => RecordKind::Aaaa,
        RecordKind::Aaaa => RecordKind::A,
        RecordKind::Srv => return (RecordKind::Srv, None),
    };
    let ipv6 = families.ipv6 || (families.ipv6_if_routed && routes_ipv6());
    match (families.ipv4, ipv6) {
        (true, false) => (RecordKind::A, None),
        (false, true) => (RecordKind::Aaaa, None),
        _ => (first, Some(other)),
    }
}

/// Whether the system has a route for IPv6.
fn routes_ipv6() -> bool {
    // An address of the documentation network (RFC 3849). No packet is sent.
    let outside = std::net::SocketAddr::from((std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 53));
    weir_net::Datagram::to(outside).is_ok()
}

static NAME: WorkKind = WorkKind::new("resolution");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disabled_address_families_are_not_queried() {
        let families = |ipv4, ipv6, ipv6_if_routed| Families { ipv4, ipv6, ipv6_if_routed };
        let of = |first, families, routed: bool| kinds(first, families, || routed);
        assert_eq!(
            of(RecordKind::A, families(true, true, false), false),
            (RecordKind::A, Some(RecordKind::Aaaa))
        );
        assert_eq!(
            of(RecordKind::Aaaa, families(true, true, false), false),
            (RecordKind::Aaaa, Some(RecordKind::A))
        );
        assert_eq!(of(RecordKind::Aaaa, families(true, false, false), true), (RecordKind::A, None));
        assert_eq!(of(RecordKind::A, families(false, true, false), true), (RecordKind::Aaaa, None));
        assert_eq!(of(RecordKind::Aaaa, families(true, false, true), false), (RecordKind::A, None));
        assert_eq!(
            of(RecordKind::Aaaa, families(true, false, true), true),
            (RecordKind::Aaaa, Some(RecordKind::A))
        );
        assert_eq!(of(RecordKind::Srv, families(true, false, false), true), (RecordKind::Srv, None));
    }
}
