//! Rules on the response.

use weir_containers::PooledFuture;
use weir_model::RulesetKind;

use crate::rules::RulesetResult;
use crate::stream::phases::ResponsePhase;
use crate::stream::{PhaseResult, ProxySide};

impl ResponsePhase {
    /// Runs the backend's rules, then the frontend's, then those for every response.
    pub(super) async fn examine(&mut self) -> PhaseResult {
        self.begin_response_rules();
        self.stream.log_line().capture_response();
        self.stream.inspection().response_content_rules().await?;
        self.stream.tracking_mut().remember_server_by_response();
        if self.has_response_rules(RulesetKind::HttpResponse) {
            PooledFuture::new(self.response_rules(RulesetKind::HttpResponse)).await?;
        }
        // Response rules see the server's response; the persistence cookie is only seen by after-response rules.
        crate::cookie::on_response(&mut self.stream);
        self.stream.request_phase().check_cacheable_cookies()?;
        if self.has_response_rules(RulesetKind::HttpAfterResponse) {
            PooledFuture::new(self.response_rules(RulesetKind::HttpAfterResponse)).await?;
        }
        Ok(())
    }

    /// Whether one of the stream's proxies has rules of a kind for responses. The future that runs them is boxed, or
    /// each stream that waits for its server would take memory for it.
    #[inline]
    pub(crate) fn has_response_rules(&self, kind: RulesetKind) -> bool {
        self.stream.backend.has_rules(kind) || self.stream.frontend.has_rules(kind)
    }

    async fn response_rules(&mut self, kind: RulesetKind) -> PhaseResult {
        for side in self.sides_backend_first() {
            if let RulesetResult::Stop(stop) = self.stream.run_rules(side, kind).await? {
                return Err(stop);
            }
        }
        Ok(())
    }

    /// Response rules begin: the variables of the request's scope end, those of the response's begin.
    pub(crate) fn begin_response_rules(&mut self) {
        if self.stream.rules.begin_response() {
            self.stream.variables.end_request();
            self.stream.charge_variables();
        }
    }

    /// The backend and then the frontend, or the one proxy that is both.
    pub(crate) fn sides_backend_first(&self) -> impl Iterator<Item = ProxySide> + use<> {
        let frontend = self.stream.has_other_backend().then_some(ProxySide::Frontend);
        std::iter::once(ProxySide::Backend).chain(frontend)
    }
}
