//! Lists registered descriptors. Each worker describes its own, a few at a time, at the request of the session's worker.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use weir_cli::target::{DescriptorRole, DescriptorTarget, DescriptorView, ListPosition, NextDescriptor};
use weir_sched::TaskKey;
use weir_stream::instance::{Instance, Proxy};
use weir_sys::Address;

use super::LiveTarget;
use super::session_target::{Mailbox, backend_of, server_of};

/// A listing in progress: worker by worker, in batches of slots of the worker's table.
pub(super) struct Descriptors {
    instance: Arc<Instance>,
    worker: usize,
    /// First slot of the next batch.
    from: usize,
    batch: VecDeque<DescriptorView>,
    requested: Option<Mailbox<DescriptorBatch>>,
}

/// The views of a batch, and the next slot. `None` after the last batch.
type DescriptorBatch = (Vec<DescriptorView>, Option<usize>);

impl Descriptors {
    fn next(&mut self, task: TaskKey) -> NextDescriptor {
        loop {
            if let Some(view) = self.batch.pop_front() {
                return NextDescriptor::Descriptor(Box::new(view));
            }
            let from = self.from;
            if let Some(mailbox) = &self.requested {
                let Some(batch) = mailbox.take() else { return NextDescriptor::Pending };
                self.requested = None;
                self.accept(batch);
            } else if self.worker >= weir_sched::worker_count() {
                return NextDescriptor::None;
            } else if self.worker == weir_sched::worker_index() {
                self.accept(describe(&self.instance, from));
            } else {
                let instance = Arc::clone(&self.instance);
                self.requested = Mailbox::request(self.worker, task, move || describe(&instance, from));
                if self.requested.is_none() {
                    self.accept((Vec::new(), None));
                }
            }
        }
    }

    fn accept(&mut self, (views, next): DescriptorBatch) {
        self.batch = views.into();
        (self.worker, self.from) = match next {
            Some(next) => (self.worker, next),
            None => (self.worker + 1, 0),
        };
    }
}

impl DescriptorTarget for LiveTarget {
    fn next_descriptor(&mut self, place: &mut ListPosition) -> NextDescriptor {
        if *place == 0 {
            let instance = Arc::clone(&self.live.instance);
            self.descriptors =
                Some(Descriptors { instance, worker: 0, from: 0, batch: VecDeque::new(), requested: None });
            *place = 1;
        }
        let Some(descriptors) = &mut self.descriptors else { return NextDescriptor::None };
        let next = descriptors.next(self.task);
        if next == NextDescriptor::None {
            self.descriptors = None;
        }
        next
    }
}

/// Describes the current worker's descriptors, from this slot on.
fn describe(instance: &Instance, from: usize) -> DescriptorBatch {
    let (found, next) = weir_sched::registered(from, BATCH);
    // Put only the owners of this batch into maps: there may be thousands of other sessions.
    let numbers: HashSet<i32> = found.iter().map(|one| one.number).collect();
    let sessions = weir_stream::worker::sessions();
    let clients: HashMap<i32, &str> = sessions
        .iter()
        .filter(|session| numbers.contains(&session.descriptor))
        .map(|session| (session.descriptor, session.frontend().name()))
        .collect();
    let streams = weir_stream::entry::streams();
    let mut servers: HashMap<i32, usize> = HashMap::new();
    let mut carried: HashMap<i32, u32> = HashMap::new();
    for (at, stream) in streams.iter().enumerate() {
        let server = stream.entry.server_descriptor.get();
        if numbers.contains(&server) {
            servers.insert(server, at);
        }
        for number in
            [server, stream.session.descriptor].into_iter().filter(|number| numbers.contains(number))
        {
            *carried.entry(number).or_default() += 1;
        }
    }
    let views = found.into_iter().map(|one| {
        let stream = servers.get(&one.number).map(|at| &streams[*at]);
        let client = clients.get(&one.number).copied();
        let role = match one.kind {
            _ if one.listens => DescriptorRole::Listener,
            _ if client.is_some() => DescriptorRole::Client,
            _ if stream.is_some() => DescriptorRole::Server,
            Some("server connection" | "idle connections") if one.peer.is_some() => DescriptorRole::Server,
            _ => DescriptorRole::Other,
        };
        let listener =
            || Some(listener_at(instance, one.local.as_ref().filter(|_| one.listens)?)?.to_owned());
        let of_stream = stream.map(|stream| stream.session.frontend().name());
        DescriptorView {
            number: one.number,
            worker: weir_sched::worker_index() as u32 + 1,
            role,
            owner: if one.kind.is_some() { one.owner.to_bits() } else { 0 },
            kind: one.kind,
            is_readable: one.is_readable,
            is_writable: one.is_writable,
            peer_closed: one.peer_closed,
            is_hung_up: one.is_hung_up,
            has_error: one.has_error,
            frontend: client.or(of_stream).map(str::to_owned).or_else(listener),
            backend: stream.and_then(|stream| backend_of(instance, stream)).map(str::to_owned),
            server: stream.and_then(|stream| server_of(instance, stream)),
            streams: matches!(role, DescriptorRole::Client | DescriptorRole::Server)
                .then(|| carried.get(&one.number).copied().unwrap_or(0)),
            local: one.local.as_ref().map(Address::to_string),
            peer: one.peer.as_ref().map(Address::to_string),
        }
    });
    (views.collect(), next)
}

/// The name of the frontend that listens on this address.
fn listener_at<'i>(instance: &'i Instance, address: &Address) -> Option<&'i str> {
    let listens = |proxy: &&Proxy| proxy.listeners.iter().any(|one| one.address.as_ref() == Some(address));
    instance.proxies.iter().find(listens).map(|proxy| proxy.name())
}

/// Number of slots per batch. Each costs three system calls, during which other tasks wait.
const BATCH: usize = 64;
