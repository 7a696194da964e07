//! The start of a session: three lines from the connecting side, one status line from the other side.

/// The message of the connecting side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The minor number of its version 2.
    pub minor: u32,
    /// The name of the peer to reach.
    pub remote: String,
    pub local: String,
    /// The number of its process.
    pub process: u32,
}

/// The status line of the accepting side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloStatus {
    /// 200: messages may follow.
    Succeeded,
    /// 300: try again later.
    TryAgain,
    /// 501: not a valid hello.
    ProtocolError,
    /// 502: the version is not supported.
    BadVersion,
    /// 503: the name is not ours.
    NotMe,
    /// 504: the connecting peer is not known.
    UnknownPeer,
}

/// The longest hello in bytes.
pub const MAX_LENGTH: usize = 1024;
/// The longest name in bytes.
const MAX_NAME: usize = 255;
const PROTOCOL: &str = "HAProxyS";
/// The version that is spoken here is 2.1.
const MAJOR: u32 = 2;
const MINOR: u32 = 1;

impl Hello {
    /// The text to send.
    pub fn to_text(&self) -> String {
        // The relative process number is always 1, because an instance has one process.
        format!("{PROTOCOL} {MAJOR}.{MINOR}\n{}\n{} {} 1\n", self.remote, self.local, self.process)
    }

    /// Reads a hello; returns it with its length in bytes. `None` if it is not complete.
    ///
    /// # Errors
    /// The status to answer with.
    pub fn read(bytes: &[u8]) -> Result<Option<(Hello, usize)>, HelloStatus> {
        let mut rest = bytes;
        let Some(first) = line(&mut rest)? else { return Ok(None) };
        let minor = version(first)?;
        let Some(remote) = line(&mut rest)? else { return Ok(None) };
        let Some(sender) = line(&mut rest)? else { return Ok(None) };
        let mut words = sender.split(' ');
        let local = words.next().unwrap_or_default();
        let process = words.next().and_then(|word| word.parse().ok());
        let process = process.ok_or(HelloStatus::ProtocolError)?;
        if local.is_empty() || local.len() > MAX_NAME || remote.is_empty() || remote.len() > MAX_NAME {
            return Err(HelloStatus::ProtocolError);
        }
        let hello = Hello { minor, remote: remote.into(), local: local.into(), process };
        Ok(Some((hello, bytes.len() - rest.len())))
    }
}

/// The minor number of the version in the first line.
fn version(first: &str) -> Result<u32, HelloStatus> {
    let (protocol, version) = first.split_once(' ').ok_or(HelloStatus::ProtocolError)?;
    if protocol != PROTOCOL {
        return Err(HelloStatus::ProtocolError);
    }
    let (major, minor) = version.split_once('.').ok_or(HelloStatus::BadVersion)?;
    let numbers = (major.parse(), minor.parse::<u32>());
    match numbers {
        (Ok(MAJOR), Ok(minor)) if minor <= MINOR => Ok(minor),
        _ => Err(HelloStatus::BadVersion),
    }
}

/// The next line without its end. `None` if it is not complete.
fn line<'b>(rest: &mut &'b [u8]) -> Result<Option<&'b str>, HelloStatus> {
    match rest.iter().position(|byte| *byte == b'\n') {
        None if rest.len() > MAX_LENGTH => Err(HelloStatus::ProtocolError),
        None => Ok(None),
        Some(end) => {
            let line = std::str::from_utf8(&rest[..end]).map_err(|_| HelloStatus::ProtocolError)?;
            *rest = &rest[end + 1..];
            Ok(Some(line.strip_suffix('\r').unwrap_or(line)))
        }
    }
}

impl HelloStatus {
    /// The number on the wire.
    pub const fn code(self) -> u16 {
        match self {
            HelloStatus::Succeeded => 200,
            HelloStatus::TryAgain => 300,
            HelloStatus::ProtocolError => 501,
            HelloStatus::BadVersion => 502,
            HelloStatus::NotMe => 503,
            HelloStatus::UnknownPeer => 504,
        }
    }

    /// Reads a status line; returns it with its length in bytes. `None` if it is not complete; an unknown number is a
    /// protocol error.
    pub fn read(bytes: &[u8]) -> Option<(HelloStatus, usize)> {
        let Some(end) = bytes.iter().take(STATUS_LENGTH).position(|byte| *byte == b'\n') else {
            return (bytes.len() >= STATUS_LENGTH).then_some((HelloStatus::ProtocolError, bytes.len()));
        };
        let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        let status = match line {
            b"200" => HelloStatus::Succeeded,
            b"300" => HelloStatus::TryAgain,
            b"502" => HelloStatus::BadVersion,
            b"503" => HelloStatus::NotMe,
            b"504" => HelloStatus::UnknownPeer,
            _ => HelloStatus::ProtocolError,
        };
        Some((status, end + 1))
    }
}

/// The longest status line in bytes.
const STATUS_LENGTH: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello { minor: 1, remote: "B".into(), local: "A".into(), process: 3892 }
    }

    #[test]
    fn the_peers_hello_is_written_like_haproxys() {
        assert_eq!(hello().to_text(), "HAProxyS 2.1\nB\nA 3892 1\n");
    }

    #[test]
    fn parses_a_peers_hello_once_it_is_complete() {
        let text = hello().to_text();
        for cut in 0..text.len() {
            assert_eq!(Hello::read(&text.as_bytes()[..cut]), Ok(None), "{cut}");
        }
        let longer = format!("{text}\0\0");
        assert_eq!(Hello::read(longer.as_bytes()), Ok(Some((hello(), text.len()))));
    }

    #[test]
    fn an_invalid_peers_hello_gets_its_status() {
        let answer = |text: &str| Hello::read(text.as_bytes()).err();
        assert_eq!(answer("GET / HTTP/1.1\r\n"), Some(HelloStatus::ProtocolError));
        assert_eq!(answer("HAProxyS 3.0\nB\nA 1 1\n"), Some(HelloStatus::BadVersion));
        assert_eq!(answer("HAProxyS 2.2\nB\nA 1 1\n"), Some(HelloStatus::BadVersion));
        assert_eq!(answer("HAProxyS 2.0\nB\nA 1 1\n"), None);
        assert_eq!(answer("HAProxyS 2.1\nB\nA\n"), Some(HelloStatus::ProtocolError));
        assert_eq!(answer("HAProxyS 2.1\n\nA 1 1\n"), Some(HelloStatus::ProtocolError));
        assert_eq!(answer(&"x".repeat(MAX_LENGTH + 1)), Some(HelloStatus::ProtocolError));
    }

    #[test]
    fn a_hello_status_is_one_line() {
        use HelloStatus::*;
        for status in [Succeeded, TryAgain, ProtocolError, BadVersion, NotMe, UnknownPeer] {
            let text = format!("{}\n", status.code());
            assert_eq!(HelloStatus::read(text.as_bytes()), Some((status, 4)));
        }
        assert_eq!(HelloStatus::read(b"20"), None);
        assert_eq!(HelloStatus::read(b"nothing at all"), Some((ProtocolError, 14)));
    }
}
