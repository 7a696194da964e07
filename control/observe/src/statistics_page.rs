//! The statistics page: responses to its requests.

use std::sync::{Arc, Weak};
use std::time::Duration;

use weir_model::{Stats, StatsScope, StatsText};
use weir_mux::{BodyProducer, ProducerStep};
use weir_stats::admin::Trust;
use weir_stats::{DumpProgress, PageSettings, StatsAnswer, StatsRequest, What, admin, page};
use weir_stream::instance::service::{self, FormSender, PageRequest, Statistics};
use weir_stream::instance::{Instance, Proxy};

use super::{LiveProcess, ProcessRecord, WeakLive, metrics};

/// Serves the statistics page and Prometheus.
pub struct StatisticsPage {
    /// A weak reference, because the record refers to the instance, which owns the page.
    record: Weak<ProcessRecord>,
}

impl StatisticsPage {
    /// The statistics page of this process.
    pub fn new(live: &WeakLive) -> Self {
        StatisticsPage { record: Weak::clone(&live.record) }
    }
}

impl Statistics for StatisticsPage {
    fn page(&self, instance: &Arc<Instance>, request: &PageRequest<'_>) -> service::PageService {
        let proxy = &instance.proxies[request.proxy];
        let Some(stats) = proxy.config.settings.stats.as_deref() else { return empty(404) };
        let uri = stats.uri();
        let stats_request = std::str::from_utf8(request.target).ok();
        let Some(stats_request) = stats_request.and_then(|target| StatsRequest::parse(uri, target)) else {
            return empty(400);
        };
        let Some(record) = self.record.upgrade() else { return empty(503) };
        let mut live = LiveProcess { instance: Arc::clone(instance), record };
        if let Some(form) = request.form {
            let body = (form.len() <= admin::LONGEST_FORM).then_some(form);
            let token = live.record.form_token.clone();
            let trust = match request.sender {
                _ if !request.admin => Trust::Nobody,
                FormSender::OtherSite => Trust::Nobody,
                FormSender::Page => Trust::Page { token: &token },
                FormSender::Script => Trust::Script,
            };
            let status = admin::post(body, trust, &mut live);
            // Redirect the browser to a GET, so that a reload does not repeat the change.
            let location = admin::location(uri, &stats_request, status).into_bytes();
            return service::PageService {
                location: Some(location),
                content_type: "text/plain",
                ..empty(303)
            };
        }
        answer(live, proxy, stats, stats_request, request.admin)
    }

    fn metrics(&self, instance: &Arc<Instance>, query: &[u8], accept: &[u8]) -> Option<service::PageService> {
        let record = self.record.upgrade()?;
        metrics::page(&LiveProcess { instance: Arc::clone(instance), record }, query, accept)
    }
}

fn answer(
    live: LiveProcess,
    proxy: &Proxy,
    stats: &Stats,
    stats_request: StatsRequest,
    admin: bool,
) -> service::PageService {
    let settings = settings(&live, proxy, stats, admin);
    let refresh = settings.refresh(&stats_request).map(|seconds| Duration::from_secs(u64::from(seconds)));
    let content_type = stats_request.content_type();
    let policy = (stats_request.what == What::Page).then_some(page::POLICY);
    let body: Box<dyn BodyProducer> =
        Box::new(StatisticsAnswer { live, answer: StatsAnswer::new(settings, stats_request) });
    service::PageService { refresh, policy, body: Some(body), content_type, ..empty(200) }
}

fn settings(live: &LiveProcess, proxy: &Proxy, stats: &Stats, admin: bool) -> PageSettings {
    let of_text = |text: &StatsText, of_process: Option<&str>| match text {
        StatsText::Global => of_process.map(str::to_owned),
        StatsText::Own(own) => Some(own.to_string()),
    };
    let of_scope = |scope: &StatsScope| match scope {
        StatsScope::Own => proxy.name().to_owned(),
        StatsScope::Named(name) => name.to_string(),
    };
    PageSettings {
        uri: stats.uri().to_owned(),
        hide_version: stats.hide_version,
        refresh_s: stats
            .refresh
            .map(|every| u32::try_from(every.as_secs()).unwrap_or(u32::MAX))
            .filter(|&seconds| seconds > 0),
        node: stats.show_node.as_ref().and_then(|text| of_text(text, Some(&live.instance.identity.node))),
        description: stats
            .show_description
            .as_ref()
            .and_then(|text| of_text(text, live.record.description.as_deref())),
        legends: stats.show_legends,
        modules: stats.show_modules,
        form_token: admin.then(|| live.record.form_token.clone()),
        proxies: stats.scope.iter().map(of_scope).collect(),
    }
}

/// A response in progress: the page or the metrics.
struct StatisticsAnswer {
    live: LiveProcess,
    answer: StatsAnswer,
}

impl BodyProducer for StatisticsAnswer {
    fn advance(&mut self, enough: usize, out: &mut Vec<u8>) -> ProducerStep {
        let enough = out.len().saturating_add(enough);
        match self.answer.advance(&self.live, enough, out) {
            DumpProgress::More => ProducerStep::More,
            DumpProgress::Done => ProducerStep::Last,
        }
    }
}

fn empty(status: u16) -> service::PageService {
    service::PageService { status, content_type: "", policy: None, location: None, refresh: None, body: None }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::with_live;
    use super::*;

    fn request<'a>(target: &'a [u8], form: Option<&'a [u8]>, admin: bool) -> PageRequest<'a> {
        let sender = FormSender::Script;
        PageRequest { proxy: 0, suffix: &target[b"/stats".len()..], target, form, admin, sender }
    }

    fn page(live: &LiveProcess, target: &str) -> service::PageService {
        live.instance
            .hooks
            .statistics
            .as_ref()
            .expect("a page")
            .page(&live.instance, &request(target.as_bytes(), None, false))
    }

    #[test]
    fn the_statistics_page_is_available_in_html_csv_and_json() {
        with_live(|live| {
            let text = |target: &str| {
                let mut body = Vec::new();
                let mut service = page(&live, target).body.expect("a page has a body");
                while service.advance(100, &mut body) == ProducerStep::More {}
                String::from_utf8(body).unwrap()
            };
            assert!(text("/stats").contains("<html"));
            assert!(text("/stats;csv").starts_with("# pxname,svname,"));
            assert!(text("/stats;csv;scope=bs").lines().skip(1).all(|line| line.starts_with("bs,")));
            assert!(text("/stats;json").starts_with("[["));
            assert_eq!(page(&live, "/stats").content_type, "text/html");
            assert_eq!(page(&live, "/stats;csv").content_type, "text/plain");
        });
    }

    #[test]
    fn a_posted_form_changes_servers_and_redirects_the_browser() {
        with_live(|live| {
            let post = |form: &str, admin: bool| {
                let request = request(b"/stats", Some(form.as_bytes()), admin);
                let page =
                    live.instance.hooks.statistics.as_ref().expect("a page").page(&live.instance, &request);
                (page.status, String::from_utf8(page.location.unwrap()).unwrap())
            };
            let form = "s=s1&s=s2&action=maint&b=%233";
            assert_eq!(post(form, false), (303, "/stats;st=DENY".to_owned()));
            assert_eq!(post(form, true), (303, "/stats;st=DONE".to_owned()));
            let servers = live.instance.proxies[1].backend.as_ref().unwrap().servers();
            assert!(servers[0].admin_state().is_maintenance() && servers[1].admin_state().is_maintenance());
            assert_eq!(post("s=s1&s=nosuch&action=ready&b=be", true), (303, "/stats;st=PART".to_owned()));
            assert!(!servers[0].admin_state().is_maintenance());
        });
    }
}
