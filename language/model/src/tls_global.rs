//! TLS settings of the global section: for the process, and defaults of the lines below.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use weir_expr::Location;
use weir_fingerprint::{Canonical, FormEncoder, unordered};

use super::tls::{TlsOptions, TlsVerify};

/// TLS settings of the process.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct GlobalTls {
    /// `crt-base`: base folder for relative paths of certificates.
    pub certificate_base: Option<Box<str>>,
    /// `key-base`: base folder for relative paths of keys.
    pub key_base: Option<Box<str>>,
    /// `ca-base`: base folder for relative paths of CA files.
    pub authority_base: Option<Box<str>>,
    /// `issuers-chain-path`: folders with chains for certificates without a chain.
    #[canonical(with = unordered)]
    pub chain_folders: Vec<ChainFolder>,
    /// `ssl-skip-self-issued-ca`: a root that issued the certificate itself is not sent.
    pub skips_self_issued: bool,
    /// `ssl-passphrase-cmd`: the program that prints the passphrases of keys.
    pub passphrase_program: Option<PassphraseProgram>,
    /// `ssl-server-verify`: the default of `verify` on `server` lines. None for `required`.
    pub server_verify: Option<TlsVerify>,
    /// The location of the first `ssl-dh-param-file` line, which is ignored.
    #[canonical(skip = "the line is ignored")]
    pub dh_parameters: Option<Location>,
    /// `tune.ssl.cachesize`: size of the session cache in sessions.
    pub sessions: u32,
    /// `tune.ssl.lifetime`: how long a session can be resumed.
    pub session_lifetime: Duration,
    /// `tune.ssl.ssl-ctx-cache-size`: size of the cache of generated certificates.
    pub generated_certificates: u32,
    /// `tune.ssl.capture-buffer-size`: bytes of each ClientHello to keep.
    pub captured_hello: u32,
    /// `tune.ssl.keylog`: keep session keys for analysis.
    pub logs_keys: bool,
    /// `tune.ssl.maxrecord`: largest record for interactive traffic, in bytes. 0 for the protocol's limit.
    pub record_max: u32,
    /// `tune.ssl.hard-maxrecord`: largest record, in bytes. 0 for the protocol's limit.
    pub record_hard_max: u32,
    /// The defaults of lines, in the order of the `ssl-default-*` and `ssl-load-extra-*` lines. Each entry applies to the lines below
    /// its own line.
    #[canonical(with = encode_last_defaults)]
    pub line_defaults: Vec<(Location, TlsDefaults)>,
}

impl Default for GlobalTls {
    fn default() -> Self {
        GlobalTls {
            certificate_base: None,
            key_base: None,
            authority_base: None,
            chain_folders: Vec::new(),
            skips_self_issued: false,
            passphrase_program: None,
            server_verify: None,
            dh_parameters: None,
            sessions: 20_000,
            session_lifetime: Duration::from_secs(300),
            generated_certificates: 1000,
            captured_hello: 0,
            logs_keys: false,
            record_max: 0,
            record_hard_max: 0,
            line_defaults: Vec::new(),
        }
    }
}

impl GlobalTls {
    /// The defaults of a line, if the first `count` entries of [`GlobalTls::line_defaults`] are above it.
    pub fn defaults_below(&self, count: usize) -> &TlsDefaults {
        static NOTHING: LazyLock<TlsDefaults> = LazyLock::new(TlsDefaults::default);
        self.line_defaults[..count].last().map_or(&NOTHING, |(_, defaults)| defaults)
    }

    /// The number of entries of [`GlobalTls::line_defaults`] above a line. `files` is the order of the files. A line of the runtime API
    /// comes after all files.
    pub fn count_of_defaults_above(&self, files: &[Arc<str>], line: &Location) -> usize {
        let position = |at: &Location| {
            let file = files.iter().position(|file| *file == at.file);
            file.map_or((usize::MAX, 0), |file| (file, at.line))
        };
        let line = position(line);
        self.line_defaults.iter().take_while(|(at, _)| position(at) < line).count()
    }

    /// The size limit of sent records in bytes. None for the protocol's limit.
    pub fn largest_record(&self) -> Option<u32> {
        [self.record_max, self.record_hard_max].into_iter().filter(|bytes| *bytes > 0).min()
    }
}

/// An `issuers-chain-path` line.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct ChainFolder {
    pub path: Box<str>,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// An `ssl-passphrase-cmd` line.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct PassphraseProgram {
    /// The program and its arguments.
    pub words: Vec<Box<str>>,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// Defaults of the lines below (manual, 2.1): `ssl-default-*` and `ssl-load-extra-*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct TlsDefaults {
    /// `ssl-load-extra-files`.
    pub extra_files: ExtraFiles,
    /// `ssl-load-extra-del-ext`: replace the extension of the certificate's file to find the key.
    pub replaces_extension: bool,
    /// `strict-sni` of `ssl-default-bind-options`.
    pub strict_names: bool,
    /// `ssl-default-bind-*`.
    pub listener: LineDefaults,
    /// `ssl-default-server-*`.
    pub server: LineDefaults,
}

/// Which additional files of a certificate are read (`ssl-load-extra-files`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub struct ExtraFiles {
    /// `NAME.rsa` and similar, if `NAME` itself does not exist.
    pub bundle: bool,
    /// `.ocsp`.
    pub ocsp: bool,
    /// `.issuer`.
    pub issuer: bool,
    /// `.key`.
    pub key: bool,
    /// `.sctl`, which is not supported: a file causes a warning.
    pub sctl: bool,
}

impl Default for ExtraFiles {
    /// All of them, the manual's default.
    fn default() -> Self {
        ExtraFiles { bundle: true, ocsp: true, issuer: true, key: true, sctl: true }
    }
}

/// The default options of `bind` or of `server` lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct LineDefaults {
    pub options: TlsOptions,
    /// The keywords that set these options, each with the location of its last line.
    #[canonical(skip = "places in files")]
    pub places: Vec<(&'static str, Location)>,
}

impl LineDefaults {
    /// The options of `line`, with these options as defaults.
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

    /// Whether the options include protocols.
    pub fn name_protocols(&self) -> bool {
        self.options.protocols.is_some()
    }

    /// The keyword with these options (`ciphers` of `ssl-default-bind-ciphers`), and the location of its last line.
    pub fn place(&self, options: &str) -> Option<&(&'static str, Location)> {
        self.places
            .iter()
            .find(|(keyword, _)| KINDS.iter().any(|kind| keyword.strip_prefix(kind) == Some(options)))
    }
}

/// Prefixes of the keywords with default options.
const KINDS: [&str; 2] = ["ssl-default-bind-", "ssl-default-server-"];

/// Encodes only the last entry, for lines of the runtime API. Other entries count in the lines below them.
fn encode_last_defaults(defaults: &[(Location, TlsDefaults)], out: &mut FormEncoder<'_>) {
    defaults.last().map(|(_, defaults)| defaults).encode(out);
}
