//! Linux capabilities: parts of root's privileges, which a process may keep after it changes its user.
//!
//! Capabilities belong to a thread. A new thread inherits its creator's capabilities. When a process changes its
//! user from root, all threads lose them, except the thread that called [`keep_over_identity_change`]. An existing
//! thread can only lose capabilities, never gain them.

use crate::Result;
use crate::process::status;

/// A set of capabilities, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// Bind ports below 1024.
    pub const NET_BIND_SERVICE: Self = Self(1 << 10);
    /// Transparent proxying, marks, interfaces.
    pub const NET_ADMIN: Self = Self(1 << 12);
    /// Transparent proxying and raw sockets.
    pub const NET_RAW: Self = Self(1 << 13);
    /// Change the root directory.
    pub const SYS_CHROOT: Self = Self(1 << 18);
    /// Namespaces, and much else.
    pub const SYS_ADMIN: Self = Self(1 << 21);

    /// The capability with this name (`cap_net_admin`). `None` if it is not in [`Capabilities::names`].
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, bit)| Self(1 << bit))
    }

    /// The names accepted by [`Capabilities::named`].
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// The union of both sets.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `other` is a subset.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The intersection of both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The capabilities of `other` not in this set.
    pub const fn missing(self, other: Self) -> Self {
        Self(other.0 & !self.0)
    }

    /// The set as a bit mask, by the kernel's capability numbers.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// The capability sets of a thread (capabilities(7)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CapabilitySets {
    /// Capabilities in force.
    pub effective: Capabilities,
    /// Capabilities that the thread may make effective.
    pub permitted: Capabilities,
    /// Capabilities that executed programs may keep.
    pub inheritable: Capabilities,
}

/// The sets of the calling thread.
pub fn held() -> Result<CapabilitySets> {
    let header = CapabilityHeader::default();
    let mut data = [Data::default(); 2];
    // SAFETY: version 3 of the interface reads the header and fills two records.
    let done = unsafe { libc::syscall(libc::SYS_capget, &header, data.as_mut_ptr()) };
    status(done as libc::c_int)?;
    let join = |low: u32, high: u32| Capabilities(u64::from(low) | u64::from(high) << 32);
    Ok(CapabilitySets {
        effective: join(data[0].effective, data[1].effective),
        permitted: join(data[0].permitted, data[1].permitted),
        inheritable: join(data[0].inheritable, data[1].inheritable),
    })
}

/// Replaces the sets of the calling thread.
pub fn change(held: CapabilitySets) -> Result<()> {
    let header = CapabilityHeader::default();
    let half = |set: Capabilities, part: u32| (set.0 >> (32 * part)) as u32;
    let record = |part| Data {
        effective: half(held.effective, part),
        permitted: half(held.permitted, part),
        inheritable: half(held.inheritable, part),
    };
    let data = [record(0), record(1)];
    // SAFETY: version 3 of the interface reads the header and two records.
    let done = unsafe { libc::syscall(libc::SYS_capset, &header, data.as_ptr()) };
    status(done as libc::c_int).map(drop)
}

/// Sets whether the calling thread keeps its permitted set when its user ID changes from root (`PR_SET_KEEPCAPS`).
pub fn keep_over_identity_change(keep: bool) -> Result<()> {
    // SAFETY: touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, libc::c_ulong::from(keep), 0, 0, 0) };
    status(done).map(drop)
}

/// The kernel's header of both calls.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    process: i32,
}

impl Default for CapabilityHeader {
    fn default() -> Self {
        // The third version has sets of 64 bits; process 0 is the calling thread.
        CapabilityHeader { version: 0x2008_0522, process: 0 }
    }
}

/// 32 bits of each of the three sets.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Capabilities allowed in `setcap` (manual), with the kernel's numbers.
const NAMES: [(&str, u32); 4] =
    [("cap_net_bind_service", 10), ("cap_net_admin", 12), ("cap_net_raw", 13), ("cap_sys_admin", 21)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capability_names_map_to_the_kernels_numbers() {
        let both = Capabilities::named("cap_net_admin")
            .expect("known")
            .with(Capabilities::named("cap_net_bind_service").expect("known"));
        // From the manual's example for these two.
        assert_eq!(both.bits(), 0x1400);
        assert!(both.contains(Capabilities::NET_ADMIN) && !both.contains(Capabilities::NET_RAW));
        assert_eq!(both.missing(Capabilities::NET_RAW), Capabilities::NET_RAW);
        assert_eq!(Capabilities::named("cap_chown"), None);
        assert!(Capabilities::NONE.is_empty());
    }

    #[test]
    fn held_capabilities_can_be_read_and_dropped() {
        let before = held().expect("the kernel answers");
        assert!(before.permitted.contains(before.effective));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let nothing = CapabilitySets { inheritable: before.inheritable, ..CapabilitySets::default() };
                assert_eq!(change(nothing), Ok(()));
                assert_eq!(held(), Ok(nothing));
                let all = Capabilities::named("cap_net_raw").expect("known");
                assert!(change(CapabilitySets { effective: all, permitted: all, ..nothing }).is_err());
            });
        });
        assert_eq!(held(), Ok(before));
    }
}
