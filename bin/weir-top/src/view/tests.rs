//! The content of the screen, drawn without a terminal, and the effects of keys on it.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::*;
use crate::connection::ApiAnswer;
use crate::model::tests::picture;
use crate::poller::{PollerNews, PollerOrder, WatchedAnswers};

const PLAIN: Theme = Theme { color: true, unicode: true };

struct Screen {
    app: App,
    now: Instant,
    width: u16,
    height: u16,
    theme: Theme,
}

impl Screen {
    /// A screen after two polls, one second apart, with ten requests between them.
    fn new() -> Screen {
        let mut screen = Screen {
            app: App::new("here".to_owned()),
            now: Instant::now(),
            width: 100,
            height: 30,
            theme: PLAIN,
        };
        screen.take(PollerNews::Picture(Box::new(picture(1, 61, 10))));
        screen.take(PollerNews::Picture(Box::new(picture(1, 62, 20))));
        screen
    }

    fn take(&mut self, news: PollerNews) {
        self.app.take(news, self.now);
    }

    fn drawn(&mut self) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(self.width, self.height)).expect("a screen");
        terminal.draw(|frame| draw(frame, &mut self.app, self.theme, self.now)).expect("it can be drawn");
        terminal
    }

    fn text(&mut self) -> String {
        let terminal = self.drawn();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..buffer.area.height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
    }

    /// Types these keys one after another.
    fn keys(&mut self, keys: &str) -> Vec<PollerOrder> {
        keys.chars().flat_map(|c| self.key(KeyCode::Char(c))).collect()
    }

    fn key(&mut self, code: KeyCode) -> Vec<PollerOrder> {
        self.drawn();
        self.app.key(KeyEvent::new(code, KeyModifiers::NONE), self.now)
    }

    fn shows(&mut self, words: &[&str]) {
        let text = self.text();
        for word in words {
            assert!(text.contains(word), "'{word}' is not in:\n{text}");
        }
    }

    fn hides(&mut self, words: &[&str]) {
        let text = self.text();
        for word in words {
            assert!(!text.contains(word), "'{word}' is in:\n{text}");
        }
    }
}

fn command(text: &str) -> Vec<PollerOrder> {
    vec![PollerOrder::Command(text.to_owned())]
}

#[test]
fn the_overview_shows_the_process_totals_and_its_troubles() {
    let mut screen = Screen::new();
    screen.shows(&[
        "weir 0.1.0",
        "pid 1",
        "up 1m02s",
        "every 1 s",
        "3 of 100",
        "1 up, 1 down",
        "requests/s",
        "app/s2",
        "DOWN since 1m15s",
        "Busiest",
    ]);
}

#[test]
fn each_page_lists_its_kind_of_object() {
    let mut screen = Screen::new();
    screen.keys("2");
    screen.shows(&["FRONTEND", "web", "OPEN"]);
    screen.hides(&["app/s1"]);
    screen.keys("3");
    screen.shows(&["BACKEND", "app", "SERVERS"]);
    screen.keys("4");
    screen.shows(&["SERVER", "app/s1", "app/s2", "DOWN", "10"]);
    assert_eq!(screen.keys("5"), [PollerOrder::Watch(WatchedAnswers { errors: true, sessions: false })]);
    screen.take(PollerNews::Errors(ApiAnswer {
        text: "Total events captured on [now] : 1\n \x1b[31minvalid request\n".to_owned(),
        cut: false,
    }));
    screen.shows(&["CONNECT", "Captured messages", "?[31minvalid request"]);
    assert_eq!(screen.keys("6"), [PollerOrder::Watch(WatchedAnswers { errors: false, sessions: true })]);
    screen.take(PollerNews::Streams(ApiAnswer {
        text: "0x1: proto=tcpv4 src=10.0.0.1:5 fe=web be=app srv=s1 age=9s calls=3\n".to_owned(),
        cut: false,
    }));
    screen.shows(&["SOURCE", "10.0.0.1:5", "9s"]);
    assert_eq!(screen.keys("1"), [PollerOrder::Watch(WatchedAnswers::default())]);
}

#[test]
fn a_refused_session_list_shows_the_reason() {
    let mut screen = Screen::new();
    screen.keys("6");
    screen.take(PollerNews::Streams(ApiAnswer { text: "Permission denied\n\n".to_owned(), cut: false }));
    screen.shows(&["Permission denied", "level of this socket"]);
}

#[test]
fn server_changes_require_confirmation() {
    let mut screen = Screen::new();
    screen.keys("4");
    assert_eq!(screen.keys("d"), []);
    screen.shows(&["Drain app/s1?", "set server app/s1 state drain", "yes"]);
    assert_eq!(screen.keys("qxd"), [], "other keys do not answer");
    screen.shows(&["Drain app/s1?"]);
    assert_eq!(screen.keys("n"), []);
    screen.shows(&["nothing was changed"]);
    assert_eq!(screen.keys("dy"), command("set server app/s1 state drain"));
    assert_eq!(screen.keys("ey"), command("set server app/s1 state ready"));
    screen.key(KeyCode::Down);
    assert_eq!(screen.keys("my"), command("set server app/s2 state maint"));
    screen.take(PollerNews::Done(
        "set server app/s2 state maint".to_owned(),
        Ok("Permission denied\n\n".to_owned()),
    ));
    screen.shows(&["set server app/s2 state maint: Permission denied"]);
    screen.take(PollerNews::Done("x".to_owned(), Ok("\n".to_owned())));
    screen.shows(&["x: done"]);
    assert!(!screen.app.is_over);
}

#[test]
fn a_typed_weight_requires_confirmation() {
    let mut screen = Screen::new();
    screen.keys("4w");
    screen.shows(&["Weight of app/s1"]);
    screen.keys("12");
    screen.key(KeyCode::Enter);
    screen.shows(&["Give app/s1 the weight 12?"]);
    assert_eq!(screen.keys("y"), command("set weight app/s1 12"));
    for wrong in ["257", "", "1;x", "-1", "%"] {
        screen.keys("w");
        screen.keys(wrong);
        screen.key(KeyCode::Enter);
        screen.shows(&["is not a weight"]);
        assert_eq!(screen.keys("y"), [], "{wrong}");
    }
    screen.keys("w50%");
    screen.key(KeyCode::Enter);
    assert_eq!(screen.keys("y"), command("set weight app/s1 50%"));
}

#[test]
fn gives_the_reason_why_a_server_cannot_be_changed() {
    let mut screen = Screen::new();
    assert_eq!(screen.keys("d"), []);
    screen.shows(&["no server is selected"]);
    screen.app.read_only = true;
    screen.keys("4d");
    screen.shows(&["--read-only"]);
    let mut screen = Screen::new();
    let mut hostile = picture(1, 63, 30);
    hostile.rows[1].can_be_named = false;
    screen.take(PollerNews::Picture(Box::new(hostile)));
    screen.keys("4d");
    screen.shows(&["cannot be written in a command"]);
    assert_eq!(screen.keys("y"), []);
}

#[test]
fn keeps_the_last_data_when_the_connection_is_lost() {
    let mut screen = Screen::new();
    screen.keys("4d");
    screen.take(PollerNews::Lost("the connection was closed".to_owned()));
    assert_eq!(screen.keys("y"), [], "not connected: executed later, it would be a surprise");
    screen.shows(&["lost 0s", "app/s1", "not sent, not connected"]);
    screen.now += Duration::from_secs(11);
    assert!(screen.app.forget(screen.now));
    screen.shows(&["lost 11s", "the connection was closed; this is the last picture"]);
    screen.take(PollerNews::Picture(Box::new(picture(2, 5, 3))));
    screen.shows(&["process 2 follows 1", "every 1 s", "app/s1"]);
}

#[test]
fn shows_the_connection_error_until_the_first_answer() {
    let mut screen = Screen::new();
    screen.app = App::new("/run/x".to_owned());
    screen.shows(&["connecting to /run/x"]);
    screen.take(PollerNews::Lost("cannot connect: No such file".to_owned()));
    screen.shows(&["/run/x: cannot connect: No such file"]);
}

#[test]
fn keys_select_the_sort_column_and_reverse_the_order() {
    let mut screen = Screen::new();
    let order = |screen: &mut Screen| {
        let text = screen.text();
        text.find("app/s1").expect("s1") < text.find("app/s2").expect("s2")
    };
    screen.keys("4");
    assert!(order(&mut screen), "the configuration's order");
    let to_state = ">>";
    screen.keys(to_state);
    screen.shows(&["STATE▼"]);
    assert!(!order(&mut screen), "DOWN before UP");
    screen.keys("r");
    screen.shows(&["STATE▲"]);
    assert!(order(&mut screen));
    screen.keys(">");
    screen.shows(&["WEIGHT▼"]);
    assert!(order(&mut screen), "the heaviest first");
    screen.keys("<<<");
    screen.hides(&["WEIGHT▼"]);
    screen.keys("o");
    screen.hides(&["▼"]);
}

#[test]
fn the_selection_follows_its_row_when_the_order_changes() {
    let mut screen = Screen::new();
    screen.keys("4j");
    let mut turned = picture(1, 63, 30);
    turned.rows.swap(1, 2);
    screen.take(PollerNews::Picture(Box::new(turned)));
    screen.keys("d");
    screen.shows(&["Drain app/s2?"]);
    screen.keys("n");
    let mut smaller = picture(1, 64, 40);
    smaller.rows.remove(2);
    screen.take(PollerNews::Picture(Box::new(smaller)));
    screen.keys("d");
    screen.shows(&["Drain app/s1?"]);
}

#[test]
fn a_filter_hides_rows_with_other_names() {
    let mut screen = Screen::new();
    screen.keys("4/S2");
    screen.shows(&["Show names with: S2", "app/s2"]);
    screen.hides(&["app/s1"]);
    screen.key(KeyCode::Enter);
    screen.shows(&["names: S2", "app/s2"]);
    screen.keys("d");
    screen.shows(&["Drain app/s2?"]);
    screen.keys("n");
    screen.keys("/x");
    screen.key(KeyCode::Esc);
    screen.shows(&["app/s2"]);
    screen.key(KeyCode::Esc);
    screen.shows(&["app/s1"]);
    screen.keys("3");
    screen.key(KeyCode::Enter);
    screen.shows(&["names: ^app/", "SERVER", "app/s1"]);
    screen.keys("/zzz");
    screen.shows(&["nothing is listed here"]);
    screen.key(KeyCode::Enter);
    assert_eq!(screen.keys("dy"), [], "a hidden server is not changed");
}

#[test]
fn the_details_of_a_server_show_percentiles_if_reported() {
    let mut screen = Screen::new();
    screen.height = 50;
    screen.keys("4");
    screen.key(KeyCode::Enter);
    screen.shows(&["server app/s1", "UP for 1m00s", "127.0.0.1:80", "L4OK", "average", "3.0ms", "RESPONSES"]);
    let head = "# pxname,svname,phase,count,mean_us,p50_us,p90_us,p99_us,p99.9_us,max_us\n";
    screen.take(PollerNews::Latencies(format!("{head}app,s1,total,9,1,2000,3000,40000,50000,60000\n")));
    screen.shows(&["p99.9", "40ms", "60ms"]);
    assert_eq!(screen.keys("dy"), command("set server app/s1 state drain"));
    screen.key(KeyCode::Esc);
    screen.shows(&["app/s2"]);
}

#[test]
fn the_help_page_lists_the_actions() {
    let mut screen = Screen::new();
    screen.keys("?");
    screen.shows(&["drain", "maintenance", "another weight", "pause", "quit"]);
    screen.key(KeyCode::Esc);
    screen.shows(&["Busiest"]);
    screen.keys("q");
    assert!(screen.app.is_over);
}

#[test]
fn keys_change_the_refresh_interval_and_pause_refreshing() {
    let mut screen = Screen::new();
    assert_eq!(screen.keys("p"), [PollerOrder::Pause(true)]);
    screen.shows(&["paused"]);
    assert_eq!(screen.keys("p+"), [PollerOrder::Pause(false), PollerOrder::Interval(Duration::from_secs(2))]);
    assert_eq!(screen.keys("---").last(), Some(&PollerOrder::Interval(Duration::from_millis(250))));
}

#[test]
fn draws_every_page_at_every_size() {
    for (width, height) in
        [(0, 0), (1, 1), (2, 3), (5, 2), (10, 4), (20, 6), (40, 12), (80, 16), (120, 3), (3, 60)]
    {
        let mut screen = Screen::new();
        (screen.width, screen.height) = (width, height);
        for page in "123456".chars() {
            screen.keys(&page.to_string());
            screen.take(PollerNews::Errors(ApiAnswer {
                text: "Total events captured on [now] : 0\n".repeat(90),
                cut: true,
            }));
            screen.take(PollerNews::Streams(ApiAnswer {
                text: "0x1: src=x fe=web age=9s\n".repeat(90),
                cut: true,
            }));
            screen.text();
            for keys in ["GgjkdwEk", "w1", "/a"] {
                screen.keys(keys);
                screen.text();
                screen.key(KeyCode::Esc);
            }
            screen.key(KeyCode::Enter);
            screen.keys("]]]GG");
            screen.text();
            screen.keys("?GGd");
            screen.text();
            screen.key(KeyCode::Esc);
        }
    }
}

#[test]
fn a_narrow_terminal_keeps_the_important_columns() {
    let mut screen = Screen::new();
    (screen.width, screen.height) = (40, 12);
    screen.shows(&["weir-top", "1 Overview", "every 1 s", "connections", "app/s2", "? help", "q quit"]);
    screen.keys("4");
    screen.shows(&["SERVER", "STATE", "RATE", "app/s1", "DOWN", "? help", "q quit"]);
}

#[test]
fn draws_only_ascii_without_a_utf8_locale() {
    for page in "123456?".chars() {
        let mut screen = Screen::new();
        screen.theme.unicode = false;
        screen.keys(&page.to_string());
        screen.keys("<");
        let mut strange = picture(1, 63, 30);
        strange.rows[1].key.name = "sèrver漢".to_owned();
        screen.take(PollerNews::Picture(Box::new(strange)));
        let text = screen.text();
        assert!(text.is_ascii(), "{text}");
    }
}

#[test]
fn a_theme_without_colours_draws_only_default_colours() {
    for page in "123456".chars() {
        let mut screen = Screen::new();
        screen.theme.color = false;
        screen.keys(&page.to_string());
        let terminal = screen.drawn();
        let cells = &terminal.backend().buffer().content;
        assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
        assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)), "the open page is seen");
    }
    let mut screen = Screen::new();
    let terminal = screen.drawn();
    assert!(terminal.backend().buffer().content.iter().any(|cell| cell.fg == Color::Green));
}

#[test]
fn control_characters_in_names_do_not_reach_the_terminal() {
    let mut screen = Screen::new();
    let text = "# pxname,svname,status,type,last_chk\n\x1b[2Jevil,s\x07\u{202e}1,UP\x1b]0;x,2,\x1bc\n";
    let mut hostile = picture(1, 63, 30);
    hostile.rows = crate::model::row::ObjectRow::read_all(text, 10).expect("a table").0;
    screen.take(PollerNews::Picture(Box::new(hostile)));
    for page in "123456".chars() {
        screen.keys(&page.to_string());
        let text = screen.text();
        assert!(!text.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'), "{text:?}");
    }
    screen.keys("4");
    screen.shows(&["?[2Jevil/s??1"]);
}
