//! Failures of sessions.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};

use crate::verify::WrongCurve;

/// An alert of RFC 8446, 6.
pub type Alert = AlertDescription;

/// Why a session failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionFailure {
    /// The kind of failure.
    pub why: Why,
    /// The alert that either side sent, if any.
    pub alert: Option<Alert>,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The peer sent cleartext HTTP.
    PlainHttp,
    /// The peer sent another protocol than TLS.
    NotTls,
    /// The peer supports none of the allowed versions.
    Version,
    /// The two sides lack a common cipher.
    Cipher,
    /// The two sides lack a common group, signature scheme or other required parameter.
    Incompatible,
    /// The two sides lack a common application protocol (ALPN).
    Protocol,
    /// The client's SNI does not match any certificate (`strict-sni`).
    UnknownName,
    /// The client sent no certificate, but one is required.
    NoCertificate,
    /// The peer's certificate was rejected.
    Certificate,
    /// The key of the peer's certificate is on a curve that `curves` does not allow.
    Curve,
    /// The issuer of the peer's certificate is not trusted.
    Untrusted,
    /// The server's certificate is for another name than the requested one (`sni`).
    WrongName,
    /// The server's certificate is for another name than the configured one (`verifyhost`).
    WrongHost,
    /// The peer violated the protocol.
    Misbehaved,
    /// A record could not be decrypted: it was modified, or encrypted with another key.
    Corrupt,
    /// The peer sent a fatal alert.
    PeerAlert,
    /// The peer closed the connection.
    Closed,
    /// The handshake timed out.
    TimedOut,
    /// The limit of sessions is reached (`maxsslconn`).
    TooMany,
    Internal,
}

impl SessionFailure {
    /// An internal error.
    pub const INTERNAL: SessionFailure =
        SessionFailure { why: Why::Internal, alert: Some(Alert::InternalError) };

    /// A failure without an alert.
    pub const fn because(why: Why) -> SessionFailure {
        SessionFailure { why, alert: None }
    }

    /// A protocol violation by the peer, which receives this alert.
    pub const fn of(alert: Alert) -> SessionFailure {
        let why = match alert {
            Alert::BadRecordMac => Why::Corrupt,
            _ => Why::Misbehaved,
        };
        SessionFailure { why, alert: Some(alert) }
    }

    /// The failure for an error of rustls.
    pub fn from_rustls(error: &Error) -> SessionFailure {
        let why = match error {
            Error::AlertReceived(alert) => {
                return SessionFailure { why: Why::PeerAlert, alert: Some(*alert) };
            }
            Error::PeerIncompatible(what) => match what {
                PeerIncompatible::NoCipherSuitesInCommon => Why::Cipher,
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::Tls13RequiredForQuic
                | PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => Why::Version,
                _ => Why::Incompatible,
            },
            Error::NoApplicationProtocol => Why::Protocol,
            Error::NoCertificatesPresented => Why::NoCertificate,
            Error::InvalidCertificate(CertificateError::NotValidForName) => Why::WrongName,
            Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. }) => Why::WrongHost,
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => Why::Untrusted,
            Error::InvalidCertificate(CertificateError::Other(other)) if other.0.is::<WrongCurve>() => {
                Why::Curve
            }
            Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => Why::Certificate,
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Why::NotTls,
            Error::DecryptError => Why::Corrupt,
            Error::PeerMisbehaved(PeerMisbehaved::TooManyEmptyFragments) => Why::Misbehaved,
            Error::General(_) | Error::FailedToGetCurrentTime | Error::FailedToGetRandomBytes => {
                Why::Internal
            }
            _ => Why::Misbehaved,
        };
        SessionFailure { why, alert: None }
    }
}

impl fmt::Display for SessionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.why {
            Why::PlainHttp => "the client speaks HTTP in clear",
            Why::NotTls => "the peer does not speak TLS",
            Why::Version => "no TLS version in common",
            Why::Cipher => "no cipher in common",
            Why::Incompatible => "no key exchange or signature in common",
            Why::Protocol => "no application protocol in common",
            Why::UnknownName => "no certificate for that name",
            Why::NoCertificate => "no certificate came",
            Why::Certificate => "the certificate was refused",
            Why::Curve => "the certificate is on a curve that may not be used",
            Why::Untrusted => "who issued the certificate is not trusted",
            Why::WrongName | Why::WrongHost => "the certificate is for another name",
            Why::Misbehaved => "a message that breaks the protocol",
            Why::Corrupt => "a record that cannot be decrypted",
            Why::PeerAlert => "the peer refused",
            Why::Closed => "the peer went away",
            Why::TimedOut => "it took too long",
            Why::TooMany => "too many SSL connections (maxsslconn)",
            Why::Internal => "an internal error",
        })?;
        match self.alert {
            Some(alert) => write!(f, " ({alert:?})"),
            None => Ok(()),
        }
    }
}
