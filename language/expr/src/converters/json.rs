//! JSON: escaping text for it, and taking one value out of it.

use std::borrow::Cow;

use weir_fingerprint::Canonical;
use weir_formats::json::{Beyond, Escaping};

use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::bound::AtBound;
use crate::sample::SampleType::{Any, Str};
use crate::sample::Value;
use crate::sample::cast::parse_int;
use crate::scope::ExpressionScope;
use crate::scratch;

pub(super) const ROWS: &[Converter] = &[
    Converter::new("json", Str, Str, Run::Pure(json), "Escapes text for a JSON string")
        .args(1, &[ArgKind::Str])
        .check(check_json)
        .at_bound(AtBound::FAIL),
    Converter::new("json_query", Str, Any, Run::Pure(json_query), "The value at a path of a JSON document")
        .args(1, &[ArgKind::Str, ArgKind::Str])
        .check(check_json_query),
];

/// How input bytes are read as characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Canonical)]
enum InputCode {
    /// Every byte is a character (ISO 8859-1).
    Bytes,
    Utf8 {
        /// Skip malformed characters instead of failing.
        skip_errors: bool,
        /// Accept overlong encodings.
        accept_overlong: bool,
    },
}

fn check_json(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let utf8 = |skip_errors, accept_overlong| InputCode::Utf8 { skip_errors, accept_overlong };
    let code = match args.str(0).unwrap_or_default() {
        b"" | b"ascii" => InputCode::Bytes,
        b"utf8" => utf8(false, false),
        b"utf8s" => utf8(true, false),
        b"utf8p" => utf8(false, true),
        b"utf8ps" => utf8(true, true),
        _ => {
            return Err("Unexpected input code type. Allowed value are 'ascii', 'utf8', 'utf8s', 'utf8p' and 'utf8ps'".into());
        }
    };
    args.set(0, Arg::Custom(std::sync::Arc::new(code)));
    Ok(())
}

fn json<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let code = *args.custom::<InputCode>(0)?;
    let mut out = scratch::take();
    let done = escape(value.bytes()?, code, &mut out);
    scratch::recycle(value);
    done.map(|()| Value::Str(Cow::Owned(out)))
}

fn escape(text: &[u8], code: InputCode, out: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    while let Some(&first) = rest.first() {
        let (character, length) = match code {
            InputCode::Bytes => (Some(char::from(first)), 1),
            InputCode::Utf8 { accept_overlong, .. } => decode_utf8(rest, accept_overlong),
        };
        rest = &rest[length..];
        match (character, code) {
            (Some(character), _) => ESCAPED.push(character, out),
            (None, InputCode::Utf8 { skip_errors: true, .. }) => {}
            (None, _) => return None,
        }
    }
    Some(())
}

/// The escapes of the manual: the solidus, and all characters beyond printable ASCII.
const ESCAPED: Escaping =
    Escaping { short: "\u{8}\u{c}\n\r\t/", is_uppercase: false, beyond: Beyond::Escaped };

/// The first character and its length in bytes. No character if the bytes are malformed.
fn decode_utf8(text: &[u8], accept_overlong: bool) -> (Option<char>, usize) {
    let first = text[0];
    let (count, bits, minimum) = match first {
        0..=0x7f => return (Some(char::from(first)), 1),
        0xc0..=0xdf => (1, first & 0x1f, 0x80),
        0xe0..=0xef => (2, first & 0x0f, 0x800),
        0xf0..=0xf7 => (3, first & 0x07, 0x1_0000),
        _ => return (None, 1),
    };
    let mut character = u32::from(bits);
    for index in 1..=count {
        match text.get(index) {
            Some(byte @ 0x80..=0xbf) => character = character << 6 | u32::from(byte & 0x3f),
            // Skip only the bytes of the malformed character: the next one may begin another character.
            _ => return (None, index),
        }
    }
    let is_allowed = accept_overlong || character >= minimum;
    (char::from_u32(character).filter(|_| is_allowed), count + 1)
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Canonical)]
enum Step {
    Key(Box<[u8]>),
    Index(usize),
}

#[derive(Debug, Canonical)]
struct Query {
    path: Box<[Step]>,
    as_integer: bool,
}

/// The limit of steps in a path, and of nesting in a document.
const MAX_DEPTH: usize = 64;

pub(super) fn check_json_query(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let text = args.str(0).unwrap_or_default();
    if text.is_empty() {
        return Err("json_path must not be empty".into());
    }
    let as_integer = match args.str(1) {
        None | Some(b"") => false,
        Some(b"int") => true,
        Some(_) => return Err("output_type only supports \"int\" as argument".into()),
    };
    let path = parse_path(text).unwrap_or_default();
    args.set(0, Arg::Custom(std::sync::Arc::new(Query { path: path.into(), as_integer })));
    Ok(())
}

/// Parses `$.key.key[3]`. A backslash makes a dot a part of a key. A malformed path matches nothing: it becomes one impossible step. The
/// empty path means the whole document.
fn parse_path(text: &[u8]) -> Option<Vec<Step>> {
    let nothing = || Some(vec![Step::Index(usize::MAX)]);
    let Some(mut rest) = text.strip_prefix(b"$") else { return nothing() };
    let mut path = Vec::new();
    while let [kind, after @ ..] = rest {
        if path.len() == MAX_DEPTH {
            return nothing();
        }
        rest = after;
        match kind {
            b'.' => {
                let mut key = Vec::new();
                while let [byte, after @ ..] = rest {
                    match (byte, after) {
                        (b'.' | b'[', _) => break,
                        (b'\\', [escaped, after @ ..]) => {
                            key.push(*escaped);
                            rest = after;
                        }
                        _ => {
                            key.push(*byte);
                            rest = after;
                        }
                    }
                }
                path.push(Step::Key(key.into()));
            }
            b'[' => {
                let Some(end) = memchr::memchr(b']', rest) else { return nothing() };
                let Some(index) = std::str::from_utf8(&rest[..end]).ok().and_then(|index| index.parse().ok())
                else {
                    return nothing();
                };
                path.push(Step::Index(index));
                rest = &rest[end + 1..];
            }
            _ => return nothing(),
        }
    }
    Some(path)
}

fn json_query<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let result = query(value.bytes()?, args)?;
    scratch::recycle(value);
    Some(result)
}

/// The value of a document at the path that [`check_json_query`] parsed.
pub(super) fn query(document: &[u8], args: &Args) -> Option<Value<'static>> {
    let query = args.custom::<Query>(0)?;
    interpret(find(document, &query.path)?, query.as_integer)
}

/// The value of a part of a JSON document: a string, number, boolean or array.
fn interpret(json: &[u8], as_integer: bool) -> Option<Value<'static>> {
    match json {
        [b'"', inner @ .., b'"'] => {
            let mut out = scratch::take();
            unescape(inner, &mut out)?;
            if as_integer {
                let number = std::str::from_utf8(&out).ok().and_then(|text| text.parse().ok());
                scratch::give(out);
                return number.map(Value::Int);
            }
            Some(Value::Str(Cow::Owned(out)))
        }
        b"true" => Some(Value::Bool(true)),
        b"false" => Some(Value::Bool(false)),
        [b'[', ..] => Some(copy(json)),
        [b'-' | b'0'..=b'9', ..] => {
            let text = std::str::from_utf8(json).ok()?;
            let float: f64 = text.parse().ok()?;
            match text.parse() {
                Ok(number) => Some(Value::Int(number)),
                Err(_) if as_integer => parse_int(json).map(Value::Int),
                // An integer written as `1e3` or `5.0`. Below 9e15, an `f64` represents every integer exactly.
                Err(_) if float.fract() == 0.0 && float.abs() < 9e15 => Some(Value::Int(float as i64)),
                Err(_) => Some(copy(json)),
            }
        }
        _ => None,
    }
}

fn copy(bytes: &[u8]) -> Value<'static> {
    let mut out = scratch::take();
    out.extend_from_slice(bytes);
    Value::Str(Cow::Owned(out))
}

/// Appends the decoded content of a JSON string to `out`. `None` for an incomplete escape.
fn unescape(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let [escape, after @ ..] = rest else { return None };
        rest = after;
        match escape {
            b'b' => out.push(0x08),
            b'f' => out.push(0x0c),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let (mut unit, after) = hex4(rest)?;
                rest = after;
                if let (0xd800..=0xdbff, Some((low @ 0xdc00..=0xdfff, after))) =
                    (unit, rest.strip_prefix(b"\\u").and_then(hex4))
                {
                    unit = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    rest = after;
                }
                let character = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => out.push(*other),
        }
    }
    Some(())
}

fn hex4(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(4)?;
    let digits =
        std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

/// The part of the document at the path. The bytes after it are not parsed, so they may be malformed.
fn find<'j>(document: &'j [u8], path: &[Step]) -> Option<&'j [u8]> {
    let mut scanner = Scanner { text: document, at: 0 };
    scanner.blanks();
    for step in path {
        match step {
            Step::Key(key) => scanner.enter_object(key)?,
            Step::Index(index) => scanner.enter_array(*index)?,
        }
    }
    let start = scanner.at;
    scanner.skip_value()?;
    Some(&document[start..scanner.at])
}

struct Scanner<'j> {
    text: &'j [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)?;
        self.blanks();
        Some(())
    }

    /// Moves to the value of a key.
    fn enter_object(&mut self, key: &[u8]) -> Option<()> {
        self.expect(b'{')?;
        loop {
            let start = self.at + 1;
            self.skip_string()?;
            let name = &self.text[start..self.at - 1];
            self.blanks();
            self.expect(b':')?;
            let same = name == key
                || name.contains(&b'\\') && {
                    let mut text = Vec::new();
                    unescape(name, &mut text).is_some() && text == key
                };
            if same {
                return Some(());
            }
            self.skip_value()?;
            self.blanks();
            self.expect(b',')?;
        }
    }

    /// Moves to an element.
    fn enter_array(&mut self, index: usize) -> Option<()> {
        self.expect(b'[')?;
        for _ in 0..index {
            self.skip_value()?;
            self.blanks();
            self.expect(b',')?;
        }
        (self.peek()? != b']').then_some(())
    }

    fn skip_value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.skip_string(),
            b'{' | b'[' => self.skip_nested(),
            b'-' | b'0'..=b'9' | b'a'..=b'z' => {
                while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E')) {
                    self.at += 1;
                }
                Some(())
            }
            _ => None,
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        (self.peek()? == b'"').then_some(())?;
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    /// Skips an object or array by counting brackets; each closing bracket must be of the kind of its opening one.
    fn skip_nested(&mut self) -> Option<()> {
        let mut open = [0u8; MAX_DEPTH];
        let mut depth = 0;
        loop {
            match self.peek()? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                bracket @ (b'{' | b'[') => {
                    *open.get_mut(depth)? = bracket;
                    depth += 1;
                }
                bracket @ (b'}' | b']') => {
                    depth -= 1;
                    // The closing brackets come two after the opening ones in ASCII.
                    (open[depth] + 2 == bracket).then_some(())?;
                    if depth == 0 {
                        self.at += 1;
                        return Some(());
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}
