//! `--once`: prints the data of one poll as plain text, for scripts and simple terminals.

use std::fmt::Write;

use crate::app::App;
use crate::columns::{self, Column};
use crate::model::PageAnswer;
use crate::page::Page;
use crate::view::list::fit;
use crate::view::overview::facts;

/// Prints the requested pages one below the other. The second value is an error message, if a command was refused.
pub(crate) fn print(app: &App, only: Option<Page>) -> (String, Option<String>) {
    let mut text = String::new();
    let mut refused = None;
    let pages = [Page::Overview, Page::Frontends, Page::Backends, Page::Servers];
    for &page in only.as_ref().map_or(pages.as_slice(), std::slice::from_ref) {
        if !text.is_empty() {
            text.push('\n');
        }
        match page {
            Page::Overview => overview(&mut text, app),
            Page::Sessions => match &app.model.streams {
                PageAnswer::Refused(why) => refused = Some(format!("'show sess' was answered: {why}")),
                _ => table(&mut text, &app.streams(), columns::streams()),
            },
            page => {
                let columns = columns::of_page(page, app.model.has_latencies());
                table(&mut text, &app.rows(page), columns);
            }
        }
        if page == Page::Errors {
            match &app.model.errors {
                PageAnswer::Refused(why) => refused = Some(format!("'show errors' was answered: {why}")),
                PageAnswer::Known { value, .. } => {
                    text.push('\n');
                    for line in value {
                        let _ = writeln!(text, "{}", line.trim_end());
                    }
                }
                PageAnswer::Unknown => {}
            }
        }
    }
    (text, refused)
}

fn overview(text: &mut String, app: &App) {
    let Some(picture) = &app.model.picture else { return };
    let info = &picture.info;
    let _ = writeln!(text, "{:<12}  {}", "program", info.program());
    for (name, value) in [("node", info.text("node")), ("process", info.text("Pid"))]
        .iter()
        .filter(|(_, value)| !value.is_empty())
    {
        let _ = writeln!(text, "{name:<12}  {value}");
    }
    for (name, number) in [("requests/s", "SessRate"), ("connections/s", "ConnRate")] {
        let _ = writeln!(text, "{name:<13} {}", info.count(number));
    }
    for fact in facts(info, &app.model) {
        let _ = writeln!(text, "{:<12}  {}", fact.name, fact.value);
    }
    for (row, _, why) in app.model.troubles() {
        let _ = writeln!(text, "{:<12}  {}: {why}", "attention", row.path());
    }
}

/// Appends a table. Columns are as wide as their longest text. Columns that need two polls are omitted.
fn table<R>(text: &mut String, rows: &[R], mut columns: Vec<Column<R>>) {
    columns.retain(|column| !matches!(column.title, "HISTORY" | "IN/s" | "OUT/s" | "ERR/s"));
    let mut lines: Vec<Vec<String>> =
        vec![columns.iter().map(|column| column.title.replace(' ', "-")).collect()];
    // Empty fields get a dash, so that scripts can count fields. Spaces in a state ('no check') become underscores.
    let field = |text: String| match text.trim() {
        "" => "-".to_owned(),
        text => text.replace(' ', "_"),
    };
    lines.extend(rows.iter().map(|row| columns.iter().map(|column| field(column.cell(row).text)).collect()));
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    for line in &lines {
        let cells = line.iter().zip(&columns).zip(&widths);
        let cells: Vec<String> =
            cells.map(|((cell, column), width)| fit(cell, *width as u16, column.is_left())).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::picture;

    fn app() -> App {
        let mut app = App::new("here".to_owned());
        app.model.add(picture(1, 1, 10));
        app
    }

    #[test]
    fn every_printed_line_of_a_page_has_the_same_number_of_fields() {
        let (text, refused) = print(&app(), Some(Page::Servers));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!((lines.len(), refused), (3, None));
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
        assert_eq!(
            (lines[1][..3].join(" "), lines[2][..3].join(" ")),
            ("app/s1 UP 7".to_owned(), "app/s2 DOWN 1".to_owned())
        );
        let (whole, _) = print(&app(), None);
        for word in ["program", "weir 0.1.0", "attention", "FRONTEND", "BACKEND", "SERVER", "app/s2"] {
            assert!(whole.contains(word), "{word} in {whole}");
        }
        assert!(!whole.contains('\x1b'));
    }

    #[test]
    fn reports_a_refused_command_with_its_answer() {
        let mut app = app();
        app.model.add_streams("Permission denied\n", false);
        assert_eq!(
            print(&app, Some(Page::Sessions)).1.as_deref(),
            Some("'show sess' was answered: Permission denied")
        );
    }
}
