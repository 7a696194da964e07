//! The process as scripts see and change it. Changes are those of the runtime API.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_backend::{Server, ServerAddress};
use weir_cli::server_changes;
use weir_cli::target::{
    BackendKey, CheckKind, FrontendKey, ProxyTarget, ServerHealth, ServerKey, ServerRefusal, ServerState,
    TlsRefusal,
};
use weir_expr::{Value, VariableId};
use weir_model::Severity;
use weir_scripts::{
    CertificateField, ListedProxies, MailSettings, ProxyChange, ProxyFacts, ScriptProcess, ScriptServer,
    ServerFacts, ServerRequest, ServerRequestError, StatsValue, StatsVisit,
};
use weir_stats::{FieldValue, InfoRow, StatsRow, StatsSource};
use weir_stream::instance::Proxy;
use weir_tables::Table;

use super::{LiveProcess, LiveTarget, WeakLive, names, now_ms, statistics_source};

/// The process of scripts. The process owns the scripts, so the reference is weak.
pub struct LiveScripts {
    live: WeakLive,
    /// The stick-table of each proxy.
    tables: Vec<Option<Arc<Table>>>,
}

impl LiveScripts {
    /// The process of the scripts of `live`.
    pub fn new(live: &LiveProcess) -> LiveScripts {
        let instance = &live.instance;
        let table = |proxy: &Proxy| instance.tables.get(proxy.config.table? as usize).cloned();
        LiveScripts { live: live.downgrade(), tables: instance.proxies.iter().map(table).collect() }
    }

    /// Calls `act` with the process and a proxy.
    fn with_proxy<R>(&self, proxy: u32, act: impl FnOnce(&LiveProcess, &Proxy) -> R) -> Option<R> {
        let live = self.live.upgrade()?;
        let proxy = live.instance.proxies.get(proxy as usize)?;
        Some(act(&live, proxy))
    }

    /// Calls `act` with the process, a proxy and its server. `None` if the server was deleted.
    fn with_server<R>(
        &self,
        server: ScriptServer,
        act: impl FnOnce(&LiveProcess, &Proxy, &Server) -> R,
    ) -> Option<R> {
        let find = |live: &LiveProcess, proxy: &Proxy| {
            let key = weir_backend::ServerKey::from_number(server.key);
            let server = proxy.backend.as_ref()?.server(key)?;
            Some(act(live, proxy, &server))
        };
        self.with_proxy(server.proxy, find)?
    }

    /// The target of changes, on the current worker. `None` if the process has ended.
    fn target(&self) -> Option<LiveTarget> {
        Some(LiveTarget::new(&self.live.upgrade()?, weir_sched::current()))
    }
}

impl ScriptProcess for LiveScripts {
    fn variable(&self, variable: VariableId) -> Option<Value<'static>> {
        let live = self.live.upgrade()?;
        let variables = live.instance.variables();
        variables.get(variable).map(Value::into_owned)
    }

    fn info(&self, each: StatsVisit<'_>) {
        let Some(live) = self.live.upgrade() else { return };
        let mut info = InfoRow::new();
        StatsSource::info(&live, false, &mut info);
        info.each(|name, value| pass(name, value, each));
    }

    fn proxy_number(&self, side: ListedProxies, name: &str) -> Option<u32> {
        let live = self.live.upgrade()?;
        let instance = &live.instance;
        let index = match side {
            _ if name.starts_with('#') => names::proxy(instance, name, accepted(side))?.index,
            ListedProxies::Frontend => *instance.frontends.get(name)?,
            ListedProxies::Backend => *instance.backends.get(name)?,
            ListedProxies::Any => *instance.frontends.get(name).or_else(|| instance.backends.get(name))?,
        };
        u32::try_from(index).ok()
    }

    fn proxy_numbers(&self, side: ListedProxies) -> Vec<u32> {
        let Some(live) = self.live.upgrade() else { return Vec::new() };
        let proxies = live.instance.proxies.iter().filter(|proxy| accepted(side)(proxy));
        proxies.map(|proxy| proxy.index as u32).collect()
    }

    fn proxy(&self, proxy: u32) -> Option<ProxyFacts> {
        self.with_proxy(proxy, |_, proxy| ProxyFacts {
            name: Arc::clone(&proxy.name),
            id: proxy.config.id,
            mode: proxy.config.mode().name(),
            is_frontend: names::frontend_side(proxy),
            is_backend: names::backend_side(proxy),
        })
    }

    fn usable_servers(&self, proxy: u32) -> [u32; 2] {
        let usable = |_: &LiveProcess, proxy: &Proxy| Some(proxy.backend.as_ref()?.usable_by_kind());
        self.with_proxy(proxy, usable).flatten().unwrap_or_default()
    }

    fn change_proxy(&self, proxy: u32, change: ProxyChange) {
        let Some(mut target) = self.target() else { return };
        let is_frontend = self.with_proxy(proxy, |_, proxy| names::frontend_side(proxy)) == Some(true);
        let frontend = FrontendKey(proxy.into());
        // A refusal means that the frontend is there already, or cannot be again.
        match change {
            ProxyChange::ShutBackupSessions => {
                for server in self.server_keys(proxy) {
                    if self.server(server).is_some_and(|server| server.is_backup) {
                        target.shutdown_server_sessions(key_of(server));
                    }
                }
            }
            _ if !is_frontend => {}
            ProxyChange::Pause => _ = target.disable_frontend(frontend),
            ProxyChange::Resume => _ = target.enable_frontend(frontend),
            ProxyChange::Stop => _ = target.shutdown_frontend(frontend),
        }
    }

    fn proxy_statistics(&self, proxy: u32, each: StatsVisit<'_>) {
        let mut row = StatsRow::default();
        let filled = self.with_proxy(proxy, |_, proxy| match &proxy.backend {
            Some(backend) => statistics_source::backend(proxy, backend, &mut row),
            None => statistics_source::frontend(proxy, &mut row),
        });
        if filled.is_some() {
            row.each(|name, value| pass(name, value, each));
        }
    }

    fn table(&self, proxy: u32) -> Option<&Table> {
        self.tables.get(proxy as usize)?.as_deref()
    }

    fn table_clock_ms(&self) -> u64 {
        now_ms()
    }

    fn mail_settings(&self, proxy: u32) -> Option<MailSettings> {
        let settings = |live: &LiveProcess, proxy: &Proxy| {
            let alert = proxy.config.settings.mail_alert.as_ref()?;
            let mailers = live.record.mailers.get(alert.mailers.as_ref()?)?;
            let name = |name: &str| name.rsplit_once('/').map_or(name, |(_, name)| name).into();
            // Without brackets, as addresses of servers.
            let address = |at: SocketAddr| format!("{}:{}", at.ip(), at.port());
            let servers = mailers.all().map(|mailer| (name(&mailer.name), address(mailer.address)));
            let host_name = alert.host_name.as_deref().unwrap_or(&live.instance.identity.hostname);
            Some(MailSettings {
                level: alert.level.unwrap_or(Severity::Alert) as u8,
                servers: servers.collect(),
                timeout_ms: mailers.all().next().map_or(0, |mailer| mailer.timeout_ms),
                host_name: host_name.to_owned(),
                from: alert.from.as_ref()?.to_string(),
                to: alert.to.as_ref()?.to_string(),
                tracks_health: proxy.config.settings.options.log_health_checks,
            })
        };
        self.with_proxy(proxy, settings)?
    }

    fn listeners(&self, proxy: u32) -> Vec<Box<str>> {
        let names =
            |_: &LiveProcess, proxy: &Proxy| proxy.listeners.iter().map(|known| known.name.clone()).collect();
        self.with_proxy(proxy, names).unwrap_or_default()
    }

    fn listener_statistics(&self, proxy: u32, listener: usize, each: StatsVisit<'_>) {
        let mut row = StatsRow::default();
        let filled = self.with_proxy(proxy, |_, proxy| {
            statistics_source::listener(proxy, proxy.listeners.get(listener)?, &mut row);
            Some(())
        });
        if filled.flatten().is_some() {
            row.each(|name, value| pass(name, value, each));
        }
    }

    fn server_key(&self, proxy: u32, name: &str) -> Option<ScriptServer> {
        let key = |_: &LiveProcess, found: &Proxy| {
            Some(ScriptServer { proxy, key: names::server(found, name)?.key().to_number() })
        };
        self.with_proxy(proxy, key)?
    }

    fn server_keys(&self, proxy: u32) -> Vec<ScriptServer> {
        let keys = |_: &LiveProcess, found: &Proxy| {
            let servers = found.backend.as_ref().map(|backend| backend.servers()).unwrap_or_default();
            servers.iter().map(|server| ScriptServer { proxy, key: server.key().to_number() }).collect()
        };
        self.with_proxy(proxy, keys).unwrap_or_default()
    }

    fn server(&self, server: ScriptServer) -> Option<ServerFacts> {
        self.with_server(server, |_, _, server| ServerFacts {
            name: server.name().to_owned(),
            id: server.id(),
            revision: server.key().generation(),
            address: server.look_at_address(address),
            weight: server.user_weight(),
            maximum_connections: server.maximum_connections(),
            is_backup: server.settings().backup,
            is_added: !server.key().is_configured(),
            is_draining: server.user_weight() == 0 || server.admin_state().is_drain(),
            sessions: server.served(),
            queued: server.queued(),
        })
    }

    fn tracked(&self, server: ScriptServer) -> Option<ScriptServer> {
        self.with_server(server, |_, proxy, server| {
            let (proxy, place) = leader(proxy, server)?;
            Some(ScriptServer { proxy, key: weir_backend::ServerKey::configured(place).to_number() })
        })?
    }

    fn trackers(&self, server: ScriptServer) -> Vec<ScriptServer> {
        let Some(live) = self.live.upgrade() else { return Vec::new() };
        let wanted = Some((server.proxy, weir_backend::ServerKey::from_number(server.key)));
        let mut trackers = Vec::new();
        for proxy in &live.instance.proxies {
            let of_proxy = (0..).zip(&proxy.config.servers).filter(|(_, known)| {
                known.leader.map(|(proxy, place)| (proxy, weir_backend::ServerKey::configured(place)))
                    == wanted
            });
            trackers.extend(of_proxy.map(|(place, _)| ScriptServer {
                proxy: proxy.index as u32,
                key: weir_backend::ServerKey::configured(place).to_number(),
            }));
        }
        trackers
    }

    fn change_server(
        &self,
        server: ScriptServer,
        change: ServerRequest<'_>,
    ) -> Result<Option<String>, ServerRequestError> {
        let mut target = self.target().ok_or(ServerRequestError::Gone)?;
        if self.with_server(server, |_, _, _| ()).is_none() {
            return Err(ServerRequestError::Gone);
        }
        requested(&mut target, key_of(server), change).map_err(|refusal| match refusal {
            ServerRefusal::Gone => ServerRequestError::Gone,
            ServerRefusal::Because(reason) => ServerRequestError::Because(reason),
        })
    }

    fn replace_certificate(
        &self,
        name: &str,
        fields: &[(CertificateField, String)],
    ) -> Result<(), Option<String>> {
        let live = self.live.upgrade().ok_or(None)?;
        let end = |field: CertificateField| match field {
            CertificateField::Certificate => "",
            CertificateField::Key => ".key",
            CertificateField::Issuer => ".issuer",
            CertificateField::OcspResponse => ".ocsp",
            CertificateField::Timestamps => ".sctl",
        };
        let files: Vec<(&str, &str)> = fields.iter().map(|(field, text)| (end(*field), &**text)).collect();
        let replaced = live.record.tls().ok_or(None)?.replace(name, &files);
        replaced.map(drop).map_err(|refusal| match refusal {
            TlsRefusal::Unfit(why) => Some(why),
            _ => None,
        })
    }

    fn server_statistics(&self, server: ScriptServer, each: StatsVisit<'_>) -> bool {
        let mut row = StatsRow::default();
        let filled = self.with_server(server, |live, proxy, server| {
            statistics_source::server(&live.instance, proxy, server, &mut row);
        });
        if filled.is_some() {
            row.each(|name, value| pass(name, value, each));
        }
        filled.is_some()
    }
}

fn accepted(side: ListedProxies) -> fn(&Proxy) -> bool {
    match side {
        ListedProxies::Any => names::any_side,
        ListedProxies::Frontend => names::frontend_side,
        ListedProxies::Backend => names::backend_side,
    }
}

fn key_of(server: ScriptServer) -> ServerKey {
    ServerKey { backend: BackendKey(server.proxy.into()), server: server.key }
}

/// Passes a statistic to a script. Numbers are integers.
fn pass(name: &str, value: FieldValue<'_>, each: StatsVisit<'_>) {
    match value {
        FieldValue::Empty => {}
        FieldValue::U32(number) => each(name, StatsValue::Integer(number.into())),
        FieldValue::S32(number) => each(name, StatsValue::Integer(number.into())),
        FieldValue::U64(number) => each(name, StatsValue::Integer(number as i64)),
        FieldValue::Float(number) => each(name, StatsValue::Integer(number as i64)),
        FieldValue::Text(text) => each(name, StatsValue::Text(text)),
    }
}

/// The address of a server as scripts see it: without brackets, and the path of a UNIX socket.
fn address(address: &ServerAddress) -> String {
    match (address, address.ip(), address.port()) {
        (ServerAddress::Unix(path), ..) => path.display().to_string(),
        (_, Some(ip), Some(weir_model::ServerPort::Fixed(port))) => format!("{ip}:{port}"),
        (_, Some(ip), _) => format!("{ip}:0"),
        _ => "<unknown>".to_owned(),
    }
}

/// The proxy and the place of the server that a server tracks.
fn leader(proxy: &Proxy, server: &Server) -> Option<(u32, u32)> {
    let key = Some(server.key()).filter(|key| key.is_configured())?;
    proxy.config.servers.get(key.index())?.leader
}

/// Does a change of a server by the operations of the runtime API.
fn requested(
    target: &mut LiveTarget,
    key: ServerKey,
    change: ServerRequest<'_>,
) -> Result<Option<String>, ServerRefusal> {
    match change {
        ServerRequest::Weight(text) => server_changes::set_weight(target, key, text)?,
        ServerRequest::MaximumConnections(text) => {
            server_changes::set_maximum_connections(target, key, text)?;
        }
        ServerRequest::Address(text, port) => {
            return server_changes::set_address(target, key, text, port, "Lua script").map(Some);
        }
        ServerRequest::ShutSessions => _ = target.shutdown_server_sessions(key),
        ServerRequest::Ready => target.set_server_state(key, ServerState::Ready)?,
        ServerRequest::Drain => target.set_server_state(key, ServerState::Drain)?,
        ServerRequest::Maintenance => target.set_server_state(key, ServerState::Maintenance)?,
        ServerRequest::Checks(on) => _ = target.enable_checks(key, CheckKind::Health, on),
        ServerRequest::CheckUp => target.set_server_health(key, ServerHealth::Up)?,
        ServerRequest::CheckNoLoadBalancing => target.set_server_health(key, ServerHealth::Stopping)?,
        ServerRequest::CheckDown => target.set_server_health(key, ServerHealth::Down)?,
        ServerRequest::Agent(on) => _ = target.enable_checks(key, CheckKind::Agent, on),
        ServerRequest::AgentUp => _ = target.set_server_agent(key, true),
        ServerRequest::AgentDown => _ = target.set_server_agent(key, false),
    }
    Ok(None)
}
