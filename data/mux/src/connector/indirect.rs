//! Connectors that are not a connection of their own.
//!
//! They have the same operations as the connector. None is inlined there, which keeps the code for HTTP/1 and TCP short.

use weir_net::{ConnectionFault, ReceiveOutcome, SendOutcome};

use crate::agent::AgentStream;
use crate::application::ApplicationStream;
use crate::multiplexer::SharedStream;
use crate::service::LocalService;

/// A side of a stream without a connection of its own.
#[derive(Debug)]
pub enum Indirect {
    /// A stream of a connection that also carries others.
    Shared(SharedStream),
    /// An exchange on a connection to an agent. It carries frames, not bytes: see [`AgentStream`].
    Agent(AgentStream),
    /// A request on a connection to a FastCGI application.
    Application(ApplicationStream),
    /// A service that answers in place of a server.
    Local(LocalService),
    Closed,
}

impl Indirect {
    #[inline(never)]
    pub(super) fn input(&self) -> &[u8] {
        match self {
            Indirect::Shared(shared) => shared.input(),
            Indirect::Application(request) => request.input(),
            Indirect::Local(service) => service.output(),
            Indirect::Agent(_) | Indirect::Closed => &[],
        }
    }

    #[inline(never)]
    pub(super) fn consume(&mut self, count: usize) {
        match self {
            Indirect::Shared(shared) => shared.consume(count),
            Indirect::Application(request) => request.consume(count),
            Indirect::Local(service) => service.consume(count),
            Indirect::Agent(_) | Indirect::Closed => {}
        }
    }

    #[inline(never)]
    pub(crate) fn receive(&mut self, limit: usize) -> ReceiveOutcome {
        match self {
            Indirect::Shared(shared) => shared.receive(limit),
            Indirect::Application(request) => request.receive(limit),
            Indirect::Local(service) => service.receive(),
            Indirect::Agent(agent) => agent.fault().map_or(ReceiveOutcome::Nothing, ReceiveOutcome::Failed),
            Indirect::Closed => ReceiveOutcome::End,
        }
    }

    #[inline(never)]
    pub(super) fn flush(&mut self) -> SendOutcome {
        match self {
            Indirect::Shared(shared) => shared.flush(),
            Indirect::Application(request) => request.flush(),
            Indirect::Agent(_) | Indirect::Local(_) | Indirect::Closed => SendOutcome::All,
        }
    }

    #[inline(never)]
    pub(super) fn has_pending(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.has_pending(),
            Indirect::Application(request) => request.has_pending(),
            Indirect::Agent(_) | Indirect::Local(_) | Indirect::Closed => false,
        }
    }

    #[inline(never)]
    pub(super) fn shut(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.shut(),
            Indirect::Application(request) => request.shut(),
            Indirect::Agent(_) | Indirect::Local(_) | Indirect::Closed => false,
        }
    }

    #[inline(never)]
    pub(super) fn ended(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.ended(),
            Indirect::Application(request) => request.ended(),
            Indirect::Agent(agent) => agent.fault().is_some(),
            Indirect::Local(service) => service.ended(),
            Indirect::Closed => true,
        }
    }

    #[inline(never)]
    pub(super) fn peer_closed(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.peer_closed(),
            Indirect::Application(request) => request.fault().is_some(),
            Indirect::Agent(agent) => agent.fault().is_some(),
            Indirect::Local(service) => service.ended(),
            Indirect::Closed => true,
        }
    }

    #[inline(never)]
    pub(super) fn is_broken(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.fault().is_some(),
            Indirect::Application(request) => request.fault().is_some(),
            Indirect::Agent(agent) => agent.fault().is_some(),
            Indirect::Local(_) | Indirect::Closed => false,
        }
    }

    #[inline(never)]
    pub(super) fn fault(&self) -> Option<ConnectionFault> {
        match self {
            Indirect::Shared(shared) => shared.fault(),
            Indirect::Application(request) => request.fault(),
            Indirect::Agent(agent) => agent.fault(),
            Indirect::Local(_) | Indirect::Closed => None,
        }
    }

    #[inline(never)]
    pub(super) fn is_quiet(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.is_quiet(),
            Indirect::Application(request) => request.is_quiet(),
            Indirect::Agent(_) | Indirect::Local(_) | Indirect::Closed => false,
        }
    }

    #[inline(never)]
    pub(super) fn has_slack(&self) -> bool {
        match self {
            Indirect::Shared(shared) => shared.has_slack(),
            Indirect::Application(request) => request.has_slack(),
            Indirect::Agent(_) | Indirect::Local(_) | Indirect::Closed => false,
        }
    }

    #[inline(never)]
    pub(super) fn shrink_input(&mut self) {
        match self {
            Indirect::Shared(shared) => shared.shrink_input(),
            Indirect::Application(request) => request.shrink_input(),
            Indirect::Agent(_) | Indirect::Local(_) | Indirect::Closed => {}
        }
    }

    #[inline(never)]
    pub(super) fn received(&self) -> u64 {
        match self {
            Indirect::Shared(shared) => shared.received,
            Indirect::Application(request) => request.received,
            Indirect::Agent(agent) => agent.received,
            Indirect::Local(service) => service.produced(),
            Indirect::Closed => 0,
        }
    }

    #[inline(never)]
    pub(super) fn sent(&self) -> u64 {
        match self {
            Indirect::Shared(shared) => shared.sent,
            Indirect::Application(request) => request.sent,
            Indirect::Agent(agent) => agent.sent,
            Indirect::Local(_) | Indirect::Closed => 0,
        }
    }
}
