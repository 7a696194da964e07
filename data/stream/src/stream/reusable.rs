//! Which connections outlive a stream.

/// Which of a stream's connections may carry another request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReusableConnections {
    pub client: bool,
    pub server: bool,
}

impl ReusableConnections {
    /// Both connections close at the end of the stream.
    #[inline]
    pub fn give_up(&mut self) {
        *self = ReusableConnections::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_or_abandoned_stream_cannot_leave_reusable_connections() {
        let mut reusable = ReusableConnections::default();
        assert!(!reusable.client && !reusable.server);
        reusable = ReusableConnections { client: true, server: true };
        reusable.give_up();
        assert_eq!(reusable, ReusableConnections::default());
    }
}
