//! Tests from the manual: results of converters and of matches, at and beyond the bounds.
//!
//! `tests/data/manual.tsv` has a line for each case, under the section of the manual that it belongs to: the expression, the result of
//! HAProxy 3.2, and, if weir differs, weir's result and the reason. `-` means no value, `error` means a fault of the configuration.

use hashbrown::HashMap;

use crate::acl::Truth;
use crate::context::{Context, FetchResult};
use crate::sample::Value;
use crate::testing::{Fixture, TestContext};
use crate::variables::SetCondition;

const FILES: [(&str, &str); 10] = [
    (
        "values.map",
        "abc one\n# comment\nab two words\n  xabc   three\n/a path\nb be\n1 number\nh.example host\n",
    ),
    ("regs.map", "^x(.*)y$ got-\\1\n^/(.*)/ dir-\\1\n(a)(b) \\2\\1\n1 one\n"),
    ("ips.map", "10.0.0.0/8 ten\n10.1.0.0/16 ten-one\n127.0.0.1 local\n2001:db8::/32 doc\n::1 six\n"),
    ("ipnum.map", "10.0.0.0/8 10\n127.0.0.0/8 -127\n"),
    ("ints.map", "5 five\n42 forty-two\n0 zero\n10:20 range\n"),
    ("numbers.map", "abc 42\na -1\n/a 7\n1 11\n"),
    ("addresses.map", "abc 1.2.3.4\na 10.0.0.7\n/a 2001:db8::7\n"),
    ("empty.map", ""),
    ("novalue.map", "k\nk2   \n"),
    ("badnum.map", "a x\n"),
];

const VARIABLES: [(&str, Value<'static>); 8] = [
    ("txn.s", Value::str(b"abc")),
    ("txn.i", Value::Int(5)),
    ("txn.neg", Value::Int(-3)),
    ("txn.b", Value::Bin(std::borrow::Cow::Borrowed(b"\x00\xff\x10"))),
    ("txn.ip", Value::Ipv4(std::net::Ipv4Addr::new(1, 2, 3, 4))),
    ("txn.key", Value::str(b"my-secret")),
    ("txn.num", Value::str(b"12")),
    ("txn.empty", Value::str(b"")),
];

/// weir's result for an expression.
fn made(fixture: &Fixture, expression: &str) -> String {
    let Ok(parsed) = fixture.parse(expression) else { return "error".into() };
    let mut context = TestContext::default();
    set_variables(fixture, &mut context);
    match parsed.evaluate_str(&mut context) {
        FetchResult::Sample(sample) => sample.value.bytes().unwrap_or_default().escape_ascii().to_string(),
        FetchResult::Missing | FetchResult::Later => "-".into(),
    }
}

/// Whether a condition with this test is true.
fn holds(fixture: &Fixture, test: &str) -> String {
    let Ok(condition) = fixture.condition(&format!("if {test}")) else { return "error".into() };
    fixture.acls.seal();
    let mut context = TestContext::default();
    set_variables(fixture, &mut context);
    match condition.evaluate(&mut context) {
        Truth::True => "yes".into(),
        Truth::False | Truth::Maybe => "no".into(),
    }
}

fn set_variables(fixture: &Fixture, context: &mut TestContext) {
    for (name, value) in VARIABLES {
        let variable = fixture.variables.intern(name).unwrap();
        assert!(context.set_variable(variable, value, SetCondition::ALWAYS));
    }
}

fn fixture() -> Fixture {
    FILES.iter().fold(Fixture::new(), |fixture, (name, content)| fixture.file(name, content))
}

/// Compares each line of a table with the result of `look`. Returns the number of cases of each section.
#[track_caller]
fn walk(table: &str, look: impl Fn(&str) -> String) -> HashMap<&str, usize> {
    let (mut section, mut faults, mut cases) = ("", Vec::new(), HashMap::<&str, usize>::new());
    for line in table.lines() {
        if let Some(name) = line.strip_prefix("# ") {
            section = name;
            continue;
        }
        let parts: Vec<&str> = line.split('\t').collect();
        let expected = match parts[..] {
            [_, expected] => expected,
            // A line with a reason must still differ from HAProxy.
            [_, reference, ours, reason] if reference != ours && !reason.is_empty() => ours,
            _ => panic!("{line:?} is not a case"),
        };
        let found = look(parts[0]);
        if found != expected {
            faults.push(format!("{section}: {}\n  expected {expected}\n  found    {found}", parts[0]));
        }
        *cases.entry(section).or_default() += 1;
    }
    assert!(faults.is_empty(), "{} of {cases:?}:\n{}", faults.len(), faults.join("\n"));
    cases
}

#[test]
fn converters_return_the_manuals_results() {
    let fixture = fixture();
    let cases = walk(include_str!("../tests/data/manual.tsv"), |expression| made(&fixture, expression));
    assert!(cases.len() > 20, "the table has lost its sections");
}

#[test]
fn conditions_return_the_manuals_results() {
    // Each test needs a separate fixture, since identifiers of lists are unique.
    let table = include_str!("../tests/data/manual_conditions.tsv");
    let cases = walk(table, |test| holds(&fixture(), test));
    assert!(cases.values().sum::<usize>() > 100, "the table has lost its cases");
}
