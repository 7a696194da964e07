//! Adding and removing servers at run time: `add server`, `del server`.

use std::sync::Arc;

use weir_backend::{AddError, Backend, RemoveError, Server, TrackMember};
use weir_cli::target::{BackendKey, ServerKey};
use weir_config::Resources;
use weir_config::scripts::NoScripts;
use weir_model::{Host, Mode, Protocol, TransparentSource};
use weir_scripts::EventKind;
use weir_stream::instance::{AddedServer, Instance, KnownServer, Proxy};
use weir_syntax::NoFiles;

use super::{LiveTarget, notices, now_ms, on_every_worker, script_events};

impl LiveTarget {
    /// Adds a server, initially in maintenance.
    pub(super) fn add(&self, backend: BackendKey, name: &str, words: &[String]) -> Result<(), String> {
        let gone = || "No such backend.".to_owned();
        let proxy = self.proxy_of(backend.0).ok_or_else(gone)?;
        let backend = proxy.backend.as_ref().ok_or_else(gone)?;
        if backend.is_static() {
            return Err(STATIC.to_owned());
        }
        let record = &self.live.record;
        let resources = Resources {
            registry: &record.registry,
            patterns: &record.patterns,
            token_keys: &record.token_keys,
            variables: &record.variable_names,
            scripts: &NoScripts,
            loader: &NoFiles,
        };
        let words = with_variables(words, &record.environment);
        let mut said = weir_config::added_server(resources, name, &words)?;
        check(proxy, &said)?;
        if let Some(name) = said
            .settings
            .check
            .section
            .as_ref()
            .filter(|name| !record.check_means.sections.contains_key(*name))
        {
            return Err(format!("'healthcheck' : unable to find healthcheck section '{name}'."));
        }
        if said.settings.check.section.is_none()
            && let Some(lack) = proxy.config.settings.checks.lack_of_port(&said)
        {
            return Err(format!("config: {} '{}': {lack}", proxy.config.section.name(), proxy.config.name));
        }
        if backend.servers().len() >= MAX_SERVERS {
            return Err(format!("more than {MAX_SERVERS} servers in one backend"));
        }
        let leader = self.leader(proxy, &said)?;
        let tls = match record.tls() {
            Some(live) => live.add_server(&proxy.config, &said)?,
            None => None,
        };
        let settings = weir_assemble::added_server(&said, record.shares_idle);
        let server = backend.add(settings, now_ms()).inspect_err(|_| {
            // Drop the TLS settings of the server that could not be added.
            if let (Some(live), Some(tls)) = (record.tls(), &tls) {
                live.forget_server(tls);
            }
        });
        let server = server.map_err(|error| match error {
            AddError::StaticAlgorithm => STATIC.to_owned(),
            AddError::NameTaken => "Already exists a server with the same name in backend.".to_owned(),
            AddError::IdentifierTaken(owner) => {
                let place = proxy.known_server(owner.key()).map(|known| known.at.to_string());
                format!(
                    "'id' : custom id {} already used at {} ('server {}').",
                    owner.id(),
                    place.unwrap_or_default(),
                    owner.name()
                )
            }
        })?;
        said.id = server.id();
        let said = Arc::new(said);
        let remembered = AddedServer { said: Arc::clone(&said), tls };
        proxy.added_servers.insert(server.key(), remembered);
        if let Some((of_leader, leader)) = leader {
            let follower = TrackMember { backend: Arc::downgrade(backend), server: server.key() };
            if !of_leader.add_follower(leader, follower) {
                self.remove_from(proxy, &server)?;
                return Err("the server to track was removed meanwhile.".to_owned());
            }
            notices::report(&self.live, backend.catch_up(server.key(), now_ms()));
        }
        if let Some(checks) = record.checks.as_ref() {
            let mut alone = weir_assemble::CheckParts::default();
            weir_assemble::plans(
                &self.live.instance,
                proxy,
                &said,
                server.key(),
                &record.check_means,
                &mut alone,
            )
            .for_each(|plan| checks.add(plan));
        }
        script_events::publish(&self.live, proxy, &server, EventKind::ServerAdd);
        Ok(())
    }

    /// The server tracked by a new one (`track`). `None` without tracking.
    fn leader(
        &self,
        proxy: &Proxy,
        said: &weir_model::Server,
    ) -> Result<Option<(&Arc<Backend>, weir_backend::ServerKey)>, String> {
        let Some(track) = &said.settings.check.track else { return Ok(None) };
        let of_leader = match &track.backend {
            None => self.live.instance.proxies.get(proxy.index),
            Some(name) => self.live.instance.backend_by_name(name),
        };
        let found = of_leader.and_then(|of_leader| Some((of_leader, of_leader.backend.as_ref()?)));
        let (of_leader, backend) = found.ok_or_else(|| {
            let name = track.backend.as_deref().unwrap_or(proxy.name());
            format!("unable to find required proxy '{name}' for tracking.")
        })?;
        let leader = backend
            .server_by_name(&track.server)
            .ok_or_else(|| format!("unable to find required server '{}' for tracking.", track.server))?;
        let known = of_leader.known_server(leader.key());
        if matches!(known, Some(KnownServer::Added(_))) {
            // A server added at run time must stay removable, so other servers cannot track it.
            return Err(format!(
                "unable to use {}/{} for tracking as it is a dynamic server.",
                backend.name(),
                leader.name()
            ));
        }
        let follows = known.is_some_and(|known| known.settings.check.track.is_some());
        if leader.health().is_none() && leader.agent().is_none() && !follows {
            return Err(format!(
                "unable to use {}/{} for tracking as it does not have any check nor agent enabled.",
                backend.name(),
                leader.name()
            ));
        }
        if backend.leaders_of(leader.key()) >= LONGEST_CHAIN {
            return Err(format!(
                "unable to use {}/{} for tracking as it follows a chain of {LONGEST_CHAIN} servers.",
                backend.name(),
                leader.name()
            ));
        }
        Ok(Some((backend, leader.key())))
    }

    /// Removes a server that is neither referenced by the configuration nor in use.
    pub(super) fn remove(&self, server: ServerKey) -> Result<(), String> {
        let gone = || "No such server.".to_owned();
        let (proxy, server) = self.server_of(server).ok_or_else(gone)?;
        self.remove_from(proxy, &server)?;
        script_events::publish(&self.live, proxy, &server, EventKind::ServerDelete);
        Ok(())
    }

    fn remove_from(&self, proxy: &Proxy, server: &Server) -> Result<(), String> {
        let gone = || "No such server.".to_owned();
        let backend = proxy.backend.as_ref().ok_or_else(gone)?;
        if proxy.known_server(server.key()).is_some_and(|known| known.is_referenced) {
            return Err(REFERENCED.to_owned());
        }
        backend.remove(server.key(), now_ms()).map_err(|error| match error {
            RemoveError::NoSuchServer => gone(),
            RemoveError::NotInMaintenance => "Only servers in maintenance mode can be deleted.".to_owned(),
            RemoveError::Followed => REFERENCED.to_owned(),
            RemoveError::InUse => {
                // Close the idle connections, so that they do not prevent the next attempt.
                forget_connections(&self.live.instance, proxy, server);
                "Server still has connections attached to it, cannot remove it.".to_owned()
            }
        })?;
        if let (Some(live), Some(tls)) = (self.live.record.tls(), proxy.server_tls(server.key())) {
            live.forget_server(&tls);
        }
        proxy.backend_counters.absorb_latencies(server.counters());
        proxy.added_servers.remove(server.key());
        Ok(())
    }
}

/// Closes the idle connections to a server, on every worker.
pub(super) fn forget_connections(instance: &Arc<Instance>, proxy: &Proxy, server: &Server) {
    let (instance, proxy, server) = (Arc::clone(instance), proxy.index, server.key());
    on_every_worker(move || weir_stream::server::idle::forget(&instance.proxies[proxy], server));
}

/// The words of a server line, with variables expanded in the addresses, as in a configuration. In other words, quotes and variables
/// are literal text.
fn with_variables(words: &[String], environment: &[String]) -> Vec<String> {
    let is_address = |at: usize| {
        at == 0 || matches!(words[at - 1].as_str(), "addr" | "agent-addr" | "source" | "usesrc" | "socks4")
    };
    let word = |(at, word): (usize, &String)| match is_address(at) {
        true => expanded(word, environment),
        false => word.clone(),
    };
    words.iter().enumerate().map(word).collect()
}

/// Expands `$NAME` and `${NAME}`. Unset variables are empty.
fn expanded(text: &str, environment: &[String]) -> String {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut parts = text.split('$');
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let braced = part.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (name, rest) = braced.unwrap_or_else(|| {
            part.split_at(part.find(|character| !is_name(character)).unwrap_or(part.len()))
        });
        if name.is_empty() || !name.chars().all(is_name) {
            result.extend(['$']);
            result.push_str(part);
            continue;
        }
        let value = environment.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        result.push_str(value.unwrap_or_default());
        result.push_str(rest);
    }
    result
}

/// Checks server settings against the settings of the backend.
fn check(proxy: &Proxy, said: &weir_model::Server) -> Result<(), String> {
    let usable = match (proxy.config.mode(), said.settings.protocol) {
        (Mode::Tcp, Some(Protocol::H1 | Protocol::H2 | Protocol::Spop | Protocol::Fcgi)) => false,
        (Mode::Http, Some(Protocol::None | Protocol::Spop)) => false,
        (Mode::Spop, Some(Protocol::H1 | Protocol::H2 | Protocol::None | Protocol::Fcgi)) => false,
        (Mode::Tcp | Mode::Http | Mode::Spop, _) => true,
        (Mode::Log, _) => return Err("Servers of log backends cannot be added at run time.".to_owned()),
    };
    if !usable {
        return Err("MUX protocol is not usable for server.".to_owned());
    }
    if said.settings.protocol == Some(Protocol::Fcgi) && proxy.config.settings.application.is_none() {
        return Err("FCGI server in a backend without a configured FCGI app.".to_owned());
    }
    let checked = &said.settings.check;
    let speaks = |protocol| proxy.config.settings.checks.can_speak(protocol);
    if checked.enabled && checked.section.is_none() && checked.protocol.is_some_and(|it| !speaks(it)) {
        return Err("'check-proto' : incompatible MUX protocol for the selected check type.".to_owned());
    }
    let source = said.settings.source.as_deref();
    let is_name = |host: &Host| matches!(host, Host::Name { .. });
    let names = source.is_some_and(|source| {
        is_name(&source.host)
            || matches!(&source.transparent, Some(TransparentSource::Address { host, .. }) if is_name(host))
    });
    let agent_address = checked.agent.as_ref().and_then(|agent| agent.address.as_ref());
    for (word, host) in [("addr", checked.address.as_ref()), ("agent-addr", agent_address)] {
        if host.is_some_and(is_name) {
            return Err(format!("'{word}' : names are not looked up for a running process."));
        }
    }
    if names {
        return Err("'source' : names are not looked up for a running process.".to_owned());
    }
    Ok(())
}

/// Maximum length of a chain of tracking servers, as in the configuration.
const LONGEST_CHAIN: usize = 1023;
const REFERENCED: &str =
    "This server cannot be removed at runtime due to other configuration elements pointing to it.";
const STATIC: &str = "Backend must use a dynamic load balancing to support dynamic servers.";

/// Maximum number of servers in a backend, as in the configuration.
const MAX_SERVERS: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_environment_variables_only_in_addresses() {
        let environment = ["A=127.0.0.1", "PORT=80", "AB=no"].map(str::to_owned);
        for (text, expected) in [
            ("${A}:${PORT}", "127.0.0.1:80"),
            ("$A:$PORT", "127.0.0.1:80"),
            ("unix@/x/$A", "unix@/x/127.0.0.1"),
            ("${NONE}:1", ":1"),
            ("$:1", "$:1"),
            ("${A", "${A"),
            ("${A-x}", "${A-x}"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(expanded(text, &environment), expected);
        }
        let words = ["$A:1", "cookie", "$A", "source", "$A"].map(str::to_owned);
        assert_eq!(
            with_variables(&words, &environment),
            ["127.0.0.1:1", "cookie", "$A", "source", "127.0.0.1"]
        );
    }
}
