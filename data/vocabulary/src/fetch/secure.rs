//! Parameters of the TLS sessions with client and server.

use weir_expr::SampleType::{Bool, Int, Str};
use weir_expr::{FetchDecl, FetchResult, Needs, SampleType};
use weir_net::ConnectionFault;
use weir_tls::{Facts, SessionFailure, ciphers, openssl};

use super::values::{copied, number, truth};
use super::{FetchRow, row, valid};
use crate::view::FetchView;

pub(super) const fn client(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::SESSION).needs(Needs::L5_CLIENT)
}

pub(super) const fn server(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::ANSWERED).needs(Needs::L5_SERVER)
}

/// Rows for both sides.
macro_rules! agreed {
    ($prefix:literal, $peer:literal, $declare:ident, $facts:ident) => {
        &[
            row(
                $declare($prefix, Bool, concat!("Whether the ", $peer, "'s connection speaks TLS")),
                |view, _, _| truth($facts(view).is_some()),
            ),
            row(
                $declare(
                    concat!($prefix, "_alg_keysize"),
                    Int,
                    concat!("Bits of the cipher agreed on with the ", $peer),
                ),
                |view, _, _| bits($facts(view)),
            ),
            row(
                $declare(
                    concat!($prefix, "_use_keysize"),
                    Int,
                    concat!("Bits of the key in use with the ", $peer),
                ),
                |view, _, _| bits($facts(view)),
            ),
            row(
                $declare(
                    concat!($prefix, "_alpn"),
                    Str,
                    concat!("The application protocol agreed on with the ", $peer),
                ),
                |view, _, _| fact($facts(view), |facts| facts.protocol.as_deref().map(copied)),
            ),
            row(
                $declare(concat!($prefix, "_cipher"), Str, concat!("The cipher agreed on with the ", $peer)),
                |view, _, _| fact($facts(view), cipher),
            ),
            row(
                $declare(
                    concat!($prefix, "_curve"),
                    Str,
                    concat!("The group of the key exchange with the ", $peer),
                ),
                |view, _, _| fact($facts(view), curve),
            ),
            row(
                $declare(
                    concat!($prefix, "_protocol"),
                    Str,
                    concat!("The version of TLS agreed on with the ", $peer),
                ),
                |view, _, _| {
                    fact($facts(view), |facts| facts.version_name().map(|name| copied(name.as_bytes())))
                },
            ),
            row(
                $declare(
                    concat!($prefix, "_sni"),
                    Str,
                    concat!("The server name that was asked for on the ", $peer, "'s connection"),
                ),
                |view, _, _| {
                    fact($facts(view), |facts| {
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
                |view, _, _| truth($facts(view).is_some_and(|facts| facts.resumed)),
            ),
        ]
    };
}

pub(super) const AGREED_WITH_CLIENT: &[FetchRow] = agreed!("ssl_fc", "client", client, of_client);
pub(super) const AGREED_WITH_SERVER: &[FetchRow] = agreed!("ssl_bc", "server", server, of_server);

/// Rows for one side only.
pub(super) const ROWS: &[FetchRow] = &[
    row(client("ssl_fc_has_sni", Bool, "Whether the client asked for a server name"), |view, _, _| {
        truth(of_client(view).is_some_and(|facts| facts.server_name.is_some()))
    }),
    row(
        client("ssl_fc_has_crt", Bool, "Whether the client showed a certificate in this handshake"),
        |view, _, _| {
            fact(of_client(view), |facts| Some(truth(!facts.resumed && !facts.peer_certificates.is_empty())))
        },
    ),
    row(
        client("ssl_fc_has_early", Bool, "Whether early data came and the client's handshake is not over"),
        |view, _, _| fact(of_client(view), |facts| Some(truth(facts.early))),
    ),
    row(client("ssl_fc_early_rcvd", Bool, "Whether the client sent early data"), |view, _, _| {
        fact(of_client(view), |facts| Some(truth(facts.early_received)))
    }),
    row(
        client("ssl_fc_crtname", Str, "The file of the certificate that the client was shown"),
        |view, _, _| {
            fact(of_client(view), |facts| Some(copied(facts.certificate.as_ref()?.path().as_bytes())))
        },
    ),
    row(client("ssl_fc_err", Int, "What broke the client's handshake; 0 where nothing did"), |view, _, _| {
        fact(of_client(view), |facts| Some(number(error(facts).map_or(0, |error| error.0))))
    }),
    row(client("ssl_fc_err_str", Str, "What broke the client's handshake, in words"), |view, _, _| {
        fact(of_client(view), |facts| Some(copied(openssl::words_of(facts.failure).as_bytes())))
    }),
    row(server("ssl_bc_err", Int, "What broke TLS with the server; 0 where nothing did"), |view, _, _| {
        match server_failure(view) {
            Some(failure) => number(failure.and_then(openssl::error).map_or(0, |error| error.0)),
            None => FetchResult::Missing,
        }
    }),
    row(server("ssl_bc_err_str", Str, "What broke TLS with the server, in words"), |view, _, _| {
        server_failure(view)
            .map_or(FetchResult::Missing, |failure| copied(openssl::words_of(failure).as_bytes()))
    }),
    row(client("ssl_c_used", Bool, "Whether the client has a certificate"), |view, _, _| {
        fact(of_client(view), |facts| Some(truth(!facts.peer_certificates.is_empty())))
    }),
    row(
        client(
            "ssl_c_verify",
            Int,
            "How the client's certificate was found: 0 for good, else OpenSSL's number",
        ),
        |view, _, _| verified(view, |verified| verified.code),
    ),
    row(client("ssl_c_err", Int, "What is wrong with the client's own certificate"), |view, _, _| {
        verified(view, |verified| verified.error)
    }),
    row(
        client("ssl_c_ca_err", Int, "What is wrong with who issued the client's certificate"),
        |view, _, _| verified(view, |verified| verified.authority_error),
    ),
    row(client("ssl_c_ca_err_depth", Int, "How far above the client's certificate that is"), |view, _, _| {
        verified(view, |verified| verified.authority_depth)
    }),
];

pub(super) fn of_client(view: &dyn FetchView) -> Option<&Facts> {
    view.client()?.tls()
}

pub(super) fn of_server(view: &dyn FetchView) -> Option<&Facts> {
    view.server_connection()?.connector.tls()
}

pub(super) fn fact<'c>(
    facts: Option<&Facts>,
    read: impl FnOnce(&Facts) -> Option<FetchResult<'c>>,
) -> FetchResult<'c> {
    facts.and_then(read).unwrap_or(FetchResult::Missing)
}

/// The TLS failure of the server's current or last connection. The outer `None` means no TLS.
fn server_failure(view: &dyn FetchView) -> Option<Option<SessionFailure>> {
    let fault = match (view.server_connection(), view.past_connection()) {
        (Some(server), _) => server.connector.fault(),
        (None, Some(past)) => past.fault,
        (None, None) => None,
    };
    let secured = of_server(view).is_some() || view.past_connection().is_some_and(|past| past.secured);
    match fault {
        Some(ConnectionFault::Tls(failure)) => Some(Some(failure)),
        _ => secured.then_some(None),
    }
}

fn error(facts: &Facts) -> Option<(u32, &'static str)> {
    openssl::error(facts.failure?)
}

fn bits<'c>(facts: Option<&Facts>) -> FetchResult<'c> {
    fact(facts, |facts| ciphers::bits_of(facts.cipher?).map(number))
}

fn cipher<'c>(facts: &Facts) -> Option<FetchResult<'c>> {
    ciphers::name_of(facts.cipher?).map(|name| copied(name.as_bytes()))
}

fn curve<'c>(facts: &Facts) -> Option<FetchResult<'c>> {
    ciphers::name_of_group(facts.group?).map(|name| copied(name.as_bytes()))
}

fn verified<'c>(view: &dyn FetchView, part: fn(weir_tls::VerifyCodes) -> u16) -> FetchResult<'c> {
    fact(of_client(view), |facts| Some(number(facts.verified.map_or(0, part))))
}
