//! TLS words that `bind` and `server` lines share: one table of rows over common options.

use weir_syntax::Diagnostic;

use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault, not_yet};
use weir_model::{TlsOptions, TlsVersion};

/// Reads the arguments of a word into the options of either line.
pub(crate) type ReadTls = fn(&mut TlsOptions, &mut Words<'_>) -> Parsed;

/// The rows of [`TLS_ROWS`] for a table with another reader type. `$wrap` converts a [`ReadTls`] to it.
macro_rules! tls_rows {
    ($reader:ty, $wrap:path) => {
        &const {
            use crate::tls_words::TLS_ROWS;
            let mut rows: [crate::rows::Row<$reader>; TLS_ROWS.len()] =
                [const { crate::rows::Row::removed("", "") }; TLS_ROWS.len()];
            let mut at = 0;
            while at < rows.len() {
                let handler = match TLS_ROWS[at].handler {
                    crate::rows::Handler::Ready(read) => crate::rows::Handler::Ready($wrap(read)),
                    crate::rows::Handler::NotYet => crate::rows::Handler::NotYet,
                    crate::rows::Handler::Removed(instead) => crate::rows::Handler::Removed(instead),
                };
                rows[at] = TLS_ROWS[at].handled_by(handler);
                at += 1;
            }
            rows
        }
    };
}
pub(crate) use tls_rows;

const fn word(
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    read: ReadTls,
) -> Row<ReadTls> {
    Row::ready(name, arguments, example, help, read)
}

/// The rows of words that both lines share.
pub(crate) const TLS_ROWS: &[Row<ReadTls>] = &[
    word("ca-file", "<cafile>", "ca.pem", "TLS: authorities to trust", |options, words| {
        options.ca_file = Some(text(words, "ca-file", "CAfile path")?);
        Ok(())
    }),
    word("ciphers", "<ciphers>", "HIGH", "TLS: ciphers up to TLS 1.2", |options, words| {
        options.ciphers = Some(text(words, "ciphers", "cipher suite")?);
        Ok(())
    }),
    word(
        "ciphersuites",
        "<ciphersuites>",
        "TLS_AES_128_GCM_SHA256",
        "TLS: ciphers of TLS 1.3",
        |options, words| {
            options.ciphersuites = Some(text(words, "ciphersuites", "cipher suite")?);
            Ok(())
        },
    ),
    word(
        "client-sigalgs",
        "<sigalgs>",
        "RSA-PSS+SHA256",
        "TLS: signature algorithms for client certificates",
        |options, words| {
            options.client_signatures = Some(text(words, "client-sigalgs", "signature algorithm list")?);
            Ok(())
        },
    ),
    word("crl-file", "<crlfile>", "crl.pem", "TLS: revocation list", |options, words| {
        options.crl_file = Some(text(words, "crl-file", "CRLfile path")?);
        Ok(())
    }),
    word("curves", "<curves>", "X25519:P-256", "TLS: elliptic curves", |options, words| {
        options.curves = Some(text(words, "curves", "curve suite")?);
        Ok(())
    }),
    Row::removed("force-sslv3", "SSLv3 is not supported: TLSv1.2 and TLSv1.3 are"),
    Row::removed("force-tlsv10", "TLSv1.0 is not supported: TLSv1.2 and TLSv1.3 are"),
    Row::removed("force-tlsv11", "TLSv1.1 is not supported: TLSv1.2 and TLSv1.3 are"),
    word("force-tlsv12", "", "", "TLS: 1.2 only", |options, _| force(options, TlsVersion::Tls12)),
    word("force-tlsv13", "", "", "TLS: 1.3 only", |options, _| force(options, TlsVersion::Tls13)),
    word("ktls", "<on|off>", "off", "TLS: encryption in the kernel (never)", |_, words| {
        let word = words.expect("'ktls' : expects either 'on' or 'off' as argument")?;
        match word.text() {
            "off" => Ok(()),
            "on" => Err(fault(
                word.span(),
                "'ktls' : TLS in the kernel is not used: records are encrypted without a copy. Write 'ktls off', or remove it.".to_owned(),
            )),
            _ => Err(fault(word.span(), format!("'ktls' : expects either 'on' or 'off' but got '{word}'"))),
        }
    }),
    word(
        "npn",
        "<protocols>",
        "h2,http/1.1",
        "accepted for compatibility, no effect: ALPN replaced it",
        |_, words| {
            let word = words.expect("'npn' : missing the comma-delimited NPN protocol suite")?;
            let message = format!(
                "'npn' is never negotiated: clients and servers of TLSv1.3 have ALPN instead. Write 'alpn {word}'."
            );
            words.line().remark(Diagnostic::warning(word.span(), message));
            Ok(())
        },
    ),
    word("no-sslv3", "", "", "TLS: refuse SSLv3", |options, _| refuse(options, TlsVersion::Ssl3)),
    word("no-tls-tickets", "", "", "TLS: no stateless resumption", |options, _| {
        options.no_tickets = Some(true);
        Ok(())
    }),
    word("no-tlsv10", "", "", "TLS: refuse 1.0", |options, _| refuse(options, TlsVersion::Tls10)),
    word("no-tlsv11", "", "", "TLS: refuse 1.1", |options, _| refuse(options, TlsVersion::Tls11)),
    word("no-tlsv12", "", "", "TLS: refuse 1.2", |options, _| refuse(options, TlsVersion::Tls12)),
    word("no-tlsv13", "", "", "TLS: refuse 1.3", |options, _| refuse(options, TlsVersion::Tls13)),
    word("sigalgs", "<sigalgs>", "ECDSA+SHA256", "TLS: signature algorithms", |options, words| {
        options.signatures = Some(text(words, "sigalgs", "signature algorithm list")?);
        Ok(())
    }),
    word("ssl-max-ver", VERSIONS, "TLSv1.3", "TLS: highest version", |options, words| {
        options.max_version = Some(version(words, "ssl-max-ver")?);
        Ok(())
    })
    .default(Described("`TLSv1.3`"))
    .default(Described("`TLSv1.3`")),
    word("ssl-min-ver", VERSIONS, "TLSv1.2", "TLS: lowest version", |options, words| {
        options.min_version = Some(version(words, "ssl-min-ver")?);
        Ok(())
    })
    .default(Described("`TLSv1.2`"))
    .default(Described("`TLSv1.2`")),
    word("tls-tickets", "", "", "TLS: stateless resumption (the default)", |options, _| {
        options.no_tickets = Some(false);
        Ok(())
    }),
];

const VERSIONS: &str = "[ SSLv3 | TLSv1.0 | TLSv1.1 | TLSv1.2 | TLSv1.3 ]";

/// Reads the argument of `keyword`. Messages call the argument `what`.
pub(crate) fn text(words: &mut Words<'_>, keyword: &str, what: &str) -> Parsed<Box<str>> {
    words.expect(&format!("'{keyword}' : missing {what}")).map(|word| word.text().into())
}

fn force(options: &mut TlsOptions, version: TlsVersion) -> Parsed {
    options.min_version = Some(version);
    options.max_version = Some(version);
    Ok(())
}

fn refuse(options: &mut TlsOptions, version: TlsVersion) -> Parsed {
    options.refused_versions.push(version);
    Ok(())
}

fn version(words: &mut Words<'_>, keyword: &str) -> Parsed<TlsVersion> {
    let word = words.expect(&format!("'{keyword}' : missing the ssl/tls version"))?;
    TlsVersion::of(word.text())
        .ok_or_else(|| fault(word.span(), format!("'{word}' : unknown ssl/tls version")))
}

/// Protocols that are not implemented yet.
const NOT_SPOKEN: &[&str] = &["h3"];

/// Reads ALPN protocols. Drops those that are not implemented yet, with one warning for all of them. Messages use `subject` for the
/// keyword.
pub(crate) fn protocols(words: &mut Words<'_>, subject: &str) -> Parsed<Vec<Box<str>>> {
    let word = words.expect(&format!("{subject} : missing the comma-delimited ALPN protocol suite"))?;
    let mut spoken: Vec<Box<str>> = Vec::new();
    let mut left_out = Vec::new();
    let mut is_any_empty = false;
    for name in word.text().split(',') {
        match name {
            "" => is_any_empty = true,
            name if NOT_SPOKEN.contains(&name) => left_out.push(name),
            _ if name.len() > 255 => {
                return Err(fault(word.span(), format!("{subject} : protocol name too long")));
            }
            _ => spoken.push(name.into()),
        }
    }
    if spoken.is_empty() {
        return Err(match left_out.is_empty() {
            true => fault(word.span(), format!("{subject} : empty protocol name")),
            false => not_yet(word.span(), &format!("alpn {word}")),
        });
    }
    if is_any_empty {
        let message = format!("{subject} : a protocol without a name is left out of '{word}'.");
        words.line().remark(Diagnostic::warning(word.span(), message));
    }
    if !left_out.is_empty() {
        let message = format!(
            "{subject} : '{}' is not implemented yet and not offered: '{}' is.",
            left_out.join(","),
            spoken.join(",")
        );
        words.line().remark(Diagnostic::warning(word.span(), message));
    }
    Ok(spoken)
}
