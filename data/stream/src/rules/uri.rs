//! Actions on the request's target.

use weir_config::model::{UriNormalizer, UriPart, UriReplacement};
use weir_expr::LogFormat;
use weir_http::normalize::{BrokenSequence, Normalizer};

use super::{ActionResult, done};
use crate::ending::{By, During};
use crate::stream::{Stream, StreamError};

impl Stream {
    pub(super) fn set_uri_part(&mut self, part: UriPart, value: &LogFormat) -> ActionResult<'static> {
        let value = self.format(value);
        done(self.put_uri_part(part, &value) && self.follow_uri(part))
    }

    /// Sets `Host` to the host of a new target, so that rules need not set both.
    fn follow_uri(&mut self, part: UriPart) -> bool {
        if part != UriPart::Uri {
            return true;
        }
        let target = self.request.message.head.uri(self.request.message.bytes());
        let Some(host) = weir_http::uri::named_host(target).map(<[u8]>::to_vec) else { return true };
        let (head, raw) = self.request.message.edit();
        let position = head.positions(raw, b"host").next();
        match position {
            Some(position) => head.replace_value(position, &host).is_ok(),
            None => head.add(b"host", &host).is_ok(),
        }
    }

    fn put_uri_part(&mut self, part: UriPart, value: &[u8]) -> bool {
        let (head, raw) = self.request.message.edit();
        let put = match part {
            UriPart::Path => head.set_path(raw, value),
            UriPart::PathAndQuery => head.set_path_and_query(raw, value),
            UriPart::Query => head.set_query(raw, value.strip_prefix(b"?").unwrap_or(value)),
            UriPart::Uri => head.set_uri(value),
        };
        put.is_ok()
    }

    pub(super) fn replace_uri(&mut self, replacement: &UriReplacement) -> ActionResult<'static> {
        let template = self.format(&replacement.replacement);
        let (head, raw) = (&self.request.message.head, self.request.message.bytes());
        let old = match replacement.part {
            // A target without a path (of a CONNECT, or `*`) does not get one: it would become another target.
            UriPart::Path | UriPart::PathAndQuery if head.path(raw).is_empty() => return ActionResult::Next,
            UriPart::Path => head.path(raw),
            UriPart::PathAndQuery => head.path_and_query(raw),
            UriPart::Query | UriPart::Uri => head.uri(raw),
        };
        let mut groups = replacement.pattern.groups();
        if replacement.pattern.captures(old, 0, &mut groups).is_none() {
            return ActionResult::Next;
        }
        let mut new = Vec::with_capacity(old.len());
        weir_expr::pattern::regex::expand(&template, old, &groups, &mut new);
        done(self.put_uri_part(replacement.part, &new) && self.follow_uri(replacement.part))
    }

    pub(super) fn normalize_uri(&mut self, normalizer: UriNormalizer) -> ActionResult<'static> {
        let normalizer = match normalizer {
            UriNormalizer::FragmentEncode => Normalizer::FragmentEncode,
            UriNormalizer::FragmentStrip => Normalizer::FragmentStrip,
            UriNormalizer::PathMergeSlashes => Normalizer::PathMergeSlashes,
            UriNormalizer::PathStripDot => Normalizer::PathStripDot,
            UriNormalizer::PathStripDotDot { full } => Normalizer::PathStripDotdot { full },
            UriNormalizer::PercentDecodeUnreserved { strict } => {
                Normalizer::PercentDecodeUnreserved { strict }
            }
            UriNormalizer::PercentToUppercase { strict } => Normalizer::PercentToUppercase { strict },
            UriNormalizer::QuerySortByName => Normalizer::QuerySortByName,
        };
        let (head, raw) = (&self.request.message.head, self.request.message.bytes());
        let mut new = Vec::new();
        match normalizer.apply(head.uri(raw), &mut new) {
            Ok(false) => ActionResult::Next,
            Ok(true) => done(self.put_uri_part(UriPart::Uri, &new)),
            // A strict normalizer found an invalid target (manual, "normalize-uri").
            Err(BrokenSequence) => {
                self.counts().count_bad_request();
                self.timers.request = None;
                ActionResult::Stop(StreamError::error(400, By::Proxy, During::Request))
            }
        }
    }
}
