//! The rules of the frontend and the backend, and the choice of the backend between them.

use weir_config::model::BackendTarget;
use weir_config::model::RulesetKind;

use crate::counters::Event;
use crate::ending::{By, During, Ending};
use crate::instance::Proxy;
use crate::passwords;
use crate::rules::RulesetResult;
use crate::stream::{Phase, Stream, StreamError};
use crate::upstream::BackendVisit;

impl Stream {
    /// The frontend's rules on a request, in the manual's order.
    pub(super) async fn frontend_phase(&mut self) -> Phase {
        passwords::verify_ahead(self, &self.frontend.asked_userlists.always).await?;
        if !self.began_in_tcp
            && let Err(stop) = self.content_rules(self.frontend).await
        {
            // These rules see bytes: a client that they refuse has made no request, in counters and logs.
            self.timers.request = None;
            return Err(stop);
        }
        self.count_request();
        self.count_tracked_request();
        self.check_monitor()?;
        self.restrict_header_names(self.frontend)?;
        self.request_rules(self.frontend).await
    }

    /// The backend's rules on a request.
    pub(super) async fn backend_phase(&mut self) -> Phase {
        if !std::ptr::eq(self.backend, self.frontend) {
            passwords::verify_ahead(self, &self.backend.asked_userlists.always).await?;
            self.restrict_header_names(self.backend)?;
            self.content_rules(self.backend).await?;
            self.request_rules(self.backend).await?;
        }
        if self.backend.config.settings.options.http_buffer_request || self.balances_on_body() {
            self.wait_for_body(0, self.frontend.config.settings.timeouts.http_request).await?;
        }
        self.capture_request_cookie();
        // The waits of rules count as part of receiving the request, not of waiting for a server.
        self.timers.request = Some(self.elapsed());
        Ok(())
    }

    /// `http-request` rules, the statistics page, then `redirect` lines of one proxy.
    async fn request_rules(&mut self, proxy: &'static Proxy) -> Phase {
        if proxy.config.settings.options.http_buffer_request {
            self.wait_for_body(0, self.frontend.config.settings.timeouts.http_request).await?;
        }
        if proxy.has_rules(RulesetKind::HttpRequest)
            && let RulesetResult::Stop(stop) = self.run_rules(proxy, RulesetKind::HttpRequest).await?
        {
            return Err(stop);
        }
        passwords::verify_ahead(self, &proxy.asked_userlists.outside_of_rules).await?;
        self.serve_statistics(proxy).await?;
        for rule in &proxy.config.redirects {
            let applies = rule.condition.as_ref().is_none_or(|condition| self.holds(condition));
            if applies && self.prepare_redirect(&rule.redirect) {
                self.rules.decided_at = Some(&rule.at);
                self.rules.stop_by_rule();
                proxy.count_intercepted();
                return Err(StreamError::Reply(Ending::new(By::Local, During::Request)));
            }
        }
        Ok(())
    }

    /// Chooses the backend and enters it.
    pub(crate) fn route(&mut self) -> Phase {
        let backend = self.choose_backend()?;
        self.enter_backend(backend);
        Ok(())
    }

    /// Chooses the backend: `use_backend` rules, then `default_backend`, then the proxy itself.
    pub(crate) fn choose_backend(&mut self) -> Phase<&'static Proxy> {
        let frontend = self.frontend;
        let chosen = self.routed_backend(frontend);
        let Some(backend) = chosen else {
            self.count(Event::FailedConnection);
            // As in HAProxy, the log has no time of the request here, unless the request was buffered.
            if !frontend.config.settings.options.http_buffer_request {
                self.timers.request = None;
            }
            return Err(StreamError::error(503, By::Server, During::Connect));
        };
        Ok(backend)
    }

    fn routed_backend(&mut self, frontend: &'static Proxy) -> Option<&'static Proxy> {
        if !frontend.config.use_backend.is_empty() {
            self.receive_what_came();
        }
        for rule in &frontend.config.use_backend {
            let applies = rule.condition.as_ref().is_none_or(|condition| self.holds(condition));
            if !applies {
                continue;
            }
            let backend = match &rule.target {
                BackendTarget::Static(index) => self.instance.proxies.get(index.get())?,
                BackendTarget::Dynamic(name) => {
                    let name = self.format(name);
                    // A name that designates nothing falls through to the default (manual, "use_backend").
                    match std::str::from_utf8(&name).ok().and_then(|name| self.instance.backend_by_name(name))
                    {
                        Some(backend) => backend,
                        None => break,
                    }
                }
            };
            if self.may_switch_to(backend) {
                return Some(backend);
            }
        }
        match frontend.config.default_backend {
            Some(index) => {
                let backend = self.instance.proxies.get(index.get())?;
                self.may_switch_to(backend).then_some(backend)
            }
            None => frontend.config.is_backend().then_some(frontend),
        }
    }

    /// Whether a backend may be chosen: it is not `disabled`, and it is published or `force-be-switch` overrides that. Rules that
    /// name another backend are skipped. A connection that went on in HTTP does not come back to TCP.
    fn may_switch_to(&mut self, backend: &'static Proxy) -> bool {
        if backend.config.settings.disabled || (self.session.is_upgraded() && !backend.is_http()) {
            return false;
        }
        let frontend = self.frontend;
        backend.is_published() || frontend.config.force_switch.iter().any(|condition| self.holds(condition))
    }

    /// Enters the backend: its timeouts apply and it counts the stream.
    pub(crate) fn enter_backend(&mut self, backend: &'static Proxy) {
        self.backend = backend;
        self.choice.last = None;
        self.entry.backend.set(backend.index as u32);
        if !std::ptr::eq(backend, self.frontend) {
            self.timeouts.leave_section(&self.frontend.timeouts);
            self.attempts.leave_section();
        }
        self.timeouts.enter_backend(&backend.timeouts);
        self.attempts.allow(backend.config.settings.retries);
        self.visit = BackendVisit::enter(backend.servers());
        backend.count_backend_session(self.request.is_known());
        if !std::ptr::eq(backend, self.frontend) {
            self.attach_filters(backend);
        }
        self.tell_filters_backend();
    }
}
