//! Chains of certificates, built and checked as OpenSSL does: the same path, the same faults in the same order.
//!
//! ```text
//!   key of the peer ─► path: to an authority that is trusted ─► extensions ─► strength ─► revocation ─► signatures and times,
//!   names that authorities may certify ◄──────────────────────────────────── from the authority down to the peer ◄──┘
//! ```
//!
//! Each fault is passed to `judge`. The check continues if `judge` ignores the fault, so an ignored fault hides no
//! other one (openssl-verification-options(1)). A hidden fault would be a security hole. Therefore all steps are
//! implemented here, and not in a library that stops at the first fault.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::DistinguishedName;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};

use super::parsed::{CertificatePurpose, DecodedCertificate};
use super::revocation::{self, RevocationList};
use super::{
    CHAIN_TOO_LONG, EXPIRED, INVALID_EXTENSION, ISSUER_KEY_TOO_SMALL, ISSUER_NOT_TRUSTED, ISSUER_UNFIT,
    KEY_TOO_SMALL, NO_ISSUER, NOT_AN_AUTHORITY, NOT_CHECKED, NOT_YET_VALID, PATH_TOO_LONG, SELF_SIGNED,
    SELF_SIGNED_ABOVE, UNFIT, UNKNOWN_CRITICAL, UNREADABLE, WEAK_SIGNATURE, WRONG_SIGNATURE, names,
};

/// A fault of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainFault {
    /// OpenSSL's error code (X509_V_ERR_*).
    pub code: u16,
    /// The certificate's position: 0 for the peer's own, 1 for its issuer, and so on.
    pub depth: u16,
}

/// The trusted certificates, and their revocation lists.
#[derive(Debug, Default)]
pub struct Authorities {
    trusted: Vec<Arc<CertificateDer<'static>>>,
    by_subject: HashMap<Box<[u8]>, Vec<usize>>,
    /// Subject names of the authorities, which a listener sends to clients.
    pub(super) names: Vec<DistinguishedName>,
    revoked: Vec<RevocationList>,
    checks_revocation: bool,
}

impl Authorities {
    /// Trusts these certificates. With revocation lists, a list must cover each certificate of a chain.
    ///
    /// # Errors
    /// The error of one of them.
    pub fn new(
        certificates: &[CertificateDer<'_>],
        lists: &[CertificateRevocationListDer<'_>],
    ) -> Result<Authorities, String> {
        let mut authorities = Authorities { checks_revocation: !lists.is_empty(), ..Authorities::default() };
        for certificate in certificates {
            // Malformed certificates are skipped, because system bundles contain some.
            let Some(parsed) = DecodedCertificate::of(certificate) else { continue };
            let same = authorities.by_subject.entry(parsed.subject.into()).or_default();
            if same.iter().any(|known| *authorities.trusted[*known] == *certificate) {
                continue;
            }
            same.push(authorities.trusted.len());
            authorities.names.push(parsed.x509.tbs_certificate.subject.as_raw().to_vec().into());
            authorities.trusted.push(Arc::new(certificate.clone().into_owned()));
        }
        if authorities.trusted.is_empty() {
            return Err("holds no certificate of an authority".to_owned());
        }
        authorities.revoked = lists.iter().map(|list| RevocationList::of(list)).collect::<Result<_, _>>()?;
        Ok(authorities)
    }

    /// Checks a peer's certificate with the other certificates that it sent. `judge` returns whether a fault is
    /// ignored. Returns the trusted certificate at the top of the chain; `None` if the top is not trusted.
    ///
    /// # Errors
    /// The first fault that is not ignored.
    pub fn check(
        &self,
        certificate: &[u8],
        sent: &[CertificateDer<'_>],
        purpose: CertificatePurpose,
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
        judge: &mut dyn FnMut(ChainFault) -> bool,
    ) -> Result<Option<Arc<CertificateDer<'static>>>, ChainFault> {
        let mut judge = |code: u16, depth: usize| {
            let fault = ChainFault { code, depth: depth as u16 };
            if judge(fault) { Ok(()) } else { Err(fault) }
        };
        // A malformed certificate cannot be checked, so this fault is never ignored.
        let Some(own) = DecodedCertificate::of(certificate) else {
            return Err(ChainFault { code: UNREADABLE, depth: 0 });
        };
        if !own.has_strong_key() {
            judge(KEY_TOO_SMALL, 0)?;
        }
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let chain = self.build(own, sent, now);
        if let Some(code) = chain.fault {
            judge(code, chain.links.len() - 1)?;
        }
        check_extensions(&chain.links, purpose, &mut judge)?;
        check_strength(&chain.links, &mut judge)?;
        if self.checks_revocation {
            for (depth, link) in chain.links.iter().enumerate() {
                let issuer = chain.links.get(depth + 1);
                let judge = |code| judge(code, depth);
                revocation::check(&self.revoked, link, issuer, now, algorithms, judge)?;
            }
        }
        check_signatures(&chain.links, now, algorithms, &mut judge)?;
        check_names(&chain.links, &mut judge)?;
        Ok(self.trusted_at(&chain.links[chain.links.len() - 1]).cloned())
    }

    /// Builds the chain from the peer's certificate up to a trusted self-signed one, or to the last issuer found.
    /// Trusted issuers are preferred.
    fn build<'c>(
        &'c self,
        own: DecodedCertificate<'c>,
        sent: &'c [CertificateDer<'_>],
        now: i64,
    ) -> CheckedChain<'c> {
        let mut links = vec![own];
        // Parsed on demand, because most chains end at once.
        let mut others: Option<Vec<DecodedCertificate<'c>>> = None;
        let mut is_trusted = false;
        loop {
            let last = &links[links.len() - 1];
            if last.is_self_signed() {
                // A certificate with the name of a trusted one must be that certificate.
                is_trusted = is_trusted || self.holds(last);
                let alone = links.len() == 1;
                let fault = if alone { SELF_SIGNED } else { SELF_SIGNED_ABOVE };
                return CheckedChain { links, fault: (!is_trusted).then_some(fault) };
            }
            if links.len() > MAX_DEPTH {
                return CheckedChain { links, fault: Some(CHAIN_TOO_LONG) };
            }
            if let Some(issuer) = self.issuer(last, now) {
                is_trusted = true;
                links.push(issuer);
                continue;
            }
            // Above a trusted certificate only trusted ones are searched.
            if is_trusted {
                return CheckedChain { links, fault: Some(ISSUER_NOT_TRUSTED) };
            }
            let others = others.get_or_insert_with(|| {
                sent.iter()
                    .take(MAX_SENT)
                    .filter_map(|certificate| DecodedCertificate::of(certificate))
                    .collect()
            });
            let known =
                |candidate: &DecodedCertificate<'_>| links.iter().any(|link| link.der == candidate.der);
            let fitting =
                others.iter().enumerate().filter(|(_, other)| last.may_be_by(other) && !known(other));
            match youngest(fitting, now, |(_, other)| other) {
                Some((at, _)) => links.push(others.swap_remove(at)),
                None => return CheckedChain { links, fault: Some(NO_ISSUER) },
            }
        }
    }

    /// The trusted issuer of this certificate.
    fn issuer(&self, certificate: &DecodedCertificate<'_>, now: i64) -> Option<DecodedCertificate<'_>> {
        let named = self.by_subject.get(&certificate.issuer[..])?;
        let parsed = named.iter().filter_map(|at| DecodedCertificate::of(&self.trusted[*at]));
        youngest(parsed.filter(|issuer| certificate.may_be_by(issuer)), now, |issuer| issuer)
    }

    /// Whether this certificate itself is trusted.
    fn holds(&self, certificate: &DecodedCertificate<'_>) -> bool {
        self.trusted_at(certificate).is_some()
    }

    /// The equal certificate among the trusted ones.
    fn trusted_at(&self, certificate: &DecodedCertificate<'_>) -> Option<&Arc<CertificateDer<'static>>> {
        let named = self.by_subject.get(&certificate.subject[..])?;
        named.iter().map(|at| &self.trusted[*at]).find(|trusted| trusted[..] == *certificate.der)
    }
}

/// The first candidate that is valid at this time, else the candidate that expires last.
fn youngest<T>(
    candidates: impl Iterator<Item = T>,
    now: i64,
    parsed: impl Fn(&T) -> &DecodedCertificate<'_>,
) -> Option<T> {
    let mut best: Option<T> = None;
    for candidate in candidates {
        if time_fault(parsed(&candidate), now).is_none() {
            return Some(candidate);
        }
        let end = |candidate: &T| parsed(candidate).x509.validity().not_after.timestamp();
        if best.as_ref().is_none_or(|best| end(&candidate) > end(best)) {
            best = Some(candidate);
        }
    }
    best
}

/// The peer's own certificate, followed by each issuer.
struct CheckedChain<'c> {
    links: Vec<DecodedCertificate<'c>>,
    /// The fault of a chain that does not end at a trusted certificate.
    fault: Option<u16>,
}

type Judge<'j> = dyn FnMut(u16, usize) -> Result<(), ChainFault> + 'j;

fn check_extensions(
    links: &[DecodedCertificate<'_>],
    purpose: CertificatePurpose,
    judge: &mut Judge<'_>,
) -> Result<(), ChainFault> {
    // Self-issued authorities do not count (RFC 5280, 6.1.4).
    let mut below = 0;
    for (depth, link) in links.iter().enumerate() {
        if link.is_invalid {
            judge(INVALID_EXTENSION, depth)?;
        }
        if link.has_unknown_critical {
            judge(UNKNOWN_CRITICAL, depth)?;
        }
        if depth > 0 && !link.is_authority() {
            judge(NOT_AN_AUTHORITY, depth)?;
        }
        if !link.serves(purpose, depth > 0) {
            judge(UNFIT, depth)?;
        }
        if depth > 0 {
            if link.path_limit().is_some_and(|limit| below > limit) {
                judge(PATH_TOO_LONG, depth)?;
            }
            below += u32::from(!link.is_self_issued());
        }
    }
    Ok(())
}

/// Checks OpenSSL's default security level 2; the signature of a self-signed authority does not matter.
fn check_strength(links: &[DecodedCertificate<'_>], judge: &mut Judge<'_>) -> Result<(), ChainFault> {
    for (depth, link) in links.iter().enumerate() {
        if depth > 0 && !link.has_strong_key() {
            judge(ISSUER_KEY_TOO_SMALL, depth)?;
        }
        if depth + 1 < links.len() && !link.has_strong_signature() {
            judge(WEAK_SIGNATURE, depth)?;
        }
    }
    Ok(())
}

fn check_signatures(
    links: &[DecodedCertificate<'_>],
    now: i64,
    algorithms: &WebPkiSupportedAlgorithms,
    judge: &mut Judge<'_>,
) -> Result<(), ChainFault> {
    for (depth, link) in links.iter().enumerate().rev() {
        match links.get(depth + 1) {
            Some(issuer) => {
                if !issuer.signs_certificates() {
                    judge(ISSUER_UNFIT, depth + 1)?;
                }
                if !link.signed.is_by(issuer.key(), algorithms) {
                    judge(WRONG_SIGNATURE, depth)?;
                }
            }
            // The last signature of an incomplete chain cannot be checked, which is a fault if it is on the peer's own certificate.
            None if depth == 0 && !link.is_self_signed() => judge(NOT_CHECKED, depth)?,
            None => {}
        }
        if let Some(code) = time_fault(link, now) {
            judge(code, depth)?;
        }
    }
    Ok(())
}

fn time_fault(link: &DecodedCertificate<'_>, now: i64) -> Option<u16> {
    let validity = link.x509.validity();
    if validity.not_before.timestamp() > now {
        return Some(NOT_YET_VALID);
    }
    (validity.not_after.timestamp() <= now).then_some(EXPIRED)
}

fn check_names(links: &[DecodedCertificate<'_>], judge: &mut Judge<'_>) -> Result<(), ChainFault> {
    for (depth, link) in links.iter().enumerate().rev() {
        // A self-issued certificate is not subject to name constraints, unless it is the peer's.
        if depth > 0 && link.is_self_issued() {
            continue;
        }
        let above = links[depth + 1..].iter().rev().filter_map(|link| link.names.as_ref());
        for constraints in above {
            if let Some(code) = names::fault(link, constraints, depth == 0) {
                judge(code, depth)?;
            }
        }
    }
    Ok(())
}

/// Limit of issuers in a chain, as in OpenSSL.
const MAX_DEPTH: usize = 100;
/// Limit of the used certificates from a peer.
const MAX_SENT: usize = 100;
