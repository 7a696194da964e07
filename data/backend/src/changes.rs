//! State carried over from a former process, and why changes of servers are refused.

use std::sync::Arc;
use weir_model::ServerPort;

use crate::server::Server;
use crate::server::state::{AdminState, OperationalState};

/// The state of a server in a former process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerState {
    /// The weight set by an operator.
    pub weight: Option<u32>,
    /// Its port, where it differs.
    pub port: Option<ServerPort>,
    pub admin: AdminState,
    /// Its operational state. A server in maintenance is stopped, whatever this value is.
    pub operational: OperationalState,
    /// The level of its health check, if known.
    pub check_level: Option<u32>,
    /// When the operational state began, on the caller's clock.
    pub last_change_ms: u64,
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// The server does not exist.
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

/// Why a server was not added.
#[derive(Clone, Debug)]
pub enum AddError {
    /// The algorithm needs to know all servers from the start.
    StaticAlgorithm,
    /// Another server has the name.
    NameTaken,
    /// This server has the `id`.
    IdentifierTaken(Arc<Server>),
}

/// Why a server was not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveError {
    /// The server does not exist.
    NoSuchServer,
    /// It is not in maintenance.
    NotInMaintenance,
    /// It serves requests, requests wait for it, or idle connections to it are kept.
    InUse,
    /// Others follow its state.
    Followed,
}
