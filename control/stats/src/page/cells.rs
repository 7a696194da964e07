//! The rows of a proxy's table.

use std::fmt::Write;

use super::{PageSettings, escape, shown_name};
use crate::fields::{Field, Kind};
use crate::latency::{PERCENTILES, PHASES};
use crate::row::{Health, Row, Value};

/// The script of the check box that checks all others; [`super::POLICY`] has its hash.
pub(super) const CHECK_ALL: &str =
    "for(const c of this.form.querySelectorAll('input[name=s]'))c.checked=this.checked";

/// The two header lines. With `form`, the first column has check boxes, with `modules` the last one their counters.
pub(super) fn header(form: bool, modules: bool, out: &mut String) {
    let check = if form {
        format!(
            "<th rowspan=\"2\"><input type=\"checkbox\" title=\"all servers\" aria-label=\"all servers\" \
             onclick=\"{CHECK_ALL}\"></th>"
        )
    } else {
        String::new()
    };
    let (group, module) =
        if modules { ("<th colspan=\"2\">Extra modules</th>", "<th>h2</th><th>h1</th>") } else { ("", "") };
    let _ = write!(
        out,
        "<tr>{check}<th rowspan=\"2\"></th><th colspan=\"3\">Queue</th><th colspan=\"3\">Session rate</th>\
         <th colspan=\"6\">Sessions</th><th colspan=\"3\">Total time (ms)</th><th colspan=\"2\">Bytes</th><th colspan=\"2\">Denied</th>\
         <th colspan=\"3\">Errors</th><th colspan=\"2\">Warnings</th><th colspan=\"9\">Server</th>{group}</tr>\n\
         <tr><th>Cur</th><th>Max</th><th>Limit</th><th>Cur</th><th>Max</th><th>Limit</th><th>Cur</th><th>Max</th>\
         <th>Limit</th><th>Total</th><th>LbTot</th><th>Last</th><th>p50</th><th>p99</th><th>Max</th><th>In</th><th>Out</th><th>Req</th><th>Resp</th>\
         <th>Req</th><th>Conn</th><th>Resp</th><th>Retr</th><th>Redis</th><th>Status</th><th>LastChk</th><th>Wght</th>\
         <th>Act</th><th>Bck</th><th>Chk</th><th>Dwn</th><th>Dwntme</th><th>Thrtle</th>{module}</tr>\n"
    );
}

/// One object as a line of the table.
pub(super) fn write(row: &Row, settings: &PageSettings, form: bool, out: &mut String) {
    let _ = write!(out, "<tr class=\"{}\">", class(row));
    if form {
        check_box(row, out);
    }
    name(row, settings, out);
    let mut line = Line { row, out };
    line.figures(&[Field::Qcur, Field::Qmax]);
    line.limit(Field::Qlimit);
    line.rates();
    line.sessions();
    line.total_times();
    line.figures(&[Field::Bin, Field::Bout, Field::Dreq, Field::Dresp, Field::Ereq, Field::Econ]);
    line.response_errors();
    line.figures(&[Field::Wretr, Field::Wredis]);
    line.status();
    if settings.modules {
        line.module("h2", MODULE_H2);
        line.module("h1", MODULE_H1);
    }
    line.out.push_str("</tr>\n");
}

/// Counters of HTTP/2 connections.
const MODULE_H2: &[Field] = &[
    Field::H2HeadersRcvd,
    Field::H2DataRcvd,
    Field::H2SettingsRcvd,
    Field::H2RstStreamRcvd,
    Field::H2GoawayRcvd,
    Field::H2DetectedConnProtocolErrors,
    Field::H2DetectedStrmProtocolErrors,
    Field::H2RstStreamResp,
    Field::H2GoawayResp,
    Field::H2OpenConnections,
    Field::H2BackendOpenStreams,
    Field::H2TotalConnections,
    Field::H2BackendTotalStreams,
];

/// Counters of HTTP/1 connections.
const MODULE_H1: &[Field] = &[
    Field::H1OpenConnections,
    Field::H1OpenStreams,
    Field::H1TotalConnections,
    Field::H1TotalStreams,
    Field::H1BytesIn,
    Field::H1BytesOut,
    Field::H1SplicedBytesIn,
    Field::H1SplicedBytesOut,
];

/// The style class, which sets the colour.
fn class(row: &Row) -> &'static str {
    match row.kind() {
        Kind::Frontend => return "frontend",
        Kind::Backend => return "backend",
        Kind::Listener => return "listener",
        Kind::Server => {}
    }
    let backup = row.number(Field::Bck) > 0;
    match (row.health(), backup) {
        (Health::Maintenance, _) => "maintain",
        (Health::NotChecked, false) => "active_no_check",
        (Health::NotChecked, true) => "backup_no_check",
        (Health::Up, false) => "active_up",
        (Health::Up, true) => "backup_up",
        (Health::GoingDown, false) => "active_going_down",
        (Health::GoingDown, true) => "backup_going_down",
        (Health::GoingUp, false) => "active_going_up",
        (Health::GoingUp, true) => "backup_going_up",
        (Health::Down, false) => "active_down",
        (Health::Down, true) => "backup_down",
        (Health::Drain | Health::NoLoadBalancing, false) => "active_drain",
        (Health::Drain | Health::NoLoadBalancing, true) => "backup_drain",
    }
}

fn check_box(row: &Row, out: &mut String) {
    if row.kind() == Kind::Server {
        let name = escape(row.text(Field::Svname));
        let _ = write!(
            out,
            "<td><input type=\"checkbox\" name=\"s\" value=\"{name}\" aria-label=\"{name}\"></td>"
        );
    } else {
        out.push_str("<td></td>");
    }
}

fn name(row: &Row, settings: &PageSettings, out: &mut String) {
    let (mark, name) = shown_name(row);
    let anchor = format!("{}/{mark}{}", escape(row.text(Field::Pxname)), escape(name));
    let _ = write!(out, "<td class=\"c\" id=\"{anchor}\"");
    let legend = if settings.legends { legend(row) } else { String::new() };
    if !legend.is_empty() {
        let _ = write!(out, " title=\"{}\"", escape(&legend));
    }
    let _ = write!(out, "><a href=\"#{anchor}\">{}</a></td>", escape(name));
}

fn legend(row: &Row) -> String {
    let mut parts = Vec::new();
    for (field, word) in [(Field::Addr, "address"), (Field::Algo, "balancing"), (Field::Cookie, "cookie")] {
        let text = row.text(field);
        if !text.is_empty() {
            parts.push(format!("{word}: {text}"));
        }
    }
    if row.object_id() > 0 {
        parts.push(format!("id: {}", row.object_id()));
    }
    parts.join(", ")
}

struct Line<'a> {
    row: &'a Row,
    out: &'a mut String,
}

impl Line<'_> {
    fn cell(&mut self, text: &str) {
        let _ = write!(self.out, "<td>{text}</td>");
    }

    fn cell_with_details(&mut self, text: &str, details: &str) {
        let _ = write!(self.out, "<td title=\"{}\">{text}</td>", escape(details));
    }

    /// The counters of a module, if this kind of object has any.
    fn module(&mut self, name: &str, fields: &[Field]) {
        let known = fields.iter().filter(|field| !matches!(self.row.value(**field), Value::Empty));
        let details: Vec<_> =
            known.map(|field| format!("{}: {}", field.decl().description, self.figure(*field))).collect();
        match details.is_empty() {
            true => self.cell(""),
            false => self.cell_with_details(name, &details.join(", ")),
        }
    }

    /// The figure with separated thousands; empty where it does not apply.
    fn figure(&self, field: Field) -> String {
        match self.row.value(field) {
            Value::Empty => String::new(),
            _ => grouped(self.row.number(field)),
        }
    }

    fn figures(&mut self, fields: &[Field]) {
        for &field in fields {
            let text = self.figure(field);
            self.cell(&text);
        }
    }

    /// A limit that may be missing, on objects that can have one.
    fn limit(&mut self, field: Field) {
        let text = match self.figure(field) {
            text if text.is_empty() && field.applies_to(self.row.kind()) => "-".to_owned(),
            text => text,
        };
        self.cell(&text);
    }

    fn rates(&mut self) {
        if self.row.kind() == Kind::Frontend {
            let rate = self.figure(Field::Rate);
            let details = self.listing(&[
                ("connections/s", Field::ConnRate),
                ("sessions/s", Field::Rate),
                ("requests/s", Field::ReqRate),
            ]);
            self.cell_with_details(&rate, &details);
            let most = self.figure(Field::RateMax);
            let details = self.listing(&[
                ("most connections/s", Field::ConnRateMax),
                ("most sessions/s", Field::RateMax),
                ("most requests/s", Field::ReqRateMax),
            ]);
            self.cell_with_details(&most, &details);
            let limit = if self.row.number(Field::RateLim) == 0 {
                "-".to_owned()
            } else {
                self.figure(Field::RateLim)
            };
            self.cell(&limit);
        } else {
            self.figures(&[Field::Rate, Field::RateMax]);
            self.cell("");
        }
    }

    fn sessions(&mut self) {
        if self.row.kind() == Kind::Server {
            let now = self.figure(Field::Scur);
            let details = self.listing(&[
                ("used connections", Field::UsedConnCur),
                ("idle connections, safe", Field::SafeConnCur),
                ("idle connections, unsafe", Field::IdleConnCur),
                ("idle connections kept by sessions", Field::PrivIdleCur),
                ("needed connections, estimated", Field::NeedConnEst),
                ("limit of idle connections", Field::SrcIlim),
            ]);
            self.cell_with_details(&now, &details);
        } else {
            self.figures(&[Field::Scur]);
        }
        self.figures(&[Field::Smax]);
        self.limit(Field::Slim);
        let total = self.figure(Field::Stot);
        let details = self.listing(&[
            ("connections", Field::ConnTot),
            ("sessions", Field::Stot),
            ("new connections", Field::Connect),
            ("reused connections", Field::Reuse),
            ("requests", Field::ReqTot),
            ("1xx", Field::Hrsp1xx),
            ("2xx", Field::Hrsp2xx),
            ("3xx", Field::Hrsp3xx),
            ("4xx", Field::Hrsp4xx),
            ("5xx", Field::Hrsp5xx),
            ("other responses", Field::HrspOther),
            ("answered here", Field::Intercepted),
            ("failed header rewrites", Field::Wrew),
            ("internal errors", Field::Eint),
            ("queue time, average ms", Field::Qtime),
            ("queue time, most ms", Field::QtimeMax),
            ("connect time, average ms", Field::Ctime),
            ("connect time, most ms", Field::CtimeMax),
            ("response time, average ms", Field::Rtime),
            ("response time, most ms", Field::RtimeMax),
            ("total time, average ms", Field::Ttime),
            ("total time, most ms", Field::TtimeMax),
        ]);
        let details = details + &self.percentiles();
        self.cell_with_details(&total, &details);
        self.figures(&[Field::Lbtot]);
        let last = match self.row.value(Field::Lastsess) {
            Value::S32(seconds) if seconds >= 0 => duration(seconds.unsigned_abs().into()),
            Value::S32(_) => "?".to_owned(),
            _ => String::new(),
        };
        self.cell(&last);
    }

    /// Percentiles beside the maximum; nothing before the first stream has ended.
    fn total_times(&mut self) {
        let total =
            self.row.latencies().and_then(|latencies| latencies.last()).filter(|reading| !reading.is_empty());
        let shown = total.map(|reading| [reading.quantile(0.5), reading.quantile(0.99), reading.largest()]);
        for us in shown.map_or([None; 3], |times| times.map(Some)) {
            self.cell(&us.map_or(String::new(), |us| format!("{}.{:01}", us / 1000, us % 1000 / 100)));
        }
    }

    /// The percentiles of each phase that occurred, in milliseconds, one line per phase; nothing else where there are none.
    fn percentiles(&self) -> String {
        let mut text = String::new();
        for (phase, reading) in PHASES.into_iter().zip(self.row.latencies().into_iter().flatten()) {
            if reading.is_empty() {
                continue;
            }
            let _ = write!(text, "\n{phase} time, ms:");
            for (name, share) in PERCENTILES {
                let us = reading.quantile(share);
                let _ = write!(text, " {name} {}.{:03}", us / 1000, us % 1000);
            }
        }
        text
    }

    fn response_errors(&mut self) {
        let errors = self.figure(Field::Eresp);
        if errors.is_empty() {
            return self.cell("");
        }
        let details =
            self.listing(&[("aborted by clients", Field::CliAbrt), ("aborted by servers", Field::SrvAbrt)]);
        self.cell_with_details(&errors, &details);
    }

    fn status(&mut self) {
        let kind = self.row.kind();
        let status = escape(self.row.text(Field::Status));
        let checked = kind == Kind::Backend || self.row.health() != Health::NotChecked;
        let age = match self.row.value(Field::Lastchg) {
            Value::U32(seconds) if checked => format!("{} ", duration(seconds.into())),
            _ => String::new(),
        };
        let _ = write!(self.out, "<td class=\"c\">{age}{status}</td>");
        if !matches!(kind, Kind::Server | Kind::Backend) {
            self.out.push_str("<td colspan=\"8\"></td>");
            return;
        }
        let check = escape(self.row.text(Field::CheckStatus));
        let details = format!("{} {}", self.row.text(Field::CheckDesc), self.row.text(Field::LastChk));
        if check.is_empty() {
            self.cell("");
        } else {
            self.cell_with_details(&check, details.trim());
        }
        let weight = format!("{}/{}", self.row.number(Field::Weight), self.row.number(Field::Uweight));
        self.cell(&weight);
        for field in [Field::Act, Field::Bck] {
            let text = match kind {
                Kind::Server if self.row.number(field) > 0 => "Y".to_owned(),
                Kind::Server => "-".to_owned(),
                _ => self.figure(field),
            };
            self.cell(&text);
        }
        self.figures(&[Field::Chkfail, Field::Chkdown]);
        let down = match self.row.value(Field::Downtime) {
            Value::Empty => String::new(),
            _ => duration(self.row.number(Field::Downtime)),
        };
        self.cell(&down);
        let throttle = match self.row.value(Field::Throttle) {
            Value::Empty => "-".to_owned(),
            _ => format!("{} %", self.row.number(Field::Throttle)),
        };
        self.cell(&throttle);
    }

    /// `name: figure` for each available figure, one per line.
    fn listing(&self, rows: &[(&str, Field)]) -> String {
        let known = rows.iter().filter(|row| self.row.value(row.1) != Value::Empty);
        known.map(|(name, field)| format!("{name}: {}", self.figure(*field))).collect::<Vec<_>>().join("\n")
    }
}

/// `1234567` as `1 234 567`, with non-breaking blanks.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A duration as its two largest units: `3s`, `2m5s`, `1h3m`, `4d2h`.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::page::POLICY;

    #[test]
    fn numbers_and_durations_are_easy_to_read() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1 000"), (1_234_567, "1 234 567")] {
            assert_eq!(grouped(number).replace('\u{202f}', " "), expected);
        }
        for (seconds, expected) in [(0, "0s"), (125, "2m5s"), (3_780, "1h3m"), (352_800, "4d2h")] {
            assert_eq!(duration(seconds), expected);
        }
    }

    #[test]
    fn browsers_may_run_the_script_of_the_check_box() {
        let hash = BASE64_STANDARD.encode(Sha256::digest(CHECK_ALL));
        assert!(POLICY.contains(&format!("'sha256-{hash}'")), "{hash}");
        // Others would have to be escaped in the attribute.
        assert!(!CHECK_ALL.contains(['"', '&', '<']));
    }
}
