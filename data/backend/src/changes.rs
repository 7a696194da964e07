//! What changes of servers bring along, and why they are refused.

use std::sync::Arc;

use crate::address::ServerAddress;
use crate::server::Server;
use crate::server::state::{AdminState, OperationalState};

/// What a server had in a former process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerState {
    /// The weight that an operator had set.
    pub weight: Option<u32>,
    /// Where it was.
    pub address: Option<ServerAddress>,
    /// What operators had decided.
    pub admin: AdminState,
    /// How it was; whatever it says, who is in maintenance is stopped.
    pub operational: OperationalState,
    /// How far its health check was, if that is known.
    pub check_level: Option<u32>,
    /// When that began, on the caller's clock.
    pub last_change_ms: u64,
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// There is no such server.
    NoSuchServer,
    /// The algorithm is static: only 0 and the configured weight (0% and 100%) are possible.
    StaticAlgorithm,
}

impl std::fmt::Display for ChangeError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::NoSuchServer => "no such server",
            Self::StaticAlgorithm => {
                "the backend's balancing algorithm is static and only accepts weights '0%' and '100%'"
            }
        })
    }
}

impl std::error::Error for ChangeError {}

/// Why a server was not taken in.
#[derive(Clone, Debug)]
pub enum AddError {
    /// The algorithm needs to know all servers from the start.
    StaticAlgorithm,
    /// Another server has the name.
    NameTaken,
    /// This server has the `id`.
    IdentifierTaken(Arc<Server>),
}

/// Why a server was not let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveError {
    /// There is no such server.
    NoSuchServer,
    /// It would take traffic.
    NotInMaintenance,
    /// Something is on it, waits for it, or is kept for it.
    InUse,
    /// Others follow its state.
    Followed,
}
