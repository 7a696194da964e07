//! The names of lines in messages.

use weir_config::model;

/// A server of a backend, or of a ring.
pub(crate) fn server(section: &str, server: &str) -> String {
    format!("server '{section}/{server}'")
}

/// Another instance.
pub(crate) fn peer(section: &model::Peers, peer: &model::Peer) -> String {
    format!("peer '{}/{}'", section.name, peer.name)
}

/// A name server.
pub(crate) fn name_server(section: &model::Resolvers, server: &model::NameServer) -> String {
    format!("nameserver '{}/{}'", section.name, server.name)
}

/// A user or a group without an entry in the system's lists, with the line that names it.
pub fn unknown_account(kind: &str, name: &str, at: Option<&model::Location>) -> String {
    let place = at.map(|at| format!("parsing [{at}] : ")).unwrap_or_default();
    format!("{place}cannot find {kind} id for '{name}'")
}
