//! Tables printed by the runtime API: a header line with the column names, then one line per row with comma-separated values.
//!
//! Columns are looked up by name, because newer versions add columns. A value may be quoted, with quotes doubled inside.

use std::collections::HashMap;

/// A table: its column names and its unparsed rows.
pub(crate) struct PrintedTable<'t> {
    columns: HashMap<&'t str, usize>,
    rest: &'t str,
}

/// One row. Values are looked up by column name.
pub(crate) struct PrintedRow<'l> {
    columns: &'l HashMap<&'l str, usize>,
    values: Vec<String>,
}

impl<'t> PrintedTable<'t> {
    /// Parses the header line. `None` if the text does not begin with one, for example an error message.
    pub(crate) fn read(text: &'t str) -> Option<PrintedTable<'t>> {
        let (head, rest) = text.split_once('\n')?;
        let names = head.trim_start().strip_prefix("# ")?;
        let columns = names
            .split(',')
            .map(str::trim)
            .enumerate()
            .take(MOST_COLUMNS)
            .map(|(at, name)| (name, at))
            .collect();
        Some(PrintedTable { columns, rest })
    }

    /// The rows, without empty lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = PrintedRow<'_>> {
        let lines = self.rest.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| PrintedRow { columns: &self.columns, values: split(line) })
    }
}

impl PrintedRow<'_> {
    /// The value of a column. Empty if the column is missing.
    pub(crate) fn text(&self, column: &str) -> &str {
        self.columns.get(column).and_then(|&at| self.values.get(at)).map_or("", String::as_str)
    }

    /// The value as a number. `None` if the column is empty, missing or not a number.
    pub(crate) fn number(&self, column: &str) -> Option<u64> {
        self.text(column).parse().ok()
    }
}

fn split(line: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut value = String::new();
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                value.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if value.is_empty() => quoted = true,
            ',' if !quoted => values.push(std::mem::take(&mut value)),
            c => value.push(c),
        }
        if values.len() == MOST_COLUMNS {
            return values;
        }
    }
    values.push(value);
    values
}

/// Maximum number of columns: more than in any version. Others are dropped.
const MOST_COLUMNS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_up_csv_values_by_column_name() {
        let table =
            PrintedTable::read("# a,b,c,\n1,\"x, \"\"y\"\"\",\n\n2,y,7,8,9\nshort\n").expect("a table");
        let lines: Vec<(String, String, Option<u64>)> = table
            .lines()
            .map(|line| (line.text("a").to_owned(), line.text("b").to_owned(), line.number("c")))
            .collect();
        let expected = [("1", "x, \"y\"", None), ("2", "y", Some(7)), ("short", "", None)];
        assert_eq!(lines, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c)));
        assert_eq!(table.lines().next().expect("a line").text("nosuch"), "");
    }

    #[test]
    fn an_error_message_is_not_parsed_as_a_table() {
        assert!(PrintedTable::read("Permission denied\n").is_none());
        assert!(PrintedTable::read("Unknown command\n# a,b\n1,2\n").is_none());
        assert!(PrintedTable::read("").is_none());
    }

    #[test]
    fn a_line_is_split_into_a_limited_number_of_columns() {
        assert_eq!(split(&",".repeat(1_000_000)).len(), MOST_COLUMNS);
        assert_eq!(split("a\"b,\"c"), ["a\"b", "c"]);
    }
}
