//! Opening listening sockets: every kind of address, every option of a `bind` line.
//!
//! Sockets are opened once, at startup, in the main thread, before privileges are dropped and before any worker
//! exists. An error names the call that failed, so that the operator need not guess.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weir_sys::{Address, AddressFamily, Errno, option, process, socket};

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// An address that this process binds.
    Address(Address),
    /// An inherited socket with this descriptor number.
    Inherited(i32),
    /// One end of an inherited pair of sockets with this descriptor number: connections are passed over it.
    Pair(i32),
}

/// The socket options of a `bind` line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// How many connections may wait to be accepted.
    pub backlog: u32,
    /// Whether it receives datagrams instead of connections.
    pub datagrams: bool,
    /// Whether it speaks MPTCP (`mptcp@`).
    pub multipath: bool,
    /// Whether several sockets, also of several processes, may have the address (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Accept only packets that arrive through this network interface.
    pub interface: Option<Box<str>>,
    /// The maximum segment size to announce, in bytes. A negative value reduces the kernel's own.
    pub maximum_segment: Option<i32>,
    /// TCP Fast Open, with this queue length for connections in their handshake.
    pub fast_open: Option<u32>,
    /// Accept a connection only once data arrived, or after this many seconds.
    pub defer_accept: Option<u32>,
    /// Whether an IPv6 socket refuses IPv4. `None` for the system's default.
    pub v6_only: Option<bool>,
    /// Whether addresses of other machines may be bound.
    pub transparent: bool,
    /// How long sent data may stay unacknowledged, in milliseconds.
    pub user_timeout_ms: Option<u32>,
    /// The size of the kernel's receive buffer, in bytes.
    pub receive_buffer: Option<usize>,
    /// The size of the kernel's send buffer, in bytes.
    pub send_buffer: Option<usize>,
    /// `tune.notsent-lowat.client`: how much unsent data the kernel accepts, in bytes.
    pub unsent_low_mark: Option<u32>,
    /// The permission bits of a UNIX socket.
    pub mode: Option<u32>,
    /// The owner of a UNIX socket.
    pub user: Option<u32>,
    /// The group of a UNIX socket.
    pub group: Option<u32>,
}

/// An opened listening socket, with the effects of its options.
#[derive(Debug)]
pub struct ListeningSocket {
    pub socket: OwnedFd,
    pub address: Address,
    /// Whether another process created the socket and may still use it.
    pub inherited: bool,
    /// Options that the kernel refused. The socket works without them.
    pub refused: Vec<OpenError>,
    /// Moves a UNIX socket to its final path. `None` if it is there already.
    placement: Option<Placement>,
}

impl ListeningSocket {
    /// Takes the placement of a UNIX socket. `None` if the socket is already at its final path.
    pub fn take_placement(&mut self) -> Option<Placement> {
        self.placement.take()
    }
}

/// A UNIX socket bound to a temporary path next to its final one. Dropping this removes the temporary path.
#[derive(Debug)]
pub struct Placement {
    beside: PathBuf,
    path: PathBuf,
}

impl Placement {
    /// Renames the socket to its final path, atomically. A client that connects meanwhile reaches the former socket or this
    /// one. Call it once nothing else can fail, so that a failed start does not replace the former process's sockets.
    pub fn put_in_place(&self) -> Result<PlacedSocket, OpenError> {
        std::fs::rename(&self.beside, &self.path)
            .map_err(because_io("cannot switch final and temporary UNIX sockets"))?;
        let number = std::fs::metadata(&self.path).map_or(0, |file| file.ino());
        Ok(PlacedSocket { path: self.path.clone(), number })
    }

    /// Whether another process listens at the path now.
    pub fn is_taken(&self) -> bool {
        let Ok(socket) = socket::stream(AddressFamily::Unix) else { return true };
        // A full queue means that a process listens.
        !matches!(
            socket::connect(&socket, &Address::Unix(self.path.clone())),
            Err(Errno::NOENT | Errno::CONNREFUSED)
        )
    }
}

/// A UNIX socket at its final path.
#[derive(Debug)]
pub struct PlacedSocket {
    path: PathBuf,
    /// The inode number of the socket's file.
    number: u64,
}

impl PlacedSocket {
    /// Removes the path after a failed start, unless another process has replaced the file.
    pub fn withdraw(self) {
        if std::fs::metadata(&self.path).is_ok_and(|file| file.ino() == self.number) {
            let _ = std::fs::remove_file(self.path);
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Address::Unix(self.path.clone()).fmt(f)
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        // The temporary path does not exist any more after the socket was put in place.
        let _ = std::fs::remove_file(&self.beside);
    }
}

/// A failed operation on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// The operation, in HAProxy's words.
    pub what: &'static str,
    pub errno: Errno,
}

impl OpenError {
    /// Whether another socket has the address. A retry may succeed after that socket is closed.
    pub fn is_in_use(&self) -> bool {
        self.errno == Errno::ADDRINUSE
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, weir_sys::error_text(self.errno))
    }
}

impl std::error::Error for OpenError {}

/// Opens sockets. An inherited descriptor number can be taken over only once.
#[derive(Debug, Default)]
pub struct Opener {
    inherited: BTreeMap<i32, OwnedFd>,
    handed_over: Vec<HandedOver>,
}

/// A socket that a former process handed over: it listens, or receives datagrams.
#[derive(Debug)]
pub struct HandedOver {
    pub socket: OwnedFd,
    /// Its address. For a UNIX socket, the final path.
    pub address: Address,
    /// The network interface that it is bound to.
    pub interface: Option<Box<str>>,
}

impl HandedOver {
    /// A socket that a former process handed over. Fails with the kernel's error if the socket's address is unknown.
    pub fn new(socket: OwnedFd, interface: Option<Box<str>>) -> weir_sys::Result<Self> {
        let address = match socket::local_address(&socket)? {
            Address::Unix(path) => Address::Unix(final_path(&path)),
            other => other,
        };
        Ok(HandedOver { socket, address, interface })
    }

    fn serves(&self, address: &Address, options: &SocketOptions) -> bool {
        // Whether an IPv6 socket accepts IPv4 cannot be changed any more.
        let same_family = || match options.v6_only.filter(|_| address.family() == AddressFamily::Inet6) {
            Some(only) => option::v6_only(&self.socket) == Ok(only),
            None => true,
        };
        // The same address may exist for connections and for datagrams, and the protocol of a socket cannot be changed.
        let same_kind = || {
            socket::keeps_messages_apart(&self.socket) == options.datagrams
                && socket::is_multipath(&self.socket) == options.multipath
        };
        self.address == *address && self.interface == options.interface && same_kind() && same_family()
    }
}

/// The final path of a UNIX socket. It was bound to that path with `.<process>.tmp` appended, which the kernel still reports.
fn final_path(path: &Path) -> PathBuf {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = path.as_os_str().as_bytes();
    let without = bytes.strip_suffix(b".tmp").and_then(|bytes| {
        let dot = bytes.iter().rposition(|&byte| byte == b'.')?;
        let process = &bytes[dot + 1..];
        (!process.is_empty() && process.iter().all(u8::is_ascii_digit)).then_some(&bytes[..dot])
    });
    match without {
        Some(path) => std::ffi::OsString::from_vec(path.to_vec()).into(),
        None => path.to_owned(),
    }
}

impl Opener {
    /// An opener that has taken over no socket.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes sockets of a former process. Matching ones are used instead of new ones. The others are closed with the opener.
    pub fn adopt(&mut self, sockets: Vec<HandedOver>) {
        self.handed_over.extend(sockets);
    }

    /// Another handed-over socket with the same address. If it were closed, the connections that wait in its queue would
    /// be lost.
    pub fn another(
        &mut self,
        address: &Address,
        options: &SocketOptions,
    ) -> Option<Result<ListeningSocket, OpenError>> {
        let position = self.handed_over.iter().position(|handed| handed.serves(address, options))?;
        Some(take(self.handed_over.swap_remove(position), options))
    }

    /// Opens one listening socket.
    pub fn open(
        &mut self,
        endpoint: &Endpoint,
        options: &SocketOptions,
    ) -> Result<ListeningSocket, OpenError> {
        if let Endpoint::Address(address) = endpoint
            && let Some(opened) = self.another(address, options)
        {
            return opened;
        }
        match endpoint {
            Endpoint::Inherited(number) => self.take_over(*number, options),
            Endpoint::Pair(number) => self.take_pair(*number),
            Endpoint::Address(Address::Unix(path)) => open_unix(path, options),
            Endpoint::Address(address) => open_address(address, options),
        }
    }

    fn take_over(&mut self, number: i32, options: &SocketOptions) -> Result<ListeningSocket, OpenError> {
        let opened = self.take_pair(number)?;
        if options.datagrams {
            let datagrams = socket::keeps_messages_apart(&opened.socket);
            return datagrams
                .then_some(opened)
                .ok_or(because("the descriptor is no datagram socket")(Errno::PROTOTYPE));
        }
        socket::listen(&opened.socket, backlog(options)).map_err(because("cannot listen to socket"))?;
        Ok(opened)
    }

    fn take_pair(&mut self, number: i32) -> Result<ListeningSocket, OpenError> {
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.inherited.entry(number) {
            vacant.insert(
                process::inherited_descriptor(number).map_err(because("cannot use this descriptor"))?,
            );
        }
        let own = self.inherited.get(&number).expect("inserted just above");
        let socket = process::duplicate(own).map_err(because("cannot duplicate the descriptor"))?;
        let address = socket::local_address(&socket).map_err(because("the descriptor is no socket"))?;
        socket::set_nonblocking(&socket).map_err(because("cannot make socket non-blocking"))?;
        Ok(ListeningSocket { socket, address, inherited: true, refused: Vec::new(), placement: None })
    }
}

/// Uses a socket of a former process.
fn take(handed: HandedOver, options: &SocketOptions) -> Result<ListeningSocket, OpenError> {
    let HandedOver { socket, address, .. } = handed;
    let mut refused = Vec::new();
    socket::set_nonblocking(&socket).map_err(because("cannot make socket non-blocking"))?;
    begin(&socket, address.family(), options, &mut refused)?;
    Ok(ListeningSocket { socket, address, inherited: false, refused, placement: None })
}

/// Starts to listen on a bound socket. Does nothing for a datagram socket.
fn begin(
    socket: &OwnedFd,
    family: AddressFamily,
    options: &SocketOptions,
    refused: &mut Vec<OpenError>,
) -> Result<(), OpenError> {
    if options.datagrams {
        return Ok(());
    }
    if family != AddressFamily::Unix {
        set_after_bind(socket, options, refused);
    }
    socket::listen(socket, backlog(options)).map_err(because("cannot listen to socket"))
}

fn open_address(address: &Address, options: &SocketOptions) -> Result<ListeningSocket, OpenError> {
    let family = address.family();
    let create = match options {
        SocketOptions { datagrams: true, .. } => socket::datagram,
        SocketOptions { multipath: true, .. } => socket::multipath_stream,
        _ => socket::stream,
    };
    let socket = create(family).map_err(because("cannot create listening socket"))?;
    let mut refused = Vec::new();
    if family != AddressFamily::Unix {
        refused = set_inet_options(&socket, family, options)?;
    }
    socket::bind(&socket, address).map_err(because("cannot bind socket"))?;
    begin(&socket, family, options, &mut refused)?;
    let address = socket::local_address(&socket).map_err(because("cannot find the socket's address"))?;
    Ok(ListeningSocket { socket, address, inherited: false, refused, placement: None })
}

/// Sets the options that must be set before binding. Returns the errors of optional ones.
fn set_inet_options(
    socket: &OwnedFd,
    family: AddressFamily,
    options: &SocketOptions,
) -> Result<Vec<OpenError>, OpenError> {
    option::set_reuse_address(socket).map_err(because("cannot reuse the address"))?;
    if options.reuse_port {
        // An old kernel lacks this option. A restart then has a short gap.
        let _ = option::set_reuse_port(socket);
    }
    let mut refused = Vec::new();
    let mut soft = |what, result: weir_sys::Result<()>| refused.extend(result.map_err(because(what)).err());
    if options.transparent {
        soft("cannot make listening socket transparent", option::set_transparent(socket, family));
    }
    if let Some(interface) = &options.interface {
        option::set_device(socket, interface).map_err(because("cannot bind listener to device"))?;
    }
    if family == AddressFamily::Inet6
        && let Some(only) = options.v6_only
    {
        soft("cannot choose whether to take IPv4 too", option::set_v6_only(socket, only));
    }
    if let Some(bytes) = options.receive_buffer {
        soft("cannot set the receive buffer", option::set_receive_buffer(socket, bytes));
    }
    if let Some(bytes) = options.unsent_low_mark.filter(|_| !options.datagrams) {
        soft("cannot set the mark of unsent data", option::set_unsent_low_mark(socket, bytes));
    }
    if let Some(bytes) = options.send_buffer {
        soft("cannot set the send buffer", option::set_send_buffer(socket, bytes));
    }
    Ok(refused)
}

/// Sets options of future connections. A refusal by the kernel is harmless.
fn set_after_bind(socket: &OwnedFd, options: &SocketOptions, refused: &mut Vec<OpenError>) {
    let mut soft = |what, result: weir_sys::Result<()>| refused.extend(result.map_err(because(what)).err());
    if let Some(size) = options.maximum_segment {
        soft("cannot set MSS", set_segment(socket, size));
    }
    if let Some(milliseconds) = options.user_timeout_ms {
        soft("cannot set TCP User Timeout", option::set_user_timeout(socket, milliseconds));
    }
    if let Some(seconds) = options.defer_accept {
        soft("cannot enable DEFER_ACCEPT", option::set_defer_accept(socket, seconds));
    }
    if let Some(queue) = options.fast_open {
        soft("cannot enable TCP_FASTOPEN", option::set_fast_open(socket, queue));
    }
}

/// A negative size reduces the kernel's value for this address.
fn set_segment(socket: &OwnedFd, size: i32) -> weir_sys::Result<()> {
    let bytes = match u32::try_from(size) {
        Ok(bytes) => bytes,
        Err(_) => option::maximum_segment(socket)?.checked_sub(size.unsigned_abs()).ok_or(Errno::INVAL)?,
    };
    option::set_maximum_segment(socket, bytes)
}

/// Binds to a temporary path: see [`Placement::put_in_place`].
fn open_unix(path: &Path, options: &SocketOptions) -> Result<ListeningSocket, OpenError> {
    if path.is_dir() {
        return Err(because("cannot switch final and temporary UNIX sockets")(Errno::ISDIR));
    }
    let beside = beside(path);
    // An earlier process with the same PID may have left the file behind.
    let _ = std::fs::remove_file(&beside);
    let opened = open_address(&Address::Unix(beside.clone()), options)?;
    let placement = Placement { beside, path: path.to_owned() };
    if options.user.is_some() || options.group.is_some() {
        std::os::unix::fs::chown(&placement.beside, options.user, options.group)
            .map_err(because_io("cannot change UNIX socket ownership"))?;
    }
    if let Some(mode) = options.mode {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&placement.beside, permissions)
            .map_err(because_io("cannot change UNIX socket ownership"))?;
    }
    Ok(ListeningSocket { address: Address::Unix(path.to_owned()), placement: Some(placement), ..opened })
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", process::id()));
    name.into()
}

fn backlog(options: &SocketOptions) -> i32 {
    i32::try_from(options.backlog).unwrap_or(i32::MAX)
}

fn because(what: &'static str) -> impl Fn(Errno) -> OpenError {
    move |errno| OpenError { what, errno }
}

fn because_io(what: &'static str) -> impl Fn(std::io::Error) -> OpenError {
    move |error| OpenError { what, errno: Errno::from_io_error(&error).unwrap_or(Errno::IO) }
}

/// The name of an `abns@` address, padded with zeroes, because the kernel compares the whole field.
pub fn padded_abstract_name(name: &[u8]) -> Box<[u8]> {
    let mut padded = name.to_vec();
    padded.resize(ABSTRACT_NAME_LENGTH.max(name.len()), 0);
    padded.into()
}

/// The size of `sun_path` (108 bytes) without the zero that makes a name abstract.
const ABSTRACT_NAME_LENGTH: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    fn options() -> SocketOptions {
        SocketOptions { backlog: 16, reuse_port: true, ..SocketOptions::default() }
    }

    fn open(address: Address, options: &SocketOptions) -> Result<ListeningSocket, OpenError> {
        Opener::new().open(&Endpoint::Address(address), options)
    }

    #[test]
    fn opening_port_zero_returns_the_assigned_port() {
        let opened = open((Ipv4Addr::LOCALHOST, 0).into(), &options()).expect("any port");
        assert_ne!(opened.address.port(), 0);
        assert_eq!(socket::is_listening(&opened.socket), Ok(true));
        // A second process may have the same address, so that a restart loses no connection.
        assert!(open(opened.address.clone(), &options()).is_ok());
        let alone = SocketOptions { reuse_port: false, ..options() };
        assert!(open(opened.address, &alone).expect_err("taken").is_in_use());
    }

    #[test]
    fn socket_options_are_set_or_reported_as_refused() {
        let all = SocketOptions {
            maximum_segment: Some(1200),
            fast_open: Some(100),
            defer_accept: Some(1),
            user_timeout_ms: Some(10_000),
            ..options()
        };
        let opened = open((Ipv4Addr::LOCALHOST, 0).into(), &all).expect("any port");
        assert!(opened.refused.is_empty(), "{:?}", opened.refused);
        let nowhere = SocketOptions { interface: Some("no-such-interface".into()), ..options() };
        let error = open((Ipv4Addr::LOCALHOST, 0).into(), &nowhere).expect_err("no such interface");
        assert_eq!(error.what, "cannot bind listener to device");
    }

    #[test]
    fn an_ipv6_socket_without_v6only_accepts_ipv4_clients() {
        let both = SocketOptions { v6_only: Some(false), ..options() };
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        // Without IPv6 on this machine there is nothing to test.
        let Ok(opened) = open(any.into(), &both) else { return };
        let client = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, opened.address.port()));
        assert!(client.is_ok());
    }

    fn place(opened: &mut ListeningSocket, taken: bool) -> PlacedSocket {
        let placement = opened.take_placement().expect("it is beside its path");
        assert_eq!(placement.is_taken(), taken);
        placement.put_in_place().expect("the folder is ours")
    }

    #[test]
    fn a_failed_start_removes_only_its_own_unix_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let place = |taken| {
            let mut opened = open(Address::Unix(path.clone()), &options()).expect("a path");
            let placed = place(&mut opened, taken);
            (opened, placed)
        };
        place(false).1.withdraw();
        assert!(!path.exists());
        let (_first, placed) = place(false);
        let _second = place(true);
        placed.withdraw();
        assert!(path.exists(), "it is the one of the second");
    }

    #[test]
    fn a_new_unix_socket_replaces_the_old_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let wanted = SocketOptions { mode: Some(0o600), ..options() };
        let mut first = open(Address::Unix(path.clone()), &wanted).expect("a new path");
        place(&mut first, false);
        drop(open(Address::Unix(path.clone()), &wanted).expect("a start that fails later"));
        std::os::unix::net::UnixStream::connect(&path).expect("the former one still listens");
        assert!(socket::accept(&first.socket).is_ok());
        let mut second = open(Address::Unix(path.clone()), &wanted).expect("a used path");
        place(&mut second, true);
        assert!(socket::accept(&first.socket).is_ok(), "somebody looked whether it is there");
        assert_eq!(second.address, Address::Unix(path.clone()));
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::os::unix::net::UnixStream::connect(&path).expect("somebody listens");
        assert!(socket::accept(&second.socket).is_ok());
        assert_eq!(socket::accept(&first.socket).err(), Some(Errno::AGAIN));
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1);
        assert!(open(Address::Unix(folder.path().into()), &wanted).is_err(), "a folder is in the way");
    }

    #[test]
    fn sockets_of_the_old_process_are_reused_if_address_and_options_match() {
        let folder = tempfile::tempdir().expect("a folder");
        let unix = Address::Unix(folder.path().join("s"));
        let inet = open((Ipv4Addr::LOCALHOST, 0).into(), &options()).expect("any port");
        let mut path = open(unix.clone(), &options()).expect("a new path");
        place(&mut path, false);
        let mut opener = Opener::new();
        let give = |opened: &ListeningSocket| {
            let copy = process::duplicate(&opened.socket).expect("a descriptor");
            HandedOver::new(copy, None).expect("it listens")
        };
        opener.adopt(vec![give(&inet), give(&inet), give(&path)]);
        let elsewhere = SocketOptions { interface: Some("lo".into()), ..options() };
        assert!(opener.another(&inet.address, &elsewhere).is_none());
        for address in [&inet.address, &unix] {
            let opened = opener.open(&Endpoint::Address(address.clone()), &options()).expect("it was given");
            assert_eq!(opened.address, *address);
        }
        // Connections in the accept queue are not lost, because both sockets share the queue.
        let _client = std::os::unix::net::UnixStream::connect(folder.path().join("s")).expect("it listens");
        assert!(socket::accept(&path.socket).is_ok());
        assert!(opener.another(&inet.address, &options()).is_some_and(|opened| opened.is_ok()));
        assert!(opener.another(&inet.address, &options()).is_none());
    }

    #[test]
    fn udp_and_tcp_sockets_of_one_port_are_reused_separately() {
        let datagrams = SocketOptions { datagrams: true, ..options() };
        let stream = open((Ipv4Addr::LOCALHOST, 0).into(), &options()).expect("any port");
        let socket = open(stream.address.clone(), &datagrams).expect("the same port, for datagrams");
        assert!(socket::keeps_messages_apart(&socket.socket) && socket.refused.is_empty());
        let mut opener = Opener::new();
        for opened in [&stream, &socket] {
            let copy = process::duplicate(&opened.socket).expect("a descriptor");
            opener.adopt(vec![HandedOver::new(copy, None).expect("it has an address")]);
        }
        let client = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("any port");
        let to = stream.address.inet().expect("an address");
        assert_eq!(client.send_to(b"waits", to).expect("room"), 5);
        let taken =
            opener.open(&Endpoint::Address(stream.address.clone()), &datagrams).expect("it was given");
        let mut space = [0; 16];
        let (length, from) =
            socket::receive_from(&taken.socket, &mut space).expect("what has arrived is there");
        assert_eq!(
            (&space[..length], from.port()),
            (&b"waits"[..], client.local_addr().expect("bound").port())
        );
        assert!(opener.another(&stream.address, &datagrams).is_none());
        assert!(opener.another(&stream.address, &options()).is_some_and(|opened| opened.is_ok()));
    }

    #[test]
    fn mptcp_and_tcp_sockets_of_one_port_are_reused_separately() {
        let multipath = SocketOptions { multipath: true, ..options() };
        let tcp = open((Ipv4Addr::LOCALHOST, 0).into(), &options()).expect("any port");
        let opened = match open(tcp.address.clone(), &multipath) {
            Ok(opened) => opened,
            Err(error) => return assert!(socket::lacks_multipath(error.errno), "{error}"),
        };
        let mut opener = Opener::new();
        for opened in [&tcp, &opened] {
            let copy = process::duplicate(&opened.socket).expect("a descriptor");
            opener.adopt(vec![HandedOver::new(copy, None).expect("it has an address")]);
        }
        let mut next = |options: &SocketOptions| opener.another(&tcp.address, options)?.ok();
        let taken = next(&multipath).expect("it was given");
        assert!(socket::is_multipath(&taken.socket) && taken.refused.is_empty());
        assert!(next(&multipath).is_none());
        assert!(!socket::is_multipath(&next(&options()).expect("it was given").socket));
    }

    #[test]
    fn rejects_inherited_sockets_of_the_wrong_type() {
        let datagrams = SocketOptions { datagrams: true, ..options() };
        let (stream, socket) =
            (open((Ipv4Addr::LOCALHOST, 0).into(), &options()), std::net::UdpSocket::bind("127.0.0.1:0"));
        let (stream, socket) = (stream.expect("any port"), socket.expect("any port"));
        let mut opener = Opener::new();
        let number = Endpoint::Inherited(stream.socket.as_raw_fd());
        assert!(opener.open(&number, &datagrams).is_err() && opener.open(&number, &options()).is_ok());
        let number = Endpoint::Inherited(socket.as_raw_fd());
        assert!(opener.open(&number, &datagrams).is_ok() && opener.open(&number, &options()).is_err());
        // Both descriptors belong to the opener now.
        std::mem::forget((stream.socket, socket));
    }

    #[test]
    fn the_final_unix_path_is_derived_from_the_temporary_path() {
        let of = |path: &str| final_path(Path::new(path)).to_string_lossy().into_owned();
        assert_eq!(of("/run/a.sock.1234.tmp"), "/run/a.sock");
        assert_eq!(of("/run/a.sock"), "/run/a.sock");
        assert_eq!(of("/run/a.x.tmp"), "/run/a.x.tmp");
        assert_eq!(of("/run/a..tmp"), "/run/a..tmp");
    }

    #[test]
    fn an_abstract_unix_name_is_padded() {
        let name = format!("weir-net-{}", process::id());
        let address = Address::Abstract(padded_abstract_name(name.as_bytes()));
        let opened = open(address.clone(), &options()).expect("the name is ours");
        let client = socket::stream(AddressFamily::Unix).expect("a socket");
        assert_eq!(socket::connect(&client, &address), Ok(true));
        assert!(socket::accept(&opened.socket).is_ok());
    }

    #[test]
    fn an_inherited_socket_can_be_used_by_two_bind_lines() {
        let parent = open((Ipv4Addr::LOCALHOST, 0).into(), &options()).expect("any port");
        let copy = process::duplicate(&parent.socket).expect("a descriptor");
        let number = copy.as_raw_fd();
        std::mem::forget(copy);
        let mut opener = Opener::new();
        for _ in 0..2 {
            let opened = opener.open(&Endpoint::Inherited(number), &options()).expect("it is open");
            assert_eq!((opened.address, opened.inherited), (parent.address.clone(), true));
        }
        assert!(opener.open(&Endpoint::Inherited(1_000_000), &options()).is_err());
    }
}
