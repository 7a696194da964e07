//! Strings: substrings and changes.

use std::borrow::Cow;

use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::bound::{self, AtBound};
use crate::pattern::regex::expand;
use crate::sample::SampleType::{Bin, Bool, Int, Str};
use crate::sample::Value;
use crate::scope::ExpressionScope;
use crate::scratch;

pub(super) const ROWS: &[Converter] = &[
    Converter::new("base2", Bin, Str, Run::Pure(base2), "The bits of each byte, as zeros and ones"),
    Converter::new("bytes", Bin, Bin, Run::Resolved(bytes), "A part of a binary: offset and length")
        .args(1, &[ArgKind::Str, ArgKind::Str])
        .check(check_bytes),
    Converter::new("cut_crlf", Str, Str, Run::Pure(cut_crlf), "What stands before the first line break"),
    Converter::new("field", Str, Str, Run::Pure(field), "The nth field; every delimiter ends one")
        .args(2, &[ArgKind::Int, ArgKind::Str, ArgKind::Int])
        .check(check_field),
    Converter::new(
        "has_ctl",
        Bin,
        Bool,
        Run::Pure(has_ctl),
        "Whether a control character is among the bytes",
    )
    .args(0, &[ArgKind::Str])
    .check(check_has_ctl),
    Converter::new("iif", Bool, Str, Run::Pure(iif), "The first text if true, else the second")
        .args(2, &[ArgKind::Str, ArgKind::Str]),
    Converter::new(
        "language",
        Str,
        Str,
        Run::Pure(language),
        "The best of the given languages for an Accept-Language",
    )
    .args(1, &[ArgKind::Str, ArgKind::Str]),
    Converter::new("length", Str, Int, Run::Pure(length), "Number of bytes"),
    Converter::new("lower", Str, Str, Run::Pure(lower), "Lower case").at_bound(AtBound::CUT_TEXT),
    Converter::new("ltrim", Str, Str, Run::Pure(ltrim), "Without the given characters at the beginning")
        .args(1, &[ArgKind::Str]),
    Converter::new("param", Str, Str, Run::Pure(param), "The value of the first parameter of that name")
        .args(1, &[ArgKind::Str, ArgKind::Str])
        .check(check_param),
    Converter::new("regsub", Str, Str, Run::Pure(regsub), "Replaces what a regular expression matches")
        .args(2, &[ArgKind::Regex, ArgKind::Str, ArgKind::Str])
        .check(check_regsub),
    Converter::new("reverse", Str, Str, Run::Pure(reverse), "The bytes in reverse order"),
    Converter::new(
        "reverse_dom",
        Str,
        Str,
        Run::Pure(reverse_dom),
        "The labels of a domain name in reverse order",
    ),
    Converter::new("rtrim", Str, Str, Run::Pure(rtrim), "Without the given characters at the end")
        .args(1, &[ArgKind::Str]),
    Converter::new("upper", Str, Str, Run::Pure(upper), "Upper case").at_bound(AtBound::CUT_TEXT),
    Converter::new("word", Str, Str, Run::Pure(word), "The nth word; several delimiters count as one")
        .args(2, &[ArgKind::Int, ArgKind::Str, ArgKind::Int])
        .check(check_field),
];

fn length<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let length = value.bytes()?.len();
    scratch::recycle(value);
    Some(Value::Int(length as i64))
}

pub(super) fn lower<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    map_bytes(value, u8::is_ascii_uppercase, <[u8]>::make_ascii_lowercase)
}

fn upper<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    map_bytes(value, u8::is_ascii_lowercase, <[u8]>::make_ascii_uppercase)
}

/// Changes bytes in place. A borrowed string that needs no change stays borrowed.
fn map_bytes<'a>(value: Value<'a>, touches: fn(&u8) -> bool, change: fn(&mut [u8])) -> Option<Value<'a>> {
    let Value::Str(bytes) = value else { return None };
    if !bytes.iter().any(touches) {
        return Some(Value::Str(bytes));
    }
    let mut bytes = into_buffer(bytes);
    change(&mut bytes);
    Some(Value::Str(Cow::Owned(bytes)))
}

/// The bytes in a buffer of their own.
fn into_buffer(bytes: Cow<'_, [u8]>) -> Vec<u8> {
    match bytes {
        Cow::Owned(bytes) => bytes,
        Cow::Borrowed(bytes) => {
            let mut copy = scratch::take();
            copy.extend_from_slice(bytes);
            copy
        }
    }
}

/// A range of the bytes. Borrowed bytes are not copied, owned bytes are moved inside their buffer.
pub(super) fn slice(bytes: Cow<'_, [u8]>, from: usize, to: usize) -> Cow<'_, [u8]> {
    match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[from..to]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(to);
            bytes.drain(..from);
            Cow::Owned(bytes)
        }
    }
}

/// Keeps the part of a string that `find` chooses.
fn part<'a>(value: Value<'a>, find: impl FnOnce(&[u8]) -> Option<(usize, usize)>) -> Option<Value<'a>> {
    let Value::Str(bytes) = value else { return None };
    let (from, to) = find(&bytes)?;
    Some(Value::Str(slice(bytes, from, to)))
}

fn cut_crlf<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    part(value, |text| Some((0, memchr::memchr2(b'\r', b'\n', text).unwrap_or(text.len()))))
}

fn ltrim<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let characters = args.str(0)?;
    part(value, |text| {
        let from = text.iter().position(|byte| !characters.contains(byte)).unwrap_or(text.len());
        Some((from, text.len()))
    })
}

fn rtrim<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let characters = args.str(0)?;
    part(value, |text| {
        let to = text.iter().rposition(|byte| !characters.contains(byte)).map_or(0, |last| last + 1);
        Some((0, to))
    })
}

fn check_field(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    if args.int(0) == Some(0) {
        return Err("Unexpected value 0 for index".into());
    }
    if args.str(1).unwrap_or_default().is_empty() {
        return Err("Empty separators list".into());
    }
    Ok(())
}

/// The number of fields to take: one by default, all fields for zero and below.
fn count(args: &Args) -> usize {
    match args.int(2) {
        // An empty argument means zero.
        None if args.len() > 2 => usize::MAX,
        None => 1,
        Some(count) => usize::try_from(count).ok().filter(|count| *count > 0).unwrap_or(usize::MAX),
    }
}

fn field<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let (index, delimiters, count) = (args.int(0)?, args.str(1)?, count(args));
    let skip = usize::try_from(index.unsigned_abs() - 1).unwrap_or(usize::MAX);
    part(value, |text| {
        if index > 0 {
            return fields(text.len(), |at| delimiters.contains(&text[at]), skip, count);
        }
        let last = text.len().wrapping_sub(1);
        let (from, to) = fields(text.len(), |at| delimiters.contains(&text[last - at]), skip, count)?;
        Some((text.len() - to, text.len() - from))
    })
}

/// The range of `count` fields after the first `skip`. None if there are fewer.
fn fields(
    length: usize,
    is_delimiter: impl Fn(usize) -> bool,
    skip: usize,
    count: usize,
) -> Option<(usize, usize)> {
    let mut from = 0;
    for _ in 0..skip {
        from = (from..length).find(|at| is_delimiter(*at))? + 1;
    }
    let mut ends = (from..length).filter(|at| is_delimiter(*at));
    let to = ends.nth(count - 1).unwrap_or(length);
    Some((from, to))
}

fn word<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let (index, delimiters, count) = (args.int(0)?, args.str(1)?, count(args));
    let skip = usize::try_from(index.unsigned_abs() - 1).unwrap_or(usize::MAX);
    part(value, |text| {
        if index > 0 {
            return words(text.len(), |at| delimiters.contains(&text[at]), skip, count);
        }
        let last = text.len().wrapping_sub(1);
        let (from, to) = words(text.len(), |at| delimiters.contains(&text[last - at]), skip, count)?;
        Some((text.len() - to, text.len() - from))
    })
}

/// The range of `count` words after the first `skip`. If there are fewer, the rest with its delimiters. None if there are at most
/// `skip` words.
fn words(
    length: usize,
    is_delimiter: impl Fn(usize) -> bool,
    skip: usize,
    count: usize,
) -> Option<(usize, usize)> {
    let mut from = 0;
    for turn in 0..=skip {
        match (from..length).find(|at| !is_delimiter(*at)) {
            Some(begin) => from = begin,
            None => return None,
        }
        if turn < skip {
            from = (from..length).find(|at| is_delimiter(*at)).unwrap_or(length);
        }
    }
    let mut to = from;
    for _ in 0..count {
        let Some(begin) = (to..length).find(|at| !is_delimiter(*at)) else { return Some((from, length)) };
        match (begin..length).find(|at| is_delimiter(*at)) {
            Some(end) => to = end,
            None => return Some((from, length)),
        }
    }
    Some((from, to))
}

/// Offset and length may be variables, so they are parsed as text first. A missing offset is zero.
fn check_bytes(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    for index in 0..args.len() {
        let Some(text) = args.str(index) else { continue };
        if index == 0 && text.is_empty() {
            args.set(0, Arg::Int(0));
            continue;
        }
        let text = String::from_utf8_lossy(text).into_owned();
        let position = index + 1;
        let failed =
            || format!("failed to parse '{text}' as type 'integer' or 'variable' at position {position}");
        let arg = match text.parse::<i64>() {
            Ok(..0) if index == 0 => return Err("expects a non-negative integer".into()),
            Ok(..=0) if index == 1 => return Err("expects a positive integer".into()),
            Ok(number) => Arg::Int(number),
            Err(_) => Arg::Variable(scope.variables.intern(&text).map_err(|_| failed())?),
        };
        args.set(index, arg);
    }
    Ok(())
}

fn bytes<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let Value::Bin(bytes) = value else { return None };
    let number = |index| match args.get(index) {
        Arg::Int(value) => Some(Some(*value)),
        Arg::Str(text) => {
            Value::str(text).cast(Int).map(|value| if let Value::Int(v) = value { Some(v) } else { None })
        }
        _ => Some(None),
    };
    // An offset beyond the end gives an empty result, not a missing one.
    // A variable may hold a negative number, which is not a valid offset or length.
    let from = usize::try_from(number(0)??).ok()?.min(bytes.len());
    let room = bytes.len() - from;
    let length = match number(1)? {
        Some(length) if from < bytes.len() => usize::try_from(length).ok()?.min(room),
        _ => room,
    };
    Some(Value::Bin(slice(bytes, from, from + length)))
}

fn base2<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let Value::Bin(bytes) = value else { return None };
    let mut out = scratch::take();
    for byte in &*bytes {
        out.extend((0..8).rev().map(|bit| b'0' + (byte >> bit & 1)));
    }
    scratch::recycle(Value::Bin(bytes));
    Some(Value::Str(Cow::Owned(out)))
}

fn check_has_ctl(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let text = String::from_utf8_lossy(args.str(0).unwrap_or_default()).into_owned();
    let parsed = match (&*text, text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))) {
        ("", _) => Ok(CONTROLS & !TAB),
        ("any", _) => Ok(CONTROLS),
        ("http", _) => Ok(FORBIDDEN_IN_HTTP),
        (_, Some(digits)) => i64::from_str_radix(digits, 16),
        (_, None) => text.parse(),
    };
    let mask = parsed.ok().filter(|mask| (0..=CONTROLS).contains(mask));
    let mask = mask.ok_or_else(|| {
        format!("'{text}' is neither 'any' nor 'http' nor a mask of the 33 control characters")
    })?;
    args.set(0, Arg::Int(mask));
    Ok(())
}

/// A bit for each character from 0 to 31, and bit 32 for DEL.
const CONTROLS: i64 = (1 << 33) - 1;
/// Header values may contain it, so the default mask does not (manual, "has_ctl").
const TAB: i64 = 1 << 9;
/// NUL, LF and CR.
const FORBIDDEN_IN_HTTP: i64 = 0x2401;

fn has_ctl<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let Value::Bin(bytes) = value else { return None };
    let mask = args.int(0)?;
    let found = bytes.iter().any(|byte| match byte {
        0..32 => mask >> byte & 1 == 1,
        0x7f => mask >> 32 & 1 == 1,
        _ => false,
    });
    scratch::recycle(Value::Bin(bytes));
    Some(Value::Bool(found))
}

fn iif<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    match value {
        Value::Bool(value) => Some(Value::str(args.str(usize::from(!value))?)),
        _ => None,
    }
}

fn reverse<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let Value::Str(bytes) = value else { return None };
    let mut bytes = into_buffer(bytes);
    bytes.reverse();
    Some(Value::Str(Cow::Owned(bytes)))
}

/// A dot at the end is dropped. A name with an empty label is not a domain name.
fn reverse_dom<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let Value::Str(bytes) = value else { return None };
    let name = bytes.strip_suffix(b".").unwrap_or(&bytes);
    if name.split(|byte| *byte == b'.').any(<[u8]>::is_empty) {
        return None;
    }
    let mut out = scratch::take();
    for (index, label) in name.rsplit(|byte| *byte == b'.').enumerate() {
        if index > 0 {
            out.push(b'.');
        }
        out.extend_from_slice(label);
    }
    scratch::recycle(Value::Str(bytes));
    Some(Value::Str(Cow::Owned(out)))
}

fn check_param(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let Some(text) = args.str(1) else { return Ok(()) };
    let hexadecimal = text.strip_prefix(b"0x").and_then(|digits| std::str::from_utf8(digits).ok());
    let delimiter = match (text, hexadecimal) {
        ([character], _) => *character,
        (_, Some(digits)) => u8::from_str_radix(digits, 16)
            .map_err(|_| "Delimiter must be a character between 0x00 and 0xff".to_owned())?,
        _ => return Err("Delimiter must be exactly 1 character, or its hexadecimal number".into()),
    };
    args.set(1, Arg::Str([delimiter].into()));
    Ok(())
}

/// Parameters are separated by one character, `&` by default. A parameter without `=` has an empty value.
fn param<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let name = args.str(0)?;
    let delimiter = args.str(1).and_then(|text| text.first()).copied().unwrap_or(b'&');
    part(value, |text| {
        let mut start = 0;
        for parameter in text.split(|byte| *byte == delimiter) {
            match parameter.strip_prefix(name) {
                Some([]) => return Some((start + name.len(), start + name.len())),
                Some([b'=', ..]) => return Some((start + name.len() + 1, start + parameter.len())),
                _ => start += parameter.len() + 1,
            }
        }
        None
    })
}

/// Compiles the expression again if it ignores case, and stores whether all matches are replaced.
fn check_regsub(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let flags = args.str(2).unwrap_or_default();
    if let Some(wrong) = flags.iter().find(|flag| !b"gi".contains(flag)) {
        return Err(format!("invalid regex flag '{}', only 'i' and 'g' are supported", *wrong as char));
    }
    let (all, ignore_case) = (flags.contains(&b'g'), flags.contains(&b'i'));
    let Arg::Regex(regex) = args.get(0) else { return Err("missing regex".into()) };
    if ignore_case {
        let regex = regex.with_case(true).map_err(|error| error.to_string())?;
        args.set(0, Arg::Regex(regex.into()));
    }
    args.set(2, Arg::Int(all.into()));
    Ok(())
}

fn regsub<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let (Value::Str(text), Arg::Regex(regex)) = (value, args.get(0)) else { return None };
    let (template, all) = (args.str(1)?, args.int(2)? == 1);
    let mut groups = regex.groups();
    let Some(mut found) = regex.captures(&text, 0, &mut groups) else { return Some(Value::Str(text)) };
    let mut out = scratch::take();
    let mut copied = 0;
    loop {
        out.extend_from_slice(&text[copied..found.start]);
        expand(template, &text, &groups, &mut out);
        copied = found.end;
        // After an empty match, the next search starts one byte further to avoid the same match.
        let next = if found.is_empty() { found.end + 1 } else { found.end };
        if !all || out.len() > bound::bytes() {
            break;
        }
        match regex.captures(&text, next, &mut groups) {
            Some(next) => found = next,
            None => break,
        }
    }
    out.extend_from_slice(&text[copied..]);
    scratch::recycle(Value::Str(text));
    Some(Value::Str(Cow::Owned(out)))
}

/// The argument lists the offered languages, separated by semicolons. The input is an Accept-Language header.
fn language<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let offered = args.str(0)?;
    let mut best: Option<(u32, &'a [u8])> = None;
    for item in value.bytes()?.split(|byte| *byte == b',') {
        let mut parts = item.splitn(2, |byte| *byte == b';');
        let wanted = parts.next().unwrap_or_default().trim_ascii();
        let quality = parts.next().map_or(1000, quality);
        if quality == 0 || best.is_some_and(|(best, _)| best >= quality) {
            continue;
        }
        if let Some(found) = offered.split(|byte| *byte == b';').find(|offer| speaks(wanted, offer)) {
            best = Some((quality, found));
        }
    }
    scratch::recycle(value);
    best.map(|(_, language)| language)
        .or_else(|| args.str(1).filter(|default| !default.is_empty()))
        .map(Value::str)
}

/// True if the offer is the wanted language or its base language.
fn speaks(wanted: &[u8], offer: &[u8]) -> bool {
    !offer.is_empty() && matches!(wanted.strip_prefix(offer), Some([] | [b'-', ..]))
}

/// A quality in thousandths. An invalid quality counts as missing, which means 1.
fn quality(text: &[u8]) -> u32 {
    let Some(text) = text.trim_ascii().strip_prefix(b"q=") else { return 1000 };
    let text = text.trim_ascii();
    if !text.first().is_some_and(u8::is_ascii_digit) {
        return 1000;
    }
    let (whole, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &[][..]),
    };
    let digit = |byte: Option<&u8>| {
        byte.filter(|byte| byte.is_ascii_digit()).map_or(0, |byte| u32::from(byte - b'0'))
    };
    digit(whole.first()) * 1000
        + digit(fraction.first()) * 100
        + digit(fraction.get(1)) * 10
        + digit(fraction.get(2))
}
