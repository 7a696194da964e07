//! The rows of a proxy's table.

use std::fmt::Write;

use super::{PageSettings, push_escaped, shown_name};
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
    out.push_str("<tr class=\"");
    out.push_str(class(row));
    out.push_str("\">");
    if form {
        check_box(row, out);
    }
    name(row, settings, out);
    let mut line = Line { row, out };
    line.values(&[Field::Qcur, Field::Qmax]);
    line.limit(Field::Qlimit);
    line.rates();
    line.sessions();
    line.total_times();
    line.values(&[Field::Bin, Field::Bout, Field::Dreq, Field::Dresp, Field::Ereq, Field::Econ]);
    line.response_errors();
    line.values(&[Field::Wretr, Field::Wredis]);
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
    if row.kind() != Kind::Server {
        return out.push_str("<td></td>");
    }
    let name = row.text(Field::Svname);
    out.push_str("<td><input type=\"checkbox\" name=\"s\" value=\"");
    push_escaped(name, out);
    out.push_str("\" aria-label=\"");
    push_escaped(name, out);
    out.push_str("\"></td>");
}

fn name(row: &Row, settings: &PageSettings, out: &mut String) {
    let (mark, name) = shown_name(row);
    let anchor = |out: &mut String| {
        push_escaped(row.text(Field::Pxname), out);
        out.push('/');
        out.push_str(mark);
        push_escaped(name, out);
    };
    out.push_str("<td class=\"c\" id=\"");
    anchor(out);
    out.push('"');
    if settings.legends {
        legend(row, out);
    }
    out.push_str("><a href=\"#");
    anchor(out);
    out.push_str("\">");
    push_escaped(name, out);
    out.push_str("</a></td>");
}

/// A tooltip with address, algorithm, cookie and number, if present.
fn legend(row: &Row, out: &mut String) {
    let texts = [("address: ", Field::Addr), ("balancing: ", Field::Algo), ("cookie: ", Field::Cookie)];
    let mut separator = " title=\"";
    for (word, field) in texts {
        let text = row.text(field);
        if !text.is_empty() {
            out.push_str(separator);
            out.push_str(word);
            push_escaped(text, out);
            separator = ", ";
        }
    }
    if row.object_id() > 0 {
        let _ = write!(out, "{separator}id: {}", row.object_id());
        separator = ", ";
    }
    out.push_str(if separator == ", " { "\"" } else { "" });
}

/// A line in progress. Everything is appended to the page at once: a page may have hundreds of thousands of cells.
struct Line<'a> {
    row: &'a Row,
    out: &'a mut String,
}

impl Line<'_> {
    fn cell(&mut self, content: impl FnOnce(&mut Self)) {
        self.out.push_str("<td>");
        content(self);
        self.out.push_str("</td>");
    }

    fn text_cell(&mut self, text: &str) {
        self.cell(|line| line.out.push_str(text));
    }

    /// A cell with a tooltip. `details` writes escaped text.
    fn cell_with_details(&mut self, details: impl FnOnce(&mut Self), content: impl FnOnce(&mut Self)) {
        self.out.push_str("<td title=\"");
        details(self);
        self.out.push_str("\">");
        content(self);
        self.out.push_str("</td>");
    }

    /// The counters of a module, if this kind of object has any.
    fn module(&mut self, name: &str, fields: &[Field]) {
        let row = self.row;
        let mut known = fields.iter().filter(|field| !matches!(row.value(**field), Value::Empty)).peekable();
        if known.peek().is_none() {
            return self.text_cell("");
        }
        let details = |line: &mut Self| {
            for (at, field) in known.enumerate() {
                line.out.push_str(if at > 0 { ", " } else { "" });
                push_escaped(field.decl().description, line.out);
                line.out.push_str(": ");
                line.value(*field);
            }
        };
        self.cell_with_details(details, |line| line.out.push_str(name));
    }

    /// The value with separated thousands; empty where it does not apply.
    fn value(&mut self, field: Field) {
        if self.row.value(field) != Value::Empty {
            push_grouped(self.row.number(field), self.out);
        }
    }

    fn values(&mut self, fields: &[Field]) {
        for &field in fields {
            self.cell(|line| line.value(field));
        }
    }

    /// A limit that may be missing, on objects that can have one.
    fn limit(&mut self, field: Field) {
        if self.row.value(field) == Value::Empty && field.applies_to(self.row.kind()) {
            self.text_cell("-");
        } else {
            self.values(&[field]);
        }
    }

    /// A value with others as its details.
    fn value_with_listing(&mut self, field: Field, rows: &[(&str, Field)]) {
        self.cell_with_details(|line| line.listing(rows), |line| line.value(field));
    }

    fn rates(&mut self) {
        if self.row.kind() != Kind::Frontend {
            self.values(&[Field::Rate, Field::RateMax]);
            return self.text_cell("");
        }
        let now =
            [("connections/s", Field::ConnRate), ("sessions/s", Field::Rate), ("requests/s", Field::ReqRate)];
        self.value_with_listing(Field::Rate, &now);
        let most = [
            ("most connections/s", Field::ConnRateMax),
            ("most sessions/s", Field::RateMax),
            ("most requests/s", Field::ReqRateMax),
        ];
        self.value_with_listing(Field::RateMax, &most);
        match self.row.number(Field::RateLim) {
            0 => self.text_cell("-"),
            _ => self.values(&[Field::RateLim]),
        }
    }

    fn sessions(&mut self) {
        if self.row.kind() == Kind::Server {
            self.value_with_listing(Field::Scur, CONNECTIONS);
        } else {
            self.values(&[Field::Scur]);
        }
        self.values(&[Field::Smax]);
        self.limit(Field::Slim);
        let details = |line: &mut Self| {
            line.listing(TOTALS);
            line.percentiles();
        };
        self.cell_with_details(details, |line| line.value(Field::Stot));
        self.values(&[Field::Lbtot]);
        self.cell(|line| match line.row.value(Field::Lastsess) {
            Value::S32(seconds) if seconds >= 0 => push_duration(seconds.unsigned_abs().into(), line.out),
            Value::S32(_) => line.out.push('?'),
            _ => {}
        });
    }

    /// Percentiles next to the maximum; empty before the first stream has ended.
    fn total_times(&mut self) {
        let latencies = self.row.latencies();
        let total = latencies.and_then(|latencies| latencies.last()).filter(|reading| !reading.is_empty());
        let Some(reading) = total else {
            return (0..3).for_each(|_| self.text_cell(""));
        };
        for us in [reading.quantile(0.5), reading.quantile(0.99), reading.largest()] {
            self.cell(|line| {
                let _ = write!(line.out, "{}.{:01}", us / 1000, us % 1000 / 100);
            });
        }
    }

    /// The percentiles of each phase that occurred, in milliseconds, one line per phase; nothing without any.
    fn percentiles(&mut self) {
        for (phase, reading) in PHASES.into_iter().zip(self.row.latencies().into_iter().flatten()) {
            if reading.is_empty() {
                continue;
            }
            let _ = write!(self.out, "\n{phase} time, ms:");
            for (name, share) in PERCENTILES {
                let us = reading.quantile(share);
                let _ = write!(self.out, " {name} {}.{:03}", us / 1000, us % 1000);
            }
        }
    }

    fn response_errors(&mut self) {
        if self.row.value(Field::Eresp) == Value::Empty {
            return self.text_cell("");
        }
        let details = [("aborted by clients", Field::CliAbrt), ("aborted by servers", Field::SrvAbrt)];
        self.value_with_listing(Field::Eresp, &details);
    }

    fn status(&mut self) {
        let kind = self.row.kind();
        let checked = kind == Kind::Backend || self.row.health() != Health::NotChecked;
        self.out.push_str("<td class=\"c\">");
        if let (Value::U32(seconds), true) = (self.row.value(Field::Lastchg), checked) {
            push_duration(seconds.into(), self.out);
            self.out.push(' ');
        }
        push_escaped(self.row.text(Field::Status), self.out);
        self.out.push_str("</td>");
        if !matches!(kind, Kind::Server | Kind::Backend) {
            self.out.push_str("<td colspan=\"8\"></td>");
            return;
        }
        self.check();
        self.cell(|line| {
            let (weight, user) = (line.row.number(Field::Weight), line.row.number(Field::Uweight));
            let _ = write!(line.out, "{weight}/{user}");
        });
        for field in [Field::Act, Field::Bck] {
            match kind {
                Kind::Server if self.row.number(field) > 0 => self.text_cell("Y"),
                Kind::Server => self.text_cell("-"),
                _ => self.values(&[field]),
            }
        }
        self.values(&[Field::Chkfail, Field::Chkdown]);
        self.cell(|line| {
            if line.row.value(Field::Downtime) != Value::Empty {
                push_duration(line.row.number(Field::Downtime), line.out);
            }
        });
        self.cell(|line| match line.row.value(Field::Throttle) {
            Value::Empty => line.out.push('-'),
            _ => {
                let _ = write!(line.out, "{} %", line.row.number(Field::Throttle));
            }
        });
    }

    /// The last result of the health check.
    fn check(&mut self) {
        let row = self.row;
        let check = row.text(Field::CheckStatus);
        if check.is_empty() {
            return self.text_cell("");
        }
        let details = format!("{} {}", row.text(Field::CheckDesc), row.text(Field::LastChk));
        self.cell_with_details(
            |line| push_escaped(details.trim(), line.out),
            |line| push_escaped(check, line.out),
        );
    }

    /// `name: value` for each available field, one per line.
    fn listing(&mut self, rows: &[(&str, Field)]) {
        let mut is_first = true;
        for (name, field) in rows {
            if self.row.value(*field) == Value::Empty {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                self.out.push('\n');
            }
            self.out.push_str(name);
            self.out.push_str(": ");
            self.value(*field);
        }
    }
}

/// The details of a server's current sessions.
const CONNECTIONS: &[(&str, Field)] = &[
    ("used connections", Field::UsedConnCur),
    ("idle connections, safe", Field::SafeConnCur),
    ("idle connections, unsafe", Field::IdleConnCur),
    ("idle connections kept by sessions", Field::PrivIdleCur),
    ("needed connections, estimated", Field::NeedConnEst),
    ("limit of idle connections", Field::SrcIlim),
];

/// The details of all sessions.
const TOTALS: &[(&str, Field)] = &[
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
];

/// `1234567` as `1 234 567`, with non-breaking blanks.
fn push_grouped(number: u64, out: &mut String) {
    if number < 10 {
        return out.push(digit(number));
    }
    if number < 1_000 {
        if number >= 100 {
            out.push(digit(number / 100));
        }
    } else {
        push_grouped(number / 1_000, out);
        out.push('\u{202f}');
        out.push(digit(number / 100));
    }
    out.push(digit(number / 10));
    out.push(digit(number));
}

/// The last digit of a number.
fn digit(number: u64) -> char {
    char::from(b'0' + (number % 10) as u8)
}

/// A duration as its two largest units: `3s`, `2m5s`, `1h3m`, `4d2h`.
fn push_duration(seconds: u64, out: &mut String) {
    // Writing to a string does not fail.
    let _ = match seconds {
        0..60 => write!(out, "{seconds}s"),
        60..3600 => write!(out, "{}m{}s", seconds / 60, seconds % 60),
        3600..86_400 => write!(out, "{}h{}m", seconds / 3600, seconds % 3600 / 60),
        _ => write!(out, "{}d{}h", seconds / 86_400, seconds % 86_400 / 3600),
    };
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::page::POLICY;

    #[test]
    fn numbers_and_durations_are_easy_to_read() {
        let written = |write: fn(u64, &mut String), number| {
            let mut out = String::new();
            write(number, &mut out);
            out.replace('\u{202f}', " ")
        };
        for (number, expected) in [
            (0, "0"),
            (7, "7"),
            (42, "42"),
            (999, "999"),
            (1000, "1 000"),
            (10_005, "10 005"),
            (1_234_567, "1 234 567"),
            (u64::MAX, "18 446 744 073 709 551 615"),
        ] {
            assert_eq!(written(push_grouped, number), expected);
        }
        for (seconds, expected) in [(0, "0s"), (125, "2m5s"), (3_780, "1h3m"), (352_800, "4d2h")] {
            assert_eq!(written(push_duration, seconds), expected);
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
