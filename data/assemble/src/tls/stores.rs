//! Certificates with individually named files, from `crt-store` sections, certificate lists, and `ssl-f-use`.

use std::sync::Arc;

use weir_config::CrtListLine;
use weir_model::{CertificateFiles, CertificateStore, Location, Proxy};
use weir_tls::{Certificate, CertificatePaths};

use super::{ListedLine, TlsBuilder, based};

impl TlsBuilder {
    /// Reads the certificates of `crt-store` sections, used or not.
    pub fn load_stores(&mut self, stores: &[CertificateStore]) {
        for store in stores {
            let certificate_base =
                store.certificate_base.clone().or(self.defaults.global.certificate_base.clone());
            let key_base = store.key_base.clone().or(self.defaults.global.key_base.clone());
            for load in &store.loads {
                let Some(files) =
                    files_of(&load.files, None, certificate_base.as_deref(), key_base.as_deref())
                else {
                    continue;
                };
                let name = load.name.clone().unwrap_or_else(|| files.certificate.as_str().into());
                if let Some(loaded) = self.load_files(&name, files, "'load'", &load.at) {
                    self.note_stored(&loaded, load.files.ocsp_update, &load.at);
                }
            }
        }
    }

    /// Declares the `ssl-f-use` lines of a proxy as a certificate list with the proxy's name.
    pub fn declare_certificates(&mut self, proxy: &Proxy) {
        let lines = proxy.certificates.iter().enumerate();
        let lines: Vec<ListedLine> = lines
            .map(|(at, line)| ListedLine { number: at + 1, text: line.line.clone(), is_path: false })
            .collect();
        if !lines.is_empty() {
            self.lists.insert(format!("@{}", proxy.name).into(), lines);
        }
    }

    /// Loads the certificates of a list's line. `None` after a recorded fault.
    pub(super) fn load_listed(
        &mut self,
        line: &CrtListLine,
        subject: &str,
        at: &Location,
    ) -> Option<Vec<Arc<Certificate>>> {
        let base = self.defaults.global.certificate_base.clone();
        match files_of(&line.files, Some(&line.path), base.as_deref(), None) {
            Some(files) if line.names_files() => {
                let name: Box<str> = files.certificate.as_str().into();
                Some(vec![self.load_files(&name, files, subject, at)?])
            }
            _ => self.load(&line.path, subject, at),
        }
    }

    /// Loads a certificate from its files, unless it was loaded from the same files before.
    fn load_files(
        &mut self,
        name: &str,
        files: CertificatePaths,
        subject: &str,
        at: &Location,
    ) -> Option<Arc<Certificate>> {
        if let Some(known) = self.certificates.get(name) {
            if self.files.get(name) == Some(&files) {
                return known.clone();
            }
            let message = format!("{subject} : '{name}' was loaded before, with other files beside it.");
            self.refuse(at, message);
            return None;
        }
        match self.loader.load_files(name, &files) {
            Ok(loaded) => {
                self.note_remarks(&loaded, subject, at);
                self.certificates.insert(name.into(), Some(Arc::clone(&loaded)));
                self.files.insert(name.into(), files);
                Some(loaded)
            }
            Err(fault) => {
                self.refuse(at, format!("{subject} : {fault}"));
                None
            }
        }
    }
}

/// The paths of a certificate's files. Certificates and keys are relative to their base folders. `None` without a certificate.
fn files_of(
    files: &CertificateFiles,
    path: Option<&str>,
    certificate_base: Option<&str>,
    key_base: Option<&str>,
) -> Option<CertificatePaths> {
    let owned = |path: &Option<Box<str>>| path.as_deref().map(str::to_owned);
    Some(CertificatePaths {
        certificate: based(path.or(files.certificate.as_deref())?, certificate_base),
        key: files.key.as_deref().map(|key| based(key, key_base)),
        ocsp: owned(&files.ocsp),
        issuer: owned(&files.issuer),
    })
}
