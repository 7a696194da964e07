//! What a seed has clients ask for. A request's path tells the server what to do with it: `/number/how/length/delay`.

use weir_sched::simulate::network::SimulatedNetwork;

use crate::pattern::{Pattern, Way};
use crate::stage::Stage;

/// One request, and what is to become of it.
#[derive(Clone, Debug)]
pub struct Ask {
    pub id: u64,
    pub method: &'static str,
    pub upload: Upload,
    pub how: How,
    /// How long the body of the response is.
    pub download: usize,
    /// How long the server takes for its answer.
    pub delay_ms: u64,
    /// The body waits for a `100 Continue`.
    pub expects: bool,
}

/// How the body of a request is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upload {
    None,
    Length(usize),
    Chunked(usize),
}

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Answers with a length.
    Length,
    /// Answers in chunks.
    Chunked,
    /// Answers and closes; the end of the connection is the end of the response.
    Close,
    /// Answers with a length, and closes.
    Last,
    /// Answers before it read the request's body, which it reads all the same.
    Early,
    /// Answers before it read the request's body, and closes.
    Rash,
    /// Changes the protocol: from then on bytes go both ways.
    Upgrade,
    /// Never answers.
    Silent,
    /// Closes in the middle of its answer.
    Truncated,
    /// Resets the connection in the middle of its answer.
    Reset,
    /// Closes before it says anything.
    Mute,
    /// Answers what is no HTTP.
    Garbage,
    /// Is not there any more, and nobody says so.
    Vanish,
    /// Never hears of it: a rule answers, whose condition is this word in the path.
    Denied,
    Returned,
    Redirected,
    Tarpitted,
}

impl How {
    /// Whether the proxy answers itself.
    pub fn is_local(self) -> bool {
        matches!(self, How::Denied | How::Returned | How::Redirected | How::Tarpitted)
    }
}

/// What any client may ask for without being an exception.
pub const PLAIN: &[How] = &[How::Length, How::Length, How::Chunked, How::Close, How::Last];
/// What servers do wrong.
pub const WRONG: &[How] =
    &[How::Silent, How::Truncated, How::Reset, How::Mute, How::Garbage, How::Vanish, How::Rash];

/// One connection of a client.
#[derive(Clone, Debug)]
pub struct Visit {
    pub asks: Vec<Ask>,
    /// Sends everything at once.
    pub pipelined: bool,
    pub leave: Leave,
}

/// What clients of a scenario may do.
#[derive(Clone, Copy, Debug)]
pub struct Menu {
    pub hows: &'static [How],
    /// What they ask for besides where anything may go wrong.
    pub wrong: &'static [How],
    /// They may send requests before they have the answers to the former ones.
    pub pipelined: bool,
    /// They may say that they send no more while they wait for answers.
    pub half_closed: bool,
}

impl Menu {
    pub const PLAIN: Menu = Menu { hows: PLAIN, wrong: WRONG, pipelined: false, half_closed: false };
}

impl Visit {
    /// One that the seed draws; where nothing may go wrong, nobody misbehaves.
    pub fn drawn(stage: &Stage, menu: &Menu) -> Visit {
        let network = &stage.network;
        let pipelined = menu.pipelined && network.random(2) == 0;
        let ask = |_| {
            let hows = if stage.faulty && network.random(5) == 0 { menu.wrong } else { menu.hows };
            Ask::drawn(network, stage.next_id(), hows)
        };
        let mut asks: Vec<Ask> = (0..=network.random(4)).map(ask).collect();
        if pipelined {
            // Who sends everything at once waits for no confirmation.
            asks.iter_mut().for_each(|ask| ask.expects = false);
        }
        let somewhere = || network.random(volume(&asks) as u64) as usize;
        let leave = match network.random(8) {
            0 if stage.faulty => Leave::After(somewhere()),
            1 if stage.faulty => Leave::ResetAfter(somewhere()),
            2 if stage.faulty => Leave::VanishAfter(somewhere()),
            3..6 if menu.half_closed => Leave::HalfClosed,
            _ => Leave::Politely,
        };
        Visit { asks, pipelined, leave }
    }
}

/// About how much a visit moves.
fn volume(asks: &[Ask]) -> usize {
    let of_one = |ask: &Ask| {
        let up = match ask.upload {
            Upload::None => 0,
            Upload::Length(length) | Upload::Chunked(length) => length,
        };
        100 + up + ask.download
    };
    asks.iter().map(of_one).sum()
}

/// How a client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Closes once it has its answers.
    Politely,
    /// Says that it sends no more as soon as it has sent everything.
    HalfClosed,
    /// Closes once so many bytes went either way.
    After(usize),
    /// Resets the connection then.
    ResetAfter(usize),
    /// Stops to receive and to send, and says nothing.
    VanishAfter(usize),
}

impl Ask {
    /// One that the seed draws.
    pub fn drawn(network: &SimulatedNetwork, id: u64, hows: &[How]) -> Ask {
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
        Ask { id, method, upload, how, download: size(network), delay_ms, expects }
    }

    /// Its head.
    pub fn head(&self) -> Vec<u8> {
        let Ask { id, method, how, download, delay_ms, .. } = self;
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

    /// Its body, as it is framed.
    pub fn body(&self, network: &SimulatedNetwork) -> Vec<u8> {
        match self.upload {
            Upload::None => Vec::new(),
            Upload::Length(length) => Pattern::new(self.id, Way::Up).make(length),
            Upload::Chunked(length) => chunked(network, Pattern::new(self.id, Way::Up), length),
        }
    }

    /// What the server is asked to do, as a path says it.
    pub fn understood(path: &str) -> Option<(u64, String, usize, u64)> {
        let mut words = path.strip_prefix('/')?.split('/');
        let id = words.next()?.parse().ok()?;
        let how = words.next()?.to_owned();
        Some((id, how, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    }
}

/// A body in chunks of any size.
pub fn chunked(network: &SimulatedNetwork, mut pattern: Pattern, length: usize) -> Vec<u8> {
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

/// The size of a body: small ones as often as large ones.
pub fn size(network: &SimulatedNetwork) -> usize {
    let bits = if network.random(12) == 0 { 17 } else { network.random(13) };
    network.random(1 << bits) as usize
}
