//! Server state restored from a previous process, and the errors of server changes.

use std::sync::Arc;
use weir_model::ServerPort;

use crate::server::Server;
use crate::server::state::{AdminState, OperationalState};

/// The state of a server in a previous process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerState {
    /// The weight set by an operator.
    pub weight: Option<u32>,
    /// The server's port, if it differs from the configured one.
    pub port: Option<ServerPort>,
    pub admin: AdminState,
    /// The operational state. Ignored for a server in maintenance, which is stopped.
    pub operational: OperationalState,
    /// The level of the health check, if known.
    pub check_level: Option<u32>,
    /// When the operational state began, on the caller's clock.
    pub last_change_ms: u64,
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// The server does not exist.
    NoSuchServer,
    /// The algorithm is static and accepts only 0 and the configured weight (0% and 100%).
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
    /// The algorithm needs to know all servers at startup.
    StaticAlgorithm,
    /// Another server has this name.
    NameTaken,
    /// This server has the `id`.
    IdentifierTaken(Arc<Server>),
}

/// Why a server was not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveError {
    /// The server does not exist.
    NoSuchServer,
    /// The server is not in maintenance.
    NotInMaintenance,
    /// The server has requests, queued requests or connections.
    InUse,
    /// Other servers track this one.
    Followed,
}
