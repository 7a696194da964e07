//! Dates: from numbers to text and back.

use std::borrow::Cow;
use std::io::Write as _;

use weir_formats::civil::{MONTHS, seconds_of};

use super::{Converter, Run};
use crate::args::{ArgKind, Args};
use crate::context::Context;
use crate::error::show;
use crate::sample::SampleType::{Int, Str};
use crate::sample::Value;
use crate::scope::ExpressionScope;
use crate::scratch;
use crate::time::{self, TimeZone, WallTime, date_at};

pub(super) const ROWS: &[Converter] = &[
    Converter::new("date", Str, Int, Run::Pure(parse_date), "The timestamp of an HTTP date"),
    Converter::new(
        "http_date",
        Int,
        Str,
        Run::Pure(http_date),
        "The HTTP date of a timestamp, with an offset",
    )
    .args(0, &[ArgKind::Int, ArgKind::Str])
    .check(check_http_date),
    local("ltime", |value, args, context| format_local(value, args, context, 1), "A timestamp in local time"),
    local(
        "ms_ltime",
        |value, args, context| format_local(value, args, context, 1_000),
        "Milliseconds in local time",
    ),
    local(
        "us_ltime",
        |value, args, context| format_local(value, args, context, 1_000_000),
        "Microseconds in local time",
    ),
    utc("utime", |value, args| format_utc(value, args, 1), "A timestamp in UTC"),
    utc("ms_utime", |value, args| format_utc(value, args, 1_000), "Milliseconds in UTC"),
    utc("us_utime", |value, args| format_utc(value, args, 1_000_000), "Microseconds in UTC"),
];

const fn utc(name: &'static str, run: super::Pure, help: &'static str) -> Converter {
    Converter::new(name, Int, Str, Run::Pure(run), help).args(1, &[ArgKind::Str, ArgKind::Int])
}

const fn local(name: &'static str, run: super::WithContext, help: &'static str) -> Converter {
    Converter::new(name, Int, Str, Run::Context(run), help).args(1, &[ArgKind::Str, ArgKind::Int])
}

/// The time of a number of units since 1970, plus an offset in the same unit.
fn moment(value: i64, offset: i64, units: i64) -> WallTime {
    let value = value.saturating_add(offset);
    let micros = value.rem_euclid(units) * (1_000_000 / units);
    WallTime { seconds: value.div_euclid(units), micros: micros as u32 }
}

fn format_date(value: Value<'_>, args: &Args, units: i64, zone: &TimeZone) -> Option<Value<'static>> {
    let Value::Int(value) = value else { return None };
    let mut out = scratch::take();
    let offset = args.int(1).unwrap_or(0);
    time::format(args.str(0)?, moment(value, offset, units), zone, &mut out);
    Some(Value::Str(Cow::Owned(out)))
}

fn format_utc<'a>(value: Value<'a>, args: &'a Args, units: i64) -> Option<Value<'a>> {
    format_date(value, args, units, TimeZone::utc())
}

fn format_local(
    value: Value<'static>,
    args: &Args,
    context: &mut dyn Context,
    units: i64,
) -> Option<Value<'static>> {
    format_date(value, args, units, context.time_zone())
}

fn check_http_date(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.str(1) {
        None | Some(b"s" | b"ms" | b"us") => Ok(()),
        Some(unit) => Err(format!("expects 's', 'ms' or 'us', got '{}'", show(unit))),
    }
}

/// The form of RFC 9110, 5.6.7, with a fraction if the unit has one.
fn http_date<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let Value::Int(value) = value else { return None };
    let (units, digits) = match args.str(1) {
        Some(b"ms") => (1_000, 3),
        Some(b"us") => (1_000_000, 6),
        _ => (1, 0),
    };
    let at = moment(value, args.int(0).unwrap_or(0), units);
    let c = date_at(at.seconds, 0);
    let mut out = scratch::take();
    let _ = c.write_http_date(&mut out);
    let _ = match digits {
        3 => write!(out, ".{:03}", at.micros / 1_000),
        6 => write!(out, ".{:06}", at.micros),
        _ => Ok(()),
    };
    out.extend_from_slice(b" GMT");
    Some(Value::Str(Cow::Owned(out)))
}

fn parse_date<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let seconds = timestamp(value.bytes()?)?;
    scratch::recycle(value);
    Some(Value::Int(seconds))
}

/// The timestamp of an HTTP date in any of the three forms of RFC 9110, 5.6.7.
fn timestamp(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let parts: Vec<&str> = text.split([' ', '-']).filter(|part| !part.is_empty()).take(7).collect();
    let (day, month, year, clock) = match parts[..] {
        // Sun, 06 Nov 1994 08:49:37 GMT, or Sunday, 06-Nov-94 08:49:37 GMT
        [week_day, day, month, year, clock, "GMT"] if week_day.ends_with(',') => (day, month, year, clock),
        // Sun Nov  6 08:49:37 1994
        [_, month, day, clock, year] => (day, month, year, clock),
        _ => return None,
    };
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
    let month = 1 + MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?;
    let year = match (number(year)?, year.len()) {
        // Two digits: 00 to 69 mean 2000 to 2069, 70 to 99 mean 1970 to 1999.
        (short @ 0..=69, 2) => 2000 + short,
        (short, 2) => 1900 + short,
        (year, 4) => year,
        _ => return None,
    };
    let day = number(day).filter(|day| (1..=31).contains(day))?;
    let mut clock = clock.splitn(3, ':').map(number);
    let mut next =
        |limit: i64| clock.next()?.filter(|value| (0..=limit).contains(value)).map(|value| value as u8);
    let time = [next(23)?, next(59)?, next(60)?];
    Some(seconds_of(year, month as u8, day as u8, time))
}
