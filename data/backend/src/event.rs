//! Events of servers, for scripts: what changed, with the values before and after.

use std::sync::Arc;

use crate::health::{CheckFinding, CheckKind, CheckResult, CheckStatus, ServerCheck};
use crate::server::Server;
use crate::server::state::{AdminState, OperationalState};

/// An event of a server.
#[derive(Clone, Debug)]
pub struct ServerEvent {
    /// The index of the server's backend among the proxies.
    pub proxy: usize,
    pub server: Arc<Server>,
    pub kind: ServerEventKind,
}

/// The change of a server.
#[derive(Clone, Debug)]
pub enum ServerEventKind {
    /// The address or the port changed.
    Address,
    /// The administrative state changed.
    Admin { old: AdminState, new: AdminState, cause: String, requeued: u32 },
    /// The operational state changed.
    State {
        old: OperationalState,
        new: OperationalState,
        /// Whether an administrative change caused it.
        is_administrative: bool,
        cause: String,
        /// The check that caused it.
        check: Option<CheckReport>,
        requeued: u32,
    },
    /// The result of a check changed.
    Check(CheckReport),
}

/// The result of a check, with the level of the server's health behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckReport {
    pub result: CheckResult,
    pub is_agent: bool,
    pub duration_ms: u64,
    pub status: CheckStatus,
    /// The status code of the response, if there is one.
    pub code: Option<i32>,
    /// 0 to `rise` + `fall` - 1: up from `rise` on.
    pub level: u32,
    pub rise: u32,
    pub fall: u32,
}

impl CheckReport {
    /// The report of a finding that the check has learnt.
    pub(crate) fn new(check: &ServerCheck, kind: CheckKind, finding: &CheckFinding) -> CheckReport {
        let record = check.record();
        CheckReport {
            result: record.result,
            is_agent: kind == CheckKind::Agent,
            duration_ms: finding.duration_ms,
            status: finding.status,
            code: finding.code,
            level: record.level,
            rise: check.rules().rise,
            fall: check.rules().fall,
        }
    }
}
