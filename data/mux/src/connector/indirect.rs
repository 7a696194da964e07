//! Connectors that are not a connection of their own.
//!
//! They have the same operations as the connector. None is inlined there, which keeps the code for HTTP/1 and TCP short.

use weir_net::{ConnectionFault, ReceiveOutcome, SendOutcome};

use crate::multiplexer::SharedStream;
use crate::service::LocalService;

/// A side of a stream without a connection of its own.
#[derive(Debug)]
pub enum Indirect {
    /// A stream of a connection that also carries others.
    Shared(SharedStream),
    /// A service that answers in place of a server.
    Local(LocalService),
    Closed,
}

impl Indirect {
    #[inline(never)]
    pub(super) fn input(&self) -> &[u8] {
        match self {
            Indirect::Shared(shared) => shared.input(),
            Indirect::Local(service) => service.output(),
            Indirect::Closed => &[],
        }
    }

    #[inline(never)]
    pub(super) fn consume(&mut self, count: usize) {
        match self {
            Indirect::Shared(shared) => shared.consume(count),
            Indirect::Local(service) => service.consume(count),
            Indirect::Closed => {}
        }
    }

    #[inline(never)]
    pub(crate) fn receive(&mut self, limit: usize) -> ReceiveOutcome {
        match self {
            Indirect::Shared(shared) => shared.receive(limit),
            Indirect::Local(service) => service.receive(),
            Indirect::Closed => ReceiveOutcome::End,
        }
    }

    #[inline(never)]
    pub(super) fn flush(&mut self) -> SendOutcome {
        match self {
            Indirect::Shared(shared) => shared.flush(),
            Indirect::Local(_) | Indirect::Closed => SendOutcome::All,
        }
    }

    #[inline(never)]
    pub(super) fn has_pending(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.has_pending(),
            Indirect::Local(_) | Indirect::Closed => false,
        }
    }

    #[inline(never)]
    pub(super) fn shut(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.shut(),
            Indirect::Local(_) | Indirect::Closed => false,
        }
    }

    #[inline(never)]
    pub(super) fn ended(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.ended(),
            Indirect::Local(service) => service.ended(),
            Indirect::Closed => true,
        }
    }

    #[inline(never)]
    pub(super) fn peer_closed(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.peer_closed(),
            Indirect::Local(service) => service.ended(),
            Indirect::Closed => true,
        }
    }

    #[inline(never)]
    pub(super) fn is_broken(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.fault().is_some(),
            Indirect::Local(_) | Indirect::Closed => false,
        }
    }

    #[inline(never)]
    pub(super) fn fault(&self) -> Option<ConnectionFault> {
        match self {
            Indirect::Shared(shared) => shared.fault(),
            Indirect::Local(_) | Indirect::Closed => None,
        }
    }

    #[inline(never)]
    pub(super) fn is_quiet(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.is_quiet(),
            Indirect::Local(_) | Indirect::Closed => false,
        }
    }

    #[inline(never)]
    pub(super) fn has_slack(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.has_slack(),
            Indirect::Local(_) | Indirect::Closed => false,
        }
    }

    #[inline(never)]
    pub(super) fn shrink_input(&mut self) {
        match self {
            Indirect::Shared(shared) => shared.shrink_input(),
            Indirect::Local(_) | Indirect::Closed => {}
        }
    }

    #[inline(never)]
    pub(super) fn received(&self) -> u64 {
        match self {
            Indirect::Shared(shared) => shared.received,
            Indirect::Local(service) => service.produced(),
            Indirect::Closed => 0,
        }
    }

    #[inline(never)]
    pub(super) fn sent(&self) -> u64 {
        match self {
            Indirect::Shared(shared) => shared.sent,
            Indirect::Local(_) | Indirect::Closed => 0,
        }
    }
}
