//! Draws lists: as many columns as fit, the selected row, the sort key.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::theme::Theme;
use crate::app::{App, ListView, RowId, SortOrder};
use crate::columns::{self, Column, Tone};
use crate::model::PageAnswer;
use crate::page::Page;
use crate::text::clean;

pub(crate) fn draw_rows(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let page = app.page;
    let mut list = app.lists[page as usize].clone();
    {
        let rows = app.rows(page);
        let ids: Vec<RowId> = rows.iter().map(|shown| RowId::Row(shown.row.key.clone())).collect();
        let columns = columns::of_page(page, app.model.has_latencies());
        let more = app.model.picture.as_ref().is_some_and(|picture| picture.more);
        let remark = if more { " and more than can be kept" } else { "" };
        draw(frame, area, &mut list, &rows, &ids, &columns, theme, remark);
    }
    app.lists[page as usize] = list;
}

pub(crate) fn draw_streams(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let rows = app.streams();
    let ids: Vec<RowId> = rows.iter().map(|stream| RowId::Stream(stream.id.clone())).collect();
    let remark = match &app.model.streams {
        PageAnswer::Known { cut: true, .. } => " and more than can be read".to_owned(),
        PageAnswer::Known { value, .. } if value.total > value.listed.len() => format!(" of {}", value.total),
        _ => String::new(),
    };
    let list = &mut app.lists[Page::Sessions as usize];
    draw(frame, area, list, &rows, &ids, &columns::streams(), theme, &remark);
}

#[expect(clippy::too_many_arguments, reason = "one list of two kinds of rows")]
fn draw<R>(
    frame: &mut Frame<'_>,
    area: Rect,
    list: &mut ListView,
    rows: &[R],
    ids: &[RowId],
    columns: &[Column<R>],
    theme: Theme,
    remark: &str,
) {
    if area.is_empty() {
        return;
    }
    let shown = fitting(columns, area.width);
    list.titles = shown.iter().map(|(column, _)| column.title).collect();
    list.height = usize::from(area.height.saturating_sub(1));
    list.settle(ids);
    // The selected row is always visible, if any row fits.
    list.offset = list.offset.max((list.index + 1).saturating_sub(list.height)).min(list.index);
    list.offset = list.offset.min(ids.len().saturating_sub(list.height));
    let line = |y| Rect { y: area.y + y, height: 1, ..area };
    frame.render_widget(head(&shown, list.sort.as_ref(), theme), line(0));
    for (y, row) in rows.iter().enumerate().skip(list.offset).take(list.height) {
        let selected = y == list.index;
        let style = if selected { theme.selected() } else { Style::new() };
        let cells = shown.iter().enumerate().flat_map(|(at, (column, width))| {
            let mut cell = column.cell(row);
            if at == 0 {
                cell.text = shortened(&cell.text, *width);
            }
            let base = if selected { style } else { theme.style(cell.tone) };
            [Span::styled(fit(&cell.text, *width, column.is_left()), base), Span::styled(" ", style)]
        });
        let text: Line<'_> = cells.collect();
        frame.render_widget(text.style(style), line((y - list.offset + 1) as u16));
    }
    list.note = match rows.len() {
        0 => String::new(),
        all if all > list.height || !remark.is_empty() => format!("{} of {all}{remark}  ", list.index + 1),
        all => format!("{all}  "),
    };
    if rows.is_empty() && area.height > 1 {
        frame.render_widget(Span::styled("nothing is listed here", theme.style(Tone::Dim)), line(1));
    }
}

/// The columns that fit, each with its width. The first column gets the remaining space.
fn fitting<R>(columns: &[Column<R>], width: u16) -> Vec<(&Column<R>, u16)> {
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|&index| (columns[index].rank, index));
    let mut chosen = Vec::new();
    let mut used = 0;
    for index in by_rank {
        let column = &columns[index];
        // Stop at the first column that does not fit, so that a less important one never takes its place.
        if used + column.width > width && !chosen.is_empty() {
            break;
        }
        used += column.width + 1;
        chosen.push(index);
    }
    chosen.sort_unstable();
    let spare = width.saturating_sub(used.saturating_sub(1));
    let mut shown: Vec<(&Column<R>, u16)> =
        chosen.into_iter().map(|index| (&columns[index], columns[index].width)).collect();
    if let Some((_, first)) = shown.first_mut() {
        *first = (*first + spare).min(LONGEST_NAME.max(*first)).min(width);
    }
    shown
}

fn head<R>(shown: &[(&Column<R>, u16)], sort: Option<&SortOrder>, theme: Theme) -> Line<'static> {
    let style = theme.heading();
    let titles = shown.iter().flat_map(|(column, width)| {
        let sorted = sort.filter(|sort| sort.title == column.title);
        let sign = sorted.map(|sort| if sort.descending { "▼" } else { "▲" });
        let (title, style) = match sign {
            Some(sign) => (format!("{}{sign}", column.title), style.add_modifier(Modifier::UNDERLINED)),
            None => (column.title.to_owned(), style),
        };
        // The sort sign may occupy the gap after the title.
        let wide = *width + u16::from(sign.is_some() && title.chars().count() > usize::from(*width));
        let gap = if wide > *width { "" } else { " " };
        [Span::styled(fit(&title, wide, column.is_left()), style), Span::raw(gap)]
    });
    titles.collect()
}

/// Pads or cuts a string to exactly `width` columns.
pub(crate) fn fit(text: &str, width: u16, left: bool) -> String {
    let width = usize::from(width);
    let size = |text: &str| Span::raw(text).width();
    let mut text = clean(text, 512);
    if size(&text) > width {
        while size(&text) > width.saturating_sub(1) && text.pop().is_some() {}
        if width > 0 {
            text.push('…');
        }
    }
    let blank = " ".repeat(width.saturating_sub(size(&text)));
    if left { format!("{text}{blank}") } else { format!("{blank}{text}") }
}

/// Shortens a long name in the middle, because its end distinguishes it from its neighbours.
pub(crate) fn shortened(name: &str, width: u16) -> String {
    let characters: Vec<char> = name.chars().collect();
    let width = usize::from(width);
    if characters.len() <= width || width < 4 {
        return name.to_owned();
    }
    let head = (width - 1) / 3;
    let tail = width - 1 - head;
    characters[..head].iter().chain(&['…']).chain(&characters[characters.len() - tail..]).collect()
}

/// Maximum width of names, so that on a wide terminal the numbers are not too far from the names.
const LONGEST_NAME: u16 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_or_truncates_cells_to_their_width() {
        assert_eq!((fit("abc", 5, true), fit("abc", 5, false)), ("abc  ".to_owned(), "  abc".to_owned()));
        assert_eq!(
            (fit("abcdef", 4, true), fit("abc", 0, true), fit("漢漢漢", 4, true)),
            ("abc…".to_owned(), String::new(), "漢… ".to_owned())
        );
    }

    #[test]
    fn long_names_are_shortened_in_the_middle() {
        assert_eq!(shortened("database-primary/pg1", 12), "dat…mary/pg1");
        assert_eq!((shortened("short", 5).as_str(), shortened("longer", 3).as_str()), ("short", "longer"));
    }

    #[test]
    fn narrow_widths_keep_the_columns_of_the_lowest_ranks() {
        for width in 0..300 {
            let columns = columns::of_page(Page::Servers, true);
            let shown = fitting(&columns, width);
            let used: u16 = shown.iter().map(|(_, width)| width + 1).sum();
            assert!(used <= width + 1 || shown.len() == 1, "{width}: {used}");
            let worst = shown.iter().map(|(column, _)| column.rank).max().expect("one column at least");
            let missing = columns.iter().filter(|column| !shown.iter().any(|(s, _)| s.title == column.title));
            assert!(missing.map(|column| column.rank).all(|rank| rank >= worst), "{width}");
        }
    }
}
