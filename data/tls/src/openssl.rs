//! OpenSSL's error codes and messages, which log processors and scripts expect.

use std::borrow::Cow;

use weir_tls_session::{SessionFailure, Why};

/// The log text of a failed handshake.
pub fn in_words(failure: SessionFailure) -> Cow<'static, str> {
    match (failure.why, error(failure)) {
        (Why::TimedOut, _) => "Timeout during SSL handshake".into(),
        (Why::Closed, _) => "Connection closed during SSL handshake".into(),
        (_, Some((code, words))) => {
            format!("SSL handshake failure (error:{code:08X}:SSL routines::{words})").into()
        }
        (_, None) => "SSL handshake failure".into(),
    }
}

/// OpenSSL 3's error code and text for a failure. `None` if OpenSSL does not define one.
pub fn error(failure: SessionFailure) -> Option<(u32, &'static str)> {
    let (reason, words) = match failure.why {
        Why::PlainHttp => (0x9c, "http request"),
        Why::NotTls => (0x10b, "wrong version number"),
        Why::Version => (0x102, "unsupported protocol"),
        Why::Cipher => (0xc1, "no shared cipher"),
        Why::Incompatible => (0x118, "no suitable signature algorithm"),
        Why::Protocol => (0xeb, "no application protocol"),
        Why::UnknownName => (0xea, "callback failed"),
        Why::NoCertificate => (0xc7, "peer did not return a certificate"),
        Why::Certificate | Why::Untrusted | Why::WrongName | Why::WrongHost => {
            (0x86, "certificate verify failed")
        }
        Why::Curve => (0x17a, "wrong curve"),
        Why::Misbehaved => (0xf4, "unexpected message"),
        Why::Corrupt => (0x119, "decryption failed or bad record mac"),
        Why::PeerAlert => {
            let alert = u8::from(failure.alert?);
            (ALERTS + u32::from(alert), alert_words(alert)?)
        }
        Why::Internal => (0xc_0103, "internal error"),
        Why::Closed | Why::TimedOut | Why::TooMany => return None,
    };
    Some((SSL + reason, words))
}

/// A failure in OpenSSL's error format. Empty without a failure.
pub fn words_of(failure: Option<SessionFailure>) -> String {
    let error = failure.and_then(error);
    error.map(|(code, words)| format!("error:{code:08X}:SSL routines::{words}")).unwrap_or_default()
}

fn alert_words(alert: u8) -> Option<&'static str> {
    Some(match alert {
        10 => "ssl/tls alert unexpected message",
        20 => "ssl/tls alert bad record mac",
        21 => "tlsv1 alert decryption failed",
        22 => "tlsv1 alert record overflow",
        30 => "ssl/tls alert decompression failure",
        40 => "ssl/tls alert handshake failure",
        41 => "ssl/tls alert no certificate",
        42 => "ssl/tls alert bad certificate",
        43 => "ssl/tls alert unsupported certificate",
        44 => "ssl/tls alert certificate revoked",
        45 => "ssl/tls alert certificate expired",
        46 => "ssl/tls alert certificate unknown",
        47 => "ssl/tls alert illegal parameter",
        48 => "tlsv1 alert unknown ca",
        49 => "tlsv1 alert access denied",
        50 => "tlsv1 alert decode error",
        51 => "tlsv1 alert decrypt error",
        70 => "tlsv1 alert protocol version",
        71 => "tlsv1 alert insufficient security",
        80 => "tlsv1 alert internal error",
        86 => "tlsv1 alert inappropriate fallback",
        90 => "tlsv1 alert user cancelled",
        100 => "tlsv1 alert no renegotiation",
        109 => "tlsv13 alert missing extension",
        110 => "tlsv1 unsupported extension",
        112 => "tlsv1 unrecognized name",
        113 => "tlsv1 bad certificate status response",
        115 => "tlsv1 alert unknown psk identity",
        116 => "tlsv13 alert certificate required",
        120 => "tlsv1 alert no application protocol",
        _ => return None,
    })
}

/// The library number of OpenSSL's TLS errors.
const SSL: u32 = 20 << 23;
/// The first reason code of alerts.
const ALERTS: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_tls_session::Alert;

    #[test]
    fn tls_failures_map_to_openssl_error_numbers() {
        let check =
            |failure: SessionFailure, expected| assert_eq!(error(failure).map(|found| found.0), expected);
        check(SessionFailure::because(Why::PlainHttp), Some(0x0a00_009c));
        check(SessionFailure::because(Why::Version), Some(0x0a00_0102));
        check(SessionFailure { why: Why::PeerAlert, alert: Some(Alert::UnknownCA) }, Some(0x0a00_0418));
        check(SessionFailure::because(Why::Closed), None);
    }
}
