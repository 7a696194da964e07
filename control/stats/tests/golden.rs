//! The objects of HAProxy's captured outputs must give the same bytes.

use std::ops::ControlFlow;

use weir_stats::{
    Cursor, Field, Format, Health, InfoField, InfoRow, Kind, Progress, ProxyHead, Row, Selection, StatsDump,
    StatsSource, Value,
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

/// A frontend that answered one request, and a backend with one server that did not get any.
struct Captured;

impl StatsSource for Captured {
    fn visit_rows(
        &self,
        cursor: &mut Cursor,
        _: &Selection,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
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

fn frontend(row: &mut Row) {
    row.begin(Kind::Frontend, &FE, 0, "");
    row.set(Field::Status, "OPEN");
    row.set(Field::Slim, 9985u32);
    for field in
        [Field::Smax, Field::Rate, Field::RateMax, Field::ReqRate, Field::ReqRateMax, Field::ConnRate]
    {
        row.set(field, 1u32);
    }
    row.set(Field::ConnRateMax, 1u32);
    for (field, value) in [
        (Field::Stot, 1u64),
        (Field::Bin, 40),
        (Field::Hrsp2xx, 1),
        (Field::ReqTot, 1),
        (Field::ConnTot, 1),
        (Field::Intercepted, 1),
        (Field::H1sess, 1),
        (Field::H1req, 1),
        (Field::Reqbin, 40),
        (Field::Resbout, 146),
        (Field::H1TotalConnections, 1),
        (Field::H1TotalStreams, 1),
        (Field::H1BytesIn, 48),
        (Field::H1BytesOut, 85),
    ] {
        row.set(field, value);
    }
}

fn server(row: &mut Row) {
    row.begin(Kind::Server, &BE, 1, "s1");
    row.set(Field::Status, "no check");
    row.set(Field::Addr, "unix");
    row.set(Field::Lastsess, -1i32);
    row.set(Field::Lastchg, 31u32);
    for (field, value) in [(Field::Weight, 1u32), (Field::Act, 1), (Field::Bck, 0), (Field::Uweight, 1)] {
        row.set(field, value);
    }
}

fn backend(row: &mut Row) {
    row.begin(Kind::Backend, &BE, 0, "");
    row.set(Field::Status, "UP");
    row.set(Field::Algo, "roundrobin");
    row.set(Field::Lastsess, -1i32);
    row.set(Field::Chkdown, 0u64);
    for (field, value) in [
        (Field::Weight, 1u32),
        (Field::Act, 1),
        (Field::Bck, 0),
        (Field::Uweight, 1),
        (Field::Slim, 999),
        (Field::Lastchg, 31),
        (Field::Downtime, 0),
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

/// The whole dump, taken in pieces of at least `enough` bytes.
fn dumped(format: Format, descriptions: bool, selection: Selection, enough: usize) -> String {
    let mut dump = StatsDump::new(format, descriptions, true, selection);
    let mut row = Row::default();
    let mut all = Vec::new();
    loop {
        let mut piece = Vec::new();
        let progress = dump.advance(&Captured, &mut row, enough, &mut piece);
        all.extend(piece);
        if progress == Progress::Done {
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
fn csv_is_the_reference_s() {
    let expected = include_str!("golden/show_stat.csv");
    for enough in [1, 1000, usize::MAX] {
        assert_same_lines(&dumped(Format::Csv, false, Selection::default(), enough), expected);
    }
}

#[test]
fn typed_lines_are_the_reference_s() {
    let expected = include_str!("golden/show_stat_typed_desc.txt");
    let kinds = Kind::Frontend.mask() | Kind::Server.mask();
    let found = dumped(Format::Typed, true, Selection { kinds, ..Selection::default() }, 1);
    assert_same_lines(&found, expected);
}

#[test]
fn info_is_the_reference_s() {
    let mut info = InfoRow::new();
    Captured.info(false, &mut info);
    let mut plain = Vec::new();
    info.write(Format::Csv, false, &mut plain);
    assert_same_lines(std::str::from_utf8(&plain).unwrap(), include_str!("golden/show_info.txt"));

    // A few fields changed between the two captures.
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
    assert_same_lines(std::str::from_utf8(&typed).unwrap(), include_str!("golden/show_info_typed_desc.txt"));
}

#[test]
fn json_has_one_array_per_object_for_any_size_of_pieces() {
    let whole = dumped(Format::Json, false, Selection::default(), usize::MAX);
    assert_eq!(whole, dumped(Format::Json, false, Selection::default(), 1));
    let objects: serde_json::Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(objects.as_array().unwrap().len(), 3);
    let first = &objects[0][0];
    assert_eq!(first["objType"], "Frontend");
    assert_eq!(first["field"]["name"], "pxname");
    assert_eq!(first["tags"]["origin"], "Key");
    assert_eq!(first["value"]["value"], "fe");
}

#[test]
fn selections_keep_only_the_matching_rows() {
    let names = |selection| -> Vec<String> {
        let text = dumped(Format::Csv, false, selection, usize::MAX);
        text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned()).collect()
    };
    let all = Selection::default;
    assert_eq!(names(Selection { proxy_id: Some(3), ..all() }), ["s1", "BACKEND"]);
    assert_eq!(names(Selection { kinds: 3, ..all() }), ["FRONTEND", "BACKEND"]);
    assert_eq!(names(Selection { object_id: Some(9), ..all() }), ["FRONTEND", "BACKEND"]);
    assert_eq!(names(Selection { scope: Some("b".into()), ..all() }), ["s1", "BACKEND"]);
    assert_eq!(names(Selection { proxies: vec!["fe".into()], ..all() }), ["FRONTEND"]);
    assert_eq!(names(Selection { proxies: vec!["f".into()], ..all() }), Vec::<String>::new());
}

#[test]
fn filters_look_at_the_health_of_servers() {
    let mut row = Row::default();
    row.begin(Kind::Server, &BE, 1, "s1");
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
        assert_eq!(Selection { only_up: true, ..Selection::default() }.wants(&row), up, "{health:?}");
        let selection = Selection { no_maintenance: true, ..Selection::default() };
        assert_eq!(selection.wants(&row), no_maintenance, "{health:?}");
    }
    assert_eq!(row.value(Field::Slim), Value::Empty);
}
