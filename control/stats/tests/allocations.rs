//! How often long answers allocate: not once per object, because there may be ten thousand.

use std::ops::ControlFlow;

use weir_counting::{CountingAllocator, allocations};
use weir_stats::{
    Cursor, Field, Format, InfoRow, Kind, MetricsDump, MetricsRequest, MetricsSource, PageDump, PageSettings,
    Progress, ProxyHead, Row, Selection, StatsDump, StatsRequest, StatsSource,
    prometheus::{NameServerMetrics, ScrapeMemory, TableMetrics},
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SERVERS: usize = 1_000;

static MEMORY: ScrapeMemory = ScrapeMemory::new(1 << 20, || false);

/// A backend with many servers.
struct TestSource;

impl StatsSource for TestSource {
    fn visit_rows(
        &self,
        cursor: &mut Cursor,
        _: &Selection,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let proxy = ProxyHead {
            id: 3,
            name: "goods",
            mode: "http",
            frontend: false,
            backend: true,
            has_servers: true,
            description: Some("a long list"),
        };
        while cursor.object < SERVERS {
            cursor.object += 1;
            row.begin(Kind::Server, &proxy, cursor.object as u32, "s<1>");
            row.set(Field::Status, "UP 2/3");
            row.set(Field::Addr, "192.0.2.1:8080");
            row.set(Field::Stot, 1_234_567u64);
            row.set(Field::Lastsess, 4_000);
            row.set(Field::Lastchg, 400u32);
            visit(row)?;
        }
        ControlFlow::Continue(())
    }

    fn info(&self, _: bool, _: &mut InfoRow) {}
}

impl MetricsSource for TestSource {
    fn table(&self, _: usize) -> Option<TableMetrics<'_>> {
        None
    }

    fn name_server(&self, _: usize) -> Option<NameServerMetrics<'_>> {
        None
    }
}

/// Checks how often `work` allocates for a thousand servers.
#[track_caller]
fn check(most: u64, work: impl FnOnce()) {
    let before = allocations();
    work();
    let counted = allocations() - before;
    assert!(counted <= most, "{counted} allocations");
}

#[test]
fn rows_are_written_without_allocations() {
    let mut row = Row::default();
    let mut out = Vec::with_capacity(1 << 23);
    let mut dump = StatsDump::new(Format::Csv, false, true, Selection::default());
    // The buffers of a row grow with the first one.
    check(20, || while dump.advance(&TestSource, &mut row, usize::MAX, &mut out) == Progress::More {});

    let settings = PageSettings {
        uri: "/stats".into(),
        legends: true,
        form_token: Some("7".into()),
        ..PageSettings::default()
    };
    let request = StatsRequest::parse("/stats", "/stats").unwrap();
    let mut page = PageDump::new(settings, request);
    let mut text = String::with_capacity(1 << 23);
    check(100, || while page.advance(&TestSource, &mut row, usize::MAX, &mut text) == Progress::More {});

    let mut scrape = MetricsDump::new(MetricsRequest::parse(b"scope=server").unwrap(), &MEMORY);
    out.clear();
    // Some for each of a hundred metrics.
    check(1_000, || {
        while scrape.advance(&TestSource, usize::MAX, &mut out) == Progress::More {
            out.clear()
        }
    });
}
