//! Where connections to servers come from, how packets are marked, and closing without a word.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use weir_config::model::Host;
use weir_config::model::Server;
use weir_config::model::{Source, TransparentSource};
use weir_sys::{Address, Errno, option, socket};

use crate::stream::Stream;

/// Binds a new socket to what `source` says.
pub(crate) fn bind(stream: &Stream, socket: &OwnedFd, target: &Address) -> Result<(), Errno> {
    let known = stream.known_server();
    let Some(source) = of(stream, known.as_deref()) else { return Ok(()) };
    if let Some(interface) = &source.interface {
        option::set_device(socket, interface)?;
    }
    if let Some(transparent) = &source.transparent
        && let Some(address) = transparent_address(stream, transparent)
    {
        option::set_transparent(socket, target.family())?;
        return socket::bind(socket, &Address::Inet(address));
    }
    let Host::Ip(ip) = source.host else { return Ok(()) };
    if source.first_port == 0 && ip.is_unspecified() {
        return Ok(());
    }
    bind_port(stream, socket, source, ip)
}

fn bind_port(stream: &Stream, socket: &OwnedFd, source: &Source, ip: IpAddr) -> Result<(), Errno> {
    if source.first_port == 0 {
        // The port is chosen when connecting: then the same one may serve several destinations.
        let _ = option::set_bind_address_no_port(socket);
        return socket::bind(socket, &Address::Inet(SocketAddr::new(ip, 0)));
    }
    let count = u32::from(source.last_port.saturating_sub(source.first_port)) + 1;
    let start = stream.serial as u32 % count;
    let mut last = Errno::ADDRINUSE;
    let _ = option::set_reuse_address(socket);
    for step in 0..count {
        let port = source.first_port + ((start + step) % count) as u16;
        match socket::bind(socket, &Address::Inet(SocketAddr::new(ip, port))) {
            Ok(()) => return Ok(()),
            Err(errno) => last = errno,
        }
    }
    Err(last)
}

/// The address that a connection comes from, if it depends on the request, and whether no other client can have it.
pub(crate) fn chosen(stream: &Stream) -> (Option<SocketAddr>, bool) {
    let known = stream.known_server();
    let transparent = of(stream, known.as_deref()).and_then(|source| source.transparent.as_ref());
    match transparent {
        None | Some(TransparentSource::Address { .. }) => (None, false),
        Some(transparent) => {
            (transparent_address(stream, transparent), matches!(transparent, TransparentSource::Client))
        }
    }
}

/// The `source` line in force: the server's, or the backend's.
fn of<'k>(stream: &Stream, known: Option<&'k Server>) -> Option<&'k Source> {
    let of_server = known.and_then(|known| known.settings.source.as_deref());
    of_server.or(stream.backend.config.settings.source.as_deref())
}

fn transparent_address(stream: &Stream, transparent: &TransparentSource) -> Option<SocketAddr> {
    let client = stream.source().inet();
    match transparent {
        TransparentSource::Address { host: Host::Ip(ip), port } => Some(SocketAddr::new(*ip, *port)),
        // Names got their addresses at the start.
        TransparentSource::Address { .. } => None,
        TransparentSource::Client => client,
        TransparentSource::ClientAddress => client.map(|client| SocketAddr::new(client.ip(), 0)),
        TransparentSource::Header { name, occurrence } => {
            let value = stream.request.head.find(stream.request.bytes(), name.as_bytes(), *occurrence)?;
            let ip: IpAddr = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
            Some(SocketAddr::new(ip, 0))
        }
    }
}

/// Marks a new socket's packets as `set-bc-mark` and `set-bc-tos` said.
pub(crate) fn mark(stream: &Stream, socket: &OwnedFd, target: &Address) -> Result<(), Errno> {
    if let Some(mark) = stream.facts.backend_mark {
        let _ = option::set_mark(socket, mark);
    }
    if let Some(tos) = stream.facts.backend_tos {
        let _ = option::set_tos(socket, target.family(), tos);
    }
    Ok(())
}

/// Makes the close of a connection invisible to its peer: nothing is sent any more (manual, "silent-drop").
pub(crate) fn silence(socket: impl AsFd, reset_ttl: Option<u8>) {
    let socket = socket.as_fd();
    if reset_ttl.is_none() && option::set_repair(socket, true).is_ok() {
        return;
    }
    // Without the privilege for the above: a reset that dies on its way.
    let _ = option::set_ttl(socket, reset_ttl.unwrap_or(1));
    let _ = option::set_no_linger(socket);
}
