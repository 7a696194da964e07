//! The fetches that need only the process, the clock and their own arguments.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use crate::acl::{Acl, Truth};
use crate::args::{Arg, ArgKind, ArgSpec, Args, ArgsCheck};
use crate::context::{Context, FetchCursor, FetchResult};
use crate::error::show;
use crate::fetch::FetchDecl;
use crate::literal::parse_hex;
use crate::sample::SampleType::{Any, Bin, Bool, Int, Ipv4, Ipv6, Method, Str};
use crate::sample::{Sample, SampleFlags, Value};
use crate::scope::ExpressionScope;
use crate::scratch;

/// A fetch that this crate evaluates itself.
#[derive(Debug, Clone, Copy)]
pub struct InternalFetch {
    pub decl: FetchDecl,
    /// Whether the value depends only on the arguments.
    pub constant: bool,
    run: FetchRun,
}

type FetchRun = for<'c> fn(&'c mut dyn Context, &'c Args, &mut FetchCursor) -> FetchResult<'c>;

const fn row(decl: FetchDecl, run: FetchRun) -> InternalFetch {
    InternalFetch { decl, constant: false, run }
}

impl InternalFetch {
    const fn check(mut self, check: ArgsCheck) -> Self {
        self.decl.check = Some(check);
        self
    }

    const fn constant(mut self) -> Self {
        self.constant = true;
        self
    }
}

const ONE_STRING: ArgSpec = ArgSpec::new(1, &[ArgKind::Str]);

/// The limit of names in the `acl` fetch.
const ACL_ARGS: ArgSpec = ArgSpec::new(1, &[ArgKind::Str; 12]);

/// The rows.
pub static FETCHES: &[InternalFetch] = &[
    row(
        FetchDecl::new("acl", Bool, "True if all the named ACLs match, or do not for names after '!'")
            .args(ACL_ARGS),
        acl,
    )
    .check(check_acl),
    row(FetchDecl::new("always_false", Bool, "Always false"), |_, _, _| {
        FetchResult::value(Value::Bool(false))
    })
    .constant(),
    row(FetchDecl::new("always_true", Bool, "Always true"), |_, _, _| FetchResult::value(Value::Bool(true)))
        .constant(),
    row(
        FetchDecl::new("bin", Bin, "The bytes given as hexadecimal digits").args(ONE_STRING),
        |_, args, _| FetchResult::from(args.str(0).map(Value::bin)),
    )
    .constant()
    .check(check_bin),
    row(FetchDecl::new("bool", Bool, "The boolean given").args(ONE_STRING), |_, args, _| {
        FetchResult::from(args.int(0).map(|value| Value::Bool(value != 0)))
    })
    .constant()
    .check(check_bool),
    row(
        FetchDecl::new("date", Int, "The current date in seconds (or ms, us) since 1970, with an offset")
            .args(ArgSpec::new(0, &[ArgKind::Int, ArgKind::Str])),
        date,
    )
    .check(check_date),
    row(FetchDecl::new("date_us", Int, "The microseconds of the current date"), |context, _, _| {
        FetchResult::Sample(Sample::new(Value::Int(context.now().micros.into())).with(SampleFlags::VOLATILE))
    }),
    row(
        FetchDecl::new("env", Str, "The value of an environment variable when the process started")
            .args(ONE_STRING),
        string,
    )
    .constant()
    .check(check_env),
    row(FetchDecl::new("hostname", Str, "The name of this host"), |context, _, _| {
        FetchResult::value(Value::str(context.process().hostname.as_bytes()))
    }),
    row(
        FetchDecl::new("int", Int, "The integer given").args(ArgSpec::new(1, &[ArgKind::Int])),
        |_, args, _| FetchResult::from(args.int(0).map(Value::Int)),
    )
    .constant(),
    row(
        FetchDecl::new("ipv4", Ipv4, "The IPv4 address given").args(ArgSpec::new(1, &[ArgKind::Ipv4])),
        address,
    )
    .constant(),
    row(
        FetchDecl::new("ipv6", Ipv6, "The IPv6 address given").args(ArgSpec::new(1, &[ArgKind::Ipv6])),
        address,
    )
    .constant(),
    row(FetchDecl::new("meth", Method, "The HTTP method given").args(ONE_STRING), |_, args, _| {
        FetchResult::from(args.str(0).map(Value::method))
    })
    .constant(),
    row(FetchDecl::new("nbproc", Int, "The number of processes, always 1"), |_, _, _| {
        FetchResult::value(Value::Int(1))
    }),
    row(FetchDecl::new("pid", Int, "The process identifier"), |context, _, _| {
        FetchResult::value(Value::Int(context.process().pid.into()))
    }),
    row(FetchDecl::new("proc", Int, "The number of the process, always 1"), |_, _, _| {
        FetchResult::value(Value::Int(1))
    }),
    row(FetchDecl::new("quic_enabled", Bool, "Whether QUIC is enabled"), |_, _, _| {
        FetchResult::value(Value::Bool(false))
    }),
    row(
        FetchDecl::new("rand", Int, "A random integer below the given range, or below 2^32")
            .args(ArgSpec::new(0, &[ArgKind::Int])),
        rand,
    ),
    row(
        FetchDecl::new("stopping", Bool, "Whether the process is leaving").valid("YYYYYYYYYYYYYYYYYYYY.Y"),
        |context, _, _| {
            FetchResult::Sample(
                Sample::new(Value::Bool(context.process().stopping)).with(SampleFlags::VOLATILE),
            )
        },
    ),
    row(FetchDecl::new("str", Str, "The string given").args(ONE_STRING), string).constant(),
    row(FetchDecl::new("tgroup", Int, "The number of the thread group, from 1"), |context, _, _| {
        FetchResult::value(Value::Int(context.process().thread_group.into()))
    }),
    row(FetchDecl::new("thread", Int, "The number of the thread, from 0"), |context, _, _| {
        FetchResult::value(Value::Int(context.process().thread.into()))
    }),
    row(FetchDecl::new("uptime", Int, "Seconds since the process started"), |context, _, _| {
        FetchResult::Sample(
            Sample::new(Value::Int(context.process().uptime as i64)).with(SampleFlags::VOLATILE),
        )
    }),
    row(
        FetchDecl::new("uuid", Str, "A new UUID of version 4 (default) or 7")
            .args(ArgSpec::new(0, &[ArgKind::Int])),
        uuid,
    )
    .check(check_uuid),
    row(
        FetchDecl::new("var", Any, "The value of a variable, or the given default")
            .args(ArgSpec::new(1, &[ArgKind::Str, ArgKind::Str])),
        var,
    )
    .check(check_var),
];

pub(crate) fn run<'c>(
    row: u16,
    context: &'c mut dyn Context,
    args: &'c Args,
    cursor: &mut FetchCursor,
) -> FetchResult<'c> {
    (FETCHES[row as usize].run)(context, args, cursor)
}

fn string<'c>(_: &'c mut dyn Context, args: &'c Args, _: &mut FetchCursor) -> FetchResult<'c> {
    FetchResult::from(args.str(0).map(Value::str))
}

fn address<'c>(_: &'c mut dyn Context, args: &'c Args, _: &mut FetchCursor) -> FetchResult<'c> {
    match args.get(0) {
        Arg::Ipv4(address) => FetchResult::value(Value::Ipv4(*address)),
        Arg::Ipv6(address) => FetchResult::value(Value::Ipv6(*address)),
        _ => FetchResult::Missing,
    }
}

fn var<'c>(context: &'c mut dyn Context, args: &'c Args, _: &mut FetchCursor) -> FetchResult<'c> {
    let Some(variable) = args.variable(0) else { return FetchResult::Missing };
    let sample = match context.variable(variable) {
        Some(value) => Some(value),
        None => args.str(1).map(Value::str),
    };
    match sample {
        Some(value) => FetchResult::Sample(Sample::new(value).with(SampleFlags::VOLATILE)),
        None => FetchResult::Missing,
    }
}

fn rand<'c>(context: &'c mut dyn Context, args: &'c Args, _: &mut FetchCursor) -> FetchResult<'c> {
    let random = context.random() >> 32;
    let value = match args.int(0) {
        Some(range) => ((u128::from(random) * range.max(0) as u128) >> 32) as i64,
        None => random as i64,
    };
    FetchResult::Sample(Sample::new(Value::Int(value)).with(SampleFlags::VOLATILE))
}

fn date<'c>(context: &'c mut dyn Context, args: &'c Args, _: &mut FetchCursor) -> FetchResult<'c> {
    let now = context.now();
    let micros: i64 = now.micros.into();
    let value = match args.str(1) {
        Some(b"ms") => now.seconds.saturating_mul(1_000).saturating_add(micros / 1_000),
        Some(b"us") => now.seconds.saturating_mul(1_000_000).saturating_add(micros),
        _ => now.seconds,
    };
    let value = value.saturating_add(args.int(0).unwrap_or(0));
    FetchResult::Sample(Sample::new(Value::Int(value)).with(SampleFlags::VOLATILE))
}

fn uuid<'c>(context: &'c mut dyn Context, args: &'c Args, _: &mut FetchCursor) -> FetchResult<'c> {
    let mut high = context.random();
    let low = (context.random() & !(0b11 << 62)) | (0b10 << 62);
    if args.int(0) == Some(7) {
        let now = context.now();
        let ms = (now.seconds.max(0) as u64).wrapping_mul(1_000).wrapping_add(u64::from(now.micros / 1_000));
        high = (ms << 16) | 0x7000 | (high & 0x0fff);
    } else {
        high = (high & !0xf000) | 0x4000;
    }
    let mut buffer = scratch::take();
    let _ = write!(
        buffer,
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    );
    FetchResult::Sample(Sample::new(Value::Str(Cow::Owned(buffer))).with(SampleFlags::VOLATILE))
}

fn acl<'c>(context: &'c mut dyn Context, args: &'c Args, _: &mut FetchCursor) -> FetchResult<'c> {
    let Arg::Acls(acls) = args.get(0) else { return FetchResult::Missing };
    let tests =
        acls.iter().map(|(negated, acl)| acl.evaluate_from(&mut 0, &mut *context).negated_if(*negated));
    match Truth::all(tests) {
        Truth::True => FetchResult::value(Value::Bool(true)),
        Truth::False => FetchResult::value(Value::Bool(false)),
        Truth::Maybe => FetchResult::Later,
    }
}

fn check_acl(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    let Some(table) = scope.acls else { return Err("no ACLs are available here".into()) };
    let mut acls: Vec<(bool, Arc<Acl>)> = Vec::new();
    for arg in args.iter() {
        let Arg::Str(text) = arg else { continue };
        let (negated, name) = match &**text {
            [b'!', name @ ..] => (true, name),
            name => (false, name),
        };
        let name = show(name);
        acls.push((negated, table.find(&name, scope).map_err(|error| error.message)?));
    }
    *args = Args::new(vec![Arg::Acls(acls.into())]);
    Ok(())
}

fn check_bin(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let bytes = parse_hex(args.str(0).unwrap_or_default())?;
    args.set(0, Arg::Str(bytes.into()));
    Ok(())
}

fn check_bool(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let value = match &*args.str(0).unwrap_or_default().to_ascii_lowercase() {
        b"true" | b"1" => 1,
        b"false" | b"0" => 0,
        _ => return Err("Expects 'true', 'false', '0' or '1'".into()),
    };
    args.set(0, Arg::Int(value));
    Ok(())
}

fn check_date(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.str(1) {
        None | Some(b"s" | b"ms" | b"us") => Ok(()),
        Some(unit) => Err(format!("expects 's', 'ms' or 'us', got '{}'", show(unit))),
    }
}

fn check_env(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    let name = show(args.str(0).unwrap_or_default()).into_owned();
    match scope.loader.environment(&name) {
        Some(value) => args.set(0, Arg::Str(value.into_bytes().into())),
        None => args.set(0, Arg::Absent),
    }
    Ok(())
}

fn check_var(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    let name = show(args.str(0).unwrap_or_default()).into_owned();
    args.set(0, Arg::Variable(scope.variables.intern(&name)?));
    Ok(())
}

fn check_uuid(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.int(0) {
        None | Some(4 | 7) => Ok(()),
        Some(version) => Err(format!("Unsupported UUID version: '{version}'")),
    }
}
