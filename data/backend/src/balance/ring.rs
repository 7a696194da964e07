//! Consistent hashing: each server has many points on a ring of 2^32, and the closest point to a hash wins.
//!
//! A server has sixteen points for each unit of weight, at positions that depend only on its identifier (or
//! address). So a change of the backend moves as few keys as possible, and several balancers agree.

use std::net::IpAddr;
use std::sync::Arc;

use weir_model::HashKey;

use super::{Member, UsableServers};
use crate::address::ServerAddress;
use crate::hash::{avalanche, sdbm};
use crate::server::Server;
use crate::server_key::ServerKey;

/// The points, ascending.
pub(super) struct HashRing {
    points: Arc<Vec<(u32, u32)>>,
    /// The owners of the points, in the order of the members.
    owners: Vec<PointOwner>,
    /// `hash-balance-factor`.
    factor: u32,
}

/// Distance between the points of consecutive identifiers before mixing: the number of points of the
/// largest weight.
const POINTS_LIMIT: u32 = 256 * 16;

impl HashRing {
    pub(super) fn new(factor: u32) -> Self {
        Self { points: Arc::default(), owners: Vec::new(), factor }
    }

    /// Unchanged members keep their points. Only the points of other members are computed, sorted and merged. Sorting the
    /// points of thousands of members would take longer than a request may wait.
    pub(super) fn rebuild(&mut self, members: &[Member]) {
        let owners: Vec<_> = members.iter().map(PointOwner::of).collect();
        let places = owners.iter().map(|owner| owner.key.index() + 1).max().unwrap_or(0);
        let mut by_place = vec![None; places];
        (0u32..).zip(&owners).for_each(|(position, owner)| by_place[owner.key.index()] = Some(position));
        let now_at = |former: &PointOwner| {
            let position = (*by_place.get(former.key.index())?)?;
            (owners[position as usize] == *former).then_some(position)
        };
        let moved: Vec<Option<u32>> = self.owners.iter().map(now_at).collect();
        let mut is_new = vec![true; owners.len()];
        moved.iter().flatten().for_each(|position| is_new[*position as usize] = false);
        let newcomers = (0u32..).zip(&owners).filter(|(position, _)| is_new[*position as usize]);
        let mut added: Vec<_> = newcomers.flat_map(|(position, owner)| owner.points(position)).collect();
        added.sort_unstable();
        let mut added = added.into_iter().peekable();
        let mut all = Vec::with_capacity(self.points.len() + added.len());
        for (point, former) in self.points.iter() {
            let Some(position) = moved[*former as usize] else { continue };
            while let Some(other) = added.next_if(|other| *other < (*point, position)) {
                all.push(other);
            }
            all.push((*point, position));
        }
        all.extend(added);
        (self.points, self.owners) = (Arc::new(all), owners);
    }

    /// Shares the points of `leader`.
    pub(super) fn share(&mut self, leader: &Self) {
        self.points = Arc::clone(&leader.points);
    }

    /// The closest member, then the following ones around the ring. Members above their share of the load
    /// come last.
    pub(super) fn designated(
        &self,
        servers: &UsableServers<'_>,
        hash: u32,
        avoid: Option<usize>,
    ) -> impl Iterator<Item = usize> {
        let start = self.closest(hash);
        let walk = move || {
            let (before, after) = self.points.split_at(start.min(self.points.len()));
            after.iter().chain(before).map(|(_, member)| *member as usize)
        };
        let bound = LoadBound::new(servers, self.factor);
        let welcome = move |member: &usize| Some(*member) != avoid && bound.admits(servers, *member);
        let others = walk().filter(move |member| Some(*member) != avoid);
        walk().filter(welcome).chain(others).chain(avoid)
    }

    /// The point nearest to the hash, on either side.
    fn closest(&self, hash: u32) -> usize {
        let count = self.points.len();
        if count == 0 {
            return 0;
        }
        let next = self.points.partition_point(|(point, _)| *point < hash) % count;
        let previous = (next + count - 1) % count;
        let distance_next = self.points[next].0.wrapping_sub(hash);
        let distance_previous = hash.wrapping_sub(self.points[previous].0);
        if distance_previous <= distance_next { previous } else { next }
    }
}

/// A member and the inputs of its points.
#[derive(PartialEq, Eq)]
struct PointOwner {
    key: ServerKey,
    base: u32,
    count: u32,
}

impl PointOwner {
    fn of(member: &Member) -> Self {
        let count = member.weight.min(POINTS_LIMIT);
        Self { key: member.server.key(), base: place(&member.server), count }
    }

    fn points(&self, position: u32) -> impl Iterator<Item = (u32, u32)> {
        let base = self.base;
        (0..self.count).map(move |index| (avalanche(base.wrapping_add(index)), position))
    }
}

/// Start of a server's points before mixing.
fn place(server: &Server) -> u32 {
    let address = match (server.settings().hash_key, &*server.address()) {
        (HashKey::Address, ServerAddress::Inet { ip: Some(ip), .. }) => Some(sdbm(&octets(*ip))),
        (HashKey::AddressAndPort, ServerAddress::Inet { ip: Some(ip), port }) => {
            let mut key = octets(*ip);
            key.extend((port.number() as u16).to_be_bytes());
            Some(sdbm(&key))
        }
        _ => None,
    };
    address.map_or(server.id().wrapping_mul(POINTS_LIMIT), avalanche)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// `hash-balance-factor`: the limit of requests per member at the current load. Queued requests do not count.
pub(super) struct LoadBound {
    /// The factor in per cent times the total load after one more request. `None` is unlimited.
    allowed: Option<u128>,
    weight: u128,
}

impl LoadBound {
    pub(super) fn new(servers: &UsableServers<'_>, factor: u32) -> Self {
        if factor == 0 {
            return Self { allowed: None, weight: 1 };
        }
        let load: u64 = (0..servers.members.len()).map(|member| u64::from(servers.served(member))).sum();
        let weight: u64 = servers.members.iter().map(|member| u64::from(member.weight)).sum();
        Self { allowed: Some(u128::from(load + 1) * u128::from(factor)), weight: u128::from(weight.max(1)) }
    }

    /// Whether one more request keeps a member within the factor of the average for its weight.
    pub(super) fn admits(&self, servers: &UsableServers<'_>, member: usize) -> bool {
        let Some(allowed) = self.allowed else { return true };
        let share = (allowed * u128::from(servers.members[member].weight)).div_ceil(100 * self.weight);
        u128::from(servers.served(member)) < share.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::fixture::{members, members_with, usable};
    use crate::hash::hash;
    use weir_model::{HashFunction, HashMethod, HashType};

    use crate::settings::ServerSettings;
    use std::net::SocketAddr;

    use crate::sync::Ordering;

    /// Servers of two lists have the same positions if their `hash-key` values are equal.
    #[test]
    fn the_hash_key_decides_a_servers_ring_positions() {
        let place = |id: u32, hash_key: HashKey, address: &str| {
            let address = ServerAddress::from(address.parse::<SocketAddr>().unwrap());
            let settings = ServerSettings { id, hash_key, address, ..Default::default() };
            place(&members_with([settings])[0].server)
        };
        let (one, other) = ("10.0.0.1:80", "10.0.0.2:80");
        assert_eq!(place(1, HashKey::Id, one), place(1, HashKey::Id, other));
        assert_ne!(place(1, HashKey::Id, one), place(2, HashKey::Id, one));
        assert_eq!(place(1, HashKey::Address, one), place(2, HashKey::Address, "10.0.0.1:81"));
        assert_ne!(place(1, HashKey::Address, one), place(1, HashKey::Address, other));
        assert_eq!(place(1, HashKey::AddressAndPort, one), place(2, HashKey::AddressAndPort, one));
        assert_ne!(place(1, HashKey::AddressAndPort, one), place(1, HashKey::AddressAndPort, "10.0.0.1:81"));
        assert_ne!(place(1, HashKey::Address, "[::1]:80"), place(1, HashKey::Address, "[::2]:80"));
    }

    fn ring(members: &[Member]) -> HashRing {
        let mut ring = HashRing::new(0);
        ring.rebuild(members);
        ring
    }

    fn choices(members: &[Member], kind: HashType, keys: u32) -> Vec<usize> {
        let ring = ring(members);
        let designate = |key: u32| {
            let hash = hash(kind, format!("key{key}").as_bytes());
            ring.designated(&usable(members), hash, None).next().unwrap()
        };
        (0..keys).map(designate).collect()
    }

    /// Where HAProxy 2.6 sends `key0`, `key1` and so on.
    #[test]
    fn the_hash_ring_selects_the_same_servers_as_haproxy() {
        #[track_caller]
        fn check(function: HashFunction, avalanche: bool, weights: &[u32], expected: &str) {
            let kind = HashType { method: HashMethod::Consistent, function, avalanche };
            let got = choices(&members(weights), kind, expected.len() as u32);
            let got: String = got.iter().map(|member| char::from(b'a' + *member as u8)).collect();
            assert_eq!(got, expected);
        }
        let default = HashType::consistent();
        check(default.function, default.avalanche, &[1, 1, 1, 1, 1], RING_EQUAL);
        check(default.function, default.avalanche, &[1, 2, 3, 4, 5], RING_WEIGHTED);
        check(HashFunction::Djb2, false, &[1, 1, 1], RING_DJB2);
        check(HashFunction::Crc32, true, &[3, 1, 1], RING_CRC32);
    }

    const RING_EQUAL: &str =
        "beccedddacbdebeaeebbecaecdeaddedeebadcbedaeccdceddeadcbcaecaabecacaabeedeeccabddaaaeacaacc";
    const RING_WEIGHTED: &str =
        "becdbdddceeeceeebebbdeaebeeddeedecbabebecebcecdbddeeddbdeeedabbcaeadbcedebedecdbeadbadccdd";
    const RING_DJB2: &str =
        "bbbbbbbbbbcccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";
    const RING_CRC32: &str =
        "accccababccaaaaaaccabcaabaaaaabcbaacacaabaaaabbaaaaabbabcaacaacacaababbaaabbababcaabcaacaa";

    /// A ring that follows changes equals a ring built from the final members.
    #[test]
    fn an_updated_hash_ring_equals_one_built_from_the_final_members() {
        let mut random = 1_u64;
        let mut draw = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let weights: Vec<u32> = (0..40).map(|_| draw(20) as u32 + 1).collect();
        let mut followed = HashRing::new(0);
        for turn in 0..200 {
            let mut members = members(&weights);
            members.retain(|_| draw(4) > 0);
            members.iter_mut().for_each(|member| member.weight += 3 * u32::from(draw(5) == 0));
            if turn % 20 == 19 {
                members.clear();
            }
            followed.rebuild(&members);
            assert_eq!(followed.points, ring(&members).points, "turn {turn}");
        }
    }

    #[test]
    fn a_removed_server_moves_only_its_own_keys() {
        let all = members(&[1, 2, 1, 3, 1]);
        let before = choices(&all, HashType::consistent(), 2_000);
        let rest: Vec<Member> =
            all.into_iter().enumerate().filter(|(at, _)| *at != 3).map(|(_, member)| member).collect();
        let after = choices(&rest, HashType::consistent(), 2_000);
        for (was, is) in before.into_iter().zip(after) {
            let is = if is >= 3 { is + 1 } else { is };
            assert!(was == 3 || was == is);
        }
    }

    #[test]
    fn the_ring_lists_the_remaining_servers_with_the_avoided_one_last() {
        let members = members(&[1, 1, 1]);
        let ring = ring(&members);
        let servers = usable(&members);
        let first = ring.designated(&servers, 42, None).next().unwrap();
        let order: Vec<usize> = ring.designated(&servers, 42, Some(first)).collect();
        assert_ne!(order[0], first);
        assert_eq!(order.last(), Some(&first));
    }

    #[test]
    fn hash_balance_factor_bounds_the_load_of_a_server() {
        let members = members(&[1, 1, 1, 1]);
        let mut ring = HashRing::new(150);
        ring.rebuild(&members);
        for _ in 0..100 {
            let member = ring.designated(&usable(&members), 42, None).next().unwrap();
            members[member].server.occupy();
        }
        let most = members.iter().map(|member| member.server.served()).max().unwrap();
        assert!(most <= 38, "150% of 25 is 37.5, not {most}");
    }

    /// Queued requests count neither as a server's load nor in the average (manual, "hash-balance-factor").
    #[test]
    fn queued_requests_do_not_count_for_hash_balance_factor() {
        let members = members(&[1, 1, 1, 1]);
        let mut ring = HashRing::new(150);
        ring.rebuild(&members);
        let first = || ring.designated(&usable(&members), 42, None).next().unwrap();
        let wanted = first();
        let other = &members[(wanted + 1) % 4].server;
        let wanted_server = &members[wanted].server;
        // The bound is 150% of a quarter of one request, rounded up.
        wanted_server.queued.fetch_add(100, Ordering::SeqCst);
        assert_eq!(first(), wanted);
        wanted_server.occupy();
        assert_ne!(first(), wanted);
        other.queued.fetch_add(100, Ordering::SeqCst);
        assert_ne!(first(), wanted, "a long queue elsewhere makes it no lighter");
    }

    #[test]
    fn with_hash_key_addr_port_identifiers_do_not_change_ring_positions() {
        let with_ids = |ids: [u32; 2]| {
            members_with(ids.iter().zip(["10.0.0.1:80", "10.0.0.2:80"]).map(|(id, address)| ServerSettings {
                id: *id,
                address: ServerAddress::from(address.parse::<SocketAddr>().unwrap()),
                hash_key: HashKey::AddressAndPort,
                ..Default::default()
            }))
        };
        let kind = HashType::consistent();
        assert_eq!(choices(&with_ids([1, 2]), kind, 200), choices(&with_ids([77, 9]), kind, 200));
    }
}
