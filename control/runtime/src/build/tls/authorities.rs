//! Whom to trust: files of authorities and of what they revoked.

use std::fs;

use weir_tls::pem;
use weir_tls::verify::Authorities;

/// The authorities of these files, and the lists of what they revoked.
pub(super) fn authorities(files: &[String], lists: &[String]) -> Result<Authorities, String> {
    let mut certificates = Vec::new();
    for file in files {
        for path in expand(file)? {
            certificates.extend(pem::certificates(&read(&path, "ca-file")?));
        }
    }
    let mut revoked = Vec::new();
    for file in lists {
        let found = pem::revocation_lists(&read(file, "crl-file")?);
        if found.is_empty() {
            return Err(format!("'crl-file' : '{file}' holds no list (a PEM block 'X509 CRL' is expected)."));
        }
        revoked.extend(found);
    }
    Authorities::new(&certificates, &revoked)
        .map_err(|fault| format!("'ca-file' : '{}' {fault}.", files.join("', '")))
}

/// The files that a word means: itself, those of a folder, those of the system.
fn expand(file: &str) -> Result<Vec<String>, String> {
    if file == "@system-ca" {
        let found = SYSTEM.iter().find(|path| fs::metadata(path).is_ok());
        return found.map(|path| vec![(*path).to_owned()]).ok_or_else(|| {
            "'ca-file' : '@system-ca' : this system has no bundle of authorities (package ca-certificates).".to_owned()
        });
    }
    if !fs::metadata(file).is_ok_and(|found| found.is_dir()) {
        return Ok(vec![file.to_owned()]);
    }
    let entries = fs::read_dir(file).map_err(|error| super::cannot_open(file, &error))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names
        .filter(|name| !name.starts_with('.') && ENDINGS.iter().any(|ending| name.ends_with(ending)))
        .map(|name| format!("{}/{name}", file.trim_end_matches('/')))
        .collect();
    names.sort_unstable();
    Ok(names)
}

fn read(path: &str, word: &str) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("'{word}' : {}", super::cannot_open(path, &error)))
}

/// Which files of a folder are read (manual, "ca-file").
const ENDINGS: [&str; 4] = [".pem", ".crt", ".cer", ".crl"];
/// Where systems keep whom they trust.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
