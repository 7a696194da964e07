//! Conditions: what follows `if` and `unless`.

use std::sync::Arc;

use crate::acl::{Acl, AclExpr, Verdict};
use crate::args::Reference;
use crate::context::Context;
use crate::error::{ParseError, show};
use crate::fetch::Places;
use crate::scope::Scope;

/// Alternatives (`or`) of tests that must all hold.
#[derive(Debug, Clone)]
pub struct Condition {
    unless: bool,
    alternatives: Box<[Box<[Term]>]>,
}

#[derive(Debug, Clone)]
struct Term {
    negated: bool,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    Named(Arc<Acl>),
    Anonymous(Arc<AclExpr>),
}

impl Condition {
    /// Parses from the word `if` or `unless` at `words[at]` to the end of the line.
    pub fn parse(words: &[&[u8]], at: usize, scope: &Scope<'_>) -> Result<Condition, ParseError> {
        let unless = match words.get(at) {
            Some(&b"if") => false,
            Some(&b"unless") => true,
            Some(word) => {
                return Err(ParseError::new(at, format!("expects 'if' or 'unless', not '{}'", show(word))));
            }
            None => return Err(ParseError::new(at, "expects 'if' or 'unless'")),
        };
        let mut alternatives = Vec::new();
        let mut terms = Vec::new();
        let mut at = at + 1;
        while let Some(word) = words.get(at) {
            match **word {
                [b'o', b'r'] | [b'|', b'|'] => {
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

    /// Tests it.
    pub fn evaluate(&self, context: &mut dyn Context) -> Verdict {
        let mut verdict = Verdict::False;
        for terms in &self.alternatives {
            let mut all = Verdict::True;
            for term in terms {
                all = all.and(term.evaluate(&mut *context));
                if all == Verdict::False {
                    break;
                }
            }
            verdict = verdict.or(all);
            if verdict == Verdict::True {
                break;
            }
        }
        verdict.negated_if(self.unless)
    }

    /// True if the condition was written with `unless`.
    pub fn is_unless(&self) -> bool {
        self.unless
    }

    /// The first test that can never match in the given places: its name (empty for an anonymous one) and the
    /// fetch at fault. Ask after the ACL table was sealed.
    pub fn conflict(&self, places: Places) -> Option<(&str, &'static str)> {
        self.alternatives.iter().flatten().find_map(|term| {
            let (name, lines) = match &term.test {
                Test::Named(acl) => (acl.name(), acl.lines()),
                Test::Anonymous(line) => ("", std::slice::from_ref(&**line)),
            };
            let wrong = lines.iter().find(|line| !line.expr().places().intersects(places))?;
            Some((name, wrong.expr().decl().name))
        })
    }

    /// True if some test needs HTTP.
    pub fn needs_http(&self) -> bool {
        self.alternatives.iter().flatten().any(|term| match &term.test {
            Test::Named(acl) => acl.lines().iter().any(|line| line.expr().decl().needs.is_http()),
            Test::Anonymous(line) => line.expr().decl().needs.is_http(),
        })
    }

    /// Calls `visit` with every reference in anonymous tests; those of named ones belong to their table.
    pub fn visit_references(&self, visit: &mut dyn FnMut(&Reference)) {
        for term in self.alternatives.iter().flatten() {
            if let Test::Anonymous(line) = &term.test {
                line.expr().visit_references(visit);
            }
        }
    }
}

/// Ends an alternative. An empty one never matches; the reference program accepts it, so it is only unusual.
fn close(alternatives: &mut Vec<Box<[Term]>>, terms: &mut Vec<Term>, at: usize, scope: &Scope<'_>) {
    if terms.is_empty() {
        scope
            .warnings
            .push(ParseError::new(at, "the condition has an empty alternative, which never matches"));
    } else {
        alternatives.push(std::mem::take(terms).into());
    }
}

impl Term {
    fn parse(words: &[&[u8]], at: &mut usize, scope: &Scope<'_>) -> Result<Term, ParseError> {
        let mut negated = false;
        let mut word = words[*at];
        // The negation may stand alone, and may be repeated.
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

    fn evaluate(&self, context: &mut dyn Context) -> Verdict {
        let verdict = match &self.test {
            Test::Named(acl) => acl.evaluate(context),
            Test::Anonymous(line) => line.evaluate(context),
        };
        verdict.negated_if(self.negated)
    }
}
