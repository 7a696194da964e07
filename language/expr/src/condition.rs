//! Conditions after `if` and `unless`.

use std::sync::Arc;

use weir_fingerprint::{Canonical, FormEncoder};

use crate::acl::{Acl, AclExpr, Truth};
use crate::args::Reference;
use crate::context::Context;
use crate::error::{ParseError, show};
use crate::fetch::{EvaluationPoints, FetchDecl, Needs};
use crate::scope::ExpressionScope;

/// Alternatives (`or`), each a list of tests that must all match.
#[derive(Debug, Clone, Canonical)]
pub struct Condition {
    unless: bool,
    alternatives: Box<[Box<[Term]>]>,
}

#[derive(Debug, Clone, Canonical)]
struct Term {
    negated: bool,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    Named(Arc<Acl>),
    Anonymous(Arc<AclExpr>),
}

/// A named ACL of one line is equal to that line as an anonymous test.
impl Canonical for Test {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        match self {
            Test::Named(acl) => out.shared(acl),
            Test::Anonymous(line) => out.hashed(std::slice::from_ref(&**line)),
        }
    }
}

/// The position where the evaluation of a condition was suspended. Earlier tests are not evaluated again, so that their side effects
/// happen once.
#[derive(Clone, Copy, Debug)]
pub struct Suspension {
    alternative: u32,
    term: u32,
    /// The line of a named ACL.
    line: u32,
    /// The truth of the earlier alternatives.
    truth: Truth,
}

impl Suspension {
    /// The start of a condition.
    pub const BEGINNING: Suspension = Suspension { alternative: 0, term: 0, line: 0, truth: Truth::False };
}

impl Condition {
    /// Parses from the word `if` or `unless` at `words[start]` to the end of the line.
    pub fn parse(
        words: &[&[u8]],
        start: usize,
        scope: &ExpressionScope<'_>,
    ) -> Result<Condition, ParseError> {
        let unless = match words.get(start) {
            Some(&b"if") => false,
            Some(&b"unless") => true,
            Some(word) => {
                let message = format!(
                    "expects either 'if' or 'unless' followed by a condition but found '{}'",
                    show(word)
                );
                return Err(ParseError::new(start, message));
            }
            None => {
                let message = "expects either 'if' or 'unless' followed by a condition";
                return Err(ParseError::new(start, message));
            }
        };
        let mut alternatives = Vec::new();
        let mut terms = Vec::new();
        let mut at = start + 1;
        while let Some(word) = words.get(at) {
            match **word {
                [b'o' | b'O', b'r' | b'R'] | [b'|', b'|'] => {
                    close(&mut alternatives, &mut terms, at, scope);
                    at += 1;
                }
                _ => terms.push(Term::parse(words, &mut at, scope)?),
            }
        }
        close(&mut alternatives, &mut terms, at, scope);
        Ok(Condition { unless, alternatives: alternatives.into() })
    }

    /// True if a word begins a condition.
    pub fn begins(word: &[u8]) -> bool {
        matches!(word, b"if" | b"unless")
    }

    /// Evaluates the condition. The terms of an alternative combine as in [`Truth::all`].
    pub fn evaluate(&self, context: &mut dyn Context) -> Truth {
        self.resume(Suspension::BEGINNING, context).unwrap_or(Truth::Maybe)
    }

    /// Resumes the evaluation where it was suspended.
    ///
    /// # Errors
    /// The position to resume at, if the context [is suspended](Context::is_suspended).
    pub fn resume(&self, from: Suspension, context: &mut dyn Context) -> Result<Truth, Suspension> {
        let mut at = from;
        while let Some(terms) = self.alternatives.get(at.alternative as usize) {
            let mut all = Truth::True;
            while all == Truth::True
                && let Some(term) = terms.get(at.term as usize)
            {
                all = term.evaluate(&mut at.line, &mut *context);
                if all == Truth::Maybe && context.is_suspended() {
                    return Err(at);
                }
                (at.term, at.line) = (at.term + 1, 0);
            }
            at.truth = at.truth.or(all);
            if at.truth == Truth::True {
                break;
            }
            at = Suspension { alternative: at.alternative + 1, term: 0, line: 0, ..at };
        }
        Ok(at.truth.negated_if(self.unless))
    }

    /// The first test that can never match at the given points: its name (empty for an anonymous one) and the keyword at fault. Call it
    /// after the ACL table was sealed.
    pub fn conflict(&self, points: EvaluationPoints) -> Option<(&str, &'static str)> {
        self.alternatives.iter().flatten().find_map(|term| {
            let (name, lines) = match &term.test {
                Test::Named(acl) => (acl.name(), acl.lines()),
                Test::Anonymous(line) => ("", std::slice::from_ref(&**line)),
            };
            let wrong = lines.iter().find(|line| !line.expr().points().intersects(points))?;
            Some((name, wrong.keyword()))
        })
    }

    /// True if some test needs HTTP.
    pub fn needs_http(&self) -> bool {
        self.has_fetch(|fetch| fetch.needs.is_http())
    }

    /// Whether a test needs one of `needs`.
    pub fn needs(&self, needs: Needs) -> bool {
        self.has_fetch(|fetch| fetch.needs.intersects(needs))
    }

    /// Whether a test reads the raw bytes of a connection, which HTTP does not keep. Call it after the ACL table was sealed.
    pub fn needs_bytes(&self) -> bool {
        self.has_fetch(FetchDecl::needs_bytes)
    }

    fn has_fetch(&self, is_wanted: impl Fn(&FetchDecl) -> bool) -> bool {
        self.alternatives.iter().flatten().any(|term| match &term.test {
            Test::Named(acl) => acl.lines().iter().any(|line| is_wanted(line.expr().decl())),
            Test::Anonymous(line) => is_wanted(line.expr().decl()),
        })
    }

    /// Calls `visit` with every reference in anonymous tests. References of named ACLs belong to their table.
    pub fn visit_references(&self, visit: &mut dyn FnMut(&Reference)) {
        for term in self.alternatives.iter().flatten() {
            if let Test::Anonymous(line) = &term.test {
                line.expr().visit_references(visit);
            }
        }
    }

    /// Calls `visit` with every reference, including references in named ACLs. Call it after the ACL table was sealed.
    pub fn visit_all_references(&self, visit: &mut dyn FnMut(&Reference)) {
        for term in self.alternatives.iter().flatten() {
            let lines = match &term.test {
                Test::Named(acl) => acl.lines(),
                Test::Anonymous(line) => std::slice::from_ref(&**line),
            };
            lines.iter().for_each(|line| line.expr().visit_references(visit));
        }
    }
}

/// Ends an alternative. An empty one never matches. HAProxy accepts it, so it only causes a warning.
fn close(alternatives: &mut Vec<Box<[Term]>>, terms: &mut Vec<Term>, at: usize, scope: &ExpressionScope<'_>) {
    if terms.is_empty() {
        scope
            .warnings
            .push(ParseError::new(at, "the condition has an empty alternative, which never matches"));
    } else {
        alternatives.push(std::mem::take(terms).into());
    }
}

impl Term {
    fn parse(words: &[&[u8]], at: &mut usize, scope: &ExpressionScope<'_>) -> Result<Term, ParseError> {
        let mut negated = false;
        let mut word = words[*at];
        // The negation may be a word of its own, and may be repeated.
        while let [b'!', rest @ ..] = word {
            negated = !negated;
            word = rest;
            if word.is_empty() {
                *at += 1;
                word = words.get(*at).ok_or_else(|| ParseError::new(*at, "nothing follows '!'"))?;
            }
        }
        if word == b"{" {
            let begin = *at + 1;
            let Some(length) = words[begin..].iter().position(|word| *word == b"}") else {
                return Err(ParseError::new(*at, "missing closing '}' in condition"));
            };
            let line = AclExpr::parse(words, begin, begin + length, scope)?;
            *at = begin + length + 1;
            return Ok(Term { negated, test: Test::Anonymous(Arc::new(line)) });
        }
        let Some(table) = scope.acls else {
            return Err(ParseError::new(*at, "named ACLs cannot be used here"));
        };
        let acl = table.find(&show(word), scope).map_err(|error| ParseError { word: *at, ..error })?;
        *at += 1;
        Ok(Term { negated, test: Test::Named(acl) })
    }

    fn evaluate(&self, line: &mut u32, context: &mut dyn Context) -> Truth {
        let truth = match &self.test {
            Test::Named(acl) => acl.evaluate_from(line, context),
            Test::Anonymous(line) => line.evaluate(context),
        };
        truth.negated_if(self.negated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::EvaluationPoint;
    use crate::testing::{Fixture, TestContext};

    fn truth(fixture: &Fixture, text: &str) -> Result<Truth, ParseError> {
        let condition = fixture.condition(text)?;
        fixture.acls.seal();
        Ok(condition.evaluate(&mut TestContext::default()))
    }

    /// Results of the packaged HAProxy 2.6 for these conditions.
    #[test]
    fn conditions_give_haproxys_results() {
        for line in include_str!("../tests/data/conditions.tsv").lines() {
            let (text, expected) = line.split_once('\t').unwrap();
            let result = match truth(&Fixture::new(), &format!("if {text}")) {
                Ok(Truth::True) => "yes".into(),
                Ok(Truth::False) => "no".into(),
                Ok(Truth::Maybe) => "maybe".into(),
                Err(error) => format!("error: {}", error.message),
            };
            assert_eq!(result, expected, "{text}");
        }
    }

    #[track_caller]
    fn check(text: &str, expected: Truth) {
        assert_eq!(truth(&Fixture::new(), text).unwrap(), expected, "{text}");
    }

    #[test]
    fn conditions_use_three_valued_logic() {
        let (yes, no, maybe) = (Truth::True, Truth::False, Truth::Maybe);
        check("if { req.len gt 5 }", maybe);
        check("unless { req.len gt 5 }", maybe);
        check("if !{ req.len gt 5 }", maybe);
        check("if { req.len gt 5 } FALSE", maybe);
        check("if FALSE { req.len gt 5 }", no);
        check("if { req.len gt 5 } FALSE or FALSE", maybe);
        check("if { req.len gt 5 } or TRUE", yes);
        check("if { req.len gt 5 } TRUE", maybe);
        check("unless { req.len gt 5 } or TRUE", no);
        check("if { path /path }", yes);
        check("if { path /other }", maybe);
        check("if", no);
        check("unless", yes);
        check("if TRUE or", yes);
        check("if FALSE || TRUE", yes);
        check("if FALSE OR TRUE", yes);
        check("if FALSE Or FALSE oR TRUE", yes);
    }

    #[test]
    fn a_condition_tests_every_value_of_a_fetch() {
        check("if { req.hdr(a;b;c) b }", Truth::True);
        check("if { req.hdr(a;b;c) c }", Truth::True);
        check("if { req.hdr(a;b;c) d }", Truth::False);
        check("if { hdr_beg(ax;by) b }", Truth::True);
        check("if { hdr_beg(ax;by),lower b }", Truth::False);
    }

    #[test]
    fn later_acl_lines_of_one_name_are_alternatives() {
        let fixture = Fixture::new();
        let line = |text: &str| {
            let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
            fixture.acls.parse(&words, 0, &fixture.scope(), &mut |_| ())
        };
        line("a str(x) y").unwrap();
        let condition = fixture.condition("if a").unwrap();
        line("a str(x) x").unwrap();
        fixture.acls.seal();
        assert_eq!(condition.evaluate(&mut TestContext::default()), Truth::True);
        let error = fixture.condition("if METHGET").unwrap_err();
        assert_eq!((error.word, error.suggestion.as_deref()), (1, Some("METH_GET")));
        assert!(
            line("d@ src 1").unwrap_err().message.contains("character '@' is not permitted in acl name 'd@'")
        );
        assert!(line("or always_true").is_err());
    }

    #[test]
    fn acl_flags_apply_to_the_files_after_them() {
        let fixture = Fixture::new().file("exact", "One\n").file("loose", "Two\n");
        let test = |text: &str| {
            let condition =
                fixture.condition(&format!("if {{ {text} -f exact -i -f loose three }}")).unwrap();
            condition.evaluate(&mut TestContext::default())
        };
        assert_eq!(test("str(One)"), Truth::True);
        assert_eq!(test("str(one)"), Truth::False);
        assert_eq!(test("str(TWO)"), Truth::True);
        assert_eq!(test("str(THREE)"), Truth::True);
    }

    #[test]
    fn fetches_unavailable_in_a_rule_set_are_reported_as_conflicts() {
        let fixture = Fixture::new();
        let condition = fixture.condition("if TRUE { res.hdr -m found }").unwrap();
        fixture.acls.seal();
        assert_eq!(condition.conflict(EvaluationPoint::FrontendRequestHeader.into()), Some(("", "res.hdr")));
        assert_eq!(condition.conflict(EvaluationPoint::BackendResponseHeader.into()), None);
        // The conflict names the keyword on the line, not its fetch.
        for (test, keyword) in [("shdr_beg b", "shdr_beg"), ("res.hdr -m beg b", "res.hdr")] {
            let condition = fixture.condition(&format!("if {{ {test} }}")).unwrap();
            let conflict = condition.conflict(EvaluationPoint::FrontendRequestHeader.into());
            assert_eq!(conflict, Some(("", keyword)));
        }
        assert!(condition.needs_http());
    }

    #[test]
    fn warns_about_an_acl_without_patterns() {
        let fixture = Fixture::new();
        fixture.condition("if { str(a) }").unwrap();
        assert_eq!(fixture.warnings.take().len(), 1);
        fixture.condition("if { str(a) -- } { str(a) -m found }").unwrap();
        assert_eq!(fixture.warnings.take().len(), 0);
    }
}
