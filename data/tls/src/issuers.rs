//! Chains for certificate files without one (`issuers-chain-path`), and roots that need not be sent (`ssl-skip-self-issued-ca`).

use std::io;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use weir_syntax::SharedFiles;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::pem::files_of;

/// The chains of all `issuers-chain-path` folders.
#[derive(Clone, Debug, Default)]
pub struct IssuerChains(Vec<IssuerChain>);

/// A chain for the certificates that its first certificate issued.
#[derive(Clone, Debug)]
pub struct IssuerChain {
    pub path: Box<str>,
    /// The issuer, then the authorities above it.
    pub certificates: Vec<CertificateDer<'static>>,
    issuer: Issuer,
}

/// Identifies an issuer by name and key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Issuer {
    /// The distinguished name, in DER.
    name: Box<[u8]>,
    /// The key identifier (RFC 5280, 4.2.1.1 and 4.2.1.2), if the certificate has one.
    key: Option<Box<[u8]>>,
}

/// Reads a chain file up to [`LARGEST_CHAIN`]. Other files in the folder may be of any size.
fn read_bounded(files: &SharedFiles, path: &str) -> io::Result<Vec<u8>> {
    files.read_stream(path, LARGEST_CHAIN).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            io::Error::other(format!("the file has more than {LARGEST_CHAIN} bytes"))
        }
        _ => error,
    })
}

/// The size limit of a chain file, in bytes. It is enough for hundreds of certificates.
const LARGEST_CHAIN: u64 = 1 << 20;

impl IssuerChains {
    /// Adds the chains of every file in a folder, sorted by name, and appends warnings to `warnings`.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(&mut self, files: &SharedFiles, folder: &str, warnings: &mut Vec<String>) -> io::Result<()> {
        for path in files_of(files, folder)? {
            match read_bounded(files, &path) {
                Ok(pem) => self.add(&path, &pem, warnings),
                Err(error) => warnings.push(format!("unable to load issuers-chain {path} : {error}.")),
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &str, pem: &[u8], warnings: &mut Vec<String>) {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let first = certificates.as_ref().ok().and_then(|certificates| certificates.first());
        let Some(issuer) = first.and_then(Issuer::itself) else {
            warnings.push(format!("unable to load issuers-chain {path} : pem certificate not found."));
            return;
        };
        if let Some(known) = self.0.iter().find(|known| known.issuer == issuer) {
            warnings.push(format!("duplicate issuers-chain {path}: {} already in store", known.path));
            return;
        }
        self.0.extend(certificates.into_iter().map(|certificates| IssuerChain {
            path: path.into(),
            certificates,
            issuer: issuer.clone(),
        }));
    }

    /// The chain that begins with the issuer of this certificate.
    pub fn above(&self, certificate: &CertificateDer<'_>) -> Option<&IssuerChain> {
        let wanted = Issuer::above(certificate)?;
        self.0.iter().find(|chain| chain.issuer.is(&wanted))
    }
}

impl Issuer {
    /// The identification of this certificate as an issuer.
    fn itself(certificate: &CertificateDer<'_>) -> Option<Issuer> {
        Issuer::of(
            certificate,
            |parsed| parsed.subject().as_raw().into(),
            |extension| match extension {
                ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0.into()),
                _ => None,
            },
        )
    }

    /// The identification of this certificate's issuer.
    fn above(certificate: &CertificateDer<'_>) -> Option<Issuer> {
        Issuer::of(
            certificate,
            |parsed| parsed.issuer().as_raw().into(),
            |extension| match extension {
                ParsedExtension::AuthorityKeyIdentifier(authority) => {
                    authority.key_identifier.as_ref().map(|key| key.0.into())
                }
                _ => None,
            },
        )
    }

    fn of(
        certificate: &CertificateDer<'_>,
        name: impl FnOnce(&X509Certificate<'_>) -> Box<[u8]>,
        key: impl Fn(&ParsedExtension<'_>) -> Option<Box<[u8]>>,
    ) -> Option<Issuer> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let key = parsed.extensions().iter().find_map(|extension| key(extension.parsed_extension()));
        Some(Issuer { name: name(&parsed), key })
    }

    /// Whether this is the `wanted` issuer. Key identifiers are compared if both have one.
    fn is(&self, wanted: &Issuer) -> bool {
        let same_key = self.key.as_ref().zip(wanted.key.as_ref()).is_none_or(|(own, other)| own == other);
        self.name == wanted.name && same_key
    }
}

/// Whether issuer and subject are equal, as in roots.
pub fn is_self_issued(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| parsed.subject() == parsed.issuer())
}

#[cfg(test)]
mod tests {
    use weir_syntax::MemoryFiles;

    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, IsCa, Issuer as Signer, KeyPair, PKCS_ECDSA_P256_SHA256,
    };

    /// A certificate with that name, and its key as an issuer. Self-signed without `by`.
    fn issued(
        name: &str,
        by: Option<&Signer<'_, KeyPair>>,
    ) -> (CertificateDer<'static>, Signer<'static, KeyPair>) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let made = match by {
            Some(signer) => params.signed_by(&key, signer),
            None => params.self_signed(&key),
        };
        (made.expect("a certificate").der().clone(), Signer::new(params, key))
    }

    fn chains(files: &[(&str, &[&CertificateDer<'_>])]) -> (IssuerChains, Vec<String>) {
        let (mut chains, mut warnings) = (IssuerChains::default(), Vec::new());
        for (path, certificates) in files {
            let pem: String = certificates.iter().map(|der| crate::pem::encode("CERTIFICATE", der)).collect();
            chains.add(path, pem.as_bytes(), &mut warnings);
        }
        (chains, warnings)
    }

    #[test]
    fn an_issuer_chain_is_found_by_name_and_key_of_its_first_certificate() {
        let (root, by_root) = issued("root", None);
        let (middle, by_middle) = issued("middle", Some(&by_root));
        let (namesake, by_namesake) = issued("middle", Some(&by_root));
        let (leaf, _) = issued("leaf", Some(&by_middle));
        let (other, _) = issued("other", Some(&by_namesake));
        let (stranger, _) = issued("stranger", Some(&by_root));
        let (chains, warnings) = chains(&[("a", &[&middle, &root]), ("b", &[&namesake])]);
        assert_eq!(warnings, [""; 0]);
        let of =
            |certificate| chains.above(certificate).map(|chain| (&*chain.path, chain.certificates.len()));
        assert_eq!((of(&leaf), of(&other), of(&stranger)), (Some(("a", 2)), Some(("b", 1)), None));
        assert_eq!((is_self_issued(&root), is_self_issued(&middle)), (true, false));
    }

    #[test]
    fn duplicate_and_empty_issuer_chains_cause_warnings() {
        let (root, _) = issued("root", None);
        let (chains, warnings) = chains(&[("a", &[&root]), ("b", &[&root]), ("c", &[])]);
        assert_eq!(chains.0.len(), 1);
        let expected = [
            "duplicate issuers-chain b: a already in store",
            "unable to load issuers-chain c : pem certificate not found.",
        ];
        assert_eq!(warnings, expected);
    }

    #[test]
    fn large_issuer_chain_files_are_skipped_with_a_warning() {
        let large = vec![0; LARGEST_CHAIN as usize + 1];
        let files = SharedFiles::new(MemoryFiles::from_iter([("d/core", large)]));
        let (mut chains, mut warnings) = (IssuerChains::default(), Vec::new());
        chains.read(&files, "d/", &mut warnings).unwrap();
        assert_eq!(warnings, ["unable to load issuers-chain d/core : the file has more than 1048576 bytes."]);
    }
}
