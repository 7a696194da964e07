//! Log-format strings: text with `%` items, for logs and for every value that is made of samples.

mod aliases;
mod builtin;
mod parse;
mod writer;

pub use aliases::{Alias, AliasKind, AliasRow, Restriction};
pub use builtin::{CLF_HTTP, CLF_TCP, HTTP, HTTPS, TCP};
pub use writer::{FormatFlags, LogWriter};

use crate::args::Reference;
use crate::context::{Context, Fetched};
use crate::error::ParseError;
use crate::expr::Expr;
use crate::sample::SampleType;
use crate::scope::Scope;

/// What a format is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FormatOptions {
    /// A missing value shows as `-` rather than as nothing.
    pub show_missing: bool,
    /// Several spaces in the format count as one.
    pub merge_spaces: bool,
    /// Characters that would break an HTTP header or URI are percent-encoded.
    pub http: bool,
}

impl FormatOptions {
    /// `log-format` and its like.
    pub const LOG: FormatOptions = FormatOptions { show_missing: true, merge_spaces: true, http: false };
    /// Values of headers, paths and locations.
    pub const HTTP: FormatOptions = FormatOptions { show_missing: false, merge_spaces: false, http: true };
    /// Anything else: bodies, variables.
    pub const PLAIN: FormatOptions = FormatOptions { show_missing: false, merge_spaces: false, http: false };
}

/// A parsed format.
#[derive(Debug, Clone, Default)]
pub struct LogFormat {
    nodes: Box<[Node]>,
    options: FormatOptions,
    text: Box<str>,
}

#[derive(Debug, Clone)]
struct Node {
    item: Item,
    flags: FormatFlags,
    cast: Option<SampleType>,
}

#[derive(Debug, Clone)]
enum Item {
    Text(Box<[u8]>),
    Alias(Alias),
    Expr(Box<Expr>),
}

impl LogFormat {
    /// Parses a format. Errors have the span of the item in `text` and are about word 0.
    pub fn parse(text: &[u8], options: FormatOptions, scope: &Scope<'_>) -> Result<LogFormat, ParseError> {
        let nodes = parse::parse(text, options, scope)?;
        Ok(LogFormat { nodes: nodes.into(), options, text: String::from_utf8_lossy(text).into() })
    }

    /// Appends the format with its items resolved.
    pub fn render(&self, context: &mut dyn Context, out: &mut Vec<u8>) {
        for node in &self.nodes {
            match &node.item {
                Item::Text(text) => out.extend_from_slice(text),
                Item::Alias(alias) => {
                    context.log_alias(*alias, &mut LogWriter::new(out, node.flags, self.options));
                }
                Item::Expr(expr) => {
                    let fetched = match node.cast {
                        Some(cast) => expr.evaluate_as(&mut *context, cast),
                        None => expr.evaluate(&mut *context),
                    };
                    let mut writer = LogWriter::new(out, node.flags, self.options);
                    match fetched {
                        Fetched::Sample(sample) => writer.value(sample.value),
                        Fetched::Missing | Fetched::Later => writer.missing(),
                    }
                }
            }
        }
    }

    /// The text, if nothing in it depends on anything.
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.nodes {
            [] => Some(b""),
            [Node { item: Item::Text(text), .. }] => Some(text),
            _ => None,
        }
    }

    /// The format as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The aliases in it.
    pub fn aliases(&self) -> impl Iterator<Item = Alias> {
        self.nodes.iter().filter_map(|node| match node.item {
            Item::Alias(alias) => Some(alias),
            _ => None,
        })
    }

    /// The expressions in it.
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
