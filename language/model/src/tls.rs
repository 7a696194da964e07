//! Settings about TLS as written: files are read and names of ciphers looked up when they are applied.

use std::sync::Arc;

use weir_expr::{Expr, Location};
use weir_fingerprint::{Canonical, FormEncoder, ObjectKind, unordered};

/// A version that a line may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Canonical)]
pub enum TlsVersion {
    /// `SSLv3`.
    Ssl3,
    /// `TLSv1.0`.
    Tls10,
    /// `TLSv1.1`.
    Tls11,
    /// `TLSv1.2`.
    Tls12,
    /// `TLSv1.3`.
    Tls13,
}

impl TlsVersion {
    /// All versions, oldest first.
    pub const ALL: [TlsVersion; 5] =
        [TlsVersion::Ssl3, TlsVersion::Tls10, TlsVersion::Tls11, TlsVersion::Tls12, TlsVersion::Tls13];

    /// The name of the version in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            TlsVersion::Ssl3 => "SSLv3",
            TlsVersion::Tls10 => "TLSv1.0",
            TlsVersion::Tls11 => "TLSv1.1",
            TlsVersion::Tls12 => "TLSv1.2",
            TlsVersion::Tls13 => "TLSv1.3",
        }
    }

    /// The version with this name.
    pub fn of(name: &str) -> Option<TlsVersion> {
        TlsVersion::ALL.into_iter().find(|version| version.name() == name)
    }
}

/// Whether peers must send a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum TlsVerify {
    /// `none`.
    None,
    /// `optional`, for clients only.
    Optional,
    /// `required`.
    Required,
}

/// Errors of certificates that are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct IgnoredErrors {
    /// `all`.
    pub all: bool,
    /// Further errors, by OpenSSL's numbers.
    #[canonical(with = unordered)]
    pub codes: Vec<u16>,
}

/// TLS settings of a line. None for a setting that the line does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct TlsOptions {
    /// `ssl-min-ver`, `force-*`.
    pub min_version: Option<TlsVersion>,
    /// `ssl-max-ver`, `force-*`.
    pub max_version: Option<TlsVersion>,
    /// `no-sslv3`, `no-tlsv10` and so on.
    #[canonical(with = unordered)]
    pub refused_versions: Vec<TlsVersion>,
    /// `ciphers`.
    pub ciphers: Option<Box<str>>,
    /// `ciphersuites`.
    pub ciphersuites: Option<Box<str>>,
    /// `curves`, `ecdhe`.
    pub curves: Option<Box<str>>,
    /// `sigalgs`.
    pub signatures: Option<Box<str>>,
    /// `client-sigalgs`.
    pub client_signatures: Option<Box<str>>,
    /// `alpn`. Empty for `no-alpn`.
    pub protocols: Option<Vec<Box<str>>>,
    /// `verify`.
    pub verify: Option<TlsVerify>,
    /// `ca-file`.
    pub ca_file: Option<Box<str>>,
    /// `ca-verify-file`: trusted, but not announced.
    pub ca_verify_file: Option<Box<str>>,
    /// `crl-file`.
    pub crl_file: Option<Box<str>>,
    /// `ca-ignore-err`.
    pub ca_ignored: IgnoredErrors,
    /// `crt-ignore-err`.
    pub crt_ignored: IgnoredErrors,
    /// `no-ca-names`.
    pub no_ca_names: bool,
    /// `no-tls-tickets` (true), `tls-tickets` (false).
    pub no_tickets: Option<bool>,
    /// `tls-ticket-keys`: the file with the ticket keys.
    pub ticket_keys: Option<Box<str>>,
    /// `prefer-client-ciphers`.
    pub client_order: bool,
    /// `allow-0rtt`: accept early data from clients.
    pub allow_early_data: bool,
}

/// A source of certificates.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum CertificateSource {
    /// `crt`: a file, a folder, the stem of a bundle.
    Path(#[canonical(with = encode_certificate)] Box<str>),
    /// `crt-list`: a file that lists certificates.
    List(Box<str>),
}

/// The files of a certificate, from a line of a `crt-store` or of a `crt-list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct CertificateFiles {
    /// `crt`.
    pub certificate: Option<Box<str>>,
    /// `key`.
    pub key: Option<Box<str>>,
    /// `ocsp`.
    pub ocsp: Option<Box<str>>,
    /// `issuer`.
    pub issuer: Option<Box<str>>,
    /// `alias`, in a store.
    pub alias: Option<Box<str>>,
    /// `ocsp-update`.
    pub ocsp_update: Option<bool>,
}

/// A `crt-store` section.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct CertificateStore {
    /// The name of the section. Empty for a section without a name.
    pub name: Box<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// `crt-base`. None for the global section's.
    pub certificate_base: Option<Box<str>>,
    /// `key-base`. None for the global section's.
    pub key_base: Option<Box<str>>,
    /// `load` lines.
    #[canonical(with = unordered)]
    pub loads: Vec<CertificateLoad>,
}

/// A `load` line of a `crt-store` section.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct CertificateLoad {
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The name by which other lines refer to the certificate. None for the path of its file.
    pub name: Option<Box<str>>,
    /// The files, including that of the certificate.
    pub files: CertificateFiles,
}

/// An `ssl-f-use` line.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct CertificateUse {
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The text of the line, in the form of a `crt-list` line.
    pub line: Box<str>,
}

/// The TLS settings of a `bind` line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct BindTls {
    /// `ssl`. The other settings need it.
    pub enabled: bool,
    /// `crt`, `crt-list`, in order.
    pub certificates: Vec<CertificateSource>,
    /// `default-crt`.
    pub default_certificates: Vec<Box<str>>,
    /// `generate-certificates`.
    pub generates: bool,
    /// `ca-sign-file`: the CA that signs generated certificates.
    pub signer: Option<Box<str>>,
    /// The passphrase of the CA's key (`ca-sign-pass`).
    pub signer_passphrase: Option<Box<str>>,
    /// `strict-sni` (true), `no-strict-sni` (false).
    pub strict_names: Option<bool>,
    /// All other settings.
    #[canonical(skip = "encoded with the defaults of the line")]
    pub options: TlsOptions,
}

/// The TLS settings of a `server` line.
#[derive(Clone, Debug, Default, Canonical)]
pub struct ServerTls {
    /// `ssl`. The other settings need it.
    pub enabled: bool,
    /// `no-ssl`: TLS is off at start, but the runtime API may switch it on.
    pub may_be_enabled: bool,
    /// Whether `no-ssl` came after `ssl`.
    pub is_taken_back: bool,
    /// `crt`: the client certificate.
    pub certificate: Option<Box<str>>,
    /// `verifyhost`: the name that the server's certificate must have.
    pub verify_host: Option<Box<str>>,
    /// `sni`: the server name to send.
    pub server_name: Option<Arc<Expr>>,
    /// `no-sni-auto`: without `sni`, the `Host` of an HTTP request is not sent as the server name.
    pub no_automatic_name: bool,
    /// `no-ssl-reuse`: do not resume sessions.
    pub no_reuse: bool,
    /// All other settings.
    #[canonical(skip = "encoded with the defaults of the line")]
    pub options: TlsOptions,
}

/// A path, or `@<store>/<name>`.
fn encode_certificate(path: &str, out: &mut FormEncoder<'_>) {
    path.encode(out);
    if let Some(stored) = path.strip_prefix('@') {
        let (store, _) = stored.rsplit_once('/').unwrap_or(("", stored));
        out.note(ObjectKind::CrtStore, store);
    }
}
