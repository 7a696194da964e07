//! IDs and secrets of the TLS sessions with client and server. They are kept only if an expression uses them.

use weir_expr::SampleType::{Bin, Str};
use weir_expr::{Args, ExpressionScope, FetchResult};
use weir_tls::Facts;

use super::hello::some_binary;
use super::secure::{client, fact, of_client, of_server, server};
use super::{FetchRow, row};

macro_rules! identity {
    ($prefix:literal, $peer:literal, $declare:ident, $facts:ident) => {
        &[
            row(
                $declare(
                    concat!($prefix, "_session_id"),
                    Bin,
                    concat!("The identifier of the session with the ", $peer),
                )
                .check(keep),
                |view, _, _| part($facts(view), Facts::session_id),
            ),
            row(
                $declare(
                    concat!($prefix, "_session_key"),
                    Bin,
                    concat!(
                        "The main secret of the session with the ",
                        $peer,
                        "; of TLS 1.3 that of its last ticket"
                    ),
                )
                .check(keep),
                |view, _, _| part($facts(view), Facts::session_key),
            ),
            row(
                $declare(
                    concat!($prefix, "_unique_id"),
                    Bin,
                    concat!(
                        "What channels over the session with the ",
                        $peer,
                        " are bound to (tls-unique, RFC 5929)"
                    ),
                )
                .check(keep),
                |view, _, _| part($facts(view), Facts::unique_id),
            ),
            row(
                $declare(
                    concat!($prefix, "_npn"),
                    Str,
                    concat!("The protocol agreed on by NPN with the ", $peer, ": none, ALPN replaced it"),
                ),
                |_, _, _| FetchResult::Missing,
            ),
        ]
    };
}

pub(super) const WITH_CLIENT: &[FetchRow] = identity!("ssl_fc", "client", client, of_client);
pub(super) const WITH_SERVER: &[FetchRow] = identity!("ssl_bc", "server", server, of_server);

fn keep(_: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    weir_tls::keep_identities();
    Ok(())
}

fn part<'c>(facts: Option<&Facts>, part: fn(&Facts) -> Option<&[u8]>) -> FetchResult<'c> {
    fact(facts, |facts| some_binary(part(facts)?))
}
