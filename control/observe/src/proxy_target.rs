//! Implements the runtime API's operations on frontends, backends and servers.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_backend::{
    AdminState, CheckKind, CheckResult, DynamicCookies, OperationalState, Redirection, RequestedState,
    Server, ServerChange, WeightChange,
};
use weir_cli::target::{
    AddressChange, BackendKey, CapturedError, CheckRedirection, Direction, ErrorFilter, FrontendKey,
    FrontendRefusal, ListPosition, PortSetting, ProxyTarget, ServerConnections, ServerHealth, ServerKey,
    ServerRefusal, ServerState, ServerView, check_state,
};
use weir_dns::Name;
use weir_events::WallTime;
use weir_model::{Host, ServerPort};
use weir_resolvers::{NameFollower, RenameError};
use weir_stream::ending::By;
use weir_stream::errors::{self, RefusedMessage};
use weir_stream::instance::{Instance, Proxy, ProxyState};
use weir_tls::LiveUpstream;

use super::added_servers::forget_connections;
use super::{LiveTarget, names, notices, now_ms, session_target};

impl LiveTarget {
    fn instance(&self) -> &Instance {
        &self.live.instance
    }

    pub(super) fn proxy_of(&self, index: u64) -> Option<&Proxy> {
        self.instance().proxies.get(usize::try_from(index).ok()?)
    }

    pub(super) fn server_of(&self, key: ServerKey) -> Option<(&Proxy, Arc<Server>)> {
        let proxy = self.proxy_of(key.backend.0)?;
        let server = proxy.backend.as_ref()?.server(weir_backend::ServerKey::from_number(key.server))?;
        Some((proxy, server))
    }

    /// The resolver entry of a server's name. `None` for a server without one.
    fn followed(&self, proxy: &Proxy, server: &Server) -> Option<NameFollower> {
        self.live.record.resolvers.as_ref()?.follower(proxy.backend.as_ref()?, server.key())
    }

    fn change(&self, key: ServerKey, change: ServerChange) -> Result<(), ServerRefusal> {
        let (proxy, server) = self.server_of(key).ok_or(ServerRefusal::Gone)?;
        notices::change_server(&self.live, proxy, &server, change)
            .map_err(|error| ServerRefusal::Because(error.to_string()))
    }

    fn change_dynamic_cookies(&self, backend: BackendKey, change: impl FnOnce(&mut DynamicCookies)) -> bool {
        let backend = self.proxy_of(backend.0).and_then(|proxy| proxy.backend.as_ref());
        backend.map(|backend| backend.change_dynamic_cookies(change)).is_some()
    }

    fn open_frontend(&self, key: FrontendKey) -> Result<&Proxy, FrontendRefusal> {
        self.proxy_of(key.0).filter(|proxy| proxy.state() != ProxyState::Stopped).ok_or(FrontendRefusal::Gone)
    }
}

fn key_of(proxy: &Proxy, server: &Server) -> ServerKey {
    ServerKey { backend: BackendKey(proxy.index as u64), server: server.key().to_number() }
}

impl ProxyTarget for LiveTarget {
    fn proxy_id(&self, name: &str) -> Option<u32> {
        names::proxy(self.instance(), name, names::any_side).map(|proxy| proxy.config.id)
    }

    fn frontend(&self, name: &str) -> Option<FrontendKey> {
        names::proxy(self.instance(), name, names::frontend_side).map(|proxy| FrontendKey(proxy.index as u64))
    }

    fn backend(&self, name: &str) -> Option<BackendKey> {
        names::proxy(self.instance(), name, names::backend_side).map(|proxy| BackendKey(proxy.index as u64))
    }

    fn server(&self, backend: BackendKey, name: &str) -> Option<ServerKey> {
        let proxy = self.proxy_of(backend.0)?;
        Some(key_of(proxy, &*names::server(proxy, name)?))
    }

    fn next_backend(&self, place: &mut ListPosition) -> Option<String> {
        let proxies = self.instance().proxies.get(usize::try_from(*place).ok()?..)?;
        let next = proxies.iter().find(|proxy| names::backend_side(proxy))?;
        *place = next.index as u64 + 1;
        Some(next.name().to_owned())
    }

    fn next_server(&self, backend: Option<BackendKey>, place: &mut ListPosition) -> Option<ServerKey> {
        // The position combines the proxy index (high 32 bits) and the next server's index.
        if let (Some(backend), 0) = (backend, *place) {
            *place = backend.0 << 32;
        }
        loop {
            let index = *place >> 32;
            let proxy = self.proxy_of(index)?;
            if backend.is_some_and(|backend| backend.0 != index) {
                return None;
            }
            let servers = proxy.backend.as_ref().map(|backend| backend.servers()).unwrap_or_default();
            match servers.get((*place & u64::from(u32::MAX)) as usize) {
                Some(server) => {
                    *place += 1;
                    return Some(key_of(proxy, server));
                }
                None => *place = (index + 1) << 32,
            }
        }
    }

    fn server_view(&self, server: ServerKey) -> Option<ServerView> {
        let (proxy, server) = self.server_of(server)?;
        let now_ms = now_ms();
        let followed = self.followed(proxy, &server);
        let address = server.address();
        let admin = server.admin_state();
        let known = proxy.known_server(server.key());
        let dial = known.as_deref().map(|known| &known.settings.check);
        let agent = dial.and_then(|said| said.agent.as_deref());
        let of_health = redirection(&server, CheckKind::Health);
        let of_agent = redirection(&server, CheckKind::Agent);
        Some(ServerView {
            address: address.ip(),
            port: address.port().map_or(PortSetting::Fixed(0), port_setting),
            port_is_configured: address.port() == server.settings().address.port(),
            operational_state: server.operational_state(now_ms) as u8,
            uses_ssl: uses_tls(
                proxy.server_tls(server.key()).as_deref(),
                known.as_deref().map(|known| &known.settings),
            ),
            administrative_state: admin.bits(),
            user_weight: server.user_weight(),
            initial_weight: server.initial_weight(),
            static_balance: proxy.backend.as_ref().is_some_and(|backend| backend.is_static()),
            last_change_s: now_ms.saturating_sub(server.last_change_ms()) / 1000,
            check: check_numbers(&server, CheckKind::Health, dial.map_or(0, |said| said.rise)),
            agent_state: agent_state(&server),
            agent_address: of_agent
                .address
                .or(agent.and_then(|agent| agent.address.as_ref()).and_then(Host::ip)),
            agent_port: of_agent.port.or(agent.and_then(|agent| agent.port)).unwrap_or(0),
            check_port: of_health.port.or(dial.and_then(|said| said.port)).unwrap_or(0),
            check_address: of_health
                .address
                .or(dial.and_then(|said| said.address.as_ref()).and_then(Host::ip)),
            backend_id_forced: proxy.config.id_is_forced,
            id_forced: known.as_ref().is_some_and(|known| known.id_is_forced),
            fqdn: match &followed {
                Some(followed) => followed.name.as_ref().map(ToString::to_string),
                None => known.as_deref().and_then(host_name),
            },
            srv_record: followed
                .as_ref()
                .and_then(|followed| followed.service.as_ref())
                .map(ToString::to_string),
            ..ServerView::new((proxy.config.id, proxy.name()), (server.id(), server.name()))
        })
    }

    fn server_connections(&self, server: ServerKey, view: &mut ServerConnections) -> bool {
        let Some((proxy, server)) = self.server_of(server) else { return false };
        view.backend_id = proxy.config.id;
        view.backend_name.clear();
        view.backend_name.push_str(proxy.name());
        view.id = server.id();
        view.name.clear();
        view.name.push_str(server.name());
        server.look_at_address(|address| {
            view.address = address.ip();
            view.port = address.port().map_or(0, |port| port_setting(port).number());
        });
        let (settings, pools) = (server.settings().pool, server.pools());
        let total = pools.total();
        view.purge_delay_ms = settings.purge_delay_ms;
        view.served = server.served();
        view.used_now = total.used;
        view.used_max = total.used_maximum;
        view.needed = total.estimate;
        view.idle_in_sessions = pools.private();
        view.idle_now = total.idle();
        view.safe_idle = total.safe;
        view.unsafe_idle = total.idle().saturating_sub(total.safe);
        view.idle_limit = settings.maximum.map_or(-1, i64::from);
        view.idle_per_worker.clear();
        view.idle_per_worker.extend((0..self.workers()).map(|worker| pools.idle_of(worker)));
        true
    }

    fn workers(&self) -> usize {
        self.instance().process_counters.len()
    }

    fn set_server_weight(&mut self, server: ServerKey, weight: u32) -> Result<(), ServerRefusal> {
        self.change(server, ServerChange::Weight(WeightChange::Absolute(weight)))
    }

    fn set_server_name(&mut self, key: ServerKey, name: &str) -> Result<Option<String>, ServerRefusal> {
        let (proxy, server) = self.server_of(key).ok_or(ServerRefusal::Gone)?;
        let because = |text: &str| ServerRefusal::Because(text.to_owned());
        let none = || because("set server <b>/<s> fqdn failed because no resolution is configured.");
        let backend = proxy.backend.as_ref().ok_or(ServerRefusal::Gone)?;
        let resolvers = self.live.record.resolvers.as_ref().ok_or_else(none)?;
        let Ok(name) = Name::parse(name.as_bytes()) else {
            let (backend, server) = (proxy.name(), server.name());
            return Err(because(&format!(
                "could not update {backend}/{server} FQDN by 'stats socket command'"
            )));
        };
        let former = resolvers.rename(backend, server.key(), &name).map_err(|error| match error {
            RenameError::NotResolved => none(),
            RenameError::FollowsService => {
                because("set server <b>/<s> fqdn failed because SRV resolution is configured.")
            }
        })?;
        Ok(former.map(|name| name.to_string()))
    }

    fn set_server_state(&mut self, key: ServerKey, state: ServerState) -> Result<(), ServerRefusal> {
        let (proxy, server) = self.server_of(key).ok_or(ServerRefusal::Gone)?;
        let state = match state {
            ServerState::Ready => RequestedState::Ready,
            ServerState::Drain => RequestedState::Drain,
            ServerState::Maintenance => RequestedState::Maintenance,
        };
        self.change(key, ServerChange::State(state))?;
        if server.admin_state().is_maintenance() {
            forget_connections(&self.live.instance, proxy, &server);
        }
        Ok(())
    }

    fn set_server_address(&mut self, server: ServerKey, change: AddressChange) -> Result<(), ServerRefusal> {
        let (proxy, known) = self.server_of(server).ok_or(ServerRefusal::Gone)?;
        if let Some(why) = address_refusal(proxy, &known, change) {
            return Err(ServerRefusal::Because(why.to_owned()));
        }
        let port = change.port.map(|port| match port {
            PortSetting::Fixed(port) => ServerPort::Fixed(port),
            PortSetting::Offset(offset) => ServerPort::Mapped(offset),
        });
        self.change(server, ServerChange::Address { ip: change.address, port })?;
        forget_connections(&self.live.instance, proxy, &known);
        Ok(())
    }

    fn set_server_maxconn(&mut self, server: ServerKey, maxconn: u32) -> Result<(), ServerRefusal> {
        self.change(server, ServerChange::MaximumConnections(maxconn))
    }

    fn shutdown_server_sessions(&mut self, server: ServerKey) -> bool {
        let Some((proxy, server)) = self.server_of(server) else { return false };
        session_target::shutdown_on_server(proxy.index, server.key(), By::Killed);
        true
    }

    fn clear_server_counters(&mut self, server: ServerKey) -> bool {
        let Some((proxy, server)) = self.server_of(server) else { return false };
        server.clear_maxima();
        proxy.backend_counters.absorb_latencies(server.counters());
        server.counters().clear();
        true
    }

    fn set_server_tls(&mut self, server: ServerKey, on: bool) -> bool {
        let Some((proxy, server)) = self.server_of(server) else { return false };
        let says_something =
            proxy.known_server(server.key()).is_some_and(|known| known.settings.tls.is_some());
        let Some(tls) = proxy.server_tls(server.key()).filter(|_| says_something) else { return false };
        tls.set_carries_traffic(on);
        // Idle connections were opened with the former TLS setting.
        forget_connections(&self.live.instance, proxy, &server);
        true
    }

    fn set_server_agent(&mut self, server: ServerKey, up: bool) -> bool {
        let has_agent = self.server_of(server).is_some_and(|(_, server)| server.agent().is_some());
        has_agent && self.change(server, ServerChange::Agent { up }).is_ok()
    }

    fn redirect_checks(
        &mut self,
        server: ServerKey,
        kind: weir_cli::target::CheckKind,
        to: CheckRedirection,
    ) -> bool {
        let Some((_, server)) = self.server_of(server) else { return false };
        let Some(check) = server.check(kind_of(kind)).filter(|check| check.record().enabled) else {
            return false;
        };
        let mut record = check.record();
        let now = record.redirection.get_or_insert_default();
        now.address = to.address.or(now.address);
        // Port 0 removes the port redirection.
        now.port = to.port.or(now.port).filter(|port| *port > 0);
        now.send = to.send.map(Arc::from).or(now.send.take());
        true
    }

    fn enable_checks(&mut self, server: ServerKey, kind: weir_cli::target::CheckKind, enabled: bool) -> bool {
        let Some((_, server)) = self.server_of(server) else { return false };
        server.check(kind_of(kind)).map(|check| check.record().enabled = enabled).is_some()
    }

    fn set_server_health(&mut self, server: ServerKey, health: ServerHealth) -> Result<(), ServerRefusal> {
        let state = match health {
            ServerHealth::Up => OperationalState::Running,
            ServerHealth::Stopping => OperationalState::Stopping,
            ServerHealth::Down => OperationalState::Stopped,
        };
        self.change(server, ServerChange::Health(state))
    }

    fn publish_backend(&mut self, backend: BackendKey, published: bool) -> bool {
        let proxy = self.proxy_of(backend.0).filter(|proxy| !proxy.config.settings.disabled);
        proxy.map(|proxy| proxy.published.store(published, Relaxed)).is_some()
    }

    fn enable_dynamic_cookies(&mut self, backend: BackendKey, enabled: bool) -> bool {
        self.change_dynamic_cookies(backend, |cookies| cookies.enabled = enabled)
    }

    fn set_dynamic_cookie_key(&mut self, backend: BackendKey, key: &str) -> bool {
        self.change_dynamic_cookies(backend, |cookies| cookies.key = Some(key.to_owned()))
    }

    fn added_server_words(&self) -> Vec<&'static str> {
        weir_config::added_server_words().collect()
    }

    fn add_server(&mut self, backend: BackendKey, name: &str, words: &[String]) -> Result<(), String> {
        self.add(backend, name, words)
    }

    fn delete_server(&mut self, server: ServerKey) -> Result<(), String> {
        self.remove(server)
    }

    fn set_frontend_maxconn(&mut self, frontend: FrontendKey, maxconn: u32) -> Result<(), FrontendRefusal> {
        let proxy = self.proxy_of(frontend.0).ok_or(FrontendRefusal::Gone)?;
        proxy.connections_limit.store(maxconn, Relaxed);
        proxy.connections.offer_all();
        Ok(())
    }

    fn disable_frontend(&mut self, frontend: FrontendKey) -> Result<(), FrontendRefusal> {
        let proxy = self.open_frontend(frontend)?;
        if proxy.state() == ProxyState::Paused {
            return Err(FrontendRefusal::Already);
        }
        notices::change_frontend_state(&self.live, proxy, ProxyState::Paused);
        Ok(())
    }

    fn enable_frontend(&mut self, frontend: FrontendKey) -> Result<(), FrontendRefusal> {
        let proxy = self.open_frontend(frontend)?;
        if proxy.state() == ProxyState::Open {
            return Err(FrontendRefusal::Already);
        }
        if !notices::change_frontend_state(&self.live, proxy, ProxyState::Open) {
            return Err(FrontendRefusal::Because(
                "Failed to resume frontend, check logs for precise cause (port conflict?).".to_owned(),
            ));
        }
        Ok(())
    }

    fn shutdown_frontend(&mut self, frontend: FrontendKey) -> Result<(), FrontendRefusal> {
        let proxy = self.open_frontend(frontend)?;
        notices::change_frontend_state(&self.live, proxy, ProxyState::Stopped);
        Ok(())
    }

    fn captured_errors(&self) -> u32 {
        u32::try_from(self.instance().refused.total()).unwrap_or(u32::MAX)
    }

    fn next_captured_error(&self, filter: &ErrorFilter, place: &mut ListPosition) -> Option<CapturedError> {
        let wanted = |direction: errors::MessageDirection| match filter.only {
            None => true,
            Some(Direction::Request) => direction == errors::MessageDirection::Request,
            Some(Direction::Response) => direction == errors::MessageDirection::Response,
        };
        loop {
            // Each proxy has two positions, one per direction.
            let (index, message) = self.instance().refused.next(usize::try_from(*place).ok()?)?;
            *place = index as u64 + 1;
            let proxy = self.proxy_of(index as u64 / 2)?;
            if wanted(message.direction) && filter.proxy_id.is_none_or(|id| id == proxy.config.id) {
                return Some(self.captured(proxy, message));
            }
        }
    }
}

impl LiveTarget {
    fn captured(&self, proxy: &Proxy, message: RefusedMessage) -> CapturedError {
        let instance = self.instance();
        let named = |index: usize| {
            instance.proxies.get(index).map(|proxy| (proxy.name().to_owned(), proxy.config.id))
        };
        let backend = message.backend.and_then(|index| instance.proxies.get(index));
        let server = backend.zip(message.server.as_deref()).and_then(|(backend, name)| {
            let server = backend.backend.as_ref()?.server_by_name(name)?;
            Some((name.to_owned(), server.id()))
        });
        let buffer_size = instance.limits.buffer_size;
        CapturedError {
            time: WallTime::from_micros(i64::try_from(message.at_us).unwrap_or(i64::MAX)),
            direction: match message.direction {
                errors::MessageDirection::Request => Direction::Request,
                errors::MessageDirection::Response => Direction::Response,
            },
            proxy: (proxy.name().to_owned(), proxy.config.id),
            other_side: match message.direction {
                errors::MessageDirection::Request => message.backend.and_then(named),
                errors::MessageDirection::Response => named(message.frontend),
            },
            server,
            number: u32::try_from(message.number).unwrap_or(u32::MAX),
            source: message.source.into(),
            buffer_free: buffer_size.saturating_sub(message.bytes.len()),
            buffer_size,
            position: message.position,
            details: vec![format!("H1 stream {}, refused for {}", message.stream, message.reason)],
            bytes: message.bytes.into_vec(),
        }
    }
}

fn host_name(server: &weir_model::Server) -> Option<String> {
    match &server.address {
        weir_model::ServerAddress::Inet { host: Host::Name { name, .. }, .. } => Some(name.to_string()),
        _ => None,
    }
}

/// Why this address change is not possible. `None` if it is possible.
fn address_refusal(proxy: &Proxy, server: &Server, change: AddressChange) -> Option<&'static str> {
    if server.address().port().is_none() {
        return Some("The server is on a unix socket: its address cannot be changed.");
    }
    let is_mapping = matches!(change.port, Some(PortSetting::Offset(_)));
    if is_mapping && proxy.config.mode() == weir_model::Mode::Log {
        return Some("can't change <port> to port map because log messages arrive without a client port");
    }
    if is_mapping && !is_checked_at_port(proxy, server) {
        return Some(
            "can't change <port> to port map because it is incompatible with current health check port \
             configuration (use 'port' statement from the 'server' directive)",
        );
    }
    None
}

/// Whether the checks of a server use a port independent of the server's own port.
fn is_checked_at_port(proxy: &Proxy, server: &Server) -> bool {
    let Some(known) = proxy.known_server(server.key()) else { return true };
    if server.health().is_none() || redirection(server, CheckKind::Health).port.is_some() {
        return true;
    }
    let mut mapped = weir_model::Server::clone(&known);
    let host = Host::Ip(Ipv4Addr::LOCALHOST.into());
    mapped.address = weir_model::ServerAddress::Inet { host, port: ServerPort::Mapped(0) };
    proxy.config.settings.checks.lack_of_port(&mapped).is_none()
}

fn port_setting(port: ServerPort) -> PortSetting {
    match port {
        ServerPort::Fixed(port) => PortSetting::Fixed(port),
        ServerPort::Mapped(offset) => PortSetting::Offset(offset),
    }
}

fn kind_of(kind: weir_cli::target::CheckKind) -> CheckKind {
    match kind {
        weir_cli::target::CheckKind::Health => CheckKind::Health,
        weir_cli::target::CheckKind::Agent => CheckKind::Agent,
    }
}

/// The destination of a server's checks, as redirected by operators.
fn redirection(server: &Server, kind: CheckKind) -> Redirection {
    let said = server.check(kind).and_then(|check| check.record().redirection.clone());
    said.map_or_else(Redirection::default, |said| *said)
}

/// Status, result, health and state of a check, as numbers of the management manual. In maintenance, the check level is 0.
fn check_numbers(server: &Server, kind: CheckKind, unchecked_level: u32) -> (u32, u32, u32, u32) {
    let (admin, in_maintenance) = (server.admin_state(), server.admin_state().is_maintenance());
    let level = |level: u32| if in_maintenance { 0 } else { level };
    let Some(check) = server.check(kind) else {
        // A server configured as disabled has this state even without checks.
        let configured_off = admin.contains(AdminState::CONFIGURED_MAINTENANCE);
        return (1, 0, level(unchecked_level), if configured_off { check_state::PAUSED } else { 0 });
    };
    let record = check.record();
    let marks = [
        (check_state::RUNNING, record.running),
        (check_state::CONFIGURED, true),
        (check_state::ENABLED, record.enabled),
        (check_state::PAUSED, in_maintenance && record.enabled),
    ];
    let state = marks.into_iter().filter(|(_, holds)| *holds).map(|(mark, _)| mark).sum();
    // A check in progress does not have a result yet.
    let result = if record.running { CheckResult::Unknown } else { record.result };
    (record.last.status as u32, result as u32, level(record.level), state)
}

/// The state bits of a server's agent check.
fn agent_state(server: &Server) -> u32 {
    if server.agent().is_none() {
        return 0;
    }
    let (.., state) = check_numbers(server, CheckKind::Agent, 0);
    (state & !check_state::PAUSED) | check_state::AGENT
}

/// Whether connections to a server use TLS. `None` if `no-ssl` removed the setting and no command has set it since.
fn uses_tls(live: Option<&LiveUpstream>, settings: Option<&weir_model::ServerSettings>) -> Option<bool> {
    let uses = live.is_some_and(LiveUpstream::carries_traffic);
    let is_taken_back =
        settings.and_then(|settings| settings.tls.as_ref()).is_some_and(|tls| tls.is_taken_back);
    let is_open = is_taken_back && !uses && live.is_none_or(LiveUpstream::is_as_configured);
    (!is_open).then_some(uses)
}

#[cfg(test)]
mod tests {
    use weir_counting::allocations;

    use super::super::fixture::{run_command, with_backend, with_live};
    use crate::LiveProcess;

    #[track_caller]
    fn check(live: &LiveProcess, command: &str, expected: &str) {
        assert_eq!(run_command(live, command), format!("{expected}\n"), "{command}");
    }

    fn states(live: &LiveProcess) -> String {
        let answer = run_command(live, "show servers state be");
        answer.lines().skip(2).map(|line| line.to_owned() + "\n").collect()
    }

    #[test]
    fn server_state_commands_change_the_administrative_state() {
        with_live(|live| {
            check(&live, "disable server be/s1", "");
            check(&live, "set server be/s2 state drain", "");
            check(&live, "set server be/#4 state ready", "");
            check(&live, "disable server be/nosuch", "No such server.\n");
            check(&live, "disable server nosuch/s1", "No such backend.\n");
            assert_eq!(
                states(&live),
                "3 be 1 s1 127.0.0.1 0 1 10 10 0 1 0 0 0 0 0 0 - 18090 - 0 0 - - 0\n\
                 3 be 2 s2 127.0.0.1 2 8 20 20 0 1 0 2 0 0 0 0 - 18091 - 0 0 - - 0\n\
                 3 be 3 s3 127.0.0.1 2 0 1 1 0 1 0 2 0 0 0 0 - 18092 - 0 0 - - 0\n\
                 3 be 4 s4 127.0.0.1 2 4 1 1 0 1 0 2 8 0 0 0 - 18093 - 0 0 - - 0\n\
                 3 be 5 s5 - 2 0 1 1 0 1 0 2 0 0 0 0 - 0 - 0 0 - - 0\n\n"
            );
            check(&live, "enable server be/s1", "");
            assert!(states(&live).starts_with("3 be 1 s1 127.0.0.1 2 0 "));
        });
    }

    #[test]
    fn server_commands_change_weight_maxconn_and_address() {
        with_live(|live| {
            check(&live, "set weight be/s1 50%", "");
            check(&live, "get weight be/s1", "5 (initial 10)\n");
            check(
                &live,
                "set weight bs/t1 3",
                "Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.\n",
            );
            check(&live, "set maxconn server be/s1 3", "");
            check(
                &live,
                "set server be/s1 addr 127.0.0.2 port 99",
                "IP changed from '127.0.0.1' to '127.0.0.2', port changed from '18090' to '99' by 'stats socket \
                 command'\n",
            );
            check(
                &live,
                "set server be/s5 addr 127.0.0.2",
                "The server is on a unix socket: its address cannot be changed.\n",
            );
            assert!(states(&live).starts_with("3 be 1 s1 127.0.0.2 2 0 5 10 0 1 0 2 0 0 0 0 - 99 "));
        });
    }

    #[test]
    fn show_servers_conn_lists_idle_connections_of_each_worker() {
        with_live(|live| {
            check(
                &live,
                "show servers conn bs",
                "# bkname/svname bkid/svid addr port - purge_delay served used_cur used_max need_est idle_sess \
                 unsafe_nb safe_nb idle_lim idle_cur idle_per_thr[1]\n\
                 bs/t1 5/1 127.0.0.1 18090 - 5000 0 0 0 0 0 0 0 -1 0 0\n\
                 bs/t2 5/2 ::1 18090 - 5000 0 0 0 0 0 0 0 -1 0 0\n",
            );
            check(&live, "show backend", "# name\nbe\nemp\nbs\ntcp1\n");
        });
    }

    #[test]
    fn show_servers_conn_does_not_allocate_for_each_server() {
        with_backend(300, |live| {
            let count = |command: &str| {
                let before = allocations();
                assert_eq!(
                    run_command(&live, command).lines().filter(|line| line.starts_with("farm/")).count(),
                    300
                );
                allocations() - before
            };
            let counted = count("show servers conn farm");
            assert!(counted < 100, "{counted} allocations");
        });
    }

    #[test]
    fn frontend_commands_pause_resume_and_stop_the_listeners() {
        with_live(|live| {
            check(&live, "disable frontend fe", "");
            check(&live, "disable frontend fe", "All sockets are already disabled.\n");
            assert!(run_command(&live, "show stat fe 1 -1").contains(",PAUSED,"));
            check(&live, "enable frontend fe", "");
            check(&live, "enable frontend fe", "All sockets are already enabled.\n");
            check(&live, "set maxconn frontend fe 7", "");
            assert!(run_command(&live, "show stat fe 1 -1").contains("fe,FRONTEND,,,0,0,7,"));
            check(&live, "shutdown frontend fe", "");
            check(&live, "enable frontend fe", "Frontend was previously shut down, cannot enable.\n");
            check(&live, "disable frontend fe", "Frontend was previously shut down, cannot disable.\n");
            check(&live, "shutdown frontend fe", "Frontend was already shut down.\n");
        });
    }
}
