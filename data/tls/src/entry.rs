//! A listener's certificate with its settings.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::UnixTime;

use crate::certificate::Certificate;
use crate::settings::Base;
use weir_tls_session::SessionSetup;

/// A certificate of a listener, with its settings.
#[derive(Clone, Debug)]
pub struct ListenerCertificate {
    certificate: Arc<Certificate>,
    /// The settings without a certificate.
    base: Arc<Base>,
    /// The settings with this certificate.
    config: Arc<ServerConfig>,
    part: Arc<CertificateScope>,
}

/// The clients that a certificate is for, and its position in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateScope {
    /// The server names that select the certificate. `!` before a name excludes it. Empty for the names in the certificate.
    pub filters: Vec<Box<str>>,
    /// Whether it also serves clients with an unknown or no SNI.
    pub is_default: bool,
    /// The certificate list (`crt-list`) and the line number in it.
    pub line: Option<(Box<str>, usize)>,
}

impl ListenerCertificate {
    /// A certificate with its settings.
    pub fn new(
        certificate: &Arc<Certificate>,
        base: &Arc<Base>,
        part: CertificateScope,
    ) -> ListenerCertificate {
        ListenerCertificate {
            certificate: Arc::clone(certificate),
            base: Arc::clone(base),
            config: base.with(certificate),
            part: Arc::new(part),
        }
    }

    /// The same entry with another certificate.
    #[must_use]
    pub fn with_certificate(&self, certificate: &Arc<Certificate>) -> ListenerCertificate {
        ListenerCertificate {
            certificate: Arc::clone(certificate),
            config: self.base.with(certificate),
            ..self.clone()
        }
    }

    /// The certificate, shared with other listeners that use it.
    pub fn certificate(&self) -> &Arc<Certificate> {
        &self.certificate
    }

    /// The current time, for its handshakes.
    pub(crate) fn now(&self) -> Option<UnixTime> {
        self.base.now()
    }

    /// Whether TLS 1.3 can be negotiated with this certificate.
    pub(crate) fn speaks_tls13(&self) -> bool {
        self.base.tls13
    }

    /// The clients that the certificate is for.
    pub fn part(&self) -> &CertificateScope {
        &self.part
    }

    /// Whether the same names select this entry and `other`.
    pub(crate) fn is_found_like(&self, other: &ListenerCertificate) -> bool {
        let (own, others) = (&self.certificate, &other.certificate);
        Arc::ptr_eq(&self.part, &other.part)
            && (Arc::ptr_eq(own, others)
                || (own.names == others.names
                    && own.algorithm == others.algorithm
                    && own.path == others.path))
    }

    pub(crate) fn chosen(&self) -> SessionSetup {
        SessionSetup {
            config: Arc::clone(&self.config),
            certificate: Some(Arc::clone(&self.certificate) as _),
            verifier: self.base.verifier.clone(),
        }
    }

    /// The server names that select the certificate.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let wanted = || self.part.filters.iter().filter(|filter| !filter.starts_with('!'));
        let own = wanted().next().is_none().then_some(&self.certificate.names);
        wanted().chain(own.into_iter().flatten()).map(|name| &**name)
    }
}
