//! How a backend chooses a server: the algorithm, the hash, persistence, retries.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::{Chain, Condition, Expr, Location, LogFormat};
use weir_fingerprint::{Canonical, FormEncoder, Referent};

use super::balance_word::{BalanceWord, RANDOM, ROUND_ROBIN};
use super::names;

/// `balance`: how a server is chosen.
#[derive(Clone, Debug, Canonical)]
pub struct Balance {
    pub word: &'static BalanceWord,
    pub argument: BalanceArgument,
}

/// The argument of an algorithm, by the [`super::BalanceSyntax`] of its word.
#[derive(Clone, Debug, Canonical)]
pub enum BalanceArgument {
    Plain,
    /// How many servers are drawn; 2 by default.
    Draws(u32),
    /// The key is the client's address.
    Source,
    /// The key is the request's URI, or a part of it.
    Uri(UriKey),
    /// The key is a parameter of the query.
    UrlParameter {
        name: Box<str>,
        /// Look in the body of POST requests too.
        check_post: bool,
    },
    /// The key is a request header.
    Header {
        name: Box<str>,
        /// Of a host name, only the part before the top level counts.
        use_domain_only: bool,
    },
    /// The key is the RDP cookie.
    RdpCookie {
        name: Box<str>,
    },
    /// The key is the result of an expression.
    Expression(Arc<Expr>),
    /// The key is the result of converters on the text of a log message.
    LogMessage(Arc<Chain>),
}

/// The arguments of `balance uri`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct UriKey {
    /// Hash the query too.
    pub whole: bool,
    /// Hash only this many characters; 0 for all.
    pub length: u32,
    /// Hash only this many directories; 0 for all.
    pub depth: u32,
    /// Hash the path only, even if the URI has an authority.
    pub path_only: bool,
}

impl Balance {
    /// Each server in turn.
    pub fn round_robin() -> Self {
        Balance { word: ROUND_ROBIN, argument: BalanceArgument::Plain }
    }

    /// The number of draws. None for an argument of another kind.
    pub fn number(&self) -> Option<u32> {
        match self.argument {
            BalanceArgument::Draws(draws) => Some(draws),
            _ => None,
        }
    }
}

impl Default for Balance {
    fn default() -> Self {
        Balance { word: RANDOM, argument: BalanceArgument::Draws(2) }
    }
}

/// `outlier-ejection`: when servers with worse traffic than the others are ejected, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub struct OutlierEjection {
    /// Eject after this many errors in a row.
    pub errors: Option<u32>,
    /// Eject with an error rate this many percentage points above the other servers' rate.
    pub ratio: Option<u32>,
    /// Eject when response times reach this many per cent of the other servers' response times.
    pub latency: Option<u32>,
    /// How long rates and times are measured before they are compared.
    pub interval: Duration,
    /// How long the first ejection lasts.
    pub base: Duration,
    /// The longest ejection; none for ten times the first.
    pub longest: Option<Duration>,
    /// The most servers that may be ejected at once, in per cent.
    pub at_most: u32,
}

impl Default for OutlierEjection {
    fn default() -> Self {
        OutlierEjection {
            errors: None,
            ratio: None,
            latency: None,
            interval: Duration::from_secs(10),
            base: Duration::from_secs(30),
            longest: None,
            at_most: 30,
        }
    }
}

/// `hash-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct HashType {
    /// How a hash selects a server.
    pub method: HashMethod,
    /// The hash function for the key.
    pub function: HashFunction,
    /// `avalanche`: mix the hash once more.
    pub avalanche: bool,
}

impl HashType {
    /// `hash-type consistent` without further arguments: sdbm and avalanche.
    pub fn consistent() -> Self {
        HashType { method: HashMethod::Consistent, function: HashFunction::Sdbm, avalanche: true }
    }
}

/// How a hash selects a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum HashMethod {
    /// An index into an array of the living servers.
    #[default]
    MapBased,
    /// The next server on a ring.
    Consistent,
}

/// The hash function for a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum HashFunction {
    /// The hash of the sdbm database.
    #[default]
    Sdbm,
    Djb2,
    /// The hash made for `wt6`.
    Wt6,
    /// CRC32 as Ethernet computes it.
    Crc32,
    /// The key itself, as a number.
    None,
}

/// `hash-preserve-affinity`: when to leave the hashed server although it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum PreserveAffinity {
    /// Never leave.
    #[default]
    Always,
    /// Leave when its `maxconn` is reached.
    MaxConn,
    /// Leave when its `maxqueue` is reached.
    MaxQueue,
}

/// `retry-on`: after which failures a request is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub struct RetryOn(u32);

impl RetryOn {
    /// The empty set: no retries after failures.
    pub const NONE: RetryOn = RetryOn(0);
    /// The connection failed.
    pub const CONNECTION_FAILURE: RetryOn = RetryOn(1);
    /// The server closed without a byte of response.
    pub const EMPTY_RESPONSE: RetryOn = RetryOn(1 << 1);
    /// The server sent an invalid response.
    pub const JUNK_RESPONSE: RetryOn = RetryOn(1 << 2);
    /// The response timed out.
    pub const RESPONSE_TIMEOUT: RetryOn = RetryOn(1 << 3);
    /// The server refused early data.
    pub const EARLY_DATA_REJECTED: RetryOn = RetryOn(1 << 4);
    /// `all-retryable-errors`.
    pub const ALL_RETRYABLE: RetryOn = RetryOn(
        1 | 1 << 1
            | 1 << 2
            | 1 << 3
            | 1 << 4
            | RetryOn::status_bit(500)
            | RetryOn::status_bit(502)
            | RetryOn::status_bit(503)
            | RetryOn::status_bit(504),
    );
    /// The response codes that can be listed, in the order of their bits.
    pub const STATUSES: [u16; 11] = [401, 403, 404, 408, 421, 425, 429, 500, 501, 502, 503];

    /// The set that has only this status, empty if the status cannot be listed.
    pub const fn status(status: u16) -> RetryOn {
        RetryOn(RetryOn::status_bit(status))
    }

    const fn status_bit(status: u16) -> u32 {
        if status == 504 {
            return 1 << 31;
        }
        let mut index = 0;
        while index < RetryOn::STATUSES.len() {
            if RetryOn::STATUSES[index] == status {
                return 1 << (8 + index);
            }
            index += 1;
        }
        0
    }

    /// Both sets together.
    pub const fn union(self, other: RetryOn) -> RetryOn {
        RetryOn(self.0 | other.0)
    }

    /// Whether everything in `other` is in this set, and `other` is not empty.
    pub const fn contains(self, other: RetryOn) -> bool {
        other.0 != 0 && self.0 & other.0 == other.0
    }

    /// Whether a request is retried after this status.
    pub const fn contains_status(self, status: u16) -> bool {
        self.contains(RetryOn::status(status))
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set contains more than failed connections, so that requests must be kept for replay.
    pub const fn needs_replay(self) -> bool {
        self.0 & !RetryOn::CONNECTION_FAILURE.0 != 0
    }
}

impl Default for RetryOn {
    fn default() -> Self {
        RetryOn::CONNECTION_FAILURE
    }
}

/// `cookie`: persistence by a cookie.
#[derive(Clone, Debug, Default, PartialEq, Canonical)]
pub struct CookiePersistence {
    pub name: Box<str>,
    /// Whether the server or weir writes the cookie.
    pub mode: CookieMode,
    /// `indirect`: requests to the server do not contain the cookie. Responses set it only when its value must change.
    pub indirect: bool,
    /// `nocache`: responses that set the cookie are marked as not cacheable.
    pub no_cache: bool,
    /// `postonly`: set the cookie only in responses to POST.
    pub post_only: bool,
    /// `preserve`: keep the cookie that the server sets.
    pub preserve: bool,
    /// `httponly`.
    pub http_only: bool,
    /// `secure`.
    pub secure: bool,
    /// `dynamic`: servers without a value get one derived from their address and `dynamic-cookie-key`.
    pub dynamic: bool,
    /// `domain`, each with its leading dot as written.
    pub domains: Vec<Box<str>>,
    /// `maxidle`: ignore a cookie that was unused for longer. Zero for no limit.
    pub max_idle: Duration,
    /// `maxlife`: ignore a cookie that is older. Zero for no limit.
    pub max_life: Duration,
    /// `attr`: further attributes.
    pub attributes: Vec<Box<str>>,
}

/// Whether the server or weir writes the persistence cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum CookieMode {
    /// The server sets the cookie. weir only reads it.
    #[default]
    Passive,
    /// The server sets the cookie. weir replaces its value.
    Rewrite,
    Insert,
    /// The server sets the cookie. weir puts its own value in front.
    Prefix,
}

/// `use_backend`: one step of the choice of a backend.
#[derive(Clone, Debug, Canonical)]
pub struct UseBackend {
    pub target: BackendTarget,
    /// When the rule applies. None for always.
    pub condition: Option<Condition>,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// A backend, known now or at run time.
#[derive(Clone, Debug, Canonical)]
pub enum BackendTarget {
    /// The proxy at this index of `Config::proxies`, resolved when the configuration is complete.
    Static(ProxyIndex),
    /// Yields the name of the backend for each request.
    Dynamic(Arc<LogFormat>),
}

/// The position of a proxy in `Config::proxies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProxyIndex(pub u32);

/// By the proxy's name.
impl Canonical for ProxyIndex {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.referent(Referent::Proxy(self.0));
    }
}

impl ProxyIndex {
    /// The position.
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// `use-server`: one step of the choice of a server.
#[derive(Clone, Debug, Canonical)]
pub struct UseServer {
    pub target: ServerTarget,
    /// When the rule applies. None for always.
    pub condition: Option<Condition>,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// A server of the same backend, known now or at run time.
#[derive(Clone, Debug, Canonical)]
pub enum ServerTarget {
    /// The server at this index of `Proxy::servers`, resolved when the configuration is complete.
    Static(#[canonical(with = names::own_server)] u32),
    /// Yields the name of the server for each request.
    Dynamic(Arc<LogFormat>),
}

/// `force-persist` and `ignore-persist`.
#[derive(Clone, Debug, Canonical)]
pub struct PersistRule {
    /// True for `force-persist`: use the cookie's server even if it is down. False for `ignore-persist`.
    pub force: bool,
    /// When the rule applies.
    pub condition: Condition,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}
