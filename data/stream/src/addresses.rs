//! The addresses of a client's connection, possibly replaced by a PROXY header or rules.

use weir_containers::RcRef;
use weir_sys::Address;

use crate::instance::WorkerInstance;

/// The source and destination of a client's connection.
#[derive(Clone, Debug)]
pub(crate) struct StreamAddresses {
    source: Address,
    destination: Destination,
}

/// The destination. Usually the listener's address, which is not stored per connection.
#[derive(Clone, Debug)]
enum Destination {
    Listener(RcRef<WorkerInstance, Address>),
    Own(Box<Address>),
}

impl StreamAddresses {
    pub(crate) fn new(source: Address, destination: Address) -> Self {
        StreamAddresses { source, destination: Destination::Own(Box::new(destination)) }
    }

    /// The addresses of a client that connected to the only address of its listener.
    pub(crate) fn of_listener(source: Address, destination: RcRef<WorkerInstance, Address>) -> Self {
        StreamAddresses { source, destination: Destination::Listener(destination) }
    }

    pub(crate) fn source(&self) -> &Address {
        &self.source
    }

    pub(crate) fn destination(&self) -> &Address {
        match &self.destination {
            Destination::Listener(address) => address,
            Destination::Own(address) => address,
        }
    }

    /// Replaces the source or the destination.
    pub(crate) fn set(&mut self, is_source: bool, address: Address) {
        match is_source {
            true => self.source = address,
            false => self.destination = Destination::Own(Box::new(address)),
        }
    }
}
