//! Revocation lists, parsed when the configuration is read.

use std::collections::HashSet;
use std::sync::OnceLock;

use rustls::crypto::WebPkiSupportedAlgorithms;
use x509_parser::extensions::{
    DistributionPointName, GeneralName, IssuingDistributionPoint, ParsedExtension,
};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::der::SignedStructure;
use super::names;
use super::parsed::{DecodedCertificate, plain_serial};
use super::{
    LIST_EXPIRED, LIST_NOT_SIGNED, LIST_NOT_YET_VALID, LIST_OF_OTHERS, LIST_SIGNER_UNFIT,
    LIST_UNKNOWN_CRITICAL, NO_LIST, NO_LIST_ISSUER, REVOKED,
};

#[derive(Debug)]
pub(super) struct RevocationList {
    der: Box<[u8]>,
    issuer: Box<[u8]>,
    issuer_key: Option<Box<[u8]>>,
    this_update: i64,
    next_update: Option<i64>,
    serials: HashSet<Box<[u8]>>,
    scope: ListScope,
    has_unknown_critical: bool,
    /// The key of the last signature check, and its result. Usually all chains have the same key.
    checked: OnceLock<(Box<[u8]>, bool)>,
}

/// The certificates that a list covers (RFC 5280, 5.2.5).
#[derive(Debug, Default)]
struct ListScope {
    authorities_only: bool,
    others_only: bool,
    /// Set if the list covers only some reasons, attribute certificates, or other issuers. Such a list is not used.
    nobody: bool,
    /// Limits the list to certificates that name one of these distribution points.
    places: Option<Vec<Box<str>>>,
}

impl RevocationList {
    /// Parses a list from DER.
    ///
    /// # Errors
    /// Why it is invalid.
    pub(super) fn of(der: &[u8]) -> Result<RevocationList, String> {
        let damaged = || "holds a damaged list".to_owned();
        let (rest, list) = CertificateRevocationList::from_der(der).map_err(|_| damaged())?;
        if !rest.is_empty() || SignedStructure::of(der).is_none() {
            return Err(damaged());
        }
        let mut read = RevocationList {
            der: der.into(),
            issuer: names::canonical(&list.tbs_cert_list.issuer).into(),
            issuer_key: None,
            this_update: list.last_update().timestamp(),
            next_update: list.next_update().map(|time| time.timestamp()),
            serials: HashSet::new(),
            scope: ListScope::default(),
            has_unknown_critical: false,
            checked: OnceLock::new(),
        };
        for extension in list.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(key) => {
                    read.issuer_key = key.key_identifier.as_ref().map(|key| key.0.into());
                }
                ParsedExtension::IssuingDistributionPoint(point) => read.scope = ListScope::of(point),
                ParsedExtension::CRLNumber(_) => {}
                _ => read.has_unknown_critical |= extension.critical,
            }
        }
        for revoked in list.iter_revoked_certificates() {
            let known = |extension: &ParsedExtension<'_>| {
                matches!(extension, ParsedExtension::ReasonCode(_) | ParsedExtension::InvalidityDate(_))
            };
            read.has_unknown_critical |= revoked
                .iter_extensions()
                .any(|extension| extension.critical && !known(extension.parsed_extension()));
            if revoked.reason_code().is_none_or(|(_, reason)| reason.0 != REMOVED) {
                read.serials.insert(plain_serial(revoked.raw_serial()).into());
            }
        }
        Ok(read)
    }

    fn is_in_time(&self, now: i64) -> bool {
        self.this_update <= now && self.next_update.is_none_or(|next| now < next)
    }

    fn is_by(&self, issuer: &DecodedCertificate<'_>, algorithms: &WebPkiSupportedAlgorithms) -> bool {
        let check =
            || SignedStructure::of(&self.der).is_some_and(|signed| signed.is_by(issuer.key(), algorithms));
        let (key, fits) = self.checked.get_or_init(|| (issuer.key().into(), check()));
        if **key == *issuer.key() { *fits } else { check() }
    }
}

impl ListScope {
    fn of(point: &IssuingDistributionPoint<'_>) -> ListScope {
        ListScope {
            authorities_only: point.only_contains_ca_certs,
            others_only: point.only_contains_user_certs,
            nobody: point.only_some_reasons.is_some()
                || point.indirect_crl
                || point.only_contains_attribute_certs,
            places: point.distribution_point.as_ref().map(places),
        }
    }

    fn covers(&self, certificate: &DecodedCertificate<'_>) -> bool {
        let is_authority = certificate.is_authority();
        if self.nobody || (self.authorities_only && !is_authority) || (self.others_only && is_authority) {
            return false;
        }
        let Some(wanted) = &self.places else { return true };
        let extensions = certificate.x509.tbs_certificate.extensions().iter();
        let points = extensions.filter_map(|extension| match extension.parsed_extension() {
            ParsedExtension::CRLDistributionPoints(points) => Some(points.iter()),
            _ => None,
        });
        points
            .flatten()
            .filter_map(|point| point.distribution_point.as_ref())
            .flat_map(places)
            .any(|place| wanted.contains(&place))
    }
}

/// The addresses of a distribution point.
fn places(point: &DistributionPointName<'_>) -> Vec<Box<str>> {
    let DistributionPointName::FullName(names) = point else { return Vec::new() };
    let uris = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some((*uri).into()),
        _ => None,
    });
    uris.collect()
}

/// Looks a certificate up in the best fitting list of its issuer, the newest of equal ones. Without `issuer`, a
/// self-issued certificate must have signed the list itself. Each fault is passed to `judge`. An error of `judge` ends
/// the check.
pub(super) fn check<E>(
    lists: &[RevocationList],
    certificate: &DecodedCertificate<'_>,
    issuer: Option<&DecodedCertificate<'_>>,
    now: i64,
    algorithms: &WebPkiSupportedAlgorithms,
    mut judge: impl FnMut(u16) -> Result<(), E>,
) -> Result<(), E> {
    let by_key = |list: &RevocationList| {
        let has = issuer.unwrap_or(certificate).key_id();
        list.issuer_key.as_deref().is_none_or(|wanted| has.is_none_or(|has| has == wanted))
    };
    let fits = |list: &RevocationList| {
        (!list.has_unknown_critical, list.scope.covers(certificate), list.is_in_time(now), list.this_update)
    };
    let of_issuer = lists.iter().filter(|list| *list.issuer == *certificate.issuer && by_key(list));
    let Some(list) = of_issuer.max_by_key(|list| fits(list)) else { return judge(NO_LIST) };
    let signer = match issuer {
        Some(issuer) => issuer,
        None if certificate.is_self_issued() => certificate,
        None => return judge(NO_LIST_ISSUER),
    };
    if !signer.signs_lists() {
        judge(LIST_SIGNER_UNFIT)?;
    }
    if !list.scope.covers(certificate) {
        judge(LIST_OF_OTHERS)?;
    }
    if list.this_update > now {
        judge(LIST_NOT_YET_VALID)?;
    }
    if list.next_update.is_some_and(|next| next <= now) {
        judge(LIST_EXPIRED)?;
    }
    if !list.is_by(signer, algorithms) {
        judge(LIST_NOT_SIGNED)?;
    }
    if list.has_unknown_critical {
        judge(LIST_UNKNOWN_CRITICAL)?;
    }
    if list.serials.contains(certificate.serial()) {
        judge(REVOKED)?;
    }
    Ok(())
}

/// `removeFromCRL` (RFC 5280, 5.3.1).
const REMOVED: u8 = 8;
