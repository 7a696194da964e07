//! Consistent hashing: many points of each server on a ring of 2^32, the closest one wins.
//!
//! A server has sixteen points for each unit of weight, at places that follow from its identifier
//! (or address) alone, so that a farm's change moves only what it must and several balancers agree.

use std::net::IpAddr;

use super::{Farm, Member};
use crate::hash::{avalanche, sdbm};
use crate::server::Server;
use crate::settings::{HashKey, ServerAddress};

/// The points, ascending.
pub(crate) struct Ring {
    points: Vec<(u32, u32)>,
    /// `hash-balance-factor`.
    factor: u32,
}

/// The points of two neighbouring identifiers are this far apart before they are mixed: more than
/// the largest weight has.
const POINTS_LIMIT: u32 = 256 * 16;

impl Ring {
    pub(super) fn new(factor: u32) -> Self {
        Self { points: Vec::new(), factor }
    }

    pub(super) fn rebuild(&mut self, members: &[Member]) {
        self.points.clear();
        for (position, member) in (0u32..).zip(members) {
            let base = place(&member.server);
            let points = (0..member.weight.min(POINTS_LIMIT))
                .map(|index| (avalanche(base.wrapping_add(index)), position));
            self.points.extend(points);
        }
        self.points.sort_unstable();
    }

    /// The closest member, then the following ones around the ring; those with more than their share
    /// of the load last.
    pub(super) fn designated(
        &self,
        farm: &Farm<'_>,
        hash: u32,
        avoid: Option<usize>,
    ) -> impl Iterator<Item = usize> {
        let start = self.closest(hash);
        let walk = move || {
            let (before, after) = self.points.split_at(start.min(self.points.len()));
            after.iter().chain(before).map(|(_, member)| *member as usize)
        };
        let factor = self.factor;
        let welcome = move |member: &usize| Some(*member) != avoid && is_light(farm, *member, factor);
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

/// Where a server's points begin before they are mixed.
fn place(server: &Server) -> u32 {
    let address = match (server.settings().hash_key, &*server.address()) {
        (HashKey::Address, ServerAddress::Ip(address)) => Some(sdbm(&octets(address.ip()))),
        (HashKey::AddressPort, ServerAddress::Ip(address)) => {
            let mut key = octets(address.ip());
            key.extend(address.port().to_be_bytes());
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

/// Whether one more request keeps a member within `factor` per cent of the average load for its
/// weight. Without a factor everybody is.
pub(super) fn is_light(farm: &Farm<'_>, member: usize, factor: u32) -> bool {
    if factor == 0 {
        return true;
    }
    let total: u64 = (0..farm.members.len()).map(|member| u64::from(farm.in_flight(member))).sum();
    let allowed = u128::from(total + 1) * u128::from(factor) * u128::from(farm.members[member].weight);
    let share = allowed.div_ceil(100 * u128::from(farm.total_weight().max(1)));
    u128::from(farm.in_flight(member)) < share.max(1)
}
