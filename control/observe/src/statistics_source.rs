//! The rows of `show stat`: state and counters of each frontend, listener, server and backend.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use weir_backend::counters::{CounterSet, CurrentCount, ObjectCounters};
use weir_backend::server::weight;
use weir_backend::{
    BackendCounter, CheckStatus, FrontendCounter, FrontendRate, LatencyReading, OperationalState, Phase,
    Server, ServerCheck, ServerCounter,
};
use weir_stats::{
    FieldSet, Health, InfoRow, ProxyHead, RowCursor, RowSelection, StatsField, StatsObject, StatsRow,
    StatsSource,
};
use weir_stream::instance::{Instance, Listener, Proxy, ProxyState};

use super::columns::ColumnCounters;
use super::{LiveProcess, names, now_ms};

impl StatsSource for LiveProcess {
    fn visit_rows(
        &self,
        cursor: &mut RowCursor,
        selection: &RowSelection,
        row: &mut StatsRow,
        visit: &mut dyn FnMut(&StatsRow) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while let Some(proxy) = self.instance.proxies.get(cursor.proxy) {
            if !proxy.config.settings.disabled && selection.wants_proxy(proxy.config.id, proxy.name()) {
                visit_proxy(&self.instance, proxy, cursor, selection, row, visit)?;
            }
            *cursor = RowCursor { proxy: cursor.proxy + 1, ..RowCursor::default() };
        }
        ControlFlow::Continue(())
    }

    fn info(&self, float: bool, info: &mut InfoRow) {
        super::process_metrics::fill(self, float, info);
    }
}

/// The parts of a proxy, in row order.
const FRONTEND: u8 = 0;
const LISTENERS: u8 = 1;
const SERVERS: u8 = 2;
const BACKEND: u8 = 3;

/// Visits the rows of a proxy.
fn visit_proxy(
    instance: &Instance,
    proxy: &Proxy,
    cursor: &mut RowCursor,
    selection: &RowSelection,
    row: &mut StatsRow,
    visit: &mut dyn FnMut(&StatsRow) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let is_wanted = |kind: StatsObject| selection.kinds & kind.mask() != 0;
    if cursor.part == FRONTEND {
        cursor.part = LISTENERS;
        if proxy.config.is_frontend() && is_wanted(StatsObject::Frontend) {
            frontend(proxy, row);
            latencies(selection, row, |reading| proxy.frontend_counters.latencies(reading));
            visit(row)?;
        }
    }
    if cursor.part == LISTENERS {
        if proxy.config.settings.options.socket_statistics && is_wanted(StatsObject::Listener) {
            for of_proxy in proxy.listeners.iter().skip(cursor.object) {
                cursor.object += 1;
                listener(proxy, of_proxy, row);
                visit(row)?;
            }
        }
        (cursor.part, cursor.object) = (SERVERS, 0);
    }
    let Some(of_proxy) = &proxy.backend else { return ControlFlow::Continue(()) };
    if cursor.part == SERVERS {
        if is_wanted(StatsObject::Server) {
            let (servers, rows) = (of_proxy.servers(), ServerRows::new(instance, proxy, row));
            let first = cursor.object;
            for server in servers.iter_after(first) {
                rows.fill(server, cursor.object == first, row);
                cursor.object += 1;
                latencies(selection, row, |reading| server.counters().latencies(reading));
                visit(row)?;
            }
        }
        (cursor.part, cursor.object) = (BACKEND, 0);
    }
    if cursor.object == 0 && is_wanted(StatsObject::Backend) {
        cursor.object = 1;
        backend(proxy, of_proxy, row);
        latencies(selection, row, |reading| {
            proxy.backend_counters.latencies(reading);
            of_proxy.servers().iter().for_each(|server| server.counters().latencies(reading));
        });
        visit(row)?;
    }
    ControlFlow::Continue(())
}

/// Adds the latency histograms, if selected.
fn latencies(selection: &RowSelection, row: &mut StatsRow, read: impl FnOnce(&mut LatencyReading)) {
    if selection.latencies {
        let mut reading = LatencyReading::default();
        read(&mut reading);
        row.set_latencies(reading.into_phases());
    }
}

/// The proxy of a row. `has_servers` is computed only for rows that may start a proxy's table on the page, because it costs as much
/// as some counters.
fn head(proxy: &Proxy, has_servers: bool) -> ProxyHead<'_> {
    ProxyHead {
        id: proxy.config.id,
        name: proxy.name(),
        mode: proxy.config.mode().name(),
        frontend: proxy.config.is_frontend(),
        backend: proxy.config.is_backend(),
        has_servers,
        description: proxy.config.description.as_deref(),
    }
}

fn has_servers(proxy: &Proxy) -> bool {
    proxy.backend.as_ref().is_some_and(|backend| !backend.servers().is_empty())
}

pub(super) fn frontend(proxy: &Proxy, row: &mut StatsRow) {
    let now_ms = now_ms();
    let counters = &proxy.frontend_counters;
    row.begin(StatsObject::Frontend, &head(proxy, has_servers(proxy)), 0, "");
    fill(row, &columns(row, StatsObject::Frontend, proxy), counters);
    row.set_with(StatsField::Scur, || proxy.connections.inside());
    row.set_with(StatsField::Smax, || proxy.connections.maximum());
    row.set_with(StatsField::Slim, || proxy.connections_limit.load(Relaxed));
    row.set_with(StatsField::Status, || frontend_status(proxy));
    row.set_with(StatsField::Rate, || counters.rate(FrontendRate::Sessions, now_ms));
    row.set_with(StatsField::RateMax, || counters.rate_maximum(FrontendRate::Sessions, now_ms));
    row.set_with(StatsField::RateLim, || proxy.config.settings.session_rate_limit);
    row.set_with(StatsField::ReqRate, || counters.rate(FrontendRate::Requests, now_ms));
    row.set_with(StatsField::ReqRateMax, || counters.rate_maximum(FrontendRate::Requests, now_ms));
    row.set_with(StatsField::ConnRate, || counters.rate(FrontendRate::Connections, now_ms));
    row.set_with(StatsField::ConnRateMax, || counters.rate_maximum(FrontendRate::Connections, now_ms));
    if proxy.is_http() {
        let sum = |counter| counters.sum(counter);
        // The two counts are not read atomically, so the difference may be negative.
        row.set_with(StatsField::H1OpenConnections, || {
            let http2 = counters.level(CurrentCount::Http2Connections);
            u64::from(proxy.connections.inside()).saturating_sub(http2)
        });
        row.set_with(StatsField::H1TotalConnections, || {
            sum(FrontendCounter::Connections).saturating_sub(sum(FrontendCounter::Http2Connections))
        });
        levels(row, counters);
        row.set_with(StatsField::H1TotalStreams, || counters.sum(FrontendCounter::RequestsHttp1));
        row.set_with(StatsField::H1BytesIn, || counters.sum(FrontendCounter::BytesIn));
        row.set_with(StatsField::H1BytesOut, || counters.sum(FrontendCounter::BytesOut));
    }
}

/// The current HTTP/2 connections and streams.
fn levels<C: CounterSet, const N: usize, const R: usize>(
    row: &mut StatsRow,
    counters: &ObjectCounters<C, N, R>,
) {
    row.set_with(StatsField::H2OpenConnections, || counters.level(CurrentCount::Http2Connections));
    row.set_with(StatsField::H2BackendOpenStreams, || counters.level(CurrentCount::Http2Streams));
}

fn frontend_status(proxy: &Proxy) -> &'static str {
    match proxy.state() {
        ProxyState::Open => "OPEN",
        ProxyState::Paused => "PAUSED",
        ProxyState::Stopped => "STOP",
    }
}

pub(super) fn listener(proxy: &Proxy, listener: &Listener, row: &mut StatsRow) {
    row.begin(StatsObject::Listener, &head(proxy, has_servers(proxy)), listener.id, &listener.name);
    fill(row, &columns(row, StatsObject::Listener, proxy), &listener.counters);
    let limit = listener.bind.options.maxconn;
    row.set_with(StatsField::Scur, || listener.connections.inside());
    row.set_with(StatsField::Smax, || listener.connections.maximum());
    row.set_with(StatsField::Slim, || limit.unwrap_or(0));
    let full = limit.is_some_and(|limit| listener.connections.inside() >= limit);
    row.set_with(StatsField::Status, || if full { "FULL" } else { frontend_status(proxy) });
    if let Some(address) = &listener.address {
        row.set(StatsField::Addr, names::of_listener(address).as_str());
        row.set_with(StatsField::Proto, || names::protocol(address));
    }
}

/// The row of one server.
pub(super) fn server(instance: &Instance, proxy: &Proxy, server: &Server, row: &mut StatsRow) {
    ServerRows::new(instance, proxy, row).fill(server, true, row);
}

/// Data shared by all server rows of a backend.
struct ServerRows<'p> {
    instance: &'p Instance,
    proxy: &'p Proxy,
    head: ProxyHead<'p>,
    now_ms: u64,
    columns: Vec<(ServerCounter, StatsField)>,
    wanted: WantedGroups,
}

/// The column groups with at least one selected column.
struct WantedGroups {
    status: bool,
    checks: bool,
    state: bool,
    sessions: bool,
    pools: bool,
    address: bool,
    cookie: bool,
}

impl<'p> ServerRows<'p> {
    fn new(instance: &'p Instance, proxy: &'p Proxy, row: &StatsRow) -> Self {
        let wanted = WantedGroups {
            status: row.wants(StatsField::Status),
            checks: row.wants_any(&OF_CHECKS),
            state: row.wants_any(&OF_STATE),
            sessions: row.wants_any(&OF_SESSIONS),
            pools: row.wants_any(&OF_POOLS),
            address: row.wants(StatsField::Addr),
            cookie: row.wants(StatsField::Cookie),
        };
        let columns = columns(row, StatsObject::Server, proxy);
        ServerRows { instance, proxy, head: head(proxy, true), now_ms: now_ms(), columns, wanted }
    }

    fn fill(&self, server: &Server, is_first: bool, row: &mut StatsRow) {
        let &ServerRows { instance, proxy, ref head, now_ms, ref columns, ref wanted } = self;
        match is_first {
            true => row.begin(StatsObject::Server, head, server.id(), server.name()),
            false => row.begin_next(head, server.id(), server.name()),
        }
        if wanted.status {
            let (status, health) = status(instance, proxy, server, now_ms);
            row.set_health(health);
            row.set(StatsField::Status, &*status);
        }
        if wanted.checks {
            checks(server, row, now_ms);
        }
        if wanted.state {
            state(instance, proxy, server, row, now_ms);
        }
        if wanted.address {
            server.look_at_address(|address| row.set(StatsField::Addr, names::of_server(address).as_deref()));
        }
        if wanted.cookie {
            row.set(StatsField::Cookie, server.cookie().as_deref().map(String::as_str));
        }
        fill(row, columns, server.counters());
        if wanted.sessions {
            session_statistics(row, server.counters(), now_ms);
        }
        if wanted.pools {
            pools(server, row);
        }
    }
}

/// The column groups, each with its own function. A metric needs a column of one group, and the other groups are skipped.
const OF_STATE: FieldSet = FieldSet::of(&[
    StatsField::Ejections,
    StatsField::Tracked,
    StatsField::Weight,
    StatsField::Uweight,
    StatsField::Act,
    StatsField::Bck,
    StatsField::Qcur,
    StatsField::Qmax,
    StatsField::Scur,
    StatsField::Smax,
    StatsField::Slim,
    StatsField::Qlimit,
    StatsField::Lastchg,
    StatsField::Throttle,
]);

const OF_POOLS: FieldSet = FieldSet::of(&[
    StatsField::SrvIcur,
    StatsField::SrcIlim,
    StatsField::IdleConnCur,
    StatsField::SafeConnCur,
    StatsField::UsedConnCur,
    StatsField::NeedConnEst,
    StatsField::PrivIdleCur,
]);

const OF_SESSIONS: FieldSet = FieldSet::of(&[
    StatsField::Rate,
    StatsField::RateMax,
    StatsField::Lastsess,
    StatsField::Qtime,
    StatsField::QtimeMax,
    StatsField::Ctime,
    StatsField::CtimeMax,
    StatsField::Rtime,
    StatsField::RtimeMax,
    StatsField::Ttime,
    StatsField::TtimeMax,
]);

const OF_CHECKS: FieldSet = FieldSet::of(&[
    StatsField::Chkfail,
    StatsField::Chkdown,
    StatsField::Hanafail,
    StatsField::Downtime,
    StatsField::CheckStatus,
    StatsField::CheckCode,
    StatsField::CheckDuration,
    StatsField::LastChk,
    StatsField::CheckDesc,
    StatsField::CheckRise,
    StatsField::CheckFall,
    StatsField::CheckHealth,
    StatsField::AgentStatus,
    StatsField::AgentCode,
    StatsField::AgentDuration,
    StatsField::LastAgt,
    StatsField::AgentDesc,
    StatsField::AgentRise,
    StatsField::AgentFall,
    StatsField::AgentHealth,
]);

/// Weights, limits and use of a server.
fn state(instance: &Instance, proxy: &Proxy, server: &Server, row: &mut StatsRow, now_ms: u64) {
    let settings = server.settings();
    if row.wants(StatsField::Ejections)
        && let Some(ejections) = server.ejections()
    {
        row.set(StatsField::Ejections, ejections);
    }
    if row.wants(StatsField::Tracked)
        && let Some(leader) = leader(instance, proxy, server)
    {
        row.set(StatsField::Tracked, leader.0.as_str());
    }
    row.set_with(StatsField::Weight, || shown_weight(server, now_ms));
    row.set_with(StatsField::Uweight, || server.user_weight());
    row.set_with(StatsField::Act, || u32::from(!settings.backup));
    row.set_with(StatsField::Bck, || u32::from(settings.backup));
    row.set_with(StatsField::Qcur, || server.queued());
    row.set_with(StatsField::Qmax, || server.queued_maximum());
    row.set_with(StatsField::Scur, || server.served());
    row.set_with(StatsField::Smax, || server.served_maximum());
    row.set_with(StatsField::Slim, || unless_zero(server.maximum_connections()));
    row.set_with(StatsField::Qlimit, || unless_zero(settings.maximum_queue));
    row.set_with(StatsField::Lastchg, || seconds_since(server.last_change_ms(), now_ms));
    if row.wants(StatsField::Throttle) && server.operational_state(now_ms) == OperationalState::Starting {
        row.set(StatsField::Throttle, server.ramp(now_ms).percentage());
    }
}

/// Used and idle connections of a server.
fn pools(server: &Server, row: &mut StatsRow) {
    let pools = server.pools();
    let total = pools.total();
    row.set_with(StatsField::SrvIcur, || total.idle());
    row.set_with(StatsField::SrcIlim, || server.settings().pool.maximum);
    row.set_with(StatsField::IdleConnCur, || total.idle().saturating_sub(total.safe));
    row.set_with(StatsField::SafeConnCur, || total.safe);
    row.set_with(StatsField::UsedConnCur, || total.used);
    row.set_with(StatsField::NeedConnEst, || total.estimate);
    row.set_with(StatsField::PrivIdleCur, || pools.private());
}

/// Check results of a server. Paused or disabled checks have only totals.
fn checks(server: &Server, row: &mut StatsRow, now_ms: u64) {
    let speaks = |check: &ServerCheck| check.record().enabled && !server.admin_state().is_maintenance();
    if let Some(check) = server.health() {
        if check.record().enabled {
            row.set_with(StatsField::Chkfail, || check.record().failures);
            row.set_with(StatsField::Chkdown, || u64::from(server.downs()));
            if server.settings().observe.is_some() {
                row.set_with(StatsField::Hanafail, || check.record().observed_failures);
            }
            let downtime_s = server.downtime_ms(now_ms) / 1000;
            row.set_with(StatsField::Downtime, || u32::try_from(downtime_s).unwrap_or(u32::MAX));
        }
        if speaks(check) {
            let fields = CheckFields {
                status: StatsField::CheckStatus,
                code: StatsField::CheckCode,
                duration: StatsField::CheckDuration,
                last: StatsField::LastChk,
                description: StatsField::CheckDesc,
                rise: StatsField::CheckRise,
                fall: StatsField::CheckFall,
                level: StatsField::CheckHealth,
            };
            fields.fill(check, row);
        }
    }
    if let Some(agent) = server.agent().filter(|agent| agent.record().enabled) {
        let fields = CheckFields {
            status: StatsField::AgentStatus,
            code: StatsField::AgentCode,
            duration: StatsField::AgentDuration,
            last: StatsField::LastAgt,
            description: StatsField::AgentDesc,
            rise: StatsField::AgentRise,
            fall: StatsField::AgentFall,
            level: StatsField::AgentHealth,
        };
        fields.fill(agent, row);
    }
}

/// The columns of one check of a server.
struct CheckFields {
    status: StatsField,
    code: StatsField,
    duration: StatsField,
    last: StatsField,
    description: StatsField,
    rise: StatsField,
    fall: StatsField,
    level: StatsField,
}

impl CheckFields {
    fn fill(&self, check: &ServerCheck, row: &mut StatsRow) {
        let (record, rules) = (check.record(), check.rules());
        let found = &record.last;
        let running = if record.running { "* " } else { "" };
        row.set_joined(self.status, [running, found.status.word()]);
        if let Some(code) = found.code.filter(|_| found.status.has_code()) {
            // A negative code wraps around, as in HAProxy.
            row.set(self.code, code as u32);
        }
        if found.status != CheckStatus::Initializing {
            row.set(self.duration, found.duration_ms);
        }
        row.set(self.last, if found.detail_is_for_logs { "" } else { &*found.detail });
        row.set(self.description, found.status.description());
        row.set(self.rise, rules.rise);
        row.set(self.fall, rules.fall);
        row.set(self.level, record.level);
    }
}

/// The status text of a server, and its colour on the page.
fn status(instance: &Instance, proxy: &Proxy, server: &Server, now_ms: u64) -> (Cow<'static, str>, Health) {
    use weir_backend::AdminState;
    let admin = server.admin_state();
    let state = server.operational_state(now_ms);
    let (word, health) = if admin.contains(AdminState::FORCED_MAINTENANCE) {
        ("MAINT", Health::Maintenance)
    } else if admin.contains(AdminState::RESOLUTION_MAINTENANCE) {
        ("MAINT (resolution)", Health::Maintenance)
    } else if admin.is_maintenance() {
        let via = leader(instance, proxy, server)
            .map_or(Cow::Borrowed("MAINT (via)"), |leader| format!("MAINT (via {})", leader.0).into());
        return (via, Health::Maintenance);
    } else if admin.is_drain() && state != OperationalState::Stopped {
        let by_agent = server.agent().is_some_and(|agent| agent.record().enabled);
        (if by_agent { "DRAIN (agent)" } else { "DRAIN" }, Health::Drain)
    } else if server.is_ejected() && state != OperationalState::Stopped {
        ("EJECTED", Health::NoLoadBalancing)
    } else {
        return of_checks(instance, proxy, server, state);
    };
    (word.into(), health)
}

/// The name of the server tracked by this one, and the server at the end of the tracking chain. `None` without tracking.
fn leader(instance: &Instance, proxy: &Proxy, server: &Server) -> Option<(String, std::sync::Arc<Server>)> {
    let said = |proxy: &Proxy, place: usize| proxy.config.servers.get(place)?.leader;
    let mut at = said(proxy, server.key().index()).filter(|_| server.key().is_configured())?;
    let mut name = None;
    // The loop terminates: cycles were rejected at configuration time.
    loop {
        let proxy = instance.proxies.get(at.0 as usize)?;
        let leader = proxy.backend.as_ref()?.server(weir_backend::ServerKey::configured(at.1))?;
        let name = name.get_or_insert_with(|| format!("{}/{}", proxy.name(), leader.name()));
        match said(proxy, at.1 as usize) {
            Some(next) => at = next,
            None => return Some((std::mem::take(name), leader)),
        }
    }
}

/// Status text and colour of a server outside maintenance and drain: from its checks, with the progress towards the other state.
fn of_checks(
    instance: &Instance,
    proxy: &Proxy,
    server: &Server,
    state: OperationalState,
) -> (Cow<'static, str>, Health) {
    let agent = server.agent().filter(|agent| agent.record().enabled);
    if state == OperationalState::Stopped && agent.is_some_and(|agent| !agent.says_up()) {
        return ("DOWN (agent)".into(), Health::Down);
    }
    let leader = leader(instance, proxy, server);
    let checked = leader.as_ref().map_or(server, |leader| &leader.1);
    let check = checked.health().filter(|check| check.record().enabled);
    let (word, settled, changing) = match state {
        OperationalState::Stopped => ("DOWN", Health::Down, Health::GoingUp),
        OperationalState::Stopping => ("NOLB", Health::NoLoadBalancing, Health::NoLoadBalancing),
        OperationalState::Starting | OperationalState::Running if check.is_none() => {
            return ("no check".into(), Health::NotChecked);
        }
        OperationalState::Starting | OperationalState::Running => ("UP", Health::Up, Health::GoingDown),
    };
    match check.map(ServerCheck::progress) {
        Some((step, steps, is_up)) if step < steps && (is_up || step > 0) => {
            (format!("{word} {step}/{steps}").into(), changing)
        }
        _ => (word.into(), settled),
    }
}

/// The effective weight of an active server, in units of the configuration.
fn shown_weight(server: &Server, now_ms: u64) -> u32 {
    weight::displayed(weight::effective(server.user_weight(), server.ramp(now_ms)))
}

pub(super) fn backend(proxy: &Proxy, backend: &weir_backend::Backend, row: &mut StatsRow) {
    let now_ms = now_ms();
    let status = std::cell::LazyCell::new(|| backend.status(now_ms));
    let has_servers = !backend.servers().is_empty();
    row.begin(StatsObject::Backend, &head(proxy, has_servers), 0, "");
    fill(row, &columns(row, StatsObject::Backend, proxy), &proxy.backend_counters);
    session_statistics(row, &proxy.backend_counters, now_ms);
    row.set_with(StatsField::Status, || if status.up || !has_servers { "UP" } else { "DOWN" });
    row.set_with(StatsField::Weight, || status.weight);
    row.set_with(StatsField::Uweight, || user_weight(backend, status.active == 0));
    row.set_with(StatsField::Act, || status.active);
    row.set_with(StatsField::Bck, || status.backup);
    row.set_with(StatsField::Qcur, || backend.queued());
    row.set_with(StatsField::Qmax, || backend.queued_maximum());
    row.set_with(StatsField::Scur, || backend.sessions());
    row.set_with(StatsField::Smax, || backend.sessions_maximum());
    row.set_with(StatsField::Slim, || backend.settings().full_connections);
    row.set_with(StatsField::Chkdown, || u64::from(status.downs));
    if backend.settings().outliers.is_some() {
        let ejections = || backend.servers().iter().filter_map(|server| server.ejections()).sum::<u64>();
        row.set_with(StatsField::Ejections, ejections);
    }
    row.set_with(StatsField::Lastchg, || seconds_since(status.last_change_ms, now_ms));
    if has_servers {
        row.set_with(StatsField::Downtime, || u32::try_from(status.downtime_ms / 1000).unwrap_or(u32::MAX));
    }
    if proxy.is_http() {
        let counters = &proxy.backend_counters;
        let sum = |counter| counters.sum(counter);
        let requests = || sum(BackendCounter::Connects) + sum(BackendCounter::Reuses);
        let all = |counter: fn(&Server) -> u32| {
            backend.servers().iter().map(|server| u64::from(counter(server))).sum::<u64>()
        };
        let open = || all(|server| server.pools().total().used) + all(|server| server.pools().total().idle());
        let (http2, multiplexed) = (CurrentCount::Http2Connections, CurrentCount::Http2Streams);
        // The counts are not read atomically, so the difference may be negative.
        row.set_with(StatsField::H1OpenConnections, || open().saturating_sub(counters.level(http2)));
        row.set_with(StatsField::H1OpenStreams, || {
            all(Server::served).saturating_sub(counters.level(multiplexed))
        });
        row.set_with(StatsField::H1TotalConnections, || {
            sum(BackendCounter::Connects).saturating_sub(sum(BackendCounter::Http2Connections))
        });
        row.set_with(StatsField::H1TotalStreams, || {
            requests().saturating_sub(sum(BackendCounter::Http2Streams))
        });
        levels(row, counters);
        row.set_with(StatsField::H1BytesIn, || counters.sum(BackendCounter::ResponseBytesIn));
        row.set_with(StatsField::H1BytesOut, || counters.sum(BackendCounter::RequestBytesOut));
    }
    row.set_with(StatsField::Algo, || proxy.config.settings.balance.word.name);
    row.set_with(StatsField::Cookie, || proxy.config.settings.cookie.as_ref().map(|cookie| &*cookie.name));
}

/// The sum of the user weights of the servers that currently share the traffic. `on_backups`: these are the backup servers.
fn user_weight(backend: &weir_backend::Backend, on_backups: bool) -> u32 {
    let shares = |server: &Server| {
        let admin = server.admin_state();
        server.is_up()
            && !admin.is_maintenance()
            && !admin.is_drain()
            && server.settings().backup == on_backups
    };
    let servers = backend.servers();
    servers.iter().filter(|server| shares(server)).map(|server| server.user_weight()).sum()
}

/// Columns of servers and backends that are not counters.
fn session_statistics<C: CounterSet, const N: usize>(
    row: &mut StatsRow,
    counters: &ObjectCounters<C, N, 1>,
    now_ms: u64,
) {
    row.set_with(StatsField::Rate, || counters.rate(0_usize, now_ms));
    row.set_with(StatsField::RateMax, || counters.rate_maximum(0_usize, now_ms));
    row.set_with(StatsField::Lastsess, || {
        let age = |at_ms| i32::try_from(now_ms.saturating_sub(at_ms) / 1000).unwrap_or(i32::MAX);
        counters.last_session_ms().map_or(-1, age)
    });
    let times = [
        (StatsField::Qtime, StatsField::QtimeMax, Phase::Queue),
        (StatsField::Ctime, StatsField::CtimeMax, Phase::Connect),
        (StatsField::Rtime, StatsField::RtimeMax, Phase::Response),
        (StatsField::Ttime, StatsField::TtimeMax, Phase::Total),
    ];
    for (average, longest, phase) in times {
        row.set_with(average, || counters.average(phase));
        row.set_with(longest, || counters.longest(phase));
    }
}

/// The counters of a kind of object in a row, with their columns.
fn columns<C: ColumnCounters>(row: &StatsRow, kind: StatsObject, proxy: &Proxy) -> Vec<(C, StatsField)> {
    let is_http = proxy.is_http();
    // The caller sets the columns that only some objects have.
    let is_shown = |field: StatsField| {
        field.decl().fill.is_zero(kind, is_http) && field.applies_to(kind) && row.wants(field)
    };
    let of_counter = |counter: C| Some((counter, counter.column())).filter(|(_, field)| is_shown(*field));
    match row.only() {
        None => C::ALL.iter().copied().filter_map(of_counter).collect(),
        Some(only) => only.iter().filter_map(C::of).filter_map(of_counter).collect(),
    }
}

/// Writes counters into their columns.
fn fill<C: ColumnCounters, const N: usize, const R: usize>(
    row: &mut StatsRow,
    columns: &[(C, StatsField)],
    counters: &ObjectCounters<C, N, R>,
) {
    for (counter, field) in columns {
        row.set(*field, counters.sum(*counter));
    }
    // All bytes from clients count as received in requests, and all bytes to clients as sent in responses.
    for (total, part) in [(StatsField::Bin, StatsField::Reqbin), (StatsField::Bout, StatsField::Resbout)] {
        row.set_with(part, || C::of(total).map(|counter| counters.sum(counter)));
    }
}

fn unless_zero(limit: u32) -> Option<u32> {
    (limit > 0).then_some(limit)
}

fn seconds_since(moment_ms: u64, now_ms: u64) -> u32 {
    u32::try_from(now_ms.saturating_sub(moment_ms) / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
