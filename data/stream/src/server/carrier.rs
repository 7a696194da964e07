//! A pool's reference to a shared server connection.

use std::rc::Rc;

use weir_backend::PooledConnection;
use weir_mux::Multiplexer;

/// The pool's reference to a shared HTTP/2 connection. The connection closes when its last reference is dropped.
pub(super) struct Carrier(pub(super) Rc<Multiplexer>);

impl PooledConnection for Carrier {
    fn is_fresh(&mut self) -> bool {
        !self.0.is_closing()
    }

    fn takes_more(&self) -> bool {
        !self.0.is_clogged()
    }

    /// A shared connection cannot move: its streams and its owner are tasks of this worker.
    fn can_move(&self) -> bool {
        false
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.give_up();
    }
}
