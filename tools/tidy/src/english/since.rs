//! The hits added since the last change of the table, from git's history.

use std::collections::{HashMap, HashSet};
use std::process::Command;

use super::EnglishHit;
use super::excerpts::excerpts;
use crate::{SourceFile, Workspace};

/// The hits in texts not yet in their file at the last commit that changed the table. All hits without such a commit,
/// or if every text is old.
pub(super) fn new_hits<'h>(
    workspace: &Workspace,
    table: &str,
    hits: Vec<&'h EnglishHit>,
) -> Vec<&'h EnglishHit> {
    let commit = git(workspace, &["log", "-1", "--format=%H", "--", table]).unwrap_or_default();
    let commit = commit.trim();
    if commit.is_empty() {
        return hits;
    }
    let mut old = HashMap::new();
    for hit in &hits {
        let committed = || git(workspace, &["show", &format!("{commit}:{}", hit.path)]).unwrap_or_default();
        old.entry(hit.path.as_str()).or_insert_with(committed);
    }
    added(hits, &old)
}

/// The hits in texts missing from the old version of their file. All hits if every text is old.
fn added<'h>(hits: Vec<&'h EnglishHit>, old: &HashMap<&str, String>) -> Vec<&'h EnglishHit> {
    let old: HashMap<&str, HashSet<String>> =
        old.iter().map(|(path, text)| (*path, texts(path, text))).collect();
    let is_new = |hit: &&EnglishHit| !old.get(&*hit.path).is_some_and(|texts| texts.contains(&hit.text));
    let new = Vec::from_iter(hits.iter().copied().filter(is_new));
    if new.is_empty() { hits } else { new }
}

fn texts(path: &str, text: &str) -> HashSet<String> {
    let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
    excerpts(&file).into_iter().map(|excerpt| excerpt.text.trim().to_owned()).collect()
}

fn git(workspace: &Workspace, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(&workspace.root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::english::patterns::PATTERNS;

    fn hit(path: &str, text: &str) -> EnglishHit {
        EnglishHit {
            key: "data/x\tdoc comments".into(),
            path: path.into(),
            line: 1,
            text: text.into(),
            words: "told".into(),
            pattern: &PATTERNS[3],
        }
    }

    #[test]
    fn keeps_english_hits_that_were_not_in_the_old_file() {
        let hits = [hit("a.rs", "is told"), hit("a.rs", "was told"), hit("b.rs", "is told")];
        let old = |path: &'static str, text: &str| HashMap::from([(path, text.to_owned())]);
        let kept = |old: HashMap<&str, String>| -> Vec<String> {
            let kept = added(hits.iter().collect(), &old);
            kept.iter().map(|hit| format!("{}: {}", hit.path, hit.text)).collect()
        };
        assert_eq!(kept(old("a.rs", "/// is told\nfn f() {}\n")), ["a.rs: was told", "b.rs: is told"]);
        assert_eq!(kept(old("b.rs", "/// is told\n/// was told\n")), ["a.rs: is told", "a.rs: was told"]);
    }

    #[test]
    fn keeps_every_english_hit_if_all_were_in_the_old_files() {
        let hits = [hit("a.rs", "is told")];
        assert_eq!(added(hits.iter().collect(), &HashMap::from([("a.rs", "/// is told".into())])).len(), 1);
    }
}
