//! Names of configuration lines in messages.

/// A server of a backend, or of a ring.
pub(crate) fn server(section: &str, server: &str) -> String {
    format!("server '{section}/{server}'")
}

/// A remote peer.
pub(crate) fn peer(section: &weir_model::Peers, peer: &weir_model::Peer) -> String {
    format!("peer '{}/{}'", section.name, peer.name)
}

pub(crate) fn name_server(section: &weir_model::Resolvers, server: &weir_model::NameServer) -> String {
    format!("nameserver '{}/{}'", section.name, server.name)
}

/// The message for a user or group that the system does not know, with the line that names it.
pub fn unknown_account(kind: &str, name: &str, at: Option<&weir_model::Location>) -> String {
    let place = at.map(|at| format!("parsing [{at}] : ")).unwrap_or_default();
    format!("{place}cannot find {kind} id for '{name}'")
}
