//! The input of the rules: the crates from `cargo metadata`, and the sources as text.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The extensions of the files that the rules read as text.
const TEXTS: [&str; 3] = [".md", ".py", ".rs"];

/// The project: its root folder, its own crates, all packages that they are built from, and its source files.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The folder that holds the root `Cargo.toml`.
    pub root: PathBuf,
    /// Our own crates.
    pub crates: Vec<Crate>,
    /// Every package in the resolved tree, ours and others'.
    pub packages: Vec<Package>,
    /// Every Rust source file of the crates, sorted by path.
    pub sources: Vec<SourceFile>,
    /// The other texts of the project, sorted by path: Markdown, Python, and Rust outside the crates.
    pub pages: Vec<SourceFile>,
}

/// One of our own crates.
#[derive(Debug, Clone, Default)]
pub struct Crate {
    /// The name in `Cargo.toml`.
    pub name: String,
    /// The folder, relative to the root, with `/` between its parts.
    pub folder: String,
    /// The names of all its dependencies, including dev and build dependencies.
    pub dependencies: Vec<String>,
    /// The names of pure dev dependencies.
    pub of_tests: Vec<String>,
    /// The root source files (`lib.rs`, `main.rs`) relative to the project's root.
    pub roots: Vec<String>,
}

/// A package of the resolved tree.
#[derive(Debug, Clone)]
pub struct Package {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// The licence expression. Empty if it is not declared.
    pub licence: String,
    /// Its source, empty for our own packages.
    pub source: String,
}

/// A text file of the project.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Relative to the root, with `/` between its parts.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl Crate {
    /// Whether a path, relative to the project's root, is inside the crate's folder.
    pub fn contains(&self, path: &str) -> bool {
        path.strip_prefix(self.folder.as_str()).is_some_and(|inside| inside.starts_with('/'))
    }
}

impl Workspace {
    /// Reads the project that this crate belongs to.
    ///
    /// # Panics
    /// When cargo fails or a file cannot be read, because a rule without input must not pass.
    pub fn load() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .expect("tools/tidy is two floors below the root");
        let metadata = metadata(root);
        let members: Vec<&str> = strings(&metadata["workspace_members"]).collect();
        let mut crates = Vec::new();
        let mut packages = Vec::new();
        let built = built(&metadata, &members);
        for package in metadata["packages"].as_array().expect("metadata lists packages") {
            let name = text(&package["name"]);
            if built.contains(package["id"].as_str().unwrap_or_default()) {
                packages.push(Package {
                    name: name.clone(),
                    version: text(&package["version"]),
                    licence: text(&package["license"]),
                    source: text(&package["source"]),
                });
            }
            if members.contains(&package["id"].as_str().unwrap_or_default()) {
                crates.push(own_crate(root, name, package));
            }
        }
        let mut files = Vec::new();
        read_texts(root, root, &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let is_source = |file: &SourceFile| {
            file.path.ends_with(".rs") && crates.iter().any(|member| member.contains(&file.path))
        };
        let (sources, pages) = files.into_iter().partition(is_source);
        Self { root: root.to_path_buf(), crates, packages, sources, pages }
    }

    /// Every text of the project.
    pub fn texts(&self) -> impl Iterator<Item = &SourceFile> {
        self.sources.iter().chain(&self.pages)
    }

    /// The source file at a path relative to the root.
    pub fn source(&self, path: &str) -> Option<&SourceFile> {
        self.sources.iter().find(|source| source.path == path)
    }
}

fn metadata(root: &Path) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// The packages built for any target. Cargo lists more, such as optional packages only mentioned in a weak feature (`dep?/feature`).
fn built<'m>(metadata: &'m Value, members: &[&'m str]) -> HashSet<&'m str> {
    let by_id = |list: &'m Value| -> HashMap<&'m str, &'m Value> {
        let entries = list.as_array().into_iter().flatten();
        entries.filter_map(|entry| Some((entry["id"].as_str()?, entry))).collect()
    };
    let (packages, nodes) = (by_id(&metadata["packages"]), by_id(&metadata["resolve"]["nodes"]));
    let mut built: HashSet<&str> = members.iter().copied().collect();
    let mut waiting: Vec<&str> = members.to_vec();
    while let Some(id) = waiting.pop() {
        let (Some(package), Some(node)) = (packages.get(id), nodes.get(id)) else { continue };
        for edge in node["deps"].as_array().into_iter().flatten() {
            let to = edge["pkg"].as_str().unwrap_or_default();
            let name = packages.get(to).map(|to| text(&to["name"])).unwrap_or_default();
            if is_needed(package, node, &name) && built.insert(to) {
                waiting.push(to);
            }
        }
    }
    built
}

/// Whether a package needs a dependency: always, or because of an enabled feature.
fn is_needed(package: &Value, node: &Value, name: &str) -> bool {
    let mut of_name =
        package["dependencies"].as_array().into_iter().flatten().filter(|entry| entry["name"] == *name);
    if of_name.any(|entry| entry["optional"] != true) {
        return true;
    }
    let key = package["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|entry| entry["name"] == *name)
        .and_then(|entry| entry["rename"].as_str())
        .unwrap_or(name);
    let asks = |word: &str| {
        word == key
            || word.strip_prefix("dep:") == Some(key)
            || word.split_once('/').is_some_and(|(first, _)| first == key)
    };
    strings(&node["features"])
        .any(|feature| feature == key || strings(&package["features"][feature]).any(asks))
}

fn own_crate(root: &Path, name: String, package: &Value) -> Crate {
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let folder = relative(root, manifest.parent().expect("a manifest is in a folder"));
    let listed = || package["dependencies"].as_array().into_iter().flatten();
    let dependencies = listed().map(|d| text(&d["name"])).collect();
    let of_tests = listed().filter(|d| d["kind"] == "dev").map(|d| text(&d["name"])).collect();
    let roots = package["targets"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|target| strings(&target["kind"]).any(|kind| matches!(kind, "lib" | "bin" | "proc-macro")))
        .map(|target| relative(root, Path::new(&text(&target["src_path"]))))
        .collect();
    Crate { name, folder, dependencies, of_tests, roots }
}

/// Reads the texts of a folder and its subfolders.
fn read_texts(root: &Path, folder: &Path, texts: &mut Vec<SourceFile>) {
    for entry in fs::read_dir(folder).expect("a folder of the project can be read") {
        let path = entry.expect("a folder's entry can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !is_skipped(&name, folder.join("Cargo.toml").exists()) {
                read_texts(root, &path, texts);
            }
        } else if TEXTS.iter().any(|extension| name.ends_with(extension)) {
            let text = fs::read_to_string(&path).expect("a text of the project is UTF-8");
            texts.push(SourceFile { path: relative(root, &path), text });
        }
    }
}

/// Whether a folder is hidden or holds build results.
fn is_skipped(name: &str, beside_manifest: bool) -> bool {
    name.starts_with('.') || (name == "target" && beside_manifest)
}

fn relative(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).expect("our own files are below the root");
    inside.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_folders_and_build_output_are_skipped() {
        let skipped = [(".git", false), ("target", true), ("target", false), ("tests", true)];
        assert_eq!(skipped.map(|(name, manifest)| is_skipped(name, manifest)), [true, true, false, false]);
    }
}
