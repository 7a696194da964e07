//! Faults that only a start would find: unknown names of hosts, users and groups. `-c` reports them too.

use weir_model::{Account, Bind, Config, Host, ListenAddress, LogAddress, ServerAddress};
use weir_sys::users;

use super::subjects::unknown_account;
use super::{BuildError, Resolver, SavedStates, backends, names, rings};

/// The faults and notices of the names in a configuration.
#[derive(Debug, Default)]
pub struct CheckedNames {
    /// The faults that prevent the start.
    pub faults: Vec<String>,
    /// Notices about servers that start without an address because `init-addr` allows it.
    pub notices: Vec<String>,
}

/// Looks up all user, group and host names, in the order of the configuration, without side effects.
pub fn verify(
    config: &Config,
    states: &SavedStates,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> CheckedNames {
    let mut faults = accounts(&config.global);
    let mut notices = Vec::new();
    for socket in &config.global.sockets {
        listener(socket, "stats socket", resolver, &mut faults);
    }
    let mut errors = Vec::new();
    for proxy in config.proxies.iter().filter(|proxy| !proxy.settings.disabled) {
        for bind in &proxy.binds {
            listener(bind, "bind", resolver, &mut faults);
        }
        for server in &proxy.servers {
            let ServerAddress::Inet { host: host @ Host::Name { .. }, .. } = &server.address else {
                continue;
            };
            let saved = states.address(&proxy.name, server);
            match backends::first_address(&proxy.name, server, host, saved, resolver, ignore_unknown_names) {
                Ok(Some(_)) => {}
                Ok(None) => notices.extend(backends::without_address(&proxy.name, server, host)),
                Err(message) => errors.push(BuildError { at: server.at.clone(), message }),
            }
        }
        names_of_servers(proxy, resolver, &mut errors);
    }
    for section in &config.log_forwards {
        section.binds.iter().for_each(|bind| listener(bind, "bind", resolver, &mut faults));
        section.datagram_binds.iter().for_each(|bind| listener(bind, "dgram-bind", resolver, &mut faults));
    }
    rings::verify(config, resolver, ignore_unknown_names, &mut errors);
    super::client::verify(config, resolver, &mut errors);
    super::mail::verify(config, resolver, &mut errors);
    super::peers::verify(config, resolver, &mut errors);
    super::resolvers::verify(config, resolver, &mut errors);
    faults.extend(errors.iter().map(ToString::to_string));
    faults.extend(log_targets(config, resolver));
    CheckedNames { faults, notices }
}

fn accounts(global: &weir_model::Global) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(Account::Name(name)) = &global.user
        && !is_user(name)
    {
        faults.push(unknown_account("user", name, global.user_at.as_ref()));
    }
    if let Some(Account::Name(name)) = &global.group
        && !is_group(name)
    {
        faults.push(unknown_account("group", name, global.group_at.as_ref()));
    }
    faults
}

fn is_user(name: &str) -> bool {
    matches!(users::user(name), Ok(Some(_)))
}

fn is_group(name: &str) -> bool {
    matches!(users::group(name), Ok(Some(_)))
}

fn listener(bind: &Bind, word: &str, resolver: &dyn Resolver, faults: &mut Vec<String>) {
    for address in &bind.addresses {
        if let ListenAddress::Inet { host, .. } = address
            && let Err(error) = names::address(host, resolver)
        {
            let (at, spelling) = (&bind.at, &bind.spelling);
            faults
                .push(format!("parsing [{at}] : '{word}' : invalid address: '{}' in '{spelling}'", error.0));
        }
    }
    let ownership = &bind.options.ownership;
    if let Some(Account::Name(name)) = &ownership.user
        && !is_user(name)
    {
        faults.push(format!("parsing [{}] : '{word}' : 'user' : unknown user name '{name}'", bind.at));
    }
    if let Some(Account::Name(name)) = &ownership.group
        && !is_group(name)
    {
        faults.push(format!("parsing [{}] : '{word}' : 'group' : unknown group name '{name}'", bind.at));
    }
}

fn names_of_servers(proxy: &weir_model::Proxy, resolver: &dyn Resolver, errors: &mut Vec<BuildError>) {
    let of_proxy = backends::unknown_sources(proxy.settings.source.as_deref(), resolver);
    errors.extend(of_proxy.into_iter().map(|message| BuildError { at: proxy.at.clone(), message }));
    for server in &proxy.servers {
        let of_server = backends::unknown_names(&server.settings, resolver);
        errors.extend(of_server.into_iter().map(|message| BuildError { at: server.at.clone(), message }));
    }
}

fn log_targets(config: &Config, resolver: &dyn Resolver) -> Vec<String> {
    let mut faults: Vec<String> = Vec::new();
    for target in config.log_targets() {
        let host = match &target.address {
            LogAddress::Udp { host, .. }
            | LogAddress::Stream { server: ServerAddress::Inet { host, .. }, .. } => host,
            _ => continue,
        };
        if let Err(error) = names::address(host, resolver) {
            let place = target.at.as_ref().map(|at| format!("parsing [{at}] : ")).unwrap_or_default();
            let fault = format!("{place}log : could not resolve the address '{}' of the log target", error.0);
            // Sections that share inherited settings have the same fault.
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    }
    faults
}
