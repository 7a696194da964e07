//! Rows of live objects: their values, their order, and the allocations for filling them.

use std::ops::ControlFlow;

use super::super::fixture::{run_command, with_backend, with_live};
use weir_backend::{BackendCounter, FrontendCounter, LatencyHistograms, PhaseDurations, ServerCounter};
use weir_counting::allocations;
use weir_stats::{FieldSet, RowCursor, RowSelection, StatsField, StatsRow, StatsSource};

/// The first columns of each row, as printed by the packaged HAProxy for the same configuration before any traffic
/// (except for the time since the last change).
const ROWS: &str = "\
fe,FRONTEND,,,0,0,100,0,0,0,0,0,0,,,,,OPEN,,,,,,,,,1,2,0,,,,0,0,0,0
fe,main,,,0,0,0,0,0,0,0,0,0,,,,,OPEN,,,,,,,,,1,2,1,,,,3,,,
fe,sock-2,,,0,0,0,0,0,0,0,0,0,,,,,OPEN,,,,,,,,,1,2,2,,,,3,,,
be,s1,0,0,0,0,50,0,0,0,,0,,0,0,0,0,no check,10,1,0,,,0,,,1,3,1,,0,,2,0,,0
be,s2,0,0,0,0,,0,0,0,,0,,0,0,0,0,no check,20,1,0,,,0,,5,1,3,2,,0,,2,0,,0
be,s3,0,0,0,0,,0,0,0,,0,,0,0,0,0,no check,1,0,1,,,0,,,1,3,3,,0,,2,0,,0
be,s4,0,0,0,0,,0,0,0,,0,,0,0,0,0,MAINT,1,1,0,,,0,,,1,3,4,,0,,2,0,,0
be,s5,0,0,0,0,,0,0,0,,0,,0,0,0,0,no check,1,1,0,,,0,,,1,3,5,,0,,2,0,,0
be,BACKEND,0,0,0,0,10,0,0,0,0,0,,0,0,0,0,UP,31,3,1,,0,0,0,,1,3,0,,0,,1,0,,0
emp,BACKEND,0,0,0,0,1,0,0,0,0,0,,0,0,0,0,UP,0,0,0,,0,0,,,1,4,0,,0,,1,0,,0
bs,t1,0,0,0,0,,0,0,0,,0,,0,0,0,0,no check,5,1,0,,,0,,,1,5,1,,0,,2,0,,0
bs,t2,0,0,0,0,,0,0,0,,0,,0,0,0,0,no check,1,1,0,,,0,,,1,5,2,,0,,2,0,,0
bs,BACKEND,0,0,0,0,1,0,0,0,0,0,,0,0,0,0,UP,6,2,0,,0,0,0,,1,5,0,,0,,1,0,,0
tcp1,FRONTEND,,,0,0,1000,0,0,0,0,0,0,,,,,OPEN,,,,,,,,,1,6,0,,,,0,0,0,0
tcp1,x1,0,0,0,0,,0,0,0,,0,,0,0,0,0,no check,1,1,0,,,0,,,1,6,1,,0,,2,0,,0
tcp1,BACKEND,0,0,0,0,100,0,0,0,0,0,,0,0,0,0,UP,1,1,0,,0,0,0,,1,6,0,,0,,1,0,,0
";

/// The first columns of the rows of `show stat`.
fn rows(answer: &str) -> String {
    let first = |line: &str| line.split(',').take(36).collect::<Vec<_>>().join(",") + "\n";
    answer.lines().skip(1).filter(|line| !line.is_empty()).map(first).collect()
}

/// One column of one row.
fn field(answer: &str, object: &str, name: &str) -> String {
    let mut lines = answer.lines();
    let header = lines.next().unwrap().trim_start_matches("# ");
    let at = header.split(',').position(|field| field == name).expect("a field of that name");
    let row = lines.find(|line| line.starts_with(object)).expect("a row of that name");
    row.split(',').nth(at).unwrap().to_owned()
}

#[test]
fn show_stat_lists_the_same_rows_as_haproxy() {
    with_live(|live| assert_eq!(rows(&run_command(&live, "show stat")), ROWS));
}

#[test]
fn show_stat_rows_include_addresses_states_and_modes() {
    with_live(|live| {
        let answer = run_command(&live, "show stat");
        let check = |object: &str, name: &str, expected: &str| {
            assert_eq!(field(&answer, object, name), expected, "{object} {name}");
        };
        check("be,s1,", "addr", "127.0.0.1:18090");
        check("be,s1,", "cookie", "c1");
        check("be,s5,", "addr", "unix");
        check("bs,t2,", "addr", "[::1]:18090");
        check("be,BACKEND,", "cookie", "SRV");
        check("be,BACKEND,", "algo", "roundrobin");
        check("emp,BACKEND,", "algo", "leastconn");
        check("be,s1,", "lastsess", "-1");
        check("be,s1,", "hrsp_2xx", "0");
        check("tcp1,x1,", "hrsp_2xx", "");
        check("tcp1,FRONTEND,", "mode", "tcp");
    });
}

#[test]
fn show_stat_reports_counters_in_their_columns() {
    with_live(|live| {
        let (fe, be) = (&live.instance.proxies[0], &live.instance.proxies[1]);
        fe.frontend_counters.add(0, FrontendCounter::Requests, 5);
        be.backend_counters.add(0, BackendCounter::BytesIn, 77);
        let s2 = be.servers().server_by_name("s2").expect("a server of the configuration");
        s2.counters().add(0, ServerCounter::Http2xx, 3);
        s2.counters().session_seen(0, super::now_ms());
        let answer = run_command(&live, "show stat");
        assert_eq!(field(&answer, "fe,FRONTEND", "req_tot"), "5");
        assert_eq!(field(&answer, "be,BACKEND", "bin"), "77");
        assert_eq!(field(&answer, "be,s2", "hrsp_2xx"), "3");
        assert_eq!(field(&answer, "be,s2", "lastsess"), "0");
        run_command(&live, "clear counters all");
        let answer = run_command(&live, "show stat");
        assert_eq!(field(&answer, "be,BACKEND", "bin"), "0");
        assert_eq!(field(&answer, "be,s2", "lastsess"), "-1");
    });
}

/// A backend's latency histogram includes its servers' histograms, even after a server's counters were cleared.
#[test]
fn latency_percentiles_of_a_backend_include_its_servers() {
    with_live(|live| {
        let (fe, be) = (&live.instance.proxies[0], &live.instance.proxies[1]);
        let s2 = be.servers().server_by_name("s2").expect("a server of the configuration");
        let of_frontend = fe.frontend_counters.latency_histograms(0);
        let at_server = PhaseDurations([0, 20, 3_000, 4_000]);
        LatencyHistograms::record_in_both(of_frontend, s2.counters().latency_histograms(0), &at_server);
        let refused = PhaseDurations([900, PhaseDurations::ABSENT, PhaseDurations::ABSENT, 1_000]);
        let of_backend = be.backend_counters.latency_histograms(0);
        LatencyHistograms::record_in_both(of_frontend, of_backend, &refused);
        let lines = |command: &str| {
            run_command(&live, command).trim_end().lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines("show latency fe").len(), 4);
        assert_eq!(
            lines("show latency be"),
            [
                "be,s2,queue,1,0,0,0,0,0,0",
                "be,s2,connect,1,20,20,20,20,20,20",
                "be,s2,response,1,3000,3000,3000,3000,3000,3000",
                "be,s2,total,1,4000,4000,4000,4000,4000,4000",
                "be,BACKEND,queue,2,450,0,900,900,900,900",
                "be,BACKEND,connect,1,20,20,20,20,20,20",
                "be,BACKEND,response,1,3000,3000,3000,3000,3000,3000",
                "be,BACKEND,total,2,2500,1023,4000,4000,4000,4000",
            ]
        );
        run_command(&live, "clear counters server be/s2 force");
        assert_eq!(lines("show latency be/s2"), Vec::<String>::new());
        assert!(
            lines("show latency be/BACKEND")
                .contains(&"be,BACKEND,total,2,2500,1023,4000,4000,4000,4000".to_owned())
        );
        assert_eq!(run_command(&live, "show latency nosuch"), "No such proxy.\n\n");
        run_command(&live, "clear counters all");
        assert_eq!(lines("show latency"), Vec::<String>::new());
    });
}

/// Dozens of metrics for thousands of servers are read at once.
#[test]
fn server_rows_are_filled_without_allocations() {
    with_backend(300, |live| {
        let count = |fields: &[StatsField]| {
            let mut row = StatsRow::default();
            row.fill_only(FieldSet::of(fields));
            let (mut seen, before) = (0, allocations());
            let ended =
                live.visit_rows(&mut RowCursor::default(), &RowSelection::default(), &mut row, &mut |_| {
                    seen += 1;
                    ControlFlow::Continue(())
                });
            assert_eq!((seen, ended), (301, ControlFlow::Continue(())));
            allocations() - before
        };
        for field in [
            StatsField::Stot,
            StatsField::Status,
            StatsField::Scur,
            StatsField::Qtime,
            StatsField::SrvIcur,
            StatsField::CheckStatus,
        ] {
            assert!(count(&[field]) <= 10, "{field:?}: {} allocations", count(&[field]));
        }
    });
}

#[test]
fn a_paused_listing_resumes_after_the_last_visited_row() {
    with_backend(40, |live| {
        let (mut cursor, mut row) = (RowCursor::default(), StatsRow::default());
        let mut names = Vec::new();
        for piece in 1.. {
            let mut left = piece;
            let ended = live.visit_rows(&mut cursor, &RowSelection::default(), &mut row, &mut |row| {
                names.push(row.text(StatsField::Svname).to_owned());
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if ended.is_continue() {
                break;
            }
        }
        let expected: Vec<_> = (1..=40).map(|at| format!("s{at}")).chain(["BACKEND".to_owned()]).collect();
        assert_eq!(names, expected);
    });
}

#[test]
fn show_stat_arguments_select_rows() {
    with_live(|live| {
        let count = |command: &str| rows(&run_command(&live, command)).lines().count();
        assert_eq!(count("show stat be -1 -1"), 6);
        assert_eq!(count("show stat be 4 2"), 1);
        assert_eq!(count("show stat #3 2 -1"), 1);
        assert_eq!(count("show stat -1 1 -1"), 2);
        assert_eq!(count("show stat no-maint"), 15);
        assert_eq!(run_command(&live, "show stat nosuch 4 -1"), "No such proxy.\n\n");
    });
}
