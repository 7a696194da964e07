//! Compares the drawing in ARCHITECTURE.md with Cargo's dependencies.
//!
//! A line of the drawing begins with a floor (a top-level folder). Lines that begin with blanks continue it. It
//! contains chains, separated by at least three blanks. `stream · checks ──► mux ──► net` means that stream and checks
//! import mux, and mux imports net. Each arrow must be a non-dev dependency. Each dependency between two crates of a
//! floor must be an arrow or follow from several. Every crate is listed on its floor.

use std::collections::{BTreeMap, BTreeSet};

use crate::{BrokenRule, Crate, Workspace};

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## The map";
const ARROW: &str = "──►";
const BESIDE: &str = "·";
/// The separator of chains.
const APART: &str = "   ";

/// Arrows of the drawing that are not dependencies, and crates and dependencies missing from the drawing.
pub fn lies(workspace: &Workspace) -> Vec<BrokenRule> {
    let page = workspace.pages.iter().find(|page| page.path == PAGE);
    let drawing = page.and_then(|page| page.text.split_once(HEADING)?.1.split("```").nth(1));
    let Some(drawing) = drawing else { return vec![BrokenRule::new(PAGE, "has no drawing of the crates")] };
    compare(drawing, &workspace.crates)
}

fn compare(drawing: &str, crates: &[Crate]) -> Vec<BrokenRule> {
    let mut faults = Vec::new();
    let drawn = read(drawing);
    let floors: BTreeSet<&str> =
        crates.iter().map(|member| floor(&member.folder)).chain(drawn.keys().copied()).collect();
    for floor_name in floors {
        let known = Floor::of_cargo(floor_name, crates);
        let empty = Floor::default();
        let shown = drawn.get(floor_name).unwrap_or(&empty);
        let mut fault =
            |why: String| faults.push(BrokenRule::new(PAGE, format!("the drawing of {floor_name}/ {why}")));
        for name in known.crates.difference(&shown.crates) {
            fault(format!("lacks {name}"));
        }
        for name in shown.crates.difference(&known.crates) {
            fault(format!("has {name}, which is not a crate"));
        }
        for (from, to) in shown.arrows.difference(&known.arrows) {
            fault(format!("has the arrow {from} {ARROW} {to}, which Cargo does not know"));
        }
        for (from, to) in known.arrows.iter().filter(|(from, to)| !shown.leads(from, to)) {
            fault(format!("lacks the arrow {from} {ARROW} {to}"));
        }
    }
    faults
}

/// The crates of a floor, by their folders, and the arrows between them.
#[derive(Debug, Default)]
struct Floor<'t> {
    crates: BTreeSet<&'t str>,
    arrows: BTreeSet<(&'t str, &'t str)>,
}

impl<'t> Floor<'t> {
    fn of_cargo(name: &str, crates: &'t [Crate]) -> Floor<'t> {
        let members = || crates.iter().filter(|member| floor(&member.folder) == name);
        let mut found = Floor { crates: members().map(short).collect(), arrows: BTreeSet::new() };
        for from in members() {
            let imports =
                |to: &&Crate| from.dependencies.contains(&to.name) && !from.of_tests.contains(&to.name);
            found.arrows.extend(members().filter(imports).map(|to| (short(from), short(to))));
        }
        found
    }

    /// Whether a path of arrows leads from one crate to another.
    fn leads(&self, from: &str, to: &str) -> bool {
        let next = self.arrows.iter().filter(|(start, _)| *start == from);
        // The recursion terminates, because Cargo rejects cyclic dependencies.
        next.into_iter().any(|(_, end)| *end == to || self.leads(end, to))
    }
}

/// The floors of a drawing.
fn read(drawing: &str) -> BTreeMap<&str, Floor<'_>> {
    let mut floors: BTreeMap<&str, Floor<'_>> = BTreeMap::new();
    let mut current = "";
    for line in drawing.lines().filter(|line| !line.trim().is_empty()) {
        let chains = match line.split_once('/') {
            Some((name, chains)) if !line.starts_with(' ') => {
                current = name;
                chains
            }
            _ => line,
        };
        let floor = floors.entry(current).or_default();
        for chain in chains.split(APART).map(str::trim).filter(|chain| !chain.is_empty()) {
            let groups: Vec<Vec<&str>> =
                chain.split(ARROW).map(|group| group.split(BESIDE).map(str::trim).collect()).collect();
            floor.crates.extend(groups.iter().flatten());
            for pair in groups.windows(2) {
                floor.arrows.extend(pair[0].iter().flat_map(|from| pair[1].iter().map(|to| (*from, *to))));
            }
        }
    }
    floors
}

fn floor(folder: &str) -> &str {
    folder.split('/').next().unwrap_or_default()
}

/// The last part of a crate's folder.
fn short(member: &Crate) -> &str {
    member.folder.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(folder: &str, dependencies: &[&str], of_tests: &[&str]) -> Crate {
        let own = |names: &[&str]| names.iter().map(|name| format!("weir-{name}")).collect();
        let short = folder.rsplit('/').next().expect("a name");
        Crate {
            name: format!("weir-{short}"),
            folder: folder.into(),
            dependencies: own(dependencies),
            of_tests: own(of_tests),
            roots: Vec::new(),
        }
    }

    #[track_caller]
    fn check(drawing: &str, expected: &[&str]) {
        let crates = [
            member("sched", &[], &[]),
            member("data/tls", &[], &[]),
            member("data/net", &["tls", "sched"], &[]),
            member("data/mux", &["net", "tls"], &[]),
            member("data/backend", &["net"], &["net"]),
        ];
        let whys: Vec<String> = compare(drawing, &crates).into_iter().map(|fault| fault.why).collect();
        assert_eq!(whys.len(), expected.len(), "{whys:?}");
        for (why, expected) in whys.iter().zip(expected) {
            assert!(why.ends_with(expected), "{why}");
        }
    }

    #[test]
    fn arrows_of_the_drawing_must_be_cargo_dependencies() {
        check("data/   mux ──► net ──► tls\n        backend\nsched/  sched\n", &[]);
        check(
            "data/   backend · mux ──► net ──► tls\nsched/  sched",
            &["backend ──► net, which Cargo does not know"],
        );
        check("data/   mux ──► tls   backend · net\nsched/  sched", &["mux ──► net", "net ──► tls"]);
        check("data/   mux ──► net ──► tls\nsched/  sched", &["lacks backend"]);
        check(
            "data/   mux ──► net ──► tls   backend · attic\nsched/  sched",
            &["has attic, which is not a crate"],
        );
        check("data/   mux ──► net ──► tls   backend", &["lacks sched"]);
    }
}
