//! Log-format strings: text with `%` items, for logs and for all other values made of samples.

mod builtin;
mod parse;

pub use builtin::{CLF_HTTP, CLF_TCP, DEFAULT_HTTP, DEFAULT_TCP, ERROR, HTTP, HTTPS, TCP};

use weir_fingerprint::Canonical;

use crate::alias::{Alias, AliasKind};
use crate::args::Reference;
use crate::bound;
use crate::context::{Context, FetchResult};
use crate::error::ParseError;
use crate::expr::Expr;
use crate::sample::{SampleType, Value};
use crate::scope::ExpressionScope;
use crate::scratch;
use crate::writer::encode::Encoding;
use crate::writer::{FormatFlags, FormatOptions, LogWriter};

/// A parsed format.
#[derive(Debug, Clone, Default, Canonical)]
pub struct LogFormat {
    nodes: Box<[Node]>,
    options: FormatOptions,
    /// Set if the whole format is encoded as a map of its named items.
    encoding: Option<Encoding>,
    #[canonical(skip = "as written; the items have the meaning")]
    text: Box<str>,
}

#[derive(Debug, Clone, Canonical)]
struct Node {
    item: Item,
    flags: FormatFlags,
    name: Option<Box<str>>,
    cast: Option<SampleType>,
}

#[derive(Debug, Clone, Canonical)]
enum Item {
    Text(Box<[u8]>),
    /// A space. Omitted after another space or at the beginning.
    Separator,
    Alias(Alias),
    Expr(Box<Expr>),
}

impl LogFormat {
    /// Parses a format. Errors have the span of the item in `text` and are about word 0.
    pub fn parse(
        text: &[u8],
        options: FormatOptions,
        scope: &ExpressionScope<'_>,
    ) -> Result<LogFormat, ParseError> {
        let parsed = parse::parse(text, options, scope)?;
        Ok(LogFormat {
            nodes: parsed.nodes.into(),
            options,
            encoding: encoding(parsed.global),
            text: String::from_utf8_lossy(text).into(),
        })
    }

    /// Appends the format with its items evaluated, as a value: cut at the bound of strings
    /// ([`bound`]).
    pub fn render(&self, context: &mut dyn Context, out: &mut Vec<u8>) {
        self.render_within(bound::text_bytes(), context, out);
    }

    /// Appends the format with its items evaluated, cut after `most` bytes.
    pub fn render_within(&self, most: usize, context: &mut dyn Context, out: &mut Vec<u8>) {
        let end = out.len().saturating_add(most);
        match self.encoding {
            Some(encoding) => self.render_map(encoding, end, context, out),
            None => self.render_text(end, context, out),
        }
        out.truncate(end);
    }

    /// Stops after the item that reaches `end`. An item is at most a small multiple of a value.
    fn render_text(&self, end: usize, context: &mut dyn Context, out: &mut Vec<u8>) {
        let start = out.len();
        let mut after_space = true;
        for node in self.nodes.iter() {
            if out.len() >= end {
                break;
            }
            let before = out.len();
            match &node.item {
                Item::Text(text) => out.extend_from_slice(text),
                Item::Separator => {
                    if !after_space && out.len() > start {
                        out.push(b' ');
                    }
                    after_space = true;
                    continue;
                }
                _ => node.render(self.options, context, out),
            }
            // An empty item between two spaces leaves only one space.
            after_space &= out.len() == before;
        }
    }

    /// Writes only items with a name. Stops as [`LogFormat::render_text`] does.
    fn render_map(&self, encoding: Encoding, end: usize, context: &mut dyn Context, out: &mut Vec<u8>) {
        encoding.open(out);
        let mut first = true;
        for node in &self.nodes {
            if out.len() >= end {
                break;
            }
            if let Some(name) = &node.name {
                encoding.name(name, first, out);
                node.encode(encoding, &mut *context, out);
                first = false;
            }
        }
        encoding.close(out);
    }

    /// The text, if the format is constant.
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.nodes {
            [] => Some(b""),
            [Node { item: Item::Text(text), .. }] => Some(text),
            _ => None,
        }
    }

    /// The format as written in the configuration.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The aliases in the format.
    pub fn aliases(&self) -> impl Iterator<Item = Alias> {
        self.nodes.iter().filter_map(|node| match node.item {
            Item::Alias(alias) => Some(alias),
            _ => None,
        })
    }

    /// The expressions in the format.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.nodes.iter().filter_map(|node| match &node.item {
            Item::Expr(expr) => Some(&**expr),
            _ => None,
        })
    }

    /// Calls `visit` with every reference to an object of the configuration.
    pub fn visit_references(&self, visit: &mut dyn FnMut(&Reference)) {
        self.expressions().for_each(|expr| expr.visit_references(visit));
    }
}

fn encoding(flags: FormatFlags) -> Option<Encoding> {
    if flags.has(FormatFlags::JSON) {
        Some(Encoding::Json { utf8: flags.has(FormatFlags::UTF8) })
    } else if flags.has(FormatFlags::CBOR) {
        Some(Encoding::Cbor { binary: flags.has(FormatFlags::BINARY) })
    } else {
        None
    }
}

impl Node {
    fn render(&self, options: FormatOptions, context: &mut dyn Context, out: &mut Vec<u8>) {
        if let Some(encoding) = encoding(self.flags) {
            return self.encode(encoding, context, out);
        }
        match &self.item {
            Item::Alias(alias) => context.log_alias(*alias, &mut LogWriter::new(out, self.flags, options)),
            Item::Expr(expr) => {
                // The encoding determines the type of an item.
                let fetched = expr.evaluate(context);
                let mut writer = LogWriter::new(out, self.flags, options);
                match fetched {
                    FetchResult::Sample(sample) => writer.value(sample.value),
                    FetchResult::Missing | FetchResult::Later => writer.no_value(),
                }
            }
            Item::Text(_) | Item::Separator => {}
        }
    }

    fn encode(&self, encoding: Encoding, context: &mut dyn Context, out: &mut Vec<u8>) {
        match &self.item {
            Item::Alias(alias @ (Alias::RequestHeadersClf | Alias::ResponseHeadersClf)) => {
                context.log_alias(*alias, &mut LogWriter::encoding(out, encoding));
            }
            Item::Alias(alias) => {
                let mut text = scratch::take();
                context.log_alias(
                    *alias,
                    &mut LogWriter::new(&mut text, FormatFlags::NONE, FormatOptions::PLAIN),
                );
                match alias_value(*alias, &text) {
                    // Without captured headers, the value is null instead of an empty string.
                    None if matches!(alias, Alias::RequestHeaders | Alias::ResponseHeaders) => {
                        encoding.null(out)
                    }
                    value => encoding.value(value.and_then(|value| self.convert(value)), out),
                }
                scratch::give(text);
            }
            Item::Expr(expr) => {
                let sample = expr.evaluate(context).sample();
                encoding.value(sample.and_then(|sample| self.convert(sample.value)), out);
            }
            Item::Text(_) | Item::Separator => {}
        }
    }

    fn convert<'v>(&self, value: Value<'v>) -> Option<Value<'v>> {
        value.cast(self.cast.unwrap_or(SampleType::Any))
    }
}

/// The value of an alias: a number if its row declares one and `text` is a number, otherwise a string.
fn alias_value(alias: Alias, text: &[u8]) -> Option<Value<'_>> {
    let number = || std::str::from_utf8(text).ok()?.parse().ok();
    match alias.row().kind {
        _ if text.is_empty() => None,
        AliasKind::Number => Some(number().map_or(Value::str(text), Value::Int)),
        AliasKind::Text | AliasKind::Date | AliasKind::Address => Some(Value::str(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[track_caller]
    fn check(options: FormatOptions, format: &str, expected: &str) {
        assert_eq!(Fixture::new().render(format, options), expected, "{format}");
    }

    /// Logs of the packaged HAProxy 2.6.
    #[test]
    fn log_formats_render_like_haproxy() {
        let log = |format, expected| check(FormatOptions::LOG, format, expected);
        log("a  b   c ", "a b c ");
        log("  a", "a");
        log(" %cp  %cp ", "49402 49402 ");
        log("%[str()]", "-");
        log("%[var(txn.x)]", "-");
        log("%{+Q}[str()]", "\\\"\\\"");
        log("%{+Q}[var(txn.x)]", "\\\"\\\"");
        log("%{+Q}[str(x)]", "\\\"x\\\"");
        log("%{+Q}[int(5)]", "\\\"5\\\"");
        log("%{+E}[str(a]b)]", "a\\\\]b");
        log("%{+Q,+E}[str(a]b)]", "\\\"a\\\\]b\\\"");
        log("%hr", "{a#7B#7C#7Db|}");
        log("%{+Q}hr", "\\\"{a#7B#7C#7Db|}\\\"");
        log("%hs|", "|");
        log("%hrl", "three -");
        log("%{+Q}hrl", "\\\"three\\\" \\\"\\\"");
        log("%r", "GET /p]#22\\\\#E9 HTTP/1.1");
        log("%{+E}r", "GET /p\\\\]#22\\\\\\\\#E9 HTTP/1.1");
        log("%CC", "-");
        log("%{+Q}CC", "\\\"\\\"");
        log("%{+X}ci", "7F000001");
        log("%{+X}cp", "C0FA");
        log("%{+X}pid", "012C");
        log("%{+Q,+X}pid", "012C");
        log("%{+Q}ST", "200");
        log("%{+Q}t", "14/Nov/2023:22:13:20.123");
        log("%{+X}[int(255)]", "255");
        log("%[bin(610062)]", "a");
        log("%[bool(1)]", "1");
        log("%{+Q}o %ci %[str(a b)] %{-Q}f x", "\\\"127.0.0.1\\\" \\\"a b\\\" f x");
        log("%%%[int(1)]%%", "%1%");
        log("a %hs b", "a b");
        log("%[str(\"a\\nb\")]", "a#0Ab");
    }

    /// Bodies of the packaged HAProxy 2.6.
    #[test]
    fn http_formats_render_like_haproxy() {
        let http = |format, expected| check(FormatOptions::HTTP, format, expected);
        http("a  b", "a  b");
        http("%{+Q}[str(x)]", "x");
        http("%{+Q}[var(txn.x)]", "");
        http("%{+Q}ci", "\\\"127.0.0.1\\\"");
        http("%{+Q}CC", "\\\"\\\"");
        http("%{+E}[str(a]b)]", "a\\\\]b");
        http("%[str(\"a\\n\\t\\r b\\\\c\")]", "a%0A\\t%0D b\\\\c");
        http("%[bin(7fe9)]", "%7F\\xe9");
        http("%]x%-y", "]x-y");
        http(
            "%[query]",
            "error: failed to parse sample expression <query> : fetch method 'query' is not implemented yet",
        );
    }

    #[test]
    fn log_formats_render_json_and_cbor_maps() {
        let plain = |format, expected| check(FormatOptions::LOG, format, expected);
        plain("%{+json}o %[int(4)] text %(named_field)[str(ok)]", "{\\\"named_field\\\": \\\"ok\\\"}");
        plain(
            "%{+json}o %(ip)ci %(port)cp %(none)CC %(n:str)[int(5)] %(b)[bool(true)] %(s:sint)[str(7)] %(rc)rc",
            "{\\\"ip\\\": \\\"127.0.0.1\\\", \\\"port\\\": 49402, \\\"none\\\": \\\"\\\", \\\"n\\\": \\\"5\\\", \\\"b\\\": true, \\\"s\\\": 7, \\\"rc\\\": 1}",
        );
        plain("a %{+json}[str(\"x\\\"y\")] b", "a \\\"x\\\\\\\"y\\\" b");
        plain("%{+cbor}o %[int(4)] test %(named_field)[str(ok)]", "BF6B6E616D65645F6669656C64626F6BFF");
        plain("test cbor bool: %{+cbor}[bool(true)]", "test cbor bool: F5");
        plain("%{+bin,+cbor}o %(a)[int(1)]", "\\xbfaa\\x01\\xff");
        plain("%{+bin,+cbor}[str(a)]", "6161");
        plain("%{+bin}[bin(4100)]", "A");
        plain("%{+bin}o %[bin(4100)]", "A\\x00");
        plain("%{+json}hrl %{+json}hs %{+json}CC", "[\\\"three\\\", \\\"\\\"] null \\\"\\\"");
        plain(
            "%{+json,+utf8}[bin(c3a9)] %{+json}[bin(c3a9)]",
            "\\\"\\xc3\\xa9\\\" \\\"\\\\u00C3\\\\u00A9\\\"",
        );
        // Names and types are only for encodings.
        plain("%(n:sint)[str(x)] %(n:bool)[int(5)]", "x 5");
        plain("%(a.b)[str(x)]", "error: invalid character '.' in the name of an item");
    }

    #[test]
    fn body_formats_support_quoting_and_keep_control_characters() {
        let body = |format, expected| check(FormatOptions::BODY, format, expected);
        body("%{+Q}[str(x)] %[str(x)]", "\\\"x\\\" x");
        body("%{+Q}[var(txn.x)]|%[var(txn.x)]", "\\\"\\\"|");
        body("%[bin(0d0a7f)]|%{+E}[str(\"a\n]\")]", "\\r\\n\\x7f|a\\n\\\\]");
    }

    #[test]
    fn log_format_errors_have_a_message_and_a_span() {
        let fixture = Fixture::new();
        let error = |format: &str| {
            LogFormat::parse(format.as_bytes(), FormatOptions::LOG, &fixture.scope()).unwrap_err()
        };
        let wrong = error("a %cii b");
        assert_eq!((wrong.span, wrong.suggestion.as_deref()), (Some(2..6), Some("ci")));
        assert!(wrong.message.starts_with("no such format alias 'cii'"));
        assert_eq!(error("a %").message, "truncated line after '%'");
        assert_eq!(error("%{+Q").message, "truncated line after '%{+Q'");
        let wrong = error("a %[str(x),lwoer]");
        assert_eq!(
            wrong.message,
            "failed to parse sample expression <str(x),lwoer> : unknown converter 'lwoer'"
        );
        assert_eq!(wrong.span, Some(11..16));
        assert_eq!(error("%[str(x)").message, "missing ']' after 'str(x)'");
        assert!(error("%(a:float)[int(1)]").message.contains("unexpected output type 'float'"));
        assert!(LogFormat::parse(b"%{+Z}ci", FormatOptions::LOG, &fixture.scope()).is_ok());
        assert_eq!(fixture.warnings.take().len(), 1);
    }

    #[test]
    fn built_in_log_formats_are_valid() {
        let fixture = Fixture::new();
        for format in [HTTP, CLF_HTTP, TCP, CLF_TCP, DEFAULT_HTTP, DEFAULT_TCP] {
            let parsed = LogFormat::parse(format.as_bytes(), FormatOptions::LOG, &fixture.scope()).unwrap();
            assert!(parsed.aliases().count() >= 5);
        }
    }

    #[test]
    fn constant_formats_are_recognized() {
        let fixture = Fixture::new();
        let constant = |text: &str| {
            let format = LogFormat::parse(text.as_bytes(), FormatOptions::HTTP, &fixture.scope()).unwrap();
            format.constant().map(<[u8]>::to_vec)
        };
        assert_eq!(constant("100%%"), Some(b"100%".to_vec()));
        assert_eq!(constant(""), Some(Vec::new()));
        assert_eq!(constant("%ci"), None);
    }
}
