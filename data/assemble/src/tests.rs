//! Instances of configurations with host names to resolve.

use std::net::IpAddr;

use weir_model::{Host, TransparentSource};
use weir_stream::instance::Instance;

use super::checks::{self, CheckMeans, CheckParts};
use super::{Resolver, SavedStates};
use crate::fixture::{self, built, relays};

/// Resolves only `known.test`, to IPv4 and IPv6.
struct OneName;

impl Resolver for OneName {
    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        match name {
            "known.test" => vec![IpAddr::from([192, 0, 2, 1]), IpAddr::V6(1.into())],
            _ => Vec::new(),
        }
    }
}

/// Builds the instance of a backend with these lines. An expected failure must report `want`.
#[track_caller]
fn check(lines: &str, ignore_unknown: bool, want: Result<fn(&Instance) -> bool, &'static str>) {
    let text = format!("defaults\n timeout connect 1s\n timeout server 1s\nbackend be\n{lines}\n");
    let seen = weir_sched::run(async move {
        match (built(&text, &OneName, ignore_unknown), want) {
            (Ok(built), Ok(right)) => assert!(right(&built.instance), "{text}"),
            (Err(messages), Err(want)) => assert_eq!(messages, [want], "{text}"),
            (built, _) => panic!("{text}: {:?}", built.err()),
        }
    });
    assert!(seen.expect("a worker").is_some(), "the check ends");
}

fn first_server_is(instance: &Instance, address: &str) -> bool {
    let servers = instance.proxies[0].servers().servers();
    let settings = servers[0].settings();
    settings.address == address.parse::<std::net::SocketAddr>().expect("an address").into()
        && !settings.disabled
}

fn first_server_waits(instance: &Instance) -> bool {
    let servers = instance.proxies[0].servers().servers();
    let settings = servers[0].settings();
    settings.address.is_unknown() && settings.disabled
}

fn first_server_is_unresolved(instance: &Instance) -> bool {
    let servers = instance.proxies[0].servers().servers();
    let settings = servers[0].settings();
    settings.address.is_unknown() && settings.unresolved
}

#[test]
fn tries_methods_of_init_addr_in_order() {
    let known = |instance: &Instance| first_server_is(instance, "192.0.2.1:80");
    let given = |instance: &Instance| first_server_is(instance, "192.0.2.9:80");
    check(" server s known.test:80", false, Ok(known));
    check(" server s known.test:80 init-addr libc,192.0.2.9", false, Ok(known));
    check(" server s known.test:80 init-addr 192.0.2.9,libc", false, Ok(given));
    check(" server s known.test:80 init-addr last,192.0.2.9", false, Ok(given));
    check(" server s other.test:80 init-addr libc,192.0.2.9,none", false, Ok(given));
    check(" server s known.test:80 init-addr none,libc", false, Ok(first_server_waits));
    check(" server s other.test:80 init-addr last,libc,none", false, Ok(first_server_waits));
    check(" default-server init-addr 192.0.2.9\n server s other.test:80", false, Ok(given));
    check(" default-server init-addr none\n server s known.test:80 init-addr libc", false, Ok(known));
    // Name servers resolve it later.
    let resolved =
        |host: &str| format!(" server s {host}:80 resolvers dns\nresolvers dns\n nameserver n 127.0.0.1:53");
    check(&resolved("known.test"), false, Ok(known));
    check(&resolved("other.test"), false, Ok(first_server_is_unresolved));
    // An IP address needs no resolution method.
    check(" server s 192.0.2.1:80 init-addr none", false, Ok(known));
}

/// Connections to applications do not carry HTTP, and their owner is a task of the traffic.
#[test]
fn checks_of_applications_do_not_share_idle_connections() {
    fn shares(instance: &Instance) -> bool {
        let proxy = &instance.proxies[0];
        let server = &proxy.config.servers[0];
        let (means, mut parts) = (CheckMeans::default(), CheckParts::default());
        let key = weir_backend::ServerKey::configured(0);
        let mut plans = checks::plans(instance, proxy, server, key, &means, &mut parts);
        plans.next().expect("a check").reuse.is_some()
    }
    let server = " option httpchk GET / HTTP/1.1\n server s 192.0.2.1:80 check check-reuse-pool";
    check(server, false, Ok(shares));
    check(&format!("{server} check-proto fcgi"), false, Ok(|instance| !shares(instance)));
}

#[test]
fn an_unresolvable_server_name_prevents_the_start() {
    let unknown = "'server be/s' : could not resolve address 'other.test'.";
    check(" server s other.test:80", false, Err(unknown));
    check(" server s other.test:80 init-addr libc", false, Err(unknown));
    let said = " server s other.test:80 resolvers dns init-addr last,libc\nresolvers dns\n nameserver n 127.0.0.1:53";
    check(said, false, Err(unknown));
    let no_way = "'server be/s' : no method found to resolve address 'known.test'.";
    check(" server s known.test:80 init-addr last", false, Err(no_way));
    check(" server s other.test:80", true, Ok(first_server_waits));
}

#[test]
fn resolves_source_host_names_at_the_start() {
    check(
        " source known.test:1000-2000\n server s 192.0.2.3:80",
        false,
        Ok(|instance| {
            of_backend(instance).is_some_and(|source| {
                is_known(source) && (source.first_port, source.last_port) == (1000, 2000)
            })
        }),
    );
    check(
        " server s 192.0.2.3:80 source ipv6@known.test",
        false,
        Ok(|instance| {
            of_server(instance).is_some_and(|source| source.host == Host::Ip(IpAddr::V6(1.into())))
        }),
    );
    check(
        " default-server source known.test\n server s 192.0.2.3:80",
        false,
        Ok(|instance| of_server(instance).is_some_and(is_known)),
    );
    check(
        " source 0.0.0.0 usesrc known.test:7\n server s 192.0.2.3:80",
        false,
        Ok(|instance| {
            let expected =
                TransparentSource::Address { host: Host::Ip(IpAddr::from([192, 0, 2, 1])), port: 7 };
            of_backend(instance).is_some_and(|source| source.transparent == Some(expected))
        }),
    );
    let unknown = "'source' : could not resolve address 'other.test'.";
    check(" source other.test\n server s 192.0.2.3:80", false, Err(unknown));
    check(" server s 192.0.2.3:80 source other.test", false, Err(unknown));
}

#[test]
fn resolves_socks4_proxy_names_at_the_start() {
    let known = |instance: &Instance| {
        let proxy = instance.proxies[0].config.servers[0].settings.socks4.as_deref();
        proxy.is_some_and(|proxy| proxy.host == Host::Ip([192, 0, 2, 1].into()) && proxy.port == 1080)
    };
    check(" server s 192.0.2.3:80 socks4 known.test:1080", false, Ok(known));
    check(" default-server socks4 known.test:1080\n server s 192.0.2.3:80", false, Ok(known));
    let unknown = "'socks4' : could not resolve address 'other.test'.";
    check(" server s 192.0.2.3:80 socks4 other.test:1080", false, Err(unknown));
}

fn of_backend(instance: &Instance) -> Option<&weir_model::Source> {
    instance.proxies[0].config.settings.source.as_deref()
}

fn of_server(instance: &Instance) -> Option<&weir_model::Source> {
    instance.proxies[0].config.servers[0].settings.source.as_deref()
}

fn is_known(source: &weir_model::Source) -> bool {
    source.host == Host::Ip(IpAddr::from([192, 0, 2, 1]))
}

#[test]
fn verify_reports_unknown_hosts_users_and_trace_sources() {
    let text = "global\n user nobody-has-this-name\n stats socket /x user nobody-has-this-name\n\
        defaults\n timeout connect 1s\n timeout server 1s\n timeout client 1s\n\
        frontend f\n bind known.test:1\n bind other.test:1\n log other.test local0\n default_backend be\n\
        backend be\n source other.test\n server s other.test:80\n server t other.test:80 init-addr none\n \
        server u known.test:80 source other.test\n";
    let config = fixture::config(text);
    let found = super::verify(&config, &SavedStates::default(), &OneName, false).faults;
    let expected = [
        "parsing [t.cfg:2] : cannot find user id for 'nobody-has-this-name'",
        "parsing [t.cfg:3] : 'stats socket' : 'user' : unknown user name 'nobody-has-this-name'",
        "parsing [t.cfg:10] : 'bind' : invalid address: 'other.test' in 'other.test:1'",
        "[t.cfg:15] : 'server be/s' : could not resolve address 'other.test'.",
        "[t.cfg:13] : 'source' : could not resolve address 'other.test'.",
        "[t.cfg:17] : 'source' : could not resolve address 'other.test'.",
        "parsing [t.cfg:11] : log : could not resolve the address 'other.test' of the log target",
    ];
    assert_eq!(found, expected);
    assert_eq!(super::verify(&config, &SavedStates::default(), &OneName, true).faults.len(), 6);
    let text = "ring r\n server s other.test:514\n server t 127.0.0.1\ntraces\n trace nosuch start now\n trace poller sink r\n";
    let config = fixture::config(text);
    let expected = [
        "[t.cfg:1] : 'server r/s' : could not resolve address 'other.test'.",
        "[t.cfg:1] : server 't' of a ring has no port",
        "[t.cfg:5] : No such trace source 'nosuch'",
    ];
    assert_eq!(super::verify(&config, &SavedStates::default(), &OneName, false).faults, expected);
}

/// HAProxy 3.2 prints a notice about such a server, with `-c` and at start.
#[test]
fn a_server_without_an_address_at_start_causes_a_notice() {
    let notices = |server: &str| {
        let text = format!(
            "defaults\n timeout connect 1s\n timeout server 1s\nresolvers r\n nameserver a 192.0.2.1:53\nbackend be\n server {server}\n"
        );
        let config = fixture::config(&text);
        let found = super::verify(&config, &SavedStates::default(), &OneName, false);
        assert_eq!(found.faults, [""; 0]);
        found.notices
    };
    let expected = "[t.cfg:7] : 'server be/s' : could not resolve address 'other.test', disabling server.";
    assert_eq!(notices("s other.test:80 init-addr last,libc,none"), [expected]);
    // The name was not looked up, or the server has an address.
    for quiet in [
        "s other.test:80 init-addr none",
        "s other.test:80 init-addr none,libc",
        "s other.test:80 init-addr libc,192.0.2.9",
        "s known.test:80 init-addr libc,none",
        "s 192.0.2.1:80 init-addr libc,none",
    ] {
        assert_eq!(notices(quiet), [""; 0], "{quiet}");
    }
}

/// The targets of `log-forward`: address, whether the message format is kept, and index.
fn targets_of(text: &str) -> Result<Vec<String>, Vec<String>> {
    let live = relays(text, &OneName)?;
    let first = |sink: &std::sync::Arc<weir_events::LogSink>| {
        live.sinks.iter().position(|other| std::sync::Arc::ptr_eq(other, sink)).expect("it is one of them")
    };
    Ok(live
        .sinks
        .iter()
        .map(|sink| {
            let target = sink.target();
            let kept = if target.keeps_format { "kept".to_owned() } else { format!("{:?}", target.format) };
            match &target.address {
                weir_events::LogAddress::Ring(name) => format!("{name} {kept} {}", first(sink)),
                _ => format!("socket {kept} {}", first(sink)),
            }
        })
        .collect())
}

#[test]
fn relayed_messages_keep_their_format_unless_a_log_line_or_ring_sets_it() {
    let text = "global\n log 127.0.0.1:1 local0\n log 127.0.0.1:1 format raw local0\nring said\n format rfc5424\nring silent\n\
        log-forward f\n bind :1514\n log global\n log ring@said local0\n log ring@silent local0\n log ring@silent format iso local0\n \
        log tcp@127.0.0.1:1 local0\n log tcp@127.0.0.1:1 format short local0\n log tcp@127.0.0.1:2 local0\n";
    let expected = [
        "socket kept 0",
        "socket Raw 1",
        "said Rfc5424 2",
        "silent kept 3",
        "silent Iso 4",
        "ring#1 kept 5",
        "ring#1 Short 6",
        "ring#2 kept 7",
    ];
    assert_eq!(targets_of(text).expect("all of it is there"), expected);
}

#[test]
fn each_sampled_log_line_has_its_own_counter() {
    let text = "log-forward f\n bind :1514\n log 127.0.0.1:1 local0\n log 127.0.0.1:1 local0\n log 127.0.0.1:1 sample 1:2 local0\n \
        log 127.0.0.1:1 sample 1:2 local0\n";
    let expected = ["socket kept 0", "socket kept 0", "socket kept 2", "socket kept 3"];
    assert_eq!(targets_of(text).expect("all of it is there"), expected);
}

#[test]
fn unresolved_log_servers_prevent_the_start() {
    let check = |target: &str, expected: &str| {
        let text = format!("log-forward f\n bind :1514\n log {target} local0\n");
        assert_eq!(targets_of(&text), Err(vec![expected.to_owned()]));
        let config = fixture::config(&text);
        assert_eq!(
            super::verify(&config, &SavedStates::default(), &OneName, false).faults.len(),
            1,
            "{target}"
        );
    };
    check("other.test", "could not resolve the address 'other.test' of the log target");
    check("tcp@other.test:1", "could not resolve address 'other.test' of server 'ring#1'");
    let text = "log-forward f\n bind other.test:1\n dgram-bind other.test:2\n";
    let config = fixture::config(text);
    assert_eq!(super::verify(&config, &SavedStates::default(), &OneName, false).faults.len(), 2);
}

#[test]
fn resolves_log_servers_at_the_start() {
    assert!(relays("log-forward f\n bind :1514\n log known.test local0\n", &OneName).is_ok());
}

/// The default of `fullconn` counts frontends with a static backend name, and ignores names computed at run time (manual,
/// "fullconn").
#[test]
fn the_default_of_fullconn_counts_only_frontends_with_static_backends() {
    let text = "defaults\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n\
                frontend one\n bind 127.0.0.1:1\n maxconn 200\n use_backend %[path]\n default_backend a\n\
                frontend two\n bind 127.0.0.1:2\n maxconn 95\n use_backend b if TRUE\n default_backend a\n\
                backend a\nbackend b\nbackend c\nbackend d\n fullconn 7\n";
    let seen = weir_sched::run(async move {
        let built = built(text, &OneName, false).expect("it is valid");
        let loads = ["a", "b", "c", "d"].map(|name| {
            let proxy =
                built.instance.proxies.iter().find(|proxy| proxy.name() == name).expect("it is there");
            proxy.servers().settings().full_connections
        });
        assert_eq!(loads, [30, 10, 1, 7]);
    });
    assert!(seen.expect("a worker").is_some(), "the check ends");
}
