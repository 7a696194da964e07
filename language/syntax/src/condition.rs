//! Conditions of `.if`, `.elif` and `-cc` (manual, section 2.4).
//!
//! ```text
//! condition = conjunction *( "||" conjunction )
//! conjunction = term *( "&&" term )
//! term = *"!" ( integer / "(" condition ")" / predicate [ "(" argument *( "," argument ) ")" ] )
//! ```
//!
//! The whole condition is parsed, so that faults are found even in operands that do not affect the result.

use crate::environment::Environment;
use crate::version::{LANGUAGE_VERSION, ReleaseVersion};
use std::fmt;

/// Facts about the program that a condition may test.
pub trait ConditionContext {
    /// `feature(<name>)`: whether the feature is built in.
    fn has_feature(&self, name: &str) -> bool;

    /// `enabled(<option>)`: whether a run-time option such as `EPOLL` or `SPLICE` is on.
    fn is_enabled(&self, option: &str) -> bool;

    /// The TLS library; `None` when the binary was built without TLS.
    fn tls_library(&self) -> Option<TlsLibrary<'_>> {
        None
    }
}

/// The TLS library of the program, as it names itself: what conditions compare with.
#[derive(Debug, Clone, Copy)]
pub struct TlsLibrary<'a> {
    /// Its name and version when the program was built, e.g. `OpenSSL 1.1.1 (compatible; AWS-LC 1.66.1)`.
    pub built: &'a str,
    /// Its name and version as the program runs, e.g. `AWS-LC 1.66.1`.
    pub running: &'a str,
    /// The OpenSSL version of its interface, encoded like `OPENSSL_VERSION_NUMBER`: a byte each for the major, minor and
    /// fix number from bit 12 on, then four bits apart the patch letter and the status.
    pub openssl: u32,
    /// The version of AWS-LC's own interface, 0 if the library is another one.
    pub awslc_api: u32,
}

impl TlsLibrary<'_> {
    fn is_named(&self, start: &str) -> bool {
        self.built.starts_with(start) || self.running.starts_with(start)
    }

    /// Whether the matching OpenSSL version is `version` or later. An invalid version counts as zero.
    fn openssl_atleast(&self, version: &str) -> bool {
        self.openssl >= openssl_number(version)
    }

    /// Whether the library is AWS-LC and its API version is `version` or later.
    fn awslc_atleast(&self, version: &str) -> bool {
        self.awslc_api > 0 && self.awslc_api >= version.parse().unwrap_or(0)
    }
}

/// `1.1.1k` as `OPENSSL_VERSION_NUMBER` encodes it. The status is 15 (a release) for versions before 3, which have letters. It is 0
/// from version 3 on, where the third number is the patch.
fn openssl_number(text: &str) -> u32 {
    let numbers = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let letter = text[numbers.len()..].chars().next().filter(char::is_ascii_lowercase);
    let mut parts = numbers.split('.').map(|part| part.parse::<u32>().unwrap_or(0).min(255));
    let mut next = || parts.next().unwrap_or(0);
    let (major, minor, fix) = (next(), next(), next());
    if major >= 3 {
        return (major << 28) | (minor << 20) | (fix << 4);
    }
    let letter = letter.map_or(0, |letter| letter as u32 - 'a' as u32 + 1);
    (major << 28) | (minor << 20) | (fix << 12) | (letter << 4)
}

/// A [`ConditionContext`] made of two lists of names.
#[derive(Debug, Clone, Copy, Default)]
pub struct StaticFeatures<'a> {
    /// Features for which `feature()` is true.
    pub features: &'a [&'a str],
    /// Options for which `enabled()` is true, in any case.
    pub enabled: &'a [&'a str],
    /// The TLS library, if the program has one.
    pub tls: Option<TlsLibrary<'a>>,
}

impl ConditionContext for StaticFeatures<'_> {
    fn has_feature(&self, name: &str) -> bool {
        self.features.contains(&name)
    }

    fn is_enabled(&self, option: &str) -> bool {
        self.enabled.iter().any(|enabled| enabled.eq_ignore_ascii_case(option))
    }

    fn tls_library(&self) -> Option<TlsLibrary<'_>> {
        self.tls
    }
}

/// Why a condition is invalid, in HAProxy's words, and the offset of the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError {
    /// The message without a location.
    pub message: String,
    /// Byte offset in the condition.
    pub offset: usize,
}

/// How deep parentheses may nest. Each level costs stack.
pub const MAX_CONDITION_DEPTH: usize = 512;

/// Evaluates a condition. The empty condition is false.
pub fn evaluate_condition(
    text: &str,
    environment: &Environment,
    context: &dyn ConditionContext,
) -> Result<bool, ConditionError> {
    if text.is_empty() {
        return Ok(false);
    }
    let mut parser = ConditionParser { text, at: 0, environment, context };
    let value = parser.condition(0)?;
    parser.skip_spaces();
    match parser.rest().chars().next() {
        None => Ok(value),
        Some(extra) => {
            let message =
                format!("unexpected character '{extra}' at the end of conditional expression '{text}'");
            Err(ConditionError { message, offset: parser.at })
        }
    }
}

struct ConditionParser<'a> {
    text: &'a str,
    at: usize,
    environment: &'a Environment,
    context: &'a dyn ConditionContext,
}

impl<'a> ConditionParser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    /// Skips spaces and then `token`. False, without a change, if anything else follows.
    fn accept(&mut self, token: &str) -> bool {
        let before = self.at;
        self.skip_spaces();
        if self.rest().starts_with(token) {
            self.at += token.len();
            return true;
        }
        self.at = before;
        false
    }

    fn condition(&mut self, depth: usize) -> Result<bool, ConditionError> {
        let mut value = self.conjunction(depth)?;
        while self.accept("||") {
            value |= self.conjunction(depth)?;
        }
        Ok(value)
    }

    fn conjunction(&mut self, depth: usize) -> Result<bool, ConditionError> {
        let mut value = self.term(depth)?;
        while self.accept("&&") {
            value &= self.term(depth)?;
        }
        Ok(value)
    }

    fn term(&mut self, depth: usize) -> Result<bool, ConditionError> {
        self.skip_spaces();
        let start = self.at;
        let mut negated = false;
        while self.accept("!") {
            negated = !negated;
        }
        self.skip_spaces();
        let value = self.bare_term(start, depth)?;
        Ok(value != negated)
    }

    /// Parses a term after its `!`. The term began at `start`.
    fn bare_term(&mut self, start: usize, depth: usize) -> Result<bool, ConditionError> {
        if let Some((value, length)) = integer(self.rest()) {
            self.at += length;
            return Ok(value);
        }
        if self.rest().starts_with('(') {
            if depth >= MAX_CONDITION_DEPTH {
                let message =
                    format!("conditional expression nested deeper than {MAX_CONDITION_DEPTH} levels");
                return Err(ConditionError { message, offset: self.at });
            }
            self.at += 1;
            let value = self.condition(depth + 1)?;
            if self.accept(")") {
                return Ok(value);
            }
            let message = format!("expected ')' after conditional expression '{}'", &self.text[start..]);
            return Err(ConditionError { message, offset: self.at });
        }
        let rest = self.rest();
        let name = &rest[..rest.bytes().take_while(|&b| b.is_ascii_alphanumeric() || b == b'_').count()];
        match PREDICATES.iter().find(|predicate| predicate.name == name) {
            Some(predicate) => self.predicate(predicate, start),
            None => Err(self.unparsable(start)),
        }
    }

    fn unparsable(&self, start: usize) -> ConditionError {
        // At the end of the text, show the operator that needs another term.
        let shown =
            if start < self.text.len() { start } else { self.text.trim_end().len().saturating_sub(2) };
        let shown = (0..=shown).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0);
        let message = format!("unparsable conditional expression '{}'", &self.text[shown..]);
        ConditionError { message, offset: start }
    }

    fn predicate(&mut self, predicate: &Predicate, start: usize) -> Result<bool, ConditionError> {
        self.at += predicate.name.len();
        let arguments = if self.rest().starts_with('(') {
            self.at += 1;
            self.arguments(predicate)?
        } else if self.rest().starts_with(')') && start == 0 {
            return Err(self.unparsable(start));
        } else {
            Vec::new()
        };
        let required = if arguments.is_empty() { 0 } else { predicate.arguments };
        if arguments.len() < predicate.arguments && (required > 0 || predicate.arguments > 1) {
            let message = format!(
                "missing arguments (got {}/{}), type 'string' expected",
                arguments.len(),
                predicate.arguments
            );
            return Err(self.argument_error(predicate, message, start));
        }
        Ok((predicate.holds)(self, &arguments))
    }

    /// Parses the arguments after `(`, and the `)`. Empty parentheses contain one empty argument.
    fn arguments(&mut self, predicate: &Predicate) -> Result<Vec<String>, ConditionError> {
        let mut arguments = Vec::new();
        loop {
            arguments.push(self.argument(predicate)?);
            if arguments.len() < predicate.arguments && self.rest().starts_with(',') {
                self.at += 1;
            } else {
                break;
            }
        }
        let rest = self.rest();
        if rest.starts_with(')') {
            self.at += 1;
            return Ok(arguments);
        }
        if arguments.len() < predicate.arguments {
            return Ok(arguments); // the caller knows a better message
        }
        let message =
            if rest.is_empty() { "expected ')'".into() } else { format!("expected ')' before '{rest}'") };
        Err(self.argument_error(predicate, message, self.at))
    }

    /// Parses one argument, with the second level of quoting: like the first level without `\#`, `\$` and `\xHH`.
    fn argument(&mut self, predicate: &Predicate) -> Result<String, ConditionError> {
        let mut argument = String::new();
        let mut quote: Option<(char, usize)> = None;
        let mut characters = self.rest().char_indices().peekable();
        let mut length = self.rest().len();
        while let Some((offset, character)) = characters.next() {
            match (quote, character) {
                (None, ',' | ')') => {
                    length = offset;
                    break;
                }
                (None, '"' | '\'') => quote = Some((character, offset)),
                (Some((opened, _)), _) if opened == character => quote = None,
                (Some(('\'', _)), _) => argument.push(character),
                (_, '\\') => {
                    let unescaped = match characters.peek().map(|(_, next)| *next) {
                        Some(next @ (' ' | '\\' | '"' | '\'')) => Some(next),
                        Some('n') => Some('\n'),
                        Some('r') => Some('\r'),
                        Some('t') => Some('\t'),
                        _ => None,
                    };
                    if unescaped.is_some() {
                        characters.next();
                    }
                    argument.push(unescaped.unwrap_or('\\'));
                }
                _ => argument.push(character),
            }
        }
        if let Some((_, offset)) = quote {
            return Err(self.argument_error(predicate, "unmatched quote".into(), self.at + offset));
        }
        self.at += length;
        Ok(argument)
    }

    fn argument_error(&self, predicate: &Predicate, message: String, offset: usize) -> ConditionError {
        let name = predicate.name;
        let message = format!("{message} in argument 1 of predicate '{name}' used in conditional expression");
        ConditionError { message, offset }
    }
}

/// Parses a decimal integer at the start of the text. Returns whether it is not zero, and its length. It may exceed every integer type.
fn integer(text: &str) -> Option<(bool, usize)> {
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let digits = &text[sign..sign + digits];
    (!digits.is_empty()).then(|| (digits.bytes().any(|digit| digit != b'0'), sign + digits.len()))
}

/// One predicate: a row.
struct Predicate {
    name: &'static str,
    /// The largest number of arguments. If it is 1, the argument may be missing.
    arguments: usize,
    holds: fn(&ConditionParser<'_>, &[String]) -> bool,
}

const PREDICATES: &[Predicate] = &[
    Predicate {
        name: "defined",
        arguments: 1,
        holds: |parser, arguments| parser.environment.value(first(arguments)).is_some(),
    },
    Predicate {
        name: "feature",
        arguments: 1,
        holds: |parser, arguments| parser.context.has_feature(first(arguments)),
    },
    Predicate {
        name: "enabled",
        arguments: 1,
        holds: |parser, arguments| parser.context.is_enabled(first(arguments)),
    },
    Predicate { name: "streq", arguments: 2, holds: |_, arguments| arguments[0] == arguments[1] },
    Predicate { name: "strneq", arguments: 2, holds: |_, arguments| arguments[0] != arguments[1] },
    Predicate { name: "strstr", arguments: 2, holds: |_, arguments| arguments[0].contains(&arguments[1]) },
    Predicate {
        name: "version_atleast",
        arguments: 1,
        holds: |_, arguments| LANGUAGE_VERSION >= version(first(arguments)),
    },
    Predicate {
        name: "version_before",
        arguments: 1,
        holds: |_, arguments| LANGUAGE_VERSION < version(first(arguments)),
    },
    // The library's version numbers decide: AWS-LC reports the interface of OpenSSL 1.1.1 and its own API number.
    Predicate {
        name: "ssllib_name_startswith",
        arguments: 1,
        holds: |parser, arguments| {
            parser.context.tls_library().is_some_and(|tls| tls.is_named(first(arguments)))
        },
    },
    Predicate {
        name: "openssl_version_atleast",
        arguments: 1,
        holds: |parser, arguments| {
            parser.context.tls_library().is_some_and(|tls| tls.openssl_atleast(first(arguments)))
        },
    },
    Predicate {
        name: "openssl_version_before",
        arguments: 1,
        holds: |parser, arguments| {
            parser.context.tls_library().is_some_and(|tls| !tls.openssl_atleast(first(arguments)))
        },
    },
    Predicate {
        name: "awslc_api_atleast",
        arguments: 1,
        holds: |parser, arguments| {
            parser.context.tls_library().is_some_and(|tls| tls.awslc_atleast(first(arguments)))
        },
    },
    Predicate {
        name: "awslc_api_before",
        arguments: 1,
        holds: |parser, arguments| {
            parser
                .context
                .tls_library()
                .is_some_and(|tls| tls.awslc_api > 0 && !tls.awslc_atleast(first(arguments)))
        },
    },
    Predicate { name: "fips_mode", arguments: 1, holds: |_, _| false },
];

fn first(arguments: &[String]) -> &str {
    arguments.first().map_or("", String::as_str)
}

/// An invalid version counts as zero, as in HAProxy: `version_atleast(v9.0)` is true there.
fn version(text: &str) -> ReleaseVersion {
    ReleaseVersion::parse(text).unwrap_or_default()
}

impl fmt::Display for ConditionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEATURES: StaticFeatures<'_> =
        StaticFeatures { features: &["THREAD", "PCRE2"], enabled: &["EPOLL"], tls: None };

    fn evaluate(text: &str) -> Result<bool, ConditionError> {
        evaluate_condition(text, &Environment::from_iter([("A", "x"), ("E", "")]), &FEATURES)
    }

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }

    #[track_caller]
    fn check_error(text: &str, message: &str) {
        assert_eq!(evaluate(text).map_err(|error| error.message), Err(message.to_string()), "{text}");
    }

    #[test]
    fn evaluates_integers_and_operators() {
        for text in ["1", "01", "-1", "+1", " 1 ", "99999999999999999999", "!0", "!!1", "! (0)", "( 1 )"] {
            check(text, true);
        }
        for text in ["", "0", "00", "-0", "! 1", "((0))"] {
            check(text, false);
        }
        check("1 || 0 && 0", true);
        check("0 && 0 || 1", true);
        check("1&&1", true);
        check("(1)&&(0)||(1)", true);
        check("(1 || 0) && 0", false);
    }

    #[test]
    fn evaluates_condition_predicates() {
        check("defined(A)", true);
        check("defined(E)", true);
        check("defined(B)", false);
        check("defined", false);
        check("feature(THREAD) && !feature(OPENSSL)", true);
        check("enabled(epoll)", true);
        check("enabled(KQUEUE)", false);
        check("streq(a,a)", true);
        check("streq(\"a b\",'a b')", true);
        check("streq(a , a)", false);
        check("streq((,()", true);
        check("streq(,)", true);
        check("strneq(a,b)", true);
        check("strstr(abc,b)", true);
        check("strstr(abc,d)", false);
        check("ssllib_name_startswith(OpenSSL)", false);
        check("openssl_version_atleast(1.0.0)", false);
    }

    #[test]
    fn compares_the_names_and_versions_of_tls_libraries() {
        let tls = Some(TlsLibrary {
            built: "OpenSSL 1.1.1 (compatible; AWS-LC 1.66.1)",
            running: "AWS-LC 1.66.1",
            openssl: 0x1010_107f,
            awslc_api: 37,
        });
        let context = StaticFeatures { tls, ..FEATURES };
        for (text, expected) in [
            ("ssllib_name_startswith(OpenSSL)", true),
            ("ssllib_name_startswith(AWS-LC)", true),
            ("ssllib_name_startswith(LibreSSL)", false),
            ("openssl_version_atleast(1.0.2)", true),
            ("openssl_version_atleast(1.1.1)", true),
            ("openssl_version_atleast(1.1.1g)", true),
            ("openssl_version_atleast(1.1.1h)", false),
            ("openssl_version_atleast(1.1.2)", false),
            ("openssl_version_atleast(3.0.0)", false),
            ("openssl_version_atleast(x)", true),
            ("openssl_version_before(1.1.1)", false),
            ("openssl_version_before(3)", true),
            ("awslc_api_atleast(37)", true),
            ("awslc_api_atleast(38)", false),
            ("awslc_api_before(37)", false),
            ("awslc_api_before(38)", true),
        ] {
            assert_eq!(evaluate_condition(text, &Environment::new(), &context), Ok(expected), "{text}");
        }
        let openssl = tls.map(|tls| TlsLibrary { awslc_api: 0, openssl: 0x3000_0130, ..tls });
        let context = StaticFeatures { tls: openssl, ..FEATURES };
        for (text, expected) in [
            ("openssl_version_atleast(3.0.19)", true),
            ("openssl_version_atleast(3.0.20)", false),
            ("openssl_version_atleast(1.1.1w)", true),
            ("awslc_api_atleast(1)", false),
            ("awslc_api_before(99)", false),
        ] {
            assert_eq!(evaluate_condition(text, &Environment::new(), &context), Ok(expected), "{text}");
        }
    }

    #[test]
    fn accepts_version_3_5_as_the_language_version() {
        for text in ["2.4", "3.5-dev1", "3.5-dev99", "3.5", "v9.0", "x", ""] {
            check(&format!("version_atleast({text})"), true);
            check(&format!("version_before({text})"), false);
        }
        check("version_before(3.6-dev1)", true);
        check("version_atleast(4)", false);
    }

    #[test]
    fn condition_errors_have_haproxys_messages() {
        check_error("foo(1)", "unparsable conditional expression 'foo(1)'");
        check_error("200rrr", "unexpected character 'r' at the end of conditional expression '200rrr'");
        check_error("0 && foo(1)", "unparsable conditional expression 'foo(1)'");
        check_error("!foo", "unparsable conditional expression '!foo'");
        check_error("foo && 1", "unparsable conditional expression 'foo && 1'");
        check_error("1 && && 1", "unparsable conditional expression '&& 1'");
        check_error("1 &&", "unparsable conditional expression '&&'");
        check_error("()", "unparsable conditional expression ')'");
        check_error("(1", "expected ')' after conditional expression '(1'");
        check_error("!(1", "expected ')' after conditional expression '!(1'");
        check_error("(1 x)", "expected ')' after conditional expression '(1 x)'");
        check_error("1 1", "unexpected character '1' at the end of conditional expression '1 1'");
        check_error("streq)", "unparsable conditional expression 'streq)'");
        let tail = "in argument 1 of predicate";
        check_error(
            "defined(A,B)",
            &format!("expected ')' before ',B)' {tail} 'defined' used in conditional expression"),
        );
        check_error(
            "feature(THREAD",
            &format!("expected ')' {tail} 'feature' used in conditional expression"),
        );
        for text in ["streq(a)", "streq(", "streq(a"] {
            check_error(
                text,
                &format!(
                    "missing arguments (got 1/2), type 'string' expected {tail} 'streq' used in conditional expression"
                ),
            );
        }
    }

    #[test]
    fn limits_the_nesting_depth_of_conditions() {
        let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        check(&nested(MAX_CONDITION_DEPTH), true);
        assert!(evaluate(&nested(MAX_CONDITION_DEPTH + 1)).is_err());
        assert!(evaluate(&"(".repeat(1 << 16)).is_err());
        check(&format!("{}1", "!".repeat(1 << 16)), true);
    }

    #[test]
    fn condition_errors_have_the_offset_of_the_fault() {
        assert_eq!(evaluate("1 2").unwrap_err().offset, 2);
        assert_eq!(evaluate("1 && foo").unwrap_err().offset, 5);
        assert_eq!(evaluate("défini").unwrap_err().offset, 0);
    }
}
