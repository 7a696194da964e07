//! Filters are put on a stream, told what becomes of it, and reached by its rules.

use std::cell::Cell;
use std::rc::Rc;

use weir_config::model::{FilterDirection, FilterKind};
use weir_mux::Filter;
use weir_sched::Tick;

use crate::filters::{Bandwidth, Handle, Label, Limit, Rate, Trace};
use crate::instance::Proxy;
use crate::stream::Stream;

impl Stream {
    /// Puts a proxy's filters on the stream.
    #[inline]
    pub(crate) fn attach_filters(&mut self, proxy: &'static Proxy) {
        if !proxy.config.filters.is_empty() {
            self.attach(proxy);
        }
    }

    #[cold]
    fn attach(&mut self, proxy: &'static Proxy) {
        let kept = self.instance.limits.buffer_size;
        let mut attached = self.attached.take().unwrap_or_default();
        let is_backend = self.visit.has_begun();
        let limits: Vec<Limit> = proxy.config.filters.iter().map(|_| Rc::new(Cell::new(None))).collect();
        for direction in [FilterDirection::Request, FilterDirection::Response] {
            for at in proxy.config.filter_order(direction) {
                let Some(configured) = proxy.config.filters.get(at) else { continue };
                let filter: Box<dyn Filter> = match &configured.kind {
                    FilterKind::Bandwidth(limit) => {
                        Box::new(Bandwidth::new(Rc::clone(&limits[at]), limit.min_size))
                    }
                    FilterKind::Trace(trace) => {
                        let label = Label::new(trace, proxy, self.serial, is_backend);
                        Box::new(Trace::new(label, direction, self.frontend.is_http()))
                    }
                };
                match direction {
                    FilterDirection::Request => self.request.body.add(filter, kept),
                    FilterDirection::Response => self.response.body.add(filter, kept),
                }
            }
        }
        for (configured, limit) in proxy.config.filters.iter().zip(limits) {
            match &configured.kind {
                FilterKind::Bandwidth(configured) => {
                    attached.limits.push(Handle { proxy, configured, limit });
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

    /// When a filter of either direction lets more pass.
    #[cold]
    pub(crate) fn filters_wake_at(&self) -> Tick {
        self.request.body.wake_at().min(self.response.body.wake_at())
    }

    /// The backend was chosen.
    #[inline]
    pub(crate) fn tell_filters_backend(&self) {
        if let Some(attached) = &self.attached {
            attached.traces.iter().for_each(|label| label.backend(self.backend.name()));
        }
    }

    /// `set-bandwidth-limit`: enables the filter of this name of this proxy. What is not given is what the filter's line says.
    pub(crate) fn limit_bandwidth(
        &mut self,
        proxy: &'static Proxy,
        name: &str,
        limit: Option<u64>,
        period_ms: Option<u64>,
    ) {
        let Some(attached) = &self.attached else { return };
        let handle = attached
            .limits
            .iter()
            .find(|handle| std::ptr::eq(handle.proxy, proxy) && *handle.configured.name == *name);
        if let Some(handle) = handle {
            let configured = handle.configured;
            let default_period = u64::try_from(configured.period.as_millis()).unwrap_or(u64::MAX);
            handle.limit.set(Some(Rate {
                bytes: limit.filter(|limit| *limit > 0).unwrap_or(configured.limit),
                period_ms: period_ms.filter(|period| *period > 0).unwrap_or(default_period),
            }));
        }
    }
}
