//! The ratchet on methods of one type. If a type has more than [`LIMIT`] functions in inherent `impl` blocks, over all files
//! of a crate, their number may only fall.
//!
//! Every method of a type may access all its fields. Distributing hundreds of methods over many files does not split that
//! state. A separate type does.

use crate::declarations::Declarations;
use crate::ratchet::{Counts, Ratchet};
use crate::{BrokenRule, Workspace};

/// The table of methods.
pub const RATCHET: Ratchet = Ratchet {
    path: "tools/tidy/ratchets/methods.tsv",
    title: "Functions in the inherent impl blocks of a type. They may only fall (STYLE.md, \"Ratchets\").",
    columns: "crate\ttype\tmethods",
};

/// Maximum number of methods of a type without a row.
pub const LIMIT: usize = 40;

/// The number of methods of each type above the limit, by crate and name.
pub fn counts(workspace: &Workspace) -> Counts {
    let mut counts = Counts::new();
    for member in &workspace.crates {
        let methods = Declarations::of_crate(member, workspace).methods;
        let many = methods.into_iter().filter(|(_, methods)| *methods > LIMIT);
        counts.extend(many.map(|(name, methods)| (format!("{}\t{name}", member.folder), methods)));
    }
    counts
}

/// The types with a number of methods different from their row.
pub fn grown(workspace: &Workspace) -> Vec<BrokenRule> {
    RATCHET.faults(&workspace.root, &counts(workspace), |_, now, held| {
        let limit = held.max(LIMIT);
        format!("{now} methods, {limit} allowed: give a part of the state its own type, with its methods")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Crate, SourceFile};

    fn workspace(methods: usize) -> Workspace {
        let text = format!("impl A {{ {} }}", "fn f() {}".repeat(methods));
        Workspace {
            crates: vec![Crate { folder: "data/x".into(), ..Crate::default() }],
            sources: vec![SourceFile { path: "data/x/src/lib.rs".into(), text }],
            ..Workspace::default()
        }
    }

    #[test]
    fn counts_types_above_the_limit_only() {
        assert_eq!(counts(&workspace(40)), Counts::new());
        assert_eq!(counts(&workspace(41)), Counts::from([("data/x\tA".to_owned(), 41)]));
    }
}
