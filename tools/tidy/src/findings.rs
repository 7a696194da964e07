//! The fixed faults of the audit. Each row of `tests/findings.tsv` must name existing tests.
//!
//! A row contains the fault, its tests, and how their failure was observed. A test is a function (`fn`, `def`), or a file
//! relative to the project's root or to `tests`.

use std::collections::BTreeSet;
use std::fs;

use crate::{BrokenRule, Workspace};

const TABLE: &str = "tests/findings.tsv";
/// How a test's failure was observed: with the fault reintroduced by hand, with a former version of the program, or not yet.
const BROKEN: [&str; 3] = ["by hand", "former program", "no"];
/// Minimum number of underscores in the name of a test function.
const FEWEST_JOINTS: usize = 2;

/// Rows without a test, or with a missing test.
pub fn gaps(workspace: &Workspace) -> Vec<BrokenRule> {
    let table = match fs::read_to_string(workspace.root.join(TABLE)) {
        Ok(table) => table,
        Err(error) => return vec![BrokenRule::new(TABLE, format!("cannot be read: {error}"))],
    };
    let functions: BTreeSet<&str> = workspace.texts().flat_map(|file| functions(&file.text)).collect();
    let is_file =
        |name: &str| ["", "tests"].iter().any(|folder| workspace.root.join(folder).join(name).is_file());
    check(&table, |name| functions.contains(name), is_file)
}

fn check(table: &str, is_function: impl Fn(&str) -> bool, is_file: impl Fn(&str) -> bool) -> Vec<BrokenRule> {
    let mut faults = Vec::new();
    for (number, line) in table.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let place = format!("{TABLE}:{}", number + 1);
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, tests, broken] = columns[..] else {
            faults.push(BrokenRule::new(
                place,
                "is not a fault, its tests and how they failed, separated by tabs",
            ));
            continue;
        };
        if !BROKEN.contains(&broken) {
            faults.push(BrokenRule::new(&place, format!("'{broken}' is not one of {}", BROKEN.join(", "))));
        }
        let mut named = 0;
        for word in tests.split([' ', ',', ';', ':']).filter(|word| !word.is_empty()) {
            let looks_like_a_file = word.contains('.') && word.contains('/');
            let exists = match looks_like_a_file {
                true => is_file(word),
                false if word.matches('_').count() >= FEWEST_JOINTS => is_function(word),
                false => continue,
            };
            named += 1;
            if !exists {
                faults.push(BrokenRule::new(&place, format!("{word} does not exist")));
            }
        }
        if named == 0 {
            faults.push(BrokenRule::new(&place, "names no function and no file"));
        }
    }
    faults
}

/// The names of functions in a source of Rust or Python.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let declared = |line: &'_ str| -> Option<(usize, usize)> {
        let at = ["fn ", "def "].iter().find_map(|word| Some(line.find(word)? + word.len()))?;
        let length = line[at..].find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
        Some((at, at + length))
    };
    text.lines().filter_map(move |line| declared(line).map(|(from, to)| &line[from..to]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn said(row: &str) -> Vec<String> {
        let faults = check(row, |name| name == "it_holds_now", |path| path == "vtc/a.vtc");
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_of_the_findings_table_must_name_existing_tests() {
        assert_eq!(said("# a\nF1\tattacks: it_holds_now; vtc/a.vtc\tby hand"), Vec::<String>::new());
        for row in [
            "F1\tit_held_once\tno",
            "F1\tvtc/b.vtc\tno",
            "F1\tsome rows\tno",
            "F1\tit_holds_now\tyes",
            "F1\tit_holds_now",
        ] {
            assert_eq!(said(row).len(), 1, "{row}");
        }
    }

    #[test]
    fn functions_of_rust_and_python_are_found() {
        let text = "    pub(crate) async fn a_b_c<T>(x: T)\ndef d_e_f(binary, folder):\n# fn\n";
        assert_eq!(functions(text).collect::<Vec<_>>(), ["a_b_c", "d_e_f"]);
    }
}
