//! Servers, plans to check them, and a process that records the results.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use weir_model::InitialState;

use weir_backend::{
    Backend, BackendNews, BackendSettings, CheckKind, CheckRules, CheckStatus, OperationalState, Server,
    ServerAddress, ServerKey, ServerSettings,
};
use weir_checks::{
    ApplicationConnection, CheckLoad, CheckPlan, Checks, Dial, IdleConnection, Intervals, ProcessView,
    Timings,
};
use weir_expr::{Location, LogFormat, ObjectLookup, ProcessFacts, SetCondition, TimeZone, Value, VariableId};
use weir_fcgi::ConnectionOptions;
use weir_model::{FcgiApplication, Userlist};
use weir_mux::ApplicationMultiplexer;
use weir_mux::trace::ConnectionIdentity;
use weir_net::Connection;
use weir_sched::simulate::network::SimulatedNetwork;
use weir_sched::{Class, WorkKind, now, sleep_until, spawn};
use weir_sys::Address;
use weir_tables::Table;
use weir_vocabulary::{Objects, ViewedProxy};

/// Recorded reports to the process.
#[derive(Default)]
pub(crate) struct Heard {
    /// The log lines.
    pub(crate) lines: Mutex<Vec<String>>,
    /// Whether receiving the next notice panics.
    pub(crate) fails_once: AtomicBool,
}

/// A process that only records.
struct Listener(Arc<Heard>);

impl Objects for Listener {
    fn connections(&self) -> u32 {
        0
    }

    fn buffer_size(&self) -> usize {
        16384
    }

    fn proxy(&self, _: usize) -> Option<ViewedProxy<'_>> {
        None
    }

    fn backend_by_name(&self, _: &str) -> Option<ViewedProxy<'_>> {
        None
    }

    fn frontend_by_name(&self, _: &str) -> Option<ViewedProxy<'_>> {
        None
    }

    fn table(&self, _: u32) -> Option<&Table> {
        None
    }

    fn userlist(&self, _: u32) -> Option<&Userlist> {
        None
    }
}

impl ProcessView for Listener {
    fn news(&self, news: BackendNews) {
        assert!(!self.0.fails_once.swap(false, Relaxed), "on purpose");
        let mut lines = self.0.lines.lock().expect("nobody panics with it");
        lines.extend(news.notices.into_iter().map(|notice| notice.text));
    }

    fn take_idle(&self, _: &Backend, _: &Server, _: u64) -> Option<IdleConnection> {
        None
    }

    fn keep_idle(&self, _: &Backend, _: &Server, _: u64, _: IdleConnection) {}

    fn connect_application(&self, _: &Backend, connection: Connection) -> Option<ApplicationConnection> {
        let options =
            ConnectionOptions { get_values: false, keeps: true, multiplexes: false, max_requests: 1 };
        let at = Location { file: "c.cfg".into(), line: 1 };
        let application = FcgiApplication { docroot: "/srv".into(), ..FcgiApplication::new("a", at) };
        Some(ApplicationConnection {
            connection: ApplicationMultiplexer::new(connection, options, None, ConnectionIdentity::default()),
            application: Arc::new(application),
        })
    }

    fn node(&self) -> &str {
        "node"
    }

    fn objects(&self) -> &dyn Objects {
        self
    }

    fn unique_id_format(&self, _: &Backend) -> Option<Arc<LogFormat>> {
        None
    }

    fn facts(&self) -> ProcessFacts<'_> {
        ProcessFacts { hostname: "host", pid: 1, thread: 0, thread_group: 1, uptime: 0, stopping: false }
    }

    fn time_zone(&self) -> &TimeZone {
        TimeZone::utc()
    }

    fn lookup(&self, _: ObjectLookup, _: &[u8]) -> Option<Value<'static>> {
        None
    }

    fn variable(&self, _: VariableId) -> Option<Value<'static>> {
        None
    }

    fn set_variable(&self, _: VariableId, _: Value<'static>, _: SetCondition) -> bool {
        false
    }

    fn unset_variable(&self, _: VariableId) -> bool {
        false
    }

    fn variable_room(&self, _: usize) -> usize {
        usize::MAX
    }

    fn charge_variables(&self, _: usize, _: usize) {}
}

/// Servers with the same address and settings.
pub(crate) struct TestBackend {
    pub(crate) backend: Arc<Backend>,
    pub(crate) heard: Arc<Heard>,
    /// The plan of the servers' checks.
    pub(crate) plan: CheckPlan,
}

/// The address of the servers in the simulated network, unless a test needs several addresses.
pub(crate) const PLACE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 80);

impl TestBackend {
    /// `count` servers, each checked every second, with a rise and fall of one.
    pub(crate) fn new(place: SocketAddr, count: u32) -> TestBackend {
        TestBackend::with(place, count, CheckRules { rise: 1, fall: 1, start: InitialState::Up })
    }

    pub(crate) fn with(place: SocketAddr, count: u32, rules: CheckRules) -> TestBackend {
        let server = |id| ServerSettings {
            name: format!("s{id}"),
            id,
            address: ServerAddress::from(place),
            check: Some(rules),
            ..ServerSettings::default()
        };
        let servers = (1..=count).map(server).collect();
        let settings = BackendSettings { name: "be".to_owned(), ..BackendSettings::default() };
        let backend = Backend::new(settings, servers, 0);
        let plan = CheckPlan {
            backend: Arc::clone(&backend),
            server: ServerKey::configured(0),
            kind: CheckKind::Health,
            intervals: Intervals { usual_ms: 1000, fast_ms: 1000, down_ms: 1000, spread_percent: 0 },
            timings: Timings { connect_ms: Some(300), check_ms: Some(500) },
            dial: Arc::new(Dial::default()),
            agent_send: None,
            reuse: None,
            script: None,
            program: None,
        };
        TestBackend { backend, heard: Arc::default(), plan }
    }

    /// The check of server `rank`.
    pub(crate) fn plan_of(&self, rank: u32) -> CheckPlan {
        CheckPlan { server: ServerKey::configured(rank), ..self.plan.clone() }
    }

    /// The checks of all servers, which begin at the same time.
    pub(crate) fn checks(&self, load: CheckLoad) -> Arc<Checks> {
        let count = self.backend.servers().len() as u32;
        self.checks_of((0..count).map(|rank| self.plan_of(rank)).collect(), load)
    }

    pub(crate) fn checks_of(&self, plans: Vec<CheckPlan>, load: CheckLoad) -> Arc<Checks> {
        let listener = Box::new(Listener(Arc::clone(&self.heard)));
        Arc::new(Checks::new(plans, load, Some(0), listener))
    }

    pub(crate) fn server(&self, rank: u32) -> Arc<Server> {
        self.backend.server(ServerKey::configured(rank)).expect("a server of the backend")
    }

    /// How many servers are up.
    pub(crate) fn up(&self) -> usize {
        let is_up =
            |server: &Arc<Server>| server.operational_state(now().as_ms()) != OperationalState::Stopped;
        self.backend.servers().iter().filter(|server| is_up(server)).count()
    }

    /// The last finding of a check of a server: its status and text.
    pub(crate) fn last(&self, rank: u32) -> (CheckStatus, String) {
        let server = self.server(rank);
        let record = server.health().expect("it is checked").record();
        (record.last.status, record.last.detail.clone().into_owned())
    }
}

/// Sleeps in simulated time.
pub(crate) async fn pass(milliseconds: u64) {
    sleep_until(now().after(milliseconds)).await;
}

/// Counts the connections to an address, and closes each at once.
pub(crate) fn count_connections(network: &SimulatedNetwork, place: SocketAddr) -> Rc<Cell<u32>> {
    let service = network.listen(&Address::Inet(place)).expect("a free address");
    let count = Rc::new(Cell::new(0));
    let shared = Rc::clone(&count);
    spawn(&ACCEPTOR, Class::Normal, async move {
        loop {
            drop(service.accept().await);
            shared.set(shared.get() + 1);
        }
    });
    count
}

static ACCEPTOR: WorkKind = WorkKind::new("acceptor");
