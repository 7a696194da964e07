//! A connection to a runtime API in interactive mode, which stays open for several commands.
//!
//! The peer may be slow, hostile or not a runtime API. So each command has a deadline and each answer a size limit. After an
//! incomplete or malformed answer the connection cannot be used any more.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::target::ApiAddress;

pub(crate) struct ApiConnection {
    stream: ApiSocket,
    /// The end of each answer: an empty line and the prompt.
    prompt: Vec<u8>,
    /// Prefix of each command. On a master CLI, it selects the worker.
    prefix: &'static str,
    deadline: Duration,
}

/// An answer, without the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ApiAnswer {
    pub text: String,
    /// Whether the answer exceeded its limit. The connection cannot be used any more.
    pub cut: bool,
}

/// Why an answer is missing.
#[derive(Debug)]
pub(crate) enum AnswerFailure {
    Connect(io::Error),
    /// The peer does not behave like a runtime API.
    Stranger,
    /// No complete answer was received before the deadline.
    Late(Duration),
    Closed,
    Broken(io::Error),
}

impl ApiConnection {
    pub(crate) fn open(target: &ApiAddress, deadline: Duration) -> Result<ApiConnection, AnswerFailure> {
        let stream = ApiSocket::connect(target, deadline).map_err(AnswerFailure::Connect)?;
        let mut connection = ApiConnection { stream, prompt: Vec::new(), prefix: "", deadline };
        connection.greet()?;
        Ok(connection)
    }

    /// Enables interactive mode, and detects the prompt.
    fn greet(&mut self) -> Result<(), AnswerFailure> {
        self.write("prompt\n")?;
        let end = Instant::now() + self.deadline;
        let mut buffer = Vec::new();
        while !buffer.ends_with(b"> ") {
            if buffer.len() > LONGEST_PROMPT || buffer.first().is_some_and(|first| !b"\nm".contains(first)) {
                return Err(AnswerFailure::Stranger);
            }
            self.read(&mut buffer, end)?;
        }
        // A worker answers `prompt` with an empty line, a master does not. Both terminate answers to commands with an empty line.
        let prompt = buffer.strip_prefix(b"\n").unwrap_or(&buffer);
        self.prefix = if prompt.starts_with(b"master") { "@1 " } else { "" };
        self.prompt = [b"\n", prompt].concat();
        Ok(())
    }

    /// Sends one command and receives its whole answer. Keeps at most `limit` bytes.
    pub(crate) fn request(&mut self, command: &str, limit: usize) -> Result<ApiAnswer, AnswerFailure> {
        debug_assert!(!command.contains(['\n', ';']), "one command at a time: {command}");
        self.write(&format!("{}{command}\n", self.prefix))?;
        let end = Instant::now() + self.deadline;
        let mut buffer = Vec::new();
        while !buffer.ends_with(&self.prompt) {
            if buffer.len() > limit {
                let whole =
                    buffer[..limit].iter().rposition(|&byte| byte == b'\n').map_or(limit, |at| at + 1);
                return Ok(ApiAnswer {
                    text: String::from_utf8_lossy(&buffer[..whole]).into_owned(),
                    cut: true,
                });
            }
            self.read(&mut buffer, end)?;
        }
        buffer.truncate(buffer.len() - self.prompt.len());
        Ok(ApiAnswer { text: String::from_utf8_lossy(&buffer).into_owned(), cut: false })
    }

    /// Whether the next command can be sent: the peer has neither closed the connection nor sent unsolicited bytes.
    pub(crate) fn is_ready(&mut self) -> bool {
        let mut byte = [0];
        let looked = self.stream.set_nonblocking(true).and_then(|()| self.stream.read(&mut byte));
        let restored = self.stream.set_nonblocking(false);
        matches!(looked, Err(error) if error.kind() == ErrorKind::WouldBlock) && restored.is_ok()
    }

    fn write(&mut self, text: &str) -> Result<(), AnswerFailure> {
        self.stream.set_timeout(self.deadline).map_err(AnswerFailure::Broken)?;
        self.stream.write_all(text.as_bytes()).map_err(|error| self.failure(error))
    }

    /// Receives more bytes into the buffer.
    fn read(&mut self, buffer: &mut Vec<u8>, end: Instant) -> Result<(), AnswerFailure> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(AnswerFailure::Late(self.deadline));
        }
        self.stream.set_timeout(left).map_err(AnswerFailure::Broken)?;
        let mut chunk = [0; 32 << 10];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(AnswerFailure::Closed),
            Ok(length) => {
                buffer.extend_from_slice(&chunk[..length]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(self.failure(error)),
        }
    }

    fn failure(&self, error: io::Error) -> AnswerFailure {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => AnswerFailure::Late(self.deadline),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => AnswerFailure::Closed,
            _ => AnswerFailure::Broken(error),
        }
    }
}

impl fmt::Display for AnswerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerFailure::Connect(error) => write!(f, "cannot connect: {error}"),
            AnswerFailure::Stranger => write!(f, "the peer is not a runtime API"),
            AnswerFailure::Late(deadline) => {
                write!(f, "no complete answer within {} s", deadline.as_secs_f32())
            }
            AnswerFailure::Closed => write!(f, "the connection was closed"),
            AnswerFailure::Broken(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

enum ApiSocket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl ApiSocket {
    fn connect(target: &ApiAddress, deadline: Duration) -> io::Result<ApiSocket> {
        let (host, port) = match target {
            ApiAddress::Unix(path) => return UnixStream::connect(path).map(ApiSocket::Unix),
            ApiAddress::Tcp(host, port) => (host, *port),
        };
        let mut last = io::Error::new(ErrorKind::NotFound, "the name does not resolve");
        for address in (host.as_str(), port).to_socket_addrs()?.take(MOST_ADDRESSES) {
            match TcpStream::connect_timeout(&address, deadline) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(ApiSocket::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            ApiSocket::Unix(stream) => {
                stream.set_read_timeout(Some(timeout)).and(stream.set_write_timeout(Some(timeout)))
            }
            ApiSocket::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout)).and(stream.set_write_timeout(Some(timeout)))
            }
        }
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            ApiSocket::Unix(stream) => stream.set_nonblocking(nonblocking),
            ApiSocket::Tcp(stream) => stream.set_nonblocking(nonblocking),
        }
    }
}

impl Read for ApiSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ApiSocket::Unix(stream) => stream.read(buffer),
            ApiSocket::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for ApiSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ApiSocket::Unix(stream) => stream.write(bytes),
            ApiSocket::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Longer than any known prompt: `"\n> "`, `"\nmaster> "`.
const LONGEST_PROMPT: usize = 64;
/// Maximum number of addresses to try for one host name, one after another.
const MOST_ADDRESSES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    const DEADLINE: Duration = Duration::from_millis(1500);

    /// A server that runs `script` on its only connection.
    fn with(script: impl FnOnce(TcpStream) + Send + 'static) -> ApiAddress {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        thread::spawn(move || script(listener.accept().expect("a connection").0));
        ApiAddress::Tcp("127.0.0.1".to_owned(), port)
    }

    /// Reads the first line, answers like a runtime API, and reads one more line.
    fn greet(stream: &mut TcpStream) {
        let mut lines = io::BufRead::lines(io::BufReader::new(stream.try_clone().expect("a copy")));
        assert_eq!(lines.next().expect("a line").expect("a line"), "prompt");
        stream.write_all(b"\n> ").expect("room");
        assert_eq!(lines.next().expect("a line").expect("a line"), "show stat");
    }

    /// Answers each received line with the next of these answers.
    fn answering(prompt: &'static str, answers: &'static [&'static str]) -> ApiAddress {
        with(move |mut stream| {
            let mut lines = io::BufRead::lines(io::BufReader::new(stream.try_clone().expect("a copy")));
            assert_eq!(lines.next().expect("a line").expect("a line"), "prompt");
            stream.write_all(prompt.as_bytes()).expect("room");
            for answer in answers {
                let command = lines.next().expect("a line").expect("a line");
                // Send in pieces, so that an answer needs more than one read.
                for piece in answer.replace("{}", &command).as_bytes().chunks(7) {
                    stream.write_all(piece).expect("room");
                }
            }
            let _ = lines.next();
        })
    }

    #[test]
    fn one_connection_serves_several_commands() {
        let target = answering("\n> ", &["one {}\n> > x\n\n> ", "\n> ", "äö\n\n> "]);
        let mut connection = ApiConnection::open(&target, DEADLINE).expect("a connection");
        let mut request = |command| connection.request(command, 1000).expect("an answer").text;
        assert_eq!(
            (request("a b"), request("c"), request("d")),
            ("one a b\n> > x\n".to_owned(), String::new(), "äö\n".to_owned())
        );
        assert!(connection.is_ready());
    }

    #[test]
    fn commands_to_a_master_get_the_prefix_of_its_worker() {
        for (prompt, answers) in [
            ("master> ", &["{}\n\nmaster> "]),
            ("\nmaster> ", &["{}\n\nmaster> "]),
            ("master[ReloadFailed]> ", &["{}\n\nmaster[ReloadFailed]> "]),
        ] {
            let mut connection =
                ApiConnection::open(&answering(prompt, answers), DEADLINE).expect("a connection");
            assert_eq!(connection.request("show info", 1000).expect("an answer").text, "@1 show info\n");
        }
    }

    #[test]
    fn an_endless_answer_is_cut_at_the_size_limit() {
        let target = with(|mut stream| {
            greet(&mut stream);
            while stream.write_all(b"0123456789\n").is_ok() {}
        });
        let mut connection = ApiConnection::open(&target, DEADLINE).expect("a connection");
        let answer = connection.request("show stat", 1000).expect("an answer");
        assert!(
            answer.cut && answer.text.len() == 990 && answer.text.ends_with("9\n"),
            "{}",
            answer.text.len()
        );
    }

    #[test]
    fn the_deadline_ends_an_answer_that_arrives_too_slowly() {
        let target = with(|mut stream| {
            greet(&mut stream);
            while stream.write_all(b".").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let deadline = Duration::from_millis(200);
        let mut connection = ApiConnection::open(&target, deadline).expect("a connection");
        assert!(
            matches!(connection.request("show stat", 1000), Err(AnswerFailure::Late(d)) if d == deadline)
        );
    }

    #[test]
    fn distinguishes_a_foreign_protocol_from_a_closed_connection() {
        let http = with(|mut stream| {
            let _ = stream.read(&mut [0; 100]);
            let _ = stream.write_all(b"HTTP/1.0 400 Bad request\r\n\r\n");
        });
        assert!(matches!(ApiConnection::open(&http, DEADLINE), Err(AnswerFailure::Stranger)));
        let closing = with(|mut stream| drop(stream.read(&mut [0; 100])));
        assert!(matches!(ApiConnection::open(&closing, DEADLINE), Err(AnswerFailure::Closed)));
        let nobody = ApiAddress::Unix("/nonexistent/socket".into());
        assert!(matches!(ApiConnection::open(&nobody, DEADLINE), Err(AnswerFailure::Connect(_))));
    }

    #[test]
    fn unsolicited_bytes_make_a_connection_unusable() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let target = with(move |mut stream| {
            stream.write_all(b"\n> ").expect("room");
            wait.recv().expect("a word");
            stream.write_all(b"surprise").expect("room");
            let _ = wait.recv();
        });
        let mut connection = ApiConnection::open(&target, DEADLINE).expect("a connection");
        assert!(connection.is_ready());
        go.send(()).expect("a listener");
        let end = Instant::now() + Duration::from_secs(10);
        while connection.is_ready() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!connection.is_ready());
    }
}
