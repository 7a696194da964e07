//! What was agreed on over TLS: with the client, with the server, and what the certificates say.

use std::borrow::Cow;

use weir_expr::SampleType::{Bin, Bool, Int, Str};
use weir_expr::{ArgKind, ArgSpec, Args, FetchDecl, Fetched, Needs, SampleType, Value};
use weir_mux::StreamConnector;
use weir_tls::inspect::{Inspected, Party};
use weir_tls::rustls::pki_types::CertificateDer;
use weir_tls::{Facts, ciphers, openssl};

use super::values::{copied, made_binary, number, truth};
use super::{Row, row, valid};
use crate::stream::Stream;

const fn client(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::SESSION).needs(Needs::L5_CLIENT)
}

const fn server(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::ANSWERED).needs(Needs::L5_SERVER)
}

/// An entry of a name, which of several, and how it is written.
const NAME: ArgSpec = ArgSpec::new(0, &[ArgKind::Str, ArgKind::Int, ArgKind::Str]);

pub(super) const ROWS: &[Row] = &[
    row(client("ssl_fc", Bool, "Whether the client's connection speaks TLS"), |stream, _, _| {
        truth(of_client(stream).is_some())
    }),
    row(client("ssl_fc_alg_keysize", Int, "Bits of the client's cipher"), |stream, _, _| {
        bits(of_client(stream))
    }),
    row(client("ssl_fc_use_keysize", Int, "Bits of the client's key in use"), |stream, _, _| {
        bits(of_client(stream))
    }),
    row(client("ssl_fc_alpn", Str, "The application protocol agreed on with the client"), |stream, _, _| {
        fact(of_client(stream), |facts| facts.protocol.as_deref().map(copied))
    }),
    row(client("ssl_fc_cipher", Str, "The cipher agreed on with the client"), |stream, _, _| {
        fact(of_client(stream), cipher)
    }),
    row(client("ssl_fc_curve", Str, "The group of the client's key exchange"), |stream, _, _| {
        fact(of_client(stream), curve)
    }),
    row(client("ssl_fc_protocol", Str, "The version of TLS agreed on with the client"), |stream, _, _| {
        fact(of_client(stream), |facts| facts.version_name().map(|name| copied(name.as_bytes())))
    }),
    row(client("ssl_fc_sni", Str, "The server name that the client asked for"), |stream, _, _| {
        fact(of_client(stream), |facts| facts.server_name.as_deref().map(|name| copied(name.as_bytes())))
    }),
    row(client("ssl_fc_has_sni", Bool, "Whether the client asked for a server name"), |stream, _, _| {
        truth(of_client(stream).is_some_and(|facts| facts.server_name.is_some()))
    }),
    row(
        client("ssl_fc_has_crt", Bool, "Whether the client showed a certificate in this handshake"),
        |stream, _, _| {
            fact(of_client(stream), |facts| {
                Some(truth(!facts.resumed && !facts.peer_certificates.is_empty()))
            })
        },
    ),
    row(
        client("ssl_fc_has_early", Bool, "Whether the client sent early data: it is never accepted"),
        |stream, _, _| fact(of_client(stream), |_| Some(truth(false))),
    ),
    row(
        client("ssl_fc_is_resumed", Bool, "Whether an earlier session of the client goes on"),
        |stream, _, _| truth(of_client(stream).is_some_and(|facts| facts.resumed)),
    ),
    row(
        client("ssl_fc_crtname", Str, "The file of the certificate that the client was shown"),
        |stream, _, _| {
            fact(of_client(stream), |facts| Some(copied(facts.certificate.as_ref()?.path.as_bytes())))
        },
    ),
    row(
        client("ssl_fc_err", Int, "What broke the client's handshake; 0 where nothing did"),
        |stream, _, _| fact(of_client(stream), |facts| Some(number(error(facts).map_or(0, |error| error.0)))),
    ),
    row(client("ssl_fc_err_str", Str, "What broke the client's handshake, in words"), |stream, _, _| {
        fact(of_client(stream), |facts| Some(copied(error_words(facts).as_bytes())))
    }),
    row(client("ssl_c_used", Bool, "Whether the client has a certificate"), |stream, _, _| {
        fact(of_client(stream), |facts| Some(truth(!facts.peer_certificates.is_empty())))
    }),
    row(
        client(
            "ssl_c_verify",
            Int,
            "How the client's certificate was found: 0 for good, else OpenSSL's number",
        ),
        |stream, _, _| verified(stream, |verified| verified.code),
    ),
    row(client("ssl_c_err", Int, "What is wrong with the client's own certificate"), |stream, _, _| {
        verified(stream, |verified| verified.error)
    }),
    row(
        client("ssl_c_ca_err", Int, "What is wrong with who issued the client's certificate"),
        |stream, _, _| verified(stream, |verified| verified.authority_error),
    ),
    row(
        client("ssl_c_ca_err_depth", Int, "How far above the client's certificate that is"),
        |stream, _, _| verified(stream, |verified| verified.authority_depth),
    ),
    row(client("ssl_c_der", Bin, "The client's certificate, in DER"), |stream, _, _| {
        of_certificate(shown_by_client(stream), |_, der| Some(binary(der)))
    }),
    row(client("ssl_c_chain_der", Bin, "The certificates that the client showed, in DER"), |stream, _, _| {
        fact(of_client(stream), |facts| {
            // As in OpenSSL, a server sees its client's own certificate apart from the chain.
            let chain = facts.peer_certificates.get(1..).unwrap_or_default();
            (!chain.is_empty()).then(|| made_binary(chain.iter().flat_map(|der| der.to_vec()).collect()))
        })
    }),
    row(client("ssl_c_i_dn", Str, "Who issued the client's certificate").args(NAME), |stream, args, _| {
        name(shown_by_client(stream), Party::Issuer, args)
    }),
    row(client("ssl_c_s_dn", Str, "Whom the client's certificate is for").args(NAME), |stream, args, _| {
        name(shown_by_client(stream), Party::Subject, args)
    }),
    row(client("ssl_c_key_alg", Str, "The kind of key of the client's certificate"), |stream, _, _| {
        words(shown_by_client(stream), |parsed| parsed.key_algorithm())
    }),
    row(client("ssl_c_sig_alg", Str, "What the client's certificate is signed with"), |stream, _, _| {
        words(shown_by_client(stream), |parsed| parsed.signature_algorithm())
    }),
    row(
        client("ssl_c_notafter", Str, "Until when the client's certificate is good: YYMMDDhhmmssZ"),
        |stream, _, _| words(shown_by_client(stream), |parsed| parsed.not_after()),
    ),
    row(
        client("ssl_c_notbefore", Str, "From when the client's certificate is good: YYMMDDhhmmssZ"),
        |stream, _, _| words(shown_by_client(stream), |parsed| parsed.not_before()),
    ),
    row(client("ssl_c_san", Str, "The alternative names of the client's certificate"), |stream, _, _| {
        of_certificate(shown_by_client(stream), |parsed, _| {
            Some(copied(parsed.alternative_names()?.as_bytes()))
        })
    }),
    row(client("ssl_c_serial", Bin, "The serial number of the client's certificate"), |stream, _, _| {
        of_certificate(shown_by_client(stream), |parsed, _| Some(binary(parsed.serial())))
    }),
    row(client("ssl_c_sha1", Bin, "The SHA-1 digest of the client's certificate"), |stream, _, _| {
        of_certificate(shown_by_client(stream), |_, der| Some(digest(der)))
    }),
    row(client("ssl_c_version", Int, "The version of the client's certificate"), |stream, _, _| {
        of_certificate(shown_by_client(stream), |parsed, _| Some(number(parsed.version())))
    }),
    row(client("ssl_f_der", Bin, "The certificate that the client was shown, in DER"), |stream, _, _| {
        of_certificate(shown_to_client(stream), |_, der| Some(binary(der)))
    }),
    row(
        client("ssl_f_i_dn", Str, "Who issued the certificate that the client was shown").args(NAME),
        |stream, args, _| name(shown_to_client(stream), Party::Issuer, args),
    ),
    row(
        client("ssl_f_s_dn", Str, "Whom the certificate that the client was shown is for").args(NAME),
        |stream, args, _| name(shown_to_client(stream), Party::Subject, args),
    ),
    row(
        client("ssl_f_key_alg", Str, "The kind of key of the certificate that the client was shown"),
        |stream, _, _| words(shown_to_client(stream), |parsed| parsed.key_algorithm()),
    ),
    row(
        client("ssl_f_sig_alg", Str, "What the certificate that the client was shown is signed with"),
        |stream, _, _| words(shown_to_client(stream), |parsed| parsed.signature_algorithm()),
    ),
    row(
        client("ssl_f_notafter", Str, "Until when the certificate that the client was shown is good"),
        |stream, _, _| words(shown_to_client(stream), |parsed| parsed.not_after()),
    ),
    row(
        client("ssl_f_notbefore", Str, "From when the certificate that the client was shown is good"),
        |stream, _, _| words(shown_to_client(stream), |parsed| parsed.not_before()),
    ),
    row(
        client("ssl_f_serial", Bin, "The serial number of the certificate that the client was shown"),
        |stream, _, _| of_certificate(shown_to_client(stream), |parsed, _| Some(binary(parsed.serial()))),
    ),
    row(
        client("ssl_f_sha1", Bin, "The SHA-1 digest of the certificate that the client was shown"),
        |stream, _, _| of_certificate(shown_to_client(stream), |_, der| Some(digest(der))),
    ),
    row(
        client("ssl_f_version", Int, "The version of the certificate that the client was shown"),
        |stream, _, _| of_certificate(shown_to_client(stream), |parsed, _| Some(number(parsed.version()))),
    ),
    row(server("ssl_bc", Bool, "Whether the server's connection speaks TLS"), |stream, _, _| {
        truth(of_server(stream).is_some())
    }),
    row(server("ssl_bc_alg_keysize", Int, "Bits of the cipher towards the server"), |stream, _, _| {
        bits(of_server(stream))
    }),
    row(server("ssl_bc_use_keysize", Int, "Bits of the key in use towards the server"), |stream, _, _| {
        bits(of_server(stream))
    }),
    row(server("ssl_bc_alpn", Str, "The application protocol agreed on with the server"), |stream, _, _| {
        fact(of_server(stream), |facts| facts.protocol.as_deref().map(copied))
    }),
    row(server("ssl_bc_cipher", Str, "The cipher agreed on with the server"), |stream, _, _| {
        fact(of_server(stream), cipher)
    }),
    row(server("ssl_bc_curve", Str, "The group of the key exchange with the server"), |stream, _, _| {
        fact(of_server(stream), curve)
    }),
    row(server("ssl_bc_protocol", Str, "The version of TLS agreed on with the server"), |stream, _, _| {
        fact(of_server(stream), |facts| facts.version_name().map(|name| copied(name.as_bytes())))
    }),
    row(server("ssl_bc_sni", Str, "The server name that was sent to the server"), |stream, _, _| {
        fact(of_server(stream), |facts| facts.server_name.as_deref().map(|name| copied(name.as_bytes())))
    }),
    row(
        server("ssl_bc_is_resumed", Bool, "Whether an earlier session with the server goes on"),
        |stream, _, _| truth(of_server(stream).is_some_and(|facts| facts.resumed)),
    ),
    row(server("ssl_s_der", Bin, "The server's certificate, in DER"), |stream, _, _| {
        of_certificate(shown_by_server(stream), |_, der| Some(binary(der)))
    }),
    row(server("ssl_s_chain_der", Bin, "The certificates that the server showed, in DER"), |stream, _, _| {
        fact(of_server(stream), |facts| {
            let chain = &facts.peer_certificates;
            (!chain.is_empty()).then(|| made_binary(chain.iter().flat_map(|der| der.to_vec()).collect()))
        })
    }),
    row(server("ssl_s_i_dn", Str, "Who issued the server's certificate").args(NAME), |stream, args, _| {
        name(shown_by_server(stream), Party::Issuer, args)
    }),
    row(server("ssl_s_s_dn", Str, "Whom the server's certificate is for").args(NAME), |stream, args, _| {
        name(shown_by_server(stream), Party::Subject, args)
    }),
    row(server("ssl_s_key_alg", Str, "The kind of key of the server's certificate"), |stream, _, _| {
        words(shown_by_server(stream), |parsed| parsed.key_algorithm())
    }),
    row(server("ssl_s_sig_alg", Str, "What the server's certificate is signed with"), |stream, _, _| {
        words(shown_by_server(stream), |parsed| parsed.signature_algorithm())
    }),
    row(
        server("ssl_s_notafter", Str, "Until when the server's certificate is good: YYMMDDhhmmssZ"),
        |stream, _, _| words(shown_by_server(stream), |parsed| parsed.not_after()),
    ),
    row(
        server("ssl_s_notbefore", Str, "From when the server's certificate is good: YYMMDDhhmmssZ"),
        |stream, _, _| words(shown_by_server(stream), |parsed| parsed.not_before()),
    ),
    row(server("ssl_s_serial", Bin, "The serial number of the server's certificate"), |stream, _, _| {
        of_certificate(shown_by_server(stream), |parsed, _| Some(binary(parsed.serial())))
    }),
    row(server("ssl_s_sha1", Bin, "The SHA-1 digest of the server's certificate"), |stream, _, _| {
        of_certificate(shown_by_server(stream), |_, der| Some(digest(der)))
    }),
    row(server("ssl_s_version", Int, "The version of the server's certificate"), |stream, _, _| {
        of_certificate(shown_by_server(stream), |parsed, _| Some(number(parsed.version())))
    }),
];

fn of_client(stream: &Stream) -> Option<&Facts> {
    stream.client.tls()
}

fn of_server(stream: &Stream) -> Option<&Facts> {
    stream.server.upstream.as_ref().map(|upstream| &upstream.connector).and_then(StreamConnector::tls)
}

fn shown_by_client(stream: &Stream) -> Option<&CertificateDer<'static>> {
    of_client(stream)?.peer_certificates.first()
}

fn shown_by_server(stream: &Stream) -> Option<&CertificateDer<'static>> {
    of_server(stream)?.peer_certificates.first()
}

fn shown_to_client(stream: &Stream) -> Option<&CertificateDer<'static>> {
    of_client(stream)?.certificate.as_ref()?.certified.cert.first()
}

fn fact<'c>(facts: Option<&Facts>, ask: impl FnOnce(&Facts) -> Option<Fetched<'c>>) -> Fetched<'c> {
    facts.and_then(ask).unwrap_or(Fetched::Missing)
}

fn error(facts: &Facts) -> Option<(u32, &'static str)> {
    openssl::error(facts.failure?)
}

/// As OpenSSL writes an error.
fn error_words(facts: &Facts) -> String {
    error(facts).map(|(code, words)| format!("error:{code:08X}:SSL routines::{words}")).unwrap_or_default()
}

fn bits<'c>(facts: Option<&Facts>) -> Fetched<'c> {
    fact(facts, |facts| ciphers::bits_of(facts.cipher?).map(number))
}

fn cipher<'c>(facts: &Facts) -> Option<Fetched<'c>> {
    ciphers::name_of(facts.cipher?).map(|name| copied(name.as_bytes()))
}

fn curve<'c>(facts: &Facts) -> Option<Fetched<'c>> {
    ciphers::name_of_group(facts.group?).map(|name| copied(name.as_bytes()))
}

fn verified<'c>(stream: &Stream, part: fn(weir_tls::Verified) -> u16) -> Fetched<'c> {
    fact(of_client(stream), |facts| Some(number(facts.verified.map_or(0, part))))
}

fn of_certificate<'c>(
    certificate: Option<&CertificateDer<'_>>,
    ask: impl FnOnce(&Inspected<'_>, &[u8]) -> Option<Fetched<'c>>,
) -> Fetched<'c> {
    let asked = certificate.and_then(|certificate| ask(&Inspected::of(certificate)?, certificate));
    asked.unwrap_or(Fetched::Missing)
}

fn words<'c>(
    certificate: Option<&CertificateDer<'_>>,
    ask: impl FnOnce(&Inspected<'_>) -> String,
) -> Fetched<'c> {
    of_certificate(certificate, |parsed, _| Some(copied(ask(parsed).as_bytes())))
}

/// A name, or an entry of it: `<entry>[,<occurrence>[,rfc2253]]`.
fn name<'c>(certificate: Option<&CertificateDer<'_>>, party: Party, args: &Args) -> Fetched<'c> {
    let entry = args.str(0).filter(|entry| !entry.is_empty());
    let occurrence = args.int(1).unwrap_or(1);
    let rfc2253 = args.str(2).is_some_and(|format| format == b"rfc2253");
    of_certificate(certificate, |parsed, _| {
        let text = match entry {
            Some(entry) => parsed.attribute(party, std::str::from_utf8(entry).ok()?, occurrence)?,
            None => parsed.distinguished_name(party, rfc2253),
        };
        (!text.is_empty()).then(|| copied(text.as_bytes()))
    })
}

fn binary<'c>(bytes: &[u8]) -> Fetched<'c> {
    Fetched::value(Value::Bin(Cow::Owned(bytes.to_vec())))
}

fn digest<'c>(der: &[u8]) -> Fetched<'c> {
    binary(weir_tls::inspect::sha1(der).as_ref())
}
