//! The data of the monitored process: the latest poll, and the rates of change since earlier polls.
//!
//! Everything here is pure: text and time are passed as arguments.

pub(crate) mod info;
pub(crate) mod latency;
pub(crate) mod rates;
pub(crate) mod row;
pub(crate) mod sessions;
pub(crate) mod table;

use std::collections::HashMap;
use std::time::Duration;

use info::Info;
use latency::Latencies;
use rates::{History, RowCounters, RowTrack, growth};
use row::{ObjectRow, RowKey, RowKind, RowState};
use sessions::StreamRows;

use crate::text::clean;

/// The result of one poll.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub info: Info,
    pub rows: Vec<ObjectRow>,
    /// Whether rows were dropped because of the limit.
    pub more: bool,
    /// Time of the poll, since the start of this program.
    pub at: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub picture: Option<Picture>,
    tracks: HashMap<RowKey, RowTrack>,
    pub process: Process,
    /// Latencies by proxy and name. `None` if the monitored process lacks `show latency`.
    latencies: Option<HashMap<(String, String), Latencies>>,
    pub errors: PageAnswer<Vec<String>>,
    pub streams: PageAnswer<StreamRows>,
}

/// An answer that is polled only while its page is open.
#[derive(Debug, Default)]
pub(crate) enum PageAnswer<T> {
    #[default]
    Unknown,
    Known {
        value: T,
        /// Whether the answer exceeded the limit.
        cut: bool,
    },
    /// The command was refused, with this message.
    Refused(String),
}

/// Process-wide rates.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub connections: Series,
    pub requests: Series,
    pub bytes_in: Series,
    pub bytes_out: Series,
}

#[derive(Debug, Default)]
pub(crate) struct Series {
    last: Option<u64>,
    pub rate: Option<f64>,
    pub history: History,
}

impl Series {
    fn add(&mut self, now: Option<u64>, seconds: f64, continued: bool) {
        let before = std::mem::replace(&mut self.last, now);
        self.rate = match (before, now) {
            (Some(before), Some(now)) if seconds > 0.0 => {
                growth(before, now, continued).map(|grown| grown as f64 / seconds)
            }
            _ => None,
        };
        if let Some(rate) = self.rate {
            self.history.push(rate);
        }
    }
}

impl Model {
    /// Stores the latest poll. If the process was replaced, returns the names of the former and the current process.
    pub(crate) fn add(&mut self, picture: Picture) -> Option<(String, String)> {
        let former = self.picture.take();
        let seconds = former.as_ref().map_or(0.0, |f| picture.at.saturating_sub(f.at).as_secs_f64());
        let continued = former.as_ref().is_some_and(|former| former.info.is_continued_by(&picture.info));
        // Rows that disappeared lose their history, so the number of rows bounds the memory.
        let mut tracks = HashMap::with_capacity(picture.rows.len());
        for row in &picture.rows {
            let mut track = self.tracks.remove(&row.key).unwrap_or_default();
            track.add(counters(row), seconds, continued);
            tracks.insert(row.key.clone(), track);
        }
        self.tracks = tracks;
        let sum = |count: fn(&ObjectRow) -> u64| {
            let frontends = picture.rows.iter().filter(|row| row.key.kind == RowKind::Frontend);
            Some(frontends.map(count).fold(0, u64::saturating_add))
        };
        let info = &picture.info;
        self.process.connections.add(info.number("CumConns"), seconds, continued);
        self.process.requests.add(info.number("CumReq"), seconds, continued);
        self.process.bytes_in.add(sum(|row| row.bytes_in), seconds, continued);
        self.process.bytes_out.add(sum(|row| row.bytes_out), seconds, continued);
        let change = former.filter(|_| !continued).map(|former| {
            self.latencies = None;
            (former.info.text("Pid").to_owned(), picture.info.text("Pid").to_owned())
        });
        self.picture = Some(picture);
        change
    }

    pub(crate) fn add_latencies(&mut self, text: &str) {
        self.latencies = latency::read_all(text, MOST_ROWS);
    }

    pub(crate) fn add_errors(&mut self, text: &str, cut: bool) {
        self.errors = if text.starts_with("Total events") {
            let lines = text.lines().take(MOST_LINES).map(|line| clean(line, 300)).collect();
            PageAnswer::Known { value: lines, cut: cut || text.lines().nth(MOST_LINES).is_some() }
        } else {
            PageAnswer::Refused(refusal(text))
        };
    }

    pub(crate) fn add_streams(&mut self, text: &str, cut: bool) {
        self.streams = match StreamRows::read(text, MOST_STREAMS) {
            Some(value) => PageAnswer::Known { value, cut },
            None => PageAnswer::Refused(refusal(text)),
        };
    }

    pub(crate) fn rows(&self, kind: RowKind) -> impl Iterator<Item = &ObjectRow> {
        self.picture.iter().flat_map(|picture| &picture.rows).filter(move |row| row.key.kind == kind)
    }

    pub(crate) fn row(&self, key: &RowKey) -> Option<&ObjectRow> {
        self.picture.iter().flat_map(|picture| &picture.rows).find(|row| row.key == *key)
    }

    pub(crate) fn track(&self, key: &RowKey) -> Option<&RowTrack> {
        self.tracks.get(key)
    }

    pub(crate) fn has_latencies(&self) -> bool {
        self.latencies.is_some()
    }

    pub(crate) fn latencies(&self, key: &RowKey) -> Option<&Latencies> {
        // The key type is an owned pair, so a lookup with two references is not possible.
        self.latencies.as_ref()?.get(&(key.proxy.clone(), key.name.clone()))
    }

    /// Backends and servers that need attention, with the reason. Those that are down come first.
    pub(crate) fn troubles(&self) -> Vec<(&ObjectRow, RowState, String)> {
        let rows = self.picture.iter().flat_map(|picture| &picture.rows);
        let mut found: Vec<(&ObjectRow, RowState, String)> =
            rows.filter_map(|row| trouble(row, self.track(&row.key))).collect();
        found.sort_by_key(|(row, state, _)| {
            (*state != RowState::Down, row.key.kind == RowKind::Server, *state != RowState::Changing)
        });
        found
    }
}

fn trouble<'r>(row: &'r ObjectRow, track: Option<&RowTrack>) -> Option<(&'r ObjectRow, RowState, String)> {
    let mut why = Vec::new();
    let state = row.state();
    if state != RowState::Good {
        let since = row
            .since_change
            .map_or_else(String::new, |seconds| format!(" since {}", crate::text::duration(seconds)));
        let check = Some(&row.check.status).filter(|status| !status.is_empty() && state != RowState::Wanted);
        why.push(format!(
            "{}{since}{}",
            row.status,
            check.map_or_else(String::new, |status| format!(", {status}"))
        ));
    }
    if row.queue.now > 0 {
        why.push(format!("{} in queue", row.queue.now));
    }
    if let Some(limit) = row.sessions.limit.filter(|&limit| limit > 0 && row.sessions.now >= limit) {
        why.push(format!("at its limit of {limit} sessions"));
    }
    if let Some(rate) = track.and_then(|track| track.rates.errors).filter(|&rate| rate > 0.0) {
        why.push(format!("{} errors/s", crate::text::rate(rate)));
    }
    let state = if state == RowState::Good { RowState::Changing } else { state };
    (!why.is_empty()).then(|| (row, state, why.join(", ")))
}

fn counters(row: &ObjectRow) -> RowCounters {
    RowCounters {
        work: row.work(),
        bytes_in: row.bytes_in,
        bytes_out: row.bytes_out,
        errors: row.errors.sum(),
    }
}

/// The first non-empty line.
pub(crate) fn refusal(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(|| "an empty answer".to_owned(), |line| clean(line, 200))
}

/// Maximum number of rows kept from one poll. With their histories they take at most some tens of megabytes.
pub(crate) const MOST_ROWS: usize = 20_000;
const MOST_STREAMS: usize = 5_000;
/// Maximum number of lines kept from `show errors`.
const MOST_LINES: usize = 5_000;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A poll with a frontend `web` and a backend `app` with servers `s1` (up) and `s2` (down). Each has the work counter `work`.
    pub(crate) fn picture(pid: u32, second: u64, work: u64) -> Picture {
        let text = format!(
            "# pxname,svname,status,type,scur,slim,stot,req_tot,bin,bout,hrsp_2xx,hrsp_4xx,hrsp_5xx,weight,qcur,econ,mode,check_status,last_chk,addr,ttime,lastchg\n\
             web,FRONTEND,OPEN,0,3,100,{work},{work},{0},{0},{work},1,2,,,,http,,,,,\n\
             app,s1,UP,2,3,30,{work},,{0},{0},{work},,2,7,0,0,http,L4OK,fine,127.0.0.1:80,3,60\n\
             app,s2,DOWN,2,0,,0,,0,0,0,,0,1,0,{work},http,L4CON,Connection refused,127.0.0.1:81,0,75\n\
             app,BACKEND,UP,1,3,30,{work},{work},{0},{0},{work},,2,8,0,{work},http,,,,3,60\n",
            work * 10
        );
        let info = format!(
            "Version: 3.5.0-weir0.1.0\nPid: {pid}\nUptime_sec: {second}\nCumConns: {work}\nCumReq: {work}\nCurrConns: 3\nMaxconn: 100\nIdle_pct: 90\nNbthread: 2\nnode: here\n"
        );
        let (rows, more) = ObjectRow::read_all(&text, MOST_ROWS).expect("a table");
        Picture { info: Info::read(&info).expect("an answer"), rows, more, at: Duration::from_secs(second) }
    }

    fn key(kind: RowKind, proxy: &str, name: &str) -> RowKey {
        RowKey { kind, proxy: proxy.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn rates_come_from_two_snapshots_and_restart_after_a_reload() {
        let mut model = Model::default();
        let server = key(RowKind::Server, "app", "s1");
        assert_eq!(model.add(picture(1, 10, 100)), None);
        assert_eq!(model.track(&server).expect("a track").rates.work, None);
        assert_eq!(model.add(picture(1, 12, 150)), None);
        assert_eq!(model.track(&server).expect("a track").rates.work, Some(25.0));
        assert_eq!((model.process.requests.rate, model.process.bytes_out.rate), (Some(25.0), Some(250.0)));
        assert_eq!(model.add(picture(2, 14, 900)), Some(("1".to_owned(), "2".to_owned())));
        assert_eq!(
            (model.track(&server).expect("a track").rates.work, model.process.requests.rate),
            (None, None)
        );
        assert_eq!(model.track(&server).expect("a track").history.values(), [25.0], "the history stays");
    }

    #[test]
    fn forgets_the_history_of_removed_rows() {
        let mut model = Model::default();
        model.add(picture(1, 1, 1));
        let mut smaller = picture(1, 2, 1);
        smaller.rows.truncate(1);
        model.add(smaller);
        assert_eq!(model.tracks.len(), 1);
    }

    #[test]
    fn troubles_are_sorted_by_severity() {
        let mut model = Model::default();
        model.add(picture(1, 1, 1));
        model.add(picture(1, 2, 5));
        let found: Vec<(String, String)> =
            model.troubles().into_iter().map(|(row, _, why)| (row.path(), why)).collect();
        let expected = [("app/s2", "DOWN since 1m15s, L4CON, 4.0 errors/s"), ("app", "4.0 errors/s")];
        assert_eq!(found, expected.map(|(name, why)| (name.to_owned(), why.to_owned())));
    }

    #[test]
    fn a_refused_command_leaves_its_message_in_the_model() {
        let mut model = Model::default();
        model.add_errors("Permission denied\n\n", false);
        model.add_streams("\nPermission denied\n", false);
        assert!(matches!(&model.errors, PageAnswer::Refused(why) if why == "Permission denied"));
        assert!(matches!(&model.streams, PageAnswer::Refused(why) if why == "Permission denied"));
        model.add_errors("Total events captured on [x] : 0\n \x1b[2J\n", false);
        assert!(matches!(&model.errors, PageAnswer::Known { value, cut: false } if value[1] == " ?[2J"));
        model.add_latencies("Unknown command");
        assert!(!model.has_latencies());
    }
}
