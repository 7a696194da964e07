//! Deterministic sessions: random numbers, shared secret and certificate are constants. Two handshakes with the same settings have
//! the same bytes and the same keys.

use std::sync::Arc;
use std::time::Duration;

use weir_client_hello::ClientHello;
use weir_tls::clock::{TimeProvider, UnixTime};
use weir_tls::rustls::client::Resumption;
use weir_tls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use weir_tls::rustls::crypto::aws_lc_rs::default_provider;
use weir_tls::rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use weir_tls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use weir_tls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, NamedGroup, ServerConfig, SignatureScheme,
    SupportedCipherSuite, version,
};
use weir_tls::{ChooseServer, SessionFailure, SessionSetup};

/// Constant random numbers, time and key exchange.
#[derive(Debug)]
struct Constant;

impl SecureRandom for Constant {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        bytes.fill(7);
        Ok(())
    }
}

impl SupportedKxGroup for Constant {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        Ok(Box::new(Constant))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl TimeProvider for Constant {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000)))
    }
}

impl ActiveKeyExchange for Constant {
    fn complete(self: Box<Self>, _: &[u8]) -> Result<SharedSecret, Error> {
        Ok(SharedSecret::from(&[9; 32][..]))
    }

    fn pub_key(&self) -> &[u8] {
        &[8; 32]
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// The same settings for every ClientHello.
#[derive(Debug)]
pub(crate) struct Server(pub Arc<ServerConfig>);

impl ChooseServer for Server {
    fn choose(&self, _: &ClientHello<'_>) -> Result<SessionSetup, SessionFailure> {
        Ok(SessionSetup { config: Arc::clone(&self.0), certificate: None, verifier: None })
    }
}

/// A client that trusts every server.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// The settings of both sides, with this cipher and its TLS version.
pub(crate) fn configs(suite: SupportedCipherSuite) -> (ClientConfig, ServerConfig) {
    let provider = Arc::new(CryptoProvider {
        cipher_suites: vec![suite],
        kx_groups: vec![&Constant],
        secure_random: &Constant,
        ..default_provider()
    });
    let versions = [if suite.tls13().is_some() { &version::TLS13 } else { &version::TLS12 }];
    // Ed25519 signatures are deterministic.
    let certificate = vec![CertificateDer::from(&include_bytes!("site.der")[..])];
    let key = PrivatePkcs8KeyDer::from(&include_bytes!("site.key.der")[..]).into();
    let mut server = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(Constant))
        .with_protocol_versions(&versions)
        .expect("a cipher of the version")
        .with_no_client_auth()
        .with_single_cert(certificate, key)
        .expect("a certificate with its key");
    let mut client = ClientConfig::builder_with_details(provider, Arc::new(Constant))
        .with_protocol_versions(&versions)
        .expect("a cipher of the version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting))
        .with_no_client_auth();
    // Tickets are encrypted with a random number from the library.
    server.send_tls13_tickets = 0;
    client.resumption = Resumption::disabled();
    (server.enable_secret_extraction, client.enable_secret_extraction) = (true, true);
    (client, server)
}
