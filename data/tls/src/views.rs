//! What operators see of TLS and change: files that are held in memory, and the lists that name certificates.

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFileKind {
    /// A certificate with its key.
    Certificate,
    Authorities,
    /// Lists of what those revoked.
    Revocations,
}

/// A file, in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFileName {
    pub name: String,
    /// How many certificates or lists it holds.
    pub count: usize,
}

/// A file and its contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFileView {
    pub used: bool,
    /// The files and settings of a certificate, one a line.
    pub origin: String,
    /// Each certificate or list in words, several lines each.
    pub parts: Vec<String>,
    /// The certificates above it, in words.
    pub chain: String,
}

/// Why a file was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsRefusal {
    /// A file of that name exists.
    Exists,
    /// The file does not exist.
    Unknown,
    Used,
    /// Another file is being changed.
    Other(String),
    /// No file is being changed.
    Idle,
    /// The new contents cannot be used, for this reason.
    Unfit(String),
}

/// Why a line of a list was not added or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRefusal {
    /// The list does not exist.
    UnknownList,
    /// The certificate does not exist.
    UnknownCertificate,
    /// The certificate exists but is not in the list.
    NotListed,
    /// The certificate is empty so far.
    Empty,
    /// It is in these lines.
    Several(Vec<usize>),
    /// It is in these lines, but not in that one.
    WrongLine(Vec<usize>),
    /// Its certificate is the default one of the `bind` lines here, `file:line` each.
    Default(Vec<String>),
    /// The line cannot be used, for this reason.
    Unfit(String),
}

/// A line of a list of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListLine {
    pub number: usize,
    pub certificate: String,
    /// The options of the line, without brackets.
    pub options: String,
    /// Names that it is for, and behind `!` names that it is not for.
    pub filters: Vec<String>,
}

/// A name that certificates are chosen by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedName {
    /// The frontend, and where its line stands.
    pub place: String,
    /// The name; `*` for names without a certificate of their own.
    pub name: String,
    /// Names that a wildcard is kept from.
    pub except: Vec<String>,
    /// The kind of its key.
    pub algorithm: &'static str,
    pub certificate: String,
    /// From when it is good.
    pub not_before: String,
    pub not_after: String,
}

/// An OCSP response, in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspEntry {
    /// Its name: the identifier of its certificate, in hexadecimal digits.
    pub key: String,
    /// A certificate that it is about.
    pub path: String,
    /// The contents of the key, in words, several lines.
    pub id: String,
}

/// An OCSP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspView {
    /// The response in words, several lines.
    pub text: String,
    /// The response verbatim, in base64.
    pub base64: String,
}

/// Why an OCSP response was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OcspRefusal {
    /// It is not base64.
    NotBase64,
    /// It cannot be shown, for this reason.
    Unfit(String),
}

/// A file of keys for session tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketKeyFile {
    pub file: String,
    /// Its keys in base64, the oldest first.
    pub secrets: Vec<String>,
}

/// Why a key for tickets was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketKeyRefusal {
    /// The file does not exist.
    UnknownFile,
    /// The key is not base64.
    NotBase64,
    /// The key is not as long as the others.
    WrongSize,
}
