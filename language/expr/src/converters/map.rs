//! Maps: the value of the entry with the matching pattern.

use std::borrow::Cow;
use std::sync::Arc;

use weir_fingerprint::Canonical;

use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::bound::AtBound;
use crate::error::show;
use crate::pattern::regex::expand;
use crate::pattern::{MatchMethod, PatternIndex, PatternMatch};
use crate::sample::SampleType::{self, Addr, Int, Str};
use crate::sample::Value;
use crate::sample::cast::{parse_ipv4, parse_ipv6};
use crate::scope::ExpressionScope;
use crate::scratch;

pub(super) const ROWS: &[Converter] = &[
    row(
        "map",
        Str,
        Str,
        "Looks the input up in a file of lines with a key and a value, and gives the value, or the default",
        |a, s| check(a, s, MatchMethod::Str, Output::Text),
    ),
    row("map_str", Str, Str, "The value of a key that is equal", |a, s| {
        check(a, s, MatchMethod::Str, Output::Text)
    }),
    row("map_str_int", Str, Int, "As map_str, a number", |a, s| {
        check(a, s, MatchMethod::Str, Output::Number)
    }),
    row("map_str_ip", Str, Addr, "As map_str, an address", |a, s| {
        check(a, s, MatchMethod::Str, Output::Address)
    }),
    row("map_str_key", Str, Str, "As map_str, the key itself", |a, s| {
        check(a, s, MatchMethod::Str, Output::Key)
    }),
    row("map_beg", Str, Str, "The value of the longest key that is a prefix", |a, s| {
        check(a, s, MatchMethod::Beg, Output::Text)
    }),
    row("map_beg_int", Str, Int, "As map_beg, a number", |a, s| {
        check(a, s, MatchMethod::Beg, Output::Number)
    }),
    row("map_beg_ip", Str, Addr, "As map_beg, an address", |a, s| {
        check(a, s, MatchMethod::Beg, Output::Address)
    }),
    row("map_beg_key", Str, Str, "As map_beg, the key itself", |a, s| {
        check(a, s, MatchMethod::Beg, Output::Key)
    }),
    row("map_sub", Str, Str, "The value of the first key that is a substring", |a, s| {
        check(a, s, MatchMethod::Sub, Output::Text)
    }),
    row("map_sub_int", Str, Int, "As map_sub, a number", |a, s| {
        check(a, s, MatchMethod::Sub, Output::Number)
    }),
    row("map_sub_ip", Str, Addr, "As map_sub, an address", |a, s| {
        check(a, s, MatchMethod::Sub, Output::Address)
    }),
    row("map_sub_key", Str, Str, "As map_sub, the key itself", |a, s| {
        check(a, s, MatchMethod::Sub, Output::Key)
    }),
    row("map_dir", Str, Str, "The value of the first key that is a part of the path", |a, s| {
        check(a, s, MatchMethod::Dir, Output::Text)
    }),
    row("map_dir_int", Str, Int, "As map_dir, a number", |a, s| {
        check(a, s, MatchMethod::Dir, Output::Number)
    }),
    row("map_dir_ip", Str, Addr, "As map_dir, an address", |a, s| {
        check(a, s, MatchMethod::Dir, Output::Address)
    }),
    row("map_dir_key", Str, Str, "As map_dir, the key itself", |a, s| {
        check(a, s, MatchMethod::Dir, Output::Key)
    }),
    row("map_dom", Str, Str, "The value of the first key that is a part of the domain", |a, s| {
        check(a, s, MatchMethod::Dom, Output::Text)
    }),
    row("map_dom_int", Str, Int, "As map_dom, a number", |a, s| {
        check(a, s, MatchMethod::Dom, Output::Number)
    }),
    row("map_dom_ip", Str, Addr, "As map_dom, an address", |a, s| {
        check(a, s, MatchMethod::Dom, Output::Address)
    }),
    row("map_dom_key", Str, Str, "As map_dom, the key itself", |a, s| {
        check(a, s, MatchMethod::Dom, Output::Key)
    }),
    row("map_end", Str, Str, "The value of the first key that is a suffix", |a, s| {
        check(a, s, MatchMethod::End, Output::Text)
    }),
    row("map_end_int", Str, Int, "As map_end, a number", |a, s| {
        check(a, s, MatchMethod::End, Output::Number)
    }),
    row("map_end_ip", Str, Addr, "As map_end, an address", |a, s| {
        check(a, s, MatchMethod::End, Output::Address)
    }),
    row("map_end_key", Str, Str, "As map_end, the key itself", |a, s| {
        check(a, s, MatchMethod::End, Output::Key)
    }),
    row("map_reg", Str, Str, "The value of the first regular expression that matches", |a, s| {
        check(a, s, MatchMethod::Reg, Output::Text)
    }),
    row("map_reg_int", Str, Int, "As map_reg, a number", |a, s| {
        check(a, s, MatchMethod::Reg, Output::Number)
    }),
    row("map_reg_ip", Str, Addr, "As map_reg, an address", |a, s| {
        check(a, s, MatchMethod::Reg, Output::Address)
    }),
    row("map_reg_key", Str, Str, "As map_reg, the regular expression itself", |a, s| {
        check(a, s, MatchMethod::Reg, Output::Key)
    }),
    row("map_regm", Str, Str, "As map_reg, with \\1 to \\9 in the value replaced by groups", |a, s| {
        check(a, s, MatchMethod::Reg, Output::Expanded)
    })
    .at_bound(AtBound::FAIL_TEXT),
    row("map_int", Int, Str, "The value of the first range that holds the number", |a, s| {
        check(a, s, MatchMethod::Int, Output::Text)
    }),
    row("map_int_int", Int, Int, "As map_int, a number", |a, s| {
        check(a, s, MatchMethod::Int, Output::Number)
    }),
    row("map_int_ip", Int, Addr, "As map_int, an address", |a, s| {
        check(a, s, MatchMethod::Int, Output::Address)
    }),
    row("map_int_key", Int, Str, "As map_int, the range itself", |a, s| {
        check(a, s, MatchMethod::Int, Output::Key)
    }),
    row("map_ip", Addr, Str, "The value of the finest network that holds the address", |a, s| {
        check(a, s, MatchMethod::Ip, Output::Text)
    }),
    row("map_ip_int", Addr, Int, "As map_ip, a number", |a, s| check(a, s, MatchMethod::Ip, Output::Number)),
    row("map_ip_ip", Addr, Addr, "As map_ip, an address", |a, s| {
        check(a, s, MatchMethod::Ip, Output::Address)
    }),
    row("map_ip_key", Addr, Str, "As map_ip, the network itself", |a, s| {
        check(a, s, MatchMethod::Ip, Output::Key)
    }),
];

const fn row(
    name: &'static str,
    input: SampleType,
    output: SampleType,
    help: &'static str,
    check: crate::args::ArgsCheck,
) -> Converter {
    let row = Converter::new(name, input, output, Run::Pure(run), help).check(check);
    let is_key = matches!(name.as_bytes(), [.., b'_', b'k', b'e', b'y']);
    match (output, is_key) {
        (_, true) => row.args(1, &[ArgKind::Str]),
        (Int, _) => row.args(1, &[ArgKind::Str, ArgKind::Int]),
        _ => row.args(1, &[ArgKind::Str, ArgKind::Str]),
    }
}

/// The output type of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Canonical)]
enum Output {
    Text,
    Number,
    Address,
    Key,
    Expanded,
}

#[derive(Debug, Canonical)]
struct Map {
    #[canonical(with = weir_fingerprint::shared)]
    index: Arc<PatternIndex>,
    output: Output,
}

/// Loads the map, and checks that its values and the default have the right type.
fn check(
    args: &mut Args,
    scope: &ExpressionScope<'_>,
    method: MatchMethod,
    output: Output,
) -> Result<(), String> {
    let name = show(args.str(0).unwrap_or_default()).into_owned();
    let set = scope.patterns.named(&name, true, scope.loader)?;
    let in_file = |message| format!("{message} of file '{name}'");
    match output {
        Output::Number => set.check_values(check_number).map_err(in_file)?,
        Output::Address => set.check_values(check_address).map_err(in_file)?,
        Output::Text | Output::Key | Output::Expanded => {}
    }
    if let (Output::Address, Some(default)) = (output, args.str(1)) {
        let address = parse_address(default).ok_or_else(|| format!("invalid address '{}'", show(default)))?;
        args.set(
            1,
            match address {
                Value::Ipv4(address) => Arg::Ipv4(address),
                Value::Ipv6(address) => Arg::Ipv6(address),
                _ => Arg::Absent,
            },
        );
    }
    set.used_by_map(scope.at);
    let index =
        set.index(method, false, scope.at).map_err(|message| format!("{message} in file '{name}'"))?;
    args.set(0, Arg::Custom(Arc::new(Map { index, output })));
    Ok(())
}

fn check_number(value: &[u8]) -> Result<(), String> {
    parse_number(value).map(drop).ok_or_else(|| format!("unable to parse '{}'", show(value)))
}

fn check_address(value: &[u8]) -> Result<(), String> {
    parse_address(value).map(drop).ok_or_else(|| format!("unable to parse '{}'", show(value)))
}

fn parse_number(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn parse_address(value: &[u8]) -> Option<Value<'static>> {
    parse_ipv4(value).map(Value::Ipv4).or_else(|| parse_ipv6(value).map(Value::Ipv6))
}

fn run<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let map = args.custom::<Map>(0)?;
    let found = map.index.find(&value, |found| map.output.take(found, &value));
    scratch::recycle(value);
    match found {
        Some(found) => found,
        None => match args.get(1) {
            Arg::Str(text) => Some(Value::str(text)),
            Arg::Int(number) => Some(Value::Int(*number)),
            Arg::Ipv4(address) => Some(Value::Ipv4(*address)),
            Arg::Ipv6(address) => Some(Value::Ipv6(*address)),
            _ => None,
        },
    }
}

impl Output {
    /// The result for a matching entry. The text is copied, since the runtime API may change the entry at any time.
    fn take(self, found: PatternMatch<'_>, subject: &Value<'_>) -> Option<Value<'static>> {
        let copy = |bytes: &[u8]| {
            let mut out = scratch::take();
            out.extend_from_slice(bytes);
            Value::Str(Cow::Owned(out))
        };
        match self {
            Output::Key => Some(copy(found.entry.pattern())),
            Output::Text => found.entry.with_value(copy),
            Output::Number => found.entry.with_value(parse_number)?.map(Value::Int),
            Output::Address => found.entry.with_value(parse_address)?,
            Output::Expanded => {
                let (regex, subject) = (found.regex?, subject.bytes()?);
                let mut groups = regex.groups();
                regex.captures(subject, 0, &mut groups)?;
                found.entry.with_value(|template| {
                    let mut out = scratch::take();
                    expand(template, subject, &groups, &mut out);
                    Value::Str(Cow::Owned(out))
                })
            }
        }
    }
}
