//! Files of trusted authorities and of revocation lists.

use std::collections::{BTreeMap, BTreeSet};

use weir_model::Location;
use weir_net::CertificateClock;
use weir_syntax::{FileKind, SharedFiles};
use weir_tls::clock::TimeProvider;
use weir_tls::rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use weir_tls::verify::Authorities;
use weir_tls::{describe, pem};

use super::Warning;

/// Authority and revocation files, as read or as changed by the runtime API.
#[derive(Default)]
pub(super) struct AuthorityFiles {
    files: SharedFiles,
    pub certificates: BTreeMap<Box<str>, Vec<CertificateDer<'static>>>,
    pub lists: BTreeMap<Box<str>, Vec<CertificateRevocationListDer<'static>>>,
    used: BTreeSet<Box<str>>,
    /// Files with validity already checked.
    dated: BTreeSet<Box<str>>,
}

impl AuthorityFiles {
    /// Creates an empty set. Files are read on first use.
    pub(super) fn new(files: SharedFiles) -> AuthorityFiles {
        AuthorityFiles { files, ..AuthorityFiles::default() }
    }

    /// Restarts the record of used files.
    pub(super) fn forget_used(&mut self) {
        self.used.clear();
    }

    /// The files used since [`AuthorityFiles::forget_used`].
    pub(super) fn used(&self) -> BTreeSet<Box<str>> {
        self.used.clone()
    }

    /// Builds the authorities from these files and revocation lists.
    pub(super) fn make(&mut self, files: &[String], lists: &[String]) -> Result<Authorities, String> {
        let (mut certificates, mut revoked) = (Vec::new(), Vec::new());
        for file in files {
            self.read_certificates(file)?;
            certificates.extend(self.certificates.get(&**file).cloned().unwrap_or_default());
        }
        for file in lists {
            self.read_lists(file)?;
            revoked.extend(self.lists.get(&**file).cloned().unwrap_or_default());
        }
        self.used.extend(files.iter().chain(lists).map(|name| Box::from(&**name)));
        Authorities::new(&certificates, &revoked)
            .map_err(|fault| format!("'ca-file' : '{}' {fault}.", files.join("', '")))
    }

    /// Warns about files with an authority that is not valid now, once per file. The system's bundle is exempt, since it often has
    /// some.
    pub(super) fn remarks(&mut self, files: &[String], subject: &str, at: &Location) -> Vec<Warning> {
        let now = CertificateClock.current_time().and_then(|now| i64::try_from(now.as_secs()).ok());
        let Some(now) = now else { return Vec::new() };
        let mut remarks = Vec::new();
        for file in files.iter().filter(|file| **file != "@system-ca") {
            let is_new = self.dated.insert(file.as_str().into());
            let certificates = self.certificates.get(file.as_str()).filter(|_| is_new);
            let why =
                certificates.and_then(|all| all.iter().find_map(|der| describe::out_of_validity(der, now)));
            remarks.extend(why.map(|why| Warning {
                text: format!(
                    "[{at}] : {subject} : an authority of '{file}' {why}: certificates that it signed are refused."
                ),
                is_borne: true,
            }));
        }
        remarks
    }

    /// Whether a file of this name was read.
    pub(super) fn knows(&self, file: &str) -> bool {
        self.certificates.contains_key(file) || self.lists.contains_key(file)
    }

    /// The first file that was never read, and the keyword that refers to it.
    pub(super) fn unknown(&self, file: &str, lists: &[String]) -> Option<(&'static str, String)> {
        if !self.certificates.contains_key(file) {
            return Some(("ca-file", file.to_owned()));
        }
        let list = lists.iter().find(|list| !self.lists.contains_key(list.as_str()))?;
        Some(("crl-file", list.clone()))
    }

    pub(super) fn read_certificates(&mut self, file: &str) -> Result<(), String> {
        if self.certificates.contains_key(file) {
            return Ok(());
        }
        let mut found = Vec::new();
        for path in expand(&self.files, file)? {
            found.extend(pem::certificates(&read(&self.files, &path, "ca-file")?));
        }
        if found.is_empty() {
            return Err(format!("'ca-file' : '{file}' holds no certificate of an authority."));
        }
        self.certificates.insert(file.into(), found);
        Ok(())
    }

    pub(super) fn read_lists(&mut self, file: &str) -> Result<(), String> {
        if self.lists.contains_key(file) {
            return Ok(());
        }
        let found = pem::revocation_lists(&read(&self.files, file, "crl-file")?);
        if found.is_empty() {
            return Err(format!("'crl-file' : '{file}' holds no list (a PEM block 'X509 CRL' is expected)."));
        }
        self.lists.insert(file.into(), found);
        Ok(())
    }
}

/// The files that a value stands for: the file itself, those of a folder, or the system's bundle.
fn expand(files: &SharedFiles, file: &str) -> Result<Vec<String>, String> {
    if file == "@system-ca" {
        let found = SYSTEM.iter().find(|path| files.kind(path).is_ok());
        return found.map(|path| vec![(*path).to_owned()]).ok_or_else(|| {
            "'ca-file' : '@system-ca' : this system has no bundle of authorities (package ca-certificates).".to_owned()
        });
    }
    if !files.kind(file).is_ok_and(|kind| kind == FileKind::Folder) {
        return Ok(vec![file.to_owned()]);
    }
    let entries = files.list(file).map_err(|error| weir_tls::cannot_open(file, &error))?;
    let mut names: Vec<String> = entries
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| !name.starts_with('.') && ENDINGS.iter().any(|ending| name.ends_with(ending)))
        .map(|name| format!("{}/{name}", file.trim_end_matches('/')))
        .collect();
    names.sort_unstable();
    Ok(names)
}

fn read(files: &SharedFiles, path: &str, word: &str) -> Result<Vec<u8>, String> {
    files.read_all(path).map_err(|error| format!("'{word}' : {}", weir_tls::cannot_open(path, &error)))
}

/// The extensions of the files that are read from a folder (manual, "ca-file").
const ENDINGS: [&str; 4] = [".pem", ".crt", ".cer", ".crl"];
/// The default authority bundles of distributions, in the order of preference.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
