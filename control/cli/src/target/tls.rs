//! What TLS is made of, as commands see and change it.

pub use weir_tls::views::{
    ListLine, ListRefusal, OcspEntry, OcspRefusal, OcspView, ServedName, TicketKeyFile, TicketKeyRefusal,
    TlsFileKind, TlsFileName, TlsFileView, TlsRefusal,
};

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
