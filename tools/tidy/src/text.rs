//! Rules on the sources as text.

use crate::{BrokenRule, SourceFile, Workspace};

/// Maximum number of lines per file. Split a longer file, or move its tables to separate files.
pub const MAX_FILE_LINES: usize = 1500;
/// Minimum number of lines of a crate's opening page: its purpose, the things it must not know, the item to read first.
pub const MIN_PAGE_LINES: usize = 6;
/// Uninformative names.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "misc", "helper", "helpers", "manager", "managers"];
/// Names of the standard library that begin with `get_`.
const STANDARD_GETTERS: &[&str] = &["get_mut", "get_or_insert_with", "get_or_init"];
/// The folder with functions named after commands such as `get weight`, exempt from the rule on `get_`.
const COMMANDS: &str = "control/cli/src/commands";
/// The folders that may contain unsafe code.
const UNSAFE_FLOORS: &[&str] = &["foundation/", "sched/"];
/// The files and folders that may open connections.
const CONNECTS: &[&str] = &["data/net/src/connect.rs", "sched/"];
const CONNECTING: &str = "Descriptor::connect(";
/// The folders that must access files through `weir_syntax::Files`, and the exceptions: paths of UNIX sockets, and ring files.
/// The exceptions may only become fewer.
const WITHOUT_FILE_SYSTEM: &[&str] = &["proto/", "language/", "data/"];
const WRITES_FILES: [&str; 2] = ["data/net/src/endpoint.rs", "data/assemble/src/events.rs"];
/// The folders that must use the counted atomics, the module with them, and the exempt lock statistics, which would count themselves.
const COUNTED_ATOMICS: &[&str] = &["foundation/sync/src/", "sched/src/"];
const ATOMICS: &str = "foundation/sync/src/atomic.rs";
const UNCOUNTED: &str = "foundation/sync/src/lock_label.rs";
/// Thread-local values of workers with destructors, first used during worker setup.
const USED_AT_SET_UP: &[&str] = &["DESK", "IDLE_POOLS", "LOGGER", "RING", "WAITERS"];
/// This crate is exempt, because its sources contain the searched texts.
const SELF: &str = "tools/tidy/";

/// Crates with a root file that does not open with a page of prose.
pub fn opening_pages(workspace: &Workspace) -> Vec<BrokenRule> {
    let mut faults = Vec::new();
    for root in workspace.crates.iter().flat_map(|member| &member.roots) {
        let Some(source) = workspace.source(root) else { continue };
        let page = source.text.lines().take_while(|line| line.starts_with("//!")).count();
        // Skip an empty root file.
        let empty = source
            .text
            .lines()
            .all(|line| line.is_empty() || line.starts_with("//") || line == "fn main() {}");
        if page < MIN_PAGE_LINES && !empty {
            let why = format!(
                "opens with {page} lines of prose; {MIN_PAGE_LINES} or more say what it is, what it refuses to know, where to begin"
            );
            faults.push(BrokenRule::new(root, why));
        }
    }
    faults
}

/// Files next to a crate's root that no module declares. They are not compiled and mislead readers.
pub fn orphans(workspace: &Workspace) -> Vec<BrokenRule> {
    let folders: Vec<&str> = workspace
        .crates
        .iter()
        .flat_map(|member| &member.roots)
        .filter_map(|root| root.rsplit_once('/').map(|(folder, _)| folder))
        .collect();
    let is_root =
        |path: &str| workspace.crates.iter().any(|member| member.roots.iter().any(|root| root == path));
    let declares = |source: &SourceFile, name: &str| {
        let declaration = format!("mod {name};");
        source.text.lines().any(|line| line.ends_with(&declaration))
    };
    let fault = |source: &SourceFile| {
        let (folder, file) = source.path.rsplit_once('/')?;
        let of_crate = folders.iter().any(|root| *root == folder || folder.starts_with(&format!("{root}/")));
        if !of_crate || is_root(&source.path) {
            return None;
        }
        let (folder, name) = match file.strip_suffix(".rs")? {
            "mod" => folder.rsplit_once('/')?,
            name => (folder, name),
        };
        let mut parents = workspace.sources.iter().filter(|parent| {
            let inside = parent.path.strip_suffix(".rs");
            let beside = parent.path.rsplit_once('/').is_some_and(|(beside, _)| beside == folder);
            let leads = beside && (is_root(&parent.path) || parent.path.ends_with("/mod.rs"));
            inside == Some(folder) || leads
        });
        let is_declared = parents.any(|parent| declares(parent, name));
        (!is_declared)
            .then(|| BrokenRule::new(&source.path, "no module declares this file: it is compiled by nobody"))
    };
    workspace.sources.iter().filter_map(fault).collect()
}

/// Public types and functions without documentation. Fields and variants may rely on their names.
pub fn undocumented(workspace: &Workspace) -> Vec<BrokenRule> {
    let mut faults = Vec::new();
    for source in &workspace.sources {
        let is_library = workspace.crates.iter().any(|member| {
            !member.folder.is_empty() && source.path.starts_with(&format!("{}/src/", member.folder))
        });
        if is_library {
            let places = undocumented_lines(&source.text);
            faults.extend(places.map(|(line, item)| {
                BrokenRule::new(
                    format!("{}:{line}", source.path),
                    format!("`{item}` is public and has no documentation"),
                )
            }));
        }
    }
    faults
}

/// Line numbers of undocumented items, each with the beginning of the item.
fn undocumented_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut documented = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        let before = documented;
        // Attributes may separate the documentation from the item.
        documented = line.starts_with("///")
            || line.starts_with("#[doc")
            || line.starts_with("$(#[")
            || before && (line.starts_with("#[") || line.ends_with(")]") || line.ends_with("],"));
        let item = line.strip_prefix("pub ").filter(|item| is_documented_item(item))?;
        (!before).then(|| (index + 1, item.split(['(', '{', '<', ';']).next().unwrap_or(item).trim()))
    })
}

/// Whether an item is a type or a function.
fn is_documented_item(item: &str) -> bool {
    const QUALIFIERS: [&str; 3] = ["const ", "async ", "unsafe "];
    const ITEMS: [&str; 6] = ["fn ", "struct ", "enum ", "union ", "trait ", "type "];
    let qualifier = QUALIFIERS.iter().find_map(|qualifier| item.strip_prefix(qualifier));
    ITEMS.iter().any(|kind| item.starts_with(kind)) || qualifier.is_some_and(is_documented_item)
}

/// Files above the limit of lines.
pub fn long_files(workspace: &Workspace) -> Vec<BrokenRule> {
    let long = |source: &&SourceFile| source.text.lines().count() > MAX_FILE_LINES;
    let fault = |source: &SourceFile| {
        BrokenRule::new(
            &source.path,
            format!("has {} lines; the limit is {MAX_FILE_LINES}", source.text.lines().count()),
        )
    };
    workspace.sources.iter().filter(long).map(fault).collect()
}

/// Unsafe code outside the folders that may contain it, and crates that do not use the workspace's lints.
pub fn unsafe_code(workspace: &Workspace) -> Vec<BrokenRule> {
    let mut faults = by_line(workspace, |path, line| {
        let outside = !UNSAFE_FLOORS.iter().any(|floor| path.starts_with(floor));
        (outside && has_unsafe(line)).then(|| "unsafe code lives in foundation and sched only".to_owned())
    });
    for member in &workspace.crates {
        let path = format!("{}/Cargo.toml", member.folder);
        let manifest =
            std::fs::read_to_string(workspace.root.join(&path)).expect("a member's manifest can be read");
        let inherits = manifest.contains("[lints]\nworkspace = true");
        let may_differ = UNSAFE_FLOORS.iter().any(|floor| path.starts_with(floor));
        if !inherits && !may_differ {
            faults
                .push(BrokenRule::new(path, "does not take the workspace's lints, which forbid unsafe code"));
        }
    }
    faults
}

/// Connections opened outside of the permitted files and folders.
pub fn own_connections(workspace: &Workspace) -> Vec<BrokenRule> {
    by_line(workspace, |path, line| {
        let allowed = path.contains("/tests/") || CONNECTS.iter().any(|place| path.starts_with(place));
        let opens = line.contains(CONNECTING) && !allowed;
        opens.then(|| "connections are opened by a ConnectPlan of data/net".to_owned())
    })
}

/// Direct uses of the file system in folders that receive it as an argument, outside of tests.
pub fn own_files(workspace: &Workspace) -> Vec<BrokenRule> {
    let concerned = |source: &&SourceFile| {
        let path = &source.path;
        WITHOUT_FILE_SYSTEM.iter().any(|folder| path.starts_with(folder))
            && !path.contains("/tests/")
            && !path.ends_with("/tests.rs")
            && !WRITES_FILES.contains(&path.as_str())
    };
    let mut faults = Vec::new();
    for source in workspace.sources.iter().filter(concerned) {
        let code = source.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        let opens = |line: &str| {
            line.contains("std::fs")
                || line.match_indices("fs::").any(|(at, _)| is_word(line, at, 2))
                || line.contains("File::open(")
        };
        for (number, _) in code.enumerate().filter(|(_, line)| opens(line)) {
            let place = format!("{}:{}", source.path, number + 1);
            faults.push(BrokenRule::new(place, "files are reached through `weir_syntax::Files`"));
        }
    }
    faults
}

/// Uncounted atomics in the scheduler. Tests would not detect an additional read-modify-write in every wake-up.
pub fn uncounted_atomics(workspace: &Workspace) -> Vec<BrokenRule> {
    by_line(workspace, |path, line| {
        let counted = COUNTED_ATOMICS.iter().any(|folder| path.starts_with(folder))
            && ![ATOMICS, UNCOUNTED].contains(&path);
        let standard = ["std::sync::atomic", "core::sync::atomic"].iter().any(|module| line.contains(module));
        (counted && standard).then(|| format!("atomics come from {ATOMICS}, which counts them in tests"))
    })
}

/// Thread-local values with destructors and an arbitrary time of first use. At the first use the C library allocates
/// memory to register the destructor, and aborts the process if that fails. Workers end with the process, so their
/// values need not be dropped. Other values must be used during worker setup.
pub fn dropped_by_threads(workspace: &Workspace) -> Vec<BrokenRule> {
    by_line(workspace, |path, line| {
        let (name, kind) = line.strip_prefix("    static ")?.split_once(": ")?;
        let dropped = kind.starts_with("RefCell<") && !kind.starts_with("RefCell<ManuallyDrop<");
        let late = dropped && !path.contains("/tests/") && !USED_AT_SET_UP.contains(&name);
        late.then(|| {
            format!("{name}: what a thread keeps is `ManuallyDrop`, or used when a worker is set up")
        })
    })
}

fn has_unsafe(line: &str) -> bool {
    // Fast path: most lines do not contain the word.
    line.contains("unsafe")
        && ["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait", "unsafe extern", "#[unsafe("]
            .iter()
            .any(|w| line.contains(w))
}

/// Notes about later work without an issue number.
pub fn loose_ends(workspace: &Workspace) -> Vec<BrokenRule> {
    by_line(workspace, |_, line| {
        let loose = ["TODO", "FIXME"].iter().any(|word| {
            line.match_indices(word)
                .any(|(at, _)| is_word(line, at, word.len()) && !line[at + word.len()..].starts_with("(#"))
        });
        loose.then(|| "do it now, or name the issue: (#n)".to_owned())
    })
}

fn is_word(line: &str, at: usize, length: usize) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !line[..at].ends_with(part) && !line[at + length..].starts_with(part)
}

/// Files, modules, types and functions with empty names.
pub fn empty_names(workspace: &Workspace) -> Vec<BrokenRule> {
    let mut faults = Vec::new();
    for source in workspace.sources.iter().filter(|source| !source.path.starts_with(SELF)) {
        if source.path.split(['/', '.']).any(|part| EMPTY_NAMES.contains(&part)) {
            faults.push(BrokenRule::new(&source.path, "a name that says nothing about what is inside"));
        }
    }
    faults.extend(by_line(workspace, |path, line| {
        let name = declared(line)?;
        let lower = name.to_ascii_lowercase();
        if lower.starts_with("get_") && !path.starts_with(COMMANDS) && !STANDARD_GETTERS.contains(&name) {
            return Some(format!("{name}: a getter is named for what it gives"));
        }
        let says_nothing = EMPTY_NAMES.iter().any(|empty| {
            (lower == *empty || (*empty != "common" && lower.split('_').any(|part| part == *empty)))
                || (name.starts_with(char::is_uppercase)
                    && lower.ends_with(empty)
                    && lower.len() > empty.len())
        });
        says_nothing.then(|| format!("{name}: a name that says nothing about what is inside"))
    }));
    faults
}

/// The name declared in a line: a module, a type, a trait or a function.
fn declared(line: &str) -> Option<&str> {
    let mut words =
        line.trim_start().split([' ', '(', '<', '{', ';', ':', '=']).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        match word {
            "mod" | "struct" | "enum" | "trait" | "fn" | "type" => return words.next(),
            "pub" | "crate" | "super)" | "crate)" | "async" | "const" | "unsafe" => {}
            _ => return None,
        }
    }
    None
}

/// One fault for each line of code (without comments) for which `rule` returns a text.
fn by_line(workspace: &Workspace, rule: impl Fn(&str, &str) -> Option<String>) -> Vec<BrokenRule> {
    let mut faults = Vec::new();
    for source in workspace.sources.iter().filter(|source| !source.path.starts_with(SELF)) {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(why) = rule(&source.path, line) {
                faults.push(BrokenRule::new(format!("{}:{}", source.path, number + 1), why));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(path: &str, text: &str) -> Workspace {
        let source = SourceFile { path: path.into(), text: text.into() };
        Workspace { sources: vec![source], ..Workspace::default() }
    }

    #[test]
    fn finds_public_items_without_documentation() {
        let text = "/// Told.\npub fn a() {}\npub fn b() {}\n/// Told.\n#[derive(Debug)]\npub struct C {\n    pub d: u8,\n}\n\
            pub const E: u8 = 1;\npub(crate) fn f() {}\n    pub const fn g() {}\n#[must_use]\npub async fn h() {}\npub type I = u8;\n";
        let found = Vec::from_iter(undocumented_lines(text));
        assert_eq!(found, [(3, "fn b"), (11, "const fn g"), (13, "async fn h"), (14, "type I = u8")]);
    }

    #[test]
    fn a_todo_comment_must_name_an_issue() {
        assert_eq!(
            loose_ends(&workspace("a.rs", "// TODO later\n// TODO(#7): later\n// METHODTODO")).len(),
            1
        );
    }

    #[test]
    fn a_source_file_outside_the_module_tree_is_reported() {
        let source = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let member = crate::Crate {
            name: "x".into(),
            folder: "x".into(),
            dependencies: Vec::new(),
            of_tests: Vec::new(),
            roots: vec!["x/src/lib.rs".into()],
        };
        let sources = vec![
            source("x/src/lib.rs", "mod a;\npub(crate) mod b;"),
            source("x/src/a.rs", "mod c;\n// mod lost;"),
            source("x/src/a/c.rs", ""),
            source("x/src/b/mod.rs", "mod d;"),
            source("x/src/b/d.rs", ""),
            source("x/src/c.rs", ""),
            source("x/tests/t.rs", ""),
        ];
        let workspace = Workspace { crates: vec![member], sources, ..Workspace::default() };
        let found: Vec<String> = orphans(&workspace).into_iter().map(|fault| fault.place).collect();
        assert_eq!(found, ["x/src/c.rs"]);
    }

    #[test]
    fn finds_uninformative_names() {
        let check = |path: &str, text: &str, expected: usize| {
            assert_eq!(empty_names(&workspace(path, text)).len(), expected, "{path} {text}");
        };
        check("data/util.rs", "", 1);
        check("data/net/src/common/x.rs", "", 1);
        check("a.rs", "pub(crate) struct SocketManager {", 1);
        check("a.rs", "pub fn get_name(&self) -> &str {", 1);
        check("a.rs", "fn parse_helpers() {", 1);
        check("a.rs", "mod utils;", 1);
        check("a.rs", "pub fn name(&self) -> &str {", 0);
        check("a.rs", "fn target() {", 0);
        check("a.rs", "struct Management;", 0);
        check("a.rs", "fn greatest_common_divisor() {", 0);
        check("a.rs", "fn get_mut(&mut self) {", 0);
    }

    #[test]
    fn unsafe_code_is_reported_only_outside_its_permitted_folders() {
        assert_eq!(unsafe_code(&workspace("data/net/src/lib.rs", "    unsafe { x() }")).len(), 1);
        assert_eq!(unsafe_code(&workspace("foundation/sys/src/lib.rs", "    unsafe { x() }")).len(), 0);
    }

    #[test]
    fn connections_opened_outside_data_net_are_reported() {
        let check = |path: &str, expected: usize| {
            let line = "let descriptor = Descriptor::connect(socket, &address)?;";
            assert_eq!(own_connections(&workspace(path, line)).len(), expected, "{path}");
        };
        check("data/logs/src/forward.rs", 1);
        check("data/net/src/listener.rs", 1);
        check("data/net/src/connect.rs", 0);
        check("sched/examples/forward.rs", 0);
        check("data/stream/tests/support/peer.rs", 0);
    }

    #[test]
    fn direct_file_system_access_is_reported() {
        let check = |path: &str, text: &str, expected: usize| {
            assert_eq!(own_files(&workspace(path, text)).len(), expected, "{path}: {text}");
        };
        check("data/tls/src/pem.rs", "use std::fs;\nlet pem = fs::read(path);", 2);
        check("language/expr/src/a.rs", "    let file = File::open(path)?;", 1);
        check("data/tls/src/pem.rs", "let tfs::x = 1;\n#[cfg(test)]\nuse std::fs;", 0);
        check("data/tls/tests/ocsp.rs", "use std::fs;", 0);
        check("data/net/src/endpoint.rs", "std::fs::rename(a, b)", 0);
        check("control/observe/src/files.rs", "use std::fs::metadata;", 0);
        check("data/assemble/src/events.rs", "fs::rename(a, b)", 0);
    }

    #[test]
    fn uncounted_atomics_in_the_scheduler_are_reported() {
        let check = |path: &str, line: &str, expected: usize| {
            assert_eq!(uncounted_atomics(&workspace(path, line)).len(), expected, "{path}: {line}");
        };
        check("sched/src/queues.rs", "use std::sync::atomic::AtomicU64;", 1);
        check("sched/src/queues.rs", "    core::sync::atomic::fence(SeqCst);", 1);
        check("sched/src/queues.rs", "use weir_sync::atomic::AtomicU64;", 0);
        check("foundation/sync/src/counter.rs", "use std::sync::atomic::AtomicU64;", 1);
        check(UNCOUNTED, "use std::sync::atomic::AtomicU64;", 0);
        check(ATOMICS, "use std::sync::atomic::AtomicU64;", 0);
        check("sched/tests/counts.rs", "use std::sync::atomic::AtomicU64;", 0);
        check("data/mux/src/rate.rs", "use std::sync::atomic::AtomicU64;", 0);
    }

    #[test]
    fn finds_thread_local_values_with_destructors() {
        let check = |line: &str, expected: usize| {
            assert_eq!(dropped_by_threads(&workspace("data/a/src/b.rs", line)).len(), expected, "{line}");
        };
        check("    static KEPT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };", 1);
        check("    static KEPT: RefCell<ManuallyDrop<Vec<u8>>> = ...", 0);
        check("    static LOGGER: RefCell<Option<Logger>> = ...", 0);
        check("    static COUNT: Cell<usize> = ...", 0);
        check("        static OF_A_TEST: RefCell<Vec<u8>> = ...", 0);
    }

    #[test]
    fn files_above_the_line_limit_are_reported() {
        assert_eq!(long_files(&workspace("a.rs", &"x\n".repeat(MAX_FILE_LINES))).len(), 0);
        assert_eq!(long_files(&workspace("a.rs", &"x\n".repeat(MAX_FILE_LINES + 1))).len(), 1);
    }
}
