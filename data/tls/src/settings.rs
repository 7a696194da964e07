//! TLS settings for listeners and servers, ready to use.

use std::sync::Arc;

use rustls::client::{ClientSessionMemoryCache, Resumption, Tls12Resumption};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::UnixTime;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, StoresServerSessions,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{
    ClientConfig, Error, KeyLog, NoKeyLog, ServerConfig, SignatureScheme, SupportedCipherSuite,
    SupportedProtocolVersion, version,
};

use crate::certificate::Certificate;
use crate::signatures::limited;
use weir_tls_session::ciphers;
use weir_tls_session::verify::{Verifier, VerifyMode};
use weir_tls_session::with_our_schedule;

/// Settings that listeners and servers share.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// Whether TLS 1.2 is enabled.
    pub tls12: bool,
    /// Whether TLS 1.3 is enabled.
    pub tls13: bool,
    /// Cipher suites of both versions, the preferred first.
    pub ciphers: Vec<SupportedCipherSuite>,
    /// Groups, the preferred first.
    pub groups: Vec<&'static dyn SupportedKxGroup>,
    /// Application protocols, the preferred first.
    pub protocols: Vec<Vec<u8>>,
    /// Signature schemes allowed for our key, the preferred first. `None` for all schemes that the key supports.
    pub signatures: Option<Arc<[SignatureScheme]>>,
    /// The verifier of the peer's certificate.
    pub verifier: Option<Arc<Verifier>>,
    pub clock: Arc<dyn TimeProvider>,
    /// The key log (`tune.ssl.keylog`), if enabled.
    pub key_log: Option<Arc<dyn KeyLog>>,
}

impl TlsSettings {
    /// Settings with everything that is supported, without verification of the peer.
    pub fn new(clock: Arc<dyn TimeProvider>) -> TlsSettings {
        let ciphers = [ciphers::all_suites(), ciphers::all_ciphers()].concat();
        TlsSettings {
            tls12: true,
            tls13: true,
            ciphers,
            groups: ciphers::all_groups(),
            protocols: Vec::new(),
            signatures: None,
            verifier: None,
            clock,
            key_log: None,
        }
    }

    fn key_log(&self) -> Arc<dyn KeyLog> {
        self.key_log.clone().unwrap_or_else(|| Arc::new(NoKeyLog {}))
    }

    fn provider(&self) -> Arc<CryptoProvider> {
        // A rustls client also offers the cipher suites of a disabled version, so they are removed here.
        let usable = self.ciphers.iter().filter(|suite| match suite.tls13() {
            Some(_) => self.tls13,
            None => self.tls12,
        });
        Arc::new(CryptoProvider {
            cipher_suites: usable.copied().map(with_our_schedule).collect(),
            kx_groups: self.groups.clone(),
            ..aws_lc_rs::default_provider()
        })
    }

    fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let mut versions = Vec::new();
        if self.tls13 {
            versions.push(&version::TLS13);
        }
        if self.tls12 {
            versions.push(&version::TLS12);
        }
        versions
    }
}

/// The TLS settings of a listener: the common ones, and those that only listeners have.
#[derive(Clone, Debug)]
pub struct ListenerSettings {
    pub settings: TlsSettings,
    /// Whether the client's cipher order takes precedence (`prefer-client-ciphers`).
    pub client_order: bool,
    /// Session tickets, if enabled.
    pub tickets: Option<Arc<dyn ProducesTickets>>,
    /// The server-side session cache, for resumption without tickets.
    pub sessions: Option<Arc<dyn StoresServerSessions>>,
    /// The limit of early data from a client, in bytes. 0 disables early data. It requires `sessions` and excludes `tickets`.
    pub early_data: u32,
}

/// Settings of a listener, to be combined with any of its certificates.
#[derive(Debug)]
pub struct Base {
    config: ServerConfig,
    signatures: Option<Arc<[SignatureScheme]>>,
    /// The verifier of client certificates, if they are verified.
    pub(crate) verifier: Option<Arc<Verifier>>,
    /// Whether TLS 1.3 can be negotiated.
    pub(crate) tls13: bool,
}

impl Base {
    /// The current time.
    pub(crate) fn now(&self) -> Option<UnixTime> {
        self.config.time_provider.current_time()
    }

    /// The rustls configuration with this certificate.
    pub(crate) fn with(&self, certificate: &Certificate) -> Arc<ServerConfig> {
        let mut config = self.config.clone();
        let shown = limited(&certificate.certified, self.signatures.as_ref());
        config.cert_resolver = match certificate.response() {
            None => Arc::new(SingleCertAndKey::from(shown)),
            Some(response) => {
                let mut bare = CertifiedKey::clone(&shown);
                bare.ocsp = None;
                Arc::new(StapledCertificate {
                    shown,
                    bare: Arc::new(bare),
                    good_until: response.good_until(),
                    clock: Arc::clone(&config.time_provider),
                })
            }
        };
        Arc::new(config)
    }
}

impl ListenerSettings {
    /// Builds the settings for rustls.
    ///
    /// # Errors
    /// When the ciphers, groups and versions are incompatible.
    pub fn build(&self) -> Result<Base, Error> {
        let settings = &self.settings;
        let builder = ServerConfig::builder_with_details(settings.provider(), Arc::clone(&settings.clock))
            .with_protocol_versions(&settings.versions())?;
        let verifier = settings.verifier.as_ref().filter(|verifier| verifier.mode != VerifyMode::None);
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier) as _),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(NoCertificate));
        config.alpn_protocols.clone_from(&settings.protocols);
        config.ignore_client_order = !self.client_order;
        config.enable_secret_extraction = true;
        config.session_storage = match &self.sessions {
            Some(sessions) => Arc::clone(sessions),
            None => Arc::new(NoServerSessionStorage {}),
        };
        match &self.tickets {
            Some(tickets) => config.ticketer = Arc::clone(tickets),
            None => config.send_tls13_tickets = if self.sessions.is_some() { TICKETS } else { 0 },
        }
        // Early data needs single-use tickets. rustls does not issue them if tickets carry the session itself.
        config.max_early_data_size = self.early_data;
        config.send_half_rtt_data = self.early_data > 0;
        config.key_log = settings.key_log();
        Ok(Base {
            config,
            signatures: settings.signatures.clone(),
            verifier: verifier.cloned(),
            tls13: settings.tls13,
        })
    }
}

/// A certificate with an OCSP response that is stapled until it expires.
#[derive(Debug)]
struct StapledCertificate {
    shown: Arc<CertifiedKey>,
    /// The certificate without the response.
    bare: Arc<CertifiedKey>,
    /// The expiry of the OCSP response, in seconds since 1970.
    good_until: u64,
    clock: Arc<dyn TimeProvider>,
}

impl ResolvesServerCert for StapledCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_good = self.clock.current_time().is_some_and(|now| now.as_secs() <= self.good_until);
        Some(Arc::clone(if is_good { &self.shown } else { &self.bare }))
    }
}

/// The certificate resolver until a certificate is set. It returns `None`.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// How sessions with a server are resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionReuse {
    /// By tickets or session identifiers.
    Tickets,
    /// By session identifiers only. TLS 1.3 still uses tickets (`no-tls-tickets`).
    SessionIds,
    /// Never (`no-ssl-reuse`).
    Never,
}

/// The settings for connections to a server, with a client certificate if one is configured.
///
/// # Errors
/// When the ciphers, groups and versions are incompatible.
pub fn client_config(
    settings: &TlsSettings,
    verifier: Arc<Verifier>,
    certificate: Option<&Certificate>,
    sends_name: bool,
    reuse: SessionReuse,
) -> Result<Arc<ClientConfig>, Error> {
    let builder = ClientConfig::builder_with_details(settings.provider(), Arc::clone(&settings.clock))
        .with_protocol_versions(&settings.versions())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match certificate {
        Some(certificate) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(limited(
            &certificate.certified,
            settings.signatures.as_ref(),
        )))),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols.clone_from(&settings.protocols);
    config.enable_secret_extraction = true;
    config.enable_sni = sends_name;
    config.key_log = settings.key_log();
    let sessions = || Resumption::store(Arc::new(ClientSessionMemoryCache::new(SESSIONS_OF_A_SERVER)));
    config.resumption = match reuse {
        SessionReuse::Tickets => sessions().tls12_resumption(Tls12Resumption::SessionIdOrTickets),
        SessionReuse::SessionIds => sessions().tls12_resumption(Tls12Resumption::SessionIdOnly),
        SessionReuse::Never => Resumption::disabled(),
    };
    Ok(Arc::new(config))
}

/// The number of tickets sent to a TLS 1.3 client, as in OpenSSL.
const TICKETS: usize = 2;
/// The limit of server names with cached sessions, for each server.
const SESSIONS_OF_A_SERVER: usize = 64;
