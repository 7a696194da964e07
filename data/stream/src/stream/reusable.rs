//! Which connections outlive a stream.

/// Which of a stream's connections may carry another request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reusable {
    pub client: bool,
    pub server: bool,
}

impl Reusable {
    /// Both connections end with the stream.
    #[inline]
    pub fn give_up(&mut self) {
        *self = Reusable::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_begins_and_gives_up_with_connections_of_its_own() {
        let mut reusable = Reusable::default();
        assert!(!reusable.client && !reusable.server);
        reusable = Reusable { client: true, server: true };
        reusable.give_up();
        assert_eq!(reusable, Reusable::default());
    }
}
