//! The HTML page and the other formats at its URI.

use std::ops::ControlFlow;

use weir_events::Histogram;
use weir_stats::{
    DumpProgress, FormStatus, Health, InfoField, InfoRow, Latencies, PageSettings, ProxyHead, RowCursor,
    RowSelection, StatsAnswer, StatsField, StatsObject, StatsRequest, StatsRow, StatsSource, What,
};

/// A frontend with a listener, a backend with a server in each state, and names that need escaping.
struct Shop;

const HEALTHS: [Health; 8] = [
    Health::NotChecked,
    Health::Up,
    Health::GoingDown,
    Health::GoingUp,
    Health::Down,
    Health::NoLoadBalancing,
    Health::Drain,
    Health::Maintenance,
];

impl Shop {
    fn fill(&self, object: usize, row: &mut StatsRow) -> bool {
        let fe = ProxyHead {
            id: 2,
            name: "shop",
            mode: "http",
            frontend: true,
            backend: false,
            has_servers: false,
            description: Some("<sells> & \"buys\""),
        };
        let be = ProxyHead {
            id: 3,
            name: "goods",
            frontend: false,
            backend: true,
            has_servers: true,
            description: None,
            ..fe
        };
        match object {
            0 => {
                row.begin(StatsObject::Frontend, &fe, 0, "");
                row.set(StatsField::Status, "OPEN");
                row.set(StatsField::Stot, 1_234_567u64);
            }
            1 => {
                row.begin(StatsObject::Listener, &fe, 1, "sock-1");
                row.set(StatsField::Addr, "127.0.0.1:80");
            }
            at @ 2..=9 => {
                row.begin(StatsObject::Server, &be, at as u32, &format!("s{at}"));
                row.set_health(HEALTHS[at - 2]);
                row.set(StatsField::Status, "UP");
                row.set(StatsField::Bck, u32::from(at == 4));
                row.set(StatsField::Cookie, "<script>");
            }
            10 => {
                row.begin(StatsObject::Backend, &be, 0, "");
                let (totals, mut latencies) = (Histogram::default(), Latencies::default());
                (1..=1000).for_each(|ms| totals.record(ms * 1000));
                totals.read_into(&mut latencies[3]);
                row.set_latencies(latencies);
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
        while self.fill(cursor.object, row) {
            cursor.object += 1;
            visit(row)?;
        }
        ControlFlow::Continue(())
    }

    fn info(&self, _: bool, info: &mut InfoRow) {
        info.set(InfoField::Name, "weir");
        info.set(InfoField::Version, "1.2.3");
        info.set(InfoField::Pid, 77u32);
    }
}

fn settings() -> PageSettings {
    PageSettings { uri: "/stats".into(), refresh_s: Some(10), ..PageSettings::default() }
}

fn shown(settings: &PageSettings, target: &str, enough: usize) -> String {
    let request = StatsRequest::parse(&settings.uri, target).unwrap();
    let mut answer = StatsAnswer::new(settings.clone(), request);
    let mut all = Vec::new();
    loop {
        let mut piece = Vec::new();
        let progress = answer.advance(&Shop, enough, &mut piece);
        all.extend(piece);
        if progress == DumpProgress::Done {
            return String::from_utf8(all).unwrap();
        }
    }
}

/// Checks that every element, except void elements, is closed in the right order.
fn assert_well_formed(page: &str) {
    const EMPTY: [&str; 5] = ["!DOCTYPE", "meta", "link", "br", "input"];
    const OPTIONAL: [&str; 1] = ["li"];
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let name = tag.split([' ', '>', '\n']).next().unwrap();
        if EMPTY.contains(&name) || OPTIONAL.contains(&name) {
            continue;
        }
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "before {tag}"),
            None => open.push(name),
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn the_html_page_does_not_depend_on_the_output_size() {
    let admin = PageSettings { form_token: Some("17".to_owned()), legends: true, ..settings() };
    for settings in [settings(), admin] {
        let page = shown(&settings, "/stats", usize::MAX);
        assert_well_formed(&page);
        assert_eq!(page, shown(&settings, "/stats", 1));
        assert!(page.contains("<title>Statistics Report for weir</title>"));
        assert!(page.contains("<h1>weir version 1.2.3, released "));
        assert!(page.contains("pid 77"));
        assert!(page.contains("1\u{202f}234\u{202f}567"));
        assert!(page.contains("&lt;sells&gt; &amp; &quot;buys&quot;"));
        assert!(!page.contains("<script") && !page.contains("<sells"));
        for class in [
            "active_no_check",
            "active_up",
            "backup_going_down",
            "active_going_up",
            "active_down",
            "maintain",
        ] {
            assert!(page.contains(&format!("<tr class=\"{class}\">")), "{class}");
        }
    }
}

#[test]
fn latency_percentiles_are_shown_next_to_the_maximum() {
    let page = shown(&settings(), "/stats", usize::MAX);
    let row = page.split("<tr class=\"backend\">").nth(1).and_then(|rest| rest.split("</tr>").next());
    let row = row.expect("the backend");
    // Latencies in milliseconds, each rounded up to the end of its bucket.
    assert!(row.contains("<td>507.9</td><td>1000.0</td><td>1000.0</td>"), "{row}");
    // Cells match their titles, and are empty if no stream has ended.
    let cells = |line: &str, tag: &str| line.matches(tag).count();
    let titles =
        page.lines().find(|line| line.contains("<th>p50</th><th>p99</th><th>Max</th>")).expect("titles");
    // The name column has one title cell that spans both header lines.
    assert_eq!(cells(row, "<td"), cells(titles, "<th") + 1);
    assert!(page.len() < 60_000, "{} bytes", page.len());
}

#[test]
fn only_administrators_get_a_form_on_the_page() {
    let page = shown(&settings(), "/stats", usize::MAX);
    assert!(!page.contains("method=\"post\"") && !page.contains("type=\"checkbox\""));
    let page = shown(&PageSettings { form_token: Some("17".to_owned()), ..settings() }, "/stats", usize::MAX);
    // The frontend does not have a form. The backend has a check box per server.
    assert_eq!(page.matches("<form method=\"post\">").count(), 1);
    assert_eq!(page.matches("name=\"s\"").count(), 8);
    assert!(page.contains("<input type=\"hidden\" name=\"b\" value=\"#3\">"));
    assert!(page.contains("<input type=\"hidden\" name=\"token\" value=\"17\">"));
    assert_eq!(page.matches("<option value=\"").count(), 1 + 13);
}

/// Each field has a name for users of screen readers, the language is declared, and a phone shows it at its own width.
#[test]
fn form_fields_have_accessible_names() {
    let page = shown(&PageSettings { form_token: Some("17".to_owned()), ..settings() }, "/stats", usize::MAX);
    assert!(
        page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">")
            && page.contains("<meta name=\"viewport\" content=\"width=")
    );
    let mut fields = 0;
    for (at, _) in page.match_indices("<input ").chain(page.match_indices("<select ")) {
        let tag = &page[at..at + page[at..].find('>').unwrap()];
        let labelled = page[..at].rfind("<label>") > page[..at].rfind("</label>");
        let named = labelled
            || ["aria-label=\"", "type=\"hidden\"", "type=\"submit\""].iter().any(|word| tag.contains(word));
        assert!(named, "{tag}");
        fields += 1;
    }
    assert_eq!(fields, 1 + 1 + 8 + 4);
    assert!(page.contains("value=\"s2\" aria-label=\"s2\""));
}

/// A backend without visible servers does not have a form.
#[test]
fn a_backend_without_visible_servers_has_a_table_without_a_form() {
    struct Empty {
        is_listen: bool,
    }
    impl StatsSource for Empty {
        fn visit_rows(
            &self,
            cursor: &mut RowCursor,
            _: &RowSelection,
            row: &mut StatsRow,
            visit: &mut dyn FnMut(&StatsRow) -> ControlFlow<()>,
        ) -> ControlFlow<()> {
            let head = ProxyHead {
                id: 3,
                name: "none",
                mode: "http",
                frontend: self.is_listen,
                backend: true,
                has_servers: false,
                description: None,
            };
            row.begin(
                if self.is_listen { StatsObject::Frontend } else { StatsObject::Backend },
                &head,
                0,
                "",
            );
            if cursor.object == 0 {
                cursor.object += 1;
                visit(row)?;
            }
            ControlFlow::Continue(())
        }

        fn info(&self, _: bool, _: &mut InfoRow) {}
    }
    let settings = PageSettings { form_token: Some("17".to_owned()), ..settings() };
    for is_listen in [false, true] {
        let mut answer = StatsAnswer::new(settings.clone(), StatsRequest::parse("/stats", "/stats").unwrap());
        let mut page = Vec::new();
        while answer.advance(&Empty { is_listen }, usize::MAX, &mut page) == DumpProgress::More {}
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("id=\"none\"") && !page.contains("method=\"post\""), "{page}");
        assert_well_formed(&page);
    }
}

#[test]
fn addresses_and_the_version_are_hidden_by_default() {
    let page = shown(&settings(), "/stats", usize::MAX);
    assert!(!page.contains("127.0.0.1:80"));
    assert!(!shown(&settings(), "/stats;csv", usize::MAX).contains("127.0.0.1:80"));
    let legends = PageSettings { legends: true, hide_version: true, node: Some("n1".into()), ..settings() };
    let page = shown(&legends, "/stats", usize::MAX);
    assert!(page.contains("address: 127.0.0.1:80") && !page.contains("1.2.3"));
    assert!(page.contains("<title>Statistics Report for weir on n1</title>"));
}

#[test]
fn module_counters_have_a_column_if_enabled() {
    let modules = PageSettings { modules: true, ..settings() };
    let page = shown(&modules, "/stats", usize::MAX);
    assert!(
        page.contains("Extra modules</th></tr>")
            && page.contains("<th>Thrtle</th><th>h2</th><th>h1</th></tr>")
    );
    assert!(page.contains("\">h2</td>") && page.contains("Total number of received HEADERS frames: "));
    assert!(page.contains("\">h1</td></tr>") && page.contains("Count of currently open connections: "));
    assert!(!shown(&settings(), "/stats", usize::MAX).contains("Extra modules"));
}

#[test]
fn the_scope_and_proxy_settings_limit_the_shown_proxies() {
    let page = shown(&settings(), "/stats?scope=goo", usize::MAX);
    assert!(page.contains("id=\"goods\"") && !page.contains("id=\"shop\""));
    assert!(page.contains("/stats;csv;norefresh?scope=goo"));
    let only_shop = PageSettings { proxies: vec!["shop".into()], ..settings() };
    assert!(!shown(&only_shop, "/stats", usize::MAX).contains("goods"));
    let csv = shown(&settings(), "/stats;csv;up", usize::MAX);
    assert_eq!(csv.lines().filter(|line| line.starts_with("goods,s")).count(), 5);
    let csv = shown(&settings(), "/stats;csv;no-maint", usize::MAX);
    assert_eq!(csv.lines().filter(|line| line.starts_with("goods,s")).count(), 7);
}

#[test]
fn the_uri_selects_csv_typed_and_json_output() {
    assert!(shown(&settings(), "/stats;csv", 1).starts_with("# pxname,svname,"));
    assert!(shown(&settings(), "/stats;typed", 1).starts_with("F.2.0.0.pxname.1:KNSV:str:shop\n"));
    assert!(shown(&settings(), "/stats;json", 1).starts_with("[[{\"objType\":\"Frontend\""));
    let schema = shown(&settings(), "/stats;json-schema", 100);
    assert_eq!(schema, weir_stats::schema::SCHEMA);
    for (target, kind) in
        [("/stats", "text/html"), ("/stats;csv", "text/plain"), ("/stats;json", "application/json")]
    {
        assert_eq!(StatsRequest::parse("/stats", target).unwrap().content_type(), kind);
    }
}

#[test]
fn norefresh_disables_the_page_refresh() {
    let refresh = |target| settings().refresh(&StatsRequest::parse("/stats", target).unwrap());
    assert_eq!(refresh("/stats"), Some(10));
    assert_eq!(refresh("/stats;norefresh"), None);
}

#[test]
fn the_page_reports_the_result_of_the_last_form() {
    for (code, text) in [("DONE", "Done."), ("PART", "Partly done"), ("DENY", "Denied"), ("x", "not known")] {
        let page = shown(&settings(), &format!("/stats;st={code}"), usize::MAX);
        assert!(page.contains("[X]") && page.contains(text), "{code}");
        assert_well_formed(&page);
    }
    let request =
        StatsRequest { status: Some(FormStatus::Done), what: What::Page, ..StatsRequest::default() };
    assert_eq!(StatsRequest::parse("/stats", "/stats;st=DONE"), Some(request));
}
