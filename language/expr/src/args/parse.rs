//! From the text between the parentheses to typed arguments.
//!
//! The text has a second level of quoting of its own (manual, 2.2): quotes and backslashes protect commas and
//! closing parentheses, as on the command line of a shell.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_syntax::units::{TimeUnit, parse_size, parse_time};

use super::{Arg, ArgKind, ArgSpec, Args, Reference};
use crate::error::show;
use crate::pattern::regex::Regex;
use crate::scope::ExpressionScope;

/// One argument as text, with its offset in the word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawArg {
    pub text: Vec<u8>,
    pub start: usize,
    pub end: usize,
}

/// An error in arguments: the byte range in the word, and the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArgError {
    pub span: std::ops::Range<usize>,
    pub message: String,
}

/// Splits the arguments that begin at `word[open]`, an opening parenthesis.
///
/// Returns them with the offset just after the closing parenthesis. `()` gives no argument.
pub(crate) fn split_args(word: &[u8], open: usize) -> Result<(Vec<RawArg>, usize), ArgError> {
    let mut args = Vec::new();
    let mut text = Vec::new();
    let mut at = open + 1;
    let mut start = at;
    let mut quote = None;
    let mut quoted = false;
    while let Some(&byte) = word.get(at) {
        match (quote, byte) {
            (Some(b'\''), b'\'') | (Some(b'"'), b'"') => quote = None,
            (Some(b'\''), _) => text.push(byte),
            (_, b'\\') => {
                let escaped = match word.get(at + 1) {
                    Some(b'n') => Some(b'\n'),
                    Some(b'r') => Some(b'\r'),
                    Some(b't') => Some(b'\t'),
                    Some(same @ (b'\\' | b'\'' | b'"' | b' ')) => Some(*same),
                    // Not an escape sequence: the backslash stays, since regular expressions need it.
                    _ => None,
                };
                text.push(escaped.unwrap_or(b'\\'));
                at += usize::from(escaped.is_some());
            }
            (Some(_), _) => text.push(byte),
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                quoted = true;
            }
            (None, b',') => {
                args.push(RawArg { text: std::mem::take(&mut text), start, end: at });
                start = at + 1;
            }
            (None, b')') => {
                if !args.is_empty() || !text.is_empty() || quoted {
                    args.push(RawArg { text, start, end: at });
                }
                return Ok((args, at + 1));
            }
            (None, _) => text.push(byte),
        }
        at += 1;
    }
    Err(ArgError { span: open..word.len(), message: "expected ')'".into() })
}

/// Parses the arguments of one call in `word` by their kinds.
pub(crate) fn parse_args(
    spec: &ArgSpec,
    word: &[u8],
    raw: &[RawArg],
    scope: &ExpressionScope<'_>,
) -> Result<Args, ArgError> {
    if let Some(extra) = raw.get(spec.kinds.len()) {
        let from = if spec.kinds.is_empty() { extra.start } else { extra.start - 1 };
        let message = format!("expected ')' before '{}'", show(&word[from..]));
        return Err(ArgError { span: extra.start..extra.end, message });
    }
    let mut args = Vec::with_capacity(spec.kinds.len());
    for (index, kind) in spec.kinds.iter().enumerate() {
        match raw.get(index) {
            Some(raw) if !raw.text.is_empty() => {
                let arg = parse_arg(*kind, &raw.text, scope).map_err(|reason| {
                    let text = show(&raw.text);
                    let message = match reason {
                        Some(reason) => reason,
                        None => {
                            format!(
                                "failed to parse '{text}' as type '{}' at position {}",
                                kind.name(),
                                index + 1
                            )
                        }
                    };
                    ArgError { span: raw.start..raw.end, message }
                })?;
                args.push(arg);
            }
            // An empty string is a value where text is expected; so is `()`, if one argument is expected.
            Some(_) if *kind == ArgKind::Str => args.push(Arg::Str(Box::default())),
            None if *kind == ArgKind::Str && index == 0 && spec.required == 1 => {
                args.push(Arg::Str(Box::default()));
            }
            // An empty name means the current proxy; servers and user lists do not have a current one.
            _ if matches!(kind, ArgKind::Frontend | ArgKind::Backend | ArgKind::Table) => {
                args.push(Arg::Reference(Reference::new(*kind, None)));
            }
            found if index < spec.required => {
                let end = raw.last().map_or(0, |raw| raw.end);
                let message = match found {
                    None if index > 0 => {
                        format!(
                            "missing arguments (got {index}/{}), type '{}' expected",
                            spec.required,
                            kind.name()
                        )
                    }
                    _ => {
                        format!("expected type '{}' at position {}, but got nothing", kind.name(), index + 1)
                    }
                };
                return Err(ArgError { span: end..end, message });
            }
            Some(_) => args.push(Arg::Absent),
            None => break,
        }
    }
    Ok(Args::new(args))
}

/// Parses one argument by its kind. The error contains a message only if the generic one does not suffice.
fn parse_arg(kind: ArgKind, text: &[u8], scope: &ExpressionScope<'_>) -> Result<Arg, Option<String>> {
    let utf8 = || std::str::from_utf8(text).map_err(|_| None);
    match kind {
        ArgKind::Str => Ok(Arg::Str(text.into())),
        ArgKind::Int => utf8()?.parse().map(Arg::Int).map_err(|_| None),
        ArgKind::Ipv4 => utf8()?.parse().map(Arg::Ipv4).map_err(|_| None),
        ArgKind::Ipv6 => utf8()?.parse().map(Arg::Ipv6).map_err(|_| None),
        ArgKind::Mask4 => mask4(utf8()?).map(Arg::Ipv4).ok_or(None),
        ArgKind::Mask6 => mask6(utf8()?).map(Arg::Ipv6).ok_or(None),
        ArgKind::Delay => {
            parse_time(utf8()?, TimeUnit::Milliseconds).map(|ms| Arg::Int(ms as i64)).map_err(|_| None)
        }
        ArgKind::Size => parse_size(utf8()?).map(|size| Arg::Int(size as i64)).map_err(|_| None),
        ArgKind::Frontend | ArgKind::Backend | ArgKind::Table | ArgKind::Server | ArgKind::UserList => {
            Ok(Arg::Reference(Reference::new(kind, Some(utf8()?))))
        }
        ArgKind::Regex => match Regex::new(utf8()?, false, scope.at) {
            Ok(regex) => Ok(Arg::Regex(Arc::new(regex))),
            Err(error) => Err(Some(error.to_string())),
        },
        ArgKind::Variable => scope.variables.intern(utf8()?).map(Arg::Variable).map_err(Some),
        // No argument has this kind.
        ArgKind::Script => Err(None),
        ArgKind::FieldNumber => {
            let part = |part: &str| part.parse().ok().filter(|number| (1..1 << 29).contains(number));
            let path: Option<Vec<u32>> = utf8()?.split('.').map(part).collect();
            path.map(|path| Arg::FieldNumber(path.into())).ok_or(None)
        }
    }
}

/// A netmask: dotted, or a number of bits.
fn mask4(text: &str) -> Option<Ipv4Addr> {
    if text.contains('.') {
        return text.parse().ok();
    }
    let length: u32 = text.parse().ok().filter(|length| *length <= 32)?;
    Some(Ipv4Addr::from(u32::MAX.checked_shl(32 - length).unwrap_or(0)))
}

fn mask6(text: &str) -> Option<Ipv6Addr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let length: u32 = text.parse().ok().filter(|length| *length <= 128)?;
    Some(Ipv6Addr::from(u128::MAX.checked_shl(128 - length).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::parse_ipv4_abbreviated;

    #[track_caller]
    fn check(word: &str, expected: &[&str], rest: &str) {
        let (args, end) = split_args(word.as_bytes(), 0).unwrap();
        let args: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(&arg.text).into_owned()).collect();
        assert_eq!(args, expected, "{word}");
        assert_eq!(&word[end..], rest);
    }

    #[test]
    fn arguments_are_split_at_commas_outside_quotes() {
        check("()", &[], "");
        check("(a)", &["a"], "");
        check("(a,b),lower", &["a", "b"], ",lower");
        check("(,b)", &["", "b"], "");
        check("(a,)", &["a", ""], "");
        check("(\"a,b)\",c)", &["a,b)", "c"], "");
        check("('x','')", &["x", ""], "");
        check("('')", &[""], "");
        check(r"('a\b')", &[r"a\b"], "");
        check(r"(a\b\,c)", &[r"a\b\", "c"], "");
        check(r"(\x41)", &[r"\x41"], "");
        check(r#"("(foo|bar)","\2\1",i)"#, &["(foo|bar)", r"\2\1", "i"], "");
    }

    #[test]
    fn an_unfinished_argument_list_is_an_error() {
        assert!(split_args(b"(a", 0).is_err());
        assert!(split_args(b"('a)", 0).is_err());
        assert!(split_args(b"(a\\", 0).is_err());
    }

    #[test]
    fn ipv4_arguments_may_be_abbreviated() {
        for (text, expected) in [
            ("192.168.0.1", Some([192, 168, 0, 1])),
            ("192.168.1", Some([192, 168, 0, 1])),
            ("10.12", Some([10, 0, 0, 12])),
            ("127.1", Some([127, 0, 0, 1])),
            ("1.2.3.4.5", None),
            ("256.1", None),
            ("", None),
            ("a.b", None),
        ] {
            assert_eq!(parse_ipv4_abbreviated(text), expected.map(Ipv4Addr::from), "{text}");
        }
    }
}
