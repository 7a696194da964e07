//! Runs the rules of the frontend and the backend, and chooses the backend between them.

use weir_containers::PooledFuture;
use weir_http::Method;
use weir_model::BackendTarget;
use weir_model::RulesetKind;

use crate::counters::CountedEvent;
use crate::ending::{By, During, Ending};
use crate::fastcgi;
use crate::http::request::target_as;
use crate::instance::{Proxy, ProxyRef};
use crate::passwords;
use crate::reservation;
use crate::rules::RulesetResult;
use crate::stream::engines;
use crate::stream::phases::RequestPhase;
use crate::stream::rule_state::{RuleKey, RuleList};
use crate::stream::{PhaseResult, ProxySide, Stream, StreamError};
use crate::upstream::VisitedBackend;

/// The decision of the `use_backend` rules.
enum RoutingDecision {
    /// This backend is used.
    To(ProxyRef),
    /// No backend is used.
    Nowhere,
    Undecided,
}

impl RequestPhase {
    /// The frontend's rules on a request, in the manual's order.
    pub(super) async fn frontend_phase(&mut self) -> PhaseResult {
        if !self.stream.frontend.used_userlists.always.is_empty() {
            passwords::verify_ahead(&mut self.stream, ProxySide::Frontend, |lists| &lists.always).await?;
        }
        if !self.stream.began_in_tcp
            && let Err(stop) = self.stream.inspection().content_rules(ProxySide::Frontend).await
        {
            // Content rules see bytes. A client refused by them has not made a request, in counters and logs.
            self.stream.timers.request = None;
            return Err(stop);
        }
        self.stream.counts().count_request();
        self.stream.tracking().count_tracked_request();
        self.check_monitor()?;
        self.request_rules(ProxySide::Frontend).await
    }

    /// The backend's rules on a request.
    pub(super) async fn backend_phase(&mut self) -> PhaseResult {
        if self.stream.has_other_backend() {
            if !self.stream.backend.used_userlists.always.is_empty() {
                passwords::verify_ahead(&mut self.stream, ProxySide::Backend, |lists| &lists.always).await?;
            }
            self.stream.inspection().content_rules(ProxySide::Backend).await?;
            self.request_rules(ProxySide::Backend).await?;
        }
        if self.stream.backend.config.settings.options.http_buffer_request
            || self.stream.as_choice_phase().balances_on_body()
            || fastcgi::waits_for_body(&self.stream)
        {
            let time = self.stream.frontend.config.settings.timeouts.http_request;
            self.stream.inspection().wait_for_body(0, time).await?;
        }
        self.stream.log_line().capture_request_cookie();
        // Waits of rules count as time to receive the request, not as time to reach a server.
        self.stream.timers.request = Some(self.stream.elapsed());
        Ok(())
    }

    /// `http-request` rules, the statistics page, then `redirect` lines of one proxy.
    async fn request_rules(&mut self, side: ProxySide) -> PhaseResult {
        if self.stream.proxy(side).config.settings.options.http_buffer_request {
            let time = self.stream.frontend.config.settings.timeouts.http_request;
            self.stream.inspection().wait_for_body(0, time).await?;
        }
        if engines::has_events(&self.stream, engines::before_request_rules(side)) {
            PooledFuture::new(self.stream.engine_phase().raise(engines::before_request_rules(side))).await?;
        }
        if self.stream.proxy(side).has_rules(RulesetKind::HttpRequest)
            && let RulesetResult::Stop(stop) = self.stream.run_rules(side, RulesetKind::HttpRequest).await?
        {
            return Err(stop);
        }
        self.restrict_header_names(side)?;
        if !self.stream.proxy(side).used_userlists.outside_of_rules.is_empty() {
            passwords::verify_ahead(&mut self.stream, side, |lists| &lists.outside_of_rules).await?;
        }
        if requests_statistics(&self.stream, side) {
            PooledFuture::new(self.stream.reply_phase().serve_statistics(side)).await?;
        }
        if self.stream.proxy(side).config.redirects.is_empty() {
            return Ok(());
        }
        let is_scripted = self.reserve_for_routing(side).await?;
        let redirected = redirect_lines(&mut self.stream, side);
        reservation::end(is_scripted);
        redirected
    }

    /// Chooses the backend and enters it, with the state of scripts that its rules use.
    pub(super) async fn route_in_turn(&mut self) -> PhaseResult {
        let is_scripted = self.reserve_for_routing(ProxySide::Frontend).await?;
        let routed = self.route();
        reservation::end(is_scripted);
        routed
    }

    /// Reserves the shared state of scripts, if redirects or the choice of a backend use it. Returns whether they do.
    pub(crate) async fn reserve_for_routing(&mut self, side: ProxySide) -> PhaseResult<bool> {
        let functions = &self.stream.proxy(side).scripted.in_routing;
        let is_scripted = reservation::is_needed(&self.stream, functions);
        if is_scripted {
            reservation::reserve(&mut self.stream).await?;
        }
        Ok(is_scripted)
    }

    /// Chooses the backend and enters it.
    fn route(&mut self) -> PhaseResult {
        let backend = self.choose_backend()?;
        self.enter_backend(backend);
        Ok(())
    }

    /// Chooses the backend: `use_backend` rules, then `default_backend`, then the proxy itself.
    pub(crate) fn choose_backend(&mut self) -> PhaseResult<ProxyRef> {
        let Some(backend) = self.routed_backend() else {
            self.stream.counts().count(CountedEvent::FailedConnection);
            // As in HAProxy, the log omits the time of the request here, unless the request was buffered.
            if !self.stream.frontend.config.settings.options.http_buffer_request {
                self.stream.timers.request = None;
            }
            return Err(StreamError::error(503, By::Server, During::Connect));
        };
        Ok(backend)
    }

    fn routed_backend(&mut self) -> Option<ProxyRef> {
        if !self.stream.frontend.config.use_backend.is_empty() {
            match backend_by_rules(&mut self.stream) {
                RoutingDecision::To(backend) => return Some(backend),
                RoutingDecision::Nowhere => return None,
                RoutingDecision::Undecided => {}
            }
        }
        match self.stream.frontend.config.default_backend {
            Some(index) => {
                let backend = self.stream.frontend.sibling(index.get())?;
                self.may_switch_to(&backend).then_some(backend)
            }
            None => self.stream.frontend.config.is_backend().then(|| self.stream.frontend.clone()),
        }
    }

    /// Whether a backend may be chosen: it is not `disabled`, and it is published or `force-be-switch` overrides that. Rules that name any
    /// other backend are skipped. A connection switched to HTTP cannot return to a TCP backend.
    fn may_switch_to(&mut self, backend: &Proxy) -> bool {
        // A computed name may be that of an agent's backend.
        if backend.config.settings.disabled
            || backend.is_spop()
            || (self.stream.session.is_upgraded() && !backend.is_http())
        {
            return false;
        }
        backend.is_published() || forces_switch(&mut self.stream)
    }

    /// Enters the backend, which counts the stream. The backend's timeouts apply from now on.
    pub(crate) fn enter_backend(&mut self, backend: ProxyRef) {
        self.stream.backend = VisitedBackend::enter(backend);
        self.stream.choice.last = None;
        self.stream.entry.backend.set(self.stream.backend.index as u32);
        if self.stream.has_other_backend() {
            self.stream.timeouts.leave_section(&self.stream.frontend.timeouts);
            self.stream.attempts.leave_section();
        }
        self.stream.timeouts.enter_backend(&self.stream.backend.timeouts);
        self.stream.attempts.allow(self.stream.backend.config.settings.retries);
        self.stream.backend.count_backend_session(self.stream.request.is_known());
        if self.stream.has_other_backend() {
            self.stream.attach_filters(ProxySide::Backend);
        }
        self.stream.notify_filters_of_backend();
    }
}

/// Whether a `force-be-switch` rule applies.
#[cold]
fn forces_switch(stream: &mut Stream) -> bool {
    let frontend = stream.frontend.clone();
    frontend.config.force_switch.iter().any(|condition| stream.holds(condition))
}

/// The decision of the `use_backend` rules.
fn backend_by_rules(stream: &mut Stream) -> RoutingDecision {
    stream.inspection().receive_what_came();
    let frontend = stream.frontend.clone();
    for rule in &frontend.config.use_backend {
        let applies = rule.condition.as_ref().is_none_or(|condition| stream.holds(condition));
        if !applies {
            continue;
        }
        let position = match &rule.target {
            BackendTarget::Static(index) => index.get(),
            BackendTarget::Dynamic(name) => {
                let name = stream.format(name);
                let backends = &frontend.instance().backends;
                // An unknown name falls through to the default backend (manual, "use_backend").
                match std::str::from_utf8(&name).ok().and_then(|name| backends.get(name)) {
                    Some(position) => *position,
                    None => break,
                }
            }
        };
        let Some(backend) = frontend.sibling(position) else { return RoutingDecision::Nowhere };
        if stream.request_phase().may_switch_to(&backend) {
            return RoutingDecision::To(backend);
        }
    }
    RoutingDecision::Undecided
}

/// `redirect` lines of one proxy.
fn redirect_lines(stream: &mut Stream, side: ProxySide) -> PhaseResult {
    let proxy = stream.proxy(side).clone();
    for (position, rule) in (0..).zip(&proxy.config.redirects) {
        let applies = rule.condition.as_ref().is_none_or(|condition| stream.holds(condition));
        if applies && stream.reply_phase().prepare_redirect(&rule.redirect) {
            stream.rules.decided_by = Some(RuleKey { side, list: RuleList::Redirects, position });
            stream.rules.stop_by_rule();
            proxy.count_intercepted();
            return Err(StreamError::Reply(Ending::new(By::Local, During::Request)));
        }
    }
    Ok(())
}

/// Whether the target of the request is the statistics page of this proxy.
fn requests_statistics(stream: &Stream, side: ProxySide) -> bool {
    let Some(stats) = &stream.proxy(side).config.settings.stats else { return false };
    let uri = stats.uri().as_bytes();
    let message = &stream.request.message;
    target_as(uri, &message.head, message.bytes()).starts_with(uri)
        && matches!(message.head.method(), Method::Get | Method::Head | Method::Post)
}
