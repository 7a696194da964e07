//! What a TLS listener knows: certificates by name, each with its settings.
//!
//! The manual's `crt`, `crt-list` and `strict-sni`: a name is looked for as it is, then with its first label as `*`; where
//! several certificates are for it, the client's signature algorithms choose, ECDSA before RSA. A client that names nobody
//! known gets a default certificate, or nothing.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::SignatureAlgorithm;
use weir_client_hello::ClientHello;
use weir_sync::Published;

use crate::entry::Entry;
use crate::failure::{Alert, Failure, Why};
use crate::forge::Forger;
use crate::session::{ChooseServer, Chosen};

/// The certificates of a listener.
#[derive(Debug, Default)]
pub struct Listener {
    entries: Vec<Entry>,
    /// Shared with the listener that this one takes the place of, where only certificates changed and not their names: one of ten
    /// thousand is replaced without looking at the names of the others.
    index: Arc<Index>,
    /// Who names nobody known is refused.
    strict: bool,
    /// Who makes certificates for names that nobody has.
    forger: Option<Arc<Forger>>,
}

/// Which entries are for which names, by number.
#[derive(Debug, Default)]
struct Index {
    /// By name; `*.` is left out of those that begin with it, and they stand in `wildcards`.
    names: HashMap<Box<str>, Vec<u32>>,
    wildcards: HashMap<Box<str>, Vec<u32>>,
    /// What a filter keeps a wildcard from.
    excluded: HashMap<Box<str>, Vec<u32>>,
    /// For who names nobody known.
    defaults: Vec<u32>,
}

impl Index {
    fn of(entries: &[Entry]) -> Index {
        let mut index = Index::default();
        for (number, entry) in entries.iter().enumerate() {
            index.add(number as u32, entry);
        }
        // What is declared a default joins the first certificate, and does not replace it.
        if !entries.is_empty() && index.defaults.first() != Some(&0) {
            let first = of_same_names(entries, 0);
            index.defaults.retain(|number| !first.contains(number));
            index.defaults.splice(..0, first);
        }
        index
    }

    fn add(&mut self, number: u32, entry: &Entry) {
        let mut is_default = entry.part().is_default;
        for name in entry.names() {
            let name = name.to_ascii_lowercase();
            match name.strip_prefix('*') {
                // A filter of `*` alone is for whoever names nobody known.
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

/// A certificate, and those that stand in a bundle with it.
fn of_same_names(entries: &[Entry], number: u32) -> Vec<u32> {
    let first = entries[number as usize].certificate();
    let stem =
        |path: &str| path.rsplit_once('.').map_or_else(|| path.to_owned(), |(stem, _)| stem.to_owned());
    let same = |entry: &Entry| {
        entry.certificate().algorithm != first.algorithm
            && stem(&entry.certificate().path) == stem(&first.path)
            && BUNDLE.iter().any(|end| entry.certificate().path.ends_with(end))
    };
    let others = entries.iter().enumerate().filter(|(_, entry)| same(entry));
    std::iter::once(number).chain(others.map(|(number, _)| number as u32)).collect()
}

impl Listener {
    /// A listener with these certificates, in the order of the configuration: the first is a default one, whatever else is declared one.
    pub fn new(strict: bool, entries: impl IntoIterator<Item = Entry>) -> Listener {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let index = Arc::new(Index::of(&entries));
        Listener { entries, index, strict, forger: None }
    }

    /// The same listener with other certificates.
    #[must_use]
    pub fn with_entries(&self, entries: impl IntoIterator<Item = Entry>) -> Listener {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let same = entries.len() == self.entries.len()
            && entries.iter().zip(&self.entries).all(|(entry, former)| entry.is_found_like(former));
        let index = if same { Arc::clone(&self.index) } else { Arc::new(Index::of(&entries)) };
        Listener { entries, index, strict: self.strict, forger: self.forger.clone() }
    }

    /// The same listener, which has certificates made for names that nobody has.
    #[must_use]
    pub fn with_forger(self, forger: Option<Arc<Forger>>) -> Listener {
        Listener { forger, ..self }
    }

    /// All certificates, in the order of the configuration.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Those for who names nobody known.
    pub fn defaults(&self) -> impl Iterator<Item = &Entry> {
        self.index.defaults.iter().filter_map(|number| self.entries.get(*number as usize))
    }

    /// The one that is for who names nobody known because it was declared first; none where such a client is refused.
    pub fn implicit_default(&self) -> Option<&Entry> {
        if self.strict { None } else { self.entries.first() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The one of a name.
    fn named(&self, name: &str, abilities: &Abilities) -> Option<&Entry> {
        let named = self.index.names.get(name).and_then(|found| self.best(found, None, abilities));
        let wild = || {
            let (_, rest) = name.split_once('.')?;
            self.best(self.index.wildcards.get(rest)?, self.index.excluded.get(name), abilities)
        };
        named.or_else(wild)
    }

    /// One that is made for a name which nobody has.
    fn forged(&self, name: &str, abilities: &Abilities) -> Option<Entry> {
        self.forger.as_ref()?.entry(name, self.best(&self.index.defaults, None, abilities)?)
    }

    /// The one for who names nobody known.
    fn fallback(&self, abilities: &Abilities) -> Option<&Entry> {
        if self.strict { None } else { self.best(&self.index.defaults, None, abilities) }
    }

    /// The one that the client can check best, or the first if it can check none.
    fn best(&self, found: &[u32], excluded: Option<&Vec<u32>>, abilities: &Abilities) -> Option<&Entry> {
        let mut found = found
            .iter()
            .filter(|number| excluded.is_none_or(|excluded| !excluded.contains(number)))
            .filter_map(|number| self.entries.get(*number as usize));
        let rank = |entry: &Entry| match entry.certificate().algorithm {
            SignatureAlgorithm::ECDSA | SignatureAlgorithm::ED25519 if abilities.ecdsa => 0,
            SignatureAlgorithm::RSA if abilities.rsa => 1,
            _ => 2,
        };
        let first = found.next()?;
        Some(found.fold(first, |best, entry| if rank(entry) < rank(best) { entry } else { best }))
    }
}

impl ChooseServer for Listener {
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Chosen, Failure> {
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
        let refused = Failure { why: Why::UnknownName, alert: Some(Alert::UnrecognisedName) };
        entry.map(Entry::chosen).ok_or(refused)
    }
}

/// A listener whose certificates change while it runs: each handshake uses those that it began with.
#[derive(Debug)]
pub struct LiveListener(Published<Listener>);

impl LiveListener {
    /// A listener as the configuration has it.
    pub fn new(listener: Listener) -> LiveListener {
        LiveListener(Published::new(listener))
    }

    /// As it is now.
    pub fn now(&self) -> Arc<Listener> {
        self.0.load_full()
    }

    /// As it is from now on, for all workers at once.
    pub fn publish(&self, listener: Listener) {
        self.0.publish(listener);
    }
}

impl ChooseServer for LiveListener {
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Chosen, Failure> {
        self.0.load().choose(hello)
    }
}

/// Which kinds of keys a client can check.
struct Abilities {
    ecdsa: bool,
    rsa: bool,
}

impl Abilities {
    fn of(hello: &ClientHello<'_>) -> Abilities {
        // Who lists none can check what TLS 1.2 began with: SHA-1 with either.
        let Some(schemes) = hello.signature_schemes() else { return Abilities { ecdsa: false, rsa: true } };
        let has = |kind: fn(&[u8]) -> bool| schemes.chunks_exact(2).any(kind);
        Abilities {
            ecdsa: has(|scheme| scheme[1] == 3 || scheme == [8, 7]) && offers_ecdsa(hello.ciphers),
            rsa: has(|scheme| scheme[1] == 1 || matches!(scheme, [8, 4..=6 | 9..=11])),
        }
    }
}

/// Whether a cipher that is offered goes with a key of ECDSA: those of TLS 1.3 go with any.
fn offers_ecdsa(ciphers: &[u8]) -> bool {
    ciphers.chunks_exact(2).any(|cipher| matches!(cipher, [0x13, 1..=3] | [0xc0, 0x2b | 0x2c] | [0xcc, 0xa9]))
}

const BUNDLE: [&str; 3] = [".ecdsa", ".rsa", ".dsa"];
