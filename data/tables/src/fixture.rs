//! A small table, for tests.

use weir_expr::table::{DataType, Declaration, KeyType, ServerKeyKind, Stored};

/// A table of IPv4 addresses that stores a counter and its rate.
pub(crate) fn declaration(size: u32, expire_ms: u32) -> Declaration {
    Declaration {
        name: "test".into(),
        key: KeyType::Ipv4,
        size,
        expire_ms,
        no_purge: false,
        bytes_rate_factor: 1,
        server_key: ServerKeyKind::Name,
        stored: vec![
            Stored { data: DataType::Gpc0, elements: 1, period_ms: 0 },
            Stored { data: DataType::RequestRate, elements: 1, period_ms: 10_000 },
        ],
    }
}
