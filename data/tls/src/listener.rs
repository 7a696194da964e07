//! A TLS listener: certificates by name, each with its settings.
//!
//! The manual's `crt`, `crt-list` and `strict-sni`. The SNI is looked up unchanged, then with its first label replaced by `*`. If
//! several certificates match, the client's signature algorithms decide, ECDSA before RSA. A client with an unknown or no SNI gets
//! a default certificate, or its handshake fails.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::SignatureAlgorithm;
use weir_client_hello::ClientHello;
use weir_sync::VersionCell;

use crate::entry::ListenerCertificate;
use crate::forge::Forger;
use weir_tls_session::{Alert, SessionFailure, Why};
use weir_tls_session::{ChooseServer, SessionSetup};

/// The certificates of a listener, and an index of their names.
#[derive(Debug, Default)]
pub struct ListenerCertificates {
    entries: Vec<ListenerCertificate>,
    /// Shared with the previous version if certificates changed but their names did not. Replacing one of ten thousand certificates
    /// then does not index the names of the others.
    index: Arc<NameIndex>,
    /// Whether the handshake fails for an unknown or no SNI (`strict-sni`).
    strict: bool,
    /// Generates certificates for unknown names (`generate-certificates`).
    forger: Option<Arc<Forger>>,
}

/// Maps names to indices of `entries`.
#[derive(Debug, Default)]
struct NameIndex {
    /// Exact names. Wildcard names are in `wildcards`, without their `*.`.
    names: HashMap<Box<str>, Vec<u32>>,
    wildcards: HashMap<Box<str>, Vec<u32>>,
    /// Names that a filter excludes from a wildcard.
    excluded: HashMap<Box<str>, Vec<u32>>,
    /// Entries for clients with an unknown or no SNI.
    defaults: Vec<u32>,
    /// All entries, sorted by the path of their certificate.
    by_path: Vec<u32>,
}

impl NameIndex {
    fn of(entries: &[ListenerCertificate]) -> NameIndex {
        let mut index = NameIndex::default();
        for (number, entry) in entries.iter().enumerate() {
            index.add(number as u32, entry);
        }
        // Declared defaults are added to the first certificate, and do not replace it.
        if !entries.is_empty() && index.defaults.first() != Some(&0) {
            let first = of_same_names(entries, 0);
            index.defaults.retain(|number| !first.contains(number));
            index.defaults.splice(..0, first);
        }
        index.by_path = (0..entries.len() as u32).collect();
        // The files of a folder are already in this order, so the sort takes linear time.
        index.by_path.sort_by_key(|number| path_of(entries, *number));
        index
    }

    fn add(&mut self, number: u32, entry: &ListenerCertificate) {
        let mut is_default = entry.part().is_default;
        for name in entry.names() {
            let name = name.to_ascii_lowercase();
            match name.strip_prefix('*') {
                // A filter of `*` alone matches clients with an unknown name.
                Some("") => is_default = true,
                Some(rest) => {
                    let rest = rest.strip_prefix('.').unwrap_or(rest);
                    self.wildcards.entry(rest.into()).or_default().push(number);
                }
                None => self.names.entry(name.into()).or_default().push(number),
            }
        }
        for name in entry.part().filters.iter().filter_map(|filter| filter.strip_prefix('!')) {
            self.excluded.entry(name.to_ascii_lowercase().into()).or_default().push(number);
        }
        if is_default {
            self.defaults.push(number);
        }
    }
}

fn path_of(entries: &[ListenerCertificate], number: u32) -> &str {
    &entries[number as usize].certificate().path
}

/// The part of `numbers` with this path. `numbers` is sorted by path.
fn with_path<'n, 'p>(numbers: &'n [u32], path: &str, path_of: impl Fn(u32) -> &'p str) -> &'n [u32] {
    let start = numbers.partition_point(|number| path_of(*number) < path);
    let count = numbers[start..].iter().take_while(|number| path_of(**number) == path).count();
    &numbers[start..start + count]
}

/// The entries of a certificate and of the others in its bundle.
fn of_same_names(entries: &[ListenerCertificate], number: u32) -> Vec<u32> {
    let first = entries[number as usize].certificate();
    let stem =
        |path: &str| path.rsplit_once('.').map_or_else(|| path.to_owned(), |(stem, _)| stem.to_owned());
    let same = |entry: &ListenerCertificate| {
        entry.certificate().algorithm != first.algorithm
            && stem(&entry.certificate().path) == stem(&first.path)
            && BUNDLE.iter().any(|end| entry.certificate().path.ends_with(end))
    };
    let others = entries.iter().enumerate().filter(|(_, entry)| same(entry));
    std::iter::once(number).chain(others.map(|(number, _)| number as u32)).collect()
}

impl ListenerCertificates {
    /// Creates a listener with these certificates, in the order of the configuration. The first is always a default.
    pub fn new(strict: bool, entries: impl IntoIterator<Item = ListenerCertificate>) -> ListenerCertificates {
        let entries: Vec<ListenerCertificate> = entries.into_iter().collect();
        let index = Arc::new(NameIndex::of(&entries));
        ListenerCertificates { entries, index, strict, forger: None }
    }

    /// The same listener with other certificates. The name index is reused if no name changed.
    #[must_use]
    pub fn with_entries(
        &self,
        entries: impl IntoIterator<Item = ListenerCertificate>,
    ) -> ListenerCertificates {
        let entries: Vec<ListenerCertificate> = entries.into_iter().collect();
        let same = entries.len() == self.entries.len()
            && entries.iter().zip(&self.entries).all(|(entry, former)| entry.is_found_like(former));
        let index = if same { Arc::clone(&self.index) } else { Arc::new(NameIndex::of(&entries)) };
        ListenerCertificates { entries, index, strict: self.strict, forger: self.forger.clone() }
    }

    /// The same listener, with a generator of certificates for unknown names.
    #[must_use]
    pub fn with_forger(self, forger: Option<Arc<Forger>>) -> ListenerCertificates {
        ListenerCertificates { forger, ..self }
    }

    /// All certificates, in the order of the configuration.
    pub fn entries(&self) -> &[ListenerCertificate] {
        &self.entries
    }

    /// The entries with the certificate of this path.
    pub fn entries_of(&self, path: &str) -> impl Iterator<Item = &ListenerCertificate> {
        let numbers = with_path(&self.index.by_path, path, |number| path_of(&self.entries, number));
        numbers.iter().map(|number| &self.entries[*number as usize])
    }

    /// The certificates for clients with an unknown name.
    pub fn defaults(&self) -> impl Iterator<Item = &ListenerCertificate> {
        self.index.defaults.iter().filter_map(|number| self.entries.get(*number as usize))
    }

    /// The first certificate, as the implicit default. `None` with `strict-sni`.
    pub fn implicit_default(&self) -> Option<&ListenerCertificate> {
        if self.strict { None } else { self.entries.first() }
    }

    /// Whether the list of certificates is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The certificate for a name. An exact match precedes a wildcard, unless the client can verify only the wildcard's.
    fn named(&self, name: &str, abilities: &Abilities) -> Option<&ListenerCertificate> {
        let named = self.index.names.get(name).and_then(|found| self.best(found, None, abilities));
        if let Some(entry) = named
            && abilities.rank(entry) < UNVERIFIABLE
        {
            return Some(entry);
        }
        let wild = name.split_once('.').and_then(|(_, rest)| {
            self.best(self.index.wildcards.get(rest)?, self.index.excluded.get(name), abilities)
        });
        wild.filter(|wild| named.is_none() || abilities.rank(wild) < UNVERIFIABLE).or(named)
    }

    /// A certificate generated for an unknown name.
    fn forged(&self, name: &str, abilities: &Abilities) -> Option<ListenerCertificate> {
        self.forger.as_ref()?.entry(name, self.best(&self.index.defaults, None, abilities)?)
    }

    /// The default certificate for a client with an unknown or no SNI. `None` with `strict-sni`.
    fn fallback(&self, abilities: &Abilities) -> Option<&ListenerCertificate> {
        if self.strict { None } else { self.best(&self.index.defaults, None, abilities) }
    }

    /// The certificate that the client can verify best. If it can verify none, the first.
    fn best(
        &self,
        found: &[u32],
        excluded: Option<&Vec<u32>>,
        abilities: &Abilities,
    ) -> Option<&ListenerCertificate> {
        let mut found = found
            .iter()
            .filter(|number| excluded.is_none_or(|excluded| !excluded.contains(number)))
            .filter_map(|number| self.entries.get(*number as usize));
        let first = found.next()?;
        let better = |best, entry| if abilities.rank(entry) < abilities.rank(best) { entry } else { best };
        Some(found.fold(first, better))
    }
}

impl ChooseServer for ListenerCertificates {
    fn choose(&self, hello: &ClientHello<'_>) -> Result<SessionSetup, SessionFailure> {
        let name = hello.server_name().and_then(|name| std::str::from_utf8(name).ok());
        let name = name.map(str::to_ascii_lowercase);
        let abilities = Abilities::of(hello);
        if let Some(name) = name.as_deref() {
            if let Some(entry) = self.named(name, &abilities) {
                return Ok(entry.chosen());
            }
            if let Some(entry) = self.forged(name, &abilities) {
                return Ok(entry.chosen());
            }
        }
        let entry = self.fallback(&abilities);
        let refused = SessionFailure { why: Why::UnknownName, alert: Some(Alert::UnrecognisedName) };
        entry.map(ListenerCertificate::chosen).ok_or(refused)
    }
}

/// A listener with certificates that change at run time. A handshake keeps the version that it began with.
#[derive(Debug)]
pub struct LiveListener(VersionCell<ListenerCertificates>);

impl LiveListener {
    /// A listener as configured.
    pub fn new(listener: ListenerCertificates) -> LiveListener {
        LiveListener(VersionCell::new(listener))
    }

    /// The current version of the listener.
    pub fn now(&self) -> Arc<ListenerCertificates> {
        self.0.load_full()
    }

    /// Publishes a new version of the listener for all workers.
    pub fn publish(&self, listener: ListenerCertificates) {
        self.0.publish(listener);
    }
}

impl ChooseServer for LiveListener {
    fn choose(&self, hello: &ClientHello<'_>) -> Result<SessionSetup, SessionFailure> {
        self.0.load().choose(hello)
    }
}

/// Which key types a client can verify.
struct Abilities {
    ecdsa_tls12: bool,
    ecdsa_tls13: bool,
    rsa: bool,
}

impl Abilities {
    /// The preference for a certificate. Lower is better.
    fn rank(&self, entry: &ListenerCertificate) -> u8 {
        match entry.certificate().algorithm {
            SignatureAlgorithm::ECDSA | SignatureAlgorithm::ED25519
                if self.ecdsa_tls12 || (self.ecdsa_tls13 && entry.speaks_tls13()) =>
            {
                0
            }
            SignatureAlgorithm::RSA if self.rsa => 1,
            _ => UNVERIFIABLE,
        }
    }

    fn of(hello: &ClientHello<'_>) -> Abilities {
        // A client without the extension, from before TLS 1.2, counts as able to verify only RSA.
        let Some(schemes) = hello.signature_schemes() else {
            return Abilities { ecdsa_tls12: false, ecdsa_tls13: false, rsa: true };
        };
        let has = |kind: fn(&[u8]) -> bool| schemes.chunks_exact(2).any(kind);
        let ecdsa = has(|scheme| scheme[1] == 3 || scheme == [8, 7]);
        // TLS 1.3 ciphers work with any key type. They count only if the client also offers TLS 1.3: some clients list them without
        // it.
        let offers = |wanted: fn(&[u8]) -> bool| hello.ciphers.chunks_exact(2).any(wanted);
        Abilities {
            ecdsa_tls12: ecdsa && offers(|cipher| matches!(cipher, [0xc0, 0x2b | 0x2c] | [0xcc, 0xa9])),
            ecdsa_tls13: ecdsa
                && hello.offers_version([3, 4])
                && offers(|cipher| matches!(cipher, [0x13, 1..=3])),
            rsa: has(|scheme| scheme[1] == 1 || matches!(scheme, [8, 4..=6 | 9..=11])),
        }
    }
}

/// The rank of a certificate that the client cannot verify.
const UNVERIFIABLE: u8 = 2;

const BUNDLE: [&str; 3] = [".ecdsa", ".rsa", ".dsa"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a client with these ciphers, which knows ECDSA and RSA, can check ECDSA in TLS 1.2 and in TLS 1.3.
    fn ecdsa(ciphers: &[[u8; 2]], offers_tls13: bool) -> (bool, bool) {
        let vector = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
        let extension = |kind: u8, body: &[u8]| [&[0, kind], &*vector(body)].concat();
        let schemes = extension(13, &vector(&[4, 3, 8, 4]));
        let versions = extension(43, if offers_tls13 { &[4, 3, 4, 3, 3] } else { &[2, 3, 3] });
        let before = [&[3, 3][..], &[0; 32], &[0]].concat();
        let hello =
            [before, vector(&ciphers.concat()), vec![1, 0], vector(&[schemes, versions].concat())].concat();
        let abilities = Abilities::of(&ClientHello::parse(&hello).expect("a hello"));
        assert!(abilities.rsa);
        (abilities.ecdsa_tls12, abilities.ecdsa_tls13)
    }

    #[test]
    fn a_certificate_path_is_found_by_binary_search() {
        let paths: Vec<String> = (0..10_000).map(|number| format!("/certs/{:05}.pem", number / 2)).collect();
        let numbers: Vec<u32> = (0..10_000).collect();
        let looks = std::cell::Cell::new(0);
        let found = |path: &str| {
            let path_of = |number: u32| {
                looks.set(looks.get() + 1);
                &*paths[number as usize]
            };
            with_path(&numbers, path, path_of)
        };
        assert_eq!(found("/certs/00000.pem"), [0, 1]);
        assert_eq!(found("/certs/03333.pem"), [6666, 6667]);
        assert_eq!(found("/certs/04999.pem"), [9998, 9999]);
        assert_eq!((found("/certs/0333"), found(""), found("/d")), (&[][..], &[][..], &[][..]));
        assert!(looks.get() <= 6 * 20, "{}", looks.get());
    }

    #[test]
    fn tls13_ciphers_permit_ecdsa_only_if_tls13_is_offered() {
        let (rsa, ecdsa_too, any) = ([0xc0, 0x2f], [0xc0, 0x2b], [0x13, 1]);
        assert_eq!(ecdsa(&[rsa, any], false), (false, false));
        assert_eq!(ecdsa(&[rsa, any], true), (false, true));
        assert_eq!(ecdsa(&[rsa], true), (false, false));
        assert_eq!(ecdsa(&[rsa, ecdsa_too], false), (true, false));
        assert_eq!(ecdsa(&[[0xcc, 0xa9], any], true), (true, true));
    }
}
