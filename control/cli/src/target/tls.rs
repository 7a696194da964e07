//! What TLS is made of, as commands see and change it: files that are held in memory, and the lists that name certificates.

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFileKind {
    /// A certificate with its key.
    Certificate,
    /// Certificates of authorities.
    Authorities,
    /// Lists of what those revoked.
    Revocations,
}

/// A file, in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFileName {
    /// What it is called.
    pub name: String,
    /// How many certificates or lists it holds.
    pub count: usize,
}

/// A file and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFileView {
    /// It is used.
    pub used: bool,
    /// The files and settings of a certificate, one a line.
    pub origin: String,
    /// Each certificate or list in words, several lines each.
    pub parts: Vec<String>,
    /// Those above a certificate, in words.
    pub chain: String,
}

/// Why a file was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsRefusal {
    /// There is one of that name.
    Exists,
    /// There is none of that name.
    Unknown,
    /// It is used.
    Used,
    /// Another file is being changed.
    Other(String),
    /// None is being changed.
    Idle,
    /// What it shall hold cannot be used, for this reason.
    Unfit(String),
}

/// Why a line of a list was not added or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRefusal {
    /// There is no such list.
    UnknownList,
    /// There is no such certificate.
    UnknownCertificate,
    /// The certificate is there and not in the list.
    NotListed,
    /// The certificate holds nothing yet.
    Empty,
    /// It stands in these lines.
    Several(Vec<usize>),
    /// It stands in these lines and not in that one.
    WrongLine(Vec<usize>),
    /// Its certificate is the default one of the `bind` lines here, `file:line` each.
    Default(Vec<String>),
    /// The line cannot be used, for this reason.
    Unfit(String),
}

/// A line of a list of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListLine {
    /// Its number.
    pub number: usize,
    /// The certificate.
    pub certificate: String,
    /// What it is used with, without brackets.
    pub options: String,
    /// Names that it is for, and behind `!` names that it is not for.
    pub filters: Vec<String>,
}

/// A name that certificates are chosen by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedName {
    /// The frontend, and where its line stands.
    pub place: String,
    /// The name; `*` for those that nobody else serves.
    pub name: String,
    /// Names that a wildcard is kept from.
    pub except: Vec<String>,
    /// The kind of its key.
    pub algorithm: &'static str,
    /// The certificate.
    pub certificate: String,
    /// From when it is good.
    pub not_before: String,
    /// Until when.
    pub not_after: String,
}

/// An OCSP response, in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspEntry {
    /// What it is called: which certificate it is about, in hexadecimal digits.
    pub key: String,
    /// A certificate that it is about.
    pub path: String,
    /// What the key says, in words, several lines.
    pub id: String,
}

/// An OCSP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspView {
    /// What it says, several lines.
    pub text: String,
    /// As it came.
    pub base64: String,
}

/// An OCSP response that is renewed by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspUpdate {
    /// What it is called.
    pub key: String,
    /// The first certificate that shows it.
    pub path: String,
    /// When it is asked for next, in seconds since 1970.
    pub due: u64,
    /// When it was renewed last.
    pub renewed: Option<u64>,
    /// How often it was renewed.
    pub successes: u64,
    /// How often it was not.
    pub failures: u64,
    /// What came of the last update: the manual's number.
    pub code: u8,
    /// The same in words.
    pub text: String,
}

/// An answer that somebody else works on. The session's task is woken once it is there.
pub trait Later {
    /// The answer, once.
    fn take(&mut self) -> Option<String>;
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
    /// Its name.
    pub file: String,
    /// Its keys in base64, the oldest first.
    pub secrets: Vec<String>,
}

/// Why a key for tickets was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketKeyRefusal {
    /// There is no such file.
    UnknownFile,
    /// The key is not base64.
    NotBase64,
    /// The key is not as long as the others.
    WrongSize,
}

/// What commands ask about TLS and change of it. A file is changed in two steps: `set` says what it shall hold, `commit` has it used,
/// by all workers at once; one file of each kind at a time.
pub trait TlsTarget {
    /// The files of a kind: the one that is being changed, and all by name.
    fn tls_files(&self, kind: TlsFileKind) -> (Option<TlsFileName>, Vec<TlsFileName>);

    /// What a file holds, or will hold.
    fn tls_file(&self, kind: TlsFileKind, name: &str, pending: bool) -> Option<TlsFileView>;

    /// A certificate's key, itself and its chain, as PEM.
    fn certificate_pem(&self, name: &str, pending: bool) -> Option<String>;

    /// Makes an empty file.
    ///
    /// # Errors
    /// When there is one.
    fn new_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal>;

    /// Says what a file shall hold, or hold beside what it holds (`add`); whether that began a change.
    ///
    /// # Errors
    /// When that cannot be.
    fn set_tls_file(
        &mut self,
        kind: TlsFileKind,
        name: &str,
        text: &str,
        add: bool,
    ) -> Result<bool, TlsRefusal>;

    /// Has what was set used; how many places use it.
    ///
    /// # Errors
    /// When it cannot be used: nothing has changed then.
    fn commit_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<usize, TlsRefusal>;

    /// Forgets what was set.
    ///
    /// # Errors
    /// When nothing was.
    fn abort_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal>;

    /// Forgets a file.
    ///
    /// # Errors
    /// When it is used or unknown.
    fn delete_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal>;

    /// The lists of certificates, by name.
    fn certificate_lists(&self) -> Vec<String>;

    /// The lines of a list.
    fn certificate_list(&self, name: &str) -> Option<Vec<ListLine>>;

    /// Adds a line to a list, as files have them; the certificate that it names.
    ///
    /// # Errors
    /// When that cannot be.
    fn add_list_line(&mut self, list: &str, line: &str) -> Result<String, ListRefusal>;

    /// Deletes a line of a list: the only one of a certificate, or that of this number.
    ///
    /// # Errors
    /// When there is none, or several, or a `bind` line has the certificate as its default.
    fn delete_list_line(
        &mut self,
        list: &str,
        certificate: &str,
        number: Option<usize>,
    ) -> Result<(), ListRefusal>;

    /// The OCSP responses, by key.
    fn ocsp_responses(&self) -> Vec<OcspEntry>;

    /// One of them, by its key or by the path of a certificate; with `pending` that of the certificate that is being changed.
    fn ocsp_response(&self, name: &str, pending: bool) -> Option<OcspView>;

    /// Has a new one, in base64, shown by the certificates that it is about.
    ///
    /// # Errors
    /// When it is damaged, too old, or about none of them.
    fn set_ocsp_response(&mut self, text: &str) -> Result<(), OcspRefusal>;

    /// The OCSP responses that are renewed by themselves: what is due first comes first.
    fn ocsp_updates(&self) -> Vec<OcspUpdate>;

    /// Renews the OCSP response of a certificate now; what it says then, or why it was not renewed.
    ///
    /// # Errors
    /// Why nobody can be asked, without newline.
    fn update_ocsp(&mut self, certificate: &str) -> Result<Box<dyn Later>, String>;

    /// Sends an HTTP request of the process itself; the answer as it came.
    ///
    /// # Errors
    /// Why it cannot be sent, without newline.
    fn request(&mut self, method: &str, url: &str) -> Result<Box<dyn Later>, String>;

    /// The files of keys for tickets: their places in this list are their numbers.
    fn ticket_keys(&self) -> Vec<TicketKeyFile>;

    /// Puts a key, in base64, behind those of a file, and forgets the oldest.
    ///
    /// # Errors
    /// When there is no such file, or the key is of another kind.
    fn push_ticket_key(&mut self, file: &str, key: &str) -> Result<(), TicketKeyRefusal>;

    /// The names that certificates are chosen by, of a frontend or of all: those that end before a moment, in seconds since 1970, if
    /// one is given. None where there is no such frontend.
    fn served_names(&self, frontend: Option<&str>, ending_before: Option<i64>) -> Option<Vec<ServedName>>;
}
