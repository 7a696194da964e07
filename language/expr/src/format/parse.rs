//! From the text of a format to its items.

use weir_syntax::did_you_mean;

use super::{Item, Node};
use crate::alias::Alias;
use crate::args::split_args;
use crate::error::{ParseError, show};
use crate::expr::Expr;
use crate::sample::SampleType;
use crate::scope::ExpressionScope;
use crate::writer::{FormatFlags, FormatOptions};

/// The limit of items in one format.
const MAX_NODES: usize = 4096;

pub(super) struct FormatParts {
    pub nodes: Vec<Node>,
    /// The final flags of `%o`, which hold for the whole format.
    pub global: FormatFlags,
}

pub(super) fn parse(
    text: &[u8],
    options: FormatOptions,
    scope: &ExpressionScope<'_>,
) -> Result<FormatParts, ParseError> {
    let none = FormatFlags::NONE;
    let mut parser =
        FormatParser { text, at: 0, options, scope, nodes: Vec::new(), literal: Vec::new(), global: none };
    while parser.at < text.len() {
        parser.step()?;
        if parser.nodes.len() > MAX_NODES {
            return Err(ParseError::new(0, "too many items in one format"));
        }
    }
    parser.flush();
    Ok(FormatParts { nodes: parser.nodes, global: parser.global })
}

struct FormatParser<'p, 's> {
    text: &'p [u8],
    at: usize,
    options: FormatOptions,
    scope: &'p ExpressionScope<'s>,
    nodes: Vec<Node>,
    literal: Vec<u8>,
    /// The flags of the last `%o`, for all later items.
    global: FormatFlags,
}

/// The part between the percent sign and the item.
struct ItemPrefix {
    start: usize,
    flags: FormatFlags,
    name: Option<Box<str>>,
    cast: Option<SampleType>,
}

impl<'p> FormatParser<'p, '_> {
    fn step(&mut self) -> Result<(), ParseError> {
        match (self.text[self.at], self.text.get(self.at + 1)) {
            (b'%', Some(b'%')) => {
                self.literal.push(b'%');
                self.at += 2;
            }
            (b'%', None) => return Err(self.truncated(self.at)),
            (b'%', Some(b'(' | b'{' | b'[' | b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9')) => self.item()?,
            (b'%', Some(other)) => {
                let message = format!("'%' before '{}' has no meaning and is dropped", show(&[*other]));
                self.warn(message, self.at..self.at + 2);
                self.at += 1;
            }
            (b' ', _) if self.options.merge_spaces => {
                self.flush();
                self.nodes.push(Node { item: Item::Separator, flags: self.global, name: None, cast: None });
                while self.text.get(self.at) == Some(&b' ') {
                    self.at += 1;
                }
            }
            (byte, _) => {
                self.literal.push(byte);
                self.at += 1;
            }
        }
        Ok(())
    }

    fn item(&mut self) -> Result<(), ParseError> {
        let prefix = self.prefix()?;
        if self.text.get(self.at) == Some(&b'[') {
            return self.expression(prefix);
        }
        let rest = &self.text[self.at..];
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        if rest.is_empty() {
            return Err(self.truncated(prefix.start));
        }
        let name = show(&rest[..length]).into_owned();
        self.at += length;
        let span = prefix.start..self.at;
        if name == "o" {
            self.global = prefix.flags;
            return Ok(());
        }
        let Some(row) = Alias::find(&name) else {
            let message = format!(
                "no such format alias '{name}'. If you wanted to emit the '%' character verbatim, you need to use '%%'"
            );
            let near = did_you_mean(&name, Alias::ROWS.iter().map(|row| row.name));
            return Err(ParseError::new(0, message).at(span).suggest(near));
        };
        self.push(Item::Alias(row.alias), prefix);
        Ok(())
    }

    /// Parses `%`, then an optional name in parentheses, then optional flags in braces.
    fn prefix(&mut self) -> Result<ItemPrefix, ParseError> {
        let start = self.at;
        self.at += 1;
        let (mut name, mut cast) = (None, None);
        if self.text.get(self.at) == Some(&b'(') {
            let inside = show(self.until(b')', start)?);
            let (item, kind) = inside.split_once(':').unwrap_or((&inside, ""));
            let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
            if let Some(other) = item.chars().find(|letter| !is_letter(*letter)) {
                let message = format!("invalid character '{other}' in the name of an item");
                return Err(ParseError::new(0, message).at(start..self.at));
            }
            name = (!item.is_empty()).then(|| item.into());
            cast = match kind {
                "" => None,
                "str" => Some(SampleType::Str),
                "sint" => Some(SampleType::Int),
                "bool" => Some(SampleType::Bool),
                other => {
                    let message =
                        format!("unexpected output type '{other}' (expects 'str', 'sint' or 'bool')");
                    return Err(ParseError::new(0, message).at(start..self.at));
                }
            };
        }
        let mut flags = self.global;
        if self.text.get(self.at) == Some(&b'{') {
            let inside = self.until(b'}', start)?;
            flags = self.flags(flags, inside, start);
        }
        Ok(ItemPrefix { start, flags, name, cast })
    }

    /// Parses flags: letters after an optional sign. Any other characters separate flags.
    fn flags(&self, mut flags: FormatFlags, inside: &[u8], start: usize) -> FormatFlags {
        let mut add = true;
        let mut rest = inside;
        while let Some((&first, after)) = rest.split_first() {
            let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            if length == 0 {
                add = first != b'-';
                rest = after;
                continue;
            }
            match FormatFlags::named(&rest[..length]) {
                Some(flag) => flags = flags.with(flag, add),
                None => {
                    let message = format!("unknown format flag '{}' is ignored", show(&rest[..length]));
                    self.warn(message, start..self.at);
                }
            }
            rest = &rest[length..];
        }
        flags
    }

    /// The text between the bracket at the current position and `end`. Advances past `end`.
    fn until(&mut self, end: u8, start: usize) -> Result<&'p [u8], ParseError> {
        let text = self.text;
        let begin = self.at + 1;
        match text[begin..].iter().position(|byte| *byte == end) {
            Some(length) => {
                self.at = begin + length + 1;
                Ok(&text[begin..begin + length])
            }
            None => Err(self.truncated(start)),
        }
    }

    fn truncated(&self, start: usize) -> ParseError {
        let message = format!("truncated line after '{}'", show(&self.text[start..]));
        ParseError::new(0, message).at(start..self.text.len())
    }

    fn warn(&self, message: String, span: std::ops::Range<usize>) {
        self.scope.warnings.push(ParseError::new(0, message).at(span));
    }

    fn expression(&mut self, prefix: ItemPrefix) -> Result<(), ParseError> {
        let begin = self.at + 1;
        let end = self.end_of_expression(begin).unwrap_or(self.text.len());
        let inside = &self.text[begin..end];
        let blank = inside.iter().take_while(|byte| **byte == b' ').count();
        let expr = Expr::parse_text(inside.trim_ascii(), self.scope).map_err(|error| ParseError {
            word: 0,
            span: Some(match &error.span {
                Some(span) => span.start + begin + blank..span.end + begin + blank,
                None => begin..end,
            }),
            message: format!("failed to parse sample expression <{}> : {}", show(inside), error.message),
            ..error
        })?;
        if end == self.text.len() {
            let message = format!("missing ']' after '{}'", show(inside));
            return Err(ParseError::new(0, message).at(prefix.start..end));
        }
        self.at = end + 1;
        self.push(Item::Expr(Box::new(expr)), prefix);
        Ok(())
    }

    /// Offset of the bracket that closes an expression. Skips brackets inside arguments.
    fn end_of_expression(&self, begin: usize) -> Option<usize> {
        let mut at = begin;
        loop {
            match self.text.get(at)? {
                b']' => return Some(at),
                b'(' => at = split_args(self.text, at).ok()?.1,
                _ => at += 1,
            }
        }
    }

    fn push(&mut self, item: Item, prefix: ItemPrefix) {
        self.flush();
        // Only a whole format is binary (manual, 8.2.6).
        let flags = prefix.flags.with(FormatFlags::BINARY, self.global.has(FormatFlags::BINARY));
        self.nodes.push(Node { item, flags, name: prefix.name, cast: prefix.cast });
    }

    fn flush(&mut self) {
        if !self.literal.is_empty() {
            let text = std::mem::take(&mut self.literal).into();
            self.nodes.push(Node { item: Item::Text(text), flags: self.global, name: None, cast: None });
        }
    }
}
