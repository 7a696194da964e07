//! Sections against faulty name servers, without sockets. Time is a number, and the test responds to each
//! query.

use weir_model::ServerPort;
mod simulated;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use weir_backend::{
    AdminState, Backend, BackendNews, BackendSettings, ServerAddress, ServerChange, ServerKey, ServerSettings,
};
use weir_dns::{Answer, Name, RecordKind, ResponseCode, ServiceLocation};
use weir_model::IpNetwork;

use crate::course::{Course, CourseStep, ResolutionFailure};
use crate::followers::{FollowerLookup, NameFollower};
use crate::knowledge::HoldTimes;
use crate::section::{Families, NameServer, RenameError, ResolversSection, SectionSettings};

const HOLD: HoldTimes = HoldTimes {
    valid_ms: 10_000,
    obsolete_ms: 2_500,
    no_such_name_ms: 3_000,
    refused_ms: 4_000,
    timeout_ms: 5_000,
    other_ms: 6_000,
};

fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("a name")
}

fn backend(place: usize, servers: &[&str]) -> Arc<Backend> {
    let servers = (1..).zip(servers).map(|(id, name)| ServerSettings {
        name: (*name).to_owned(),
        id,
        unresolved: true,
        address: ServerAddress::Inet { ip: None, port: ServerPort::Fixed(80) },
        ..ServerSettings::default()
    });
    let settings = BackendSettings { name: format!("b{place}"), place, ..BackendSettings::default() };
    Backend::new(settings, servers.collect(), 0)
}

fn follower(backend: &Arc<Backend>, rank: u32, of: &str) -> NameFollower {
    let is_service = of.starts_with('_');
    NameFollower {
        backend: Arc::clone(backend),
        server: ServerKey::configured(rank),
        name: (!is_service).then(|| name(of)),
        service: is_service.then(|| name(of)),
        service_port: 0,
        prefers_ipv4: true,
        networks: Arc::from([]),
        allows_duplicates: false,
        ignores_weight: false,
        is_given: false,
    }
}

fn settings() -> SectionSettings {
    SectionSettings {
        name: "r".into(),
        payload_size: 512,
        retries: 2,
        resolve_ms: 1000,
        retry_ms: 300,
        hold: HOLD,
    }
}

const FAMILIES: Families = Families { ipv4: true, ipv6: true, ipv6_if_routed: false };

fn section(followers: Vec<NameFollower>) -> ResolversSection {
    let server = NameServer::new("ns", ([192, 0, 2, 53], 53).into(), false, None);
    ResolversSection::new(settings(), vec![server], FAMILIES, followers)
}

fn answer(addresses: Vec<IpAddr>, services: Vec<ServiceLocation>) -> Answer {
    Answer {
        code: ResponseCode::NoError,
        is_truncated: false,
        has_aliases: false,
        aliases_fail: false,
        addresses,
        services,
    }
}

fn v4(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn service(target: &str, port: u16, weight: u16, addresses: &[u8]) -> ServiceLocation {
    let addresses = addresses.iter().map(|last| v4(*last)).collect();
    ServiceLocation { target: name(target), port, priority: 1, weight, addresses }
}

/// A section and its backends, with the resulting log lines.
struct ResolversFixture {
    section: ResolversSection,
    said: Vec<String>,
}

impl ResolversFixture {
    fn new(followers: Vec<NameFollower>) -> Self {
        let world = ResolversFixture { section: section(followers), said: Vec::new() };
        world.section.unkept();
        world
    }

    fn hear(&mut self, of: &str, first: RecordKind, outcome: Result<Answer, ResolutionFailure>, now_ms: u64) {
        let lookup = FollowerLookup { name: name(of), first };
        let outcome = outcome.map(|answer| (answer, 0));
        let news = self.section.conclude(&lookup, outcome, now_ms);
        self.note(news);
        self.section.unkept();
    }

    fn note(&mut self, news: Vec<BackendNews>) {
        self.said.extend(news.into_iter().flat_map(|news| news.notices).map(|notice| notice.text));
    }

    fn addresses(&mut self, of: &str, last: &[u8], now_ms: u64) {
        self.hear(
            of,
            RecordKind::A,
            Ok(answer(last.iter().map(|last| v4(*last)).collect(), Vec::new())),
            now_ms,
        );
    }

    fn services(&mut self, of: &str, services: &[ServiceLocation], now_ms: u64) {
        self.hear(of, RecordKind::Srv, Ok(answer(Vec::new(), services.to_vec())), now_ms);
    }

    #[track_caller]
    fn said(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.said), expected);
    }
}

/// The addresses of a backend's servers: `-` for none.
fn places(backend: &Backend) -> Vec<String> {
    let servers = backend.servers();
    let of = |server: &Arc<weir_backend::Server>| match server.address().inet_text() {
        Some(place) => {
            assert!(!server.admin_state().is_maintenance(), "{server:?}");
            place
        }
        None => {
            assert!(server.admin_state().contains(AdminState::RESOLUTION_MAINTENANCE), "{server:?}");
            "-".to_owned()
        }
    };
    servers.iter().map(of).collect()
}

#[test]
fn a_server_takes_the_resolved_address_and_logs_each_change() {
    let be = backend(0, &["s", "t"]);
    let mut world = ResolversFixture::new(vec![follower(&be, 0, "a.test")]);
    world.addresses("a.test", &[1], 1000);
    world.said(&[
        "b0/s: IP changed from '(none)' to '192.0.2.1' by 'r/ns'.",
        "Server b0/s ('a.test') is UP/READY (resolves again).",
        "Server b0/s administratively READY thanks to valid DNS answer.",
    ]);
    // The server keeps its current address, whatever the order of the records.
    world.addresses("a.test", &[2, 1], 2000);
    world.said(&[]);
    world.addresses("a.test", &[2], 6000);
    world.said(&["b0/s: IP changed from '192.0.2.1' to '192.0.2.2' by 'r/ns'."]);
    world.hear("a.test", RecordKind::A, Err(ResolutionFailure::NoSuchName), 9000);
    world.said(&[]);
    world.hear("a.test", RecordKind::A, Err(ResolutionFailure::NoSuchName), 9001);
    world.said(&[
        "Server b0/s is going DOWN for maintenance (DNS NX status). 0 active and 0 backup servers left. 0 sessions active, 0 requeued, 0 \
         remaining in queue.",
        "backend b0 has no server available!",
    ]);
    assert_eq!(places(&be)[0], "-");
    world.hear("a.test", RecordKind::A, Err(ResolutionFailure::Refused), 9100);
    world.said(&[]);
    world.addresses("a.test", &[3], 9200);
    assert_eq!(places(&be)[0], "192.0.2.3:80");
}

#[test]
fn the_log_names_the_reason_of_each_resolution_failure() {
    for (failure, words) in [
        (ResolutionFailure::NoSuchName, "DNS NX status"),
        (ResolutionFailure::Refused, "DNS refused status"),
        (ResolutionFailure::Timeout, "DNS timeout status"),
        (ResolutionFailure::Other, "unspecified DNS error"),
    ] {
        let be = backend(0, &["s"]);
        let mut world = ResolversFixture::new(vec![follower(&be, 0, "a.test")]);
        world.addresses("a.test", &[1], 0);
        world.said.clear();
        world.hear("a.test", RecordKind::A, Err(failure), 60_000);
        assert!(world.said[0].contains(&format!("maintenance ({words}). ")), "{:?}", world.said);
    }
}

#[test]
fn servers_of_a_backend_get_distinct_addresses_unless_duplicates_allowed() {
    let (be, other) = (backend(0, &["s", "t", "u"]), backend(1, &["v"]));
    let mut followers: Vec<_> = (0..3).map(|rank| follower(&be, rank, "a.test")).collect();
    followers.push(follower(&other, 0, "a.test"));
    let mut world = ResolversFixture::new(followers.clone());
    world.addresses("a.test", &[1, 2], 0);
    assert_eq!(places(&be), ["192.0.2.1:80", "192.0.2.2:80", "-"]);
    assert_eq!(places(&other), ["192.0.2.1:80"]);
    assert!(
        world.said.iter().any(|line| line == "b0/t: IP changed from '(none)' to '192.0.2.2' by 'DNS cache'.")
    );
    // One address is removed, another is added. Servers keep their address if possible.
    world.addresses("a.test", &[3, 2], 10_000);
    assert_eq!(places(&be), ["192.0.2.3:80", "192.0.2.2:80", "-"]);
    world.addresses("a.test", &[2], 20_000);
    assert_eq!(places(&be), ["-", "192.0.2.2:80", "-"]);
    assert!(world.said.iter().any(|line| line.contains("maintenance (No IP for server ). ")));
    let shared = backend(2, &["s", "t", "u"]);
    let mut world = ResolversFixture::new(
        (0..3)
            .map(|rank| NameFollower { allows_duplicates: true, ..follower(&shared, rank, "a.test") })
            .collect(),
    );
    world.addresses("a.test", &[9], 0);
    assert_eq!(places(&shared), ["192.0.2.9:80"; 3]);
}

/// The two servers of each list are in one backend.
#[test]
fn two_srv_ports_of_one_host_are_distinct_addresses() {
    let check = |of: [&str; 2], addresses: &[u8], expected: [&str; 2]| {
        let be = backend(0, &["s", "t"]);
        let mut world =
            ResolversFixture::new((0..2).map(|rank| follower(&be, rank, of[rank as usize])).collect());
        let records = [service("a.test", 81, 1, addresses), service("a.test", 82, 1, addresses)];
        world.services("_h._tcp.test", &records, 0);
        world.services("_g._tcp.test", &[service("a.test", 81, 1, addresses)], 0);
        world.services("_f._tcp.test", &[service("a.test", 80, 1, addresses)], 0);
        world.addresses("a.test", &[1], 0);
        assert_eq!(places(&be), expected, "{of:?} {addresses:?}");
    };
    let (one, two) = ("192.0.2.1:81", "192.0.2.1:82");
    check(["_h._tcp.test"; 2], &[1], [one, two]);
    check(["_h._tcp.test"; 2], &[], [one, two]);
    check(["a.test", "_h._tcp.test"], &[1], ["192.0.2.1:80", one]);
    check(["a.test", "_h._tcp.test"], &[], ["192.0.2.1:80", one]);
    // Two servers may have the same host and port only if the SRV records include the addresses.
    check(["_g._tcp.test", "_h._tcp.test"], &[1], [one, one]);
    check(["_g._tcp.test", "_h._tcp.test"], &[], [one, "-"]);
    check(["a.test", "_f._tcp.test"], &[], ["192.0.2.1:80", "-"]);
}

#[test]
fn a_removed_srv_record_clears_the_port_of_its_server() {
    let be = backend(0, &["s"]);
    let mut world = ResolversFixture::new(vec![follower(&be, 0, "_h._tcp.test")]);
    let port = || be.servers()[0].address().port();
    assert_eq!(port(), Some(ServerPort::Fixed(80)), "the port of the line");
    world.services("_h._tcp.test", &[service("a.test", 81, 1, &[1])], 0);
    let said = &world.said[1];
    assert!(said.ends_with("port changed from '80' to '81' by 'DNS additional record'."), "{said}");
    let moved = ServerChange::Address { ip: Some(v4(9)), port: Some(ServerPort::Mapped(1)) };
    be.change(ServerKey::configured(0), moved, 0).expect("the server is there");
    world.services("_h._tcp.test", &[service("a.test", 81, 1, &[])], 1);
    assert_eq!(places(&be), ["192.0.2.9:81"], "without an address the answer still has a port");
    world.hear("_h._tcp.test", RecordKind::Srv, Err(ResolutionFailure::Timeout), 60_000);
    assert_eq!((places(&be), port()), (vec!["-".to_owned()], Some(ServerPort::Fixed(0))));
    let former = world.section.rename(&be, ServerKey::configured(0), &name("b.test"));
    assert_eq!(former, Some(Err(RenameError::FollowsService)));
}

#[test]
fn resolve_prefer_and_resolve_net_select_the_address() {
    let be = backend(0, &["s"]);
    let six = IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let network = IpNetwork { address: IpAddr::from([192, 0, 2, 128]), prefix_length: 25 };
    let networks = Arc::from([network]);
    let mut world = ResolversFixture::new(vec![NameFollower { networks, ..follower(&be, 0, "a.test") }]);
    world.hear("a.test", RecordKind::A, Ok(answer(vec![six], Vec::new())), 0);
    assert_eq!(places(&be), ["[2001:db8::1]:80"]);
    world.hear("a.test", RecordKind::A, Ok(answer(vec![six, v4(1)], Vec::new())), 1);
    assert_eq!(places(&be), ["192.0.2.1:80"]);
    world.hear("a.test", RecordKind::A, Ok(answer(vec![six, v4(1), v4(200)], Vec::new())), 2);
    assert_eq!(places(&be), ["192.0.2.200:80"]);
}

#[test]
fn servers_take_host_port_and_weight_from_srv_records() {
    let be = backend(0, &["s", "t", "u"]);
    let mut world = ResolversFixture::new((0..3).map(|rank| follower(&be, rank, "_h._tcp.test")).collect());
    world.services("_h._tcp.test", &[service("a.test", 81, 10, &[]), service("b.test", 82, 65535, &[])], 0);
    world.said(&[
        "b0/s changed its FQDN from (null) to a.test by 'SRV record'",
        "b0/t changed its FQDN from (null) to b.test by 'SRV record'",
    ]);
    world.addresses("a.test", &[1], 100);
    world.addresses("b.test", &[2], 200);
    assert_eq!(places(&be), ["192.0.2.1:81", "192.0.2.2:82", "-"]);
    let weights = |be: &Backend| be.servers().iter().map(|server| server.user_weight()).collect::<Vec<_>>();
    assert_eq!(weights(&be), [1, 256, 1]);
    assert!(be.servers()[0].admin_state().contains(AdminState::FQDN_CHANGED));
    // A host is removed. After the hold time another host takes its server.
    world.said.clear();
    world.services("_h._tcp.test", &[service("b.test", 82, 0, &[]), service("c.test", 83, 1000, &[7])], 1000);
    assert_eq!(places(&be), ["192.0.2.1:81", "192.0.2.2:82", "192.0.2.7:83"]);
    assert_eq!(weights(&be), [1, 0, 4]);
    world.said.clear();
    world.services("_h._tcp.test", &[service("b.test", 82, 0, &[]), service("c.test", 83, 1000, &[8])], 4000);
    assert_eq!(places(&be), ["-", "192.0.2.2:82", "192.0.2.8:83"]);
    assert!(world.said[0].contains("maintenance (entry removed from SRV record). "), "{:?}", world.said);
    assert!(
        world.said.iter().any(
            |line| line == "b0/u: IP changed from '192.0.2.7' to '192.0.2.8' by 'DNS additional record'."
        )
    );
    world.services("_h._tcp.test", &[service("d.test", 84, 1, &[9])], 4001);
    assert_eq!(places(&be)[0], "192.0.2.9:84");
    // After the hold time without a response, the hosts of the service are unknown.
    world.hear("_h._tcp.test", RecordKind::Srv, Err(ResolutionFailure::Timeout), 60_000);
    assert_eq!(places(&be), ["-"; 3]);
}

#[test]
fn ignore_weight_ignores_the_weights_of_srv_records() {
    let be = backend(0, &["s"]);
    let mut world = ResolversFixture::new(vec![NameFollower {
        ignores_weight: true,
        ..follower(&be, 0, "_h._tcp.test")
    }]);
    world.services("_h._tcp.test", &[service("a.test", 81, 65535, &[1])], 0);
    assert_eq!((places(&be), be.servers()[0].user_weight()), (vec!["192.0.2.1:81".to_owned()], 1));
}

#[test]
fn a_server_with_a_changed_fqdn_is_not_kept_in_maintenance_r164() {
    let be = backend(0, &["s"]);
    let mut world = ResolversFixture::new(vec![follower(&be, 0, "a.test")]);
    world.addresses("a.test", &[1], 0);
    let former = world.section.rename(&be, ServerKey::configured(0), &name("b.test"));
    assert_eq!(former, Some(Ok(Some(name("a.test")))));
    assert!(!world.section.is_kept(&FollowerLookup { name: name("a.test"), first: RecordKind::A }));
    world.section.unkept();
    // Responses for the previous name are ignored.
    world.addresses("a.test", &[5], 1);
    world.addresses("b.test", &[2], 2);
    assert_eq!(places(&be), ["192.0.2.2:80"]);
    assert_eq!(world.section.rename(&be, ServerKey::configured(1), &name("b.test")), None);
}

#[test]
fn the_resolution_of_a_name_ends_when_its_last_server_is_removed() {
    let be = backend(0, &["s", "t"]);
    let world = ResolversFixture::new(vec![follower(&be, 0, "a.test"), follower(&be, 1, "a.test")]);
    let lookup = FollowerLookup { name: name("a.test"), first: RecordKind::A };
    be.remove(ServerKey::configured(0), 0).expect("it is in maintenance");
    assert!(world.section.is_kept(&lookup));
    be.remove(ServerKey::configured(1), 0).expect("it is in maintenance");
    assert!(!world.section.is_kept(&lookup));
}

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// The correct answers for names.
#[derive(Default)]
struct Truth {
    hosts: BTreeMap<&'static str, BTreeSet<u8>>,
    /// Target, port, weight, and whether the addresses are included.
    services: Vec<(&'static str, u16, u16, bool)>,
}

const HOSTS: [&str; 4] = ["h0.test", "h1.test", "h2.test", "h3.test"];

impl Truth {
    fn change(&mut self, dice: &mut Dice) {
        let host = HOSTS[dice.roll(4) as usize];
        let addresses = (0..dice.roll(4)).map(|_| dice.roll(6) as u8 + 1).collect();
        self.hosts.insert(host, addresses);
        let some = dice.roll(5) as usize;
        self.services = (0..some)
            .map(|at| {
                (HOSTS[dice.roll(4) as usize], 8000 + at as u16, dice.roll(1000) as u16, dice.roll(2) == 0)
            })
            .collect();
    }

    fn answer(&self, of: &Name, kind: RecordKind) -> Result<Answer, ResolutionFailure> {
        let known = |of: &str| self.hosts.get(of).into_iter().flatten().map(|last| v4(*last));
        let found = match kind {
            RecordKind::A => answer(known(&of.to_string()).collect(), Vec::new()),
            RecordKind::Aaaa => return Err(ResolutionFailure::Other),
            RecordKind::Srv => {
                let of = |&(target, port, weight, brings): &(&str, u16, u16, bool)| ServiceLocation {
                    target: name(target),
                    port,
                    priority: 1,
                    weight,
                    addresses: if brings { known(target).collect() } else { Vec::new() },
                };
                answer(Vec::new(), self.services.iter().map(of).collect())
            }
        };
        let is_empty = found.addresses.is_empty() && found.services.is_empty();
        if is_empty { Err(ResolutionFailure::Other) } else { Ok(found) }
    }
}

/// The answer of a faulty name server.
fn erring(truth: &Truth, of: &Name, kind: RecordKind, dice: &mut Dice) -> Result<Answer, ResolutionFailure> {
    let mut found = match dice.roll(8) {
        0 => return Err(ResolutionFailure::NoSuchName),
        1 => return Err(ResolutionFailure::Refused),
        2 => return Err(ResolutionFailure::Timeout),
        3 => return Err(ResolutionFailure::Other),
        4 => return Err(ResolutionFailure::NotSent),
        _ => truth.answer(of, kind)?,
    };
    if dice.roll(2) == 0 {
        // Part of the correct records, or wrong records.
        let keep = dice.roll(3) as usize;
        found.addresses.truncate(keep);
        found.services.truncate(keep);
        if dice.roll(2) == 0 && kind == RecordKind::A {
            found.addresses.push(v4(200 + dice.roll(3) as u8));
        }
    }
    if found.addresses.is_empty() && found.services.is_empty() {
        Err(ResolutionFailure::Other)
    } else {
        Ok(found)
    }
}

/// Names that tasks resolve, with the time of each next resolution.
struct Tasks(Vec<(FollowerLookup, u64)>);

impl Tasks {
    /// Resolves the first due name. Returns the time at which the resolution ended.
    fn step(
        &mut self,
        world: &mut ResolversFixture,
        query: &mut dyn FnMut(&Name, RecordKind) -> Result<Answer, ResolutionFailure>,
    ) -> u64 {
        let Some(at) = (0..self.0.len()).min_by_key(|at| self.0[*at].1) else { return u64::MAX };
        let (lookup, mut now_ms) = self.0.swap_remove(at);
        if !world.section.is_kept(&lookup) {
            return now_ms;
        }
        let other = (lookup.first != RecordKind::Srv).then_some(RecordKind::Aaaa);
        let mut course = Course::new(lookup.first, other, 2);
        let mut kind = course.first();
        let outcome = loop {
            match query(&lookup.name, kind) {
                Ok(found) => break Ok((found, 0)),
                Err(failure) => match course.failed(failure) {
                    CourseStep::Query(next) => kind = next,
                    CourseStep::QueryLater(next) => {
                        now_ms += 300;
                        kind = next;
                    }
                    CourseStep::Fail(failure) => break Err(failure),
                },
            }
        };
        let news = world.section.conclude(&lookup, outcome, now_ms);
        world.note(news);
        world.said.clear();
        self.0.push((lookup, now_ms + 1000));
        self.0.extend(world.section.unkept().into_iter().map(|lookup| (lookup, now_ms)));
        now_ms
    }
}

/// Servers have the correct addresses within the hold times after the last fault, regardless of earlier responses.
#[test]
fn servers_recover_their_addresses_after_any_faults() {
    for seed in 0..seeds(SEEDS) {
        let mut dice = Dice(seed);
        // A server cannot take the address of another server with the same name in its backend, so services have their own backend.
        let (be, of_service) = (backend(0, &["s0", "s1", "s2", "s3"]), backend(1, &["t0", "t1", "t2"]));
        let mut followers: Vec<_> =
            (0..4).map(|rank| follower(&be, rank, HOSTS[dice.roll(3) as usize])).collect();
        followers.extend((0..3).map(|rank| follower(&of_service, rank, "_s._tcp.test")));
        let shares = dice.roll(2) == 0;
        followers.iter_mut().for_each(|follower| follower.allows_duplicates = shares);
        let names: Vec<_> = followers.iter().map(|follower| follower.name.clone()).collect();
        let mut world = ResolversFixture { section: section(followers), said: Vec::new() };
        let mut truth = Truth::default();
        let mut tasks = Tasks(world.section.unkept().into_iter().map(|lookup| (lookup, 0)).collect());
        let mut now_ms = 0;
        while now_ms < 20_000 {
            if dice.roll(4) == 0 {
                truth.change(&mut dice);
            }
            now_ms = tasks.step(&mut world, &mut |of, kind| erring(&truth, of, kind, &mut dice));
        }
        let right_by = now_ms + HOLD.other_ms + HOLD.obsolete_ms + 5_000;
        while now_ms < right_by {
            now_ms = tasks.step(&mut world, &mut |of, kind| truth.answer(of, kind));
        }
        check_right(seed, (&be, &of_service), &names, &truth, shares);
    }
}

/// Number of seeds in builds without optimization.
const SEEDS: u64 = 200;

/// Number of seeds: `few`, or ten times as many in optimized builds (the step `optimized`). `WEIR_SEEDS` overrides the
/// number.
fn seeds(few: u64) -> u64 {
    let said = std::env::var("WEIR_SEEDS").ok().and_then(|text| text.parse().ok());
    said.unwrap_or(if cfg!(debug_assertions) { few } else { 10 * few })
}

fn check_right(
    seed: u64,
    (be, of_service): (&Backend, &Backend),
    names: &[Option<Name>],
    truth: &Truth,
    shares: bool,
) {
    let (places, of_service) = (places(be), places(of_service));
    for of in HOSTS {
        let own: Vec<&str> = (0..4)
            .filter(|rank| names[*rank] == Some(name(of)))
            .map(|rank| &*places[rank])
            .filter(|place| *place != "-")
            .collect();
        let followers = (0..4).filter(|rank| names[*rank] == Some(name(of))).count();
        let addresses = truth.hosts.get(of).cloned().unwrap_or_default();
        for place in &own {
            assert!(
                addresses.iter().any(|last| *place == format!("{}:80", v4(*last))),
                "{seed}: {place} of {of}"
            );
        }
        let most = if shares && !addresses.is_empty() { followers } else { followers.min(addresses.len()) };
        assert_eq!(own.len(), most, "{seed}: servers of {of}, which is {addresses:?}: {places:?}");
    }
    let of_service: Vec<&String> = of_service.iter().filter(|place| *place != "-").collect();
    for place in &of_service {
        let is_true = truth.services.iter().any(|(target, port, ..)| {
            truth
                .hosts
                .get(target)
                .into_iter()
                .flatten()
                .any(|last| **place == format!("{}:{port}", v4(*last)))
        });
        assert!(is_true, "{seed}: {place} is no place of {:?}, {:?}", truth.services, truth.hosts);
    }
    let reachable = truth
        .services
        .iter()
        .filter(|(target, ..)| truth.hosts.get(target).is_some_and(|addresses| !addresses.is_empty()));
    // With as many servers as records, each reachable host has a server for each of its ports.
    if truth.services.len() <= 3 {
        let (servers, records) = (of_service.len(), reachable.count());
        assert_eq!(servers, records, "{seed}: {of_service:?} for {:?}, {:?}", truth.services, truth.hosts);
    }
}
