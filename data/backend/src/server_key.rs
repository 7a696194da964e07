//! How a server is referred to for longer than a moment.

/// A server's place in its backend, and which of the servers that had the place: safe to keep, because the key of a server
/// that was removed finds nothing, whoever has its place now.
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

    /// The key of a server that is added at a place.
    pub(crate) const fn added(place: u32, generation: u32) -> Self {
        Self { place, generation }
    }

    /// The place as an index, from 0: places are few and taken again.
    #[must_use]
    pub const fn index(self) -> usize {
        self.place as usize
    }

    /// Whether the server is of the configuration, and so the [`ServerKey::index`]th of its servers.
    #[must_use]
    pub const fn is_configured(self) -> bool {
        self.generation == 0
    }

    /// Which of the servers that had the place.
    pub(crate) const fn generation(self) -> u32 {
        self.generation
    }

    /// The key as a number.
    #[must_use]
    pub const fn to_number(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }

    /// The key of a number that [`ServerKey::to_number`] gave.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self { place: number as u32, generation: (number >> 32) as u32 }
    }
}
