//! The options in the URI of a statistics request: `/stats;csv;norefresh`, `/stats?scope=be`, `/stats;st=DONE`.
//!
//! The configured `stats uri` is a prefix. Options follow it, each after `;`, `?` or `&`, in any order. Unknown options are ignored, so
//! that links from other versions still work.

use std::fmt::Write;

use crate::render::Format;

/// The options in the URI of a request for statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsRequest {
    pub what: What,
    /// `;up`: omit servers that are not up.
    pub only_up: bool,
    /// `;no-maint`: omit servers in maintenance.
    pub no_maintenance: bool,
    /// `;norefresh`: the page does not reload itself.
    pub no_refresh: bool,
    /// `scope=`: only proxies with this substring in their names.
    pub scope: Option<String>,
    /// `;st=`: the result of the last form.
    pub status: Option<FormStatus>,
}

/// The output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// The HTML page.
    #[default]
    Page,
    Statistics(Format),
    /// The schema of the JSON format.
    Schema,
}

/// The result of a form. The page shows it after the redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormStatus {
    Done,
    /// No action was selected.
    Nothing,
    /// Some servers were unknown.
    Partly,
    /// The form was invalid.
    Error,
    /// The request lacks the permission for changes.
    Denied,
    /// The form was too large.
    TooLarge,
    /// The result is unknown.
    Unknown,
}

impl FormStatus {
    const CODES: [(FormStatus, &'static str); 7] = [
        (FormStatus::Done, "DONE"),
        (FormStatus::Nothing, "NONE"),
        (FormStatus::Partly, "PART"),
        (FormStatus::Error, "ERRP"),
        (FormStatus::Denied, "DENY"),
        (FormStatus::TooLarge, "EXCD"),
        (FormStatus::Unknown, "UNKN"),
    ];

    /// The four letters in the URI.
    pub fn code(self) -> &'static str {
        Self::CODES.iter().find(|row| row.0 == self).map_or("UNKN", |row| row.1)
    }

    fn from_code(code: &str) -> Self {
        Self::CODES.iter().find(|row| row.1 == code).map_or(FormStatus::Unknown, |row| row.0)
    }
}

/// Maximum length of `scope`: the size of the page's input field.
const LONGEST_SCOPE: usize = 20;

impl StatsRequest {
    /// Parses a request target. `None` unless it begins with the configured `prefix`.
    pub fn parse(prefix: &str, target: &str) -> Option<Self> {
        let rest = target.strip_prefix(prefix)?;
        let mut request = Self::default();
        for option in rest.split([';', '?', '&']) {
            request.take(option);
        }
        Some(request)
    }

    fn take(&mut self, option: &str) {
        match option {
            "csv" => self.what = What::Statistics(Format::Csv),
            "typed" => self.what = What::Statistics(Format::Typed),
            "json" => self.what = What::Statistics(Format::Json),
            "json-schema" => self.what = What::Schema,
            "up" => self.only_up = true,
            "no-maint" => self.no_maintenance = true,
            "norefresh" => self.no_refresh = true,
            _ => {
                if let Some(code) = option.strip_prefix("st=") {
                    self.status = Some(FormStatus::from_code(code));
                } else if let Some(scope) = option.strip_prefix("scope=") {
                    self.scope = Some(scope).filter(|scope| is_name(scope)).map(str::to_owned);
                }
            }
        }
    }

    /// The `Content-Type` of the response, without a charset.
    pub fn content_type(&self) -> &'static str {
        match self.what {
            What::Page => "text/html",
            What::Statistics(Format::Json) | What::Schema => "application/json",
            What::Statistics(Format::Csv | Format::Typed) => "text/plain",
        }
    }

    /// The URI of the same view, with changed options.
    pub fn link(&self, prefix: &str, change: impl FnOnce(&mut Self)) -> String {
        let mut other = self.clone();
        other.status = None;
        change(&mut other);
        let mut link = prefix.to_owned();
        match other.what {
            What::Page => {}
            What::Statistics(Format::Csv) => link.push_str(";csv"),
            What::Statistics(Format::Typed) => link.push_str(";typed"),
            What::Statistics(Format::Json) => link.push_str(";json"),
            What::Schema => link.push_str(";json-schema"),
        }
        if let Some(status) = other.status {
            let _ = write!(link, ";st={}", status.code());
        }
        for (on, option) in
            [(other.only_up, ";up"), (other.no_maintenance, ";no-maint"), (other.no_refresh, ";norefresh")]
        {
            if on {
                link.push_str(option);
            }
        }
        if let Some(scope) = &other.scope {
            let _ = write!(link, "?scope={scope}");
        }
        link
    }
}

/// Whether a value can be part of a proxy's name. Checked because the page displays it again.
fn is_name(scope: &str) -> bool {
    let fits = !scope.is_empty() && scope.len() <= LONGEST_SCOPE;
    fits && scope.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: &str, expected: StatsRequest) {
        assert_eq!(StatsRequest::parse("/stats", target), Some(expected), "{target}");
    }

    #[test]
    fn parses_uri_options_in_any_order() {
        let page = StatsRequest::default;
        let csv = || StatsRequest { what: What::Statistics(Format::Csv), ..page() };
        check("/stats", page());
        check("/statsx", page());
        check("/stats/x?foo", page());
        check("/stats;csv", csv());
        check("/stats;norefresh;csv;", StatsRequest { no_refresh: true, ..csv() });
        check("/stats?;csv;scope=be2", StatsRequest { scope: Some("be2".into()), ..csv() });
        check("/stats;csv?scope=be2", StatsRequest { scope: Some("be2".into()), ..csv() });
        check(
            "/stats;json;up",
            StatsRequest { what: What::Statistics(Format::Json), only_up: true, ..page() },
        );
        check("/stats;json-schema", StatsRequest { what: What::Schema, ..page() });
        check(
            "/stats;st=DONE;no-maint",
            StatsRequest { status: Some(FormStatus::Done), no_maintenance: true, ..page() },
        );
        check("/stats;st=<b>", StatsRequest { status: Some(FormStatus::Unknown), ..page() });
        check("/stats?scope=<b>\"x", page());
        check("/stats?scope=aaaaaaaaaaaaaaaaaaaaa", page());
        assert_eq!(StatsRequest::parse("/stats", "/other"), None);
    }

    #[test]
    fn links_keep_the_filter_and_scope_of_the_view() {
        let request = StatsRequest::parse("/stats", "/stats;up;st=DONE?scope=be2").unwrap();
        assert_eq!(request.link("/stats", |_| {}), "/stats;up?scope=be2");
        assert_eq!(request.link("/stats", |other| other.only_up = false), "/stats?scope=be2");
        let csv = request.link("/stats", |other| other.what = What::Statistics(Format::Csv));
        assert_eq!(csv, "/stats;csv;up?scope=be2");
    }
}
