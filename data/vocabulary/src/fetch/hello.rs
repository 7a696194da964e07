//! Lists of a ClientHello (`tune.ssl.capture-buffer-size`), and the keys of sessions (`tune.ssl.keylog`).

use std::io::Write as _;

use weir_expr::SampleType::{Bin, Int, Str};
use weir_expr::{ArgKind, ArgSpec, Args, FetchDecl, FetchResult, SampleType, scratch};
use weir_tls::{Facts, HelloCapture, HelloList, Secret, is_grease};

use super::secure::{client, fact, of_client, of_server, server};
use super::values::{made, made_binary, number};
use super::{FetchRow, row};
use crate::view::FetchView;

/// 1 to omit GREASE values (RFC 8701).
const FILTER: ArgSpec = ArgSpec::new(0, &[ArgKind::Int]);

const fn filtered(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    client(name, output, help).args(FILTER)
}

pub(super) const ROWS: &[FetchRow] = &[
    row(filtered("ssl_fc_cipherlist_bin", Bin, "The ciphers of the client's hello"), |view, args, _| {
        list(view, args, HelloList::Ciphers)
    }),
    row(
        filtered("ssl_fc_cipherlist_hex", Str, "The ciphers of the client's hello, in hexadecimal digits"),
        |view, args, _| {
            captured(view, |hello| {
                let mut text = scratch::take();
                each_value(hello.list(HelloList::Ciphers), args, |value| push_upper(value, &mut text));
                Some(made(text))
            })
        },
    ),
    row(
        filtered("ssl_fc_cipherlist_str", Str, "The ciphers of the client's hello, by name"),
        |view, args, _| {
            captured(view, |hello| Some(made(cipher_names(hello.list(HelloList::Ciphers), args))))
        },
    ),
    row(
        client("ssl_fc_cipherlist_xxh", Int, "A digest of the ciphers of the client's hello"),
        |view, _, _| captured(view, |hello| Some(number(hello.ciphers_digest.cast_signed()))),
    ),
    row(
        client("ssl_fc_protocol_hello_id", Int, "The version of the client's hello, as a number"),
        |view, _, _| captured(view, |hello| Some(number(hello.version))),
    ),
    row(filtered("ssl_fc_extlist_bin", Bin, "The extensions of the client's hello"), |view, args, _| {
        list(view, args, HelloList::Extensions)
    }),
    row(
        filtered("ssl_fc_eclist_bin", Bin, "The groups of the client's hello: its elliptic curves"),
        |view, args, _| list(view, args, HelloList::Groups),
    ),
    row(client("ssl_fc_ecformats_bin", Bin, "The formats of points of the client's hello"), |view, _, _| {
        captured(view, |hello| some_binary(hello.list(HelloList::PointFormats)))
    }),
    row(
        filtered("ssl_fc_sigalgs_bin", Bin, "The signature schemes of the client's hello"),
        |view, args, _| list(view, args, HelloList::Signatures),
    ),
    row(
        filtered("ssl_fc_supported_versions_bin", Bin, "The versions of TLS of the client's hello"),
        |view, args, _| list(view, args, HelloList::Versions),
    ),
];

/// Rows for randoms and keys of the TLS session on one side. "Client" in their names is the TLS client: this proxy, towards a
/// server.
macro_rules! keys {
    ($prefix:literal, $peer:literal, $declare:ident, $facts:ident) => {
        &[
            row(
                $declare(
                    concat!($prefix, "_client_random"),
                    Bin,
                    concat!("The random number of the hello of TLS's client, in the session with the ", $peer),
                ),
                |view, _, _| random($facts(view), |facts| facts.randoms.client),
            ),
            row(
                $declare(
                    concat!($prefix, "_server_random"),
                    Bin,
                    concat!("The random number of the hello of TLS's server, in the session with the ", $peer),
                ),
                |view, _, _| random($facts(view), |facts| facts.randoms.server),
            ),
            keys!(@secret $prefix, "_client_early_traffic_secret", $declare, $facts, ClientEarly, "early data", $peer),
            keys!(@secret $prefix, "_client_handshake_traffic_secret", $declare, $facts, ClientHandshake,
                "the client's part of the handshake", $peer),
            keys!(@secret $prefix, "_server_handshake_traffic_secret", $declare, $facts, ServerHandshake,
                "the server's part of the handshake", $peer),
            keys!(@secret $prefix, "_client_traffic_secret_0", $declare, $facts, ClientTraffic,
                "what TLS's client says, the first one,", $peer),
            keys!(@secret $prefix, "_server_traffic_secret_0", $declare, $facts, ServerTraffic,
                "what TLS's server says, the first one,", $peer),
            keys!(@secret $prefix, "_exporter_secret", $declare, $facts, Exporter, "what others derive keys from", $peer),
            keys!(@secret $prefix, "_early_exporter_secret", $declare, $facts, EarlyExporter,
                "what others derive keys from while data are early", $peer),
        ]
    };
    (@secret $prefix:literal, $suffix:literal, $declare:ident, $facts:ident, $secret:ident, $of:literal, $peer:literal) => {
        row(
            $declare(
                concat!($prefix, $suffix),
                Str,
                concat!("The key of ", $of, " in the session with the ", $peer),
            ),
            |view, _, _| secret($facts(view), Secret::$secret),
        )
    };
}

pub(super) const KEYS_WITH_CLIENT: &[FetchRow] = keys!("ssl_fc", "client", client, of_client);
pub(super) const KEYS_WITH_SERVER: &[FetchRow] = keys!("ssl_bc", "server", server, of_server);

fn captured<'c>(
    view: &dyn FetchView,
    read: impl FnOnce(&HelloCapture) -> Option<FetchResult<'c>>,
) -> FetchResult<'c> {
    fact(of_client(view), |facts| read(facts.hello.as_deref()?))
}

fn list<'c>(view: &dyn FetchView, args: &Args, listed: HelloList) -> FetchResult<'c> {
    captured(view, |hello| {
        let all = hello.list(listed);
        if args.int(0) != Some(1) {
            return some_binary(all);
        }
        let mut kept = scratch::take();
        each_value(all, args, |value| kept.extend_from_slice(value));
        (!kept.is_empty()).then(|| made_binary(kept))
    })
}

pub(super) fn some_binary<'c>(bytes: &[u8]) -> Option<FetchResult<'c>> {
    if bytes.is_empty() {
        return None;
    }
    let mut copy = scratch::take();
    copy.extend_from_slice(bytes);
    Some(made_binary(copy))
}

/// Calls `show` with each value of a list except those that the arguments exclude. The last value may be truncated.
fn each_value(list: &[u8], args: &Args, mut show: impl FnMut(&[u8])) {
    let leaves_out = args.int(0) == Some(1);
    let is_left_out = |value: &[u8]| value.first_chunk().is_some_and(|value| is_grease(*value));
    list.chunks(2).filter(|value| !(leaves_out && is_left_out(value))).for_each(&mut show);
}

/// OpenSSL's cipher names, separated by commas.
fn cipher_names(list: &[u8], args: &Args) -> Vec<u8> {
    let mut text = scratch::take();
    each_value(list, args, |value| {
        let Some(value) = value.first_chunk::<2>() else { return };
        if !text.is_empty() {
            text.push(b',');
        }
        match weir_tls::cipher_names::name(*value) {
            Some(name) => text.extend_from_slice(name.as_bytes()),
            // Writing to memory does not fail.
            None => _ = write!(text, "UNKNOWN({:02x}{:02x})", value[0], value[1]),
        }
    });
    text
}

fn push_upper(bytes: &[u8], text: &mut Vec<u8>) {
    for byte in bytes {
        let _ = write!(text, "{byte:02X}");
    }
}

fn random<'c>(facts: Option<&Facts>, which: fn(&Facts) -> Option<[u8; 32]>) -> FetchResult<'c> {
    fact(facts, |facts| some_binary(&which(facts)?))
}

/// A secret in hexadecimal digits, as in key logs.
fn secret<'c>(facts: Option<&Facts>, secret: Secret) -> FetchResult<'c> {
    fact(facts, |facts| {
        let mut text = scratch::take();
        for byte in facts.secrets.as_ref()?.get(secret)? {
            let _ = write!(text, "{byte:02x}");
        }
        Some(made(text))
    })
}
