//! The README's list of unimplemented keywords, generated from the rows. A test compares it, `make readme` updates it.

use std::fs;
use std::path::Path;

use crate::rows::{WordKind, words};
use crate::{BrokenRule, Workspace};

const BEGIN: &str = "<!-- rows: begin -->\n";
const END: &str = "<!-- rows: end -->";

/// A fault if the generated part of the README differs from the rows.
pub fn stale(workspace: &Workspace) -> Vec<BrokenRule> {
    let text = read(&workspace.root);
    let fresh = text == replaced(&text, &generated());
    if fresh {
        Vec::new()
    } else {
        vec![BrokenRule::new("README.md", "the generated part is stale: make readme")]
    }
}

/// Updates the generated part.
pub fn write(workspace: &Workspace) -> std::io::Result<()> {
    let text = read(&workspace.root);
    fs::write(workspace.root.join("README.md"), replaced(&text, &generated()))
}

fn read(root: &Path) -> String {
    fs::read_to_string(root.join("README.md")).expect("README.md can be read")
}

fn replaced(text: &str, part: &str) -> String {
    let (head, rest) = text.split_once(BEGIN).expect("README.md marks where the generated part begins");
    let (_, tail) = rest.split_once(END).expect("README.md marks where the generated part ends");
    format!("{head}{BEGIN}{part}{END}{tail}")
}

/// One paragraph for each kind of keyword with unimplemented ones.
fn generated() -> String {
    let words = words();
    let mut text = String::new();
    for kind in WordKind::all() {
        let of_kind: Vec<_> = words.iter().filter(|word| word.kind == kind).collect();
        let missing: Vec<String> =
            of_kind.iter().filter(|word| !word.ready).map(|word| format!("`{}`", word.name)).collect();
        if !missing.is_empty() {
            text += &format!(
                "\n<details><summary>{}: {} of {} are there</summary>\n\n{}\n\n</details>\n",
                kind.title(),
                of_kind.len() - missing.len(),
                of_kind.len(),
                missing.join(", ")
            );
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_marked_part_of_the_readme_is_replaced() {
        let text = format!("before\n{BEGIN}old\n{END}\nafter\n");
        assert_eq!(replaced(&text, "new\n"), format!("before\n{BEGIN}new\n{END}\nafter\n"));
    }
}
