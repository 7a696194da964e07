//! Parameters of the TLS sessions with the client and with the server.

use weir_expr::SampleType::{Bool, Int, Str};
use weir_expr::{FetchDecl, Fetched, Needs, SampleType};
use weir_mux::StreamConnector;
use weir_net::Fault;
use weir_tls::{Facts, Failure, ciphers, openssl};

use super::values::{copied, number, truth};
use super::{Row, row, valid};
use crate::stream::Stream;

pub(super) const fn client(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::SESSION).needs(Needs::L5_CLIENT)
}

pub(super) const fn server(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::ANSWERED).needs(Needs::L5_SERVER)
}

/// Parameters of the session with one side.
macro_rules! agreed {
    ($prefix:literal, $peer:literal, $declare:ident, $facts:ident) => {
        &[
            row(
                $declare($prefix, Bool, concat!("Whether the ", $peer, "'s connection speaks TLS")),
                |stream, _, _| truth($facts(stream).is_some()),
            ),
            row(
                $declare(
                    concat!($prefix, "_alg_keysize"),
                    Int,
                    concat!("Bits of the cipher agreed on with the ", $peer),
                ),
                |stream, _, _| bits($facts(stream)),
            ),
            row(
                $declare(
                    concat!($prefix, "_use_keysize"),
                    Int,
                    concat!("Bits of the key in use with the ", $peer),
                ),
                |stream, _, _| bits($facts(stream)),
            ),
            row(
                $declare(
                    concat!($prefix, "_alpn"),
                    Str,
                    concat!("The application protocol agreed on with the ", $peer),
                ),
                |stream, _, _| fact($facts(stream), |facts| facts.protocol.as_deref().map(copied)),
            ),
            row(
                $declare(concat!($prefix, "_cipher"), Str, concat!("The cipher agreed on with the ", $peer)),
                |stream, _, _| fact($facts(stream), cipher),
            ),
            row(
                $declare(
                    concat!($prefix, "_curve"),
                    Str,
                    concat!("The group of the key exchange with the ", $peer),
                ),
                |stream, _, _| fact($facts(stream), curve),
            ),
            row(
                $declare(
                    concat!($prefix, "_protocol"),
                    Str,
                    concat!("The version of TLS agreed on with the ", $peer),
                ),
                |stream, _, _| {
                    fact($facts(stream), |facts| facts.version_name().map(|name| copied(name.as_bytes())))
                },
            ),
            row(
                $declare(
                    concat!($prefix, "_sni"),
                    Str,
                    concat!("The server name that was asked for on the ", $peer, "'s connection"),
                ),
                |stream, _, _| {
                    fact($facts(stream), |facts| {
                        facts.server_name.as_deref().map(|name| copied(name.as_bytes()))
                    })
                },
            ),
            row(
                $declare(
                    concat!($prefix, "_is_resumed"),
                    Bool,
                    concat!("Whether an earlier session with the ", $peer, " goes on"),
                ),
                |stream, _, _| truth($facts(stream).is_some_and(|facts| facts.resumed)),
            ),
        ]
    };
}

pub(super) const AGREED_WITH_CLIENT: &[Row] = agreed!("ssl_fc", "client", client, of_client);
pub(super) const AGREED_WITH_SERVER: &[Row] = agreed!("ssl_bc", "server", server, of_server);

/// Rows for one side only.
pub(super) const ROWS: &[Row] = &[
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
        client("ssl_fc_has_early", Bool, "Whether early data came and the client's handshake is not over"),
        |stream, _, _| fact(of_client(stream), |facts| Some(truth(facts.early))),
    ),
    row(client("ssl_fc_early_rcvd", Bool, "Whether the client sent early data"), |stream, _, _| {
        fact(of_client(stream), |facts| Some(truth(facts.early_received)))
    }),
    row(
        client("ssl_fc_crtname", Str, "The file of the certificate that the client was shown"),
        |stream, _, _| {
            fact(of_client(stream), |facts| Some(copied(facts.certificate.as_ref()?.path().as_bytes())))
        },
    ),
    row(
        client("ssl_fc_err", Int, "What broke the client's handshake; 0 where nothing did"),
        |stream, _, _| fact(of_client(stream), |facts| Some(number(error(facts).map_or(0, |error| error.0)))),
    ),
    row(client("ssl_fc_err_str", Str, "What broke the client's handshake, in words"), |stream, _, _| {
        fact(of_client(stream), |facts| Some(copied(openssl::words_of(facts.failure).as_bytes())))
    }),
    row(server("ssl_bc_err", Int, "What broke TLS with the server; 0 where nothing did"), |stream, _, _| {
        match server_failure(stream) {
            Some(failure) => number(failure.and_then(openssl::error).map_or(0, |error| error.0)),
            None => Fetched::Missing,
        }
    }),
    row(server("ssl_bc_err_str", Str, "What broke TLS with the server, in words"), |stream, _, _| {
        server_failure(stream)
            .map_or(Fetched::Missing, |failure| copied(openssl::words_of(failure).as_bytes()))
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
];

pub(super) fn of_client(stream: &Stream) -> Option<&Facts> {
    stream.client.tls()
}

pub(super) fn of_server(stream: &Stream) -> Option<&Facts> {
    stream.server.upstream.as_ref().map(|upstream| &upstream.connector).and_then(StreamConnector::tls)
}

pub(super) fn fact<'c>(
    facts: Option<&Facts>,
    ask: impl FnOnce(&Facts) -> Option<Fetched<'c>>,
) -> Fetched<'c> {
    facts.and_then(ask).unwrap_or(Fetched::Missing)
}

/// What broke TLS with the server, on the connection that there is or was; the outer none where none is spoken.
fn server_failure(stream: &Stream) -> Option<Option<Failure>> {
    let fault = match (&stream.server.upstream, stream.server.past()) {
        (Some(upstream), _) => upstream.connector.fault(),
        (None, Some(past)) => past.fault,
        (None, None) => None,
    };
    let secured = of_server(stream).is_some() || stream.server.past().is_some_and(|past| past.secured);
    match fault {
        Some(Fault::Tls(failure)) => Some(Some(failure)),
        _ => secured.then_some(None),
    }
}

fn error(facts: &Facts) -> Option<(u32, &'static str)> {
    openssl::error(facts.failure?)
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
