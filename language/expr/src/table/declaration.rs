//! The declaration of a stick-table (manual, 11.1).

use weir_fingerprint::Canonical;

use crate::sample::SampleType;
use crate::table::DataType;

/// The declaration of a stick-table.
#[derive(Debug, Clone, PartialEq, Eq, Canonical)]
pub struct Declaration {
    /// The name that rules and the runtime API use.
    pub name: Box<str>,
    pub key: KeyType,
    /// The limit of entries.
    pub size: u32,
    /// Lifetime of an entry after its last use, in milliseconds. 0 for no expiry.
    pub expire_ms: u32,
    /// Whether a full table refuses new entries. Otherwise it removes the oldest ones.
    pub no_purge: bool,
    /// The unit of byte rates in bytes, at least 1.
    pub bytes_rate_factor: u32,
    /// How servers are named in `server_key`.
    pub server_key: ServerKeyKind,
    /// The data types that each entry stores.
    #[canonical(with = weir_fingerprint::unordered)]
    pub stored: Vec<Stored>,
}

/// The type of a table's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Canonical)]
pub enum KeyType {
    Ipv4,
    Ipv6,
    Integer,
    /// Strings of at most this many bytes, and at most [`KeyType::MAX_STORED`]. Longer strings are cut.
    Text(u32),
    /// Blocks of exactly this many bytes. Longer ones are cut, shorter ones padded with zeros.
    Binary(u32),
}

/// How a server is named in a table that several instances share (`srvkey`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Canonical)]
pub enum ServerKeyKind {
    #[default]
    Name,
    /// By address and port.
    Address,
}

/// One type of data that each entry stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Canonical)]
pub struct Stored {
    pub data: DataType,
    /// The number of elements. 1 except for arrays.
    pub elements: u16,
    /// The period of a rate, in milliseconds. 0 for other types.
    pub period_ms: u32,
}

impl KeyType {
    /// The limit of a key in bytes, for storage and comparison, whatever the declaration says. HAProxy's samples have the same limit with
    /// its default buffer size.
    pub const MAX_STORED: u32 = 16_384;

    /// The type to which a sample is cast before it becomes a key.
    pub const fn sample_type(self) -> SampleType {
        match self {
            KeyType::Ipv4 => SampleType::Ipv4,
            KeyType::Ipv6 => SampleType::Ipv6,
            KeyType::Integer => SampleType::Int,
            KeyType::Text(_) => SampleType::Str,
            KeyType::Binary(_) => SampleType::Bin,
        }
    }

    /// The name in the configuration. The runtime API shows it too.
    pub const fn name(self) -> &'static str {
        match self {
            KeyType::Ipv4 => "ip",
            KeyType::Ipv6 => "ipv6",
            KeyType::Integer => "integer",
            KeyType::Text(_) => "string",
            KeyType::Binary(_) => "binary",
        }
    }
}
