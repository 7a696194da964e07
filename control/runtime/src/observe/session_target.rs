//! Sessions: each worker knows its own, so the others are asked.
//!
//! ```text
//!  session's worker                      other worker
//!   next_session ──── send_to ──────────► a batch of views
//!    Pending ◄─────── wake ────────────── into the mailbox
//!   next_session ──► the first of them ...
//! ```

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use weir_backend::ServerKey;
use weir_cli::target::{
    NextSession, Place, SessionFilter, SessionTarget, SessionView, Shutdown as ShutdownAnswer,
};
use weir_sched::TaskKey;
use weir_stream::ending::During;
use weir_stream::session::Session;
use weir_stream::site::Site;
use weir_sys::Address;

use super::{LiveTarget, names, now_ms, on_every_worker};

/// What another worker answers, once it has.
struct Mailbox<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> Mailbox<T> {
    /// Asks a worker; `task` is woken when the answer is here. None when that worker cannot be reached.
    fn ask(worker: usize, task: TaskKey, question: impl FnOnce() -> T + Send + 'static) -> Option<Self> {
        let mailbox = Arc::new(Mutex::new(None));
        let answer = Arc::clone(&mailbox);
        let sent = weir_sched::send_to(worker, move || {
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(question());
            weir_sched::wake(task);
        });
        sent.ok().map(|()| Mailbox(mailbox))
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A listing of sessions in progress: worker by worker, each in batches, by number.
pub(super) struct Listing {
    query: Query,
    worker: usize,
    batch: VecDeque<SessionView>,
    asked: Option<Mailbox<Vec<SessionView>>>,
}

/// Which sessions of one worker are wanted next.
#[derive(Clone)]
struct Query {
    filter: Arc<SessionFilter>,
    site: &'static Site,
    /// Sessions that began later are left out, or a busy worker's listing would never end.
    until_ms: u64,
    /// Only those with a greater number.
    after: u64,
}

impl Listing {
    fn new(site: &'static Site, filter: &SessionFilter) -> Self {
        let query = Query { filter: Arc::new(filter.clone()), site, until_ms: now_ms(), after: 0 };
        // The number of a stream says which worker it is on.
        let worker = filter.id.map_or(0, worker_of);
        Listing { query, worker, batch: VecDeque::new(), asked: None }
    }

    fn next(&mut self, task: TaskKey) -> NextSession {
        loop {
            if let Some(view) = self.batch.pop_front() {
                return NextSession::Session(Box::new(view));
            }
            if let Some(mailbox) = &self.asked {
                let Some(batch) = mailbox.take() else { return NextSession::Pending };
                self.asked = None;
                self.accept(batch);
            } else if self.worker >= weir_sched::worker_count() {
                return NextSession::None;
            } else if self.worker == weir_sched::worker_index() {
                self.accept(self.query.run());
            } else {
                let query = self.query.clone();
                self.asked = Mailbox::ask(self.worker, task, move || query.run());
                if self.asked.is_none() {
                    self.accept(Vec::new());
                }
            }
        }
    }

    /// Takes a batch; one that is not full was the worker's last.
    fn accept(&mut self, batch: Vec<SessionView>) {
        match batch.last().filter(|_| batch.len() == BATCH) {
            Some(last) => self.query.after = last.id,
            None if self.query.filter.id.is_some() => self.worker = usize::MAX,
            None => (self.worker, self.query.after) = (self.worker + 1, 0),
        }
        self.batch = batch.into();
    }
}

impl Query {
    /// The next sessions of the current worker.
    fn run(&self) -> Vec<SessionView> {
        let mut sessions = weir_stream::worker::sessions();
        sessions.retain(|session| self.wants(session));
        sessions.sort_unstable_by_key(|session| session.view.id.get());
        sessions.iter().take(BATCH).map(|session| view(self.site, session)).collect()
    }

    fn wants(&self, session: &Session) -> bool {
        let (view, filter) = (&session.view, &*self.filter);
        let id = view.id.get();
        let since_ms = view.since_ms.get();
        // A connection between two requests has no stream.
        id > self.after
            && since_ms <= self.until_ms
            && filter.id.is_none_or(|wanted| wanted == id)
            && filter.older_s.is_none_or(|age_s| self.until_ms - since_ms >= age_s.saturating_mul(1000))
            && filter.frontend.as_deref().is_none_or(|name| session.frontend.name() == name)
            && filter.backend.as_deref().is_none_or(|name| backend_of(self.site, session) == Some(name))
            && filter.server.as_deref().is_none_or(|wanted| {
                let names = backend_of(self.site, session).zip(server_of(self.site, session));
                names.is_some_and(|(backend, server)| wanted.split_once('/') == Some((backend, &*server)))
            })
    }
}

fn backend_of(site: &'static Site, session: &Session) -> Option<&'static str> {
    Some(site.proxies.get(session.view.backend.get() as usize)?.name())
}

fn server_of(site: &'static Site, session: &Session) -> Option<String> {
    let proxy = site.proxies.get(session.view.backend.get() as usize)?;
    let server = proxy.backend.as_ref()?.server_at(session.view.server.get() as usize)?;
    Some(server.name().to_owned())
}

fn view(site: &'static Site, session: &Session) -> SessionView {
    let view = &session.view;
    let descriptor = |number: i32| (number >= 0).then_some(number);
    let source = session.source();
    SessionView {
        id: view.id.get(),
        number: view.id.get(),
        protocol: names::protocol(&session.connection_destination()),
        source: match &*source {
            address @ Address::Inet(_) => address.to_string(),
            _ => format!("unix:{}", session.listener.id),
        },
        frontend: session.frontend.name().to_owned(),
        backend: backend_of(site, session).map(str::to_owned),
        server: server_of(site, session),
        worker: weir_sched::worker_index() as u32 + 1,
        age_s: now_ms().saturating_sub(view.since_ms.get()) / 1000,
        calls: u64::from(view.calls.get()),
        client_fd: descriptor(view.client_descriptor.get()),
        server_fd: descriptor(view.server_descriptor.get()),
        request_waiting: 0,
        response_waiting: 0,
        expires_ms: weir_sched::deadline(session.task.get()).map(|at| at.since(weir_sched::now())),
        retries: 0,
        phase: match view.phase.get() {
            During::End => "idle",
            During::Request => "request",
            During::Queue => "queue",
            During::Connect => "connect",
            During::Headers => "headers",
            During::Data => "data",
            During::Last => "last",
            During::Tarpit => "tarpit",
        },
    }
}

/// The worker that a stream is on (see `weir_stream::worker`).
fn worker_of(id: u64) -> usize {
    (id % weir_sched::worker_count().max(1) as u64) as usize
}

/// The end of a session that another worker was asked for.
pub(super) struct Shutdown {
    id: u64,
    found: Mailbox<bool>,
}

impl SessionTarget for LiveTarget {
    fn next_session(&mut self, filter: &SessionFilter, place: &mut Place) -> NextSession {
        if *place == 0 {
            self.listing = Some(Listing::new(self.live.site, filter));
            *place = 1;
        }
        let Some(listing) = &mut self.listing else { return NextSession::None };
        let next = listing.next(self.task);
        if next == NextSession::None {
            self.listing = None;
        }
        next
    }

    fn shutdown_session(&mut self, id: u64) -> ShutdownAnswer {
        let done = |found: bool| if found { ShutdownAnswer::Done } else { ShutdownAnswer::NotFound };
        if let Some(shutdown) = self.shutdown.take_if(|shutdown| shutdown.id == id) {
            return match shutdown.found.take() {
                Some(found) => done(found),
                None => {
                    self.shutdown = Some(shutdown);
                    ShutdownAnswer::Pending
                }
            };
        }
        let worker = worker_of(id);
        if worker == weir_sched::worker_index() {
            return done(end_session(id));
        }
        match Mailbox::ask(worker, self.task, move || end_session(id)) {
            Some(found) => {
                self.shutdown = Some(Shutdown { id, found });
                ShutdownAnswer::Pending
            }
            None => ShutdownAnswer::NotFound,
        }
    }
}

/// Ends the session of the current worker that has this stream.
fn end_session(id: u64) -> bool {
    let sessions = weir_stream::worker::sessions();
    let found = sessions.iter().find(|session| id != 0 && session.view.id.get() == id);
    found.is_some_and(|session| {
        end(session);
        true
    })
}

fn end(session: &Rc<Session>) {
    session.killed.set(true);
    weir_sched::wake(session.task.get());
}

/// Ends all sessions on a server, on every worker.
pub(super) fn shutdown_on_server(proxy: usize, server: ServerKey) {
    let end_all = move || {
        for session in weir_stream::worker::sessions() {
            let view = &session.view;
            let here = view.backend.get() as usize == proxy && view.server.get() as usize == server.index();
            if here && view.id.get() != 0 {
                end(&session);
            }
        }
    };
    on_every_worker(end_all);
}

/// So many sessions of a worker are described at once: a worker is not held for long, however many it has.
const BATCH: usize = 256;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::fixture::{CONFIGURATION, live};
    use super::*;
    use weir_sched::{Class, Kind, Runtime, Settings, Tick, wait};

    static TEST: Kind = Kind::new("test");

    /// Runs `test` in a task of the first of two workers.
    fn on_two_workers<T: Send + 'static, F: Future<Output = T> + 'static>(test: fn() -> F) -> T {
        let (sender, receiver) = mpsc::channel();
        let settings = Settings { threads: 2, ..Settings::default() };
        let runtime = Runtime::start(&settings, move |worker| {
            let sender = sender.clone();
            if worker == 0 {
                weir_sched::spawn(&TEST, Class::Normal, async move {
                    // Whoever waits for the answer is gone only if the test failed already.
                    let _ = sender.send(test().await);
                    weir_sched::stop();
                });
            }
        });
        let answer = receiver.recv().expect("the test ends");
        runtime.expect("two workers").join().expect("no worker panics");
        answer
    }

    #[test]
    fn a_listing_ends_when_every_worker_has_answered() {
        let last = on_two_workers(|| async {
            let mut target = LiveTarget::new(live(CONFIGURATION), weir_sched::current());
            let mut place = 0;
            loop {
                match target.next_session(&SessionFilter::default(), &mut place) {
                    // Not seen when the other worker is quick.
                    NextSession::Pending => _ = wait(Tick::NEVER).await,
                    last => return last,
                }
            }
        });
        assert_eq!(last, NextSession::None);
    }

    #[test]
    fn a_session_that_does_not_exist_is_not_found_wherever_it_would_be() {
        let answers = on_two_workers(|| async {
            let mut target = LiveTarget::new(live(CONFIGURATION), weir_sched::current());
            let mut answers = Vec::new();
            for id in [4, 5] {
                let mut asked = false;
                loop {
                    match target.shutdown_session(id) {
                        ShutdownAnswer::Pending => {
                            asked = true;
                            wait(Tick::NEVER).await;
                        }
                        answer => break answers.push((asked, answer)),
                    }
                }
            }
            answers
        });
        assert_eq!(answers, [(false, ShutdownAnswer::NotFound), (true, ShutdownAnswer::NotFound)]);
    }
}
