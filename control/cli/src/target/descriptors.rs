//! Descriptors that workers have registered: their owners and their states.

use super::ListPosition;

/// Operations on descriptors.
pub trait DescriptorTarget {
    /// The next descriptor, and the place behind it: worker by worker, in arbitrary order. It may need other workers:
    /// [`NextDescriptor::Pending`], and the target wakes the session's task once it knows.
    fn next_descriptor(&mut self, place: &mut ListPosition) -> NextDescriptor;
}

/// An answer of [`DescriptorTarget::next_descriptor`].
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
    /// Connections are accepted from it.
    Listener,
    /// A connection with a client.
    Client,
    /// A connection to a server, in use or idle.
    Server,
    /// Everything else: operators, logs, checks, name servers, peers.
    #[default]
    Other,
}

/// One descriptor, as much of it as the listing shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescriptorView {
    /// Its number in the process.
    pub number: i32,
    /// Its worker, from 1.
    pub worker: u32,
    pub role: DescriptorRole,
    /// The identifier of the task that its events wake; 0 without one.
    pub owner: u64,
    /// The kind of that task; `None` if it has ended.
    pub kind: Option<&'static str>,
    /// Whether a receive may succeed.
    pub is_readable: bool,
    /// Whether a send may succeed.
    pub is_writable: bool,
    /// Whether the far end has closed its direction.
    pub peer_closed: bool,
    /// Whether both directions are closed.
    pub is_hung_up: bool,
    /// Whether an error waits.
    pub has_error: bool,
    /// The frontend of a listener or a connection.
    pub frontend: Option<String>,
    /// The backend of a connection to a server.
    pub backend: Option<String>,
    /// The server of a connection.
    pub server: Option<String>,
    /// How many streams it carries now, if it is a connection with a client or to a server.
    pub streams: Option<u32>,
    /// The address of this end, if it is a socket.
    pub local: Option<String>,
    /// The address of the far end, if it is connected.
    pub peer: Option<String>,
}
