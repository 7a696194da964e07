//! Certificates of peers, and revocation lists.

use std::time::Duration;

use weir_tls::clock::UnixTime;
use weir_tls::rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use weir_tls::verify::{Authorities, CertificatePurpose, algorithms};

/// A client's chain of concatenated certificates. Only the certificate signed by the authority may pass.
pub fn certificate_chain(bytes: &[u8]) {
    let mut certificates = elements(bytes);
    let Some(own) = certificates.next() else { return };
    let sent: Vec<CertificateDer<'_>> = certificates.map(CertificateDer::from).collect();
    let authorities = Authorities::new(&[AUTHORITY.into()], &[]).expect("an authority");
    let mut faults = 0;
    let mut bear = |_| {
        faults += 1;
        true
    };
    let checked = authorities.check(own, &sent, CertificatePurpose::Client, NOW, &algorithms(), &mut bear);
    assert!(own == PEER || faults > 0 || checked.is_err(), "another certificate passes for good");
}

/// A revocation list: it is parsed or refused.
pub fn revocation_list(bytes: &[u8]) {
    let list = CertificateRevocationListDer::from(bytes);
    let Ok(authorities) = Authorities::new(&[AUTHORITY.into()], &[list]) else { return };
    let mut bear = |_| true;
    let _ = authorities.check(PEER, &[], CertificatePurpose::Client, NOW, &algorithms(), &mut bear);
    let _ = weir_tls::describe::revocation_list(bytes);
}

/// Consecutive DER elements, with lengths of two bytes.
fn elements(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let [0x30, 0x82, high, low, ..] = bytes else { return None };
        let length = 4 + usize::from(u16::from_be_bytes([*high, *low]));
        let (element, rest) = bytes.split_at(length.min(bytes.len()));
        bytes = rest;
        Some(element)
    })
}

const AUTHORITY: &[u8] = include_bytes!("authority.der");
const PEER: &[u8] = include_bytes!("peer.der");
/// Within the validity of both: 2027.
const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
