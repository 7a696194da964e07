//! The metrics for Prometheus: statistics rows, stick-tables and name servers.

use weir_memory::shortage;
use weir_mux::{BodyProducer, ProducerStep};
use weir_resolvers::QueryCounter;
use weir_stats::prometheus::{NameServerMetrics, ScrapeMemory, TableMetrics};
use weir_stats::{DumpProgress, MetricsDump, MetricsRequest, MetricsSource};
use weir_stream::instance::service::PageService;

use super::LiveProcess;

impl MetricsSource for LiveProcess {
    fn table(&self, position: usize) -> Option<TableMetrics<'_>> {
        let table = self.instance.tables.get(position)?;
        let declaration = table.declaration();
        Some(TableMetrics {
            name: &declaration.name,
            key_type: declaration.key.name(),
            size: declaration.size,
            used: table.used(),
            evicted: table.evicted(),
            refused: table.refused(),
        })
    }

    fn name_server(&self, position: usize) -> Option<NameServerMetrics<'_>> {
        let sections = self.record.resolvers.as_ref()?.sections();
        let servers = sections
            .iter()
            .flat_map(|section| section.name_servers.iter().map(move |server| (section, server)));
        let (section, server) = servers.into_iter().nth(position)?;
        Some(NameServerMetrics {
            section: &section.settings.name,
            name: &server.name,
            counters: QueryCounter::ALL.map(|counter| server.counters.value(counter)),
        })
    }
}

/// The response to a scrape with this query and `Accept` field. `None` if the query is invalid.
pub(super) fn page(live: &LiveProcess, query: &[u8], accept: &[u8]) -> Option<PageService> {
    let request = MetricsRequest::parse(query)?.accepting(accept);
    let content_type = request.form.content_type();
    let scrape = Scrape { live: live.clone(), dump: MetricsDump::new(request, &MEMORY) };
    let body: Option<Box<dyn BodyProducer>> = Some(Box::new(scrape));
    Some(PageService { status: 200, content_type, policy: None, location: None, refresh: None, body })
}

/// Memory for two scrapes of ten thousand servers each, or one of twenty-five thousand, that read each server once.
static MEMORY: ScrapeMemory = ScrapeMemory::new(16 << 20, shortage::is_short);

/// A scrape in progress.
struct Scrape {
    live: LiveProcess,
    dump: MetricsDump,
}

impl BodyProducer for Scrape {
    fn advance(&mut self, enough: usize, out: &mut Vec<u8>) -> ProducerStep {
        let enough = out.len().saturating_add(enough);
        match self.dump.advance(&self.live, enough, out) {
            DumpProgress::More => ProducerStep::More,
            DumpProgress::Done => ProducerStep::Last,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_backend::{BackendCounter, FrontendCounter, ServerCounter};

    use super::super::fixture::with_live;
    use super::*;

    fn scrape(live: &LiveProcess, query: &str) -> String {
        let page = live.instance.hooks.statistics.as_ref().expect("a page").metrics(
            &live.instance,
            query.as_bytes(),
            b"",
        );
        let mut service = page.and_then(|page| page.body).expect("a scrape has a body");
        let mut body = Vec::new();
        while service.advance(100, &mut body) == ProducerStep::More {}
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn counters_appear_as_prometheus_metrics() {
        with_live(|live| {
            let (fe, be) = (&live.instance.proxies[0], &live.instance.proxies[1]);
            fe.frontend_counters.add(0, FrontendCounter::Requests, 5);
            be.backend_counters.add(0, BackendCounter::BytesIn, 77);
            let s2 = be.servers().server_by_name("s2").expect("a server of the configuration");
            s2.counters().add(0, ServerCounter::Http2xx, 3);
            let text = scrape(&live, "");
            for line in [
                "# TYPE haproxy_frontend_http_requests_total counter",
                "haproxy_frontend_http_requests_total{proxy=\"fe\"} 5",
                "haproxy_backend_bytes_in_total{proxy=\"be\"} 77",
                "haproxy_server_http_responses_total{proxy=\"be\",server=\"s2\",code=\"2xx\"} 3",
            ] {
                assert!(text.lines().any(|found| found == line), "{line}\n{text}");
            }
        });
    }

    #[test]
    fn a_query_selects_metrics_by_scope_and_name() {
        with_live(|live| {
            let text = scrape(&live, "scope=server&metrics=haproxy_server_weight");
            assert!(text.starts_with("# HELP haproxy_server_weight "), "{text}");
            assert!(text.lines().skip(2).all(|line| line.starts_with("haproxy_server_weight{")), "{text}");
            assert_eq!(scrape(&live, "scope="), "");
            assert!(
                live.instance
                    .hooks
                    .statistics
                    .as_ref()
                    .expect("a page")
                    .metrics(&live.instance, b"scope=x", b"")
                    .is_none()
            );
        });
    }
}
