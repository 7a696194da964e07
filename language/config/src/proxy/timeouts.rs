//! Every `timeout`.

use std::time::Duration;

use weir_syntax::Span;

use super::keywords::{DEFAULTS_AND_BACKENDS, DEFAULTS_AND_FRONTENDS, EVERYWHERE, keyword};
use super::{LineContext, ProxyReader};
use crate::numbers::delay_of;
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::Timeouts;

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "timeout check",
        "<timeout>",
        "5s",
        "how long a health check may wait for an answer once it is connected",
        DEFAULTS_AND_BACKENDS,
        |context, words| read(context, words, "timeout check", |timeouts| &mut timeouts.check),
    )
    .default(Described("none; `timeout connect` and the server's `inter` bound a check all the same")),
    keyword(
        "timeout client",
        "<timeout>",
        "30s",
        "how long a client may neither send nor take data before its connection is closed; 30s suits \
         most sites",
        DEFAULTS_AND_FRONTENDS,
        |context, words| read(context, words, "timeout client", |timeouts| &mut timeouts.client),
    )
    .default(Described("none, with a warning")),
    keyword(
        "timeout client-fin",
        "<timeout>",
        "5s",
        "the same as 'timeout client', once one side has closed",
        DEFAULTS_AND_FRONTENDS,
        |context, words| read(context, words, "timeout client-fin", |timeouts| &mut timeouts.client_fin),
    )
    .default(Described("that of `timeout client`")),
    keyword(
        "timeout client-hs",
        "<timeout>",
        "5s",
        "how long the handshakes of a client's connection may take (TLS, PROXY protocol)",
        DEFAULTS_AND_FRONTENDS,
        |context, words| read(context, words, "timeout client-hs", |timeouts| &mut timeouts.client_handshake),
    )
    .default(Described("that of `timeout client`")),
    keyword(
        "timeout connect",
        "<timeout>",
        "5s",
        "how long to wait for a server to accept a connection",
        DEFAULTS_AND_BACKENDS,
        |context, words| read(context, words, "timeout connect", |timeouts| &mut timeouts.connect),
    )
    .default(Described("none, with a warning")),
    keyword(
        "timeout http-keep-alive",
        "<timeout>",
        "15s",
        "how long an idle client connection is kept for its next request",
        EVERYWHERE,
        |context, words| {
            read(context, words, "timeout http-keep-alive", |timeouts| &mut timeouts.http_keep_alive)
        },
    )
    .default(Described("that of `timeout http-request`, else of `timeout client`")),
    keyword(
        "timeout http-request",
        "<timeout>",
        "10s",
        "how long a client may take to send all headers; it ends slow attacks",
        EVERYWHERE,
        |context, words| read(context, words, "timeout http-request", |timeouts| &mut timeouts.http_request),
    )
    .default(Described("that of `timeout client`")),
    keyword(
        "timeout queue",
        "<timeout>",
        "30s",
        "how long a request may wait for a server below its 'maxconn'",
        DEFAULTS_AND_BACKENDS,
        |context, words| read(context, words, "timeout queue", |timeouts| &mut timeouts.queue),
    )
    .default(Described("that of `timeout connect`")),
    keyword(
        "timeout server",
        "<timeout>",
        "30s",
        "how long a server may neither send nor take data; then the client gets 504, or its answer ends",
        DEFAULTS_AND_BACKENDS,
        |context, words| read(context, words, "timeout server", |timeouts| &mut timeouts.server),
    )
    .default(Described("none, with a warning")),
    keyword(
        "timeout server-fin",
        "<timeout>",
        "5s",
        "the same as 'timeout server', once one side has closed",
        DEFAULTS_AND_BACKENDS,
        |context, words| read(context, words, "timeout server-fin", |timeouts| &mut timeouts.server_fin),
    )
    .default(Described("that of `timeout server`")),
    keyword(
        "timeout tarpit",
        "<timeout>",
        "10s",
        "how long 'http-request tarpit' holds a client before it answers",
        EVERYWHERE,
        |context, words| read(context, words, "timeout tarpit", |timeouts| &mut timeouts.tarpit),
    )
    .default(Described("that of `timeout connect`")),
    keyword(
        "timeout tunnel",
        "<timeout>",
        "1h",
        "how long a tunnel may be quiet both ways: WebSocket, CONNECT, TCP once both sides talk",
        DEFAULTS_AND_BACKENDS,
        |context, words| read(context, words, "timeout tunnel", |timeouts| &mut timeouts.tunnel),
    )
    .default(Described("those of `timeout client` and `timeout server`")),
];

fn read(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    keyword: &'static str,
    field: fn(&mut Timeouts) -> &mut Option<Duration>,
) -> Parsed {
    let word = words.expect(&format!("'{keyword}' expects an integer value (in milliseconds)"))?;
    let delay = delay_of(words, word, keyword)?;
    if let Some(extra) = words.peek() {
        let message = format!("'{keyword}' : unexpected extra argument '{extra}' after value '{word}'.");
        return Err(fault(extra.span(), message));
    }
    // A timeout of zero means no timeout: HAProxy's way to switch off an inherited one.
    let timeout = (delay > Duration::ZERO).then_some(delay);
    let former = std::mem::replace(field(&mut context.settings().timeouts), timeout);
    if context.overwrites(keyword, former != timeout) {
        context.warn(
            words.line().keyword().span(),
            format!("overwriting '{keyword}' which was already specified"),
        );
    }
    warn_if_probably_seconds(context, word.span(), keyword, word.text(), delay);
    Ok(())
}

/// Warns about a number below 100 without a unit: it was probably not meant in milliseconds.
fn warn_if_probably_seconds(
    context: &mut LineContext<'_>,
    span: Span,
    keyword: &str,
    text: &str,
    delay: Duration,
) {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if plain && delay > Duration::ZERO && delay < Duration::from_millis(100) {
        let name = if context.draft.section.is_defaults_without_name() { "".into() } else { context.name() };
        let message = format!(
            "'{keyword} {text}' in {} '{name}' is suspiciously small for a value in milliseconds. Please use an explicit \
             unit ('{text}ms') if that was the intent.",
            context.draft.section.noun()
        );
        context.warn(span, message);
    }
}
