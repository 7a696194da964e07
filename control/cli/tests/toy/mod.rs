//! A fake process that implements the target traits with plain vectors: one frontend, two backends, a map and an ACL.

mod tls;

use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;

use weir_cli::Level;
use weir_cli::target::*;
use weir_cli::{CliSession, SessionSettings, TransportAction};
use weir_formats::{CivilTime, WallTime};
use weir_stats::{
    InfoField, InfoRow, ProxyHead, RowCursor, RowSelection, StatsField, StatsObject, StatsRow, StatsSource,
};

/// The trace source of the fake process.
static TOY_SOURCE: weir_events::trace::TraceSource = weir_events::trace::TraceSource::new(
    "toy",
    "a toy",
    &[weir_events::trace::TraceEventKind { name: "toy_new", help: "a new toy" }],
);

static TOY_SOURCES: &[&weir_events::trace::TraceSource] = &[&TOY_SOURCE];

pub(crate) struct Toy {
    pub servers: Vec<ServerView>,
    pub sets: Vec<ToySet>,
    pub script: Option<ScriptCommandView>,
    pub sessions: Vec<SessionView>,
    pub variables: Vec<(String, String)>,
    pub frontend_enabled: bool,
    pub frontend_maxconn: u32,
    pub cleared: Option<bool>,
    /// Number of times that the next session listing is pending.
    pub pending: u32,
    pub served: u32,
    pub sinks: weir_events::Sinks,
    pub timelines: Vec<std::sync::Arc<weir_sync::Ring>>,
    /// Number of times that readers of rings were woken.
    pub woken: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    pub profiling: ProfilingState,
    pub tls: tls::ToyTls,
    pub tables: Vec<std::sync::Arc<weir_tables::Table>>,
    pub peers: Vec<std::sync::Arc<weir_peers::PeersSection>>,
    /// Number of pattern visits.
    pub visits: std::cell::Cell<usize>,
}

pub(crate) struct ToySet {
    pub view: PatternSet,
    pub kind: PatternKind,
    /// Version, number, key, value.
    pub entries: Vec<(u32, u64, String, Option<String>)>,
    pub next_number: u64,
}

pub(crate) fn toy() -> Toy {
    let localhost = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let server = |backend, id: u32, weight, static_balance| ServerView {
        address: localhost,
        port: PortSetting::Fixed(1),
        user_weight: weight,
        initial_weight: weight,
        static_balance,
        ..ServerView::new(backend, (id, &format!("s{id}")))
    };
    let set = |id, file: Option<&str>, description: &str, kind| ToySet {
        view: PatternSet {
            id,
            file: file.map(str::to_owned),
            description: description.to_owned(),
            current_version: 0,
            next_version: 0,
            entries: 0,
            has_values: kind == PatternKind::Map,
        },
        kind,
        entries: Vec::new(),
        next_number: 0x1000,
    };
    Toy {
        servers: vec![
            server((3, "be"), 1, 10, false),
            server((3, "be"), 2, 1, false),
            server((4, "bs"), 1, 7, true),
        ],
        script: None,
        sets: vec![
            set(0, None, "acl 'path' file 'h.cfg' line 23", PatternKind::Acl),
            set(
                5,
                Some("m.map"),
                "pattern loaded from file 'm.map' used by map at file 'h.cfg' line 19",
                PatternKind::Map,
            ),
        ],
        sessions: vec![SessionView {
            id: 0x55aa,
            number: 7,
            protocol: "tcpv4",
            source: Some("127.0.0.1:4000".into()),
            frontend: "fe".into(),
            ..SessionView::default()
        }],
        variables: vec![("proc.foo".into(), "bar".into())],
        frontend_enabled: true,
        frontend_maxconn: 1000,
        cleared: None,
        pending: 0,
        served: 0,
        sinks: weir_events::Sinks::default(),
        timelines: (0..2).map(|_| weir_sync::Ring::in_memory(65_536, 1)).collect(),
        woken: std::sync::Arc::default(),
        profiling: ProfilingState::default(),
        tls: tls::ToyTls::default(),
        tables: Vec::new(),
        peers: Vec::new(),
        visits: std::cell::Cell::default(),
    }
}

impl Toy {
    fn set(&self, key: SetKey) -> &ToySet {
        &self.sets[key.0 as usize]
    }

    fn set_mut(&mut self, key: SetKey) -> &mut ToySet {
        &mut self.sets[key.0 as usize]
    }
}

impl ToySet {
    fn matching(&mut self, which: Which<'_>) -> Vec<&mut (u32, u64, String, Option<String>)> {
        self.entries
            .iter_mut()
            .filter(|(_, number, key, _)| match which {
                Which::Key(wanted) => key == wanted,
                Which::Number(wanted) => *number == wanted,
            })
            .collect()
    }
}

impl Toy {
    fn fill(&self, object: usize, row: &mut StatsRow) -> bool {
        let be = ProxyHead {
            id: 3,
            name: "be",
            mode: "http",
            frontend: false,
            backend: true,
            has_servers: true,
            description: None,
        };
        let fe = ProxyHead { id: 2, name: "fe", frontend: true, backend: false, has_servers: false, ..be };
        match object {
            0 => row.begin(StatsObject::Frontend, &fe, 0, ""),
            at @ 1..=2 => {
                row.begin(StatsObject::Server, &be, at as u32, &format!("s{at}"));
                row.set(StatsField::Addr, "127.0.0.1:1");
            }
            3 => row.begin(StatsObject::Backend, &be, 0, ""),
            _ => return false,
        }
        true
    }
}

impl StatsSource for Toy {
    fn visit_rows(
        &self,
        cursor: &mut RowCursor,
        _: &RowSelection,
        row: &mut StatsRow,
        visit: &mut dyn FnMut(&StatsRow) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while self.fill(cursor.object, row) {
            cursor.object += 1;
            visit(row)?;
        }
        ControlFlow::Continue(())
    }

    fn info(&self, _: bool, info: &mut InfoRow) {
        info.set(InfoField::Name, "HAProxy");
        info.set(InfoField::Nbthread, 2u32);
    }
}

impl ProcessTarget for Toy {
    fn stats(&self) -> &dyn StatsSource {
        self
    }

    fn version(&self) -> String {
        "3.5-weir".into()
    }

    fn uptime_s(&self) -> u64 {
        2 * 86_400 + 3 * 3600 + 4 * 60 + 5
    }

    fn wall_time(&self) -> WallTime {
        WallTime { seconds: 1_795_174_042, micros: 10_000 }
    }

    fn local_date(&self, time: WallTime) -> CivilTime {
        CivilTime::at(time.seconds, 0)
    }

    fn cli_sockets(&self) -> Vec<CliSocket> {
        vec![
            CliSocket { address: "sockpair@5".into(), level: Level::Admin },
            CliSocket { address: "unix@/etc/weir/stats.sock".into(), level: Level::Admin },
        ]
    }

    fn environment(&self) -> Vec<String> {
        vec!["HAPROXY_LOCALPEER=vm".into(), "HOME=/root".into()]
    }

    fn startup_logs(&self) -> String {
        "[NOTICE]   (1) : started\n".into()
    }

    fn sinks(&self) -> &weir_events::Sinks {
        &self.sinks
    }

    fn traces(&self) -> weir_events::trace::commands::Traces<'_> {
        weir_events::trace::commands::Traces { sources: TOY_SOURCES, sinks: &self.sinks }
    }

    fn timelines(&self) -> &[std::sync::Arc<weir_sync::Ring>] {
        &self.timelines
    }

    fn waker(&self) -> weir_sync::ring::WakeReader {
        let woken = std::sync::Arc::clone(&self.woken);
        Box::new(move || {
            woken.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        })
    }

    fn resolvers(&self) -> Vec<(String, Vec<NameServerView>)> {
        let mut counters = [0; weir_stats::name_server::COUNTERS.len()];
        (counters[0], counters[14]) = (7, 9);
        vec![("r1".into(), vec![NameServerView { name: "n1".into(), counters }]), ("r2".into(), Vec::new())]
    }

    fn set_limit(&mut self, limit: Limit, value: u32) -> bool {
        limit != Limit::Maxconn || value <= 1000
    }

    fn clear_counters(&mut self, all: bool) {
        self.cleared = Some(all);
    }

    fn variable(&self, name: &str) -> Option<(String, String)> {
        let (_, value) = self.variables.iter().find(|(known, _)| known == name)?;
        Some(("str".into(), value.clone()))
    }

    fn set_variable(&mut self, name: &str, source: VariableSource<'_>) -> Result<(), String> {
        if !name.starts_with("proc.") {
            return Err(format!(
                "'set var': cannot set variable '{name}', only scope 'proc' is permitted here."
            ));
        }
        let value = match source {
            VariableSource::Expression(text) => format!("expr {text}"),
            VariableSource::Format(text) => format!("fmt {text}"),
        };
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value));
        Ok(())
    }
}

impl WorkTarget for Toy {
    fn activity(&self) -> Activity {
        let row = |name, values: [u64; 2]| ActivityRow {
            name,
            total: values.iter().sum(),
            values: values.to_vec(),
        };
        Activity {
            thread: 1,
            threads: 2,
            uptime_us: 30_388_822,
            rows: vec![row("ctxsw", [42, 29]), row("tasksw", [22, 17])],
        }
    }

    fn tasks(&mut self) -> Option<Tasks> {
        let row = TaskRow { kind: "connection".into(), places: 3, latency_ns: 4_500, latencies: 3, calls: 9 };
        Some(Tasks { running: 4, threads: 2, rows: vec![row] })
    }

    fn threads(&mut self) -> Option<Vec<ThreadView>> {
        let own = ThreadView {
            number: 1,
            answering: true,
            active: true,
            queued: [1, 3, 5, 7],
            wait_queue: 2,
            tasks: 20,
            loops: 22,
            context_switches: 69,
            profiled: true,
            cpu_ns: 82_670_363,
            current: Some("cli session@cli_server.rs:202".into()),
            ..ThreadView::default()
        };
        Some(vec![own, ThreadView { number: 2, ..ThreadView::default() }])
    }

    fn profiling(&self) -> ProfilingState {
        self.profiling
    }

    fn set_profiling(&mut self, change: ProfilingChange) {
        match change {
            ProfilingChange::Tasks(tasks) => self.profiling.tasks = tasks,
            ProfilingChange::Memory(memory) => self.profiling.memory = memory,
            ProfilingChange::Locks(_) | ProfilingChange::MemoryTime(_) => {}
        }
    }

    fn task_profile(&self) -> TaskProfile {
        TaskProfile::default()
    }

    fn script_profile(&self) -> ScriptProfile {
        ScriptProfile::default()
    }

    fn memory_profile(&mut self) -> Option<MemoryProfile> {
        if self.pending > 0 {
            self.pending -= 1;
            return None;
        }
        Some(MemoryProfile::default())
    }

    fn pools(&self) -> Vec<PoolView> {
        let one = |name, size, used| {
            let first = PoolUse { allocated: used + 1, used, needed: used / 2, failures: 3 };
            PoolView { name, size, threads: vec![first, PoolUse { allocated: 1, ..PoolUse::default() }] }
        };
        let empty = PoolView { name: "block_64", size: 64, threads: vec![PoolUse::default(); 2] };
        vec![one("buffer", 100, 5), empty, one("block_96", 96, 9), one("block_9000", 9000, 0)]
    }

    fn keep_busy(&mut self, _: u64) {}
}

impl ProxyTarget for Toy {
    fn proxy_id(&self, name: &str) -> Option<u32> {
        [("fe", 2), ("be", 3), ("bs", 4)].iter().find(|(known, _)| *known == name).map(|(_, id)| *id)
    }

    fn frontend(&self, name: &str) -> Option<FrontendKey> {
        matches!(name, "fe" | "#2").then_some(FrontendKey(0))
    }

    fn backend(&self, name: &str) -> Option<BackendKey> {
        match name {
            "be" | "#3" => Some(BackendKey(3)),
            "bs" | "#4" => Some(BackendKey(4)),
            _ => None,
        }
    }

    fn server(&self, backend: BackendKey, name: &str) -> Option<ServerKey> {
        let matches = |view: &ServerView| view.name == name || format!("#{}", view.id) == name;
        let at =
            self.servers.iter().position(|view| u64::from(view.backend_id) == backend.0 && matches(view))?;
        Some(ServerKey { backend, server: at as u64 })
    }

    fn next_backend(&self, place: &mut ListPosition) -> Option<String> {
        let name = ["be", "bs"].get(*place as usize)?;
        *place += 1;
        Some((*name).to_owned())
    }

    fn next_server(&self, backend: Option<BackendKey>, place: &mut ListPosition) -> Option<ServerKey> {
        loop {
            let at = *place;
            let view = self.servers.get(at as usize)?;
            *place += 1;
            if backend.is_none_or(|backend| backend.0 == u64::from(view.backend_id)) {
                return Some(ServerKey { backend: BackendKey(u64::from(view.backend_id)), server: at });
            }
        }
    }

    fn server_view(&self, server: ServerKey) -> Option<ServerView> {
        self.servers.get(server.server as usize).cloned()
    }

    fn server_connections(&self, server: ServerKey, view: &mut ServerConnections) -> bool {
        let Some(of) = self.servers.get(server.server as usize) else { return false };
        *view = ServerConnections {
            backend_id: of.backend_id,
            backend_name: of.backend_name.clone(),
            id: of.id,
            name: of.name.clone(),
            address: of.address,
            port: of.port.number(),
            purge_delay_ms: 5000,
            served: self.served,
            idle_limit: -1,
            idle_per_worker: vec![0, 0],
            ..ServerConnections::default()
        };
        true
    }

    fn workers(&self) -> usize {
        2
    }

    fn set_server_weight(&mut self, server: ServerKey, weight: u32) -> Result<(), ServerRefusal> {
        self.servers[server.server as usize].user_weight = weight;
        Ok(())
    }

    fn set_server_name(&mut self, server: ServerKey, name: &str) -> Result<Option<String>, ServerRefusal> {
        let view = self.servers.get_mut(server.server as usize).ok_or(ServerRefusal::Gone)?;
        Ok(view.fqdn.replace(name.into()))
    }

    fn set_server_state(&mut self, server: ServerKey, state: ServerState) -> Result<(), ServerRefusal> {
        let view = &mut self.servers[server.server as usize];
        (view.operational_state, view.administrative_state) = match state {
            ServerState::Ready => (2, 0),
            ServerState::Drain => (2, 8),
            ServerState::Maintenance => (0, 1),
        };
        Ok(())
    }

    fn set_server_address(&mut self, server: ServerKey, change: AddressChange) -> Result<(), ServerRefusal> {
        let view = &mut self.servers[server.server as usize];
        view.address = change.address.or(view.address);
        view.port = change.port.unwrap_or(view.port);
        Ok(())
    }

    fn set_server_maxconn(&mut self, _: ServerKey, _: u32) -> Result<(), ServerRefusal> {
        Ok(())
    }

    fn shutdown_server_sessions(&mut self, _: ServerKey) -> bool {
        true
    }

    fn clear_server_counters(&mut self, _: ServerKey) -> bool {
        true
    }

    fn add_server(&mut self, _: BackendKey, _: &str, words: &[String]) -> Result<(), String> {
        if words.is_empty() {
            Err("'server' expects <name> and <addr>[:<port>] as arguments.".into())
        } else {
            Ok(())
        }
    }

    fn delete_server(&mut self, server: ServerKey) -> Result<(), String> {
        match self.servers[server.server as usize].administrative_state {
            0 => Err("Only servers in maintenance mode can be deleted.".into()),
            _ => Ok(()),
        }
    }

    fn set_server_tls(&mut self, _: ServerKey, _: bool) -> bool {
        false
    }

    fn set_server_agent(&mut self, _: ServerKey, _: bool) -> bool {
        false
    }

    fn redirect_checks(&mut self, _: ServerKey, _: CheckKind, _: CheckRedirection) -> bool {
        false
    }

    fn enable_checks(&mut self, _: ServerKey, _: CheckKind, _: bool) -> bool {
        false
    }

    fn set_server_health(&mut self, server: ServerKey, health: ServerHealth) -> Result<(), ServerRefusal> {
        self.servers[server.server as usize].operational_state = match health {
            ServerHealth::Up => 2,
            ServerHealth::Stopping => 3,
            ServerHealth::Down => 0,
        };
        Ok(())
    }

    fn publish_backend(&mut self, _: BackendKey, _: bool) -> bool {
        true
    }

    fn enable_dynamic_cookies(&mut self, _: BackendKey, _: bool) -> bool {
        true
    }

    fn set_dynamic_cookie_key(&mut self, _: BackendKey, _: &str) -> bool {
        true
    }

    fn added_server_words(&self) -> Vec<&'static str> {
        vec!["backup", "weight"]
    }

    fn set_frontend_maxconn(&mut self, _: FrontendKey, maxconn: u32) -> Result<(), FrontendRefusal> {
        self.frontend_maxconn = maxconn;
        Ok(())
    }

    fn disable_frontend(&mut self, _: FrontendKey) -> Result<(), FrontendRefusal> {
        if !std::mem::replace(&mut self.frontend_enabled, false) {
            Err(FrontendRefusal::Already)
        } else {
            Ok(())
        }
    }

    fn enable_frontend(&mut self, _: FrontendKey) -> Result<(), FrontendRefusal> {
        if std::mem::replace(&mut self.frontend_enabled, true) {
            Err(FrontendRefusal::Already)
        } else {
            Ok(())
        }
    }

    fn shutdown_frontend(&mut self, _: FrontendKey) -> Result<(), FrontendRefusal> {
        Ok(())
    }

    fn captured_errors(&self) -> u32 {
        0
    }

    fn next_captured_error(&self, _: &ErrorFilter, _: &mut ListPosition) -> Option<CapturedError> {
        None
    }
}

impl TableTarget for Toy {
    fn tables(&self) -> &[std::sync::Arc<weir_tables::Table>] {
        &self.tables
    }

    fn peers(&self) -> &[std::sync::Arc<weir_peers::PeersSection>] {
        &self.peers
    }

    fn table_clock_ms(&self) -> u64 {
        1_000
    }
}

impl ScriptCommandTarget for Toy {
    fn script_commands(&self) -> Vec<ScriptCommandView> {
        self.script.iter().cloned().collect()
    }

    fn script_command_length(&self, words: &[String]) -> Option<usize> {
        let name = self.script.as_ref()?.name.split(' ').collect::<Vec<_>>();
        let begins = name.len() <= words.len() && name.iter().zip(words).all(|(one, other)| one == other);
        begins.then_some(name.len())
    }

    fn run_script_command(&mut self, words: &[String]) -> Option<Box<dyn ScriptCommandRun>> {
        self.script_command_length(words)?;
        Some(Box::new(ToyAnswer { line: Vec::new(), is_over: false }))
    }
}

/// Reads one line, and prints it.
struct ToyAnswer {
    line: Vec<u8>,
    is_over: bool,
}

impl ScriptCommandRun for ToyAnswer {
    fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> ScriptCommandStep {
        if !self.is_over {
            return ScriptCommandStep::Input { until_ms: 7 };
        }
        out.extend_from_slice(&self.line);
        ScriptCommandStep::Done
    }

    fn read(&mut self, input: &[u8], is_last: bool) -> usize {
        let end = input.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(input.len(), |end| end + 1);
        self.line.extend_from_slice(&input[..count]);
        self.is_over = end.is_some() || is_last;
        count
    }
}

impl PatternTarget for Toy {
    fn pattern_set(&self, kind: PatternKind, name: &str) -> Option<SetKey> {
        let at = self.sets.iter().position(|set| {
            set.kind == kind
                && (set.view.file.as_deref() == Some(name) || format!("#{}", set.view.id) == name)
        })?;
        Some(SetKey(at as u64))
    }

    fn next_pattern_set(&self, kind: PatternKind, place: &mut ListPosition) -> Option<PatternSet> {
        loop {
            let at = *place as usize;
            self.sets.get(at)?;
            *place += 1;
            if self.sets[at].kind == kind {
                return self.pattern_set_view(SetKey(at as u64));
            }
        }
    }

    fn pattern_set_view(&self, set: SetKey) -> Option<PatternSet> {
        let set = self.set(set);
        Some(PatternSet { entries: set.entries.len() as u64, ..set.view.clone() })
    }

    fn visit_patterns(
        &self,
        set: SetKey,
        version: u32,
        place: &mut ListPosition,
        each: &mut dyn FnMut(Pattern<'_>) -> bool,
    ) -> bool {
        self.visits.set(self.visits.get() + 1);
        let start = *place;
        let of_version = self.set(set).entries.iter().filter(|entry| entry.0 == version);
        for (_, number, key, value) in of_version.skip(start as usize) {
            *place += 1;
            if !each(Pattern { number: *number, key, value: value.as_deref() }) {
                break;
            }
        }
        *place > start
    }

    fn look_up(&self, set: SetKey, _: PatternKind, value: &str) -> Vec<Lookup> {
        let found = self.set(set).entries.iter().find(|entry| entry.2 == value).map(|entry| Found {
            index: "tree",
            pattern: entry.2.clone(),
            value: entry.3.clone().map(|value| (value, "str")),
        });
        vec![Lookup { method: "str", case_sensitive: true, found }]
    }

    fn add_pattern(
        &mut self,
        set: SetKey,
        version: u32,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), String> {
        let set = self.set_mut(set);
        set.next_number += 1;
        set.entries.push((version, set.next_number, key.into(), value.map(str::to_owned)));
        Ok(())
    }

    fn set_pattern(&mut self, set: SetKey, which: Which<'_>, value: &str) -> bool {
        let mut entries = self.set_mut(set).matching(which);
        entries.iter_mut().for_each(|entry| entry.3 = Some(value.into()));
        !entries.is_empty()
    }

    fn delete_pattern(&mut self, set: SetKey, which: Which<'_>) -> bool {
        let set = self.set_mut(set);
        let numbers: Vec<u64> = set.matching(which).iter().map(|entry| entry.1).collect();
        set.entries.retain(|entry| !numbers.contains(&entry.1));
        !numbers.is_empty()
    }

    fn clear_patterns(&mut self, set: SetKey, version: u32) {
        self.set_mut(set).entries.retain(|entry| entry.0 != version);
    }

    fn prepare_version(&mut self, set: SetKey) -> u32 {
        let view = &mut self.set_mut(set).view;
        view.next_version += 1;
        view.next_version
    }

    fn commit_version(&mut self, set: SetKey, version: u32) -> Result<(), VersionError> {
        let set = self.set_mut(set);
        if version <= set.view.current_version || version > set.view.next_version {
            return Err(VersionError::OutOfRange);
        }
        set.view.current_version = version;
        set.entries.retain(|entry| entry.0 == version);
        Ok(())
    }
}

impl DescriptorTarget for Toy {
    fn next_descriptor(&mut self, _: &mut ListPosition) -> NextDescriptor {
        NextDescriptor::None
    }
}

impl SessionTarget for Toy {
    fn next_session(&mut self, filter: &SessionFilter, place: &mut ListPosition) -> NextSession {
        if self.pending > 0 {
            self.pending -= 1;
            return NextSession::Pending;
        }
        let wanted = |view: &&SessionView| filter.id.is_none_or(|id| id == view.id);
        match self.sessions.iter().filter(wanted).nth(*place as usize) {
            Some(view) => {
                *place += 1;
                let mut view = view.clone();
                view.request_line = view.request_line.filter(|_| filter.with_request_line);
                NextSession::Session(Box::new(view))
            }
            None => NextSession::None,
        }
    }

    fn shutdown_session(&mut self, id: u64) -> Shutdown {
        if self.pending > 0 {
            self.pending -= 1;
            return Shutdown::Pending;
        }
        let before = self.sessions.len();
        self.sessions.retain(|view| view.id != id);
        if self.sessions.len() < before { Shutdown::Done } else { Shutdown::NotFound }
    }
}

/// Sends all of `input` in pieces of `piece` bytes, then half-closes. Returns the whole output.
pub(crate) fn converse(
    toy: &mut Toy,
    settings: SessionSettings,
    input: &[u8],
    piece: usize,
    enough: usize,
) -> String {
    let mut session = CliSession::new(settings);
    let mut answered = Vec::new();
    let mut now_ms = 0;
    let mut rest = input;
    loop {
        let mut out = Vec::new();
        let status = session.run(toy, now_ms, enough, &mut out);
        answered.extend(out);
        match status {
            TransportAction::NeedInput | TransportAction::NeedInputUntil(_) if rest.is_empty() => {
                session.end_of_input();
            }
            TransportAction::NeedInput | TransportAction::NeedInputUntil(_) => {
                let (now, later) = rest.split_at(piece.min(rest.len()).min(session.room()));
                session.feed(now);
                rest = later;
            }
            TransportAction::WaitUntil(at) => {
                assert!(at > now_ms);
                now_ms = at;
            }
            TransportAction::Watch if rest.is_empty() => return String::from_utf8(answered).unwrap(),
            TransportAction::Watch => {
                session.feed(rest);
                rest = &[];
            }
            TransportAction::More | TransportAction::Pending => {}
            // This transport cannot pass descriptors.
            TransportAction::HandOver => session.handed_over(false, toy, &mut answered),
            TransportAction::Close => return String::from_utf8(answered).unwrap(),
        }
    }
}
