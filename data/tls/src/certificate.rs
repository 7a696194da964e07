//! Certificates and their keys, as files have them.
//!
//! The manual's `crt`: a PEM file holds a chain and its key in any order; what it lacks stands in files beside it, whose names end in
//! `.key`, `.issuer` or `.ocsp` (`ssl-load-extra-files`); and `NAME` may stand for `NAME.rsa`, `NAME.ecdsa` and `NAME.dsa`,
//! of which each client gets the one that it can check.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ocsp::{CertId, Response};
use crate::pem;
use rustls::SignatureAlgorithm;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate with its chain and its key.
pub struct Certificate {
    /// The file that it is from.
    pub path: Box<str>,
    /// Chain, key and OCSP response.
    pub certified: Arc<CertifiedKey>,
    /// The names that it is for, in lower case; one may begin with `*.`.
    pub names: Vec<Box<str>>,
    /// What its key signs with.
    pub algorithm: SignatureAlgorithm,
    /// The key as its file has it: whoever may see it gets it back from the runtime API.
    key: PrivateKeyDer<'static>,
    /// Who issued it, where that is not in the chain (`.issuer`).
    issuer: Vec<CertificateDer<'static>>,
    /// What OCSP calls it, where its issuer is known.
    id: Option<CertId>,
    /// What its authority said about it.
    response: Option<Arc<Response>>,
    /// What is worth a warning.
    pub remarks: Vec<String>,
}

impl Certificate {
    /// What it was put together from.
    pub fn parts(&self) -> Parts {
        Parts {
            chain: self.certified.cert.clone(),
            key: Some(self.key.clone_key()),
            issuer: self.issuer.clone(),
            ocsp: self.certified.ocsp.clone(),
        }
    }

    /// What OCSP calls it; none where nobody knows who issued it.
    pub fn id(&self) -> Option<&CertId> {
        self.id.as_ref()
    }

    /// What its authority said about it.
    pub fn response(&self) -> Option<&Arc<Response>> {
        self.response.as_ref()
    }

    /// The certificate itself.
    pub fn own(&self) -> &CertificateDer<'static> {
        &self.certified.cert[0]
    }
}

impl std::fmt::Debug for Certificate {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Which files beside a certificate are looked at (`ssl-load-extra-files`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraFiles {
    /// `NAME.rsa` and its like, where there is no `NAME`.
    pub bundle: bool,
    /// `.ocsp`.
    pub ocsp: bool,
    /// `.issuer`.
    pub issuer: bool,
    /// `.key`.
    pub key: bool,
    /// `.sctl`, which is not sent: whoever has one is told.
    pub sctl: bool,
}

impl Default for ExtraFiles {
    /// All of them, as the manual says.
    fn default() -> Self {
        ExtraFiles { bundle: true, ocsp: true, issuer: true, key: true, sctl: true }
    }
}

/// Reads certificates.
#[derive(Clone, Debug, Default)]
pub struct Loader {
    /// Which files beside a certificate are looked at.
    pub extra: ExtraFiles,
    /// The last part of a file's name is replaced, not added to (`ssl-load-extra-del-ext`).
    pub replaces_extension: bool,
}

impl Loader {
    /// The certificates of a path: one of a file, those of a bundle, all of a folder.
    ///
    /// # Errors
    /// What is wrong with which file, one text each.
    pub fn load(&self, path: &str) -> Result<Vec<Arc<Certificate>>, Vec<String>> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => self.load_folder(path),
            Ok(_) => Ok(vec![self.load_file(path).map_err(|fault| vec![fault])?]),
            Err(error) => self.load_bundle(path, &error).map_err(|fault| vec![fault]),
        }
    }

    /// All files of a folder by name, but those that stand beside another (`.key` and its like).
    fn load_folder(&self, path: &str) -> Result<Vec<Arc<Certificate>>, Vec<String>> {
        let unreadable = |error: io::Error| vec![cannot_open(path, &error)];
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_file = fs::metadata(entry.path()).is_ok_and(|found| found.is_file());
            let is_beside = BESIDE.iter().any(|extension| name.ends_with(extension));
            if is_file && !is_beside && !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort_unstable();
        let (mut loaded, mut faults) = (Vec::new(), Vec::new());
        for name in names {
            match self.load_file(&format!("{}/{name}", path.trim_end_matches('/'))) {
                Ok(certificate) => loaded.push(certificate),
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() { Ok(loaded) } else { Err(faults) }
    }

    fn load_bundle(&self, path: &str, missing: &io::Error) -> Result<Vec<Arc<Certificate>>, String> {
        let mut loaded = Vec::new();
        if self.extra.bundle {
            for extension in BUNDLE {
                let path = format!("{path}{extension}");
                if fs::metadata(&path).is_ok() {
                    loaded.push(self.load_file(&path)?);
                }
            }
        }
        if loaded.is_empty() { Err(cannot_open(path, missing)) } else { Ok(loaded) }
    }

    fn load_file(&self, path: &str) -> Result<Arc<Certificate>, String> {
        let pem = fs::read(path).map_err(|error| cannot_open(path, &error))?;
        let mut parts = Parts::default();
        parts.read(&pem, path)?;
        if parts.key.is_none() && self.extra.key {
            let key = self.beside(path, ".key");
            match fs::read(&key) {
                Ok(pem) => {
                    let mut beside = Parts::default();
                    beside.read(&pem, &key.to_string_lossy())?;
                    parts.key = beside.key;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(cannot_open(&key.to_string_lossy(), &error)),
            }
        }
        if self.extra.issuer && parts.chain.len() == 1 {
            let issuer = self.beside(path, ".issuer");
            if let Ok(pem) = fs::read(&issuer) {
                let mut beside = Parts::default();
                beside.read(&pem, &issuer.to_string_lossy())?;
                parts.issuer = beside.chain;
            }
        }
        parts.ocsp = self.extra.ocsp.then(|| fs::read(self.beside(path, ".ocsp")).ok()).flatten();
        let mut certificate = self.put_together(path, parts)?;
        let sctl = self.beside(path, ".sctl");
        if self.extra.sctl && sctl.exists() {
            certificate.remarks.push(format!(
                "'{}' is not sent: signed certificate timestamps are not implemented. 'ssl-load-extra-files bundle ocsp issuer key' leaves the file alone.",
                sctl.display()
            ));
        }
        Ok(Arc::new(certificate))
    }

    /// The certificate of files that are named one by one; messages and commands call it `name`.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn load_files(&self, name: &str, files: &Files) -> Result<Arc<Certificate>, String> {
        let read = |path: &str| fs::read(path).map_err(|error| cannot_open(path, &error));
        let mut parts = Parts::default();
        parts.read(&read(&files.certificate)?, &files.certificate)?;
        if let Some(path) = &files.key {
            let mut beside = Parts::default();
            beside.read(&read(path)?, path)?;
            parts.key = Some(beside.key.ok_or_else(|| {
                format!("'{path}' holds no private key (a PEM block 'PRIVATE KEY' is expected).")
            })?);
        }
        if let Some(path) = &files.issuer {
            let mut beside = Parts::default();
            beside.read(&read(path)?, path)?;
            if beside.chain.is_empty() {
                return Err(format!(
                    "'{path}' holds no certificate (a PEM block 'CERTIFICATE' is expected)."
                ));
            }
            parts.issuer = beside.chain;
        }
        if parts.key.is_none() {
            return Err(format!(
                "'{}' holds no private key, and no 'key' names a file of it.",
                files.certificate
            ));
        }
        parts.ocsp = files.ocsp.as_deref().map(read).transpose()?;
        self.assemble(name, parts)
    }

    /// Puts a certificate together that is called `path`.
    ///
    /// # Errors
    /// What is missing, or does not fit.
    pub fn assemble(&self, path: &str, parts: Parts) -> Result<Arc<Certificate>, String> {
        self.put_together(path, parts).map(Arc::new)
    }

    fn put_together(&self, path: &str, parts: Parts) -> Result<Certificate, String> {
        if parts.chain.is_empty() {
            return Err(format!("'{path}' holds no certificate (a PEM block 'CERTIFICATE' is expected)."));
        }
        let Some(der) = parts.key else {
            let beside = self.beside(path, ".key");
            return Err(format!(
                "'{path}' holds no private key, and there is none in '{}'. Add the key to either.",
                beside.display()
            ));
        };
        let key = any_supported_type(&der).map_err(|_| {
            format!(
                "the private key of '{path}' is of a kind that is not supported: RSA of 2048 to 8192 bits, ECDSA on P-256, P-384 or P-521 and Ed25519 are."
            )
        })?;
        let algorithm = key.algorithm();
        let names = names(&parts.chain[0])
            .map_err(|()| format!("'{path}' holds a certificate that cannot be read: it is damaged."))?;
        let mut above = parts.chain[1..].iter().chain(&parts.issuer);
        let id = above.find_map(|issuer| CertId::of(&parts.chain[0], issuer));
        let mut remarks = Vec::new();
        let response = match parts.ocsp.as_deref().map(|der| response(path, der, id.as_ref())) {
            Some(Ok(response)) => Some(Arc::new(response)),
            Some(Err(Unfit::Ignored(why))) => {
                remarks.push(format!("the OCSP response of '{path}' is not used: {why}"));
                None
            }
            Some(Err(Unfit::Refused(why))) => return Err(why),
            None => None,
        };
        let mut certified = CertifiedKey::new(parts.chain, key);
        certified.ocsp = response.as_ref().map(|response| response.der().to_vec());
        if certified.keys_match()
            == Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch))
        {
            return Err(format!(
                "the private key does not belong to the first certificate of '{path}'. The server's own certificate must come before those that issued it."
            ));
        }
        let certified = Arc::new(certified);
        Ok(Certificate {
            path: path.into(),
            certified,
            names,
            algorithm,
            key: der,
            issuer: parts.issuer,
            id,
            response,
            remarks,
        })
    }

    /// The file beside a certificate with this extension.
    fn beside(&self, path: &str, extension: &str) -> PathBuf {
        let path = match self.replaces_extension {
            true => Path::new(path).with_extension("").to_string_lossy().into_owned(),
            false => path.to_owned(),
        };
        format!("{path}{extension}").into()
    }
}

/// Why a response does not become that of a certificate.
enum Unfit {
    /// It goes on without.
    Ignored(&'static str),
    /// What was wanted cannot be.
    Refused(String),
}

fn response(path: &str, der: &[u8], id: Option<&CertId>) -> Result<Response, Unfit> {
    let response = Response::parse(der).map_err(Unfit::Ignored)?;
    match id {
        Some(id) if id == response.id() => Ok(response),
        Some(_) => Err(Unfit::Ignored("OCSP single response: it is about another certificate.")),
        None => Err(Unfit::Refused(format!(
            "'{path}' has an OCSP response, and who issued it is not known: add that certificate to the file, or to '{path}.issuer'."
        ))),
    }
}

/// The files of a certificate, where each of them is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The certificate, those above it and perhaps its key.
    pub certificate: String,
    /// The key, in the place of the one there.
    pub key: Option<String>,
    /// An OCSP response.
    pub ocsp: Option<String>,
    /// Who issued the certificate.
    pub issuer: Option<String>,
}

/// What a certificate is put together from.
#[derive(Default)]
pub struct Parts {
    /// The certificate, and those above it.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: Option<PrivateKeyDer<'static>>,
    /// Those above it that stand in a file of their own.
    pub issuer: Vec<CertificateDer<'static>>,
    /// An OCSP response, which handshakes show.
    pub ocsp: Option<Vec<u8>>,
}

impl Parts {
    /// Takes what a PEM file holds in the place of what there was; what it does not hold stays.
    ///
    /// # Errors
    /// What is wrong with the file, which messages call `path`.
    pub fn read(&mut self, pem: &[u8], path: &str) -> Result<(), String> {
        if memory_contains(pem, b"ENCRYPTED") {
            return Err(format!(
                "the private key of '{path}' is encrypted. Store it without a passphrase (openssl pkey -in KEY -out KEY)."
            ));
        }
        let (mut chain, mut key) = (Vec::new(), None);
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
            let (kind, der) =
                section.map_err(|error| format!("'{path}' is not a valid PEM file: {error}."))?;
            match kind {
                SectionKind::Certificate => chain.push(der.into()),
                SectionKind::PrivateKey => key = Some(PrivateKeyDer::Pkcs8(der.into())),
                SectionKind::RsaPrivateKey => key = Some(PrivateKeyDer::Pkcs1(der.into())),
                SectionKind::EcPrivateKey => key = Some(PrivateKeyDer::Sec1(der.into())),
                _ => {}
            }
        }
        if !chain.is_empty() {
            self.chain = chain;
        }
        self.key = key.or(self.key.take());
        Ok(())
    }

    /// The key, the certificate and those above it, as PEM.
    pub fn to_pem(&self) -> String {
        let key = self.key.as_ref().map(|key| match key {
            PrivateKeyDer::Pkcs1(_) => pem::encode("RSA PRIVATE KEY", key.secret_der()),
            PrivateKeyDer::Sec1(_) => pem::encode("EC PRIVATE KEY", key.secret_der()),
            _ => pem::encode("PRIVATE KEY", key.secret_der()),
        });
        let chain = self.chain.iter().map(|certificate| pem::encode("CERTIFICATE", certificate));
        key.into_iter().chain(chain).collect()
    }
}

impl Clone for Parts {
    fn clone(&self) -> Self {
        Parts {
            chain: self.chain.clone(),
            key: self.key.as_ref().map(PrivateKeyDer::clone_key),
            issuer: self.issuer.clone(),
            ocsp: self.ocsp.clone(),
        }
    }
}

impl std::fmt::Debug for Parts {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("chain", &self.chain.len()).finish_non_exhaustive()
    }
}

fn memory_contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// The names that a certificate is for: the alternative ones, and the common one.
fn names(certificate: &CertificateDer<'_>) -> Result<Vec<Box<str>>, ()> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(drop)?;
    let mut names: Vec<Box<str>> = Vec::new();
    let mut add = |name: &str| {
        let name = name.to_ascii_lowercase();
        if !names.iter().any(|known| **known == *name) {
            names.push(name.into());
        }
    };
    if let Ok(Some(alternative)) = parsed.subject_alternative_name() {
        for name in &alternative.value.general_names {
            if let GeneralName::DNSName(name) = name {
                add(name);
            }
        }
    }
    for common in parsed.subject().iter_common_name() {
        if let Ok(name) = common.as_str() {
            add(name);
        }
    }
    Ok(names)
}

/// Why a file cannot be read, and the system's words for it.
pub(crate) fn cannot_open(path: &str, error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("unable to read '{path}': {text}.")
}

/// What the files of a bundle end in, in the order in which they are offered.
const BUNDLE: [&str; 3] = [".ecdsa", ".rsa", ".dsa"];
/// What the files end in that stand beside a certificate, and are none.
const BESIDE: [&str; 5] = [".key", ".issuer", ".ocsp", ".sctl", ".dh"];
