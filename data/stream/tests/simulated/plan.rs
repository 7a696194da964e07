//! The requests that a seed generates for clients. A request's path selects the server's behaviour:
//! `/number/how/length/delay`.

use weir_sched::simulate::network::SimulatedNetwork;

use crate::pattern::{Pattern, Way};
use crate::stage::Stage;

/// One request, and its intended handling.
#[derive(Clone, Debug)]
pub(crate) struct PlannedRequest {
    pub id: u64,
    pub method: &'static str,
    pub upload: Upload,
    pub how: How,
    /// The length of the response's body.
    pub download: usize,
    /// The server's delay before its response.
    pub delay_ms: u64,
    /// The client sends the body only after a `100 Continue`.
    pub expects: bool,
}

/// The framing of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upload {
    None,
    Length(usize),
    Chunked(usize),
}

/// The behaviour of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Answers with a length.
    Length,
    Chunked,
    /// Answers without a length and closes. EOF delimits the response.
    Close,
    /// Answers with a length and `connection: close`.
    Last,
    /// Answers before it reads the request's body, and reads the body afterwards.
    Early,
    /// Answers before it reads the request's body, and closes.
    Rash,
    /// Switches protocols (101). From then on, bytes pass in both directions.
    Upgrade,
    Silent,
    /// Closes in the middle of its answer.
    Truncated,
    /// Resets the connection in the middle of its answer.
    Reset,
    /// Closes without sending anything.
    Mute,
    /// Answers with bytes that are not HTTP.
    Garbage,
    /// Disappears without closing the connection.
    Vanish,
    /// Never receives the request. A rule answers it, selected by this word in the path.
    Denied,
    Returned,
    Redirected,
    Tarpitted,
    /// A local service answers in pieces of a datagram's size.
    Datagrams,
}

impl How {
    /// Whether the proxy answers by itself.
    pub(crate) fn is_local(self) -> bool {
        matches!(self, How::Denied | How::Returned | How::Redirected | How::Tarpitted | How::Datagrams)
    }
}

/// Behaviours that are not faults.
pub(crate) const PLAIN: &[How] = &[How::Length, How::Length, How::Chunked, How::Close, How::Last];
/// Faults of servers.
pub(crate) const WRONG: &[How] =
    &[How::Silent, How::Truncated, How::Reset, How::Mute, How::Garbage, How::Vanish, How::Rash];

/// One connection of a client.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub requests: Vec<PlannedRequest>,
    /// Sends all requests at once.
    pub pipelined: bool,
    pub leave: Leave,
    /// After how long the client leaves, in virtual milliseconds.
    pub patience_ms: Option<u64>,
}

/// The behaviour of clients in a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Menu {
    pub hows: &'static [How],
    /// Additional behaviours in runs with faults.
    pub wrong: &'static [How],
    /// Whether clients may send requests before the previous responses.
    pub pipelined: bool,
    /// Whether clients may half-close while they wait for responses.
    pub half_closed: bool,
    /// Whether every other body is larger than any buffer.
    pub large: bool,
    /// Whether bodies of requests arrive in pieces of a datagram's size. Only HTTP/2 clients send this
    /// way.
    pub datagrams: bool,
    /// Whether bodies of requests that are larger than a buffer have a length. Applications need it.
    pub announced: bool,
    /// Whether clients may leave at any time in runs with faults, also while nothing moves.
    pub hasty: bool,
}

impl Menu {
    pub(crate) const PLAIN: Menu = Menu {
        hows: PLAIN,
        wrong: WRONG,
        pipelined: false,
        half_closed: false,
        large: false,
        datagrams: false,
        announced: false,
        hasty: false,
    };
}

impl Visit {
    /// A visit drawn by the seed. In faultless runs, all clients behave.
    pub(crate) fn drawn(stage: &Stage, menu: &Menu) -> Visit {
        let network = &stage.network;
        let pipelined = menu.pipelined && network.random(2) == 0;
        let request = |_| {
            let hows = if stage.faulty && network.random(5) == 0 { menu.wrong } else { menu.hows };
            PlannedRequest::drawn(network, stage.next_id(), hows)
        };
        let mut requests: Vec<PlannedRequest> = (0..=network.random(4)).map(request).collect();
        if menu.large {
            requests.iter_mut().for_each(|request| request.enlarge(network));
        }
        if menu.announced {
            requests.iter_mut().for_each(PlannedRequest::announce);
        }
        if pipelined {
            // A client that sends everything at once does not wait for `100 Continue`.
            requests.iter_mut().for_each(|request| request.expects = false);
        }
        let somewhere = || network.random(volume(&requests) as u64) as usize;
        let leave = match network.random(8) {
            0 if stage.faulty => Leave::After(somewhere()),
            1 if stage.faulty => Leave::ResetAfter(somewhere()),
            2 if stage.faulty => Leave::VanishAfter(somewhere()),
            3..6 if menu.half_closed => Leave::HalfClosed,
            _ => Leave::Politely,
        };
        // The end of the time is another way to reach the bytes.
        let patience_ms = (menu.hasty && stage.faulty && network.random(2) == 0).then(|| network.random(600));
        Visit { requests, pipelined, leave, patience_ms }
    }
}

/// Approximate bytes that a visit transfers.
fn volume(requests: &[PlannedRequest]) -> usize {
    let of_one = |request: &PlannedRequest| {
        let up = match request.upload {
            Upload::None => 0,
            Upload::Length(length) | Upload::Chunked(length) => length,
        };
        100 + up + request.download
    };
    requests.iter().map(of_one).sum()
}

/// How a client ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Closes after all responses.
    Politely,
    /// Half-closes after sending everything.
    HalfClosed,
    /// Closes after this many bytes in both directions.
    After(usize),
    /// Resets the connection after this many bytes.
    ResetAfter(usize),
    /// Stops receiving and sending after this many bytes, without closing.
    VanishAfter(usize),
}

impl PlannedRequest {
    /// A request drawn by the seed.
    pub(crate) fn drawn(network: &SimulatedNetwork, id: u64, hows: &[How]) -> PlannedRequest {
        let how = hows[network.random(hows.len() as u64) as usize];
        let upload = match network.random(4) {
            0 => Upload::Length(size(network)),
            1 => Upload::Chunked(size(network)),
            _ => Upload::None,
        };
        let method = match upload {
            Upload::None if how != How::Upgrade && network.random(8) == 0 => "HEAD",
            Upload::None => "GET",
            _ => "POST",
        };
        let upload = if how == How::Upgrade { Upload::None } else { upload };
        let method = if how == How::Upgrade { "GET" } else { method };
        let delay_ms = if network.random(4) == 0 { network.random(300) } else { 0 };
        let expects = upload != Upload::None && network.random(6) == 0;
        PlannedRequest { id, method, upload, how, download: size(network), delay_ms, expects }
    }

    fn enlarge(&mut self, network: &SimulatedNetwork) {
        let larger = || 40_000 + network.random(200_000) as usize;
        if network.random(2) == 0 {
            self.download = larger();
        }
        if let Upload::Length(length) | Upload::Chunked(length) = &mut self.upload
            && network.random(2) == 0
        {
            *length = larger();
        }
    }

    fn announce(&mut self) {
        if let Upload::Chunked(length) = self.upload
            && length > FITS_A_BUFFER
        {
            self.upload = Upload::Length(length);
        }
    }

    pub(crate) fn head(&self) -> Vec<u8> {
        let PlannedRequest { id, method, how, download, delay_ms, .. } = self;
        let mut head =
            format!("{method} /{id}/{how:?}/{download}/{delay_ms} HTTP/1.1\r\nhost: a\r\nx-id: {id}\r\n");
        match self.upload {
            Upload::None => {}
            Upload::Length(length) => head.push_str(&format!("content-length: {length}\r\n")),
            Upload::Chunked(_) => head.push_str("transfer-encoding: chunked\r\n"),
        }
        if self.expects {
            head.push_str("expect: 100-continue\r\n");
        }
        if self.how == How::Upgrade {
            head.push_str("connection: upgrade\r\nupgrade: pattern\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Its framed body.
    pub(crate) fn body(&self, network: &SimulatedNetwork) -> Vec<u8> {
        match self.upload {
            Upload::None => Vec::new(),
            Upload::Length(length) => Pattern::new(self.id, Way::Up).make(length),
            Upload::Chunked(length) => chunked(network, Pattern::new(self.id, Way::Up), length),
        }
    }

    /// Parses a path.
    pub(crate) fn understood(path: &str) -> Option<(u64, String, usize, u64)> {
        let mut words = path.strip_prefix('/')?.split('/');
        let id = words.next()?.parse().ok()?;
        let how = words.next()?.to_owned();
        Some((id, how, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    }
}

/// A body in chunks of any size.
pub(crate) fn chunked(network: &SimulatedNetwork, mut pattern: Pattern, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut left = length;
    while left > 0 {
        let size = (1 + network.random(1 << network.random(14)) as usize).min(left);
        bytes.extend(format!("{size:x}\r\n").bytes());
        bytes.extend(pattern.make(size));
        bytes.extend(b"\r\n");
        left -= size;
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

/// A body of this length fits a buffer in any chunks, with its head.
const FITS_A_BUFFER: usize = 2_000;

/// The size of a body. Small ones are as frequent as large ones.
pub(crate) fn size(network: &SimulatedNetwork) -> usize {
    let bits = if network.random(12) == 0 { 17 } else { network.random(13) };
    network.random(1 << bits) as usize
}
