//! Secrets readable by every user of the machine, and runtime API sockets writable by every user.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use weir_model::{Level, ListenAddress};
use weir_syntax::{FileId, Line};
use weir_sys::file;

use super::{LintSubject, finding_at};
use crate::findings::Finding;

/// Exposed configuration files with passwords, private key files and runtime API sockets.
pub(super) fn exposed(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut found = configuration_files(subject);
    found.extend(key_files(subject));
    found.extend(sockets(subject));
    found
}

fn configuration_files(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut reported = BTreeSet::<FileId>::new();
    let mut found = Vec::new();
    for line in subject.lines {
        let id = line.span().file;
        let name = subject.sources.name(id);
        if let Some(what) = secret(line)
            && !reported.contains(&id)
            && is_open(Path::new(name), READ)
        {
            reported.insert(id);
            let message = format!("{name} has a secret ('{what}') and every user can read it.");
            found.push(subject.finding(CODE, line.span(), message));
        }
    }
    found
}

/// The keyword of a line that is followed by a secret. `None` without one.
fn secret(line: &Line) -> Option<&'static str> {
    let words = || line.words().iter();
    if line.keyword().is("user") {
        return ["insecure-password", "password"]
            .into_iter()
            .find(|secret| words().any(|word| word.is(secret)));
    }
    if line.keyword().is("stats") && line.text(1) == "auth" {
        return Some("stats auth");
    }
    line.keyword().is("dynamic-cookie-key").then_some("dynamic-cookie-key")
}

/// Files with a private key, named after words like `crt`. For a directory, its files.
fn key_files(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for line in subject.lines {
        for (index, pair) in line.words().windows(2).enumerate() {
            let [word, path] = pair else { continue };
            if !KEY_WORDS.contains(&word.text()) {
                continue;
            }
            for path in files(path.text()).into_iter().filter(|path| seen.insert(path.clone())) {
                let always = word.is("tls-ticket-keys");
                if is_open(&path, READ) && (always || has_private_key(&path)) {
                    let message = format!("every user can read the secret key in {}.", path.display());
                    found.push(subject.finding(CODE, line.span_at(index + 1), message));
                }
            }
        }
    }
    found
}

fn files(path: &str) -> Vec<PathBuf> {
    let stem = PathBuf::from(path);
    let entries = std::fs::read_dir(&stem).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).take(MAX_FILES).collect();
    files.sort();
    // The private key of a certificate may be in a separate file.
    files.extend([PathBuf::from(format!("{path}.key")), stem]);
    files.retain(|path| path.is_file());
    files
}

fn has_private_key(path: &Path) -> bool {
    let text = file::read_regular(path, MAX_KEY_FILE).unwrap_or_default();
    String::from_utf8_lossy(&text).contains("PRIVATE KEY-----")
}

fn sockets(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for socket in &subject.config.global.sockets {
        let open = socket.options.ownership.mode.is_some_and(|mode| mode & WRITE != 0);
        // The default level is operator.
        let harmless = socket.options.level == Some(Level::User);
        let inet = socket.addresses.iter().any(|address| matches!(address, ListenAddress::Inet { .. }));
        if open && !inet && !harmless {
            let message = format!("every user can send commands to '{}'.", socket.spelling);
            found.push(finding_at("C706", &socket.at, message));
        }
    }
    found
}

/// Whether users other than owner and group have this permission on a file.
fn is_open(path: &Path, permission: u32) -> bool {
    std::fs::metadata(path).is_ok_and(|known| known.is_file() && known.permissions().mode() & permission != 0)
}

const CODE: &str = "C705";
const READ: u32 = 0o004;
const WRITE: u32 = 0o002;
/// The words before the path of a key.
const KEY_WORDS: [&str; 4] = ["crt", "key", "tls-ticket-keys", "default-crt"];
/// Maximum number of files to check in a directory.
const MAX_FILES: usize = 10_000;
/// Maximum size of a file with certificate and key, in bytes. Longer files are skipped.
const MAX_KEY_FILE: u64 = 1 << 20;
