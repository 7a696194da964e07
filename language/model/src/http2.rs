//! `tune.h2.*`: limits of HTTP/2 connections.

use weir_fingerprint::Canonical;

/// The settings of the `tune.h2.*` words and of zero-copy forwarding.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct Http2Tuning {
    /// `tune.h2.fe.*`.
    pub clients: Http2Side,
    /// `tune.h2.be.*`.
    pub servers: Http2Side,
    /// `tune.h2.max-concurrent-streams`: streams per connection, for a side without its own limit.
    pub concurrent_streams: Option<u32>,
    /// `tune.h2.initial-window-size`: window of a stream, for a side without its own setting.
    pub window: Option<u32>,
    /// `tune.h2.max-frame-size`: the largest frame in bytes. None for the size of a buffer.
    pub frame_max: Option<u32>,
    /// `tune.h2.header-table-size`.
    pub header_table_size: u32,
    /// `tune.h2.log-errors`.
    pub logged_errors: LoggedErrors,
    /// `tune.h2.zero-copy-fwd-send`: send large pieces of payload directly from the receive buffer.
    pub zero_copy: bool,
    /// `tune.disable-zero-copy-forwarding`: overrides `zero_copy`.
    pub zero_copy_disabled: bool,
}

impl Default for Http2Tuning {
    fn default() -> Self {
        Http2Tuning {
            clients: Http2Side::default(),
            servers: Http2Side::default(),
            concurrent_streams: None,
            window: None,
            frame_max: None,
            header_table_size: 4096,
            logged_errors: LoggedErrors::default(),
            zero_copy: true,
            zero_copy_disabled: false,
        }
    }
}

/// The settings of one side's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct Http2Side {
    /// `max-concurrent-streams`: streams on a connection.
    pub concurrent_streams: Option<u32>,
    /// `max-total-streams`, clients only: streams after which a connection is closed. 0 for no limit.
    pub total_streams: u32,
    /// `initial-window-size`: the window of a stream.
    pub window: Option<u32>,
    /// `rxbuf`: the receive buffer of a connection in bytes.
    pub receive_buffer: Option<u32>,
    /// `glitches-threshold`: number of protocol glitches accepted from the peer. 0 for no limit.
    pub glitches: u32,
    /// `max-frames-at-once`: frames to process in a row. 0 for no limit.
    pub frames: u32,
    /// `max-rst-at-once`, clients only: resets to process in a row. 0 for no limit.
    pub resets: u32,
}

/// Which errors of client connections are logged (`tune.h2.log-errors`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum LoggedErrors {
    None,
    Connection,
    /// Connection errors, and malformed requests.
    #[default]
    Stream,
}
