//! Connect plans with real listeners.

use super::*;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::net::sockopt;
use weir_sys::option::KeepAlive;
use weir_sys::socket;

use crate::connection::ReceiveOutcome;

/// An error of the caller that ends an attempt.
#[derive(Debug, PartialEq)]
enum CallerError {
    Connect(ConnectError),
    ByLook,
}

impl From<ConnectError> for CallerError {
    fn from(error: ConnectError) -> Self {
        CallerError::Connect(error)
    }
}

fn listen() -> (TcpListener, Address) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = Address::Inet(listener.local_addr().expect("an address"));
    (listener, address)
}

/// Runs a future on a worker.
fn on_worker<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    weir_sched::run(future).expect("a worker").expect("the test came to its end")
}

fn soon() -> Tick {
    now().after(5_000)
}

async fn stand(connecting: &mut Connecting, greeting: &[u8]) -> Result<(), ConnectError> {
    connecting.stand(Greeting { bytes: greeting, more: false }, soon(), || Ok(())).await
}

/// All bytes received until EOF.
fn heard(listener: &TcpListener) -> String {
    let mut text = String::new();
    listener.accept().expect("a connection").0.read_to_string(&mut text).expect("all of it");
    text
}

#[test]
fn the_greeting_is_sent_before_other_data() {
    let (listener, address) = listen();
    on_worker(async move {
        let mut connecting =
            ConnectPlan::to(ConnectTarget::Address(address.clone())).begin().expect("a socket");
        assert_eq!(stand(&mut connecting, b"hello, ").await, Ok(()));
        assert_eq!(connecting.into_connection().send(b"world", false), SendOutcome::All);
    });
    assert_eq!(heard(&listener), "hello, world");
}

#[test]
fn a_refused_connect_fails_with_econnrefused() {
    let (listener, address) = listen();
    drop(listener);
    let outcome = on_worker(async move {
        let mut connecting =
            ConnectPlan::to(ConnectTarget::Address(address.clone())).begin().expect("a socket");
        stand(&mut connecting, b"").await
    });
    assert_eq!(outcome, Err(ConnectError::Failed(ConnectionFault::Io(Errno::CONNREFUSED))));
}

/// A listener with a full accept queue. The kernel does not answer further clients.
fn full_listener() -> (TcpListener, Address, Vec<OwnedFd>) {
    let socket = socket::stream(AddressFamily::Inet).expect("a socket");
    socket::bind(&socket, &Address::Inet((Ipv4Addr::LOCALHOST, 0).into())).expect("a port");
    socket::listen(&socket, 0).expect("it listens");
    let listener = TcpListener::from(socket);
    let address = Address::Inet(listener.local_addr().expect("an address"));
    let fill = || {
        let socket = socket::stream(AddressFamily::Inet).expect("a socket");
        let _ = socket::connect(&socket, &address);
        socket
    };
    let fillers = (0..4).map(|_| fill()).collect();
    (listener, address, fillers)
}

#[test]
fn a_connect_attempt_ends_at_its_deadline_or_on_a_caller_error() {
    let (_listener, address, _fillers) = full_listener();
    on_worker(async move {
        let plan = ConnectPlan::to(ConnectTarget::Address(address.clone()));
        let mut connecting = plan.begin().expect("a socket");
        let outcome =
            connecting.stand(Greeting::default(), now().after(20), || Ok::<_, ConnectError>(())).await;
        assert_eq!(outcome, Err(ConnectError::TimedOut));
        let mut connecting = plan.begin().expect("a socket");
        let mut looks = 0;
        let look = || {
            looks += 1;
            weir_sched::wake(weir_sched::current());
            if looks < 3 { Ok(()) } else { Err(CallerError::ByLook) }
        };
        assert_eq!(connecting.stand(Greeting::default(), Tick::NEVER, look).await, Err(CallerError::ByLook));
    });
}

#[test]
fn connect_options_are_set_on_the_socket() {
    let address = Address::Inet((Ipv4Addr::LOCALHOST, 1).into());
    let keep_alive = KeepAlive { idle: Some(Duration::from_secs(77)), interval: None, count: Some(5) };
    let options = ConnectOptions {
        keep_alive: Some(keep_alive),
        user_timeout: Some(Duration::from_millis(1234)),
        fast_open: true,
        no_linger: true,
        delays_acknowledgement: true,
        sizes: SocketSizes {
            receive_buffer: Some(50_000),
            send_buffer: Some(60_000),
            unsent_low_mark: Some(7000),
        },
        ..ConnectOptions::default()
    };
    let plan =
        ConnectPlan { tos: Some(8), options, ..ConnectPlan::to(ConnectTarget::Address(address.clone())) };
    let socket = &plan.open(&address).expect("a socket");
    assert_eq!(sockopt::tcp_nodelay(socket), Ok(true));
    assert_eq!(sockopt::socket_keepalive(socket), Ok(true));
    assert_eq!(sockopt::tcp_keepidle(socket), Ok(Duration::from_secs(77)));
    assert_eq!(sockopt::tcp_keepcnt(socket), Ok(5));
    assert_eq!(sockopt::tcp_user_timeout(socket), Ok(1234));
    assert_eq!(sockopt::tcp_quickack(socket), Ok(false));
    assert_eq!(sockopt::socket_linger(socket), Ok(Some(Duration::ZERO)));
    assert_eq!(sockopt::ip_tos(socket), Ok(8));
    // The kernel stores twice the size that it is given.
    assert_eq!(sockopt::socket_recv_buffer_size(socket), Ok(100_000));
    assert_eq!(sockopt::socket_send_buffer_size(socket), Ok(120_000));
}

#[test]
fn connections_use_mptcp_if_the_kernel_supports_it() {
    let address = Address::Inet((Ipv4Addr::LOCALHOST, 1).into());
    let options = ConnectOptions { multipath: true, ..ConnectOptions::default() };
    let plan = ConnectPlan { options, ..ConnectPlan::to(ConnectTarget::Address(address.clone())) };
    let possible = socket::multipath_stream(AddressFamily::Inet).is_ok();
    assert_eq!(socket::is_multipath(plan.open(&address).expect("a socket")), possible);
    let unix = Address::Unix("/x".into());
    assert!(plan.open(&unix).is_ok());
}

#[test]
fn without_options_a_socket_keeps_the_kernel_defaults() {
    let address = Address::Inet((Ipv4Addr::LOCALHOST, 1).into());
    let socket = &ConnectPlan::to(ConnectTarget::Address(address.clone())).open(&address).expect("a socket");
    assert_eq!(sockopt::tcp_nodelay(socket), Ok(true));
    assert_eq!(sockopt::socket_keepalive(socket), Ok(false));
    assert_eq!(sockopt::socket_linger(socket), Ok(None));
    assert_eq!(sockopt::tcp_user_timeout(socket), Ok(0));
    assert!(!socket::is_multipath(socket));
    assert_eq!(sockopt::ip_tos(socket), Ok(0));
}

/// The address that the listener sees for this source.
fn come_from(source: ConnectionSource<'static>) -> Result<SocketAddr, ConnectionFault> {
    let (listener, address) = listen();
    on_worker(async move {
        let plan = ConnectPlan { source, ..ConnectPlan::to(ConnectTarget::Address(address.clone())) };
        let mut connecting = plan.begin()?;
        assert_eq!(stand(&mut connecting, b"").await, Ok(()));
        Ok::<_, ConnectionFault>(())
    })?;
    Ok(listener.accept().expect("a connection").1)
}

fn from(address: SourceAddress) -> ConnectionSource<'static> {
    ConnectionSource { interface: None, address }
}

#[test]
fn connections_are_bound_to_the_source_address() {
    let ip = |last: u8| IpAddr::from([127, 0, 0, last]);
    assert_eq!(come_from(ConnectionSource::default()).map(|from| from.ip()), Ok(ip(1)));
    assert_eq!(come_from(from(SourceAddress::Ip(ip(2)))).map(|from| from.ip()), Ok(ip(2)));
    let foreign = from(SourceAddress::Foreign(SocketAddr::new(ip(3), 0)));
    assert_eq!(come_from(foreign).map(|from| from.ip()), Ok(ip(3)));
    let elsewhere = IpAddr::from([192, 0, 2, 1]);
    let fault = Err(ConnectionFault::Io(Errno::ADDRNOTAVAIL));
    let ports = SourceAddress::Ports { ip: elsewhere, first: 1, last: u16::MAX, turn: 0 };
    assert_eq!(come_from(from(ports)), fault);
    let nowhere = ConnectionSource { interface: Some("no-such-one"), ..ConnectionSource::default() };
    assert_eq!(come_from(nowhere), Err(ConnectionFault::Io(Errno::NODEV)));
}

/// A port in use is skipped. If all are in use, the result is a fault.
#[test]
fn a_used_source_port_is_skipped() {
    let ip = IpAddr::from([127, 0, 0, 4]);
    let taken = TcpListener::bind((ip, 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let ports = |first, last, turn| from(SourceAddress::Ports { ip, first, last, turn });
    assert_eq!(come_from(ports(port, port, 7)), Err(ConnectionFault::Io(Errno::ADDRINUSE)));
    let (first, last) = (port - 3, port.saturating_add(3));
    let found = come_from(ports(first, last, 3)).expect("one of them is free");
    assert!(found.ip() == ip && (first..=last).contains(&found.port()) && found.port() != port, "{found}");
    drop(taken);
    assert_eq!(come_from(ports(port, port, 7)), Ok(SocketAddr::new(ip, port)));
}

#[test]
fn a_connection_to_a_socketpair_is_passed_to_its_other_end() {
    let (near, far) = socket::stream_pair().expect("a pair");
    let said = on_worker(async move {
        let mut connecting = ConnectPlan::to(ConnectTarget::Pair(near.as_raw_fd())).begin().expect("a pair");
        assert_eq!(stand(&mut connecting, b"hello").await, Ok(()));
        let passed = weir_sys::pass::receive_connection(&far).expect("a connection");
        let mut said = [0; 16];
        let length = socket::receive(&passed, &mut said).expect("the greeting");
        String::from_utf8_lossy(&said[..length]).into_owned()
    });
    assert_eq!(said, "hello");
}

/// A SOCKS4 proxy that sends this answer and then acts as the server. Returns the request (16 bytes), and the client's
/// later data.
fn proxy(answer: &'static [u8]) -> (SocketAddr, std::thread::JoinHandle<(Vec<u8>, String)>) {
    let (listener, address) = listen();
    let talk = move || {
        let (mut client, _) = listener.accept().expect("a connection");
        client.set_nodelay(true).expect("an option");
        let mut request = vec![0; 16];
        client.read_exact(&mut request).expect("a request");
        answer.iter().for_each(|byte| client.write_all(&[*byte]).expect("it listens"));
        let mut said = String::new();
        if answer.len() >= 8 {
            client.read_to_string(&mut said).expect("all of it");
        }
        (request, said)
    };
    (address.inet().expect("an address"), std::thread::spawn(talk))
}

/// Connects to 192.0.2.1 through a proxy. Returns the first bytes of the server, and the bytes that the proxy received.
fn by_proxy(answer: &'static [u8]) -> (Result<Vec<u8>, ConnectError>, (Vec<u8>, String)) {
    let (socks4, proxy) = proxy(answer);
    let outcome = on_worker(async move {
        let target = Address::Inet("192.0.2.1:8080".parse().expect("an address"));
        let plan = ConnectPlan { socks4: Some(socks4), ..ConnectPlan::to(ConnectTarget::Address(target)) };
        let mut connecting = plan.begin().expect("a socket");
        stand(&mut connecting, b"PROXY UNKNOWN\r\n").await?;
        let mut connection = connecting.into_connection();
        connection.shut_write();
        loop {
            match connection.receive(1000) {
                ReceiveOutcome::Bytes(_) => {}
                ReceiveOutcome::Nothing => _ = wait(Tick::NEVER).await,
                other => break assert_eq!(other, ReceiveOutcome::End),
            }
        }
        assert_eq!(connection.received, connection.input().len() as u64, "the answer counts as the server's");
        Ok(connection.input().to_vec())
    });
    (outcome, proxy.join().expect("the proxy does not panic"))
}

const REQUEST: &[u8] = b"\x04\x01\x1f\x90\xc0\x00\x02\x01HAProxy\x00";

#[test]
fn the_socks4_request_is_sent_before_the_greeting() {
    let (server, (request, said)) = by_proxy(b"\x00\x5a\x00\x00\x00\x00\x00\x00");
    assert_eq!(server, Ok(Vec::new()));
    assert_eq!((&*request, &*said), (REQUEST, "PROXY UNKNOWN\r\n"));
}

#[test]
fn server_bytes_after_the_socks4_answer_are_kept() {
    let (server, (_, said)) = by_proxy(b"\x00\x5aabcdef220 ready\r\n");
    assert_eq!(server, Ok(b"220 ready\r\n".to_vec()));
    assert_eq!(said, "PROXY UNKNOWN\r\n");
}

#[test]
fn a_socks4_refusal_or_close_fails_the_connection() {
    let (server, (request, said)) = by_proxy(b"\x00\x5b\x00\x00\x00\x00\x00\x00");
    assert_eq!(server, Err(ConnectError::Failed(ConnectionFault::SocksRefused(91))));
    assert_eq!((&*request, &*said), (REQUEST, ""));
    let (server, _) = by_proxy(b"\x00\x5a\x00\x00\x00\x00\x00");
    assert_eq!(server, Err(ConnectError::Failed(ConnectionFault::SocksAborted)));
    let (server, _) = by_proxy(b"");
    assert_eq!(server, Err(ConnectError::Failed(ConnectionFault::SocksAborted)));
}

/// SOCKS4 supports only IPv4 addresses. For any other target the attempt fails without a connection to the proxy.
#[test]
fn rejects_targets_that_socks4_cannot_express() {
    let (listener, address) = listen();
    let socks4 = address.inet();
    let v6 = Address::Inet("[2001:db8::1]:80".parse().expect("an address"));
    let path = Address::Unix("/nowhere".into());
    on_worker(async move {
        for target in [ConnectTarget::Address(v6), ConnectTarget::Address(path), ConnectTarget::Pair(0)] {
            let plan = ConnectPlan { socks4, ..ConnectPlan::to(target) };
            assert_eq!(plan.begin().err(), Some(ConnectionFault::Io(Errno::AFNOSUPPORT)));
        }
    });
    listener.set_nonblocking(true).expect("an option");
    assert!(listener.accept().is_err());
}
