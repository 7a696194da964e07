//! The rows of `show stat`: frontends, backends, servers and listeners.

use super::table::{PrintedRow, PrintedTable};
use crate::text::clean;

/// The identity of a row. Names are unique only per kind: a backend and a frontend may share a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RowKey {
    pub kind: RowKind,
    pub proxy: String,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RowKind {
    Frontend,
    Backend,
    Server,
    Listener,
}

/// One row. A missing counter is 0, or `None` where the difference matters.
#[derive(Debug, Clone)]
pub(crate) struct ObjectRow {
    pub key: RowKey,
    /// Whether the names are safe in a command: they contain only characters that a configuration allows in names.
    pub can_be_named: bool,
    pub status: String,
    pub mode: String,
    pub algorithm: String,
    pub address: String,
    pub cookie: String,
    pub weight: Option<u64>,
    pub initial_weight: Option<u64>,
    pub active: u64,
    pub backup: u64,
    pub sessions: RowGauge,
    pub sessions_total: u64,
    pub queue: RowGauge,
    pub requests_total: Option<u64>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Number of responses by class: 1xx to 5xx, then others. `None` for TCP.
    pub codes: Option<[u64; 6]>,
    pub errors: Errors,
    pub check: RowCheck,
    pub since_change: Option<u64>,
    pub downtime: Option<u64>,
    pub last_session: Option<u64>,
    /// Means over the last 1024 streams, in milliseconds: queue, connect, response, total.
    pub means_ms: [Option<u64>; 4],
    pub worst_ms: [Option<u64>; 4],
    /// Rate per second, as reported by the process.
    pub reported_rate: u64,
    pub throttle: Option<u64>,
    pub connections_used: Option<u64>,
    pub connections_idle: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowGauge {
    pub now: u64,
    pub most: u64,
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Errors {
    pub requests: u64,
    pub connects: u64,
    pub responses: u64,
    pub denied_requests: u64,
    pub denied_responses: u64,
    pub retries: u64,
    pub redispatches: u64,
    pub client_aborts: u64,
    pub server_aborts: u64,
}

impl Errors {
    /// All failures, without denied requests and retries.
    pub(crate) fn sum(&self) -> u64 {
        self.requests.saturating_add(self.connects).saturating_add(self.responses)
    }

    pub(crate) fn denied(&self) -> u64 {
        self.denied_requests.saturating_add(self.denied_responses)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct RowCheck {
    pub status: String,
    pub code: String,
    pub duration_ms: Option<u64>,
    pub last: String,
    pub failed: Option<u64>,
    pub downs: Option<u64>,
    pub agent: String,
}

/// The assessment of a row's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowState {
    Good,
    /// Going up or down, or unknown because of missing checks.
    Changing,
    /// Taken out of service by an operator.
    Wanted,
    Down,
}

impl ObjectRow {
    /// Parses at most `most` rows of `show stat`. Also returns whether there were more.
    pub(crate) fn read_all(text: &str, most: usize) -> Option<(Vec<ObjectRow>, bool)> {
        let table = PrintedTable::read(text)?;
        let mut rows: Vec<ObjectRow> =
            table.lines().take(most + 1).filter_map(|line| ObjectRow::read(&line)).collect();
        let more = rows.len() > most;
        rows.truncate(most);
        Some((rows, more))
    }

    fn read(line: &PrintedRow<'_>) -> Option<ObjectRow> {
        let text = |column: &str| clean(line.text(column), LONGEST_TEXT);
        let count = |column: &str| line.number(column).unwrap_or(0);
        let gauge =
            |now, most, limit| RowGauge { now: count(now), most: count(most), limit: line.number(limit) };
        let kind = match line.text("type") {
            "0" => RowKind::Frontend,
            "1" => RowKind::Backend,
            "2" => RowKind::Server,
            "3" => RowKind::Listener,
            _ => return None,
        };
        let codes = ["hrsp_1xx", "hrsp_2xx", "hrsp_3xx", "hrsp_4xx", "hrsp_5xx", "hrsp_other"];
        Some(ObjectRow {
            key: RowKey { kind, proxy: text("pxname"), name: text("svname") },
            can_be_named: is_name(line.text("pxname")) && is_name(line.text("svname")),
            status: text("status"),
            mode: text("mode"),
            algorithm: text("algo"),
            address: text("addr"),
            cookie: text("cookie"),
            weight: line.number("weight"),
            initial_weight: line.number("uweight"),
            active: count("act"),
            backup: count("bck"),
            sessions: gauge("scur", "smax", "slim"),
            sessions_total: count("stot"),
            queue: gauge("qcur", "qmax", "qlimit"),
            requests_total: line.number("req_tot"),
            bytes_in: count("bin"),
            bytes_out: count("bout"),
            codes: line.number("hrsp_2xx").map(|_| codes.map(count)),
            errors: Errors {
                requests: count("ereq"),
                connects: count("econ"),
                responses: count("eresp"),
                denied_requests: count("dreq"),
                denied_responses: count("dresp"),
                retries: count("wretr"),
                redispatches: count("wredis"),
                client_aborts: count("cli_abrt"),
                server_aborts: count("srv_abrt"),
            },
            check: RowCheck {
                status: text("check_status"),
                code: text("check_code"),
                duration_ms: line.number("check_duration"),
                last: text("last_chk"),
                failed: line.number("chkfail"),
                downs: line.number("chkdown"),
                agent: text("agent_status"),
            },
            since_change: line.number("lastchg"),
            downtime: line.number("downtime"),
            last_session: line.number("lastsess"),
            means_ms: ["qtime", "ctime", "rtime", "ttime"].map(|column| line.number(column)),
            worst_ms: ["qtime_max", "ctime_max", "rtime_max", "ttime_max"].map(|column| line.number(column)),
            reported_rate: line.number("req_rate").or(line.number("rate")).unwrap_or(0),
            throttle: line.number("throttle"),
            connections_used: line.number("used_conn_cur"),
            connections_idle: line.number("idle_conn_cur"),
        })
    }

    /// The counter of work: requests if they are counted, otherwise sessions.
    pub(crate) fn work(&self) -> u64 {
        self.requests_total.unwrap_or(self.sessions_total)
    }

    pub(crate) fn state(&self) -> RowState {
        let status = self.status.as_str();
        match () {
            () if status.starts_with("DOWN") && !status.contains('/')
                || status.starts_with("NOLB") && self.key.kind != RowKind::Server =>
            {
                RowState::Down
            }
            () if ["MAINT", "DRAIN", "STOP"].iter().any(|word| status.starts_with(word)) => RowState::Wanted,
            () if status == "UP" || status == "OPEN" || status == "no check" => RowState::Good,
            () => RowState::Changing,
        }
    }

    /// The name in commands and on the screen.
    pub(crate) fn path(&self) -> String {
        match self.key.kind {
            RowKind::Server | RowKind::Listener => format!("{}/{}", self.key.proxy, self.key.name),
            RowKind::Frontend | RowKind::Backend => self.key.proxy.clone(),
        }
    }
}

/// Whether HAProxy's manual allows this name. Other strings must not become part of a command.
fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    (1..=LONGEST_TEXT).contains(&text.len()) && text.chars().all(allowed)
}

/// Maximum length of strings. Longer ones are cut.
const LONGEST_TEXT: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "# pxname,svname,status,type,scur,slim,stot,req_tot,hrsp_2xx,hrsp_5xx,weight,ereq,econ,last_chk\n";

    fn read(line: &str) -> ObjectRow {
        let (rows, more) = ObjectRow::read_all(&format!("{HEAD}{line}\n"), 10).expect("a table");
        assert!(!more);
        rows.into_iter().next().expect("a row")
    }

    #[test]
    fn parses_a_line_of_show_stat_into_a_row() {
        let row = read("app,s1,UP 2/3,2,4,30,100,,50,3,7,,2,\"no, not well\"");
        assert_eq!((row.path().as_str(), row.key.kind, row.weight), ("app/s1", RowKind::Server, Some(7)));
        assert_eq!((row.sessions.now, row.sessions.limit, row.work()), (4, Some(30), 100));
        assert_eq!((row.codes, row.errors.sum()), (Some([0, 50, 0, 0, 3, 0]), 2));
        assert_eq!(
            (row.state(), row.check.last.as_str(), row.can_be_named),
            (RowState::Changing, "no, not well", true)
        );
        assert_eq!(read("web,FRONTEND,OPEN,0,1,,5,9,1,,,,,").work(), 9);
        assert_eq!(read("db,BACKEND,UP,1,1,,5,,,,,,,").codes, None);
    }

    #[test]
    fn classifies_states_as_good_bad_or_intended() {
        for (status, expected) in [
            ("UP", RowState::Good),
            ("no check", RowState::Good),
            ("DOWN", RowState::Down),
            ("DOWN (agent)", RowState::Down),
            ("DOWN 1/2", RowState::Changing),
            ("UP 1/3", RowState::Changing),
            ("NOLB", RowState::Changing),
            ("MAINT", RowState::Wanted),
            ("MAINT (via a/b)", RowState::Wanted),
            ("DRAIN", RowState::Wanted),
            ("DRAIN (agent)", RowState::Wanted),
        ] {
            assert_eq!(read(&format!("a,b,{status},2,,,,,,,,,,")).state(), expected, "{status}");
        }
    }

    #[test]
    fn rows_with_unsafe_names_cannot_be_used_in_commands() {
        for name in ["s1; shutdown sessions", "s\u{1b}[2J", "a b", "", "a/b", "\"a,b\""] {
            let row = read(&format!("app,{name},UP,2,,,,,,,,,,"));
            assert!(!row.can_be_named && !row.key.name.contains('\u{1b}'), "{name}");
        }
    }

    #[test]
    fn limits_the_rows_and_skips_lines_that_are_not_rows() {
        let text = format!("{HEAD}{}", "a,b,UP,2,,,,,,,,,,\n".repeat(9));
        let (rows, more) = ObjectRow::read_all(&text, 5).expect("a table");
        assert_eq!((rows.len(), more), (5, true));
        assert_eq!(ObjectRow::read_all(&format!("{HEAD}a,b,UP,9\n,,,\n"), 5).expect("a table").0.len(), 0);
        assert!(ObjectRow::read_all("Permission denied\n", 5).is_none());
    }
}
