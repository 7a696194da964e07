//! TLS objects that operators see and change: files held in memory, and certificate lists.

/// A kind of TLS file that the runtime API can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFileKind {
    /// A certificate with its key.
    Certificate,
    Authorities,
    /// Certificate revocation lists.
    Revocations,
}

/// A file of certificates or revocation lists, in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFileName {
    pub name: String,
    /// The number of certificates or revocation lists in the file.
    pub count: usize,
}

/// A file of certificates or revocation lists, with its contents as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFileView {
    pub used: bool,
    /// The files and settings of a certificate, one per line.
    pub origin: String,
    /// Each certificate or revocation list as text of several lines.
    pub parts: Vec<String>,
    /// The issuing certificates of the chain, as text.
    pub chain: String,
}

/// Why a file was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsRefusal {
    /// A file with this name exists.
    Exists,
    /// The file does not exist.
    Unknown,
    Used,
    /// Another file has a pending change.
    Other(String),
    /// No file has a pending change.
    Idle,
    /// The new contents are invalid, for this reason.
    Unfit(String),
}

/// Why a line of a list was not added or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRefusal {
    /// The list does not exist.
    UnknownList,
    /// The certificate does not exist.
    UnknownCertificate,
    /// The certificate exists but is not in this list.
    NotListed,
    /// The certificate is still empty.
    Empty,
    /// The certificate is in several lines, with these numbers.
    Several(Vec<usize>),
    /// The certificate is not in the given line, but in these.
    WrongLine(Vec<usize>),
    /// The certificate is the default of these `bind` lines, `file:line` each.
    Default(Vec<String>),
    /// The line is invalid, for this reason.
    Unfit(String),
}

/// A line of a certificate list (`crt-list`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListLine {
    pub number: usize,
    pub certificate: String,
    /// The options of the line, without brackets.
    pub options: String,
    /// Names that select the certificate. `!` before a name excludes it.
    pub filters: Vec<String>,
}

/// A server name that selects a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedName {
    /// The frontend and the location of the `bind` line.
    pub place: String,
    /// The name. `*` for names without a certificate of their own.
    pub name: String,
    /// Names excluded from a wildcard.
    pub except: Vec<String>,
    /// The key algorithm.
    pub algorithm: &'static str,
    pub certificate: String,
    /// The beginning of the validity.
    pub not_before: String,
    pub not_after: String,
}

/// An OCSP response, in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspEntry {
    /// The identifier of the certificate (`CertID`) as DER in hexadecimal digits.
    pub key: String,
    /// The path of a certificate that the response is about.
    pub path: String,
    /// The fields of `key` as text of several lines.
    pub id: String,
}

/// An OCSP response in two forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspView {
    /// The response as text of several lines.
    pub text: String,
    /// The DER of the response, in base64.
    pub base64: String,
}

/// Why an OCSP response was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OcspRefusal {
    /// The input is not base64.
    NotBase64,
    /// The response cannot be stapled, for this reason.
    Unfit(String),
}

/// A file of keys for session tickets (`tls-ticket-keys`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketKeyFile {
    pub file: String,
    /// The keys in base64, the oldest first.
    pub secrets: Vec<String>,
}

/// Why a ticket key was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketKeyRefusal {
    /// The file does not exist.
    UnknownFile,
    /// The key is not base64.
    NotBase64,
    /// The length of the key differs from the others' length.
    WrongSize,
}
