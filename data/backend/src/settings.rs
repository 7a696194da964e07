//! The configuration of a backend and its servers, as plain values.
//!
//! Settings with the same meaning here and in the typed configuration use the configuration's type. The caller derives the
//! other settings. `Default` gives the manual's defaults.

use weir_model::{HashKey, Reuse};
use weir_model::{HashType, PreserveAffinity};

use crate::address::ServerAddress;
use crate::health::{CheckRules, ObserveRules};
use crate::outlier::OutlierRules;
use crate::persistence::{CookieRules, DynamicCookies};

/// The part of a `backend` or `listen` section that choosing and queueing need.
#[derive(Clone, Debug)]
pub struct BackendSettings {
    pub name: String,
    /// The backend's numeric identifier (`id`, or the position).
    pub id: u32,
    /// The backend's index among the proxies, used in notices.
    pub place: usize,
    /// Whether it is a `listen` section.
    pub is_listen: bool,
    /// `option log-health-checks`.
    pub log_health_checks: bool,
    /// The number of workers that share the backend. Worker numbers are below it.
    pub workers: usize,
    /// `balance`.
    pub algorithm: BalanceAlgorithm,
    /// `hash-type`.
    pub hash_type: HashType,
    /// `hash-balance-factor` in per cent of the average load. 0 is off.
    pub hash_balance_factor: u32,
    /// `hash-preserve-affinity`.
    pub hash_affinity: PreserveAffinity,
    /// `option allbackups`.
    pub all_backups: bool,
    /// `fullconn`, or its computed default. 0 means that `minconn` never applies.
    pub full_connections: u32,
    /// `option persist`: a queued persistent request stays with its server even when it goes down.
    pub persist: bool,
    /// `option redispatch` and its interval. 0 is off.
    pub redispatch: i32,
    /// `retries`.
    pub retries: u32,
    /// `http-reuse`.
    pub http_reuse: Reuse,
    /// `cookie`.
    pub cookie: Option<CookieRules>,
    /// `dynamic-cookie-key`, and whether dynamic cookies are used.
    pub dynamic_cookies: DynamicCookies,
    /// `outlier-ejection`.
    pub outliers: Option<OutlierRules>,
    /// Whether responses are observed. A connection alone is then not a success.
    pub judges_responses: bool,
}

impl Default for BackendSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            id: 0,
            place: 0,
            is_listen: false,
            log_health_checks: false,
            workers: 1,
            algorithm: BalanceAlgorithm::new("random"),
            hash_type: HashType::default(),
            hash_balance_factor: 0,
            hash_affinity: PreserveAffinity::Always,
            all_backups: false,
            full_connections: 0,
            persist: false,
            redispatch: 0,
            retries: DEFAULT_RETRIES,
            http_reuse: Reuse::Safe,
            cookie: None,
            dynamic_cookies: DynamicCookies::default(),
            outliers: None,
            judges_responses: true,
        }
    }
}

/// `balance random` without an argument draws this many servers (manual, "balance").
pub const DEFAULT_DRAWS: u32 = 2;
/// Retries when `retries` is not set (manual, "retries").
pub const DEFAULT_RETRIES: u32 = 3;
/// The largest weight that `weight` and the runtime API accept (manual, "weight").
pub const MAXIMUM_WEIGHT: u32 = 256;

/// `balance`: how a server is chosen when neither persistence nor a rule designates one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceAlgorithm {
    word: &'static str,
    number: Option<u32>,
}

impl BalanceAlgorithm {
    /// The algorithm with this keyword, one of [`crate::algorithms`].
    #[must_use]
    pub const fn new(word: &'static str) -> Self {
        Self { word, number: None }
    }

    /// The same algorithm with this numeric argument.
    #[must_use]
    pub const fn with(self, number: Option<u32>) -> Self {
        Self { number, ..self }
    }

    /// The algorithm's keyword.
    #[must_use]
    pub const fn word(self) -> &'static str {
        self.word
    }

    /// The numeric argument, such as the draws of `random`.
    #[must_use]
    pub const fn number(self) -> Option<u32> {
        self.number
    }
}

/// The part of a `server` line that choosing, queueing and keeping idle connections need.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    pub name: String,
    /// The server's numeric identifier (`id`, or the position from 1).
    pub id: u32,
    pub address: ServerAddress,
    /// `weight`, 0 to [`MAXIMUM_WEIGHT`].
    pub weight: u32,
    /// `backup`.
    pub backup: bool,
    /// `disabled`.
    pub disabled: bool,
    /// Whether the address of the server's name is still unknown. The resolvers query it.
    pub unresolved: bool,
    /// `cookie`.
    pub cookie: Option<String>,
    /// `maxconn`. 0 is unlimited.
    pub maximum_connections: u32,
    /// `minconn`. 0 is a static limit.
    pub minimum_connections: u32,
    /// `maxqueue`. 0 is unlimited.
    pub maximum_queue: u32,
    /// `slowstart` in milliseconds. 0 is off.
    pub slow_start_ms: u64,
    /// `hash-key`.
    pub hash_key: HashKey,
    /// The rules of the server's health checks, if it has any.
    pub check: Option<CheckRules>,
    /// The rules of the server's agent checks, if it has any.
    pub agent: Option<CheckRules>,
    /// Which traffic counts as a check result (`observe`).
    pub observe: Option<ObserveRules>,
    /// Limits of its idle connections.
    pub pool: PoolSettings,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            id: 0,
            address: ServerAddress::UNKNOWN,
            weight: 1,
            backup: false,
            disabled: false,
            unresolved: false,
            cookie: None,
            maximum_connections: 0,
            minimum_connections: 0,
            maximum_queue: 0,
            slow_start_ms: 0,
            hash_key: HashKey::Id,
            check: None,
            agent: None,
            observe: None,
            pool: PoolSettings::default(),
        }
    }
}

/// The `pool-*` and `max-reuse` options of a server line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// `pool-max-conn`. `None` is unlimited, 0 keeps no idle connection.
    pub maximum: Option<u32>,
    /// `pool-low-conn`: below this many idle connections a worker does not take another worker's.
    pub low: u32,
    /// `pool-purge-delay` in milliseconds. 0 keeps no idle connection.
    pub purge_delay_ms: u64,
    /// `max-reuse`. `None` is unlimited.
    pub maximum_reuse: Option<u32>,
    /// `tune.idle-pool.shared`: workers may take each other's connections.
    pub shared: bool,
    /// `strict-maxconn`: idle connections count against `maxconn`, too.
    pub strict: bool,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            maximum: None,
            low: 0,
            purge_delay_ms: 5_000,
            maximum_reuse: None,
            shared: true,
            strict: false,
        }
    }
}

/// Parses a server's `maxconn` as operators and agents write it. The error is HAProxy's text.
pub fn parse_maximum_connections(text: &str) -> Result<u32, &'static str> {
    const INVALID: &str = "Invalid maxconn value.";
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match text.split_at(digits) {
        ("", "") => Err("Require <maxconn>."),
        // HAProxy reads a negative number as a huge one.
        ("", rest) if rest.starts_with(['-', '+']) => Err(INVALID),
        ("", _) => Err("maxconn string empty or preceded by garbage"),
        (number, "") => number.parse().map_err(|_| INVALID),
        _ => Err("Trailing garbage in maxconn string"),
    }
}
