//! TLS files, OCSP responses and ticket keys, as the commands read and change them.

pub use weir_tls::views::{
    ListLine, ListRefusal, OcspEntry, OcspRefusal, OcspView, ServedName, TicketKeyFile, TicketKeyRefusal,
    TlsFileKind, TlsFileName, TlsFileView, TlsRefusal,
};

/// An OCSP response that is renewed automatically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspUpdate {
    /// The key of the response, used as its name in commands.
    pub key: String,
    /// Path of the first certificate with this response.
    pub path: String,
    /// When its next update is due, in seconds since 1970.
    pub due: u64,
    /// The time of the last renewal.
    pub renewed: Option<u64>,
    /// How often it was renewed.
    pub successes: u64,
    /// How often an update failed.
    pub failures: u64,
    /// Numeric result of the last update (management manual).
    pub code: u8,
    /// The result of the last update in words.
    pub text: String,
}

/// A result that another task prepares. It wakes the session's task when the result is ready.
pub trait Later {
    /// The result. `None` before it is ready, and after it was taken.
    fn take(&mut self) -> Option<String>;
}

/// Operations on TLS files. A change takes two steps: `set` stores the new content, `commit` activates it on all workers at
/// once. One change per kind of file at a time.
pub trait TlsTarget {
    /// The files of a kind: the one with a pending change, and all files by name.
    fn tls_files(&self, kind: TlsFileKind) -> (Option<TlsFileName>, Vec<TlsFileName>);

    /// The active or the pending content of a file.
    fn tls_file(&self, kind: TlsFileKind, name: &str, pending: bool) -> Option<TlsFileView>;

    /// A certificate with its key and chain, as PEM.
    fn certificate_pem(&self, name: &str, pending: bool) -> Option<String>;

    /// Creates an empty file.
    ///
    /// # Errors
    /// If the file exists already.
    fn new_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal>;

    /// Replaces the pending content of a file, or appends to it (`add`). Returns whether this started a new change.
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

    /// Activates the pending content. Returns the number of places that use the file.
    ///
    /// # Errors
    /// If the content cannot be used. Nothing has changed then.
    fn commit_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<usize, TlsRefusal>;

    /// Discards the pending content.
    ///
    /// # Errors
    /// Without pending content.
    fn abort_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal>;

    /// Removes a file from memory.
    ///
    /// # Errors
    /// If it is used or unknown.
    fn delete_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal>;

    /// The lists of certificates, by name.
    fn certificate_lists(&self) -> Vec<String>;

    fn certificate_list(&self, name: &str) -> Option<Vec<ListLine>>;

    /// Adds a line in `crt-list` syntax to a list. Returns the name of its certificate.
    ///
    /// # Errors
    /// If the line is invalid.
    fn add_list_line(&mut self, list: &str, line: &str) -> Result<String, ListRefusal>;

    /// Deletes a line of a list: the only line of a certificate, or the line with this number.
    ///
    /// # Errors
    /// If no line matches, several lines match, or a `bind` line uses the certificate as its default.
    fn delete_list_line(
        &mut self,
        list: &str,
        certificate: &str,
        number: Option<usize>,
    ) -> Result<(), ListRefusal>;

    /// The OCSP responses, by key.
    fn ocsp_responses(&self) -> Vec<OcspEntry>;

    /// The OCSP response with this key or certificate path. `pending` selects the response of the certificate with a pending change.
    fn ocsp_response(&self, name: &str, pending: bool) -> Option<OcspView>;

    /// Installs an OCSP response, in base64, for all certificates that it covers.
    ///
    /// # Errors
    /// If the response is malformed, outdated, or does not match any certificate.
    fn set_ocsp_response(&mut self, text: &str) -> Result<(), OcspRefusal>;

    /// The OCSP responses with automatic updates, ordered by the next update.
    fn ocsp_updates(&self) -> Vec<OcspUpdate>;

    /// Updates the OCSP response of a certificate now. Returns the new response as text, or the reason for the failure.
    ///
    /// # Errors
    /// If no responder can be queried: the reason, without newline.
    fn update_ocsp(&mut self, certificate: &str) -> Result<Box<dyn Later>, String>;

    /// Sends an HTTP request from the process itself. Returns the response verbatim.
    ///
    /// # Errors
    /// If the request cannot be sent: the reason, without newline.
    fn request(&mut self, method: &str, url: &str) -> Result<Box<dyn Later>, String>;

    /// The files of ticket keys. A file's number is its index in this list.
    fn ticket_keys(&self) -> Vec<TicketKeyFile>;

    /// Appends a base64 ticket key to the keys of a file, and drops the oldest key.
    ///
    /// # Errors
    /// If the file is unknown, or the key has a different length from the others.
    fn push_ticket_key(&mut self, file: &str, key: &str) -> Result<(), TicketKeyRefusal>;

    /// The server names that select certificates, of one frontend or of all. With `ending_before`, only those with a certificate
    /// that expires before this time, in seconds since 1970. `None` for an unknown frontend.
    fn served_names(&self, frontend: Option<&str>, ending_before: Option<i64>) -> Option<Vec<ServedName>>;
}
