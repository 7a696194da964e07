//! Runs the real binary for one test, on sockets created by the test. The process ends with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_sys::signal::{self, Signal};

/// The time limit for any step of a test, far more than needed on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One test's folder, sockets and process.
pub(crate) struct Weir {
    child: Child,
    said: BufReader<ChildStderr>,
    /// The test's folder. Removed when the test ends.
    _folder: tempfile::TempDir,
}

/// A process to be started: its folder, sockets and arguments.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    listeners: Vec<TcpListener>,
    arguments: Vec<String>,
}

/// Only one process is started at a time. Otherwise a process could inherit the descriptors meant for another.
static STARTING: Mutex<()> = Mutex::new(());

impl Setup {
    /// A setup with an empty folder and without sockets.
    pub(crate) fn new() -> Self {
        Setup { folder: tempfile::tempdir().expect("a folder"), listeners: Vec::new(), arguments: Vec::new() }
    }

    /// A path in the test's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a listening socket for the process. Returns `fd@N` for the configuration, and the address for clients.
    pub(crate) fn listener(&mut self) -> (String, Address) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("any port is free");
        let port = listener.local_addr().expect("bound").port();
        let name = format!("fd@{}", listener.as_raw_fd());
        self.listeners.push(listener);
        (name, Address::Tcp(port))
    }

    /// Adds a word to the command line.
    pub(crate) fn argument(mut self, word: impl Into<String>) -> Self {
        self.arguments.push(word.into());
        self
    }

    fn command(&self, text: &str) -> Command {
        let file = self.path("weir.cfg");
        std::fs::write(&file, text).expect("the folder is ours");
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("-f").arg(file).args(&self.arguments).stdin(Stdio::null());
        command
    }

    /// Starts the process in the foreground.
    pub(crate) fn start(self, text: &str) -> Weir {
        let mut command = self.command(text);
        command.arg("-db").stdout(Stdio::piped()).stderr(Stdio::piped());
        let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let inherit = |inheritable| {
            for listener in &self.listeners {
                weir_sys::process::set_inheritable(listener, inheritable).expect("it is open");
            }
        };
        inherit(true);
        let mut child = command.spawn().expect("the binary was built");
        inherit(false);
        // From now on, only the process listens.
        let said = BufReader::new(child.stderr.take().expect("it is piped"));
        Weir { child, said, _folder: self.folder }
    }

    /// Runs the process until it ends by itself.
    pub(crate) fn run(&self, text: &str) -> Output {
        let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        self.command(text).output().expect("the binary was built")
    }
}

impl Weir {
    /// The process number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: Signal) {
        assert_eq!(signal::send(self.id(), signal), Ok(true), "the process is there");
    }

    /// Waits until the process exits.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        until("the process ends", || self.child.try_wait().expect("it is our child"))
    }

    /// Whether the process has exited.
    pub(crate) fn ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Waits until the process prints these words to standard error.
    pub(crate) fn says(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            let count = self.said.read_line(&mut line).expect("it says text");
            assert_ne!(count, 0, "it never says {words}");
        }
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address for clients.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// A port on the loopback address.
    Tcp(u16),
    Unix(PathBuf),
}

impl Address {
    /// A UNIX socket that the process will create.
    pub(crate) fn unix(path: impl AsRef<Path>) -> Self {
        Address::Unix(path.as_ref().to_owned())
    }

    /// Connects. `None` without a listener.
    pub(crate) fn try_connect(&self) -> Option<Client> {
        let stream: Box<dyn Duplex> = match self {
            Address::Tcp(port) => Box::new(TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).ok()?),
            Address::Unix(path) => Box::new(UnixStream::connect(path).ok()?),
        };
        stream.set_patience(Some(PATIENCE));
        Some(Client(BufReader::new(stream)))
    }

    /// Connects, after waiting for a listener.
    pub(crate) fn connect(&self) -> Client {
        until("somebody listens", || self.try_connect())
    }
}

/// A connection to the process.
pub(crate) struct Client(BufReader<Box<dyn Duplex>>);

/// A TCP or UNIX stream.
pub(crate) trait Duplex: Read + Write {
    /// Sets the read timeout.
    fn set_patience(&self, patience: Option<Duration>);
}

impl Duplex for TcpStream {
    fn set_patience(&self, patience: Option<Duration>) {
        self.set_read_timeout(patience).expect("a positive time");
    }
}

impl Duplex for UnixStream {
    fn set_patience(&self, patience: Option<Duration>) {
        self.set_read_timeout(patience).expect("a positive time");
    }
}

/// The parts of a response used by tests.
#[derive(Debug)]
pub(crate) struct Response {
    /// The status line and header fields, as received.
    pub head: String,
    /// The body, by its `content-length`.
    pub body: String,
}

impl Client {
    /// Sends bytes verbatim.
    pub(crate) fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("the process receives");
    }

    /// Sends a request without a body.
    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.response()
    }

    /// Receives a response.
    pub(crate) fn response(&mut self) -> Response {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            let count = self.0.read_line(&mut line).expect("a response comes");
            assert_ne!(count, 0, "the connection ended in the head: {head}");
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().expect("a number"))
        });
        let mut body = vec![0; length.unwrap_or(0)];
        self.0.read_exact(&mut body).expect("the body comes");
        Response { head, body: String::from_utf8(body).expect("text") }
    }

    /// Receives all bytes until the process closes the connection.
    pub(crate) fn rest(&mut self) -> String {
        let mut text = String::new();
        // A reset also ends the connection.
        let _ = self.0.read_to_string(&mut text);
        text
    }

    /// Whether no bytes arrive for a short time.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.0.get_ref().set_patience(Some(Duration::from_millis(100)));
        let silent = self.0.fill_buf().is_err();
        self.0.get_ref().set_patience(Some(PATIENCE));
        silent
    }
}

/// Calls `probe` repeatedly until it returns a value.
pub(crate) fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(Instant::now() < end, "it takes too long until {what}");
        std::thread::yield_now();
    }
}

/// Starts an origin server on its own thread, which answers every request with `body`. Returns its port.
pub(crate) fn origin(body: &'static str) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("any port is free");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(stream, body));
        }
    });
    port
}

fn answer_all(stream: TcpStream, body: &str) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
        if line == "\r\n" {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        line.clear();
    }
}

/// The first lines of every configuration in these tests.
pub(crate) const DEFAULTS: &str = "
defaults
    mode http
    timeout client 30s
    timeout connect 5s
    timeout server 30s
";
