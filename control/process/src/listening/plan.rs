//! Plans the sockets of a configuration: each address with its options, shards and workers.

use super::*;
use std::collections::HashMap;
use weir_model::{Shards, SocketOwnership, ThreadRange, ThreadSet};

/// All sockets of the instance and of the runtime API. `None` for an impossible setting. The error has been logged.
pub(super) fn wanted<'w>(
    instance: &'w Instance,
    relays: &'w RelayListeners,
    peers: &'w LivePeers,
    context: &ListenContext<'w>,
) -> Option<Vec<SocketRequest<'w>>> {
    let mut wanted = Vec::new();
    let mut faults = Vec::new();
    let mut add = |owner: SocketOwner, place: String, bind: &'w Bind, options: &SocketOptions| {
        let workers = workers_of(bind.options.threads.as_ref(), context.workers);
        let shards = shards(bind, context, workers.len());
        for address in &bind.addresses {
            for endpoint in endpoints(address, context) {
                match endpoint {
                    Ok(endpoint) => wanted.push(SocketRequest {
                        owner: owner.clone(),
                        place: place.clone(),
                        address,
                        endpoint,
                        options: SocketOptions { multipath: address.is_multipath(), ..options.clone() },
                        workers: Arc::clone(&workers),
                        shards,
                        alone: true,
                    }),
                    Err(fault) => faults.push(format!("Binding {place}: {fault}")),
                }
            }
        }
    };
    let mut unknown = Vec::new();
    for proxy in &instance.proxies {
        for (position, listener) in (0..).zip(&proxy.listeners) {
            let place = format!("[{}] for {} {}", listener.bind.at, type_name(&proxy.config), proxy.name());
            match options(&listener.bind, backlog(&listener.bind, &proxy.config, proxy), context) {
                Ok(options) => add(
                    SocketOwner::Frontend { proxy: proxy.index, listener: position },
                    place,
                    &listener.bind,
                    &options,
                ),
                Err(fault) => unknown.push(format!("Binding {place}: {fault}")),
            }
        }
    }
    for (position, bind) in context.global.sockets.iter().enumerate() {
        let place = format!("[{}] for frontend GLOBAL", bind.at);
        let length = bind.options.backlog.unwrap_or(context.global.stats_maxconn);
        match options(bind, length, context) {
            Ok(options) => add(SocketOwner::Operator(position), place, bind, &options),
            Err(fault) => unknown.push(format!("Binding {place}: {fault}")),
        }
    }
    for listener in &relays.listeners {
        let bind = &listener.bind;
        let place = format!("[{}] for log-forward {}", bind.at, listener.section);
        match options(bind, listener.backlog, context) {
            Ok(options) => {
                let options = match listener.way {
                    RelayWay::Datagrams(_) => for_datagrams(options, context),
                    _ => options,
                };
                add(SocketOwner::Relay(Arc::clone(listener)), place, bind, &options);
            }
            Err(fault) => unknown.push(format!("Binding {place}: {fault}")),
        }
    }
    for listener in &peers.listeners {
        let bind = &listener.bind;
        let place = format!("[{}] for peers {}", bind.at, listener.section.name);
        let length = bind.options.backlog.unwrap_or(PEERS_BACKLOG);
        match options(bind, length, context) {
            Ok(options) => add(SocketOwner::Peers(Arc::clone(listener)), place, bind, &options),
            Err(fault) => unknown.push(format!("Binding {place}: {fault}")),
        }
    }
    let mut times: HashMap<(Endpoint, bool), usize> = HashMap::new();
    let kind = |wanted: &SocketRequest<'_>| (wanted.endpoint.clone(), wanted.options.datagrams);
    wanted.iter().for_each(|wanted| *times.entry(kind(wanted)).or_default() += 1);
    wanted.iter_mut().for_each(|wanted| wanted.alone = times.get(&kind(wanted)) == Some(&1));
    faults.append(&mut unknown);
    faults.iter().for_each(|fault| context.messages.alert(fault));
    faults.is_empty().then_some(wanted)
}

/// The proxy type in messages.
fn type_name(config: &ProxyConfig) -> &'static str {
    match (config.is_frontend(), config.is_backend()) {
        (true, false) => "frontend",
        (false, true) => "backend",
        _ => "proxy",
    }
}

/// The backlog: configured, or the frontend's connection limit (manual, "backlog").
pub(super) fn backlog(bind: &Bind, config: &ProxyConfig, proxy: &Proxy) -> u32 {
    let written = bind.options.backlog.or(config.settings.backlog).or(bind.options.maxconn);
    written.unwrap_or_else(|| proxy.connections_limit.load(std::sync::atomic::Ordering::Relaxed))
}

pub(super) fn options(
    bind: &Bind,
    backlog: u32,
    context: &ListenContext<'_>,
) -> Result<SocketOptions, String> {
    let wanted = &bind.options;
    let (own, common) = (&wanted.ownership, &context.global.unix_bind.ownership);
    let tuning = &context.global.tuning;
    let ownership = SocketOwnership {
        user: own.user.clone().or_else(|| common.user.clone()),
        group: own.group.clone().or_else(|| common.group.clone()),
        mode: own.mode.or(common.mode),
    };
    Ok(SocketOptions {
        datagrams: false,
        multipath: false,
        backlog,
        reuse_port: context.reuse_port,
        interface: wanted.interface.clone(),
        maximum_segment: wanted.mss,
        fast_open: wanted.tcp_fast_open.then_some(backlog),
        defer_accept: wanted.defer_accept.then_some(DEFER_ACCEPT_SECONDS),
        v6_only: wanted.v4v6.map(|both| !both),
        transparent: wanted.transparent,
        user_timeout_ms: wanted
            .tcp_user_timeout
            .map(|timeout| u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX)),
        receive_buffer: tuning.receive_buffers.client.map(|bytes| bytes as usize),
        send_buffer: tuning.send_buffers.client.map(|bytes| bytes as usize),
        unsent_low_mark: tuning.unsent_low_marks.client,
        mode: ownership.mode,
        user: account(ownership.user.as_ref(), user_id).map_err(|fault| format!("user {fault}"))?,
        group: account(ownership.group.as_ref(), group_id).map_err(|fault| format!("group {fault}"))?,
    })
}

/// The options of `log-forward` datagram sockets. Buffer sizes for connections do not apply.
fn for_datagrams(options: SocketOptions, context: &ListenContext<'_>) -> SocketOptions {
    let receive_buffer = context.global.tuning.datagram_receive_buffer.map(|bytes| bytes as usize);
    SocketOptions { datagrams: true, receive_buffer, send_buffer: None, unsent_low_mark: None, ..options }
}

/// The endpoints of an address, one per port.
pub(super) fn endpoints(
    address: &ListenAddress,
    context: &ListenContext<'_>,
) -> Vec<Result<Endpoint, String>> {
    let one = |address| vec![Ok(Endpoint::Address(address))];
    match address {
        ListenAddress::Inet { host, first_port, last_port, .. } => {
            match weir_assemble::address(host, context.resolver) {
                Ok(ip) => (*first_port..=*last_port).map(|port| Ok(inet(ip, port))).collect(),
                Err(error) => vec![Err(format!("could not resolve address '{}'", error.0))],
            }
        }
        ListenAddress::Unix(path) => {
            let prefix = context.global.unix_bind.prefix.as_deref();
            let path = match prefix.filter(|_| !path.as_os_str().is_empty()) {
                // The prefix is prepended as plain text and need not be a directory (manual, "unix-bind").
                Some(prefix) => {
                    let mut prefixed = prefix.as_os_str().to_owned();
                    prefixed.push(path);
                    prefixed.into()
                }
                None => path.clone(),
            };
            one(Address::Unix(path))
        }
        ListenAddress::Abstract { name, padded: true } => {
            one(Address::Abstract(weir_net::endpoint::padded_abstract_name(name)))
        }
        ListenAddress::Abstract { name, padded: false } => one(Address::Abstract(name.clone())),
        ListenAddress::Descriptor(number) => vec![Ok(Endpoint::Inherited(*number))],
        ListenAddress::SocketPair(number) => vec![Ok(Endpoint::Pair(*number))],
    }
}

fn inet(ip: IpAddr, port: u16) -> Endpoint {
    Endpoint::Address(Address::Inet((ip, port).into()))
}

fn shards(bind: &Bind, context: &ListenContext<'_>, workers: usize) -> usize {
    let wanted = bind.options.shards.unwrap_or(context.global.tuning.listener_shards);
    let shareable = bind.addresses.iter().all(|address| matches!(address, ListenAddress::Inet { .. }));
    match wanted {
        // Only `SO_REUSEPORT` distributes connections over several sockets.
        _ if !context.reuse_port || !shareable => 1,
        Shards::Count(count) => usize::try_from(count).unwrap_or(1).clamp(1, workers.max(1)),
        Shards::ByThread => workers.max(1),
        // weir has only one thread group.
        Shards::ByGroup => 1,
    }
}

/// The existing workers in a `thread` setting. All workers if none of them exists.
pub fn workers_of(threads: Option<&ThreadSet>, workers: usize) -> Arc<[usize]> {
    let named = |worker: &usize| {
        let number = worker + 1;
        match threads {
            None | Some(ThreadSet::All) => true,
            Some(ThreadSet::Odd) => number % 2 == 1,
            Some(ThreadSet::Even) => number.is_multiple_of(2),
            Some(ThreadSet::Ranges(ranges)) => ranges.iter().any(|range| contains(range, number)),
        }
    };
    let mut chosen: Vec<usize> = (0..workers).filter(named).collect();
    if chosen.is_empty() {
        chosen = (0..workers).collect();
    }
    chosen.into()
}

fn contains(range: &ThreadRange, number: usize) -> bool {
    // weir has only one thread group, so the threads of other groups do not exist.
    range.group.is_none_or(|group| group == 1)
        && (usize::from(range.first)..=usize::from(range.last)).contains(&number)
}

/// The planned sockets as text.
#[cfg(test)]
pub(crate) fn described(instance: &Instance, global: &Global, workers: usize) -> String {
    static MESSAGES: Messages = Messages::new();
    let resolver = &weir_assemble::SystemResolver::default();
    let context = ListenContext { global, workers, reuse_port: true, resolver, messages: &MESSAGES };
    let (relays, peers) = (RelayListeners::default(), LivePeers::default());
    let wanted = wanted(instance, &relays, &peers, &context).expect("nothing is wrong");
    wanted.iter().map(|socket| format!("{:?} {}\n", socket.options, socket.shards)).collect()
}

/// The backlog of `peers` listeners.
const PEERS_BACKLOG: u32 = 128;
/// How long the kernel holds a connection before its first data (`defer-accept`), in seconds.
const DEFER_ACCEPT_SECONDS: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(threads: Option<ThreadSet>, workers: usize, expected: &[usize]) {
        assert_eq!(*workers_of(threads.as_ref(), workers), *expected);
    }

    #[test]
    fn thread_sets_of_bind_lines_map_to_worker_indexes() {
        let range = |group, first, last| ThreadSet::Ranges(vec![ThreadRange { group, first, last }]);
        check(None, 3, &[0, 1, 2]);
        check(Some(ThreadSet::Odd), 4, &[0, 2]);
        check(Some(ThreadSet::Even), 4, &[1, 3]);
        check(Some(range(None, 2, 3)), 4, &[1, 2]);
        check(Some(range(Some(1), 1, 1)), 4, &[0]);
        check(Some(range(Some(2), 1, 1)), 2, &[0, 1]);
        check(Some(range(None, 9, 12)), 2, &[0, 1]);
    }
}
