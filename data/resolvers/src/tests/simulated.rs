//! The tasks of a section over a simulated network, against faulty name servers: responses are late, wrong, truncated, from
//! another source or missing, connections break, descriptors run out. Once responses are correct, the servers' addresses
//! must become correct.

use std::cell::RefCell;
use std::rc::Rc;

use weir_sched::simulate::network::{
    self, Conditions, SimulatedNetwork, SimulatedPeer, SimulatedService as Listening,
};
use weir_sched::{Class, WorkKind as TaskKind, now, sleep_until, spawn, wait};
use weir_sys::Address;

use super::*;
use crate::name_task::{ResolveReply, Resolvers};

/// The records of a name server, and its faults.
struct Zone {
    truth: Truth,
    errs: bool,
    dice: Dice,
}

/// A parsed query.
struct Query {
    identifier: [u8; 2],
    question: Vec<u8>,
    name: Name,
    kind: RecordKind,
}

/// The reaction of a name server to a query.
enum Deed {
    Say(Vec<u8>),
    SayLate(u64, Vec<u8>),
    Nothing,
    Close,
    Reset,
    Vanish,
}

impl Query {
    fn read(message: &[u8]) -> Option<Query> {
        let (mut at, mut text) = (12, Vec::new());
        while let Some(length) =
            message.get(at).map(|length| usize::from(*length)).filter(|length| *length > 0)
        {
            text.extend(message.get(at + 1..at + 1 + length)?.to_ascii_lowercase());
            text.push(b'.');
            at += 1 + length;
        }
        let question = message.get(12..at + 5)?.to_vec();
        let kind = match question[question.len() - 4..] {
            [0, 1, ..] => RecordKind::A,
            [0, 28, ..] => RecordKind::Aaaa,
            [0, 33, ..] => RecordKind::Srv,
            _ => return None,
        };
        let identifier = [message[0], message[1]];
        Some(Query { identifier, question, name: Name::parse(&text).ok()?, kind })
    }

    /// A response with these records and additional records.
    fn answer(&self, code: u8, records: &[Vec<u8>], additional: &[Vec<u8>]) -> Vec<u8> {
        let mut out = self.identifier.to_vec();
        out.extend([0x81, 0x80 | code]);
        for count in [1, records.len(), 0, additional.len()] {
            out.extend((count as u16).to_be_bytes());
        }
        out.extend(&self.question);
        records.iter().chain(additional).for_each(|record| out.extend(record));
        out
    }

    /// The response that encodes this result.
    fn say(&self, found: &Result<Answer, ResolutionFailure>) -> Vec<u8> {
        let found = match found {
            Ok(found) => found,
            Err(ResolutionFailure::NoSuchName) => return self.answer(3, &[], &[]),
            Err(ResolutionFailure::Refused) => return self.answer(5, &[], &[]),
            Err(_) => return self.answer(0, &[], &[]),
        };
        let own = [0xc0, 12];
        let addresses = found.addresses.iter().map(|ip| record(&own, 1, &octets(*ip)));
        let services = found.services.iter().map(|service| {
            let mut data = Vec::new();
            [service.priority, service.weight, service.port]
                .iter()
                .for_each(|part| data.extend(part.to_be_bytes()));
            data.extend(service.target.wire());
            record(&own, 33, &data)
        });
        let along = found.services.iter().flat_map(|service| {
            service.addresses.iter().map(|ip| record(service.target.wire(), 1, &octets(*ip)))
        });
        self.answer(0, &addresses.chain(services).collect::<Vec<_>>(), &along.collect::<Vec<_>>())
    }
}

fn octets(ip: IpAddr) -> [u8; 4] {
    match ip {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(_) => unreachable!("all that is true here is of IPv4"),
    }
}

fn record(owner: &[u8], kind: u16, data: &[u8]) -> Vec<u8> {
    let mut out = owner.to_vec();
    out.extend(kind.to_be_bytes());
    out.extend([0, 1, 0, 0, 0, 60]);
    out.extend((data.len() as u16).to_be_bytes());
    out.extend(data);
    out
}

impl Zone {
    fn reply(&mut self, query: &Query) -> Deed {
        let truth = query.say(&self.truth.answer(&query.name, query.kind));
        if !self.errs {
            return Deed::Say(truth);
        }
        let bytes =
            match self.dice.roll(16) {
                0 => query.answer(2, &[], &[]),
                1 => return Deed::Nothing,
                2 => return Deed::Close,
                3 => return Deed::Reset,
                4 => return Deed::Vanish,
                5 => return Deed::SayLate(self.dice.roll(900), truth),
                6 => (0..self.dice.roll(100)).map(|_| self.dice.roll(256) as u8).collect(),
                7 => Query { identifier: [0, 0], question: query.question.clone(), ..query.copy() }.answer(
                    0,
                    &[],
                    &[],
                ),
                8 => Query { question: [&b"\x05other"[..], &query.question].concat(), ..query.copy() }
                    .answer(3, &[], &[]),
                9 => query.answer(0, &alias_loop(query), &[]),
                10 => cut_off(truth),
                11 => vec![0; 60_000],
                _ => query.say(&erring(&self.truth, &query.name, query.kind, &mut self.dice)),
            };
        Deed::Say(bytes)
    }
}

impl Query {
    fn copy(&self) -> Query {
        let Query { identifier, question, name, kind } = self;
        Query { identifier: *identifier, question: question.clone(), name: name.clone(), kind: *kind }
    }
}

/// Two names that are aliases of each other.
fn alias_loop(query: &Query) -> [Vec<u8>; 2] {
    let other = name("alias.test");
    [record(query.name.wire(), 5, other.wire()), record(other.wire(), 5, query.name.wire())]
}

/// Sets the truncation flag of a response.
fn cut_off(mut answer: Vec<u8>) -> Vec<u8> {
    answer[2] |= 2;
    answer
}

/// Accepts connections to a name server until the end of the test.
async fn serve(listening: Listening, zone: Rc<RefCell<Zone>>) {
    loop {
        let peer = listening.accept().await;
        spawn(&CONNECTION, Class::Normal, answer_one(peer, Rc::clone(&zone)));
    }
}

/// Answers the query on a connection.
async fn answer_one(peer: SimulatedPeer, zone: Rc<RefCell<Zone>>) {
    let mut came = Vec::new();
    let query = loop {
        match peer.receive(512).await {
            Ok(bytes) if !bytes.is_empty() => came.extend(bytes),
            _ => return,
        }
        if let Some((head, rest)) = came.split_first_chunk::<2>()
            && rest.len() >= usize::from(u16::from_be_bytes(*head))
        {
            break Query::read(rest).expect("a query that can be read");
        }
    };
    let deed = zone.borrow_mut().reply(&query);
    let bytes = match deed {
        Deed::Say(bytes) => bytes,
        Deed::SayLate(after_ms, bytes) => {
            sleep_until(now().after(after_ms)).await;
            bytes
        }
        Deed::Nothing => Vec::new(),
        Deed::Close => return,
        Deed::Reset => return peer.reset(),
        Deed::Vanish => return peer.vanish(),
    };
    if !bytes.is_empty() {
        // The client may have closed the connection.
        let _ = peer.send(&[&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat()).await;
    }
    while peer.receive(512).await.is_ok_and(|bytes| !bytes.is_empty()) {}
}

/// Looks up names repeatedly, like rules. Each look-up ends in time, regardless of the name servers.
async fn look_up_names(resolvers: Arc<Resolvers>, mut dice: Dice) {
    loop {
        sleep_until(now().after(dice.roll(2_000))).await;
        let looked_up = match dice.roll(2) {
            0 => HOSTS[dice.roll(4) as usize].to_owned(),
            _ => format!("n{}.test", dice.roll(20)),
        };
        if let ResolveReply::Later { question, limit_ms } = resolvers.look_up("r", name(&looked_up), true) {
            let limit = now().after(limit_ms);
            while question.answer().is_none() && now() < limit {
                wait(limit).await;
            }
            assert!(question.answer().is_some(), "nobody answers for {looked_up}");
        }
    }
}

/// Never (0), or once in 2 to `most` times. A fault every time would never end.
fn once_in(dice: &mut Dice, most: u64) -> u32 {
    match dice.roll(3) {
        0 => 0,
        _ => 2 + dice.roll(most) as u32,
    }
}

async fn live(network: SimulatedNetwork, seed: u64) {
    let mut dice = Dice(seed);
    let (be, of_service) = (backend(0, &["s0", "s1", "s2", "s3"]), backend(1, &["t0", "t1", "t2"]));
    let mut followers: Vec<_> =
        (0..4).map(|rank| follower(&be, rank, HOSTS[dice.roll(3) as usize])).collect();
    followers.extend((0..3).map(|rank| follower(&of_service, rank, "_s._tcp.test")));
    let shares = dice.roll(2) == 0;
    followers.iter_mut().for_each(|follower| follower.allows_duplicates = shares);
    let names: Vec<_> = followers.iter().map(|follower| follower.name.clone()).collect();

    let zone = Zone { truth: Truth::default(), errs: true, dice: Dice(dice.roll(u64::MAX)) };
    let zone = Rc::new(RefCell::new(zone));
    let places = [[192, 0, 2, 53], [192, 0, 2, 54]].map(|ip| std::net::SocketAddr::from((ip, 53)));
    let mut silent = None;
    for (index, place) in places.into_iter().enumerate() {
        let listen = || network.listen(&Address::Inet(place)).expect("a free address");
        // The second server may behave like the first, not respond, or not exist.
        match if index == 0 { 0 } else { dice.roll(3) } {
            0 => _ = spawn(&NAME_SERVER, Class::Normal, serve(listen(), Rc::clone(&zone))),
            1 => silent.insert(listen()).answer(false),
            _ => {}
        }
    }
    let most_connections = (dice.roll(2) == 0).then_some(2);
    let name_servers =
        places.map(|place| NameServer::new(&place.to_string(), place, true, most_connections)).into();
    let section = ResolversSection::new(settings(), name_servers, FAMILIES, followers);
    let resolvers = Arc::new(Resolvers::new(vec![section], Box::new(|_| {})));
    resolvers.start();
    spawn(&CLIENT, Class::Normal, look_up_names(resolvers, Dice(dice.roll(u64::MAX))));

    let over = now().after(20_000);
    while now() < over {
        if dice.roll(3) == 0 {
            zone.borrow_mut().truth.change(&mut dice);
        }
        network.change(|conditions| {
            *conditions = Conditions {
                cuts: once_in(&mut dice, 4),
                latency_us: 1 + dice.roll(50_000),
                short_sends: once_in(&mut dice, 4),
                spurious: once_in(&mut dice, 10),
                resets: once_in(&mut dice, 30),
                aborts: once_in(&mut dice, 30),
                descriptors: if dice.roll(4) == 0 { dice.roll(3) as usize } else { usize::MAX },
                ..Conditions::CALM
            };
        });
        sleep_until(now().after(dice.roll(700))).await;
    }
    zone.borrow_mut().errs = false;
    network.change(|conditions| *conditions = Conditions::CALM);
    sleep_until(now().after(HOLD.other_ms + HOLD.obsolete_ms + 5_000)).await;
    check_right(seed, (&be, &of_service), &names, &zone.borrow().truth, shares);
}

/// Servers have the correct addresses within the hold times after the last fault, and look-ups of rules end.
#[test]
fn resolution_tasks_recover_after_any_network_faults() {
    // Each thread has its own simulation.
    std::thread::scope(|scope| {
        for first in 0..2 {
            scope.spawn(move || {
                for seed in (first..seeds(SIMULATED_SEEDS)).step_by(2) {
                    let run = network::run(seed, Conditions::CALM, |network| live(network, seed))
                        .expect("a worker");
                    assert_eq!(run.outcome, Ok(()), "seed {seed}");
                }
            });
        }
    });
}

/// How many seeds are tried in builds without optimization.
const SIMULATED_SEEDS: u64 = 30;

static NAME_SERVER: TaskKind = TaskKind::new("name server");
static CONNECTION: TaskKind = TaskKind::new("connection");
static CLIENT: TaskKind = TaskKind::new("client");
