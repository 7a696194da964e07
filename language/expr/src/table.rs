//! The data of stick-table entries, and the lookups of expressions.
//!
//! The data types of the manual, section 11.1, in the order in which the runtime API shows them.

mod declaration;

pub use declaration::{Declaration, KeyType, ServerKeyKind, Stored};

use weir_fingerprint::Canonical;

use crate::sample::Value;

/// A type of data that a stick-table may store with each entry (manual, 11.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Canonical)]
#[repr(u8)]
pub enum DataType {
    /// The identifier of the server that the key was assigned to.
    ServerId,
    Gpt0,
    /// The first general purpose counter.
    Gpc0,
    /// The increment rate of the first general purpose counter.
    Gpc0Rate,
    ConnectionCount,
    /// Connections per period.
    ConnectionRate,
    /// Open connections.
    ConnectionsCurrent,
    /// Sessions: connections that the layer 4 rules accepted.
    SessionCount,
    /// Sessions per period.
    SessionRate,
    /// HTTP requests, valid or not.
    RequestCount,
    /// HTTP requests per period.
    RequestRate,
    /// HTTP requests with a client error.
    ErrorCount,
    /// HTTP requests with a client error, per period.
    ErrorRate,
    /// Bytes from the client.
    BytesInCount,
    /// Bytes from the client, per period.
    BytesInRate,
    /// Bytes to the client.
    BytesOutCount,
    /// Bytes to the client, per period.
    BytesOutRate,
    /// The second general purpose counter.
    Gpc1,
    /// The increment rate of the second general purpose counter.
    Gpc1Rate,
    /// The server that the key was assigned to, by name or address.
    ServerKey,
    /// Responses with a server failure.
    FailureCount,
    /// Responses with a server failure, per period.
    FailureRate,
    Gpt,
    Gpc,
    /// The increment rates of the general purpose counters.
    GpcRate,
    /// Protocol glitches of the client.
    GlitchCount,
    /// Protocol glitches per period.
    GlitchRate,
}

/// How a type's data is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataKind {
    /// A 32-bit value.
    Plain,
    /// A 32-bit counter.
    Count,
    /// A 64-bit counter.
    LongCount,
    /// Events per period.
    Rate,
    /// A text from a dictionary.
    Name,
}

impl DataType {
    /// Every type, in the order in which entries are shown.
    pub const ALL: [DataType; 27] = [
        DataType::ServerId,
        DataType::Gpt0,
        DataType::Gpc0,
        DataType::Gpc0Rate,
        DataType::ConnectionCount,
        DataType::ConnectionRate,
        DataType::ConnectionsCurrent,
        DataType::SessionCount,
        DataType::SessionRate,
        DataType::RequestCount,
        DataType::RequestRate,
        DataType::ErrorCount,
        DataType::ErrorRate,
        DataType::BytesInCount,
        DataType::BytesInRate,
        DataType::BytesOutCount,
        DataType::BytesOutRate,
        DataType::Gpc1,
        DataType::Gpc1Rate,
        DataType::ServerKey,
        DataType::FailureCount,
        DataType::FailureRate,
        DataType::Gpt,
        DataType::Gpc,
        DataType::GpcRate,
        DataType::GlitchCount,
        DataType::GlitchRate,
    ];

    /// The limit of elements in an array.
    pub const MAX_ELEMENTS: u16 = 100;

    /// The name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::ServerId => "server_id",
            DataType::Gpt0 => "gpt0",
            DataType::Gpc0 => "gpc0",
            DataType::Gpc0Rate => "gpc0_rate",
            DataType::ConnectionCount => "conn_cnt",
            DataType::ConnectionRate => "conn_rate",
            DataType::ConnectionsCurrent => "conn_cur",
            DataType::SessionCount => "sess_cnt",
            DataType::SessionRate => "sess_rate",
            DataType::RequestCount => "http_req_cnt",
            DataType::RequestRate => "http_req_rate",
            DataType::ErrorCount => "http_err_cnt",
            DataType::ErrorRate => "http_err_rate",
            DataType::BytesInCount => "bytes_in_cnt",
            DataType::BytesInRate => "bytes_in_rate",
            DataType::BytesOutCount => "bytes_out_cnt",
            DataType::BytesOutRate => "bytes_out_rate",
            DataType::Gpc1 => "gpc1",
            DataType::Gpc1Rate => "gpc1_rate",
            DataType::ServerKey => "server_key",
            DataType::FailureCount => "http_fail_cnt",
            DataType::FailureRate => "http_fail_rate",
            DataType::Gpt => "gpt",
            DataType::Gpc => "gpc",
            DataType::GpcRate => "gpc_rate",
            DataType::GlitchCount => "glitch_cnt",
            DataType::GlitchRate => "glitch_rate",
        }
    }

    /// The type with this name.
    pub fn from_name(name: &str) -> Option<DataType> {
        Self::ALL.into_iter().find(|data| data.name() == name)
    }

    /// How the data of this type is stored.
    pub const fn kind(self) -> DataKind {
        match self {
            DataType::ServerId | DataType::Gpt0 | DataType::Gpt | DataType::ConnectionsCurrent => {
                DataKind::Plain
            }
            DataType::Gpc0
            | DataType::Gpc1
            | DataType::Gpc
            | DataType::ConnectionCount
            | DataType::SessionCount
            | DataType::RequestCount
            | DataType::ErrorCount
            | DataType::FailureCount
            | DataType::GlitchCount => DataKind::Count,
            DataType::BytesInCount | DataType::BytesOutCount => DataKind::LongCount,
            DataType::Gpc0Rate
            | DataType::Gpc1Rate
            | DataType::GpcRate
            | DataType::ConnectionRate
            | DataType::SessionRate
            | DataType::RequestRate
            | DataType::ErrorRate
            | DataType::FailureRate
            | DataType::BytesInRate
            | DataType::BytesOutRate
            | DataType::GlitchRate => DataKind::Rate,
            DataType::ServerKey => DataKind::Name,
        }
    }

    /// Whether values of several instances can be added: true of counts and rates, false of tags, servers and gauges.
    pub const fn is_sum(self) -> bool {
        matches!(self.kind(), DataKind::Count | DataKind::LongCount | DataKind::Rate)
    }

    /// Whether the type is an array.
    pub const fn is_array(self) -> bool {
        matches!(self, DataType::Gpt | DataType::Gpc | DataType::GpcRate)
    }

    /// The array that replaces this type if it is not stored, and the index in the array (manual, 11.1, "gpc", "gpt").
    pub const fn in_array(self) -> Option<(DataType, u16)> {
        match self {
            DataType::Gpt0 => Some((DataType::Gpt, 0)),
            DataType::Gpc0 => Some((DataType::Gpc, 0)),
            DataType::Gpc1 => Some((DataType::Gpc, 1)),
            DataType::Gpc0Rate => Some((DataType::GpcRate, 0)),
            DataType::Gpc1Rate => Some((DataType::GpcRate, 1)),
            _ => None,
        }
    }

    /// The type with the increment rate of this general purpose counter.
    pub const fn rate(self) -> Option<DataType> {
        match self {
            DataType::Gpc0 => Some(DataType::Gpc0Rate),
            DataType::Gpc1 => Some(DataType::Gpc1Rate),
            DataType::Gpc => Some(DataType::GpcRate),
            _ => None,
        }
    }

    /// Whether the type is a byte rate, which `brates-factor` divides.
    pub const fn is_rate_of_bytes(self) -> bool {
        matches!(self, DataType::BytesInRate | DataType::BytesOutRate)
    }
}

/// A query or a change of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableQuestion {
    /// Whether the entry exists.
    Exists,
    /// Stored data: a count, a tag, or the events in the current period.
    Data(DataType, u16),
    /// Stored bytes, in units of 1024.
    Kilobytes(DataType),
    /// Adds 1 to a general purpose counter and returns it.
    Increment(DataType, u16),
    /// Clears a general purpose counter and returns its previous value.
    Clear(DataType, u16),
    /// Milliseconds until the entry expires.
    Expires,
    /// Milliseconds since the last use of the entry.
    Idle,
    /// The number of streams and sessions that track the entry.
    Trackers,
}

/// A lookup of the entry of one key.
#[derive(Debug)]
pub struct TableLookup<'a> {
    /// The table's position in the configuration. None for the table of the current proxy.
    pub table: Option<u32>,
    /// The value that becomes the key.
    pub key: Value<'a>,
    /// The data to read or change.
    pub question: TableQuestion,
    /// The result of a time query (`Expires`, `Idle`) if the entry does not exist.
    pub default: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_types_are_in_order_and_found_by_name() {
        for (position, data) in DataType::ALL.into_iter().enumerate() {
            assert_eq!(data as usize, position, "{}", data.name());
            assert_eq!(DataType::from_name(data.name()), Some(data));
        }
    }
}
