//! Attaches filters to a stream, reports events to them, and lets rules change them.

use std::rc::Rc;

use weir_model::{FilterDirection, FilterKind};
use weir_mux::Filter;
use weir_sched::Tick;

use crate::filters::{Bound, Handle, Label, Rate, Trace};
use crate::instance::Proxy;
use crate::stream::{ProxySide, Stream};

impl Stream {
    /// Attaches a proxy's filters to the stream.
    #[inline]
    pub(crate) fn attach_filters(&mut self, side: ProxySide) {
        if !self.proxy(side).config.filters.is_empty() {
            let proxy = self.proxy(side).clone();
            self.attach(&proxy);
        }
    }

    #[cold]
    fn attach(&mut self, proxy: &Proxy) {
        let kept = self.frontend.instance().limits.buffer_size;
        let mut attached = self.attached.take().unwrap_or_default();
        let is_backend = self.backend.has_begun();
        let bound = |configured: &weir_model::Filter| match &configured.kind {
            FilterKind::Bandwidth(limit) => Some(Bound::of(limit)),
            FilterKind::Trace(_) => None,
        };
        let bounds: Vec<Option<Bound>> = proxy.config.filters.iter().map(bound).collect();
        for direction in [FilterDirection::Request, FilterDirection::Response] {
            for at in proxy.config.filter_order(direction) {
                let Some(configured) = proxy.config.filters.get(at) else { continue };
                let filter: Box<dyn Filter> = match &configured.kind {
                    FilterKind::Bandwidth(limit) => {
                        let Some(bound) = &bounds[at] else { continue };
                        bound.filter(limit)
                    }
                    FilterKind::Trace(trace) => {
                        let label = Label::new(trace, proxy, self.serial, is_backend);
                        Box::new(Trace::new(label, direction, self.speaks_http()))
                    }
                };
                match direction {
                    FilterDirection::Request => self.request.body.add(filter, kept),
                    FilterDirection::Response => self.response.body.add(filter, kept),
                }
            }
        }
        for (position, (configured, bound)) in proxy.config.filters.iter().zip(bounds).enumerate() {
            match &configured.kind {
                FilterKind::Bandwidth(_) => {
                    let proxy = proxy.index;
                    attached.limits.extend(bound.map(|bound| Handle { proxy, position, bound }));
                }
                FilterKind::Trace(trace) => {
                    let label = Label::new(trace, proxy, self.serial, is_backend);
                    label.attached();
                    attached.traces.push(label);
                }
            }
        }
        self.attached = Some(attached);
    }

    /// When a filter of either direction resumes.
    #[cold]
    pub(crate) fn filters_wake_at(&self) -> Tick {
        self.request.body.wake_at().min(self.response.body.wake_at())
    }

    /// Reports the choice of the backend to the filters.
    #[inline]
    pub(crate) fn notify_filters_of_backend(&self) {
        if let Some(attached) = &self.attached {
            attached.traces.iter().for_each(|label| label.backend(self.backend.name()));
        }
    }

    /// `set-bandwidth-limit`: enables this proxy's filter of this name. Missing values come from the filter's line.
    pub(crate) fn limit_bandwidth(
        &mut self,
        proxy: &Proxy,
        name: &str,
        limit: Option<u64>,
        period_ms: Option<u64>,
    ) {
        let Some(attached) = &self.attached else { return };
        let of_proxy = attached.limits.iter().filter(|handle| handle.proxy == proxy.index);
        let mut named =
            of_proxy.filter_map(|handle| match &proxy.config.filters.get(handle.position)?.kind {
                FilterKind::Bandwidth(configured) if *configured.name == *name => {
                    Some((configured, &handle.bound))
                }
                _ => None,
            });
        let Some((configured, bound)) = named.next() else { return };
        match bound {
            Bound::Own(rate) => {
                let default_period = u64::try_from(configured.period.as_millis()).unwrap_or(u64::MAX);
                rate.set(Some(Rate {
                    bytes: limit.filter(|limit| *limit > 0).unwrap_or(configured.limit),
                    period_ms: period_ms.filter(|period| *period > 0).unwrap_or(default_period),
                }));
            }
            Bound::Shared(entry) => {
                let (Some(said), entry) = (&configured.shared, Rc::clone(entry)) else { return };
                let position = said.table.target().map(|(table, _)| table).or(proxy.config.table);
                // Without a key the stream is unlimited.
                let table = position.and_then(|position| self.frontend.instance().table(position));
                if let Some(table) = table.cloned()
                    && let Ok(key) = self.tracking_mut().table_key(&table, &said.key)
                {
                    entry.set(&table, &key);
                }
            }
        }
    }
}
