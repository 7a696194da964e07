//! A pool's reference to a server connection that carries the streams of several clients.

use std::rc::Rc;

use weir_backend::PooledConnection;
use weir_mux::Multiplexer;

/// The pool's reference to a connection that several streams share (HTTP/2). The connection ends with its last reference.
pub(super) struct Carrier(pub(super) Rc<Multiplexer>);

impl PooledConnection for Carrier {
    fn is_fresh(&mut self) -> bool {
        !self.0.is_closing()
    }

    fn takes_more(&self) -> bool {
        !self.0.is_clogged()
    }

    /// It cannot move: its streams and its owner are tasks of this worker.
    fn can_move(&self) -> bool {
        false
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.give_up();
    }
}
