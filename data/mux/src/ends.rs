//! The two ends of a flow: the source and the sink of a body.

use weir_net::{Connection, ReceiveOutcome, SendOutcome};

use crate::application::ApplicationStream;
use crate::connector::{Indirect, StreamConnector};
use crate::multiplexer::SharedStream;
use crate::way::{BodyWay, Tail};

/// The source of a body: a connection of its own, or a stream of a shared one.
pub(crate) trait BodySource {
    fn input(&self) -> &[u8];
    fn consume(&mut self, count: usize);
    fn shorten_input<R>(&mut self, from: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R;
    fn receive_bulk(&mut self) -> ReceiveOutcome;
    fn receive_piece(&mut self) -> ReceiveOutcome;
    fn peer_closed(&self) -> bool;
    /// The size of the trailers at the end of the input, if the engine below knows them.
    fn trailers(&self) -> usize;
    /// Whether the input holds the last byte of the message, if the engine below knows that.
    fn at_end(&self) -> bool;
}

impl BodySource for Connection {
    #[inline]
    fn input(&self) -> &[u8] {
        Connection::input(self)
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        Connection::consume(self, count);
    }

    #[inline]
    fn shorten_input<R>(&mut self, from: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R {
        Connection::shorten_input(self, from, edit)
    }

    #[inline]
    fn receive_bulk(&mut self) -> ReceiveOutcome {
        Connection::receive_bulk(self)
    }

    #[inline]
    fn receive_piece(&mut self) -> ReceiveOutcome {
        Connection::receive_piece(self)
    }

    #[inline]
    fn peer_closed(&self) -> bool {
        Connection::peer_closed(self)
    }

    #[inline]
    fn trailers(&self) -> usize {
        0
    }

    #[inline]
    fn at_end(&self) -> bool {
        false
    }
}

impl BodySource for SharedStream {
    fn input(&self) -> &[u8] {
        SharedStream::input(self)
    }

    fn consume(&mut self, count: usize) {
        SharedStream::consume(self, count);
    }

    /// The engine removed all framing.
    fn shorten_input<R>(&mut self, _: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R {
        edit(&mut []).0
    }

    fn receive_bulk(&mut self) -> ReceiveOutcome {
        self.receive(usize::MAX)
    }

    fn receive_piece(&mut self) -> ReceiveOutcome {
        self.receive(usize::MAX)
    }

    /// A stream of a shared connection never ends with a FIN.
    fn peer_closed(&self) -> bool {
        false
    }

    fn trailers(&self) -> usize {
        SharedStream::trailers(self)
    }

    fn at_end(&self) -> bool {
        SharedStream::ended(self)
    }
}

impl BodySource for ApplicationStream {
    fn input(&self) -> &[u8] {
        ApplicationStream::input(self)
    }

    fn consume(&mut self, count: usize) {
        ApplicationStream::consume(self, count);
    }

    fn shorten_input<R>(&mut self, from: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R {
        ApplicationStream::shorten_input(self, from, edit)
    }

    fn receive_bulk(&mut self) -> ReceiveOutcome {
        self.receive(usize::MAX)
    }

    fn receive_piece(&mut self) -> ReceiveOutcome {
        self.receive(usize::MAX)
    }

    /// The end of the connection is never the end of a response.
    fn peer_closed(&self) -> bool {
        false
    }

    fn trailers(&self) -> usize {
        0
    }

    fn at_end(&self) -> bool {
        ApplicationStream::ended(self)
    }
}

pub(crate) trait BodySink {
    /// Sends bytes of a body, framed as `way`, as many as fit now.
    fn send(&mut self, way: &mut BodyWay, bytes: &[u8], tail: Tail) -> SendOutcome;
    fn flush(&mut self, more: bool) -> SendOutcome;
    fn has_pending(&self) -> bool;
    /// Sends the end of the message, once, and flushes.
    fn finish(&mut self, way: &mut BodyWay, trailers: &[u8], closes: bool) -> SendOutcome;
    /// Whether the sink accepts nothing now, or no payload if `payload` is set. The task is woken when it accepts again.
    fn is_full(&mut self, payload: bool) -> bool;
    /// Whether the peer, not this process, blocks a sink that did not take all bytes.
    fn is_slow(&self) -> bool;
}

impl BodySink for Connection {
    #[inline]
    fn send(&mut self, way: &mut BodyWay, bytes: &[u8], tail: Tail) -> SendOutcome {
        match way {
            BodyWay::Chunks(chunks) => chunks.send(self, bytes, tail),
            _ => Connection::send(self, bytes, tail.closes),
        }
    }

    #[inline]
    fn flush(&mut self, more: bool) -> SendOutcome {
        Connection::flush(self, more)
    }

    #[inline]
    fn has_pending(&self) -> bool {
        Connection::has_pending(self)
    }

    #[inline]
    fn finish(&mut self, way: &mut BodyWay, trailers: &[u8], closes: bool) -> SendOutcome {
        match way {
            BodyWay::Chunks(chunks) => chunks.finish(self, trailers, closes),
            _ => Connection::flush(self, false),
        }
    }

    #[inline]
    fn is_full(&mut self, _: bool) -> bool {
        false
    }

    #[inline]
    fn is_slow(&self) -> bool {
        true
    }
}

impl BodySink for SharedStream {
    fn send(&mut self, _: &mut BodyWay, bytes: &[u8], tail: Tail) -> SendOutcome {
        SharedStream::send(self, bytes, tail.ends)
    }

    fn flush(&mut self, _: bool) -> SendOutcome {
        SharedStream::flush(self)
    }

    fn has_pending(&self) -> bool {
        SharedStream::has_pending(self)
    }

    fn finish(&mut self, _: &mut BodyWay, trailers: &[u8], _: bool) -> SendOutcome {
        SharedStream::finish(self, trailers)
    }

    fn is_full(&mut self, payload: bool) -> bool {
        SharedStream::is_full(self, payload)
    }

    fn is_slow(&self) -> bool {
        SharedStream::is_slow(self)
    }
}

impl BodySink for ApplicationStream {
    fn send(&mut self, _: &mut BodyWay, bytes: &[u8], tail: Tail) -> SendOutcome {
        ApplicationStream::send(self, bytes, tail.ends)
    }

    fn flush(&mut self, _: bool) -> SendOutcome {
        self.flush_body()
    }

    fn has_pending(&self) -> bool {
        ApplicationStream::has_pending(self)
    }

    /// The protocol lacks trailers.
    fn finish(&mut self, _: &mut BodyWay, _: &[u8], _: bool) -> SendOutcome {
        ApplicationStream::finish(self)
    }

    fn is_full(&mut self, _: bool) -> bool {
        ApplicationStream::is_full(self)
    }

    fn is_slow(&self) -> bool {
        true
    }
}

impl StreamConnector {
    /// Sends bytes of a body, framed as `way`, as many as fit now.
    pub(crate) fn send_body(&mut self, way: &mut BodyWay, bytes: &[u8], tail: Tail) -> SendOutcome {
        match self {
            StreamConnector::Own(own) => BodySink::send(own, way, bytes, tail),
            StreamConnector::Indirect(Indirect::Shared(shared)) => BodySink::send(shared, way, bytes, tail),
            StreamConnector::Indirect(Indirect::Application(request)) => {
                BodySink::send(request, way, bytes, tail)
            }
            StreamConnector::Indirect(_) => SendOutcome::All,
        }
    }

    /// Sends the end of the message, once, and flushes.
    pub(crate) fn finish_body(&mut self, way: &mut BodyWay, trailers: &[u8], closes: bool) -> SendOutcome {
        match self {
            StreamConnector::Own(own) => BodySink::finish(own, way, trailers, closes),
            StreamConnector::Indirect(Indirect::Shared(shared)) => {
                BodySink::finish(shared, way, trailers, closes)
            }
            StreamConnector::Indirect(Indirect::Application(request)) => request.finish(),
            StreamConnector::Indirect(_) => SendOutcome::All,
        }
    }
}
