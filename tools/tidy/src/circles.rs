//! Cycles of modules. Modules that import each other, directly or indirectly, can only be understood together.
//!
//! A room is a module declared in a crate's root, with all its submodules, which may import each other. An import is a path in
//! code, `crate::other` or `super::other`. An item re-exported by the root (`pub use`) counts for its original module. Tests may
//! import everything.
//!
//! The size of the largest cycle of each crate is recorded and may only shrink. Dependencies without a path, such as
//! calls between methods of one type in several rooms, are not detected.

use std::collections::{BTreeMap, BTreeSet};

use crate::{BrokenRule, Crate, Workspace};

/// The number of rooms in the largest cycle of a crate. Crates without cycles are not listed.
const LARGEST: &[(&str, usize)] = &[
    ("weir-containers", 3),
    ("weir-events", 3),
    ("weir-expr", 8),
    ("weir-master", 4),
    ("weir-memory", 2),
    ("weir-sched", 5),
    ("weir-sync", 2),
    ("weir-sys", 2),
];

/// Crates with a largest cycle different from the recorded size.
pub fn grown(workspace: &Workspace) -> Vec<BrokenRule> {
    let held = |name: &str| LARGEST.iter().find(|(known, _)| *known == name).map_or(0, |(_, size)| *size);
    let fault = |member: &Crate| {
        let circle = largest(&imports(member, workspace));
        let (size, held) = (circle.len(), held(&member.name));
        let why = match size.cmp(&held) {
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Greater => format!(
                "{size} modules import each other in a circle, {held} may: {}",
                Vec::from_iter(circle).join(", ")
            ),
            std::cmp::Ordering::Less => {
                format!(
                    "the largest circle has {size} modules: write that in tools/tidy/src/circles.rs, not {held}"
                )
            }
        };
        Some(BrokenRule::new(&member.folder, why))
    };
    workspace.crates.iter().filter_map(fault).collect()
}

/// The largest cycle of each crate with a cycle.
pub fn report(workspace: &Workspace) -> Vec<(String, Vec<String>)> {
    let of = |member: &Crate| {
        let circle = Vec::from_iter(largest(&imports(member, workspace)));
        (!circle.is_empty()).then(|| (member.name.clone(), circle))
    };
    workspace.crates.iter().filter_map(of).collect()
}

/// The imports of each room.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn imports(member: &Crate, workspace: &Workspace) -> Imports {
    let mut imports = Imports::new();
    for root in &member.roots {
        let Some((folder, _)) = root.rsplit_once('/') else { continue };
        let files = workspace.sources.iter().filter_map(|source| {
            let inside = source.path.strip_prefix(folder)?.strip_prefix('/')?;
            Some((Vec::from_iter(inside.strip_suffix(".rs")?.split('/')), code(&source.text)))
        });
        let files: Vec<(Vec<&str>, String)> = files.collect();
        let is_root = |path: &[&str]| matches!(path, ["lib" | "main"]);
        let rooms: BTreeSet<&str> =
            files.iter().filter(|(path, _)| !is_root(path)).map(|(path, _)| path[0]).collect();
        let passed_on: Imports = files
            .iter()
            .filter(|(path, _)| is_root(path))
            .flat_map(|(_, text)| paths(text, "pub use "))
            .filter(|path| rooms.contains(path[0].as_str()))
            .filter_map(|path| Some((path.last()?.clone(), BTreeSet::from([path[0].clone()]))))
            .collect();
        for (place, text) in files.iter().filter(|(path, _)| !is_root(path) && !is_test(path)) {
            let from = imports.entry(place[0].to_owned()).or_default();
            // The crate root, relative to the room's folder.
            let above = "super::".repeat(place.len());
            for path in paths(text, "crate::").into_iter().chain(paths(text, &above)) {
                let named = path[0].as_str();
                let to = passed_on.get(named).and_then(BTreeSet::first).map_or(named, String::as_str);
                if rooms.contains(to) && to != place[0] {
                    from.insert(to.to_owned());
                }
            }
        }
    }
    imports
}

fn is_test(path: &[&str]) -> bool {
    path.iter().any(|part| matches!(*part, "tests" | "loom"))
}

/// A file's text without comments and tests.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = product.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths after `start`, each as a list of names. A group counts as several paths.
fn paths(text: &str, start: &str) -> Vec<Vec<String>> {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    for (at, _) in text.match_indices(start) {
        if !text[..at].ends_with(part) {
            tree(&text[at + start.len()..], &[], &mut found);
        }
    }
    found
}

/// Parses one path or a group of paths, and adds them with the prefix `before`. Returns the rest of the text.
fn tree<'t>(text: &'t str, before: &[String], found: &mut Vec<Vec<String>>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
            if rest.is_empty() || rest.starts_with('}') {
                return rest.get(1..).unwrap_or_default();
            }
            let left = tree(rest, before, found);
            // Skip text that is not a path, so that the loop terminates.
            rest = if left.len() < rest.len() {
                left
            } else {
                &rest[rest.chars().next().map_or(0, char::len_utf8)..]
            };
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return rest;
    }
    let path = [before, &[name.to_owned()]].concat();
    match rest.strip_prefix("::") {
        Some(rest) if rest.starts_with(|c: char| c == '{' || c.is_alphabetic()) => tree(rest, &path, found),
        _ => {
            found.push(path);
            rest
        }
    }
}

/// The largest set of rooms that all reach each other. Empty without a cycle.
fn largest(imports: &Imports) -> BTreeSet<String> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|from| (from, reach(imports, from))).collect();
    let circle = |room: &String| -> BTreeSet<String> {
        let back = |other: &&&String| reached.get(**other).is_some_and(|theirs| theirs.contains(room));
        reached[room].iter().filter(back).map(|other| (*other).clone()).collect()
    };
    imports.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}

/// All rooms reachable from a room. Includes the room itself if it is part of a cycle.
fn reach<'i>(imports: &'i Imports, from: &String) -> BTreeSet<&'i String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = imports[from].iter().collect();
    while let Some(room) = next.pop() {
        if reached.insert(room) {
            next.extend(imports.get(room).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceFile;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let source = |(path, text): &(&str, &str)| SourceFile {
            path: format!("data/x/src/{path}.rs"),
            text: (*text).into(),
        };
        let member = Crate {
            name: "weir-x".into(),
            folder: "data/x".into(),
            dependencies: Vec::new(),
            of_tests: Vec::new(),
            roots: vec!["data/x/src/lib.rs".into()],
        };
        let workspace = Workspace {
            crates: vec![member],
            sources: files.iter().map(source).collect(),
            ..Workspace::default()
        };
        let found = report(&workspace);
        assert_eq!(found.first().map_or(&[][..], |(_, circle)| circle), expected, "{files:?}");
        assert_eq!(grown(&workspace).len(), usize::from(!expected.is_empty()));
    }

    #[test]
    fn mutual_imports_of_modules_are_a_circle() {
        check(&[("a", "use crate::b::B;"), ("b", "use crate::c;"), ("c", "")], &[]);
        check(&[("a", "use crate::b::B;"), ("b", "use crate::c;"), ("c", "crate::a::f()")], &["a", "b", "c"]);
        check(&[("a", "use crate::{c, b::{B, D}};"), ("b", "use super::a;"), ("c", "")], &["a", "b"]);
    }

    #[test]
    fn the_largest_import_circle_is_reported() {
        let of_two = [("a", "use crate::b;"), ("b", "use crate::a;")];
        let of_three = [("c", "use crate::d;"), ("d", "use crate::e;"), ("e", "use crate::c;")];
        check(&[&of_two[..], &of_three].concat(), &["c", "d", "e"]);
    }

    #[test]
    fn submodules_count_as_their_top_level_module() {
        check(&[("a", "use crate::a::b;"), ("a/b", "use super::A;")], &[]);
        check(&[("a", ""), ("a/b", "use super::super::c::C;"), ("c", "use crate::a;")], &["a", "c"]);
    }

    #[test]
    fn reexports_of_the_crate_root_resolve_to_their_modules() {
        let root = ("lib", "mod a;\nmod b;\npub use a::{A, f};\npub use b::B;");
        check(&[root, ("a", "use crate::B;"), ("b", "use crate::{A, C};")], &["a", "b"]);
        check(&[root, ("a", "use crate::B;"), ("b", "use crate::C;")], &[]);
    }

    #[test]
    fn imports_in_comments_and_tests_are_ignored() {
        check(
            &[("a", "// crate::b\n#[cfg(test)]\nmod tests { use crate::b; }"), ("b", "use crate::a;")],
            &[],
        );
        check(&[("a", ""), ("a/tests", "use crate::b;"), ("b", "use crate::a;")], &[]);
    }
}
