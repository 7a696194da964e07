//! Attaches filters to a stream, and reports the stream's events to the filters.
//!
//! The frontend's filters run first, then the backend's, in both directions, unless `filter-sequence` sets another order (manual, 9). A
//! proxy without filters costs one branch.

use weir_model::FilterDirection;
use weir_sched::Tick;

use crate::filters::FilterParts;
use crate::instance::Proxy;
use crate::stream::attached::Attached;
use crate::stream::{ProxySide, Stream};

impl Stream {
    /// Attaches a proxy's filters to the stream.
    #[inline]
    pub(crate) fn attach_filters(&mut self, side: ProxySide) {
        if !self.proxy(side).config.filters.is_empty() {
            let proxy = self.proxy(side).clone();
            attach(self, &proxy);
        }
    }

    /// The earliest time at which a filter of either direction wants to resume.
    #[cold]
    pub(crate) fn filters_wake_at(&self) -> Tick {
        self.request.body.wake_at().min(self.response.body.wake_at())
    }

    /// Reports the choice of the backend to the filters.
    #[inline]
    pub(crate) fn notify_filters_of_backend(&self) {
        if let Some(attached) = &self.attached {
            attached.iter().for_each(|attachment| attachment.backend_chosen(self));
        }
    }
}

/// Reports to the filters that the request's head will be sent.
#[inline]
pub(crate) fn notify_of_request(stream: &mut Stream) {
    if let Some(attached) = &stream.attached {
        attached.iter().for_each(|attachment| attachment.request_leaves(&mut stream.request.message));
    }
}

#[cold]
fn attach(stream: &mut Stream, proxy: &Proxy) {
    let kept = stream.frontend.instance().limits.buffer_size;
    let filters = &proxy.config.filters;
    // An engine does not filter bytes.
    if filters.iter().all(|filter| filter.facts().spoe.is_some()) {
        return;
    }
    let mut parts: Vec<FilterParts> =
        filters.iter().map(|filter| FilterParts::of(filter, stream, proxy)).collect();
    for at in proxy.config.filter_order(FilterDirection::Request) {
        if let Some(filter) = parts.get_mut(at).and_then(|parts| parts.request.take()) {
            stream.request.body.add(filter, kept);
        }
    }
    for at in proxy.config.filter_order(FilterDirection::Response) {
        if let Some(filter) = parts.get_mut(at).and_then(|parts| parts.response.take()) {
            stream.response.body.add(filter, kept);
        }
    }
    let attached = Attached::of_stream(stream);
    for (position, parts) in parts.into_iter().enumerate() {
        if let Some(attachment) = parts.attachment {
            attached.add(proxy.index, position, attachment);
        }
    }
}
