//! Compares the benchmark's lock file with the project's.
//!
//! `bench/sched` is a separate workspace, so that the executors compared with are not dependencies of the project. Its
//! lock file must have the same versions as the project's, so that the benchmark measures the shipped versions. It must
//! also match the manifests of our crates, because the last step of a run builds it with `--locked`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::{BrokenRule, Crate, Workspace};

const OURS: &str = "Cargo.lock";
/// The beginning of the names of our crates.
const PREFIX: &str = "weir-";
const BENCH: &str = "bench/sched/Cargo.lock";

/// Packages with different entries in the two files.
pub fn apart(workspace: &Workspace) -> Vec<BrokenRule> {
    let read =
        |path: &str| fs::read_to_string(workspace.root.join(path)).expect("both lock files are committed");
    let bench = read(BENCH);
    let mut faults = compare(&read(OURS), &bench);
    faults.extend(outdated(&workspace.crates, &bench));
    faults
}

/// Our crates with dependencies on our crates that differ from the benchmark's lock file.
fn outdated(crates: &[Crate], bench: &str) -> Vec<BrokenRule> {
    let mut faults = Vec::new();
    for entry in bench.split("[[package]]\n").skip(1) {
        let name = entry.lines().next().and_then(|line| line.strip_prefix("name = ")).unwrap_or_default();
        let Some(known) = crates.iter().find(|member| member.name == name.trim_matches('"')) else {
            continue;
        };
        let listed = entry.lines().filter_map(|line| line.strip_prefix(" \"")?.strip_suffix("\","));
        let locked: BTreeSet<&str> = listed.filter(|name| name.starts_with(PREFIX)).collect();
        let built = known.dependencies.iter().filter(|name| !known.of_tests.contains(name));
        let needed: BTreeSet<&str> =
            built.map(String::as_str).filter(|name| name.starts_with(PREFIX)).collect();
        if locked != needed {
            let why = format!(
                "{} depends on {needed:?}, and the file has {locked:?}: run `cargo check` in bench/sched",
                known.name
            );
            faults.push(BrokenRule::new(BENCH, why));
        }
    }
    faults
}

fn compare(ours: &str, bench: &str) -> Vec<BrokenRule> {
    let (ours, mut faults) = (packages(ours), Vec::new());
    for (name, theirs) in packages(bench) {
        let Some(known) = ours.get(&name) else { continue };
        for entry in theirs.iter().filter(|entry| !known.contains(entry)) {
            let entry = entry.lines().next().unwrap_or_default();
            let why = format!(
                "{name}, {entry}, is not what {OURS} has: run `cargo update -p {name}` in one of the folders"
            );
            faults.push(BrokenRule::new(BENCH, why));
        }
    }
    faults
}

/// The entries of a lock file by package name. A package may have several versions.
fn packages(lock: &str) -> BTreeMap<String, Vec<String>> {
    let mut packages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in lock.split("[[package]]\n").skip(1) {
        let mut lines = entry.trim_end().lines();
        let name = lines.next().and_then(|line| line.strip_prefix("name = ")).unwrap_or_default();
        // Dependencies are not compared, because our lock file also contains dev dependencies.
        let package: Vec<&str> = lines.take_while(|line| !line.starts_with("dependencies")).collect();
        packages.entry(name.trim_matches('"').to_owned()).or_default().push(package.join("\n"));
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\nchecksum = \"1\"\n\
        dependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";

    #[track_caller]
    fn check(from: &str, to: &str, expected: &[&str]) {
        let faults: Vec<String> =
            compare(OURS, &OURS.replace(from, to)).into_iter().map(|fault| fault.why).collect();
        assert_eq!(faults.len(), expected.len(), "{faults:?}");
        assert!(faults.iter().zip(expected).all(|(fault, start)| fault.starts_with(start)), "{faults:?}");
    }

    #[test]
    fn workspace_crates_in_the_lock_file_match_their_manifests() {
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let member = |dependencies: &[&str]| Crate {
            name: "weir-a".to_owned(),
            folder: String::new(),
            dependencies: strings(dependencies),
            of_tests: strings(&["weir-tests"]),
            roots: Vec::new(),
        };
        let lock = "[[package]]\nname = \"weir-a\"\nversion = \"0.1.0\"\ndependencies = [\n \"other\",\n \"weir-b\",\n]\n";
        let count = |dependencies: &[&str]| outdated(&[member(dependencies)], lock).len();
        assert_eq!(count(&["weir-b", "weir-tests", "else"]), 0);
        assert_eq!(count(&["weir-b", "weir-c"]), 1);
        assert_eq!(count(&["other"]), 1);
    }

    #[test]
    fn shared_packages_of_two_lock_files_must_be_equal() {
        check("", "", &[]);
        check("1.0.0", "1.0.1", &["a, version = \"1.0.1\", is not"]);
        check("checksum = \"1\"", "checksum = \"2\"", &["a, version = \"1.0.0\", is not"]);
        // Other packages only concern the benchmark.
        check("\"own\"", "\"other\"", &[]);
        check(" \"b\",\n", "", &[]);
    }
}
