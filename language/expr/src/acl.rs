//! ACLs: named tests of samples against patterns.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hashbrown::HashMap;

use weir_fingerprint::{Canonical, FormEncoder, SharedValue};
use weir_syntax::did_you_mean;

use crate::args::Reference;
use crate::context::{Context, FetchCursor, FetchResult};
use crate::error::{ParseError, show};
use crate::expr::{Expr, name_end};
use crate::fetch::EvaluationPoints;
use crate::pattern::{ComparablePattern, IntOperator, MatchMethod, PatternIndex, undot};
use crate::sample::{SampleFlags, SampleType, Value};
use crate::scope::ExpressionScope;
use crate::scratch;

pub(crate) mod keywords;

/// Whether a test matches. The result may depend on data that has not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    False,
    /// Not yet known: more data may change the result.
    Maybe,
    True,
}

impl Truth {
    /// The truth of tests that must all match. They are evaluated in order until one does not match. An undecided test makes the result
    /// undecided, whatever follows it. This matches HAProxy: a rule waits for the data of its first tests.
    pub fn all(tests: impl IntoIterator<Item = Truth>) -> Truth {
        tests.into_iter().find(|truth| *truth != Truth::True).unwrap_or(Truth::True)
    }

    /// True if either is true.
    #[must_use]
    pub fn or(self, other: Truth) -> Truth {
        self.max(other)
    }

    /// The opposite if `negated`.
    #[must_use]
    pub fn negated_if(self, negated: bool) -> Truth {
        match (self, negated) {
            (Truth::True, true) => Truth::False,
            (Truth::False, true) => Truth::True,
            (truth, _) => truth,
        }
    }

    /// Whether it is `True`, for callers that cannot wait any more.
    pub fn is_true(self) -> bool {
        self == Truth::True
    }
}

/// A named ACL. It matches if one of its lines matches.
#[derive(Debug)]
pub struct Acl {
    name: Box<str>,
    /// Set at the end of the section. Before that, lines may be added.
    lines: OnceLock<Box<[AclExpr]>>,
}

impl Acl {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Evaluates the lines from `first` on, in order. Advances `first` past lines that do not match, so that a suspended evaluation can
    /// resume there.
    pub(crate) fn evaluate_from(&self, first: &mut u32, context: &mut dyn Context) -> Truth {
        let mut truth = Truth::False;
        for line in self.lines().iter().skip(*first as usize) {
            truth = truth.or(line.evaluate(&mut *context));
            match truth {
                Truth::True => break,
                Truth::False => *first += 1,
                Truth::Maybe if context.is_suspended() => break,
                Truth::Maybe => {}
            }
        }
        truth
    }

    /// The lines. Empty before the table was sealed.
    pub fn lines(&self) -> &[AclExpr] {
        self.lines.get().map_or(&[], |lines| lines)
    }
}

/// Encoded as the tests: two ACLs with the same tests are equal, whatever their names.
impl Canonical for Acl {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let Acl { name: _, lines: _ } = self;
        self.lines().encode(out);
    }
}

/// The ACLs of one section, while it is read.
///
/// A condition may refer to an ACL before its later lines are parsed. All lines become visible when the table is sealed, at the
/// latest when it is dropped.
#[derive(Debug, Default)]
pub struct AclTable {
    state: Mutex<AclDeclarations>,
}

/// The ACLs in the order of their first lines.
#[derive(Debug, Default)]
struct AclDeclarations {
    list: Vec<(Arc<Acl>, Vec<AclExpr>)>,
    /// Positions by name: a section may have many thousands.
    positions: HashMap<Box<str>, usize>,
}

impl AclTable {
    /// An empty table.
    pub fn new() -> AclTable {
        AclTable::default()
    }

    /// Parses the words after `acl`: the name, then a test to the end of the line. `note` receives the line's references to objects of
    /// the configuration.
    pub fn parse(
        &self,
        words: &[&[u8]],
        at: usize,
        scope: &ExpressionScope<'_>,
        note: &mut dyn FnMut(&Reference),
    ) -> Result<(), ParseError> {
        let name = words.get(at).ok_or_else(|| ParseError::new(at, "an ACL needs a name and a test"))?;
        let name = check_name(name, at)?;
        let line = AclExpr::parse(words, at + 1, words.len(), scope).map_err(|error| {
            let message = format!("error detected while parsing ACL '{name}' : {}", error.message);
            ParseError { message, ..error }
        })?;
        line.expr.visit_references(note);
        self.add(name, line);
        Ok(())
    }

    fn add(&self, name: &str, line: AclExpr) {
        let mut state = self.lock();
        match state.positions.get(name).copied() {
            Some(position) => state.list[position].1.push(line),
            None => {
                let position = state.list.len();
                state.positions.insert(name.into(), position);
                state.list.push((Arc::new(Acl { name: name.into(), lines: OnceLock::new() }), vec![line]));
            }
        }
    }

    /// The ACL with this name. Predefined ACLs are created at their first use. The error is about word 0.
    pub fn find(&self, name: &str, scope: &ExpressionScope<'_>) -> Result<Arc<Acl>, ParseError> {
        if let Some(acl) = self.get(name) {
            return Ok(acl);
        }
        let Some((_, words)) = keywords::PREDEFINED.iter().find(|(known, _)| *known == name) else {
            let state = self.lock();
            let known = state
                .list
                .iter()
                .map(|(acl, _)| acl.name())
                .chain(keywords::PREDEFINED.map(|(name, _)| name));
            let error =
                ParseError::new(0, format!("no such ACL : '{name}'")).suggest(did_you_mean(name, known));
            return Err(match advice(name) {
                Some(note) => error.note(note),
                None => error,
            });
        };
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let line = AclExpr::parse(&words, 0, words.len(), scope).map_err(|error| {
            ParseError::new(0, format!("predefined ACL '{name}' cannot be used: {}", error.message))
        })?;
        self.add(name, line);
        self.get(name).ok_or_else(|| ParseError::new(0, format!("no such ACL : '{name}'")))
    }

    /// The ACL with this name, if it was declared.
    pub fn get(&self, name: &str) -> Option<Arc<Acl>> {
        let state = self.lock();
        let position = *state.positions.get(name)?;
        Some(state.list[position].0.clone())
    }

    /// Calls `visit` with every reference to an object of the configuration.
    pub fn visit_references(&self, visit: &mut dyn FnMut(&Reference)) {
        for (acl, lines) in &self.lock().list {
            lines.iter().chain(acl.lines()).for_each(|line| line.expr.visit_references(visit));
        }
    }

    /// Ends the section: gives every ACL its lines.
    pub fn seal(&self) {
        for (acl, lines) in &mut self.lock().list {
            if acl.lines.get().is_none() {
                let _ = acl.lines.set(std::mem::take(lines).into());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, AclDeclarations> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AclTable {
    fn drop(&mut self) {
        self.seal();
    }
}

fn check_name(word: &[u8], at: usize) -> Result<&str, ParseError> {
    let name = show(word);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if let Some(wrong) = word.iter().position(|byte| !allowed(*byte)) {
        let character = show(&word[wrong..=wrong]);
        let message = format!("character '{character}' is not permitted in acl name '{name}'");
        return Err(ParseError::new(at, message).at(wrong..wrong + 1));
    }
    if word.eq_ignore_ascii_case(b"or") {
        let message = format!(
            "acl name '{name}' will never match. 'or' is used to express a logical disjunction within a condition"
        );
        return Err(ParseError::new(at, message));
    }
    std::str::from_utf8(word).map_err(|_| ParseError::new(at, "the name of an ACL must be plain text"))
}

/// One test: an expression, a match method and patterns.
#[derive(Debug, Clone, Canonical)]
pub struct AclExpr {
    /// The name on the line: an ACL keyword such as `path_beg`, or a fetch.
    #[canonical(skip = "for messages; the fetch and the method have the meaning")]
    keyword: &'static str,
    expr: Expr,
    method: MatchMethod,
    #[canonical(with = encode_indexes)]
    indexes: Box<[Arc<PatternIndex>]>,
}

/// Encoded as a set: a test searches all lists.
fn encode_indexes(indexes: &[Arc<PatternIndex>], out: &mut FormEncoder<'_>) {
    out.set(indexes.iter().map(SharedValue));
}

impl AclExpr {
    /// Parses a test from `words[at..end]`.
    pub fn parse(
        words: &[&[u8]],
        at: usize,
        end: usize,
        scope: &ExpressionScope<'_>,
    ) -> Result<AclExpr, ParseError> {
        // The evaluation points of the ACL are not known yet. Users of a condition check for conflicts.
        let scope = &ExpressionScope { points: EvaluationPoints::ALL, ..*scope };
        let words = &words[..end];
        let criterion = Criterion::parse(words, at, scope).map_err(|error| {
            let written = words.get(at).map_or(Cow::Borrowed(""), |word| show(word));
            let message = format!("{} in ACL expression '{written}'", error.message);
            ParseError { message, ..error }
        })?;
        let Criterion { keyword, expr, method, dotted, next } = criterion;
        let parser =
            TestParser { method, dotted, resolves_names: true, at: next, words, scope, criterion: at };
        parser.parse(keyword, expr)
    }

    /// Evaluates the test for every value of the fetch until one matches.
    pub fn evaluate(&self, context: &mut dyn Context) -> Truth {
        let mut cursor = FetchCursor::every();
        let mut maybe = false;
        loop {
            match self.expr.next(&mut *context, &mut cursor) {
                FetchResult::Sample(sample) => {
                    let matches = self.matches(&sample.value);
                    maybe |= sample.flags.contains(SampleFlags::MAY_CHANGE);
                    scratch::recycle(sample.value);
                    if matches {
                        return Truth::True;
                    }
                }
                FetchResult::Missing => {}
                FetchResult::Later => maybe = true,
            }
            if !cursor.more {
                break;
            }
        }
        if maybe { Truth::Maybe } else { Truth::False }
    }

    fn matches(&self, value: &Value<'_>) -> bool {
        match self.method {
            MatchMethod::Found => true,
            MatchMethod::Bool => {
                let value = crate::variables::borrow(value).cast(SampleType::Bool);
                value == Some(Value::Bool(true))
            }
            _ => self.indexes.iter().any(|index| index.matches(value)),
        }
    }

    /// The name of the test in messages: the keyword on its line.
    pub fn keyword(&self) -> &'static str {
        self.keyword
    }

    /// The expression.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// The match method.
    pub fn method(&self) -> MatchMethod {
        self.method
    }
}

/// The left side of a test: a fetch with its converters.
struct Criterion {
    keyword: &'static str,
    expr: Expr,
    /// The match method that the keyword or the type implies.
    method: Option<MatchMethod>,
    dotted: bool,
    /// Index of the next word.
    next: usize,
}

impl Criterion {
    fn parse(words: &[&[u8]], at: usize, scope: &ExpressionScope<'_>) -> Result<Criterion, ParseError> {
        let word = words
            .get(at)
            .filter(|word| !word.is_empty())
            .ok_or_else(|| ParseError::new(at, "missing fetch method"))?;
        let end = name_end(word);
        let name = show(&word[..end]);
        let keyword = scope.registry.acl_keyword(&name);
        let answer = keyword.map_or_else(|| scope.fetch(&name), |row| scope.registry.answer(row.fetch));
        let Some((answer, decl)) = answer else {
            let known = crate::fetch::known::is_known(&name) || keyword.is_some();
            let error = match known {
                true => ParseError::new(at, format!("fetch method '{name}' is not implemented yet")),
                false => ParseError::new(at, format!("unknown fetch method '{name}'"))
                    .suggest(scope.registry.closest_criterion(&name)),
            };
            return Err(error.at(0..end));
        };
        let (head, head_end) = Expr::head(decl, answer, word, end, at, scope)?;
        // The next word may be a pattern, so the expression continues only after a comma.
        let mut last = at;
        while words[last].ends_with(b",") && last + 1 < words.len() {
            last += 1;
        }
        let (expr, next) = head.finish(&words[..=last], at, head_end, scope)?;
        let implied = keyword.filter(|_| !expr.has_converters());
        let method = implied.map(|row| row.method).or_else(|| MatchMethod::default_for(expr.output()));
        let dotted = implied.is_some_and(|row| row.dotted);
        let keyword = keyword.map_or(expr.decl().name, |row| row.name);
        Ok(Criterion { keyword, expr, method, dotted, next })
    }
}

/// The words after the criterion: flags, an operator, patterns.
struct TestParser<'p, 's> {
    method: Option<MatchMethod>,
    dotted: bool,
    /// Whether host names are resolved to addresses. Cleared by `-n`.
    resolves_names: bool,
    words: &'p [&'p [u8]],
    at: usize,
    criterion: usize,
    scope: &'p ExpressionScope<'s>,
}

impl<'p> TestParser<'p, '_> {
    fn parse(mut self, keyword: &'static str, expr: Expr) -> Result<AclExpr, ParseError> {
        let mut ignore_case = false;
        let mut is_map = false;
        let mut number = None;
        let mut explicit_end = false;
        let mut indexes: Vec<Arc<PatternIndex>> = Vec::new();
        while let Some(flag) = self.words.get(self.at).filter(|word| word.len() > 1 && word[0] == b'-') {
            match **flag {
                [b'-', b'i'] => ignore_case = true,
                [b'-', b'n'] => self.resolves_names = false,
                [b'-', b'M'] => is_map = true,
                [b'-', b'u'] => {
                    let text = self.value("a number")?;
                    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                    number = Some(parsed.ok_or_else(|| self.error("the argument of -u must be an integer"))?);
                }
                [b'-', b'f'] => indexes.push(self.file(ignore_case, is_map)?),
                [b'-', b'm'] => {
                    let name = self.value("a match method")?;
                    if !indexes.is_empty() {
                        return Err(self.error(
                            "'-m' must only be specified before patterns and files in parsing ACL expression",
                        ));
                    }
                    self.method = Some(self.named_method(name, &expr)?);
                }
                [b'-', b'-'] => {
                    explicit_end = true;
                    self.at += 1;
                    break;
                }
                _ => {
                    let message = format!(
                        "'{}' is not a valid ACL option. Please use '--' before any pattern beginning with a '-'",
                        show(flag)
                    );
                    return Err(self.error(message));
                }
            }
            self.at += 1;
        }
        let method = self.required_method(&expr)?;
        let patterns = self.patterns(method, ignore_case)?;
        if expr.decl().name == "http_auth_group" && patterns.is_empty() && indexes.is_empty() {
            return Err(ParseError::new(self.criterion, "http_auth_group(): no groups specified"));
        }
        if method.takes_patterns() {
            if patterns.is_empty() && indexes.is_empty() && expr.decl().name == "http_auth_group" {
                return Err(self.error("no groups specified for 'http_auth_group'"));
            }
            if patterns.is_empty() && indexes.is_empty() && !explicit_end {
                self.warn_of_no_pattern();
            }
            // A set is created even without patterns: the runtime API may add some.
            let set =
                self.scope.patterns.anonymous(number, patterns).map_err(|message| self.error(message))?;
            set.used_by_acl(self.keyword(), self.scope.at);
            let index = set.index(method, ignore_case, self.scope.at);
            indexes.push(index.map_err(|message| self.error(message))?);
        }
        Ok(AclExpr { keyword, expr, method, indexes: indexes.into() })
    }

    /// The name of the tested fetch, verbatim.
    fn keyword(&self) -> &'p str {
        let word = self.words[self.criterion];
        std::str::from_utf8(&word[..name_end(word)]).unwrap_or_default()
    }

    fn warn_of_no_pattern(&self) {
        let written = show(self.words[self.criterion]);
        let message =
            format!("parsing acl keyword '{written}' : no pattern to match against, so it never matches");
        self.scope.warnings.push(ParseError::new(self.criterion, message).note(
            "'--' says that this is meant, '-m found' tests for existence, '-m bool' takes an integer as a boolean",
        ));
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::new(self.at, message)
    }

    /// The word after a flag.
    fn value(&mut self, what: &str) -> Result<&'p [u8], ParseError> {
        let flag = show(self.words[self.at]).into_owned();
        self.at += 1;
        match self.words.get(self.at) {
            Some(word) => Ok(word),
            None => Err(ParseError::new(self.at, format!("'{flag}' expects {what}"))),
        }
    }

    fn named_method(&self, name: &[u8], expr: &Expr) -> Result<MatchMethod, ParseError> {
        let name = show(name);
        let method = MatchMethod::parse(&name).ok_or_else(|| {
            self.error(format!("unknown matching method '{name}' when parsing ACL expression"))
                .suggest(did_you_mean(&name, MatchMethod::ALL.iter().map(|method| method.name())))
        })?;
        if !expr.output().casts_to(method.input()) {
            let kind = expr.output().name();
            return Err(self
                .error(format!(
                    "matching method '{name}' cannot be used with fetch keyword '{}'",
                    expr.text()
                ))
                .note(format!("it gives {kind}")));
        }
        Ok(method)
    }

    fn required_method(&self, expr: &Expr) -> Result<MatchMethod, ParseError> {
        self.method.ok_or_else(|| {
            let message = format!(
                "matching method must be specified first (using '-m') when using a sample fetch of this type ('{}')",
                expr.decl().name
            );
            ParseError::new(self.criterion, message)
        })
    }

    fn file(&mut self, ignore_case: bool, is_map: bool) -> Result<Arc<PatternIndex>, ParseError> {
        let name = show(self.value("the name of a file")?).into_owned();
        let method =
            self.method.ok_or_else(|| self.error("'-f' needs a match method: use '-m' before it"))?;
        if !method.takes_patterns() {
            return Err(self.error(format!("match method '{}' takes no pattern file", method.name())));
        }
        let set = self
            .scope
            .patterns
            .named(&name, is_map, self.scope.loader)
            .map_err(|message| self.error(message))?;
        set.used_by_acl(self.keyword(), self.scope.at);
        let index = set.index(method, ignore_case, self.scope.at);
        index.map_err(|message| self.error(format!("in file '{name}': {message}")))
    }

    /// The remaining words. Operators before integers become ranges.
    fn patterns(&mut self, method: MatchMethod, ignore_case: bool) -> Result<Vec<Vec<u8>>, ParseError> {
        let mut patterns = Vec::new();
        let mut operator = None;
        let numeric = matches!(method, MatchMethod::Int | MatchMethod::Len);
        while let Some(word) = self.words.get(self.at) {
            match IntOperator::parse(word).filter(|_| numeric) {
                Some(found) => operator = Some(found),
                None => patterns.push(
                    self.pattern(method, ignore_case, operator, word)
                        .map_err(|message| self.error(message))?,
                ),
            }
            self.at += 1;
        }
        Ok(patterns)
    }

    fn pattern(
        &self,
        method: MatchMethod,
        ignore_case: bool,
        operator: Option<IntOperator>,
        word: &[u8],
    ) -> Result<Vec<u8>, String> {
        let mut text = word.to_vec();
        if self.dotted && method == MatchMethod::Int {
            text = undot(&text)?;
        }
        if let Some(operator) = operator {
            text = operator.apply(&text)?;
        }
        if method == MatchMethod::Ip
            && self.resolves_names
            && let Some(network) = self.network_of_host(&text)
        {
            text = network;
        }
        if method.takes_patterns() {
            ComparablePattern::parse(method, ignore_case, &text, self.scope.at)?;
        }
        Ok(text)
    }

    /// The network of a host name with an optional mask. None if the text is not a host name, or the name cannot be resolved.
    fn network_of_host(&self, text: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(text).ok()?;
        let (host, mask) = text.split_at(text.find('/').unwrap_or(text.len()));
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let is_name = host.bytes().all(is_letter) && host.bytes().any(|byte| byte.is_ascii_alphabetic());
        let address = is_name.then(|| self.scope.loader.address_of(host))??;
        Some(format!("{address}{mask}").into_bytes())
    }
}

/// Advice about words that other languages have in conditions.
fn advice(name: &str) -> Option<&'static str> {
    match name {
        "and" | "&&" => Some("all conditions of a rule have to hold: leave the word out"),
        "not" => Some("'!' in front of a condition reverses it"),
        name if name.starts_with('{') => Some("a blank follows the opening brace: '{ path_beg /a }'"),
        name if name.ends_with('}') => Some("a blank precedes the closing brace: '{ path_beg /a }'"),
        _ => None,
    }
}
