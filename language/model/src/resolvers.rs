//! `resolvers`: name servers, and how they are queried.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_expr::Location;
use weir_fingerprint::{Canonical, unordered};

use super::server::ServerSettings;

/// A `resolvers` section.
#[derive(Clone, Debug, Canonical)]
pub struct Resolvers {
    pub name: Arc<str>,
    /// Where it was written.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The name servers, which are all queried at once.
    #[canonical(with = unordered)]
    pub name_servers: Vec<NameServer>,
    /// `accepted_payload_size`: the largest answer in one datagram, in bytes.
    pub payload_size: u16,
    /// `resolve_retries`: number of tries of a query before it fails; at least once.
    pub retries: u32,
    /// `timeout resolve`: from one resolution of a name to the next.
    pub resolve_timeout: Duration,
    /// `timeout retry`: how long to wait for an answer.
    pub retry_timeout: Duration,
    /// `hold`: how long a result stays valid, by kind of response.
    pub hold: HoldTimes,
}

impl Resolvers {
    /// The section that always exists, if the system names name servers.
    pub const DEFAULT: &'static str = "default";

    /// A section with default settings (manual, "The resolvers section").
    pub fn new(name: &str, at: Location) -> Self {
        Resolvers {
            name: name.into(),
            at,
            name_servers: Vec::new(),
            payload_size: 512,
            retries: 3,
            resolve_timeout: Duration::from_secs(1),
            retry_timeout: Duration::from_secs(1),
            hold: HoldTimes::default(),
        }
    }
}

/// A `nameserver` line.
#[derive(Clone, Debug, Canonical)]
pub struct NameServer {
    /// Its name, unique in its section.
    pub name: Box<str>,
    /// Where it was written.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    pub address: SocketAddr,
    /// `tcp@`: it is queried over TCP.
    pub over_tcp: bool,
    /// `maxconn`: how many connections there are to it at once; none for no bound.
    pub most_connections: Option<u32>,
    /// How connections to it are made.
    pub settings: Arc<ServerSettings>,
}

/// How long the last valid answer stays in use, by the kind of the newer results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub struct HoldTimes {
    /// `hold valid`: how long `do-resolve` reuses an answer.
    pub valid: Duration,
    /// `hold obsolete`: how long records are kept that newer answers do not contain.
    pub obsolete: Duration,
    /// `hold nx`: after an answer that the name does not exist.
    pub no_such_name: Duration,
    /// `hold refused`: after all name servers refused.
    pub refused: Duration,
    /// `hold timeout`: after none answered.
    pub timeout: Duration,
    /// `hold other`: after anything else.
    pub other: Duration,
}

impl Default for HoldTimes {
    fn default() -> Self {
        let half_a_minute = Duration::from_secs(30);
        HoldTimes {
            valid: Duration::from_secs(10),
            obsolete: Duration::ZERO,
            no_such_name: half_a_minute,
            refused: half_a_minute,
            timeout: half_a_minute,
            other: half_a_minute,
        }
    }
}

/// `dns-accept-family`: address families that names are resolved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub struct AcceptedFamilies {
    pub ipv4: bool,
    pub ipv6: bool,
    /// `auto`: IPv6 only while the system has a route for it.
    pub ipv6_if_routed: bool,
}

impl Default for AcceptedFamilies {
    fn default() -> Self {
        AcceptedFamilies { ipv4: true, ipv6: true, ipv6_if_routed: false }
    }
}
