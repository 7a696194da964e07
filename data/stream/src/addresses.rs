//! Both ends of a client's connection, as somebody told them.

use weir_sys::Address;

/// Where a client comes from and where it connected to.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    source: Address,
    destination: Destination,
}

/// Where a client connected to: for most where the listener listens, which need not be kept for each.
#[derive(Clone, Debug)]
enum Destination {
    Listener(&'static Address),
    Own(Box<Address>),
}

impl Addresses {
    pub(crate) fn new(source: Address, destination: Address) -> Self {
        Addresses { source, destination: Destination::Own(Box::new(destination)) }
    }

    /// Of a client that connected to the only address of its listener.
    pub(crate) fn of_listener(source: Address, destination: &'static Address) -> Self {
        Addresses { source, destination: Destination::Listener(destination) }
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

    /// Replaces one of them.
    pub(crate) fn set(&mut self, is_source: bool, address: Address) {
        match is_source {
            true => self.source = address,
            false => self.destination = Destination::Own(Box::new(address)),
        }
    }
}
