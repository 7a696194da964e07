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
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The name servers. A query is sent to all of them at once.
    #[canonical(with = unordered)]
    pub name_servers: Vec<NameServer>,
    /// `accepted_payload_size`: the largest response in one datagram, in bytes.
    pub payload_size: u16,
    /// `resolve_retries`: number of tries before a query fails, at least 1.
    pub retries: u32,
    /// `timeout resolve`: interval between two resolutions of a name.
    pub resolve_timeout: Duration,
    /// `timeout retry`: time to wait for a response.
    pub retry_timeout: Duration,
    /// `hold`: how long a result stays valid, by kind of response.
    pub hold: HoldTimes,
}

impl Resolvers {
    /// The section that is created if the system configures name servers.
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
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    pub address: SocketAddr,
    /// `tcp@`: the name server is queried over TCP.
    pub over_tcp: bool,
    /// `maxconn`: concurrent connections to the name server. None for no limit.
    pub most_connections: Option<u32>,
    /// Settings of connections to the name server.
    pub settings: Arc<ServerSettings>,
}

/// How long the last valid response stays in use, by the kind of later results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub struct HoldTimes {
    /// `hold valid`: how long `do-resolve` reuses a response.
    pub valid: Duration,
    /// `hold obsolete`: how long records are kept that newer responses do not contain.
    pub obsolete: Duration,
    /// `hold nx`: the name does not exist.
    pub no_such_name: Duration,
    /// `hold refused`: all name servers refused the query.
    pub refused: Duration,
    /// `hold timeout`: all name servers timed out.
    pub timeout: Duration,
    /// `hold other`: any other result.
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

/// `dns-accept-family`: address families to resolve names to.
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
