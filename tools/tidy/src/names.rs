//! The ratchet on type names declared in several crates. The number of crates per name may only fall.
//!
//! A reader of `Session` in one crate misunderstands a different `Session` in another. Two types may share a name only for the same idea.

use std::collections::{BTreeMap, BTreeSet};

use crate::declarations::Declarations;
use crate::ratchet::{Counts, Ratchet};
use crate::{BrokenRule, Workspace};

/// The table of names.
pub const RATCHET: Ratchet = Ratchet {
    path: "tools/tidy/ratchets/names.tsv",
    title: "Crates that declare a type of the same name. They may only fall (STYLE.md, \"Ratchets\").",
    columns: "name\tcrates",
};

/// The number of crates that declare a type of a name, for each name in two crates or more.
pub fn counts(workspace: &Workspace) -> Counts {
    count(&declared(workspace))
}

/// The names with a number of crates different from their row.
pub fn grown(workspace: &Workspace) -> Vec<BrokenRule> {
    let declared = declared(workspace);
    RATCHET.faults(&workspace.root, &count(&declared), |name, now, held| {
        let places = declared[name].values().flatten().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("{now} crates declare a type of this name, {} allowed: {places}", held.max(1))
    })
}

/// The files that declare a type, by name and crate.
type Places = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn declared(workspace: &Workspace) -> Places {
    let mut places = Places::new();
    for member in &workspace.crates {
        for (name, path) in Declarations::of_crate(member, workspace).types {
            places.entry(name).or_default().entry(member.name.clone()).or_default().insert(path);
        }
    }
    places
}

fn count(places: &Places) -> Counts {
    let shared = places.iter().filter(|(_, crates)| crates.len() > 1);
    shared.map(|(name, crates)| (name.clone(), crates.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Crate, SourceFile};

    #[test]
    fn counts_the_crates_that_share_a_type_name() {
        let member =
            |name: &str| Crate { name: name.into(), folder: format!("data/{name}"), ..Crate::default() };
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let workspace = Workspace {
            crates: ["a", "b", "c"].map(member).into(),
            sources: vec![
                file("data/a/src/lib.rs", "struct One; struct Two; mod m { struct Three; }"),
                file("data/a/src/n.rs", "enum Three {}"),
                file("data/b/src/lib.rs", "type One = u8; struct Two;"),
                file("data/c/src/lib.rs", "trait Two {} #[cfg(test)] mod tests { struct Three; }"),
            ],
            ..Workspace::default()
        };
        assert_eq!(counts(&workspace), Counts::from([("One".to_owned(), 2), ("Two".to_owned(), 3)]));
    }
}
