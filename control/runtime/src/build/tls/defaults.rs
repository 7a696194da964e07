//! TLS defaults of the global section: paths, options of lines, and the program that knows passphrases.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use weir_config::model::{Global, Kept, Location, TlsOptions, TlsVerify, TlsVersion};
use weir_syntax::units::{TimeUnit, parse_time_prefix};
use weir_sys::child::Exit;
use weir_sys::program::{Invocation, OutputError, output};
use weir_tls::Loader;
use weir_tls::certificate::ExtraFiles;
use weir_tls::issuers::IssuerChains;
use weir_tls::passphrase::Passphrases;

use crate::build::BuildError;

/// The defaults.
#[derive(Debug)]
pub(super) struct Defaults {
    pub certificate_base: Option<Box<str>>,
    pub key_base: Option<Box<str>>,
    pub authority_base: Option<Box<str>>,
    pub extra_files: ExtraFiles,
    pub replaces_extension: bool,
    /// `ssl-skip-self-issued-ca`.
    pub skips_self_issued: bool,
    pub strict_names: bool,
    pub listener: LineDefaults,
    pub server: LineDefaults,
    /// `ssl-server-verify`.
    pub server_verify: TlsVerify,
}

/// The defaults of the current line: those that stand before it in the configuration.
#[derive(Debug)]
pub(super) struct OrderedDefaults {
    kept: Vec<Kept>,
    files: Vec<Arc<str>>,
    /// How many of `kept` stand before the current line.
    count: usize,
    current: Defaults,
}

impl OrderedDefaults {
    /// Those at the end of the configuration.
    pub fn of(global: &Global) -> OrderedDefaults {
        let (kept, files, count) = (global.kept.clone(), global.files.clone(), global.kept.len());
        OrderedDefaults { current: Defaults::at(&kept, count), kept, files, count }
    }

    /// Goes to a line. A line of the runtime API comes after all files.
    pub fn enter(&mut self, line: &Location, loader: &mut Loader) {
        let count = self.count_before(line);
        if count != self.count {
            self.count = count;
            self.current = Defaults::at(&self.kept, count);
            loader.extra = self.current.extra_files;
            loader.replaces_extension = self.current.replaces_extension;
        }
    }

    fn count_before(&self, line: &Location) -> usize {
        let position = |at: &Location| {
            let file = self.files.iter().position(|file| *file == at.file);
            file.map_or((usize::MAX, 0), |file| (file, at.line))
        };
        let line = position(line);
        self.kept.iter().take_while(|kept| position(&kept.at) < line).count()
    }
}

impl Deref for OrderedDefaults {
    type Target = Defaults;

    fn deref(&self) -> &Defaults {
        &self.current
    }
}

/// The default options of a line, and where each keyword of the global section that has some stands.
#[derive(Debug, Default)]
pub(super) struct LineDefaults {
    options: TlsOptions,
    places: Vec<(&'static str, Location)>,
}

impl LineDefaults {
    /// A line's options, with these as defaults.
    pub fn under(&self, line: &TlsOptions) -> TlsOptions {
        let default = &self.options;
        let mut options = line.clone();
        options.min_version = line.min_version.or(default.min_version);
        options.max_version = line.max_version.or(default.max_version);
        options.refused_versions.extend(&default.refused_versions);
        let or = |own: &Option<Box<str>>, default: &Option<Box<str>>| own.clone().or_else(|| default.clone());
        options.ciphers = or(&line.ciphers, &default.ciphers);
        options.ciphersuites = or(&line.ciphersuites, &default.ciphersuites);
        options.curves = or(&line.curves, &default.curves);
        options.signatures = or(&line.signatures, &default.signatures);
        options.client_signatures = or(&line.client_signatures, &default.client_signatures);
        options.protocols = line.protocols.clone().or_else(|| default.protocols.clone());
        options.no_tickets = line.no_tickets.or(default.no_tickets);
        options.client_order |= default.client_order;
        options
    }

    /// Whether they include protocols.
    pub fn name_protocols(&self) -> bool {
        self.options.protocols.is_some()
    }

    /// The keyword with these options (`ciphers` of `ssl-default-bind-ciphers`), and where it stands last.
    pub fn place(&self, options: &str) -> Option<&(&'static str, Location)> {
        self.places
            .iter()
            .rfind(|(keyword, _)| KINDS.iter().any(|kind| keyword.strip_prefix(kind) == Some(options)))
    }
}

/// What the keywords with default options begin with.
const KINDS: [&str; 2] = ["ssl-default-bind-", "ssl-default-server-"];

impl Defaults {
    /// The defaults of a line before which the first `count` kept keywords stand: `ssl-default-*` and `ssl-load-extra-*` hold for
    /// lines below them (manual, 2.1), the others for all.
    fn at(kept: &[Kept], count: usize) -> Defaults {
        let mut defaults = Defaults {
            certificate_base: None,
            key_base: None,
            authority_base: None,
            extra_files: ExtraFiles::default(),
            replaces_extension: false,
            skips_self_issued: false,
            strict_names: false,
            listener: LineDefaults::default(),
            server: LineDefaults::default(),
            server_verify: TlsVerify::Required,
        };
        for (position, kept) in kept.iter().enumerate() {
            let is_below =
                ["ssl-default-", "ssl-load-extra-"].iter().any(|kind| kept.keyword.starts_with(kind))
                    && position >= count;
            if is_below {
                continue;
            }
            let first = || kept.arguments.first().cloned();
            for (kind, side) in KINDS.iter().zip([&mut defaults.listener, &mut defaults.server]) {
                if kept.keyword.starts_with(kind) {
                    side.places.push((kept.keyword, kept.at.clone()));
                }
            }
            let (listener, server) = (&mut defaults.listener.options, &mut defaults.server.options);
            match kept.keyword {
                "crt-base" => defaults.certificate_base = first(),
                "key-base" => defaults.key_base = first(),
                "ca-base" => defaults.authority_base = first(),
                "ssl-skip-self-issued-ca" => defaults.skips_self_issued = true,
                "ssl-load-extra-del-ext" => defaults.replaces_extension = true,
                "ssl-load-extra-files" => defaults.extra_files = extra_files(&kept.arguments),
                "ssl-default-bind-ciphers" => listener.ciphers = first(),
                "ssl-default-bind-ciphersuites" => listener.ciphersuites = first(),
                "ssl-default-bind-curves" => listener.curves = first(),
                "ssl-default-bind-sigalgs" => listener.signatures = first(),
                "ssl-default-bind-client-sigalgs" => listener.client_signatures = first(),
                "ssl-default-server-sigalgs" => server.signatures = first(),
                "ssl-default-server-client-sigalgs" => server.client_signatures = first(),
                "ssl-default-bind-options" => {
                    let switches = kept.arguments.iter().rev();
                    if let Some(last) = switches.map(|word| &**word).find(|word| word.ends_with("strict-sni"))
                    {
                        defaults.strict_names = last == "strict-sni";
                    }
                    apply(listener, &kept.arguments);
                }
                "ssl-server-verify" => {
                    let none = first().is_some_and(|word| *word == *"none");
                    defaults.server_verify = if none { TlsVerify::None } else { TlsVerify::Required };
                }
                "ssl-default-server-ciphers" => server.ciphers = first(),
                "ssl-default-server-ciphersuites" => server.ciphersuites = first(),
                "ssl-default-server-curves" => server.curves = first(),
                "ssl-default-server-options" => apply(server, &kept.arguments),
                _ => {}
            }
        }
        defaults
    }
}

/// The chains of the folders that `issuers-chain-path` names.
pub(super) fn issuer_chains(
    global: &Global,
    warnings: &mut Vec<String>,
    errors: &mut Vec<BuildError>,
) -> IssuerChains {
    let mut chains = IssuerChains::default();
    for kept in global.kept.iter().filter(|kept| kept.keyword == "issuers-chain-path") {
        let folder = kept.arguments.first().map_or("", |folder| &**folder);
        if let Err(error) = chains.read(folder, warnings) {
            let message =
                format!("'issuers-chain-path' expects a folder that can be read: '{folder}': {error}.");
            errors.push(BuildError { at: kept.at.clone(), message });
        }
    }
    chains
}

/// What opens keys under a passphrase: the program that `ssl-passphrase-cmd` names, which runs while keys are read.
pub(super) fn passphrases(global: &Global) -> Passphrases {
    let Some(kept) = global.kept.iter().rfind(|kept| kept.keyword == "ssl-passphrase-cmd") else {
        return Passphrases::default();
    };
    let (words, at) = (kept.arguments.clone(), kept.at.clone());
    Passphrases::from(Box::new(move |path| {
        printed(&words, path).map_err(|why| {
            let program = words.first().map_or("", |word| word);
            format!("the private key of '{path}' is encrypted, and 'ssl-passphrase-cmd' [{at}] gives no passphrase: '{program}' {why}")
        })
    }))
}

/// What the program prints for the key in this file. Its first argument is the path, before those of the configuration.
fn printed(words: &[Box<str>], path: &str) -> Result<Vec<u8>, String> {
    let bytes = |word: &str| word.as_bytes().to_vec();
    let (program, arguments) = words.split_first().map_or(("", words), |(first, rest)| (first, rest));
    let words = [program, path].into_iter().chain(arguments.iter().map(|word| &**word));
    let variables = std::env::vars_os()
        .map(|(name, value)| [name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat());
    let invocation = Invocation {
        file: bytes(program),
        words: words.map(bytes).collect(),
        environment: variables.collect(),
    };
    let mut printed = output(&invocation, MOST_PRINTED, MOST_TIME).map_err(|error| match error {
        OutputError::System(errno) => format!("cannot be run: {}.", weir_sys::error_text(errno)),
        OutputError::TooLate => format!("was ended after {} seconds.", MOST_TIME.as_secs()),
        OutputError::TooMuch => format!("printed more than {MOST_PRINTED} bytes."),
        OutputError::Failed(Exit::Code(code)) => format!("exited with status {code}."),
        OutputError::Failed(exit @ Exit::Signal(_)) => format!("was ended: {exit}."),
    })?;
    // `echo` ends its line; no passphrase that was typed has an end of line in it.
    let text = printed.trim_ascii_end().len();
    let ends = printed[text..].iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    printed.truncate(ends.map_or(printed.len(), |at| text + at));
    if printed.is_empty() {
        return Err("printed nothing.".to_owned());
    }
    Ok(printed)
}

/// The size limit of a passphrase in bytes: OpenSSL reads 1024.
const MOST_PRINTED: usize = 1024;
/// How long the program may take for one key.
const MOST_TIME: Duration = Duration::from_secs(10);

fn extra_files(words: &[Box<str>]) -> ExtraFiles {
    let has = |name: &str| words.iter().any(|word| **word == *name || **word == *"all");
    ExtraFiles {
        bundle: has("bundle"),
        ocsp: has("ocsp"),
        issuer: has("issuer"),
        key: has("key"),
        sctl: has("sctl"),
    }
}

/// Applies the words of `ssl-default-bind-options` and `ssl-default-server-options`.
fn apply(options: &mut TlsOptions, words: &[Box<str>]) {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match &**word {
            "ssl-min-ver" => options.min_version = words.next().and_then(|word| TlsVersion::of(word)),
            "ssl-max-ver" => options.max_version = words.next().and_then(|word| TlsVersion::of(word)),
            "no-tls-tickets" => options.no_tickets = Some(true),
            "prefer-client-ciphers" => options.client_order = true,
            "no-alpn" => options.protocols = Some(Vec::new()),
            word => match (named(word, "no-"), named(word, "force-")) {
                (Some(version), _) => options.refused_versions.push(version),
                (_, Some(version)) => {
                    options.min_version = Some(version);
                    options.max_version = Some(version);
                }
                _ => {}
            },
        }
    }
}

/// The version in a word such as `no-tlsv11`.
fn named(word: &str, prefix: &str) -> Option<TlsVersion> {
    Some(match word.strip_prefix(prefix)? {
        "sslv3" => TlsVersion::Ssl3,
        "tlsv10" => TlsVersion::Tls10,
        "tlsv11" => TlsVersion::Tls11,
        "tlsv12" => TlsVersion::Tls12,
        "tlsv13" => TlsVersion::Tls13,
        _ => return None,
    })
}

/// The value in seconds of a keyword of the global section.
pub(super) fn kept_seconds(global: &Global, keyword: &str) -> Option<u64> {
    let kept = global.kept.iter().rev().find(|kept| kept.keyword == keyword)?;
    let (seconds, _) = parse_time_prefix(kept.arguments.first()?, TimeUnit::Seconds).ok()?;
    Some(seconds)
}

/// Whether a keyword of the global section enables something.
pub(super) fn kept_switch(global: &Global, keyword: &str) -> bool {
    let kept = global.kept.iter().rev().find(|kept| kept.keyword == keyword);
    kept.is_some_and(|kept| kept.arguments.first().is_some_and(|word| &**word == "on"))
}

/// The number of a keyword of the global section.
pub(super) fn kept_number(global: &Global, keyword: &str) -> Option<usize> {
    let kept = global.kept.iter().rev().find(|kept| kept.keyword == keyword)?;
    kept.arguments.first()?.parse().ok()
}
