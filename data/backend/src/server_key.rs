//! Keys that identify a server. They may be held after its removal.

/// A server's slot in its backend, and the generation of the slot. The key of a removed server finds nothing, even if
/// another server uses the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerKey {
    place: u32,
    generation: u32,
}

impl ServerKey {
    /// The key of the `rank`th server of the configuration, counted from 0.
    #[must_use]
    pub const fn configured(rank: u32) -> Self {
        Self { place: rank, generation: 0 }
    }

    /// The key of a server that is added in a slot.
    pub(crate) const fn added(place: u32, generation: u32) -> Self {
        Self { place, generation }
    }

    /// The slot as an index, from 0. Slots are reused, so indices stay small.
    #[must_use]
    pub const fn index(self) -> usize {
        self.place as usize
    }

    /// The slot as a number.
    pub(crate) const fn place(self) -> u32 {
        self.place
    }

    /// Whether the server comes from the configuration. [`ServerKey::index`] is then its rank there.
    #[must_use]
    pub const fn is_configured(self) -> bool {
        self.generation == 0
    }

    /// Number of servers that used this slot before.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// The key as a number, for [`ServerKey::from_number`].
    #[must_use]
    pub const fn to_number(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }

    /// The key from a number of [`ServerKey::to_number`].
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self { place: number as u32, generation: (number >> 32) as u32 }
    }
}
