//! Services that respond in place of a server: the statistics page and the Prometheus exporter.

mod sender;

use weir_http::Method;
use weir_model::StatsVerdict;

use crate::counters::CountedEvent;
use crate::ending::{By, During, Ending};
use crate::http::request::target_as;
use crate::instance::Proxy;
use crate::instance::service::{PageRequest, PageService};
use crate::stream::phases::ReplyPhase;
use crate::stream::response::LocalName;
use crate::stream::{PhaseResult, ProxySide, StreamError};
use weir_vocabulary::FetchView as _;

impl ReplyPhase {
    /// Responds with the statistics page.
    pub(crate) async fn serve_statistics(&mut self, side: ProxySide) -> PhaseResult {
        let proxy = self.stream.proxy(side).clone();
        let Some(stats) = &proxy.config.settings.stats else { return Ok(()) };
        let uri = stats.uri().as_bytes();
        let method = self.stream.request.message.head.method();
        self.stream.response.service = LocalName::Statistics;
        self.judge_statistics(stats)?;
        let admin = stats.admin.iter().any(|line| self.stream.holds(&line.condition));
        let form = match method {
            Method::Post => {
                self.stream.inspection().wait_for_body(0, None).await?;
                Some(self.stream.request_body().map_or(Vec::new(), |body| body.bytes.to_vec()))
            }
            _ => None,
        };
        let (head, raw) = (&self.stream.request.message.head, self.stream.request.message.bytes());
        let target = target_as(uri, head, raw);
        let request = PageRequest {
            proxy: proxy.index,
            suffix: &target[uri.len()..],
            target,
            form: form.as_deref(),
            admin,
            sender: sender::of_request(head, raw, self.stream.client.tls().is_some()),
        };
        let instance = self.stream.frontend.instance();
        let page = instance.hooks.statistics.as_ref().map(|made| made.page(instance.shared(), &request));
        match page {
            Some(page) => self.prepare_statistics(page),
            None => self.prepare_error(503),
        }
        Err(self.served(&proxy))
    }

    /// `use-service prometheus-exporter`: responds to any method.
    #[cold]
    pub(crate) fn serve_metrics(&mut self, proxy: &Proxy) -> StreamError {
        self.stream.response.service = LocalName::Metrics;
        let head = &self.stream.request.message.head;
        let raw = self.stream.request.message.bytes();
        let query = head.query(raw).unwrap_or_default();
        let accept = head.lines(raw, b"accept").next().unwrap_or_default();
        let instance = self.stream.frontend.instance();
        let statistics = instance.hooks.statistics.as_ref();
        match statistics.and_then(|made| made.metrics(instance.shared(), query, accept)) {
            Some(page) => self.prepare_statistics(page),
            None => self.prepare_error(400),
        }
        self.served(proxy)
    }

    /// The result of a service that has prepared its response.
    fn served(&mut self, proxy: &Proxy) -> StreamError {
        proxy.count_intercepted();
        // For the log, the service counts as a server that connects and responds immediately.
        let now = Some(self.stream.elapsed());
        (self.stream.timers.queue, self.stream.timers.connect, self.stream.timers.response) = (now, now, now);
        StreamError::Reply(Ending::new(By::Local, During::Request))
    }

    /// `stats http-request` rules, then `stats auth`.
    fn judge_statistics(&mut self, stats: &weir_model::Stats) -> PhaseResult {
        for rule in &stats.http_request {
            if rule.condition.as_ref().is_some_and(|condition| !self.stream.holds(condition)) {
                continue;
            }
            match &rule.verdict {
                StatsVerdict::Allow => return Ok(()),
                StatsVerdict::Deny => {
                    self.stream.counts().count(CountedEvent::DeniedRequest);
                    self.prepare_error(403);
                    return Err(StreamError::Reply(Ending::new(By::Proxy, During::Request)));
                }
                StatsVerdict::Auth { realm } => {
                    if self.statistics_user_known(stats) {
                        return Ok(());
                    }
                    return Err(
                        self.demand_statistics_user(realm.as_deref().unwrap_or_else(|| stats.realm()))
                    );
                }
            }
        }
        if stats.users.is_empty() || self.statistics_user_known(stats) {
            return Ok(());
        }
        Err(self.demand_statistics_user(stats.realm()))
    }

    fn demand_statistics_user(&mut self, realm: &str) -> StreamError {
        self.prepare_authentication(realm);
        StreamError::Reply(Ending::new(By::Proxy, During::Request))
    }

    fn statistics_user_known(&self, stats: &weir_model::Stats) -> bool {
        let (head, raw) = (&self.stream.request.message.head, self.stream.request.message.bytes());
        let Some(credentials) = head.find_known(raw, weir_http::KnownName::Authorization) else {
            return false;
        };
        let Some(given) = weir_http::auth::basic(credentials) else { return false };
        stats
            .users
            .iter()
            .any(|(user, password)| user.as_bytes() == given.user && password.as_bytes() == given.password)
    }

    fn prepare_statistics(&mut self, page: PageService) {
        let refresh = page.refresh.map(|every| every.as_secs().to_string());
        let mut headers: Vec<(&[u8], &[u8])> = vec![(b"cache-control", b"no-cache")];
        if !page.content_type.is_empty() {
            headers.push((b"content-type", page.content_type.as_bytes()));
        }
        if let Some(policy) = page.policy {
            // Prevents clickjacking: other sites may not show the page in a frame.
            headers.push((b"x-frame-options", b"DENY"));
            headers.push((b"content-security-policy", policy.as_bytes()));
        }
        if let Some(location) = &page.location {
            headers.push((b"location", location));
        }
        if let Some(refresh) = &refresh {
            headers.push((b"refresh", refresh.as_bytes()));
        }
        self.prepare_page(page.status, &headers, page.body);
    }
}
