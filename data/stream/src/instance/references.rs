//! A worker's references to an instance and its proxies.
//!
//! An instance is shared by all workers and lives as long as one of them refers to it. The shared reference count is atomic, so each
//! worker takes only one such reference. References in the worker's tasks are counted without atomics.

use std::cell::RefCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use weir_compression::EncoderPool;
use weir_containers::{LocalArc, RcRef};
use weir_http::CaseMap;
use weir_mux::Pipes;
use weir_tables::Table;

use super::{Instance, Proxy};

/// A worker's reference-counted handle of an instance.
pub type LocalInstance = Rc<WorkerInstance>;

/// One worker's handle of an instance.
pub struct WorkerInstance {
    shared: Arc<Instance>,
    /// [`Instance::pipes`].
    pub(crate) pipes: LocalArc<Pipes>,
    /// [`Instance::variable_bytes`].
    pub(crate) variable_bytes: LocalArc<AtomicUsize>,
    /// The worker's encoders.
    pub(crate) encoders: Rc<EncoderPool>,
    /// [`Instance::tables`].
    tables: Box<[LocalArc<Table>]>,
    /// A per-worker copy of [`ProcessLimits::header_case`](super::ProcessLimits::header_case), because messages hold counted references to
    /// it.
    pub(crate) header_case: Option<Arc<CaseMap>>,
}

impl WorkerInstance {
    fn new(shared: &Arc<Instance>) -> Self {
        WorkerInstance {
            pipes: LocalArc::new(Arc::clone(&shared.pipes)),
            variable_bytes: LocalArc::new(Arc::clone(&shared.variable_bytes)),
            encoders: EncoderPool::new(shared.compression.tuning, Arc::clone(&shared.compression.memory)),
            tables: shared.tables.iter().map(|table| LocalArc::new(Arc::clone(table))).collect(),
            header_case: shared.limits.header_case.clone().map(Arc::new),
            shared: Arc::clone(shared),
        }
    }

    /// The stick-table at that position of the configuration.
    pub(crate) fn table(&self, position: u32) -> Option<&LocalArc<Table>> {
        self.tables.get(position as usize)
    }

    /// The instance, shared by all workers.
    pub fn shared(&self) -> &Arc<Instance> {
        &self.shared
    }
}

impl Deref for WorkerInstance {
    type Target = Instance;

    #[inline]
    fn deref(&self) -> &Instance {
        &self.shared
    }
}

/// A worker's reference to a proxy. Keeps the instance alive.
#[derive(Clone)]
pub struct ProxyRef(RcRef<WorkerInstance, Proxy>);

impl ProxyRef {
    /// The proxy at this position of the instance.
    #[inline]
    pub fn at(instance: &LocalInstance, position: usize) -> Option<Self> {
        RcRef::find(instance, |instance| instance.proxies.get(position)).map(ProxyRef)
    }

    /// [`Instance::subrequests`].
    pub(crate) fn of_subrequests(instance: &LocalInstance) -> Self {
        ProxyRef(RcRef::new(Rc::clone(instance), |instance| &instance.subrequests))
    }

    /// The worker's handle of the proxy's instance.
    #[inline]
    pub fn instance(&self) -> &LocalInstance {
        self.0.owner()
    }

    /// Another proxy of the same instance, at this position.
    #[inline]
    pub fn sibling(&self, position: usize) -> Option<Self> {
        ProxyRef::at(self.instance(), position)
    }

    /// Whether both refer to the same proxy.
    #[inline]
    pub fn is(&self, other: &Proxy) -> bool {
        self.0.is(other)
    }

    /// A reference to a part of the proxy. Keeps the instance alive.
    #[inline]
    pub fn part<T: ?Sized>(&self, find: impl for<'p> FnOnce(&'p Proxy) -> &'p T) -> RcRef<WorkerInstance, T> {
        self.0.map(find)
    }

    /// A reference to an optional part of the proxy.
    pub fn find_part<T: ?Sized>(
        &self,
        find: impl for<'p> FnOnce(&'p Proxy) -> Option<&'p T>,
    ) -> Option<RcRef<WorkerInstance, T>> {
        self.0.find_part(find)
    }
}

impl Deref for ProxyRef {
    type Target = Proxy;

    #[inline]
    fn deref(&self) -> &Proxy {
        &self.0
    }
}

impl fmt::Debug for ProxyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProxyRef({})", self.name())
    }
}

thread_local! {
    /// The worker's handles of the instances in use.
    static LOCAL: RefCell<ManuallyDrop<Vec<Weak<WorkerInstance>>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// This worker's handle of an instance. All callers share it while one of them holds it.
pub fn local(instance: &Arc<Instance>) -> LocalInstance {
    LOCAL.with_borrow_mut(|shares| {
        let known =
            shares.iter().filter_map(Weak::upgrade).find(|share| Arc::ptr_eq(&share.shared, instance));
        known.unwrap_or_else(|| {
            shares.retain(|share| share.strong_count() > 0);
            let share = Rc::new(WorkerInstance::new(instance));
            shares.push(Rc::downgrade(&share));
            share
        })
    })
}
