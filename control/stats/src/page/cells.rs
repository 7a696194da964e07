//! The rows of a proxy's table.

use std::fmt::Write;

use super::{PageSettings, push_escaped, shown_name};
use crate::fields::{StatsField, StatsObject};
use crate::latency::{PERCENTILES, PHASES};
use crate::row::{FieldValue, Health, StatsRow};

/// The script of the check box that selects all others. [`super::POLICY`] contains its hash.
pub(super) const CHECK_ALL: &str =
    "for(const c of this.form.querySelectorAll('input[name=s]'))c.checked=this.checked";

/// Writes the two header lines. `form`: a first column with check boxes. `modules`: a last column with protocol counters.
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

/// Writes one object as a table row.
pub(super) fn write(row: &StatsRow, settings: &PageSettings, form: bool, out: &mut String) {
    out.push_str("<tr class=\"");
    out.push_str(class(row));
    out.push_str("\">");
    if form {
        check_box(row, out);
    }
    name(row, settings, out);
    let mut line = PageLine { row, out };
    line.values(&[StatsField::Qcur, StatsField::Qmax]);
    line.limit(StatsField::Qlimit);
    line.rates();
    line.sessions();
    line.total_times();
    line.values(&[
        StatsField::Bin,
        StatsField::Bout,
        StatsField::Dreq,
        StatsField::Dresp,
        StatsField::Ereq,
        StatsField::Econ,
    ]);
    line.response_errors();
    line.values(&[StatsField::Wretr, StatsField::Wredis]);
    line.status();
    if settings.modules {
        line.module("h2", MODULE_H2);
        line.module("h1", MODULE_H1);
    }
    line.out.push_str("</tr>\n");
}

/// Counters of HTTP/2 connections.
const MODULE_H2: &[StatsField] = &[
    StatsField::H2HeadersRcvd,
    StatsField::H2DataRcvd,
    StatsField::H2SettingsRcvd,
    StatsField::H2RstStreamRcvd,
    StatsField::H2GoawayRcvd,
    StatsField::H2DetectedConnProtocolErrors,
    StatsField::H2DetectedStrmProtocolErrors,
    StatsField::H2RstStreamResp,
    StatsField::H2GoawayResp,
    StatsField::H2OpenConnections,
    StatsField::H2BackendOpenStreams,
    StatsField::H2TotalConnections,
    StatsField::H2BackendTotalStreams,
];

/// Counters of HTTP/1 connections.
const MODULE_H1: &[StatsField] = &[
    StatsField::H1OpenConnections,
    StatsField::H1OpenStreams,
    StatsField::H1TotalConnections,
    StatsField::H1TotalStreams,
    StatsField::H1BytesIn,
    StatsField::H1BytesOut,
    StatsField::H1SplicedBytesIn,
    StatsField::H1SplicedBytesOut,
];

/// The CSS class, which sets the colour.
fn class(row: &StatsRow) -> &'static str {
    match row.kind() {
        StatsObject::Frontend => return "frontend",
        StatsObject::Backend => return "backend",
        StatsObject::Listener => return "listener",
        StatsObject::Server => {}
    }
    let backup = row.number(StatsField::Bck) > 0;
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

fn check_box(row: &StatsRow, out: &mut String) {
    if row.kind() != StatsObject::Server {
        return out.push_str("<td></td>");
    }
    let name = row.text(StatsField::Svname);
    out.push_str("<td><input type=\"checkbox\" name=\"s\" value=\"");
    push_escaped(name, out);
    out.push_str("\" aria-label=\"");
    push_escaped(name, out);
    out.push_str("\"></td>");
}

fn name(row: &StatsRow, settings: &PageSettings, out: &mut String) {
    let (mark, name) = shown_name(row);
    let anchor = |out: &mut String| {
        push_escaped(row.text(StatsField::Pxname), out);
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

/// A tooltip with address, algorithm, cookie and id, if present.
fn legend(row: &StatsRow, out: &mut String) {
    let texts = [
        ("address: ", StatsField::Addr),
        ("balancing: ", StatsField::Algo),
        ("cookie: ", StatsField::Cookie),
    ];
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

/// A table row in progress. Appends directly to the page, which may have hundreds of thousands of cells.
struct PageLine<'a> {
    row: &'a StatsRow,
    out: &'a mut String,
}

impl PageLine<'_> {
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

    /// The counters of a module. Empty if this kind of object lacks them.
    fn module(&mut self, name: &str, fields: &[StatsField]) {
        let row = self.row;
        let mut known =
            fields.iter().filter(|field| !matches!(row.value(**field), FieldValue::Empty)).peekable();
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

    /// A number with separated thousands. Empty if the field does not apply.
    fn value(&mut self, field: StatsField) {
        if self.row.value(field) != FieldValue::Empty {
            push_grouped(self.row.number(field), self.out);
        }
    }

    fn values(&mut self, fields: &[StatsField]) {
        for &field in fields {
            self.cell(|line| line.value(field));
        }
    }

    /// A limit. Shows a dash if the limit is not set but applies to objects of this kind.
    fn limit(&mut self, field: StatsField) {
        if self.row.value(field) == FieldValue::Empty && field.applies_to(self.row.kind()) {
            self.text_cell("-");
        } else {
            self.values(&[field]);
        }
    }

    /// A value with other values as a tooltip.
    fn value_with_listing(&mut self, field: StatsField, rows: &[(&str, StatsField)]) {
        self.cell_with_details(|line| line.listing(rows), |line| line.value(field));
    }

    fn rates(&mut self) {
        if self.row.kind() != StatsObject::Frontend {
            self.values(&[StatsField::Rate, StatsField::RateMax]);
            return self.text_cell("");
        }
        let now = [
            ("connections/s", StatsField::ConnRate),
            ("sessions/s", StatsField::Rate),
            ("requests/s", StatsField::ReqRate),
        ];
        self.value_with_listing(StatsField::Rate, &now);
        let most = [
            ("most connections/s", StatsField::ConnRateMax),
            ("most sessions/s", StatsField::RateMax),
            ("most requests/s", StatsField::ReqRateMax),
        ];
        self.value_with_listing(StatsField::RateMax, &most);
        match self.row.number(StatsField::RateLim) {
            0 => self.text_cell("-"),
            _ => self.values(&[StatsField::RateLim]),
        }
    }

    fn sessions(&mut self) {
        if self.row.kind() == StatsObject::Server {
            self.value_with_listing(StatsField::Scur, CONNECTIONS);
        } else {
            self.values(&[StatsField::Scur]);
        }
        self.values(&[StatsField::Smax]);
        self.limit(StatsField::Slim);
        let details = |line: &mut Self| {
            line.listing(TOTALS);
            line.percentiles();
        };
        self.cell_with_details(details, |line| line.value(StatsField::Stot));
        self.values(&[StatsField::Lbtot]);
        self.cell(|line| match line.row.value(StatsField::Lastsess) {
            FieldValue::S32(seconds) if seconds >= 0 => {
                push_duration(seconds.unsigned_abs().into(), line.out)
            }
            FieldValue::S32(_) => line.out.push('?'),
            _ => {}
        });
    }

    /// Percentiles next to the maximum. Empty before the end of the first stream.
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

    /// The percentiles of each phase with values, in milliseconds, one line per phase.
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
        if self.row.value(StatsField::Eresp) == FieldValue::Empty {
            return self.text_cell("");
        }
        let details =
            [("aborted by clients", StatsField::CliAbrt), ("aborted by servers", StatsField::SrvAbrt)];
        self.value_with_listing(StatsField::Eresp, &details);
    }

    fn status(&mut self) {
        let kind = self.row.kind();
        let checked = kind == StatsObject::Backend || self.row.health() != Health::NotChecked;
        self.out.push_str("<td class=\"c\">");
        if let (FieldValue::U32(seconds), true) = (self.row.value(StatsField::Lastchg), checked) {
            push_duration(seconds.into(), self.out);
            self.out.push(' ');
        }
        push_escaped(self.row.text(StatsField::Status), self.out);
        self.out.push_str("</td>");
        if !matches!(kind, StatsObject::Server | StatsObject::Backend) {
            self.out.push_str("<td colspan=\"8\"></td>");
            return;
        }
        self.check();
        self.cell(|line| {
            let (weight, user) = (line.row.number(StatsField::Weight), line.row.number(StatsField::Uweight));
            let _ = write!(line.out, "{weight}/{user}");
        });
        for field in [StatsField::Act, StatsField::Bck] {
            match kind {
                StatsObject::Server if self.row.number(field) > 0 => self.text_cell("Y"),
                StatsObject::Server => self.text_cell("-"),
                _ => self.values(&[field]),
            }
        }
        self.values(&[StatsField::Chkfail, StatsField::Chkdown]);
        self.cell(|line| {
            if line.row.value(StatsField::Downtime) != FieldValue::Empty {
                push_duration(line.row.number(StatsField::Downtime), line.out);
            }
        });
        self.cell(|line| match line.row.value(StatsField::Throttle) {
            FieldValue::Empty => line.out.push('-'),
            _ => {
                let _ = write!(line.out, "{} %", line.row.number(StatsField::Throttle));
            }
        });
    }

    /// The result of the last health check.
    fn check(&mut self) {
        let row = self.row;
        let check = row.text(StatsField::CheckStatus);
        if check.is_empty() {
            return self.text_cell("");
        }
        let details = format!("{} {}", row.text(StatsField::CheckDesc), row.text(StatsField::LastChk));
        self.cell_with_details(
            |line| push_escaped(details.trim(), line.out),
            |line| push_escaped(check, line.out),
        );
    }

    /// `name: value` for each available field, one per line.
    fn listing(&mut self, rows: &[(&str, StatsField)]) {
        let mut is_first = true;
        for (name, field) in rows {
            if self.row.value(*field) == FieldValue::Empty {
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

/// The tooltip of a server's current sessions.
const CONNECTIONS: &[(&str, StatsField)] = &[
    ("used connections", StatsField::UsedConnCur),
    ("idle connections, safe", StatsField::SafeConnCur),
    ("idle connections, unsafe", StatsField::IdleConnCur),
    ("idle connections kept by sessions", StatsField::PrivIdleCur),
    ("needed connections, estimated", StatsField::NeedConnEst),
    ("limit of idle connections", StatsField::SrcIlim),
];

/// The tooltip of total sessions.
const TOTALS: &[(&str, StatsField)] = &[
    ("connections", StatsField::ConnTot),
    ("sessions", StatsField::Stot),
    ("new connections", StatsField::Connect),
    ("reused connections", StatsField::Reuse),
    ("requests", StatsField::ReqTot),
    ("1xx", StatsField::Hrsp1xx),
    ("2xx", StatsField::Hrsp2xx),
    ("3xx", StatsField::Hrsp3xx),
    ("4xx", StatsField::Hrsp4xx),
    ("5xx", StatsField::Hrsp5xx),
    ("other responses", StatsField::HrspOther),
    ("answered here", StatsField::Intercepted),
    ("failed header rewrites", StatsField::Wrew),
    ("internal errors", StatsField::Eint),
    ("queue time, average ms", StatsField::Qtime),
    ("queue time, most ms", StatsField::QtimeMax),
    ("connect time, average ms", StatsField::Ctime),
    ("connect time, most ms", StatsField::CtimeMax),
    ("response time, average ms", StatsField::Rtime),
    ("response time, most ms", StatsField::RtimeMax),
    ("total time, average ms", StatsField::Ttime),
    ("total time, most ms", StatsField::TtimeMax),
];

/// A number such as `1 234 567`, with non-breaking spaces.
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

/// A duration in its two largest units: `3s`, `2m5s`, `1h3m`, `4d2h`.
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
    fn formats_numbers_and_durations_for_table_cells() {
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
    fn the_content_security_policy_permits_the_check_box_script() {
        let hash = BASE64_STANDARD.encode(Sha256::digest(CHECK_ALL));
        assert!(POLICY.contains(&format!("'sha256-{hash}'")), "{hash}");
        // These characters would have to be escaped in the attribute.
        assert!(!CHECK_ALL.contains(['"', '&', '<']));
    }
}
