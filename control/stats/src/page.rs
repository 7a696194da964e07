//! The HTML page: one table per proxy, a legend, links to other views, and a form for administrators.
//!
//! Small and written by hand: one style sheet, no script except for a check box, details as tooltips. Like the other formats, it
//! is written in bounded pieces. A proxy's table starts with its first row and ends at the first row of another proxy.

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
    /// `stats show-modules`: whether to show the protocol counters.
    pub modules: bool,
    /// The form token. `None` if the request may not change anything (`stats admin`).
    pub form_token: Option<String>,
    /// `stats scope`: only these proxies. Empty for all.
    pub proxies: Vec<String>,
}

impl PageSettings {
    /// The rows visible to a request.
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

    /// The value of the response's `Refresh` header. `None` without automatic refresh.
    pub fn refresh(&self, request: &StatsRequest) -> Option<u32> {
        self.refresh_s.filter(|_| !request.no_refresh)
    }
}

/// The Content-Security-Policy of the page. It allows the page's style, its own forms, and the script of the check box that selects
/// all others. Other sites cannot show the page in a frame.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
     script-src 'unsafe-hashes' 'sha256-csqIAB8a5ex0PyccQlsffoPD2QyUiVZUdeAcu0YqsJ0='; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The statistics page in progress, written in pieces.
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
    /// The table of this proxy is open, inside a form if its servers may be changed.
    Proxy {
        id: u32,
        form: bool,
    },
    Done,
}

impl PageDump {
    /// A page before its first output.
    pub fn new(settings: PageSettings, request: StatsRequest) -> Self {
        let selection = settings.selection(&request);
        Self { settings, request, selection, cursor: RowCursor::default(), state: PageState::Head }
    }

    /// Appends to `out` until it holds at least `enough` bytes, plus at most one row (about 3 kB). `scratch` is a reusable row.
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
            // Servers precede their backend. If another row comes first, the servers are hidden.
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

    /// Closes the table and, if open, the form with its list of actions.
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

/// The mark in a row's anchor (`+` for a listener), and the row's name, which completes the anchor.
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
