//! `capture` and `declare capture`: parts of messages that are stored for the logs.

use weir_syntax::Word;

use super::keywords::{keyword, strict_keyword};
use super::{FRONTENDS, LineContext, ProxyReader};
use crate::draft::MAX_CAPTURE;
use crate::numbers::integer_in;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::{CaptureSlot, CookieCapture};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "capture cookie",
        "<name> len <length>",
        "JSESSIONID= len 32",
        "log a cookie of requests and responses",
        FRONTENDS,
        |context, words| {
            let expects = "'capture' expects 'cookie' <cookie_name> 'len' <len>.";
            let (name, length_max) = read_name_and_length(words, "cookie", expects)?;
            // "name=" is an exact name, "name" is a prefix.
            let (name, prefix) = match name.text().strip_suffix('=') {
                Some(exact) => (exact, false),
                None => (name.text(), true),
            };
            context.draft.proxy.captures.cookie =
                Some(CookieCapture { name: name.into(), prefix, length_max });
            Ok(())
        },
    ),
    keyword(
        "capture request header",
        "<name> len <length>",
        "Host len 64",
        "log a request header",
        FRONTENDS,
        |context, words| {
            let expects = "'capture request' expects 'header' <header_name> 'len' <len>.";
            let (name, length_max) = read_name_and_length(words, "request", expects)?;
            let slot = CaptureSlot { header: Some(name.text().into()), length_max };
            context.draft.proxy.captures.request.push(slot);
            Ok(())
        },
    ),
    keyword(
        "capture response header",
        "<name> len <length>",
        "Server len 20",
        "log a response header",
        FRONTENDS,
        |context, words| {
            let expects = "'capture response' expects 'header' <header_name> 'len' <len>.";
            let (name, length_max) = read_name_and_length(words, "response", expects)?;
            let slot = CaptureSlot { header: Some(name.text().into()), length_max };
            context.draft.proxy.captures.response.push(slot);
            Ok(())
        },
    ),
    strict_keyword(
        "declare capture",
        "[ request | response ] len <length>",
        "request len 20",
        "a place for rules to capture into",
        FRONTENDS,
        read_declare,
    ),
];

fn read_name_and_length<'l>(words: &mut Words<'l>, what: &str, expects: &str) -> Parsed<(&'l Word, u32)> {
    let name = words.expect(expects)?;
    if !words.take_if("len") {
        return Err(words.fault(expects));
    }
    let length = words.expect(expects)?;
    let length = integer_in(length, "len", 0..=MAX_CAPTURE)?;
    words.end(&format!("capture {what}"))?;
    Ok((name, length))
}

fn read_declare(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let direction = words.peek_text();
    if !matches!(direction, "request" | "response") {
        return Err(words.fault("'declare capture' requires a direction ('request' or 'response')"));
    }
    words.take();
    if !words.take_if("len") {
        return Err(words.fault("'declare capture' requires a capture length ('len')"));
    }
    let word = words
        .expect("'declare capture': 'len' requires a numeric value that represents the capture length")?;
    let length_max = integer_in(word, "len", 0..=MAX_CAPTURE)?;
    if length_max == 0 {
        return Err(fault(word.span(), "length must be > 0"));
    }
    let slot = CaptureSlot { header: None, length_max };
    let captures = &mut context.draft.proxy.captures;
    if direction == "request" {
        captures.request.push(slot);
    } else {
        captures.response.push(slot);
    }
    words.end("declare capture")
}
