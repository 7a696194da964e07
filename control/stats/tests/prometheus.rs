//! Scrapes: the lines, their order, and the size of the pieces.

use std::cell::Cell;
use std::ops::ControlFlow;

use weir_events::Histogram;
use weir_stats::name_server::COUNTERS;
use weir_stats::prometheus::{NameServerMetrics, ScrapeMemory, TableMetrics};
use weir_stats::{
    DumpProgress, Health, InfoField, InfoRow, Latencies, MetricsDump, MetricsRequest, MetricsSource,
    ProxyHead, RowCursor, RowSelection, StatsField, StatsObject, StatsRow, StatsSource,
};

/// A frontend in each mode, and a backend with this many servers. The first server is down, the second is in maintenance, the others
/// are not checked.
struct Shop {
    servers: usize,
    /// Maximum number of fields requested for one row.
    most_fields: Cell<usize>,
    /// Number of calls that visit rows.
    visits: Cell<usize>,
    /// Number of rows filled.
    rows: Cell<usize>,
    /// Total number of fields requested.
    fields: Cell<usize>,
}

const FE: ProxyHead<'static> = ProxyHead {
    id: 2,
    name: "fe",
    mode: "http",
    frontend: true,
    backend: false,
    has_servers: false,
    description: Some("the \"front\""),
};
const TCP: ProxyHead<'static> = ProxyHead { id: 3, name: "tcp", mode: "tcp", description: None, ..FE };
const BE: ProxyHead<'static> = ProxyHead {
    id: 4,
    name: "be",
    frontend: false,
    backend: true,
    has_servers: true,
    description: None,
    ..FE
};

/// Enough memory for all servers of these tests.
static MEMORY: ScrapeMemory = ScrapeMemory::new(1 << 20, || false);

impl Shop {
    fn new(servers: usize) -> Self {
        Self {
            servers,
            most_fields: Cell::new(0),
            visits: Cell::new(0),
            rows: Cell::new(0),
            fields: Cell::new(0),
        }
    }

    fn fill(&self, object: usize, row: &mut StatsRow) -> bool {
        // A metric needs its own field, two names, and the fields that determine its presence.
        let filled = row.only().map_or(usize::MAX, |only| only.iter().count());
        self.most_fields.set(self.most_fields.get().max(filled));
        self.fields.set(self.fields.get() + filled);
        match object {
            0 => frontend(&FE, row),
            1 => frontend(&TCP, row),
            at if at < 2 + self.servers => server(at - 1, row),
            at if at == 2 + self.servers => {
                row.begin(StatsObject::Backend, &BE, 0, "");
                row.set(StatsField::Status, "UP");
            }
            _ => return false,
        }
        true
    }
}

impl StatsSource for Shop {
    fn visit_rows(
        &self,
        cursor: &mut RowCursor,
        _: &RowSelection,
        row: &mut StatsRow,
        visit: &mut dyn FnMut(&StatsRow) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.visits.set(self.visits.get() + 1);
        while self.fill(cursor.object, row) {
            cursor.object += 1;
            self.rows.set(self.rows.get() + 1);
            visit(row)?;
        }
        ControlFlow::Continue(())
    }

    fn info(&self, _: bool, info: &mut InfoRow) {
        info.set(InfoField::Nbthread, 2u32);
        info.set(InfoField::Node, "n1");
        info.set(InfoField::Description, "all");
    }
}

fn frontend(head: &ProxyHead<'_>, row: &mut StatsRow) {
    row.begin(StatsObject::Frontend, head, 0, "");
    row.set(StatsField::Status, "STOP");
    row.set(StatsField::Hrsp2xx, 7u64);
}

fn server(number: usize, row: &mut StatsRow) {
    row.begin(StatsObject::Server, &BE, number as u32, &format!("s{number}"));
    let (mut latencies, totals) = (Latencies::default(), Histogram::default());
    [0, 63, 64, 1_500, 90_000_000].into_iter().for_each(|us| totals.record(us));
    totals.read_into(&mut latencies[3]);
    row.set_latencies(latencies);
    row.set(StatsField::Qtime, 1500u32);
    match number {
        1 => {
            row.set_health(Health::Down);
            row.set(StatsField::CheckStatus, "* L4CON");
            row.set(StatsField::CheckDuration, 3u64);
        }
        2 => row.set_health(Health::Maintenance),
        _ => {}
    }
}

impl MetricsSource for Shop {
    fn table(&self, position: usize) -> Option<TableMetrics<'_>> {
        (position < 2).then_some(TableMetrics {
            name: "be",
            key_type: "ip",
            size: 1024,
            used: position as u32,
            evicted: u64::MAX,
            refused: 3 + position as u64,
        })
    }

    fn name_server(&self, position: usize) -> Option<NameServerMetrics<'_>> {
        let counters = COUNTERS.map(|counter| counter.name.len() as u64);
        (position == 0).then_some(NameServerMetrics { section: "r1", name: "n1", counters })
    }
}

fn scrape(query: &str) -> String {
    let mut dump = MetricsDump::new(MetricsRequest::parse(query.as_bytes()).expect("a good query"), &MEMORY);
    let mut out = Vec::new();
    while dump.advance(&Shop::new(3), usize::MAX, &mut out) == DumpProgress::More {}
    String::from_utf8(out).unwrap()
}

/// The lines of a scrape that begin with `start`.
fn lines(query: &str, start: &str) -> Vec<String> {
    scrape(query).lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
}

#[test]
fn a_metric_has_help_and_type_lines_and_a_line_for_each_object() {
    assert_eq!(
        scrape("metrics=haproxy_server_queue_time_average_seconds"),
        "# HELP haproxy_server_queue_time_average_seconds Time in the queue, on average of the last 1024\n\
         # TYPE haproxy_server_queue_time_average_seconds gauge\n\
         haproxy_server_queue_time_average_seconds{proxy=\"be\",server=\"s1\"} 1.500000\n\
         haproxy_server_queue_time_average_seconds{proxy=\"be\",server=\"s2\"} 1.500000\n\
         haproxy_server_queue_time_average_seconds{proxy=\"be\",server=\"s3\"} 1.500000\n"
    );
    assert_eq!(
        lines("scope=sticktable", "haproxy_sticktable_used"),
        [
            "haproxy_sticktable_used{name=\"be\",type=\"ip\"} 0",
            "haproxy_sticktable_used{name=\"be\",type=\"ip\"} 1"
        ]
    );
    assert_eq!(
        lines("scope=sticktable", "haproxy_sticktable_evicted_total")[0],
        "haproxy_sticktable_evicted_total{name=\"be\",type=\"ip\"} 18446744073709551615"
    );
    assert_eq!(
        lines("scope=sticktable", "haproxy_sticktable_refused_total")[1],
        "haproxy_sticktable_refused_total{name=\"be\",type=\"ip\"} 4"
    );
    assert_eq!(
        lines("", "haproxy_resolver_nx"),
        ["haproxy_resolver_nx{resolver=\"r1\",nameserver=\"n1\"} 2"]
    );
    assert_eq!(
        lines("", "haproxy_process_n")[..],
        ["haproxy_process_nbthread 2", "haproxy_process_nbproc 0", "haproxy_process_node{node=\"n1\"} 1"]
    );
}

/// A scrape of one metric of thousands of servers must cost less than one of all metrics.
#[test]
fn fills_rows_only_with_the_fields_of_the_selected_metrics() {
    let shop = Shop::new(3);
    let request =
        b"no-maint&metrics=haproxy_server_weight,haproxy_server_check_code,haproxy_backend_h1_bytes_in";
    let mut dump = MetricsDump::new(MetricsRequest::parse(request).expect("a valid request"), &MEMORY);
    let mut out = Vec::new();
    while dump.advance(&shop, usize::MAX, &mut out) == DumpProgress::More {}
    assert!((3..=6).contains(&shop.most_fields.get()), "{} fields", shop.most_fields.get());
}

/// Otherwise, finding the position in the list of servers would dominate the cost of a scrape.
#[test]
fn a_scrape_fills_many_rows_in_each_visit_of_the_source() {
    let shop = Shop::new(600);
    let request = b"scope=server&metrics=haproxy_server_weight,haproxy_server_sessions_total";
    let mut dump = MetricsDump::new(MetricsRequest::parse(request).expect("a valid request"), &MEMORY);
    let mut out = Vec::new();
    while dump.advance(&shop, usize::MAX, &mut out) == DumpProgress::More {}
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 2 * (2 + 600));
    assert!((2..=24).contains(&shop.visits.get()), "{} visits", shop.visits.get());
}

/// Reads all pieces of a scrape of 600 servers. Returns the text and the number of rows filled.
fn scrape_of_many(query: &[u8], memory: &'static ScrapeMemory) -> (Vec<u8>, usize) {
    let shop = Shop::new(600);
    let mut dump = MetricsDump::new(MetricsRequest::parse(query).expect("a valid request"), memory);
    let mut out = Vec::new();
    loop {
        let (enough, before) = (out.len() + 16_384, shop.fields.get());
        if dump.advance(&shop, enough, &mut out) == DumpProgress::Done {
            return (out, shop.rows.get());
        }
        let filled = shop.fields.get() - before;
        assert!(filled <= 4_000, "one piece fills {filled} fields of rows");
    }
}

#[test]
fn a_scrape_reads_each_object_once_if_its_memory_suffices() {
    static NONE: ScrapeMemory = ScrapeMemory::new(0, || false);
    static SHORT: ScrapeMemory = ScrapeMemory::new(1 << 20, || true);
    static SOME: ScrapeMemory = ScrapeMemory::new(100_000, || false);
    for query in [&b"scope=server"[..], b"scope=server&no-maint&desc-labels&extra-counters"] {
        let (text, rows) = scrape_of_many(query, &MEMORY);
        assert!((600..700).contains(&rows), "{rows} rows with enough memory");
        let metrics = text.windows(7).filter(|bytes| bytes == b"# TYPE ").count();
        for memory in [&NONE, &SHORT] {
            let (same, rows) = scrape_of_many(query, memory);
            assert!(same == text, "another text without memory");
            assert!(rows >= metrics * 600, "{rows} rows for {metrics} metrics without memory");
        }
        for _ in 0..2 {
            let (same, rows) = scrape_of_many(query, &SOME);
            assert!(same == text, "another text with little memory");
            assert!((1_200..metrics * 200).contains(&rows), "{rows} rows with little memory");
        }
    }
}

/// Clients that do not read their scrape keep its memory, so the total is bounded.
#[test]
fn scrapes_share_a_memory_limit_and_return_their_share() {
    static MEMORY: ScrapeMemory = ScrapeMemory::new(400_000, || false);
    let rows_of_another = || scrape_of_many(b"scope=server", &MEMORY).1;
    let alone = rows_of_another();
    let request = MetricsRequest::parse(b"scope=server").expect("a valid request");
    let (shop, mut unread, mut out) = (Shop::new(600), MetricsDump::new(request, &MEMORY), Vec::new());
    while out.is_empty() {
        let _ = unread.advance(&shop, 1, &mut out);
    }
    assert!((600..700).contains(&alone), "{alone} rows with all of the memory");
    assert!(rows_of_another() > 1_200, "both scrapes fit");
    drop(unread);
    assert_eq!(rows_of_another(), alone, "the memory did not come back");
}

#[test]
fn histograms_are_shown_only_on_request() {
    let name = "haproxy_server_total_duration_seconds";
    assert_eq!(lines("", name), Vec::<String>::new());
    let query = format!("histograms&scope=server&metrics={name}");
    let found: Vec<_> =
        scrape(&query).lines().filter(|line| !line.contains("\"s2\"")).map(str::to_owned).collect();
    assert_eq!(found[1], format!("# TYPE {name} histogram"));
    let line = |suffix: &str, le: &str, value: &str| {
        format!("{name}{suffix}{{proxy=\"be\",server=\"s1\"{le}}} {value}")
    };
    assert_eq!(found[2], line("_bucket", ",le=\"0.000064\"", "2"));
    assert_eq!(found[3], line("_bucket", ",le=\"0.000128\"", "3"));
    assert_eq!(found[7], line("_bucket", ",le=\"0.002048\"", "4"));
    assert_eq!(found[22], line("_bucket", ",le=\"67.108864\"", "4"));
    assert_eq!(found[23], line("_bucket", ",le=\"+Inf\"", "5"));
    assert_eq!(found[24], line("_sum", "", "90.001627"));
    assert_eq!(found[25], line("_count", "", "5"));
    assert_eq!(found.len(), 2 + 2 * 24);
    // An object without measurements lacks histograms.
    assert_eq!(lines("histograms&scope=frontend", "haproxy_frontend_total_duration"), Vec::<String>::new());
}

#[test]
fn response_classes_share_help_lines_and_exist_only_for_http_proxies() {
    let found = lines("scope=frontend", "");
    let about: Vec<_> =
        found.iter().filter(|line| line.contains("_http_responses_total")).map(String::as_str).collect();
    assert_eq!(about.len(), 8, "{about:?}");
    assert!(about[0].starts_with("# HELP ") && about[1].ends_with(" counter"));
    assert_eq!(about[2], "haproxy_frontend_http_responses_total{proxy=\"fe\",code=\"1xx\"} 0");
    assert_eq!(about[3], "haproxy_frontend_http_responses_total{proxy=\"fe\",code=\"2xx\"} 7");
}

#[test]
fn server_states_are_state_labels() {
    let states = |metric: &str| -> Vec<String> {
        let holds = |line: &String| !line.starts_with('#') && !line.ends_with(" 0");
        let found = lines(&format!("metrics={metric}"), "").into_iter().filter(holds);
        found.map(|line| line.replace(metric, "")).collect()
    };
    assert_eq!(
        states("haproxy_server_status"),
        [
            "{proxy=\"be\",server=\"s1\",state=\"DOWN\"} 1",
            "{proxy=\"be\",server=\"s2\",state=\"MAINT\"} 1",
            "{proxy=\"be\",server=\"s3\",state=\"UP\"} 1"
        ]
    );
    assert_eq!(states("haproxy_server_check_status"), ["{proxy=\"be\",server=\"s1\",state=\"L4CON\"} 1"]);
    assert_eq!(lines("", "haproxy_server_check_status").len(), 16, "of the one that is checked");
    assert_eq!(
        states("haproxy_frontend_status"),
        ["{proxy=\"fe\",state=\"DOWN\"} 1", "{proxy=\"tcp\",state=\"DOWN\"} 1"]
    );
    assert_eq!(states("haproxy_backend_status"), ["{proxy=\"be\",state=\"UP\"} 1"]);
    assert_eq!(
        states("haproxy_backend_agg_server_status"),
        [
            "{proxy=\"be\",state=\"DOWN\"} 1",
            "{proxy=\"be\",state=\"UP\"} 1",
            "{proxy=\"be\",state=\"MAINT\"} 1"
        ]
    );
    assert_eq!(states("haproxy_backend_agg_check_status"), ["{proxy=\"be\",state=\"L4CON\"} 1"]);
}

#[test]
fn unknown_metric_values_are_nan_or_omitted() {
    assert_eq!(
        lines("", "haproxy_server_limit_sessions{proxy=\"be\",server=\"s1\"}")[..],
        ["haproxy_server_limit_sessions{proxy=\"be\",server=\"s1\"} NaN"]
    );
    assert_eq!(
        lines("", "haproxy_server_check_duration_seconds"),
        ["haproxy_server_check_duration_seconds{proxy=\"be\",server=\"s1\"} 0.003000"]
    );
    let code = "haproxy_server_check_code";
    assert_eq!(lines("", code), [format!("{code}{{proxy=\"be\",server=\"s1\"}} 0")]);
    assert!(!scrape("").contains("haproxy_listener_"), "no title without a line");
}

#[test]
fn no_maint_omits_servers_in_maintenance_but_counts_them() {
    assert_eq!(lines("no-maint", "haproxy_server_weight").len(), 2);
    let counted = "haproxy_backend_agg_server_status{proxy=\"be\",state=\"MAINT\"}";
    assert_eq!(lines("no-maint", counted), [format!("{counted} 1")]);
}

#[test]
fn desc_labels_shows_proxy_descriptions_as_metric_labels() {
    assert_eq!(
        lines("desc-labels", "haproxy_frontend_sessions_total"),
        [
            "haproxy_frontend_sessions_total{proxy=\"fe\",desc=\"the \\\"front\\\"\"} 0",
            "haproxy_frontend_sessions_total{proxy=\"tcp\"} 0"
        ]
    );
    assert_eq!(
        lines("desc-labels", "haproxy_process_n")[2],
        "haproxy_process_node{node=\"n1\",desc=\"all\"} 1"
    );
    assert_eq!(lines("desc-labels", "haproxy_process_desc"), ["haproxy_process_description{desc=\"all\"} 1"]);
}

#[test]
fn extra_counters_are_shown_only_on_request() {
    assert!(lines("", "haproxy_backend_h1_").is_empty());
    let found = lines("extra-counters&scope=backend", "haproxy_backend_h1_open_streams");
    assert_eq!(found, ["haproxy_backend_h1_open_streams{proxy=\"be\",mod=\"h1\"} 0"]);
}

#[test]
fn a_scrape_is_sent_in_small_pieces_for_any_number_of_servers() {
    let shop = Shop::new(600);
    let mut dump = MetricsDump::new(MetricsRequest::parse(b"no-maint&scope=server").unwrap(), &MEMORY);
    let (mut whole, mut pieces) = (Vec::new(), 0);
    loop {
        let mut piece = Vec::new();
        let progress = dump.advance(&shop, 16_384, &mut piece);
        assert!(piece.len() < 16_384 + 2048, "{}", piece.len());
        whole.extend_from_slice(&piece);
        pieces += 1;
        if progress == DumpProgress::Done {
            break;
        }
    }
    let text = String::from_utf8(whole).unwrap();
    let weights = text.lines().filter(|line| line.starts_with("haproxy_server_weight{")).count();
    assert_eq!((weights, text.matches("# TYPE haproxy_server_weight ").count()), (599, 1));
    assert!(pieces > 50, "{pieces}");
}
