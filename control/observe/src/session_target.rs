//! Lists and kills streams. Each worker lists its own streams, at the request of the session's worker.
//!
//! ```text
//!  session's worker                      other worker
//!   next_session ──── send_to ──────────► a batch of views
//!    Pending ◄─────── wake ────────────── into the mailbox
//!   next_session ──► the first of them ...
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use weir_backend::ServerKey;
use weir_cli::target::{
    ListPosition, NextSession, SessionFilter, SessionTarget, SessionView, Shutdown as ShutdownAnswer,
};
use weir_logs::forward::Forward;
use weir_sched::TaskKey;
use weir_stream::ending::By;
use weir_stream::ending::During;
use weir_stream::entry::{ListedStream, StreamSide};
use weir_stream::instance::Instance;
use weir_sys::Address;

use super::{LiveTarget, names, now_ms, on_every_worker, operators};

/// A slot for another worker's reply.
pub(super) struct Mailbox<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> Mailbox<T> {
    /// Sends a query to a worker. Wakes `task` when the reply has arrived. `None` if the worker is unreachable.
    pub(super) fn request(
        worker: usize,
        task: TaskKey,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Self> {
        let mailbox = Arc::new(Mutex::new(None));
        let answer = Arc::clone(&mailbox);
        let sent = weir_sched::send_to(worker, move || {
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(question());
            weir_sched::wake(task);
        });
        sent.ok().map(|()| Mailbox(mailbox))
    }

    pub(super) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A listing in progress: worker by worker, in batches, sorted by stream number.
pub(super) struct SessionListing {
    query: SessionQuery,
    worker: usize,
    /// Index of the next ring forward.
    forward: usize,
    batch: VecDeque<SessionView>,
    requested: Option<Mailbox<Vec<SessionView>>>,
}

/// A query for the next sessions of one worker.
#[derive(Clone)]
struct SessionQuery {
    filter: Arc<SessionFilter>,
    instance: Arc<Instance>,
    /// Omits sessions that began later. Otherwise the listing of a busy worker might never end.
    until_ms: u64,
    /// Only sessions with a greater number.
    after: u64,
}

impl SessionListing {
    fn new(instance: Arc<Instance>, filter: &SessionFilter) -> Self {
        let query = SessionQuery { filter: Arc::new(filter.clone()), instance, until_ms: now_ms(), after: 0 };
        // The number of a stream contains its worker. Ring forwards are not in any worker's list.
        let worker = match filter.id {
            Some(id) if id & OF_A_RING != 0 => usize::MAX,
            Some(id) => worker_of(id),
            None => 0,
        };
        SessionListing { query, worker, forward: 0, batch: VecDeque::new(), requested: None }
    }

    fn next(&mut self, task: TaskKey, forwards: &[Arc<Forward>]) -> NextSession {
        loop {
            if let Some(view) = self.batch.pop_front() {
                return NextSession::Session(Box::new(view));
            }
            if let Some(mailbox) = &self.requested {
                let Some(batch) = mailbox.take() else { return NextSession::Pending };
                self.requested = None;
                self.accept(batch);
            } else if self.worker >= weir_sched::worker_count() {
                return self.next_forward(forwards);
            } else if self.worker == weir_sched::worker_index() {
                self.accept(self.query.run());
            } else {
                let query = self.query.clone();
                self.requested = Mailbox::request(self.worker, task, move || query.run());
                if self.requested.is_none() {
                    self.accept(Vec::new());
                }
            }
        }
    }

    /// The next connection of a ring to its server. Listed last, and readable on any worker.
    fn next_forward(&mut self, forwards: &[Arc<Forward>]) -> NextSession {
        while let Some(forward) = forwards.get(self.forward) {
            self.forward += 1;
            let view = forward_view(self.forward, forward);
            if let Some(view) = view.filter(|view| self.query.wants_forward(view)) {
                return NextSession::Session(Box::new(view));
            }
        }
        NextSession::None
    }

    /// Stores a batch. A batch that is not full is the worker's last.
    fn accept(&mut self, batch: Vec<SessionView>) {
        match batch.last().filter(|_| batch.len() == BATCH) {
            Some(last) => self.query.after = last.id,
            None if self.query.filter.id.is_some() => self.worker = usize::MAX,
            None => (self.worker, self.query.after) = (self.worker + 1, 0),
        }
        self.batch = batch.into();
    }
}

impl SessionQuery {
    /// The next sessions of the current worker.
    fn run(&self) -> Vec<SessionView> {
        let mut streams = weir_stream::entry::streams();
        streams.retain(|stream| self.wants(stream));
        streams.sort_unstable_by_key(|stream| stream.entry.id.get());
        let mut views: Vec<SessionView> =
            streams.iter().take(BATCH).map(|stream| view(&self.instance, stream, &self.filter)).collect();
        views.extend(operators::wanted(&self.filter, self.until_ms, self.after));
        views.sort_unstable_by_key(|view| view.id);
        views.truncate(BATCH);
        views
    }

    fn wants(&self, stream: &ListedStream) -> bool {
        let (view, filter) = (&stream.entry, &*self.filter);
        let id = view.id.get();
        let since_ms = view.since_ms.get();
        id > self.after
            && since_ms <= self.until_ms
            && filter.id.is_none_or(|wanted| wanted == id)
            && filter.older_ms.is_none_or(|age_ms| self.until_ms - since_ms >= age_ms)
            && filter.frontend.as_deref().is_none_or(|name| stream.session.frontend().name() == name)
            && filter.backend.as_deref().is_none_or(|name| backend_of(&self.instance, stream) == Some(name))
            && filter.server.as_deref().is_none_or(|wanted| {
                let names = backend_of(&self.instance, stream).zip(server_of(&self.instance, stream));
                names.is_some_and(|(backend, server)| wanted.split_once('/') == Some((backend, &*server)))
            })
    }

    fn wants_forward(&self, view: &SessionView) -> bool {
        let filter = &*self.filter;
        let names = view.backend.as_deref().zip(view.server.as_deref());
        filter.id.is_none_or(|wanted| wanted == view.id)
            && filter.older_ms.is_none_or(|age_ms| view.age_ms >= age_ms)
            && filter.frontend.as_deref().is_none_or(|name| view.frontend == name)
            && filter.backend.as_deref().is_none_or(|name| view.backend.as_deref() == Some(name))
            && filter.server.as_deref().is_none_or(|wanted| names == wanted.split_once('/'))
    }
}

/// The view of a ring forward, numbered from 1. `None` before it begins. As in HAProxy, the ring's name stands for both proxies.
fn forward_view(number: usize, forward: &Forward) -> Option<SessionView> {
    let seen = forward.conversation.seen()?;
    Some(SessionView {
        id: OF_A_RING | number as u64,
        number: 0,
        protocol: "?",
        source: None,
        frontend: forward.sink.name.to_string(),
        backend: Some(forward.sink.name.to_string()),
        server: Some(forward.server.to_string()),
        worker: seen.worker + 1,
        age_ms: now_ms().saturating_sub(seen.since_ms),
        calls: seen.calls,
        client_fd: None,
        server_fd: seen.descriptor,
        request_waiting: 0,
        response_waiting: 0,
        expires_ms: None,
        retries: seen.failures,
        request_line: None,
        streams: [None, None],
        phase: match seen.descriptor {
            Some(_) => "data",
            None if seen.paused => "pause",
            None => "connect",
        },
    })
}

pub(super) fn backend_of<'i>(instance: &'i Instance, stream: &ListedStream) -> Option<&'i str> {
    Some(instance.proxies.get(stream.entry.backend.get() as usize)?.name())
}

pub(super) fn server_of(instance: &Instance, stream: &ListedStream) -> Option<String> {
    let proxy = instance.proxies.get(stream.entry.backend.get() as usize)?;
    let server = proxy.backend.as_ref()?.server_at(stream.entry.server.get() as usize)?;
    Some(server.name().to_owned())
}

fn view(instance: &Instance, stream: &ListedStream, filter: &SessionFilter) -> SessionView {
    let ListedStream { session, entry: view } = stream;
    let descriptor = |number: i32| (number >= 0).then_some(number);
    let source = stream.source();
    SessionView {
        id: view.id.get(),
        number: view.id.get(),
        protocol: names::protocol(&session.connection_destination()),
        source: Some(match &*source {
            address @ Address::Inet(_) => address.to_string(),
            _ => format!("unix:{}", session.listener().id),
        }),
        frontend: session.frontend().name().to_owned(),
        backend: backend_of(instance, stream).map(str::to_owned),
        server: server_of(instance, stream),
        worker: weir_sched::worker_index() as u32 + 1,
        age_ms: now_ms().saturating_sub(view.since_ms.get()),
        calls: u64::from(view.calls.get()),
        client_fd: descriptor(session.descriptor),
        server_fd: descriptor(view.server_descriptor.get()),
        request_waiting: 0,
        response_waiting: 0,
        expires_ms: stream.deadline().map(|at| at.since(weir_sched::now())),
        retries: u32::from(view.retries.get()),
        request_line: filter
            .with_request_line
            .then(|| view.request_line())
            .filter(|line| !line.is_empty())
            .map(|line| String::from_utf8_lossy(&line).into_owned()),
        streams: match filter.with_streams {
            true => [StreamSide::Client, StreamSide::Server].map(|side| view.describe(side)),
            false => [None, None],
        },
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

/// The worker that owns a stream (see `weir_stream::worker`).
fn worker_of(id: u64) -> usize {
    (id % weir_sched::worker_count().max(1) as u64) as usize
}

/// The shutdown of a session on another worker, in progress.
pub(super) struct Shutdown {
    id: u64,
    found: Mailbox<bool>,
}

impl SessionTarget for LiveTarget {
    fn next_session(&mut self, filter: &SessionFilter, place: &mut ListPosition) -> NextSession {
        if *place == 0 {
            self.listing = Some(SessionListing::new(Arc::clone(&self.live.instance), filter));
            *place = 1;
        }
        let Some(listing) = &mut self.listing else { return NextSession::None };
        let next = listing.next(self.task, &self.live.record.events.forwards);
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
        if id & OF_A_RING != 0 {
            let number = (id & !OF_A_RING) as usize;
            let forwards = &self.live.record.events.forwards;
            let forward = number.checked_sub(1).and_then(|index| forwards.get(index));
            return done(forward.is_some_and(|forward| forward.conversation.end()));
        }
        let worker = worker_of(id);
        if worker == weir_sched::worker_index() {
            return done(end_session(id));
        }
        match Mailbox::request(worker, self.task, move || end_session(id)) {
            Some(found) => {
                self.shutdown = Some(Shutdown { id, found });
                ShutdownAnswer::Pending
            }
            None => ShutdownAnswer::NotFound,
        }
    }
}

/// Kills the session with this stream on the current worker. Returns whether it existed.
fn end_session(id: u64) -> bool {
    weir_stream::entry::end_streams(By::Killed, |stream| stream.entry.id.get() == id) > 0
        || operators::end(id)
}

/// Kills all sessions on a server, on every worker.
pub(super) fn shutdown_on_server(proxy: usize, server: ServerKey, by: By) {
    let end_all = move || {
        weir_stream::entry::end_streams(by, |stream| {
            let view = &stream.entry;
            view.backend.get() as usize == proxy && view.server.get() as usize == server.index()
        });
    };
    on_every_worker(end_all);
}

/// This bit marks the identifiers of ring forwards. Stream identifiers count from 1.
const OF_A_RING: u64 = 1 << 63;
/// Sessions per batch. Limits the time for which a worker is busy.
const BATCH: usize = 256;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::fixture::{CONFIGURATION, live};
    use super::*;
    use weir_sched::{Class, Runtime, RuntimeSettings, Tick, WorkKind, wait};

    static TEST: WorkKind = WorkKind::new("test");

    /// Runs `test` in a task of the first of two workers.
    fn on_two_workers<T: Send + 'static, F: Future<Output = T> + 'static>(test: fn() -> F) -> T {
        let (sender, receiver) = mpsc::channel();
        let settings = RuntimeSettings { threads: 2, ..RuntimeSettings::default() };
        let runtime = Runtime::start(&settings, move |worker| {
            let sender = sender.clone();
            if worker == 0 {
                weir_sched::spawn(&TEST, Class::Normal, async move {
                    // Fails only if the test has already failed.
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
    fn show_sess_ends_when_every_worker_has_answered() {
        let last = on_two_workers(|| async {
            let mut target = LiveTarget::new(&live(CONFIGURATION), weir_sched::current());
            let mut place = 0;
            loop {
                match target.next_session(&SessionFilter::default(), &mut place) {
                    // If the other worker is fast, this case does not occur.
                    NextSession::Pending => _ = wait(Tick::NEVER).await,
                    last => return last,
                }
            }
        });
        assert_eq!(last, NextSession::None);
    }

    #[test]
    fn shutdown_session_asks_every_worker_before_it_reports_not_found() {
        let answers = on_two_workers(|| async {
            let mut target = LiveTarget::new(&live(CONFIGURATION), weir_sched::current());
            let mut answers = Vec::new();
            for id in [4, 5] {
                let mut was_pending = false;
                loop {
                    match target.shutdown_session(id) {
                        ShutdownAnswer::Pending => {
                            was_pending = true;
                            wait(Tick::NEVER).await;
                        }
                        answer => break answers.push((was_pending, answer)),
                    }
                }
            }
            answers
        });
        assert_eq!(answers, [(false, ShutdownAnswer::NotFound), (true, ShutdownAnswer::NotFound)]);
    }

    /// A ring's connection to its server appears as a session without a client.
    #[test]
    fn show_sess_lists_ring_connections_and_shutdown_session_ends_them() {
        const RING: &str = "ring one\n server a 127.0.0.1:1\nring two\n server b 127.0.0.1:1\n";
        let listed = on_two_workers(|| async {
            let live = live(RING);
            let list = async |filter: &SessionFilter| {
                let mut target = LiveTarget::new(&live, weir_sched::current());
                let (mut place, mut listed) = (0, Vec::new());
                loop {
                    match target.next_session(filter, &mut place) {
                        NextSession::Session(view) => listed.push(*view),
                        NextSession::Pending => _ = wait(Tick::NEVER).await,
                        NextSession::None => break listed,
                    }
                }
            };
            let all = SessionFilter::default();
            let none = list(&all).await;
            let lasting = live.record.events.forwards[1].conversation.begin();
            let one = list(&all).await;
            let of = |server: &str| SessionFilter { server: Some(server.into()), ..SessionFilter::default() };
            let filtered = [
                list(&of("two/b")).await.len(),
                list(&of("two/a")).await.len(),
                list(&SessionFilter { id: Some(one[0].id), ..SessionFilter::default() }).await.len(),
                list(&SessionFilter { id: Some(one[0].id + 1), ..SessionFilter::default() }).await.len(),
                list(&SessionFilter { older_ms: Some(9_000), ..SessionFilter::default() }).await.len(),
            ];
            let mut target = LiveTarget::new(&live, weir_sched::current());
            let ends = [one[0].id, one[0].id - 1, one[0].id + 1].map(|id| target.shutdown_session(id));
            let goes_on = live.record.events.forwards[1].conversation.goes_on();
            drop(lasting);
            (none, one, filtered, ends, goes_on, list(&all).await[0].phase)
        });
        let (none, one, filtered, ends, goes_on, late) = listed;
        assert!(none.is_empty() && one.len() == 1);
        assert_eq!((one[0].protocol, &one[0].source, &*one[0].frontend), ("?", &None, "two"));
        assert_eq!((one[0].server.as_deref(), one[0].phase), (Some("b"), "connect"));
        assert_eq!(filtered, [1, 0, 1, 0, 0]);
        use ShutdownAnswer::{Done, NotFound};
        assert_eq!(ends, [Done, NotFound, NotFound]);
        assert_eq!((goes_on, late), (false, "pause"));
    }
}
