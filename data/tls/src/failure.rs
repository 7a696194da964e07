//! Why a session carries nothing, or nothing any more.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};

/// An alert of RFC 8446, 6.
pub type Alert = AlertDescription;

/// What broke a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of thing it was.
    pub why: Why,
    /// What either side told the other, if anything was told.
    pub alert: Option<Alert>,
}

/// What kind of thing broke a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The peer speaks HTTP in clear.
    PlainHttp,
    /// The peer speaks something else.
    NotTls,
    /// The peer speaks no version that is allowed here.
    Version,
    /// The two have no cipher in common.
    Cipher,
    /// The two have no group or no signature scheme in common, or another thing that both need.
    Incompatible,
    /// The two have no application protocol in common.
    Protocol,
    /// Nobody has a certificate for the name that the client wants (`strict-sni`).
    UnknownName,
    /// The client sent no certificate, and had to.
    NoCertificate,
    /// The peer's certificate was refused.
    Certificate,
    /// Who issued the peer's certificate is not trusted.
    Untrusted,
    /// The peer's certificate is for somebody else.
    WrongName,
    /// The peer broke the rules of the protocol.
    Misbehaved,
    /// What came was changed on its way, or encrypted by somebody else.
    Corrupt,
    /// The peer said by an alert that it does not go on.
    PeerAlert,
    /// The peer went away.
    Closed,
    /// It took too long.
    TimedOut,
    /// The process has as many sessions as it may (`maxsslconn`).
    TooMany,
    /// Something here does not work.
    Internal,
}

impl Failure {
    /// Something here does not work.
    pub const INTERNAL: Failure = Failure { why: Why::Internal, alert: Some(Alert::InternalError) };

    /// A failure without an alert.
    pub const fn because(why: Why) -> Failure {
        Failure { why, alert: None }
    }

    /// A fault of the peer that this alert tells it.
    pub(crate) const fn of(alert: Alert) -> Failure {
        let why = match alert {
            Alert::BadRecordMac => Why::Corrupt,
            _ => Why::Misbehaved,
        };
        Failure { why, alert: Some(alert) }
    }

    /// What rustls says.
    pub(crate) fn from_rustls(error: &Error) -> Failure {
        let why = match error {
            Error::AlertReceived(alert) => return Failure { why: Why::PeerAlert, alert: Some(*alert) },
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
            Error::InvalidCertificate(CertificateError::NotValidForName)
            | Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. }) => Why::WrongName,
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => Why::Untrusted,
            Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => Why::Certificate,
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Why::NotTls,
            Error::DecryptError => Why::Corrupt,
            Error::PeerMisbehaved(PeerMisbehaved::TooManyEmptyFragments) => Why::Misbehaved,
            Error::General(_) | Error::FailedToGetCurrentTime | Error::FailedToGetRandomBytes => {
                Why::Internal
            }
            _ => Why::Misbehaved,
        };
        Failure { why, alert: None }
    }
}

impl fmt::Display for Failure {
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
            Why::Untrusted => "who issued the certificate is not trusted",
            Why::WrongName => "the certificate is for another name",
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
