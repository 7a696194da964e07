//! Certificates and their keys, in files.
//!
//! The manual's `crt`: a PEM file holds a chain and its key in any order. Missing parts are in files with the same name plus
//! `.key`, `.issuer` or `.ocsp` (`ssl-load-extra-files`). `NAME` may stand for the bundle `NAME.rsa`, `NAME.ecdsa` and `NAME.dsa`.
//! Each client gets a certificate of the bundle that it can verify.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::issuers::{IssuerChains, is_self_issued};
use crate::ocsp::{CertId, OcspResponse};
use crate::passphrase::{EncryptedKey, Passphrases};
use crate::pem;
use rustls::SignatureAlgorithm;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use weir_model::ExtraFiles;
use weir_syntax::{FileKind, SharedFiles};
use weir_tls_session::OwnCertificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate with its chain and its key.
pub struct Certificate {
    pub path: Box<str>,
    /// Chain, key and OCSP response.
    pub certified: Arc<CertifiedKey>,
    /// The DNS names that the certificate covers, in lower case. A name may begin with `*.`.
    pub names: Vec<Box<str>>,
    /// The signature algorithm of its key.
    pub algorithm: SignatureAlgorithm,
    /// The private key in the encoding of its file, for the runtime API.
    key: PrivateKeyDer<'static>,
    /// Issuer certificates that are not in the chain (`.issuer`).
    issuer: Vec<CertificateDer<'static>>,
    /// The file of the chain, if it came from `issuers-chain-path`.
    chain_path: Option<Box<str>>,
    /// The files that the certificate was read from. `None` if it was set by the runtime API.
    files: Option<Arc<CertificatePaths>>,
    /// The OCSP identifier. `None` if the issuer is unknown.
    id: Option<CertId>,
    response: Option<Arc<OcspResponse>>,
    pub remarks: Vec<String>,
    /// The URI of the OCSP responder, read from the certificate on first use.
    responder: OnceLock<Option<Box<str>>>,
}

impl Certificate {
    /// The parts from which it was assembled.
    pub fn parts(&self) -> CertificateParts {
        CertificateParts {
            chain: self.certified.cert.clone(),
            key: Some(self.key.clone_key()),
            issuer: self.issuer.clone(),
            ocsp: self.certified.ocsp.clone(),
            files: self.files.clone(),
        }
    }

    /// The file of the chain, if it came from `issuers-chain-path`.
    pub fn chain_path(&self) -> Option<&str> {
        self.chain_path.as_deref()
    }

    /// The OCSP identifier. `None` if the issuer is unknown.
    pub fn id(&self) -> Option<&CertId> {
        self.id.as_ref()
    }

    /// The OCSP response to staple, if any.
    pub fn response(&self) -> Option<&Arc<OcspResponse>> {
        self.response.as_ref()
    }

    /// The issuer's certificate, if known.
    pub fn issuer(&self) -> Option<&CertificateDer<'static>> {
        let id = self.id.as_ref()?;
        let mut above = self.certified.cert[1..].iter().chain(&self.issuer);
        above.find(|issuer| CertId::of(self.own(), issuer).as_ref() == Some(id))
    }

    /// The URI of its OCSP responder.
    pub fn responder(&self) -> Option<&str> {
        let look = || crate::ocsp::responder(self.own()).map(String::into_boxed_str);
        self.responder.get_or_init(look).as_deref()
    }

    /// The leaf certificate.
    pub fn own(&self) -> &CertificateDer<'static> {
        &self.certified.cert[0]
    }
}

impl OwnCertificate for Certificate {
    fn own(&self) -> &CertificateDer<'static> {
        self.own()
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn good_until(&self) -> Option<u64> {
        self.response.as_ref().map(|response| response.good_until())
    }
}

impl std::fmt::Debug for Certificate {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Reads certificates.
#[derive(Clone, Debug, Default)]
pub struct CertificateLoader {
    pub files: SharedFiles,
    /// Which additional files (`.key`, `.issuer`, `.ocsp`) are read.
    pub extra: ExtraFiles,
    /// Whether an additional file's extension replaces the certificate's (`ssl-load-extra-del-ext`). Otherwise it is
    /// appended.
    pub replaces_extension: bool,
    /// Chains for certificate files without one (`issuers-chain-path`).
    pub issuers: Arc<IssuerChains>,
    /// Whether a root is omitted if it directly issued the certificate (`ssl-skip-self-issued-ca`).
    pub skips_self_issued: bool,
    /// Passphrases for encrypted keys (`ssl-passphrase-cmd`).
    pub passphrases: Arc<Passphrases>,
}

impl CertificateLoader {
    /// Loads the certificates of a path: one for a file, several for a bundle or a folder.
    ///
    /// # Errors
    /// One message for each faulty file.
    pub fn load(&self, path: &str) -> Result<Vec<Arc<Certificate>>, Vec<String>> {
        match self.files.kind(path) {
            Ok(FileKind::Folder) => self.load_folder(path),
            Ok(_) => Ok(vec![self.load_file(path).map_err(|fault| vec![fault])?]),
            Err(error) => self.load_bundle(path, &error).map_err(|fault| vec![fault]),
        }
    }

    /// Loads all files of a folder by name, except additional files (`.key` and similar).
    fn load_folder(&self, path: &str) -> Result<Vec<Arc<Certificate>>, Vec<String>> {
        let files = pem::files_of(&self.files, path).map_err(|error| vec![cannot_open(path, &error)])?;
        let (mut loaded, mut faults) = (Vec::new(), Vec::new());
        for file in files {
            let name = file.rsplit('/').next().unwrap_or_default();
            if name.starts_with('.') || BESIDE.iter().any(|extension| name.ends_with(extension)) {
                continue;
            }
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
                if self.files.kind(&path).is_ok() {
                    loaded.push(self.load_file(&path)?);
                }
            }
        }
        if loaded.is_empty() { Err(cannot_open(path, missing)) } else { Ok(loaded) }
    }

    fn load_file(&self, path: &str) -> Result<Arc<Certificate>, String> {
        let pem = self.files.read_all(path).map_err(|error| cannot_open(path, &error))?;
        let mut parts = CertificateParts::default();
        parts.read(&pem, path, &self.passphrases)?;
        let mut files = CertificatePaths {
            certificate: path.to_owned(),
            key: Some(path.to_owned()),
            ..Default::default()
        };
        if parts.key.is_none() && self.extra.key {
            let key = self.beside(path, ".key");
            match self.files.read_all(&key) {
                Ok(pem) => {
                    let mut beside = CertificateParts::default();
                    beside.read(&pem, &key, &self.passphrases)?;
                    parts.key = beside.key;
                    files.key = Some(key);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(cannot_open(&key, &error)),
            }
        }
        if self.extra.issuer && parts.chain.len() == 1 {
            let issuer = self.beside(path, ".issuer");
            if let Ok(pem) = self.files.read_all(&issuer) {
                let mut beside = CertificateParts::default();
                beside.read(&pem, &issuer, &self.passphrases)?;
                parts.issuer = beside.chain;
            }
        }
        let ocsp = self.extra.ocsp.then(|| self.beside(path, ".ocsp"));
        parts.ocsp = ocsp.as_ref().and_then(|ocsp| self.files.read_all(ocsp).ok());
        files.ocsp = ocsp;
        parts.files = Some(Arc::new(files));
        let mut certificate = self.put_together(path, parts)?;
        let sctl = self.beside(path, ".sctl");
        if self.extra.sctl && self.files.kind(&sctl).is_ok() {
            certificate.remarks.push(format!(
                "'{sctl}' is not sent: signed certificate timestamps are not implemented. 'ssl-load-extra-files bundle ocsp issuer key' leaves the file alone."
            ));
        }
        Ok(Arc::new(certificate))
    }

    /// Loads a certificate from individually named files. Messages and commands refer to it as `name`.
    ///
    /// # Errors
    /// The error of a faulty file.
    pub fn load_files(&self, name: &str, files: &CertificatePaths) -> Result<Arc<Certificate>, String> {
        let read = |path: &str| self.files.read_all(path).map_err(|error| cannot_open(path, &error));
        let mut parts = CertificateParts::default();
        parts.read(&read(&files.certificate)?, &files.certificate, &self.passphrases)?;
        if let Some(path) = &files.key {
            let mut beside = CertificateParts::default();
            beside.read(&read(path)?, path, &self.passphrases)?;
            parts.key = Some(beside.key.ok_or_else(|| {
                format!("'{path}' holds no private key (a PEM block 'PRIVATE KEY' is expected).")
            })?);
        }
        if let Some(path) = &files.issuer {
            let mut beside = CertificateParts::default();
            beside.read(&read(path)?, path, &self.passphrases)?;
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
        let key = files.key.clone().unwrap_or_else(|| files.certificate.clone());
        parts.files = Some(Arc::new(CertificatePaths { key: Some(key), ..files.clone() }));
        self.assemble(name, parts)
    }

    /// Assembles a certificate with the name `path`.
    ///
    /// # Errors
    /// A message about a missing or mismatched part.
    pub fn assemble(&self, path: &str, parts: CertificateParts) -> Result<Arc<Certificate>, String> {
        self.put_together(path, parts).map(Arc::new)
    }

    fn put_together(&self, path: &str, mut parts: CertificateParts) -> Result<Certificate, String> {
        if parts.chain.is_empty() {
            return Err(format!("'{path}' holds no certificate (a PEM block 'CERTIFICATE' is expected)."));
        }
        let Some(der) = parts.key.take() else {
            let beside = self.beside(path, ".key");
            return Err(format!(
                "'{path}' holds no private key, and there is none in '{beside}'. Add the key to either."
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
        let chain_path = self.complete(&mut parts);
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
        let mut certified = CertifiedKey::new(parts.chain, weir_tls_session::guarded(key));
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
            chain_path,
            files: parts.files,
            id,
            response,
            remarks,
            responder: OnceLock::new(),
        })
    }

    /// Completes the chain from `issuers-chain-path` and returns the path of its file. With `ssl-skip-self-issued-ca`, moves a root
    /// that directly issued the certificate from the chain to the issuers.
    fn complete(&self, parts: &mut CertificateParts) -> Option<Box<str>> {
        if let [own] = &parts.chain[..] {
            let found = self.issuers.above(own)?;
            parts.chain.extend_from_slice(&found.certificates);
            return Some(found.path.clone());
        }
        if let [_, root] = &parts.chain[..]
            && self.skips_self_issued
            && is_self_issued(root)
        {
            parts.issuer.extend(parts.chain.pop());
        }
        None
    }

    /// The path of the additional file with this extension.
    fn beside(&self, path: &str, extension: &str) -> String {
        match self.replaces_extension {
            true => format!("{}{extension}", Path::new(path).with_extension("").display()),
            false => format!("{path}{extension}"),
        }
    }
}

/// Why a response cannot be used for a certificate.
enum Unfit {
    /// The response is ignored.
    Ignored(&'static str),
    Refused(String),
}

fn response(path: &str, der: &[u8], id: Option<&CertId>) -> Result<OcspResponse, Unfit> {
    let response = OcspResponse::parse(der).map_err(Unfit::Ignored)?;
    match id {
        Some(id) if id == response.id() => Ok(response),
        Some(_) => Err(Unfit::Ignored("OCSP single response: it is about another certificate.")),
        None => Err(Unfit::Refused(format!(
            "'{path}' has an OCSP response, and who issued it is not known: add that certificate to the file, or to '{path}.issuer'."
        ))),
    }
}

/// Individually named files of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificatePaths {
    /// The certificate, its chain and optionally its key.
    pub certificate: String,
    /// The key, which replaces the one in `certificate`.
    pub key: Option<String>,
    pub ocsp: Option<String>,
    /// The issuer of the certificate.
    pub issuer: Option<String>,
}

/// The parts of a certificate, which may come from several files.
#[derive(Default)]
pub struct CertificateParts {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: Option<PrivateKeyDer<'static>>,
    /// Issuer certificates from a separate file.
    pub issuer: Vec<CertificateDer<'static>>,
    /// An OCSP response, for stapling.
    pub ocsp: Option<Vec<u8>>,
    /// The files that the parts were read from.
    pub files: Option<Arc<CertificatePaths>>,
}

impl CertificateParts {
    /// Replaces the parts that a PEM file contains and keeps the others. An encrypted key needs one of `passphrases`.
    ///
    /// # Errors
    /// A message about the fault of the file, which names `path`.
    pub fn read(&mut self, pem: &[u8], path: &str, passphrases: &Passphrases) -> Result<(), String> {
        let (mut chain, mut key) = (Vec::<CertificateDer<'static>>::new(), None);
        let (plain, encrypted) = EncryptedKey::take_from(pem);
        for found in &encrypted {
            key = Some(passphrases.open(found, path)?);
        }
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(&plain) {
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
        // Clients receive the chain unchanged, so certificates that they could not parse are rejected.
        if let Some(index) = chain.iter().position(|each| X509Certificate::from_der(each).is_err()) {
            return Err(format!(
                "'{path}' holds a certificate that cannot be read: number {} of its chain is damaged.",
                index + 1
            ));
        }
        if !chain.is_empty() {
            self.chain = chain;
        }
        self.key = key.or(self.key.take());
        Ok(())
    }

    /// The key, the certificate and its chain, as PEM.
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

impl Clone for CertificateParts {
    fn clone(&self) -> Self {
        CertificateParts {
            chain: self.chain.clone(),
            key: self.key.as_ref().map(PrivateKeyDer::clone_key),
            issuer: self.issuer.clone(),
            ocsp: self.ocsp.clone(),
            files: self.files.clone(),
        }
    }
}

impl std::fmt::Debug for CertificateParts {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("chain", &self.chain.len()).finish_non_exhaustive()
    }
}

/// The names that a certificate covers: alternative names and common name.
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

/// The message for a file that cannot be read, with the system's text.
pub fn cannot_open(path: &str, error: &io::Error) -> String {
    format!("unable to read '{path}': {}.", weir_sys::error_text(error))
}

/// The file extensions of a bundle, in the order of preference.
const BUNDLE: [&str; 3] = [".ecdsa", ".rsa", ".dsa"];
/// The extensions of additional files, which are not certificates.
const BESIDE: [&str; 5] = [".key", ".issuer", ".ocsp", ".sctl", ".dh"];

#[cfg(test)]
mod tests {
    use super::*;

    /// A damaged certificate is found at any position of the chain. A readable one is accepted.
    #[test]
    fn a_chain_with_a_damaged_certificate_is_refused() {
        let made = rcgen::generate_simple_self_signed(["one.example".to_owned()]).expect("a certificate");
        let good = made.cert.pem();
        let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let read = |texts: &[&str]| {
            let mut parts = CertificateParts::default();
            let read = parts.read(texts.concat().as_bytes(), "x.pem", &Passphrases::default());
            read.map(|()| parts.chain.len())
        };
        assert_eq!(read(&[&good, &good]), Ok(2));
        for (texts, number) in
            [(vec![damaged], 1), (vec![&good, damaged], 2), (vec![&good, &good, damaged, &good], 3)]
        {
            let expected = format!(
                "'x.pem' holds a certificate that cannot be read: number {number} of its chain is damaged."
            );
            assert_eq!(read(&texts), Err(expected));
        }
    }
}
