//! Ratchets: committed tables of counts that may only fall.
//!
//! A count above its row is a fault. A count below its row is a fault, too, so that the table is updated together with
//! the code. `make ratchets` writes lower counts, but never higher ones. To raise a count, edit the table by hand,
//! visible to the reviewer.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use crate::BrokenRule;

/// The counts by row. The key is the other columns of the row, joined with tabs.
pub type Counts = BTreeMap<String, usize>;

/// A table of counts that may only fall.
#[derive(Debug, Clone, Copy)]
pub struct Ratchet {
    /// The path of the table from the project's root.
    pub path: &'static str,
    /// The first line of the table, without its `# `: a sentence about the counts.
    pub title: &'static str,
    /// The names of the columns, separated by tabs. The last column holds the count.
    pub columns: &'static str,
}

impl Ratchet {
    /// The rows of the table that differ from the counts found. `explain` describes a count that rose; its arguments are
    /// the row's key, the count found and the count in the table.
    ///
    /// # Panics
    /// When the table cannot be read.
    pub fn faults(
        &self,
        root: &Path,
        found: &Counts,
        explain: impl Fn(&str, usize, usize) -> String,
    ) -> Vec<BrokenRule> {
        let text = fs::read_to_string(root.join(self.path)).expect("the table of a ratchet can be read");
        self.compare(&text, found, explain)
    }

    /// Writes the counts that fell. Returns the rows with counts that would rise, in the form of the table.
    ///
    /// # Errors
    /// When the table cannot be read or written, or has a line that is not a row.
    pub fn lower(&self, root: &Path, found: &Counts) -> io::Result<Vec<String>> {
        let path = root.join(self.path);
        let (text, rises) = self.lowered(&fs::read_to_string(&path)?, found).map_err(io::Error::other)?;
        fs::write(&path, text)?;
        Ok(rises)
    }

    /// The text of the table with the counts that fell, and the rows with counts that would rise.
    fn lowered(&self, text: &str, found: &Counts) -> Result<(String, Vec<String>), String> {
        let held = rows(text)?;
        let lower = held.iter().map(|(key, held)| (key.clone(), *held.min(found.get(key).unwrap_or(&0))));
        let rises = found.iter().filter(|(key, count)| *count > held.get(*key).unwrap_or(&0));
        let rises = rises.map(|(key, count)| format!("{key}\t{count}")).collect();
        Ok((self.written(&lower.collect()), rises))
    }

    fn compare(
        &self,
        text: &str,
        found: &Counts,
        explain: impl Fn(&str, usize, usize) -> String,
    ) -> Vec<BrokenRule> {
        let held = match rows(text) {
            Ok(held) => held,
            Err(why) => return vec![BrokenRule::new(self.path, why)],
        };
        let mut faults = Vec::new();
        for key in BTreeSet::from_iter(held.keys().chain(found.keys())) {
            let [now, before] = [found, &held].map(|counts| *counts.get(key).unwrap_or(&0));
            let why = match now.cmp(&before) {
                Ordering::Equal => continue,
                Ordering::Greater => explain(key, now, before),
                Ordering::Less if now == 0 => {
                    format!("its row of {} is obsolete: remove it with `make ratchets`", self.path)
                }
                Ordering::Less => {
                    format!(
                        "fell from {before} to {now}: lower its row of {} with `make ratchets`",
                        self.path
                    )
                }
            };
            faults.push(BrokenRule::new(key.replace('\t', ", "), why));
        }
        if faults.is_empty() && text != self.written(&held) {
            faults.push(BrokenRule::new(
                self.path,
                "differs from the form that `make ratchets` writes: sorted, without zeros",
            ));
        }
        faults
    }

    fn written(&self, counts: &Counts) -> String {
        let mut text = format!("# {}\n# {}\n", self.title, self.columns);
        for (key, count) in counts.iter().filter(|(_, count)| **count > 0) {
            text += &format!("{key}\t{count}\n");
        }
        text
    }
}

/// Parses the rows of a table. The error contains the invalid or repeated line.
fn rows(text: &str) -> Result<Counts, String> {
    let mut rows = Counts::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let columns = line.rsplit_once('\t').and_then(|(key, count)| Some((key, count.parse().ok()?)));
        let Some((key, count)) = columns else {
            return Err(format!("line {} is not a key and a count, separated by a tab", number + 1));
        };
        if rows.insert(key.to_owned(), count).is_some() {
            return Err(format!("line {} repeats the row of {}", number + 1, key.replace('\t', ", ")));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATCHET: Ratchet = Ratchet { path: "x.tsv", title: "Legs.", columns: "animal\tlegs" };
    const TABLE: &str = "# Legs.\n# animal\tlegs\nant\t6\nbee\t6\n";

    fn counts(rows: &[(&str, usize)]) -> Counts {
        rows.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect()
    }

    #[track_caller]
    fn check(table: &str, found: &[(&str, usize)], expected: &[&str]) {
        let explain = |key: &str, now: usize, held: usize| format!("{key} rose from {held} to {now}");
        let faults = RATCHET.compare(table, &counts(found), explain);
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn accepts_counts_equal_to_the_ratchet_table() {
        check(TABLE, &[("ant", 6), ("bee", 6)], &[]);
    }

    #[test]
    fn reports_counts_above_the_ratchet_table() {
        check(TABLE, &[("ant", 7), ("bee", 6)], &["ant: ant rose from 6 to 7"]);
    }

    #[test]
    fn treats_a_missing_ratchet_row_as_zero() {
        check(TABLE, &[("ant", 6), ("bee", 6), ("cat\tpaws", 4)], &["cat, paws: cat\tpaws rose from 0 to 4"]);
    }

    #[test]
    fn reports_counts_below_the_ratchet_table() {
        check(
            TABLE,
            &[("ant", 5)],
            &[
                "ant: fell from 6 to 5: lower its row of x.tsv with `make ratchets`",
                "bee: its row of x.tsv is obsolete: remove it with `make ratchets`",
            ],
        );
    }

    #[test]
    fn reports_malformed_ratchet_tables() {
        let found = [("ant", 6), ("bee", 6)];
        let form = "x.tsv: differs from the form that `make ratchets` writes: sorted, without zeros";
        check("# Legs.\n# animal\tlegs\nbee\t6\nant\t6\n", &found, &[form]);
        check(&format!("{TABLE}cat\t0\n"), &found, &[form]);
        check("ant\t6\nbee\t6\nant\t6\n", &found, &["x.tsv: line 3 repeats the row of ant"]);
        check("ant six\n", &found, &["x.tsv: line 1 is not a key and a count, separated by a tab"]);
        check("ant\tsix\n", &found, &["x.tsv: line 1 is not a key and a count, separated by a tab"]);
    }

    #[test]
    fn lowers_and_removes_ratchet_rows_but_never_raises_them() {
        let lowered = |found: &[(&str, usize)]| RATCHET.lowered(TABLE, &counts(found)).expect("a table");
        let text = |rows: &str| format!("# Legs.\n# animal\tlegs\n{rows}");
        assert_eq!(lowered(&[("ant", 6), ("bee", 6)]), (TABLE.to_owned(), vec![]));
        assert_eq!(lowered(&[("bee", 5)]), (text("bee\t5\n"), vec![]));
        assert_eq!(
            lowered(&[("ant", 4), ("bee", 8), ("cat", 4)]),
            (text("ant\t4\nbee\t6\n"), vec!["bee\t8".to_owned(), "cat\t4".to_owned()])
        );
    }
}
