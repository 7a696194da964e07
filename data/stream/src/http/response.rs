//! Rules on the response.

use weir_containers::PooledFuture;
use weir_model::RulesetKind;
use weir_model::SpoeEvent;

use crate::rules::RulesetResult;
use crate::spoe;
use crate::stream::engines;
use crate::stream::phases::ResponsePhase;
use crate::stream::{PhaseResult, ProxySide};

impl ResponsePhase {
    /// Runs the backend's response rules, then the frontend's, then `http-after-response` rules.
    pub(super) async fn examine(&mut self) -> PhaseResult {
        self.begin_response_rules();
        self.stream.log_line().capture_response();
        self.stream.inspection().response_content_rules().await?;
        if let Some(wait) = self.stream.tracking_mut().remember_server_by_response() {
            wait.await?;
        }
        if engines::has_events(&self.stream, &[SpoeEvent::HttpResponse]) {
            PooledFuture::new(self.stream.engine_phase().raise(&[SpoeEvent::HttpResponse])).await?;
        }
        if self.has_response_rules(RulesetKind::HttpResponse) {
            PooledFuture::new(self.response_rules(RulesetKind::HttpResponse)).await?;
        }
        // Response rules see the server's response. Only after-response rules see the persistence cookie.
        crate::cookie::on_response(&mut self.stream);
        self.stream.request_phase().check_cacheable_cookies()?;
        if self.has_response_rules(RulesetKind::HttpAfterResponse) {
            PooledFuture::new(self.response_rules(RulesetKind::HttpAfterResponse)).await?;
        }
        Ok(())
    }

    /// Whether one of the stream's proxies has response rules of this kind. The future that runs them is boxed: otherwise each stream that
    /// waits for its server would hold memory for it.
    #[inline]
    pub(crate) fn has_response_rules(&self, kind: RulesetKind) -> bool {
        self.stream.backend.has_rules(kind) || self.stream.frontend.has_rules(kind)
    }

    /// Runs the response rules of this kind, those of the backend first.
    pub(crate) async fn response_rules(&mut self, kind: RulesetKind) -> PhaseResult {
        if kind == RulesetKind::HttpAfterResponse {
            self.add_kept_cookies();
        }
        for side in self.sides_backend_first() {
            if let RulesetResult::Stop(stop) = self.stream.run_rules(side, kind).await? {
                return Err(stop);
            }
        }
        Ok(())
    }

    /// Adds the cookies that actions kept for the response ([`weir_model::ActionFacts::adds_to_response`]).
    pub(crate) fn add_kept_cookies(&mut self) {
        for cookie in self.stream.captures.take_set_cookies() {
            if self.stream.response.message.head.add(b"set-cookie", &cookie).is_err() {
                self.stream.frontend.count_failed_rewrite();
            }
        }
    }

    /// Starts response rules: drops the variables of scope `req`, and scope `res` becomes valid.
    pub(crate) fn begin_response_rules(&mut self) {
        if self.stream.rules.begin_response() {
            self.stream.variables.end_request();
            self.stream.charge_variables();
            if let Some(attached) = &mut self.stream.attached {
                let early = std::mem::take(&mut attached.early);
                spoe::set_early(&mut self.stream, early);
            }
        }
    }

    /// The backend, then the frontend. Only the backend if both are the same proxy.
    pub(crate) fn sides_backend_first(&self) -> impl Iterator<Item = ProxySide> + use<> {
        let frontend = self.stream.has_other_backend().then_some(ProxySide::Frontend);
        std::iter::once(ProxySide::Backend).chain(frontend)
    }
}
