//! The number of allocations for long answers: not one per object, because there may be ten thousand objects.

use std::ops::ControlFlow;

use weir_counting::{CountingAllocator, allocations};
use weir_stats::{
    DumpProgress, Format, InfoRow, MetricsDump, MetricsRequest, MetricsSource, PageDump, PageSettings,
    ProxyHead, RowCursor, RowSelection, StatsDump, StatsField, StatsObject, StatsRequest, StatsRow,
    StatsSource,
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
        cursor: &mut RowCursor,
        _: &RowSelection,
        row: &mut StatsRow,
        visit: &mut dyn FnMut(&StatsRow) -> ControlFlow<()>,
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
            row.begin(StatsObject::Server, &proxy, cursor.object as u32, "s<1>");
            row.set(StatsField::Status, "UP 2/3");
            row.set(StatsField::Addr, "192.0.2.1:8080");
            row.set(StatsField::Stot, 1_234_567u64);
            row.set(StatsField::Lastsess, 4_000);
            row.set(StatsField::Lastchg, 400u32);
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

/// Checks that `work` on a thousand servers allocates at most `most` times.
#[track_caller]
fn check(most: u64, work: impl FnOnce()) {
    let before = allocations();
    work();
    let counted = allocations() - before;
    assert!(counted <= most, "{counted} allocations");
}

#[test]
fn csv_rows_and_metrics_are_written_without_allocations() {
    let mut row = StatsRow::default();
    let mut out = Vec::with_capacity(1 << 23);
    let mut dump = StatsDump::new(Format::Csv, false, true, RowSelection::default());
    // The buffers of a row grow while the first row is filled.
    check(20, || while dump.advance(&TestSource, &mut row, usize::MAX, &mut out) == DumpProgress::More {});

    let settings = PageSettings {
        uri: "/stats".into(),
        legends: true,
        form_token: Some("7".into()),
        ..PageSettings::default()
    };
    let request = StatsRequest::parse("/stats", "/stats").unwrap();
    let mut page = PageDump::new(settings, request);
    let mut text = String::with_capacity(1 << 23);
    check(100, || while page.advance(&TestSource, &mut row, usize::MAX, &mut text) == DumpProgress::More {});

    let mut scrape = MetricsDump::new(MetricsRequest::parse(b"scope=server").unwrap(), &MEMORY);
    out.clear();
    // A few allocations for each of a hundred metrics.
    check(1_000, || {
        while scrape.advance(&TestSource, usize::MAX, &mut out) == DumpProgress::More {
            out.clear()
        }
    });
}
