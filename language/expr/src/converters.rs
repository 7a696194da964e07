//! Converters as rows: each turns one value into another.

use weir_syntax::did_you_mean;

use crate::args::{Arg, ArgSpec, Args, ArgsCheck};
use crate::bound::AtBound;
use crate::context::Context;
use crate::sample::{SampleType, Value};
use crate::script_names::ScriptName;

mod arith;
mod codec;
mod dates;
mod fix;
pub mod hash;
mod json;
mod known;
mod map;
mod mqtt;
mod net;
mod protobuf;
mod signed;
mod table;
mod text;
mod token;
mod world;
mod x509;

/// A converter.
#[derive(Debug, Clone, Copy)]
pub struct Converter {
    pub name: &'static str,
    pub args: ArgSpec,
    /// The type to which the input is cast.
    pub input: SampleType,
    /// The type of the result.
    pub output: SampleType,
    /// Checks the parsed arguments. It may replace them by a prepared form.
    pub check: Option<ArgsCheck>,
    pub run: Run,
    /// Whether the result is final even if the input may still grow. The converter returns no result until it is certain.
    pub decides: bool,
    /// The treatment of a result that exceeds the bound.
    pub at_bound: AtBound,
    /// The help text in one line.
    pub help: &'static str,
}

/// A conversion that needs only the value.
pub type Pure = for<'a> fn(Value<'a>, &'a Args) -> Option<Value<'a>>;

/// A conversion that reads or changes the context.
pub type WithContext = fn(Value<'static>, &Args, &mut dyn Context) -> Option<Value<'static>>;

/// The function of a converter, by its parameters.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// Needs only the value.
    Pure(Pure),
    /// As `Pure`, but an argument may be a variable. The caller replaces it by its value.
    Resolved(Pure),
    /// An operation of two integers; the argument may be a variable.
    Operand(fn(i64, i64) -> i64),
    /// Reads or changes the context.
    Context(WithContext),
    /// A function of a script.
    Script(ScriptName),
}

impl Converter {
    /// A converter without arguments.
    pub(crate) const fn new(
        name: &'static str,
        input: SampleType,
        output: SampleType,
        run: Run,
        help: &'static str,
    ) -> Self {
        Converter {
            name,
            args: ArgSpec::NONE,
            input,
            output,
            check: None,
            run,
            decides: false,
            at_bound: AtBound::CUT,
            help,
        }
    }

    pub(crate) const fn args(mut self, required: usize, kinds: &'static [crate::args::ArgKind]) -> Self {
        self.args = ArgSpec::new(required, kinds);
        self
    }

    pub(crate) const fn check(mut self, check: ArgsCheck) -> Self {
        self.check = Some(check);
        self
    }

    /// See [`Converter::decides`].
    pub(crate) const fn decides(mut self) -> Self {
        self.decides = true;
        self
    }

    /// See [`Converter::at_bound`].
    pub(crate) const fn at_bound(mut self, at_bound: AtBound) -> Self {
        self.at_bound = at_bound;
        self
    }

    /// True if the call needs no context.
    pub(crate) fn is_pure(&self, args: &Args) -> bool {
        match self.run {
            Run::Pure(_) => true,
            Run::Resolved(_) | Run::Operand(_) => !args.iter().any(|arg| matches!(arg, Arg::Variable(_))),
            Run::Context(_) | Run::Script(_) => false,
        }
    }

    /// Runs a call for which [`Converter::is_pure`] holds.
    pub(crate) fn run_pure<'a>(&self, value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
        match self.run {
            Run::Pure(run) | Run::Resolved(run) => run(value, args),
            Run::Operand(run) => match (value, args.get(0)) {
                (Value::Int(left), Arg::Int(right)) => Some(Value::Int(run(left, *right))),
                _ => None,
            },
            Run::Context(_) | Run::Script(_) => None,
        }
    }

    /// Runs any call.
    pub(crate) fn run_with(
        &self,
        value: Value<'static>,
        args: &Args,
        context: &mut dyn Context,
    ) -> Option<Value<'static>> {
        match self.run {
            Run::Context(run) => run(value, args, context),
            Run::Script(name) => context.script_converter(name, value, args),
            _ if self.is_pure(args) => self.run_pure(value, args).map(Value::into_owned),
            Run::Operand(run) => {
                let variable = args.variable(0)?;
                let right = context.variable(variable)?.cast(SampleType::Int)?;
                match (value, right) {
                    (Value::Int(left), Value::Int(right)) => Some(Value::Int(run(left, right))),
                    _ => None,
                }
            }
            Run::Pure(run) | Run::Resolved(run) => {
                let mut resolved = args.clone();
                for index in 0..args.len() {
                    if let Arg::Variable(variable) = args.get(index) {
                        let arg = match context.variable(*variable)? {
                            Value::Int(value) => Arg::Int(value),
                            value => match value.cast(SampleType::Bin)? {
                                Value::Bin(bytes) => Arg::Str((&*bytes).into()),
                                _ => return None,
                            },
                        };
                        resolved.set(index, arg);
                    }
                }
                run(value, &resolved).map(Value::into_owned)
            }
        }
    }
}

/// The tables of converters, by subject.
const TABLES: &[&[Converter]] = &[
    arith::ROWS,
    codec::ROWS,
    dates::ROWS,
    fix::ROWS,
    hash::ROWS,
    json::ROWS,
    map::ROWS,
    mqtt::ROWS,
    net::ROWS,
    protobuf::ROWS,
    signed::ROWS,
    table::ROWS,
    token::ROWS,
    text::ROWS,
    world::ROWS,
    x509::ROWS,
];

/// Every converter, by name.
pub fn all() -> Vec<&'static Converter> {
    let mut list: Vec<&'static Converter> = TABLES.iter().copied().flatten().collect();
    list.sort_by_key(|row| row.name);
    list
}

/// The converter with this name.
pub fn find(name: &str) -> Option<&'static Converter> {
    use std::sync::LazyLock;
    static BY_NAME: LazyLock<hashbrown::HashMap<&'static str, &'static Converter>> =
        LazyLock::new(|| TABLES.iter().copied().flatten().map(|row| (row.name, row)).collect());
    BY_NAME.get(name).copied()
}

/// The names of all converters of the language, sorted, including those that are not implemented.
pub fn names() -> &'static [&'static str] {
    known::NAMES
}

/// Whether the language has a converter with this name, implemented or not.
pub(crate) fn is_known(name: &str) -> bool {
    known::NAMES.binary_search(&name).is_ok()
}

/// The known converter closest to `name`.
pub(crate) fn closest(name: &str) -> Option<&'static str> {
    did_you_mean(name, known::NAMES.iter().copied())
}
