//! A proxy with several workers, in real time. Clients and origins are plain threads with blocking sockets.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use weir_events::{Facility, LogAddress, LogSink, LogTarget};
use weir_sched::{Class, Descriptor, Runtime, RuntimeSettings, WorkKind, spawn};
use weir_stream::instance::{Instance, ProxyRef, local};
use weir_sys::Address;

use super::{duplicate, instance, listening, prepare_worker};

/// A running proxy.
pub(crate) struct Running {
    /// The instance that the proxy runs.
    pub instance: Arc<Instance>,
    /// The address of the first frontend.
    pub address: SocketAddr,
    runtime: Option<Runtime>,
    /// The socket that receives the log.
    pub log: UdpSocket,
}

impl Running {
    /// Starts a proxy. In the text `{name}` stands for the address of an origin that answers every request with `answer`.
    pub(crate) fn start(text: &str, workers: usize, answer: &'static [u8]) -> Running {
        let log = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let to = Address::from(log.local_addr().expect("it is bound"));
        let facility = Facility::from_name("local0").expect("a facility");
        let sink =
            LogSink::open(LogTarget::new(LogAddress::Socket(to), facility), &weir_events::Sinks::default())
                .expect("a socket");
        let text = with_origins(text, answer);
        let mut instance = instance::build(&text, workers, &Arc::new(sink));
        let (socket, address) = listening(1024);
        let mut proxies = instance.proxies.iter_mut();
        let frontend = proxies.find(|proxy| !proxy.listeners.is_empty()).expect("a frontend");
        weir_stream::accept::prepare_listener(frontend, &socket);
        frontend.listeners[0].address = Some(address.clone());
        let position = frontend.index;
        let instance = Arc::new(instance);
        let all: Arc<[usize]> = (0..workers).collect();
        let shared = Arc::clone(&instance);
        let socket: Mutex<OwnedFd> = Mutex::new(socket);
        let init = move |worker| {
            static ACCEPT: WorkKind = WorkKind::new("accept");
            let instance = local(&shared);
            prepare_worker(&instance, worker);
            let own = duplicate(&*socket.lock().expect("nobody panics with it"));
            let listener = Descriptor::register(own).expect("a descriptor");
            let handler = weir_stream::listener_handler::ListenerHandler {
                frontend: ProxyRef::at(&instance, position).expect("it is there"),
                listener: 0,
                workers: Arc::clone(&all),
                spread: weir_stream::listener_handler::Spread::Keep,
            };
            spawn(&ACCEPT, Class::Urgent, weir_net::listener::accept(listener, handler, 64));
        };
        let settings = RuntimeSettings { threads: workers, ..RuntimeSettings::default() };
        let runtime = Runtime::start(&settings, init).expect("workers");
        let address = address.inet().expect("an internet address");
        Running { instance, address, runtime: Some(runtime), log }
    }

    /// A client of the first frontend.
    pub(crate) fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_nodelay(true).expect("a TCP socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Client(stream)
    }

    /// Runs a closure on a worker and returns its result.
    pub(crate) fn run_on<T: Send + 'static>(
        &self,
        worker: usize,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        // Not a channel, because the worker must not allocate to send the result.
        let place = Arc::new((Mutex::new(None), Condvar::new()));
        let answer = Arc::clone(&place);
        let handle = self.runtime.as_ref().expect("it runs").handle();
        let sent = handle.send_to(worker, move || {
            let value = question();
            *answer.0.lock().expect("nobody panics with it") = Some(value);
            answer.1.notify_one();
        });
        sent.expect("the worker lives");
        let mut value = place.0.lock().expect("nobody panics with it");
        loop {
            match value.take() {
                Some(value) => return value,
                None => value = place.1.wait(value).expect("nobody panics with it"),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.stop();
            let ended = runtime.join();
            assert!(std::thread::panicking() || ended.is_ok());
        }
    }
}

pub(crate) struct Client(pub TcpStream);

impl Client {
    /// Sends a request, and reads exactly the expected answer.
    #[track_caller]
    pub(crate) fn stream(&mut self, request: &[u8], expected: &[u8]) {
        self.0.write_all(request).expect("the proxy reads");
        let mut room = [0; 4096];
        let answer = &mut room[..expected.len()];
        self.0.read_exact(answer).expect("the proxy answers");
        assert!(answer == expected, "{}", String::from_utf8_lossy(answer));
    }
}

/// Replaces `{name}` by the addresses of new origins.
fn with_origins(text: &str, answer: &'static [u8]) -> String {
    let mut known = BTreeMap::new();
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').expect("a closed placeholder");
        let address = known.entry(name).or_insert_with(|| origin(answer));
        out.push_str(before);
        out.push_str(&address.to_string());
        rest = after;
    }
    out + rest
}

/// An origin: a thread for each connection, until the end of the test.
fn origin(answer: &'static [u8]) -> SocketAddr {
    counting_origin(answer).0
}

/// An origin, and its maximum number of concurrent connections.
pub(crate) fn counting_origin(answer: &'static [u8]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let most = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&most);
    std::thread::spawn(move || {
        let mut open: Vec<TcpStream> = Vec::new();
        for stream in listener.incoming().flatten() {
            open.retain(is_open);
            open.extend(stream.try_clone());
            noted.fetch_max(open.len(), Ordering::Relaxed);
            std::thread::spawn(move || serve(stream, answer));
        }
    });
    (address, most)
}

/// Whether the peer did not close a connection, as far as the kernel knows.
fn is_open(stream: &TcpStream) -> bool {
    weir_sys::socket::peek(stream, &mut [0]) != Ok(0)
}

/// Answers requests without bodies.
fn serve(mut stream: TcpStream, answer: &[u8]) {
    let _ = stream.set_nodelay(true);
    let mut held = Vec::new();
    let mut room = [0; 4096];
    loop {
        match stream.read(&mut room) {
            Ok(0) | Err(_) => return,
            Ok(count) => held.extend_from_slice(&room[..count]),
        }
        while let Some(end) = held.windows(4).position(|part| part == b"\r\n\r\n") {
            held.drain(..end + 4);
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

/// Timeout of each wait.
const PATIENCE: Duration = Duration::from_secs(30);
