//! A connection to a server that carries the streams of several clients, as its pool keeps it.

use std::rc::Rc;

use weir_backend::Reusable;
use weir_mux::Multiplexer;

/// The pool's hold on a connection that several streams share (HTTP/2). The connection ends when nobody has one any more.
pub(super) struct Carrier(pub(super) Rc<Multiplexer>);

impl Reusable for Carrier {
    fn is_fresh(&mut self) -> bool {
        !self.0.is_closing()
    }

    /// What both ends know of it is this worker's.
    fn can_move(&self) -> bool {
        false
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.give_up();
    }
}
