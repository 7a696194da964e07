//! Reading and writing PEM.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use weir_syntax::SharedFiles;

/// The paths of all PEM files in a folder, sorted by name.
pub(crate) fn files_of(files: &SharedFiles, folder: &str) -> io::Result<Vec<String>> {
    let entries = files.list(folder)?.into_iter().filter(|entry| entry.is_file);
    let folder = folder.strip_suffix('/').unwrap_or(folder);
    let mut paths: Vec<String> = entries.map(|entry| format!("{folder}/{}", entry.name)).collect();
    paths.sort_unstable();
    Ok(paths)
}

/// The certificates in a PEM file. Damaged ones are skipped.
pub fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).flatten().collect()
}

/// The revocation lists in a PEM file. Damaged ones are skipped.
pub fn revocation_lists(pem: &[u8]) -> Vec<CertificateRevocationListDer<'static>> {
    CertificateRevocationListDer::pem_slice_iter(pem).flatten().collect()
}

/// Encodes a PEM block (RFC 7468).
pub fn encode(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(LINE) {
        text.push_str(&STANDARD.encode(line));
        text.push('\n');
    }
    text + "-----END " + label + "-----\n"
}

/// Decodes base64 and ignores white space. `None` if it is invalid.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let letters: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(letters).ok()
}

/// Bytes as base64, in one line.
pub fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The number of bytes per line of 64 base64 characters.
const LINE: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_pem_decodes_to_the_same_bytes() {
        for length in [1, 2, 3, 47, 48, 49, 200] {
            let der: Vec<u8> = (0..length).collect();
            let text = encode("CERTIFICATE", &der);
            assert!(text.lines().all(|line| line.len() <= 64), "{text}");
            assert_eq!(certificates(text.as_bytes()), [CertificateDer::from(der.clone())]);
            let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
            assert_eq!(decode_base64(&body), Some(der));
        }
    }
}
