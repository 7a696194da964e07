//! Arithmetic on integers. Results saturate at the limits of the type.

use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::sample::SampleType::{Bool, Int};
use crate::sample::Value;
use crate::scope::ExpressionScope;

/// A row for an operation on one integer.
macro_rules! unary {
    ($name:literal, $output:ident, $operation:expr, $help:literal) => {{
        fn run<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
            let operation: fn(i64) -> Value<'static> = $operation;
            match value {
                Value::Int(value) => Some(operation(value)),
                _ => None,
            }
        }
        Converter::new($name, Int, $output, Run::Pure(run), $help)
    }};
}

pub(super) const ROWS: &[Converter] = &[
    operation("add", i64::saturating_add, "Adds a number or a variable"),
    operation("and", |left, right| left & right, "Bitwise AND with a number or a variable"),
    operation("div", div, "Divides by a number or a variable; by zero gives the largest number"),
    operation(
        "mod",
        |left, right| left.checked_rem(right).unwrap_or(0),
        "Remainder of a division; by zero gives zero",
    ),
    operation("mul", i64::saturating_mul, "Multiplies by a number or a variable"),
    operation("or", |left, right| left | right, "Bitwise OR with a number or a variable"),
    operation("sub", i64::saturating_sub, "Subtracts a number or a variable"),
    operation("xor", |left, right| left ^ right, "Bitwise exclusive OR with a number or a variable"),
    unary!("cpl", Int, |value| Value::Int(!value), "Flips all bits"),
    unary!("neg", Int, |value| Value::Int(value.saturating_neg()), "Changes the sign"),
    unary!("bool", Bool, |value| Value::Bool(value != 0), "True if not zero"),
    unary!("not", Bool, |value| Value::Bool(value == 0), "True if zero"),
    unary!("even", Bool, |value| Value::Bool(value & 1 == 0), "True if even"),
    unary!("odd", Bool, |value| Value::Bool(value & 1 == 1), "True if odd"),
];

const fn operation(name: &'static str, run: fn(i64, i64) -> i64, help: &'static str) -> Converter {
    Converter::new(name, Int, Int, Run::Operand(run), help).args(1, &[ArgKind::Str]).check(number_or_variable)
}

fn div(left: i64, right: i64) -> i64 {
    if right == 0 { i64::MAX } else { left.saturating_div(right) }
}

/// The argument of an operation: a number, or a variable that holds one.
fn number_or_variable(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    let text = std::str::from_utf8(args.str(0).unwrap_or_default()).unwrap_or_default();
    let arg = match text.parse() {
        Ok(number) => Arg::Int(number),
        Err(_) => {
            Arg::Variable(scope.variables.intern(text).map_err(|_| "expects an integer or a variable name")?)
        }
    };
    args.set(0, arg);
    Ok(())
}
