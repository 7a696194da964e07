//! The channels of a connection in TCP mode, as scripts see and change them.
//!
//! ```text
//!                 incoming                    outgoing
//!   request       the client's input          `to_server`, until there is a server
//!   response      `early`, until there is a   `to_client`, sent at the client's pace
//!                 server; then its input
//! ```
//! The incoming bytes are in the inputs of the connections, so that rules and the relay see the changes. The relay takes all other bytes over
//! ([`settle`]). In HTTP, scripts only see how much there is.

use std::ops::Range;

use weir_http::Head;
use weir_mux::FlowState;
use weir_net::{Connection, ReceiveOutcome, SendOutcome};
use weir_sched::Tick;
use weir_scripts::{
    ChannelCall, ChannelState, FilteredPayload, ScriptChannels, ScriptRun, ScriptSide, ScriptTarget,
};

use super::target::YIELD;
use crate::clock;
use crate::counters::CountedEvent;
use crate::deadlines::Waits;
use crate::drive::waits_until;
use crate::ending::{By, During};
use crate::stream::channel_bytes::ChannelBytes;
use crate::stream::{PhaseResult, Stream, StreamError};

/// The incoming bytes of a channel, to change.
enum IncomingBytes<'s> {
    Input(&'s mut Connection),
    Early(&'s mut Vec<u8>),
}

impl IncomingBytes<'_> {
    /// `None` if the bytes are already on their way to the other peer.
    fn of(stream: &mut Stream, side: ScriptSide) -> Option<IncomingBytes<'_>> {
        let is_relayed = stream.response.body.payload() > 0;
        let has_server = stream.server.upstream.is_some();
        match side {
            ScriptSide::Request if has_server || stream.rules.see_response() => None,
            ScriptSide::Request => stream.client.connection_mut().map(IncomingBytes::Input),
            ScriptSide::Response if is_relayed => None,
            ScriptSide::Response if has_server => {
                let upstream = stream.server.upstream.as_mut()?;
                upstream.connector.connection_mut().map(IncomingBytes::Input)
            }
            ScriptSide::Response => Some(IncomingBytes::Early(&mut ChannelBytes::of_mut(stream).early)),
        }
    }

    fn replace(self, range: Range<usize>, bytes: &[u8]) {
        match self {
            IncomingBytes::Input(connection) => connection.replace_input(range, bytes),
            IncomingBytes::Early(early) => drop(early.splice(range, bytes.iter().copied())),
        }
    }
}

impl ScriptChannels for Stream {
    fn channel(&mut self, side: ScriptSide) -> ChannelState {
        if let Some(payload) = filtered(self, side) {
            return payload.state();
        }
        let may_receive = may_receive(self, side);
        if self.speaks_http() {
            let input = http_input(self, side);
            return ChannelState { input, may_receive, is_final: true, ..ChannelState::default() };
        }
        let input = self.incoming(side).map_or(0, <[u8]>::len);
        let output = ChannelBytes::of(self).map_or(0, |bytes| bytes.outgoing(side).len());
        let limits = &self.frontend.instance().limits;
        ChannelState {
            input,
            output,
            is_full: input >= limits.buffer_size,
            may_receive,
            is_final: !may_receive
                || input + output >= limits.head_limit()
                || self.rules.see_response() != (side == ScriptSide::Response)
                || clock::passed(inspects_until(self)),
        }
    }

    fn incoming(&self, side: ScriptSide) -> Option<&[u8]> {
        let turn = self.attached.as_ref().and_then(|attached| attached.turn.as_deref());
        if let Some(payload) = turn.filter(|turn| turn.side == side).and_then(|turn| turn.payload.as_ref()) {
            return Some(payload.incoming());
        }
        if self.speaks_http() {
            return None;
        }
        let has_server = self.server.upstream.is_some();
        Some(match side {
            ScriptSide::Request if has_server || self.rules.see_response() => &[],
            ScriptSide::Request => self.client.input(),
            ScriptSide::Response if has_server => self.server.input(),
            ScriptSide::Response => ChannelBytes::of(self).map_or(&[], |bytes| &bytes.early),
        })
    }

    fn replace_incoming(&mut self, side: ScriptSide, range: Range<usize>, bytes: &[u8]) -> bool {
        if let Some(payload) = filtered(self, side) {
            return payload.replace(range, bytes);
        }
        if bytes.len() > range.len() && !has_room(self, side, bytes.len() - range.len()) {
            return false;
        }
        let Some(incoming) = IncomingBytes::of(self, side) else { return false };
        incoming.replace(range, bytes);
        true
    }

    fn add_outgoing(&mut self, side: ScriptSide, bytes: &[u8]) -> bool {
        if let Some(payload) = filtered(self, side) {
            return payload.send(bytes);
        }
        if !has_room(self, side, bytes.len()) || IncomingBytes::of(self, side).is_none() {
            return false;
        }
        let held = ChannelBytes::of_mut(self);
        match side {
            ScriptSide::Request => held.to_server.extend_from_slice(bytes),
            ScriptSide::Response => {
                held.to_client.extend_from_slice(bytes);
                send_outgoing(self);
            }
        }
        true
    }

    fn forward(&mut self, side: ScriptSide, count: usize) {
        if let Some(payload) = filtered(self, side) {
            return payload.forward(count);
        }
        let Some(bytes) = self.incoming(side).map(|input| input[..count].to_vec()) else { return };
        let Some(incoming) = IncomingBytes::of(self, side) else { return };
        match incoming {
            IncomingBytes::Input(connection) => connection.consume(count),
            IncomingBytes::Early(early) => drop(early.drain(..count)),
        }
        let held = ChannelBytes::of_mut(self);
        match side {
            ScriptSide::Request => held.to_server.extend_from_slice(&bytes),
            ScriptSide::Response => {
                held.to_client.extend_from_slice(&bytes);
                send_outgoing(self);
            }
        }
    }
}

/// The payload of a channel, in the call of a filter about it.
fn filtered(stream: &mut Stream, side: ScriptSide) -> Option<&mut FilteredPayload> {
    stream.filter_turn()?.payload_of(side)
}

/// Notes the inspection delay of a ruleset, for streams of processes with scripts.
pub(crate) fn begin_inspection(stream: &mut Stream, until: Tick) {
    let has_scripts = stream.frontend.instance().hooks.scripts.is_some() && !stream.speaks_http();
    if has_scripts && !clock::passed(until) || ChannelBytes::of(stream).is_some() {
        ChannelBytes::of_mut(stream).inspects_until = until;
    }
}

fn inspects_until(stream: &Stream) -> Tick {
    ChannelBytes::of(stream).map_or(Tick::from_ms(0), |bytes| bytes.inspects_until)
}

/// Whether the buffer has room for so many further bytes.
fn has_room(stream: &mut Stream, side: ScriptSide, count: usize) -> bool {
    let state = stream.channel(side);
    state.input + state.output + count <= stream.frontend.instance().limits.buffer_size
}

fn may_receive(stream: &Stream, side: ScriptSide) -> bool {
    let connector = match side {
        ScriptSide::Request => Some(&stream.client),
        ScriptSide::Response => stream.server.upstream.as_ref().map(|upstream| &upstream.connector),
    };
    connector.is_none_or(|connector| !connector.ended() && connector.fault().is_none())
}

/// The size of a message of HTTP in the buffer of HAProxy: the head, and the received part of the body.
fn http_input(stream: &mut Stream, side: ScriptSide) -> usize {
    let (message, body) = match side {
        ScriptSide::Request if stream.server.upstream.is_some() || stream.rules.see_response() => return 0,
        ScriptSide::Request if !stream.request.is_known() => return stream.client.input().len(),
        ScriptSide::Request => {
            let request = &stream.request;
            let behind = stream.client.input().len().saturating_sub(request.message.unconsumed());
            (&request.message, if request.body.is_complete() { request.body.ready() } else { behind })
        }
        ScriptSide::Response if stream.response.message.head.status() == 0 => return 0,
        ScriptSide::Response => {
            let message = &stream.response.message;
            (message, stream.server.input().len().saturating_sub(message.unconsumed()))
        }
    };
    head_size(&message.head, message.bytes()) + body
}

/// The size of a head without separators, in the buffer of HAProxy.
fn head_size(head: &Head, raw: &[u8]) -> usize {
    const VERSION: usize = b"HTTP/1.1".len();
    let line = match head.status() {
        0 => head.method_text(raw).len() + head.uri(raw).len() + VERSION,
        _ => VERSION + STATUS + head.reason(raw).len(),
    };
    // `Connection` belongs to the connection, not to the message.
    let fields = head.fields(raw).filter(|(name, _)| !name.eq_ignore_ascii_case(b"connection"));
    START_LINE + line + fields.map(|(name, value)| name.len() + value.len()).sum::<usize>() + END_OF_HEAD
}

/// Sends outgoing bytes to the client, as many as it takes now. False if the connection is broken.
fn send_outgoing(stream: &mut Stream) -> bool {
    let has_bytes = ChannelBytes::of(stream).is_some_and(|bytes| !bytes.to_client.is_empty());
    if !has_bytes {
        return true;
    }
    let Some(connection) = stream.client.connection_mut() else { return false };
    let Some(bytes) = ChannelBytes::held(&mut stream.attached) else { return true };
    match connection.send(&bytes.to_client, false) {
        SendOutcome::All => bytes.to_client = Vec::new(),
        SendOutcome::Part(count) => drop(bytes.to_client.drain(..count)),
        SendOutcome::Failed(_) => return false,
    }
    true
}

/// Gives the bytes of the channels to the connections: they follow the bytes sent so far, and precede the incoming ones. Those of the
/// response wait for a server.
#[cold]
pub(crate) fn settle(stream: &mut Stream) {
    let Some(bytes) = ChannelBytes::held(&mut stream.attached) else { return };
    if let Some(client) = stream.client.connection_mut() {
        put_in_front(client, &mut bytes.to_server);
    }
    let server = stream.server.upstream.as_mut().and_then(|upstream| upstream.connector.connection_mut());
    if let Some(server) = server {
        put_in_front(server, &mut bytes.early);
        put_in_front(server, &mut bytes.to_client);
    }
}

fn put_in_front(connection: &mut Connection, bytes: &mut Vec<u8>) {
    if !bytes.is_empty() {
        connection.replace_input(0..0, &std::mem::take(bytes));
    }
}

/// Like [`settle`], for a service in place of a server. Returns the bytes in front of its own ones.
pub(super) fn settle_for_service(stream: &mut Stream) -> Vec<u8> {
    settle(stream);
    let Some(bytes) = ChannelBytes::held(&mut stream.attached) else { return Vec::new() };
    [std::mem::take(&mut bytes.to_client), std::mem::take(&mut bytes.early)].concat()
}

/// Moves the bytes that do not depend on the script while it waits: outgoing ones, and those for a server that is responding.
pub(super) fn relay_meanwhile(stream: &mut Stream, waits: Waits, during: During) -> PhaseResult<Waits> {
    if stream.speaks_http() {
        return Ok(waits);
    }
    if !send_outgoing(stream) {
        return Err(client_left(stream, during));
    }
    let sends = ChannelBytes::of(stream).is_some_and(|bytes| !bytes.to_client.is_empty());
    let up = match stream.rules.see_response() {
        true => stream.relay_phase().relay_upwards()?,
        false => FlowState::Done,
    };
    Ok(Waits {
        client_takes: waits.client_takes || sends,
        server_takes: up == FlowState::AwaitSink,
        withheld: waits.withheld || up == FlowState::Withheld,
        yields: waits.yields || up == FlowState::Yield,
        ..waits
    })
}

fn client_left(stream: &mut Stream, during: During) -> StreamError {
    stream.counts().count(CountedEvent::ClientAbort);
    StreamError::close(By::Client, during)
}

/// A call of a script that waits for a channel.
pub(super) struct ChannelWait {
    side: ScriptSide,
    call: ChannelCall,
    /// How many bytes were sent or forwarded so far.
    done: usize,
}

impl ChannelWait {
    pub(super) fn new(side: ScriptSide, call: ChannelCall) -> Self {
        ChannelWait { side, call, done: 0 }
    }

    /// Goes on with the call. `None` once the script got its result.
    pub(super) fn advance(
        &mut self,
        stream: &mut Stream,
        run: &mut ScriptRun,
        during: During,
    ) -> PhaseResult<Option<Waits>> {
        for _ in 0..ROUNDS {
            let waits = match &self.call {
                ChannelCall::Send(_) => self.send(stream, during)?,
                ChannelCall::Forward(count) => self.forward(stream, *count),
                ChannelCall::Read(read) => {
                    let state = stream.channel(self.side);
                    let input = stream.incoming(self.side).unwrap_or_default();
                    if read.find(input, state.is_final).is_some() {
                        let bytes = read.finish(stream, self.side);
                        run.give(bytes);
                        return Ok(None);
                    }
                    CallProgress::Receives
                }
            };
            match waits {
                CallProgress::Ended => {
                    run.sent(self.done);
                    return Ok(None);
                }
                CallProgress::Sends => return Ok(Some(Waits { client_takes: true, ..Waits::default() })),
                CallProgress::More => {}
                CallProgress::Receives => {
                    if !receive(stream, self.side, during)? {
                        return waits_until(stream, inspects_until(stream), during).map(Some);
                    }
                }
            }
        }
        Ok(Some(YIELD))
    }

    /// Sends to the client, behind the outgoing bytes.
    fn send(&mut self, stream: &mut Stream, during: During) -> PhaseResult<CallProgress> {
        let ChannelCall::Send(bytes) = &self.call else { return Ok(CallProgress::Ended) };
        if !send_outgoing(stream) {
            return Err(client_left(stream, during));
        }
        if stream.channel(self.side).output > 0 {
            return Ok(CallProgress::Sends);
        }
        let rest = &bytes[self.done..];
        let piece = &rest[..rest.len().min(PIECE)];
        let sent = match stream.client.connection_mut() {
            Some(client) if piece.is_empty() => client.flush(false),
            Some(client) => client.send(piece, piece.len() < rest.len()),
            None => return Err(StreamError::close(By::Internal, during)),
        };
        match sent {
            SendOutcome::All if piece.is_empty() => Ok(CallProgress::Ended),
            SendOutcome::All => {
                self.done += piece.len();
                Ok(CallProgress::More)
            }
            SendOutcome::Part(count) => {
                self.done += count.min(piece.len());
                Ok(CallProgress::Sends)
            }
            SendOutcome::Failed(_) => Err(client_left(stream, during)),
        }
    }

    /// Forwards received bytes. The client takes them before more are received.
    fn forward(&mut self, stream: &mut Stream, count: usize) -> CallProgress {
        let received = stream.incoming(self.side).map_or(0, <[u8]>::len);
        let piece = received.min(count - self.done);
        if piece > 0 {
            stream.forward(self.side, piece);
            self.done += piece;
        }
        let state = stream.channel(self.side);
        match self.side {
            _ if self.done == count => CallProgress::Ended,
            ScriptSide::Response if state.output > 0 => CallProgress::Sends,
            _ if state.is_final => CallProgress::Ended,
            _ => CallProgress::Receives,
        }
    }
}

/// The state of a call that waits.
enum CallProgress {
    Ended,
    /// Goes on at once.
    More,
    /// Goes on once more bytes have arrived.
    Receives,
    /// Goes on once the client takes more bytes.
    Sends,
}

/// Receives incoming bytes. False if nothing is available now.
fn receive(stream: &mut Stream, side: ScriptSide, during: During) -> PhaseResult<bool> {
    let output = stream.channel(side).output;
    let limit = stream.frontend.instance().limits.head_limit().saturating_sub(output);
    let received = match (side, &mut stream.server.upstream) {
        (ScriptSide::Request, _) => stream.client.receive(limit),
        (ScriptSide::Response, Some(upstream)) => upstream.connector.receive(limit),
        (ScriptSide::Response, None) => ReceiveOutcome::Nothing,
    };
    match received {
        ReceiveOutcome::Bytes(_) | ReceiveOutcome::End | ReceiveOutcome::Full => Ok(true),
        ReceiveOutcome::Nothing => Ok(false),
        ReceiveOutcome::Failed(_) if side == ScriptSide::Response => {
            Err(StreamError::close(By::Server, during))
        }
        ReceiveOutcome::Failed(_) => {
            stream.counts().count_bad_request();
            Err(StreamError::close(By::Client, during))
        }
    }
}

/// The numbers of a start line in the buffer of HAProxy, in bytes.
const START_LINE: usize = 20;
/// The length of a status.
const STATUS: usize = 3;
/// The mark behind the head in the buffer of HAProxy, in bytes.
const END_OF_HEAD: usize = 1;
/// The most bytes that a client gets at once.
const PIECE: usize = 64 * 1024;
/// How often a call goes on before other tasks run.
const ROUNDS: u32 = 16;
