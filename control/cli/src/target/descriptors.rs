//! Descriptors registered by workers, with owner and state.

use super::ListPosition;

/// Lists descriptors, for `show fd`.
pub trait DescriptorTarget {
    /// The next descriptor: worker by worker, in arbitrary order. Advances `place`. May need data from other workers: then returns
    /// [`NextDescriptor::Pending`] and wakes the session's task when it is ready.
    fn next_descriptor(&mut self, place: &mut ListPosition) -> NextDescriptor;
}

/// The result of [`DescriptorTarget::next_descriptor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextDescriptor {
    Descriptor(Box<DescriptorView>),
    Pending,
    /// The end of the listing.
    None,
}

/// The purpose of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DescriptorRole {
    /// A listening socket.
    Listener,
    /// A client connection.
    Client,
    /// A server connection, in use or idle.
    Server,
    /// Any other descriptor: runtime API, logs, checks, name servers, peers.
    #[default]
    Other,
}

/// One descriptor, with the data for the listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescriptorView {
    pub number: i32,
    /// The number of its worker, from 1.
    pub worker: u32,
    pub role: DescriptorRole,
    /// Identifier of the task woken by the descriptor's events. 0 without one.
    pub owner: u64,
    /// The kind of the owner task. `None` if the task has ended.
    pub kind: Option<&'static str>,
    /// Whether a receive may succeed.
    pub is_readable: bool,
    /// Whether a send may succeed.
    pub is_writable: bool,
    /// Whether the peer has half-closed the connection.
    pub peer_closed: bool,
    /// Whether both directions are closed.
    pub is_hung_up: bool,
    /// Whether an error is pending.
    pub has_error: bool,
    /// The frontend of a listener or connection.
    pub frontend: Option<String>,
    /// The backend of a server connection.
    pub backend: Option<String>,
    /// The server of a server connection.
    pub server: Option<String>,
    /// Current number of streams. `None` unless it is a client or server connection.
    pub streams: Option<u32>,
    /// The local address. `None` unless it is a socket.
    pub local: Option<String>,
    /// The peer's address. `None` unless it is connected.
    pub peer: Option<String>,
}
