//! `mirror`: sends a copy of the request to another backend and drops the answer.
//!
//! The stream never waits for its copy. The copy of a request without a body is sent when the rule runs. The body of any other request
//! is collected while it is forwarded ([`BodyCopy`]), and the copy is sent after its last byte.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_config::numbers::{delay_of, size_of};
use weir_config::rows::DefaultValue::Described;
use weir_config::rules::{ActionContext, action, sets};
use weir_config::words::{Parsed, Words, fault};
use weir_expr::Reference;
use weir_fingerprint::Canonical;
use weir_http::{BodySize, HeadFlags, Method};
use weir_model::{ActionFacts, Visit};
use weir_mux::{Failed, Filter, FilterOutput, More, Passed};
use weir_sched::Tick;

use super::copied_request::{HeadWriter, OwnHeader, is_in_loop, read_names};
use super::{ActionResult, ActionRow, RuleContext, StreamAction};
use crate::instance::ProxyRef;
use crate::limited_body::LimitedBody;
use crate::session::ClientSession;
use crate::stream::Stream;
use crate::subrequest::Subrequest;

pub(super) const ROWS: &[ActionRow] = &[action(
    "mirror",
    "<backend> [ sample { <percent>% | 1/<n> } ] [ body-limit <size> ] [ hdr <name> <fmt> ]* [ del-hdr <names> ]* [ timeout <time> ]",
    "app sample 10% body-limit 64k del-hdr Authorization,Cookie timeout 2s",
    "send a copy of the request to another backend, whose answer is dropped",
    sets::HTTP_REQUEST,
    |context, words| Ok(Mirror::read(context, words)?.into_action()),
)
.default(Described("every request, `body-limit 64k`, all headers, `timeout 10s`"))];

/// `mirror`.
#[derive(Debug, Canonical)]
struct Mirror {
    backend: Arc<Reference>,
    /// The share of the requests, in parts of 2^32.
    share: u64,
    /// Requests with a larger body are not mirrored.
    body_limit: u64,
    headers: Vec<OwnHeader>,
    removed: Vec<Box<str>>,
    timeout: Duration,
}

impl Mirror {
    fn read(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Self> {
        let mut action = Mirror {
            backend: context.backend(words)?,
            share: ALL,
            body_limit: BODY_LIMIT,
            headers: Vec::new(),
            removed: Vec::new(),
            timeout: TIMEOUT,
        };
        while !words.at_end() && !words.at_condition() {
            let word = words.expect(EXPECTS)?;
            match word.text() {
                "sample" => {
                    let expects = "'sample' expects a percentage such as '10%', or a share such as '1/20'.";
                    let share = words.expect(expects)?;
                    action.share = share_of(share.text()).ok_or_else(|| fault(share.span(), expects))?;
                }
                "body-limit" => {
                    let size = words.expect("'body-limit' expects a size.")?;
                    action.body_limit = size_of(size, "body-limit")?;
                    if action.body_limit > MOST_BODY {
                        return Err(fault(size.span(), "'body-limit' expects a size of at most 16m."));
                    }
                }
                "hdr" => action.headers.push(OwnHeader::read(context, words)?),
                "del-hdr" => action.removed.extend(read_names(words, "del-hdr")?),
                "timeout" => {
                    let time = words.expect("'timeout' expects a time.")?;
                    action.timeout = delay_of(words, time, "timeout")?;
                    if action.timeout.is_zero() {
                        return Err(fault(time.span(), "'timeout' expects a time above 0."));
                    }
                }
                _ => return Err(fault(word.span(), EXPECTS)),
            }
        }
        Ok(action)
    }

    /// Prepares the copy of the stream's request. `None` if it cannot be sent.
    fn copy(&self, stream: &mut Stream) -> Option<RequestCopy> {
        if is_in_loop(stream) {
            return None;
        }
        let permit = MirrorPermit::take()?;
        let (position, _) = self.backend.target()?;
        let backend = stream.frontend.sibling(position as usize)?;
        let session = Subrequest::session(stream)?;
        let message = &stream.request.message;
        let target = message.head.path_and_query(message.bytes());
        let mut head = HeadWriter::begin(message.head.method_text(message.bytes()), target)?;
        head.add_request(stream, &self.headers, |name, _, _| {
            self.removed.iter().any(|removed| removed.as_bytes().eq_ignore_ascii_case(name))
        });
        Some(RequestCopy { head, session, backend, timeout: self.timeout, permit })
    }
}

impl StreamAction for Mirror {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let head = &stream.request.message.head;
        // A tunnel has one server. An offer of HTTP/2 is not a tunnel.
        let upgrades = head.flags().contains(HeadFlags::CONNECTION_UPGRADE | HeadFlags::HAS_UPGRADE)
            && !head.flags().contains(HeadFlags::UPGRADE_H2C);
        let is_tunnel = upgrades || head.method() == Method::Connect;
        if is_tunnel || (self.share < ALL && weir_sched::random() & (ALL - 1) >= self.share) {
            return ActionResult::NEXT;
        }
        let size = BodySize::of_request(head);
        let fits = !matches!(size, BodySize::Known(length) if length > self.body_limit);
        match self.copy(stream).filter(|_| fits) {
            Some(copy) if stream.request.body.is_done() => copy.send(None),
            Some(copy) => {
                let limit = self.body_limit as usize;
                let kept = stream.frontend.instance().limits.buffer_size;
                let body = LimitedBody::kept(limit);
                stream.request.body.add_first(Box::new(BodyCopy { body, limit, copy: Some(copy) }), kept);
            }
            None => count_dropped(),
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.headers.iter().for_each(|header| header.visit_references(visit));
    }

    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { asks: Some(&self.backend), ..ActionFacts::NONE }
    }
}

/// A copy of a request, not sent yet.
struct RequestCopy {
    head: HeadWriter,
    session: Rc<ClientSession>,
    backend: ProxyRef,
    timeout: Duration,
    permit: MirrorPermit,
}

impl RequestCopy {
    fn send(mut self, body: Option<Vec<u8>>) {
        if let Some(body) = &body {
            self.head.add(b"content-length", itoa::Buffer::new().format(body.len()).as_bytes());
        }
        let Some(request) = Subrequest::new(self.session, self.backend, &self.head.end(), self.timeout)
        else {
            count_dropped();
            return;
        };
        crate::process_counters::count(|counters| counters.mirrors.increment());
        match body {
            Some(body) => request.with_body(body).send_only(self.permit),
            None => request.send_only(self.permit),
        }
    }
}

/// Collects the body of a request while it passes, and sends the copy at its end.
struct BodyCopy {
    body: LimitedBody,
    limit: usize,
    /// `None` once the copy was sent or given up.
    copy: Option<RequestCopy>,
}

impl Filter for BodyCopy {
    fn payload(
        &mut self,
        bytes: &[u8],
        _: More,
        _: Tick,
        _: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        if let Some(copy) = &mut self.copy {
            self.body.add(bytes);
            if self.body.is_exceeded || !copy.permit.grow(bytes.len()) {
                (self.copy, self.body) = (None, LimitedBody::kept(0));
                count_dropped();
            }
        }
        Ok(Passed::all(bytes))
    }

    fn end(&mut self, _: Tick, _: &mut FilterOutput<'_>) -> Result<bool, Failed> {
        if let Some(copy) = self.copy.take() {
            copy.send(Some(std::mem::take(&mut self.body.bytes)));
        }
        Ok(true)
    }

    fn restart(&mut self) {
        self.body = LimitedBody::kept(self.limit);
        if let Some(copy) = &mut self.copy {
            copy.permit.shrink();
        }
    }
}

/// The share that a percentage or a fraction means, in parts of 2^32.
fn share_of(text: &str) -> Option<u64> {
    let share = match text.split_once('/') {
        Some(("1", count)) => 1.0 / f64::from(count.parse::<u32>().ok()?),
        Some(_) => return None,
        None => text.strip_suffix('%')?.parse::<f64>().ok()? / 100.0,
    };
    (share > 0.0 && share <= 1.0).then(|| (share * ALL as f64).ceil() as u64)
}

fn count_dropped() {
    crate::process_counters::count(|counters| counters.mirrors_dropped.increment());
}

/// One of the worker's mirrored requests, and the bytes of its body, from the rule to the end of the answer.
struct MirrorPermit {
    bytes: usize,
}

impl MirrorPermit {
    /// `None` if [`MOST_MIRRORS`] are in progress.
    fn take() -> Option<Self> {
        let (count, bytes) = MIRRORS.get();
        (count < MOST_MIRRORS).then(|| {
            MIRRORS.set((count + 1, bytes));
            MirrorPermit { bytes: 0 }
        })
    }

    /// Adds bytes of the body. False if the bodies of all mirrored requests exceed [`MOST_BYTES`].
    fn grow(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let (count, all) = MIRRORS.get();
        MIRRORS.set((count, all + bytes));
        all + bytes <= MOST_BYTES
    }

    /// Removes the bytes of the body.
    fn shrink(&mut self) {
        let (count, all) = MIRRORS.get();
        MIRRORS.set((count, all - self.bytes));
        self.bytes = 0;
    }
}

impl Drop for MirrorPermit {
    fn drop(&mut self) {
        self.shrink();
        let (count, all) = MIRRORS.get();
        MIRRORS.set((count - 1, all));
    }
}

thread_local! {
    /// The worker's mirrored requests in progress, and the bytes of their bodies.
    static MIRRORS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

const EXPECTS: &str = "expects 'sample', 'body-limit', 'hdr', 'del-hdr', 'timeout', or a condition.";
/// Every request.
const ALL: u64 = 1 << 32;
const BODY_LIMIT: u64 = 64 * 1024;
const MOST_BODY: u64 = 16 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(10);
/// Mirrored requests in progress on one worker. More are dropped, so that a slow backend cannot hold memory without bound.
const MOST_MIRRORS: usize = 1024;
/// Bytes of the bodies of these requests. A body that exceeds them is given up.
const MOST_BYTES: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_percentages_and_fractions() {
        let percent = |text| share_of(text).map(|share| share as f64 * 100.0 / ALL as f64);
        assert_eq!(share_of("100%"), Some(ALL));
        assert_eq!(share_of("1/1"), Some(ALL));
        assert_eq!(percent("50%"), Some(50.0));
        assert_eq!(percent("1/4"), Some(25.0));
        assert!(percent("0.1%").is_some_and(|share| (share - 0.1).abs() < 0.001));
        for wrong in ["", "0%", "101%", "-5%", "1/0", "2/3", "50", "half", "nan%", "inf%", "1/", "/2"] {
            assert_eq!(share_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_permit_is_returned_when_dropped() {
        let all: Vec<_> = (0..MOST_MIRRORS).filter_map(|_| MirrorPermit::take()).collect();
        assert_eq!((all.len(), MirrorPermit::take().is_none()), (MOST_MIRRORS, true));
        drop(all);
        assert!(MirrorPermit::take().is_some());
    }

    #[test]
    fn the_bodies_of_all_mirrors_are_bounded() {
        let mut permits: Vec<_> = (0..5).filter_map(|_| MirrorPermit::take()).collect();
        let grown = permits.iter_mut().map(|permit| permit.grow(MOST_BYTES / 4));
        assert_eq!(Vec::from_iter(grown), [true, true, true, true, false]);
        permits[0].shrink();
        permits.pop();
        assert!(permits[0].grow(MOST_BYTES / 4) && !permits[1].grow(1));
        drop(permits);
        assert_eq!(MIRRORS.get(), (0, 0));
    }
}
