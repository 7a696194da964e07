//! `h1-*`: unsafe HTTP/1 that is accepted, and the case of header names for peers that require one.

use weir_syntax::{Word, error_text};

use super::context::{GlobalContext, GlobalReader};
use crate::rows::Row;
use crate::words::{Parsed, fault};

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::ready(
        "h1-accept-payload-with-any-method",
        "",
        "",
        "let GET, HEAD and DELETE of HTTP/1.0 have a body",
        |line, words| {
            line.global.http1.payload_with_any_method = line.flag(words)?;
            Ok(())
        },
    ),
    Row::ready(
        "h1-do-not-close-on-insecure-transfer-encoding",
        "",
        "",
        "keep connections after messages with both Content-Length and Transfer-Encoding",
        |line, words| {
            line.global.http1.keep_on_insecure_transfer_encoding = line.flag(words)?;
            Ok(())
        },
    ),
    Row::ready(
        "h1-case-adjust",
        "<from> <to>",
        "content-length Content-Length",
        "a header name as bogus peers want to see it",
        |line, words| {
            let (Some(from), Some(to)) = (words.take(), words.take()) else {
                return Err(words.fault("'h1-case-adjust' expects <from> and <to> as argument."));
            };
            words.end("h1-case-adjust")?;
            let added = add_name(line, from.text(), to.text());
            added.map_err(|message| fault(from.span().to(to.span()), message))
        },
    ),
    Row::ready(
        "h1-case-adjust-file",
        "<hdrs-file>",
        "/etc/haproxy/headers.case",
        "file of header names as bogus peers want to see them",
        |line, words| {
            let path = line.word(words, "<file> as argument")?;
            read_file(line, path)
        },
    ),
];

/// Two names per line. Empty lines and lines that begin with `#` are skipped.
fn read_file(line: &mut GlobalContext<'_>, path: &Word) -> Parsed {
    let complain = |what: String| fault(path.span(), format!("'h1-case-adjust-file' : '{path}'{what}"));
    let bytes = line.resources.loader.read(path.text(), MAX_FILE);
    let bytes =
        bytes.map_err(|error| complain(format!(" : failed to open file ({}).", error_text(&error))))?;
    let text = String::from_utf8_lossy(&bytes);
    for (number, entry) in (1..).zip(text.lines()) {
        let entry = entry.trim_matches([' ', '\t', '\r']);
        if entry.is_empty() || entry.starts_with('#') {
            continue;
        }
        let place = |message: &str| complain(format!(" : {message} at line {number}."));
        let mut names = entry.split_ascii_whitespace();
        match (names.next(), names.next(), names.next()) {
            (Some(from), Some(to), None) => add_name(line, from, to).map_err(|message| place(&message))?,
            (_, None, _) => return Err(place("expect <to>")),
            _ => return Err(place("expect <from> and <to> only")),
        }
    }
    Ok(())
}

fn add_name(line: &mut GlobalContext<'_>, from: &str, to: &str) -> Result<(), String> {
    if !from.eq_ignore_ascii_case(to) {
        return Err("<from> and <to> must not differ except the case".to_owned());
    }
    let names = &mut line.global.http1.adjusted_names;
    if to.len() > MAX_NAME {
        return Err(format!("'{from}' is longer than {MAX_NAME} characters"));
    }
    if names.iter().any(|name| name.eq_ignore_ascii_case(to)) {
        return Err(format!("duplicate entry '{from}'"));
    }
    names.push(to.into());
    Ok(())
}

/// The largest file in bytes, more than enough for the header names of any message.
const MAX_FILE: u64 = 1 << 20;

/// The longest header name in bytes.
const MAX_NAME: usize = 128;
