//! The HTML page: one table per proxy, a legend, links to other views, and a form for administrators.
//!
//! Written by hand and small: one style sheet, no script beyond a check box, details as tooltips. Like the other formats
//! it is written a bounded piece at a time; a proxy's table begins with its first row and ends when another proxy's begins.

mod cells;
mod head;

use std::fmt::Write;

use crate::admin::{AdminAction, TOKEN};
use crate::dump::{DumpProgress, OBJECTS_PER_PIECE, visit_rows};
use crate::fields::{StatsField, StatsObject};
use crate::info::InfoRow;
use crate::row::StatsRow;
use crate::source::{RowCursor, RowSelection, StatsSource};
use crate::uri::StatsRequest;

/// The `stats` settings that shape the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSettings {
    /// `stats uri`.
    pub uri: String,
    /// `stats hide-version`.
    pub hide_version: bool,
    /// `stats refresh`, in seconds.
    pub refresh_s: Option<u32>,
    /// `stats show-node`: the node's name.
    pub node: Option<String>,
    /// `stats show-desc`.
    pub description: Option<String>,
    /// `stats show-legends`: addresses, cookies, algorithms.
    pub legends: bool,
    /// `stats show-modules`: whether the counters of modules are shown.
    pub modules: bool,
    /// The token of forms, for a request that may change something (`stats admin`).
    pub form_token: Option<String>,
    /// `stats scope`: only these proxies; all when empty.
    pub proxies: Vec<String>,
}

impl PageSettings {
    /// The rows that a request may see.
    pub fn selection(&self, request: &StatsRequest) -> RowSelection {
        RowSelection {
            only_up: request.only_up,
            no_maintenance: request.no_maintenance,
            scope: request.scope.clone(),
            proxies: self.proxies.clone(),
            latencies: true,
            ..RowSelection::default()
        }
    }

    /// The value of the `Refresh` header of the answer, if it has one.
    pub fn refresh(&self, request: &StatsRequest) -> Option<u32> {
        self.refresh_s.filter(|_| !request.no_refresh)
    }
}

/// The permissions of the page in a browser: its style, the script of the check box that checks all others, its own forms. Other sites may not
/// show it in a frame.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
     script-src 'unsafe-hashes' 'sha256-csqIAB8a5ex0PyccQlsffoPD2QyUiVZUdeAcu0YqsJ0='; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The page in progress.
#[derive(Debug)]
pub struct PageDump {
    settings: PageSettings,
    request: StatsRequest,
    selection: RowSelection,
    cursor: RowCursor,
    state: PageState,
}

/// ```text
/// Head ──► Between ──► Proxy { id } ──► Proxy { other } ──► Done
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
enum PageState {
    Head,
    Between,
    /// The table of this proxy is open, within a form if it has servers that may be changed.
    Proxy {
        id: u32,
        form: bool,
    },
    Done,
}

impl PageDump {
    /// A page at its beginning.
    pub fn new(settings: PageSettings, request: StatsRequest) -> Self {
        let selection = settings.selection(&request);
        Self { settings, request, selection, cursor: RowCursor::default(), state: PageState::Head }
    }

    /// Appends to `out` until it holds at least `enough` bytes, at most one row more (a row is some 3 kB). `scratch`
    /// is a row to work in.
    pub fn advance(
        &mut self,
        source: &dyn StatsSource,
        scratch: &mut StatsRow,
        enough: usize,
        out: &mut String,
    ) -> DumpProgress {
        if self.state == PageState::Head {
            let mut info = InfoRow::new();
            source.info(false, &mut info);
            head::write(&self.settings, &self.request, &info, out);
            self.state = PageState::Between;
        }
        if self.state == PageState::Done {
            return DumpProgress::Done;
        }
        if out.len() >= enough {
            return DumpProgress::More;
        }
        let (mut cursor, selection) = (self.cursor, std::mem::take(&mut self.selection));
        let mut left = OBJECTS_PER_PIECE;
        let progress = visit_rows(source, &mut cursor, &selection, scratch, &mut left, |row| {
            self.row(row, out);
            out.len() >= enough
        });
        (self.cursor, self.selection) = (cursor, selection);
        if progress == DumpProgress::Done {
            self.end_proxy(out);
            out.push_str("</body></html>\n");
            self.state = PageState::Done;
        }
        progress
    }

    fn row(&mut self, row: &StatsRow, out: &mut String) {
        let id = row.proxy_id();
        let open = matches!(self.state, PageState::Proxy { id: open, .. } if open == id);
        if !open {
            self.end_proxy(out);
            // The servers of a backend come first: if another row does, its servers are not shown.
            let has_servers = row.kind() == StatsObject::Server || row.sides().0 && row.has_servers();
            let form = self.settings.form_token.is_some() && row.sides().1 && has_servers;
            self.begin_proxy(row, form, out);
            self.state = PageState::Proxy { id, form };
        }
        let form = matches!(self.state, PageState::Proxy { form: true, .. });
        cells::write(row, &self.settings, form, out);
    }

    fn begin_proxy(&self, row: &StatsRow, form: bool, out: &mut String) {
        let name = escape(row.text(StatsField::Pxname));
        let side = match row.sides() {
            (true, true) => "proxy",
            (true, false) => "frontend",
            (false, _) => "backend",
        };
        out.push_str(if form { "<form method=\"post\">" } else { "" });
        let _ = write!(out, "<h3 id=\"{name}\"><a href=\"#{name}\"");
        if self.settings.legends {
            let mode = escape(row.text(StatsField::Mode));
            let _ = write!(out, " title=\"cap: {side}, mode: {mode}, id: {}\"", row.proxy_id());
        }
        let _ = write!(out, ">{name}</a>");
        if let Some(description) = row.description() {
            let _ = write!(out, " <small>{}</small>", escape(description));
        }
        out.push_str("</h3>\n<table>\n");
        cells::header(form, self.settings.modules, out);
    }

    /// Closes the table, and the form with its choice of actions.
    fn end_proxy(&mut self, out: &mut String) {
        let PageState::Proxy { id, form } = self.state else { return };
        out.push_str("</table>\n");
        if form {
            out.push_str(
                "<p><label>With the checked servers: <select name=\"action\"><option value=\"\"></option>",
            );
            for (_, word, text) in AdminAction::ALL {
                let _ = write!(out, "<option value=\"{word}\">{text}</option>");
            }
            let token = self.settings.form_token.as_deref().unwrap_or_default();
            let _ = writeln!(
                out,
                "</select></label><input type=\"hidden\" name=\"b\" value=\"#{id}\">\
                 <input type=\"hidden\" name=\"{TOKEN}\" value=\"{token}\"> <input type=\"submit\" value=\"Apply\"></p></form>"
            );
        }
        self.state = PageState::Between;
    }
}

/// The mark in a row's anchor, and the row's name, which is also the end of the anchor.
fn shown_name(row: &StatsRow) -> (&'static str, &str) {
    match row.kind() {
        StatsObject::Frontend => ("", "Frontend"),
        StatsObject::Backend => ("", "Backend"),
        StatsObject::Listener => ("+", row.text(StatsField::Svname)),
        StatsObject::Server => ("", row.text(StatsField::Svname)),
    }
}

/// Escapes text for HTML, also inside an attribute in double quotes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    push_escaped(text, &mut escaped);
    escaped
}

/// Appends the escaped text.
fn push_escaped(text: &str, out: &mut String) {
    let mut rest = text;
    let is_special = |byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'');
    while let Some(at) = rest.bytes().position(is_special) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}
