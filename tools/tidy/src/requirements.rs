//! The requirements (R1 to R196) that tests name: `cargo run -p weir-tidy -- requirements` prints the table.
//!
//! A report, not a rule. Completed parts of the list have rules of their own ([`crate::proofs`]).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::Workspace;

/// The last requirement's number.
pub const LAST: u32 = 196;

/// The files that name each requirement: Rust sources, VTC scripts and Python checks.
pub fn named(workspace: &Workspace) -> BTreeMap<u32, Vec<String>> {
    let mut named: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for source in workspace.sources.iter().filter(|source| !source.path.starts_with("tools/")) {
        // Only test modules and test files count. A comment elsewhere does not prove a requirement.
        let tests = match source.text.find("#[cfg(test)]").or_else(|| source.text.find("#[cfg(all(test")) {
            Some(at) => &source.text[at..],
            None if source.path.contains("/tests/") || source.path.ends_with("tests.rs") => {
                source.text.as_str()
            }
            None => continue,
        };
        note(&mut named, &source.path, tests);
    }
    scripts(&workspace.root, &workspace.root.join("tests"), &mut named);
    named
}

fn scripts(root: &Path, folder: &Path, named: &mut BTreeMap<u32, Vec<String>>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            scripts(root, &path, named);
        } else if path.extension().is_some_and(|e| e == "vtc" || e == "py") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            note(named, &path.strip_prefix(root).unwrap_or(&path).to_string_lossy(), &text);
        }
    }
}

fn note(named: &mut BTreeMap<u32, Vec<String>>, path: &str, text: &str) {
    for number in numbers(text) {
        let files = named.entry(number).or_default();
        if files.last().is_none_or(|last| last != path) {
            files.push(path.to_owned());
        }
    }
}

/// The requirement numbers in a text, as `R12` or as `r12_...` in a test's name.
fn numbers(text: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    for (at, _) in text.match_indices(['R', 'r']) {
        let apart = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        let digits: String = text[at + 1..].chars().take_while(char::is_ascii_digit).collect();
        let ends = bytes.get(at + 1 + digits.len()).is_none_or(|next| !next.is_ascii_alphanumeric());
        if let (true, true, Ok(number)) = (apart, ends, digits.parse())
            && (1..=LAST).contains(&number)
            && !found.contains(&number)
            && (bytes[at] == b'R' || at > 0 && bytes[at - 1] == b'_' || text[..at].ends_with("fn "))
        {
            found.push(number);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirement_numbers_are_found_in_prose_and_function_names() {
        assert_eq!(numbers("/// Proves R1 and R20, not R999 nor VAR3 nor R2x"), [1, 20]);
        assert_eq!(numbers("fn r7_halves() {} fn the_queue_r8() {} let r9 = 1;"), [7, 8]);
    }
}
