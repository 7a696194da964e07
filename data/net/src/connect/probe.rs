//! Probes: whether a peer accepts connections, without keeping one.
//!
//! ```text
//!   the worker's spare socket ── connect ──┬─ stands: disconnect, which resets it ──► spare again
//!                                          └─ is awaited: a connection like others, and another socket is made for the next probe
//! ```
//!
//! Creating, setting up and closing a socket costs more than half of a probe. A disconnected socket is as good as new:
//! without an address, a port or an error.

use std::cell::Cell;
use std::os::fd::OwnedFd;

use weir_sched::Descriptor;
use weir_sys::{AddressFamily, Errno, socket};

use super::{ConnectPlan, Connecting, GreetingEvent};
use crate::fault::ConnectionFault;

/// The result of a probe, which only establishes a connection.
#[derive(Debug)]
pub enum Probe {
    /// The peer accepted the connection, which is closed already.
    Stands,
    /// The peer has not answered yet.
    Awaited(Connecting),
}

impl ConnectPlan<'_> {
    /// Connects only to find out whether that is possible.
    ///
    /// # Errors
    /// When it is not possible, or as for [`begin`](ConnectPlan::begin).
    pub fn probe(&self) -> Result<Probe, ConnectionFault> {
        let Some(peer) = self.plain_peer() else { return self.begin_now().map(Probe::Awaited) };
        let family = peer.family();
        let socket = match spare(family, Cell::take) {
            Some(socket) => socket,
            None => Self::open_plain(family)?,
        };
        let Some(begun) = Descriptor::connect_unregistered(&socket, peer) else {
            return self.begin_now().map(Probe::Awaited);
        };
        match begun {
            Ok(true) => {
                if socket::disconnect(&socket).is_ok() {
                    spare(family, |place| place.set(Some(socket)));
                }
                Ok(Probe::Stands)
            }
            Ok(false) => {
                let begun = Descriptor::begun(socket, false)?;
                Connecting::of(begun, GreetingEvent::Peer(None)).map(Probe::Awaited)
            }
            Err(errno) => {
                // A refused connection need not be closed, so the socket can be reused.
                if errno == Errno::CONNREFUSED {
                    spare(family, |place| place.set(Some(socket)));
                }
                Err(errno.into())
            }
        }
    }
}

fn spare<R>(family: AddressFamily, look: impl FnOnce(&Cell<Option<OwnedFd>>) -> R) -> R {
    match family {
        AddressFamily::Inet6 => SPARE_INET6.with(look),
        _ => SPARE_INET.with(look),
    }
}

thread_local! {
    static SPARE_INET: Cell<Option<OwnedFd>> = const { Cell::new(None) };
    static SPARE_INET6: Cell<Option<OwnedFd>> = const { Cell::new(None) };
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
    use std::os::fd::{AsRawFd, RawFd};

    use weir_sys::Address;

    use super::super::{ConnectOptions, ConnectTarget};
    use super::*;

    fn plan(address: Address) -> ConnectPlan<'static> {
        let options =
            ConnectOptions { no_linger: true, delays_acknowledgement: true, ..ConnectOptions::default() };
        ConnectPlan { options, ..ConnectPlan::to(ConnectTarget::Address(address)) }
    }

    fn listen(ip: IpAddr) -> Option<(TcpListener, Address)> {
        let listener = TcpListener::bind((ip, 0)).ok()?;
        let address = Address::Inet(listener.local_addr().ok()?);
        Some((listener, address))
    }

    fn nowhere_is_refused(nowhere: &Address) -> bool {
        matches!(plan(nowhere.clone()).probe(), Err(ConnectionFault::Io(Errno::CONNREFUSED)))
    }

    /// The descriptor number of the spare socket, which is put back.
    fn spare_number(family: AddressFamily) -> Option<RawFd> {
        spare(family, |place| {
            let socket = place.take();
            let number = socket.as_ref().map(AsRawFd::as_raw_fd);
            place.set(socket);
            number
        })
    }

    #[test]
    fn probes_reuse_one_socket_even_after_a_refusal() {
        let (listener, address) = listen(Ipv4Addr::LOCALHOST.into()).expect("a port");
        let (gone, nowhere) = listen(Ipv4Addr::LOCALHOST.into()).expect("a port");
        drop(gone);
        weir_sched::run(async move {
            let stands = || matches!(plan(address.clone()).probe(), Ok(Probe::Stands));
            assert!(stands());
            let number = spare_number(AddressFamily::Inet).expect("it is kept");
            for _ in 0..100 {
                assert!(stands());
                assert_eq!(spare_number(AddressFamily::Inet), Some(number));
            }
            let refused = plan(nowhere.clone()).probe();
            assert!(matches!(refused, Err(ConnectionFault::Io(Errno::CONNREFUSED))), "{refused:?}");
            assert_eq!(spare_number(AddressFamily::Inet), Some(number), "a refusal keeps it, too");
            for _ in 0..10 {
                assert!(stands());
                assert!(nowhere_is_refused(&nowhere));
            }
            assert_eq!(spare_number(AddressFamily::Inet), Some(number));
            drop(listener);
            assert!(!stands(), "an established socket is checked anew");
        })
        .expect("a worker");
    }

    #[test]
    fn each_address_family_has_its_own_probe_socket() {
        let Some((_listener, six)) = listen(Ipv6Addr::LOCALHOST.into()) else { return };
        let (_other, four) = listen(Ipv4Addr::LOCALHOST.into()).expect("a port");
        weir_sched::run(async move {
            for address in [&four, &six, &four, &six] {
                assert!(matches!(plan(address.clone()).probe(), Ok(Probe::Stands)), "{address:?}");
            }
        })
        .expect("a worker");
    }

    #[test]
    fn connect_plans_with_options_do_not_use_the_probe_socket() {
        let (_listener, address) = listen(Ipv4Addr::LOCALHOST.into()).expect("a port");
        let is_plain = |change: fn(&mut ConnectPlan<'_>)| {
            let mut plan = plan(address.clone());
            change(&mut plan);
            plan.plain_peer().is_some()
        };
        assert!(is_plain(|_| {}));
        assert!(!is_plain(|plan| plan.mark = Some(1)));
        assert!(!is_plain(|plan| plan.tos = Some(1)));
        assert!(!is_plain(|plan| plan.socks4 = Some((Ipv4Addr::LOCALHOST, 1080).into())));
        assert!(!is_plain(|plan| plan.source.interface = Some("lo")));
        assert!(!is_plain(|plan| plan.options.no_linger = false));
        assert!(!is_plain(|plan| plan.options.fast_open = true));
        assert!(!is_plain(|plan| plan.target = ConnectTarget::Pair(3)));
    }
}
