//! Server states saved by a previous process, in the format of `show servers state`.
//!
//! The file begins with its version. Each further line is a server, identified by the names of backend and server. Values changed
//! in the configuration take precedence (manual, "load-server-state-from-file").

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use weir_model::ServerPort;

use weir_backend::{AdminState, Backend, FormerState, OperationalState, ServerKey};
use weir_dns::Name;
use weir_model::{Config, Global, Host, ServerStates};
use weir_syntax::Files;

/// The saved states of all files of a configuration.
#[derive(Debug, Default)]
pub struct SavedStates {
    /// States by the names of backend and server.
    servers: HashMap<(Box<str>, Box<str>), SavedState>,
    /// Notices about missing or empty files, which are normal at the first start.
    notices: Vec<String>,
    warnings: Vec<String>,
}

impl SavedStates {
    /// Reads the state files of a configuration. Faults are only warnings: the process starts without the states.
    pub fn read(config: &Config, files: &dyn Files) -> Self {
        let mut states = Self::default();
        let wants = |wanted| move |proxy: &&weir_model::Proxy| loads(proxy, wanted);
        let global: Vec<_> = config.proxies.iter().filter(wants(ServerStates::Global)).collect();
        match path(&config.global, config.global.server_state_file.as_deref()) {
            Some(path) if !global.is_empty() => {
                let text = states.load(files, &path, "config", "global server state file");
                for proxy in global {
                    states.take(&text, proxy);
                }
            }
            // The parser has already warned about the missing path.
            _ => {}
        }
        for proxy in config.proxies.iter().filter(wants(ServerStates::Local)) {
            let name = proxy.server_state_file.as_deref().unwrap_or(&proxy.name);
            if let Some(path) = path(&config.global, Some(name)) {
                let text = states.load(files, &path, &format!("Proxy '{}'", proxy.name), "server state file");
                states.take(&text, proxy);
            }
        }
        states
    }

    /// Reports missing or empty files as notices, and other faults as warnings.
    pub fn report(&self, announce: impl Fn(String), warn: impl Fn(String)) {
        self.notices.iter().for_each(|text| announce(with_origin(text)));
        self.warnings.iter().for_each(|text| warn(with_origin(text)));
    }

    /// The warnings about the files.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.warnings.iter().map(String::as_str)
    }

    /// A server's saved address, if its configured name is unchanged or its name was set at run time.
    pub(super) fn address(&self, backend: &str, server: &weir_model::Server) -> Option<IpAddr> {
        let saved = self.of(backend, server)?;
        match &server.address {
            weir_model::ServerAddress::Inet { host: Host::Name { name, .. }, .. }
                if *saved.name == **name || saved.given_name(server).is_some() =>
            {
                saved.address
            }
            _ => None,
        }
    }

    /// The host name that the runtime API or an SRV record set for a server, if it still applies.
    pub(super) fn given_name(&self, backend: &str, server: &weir_model::Server) -> Option<GivenName> {
        self.of(backend, server)?.given_name(server)
    }

    fn of(&self, backend: &str, server: &weir_model::Server) -> Option<&SavedState> {
        if self.servers.is_empty() {
            return None;
        }
        self.servers.get(&(backend.into(), server.name.clone()))
    }

    /// Restores the servers of a backend. Returns one message per server that is down.
    pub(super) fn restore(&self, config: &weir_model::Proxy, backend: &Backend, now_ms: u64) -> Vec<String> {
        let mut news = Vec::new();
        if self.servers.is_empty() {
            return news;
        }
        let before = backend.status(now_ms);
        let (mut active, mut backup) = (before.active, before.backup);
        for (rank, server) in (0..).zip(&config.servers) {
            let Some(saved) = self.servers.get(&((*config.name).into(), server.name.clone())) else {
                continue;
            };
            let key = ServerKey::configured(rank);
            let former = saved.former(server, now_ms);
            // Static algorithms reject weights, so the rest is restored without the weight.
            if backend.restore(key, former.clone(), now_ms).is_err() {
                let _ = backend.restore(key, FormerState { weight: None, ..former }, now_ms);
            }
            if saved.operational == OperationalState::Stopped && !server.settings.disabled {
                let left = if server.settings.backup { &mut backup } else { &mut active };
                *left = left.saturating_sub(1);
                news.push(format!(
                    "Server {}/{} is DOWN, changed from server-state after a reload. {active} active and {backup} backup servers \
                     left. 0 sessions active, 0 requeued, 0 remaining in queue.",
                    config.name, server.name
                ));
            }
        }
        news
    }

    /// The lines of a state file. Empty if it is unusable.
    fn load(&mut self, files: &dyn Files, path: &str, whose: &str, what: &str) -> StateFile {
        match files.read(path, MAX_STATES) {
            Err(error) => {
                let why = weir_sys::error_text(&error);
                let text = format!("{whose}: Can't open {what} '{path}': {why}");
                let missing = error.kind() == std::io::ErrorKind::NotFound;
                if missing { &mut self.notices } else { &mut self.warnings }.push(text);
            }
            Ok(bytes) if bytes.is_empty() => self.notices.push(format!("{whose}: Empty {what} '{path}'.")),
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                if text.lines().next() != Some(VERSION) {
                    self.warnings.push(format!("{whose}: Can't get version of the {what} '{path}'."));
                    return StateFile::new();
                }
                match lines(&text) {
                    Ok(lines) => return lines,
                    Err(line) => {
                        self.warnings.push(format!("{whose}: corrupted {what} '{path}' at line {line}."));
                    }
                }
            }
        }
        StateFile::new()
    }

    /// Adds the states of a backend's servers.
    fn take(&mut self, file: &StateFile, proxy: &weir_model::Proxy) {
        for server in &proxy.servers {
            let key = ((*proxy.name).into(), server.name.clone());
            let Some(fields) = file.get(&key) else { continue };
            match SavedState::of(fields) {
                Ok(saved) => {
                    if let Some((now, then)) = saved.other_service(server) {
                        self.warnings.push(format!(
                            "server-state partially applied for server '{}/{}', SRV record mismatch between configuration \
                             ('{now}') and state file ('{then}'): the name, the address and the port are not applied",
                            proxy.name, server.name
                        ));
                    }
                    self.servers.insert(key, saved);
                }
                Err((name, value)) => self.warnings.push(format!(
                    "server-state application failed for server '{}/{}', invalid {name} value '{value}'",
                    proxy.name, server.name
                )),
            }
        }
    }
}

/// The message with the prefix `config : `, unless it already begins with `config: `.
fn with_origin(text: &str) -> String {
    if text.starts_with("config: ") { text.to_owned() } else { format!("config : {text}") }
}

/// The size limit of a state file, in bytes. A million servers need about half of it.
const MAX_STATES: u64 = 256 << 20;

/// The lines of a file, by the names of backend and server.
type StateFile = HashMap<(Box<str>, Box<str>), Vec<Box<str>>>;

/// The lines of a file after the version. The error is the number of the first invalid line. The file is then ignored, since its
/// other lines may be wrong as well.
fn lines(text: &str) -> Result<StateFile, usize> {
    let mut found = StateFile::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<Box<str>> = line.split_whitespace().map(Box::from).collect();
        if !(FEWEST_FIELDS..=MOST_FIELDS).contains(&fields.len()) || found.len() >= MAX_SERVERS {
            return Err(number);
        }
        found.insert((fields[1].clone(), fields[3].clone()), fields);
    }
    Ok(found)
}

fn loads(proxy: &weir_model::Proxy, from: ServerStates) -> bool {
    proxy.is_backend() && !proxy.settings.disabled && proxy.settings.server_states == from
}

/// The path of a state file, relative to `server-state-base` unless absolute.
fn path(global: &Global, name: Option<&str>) -> Option<String> {
    let name = name?;
    let base = global.server_state_base.as_deref().unwrap_or_default();
    Some(Path::new(base).join(name).to_string_lossy().into_owned())
}

/// The line of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SavedState {
    address: Option<IpAddr>,
    operational: OperationalState,
    admin: AdminState,
    user_weight: u32,
    initial_weight: u32,
    since_s: u64,
    check_level: u32,
    name: Box<str>,
    port: ServerPort,
    /// The service of its SRV records. `-` for none.
    service: Box<str>,
}

/// A host name that a server got at run time, in the previous process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GivenName {
    pub(super) name: Name,
    /// The port, if an SRV record set it.
    pub(super) port: Option<u16>,
}

impl SavedState {
    /// Parses the fields of a line. The error is name and value of the first invalid field.
    fn of(fields: &[Box<str>]) -> Result<Self, (&'static str, Box<str>)> {
        let number = |at: usize, name: &'static str, most: u64| {
            let text = &fields[at];
            text.parse::<u64>().ok().filter(|value| *value <= most).ok_or_else(|| (name, text.clone()))
        };
        let operational = number(5, "srv_op_state", 3)?;
        let admin = number(6, "srv_admin_state", 0x7f)?;
        let user_weight = number(7, "srv_uweight", u64::from(weir_backend::settings::MAXIMUM_WEIGHT))?;
        let initial_weight = number(8, "srv_iweight", u64::from(weir_backend::settings::MAXIMUM_WEIGHT))?;
        let since_s = number(9, "srv_last_time_change", u64::MAX / 1000)?;
        number(10, "srv_check_status", u64::from(u32::MAX))?;
        number(11, "srv_check_result", u64::from(u32::MAX))?;
        let check_level = number(12, "srv_check_health", u64::from(u32::MAX))?;
        number(13, "srv_check_state", u64::from(u32::MAX))?;
        number(14, "srv_agent_state", u64::from(u32::MAX))?;
        let port = saved_port(&fields[18]).ok_or_else(|| ("srv_port", fields[18].clone()))?;
        Ok(SavedState {
            address: fields[4].parse().ok(),
            operational: OperationalState::from_number(operational as u8)
                .unwrap_or(OperationalState::Running),
            admin: AdminState::from_bits(admin as u8),
            user_weight: user_weight as u32,
            initial_weight: initial_weight as u32,
            since_s,
            check_level: check_level as u32,
            name: fields[17].clone(),
            port,
            service: fields.get(19).cloned().unwrap_or_else(|| NOTHING.into()),
        })
    }

    /// The host name that the runtime API or an SRV record set, if name servers still resolve this server.
    fn given_name(&self, server: &weir_model::Server) -> Option<GivenName> {
        server.settings.resolution.section.as_ref()?;
        let weir_model::ServerAddress::Inet { host, .. } = &server.address else { return None };
        let Host::Name { name: own, .. } = host else { return None };
        let is_given = match weir_model::is_service(host) {
            true => *self.service == **own,
            false => *self.service == *NOTHING && self.admin.contains(AdminState::FQDN_CHANGED),
        };
        let name = Name::parse(self.name.as_bytes()).ok().filter(|_| is_given && *self.name != *NOTHING)?;
        let port = self.port.fixed().filter(|_| weir_model::is_service(host));
        Some(GivenName { name, port })
    }

    /// The port that replaces the configured one, if any. SRV records set the ports of their servers.
    fn changed_port(&self, server: &weir_model::Server) -> Option<ServerPort> {
        let weir_model::ServerAddress::Inet { host, port } = &server.address else { return None };
        let own = *port;
        let is_own = match (self.port, own) {
            (ServerPort::Fixed(0), _) => true,
            // A configured port mapping is saved as a plain number.
            (ServerPort::Fixed(saved), ServerPort::Mapped(offset)) => saved == offset as u16,
            (saved, own) => saved == own,
        };
        (!is_own && !weir_model::is_service(host)).then_some(self.port)
    }

    /// The configured service and the saved one, if they differ.
    fn other_service<'s>(&'s self, server: &'s weir_model::Server) -> Option<(&'s str, &'s str)> {
        match &server.address {
            weir_model::ServerAddress::Inet { host: host @ Host::Name { name, .. }, .. }
                if weir_model::is_service(host) && *self.service != *NOTHING && self.service != *name =>
            {
                Some((&**name, &*self.service))
            }
            _ => None,
        }
    }

    /// The part of the state that applies to a server of the new configuration.
    fn former(&self, server: &weir_model::Server, now_ms: u64) -> FormerState {
        let (was_disabled, is_disabled) =
            (self.admin.contains(AdminState::CONFIGURED_MAINTENANCE), server.settings.disabled);
        let forced = self.admin.contains(AdminState::FORCED_MAINTENANCE);
        let mut admin = AdminState::READY;
        if self.admin.contains(AdminState::FORCED_DRAIN) {
            admin = admin.with(AdminState::FORCED_DRAIN);
        }
        if is_disabled {
            admin = admin.with(AdminState::CONFIGURED_MAINTENANCE);
        }
        // The administrative state from the previous configuration does not apply if the new one differs.
        if (forced && was_disabled == is_disabled)
            || (is_disabled && !was_disabled)
            || (forced && !was_disabled)
        {
            admin = admin.with(AdminState::FORCED_MAINTENANCE);
        }
        let leaves_maintenance = forced && !admin.contains(AdminState::FORCED_MAINTENANCE);
        if self.admin.contains(AdminState::FQDN_CHANGED) && self.given_name(server).is_some() {
            admin = admin.with(AdminState::FQDN_CHANGED);
        }
        FormerState {
            weight: (self.initial_weight == u32::from(server.settings.weight)).then_some(self.user_weight),
            port: self.changed_port(server),
            admin,
            operational: if leaves_maintenance { OperationalState::Running } else { self.operational },
            check_level: (!leaves_maintenance).then_some(self.check_level),
            last_change_ms: now_ms.saturating_sub(self.since_s.saturating_mul(1000)),
        }
    }
}

/// Parses a saved port. A sign marks a port mapping set at run time. A configured mapping is a plain number, which HAProxy wraps to
/// 32 bits if negative.
fn saved_port(text: &str) -> Option<ServerPort> {
    const MOST: i64 = u16::MAX as i64;
    const LEAST: i64 = -MOST;
    const WRAPPED: i64 = 1 << 32;
    let number: i64 = text.parse().ok()?;
    let is_wrapped = (WRAPPED - MOST..WRAPPED).contains(&number);
    let offset = if is_wrapped { number - WRAPPED } else { number };
    match offset {
        0..=MOST if !text.starts_with(['+', '-']) => Some(ServerPort::Fixed(offset as u16)),
        LEAST..=MOST => Some(ServerPort::Mapped(offset as i32)),
        _ => None,
    }
}

/// The placeholder for an empty field.
const NOTHING: &str = "-";
/// The only supported version of the format.
const VERSION: &str = "1";
/// The minimum of fields in a line, up to the port.
const FEWEST_FIELDS: usize = 19;
const MOST_FIELDS: usize = 25;
/// The limit of servers in a state file.
const MAX_SERVERS: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_line_invalidates_its_server_state_file() {
        let good = "3 be 1 a 10.0.0.1 2 0 5 10 100 1 0 2 0 0 0 0 - 81 - 0 0 - - 0";
        assert_eq!(lines(&format!("1\n# be_id\n\n{good}\nx\n")), Err(4));
        let found = lines(&format!("1\n# be_id\n\n{good}\n")).unwrap();
        assert_eq!(found.len(), 1);
        let saved = SavedState::of(&found[&("be".into(), "a".into())]).unwrap();
        assert_eq!((saved.port, saved.user_weight, saved.since_s), (ServerPort::Fixed(81), 5, 100));
    }

    /// A server from the text of its configuration line.
    fn server(line: &str) -> weir_model::Server {
        let text = format!(
            "resolvers r\n nameserver n 192.0.2.53:53\nbackend be\n timeout connect 1s\n timeout server 1s\n server {line}\n"
        );
        let config = crate::fixture::config(&text);
        config.proxies[0].servers[0].clone()
    }

    #[test]
    fn restores_server_names_set_at_run_time_r165() {
        let given = |line: &str, admin: &str, name: &str, service: &str| {
            let line_of_file =
                format!("3 be 1 s 192.0.2.1 2 {admin} 1 1 0 1 0 2 0 0 0 0 {name} 81 {service} 0 0 - - 0");
            let fields: Vec<Box<str>> = line_of_file.split(' ').map(Box::from).collect();
            let (saved, server) = (SavedState::of(&fields).expect("a state"), server(line));
            let former = saved.former(&server, 0);
            let given = saved.given_name(&server).map(|given| (given.name.to_string(), given.port));
            (given, former.admin.contains(AdminState::FQDN_CHANGED))
        };
        let (named, of_service) = ("s a.test:80 resolvers r", "s _h._tcp.test resolvers r");
        let found = |name: &str, port| Some((name.to_owned(), port));
        assert_eq!(given(named, "64", "b.test", "-"), (found("b.test", None), true));
        assert_eq!(given(named, "0", "b.test", "-"), (None, false), "the configuration changed");
        assert_eq!(
            given("s a.test:80 init-addr none", "64", "b.test", "-"),
            (None, false),
            "no name server is queried"
        );
        assert_eq!(given("s 192.0.2.9:80 resolvers r", "64", "b.test", "-"), (None, false));
        assert_eq!(given(of_service, "64", "h.test", "_h._tcp.test"), (found("h.test", Some(81)), true));
        assert_eq!(given(of_service, "64", "h.test", "_g._tcp.test"), (None, false), "another service");
        assert_eq!(given(of_service, "32", "-", "_h._tcp.test"), (None, false), "it had no host");
    }

    #[test]
    fn restores_server_ports_and_port_mappings() {
        let port = |line: &str, saved: &str| {
            let line_of_file = format!("3 be 1 s 192.0.2.1 2 0 1 1 0 1 0 2 0 0 0 0 - {saved} - 0 0 - - 0");
            let fields: Vec<Box<str>> = line_of_file.split(' ').map(Box::from).collect();
            let changed = SavedState::of(&fields).expect("a state").changed_port(&server(line));
            changed.map_or_else(|| "-".to_owned(), |port| port.to_string())
        };
        for (line, saved, expected) in [
            ("s 192.0.2.1:80", "80", "-"),
            ("s 192.0.2.1:80", "0", "-"),
            ("s 192.0.2.1:80", "81", "81"),
            ("s 192.0.2.1:80", "+0", "+0"),
            ("s 192.0.2.1:80", "-7", "-7"),
            ("s 192.0.2.1", "0", "-"),
            ("s 192.0.2.1", "81", "81"),
            ("s 192.0.2.1", "+81", "+81"),
            ("s 192.0.2.1:+1", "1", "-"),
            ("s 192.0.2.1:+1", "+1", "-"),
            ("s 192.0.2.1:+1", "2", "2"),
            ("s 192.0.2.1:-1", "-1", "-"),
            ("s 192.0.2.1:-1", "65535", "-"),
            ("s 192.0.2.1:-1", "4294967295", "-"),
            ("s 192.0.2.1:-1", "4294967294", "-2"),
            ("s a.test resolvers r init-addr none", "81", "81"),
            ("s _h._tcp.test resolvers r", "81", "-"),
            ("s /run/s", "81", "-"),
        ] {
            assert_eq!(port(line, saved), expected, "{line}, {saved}");
        }
    }

    #[test]
    fn a_state_file_error_names_the_first_invalid_field_and_its_value() {
        let check = |line: &str, expected: &str| {
            let fields: Vec<Box<str>> = line.split(' ').map(Box::from).collect();
            let (name, value) = SavedState::of(&fields).unwrap_err();
            assert_eq!(format!("{name} {value}"), expected);
        };
        check("3 be 1 a - x 0 5 10 100 1 0 2 0 0 0 0 - 81 - 0 0 - - 0", "srv_op_state x");
        check("3 be 1 a - 4 0 5 10 100 1 0 2 0 0 0 0 - 81 - 0 0 - - 0", "srv_op_state 4");
        check("3 be 1 a - 2 900 5 10 100 1 0 2 0 0 0 0 - 81 - 0 0 - - 0", "srv_admin_state 900");
        check("3 be 1 a - 2 0 999 10 100 1 0 2 0 0 0 0 - 81 - 0 0 - - 0", "srv_uweight 999");
        check("3 be 1 a - 2 0 5 10 -1 1 0 2 0 0 0 0 - 81 - 0 0 - - 0", "srv_last_time_change -1");
        check("3 be 1 a - 2 0 5 10 1 1 0 2 0 0 0 0 - 65536 - 0 0 - - 0", "srv_port 65536");
        check("3 be 1 a - 2 0 5 10 1 1 0 2 0 0 0 0 - -65536 - 0 0 - - 0", "srv_port -65536");
        check("3 be 1 a - 2 0 5 10 1 1 0 2 0 0 0 0 - 4294967296 - 0 0 - - 0", "srv_port 4294967296");
    }
}
