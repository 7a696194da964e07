//! `send` and similar rules.

use std::sync::Arc;

use weir_expr::literal::is_token_byte;

use super::{CheckRuleKind, comment, format, trailing_comment};
use crate::proxy::LineContext;
use crate::words::{Parsed, Words, fault};
use weir_model::{CheckAction, CheckRule, CheckText, HttpRequest};

pub(super) fn read_bytes(
    _: &mut LineContext<'_>,
    words: &mut Words<'_>,
    _: CheckRuleKind,
) -> Parsed<CheckRule> {
    let word = words.expect("'tcp-check send' : 'string' expects a send as argument.")?;
    let action = CheckAction::Send(word.bytes().into());
    Ok(CheckRule { step: 0, comment: trailing_comment(words, "tcp-check send")?, action })
}

pub(super) fn read_format(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    _: CheckRuleKind,
) -> Parsed<CheckRule> {
    let word = words.expect("'tcp-check send-lf' : expects a format as argument.")?;
    let action = CheckAction::SendFormat(Arc::new(format(context, word)?));
    Ok(CheckRule { step: 0, comment: trailing_comment(words, "tcp-check send-lf")?, action })
}

pub(super) fn read_hex(
    _: &mut LineContext<'_>,
    words: &mut Words<'_>,
    _: CheckRuleKind,
) -> Parsed<CheckRule> {
    let word = words.expect("'tcp-check send-binary' : expects hexadecimal digits as argument.")?;
    let bytes = hex(word.bytes()).map_err(|why| {
        fault(word.span(), format!("'tcp-check send-binary' : '{word}' invalid binary string ({why})."))
    })?;
    let action = CheckAction::Send(bytes.into());
    Ok(CheckRule { step: 0, comment: trailing_comment(words, "tcp-check send-binary")?, action })
}

pub(super) fn read_hex_format(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    _: CheckRuleKind,
) -> Parsed<CheckRule> {
    let word = words.expect("'tcp-check send-binary-lf' : expects a format as argument.")?;
    let action = CheckAction::SendHexFormat(Arc::new(format(context, word)?));
    Ok(CheckRule { step: 0, comment: trailing_comment(words, "tcp-check send-binary-lf")?, action })
}

/// Decodes hexadecimal digits. The error is the reason why they are invalid.
pub(super) fn hex(digits: &[u8]) -> Result<Vec<u8>, String> {
    if !digits.len().is_multiple_of(2) {
        return Err("an even number of hex digit is expected".to_owned());
    }
    let digit = |byte: u8| {
        let value = char::from(byte).to_digit(16);
        value.ok_or_else(|| format!("an hex digit is expected (found '{}')", char::from(byte)))
    };
    digits.chunks_exact(2).map(|pair| Ok((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

pub(super) fn read_http(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    _: CheckRuleKind,
) -> Parsed<CheckRule> {
    const KEYWORD: &str = "http-check send";
    let mut request = HttpRequest::default();
    let mut said = None;
    while let Some(word) = words.take() {
        let name = word.text();
        let missing = format!("'{KEYWORD}' : '{name}' expects a string as argument.");
        match name {
            "meth" => request.method = Some(words.expect(&missing)?.bytes().into()),
            "uri" => request.uri = Some(CheckText::Fixed(words.expect(&missing)?.bytes().into())),
            "uri-lf" => {
                request.uri = Some(CheckText::Format(Arc::new(format(context, words.expect(&missing)?)?)))
            }
            "ver" => request.version = Some(words.expect(&missing)?.bytes().into()),
            "body" => request.body = Some(CheckText::Fixed(words.expect(&missing)?.bytes().into())),
            "body-lf" => {
                request.body = Some(CheckText::Format(Arc::new(format(context, words.expect(&missing)?)?)))
            }
            "hdr" => {
                let missing = format!("'{KEYWORD}' : 'hdr' expects <name> and <value> as arguments.");
                let name = words.expect(&missing)?;
                let value = words.take().ok_or_else(|| words.fault(missing))?;
                if !name.bytes().iter().all(|byte| is_token_byte(*byte)) {
                    return Err(fault(
                        name.span(),
                        format!("'{KEYWORD}' : '{name}' is not a valid header name."),
                    ));
                }
                let lower: Arc<[u8]> = name.bytes().to_ascii_lowercase().into();
                // The sender adds the framing fields of the body (manual, "http-check send").
                if !matches!(&*lower, b"content-length" | b"transfer-encoding") {
                    request.headers.push((lower, format(context, value)?));
                }
            }
            "comment" => said = Some(comment(words, KEYWORD)?),
            other => {
                return Err(fault(
                    word.span(),
                    format!(
                        "'{KEYWORD}' : expects 'comment', 'meth', 'uri', 'uri-lf', 'ver', 'hdr', 'body' or 'body-lf' but \
                         got '{other}' as argument."
                    ),
                ));
            }
        }
    }
    Ok(CheckRule { comment: said, step: 0, action: CheckAction::SendHttp(Arc::new(request)) })
}
