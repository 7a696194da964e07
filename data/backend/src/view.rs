//! Choosing without the lock: each worker's copy of the usable servers.
//!
//! While no member has a limit, no request waits, and a worker chooses by its own [`WorkerView`]: the members at its
//! last refresh, the turns that it draws (`rotation.rs`) and its own counts. After each change of the backend, the worker
//! takes the lock once to refresh the view. Every change raises the version, and this handshake with sequentially
//! consistent accesses makes sure that the worker misses no change:
//!
//! ```text
//!   a worker chooses                       a change, under the lock
//!   W1  the version is the view's          C1  states, then version += 1
//!   W2  its count of the server += 1       C2  reads the server's counts
//!   W3  the version is the view's still;
//!       else count -= 1, and refresh
//! ```
//!
//! Either W2 comes before what C2 reads, and the change sees the request; or C2 reads before W2, then C1 comes before
//! W3, and the worker takes its choice back. So a server that was announced as down gets no more requests, a server is
//! only removed when it serves none, and a new limit counts all current requests. `tests/queue_loom.rs` explores the
//! interleavings.

use std::sync::Arc;

use crate::balance::{BalanceRequest, Balancer, Members, Pick, UsableServers};
use crate::choice::ChooseInput;
use crate::lb_state::LbState;
use crate::lease::{Lease, ServerHandle};
use crate::rotation::Rotation;
use crate::server::Server;
use crate::server_key::ServerKey;
use crate::settings::MAXIMUM_WEIGHT;
use crate::shared::{BackendVersion, SharedBackend};

/// One worker's view of a backend.
pub(crate) struct WorkerView {
    worker: usize,
    /// Version of the backend state in this view. 0 before the first refresh.
    version: BackendVersion,
    members: Arc<Members>,
    refresh_at_ms: u64,
    balancer: Balancer,
    /// The rotation that the worker draws turns from. `None` if the algorithm gives no turns or the worker needs none.
    rotation: Option<Arc<Rotation>>,
    passed_over: PassedOver,
    handles: Handles,
}

/// The result of choosing without the lock.
pub(crate) enum ViewChoice {
    /// A slot, valid if the version has not changed since.
    Slot(Lease),
    /// The turns of the rotation are used up. The worker must refresh the view for more.
    TurnsOver,
    /// The algorithm makes the request wait.
    Wait,
}

impl WorkerView {
    /// An empty view.
    pub(crate) fn new(shared: &SharedBackend, worker: usize) -> Self {
        Self {
            worker,
            version: BackendVersion::default(),
            members: Arc::new(Members::new(Vec::new())),
            refresh_at_ms: u64::MAX,
            balancer: Balancer::new(&shared.settings),
            rotation: None,
            passed_over: PassedOver::default(),
            handles: Handles::default(),
        }
    }

    /// Whether the view has this backend version and needs no refresh at `now_ms`.
    #[inline]
    pub(crate) fn shows(&self, version: BackendVersion, now_ms: u64) -> bool {
        self.version == version && now_ms < self.refresh_at_ms
    }

    /// Refreshes the view from the backend state. Turns are only computed when a worker needs them: requests with a hash draw none.
    #[cold]
    pub(crate) fn look(&mut self, lb_state: &mut LbState, hash: Option<u32>) {
        if self.version != lb_state.version() {
            self.version = lb_state.version();
            self.members = Arc::clone(lb_state.members());
            self.balancer.follow(lb_state.balancer());
            self.passed_over = PassedOver::default();
            self.handles.forget_all_but(|key| lb_state.server(key).is_some());
        }
        self.refresh_at_ms = lb_state.refresh_at_ms();
        let draws = self.version.is_free() && self.members.list.len() > 1 && self.balancer.takes_turns(hash);
        self.rotation = if draws { lb_state.rotation() } else { None };
    }

    /// Version of the backend state in this view.
    #[inline]
    pub(crate) fn version(&self) -> BackendVersion {
        self.version
    }

    /// Whether the view has zero members.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.list.is_empty()
    }

    /// Chooses a member and takes a slot.
    pub(crate) fn choose(&mut self, shared: &SharedBackend, input: &ChooseInput) -> ViewChoice {
        let position = |key: ServerKey| self.members.position(key);
        let preferred = input.prefer.filter(|_| !shared.algorithm.by_key).and_then(position);
        let avoid = input.avoid.and_then(position);
        let member = if let Some(member) = preferred {
            member
        } else if self.members.list.len() == 1 {
            0
        } else if self.balancer.takes_turns(input.hash) {
            let Some(member) = self.draw(shared, avoid) else { return ViewChoice::TurnsOver };
            member
        } else {
            // No member has a limit, so none depends on the backend's load.
            let servers =
                UsableServers { members: &self.members.list, backend_load: 0, full: 0, now_ms: input.now_ms };
            match self.balancer.pick(
                &servers,
                &BalanceRequest { hash: input.hash, avoid, random: input.random, worker: self.worker },
            ) {
                Pick::Free(member) => member,
                Pick::Queue(_) | Pick::Saturated => return ViewChoice::Wait,
            }
        };
        let together = self.counts_together(shared);
        ViewChoice::Slot(self.handles.take(&self.members.list[member].server, self.worker, together))
    }

    /// Draws the member of the next turn.
    #[inline]
    fn draw(&mut self, shared: &SharedBackend, avoid: Option<usize>) -> Option<usize> {
        let rotation = self.rotation.as_deref()?;
        if avoid.is_none() && self.passed_over.turns == 0 {
            return rotation.member(shared.turns.draw());
        }
        self.passed_over.draw(avoid, || rotation.member(shared.turns.draw()))
    }

    /// Takes a slot of a server without a limit.
    pub(crate) fn take(&mut self, server: &Arc<Server>, shared: &SharedBackend) -> Lease {
        let together = self.counts_together(shared);
        self.handles.take(server, self.worker, together)
    }

    /// Whether requests must be counted in the counts shared by all workers, because the algorithm compares the load of servers.
    fn counts_together(&self, shared: &SharedBackend) -> bool {
        shared.compares_load && self.members.list.len() > 1
    }
}

/// Turns of a member that a request had to avoid (redispatch). The next requests take these turns, because the member is still due.
#[derive(Default)]
struct PassedOver {
    member: usize,
    turns: u32,
}

impl PassedOver {
    /// Draws a member other than `avoid`.
    #[cold]
    fn draw(&mut self, avoid: Option<usize>, mut draw: impl FnMut() -> Option<usize>) -> Option<usize> {
        if self.turns > 0 && avoid != Some(self.member) {
            self.turns -= 1;
            return Some(self.member);
        }
        for passed in 0..PASSES_LIMIT {
            let member = draw()?;
            if Some(member) != avoid {
                // A member that is avoided repeatedly does not accumulate turns.
                self.turns = self.turns.max(passed);
                return Some(member);
            }
            self.member = member;
        }
        None
    }
}

/// Maximum number of turns passed over in a row. A member of the largest weight beside one of the smallest has fewer consecutive turns.
const PASSES_LIMIT: u32 = 2 * MAXIMUM_WEIGHT;

/// The handles of the servers that the worker has chosen, indexed by server slot.
#[derive(Default)]
struct Handles(Vec<Option<Arc<ServerHandle>>>);

impl Handles {
    /// Takes a slot of a server, in the count of all workers or in this worker's own.
    fn take(&mut self, server: &Arc<Server>, worker: usize, together: bool) -> Lease {
        let handle = self.of(server);
        if together {
            server.occupy();
            return Lease::alone(handle, None);
        }
        server.occupy_apart(worker);
        Lease::alone(handle, Some(worker))
    }

    fn of(&mut self, server: &Arc<Server>) -> Arc<ServerHandle> {
        let place = server.key().index();
        match self.0.get(place) {
            Some(Some(handle)) if Arc::ptr_eq(&handle.0, server) => Arc::clone(handle),
            _ => self.insert(place, server),
        }
    }

    #[cold]
    fn insert(&mut self, place: usize, server: &Arc<Server>) -> Arc<ServerHandle> {
        if self.0.len() <= place {
            self.0.resize(place + 1, None);
        }
        let handle = Arc::new(ServerHandle(Arc::clone(server)));
        self.0[place] = Some(Arc::clone(&handle));
        handle
    }

    /// Drops the handles of removed servers, so that they can be freed.
    fn forget_all_but(&mut self, is_known: impl Fn(ServerKey) -> bool) {
        for handle in &mut self.0 {
            if handle.as_ref().is_some_and(|handle| !is_known(handle.0.key())) {
                *handle = None;
            }
        }
    }
}
