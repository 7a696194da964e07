//! From the text of a format to its items.

use super::writer::FormatFlags;
use super::{Alias, FormatOptions, Item, Node};
use crate::args::split_args;
use crate::error::{ParseError, show};
use crate::expr::Expr;
use crate::sample::SampleType;
use crate::scope::Scope;
use crate::suggest;

/// How many items one format may have.
const MAX_NODES: usize = 4096;

pub(super) fn parse(text: &[u8], options: FormatOptions, scope: &Scope<'_>) -> Result<Vec<Node>, ParseError> {
    let mut parser = Parser {
        text,
        at: 0,
        options,
        scope,
        nodes: Vec::new(),
        literal: Vec::new(),
        global: FormatFlags::NONE,
    };
    while parser.at < text.len() {
        parser.step()?;
        if parser.nodes.len() > MAX_NODES {
            return Err(ParseError::new(0, "too many items in one format"));
        }
    }
    parser.flush();
    Ok(parser.nodes)
}

struct Parser<'p, 's> {
    text: &'p [u8],
    at: usize,
    options: FormatOptions,
    scope: &'p Scope<'s>,
    nodes: Vec<Node>,
    literal: Vec<u8>,
    /// The flags that `%o` set for all that follows.
    global: FormatFlags,
}

/// What stands between the percent sign and the item itself.
struct Prefix {
    start: usize,
    flags: FormatFlags,
    cast: Option<SampleType>,
}

impl<'p> Parser<'p, '_> {
    fn step(&mut self) -> Result<(), ParseError> {
        match self.text[self.at] {
            b'%' if self.text.get(self.at + 1) == Some(&b'%') => {
                self.literal.push(b'%');
                self.at += 2;
            }
            b'%' => self.item()?,
            b' ' if self.options.merge_spaces => {
                while self.text.get(self.at) == Some(&b' ') {
                    self.at += 1;
                }
                self.literal.push(b' ');
            }
            byte => {
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
        let name = show(&rest[..length]).into_owned();
        self.at += length;
        let span = prefix.start..self.at;
        if name == "o" {
            self.global = prefix.flags;
            return Ok(());
        }
        let Some(row) = Alias::find(&name) else {
            let message = match name.is_empty() {
                true => "nothing follows '%' (write '%%' for a percent sign)".into(),
                false => format!("no such format alias '{name}' (write '%%' for a percent sign)"),
            };
            let near = suggest::closest(&name, Alias::ROWS.iter().map(|row| row.name));
            return Err(ParseError::new(0, message).at(span).did_you_mean(near));
        };
        self.push(Item::Alias(row.alias), prefix);
        Ok(())
    }

    /// Parses `%`, then an optional name in parentheses, then optional flags in braces.
    fn prefix(&mut self) -> Result<Prefix, ParseError> {
        let start = self.at;
        self.at += 1;
        let mut cast = None;
        if self.text.get(self.at) == Some(&b'(') {
            let inside = self.until(b')', start)?;
            let inside = show(inside).into_owned();
            // The name itself only matters to encodings that are not implemented yet.
            let (_, kind) = inside.split_once(':').unwrap_or((&inside, ""));
            cast = match kind {
                "" => None,
                "str" => Some(SampleType::Str),
                "sint" => Some(SampleType::Int),
                "bool" => Some(SampleType::Bool),
                other => {
                    let message = format!("unknown type '{other}' (expects 'str', 'sint' or 'bool')");
                    return Err(ParseError::new(0, message).at(start..self.at));
                }
            };
        }
        let mut flags = self.global;
        if self.text.get(self.at) == Some(&b'{') {
            let inside = self.until(b'}', start)?;
            for flag in inside.split(|byte| *byte == b',') {
                flags = flags
                    .changed_by(flag)
                    .map_err(|message| ParseError::new(0, message).at(start..self.at))?;
            }
        }
        Ok(Prefix { start, flags, cast })
    }

    /// What stands between the bracket at the current position and its end; moves past it.
    fn until(&mut self, end: u8, start: usize) -> Result<&'p [u8], ParseError> {
        let text = self.text;
        let begin = self.at + 1;
        match text[begin..].iter().position(|byte| *byte == end) {
            Some(length) => {
                self.at = begin + length + 1;
                Ok(&text[begin..begin + length])
            }
            None => Err(ParseError::new(0, format!("missing '{}'", end as char)).at(start..self.text.len())),
        }
    }

    fn expression(&mut self, prefix: Prefix) -> Result<(), ParseError> {
        let begin = self.at + 1;
        let end = self
            .end_of_expression(begin)
            .ok_or_else(|| ParseError::new(0, "missing ']'").at(prefix.start..self.text.len()))?;
        let inside = &self.text[begin..end];
        let blank = inside.iter().take_while(|byte| **byte == b' ').count();
        let expr = Expr::parse_text(inside.trim_ascii(), self.scope).map_err(|error| ParseError {
            word: 0,
            span: Some(match error.span {
                Some(span) => span.start + begin + blank..span.end + begin + blank,
                None => begin..end,
            }),
            ..error
        })?;
        self.at = end + 1;
        self.push(Item::Expr(Box::new(expr)), prefix);
        Ok(())
    }

    /// Where the bracket that closes an expression is: not one inside arguments.
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

    fn push(&mut self, item: Item, prefix: Prefix) {
        self.flush();
        self.nodes.push(Node { item, flags: prefix.flags, cast: prefix.cast });
    }

    fn flush(&mut self) {
        if !self.literal.is_empty() {
            let text = std::mem::take(&mut self.literal).into();
            self.nodes.push(Node { item: Item::Text(text), flags: self.global, cast: None });
        }
    }
}
