//! Parses an unencrypted TLS ClientHello or ServerHello, for routing by SNI in TCP mode.

use std::borrow::Cow;

use weir_expr::SampleType::{Bin, Bool, Int, Str};
use weir_expr::{FetchDecl, FetchResult, Needs, SampleType, Value, scratch};

use super::values::{made_binary, number, truth};
use super::{FetchRow, row, valid};
use crate::view::{FetchView, MessageSide};
use weir_client_hello::{CLIENT_HELLO, ClientHello, HandshakeMessage, Unread};

const fn request(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::REQUEST).needs(Needs::L6_REQUEST)
}

/// The newer fetches, which HAProxy allows wherever there is a client.
const fn client(name: &'static str, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, Bin, help).valid(valid::CLIENT).needs(Needs::L6_REQUEST)
}

const fn response(name: &'static str) -> FetchDecl {
    FetchDecl::new(name, Int, "The type of the TLS handshake message in the response")
        .valid(valid::RESPONSE)
        .needs(Needs::L6_RESPONSE)
}

const KIND: &str = "The type of the TLS handshake message in the request: 1 is a client's hello";
const NAME: &str = "The server name in a TLS client's hello";
const VERSION: &str =
    "The version in an SSL or TLS client's hello: the major one times 65536, plus the minor one";

pub(super) const ROWS: &[FetchRow] = &[
    row(request("req.ssl_hello_type", Int, KIND), |view, _, _| kind(view, MessageSide::Request)),
    row(request("req_ssl_hello_type", Int, KIND), |view, _, _| kind(view, MessageSide::Request)),
    row(response("res.ssl_hello_type"), |view, _, _| kind(view, MessageSide::Response)),
    row(response("rep_ssl_hello_type"), |view, _, _| kind(view, MessageSide::Response)),
    row(request("req.ssl_sni", Str, NAME), |view, _, _| bytes(view, Value::Str, |hello| hello.server_name())),
    row(request("req_ssl_sni", Str, NAME), |view, _, _| bytes(view, Value::Str, |hello| hello.server_name())),
    row(request("req.ssl_ver", Int, VERSION), |view, _, _| version(view)),
    row(request("req_ssl_ver", Int, VERSION), |view, _, _| version(view)),
    row(
        request("req.ssl_alpn", Str, "The first application protocol that a TLS client's hello offers"),
        |view, _, _| bytes(view, Value::Str, |hello| hello.application_protocol()),
    ),
    row(
        request("req.ssl_ec_ext", Bool, "True if a TLS client's hello lists elliptic curves"),
        |view, _, _| fact(view, |hello| Some(truth(hello.groups().is_some()))),
    ),
    row(
        request(
            "req.ssl_st_ext",
            Int,
            "Session tickets in a TLS client's hello: 0 none, 1 known, 2 one is there",
        ),
        |view, _, _| {
            fact(view, |hello| {
                Some(number(hello.session_ticket().map_or(0, |ticket| 1 + i64::from(!ticket.is_empty()))))
            })
        },
    ),
    row(client("req.ssl_cipherlist", "The cipher suites in a TLS client's hello"), |view, _, _| {
        bytes(view, Value::Bin, |hello| Some(hello.ciphers))
    }),
    row(client("req.ssl_sigalgs", "The signature schemes in a TLS client's hello"), |view, _, _| {
        bytes(view, Value::Bin, |hello| hello.signature_schemes())
    }),
    row(client("req.ssl_supported_groups", "The groups that a TLS client's hello lists"), |view, _, _| {
        bytes(view, Value::Bin, |hello| hello.groups())
    }),
    row(
        client("req.ssl_keyshare_groups", "The groups that a TLS client's hello has keys for"),
        |view, _, _| {
            fact(view, |hello| {
                let mut groups = scratch::take();
                groups.extend(hello.key_share_groups()?.flatten());
                Some(made_binary(groups))
            })
        },
    ),
];

fn unread<'c>(view: &dyn FetchView, unread: Unread) -> FetchResult<'c> {
    match unread {
        Unread::TooShort => view.absent().into(),
        Unread::NotTls => FetchResult::Missing,
    }
}

/// The raw bytes of one side. Empty for HTTP.
fn input(view: &dyn FetchView, side: MessageSide) -> &[u8] {
    if view.speaks_http() { b"" } else { view.raw_input(side) }
}

fn kind<'c>(view: &dyn FetchView, side: MessageSide) -> FetchResult<'c> {
    match weir_client_hello::read(input(view, side)) {
        Ok(message) => {
            let kind = message.kind;
            give_back(message);
            number(kind)
        }
        Err(reason) => unread(view, reason),
    }
}

fn version<'c>(view: &dyn FetchView) -> FetchResult<'c> {
    let shown = |[major, minor]: [u8; 2]| number(i64::from(major) << 16 | i64::from(minor));
    match weir_client_hello::sslv2_version(input(view, MessageSide::Request)) {
        Ok(version) => shown(version),
        Err(Unread::NotTls) => fact(view, |hello| Some(shown(hello.version))),
        Err(reason) => unread(view, reason),
    }
}

/// A fact about the ClientHello that is not one of its fields.
fn fact<'c>(
    view: &dyn FetchView,
    question: impl FnOnce(&ClientHello<'_>) -> Option<FetchResult<'c>>,
) -> FetchResult<'c> {
    match weir_client_hello::read(input(view, MessageSide::Request)) {
        Ok(message) => {
            let hello = Some(&message).filter(|message| message.kind == CLIENT_HELLO);
            let answer = hello
                .and_then(|message| ClientHello::parse(&message.body))
                .and_then(|hello| question(&hello));
            give_back(message);
            answer.unwrap_or(FetchResult::Missing)
        }
        Err(reason) => unread(view, reason),
    }
}

/// A field of the ClientHello. It is borrowed from the input, unless the message had to be reassembled.
fn bytes<'c>(
    view: &'c dyn FetchView,
    kind: fn(Cow<'c, [u8]>) -> Value<'c>,
    part: impl for<'h> FnOnce(&ClientHello<'h>) -> Option<&'h [u8]>,
) -> FetchResult<'c> {
    match weir_client_hello::read(input(view, MessageSide::Request)) {
        Ok(HandshakeMessage { kind: CLIENT_HELLO, body: Cow::Borrowed(body) }) => {
            let found = ClientHello::parse(body).and_then(|hello| part(&hello));
            found.map_or(FetchResult::Missing, |bytes| FetchResult::value(kind(Cow::Borrowed(bytes))))
        }
        Ok(HandshakeMessage { kind: CLIENT_HELLO, body: Cow::Owned(body) }) => {
            let found = ClientHello::parse(&body).and_then(|hello| part(&hello)).map(|bytes| {
                let mut copy = scratch::take();
                copy.extend_from_slice(bytes);
                copy
            });
            scratch::give(body);
            found.map_or(FetchResult::Missing, |bytes| FetchResult::value(kind(Cow::Owned(bytes))))
        }
        Ok(message) => {
            give_back(message);
            FetchResult::Missing
        }
        Err(reason) => unread(view, reason),
    }
}

fn give_back(message: HandshakeMessage<'_>) {
    if let Cow::Owned(body) = message.body {
        scratch::give(body);
    }
}
