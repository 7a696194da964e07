//! The tests of each requirement: a table per part of the project, checked against the sources.
//!
//! A row contains a requirement's number, its tests (separated by blanks, `-` for none), and a sentence on how it is met.
//! Tests are `file.rs::function`, `tests/file.py::check`, `tests/steps.py::step`, a script (`.vtc`) or
//! `tests/parity/passing.txt::script`. A benchmark is not accepted, because it measures without assertions. A row without
//! tests gives the reason ([`WITHOUT_TESTS`]). Faults are a number without a row, a row without a sentence, an unknown
//! name, and a test without assertions.

use std::fs;

use crate::{BrokenRule, Workspace};

/// The tables, relative to the project's root, each with its first and last requirement.
pub const TABLES: [(&str, u32, u32); 5] = [
    ("sched/requirements.tsv", 1, 86),
    ("data/checks/requirements.tsv", 87, 96),
    ("foundation/sync/requirements.tsv", 97, 116),
    ("control/master/requirements.tsv", 117, 163),
    ("data/requirements.tsv", 164, 196),
];
/// The table of the audit's items. Each letter or number occurs once.
pub const AUDIT: &str = "doc/audit.tsv";
/// The file with the steps of a test run. A step may represent all its tests.
const STEPS: &str = "tests/steps.py";
/// Minimum length of a sentence, in characters.
const SENTENCE: usize = 20;
/// The permitted beginnings of the sentence of a row without tests: not implemented, guaranteed by the language or the
/// design, or not a requirement.
const WITHOUT_TESTS: [&str; 3] = ["not yet: ", "by design: ", "information: "];
/// Maximum call depth for finding the assertions of a test.
const CALLS: u32 = 3;
/// Texts that indicate an assertion.
const ASSERTIONS: [&str; 6] = ["assert", "check", "expect(", "unwrap(", "panic", "let _: "];

/// The faults of all tables.
pub fn gaps(workspace: &Workspace) -> Vec<BrokenRule> {
    let of = |&part: &(&str, u32, u32)| match fs::read_to_string(workspace.root.join(part.0)) {
        Ok(table) => check(part, &table, |path| fs::read_to_string(workspace.root.join(path)).ok()),
        Err(error) => vec![BrokenRule::new(part.0, format!("cannot be read: {error}"))],
    };
    let audited = match fs::read_to_string(workspace.root.join(AUDIT)) {
        Ok(table) => lines(AUDIT, &table, |path| fs::read_to_string(workspace.root.join(path)).ok()),
        Err(error) => vec![BrokenRule::new(AUDIT, format!("cannot be read: {error}"))],
    };
    TABLES.iter().flat_map(of).chain(audited).collect()
}

/// The faults of a table with rows of arbitrary names.
fn lines(name: &str, table: &str, file: impl Fn(&str) -> Option<String>) -> Vec<BrokenRule> {
    let (mut faults, mut known) = (Vec::new(), Vec::new());
    for (number, line) in table.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let place = format!("{name}:{}", number + 1);
        let columns: Vec<&str> = line.split('\t').collect();
        let [row, proofs, sentence] = columns[..] else {
            faults
                .push(BrokenRule::new(place, "is not a name, its proofs and a sentence, separated by tabs"));
            continue;
        };
        if known.contains(&row) {
            faults.push(BrokenRule::new(&place, format!("{row} was there before")));
        }
        known.push(row);
        faults.extend(row_faults(&place, row, proofs, sentence, &file));
    }
    faults
}

/// The faults of one row.
fn row_faults(
    place: &str,
    row: &str,
    proofs: &str,
    sentence: &str,
    file: &impl Fn(&str) -> Option<String>,
) -> Vec<BrokenRule> {
    let mut faults = Vec::new();
    if sentence.len() < SENTENCE {
        faults.push(BrokenRule::new(place, format!("{row} has no sentence that says how it holds")));
    }
    if proofs == "-" && !WITHOUT_TESTS.iter().any(|why| sentence.starts_with(why)) {
        faults.push(BrokenRule::new(place, format!("{row} has no test, and does not say why")));
    }
    let proofs = proofs.split(' ').filter(|proof| *proof != "-");
    faults.extend(proofs.filter_map(|proof| {
        unproven(proof, file).map(|why| BrokenRule::new(place, format!("{row}: {proof} {why}")))
    }));
    faults
}

fn check(part: (&str, u32, u32), table: &str, file: impl Fn(&str) -> Option<String>) -> Vec<BrokenRule> {
    let (name, mut expected, last) = part;
    let mut faults = Vec::new();
    for (number, line) in table.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let place = format!("{name}:{}", number + 1);
        let columns: Vec<&str> = line.split('\t').collect();
        let [requirement, proofs, sentence] = columns[..] else {
            faults.push(BrokenRule::new(
                place,
                "is not a number, its proofs and a sentence, separated by tabs",
            ));
            continue;
        };
        let found = requirement.strip_prefix('R').and_then(|number| number.parse().ok()).unwrap_or(0);
        // After the part's own requirements, numbers must only ascend, since the table may contain some requirements of other parts.
        let right = if expected <= last { found == expected } else { found >= expected };
        if !right {
            faults.push(BrokenRule::new(&place, format!("is {requirement} where R{expected} belongs")));
        }
        expected = if right { found + 1 } else { expected + 1 };
        faults.extend(row_faults(&place, requirement, proofs, sentence, &file));
    }
    if expected <= last {
        faults.push(BrokenRule::new(name, format!("ends before R{last}")));
    }
    faults
}

/// The fault of a proof, if any.
fn unproven(proof: &str, file: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let (path, name) = match proof.split_once("::") {
        Some((path, name)) => (path, Some(name)),
        None => (proof, None),
    };
    if path.starts_with("bench/") || path.contains("/benches/") {
        return Some("is a benchmark, which asserts nothing".to_owned());
    }
    let Some(text) = file(path) else { return Some("names a file that is not there".to_owned()) };
    let Some(name) = name else {
        // A script is a single test, so it needs no name.
        return (!path.ends_with(".vtc")).then(|| "names a file and none of its tests".to_owned());
    };
    if path.ends_with(".txt") {
        return (!text.lines().any(|line| line == name)).then(|| "is not on that list".to_owned());
    }
    let is_rust = path.ends_with(".rs");
    let definition = match path {
        STEPS => format!("(\"{name}\", ("),
        _ if is_rust => format!("fn {name}("),
        _ => format!("\ndef {name}("),
    };
    let Some(at) = text.find(&definition) else { return Some("names a test that is not there".to_owned()) };
    let is_test = match is_rust {
        true => is_marked(&text[..at]),
        false => path == STEPS || name.starts_with("test_"),
    };
    if !is_test {
        return Some("names a function that is no test".to_owned());
    }
    let marks = text[..at].rfind("\n\n").map_or(&text[..at], |before| &text[before..at]);
    (is_rust && !marks.contains("should_panic") && !asserts(&text, name, CALLS))
        .then(|| "asserts nothing".to_owned())
}

/// Whether a function can fail: it asserts something, or calls a function of the same file that does.
fn asserts(text: &str, name: &str, calls: u32) -> bool {
    let Some(at) = text.find(&format!("fn {name}(")) else { return false };
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let indent = text[line..].len() - text[line..].trim_start().len();
    let end = format!("\n{}}}", " ".repeat(indent));
    let body = &text[at + 3 + name.len()..];
    let body = &body[..body.find(&end).unwrap_or(body.len())];
    if ASSERTIONS.iter().any(|assertion| body.contains(assertion)) {
        return true;
    }
    // Any word may be the name of a called function, or of a function passed as an argument.
    let mut words =
        body.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    calls > 0 && words.any(|word| word != name && asserts(text, word, calls - 1))
}

/// Whether the text before a function ends in attributes that include `#[test]`; within `proptest!` all functions are
/// tests.
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
            table += &format!("R{number}\t-\tby design: it cannot arise\n");
        }
        table += &format!("R{}\t{proofs}\t{sentence}\n", PART.2);
        let file = |path: &str| match path {
            "a.rs" => Some(RUST.to_owned()),
            "tests/b.py" => Some("\ndef test_two(binary):\n    pass\n\ndef tool(x):\n    pass\n".to_owned()),
            STEPS => Some("\n    (\"units\", (\"compile\",), TEST),\n".to_owned()),
            "a.vtc" => Some(String::new()),
            "passing.txt" => Some("x/y.vtc\n".to_owned()),
            "bench/c.rs" | "a/benches/c.rs" => Some("#[test]\nfn three() { assert!(true) }\n".to_owned()),
            _ => None,
        };
        check(PART, &table, file).iter().map(ToString::to_string).collect()
    }

    const RUST: &str = "#[test]\n/// Why.\nfn one() {\n    assert!(true);\n}\n\nfn no_test() {\n    assert!(true);\n}\n\n\
        fn run() {\n    tool();\n}\n\nfn tool() {\n}\n\n\
        #[test]\nfn empty() {\n    run();\n}\n\n#[test]\nfn by_another() {\n    no_test();\n}\n\n#[test]\n#[should_panic]\nfn ends() {\n    run();\n}\n";
    const SAID: &str = "as the tests say, turn by turn";

    #[test]
    fn accepts_a_table_with_a_proof_for_every_requirement() {
        let proofs = "a.rs::one a.rs::by_another a.rs::ends tests/b.py::test_two tests/steps.py::units a.vtc passing.txt::x/y.vtc";
        assert_eq!(faults(proofs, SAID), [""; 0]);
        for why in
            ["not yet: it waits for HTTP/2", "by design: it cannot arise", "information: nothing to do"]
        {
            assert_eq!(faults("-", why), [""; 0]);
        }
    }

    #[test]
    fn each_audit_line_must_be_present_once() {
        let file = |path: &str| (path == "a.rs").then(|| RUST.to_owned());
        let table = format!(
            "# a comment\na\ta.rs::one\t{SAID}\n1\ta.rs::gone\t{SAID}\na\t-\tby design: it cannot arise\nb a.rs\n"
        );
        let said: Vec<String> = lines("x.tsv", &table, file).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "x.tsv:3: 1: a.rs::gone names a test that is not there",
                "x.tsv:4: a was there before",
                "x.tsv:5: is not a name, its proofs and a sentence, separated by tabs",
            ]
        );
    }

    #[test]
    fn rejects_missing_tests_and_tests_that_assert_nothing() {
        for (proofs, why) in [
            ("a.rs::gone", "names a test that is not there"),
            ("z.rs::one", "names a file that is not there"),
            ("a.rs::no_test", "names a function that is no test"),
            ("a.rs::empty", "asserts nothing"),
            ("a.rs", "names a file and none of its tests"),
            ("tests/b.py", "names a file and none of its tests"),
            ("tests/b.py::three", "names a test that is not there"),
            ("tests/b.py::tool", "names a function that is no test"),
            ("passing.txt::x/z.vtc", "is not on that list"),
            ("bench/c.rs::three", "is a benchmark, which asserts nothing"),
            ("a/benches/c.rs::three", "is a benchmark, which asserts nothing"),
        ] {
            assert_eq!(faults(proofs, SAID), [format!("a.tsv:87: R86: {proofs} {why}")]);
        }
        assert_eq!(faults("-", SAID), ["a.tsv:87: R86 has no test, and does not say why"]);
    }

    #[test]
    fn requirements_without_proof_or_sentence_are_reported() {
        assert_eq!(faults("a.rs::one", "so"), ["a.tsv:87: R86 has no sentence that says how it holds"]);
        assert_eq!(check(PART, "", |_| None).len(), 1);
        assert_eq!(check(PART, "R2\t-\tby design: it cannot arise\n", |_| None).len(), 2);
        assert_eq!(check(PART, "R1 - by design: it cannot arise\n", |_| None).len(), 2);
    }
}
