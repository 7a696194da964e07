//! What proves each requirement of a part: a table beside the part, checked against the sources.
//!
//! A row is a number, the tests that prove it (`file::function`, separated by blanks; `-` for none), and a sentence that
//! says how it holds, or why it cannot arise. A benchmark's function may stand for a test where a figure is what was
//! asked for. A number without a row, a row without a sentence, and a name that is nowhere are faults.

use std::fs;

use crate::{Fault, Workspace};

/// The tables, from the project's root, with the first and the last requirement that each has to have.
pub const TABLES: [(&str, u32, u32); 2] =
    [("sched/requirements.tsv", 1, 86), ("foundation/sync/requirements.tsv", 97, 116)];
/// A sentence is not shorter than this.
const SENTENCE: usize = 20;

/// Gaps in the table.
pub fn gaps(workspace: &Workspace) -> Vec<Fault> {
    let of = |&part: &(&str, u32, u32)| match fs::read_to_string(workspace.root.join(part.0)) {
        Ok(table) => check(part, &table, |path| fs::read_to_string(workspace.root.join(path)).ok()),
        Err(error) => vec![Fault::new(part.0, format!("cannot be read: {error}"))],
    };
    TABLES.iter().flat_map(of).collect()
}

fn check(part: (&str, u32, u32), table: &str, file: impl Fn(&str) -> Option<String>) -> Vec<Fault> {
    let (name, mut expected, last) = part;
    let mut faults = Vec::new();
    for (number, line) in table.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let place = format!("{name}:{}", number + 1);
        let columns: Vec<&str> = line.split('\t').collect();
        let [requirement, proofs, sentence] = columns[..] else {
            faults.push(Fault::new(place, "is not a number, its proofs and a sentence, separated by tabs"));
            continue;
        };
        let found = requirement.strip_prefix('R').and_then(|number| number.parse().ok()).unwrap_or(0);
        // What comes after the part's own requirements only has to rise: other parts' lists name a few of its too.
        let right = if expected <= last { found == expected } else { found >= expected };
        if !right {
            faults.push(Fault::new(&place, format!("is {requirement} where R{expected} belongs")));
        }
        expected = if right { found + 1 } else { expected + 1 };
        if sentence.len() < SENTENCE {
            faults.push(Fault::new(&place, format!("{requirement} has no sentence that says how it holds")));
        }
        for proof in proofs.split(' ').filter(|proof| *proof != "-") {
            if let Some(why) = unproven(proof, &file) {
                faults.push(Fault::new(&place, format!("{requirement}: {proof} {why}")));
            }
        }
    }
    if expected <= last {
        faults.push(Fault::new(name, format!("ends before R{last}")));
    }
    faults
}

/// What is wrong with a proof, if something is.
fn unproven(proof: &str, file: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let (path, function) = match proof.split_once("::") {
        Some((path, function)) => (path, Some(function)),
        None => (proof, None),
    };
    let Some(text) = file(path) else { return Some("names a file that is not there".to_owned()) };
    let Some(function) = function else {
        // A script is a test as a whole.
        return (path.ends_with(".rs")).then(|| "names a file and none of its tests".to_owned());
    };
    let definition =
        if path.ends_with(".py") { format!("def {function}(") } else { format!("fn {function}(") };
    let Some(at) = text.find(&definition) else { return Some("names a test that is not there".to_owned()) };
    let is_test = !path.ends_with(".rs")
        || path.starts_with("bench/")
        || path.contains("/benches/")
        || is_marked(&text[..at]);
    (!is_test).then(|| "names a function that is no test".to_owned())
}

/// Whether what precedes a function ends in attributes, one of which makes it a test; within `proptest!` all are marked too.
fn is_marked(before: &str) -> bool {
    let attributes = before.lines().rev().skip(usize::from(!before.ends_with('\n')));
    attributes
        .map(str::trim)
        .take_while(|line| line.starts_with("#[") || line.starts_with("//") || line.is_empty())
        .any(|line| line == "#[test]")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: (&str, u32, u32) = ("a.tsv", 1, 86);

    fn faults(proofs: &str, sentence: &str) -> Vec<String> {
        let mut table = String::from("# a comment\n");
        for number in 1..PART.2 {
            table += &format!("R{number}\t-\tit cannot arise in this language\n");
        }
        table += &format!("R{}\t{proofs}\t{sentence}\n", PART.2);
        let file = |path: &str| match path {
            "a.rs" => Some("#[test]\n/// Why.\nfn one() {}\nfn no_test() {}\n".to_owned()),
            "b.py" => Some("def two(x):\n".to_owned()),
            "bench/c.rs" => Some("pub fn three() {}\n".to_owned()),
            _ => None,
        };
        check(PART, &table, file).iter().map(ToString::to_string).collect()
    }

    const SAID: &str = "as the tests say, turn by turn";

    #[test]
    fn a_full_table_has_no_gap() {
        assert_eq!(faults("a.rs::one b.py::two bench/c.rs::three b.py", SAID), [""; 0]);
        assert_eq!(faults("-", SAID), [""; 0]);
    }

    #[test]
    fn what_is_not_there_proves_nothing() {
        for (proofs, why) in [
            ("a.rs::gone", "names a test that is not there"),
            ("z.rs::one", "names a file that is not there"),
            ("a.rs::no_test", "names a function that is no test"),
            ("a.rs", "names a file and none of its tests"),
            ("b.py::three", "names a test that is not there"),
        ] {
            assert_eq!(faults(proofs, SAID), [format!("a.tsv:87: R86: {proofs} {why}")]);
        }
    }

    #[test]
    fn gaps_are_found() {
        assert_eq!(faults("-", "so"), ["a.tsv:87: R86 has no sentence that says how it holds"]);
        assert_eq!(check(PART, "", |_| None).len(), 1);
        assert_eq!(check(PART, "R2\t-\tit cannot arise here at all\n", |_| None).len(), 2);
        assert_eq!(check(PART, "R1 - it cannot arise\n", |_| None).len(), 2);
    }
}
