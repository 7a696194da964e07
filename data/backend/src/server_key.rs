//! Keys that name a server and may be kept.

/// A server's place in its backend, and the generation of that place. It is safe to keep: the key of a removed server
/// finds nothing, even if another server has its place.
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

    /// The place as an index, from 0. Places are reused, so indices stay small.
    #[must_use]
    pub const fn index(self) -> usize {
        self.place as usize
    }

    /// The place as a number.
    pub(crate) const fn place(self) -> u32 {
        self.place
    }

    /// Whether the server comes from the configuration; [`ServerKey::index`] is then its rank there.
    #[must_use]
    pub const fn is_configured(self) -> bool {
        self.generation == 0
    }

    /// Counts the servers that had this place.
    pub(crate) const fn generation(self) -> u32 {
        self.generation
    }

    /// The key as a number, for [`ServerKey::from_number`].
    #[must_use]
    pub const fn to_number(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }

    /// The key from a number that [`ServerKey::to_number`] gave.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self { place: number as u32, generation: (number >> 32) as u32 }
    }
}
