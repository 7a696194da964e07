//! The administrative and the operational state of a server.
//!
//! `show servers state` prints both as numbers. The administrative state is a mask that only operators,
//! tracking and name resolution change. The operational state follows from it and from health checks.
//!
//! ```text
//!              leave maintenance, no slowstart
//!   Stopped ───────────────────────────────────► Running ◄──► Stopping
//!      │ leave maintenance, slowstart               ▲  (404, checks)
//!      └───────────────────────► Starting ──────────┘ ramp over
//!   any ── maintenance or failed check ──► Stopped
//! ```

/// The administrative mask, with the values that `show servers state` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdminState(u8);

impl AdminState {
    /// No bit set.
    pub const READY: Self = Self(0);
    /// An operator put the server in maintenance.
    pub const FORCED_MAINTENANCE: Self = Self(0x01);
    /// Maintenance inherited from the tracked server.
    pub const INHERITED_MAINTENANCE: Self = Self(0x02);
    /// The configuration put the server in maintenance at start (with the forced bit). Informational only: the bit
    /// stays when an operator makes the server ready, and does not keep the server out of service.
    pub const CONFIGURED_MAINTENANCE: Self = Self(0x04);
    /// An operator put the server in drain mode.
    pub const FORCED_DRAIN: Self = Self(0x08);
    /// Drain mode inherited from the tracked server.
    pub const INHERITED_DRAIN: Self = Self(0x10);
    /// Maintenance because the server's name does not resolve.
    pub const RESOLUTION_MAINTENANCE: Self = Self(0x20);
    /// The server's name (FQDN) differs from the configured one. Independent of maintenance (R164 to R166).
    pub const FQDN_CHANGED: Self = Self(0x40);

    /// The mask from its number in the state file.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0x7f)
    }

    /// The mask as a number.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Both masks together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This mask without the other's bits.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all the other's bits are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the server is in maintenance for any reason. The changed-name bit does not count (R166).
    #[must_use]
    pub const fn is_maintenance(self) -> bool {
        self.0 & (0x01 | 0x02 | 0x20) != 0
    }

    /// Whether the server drains: it only serves requests of persistence.
    #[must_use]
    pub const fn is_drain(self) -> bool {
        self.0 & (0x08 | 0x10) != 0
    }
}

/// The operational state, with the numbers that `show servers state` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OperationalState {
    Stopped = 0,
    /// Up, in slow start.
    Starting = 1,
    Running = 2,
    /// Up, but takes no new visitors.
    Stopping = 3,
}

impl OperationalState {
    /// The state with this number, as in server state files. `None` for an unknown number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Stopped,
            1 => Self::Starting,
            2 => Self::Running,
            3 => Self::Stopping,
            _ => return None,
        })
    }
}

/// The argument of `set server <b>/<s> state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedState {
    Ready,
    /// Only persistent requests.
    Drain,
    /// No traffic at all.
    Maintenance,
}

impl RequestedState {
    /// The administrative state after this request in state `current`.
    #[must_use]
    pub const fn apply(self, current: AdminState) -> AdminState {
        let forced = AdminState::FORCED_MAINTENANCE.with(AdminState::FORCED_DRAIN);
        let rest = current.without(forced);
        match self {
            Self::Ready => rest,
            Self::Drain => rest.with(AdminState::FORCED_DRAIN),
            Self::Maintenance => rest.with(AdminState::FORCED_MAINTENANCE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_fqdn_is_not_maintenance_r166() {
        assert!(!AdminState::FQDN_CHANGED.is_maintenance());
        assert!(AdminState::FQDN_CHANGED.with(AdminState::RESOLUTION_MAINTENANCE).is_maintenance());
    }

    #[test]
    fn state_commands_keep_the_bits_of_tracking_and_resolution() {
        let tracked = AdminState::INHERITED_MAINTENANCE.with(AdminState::FQDN_CHANGED);
        assert_eq!(RequestedState::Ready.apply(tracked.with(AdminState::FORCED_MAINTENANCE)), tracked);
        assert_eq!(RequestedState::Drain.apply(tracked), tracked.with(AdminState::FORCED_DRAIN));
        let born_disabled = AdminState::from_bits(5);
        assert!(born_disabled.is_maintenance());
        assert_eq!(RequestedState::Ready.apply(born_disabled), AdminState::CONFIGURED_MAINTENANCE);
        assert!(!AdminState::CONFIGURED_MAINTENANCE.is_maintenance());
        assert_eq!(
            RequestedState::Maintenance.apply(AdminState::FORCED_DRAIN),
            AdminState::FORCED_MAINTENANCE
        );
    }
}
