//! The ratchet on indirect English: hits of six patterns by folder and kind of text, which may only fall.
//!
//! The patterns are a guide, not a grammar: a free relative clause instead of a noun, a negated noun instead of a negated verb, a
//! verb of speech for a data flow, a condition after "as it". Inside a crate, the folder is the crate's. Elsewhere it is the
//! first two folders of the path, or `.` for files of the root. Generated pages are not counted, because their texts are messages
//! in the rows.

mod excerpts;
mod patterns;
mod since;

use crate::ratchet::{Counts, Ratchet};
use crate::{BrokenRule, SourceFile, Workspace};
use patterns::PhrasePattern;

/// The table of hits.
pub const RATCHET: Ratchet = Ratchet {
    path: "tools/tidy/ratchets/english.tsv",
    title: "Hits of indirect English by folder and kind of text. They may only fall (STYLE.md, \"Ratchets\").",
    columns: "folder\tkind\thits",
};

/// Pages generated from the rows of the language.
const GENERATED: &str = "doc/manual/src/reference/";
/// Maximum number of hits listed in a fault.
const SHOWN: usize = 20;

/// The number of hits by folder and kind of text.
pub fn counts(workspace: &Workspace) -> Counts {
    count(&hits(workspace))
}

/// The folders and kinds of text with a number of hits different from their row.
pub fn grown(workspace: &Workspace) -> Vec<BrokenRule> {
    let hits = hits(workspace);
    RATCHET.faults(&workspace.root, &count(&hits), |key, now, held| {
        let of_row = hits.iter().filter(|hit| hit.key == key).collect();
        let new = since::new_hits(workspace, RATCHET.path, of_row);
        format!("{now} hits of indirect English, {held} allowed; rewrite:\n{}", listed(&new))
    })
}

/// A match of a pattern.
#[derive(Debug)]
struct EnglishHit {
    /// The row of the table: the folder and the kind, separated by a tab.
    key: String,
    /// The file, relative to the project's root.
    path: String,
    /// The line's number, from 1.
    line: usize,
    text: String,
    /// The words that matched.
    words: String,
    pattern: &'static PhrasePattern,
}

fn hits(workspace: &Workspace) -> Vec<EnglishHit> {
    let files = workspace.texts().filter(|file| !file.path.starts_with(GENERATED));
    files.flat_map(|file| of_file(workspace, file)).collect()
}

fn of_file(workspace: &Workspace, file: &SourceFile) -> Vec<EnglishHit> {
    let folder = folder(workspace, &file.path);
    let mut hits = Vec::new();
    for excerpt in excerpts::excerpts(file) {
        for (pattern, words) in patterns::matches(&excerpt.text) {
            hits.push(EnglishHit {
                key: format!("{folder}\t{}", excerpt.kind),
                path: file.path.clone(),
                line: excerpt.line,
                text: excerpt.text.trim().to_owned(),
                words: words.to_owned(),
                pattern,
            });
        }
    }
    hits
}

/// The folder in the table for a file.
fn folder<'w>(workspace: &'w Workspace, path: &'w str) -> &'w str {
    if let Some(member) = workspace.crates.iter().find(|member| member.contains(path)) {
        return &member.folder;
    }
    let ends = path.match_indices('/').map(|(end, _)| end);
    ends.take(2).last().map_or(".", |end| &path[..end])
}

fn count(hits: &[EnglishHit]) -> Counts {
    let mut counts = Counts::new();
    for hit in hits {
        *counts.entry(hit.key.clone()).or_default() += 1;
    }
    counts
}

fn listed(hits: &[&EnglishHit]) -> String {
    let mut text = String::new();
    for hit in hits.iter().take(SHOWN) {
        text += &format!("  {}:{}: {}\n", hit.path, hit.line, hit.text);
        text += &format!("    \"{}\": {}\n", hit.words, hit.pattern.remedy);
    }
    if hits.len() > SHOWN {
        text += &format!("  and {} more\n", hits.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Crate;

    fn workspace() -> Workspace {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        Workspace {
            crates: vec![Crate { folder: "bin/weir".into(), ..Crate::default() }],
            sources: vec![file(
                "bin/weir/src/a.rs",
                "/// It is told.\n// As it tells.\nlet x = \"it is no valid name\";",
            )],
            pages: vec![
                file("README.md", "What is told.\nOr not.\n"),
                file("bin/weir-ring/a.md", "Nobody.\n"),
                file("doc/manual/src/reference/actions.md", "Nobody.\n"),
                file("doc/manual/src/start.md", "Nobody.\n"),
                file("tests/a.py", "# Nobody.\n"),
                file("tests/health/deep/a.py", "# Nobody.\n"),
            ],
            ..Workspace::default()
        }
    }

    #[test]
    fn counts_english_hits_by_folder_and_kind() {
        let found = counts(&workspace()).into_iter().map(|(key, hits)| format!("{key}\t{hits}"));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                ".\tdesign and root pages\t2",
                "bin/weir\tdoc comments\t1",
                "bin/weir\tinline comments\t1",
                "bin/weir\tmessages\t1",
                "bin/weir-ring\tdesign and root pages\t1",
                "doc/manual\tmanual\t1",
                "tests\tpython\t1",
                "tests/health\tpython\t1",
            ]
        );
    }

    #[test]
    fn lists_english_hits_with_remedies_up_to_a_limit() {
        let hits = hits(&workspace());
        let text = listed(&[&hits[0]]);
        assert_eq!(
            text,
            format!("  bin/weir/src/a.rs:1: It is told.\n    \"is told\": {}\n", hits[0].pattern.remedy)
        );
        let text = listed(&[&hits[0]; SHOWN + 2]);
        assert_eq!(text.matches("bin/weir/src/a.rs:1").count(), SHOWN);
        assert!(text.ends_with("  and 2 more\n"), "{text}");
    }
}
