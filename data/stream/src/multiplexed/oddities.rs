//! Glitches and refused requests of HTTP/2 clients. Glitches are counted in the stick-table entries tracked by the session. Requests
//! refused before they became streams are logged (`tune.h2.log-errors`).

use std::rc::Rc;

use weir_model::LoggedErrors;
use weir_mux::{Multiplexer, StreamConnector};

use crate::ending::{By, During, Ending};
use crate::session::ClientSession;
use crate::stream::Stream;

/// The counts that were already reported.
#[derive(Default)]
pub(super) struct Oddities {
    glitches: u32,
    refused: u32,
    failed: bool,
}

impl Oddities {
    /// Reports new events since the last call. Call it before new streams run, because their rules may read the counts.
    #[inline]
    pub(super) fn record(&mut self, multiplexer: &Rc<Multiplexer>, session: &Rc<ClientSession>) {
        if multiplexer.glitches() != self.glitches {
            self.record_news(multiplexer, session);
        }
    }

    #[cold]
    fn record_news(&mut self, multiplexer: &Rc<Multiplexer>, session: &Rc<ClientSession>) {
        let (glitches, refused) = (multiplexer.glitches(), multiplexer.refused());
        session.count_tracked_glitches(glitches - self.glitches);
        self.glitches = glitches;
        let logged = session.frontend().instance().limits.h2_logged_errors;
        let requests = if logged == LoggedErrors::Stream { refused - self.refused } else { 0 };
        self.refused = refused;
        let failed = multiplexer.failure().is_some();
        let ends = failed && !self.failed && logged != LoggedErrors::None;
        self.failed = failed;
        for _ in 0..requests + u32::from(ends) {
            // The log line needs a stream, but the refused request never became one. Stream 0 is the connection itself
            // (RFC 9113, 5.1.1).
            let client = StreamConnector::from(multiplexer.stream(0));
            let mut stream = Stream::new(Rc::clone(session), client, weir_sched::now_us());
            stream.ending = Ending::new(By::Proxy, During::Request);
            stream.timers.close = Some(stream.elapsed());
            stream.log_line().log_end();
        }
    }
}
