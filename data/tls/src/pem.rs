//! What PEM files hold.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};

/// The certificates of a file; what is damaged is passed over.
pub fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).flatten().collect()
}

/// The revocation lists of a file.
pub fn revocation_lists(pem: &[u8]) -> Vec<CertificateRevocationListDer<'static>> {
    CertificateRevocationListDer::pem_slice_iter(pem).flatten().collect()
}
