//! Stream IDs and errors of the connections to client and server (`fs.*` and `bs.*`, manual section 7.3.4).
//!
//! In HTTP/2 the ID is the protocol's stream identifier. In HTTP/1, which has one stream at a time, streams are
//! numbered from 0. In FastCGI it is the number of the request on its connection.

use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _};

use weir_expr::SampleType::{Bool, Int, Str};
use weir_expr::{ArgKind, ArgSpec, Args, ExpressionScope, FetchDecl, FetchResult, Needs, SampleType};
use weir_mux::carrier::{self, CarrierRef};
use weir_mux::{SharedStream, StreamConnector};
use weir_tls::Facts;

use super::values::{made, number, truth};
use super::{FetchRow, row, valid};
use crate::view::FetchView;

const fn front(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::SESSION).needs(Needs::L5_CLIENT)
}

const fn back(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::ANSWERED).needs(Needs::L5_SERVER)
}

/// The layers to describe, as a sum of their numbers. 0 for all.
const LAYERS: ArgSpec = ArgSpec::new(0, &[ArgKind::Int]);

/// The rows, identical for both sides.
macro_rules! rows {
    ($prefix:literal, $peer:literal, $declare:ident, $with:ident) => {
        &[
            row(
                $declare(
                    concat!($prefix, "id"),
                    Int,
                    concat!("The number of the stream on the ", $peer, "'s connection"),
                ),
                |view, _, _| $with(view, |connector, requests| number(id_of(connector, requests))),
            ),
            row(
                $declare(
                    concat!($prefix, "aborted"),
                    Bool,
                    concat!("Whether the ", $peer, " reset the stream"),
                ),
                |view, _, _| $with(view, |connector, _| truth(abort_of(connector).is_some())),
            ),
            row(
                $declare(
                    concat!($prefix, "rst_code"),
                    Int,
                    concat!("The error code that the ", $peer, " reset the stream with"),
                ),
                |view, _, _| {
                    $with(view, |connector, _| abort_of(connector).map_or(FetchResult::Missing, number))
                },
            ),
            row(
                $declare(
                    concat!($prefix, "debug_str"),
                    Str,
                    concat!("What the layers below the ", $peer, "'s stream know of it, for experts"),
                )
                .args(LAYERS)
                .check(check_layers),
                |view, args, _| $with(view, |connector, requests| describe(connector, requests, args)),
            ),
        ]
    };
}

pub(super) const FRONT: &[FetchRow] = rows!("fs.", "client", front, with_client);
pub(super) const BACK: &[FetchRow] = rows!("bs.", "server", back, with_server);

fn check_layers(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.int(0) {
        None | Some(0..=ALL_LAYERS) => Ok(()),
        Some(layers) => Err(format!("unknown layers {layers} (expects a sum of 1, 2, 4, 8 and 16)")),
    }
}

/// Stream ID 0 stands for the connection when no stream was created.
fn with_client<'c>(
    view: &dyn FetchView,
    then: impl FnOnce(&StreamConnector, u32) -> FetchResult<'c>,
) -> FetchResult<'c> {
    match view.client() {
        Some(client) if client.shared().is_none_or(|stream| stream.id() != 0) => {
            then(client, view.client_requests())
        }
        _ => FetchResult::Missing,
    }
}

fn with_server<'c>(
    view: &dyn FetchView,
    then: impl FnOnce(&StreamConnector, u32) -> FetchResult<'c>,
) -> FetchResult<'c> {
    view.server_connection().map_or(FetchResult::Missing, |server| then(server.connector, server.requests))
}

/// The ID of the current stream on a connection that began `begun` streams.
fn id_of(connector: &StreamConnector, begun: u32) -> u32 {
    carrier::id_of(connector).unwrap_or_else(|| begun.saturating_sub(1))
}

fn abort_of(connector: &StreamConnector) -> Option<u32> {
    connector.shared().and_then(SharedStream::abort_code)
}

/// A list of `name=value`, from the stream down to the socket.
fn describe<'c>(connector: &StreamConnector, begun: u32, args: &Args) -> FetchResult<'c> {
    let layers = match args.int(0) {
        None | Some(0) => ALL_LAYERS,
        Some(layers) => layers,
    };
    let mut text = Vec::new();
    let mut say = |layer: i64, words: std::fmt::Arguments<'_>| {
        if layers & layer != 0 {
            let space = if text.is_empty() { "" } else { " " };
            // Writing to memory does not fail.
            let _ = write!(text, "{space}{words}");
        }
    };
    say(MUX_STREAM, format_args!("stream={}", id_of(connector, begun)));
    if let Some(stream) = carrier::summary_of(connector) {
        say(MUX_STREAM, format_args!("{stream}"));
    }
    match CarrierRef::from(connector).describe_connection() {
        Some(connection) => say(MUX_CONNECTION, format_args!("{connection}")),
        None => say(MUX_CONNECTION, format_args!("mux=h1 streams={begun}")),
    }
    match connector.tls().and_then(Facts::version_name) {
        Some(version) => say(TRANSPORT, format_args!("transport=tls version={version}")),
        None => say(TRANSPORT, format_args!("transport=raw")),
    }
    say(CONNECTION, format_args!("received={} sent={}", connector.received(), connector.sent()));
    if let Some(fault) = connector.fault() {
        say(CONNECTION, format_args!("fault=\"{fault}\""));
    }
    if let Some(descriptor) = connector.with_descriptor(|descriptor| descriptor.as_fd().as_raw_fd()) {
        say(SOCKET, format_args!("fd={descriptor}"));
    }
    made(text)
}

const MUX_STREAM: i64 = 1;
const MUX_CONNECTION: i64 = 2;
const TRANSPORT: i64 = 4;
const CONNECTION: i64 = 8;
const SOCKET: i64 = 16;
const ALL_LAYERS: i64 = 31;
