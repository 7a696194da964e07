//! The two messages of a stream, and the two channels that carry them.

/// One of the two messages of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptSide {
    Request,
    Response,
}

/// The state of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelState {
    /// The number of incoming bytes.
    pub input: usize,
    /// The number of outgoing bytes.
    pub output: usize,
    /// Whether the buffer will lack room for another byte, even without the outgoing ones.
    pub is_full: bool,
    /// Whether the peer may send more.
    pub may_receive: bool,
    /// Whether a wait for more bytes is useless: the peer sends no more, the buffer is full, or the inspection delay is over.
    pub is_final: bool,
}
