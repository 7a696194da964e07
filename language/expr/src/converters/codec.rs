//! Encodings: base64, hexadecimal, numbers in binary, URLs.

use std::borrow::Cow;
use std::io::Write as _;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, PAD};

use super::{Converter, Run};
use crate::args::{ArgKind, Args};
use crate::bound::{self, AtBound};
use crate::sample::SampleType::{Bin, Int, Str};
use crate::sample::Value;
use crate::scope::ExpressionScope;
use crate::scratch;

/// As in RFC 4648, but unused trailing bits may have any value, as in HAProxy.
const STANDARD: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));
const URL_SAFE_NO_PAD: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

pub(super) const ROWS: &[Converter] = &[
    Converter::new("b64dec", Str, Bin, Run::Pure(b64dec), "Decodes base64"),
    Converter::new("base64", Bin, Str, Run::Pure(base64), "Encodes in base64")
        .at_bound(AtBound::FAIL_QUARTETS),
    Converter::new("be2dec", Bin, Str, Run::Pure(be2dec), "Big-endian numbers of some bytes, in decimal")
        .args(1, &[ArgKind::Str, ArgKind::Int, ArgKind::Int])
        .check(check_decimal),
    Converter::new(
        "be2hex",
        Bin,
        Str,
        Run::Pure(be2hex),
        "Hexadecimal digits, with a separator after some bytes",
    )
    .args(1, &[ArgKind::Str, ArgKind::Int, ArgKind::Int])
    .check(check_hexadecimal),
    Converter::new("hex", Bin, Str, Run::Pure(hex), "Two hexadecimal digits for each byte"),
    Converter::new("hex2i", Str, Int, Run::Pure(hex2i), "The number written in hexadecimal digits"),
    Converter::new("htonl", Int, Bin, Run::Pure(htonl), "The low 32 bits as four bytes in network order"),
    Converter::new("le2dec", Bin, Str, Run::Pure(le2dec), "Little-endian numbers of some bytes, in decimal")
        .args(1, &[ArgKind::Str, ArgKind::Int, ArgKind::Int])
        .check(check_decimal),
    Converter::new("ub64dec", Str, Bin, Run::Pure(ub64dec), "Decodes base64 in the alphabet of URLs"),
    Converter::new("ub64enc", Bin, Str, Run::Pure(ub64enc), "Encodes in base64 in the alphabet of URLs")
        .at_bound(AtBound::FAIL_QUARTETS),
    Converter::new(
        "url_dec",
        Str,
        Str,
        Run::Pure(url_dec),
        "Decodes a URL; with an argument, all of it as a form",
    )
    .args(0, &[ArgKind::Int]),
    Converter::new("url_enc", Str, Str, Run::Pure(url_enc), "Encodes for a query string")
        .args(1, &[ArgKind::Str])
        .check(check_url_enc),
];

/// Calls `write` with the bytes of a value and an empty buffer. The buffer becomes the result.
fn rewrite<'a>(
    value: Value<'_>,
    wrap: fn(Cow<'a, [u8]>) -> Value<'a>,
    write: impl FnOnce(&[u8], &mut Vec<u8>) -> Option<()>,
) -> Option<Value<'a>> {
    let mut out = scratch::take();
    let done = write(value.bytes()?, &mut out);
    scratch::recycle(value);
    if done.is_none() {
        scratch::give(out);
        return None;
    }
    Some(wrap(Cow::Owned(out)))
}

/// Standard base64 with its padding.
pub(super) fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

fn encode(engine: &impl base64::Engine, bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.resize(base64::encoded_len(bytes.len(), true)?, 0);
    let length = engine.encode_slice(bytes, out).ok()?;
    out.truncate(length);
    Some(())
}

fn base64<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    rewrite(value, Value::Str, |bytes, out| encode(&STANDARD, bytes, out))
}

fn ub64enc<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    rewrite(value, Value::Str, |bytes, out| encode(&URL_SAFE_NO_PAD, bytes, out))
}

fn b64dec<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    rewrite(value, Value::Bin, |text, out| STANDARD.decode_vec(text, out).ok())
}

/// Padding is optional here.
fn ub64dec<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    rewrite(value, Value::Bin, |text, out| {
        let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
        URL_SAFE_NO_PAD.decode_vec(&text[..end], out).ok()
    })
}

fn hex<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    rewrite(value, Value::Str, |bytes, out| {
        push_hex(bytes, out);
        Some(())
    })
}

fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// The size of the chunks, and whether an incomplete one at the end is dropped.
fn check_decimal(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let size = args.int(1).unwrap_or(0);
    if !(1..=8).contains(&size) {
        return Err(format!("chunk_size out of [1..8] range ({size})"));
    }
    check_truncate(args)
}

fn check_hexadecimal(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    if let Some(size) = args.int(1).filter(|size| *size <= 0) {
        return Err(format!("chunk_size needs to be positive ({size})"));
    }
    // A separator needs a chunk size.
    if args.int(1).is_none() && args.str(0).is_some_and(|separator| !separator.is_empty()) {
        return Err("chunk_size needs to be positive (0)".into());
    }
    check_truncate(args)
}

fn check_truncate(args: &Args) -> Result<(), String> {
    match args.int(2) {
        None | Some(0 | 1) => Ok(()),
        Some(value) => Err(format!("Unexpected value {value} for truncate (0 or 1 expected)")),
    }
}

/// The division of bytes into chunks before they are written.
struct DigitGroups<'a> {
    separator: &'a [u8],
    size: usize,
    /// Drop an incomplete chunk at the end.
    whole_only: bool,
}

impl<'a> DigitGroups<'a> {
    fn new(args: &'a Args) -> Option<Self> {
        Some(DigitGroups {
            separator: args.str(0).unwrap_or_default(),
            size: args.int(1).map_or(Some(usize::MAX), |size| usize::try_from(size).ok())?,
            whole_only: args.int(2) == Some(1),
        })
    }

    /// Writes the chunks that fit within the bound.
    fn write<'v>(&self, value: Value<'v>, write: impl Fn(&[u8], &mut Vec<u8>)) -> Option<Value<'v>> {
        rewrite(value, Value::Str, |bytes, out| {
            for (index, chunk) in bytes.chunks(self.size).enumerate() {
                if self.whole_only && chunk.len() < self.size {
                    break;
                }
                let before = out.len();
                if index > 0 {
                    out.extend_from_slice(self.separator);
                }
                write(chunk, out);
                if out.len() > bound::bytes() {
                    out.truncate(before);
                    break;
                }
            }
            Some(())
        })
    }
}

/// The chunk size does not matter without a separator. None if a chunk with its separator is too long for a value, as in HAProxy.
fn be2hex<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let mut chunks = DigitGroups::new(args)?;
    if chunks.separator.is_empty() && !chunks.whole_only {
        chunks.size = value.bytes()?.len().max(1);
    }
    let longest = chunks.size.saturating_mul(2).saturating_add(chunks.separator.len());
    if longest > bound::bytes() {
        scratch::recycle(value);
        return None;
    }
    chunks.write(value, push_hex)
}

fn be2dec<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    DigitGroups::new(args)?.write(value, |chunk, out| {
        let _ = write!(out, "{}", chunk.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte)));
    })
}

fn le2dec<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    DigitGroups::new(args)?.write(value, |chunk, out| {
        let _ =
            write!(out, "{}", chunk.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)));
    })
}

/// More than 64 bits give the largest unsigned number, which is -1 as a signed one. Of more than sixteen digits, the last ones count.
/// Without digits, the result is 0.
fn hex2i<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let mut number: u64 = 0;
    for byte in value.bytes()? {
        number = (number << 4) | u64::from((*byte as char).to_digit(16)?);
    }
    scratch::recycle(value);
    Some(Value::Int(number as i64))
}

fn htonl<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let Value::Int(value) = value else { return None };
    let mut out = scratch::take();
    out.extend_from_slice(&(value as u32).to_be_bytes());
    Some(Value::Bin(Cow::Owned(out)))
}

/// A plus means a space in a form: everywhere if the argument is non-zero, else only after the question mark.
fn url_dec<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let mut in_form = args.int(0).is_some_and(|form| form != 0);
    if !in_form && !value.bytes()?.contains(&b'%') && !value.bytes()?.contains(&b'+') {
        return Some(value);
    }
    rewrite(value, Value::Str, |text, out| {
        let mut rest = text;
        while let [byte, after @ ..] = rest {
            rest = after;
            out.push(match byte {
                b'%' => {
                    let [high, low, after @ ..] = after else { return None };
                    rest = after;
                    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
                    // An encoded NUL is refused: other programs treat it as the end of the string.
                    match digit(*high)? << 4 | digit(*low)? {
                        0 => return None,
                        byte => byte,
                    }
                }
                b'+' if in_form => b' ',
                b'?' => {
                    in_form = true;
                    b'?'
                }
                byte => *byte,
            });
        }
        Some(())
    })
}

fn check_url_enc(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.str(0) {
        None | Some(b"" | b"query") => Ok(()),
        Some(_) => Err("Unexpected encode type. Allowed value is 'query'".into()),
    }
}

/// A percent sign and two hexadecimal digits.
const ESCAPE_BYTES: usize = 3;

/// Copies unreserved characters (RFC 3986) and writes all others as `%` and two hexadecimal digits. A text that is too long is cut. If the
/// cut would be inside an escape, the converter fails.
fn url_enc<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    if value.bytes()?.iter().all(plain) {
        return Some(value);
    }
    rewrite(value, Value::Str, |text, out| {
        let most = bound::text_bytes();
        for byte in text {
            if out.len() >= most {
                break;
            }
            if plain(byte) {
                out.push(*byte);
            } else if out.len() + ESCAPE_BYTES < most {
                out.push(b'%');
                push_hex(&[*byte], out);
            } else {
                return None;
            }
        }
        Some(())
    })
}
