//! `tune.h2.*`: limits of HTTP/2 connections.

use weir_fingerprint::Canonical;

/// The settings of the `tune.h2.*` words, and of those about how payload leaves.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct Http2Tuning {
    /// `tune.h2.fe.*`.
    pub clients: Http2Side,
    /// `tune.h2.be.*`.
    pub servers: Http2Side,
    /// `tune.h2.max-concurrent-streams`: streams on a connection of a side without its own limit.
    pub concurrent_streams: Option<u32>,
    /// `tune.h2.initial-window-size`: the window of a side without its own.
    pub window: Option<u32>,
    /// `tune.h2.max-frame-size`: the largest frame; none for the size of a buffer.
    pub frame_max: Option<u32>,
    /// `tune.h2.header-table-size`.
    pub header_table_size: u32,
    /// `tune.h2.log-errors`.
    pub logged_errors: LoggedErrors,
    /// `tune.h2.zero-copy-fwd-send`: large pieces of payload are sent from where they came in.
    pub zero_copy: bool,
    /// `tune.disable-zero-copy-forwarding`: they never are.
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
    /// `max-total-streams`, of clients: streams after which a connection ends; 0 for no limit.
    pub total_streams: u32,
    /// `initial-window-size`: the window of a stream.
    pub window: Option<u32>,
    /// `rxbuf`: the receive buffer of a connection in bytes.
    pub receive_buffer: Option<u32>,
    /// `glitches-threshold`: how many oddities of the peer are accepted; 0 for any number.
    pub glitches: u32,
    /// `max-frames-at-once`: frames to process in a row; 0 for no limit.
    pub frames: u32,
    /// `max-rst-at-once`, of clients: resets to process in a row; 0 for no limit.
    pub resets: u32,
}

/// Which errors of clients' connections are logged (`tune.h2.log-errors`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum LoggedErrors {
    None,
    Connection,
    /// Connection errors, and malformed requests.
    #[default]
    Stream,
}
