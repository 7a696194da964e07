//! Requests to an OCSP responder (RFC 6960, 4.1), and the responder's URI.

use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::CertId;
use crate::pem;
use weir_tls_session::verify::der::{SEQUENCE, built};

impl CertId {
    /// The DER of a request for this certificate alone, unsigned and without a nonce, so that responders may answer from a cache.
    pub fn question(&self) -> Vec<u8> {
        let request = built(SEQUENCE, &[&self.to_der()]);
        let list = built(SEQUENCE, &[&request]);
        let signed = built(SEQUENCE, &[&list]);
        built(SEQUENCE, &[&signed])
    }

    /// The request as the last path segment of a GET request (RFC 6960, A.1).
    pub fn question_in_path(&self) -> String {
        let text = pem::encode_base64(&self.question());
        text.bytes().fold(String::new(), |mut path, byte| {
            match byte {
                b'+' => path.push_str("%2B"),
                b'/' => path.push_str("%2F"),
                b'=' => path.push_str("%3D"),
                b'\r' | b'\n' => {}
                byte => path.push(char::from(byte)),
            }
            path
        })
    }
}

/// The first HTTP or HTTPS URI of the certificate's OCSP responder. `None` without one, or if it contains invalid bytes: the URI
/// becomes part of a request.
pub fn responder(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let places = certificate.extensions().iter().filter_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => Some(&access.accessdescs),
        _ => None,
    });
    let status = places.flatten().filter(|place| place.access_method.to_id_string() == STATUS);
    let uri = status.into_iter().find_map(|place| match &place.access_location {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    })?;
    let is_clean = uri.len() <= LONGEST_URI && uri.bytes().all(|byte| byte.is_ascii_graphic());
    is_clean.then(|| uri.to_owned())
}

/// `id-ad-ocsp` (RFC 5280, 4.2.2.1).
const STATUS: &str = "1.3.6.1.5.5.7.48.1";
/// The longest accepted responder URI, in bytes.
const LONGEST_URI: usize = 1024;
