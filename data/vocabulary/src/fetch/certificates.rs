//! TLS certificates: the client's, the one sent to the client, and the server's.

use std::borrow::Cow;

use weir_expr::SampleType::{Bin, Int, Str};
use weir_expr::{ArgKind, ArgSpec, Args, FetchResult, Value};
use weir_tls::inspect::{CertificateDetails, Party};
use weir_tls::rustls::pki_types::CertificateDer;

use super::secure::{client, fact, of_client, of_server, server};
use super::values::{copied, made_binary, number};
use super::{FetchRow, row};
use crate::view::FetchView;

/// Attribute of a name, occurrence, and output format.
const NAME: ArgSpec = ArgSpec::new(0, &[ArgKind::Str, ArgKind::Int, ArgKind::Str]);

/// Rows for every certificate.
macro_rules! rows {
    ($prefix:literal, $whose:literal, $declare:ident, $shown:ident) => {
        &[
            row(
                $declare(concat!($prefix, "der"), Bin, concat!("All of ", $whose, ", in DER")),
                |view, _, _| of_certificate($shown(view), |_, der| Some(binary(der))),
            ),
            row(
                $declare(concat!($prefix, "i_dn"), Str, concat!("Who issued ", $whose)).args(NAME),
                |view, args, _| name($shown(view), Party::Issuer, args),
            ),
            row(
                $declare(concat!($prefix, "s_dn"), Str, concat!("Whom ", $whose, " is for")).args(NAME),
                |view, args, _| name($shown(view), Party::Subject, args),
            ),
            row(
                $declare(concat!($prefix, "key_alg"), Str, concat!("The kind of key of ", $whose)),
                |view, _, _| words($shown(view), |parsed| parsed.key_algorithm()),
            ),
            row(
                $declare(concat!($prefix, "sig_alg"), Str, concat!("What ", $whose, " is signed with")),
                |view, _, _| words($shown(view), |parsed| parsed.signature_algorithm()),
            ),
            row(
                $declare(
                    concat!($prefix, "notafter"),
                    Str,
                    concat!("Until when ", $whose, " is good: YYMMDDhhmmssZ"),
                ),
                |view, _, _| words($shown(view), |parsed| parsed.not_after()),
            ),
            row(
                $declare(
                    concat!($prefix, "notbefore"),
                    Str,
                    concat!("From when ", $whose, " is good: YYMMDDhhmmssZ"),
                ),
                |view, _, _| words($shown(view), |parsed| parsed.not_before()),
            ),
            row(
                $declare(concat!($prefix, "serial"), Bin, concat!("The serial number of ", $whose)),
                |view, _, _| of_certificate($shown(view), |parsed, _| Some(binary(parsed.serial()))),
            ),
            row(
                $declare(concat!($prefix, "sha1"), Bin, concat!("The SHA-1 digest of ", $whose)),
                |view, _, _| of_certificate($shown(view), |_, der| Some(digest(der))),
            ),
            row(
                $declare(concat!($prefix, "version"), Int, concat!("The version of ", $whose)),
                |view, _, _| of_certificate($shown(view), |parsed, _| Some(number(parsed.version()))),
            ),
        ]
    };
}

pub(super) const BY_CLIENT: &[FetchRow] =
    rows!("ssl_c_", "the client's certificate", client, shown_by_client);
pub(super) const TO_CLIENT: &[FetchRow] =
    rows!("ssl_f_", "the certificate that the client was shown", client, shown_to_client);
pub(super) const BY_SERVER: &[FetchRow] =
    rows!("ssl_s_", "the server's certificate", server, shown_by_server);

/// Rows for one side only, and rows that differ between the sides.
pub(super) const ROWS: &[FetchRow] = &[
    row(client("ssl_c_chain_der", Bin, "The certificates that the client showed, in DER"), |view, _, _| {
        fact(of_client(view), |facts| {
            // As in OpenSSL, the chain of a client does not include the client's own certificate.
            let chain = facts.peer_certificates.get(1..).unwrap_or_default();
            (!chain.is_empty()).then(|| made_binary(chain.iter().flat_map(|der| der.to_vec()).collect()))
        })
    }),
    row(
        client("ssl_c_r_dn", Str, "The authority at the top of the chain of the client's certificate")
            .args(NAME),
        |view, args, _| name(root_of_client(view), Party::Subject, args),
    ),
    row(client("ssl_c_san", Str, "The alternative names of the client's certificate"), |view, _, _| {
        of_certificate(shown_by_client(view), |parsed, _| {
            Some(copied(parsed.alternative_names()?.as_bytes()))
        })
    }),
    row(server("ssl_s_chain_der", Bin, "The certificates that the server showed, in DER"), |view, _, _| {
        fact(of_server(view), |facts| {
            let chain = &facts.peer_certificates;
            (!chain.is_empty()).then(|| made_binary(chain.iter().flat_map(|der| der.to_vec()).collect()))
        })
    }),
];

fn shown_by_client(view: &dyn FetchView) -> Option<&CertificateDer<'static>> {
    of_client(view)?.peer_certificates.first()
}

fn root_of_client(view: &dyn FetchView) -> Option<&CertificateDer<'static>> {
    of_client(view)?.root.as_deref()
}

fn shown_by_server(view: &dyn FetchView) -> Option<&CertificateDer<'static>> {
    of_server(view)?.peer_certificates.first()
}

fn shown_to_client(view: &dyn FetchView) -> Option<&CertificateDer<'static>> {
    Some(of_client(view)?.certificate.as_ref()?.own())
}

fn of_certificate<'c>(
    certificate: Option<&CertificateDer<'_>>,
    read: impl FnOnce(&CertificateDetails<'_>, &[u8]) -> Option<FetchResult<'c>>,
) -> FetchResult<'c> {
    let fetched =
        certificate.and_then(|certificate| read(&CertificateDetails::of(certificate)?, certificate));
    fetched.unwrap_or(FetchResult::Missing)
}

fn words<'c>(
    certificate: Option<&CertificateDer<'_>>,
    read: impl FnOnce(&CertificateDetails<'_>) -> String,
) -> FetchResult<'c> {
    of_certificate(certificate, |parsed, _| Some(copied(read(parsed).as_bytes())))
}

/// A distinguished name, or an attribute of it: `<entry>[,<occurrence>[,rfc2253]]`.
fn name<'c>(certificate: Option<&CertificateDer<'_>>, party: Party, args: &Args) -> FetchResult<'c> {
    let entry = args.str(0).filter(|entry| !entry.is_empty());
    let occurrence = args.int(1).unwrap_or(1);
    let rfc2253 = args.str(2).is_some_and(|format| format == b"rfc2253");
    of_certificate(certificate, |parsed, _| {
        let text = match entry {
            Some(entry) => parsed.attribute(party, std::str::from_utf8(entry).ok()?, occurrence)?,
            None => parsed.distinguished_name(party, rfc2253),
        };
        // A NUL byte would end the text for C programs, so the name is malformed (manual).
        (!text.is_empty() && !text.contains('\0')).then(|| copied(text.as_bytes()))
    })
}

fn binary<'c>(bytes: &[u8]) -> FetchResult<'c> {
    FetchResult::value(Value::Bin(Cow::Owned(bytes.to_vec())))
}

fn digest<'c>(der: &[u8]) -> FetchResult<'c> {
    binary(weir_tls::inspect::sha1(der).as_ref())
}
