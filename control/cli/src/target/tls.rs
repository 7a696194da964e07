//! TLS files, OCSP responses and ticket keys, as commands see and change them.

pub use weir_tls::views::{
    ListLine, ListRefusal, OcspEntry, OcspRefusal, OcspView, ServedName, TicketKeyFile, TicketKeyRefusal,
    TlsFileKind, TlsFileName, TlsFileView, TlsRefusal,
};

/// An OCSP response that is renewed automatically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspUpdate {
    /// The key of the response, which commands use as its name.
    pub key: String,
    /// The first certificate that shows it.
    pub path: String,
    /// When its next update is due, in seconds since 1970.
    pub due: u64,
    /// The time of the last renewal.
    pub renewed: Option<u64>,
    /// How often it was renewed.
    pub successes: u64,
    /// How often an update failed.
    pub failures: u64,
    /// The result of the last update: the manual's number.
    pub code: u8,
    /// The same in words.
    pub text: String,
}

/// An answer that another task prepares. The session's task is woken once it is there.
pub trait Later {
    /// The answer, once.
    fn take(&mut self) -> Option<String>;
}

/// Operations on TLS files. A file is changed in two steps: `set` gives the new content, `commit` puts it into use, on
/// all workers at once; one file of each kind at a time.
pub trait TlsTarget {
    /// The files of a kind: the one that is being changed, and all by name.
    fn tls_files(&self, kind: TlsFileKind) -> (Option<TlsFileName>, Vec<TlsFileName>);

    /// The content of a file, or its pending content.
    fn tls_file(&self, kind: TlsFileKind, name: &str, pending: bool) -> Option<TlsFileView>;

    /// A certificate's key, itself and its chain, as PEM.
    fn certificate_pem(&self, name: &str, pending: bool) -> Option<String>;

    /// Makes an empty file.
    ///
    /// # Errors
    /// If the file exists already.
    fn new_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal>;

    /// Sets the new content of a file, or adds to its content (`add`). Returns whether that began a change.
    ///
    /// # Errors
    /// If the content is not acceptable.
    fn set_tls_file(
        &mut self,
        kind: TlsFileKind,
        name: &str,
        text: &str,
        add: bool,
    ) -> Result<bool, TlsRefusal>;

    /// Puts the pending content into use. Returns the number of places that use it.
    ///
    /// # Errors
    /// If it cannot be used: nothing has changed then.
    fn commit_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<usize, TlsRefusal>;

    /// Discards the pending content.
    ///
    /// # Errors
    /// Without pending content.
    fn abort_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal>;

    /// Forgets a file.
    ///
    /// # Errors
    /// If it is used or unknown.
    fn delete_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal>;

    /// The lists of certificates, by name.
    fn certificate_lists(&self) -> Vec<String>;

    /// The lines of a list.
    fn certificate_list(&self, name: &str) -> Option<Vec<ListLine>>;

    /// Adds a line to a list, as files have them; the certificate that it names.
    ///
    /// # Errors
    /// If the line is invalid.
    fn add_list_line(&mut self, list: &str, line: &str) -> Result<String, ListRefusal>;

    /// Deletes a line of a list: the only one of a certificate, or that of this number.
    ///
    /// # Errors
    /// If no line matches, or several do, or a `bind` line has the certificate as its default.
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
    /// If it is damaged, too old, or does not concern any certificate.
    fn set_ocsp_response(&mut self, text: &str) -> Result<(), OcspRefusal>;

    /// The OCSP responses that are renewed automatically, in the order of their next updates.
    fn ocsp_updates(&self) -> Vec<OcspUpdate>;

    /// Renews the OCSP response of a certificate now; returns the new response's text, or the reason for a failure.
    ///
    /// # Errors
    /// The reason why no responder can be queried, without newline.
    fn update_ocsp(&mut self, certificate: &str) -> Result<Box<dyn Later>, String>;

    /// Sends an HTTP request of the process itself; returns the response verbatim.
    ///
    /// # Errors
    /// Why it cannot be sent, without newline.
    fn request(&mut self, method: &str, url: &str) -> Result<Box<dyn Later>, String>;

    /// The files of keys for tickets: their places in this list are their numbers.
    fn ticket_keys(&self) -> Vec<TicketKeyFile>;

    /// Puts a key, in base64, behind those of a file, and forgets the oldest.
    ///
    /// # Errors
    /// If the file is unknown, or the key is of another kind.
    fn push_ticket_key(&mut self, file: &str, key: &str) -> Result<(), TicketKeyRefusal>;

    /// The names that certificates are chosen by, of a frontend or of all: those that end before a moment, in seconds since 1970, if
    /// one is given. `None` for an unknown frontend.
    fn served_names(&self, frontend: Option<&str>, ending_before: Option<i64>) -> Option<Vec<ServedName>>;
}
