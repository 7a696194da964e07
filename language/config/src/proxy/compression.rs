//! `compression`: which messages are compressed, and how (manual, 4.2 and 9.2).
//!
//! A `filter` line gives the place of compression among the filters of a proxy. A proxy with an algorithm and without other filters needs
//! no such line.

use std::sync::Arc;

use weir_syntax::{Diagnostic, Diagnostics, Layout, Word};

use super::keywords::{EVERYWHERE, keyword};
use super::{Draft, LineContext, ProxyReader};
use crate::draft::filter::{FilterReader, FilterTable};
use crate::numbers::size_of;
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::{Handler, Row};
use crate::words::{Parsed, Words, fault, suggesting};
use weir_model::{Compression, CompressionAlgorithm, CompressionDirection, Filter, ValueHelp};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "compression algo",
        "<algorithm> ...",
        "zstd br gzip",
        "algorithms for responses: the one with the client's highest weight is used, in case of a tie the first of zstd, br, gzip and \
         deflate",
        EVERYWHERE,
        read_response_algorithms,
    )
    .default(Described("responses are not compressed"))
    .values(ALGORITHMS),
    keyword(
        "compression algo-req",
        "<algorithm>",
        "gzip",
        "algorithm for requests, which every server must understand",
        EVERYWHERE,
        |context, words| {
            let word = words.expect(EXPECTS_ALGORITHM)?;
            let algorithm = algorithm(word)?;
            compression(context).request_algorithm = Some(algorithm);
            words.end("compression algo-req")
        },
    )
    .default(Described("requests are not compressed"))
    .values(ALGORITHMS),
    keyword(
        "compression algo-res",
        "<algorithm> ...",
        "br gzip",
        "the same as 'compression algo'",
        EVERYWHERE,
        read_response_algorithms,
    )
    .default(Described("responses are not compressed"))
    .values(ALGORITHMS),
    keyword(
        "compression direction",
        "{ request | response | both }",
        "both",
        "directions of 'filter compression'; prefer 'filter comp-req' and 'filter comp-res'",
        EVERYWHERE,
        |context, words| {
            let direction = match words.peek_text() {
                "request" => CompressionDirection::Request,
                "response" => CompressionDirection::Response,
                "both" => CompressionDirection::Both,
                _ => return Err(words.fault("'compression' expects 'request', 'response', or 'both'.")),
            };
            words.take();
            compression(context).direction = direction;
            words.end("compression direction")
        },
    )
    .default(Written("response")),
    keyword(
        "compression minsize-req",
        "<size>",
        "1k",
        "smallest request body to compress",
        EVERYWHERE,
        |context, words| {
            compression(context).request_min_size = min_size(words, "minsize-req")?;
            Ok(())
        },
    )
    .default(Written("0")),
    keyword(
        "compression minsize-res",
        "<size>",
        "1k",
        "smallest response body to compress; a body that arrives in parts without a length is compressed",
        EVERYWHERE,
        |context, words| {
            compression(context).response_min_size = min_size(words, "minsize-res")?;
            Ok(())
        },
    )
    .default(Written("0")),
    keyword(
        "compression offload",
        "",
        "",
        "remove Accept-Encoding from requests, so that servers do not compress",
        EVERYWHERE,
        |context, words| {
            words.end("compression offload")?;
            match context.draft.section.is_defaults() {
                true => {
                    let said = "'compression' : 'offload' ignored in 'defaults' section.";
                    context.warn(words.line().span(), said);
                }
                false => compression(context).offload = true,
            }
            Ok(())
        },
    ),
    keyword(
        "compression type",
        "<mime type> ...",
        "text/html text/plain",
        "media types of responses to compress; each is a prefix",
        EVERYWHERE,
        |context, words| types(context, words, |compression| &mut compression.response_types),
    )
    .default(Described("every type")),
    keyword(
        "compression type-req",
        "<mime type> ...",
        "application/json",
        "media types of requests to compress; each is a prefix",
        EVERYWHERE,
        |context, words| types(context, words, |compression| &mut compression.request_types),
    )
    .default(Described("every type")),
    keyword(
        "compression type-res",
        "<mime type> ...",
        "text/html application/json",
        "the same as 'compression type'",
        EVERYWHERE,
        |context, words| types(context, words, |compression| &mut compression.response_types),
    )
    .default(Described("every type")),
];

/// The algorithms, for `weir explain` and the manual.
const ALGORITHMS: &[ValueHelp] = &[
    ("zstd", "the fastest, and smaller than gzip; an extension that HAProxy refuses"),
    ("br", "Brotli, for browsers over TLS; an extension that HAProxy refuses"),
    ("gzip", "understood by every client"),
    ("deflate", "in the zlib format, which some old browsers do not understand"),
    ("raw-deflate", "deflate without a wrapper, for these browsers; not together with 'deflate'"),
    ("identity", "changes nothing, for tests"),
];

const EXPECTS_ALGORITHM: &str = "'compression' expects <algorithm>.";

fn compression<'c>(context: &'c mut LineContext<'_>) -> &'c mut Compression {
    Arc::make_mut(&mut context.settings().compression)
}

fn algorithm(word: &Word) -> Parsed<CompressionAlgorithm> {
    CompressionAlgorithm::from_word(word.text()).ok_or_else(|| {
        let message = format!("'compression' : '{word}' is not a supported algorithm.");
        let known = CompressionAlgorithm::ALL.map(CompressionAlgorithm::word);
        suggesting(fault(word.span(), message), weir_syntax::did_you_mean(word.text(), known))
    })
}

fn read_response_algorithms(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let mut next = Some(words.expect(EXPECTS_ALGORITHM)?);
    while let Some(word) = next {
        let algorithm = algorithm(word)?;
        let algorithms = &mut compression(context).response_algorithms;
        if !algorithms.contains(&algorithm) {
            algorithms.push(algorithm);
        }
        next = words.take();
    }
    Ok(())
}

fn types(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    list: fn(&mut Compression) -> &mut Vec<Arc<str>>,
) -> Parsed {
    let mut next = Some(words.expect("'compression' expects <type>.")?);
    while let Some(word) = next {
        list(compression(context)).push(word.text().into());
        next = words.take();
    }
    Ok(())
}

fn min_size(words: &mut Words<'_>, keyword: &str) -> Parsed<u64> {
    let word = words.expect(&format!("'{keyword}' expects a size as argument."))?;
    let size = size_of(word, keyword)?;
    words.end(&format!("compression {keyword}"))?;
    Ok(size)
}

/// The filter that a proxy with an algorithm needs. Without a `filter` line for it, it is added if no other filter than a FastCGI
/// application is declared.
pub(super) fn settle(draft: &mut Draft, filters: &FilterTable, diagnostics: &mut Diagnostics) {
    if draft.section.is_defaults() || draft.proxy.mode() != weir_model::Mode::Http {
        return;
    }
    let compression = &draft.proxy.settings.compression;
    let has_algorithm =
        !compression.response_algorithms.is_empty() || compression.request_algorithm.is_some();
    let is_declared = draft.proxy.filters.iter().any(|filter| filter.facts().compresses);
    if !has_algorithm || is_declared {
        return;
    }
    if draft.proxy.filters.iter().any(|filter| filter.facts().application.is_none()) {
        let message = format!(
            "{} '{}': require an explicit filter declaration to use HTTP compression",
            draft.section.noun(),
            draft.proxy.name
        );
        let note = "add 'filter comp-res' where compression belongs among the other filters";
        diagnostics.push(Diagnostic::alert(draft.span, message).layout(Layout::Bare).note(note));
        return;
    }
    // The rows come from another crate. Without the row, no filter can compress.
    let Some(row) = filters.find("compression") else { return };
    if let Handler::Ready(FilterReader { implied: Some(create), .. }) = row.handler {
        draft.proxy.filters.push(Filter::new(row.name, create(), draft.proxy.at.clone()));
    }
}
