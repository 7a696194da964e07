//! Files that `bind` lines without `ssl` name. They are unused, but their faults are reported.

use weir_model::{Bind, BindTls, CertificateSource, Location, TlsOptions};

use super::TlsBuilder;

impl TlsBuilder {
    /// Reads the files named by a line without `ssl`: a missing file is still a fault.
    pub(super) fn check_unused(&mut self, bind: &Bind, tls: &BindTls) {
        let subject = format!("'bind {}'", bind.spelling);
        let paths = tls.certificates.iter().filter_map(|source| match source {
            CertificateSource::Path(path) => Some(path),
            CertificateSource::List(_) => None,
        });
        for path in tls.default_certificates.iter().chain(paths) {
            let _ = self.load(path, &subject, &bind.at);
        }
        for source in &tls.certificates {
            if let CertificateSource::List(path) = source {
                self.check_list(bind, path);
            }
        }
        let _ = self.check_files(&tls.options, &subject, &bind.at);
        if let Some(file) = tls.options.ticket_keys.as_deref()
            && let Err(fault) = self.keys_of_tickets(file)
        {
            self.refuse(&bind.at, format!("{subject} : 'tls-ticket-keys' : {fault}"));
        }
    }

    /// Reads each line of a list and the files that it names.
    fn check_list(&mut self, bind: &Bind, path: &str) {
        if let Err(fault) = self.read_list(path) {
            return self.refuse(&bind.at, format!("'bind {}' : 'crt-list' : {fault}", bind.spelling));
        }
        let subject = format!("'bind {}'", bind.spelling);
        for line in self.lists.get(path).cloned().unwrap_or_default() {
            // The options of the `bind` line itself are checked once, by the caller.
            match self.parse_line(path, &line, &TlsOptions::default()) {
                Ok(parsed) => {
                    let at = Location::new(path.into(), line.number as u32);
                    let _ = self.load_listed(&parsed, &subject, &at);
                    let _ = self.check_files(&parsed.options, &subject, &at);
                }
                Err(fault) => return self.refuse_line(bind, path, &line, &fault),
            }
        }
    }
}
