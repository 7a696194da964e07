//! The arguments of replies: `status`, `content-type`, the content, `hdr`.

use std::sync::{Arc, OnceLock};

use weir_expr::{EvaluationPoints, FormatOptions, Loader};
use weir_syntax::{Span, Word, error_text};

use crate::draft::LineContext;
use crate::error_file;
use crate::words::{Parsed, Words, fault};
use weir_model::{ErrorMessage, ErrorReplies, ErrorSection, Reply, ReplyContent, ReplyHeader};

/// Differences between the words with reply arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyRules {
    pub default_status: u16,
    /// The lowest status that may be set.
    pub lowest_status: u16,
    /// Whether a reply without content uses the proxy's error message.
    pub falls_back: bool,
    pub points: EvaluationPoints,
}

impl ReplyRules {
    /// `http-error`.
    pub(crate) const HTTP_ERROR: ReplyRules = ReplyRules {
        default_status: 0,
        lowest_status: 200,
        falls_back: false,
        points: EvaluationPoints::ALL,
    };

    /// `deny`.
    pub(crate) fn deny(default_status: u16, points: EvaluationPoints) -> Self {
        ReplyRules { default_status, lowest_status: 200, falls_back: true, points }
    }

    /// `return`.
    pub(crate) fn answer(points: EvaluationPoints) -> Self {
        ReplyRules { default_status: 200, lowest_status: 200, falls_back: false, points }
    }
}

/// The limit in bytes of an error message, and of a body from a file.
const MAX_FILE: u64 = 1 << 20;

/// The limit of additional headers of a reply.
const MAX_HEADERS: usize = 256;

/// Reads the arguments of a reply up to the first word that is not one of them.
pub(crate) fn read_reply(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    rules: &ReplyRules,
) -> Parsed<Reply> {
    let mut draft = ReplyDraft {
        status: rules.default_status,
        status_span: words.here(),
        says_status: false,
        content_type: None,
        content: None,
        headers: Vec::new(),
    };
    while let Some(word) = words.peek() {
        match word.text() {
            "status" | "deny_status" => read_status(words, &mut draft, rules)?,
            "content-type" => {
                words.take();
                let value = words.expect("'content-type' expects <ctype> as argument.")?;
                draft.content_type = Some((value.text().into(), value.span()));
            }
            "hdr" => {
                words.take();
                let expects = "'hdr' expects <name> and <value> as arguments.";
                let name = words.expect(expects)?;
                let value = words.expect(expects)?;
                if draft.headers.len() == MAX_HEADERS {
                    return Err(fault(name.span(), format!("more than {MAX_HEADERS} 'hdr' arguments")));
                }
                let format = context.expressions().format_with(value, rules.points, FormatOptions::HTTP)?;
                draft.headers.push(ReplyHeader { name: name.text().into(), value: format });
            }
            "default-errorfiles" | "errorfile" | "errorfiles" | "file" | "lf-file" | "string"
            | "lf-string" => {
                read_content(context, words, &mut draft, rules)?;
            }
            _ => break,
        }
    }
    draft.complete(context, rules)
}

struct ReplyDraft {
    status: u16,
    status_span: Span,
    /// Whether the word `status` was used, not only `deny_status`.
    says_status: bool,
    content_type: Option<(Arc<str>, Span)>,
    content: Option<(&'static str, ReplyContent, Span)>,
    headers: Vec<ReplyHeader>,
}

fn read_status(words: &mut Words<'_>, draft: &mut ReplyDraft, rules: &ReplyRules) -> Parsed {
    let keyword = words.take().map_or("status", |word| word.text());
    let word = words.expect(&format!("'{keyword}' expects <status_code> as argument."))?;
    let status =
        word.text().parse::<u16>().ok().filter(|status| (rules.lowest_status..=599).contains(status));
    draft.status = status.ok_or_else(|| fault(word.span(), format!("Unexpected status code '{word}'.")))?;
    draft.status_span = word.span();
    draft.says_status |= keyword == "status";
    Ok(())
}

fn read_content(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    draft: &mut ReplyDraft,
    rules: &ReplyRules,
) -> Parsed {
    let Some(word) = words.take() else { return Ok(()) };
    if let Some((previous, ..)) = &draft.content {
        return Err(fault(
            word.span(),
            format!("unexpected '{word}' argument, '{previous}' already defined."),
        ));
    }
    let loader = context.resources.loader;
    let (keyword, content) = match word.text() {
        "default-errorfiles" => ("default-errorfiles", ReplyContent::ProxyDefault),
        "errorfile" => {
            let path = words.expect("'errorfile' expects <file> as argument.")?;
            ("errorfile", ReplyContent::Message(read_error_file(loader, path)?))
        }
        "errorfiles" => {
            let name = words.expect("'errorfiles' expects <name> as argument.")?;
            let section = ErrorSection { name: name.text().into(), message: OnceLock::new() };
            ("errorfiles", ReplyContent::Section(Arc::new(section)))
        }
        "file" => {
            let path = words.expect("'file' expects <file> as argument.")?;
            ("file", ReplyContent::Body(read_file(loader, path)?.into()))
        }
        "string" => {
            let text =
                words.take().ok_or_else(|| fault(word.span(), "'string' expects <str> as argument."))?;
            ("string", ReplyContent::Body(text.bytes().into()))
        }
        "lf-file" => {
            let path = words.expect("'lf-file' expects <file> as argument.")?;
            let text = read_file(loader, path)?;
            let format = context.expressions().format_of_file(path, &text, rules.points)?;
            ("lf-file", ReplyContent::Format(Arc::new(format)))
        }
        _ => {
            let text = words.expect("'lf-string' expects <fmt> as argument.")?;
            let format = context.expressions().format_with(text, rules.points, FormatOptions::BODY)?;
            ("lf-string", ReplyContent::Format(Arc::new(format)))
        }
    };
    draft.content = Some((keyword, content, words.line().span_at(words.position() - 1)));
    Ok(())
}

impl ReplyDraft {
    fn complete(self, context: &mut LineContext<'_>, rules: &ReplyRules) -> Parsed<Reply> {
        let ReplyDraft { status, status_span, says_status, mut content_type, content, headers } = self;
        let (keyword, content, span) = match content {
            Some(content) => content,
            // "deny [deny_status <status>]" is an alias of "deny [status <status>] default-errorfiles" (manual, "deny"). With `status`
            // or with headers alone, it is a reply without a body.
            None if rules.falls_back && headers.is_empty() && !says_status => {
                ("default-errorfiles", ReplyContent::ProxyDefault, status_span)
            }
            None => ("", ReplyContent::Empty, status_span),
        };
        let has_body = match &content {
            ReplyContent::Body(body) => !body.is_empty(),
            ReplyContent::Format(_) => true,
            _ => false,
        };
        if has_body && matches!(status, 204 | 304) {
            return Err(fault(span, format!("No body expected for {status} responses.")));
        }
        match &content {
            ReplyContent::ProxyDefault if status != 0 && !ErrorReplies::STATUSES.contains(&status) => {
                return Err(fault(status_span, not_handled(status, keyword)));
            }
            ReplyContent::Section(section) => {
                if !ErrorReplies::STATUSES.contains(&status) {
                    return Err(fault(status_span, not_handled(status, keyword)));
                }
                context.draft.pending.replies.push((section.clone(), status, span));
            }
            ReplyContent::Body(body) if !body.is_empty() && content_type.is_none() => {
                let message = "a content type must be defined when non-empty payload is configured.";
                return Err(fault(span, message));
            }
            ReplyContent::Format(_) if content_type.is_none() => {
                return Err(fault(span, "a content type must be defined with a log-format payload."));
            }
            _ => {}
        }
        if !has_body && let Some((content_type, span)) = content_type.take() {
            let message = format!(
                "content-type '{content_type}' ignored by the http reply because neither errorfile nor payload defined."
            );
            context.warn(span, message);
        }
        if !headers.is_empty()
            && matches!(
                content,
                ReplyContent::Message(_) | ReplyContent::Section(_) | ReplyContent::ProxyDefault
            )
        {
            let message = "hdr parameters ignored by the http reply when used with an erorrfile.";
            context.warn(span, message);
        }
        Ok(Reply { status, content_type: content_type.map(|(value, _)| value), content, headers })
    }
}

/// The error for a reply with a status that error messages do not support.
fn not_handled(status: u16, keyword: &str) -> String {
    let handled: Vec<String> = ErrorReplies::STATUSES.iter().map(u16::to_string).collect();
    format!(
        "status code '{status}' not handled by default with '{keyword}' argument: error messages have the statuses {}; \
         with 'content-type', 'string' or 'hdr' a reply has any.",
        handled.join(", ")
    )
}

/// Reads a file for the body of a response.
fn read_file(loader: &dyn Loader, path: &Word) -> Parsed<Vec<u8>> {
    loader.read(path.text(), MAX_FILE).map_err(|error| fault(path.span(), cannot_open(path, &error)))
}

/// The error for a file that could not be read.
pub(crate) fn cannot_open(path: &Word, error: &std::io::Error) -> String {
    format!("error opening file '{path}': {}.", error_text(error))
}

/// Reads an error message: a complete response or an empty file (`/dev/null`).
pub(crate) fn read_error_file(loader: &dyn Loader, path: &Word) -> Parsed<Arc<ErrorMessage>> {
    // `/dev/null` is empty, and loaders need not support devices.
    let raw = if path.is("/dev/null") { Vec::new() } else { read_file(loader, path)? };
    let response = error_file::parse(&raw).map_err(|why| fault(path.span(), format!("'{path}': {why}.")))?;
    Ok(Arc::new(ErrorMessage { path: path.text().into(), response }))
}
