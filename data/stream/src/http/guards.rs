//! Checks of messages by options: header names of requests, cookies in cacheable responses.

use weir_http::{HeadFlags, KnownName};
use weir_model::RestrictHeaderNames;

use crate::caching::Caching;
use crate::counters::CountedEvent;
use crate::ending::{By, During};
use crate::stream::phases::RequestPhase;
use crate::stream::rule_state::{RefusingOption, StoppedBy};
use crate::stream::{PhaseResult, ProxySide, StreamError};

impl RequestPhase {
    /// `option http-restrict-req-hdr-names` of one proxy, after its `http-request` rules (manual, "option http-restrict-req-hdr-names").
    pub(super) fn restrict_header_names(&mut self, side: ProxySide) -> PhaseResult {
        let settings = &self.stream.proxy(side).config.settings;
        // Applications see `X_A` and `X-A` by the same name (manual, "option http-restrict-req-hdr-names").
        let unset = match settings.application {
            Some(_) => RestrictHeaderNames::Delete,
            None => RestrictHeaderNames::Preserve,
        };
        match settings.options.restrict_header_names.unwrap_or(unset) {
            RestrictHeaderNames::Preserve => {}
            RestrictHeaderNames::Delete => {
                let (head, raw) = self.stream.request.message.edit();
                if head.fields(raw).any(|(name, _)| !is_plain(name)) {
                    head.remove_matching(raw, |name| !is_plain(name));
                }
            }
            RestrictHeaderNames::Reject => {
                let (head, raw) = (&self.stream.request.message.head, self.stream.request.message.bytes());
                if head.fields(raw).any(|(name, _)| !is_plain(name)) {
                    self.stream.counts().count(CountedEvent::DeniedRequest);
                    self.stream.rules.stopped_by = StoppedBy::Option(RefusingOption::HeaderNames);
                    return Err(StreamError::error(403, By::Proxy, During::Request));
                }
            }
        }
        Ok(())
    }

    /// Reduces `TE` to `trailers`, the only value that is not hop-by-hop (RFC 9110, 10.1.4).
    pub(super) fn narrow_te(&mut self) -> PhaseResult {
        let (head, raw) = self.stream.request.message.edit();
        if !head.index().iter().any(|field| field.known == KnownName::Te) {
            return Ok(());
        }
        let trailers = head.values(raw, b"te").any(|value| value.eq_ignore_ascii_case(b"trailers"));
        head.remove_known(KnownName::Te);
        if trailers && head.add(b"te", b"trailers").is_err() {
            return Err(StreamError::error(400, By::Proxy, During::Request));
        }
        Ok(())
    }

    /// `option checkcache`: a response that a cache may store must not set a cookie.
    pub(super) fn check_cacheable_cookies(&mut self) -> PhaseResult {
        let checks = self.stream.backend.config.settings.options.check_cache;
        let head = &self.stream.response.message.head;
        if !checks || !head.flags().contains(HeadFlags::HAS_COOKIE) {
            return Ok(());
        }
        let method = self.stream.request.message.head.method();
        if !Caching::of(method, head, self.stream.response.message.bytes()).may_keep_cookies() {
            return Ok(());
        }
        self.stream.counts().count(CountedEvent::DeniedResponse);
        self.stream.rules.stopped_by = StoppedBy::Option(RefusingOption::CheckCache);
        Err(StreamError::error(502, By::Proxy, During::Headers))
    }
}

/// Whether a name has only letters, digits and hyphens.
fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}
