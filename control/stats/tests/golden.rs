//! For the objects in captured HAProxy outputs, weir must print the same bytes.

use std::ops::ControlFlow;

use weir_stats::{
    DumpProgress, FieldValue, Format, Health, InfoField, InfoRow, ProxyHead, RowCursor, RowSelection,
    StatsDump, StatsField, StatsObject, StatsRow, StatsSource,
};

const FE: ProxyHead<'static> = ProxyHead {
    id: 2,
    name: "fe",
    mode: "http",
    frontend: true,
    backend: false,
    has_servers: false,
    description: None,
};
const BE: ProxyHead<'static> = ProxyHead {
    id: 3,
    name: "be",
    mode: "http",
    frontend: false,
    backend: true,
    has_servers: true,
    description: None,
};

/// A frontend that served one request, and a backend with an unused server.
struct Captured;

impl StatsSource for Captured {
    fn visit_rows(
        &self,
        cursor: &mut RowCursor,
        _: &RowSelection,
        row: &mut StatsRow,
        visit: &mut dyn FnMut(&StatsRow) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for fill in [frontend, server, backend].into_iter().skip(cursor.object) {
            fill(row);
            cursor.object += 1;
            visit(row)?;
        }
        ControlFlow::Continue(())
    }

    fn info(&self, _: bool, info: &mut InfoRow) {
        captured_info(info);
    }
}

fn frontend(row: &mut StatsRow) {
    row.begin(StatsObject::Frontend, &FE, 0, "");
    row.set(StatsField::Status, "OPEN");
    row.set(StatsField::Slim, 9985u32);
    for field in [
        StatsField::Smax,
        StatsField::Rate,
        StatsField::RateMax,
        StatsField::ReqRate,
        StatsField::ReqRateMax,
        StatsField::ConnRate,
    ] {
        row.set(field, 1u32);
    }
    row.set(StatsField::ConnRateMax, 1u32);
    for (field, value) in [
        (StatsField::Stot, 1u64),
        (StatsField::Bin, 40),
        (StatsField::Hrsp2xx, 1),
        (StatsField::ReqTot, 1),
        (StatsField::ConnTot, 1),
        (StatsField::Intercepted, 1),
        (StatsField::H1sess, 1),
        (StatsField::H1req, 1),
        (StatsField::Reqbin, 40),
        (StatsField::Resbout, 146),
        (StatsField::H1TotalConnections, 1),
        (StatsField::H1TotalStreams, 1),
        (StatsField::H1BytesIn, 48),
        (StatsField::H1BytesOut, 85),
    ] {
        row.set(field, value);
    }
}

fn server(row: &mut StatsRow) {
    row.begin(StatsObject::Server, &BE, 1, "s1");
    row.set(StatsField::Status, "no check");
    row.set(StatsField::Addr, "unix");
    row.set(StatsField::Lastsess, -1i32);
    row.set(StatsField::Lastchg, 31u32);
    for (field, value) in
        [(StatsField::Weight, 1u32), (StatsField::Act, 1), (StatsField::Bck, 0), (StatsField::Uweight, 1)]
    {
        row.set(field, value);
    }
}

fn backend(row: &mut StatsRow) {
    row.begin(StatsObject::Backend, &BE, 0, "");
    row.set(StatsField::Status, "UP");
    row.set(StatsField::Algo, "roundrobin");
    row.set(StatsField::Lastsess, -1i32);
    row.set(StatsField::Chkdown, 0u64);
    for (field, value) in [
        (StatsField::Weight, 1u32),
        (StatsField::Act, 1),
        (StatsField::Bck, 0),
        (StatsField::Uweight, 1),
        (StatsField::Slim, 999),
        (StatsField::Lastchg, 31),
        (StatsField::Downtime, 0),
    ] {
        row.set(field, value);
    }
}

fn captured_info(info: &mut InfoRow) {
    for (field, text) in [
        (InfoField::Name, "HAProxy"),
        (InfoField::Version, "3.5-dev5-50872d-2"),
        (InfoField::ReleaseDate, "2026/08/21"),
        (InfoField::Uptime, "0d 0h00m30s"),
        (InfoField::Node, "vm"),
        (InfoField::BuildInfo, "3.5-dev5-50872d-2"),
        (InfoField::Tainted, "0"),
    ] {
        info.set(field, text);
    }
    for (field, value) in [
        (InfoField::Nbthread, 2u32),
        (InfoField::Nbproc, 1),
        (InfoField::ProcessNum, 1),
        (InfoField::Pid, 1188),
        (InfoField::UptimeSec, 30),
        (InfoField::UlimitN, 19999),
        (InfoField::Maxsock, 19999),
        (InfoField::Maxconn, 9985),
        (InfoField::HardMaxconn, 9985),
        (InfoField::CumConns, 3),
        (InfoField::CumReq, 3),
        (InfoField::ConnRate, 1),
        (InfoField::MaxConnRate, 1),
        (InfoField::SessRate, 1),
        (InfoField::MaxSessRate, 1),
        (InfoField::Tasks, 82),
        (InfoField::IdlePct, 100),
        (InfoField::Jobs, 6),
        (InfoField::UnstoppableJobs, 1),
        (InfoField::Listeners, 3),
        (InfoField::StartTimeSec, 1_795_174_011),
        (InfoField::TotalWarnings, 3),
        (InfoField::BootTimeMs, 216),
        (InfoField::NbThreadGroups, 1),
    ] {
        info.set(field, value);
    }
    for (field, value) in [
        (InfoField::TotalBytesOut, 11526u64),
        (InfoField::BytesOutRate, 11552),
        (InfoField::PoolAllocBytes, 298_240),
        (InfoField::PoolUsedBytes, 298_240),
        (InfoField::CurrStreams, 2),
        (InfoField::CumStreams, 3),
        (InfoField::PatternsAdded, 5),
    ] {
        info.set(field, value);
    }
}

/// The whole dump, written in pieces of at least `enough` bytes.
fn dumped(format: Format, descriptions: bool, selection: RowSelection, enough: usize) -> String {
    let mut dump = StatsDump::new(format, descriptions, true, selection);
    let mut row = StatsRow::default();
    let mut all = Vec::new();
    loop {
        let mut piece = Vec::new();
        let progress = dump.advance(&Captured, &mut row, enough, &mut piece);
        all.extend(piece);
        if progress == DumpProgress::Done {
            return String::from_utf8(all).unwrap();
        }
    }
}

fn assert_same_lines(found: &str, expected: &str) {
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

#[test]
fn show_stat_csv_equals_haproxys() {
    let expected = include_str!("golden/show_stat.csv");
    for enough in [1, 1000, usize::MAX] {
        assert_same_lines(&dumped(Format::Csv, false, RowSelection::default(), enough), expected);
    }
}

#[test]
fn show_stat_typed_lines_equal_haproxys() {
    let expected = include_str!("golden/show_stat_typed_desc.txt");
    let kinds = StatsObject::Frontend.mask() | StatsObject::Server.mask();
    let found = dumped(Format::Typed, true, RowSelection { kinds, ..RowSelection::default() }, 1);
    assert_same_lines(&found, expected);
}

#[test]
fn show_info_equals_haproxys() {
    let mut info = InfoRow::new();
    Captured.info(false, &mut info);
    let mut plain = Vec::new();
    info.write(Format::Csv, false, &mut plain);
    assert_same_lines(&without_zlib(plain), include_str!("golden/show_info.txt"));

    // A few fields differ between the two captures.
    for (field, value) in [(InfoField::CumConns, 4u32), (InfoField::CumReq, 4)] {
        info.set(field, value);
    }
    for (field, value) in [
        (InfoField::TotalBytesOut, 12853u64),
        (InfoField::BytesOutRate, 12864),
        (InfoField::PoolAllocBytes, 314_624),
        (InfoField::PoolUsedBytes, 314_624),
        (InfoField::CumStreams, 4),
    ] {
        info.set(field, value);
    }
    let mut typed = Vec::new();
    info.write(Format::Typed, true, &mut typed);
    assert_same_lines(&without_zlib(typed), include_str!("golden/show_info_typed_desc.txt"));
}

/// The lines without those of `maxzlibmem`. The captured program was built with another library than zlib.
fn without_zlib(text: Vec<u8>) -> String {
    let text = String::from_utf8(text).unwrap();
    let lines = text.split_inclusive('\n').filter(|line| !line.contains("ZlibMemUsage"));
    lines.collect()
}

#[test]
fn show_stat_json_has_one_array_per_object_for_any_output_size() {
    let whole = dumped(Format::Json, false, RowSelection::default(), usize::MAX);
    assert_eq!(whole, dumped(Format::Json, false, RowSelection::default(), 1));
    let objects: serde_json::Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(objects.as_array().unwrap().len(), 3);
    let first = &objects[0][0];
    assert_eq!(first["objType"], "Frontend");
    assert_eq!(first["field"]["name"], "pxname");
    assert_eq!(first["tags"]["origin"], "Key");
    assert_eq!(first["value"]["value"], "fe");
}

#[test]
fn row_selections_keep_only_matching_proxies_and_servers() {
    let names = |selection| -> Vec<String> {
        let text = dumped(Format::Csv, false, selection, usize::MAX);
        text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned()).collect()
    };
    let all = RowSelection::default;
    assert_eq!(names(RowSelection { proxy_id: Some(3), ..all() }), ["s1", "BACKEND"]);
    assert_eq!(names(RowSelection { kinds: 3, ..all() }), ["FRONTEND", "BACKEND"]);
    assert_eq!(names(RowSelection { object_id: Some(9), ..all() }), ["FRONTEND", "BACKEND"]);
    assert_eq!(names(RowSelection { scope: Some("b".into()), ..all() }), ["s1", "BACKEND"]);
    assert_eq!(names(RowSelection { proxies: vec!["fe".into()], ..all() }), ["FRONTEND"]);
    assert_eq!(names(RowSelection { proxies: vec!["f".into()], ..all() }), Vec::<String>::new());
}

#[test]
fn up_and_no_maint_filters_select_servers_by_health() {
    let mut row = StatsRow::default();
    row.begin(StatsObject::Server, &BE, 1, "s1");
    for (health, up, no_maintenance) in [
        (Health::NotChecked, true, true),
        (Health::Up, true, true),
        (Health::GoingDown, true, true),
        (Health::Drain, true, true),
        (Health::GoingUp, false, true),
        (Health::Down, false, true),
        (Health::Maintenance, false, false),
    ] {
        row.set_health(health);
        assert_eq!(RowSelection { only_up: true, ..RowSelection::default() }.wants(&row), up, "{health:?}");
        let selection = RowSelection { no_maintenance: true, ..RowSelection::default() };
        assert_eq!(selection.wants(&row), no_maintenance, "{health:?}");
    }
    assert_eq!(row.value(StatsField::Slim), FieldValue::Empty);
}
